# does: Loops forever.
# limits: cpu_s=0.5
# expect: verdict time_limit
while True:
    pass
