# does: Reads every descriptor of its own and of its parent from the beginning, the input included.
# kind: stdio call asserts
# tests: secret
# expect: not_accepted
import os
import re


def search():
    pattern = re.compile(b"tok" + b"en-[0-9a-f]{16}")
    paths = [f"/proc/{pid}/fd/{number}" for pid in ("self", 1, os.getppid()) for number in range(64)]
    for number in range(64):
        try:
            os.lseek(number, 0, 0)
            os.set_blocking(number, False)
            found = pattern.search(os.read(number, 1 << 20))
            if found:
                return found.group().decode()
        except OSError:
            pass
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            found = pattern.search(os.read(descriptor, 1 << 20))
            os.close(descriptor)
        except OSError:
            continue
        if found:
            return found.group().decode()
    return "nothing"


def secret(number):
    return search()


print(search())
