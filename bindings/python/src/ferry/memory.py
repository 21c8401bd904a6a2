"""Arrays in memory that ferry allocates."""
from __future__ import annotations

import ctypes
import operator
from ctypes import byref, c_uint64, sizeof
from typing import TYPE_CHECKING, Any, Final

from . import dtypes, native
from .errors import ArgumentError
from .handles import Owner, Part, int32, part, uint32, whole
from .views import HOST, View, register

if TYPE_CHECKING:
    from .instance import Instance

_MAX_SIZE: Final = (1 << 63) - 1


def _size(shape: Any, dtype: Any) -> tuple[tuple[int, ...], str, int, int]:
    try:
        lengths: Any = (operator.index(shape),)
    except TypeError:
        lengths = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    shape = tuple([whole(length, "a length of shape", -_MAX_SIZE, _MAX_SIZE) for length in lengths])
    if any(length < 0 for length in shape):
        raise ValueError(f"negative length in {shape}")
    name, itemsize = dtypes.parse(dtype)
    count = itemsize
    for length in shape:
        count *= length
    if count > _MAX_SIZE:
        raise ArgumentError(f"shape: {shape} has {count} bytes, must be at most {_MAX_SIZE}", field="shape", value=count,
                            limit=_MAX_SIZE)
    return shape, name, itemsize, count


class _Array(Owner):
    """An array in ferry's memory. The memory is freed with the last reference to it: each copy in flight and each view
    has a reference."""

    _view: View | None  # its owner is the memory; None once the array is closed

    def __init__(self, instance: Instance, memory: Part | None, shape: tuple[int, ...], dtype: str, itemsize: int,
                 device: int) -> None:
        self._instance = instance
        self._shape, self._dtype, self._itemsize = shape, dtype, itemsize
        self._view = View(int(memory or 0), shape, None, dtype, itemsize, device, memory)
        instance.adopt(self)

    def own_view(self) -> View:
        """The one view that the array has. It must not change."""
        own = self._view
        if own is None or self._instance._handle is None:
            raise self._instance.closed(type(self).__name__)
        return own

    @property
    def view(self) -> View:
        """A view of the whole array."""
        own = self.own_view()
        return View(own.address, own.shape, own.strides, own.dtype, own.itemsize, own.device, own.owner)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def nbytes(self) -> int:
        count = self._itemsize
        for length in self._shape:
            count *= length
        return count

    @property
    def address(self) -> int:
        return self.own_view().address

    def __getitem__(self, index: Any) -> View:
        return self.view[index]

    def _interface(self, data: Any) -> dict[str, Any]:
        return {"version": 3, "shape": self._shape, "data": data, "strides": None,
                "typestr": dtypes.typestr(self._dtype, self._itemsize)}

    def close(self) -> None:
        """Lets the memory go: it is freed as soon as no copy in flight and no view of it needs it."""
        self._view = None
        self._instance.disown(self)

    def __del__(self) -> None:
        if hasattr(self, "_view"):
            self._instance.disown(self)

    def __repr__(self) -> str:
        return f"<ferry.{type(self).__name__} {self.shape} {self.dtype}>"


class DeviceArray(_Array):
    """An array on a device, made by Instance.empty(). CuPy, PyTorch and Numba take it by __cuda_array_interface__, and
    keep the array for that. So its memory is freed with the array then, and not by close()."""

    _shown: Any = None

    def __init__(self, instance: Instance, shape: Any, dtype: Any, device: Any) -> None:
        shape, name, itemsize, size = _size(shape, dtype)
        device, address, memory = int32(device, "device"), c_uint64(), None
        if size:
            instance.call("ferry_device_alloc", device, size, byref(address))
            memory = part(instance.opened, address.value, "ferry_device_free")
        super().__init__(instance, memory, shape, name, itemsize, device)
        self.device = device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._shown = self.own_view().owner
        return self._interface((self.address, False))


def _shown(view: View) -> Any:
    """The bytes as a ctypes array, which keeps the memory. NumPy's arrays keep what shows them their bytes."""
    shown: Any = (ctypes.c_char * view.nbytes).from_address(view.address or 1)
    shown.memory = view.owner
    return shown


class PinnedArray(_Array):
    """An array in pinned host memory, made by Instance.pinned(). numpy.asarray() shows it without a copy."""

    def __init__(self, instance: Instance, shape: Any, dtype: Any, flags: Any) -> None:
        shape, name, itemsize, size = _size(shape, dtype)
        flags = uint32(flags, "flags")
        memory = None
        if size:
            row = size // shape[0] if shape else size
            options = native.ferry_host_options(struct_size=sizeof(native.ferry_host_options), flags=flags, min_size=row)
            block = native.ferry_host_block(struct_size=sizeof(native.ferry_host_block))
            instance.call("ferry_host_alloc", size, byref(options), byref(block))
            memory = part(instance.opened, block.address, "ferry_host_free")
            if block.size < size:  # FERRY_HOST_ALLOW_SMALLER
                shape = (block.size // row, *shape[1:])
        super().__init__(instance, memory, shape, name, itemsize, HOST)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface(_shown(self.own_view()))

    @property
    def buffer(self) -> memoryview:
        """The bytes. They keep the memory."""
        return memoryview(_shown(self.own_view())).cast("B")


for _kind in (DeviceArray, PinnedArray):
    register(_kind, lambda array: array.view, own=lambda array: array.own_view())
