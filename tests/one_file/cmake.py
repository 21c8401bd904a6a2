#!/usr/bin/env python3
"""Builds and runs a CMake project to which ferry.cpp was added: cmake.py FERRY_CPP PROGRAM PROJECT CXX"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

source, program, project = (Path(argument).resolve() for argument in sys.argv[1:4])
if not shutil.which("cmake"):
    print("skipped: cmake is not installed")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    for command in (["cmake", "-S", str(project), "-B", folder, f"-DFERRY_CPP={source}", f"-DPROGRAM={program}",
                     f"-DCMAKE_CXX_COMPILER={sys.argv[4]}"],
                    ["cmake", "--build", folder], [f"{folder}/upload"]):
        print("+", *command, flush=True)
        subprocess.run(command, check=True)
