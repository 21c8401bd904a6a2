#!/usr/bin/env python3
"""Builds the GPU kernels in the forms that the library contains.

kernels.py ptx NVCC               makes src/kernels/ferry_kernels.ptx, which is kept in the tree
kernels.py check [NVCC]           checks that the kept file was made from the current sources; if NVCC is the release
                                  that made the file, also that it makes the same file
kernels.py native PTXAS FATBINARY NATIVE PORTABLE
                                  writes two images: native code for current GPUs, and the PTX
kernels.py embed IMAGE... OUTPUT  writes the PTX, as text or image, and the image of native code, if any, as C++
"""
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PTX = SOURCE / "kernels" / "ferry_kernels.ptx"
# A driver accepts PTX up to the language version of its own CUDA release. nvcc writes its newest version, whatever the
# code needs. 6.3 is the oldest version that knows sm_75, the oldest GPU that nvcc 13 compiles for. The code needs no
# newer one.
LANGUAGE = "6.3"
# src/device/kernels.cpp knows which GPUs these serve. ptxas 12.8 or newer knows them all.
NATIVE = ["80", "90"]
MARK = "ferry kernels"


def device_code(text):
    """Returns the lines that nvcc compiles, which are in the branch of __CUDACC__ of each condition."""
    compiled, lines = [True], []
    for line in text.splitlines():
        if line.startswith("#if"):
            compiled.append(compiled[-1] and "defined(__CUDACC__)" in line)
        elif line.startswith("#else"):
            compiled.append(not compiled.pop() and compiled[-1])
        elif line.startswith("#endif"):
            compiled.pop()
        elif compiled[-1]:
            lines.append(line)
    return "\n".join(lines)


def hash_of_sources():
    """Returns a hash of the code that nvcc compiles, without comments, assertions, includes and white space."""
    codes = {}

    def read(file):
        if file not in codes:
            text = device_code(file.read_text())
            codes[file] = re.sub(r"//.*|/\*(?s:.*?)\*/|static_assert\([^;]*;|#include.*|\s", "", text)
            for name in re.findall(r'^#include "(.*)"', text, flags=re.M):
                read(SOURCE / name)

    read(SOURCE / "kernels" / "ferry_kernels.cu")
    return hashlib.sha256("".join(codes[file] for file in sorted(codes)).encode()).hexdigest()[:16]


def generate(nvcc):
    """Returns the release of nvcc and the PTX."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "kernels.ptx")
        command = [nvcc, "-std=c++20", "-O3", "-arch=compute_75", "-ptx", f"-I{SOURCE}", "-o", str(output)]
        subprocess.run(command + [str(SOURCE / "kernels" / "ferry_kernels.cu")], check=True)
        text = output.read_text()
    release = re.search(r"Cuda compilation tools, (release [^,]+, \S+)", text).group(1)
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"^\.version .*$", f".version {LANGUAGE}", text, flags=re.M)
    # Removes a hint of newer language versions about bytes that a load does not use.
    text = re.sub(r'^\s*\.pragma "used_bytes_mask[^"]*";$', "", text, flags=re.M)
    lines = [line.rstrip() for line in text.splitlines()]
    body = "\n".join(line for line in lines if line)
    return release, (f"// Made by tools/dev kernels with nvcc, {release}.\n"
                     f"// Hash of the sources: {hash_of_sources()}\n{body}\n")


def check(nvcc=None):
    kept = PTX.read_text()
    made_by, made_from = kept.splitlines()[:2]
    is_current = made_from.endswith(hash_of_sources())
    if is_current and nvcc:
        release, text = generate(nvcc)
        if release in made_by:
            is_current = kept == text
            made_by += " Made again: the same file." if is_current else ""
    print(made_by if is_current else f"{PTX} does not match the sources: run tools/dev kernels")
    return not is_current


def number_registers(function):
    """Numbers the registers of a function in the order of their first use, without gaps."""
    counts, names = {}, {}

    def name(match):
        register, kind = match.group(), match.group(1)
        if register not in names:
            counts[kind] = counts.get(kind, 0) + 1
            names[register] = f"%{kind}{counts[kind]}"
        return names[register]

    return re.sub(r"%(p|r|s|d)\d+\b", name, function)


def shorten(text):
    """Shortens what only people read. ptxas makes the same code of it."""
    text = re.sub(r"\w+_param_0", "p", text)  # the one parameter of each kernel
    text = re.sub(r"\$L__BB\d+_", "L", text)  # labels belong to their function
    text = re.sub(r"[ \t]+", " ", text).replace(", ", ",").replace(";\n ", ";").replace("\n ", "\n")
    text = text.replace("%rd", "%d").replace("%rs", "%s")
    return "".join(map(number_registers, re.split(r"(?=\.visible \.entry)", text)))


def native(ptxas, fatbinary, native_image, portable_image):
    def compress(output, mode, images):
        # The identification string stays readable: the software driver looks for it.
        options = ["-64", "--compress-all", f"--compress-mode={mode}", f"--ident={MARK}", f"--create={output}"]
        subprocess.run([fatbinary, *options, *images], check=True)

    with tempfile.TemporaryDirectory() as folder:
        short = Path(folder, "short.ptx")
        short.write_bytes(short_ptx())
        compress(portable_image, "speed", [f"--image3=kind=ptx,sm=75,file={short}"]) # for drivers before 12.4 too
        images = []
        for architecture in NATIVE:
            code = Path(folder, f"sm_{architecture}.cubin")
            subprocess.run([ptxas, f"-arch=sm_{architecture}", "-O3", PTX, "-o", code], check=True)
            images.append(f"--image3=kind=elf,sm={architecture},file={code}")
        compress(native_image, "size", images)


def short_ptx():
    return shorten(re.sub(r"^// Hash .*\n", "", PTX.read_text(), flags=re.M)).encode()


def as_numbers(portable, native=b""):
    """Returns C++ that defines the images."""
    definitions = define("portable_kernels", portable) + define("native_kernels", native)
    return f"namespace ferry {{\n{definitions}}} // namespace ferry\n"


def define(name, data):
    # A literal would be longer than MSVC allows.
    # The zeros after the image end it. A driver finds the end of PTX by a zero.
    data += bytes(8 - len(data) % 8)
    numbers = [f"{int.from_bytes(data[at : at + 8], 'little'):#x}" for at in range(0, len(data), 8)]
    rows = "\n".join(",".join(numbers[at : at + 6]) + "," for at in range(0, len(numbers), 6))
    return f"alignas(16) const std::uint64_t {name}[] = {{\n{rows}\n}};\n"


def embed(*images, output):
    text = as_numbers(*(Path(image).read_bytes() for image in images))
    Path(output).write_text(f'// Made by tools/kernels.py.\n#include "device/kernel_image.h"\n\n{text}')


def main(mode, *arguments):
    if mode == "ptx":
        PTX.write_text(generate(*arguments)[1])
        return 0
    if mode == "embed":
        return embed(*arguments[:-1], output=arguments[-1])
    return {"check": check, "native": native}[mode](*arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
