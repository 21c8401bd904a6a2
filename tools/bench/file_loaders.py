#!/usr/bin/env python3
"""Loads one .safetensors file to a GPU with ferry's Python package and with each other loader that is installed, in turn:
file_loaders.py [path of libferry.so] [--folder FOLDER] [--json] [--quick]

The caches are `cold` (the file was removed from the page cache), `warm` (the file was read before), and `tmpfs` (a copy
of the file in --memory-folder). Times are medians of interleaved rounds, from the path of the file to tensors on the
GPU. The spread is the difference between the slowest and the fastest round. Each loader first loads the file once, and
all bytes of its tensors are compared with the file. Plain reads by threads show what the file system achieves without a
GPU. A row is lost if the other loader is faster than ferry."""
import argparse
import ctypes
import json
import mmap
import os
import random
import shutil
import statistics
import struct
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

block = 4096  # of direct reads
chunk = 4 << 20  # of one read by a thread


class Model:
    """A .safetensors file of random bytes. `places` are the offset and the size of each tensor."""

    def __init__(self, path, places):
        self.path, self.places = path, places
        self.bytes = sum(size for _, size in places.values())

    @staticmethod
    def make(folder, size, count):
        drawn = random.Random(2)
        header, places, end = {}, {}, 0
        for i in range(count):  # from 64 bytes up to twice the mean
            bytes_of_tensor = max(size // count // 16 * drawn.randrange(32) // 64 * 64, 64)
            header[f"tensor.{i:03}"] = {"dtype": "U8", "shape": [bytes_of_tensor],
                                        "data_offsets": [end, end + bytes_of_tensor]}
            end += bytes_of_tensor
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        for name, about in header.items():
            begin, end = about["data_offsets"]
            places[name] = 8 + len(text) + begin, end - begin
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            while end:
                end -= file.write(os.urandom(min(end, 64 << 20)))
        return Model(path, places)

    def copy_to(self, folder):
        return Model(shutil.copy(self.path, folder), self.places)

    def change(self):
        """Changes both ends of each tensor, so that memory with the bytes of an earlier load differs."""
        with open(self.path, "r+b") as file:
            for offset, size in self.places.values():
                for at in offset, offset + size - 32:
                    file.seek(at)
                    file.write(os.urandom(32))

    def expected(self):
        with open(self.path, "rb") as file:
            for name, (offset, size) in self.places.items():
                yield name, os.pread(file.fileno(), size, offset)

    def fill_cache(self):
        with open(self.path, "rb") as file:
            while file.read(chunk):
                pass

    def drop_cache(self):
        """Removes the file from the page cache. Returns the share of the file that is still there."""
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return share_in_cache(file.fileno())


def share_in_cache(descriptor):
    libc = ctypes.CDLL(None, use_errno=True)
    size = os.fstat(descriptor).st_size
    pages = -(-size // mmap.PAGESIZE)
    found = (ctypes.c_uint64 * 5)()
    cachestat = 451  # the number of the system call
    if libc.syscall(cachestat, descriptor, (ctypes.c_uint64 * 2)(0, 0), found, 0) == 0:
        return found[0] / pages
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, descriptor, ctypes.c_long(0))
    present = (ctypes.c_ubyte * pages)()
    failed = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), present)
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return 1.0 if failed else sum(page & 1 for page in present) / pages


def torch_on_gpu():
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch finds no GPU")
    return torch


# Each loader has a name, load(), which returns the tensors by name, and finish(), after which their bytes are on the GPU.


class Ferry:
    name = "ferry"

    def __init__(self, library):
        if library:
            from python_copies import Ferry as Package
            self.gpu = Package(library).gpu
        else:
            import ferry
            self.gpu = ferry.open(driver=ferry.native.FERRY_DRIVER_AUTO)
        try:  # the same memory as for the other loaders
            torch = torch_on_gpu()
            self.allocate = lambda size: torch.empty(size, dtype=torch.uint8, device="cuda")
        except ImportError:
            self.allocate = self.gpu.empty

    def load(self, model):
        tensors = {name: self.allocate(size) for name, (_, size) in model.places.items()}
        with self.gpu.file(model.path) as file:
            file.read_many([(offset, tensors[name]) for name, (offset, _) in model.places.items()]).wait()
        return tensors

    def finish(self):
        """The ticket has waited."""

    def bytes_of(self, tensor, size):
        here = bytearray(size)
        self.gpu.copy(tensor, here)
        return bytes(here)


class OfTorch:
    """A loader that makes tensors of PyTorch."""

    def __init__(self):
        self.torch = torch_on_gpu()

    def finish(self):
        self.torch.cuda.synchronize()

    def bytes_of(self, tensor, size):
        return tensor.cpu().numpy().tobytes()


class SafeTensors(OfTorch):
    name = "safetensors, load_file"

    def __init__(self):
        super().__init__()
        from safetensors.torch import load_file
        self.load_file = load_file

    def load(self, model):
        return self.load_file(model.path, device="cuda:0")


class FastSafeTensors(OfTorch):
    name = "fastsafetensors, without GDS"

    def __init__(self):
        super().__init__()
        from fastsafetensors import fastsafe_open
        self.open = fastsafe_open

    def load(self, model):
        with self.open(model.path, framework="pt", device="cuda:0", nogds=True) as file:
            return {name: file.get_tensor(name) for name in file.keys()}


class InstantTensor(OfTorch):
    name = "InstantTensor"

    def __init__(self):
        super().__init__()
        from instanttensor import safe_open
        self.open = safe_open

    def load(self, model):
        with self.open(model.path, framework="pt", device=0) as file:
            return dict(file.tensors())


class RunAi(OfTorch):
    name = "Run:ai Model Streamer"

    def __init__(self):
        super().__init__()
        from runai_model_streamer import SafetensorsStreamer
        self.streamer = SafetensorsStreamer

    def load(self, model):
        with self.streamer() as streamer:
            streamer.stream_file(model.path, device="cuda:0")
            return dict(streamer.get_tensors())


class KvikIO(OfTorch):
    name = "KvikIO, 16 threads, without GDS"

    def __init__(self):
        super().__init__()
        os.environ.setdefault("KVIKIO_COMPAT_MODE", "ON")
        os.environ.setdefault("KVIKIO_NTHREADS", "16")
        import kvikio
        self.file = kvikio.CuFile

    def load(self, model):
        tensors = {name: self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
                   for name, (_, size) in model.places.items()}
        with self.file(model.path, "r") as file:
            begun = [file.pread(tensors[name], size, offset) for name, (offset, size) in model.places.items()]
            read = sum(each.get() for each in begun)
        assert read == model.bytes, f"{read} of {model.bytes} bytes"
        return tensors


class Threads:
    """Threads that call pread on all chunks of the file. A subclass takes the bytes."""

    def __init__(self, count, is_direct):
        self.count, self.is_direct = count, is_direct
        self.name = f"{self.what}, {count} threads{', O_DIRECT' if is_direct else ''}"
        self.pool = ThreadPoolExecutor(count)
        self.buffers = [self.make_buffer() for _ in range(count)]

    def read(self, model, take):
        size = os.path.getsize(model.path)
        descriptor = os.open(model.path, os.O_RDONLY | (os.O_DIRECT if self.is_direct else 0))

        def work(number):
            memory = memoryview(self.buffers[number])
            for at in range(number * chunk, size, self.count * chunk):
                wanted = min(chunk, size - at)  # direct reads must have the size of whole blocks
                read = os.preadv(descriptor, [memory[:-(-wanted // block) * block]], at)
                assert read == wanted, f"{read} of {wanted} bytes"
                take(number, at, wanted)
        try:
            list(self.pool.map(work, range(self.count)))
        finally:
            os.close(descriptor)


class Plain(Threads):
    what = "plain pread, no GPU"

    def make_buffer(self):
        return mmap.mmap(-1, chunk)

    def load(self, model):
        self.read(model, lambda number, at, size: None)

    def finish(self):
        """The threads have waited."""


class Pinned(Threads, OfTorch):
    what = "pread into pinned memory"

    def __init__(self, count, is_direct):
        OfTorch.__init__(self)
        self.pinned = []
        Threads.__init__(self, count, is_direct)
        self.streams = [self.torch.cuda.Stream() for _ in range(count)]

    def make_buffer(self):
        self.pinned.append(self.torch.empty(chunk, dtype=self.torch.uint8, pin_memory=True))
        return self.pinned[-1].numpy()

    def load(self, model):
        whole = self.torch.empty(os.path.getsize(model.path), dtype=self.torch.uint8, device="cuda")

        def take(number, at, size):
            with self.torch.cuda.stream(self.streams[number]):
                whole[at:at + size].copy_(self.pinned[number][:size], non_blocking=True)
            self.streams[number].synchronize()
        self.read(model, take)
        return {name: whole[offset:offset + size] for name, (offset, size) in model.places.items()}


def make_loaders(library):
    """The loaders, and by name why others are missing."""
    made, missing = [], {}
    kinds = [(Ferry.name, lambda: Ferry(library))]
    kinds += [(kind.name, kind) for kind in [SafeTensors, FastSafeTensors, InstantTensor, RunAi, KvikIO]]
    for kind, counts in [(Pinned, [16]), (Plain, [8, 16])]:
        kinds += [(f"{kind.what}, {count} threads{', O_DIRECT' * is_direct}",
                   lambda kind=kind, count=count, is_direct=is_direct: kind(count, is_direct))
                  for count in counts for is_direct in [False, True]]
    for name, make in kinds:
        try:
            made.append(make())
        except Exception as why:  # a package may be installed and unable to start
            missing[name] = f"{'not installed' if isinstance(why, ImportError) else 'cannot start'}: {why}"
    return made, missing


def why_wrong(loader, model):
    """Loads the file for the first time. Returns why the loader cannot take part, or None."""
    model.change()
    try:
        tensors = loader.load(model)
        loader.finish()
        if tensors is None:  # plain reads
            return None
        if set(tensors) != set(model.places):
            return "wrong tensors"
        for name, contents in model.expected():
            if loader.bytes_of(tensors[name], len(contents)) != contents:
                return f"wrong bytes in {name}"
    except Exception as why:
        return f"failed: {type(why).__name__}: {why}"
    return None


def measure(loaders, model, prepare, rounds):
    """Seconds of each round by loader, and why loaders failed."""
    seconds, failures = {loader.name: [] for loader in loaders}, {}
    for turn in range(rounds):
        order = loaders[turn % len(loaders):] + loaders[:turn % len(loaders)]
        for loader in order if turn % 2 == 0 else order[::-1]:
            if loader.name in failures:
                continue
            prepare()
            try:
                start = time.perf_counter()
                tensors = loader.load(model)
                loader.finish()
                seconds[loader.name].append(time.perf_counter() - start)
                del tensors
            except Exception as why:
                failures[loader.name] = f"failed: {type(why).__name__}: {why}"
    return seconds, failures


def rows(cache, loaders, model, faults, prepare, rounds):
    seconds, failures = measure([each for each in loaders if not faults[each.name]], model, prepare, rounds)
    failures = {name: failures.get(name) or fault for name, fault in faults.items()}
    for loader in loaders:
        row = {"cache": cache, "loader": loader.name, "bytes": model.bytes}
        if failures[loader.name]:
            yield {**row, "failure": failures[loader.name]}
            continue
        taken = seconds[loader.name]
        middle = statistics.median(taken)
        row.update({"seconds": taken, "GB/s": model.bytes / middle / 1e9, "spread": (max(taken) - min(taken)) / middle})
        if loader.name != Ferry.name and not failures.get(Ferry.name, "not installed"):
            row["ferry"] = statistics.median(one / other for one, other in zip(taken, seconds[Ferry.name]))
            row["lost"] = row["ferry"] < 1 and not isinstance(loader, Plain)
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", help="libferry.so (default: ferry as Python finds it)")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the file is made (default: %(default)s)")
    parser.add_argument("--memory-folder", default="/dev/shm", help="of a tmpfs (default: %(default)s)")
    parser.add_argument("--mib", type=int, help="size of the file (default: 4096)")
    parser.add_argument("--tensors", type=int, default=300, help="their number (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="default: 5")
    parser.add_argument("--quick", action="store_true", help="a file of 16 MiB, and 2 rounds")
    parser.add_argument("--json", action="store_true", help="write JSON")
    asked = parser.parse_args()
    mib, rounds = asked.mib or (16 if asked.quick else 4096), asked.rounds or (2 if asked.quick else 5)

    loaders, missing = make_loaders(asked.library)
    lines = []
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        model = Model.make(folder, mib << 20, asked.tensors)
        faults = {loader.name: why_wrong(loader, model) for loader in loaders}
        still_cached = []
        lines += rows("cold", loaders, model, faults, lambda: still_cached.append(model.drop_cache()), rounds)
        for line in lines:
            line["still cached"] = max(still_cached, default=0)
        lines += rows("warm", loaders, model, faults, model.fill_cache, rounds)
        if os.path.isdir(asked.memory_folder) and shutil.disk_usage(asked.memory_folder).free > 1.1 * model.bytes:
            with tempfile.TemporaryDirectory(dir=asked.memory_folder) as other:
                model = model.copy_to(other)
                faults = {loader.name: why_wrong(loader, model) for loader in loaders}
                lines += rows("tmpfs", loaders, model, faults, lambda: None, rounds)
        else:
            missing["tmpfs"] = f"not enough memory in {asked.memory_folder}"
    if asked.json:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps({"date": date, "quick": asked.quick, "rounds": rounds, "tensors": asked.tensors,
                          "folder": asked.folder, "lines": lines, "missing": missing}, indent=2))
    else:
        show(lines, missing)
    sys.exit(any("wrong" in line.get("failure", "") for line in lines))


def show(lines, missing):
    print(f"{'cache':6} {'loader':44} {'GB/s':>8} {'spread':>8}   ferry is")
    for line in lines:
        beginning = f"{line['cache']:6} {line['loader']:44} "
        if "failure" in line:
            print(beginning + line["failure"])
            continue
        notes = [f"{line['ferry']:.2f} x as fast"] if "ferry" in line else []
        notes += ["lost"] * line.get("lost", False)
        if line.get("still cached", 0) > 0.01:
            notes.append(f"{line['still cached']:.0%} of the file were still in the page cache")
        print(f"{beginning}{line['GB/s']:8.2f} {line['spread']:8.0%}   {', '.join(notes)}")
    for name, why in missing.items():
        print(f"{name}: {why}")


if __name__ == "__main__":
    main()
