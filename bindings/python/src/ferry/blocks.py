"""Blocks: chosen parts of a pool along an axis, such as blocks of a paged KV cache, as one end of a copy."""
from __future__ import annotations

import ctypes
import operator
from array import array
from collections.abc import Sequence
from typing import Any, Final

from . import native
from .errors import ArgumentError, Held
from .views import HOST, View, order_of, parts_of, position, register, view

# The types of lists in memory, and their letters in the module array.
_LETTERS: Final = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
                   "uint64": "Q"}
_ON_DEVICE: Final = {"int32": native.FERRY_INDEX_U32, "uint32": native.FERRY_INDEX_U32, "int64": native.FERRY_INDEX_U64,
                     "uint64": native.FERRY_INDEX_U64}
_KEYED_BYTES: Final = 4096  # a longer list is not compared to find the plan of an earlier copy


class Indices:
    """The list of one axis: `values` are checked numbers, or a view of memory that a kernel reads. `limit`: the length
    of the pool's axis."""

    __slots__ = ("values", "limit", "key")

    def __init__(self, values: array[int] | View, limit: int) -> None:
        self.values = values
        self.limit = limit
        # None: no other list is equal.
        self.key = (values.key if isinstance(values, View) else
                    values.tobytes() if len(values) * values.itemsize <= _KEYED_BYTES else None)

    def __len__(self) -> int:
        return self.values.shape[0] if isinstance(self.values, View) else len(self.values)

    @property
    def numbers(self) -> array[int] | None:
        """The indices. None if only the device knows them."""
        return None if isinstance(self.values, View) else self.values

    def part(self, chosen: slice, axis: int) -> Indices:
        if not isinstance(self.values, View):
            return Indices(self.values[chosen], self.limit)
        if chosen.indices(len(self))[2] != 1:
            raise ArgumentError(f"axis {axis}: step {chosen.step}, must be 1, because the indices are on a device",
                                field="indices")
        return Indices(self.values[chosen], self.limit)

    def describe(self, axis: native.ferry_axis) -> None:
        """Fills the fields of one axis. The list must live as long as the axis is used."""
        values, axis.index_limit = self.values, self.limit
        if isinstance(values, View):
            axis.indices, axis.index_memory = values.address, native.FERRY_INDICES_DEVICE
            axis.index_type = _ON_DEVICE[str(values.dtype)]
            if values.dtype == "int32":  # a negative number has the bits of one from 1 << 31 on
                axis.index_limit = min(self.limit, 1 << 31)
        else:
            axis.indices, axis.index_memory = values.buffer_info()[0], native.FERRY_INDICES_HOST
            axis.index_type = native.FERRY_INDEX_U32 if values.itemsize == 4 else native.FERRY_INDEX_U64


class Blocks(View):
    """Chosen parts of a pool, made by ferry.blocks(): one end of a copy. `shape` counts the chosen parts. Slices,
    integers and transpose() make other Blocks of the same pool."""

    __slots__ = ("pool", "lists", "skipped")

    def __init__(self, pool: View, lists: tuple[Indices | None, ...], skipped: View | None) -> None:
        shape = tuple([length if one is None else len(one) for length, one in zip(pool.shape, lists)])
        super().__init__(pool.address, shape, pool.strides, pool.dtype, pool.itemsize, pool.device, pool.owner,
                         pool.readonly)
        self.pool = pool  # the whole axes
        self.lists = lists  # of each axis, or None
        self.skipped = skipped
        keys = tuple([() if one is None else one.key for one in lists])
        self.key = None if None in keys else (Blocks, pool.key, keys, None if skipped is None else skipped.key)

    def span(self) -> tuple[int, int]:
        """The first byte that any indices can reach, and one past the last."""
        return self.pool.span()

    @property
    def is_tight(self) -> bool:
        return False

    def __getitem__(self, index: Any) -> Blocks:
        parts = parts_of(index, len(self.shape))
        lists: list[Indices | None] = []
        for axis, one in enumerate(self.lists):
            if one is None:
                if isinstance(parts[axis], slice):
                    lists.append(None)
            elif isinstance(parts[axis], slice):
                lists.append(one.part(parts[axis], axis))
                parts[axis] = slice(None)
            elif one.numbers is None:
                raise ArgumentError(f"axis {axis}: the indices are on a device, so the part must be a slice",
                                    field="indices")
            else:
                parts[axis] = one.numbers[position(parts[axis], axis, len(one))]
        return Blocks(self.pool[tuple(parts)], tuple(lists), self.skipped)

    def transpose(self, *axes: Any) -> Blocks:
        order = order_of(axes, len(self.shape))
        return Blocks(self.pool.transpose(*order), tuple([self.lists[axis] for axis in order]), self.skipped)

    def __repr__(self) -> str:
        return super().__repr__().replace("ferry.View", "ferry.Blocks")


def lists_of(end: View) -> tuple[Indices | None, ...]:
    """The lists of each axis of an end. A plain view has none."""
    return end.lists if isinstance(end, Blocks) else (None,) * len(end.shape)


def _numbers_in(ids: View) -> Sequence[int]:
    """The elements of an array in host memory."""
    letter = _LETTERS[str(ids.dtype)]
    if not ids.shape[0]:
        return []
    first, end = ids.span()
    data = ctypes.string_at(first, end - first)
    if ids.is_tight:
        return array(letter, data)
    starts = [ids.address - first + number * ids.strides[0] for number in range(ids.shape[0])]
    return array(letter, b"".join([data[start:start + ids.itemsize] for start in starts]))


def _listed(ids: Sequence[Any]) -> list[int]:
    """The integers of a list. Truth values are not indices, but a mask."""
    for at, one in enumerate(ids):
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise TypeError(f"ids[{at}] must be an integer, not {type(one).__name__}")
    return [operator.index(one) for one in ids]


def _checked(ids: Sequence[int], axis: int, limit: int) -> Indices:
    if ids and not (0 <= min(ids) and max(ids) < limit):
        at = next(at for at, one in enumerate(ids) if not 0 <= one < limit)
        raise ArgumentError(f"ids[{at}]: {ids[at]}, must be from 0 to {limit - 1}: axis {axis} of the pool has {limit} "
                            "elements", field="indices", item="index", index=at, value=ids[at], limit=max(limit - 1, 0))
    return Indices(array("I" if limit <= 1 << 32 else "Q", ids), limit)


def _indices(ids: Any, axis: int, limit: int) -> Indices:
    if isinstance(ids, (list, tuple, range)):
        return _checked(_listed(ids), axis, limit)
    with Held([view(ids)]) as held:
        if len(held[0].shape) != 1 or held[0].dtype not in _LETTERS:
            raise ArgumentError(f"ids has the shape {held[0].shape} and elements of {held[0].dtype or 'bytes'}, must "
                                "have one axis of integers", field="indices")
        if held[0].device == HOST:
            return _checked(_numbers_in(held[0]), axis, limit)
        if held[0].dtype not in _ON_DEVICE or not held[0].is_tight:
            raise ArgumentError(f"ids on a device has elements of {held[0].dtype} and strides of {held[0].strides} "
                                "bytes, must be contiguous, of uint32, int32, uint64 or int64", field="indices")
        return Indices(held[0], limit)


def _counter(skipped: Any) -> View | None:
    if skipped is None:
        return None
    with Held([view(skipped)]) as held:
        if held[0].dtype not in ("uint64", "int64") or held[0].nbytes != 8 or held[0].readonly:
            raise ArgumentError("skipped must be one element of uint64 in device or pinned memory that can be written",
                                field="skipped")
        counter: View = held[0]
        return counter


def _chosen(pool: View, ids: Any, axis: Any, skipped: View | None) -> Blocks:
    lists, axes, number = list(lists_of(pool)), len(pool.shape), operator.index(axis)
    if not -axes <= number < axes:
        raise ArgumentError(f"axis: {number}, must be from {-axes} to {axes - 1}" if axes else
                            f"axis: {number}, but the pool has no axis", field="axis", value=number)
    number %= axes
    if lists[number] is not None:
        raise ArgumentError(f"axis: {number}, has indices already, must be another axis", field="axis", value=number)
    whole, counter = (pool.pool, skipped or pool.skipped) if isinstance(pool, Blocks) else (pool, skipped)
    lists[number] = _indices(ids, number, whole.shape[number])
    return Blocks(whole, tuple(lists), counter)


def blocks(pool: Any, ids: Any, *, axis: int = 0, skipped: Any = None) -> Blocks:
    """Chosen blocks of a pool, as the source or the destination of copy(), copy_async(), enqueue(), prepare() and
    explain(). `pool` is any array, or Blocks, to choose along a second axis. `ids` are the indices along `axis`. A source may repeat them.

    A list, a tuple or an array in host memory is read and checked here. Indices in an array on a device (uint32, int32,
    uint64 or int64) are read when the stream reaches the copy: a kernel skips each index that is negative or not below
    the length of the axis, and adds 1 to `skipped`, a uint64 in device or pinned memory. Such a copy requires that
    kernels can access both ends."""
    with Held([end_of(pool), _counter(skipped)]) as held:
        return _chosen(held[0], ids, axis, held[1])


def end_of(array: Any) -> View:
    """An end of a copy: Blocks, or the view of an array."""
    return array if type(array) is Blocks else view(array)


def _refuse(array: Any) -> View:
    raise TypeError("Blocks are an end of copy(), copy_async(), enqueue(), prepare() and explain(), not of other calls")


register(Blocks, _refuse, operator.attrgetter("key"))
