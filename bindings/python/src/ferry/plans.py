"""Plans: copies between views as descriptors for the call. A plan contains addresses, and keeps no array alive."""
from __future__ import annotations

import ctypes
from ctypes import addressof
from typing import Any, Final

from . import native
from .blocks import Blocks, end_of, lists_of
from .errors import ArgumentError
from .shapes import Box, Cut, checked_cut, has_blocks
from .views import HOST, UNKNOWN, View, key_functions

_KEPT: Final = 1024


def _fill_place(place: native.ferry_place, device: int, address: int, pitch: int, slice_height: int) -> None:
    place.kind = (native.FERRY_KIND_HOST if device == HOST else native.FERRY_KIND_ANY if device == UNKNOWN else
                  native.FERRY_KIND_DEVICE)
    place.device = max(device, 0)
    place.address = address
    place.row_pitch = pitch
    place.slice_height = slice_height


def fill_descriptor(descriptor: native.ferry_copy_desc, source: int, destination: int, box: Box) -> None:
    """`source` and `destination` are the devices of both ends."""
    _fill_place(descriptor.source, source, box.source, box.source_pitch, box.source_slice)
    _fill_place(descriptor.destination, destination, box.destination, box.destination_pitch,
                box.destination_slice)
    descriptor.width, descriptor.height, descriptor.depth = box.width, box.height, box.depth


def _nest(cut: Cut, source: View, destination: View) -> native.ferry_nest:
    nest = native.ferry_nest(width=cut.width)
    for end, device, address in ((nest.source, source.device, cut.source),
                                 (nest.destination, destination.device, cut.destination)):
        _fill_place(end.place, device, address, 0, 0)
    for axis in cut.axes():
        nest.source.axes[nest.axes].count = nest.destination.axes[nest.axes].count = axis.length
        nest.source.axes[nest.axes].stride = axis.source
        nest.destination.axes[nest.axes].stride = axis.destination
        if axis.source_indices is not None:
            axis.source_indices.describe(nest.source.axes[nest.axes])
        if axis.destination_indices is not None:
            axis.destination_indices.describe(nest.destination.axes[nest.axes])
        nest.axes += 1
    nest.skipped = _counter(source, destination)
    return nest


def _nest_of_box(descriptor: native.ferry_copy_desc) -> native.ferry_nest:
    """The box of a descriptor without an origin."""
    nest = native.ferry_nest(width=descriptor.width)
    for end, place in ((nest.source, descriptor.source), (nest.destination, descriptor.destination)):
        row = place.row_pitch or descriptor.width
        end.place.kind, end.place.device, end.place.address = place.kind, place.device, place.address
        end.axes[0].count, end.axes[0].stride = max(descriptor.height, 1), row
        end.axes[1].count, end.axes[1].stride = max(descriptor.depth, 1), row * (place.slice_height or descriptor.height)
    nest.axes = 2
    return nest


def _counter(*ends: View) -> int:
    """The address of the counter of skipped indices, or 0."""
    found = {end.skipped.address for end in ends if isinstance(end, Blocks) and end.skipped is not None}
    if len(found) > 1:
        raise ArgumentError("source and destination count skipped indices in different places: skipped must be the "
                            "same for both, or stated for one", field="skipped")
    return found.pop() if found else 0


class Plan:
    """A copy of `size` bytes: one nest at `nest_address`, if that is not 0, or `count` descriptors at `address`. `device`:
    the number of one of theirs, if it is known."""

    __slots__ = ("count", "size", "device", "is_of_blocks", "nest", "nest_address", "_cut", "_ends", "_descriptors",
                 "_lists")

    def __init__(self, source: View, destination: View) -> None:
        cut = checked_cut(source, destination)
        self.is_of_blocks = has_blocks(source, destination)
        self._ends = (source.device, destination.device)
        self._descriptors: Any = None
        self.count = cut.repeats if cut else 0
        self.device = next((device for device in reversed(self._ends) if device >= 0), None)
        self.size = source.nbytes if cut else 0
        is_nest = cut is not None and cut.is_nest(may_be_pageable=min(self._ends) < 0)
        self.nest = _nest(cut, source, destination) if cut is not None and is_nest else None
        self.nest_address = addressof(self.nest) if self.nest is not None else 0
        self._lists = [one.numbers for end in (source, destination) for one in lists_of(end) if one is not None]
        self._cut = None if is_nest and self.is_of_blocks else cut  # which would keep indices on a device
        if not is_nest:
            self._describe()

    def _describe(self) -> Any:
        """The descriptors. A nest has them only if a batch needs them."""
        if self._descriptors is None:
            found = self._cut.boxes() if self._cut else []
            made = (native.ferry_copy_desc * max(len(found), 1))()
            for descriptor, box in zip(made, found):
                fill_descriptor(descriptor, *self._ends, box)
            self._descriptors = made
        return self._descriptors

    @property
    def address(self) -> int:
        return addressof(self._describe())

    def as_nests(self) -> list[native.ferry_nest]:
        if self.nest is not None:
            return [self.nest]
        return [_nest_of_box(one) for one in self._describe()[:self.count]]


class Plans:
    """The latest plans, by addresses and shapes."""

    def __init__(self) -> None:
        self._plans: dict[Any, Plan] = {}

    def of(self, source: Any, destination: Any) -> Plan:
        """Both are keyed()."""
        key = (key_functions[type(source)](source), key_functions[type(destination)](destination))
        plan = self._plans.get(key)
        if plan is None:
            plan = Plan(end_of(source), end_of(destination))
            if None in key:  # a long list of indices: no later copy finds the plan
                return plan
            if plan.nest_address or plan.count <= 64:  # others are large, and their making is not what takes time
                if len(self._plans) >= _KEPT:
                    self._plans = {}
                self._plans[key] = plan
        return plan

    def for_batch(self, source: Any, destination: Any) -> Plan:
        plan = self.of(source, destination)
        if plan.is_of_blocks:
            raise ArgumentError("a batch takes no blocks: use copy(), copy_async(), enqueue() or prepare()")
        return plan


def joined_nests(plans: list[Plan]) -> tuple[Any, int]:
    """All plans as nests in one array, and their number."""
    found = [nest for plan in plans for nest in plan.as_nests()]
    return (native.ferry_nest * max(len(found), 1))(*found), len(found)


def joined(plans: list[Plan]) -> tuple[Any, int]:
    """The descriptors of all plans in one array, and their number."""
    count = sum(plan.count for plan in plans)
    every = (native.ferry_copy_desc * max(count, 1))()
    at, size = addressof(every), ctypes.sizeof(native.ferry_copy_desc)
    for plan in plans:
        ctypes.memmove(at, plan.address, plan.count * size)
        at += plan.count * size
    return every, count
