"""python -m ferry info | bench | run: describes this machine, measures copies, runs programs that do not know ferry."""
from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import ferry


def open_any(software: bool) -> ferry.Instance:
    return ferry.open(driver=ferry.native.FERRY_DRIVER_SOFTWARE if software else ferry.native.FERRY_DRIVER_AUTO)


def info(gpu: ferry.Instance) -> None:
    version = gpu.report.driver_version
    driver = "NVIDIA's driver" if gpu.report.driver == ferry.native.FERRY_DRIVER_CUDA else "the software driver"
    print(f"ferry {ferry.__version__} on {driver} for CUDA {version // 1000}.{version % 1000 // 10}")
    for device in gpu.devices:
        print(f"device {device.number}: {device.name}, {device.memory / 2**30:.1f} GiB, {device.sm_count} SMs, "
              f"{device.copy_engines} copy engines, compute capability {device.compute[0]}.{device.compute[1]}")


def median_ms(gpu: ferry.Instance, source: Any, destination: Any, options: ferry.CopyOptions | None) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        gpu.copy(source, destination, options)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[2:])


def bench(gpu: ferry.Instance) -> None:
    by_driver = ferry.CopyOptions(ferry.Route.DRIVER)
    print(f"{'GB/s, synchronous copies':36} {'driver':>8} {'ferry':>8}")
    for mib in (1, 16, 128):
        size = mib << 20
        pageable, pinned, there = bytearray(size), gpu.pinned(size), gpu.empty(size)
        for name, source, destination in (("pageable to device", pageable, there), ("device to pageable", there, pageable),
                                          ("pinned to device", pinned, there), ("device to pinned", there, pinned)):
            rates = [size / median_ms(gpu, source, destination, options) / 1e6 for options in (by_driver, None)]
            print(f"{name + f', {mib} MiB':36} {rates[0]:8.2f} {rates[1]:8.2f}")


def run(arguments: list[str]) -> int:
    own = Path(__file__).with_name("bin") / "ferry-run"
    program = shutil.which(str(own)) or shutil.which("ferry-run")
    if not program:
        print("python -m ferry run: no ferry-run in this package or in PATH; install a wheel of ferry's release, or "
              "Debian's package ferry-tools", file=sys.stderr)
        return 127
    os.execv(program, [program, *arguments])


def main() -> int:
    if sys.argv[1:2] == ["run"]:
        return run(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m ferry", description=__doc__)
    parser.add_argument("what", choices=["info", "bench", "run"], help="run takes the arguments of ferry-run")
    parser.add_argument("--software", action="store_true", help="the software driver, also beside a GPU")
    arguments = parser.parse_args()
    try:
        with open_any(arguments.software) as gpu:
            info(gpu)
            if arguments.what == "bench":
                bench(gpu)
    except (ImportError, ferry.Error) as error:
        print(f"python -m ferry {arguments.what}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
