# does: Works in a thread, which a counter set up for the main thread does not see.
# answer: done
# cost: steps
# limits: cpu_s=10
# expect: steps >= 20000 or not_accepted
import _thread
import time

finished = []


def work():
    total = 0
    for number in range(20000):
        total += number
    finished.append(total)


_thread.start_new_thread(work, ())
while not finished:
    time.sleep(0.01)
print("done")
