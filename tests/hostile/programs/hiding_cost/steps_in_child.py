# does: Works in a child, which a counter in the parent does not see.
# answer: done
# cost: steps
# limits: cpu_s=10
# expect: steps >= 20000 or not_accepted
import os

if os.fork() == 0:
    total = 0
    for number in range(20000):
        total += number
    os._exit(0)
os.wait()
print("done")
