#!/usr/bin/env python3
"""Runs tools/bench/file_loaders.py on the driver that ferry finds: with ferry alone, and with stand-ins for PyTorch and
safetensors that have only the functions it calls. The script must notice wrong bytes and loaders that fail.
Usage: file_loaders.py SCRIPT LIBFERRY"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

script, library = sys.argv[1:]
caches = ["cold", "warm", "tmpfs"]
plain = [f"plain pread, no GPU, {count} threads{direct}" for count in (8, 16) for direct in ("", ", O_DIRECT")]
absent = {"torch.py": "raise ImportError('not here')"}
stand_ins = {
    "torch.py": """
uint8 = "uint8"
gpu = None

def empty(size, dtype, device):
    import ferry
    global gpu
    gpu = gpu or ferry.open(driver=ferry.native.FERRY_DRIVER_AUTO)
    return gpu.empty(size)

class cuda:
    def is_available(): return True
    def synchronize(): pass
""",
    "safetensors/__init__.py": "",
    "safetensors/torch.py": """
import json, os, struct

class Tensor:
    def __init__(self, contents): self.contents = contents
    def cpu(self): return self
    def numpy(self): return self
    def tobytes(self): return self.contents

kept = {}

def load_file(path, device):
    if os.environ["STAND_IN"] == "stale" and kept: return kept
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    for name, about in header.items():
        begin, end = about["data_offsets"]
        kept[name] = Tensor(data[begin:end])
    if os.environ["STAND_IN"] == "wrong": kept["tensor.001"].contents = bytes(64)
    if os.environ["STAND_IN"] == "failing": raise OSError("it failed")
    return kept
""",
}


def run(files, *arguments, stand_in=""):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        command = [sys.executable, script, library, "--quick", "--mib", "2", "--tensors", "20", "--folder", folder]
        return subprocess.run([*command, *arguments], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": folder, "STAND_IN": stand_in})


def rows(done, status=0):
    assert done.returncode == status, done
    told = json.loads(done.stdout)
    return {(line["cache"], line["loader"]): line for line in told["lines"]}, told["missing"]


alone, missing = rows(run(absent, "--json"))
has_memory = "tmpfs" not in missing
caches = caches if has_memory else caches[:2]
assert list(alone) == [(cache, name) for cache in caches for name in ["ferry", *plain]], list(alone)
for cache in caches:
    line = alone[cache, "ferry"]
    assert line["GB/s"] > 0 and line["spread"] >= 0 and len(line["seconds"]) == 2 and "ferry" not in line, line
    beside = alone[cache, plain[0]]
    assert beside["ferry"] > 0 and beside["lost"] is False, beside  # plain reads have no GPU
assert missing["safetensors, load_file"] == "not installed: not here", missing
assert 0 <= alone["cold", "ferry"]["still cached"] <= 1

shown = run(absent)
assert shown.returncode == 0 and "KvikIO, 16 threads, without GDS: not installed: not here" in shown.stdout, shown
assert any(line.startswith("warm   ferry ") for line in shown.stdout.splitlines()), shown

name = "safetensors, load_file"
both, missing = rows(run(stand_ins, "--json"))
for cache in caches:
    assert both[cache, name]["lost"] is (both[cache, name]["ferry"] < 1), both[cache, name]
assert missing["InstantTensor"].startswith("not installed"), missing
assert missing["pread into pinned memory, 16 threads"].startswith("cannot start"), missing
lost = run(stand_ins).stdout  # the stand-in has no GPU, and ferry's software driver is slower
assert [line for line in lost.splitlines() if name in line and line.endswith("as fast, lost")], lost

for stand_in, failure, status in [("wrong", "wrong bytes in tensor.001", 1), ("failing", "failed: OSError: it failed", 0)]:
    found, _ = rows(run(stand_ins, "--json", stand_in=stand_in), status)
    assert all(found[cache, name]["failure"] == failure and "GB/s" in found[cache, "ferry"] for cache in caches), found
if has_memory:  # a loader that returns what it has loaded earlier
    found, _ = rows(run(stand_ins, "--json", stand_in="stale"), 1)
    assert found["tmpfs", name]["failure"].startswith("wrong bytes"), found
