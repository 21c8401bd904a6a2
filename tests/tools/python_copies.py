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
ferry.ferry_copy_bytes.argtypes = [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p]
ferry.ferry_device_alloc.argtypes = [c_void_p, c_int32, c_uint64, c_void_p, c_void_p]
instance = c_void_p()
options = (ctypes.c_uint32 * 2)(8, 1)  # struct_size, FERRY_DRIVER_AUTO
assert ferry.ferry_open(byref(options), byref(instance), None) == 0
ferry.ferry_context_synchronize.argtypes = [c_void_p, c_int32, c_void_p, c_void_p]
broken = os.environ.get("STAND_IN_BROKEN")

class Memory:
    """float32 in rows: whole, or a view of it."""
    def __init__(self, shape, on_device):
        (self.rows, self.columns), self.address = shape, c_uint64()
        self.pitch = 4 * self.columns
        if on_device:
            assert ferry.ferry_device_alloc(instance, 0, self.rows * self.pitch, byref(self.address), None) == 0
        else:
            self.kept = ctypes.create_string_buffer(self.rows * self.pitch)
            self.address.value = ctypes.addressof(self.kept)

    def __getitem__(self, key):
        view = type(self).__new__(type(self))
        view.__dict__.update(self.__dict__, whole=self)
        if isinstance(key, tuple):
            view.columns = key[1].stop
        elif isinstance(key, slice):
            view.columns, view.address = key.stop - key.start, c_uint64(self.address.value + 4 * key.start)
        else:
            view.rows = 1
        return view

def copy(name, to, source):
    assert (to.rows, to.columns) == (source.rows, source.columns)
    rows, width = to.rows, 4 * to.columns
    is_broken = broken == f"{name} {rows} x {to.columns}"
    if to.pitch == source.pitch == width: rows, width = 1, rows * width
    for i in range(rows):
        # A float is missing: one byte could be right by chance.
        size = width - 4 if is_broken and i == rows - 1 else width
        assert size == 0 or ferry.ferry_copy_bytes(instance, to.address.value + i * to.pitch, source.address.value + i * source.pitch,
                                      size, None, None) == 0

def wait(): assert ferry.ferry_context_synchronize(instance, 0, None, None) == 0
''',
    "torch.py": '''
from stand_in import Memory, copy, wait
float32, __version__ = "float", "2.11"

class Tensor(Memory):
    def data_ptr(self): return self.address.value
    def copy_(self, source, non_blocking): copy("torch", self, source)

def empty(shape, dtype, device, pin_memory): return Tensor(shape, device == "cuda")

class cuda:
    cuda_stream = 0
    def is_available(): return True
    def synchronize(): wait()
    def current_stream(): return cuda
''',
    "numpy.py": '''
from stand_in import Memory
float32 = "float"

class ndarray(Memory):
    @property
    def ctypes(self): return self
    @property
    def data(self): return self.address.value

def empty(shape, dtype): return ndarray(shape, False)
''',
    "cupyx.py": "from numpy import empty as empty_pinned",
    "cupy.py": '''
from stand_in import Memory, copy, wait
__version__ = "14.2"

class ndarray(Memory):
    @property
    def data(self): return self
    @property
    def ptr(self): return self.address.value
    def set(self, source, stream): copy("cupy", self, source)
    def get(self, stream, out): copy("cupy", out, self)
    def __setitem__(self, key, source): copy("cupy", self, source)

def empty(shape, dtype): return ndarray(shape, True)

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
        return subprocess.run([sys.executable, script, *given, "--quick", "--mib", "1", "2", *arguments], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": folder, "STAND_IN_LIBRARY": sys.argv[2],
                                   "STAND_IN_BROKEN": broken})


done = run(stand_ins, "--json")
assert done.returncode == 0, done.stderr
told = json.loads(done.stdout)
assert told["skipped"] == {} and told["quick"], told
assert told["versions"]["torch"] == "2.11" and told["versions"]["cupy"] == "14.2" and told["versions"]["ferry"], told
lines = [each for way in ["H2D", "D2H"]
         for each in [("line", way, 1 << 20), ("line", way, 2 << 20), ("line of 2 KiB", way, 2048)]]
shapes = [("rows of 4 B", "H2D", 16 << 10), ("rows of 64 B", "D2D", 256 << 10), ("pieces of 4 KiB", "H2D", 256 << 10)]
pageable = ["pageable pieces of 4 KiB", "pageable pieces of 256 B to 256 KiB", "120 pageable tensors of a model"]
sizes = {line["what"]: line["bytes"] for line in told["lines"]}
assert sizes[pageable[0]] == 256 << 10 and 150 * 256 < sizes[pageable[1]] < 150 << 18, told
lists = [(what, way, sizes[what]) for way in ["H2D", "D2H"] for what in pageable]
assert [(line["beside"], line["what"], line["copy"], line["bytes"]) for line in told["lines"]] == [
    (name, *each) for name in ["torch", "cupy"] for each in lines + shapes + lists], told
for line in told["lines"]:
    assert set(line["GB/s"]) == set(line["us"]), line
    assert {line["beside"], "ferry"} <= set(line["us"]) <= {line["beside"], "ferry", "ferry, arrays"}, line
    assert all(speed > 0 for speed in line["GB/s"].values()), line

# The stand-ins' arrays cannot be looked into, so the calls of arrays are left out.
calls = {"C", "refused", "C with a ticket", "refused with a ticket", "enqueue, views", "enqueue, addresses", "copy_async, views"}
assert [set(each["us"]) for each in told["calls"]] == [calls | {"torch"}, calls | {"cupy"}], told["calls"]
assert all(taken > 0 for each in told["calls"] for taken in each["us"].values()), told["calls"]

alone = run(stand_ins, library=None)
assert alone.returncode == 0 and "H2D       2.00 MiB  line             torch" in alone.stdout, alone
assert "ferry" not in alone.stdout, alone

absent = {name: "raise ImportError('not here')" for name in ["torch.py", "cupy.py"]}
for broken, what in [("torch 1 x 262144", "line, H2D"), ("cupy 4096 x 1", "rows of 4 B, H2D"),
                     ("torch 4096 x 16", "rows of 64 B, D2D"), ("cupy 1 x 1024", "pieces of 4 KiB, H2D")]:
    other = "cupy.py" if broken.startswith("torch") else "torch.py"
    wrong = run({**stand_ins, other: absent[other]}, broken=broken)
    assert wrong.returncode != 0 and f"{broken.split()[0]}: wrong bytes ({what})" in wrong.stderr, wrong

none = run(absent)
assert none.returncode == 0, none
assert "torch: skipped, not here" in none.stdout and "cupy: skipped, not here" in none.stdout, none
