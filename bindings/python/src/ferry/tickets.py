"""Tickets: the progress of copies in flight."""
from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from ctypes import byref, sizeof
from typing import TYPE_CHECKING, Any, Final

from . import native
from .errors import failed

if TYPE_CHECKING:
    from .instance import Instance

_ROUTES: Final = {route.value: route.name.lower() for route in native.Route}


def route_name(number: int) -> str:
    return _ROUTES.get(number, "unknown")


class Ticket:
    """The progress of what was enqueued. It keeps the arrays alive until the stream has passed, also if the program
    drops it. `await ticket` waits in asyncio; future() serves concurrent.futures."""

    __slots__ = ("_instance", "_handle", "_owners", "_done", "_status", "__weakref__")

    def __init__(self, instance: Instance, handle: int, owners: Any) -> None:
        self._instance = instance
        self._handle = handle
        self._owners = owners
        self._done = False
        self._status = 0

    def _ask(self) -> native.ferry_ticket_info:
        info = native.ferry_ticket_info(struct_size=sizeof(native.ferry_ticket_info))
        self._instance.alive(self._handle, "Ticket")
        self._instance.call("ferry_ticket_get_info", byref(info), of=self._handle)
        if info.done:
            self._end(info.status)
        return info

    def has_ended(self, scratch: Any) -> bool:
        """`done` for the instance's own use: the memory for the answer is its, and failing calls count as no end."""
        if not self._done and not self._instance.library.ferry_ticket_get_info(self._handle, scratch.ticket_address):
            if scratch.ticket.done:
                self._end(scratch.ticket.status)
        return self._done

    def _end(self, status: int) -> None:
        self._status = status
        self._done = True
        self._owners = None

    @property
    def done(self) -> bool:
        """Whether the copy has ended, with success or not."""
        return self._done or bool(self._ask().done)

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
        if not self._done:
            self._instance.alive(self._handle, "Ticket")
            status = self._instance.library.ferry_ticket_wait(self._handle)
            self._end(status)
        if self._status:
            raise failed(self._instance.library, self._status)

    def future(self) -> Future[None]:
        """A future that a thread of the instance completes."""
        return self._instance.waiters.submit(self.wait)

    def __await__(self) -> Generator[Any, None, None]:
        if self._done:
            self.wait()
            return
        yield from asyncio.wrap_future(self.future()).__await__()

    def __del__(self) -> None:
        instance = getattr(self, "_instance", None)
        if instance is not None:
            instance.release_ticket(self._handle)
