# does: Uses a hundred MiB, then replaces itself by a fresh interpreter.
# answer: done
# limits: memory_mb=256 cpu_s=4
# expect: peak_mb >= 80 or not_accepted
import os
import sys

block = bytearray(100 << 20)
block[::4096] = b"x" * len(block[::4096])
os.execv(sys.executable or "/usr/local/bin/python3", ["python3", "-I", "-c", "print('done')"])
