#!/usr/bin/env python3
"""What the shared library costs its user: it needs libc and nothing else, and is small: needs.py SHARED_LIBRARY"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LARGEST_STRIPPED = 1 << 20  # a third of it GPU code
problems = []
library = sys.argv[1]


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
if size > LARGEST_STRIPPED:
    problems.append(f"{size} bytes stripped, at most {LARGEST_STRIPPED} are promised")

print(f"needs {', '.join(sorted(needed))}; {size} bytes stripped")
print(*problems, sep="\n")
sys.exit(1 if problems else 0)
