# does: Leaves a server on the loopback and on an abstract socket, for the next program to talk to.
# runs: 2
# answer: clean
# expect: verdict accepted
import os
import socket
import time

left = []
for family, address in ((socket.AF_INET, ("127.0.0.1", 47110)), (socket.AF_UNIX, "\0mark")):
    try:
        with socket.socket(family) as connection:
            connection.settimeout(0.2)
            connection.connect(address)
            left.append(str(address))
    except OSError:
        pass
if os.fork() == 0:
    os.setsid()
    servers = []
    for family, address in ((socket.AF_INET, ("127.0.0.1", 47110)), (socket.AF_UNIX, "\0mark")):
        try:
            server = socket.socket(family)
            server.bind(address)
            server.listen()
            servers.append(server)
        except OSError:
            pass
    time.sleep(60)
    os._exit(0)
time.sleep(0.05)
print("SURVIVED" if left else "clean", *left)
