#!/usr/bin/env python3
"""Makes ferry.zig from ferry.json: generate.py [--check], which writes nothing and fails if the file is not current."""
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIMPLE = {"char": "u8", "float": "f32", "size_t": "usize", "void": "anyopaque",
          "uint8_t": "u8", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64"}


def base(text):
    text = text.replace("struct ", "").strip()
    return SIMPLE.get(text, text)


def comment_after(text):
    return f" // {' '.join(text.split())}" if text else ""


def callback(described):
    parameters = ", ".join(f"{one['name']}: {pointer(one['type'], True)}" for one in described["parameters"])
    return f"?*const fn ({parameters}) callconv(.c) {pointer(described['returns'], True)}"


def pointer(text, nullable, is_array=False):
    """The Zig type of a C type. A char * is text that ends with zero unless it is an array."""
    if "(*)" in text:  # a function of the program that a callback is given
        result, parameters = re.fullmatch(r"(.*?) ?\(\*\)\((.*)\)", text).groups()
        parameters = ", ".join(pointer(one, True) for one in parameters.split(", "))
        return f"?*const fn ({parameters}) callconv(.c) {pointer(result, True)}"
    if not text.endswith("*"):
        return "void" if text == "void" else base(text)
    target = text[:-1].strip()
    if target.endswith("*"):
        return f"{'?' if nullable else ''}*{pointer(target, True)}"
    constant = "const " if target.startswith("const ") else ""
    target = target.removeprefix("const ")
    many = "[*:0]" if target == "char" and not is_array else "[*]" if is_array else "*"
    return f"{'?' if nullable else ''}{many}{constant}{base(target)}"


def parameter(one, callbacks):
    if "callback" in one:
        return f"{one['name']}: {callback(callbacks[one['callback']])}"
    target = one["type"].removeprefix("const ").removesuffix("*").strip()
    # A const number is the first of an array, which has a fixed size or is as long as the batch.
    is_array = "count" in one or one["type"].startswith("const uint")
    nullable = one.get("nullable", False) or target in ("void",)
    name = f'@"{one["name"]}"' if one["name"] == "error" else one["name"]
    return f"{name}: {pointer(one['type'], nullable, is_array)}"


def field(one, struct, callbacks, structs):
    name = f'@"{one["name"]}"' if one["name"] == "error" else one["name"]
    if "callback" in one:
        kind, default = callback(callbacks[one["callback"]]), "null"
    elif "count" in one:
        kind, default = f"[{one['count']}]{base(one['type'])}", "@splat(0)"
    elif one["type"].endswith("*"):
        kind, default = pointer(one["type"], True, one["type"].startswith("const int")), "null"
    else:
        kind = base(one["type"])
        default = ".{}" if one["type"] in structs else "0"
    if one["name"] == "struct_size":
        default = f"@sizeOf({struct})"
    return f"    {name}: {kind} = {default},{comment_after(one['comment'])}"


def zig(d):
    callbacks = {one["name"]: one for one in d["callbacks"]}
    structs = {one["name"] for one in d["structs"]}
    lines = ["//! The C interface of ferry. Made from ferry.json by generate.py: do not edit. Link with libferry and libc.",
             ""]
    for group in d["constants"]:
        for one in group["values"]:
            lines.append(f"pub const {one['name']}: {base(one['type'])} = {one['value']};"
                         f"{comment_after(one['comment'])}")
        lines.append("")
    for name in [*d["opaque"], *(one["type"].removeprefix("struct ").removesuffix(" *") for one in d["handles"])]:
        lines.append(f"pub const {name} = opaque {{}};")
    for struct in d["structs"]:
        lines += ["", *(f"/// {line}".rstrip() for line in struct["comment"].split("\n")),
                  f"pub const {struct['name']} = extern struct {{",
                  *(field(one, struct["name"], callbacks, structs) for one in struct["fields"]), "};"]
    for function in d["functions"]:
        parameters = ", ".join(parameter(one, callbacks) for one in function["parameters"])
        returns = pointer(function["returns"], function["name"] in
                          ("ferry_instance_get_missing_entry_point", "ferry_instance_get_proc"))
        lines += ["", *(f"/// {line}".rstrip() for line in function["comment"].split("\n")),
                  f"pub extern fn {function['name']}({parameters}) {returns};"]
    return "\n".join(lines) + "\n"


def main():
    made = zig(json.loads((HERE / "../../include/ferry/ferry.json").read_text()))
    file = HERE / "ferry.zig"
    if sys.argv[1:] != ["--check"]:
        file.write_text(made)
    elif not file.exists() or file.read_text() != made:
        sys.exit("ferry.zig is not current: run bindings/zig/generate.py")


main()
