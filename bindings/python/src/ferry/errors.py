"""The exceptions of the package."""
from __future__ import annotations

from ctypes import CDLL, byref, c_int32, create_string_buffer, sizeof
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from . import native


SIDES: Final = {side.value: side.name.lower() for side in native.Side}
FIELDS: Final = {field.value: field.name.lower() for field in native.Field}
ITEMS: Final = {item.value: item.name.lower() for item in native.Item}
NUMBERS: Final = {numbers.value: numbers.name.lower() for numbers in native.Numbers}
_STATUSES: Final = {status.value: status for status in native.Status}


class Error(Exception):
    """A call failed. `status` is a ferry.Status, or a plain number for a status of the driver. `side` and `field` name
    the wrong value, such as "destination" and "row_pitch", or are "none". `value` is the offending
    value and `limit` the bound that it missed; `numbers` says how, such as "at_least", or is "none". `index` counts
    what `item` names, such as "copy", or is 0 for "none". `driver_function` is the driver function that failed, such as
    "cuMemAlloc", or None."""

    def __init__(self, text: str, *, status: int = 0, side: str = "none", field: str = "none", item: str = "none",
                 index: int = 0, value: int = 0, limit: int = 0, numbers: str = "none",
                 driver_function: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.side = side
        self.field = field
        self.item = item
        self.index = index
        self.value = value
        self.limit = limit
        self.numbers = numbers
        self.driver_function = driver_function

    @property
    def file_error(self) -> int | None:
        """The number of the system's error of a file, or native.FERRY_FILE_ENDED or _CANCELLED. None: another error."""
        return c_int32(self.value).value if self.numbers == "system" else None


class ArgumentError(Error, ValueError):
    """The arguments cannot be copied. Raised before any call of the library."""


class ClosedError(Error):
    """The instance, or the instance that this object belongs to, is closed."""


def new_error_info(make: type[native.ferry_error_info] = native.ferry_error_info,
                   size: int = sizeof(native.ferry_error_info)) -> native.ferry_error_info:
    """Its defaults are there when modules are gone."""
    return make(struct_size=size)


def may_have_enqueued(status: int, is_batch: bool) -> bool:
    """Whether a call that failed may have enqueued a part of its work: ferry's own checks come before that, and limits
    before a single copy."""
    return (status <= native.FERRY_STATUS_DRIVER_BASE or status == native.FERRY_ERROR_OUT_OF_MEMORY or
            (is_batch and status == native.FERRY_ERROR_LIMIT))


def _hint(status: int, info: native.ferry_error_info) -> str:
    """How to change a call of ferry.blocks(), which has other names than the fields of the C interface."""
    if info.field != native.FERRY_FIELD_INDEX_MEMORY:
        return ""
    if status == native.FERRY_ERROR_UNSUPPORTED:
        return (": indices on a device require a kernel that can access both ends of the copy, such as device and pinned "
                "memory. Use ferry's pinned() instead of pageable memory, or pass the indices as a list")
    if status == native.FERRY_ERROR_CAPTURE:
        return ": a captured stream requires indices on the device, because a graph reads them at each launch"
    return ""


def failed(library: CDLL, status: int, info: native.ferry_error_info | None = None) -> Error:
    """The exception for a status, with the contents of `info`."""
    if info is None or info.status != status:
        info = new_error_info()
        info.status = status
    line = create_string_buffer(library.ferry_error_format(byref(info), None, 0) + 1)
    library.ferry_error_format(byref(info), line, len(line))
    function = info.driver_function
    return Error(line.value.decode() + _hint(status, info), status=_STATUSES.get(status, status),
                 side=SIDES.get(info.side, "none"), field=FIELDS.get(info.field, "none"),
                 item=ITEMS.get(info.item, "none"), index=info.index, value=info.value, limit=info.limit,
                 numbers=NUMBERS.get(info.numbers, "none"),
                 driver_function=None if function is None else function.decode())


_FOLDER: Final = __file__.removesuffix(Path(__file__).name)


class Held(list[Any]):
    """The views and buffers that a block uses. If the block raises, the exception and its traceback keep none of them.

    A block costs about 0.5 us. Calls that programs make in loops catch the exception and call `let_go` themselves.
    """

    def __enter__(self) -> Held:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, where: TracebackType | None) -> None:
        if why is not None:
            self.clear()
            let_go(why)


def let_go(why: BaseException) -> None:
    """Clears the package's own frames in a traceback, so that a kept exception keeps no array alive."""
    trace = why.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(_FOLDER):
            try:
                trace.tb_frame.clear()
            except RuntimeError:  # it still runs
                pass
        trace = trace.tb_next
