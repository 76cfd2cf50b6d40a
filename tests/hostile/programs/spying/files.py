# does: Searches every file it can read outside the standard library for the expected answer.
# kind: stdio call asserts
# tests: secret
# limits: cpu_s=6
# expect: not_accepted
import os
import re


def search():
    pattern = re.compile(b"tok" + b"en-[0-9a-f]{16}")
    for top in ("/tmp", "/dev/shm", "/dev/mqueue", "/run", "/var", "/etc", "/home", "/root", "/srv", "/opt", "/mnt"):
        for folder, _, names in os.walk(top):
            for name in names[:200]:
                path = os.path.join(folder, name)
                try:
                    if os.path.isfile(path):
                        with open(path, "rb") as file:
                            found = pattern.search(file.read(1 << 18))
                            if found:
                                return found.group().decode()
                except OSError:
                    pass
    return "nothing"


def secret(number):
    return search()


print(search())
