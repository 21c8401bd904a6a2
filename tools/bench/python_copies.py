#!/usr/bin/env python3
"""Measures the copies of PyTorch and CuPy, if installed, between pageable host memory and a GPU, and ferry's copies on
the same memory and stream: python_copies.py [path of libferry.so] [--mib SIZE ...] [--json]

Times end when the bytes have arrived. They are medians of interleaved rounds. Every library is verified first."""
import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from ctypes import byref, c_int32, c_uint64, c_void_p

min_rounds, max_rounds, budget_s = 3, 30, 1.0


class Torch:
    name = "torch"

    def __init__(self, size):
        import torch
        self.cuda = torch.cuda
        if not self.cuda.is_available():
            raise ImportError("it finds no GPU")
        self.host = torch.empty(size, dtype=torch.uint8)
        self.device = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.host_address, self.device_address = self.host.data_ptr(), self.device.data_ptr()
        self.stream = self.cuda.current_stream().cuda_stream
        self.ways = {"H2D": lambda: self.device.copy_(self.host, non_blocking=True),
                     "D2H": lambda: self.host.copy_(self.device, non_blocking=True)}

    def wait(self):
        self.cuda.synchronize()


class CuPy:
    name = "cupy"

    def __init__(self, size):
        import cupy
        import numpy
        self.host = numpy.empty(size, numpy.uint8)
        self.device = cupy.empty(size, numpy.uint8)
        self.host_address, self.device_address = self.host.ctypes.data, self.device.data.ptr
        self.on = cupy.cuda.get_current_stream()
        self.stream = self.on.ptr
        self.ways = {"H2D": lambda: self.device.set(self.host), "D2H": lambda: self.device.get(out=self.host)}

    def wait(self):
        self.on.synchronize()


class Ferry:
    name = "ferry"

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.ferry_open.argtypes = [c_void_p, c_void_p, c_void_p]
        self.library.ferry_copy_bytes_async.argtypes = [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p]
        self.library.ferry_close.argtypes = [c_void_p]
        self.library.ferry_close.restype = None
        self.instance = c_void_p()
        options = (ctypes.c_uint32 * 2)(8, 1)  # struct_size, FERRY_DRIVER_AUTO
        self.check(self.library.ferry_open(byref(options), byref(self.instance), None))

    def check(self, status):
        if status:
            sys.exit(f"ferry: status {c_int32(status).value}")

    def ways_of(self, other, size):
        def copy(destination, source):
            self.check(self.library.ferry_copy_bytes_async(self.instance, destination, source, size, other.stream, None))
        return {"H2D": lambda: copy(other.device_address, other.host_address),
                "D2H": lambda: copy(other.host_address, other.device_address)}

    def close(self):
        self.library.ferry_close(self.instance)


def verify(name, ways, memory, size):
    """Copies to the device and back: new bytes each time, and host memory is cleared in between."""
    sent = os.urandom(4096) * (size // 4096 + 1)
    ctypes.memmove(memory.host_address, sent, size)
    ways["H2D"]()
    memory.wait()
    ctypes.memset(memory.host_address, 0, size)
    ways["D2H"]()
    memory.wait()
    if ctypes.string_at(memory.host_address, size) != sent[:size]:
        sys.exit(f"{name}: wrong bytes came back")


def measure(contenders, memory):
    times = {name: [] for name in contenders}
    for copy in contenders.values():
        copy()
    memory.wait()
    end = time.perf_counter() + budget_s
    for i in range(max_rounds):
        if i >= min_rounds and time.perf_counter() > end:
            break
        for name, copy in contenders.items():
            start = time.perf_counter()
            copy()
            memory.wait()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", help="libferry.so; without it only the other libraries are measured")
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 64, 1024], help="sizes in MiB (default: 1 64 1024)")
    parser.add_argument("--json", action="store_true", help="write JSON")
    asked = parser.parse_args()
    lines, skipped = [], {}
    ferry = None
    for kind in [Torch, CuPy]:
        for size in [mib << 20 for mib in asked.mib]:
            try:
                memory = kind(size)
            except ImportError as missing:
                skipped[kind.name] = str(missing)
                break
            if asked.library and not ferry:
                ferry = Ferry(asked.library)  # when the other has chosen its device
            all_ways = {kind.name: memory.ways}
            if ferry:
                all_ways["ferry"] = ferry.ways_of(memory, size)
            for name, ways in all_ways.items():
                verify(name, ways, memory, size)
            for way in ["H2D", "D2H"]:
                seconds = measure({name: ways[way] for name, ways in all_ways.items()}, memory)
                lines.append({"beside": kind.name, "copy": way, "bytes": size,
                              "GB/s": {name: size / taken / 1e9 for name, taken in seconds.items()}})
    if ferry:
        ferry.close()
    if asked.json:
        print(json.dumps({"lines": lines, "skipped": skipped}, indent=2))
        return
    for line in lines:
        speeds = "   ".join(f"{name} {speed:6.2f} GB/s" for name, speed in line["GB/s"].items())
        print(f"{line['copy']}  {line['bytes'] >> 20:5} MiB   {speeds}")
    for name, why in skipped.items():
        print(f"{name}: skipped, {why}")


if __name__ == "__main__":
    main()
