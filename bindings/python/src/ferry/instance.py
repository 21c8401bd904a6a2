"""The library as Python sees it: one opened instance."""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import addressof, byref, c_int32, c_uint64, c_void_p, create_string_buffer, sizeof
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from . import library as libraries
from . import native
from .blocks import end_of
from .errors import ArgumentError, ClosedError, Error, Held, failed, let_go, may_have_enqueued, new_error_info
from .files import File
from .handles import Opened, Owner, Part, int32, part, uint32, whole
from .memory import DeviceArray, PinnedArray
from .options import CopyOptions, address_of
from .plans import Plan, Plans, joined, joined_nests
from .shapes import boxes_of_fill
from .streams import LEGACY, PER_THREAD, Event, Stream, handle_of
from .tickets import Ticket, Tickets, route_name
from .views import HOST, View, keyed, numbers, view


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
    """What a copy would do. str() returns it in one line. Times are predicted, in nanoseconds; 0: not known."""
    route: str
    blocks: bool
    driver_ns: int
    kernel_ns: int
    staged_ns: int
    text: str
    info: native.ferry_explanation

    def __str__(self) -> str:
        return self.text


def _pattern(pattern: Any) -> bytes:
    if hasattr(pattern, "__index__"):
        return bytes([whole(pattern, "pattern", 0, 255)])
    return bytes(pattern)


def _fills(destination: View, pattern: Any) -> Iterator[native.ferry_fill_desc]:
    given = _pattern(pattern)
    for box in boxes_of_fill(destination):
        filled = native.ferry_fill_desc(width=box.width, height=box.height, depth=box.depth, pattern_size=len(given))
        filled.destination.kind = native.FERRY_KIND_HOST if destination.device == HOST else native.FERRY_KIND_ANY
        filled.destination.address = box.destination
        filled.destination.row_pitch = box.destination_pitch
        filled.destination.slice_height = box.destination_slice
        ctypes.memmove(filled.pattern, given, min(len(given), 16))
        yield filled


def _option(name: str, kind: Any, value: Any) -> Any:
    """The value of an option if it fits the field: ctypes would make something of most others."""
    if isinstance(value, kind):
        return value
    if hasattr(kind, "_flags_"):
        raise TypeError(f"option {name} must be a function of the type of ferry_options.{name} in ferry.native, not "
                        f"{type(value).__name__}")
    if value is None and kind is c_void_p:
        return value
    end = 1 << 8 * sizeof(kind)
    is_signed = kind(-1).value == -1
    return whole(value, f"option {name}", -end // 2 if is_signed else 0, end // 2 - 1 if is_signed else end - 1)


_opened: dict[int, Any] = {}  # the instances of this process


def _leave_to_parent() -> None:
    """In the child of a fork: nothing of the parent's instances can be used, or ended."""
    for one in list(_opened.values()):
        instance = one()
        if instance is not None and instance._handle is not None:
            instance._handle.is_ours = False
            instance._handle, instance._is_parents = None, True


os.register_at_fork(after_in_child=_leave_to_parent)


class Instance(Owner):
    """An opened ferry. Any number of threads may use it; each call releases the interpreter's lock."""

    _handle: Opened | None = None
    _is_parents = False  # and this is the child of a fork
    _is_closing = False

    def __init__(self, *, software: bool = False, **options: Any) -> None:
        self.library = libraries.load()
        self._children: dict[int, weakref.ref[Any]] = {}  # what ends before the instance
        self._thread = _PerThread()
        self._plans = Plans()
        self._tickets = Tickets()
        self._waiters: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        given = native.ferry_options(struct_size=sizeof(native.ferry_options),
                                     driver=native.FERRY_DRIVER_SOFTWARE if software else native.FERRY_DRIVER_CUDA)
        settings = native.ferry_software_options(struct_size=sizeof(native.ferry_software_options))
        given.driver_options = addressof(settings)
        fields: dict[str, tuple[ctypes.Structure, str, Any]] = {
            name: (given, name, kind) for name, kind, *_ in given._fields_}
        fields.update({"software_" + name: (settings, name, kind) for name, kind, *_ in settings._fields_})
        default = options.get("copy_options")  # lives until ferry_open() has read it
        options["copy_options"] = address_of(default)
        for name, value in options.items():
            if name not in fields or name.endswith("struct_size") or name == "driver_options":
                raise TypeError(f"ferry.open() has no option {name!r}; its options are the fields of ferry_options and, "
                                "after software_, of ferry_software_options")
            struct, field, kind = fields[name]
            setattr(struct, field, _option(name, kind, value))
        made = c_void_p()
        details, room = self._thread.error
        status = self.library.ferry_open(byref(given), byref(made), room)
        if status:
            raise failed(self.library, status, details)
        opened = Opened(made.value or 0)
        opened.library, opened.tickets = self.library, self._tickets
        opened.kept = given  # callbacks in it must live as long as the instance
        _opened[id(self)] = weakref.ref(self, partial(_opened.pop, id(self)))
        self._handle = opened

    # ---- Life

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    @property
    def opened(self) -> Opened:
        """The handle. The object stays open as long as the caller keeps it."""
        handle = self._handle
        if handle is None:
            raise self.closed("Instance")
        return handle

    @property
    def handle(self) -> int:
        """The ferry_instance, for the functions in `library`."""
        return int(self.opened)

    def closed(self, what: str) -> ClosedError:
        """Why an object of the instance cannot be used."""
        if self._is_parents:
            return ClosedError(f"this {what} belongs to the parent process: the child of a fork has no driver. Start "
                               "processes by multiprocessing's method spawn, or before ferry.open()")
        if self._handle is None:
            return ClosedError("the instance is closed" if what == "Instance" else
                               f"the instance of this {what} is closed")
        return ClosedError(f"this {what} is closed")

    def alive(self, handle: int | None, what: str) -> int:
        if handle is None or self._handle is None:
            raise self.closed(what)
        return handle

    def adopt(self, child: Any) -> None:
        """Notes what close() closes first."""
        self._children[id(child)] = weakref.ref(child)

    def disown(self, child: Any) -> None:
        self._children.pop(id(child), None)

    def close(self) -> None:
        """Waits for copies in flight, then closes arrays, streams, events and prepared batches of the instance, and the
        instance. Tickets still report how their copies ended. While a call of another thread runs, or a view or a NumPy
        array uses memory of the instance, the instance of the library stays open."""
        if self._handle is None:
            return
        self._is_closing = True  # which ends the making of futures
        with self._lock:
            waiters, self._waiters = self._waiters, None
        if waiters is not None:
            waiters.shutdown()
        self._close_children(Prepared)  # which may leave tickets
        self._tickets.close(self.library)  # which lets arrays go
        self._handle, handle = None, self._handle
        self._close_children(Owner)
        del handle

    def _close_children(self, kind: type) -> None:
        for one in list(self._children.values()):
            child = one()
            if isinstance(child, kind):
                child.close()  # type: ignore[attr-defined]

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if self._handle is not None:
            if self._waiters is not None:  # idle: what they work on keeps the instance
                self._waiters.shutdown(wait=False)
                self._waiters = None
            self.close()

    def call(self, name: str, *arguments: Any, of: Any = None) -> None:
        """Calls a function of the C interface with the instance, or the object `of`, as its first parameter, and raises
        the error that the function returns."""
        first, (details, room) = self.opened if of is None else of, self._thread.error
        status = getattr(self.library, name)(first, *arguments, room)
        if status:
            del first, of, arguments  # a traceback would keep the handles
            raise failed(self.library, status, details)

    # ---- Copies

    def copy(self, source: Any, destination: Any, options: CopyOptions | None = None) -> None:
        """Copies, and returns when the bytes are there. Ordered like a driver call on the legacy default stream. Calls
        without options use the options of ferry.open()."""
        one, other = keyed(source), keyed(destination)  # keeps the memory until nothing is in flight
        try:
            plan = self._plans.of(one, other)
            how = address_of(options)
            if self._handle is None:
                raise self.closed("Instance")
            details, room = self._thread.error
            if plan.nest_address:
                status = self.library.ferry_copy_nests(self._handle, plan.nest_address, 1, how, room)
            elif plan.count == 1:
                status = self.library.ferry_copy(self._handle, plan.address, how, room)
            else:
                status = self.library.ferry_copy_batch(self._handle, plan.address, plan.count, how, room)
            if status:
                raise self._settled(failed(self.library, status, details), plan.count != 1, plan.device, LEGACY)
        except BaseException as why:
            one = other = None
            let_go(why)
            raise

    def copy_async(self, source: Any, destination: Any, stream: Any = None,
                   options: CopyOptions | None = None) -> Ticket:
        """Enqueues a copy on a stream: of ferry, PyTorch, CuPy, Numba or cuda-python, a number, or None for the legacy
        default stream. The arrays stay alive until the copy has completed. A pageable source must not change before,
        unless the options have SourceOrder.CALL."""
        one, other = keyed(source), keyed(destination)
        made = c_void_p()
        opened = self._handle  # ends after the ticket
        try:
            plan = self._plans.of(one, other)
            how, number = address_of(options), handle_of(stream)
            if opened is None:
                raise self.closed("Instance")
            details, room = self._thread.error
            if plan.nest_address:
                status = self.library.ferry_copy_nests_async(opened, plan.nest_address, 1, how, number, byref(made), room)
            elif plan.count == 1:
                status = self.library.ferry_copy_async(opened, plan.address, how, number, byref(made), room)
            else:
                status = self.library.ferry_copy_batch_async(opened, plan.address, plan.count, how, number, byref(made),
                                                             room)
            if status:
                raise self._settled(failed(self.library, status, details), plan.count != 1, plan.device, number)
            ticket = Ticket(self, made.value, (one, other))
            self._tickets.add(ticket, plan.size)
        except BaseException as why:
            self._tickets.rescue(self.library, made.value)
            one = other = opened = None
            let_go(why)
            raise
        return ticket

    def enqueue(self, source: Any, destination: Any, stream: Any = None, options: CopyOptions | None = None) -> None:
        """As copy_async, without a ticket: for streams that are being captured, and for loops. The caller keeps the
        arrays alive until the copy has completed, or as long as a captured graph may run."""
        one, other = keyed(source), keyed(destination)
        try:
            plan = self._plans.of(one, other)
            details, room = self._thread.error
            how, number = address_of(options), handle_of(stream)
            if self._handle is None:
                raise self.closed("Instance")
            if plan.nest_address:
                status = self.library.ferry_copy_nests_async(self._handle, plan.nest_address, 1, how, number, None, room)
            elif plan.count == 1:
                status = self.library.ferry_copy_async(self._handle, plan.address, how, number, None, room)
            else:
                status = self.library.ferry_copy_batch_async(self._handle, plan.address, plan.count, how, number, None,
                                                             room)
            if status:
                raise failed(self.library, status, details)
        except BaseException as why:
            one = other = None
            let_go(why)
            raise

    def copy_pieces(self, stream: Any = None, options: CopyOptions | None = None, *, sources: Any, destinations: Any,
                    sizes: Any) -> None:
        """Enqueues sizes[i] bytes from sources[i] to destinations[i]: three arrays of uint64 with addresses and sizes,
        such as NumPy's. The call names the arrays, so that it cannot confuse them. The caller keeps the memory
        alive."""
        with Held() as held:
            pieces = self._pieces(held, sources=sources, destinations=destinations, sizes=sizes)
            self.call("ferry_copy_pieces_async", byref(pieces), address_of(options), handle_of(stream), None)

    def copy_pieces_ticket(self, stream: Any = None, options: CopyOptions | None = None, *, sources: Any,
                           destinations: Any, sizes: Any) -> Ticket:
        """As copy_pieces, with a ticket. The ticket does not keep the memory alive."""
        with Held() as held:
            pieces = self._pieces(held, sources=sources, destinations=destinations, sizes=sizes)
            return self._with_ticket("ferry_copy_pieces_async", byref(pieces), address_of(options), handle_of(stream),
                                     owners=(), size=0)

    def _pieces(self, held: Held, **arrays: Any) -> native.ferry_piece_list:
        """The list of the three arrays, which `held` keeps."""
        for name, array in arrays.items():
            held.append(numbers(array, name))
            length, count = held[-1][1], held[0][1]
            if length != count:
                raise ArgumentError(f"{name} has {length} elements, sources {count}", field=name)
        addresses = {name: one[0] for name, one in zip(arrays, held)}
        return native.ferry_piece_list(struct_size=sizeof(native.ferry_piece_list), count=held[0][1], **addresses)

    def batch(self, stream: Any = None, options: CopyOptions | None = None) -> Batch:
        """Collects copies in a `with` statement and makes them together at its end: on `stream`, or complete at the
        end if there is none. With CopyFlags.CHECK_OVERLAP, copies that overlap are refused."""
        return Batch(self, stream, options)

    def prepare(self, pairs: Any, stream: Any = None, options: CopyOptions | None = None) -> Prepared:
        """Checks and plans a batch once, for streams of the device of `stream`. `pairs` are (source, destination)."""
        plans: list[Plan] = []
        with Held() as owners:
            for source, destination in pairs:
                owners += (keyed(source), keyed(destination))
                plans.append(self._plans.of(owners[-2], owners[-1]))
            return Prepared(self, plans, owners, handle_of(stream), options)

    def fill(self, destination: Any, pattern: int | bytes = 0, stream: Any = None,
             options: CopyOptions | None = None) -> None:
        """Fills device or pinned memory with a byte, or a pattern of 1, 2, 4, 8 or 16 bytes, whatever the shape.
        Returns when the bytes are there, or enqueues on `stream`. The caller keeps the array alive."""
        with Held([view(destination)]) as held:
            how = address_of(options)
            for filled in _fills(held[0], pattern):
                if stream is None:
                    self.call("ferry_fill", byref(filled), how)
                else:
                    self.call("ferry_fill_async", byref(filled), how, handle_of(stream), None)

    def fill_async(self, destination: Any, pattern: int | bytes = 0, stream: Any = None,
                   options: CopyOptions | None = None) -> Ticket:
        """Enqueues a fill on a stream, or None for the legacy default stream. The array stays alive until the fill has
        completed. The ticket of a fill that needs several descriptors counts the bytes of the last."""
        with Held([view(destination)]) as held:
            how, number, device, size = address_of(options), handle_of(stream), held[0].device, held[0].nbytes
            *others, last = list(_fills(held[0], pattern)) or [native.ferry_fill_desc(pattern_size=1)]
            try:
                for filled in others:
                    self.call("ferry_fill_async", byref(filled), how, number, None)
                return self._with_ticket("ferry_fill_async", byref(last), how, number, owners=held, size=size)
            except Error as why:
                raise self._settled(why, bool(others), device if device >= 0 else None, number)

    def explain_fill(self, destination: Any, pattern: int | bytes = 0, stream: Any = None,
                     options: CopyOptions | None = None) -> Explanation:
        """What fill() would do. A fill that needs several descriptors is explained by its first."""
        with Held([view(destination)]) as held:
            fills = list(_fills(held[0], pattern))
            if not fills:
                raise ArgumentError("there is nothing to fill", side="destination", field="shape")
            info = native.ferry_explanation(struct_size=sizeof(native.ferry_explanation))
            if stream is None:
                self.call("ferry_fill_explain", byref(fills[0]), address_of(options), byref(info))
            else:
                self.call("ferry_fill_explain_async", byref(fills[0]), address_of(options), handle_of(stream),
                          byref(info))
            return self._explanation(info, len(fills), "fills")

    def explain(self, source: Any, destination: Any, stream: Any = None,
                options: CopyOptions | None = None) -> Explanation:
        """What copy(), or with a stream copy_async(), would do. A copy that needs several descriptors is explained by
        its first."""
        with Held([end_of(source), end_of(destination)]) as held:
            plan = Plan(held[0], held[1])
            if not plan.count:
                raise ArgumentError("there is nothing to copy", side="source", field="shape")
            info = native.ferry_explanation(struct_size=sizeof(native.ferry_explanation))
            if plan.nest_address:  # enqueued in the same way with and without a stream
                self.call("ferry_copy_nest_explain_async", plan.nest_address, address_of(options), handle_of(stream),
                          byref(info))
                return self._explanation(info, 1, "copies")
            if stream is None:
                self.call("ferry_copy_explain", plan.address, address_of(options), byref(info))
            else:
                self.call("ferry_copy_explain_async", plan.address, address_of(options), handle_of(stream),
                          byref(info))
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

    def _settled(self, why: Error, is_batch: bool, device: int | None, stream: int) -> Error:
        """Why a call failed that uses memory of `device`. If a part of its work may be in flight, waits for it: nothing
        keeps the arrays."""
        if may_have_enqueued(why.status, is_batch):
            with self._context_for(device, stream) as opened:
                self.library.ferry_stream_synchronize(opened, stream, None)
        return why

    @contextmanager
    def _context_for(self, device: int | None, stream: int) -> Iterator[Opened]:
        """The handle for a call that must use the context of an earlier one. On a default stream without a current
        context, copies and fills use the context of their first device, and other calls the context of device 0."""
        current, opened = c_void_p(), self.opened
        try:
            if device and stream in (0, LEGACY, PER_THREAD):
                self.call("ferry_context_get_current", byref(current), of=opened)
                if not current.value:
                    self.call("ferry_context_push", device, None, of=opened)
                    try:
                        yield opened
                    finally:
                        self.call("ferry_context_pop", None, of=opened)
                    return
            yield opened
        finally:
            del opened  # a traceback would keep it

    def _with_ticket(self, name: str, *arguments: Any, owners: Any, size: int, of: Any = None) -> Ticket:
        """Calls a function whose last parameter before the error is the ticket. The ticket keeps `owners`."""
        made, opened = c_void_p(), self.opened  # ends after the ticket
        try:
            self.call(name, *arguments, byref(made), of=opened if of is None else of)
            ticket = Ticket(self, made.value, tuple(owners))
            self._tickets.add(ticket, size)
        except BaseException:
            self._tickets.rescue(self.library, made.value)
            raise
        finally:
            del opened, of, owners  # a traceback would keep them
        return ticket

    def keep_until_passed(self, opened: Opened, streams: dict[int, Any], device: int, owners: Any) -> None:
        """Keeps `owners` until the work on the streams has completed, or waits for it."""
        done = c_int32()
        for number, stream in streams.items():
            if number in (0, LEGACY, PER_THREAD) or isinstance(stream, Stream) and not stream.is_open:
                self.library.ferry_context_synchronize(opened, device, None, None)
            elif self.library.ferry_stream_query(opened, number, byref(done), None) or not done.value:
                made = c_void_p()
                if self._handle is None or self.library.ferry_ticket_create(opened, number, byref(made), None):
                    self.library.ferry_stream_synchronize(opened, number, None)
                else:
                    self._tickets.add(Ticket(self, made.value, owners), 0)

    @property
    def waiters(self) -> ThreadPoolExecutor:
        """The threads that complete futures."""
        with self._lock:
            if self._waiters is None:
                if self._handle is None or self._is_closing:
                    raise self.closed("Instance")
                self._waiters = ThreadPoolExecutor(4, thread_name_prefix="ferry-wait")
            return self._waiters

    # ---- Memory, streams, devices

    def empty(self, shape: Any, dtype: Any = "uint8", device: int = 0) -> DeviceArray:
        """A new array on a device, its contents undefined."""
        return DeviceArray(self, shape, dtype, device)

    def pinned(self, shape: Any, dtype: Any = "uint8", flags: int = 0, *, shared: bool = False) -> PinnedArray:
        """A new array in pinned host memory. The child of a fork crashes where it reads one, unless it is `shared`: then
        parent and child have the same memory. `flags`: FERRY_HOST_* of ferry.native. With FERRY_HOST_ALLOW_SMALLER the
        first axis may be shorter than requested."""
        return PinnedArray(self, shape, dtype, uint32(flags, "flags") | (native.FERRY_HOST_SHARED if shared else 0))

    def stream(self, device: int = 0, priority: int = 0, blocking: bool = False) -> Stream:
        """A new stream. `blocking`: it synchronises with the legacy default stream."""
        return Stream(self, device, priority, blocking)

    def file(self, file: Any, mode: str = "r", *, direct: str = "auto", keep_cache: bool = False,
             sync: bool = False, max_threads: int = 0) -> File:
        """Opens a file to copy from and to arrays: a path with a mode 'r', 'r+', 'w' or 'w+' as for open(),
        or a file object or descriptor, which stays the caller's and has its own access. `direct` is 'auto', 'never' or
        'always'. `keep_cache`: leaves the page cache untouched. `sync`: written bytes are durable when a copy
        completes. `max_threads` transfer bytes of one copy at the same time; 0: no limit."""
        return File(self, file, mode, direct, keep_cache, sync, max_threads)

    def event(self, device: int = 0, timing: bool = True, blocking_sync: bool = False) -> Event:
        """A new event. `blocking_sync`: waiting for it sleeps instead of spinning."""
        return Event(self, device, timing, blocking_sync)

    def synchronize(self, device: int = 0) -> None:
        """Waits until all work of ferry's context for a device has ended."""
        self.call("ferry_context_synchronize", int32(device, "device"), None)
        self._tickets.notice()

    @property
    def report(self) -> native.ferry_report:
        """What ferry found when it opened: see ferry_report in ferry_devices.h."""
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
        self.call("ferry_device_calibrate", int32(device, "device"))

    def save_profile(self, device: int = 0) -> str:
        """The profile of a device as text, for load_profile() at the program's next start."""
        needed = c_uint64()
        device = int32(device, "device")
        self.call("ferry_profile_save", device, None, 0, byref(needed))
        text = create_string_buffer(needed.value)
        self.call("ferry_profile_save", device, text, len(text), None)
        return text.value.decode()

    def load_profile(self, text: str) -> None:
        """Plans with a saved profile on every device that it fits."""
        self.call("ferry_profile_load", text.encode(), len(text.encode()))

    def enable_peer(self, device: int, peer: int) -> None:
        """Gives `device` access to the memory of `peer`, after a check that bytes arrive."""
        self.call("ferry_peer_enable", int32(device, "device"), int32(peer, "peer"))

    def prepare_staging(self, device: int = 0) -> None:
        """Makes now what the first copy of pageable memory would make and wait for."""
        self.call("ferry_staging_prepare", int32(device, "device"))


class Prepared(Owner):
    """A batch that is checked and planned, made by Instance.prepare(). It keeps its arrays alive."""

    def __init__(self, instance: Instance, plans: list[Plan], owners: Any, stream: int,
                 options: CopyOptions | None) -> None:
        self._instance = instance
        are_nests = any(plan.nest_address for plan in plans)
        every, count = joined_nests(plans) if are_nests else joined(plans)
        made = c_void_p()
        instance.call("ferry_prepared_create_nests" if are_nests else "ferry_prepared_create", addressof(every), count,
                      address_of(options), stream, byref(made))
        self._device = next((plan.device for plan in plans if plan.device is not None), 0)
        self._size = sum([plan.size for plan in plans])
        self._streams: dict[int, Any] = {}  # of launches
        handle = part(instance.opened, made.value, "ferry_prepared_destroy")
        handle.kept = tuple(owners)
        self._handle: Part | None = handle
        instance.adopt(self)

    def launch(self, stream: Any = None, options: CopyOptions | None = None) -> None:
        """Enqueues the batch on a stream of its device. Also into a graph, which this must outlive. Of the options, a
        launch uses only the tag. Without options, it has the tag of prepare()."""
        how, (handle, number) = address_of(options), self._begin_launch(stream)
        self._instance.call("ferry_prepared_launch", how, number, None, of=handle)
        self._end_launch(handle, number, stream)

    def launch_ticket(self, stream: Any = None, options: CopyOptions | None = None) -> Ticket:
        """As launch, with a ticket."""
        how, (handle, number) = address_of(options), self._begin_launch(stream)
        ticket = self._instance._with_ticket("ferry_prepared_launch", how, number, owners=handle.kept, size=self._size,
                                             of=handle)
        self._end_launch(handle, number, stream)
        return ticket

    def _begin_launch(self, stream: Any) -> tuple[Part, int]:
        number, handle = handle_of(stream), self._handle
        if handle is None or not self._instance.is_open:
            raise self._instance.closed("Prepared")
        self._streams[number] = stream
        return handle, number

    def _end_launch(self, handle: Part, number: int, stream: Any) -> None:
        if self._handle is None:  # another thread has closed it meanwhile
            self._instance.keep_until_passed(handle.opened, {number: stream}, self._device, handle.kept)

    def close(self) -> None:
        """Ends it, and lets its arrays go once launches in flight have passed."""
        handle, self._handle = self._handle, None
        streams, self._streams = self._streams, {}
        self._instance.disown(self)
        if handle is not None and handle.opened.is_ours:
            self._instance.keep_until_passed(handle.opened, streams, self._device, handle.kept)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


class Batch(Owner):
    """Copies that are made together. After the `with` statement `ticket` reports their progress, if they are on a
    stream. If its block raises, nothing is copied."""

    def __init__(self, instance: Instance, stream: Any, options: CopyOptions | None) -> None:
        self._instance = instance
        self._stream = stream
        self._options = options
        self._plans: list[Plan] = []
        self._owners: list[Any] = []
        self.ticket: Ticket | None = None

    def copy(self, source: Any, destination: Any) -> None:
        """Adds a copy. Copies have no order among themselves, and must not overlap."""
        one, other = keyed(source), keyed(destination)
        try:
            plan = self._instance._plans.for_batch(one, other)
        except BaseException as why:
            one = other = None
            let_go(why)
            raise
        self._plans.append(plan)
        self._owners += (one, other)

    def __len__(self) -> int:
        return sum(plan.count for plan in self._plans)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, where: TracebackType | None) -> None:
        plans, owners = self._plans, self._owners
        self._plans, self._owners = [], []
        try:
            if kind is not None:
                return
            (every, count), how = joined(plans), address_of(self._options)
            if self._stream is None:
                self._instance.call("ferry_copy_batch", addressof(every), count, how)
                return
            number, size = handle_of(self._stream), sum([plan.size for plan in plans])
            try:
                self.ticket = self._instance._with_ticket("ferry_copy_batch_async", addressof(every), count, how,
                                                          number, owners=owners, size=size)
            except Error as error:
                device = next((plan.device for plan in plans if plan.device is not None), None)
                raise self._instance._settled(error, True, device, number)
        finally:
            owners.clear()  # a traceback would keep them
