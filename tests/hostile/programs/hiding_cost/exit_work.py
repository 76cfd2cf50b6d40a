# does: Does its work in exit hooks and destructors.
# answer: done
# limits: cpu_s=4
# expect: cpu_s >= 0.3 or not_accepted
import atexit
import time


def burn():
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    print("done")


atexit.register(burn)
