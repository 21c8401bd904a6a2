"""Whether two strided views share a byte. Views that interleave without touching do not."""
from __future__ import annotations

from math import gcd, prod
from typing import Final

from .blocks import Blocks, lists_of
from .views import View

_MAX_STEPS: Final = 1 << 19  # a fraction of a second; parts of one array need a few dozen


def overlap(source: View, destination: View) -> bool | None:
    """None if the search would take too long. Both views have elements of the same size."""
    first, end = source.span()
    to_first, to_end = destination.span()
    if end <= to_first or to_end <= first:
        return False
    # An element of the source, counted from its last, and one of the destination, counted from its first, are
    # last - to_first - (a sum of strides) apart. They share a byte if they are less than one element apart.
    size = source.itemsize
    low, high = end - to_first - 2 * size + 1, end - to_first - 1
    most: dict[int, int] = {}  # how often each stride may occur in the sum
    for one in (source, destination):
        for length, stride in zip(one.shape, one.strides):
            if stride:
                most[abs(stride)] = most.get(abs(stride), 0) + length - 1
    axes: list[tuple[int, int]] = []
    for stride, count in sorted(most.items()):
        if stride <= high - low + 1:  # no gap between its multiples
            low -= stride * count
        elif axes and stride % axes[-1][0] == 0 and stride // axes[-1][0] <= axes[-1][1] + 1:
            axes[-1] = axes[-1][0], axes[-1][1] + stride // axes[-1][0] * count
        else:
            axes.append((stride, count))
    return _Search(axes[::-1]).finds(0, low, high)


class _Search:
    """Looks for a sum between two bounds: of `count` multiples at most of each stride, the largest stride first."""

    def __init__(self, axes: list[tuple[int, int]]) -> None:
        self._axes = axes
        self._reach, self._unit = [0], [0]  # of all axes from one on: the largest sum, and what divides every sum
        for stride, count in reversed(axes):
            self._reach.insert(0, self._reach[0] + stride * count)
            self._unit.insert(0, gcd(self._unit[0], stride))
        self._steps = 0

    def finds(self, at: int, low: int, high: int) -> bool | None:
        self._steps += 1
        low, high = max(low, 0), min(high, self._reach[at])
        if low > high:
            return False
        if low == 0 or high == self._reach[at]:
            return True
        unit = self._unit[at]
        if high // unit * unit < low:
            return False
        if at == len(self._axes) - 1:  # the unit is its stride
            return True
        stride, count = self._axes[at]
        for number in range(max(0, -((self._reach[at + 1] - low) // stride)), min(count, high // stride) + 1):
            if self._steps > _MAX_STEPS:
                return None
            found = self.finds(at + 1, low - number * stride, high - number * stride)
            if found is not False:
                return found
        return False


# ---- Blocks

_MAX_PAIRS: Final = 1 << 12  # of parts that are compared one by one


class _Parts:
    """The memory of an end as parts of one form, `starts` bytes from the first. Without lists, there is one part."""

    def __init__(self, end: View) -> None:
        self._pool: View = end.pool if isinstance(end, Blocks) else end
        self._axes = [axis for axis, one in enumerate(lists_of(end)) if one is None]
        self.lists = [(one, stride) for one, stride in zip(lists_of(end), end.strides) if one is not None]

    @property
    def is_known(self) -> bool:
        return all(one.numbers is not None for one, _ in self.lists)

    def count(self) -> int:
        return prod(len(one) for one, _ in self.lists)

    def starts(self) -> set[int]:
        starts = {0}
        for one, stride in self.lists:
            starts = {start + number * stride for start in starts for number in one.numbers or ()}
        return starts

    def part(self, start: int, times: int = 1, stride: int = 0) -> View:
        """The part at a start, or several parts of one distance."""
        pool, axes = self._pool, self._axes
        return View(pool.address + start, (times, *[pool.shape[axis] for axis in axes]),
                    (stride, *[pool.strides[axis] for axis in axes]), pool.dtype, pool.itemsize, pool.device)


def overlap_of_blocks(source: View, destination: View) -> bool | None:
    """As overlap(), if an end or both are Blocks. Parts whose indices are on a device are not known, and not searched."""
    one, other = _Parts(source), _Parts(destination)
    first, end = source.span()
    to_first, to_end = destination.span()
    if end <= to_first or to_end <= first or not one.is_known or not other.is_known:
        return False
    if len(one.lists) == len(other.lists) == 1 and one.lists[0][1] == other.lists[0][1] != 0:
        # If no part shares bytes with the parts of other indices, only equal indices matter.
        (from_list, stride), (to_list, _) = one.lists[0], other.lists[0]
        most = max(from_list.limit, to_list.limit) - 1
        if all(overlap(one.part(start * stride, most, stride), other.part(0)) is False for start in (1, -most)):
            is_shared = bool(set(from_list.numbers or ()).intersection(to_list.numbers or ()))
            return is_shared and overlap(one.part(0), other.part(0))
    if one.count() * other.count() > _MAX_PAIRS:
        return None
    found = {overlap(one.part(start), other.part(to)) for start in one.starts() for to in other.starts()}
    return True if True in found else None if None in found else False
