# does: Asks for memory in small objects.
# limits: cpu_s=3 memory_mb=64
# expect: verdict memory_limit
kept = []
while True:
    kept.append(bytes(1000))
