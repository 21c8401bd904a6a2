#!/usr/bin/env python3
"""Runs the tools with an output that cannot be written. Each must say so and fail.
Usage: full_disk.py FERRY-INFO FERRY-BENCH"""
import os
import subprocess
import sys

if not os.path.exists("/dev/full"):
    print("this system has no /dev/full")
    sys.exit(77)
info, bench = sys.argv[1:]
software = ["--driver", "software"]
quick = [*software, "--quick", "--case", "address"]


def fails(*command, output="/dev/full"):
    with open(output, "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1, (command, done)
    return done.stderr


for command in [[info, "--version"], [info, "--help"], [info, *software, "--no-probe"], [info, *software, "--no-probe", "--json"],
                [info, *software, "--calibrate", "0"], [bench, "--version"], [bench, "--list"], [bench, *quick]]:
    told = fails(*command)
    assert f"{os.path.basename(command[0])}: cannot write to standard output" in told, (command, told)
assert "cannot write to stdout" in fails(bench, *quick, "--json", "-")
for option in ["--json", "--trace"]:
    assert "/dev/full" in fails(bench, *quick, option, "/dev/full", output=os.devnull)
