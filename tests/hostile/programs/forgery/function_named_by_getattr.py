# does: Answers every name, so that the test finds a function and every check agrees.
# kind: call asserts
# expect: not_accepted
import sys


class Module(type(sys)):
    def __getattr__(self, name):
        return lambda *a, **k: self

    def __eq__(self, other):
        return True

    __hash__ = type(sys).__hash__


module = Module("__main__")
sys.modules["__main__"] = module
globals().clear()
