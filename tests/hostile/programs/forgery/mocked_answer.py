# does: Returns the standard library's own always-equal object.
# kind: call asserts
# expect: not_accepted
from unittest import mock


def add(a, b):
    return mock.ANY
