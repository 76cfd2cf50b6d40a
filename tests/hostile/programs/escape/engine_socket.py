# does: Looks for a container engine's socket under every usual name and says hello to it.
# answer: contained
# expect: verdict accepted
import glob
import socket

won = []
paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"]
for path in paths + glob.glob("/run/**/*.sock", recursive=True) + glob.glob("/tmp/**/*.sock", recursive=True):
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            won.append(path)
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
