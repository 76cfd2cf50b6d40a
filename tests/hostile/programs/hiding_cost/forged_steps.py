# does: Reports a low step count of its own to every descriptor.
# answer: done
# cost: steps
# limits: cpu_s=10
# expect: steps >= 20000 or not_accepted
import os
import struct
import sys

total = 0
for number in range(20000):
    total += number
print("done", flush=True)
for descriptor in range(3, 256):
    for report in (b"1", b"1\n", b'{"steps": 1}\n', struct.pack("<Q", 1), struct.pack(">Q", 1)):
        try:
            os.write(descriptor, report)
        except OSError:
            break
os._exit(0)
