# does: Lowers the limits, the priority and the processor set, so that the next program is starved.
# runs: 2
# answer: clean
# expect: verdict accepted
import os
import resource

left = []
if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 5 or os.getpriority(os.PRIO_PROCESS, 0) == 19:
    left.append("limits")
for kind, amount in ((resource.RLIMIT_NOFILE, 5), (resource.RLIMIT_STACK, 1 << 20)):
    try:
        resource.setrlimit(kind, (amount, amount))
    except (OSError, ValueError):
        pass
for who in (0, os.getppid(), 1):
    try:
        os.setpriority(os.PRIO_PROCESS, who, 19)
        os.sched_setaffinity(who, {0})
    except OSError:
        pass
os.umask(0o777)
print("SURVIVED" if left else "clean", *left)
