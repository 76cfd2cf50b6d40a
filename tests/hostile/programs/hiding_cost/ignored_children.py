# does: Tells the kernel to forget its children, whose time would then be counted nowhere.
# answer: done
# limits: cpu_s=4
# expect: cpu_s >= 0.3 or not_accepted
import os
import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
reading, writing = os.pipe()
if os.fork() == 0:
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    os.write(writing, b"x")
    os._exit(0)
os.read(reading, 1)
time.sleep(0.05)
print("done")
