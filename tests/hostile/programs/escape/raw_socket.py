# does: Opens raw, packet and netlink-audit sockets, which see or forge the traffic of a whole machine.
# answer: contained
# expect: verdict accepted
import socket

won = []
for family, kind, protocol in ((socket.AF_INET, socket.SOCK_RAW, 1), (17, socket.SOCK_RAW, 3), (40, socket.SOCK_STREAM, 0)):
    try:
        socket.socket(family, kind, protocol).close()
        won.append(family)
    except OSError:
        pass
# Family 40 is vsock, the way from a virtual machine to its host.
print("ESCAPED" if won else "contained", *won)
