# does: Replaces the functions that a judge would use to send the result home.
# kind: call asserts
# limits: cpu_s=0.5 wall_s=1
# expect: not_accepted
import io
import json
import json.encoder
import marshal
import os
import pickle
import sys

three = lambda *a, **k: "3"
json.dumps = json.JSONEncoder.encode = json.JSONEncoder.default = three
json.encoder.c_make_encoder = None
json.encoder.JSONEncoder.iterencode = lambda *a, **k: iter(["3"])
json._default_encoder = type("E", (), {"encode": three})()
pickle.dumps = marshal.dumps = lambda *a, **k: b"3"
write = os.write
os.write = lambda descriptor, data: write(descriptor, b"3\n") and len(data)


def add(a, b):
    return 0
