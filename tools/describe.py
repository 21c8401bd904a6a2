#!/usr/bin/env python3
"""Describes ferry.h for programs: describe.py [--check] HEADER DESCRIPTION DECLARATIONS

DESCRIPTION (JSON) has all constants, structs, callbacks and functions, with what the header's comments say about each.
DECLARATIONS is the header without comments and directives, for parsers such as the parsers of cffi and LuaJIT.
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
from labels import LABELS, defaults_of, split, values_of, with_common_errors, words  # noqa: E402

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
    """{group: its constants}, and {constant: its group}.

    A group has one type. Its name is the longest prefix that a comment names as FERRY_GROUP_*, or else one word. A
    constant without such a prefix belongs to the group of the next constant. If constants with the same prefix have two
    types, or are in two places, the larger set is the group, and each other set is a separate group.
    """
    named = sorted(set(re.findall(r"\bFERRY_(?:[A-Z0-9]+_)+(?=\*)", text)), key=len, reverse=True)
    tokens = list(unit.get_tokens(extent=unit.cursor.extent))
    comment_in_line = {token.location.line: plain(token.spelling) for before, token in zip(tokens, tokens[1:])
                       if token.kind == TokenKind.COMMENT and before.extent.end.line == token.location.line}
    empty_lines = [number for number, line in enumerate(text.split("\n"), 1) if not line]
    sets, known = {}, {}
    for cursor in cursors:
        if cursor.kind != CursorKind.MACRO_DEFINITION or cursor.spelling == "FERRY_API":
            continue
        own = [token.spelling for token in cursor.get_tokens()][1:]
        if not own:
            continue  # the guard of the header
        name, value = cursor.spelling, evaluate(own, known)
        known[name] = value
        prefix = next((one for one in named if name.startswith(one)), re.match(r"FERRY_(?:[A-Z]+_)?", name)[0])[:-1]
        kind = "uint32_t" if own[-1].lower().endswith("u") else "int32_t"
        place = sum(line < cursor.location.line for line in empty_lines)
        sets.setdefault((prefix, kind, place), []).append(
            {"name": name, "value": value, "type": kind, "comment": comment_in_line.get(cursor.extent.end.line, "")})
    return named_groups(sets)


def named_groups(sets):
    groups, without_prefix = {}, []
    for (prefix, *_), values in sets.items():
        if prefix == "FERRY":
            without_prefix = values
            continue
        largest = max((each for (other, *_), each in sets.items() if other == prefix), key=len)
        for one in [values] if values is largest else [[each] for each in values]:
            group = prefix if values is largest else one[0]["name"]
            groups[group], without_prefix = without_prefix + one, []
    return groups, {one["name"]: group for group, values in groups.items() for one in values}


# ---- Types

def spelling(kind):
    return re.sub(r"\bstruct (ferry_\w+)", r"\1", kind.spelling)


def describe_callback(cursor, name, text, known, callbacks):
    """Appends a function of the program, and those that it is given. `text` is what the comment says about it."""
    kind = cursor.type.get_pointee()
    result = {"name": name, "returns": spelling(kind.get_result()), "parameters": []}
    callbacks.append(result)
    if re.search(r"\bReturns 1 if\b", text):
        result["returns_is"] = "flag"
    for one in (child for child in cursor.get_children() if child.kind == CursorKind.PARM_DECL):
        described = {"name": one.spelling, "type": spelling(one.type)}
        said = re.search(rf"`{one.spelling}`: ([^.]*)", text)
        described.update(describe_value(one.spelling, said[1] if said else "", described["type"], known))
        if described["type"] == "const char *":
            described["is"] = "text"
        if is_callback(one.type):
            described["callback"] = f"{name}.{one.spelling}"
            describe_callback(one, described["callback"], "", known, callbacks)
        result["parameters"].append(described)


def is_callback(kind):
    return kind.kind == TypeKind.POINTER and kind.get_pointee().kind == TypeKind.FUNCTIONPROTO


def describe_value(name, text, kind, known):
    """What a comment says about the values of a field, a parameter or a result: the keys for it.

    `text` begins with this: constants, 0 or 1 (or "1: " with what that means), or the length of an array."""
    groups, group_of = known
    if name == "status" or text.startswith("a status"):
        return {"constants": "FERRY_ERROR", "is": "status"}
    if re.fullmatch(r"reserved\d*", name):
        return {"is": "reserved"}
    if re.match(r"1: |0 or 1\b", text):
        return {"is": "flag"}
    bits = text.startswith("bits 1 << ")
    constant = re.match(r"(?:bits 1 << )?(FERRY_[A-Z0-9_]*[A-Z0-9])(_\*)?(?=$|[,:; ])", text)
    if constant:
        group = constant[1] if constant[2] else group_of.get(constant[1])
        if group not in groups:
            sys.exit(f"{name}: {constant[0]} is no group of constants")
        if kind not in ("void *", groups[group][0]["type"]) and not bits:
            sys.exit(f"{name} is {kind}, but {constant[0]} are {groups[group][0]['type']}")
        return {"constants": group, **({"is": "bits"} if bits else {})}
    if text.startswith("CU"):
        return {"driver_constants": re.match(r"\w+", text)[0]}
    count = re.match(r"(?:`(\w+)`|(\d+)) (?:elements|bytes)\b", text)
    if count:
        return {"count": count[1] or int(count[2])}
    owner = re.match(r"as many elements as `(\w+)` has", text)
    return {"count_of": owner[1]} if owner else {}


def describe_struct(cursor, known, callbacks):
    kind, about = cursor.type, plain(cursor.raw_comment or "/**/")
    rows = dict(re.findall(r"^(\w+) {2,}(.*(?:\n +.*)*)", about, flags=re.M))  # of the table in the comment
    fields = []
    for field in kind.get_fields():
        comment = plain(field.raw_comment) if field.raw_comment else ""
        one = {"name": field.spelling, "type": spelling(field.type), "offset": kind.get_offset(field.spelling) // 8,
               "size": field.type.get_size(), "comment": comment}
        one.update(describe_value(field.spelling, comment, one["type"], known))
        if field.type.kind == TypeKind.CONSTANTARRAY:
            one["type"], one["count"] = spelling(field.type.element_type), field.type.element_count
            if one["type"] == "char":
                one["is"] = "text"
        if is_callback(field.type):
            one["callback"] = f"{cursor.spelling}.{field.spelling}"
            describe_callback(field, one["callback"], rows.get(field.spelling, ""), known, callbacks)
        fields.append(one)
    return {"name": cursor.spelling, "size": kind.get_size(), "align": kind.get_align(),
            "has_struct_size": fields[0]["name"] == "struct_size" if fields else False,
            "comment": about, "fields": fields}


# ---- Functions

def describe_parameter(parameter, names, nullable, versioned, text, known):
    kind, name = parameter.type, parameter.spelling
    one = {"name": name, "type": spelling(kind)}
    is_pointer = kind.kind == TypeKind.POINTER
    one.update(describe_value(name, text, "void *" if text.startswith(("`", "as many")) else
                              spelling(kind.get_pointee()) if is_pointer else one["type"], known))
    if text and one.keys() <= {"name", "type"} or one.get("count", 0) not in [*names, *range(4096)]:
        sys.exit(f"the label Values says of {name}: {text}")
    if not is_pointer:
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
    if is_opaque and not target.is_const_qualified():
        one["is"] = "handle"
    elif base.kind == TypeKind.VOID and "count" not in one:
        one["is"] = "address"
    elif one["type"] == "const char *" and "count" not in one:
        one["is"] = "text"
    return one


def describe_function(cursor, comment, of_comment, defaults, versioned, known, callbacks):
    """`of_comment`: the names of the parameters of all functions that share the comment."""
    parameters = list(cursor.get_arguments())
    names = [one.spelling for one in parameters]
    about, given = split(comment)
    given = {label: words(text) for label, text in given}
    nullable = re.findall(r"`(\w+)`", given.get("NULL", ""))
    unknown = set(nullable) - of_comment
    if unknown:
        sys.exit(f"{cursor.spelling} has no parameter {', '.join(sorted(unknown))} that may be NULL")
    returns_status = cursor.result_type.spelling == "int32_t" and not given.get("Errors", "").startswith("none")
    values = values_of(given.get("Values", ""))
    unknown = set(values) - of_comment - {"returned"}
    if unknown or "Values" in given and not values:
        sys.exit(f"{cursor.spelling}: the label Values is not understood, or names no parameter: {given['Values']}")
    result = {"name": cursor.spelling, "returns": spelling(cursor.result_type), "returns_status": returns_status}
    if returns_status:
        result["returns_constants"] = "FERRY_ERROR"
    elif "returned" in values:
        returned = describe_value("returned", values["returned"], result["returns"], known)
        result["returns_constants"] = returned["constants"]
    if cursor.result_type.kind == TypeKind.POINTER:
        result["returns_nullable"] = "returned" in given.get("NULL", "")
    result.update(comment=plain(f"/*{about}*/"), parameters=[])
    for one in parameters:
        described = describe_parameter(one, names, nullable, versioned, values.get(one.spelling, ""), known)
        if is_callback(one.type):
            described["callback"] = f"{cursor.spelling}.{one.spelling}"
            describe_callback(one, described["callback"], result["comment"], known, callbacks)
        result["parameters"].append(described)
    errors = with_common_errors(given.get("Errors", ""), returns_status)
    for label in LABELS[1:]:
        result[label.lower().replace("-", "_")] = errors if label == "Errors" else given.get(label, defaults[label])
    result["may_block"] = not re.match(r"never\b(?!,)|none", result["blocking"])
    return result


def comments_of_functions(functions, text):
    """[(comment, its functions)]. A comment belongs to the functions that follow it without an empty line."""
    lines, found = text.split("\n"), []
    for cursor in functions:
        if cursor.raw_comment:
            found.append((cursor.raw_comment, []))
        elif not lines[cursor.extent.start.line - 2].rstrip().endswith(";"):
            sys.exit(f"{cursor.spelling} has no comment")
        found[-1][1].append(cursor)
    return found


def kinds_of(groups, described):
    """{group: flags, one of which (choice), or numbers}: nothing takes or returns numbers as such."""
    named = set(re.findall(r'constants": "(\w+)"', json.dumps(described)))
    return {group: "number" if group not in named else "choice" if values[0]["type"] == "int32_t" else "flags"
            for group, values in groups.items()}


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
    known = groups, _ = find_constants(unit, cursors, text)
    defaults = defaults_of(text)
    callbacks = []
    structs = [describe_struct(cursor, known, callbacks) for cursor in cursors
               if cursor.kind == CursorKind.STRUCT_DECL and cursor.is_definition()]
    opaque = sorted({cursor.spelling for cursor in cursors if cursor.kind == CursorKind.STRUCT_DECL} -
                    {one["name"] for one in structs})
    versioned = {one["name"] for one in structs if one["has_struct_size"]}
    functions = []
    for comment, of in comments_of_functions([one for one in cursors if one.kind == CursorKind.FUNCTION_DECL], text):
        names = {one.spelling for cursor in of for one in cursor.get_arguments()}
        functions += [describe_function(one, comment, names, defaults, versioned, known, callbacks) for one in of]
    version = ".".join(str(one["value"]) for one in groups["FERRY_VERSION"])
    kinds = kinds_of(groups, [structs, callbacks, functions])
    described = {
        "about": "The C interface of ferry, made from ferry.h by tools/describe.py. docs/languages.md explains it.",
        "version": version,
        "handles": [{"type": f"struct {name} *", "cuda": HANDLES[name]} for name in opaque if name in HANDLES],
        "opaque": [name for name in opaque if name not in HANDLES],
        "constants": [{"group": group, "type": values[0]["type"], "kind": kinds[group], "values": values}
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
