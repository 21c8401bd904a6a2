#!/usr/bin/env python3
"""Makes the native part of the C# binding from ferry.json: generate.py [--check]

Writes FerryNative.cs beside this script. With --check nothing is written, and the script fails if the file is not
current. generate.py --facts FILE writes what the description says as a C# class for the tests: they compare it with
what the runtime makes of FerryNative.cs.
"""
import json
import re
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
DESCRIPTION = json.loads((HERE.parent.parent / "include/ferry/ferry.json").read_text(encoding="utf-8"))
OUTPUT = HERE / "FerryNative.cs"

# The hand-written part has a Place and a FerryOptions of its own.
STRUCT_NAMES = {"ferry_place": "NativePlace", "ferry_copy_desc": "NativeCopy", "ferry_fill_desc": "NativeFill",
                "ferry_options": "NativeOptions"}
ENUM_NAMES = {("FERRY_ERROR", "int32_t"): "Status", ("FERRY_STATUS", "uint32_t"): "StatusTraits",
              ("FERRY_KIND", "int32_t"): "PlaceKind", ("FERRY_STREAM", "int32_t"): "DefaultStream",
              ("FERRY_LOG", "int32_t"): "LogLevel", ("FERRY_MEMORY", "int32_t"): "MemoryKind",
              ("FERRY_FORMAT", "int32_t"): "ArrayFormat", ("FERRY_IPC", "int32_t"): "IpcKind",
              ("FERRY_HANDLE", "uint32_t"): "HandleTypes", ("FERRY_EXTERNAL", "int32_t"): "ExternalMemoryType",
              ("FERRY_SEMAPHORE", "int32_t"): "ExternalSemaphoreType"}
NO_ENUM = {"FERRY_VERSION"}  # numbers, not choices
SCALARS = {"void": "void", "char": "byte", "uint8_t": "byte", "int32_t": "int", "uint32_t": "uint", "int64_t": "long",
           "uint64_t": "ulong", "float": "float"}
KEYWORDS = {"event", "params", "checked", "object", "string", "in", "out", "ref", "base", "lock", "fixed"}
LABELS = {"thread_safety": ("Thread-safety", "safe from any thread."), "blocking": ("Blocking", "never."),
          "ownership": ("Ownership", "structs, arrays and strings"), "errors": ("Errors", "the common errors.")}


def pascal(name):
    return "".join(word[:1].upper() + word[1:].lower() for word in name.split("_"))


def struct_name(name):
    return STRUCT_NAMES.get(name, pascal(name.removeprefix("ferry_")))


def parameter_name(name):
    return f"@{name}" if name in KEYWORDS else name


def comment(text, indent="    ", tag="summary"):
    """An XML comment, on one line where it fits."""
    text = escape(" ".join(text.split()))
    if not text:
        return []
    line = f"{indent}/// <{tag}>{text}</{tag}>"
    if len(line) <= 120:
        return [line]
    return [f"{indent}/// <{tag}>", *textwrap.wrap(text, 120, initial_indent=f"{indent}/// ",
                                                   subsequent_indent=f"{indent}/// ", break_long_words=False,
                                                   break_on_hyphens=False), f"{indent}/// </{tag}>"]


# ---- Constants: an enum for each group and type, but numbers that stand alone

def split_constants():
    """[(enum name, C# type, group, values)] and the plain constants."""
    enums, plain = [], []
    success = next(one for group in DESCRIPTION["constants"] if group["group"] == "FERRY" for one in group["values"])
    for group in DESCRIPTION["constants"]:
        for kind in ("int32_t", "uint32_t"):
            values = [one for one in group["values"] if one["type"] == kind]
            if not values or values == [success]:
                continue
            if group["group"] in NO_ENUM or kind == "int32_t" and len(values) == 1:
                plain += values
                continue
            if group["group"] == "FERRY_ERROR":
                values = [success, *values]
            name = ENUM_NAMES.get((group["group"], kind),
                                  pascal(group["group"].removeprefix("FERRY_")) + ("Flags" if kind == "uint32_t" else ""))
            enums.append((name, SCALARS[kind], group["group"], values))
    return enums, plain


ENUMS, PLAIN = split_constants()
ENUM_OF = {(group, kind): name for name, kind, group, _ in ENUMS}


def member(name, group):
    return pascal(name.removeprefix(f"{group}_").removeprefix("FERRY_"))


def write_constants():
    yield "    /// <summary>Constants that belong to no enum.</summary>"
    yield "    public static class Constants\n    {"
    for one in PLAIN:
        yield from comment(one["comment"], " " * 8)
        yield f"        public const {SCALARS[one['type']]} {member(one['name'], 'FERRY')} = {one['value']};"
    yield "    }\n"
    for name, kind, group, values in ENUMS:
        yield f"    /// <summary>{group}_*</summary>"
        yield f"    {'[Flags] ' if kind == 'uint' else ''}public enum {name} : {kind}\n    {{"
        if kind == "uint":
            yield "        None = 0,"
        for one in values:
            yield from comment(one["comment"], " " * 8)
            value = f"0x{one['value']:x}" if kind == "uint" else one["value"]
            yield f"        {member(one['name'], group)} = {value},"
        yield "    }\n"


# ---- Types

CALLBACKS = {one["name"]: one for one in DESCRIPTION["callbacks"]}


def delegate_name(name):
    owner, field = name.split(".")
    return pascal(owner.removeprefix("ferry_")) + pascal(field)


def csharp_type(kind):
    """Blittable: an address is a pointer, a handle and a function IntPtr."""
    if "(*)" in kind:
        return "IntPtr"
    base = kind.replace("const ", "").replace("struct ", "")
    stars = base.count("*")
    base = base.replace("*", "").strip()
    if base.endswith("_st") or base in DESCRIPTION["opaque"]:
        return "IntPtr" + "*" * (stars - 1)
    if base == "void" and stars == 1:
        return "IntPtr"
    return (SCALARS.get(base) or struct_name(base)) + "*" * stars if base != "void" else "IntPtr*"


def field_type(field):
    enum = ENUM_OF.get((field.get("constants"), SCALARS.get(field["type"])))
    return enum or csharp_type(field["type"])


def write_callbacks():
    for name, one in CALLBACKS.items():
        yield f"    /// <summary>{name}</summary>"
        yield "    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]"
        parameters = ", ".join(f"{csharp_type(p['type'])} {parameter_name(p['name'])}" for p in one["parameters"])
        yield f"    public unsafe delegate {csharp_type(one['returns']) if one['returns'] != 'void' else 'void'} " \
              f"{delegate_name(name)}({parameters});\n"


def write_structs():
    for one in DESCRIPTION["structs"]:
        yield from comment(f"{one['name']}: {one['comment']}")
        yield "    [StructLayout(LayoutKind.Sequential)]"
        yield f"    public unsafe partial struct {struct_name(one['name'])}\n    {{"
        yield f"        public const uint SizeOf = {one['size']};"
        for field in one["fields"]:
            text = field["comment"]
            if "callback" in field:
                text = f"{text} A function pointer: {delegate_name(field['callback'])}."
            yield from comment(text, " " * 8)
            name = pascal(field["name"])
            if "count" in field:
                yield f"        public fixed {field_type(field)} {name}[{field['count']}];"
            else:
                yield f"        public {field_type(field)} {name};"
        yield "    }\n"


# ---- Functions

def write_functions():
    for one in DESCRIPTION["functions"]:
        yield from comment(one["comment"], " " * 8)
        labels = [f"{title}: {one[key]}" for key, (title, default) in LABELS.items() if not one[key].startswith(default)]
        yield from comment(" ".join(labels), " " * 8, "remarks")
        returned = "void" if one["returns"] == "void" else csharp_type(one["returns"])
        yield "        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]"
        # Lines break between parameters alone.
        given = ", ".join(f"{csharp_type(p['type'])}~{parameter_name(p['name'])}" for p in one["parameters"])
        yield from (line.replace("~", " ") for line in textwrap.wrap(
            f"public~static~extern~{returned}~{one['name']}({given});", 120, subsequent_indent=" " * 12,
            initial_indent=" " * 8, break_long_words=False))
        yield ""


def native():
    lines = [
        "// The C interface of ferry: its constants, structs, callbacks and functions. Made from ferry.json by generate.py:",
        "// do not edit. The functions have their names in C, so that ferry.h is their manual. All types are blittable.",
        "// For 64-bit processors.", "using System;", "using System.Runtime.InteropServices;", "",
        "namespace Ferry\n{", *write_constants(), *write_callbacks(), *write_structs(),
        "    /// <summary>The functions of libferry. Native.Library is in Ferry.cs.</summary>",
        "    public static unsafe partial class Native\n    {", *write_functions()]
    return "\n".join(lines).rstrip() + "\n    }\n}\n"


# ---- What the tests expect, from the description alone

def facts():
    yield "// Made by generate.py --facts for one run of the tests."
    yield "static class Facts\n{"
    yield "    public static readonly string[] Structs = {"
    for one in DESCRIPTION["structs"]:
        yield f'        "{struct_name(one["name"])} {one["size"]} ' + " ".join(
            f'{pascal(field["name"])}:{field["offset"]}:{field["size"]}' for field in one["fields"]) + '",'
    yield "    };\n    public static readonly string[] Functions = {"
    for one in DESCRIPTION["functions"]:
        yield f'        "{one["name"]} {len(one["parameters"])}",'
    yield "    };\n    public static readonly string[] Constants = {"
    for name, _, group, values in ENUMS:
        for one in values:
            yield f'        "{name} {member(one["name"], group)} {one["value"]}",'
    for one in PLAIN:
        yield f'        "Constants {member(one["name"], "FERRY")} {one["value"]}",'
    yield "    };\n    public static readonly string[] Callbacks = {"
    for name, one in CALLBACKS.items():
        yield f'        "{delegate_name(name)} {len(one["parameters"])}",'
    yield "    };\n}\n"


def main():
    if sys.argv[1:2] == ["--facts"]:
        known = sum(len(values) for _, _, _, values in ENUMS) + len(PLAIN)
        all_constants = sum(len(group["values"]) for group in DESCRIPTION["constants"])
        assert known == all_constants, f"{all_constants - known} constants are lost"
        Path(sys.argv[2]).write_text("\n".join(facts()), encoding="utf-8")
        return 0
    wanted = re.sub(r"[ \t]+$", "", native(), flags=re.M)
    if sys.argv[1:] == ["--check"]:
        if not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != wanted:
            print("FerryNative.cs is not current: run bindings/csharp/generate.py")
            return 1
        return 0
    OUTPUT.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
