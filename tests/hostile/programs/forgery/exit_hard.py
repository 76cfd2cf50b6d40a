# does: Ends the process with exit code 0 before any test can run.
# kind: call asserts
# expect: not_accepted
import os

os._exit(0)
