#!/usr/bin/env python3
"""Runs tools/bench/python_copies.py with stand-ins for PyTorch and CuPy that have only the functions it calls, on the
driver that ferry finds. The script must notice wrong bytes and must say so where a package is missing.
Usage: python_copies.py SCRIPT LIBFERRY"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

script, library = sys.argv[1:]
stand_ins = {
    "stand_in.py": '''
import ctypes, os
from ctypes import byref, c_int32, c_uint64, c_void_p
ferry = ctypes.CDLL(os.environ["STAND_IN_LIBRARY"])
ferry.ferry_copy_bytes.argtypes = [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p]
ferry.ferry_device_alloc.argtypes = [c_void_p, c_int32, c_uint64, c_void_p, c_void_p]
instance = c_void_p()
options = (ctypes.c_uint32 * 2)(8, 1)  # struct_size, FERRY_DRIVER_AUTO
assert ferry.ferry_open(byref(options), byref(instance), None) == 0
ferry.ferry_context_synchronize.argtypes = [c_void_p, c_int32, c_void_p]
broken = os.environ.get("STAND_IN_BROKEN")

class Memory:
    def __init__(self, size, on_device):
        self.size, self.address = size, c_uint64()
        if on_device:
            assert ferry.ferry_device_alloc(instance, 0, size, byref(self.address), None) == 0
        else:
            self.kept = ctypes.create_string_buffer(size)
            self.address.value = ctypes.addressof(self.kept)

def copy(name, to, source):
    size = to.size - 1 if broken == name else to.size
    assert ferry.ferry_copy_bytes(instance, to.address, source.address, size, None) == 0

def wait(): assert ferry.ferry_context_synchronize(instance, 0, None) == 0
''',
    "torch.py": '''
from stand_in import Memory, copy, wait
uint8 = "bytes"

class Tensor(Memory):
    def data_ptr(self): return self.address.value
    def copy_(self, source, non_blocking): copy("torch", self, source)

def empty(size, dtype, device=None): return Tensor(size, device == "cuda")

class cuda:
    cuda_stream = 0
    def is_available(): return True
    def synchronize(): wait()
    def current_stream(): return cuda
''',
    "numpy.py": '''
from stand_in import Memory
uint8 = "bytes"

def empty(size, dtype):
    made = Memory(size, False)
    made.ctypes = made
    made.data = made.address.value
    return made
''',
    "cupy.py": '''
from stand_in import Memory, copy, wait

class ndarray(Memory):
    def set(self, source): copy("cupy", self, source)
    def get(self, out): copy("cupy", out, self)

def empty(size, dtype):
    made = ndarray(size, True)
    made.data = made
    made.ptr = made.address.value
    return made

class cuda:
    ptr = 0
    def get_current_stream(): return cuda
    def synchronize(): wait()
''',
}


def run(files, *arguments, broken="", library=library):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            pathlib.Path(folder, name).write_text(text)
        given = [library] if library else []
        return subprocess.run([sys.executable, script, *given, "--mib", "1", "2", *arguments], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": folder, "STAND_IN_LIBRARY": sys.argv[2],
                                   "STAND_IN_BROKEN": broken})


done = run(stand_ins, "--json")
assert done.returncode == 0, done.stderr
told = json.loads(done.stdout)
assert told["skipped"] == {}, told
assert [(line["beside"], line["bytes"] >> 20, line["copy"]) for line in told["lines"]] == [
    (name, mib, way) for name in ["torch", "cupy"] for mib in [1, 2] for way in ["H2D", "D2H"]], told
for line in told["lines"]:
    assert set(line["GB/s"]) == {line["beside"], "ferry"} and all(speed > 0 for speed in line["GB/s"].values()), line

alone = run(stand_ins, library=None)
assert alone.returncode == 0 and "H2D      2 MiB   torch" in alone.stdout and "ferry" not in alone.stdout, alone

for name in ["torch", "cupy"]:
    wrong = run(stand_ins, broken=name)
    assert wrong.returncode != 0 and f"{name}: wrong bytes came back" in wrong.stderr, wrong

absent = {name: "raise ImportError('not here')" for name in ["torch.py", "cupy.py"]}
none = run(absent)
assert none.returncode == 0, none
assert "torch: skipped, not here" in none.stdout and "cupy: skipped, not here" in none.stdout, none
