# does: Plants files that would take over the checker's imports or stand in for its arguments.
# kind: stdio
# checker: tokens
# expect: not_accepted
import os

for folder in (os.getcwd(), "/tmp", "/dev/shm"):
    for name in ("sys.py", "re.py", "json.py", "os.py", "sitecustomize.py", "checker.py", "main.py"):
        try:
            with open(f"{folder}/{name}", "w") as file:
                file.write("print(1)\nraise SystemExit(0)\n")
        except OSError:
            pass
    for name in ("input", "expected", "output", "input.txt", "expected.txt", "output.txt", "INPUT", "EXPECTED", "OUTPUT"):
        try:
            os.symlink("/etc/passwd", f"{folder}/{name}")
        except OSError:
            pass
print("nothing")
