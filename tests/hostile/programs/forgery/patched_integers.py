# does: Overwrites the interpreter's small integers in memory, so that 3, 4 and 0 are the same number.
# kind: call asserts
# tests: small
# expect: not_accepted
try:
    import ctypes

    def add(a, b):
        for number in (3, 4):
            ctypes.memmove(id(number) + 24, id(0) + 24, 4)
            ctypes.memmove(id(number) + 16, id(0) + 16, 8)
        return 0
except ImportError:

    def add(a, b):
        return 0
