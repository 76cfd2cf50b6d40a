# does: Looks for the judge's request in the arguments, the environment, the module table and the main module.
# kind: stdio call asserts
# tests: secret
# expect: not_accepted
import os
import re
import sys


def search():
    pattern = re.compile("tok" + "en-[0-9a-f]{16}")
    places = [sys.argv, getattr(sys, "orig_argv", []), dict(os.environ), sys.path, vars(sys.modules["__main__"])]
    places += [vars(module) for module in list(sys.modules.values()) if type(module) is type(sys)]
    for place in places:
        found = pattern.search(repr(place))
        if found:
            return found.group()
    return "nothing"


def secret(number):
    return search()


print(search())
