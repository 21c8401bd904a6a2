#!/usr/bin/env python3
"""ferry.json and ferry.ffi.h are what the headers say and the library does:
description.py FOLDER_OF_HEADERS DESCRIPTION DECLARATIONS SHARED_LIBRARY CC...

The C compiler finds the same constants, structs, fields, offsets and types in the headers. Every value is described: flags
and constants have their group, arrays their length, numbers their unit, pointers and handles their owner, and
callbacks their threads. The generator refuses headers that lack one of these. Every function is called with NULL for
each pointer in turn. It refuses a NULL exactly where the description says so. If cffi is installed, it reads the declarations, and finds the same
values and sizes.
"""
import ctypes
import json
import re
import shutil
import subprocess
import sys
import tempfile
from ctypes import c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path

import exports

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("docs", "tools")]
import c_headers  # noqa: E402
import describe  # noqa: E402
from labels import BLOCKING, PENDING_WORK, UNTIL, blocking_class  # noqa: E402

folder, description_file, declarations_file, library_file, *compiler = sys.argv[1:]
settings = Path(folder) / c_headers.OF_THE_SOFTWARE_DRIVER  # its constants and structs are described too
with open(description_file, encoding="utf-8") as file:
    description = json.load(file)
library = ctypes.CDLL(library_file)
TYPES = {"int32_t": c_int32, "uint32_t": c_uint32, "int64_t": c_int64, "uint64_t": c_uint64, "uint8_t": c_uint8,
         "char": ctypes.c_char, "float": ctypes.c_float, "void": None}
INVALID_ARGUMENT = -1
problems = []
structs = {one["name"]: one for one in description["structs"]}
constants = {one["name"]: one["value"] for group in description["constants"] for one in group["values"]}


def check(condition, *told):
    if not condition:
        problems.append(" ".join(map(str, told)))


# ---- The headers, as a C compiler reads them


def compile_c(*options, source=""):
    return subprocess.run([*compiler, "-x", "c", "-std=gnu11", *options, "-"], input=f'#include "{folder}/ferry_all.h"\n{source}',
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def same_type(expression, kind):
    return f"_Static_assert(__builtin_types_compatible_p(__typeof__({expression}), {kind}), \"{expression}\");"


def field_type(one):
    return f"{one['type']}[{one['count']}]" if isinstance(one.get("count"), int) and "*" not in one["type"] else one["type"]


def statements():
    for name, value in constants.items():
        yield f'_Static_assert({name} == {value}, "{name}");'
    for group in description["constants"]:
        for one in group["values"]:
            yield same_type(one["name"], one["type"])
    for name, one in structs.items():
        yield f'_Static_assert(sizeof({name}) == {one["size"]} && _Alignof({name}) == {one["align"]}, "{name}");'
        end = 0
        for field in one["fields"]:
            member = f"(({name} *)0)->{field['name']}"
            yield (f'_Static_assert(offsetof({name}, {field["name"]}) == {field["offset"]} && '
                   f'sizeof({member}) == {field["size"]}, "{name}.{field["name"]}");')
            yield same_type(member, field_type(field))
            check(end <= field["offset"] < end + one["align"], f"a field is missing before {name}.{field['name']}")
            end = field["offset"] + field["size"]
        check(end <= one["size"] < end + one["align"], f"a field is missing at the end of {name}")
    for function in description["functions"]:
        parameters = ", ".join(one["type"] for one in function["parameters"]) or "void"
        yield same_type(function["name"], f"{function['returns']}({parameters})")


check(not (complaint := compile_c("-fsyntax-only", source="\n".join(statements()))), "the compiler says:\n", complaint)
text = c_headers.text_of(c_headers.headers_of_ferry(folder))
check({one["name"] for one in description["functions"]} == exports.declared_in_header(text), "functions are missing")
defined = set(re.findall(r"^#define (FERRY_\w+) .", compile_c("-E", "-dM"), flags=re.M)) - {"FERRY_API"}
check(set(constants) == defined, "constants are missing or none:", *set(constants) ^ defined)
code = exports.code_of(text + settings.read_text(encoding="utf-8"))
named = set(re.findall(r"\b(?:struct|\}) (ferry_\w+)\b", code))
check({*structs, *description["opaque"]} == named, "structs are missing:", *named - {*structs, *description["opaque"]})

# ---- Values: what a generator needs to know of each

# Numbers that stand alone: no field, parameter or result takes them as its choices.
NUMBERS = {"FERRY_VERSION", "FERRY_NEST", "FERRY_STATUS_DRIVER_BASE", "FERRY_DEVICE", "FERRY_DEFAULT_STREAM",
           "FERRY_IPC_HANDLE_SIZE", "FERRY_NO", "FERRY_FILE_ENDED", "FERRY_FILE_CANCELLED"}
groups = {one["group"]: one for one in description["constants"]}
callbacks = {one["name"]: one for one in description["callbacks"]}
owners = [("fields of", one["name"], one["fields"]) for one in description["structs"]]
owners += [("parameters of", one["name"], one["parameters"]) for one in description["functions"] + description["callbacks"]]

for group in groups.values():
    check({one["type"] for one in group["values"]} == {group["type"]}, group["group"], "has constants of two types")
    check((group["kind"] == "number") == (group["group"] in NUMBERS), group["group"], "is named by no field, parameter or "
          "result: name it where its constants are taken, or list it in NUMBERS")
for what, owner, values in owners:
    names = {one["name"] for one in values}
    for one in values:
        told = f"{what} {owner}: {one['name']}"
        kind, meaning = one["type"], one.get("constants")
        check(meaning is None or meaning in groups, told, "has constants of a group that does not exist")
        if one["name"] == "flags" or one["name"].endswith("_flags"):
            check(meaning and groups[meaning]["kind"] == "flags" or "driver_constants" in one,
                  told, "names no group of flags")
        is_pointer_to_number = re.fullmatch(r"const u?int(8|32|64)_t \*", kind)
        check(not is_pointer_to_number or "count" in one, told, "is an array without a length")
        check(not isinstance(one.get("count"), str) or one["count"] in names, told, "counts by what does not exist")
        check("(*)" not in kind or one.get("callback") in callbacks, told, "is a callback without a description")
        check(kind != "char *" or "count" in one, told, "is text without a length")
        check((one.get("is") == "text") == bool(re.fullmatch(r"(const )?char( \*)?", kind)), told, "is text or not")
        if re.match(r"is_|can_|has_", one["name"]):
            check(one.get("is") == "flag", told, 'does not begin with "1: "')
for function in description["functions"]:
    check("*" not in function["returns"] or "returns_nullable" in function, function["name"], "may return NULL or not")
    check((function["returns"] == "const char *") == (function.get("returns_is") == "text"), function["name"], "returns text?")
    check(not function["returns_status"] or function["returns"] == "int32_t", function["name"], "returns no status")

check(next(one for one in structs["ferry_options"]["fields"] if one["name"] == "driver_options")["struct"] in structs,
      "driver_options points to no struct")
check(description["schema"] == describe.SCHEMA and description["blocking"] == BLOCKING, "no schema, or no classes of blocking")
# Every key is documented.
documented = (Path(__file__).resolve().parents[2] / "docs/languages.md").read_text(encoding="utf-8")
keys = {key for one in [*description["functions"], *description["structs"], *description["callbacks"], *groups.values(),
                        *description["objects"], *description["handles"]] for key in one}
keys |= {key for _, _, values in owners for one in values for key in one} | description.keys()
keys |= {key for group in groups.values() for one in group["values"] for key in one}
obvious = {"name", "type", "comment", "value", "values", "parameters", "fields", "returns", "about", "cuda", "align"}
check(not (missing := {key for key in keys - obvious if f"`{key}`" not in documented}), "docs/languages.md lacks the keys", missing)

# ---- Ownership, units, callbacks, statuses

function_names = {one["name"] for one in description["functions"]}
UNITS = {"address", "bytes", "rows", "slices", "texels", "nanoseconds", "milliseconds", "mb_per_s", "device", "count", "index",
         "number", "handle"}
for what, owner, values in owners:
    for one in values:
        told = f"{what} {owner}: {one['name']}"
        if re.fullmatch(r"(const )?u?int(32|64)_t( \*)?", one["type"]):
            has_meaning = one.keys() & {"constants", "driver_constants", "is"}
            check(("unit" in one) != bool(has_meaning) and one.get("unit", "count") in UNITS, told, "has no unit, or a unit besides", has_meaning)
        if "*" not in one["type"] and one.get("unit") != "address":
            continue
        ownership = one.get("ownership")
        check(ownership in ("call", "kept", "ended", "caller", "other", "static"), told, "has no owner")
        check(ownership != "kept" or "until" in one, told, "is kept without an end")
        for key in ("until", "memory_until"):
            check((key in one) == (f"{key}_is" in one) and one.get(f"{key}_is", "call") in UNTIL, told, "until what?", one.get(key))
        check(ownership != "caller" or "ended_by" in one, told, "cannot be ended")
        for end in one.get("ended_by", []):
            check(end in function_names, told, "is ended by", end, "which does not exist")
enders = {end for one in description["objects"] for end in one["ended_by"]}
undoers = {end for one in description["functions"] for end in one.get("undone_by", [])}
check({"ferry_host_unregister", "ferry_peer_disable", "ferry_context_pop"} <= undoers, "only", undoers, "undo a call")
for function in description["functions"]:
    ends = [one["name"] for one in function["parameters"] if one.get("ownership") == "ended"]
    # The object or what the maker got names the object. A stream is the program's choice, and outputs are no arguments.
    named = [one["name"] for one in function["parameters"] if one.get("of_maker")]
    others = [one["name"] for one in function["parameters"] if one["name"] not in [*ends, *named] and
              (one["type"], one["name"]) != ("struct CUstream_st *", "stream") and one.get("direction") not in ("out", "inout")]
    is_end = function["name"] in enders | undoers
    check(bool(ends or named) == is_end and (not is_end or not others), function["name"], "ends", ends, named, others)
    check(("pending_work" in function) == is_end, function["name"], "does something to pending work, or ends nothing")
pending_work = {one["name"]: one.get("pending_work") for one in description["functions"]}
values_of_all = [one for _, _, values in owners for one in values]
for ends in [one[key] for one in [*description["objects"], *description["functions"], *values_of_all]
             for key in ("ended_by", "undone_by") if key in one]:
    kinds = [PENDING_WORK.index(pending_work[end]) for end in ends]
    check(kinds == sorted(kinds), ends, "are in another order than documented")
for function in description["functions"]:
    if "*" in function["returns"]:
        check(function["returns_ownership"]["ownership"] in ("static", "other"), function["name"], "returns whose pointer?")
made = {one["type"] for one in description["objects"]}
types = [one["type"] for one in description["handles"]] + [f"{name} *" for name in description["opaque"]]
# A later version makes files. Graphs are the program's, and their nodes belong to them.
of_others = {"ferry_file *"} | {f"struct {name} *" for name in ("CUgraph_st", "CUgraphNode_st", "CUgraphExec_st")}
check(made >= set(types) - of_others, "nothing makes", *set(types) - made - of_others)
for one in callbacks.values():
    check(set(one["threads"]) <= {"caller", "ferry", "driver", "program"} and one["threads"], one["name"], "runs on no thread")
    check("*" not in one["returns"] or one["returns_ownership"]["until"], one["name"], "returns what ferry keeps without an end")
    check(set(one["must_not_call"]) <= {"ferry", "driver"}, one["name"], "must not call", one["must_not_call"])
for group in groups.values():
    check(group["comment"] or len(group["values"]) == 1, group["group"], "has no comment")
status = description["status"]
check(status["driver"]["base"] == constants["FERRY_STATUS_DRIVER_BASE"], "the base of the driver's statuses differs")
for one in groups[status["own"]["constants"]]["values"]:
    check(one["value"] == status["success"] or status["own"]["last"] <= one["value"] <= status["own"]["first"], one["name"],
          "is outside of the range of ferry's own statuses")

# What the generator refuses: a header without the information, and its complaint.
INCOMPLETE = [
    ("ferry.h", " * Ownership:     *stream, a CUstream, is the caller's until ferry_stream_destroy.\n", "", "whose *stream is"),
    ("ferry.h", "until ferry_stream_destroy.", "until ferry_stream_end.", "no function ferry_stream_end"),
    ("ferry.h", "until ferry_prepared_destroy or ferry_prepared_destroy_deferred", "until ferry_prepared_destroy",
     "ferry_prepared_destroy_deferred: no label Ownership says"),
    ("ferry.h", "the memory must live until the copy is complete; *ticket", "*ticket", "how long the memory must live"),
    ("ferry.h", "the stream is gone; its work continues.", "the stream is gone.", "what happens to pending work"),
    ("ferry.h", " * Ownership:     the stream is gone; its work continues.\n", "", "what happens to pending work"),
    ("ferry_devices.h", "ferry_context_release_primary(ferry_instance *instance, int32_t device,",
     "ferry_context_release_primary(ferry_instance *instance, int32_t peer,", "has no parameter peer"),
    ("ferry.h", "must live until the copy is complete, and", "must live until all is well, and", "labels.UNTIL has no such event"),
    ("ferry.h", "/* belongs to the program */", "", "ferry_trace_event.stream"),
    ("ferry.h", "int32_t context_device; ", "int32_t context_gpu; ", "context_gpu: the Conventions give it the units []"),
    ("ferry.h", "uint64_t begin_ns; ", "uint64_t begin;", "begin: the Conventions give it the units []"),
    ("ferry.h", "0: 256 GiB */", "0 means 256 GiB */", "instead of \"0 means"),
    ("ferry.h", "nowhere else. Threads: caller; must not call ferry.", "nowhere else.", "ferry_options.log: the comment lacks"),
    ("ferry.h", "stay valid until `deallocate`.", "", "how long must the result stay valid"),
    ("ferry_event.h", "/* Flags of ferry_event_create. */\n", "", "FERRY_EVENT: there is no comment"),
    ("ferry.h", "0 is success, -1 to -999", "0 is success, -1 and below", "which statuses are errors"),
]
for name, old, new, complaint in INCOMPLETE:
    with tempfile.TemporaryDirectory() as copy:
        for header in [*c_headers.all_headers(folder), Path(folder) / "ferry_all.h"]:
            shutil.copy(header, copy)
        text = (Path(copy) / name).read_text(encoding="utf-8")
        check(old in text, name, "no longer contains", old)
        (Path(copy) / name).write_text(text.replace(old, new), encoding="utf-8")
        try:
            describe.describe(copy)
            check(False, "the generator accepts", name, "without", old.strip())
        except SystemExit as refused:
            check(complaint in str(refused), "the generator says:", refused)

# ---- Structs that a call overwrites

setters = {one["name"]: {parameter["name"]: parameter["direction"] for parameter in one["parameters"]
                         if "direction" in parameter}
           for one in description["functions"] if one["returns"] == "void" and one["parameters"]}
for name, parameter in (("ferry_piece_list_set", "list"), ("ferry_piece_list_set_arrays", "list"),
                        ("ferry_copy_desc_set", "copy"), ("ferry_place_any", "place"), ("ferry_place_file", "place"),
                        ("ferry_fill_desc_init", "fill")):
    check(setters[name][parameter] == "out", name, "overwrites the whole", parameter)

# ---- Pointers of structs, and the work that a ticket reports

for one in description["structs"]:
    check(one["direction"] in ("in", "out", "inout"), one["name"], "is not filled by the program or by ferry")
    for field in one["fields"]:
        told = f"{one['name']}.{field['name']}"
        is_pointer = "*" in field["type"]
        check(is_pointer == ("nullable" in field), told, "may be NULL or not")
        check(not is_pointer or "callback" in field or field.keys() & {"is", "struct", "count"} or
              field["type"].startswith("const ferry_"), told, "points to what?")
        check(re.fullmatch(r"\d+\.\d+", field["since"]), told, "is since", field["since"])
        for special in field.get("special", []):
            name = special.get("name", "NULL")
            check(name in ("NULL", "UINT32_MAX", "UINT64_MAX") or name in constants, told, "has the unknown value", name)
            check(not name.startswith("FERRY_") or "constants" not in field or
                  name in (each["name"] for each in groups[field["constants"]]["values"]), told, "cannot be", name)
            check(special.get("is_default", False) == (one["name"].endswith("_options") and special["value"] == 0), told,
                  "has another default")
for function in description["functions"]:
    if any(one.get("memory_until_is", one.get("until_is")) == "work" for one in function["parameters"]):
        check(any(one["name"] in ("ticket", "prepared") for one in function["parameters"]), function["name"],
              "keeps memory until its work is complete, and nothing reports this")
changed = Path(folder, "ferry.h").read_text(encoding="utf-8").replace("/* bytes */\n    uint64_t height;", "/* bytes; since 0.8 */\n"
                                                                      "    uint64_t height;", 1)
copy_of_struct = next(one for one in describe.Header(changed).structs if one.name == "ferry_copy_desc")
check([describe.since(one.comment) for one in copy_of_struct.variables][2:4] == ["0.8", "0.7"], "the release of a field is not read")

# ---- Functions: since, and the names of structs

node_of = exports.exported_by(library_file)
for function in description["functions"]:
    check(node_of.get(function["name"]) == f"FERRY_{function['since']}", f"{function['name']} is said to be since "
          f"{function['since']}, and is in the node {node_of.get(function['name'])} of the library")
    for one in function["parameters"]:
        kind = re.fullmatch(r"const ferry_(?:\w+_)?(desc|options) \*", one["type"])
        if kind and "count" not in one:
            check(one["nullable"] == (kind[1] == "options"), f"{function['name']}: {one['name']} is a {one['type']}, and may "
                  f"{'' if one['nullable'] else 'not '}be NULL")

# ---- Functions: blocking

for function in description["functions"]:
    check(function["blocking"] in BLOCKING, f"{function['name']}: the label Blocking begins with no class:",
          function["blocking_text"])
    check(function["may_block"] == (function["blocking"] != "none"), function["name"], "may block or not")
without_waits = {function["name"] for function in description["functions"] if "blocking_with_no_wait" in function}
check(without_waits == {"ferry_copy_async", "ferry_copy_bytes_async", "ferry_copy_batch_async", "ferry_copy_nests_async",
                        "ferry_copy_pieces_async",
                        "ferry_prepared_launch", "ferry_fill_async"}, "calls that enqueue:", sorted(without_waits))
for text_of_label in re.findall(r"^ \* Blocking: +(.*)", settings.read_text(encoding="utf-8"), flags=re.M):
    check(blocking_class(text_of_label), f"{settings.name}: the label Blocking begins with no class:", text_of_label)

# ---- Functions: NULL

instance = c_void_p()
options = (ctypes.c_char * structs["ferry_options"]["size"])()
ctypes.memmove(options, bytes(c_uint32(structs["ferry_options"]["size"])), 4)
ctypes.memmove(ctypes.addressof(options) + 4, bytes(c_int32(constants["FERRY_DRIVER_SOFTWARE"])), 4)
library.ferry_open.argtypes = [c_void_p] * 3
assert library.ferry_open(options, ctypes.byref(instance), None) == 0


def argument(parameter, is_null):
    """A value that is right as far as it can be without knowing the function: zeros, with struct_size set."""
    kind = parameter["type"]
    if "*" not in kind:
        return TYPES[kind](0)
    if is_null or kind == "struct CUstream_st *":
        return c_void_p()
    if kind == "ferry_instance *":
        return instance
    room = ctypes.create_string_buffer(8192)
    one = structs.get(kind.replace("const ", "").replace(" *", ""))
    if one and one["has_struct_size"]:
        ctypes.memmove(room, bytes(c_uint32(one["size"])), 4)
    return room


def call(function, null):
    called = getattr(library, function["name"])
    called.restype = c_void_p if "*" in function["returns"] else TYPES[function["returns"]]
    called.argtypes = None
    return called(*(argument(one, one["name"] == null) for one in function["parameters"]))


refused = 0
for function in description["functions"]:
    check(hasattr(library, function["name"]), "the library lacks", function["name"])
    kinds = [one["type"] for one in function["parameters"]]
    for parameter in function["parameters"]:
        if "nullable" not in parameter or function["name"] in ("ferry_close", "ferry_open"):
            continue
        # A stand-in for one of ferry's own objects would be followed, and be none.
        others = [one["type"] for one in function["parameters"] if one is not parameter]
        if parameter["nullable"] or any(f"{name} *" in others for name in description["opaque"] if name != "ferry_instance"):
            continue
        if not function["returns_status"]:
            continue
        status = call(function, parameter["name"])
        refused += 1
        check(status == INVALID_ARGUMENT, f"{function['name']} returns {status} for a NULL {parameter['name']}")
check(refused > 150, "only", refused, "NULLs were tried")

# ---- Constants: a copy takes exactly the values that can be passed

for option in structs["ferry_copy_options"]["fields"]:
    group = groups.get(option.get("constants"), {"kind": "none", "values": []})
    for value in {one["value"] for one in group["values"] if group["kind"] == "choice"}:
        room, place = (ctypes.create_string_buffer(structs[one]["size"]) for one in ("ferry_copy_options", "ferry_copy_desc"))
        ctypes.memmove(room, bytes(c_uint32(len(room))), 4)
        ctypes.memmove(ctypes.addressof(room) + option["offset"], bytes(c_int32(value)), 4)
        library.ferry_copy.argtypes = [c_void_p] * 4
        is_refused = library.ferry_copy(instance, place, room, None) == constants["FERRY_ERROR_UNSUPPORTED"]
        can_pass = any(one["value"] == value and one.get("use", "passed") == "passed" for one in group["values"])
        check(is_refused != can_pass, f"ferry_copy {'refuses' if is_refused else 'takes'} {option['name']} {value}")
library.ferry_close.argtypes = [c_void_p]
library.ferry_close(instance)

# ---- Declarations

with open(declarations_file, encoding="utf-8") as file:
    declarations = file.read()
try:
    import cffi
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    loaded = ffi.dlopen(library_file)
    for name, value in constants.items():
        check(getattr(loaded, name) == value, name, "is", getattr(loaded, name), "for cffi")
    for name, one in structs.items():
        check(ffi.sizeof(name) == one["size"], name, "has another size for cffi")
    for function in description["functions"]:
        check(getattr(loaded, function["name"]) is not None, function["name"])
    read_by = "cffi reads the declarations"
except ImportError:
    read_by = "cffi is not installed"
print(*problems, f"{len(description['functions'])} functions, {len(structs)} structs, {len(constants)} constants; "
      f"{refused} times NULL was refused; {read_by}", sep="\n")
sys.exit(1 if problems else 0)
