"""Tickets: the progress of copies in flight."""
from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from ctypes import byref, sizeof
from typing import TYPE_CHECKING, Any, Final

from . import native
from .errors import Error, failed, new_error_info
from .handles import Owner

if TYPE_CHECKING:
    from .instance import Instance

# When a new copy checks whether older copies have ended: after this number of bytes or copies, or this time. A check
# takes as long as a small copy, so not every copy makes a check.
_BYTES_BETWEEN: Final = 1 << 20
_COPIES_BETWEEN: Final = 32
_NS_BETWEEN: Final = 1_000_000
# The numbers of AUTO and NONE are equal: copies report NONE, which comes later.
_ROUTES: Final = {route.value: name.lower() for name, route in native.Route.__members__.items()}


def route_name(number: int) -> str:
    return _ROUTES.get(number, "unknown")


class Ticket(Owner):
    """The progress of what was enqueued. It keeps the arrays alive until the copy has completed, even if the program
    drops it. `await ticket` waits in asyncio; future() serves concurrent.futures."""

    __slots__ = ("_instance", "_handle", "_owners", "_status", "_details", "__weakref__")
    _status: int | None  # None until the copy has ended
    _details: native.ferry_error_info | None  # of a copy that failed, once a call has waited for it

    def __init__(self, instance: Instance, handle: int | None, owners: Any) -> None:
        self._handle = handle
        self._owners = owners
        self._status = self._details = None
        self._instance = instance  # last: __del__ knows by it that the others are there

    def _ask(self) -> native.ferry_ticket_info:
        info = native.ferry_ticket_info(struct_size=sizeof(native.ferry_ticket_info))
        self._instance.alive(self._handle, "Ticket")
        details, room = self._instance._thread.error
        status = self._instance._tickets.use(self._handle, self._instance.library.ferry_ticket_get_info, byref(info),
                                             room)
        if status is None:
            raise self._instance.closed("Ticket")
        if status:
            raise failed(self._instance.library, status, details)
        if info.done:
            self._end(info.status)
        return info

    def _status_of_end(self, info: native.ferry_ticket_info) -> int | None:
        """None before the end. `info` is memory for the answer. Failing calls count as no end."""
        if self._status is not None or self._handle is None:
            return self._status or 0
        status = self._instance._tickets.use(self._handle, self._instance.library.ferry_ticket_get_info, byref(info),
                                             None)
        if status is None or status or not info.done:
            return None
        return int(info.status)

    def _end(self, status: int, details: native.ferry_error_info | None = None) -> None:
        self._status = status
        self._details = details if status else None
        self._owners = None

    @property
    def done(self) -> bool:
        """Whether the copy has ended, with success or not."""
        return self._status is not None or bool(self._ask().done)

    @property
    def route(self) -> str:
        """The route that the copy took, such as "staged"; "none" for a batch or a fill."""
        return route_name(self._ask().route)

    @property
    def progress(self) -> tuple[int, int]:
        """The bytes that have arrived, and all. Only staged copies count before the end."""
        info = self._ask()
        return info.bytes_done, info.bytes_total

    @property
    def tag(self) -> int:
        """The tag of the call's options."""
        return self._ask().tag

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the copy is done, and helps with staged copies. Raises what ended it, or TimeoutError after
        `timeout` seconds: the copy continues."""
        timeout_ns = native.FERRY_NO_TIMEOUT if timeout is None else max(0, round(timeout * 1e9))
        if self._status is None:
            self._instance.alive(self._handle, "Ticket")
        if self._status is None or self._status and self._details is None:
            details = new_error_info()
            status = self._instance._tickets.use(self._handle, self._instance.library.ferry_ticket_wait, timeout_ns,
                                                 byref(details))
            if status == native.FERRY_ERROR_NOT_READY:
                raise TimeoutError("the copy is not done yet")
            if status is not None:
                self._end(self._status or status, details)
            elif self._status is None:  # another thread closes, but has not noted the end yet
                raise self._instance.closed("Ticket")
        if self._status:
            raise failed(self._instance.library, self._status, self._details)

    def cancel(self) -> None:
        """Cancels copies of files: what has not begun is not transferred. wait() then raises an Error whose file_error
        is native.FERRY_FILE_CANCELLED, unless all bytes were transferred before."""
        if self._status is not None:
            return
        details, room = self._instance._thread.error
        status = self._instance._tickets.use(self._handle, self._instance.library.ferry_ticket_cancel, room)
        if status:
            raise failed(self._instance.library, status, details)

    def future(self) -> Future[None]:
        """A future that a thread of the instance completes."""
        if self._status is None:
            waiters = self._instance.waiters
            try:
                return waiters.submit(self.wait)
            except RuntimeError:
                if self._instance._is_closing:  # by another thread
                    raise self._instance.closed("Instance") from None
                raise
        ended: Future[None] = Future()
        try:
            self.wait()
            ended.set_result(None)
        except Error as why:
            ended.set_exception(why)
        return ended

    def __await__(self) -> Generator[Any, None, None]:
        if self._status is not None:
            self.wait()
            return
        yield from asyncio.wrap_future(self.future()).__await__()

    def __del__(self) -> None:
        instance = getattr(self, "_instance", None)
        if instance is not None:
            handle, self._handle = self._handle, None  # other objects that the garbage collector ends may ask yet
            self._status = instance._tickets.release(instance.library, handle, self._status)


class Tickets:
    """All tickets of an instance. Keeps those whose copies have not ended, and so their arrays, also if the program
    drops them."""

    def __init__(self) -> None:
        # No lock: a forked child, or an interpreter that ends, would wait for a thread that is gone.
        self._handles: set[int | None] = set()
        self._busy: list[int | None] = []  # what calls have
        self._process = os.getpid()
        self._in_flight: deque[Ticket] = deque()
        self._bytes = 0
        self._asks_at = _COPIES_BETWEEN
        self._asked_ns = 0

    def add(self, ticket: Ticket, size: int) -> None:
        """`size`: the bytes of its copies."""
        self._handles.add(ticket._handle)
        tickets = self._in_flight
        tickets.append(ticket)
        self._bytes += size
        now = time.perf_counter_ns()
        if self._bytes >= _BYTES_BETWEEN or len(tickets) >= self._asks_at or now - self._asked_ns >= _NS_BETWEEN:
            self._asked_ns = now
            self.notice()

    def notice(self) -> None:
        """Lets the arrays of copies that have ended go."""
        for one, status in self._take_ended():  # whose arrays may run code of their own
            one._end(status)

    def _take_ended(self) -> list[tuple[Ticket, int]]:
        tickets = self._in_flight
        info = native.ferry_ticket_info(struct_size=sizeof(native.ferry_ticket_info))
        in_vain = 2 + len(tickets) // 16
        ended: list[tuple[Ticket, int]] = []
        for _ in range(len(tickets)):
            try:
                oldest = tickets.popleft()
            except IndexError:  # another thread took it
                break
            try:
                status = oldest._status_of_end(info)
            except BaseException:  # an interrupt
                tickets.append(oldest)
                raise
            if status is not None:
                ended.append((oldest, status))
                continue
            tickets.append(oldest)  # those behind it may be of other streams
            in_vain -= 1
            if not in_vain:
                break
        self._bytes = 0
        self._asks_at = len(tickets) * 5 // 4 + _COPIES_BETWEEN
        return ended

    def use(self, handle: int | None, function: Callable[..., int], *arguments: Any) -> int | None:
        """What a function returns for a handle, or None if it is released."""
        self._busy.append(handle)
        try:
            return function(handle, *arguments) if handle in self._handles else None
        finally:
            self._busy.remove(handle)

    def release(self, library: Any, handle: int | None, status: int | None,
                no_timeout: int = native.FERRY_NO_TIMEOUT) -> int | None:
        """Releases a handle, once, and returns the status. Without a handle the copy may be in flight: waits for it,
        because nothing else keeps its arrays."""
        self._busy.append(handle)
        try:
            self._handles.remove(handle)  # one caller succeeds
            if status is None:
                status = library.ferry_ticket_wait(handle, no_timeout, None)
            library.ferry_ticket_release(handle, None)
        except KeyError:
            pass
        finally:
            self._busy.remove(handle)
        return status

    def rescue(self, library: Any, handle: int | None, no_timeout: int = native.FERRY_NO_TIMEOUT) -> None:
        """Waits for a copy whose call raises, because of an interrupt. Releases a handle that no ticket came to own."""
        if handle:
            library.ferry_ticket_wait(handle, no_timeout, None)
            if handle not in self._handles:
                library.ferry_ticket_release(handle, None)

    def close(self, library: Any, is_finalizing: Callable[[], bool] = sys.is_finalizing,
              process: Callable[[], int] = os.getpid, rest: Callable[[float], None] = time.sleep,
              new_error_info: Callable[[], Any] = new_error_info, byref: Callable[[Any], Any] = byref,
              no_timeout: int = native.FERRY_NO_TIMEOUT) -> None:
        """Waits for all, and releases all handles. Its defaults are there when modules are gone."""
        def until_idle(is_busy: Callable[[], bool]) -> None:
            while is_busy() and process() == self._process and not is_finalizing():  # by a thread that is not gone
                rest(0)

        while self._in_flight:
            one = self._in_flight.popleft()
            try:
                if one._handle in self._handles:  # else the garbage collector has ended it
                    details = new_error_info()
                    one._end(library.ferry_ticket_wait(one._handle, no_timeout, byref(details)), details)
            except BaseException:  # an interrupt
                self._in_flight.appendleft(one)
                raise
        while self._handles:
            handle = self._handles.pop()
            until_idle(lambda: handle in self._busy)
            library.ferry_ticket_release(handle, None)
        until_idle(lambda: bool(self._busy))
