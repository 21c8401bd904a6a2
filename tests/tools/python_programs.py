#!/usr/bin/env python3
"""Runs tools/run/python_programs.py with a stand-in for PyTorch that only counts, and a stand-in for ferry-run. The
script must compare both ways, leave out what is not installed, and fail where a program does.
Usage: python_programs.py SCRIPT"""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

script = sys.argv[1]
torch = '''
import os, time
class Anything:
    """Answers every call and attribute. Beneath the stand-in for ferry-run, copies to the device take less time."""
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Anything()
    def __call__(self, *arguments, **named): return Anything()
    def cuda(self):
        time.sleep(0.001 if os.environ.get("BENEATH") else 0.004)
        return Anything()
    def items(self): return [("weight", self)]
    def state_dict(self): return self
    def __getitem__(self, key): return self
def equal(one, other): return not os.environ.get("STAND_IN_BROKEN")
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return Anything()
'''
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "torch").mkdir()
    (pathlib.Path(folder) / "torch/__init__.py").write_text(torch)
    (pathlib.Path(folder) / "torch/nn.py").write_text("from torch import Anything\n"
                                                      "def __getattr__(name): return Anything()\n")
    for missing in ["cupy", "jax", "safetensors"]:
        (pathlib.Path(folder) / f"{missing}.py").write_text("raise ImportError('no such package')\n")
    ferry_run = pathlib.Path(folder) / "ferry-run"
    ferry_run.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nBENEATH=1 exec "$@"\n')
    ferry_run.chmod(ferry_run.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*arguments, **more):
        return subprocess.run([sys.executable, script, *arguments], env={**environment, **more}, capture_output=True,
                              text=True, timeout=60)

    done = run("--ferry-run", str(ferry_run), "--rounds", "2", "--scale", "0.001")
    assert done.returncode == 0, done
    rows = {line[:40].strip(): line[40:].split() for line in done.stdout.splitlines()[1:]}
    assert 2 < float(rows["x.cuda(), 512 MiB"][-1]) < 6, rows
    assert not any(name.startswith(("cupy", "jax")) for name in rows) and "no such package" in done.stderr, done
    done = run("--control", "--ferry-run", str(ferry_run), "--rounds", "2", "--scale", "0.001", "--only", "x.cuda")
    control, beneath = map(float, done.stdout.splitlines()[1].split()[-2:])
    assert 0.7 < control < 1.4 and 2 < beneath < 6, done
    assert run("--ferry-run", str(ferry_run), STAND_IN_BROKEN="1").returncode != 0, "wrong bytes must not go unnoticed"
    assert run().returncode != 0
