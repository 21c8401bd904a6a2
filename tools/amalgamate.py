#!/usr/bin/env python3
"""Writes the library as one file that any build system can compile: amalgamate.py FOLDER [DEPFILE]

FOLDER gets ferry.cpp and the public headers. The sources are listed in src/meson.build, in the same order. Each
header of src/ appears once, before the first file that includes it. The public headers stay files of their own. DEPFILE
lists what was read, for a build system.
"""
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import kernels
import software_build

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PUBLIC = ROOT / "include" / "ferry"
INCLUDED = "ferry_all.h"  # includes all C headers
SOFTWARE_DRIVER = "FERRY_HAS_SOFTWARE_DRIVER"
# These belong to the shared libraries, which have their own C++ runtime. A program has one runtime for all its parts.
LEFT_OUT = {"api/no_exceptions.cpp", "api/terminate.cpp", "softdriver/unload.cpp"}
# What the public headers include. They follow the other headers, after the visibility has changed.
ALWAYS_INCLUDED = ["stddef.h", "stdint.h"]

INTRODUCTION = """\
// ferry {version}: the whole library in one file. Made by `tools/dev amalgamate`.
//
// Compile it as C++20, beside the headers: `g++ -std=c++20 -O2 -c ferry.cpp`. Link with the threads and dl libraries where
// libc does not contain them. These macros may be set for this file:
//
// FERRY_HAS_SOFTWARE_DRIVER  1 includes the software driver, which runs ferry without a GPU, and 0 leaves it out. It
//                            needs exceptions, so the default is 1 on Linux and Windows if exceptions are on, else 0.
//                            The rest of the library needs neither exceptions nor run-time types. Without it, ferry opens
//                            the library libferry-software of the same build, where that is installed.
// FERRY_BUILD_SHARED         exports the functions of the headers, for a shared library. Without it this file exports
//                            nothing: the functions are visible only in the program or library that it is linked into.
// FERRY_API                  replaces what the headers and this file put before each function of the headers.
//
"""

CONFIGURATION = """
#if !defined(FERRY_HAS_SOFTWARE_DRIVER)
#if (defined(__linux__) || defined(_WIN32)) && (defined(__cpp_exceptions) || defined(_CPPUNWIND))
#define FERRY_HAS_SOFTWARE_DRIVER 1
#else
#define FERRY_HAS_SOFTWARE_DRIVER 0
#endif
#endif
#if FERRY_HAS_SOFTWARE_DRIVER && !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "ferry's software driver needs exceptions: compile with them, or with FERRY_HAS_SOFTWARE_DRIVER=0"
#endif
#if !defined(FERRY_API) && !defined(FERRY_BUILD_SHARED)
#define FERRY_API
#endif
#if defined(_WIN32) && !defined(NOMINMAX)
#define NOMINMAX // windows.h would define min and max as macros
#endif
#if defined(_WIN32) && !defined(_CRT_RAND_S)
#define _CRT_RAND_S // declares rand_s, the system's random bytes
#endif
"""

HIDDEN = """
// Internal functions and classes are visible to no other part of a process.
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
"""
SHOWN = """
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
"""

DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
OPENS, CLOSES = {"if", "ifdef", "ifndef"}, "endif"


class Problem(Exception):
    pass


def directive_of(line):
    """Returns the directive's name and the rest of the line, or two empty strings."""
    found = DIRECTIVE.match(line)
    return (found.group(1), found.group(2)) if found else ("", "")


def is_code(line):
    return bool(line.strip()) and not line.lstrip().startswith("//") and directive_of(line)[0] != "pragma"


def condition_around(lines):
    """Returns the condition if all code of the file is inside one #if without #else, and the lines without that #if."""
    code = [number for number, line in enumerate(lines) if is_code(line)]
    name, condition = directive_of(lines[code[0]]) if code else ("", "")
    if name != "if":
        return None, lines
    depth = 0
    for number in code:
        name = directive_of(lines[number])[0]
        depth += (name in OPENS) - (name == CLOSES)
        if depth == 1 and name in {"else", "elif"}:
            return None, lines
        if depth == 0 and number != code[-1]:
            return None, lines
    return condition, [line for number, line in enumerate(lines) if number not in (code[0], code[-1])]


def blocks_of(lines):
    """Cuts the lines into single lines outside all #if, and whole #if blocks."""
    depth, block = 0, []
    for line in lines:
        name = directive_of(line)[0]
        block.append(line)
        depth += (name in OPENS) - (name == CLOSES)
        if depth == 0:
            yield block
            block = []
    if block:
        raise Problem("an #if has no #endif")


def only_includes(block):
    """Allows macros that headers of the system read, such as WIN32_LEAN_AND_MEAN."""
    directives = [directive_of(line) for line in block if is_code(line)]
    names = {name for name, _ in directives}
    defines_own = any(name == "define" and rest.startswith("FERRY_") for name, rest in directives)
    return "include" in names and not defines_own and names <= {*OPENS, CLOSES, "else", "elif", "include", "define"}


def is_standard(header):
    """Reports that every system has the header, so that no #if has to be around its include."""
    return not header.endswith(".h")


@dataclass
class File:
    """A source or header, taken apart."""
    name: str
    condition: str | None = None  # of the #if around all of it
    headers: list = field(default_factory=list)  # of this project, by name
    system: list = field(default_factory=list)  # pairs: a header, and the condition around its include or None
    include_blocks: list = field(default_factory=list)  # #if blocks that only include
    body: list = field(default_factory=list)


def read(name):
    file = File(name)
    file.condition, lines = condition_around((SOURCE / name).read_text().splitlines())
    for block in blocks_of(lines):
        if len(block) > 1 and only_includes(block):
            add_includes(file, block)
        else:
            for line in block:
                add_line(file, line, is_conditional=len(block) > 1)
    return file


def add_includes(file, block):
    includes = [INCLUDE.match(line) for line in block]
    file.headers += [include[2] for include in includes if include and include[2]]
    directives = [directive_of(line) for line in block if is_code(line)]
    if directives[0][0] == "if" and all(name == "include" for name, _ in directives[1:-1]):
        file.system += [(include[1], directives[0][1]) for include in includes if include and include[1]]
    else:
        file.include_blocks.append([line for line, include in zip(block, includes) if not include or include[1]])


def add_line(file, line, is_conditional):
    include = INCLUDE.match(line)
    if not include and not re.match(r"\s*#\s*pragma\s+once", line):
        file.body.append(line)
    elif include and include.group(1):
        if is_conditional and not is_standard(include.group(1)):
            raise Problem(f"{file.name} includes {include.group(1)} inside an #if that also has code")
        file.system.append((include.group(1), None))
    elif include and include.group(2).endswith(".inc"):
        file.body += blocks_inlined(include.group(2))
    elif include and is_conditional:
        raise Problem(f"{file.name} includes {include.group(2)} inside an #if that also has code")
    elif include:
        file.headers.append(include.group(2))


def blocks_inlined(name):
    """Returns the lines of a list, such as driver/symbols.inc. The comments on top of it explain its columns."""
    lines = (SOURCE / name).read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if is_code(line))
    return [f"// ---- src/{name}", *lines[first:], f"// ---- end of src/{name}"]


def listed_sources():
    """Returns the names that src/meson.build lists, and checks that no source lacks there."""
    listed = re.findall(r"'(\w+/\w+\.cpp)'", (SOURCE / "meson.build").read_text())
    listed = [name for name in dict.fromkeys(listed) if name not in LEFT_OUT]
    present = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.cpp")} - LEFT_OUT
    if set(listed) != present:
        raise Problem(f"src/meson.build and the folder differ: {', '.join(sorted(set(listed) ^ present))}")
    return sorted(listed, key=lambda name: name.startswith("softdriver/"))


class Amalgamation:
    def __init__(self):
        self.files = {}  # by name, in an order in which each follows what it includes
        self.conditions = {}  # of each file: what is true wherever the file is included
        self.includers = {}
        # The system's headers are included first, so the macros that this header removes must not reach other files.
        for name in ["system/windows_api.h", *listed_sources()]:
            self.add(name, [])
        for name, file in reversed(self.files.items()):
            self.set_conditions(file)

    def add(self, name, includers):
        if name in self.files:
            return
        if name in includers:
            raise Problem(f"includes in a circle: {' '.join(includers)} {name}")
        file = read(name)
        file.headers = [header for header in file.headers if not header.startswith("ferry/")]
        for header in file.headers:
            self.add(header, [*includers, name])
            self.includers.setdefault(header, []).append(name)
        self.files[name] = file

    def set_conditions(self, file):
        # Includers come later in self.files, so their conditions are known.
        of_includers = [self.conditions[includer] for includer in self.includers.get(file.name, [])]
        conditions = dict(of_includers[0]) if of_includers else {}
        for others in of_includers[1:]:
            conditions = {condition: None for condition in conditions if condition in others}
        if file.name.startswith("softdriver/") and file.name.endswith(".cpp"):
            conditions[SOFTWARE_DRIVER] = None
        if file.condition:
            conditions[file.condition] = None
        self.conditions[file.name] = conditions

    def system_includes(self):
        """Yields the lines that include system headers, those for all systems first."""
        groups = {(): set(ALWAYS_INCLUDED)}
        for file in self.files.values():
            for header, condition in file.system:
                conditions = dict.fromkeys([*self.conditions[file.name], *([condition] if condition else [])])
                groups.setdefault(tuple(conditions), set()).add(header)
        for conditions, headers in sorted(groups.items()):
            included = set().union(*(groups[other] for other in groups if set(other) < set(conditions)))
            lines = [f"#include <{header}>" for header in sorted(headers - included)]
            yield from inside(conditions, lines) if lines else []
        blocks = {}
        for file in self.files.values():
            for block in file.include_blocks:
                blocks["\n".join(inside(self.conditions[file.name], block))] = None
        yield from blocks

    def text(self):
        version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
        license = (f"// {line}".rstrip() for line in (ROOT / "LICENSE").read_text().splitlines())
        parts = [INTRODUCTION.format(version=version) + "\n".join(license), CONFIGURATION]
        parts += [*self.system_includes(), HIDDEN, f'#include "{INCLUDED}"']
        for name, file in self.files.items():
            parts += ["", f"// ======== src/{name}", *inside(self.conditions[name], trimmed(file.body))]
        parts += ["", "// ======== of tools/software_build.py", software_build.definition()]
        parts += ["", "// ======== src/kernels/ferry_kernels.ptx, shortened", kernels.as_numbers(kernels.short_ptx())]
        text = "\n".join(parts) + SHOWN
        return re.sub(r"\n{3,}", "\n\n", text)


def inside(conditions, lines):
    return [*(f"#if {condition}" for condition in conditions), *lines, *("#endif" for _ in conditions)]


def trimmed(lines):
    """Removes empty lines at both ends."""
    return "\n".join(lines).strip("\n").splitlines()


def main(folder, depfile=None):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    amalgamation = Amalgamation()
    (folder / "ferry.cpp").write_text(amalgamation.text())
    public = sorted(PUBLIC.glob("*.h*"))
    for header in public:
        shutil.copyfile(header, folder / header.name)
    if depfile:
        sources = [SOURCE / name for name in amalgamation.files]
        others = [*SOURCE.rglob("*.inc"), SOURCE / "meson.build", kernels.PTX, ROOT / "meson.build", ROOT / "LICENSE"]
        read_files = [*sources, *others, *public, Path(__file__), Path(kernels.__file__),
                      Path(software_build.__file__)]
        names = " ".join(str(path).replace(" ", "\\ ") for path in read_files)
        Path(depfile).write_text(f"{folder / 'ferry.cpp'}: {names}\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Problem as problem:
        sys.exit(f"amalgamate.py: {problem}")
