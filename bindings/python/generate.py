#!/usr/bin/env python3
"""Writes the package's module native from the C headers: generate.py [FILE], by default src/ferry/native.py."""
import re
import sys
import textwrap
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent.parent / "tools"))
from describe import describe  # noqa: E402

description = describe()
TYPES = {"int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64",
         "uint8_t": "c_uint8", "char": "c_char", "float": "c_float", "void": "None"}
STRUCTS = {one["name"] for one in description["structs"]}
# The names of groups whose prefix says too little, or too much.
ENUMS = {"FERRY_ERROR": "Status", "FERRY_STATUS": "Traits", "FERRY_KIND": "PlaceKind", "FERRY_LOG": "LogLevel",
         "FERRY_MEMORY": "MemoryKind", "FERRY_IPC": "IpcKind", "FERRY_HANDLE": "HandleTypes",
         "FERRY_EXTERNAL": "ExternalType", "FERRY_EXTERNAL_DEDICATED": "ExternalFlags",
         "FERRY_STREAM": "StreamFlags"}


def ctype(kind):
    if kind == "const char *":
        return "c_char_p"
    return "c_void_p" if "*" in kind else TYPES.get(kind, kind)


def annotation(kind, count):
    if count:
        return "bytes" if kind == "char" else "Any"
    if kind == "const char *":
        return "bytes | None"
    if "*" in kind:
        return "int | None"
    return kind if kind in STRUCTS else "int"


def callbacks():
    for one in description["callbacks"]:
        kinds = ", ".join(["None" if one["returns"] == "void" else ctype(one["returns"])] +
                          [ctype(parameter["type"]) for parameter in one["parameters"]])
        yield f"{one['name'].replace('.', '_')} = CFUNCTYPE({kinds})"


def constants(group):
    """An enum with the group's constants, and each constant by its name in C; numbers without an enum."""
    def number(value):
        return hex(value["value"]) if value["type"] == "uint32_t" else value["value"]

    if group["kind"] == "number":
        yield ""
        for value in group["values"]:
            yield f"{value['name']}: Final = {number(value)}"
        return
    are_flags, prefix = group["kind"] == "flags", group["group"]
    name = ENUMS.get(prefix) or "".join(map(str.capitalize, prefix.split("_")[1:])) + ("Flags" if are_flags else "")
    members = []
    for value in group["values"]:
        # A group of one constant may have its name. A member's name begins with a letter.
        member = value["name"].split("_", 2)[2] if value["name"] == prefix else value["name"].removeprefix(prefix + "_")
        members.append((member.removeprefix("FERRY_"), value))
    yield f"\n\nclass {name}({'IntFlag' if are_flags else 'IntEnum'}):"
    yield f'    """{prefix if len(members) == 1 and members[0][1]["name"] == prefix else prefix + "_*"}"""\n'
    yield from (f"    {member} = {number(value)}" for member, value in members)
    yield "\n"
    yield from (f"{value['name']}: Final = {name}.{member}" for member, value in members)


def comment(text):
    first = re.split(r"(?<=\.)\s|\n\n", text.strip())[0].replace('"', "'").replace("\n", " ") if text else ""
    return textwrap.fill(first, 112).replace("\n", "\n    ")


def struct(one):
    yield f"\n\nclass {one['name']}(Structure):"
    if one["comment"]:
        yield f'    """{comment(one["comment"])}"""\n'
    fields = []
    for field in one["fields"]:
        kind = ctype(field["type"])
        if "callback" in field:
            kind = field["callback"].replace(".", "_")
        count = field.get("count") if isinstance(field.get("count"), int) else None
        fields.append(f'        ("{field["name"]}", {kind}{f" * {count}" if count else ""}),')
        kind = "Any" if "callback" in field else annotation(field["type"], count)
        yield f"    {field['name']}: {kind}"
    yield "    _fields_ = [\n" + "\n".join(fields) + "\n    ]"


def written():
    yield '"""ferry\'s C interface, one to one. Made by generate.py from the C headers: do not edit."""'
    yield "from __future__ import annotations\n"
    yield ("from ctypes import (CDLL, CFUNCTYPE, Structure, c_char, c_char_p, c_float, c_int32, c_int64, c_uint8, "
           "c_uint32,\n                    c_uint64, c_void_p)")
    yield "from enum import IntEnum, IntFlag"
    yield "from typing import Any, Final\n"
    yield f'VERSION: Final = "{description["version"]}"'
    for group in description["constants"]:
        yield from constants(group)
    yield ""
    yield from callbacks()
    for one in description["structs"]:
        yield from struct(one)
    yield "\n\n# Name: what it returns, and its parameters. Addresses of objects and structs are numbers or byref()."
    yield "FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {"
    for function in description["functions"]:
        kinds = [parameter["callback"].replace(".", "_") if "callback" in parameter else ctype(parameter["type"])
                 for parameter in function["parameters"]]
        yield f'    "{function["name"]}": ({ctype(function["returns"])}, [{", ".join(kinds)}]),'
    yield '''}


def load(file: str) -> CDLL:
    """Loads the library and declares its functions. A call releases the interpreter's lock."""
    library = CDLL(file)
    for name, (returned, parameters) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = returned
        function.argtypes = parameters
    return library'''


output = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "src/ferry/native.py"
output.write_text("\n".join(written()) + "\n", encoding="utf-8")
