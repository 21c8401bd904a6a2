#!/usr/bin/env python3
"""Lets front ends check the library for Windows: the whole library as one file with MinGW's compiler and with Clang on
MinGW's headers, there once more as Microsoft's compiler sees it, and the C header with clang-cl. Nothing is linked or run.

front_ends.py HEADER_CHECK CLANG CLANG_CL MINGW_COMPILER...   CLANG_CL is empty where there is none
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

header_check, clang, clang_cl, *mingw = sys.argv[1:]
root = Path(__file__).resolve().parents[2]


def run(*command, **options):
    print(*command)
    return subprocess.run([str(part) for part in command], check=True, text=True, **options)


said = run(*mingw, "-E", "-v", "-x", "c++", "/dev/null", capture_output=True).stderr
searched = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", said, flags=re.S).group(1)
# Each compiler has its own headers for its built-in functions.
folders = [folder for folder in searched.split() if not re.search(r"/gcc/[^/]*/[^/]*/include(-fixed)?$", folder)]
with tempfile.TemporaryDirectory() as folder:
    run(sys.executable, root / "tools/amalgamate.py", folder)
    run(*mingw, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", Path(folder, "ferry.cpp"))
    # Defining _MSC_VER chooses the code for Microsoft's compiler. Its own headers are not there.
    for seen_as in ([], ["-D_MSC_VER=1938", "-D_M_X64=100", "-fms-extensions"]):
        run(clang, "--target=x86_64-w64-windows-gnu", "-std=c++20", "-fsyntax-only", "-nostdinc++", *seen_as,
            *(part for name in folders for part in ("-isystem", name)), Path(folder, "ferry.cpp"))
if clang_cl:
    own_headers = run(clang_cl, "/clang:-print-resource-dir", capture_output=True).stdout.strip()
    for language in ("-TC", "-TP"):
        run(clang_cl, "-W4", "-WX", "-fsyntax-only", "-imsvc", own_headers + "/include", "-I", root / "include", language,
            "--", header_check)
