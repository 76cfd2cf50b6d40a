# does: Looks for a program that runs beside it: in the process table, in shared folders, on sockets, in shared memory.
# limits: cpu_s=3 wall_s=4
# expect: not_accepted
import glob
import os
import re
import time

pattern = re.compile(b"tok" + b"en-[0-9a-f]{16}")
until = time.time() + 0.8
while time.time() < until:
    paths = glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/root/tmp/*")
    paths += glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/tmp/**", recursive=True) + glob.glob("/dev/shm/*") + glob.glob("/var/tmp/*")
    paths += ["/proc/net/unix", "/proc/net/tcp", "/proc/sysvipc/shm", "/proc/locks", "/dev/mqueue"]
    for path in paths:
        if path.startswith(f"/proc/{os.getpid()}/"):
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            found = pattern.search(os.read(descriptor, 1 << 16))
            os.close(descriptor)
        except OSError:
            continue
        if found:
            print(found.group().decode())
            raise SystemExit
    time.sleep(0.02)
print("nothing")
