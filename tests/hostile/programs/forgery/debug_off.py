# does: Switches assertions off for whatever is compiled afterwards.
# kind: asserts
# expect: not_accepted
import builtins
import sys

real = builtins.compile
builtins.compile = lambda source, name, mode, *a, **k: real(source, name, mode, optimize=2)
builtins.exec = lambda *a, **k: None
builtins.eval = lambda *a, **k: True
try:
    import ctypes

    ctypes.c_int.in_dll(ctypes.pythonapi, "Py_OptimizeFlag").value = 2
except (ImportError, ValueError):
    pass


def add(a, b):
    return 0
