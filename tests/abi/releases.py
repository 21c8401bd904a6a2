#!/usr/bin/env python3
"""Checks that the library keeps the promises of the releases with this soname: every function has its version, every
field its place, every constant its value. A program built with a release's header runs with this library.

releases.py RELEASES HEADER VERSION_SCRIPT SHARED_LIBRARY PROGRAM CC...

abidiff compares libraries without code, made from the headers and version scripts, because the libraries of releases
are not kept. exports.py and the compiler check that this library matches its header and version script.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import exports
from staged import output_of, run

releases, header, script, library, program, *compiler = sys.argv[1:]
SIZED_STRUCT = re.compile(r"(?<=struct )(\w+) \{\s*(uint32_t struct_size;.*?)\}", flags=re.S)


def fields_of_sized_structs(text):
    return {name: body.split(";")[:-1] for name, body in SIZED_STRUCT.findall(text)}


def without_growth(text, old):
    """Returns the header without the fields that sized structs have gained at their ends since the old header."""
    kept = {name: len(fields) for name, fields in fields_of_sized_structs(old).items()}

    def cut(match):
        fields = match[2].split(";")[:-1]
        return f"{match[1]} {{ {';'.join(fields[: kept.get(match[1], len(fields))])}; }}"

    return SIZED_STRUCT.sub(cut, text)


def make_library(folder, name, header_text, script):
    """Builds a library with the header's types and functions, at the versions of the script."""
    declarations = re.findall(r"\bFERRY_API\b\s*([^;]*);", exports.code_of(header_text))
    bodies = "".join(f"{declaration} {{ for (;;) {{}} }}\n" for declaration in declarations)
    source, binary = folder / f"{name}.c", folder / name
    source.write_text(header_text + bodies)
    script_argument = f"-Wl,--version-script={script}"
    run(*compiler, "-std=c99", "-g", "-shared", "-fPIC", script_argument, str(source), "-o", str(binary))
    return str(binary)


def constants_of(header):
    """Maps each constant to its value, except the version, which changes."""
    lines = output_of(*compiler, "-E", "-dM", str(header)).splitlines()
    named = (re.fullmatch(r"#define (FERRY_(?!VERSION_|API\b)\w+) (.+)", line) for line in lines)
    return {match[1]: match[2] for match in named if match}


def problems_of(release, folder):
    old, new = (exports.without_comments(file.read_text()) for file in (release / "ferry.h", Path(header)))
    libraries = [make_library(folder, "released", old, release / "ferry.map"),
                 make_library(folder, "now", without_growth(new, old), script)]
    # Harmless changes too: a renamed field is one to a binary, but not to a binding or a source.
    if subprocess.run(["abidiff", "--harmless", "--no-added-syms", *libraries], check=False).returncode:
        yield "what abidiff said"
    constants = constants_of(header)
    for name, value in constants_of(release / "ferry.h").items():
        if constants.get(name) != value:
            yield f"{name} was {value} and is {constants.get(name, 'gone')}"

    include = folder / "include" / "ferry"
    include.mkdir(parents=True)
    shutil.copy(release / "ferry.h", include)
    binary = str(folder / "program")
    run(*compiler, "-std=c99", f"-I{include.parent}", program, library, "-o", binary)
    run(binary, LD_LIBRARY_PATH=str(Path(library).parent))


if not shutil.which("abidiff"):
    print("skipped: abidiff is not installed (Debian: abigail-tools)")
    sys.exit(77)
soname = re.search(r"\(SONAME\).*\[(.*)\]", output_of("readelf", "-d", library))[1]
promised = sorted(Path(releases, soname).iterdir())
count = 0
for release in promised:
    with tempfile.TemporaryDirectory() as temporary:
        for problem in problems_of(release, Path(temporary)):
            print(f"broken since {release.name}: {problem}")
            count += 1
print(f"{soname}, releases {', '.join(release.name for release in promised)}: {count} problems")
sys.exit(1 if count else 0)
