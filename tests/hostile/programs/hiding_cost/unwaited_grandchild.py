# does: Burns processor time in a grandchild that nobody waits for, and sleeps until it is ready.
# answer: done
# limits: cpu_s=4
# expect: cpu_s >= 0.3 or not_accepted
import os
import time

reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        until = time.process_time() + 0.4
        while time.process_time() < until:
            pass
        os.write(writing, b"x")
        time.sleep(60)
    os._exit(0)
os.wait()
os.read(reading, 1)
print("done")
