# does: Prints the answer, closes its outputs and works on.
# answer: done
# limits: cpu_s=0.5 wall_s=3
# expect: verdict time_limit
import os
import sys

print("done", flush=True)
for descriptor in range(3):
    os.close(descriptor)
while True:
    pass
