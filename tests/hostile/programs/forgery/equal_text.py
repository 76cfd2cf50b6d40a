# does: Returns strings, lists and dictionaries whose comparison always agrees.
# kind: call asserts
# tests: order
# expect: not_accepted
class Items(list):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


def order(items):
    return Items()
