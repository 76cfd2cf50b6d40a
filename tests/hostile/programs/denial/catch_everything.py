# does: Catches every exception, the keyboard interrupt included, and goes on.
# limits: cpu_s=0.5 wall_s=1.5
# expect: verdict time_limit
import time

try:
    while True:
        time.sleep(0.2)
except BaseException:
    pass
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
