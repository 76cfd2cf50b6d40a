# does: Registers exit hooks that turn every ending into exit code 0.
# kind: call asserts
# expect: not_accepted
import atexit
import os
import sys
import threading

atexit.register(os._exit, 0)
threading._register_atexit(os._exit, 0)
sys.exit = lambda *a: os._exit(0)


class Last:
    def __del__(self):
        os._exit(0)


last = Last()


def add(a, b):
    raise RuntimeError
