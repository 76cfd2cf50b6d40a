# does: Leaves a POSIX message queue with a message in it.
# runs: 2
# answer: clean
# expect: verdict accepted
left = []
try:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mq_open(b"/mark", 0) >= 0:
        left.append("queue")
    queue = libc.mq_open(b"/mark", 0o102, 0o666, None)
    if queue >= 0:
        libc.mq_send(queue, b"mark", 4, 0)
except (ImportError, AttributeError):
    pass
print("SURVIVED" if left else "clean", *left)
