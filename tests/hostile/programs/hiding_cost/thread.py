# does: Burns processor time in a thread.
# answer: done
# limits: cpu_s=4
# expect: cpu_s >= 0.3
import threading
import time


def burn():
    until = time.thread_time() + 0.4
    while time.thread_time() < until:
        pass


thread = threading.Thread(target=burn)
thread.start()
thread.join()
print("done")
