# does: Waits in a second process for the checker's files, which hold the expected answer.
# kind: stdio
# checker: tokens
# limits: cpu_s=2 wall_s=3
# expect: not_accepted
import glob
import os
import re
import time

pattern = re.compile("tok" + "en-[0-9a-f]{16}")
if os.fork() == 0:
    os.setsid()
    until = time.time() + 2.5
    while time.time() < until:
        for path in glob.glob("/tmp/**", recursive=True) + glob.glob("/dev/shm/*"):
            try:
                found = pattern.search(open(path).read())
                if found:
                    print(found.group(), flush=True)
                    os._exit(0)
            except OSError:
                pass
    os._exit(0)
print("nothing", flush=True)
time.sleep(0.5)
