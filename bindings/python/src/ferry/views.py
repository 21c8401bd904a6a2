"""Views: the location and the layout of an array of any library. view() makes a view without a copy."""
from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable, Hashable, Sequence
from ctypes import (POINTER, Structure, addressof, c_char, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8,
                    c_uint16, c_uint32, c_uint64, c_void_p)
from operator import attrgetter
from typing import Any, Final

from . import dtypes, native
from .errors import ArgumentError
from .handles import Owner, whole

HOST: Final = -1  # where a view is: in host memory, on the device of that number, or wherever its address says
UNKNOWN: Final = -2
_END: Final = (1 << 64) - 1  # of all addresses
_BYTES: Final = (1,)  # the strides of bytes in a row


def tight_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    strides, stride = [], itemsize
    for length in reversed(shape):
        strides.append(stride)
        stride *= max(length, 1)
    return tuple(reversed(strides))


def parts_of(index: Any, axes: int) -> list[Any]:
    """The slice or integer of each axis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    at = next((at for at, one in enumerate(parts) if one is Ellipsis), None)
    if at is not None:
        parts[at:at + 1] = [slice(None)] * (axes - len(parts) + 1)
    if len(parts) > axes:
        raise IndexError(f"{len(parts)} indices for {axes} axes")
    return parts + [slice(None)] * (axes - len(parts))


def position(index: Any, axis: int, length: int) -> int:
    """The position that an integer selects on an axis. Negative integers count from the end."""
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} of axis {axis}, which has {length}")
    return number % length


def order_of(given: tuple[Any, ...], axes: int) -> list[int]:
    """The order of the axes that the arguments of transpose() state."""
    if len(given) == 1 and not hasattr(given[0], "__index__"):
        given = tuple(given[0])
    order = [operator.index(one) for one in given] or list(reversed(range(axes)))
    if sorted(one % axes if -axes <= one < axes else -1 for one in order) != list(range(axes)):
        raise ArgumentError(f"axes: {given}, must name each of the {axes} axes once", field="axes")
    return order


class View(Owner):
    """The address, shape and element type of an array that another object owns. `strides` are bytes. `dtype` None: bytes
    of any meaning. A view keeps the array alive. Copies of the same views cost least."""

    __slots__ = ("address", "shape", "strides", "dtype", "itemsize", "device", "readonly", "owner", "key")
    dtype: str | None
    key: Hashable

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: str | None,
                 itemsize: int, device: int, owner: Any = None, readonly: bool = False) -> None:
        self.address = address
        self.shape = shape
        self.strides = tight_strides(shape, itemsize) if strides is None else strides
        self.dtype = dtype
        self.itemsize = itemsize
        self.device = device
        self.readonly = readonly
        self.owner = owner
        self.key = (address, shape, self.strides, dtype, device, readonly)

    @property
    def nbytes(self) -> int:
        count = self.itemsize
        for length in self.shape:
            count *= length
        return count

    def span(self) -> tuple[int, int]:
        """The first byte of a view that has elements, and one past the last."""
        first, end = self.address, self.address + self.itemsize
        for length, stride in zip(self.shape, self.strides):
            if stride < 0:
                first += (length - 1) * stride
            else:
                end += (length - 1) * stride
        return first, end

    @property
    def is_tight(self) -> bool:
        """Whether the elements follow each other without gaps, in C's order."""
        return all(length == 1 or stride == tight for length, stride, tight in
                   zip(self.shape, self.strides, tight_strides(self.shape, self.itemsize))) or 0 in self.shape

    def __getitem__(self, index: Any) -> View:
        """A part, by integers, slices and an ellipsis."""
        address, shape, strides = self.address, [], []
        for axis, (one, length, stride) in enumerate(zip(parts_of(index, len(self.shape)), self.shape, self.strides)):
            if isinstance(one, slice):
                start, stop, step = one.indices(length)
                count = len(range(start, stop, step))
                address += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            else:
                address += position(one, axis, length) * stride
        return View(address, tuple(shape), tuple(strides), self.dtype, self.itemsize, self.device, self.owner,
                    self.readonly)

    def transpose(self, *axes: Any) -> View:
        """The same elements with the axes in another order, as NumPy's transpose(). Without arguments, the order is
        reversed."""
        order = order_of(axes, len(self.shape))
        return View(self.address, tuple([self.shape[axis] for axis in order]),
                    tuple([self.strides[axis] for axis in order]), self.dtype, self.itemsize, self.device, self.owner,
                    self.readonly)

    def __repr__(self) -> str:
        where = {HOST: "host", UNKNOWN: "by address"}.get(self.device, f"device {self.device}")
        return f"<ferry.View {self.shape} {self.dtype or 'bytes'} at {self.address:#x}, {where}>"


def memory(address: int, nbytes: int, device: int | None = None, owner: Any = None) -> View:
    """A view of bytes at an address, which the caller must keep valid. `device` None: ferry looks up the device."""
    if type(address) is not int or type(nbytes) is not int or not 0 <= address <= address + nbytes <= _END:
        address = whole(address, "address", 0, _END)
        nbytes = whole(nbytes, "nbytes", 0, _END - address)
    if device is not None and (type(device) is not int or not UNKNOWN <= device < 1 << 31):
        device = whole(device, "device", UNKNOWN, (1 << 31) - 1)
    made = View.__new__(View)  # half the time of View()
    made.address, made.shape, made.strides, made.dtype, made.itemsize = address, (nbytes,), _BYTES, None, 1
    made.device = place = UNKNOWN if device is None else device
    made.readonly, made.owner, made.key = False, owner, (address, nbytes, place)
    return made


# ---- PyTorch: its tensors provide everything, without an import

def _key_of_tensor(tensor: Any) -> Hashable:
    try:
        return (1, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_conj(),
                tensor.is_neg())
    except (RuntimeError, NotImplementedError):  # a sparse tensor, for example
        return _of_tensor(tensor).key


def _of_tensor(tensor: Any) -> View:
    device = tensor.device
    if device.type not in ("cpu", "cuda") or str(tensor.layout) != "torch.strided":
        raise ArgumentError(f"a {tensor.layout} tensor on {device} has no memory to copy", field="address")
    if tensor.is_conj() or tensor.is_neg():
        raise ArgumentError("the tensor is a conjugate or negative view: resolve it first (resolve_conj, resolve_neg)",
                            field="address")
    if tensor.is_quantized:
        raise ArgumentError("a quantized tensor has scales beside its memory: copy its int_repr()", field="dtype")
    itemsize = tensor.element_size()
    return View(tensor.data_ptr(), tuple(tensor.shape), tuple([stride * itemsize for stride in tensor.stride()]),
                str(tensor.dtype).rpartition(".")[2], itemsize, device.index if device.type == "cuda" else HOST, tensor)


# ---- Array interfaces: NumPy, CuPy, Numba and others

def _is_masked(array: Any) -> bool:
    """Whether elements of a numpy.ma.MaskedArray are masked."""
    if not any(base.__module__.startswith("numpy.ma") for base in type(array).__mro__):
        return False
    mask = array.mask
    return bool(mask.view("bool").any() if mask.dtype.names else mask.any())


def _of_interface(interface: dict[str, Any], device: int, owner: Any) -> View:
    if interface.get("mask") is not None or _is_masked(owner):
        raise ArgumentError("the array has a mask, which cannot be copied", field="address")
    name, itemsize = dtypes.of_interface(interface, owner)
    data = interface.get("data")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    strides = None if strides is None else tuple(strides)
    if isinstance(data, tuple):
        return View(data[0] or 0, shape, strides, name, itemsize, device, owner, bool(data[1]))
    if device != HOST:
        raise ArgumentError("the array has no address", field="address")
    every = _of_buffer(owner if data is None else data)
    offset = interface.get("offset", 0)
    part = View(every.address + offset, shape, strides, name, itemsize, HOST, (every.owner, owner), every.readonly)
    first, end = part.span() if part.nbytes else (every.address, every.address)
    if first < every.address or end > every.address + every.nbytes or not every.is_tight:
        raise ArgumentError("the array has elements outside its buffer", field="address")
    return part


def _of_array(array: Any) -> View:
    # The memory of a NumPy scalar is a temporary array.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.generic):
        raise TypeError(f"{type(array).__name__} is a scalar of NumPy, not an array: use numpy.asarray(scalar)")
    return _of_interface(array.__array_interface__, HOST, array)


def _key_of_array(array: Any) -> tuple[Any, ...]:
    flags = array.flags
    address = None
    if flags.c_contiguous and flags.writeable and array.size:
        try:
            address = addressof(c_char.from_buffer(array))  # several times as fast as the interface
        except (TypeError, ValueError, BufferError):  # elements such as bfloat16, of which no buffer knows
            pass
    if address is None:
        address = array.__array_interface__["data"][0]
    return 2, address, array.shape, array.strides, array.dtype, flags.writeable


def _of_cuda_array(array: Any) -> View:
    return _of_interface(array.__cuda_array_interface__, UNKNOWN, array)


def _key_of_cupy_array(array: Any) -> Hashable:
    return 3, array.data.ptr, array.shape, array.strides, array.dtype


# ---- DLPack

class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _DLTensor)]


_READ_ONLY, _IS_COPY, _IS_PADDED = 1, 2, 4  # flags of a versioned tensor
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = [ctypes.py_object, c_char_p]
_DLPACK_PLACES: Final = {1: HOST, 3: HOST, 2: None, 13: UNKNOWN}  # None: the device that the tensor names


def _capsule_of(array: Any) -> Any:
    # -1: the producer need not synchronise. The copy is ordered on its stream, as for arrays of every other library.
    stream = {"stream": -1} if array.__dlpack_device__()[0] in (2, 13) else {}
    try:
        try:
            return array.__dlpack__(max_version=(1, 0), **stream)
        except TypeError:  # a producer from before versions
            return array.__dlpack__(**stream)
    except (BufferError, RuntimeError) as why:  # most often because of the type of its elements
        raise ArgumentError(f"{type(array).__name__} has no DLPack: {why}", field="dtype") from None


def _of_dlpack(array: Any) -> View:
    capsule, flags = _capsule_of(array), 0
    if _is_capsule(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ArgumentError(f"version {versioned.major} of DLPack is not known", field="address")
        tensor, flags = versioned.tensor, versioned.flags
    elif _is_capsule(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    else:
        raise TypeError(f"__dlpack__ of {type(array).__name__} returned no DLPack capsule")
    if tensor.device_type not in _DLPACK_PLACES:
        raise ArgumentError(f"memory of DLPack's device type {tensor.device_type} cannot be copied", field="device")
    name, itemsize, bits = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes, bool(flags & _IS_PADDED))
    axes = range(tensor.ndim)
    shape = tuple(tensor.shape[axis] for axis in axes)
    strides = tuple(tensor.strides[axis] for axis in axes) if tensor.strides else tight_strides(shape, 1)
    if not itemsize:  # packed: the last axis counts bytes
        if not shape or shape[-1] * bits % 8 or strides != tight_strides(shape, 1) and 0 not in shape:
            raise ArgumentError(f"packed elements of {bits} bits ({name}): the last axis must be contiguous and fill "
                                f"whole bytes; the shape is {shape}", field="dtype")
        shape, itemsize = (*shape[:-1], shape[-1] * bits // 8), 1
        strides = tight_strides(shape, 1)
    place = _DLPACK_PLACES[tensor.device_type]
    # The capsule keeps the tensor alive: no other owner takes it. What is written to a copy would be lost.
    return View((tensor.data or 0) + tensor.byte_offset, shape, tuple([stride * itemsize for stride in strides]), name,
                itemsize, tensor.device_id if place is None else place, (array, capsule),
                bool(flags & (_READ_ONLY | _IS_COPY)))


# ---- The buffer protocol

class _Buffer(Structure):
    _fields_ = [("buf", c_void_p), ("obj", ctypes.py_object), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)),
                ("strides", POINTER(c_ssize_t)), ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p)]


_get_buffer, _release_buffer = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
_get_buffer.argtypes, _release_buffer.argtypes = [ctypes.py_object, POINTER(_Buffer), c_int], [POINTER(_Buffer)]
_release_buffer.restype = None
_STRIDED_WITH_FORMAT: Final = 0x0018 | 0x0004


class _HeldBuffer:
    """A buffer stays exported, so that its object cannot be resized, until this is collected."""

    def __init__(self, exporter: Any) -> None:
        self.buffer = _Buffer()
        self._release = _release_buffer  # at exit the module may be gone before this
        self._held = False
        _get_buffer(exporter, self.buffer, _STRIDED_WITH_FORMAT)
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._release(self.buffer)

    __del__ = release


def _of_buffer(exporter: Any) -> View:
    held = _HeldBuffer(exporter)
    try:
        buffer = held.buffer
        text = (buffer.format or b"B").decode()
        dtypes.refuse_ctypes_references(exporter)
        axes, is_plain = range(buffer.ndim), text in ("B", "b", "c") and buffer.ndim == buffer.itemsize == 1
        strides = tuple(buffer.strides[axis] for axis in axes) if buffer.strides else None  # ctypes leaves them out
        return View(buffer.buf or 0, tuple(buffer.shape[axis] for axis in axes), strides,
                    None if is_plain else dtypes.of_format(text, buffer.itemsize), buffer.itemsize, HOST, held,
                    bool(buffer.readonly))
    except BaseException:
        held.release()  # a traceback would keep it
        raise


# ---- Which of these

_readers: dict[type, Callable[[Any], View]] = {}
# Keys that show, faster than a view, whether two objects have the same layout. Views themselves have theirs.
key_functions: dict[type, Callable[[Any], Hashable]] = {View: attrgetter("key")}


_own_views: dict[type, Callable[[Any], View]] = {}  # of arrays that have one all the time


def register(kind: type, reader: Callable[[Any], View], key: Callable[[Any], Hashable] | None = None, *,
             own: Callable[[Any], View] | None = None) -> None:
    """Makes view() take objects of a class: `reader` returns the view of one. With `key`, repeated copies make no views:
    objects whose keys are equal, of this class or another, must have equal views. A tuple that begins with the class
    differs from the keys of all others. `own` returns a view that the object keeps and that never changes."""
    _readers[kind] = reader
    if own is not None:
        _own_views[kind] = own
    if key is not None:
        key_functions[kind] = key


def _is_tensor(kind: type) -> bool:
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__)


def _of_other(array: Any) -> View:
    kind = type(array)
    if _is_tensor(kind):
        register(kind, _of_tensor, _key_of_tensor)
        return _of_tensor(array)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        register(kind, _of_array, _key_of_array)
        return _of_array(array)
    if kind.__module__.partition(".")[0] == "cupy" and kind.__name__ == "ndarray":
        register(kind, _of_cuda_array, _key_of_cupy_array)
    if getattr(array, "__cuda_array_interface__", None) is not None:
        return _of_cuda_array(array)
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array_interface__") and not isinstance(array, type):
        return _of_dlpack(array)
    if getattr(array, "__array_interface__", None) is not None:
        return _of_array(array)
    try:
        return _of_buffer(array)
    except (TypeError, BufferError) as why:
        raise TypeError(f"{kind.__name__} is not an array: it has no buffer, array interface or DLPack ({why})") from None


def view(array: Any) -> View:
    """The location and the layout of an array. Takes NumPy arrays, PyTorch tensors, objects with
    __cuda_array_interface__ (CuPy, Numba), DLPack (JAX and others) or __array_interface__, and buffers: bytearray, mmap,
    array.array, memoryview."""
    if type(array) is View:
        return array
    return _readers.get(type(array), _of_other)(array)


_known_numbers: set[Hashable] = set()  # layouts of NumPy arrays that numbers() has seen


def numbers(array: Any, name: str) -> tuple[int, int, Any]:
    """The address and length of a contiguous array of uint64 in host memory, and what keeps the memory alive."""
    lies: Hashable = None
    if key_functions.get(type(array)) is _key_of_array:
        _, address, shape, strides, dtype, _ = _key_of_array(array)
        lies = shape, strides, dtype
        if lies in _known_numbers:
            return address, shape[0], array
    one = view(array)
    if one.dtype not in ("uint64", "int64") or len(one.shape) != 1 or not one.is_tight or one.device != HOST:
        del one  # a traceback would keep it
        raise ArgumentError(f"{name} must be a contiguous array of uint64 in host memory", field=name)
    if lies is not None and len(_known_numbers) < 256:
        _known_numbers.add(lies)
    return one.address, one.shape[0], one


def keyed(array: Any) -> Any:
    """The array itself if it has a key, or else a view, which has one and keeps the array's memory alive."""
    kind = type(array)
    if kind in key_functions:
        return array
    own = _own_views.get(kind)
    return view(array) if own is None else own(array)


assert sys.byteorder == "little" and native.VERSION
