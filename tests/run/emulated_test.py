#!/usr/bin/env python3
"""Runs programs for another processor with and without libferry-run.so, on the software driver. They must do the same.

emulated_test.py LIBFERRY_RUN LIBCUDA TRAPS EVERY_CALL LOOKUPS PLUGIN OWN_PRELOAD OWN_LOOKUPS LINKED OLD_DRIVER STATIC -- EMULATOR ...
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lookup_lines import beneath_ferry_run

split = sys.argv.index("--")
emulator = sys.argv[split + 1:]
library, libcuda, traps, every_call, lookups, plugin, _, _, linked, *_ = map(os.path.abspath, sys.argv[1:split])


def run(*command, **environment):
    environment["LD_LIBRARY_PATH"] = os.path.dirname(libcuda)
    # When a program opens /proc/self/maps, QEMU looks at each page that is mapped.
    environment["FERRY_SOFTWARE_MEMORY"] = str(64 << 20)
    settings = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    done = subprocess.run([*emulator, *settings, *command], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (command, environment, done)
    return done.stdout


def run_beneath(*command, **environment):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        load = Path(folder) / "loadavg"
        load.write_text("0.50 0.50 0.50 1/100 4711\n")
        output = run(*command, LD_PRELOAD=library, FERRY_RUN="serve", FERRY_RUN_QUIET="1", FERRY_RUN_PINNED="shared",
                     FERRY_RUN_REPORT=file, FERRY_RUN_LOADAVG=load, **environment)
        reports = list(Path(folder).glob("report.json.*")) # only of programs that make copies
        return output, json.loads(reports[0].read_text()) if reports else None


output, _ = run_beneath(lookups, plugin, linked)
assert output.splitlines() == beneath_ferry_run(run(lookups, plugin, linked)), output
assert "libferry-run.so" in output and "plugin 0" in output, output

output, report = run_beneath(every_call, FERRY_RUN_ALL="1")
assert output == run(every_call) and report["served"]["calls"] > 40, (output, report)
for name in ("result-without-waiting", "source-rewritten", "errors", "batches", "per-thread-streams"):
    output, report = run_beneath(traps, name, FERRY_RUN_ALL="1")
    assert output == run(traps, name) and report["copies"]["calls"] > 0, (name, output, report)
    assert report["served"]["calls"] > 0 or name == "errors", (name, report)
