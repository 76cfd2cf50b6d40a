# does: Uses a hundred MiB in a child.
# answer: done
# limits: memory_mb=256
# expect: peak_mb >= 80 or not_accepted
import os

if os.fork() == 0:
    block = bytearray(100 << 20)
    block[::4096] = b"x" * len(block[::4096])
    os._exit(0)
os.wait()
print("done")
