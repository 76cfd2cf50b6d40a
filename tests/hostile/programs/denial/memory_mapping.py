# does: Reserves and touches memory through a mapping instead of the allocator.
# limits: memory_mb=64
# expect: verdict memory_limit
import mmap

block = mmap.mmap(-1, 400 << 20)
for offset in range(0, len(block), 4096):
    block[offset] = 1
print("done")
