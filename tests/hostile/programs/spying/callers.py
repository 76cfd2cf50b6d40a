# does: Searches the local and global variables and constants of its callers.
# kind: stdio call asserts
# tests: secret
# expect: not_accepted
import re
import sys


def search():
    pattern = re.compile("tok" + "en-[0-9a-f]{16}")
    frame = sys._getframe()
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals, frame.f_builtins, frame.f_code.co_consts):
            found = pattern.search(repr(scope))
            if found:
                return found.group()
        frame = frame.f_back
    return "nothing"


def secret(number):
    return search()


print(search())
