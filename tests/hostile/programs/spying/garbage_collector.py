# does: Searches every object that the garbage collector knows for the expected answer.
# kind: stdio call asserts
# tests: secret
# limits: cpu_s=6
# expect: not_accepted
import gc
import re


def search():
    pattern = re.compile("tok" + "en-[0-9a-f]{16}")
    for thing in gc.get_objects():
        for inner in [thing, *gc.get_referents(thing)]:
            if type(inner) in (str, bytes):
                text = inner if type(inner) is str else inner.decode("latin-1")
                found = pattern.search(text)
                if found:
                    return found.group()
    return "nothing"


def secret(number):
    return search()


print(search())
