#!/usr/bin/env python3
"""Installs ferry into a temporary folder and builds a program against it through pkg-config.

installed.py MESON BUILD_FOLDER PREFIX LIBDIR CC CXX PROGRAM shared|static
The C compiler links the static libraries, because users need no C++ compiler.
"""
import sys

from staged import check_linkage, run, staged

*installation, cc, cxx, program, library = sys.argv[1:]

with staged(*installation) as stage:
    binary = str(stage.folder / "program")
    if library == "static":
        for shared in stage.libraries.glob("libferry*.so*"):
            shared.unlink()
        run(cc, "-std=c99", program, "-o", binary, *stage.flags("--static", names=("ferry", "ferry-software")))
        run(binary)
    else:
        flags = stage.flags()
        for compiler in [[cc, "-std=c99", program], [cxx, "-std=c++17", "-x", "c++", program, "-x", "none"]]:
            run(*compiler, "-o", binary, *flags)
            run(binary, LD_LIBRARY_PATH=str(stage.libraries))
    check_linkage(binary, library)
