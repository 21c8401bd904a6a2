"""Streams and events, of ferry and of other libraries."""
from __future__ import annotations

from ctypes import byref, c_float, c_int32, c_void_p
from typing import TYPE_CHECKING, Any, Final

from . import native
from .handles import Owner, int32, part, whole

if TYPE_CHECKING:
    from .instance import Instance

LEGACY: Final = native.FERRY_DEFAULT_STREAM_LEGACY  # the default streams of a context, by number
PER_THREAD: Final = native.FERRY_DEFAULT_STREAM_PER_THREAD


_MAX_HANDLE: Final = (1 << 64) - 1
_attributes: dict[type, str] = {}  # by the class of a stream: which attribute is its handle


def handle_of(stream: Any) -> int:
    """The CUstream of a stream of ferry, PyTorch, CuPy, Numba or cuda-python, or of a number; 0 for None."""
    if stream is None:
        return 0
    kind = type(stream)
    known = _attributes.get(kind)
    if known is not None and isinstance(value := getattr(stream, known), int):
        return value
    if hasattr(kind, "__index__"):
        return whole(stream, "stream", 0, _MAX_HANDLE)
    is_stream = any("stream" in base.__name__.lower() for base in kind.__mro__)  # events and memory have handles too
    for name in ("own_handle", "cuda_stream", "handle", "ptr"):  # ferry, PyTorch, Numba, CuPy
        value = getattr(stream, name, None) if is_stream or name == "cuda_stream" else None
        if value is not None:
            _attributes[kind] = name
            value = getattr(value, "value", value)  # Numba's is a ctypes object
            return value if isinstance(value, int) else int(value or 0)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise TypeError(f"version {version} of __cuda_stream__ is not known")
        return whole(handle, "stream", 0, _MAX_HANDLE)
    if is_stream and hasattr(stream, "__int__"):  # cuda-python's CUstream
        return int(stream)
    raise TypeError(f"{kind.__name__} is not a stream")


class _Object(Owner):
    """An object that ends with the instance, or before."""

    def __init__(self, instance: Instance, handle: int | None, destroy: str) -> None:
        self._instance = instance
        self._handle: int | None = part(instance.opened, handle, destroy)
        instance.adopt(self)

    @property
    def own_handle(self) -> int:
        """The handle. The object stays open as long as the caller keeps it."""
        return self._instance.alive(self._handle, type(self).__name__)

    @property
    def handle(self) -> int:
        """CUDA's own handle, as a number."""
        return int(self.own_handle)

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    def close(self) -> None:
        """Destroys it. Work enqueued on it still completes."""
        self._handle = None
        self._instance.disown(self)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._instance.disown(self)


def _event(event: Any) -> int:
    if not isinstance(event, Event):
        raise TypeError(f"{type(event).__name__} is not an event of ferry")
    return event.own_handle


class Stream(_Object):
    """A stream, made by Instance.stream(). Other libraries take it by __cuda_stream__, or its handle."""

    def __init__(self, instance: Instance, device: Any, priority: Any, blocking: bool) -> None:
        made, device = c_void_p(), int32(device, "device")
        flags = 0 if blocking else native.FERRY_STREAM_NON_BLOCKING
        instance.call("ferry_stream_create", device, flags, int32(priority, "priority"), byref(made))
        super().__init__(instance, made.value, "ferry_stream_destroy")
        self.device = device

    def synchronize(self) -> None:
        """Waits until all work enqueued so far has ended."""
        self._instance.call("ferry_stream_synchronize", self.own_handle)
        self._instance._tickets.notice()

    def query(self) -> bool:
        """Whether all work enqueued so far has ended."""
        done = c_int32()
        self._instance.call("ferry_stream_query", self.own_handle, byref(done))
        return bool(done.value)

    def wait(self, event: Event) -> None:
        """Makes later work wait for the last record of `event`."""
        self._instance.call("ferry_stream_wait_event", self.own_handle, _event(event))

    def record(self, event: Event) -> Event:
        """Records `event` after the work enqueued so far."""
        self._instance.call("ferry_event_record", _event(event), self.own_handle)
        return event

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class Event(_Object):
    """A point in a stream, made by Instance.event()."""

    def __init__(self, instance: Instance, device: Any, timing: bool, blocking_sync: bool) -> None:
        made = c_void_p()
        flags = (0 if timing else native.FERRY_EVENT_DISABLE_TIMING) | (
            native.FERRY_EVENT_BLOCKING_SYNC if blocking_sync else 0)
        instance.call("ferry_event_create", int32(device, "device"), flags, byref(made))
        super().__init__(instance, made.value, "ferry_event_destroy")

    def synchronize(self) -> None:
        """Waits until the work before the last record has ended."""
        self._instance.call("ferry_event_synchronize", self.own_handle)

    def query(self) -> bool:
        """Whether the work before the last record has ended."""
        done = c_int32()
        self._instance.call("ferry_event_query", self.own_handle, byref(done))
        return bool(done.value)

    def elapsed_since(self, start: Event) -> float:
        """Milliseconds from the record of `start` to this one's."""
        milliseconds = c_float()
        self._instance.call("ferry_event_elapsed_time", _event(start), self.own_handle, byref(milliseconds))
        return milliseconds.value
