# does: Overwrites, renames or deletes the interpreter and its standard library.
# answer: contained
# expect: verdict accepted
import json
import os
import sys

won = []
for path in (sys.executable, json.__file__, os.__file__):
    for act in (lambda p: open(p, "r+b"), lambda p: os.rename(p, p + ".old"), os.unlink, lambda p: os.chmod(p, 0o777)):
        try:
            act(path)
            won.append(path)
        except (OSError, TypeError):
            pass
print("ESCAPED" if won else "contained", *won)
