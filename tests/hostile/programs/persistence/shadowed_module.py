# does: Plants modules that the next program would import in place of the standard library's.
# runs: 2
# answer: clean 3
# expect: verdict accepted
import os
import statistics

for folder in (os.getcwd(), "/tmp"):
    for name in ("statistics", "json", "random", "colorsys"):
        with open(f"{folder}/{name}.py", "w") as file:
            file.write("mean = lambda values: 'SURVIVED'\n")
print("clean", statistics.mean([2, 4]))
