# does: Leaves files in every temporary folder, also hidden ones and ones named like modules.
# runs: 2
# answer: clean
# expect: verdict accepted
import os

left = []
for folder in {"/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run", os.getcwd()}:
    for name in (".corecode-hostile-mark", "json.py", "sitecustomize.py", "usercustomize.py", "mark\nwith newline"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            left.append(path)
        try:
            with open(path, "w") as file:
                file.write("raise SystemExit('poisoned')")
        except OSError:
            pass
print("SURVIVED" if left else "clean", *left)
