# does: Changes the arguments it was given, in the hope that they are compared afterwards.
# kind: call asserts
# tests: order
# expect: not_accepted
def order(items):
    items.clear()
    items.append(items)
    return items
