#!/usr/bin/env python3
"""Checks that every header is installed and compiles alone: .h as C99 and C++17, .hpp as C++17. ferry.ffi.h, which is for
other parsers, is only installed, and ferry_nvtx.hpp where NVTX's header is not there.

installed_headers.py MESON BUILD_FOLDER PREFIX LIBDIR CC CXX SOURCE_FOLDER_OF_THE_HEADERS TOOLKIT_INCLUDE
"""
import sys
from pathlib import Path

from staged import run, staged

*installation, cc, cxx, source, toolkit = sys.argv[1:]
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
C, CXX = [cc, "-std=c99", "-x", "c"], [cxx, "-std=c++17", "-x", "c++"]
LANGUAGES = {".h": [C, CXX], ".hpp": [CXX], ".json": []}

with staged(*installation) as stage:
    names = sorted(file.name for file in (stage.headers / "ferry").iterdir())
    if names != sorted(file.name for file in Path(source).iterdir()):
        sys.exit(f"the installed headers are {', '.join(names)}, which differ from {source}")
    for name in names:
        # Twice: the second time it says nothing.
        user = stage.folder / "user"
        text = f"#include <ferry/{name}>\n" * 2
        if name == "ferry_nvtx.hpp":
            text = f"#if __has_include(<nvtx3/nvToolsExt.h>)\n{text}#endif\n"
        user.write_text(text)
        for compiler in [] if name.endswith(".ffi.h") else LANGUAGES[Path(name).suffix]:
            run(*compiler, *STRICT, f"-I{stage.headers}", f"-isystem{toolkit}", str(user))
