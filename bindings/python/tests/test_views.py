"""Arrays of every kind as views."""
import array
import ctypes
import gc
import mmap
import sys
import types
import weakref

import numpy as np
import pytest

import ferry
from conftest import WithDLPack
from ferry import dtypes


class WithInterface:
    def __init__(self, wrapped, **changed):
        self.wrapped = wrapped
        self.__array_interface__ = {**wrapped.__array_interface__, **changed}


class WithCudaInterface:
    def __init__(self, wrapped, **changed):
        self.__cuda_array_interface__ = {**wrapped.__cuda_array_interface__, **changed}


def holders():
    yield bytearray(range(24))
    yield array.array("B", range(24))
    yield memoryview(bytearray(range(24)))[::1]
    pages = mmap.mmap(-1, 24)
    pages[:] = bytes(range(24))
    yield pages
    yield (ctypes.c_uint8 * 24)(*range(24))
    yield np.arange(24, dtype="uint8")
    yield WithInterface(np.arange(24, dtype="uint8"))
    yield WithDLPack(np.arange(24, dtype="uint8"))


@pytest.mark.parametrize("holder", list(holders()), ids=lambda holder: type(holder).__name__)
def test_everything_that_holds_bytes_is_copied_both_ways(gpu, holder):
    device = gpu.empty(24)
    gpu.copy(holder, device)
    found = bytearray(24)
    gpu.copy(device, found)
    assert found == bytes(range(24))
    gpu.copy(bytes(range(100, 124)), device)
    gpu.copy(device, holder)
    got = np.zeros(24, "uint8")
    gpu.copy(holder, got)
    assert bytes(got) == bytes(range(100, 124))


def test_views_are_transposed_as_numpy_does(gpu):
    host = np.arange(24, dtype="int16").reshape(2, 3, 4)
    device = gpu.empty((2, 3, 4), "int16")
    gpu.copy(host, device)
    got = np.zeros((4, 2, 3), "int16")
    gpu.copy(device.view.transpose(2, 0, 1), got)
    assert np.array_equal(got, host.transpose(2, 0, 1))
    assert device.view.transpose().shape == (4, 3, 2) and gpu.empty(()).view.transpose().shape == ()
    for axes in [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, -4), ((0, 1, 2, 2),)]:
        with pytest.raises(ferry.ArgumentError, match="must name each of the 3 axes once"):
            device.view.transpose(*axes)


def test_bytes_take_the_shape_of_the_other_side(gpu):
    picture = np.arange(30, dtype="float32").reshape(5, 6)
    raw = bytearray(4 * 12)
    gpu.copy(picture[1:4, 1:5], raw)
    assert np.array_equal(np.frombuffer(raw, "float32").reshape(3, 4), picture[1:4, 1:5])


def test_a_resizable_buffer_stays_as_it_is_while_a_view_lives():
    held = bytearray(8)
    one = ferry.view(held)
    with pytest.raises(BufferError):
        held.append(1)
    del one
    gc.collect()
    held.append(1)


def test_pinned_arrays_show_their_memory(gpu):
    pinned = gpu.pinned((3, 4), "int32")
    shown = np.asarray(pinned)
    shown[:] = 7
    assert bytes(pinned.buffer[:4]) == (7).to_bytes(4, sys.byteorder)
    device = gpu.empty((3, 4), "int32")
    gpu.copy(pinned, device)
    found = np.zeros((3, 4), "int32")
    gpu.copy(device, found)
    assert (found == 7).all()


def test_device_arrays_go_by_the_cuda_array_interface(gpu):
    device = gpu.empty((3, 4), "float64")
    numbers = np.arange(12.0).reshape(3, 4)
    gpu.copy(numbers, WithCudaInterface(device))
    found = np.zeros((3, 4))
    gpu.copy(WithCudaInterface(device, strides=(32, 8), shape=(2, 4)), found[1:])
    assert np.array_equal(found[1:], numbers[:2])


@pytest.mark.parametrize("given, name, size", [
    ("float32", "float32", 4), ("<f4", "float32", 4), (">f4", ">float32", 4), (np.int16, "int16", 2),
    (np.dtype("bool"), "bool", 1), ("bfloat16", "bfloat16", 2), ("complex64", "complex64", 8), ("B", "uint8", 1),
    (types.SimpleNamespace(__name__="float16"), "float16", 2), (np.dtype("V12"), "V12", 12)])
def test_types_of_elements(given, name, size):
    assert dtypes.parse(given) == (name, size)


def test_no_type_of_elements():
    for wrong in ("floaty", object(), None, 4):
        with pytest.raises((TypeError, ValueError)):
            dtypes.parse(wrong)


@pytest.mark.parametrize("wrong", [None, 3, "text", [1, 2], object()])
def test_what_is_no_array_is_said_to_be_none(gpu, wrong):
    with pytest.raises(TypeError, match="not an array"):
        gpu.copy(wrong, bytearray(4))


@pytest.mark.parametrize("scalar", [np.float64(1), np.void(bytes(4096)), np.str_("text"), np.bytes_(b"text"), np.bool_(True),
                                    np.datetime64("2026-01-01"), np.zeros(1, "i4, f8")[0]], ids=lambda one: type(one).__name__)
def test_scalars_of_numpy_are_refused(gpu, scalar):
    """Their interface names memory that is freed immediately."""
    for copy in (lambda: gpu.copy(scalar, bytearray(4096)), lambda: gpu.copy(bytes(4096), scalar), lambda: ferry.view(scalar)):
        with pytest.raises(TypeError, match="a scalar of NumPy"):
            copy()
    device, got = gpu.empty((), scalar.dtype), np.zeros((), scalar.dtype)
    gpu.copy(np.asarray(scalar), device)
    gpu.copy(device, got)
    assert got.tobytes() == scalar.tobytes()


class WithBuffer:
    """An interface whose memory is a buffer, as pictures of PIL have it."""

    def __init__(self, data, shape, **more):
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": shape, "data": data, **more}


class OwnBuffer(bytearray):
    @property
    def __array_interface__(self):
        return {"version": 3, "typestr": "<u2", "shape": (3,), "data": None}


def test_an_interface_may_name_a_buffer(gpu):
    got = np.zeros((2, 3), "uint8")
    gpu.copy(WithBuffer(bytes(range(6)), (2, 3)), got)
    assert got.tolist() == [[0, 1, 2], [3, 4, 5]]
    gpu.copy(WithBuffer(bytes(range(9)), (2, 3), offset=2, strides=(4, 1)), got)
    assert got.tolist() == [[2, 3, 4], [6, 7, 8]]
    held = OwnBuffer(6)
    gpu.copy(np.arange(3, dtype="uint16"), held)
    assert held == bytes([0, 0, 1, 0, 2, 0])
    with pytest.raises(ferry.ArgumentError, match="read-only"):
        gpu.copy(got, WithBuffer(bytes(6), (2, 3)))


@pytest.mark.parametrize("shape, more", [((7,), {}), ((2, 4), {}), ((3,), {"offset": 4}), ((3,), {"offset": -1}),
                                         ((3,), {"strides": (-1,)}), ((2,), {"strides": (6,)})])
def test_an_interface_outside_its_buffer_is_refused(gpu, shape, more):
    one = WithBuffer(bytearray(6), shape, **more)
    for copy in (lambda: gpu.copy(one, bytearray(64)), lambda: gpu.copy(one, np.zeros(shape, "uint8")),
                 lambda: gpu.copy(np.zeros(shape, "uint8"), one)):
        with pytest.raises(ferry.ArgumentError, match="outside its buffer"):
            copy()


def test_a_masked_array_is_refused(gpu):
    with pytest.raises(ferry.ArgumentError, match="mask"):
        gpu.copy(WithInterface(np.zeros(3), mask=np.zeros(3)), np.zeros(3))


def test_views_index_as_arrays_do():
    numbers = np.arange(60).reshape(3, 4, 5)
    one = ferry.view(numbers)
    for index in (np.s_[1], np.s_[..., 2], np.s_[1:, ::2], np.s_[-1, ..., 1:3], np.s_[:, :, ::-1], np.s_[2:1]):
        wanted = numbers[index]
        found = one[index]
        assert (found.shape, found.strides) == (wanted.shape, wanted.strides), index
        if wanted.size:
            assert found.address == wanted.__array_interface__["data"][0], index
    for wrong in (np.s_[3], np.s_[0, 0, 0, 0], np.s_[:, -5]):
        with pytest.raises(IndexError):
            one[wrong]


def test_a_view_keeps_its_array_alive():
    class Kept(np.ndarray):
        pass
    numbers = np.zeros(4).view(Kept)
    watched = weakref.ref(numbers)
    one = ferry.view(numbers)
    del numbers
    gc.collect()
    assert watched() is not None
    del one
    gc.collect()
    assert watched() is None


def test_memory_by_address(gpu):
    numbers = np.arange(8, dtype="uint8")
    device = gpu.empty(8)
    gpu.copy(ferry.memory(numbers.ctypes.data, 8), ferry.memory(device.address, 8, device=0))
    found = bytearray(8)
    gpu.copy(device, found)
    assert found == bytes(range(8))
