# does: Overflows the C stack.
# limits: cpu_s=1 wall_s=3
# expect: verdict runtime_error|memory_limit|time_limit
import sys

sys.setrecursionlimit(1 << 30)
nested = []
for _ in range(1_000_000):
    nested = [nested]
repr(nested)
