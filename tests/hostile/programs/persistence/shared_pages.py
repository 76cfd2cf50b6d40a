# does: Writes into every shared writable mapping that it inherited.
# runs: 2
# answer: clean
# expect: verdict accepted
written = 0
for line in open("/proc/self/maps"):
    fields = line.split()
    if fields[1].startswith("rw") and fields[1].endswith("s"):
        start, end = (int(x, 16) for x in fields[0].split("-"))
        try:
            with open("/proc/self/mem", "r+b", 0) as memory:
                memory.seek(start)
                memory.write(b"\xff" * min(end - start, 65536))
                written += 1
        except OSError:
            pass
print("clean")
