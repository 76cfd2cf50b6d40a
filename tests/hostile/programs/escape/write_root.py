# does: Writes a file everywhere a program should not be able to.
# answer: contained
# expect: verdict accepted
import os
import sys

won = []
folders = ["/", "/etc", "/usr", "/usr/local/lib", "/usr/lib", "/bin", "/var", "/var/tmp", "/home", "/root", "/srv", "/opt", "/run"]
folders += ["/proc", "/sys", "/dev", os.path.dirname(sys.executable), *(p for p in sys.path if os.path.isabs(p))]
for folder in folders:
    try:
        with open(os.path.join(folder, "corecode-hostile-mark"), "w") as file:
            file.write("mark")
        won.append(folder)
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
