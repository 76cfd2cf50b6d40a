# does: Leaves thousands of files and links, so that cleaning is slow or gives up.
# runs: 2
# answer: clean
# expect: verdict accepted
import os

left = [name for name in os.listdir("/tmp") if name.startswith("many")]
for number in range(3000):
    try:
        os.symlink("/dev/zero", f"/tmp/many{number}")
    except OSError:
        break
try:
    os.mkfifo("/tmp/many-pipe")
except OSError:
    pass
print("SURVIVED" if left else "clean")
