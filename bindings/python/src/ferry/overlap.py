"""Whether two strided views share a byte. Views that interleave without touching do not."""
from __future__ import annotations

from math import gcd
from typing import Final

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
