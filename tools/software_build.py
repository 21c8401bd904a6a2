#!/usr/bin/env python3
"""Computes the build of ferry and its software driver: software_build.py OUTPUT [DEPFILE]

OUTPUT is a C++ file that defines ferry::software_build (src/driver/software_build.h). The checksum covers the sources
that both libraries compile and must agree on.
"""
import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"


def sources():
    kernels = [path for path in (SOURCE / "kernels").iterdir() if path.suffix in {".h", ".inc"}]
    driver = [SOURCE / "driver" / name for name in ("cuda_api.h", "symbols.inc", "software_build.h")]
    return sorted(kernels + driver + [ROOT / "include/ferry/ferry_software.h"])


def checksum():
    digest = hashlib.sha256()
    for path in sources():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def definition():
    return f'namespace ferry {{\nextern const char software_build[];\nconst char software_build[] = "{checksum()}";\n}}\n'


def main(output, depfile=None):
    Path(output).write_text(definition())
    if depfile:
        names = " ".join(str(path).replace(" ", "\\ ") for path in [*sources(), Path(__file__).resolve()])
        Path(depfile).write_text(f"{output}: {names}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
