# does: Switches the step counter off and then works.
# answer: done
# cost: steps
# limits: cpu_s=10
# expect: steps >= 20000 or not_accepted
import sys
import threading

sys.settrace(None)
sys.setprofile(None)
threading.settrace(None)
sys._getframe().f_trace = None
sys._getframe().f_trace_opcodes = False
monitoring = getattr(sys, "monitoring", None)
if monitoring:
    for tool in range(6):
        try:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
        except ValueError:
            pass
total = 0
for number in range(20000):
    total += number
print("done")
