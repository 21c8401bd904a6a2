#!/usr/bin/env python3
"""Checks that the library keeps the promises of the releases with this soname: every function has its version, every
field its place, every constant its value. A program built with a release's header runs with this library.

releases.py ROOT SHARED_LIBRARY PROGRAM CC...

abidiff compares libraries without code, made from the headers and version scripts, because the libraries of releases
are not kept. exports.py and the compiler check that this library matches its header and version script.

`tools/dev abi-baseline` stores the interface of MAJOR.MINOR at the release. Before the first release with this soname,
there is nothing to compare with. The script fails if a release in the changelog has no stored interface, or if an
interface is stored without a release.

The script also checks itself: it pretends that altered copies of the current interface were released, and must find
each promise that the current interface then breaks.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import exports
from exports import c_headers
from staged import output_of, run

root, library, program, *compiler = sys.argv[1:]
root = Path(root)
folder_of_headers, script = root / "include/ferry", root / "src/ferry.map"
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


def interface_of(folder):
    """The C headers in the folder as one text."""
    return c_headers.text_of(c_headers.all_headers(folder))


def constants_of(folder):
    """Maps each constant to its value, except the version, which changes."""
    lines = output_of(*compiler, "-E", "-dM", str(folder / "ferry_all.h")).splitlines()
    named = (re.fullmatch(r"#define (FERRY_(?!VERSION_|API\b)\w+) (.+)", line) for line in lines)
    return {match[1]: match[2] for match in named if match}


def problems_of(release, folder):
    old, new = (exports.without_comments(interface_of(one)) for one in (release, folder_of_headers))
    libraries = [make_library(folder, "released", old, release / "ferry.map"),
                 make_library(folder, "now", without_growth(new, old), script)]
    # Harmless changes too: a renamed field is one to a binary, but not to a binding or a source.
    if subprocess.run(["abidiff", "--harmless", "--no-added-syms", *libraries], check=False).returncode:
        yield "what abidiff said"
    present = exports.read_version_script(script.read_text())
    released = exports.read_version_script((release / "ferry.map").read_text())
    yield from (f"the node {node} of the release has gained {name}" for name, node in present.items()
                if name not in released and node in released.values())
    constants = constants_of(folder_of_headers)
    for name, value in constants_of(release).items():
        if constants.get(name) != value:
            yield f"{name} was {value} and is {constants.get(name, 'gone')}"

    include = folder / "include" / "ferry"
    include.mkdir(parents=True)
    for header in release.glob("*.h"):
        shutil.copy(header, include)
    binary = str(folder / "program")
    run(*compiler, "-std=c99", f"-I{include.parent}", program, library, "-o", binary)
    run(binary, LD_LIBRARY_PATH=str(Path(library).parent))


def baseline_of(texts, folder):
    """Returns the release that `tools/dev abi-baseline` stores of a project with these headers and version script."""
    project = folder / "project"
    for name in "tools/dev", "tools/need.sh", "tools/platforms.sh", "meson.build":
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, project / name)
    for file, text in texts.items():
        copied = project / file.relative_to(root)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(text)
    run(str(project / "tools/dev"), "abi-baseline", "0.0")
    return project / "tests/abi/releases" / soname / "0.0"


def problems_of_baselines(changelog_text, stored):
    """Compares the names of the stored interfaces with the releases in the changelog that have this soname."""
    versions = re.findall(r"^## \[((0\.\d+|\d+)[.\d]*)\] - \d{4}-\d\d-\d\d$", changelog_text, flags=re.M)
    released = {".".join(version.split(".")[:2]) for version, abi in versions if soname == f"libferry.so.{abi}"}
    yield from (f"{one} is released, and its interface is not stored: run tools/dev abi-baseline {one}"
                for one in sorted(released - stored))
    yield from (f"the interface of {one} is stored, and CHANGELOG.md has no date for it" for one in sorted(stored - released))


header, memory = folder_of_headers / "ferry.h", folder_of_headers / "ferry_memory.h"
# What a release had where the current interface differs: whether that breaks a promise, and the replacements that make
# the release's headers and version script of the current ones.
RELEASED = {
    "the same interface": (False, []),
    "one field less at the end of a sized struct": (False, [(memory, r"uint64_t depth;.*\n(?=} ferry_array_desc;)", "")]),
    "one more function": (True, [(header, r"(?=FERRY_API int32_t ferry_version)", "FERRY_API void ferry_gone(void);\n"),
                                 (script, "ferry_version;", "ferry_version; ferry_gone;")]),
    "one function less in the same node": (True, [(header, r"FERRY_API const char \*ferry_obstacle_text\([^;]*;\n", ""),
                                                  (script, " *ferry_obstacle_text;\n", "")]),
    "a parameter of another type": (True, [(header, r"ferry_status_name\(int32_t", "ferry_status_name(int64_t")]),
    "functions in another node": (True, [(script, r"FERRY_\d+\.\d+", "FERRY_0.0")]),
    "one more constant": (True, [(header, r"\Z", "#define FERRY_GONE 1\n")]),
    "a constant of another value": (True, [(header, r"(?<=FERRY_ERROR_RESERVED )\(-4\)", "(-400)")]),
    "a field of another name": (True, [(memory, r"uint32_t channels;", "uint32_t planes;")]),
    "a field of another type": (True, [(memory, r"uint32_t channels;", "uint64_t channels;")]),
}


def problems_of_check():
    first = soname.removeprefix("libferry.so.") + ("" if ".0." in soname else ".0")  # the first release with this soname
    for changelog_text, stored, is_wrong in [
            (f"## [{first}.0] - unreleased\n", set(), False), (f"## [{first}.0] - unreleased\n", {first}, True),
            (f"## [{first}.0] - 2030-01-02\n", set(), True), (f"## [{first}.0] - 2030-01-02\n", {first}, False),
            ("## [0.0.1] - 2030-01-02\n", set(), False)]:
        found = list(problems_of_baselines(changelog_text, stored))
        if bool(found) != is_wrong:
            yield f"stored {stored or 'nothing'}, and the changelog has {changelog_text!r}: the check finds {found or 'nothing'}"
    for name, (is_broken, replacements) in RELEASED.items():
        texts = {file: file.read_text() for file in (*folder_of_headers.glob("*.h"), script)}
        for file, pattern, replacement in replacements:
            texts[file], count = re.subn(pattern, replacement, texts[file], count=1)
            if count == 0:
                yield f"a release with {name}: {file.name} has no {pattern}"
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            found = list(problems_of(baseline_of(texts, folder), folder))
        if bool(found) != is_broken:
            yield f"a release with {name}: the check finds {', '.join(found) or 'nothing'}"


if not shutil.which("abidiff"):
    print("skipped: abidiff is not installed (Debian: abigail-tools)")
    sys.exit(77)
soname = re.search(r"\(SONAME\).*\[(.*)\]", output_of("readelf", "-d", library))[1]
promised = sorted((root / "tests/abi/releases" / soname).glob("*"))
problems = list(problems_of_baselines((root / "CHANGELOG.md").read_text(encoding="utf-8"), {one.name for one in promised}))
for release in promised:
    with tempfile.TemporaryDirectory() as temporary:
        problems += [f"broken since {release.name}: {problem}" for problem in problems_of(release, Path(temporary))]
problems += problems_of_check()
compared = f"compared with {', '.join(one.name for one in promised)}" if promised else (
    "compared with no release, because none is released yet. At the first release, tools/dev abi-baseline stores its "
    "interface. Until then, this script only checks that it finds breaks")
print(*problems, f"{soname}: {compared}", sep="\n")
sys.exit(1 if problems else 0)
