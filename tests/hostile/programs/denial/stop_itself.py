# does: Stops itself, so that it uses no time and does not end.
# limits: cpu_s=0.5 wall_s=1
# expect: verdict time_limit
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)
