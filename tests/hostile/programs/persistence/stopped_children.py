# does: Leaves children that are stopped, and one that respawns itself faster than it can be killed.
# runs: 2
# answer: clean
# expect: verdict accepted
import os
import signal
import time

left = [n for n in os.listdir("/proc") if n.isdigit() and int(n) not in (1, os.getpid(), os.getppid())]
for _ in range(3):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    os.kill(child, signal.SIGSTOP)
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            if os.fork() > 0:
                os._exit(0)
        except OSError:
            pass
print("SURVIVED" if left else "clean", *left)
