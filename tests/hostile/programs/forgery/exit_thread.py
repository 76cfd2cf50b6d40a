# does: Waits in the function while a thread ends the process with exit code 0.
# kind: call asserts
# expect: not_accepted
import os
import threading
import time

threading.Timer(0.05, os._exit, (0,)).start()


def add(a, b):
    time.sleep(5)
