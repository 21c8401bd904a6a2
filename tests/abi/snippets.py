#!/usr/bin/env python3
"""Compiles every C and C++ block of the documents: snippets.py PUBLIC_INCLUDE CUDA_INCLUDE CC CXX DOCUMENT...

A block becomes the body of a function. `…` is the reader's own error branch, here `return 1;`. Names that a block does
not declare come from GIVEN, by the heading above the block.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Werror", "-Wno-unused"]
LANGUAGES = {"c": ["-std=c99", "-x", "c"], "cpp": ["-std=c++17", "-x", "c++"]}

CUDA_TO_FERRY = """
#include <ferry/ferry.h>
#include <cuda.h>
ferry_instance *ferry;
ferry_error_info error;
ferry_place from, to;
ferry_copy_desc copy;
ferry_fill_desc fill;
int32_t device;
uint64_t element;
"""
# Declarations by language and heading.
GIVEN = {
    ("c", "A first copy"): """
        uint64_t size, row_pitch, image_height;
        unsigned char *pixels;
        struct CUarray_st *array;
        struct CUstream_st *stream;""",
    ("cpp", "A first copy"): """
        #include <cstdint>
        #include <vector>
        std::vector<std::array<std::uint8_t, 4>> pixels;
        struct CUstream_st *stream;""",
    ("c", "From CUDA's calls to ferry's"): "#include <ferry/ferry.h>",
    ("c", "CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER"): CUDA_TO_FERRY + "CUDA_MEMCPY3D p;",
    ("c", "cudaMemcpy3DParms, cudaMemcpy3DPeerParms, cudaPitchedPtr, cudaPos, cudaExtent"):
        CUDA_TO_FERRY + "#include <driver_types.h>\nstruct cudaMemcpy3DParms p;",
    ("c", "CUDA_MEMCPY3D_BATCH_OP, cudaMemcpy3DBatchOp"): CUDA_TO_FERRY + "CUDA_MEMCPY3D_BATCH_OP op;",
    ("c", "CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams"): CUDA_TO_FERRY + "CUDA_MEMSET_NODE_PARAMS p;",
    ("c", "One line between addresses"): CUDA_TO_FERRY + """
        const void *srcHost;
        CUdeviceptr dstDevice;
        size_t ByteCount;
        CUstream hStream;""",
}


def blocks_of(document):
    """(line number, heading, language, code) of each fenced block."""
    heading = language = ""
    code = []
    for number, line in enumerate(document.splitlines(), 1):
        if line.startswith("```"):
            if language:
                yield number - len(code), heading, language, "\n".join(code)
            language, code = ("" if language else line[3:].strip() or "text"), []
        elif language:
            code.append(line)
        elif line.startswith("#"):
            heading = line.lstrip("# ")


def program_of(heading, language, code):
    lines = (GIVEN.get((language, heading), "") + "\n/**/\n" + code.replace("…", "return 1;")).splitlines()
    includes = "\n".join(line.strip() for line in lines if line.lstrip().startswith("#include"))
    given, body = "\n".join(line for line in lines if not line.lstrip().startswith("#include")).split("/**/\n")
    arguments = "int snippet(void);" if language == "c" else ""
    return f"{includes}\n{given}\n{arguments}\nint snippet({'void' if language == 'c' else ''}) {{\n{body}\nreturn 0;\n}}\n"


def main(public_include, cuda_include, cc, cxx, *documents):
    count, failures = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "snippet")
        for document in map(Path, documents):
            for number, heading, language, code in blocks_of(document.read_text()):
                if language not in LANGUAGES:
                    continue
                source.write_text(program_of(heading, language, code))
                compiler = cc if language == "c" else cxx
                done = subprocess.run([compiler, *STRICT, *LANGUAGES[language], "-I", public_include, "-isystem",
                                       cuda_include, "-fsyntax-only", source], capture_output=True, text=True)
                count += 1
                if done.returncode:
                    failures += 1
                    print(f"{document}:{number}: the {language} block of «{heading}» does not compile\n{done.stderr}")
    print(f"{count} snippets, {failures} failures")
    return 1 if failures or not count else 0


sys.exit(main(*sys.argv[1:]))
