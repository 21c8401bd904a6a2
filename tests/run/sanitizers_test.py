#!/usr/bin/env python3
"""Runs programs that are built with compilers' sanitizers beneath ferry-run. They must run as without it.

sanitizers_test.py FERRY_RUN SANITIZED_SOURCE

A sanitizer's runtime replaces functions of libc, and calls dlsym while it does so. Exits with 77 (skipped) where no
compiler can build such programs. In CI (the environment variable CI is set), both compilers must run with the address
and the thread sanitizer.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ferry_run, source = map(os.path.abspath, sys.argv[1:])
COMPILERS = ("g++",), ("clang++-16", "clang++")
SANITIZERS = "address", "thread", "undefined"
REQUIRED_IN_CI = {(compilers[0], sanitizer) for compilers in COMPILERS for sanitizer in ("address", "thread")}

# The thread sanitizer may not start under strong randomisation of addresses.
fixed_addresses = ["setarch", "-R"]
if subprocess.run([*fixed_addresses, "true"], capture_output=True).returncode != 0:
    fixed_addresses = []


def run(*command, **environment):
    return subprocess.run([*fixed_addresses, *map(str, command)], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def build(compilers, sanitizer, program):
    """Returns why there is no such program, or nothing."""
    for compiler in compilers:
        try:
            done = run(compiler, "-std=c++17", "-g1", "-O1", f"-fsanitize={sanitizer}", source, "-o", program, "-ldl")
        except FileNotFoundError:
            continue
        return None if done.returncode == 0 else f"{compiler} cannot build it: {done.stderr.splitlines()[-1]}"
    return "not installed"


def check(condition, *told):
    assert condition, told


ran = set()
with tempfile.TemporaryDirectory() as folder:
    program, report, suppressions = (Path(folder) / name for name in ("program", "report.json", "suppressions"))
    # ferry's code is not instrumented: the thread sanitizer sees its copies, but not what orders them.
    suppressions.write_text("called_from_lib:libferry-run.so\nmutex:libferry-run.so\n")
    for compilers in COMPILERS:
        for sanitizer in SANITIZERS:
            name = f"{compilers[0]}, {sanitizer} sanitizer"
            obstacle = build(compilers, sanitizer, program)
            plain = run(program) if not obstacle else None
            if plain and plain.returncode != 0:
                obstacle = f"a program fails without ferry-run too: {plain.stderr.splitlines()[:2]}"
            if obstacle:
                print(f"{name}: skipped: {obstacle}")
                continue
            for options in [], ["--report-only"], ["--all"]:
                done = run(ferry_run, "--quiet", "--report", report, *options, "--", program,
                           TSAN_OPTIONS=f"suppressions={suppressions}")
                check((done.returncode, done.stdout) == (0, plain.stdout), name, options, done)
                copies = json.loads(report.read_text())
                check(copies["copies"]["calls"] == 2, name, options, copies)
                check(options != ["--all"] or copies["served"]["calls"] == 2, name, options, copies)
            off = run(ferry_run, "--quiet", "--", "env", "FERRY_RUN=off", program)
            check((off.returncode, off.stdout) == (0, plain.stdout), name, "off", off)
            print(f"{name}: ok")
            ran.add((compilers[0], sanitizer))
missing = REQUIRED_IN_CI - ran if os.environ.get("CI") else ()
check(not missing, "these must run in CI", missing)
sys.exit(0 if ran else 77)
