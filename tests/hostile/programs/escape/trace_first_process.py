# does: Traces the first process and its parent, and reads and writes their memory.
# answer: contained
# expect: verdict accepted
import os

won = []
for pid in {1, os.getppid()}:
    for path, mode in ((f"/proc/{pid}/mem", "r+b"), (f"/proc/{pid}/mem", "rb"), (f"/proc/{pid}/syscall", "rb")):
        try:
            with open(path, mode) as file:
                file.read(1)
            won.append(path)
        except OSError:
            pass
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for pid in {1, os.getppid()}:
        if libc.ptrace(16, pid, 0, 0) == 0:
            won.append(f"attached to {pid}")
        if libc.ptrace(0x4206, pid, 0, 0) == 0:
            won.append(f"seized {pid}")
        buffer = ctypes.create_string_buffer(8)
        vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
        if libc.process_vm_readv(pid, vector, 1, (ctypes.c_size_t * 2)(0x400000, 8), 1, 0) > 0:
            won.append(f"read {pid}")
    if libc.ptrace(0, 0, 0, 0) == 0:
        won.append("ptrace is allowed")
except ImportError:
    pass
print("ESCAPED" if won else "contained", *won)
