# does: Returns an object that is equal to everything.
# kind: call asserts
# expect: not_accepted
class Equal:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __len__(self):
        return 0

    def __bool__(self):
        return True

    def __hash__(self):
        return 0

    def __lt__(self, other):
        return True

    __gt__ = __le__ = __ge__ = __lt__

    def __iter__(self):
        return iter([self])

    def __contains__(self, item):
        return True

    def __sub__(self, other):
        return 0

    __rsub__ = __abs__ = __round__ = lambda self, *rest: 0


def add(a, b):
    return Equal()
