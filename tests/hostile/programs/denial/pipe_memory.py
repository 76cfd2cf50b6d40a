# does: Parks memory in the kernel, inside enlarged pipes that no memory count shows.
# limits: cpu_s=2 memory_mb=64
# expect: output lacks ESCAPED
import fcntl
import os

parked = 0
ends = []
try:
    while parked < 300 << 20:
        reading, writing = os.pipe()
        ends.append(reading)
        os.set_blocking(writing, False)
        try:
            fcntl.fcntl(writing, 1031, 1 << 20)
        except OSError:
            pass
        while True:
            try:
                parked += os.write(writing, b"x" * 65536)
            except BlockingIOError:
                break
except OSError:
    pass
print("ESCAPED" if parked >= 200 << 20 else "refused", parked >> 20)
