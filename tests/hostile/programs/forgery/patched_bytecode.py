# does: Finds the code objects of the tests and the judge in memory and overwrites their constants.
# kind: call asserts
# tests: small
# expect: not_accepted
import gc
import types


def add(a, b):
    try:
        import ctypes
    except ImportError:
        return 0
    for thing in gc.get_objects():
        for referred in gc.get_referents(thing) if type(thing) in (types.FrameType, types.FunctionType, dict) else ():
            if type(referred) is types.CodeType and "add" not in referred.co_name and referred.co_name == "<module>":
                constants = referred.co_consts
                for index, constant in enumerate(constants):
                    if type(constant) is int and constant in (3, 4):
                        ctypes.c_size_t.from_address(id(constants) + 24 + 8 * index).value = id(0)
    return 0
