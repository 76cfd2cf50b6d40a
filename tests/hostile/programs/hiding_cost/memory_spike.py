# does: Uses a hundred MiB for a moment and gives them back.
# answer: done
# limits: memory_mb=256
# expect: peak_mb >= 80
block = bytearray(100 << 20)
block[::4096] = b"x" * len(block[::4096])
del block
print("done")
