"""Files whose bytes are copied from and to memory of a device or of the host."""
from __future__ import annotations

import os
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from . import native
from .errors import ArgumentError, Held
from .handles import Owner, Part, part, whole
from .options import CopyOptions, address_of
from .plans import fill_descriptor
from .shapes import boxes_between
from .streams import handle_of
from .tickets import Ticket
from .views import HOST, View, view

if TYPE_CHECKING:
    from .instance import Instance

_FLAGS: Final = {"r": native.FERRY_FILE_READ, "r+": native.FERRY_FILE_READ | native.FERRY_FILE_WRITE,
                 "w": native.FERRY_FILE_WRITE | native.FERRY_FILE_CREATE | native.FERRY_FILE_TRUNCATE,
                 "w+": native.FERRY_FILE_READ | native.FERRY_FILE_WRITE | native.FERRY_FILE_CREATE |
                 native.FERRY_FILE_TRUNCATE}
_DIRECT: Final = ("auto", "never", "always")  # FERRY_FILE_DIRECT_*


class File(Owner):
    """An open file, made by Instance.file(). Its bytes are copied from and to arrays on a device or on the host, in the array's
    own shape: the elements follow each other in the file, in C's order."""

    def __init__(self, instance: Instance, file: Any, mode: str, direct: str, keep_cache: bool, sync: bool,
                 max_threads: int) -> None:
        flags = _FLAGS.get(mode.replace("b", ""))
        if flags is None:
            raise ArgumentError(f"mode: {mode!r}, must be 'r', 'r+', 'w' or 'w+'", field="mode")
        if direct not in _DIRECT:
            raise ArgumentError(f"direct: {direct!r}, must be 'auto', 'never' or 'always'", field="direct")
        how = native.FERRY_FILE_KEEP_CACHE * bool(keep_cache) | native.FERRY_FILE_SYNC * bool(sync)
        options = native.ferry_file_options(struct_size=sizeof(native.ferry_file_options), flags=how,
                                            direct=_DIRECT.index(direct),
                                            max_threads=whole(max_threads, "max_threads", 0, (1 << 32) - 1))
        self._instance = instance
        made = c_void_p()
        if hasattr(file, "fileno") or isinstance(file, int):
            number = whole(file if isinstance(file, int) else file.fileno(), "file", -1, (1 << 63) - 1)
            if os.name == "nt":
                import msvcrt
                number = msvcrt.get_osfhandle(number)  # type: ignore[attr-defined, unused-ignore]
            instance.call("ferry_file_open_descriptor", number, byref(options), byref(made))
        else:
            options.flags |= flags
            instance.call("ferry_file_open", os.fspath(file).encode(), byref(options), byref(made))
        self._handle: Part | None = part(instance.opened, made.value, "ferry_file_close")
        instance.adopt(self)

    def _open_handle(self) -> Part:
        handle = self._handle
        if handle is None or not self._instance.is_open:
            raise self._instance.closed("File")
        return handle

    @property
    def size(self) -> int:
        """The number of bytes of the file, now."""
        info = native.ferry_file_info(struct_size=sizeof(native.ferry_file_info))
        self._instance.call("ferry_file_get_info", byref(info), of=self._open_handle())
        return int(info.size)

    def _descriptors(self, array: View, offset: Any, reads: bool, handle: Part) -> list[native.ferry_copy_desc]:
        at = whole(offset, "offset", 0, (1 << 63) - 1)
        there = View(at, array.shape, None, array.dtype, array.itemsize, HOST)
        source, destination = (there, array) if reads else (array, there)
        made = []
        for box in boxes_between(source, destination):
            copy = native.ferry_copy_desc()
            fill_descriptor(copy, source.device, destination.device, box)
            place = copy.source if reads else copy.destination
            place.kind, place.device, place.file = native.FERRY_KIND_FILE, 0, int(handle)
            made.append(copy)
        return made

    def _copy(self, array: Any, offset: Any, reads: bool, options: CopyOptions | None) -> None:
        with Held([view(array), self._open_handle()]) as held:
            how = address_of(options)
            for copy in self._descriptors(held[0], offset, reads, held[1]):
                self._instance.call("ferry_copy", byref(copy), how)

    def _copy_async(self, array: Any, offset: Any, reads: bool, stream: Any, options: CopyOptions | None) -> Ticket:
        with Held([view(array), self._open_handle()]) as held:
            how, number = address_of(options), handle_of(stream)
            copies = self._descriptors(held[0], offset, reads, held[1])
            if len(copies) != 1:
                raise ArgumentError(f"the array needs {len(copies)} copies, must need 1: make it contiguous first, or "
                                    "use the synchronous call", side="destination" if reads else "source", field="shape")
            return self._instance._with_ticket("ferry_copy_async", byref(copies[0]), how, number, owners=held,
                                               size=held[0].nbytes)

    def read(self, offset: int, destination: Any, options: CopyOptions | None = None) -> None:
        """Fills an array with the bytes from `offset` on, and returns when they are there."""
        self._copy(destination, offset, True, options)

    def write(self, source: Any, offset: int, options: CopyOptions | None = None) -> None:
        """Writes an array to the file, from `offset` on, and returns when the system has the bytes."""
        self._copy(source, offset, False, options)

    def read_async(self, offset: int, destination: Any, stream: Any = None,
                   options: CopyOptions | None = None) -> Ticket:
        """As read, on a stream. The ticket reports failures of the file, and keeps the array alive."""
        return self._copy_async(destination, offset, True, stream, options)

    def write_async(self, source: Any, offset: int, stream: Any = None,
                    options: CopyOptions | None = None) -> Ticket:
        """As write, on a stream."""
        return self._copy_async(source, offset, False, stream, options)

    def read_many(self, parts: Any, stream: Any = None, options: CopyOptions | None = None) -> Ticket:
        """Fills many arrays on one device, such as all tensors of a model, as one copy. `parts` are (offset, array). The
        arrays are contiguous. The ticket keeps them alive. If the file fails, wait() raises an Error with the index of the
        failed part."""
        with Held() as held:
            handle = self._open_handle()
            offsets = []
            for offset, array in parts:
                offsets.append(whole(offset, "offset", 0, (1 << 63) - 1))
                held.append(view(array))
                if not held[-1].is_tight:
                    raise ArgumentError(f"array {len(held) - 1} is not contiguous", side="destination", field="shape",
                                        item="piece", index=len(held) - 1)
                if held[-1].readonly:
                    raise ArgumentError(f"array {len(held) - 1} is read-only", side="destination", field="address",
                                        item="piece", index=len(held) - 1)
            pieces = (native.ferry_piece * max(len(held), 1))()
            for piece, offset, array in zip(pieces, offsets, held):
                piece.destination, piece.source, piece.size = array.address, offset, array.nbytes
            listed = native.ferry_piece_list()
            self._instance.library.ferry_piece_list_set(byref(listed), pieces, len(held))
            listed.source_file = int(handle)
            size = sum([array.nbytes for array in held])
            return self._instance._with_ticket("ferry_copy_pieces_async", byref(listed), address_of(options),
                                               handle_of(stream), owners=(*held, handle), size=size)

    def close(self) -> None:
        """Closes the file. Copies in flight continue."""
        self._handle = None
        self._instance.disown(self)

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, where: TracebackType | None) -> None:
        self.close()
