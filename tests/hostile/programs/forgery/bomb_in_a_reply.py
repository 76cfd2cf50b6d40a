# does: Replies to the process that holds the tests with a number that takes forever to build.
# kind: asserts
# tests: order
# limits: cpu_s=1 wall_s=2
# expect: not_accepted
import os
import struct

body = b'{"value":{"!":"Fraction","v":"1e99999999999"}}'
for descriptor in range(3, 64):
    try:
        os.write(descriptor, (struct.pack("!I", 2) + b"{}") * 1 + (struct.pack("!I", len(body)) + body) * 50)
    except OSError:
        pass
while True:
    pass
