# does: Leaves a process of its own session that ignores every signal and writes a file again and again.
# runs: 2
# answer: clean
# expect: verdict accepted
import os
import signal
import time

time.sleep(0.1)
left = []
for name in os.listdir("/proc"):
    try:
        if name.isdigit() and open(f"/proc/{name}/comm").read().strip() == "hostilemark":
            left.append(name)
    except OSError:
        pass
if os.path.exists("/tmp/written-by-daemon"):
    left.append("file")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        try:
            import ctypes

            ctypes.CDLL(None).prctl(15, b"hostilemark", 0, 0, 0)
        except ImportError:
            pass
        while True:
            with open("/tmp/written-by-daemon", "w") as file:
                file.write("alive")
            time.sleep(0.01)
    os._exit(0)
time.sleep(0.05)
print("SURVIVED" if left else "clean", *left)
