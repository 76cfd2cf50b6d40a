# does: Returns objects that serialise as something else (repr, str, reduce, iteration, index, float).
# kind: call asserts
# tests: small
# expect: not_accepted
class Liar(int):
    def __repr__(self):
        return "3"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        return int, (3,)

    def __index__(self):
        return 3

    def __int__(self):
        return 3

    def __float__(self):
        return 3.0

    def __format__(self, spec):
        return "3"


def add(a, b):
    return Liar(-7)
