# does: Leaves a POSIX shared memory block and a named semaphore.
# runs: 2
# answer: clean
# expect: verdict accepted
import os

left = []
try:
    left = [name for name in os.listdir("/dev/shm") if "mark" in name]
    from multiprocessing import resource_tracker, shared_memory

    block = shared_memory.SharedMemory("mark", create=not left, size=64)
    block.buf[:4] = b"mark"
    resource_tracker.unregister(block._name, "shared_memory")
    with open("/dev/shm/sem.mark", "wb") as file:
        file.write(b"\0" * 32)
except OSError:
    pass
print("SURVIVED" if left else "clean", *left)
