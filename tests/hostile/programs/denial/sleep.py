# does: Sleeps without using the processor.
# limits: cpu_s=0.5 wall_s=1
# expect: verdict time_limit
import time

time.sleep(1000)
