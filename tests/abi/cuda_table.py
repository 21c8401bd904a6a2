#!/usr/bin/env python3
"""Compares docs/cuda-to-ferry.md with the toolkit's headers and the tests: every copy and fill has a row, and every row
has a test.

cuda_table.py DOCUMENT FOLDER_OF_HEADERS TOOLKIT_INCLUDE TEST_SOURCE...

A row is a line of a table whose first cell begins with a function's name in backticks and whose last one is its test,
whose name begins with that function's. A test may itself be a row of a table: {"cuMemcpy_is_ferry_copy_bytes", …}.
"""
import re
import sys
from pathlib import Path

# Newer toolkits may declare more; that is said, but no failure of this tree.
KNOWN_CUDA = 13000
COPY_OR_FILL = re.compile(
    r"(?:CUDAAPI|CUDARTAPI)\s+(cu(?:da)?(?:Mem(?:cpy|set)\w*|Graph\w*Mem(?:cpy|set)Node\w*))\s*\("
)
VARIANT = re.compile(r"(?:_v\d+)?(?:_ptds|_ptsz)?$")  # of a function that has its row
SKIPPED = 77

problems = []


def declared_in(header):
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    return {VARIANT.sub("", name) for name in COPY_OR_FILL.findall(text)}


def rows_of(document):
    """Yields (function, test) for each row."""
    for line in document.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        function = re.match(r"`(cu\w+)", cells[0]) if line.startswith("|") else None
        if function and re.fullmatch(r"`cu\w+`", cells[-1]):
            yield function.group(1), cells[-1].strip("`")


def main(document, folder, include, *sources):
    text = Path(document).read_text()
    rows = list(rows_of(text))
    code = {Path(source): Path(source).read_text() for source in sources}
    named_test = re.compile(r'\bTEST(?:_F)?\(\w+,\s*(\w+)\)|^ *\{"(cu\w+)"', re.M)
    tests = [test or row for text in code.values() for test, row in named_test.findall(text)]

    with_row = {VARIANT.sub("", function) for function, _ in rows}
    for function, test in rows:
        if test not in tests:
            problems.append(f"the row of {function} names {test}, which is not a test")
        if not test.startswith(function + "_"):
            problems.append(f"the row of {function} names a test of another function: {test}")
    named = [test for _, test in rows]
    problems.extend(f"no row names the test {test}" for test in tests if test not in named)
    problems.extend(f"two rows name {test}" for test in sorted(set(named)) if named.count(test) > 1)

    known = set(re.findall(r"\b(?:ferry|FERRY)_\w+", "".join(header.read_text() for header in Path(folder).glob("*.h"))))
    used = set(re.findall(r"\b(?:ferry|FERRY)_\w*[a-zA-Z0-9]\b", text))
    problems.extend(f"no header has {name}" for name in sorted(used - known))

    if not include:
        print("the CUDA headers are not compared: -Dtoolkit_include names none", *problems, sep="\n")
        return 1 if problems or not rows else SKIPPED
    headers = [Path(include, name) for name in ("cuda.h", "cuda_runtime_api.h")]
    absent = [header.name for header in headers if not header.exists()]
    version = int(re.search(r"#define CUDA_VERSION (\d+)", headers[0].read_text()).group(1))
    declared = set().union(*(declared_in(header) for header in headers if header.exists()))
    without_row = [f"{function} has no row" for function in sorted(declared - with_row)]
    if version <= KNOWN_CUDA:
        problems.extend(without_row)
        if not absent:
            problems.extend(f"CUDA declares no {function}" for function in sorted(with_row - declared))

    print(f"{len(rows)} rows, {len(tests)} tests, {len(declared)} functions in CUDA {version}")
    print(*problems, sep="\n")
    if problems or not rows or not declared:
        return 1
    if absent:
        print("skipped:", include, "lacks", *absent)
    if version > KNOWN_CUDA:
        print("skipped, the table was made for CUDA", KNOWN_CUDA, *without_row, sep="\n")
    return SKIPPED if absent or version > KNOWN_CUDA else 0


sys.exit(main(*sys.argv[1:]))
