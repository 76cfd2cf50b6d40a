# does: Returns a list nested deeper than a parser can follow.
# kind: call asserts
# tests: order
# expect: not_accepted
import sys

sys.setrecursionlimit(1 << 30)


def order(items):
    deep = []
    for _ in range(5000):
        deep = [deep]
    return deep
