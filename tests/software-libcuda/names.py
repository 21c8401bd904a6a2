#!/usr/bin/env python3
"""Compares the functions that the software libcuda.so.1 exports with CUDA's headers: names, signatures and versions.

names.py LIBRARY EXPORTS_INC TOOLKIT_INCLUDE CXX   (skipped if TOOLKIT_INCLUDE is empty)
"""
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

EXPORT = re.compile(r"^FERRY_EXPORT(?:_PER_THREAD)?\((\w+), (\w+), (\d+), ", re.MULTILINE)
PER_THREAD = re.compile(r"_pt[ds][sz]$")
TYPE = re.compile(r"\bPFN_(\w+)_v(\d+)(_pt[ds][sz])?\)")
KNOWN_CUDA = 13000  # newer headers may have newer signatures, which no test needs
SKIPPED = 77

problems = []


def run(command, source=None):
    return subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout


def variant_of(symbol):
    found = PER_THREAD.search(symbol)
    return found.group() if found else ""


def check_library(library, exports):
    lines = [line.split() for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    found, listed = {line[-1] for line in lines}, [symbol for symbol, _, _ in exports]
    problems.extend(f"the library lacks {symbol}" for symbol in sorted(set(listed) - found))
    problems.extend(f"the library exports {symbol}" for symbol in sorted(found - set(listed)))
    problems.extend(f"two functions are {symbol}" for symbol in sorted(set(listed)) if listed.count(symbol) > 1)


def check_macros(exports, compiler):
    """A program that calls an entry point must find the symbol that cuda.h makes of the name."""
    symbols = defaultdict(set)
    for symbol, name, _ in exports:
        symbols[name].add(symbol)
    symbols["cuGetProcAddress"].add("cuGetProcAddress_v2_ptsz")  # an inline function of the header
    source = "#include <cuda.h>\n" + "".join(f'EXPORT "{name}" {name}\n' for name in symbols)
    for options in [], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]:
        text = run([*compiler, *options, "-E", "-P", "-"], source)
        replaced = re.findall(r'^EXPORT "(\w+)" (\w+)$', text, re.MULTILINE)
        if len(replaced) != len(symbols):
            problems.append("the names in cuda.h cannot be read")
        problems.extend(f"cuda.h calls {name} {symbol}, which is not exported"
                        for name, symbol in replaced if symbol not in symbols[name])


def check_signatures(exports, compiler):
    source = "#include <cuda.h>\n#include <cudaTypedefs.h>\n#include <type_traits>\n"
    for symbol, name, version in exports:
        type = f"PFN_{name}_v{version}{variant_of(symbol)}"
        source += f'static_assert(std::is_same_v<decltype(&{symbol}), {type}>, "{symbol}");\n'
    # The macro declares the symbols themselves, including older ones.
    options = ["-D__CUDA_API_VERSION_INTERNAL", "-fsyntax-only", "-"]
    compiled = subprocess.run([*compiler, *options], input=source, capture_output=True, text=True)
    if compiled.returncode:
        problems.append(f"signatures differ from the headers\n{compiled.stderr}")


def check_versions(exports, typedefs):
    """For any version that a program requests, cuGetProcAddress must return the same signature as CUDA's."""
    declared, exported = defaultdict(set), defaultdict(dict)
    for name, version, variant in TYPE.findall(typedefs):
        declared[name, variant].add(int(version))
    for symbol, name, version in exports:
        exported[name, variant_of(symbol)][int(version)] = symbol
    for (name, variant), symbols in exported.items():
        missing = {one for one in declared[name, variant] if min(symbols) < one <= KNOWN_CUDA} - symbols.keys()
        problems.extend(f"{name}{variant} of version {one} is not exported" for one in sorted(missing))
        revisions = [int((re.search(r"_v(\d)", symbols[version]) or [0, 1])[1]) for version in sorted(symbols)]
        if revisions != sorted(revisions):
            problems.append(f"a newer version of {name} has an older symbol")


def main(library, exports_inc, include, cxx):
    exports = EXPORT.findall(Path(exports_inc).read_text())
    check_library(library, exports)
    if include:
        compiler = [cxx, "-std=c++17", "-isystem", include, "-x", "c++"]
        version = int(re.search(r"#define CUDA_VERSION (\d+)", Path(include, "cuda.h").read_text()).group(1))
        check_signatures(exports, compiler)
        check_versions(exports, Path(include, "cudaTypedefs.h").read_text())
        if version <= KNOWN_CUDA:
            check_macros(exports, compiler)
        print(f"{len(exports)} functions, compared with CUDA {version}")
    else:
        print("skipped: -Dtoolkit_include names no CUDA headers to compare with")
    print(*problems, sep="\n")
    return 1 if problems or not exports else 0 if include else SKIPPED


sys.exit(main(*sys.argv[1:]))
