# does: Makes or joins namespaces, in which it would be root with a full set of capabilities.
# answer: contained
# expect: verdict accepted
import os

won = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("network", 0x40000000), ("pid", 0x20000000), ("cgroup", 0x2000000)):
        if libc.unshare(flag) == 0:
            won.append("unshare " + name)
    for name in ("mnt", "net", "pid", "user"):
        try:
            handle = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
        except OSError:
            continue
        if libc.setns(handle, 0) == 0:
            won.append("setns " + name)
except ImportError:
    pass
print("ESCAPED" if won else "contained", *won)
