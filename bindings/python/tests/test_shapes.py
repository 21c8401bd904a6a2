"""Copies of strided arrays, against NumPy."""
import itertools
import random

import numpy as np
import pytest

import ferry
from ferry import shapes
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
    near = ferry.View(0, (3, 4), (4, 1), "uint8", 1, -1)
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
