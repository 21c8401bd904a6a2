#!/usr/bin/env python3
"""Checks that the shared library needs only libc, and is small: needs.py SHARED_LIBRARY [LARGEST_STRIPPED]"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

problems = []
library = sys.argv[1]
largest_stripped = int(sys.argv[2]) if len(sys.argv) > 2 else None


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments, library], check=True, capture_output=True, text=True).stdout


dynamic = readelf("-d")
needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
# The dynamic linker itself is part of libc: it lends __tls_get_addr.
for name in sorted(needed):
    if name != "libc.so.6" and not name.startswith("ld-linux"):
        problems.append(f"needs {name}")
if "TEXTREL" in dynamic or "(RPATH)" in dynamic or "(RUNPATH)" in dynamic:
    problems.append("has text relocations or a run-time search path")

# A unique symbol would be shared between two copies of the library and keep either from being unloaded.
for line in readelf("--dyn-syms").splitlines():
    if " UNIQUE " in line:
        problems.append("unique symbol: " + line.split()[-1])

with tempfile.TemporaryDirectory() as folder:
    stripped = Path(folder, "stripped.so")
    subprocess.run(["strip", "-o", stripped, library], check=True)
    size = stripped.stat().st_size
if largest_stripped is not None and size > largest_stripped:
    problems.append(f"{size} bytes stripped, but the limit is {largest_stripped}")

print(f"needs {', '.join(sorted(needed))}; {size} bytes stripped")
print(*problems, sep="\n")
sys.exit(1 if problems else 0)
