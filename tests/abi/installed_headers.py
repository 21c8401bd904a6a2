#!/usr/bin/env python3
"""Checks that every header is installed and compiles alone: .h as C99, C11 and C++17, .hpp as C++17. ferry.ffi.h, which is for
other parsers, is only installed. The test counts as skipped if ferry_nvtx.hpp cannot be compiled because NVTX's header
is missing.

installed_headers.py MESON BUILD_FOLDER PREFIX LIBDIR CC CXX SOURCE_FOLDER_OF_THE_HEADERS TOOLKIT_INCLUDE
"""
import subprocess
import sys
from pathlib import Path

from staged import run, staged

*installation, cc, cxx, source, toolkit = sys.argv[1:]
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
C99, C11, CXX = [cc, "-std=c99", "-x", "c"], [cc, "-std=c11", "-x", "c"], [cxx, "-std=c++17", "-x", "c++"]
LANGUAGES = {".h": [C99, C11, CXX], ".hpp": [CXX], ".json": []}
TOOLKIT = [f"-isystem{toolkit}"] if toolkit else []
NVTX = "nvtx3/nvToolsExt.h"
SKIPPED = 77

has_nvtx = not subprocess.run([*CXX, *TOOLKIT, "-fsyntax-only", "-"], input=f"#include <{NVTX}>\n", text=True,
                              capture_output=True, check=False).returncode

with staged(*installation) as stage:
    names = sorted(file.name for file in (stage.headers / "ferry").iterdir())
    if names != sorted(["ferry.json", "ferry.ffi.h", *(file.name for file in Path(source).iterdir())]):
        sys.exit(f"the installed headers are {', '.join(names)}, which differ from {source}")
    for name in names:
        # Twice: the second time it says nothing.
        user = stage.folder / "user"
        user.write_text(f"#include <ferry/{name}>\n" * 2)
        if name == "ferry_nvtx.hpp" and not has_nvtx:
            continue
        for compiler in [] if name.endswith(".ffi.h") else LANGUAGES[Path(name).suffix]:
            run(*compiler, *STRICT, f"-I{stage.headers}", *TOOLKIT, str(user))
if not has_nvtx:
    print(f"skipped: ferry_nvtx.hpp needs {NVTX}, which is not in -Dtoolkit_include={toolkit}")
    sys.exit(SKIPPED)
