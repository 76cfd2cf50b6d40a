# does: Prints the right answer, then crashes by a signal while the output is already out.
# stdin: 2 3
# answer: 5
# expect: verdict runtime_error
import os
import signal

print(sum(map(int, input().split())), flush=True)
os.kill(os.getpid(), signal.SIGABRT)
