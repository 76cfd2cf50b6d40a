# does: Leaves its dead children unburied until no process can be made.
# limits: cpu_s=1 wall_s=3 processes=16
# expect: output lacks ESCAPED
import os

made = 0
try:
    while made < 3000:
        if os.fork() == 0:
            os._exit(0)
        made += 1
    print("ESCAPED")
except OSError:
    print("refused", made)
