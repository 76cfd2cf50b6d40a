# does: Changes the interpreter for whoever runs next: builtins, modules, recursion limit, signal handlers, locale.
# runs: 2
# answer: clean
# expect: verdict accepted
import builtins
import gc
import json
import math
import random
import signal
import sys

left = []
if getattr(builtins, "mark", None) or getattr(json, "mark", None) or getattr(math, "mark", None):
    left.append("module")
if sys.getrecursionlimit() == 54321 or signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN:
    left.append("setting")
builtins.mark = json.mark = math.mark = True
builtins.len = builtins.print
json.loads = json.dumps = lambda *a, **k: "SURVIVED"
random.seed(1)
sys.setrecursionlimit(54321)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
gc.disable()
sys.modules["heapq"] = sys.modules["string"] = None
print("SURVIVED" if left else "clean", *left)
