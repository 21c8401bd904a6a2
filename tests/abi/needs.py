#!/usr/bin/env python3
"""Checks that the shared library needs only libc, and is small.

needs.py [--glibc VERSION] SHARED_LIBRARY [LARGEST_STRIPPED]
With --glibc, the library must load on systems with that glibc. Before 2.34, glibc had libraries of its own for threads
and for dlopen.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

problems = []
parser = argparse.ArgumentParser()
parser.add_argument("--glibc")
parser.add_argument("library")
parser.add_argument("largest_stripped", type=int, nargs="?")
arguments = parser.parse_args()
library = arguments.library
PARTS_OF_OLD_GLIBC = {"libpthread.so.0", "libdl.so.2", "libm.so.6"}


def as_numbers(version):
    return [int(part) for part in version.split(".")]


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments, library], check=True, capture_output=True, text=True).stdout


dynamic = readelf("-d")
needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
# The dynamic linker itself is part of libc: it lends __tls_get_addr. So is libm: libc++'s tables round with it.
for name in sorted(needed):
    if name in ("libc.so.6", "libm.so.6") or name.startswith("ld-linux"):
        continue
    if not (arguments.glibc and name in PARTS_OF_OLD_GLIBC):
        problems.append(f"needs {name}")
if "TEXTREL" in dynamic or "(RPATH)" in dynamic or "(RUNPATH)" in dynamic:
    problems.append("has text relocations or a run-time search path")

# A unique symbol would be shared between two copies of the library and keep either from being unloaded.
for line in readelf("--dyn-syms").splitlines():
    if " UNIQUE " in line:
        problems.append("unique symbol: " + line.split()[-1])

versions = set(re.findall(r"\bGLIBC_([0-9.]+)", readelf("--version-info")))
newest = max(versions, key=as_numbers, default="")
if not newest:
    problems.append("no version of glibc found")
elif arguments.glibc and as_numbers(newest) > as_numbers(arguments.glibc):
    problems.append(f"needs glibc {newest}, but may need only {arguments.glibc}")

size = ""
if arguments.largest_stripped is not None:
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder, "stripped.so")
        subprocess.run(["strip", "-o", stripped, library], check=True)
        size = f"; {stripped.stat().st_size} bytes stripped"
        if stripped.stat().st_size > arguments.largest_stripped:
            problems.append(f"{stripped.stat().st_size} bytes stripped, the limit is {arguments.largest_stripped}")

print(f"needs {', '.join(sorted(needed))}, glibc {newest}{size}")
print(*problems, sep="\n")
sys.exit(1 if problems else 0)
