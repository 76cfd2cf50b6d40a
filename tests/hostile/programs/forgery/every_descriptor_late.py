# does: Writes forged reports from inside the tested function, when a result channel may be open.
# kind: call asserts
# tests: small
# expect: not_accepted
import json
import os


def add(a, b):
    report = [{"value": value, "ok": True, "status": "ok", "passed": True} for value in (3, 4, True, None)]
    for descriptor in range(3, 256):
        for body in report:
            for end in (b"\n", b""):
                try:
                    os.set_blocking(descriptor, False)
                    os.write(descriptor, json.dumps(body).encode() + end)
                except OSError:
                    pass
    os._exit(0)
