"""Tickets: the progress of copies in flight."""
from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from ctypes import byref, sizeof
from typing import TYPE_CHECKING, Any, Final

from . import native
from .errors import failed

if TYPE_CHECKING:
    from .instance import Instance

_LARGE: Final = 1 << 20  # from this many bytes on, a copy asks at once whether older copies have ended
_BETWEEN: Final = 32  # smaller copies after which to ask, since asking takes longer than they do
_ROUTES: Final = {route.value: route.name.lower() for route in native.Route}


def route_name(number: int) -> str:
    return _ROUTES.get(number, "unknown")


class Ticket:
    """The progress of what was enqueued. It keeps the arrays alive until the stream has passed, also if the program
    drops it. `await ticket` waits in asyncio; future() serves concurrent.futures."""

    __slots__ = ("_instance", "_handle", "_owners", "_status", "__weakref__")
    _status: int | None  # None until the copy has ended

    def __init__(self, instance: Instance, handle: int | None, owners: Any) -> None:
        self._instance = instance
        self._handle = handle
        self._owners = owners
        self._status = None

    def _ask(self) -> native.ferry_ticket_info:
        info = native.ferry_ticket_info(struct_size=sizeof(native.ferry_ticket_info))
        self._instance.alive(self._handle, "Ticket")
        self._instance.call("ferry_ticket_get_info", byref(info), of=self._handle)
        if info.done:
            self._end(info.status)
        return info

    def has_ended(self, info: native.ferry_ticket_info) -> bool:
        """`done` with the caller's memory for the answer. Failing calls count as no end."""
        if self._status is not None:
            return True
        if self._instance.library.ferry_ticket_get_info(self._handle, byref(info)) or not info.done:
            return False
        self._end(info.status)
        return True

    def _end(self, status: int) -> None:
        self._status = status
        self._owners = None

    @property
    def done(self) -> bool:
        """Whether the copy has ended, with success or not."""
        return self._status is not None or bool(self._ask().done)

    @property
    def route(self) -> str:
        """The route that the copy took, such as "staged"; "none" for a batch."""
        return route_name(self._ask().route)

    @property
    def progress(self) -> tuple[int, int]:
        """The bytes that have arrived, and all. Only staged copies count before the end."""
        info = self._ask()
        return info.bytes_done, info.bytes_total

    def wait(self) -> None:
        """Waits until the copy is done, and helps with staged copies. Raises what ended it."""
        if self._status is None:
            self._instance.alive(self._handle, "Ticket")
            self._end(self._instance.library.ferry_ticket_wait(self._handle))
        if self._status:
            raise failed(self._instance.library, self._status)

    def future(self) -> Future[None]:
        """A future that a thread of the instance completes."""
        return self._instance.waiters.submit(self.wait)

    def __await__(self) -> Generator[Any, None, None]:
        if self._status is not None:
            self.wait()
            return
        yield from asyncio.wrap_future(self.future()).__await__()

    def __del__(self) -> None:
        instance = self._instance
        if instance.tickets.forget(self._handle):
            instance.library.ferry_ticket_release(self._handle)


class Tickets:
    """All tickets of an instance. Keeps those whose copies have not ended, and so their arrays, also if the program
    drops them."""

    def __init__(self) -> None:
        self._handles: set[int | None] = set()
        self._in_flight: deque[Ticket] = deque()
        self._asks_at = _BETWEEN

    def add(self, ticket: Ticket, size: int) -> None:
        """`size`: the bytes of its copies."""
        self._handles.add(ticket._handle)
        tickets = self._in_flight
        if size >= _LARGE or len(tickets) >= self._asks_at:
            self._let_go()
        tickets.append(ticket)

    def _let_go(self) -> None:
        tickets = self._in_flight
        info = native.ferry_ticket_info(struct_size=sizeof(native.ferry_ticket_info))
        in_vain = 2 + len(tickets) // 16
        for _ in range(len(tickets)):
            try:
                oldest = tickets.popleft()
            except IndexError:  # another thread took it
                break
            if not oldest.has_ended(info):
                tickets.append(oldest)  # those behind it may be of other streams
                in_vain -= 1
                if not in_vain:
                    break
        self._asks_at = len(tickets) * 5 // 4 + _BETWEEN

    def forget(self, handle: int | None) -> bool:
        """Whether the handle was to be released, which only one caller learns."""
        try:
            self._handles.remove(handle)
        except KeyError:
            return False
        return True

    def close(self, library: Any) -> None:
        """Waits for all, and releases all handles."""
        for ticket in list(self._in_flight):
            library.ferry_ticket_wait(ticket._handle)
        self._in_flight.clear()
        for handle in list(self._handles):
            if self.forget(handle):
                library.ferry_ticket_release(handle)
