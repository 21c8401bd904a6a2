"""Handles of the C library. Each handle ends once, and not while a call of another thread uses it."""
from __future__ import annotations

import operator
from ctypes import CDLL, byref
from typing import Any

from .errors import ArgumentError, failed, new_error_info


def whole(value: Any, name: str, low: int, high: int) -> int:
    """`value` as an integer between the bounds, or else an error with the argument's name: ctypes would cut the value."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ArgumentError(f"{name}: {number}, must be from {low} to {high}", field=name, value=number,
                            limit=low if number < low else high)
    return number


def int32(value: Any, name: str) -> int:
    return whole(value, name, -1 << 31, (1 << 31) - 1)


def uint32(value: Any, name: str) -> int:
    return whole(value, name, 0, (1 << 32) - 1)


class Handle(int):
    """A handle that ends with its last reference: a call has one while it runs. `kept` lives as long. Copies are plain
    numbers."""

    kept: Any = None

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return int, (int(self),)


class Opened(Handle):
    """A ferry_instance."""

    library: CDLL
    tickets: Any  # end before, whatever the garbage collector ends first
    is_ours = True  # not in the child of a fork, where there is nothing to end

    def __del__(self) -> None:
        if self.is_ours:
            self.is_ours = False  # parts may come later
            self.tickets.close(self.library)
            self.library.ferry_close(self)


class Part(Handle):
    """What `end` of the C library ends before the instance."""

    opened: Opened
    end: str

    def __del__(self, new_error_info: Any = new_error_info, byref: Any = byref) -> None:  # there when modules are gone
        opened = self.opened
        if not opened.is_ours:
            return
        end, details = getattr(opened.library, self.end), new_error_info()
        if self.end == "ferry_file_close":  # cannot fail
            end(self)
            return
        arguments = (self,) if self.end == "ferry_prepared_destroy" else (opened, self)
        status = end(*arguments, byref(details))
        if status:
            raise failed(opened.library, status, details)


def part(opened: Opened, handle: int | None, end: str) -> Part:
    made = Part(handle or 0)
    made.opened, made.end = opened, end
    return made


class Owner:
    """An object with a handle. It cannot be copied or pickled: two objects would end one handle."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} objects cannot be copied or pickled: they have memory or handles of "
                        "this process")
