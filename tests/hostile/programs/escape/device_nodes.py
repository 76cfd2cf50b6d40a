# does: Makes device nodes for the disk and the memory, and opens them.
# answer: contained
# expect: verdict accepted
import os
import stat

won = []
for name, kind, device in (("disk", stat.S_IFBLK, (8, 0)), ("disk2", stat.S_IFBLK, (254, 0)), ("memory", stat.S_IFCHR, (1, 1))):
    for folder in ("/tmp", "/dev/shm"):
        path = f"{folder}/{name}"
        try:
            os.mknod(path, kind | 0o600, os.makedev(*device))
            open(path, "rb").close()
            won.append(path)
        except OSError:
            pass
print("ESCAPED" if won else "contained", *won)
