"""Types of elements, under the names that NumPy and PyTorch share, such as "float32"."""
from __future__ import annotations

import re
import struct
from typing import Any, Final

_KINDS: Final = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_LETTERS: Final = {**dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQNP", "uint"), **dict.fromkeys("efdg", "float")}
# DLPack's codes that need no number of bits.
_DLPACK_KINDS: Final = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_SIZES: Final = {"bool": 1, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
                 "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1}


def of_typestr(typestr: str) -> tuple[str, int]:
    """("float32", 4) of "<f4", as array interfaces have it. What has no name stays as it is, such as "V12"."""
    order, kind, size = typestr[0], typestr[1], int(typestr[2:].partition("[")[0] or 1)  # "<M8[s]" has a unit too
    if kind == "b":
        return "bool", size
    if kind in "UMm":
        size = 4 * size if kind == "U" else size
        return typestr, size
    name = f"{_KINDS[kind]}{8 * size}" if kind in _KINDS else typestr[1:]
    return (">" + name if order == ">" and size > 1 else name), size


def of_format(text: str, size: int) -> str:
    """The name of a format of the buffer protocol, whose elements have `size` bytes."""
    order, letter = (text[0], text[1:]) if text[:1] in tuple("@=<>!") else ("@", text)
    if letter == "?":
        return "bool"
    if letter in ("Zf", "Zd"):
        return f"complex{8 * size}"
    if letter in _LETTERS:
        name = f"{_LETTERS[letter]}{8 * size}"
        return ">" + name if order in ">!" and size > 1 else name
    return f"V{size}"


def of_dlpack(code: int, bits: int, lanes: int) -> tuple[str, int]:
    size = bits * lanes // 8
    if lanes != 1 or bits % 8:
        return f"V{size}", size
    if code == 6:
        return "bool", size
    return (f"{_DLPACK_KINDS[code]}{bits}" if code in _DLPACK_KINDS else f"V{size}"), size


def parse(dtype: Any) -> tuple[str, int]:
    """("float32", 4) of "float32", "<f4", "f4", numpy.float32, a NumPy dtype or a PyTorch dtype."""
    text = getattr(dtype, "str", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
    if text in _SIZES:
        return text, _SIZES[text]
    named = re.fullmatch(r"(u?int|float|complex|bfloat)(8|16|32|64|128|256)", text)
    if named:
        return text, int(named[2]) // 8
    if re.fullmatch(r"[<>|=]?[a-zA-Z]\d+", text):
        return of_typestr(text if text[0] in "<>|=" else "<" + text)
    if text in _LETTERS or text == "?":
        size = struct.calcsize(text)
        return of_format(text, size), size
    raise TypeError(f"{dtype!r} is no type of elements")


def typestr(name: str, size: int) -> str:
    """The reverse of of_typestr, for array interfaces."""
    if name == "bool":
        return "|b1"
    kind = re.fullmatch(r"(>?)(u?int|float|complex)\d+", name)
    if not kind:
        return name if name[0] in "<>|" else f"|V{size}"
    letter = {"int": "i", "uint": "u", "float": "f", "complex": "c"}[kind[2]]
    return f"{kind[1] or ('|' if size == 1 else '<')}{letter}{size}"


def match(one: str | None, other: str | None) -> bool:
    """Whether elements may be copied to each other; None and "V" are bytes of any meaning, such as bytearray's."""
    return one == other or one is None or other is None or one[0] == "V" or other[0] == "V"
