# does: Returns a float next to the integer that is right, and a truth value in its place.
# kind: call
# expect: not_accepted
def add(a, b):
    return a + b + 1e-9
