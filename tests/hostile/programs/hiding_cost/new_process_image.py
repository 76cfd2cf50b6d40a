# does: Uses time, then replaces itself by a fresh interpreter.
# answer: done
# limits: cpu_s=4
# expect: cpu_s >= 0.3 or not_accepted
import os
import sys
import time

until = time.process_time() + 0.4
while time.process_time() < until:
    pass
os.execv(sys.executable or "/usr/local/bin/python3", ["python3", "-I", "-c", "print('done')"])
