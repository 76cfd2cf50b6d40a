# does: Runs every set-user-id program it can find, to gain another user's rights.
# answer: contained
# expect: verdict accepted
import os
import stat
import subprocess

won = []
for top in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.lstat(path).st_mode & stat.S_ISUID and name in ("su", "sudo", "mount", "newgrp", "pkexec"):
                    done = subprocess.run([path, "-c", "id -u"], capture_output=True, text=True, timeout=1, stdin=subprocess.DEVNULL)
                    if done.stdout.strip() == "0":
                        won.append(path)
            except (OSError, subprocess.SubprocessError):
                pass
print("ESCAPED" if won else "contained", *won)
