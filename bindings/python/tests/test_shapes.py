"""Copies of strided arrays, against NumPy."""
import itertools
import mmap
import random

import numpy as np
import pytest

import ferry
from ferry import overlap, shapes
from ferry.shapes import boxes


def as_bytes(array):
    return np.frombuffer(array.base if array.base is not None else array, dtype=np.uint8)


def filled(shape, dtype="uint8"):
    count = int(np.prod(shape))
    return (np.arange(count) % 251).astype(dtype).reshape(shape)


def there(gpu, array):
    """An array on the device with the bytes of a contiguous one."""
    made = gpu.empty(array.shape, array.dtype)
    gpu.copy(array, made)
    return made


def back(gpu, array, dtype):
    host = np.zeros(array.shape, dtype)
    gpu.copy(array, host)
    return host


PARTS = [np.s_[:], np.s_[2:9], np.s_[1:8:3], np.s_[::-1], np.s_[5:6], np.s_[0:0]]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
def test_every_part_arrives_and_nothing_else_changes(gpu, axes, dtype):
    """Every combination of parts of up to three axes, there and back. The bytes around them must not change."""
    host = filled((10,) * axes, dtype)
    for parts in itertools.product(PARTS, repeat=axes):
        target = np.full_like(host, 7)
        device = there(gpu, target)
        gpu.copy(host[parts], device[parts])
        expected = target.copy()
        expected[parts] = host[parts]
        assert np.array_equal(back(gpu, device, dtype), expected), parts
        returned = np.full_like(host, 9)
        wanted = returned.copy()
        wanted[parts] = expected[parts]
        gpu.copy(device[parts], returned[parts])
        assert np.array_equal(returned, wanted), parts


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_axes_in_any_order(gpu, order):
    source = filled((2, 3, 4, 5), "int16").transpose(order)
    target = np.zeros(source.shape, "int16")
    gpu.copy(source, target)
    assert np.array_equal(source, target)
    turned = np.zeros((2, 3, 4, 5), "int16").transpose(order)
    gpu.copy(target, turned)
    assert np.array_equal(source, turned)


def test_random_views_of_five_axes(gpu):
    random.seed(5)
    for _ in range(200):
        shape = [random.randint(1, 5) for _ in range(5)]
        parts = tuple(slice(random.randint(0, length - 1), None, random.choice([1, 2, -1])) for length in shape)
        order = random.sample(range(5), 5)
        source, target = filled(shape, "uint32")[parts].transpose(order), np.zeros(shape, "uint32")
        expected = target.copy()
        target_part, expected_part = target[parts].transpose(order), expected[parts].transpose(order)
        expected_part[...] = source
        gpu.copy(source, target_part)
        assert np.array_equal(target, expected), (shape, parts, order)


def test_a_broadcast_source_is_read_again_and_again(gpu):
    source = np.broadcast_to(np.arange(5, dtype="int32"), (4, 5))
    target = gpu.empty((4, 5), "int32")
    gpu.copy(source, target)
    assert np.array_equal(back(gpu, target, "int32"), source)


def test_many_boxes_are_one_nest(gpu):
    """A copy that would be many boxes is one call, which a kernel makes on the device."""
    host = filled((6, 7, 8, 9), "float32")
    source, target = there(gpu, host), gpu.empty((9, 7, 6, 8), "float32")
    strides = [host.strides[axis] for axis in (3, 1, 0, 2)]
    turned = ferry.View(ferry.view(source).address, target.shape, tuple(strides), "float32", 4, 0, source)
    assert number_of_boxes(turned, target) > shapes.FEW_BOXES
    explained = gpu.explain(turned, target)
    assert explained.info.calls == 1 and explained.route == "kernel", explained
    stream = gpu.stream()
    gpu.copy_async(turned, target, stream).wait()
    assert np.array_equal(back(gpu, target, "float32"), host.transpose(3, 1, 0, 2))
    again = gpu.empty((9, 7, 6, 8), "float32")
    with gpu.batch(stream) as batch:  # which takes boxes
        batch.copy(turned, again)
    batch.ticket.wait()
    assert np.array_equal(back(gpu, again, "float32"), host.transpose(3, 1, 0, 2))


def number_of_boxes(source, target):
    return len(boxes(ferry.view(source), ferry.view(target)))


def test_as_few_descriptors_as_possible():
    whole = np.zeros((8, 9, 10), "float32")
    other = np.zeros((8, 9, 10), "float32")
    assert number_of_boxes(whole, other) == 1
    assert boxes(ferry.view(whole), ferry.view(other))[0].width == whole.nbytes
    assert number_of_boxes(whole[1:5, 2:7, 3:9], other[1:5, 2:7, 3:9]) == 1
    assert number_of_boxes(whole[:, ::3], other[:, ::3]) == 1
    assert number_of_boxes(whole[:, ::2], other[:, ::2]) == 8, "slices are not a whole number of rows apart"
    assert number_of_boxes(whole[:, :, ::2], other[:, :, ::2]) == 1, "one element is one row"
    assert number_of_boxes(whole[::-1], other[::-1]) == 1, "reversed on both sides"
    assert number_of_boxes(whole[::-1], other) == 8
    assert number_of_boxes(whole[:0], other[:0]) == 0
    wide = np.zeros((3, 4, 5, 6), "uint8")[:, :, 1:4, 1:5]
    assert number_of_boxes(wide, wide.copy()) == 1, "two axes with one distance are one axis"


def test_rows_beyond_the_drivers_pitch_are_copies_of_their_own():
    far = ferry.View(0, (3, 4), (shapes.MAX_PITCH + 1, 1), "uint8", 1, -1)
    near = ferry.View(4, (3, 4), (4, 1), "uint8", 1, -1)
    assert len(boxes(far, near)) == 3


@pytest.mark.parametrize("source, target, text, field", [
    (np.zeros((2, 3)), np.zeros((3, 2)), "axis 0: the source has 2 elements, the destination 3", "axis 0"),
    (np.zeros((2, 3)), np.zeros(6), r"the shape 2 x 3, the destination 6", "shape"),
    (np.zeros(4, "float32"), np.zeros(4, "int32"), "elements of float32, the destination of int32", "dtype"),
    (np.zeros(4, "float32"), np.zeros(4, "float64"), "float32.*float64", "dtype"),
    (np.zeros(4, "<u4"), np.zeros(4, ">u4"), "uint32.*>uint32", "dtype"),
    (np.zeros((2, 3)), np.broadcast_to(np.zeros(3), (2, 3)), "read-only", "address"),
    (bytes(8), bytearray(9), "8 bytes, the other side 9", "shape"),
    (bytes(8), bytes(8), "read-only", "address"),
])
def test_what_does_not_fit_is_named(gpu, source, target, text, field):
    with pytest.raises(ferry.ArgumentError, match=text) as raised:
        gpu.copy(source, target)
    assert raised.value.field == field


def test_destinations_that_share_bytes_are_refused(gpu):
    line = np.zeros(10, "uint8")
    same = np.lib.stride_tricks.as_strided(line, (3, 4), (0, 1))
    with pytest.raises(ferry.ArgumentError, match="axis 0 of the destination has stride 0"):
        gpu.copy(np.zeros((3, 4), "uint8"), same)
    window = np.lib.stride_tricks.as_strided(line, (3, 4), (2, 1))
    with pytest.raises(ferry.ArgumentError, match="share bytes along axis 0") as raised:
        gpu.copy(np.zeros((3, 4), "uint8"), window)
    assert raised.value.side == "destination"


def test_too_many_copies_are_refused_before_they_are_made(gpu):
    source = np.broadcast_to(np.zeros(1, "uint8"), (3000, 3000, 1))
    with pytest.raises(ferry.ArgumentError, match="9000000 copies"):
        gpu.copy(source, np.zeros((3000, 3000, 2), "uint8")[..., :1][::1, ::-1])


# ---- Copies within one array

def calls_of(gpu):
    """All ways to copy a source to a destination, by name."""
    def batch(stream=None, options=None):
        def copy(source, destination):
            with gpu.batch(stream, options) as collected:
                collected.copy(source, destination)
            if collected.ticket:
                collected.ticket.wait()
        return copy

    stream, check_overlap = gpu.stream(), ferry.CopyOptions(flags=ferry.CopyFlags.CHECK_OVERLAP)
    return {"copy": gpu.copy, "copy_async": lambda one, other: gpu.copy_async(one, other, stream).wait(),
            "enqueue": lambda one, other: (gpu.enqueue(one, other, stream), stream.synchronize()),
            "batch": batch(), "batch that checks": batch(None, check_overlap), "batch on a stream": batch(stream),
            "prepare": lambda one, other: (gpu.prepare([(one, other)], stream).launch(stream), stream.synchronize()),
            "explain": gpu.explain}


TOUCHING = {"flipped": (np.s_[::-1, ::-1], np.s_[:]), "one axis flipped": (np.s_[:, ::-1], np.s_[:]),
            "by one row": (np.s_[1:], np.s_[:-1]), "by one element": (np.s_[:, 1:], np.s_[:, :-1]),
            "the same": (np.s_[:], np.s_[:]), "another step": (np.s_[:3, ::2], np.s_[:3, :4]),
            "flipped, in part": (np.s_[::2, 6:1:-2], np.s_[4:, 3:6])}
APART = {"interleaved elements": (np.s_[:, ::2], np.s_[:, 1::2]), "interleaved rows": (np.s_[1::2], np.s_[::2]),
         "interleaved, flipped": (np.s_[:, ::-2], np.s_[:, ::2]), "halves": (np.s_[:, :4], np.s_[:, 7:3:-1]),
         "corners": (np.s_[:4, :4], np.s_[4:, 4:]), "nothing": (np.s_[3:3], np.s_[3:3])}


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "device"])
@pytest.mark.parametrize("parts", TOUCHING.values(), ids=TOUCHING)
def test_a_source_that_shares_bytes_with_its_destination_is_refused_by_every_call(gpu, parts, on_host):
    before = filled((8, 8), "int32")
    array = before.copy() if on_host else there(gpu, before)
    source, destination = (ferry.view(array)[part] for part in parts)
    for name, call in calls_of(gpu).items():
        with pytest.raises(ferry.Error, match="source and destination share bytes") as raised:
            call(source, destination)
        assert raised.value.status is ferry.Status.OVERLAP, name
        assert np.array_equal(array if on_host else back(gpu, array, "int32"), before), name


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "device"])
@pytest.mark.parametrize("parts", APART.values(), ids=APART)
def test_parts_of_one_array_that_do_not_touch_are_copied(gpu, parts, on_host):
    for name, call in calls_of(gpu).items():
        before = filled((8, 8), "int32")
        array = before.copy() if on_host else there(gpu, before)
        source, destination = (ferry.view(array)[part] for part in parts)
        if name == "explain" and not source.nbytes:
            continue
        call(source, destination)
        if name != "explain":
            before[parts[1]] = before[parts[0]].copy()
        assert np.array_equal(array if on_host else back(gpu, array, "int32"), before), name


def test_a_transposed_square_is_not_copied_onto_itself(gpu):
    square = gpu.empty((8, 8), "int64")
    turned = ferry.View(square.address, (8, 8), (8, 64), "int64", 8, 0, square)
    with pytest.raises(ferry.Error, match="share bytes"):
        gpu.copy(turned, square)


def random_part(base, itemsize):
    while True:
        axes = random.randint(0, 3)
        shape = [random.randint(1, 5) for _ in range(axes)]
        strides = [random.randint(-30, 30) for _ in range(axes)]
        reach = [(length - 1) * stride for length, stride in zip(shape, strides)]
        first, last = -sum(min(0, far) for far in reach), len(base) - itemsize - sum(max(0, far) for far in reach)
        if first <= last:
            return np.ndarray(shape, f"V{itemsize}", base, random.randint(first, last), strides)


def test_overlap_is_what_numpy_finds():
    random.seed(11)
    found = []
    for _ in range(8000):
        base, itemsize = np.zeros(random.randint(20, 300), "uint8"), random.choice([1, 2, 3, 8])
        one, other = random_part(base, itemsize), random_part(base, itemsize)
        found.append(overlap.overlap(ferry.view(one), ferry.view(other)))
        assert found[-1] == np.shares_memory(one, other), (one.shape, one.strides, other.shape, other.strides, itemsize)
    assert 1000 < sum(found) < 7000


def test_views_whose_overlap_is_not_found_out_in_time_are_refused(gpu, monkeypatch):
    array = np.zeros(1000, "uint8")
    one, other = (np.ndarray((3, 3), "uint8", array, at, strides) for at, strides in ((0, (97, 13)), (1, (89, 11))))
    assert not np.shares_memory(one, other)
    gpu.copy(one, other)
    monkeypatch.setattr(overlap, "_MAX_STEPS", 0)
    with pytest.raises(ferry.ArgumentError, match="too many ways"):
        gpu.explain(one, other)


# ---- Large arrays

LARGE = [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, 3 << 30, (1 << 32) - 1, 1 << 32, (1 << 32) + 5]


def untouched(size):
    """Memory of which only the pages that are written take room."""
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000), "uint8")


@pytest.mark.parametrize("size", LARGE)
def test_every_call_takes_lines_of_any_length(gpu, size):
    source, destination, stream = untouched(size), untouched(size), gpu.stream()
    gpu.explain(source, destination)
    gpu.explain(source, destination, stream)
    gpu.prepare([(source, destination)], stream)
    gpu.prepare([(source[:-1].reshape(1, -1)[:, ::-1], destination[1:].reshape(1, -1)[:, ::-1])], stream)
    line, = boxes(ferry.view(source), ferry.view(destination))
    assert (line.width, line.height, line.depth) == (size, 1, 1)


def test_rows_longer_than_a_pitch_are_lines(gpu):
    size = (1 << 31) + 16
    source, destination = untouched(3 * size).reshape(3, size), untouched(3 * size + 48).reshape(3, size + 16)[:, :-16]
    found = boxes(ferry.view(source), ferry.view(destination))
    assert [(box.width, box.height, box.source_pitch, box.destination_pitch) for box in found] == [(size, 1, 0, 0)] * 3
    gpu.prepare([(source, destination)])
    far = untouched(3 * size).reshape(3, size)
    source[:, -4:] = filled((3, 4))
    gpu.copy(source[:, -4:], far[:, -4:])
    assert np.array_equal(far[:, -4:], filled((3, 4)))


def test_arrays_of_more_than_two_gib_arrive(gpu):
    size = (1 << 31) + 4097
    source, device, got = untouched(size), gpu.empty(size), bytearray(8192)
    source[:4096], source[-4096:] = filled(4096), filled(4096)[::-1]
    gpu.copy(source, device)
    gpu.copy(device[:4096], memoryview(got)[:4096])
    gpu.copy(device[-4096:], memoryview(got)[4096:])
    assert np.array_equal(np.frombuffer(got, "uint8"), np.concatenate((filled(4096), filled(4096)[::-1])))


def test_fills_of_more_than_two_gib(gpu):
    device = gpu.empty((1 << 31) + 2)
    for pattern in (b"a", b"ab"):
        assert gpu.explain_fill(device, pattern).route in ("driver", "kernel")
    rows = gpu.empty((3, 1 << 20), "uint16")
    assert gpu.explain_fill(rows[:, :-1], 1).route in ("driver", "kernel")
