#!/usr/bin/env python3
"""Runs a program with one copy of ferry that loads a plug-in with another. Both are linked only with the flags of
pkg-config.

two_ferries.py MESON BUILD_FOLDER PREFIX LIBDIR CC CXX SOURCE_FOLDER
"""
import re
import sys

from staged import check_linkage, run, staged

*installation, cc, _, source = sys.argv[1:]
# The program shows its symbols to the plug-in wherever it can.
KINDS = {"program": ["-rdynamic"], "plugin": ["-shared", "-fPIC"]}

with staged(*installation) as stage:
    static = stage.flags("--static", names=("ferry", "ferry-software"))
    flags = {"shared": stage.flags(),
             "static": [re.sub(r"^-l(ferry.*)", r"-l:lib\1.a", flag) for flag in static]}
    for name, arguments in KINDS.items():
        for library in flags:
            binary = stage.folder / f"{name}-{library}"
            compiler = [cc, "-std=c99", "-D_GNU_SOURCE", *arguments]
            run(*compiler, f"{source}/{name}.c", "-o", str(binary), *flags[library], "-ldl")
            check_linkage(binary, library)
    # Two shared ones are one copy.
    for program, plugin in ("shared", "static"), ("static", "shared"), ("static", "static"):
        run(str(stage.folder / f"program-{program}"), str(stage.folder / f"plugin-{plugin}"),
            LD_LIBRARY_PATH=str(stage.libraries))
