# does: Makes empty files and folders, which cost kernel memory and no file size.
# limits: cpu_s=0.5 wall_s=1 memory_mb=64
# expect: not_accepted
import os

number = 0
while True:
    try:
        os.mkdir(f"/tmp/{number}")
    except OSError:
        pass
    number += 1
