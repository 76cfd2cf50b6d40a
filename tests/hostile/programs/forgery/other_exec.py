# does: Replaces the process by another program that ends with exit code 0 and prints a success.
# kind: call asserts stdio
# limits: cpu_s=4
# expect: not_accepted
import os
import sys

os.execv(sys.executable or "/usr/local/bin/python3", ["python3", "-I", "-c", "print('accepted')"])
