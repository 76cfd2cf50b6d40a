# does: Stops, interrupts and kills the first process, its parent and all others.
# expect: verdict wrong_answer|runtime_error
import os
import signal

for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGKILL):
    for pid in (1, os.getppid(), -1):
        try:
            os.kill(pid, number)
        except OSError:
            pass
print("still here")
