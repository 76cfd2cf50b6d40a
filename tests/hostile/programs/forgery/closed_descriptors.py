# does: Closes or replaces every descriptor, so that a report on what went wrong cannot leave.
# kind: stdio call asserts
# expect: not_accepted
import os

null = os.open("/dev/null", os.O_RDWR)
for descriptor in range(256):
    if descriptor != null:
        try:
            os.dup2(null, descriptor)
        except OSError:
            pass


def add(a, b):
    return 0
