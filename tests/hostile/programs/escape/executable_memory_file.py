# does: Writes a program of its own into /tmp, /dev/shm and memory, makes it executable and runs it with more rights.
# answer: contained
# expect: verdict accepted
import os
import stat
import subprocess

won = []
script = b"#!/bin/sh\nid -u > /corecode-hostile-mark && echo root\n"
paths = ["/tmp/run", "/dev/shm/run"]
try:
    paths.append(f"/proc/self/fd/{os.memfd_create('run', 0)}")
except OSError:
    pass
for path in paths:
    try:
        with open(path, "wb") as file:
            file.write(script)
        os.chmod(path, stat.S_ISUID | 0o777)
        if b"root" in subprocess.run([path], capture_output=True, timeout=1).stdout:
            won.append(path)
    except (OSError, subprocess.SubprocessError):
        pass
print("ESCAPED" if won else "contained", *won)
