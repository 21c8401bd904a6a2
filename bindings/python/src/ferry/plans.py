"""Plans: copies between views as descriptors for the call. A plan contains addresses, and keeps no array alive."""
from __future__ import annotations

import ctypes
from ctypes import addressof
from typing import Any, Final

from . import native
from .shapes import Box, boxes
from .views import HOST, UNKNOWN, View, key_functions, view

_KEPT: Final = 1024


def _fill_place(place: native.ferry_place, device: int, address: int, pitch: int, slice_height: int) -> None:
    place.kind = (native.FERRY_KIND_HOST if device == HOST else native.FERRY_KIND_ANY if device == UNKNOWN else
                  native.FERRY_KIND_DEVICE)
    place.device = max(device, 0)
    place.address = address
    place.row_pitch = pitch
    place.slice_height = slice_height


def fill_descriptor(descriptor: native.ferry_copy_desc, source: View, destination: View, box: Box) -> None:
    _fill_place(descriptor.source, source.device, box.source, box.source_pitch, box.source_slice)
    _fill_place(descriptor.destination, destination.device, box.destination, box.destination_pitch,
                box.destination_slice)
    descriptor.width, descriptor.height, descriptor.depth = box.width, box.height, box.depth


class Plan:
    """`count` descriptors of `size` bytes at `address`. `device`: the number of one of theirs, if it is known."""

    __slots__ = ("descriptors", "address", "count", "size", "device")

    def __init__(self, source: View, destination: View) -> None:
        found = boxes(source, destination)
        self.count = len(found)
        self.device = next((end.device for end in (destination, source) if end.device >= 0), None)
        self.size = sum([box.width * box.height * box.depth for box in found])
        self.descriptors: Any = (native.ferry_copy_desc * max(self.count, 1))()
        for descriptor, box in zip(self.descriptors, found):
            fill_descriptor(descriptor, source, destination, box)
        self.address = addressof(self.descriptors)


class Plans:
    """The latest plans, by addresses and shapes."""

    def __init__(self) -> None:
        self._plans: dict[Any, Plan] = {}

    def of(self, source: Any, destination: Any) -> Plan:
        """Both are keyed()."""
        key = (key_functions[type(source)](source), key_functions[type(destination)](destination))
        plan = self._plans.get(key)
        if plan is None:
            plan = Plan(view(source), view(destination))
            if plan.count <= 64:  # others are large, and their making is not what takes time
                if len(self._plans) >= _KEPT:
                    self._plans = {}
                self._plans[key] = plan
        return plan


def joined(plans: list[Plan]) -> tuple[Any, int]:
    """The descriptors of all plans in one array, and their number."""
    count = sum(plan.count for plan in plans)
    every = (native.ferry_copy_desc * max(count, 1))()
    at, size = addressof(every), ctypes.sizeof(native.ferry_copy_desc)
    for plan in plans:
        ctypes.memmove(at, plan.address, plan.count * size)
        at += plan.count * size
    return every, count
