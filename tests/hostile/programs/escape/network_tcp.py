# does: Opens TCP connections to the loopback, a container gateway, a cloud metadata service and a public address.
# answer: contained
# expect: verdict accepted
import socket

won = []
for address in (("127.0.0.1", 22), ("172.17.0.1", 2375), ("169.254.169.254", 80), ("1.1.1.1", 53)):
    try:
        with socket.socket() as connection:
            connection.settimeout(0.3)
            connection.connect(address)
            won.append(address)
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
