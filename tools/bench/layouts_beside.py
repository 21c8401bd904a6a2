#!/usr/bin/env python3
"""Copies between layouts with ferry's Python package and with PyTorch, in turn, on the same tensors of one GPU:
layouts_beside.py [path of libferry.so] [--mib SIZE] [--quick] [--json]

The copies are the 30 ordered pairs of six layouts of a cache, transposes of matrices with elements of 1 to 8 bytes, and
the reversed order of all axes, as in the case `nests` of ferry-bench. PyTorch copies with `copy_` between permuted views,
ferry with `gpu.copy`. Times run until the bytes have arrived, and are medians of interleaved rounds. A ratio is PyTorch's
time / ferry's time, the median of the rounds. All bytes of both results are compared first. Where vLLM or sgl_kernel is
installed, its kernel for lists of blocks is measured too. Without PyTorch or a GPU, the exit status is 77."""
import argparse
import array
import importlib
import inspect
import json
import random
import statistics
import sys
import time
from ctypes import addressof
from types import SimpleNamespace
from typing import Callable, NamedTuple

skipped = 77  # the exit status
target_of_mean = 1.8
min_rounds, max_rounds = 5, 60

# Layouts of a cache: L layer, B block, K key or value, T token, H head, W width, w a part of the width. The axes are the
# letters of `axes`: w counts parts of the width, and x the 8 numbers of a part.
axes = "LBKTHwx"
layouts = {"LKBTHW": "LKBTHwx", "LKBHTW": "LKBHTwx", "LBKTHW": "LBKTHwx", "BLKTHW": "BLKTHwx", "HLKBTW": "HLKBTwx",
           "LKBHwTw": "LKBHwTx"}


class Copy(NamedTuple):
    """An array of integers of `size` bytes, whose axes are in the order `source` in memory, and then `destination`."""
    what: str
    shape: tuple
    size: int
    source: tuple
    destination: tuple

    def bytes(self):
        count = self.size
        for length in self.shape:
            count *= length
        return count

    def view(self, torch, whole, order):
        """The array in memory in which its axes have this order."""
        types = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        shape = [self.shape[axis] for axis in order]
        back = [order.index(axis) for axis in range(len(order))]
        return whole[:self.bytes()].view(types[self.size]).view(*shape).permute(*back)


def copies(mib, matrix):
    """`mib` is the size of the cache, and `matrix` the number of rows and columns of a matrix."""
    shape = (16, mib, 2, 16, 8, 16, 8)  # 64 KiB in each block of a layer
    for source, of_source in layouts.items():
        for destination, of_destination in layouts.items():
            if source != destination:
                yield Copy(f"{source} to {destination}", shape, 2,
                           *(tuple(axes.index(axis) for axis in order) for order in (of_source, of_destination)))
    for size in 1, 2, 4, 8:
        yield Copy(f"transpose {matrix} x {matrix} of {size} B", (matrix, matrix), size, (0, 1), (1, 0))
    whole = (*shape[:5], shape[5] * shape[6])
    yield Copy("LBKTHW to WHTKBL", whole, 2, (0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0))


class Way(NamedTuple):
    name: str
    call: Callable


def measure(ways, wait, budget_s):
    """The seconds of each round by way. A round calls every way twice, forwards and backwards."""
    taken = {way.name: [] for way in ways}
    for way in ways:
        way.call()
    end = time.perf_counter() + budget_s
    for turn in range(max_rounds):
        if turn >= min_rounds and time.perf_counter() > end:
            break
        order = ways[turn % len(ways):] + ways[:turn % len(ways)]
        spent = dict.fromkeys(taken, 0.0)
        for way in order + order[::-1]:
            wait()
            start = time.perf_counter()
            way.call()
            wait()
            spent[way.name] += (time.perf_counter() - start) / 2
        for name, seconds in spent.items():
            taken[name].append(seconds)
    return taken


def line_of(what, size, taken):
    """ferry beside the only other way."""
    other = next(name for name in taken if name != "ferry")
    ratios = sorted(one / two for one, two in zip(taken[other], taken["ferry"]))
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    verdict = "slower" if high < 1 else "within the spread" if middle < 1 else "faster"
    return {"what": what, "bytes": size, "beside": other, "us": {name: statistics.median(all_of) * 1e6
                                                                 for name, all_of in taken.items()},
            "ratio": middle, "p25": low, "p75": high, "rounds": len(ratios), "ferry is": verdict}


def show(line):
    times = "  ".join(f"{name} {taken:9.1f} us {line['bytes'] / taken / 1e3:7.1f} GB/s" for name, taken in line["us"].items())
    print(f"{line['what']:32} {line['bytes'] / (1 << 20):8.2f} MiB  {times}  {line['ratio']:6.2f} x "
          f"[{line['p25']:.2f}..{line['p75']:.2f}]  {line['ferry is']}", flush=True)


class Layouts:
    """Three tensors of bytes: the source, the destination, and the bytes that must arrive."""

    def __init__(self, torch, package, size):
        self.torch, self.package = torch, package
        self.source, self.destination, self.expected = (torch.empty(size, dtype=torch.uint8, device="cuda")
                                                        for _ in range(3))
        self.source.random_()

    def ways(self, copy):
        one = copy.view(self.torch, self.source, copy.source)
        other = copy.view(self.torch, self.destination, copy.destination)
        return [Way("torch", lambda: other.copy_(one)), Way("ferry", lambda: self.package.gpu.copy(one, other))]

    def verify(self, copy, ways):
        of_torch, of_ferry = ways
        found, expected = self.destination[:copy.bytes()], self.expected[:copy.bytes()]
        found.zero_()
        of_torch.call()
        expected.copy_(found)
        found.zero_()
        self.torch.cuda.synchronize()  # ferry's calls may use other streams
        of_ferry.call()
        if not self.torch.equal(found, expected):
            sys.exit(f"{copy.what}: ferry and PyTorch copied different bytes")


class Blocks:
    """Scattered blocks between a pool in pinned memory and a pool on the device."""

    def __init__(self, torch, package, to_device, count, size):
        self.torch, self.package, self.size, self.bytes = torch, package, size, count * size
        slots = count * 5 // 4
        self.what = f"{count} x {size} B, {'H2D' if to_device else 'D2H'}"
        host = torch.empty(slots * size, dtype=torch.uint8, pin_memory=True).view(slots, size)
        device = torch.empty(slots * size, dtype=torch.uint8, device="cuda").view(slots, size)
        self.source, self.destination = (host, device) if to_device else (device, host)
        self.source.random_()
        drawn = random.Random(3)
        self.sources, self.destinations = (array.array("I", drawn.sample(range(slots), count)) for _ in range(2))
        self.expected = torch.zeros_like(device)
        self.expected[torch.tensor(list(self.destinations))] = self.source.to("cuda")[torch.tensor(list(self.sources))]
        self.nest = self.make_nest(host.data_ptr())

    def make_nest(self, host):
        native = self.package.ferry.native
        nest = native.ferry_nest(width=self.size, axes=1)
        for end, pool, indices in [(nest.source, self.source, self.sources),
                                   (nest.destination, self.destination, self.destinations)]:
            end.place.address = pool.data_ptr()
            end.place.kind = native.FERRY_KIND_HOST if pool.data_ptr() == host else native.FERRY_KIND_DEVICE
            axis = end.axes[0]
            axis.count, axis.stride, axis.index_limit = len(indices), self.size, len(pool)
            axis.indices, axis.index_type = indices.buffer_info()[0], native.FERRY_INDEX_U32
            axis.index_memory = native.FERRY_INDICES_HOST
        return nest

    def copy_by_ferry(self):
        gpu = self.package.gpu
        status = gpu.library.ferry_copy_nests(gpu.handle, addressof(self.nest), 1, None, None)
        if status:
            sys.exit(f"ferry_copy_nests returned {status}")

    def by_vllm(self, module):
        swap_blocks = module.swap_blocks
        pairs = self.torch.tensor(list(zip(self.sources, self.destinations)), dtype=self.torch.int64)
        # Older versions find the size in the shape of the tensors.
        given = [self.size] if "block_size_in_bytes" in inspect.signature(swap_blocks).parameters else []
        return lambda: swap_blocks(self.source, self.destination, *given, pairs)

    def by_sglang(self, module):
        sources, destinations = (self.torch.tensor(list(given), dtype=self.torch.int64, device="cuda")
                                 for given in (self.sources, self.destinations))
        return lambda: module.transfer_kv_per_layer_mla(src=self.source, dst=self.destination, src_indices=sources,
                                                        dst_indices=destinations, item_size=self.size)

    def is_right(self, way):
        self.destination.zero_()
        self.torch.cuda.synchronize()
        way.call()
        self.torch.cuda.synchronize()
        return self.torch.equal(self.destination.to("cuda"), self.expected)

    def lines(self, others, missing, budget_s):
        ferry = Way("ferry", self.copy_by_ferry)
        if not self.is_right(ferry):
            sys.exit(f"{self.what}: ferry copied wrong bytes")
        for name, module in others.items():
            try:
                other = Way(name, {"vLLM": self.by_vllm, "SGLang": self.by_sglang}[name](module))
                if not self.is_right(other):
                    raise ValueError("it copied other bytes")
            except Exception as why:  # a version with another signature
                missing[f"{name}, {self.what}"] = f"{type(why).__name__}: {why}"
                continue
            yield line_of(self.what, self.bytes, measure([other, ferry], self.torch.cuda.synchronize, budget_s))


def packages_with_blocks(missing):
    """The modules with a call for lists of blocks."""
    found = {}
    for name, module in [("vLLM", "vllm._custom_ops"), ("SGLang", "sgl_kernel.kvcacheio")]:
        try:
            found[name] = importlib.import_module(module)
        except Exception as why:  # a package may be installed and unable to start
            missing[name] = f"{type(why).__name__}: {why}"
    return found


def summary_of(lines):
    """Over PyTorch's lines."""
    ratios = [line["ratio"] for line in lines]
    slower = [line["what"] for line in lines if line["ferry is"] == "slower"]
    return {"mean ratio": statistics.fmean(ratios), "geometric mean": statistics.geometric_mean(ratios),
            "target": target_of_mean, "slower": slower,
            "mean": "met" if statistics.fmean(ratios) >= target_of_mean else "missed",
            "never slower": "missed" if slower else "met"}


def make_packages(library):
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no GPU")
        torch.cuda.init()  # PyTorch chooses its device before ferry
    except ImportError as why:
        print(f"skipped: {why}")
        sys.exit(skipped)
    if library:
        from python_copies import Ferry
        return torch, Ferry(library)
    import ferry
    return torch, SimpleNamespace(ferry=ferry, gpu=ferry.open(driver=ferry.native.FERRY_DRIVER_AUTO))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", help="libferry.so (default: ferry as Python finds it)")
    parser.add_argument("--mib", type=int, help="size of the cache (default: 1024)")
    parser.add_argument("--matrix", type=int, help="rows and columns of the matrices (default: 16384)")
    parser.add_argument("--quick", action="store_true", help="64 MiB, 2048 rows, and short rounds")
    parser.add_argument("--json", action="store_true", help="write JSON")
    asked = parser.parse_args()
    mib, matrix = asked.mib or (64 if asked.quick else 1024), asked.matrix or (2048 if asked.quick else 16384)
    budget_s = 0.05 if asked.quick else 0.3
    torch, package = make_packages(asked.library)
    every = list(copies(mib, matrix))
    lines, missing = [], {}

    def add(line):
        lines.append(line)
        if not asked.json:
            show(line)

    layouts_of = Layouts(torch, package, max(copy.bytes() for copy in every))
    for copy in every:
        ways = layouts_of.ways(copy)
        layouts_of.verify(copy, ways)
        add(line_of(copy.what, copy.bytes(), measure(ways, torch.cuda.synchronize, budget_s)))
    summary = summary_of(lines)
    del layouts_of
    others = packages_with_blocks(missing)
    for to_device in [True, False] if others else []:
        for line in Blocks(torch, package, to_device, 1000 if asked.quick else 50000, 4096).lines(others, missing, budget_s):
            add(line)
    if asked.json:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps({"date": date, "quick": asked.quick, "torch": torch.__version__, "lines": lines,
                          "summary": summary, "missing": missing}, indent=2))
        return
    print(f"mean ratio {summary['mean ratio']:.2f} (geometric mean {summary['geometric mean']:.2f}), target "
          f"{target_of_mean}: {summary['mean']}")
    print(f"never slower than PyTorch: {summary['never slower']}{': ' * bool(summary['slower'])}"
          f"{', '.join(summary['slower'])}")
    for name, why in missing.items():
        print(f"{name}: not measured: {why}")


if __name__ == "__main__":
    main()
