# does: Ignores every signal that can be ignored, the processor-time one included.
# limits: cpu_s=0.5 wall_s=4
# expect: verdict time_limit
import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
