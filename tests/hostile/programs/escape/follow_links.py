# does: Leaves through symbolic links, dot-dot and the first process's root and working folder.
# answer: contained
# expect: verdict accepted
import os

won = []
os.symlink("/proc/1/root", "/tmp/root")
os.symlink("/proc/1/cwd", "/tmp/cwd")
for path in ("/tmp/root/etc/passwd", "/tmp/cwd/pyproject.toml", "/proc/1/root/", "/proc/1/cwd/", "/proc/1/exe"):
    try:
        open(path, "rb").close()
        won.append(path)
    except IsADirectoryError:
        won.append(path)
    except OSError:
        pass
here = os.open("/", os.O_RDONLY)
for _ in range(50):
    os.chdir("..")
if os.path.exists("pyproject.toml") or os.path.exists("/.git") or os.stat(".").st_ino != os.fstat(here).st_ino:
    won.append("above the root")
print("ESCAPED" if won else "contained", *won)
