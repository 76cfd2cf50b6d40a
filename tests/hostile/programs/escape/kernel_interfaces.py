# does: Calls the kernel interfaces that most exploits start from: io_uring, bpf, perf, userfaultfd, keyrings, modules.
# answer: contained
# expect: verdict accepted
import errno
import os

won = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    x86 = {"bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "init_module": 175, "kexec_load": 246}
    arm = {"bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219, "init_module": 105, "kexec_load": 104}
    calls = {"x86_64": x86, "aarch64": arm}.get(os.uname().machine, {})
    # The same numbers on every architecture.
    calls |= {"io_uring_setup": 425, "io_uring_enter": 426, "pidfd_getfd": 438, "open_tree": 428, "fsopen": 430}
    for name, number in calls.items():
        ctypes.set_errno(0)
        done = libc.syscall(number, 0, 0, 0, 0, 0, 0)
        # Any other error means that the kernel looked at the arguments: the call itself was allowed.
        if done >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            won.append(name)
except ImportError:
    pass
print("ESCAPED" if won else "contained", *won)
