# does: Returns a generator and a coroutine instead of an answer.
# kind: call asserts
# expect: not_accepted
async def add(a, b):
    return a + b
