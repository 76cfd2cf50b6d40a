# does: Writes one file of a gigabyte, and a sparse one of a terabyte.
# limits: cpu_s=3 file_mb=16
# expect: output lacks ESCAPED
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with open("/tmp/big", "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
            file.flush()
    print("ESCAPED")
except OSError:
    print("refused")
try:
    with open("/tmp/sparse", "wb") as file:
        file.truncate(1 << 40)
    print("ESCAPED")
except OSError:
    print("refused")
