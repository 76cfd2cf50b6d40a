# does: Leaves a key in the kernel's keyrings.
# runs: 2
# answer: clean
# expect: verdict accepted
import os

left = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    add, request = {"x86_64": (248, 249), "aarch64": (217, 218)}.get(os.uname().machine, (0, 0))
    if add:
        if libc.syscall(request, b"user", b"mark", None, 0) > 0:
            left.append("key")
        for ring in (-3, -4, -5):
            libc.syscall(add, b"user", b"mark", b"x", 1, ring)
except ImportError:
    pass
print("SURVIVED" if left else "clean", *left)
