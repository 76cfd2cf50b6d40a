# does: Replaces entries of sys.modules by objects that say yes.
# kind: call asserts
# expect: not_accepted
import sys


class Yes(type(sys)):
    def __getattr__(self, name):
        return lambda *a, **k: True


for name in ("json", "os", "math", "builtins", "io", "pickle", "operator", "types", "copy", "unittest", "traceback", "runner"):
    sys.modules[name] = Yes(name)
sys.modules["__main__"] = Yes("__main__")


def add(a, b):
    return 0
