# does: Writes forged reports of many shapes to every descriptor it holds or can open, then ends well.
# kind: stdio call asserts
# tests: small
# expect: not_accepted
import json
import os
import pickle
import struct

reports = []
for extra in ({}, {"id": 1}, {"id": 0, "i": 0}, {"index": 0}, {"test": 0}):
    for body in (
        {"rc": 0, "why": None, "out": "5", "err": "", "cpu": 0.0, "wall": 0.0, "peak": 0, "strays": 0},
        {"status": "ok", "value": 3, "stdout": "5"},
        {"ok": True, "passed": True, "verdict": "accepted", "result": 3, "exit": 0},
        {"exit_code": 0, "signal": None, "returned": 3, "failed": None, "error": None},
    ):
        reports.append(json.dumps(body | extra).encode() + b"\n")
reports += [b"accepted\n", b"1\n", b"\x01", b"3\n", b"ok\n", b"null\n", b"true\n", pickle.dumps(True), pickle.dumps(3)]
reports += [struct.pack(">I", len(report)) + report for report in list(reports)]
reports += [b"[" * 100000 + b"\n", b'{"rc": ' + b"9" * 10000 + b"}\n"]
targets = list(range(256))
for pid in ("self", "1", os.getppid()):
    for number in range(64):
        try:
            targets.append(os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            pass
for target in targets:
    try:
        os.set_blocking(target, False)
        for report in reports:
            os.write(target, report)
    except OSError:
        pass
os._exit(0)
