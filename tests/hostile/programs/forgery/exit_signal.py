# does: Sets an alarm whose handler ends the process with exit code 0.
# kind: call asserts
# expect: not_accepted
import os
import signal

for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGXCPU, signal.SIGUSR1):
    signal.signal(number, lambda *a: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.05)


def add(a, b):
    while True:
        pass
