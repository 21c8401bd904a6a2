#!/usr/bin/env python3
"""Makes the source of ferry-sys from the C headers: generate.py [--check | FILE]

The build of ferry-sys runs this script. Without FILE, it writes ferry-sys/generated.rs, which a package of the crate
needs. With --check nothing is written, and the script fails if a function is neither called in ferry/src nor listed in
left-out.txt with a reason, so that a new function is not forgotten.
"""
import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from describe import describe  # noqa: E402

NAMES = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "uint8_t": "u8", "float": "f32",
         "char": "c_char", "void": "c_void"}
# The types of groups whose prefix says too little, or too much.
GROUP_NAMES = {"FERRY_ERROR": "Status", "FERRY_STATUS": "Traits", "FERRY_LOG": "LogLevel", "FERRY_MEMORY": "MemoryKind",
               "FERRY_IPC": "IpcKind", "FERRY_HANDLE": "HandleTypes", "FERRY_EXTERNAL": "ExternalType",
               "FERRY_EXTERNAL_DEDICATED": "ExternalFlags", "FERRY_STREAM": "StreamFlags"}


def group_name(group):
    """The type of a group's constants; None for numbers that stand alone."""
    if group["kind"] == "number":
        return None
    words = group["group"].removeprefix("FERRY_").split("_")
    return GROUP_NAMES.get(group["group"]) or "".join(map(str.capitalize, words)) + "Flags" * (group["kind"] == "flags")


def of_group(group):
    """The name for all constants of a group; a single constant may have the group's name."""
    name = group["group"]
    return name if any(one["name"] == name for one in group["values"]) else f"{name}_*"


class Types:
    """The Rust types of C types: of described values, and of functions of the program."""

    def __init__(self, described):
        self.groups = {one["group"]: group_name(one) for one in described["constants"]}
        self.callbacks = {one["name"]: one for one in described["callbacks"]}

    def of(self, text, constants=None):
        text = text.strip()
        if text.endswith("*"):
            target = text[:-1].strip()
            if target.endswith("*const"):  # an array of pointers
                return f"*const {self.of(target[:-5], constants)}"
            const = target.startswith("const ") and not target.endswith("*")
            return f"*{'const' if const else 'mut'} {self.of(target[6:] if const else target, constants)}"
        text = text.replace("struct ", "")
        return self.groups.get(constants) or NAMES.get(text, text)

    def of_value(self, one):
        """Of a field or a parameter; a function may be NULL."""
        if "callback" in one:
            function = self.callbacks[one["callback"]]
            arguments = ", ".join(map(self.of_value, function["parameters"]))
            return f'Option<unsafe extern "C" fn({arguments}){self.arrow(function)}>'
        kind = self.of(one["type"], None if one.get("is") == "bits" else one.get("constants"))
        return f"[{kind}; {one['count']}]" if isinstance(one.get("count"), int) and "*" not in kind else kind

    def arrow(self, function):
        return "" if function["returns"] == "void" else \
            f" -> {self.of(function['returns'], function.get('returns_constants'))}"


def comment(text, indent=""):
    """Documentation. Markdown's brackets and indented code are text here."""
    lines = []
    for line in text.split("\n"):
        line = re.sub(r"([\[\]<>])", r"\\\1", re.sub(r" {3,}", "  ", line.strip()))
        lines += textwrap.wrap(line, 112 - len(indent), break_long_words=False, break_on_hyphens=False,
                               subsequent_indent="  " if line.startswith("* ") else "") or [""]
    return "".join(f"{indent}///{' ' if line else ''}{line}\n" for line in lines) if text else ""


def generate(described):
    types = Types(described)
    opaque = described["opaque"] + [one["type"].split()[1] for one in described["handles"]]
    parts = ["// Made by generate.py from the C headers: do not edit.\n\n",
             "use std::ffi::c_void;\nuse std::marker::{PhantomData, PhantomPinned};\nuse std::os::raw::c_char;\n"]
    for group in described["constants"]:
        kind, name = NAMES[group["type"]], group_name(group)
        parts.append(f"\n{group['kind']}!({name}, {kind}, \"`{of_group(group)}`\");\n" if name else "\n")
        for one in group["values"]:
            value = f"{name}({one['value']})" if name else one["value"]
            parts.append(comment(one["comment"]) + f"pub const {one['name']}: {name or kind} = {value};\n")
    for name in opaque:
        parts.append(f"\n/// Opaque: only pointers to it are passed.\n#[repr(C)]\npub struct {name} {{\n    bytes: [u8; 0],\n"
                     "    marker: PhantomData<(*mut u8, PhantomPinned)>,\n}\n")
    for one in described["structs"]:
        parts.append("\n" + struct(one, types))
    parts.append('\nextern "C" {\n' + "\n".join(function(one, types) for one in described["functions"]) + "}\n")
    parts.append("\n" + layout_test(described["structs"]))
    return "".join(parts)


def struct(one, types):
    name, fields = one["name"], ""
    for field in one["fields"]:
        fields += comment(field["comment"], "    ") + f"    pub {field['name']}: {types.of_value(field)},\n"
    size = "\n        value.struct_size = std::mem::size_of::<Self>() as u32;" if one["has_struct_size"] else ""
    about = "All zero, but `struct_size` set." if size else "All zero."
    mutable = "mut " if size else ""
    return (f"{comment(one['comment'])}#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct {name} {{\n{fields}}}\n\n"
            f"impl Default for {name} {{\n    /// {about}\n    fn default() -> Self {{\n"
            f"        // SAFETY: zero is a value of every field: a number, a pointer or no function.\n"
            f"        let {mutable}value: Self = unsafe {{ std::mem::zeroed() }};{size}\n        value\n    }}\n}}\n")


def function(one, types):
    parameters = ", ".join(f"{p['name']}: {types.of_value(p)}" for p in one["parameters"])
    labels = [("Values", "values"), ("Thread-safety", "thread_safety"), ("Blocking", "blocking_text"), ("Ownership", "ownership"),
              ("Errors", "errors"), ("Driver", "driver")]
    nullable = [f"`{p['name']}`" for p in one["parameters"] if p.get("nullable")]
    text = one["comment"] + f"\n\n* NULL: {', '.join(nullable) or 'none'}.\n"
    text += "\n".join(f"* {label}: {one[key]}" for label, key in labels)
    return comment(text, "    ") + f"    pub fn {one['name']}({parameters}){types.arrow(one)};\n"


def layout_test(structs):
    rows = "".join(f"        check!({one['name']}, {one['size']}, {one['align']}, " +
                   ", ".join(f"{field['name']}: {field['offset']}" for field in one["fields"]) + ");\n"
                   for one in structs)
    return ('#[cfg(all(test, target_pointer_width = "64"))]\nmod tests {\n    use super::*;\n    use std::mem::{align_of, '
            "size_of, MaybeUninit};\n\n    macro_rules! check {\n"
            "        ($name:ident, $size:expr, $align:expr, $($field:ident: $offset:expr),*) => {\n"
            "            assert_eq!((size_of::<$name>(), align_of::<$name>()), ($size, $align), stringify!($name));\n"
            "            let value = MaybeUninit::<$name>::uninit();\n            let base = value.as_ptr();\n"
            "            $(\n"
            "                let field = unsafe { std::ptr::addr_of!((*base).$field) } as usize;\n"
            "                assert_eq!(field - base as usize, $offset, stringify!($name.$field));\n"
            "            )*\n        };\n    }\n\n    #[test]\n    fn structs_are_laid_out_as_in_c() {\n" + rows +
            "    }\n}\n")


def check_coverage(described):
    """Returns what is wrong with the list of functions that the safe layer leaves out."""
    functions = {one["name"] for one in described["functions"]}
    source = "\n".join(file.read_text() for file in (HERE / "ferry/src").glob("*.rs"))
    used = set(re.findall(r"\bsys::(ferry_\w+)\b", source)) & functions
    listed = {}
    for line in (HERE / "left-out.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            listed[name] = reason.strip()
    return ([f"{name}: neither called in ferry/src nor listed in left-out.txt" for name in functions - used - set(listed)] +
            [f"{name}: listed in left-out.txt, but called in ferry/src" for name in used & set(listed)] +
            [f"{name}: listed in left-out.txt, but no function of ferry" for name in set(listed) - functions] +
            [f"{name}: left-out.txt gives no reason" for name, reason in listed.items() if not reason])


def main():
    described = describe()
    if sys.argv[1:] != ["--check"]:
        output = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "ferry-sys/generated.rs"
        output.write_text(generate(described), encoding="utf-8")
        return 0
    problems = check_coverage(described)
    print("\n".join(sorted(problems)) or "every function is called or listed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
