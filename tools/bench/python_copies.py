#!/usr/bin/env python3
"""Compares the copies of PyTorch and CuPy, if installed, with ferry's Python package, on the same memory and stream:
python_copies.py [path of libferry.so] [--mib SIZE ...] [--quick] [--json]

The copies are the copies of the ferry-bench cases with these names: contiguous copies of pageable memory (`pageable`),
a box of narrow rows and a box within the device (`strided`), and many pieces of pinned (`batch`) and of pageable memory
(`pageable-pieces`). Times are medians of interleaved rounds, until the bytes have arrived. The copied bytes are
verified first. The calls alone are timed as well, for 2 KiB of pinned memory to the device: this shows the overhead of
Python compared with ferry's C function."""
import argparse
import array
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import time
from ctypes import byref, c_void_p
from pathlib import Path
from typing import NamedTuple

min_rounds, max_rounds = 3, 30
float_size = 4  # arrays are of float32


class Case(NamedTuple):
    what: str
    copy: str
    host: str  # the kind of host memory: pageable or pinned
    width: int  # of a row, or of a piece, in bytes
    rows: int = 1
    source_pitch: int = 0
    destination_pitch: int = 0
    pieces: tuple = ()  # the bytes of each, if there are several

    def bytes(self):
        return sum(self.pieces) or self.width * self.rows

    def kinds(self):
        return [self.host if letter == "H" else "device" for letter in self.copy[::2]]


def cases(mib, is_quick):
    part = 1024 if is_quick else 1
    for copy in ["H2D", "D2H"]:
        yield from (Case("line", copy, "pageable", size << 20) for size in mib)
        yield Case("line of 2 KiB", copy, "pinned", 2 << 10)
    yield Case("rows of 4 B", "H2D", "pinned", 4, (4 << 20) // part, 8, 4)
    yield Case("rows of 64 B", "D2D", "-", 64, (4 << 20) // part, 128, 128)
    equal = (4 << 10,) * (64 if is_quick else 4096)
    yield Case("pieces of 4 KiB", "H2D", "pinned", 4 << 10, pieces=equal)
    drawn = random.Random(5)
    mixed = tuple(int(2 ** drawn.uniform(8, 18)) // 4 * 4 for _ in range(150 if is_quick else 1500))
    layer = [1024, 3 * 1024 * 1024, 1024 * 1024, 2 * 1024 * 2752, 2752 * 1024]  # parameters of a model's layer
    tensors = tuple(max(2 * parameters // part, 256) for parameters in layer * 24)
    for copy in ["H2D", "D2H"]:
        yield Case("pageable pieces of 4 KiB", copy, "pageable", 4 << 10, pieces=equal)
        yield Case("pageable pieces of 256 B to 256 KiB", copy, "pageable", 0, pieces=mixed)
        yield Case("120 pageable tensors of a model", copy, "pageable", 0, pieces=tensors)


one_call = Case("line of 2 KiB", "H2D", "pinned", 2 << 10)


class Torch:
    name = "torch"

    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("it finds no GPU")
        self.torch, self.version = torch, torch.__version__
        self.stream, self.wait = torch.cuda.current_stream().cuda_stream, torch.cuda.synchronize

    def allocate(self, kind, shape):
        return self.torch.empty(shape, dtype=self.torch.float32, device="cuda" if kind == "device" else "cpu",
                                pin_memory=kind == "pinned")

    def address(self, array):
        return array.data_ptr()

    def copy(self, destination, source):
        destination.copy_(source, non_blocking=True)


class CuPy:
    name = "cupy"

    def __init__(self):
        import cupy
        import cupyx
        import numpy
        self.cupy, self.cupyx, self.numpy, self.version = cupy, cupyx, numpy, cupy.__version__
        self.on = cupy.cuda.get_current_stream()
        self.stream, self.wait = self.on.ptr, self.on.synchronize

    def allocate(self, kind, shape):
        make = {"device": self.cupy.empty, "pinned": self.cupyx.empty_pinned, "pageable": self.numpy.empty}[kind]
        return make(shape, self.numpy.float32)

    def address(self, array):
        return array.ctypes.data if isinstance(array, self.numpy.ndarray) else array.data.ptr

    def copy(self, destination, source):
        if isinstance(source, self.numpy.ndarray):
            destination.set(source, stream=self.on)
        elif isinstance(destination, self.numpy.ndarray):
            source.get(stream=self.on, out=destination)
        else:
            destination[...] = source


class Ferry:
    """ferry by its Python package, on views that are made once."""
    name = "ferry"

    def __init__(self, path):
        os.environ["FERRY_LIBRARY"] = os.path.abspath(path)
        binding = Path(__file__).resolve().parents[2] / "bindings/python"
        subprocess.run([sys.executable, binding / "generate.py"], check=True)
        sys.path.insert(0, str(binding / "src"))
        import ferry
        self.ferry, self.gpu, self.version = ferry, ferry.open(driver=ferry.native.FERRY_DRIVER_AUTO), ferry.__version__

    def way(self, case, source, destination, stream):
        if not case.pieces:
            one, other = (self.ferry.View(end.addresses[0], (case.rows, case.width), (end.pitch, 1), "uint8", 1,
                                          self.ferry.UNKNOWN) for end in (source, destination))
            return lambda: self.gpu.enqueue(one, other, stream)
        sources, destinations, sizes = (array.array("Q", given) for given in
                                        (source.addresses, destination.addresses, case.pieces))
        return lambda: self.gpu.copy_pieces(stream, sources=sources, destinations=destinations, sizes=sizes)

    def has_views(self, source, destination):
        """Whether the arrays can be looked into, and one copied to the other."""
        try:
            return self.ferry.view(source.views[0]).shape == self.ferry.view(destination.views[0]).shape
        except (TypeError, AttributeError):
            return False

    def way_of_arrays(self, case, source, destination, stream):
        """The same from the arrays themselves, as a program writes it; None where they cannot be looked into."""
        if case.pieces or not self.has_views(source, destination):
            return None
        return lambda: self.gpu.copy_async(source.views[0], destination.views[0], stream)

    def calls(self, source, destination, stream):
        """Ways of enqueuing one copy. "C" and "refused" are the C function by ctypes: they differ by the time in it."""
        array, other = source.views[0], destination.views[0]
        one, two = ((end.addresses[0], end.size) for end in (source, destination))
        memory = self.ferry.memory
        views = memory(*one), memory(*two)
        gpu, library, number = self.gpu, self.gpu.library, int(stream)
        descriptor = self.ferry.native.ferry_copy_desc(width=source.size, height=1, depth=1)
        descriptor.source.kind = self.ferry.native.FERRY_KIND_HOST
        descriptor.destination.kind = self.ferry.native.FERRY_KIND_DEVICE
        descriptor.source.address, descriptor.destination.address = source.addresses[0], destination.addresses[0]
        at = ctypes.addressof(descriptor)

        def with_ticket(handle):
            made = c_void_p()
            library.ferry_copy_async(handle, at, None, number, byref(made), None)
            library.ferry_ticket_release(made, None)

        ways = {"C": lambda: library.ferry_copy_async(gpu.handle, at, None, number, None, None),
                "refused": lambda: library.ferry_copy_async(None, at, None, number, None, None),
                "C with a ticket": lambda: with_ticket(gpu.handle),
                "refused with a ticket": lambda: with_ticket(None),
                "enqueue, views": lambda: gpu.enqueue(*views, stream),
                "enqueue, addresses": lambda: gpu.enqueue(memory(*one), memory(*two), stream),
                "enqueue, arrays": lambda: gpu.enqueue(array, other, stream),
                "copy_async, views": lambda: gpu.copy_async(*views, stream),
                "copy_async, arrays": lambda: gpu.copy_async(array, other, stream)}
        if not self.has_views(source, destination):
            del ways["enqueue, arrays"], ways["copy_async, arrays"]
        return ways

    def close(self):
        self.gpu.close()


class End:
    """The memory at one end of a copy, and the views of it that take part."""

    def __init__(self, package, kind, case, pitch):
        self.package, self.kind, self.case, self.pitch = package, kind, case, pitch or case.width
        columns = case.width // float_size
        if not case.pieces:
            whole = package.allocate(kind, (case.rows, self.pitch // float_size))
            self.wholes, self.places = [whole], [(0, 0)]
            self.views = [whole[:, :columns]] if pitch else [whole]
            self.size = self.pitch * case.rows
        else:  # in a random order in 16 allocations, each piece followed by a gap
            order = list(range(len(case.pieces)))
            random.Random(kind).shuffle(order)
            ends, self.places = [0] * 16, [None] * len(order)
            for i in order:
                at = ends.index(min(ends))
                self.places[i] = at, ends[at]
                ends[at] += case.pieces[i] + min(case.pieces[i], 4096)
            self.size = max(ends)
            self.wholes = [package.allocate(kind, (1, self.size // float_size)) for _ in range(16)]
            starts = [(self.wholes[i][0], offset // float_size) for i, offset in self.places]
            self.views = [row[start:start + size // float_size] for (row, start), size in zip(starts, case.pieces)]
        self.addresses = [package.address(view) for view in self.views]

    def hosts(self):
        """Host memory for each whole: the whole itself, or room for a device's."""
        for whole in self.wholes:
            shape = (1, self.size // float_size) if self.case.pieces else (
                self.size // self.pitch, self.pitch // float_size)
            yield whole, self.package.allocate("pageable", shape) if self.kind == "device" else whole

    def put(self, contents):
        for whole, host in self.hosts():
            ctypes.memmove(self.package.address(host), contents, self.size)
            if host is not whole:
                self.package.copy(whole, host)
                self.package.wait()

    def get(self):
        for whole, host in self.hosts():
            if host is not whole:
                self.package.copy(host, whole)
                self.package.wait()
            yield ctypes.string_at(self.package.address(host), self.size)


def verify(name, way, case, source, destination):
    """New bytes each time, so that none can be left over from an earlier copy."""
    sent = (os.urandom(4099) * (source.size // 4099 + 1))[:source.size]
    source.put(sent)
    way()
    source.package.wait()
    got = list(destination.get())
    for (_, at), (i, to), size in zip(source.places, destination.places, case.pieces or [case.width * case.rows]):
        if case.pieces or source.pitch == destination.pitch == case.width:
            same = sent[at:at + size] == got[i][to:to + size]
        else:  # column by column: far fewer than rows
            same = all(sent[x::source.pitch] == got[i][x::destination.pitch] for x in range(case.width))
        if not same:
            sys.exit(f"{name}: wrong bytes ({case.what}, {case.copy})")


def measure(contenders, wait, budget_s):
    times = {name: [] for name in contenders}
    for copy in contenders.values():
        copy()
    wait()
    end = time.perf_counter() + budget_s
    for i in range(max_rounds):
        if i >= min_rounds and time.perf_counter() > end:
            break
        for name, copy in contenders.items():
            start = time.perf_counter()
            copy()
            wait()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def measure_calls(ways, wait, count, rounds):
    """Microseconds of one call of many."""
    times = {name: [] for name in ways}
    for turn in range(rounds + 1):  # the first warms up
        for name, call in ways.items():
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count * 1e6)
            wait()
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def by_package(package, source, destination):
    pairs = list(zip(destination.views, source.views))

    def way():
        for pair in pairs:
            package.copy(*pair)
    return way


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", help="libferry.so, to be measured beside the others")
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 64, 256],
                        help="sizes of lines (default: 1 64 256)")
    parser.add_argument("--quick", action="store_true", help="small boxes, few pieces and short rounds")
    parser.add_argument("--json", action="store_true", help="write JSON")
    asked = parser.parse_args()
    lines, calls, skipped, versions = [], [], {}, {}
    ferry = None
    for kind in [Torch, CuPy]:
        try:
            package = kind()
        except ImportError as missing:
            skipped[kind.name] = str(missing)
            continue
        versions[kind.name] = package.version
        for case in cases(asked.mib, asked.quick):
            source, destination = (End(package, kind_of_memory, case, pitch) for kind_of_memory, pitch in
                                   zip(case.kinds(), [case.source_pitch, case.destination_pitch]))
            if asked.library and not ferry:
                ferry = Ferry(asked.library)  # when the other has chosen its device
                versions["ferry"] = ferry.version
            ways = {package.name: by_package(package, source, destination)}
            if ferry:
                ways["ferry"] = ferry.way(case, source, destination, package.stream)
                ways["ferry, arrays"] = ferry.way_of_arrays(case, source, destination, package.stream)
            ways = {name: way for name, way in ways.items() if way}
            for name, way in ways.items():
                verify(name, way, case, source, destination)
            seconds = measure(ways, package.wait, 0.05 if asked.quick else 1.0)
            lines.append({"beside": package.name, "what": case.what, "copy": case.copy, "bytes": case.bytes(),
                          "us": {name: taken * 1e6 for name, taken in seconds.items()},
                          "GB/s": {name: case.bytes() / taken / 1e9 for name, taken in seconds.items()}})
        if ferry:
            source, destination = (End(package, kind_of_memory, one_call, 0) for kind_of_memory in one_call.kinds())
            ways = {package.name: by_package(package, source, destination),
                    **ferry.calls(source, destination, package.stream)}
            calls.append({"beside": package.name,
                          "us": measure_calls(ways, package.wait, *((10, 3) if asked.quick else (100, 31)))})
    if ferry:
        ferry.close()
    if asked.json:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps({"date": date, "quick": asked.quick, "versions": versions, "lines": lines,
                          "calls": calls, "skipped": skipped}, indent=2))
        return
    for line in lines:
        speeds = "   ".join(f"{name} {speed:7.2f} GB/s" for name, speed in line["GB/s"].items())
        print(f"{line['copy']}  {line['bytes'] / (1 << 20):9.2f} MiB  {line['what']:16} {speeds}")
    for call in calls:
        print("a call, us:   " + "   ".join(f"{name} {taken:.2f}" for name, taken in call["us"].items()))
    for name, why in skipped.items():
        print(f"{name}: skipped, {why}")


if __name__ == "__main__":
    main()
