#!/usr/bin/env python3
"""Makes ferry.zig from the C headers: generate.py [FILE], by default beside this script."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from describe import describe  # noqa: E402

SIMPLE = {"char": "u8", "float": "f32", "size_t": "usize", "void": "anyopaque",
          "uint8_t": "u8", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64"}


def base(text):
    text = text.replace("struct ", "").strip()
    return SIMPLE.get(text, text)


def comment_after(text):
    return f" // {' '.join(text.split())}" if text else ""


def callback(described, callbacks):
    parameters = ", ".join(f"{one['name']}: {callback(callbacks[one['callback']], callbacks)}" if "callback" in one else
                           f"{one['name']}: {pointer(one, one['type'], True)}" for one in described["parameters"])
    return f"?*const fn ({parameters}) callconv(.c) {pointer({}, described['returns'], True)}"


def pointer(described, text, nullable):
    """The Zig type of a C type: `described` states whether it is one object, an array or text that ends with zero."""
    if not text.endswith("*"):
        return "void" if text == "void" else base(text)
    target = text[:-1].strip()
    if target.endswith("*const"):  # an array of pointers
        return f"{'?' if nullable else ''}[*]const {pointer({}, target[:-5], False)}"
    if target.endswith("*"):
        return f"{'?' if nullable else ''}*{pointer({}, target, True)}"
    constant = "const " if target.startswith("const ") else ""
    target = base(target.removeprefix("const "))
    count = described.get("count")
    if isinstance(count, int):
        many, target = "*", f"[{count}]{target}"
    else:
        is_text = described.get("is") == "text" and not count
        many = "[*:0]" if is_text else "[*]" if count and target != "anyopaque" else "*"
    return f"{'?' if nullable else ''}{many}{constant}{target}"


def name_of(one):
    return f'@"{one["name"]}"' if one["name"] == "error" else one["name"]


def parameter(one, callbacks):
    if "callback" in one:
        return f"{one['name']}: {callback(callbacks[one['callback']], callbacks)}"
    return f"{name_of(one)}: {pointer(one, one['type'], one.get('nullable', False))}"


def returned(function):
    return pointer({"is": function.get("returns_is")}, function["returns"], function.get("returns_nullable", False))


def field(one, struct, callbacks, structs):
    if "callback" in one:
        kind, default = callback(callbacks[one["callback"]], callbacks), "null"
    elif isinstance(one.get("count"), int):
        kind = f"[{one['count']}]{base(one['type'])}"
        default = "@splat(.{})" if one["type"] in structs else "@splat(0)"
    elif one["type"].endswith("*"):
        kind, default = pointer(one, one["type"], True), "null"
    else:
        kind = base(one["type"])
        default = ".{}" if one["type"] in structs else "0"
    if one["name"] == "struct_size":
        default = f"@sizeOf({struct})"
    return f"    {name_of(one)}: {kind} = {default},{comment_after(one['comment'])}"


def zig(d):
    callbacks = {one["name"]: one for one in d["callbacks"]}
    structs = {one["name"] for one in d["structs"]}
    lines = ["//! The C interface of ferry. Made from the C headers by generate.py: do not edit. Link with libferry and libc.",
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
        text = function["comment"]
        if function["values"].startswith(("`", "returned")):  # not the default
            text += f"\nValues: {function['values']}"
        lines += ["", *(f"/// {line}".rstrip() for line in text.split("\n")),
                  f"pub extern fn {function['name']}({parameters}) {returned(function)};"]
    return "\n".join(lines) + "\n"


output = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "ferry.zig"
output.write_text(zig(describe()), encoding="utf-8")
