#!/usr/bin/env python3
"""Writes src/ferry/native.py from include/ferry/ferry.json: generate.py [--check]

With --check nothing is written, and the script fails if the file is not what it would write.
"""
import json
import re
import sys
import textwrap
from pathlib import Path

here = Path(__file__).resolve().parent
description = json.loads((here.parent.parent / "include/ferry/ferry.json").read_text())
TYPES = {"int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64",
         "uint8_t": "c_uint8", "char": "c_char", "float": "c_float", "void": "None"}
STRUCTS = {one["name"] for one in description["structs"]}


def ctype(kind):
    if kind == "const char *":
        return "c_char_p"
    return "c_void_p" if "*" in kind else TYPES.get(kind, kind)


def annotation(kind, count):
    if count:
        return "bytes" if kind == "char" else "Any"
    if "*" in kind:
        return "int | None"
    return kind if kind in STRUCTS else "int"


def callbacks():
    for one in description["callbacks"]:
        kinds = ", ".join(["None" if one["returns"] == "void" else ctype(one["returns"])] +
                          [ctype(parameter["type"]) for parameter in one["parameters"]])
        yield f"{one['name'].replace('.', '_')} = CFUNCTYPE({kinds})"


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
        fields.append(f'        ("{field["name"]}", {kind}{" * " + str(field["count"]) if "count" in field else ""}),')
    for field in one["fields"]:
        kind = "Any" if "callback" in field else annotation(field["type"], field.get("count"))
        yield f"    {field['name']}: {kind}"
    yield "    _fields_ = [\n" + "\n".join(fields) + "\n    ]"


def written():
    yield '"""ferry\'s C interface, one to one. Made by generate.py from ferry.json: do not edit."""'
    yield "from __future__ import annotations\n"
    yield ("from ctypes import (CDLL, CFUNCTYPE, Structure, c_char, c_char_p, c_float, c_int32, c_int64, c_uint8, "
           "c_uint32,\n                    c_uint64, c_void_p)")
    yield "from typing import Any, Final\n"
    yield f'VERSION: Final = "{description["version"]}"'
    for group in description["constants"]:
        yield ""
        for value in group["values"]:
            number = hex(value["value"]) if value["type"] == "uint32_t" else value["value"]
            yield f"{value['name']}: Final = {number}"
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


text = "\n".join(written()) + "\n"
file = here / "src/ferry/native.py"
if "--check" not in sys.argv:
    file.write_text(text)
elif not file.exists() or file.read_text() != text:
    sys.exit("src/ferry/native.py is not current: run bindings/python/generate.py")
