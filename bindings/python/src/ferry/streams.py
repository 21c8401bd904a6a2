"""Streams and events, of ferry and of other libraries."""
from __future__ import annotations

from ctypes import byref, c_float, c_int32, c_void_p
from typing import TYPE_CHECKING, Any, Final

from . import native

if TYPE_CHECKING:
    from .instance import Instance

LEGACY: Final = native.FERRY_STREAM_LEGACY  # the default streams of a context, by number
PER_THREAD: Final = native.FERRY_STREAM_PER_THREAD


_attributes: dict[type, str] = {}  # by the class of a stream: which attribute is its handle


def handle_of(stream: Any) -> int:
    """The CUstream of a stream of ferry, PyTorch, CuPy, Numba or cuda-python, or of a number; 0 for None."""
    if stream is None:
        return 0
    kind = type(stream)
    known = _attributes.get(kind)
    if known is not None and type(value := getattr(stream, known)) is int:
        return value
    if isinstance(stream, int):
        return stream
    for name in ("handle", "cuda_stream", "ptr"):  # ferry and Numba; PyTorch; CuPy
        value = getattr(stream, name, None)
        if value is not None:
            _attributes[kind] = name
            value = getattr(value, "value", value)  # Numba's is a ctypes object
            return int(value or 0)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise TypeError(f"version {version} of __cuda_stream__ is not known")
        return int(handle)
    if hasattr(stream, "__int__") and not isinstance(stream, float):  # cuda-python's CUstream
        return int(stream)
    raise TypeError(f"{type(stream).__name__} is no stream")


class _Object:
    """What ends with the instance, or before."""

    def __init__(self, instance: Instance, handle: int, destroy: str) -> None:
        self._instance = instance
        self._handle: int | None = handle
        self._destroy = destroy

    @property
    def handle(self) -> int:
        """CUDA's own handle, as a number."""
        return self._instance.alive(self._handle, type(self).__name__)

    def close(self) -> None:
        """Destroys it. Work enqueued on it still completes."""
        handle, self._handle = self._handle, None
        if handle is not None and self._instance.is_open:
            self._instance.call(self._destroy, handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


class Stream(_Object):
    """A stream, made by Instance.stream(). Other libraries take it by __cuda_stream__, or its handle."""

    def __init__(self, instance: Instance, device: int, priority: int, blocking: bool) -> None:
        made = c_void_p()
        flags = 0 if blocking else native.FERRY_STREAM_NON_BLOCKING
        instance.call("ferry_stream_create", device, flags, priority, byref(made), error=True)
        super().__init__(instance, made.value or 0, "ferry_stream_destroy")
        self.device = device

    def synchronize(self) -> None:
        """Waits until all work enqueued so far has ended."""
        self._instance.call("ferry_stream_synchronize", self.handle)

    def query(self) -> bool:
        """Whether all work enqueued so far has ended."""
        done = c_int32()
        self._instance.call("ferry_stream_query", self.handle, byref(done))
        return bool(done.value)

    def wait(self, event: Event) -> None:
        """Makes later work wait for the last record of `event`."""
        self._instance.call("ferry_stream_wait_event", self.handle, event.handle)

    def record(self, event: Event) -> Event:
        """Records `event` after the work enqueued so far."""
        self._instance.call("ferry_event_record", event.handle, self.handle)
        return event

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class Event(_Object):
    """A point in a stream, made by Instance.event()."""

    def __init__(self, instance: Instance, device: int, timing: bool, blocking_sync: bool) -> None:
        made = c_void_p()
        flags = (0 if timing else native.FERRY_EVENT_DISABLE_TIMING) | (
            native.FERRY_EVENT_BLOCKING_SYNC if blocking_sync else 0)
        instance.call("ferry_event_create", device, flags, byref(made), error=True)
        super().__init__(instance, made.value or 0, "ferry_event_destroy")

    def synchronize(self) -> None:
        """Waits until the work before the last record has ended."""
        self._instance.call("ferry_event_synchronize", self.handle)

    def query(self) -> bool:
        """Whether the work before the last record has ended."""
        done = c_int32()
        self._instance.call("ferry_event_query", self.handle, byref(done))
        return bool(done.value)

    def elapsed_since(self, start: Event) -> float:
        """Milliseconds from the record of `start` to this one's."""
        milliseconds = c_float()
        self._instance.call("ferry_event_elapsed_time", start.handle, self.handle, byref(milliseconds))
        return milliseconds.value
