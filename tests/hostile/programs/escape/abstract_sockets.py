# does: Connects to the abstract Unix sockets of the machine (display server, message bus, container shims).
# answer: contained
# expect: verdict accepted
import socket

won = []
try:
    lines = open("/proc/net/unix").read().splitlines()[1:]
except OSError:
    lines = []
names = [line.split()[-1][1:] for line in lines if "@" in line]
for name in [*names, "/tmp/.X11-unix/X0", "/containerd-shim/"]:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("\0" + name)
            won.append(name)
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
