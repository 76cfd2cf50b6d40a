# does: Replaces the import function and the import path hooks.
# kind: call asserts
# expect: not_accepted
import builtins
import sys


class Yes:
    def __getattr__(self, name):
        return self

    def __call__(self, *a, **k):
        return self

    def __eq__(self, other):
        return True


builtins.__import__ = lambda *a, **k: Yes()
sys.meta_path.insert(0, Yes())
sys.path_hooks.clear()


def add(a, b):
    return Yes()
