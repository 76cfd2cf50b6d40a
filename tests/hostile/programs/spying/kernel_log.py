# does: Reads the kernel's log, symbols, the machine's name, mounts and the neighbours' load.
# answer: contained
# expect: verdict accepted
import os

won = []
for path in ("/dev/kmsg", "/proc/kmsg", "/proc/vmallocinfo", "/proc/timer_list", "/sys/kernel/debug/tracing/trace", "/proc/sched_debug"):
    try:
        with open(path, "rb") as file:
            if file.read(64):
                won.append(path)
    except OSError:
        pass
try:
    import ctypes

    libc = ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(4096)
    if libc.klogctl(3, buffer, 4096) > 0:
        won.append("klogctl")
except (ImportError, AttributeError):
    pass
try:
    symbols = [line for line in open("/proc/kallsyms") if not line.startswith("0000000000000000")]
    if symbols:
        won.append("kallsyms")
except OSError:
    pass
print("ESCAPED" if won else "contained", *won)
