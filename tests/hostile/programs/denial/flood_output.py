# does: Prints without end.
# limits: cpu_s=2 output_kb=256
# expect: verdict output_limit
import sys

while True:
    sys.stdout.write("A" * 65536)
