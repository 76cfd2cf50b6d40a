# does: Searches its whole memory, address by address, for the expected answer.
# kind: stdio call asserts
# tests: secret
# limits: cpu_s=6
# expect: not_accepted
import re


def readable():
    for line in open("/proc/self/maps"):
        fields = line.split()
        if fields[1].startswith("rw") and fields[-1] not in ("[vvar]", "[vsyscall]", "[vdso]"):
            start, end = (int(x, 16) for x in fields[0].split("-"))
            yield start, min(end - start, 64 << 20)


def search():
    import ctypes

    pattern = re.compile(b"tok" + b"en-[0-9a-f]{16}")
    for start, size in readable():
        try:
            found = pattern.search(ctypes.string_at(start, size))
        except (MemoryError, OSError):
            continue
        if found:
            return found.group().decode()
    return "nothing"


def secret(number):
    return search()


print(search())
