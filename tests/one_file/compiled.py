#!/usr/bin/env python3
"""Compiles the one-file library as a program would, checks its symbols and runs a program with it.

compiled.py embedded|optimised|without-exceptions|shared CXX CC FERRY_CPP PROGRAM
compiled.py library LIBRARY CC FERRY_CPP PROGRAM    takes a library that was compiled before
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "abi"), str(TESTS.parent / "docs")]
import c_headers  # noqa: E402
from exports import code_of, nm, readelf  # noqa: E402

# Templates of the C++ library, and operators new and delete that do nothing. g++ shows some to all parts of a process,
# even if they serve hidden classes.
OF_THE_CPP_LIBRARY = re.compile(r"_Z(?:(?:T[VIS]|GV|Z)*(?:N[KRO]*)?(?:S[absiodt]|9__gnu_cxx)|nw|dl)")
ARRIVED = "bytes there and back"
WITHOUT_EXCEPTIONS = ["-fno-exceptions", "-fno-rtti"]
problems = []


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run(command, text=True, check=False, **options)


def must(*command):
    if run(*command).returncode:
        sys.exit(f"failed: {command[0]}")


def visible_in(file, allowed):
    """Returns the symbols that other parts of a process see."""
    symbols = (line.split() for line in readelf("-s", file))
    defined = (fields for fields in symbols if len(fields) == 8 and fields[4] in {"GLOBAL", "WEAK", "UNIQUE"})
    return {fields[7] for fields in defined
            if fields[5] == "DEFAULT" and fields[6] != "UND" and not allowed(fields[7])}


def compare(what, found, expected):
    problems.extend(f"{what} lacks {name}" for name in sorted(expected - found))
    problems.extend(f"{what} has {name}" for name in sorted(found - expected))


def check_program(folder, library, expected):
    binary = str(folder / "program")
    must(cc, "-std=c99", f"-I{include}", program, str(library), "-o", binary, "-lstdc++", "-lpthread", "-ldl")
    result = run(binary, capture_output=True, env={"LD_LIBRARY_PATH": str(folder)})
    print(result.stdout, end="")
    if not re.search(expected, result.stdout):
        problems.append(f"the program ended with {result.returncode} and did not print '{expected}'")


def embedded(folder, options=(), expected=ARRIVED, functions=None):
    library = folder / "ferry.o"
    must(*COMPILE, *options, "-o", str(library))
    found = {name for _, name in nm("-g", library) if name.startswith("ferry_")}
    compare("the object", found, declared if functions is None else functions)
    compare("what the object exports", visible_in(library, OF_THE_CPP_LIBRARY.match), set())
    check_program(folder, library, expected)


def optimised(folder):
    embedded(folder, ["-O2"])


def built_before(folder):
    compare("the library", {name for _, name in nm("-g", cxx) if name.startswith("ferry_")}, declared)
    compare("what the library exports", visible_in(cxx, OF_THE_CPP_LIBRARY.match), set())
    check_program(folder, cxx, ARRIVED)


def without_exceptions(folder):
    embedded(folder, WITHOUT_EXCEPTIONS, "FERRY_ERROR_NO_SOFTWARE_DRIVER", DECLARED_BY_FERRY)
    refused = run(*COMPILE, *WITHOUT_EXCEPTIONS, "-DFERRY_HAS_SOFTWARE_DRIVER=1", "-fsyntax-only", capture_output=True)
    if refused.returncode == 0 or "needs exceptions" not in refused.stderr:
        problems.append("the software driver without exceptions is not refused")


def shared(folder):
    library = folder / "libferry.so"
    must(*COMPILE, "-DFERRY_BUILD_SHARED", "-o", str(folder / "ferry.o"))
    must(cxx, "-shared", "-Wl,--no-undefined", str(folder / "ferry.o"), "-o", str(library), "-lpthread", "-ldl")
    compare("what the library exports", visible_in(library, OF_THE_CPP_LIBRARY.match), declared)
    check_program(folder, library, ARRIVED)
    must(sys.executable, str(TESTS / "abi" / "foreign.py"), str(library))


def declared_in(headers):
    text = code_of(c_headers.text_of(headers))
    return set(re.findall(r"\bFERRY_API\b[^;]*?\b(ferry_\w+)\s*\(", text))


build, cxx, cc, source, program = sys.argv[1:]
# Not optimised, which takes a third of the time. A later -O2 is stronger.
COMPILE = [cxx, "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-c", source]
include = Path(source).resolve().parents[1]
DECLARED_BY_FERRY = declared_in(c_headers.headers_of_ferry(include / "ferry"))
declared = declared_in(c_headers.all_headers(include / "ferry"))
print(f"{len(declared)} functions in the headers")
with tempfile.TemporaryDirectory() as temporary:
    {"embedded": embedded, "without-exceptions": without_exceptions, "shared": shared,
     "optimised": optimised, "library": built_before}[build](Path(temporary))
if not declared:
    problems.append("no function found in the headers")
print(*problems, sep="\n")
sys.exit(1 if problems else 0)
