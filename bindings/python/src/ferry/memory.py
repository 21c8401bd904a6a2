"""Arrays in memory that ferry allocates."""
from __future__ import annotations

import ctypes
from collections.abc import Hashable
from ctypes import byref, c_uint64, sizeof
from typing import TYPE_CHECKING, Any

from . import dtypes, native
from .views import HOST, View, register

if TYPE_CHECKING:
    from .instance import Instance


def _size(shape: Any, dtype: Any) -> tuple[tuple[int, ...], str, int, int]:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"negative length in {shape}")
    name, itemsize = dtypes.parse(dtype)
    count = itemsize
    for length in shape:
        count *= length
    return shape, name, itemsize, count


class _Array:
    """An array that owns its memory. It is freed with the last reference: copies in flight keep one."""

    _free: str

    def __init__(self, instance: Instance, address: int, shape: tuple[int, ...], dtype: str, itemsize: int,
                 device: int) -> None:
        self._instance = instance
        self._address: int | None = address
        self._view = View(address, shape, None, dtype, itemsize, device, self)
        # The view in here must not keep the array alive; those that view() returns must.
        self._view.owner = None

    @property
    def view(self) -> View:
        """A view of the whole array."""
        self._instance.alive(self._address, type(self).__name__)
        own = self._view
        return View(own.address, own.shape, own.strides, own.dtype, own.itemsize, own.device, self)

    @property
    def key(self) -> Hashable:
        self._instance.alive(self._address, type(self).__name__)
        return self._view.key

    @property
    def shape(self) -> tuple[int, ...]:
        return self._view.shape

    @property
    def dtype(self) -> str:
        return self._view.dtype or ""

    @property
    def nbytes(self) -> int:
        return self._view.nbytes

    @property
    def address(self) -> int:
        return self._instance.alive(self._address, type(self).__name__)

    def __getitem__(self, index: Any) -> View:
        return self.view[index]

    def _interface(self) -> dict[str, Any]:
        own = self._view
        return {"version": 3, "shape": own.shape, "data": (self.address, False), "strides": None,
                "typestr": dtypes.typestr(self.dtype, own.itemsize)}

    def close(self) -> None:
        """Frees the memory now. No copy of it may be in flight."""
        address, self._address = self._address, None
        if address and self._instance.is_open:
            self._instance.call(self._free, address)

    def __del__(self) -> None:
        if getattr(self, "_address", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<ferry.{type(self).__name__} {self.shape} {self.dtype}>"


class DeviceArray(_Array):
    """An array on a device, made by Instance.empty(). CuPy, PyTorch and Numba take it by __cuda_array_interface__."""

    _free = "ferry_device_free"

    def __init__(self, instance: Instance, shape: Any, dtype: Any, device: int) -> None:
        shape, name, itemsize, size = _size(shape, dtype)
        address = c_uint64()
        if size:
            instance.call("ferry_device_alloc", device, size, byref(address), error=True)
        super().__init__(instance, address.value, shape, name, itemsize, device)
        self.device = device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface()


class PinnedArray(_Array):
    """An array in pinned host memory, made by Instance.pinned(). numpy.asarray() shows it without a copy."""

    _free = "ferry_host_free"

    def __init__(self, instance: Instance, shape: Any, dtype: Any, flags: int) -> None:
        shape, name, itemsize, size = _size(shape, dtype)
        block = native.ferry_host_block(struct_size=sizeof(native.ferry_host_block))
        if size:
            options = native.ferry_host_options(struct_size=sizeof(native.ferry_host_options), flags=flags)
            instance.call("ferry_host_alloc", size, byref(options), byref(block), error=True)
        super().__init__(instance, block.address or 0, shape, name, itemsize, HOST)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface()

    @property
    def buffer(self) -> memoryview:
        """The bytes. The array must live as long as they are used."""
        return memoryview((ctypes.c_char * self.nbytes).from_address(self.address or 1)).cast("B")


for _kind in (DeviceArray, PinnedArray):
    register(_kind, lambda array: array.view, lambda array: array.key)
