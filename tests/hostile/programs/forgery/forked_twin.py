# does: Forks inside the function, so that two processes report.
# kind: call
# expect: not_accepted
import os


def add(a, b):
    if os.fork() == 0:
        return a + b
    os.wait()
    return -1
