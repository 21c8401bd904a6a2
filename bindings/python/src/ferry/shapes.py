"""Splits a copy between two strided views into boxes. One descriptor describes one box. Blocks have no boxes, but axes
with indices."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Final, NamedTuple

from . import dtypes, native
from .blocks import Blocks, Indices, lists_of
from .errors import ArgumentError
from .overlap import overlap, overlap_of_blocks
from .views import View

MAX_PITCH: Final = (1 << 31) - 1  # the driver's limit
MAX_BOXES: Final = 1 << 22
FEW_BOXES: Final = 8  # more are one nest


class Box(NamedTuple):
    """`height` rows of `width` bytes in `depth` slices. Slice heights count rows. Pitch 0: there is one row."""
    source: int
    destination: int
    width: int
    height: int
    depth: int
    source_pitch: int
    source_slice: int
    destination_pitch: int
    destination_slice: int


class _Axis(NamedTuple):
    number: int
    length: int
    source: int  # bytes from one element to the next, or from one index to the next
    destination: int
    source_indices: Indices | None = None
    destination_indices: Indices | None = None

    @property
    def has_indices(self) -> bool:
        return self.source_indices is not None or self.destination_indices is not None


class Cut(NamedTuple):
    """The axes of a box, and the others, along which it is repeated `repeats` times. `width` is the bytes of a run."""
    source: int
    destination: int
    width: int
    rows: _Axis | None
    slices: _Axis | None
    others: list[_Axis]
    repeats: int

    def boxes(self) -> list[Box]:
        return _boxes(self)

    def axes(self) -> list[_Axis]:
        return [axis for axis in (self.rows, self.slices, *self.others) if axis]

    def is_nest(self, may_be_pageable: bool) -> bool:
        """Whether the library copies it in one call, without a descriptor for each box."""
        if any(axis.has_indices for axis in self.others):
            return True
        return self.repeats > FEW_BOXES and (self.repeats <= MAX_BOXES or not may_be_pageable) and \
            len(self.axes()) <= native.FERRY_NEST_AXES


def _plural(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single element"


def same_shape(source: View, destination: View) -> tuple[View, View]:
    """The two views with one shape and element size. A run of plain bytes takes the shape of the other side."""
    for view, side in ((source, "source"), (destination, "destination")):
        if view.itemsize < 0 or any(length < 0 for length in view.shape):
            raise ArgumentError(f"the {side} has the shape {_plural(view.shape)}: no length may be negative", side=side,
                                field="shape")
    if destination.readonly:
        raise ArgumentError("the destination is read-only", side="destination", field="address")
    if not dtypes.match(source.dtype, destination.dtype):
        raise ArgumentError(f"the source has elements of {source.dtype}, the destination of {destination.dtype}",
                            side="destination", field="dtype")
    if source.shape == destination.shape and source.itemsize == destination.itemsize:
        return source, destination
    for plain, other, side in ((source, destination, "source"), (destination, source, "destination")):
        is_plain = plain.dtype is None and len(plain.shape) == 1 and plain.strides == (1,) and type(plain) is View
        if is_plain or plain.nbytes == 0 == other.nbytes:
            if plain.nbytes != other.nbytes:
                raise ArgumentError(f"the {side} has {plain.nbytes} bytes, the other side {other.nbytes}", side=side,
                                    field="shape", value=plain.nbytes, limit=other.nbytes)
            shaped = View(plain.address, other.shape, None, other.dtype, other.itemsize, plain.device, plain.owner,
                          plain.readonly)
            return (shaped, other) if side == "source" else (other, shaped)
    if source.itemsize != destination.itemsize:
        raise ArgumentError(f"elements of the source have {source.itemsize} bytes, of the destination "
                            f"{destination.itemsize}", side="destination", field="dtype")
    if len(source.shape) != len(destination.shape):
        raise ArgumentError(f"the source has the shape {_plural(source.shape)}, the destination "
                            f"{_plural(destination.shape)}", side="destination", field="shape")
    axis = next(axis for axis, (one, other) in enumerate(zip(source.shape, destination.shape)) if one != other)
    raise ArgumentError(f"axis {axis}: the source has {source.shape[axis]} elements, the destination "
                        f"{destination.shape[axis]}", side="destination", field=f"axis {axis}",
                        value=destination.shape[axis], limit=source.shape[axis])


def _axes(source: View, destination: View) -> tuple[int, int, list[_Axis]]:
    """The addresses and the axes that matter, the destination's longest stride first. Strides of the destination are
    positive, except along axes with indices."""
    at, to = source.address, destination.address
    axes = []
    for number, (length, from_list, to_list) in enumerate(zip(source.shape, lists_of(source), lists_of(destination))):
        step, stride = source.strides[number], destination.strides[number]
        if length == 1 and from_list is not None and from_list.numbers is not None:
            at, from_list = at + from_list.numbers[0] * step, None
        if length == 1 and to_list is not None and to_list.numbers is not None:
            to, to_list = to + to_list.numbers[0] * stride, None
        axis = _Axis(number, length, step, stride, from_list, to_list)
        if length == 1 and not axis.has_indices:
            continue
        if length > 1 and stride == 0 and (to_list is None or to_list.limit > 1):
            raise ArgumentError(f"axis {number} of the destination has stride 0: its elements are one and the same",
                                side="destination", field=f"axis {number}")
        if stride < 0 and not axis.has_indices:  # from the other end, at both sides
            at, to = at + (length - 1) * step, to + (length - 1) * stride
            axis = axis._replace(source=-step, destination=-stride)
        axes.append(axis)
    axes.sort(key=lambda axis: -abs(axis.destination))
    span = destination.itemsize  # of everything within one step of the axis
    for axis in reversed(axes):
        reach = axis.length if axis.destination_indices is None else axis.destination_indices.limit
        if abs(axis.destination) < span and reach > 1:
            raise ArgumentError(f"elements of the destination share bytes along axis {axis.number}",
                                side="destination", field=f"axis {axis.number}")
        span += (reach - 1) * abs(axis.destination)
        _check_repetitions(axis)
    return at, to, axes


def _check_repetitions(axis: _Axis) -> None:
    numbers = None if axis.destination_indices is None else axis.destination_indices.numbers
    if numbers is None or len(set(numbers)) == len(numbers):
        return
    seen: set[int] = set()
    for at, number in enumerate(numbers):
        if number in seen:
            raise ArgumentError(f"ids[{at}] of the destination: {number}, is in the list already, must be different "
                                "from all others", side="destination", field="indices", item="index", index=at, value=number)
        seen.add(number)


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """Joins neighbours that are one run on both sides."""
    result: list[_Axis] = []
    for axis in axes:
        if result and not axis.has_indices and not result[-1].has_indices and \
                result[-1].source == axis.source * axis.length and \
                result[-1].destination == axis.destination * axis.length:
            outer = result.pop()
            axis = axis._replace(length=outer.length * axis.length)
        result.append(axis)
    return result


def _take(axes: list[_Axis], fits: Callable[[_Axis], bool]) -> _Axis | None:
    for at in reversed(range(len(axes))):
        if fits(axes[at]):
            return axes.pop(at)
    return None


def has_blocks(*ends: View) -> bool:
    return any(isinstance(end, Blocks) for end in ends)


def _check_addresses(view: View, side: str) -> None:
    first, end = view.span()
    if first < 0 or end >= 1 << 64:
        raise ArgumentError(f"the {side} has bytes from address {first:#x} to {end:#x}, must be from 0 to "
                            f"{(1 << 64) - 1:#x}", side=side, field="address", value=first if first < 0 else end, limit=(1 << 64) - 1)


def checked_cut(source: View, destination: View) -> Cut | None:
    """The cut of a copy; None for empty arrays. What cannot be written is an ArgumentError that names the axis. Boxes
    have no order, so a source that shares bytes with its destination is one too."""
    source, destination = same_shape(source, destination)
    if not source.nbytes:
        return None
    _check_addresses(source, "source")
    shared = overlap_of_blocks(source, destination) if has_blocks(source, destination) else overlap(source, destination)
    if shared is not False:
        raise ArgumentError("source and destination share bytes (FERRY_ERROR_OVERLAP)" if shared else
                            "source and destination interleave in too many ways to rule out that they share bytes "
                            "(FERRY_ERROR_OVERLAP)",
                            status=native.Status.OVERLAP, side="destination", field="address")
    return _cut(source, destination)


def boxes(source: View, destination: View) -> list[Box]:
    """The boxes of a copy. Empty for empty arrays."""
    cut = checked_cut(source, destination)
    return _boxes(cut) if cut else []


def boxes_between(source: View, destination: View) -> list[Box]:
    """The boxes of a copy between places that cannot share bytes, such as a file and memory."""
    source, destination = same_shape(source, destination)
    if not source.nbytes:
        return []
    _check_addresses(source, "source")
    return _boxes(_cut(source, destination))


def boxes_of_fill(destination: View) -> list[Box]:
    """Boxes whose destinations are the destinations of a fill."""
    source, destination = same_shape(destination, destination)
    return _boxes(_cut(source, destination)) if destination.nbytes else []


def _cut(source: View, destination: View) -> Cut:
    _check_addresses(destination, "destination")
    size = source.itemsize
    at, to, axes = _axes(source, destination)
    axes = _merged(axes)
    width = size
    if axes and axes[-1].source == axes[-1].destination == size and not axes[-1].has_indices:
        width *= axes.pop().length
    if any(axis.has_indices for axis in axes):
        if len(axes) > native.FERRY_NEST_AXES:
            raise ArgumentError(f"the copy has {len(axes)} axes that cannot be joined, must be at most "
                                f"{native.FERRY_NEST_AXES}", side="source", field="shape", value=len(axes),
                                limit=native.FERRY_NEST_AXES)
        return Cut(at, to, width, None, None, axes, prod(axis.length for axis in axes))
    rows = _take(axes, lambda axis: width <= axis.source <= MAX_PITCH and axis.destination <= MAX_PITCH)
    slices = None
    if rows:
        height, pitch, to_pitch = rows.length, rows.source, rows.destination
        slices = _take(axes, lambda axis: axis.source % pitch == axis.destination % to_pitch == 0 and
                       axis.source >= height * pitch and axis.destination >= height * to_pitch)
    count = 1
    for axis in axes:
        count *= axis.length
    return Cut(at, to, width, rows, slices, axes, count)


def _boxes(cut: Cut) -> list[Box]:
    if cut.repeats > MAX_BOXES:
        raise ArgumentError(f"this would be {cut.repeats} copies, {MAX_BOXES} at most: make one side contiguous first",
                            side="source", field=f"axis {cut.others[-1].number}", value=cut.repeats, limit=MAX_BOXES)
    rows, slices = cut.rows, cut.slices
    height, pitch, to_pitch = (rows.length, rows.source, rows.destination) if rows else (1, 0, 0)
    depth, rows_apart, to_rows_apart = 1, height, height
    if slices:
        depth, rows_apart, to_rows_apart = slices.length, slices.source // pitch, slices.destination // to_pitch
    return [Box(one, other, cut.width, height, depth, pitch, rows_apart, to_pitch, to_rows_apart)
            for one, other in _starts(cut.source, cut.destination, cut.others)]


def _starts(at: int, to: int, axes: list[_Axis]) -> Iterator[tuple[int, int]]:
    if not axes:
        yield at, to
        return
    first, *others = axes
    for index in range(first.length):
        yield from _starts(at + index * first.source, to + index * first.destination, others)
