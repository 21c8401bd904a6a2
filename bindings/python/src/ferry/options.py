"""Options: how a copy, a batch or a fill is made."""
from __future__ import annotations

from ctypes import addressof, sizeof
from dataclasses import dataclass

from . import native
from .handles import int32, uint32, whole


@dataclass(frozen=True)
class CopyOptions:
    """The fields of ferry_copy_options. Each zero is the ordinary choice. A call without options uses the options of
    ferry.open(). The options of a call replace all of these."""
    route: int = native.FERRY_ROUTE_AUTO
    priority: int = native.FERRY_PRIORITY_NORMAL
    source_order: int = native.FERRY_SOURCE_ORDER_ANY
    flags: int = 0
    max_sms: int = 0
    tag: int = 0

    def __post_init__(self) -> None:
        made = native.ferry_copy_options(
            struct_size=sizeof(native.ferry_copy_options), flags=uint32(self.flags, "flags"),
            route=int32(self.route, "route"), priority=int32(self.priority, "priority"),
            source_order=int32(self.source_order, "source_order"), max_sms=uint32(self.max_sms, "max_sms"),
            tag=whole(self.tag, "tag", 0, (1 << 64) - 1))
        object.__setattr__(self, "_struct", made)

    @property
    def address(self) -> int:
        """The address of a ferry_copy_options, for the functions of the C interface."""
        return addressof(self._struct)  # type: ignore[attr-defined]


def address_of(options: CopyOptions | None) -> int | None:
    """The last argument of many calls, as the C interface takes it."""
    if options is None:
        return None
    if isinstance(options, CopyOptions):
        return options.address
    raise TypeError(f"options must be ferry.CopyOptions or None, not {type(options).__name__}")
