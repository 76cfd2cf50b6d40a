# does: Answers with text that grows without bound when the judge reads it as a number or a sequence.
# kind: call asserts
# tests: order
# expect: not_accepted
import json
import os
import struct

bombs = [
    '{"!":"Fraction","v":"1e99999999999"}',
    '{"!":"Decimal","v":"1e999999999999999999"}',
    '{"!":"range","v":[0,1000000000000000000,1]}',
    '{"!":"int","v":"0x' + "f" * 50000 + '"}',
    '{"!":"dict","v":[' + ",".join(f"[{(2**61 - 1) * n},0]" for n in range(1, 1500)) + "]}",
    "[" * 20000,
    '{"!":"deque","v":["x","x"]}',
    '{"!":"frozenset","v":[[1]]}',
    '{"!":"complex","v":["1e9999","nan"]}',
]


def order(items):
    bomb = bombs[len(items) % len(bombs)] if len(items) != 3 else bombs[0]
    for descriptor in range(3, 64):
        for message in (json.dumps({"value": bomb}).encode(), struct.pack("!I", len(bomb) + 10) + b'{"value":' + bomb.encode() + b"}"):
            try:
                os.write(descriptor, message)
                break
            except OSError:
                pass
    os._exit(0)
