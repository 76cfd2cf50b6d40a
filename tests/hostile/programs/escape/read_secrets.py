# does: Reads password hashes, keys, kernel memory, block devices and the environment of the first process.
# answer: contained
# expect: verdict accepted
import glob

won = []
paths = ["/etc/shadow", "/etc/sudoers", "/proc/1/environ", "/proc/1/mem", "/proc/kcore", "/dev/mem", "/dev/kmsg", "/dev/kvm"]
paths += ["/sys/kernel/security/apparmor/profiles", "/var/lib/docker/engine-id", "/proc/1/root/etc/shadow"]
paths += glob.glob("/root/.*/*") + glob.glob("/home/*/.ssh/*") + glob.glob("/dev/sd*") + glob.glob("/dev/vd*") + glob.glob("/dev/nvme*")
for path in paths:
    try:
        with open(path, "rb") as file:
            if file.read(16):
                won.append(path)
    except OSError:
        pass
print("ESCAPED" if won else "contained", *won)
