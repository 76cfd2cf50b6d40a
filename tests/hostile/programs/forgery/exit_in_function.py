# does: Ends with exit code 0 from inside the tested function.
# kind: call asserts
# expect: not_accepted
def add(a, b):
    raise SystemExit(0)
