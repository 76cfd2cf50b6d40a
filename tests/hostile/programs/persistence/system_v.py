# does: Leaves a System V shared memory segment, a semaphore and a message queue.
# runs: 2
# answer: clean
# expect: verdict accepted
left = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(4711, 4096, 0) >= 0:
        left.append("segment")
    if libc.semget(4711, 1, 0) >= 0:
        left.append("semaphore")
    if libc.msgget(4711, 0) >= 0:
        left.append("queue")
    libc.shmget(4711, 4096, 0o1666)
    libc.semget(4711, 1, 0o1666)
    libc.msgget(4711, 0o1666)
except ImportError:
    pass
print("SURVIVED" if left else "clean", *left)
