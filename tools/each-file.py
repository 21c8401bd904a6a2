#!/usr/bin/env python3
"""Compiles each source file in src by itself, without output, because builds compile files together and do not show which
file lacks an include: each-file.py CLANG [ARGUMENT ...]

Headers take most of the time, so some are precompiled. A file gets a precompiled header only if it includes that header
anyway, directly or through others. So a file that lacks an include still fails.
"""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

# A file gets the first of these that it includes. Any list works; headers that include many others save the most time.
PRECOMPILED = ["submit/instance.h", "routes/machine.h", "staging/scheduler.h", "softdriver/state.h", "copy/shape.h",
               "device/contexts.h"]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
SRC = Path("src")
compiler = sys.argv[1:]


@cache
def headers_of(file):
    found = set()
    for name in INCLUDE.findall(file.read_text()):
        header = next((at for at in (file.parent / name, SRC / name) if at.is_file()), None)
        if header:
            found |= {header, *headers_of(header)}
    return found


def compiles(*arguments):
    return subprocess.run([*compiler, *map(str, arguments)], check=False).returncode == 0


with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
    def precompile(header):
        return compiles("-x", "c++-header", SRC / header, "-o", Path(folder, header.replace("/", "-")))

    def check(file):
        ready = next((header for header in PRECOMPILED if SRC / header in headers_of(file)), None)
        return compiles(*(["-include-pch", Path(folder, ready.replace("/", "-"))] if ready else []), "-fsyntax-only", file)

    files = sorted(SRC.rglob("*.cpp"))
    ok = all(pool.map(precompile, PRECOMPILED)) and all([*pool.map(check, files)])
print(f"{len(files)} files {'compile by themselves' if ok else 'were compiled, and not all compile by themselves'}")
sys.exit(not (ok and files))
