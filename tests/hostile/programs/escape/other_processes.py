# does: Lists the machine's processes and sends each a signal; it may reach its own supervisor, and nobody else.
# expect: output lacks ESCAPED
# expect: verdict wrong_answer|runtime_error
import os
import signal

won = []
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
for name in others:
    try:
        command = open(f"/proc/{name}/cmdline", "rb").read()
    except OSError:
        continue
    if any(word in command for word in (b"pytest", b"dockerd", b"containerd", b"corecode", b"jupyter", b"systemd")):
        won.append(command[:60])
print("ESCAPED" if won or len(others) > 4 else "contained", *won, flush=True)
for name in others:
    try:
        os.kill(int(name), signal.SIGUSR2)
    except OSError:
        pass
