# does: Searches its parent's and the first process's memory, arguments and environment.
# kind: stdio call asserts
# tests: secret
# limits: cpu_s=6
# expect: not_accepted
import os
import re


def search():
    pattern = re.compile(b"tok" + b"en-[0-9a-f]{16}")
    for pid in sorted({1, os.getppid()}):
        for name in ("cmdline", "environ", "mem", "maps", "stack", "auxv"):
            try:
                with open(f"/proc/{pid}/{name}", "rb", 0) as file:
                    found = pattern.search(file.read(1 << 20))
            except OSError:
                continue
            if found:
                return found.group().decode()
    return "nothing"


def secret(number):
    return search()


print(search())
