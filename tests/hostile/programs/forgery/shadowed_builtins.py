# does: Defines functions named like builtins in its own module, where the tests look names up first.
# kind: call asserts
# tests: order
# expect: not_accepted
class Yes:
    def __eq__(self, other):
        return True

    def __bool__(self):
        return True


def sorted(*a, **k):
    return Yes()


len = isinstance = set = all = any = list = tuple = sorted


def order(items):
    return None
