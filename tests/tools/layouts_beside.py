#!/usr/bin/env python3
"""Runs tools/bench/layouts_beside.py with a stand-in for PyTorch that has only the functions it calls, on the driver that
ferry finds. The script must notice wrong bytes, and must skip without PyTorch or without a GPU.
Usage: layouts_beside.py SCRIPT LIBFERRY"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

script, library = sys.argv[1:]
stand_in = '''
import os
uint8, int8, int16, int32, int64 = "torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64"
sizes = {uint8: 1, int8: 1, int16: 2, int32: 4, int64: 8}
__version__ = "2.11"
is_wrong = os.environ["STAND_IN"] == "wrong"
gpu = None

class Device:
    type, index = "cuda", 0

class Tensor:
    """Contiguous, or a permuted view. Strides count elements."""
    layout, is_quantized, device = "torch.strided", False, Device()

    def __init__(self, memory, dtype, shape, strides=None):
        self.memory, self.dtype, self.shape = memory, dtype, tuple(shape)
        count, tight = 1, []
        for length in reversed(self.shape):
            tight.insert(0, count)
            count *= length
        self.strides, self.bytes = strides or tuple(tight), count * sizes[dtype]

    def data_ptr(self): return self.memory.address
    def stride(self): return self.strides
    def element_size(self): return sizes[self.dtype]
    def is_conj(self): return False
    def is_neg(self): return False
    def __getitem__(self, part): return Tensor(self.memory, self.dtype, [part.stop])
    def view(self, *given):
        if given[0] in sizes: return Tensor(self.memory, given[0], [self.bytes // sizes[given[0]]])
        return Tensor(self.memory, self.dtype, given)
    def permute(self, *order):
        return Tensor(self.memory, self.dtype, [self.shape[i] for i in order], tuple(self.strides[i] for i in order))
    def host(self):
        there = bytearray(self.bytes)
        gpu.copy(self, there)
        return there
    def random_(self): gpu.copy(os.urandom(self.bytes), self)
    def zero_(self): gpu.copy(bytes(self.bytes), self)
    def copy_(self, other):
        gpu.copy(other, self)
        if is_wrong and len(self.shape) == 2:
            first = Tensor(self.memory, uint8, [1])
            gpu.copy(bytes([first.host()[0] ^ 1]), first)

def empty(size, dtype, device):
    import ferry
    global gpu
    gpu = gpu or ferry.open(driver=ferry.native.FERRY_DRIVER_AUTO)
    return Tensor(ferry.view(gpu.empty(size)), dtype, [size])

def equal(one, other): return one.host() == other.host()

class cuda:
    def is_available(): return os.environ["STAND_IN"] != "no GPU"
    def init(): pass
    def synchronize(): pass
'''


def run(torch, *arguments, mode=""):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"torch": torch, "vllm": "raise ImportError('not here')",
                           "sgl_kernel": "raise ImportError('not here')"}.items():
            pathlib.Path(folder, f"{name}.py").write_text(text)
        return subprocess.run([sys.executable, script, library, "--quick", "--mib", "1", "--matrix", "64", *arguments],
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder, "STAND_IN": mode})


done = run(stand_in, "--json")
assert done.returncode == 0, done
told = json.loads(done.stdout)
names = [line["what"] for line in told["lines"]]
assert len(set(names)) == len(names) == 30 + 4 + 1 and sum(" to " in name for name in names) == 31, names
for line in told["lines"]:
    size = 64 * 64 * int(line["what"].split()[-2]) if line["what"].startswith("transpose") else 1 << 20
    assert line["bytes"] == size and set(line["us"]) == {"torch", "ferry"} and min(line["us"].values()) > 0, line
    assert line["p25"] <= line["ratio"] <= line["p75"] and line["rounds"] >= 5, line
    assert line["ferry is"] == ("slower" if line["p75"] < 1 else "faster" if line["ratio"] >= 1 else "within the spread"), line
summary = told["summary"]
assert abs(summary["mean ratio"] - sum(line["ratio"] for line in told["lines"]) / 35) < 1e-9, summary
assert summary["slower"] == [line["what"] for line in told["lines"] if line["ferry is"] == "slower"], summary
assert summary["never slower"] == ("missed" if summary["slower"] else "met"), summary
assert summary["mean"] == ("met" if summary["mean ratio"] >= 1.8 else "missed"), summary
assert set(told["missing"]) == {"vLLM", "SGLang"} and "not here" in told["missing"]["vLLM"], told["missing"]

wrong = run(stand_in, mode="wrong")
assert wrong.returncode == 1 and "ferry and PyTorch copied different bytes" in wrong.stderr, wrong
shown = wrong.stdout.splitlines()  # up to the wrong copy
assert len(shown) == 30 and shown[0].startswith("LKBTHW to LKBHTW"), shown

for torch, mode, why in [("raise ImportError('not here')", "", "not here"), (stand_in, "no GPU", "PyTorch finds no GPU")]:
    absent = run(torch, mode=mode)
    assert absent.returncode == 77 and absent.stdout == f"skipped: {why}\n", absent
