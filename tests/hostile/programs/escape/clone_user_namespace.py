# does: Makes a user namespace through clone and clone3, past a filter that only knows unshare.
# answer: contained
# expect: verdict accepted
import os
import signal

won = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
    if clone:
        pid = libc.syscall(clone, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)
            won.append("clone")
    arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
    pid = libc.syscall(435, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
        won.append("clone3")
except ImportError:
    pass
print("ESCAPED" if won else "contained", *won)
