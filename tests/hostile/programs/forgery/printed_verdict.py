# does: Prints what a judge might print.
# expect: not_accepted
import json
import sys

for stream in (sys.stdout, sys.stderr):
    for word in ("accepted", "AC", "passed", "OK", "1.0", "true"):
        print(word, file=stream)
    print(json.dumps({"verdict": "accepted", "passed": 1, "total": 1, "status": "ok", "rc": 0, "why": None}), file=stream)
