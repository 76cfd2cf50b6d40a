# does: Asks for user 0, every group and all capabilities.
# answer: contained
# expect: verdict accepted
import os

won = []
for act in (
    lambda: os.setuid(0),
    lambda: os.setresuid(0, 0, 0),
    lambda: os.setgid(0),
    lambda: os.setgroups([0, 1, 2]),
    lambda: os.seteuid(0),
):
    try:
        act()
        won.append("changed identity")
    except OSError:
        pass
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
if os.getuid() == 0 or os.geteuid() == 0:
    won.append("uid 0")
for field in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
    if int(status[field], 16):
        won.append(field)
if status["NoNewPrivs"].strip() != "1":
    won.append("new privileges")
print("ESCAPED" if won else "contained", *won)
