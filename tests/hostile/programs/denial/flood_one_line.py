# does: Builds one line of a gigabyte out of one write call after another, without a newline.
# limits: cpu_s=2 output_kb=512
# expect: verdict output_limit|time_limit
import os

while True:
    os.write(1, b"9" * 4096)
