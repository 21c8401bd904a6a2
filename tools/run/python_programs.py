#!/usr/bin/env python3
"""Unmodified programs of PyTorch, CuPy, JAX and safetensors, without and with ferry-run, in turn:
python_programs.py [--ferry-run PROGRAM] [--control] [--rounds N] [--busy] [--only PATTERN] [--scale S]
                   [-- OPTIONS OF FERRY-RUN]

Each program copies as programs do, and knows nothing of ferry. Results are verified once. A process without and one
beneath ferry-run take turns at each program, N times. With --control another process without ferry-run takes turns
too, which shows how far apart equal programs measure. Times are milliseconds until the bytes have arrived: the median
of the rounds' medians, and their spread. A short program is repeated for 0.2 s in each round. With --busy, twice as
many other processes compute as there are processors. --only measures the programs whose names a regular expression
finds. --scale 0.01 makes all sizes a hundredth, for a try."""
import argparse
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings


def programs(scale, folder):
    """Yields (name, function, repetitions). A package that is missing ends its part."""
    count = lambda mib: max(int(mib * scale * (1 << 18)), 1024)  # of float32
    import torch
    from torch import nn

    synchronise = torch.cuda.synchronize
    torch.zeros(1, device="cuda")
    large = torch.randn(count(512))
    there = large.cuda()
    assert torch.equal(there.cpu(), large)
    yield "x.cuda(), 512 MiB", synchronise, large.cuda, 5
    yield "g.cpu(), 512 MiB", synchronise, there.cpu, 5
    yield "x.copy_(g), 512 MiB", synchronise, lambda: large.copy_(there), 5
    for mib in (8, 2):
        some = torch.randn(count(mib))
        some_there = some.cuda()
        yield f"y.cuda(), {mib} MiB", synchronise, some.cuda, 9
        yield f"y.copy_(h), {mib} MiB", synchronise, lambda: some.copy_(some_there), 9
    small = torch.randn(4096)
    small_there = small.cuda()
    yield "100 x s.cuda(), 16 KiB", synchronise, lambda: [small.cuda() for _ in range(100)], 9
    yield "100 x s.copy_(t), 16 KiB", synchronise, lambda: [small.copy_(small_there) for _ in range(100)], 9
    width = max(int(2048 * scale**0.5) // 16 * 16, 16)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, 12)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.cuda()
    torch.save(state, folder + "/model.pt")
    yield "load_state_dict, 2.3 GiB", synchronise, lambda: model.load_state_dict(state), 3
    yield ("torch.load(mmap) and load_state_dict", synchronise,
           lambda: model.load_state_dict(torch.load(folder + "/model.pt", mmap=True)), 3)
    yield "{k: v.cpu()}, 2.3 GiB", synchronise, lambda: {k: v.cpu() for k, v in model.state_dict().items()}, 3
    for name, value in model.state_dict().items():
        assert torch.equal(value.cpu(), state[name]), name
    if os.path.isdir("/dev/shm"):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            yield "torch.save to /dev/shm", synchronise, lambda: torch.save(model.state_dict(), memory + "/saved.pt"), 3
    net = nn.Sequential(nn.Linear(8192, 8192), nn.ReLU(), nn.Linear(8192, 8192)).cuda()
    batch = torch.randn(max(int(4096 * scale), 16), 8192)
    yield "batch of 128 MiB, forward", synchronise, lambda: net(batch.cuda()).sum().item(), 5
    numbers = count(1024)

    def pinned():
        made = torch.empty(numbers, pin_memory=True)
        del made
        torch._C._host_emptyCache()

    yield "torch.empty(pin_memory=True), 1 GiB", synchronise, pinned, 3
    try:
        from safetensors.torch import load_file, save_file
        save_file(state, folder + "/model.safetensors")
        yield ("safetensors load_file to the device", synchronise,
               lambda: load_file(folder + "/model.safetensors", device="cuda"), 3)
    except ImportError as missing:
        print(f"left out: {missing}", file=sys.stderr)
    try:
        import cupy
        import numpy
        host = numpy.random.rand(count(128)).astype(numpy.float32)
        array = cupy.asarray(host)
        assert (cupy.asnumpy(array) == host).all()
        yield "cupy.asarray, 128 MiB", synchronise, lambda: cupy.asarray(host), 7
        yield "cupy.asnumpy, 128 MiB", synchronise, lambda: cupy.asnumpy(array), 7
    except ImportError as missing:
        print(f"left out: {missing}", file=sys.stderr)
    try:
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        import jax
        import numpy
        host = numpy.random.rand(count(128)).astype(numpy.float32)
        put = jax.device_put(host)
        assert (numpy.asarray(put) == host).all()
        yield "jax.device_put, 128 MiB", synchronise, lambda: jax.device_put(host).block_until_ready(), 7
        yield "numpy.asarray of a JAX array", synchronise, lambda: numpy.asarray(put + 1), 7
    except ImportError as missing:
        print(f"left out: {missing}", file=sys.stderr)


def serve(scale, only):
    """Sets up one program after the other, and prints its name. Each line of input that says "measure" is answered by
    a median; any other line goes on to the next program."""
    warnings.simplefilter("ignore")
    least_ms = 200 * min(scale, 1)
    with tempfile.TemporaryDirectory() as folder:
        for name, synchronise, run, repetitions in programs(scale, folder):
            if not re.search(only, name):
                continue
            run()
            print(json.dumps(name), flush=True)
            while sys.stdin.readline() == "measure\n":
                times = []
                while len(times) < repetitions or sum(times) < least_ms:
                    synchronise()
                    start = time.perf_counter()
                    run()
                    synchronise()
                    times.append((time.perf_counter() - start) * 1e3)
                print(json.dumps(statistics.median(times)), flush=True)
    print(json.dumps(None), flush=True)


def compute():
    while True:
        sum(range(1 << 16))


def run_rounds(options, prefixes):
    """Yields (name, [[times] of each process]). The processes live all the while and take turns."""
    one = [sys.executable, __file__, "--serve", "--scale", str(options.scale), "--only", options.only]
    processes = [subprocess.Popen(prefix + one, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for prefix in prefixes.values()]

    def give_up(why):
        for process in processes:
            process.kill()
        sys.exit(why)

    def answer(process, line):
        try:
            if line:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (BrokenPipeError, ValueError):
            give_up(f"{list(prefixes)[processes.index(process)]}: the programs failed")

    line = None
    while (name := (names := [answer(process, line) for process in processes])[0]) is not None:
        if names.count(name) != len(names):
            give_up("the processes run different programs")
        times = [[] for _ in processes]
        for turn in range(options.rounds):
            order = list(zip(processes, times))
            for process, of_it in order if turn % 2 == 0 else reversed(order):
                of_it.append(answer(process, "measure"))
        yield name, times
        line = "next"
    for process in processes:
        process.communicate()


def text(times):
    spread = (max(times) - min(times)) / statistics.median(times) * 100
    return f"{statistics.median(times):11.2f} ({spread:3.0f} %)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry-run", metavar="PROGRAM")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--only", metavar="PATTERN", default="")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("options", nargs="*")
    options = parser.parse_args()
    if options.serve:
        return serve(options.scale, options.only)
    if not options.ferry_run and not options.control:
        parser.error("--ferry-run or --control is needed")
    prefixes = {"plain": []}
    if options.control:
        prefixes["plain again"] = []
    if options.ferry_run:
        prefixes["ferry-run"] = [options.ferry_run, "--quiet", *options.options, "--"]
    others = [multiprocessing.Process(target=compute, daemon=True) for _ in range(2 * os.cpu_count() * options.busy)]
    for other in others:
        other.start()
    comparisons = [f"plain / {name}" for name in list(prefixes)[1:]]
    print(f"{'':40}" + "".join(f"{name + ', ms':>19}" for name in prefixes) +
          "".join(f"{name:>21}" for name in comparisons))
    for name, times in run_rounds(options, prefixes):
        plain, *seconds = map(statistics.median, times)
        ratios = [plain / second for second in seconds]
        print(f"{name:40}" + "".join(map(text, times)) + "".join(f"{ratio:21.2f}" for ratio in ratios) +
              ("  lost" if options.ferry_run and ratios[-1] < 0.98 else ""), flush=True)
    for other in others:
        other.terminate()


main()
