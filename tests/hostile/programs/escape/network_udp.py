# does: Sends a name query as a datagram, over IPv4 and IPv6.
# answer: contained
# expect: verdict accepted
import socket

won = []
for family, address in ((socket.AF_INET, ("8.8.8.8", 53)), (socket.AF_INET6, ("2001:4860:4860::8888", 53))):
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.sendto(b"\0" * 20, address)
            won.append(address)
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
