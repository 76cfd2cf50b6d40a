# does: Asks for real-time scheduling, in front of everything else on the machine.
# answer: refused
# expect: verdict accepted
import os

won = []
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    try:
        os.sched_setscheduler(0, policy, os.sched_param(99))
        won.append(policy)
    except OSError:
        pass
try:
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    won.append("nice")
except OSError:
    pass
print("ESCAPED" if won else "refused")
