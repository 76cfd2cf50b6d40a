# does: Types a command into the terminal of whoever started the judge.
# answer: contained
# expect: verdict accepted
import fcntl
import os

won = []
descriptors = [0, 1, 2]
for path in ("/dev/tty", "/dev/console", "/dev/tty0", "/dev/pts/0"):
    try:
        descriptors.append(os.open(path, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        pass
for descriptor in descriptors:
    for character in b"touch /tmp/corecode-hostile-mark\n":
        try:
            fcntl.ioctl(descriptor, 0x5412, bytes([character]))
            won.append(descriptor)
        except OSError:
            pass
print("ESCAPED" if won else "contained", *won)
