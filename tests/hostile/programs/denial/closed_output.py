# does: Closes its outputs and goes on without end.
# limits: cpu_s=0.5 wall_s=2
# expect: verdict time_limit
import os

for descriptor in range(3):
    os.close(descriptor)
while True:
    pass
