#!/usr/bin/env python3
"""Builds a CMake project that finds ferry installed, in a folder that the installation did not know.

cmake_package.py MESON BUILD_FOLDER PREFIX LIBDIR CC CXX PROGRAM CONSUMER VERSION OLDEST_VERSION
"""
import shutil
import sys

from staged import check_linkage, run, staged

*installation, cc, cxx, program, consumer, version, oldest = sys.argv[1:]
if not shutil.which("cmake"):
    print("skipped: cmake is not installed")
    sys.exit(77)

with staged(*installation) as stage:
    moved, build = stage.folder / "elsewhere", stage.folder / "build"
    stage.root.rename(moved)
    run("cmake", "-G", "Ninja", "-S", consumer, "-B", str(build), f"-DCMAKE_PREFIX_PATH={moved}", f"-DPROGRAM={program}",
        f"-DVERSION={version}", f"-DOLDEST={oldest}", f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_CXX_COMPILER={cxx}")
    run("cmake", "--build", str(build))
    for library in "shared", "static":
        for language in "c", "cpp":
            binary = build / f"{language}_{library}"
            run(str(binary))
            check_linkage(binary, library)
