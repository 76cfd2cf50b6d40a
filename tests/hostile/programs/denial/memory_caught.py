# does: Catches the lack of memory and asks again, forever.
# limits: cpu_s=0.5 memory_mb=64
# expect: verdict memory_limit|time_limit
kept = []
while True:
    try:
        kept.append(bytearray(1 << 20))
    except MemoryError:
        pass
