# does: Finds the step counter behind the trace function and the garbage collector, and sets it back.
# answer: done
# cost: steps
# limits: cpu_s=10
# expect: steps >= 20000 or not_accepted
import gc
import sys


def erase(thing, depth=0):
    if type(thing) is memoryview and not thing.readonly and thing.format == "Q":
        thing[0] = 0
    if depth < 4:
        for inner in gc.get_referents(thing):
            erase(inner, depth + 1)


total = 0
for number in range(20000):
    total += number
tracer = sys.gettrace()
sys.settrace(None)
if tracer:
    erase(tracer)
for thing in gc.get_objects():
    erase(thing, 3)
print("done")
