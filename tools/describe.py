#!/usr/bin/env python3
"""Describes the C headers for programs: describe.py FOLDER [DESCRIPTION DECLARATIONS]

Writes DESCRIPTION (JSON) with all constants, structs, callbacks and functions, and what the headers' comments say about
each. Writes DECLARATIONS, the headers without comments and directives, for parsers such as cffi and LuaJIT.
docs/languages.md explains both. Without these two files, the script prints the description. The generators of the
bindings import `describe` instead. Information that the comments lack, such as the owner of a new handle, is an error.
Both files also contain the constants and structs of ferry_software.h. The functions of ferry_software.h belong to
another library.

The script reads the C that the headers consist of: macros with numbers, structs of scalars, arrays, pointers and other
structs, and functions. It fails on anything else. tests/abi/description.py compares the description with a C compiler.
"""
import fnmatch
import functools
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple, Optional

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = 1  # of the description: a number that changes if a key is removed, or means something else
VERSION_SCRIPT = ROOT / "src/ferry.map"
sys.path.insert(0, str(ROOT / "docs"))
import c_headers  # noqa: E402
import driver_calls  # noqa: E402
from labels import (BLOCKING, LABELS, PENDING_WORK, blocking_class, defaults_of, inherited_of, ownership_of,  # noqa: E402
                    pending_work, specials_of, split, threads_of, unclear_special, undone_by, units_of, until,
                    values_of, with_common_errors, words)

SIZES = {"char": 1, "uint8_t": 1, "float": 4, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8}
POINTER_SIZE = 8
HANDLES = {"CUctx_st": "CUcontext", "CUstream_st": "CUstream", "CUevent_st": "CUevent", "CUarray_st": "CUarray",
           "CUmipmappedArray_st": "CUmipmappedArray", "CUmemPoolHandle_st": "CUmemoryPool",
           "CUextMemory_st": "CUexternalMemory", "CUextSemaphore_st": "CUexternalSemaphore",
           "CUgraph_st": "CUgraph", "CUgraphNode_st": "CUgraphNode", "CUgraphExec_st": "CUgraphExec"}


# ---- Reading C

class Variable(NamedTuple):
    """A field or a parameter. A pointer to a function has `returns` and `parameters`."""
    name: str
    type: str  # of an array: the type of its elements
    count: Optional[str] = None  # the number of elements of an array
    returns: str = ""
    parameters: tuple = ()
    comment: str = ""


class Declaration(NamedTuple):
    """A struct with its fields, or a function with its parameters."""
    name: str
    variables: list
    comment: str  # the comment before it, if only white space is between
    line: int
    returns: str = ""


class Constant(NamedTuple):
    name: str
    value: str
    comment: str
    line: int
    before: str  # the comment before it, which is about it and the constants after it


class Header:
    """What a header declares, in its order."""

    def __init__(self, text):
        self.text = text
        self.units = units_of(text)
        self.comments = {match.end(): match for match in re.finditer(r"/\*.*?\*/", text, flags=re.S)}
        # The code is at the same offsets as in the text.
        self.code = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.S)
        self.constants = [self.constant(match) for match in
                          re.finditer(r"^#define (FERRY_(?!API\b)\w+)((?:.*\\\n)*.*)$", self.code, flags=re.M)
                          if match[2].strip()]  # the guard of the header has no value
        self.code = re.sub(r"^#ifdef __cplusplus\n.*?^#endif$", self.blank, self.code, flags=re.M | re.S)
        self.code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", self.blank, self.code, flags=re.M)
        names = set(re.findall(r"\bstruct (\w+)", self.code))
        self.structs = [self.struct(match) for match in self.take(r"(?:typedef )?struct (\w+) \{(.*?)\}(?: (?:\1))?;")]
        self.functions = [self.function(match) for match in self.take(r"FERRY_API ([^;]*?)(\w+)\(([^;]*)\);")]
        self.opaque = sorted(names - {one.name for one in self.structs})
        self.take(r"struct \w+;|typedef struct (\w+) \1;")
        if self.code.strip():
            sys.exit(f"cannot read this: {self.code.split(';')[0].strip()}")

    def blank(self, match):
        return re.sub(r"[^\n]", " ", match[0])

    def take(self, pattern):
        """Finds declarations and removes them from the code."""
        found = list(re.finditer(rf"^{pattern}", self.code, flags=re.M | re.S))
        self.code = re.sub(rf"^{pattern}", self.blank, self.code, flags=re.M | re.S)
        return found

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def comment_before(self, start):
        """The comment before a declaration, unless it is behind code in a line."""
        comment = self.comments.get(len(self.text[:start].rstrip()))
        if not comment or self.text[self.text.rfind("\n", 0, comment.start()) + 1:comment.start()].strip():
            return ""
        return comment[0]

    def comment_after(self, end):
        """The comment that begins in the line in which the code ends."""
        comment = re.compile(r"[ \t]*(/\*.*?\*/)", flags=re.S).match(self.text, end)
        return comment[1] if comment else ""

    def constant(self, match):
        value = match[2].replace("\\\n", " ")
        before = self.comment_before(match.start())
        return Constant(match[1], " ".join(value.split()), plain(self.comment_after(match.start() + len(match[0].rstrip()))),
                        self.line_of(match.start()), "" if "-----" in before else plain(before))

    def struct(self, match):
        fields = [variable(one[0][:-1])._replace(
            comment=plain(self.comment_after(match.start(2) + one.end()) or
                          self.comment_before(match.start(2) + one.start())))
            for one in re.finditer(r"\w[^;]*;", match[2])]
        return Declaration(match[1], fields, plain(self.comment_before(match.start())), self.line_of(match.start()))

    def function(self, match):
        parameters = [] if match[3] == "void" else [variable(one) for one in split_list(match[3])]
        return Declaration(match[2], parameters, self.comment_before(match.start()), self.line_of(match.start()),
                           type_of(match[1]))


def split_list(text):
    """Splits at the commas that are not in parentheses."""
    return re.split(r",(?![^()]*\))", text)


def type_of(text):
    return re.sub(r"\bstruct (ferry_\w+)", r"\1", " ".join(text.split()))


def variable(text):
    """Reads a declaration such as `const char *name`, `uint64_t reserved[4]` or `void (*log)(void *user)`."""
    text = type_of(text)
    match = re.fullmatch(r"([^(]*)\(\*(\w+)\)\((.*)\)", text)
    if match:
        parameters = tuple(variable(one) for one in split_list(match[3]))
        kind = f"{match[1]}(*)({', '.join(one.type for one in parameters)})"
        return Variable(match[2], kind, returns=match[1].strip(), parameters=parameters)
    match = re.fullmatch(r"([\w *]*[ *])(\w+)(?:\[(\w+)\])?", text)
    if not match:
        sys.exit(f"cannot read this: {text}")
    return Variable(match[2], match[1].strip(), match[3])


def plain(comment):
    """Returns the text of a comment. Keeps line breaks before paragraphs and rows of tables."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment[2:-2].strip().split("\n")]
    return re.sub(r"(?<=\S)\n(?! |\n|[\w,]+(?: [\w,]+)* {2,})", " ", "\n".join(lines)).strip()


# ---- Constants

# How the comment of a constant begins if a value of its group cannot be both passed and reported, and its key `use`.
USES = {"only passed": "passed", "only reported": "reported", "not implemented": "none"}

def evaluate(value, known):
    text = re.sub(r"\bFERRY_\w+", lambda match: str(known.get(match[0], match[0])), value)
    text = re.sub(r"\b(0x[0-9a-f]+|[0-9]+)u\b", r"\1", text, flags=re.I)
    if not re.fullmatch(r"[-0-9a-fx()|<~ ]+", text, flags=re.I):
        sys.exit(f"cannot evaluate {value}")
    return eval(text)  # only digits and operators, as checked


def find_constants(header):
    """Returns {group: its constants} and {constant: its group}.

    A group has one type. Its name is the longest prefix that a comment mentions as FERRY_GROUP_*, or else one word. A
    constant without such a prefix belongs to the group of the next constant. If constants with the same prefix have two
    types, or are in two places, the larger set is the group, and each constant of the other set is a group of its own.
    """
    named = sorted(set(re.findall(r"\bFERRY_(?:[A-Z0-9]+_)+(?=\*)", header.text)), key=len, reverse=True)
    empty_lines = [number for number, line in enumerate(header.text.split("\n"), 1) if not line]
    sets, known = {}, {}
    for name, text, comment, line, before in header.constants:
        value = known[name] = evaluate(text, known)
        prefix = next((one for one in named if name.startswith(one)), re.match(r"FERRY_(?:[A-Z]+_)?", name)[0])[:-1]
        kind = "uint32_t" if text.lower().rstrip(")").endswith("u") else "int32_t"
        place = sum(empty < line for empty in empty_lines)
        use = USES.get(comment.split(":")[0])
        sets.setdefault((prefix, kind, place), []).append({"name": name, "value": value, "type": kind, "comment": comment,
                                                           **({"use": use} if use else {}), "before": before})
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

class Known(NamedTuple):
    """What the headers say about all values."""
    groups: dict
    group_of: dict
    units: dict
    opaque: list

    def number(self, name):
        """The value of a constant, or of NULL and UINT32_MAX and the like."""
        if name in self.group_of:
            return next(one["value"] for one in self.groups[self.group_of[name]] if one["name"] == name)
        largest = re.fullmatch(r"UINT(\d+)_MAX", name)
        return 2 ** int(largest[1]) - 1 if largest else 0 if name == "NULL" else int(name)


def describe_callback(function, name, text, known, callbacks, called_by="ferry"):
    """Appends a callback, and the functions among its parameters. `text` is its part of the comment.

    The roles are the reverse of a function's: "kept" is a result that ferry keeps.
    """
    threads, must_not_call = ((["program"], []) if called_by == "program" else threads_of(text) or
                              sys.exit(f'{name}: the comment lacks "Threads: …; must not call …."'))
    result = {"name": name, "since": since(text), "returns": function.returns, "called_by": called_by, "threads": threads,
              "must_not_call": must_not_call, "parameters": []}
    callbacks.append(result)
    if re.search(r"\bReturns 1 if\b", text):
        result["returns_is"] = "flag"
    ownership = ownership_of(text)
    if "*" in function.returns:
        result["returns_nullable"] = "NULL" in text
        result["returns_ownership"] = ownership.get("returned") or sys.exit(f"{name}: how long must the result stay valid?")
    for one in function.parameters:
        described = {"name": one.name, "type": one.type}
        said = re.search(rf"`{one.name}`: ([^.]*)", text)
        described.update(describe_value(one.name, said[1] if said else "", one.type, known))
        describe_number(described, said[1] if said else "", known)
        describe_text(described)
        if "*" in one.type and not one.returns:
            describe_pointer(described, known)
        if "*" in one.type:
            described.update({"ownership": "ended"} if f"Ends `{one.name}`" in text else
                             ownership.get(one.name, {"ownership": "call"}))
        if one.returns:  # ferry's own function, which the program calls on any of its threads
            described["callback"] = f"{name}.{one.name}"
            describe_callback(one, described["callback"], "", known, callbacks, "program")
        result["parameters"].append(described)


def describe_value(name, text, kind, known):
    """Returns the keys that describe the values of a field, a parameter or a result.

    `text` is its comment. It begins with constants, with 0 or 1 (or "1: " and a meaning), or with an array's length.
    """
    groups, group_of = known.groups, known.group_of
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
    return {}


def describe_number(found, text, known, more="", is_option=False):
    """Adds the unit of a number, and the values with a meaning of their own, to what is known of a value.

    `more`: other text about the values. `is_option`: 0 is the default. Constants, flags and reserved numbers of 32 bits
    have no unit.
    """
    name = found["name"]
    bits = "64" if found.keys() & {"constants", "driver_constants", "is"} else "(?:32|64)"
    if re.fullmatch(rf"(?:const )?u?int{bits}_t(?: \*)?", found["type"]):
        said = re.match(rf"({'|'.join(known.units)}|texels)\b", text)
        named = [unit for unit, names in known.units.items() if any(fnmatch.fnmatchcase(name, one) for one in names)]
        if not said and len(named) != 1:
            sys.exit(f"{name}: the Conventions give it the units {named}, and its comment begins with none: {text}")
        found["unit"] = said[1] if said else named[0]
    # A constant of another group is no value of this one.
    special = {one: means for one, means in specials_of(text) + specials_of(more)
               if "constants" not in found or known.group_of.get(one) in (None, found["constants"])}
    if special:
        found["special"] = [{"value": known.number(one), **({} if re.match(r"-?\d", one) else {"name": one}), "means": means}
                            for one, means in special.items()]
        # A zeroed struct of options, with its struct_size, has the defaults.
        for one in found["special"]:
            if one["value"] == 0 and is_option:
                one["is_default"] = True
    if unclear_special(text):
        sys.exit(f'{name}: write "VALUE: meaning" instead of "{unclear_special(text)} …"')


def describe_text(found):
    if re.fullmatch(r"(?:const )?char(?: \*)?", found["type"]):
        found["is"] = "text"


def describe_pointer(found, known):
    """Whether a pointer is a handle or an address. `found` has the keys that are known."""
    target = found["type"][:-1].strip()
    base = target.replace("const ", "").replace("struct ", "")
    if base in known.opaque and not target.endswith("const"):
        found["is"] = "handle"
    elif base == "void" and not found.keys() & {"count", "struct"}:
        found["is"] = "address"


def first_paragraph(comment):
    return comment.split("\n\n")[0]


def since(comment):
    """The release that added a field or a constant: "since 0.8" in its comment, or the first release of the version script."""
    said = re.search(r"\bsince (\d+\.\d+)\b", comment)
    return said[1] if said else min(releases_of_functions().values(), key=lambda one: tuple(map(int, one.split("."))))


def describe_struct(struct, known, callbacks, structs):
    rows = dict(re.findall(r"^(\w+) {2,}(.*(?:\n +.*)*)", struct.comment, flags=re.M))  # of the table in the comment
    numbers = {one["name"]: one["value"] for group in known.groups.values() for one in group}
    kept = ownership_of(struct.comment)
    fields, end, largest = [], 0, 1
    for field in struct.variables:
        size, align = (POINTER_SIZE,) * 2 if "*" in field.type else (SIZES.get(field.type),) * 2
        if size is None:
            size, align = next((one["size"], one["align"]) for one in structs if one["name"] == field.type)
        count = field.count and int(numbers.get(field.count, field.count))
        offset = -(-end // align) * align
        end, largest = offset + size * (count or 1), max(largest, align)
        one = {"name": field.name, "type": field.type, "offset": offset, "size": end - offset, "comment": field.comment}
        one.update(describe_value(field.name, field.comment, "" if count else field.type, known))
        if count:
            one["count"] = count
        describe_text(one)
        if one.get("is") not in ("flag", "reserved"):
            describe_number(one, field.comment, known, words(rows.get(field.name, "")), struct.name.endswith("_options"))
        if "*" in field.type or one.get("unit") == "address":
            owner = re.search(r"\bbelongs to ([^.;]*)", field.comment)
            one.update({"ownership": "static"} if re.search(r"\bStatic\b", field.comment) else
                       {"ownership": "other", "owner": owner[1]} if owner else kept.get(field.name, {}))
        pointee = re.match(r"an? (ferry_\w+)", field.comment)
        if pointee and field.type == "const void *":
            one["struct"] = pointee[1]
        if field.returns:
            one["callback"] = f"{struct.name}.{field.name}"
            describe_callback(field, one["callback"], words(rows.get(field.name, "")), known, callbacks)
        elif "*" in field.type:
            describe_pointer(one, known)
        if "*" in field.type:
            # All zeros are the default of options. NULL is the legacy default stream.
            one["nullable"] = (struct.name.endswith("_options") or "NULL" in field.comment or
                               field.type == "struct CUstream_st *")
        one["since"] = since(field.comment)
        fields.append(one)
    return {"name": struct.name, "since": since(first_paragraph(struct.comment)), "size": -(-end // largest) * largest, "align": largest,
            "has_struct_size": fields[0]["name"] == "struct_size" if fields else False,
            "comment": struct.comment, "fields": fields}


# ---- Functions

def describe_parameter(parameter, names, nullable, versioned, text, known):
    """`versioned`: the structs that the call fills up to their struct_size."""
    kind, name = parameter.type, parameter.name
    target = kind[:-1].strip()  # of a pointer
    one = {"name": name, "type": kind}
    one.update(describe_value(name, text, "void *" if text.startswith("`") else
                              target if kind.endswith("*") else kind, known))
    describe_number(one, text, known)
    describe_text(one)
    if text and one.keys() <= {"name", "type"} or one.get("count", 0) not in [*names, *range(4096)]:
        sys.exit(f"the label Values says of {name}: {text}")
    if "*" not in kind:
        return one
    is_const = target.endswith("const") or target.startswith("const ") and "*" not in target
    base = target.replace("const ", "").replace("struct ", "")
    # Handles, addresses and texts are inputs. The call fills every other target that is not const.
    is_opaque = base in known.opaque
    if parameter.returns or is_opaque or is_const or base == "void":
        one["direction"] = "in"
    else:
        one["direction"] = "inout" if target in versioned else "out"
    one["nullable"] = name in nullable or name == "error" or kind == "struct CUstream_st *"
    if not parameter.returns:
        describe_pointer(one, known)
    return one


def describe_function(function, comment, of_comment, defaults, versioned, known, callbacks):
    """`of_comment`: the names of the parameters of all functions that share the comment."""
    names = [one.name for one in function.variables]
    about, given = split(comment)
    given = {label: words(text) for label, text in given}
    nullable = re.findall(r"`(\w+)`", given.get("NULL", ""))
    unknown = set(nullable) - of_comment
    if unknown:
        sys.exit(f"{function.name} has no parameter {', '.join(sorted(unknown))} that may be NULL")
    returns_status = function.returns == "int32_t" and not given.get("Errors", "").startswith("none")
    if function.returns == "void":
        versioned = set()  # a call that cannot refuse a struct_size overwrites it
    values = values_of(given.get("Values", ""))
    unknown = set(values) - of_comment - {"returned"}
    if unknown or "Values" in given and not values:
        sys.exit(f"{function.name}: the label Values is not understood, or names no parameter: {given['Values']}")
    result = {"name": function.name, "returns": function.returns, "returns_status": returns_status}
    if returns_status:
        result["returns_constants"] = "FERRY_ERROR"
    elif "returned" in values:
        returned = describe_value("returned", values["returned"], result["returns"], known)
        result["returns_constants"] = returned["constants"]
    if function.returns.endswith("*"):
        result["returns_nullable"] = "returned" in given.get("NULL", "")
    if function.returns == "const char *":
        result["returns_is"] = "text"
    result.update(comment=plain(f"/*{about}*/"), parameters=[])
    for one in function.variables:
        described = describe_parameter(one, names, nullable, versioned, values.get(one.name, ""), known)
        if one.returns:
            described["callback"] = f"{function.name}.{one.name}"
            describe_callback(one, described["callback"], result["comment"], known, callbacks)
        result["parameters"].append(described)
    errors = with_common_errors(given.get("Errors", ""), returns_status)
    for label in LABELS[1:]:
        result[label.lower().replace("-", "_")] = errors if label == "Errors" else given.get(label, defaults[label])
    result["blocking_text"] = result["blocking"]
    result["blocking"] = blocking_class(result["blocking_text"])
    result["may_block"] = result["blocking"] != "none"
    # Calls that enqueue: the flag FERRY_COPY_NO_WAIT excludes all other waits.
    if {"options", "ticket"} <= {one.name for one in function.variables}:
        result["blocking_with_no_wait"] = "driver_lock"
    return result


# ---- Ownership

# The functions whose names say that they end something.
ENDS = re.compile(r"_(?:destroy|release|free|close|unregister)(?:_|$)")


class Ownership:
    """Adds to the pointers, handles and addresses of functions and structs what the labels Ownership say about them."""

    def __init__(self, functions, structs, opaque):
        self.functions = {one["name"]: one for one in functions}
        self.structs = {one["name"]: one for one in structs}
        self.opaque = opaque
        self.ended = []  # parameters whose object the call ends
        self.objects = {}  # {(type, the functions that end it): the functions that make it}
        self.inputs = {one["type"][6:-2] for function in functions for one in function["parameters"]
                       if re.fullmatch(r"const ferry_\w+ \*", one["type"])}

    def said_of(self, name):
        text = self.functions[name]["ownership"]
        found = {}
        for other, names in inherited_of(text):
            inherited = self.said_of(other)
            found.update({one: inherited[one] for one in names or inherited})
        found.update(ownership_of(text))
        return found

    def add(self):
        said = {name: self.said_of(name) for name in self.functions}
        for name, function in self.functions.items():
            for one in function["parameters"]:
                self.add_to_parameter(function, one, said[name])
            if "*" in function["returns"]:
                function["returns_ownership"] = ({"ownership": "static"} if function["returns"] == "const char *" else
                                                 {**said[name]["returned"], "ownership": "other"})
        for one in self.ended:
            one["ownership"] = "ended"
        for name, function in self.functions.items():
            undo = undone_by(function["ownership"])
            if undo:
                function["undone_by"] = undo
                self.add_to_ends([name], undo)
        for (_, ends), made_by in self.objects.items():
            self.add_to_ends(made_by, ends)
        objects = [{"type": kind, "made_by": made_by, "ended_by": list(ends)}
                   for (kind, ends), made_by in self.objects.items()]
        ended = {end for _, ends in self.objects for end in ends}
        ended |= {end for each in said.values() for one in each.values() for end in re.findall(r"ferry_\w+", one.get("until", ""))}
        for name in self.functions:
            if ENDS.search(name) and name not in ended:
                sys.exit(f"{name}: no label Ownership says that the function ends something: \"… is the caller's until {name}\"")
        for struct in self.structs.values():
            for one in struct["fields"]:
                self.check_field(struct, one)
        owners = [*objects, *self.functions.values(), *(one for each in self.structs.values() for one in each["fields"]),
                  *(one for each in self.functions.values() for one in each["parameters"])]
        for ends in [one[key] for one in owners for key in ("ended_by", "undone_by") if key in one]:
            ends.sort(key=lambda end: PENDING_WORK.index(self.functions[end]["pending_work"]))
        return objects

    def add_to_ends(self, makers, ends):
        """What a caller must know of the functions that end an object, or that undo a call."""
        for end in ends:
            function = self.functions[end]
            inputs = [one for one in function["parameters"] if one.get("direction", "in") == "in" and one["name"] != "error"
                      and one.get("ownership") != "ended"]
            streams = [one for one in inputs if one["type"] == "struct CUstream_st *"]
            waits = BLOCKING.index(function["blocking"]) >= BLOCKING.index("stream")
            function["pending_work"] = (pending_work(function["ownership"], streams, waits) or
                                        sys.exit(f"{end}: the label Ownership does not say what happens to pending work"))
            for one in inputs:
                if one not in streams:
                    one["of_maker"] = True
                    for maker in makers:
                        if all((one["name"], one["type"]) != (each["name"], each["type"])
                               for each in self.functions[maker]["parameters"]):
                            sys.exit(f"{end}: {maker} has no parameter {one['name']}")

    def add_to_parameter(self, function, one, said):
        kind, name = one["type"], one["name"]
        stored = kind[:-1].strip()
        base = stored.rstrip("* ").replace("struct ", "")
        is_address = stored in ("void *", "uint64_t") and name == "address"
        if kind.endswith("*") and not kind.startswith("const ") and (stored.endswith("*") and base in self.opaque or is_address):
            if name not in said:
                sys.exit(f"{function['name']}: the label Ownership does not say whose *{name} is")
        for field in [field for field in said if field.startswith(f"{name}->")]:
            struct = self.structs[kind[:-2]]
            target = next(each for each in struct["fields"] if each["name"] == field.split("->")[1])
            target.update(said[field])
            self.note_object(function["name"], target["type"], said[field])
        if "callbacks" in said and kind.startswith("const ") and base[6:] in self.structs:
            for field in self.structs[base[6:]]["fields"]:
                if "callback" in field or field["name"].endswith("_user"):
                    field.update(said["callbacks"])
        if "*" not in kind and one.get("unit") != "address" and name not in said:
            return
        memory = said.get("memory")
        if "*" not in kind and memory:
            one.update(memory)
        else:
            one.update(said.get(name, {"ownership": "call"}))
        if name in said:
            self.note_object(function["name"], stored, said[name])
        describes_memory = base[6:] in ("ferry_copy_desc", "ferry_fill_desc", "ferry_nest", "ferry_piece_list") and kind.startswith("const ")
        if describes_memory and function["returns_status"]:
            ends = memory or until("the call returns")
            one.update(memory_until=ends["until"], memory_until_is=ends["until_is"])
        if name == "ticket" and one.get("nullable") and kind.endswith("**") and not memory:
            sys.exit(f"{function['name']}: the label Ownership does not say how long the memory must live")

    def note_object(self, maker, kind, said):
        """`kind`: the type of the object. The parameters by which functions end it get their key."""
        for end in said.get("ended_by", []):
            if end not in self.functions:
                sys.exit(f"{maker}: no function {end}")
            target = next((one for one in self.functions[end]["parameters"]
                           if one["type"] == kind and (kind != "uint64_t" or one["unit"] == "address")), None)
            if target:
                self.ended.append(target)
        if said["ownership"] == "caller":
            self.objects.setdefault((kind, tuple(said["ended_by"])), []).append(maker)

    def check_field(self, struct, one):
        if "*" not in one["type"] and one.get("unit") != "address" or "ownership" in one:
            return
        if "*" in one["type"] and struct["name"] not in self.inputs:
            sys.exit(f"{struct['name']}.{one['name']}: the comment says neither \"Static\" nor \"belongs to …\"")
        one["ownership"] = "call" if struct["name"] in self.inputs else "other"


def comments_of_functions(header):
    """[(comment, its functions)]. A comment belongs to the functions that follow it without an empty line."""
    lines, found = header.text.split("\n"), []
    for function in header.functions:
        if function.comment:
            found.append((function.comment, []))
        elif not lines[function.line - 2].rstrip().endswith(";"):
            sys.exit(f"{function.name} has no comment")
        found[-1][1].append(function)
    return found


def kinds_of(groups, described):
    """Returns {group: "flags", "choice" or "number"}. No field, parameter or result has a group of numbers."""
    named = set(re.findall(r'constants": "(\w+)"', json.dumps(described)))
    return {group: "number" if group not in named else "choice" if values[0]["type"] == "int32_t" else "flags"
            for group, values in groups.items()}


def describe_group(group, kind, values):
    comment = "\n".join(one["before"] for one in values if one["before"])
    if not comment and len(values) > 1:
        sys.exit(f"{group}: there is no comment before its first constant")
    return {"group": group, "type": values[0]["type"], "kind": kind, "comment": comment,
            "since": since(first_paragraph(comment)),
            "values": [{**{key: value for key, value in one.items() if key != "before"}, "since": since(one["comment"])}
                       for one in values]}


def describe_handle(name, groups):
    """A group of constants may be values of a handle: its comment then has the cast."""
    found = {"type": f"struct {name} *", "cuda": HANDLES[name]}
    for group, values in groups.items():
        if f"(struct {name} *)(uintptr_t)" in values[0]["before"]:
            found["constants"] = group
    return found


def describe_status(text):
    """The numbers of statuses, from the Conventions."""
    said = re.search(r"0 is success, (-\d+) to (-\d+) are ferry's own errors \((\w+)_\*\), and (-\d+) - r is the status "
                     r"of the driver's CUresult r", words(text))
    if not said:
        sys.exit("the Conventions do not say which statuses are errors")
    return {"type": "int32_t", "success": 0, "errors": "negative",
            "own": {"first": int(said[1]), "last": int(said[2]), "constants": said[3]},
            "driver": {"base": int(said[4]), "status": "base - result", "driver_constants": "CUresult"}}


# ---- The two files

def text_of(folder):
    """Returns the text of the headers. Of ferry_software.h, it contains the constants and the structs."""
    *others, settings = c_headers.all_headers(folder)
    if settings.name != c_headers.OF_THE_SOFTWARE_DRIVER:
        sys.exit(f"{settings.name} comes after {c_headers.OF_THE_SOFTWARE_DRIVER}")
    text = settings.read_text(encoding="utf-8")
    found = re.search(r"/\* ferry_software_options\.links.*?\n} ferry_software_options;\n\n", text, flags=re.S)
    return c_headers.text_of(others) + "\n" + found[0]


@functools.lru_cache
def releases_of_functions():
    """{function: the release that added it}, which is the name of its node in the version script."""
    nodes = re.findall(r"^FERRY_([\d.]+) \{(.*?)^\}", VERSION_SCRIPT.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {name: release for release, body in nodes for name in re.findall(r"\bferry_\w+", body)}


def add_directions(structs, functions, callbacks):
    """Adds to each struct who fills it: "in" is the program, "out" is ferry, and "inout" is both, in different calls."""
    filled = {one["name"]: set() for one in structs}

    def add(kind, direction):
        name = kind.replace("const ", "").rstrip(" *")
        if name in filled and direction not in filled[name]:
            filled[name].add(direction)
            for one in next(one for one in structs if one["name"] == name)["fields"]:
                add(one.get("struct", one["type"]), direction)

    for one in [each for function in functions for each in function["parameters"]]:
        add(one["type"], "in" if one["type"].startswith("const ") else "out")
    for one in [each for callback in callbacks for each in callback["parameters"]]:
        add(one["type"], "out")
    for one in structs:
        one["direction"] = "inout" if len(filled[one["name"]]) == 2 else filled[one["name"]].pop()


def describe(folder=c_headers.FOLDER):
    header = Header(text_of(folder))
    known = Known(*find_constants(header), header.units, header.opaque)
    groups = known.groups
    defaults = defaults_of(header.text)
    callbacks, structs, functions = [], [], []
    for one in header.structs:
        structs.append(describe_struct(one, known, callbacks, structs))
    versioned = {one["name"] for one in structs if one["has_struct_size"]}
    for comment, of in comments_of_functions(header):
        names = {one.name for function in of for one in function.variables}
        functions += [describe_function(one, comment, names, defaults, versioned, known, callbacks)
                      for one in of]
    since = releases_of_functions()
    try:
        calls = driver_calls.calls_of([one["name"] for one in functions])
    except ValueError as problems:
        sys.exit(str(problems))
    for one in functions:
        if one["name"] not in since:
            sys.exit(f"{one['name']} is in no node of {VERSION_SCRIPT.name}")
        one.update(driver=calls[one["name"]], since=since[one["name"]])
    add_directions(structs, functions, callbacks)
    objects = Ownership(functions, structs, header.opaque).add()
    kinds = kinds_of(groups, [structs, callbacks, functions])
    return {
        "about": "The C interface of ferry, made from the C headers by tools/describe.py. docs/languages.md explains it.",
        "schema": SCHEMA,
        "version": ".".join(str(one["value"]) for one in groups["FERRY_VERSION"]),
        "status": describe_status(header.text),
        "blocking": BLOCKING,
        "handles": [describe_handle(name, groups) for name in header.opaque if name in HANDLES],
        "opaque": [name for name in header.opaque if name not in HANDLES],
        "objects": objects,
        "constants": [describe_group(group, kinds[group], values) for group, values in groups.items()],
        "callbacks": callbacks, "structs": structs, "functions": functions}


def declarations(text, groups):
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    code = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", code, flags=re.S)
    code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*\n", "", code, flags=re.M).replace("FERRY_API ", "")
    code = re.sub(r"[ \t]+$", "", code, flags=re.M)
    code = re.sub(r"\n{2,}", "\n", code).strip()
    constants = "\n".join(f"static const {one['type']} {one['name']} = {one['value']};"
                          for group in groups for one in group["values"])
    return ("/* The C headers without comments and directives, for cffi's cdef and LuaJIT's ffi.cdef. Made by tools/describe.py:\n"
            f" * do not edit. */\n{constants}\n{code}\n")


def main():
    folder, *files = map(Path, sys.argv[1:])
    described = describe(folder)
    texts = [json.dumps(described, indent=1, ensure_ascii=False) + "\n",
             declarations(text_of(folder), described["constants"])]
    for file, text in zip(files, texts):
        file.write_text(text, encoding="utf-8")
    if not files:
        sys.stdout.write(texts[0])


if __name__ == "__main__":
    main()
