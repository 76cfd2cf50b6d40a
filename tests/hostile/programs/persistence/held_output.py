# does: Leaves a child that keeps the output pipe open; the judge must not wait for it.
# runs: 2
# answer: clean
# expect: verdict accepted
# expect: wall_s <= 3
import os
import time

print("clean", flush=True)
if os.fork() == 0:
    time.sleep(60)
    print("late")
os._exit(0)
