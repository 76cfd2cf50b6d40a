# does: Asks for four gigabytes at once.
# limits: memory_mb=64
# expect: verdict memory_limit
block = bytearray(4 << 30)
print(len(block))
