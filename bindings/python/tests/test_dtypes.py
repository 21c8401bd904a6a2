"""Elements of every type of NumPy, ml_dtypes, DLPack, ctypes and buffers: copied whole, or refused with the field named."""
import array
import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

import ferry
from conftest import WithDLPack
from ferry import dtypes

NUMPY = sorted({np.dtype(kind).newbyteorder(order).str for kind in np.sctypeDict.values() for order in "<>"
                if np.dtype(kind).kind in "biufcmM" and np.dtype(kind).isbuiltin == 1} |
               {"<M8[ns]", ">M8[25s]", "<m8[D]", ">m8[s]", "|S5", "<U3", ">U3", "|V7"})
STRUCTURES = {"fields": np.dtype("i4, f8"), "unaligned": np.dtype({"names": ["a", "b"], "formats": ["u1", "f8"]}),
              "aligned": np.dtype([("a", "u1"), ("b", "f8")], align=True), "nested": np.dtype([("a", [("b", ">i2", (3,))])]),
              "times": np.dtype([("a", "M8[s]"), ("b", "U2")])}
ML = sorted(name for name in dir(ml_dtypes)
            if isinstance(getattr(ml_dtypes, name), type) and issubclass(getattr(ml_dtypes, name), np.generic))
TYPES = {**{text: np.dtype(text) for text in NUMPY}, **STRUCTURES,
         **{name: np.dtype(getattr(ml_dtypes, name)) for name in ML}}


def random_elements(dtype):
    return np.random.default_rng(7).integers(1, 120, 15 * dtype.itemsize, dtype="uint8").view(dtype).reshape(3, 5)


def no_elements(dtype):
    return np.zeros(15 * dtype.itemsize, "uint8").view(dtype).reshape(3, 5)


def bytes_of(array):
    return np.ascontiguousarray(array).view("uint8").tobytes() if array.dtype.itemsize else b""


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
def test_every_type_arrives_whole(gpu, dtype):
    sent, got = random_elements(dtype), no_elements(dtype)
    device, pinned = gpu.empty((3, 5), dtype), gpu.pinned((3, 5), dtype)
    assert device.nbytes == pinned.nbytes == sent.nbytes
    for _ in range(2):  # with a new plan and with a known one
        gpu.copy(sent, device)
        gpu.copy(device, pinned)
        gpu.copy(pinned, got)
        assert bytes_of(got) == bytes_of(sent) == bytes(pinned.buffer)
    assert np.asarray(pinned).dtype.itemsize == dtype.itemsize
    if dtype.isbuiltin == 1 or dtype.kind in "SUMm":
        assert np.asarray(pinned).dtype == dtype
    gpu.copy(sent[:, ::2], device[:, ::2])
    part = no_elements(dtype)
    gpu.copy(device[::-1, 1::2], part[::-1, 1::2])
    assert bytes_of(part[:, 1::2]) == bytes_of(sent[:, 1::2])


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
def test_unaligned_elements_arrive(gpu, dtype):
    sent = np.ndarray((4,), dtype, bytes(range(1, 1 + 4 * dtype.itemsize + 1)), 1)
    got = np.ndarray((4,), dtype, bytearray(4 * dtype.itemsize + 3), 3)
    device = gpu.empty(4, dtype)
    gpu.copy(sent, device)
    gpu.copy(device, got)
    assert bytes_of(got) == bytes_of(sent)


def test_types_with_equal_bytes_are_not_taken_for_each_other(gpu):
    names = {dtype.name if dtype.isbuiltin == 2 else text: dtype for text, dtype in TYPES.items() if dtype.kind != "V" or
             dtype.isbuiltin == 2}
    for one, source in names.items():
        for other, destination in names.items():
            is_same = dtypes.of_numpy(source) == dtypes.of_numpy(destination)
            assert is_same == (source == destination), (one, other)
    with pytest.raises(ferry.ArgumentError, match="float8_e4m3fn, the destination of float8_e5m2") as raised:
        gpu.copy(np.zeros(4, ml_dtypes.float8_e4m3fn), np.zeros(4, ml_dtypes.float8_e5m2))
    assert (raised.value.side, raised.value.field) == ("destination", "dtype")


@pytest.mark.parametrize("name", ML)
def test_types_of_ml_dtypes_are_taken_by_name_and_class(name):
    assert dtypes.parse(name) == dtypes.parse(getattr(ml_dtypes, name)) == (name, np.dtype(name).itemsize)


class Described:
    """Shows an array interface that the array does not have."""

    def __init__(self, wrapped, **changed):
        self.wrapped = wrapped
        self.__array_interface__ = {"version": 3, "shape": wrapped.shape, "data": (wrapped.ctypes.data, False), **changed}


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]


class Packed(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("a", ctypes.c_ubyte), ("b", ctypes.c_double)]


class Either(ctypes.Union):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]


class Big(ctypes.BigEndianStructure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_int64)]


class WithObject(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.py_object)]


class EitherObject(ctypes.Union):
    _fields_ = [("a", ctypes.c_void_p), ("b", ctypes.py_object * 2)]


class Derived(WithObject):
    _fields_ = [("c", ctypes.c_int)]


def with_references():
    yield "objects", np.array([[1], "abc"], object)
    yield "fields", np.zeros(2, [("n", "i8"), ("what", "O")])
    yield "nested fields", np.zeros(2, [("n", "i8"), ("what", [("a", "O", (2,))])])
    if hasattr(np.dtypes, "StringDType"):
        yield "strings", np.array(["a" * 40, "b"], np.dtypes.StringDType())
    yield "interface", Described(np.zeros(2, "V8"), typestr="|O")
    yield "interface with fields", Described(np.zeros(2, "V16"), typestr="|V16", descr=[("a", "<i8"), ("b", "|O")])
    yield "interface with inner fields", Described(np.zeros(2, "V16"), typestr="|V16",
                                                   descr=[("a", [("b", "|O")]), ("c", "<i8")])
    yield "buffer", memoryview(np.array([1, 2], object))
    yield "buffer with fields", memoryview(np.zeros(2, [("n", "i8"), ("what", "O")]))
    for kind in (ctypes.py_object, ctypes.c_char_p, ctypes.c_wchar_p, ctypes.POINTER(ctypes.c_int), WithObject, EitherObject,
                 Derived, ctypes.CFUNCTYPE(None)):
        yield kind.__name__, (kind * 2)()
    yield "one of ctypes", WithObject()
    yield "bytes of ctypes", memoryview((EitherObject * 2)())


REFUSED = dict(with_references())


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_elements_that_refer_to_objects_are_refused(gpu, refused):
    size = 64
    for copy in (lambda: gpu.copy(refused, bytearray(size)), lambda: gpu.copy(bytes(size), refused),
                 lambda: gpu.copy(gpu.empty(size), refused), lambda: gpu.fill(refused, 65), lambda: gpu.copy(refused, refused),
                 lambda: ferry.view(refused)):
        with pytest.raises(ferry.ArgumentError, match="refer to other memory") as raised:
            copy()
        assert raised.value.field == "dtype"


@pytest.mark.parametrize("dtype", [object, "O", np.dtype("i4, O"), "|O8", "i4, O"])
def test_no_array_has_elements_that_refer_to_objects(gpu, dtype):
    for make in (gpu.empty, gpu.pinned):
        with pytest.raises(ferry.ArgumentError, match="refer to other memory"):
            make(4, dtype)


@pytest.mark.parametrize("typestr", ["<t4", "|X8", "f4f4", "", None, 4, b"<f4"])
def test_types_that_nobody_knows_are_refused(gpu, typestr):
    with pytest.raises(ferry.ArgumentError, match="the type is not known") as raised:
        gpu.copy(Described(np.zeros(8, "V8"), typestr=typestr), bytearray(64))
    assert raised.value.field == "dtype"


@pytest.mark.parametrize("given, name, size", [
    ("M8[ns]", "<M8[ns]", 8), (np.dtype("M8[ns]"), "<M8[ns]", 8), (">m8[s]", ">m8[s]", 8), ("S5", "S5", 5),
    ("U2", "<U2", 8), ("longdouble", "float128", 16), (np.longdouble, "float128", 16), (float, "float64", 8),
    ("i4, f8", "V12", 12), ("g", "float128", 16), ("q", "int64", 8), (">float32", ">float32", 4)])
def test_more_names_of_types(given, name, size):
    if np.dtype("longdouble").itemsize != 16 and "128" in name:
        pytest.skip("long double is another type")
    assert dtypes.parse(given) == (name, size)


@pytest.mark.parametrize("wrong", ["S0", "V0", np.dtype("U0"), np.str_])
def test_elements_without_bytes_make_no_array(gpu, wrong):
    with pytest.raises(ferry.ArgumentError, match="have no bytes"):
        gpu.empty(4, wrong)
    gpu.copy(np.zeros(3, np.dtype([])), np.zeros(3, np.dtype([])))


@pytest.mark.parametrize("code", [code for code in array.typecodes if code not in "uw"])
def test_every_type_of_array(gpu, code):
    sent, got = array.array(code, range(1, 9)), array.array(code, [0] * 8)
    device = gpu.empty(8, code)
    gpu.copy(sent, device)
    gpu.copy(device, got)
    assert got == sent
    gpu.copy(sent, np.zeros(8, code))


@pytest.mark.parametrize("kind", [
    ctypes.c_bool, ctypes.c_byte, ctypes.c_char, ctypes.c_wchar, ctypes.c_int16, ctypes.c_uint64, ctypes.c_float,
    ctypes.c_double, ctypes.c_longdouble, ctypes.c_void_p, Pair, Packed, Either, Pair * 3, ctypes.c_int * 2,
    Big])
def test_every_type_of_ctypes(gpu, kind):
    sent, got = (kind * 4)(), (kind * 4)()
    size = ctypes.sizeof(sent)
    ctypes.memmove(sent, bytes(range(1, 1 + size)), size)
    inner = getattr(kind, "_length_", 1)
    there = gpu.empty((4, inner) if inner > 1 else 4, f"V{size // 4 // inner}")
    gpu.copy(sent, there)
    gpu.copy(there, got)
    assert bytes(got) == bytes(range(1, 1 + size))


# ---- DLPack

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """Shows bytes by DLPack. `version` None: as producers did before versions."""

    def __init__(self, held, code, bits, lanes, shape, *, strides=None, version=(1, 0), flags=0, device_type=1,
                 name=None):
        def numbers(values):
            return (ctypes.c_int64 * max(len(values), 1))(*values)

        self.held, self.device_type, self.version, self.asked = held, device_type, version, []
        self.numbers = numbers(shape), None if strides is None else numbers(strides)
        cast = ctypes.POINTER(ctypes.c_int64)
        tensor = Tensor(held.ctypes.data, device_type, 0, len(shape), code, bits, lanes, ctypes.cast(self.numbers[0], cast),
                        ctypes.cast(self.numbers[1], cast) if strides is not None else None, 0)
        self.made = Managed(tensor) if version is None else Versioned(*version, flags=flags, tensor=tensor)
        self.name = name or (b"dltensor" if version is None else b"dltensor_versioned")

    def __dlpack__(self, **given):
        self.asked.append(given)
        if self.version is None and given:
            raise TypeError("no argument is known")
        return new_capsule(ctypes.addressof(self.made), self.name, None)

    def __dlpack_device__(self):
        return self.device_type, 0


WHOLE = [(code, bits, lanes) for code, every in (
    (0, (8, 16, 32, 64)), (1, (8, 16, 32, 64)), (2, (16, 32, 64, 128)), (4, (16,)), (5, (32, 64, 128)), (6, (8,)))
    for bits in every for lanes in (1, 2, 3, 4)]
WHOLE += [(code, 8, lanes) for code in range(7, 15) for lanes in (1, 4)]
WHOLE += [(17, 4, 2), (17, 4, 4), (15, 6, 4), (16, 6, 4), (0, 4, 2), (1, 4, 8), (1, 2, 4), (6, 1, 8), (0, 24, 1)]
PACKED = [(0, 4, 1), (1, 4, 1), (0, 2, 1), (1, 2, 1), (1, 1, 1), (6, 1, 1), (15, 6, 1), (16, 6, 1), (17, 4, 1)]
NEVER = [(3, 64, 1), (18, 8, 1), (255, 8, 1), (0, 12, 1), (0, 4, 3), (15, 6, 2), (6, 1, 12), (15, 8, 1), (17, 8, 1), (7, 16, 1),
         (2, 32, 0), (0, 0, 1)]


def check_that_elements_arrive(gpu, kind, shape, nbytes, **options):
    sent, got = np.arange(1, 1 + nbytes + 8, dtype="uint8"), np.zeros(nbytes + 8, "uint8")
    there = gpu.empty(nbytes)
    gpu.copy(ferry.view(Producer(sent, *kind, shape, **options)), bytearray(nbytes))
    gpu.copy(Producer(sent, *kind, shape, **options), Producer(got, *kind, shape, **options))
    assert np.array_equal(got[:nbytes], sent[:nbytes]) and not got[nbytes:].any()
    gpu.copy(sent[:nbytes], there)
    one = Producer(got, *kind, shape, **options)
    gpu.copy(there, got[:nbytes])
    assert ferry.view(one).nbytes == nbytes


@pytest.mark.parametrize("version", [None, (1, 0), (1, 9)])
@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_every_type_of_dlpack_arrives_whole(gpu, kind, version):
    check_that_elements_arrive(gpu, kind, (2, 4), 8 * kind[1] * kind[2] // 8, version=version)


@pytest.mark.parametrize("version", [None, (1, 1)])
@pytest.mark.parametrize("kind", PACKED, ids=str)
def test_packed_elements_of_dlpack_arrive_whole(gpu, kind, version):
    check_that_elements_arrive(gpu, kind, (3, 16), 3 * 16 * kind[1] // 8, version=version)
    check_that_elements_arrive(gpu, kind, (16,), 2 * kind[1], version=version, strides=(1,))
    for shape, strides in (((3,), None), ((), None), ((2, 9), None), ((2, 8), (16, 1)), ((8,), (2,)), ((8,), (-1,))):
        with pytest.raises(ferry.ArgumentError, match=f"packed elements of {kind[1]} bits") as raised:
            gpu.copy(Producer(np.zeros(64, "uint8"), *kind, shape, strides=strides, version=version), bytearray(64))
        assert raised.value.field == "dtype"


@pytest.mark.parametrize("kind", PACKED, ids=str)
def test_padded_elements_have_a_byte_each(gpu, kind):
    check_that_elements_arrive(gpu, kind, (3, 5), 15, version=(1, 1), flags=4)
    name = ferry.view(Producer(np.zeros(64, "uint8"), *kind, (4,), version=(1, 1), flags=4)).dtype
    if name in ML:
        gpu.copy(Producer(np.zeros(64, "uint8"), *kind, (4,), version=(1, 1), flags=4), np.zeros(4, name))
    with pytest.raises(ferry.ArgumentError, match="packed"):
        gpu.copy(Producer(np.zeros(64, "uint8"), *kind, (8,)), np.zeros(kind[1], name if name in ML else "int8"))


@pytest.mark.parametrize("kind", NEVER, ids=str)
def test_other_types_of_dlpack_are_refused(gpu, kind):
    one = Producer(np.zeros(256, "uint8"), *kind, (8,))
    for copy in (lambda: gpu.copy(one, bytearray(8)), lambda: gpu.copy(bytes(8), one), lambda: gpu.copy(one, one)):
        with pytest.raises(ferry.ArgumentError, match=f"{kind[1]} bits") as raised:
            copy()
        assert raised.value.field == "dtype"


def test_dlpack_is_asked_for_the_latest_version_that_is_known(gpu):
    one, old = Producer(np.zeros(8, "uint8"), 1, 8, 1, (8,)), Producer(np.zeros(8, "uint8"), 1, 8, 1, (8,), version=None)
    gpu.copy(one, bytearray(8))
    assert one.asked == [{"max_version": (1, 0)}]
    gpu.copy(old, bytearray(8))
    assert old.asked == [{"max_version": (1, 0)}, {}]


@pytest.mark.parametrize("flags", [1, 2, 3])
def test_read_only_tensors_and_copies_of_tensors_are_sources_only(gpu, flags):
    one = Producer(np.arange(8, dtype="uint8"), 1, 8, 1, (8,), flags=flags)
    got = bytearray(8)
    gpu.copy(one, got)
    assert got == bytes(range(8))
    with pytest.raises(ferry.ArgumentError, match="the destination is read-only"):
        gpu.copy(bytes(8), one)


def test_read_only_arrays_of_numpy_are_sources(gpu):
    held, got = np.arange(8.0), np.zeros(8)
    try:
        held.__dlpack__(max_version=(1, 0))
    except TypeError:
        pytest.skip("needs NumPy 2.1")
    held.flags.writeable = False
    gpu.copy(WithDLPack(held), got)
    assert np.array_equal(held, got)
    with pytest.raises(ferry.ArgumentError, match="the destination is read-only"):
        gpu.copy(got, WithDLPack(held))


def test_capsules_that_cannot_be_read_are_refused(gpu):
    def make(**options):
        return Producer(np.zeros(8, "uint8"), 1, 8, 1, (8,), **options)

    with pytest.raises(ferry.ArgumentError, match="version 2 of DLPack is not known"):
        gpu.copy(make(version=(2, 0)), bytearray(8))
    for name in (b"used_dltensor", b"used_dltensor_versioned", b"other"):
        with pytest.raises(TypeError, match="no DLPack capsule"):
            gpu.copy(make(name=name), bytearray(8))
    with pytest.raises(ferry.ArgumentError, match="device type 10") as raised:
        gpu.copy(make(device_type=10), bytearray(8))
    assert raised.value.field == "device"

    for kind in (BufferError, RuntimeError):
        class Refusing:
            def __dlpack__(self, **given):
                raise kind("no such type")

            def __dlpack_device__(self):
                return 1, 0

        with pytest.raises(ferry.ArgumentError, match="Refusing has no DLPack: no such type") as raised:
            gpu.copy(Refusing(), bytearray(8))
        assert raised.value.field == "dtype"


def test_a_capsule_lives_as_long_as_its_view():
    ended = []
    destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda capsule: ended.append(1))

    class Watched(Producer):
        def __dlpack__(self, **given):
            return new_capsule(ctypes.addressof(self.made), self.name, ctypes.cast(destructor, ctypes.c_void_p))

    one = ferry.view(Watched(np.zeros(8, "uint8"), 1, 8, 1, (8,)))
    gc.collect()
    assert not ended
    del one
    gc.collect()
    assert ended == [1]
