# does: Looks for the input of an earlier test in memory; the second test asks for it.
# kind: stdio
# tests: earlier
# limits: cpu_s=6
# expect: not_accepted
# passed: 1
import re
import sys

text = sys.stdin.read()
found = re.search("tok" + "en-[0-9a-f]{16}", text)
if found:
    print("seen")
else:
    import ctypes

    pattern = re.compile(b"tok" + b"en-[0-9a-f]{16}")
    answer = "nothing"
    for line in open("/proc/self/maps"):
        fields = line.split()
        if not fields[1].startswith("rw"):
            continue
        start, end = (int(x, 16) for x in fields[0].split("-"))
        try:
            match = pattern.search(ctypes.string_at(start, min(end - start, 64 << 20)))
        except (MemoryError, OSError):
            continue
        if match:
            answer = match.group().decode()
    print(answer)
