"""Copies of blocks: random ones against NumPy, and what blocks() refuses. FERRY_NEST_CASES is the number of random
copies, and FERRY_NEST_SEED the seed of the first."""
import array
import ctypes
import gc
import mmap
import os
import random
import re
import weakref

import numpy as np
import pytest

import ferry
from ferry import overlap

SIZE = 1 << 15  # bytes of each memory
NO_KERNELS = ferry.CopyOptions(flags=ferry.CopyFlags.NO_KERNELS)
TYPES = {1: "uint8", 2: "int16", 4: "float32", 8: "complex64", 16: "complex128"}


def numbered(shape, dtype="uint8"):
    return (np.arange(int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def there(gpu, host):
    made = gpu.empty(host.shape, host.dtype)
    gpu.copy(host, made)
    return made


def back(gpu, device):
    host = np.zeros(device.shape, device.dtype)
    gpu.copy(device, host)
    return host


def counter(gpu):
    made = gpu.pinned((), "uint64")
    np.asarray(made)[...] = 0
    return made


def counter_on(gpu):
    made = gpu.empty((), "uint64")
    gpu.fill(made)
    return made


# ---- Random copies

class Memory:
    """Memory of one kind, and where its first byte is."""

    def __init__(self, gpu, kind):
        self.gpu, self.kind = gpu, kind
        self.array = {"device": gpu.empty, "pinned": gpu.pinned, "pageable": np.zeros}[kind](SIZE, "uint8")
        self.address = ferry.view(self.array).address

    def write(self, data):
        self.gpu.copy(data, self.array)

    def read(self):
        data = np.zeros(SIZE, "uint8")
        self.gpu.copy(self.array, data)
        return data

    def view(self, at, shape, itemsize):
        return ferry.View(self.address + at, shape, None, TYPES[itemsize], itemsize, 0 if self.kind == "device" else -1,
                          self.array)


class End:
    """A random part of a memory that has the given shape: what ferry copies, the byte of each element, and on each axis
    which coordinates have an index that exists."""

    def __init__(self, dice, memory, counts, itemsize, is_source, skipped):
        self.dice, self.memory, self.itemsize, self.is_source = dice, memory, itemsize, is_source
        self.has_device_indices = False
        self.is_blocks = False
        self.chosen, lengths = self.draw_parts(counts)
        lists = [dice.random() < 0.3 for _ in lengths]
        limits = [length + dice.randint(0, 3) if listed else length for length, listed in zip(lengths, lists)]
        order = dice.sample(range(len(lengths)), len(lengths))  # the axes in memory
        steps = [dice.choice([1, 1, 1, 2, -1, -2]) for _ in order]
        whole = [limits[axis] * abs(step) for axis, step in zip(order, steps)]
        self.at, size = dice.randint(0, 3) * dice.choice([1, itemsize]), int(np.prod(whole)) * itemsize
        self.fits = self.at + size <= SIZE
        if not self.fits:
            return
        places = self.at + itemsize * np.arange(size // itemsize).reshape(whole)
        pool = memory.view(self.at, tuple(whole), itemsize)
        parts = tuple(np.s_[::step] for step in steps)
        places, pool = places[parts], pool[parts]
        back_in_order = [order.index(axis) for axis in range(len(order))]
        transposes_first = dice.random() < 0.5
        if transposes_first:
            pool = pool.transpose(*back_in_order)
        places = places.transpose(back_in_order)
        self.exists = [np.ones(length, bool) for length in lengths]
        for axis, listed in enumerate(lists):
            if listed:
                values, ids = self.draw_ids(lengths[axis], limits[axis], skipped is not None and self.is_slice(axis))
                self.exists[axis] = (values >= 0) & (values < limits[axis])
                places = places.take(values.clip(0, limits[axis] - 1), axis)
                # The counter of all lists is stated once.
                pool = ferry.blocks(pool, ids, axis=axis if transposes_first else order.index(axis),
                                    skipped=None if self.is_blocks else skipped)
                self.is_blocks = True
        if not transposes_first:
            pool = pool.transpose(*back_in_order)
        self.places, self.end = places[self.chosen], pool[self.chosen]
        self.exists = [one[part] for one, part in zip(self.exists, self.chosen) if isinstance(part, slice)]

    def is_slice(self, axis):
        return isinstance(self.chosen[axis], slice) and self.chosen[axis].step == 1

    def draw_parts(self, counts):
        """Slices with the given counts, and integers between them, and the lengths that they need."""
        dice = self.dice
        chosen, lengths = [], []
        for count in counts:
            step = dice.choice([1, 1, 1, 1, 2, -1])
            before, after = dice.choice([0, 0, 1]), dice.choice([0, 0, 1])
            length = before + (count - 1) * abs(step) + 1 + after
            first = before if step > 0 else length - 1 - before
            stop = first + (count - 1) * step + (1 if step > 0 else -1)
            chosen.append(slice(first, stop if stop >= 0 else None, step))
            lengths.append(length)
        if len(counts) < 6 and dice.random() < 0.2:
            axis, length = dice.randint(0, len(counts)), dice.randint(1, 3)
            chosen.insert(axis, dice.randint(-length, length - 1))
            lengths.insert(axis, length)
        return tuple(chosen), lengths

    def draw_ids(self, count, limit, may_be_on_device):
        dice = self.dice
        values = dice.choices(range(limit), k=count) if self.is_source else dice.sample(range(limit), count)
        on_device, dtype = may_be_on_device and dice.random() < 0.5, dice.choice(["int32", "uint32", "int64", "uint64"])
        if on_device:
            self.has_device_indices = True
            for at in range(count):
                if dice.random() < 0.15:
                    values[at] = -dice.randint(1, 3) if dtype[0] == "i" else limit + dice.randint(0, 3)
            values = np.array(values, dtype)
            ids = self.memory.gpu.empty(count, dtype)
            self.memory.gpu.copy(values, ids)
            return values.astype("int64"), ids
        values = np.array(values, "int64")
        as_array = values.astype(dice.choice(["int8", "int16", "int32", "int64"]))
        as_array = as_array.view(dice.choice([as_array.dtype, f"u{as_array.dtype}"]))
        strided = np.repeat(as_array, 2)
        return values, dice.choice([lambda: values.tolist(), lambda: tuple(as_array), lambda: as_array,
                                    lambda: strided[::2], lambda: as_array[::-1].copy()[::-1],
                                    lambda: array.array("q", values.tolist())])()


def bytes_at(places, itemsize):
    return places[..., None] + np.arange(itemsize)


KINDS = [("device", "device"), ("device", "pinned"), ("pinned", "device"), ("device", "pageable"),
         ("pageable", "device"), ("pinned", "pageable")]


def run_case(gpu, memories, stream, skipped, seed):
    """One random copy. Returns what happened in it, or None if it does not fit the memory."""
    dice = random.Random(seed)
    kinds = dice.choice(KINDS)
    source, destination = memories[kinds[0]][0], memories[kinds[1]][1]
    counts_skipped = None if "pageable" in kinds else skipped  # a kernel makes no copies of pageable memory
    itemsize = dice.choice(list(TYPES))
    counts = [dice.choice([1, 2, 2, 3, 4, 5, dice.randint(1, 9)]) for _ in range(dice.randint(2, 6))]
    one, other = (End(dice, memory, counts, itemsize, memory is source, counts_skipped)
                  for memory in (source, destination))
    if not one.fits or not other.fits:
        return None
    on_device = one.has_device_indices or other.has_device_indices
    np.asarray(skipped)[...] = 3
    noise = np.random.default_rng(seed)
    before, data = (np.frombuffer(noise.bytes(SIZE), "uint8") for _ in range(2))
    source.write(data)
    destination.write(before)
    exist = [mine & yours for mine, yours in zip(one.exists, other.exists)]
    mask = np.ones((), bool)
    for flags in exist:
        mask = mask[..., None] & flags
    expected = before.copy()
    expected[bytes_at(other.places[mask], itemsize)] = data[bytes_at(one.places[mask], itemsize)]
    options = NO_KERNELS if not on_device and dice.random() < 0.3 else None
    assert one.end.shape == other.end.shape == tuple(counts)
    by_kernel = dice.random() < 0.1 and gpu.explain(one.end, other.end, stream, options).route == "kernel"
    dice.choice([lambda: gpu.copy(one.end, other.end, options),
                 lambda: gpu.copy_async(one.end, other.end, stream, options).wait(),
                 lambda: (gpu.enqueue(one.end, other.end, stream, options), stream.synchronize())])()
    assert np.array_equal(destination.read(), expected)
    missing = sum(int((~flags).sum()) for flags in exist)
    assert int(np.asarray(skipped)) == 3 + missing
    return {"blocks": one.is_blocks or other.is_blocks, "both": one.is_blocks and other.is_blocks, "kernel": by_kernel,
            "on the device": on_device, "skipped": on_device and missing > 0, "six axes": len(counts) == 6}


def test_random_blocks_are_what_numpy_copies(gpu):
    memories = {kind: (Memory(gpu, kind), Memory(gpu, kind)) for kind in ("device", "pinned", "pageable")}
    stream, skipped = gpu.stream(), counter(gpu)
    first, cases = (int(os.environ.get(name, otherwise)) for name, otherwise in
                    (("FERRY_NEST_SEED", 1), ("FERRY_NEST_CASES", 1000)))
    found = {}
    for seed in range(first, first + cases):
        try:
            one = run_case(gpu, memories, stream, skipped, seed)
        except BaseException:
            print(f"to repeat: FERRY_NEST_SEED={seed} FERRY_NEST_CASES=1")
            raise
        for name, happened in (one or {}).items():
            found[name] = found.get(name, 0) + happened
        found["copied"] = found.get("copied", 0) + bool(one)
    print(f"seeds {first} to {first + cases - 1}:", found)
    if cases >= 1000:
        least = {"copied": 0.6, "blocks": 0.4, "both": 0.2, "kernel": 0.01, "on the device": 0.1, "skipped": 0.02,
                 "six axes": 0.03}
        assert all(found[name] >= part * cases for name, part in least.items()), found


def test_overlap_of_blocks_is_what_their_elements_share():
    dice = random.Random(3)
    found = []
    for _ in range(4000):
        itemsize = dice.choice([1, 2, 4])
        whole = tuple(dice.randint(1, 5) for _ in range(3))
        pool = ferry.View(4096, whole, None, "uint8", itemsize, -1)
        places = 4096 + itemsize * np.arange(int(np.prod(whole))).reshape(whole)
        ends, touched = [], []
        for _ in range(2):
            part = tuple(np.s_[dice.randint(0, length - 1)::dice.choice([1, 2])] for length in whole)
            axis, there = dice.randint(0, 2), places[part]
            ids = dice.choices(range(there.shape[axis]), k=dice.randint(1, 3))
            if dice.random() < 0.8:
                chosen, there = ferry.blocks(pool[part], ids, axis=axis), there.take(ids, axis)
                if dice.random() < 0.3:
                    axis = (axis + 1) % 3
                    ids = dice.choices(range(there.shape[axis]), k=dice.randint(1, 3))
                    chosen, there = ferry.blocks(chosen, ids, axis=axis), there.take(ids, axis)
                ends.append(chosen)
                touched.append(set(bytes_at(there, itemsize).ravel()))
            else:
                ends.append(pool[part])
                touched.append(set(bytes_at(there, itemsize).ravel()))
        found.append(overlap.overlap_of_blocks(*ends))
        assert found[-1] is bool(touched[0] & touched[1]), (whole, ends, [getattr(end, "lists", None) for end in ends])
    assert 500 < sum(found) < 3500


def test_thousands_of_blocks_are_compared_quickly(monkeypatch):
    """Blocks of one pool need three searches. Other pairs are refused if they are too many to compare."""
    calls = []
    monkeypatch.setattr(overlap, "overlap", lambda *ends, search=overlap.overlap: calls.append(ends) or search(*ends))
    pool = ferry.View(4096, (2, 10000, 16), None, "uint8", 1, -1)
    even, odd = (ferry.blocks(pool, range(start, 10000, 2), axis=1) for start in (0, 1))
    assert overlap.overlap_of_blocks(even, odd) is False
    assert overlap.overlap_of_blocks(even, even) is True
    assert len(calls) <= 6
    narrow = ferry.View(4096, (2, 20000, 8), None, "uint8", 1, -1)
    assert overlap.overlap_of_blocks(even, ferry.blocks(narrow, range(1, 20000, 2), axis=1)) is None
    unknown = ferry.blocks(pool, ferry.View(1 << 40, (5000,), None, "int32", 4, 0), axis=1)
    assert overlap.overlap_of_blocks(unknown, pool[:, :1]) is False, "indices on a device are not checked"


# ---- The shape of blocks

def test_blocks_have_the_shape_of_the_pool_with_the_number_of_indices(gpu):
    pool = gpu.empty((2, 8, 3, 4), "float32")
    found = ferry.blocks(pool, [5, 1, 7], axis=1)
    assert (found.shape, found.dtype, found.itemsize, found.nbytes) == ((2, 3, 3, 4), "float32", 4, 288)
    assert ferry.blocks(pool, [5], axis=-3).shape == (2, 1, 3, 4)
    assert found.transpose(1, 0, 3, 2).shape == found.transpose([1, 0, 3, 2]).shape == (3, 2, 4, 3)
    assert found.transpose().shape == (4, 3, 3, 2) and found.transpose(-1, 0, 1, 2).shape == (4, 2, 3, 3)
    assert found[..., 1:].shape == (2, 3, 3, 3) and found[0, 1].shape == (3, 4) and found[:, ::-2].shape == (2, 2, 3, 4)
    assert ferry.blocks(found, [1], axis=3).shape == (2, 3, 3, 1)
    assert "Blocks" in repr(found) and "(2, 3, 3, 4) float32" in repr(found)


def test_indices_are_read_when_the_blocks_are_made(gpu):
    pool, ids, got = there(gpu, numbered((8, 4))), np.array([3, 1]), np.zeros((2, 4), "uint8")
    chosen = ferry.blocks(pool, ids)
    ids[:] = 7
    gpu.copy(chosen, got)
    assert np.array_equal(got, numbered((8, 4))[[3, 1]])


def test_no_blocks_are_an_empty_copy(gpu):
    pool, stream = there(gpu, numbered((8, 4))), gpu.stream()
    for ids in ([], np.zeros(0, "int64"), gpu.empty(0, "int64")):
        gpu.copy(ferry.blocks(pool, ids), np.zeros((0, 4), "uint8"))
        gpu.copy_async(np.zeros((0, 4), "uint8"), ferry.blocks(pool, ids), stream).wait()
    assert np.array_equal(back(gpu, pool), numbered((8, 4)))
    with pytest.raises(ferry.ArgumentError, match="nothing to copy"):
        gpu.explain(ferry.blocks(pool, []), np.zeros((0, 4), "uint8"))


def test_plain_bytes_take_the_shape_of_blocks(gpu):
    pool, raw = there(gpu, numbered((8, 4), "float32")), bytearray(3 * 16)
    gpu.copy(ferry.blocks(pool, [7, 0, 2]), raw)
    assert np.array_equal(np.frombuffer(raw, "float32").reshape(3, 4), numbered((8, 4), "float32")[[7, 0, 2]])
    picked = bytearray(3)
    gpu.copy(ferry.blocks(bytes(range(10)), [9, 0, 4]), picked)
    assert picked == bytes([9, 0, 4])
    with pytest.raises(ferry.ArgumentError, match="the shape 3, the destination 3 x 1"):
        gpu.copy(ferry.blocks(bytes(range(10)), [9, 0, 4]), np.zeros((3, 1), "uint8"))


def test_repeated_copies_use_the_pool_and_the_indices_of_their_own_blocks(gpu):
    """A later copy uses a kept plan if its pool and its indices are equal."""
    host = numbered((20000, 2), "uint8")
    pool, got = there(gpu, host), np.zeros((2, 2), "uint8")
    for ids in [[3, 1], [1, 3], [3, 1], [19999, 0]]:
        for array, expected in ((pool, host), (there(gpu, host[::-1].copy()), host[::-1])):
            gpu.copy(ferry.blocks(array, ids), got)
            assert np.array_equal(got, expected[ids])
    many, kept = np.zeros((5000, 2), "uint8"), len(gpu._plans._plans)  # lists that are too long to be compared
    for start in (0, 1, 2):
        ids = np.arange(start, 20000, 4)
        gpu.copy(ferry.blocks(pool, ids), many)
        assert np.array_equal(many, host[ids])
    assert len(gpu._plans._plans) == kept


def test_a_list_outlives_its_blocks_in_a_kept_plan(gpu):
    host = numbered((64, 4))
    pool, got = there(gpu, host), np.zeros((3, 4), "uint8")
    for _ in range(3):
        gpu.copy(ferry.blocks(pool, [9, 60, 2]), got)
        gc.collect()
        _ = [array.array("I", [0] * 3) for _ in range(100)]  # takes freed memory
        assert np.array_equal(got, host[[9, 60, 2]])


# ---- Indices on the device

def test_a_graph_reads_new_indices_at_each_launch(gpu):
    host = numbered((8, 4))
    pool, stream, got = there(gpu, host), gpu.stream(), gpu.pinned((3, 4))
    ids, skipped = there(gpu, np.array([0, 0, 0], "int32")), counter(gpu)
    gpu.copy(ferry.blocks(pool, ids), got)  # loads the kernels
    driver = {name: ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(
        gpu.library.ferry_instance_get_proc(gpu.handle, name.encode(), 12000)) for name, kinds in {
            "cuStreamBeginCapture": [ctypes.c_void_p, ctypes.c_int32],
            "cuStreamEndCapture": [ctypes.c_void_p, ctypes.c_void_p],
            "cuGraphInstantiateWithFlags": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64],
            "cuGraphLaunch": [ctypes.c_void_p, ctypes.c_void_p]}.items()}
    graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
    of_list, many = ferry.blocks(gpu.empty((4096, 3)), range(0, 4096, 2)), gpu.pinned((2048, 3))
    gpu.call("ferry_context_push", 0, None)
    assert driver["cuStreamBeginCapture"](stream.handle, 0) == 0
    with pytest.raises(ferry.Error, match="a captured stream requires indices on the device"):
        gpu.enqueue(of_list, many, stream)
    gpu.enqueue(ferry.blocks(pool, ids, skipped=skipped), got, stream)
    assert driver["cuStreamEndCapture"](stream.handle, ctypes.byref(graph)) == 0
    assert driver["cuGraphInstantiateWithFlags"](ctypes.byref(ready), graph, 0) == 0
    expected = np.asarray(got).copy()
    for now in ([3, 1, 7], [6, -1, 0], [8, 2, 2]):
        gpu.copy(np.array(now, "int32"), ids)
        assert driver["cuGraphLaunch"](ready, stream.handle) == 0
        stream.synchronize()
        for row, index in zip(expected, now):
            if 0 <= index < 8:
                row[:] = host[index]
        assert np.array_equal(np.asarray(got), expected)
    gpu.call("ferry_context_pop", None)
    assert int(np.asarray(skipped)) == 2


def test_a_negative_index_is_skipped_in_a_pool_of_any_length():
    """As an unsigned number, -1 is 4294967295, which may be below the length of an axis."""
    pool = ferry.View(4096, (1 << 33,), None, "uint8", 1, 0)
    for dtype, limit in [("int32", 1 << 31), ("uint32", 1 << 33), ("int64", 1 << 33), ("uint64", 1 << 33)]:
        ids = ferry.View(1 << 40, (4,), None, dtype, 8 if dtype.endswith("64") else 4, 0)
        axis = ferry.native.ferry_axis()
        ferry.blocks(pool, ids).lists[0].describe(axis)
        assert axis.index_limit == limit and axis.indices == 1 << 40, dtype
        assert axis.index_type == (ferry.native.FERRY_INDEX_U64 if ids.itemsize == 8 else ferry.native.FERRY_INDEX_U32)
        assert axis.index_memory == ferry.native.FERRY_INDICES_DEVICE


def test_long_axes_have_wide_indices_in_host_memory():
    for length, kind in [(1 << 32, ferry.native.FERRY_INDEX_U32), ((1 << 32) + 1, ferry.native.FERRY_INDEX_U64)]:
        pool, axis = ferry.View(4096, (length, 2), None, "uint8", 1, -1), ferry.native.ferry_axis()
        chosen = ferry.blocks(pool, [0, length - 1])
        chosen.lists[0].describe(axis)
        values = (ctypes.c_uint32 if kind == ferry.native.FERRY_INDEX_U32 else ctypes.c_uint64) * 2
        assert axis.index_type == kind and list(values.from_address(axis.indices)) == [0, length - 1]


def test_indices_on_the_device_need_a_kernel(gpu, on_gpu):
    pool, ids = gpu.empty((8, 4)), there(gpu, np.array([1, 2], "int64"))
    for call in (gpu.copy, gpu.copy_async, gpu.enqueue, gpu.explain):
        with pytest.raises(ferry.Error, match="pass the indices as a list") as raised:
            call(ferry.blocks(pool, ids), np.zeros((2, 4), "uint8"))
        assert (raised.value.status, raised.value.field) == (ferry.Status.UNSUPPORTED, "index_memory")
        assert raised.value.side == "source"
    with pytest.raises(ferry.Error, match="exclude kernels"):
        gpu.copy(ferry.blocks(pool, ids), gpu.pinned((2, 4)), NO_KERNELS)


# ---- Refusals

@pytest.mark.parametrize("ids, kind, text", [
    ([1, 8], ferry.ArgumentError, r"ids\[1\]: 8, must be from 0 to 7: axis 1 of the pool has 8 elements"),
    ([0, 1, -1], ferry.ArgumentError, r"ids\[2\]: -1, must be from 0 to 7"),
    (np.array([3, -2], "int16"), ferry.ArgumentError, r"ids\[1\]: -2, must be"),
    (np.array([1 << 63], "uint64"), ferry.ArgumentError, r"ids\[0\]: 9223372036854775808, must be"),
    (np.array([[0]]), ferry.ArgumentError, r"the shape \(1, 1\) and elements of int64, must have one axis of integers"),
    (np.zeros(3), ferry.ArgumentError, "float64, must have one axis of integers"),
    (np.zeros(8, bool), ferry.ArgumentError, "bool, must have one axis of integers"),
    (np.zeros(3, ">i4"), ferry.ArgumentError, ">int32, must have one axis of integers"),
    (b"\0\1", ferry.ArgumentError, "bytes, must have one axis of integers"),
    ([1, 2.0], TypeError, r"ids\[1\] must be an integer, not float"),
    ([True, False], TypeError, r"ids\[0\] must be an integer, not bool"),
    (3, TypeError, "int is not an array"),
    (None, TypeError, "NoneType is not an array"),
])
def test_wrong_indices_are_named(gpu, ids, kind, text):
    with pytest.raises(kind, match=text) as raised:
        ferry.blocks(gpu.empty((2, 8)), ids, axis=1)
    if kind is ferry.ArgumentError:
        assert raised.value.field == "indices"


def test_an_error_has_the_position_and_the_value_of_the_index(gpu):
    with pytest.raises(ferry.ArgumentError) as raised:
        ferry.blocks(gpu.empty(8), [1, 9])
    assert (raised.value.index, raised.value.value, raised.value.limit) == (1, 9, 7)
    with pytest.raises(ferry.ArgumentError, match="axis 1 of the pool has 3 elements"):
        ferry.blocks(gpu.empty((2, 3)), [3], axis=-1)
    with pytest.raises(ferry.ArgumentError, match="axis 0 of the pool has 0 elements"):
        ferry.blocks(gpu.empty((0, 4)), [0])


def test_wrong_arrays_on_the_device_are_refused(gpu):
    pool = gpu.empty(8)
    for ids in (gpu.empty(2, "int16"), gpu.empty(4, "int32")[::2]):
        with pytest.raises(ferry.ArgumentError, match="must be contiguous, of uint32, int32, uint64 or int64"):
            ferry.blocks(pool, ids)
    for skipped in (gpu.empty(1, "uint32"), gpu.empty(2, "uint64"), np.broadcast_to(np.uint64(0), (1,))):
        with pytest.raises(ferry.ArgumentError, match="skipped must be one element of uint64"):
            ferry.blocks(pool, [0], skipped=skipped)
    one, other = (ferry.blocks(gpu.empty(8), [0, 1], skipped=counter(gpu)) for _ in range(2))
    with pytest.raises(ferry.ArgumentError, match="in different places"):
        gpu.copy(one, other)


def test_wrong_axes_are_refused(gpu):
    for axis in (2, -3):
        with pytest.raises(ferry.ArgumentError, match=f"axis: {axis}, must be from -2 to 1"):
            ferry.blocks(gpu.empty((2, 3)), [0], axis=axis)
    with pytest.raises(ferry.ArgumentError, match="the pool has no axis"):
        ferry.blocks(gpu.empty(()), [0])
    with pytest.raises(ferry.ArgumentError, match="axis: 1, has indices already, must be another axis"):
        ferry.blocks(ferry.blocks(gpu.empty((2, 3)), [0], axis=1), [0], axis=1)
    with pytest.raises(TypeError):
        ferry.blocks(gpu.empty((2, 3)), [0], axis=None)
    on_device = ferry.blocks(gpu.empty((4, 3)), gpu.empty(2, "int32"))
    assert on_device[1:, 0].shape == (1,)
    with pytest.raises(ferry.ArgumentError, match="the part must be a slice"):
        on_device[0]
    with pytest.raises(ferry.ArgumentError, match="step -1, must be 1"):
        on_device[::-1]
    with pytest.raises(IndexError, match="index 2 of axis 0, which has 2"):
        ferry.blocks(gpu.empty((4, 3)), [0, 1])[2]


def test_destinations_that_would_be_written_twice_are_refused(gpu):
    pool = gpu.empty((8, 4))
    with pytest.raises(ferry.ArgumentError, match=r"ids\[2\] of the destination: 5, is in the list already") as raised:
        gpu.copy(np.zeros((4, 4), "uint8"), ferry.blocks(pool, [5, 1, 5, 1]))
    assert (raised.value.side, raised.value.index, raised.value.value) == ("destination", 2, 5)
    window = np.lib.stride_tricks.as_strided(np.zeros(20, "uint8"), (8, 4), (2, 1))
    with pytest.raises(ferry.ArgumentError, match="share bytes along axis 0"):
        gpu.copy(np.zeros((2, 4), "uint8"), ferry.blocks(window, [0, 7]))
    far_apart = np.lib.stride_tricks.as_strided(np.zeros(20, "uint8"), (2, 8), (4, 1))
    with pytest.raises(ferry.ArgumentError, match="share bytes along axis 0"):
        gpu.copy(np.zeros((2, 2), "uint8"), ferry.blocks(far_apart, [0, 4], axis=1))
    with pytest.raises(ferry.ArgumentError, match="stride 0"):
        one_row = np.lib.stride_tricks.as_strided(window, (8, 4), (0, 1))
        gpu.copy(np.zeros((2, 4), "uint8"), ferry.blocks(one_row, [0, 1]))
    with pytest.raises(ferry.ArgumentError, match="read-only"):
        gpu.copy(np.zeros(1, "uint8"), ferry.blocks(bytes(8), [0]))


def test_the_only_block_of_a_pool_may_have_any_stride(gpu):
    device, ids = gpu.empty(4), there(gpu, np.zeros(1, "int32"))
    pool = ferry.View(device.address, (1, 4), (0, 1), "uint8", 1, 0, device)
    gpu.copy(there(gpu, numbered((1, 4)) + 1), ferry.blocks(pool, ids))
    assert np.array_equal(back(gpu, device), [1, 2, 3, 4])


def test_shapes_must_be_equal(gpu):
    with pytest.raises(ferry.ArgumentError, match="axis 0: the source has 2 elements, the destination 3"):
        gpu.copy(ferry.blocks(gpu.empty((8, 4)), [0, 1]), gpu.empty((3, 4)))
    with pytest.raises(ferry.ArgumentError, match="elements of float32, the destination of int32"):
        gpu.copy(ferry.blocks(gpu.empty((8, 4), "float32"), [0, 1]), gpu.empty((2, 4), "int32"))


def test_too_many_axes_are_refused(gpu):
    pool, target = gpu.empty((2,) * 7), gpu.empty((2,) * 7)
    with pytest.raises(ferry.ArgumentError, match="7 axes that cannot be joined, must be at most 6"):
        gpu.copy(ferry.blocks(pool, [1, 0]).transpose(), target)
    gpu.copy(ferry.blocks(pool, [1, 0]), target)  # whose other axes are one


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "device"])
def test_blocks_of_one_pool_are_copied_unless_they_share_bytes(gpu, on_host):
    before = numbered((2, 8, 3))
    pool = before.copy() if on_host else there(gpu, before)
    for ids, others in [([0, 1], [1, 2]), ([3], [3])]:
        with pytest.raises(ferry.Error, match="source and destination share bytes") as raised:
            gpu.copy(ferry.blocks(pool, ids, axis=1), ferry.blocks(pool, others, axis=1))
        assert raised.value.status is ferry.Status.OVERLAP
    gpu.copy(ferry.blocks(pool, [0, 5, 5], axis=1), ferry.blocks(pool, [7, 1, 2], axis=1))
    gpu.copy(ferry.blocks(pool, [4, 6], axis=1)[:1], ferry.blocks(pool, [6, 4], axis=1)[1:])  # keys to values
    expected = before.copy()
    expected[:, [7, 1, 2]] = before[:, [0, 5, 5]]
    expected[1, [6, 4]] = expected[0, [4, 6]]
    assert np.array_equal(pool if on_host else back(gpu, pool), expected)


def test_prepared_blocks_keep_indices_of_the_host_and_read_those_of_the_device(gpu):
    stream, before = gpu.stream(), numbered((8, 6, 4), "int32")
    pool, store, plain = there(gpu, before), gpu.pinned((3, 4, 6), "int32"), gpu.empty((5, 7), "int16")
    numbers = numbered((5, 7), "int16")
    sent = gpu.pinned((5, 7), "int16")
    np.asarray(sent)[:] = numbers
    ids = [6, 0, 2]
    prepared = gpu.prepare([(ferry.blocks(pool, ids).transpose(0, 2, 1), store), (sent, plain),
                            (np.zeros((0, 4)), np.zeros((0, 4)))], stream)
    ids[:] = [1, 1, 1]
    for _ in range(2):
        np.asarray(store)[:] = 0
        prepared.launch_ticket(stream).wait()
        assert np.array_equal(np.asarray(store), before[[6, 0, 2]].transpose(0, 2, 1))
        assert np.array_equal(back(gpu, plain), numbers)
    prepared.close()
    places = gpu.empty(3, "int32")
    prepared = gpu.prepare([(store, ferry.blocks(pool, places).transpose(0, 2, 1))], stream)
    for chosen in ([1, 2, 3], [7, 0, 4]):
        gpu.copy(np.array(chosen, "int32"), places)
        prepared.launch(stream)
        stream.synchronize()
        assert np.array_equal(back(gpu, pool)[chosen], before[[6, 0, 2]])
    prepared.close()
    with pytest.raises(ferry.Error) as raised:
        gpu.prepare([(sent, plain), (ferry.blocks(np.zeros((8, 4), "uint8"), gpu.empty(2, "int32")),
                                     gpu.empty((2, 4), "uint8"))], stream)
    assert raised.value.index == 1


def test_arrays_of_many_boxes_are_prepared_as_nests(gpu):
    stream, before = gpu.stream(), numbered((30, 20), "int16")
    device, target = there(gpu, before), gpu.empty((20, 30), "int16")
    few = gpu.empty((3, 20), "int16")
    prepared = gpu.prepare([(ferry.view(device).transpose(1, 0), target), (ferry.view(device)[2:5], few)], stream)
    prepared.launch_ticket(stream).wait()
    prepared.close()
    assert np.array_equal(back(gpu, target), before.T)
    assert np.array_equal(back(gpu, few), before[2:5])


def test_blocks_are_for_copies_only(gpu):
    chosen, target = ferry.blocks(gpu.empty((8, 4)), [1]), np.zeros((1, 4), "uint8")
    with pytest.raises(ferry.ArgumentError, match="a batch takes no blocks"):
        gpu.batch().copy(chosen, target)
    for call in (lambda: gpu.fill(chosen), lambda: ferry.view(chosen)):
        with pytest.raises(TypeError, match=re.escape("Blocks are an end of copy()")):
            call()


# ---- Lifetimes

class Kept(np.ndarray):
    """An array that can be watched."""


class OnDevice:
    """An array on a device that can be watched."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        self.__cuda_array_interface__ = wrapped.__cuda_array_interface__


def test_a_copy_in_flight_keeps_the_pool_and_the_indices(gpu, monkeypatch):
    monkeypatch.setattr(ferry.tickets, "_NS_BETWEEN", 1 << 62)  # until wait(), no call finds out that a copy has ended
    stream, pool, target = gpu.stream(), numbered((64, 16)).view(Kept), gpu.empty((2, 16))
    skipped = OnDevice(counter_on(gpu))
    ids, device = OnDevice(there(gpu, np.array([3, 1], "int32"))), there(gpu, numbered((8, 16)))
    watched = [weakref.ref(one) for one in (pool, ids, skipped)]
    tickets = [gpu.copy_async(ferry.blocks(pool, [5, 9]), target, stream),
               gpu.copy_async(ferry.blocks(device, ids, skipped=skipped), gpu.pinned((2, 16)), stream)]
    del pool, ids, skipped
    gc.collect()
    assert all(one() is not None for one in watched)
    for ticket in tickets:
        ticket.wait()
    del ticket, tickets
    gc.collect()
    assert all(one() is None for one in watched), "a kept plan has no array"


def test_blocks_that_are_refused_keep_no_pool(gpu):
    """As long as a buffer is used, its object cannot be closed."""
    calls = {"index": lambda pages: ferry.blocks(pages, [1 << 20]),
             "axis": lambda pages: ferry.blocks(pages, [0], axis=3),
             "list": lambda pages: ferry.blocks(pages, ["0"]), "ids": lambda pages: ferry.blocks(bytes(8), pages),
             "counter": lambda pages: ferry.blocks(pages, [0], skipped=pages)}
    for name, call in calls.items():
        pages, kept = mmap.mmap(-1, 4096), None
        try:
            call(pages)
        except (ferry.Error, TypeError) as why:
            kept = why
        assert kept is not None, name
        pages.close()
