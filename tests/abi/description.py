#!/usr/bin/env python3
"""ferry.json and ferry.ffi.h are what the library does: description.py DESCRIPTION DECLARATIONS SHARED_LIBRARY

Every function is called with NULL for each pointer in turn. It refuses a NULL exactly where the description says so. If
cffi is installed, it reads the declarations, and finds the same values and sizes.
"""
import ctypes
import json
import sys
from ctypes import c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p

description_file, declarations_file, library_file = sys.argv[1:]
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


# ---- Structs: their fields lie where the description says

for one in structs.values():
    end = 0
    for field in one["fields"]:
        check(end <= field["offset"] < end + one["align"], f"{one['name']}.{field['name']} leaves a gap or overlaps")
        end = field["offset"] + field["size"]
    check(end <= one["size"] < end + one["align"], one["name"], "has another size")

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
    if kind in ("ferry_instance *", "const ferry_instance *"):
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
        if parameter["nullable"] or any(f"{name} *" in others for name in description["opaque"][1:]):
            continue
        if not function["returns_status"]:
            continue
        status = call(function, parameter["name"])
        refused += 1
        check(status == INVALID_ARGUMENT, f"{function['name']} returns {status} for a NULL {parameter['name']}")
check(refused > 150, "only", refused, "NULLs were tried")
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
