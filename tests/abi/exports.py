#!/usr/bin/env python3
"""Checks that the headers, the version script, the shared and the static library have exactly the same functions. The static library
must hide them from other parts of a process, and the shared library must call its own.

exports.py HEADER_OR_FOLDER VERSION_SCRIPT SHARED_LIBRARY STATIC_LIBRARY
"""
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import c_headers  # noqa: E402

problems = []


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def code_of(text):
    """Returns the header without preprocessor lines."""
    return re.sub(r"^\s*#(?:.*\\\n)*.*$", "", without_comments(text), flags=re.M)


def declared_in_header(header):
    includes = set(re.findall(r"#\s*include\s*[<\"]([^>\"]+)", without_comments(header)))
    for name in includes - {"stddef.h", "stdint.h"}:
        problems.append(f"the header includes <{name}>")
    code = code_of(header)
    functions = re.findall(r"\bFERRY_API\b[^;]*?\b(\w+)\s*\([^;]*\)\s*;", code)
    if len(functions) != len(re.findall(r"\bFERRY_API\b", code)):
        problems.append("the header has a FERRY_API that this script cannot read as a function")
    return set(functions)


def read_version_script(script):
    """Maps each function to its node, such as {"ferry_open": "FERRY_0.1"}."""
    nodes = {}
    for node, body in re.findall(r"([\w.]+)\s*\{(.*?)\}", without_comments(script), flags=re.S):
        listed = re.search(r"global:(.*?)(?:local:|$)", body, flags=re.S)
        for name in re.findall(r"\w+", listed.group(1) if listed else ""):
            if name in nodes:
                problems.append(f"{name} is in {nodes[name]} and in {node}")
            nodes[name] = node
    return nodes


def nm(*arguments):
    output = subprocess.run(["nm", "--defined-only", *arguments], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        fields = line.split()
        if len(fields) == 3:
            yield fields[1], fields[2]


def exported_by(shared):
    """Maps each function to its node. The nodes themselves are absolute symbols, not exports."""
    exports = {}
    for kind, name in nm("-D", "--with-symbol-versions", shared):
        if kind == "A":
            continue
        name, _, node = name.partition("@@")
        exports[name] = node
    return exports


def check_visibility(shared, static):
    """Checks that another ferry in the process cannot see the static library or replace functions of the shared one."""
    for line in readelf("-s", static):
        fields = line.split()
        if len(fields) == 8 and fields[4] in {"GLOBAL", "WEAK"} and fields[6] != "UND" and fields[5] != "HIDDEN":
            problems.append(f"{fields[7]} of the static library is not hidden")
    for line in readelf("-r", shared):
        called = re.search(r"\bferry_\w+", line)
        if called:
            problems.append(f"the shared library calls {called.group()} through the PLT: others can replace it")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout.splitlines()


def compare(what, found, expected):
    problems.extend(f"{what} lacks {name}" for name in sorted(expected - found))
    problems.extend(f"{what} has {name}, which no header declares" for name in sorted(found - expected))


def main(header, script, shared, static):
    header = Path(header)
    declared = declared_in_header(c_headers.text_of(c_headers.headers_of_ferry(header) if header.is_dir() else [header]))
    nodes = read_version_script(Path(script).read_text())
    exports = exported_by(shared)
    compare("the version script", set(nodes), declared)
    compare("the shared library", set(exports), declared)
    compare("the static library", {name for _, name in nm("-g", static)}, declared)
    check_visibility(shared, static)
    for name in sorted(set(nodes) & set(exports)):
        if nodes[name] != exports[name]:
            problems.append(f"{name} is exported in node '{exports[name]}', the version script says '{nodes[name]}'")
    print(f"{len(declared)} functions in the headers")
    if not declared:
        problems.append("no function found in the headers")
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
