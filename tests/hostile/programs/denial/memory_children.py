# does: Spreads 800 MiB over eight children at a time.
# limits: cpu_s=2 wall_s=4 memory_mb=64
# expect: not_accepted
# expect: output lacks ESCAPED
import os
import time

alive = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        block = bytearray(100 << 20)
        block[::4096] = b"x" * len(block[::4096])
        time.sleep(20)
        os._exit(0)
    alive.append(pid)
time.sleep(1.5)
held = 0
for pid in alive:
    try:
        pages = int(open(f"/proc/{pid}/statm").read().split()[1])
        held += pages * 4096 >> 20
    except (OSError, IndexError, ValueError):
        pass
print("ESCAPED" if held >= 760 else "refused", held)
