# does: Starts threads until it is refused.
# limits: cpu_s=1 wall_s=3 processes=16
# expect: output lacks ESCAPED
import os
import threading
import time

started = 0
try:
    while started < 2000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        started += 1
    print("ESCAPED", flush=True)
except (RuntimeError, MemoryError):
    print("refused" if started < 200 else "ESCAPED", started, flush=True)
os._exit(0)
