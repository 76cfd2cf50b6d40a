# does: Uses a hundred MiB in a child that it never waits for.
# answer: done
# limits: memory_mb=256
# expect: peak_mb >= 80
import os
import time

reading, writing = os.pipe()
if os.fork() == 0:
    block = bytearray(100 << 20)
    block[::4096] = b"x" * len(block[::4096])
    os.write(writing, b"x")
    time.sleep(60)
    os._exit(0)
os.read(reading, 1)
print("done")
