# does: Passes the processor-time limit in sum, each child staying below it.
# limits: cpu_s=0.5 wall_s=4
# expect: not_accepted
import os
import time

children = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        until = time.process_time() + 0.4
        while time.process_time() < until:
            pass
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
print("done")
