# does: Learns from a second call in the same process what the first one was compared with.
# kind: call asserts
# tests: secret
# expect: not_accepted
import sys

seen = []


def secret(number):
    frame = sys._getframe(1)
    seen.append(dict(frame.f_locals))
    for scope in seen:
        for value in scope.values():
            if type(value) is str and value.startswith("tok" + "en-"):
                return value
    return "nothing"
