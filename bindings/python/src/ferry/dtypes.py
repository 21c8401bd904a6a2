"""Types of elements, under the names that NumPy and PyTorch share, such as "float32"."""
from __future__ import annotations

import ctypes
import re
import sys
from typing import Any, Final, NoReturn

from .errors import ArgumentError

_KINDS: Final = {"i": "int", "u": "uint", "f": "float", "c": "complex"}  # the first letters
_NUMBERS: Final = re.compile("u?int(?:8|16|32|64)|float(?:16|32|64|96|128)|complex(?:64|128|192|256)")
_LETTERS: Final = {
    **{letter: ("int", ctypes.sizeof(kind)) for letter, kind in zip("bhilqn", (
        ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long, ctypes.c_longlong, ctypes.c_ssize_t))},
    **{letter: ("uint", ctypes.sizeof(kind)) for letter, kind in zip("BHILQNP", (
        ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long, ctypes.c_longlong, ctypes.c_size_t,
        ctypes.c_void_p))},
    "e": ("float", 2), "f": ("float", 4), "d": ("float", 8), "g": ("float", ctypes.sizeof(ctypes.c_longdouble)),
    "?": ("bool", 1)}
# DLPack's codes of floating-point types whose bits are given.
_DLPACK_FLOATS: Final = {7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
                         11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
                         15: "float6_e2m3fn", 16: "float6_e3m2fn", 17: "float4_e2m1fn"}
_DLPACK_KINDS: Final = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
# The bytes of one element in NumPy and PyTorch. Elements below a byte have one byte there. DLPack packs them.
_SIZES: Final = {"bool": 1, "bfloat16": 2, "complex32": 4, "bcomplex32": 4, "float4_e2m1fn_x2": 1,
                 **dict.fromkeys(("int1", "uint1", "int2", "uint2", "int4", "uint4"), 1),
                 **dict.fromkeys(_DLPACK_FLOATS.values(), 1)}


def _refuse(text: str) -> NoReturn:
    raise ArgumentError(text, field="dtype")


def _refuse_references(what: Any) -> NoReturn:
    _refuse(f"elements of type {what} refer to other memory, such as Python objects: their bytes cannot be copied")


def of_typestr(typestr: Any) -> tuple[str, int]:
    """("float32", 4) of "<f4", as array interfaces have it. What has no name stays as it is, such as "V12"."""
    found = re.fullmatch(r"([<>|=]?)([a-zA-Z])(\d*)(\[[^\]]*\])?", typestr) if isinstance(typestr, str) else None
    if found is None or found[2] not in "biufcmMSUV" and found[2] != "O":
        _refuse(f"elements of type {typestr!r} cannot be copied: the type is not known")
    order, kind, size = found[1], found[2], int(found[3] or 1)
    if kind == "O":
        _refuse_references(repr(typestr))
    if kind == "b":
        return "bool", size
    if kind in "UMm":
        return ("<" if order == "=" else order) + typestr.lstrip("<>|="), 4 * size if kind == "U" else size
    if kind == "f" and size == 1:  # as ml_dtypes has it
        return "float8_e5m2", 1
    name = f"{_KINDS[kind]}{8 * size}" if kind in _KINDS else f"{kind}{size}"
    return (">" + name if order == ">" and size > 1 and kind in _KINDS else name), size


def of_numpy(dtype: Any) -> tuple[str, int]:
    """The name and size of a numpy.dtype."""
    if dtype.hasobject:
        _refuse_references(dtype)
    if dtype.isbuiltin == 2:  # a type that another package has registered
        known = dtype.name in _SIZES and _SIZES[dtype.name] == dtype.itemsize
        return (dtype.name if known else f"V{dtype.itemsize}"), int(dtype.itemsize)
    return of_typestr(dtype.str)


def of_interface(interface: dict[str, Any], owner: Any) -> tuple[str, int]:
    """The name and size of the elements of an array interface."""
    numpy = sys.modules.get("numpy")
    dtype = getattr(owner, "dtype", None)
    if numpy is not None and isinstance(dtype, numpy.dtype):
        return of_numpy(dtype)
    if _has_references(interface.get("descr")):
        _refuse_references(interface["descr"])
    return of_typestr(interface.get("typestr"))


def _has_references(descr: Any) -> bool:
    """Whether a field of an array interface's descr is a Python object."""
    if isinstance(descr, str):
        return descr.lstrip("<>|=")[:1] == "O"
    return isinstance(descr, (list, tuple)) and any(
        _has_references(field[1]) for field in descr if isinstance(field, (list, tuple)) and len(field) > 1)


def of_format(text: str, size: int) -> str:
    """The name of a format of the buffer protocol, whose elements have `size` bytes."""
    order, letter = (text[0], text[1:]) if text[:1] in tuple("@=<>!") else ("@", text)
    if letter == "?":
        return "bool"
    if letter in ("Zf", "Zd", "Zg"):
        return f"complex{8 * size}"
    if letter in _LETTERS and size in (1, 2, 4, 8, 12, 16) and not (letter == "B" and size != 1):
        name = f"{_LETTERS[letter][0]}{8 * size}"
        return ">" + name if order in ">!" and size > 1 else name
    # Objects, pointers and functions, outside the names of fields.
    if re.search(r"[OXZz&:]", re.sub(r"Z[fdg]", "", re.sub(r":[^:]*:", "", text))):
        _refuse_references(repr(text))
    return f"V{size}"


def refuse_ctypes_references(exporter: Any) -> None:
    """Refuses objects of ctypes that have references. Their formats do not show this in every case."""
    while isinstance(exporter, memoryview):
        exporter = exporter.obj
    kind = type(exporter)
    if isinstance(exporter, _CTYPES) and _has_ctypes_references(kind):
        _refuse_references(kind.__name__)


_CTYPES: Final = (ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData, ctypes._Pointer,
                  ctypes.CFUNCTYPE(None).__bases__[0])


def _has_ctypes_references(kind: Any) -> bool:
    if issubclass(kind, ctypes.Array):
        return _has_ctypes_references(kind._type_)
    if issubclass(kind, ctypes._SimpleCData):
        return kind._type_ in "OzZX"
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return any(_has_ctypes_references(field[1]) for base in kind.__mro__ for field in vars(base).get("_fields_", ()))
    return True


def of_dlpack(code: int, bits: int, lanes: int, is_padded: bool) -> tuple[str, int, int]:
    """The name, the bytes and the bits of one element: 0 bytes if elements below a byte are packed."""
    if code in _DLPACK_FLOATS:
        name = _DLPACK_FLOATS[code]
        is_known = bits == int(name[5])
    else:
        name = "bool" if (code, bits) == (6, 8) else f"{_DLPACK_KINDS.get(code)}{bits}"
        is_known = code in _DLPACK_KINDS and bits > 0
    if not is_known or not lanes:
        _refuse(f"elements of DLPack's type code {code} with {bits} bits and {lanes} lanes cannot be copied: the type "
                "is not known")
    if bits < 8 and lanes == 1:
        return (name, 1, bits) if is_padded else (f"packed {name}", 0, bits)
    if bits * lanes % 8 or bits < 8 and is_padded:
        _refuse(f"elements of {lanes} x {bits} bits ({name}) cannot be copied: they do not fill whole bytes")
    size = bits * lanes // 8
    return (name if lanes == 1 else f"V{size}"), size, 8 * size


def parse(dtype: Any) -> tuple[str, int]:
    """("float32", 4) of "float32", "<f4", "f4", numpy.float32, a NumPy dtype or a PyTorch dtype."""
    name, size = _parse(dtype)
    if size < 1:
        _refuse(f"elements of type {dtype!r} have no bytes")
    return name, size


def _parse(dtype: Any) -> tuple[str, int]:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(dtype, type) and issubclass(dtype, numpy.generic):
        dtype = numpy.dtype(dtype)
    if numpy is not None and isinstance(dtype, numpy.dtype):
        return of_numpy(dtype)
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
    if text in _SIZES:
        return text, _SIZES[text]
    number = re.fullmatch(f"(>?)({_NUMBERS.pattern})", text)
    if number:
        size = int(re.sub(r"\D", "", text)) // 8
        return number[1] * (size > 1) + number[2], size
    if re.fullmatch(r"[<>|=]?[a-zA-Z]\d+(\[[^\]]*\])?", text):
        return of_typestr(text if text[0] in "<>|=" else ("|" if text[0] in "SV" else "<") + text)
    if text in _LETTERS:
        return of_format(text, _LETTERS[text][1]), _LETTERS[text][1]
    if numpy is not None and dtype is not None:  # "i4, f8", float and others
        try:
            return of_numpy(numpy.dtype(dtype))
        except TypeError:
            pass
    raise TypeError(f"{dtype!r} is not a type of elements")


def typestr(name: str, size: int) -> str:
    """The reverse of of_typestr, for array interfaces."""
    if name == "bool":
        return "|b1"
    if re.fullmatch(r"[<>|].*", name) and not _NUMBERS.fullmatch(name[1:]):
        return name
    if not _NUMBERS.fullmatch(name.lstrip(">")):
        return f"|{name}" if re.fullmatch(r"[SV]\d+", name) else f"|V{size}"
    return f"{'>' if name[0] == '>' else '|' if size == 1 else '<'}{name.lstrip('>')[0]}{size}"


def match(one: str | None, other: str | None) -> bool:
    """Whether elements may be copied to each other; None and "V" are bytes of any meaning, such as bytearray's."""
    return one == other or one is None or other is None or one[0] == "V" or other[0] == "V"
