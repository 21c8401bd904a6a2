#!/usr/bin/env python3
"""Header, version script, shared and static library must name the same functions, no more and no fewer.

exports.py HEADER VERSION_SCRIPT SHARED_LIBRARY STATIC_LIBRARY
"""
import re
import subprocess
import sys
from pathlib import Path

problems = []


def declared_in_header(header):
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    includes = set(re.findall(r"#\s*include\s*[<\"]([^>\"]+)", text))
    for name in includes - {"stddef.h", "stdint.h"}:
        problems.append(f"the header includes <{name}>")
    code = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    functions = re.findall(r"\bFERRY_API\b[^;]*?\b(\w+)\s*\([^;]*\)\s*;", code)
    if len(functions) != len(re.findall(r"\bFERRY_API\b", code)):
        problems.append("the header has an FERRY_API that this script cannot read as a function")
    return set(functions)


def read_version_script(script):
    """Function to node, such as {"ferry_open": "FERRY_0.1"}."""
    nodes = {}
    text = re.sub(r"/\*.*?\*/", "", script, flags=re.S)
    for node, body in re.findall(r"([\w.]+)\s*\{(.*?)\}", text, flags=re.S):
        listed = re.search(r"global:(.*?)(?:local:|$)", body, flags=re.S)
        for name in re.findall(r"\w+", listed.group(1) if listed else ""):
            nodes[name] = node
    return nodes


def nm(*arguments):
    output = subprocess.run(["nm", "--defined-only", *arguments], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        fields = line.split()
        if len(fields) == 3:
            yield fields[1], fields[2]


def exported_by(shared):
    """Function to node; the nodes themselves are absolute symbols and no exports."""
    exports = {}
    for kind, name in nm("-D", "--with-symbol-versions", shared):
        if kind == "A":
            continue
        name, _, node = name.partition("@@")
        exports[name] = node
    return exports


def compare(what, found, expected):
    problems.extend(f"{what} lacks {name}" for name in sorted(expected - found))
    problems.extend(f"{what} has {name}, which the header does not declare" for name in sorted(found - expected))


def main(header, script, shared, static):
    declared = declared_in_header(Path(header).read_text())
    nodes = read_version_script(Path(script).read_text())
    exports = exported_by(shared)
    compare("the version script", set(nodes), declared)
    compare("the shared library", set(exports), declared)
    compare("the static library", {name for _, name in nm("-g", static)}, declared)
    for name in sorted(set(nodes) & set(exports)):
        if nodes[name] != exports[name]:
            problems.append(f"{name} is exported in node '{exports[name]}', the version script says '{nodes[name]}'")
    print(f"{len(declared)} functions in the header")
    if not declared:
        problems.append("no function found in the header")
    print(*problems, sep="\n")
    return 1 if problems else 0


sys.exit(main(*sys.argv[1:]))
