# does: Returns values that plain data cannot hold: a cycle, a deep nest, a huge integer, a surrogate.
# kind: call asserts
# tests: order
# expect: not_accepted
calls = 0


def order(items):
    global calls
    calls += 1
    deep = []
    for _ in range(100000):
        deep = [deep]
    cycle = []
    cycle.append(cycle)
    choices = [deep, cycle, 10**10000, "\ud800", b"\xff", 1j, {1: 2, "1": 3}, {(1, 2): 3}, float("nan"), object(), order]
    return choices[(len(items) + calls) % len(choices)]
