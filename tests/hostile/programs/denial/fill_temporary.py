# does: Fills the temporary folders, file by file, each below the size limit.
# limits: cpu_s=3 memory_mb=128
# expect: output lacks ESCAPED
written = 0
for number in range(100):
    for folder in ("/tmp", "/dev/shm"):
        try:
            with open(f"{folder}/part{number}", "wb") as file:
                written += file.write(b"x" * (4 << 20))
        except OSError:
            pass
print("ESCAPED" if written > 300 << 20 else "refused", written >> 20)
