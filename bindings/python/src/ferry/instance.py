"""The library as Python sees it: one opened instance."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import addressof, byref, c_uint64, c_void_p, create_string_buffer, sizeof
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from . import library as libraries
from . import native
from .errors import ArgumentError, ClosedError, Error, failed, may_have_enqueued, new_error_info
from .memory import DeviceArray, PinnedArray
from .plans import Plan, Plans, joined
from .shapes import boxes_of_fill
from .streams import LEGACY, PER_THREAD, Event, Stream, handle_of
from .tickets import Ticket, Tickets, route_name
from .views import HOST, keyed, numbers, view


class _PerThread(threading.local):
    """Memory for the error of a call, and its address. A call keeps both in a local variable: when the interpreter ends,
    it frees what belongs to a daemon thread while that thread is still in the library."""

    def __init__(self) -> None:
        info = new_error_info()
        self.error = info, addressof(info)


@dataclass(frozen=True)
class Device:
    """The facts of one device. The other fields of ferry_device_info are in `info`."""
    number: int
    name: str
    memory: int
    sm_count: int
    copy_engines: int
    compute: tuple[int, int]
    is_software: bool
    info: native.ferry_device_info


@dataclass(frozen=True)
class Explanation:
    """What a copy would do. str() tells it in one line. Times are predicted, in nanoseconds; 0: not known."""
    route: str
    blocks: bool
    driver_ns: int
    kernel_ns: int
    staged_ns: int
    text: str
    info: native.ferry_explanation

    def __str__(self) -> str:
        return self.text


def _fills(destination: Any, pattern: int | bytes) -> Iterator[native.ferry_fill_desc]:
    given = bytes([pattern]) if isinstance(pattern, int) else bytes(pattern)
    one = view(destination)
    for box in boxes_of_fill(one):
        filled = native.ferry_fill_desc(width=box.width, height=box.height, depth=box.depth, pattern_size=len(given))
        filled.destination.kind = native.FERRY_KIND_HOST if one.device == HOST else native.FERRY_KIND_ANY
        filled.destination.address = box.destination
        filled.destination.row_pitch = box.destination_pitch
        filled.destination.slice_height = box.destination_slice
        ctypes.memmove(filled.pattern, given, min(len(given), 16))
        yield filled


class Instance:
    """An opened ferry. Any number of threads may use it; each call releases the interpreter's lock."""

    def __init__(self, *, software: bool = False, **options: Any) -> None:
        self.library = libraries.load()
        self._handle: int | None = None
        self._thread = _PerThread()
        self._plans = Plans()
        self._tickets = Tickets()
        self._waiters: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        given = native.ferry_options(struct_size=sizeof(native.ferry_options),
                                     driver=native.FERRY_DRIVER_SOFTWARE if software else native.FERRY_DRIVER_CUDA)
        known = {name for name, *_ in native.ferry_options._fields_}
        for name, value in options.items():
            if name not in known or name == "struct_size":
                raise TypeError(f"ferry.open() has no option {name!r}; its options are the fields of ferry_options")
            setattr(given, name, value)
        self._options = given  # callbacks in it must live as long as the instance
        made = c_void_p()
        info = new_error_info()
        status = self.library.ferry_open(byref(given), byref(made), byref(info))
        if status:
            raise failed(self.library, status, info)
        self._handle = made.value

    # ---- Life

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    @property
    def handle(self) -> int:
        """The ferry_instance, for the functions in `library`."""
        return self.alive(self._handle, "Instance")

    def alive(self, handle: int | None, what: str) -> int:
        if self._handle is None:
            raise ClosedError(f"the instance of this {what} is closed" if what != "Instance" else
                              "the instance is closed")
        if handle is None:
            raise ClosedError(f"this {what} is closed")
        return handle

    def close(self) -> None:
        """Waits for copies in flight, then closes. Arrays and streams of the instance are of no use then; tickets still
        tell how their copies ended. No other thread may be in a call of the instance, or of what belongs to it."""
        if self._handle is None:
            return
        if self._waiters is not None:
            self._waiters.shutdown()
            self._waiters = None
        self._tickets.close(self.library)  # which lets arrays go, and they are freed while the instance is open
        handle, self._handle = self._handle, None
        self.library.ferry_close(handle)

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            if self._waiters is not None:  # idle: what they work on keeps the instance
                self._waiters.shutdown(wait=False)
                self._waiters = None
            self.close()

    def call(self, name: str, *arguments: Any, error: bool = False, of: Any = None) -> None:
        """Calls a function of the C interface with the instance, or the object `of`, as its first parameter, and with
        room for the error if it has any. Raises what it returns."""
        first = of if of is not None else self.handle
        if not error:
            status = getattr(self.library, name)(first, *arguments)
            if status:
                raise failed(self.library, status)
            return
        details, room = self._thread.error
        status = getattr(self.library, name)(first, *arguments, room)
        if status:
            raise failed(self.library, status, details)

    # ---- Copies

    def copy(self, source: Any, destination: Any, flags: int = 0) -> None:
        """Copies, and returns when the bytes are there. Ordered like a driver call on the legacy default stream."""
        one, other = keyed(source), keyed(destination)  # keeps the memory until nothing is in flight
        plan = self._plans.of(one, other, flags)
        if self._handle is None:
            raise ClosedError("the instance is closed")
        details, room = self._thread.error
        if plan.count == 1:
            status = self.library.ferry_copy(self._handle, plan.address, room)
        else:
            status = self.library.ferry_copy_batch(self._handle, plan.address, plan.count, 0, room)
        if status:
            raise self._settled(failed(self.library, status, details), plan, LEGACY)

    def copy_async(self, source: Any, destination: Any, stream: Any = None, flags: int = 0) -> Ticket:
        """Enqueues a copy on a stream: of ferry, PyTorch, CuPy, Numba or cuda-python, a number, or None for the legacy
        default stream. The arrays stay alive until the stream has passed. A pageable source must not change before,
        unless flags have SOURCE_READ."""
        one, other = keyed(source), keyed(destination)
        plan = self._plans.of(one, other, flags)
        number = handle_of(stream)
        if plan.count != 1:
            return self._enqueue([plan], plan.address, plan.count, number, (one, other))
        if self._handle is None:
            raise ClosedError("the instance is closed")
        made = c_void_p()
        details, room = self._thread.error
        try:
            status = self.library.ferry_copy_async(self._handle, plan.address, number, byref(made), room)
            if status:
                raise self._settled(failed(self.library, status, details), plan, number)
            ticket = Ticket(self, made.value, (one, other))
            self._tickets.add(ticket, plan.size)
        except BaseException:
            self._tickets.rescue(self.library, made.value)
            raise
        return ticket

    def enqueue(self, source: Any, destination: Any, stream: Any = None, flags: int = 0) -> None:
        """As copy_async, without a ticket: for streams that are being captured, and for loops. The caller keeps the
        arrays alive until the stream has passed, or as long as a captured graph may run."""
        plan = self._plans.of(keyed(source), keyed(destination), flags)
        handle, number = self.handle, handle_of(stream)
        details, room = self._thread.error
        if plan.count == 1:
            status = self.library.ferry_copy_async(handle, plan.address, number, None, room)
        else:
            status = self.library.ferry_copy_batch_async(handle, plan.address, plan.count, 0, number, room)
        if status:
            raise failed(self.library, status, details)

    def copy_pieces(self, destinations: Any, sources: Any, sizes: Any, stream: Any = None) -> None:
        """Enqueues sizes[i] bytes from sources[i] to destinations[i]: three arrays of uint64 with addresses and sizes,
        such as NumPy's. The caller keeps the memory alive."""
        to, count, _to_kept = numbers(destinations, "destinations")
        at, of_sources, _at_kept = numbers(sources, "sources")
        of, of_sizes, _of_kept = numbers(sizes, "sizes")
        for name, length in (("sources", of_sources), ("sizes", of_sizes)):
            if length != count:
                raise ArgumentError(f"{name} has {length} elements, destinations {count}", field=name)
        self.call("ferry_copy_pieces_async", to, at, of, count, 0, handle_of(stream), error=True)

    def batch(self, stream: Any = None, check_overlap: bool = False) -> Batch:
        """Collects copies in a `with` statement and makes them together at its end: on `stream`, or complete at the
        end if there is none."""
        return Batch(self, stream, native.FERRY_BATCH_CHECK_OVERLAP if check_overlap else 0)

    def prepare(self, pairs: Any, stream: Any = None) -> Prepared:
        """Checks and plans a batch once, for streams of the device of `stream`. `pairs` are (source, destination)."""
        plans: list[Plan] = []
        owners: list[Any] = []
        for source, destination in pairs:
            one, other = keyed(source), keyed(destination)
            plans.append(self._plans.of(one, other, 0))
            owners += (one, other)
        return Prepared(self, plans, owners, handle_of(stream))

    def fill(self, destination: Any, pattern: int | bytes = 0, stream: Any = None) -> None:
        """Fills device or pinned memory with a byte, or a pattern of 1, 2, 4, 8 or 16 bytes, whatever the shape.
        Returns when the bytes are there, or enqueues on `stream`. The caller keeps the array alive."""
        for one in _fills(destination, pattern):
            if stream is None:
                self.call("ferry_fill", byref(one), error=True)
            else:
                self.call("ferry_fill_async", byref(one), handle_of(stream), error=True)

    def explain_fill(self, destination: Any, pattern: int | bytes = 0, stream: Any = None) -> Explanation:
        """What fill() would do. A fill that needs several descriptors is explained by its first."""
        fills = list(_fills(destination, pattern))
        if not fills:
            raise ArgumentError("there is nothing to fill", side="destination", field="shape")
        info = native.ferry_explanation(struct_size=sizeof(native.ferry_explanation))
        if stream is None:
            self.call("ferry_fill_explain", byref(fills[0]), byref(info), error=True)
        else:
            self.call("ferry_fill_explain_async", byref(fills[0]), handle_of(stream), byref(info), error=True)
        return self._explanation(info, len(fills), "fills")

    def explain(self, source: Any, destination: Any, stream: Any = None, flags: int = 0) -> Explanation:
        """What copy(), or with a stream copy_async(), would do. A copy that needs several descriptors is explained by
        its first."""
        plan = Plan(view(source), view(destination), flags)
        if not plan.count:
            raise ArgumentError("there is nothing to copy", side="source", field="shape")
        info = native.ferry_explanation(struct_size=sizeof(native.ferry_explanation))
        if stream is None:
            self.call("ferry_copy_explain", plan.address, byref(info), error=True)
        else:
            self.call("ferry_copy_explain_async", plan.address, handle_of(stream), byref(info), error=True)
        return self._explanation(info, plan.count, "copies")

    def _explanation(self, info: Any, count: int, what: str) -> Explanation:
        line = create_string_buffer(self.library.ferry_explanation_format(byref(info), None, 0) + 1)
        self.library.ferry_explanation_format(byref(info), line, len(line))
        text = line.value.decode()
        if count > 1:
            text = f"{count} {what}, the first: {text}"
        return Explanation(route_name(info.route), info.blocks != native.FERRY_BLOCKS_NO, info.driver_ns, info.kernel_ns,
                           info.staged_ns, text, info)

    # ---- Tickets

    def _settled(self, why: Error, plan: Plan | None, stream: int) -> Error:
        """Why a call failed: of one plan, or within the batch's context. If a part of its copies may be in flight, waits
        for it: nothing keeps the arrays."""
        if may_have_enqueued(why.status, plan is None or plan.count > 1):
            with self._context_for([plan] if plan else [], stream):
                self.library.ferry_stream_synchronize(self._handle, stream)
        return why

    @contextmanager
    def _context_for(self, plans: list[Plan], stream: int) -> Iterator[None]:
        """Several calls on a default stream must take the same one. Without a current context the copies take that of
        their first device, and other calls that of device 0."""
        device = next((plan.device for plan in plans if plan.device is not None), None)
        current = c_void_p()
        if device and stream in (0, LEGACY, PER_THREAD):
            self.call("ferry_context_get_current", byref(current))
            if not current.value:
                self.call("ferry_context_push", device, None)
                try:
                    yield
                finally:
                    self.call("ferry_context_pop", None)
                return
        yield

    def _enqueue(self, plans: list[Plan], address: int, count: int, stream: int, owners: Any, flags: int = 0) -> Ticket:
        """The plans' descriptors, which are together at `address`."""
        made = c_void_p()
        with self._context_for(plans, stream):
            try:
                self.call("ferry_copy_batch_async", address, count, flags, stream, error=True)
            except Error as why:
                raise self._settled(why, None, stream)
            try:
                self.call("ferry_ticket_create", stream, byref(made), error=True)
                ticket = Ticket(self, made.value, owners)
                self._tickets.add(ticket, sum([plan.size for plan in plans]))
            except BaseException as why:  # nothing would keep the arrays
                if made.value:
                    self._tickets.rescue(self.library, made.value)
                elif getattr(why, "status", None) != native.FERRY_ERROR_CAPTURE:  # what is captured does not run
                    self.library.ferry_stream_synchronize(self._handle, stream)
                raise
            return ticket

    @property
    def waiters(self) -> ThreadPoolExecutor:
        """The threads that complete futures."""
        with self._lock:
            if self._waiters is None:
                self.alive(self._handle, "Instance")
                self._waiters = ThreadPoolExecutor(4, thread_name_prefix="ferry-wait")
            return self._waiters

    # ---- Memory, streams, devices

    def empty(self, shape: Any, dtype: Any = "uint8", device: int = 0) -> DeviceArray:
        """A new array on a device, its contents undefined."""
        return DeviceArray(self, shape, dtype, device)

    def pinned(self, shape: Any, dtype: Any = "uint8", flags: int = 0) -> PinnedArray:
        """A new array in pinned host memory. `flags`: FERRY_HOST_* of ferry.native."""
        return PinnedArray(self, shape, dtype, flags)

    def stream(self, device: int = 0, priority: int = 0, blocking: bool = False) -> Stream:
        """A new stream. `blocking`: it synchronises with the legacy default stream."""
        return Stream(self, device, priority, blocking)

    def event(self, device: int = 0, timing: bool = True, blocking_sync: bool = False) -> Event:
        """A new event. `blocking_sync`: waiting for it sleeps instead of spinning."""
        return Event(self, device, timing, blocking_sync)

    def synchronize(self, device: int = 0) -> None:
        """Waits until all work of ferry's context for a device has ended."""
        self.call("ferry_context_synchronize", device, None)

    @property
    def report(self) -> native.ferry_report:
        """What ferry found when it opened: see ferry_report in ferry.h."""
        report = native.ferry_report(struct_size=sizeof(native.ferry_report))
        self.call("ferry_instance_get_report", byref(report))
        return report

    @property
    def devices(self) -> list[Device]:
        """The devices of this machine."""
        return [self._device(number) for number in range(self.report.device_count)]

    def _device(self, number: int) -> Device:
        info = native.ferry_device_info(struct_size=sizeof(native.ferry_device_info))
        self.call("ferry_device_get_info", number, byref(info))
        return Device(number, info.name.decode(), info.total_memory, info.sm_count, info.copy_engine_count,
                      (info.compute_major, info.compute_minor), bool(info.is_software), info)

    def calibrate(self, device: int = 0) -> None:
        """Measures a device, for up to two seconds, and plans with the result from now on."""
        self.call("ferry_device_calibrate", device, error=True)

    def save_profile(self, device: int = 0) -> str:
        """The profile of a device as text, for load_profile() at the program's next start."""
        needed = c_uint64()
        self.library.ferry_profile_save(self.handle, device, None, 0, byref(needed))
        text = create_string_buffer(needed.value)
        self.call("ferry_profile_save", device, text, len(text), None)
        return text.value.decode()

    def load_profile(self, text: str) -> None:
        """Plans with a saved profile on every device that it fits."""
        self.call("ferry_profile_load", text.encode(), len(text.encode()), error=True)

    def enable_peer(self, device: int, peer: int) -> None:
        """Gives `device` access to the memory of `peer`, after a check that bytes arrive."""
        self.call("ferry_peer_enable", device, peer, error=True)

    def prepare_staging(self, device: int = 0) -> None:
        """Makes now what the first copy of pageable memory would make and wait for."""
        self.call("ferry_staging_prepare", device)


class Prepared:
    """A batch that is checked and planned, made by Instance.prepare(). It keeps its arrays alive."""

    def __init__(self, instance: Instance, plans: list[Plan], owners: Any, stream: int) -> None:
        self._instance = instance
        self._owners = owners
        every, count = joined(plans)
        made = c_void_p()
        instance.call("ferry_prepared_create", addressof(every), count, 0, stream, byref(made), error=True)
        self._handle = made.value

    def launch(self, stream: Any = None) -> None:
        """Enqueues the batch on a stream of its device. Also into a graph, which this must outlive."""
        self._instance.alive(self._handle, "Prepared")
        self._instance.call("ferry_prepared_launch", handle_of(stream), of=self._handle, error=True)

    def close(self) -> None:
        """Ends it. Launches may be in flight, and keep no array alive."""
        handle, self._handle = self._handle, None
        if handle and self._instance.is_open:
            self._instance.call("ferry_prepared_destroy", of=handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


class Batch:
    """Copies that are made together. After the `with` statement `ticket` tells their progress, if they are on a
    stream. If its block raises, nothing is copied."""

    def __init__(self, instance: Instance, stream: Any, flags: int) -> None:
        self._instance = instance
        self._stream = stream
        self._flags = flags
        self._plans: list[Plan] = []
        self._owners: list[Any] = []
        self.ticket: Ticket | None = None

    def copy(self, source: Any, destination: Any, flags: int = 0) -> None:
        """Adds a copy. Copies have no order among themselves, and must not overlap."""
        one, other = keyed(source), keyed(destination)
        self._plans.append(self._instance._plans.of(one, other, flags))
        self._owners += (one, other)

    def __len__(self) -> int:
        return sum(plan.count for plan in self._plans)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, where: TracebackType | None) -> None:
        if kind is not None:
            return
        every, count = joined(self._plans)
        if self._stream is None:
            self._instance.call("ferry_copy_batch", addressof(every), count, self._flags, error=True)
        else:
            self.ticket = self._instance._enqueue(self._plans, addressof(every), count, handle_of(self._stream),
                                                  self._owners, self._flags)
        self._plans, self._owners = [], []
