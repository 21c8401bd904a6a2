#!/usr/bin/env python3
"""Opens ferry on machines without a driver, with an old driver, and with a driver without a device.

driver_search.py PROGRAM FAKE_SOURCE CC...

Each machine is a folder with a fake libcuda.so.1, which the loader finds before the real one.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

program, source, *compiler = sys.argv[1:]

# What is on the machine, the fake's macros (None: a file that is no library), and the name and value of the error.
CASES = [
    ("no driver", None, "FERRY_ERROR_NO_DRIVER", 0),
    ("no cuGetProcAddress", {"SIGNATURES": 0}, "FERRY_ERROR_DRIVER_TOO_OLD", 0),
    ("11.8, old signature", {"SIGNATURES": 1, "VERSION": 11080}, "FERRY_ERROR_DRIVER_TOO_OLD", 11080),
    ("11.8, both signatures", {"VERSION": 11080}, "FERRY_ERROR_DRIVER_TOO_OLD", 11080),
    ("no cuMemcpy3DAsync", {"MISSING": '"cuMemcpy3DAsync"'}, "FERRY_ERROR_DRIVER_TOO_OLD", 12000),
    ("no device, old signature", {"SIGNATURES": 1, "INIT_RESULT": 100}, "FERRY_ERROR_NO_DEVICE", 0),
    ("no device, new signature", {"SIGNATURES": 2, "INIT_RESULT": 100}, "FERRY_ERROR_NO_DEVICE", 0),
    ("no device, both signatures", {"INIT_RESULT": 100}, "FERRY_ERROR_NO_DEVICE", 0),
    ("driver and kernel module of different versions", {"INIT_RESULT": 803}, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 0),
]
DEFAULTS = {"SIGNATURES": 3, "VERSION": 12000, "INIT_RESULT": 0, "MISSING": '""'}


def make_machine(folder, macros):
    library = Path(folder, "libcuda.so.1")
    if macros is None:
        library.write_text("The dynamic linker stops here: this is no library.\n")
        return
    defines = [f"-D{name}={value}" for name, value in (DEFAULTS | macros).items()]
    subprocess.run([*compiler, "-shared", "-fPIC", *defines, source, "-o", library], check=True)


def open_driver(folder, which):
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [folder, environment.get("LD_LIBRARY_PATH")]))
    run = subprocess.run([program, which], env=environment, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else f"ended with {run.returncode}: {run.stderr}"


failures = 0
for name, macros, error, value in CASES:
    with tempfile.TemporaryDirectory() as folder:
        make_machine(folder, macros)
        refused = open_driver(folder, "cuda")
        fallen_back = open_driver(folder, "auto")
        by_default = open_driver(folder, "default")
    right = refused.endswith(f" {error} value {value}") and fallen_back == f"driver 2 because {error}"
    right &= by_default == refused
    failures += not right
    print(f"{'ok' if right else 'FAILED'}: {name}: cuda: {refused}; auto: {fallen_back}; by default: {by_default}")
sys.exit(1 if failures else 0)
