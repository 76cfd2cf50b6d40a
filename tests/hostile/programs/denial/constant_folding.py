# does: Asks the compiler, not the program, for a huge constant.
# limits: cpu_s=1 wall_s=4 memory_mb=128
# expect: not_accepted
x = ((((((((("x" * 4000) * 4000) * 4000) * 4000) * 4000,) * 200,) * 200,) * 200,) * 200,) * 200
y = 9**9**9**9
