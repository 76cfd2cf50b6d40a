# does: Matches a pattern that backtracks for years.
# limits: cpu_s=0.5 wall_s=4
# expect: verdict time_limit
import re

re.match(r"(a+)+$", "a" * 60 + "b")
