# does: Starts five thousand sleeping children.
# limits: cpu_s=1 wall_s=3 processes=16
# expect: output lacks ESCAPED
# expect: output contains refused
import os
import time

started = 0
try:
    while started < 5000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        started += 1
    print("ESCAPED")
except OSError:
    print("refused" if started < 200 else "ESCAPED", started)
