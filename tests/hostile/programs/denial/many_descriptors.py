# does: Opens files until it is refused.
# expect: output contains refused
import os

opened = []
try:
    while len(opened) < 100000:
        opened.append(os.open("/dev/null", os.O_RDONLY))
    os.write(1, b"ESCAPED\n")
except OSError:
    os.write(1, b"refused\n")
