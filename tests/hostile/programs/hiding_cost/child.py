# does: Burns processor time in a child.
# answer: done
# limits: cpu_s=4
# expect: cpu_s >= 0.3
import os
import time

if os.fork() == 0:
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    os._exit(0)
os.wait()
print("done")
