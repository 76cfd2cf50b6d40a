# does: Forks until it is refused, each child as well.
# limits: cpu_s=1 wall_s=2
# expect: not_accepted
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
