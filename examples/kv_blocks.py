#!/usr/bin/env python3
"""Moves blocks of a paged KV cache to pinned memory and back, between two layouts: in the cache
[layer, kv, block, head, token, width], in the store [block, layer, kv, token, head, width]. Needs NumPy."""
import sys

import ferry
import numpy as np

LAYERS, BLOCKS, HEADS, TOKENS, WIDTH = 4, 32, 8, 16, 128
TO_STORE = (2, 0, 1, 4, 3, 5)  # the axes of the cache, in the order of the store

gpu = ferry.open(driver=ferry.native.FERRY_DRIVER_AUTO)  # the software driver where there is no GPU
cache = gpu.empty((LAYERS, 2, BLOCKS, HEADS, TOKENS, WIDTH), "float16")  # or a tensor of PyTorch
store = gpu.pinned((3, LAYERS, 2, TOKENS, HEADS, WIDTH), "float16")
stream = gpu.stream()
before = np.random.default_rng(1).random(cache.shape).astype("float16")
gpu.copy(before, cache)

# The indices are on the host: the call reads them.
evicted = [3, 17, 5]
gpu.copy_async(ferry.blocks(cache, evicted, axis=2).transpose(TO_STORE), store, stream).wait()
if not np.array_equal(np.asarray(store), before[:, :, evicted].transpose(TO_STORE)):
    sys.exit("the store has other bytes than the blocks")

# The indices are on the device: a kernel reads them, and skips an index that is not a block of the cache.
gpu.fill(cache)  # the blocks are lost
places = np.array([30, -1, 8], "int32")  # the second block is not restored
ids, skipped = gpu.empty(3, "int32"), gpu.pinned(1, "uint64")
gpu.copy(places, ids)
np.asarray(skipped)[:] = 0
blocks = ferry.blocks(cache, ids, axis=2, skipped=skipped)
gpu.copy_async(store, blocks.transpose(TO_STORE), stream).wait()

after = np.empty_like(before)
gpu.copy(cache, after)
expected = np.zeros_like(before)
expected[:, :, [30, 8]] = before[:, :, [3, 5]]
if not np.array_equal(after, expected) or np.asarray(skipped)[0] != 1:
    sys.exit("the blocks came back changed")
print(len(evicted), "blocks stored, 2 restored, 1 skipped")
print(gpu.explain(store, blocks.transpose(TO_STORE), stream))
gpu.close()
