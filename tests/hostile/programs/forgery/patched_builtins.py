# does: Replaces builtins, so that checks of a list mean nothing.
# kind: call asserts
# tests: order
# limits: cpu_s=0.5 wall_s=1
# expect: not_accepted
import builtins


class Yes:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __call__(self, *a, **k):
        return self

    def __iter__(self):
        return iter([])

    def __bool__(self):
        return True

    def __hash__(self):
        return 0


for name in ("sorted", "len", "isinstance", "set", "all", "any", "sum", "abs", "round", "list", "tuple", "type", "map", "zip", "repr"):
    setattr(builtins, name, Yes())


def order(items):
    return None
