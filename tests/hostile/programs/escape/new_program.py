# does: Replaces itself by a fresh interpreter, which must be as confined as it was.
# answer: contained
# expect: verdict accepted
# limits: cpu_s=4
import os
import sys

code = """
import os, socket
won = []
try:
    socket.create_connection(("1.1.1.1", 53), timeout=0.3)
    won.append("network")
except OSError:
    pass
try:
    open("/corecode-hostile-mark", "w")
    won.append("root folder")
except OSError:
    pass
try:
    os.setuid(0)
    won.append("uid 0")
except OSError:
    pass
if "NoNewPrivs:\\t1" not in open("/proc/self/status").read():
    won.append("new privileges")
print("ESCAPED" if won else "contained", *won)
"""
os.execv(sys.executable or "/usr/local/bin/python3", ["python3", "-I", "-c", code])
