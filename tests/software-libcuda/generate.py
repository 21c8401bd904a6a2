#!/usr/bin/env python3
"""Writes exports.inc: one line for each function that the software libcuda.so.1 exports.

generate.py SYMBOLS_TXT ADDITIONS_INC SYMBOLS_INC EXPORTS_INC

FERRY_EXPORT(symbol, name, version, parameters, call): cuGetProcAddress finds the symbol under the name and the version,
and the function returns the call. FERRY_EXPORT_PER_THREAD is a variant whose default stream is the thread's own.
"""
import re
import sys
from pathlib import Path

ROW = re.compile(r"^FERRY_DRIVER_(?:OLDER_)?SYMBOL\(\w+, (\w+), (\d+),\s*\((.*?)\)\)$", re.MULTILINE | re.DOTALL)
OLDEST_PER_THREAD = 7000  # the first release with per-thread default streams


def read_symbols(text):
    """Maps (entry point, version) to its revision and its per-thread variant, both "" if there is none."""
    lines = filter(None, (line.split("#")[0].split() for line in text.splitlines()))
    return {(name, version): (revision.strip("-"), variant.strip("-")) for name, version, revision, variant in lines}


def export(macro, symbol, name, version, types, call):
    """The parameters are named p0, p1, ...; `call` uses these names."""
    parameters = ", ".join(f"{one} p{number}" for number, one in enumerate(types))
    return f"{macro}({symbol}, {name}, {version}, ({parameters}), {call})"


def exports_of(namespace, row, symbols):
    name, version, parameters = row
    revision, variant = symbols.get((name, version), ("", ""))
    types = re.findall(r"[^,\s][^,]*", parameters)
    arguments = [f"p{number}" for number in range(len(types))]
    call = f"{namespace}::{name}({', '.join(arguments)})"
    yield export("FERRY_EXPORT", name + revision, name, version, types, call)
    if variant:
        own = [f"own_stream({one})" if type == "CUstream" else one for type, one in zip(types, arguments)]
        call = f"{namespace}::{name}({', '.join(own)})"
        version = max(int(version), OLDEST_PER_THREAD)
        yield export("FERRY_EXPORT_PER_THREAD", name + revision + variant, name, version, types, call)


def main(symbols_txt, additions_inc, symbols_inc, exports_inc):
    symbols = read_symbols(Path(symbols_txt).read_text())
    rows = {}  # (entry point, version) -> the namespace that implements it, and the row
    for namespace, file in (("softdriver", symbols_inc), ("additions", additions_inc)):
        text = Path(file).read_text()
        found = ROW.findall(text)
        if len(found) != len(re.findall(r"^FERRY_", text, re.MULTILINE)):
            sys.exit(f"{file} has rows of another form")
        rows.update({row[:2]: (namespace, row) for row in found})
    if unknown := symbols.keys() - rows.keys():
        sys.exit(f"{symbols_txt} has lines for no entry point: {sorted(unknown)}")
    lines = [line for namespace, row in rows.values() for line in exports_of(namespace, row, symbols)]
    Path(exports_inc).write_text("// Made by tests/software-libcuda/generate.py.\n" + "\n".join(lines) + "\n")


main(*sys.argv[1:])
