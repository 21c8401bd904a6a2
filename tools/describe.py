#!/usr/bin/env python3
"""Describes ferry.h for programs: describe.py [--check] HEADER DESCRIPTION DECLARATIONS

DESCRIPTION (JSON) has all constants, structs, callbacks and functions, with what the header's comments say about each.
DECLARATIONS is the header without comments and directives, for parsers such as those of cffi and LuaJIT.
With --check nothing is written, and the script fails if the files are not what it would write. Needs the Python package
libclang. docs/languages.md explains the description.
"""
import json
import re
import sys
from pathlib import Path

try:
    import clang.cindex as clang
    from clang.cindex import CursorKind, TokenKind, TypeKind
except ImportError:
    print("skipped: needs the Python package libclang")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))
from labels import LABELS, defaults_of, split, with_common_errors, words  # noqa: E402

# The header's own includes: the types that it needs, as 64-bit processors have them.
SYSTEM_HEADERS = {
    "stddef.h": "typedef unsigned long size_t;\n",
    "stdint.h": "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned uint32_t;\n"
                "typedef long long int64_t; typedef unsigned long long uint64_t; typedef unsigned long uintptr_t;\n"}
HANDLES = {"CUctx_st": "CUcontext", "CUstream_st": "CUstream", "CUevent_st": "CUevent", "CUarray_st": "CUarray",
           "CUmipmappedArray_st": "CUmipmappedArray", "CUmemPoolHandle_st": "CUmemoryPool",
           "CUextMemory_st": "CUexternalMemory", "CUextSemaphore_st": "CUexternalSemaphore"}


def parse(header):
    folder = header.parent / "system"  # exists only for the parser
    unit = clang.Index.create().parse(
        str(header), ["-std=c99", "--target=x86_64-linux-gnu", "-nostdinc", f"-I{folder}", "-fparse-all-comments"],
        [(str(folder / name), text) for name, text in SYSTEM_HEADERS.items()],
        clang.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    problems = [str(one) for one in unit.diagnostics]
    if problems:
        sys.exit("\n".join(problems))
    return unit, [cursor for cursor in unit.cursor.get_children()
                  if cursor.location.file and cursor.location.file.name == str(header)]


def plain(comment):
    """The text of a comment. A line break stays where the next line begins a paragraph or a row of a table."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment[2:-2].strip().split("\n")]
    return re.sub(r"(?<=\S)\n(?! |\n|[\w,]+(?: [\w,]+)* {2,})", " ", "\n".join(lines)).strip()


# ---- Constants

def evaluate(tokens, known):
    text = " ".join(str(known.get(token, token)) for token in tokens)
    text = re.sub(r"\b(0x[0-9a-f]+|[0-9]+)u\b", r"\1", text, flags=re.I)
    if not re.fullmatch(r"[-0-9a-fx()|<~ ]+", text, flags=re.I):
        sys.exit(f"cannot evaluate {' '.join(tokens)}")
    return eval(text)  # digits and operators alone, as tested


def find_constants(unit, cursors, text):
    """{group: its constants}. The group is the longest prefix that a comment names as FERRY_GROUP_*, else one word."""
    named = sorted(set(re.findall(r"\bFERRY_(?:[A-Z0-9]+_)+(?=\*)", text)), key=len, reverse=True)
    tokens = list(unit.get_tokens(extent=unit.cursor.extent))
    comment_in_line = {token.location.line: plain(token.spelling) for before, token in zip(tokens, tokens[1:])
                       if token.kind == TokenKind.COMMENT and before.extent.end.line == token.location.line}
    groups, known = {}, {}
    for cursor in cursors:
        if cursor.kind != CursorKind.MACRO_DEFINITION or cursor.spelling == "FERRY_API":
            continue
        own = [token.spelling for token in cursor.get_tokens()][1:]
        if not own:
            continue  # the guard of the header
        name, value = cursor.spelling, evaluate(own, known)
        known[name] = value
        prefix = next((one for one in named if name.startswith(one)), re.match(r"FERRY_(?:[A-Z]+_)?", name)[0])
        groups.setdefault(prefix[:-1], []).append(
            {"name": name, "value": value, "type": "uint32_t" if own[-1].lower().endswith("u") else "int32_t",
             "comment": comment_in_line.get(cursor.extent.end.line, "")})
    return groups


# ---- Types

def spelling(kind):
    return re.sub(r"\bstruct (ferry_\w+)", r"\1", kind.spelling)


def callback(kind, name, names):
    function = kind.get_pointee()
    return {"name": name, "returns": spelling(function.get_result()),
            "parameters": [{"name": given, "type": spelling(one)}
                           for given, one in zip(names, function.argument_types(), strict=True)]}


def is_callback(kind):
    return kind.kind == TypeKind.POINTER and kind.get_pointee().kind == TypeKind.FUNCTIONPROTO


def names_of_parameters(cursor):
    return [child.spelling for child in cursor.get_children() if child.kind == CursorKind.PARM_DECL]


def group_in(text, groups):
    """The group of the constants with which a comment begins, or that it calls "the FERRY_GROUP_*"."""
    named = re.match(r"(FERRY_[A-Z0-9_]+)_\*", text) or re.search(r"\bthe (FERRY_[A-Z0-9_]+)_\*", text)
    if named:
        return named[1] if named[1] in groups else None
    one = re.match(r"FERRY_[A-Z0-9_]+(?=$|[,:;]| or )", text)
    return next((group for group, values in groups.items() if one and any(each["name"] == one[0] for each in values)), None)


def describe_struct(cursor, groups, callbacks):
    kind = cursor.type
    fields = []
    for field in kind.get_fields():
        comment = plain(field.raw_comment) if field.raw_comment else ""
        one = {"name": field.spelling, "type": spelling(field.type), "offset": kind.get_offset(field.spelling) // 8,
               "size": field.type.get_size(), "comment": comment}
        if field.type.kind == TypeKind.CONSTANTARRAY:
            one["type"], one["count"] = spelling(field.type.element_type), field.type.element_count
        if is_callback(field.type):
            name = f"{cursor.spelling}.{field.spelling}"
            callbacks.append(callback(field.type, name, names_of_parameters(field)))
            one["callback"] = name
        group = group_in(comment, groups)
        if group:
            one["constants"] = group
        fields.append(one)
    return {"name": cursor.spelling, "size": kind.get_size(), "align": kind.get_align(),
            "has_struct_size": fields[0]["name"] == "struct_size" if fields else False,
            "comment": plain(cursor.raw_comment or "/**/"), "fields": fields}


# ---- Functions

def describe_parameter(parameter, names, nullable, versioned, text, groups):
    kind, name = parameter.type, parameter.spelling
    one = {"name": name, "type": spelling(kind)}
    group = re.search(rf"`{name}`[^.;]*?\b(FERRY_(?:[A-Z0-9]+_)+)\*", text)
    if group and group[1][:-1] in groups and kind.kind != TypeKind.POINTER:
        one["constants"] = group[1][:-1]
    if kind.kind != TypeKind.POINTER:
        return one
    target = kind.get_pointee()
    base = target.get_canonical()
    # A handle, an address and text are passed; what else is not const is filled by the call.
    is_opaque = base.kind == TypeKind.RECORD and base.get_size() < 0
    if is_callback(kind) or is_opaque or target.is_const_qualified() or base.kind == TypeKind.VOID:
        one["direction"] = "in"
    else:
        one["direction"] = "inout" if spelling(target) in versioned else "out"
    one["nullable"] = name in nullable or name == "error" or spelling(kind) == "struct CUstream_st *"
    if is_opaque and not target.is_const_qualified() or base.kind == TypeKind.VOID:
        one["is"] = "address" if base.kind == TypeKind.VOID else "handle"
    count = {"buffer": "size", "text": "size", "helpers": "helper_count"}.get(name)
    if not count and "count" in names and target.is_const_qualified() and name.endswith("s"):
        count = "count"
    if count in names:
        one["count"] = count
    return one


def describe_function(cursor, comment, defaults, versioned, groups, callbacks):
    parameters = list(cursor.get_arguments())
    names = [one.spelling for one in parameters]
    about, given = split(comment)
    given = {label: words(text) for label, text in given}
    nullable = re.findall(r"`(\w+)`", given.get("NULL", ""))
    unknown = set(nullable) - set(names)
    if unknown:
        sys.exit(f"{cursor.spelling} has no parameter {', '.join(sorted(unknown))} that may be NULL")
    returns_status = cursor.result_type.spelling == "int32_t" and not given.get("Errors", "").startswith("none")
    result = {"name": cursor.spelling, "returns": spelling(cursor.result_type), "returns_status": returns_status,
              "comment": plain(f"/*{about}*/"), "parameters": []}
    for one in parameters:
        described = describe_parameter(one, names, nullable, versioned, result["comment"], groups)
        if is_callback(one.type):
            name = f"{cursor.spelling}.{one.spelling}"
            callbacks.append(callback(one.type, name, names_of_parameters(one)))
            described["callback"] = name
        result["parameters"].append(described)
    errors = with_common_errors(given.get("Errors", ""), returns_status)
    for label in LABELS[1:]:
        result[label.lower().replace("-", "_")] = errors if label == "Errors" else given.get(label, defaults[label])
    result["may_block"] = not re.match(r"never\b(?!,)|none", result["blocking"])
    return result


def comments_of_functions(functions, text):
    """A comment belongs to the functions that follow it without an empty line."""
    lines, comment = text.split("\n"), None
    for cursor in functions:
        if cursor.raw_comment:
            comment = cursor.raw_comment
        elif not lines[cursor.extent.start.line - 2].rstrip().endswith(";"):
            sys.exit(f"{cursor.spelling} has no comment")
        yield cursor, comment


# ---- The two files

def declarations(text, groups):
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    code = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", code, flags=re.S)
    code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*\n", "", code, flags=re.M).replace("FERRY_API ", "")
    code = re.sub(r"[ \t]+$", "", code, flags=re.M)
    code = re.sub(r"\n{2,}", "\n", code).strip()
    constants = "\n".join(f"static const {one['type']} {one['name']} = {one['value']};"
                          for group in groups.values() for one in group)
    return ("/* ferry.h without comments and directives, for cffi's cdef and LuaJIT's ffi.cdef. Made by tools/describe.py:\n"
            f" * do not edit. */\n{constants}\n{code}\n")


def describe(header):
    text = header.read_text()
    unit, cursors = parse(header)
    groups = find_constants(unit, cursors, text)
    defaults = defaults_of(text)
    callbacks = []
    structs = [describe_struct(cursor, groups, callbacks) for cursor in cursors
               if cursor.kind == CursorKind.STRUCT_DECL and cursor.is_definition()]
    opaque = sorted({cursor.spelling for cursor in cursors if cursor.kind == CursorKind.STRUCT_DECL} -
                    {one["name"] for one in structs})
    versioned = {one["name"] for one in structs if one["has_struct_size"]}
    functions = [describe_function(cursor, comment, defaults, versioned, groups, callbacks) for cursor, comment in
                 comments_of_functions([one for one in cursors if one.kind == CursorKind.FUNCTION_DECL], text)]
    version = ".".join(str(one["value"]) for one in groups["FERRY_VERSION"])
    described = {
        "about": "The C interface of ferry, made from ferry.h by tools/describe.py. docs/languages.md explains it.",
        "version": version,
        "handles": [{"type": f"struct {name} *", "cuda": HANDLES[name]} for name in opaque if name in HANDLES],
        "opaque": [name for name in opaque if name not in HANDLES],
        "constants": [{"group": group, "type": values[0]["type"], "values": [
            {key: one[key] for key in ("name", "value", "type", "comment")} for one in values]}
            for group, values in groups.items()],
        "callbacks": callbacks, "structs": structs, "functions": functions}
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n", declarations(text, groups)


def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ["--check"]
    header, *files = map(Path, arguments[check:])
    stale = 0
    for file, wanted in zip(files, describe(header), strict=True):
        if not check:
            file.write_text(wanted)
        elif not file.exists() or file.read_text() != wanted:
            print(f"{file.name} is not current: run tools/dev describe")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
