#!/usr/bin/env python3
"""Installs ferry into a temporary folder and builds a program against it through pkg-config.

installed.py MESON BUILD_FOLDER PREFIX LIBDIR PROGRAM CC CXX shared|static
The C compiler links the static library: its user needs no C++ compiler.
"""
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

meson, build, prefix, libdir, program, cc, cxx, library = sys.argv[1:]


def run(*command, **environment):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env={**os.environ, **environment})


def flags_of(root, libraries, *options):
    command = ["pkg-config", f"--define-variable=prefix={root}", *options, "--cflags", "--libs", "ferry"]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    return shlex.split(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def needs_libferry(binary):
    return "libferry" in subprocess.run(["readelf", "-d", binary], check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    run(meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
    root = Path(folder) / Path(prefix).relative_to("/")
    libraries = root / libdir
    binary = str(Path(folder, "program"))
    if library == "static":
        for shared in libraries.glob("libferry.so*"):
            shared.unlink()
        run(cc, "-std=c99", program, "-o", binary, *flags_of(root, libraries, "--static"))
        run(binary)
    else:
        flags = flags_of(root, libraries)
        for compiler in [[cc, "-std=c99", program], [cxx, "-std=c++17", "-x", "c++", program, "-x", "none"]]:
            run(*compiler, "-o", binary, *flags)
            run(binary, LD_LIBRARY_PATH=str(libraries))
    if needs_libferry(binary) != (library == "shared"):
        sys.exit(f"the program is not linked with the {library} library")
