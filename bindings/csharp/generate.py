#!/usr/bin/env python3
"""Makes the native part of the C# binding from the C headers: generate.py [FILE]

Without FILE, writes FerryNative.cs beside this script. generate.py --facts FILE writes the description of the headers
as a C# class for the tests, which compare it with the types that the runtime finds in FerryNative.cs.
"""
import re
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from describe import describe  # noqa: E402

DESCRIPTION = describe()

# The hand-written part has a Place and a FerryOptions of its own.
STRUCT_NAMES = {"ferry_place": "NativePlace", "ferry_copy_desc": "NativeCopy", "ferry_fill_desc": "NativeFill",
                "ferry_options": "NativeOptions"}
ENUM_NAMES = {"FERRY_ERROR": "Status", "FERRY_STATUS": "StatusTraits", "FERRY_KIND": "PlaceKind",
              "FERRY_LOG": "LogLevel", "FERRY_MEMORY": "MemoryKind", "FERRY_FORMAT": "ArrayFormat",
              "FERRY_IPC": "IpcKind", "FERRY_HANDLE": "HandleTypes", "FERRY_EXTERNAL": "ExternalMemoryType",
              "FERRY_EXTERNAL_DEDICATED": "ExternalFlags", "FERRY_SEMAPHORE": "ExternalSemaphoreType",
              "FERRY_STREAM": "StreamFlags"}
SCALARS = {"void": "void", "char": "byte", "uint8_t": "byte", "int32_t": "int", "uint32_t": "uint", "int64_t": "long",
           "uint64_t": "ulong", "float": "float"}
KEYWORDS = {"event", "params", "checked", "object", "string", "in", "out", "ref", "base", "lock", "fixed"}
LABELS = {"values": ("Values", "any number;"), "thread_safety": ("Thread-safety", "safe from any thread."), "blocking_text": ("Blocking", "none."),
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


# ---- Constants: an enum for each group, but numbers that stand alone

def enum_name(group):
    return ENUM_NAMES.get(group["group"], pascal(group["group"].removeprefix("FERRY_")) +
                          ("Flags" if group["kind"] == "flags" else ""))


ENUMS = {one["group"]: (enum_name(one), one) for one in DESCRIPTION["constants"] if one["kind"] != "number"}
PLAIN = [value for one in DESCRIPTION["constants"] if one["kind"] == "number" for value in one["values"]]


def member(name, group):
    """Without the group's prefix; of a group that is named by its one constant, the words after the first."""
    return pascal(name.split("_", 2)[2] if name == group else name.removeprefix(f"{group}_").removeprefix("FERRY_"))


def write_constants():
    yield "    /// <summary>Constants that belong to no enum.</summary>"
    yield "    public static class Constants\n    {"
    for one in PLAIN:
        yield from comment(one["comment"], " " * 8)
        yield f"        public const {SCALARS[one['type']]} {member(one['name'], 'FERRY')} = {one['value']};"
    yield "    }\n"
    for group, (name, one) in ENUMS.items():
        are_flags = one["kind"] == "flags"
        whole = group if one["values"][0]["name"] == group else f"{group}_*"
        yield f"    /// <summary>{whole}</summary>"
        yield f"    {'[Flags] ' if are_flags else ''}public enum {name} : {SCALARS[one['type']]}\n    {{"
        if are_flags:
            yield "        None = 0,"
        for value in one["values"]:
            yield from comment(value["comment"], " " * 8)
            number = f"0x{value['value']:x}" if are_flags else value["value"]
            yield f"        {member(value['name'], group)} = {number},"
        yield "    }\n"


# ---- Types

CALLBACKS = {one["name"]: one for one in DESCRIPTION["callbacks"]}
STRUCTS = {one["name"] for one in DESCRIPTION["structs"]}


def delegate_name(name):
    return "".join(pascal(part.removeprefix("ferry_")) for part in name.split("."))


def csharp_type(kind):
    """Blittable: an address is a pointer, a handle and a function IntPtr."""
    if "(*)" in kind:
        return "IntPtr"
    base = kind.replace("const ", "").replace("struct ", "")
    stars = base.count("*")
    base = base.replace("*", "").strip()
    if base.endswith("_st") or base in DESCRIPTION["opaque"]:
        return "IntPtr" + "*" * (stars - 1)
    if base == "void":
        return "IntPtr" + "*" * (stars - 1) if stars else "void"
    return (SCALARS.get(base) or struct_name(base)) + "*" * stars


def typed(one):
    """The type of a field or a parameter: an enum if it takes the constants of a group."""
    if one.get("is") == "bits" or one.get("constants") not in ENUMS:
        return csharp_type(one["type"])
    return ENUMS[one["constants"]][0] + "*" * one["type"].count("*")


def returned_type(function):
    return typed({"type": function["returns"], "constants": function.get("returns_constants")})


def write_callbacks():
    for name, one in CALLBACKS.items():
        yield f"    /// <summary>{name}</summary>"
        yield "    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]"
        parameters = ", ".join(f"{typed(p)} {parameter_name(p['name'])}" for p in one["parameters"])
        yield f"    public unsafe delegate {returned_type(one)} {delegate_name(name)}({parameters});\n"


def is_array_of_structs(field):
    """C# has no fixed arrays of structs, so each element is a field."""
    return isinstance(field.get("count"), int) and field["type"] in STRUCTS


def element_names(field):
    return [f"{pascal(field['name'])}{i}" for i in range(field["count"])]


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
            if is_array_of_structs(field):
                yield f"        public {typed(field)} {', '.join(element_names(field))};"
            elif isinstance(field.get("count"), int):
                yield f"        public fixed {typed(field)} {name}[{field['count']}];"
            else:
                yield f"        public {typed(field)} {name};"
        yield "    }\n"


# ---- Functions

def write_functions():
    for one in DESCRIPTION["functions"]:
        yield from comment(one["comment"], " " * 8)
        labels = [f"{title}: {one[key]}" for key, (title, default) in LABELS.items() if not one[key].startswith(default)]
        yield from comment(" ".join(labels), " " * 8, "remarks")
        yield "        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]"
        # Lines break between parameters alone.
        given = ", ".join(f"{typed(p)}~{parameter_name(p['name'])}" for p in one["parameters"])
        yield from (line.replace("~", " ") for line in textwrap.wrap(
            f"public~static~extern~{returned_type(one)}~{one['name']}({given});", 120, subsequent_indent=" " * 12,
            initial_indent=" " * 8, break_long_words=False))
        yield ""


def native():
    lines = [
        "// The C interface of ferry: its constants, structs, callbacks and functions. Made from the C headers by generate.py:",
        "// do not edit. The functions have their names in C, so that the headers are their manual. All types are blittable.",
        "// For 64-bit processors.", "using System;", "using System.Runtime.InteropServices;", "",
        "namespace Ferry\n{", *write_constants(), *write_callbacks(), *write_structs(),
        "    /// <summary>The functions of libferry. Native.Library is in Ferry.cs.</summary>",
        "    public static unsafe partial class Native\n    {", *write_functions()]
    return "\n".join(lines).rstrip() + "\n    }\n}\n"


# ---- What the tests expect, from the description alone

def field_facts(field):
    """The name, offset and size of each field of C#."""
    names = element_names(field) if is_array_of_structs(field) else [pascal(field["name"])]
    size = field["size"] // len(names)
    return [f"{name}:{field['offset'] + i * size}:{size}" for i, name in enumerate(names)]


def facts():
    yield "// Made by generate.py --facts for one run of the tests."
    yield "static class Facts\n{"
    yield "    public static readonly string[] Structs = {"
    for one in DESCRIPTION["structs"]:
        fields = [fact for field in one["fields"] for fact in field_facts(field)]
        yield f'        "{struct_name(one["name"])} {one["size"]} {" ".join(fields)}",'
    yield "    };\n    public static readonly string[] Functions = {"
    for one in DESCRIPTION["functions"]:
        yield f'        "{one["name"]} {len(one["parameters"])}",'
    yield "    };\n    public static readonly string[] Constants = {"
    for group, (name, described) in ENUMS.items():
        for one in described["values"]:
            yield f'        "{name} {member(one["name"], group)} {one["value"]}",'
    for one in PLAIN:
        yield f'        "Constants {member(one["name"], "FERRY")} {one["value"]}",'
    yield "    };\n    public static readonly string[] Callbacks = {"
    for name, one in CALLBACKS.items():
        yield f'        "{delegate_name(name)} {len(one["parameters"])}",'
    yield "    };\n}\n"


def main():
    if sys.argv[1:2] == ["--facts"]:
        known = sum(len(one["values"]) for _, one in ENUMS.values()) + len(PLAIN)
        all_constants = sum(len(group["values"]) for group in DESCRIPTION["constants"])
        assert known == all_constants, f"{all_constants - known} constants are lost"
        Path(sys.argv[2]).write_text("\n".join(facts()), encoding="utf-8")
        return
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "FerryNative.cs"
    output.write_text(re.sub(r"[ \t]+$", "", native(), flags=re.M), encoding="utf-8")


if __name__ == "__main__":
    main()
