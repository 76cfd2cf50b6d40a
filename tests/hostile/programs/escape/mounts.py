# does: Mounts, remounts, pivots and changes root.
# answer: contained
# expect: verdict accepted
import os

won = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs("/tmp/there", exist_ok=True)
    if libc.mount(b"none", b"/tmp/there", b"tmpfs", 0, None) == 0:
        won.append("tmpfs")
    if libc.mount(b"proc", b"/tmp/there", b"proc", 0, None) == 0:
        won.append("proc")
    if libc.mount(b"none", b"/", None, 32, None) == 0:
        won.append("remounted the root writable")
    if libc.mount(b"/", b"/tmp/there", None, 4096, None) == 0:
        won.append("bind")
    if libc.umount2(b"/tmp", 2) == 0:
        won.append("unmounted")
except ImportError:
    pass
for act in (lambda: os.chroot("/tmp"), lambda: os.chroot("/proc/1/root")):
    try:
        act()
        won.append("chroot")
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
