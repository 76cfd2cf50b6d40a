# does: Reaches its callers through a traceback instead of the frame function.
# kind: call asserts
# expect: not_accepted
def add(a, b):
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame.f_back
    while frame is not None:
        for constant in frame.f_code.co_consts:
            if type(constant) is int and constant > b:
                return constant
        for value in frame.f_locals.values():
            if type(value) is int and value not in (a, b):
                return value
        frame = frame.f_back
    return None
