#!/usr/bin/env python3
"""Checks the layers of src: which folder may include which, and what code there may not do. layers.py [SRC]"""
import re
import sys
from pathlib import Path

# Top to bottom: a folder may include those above it, and itself.
ORDER = [
    "base", "system", "kernels", "driver", "device", "memory", "copy", "plan",
    "exec", "staging", "links", "routes", "calibrate", "submit", "batch", "api",
]
ALLOWED = {folder: set(ORDER[: i + 1]) for i, folder in enumerate(ORDER)}
# The kernels are also compiled for GPUs.
ALLOWED["kernels"] = {"kernels"}
# The software driver is a library of its own, which is reached through the table like any other driver.
ALLOWED["softdriver"] = {"base", "system", "kernels", "driver", "softdriver"}

# Who meets structs of a caller's size, and exports: the interfaces of ferry and of the software driver.
INTERFACES = {"api", "softdriver"}
SIZED = "base/sized.h"
EXPORT = re.compile(r'\bextern\s*""')

PURE = {"copy", "plan"}
DRIVER_CALL = re.compile(r"\bcu[A-Z]\w*\s*\(")
# The library writes nowhere but to its log callback, reads no environment and never ends the process.
FORBIDDEN = re.compile(
    r"\b(?:getenv|secure_getenv|setenv|putenv|exit|_exit|_Exit|quick_exit|abort|terminate"
    r"|printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|perror|fwrite)\s*\("
    r"|\bstd::(?:cout|cerr|clog)\b"
)


def without_comments_and_strings(text):
    def blank(match):
        return "\n" * match.group().count("\n") if match.group().startswith("/") else '""'

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def problems_of(file, folder):
    text = file.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if not include:
            continue
        target = include.group(1).split("/")[0] if "/" in include.group(1) else folder
        if target not in ALLOWED[folder] | {"ferry"}:
            yield number, f"{folder} may not include {target}"
        if include.group(1) == SIZED and folder not in INTERFACES:
            yield number, f"{folder} may not include {SIZED}"
    for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
        if folder in PURE and DRIVER_CALL.search(line):
            yield number, f"{folder} may not call the driver"
        if EXPORT.search(line) and folder not in INTERFACES | {"kernels"}:
            yield number, f"{folder} may not export"
        forbidden = FORBIDDEN.search(line) if folder != "softdriver" else None
        if forbidden:
            yield number, f"{forbidden.group().rstrip('( ')} is not allowed in the library"


def main(source):
    count = 0
    files = sorted(file for file in source.rglob("*") if file.suffix in {".h", ".cpp", ".inc", ".cu", ".cuh"})
    for file in files:
        folder = file.relative_to(source).parts[0]
        if folder not in ALLOWED:
            print(f"{file}: {folder} is not in the list of folders")
            count += 1
            continue
        for number, problem in problems_of(file, folder):
            print(f"{file}:{number}: {problem}")
            count += 1
    print(f"{len(files)} files, {count} problems")
    return 1 if count or not files else 0


sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "src")))
