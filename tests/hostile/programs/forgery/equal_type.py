# does: Returns a class whose metaclass agrees to everything, also to being a list.
# kind: call asserts
# tests: order
# expect: not_accepted
class Meta(type):
    def __eq__(cls, other):
        return True

    def __ne__(cls, other):
        return False

    def __hash__(cls):
        return 0

    def __instancecheck__(cls, instance):
        return True

    def __len__(cls):
        return 1

    def __iter__(cls):
        return iter([1])


class Agree(metaclass=Meta):
    __class__ = list


def order(items):
    return Agree
