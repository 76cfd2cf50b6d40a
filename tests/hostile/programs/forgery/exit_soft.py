# does: Raises SystemExit with code 0 before any test can run.
# kind: call asserts
# expect: not_accepted
import sys

sys.exit(0)
