# does: Computes inside one C function, which no Python-level timer can stop.
# limits: cpu_s=0.5 wall_s=4
# expect: verdict time_limit|memory_limit
x = 9**9999999
for _ in range(100):
    x = x * x
