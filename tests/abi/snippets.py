#!/usr/bin/env python3
"""Compiles every C and C++ block of the documents, and the program in the first comment of ferry.h:
snippets.py PUBLIC_INCLUDE CUDA_INCLUDE CC CXX DOCUMENT_OR_FOLDER...

A block becomes the body of a function. `…` is the reader's own error branch, here `return 1;`. Names that a block does
not declare come from GIVEN, by the heading above the block. Blocks whose headers of CUDA are missing are skipped. The
documents in WITHOUT_EXCEPTIONS are for programs that are built so.
"""
import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

SKIPPED = 77
STRICT = ["-Wall", "-Wextra", "-Werror", "-Wno-unused"]
LANGUAGES = {"c": ["-std=c99", "-x", "c"], "cpp": ["-std=c++17", "-x", "c++"]}

WITHOUT_EXCEPTIONS = {"engines.md"}

# Headers of CUDA that blocks include themselves, or through one of ferry's headers.
CUDA_HEADERS = {"<cuda.h>": "<cuda.h>", "<driver_types.h>": "<driver_types.h>",
                "<ferry/ferry_nvtx.hpp>": "<nvtx3/nvToolsExt.h>"}

CUDA_TO_FERRY = """
#include <ferry/ferry_all.h>
#include <cuda.h>
ferry_instance *ferry;
ferry_error_info error;
ferry_place from, to;
ferry_copy_desc copy;
ferry_fill_desc fill;
int32_t device;
uint64_t element;
"""
SEVERAL_GPUS = """
#include <ferry/ferry_all.h>
ferry_instance *ferry;
ferry_error_info error;
ferry_copy_desc copy;
struct CUstream_st *stream;
"""
# Declarations by language and heading.
GIVEN = {
    ("c", "A first copy"): """
        uint64_t size, row_pitch, image_height;
        unsigned char *pixels;
        struct CUarray_st *array;
        struct CUstream_st *stream;""",
    ("c", "A nest"): """
        #include <ferry/ferry_all.h>
        ferry_instance *ferry;
        uint64_t matrix, transposed;
        struct CUstream_st *stream;""",
    ("c", "Lists of blocks"): """
        #include <ferry/ferry_all.h>
        ferry_nest nest;
        uint64_t block_bytes, blocks;
        uint32_t ids[64];""",
    ("c", "Files"): """
        #include <ferry/ferry_all.h>
        ferry_instance *ferry;
        uint64_t device_memory;
        struct CUstream_st *stream;""",
    ("cpp", "Files"): """
        #include <ferry/ferry.hpp>
        ferry::instance gpu;
        ferry::device_memory<float> weights;
        struct CUstream_st *stream;""",
    ("cpp", "How files are copied"): """
        #include <ferry/ferry.hpp>
        ferry::instance gpu;
        ferry::file file;
        ferry::device_memory<float> on_device_0, on_device_1;
        std::uint64_t size;
        struct CUstream_st *stream;""",
    ("cpp", "Open once"): """
        #include <functional>
        #include <ferry/ferry.hpp>
        struct job_system { void add_move(std::function<void()> move); } jobs;""",
    ("cpp", "Pending copies on the software driver"): """
        #include <chrono>
        #include <thread>
        #include <vector>
        #include <ferry/ferry.hpp>
        ferry::instance gpu;
        ferry::stream stream;
        std::vector<int> pixels;
        ferry::device_memory<int> image;""",
    ("cpp", "A trace of the copies"): """
        #include <ferry/ferry.hpp>
        #include <ferry/ferry_nvtx.hpp>
        ferry_options options;
        struct my_profiler {
            void add_on_stream(CUstream_st *stream, std::uint64_t begin, std::uint64_t end, std::uint64_t bytes);
            void add_on_thread(std::uint64_t begin, std::uint64_t end, std::uint64_t bytes);
        } profiler;""",
    ("cpp", "A frame"): """
        #include <vector>
        #include <ferry/ferry.hpp>
        ferry::instance gpu;
        ferry::stream stream;
        ferry::external_semaphore rendered, uploaded;
        std::uint64_t frame;
        ferry::host_view<const float> constants;
        ferry::device_view<float> constant_buffer;
        std::vector<ferry::piece> pieces;
        std::vector<ferry_copy_desc> large_images;""",
    ("c", "Multilink"): SEVERAL_GPUS,
    ("c", "How to look"): SEVERAL_GPUS,
    ("c", "Without a GPU"): SEVERAL_GPUS,
    ("cpp", "Order"): """
        #include <vector>
        #include <ferry/ferry.hpp>
        ferry::instance gpu;
        ferry::stream stream;
        ferry::event arrived;
        int devices;
        std::vector<ferry::stream> own;
        std::vector<ferry::event> read;
        std::vector<std::uint64_t> addresses;
        std::uint64_t weights, size;""",
    ("c", "The values"): """
        #include <ferry/ferry_all.h>
        ferry_instance *ferry;
        ferry_error_info error;
        ferry_copy_desc copy;
        ferry_ticket *ticket;
        struct CUstream_st *stream;""",
    ("c", "The order of pageable sources"): """
        #include <ferry/ferry_all.h>
        ferry_instance *ferry;
        ferry_error_info error;
        float *constants;
        uint64_t device_memory, size;
        struct CUstream_st *stream;
        void write_constants(void *constants, int32_t status);""",
    ("c", "Pieces"): """
        #include <ferry/ferry.h>
        ferry_instance *ferry;
        ferry_error_info error;
        uint64_t *to, *from, *sizes, count;
        struct CUstream_st *stream;""",
    ("cpp", "Options in C++"): """
        #include <vector>
        #include <ferry/ferry.hpp>
        ferry::instance gpu;
        ferry_options options;
        std::vector<int> sent;
        ferry::device_memory<int> memory;""",
    ("cpp", "Flags have types"): "#include <ferry/ferry.hpp>",
    ("c", "From CUDA's calls to ferry's"): "#include <ferry/ferry_all.h>",
    ("c", "CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER"): CUDA_TO_FERRY + "CUDA_MEMCPY3D p;",
    ("c", "cudaMemcpy3DParms, cudaMemcpy3DPeerParms, cudaPitchedPtr, cudaPos, cudaExtent"):
        CUDA_TO_FERRY + "#include <driver_types.h>\nstruct cudaMemcpy3DParms p;",
    ("c", "CUDA_MEMCPY3D_BATCH_OP, cudaMemcpy3DBatchOp"): CUDA_TO_FERRY + "CUDA_MEMCPY3D_BATCH_OP op;",
    ("c", "CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams"): CUDA_TO_FERRY + "CUDA_MEMSET_NODE_PARAMS p;",
    ("c", "Contiguous copies between addresses"): CUDA_TO_FERRY + """
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


def program_of(document, number, heading, language, code):
    includes = re.findall("^#include .*", code, re.MULTILINE)
    body = re.sub("^#include .*", "", code, flags=re.MULTILINE).replace("…", "return 1;")
    return "\n".join([*includes, GIVEN.get((language, heading), ""), "int snippet(void) {",
                      f'#line {number} "{document}"', body, "return 0;", "}", ""])


def main(public_include, cuda_include, cc, cxx, *paths):
    def compiled(language, program, *options):
        return subprocess.run([cc if language == "c" else cxx, *STRICT, *LANGUAGES[language], *options, "-I", public_include,
                               *(["-isystem", cuda_include] if cuda_include else []), "-fsyntax-only", "-"],
                              capture_output=True, text=True, input=program)

    @functools.cache
    def problem_with(header):
        """The compiler's error, such as the name of a missing file. Empty if the header compiles."""
        lines = compiled("cpp", f"#include {header}\n").stderr.splitlines()
        return next((line for line in lines if "error: " in line), "")

    count, failures, missing = 0, 0, Counter()
    documents = [file for path in map(Path, paths) for file in (sorted(path.glob("*.md")) if path.is_dir() else [path])]
    for document in documents:
        for number, heading, language, code in blocks_of(document.read_text()):
            if language not in LANGUAGES:
                continue
            program = program_of(document, number, heading, language, code)
            included = re.findall("^ *#include (.*)", program, re.MULTILINE)
            needed = [CUDA_HEADERS[header] for header in included if header in CUDA_HEADERS]
            if problem := next(filter(None, map(problem_with, needed)), None):
                missing[problem] += 1
                continue
            done = compiled(language, program, *(["-fno-exceptions"] if document.name in WITHOUT_EXCEPTIONS else []))
            count += 1
            if done.returncode:
                failures += 1
                print(f"{document}:{number}: this {language} block, under «{heading}», does not compile\n{done.stderr}")
    header = (Path(public_include) / "ferry" / "ferry.h").read_text()
    example = re.search(r"^ \*     #include .*\n(?: \*(?:     .*)?\n)+", header, re.MULTILINE)[0]
    done = compiled("c", re.sub(r"^ \*(?: {5})?", "", example, flags=re.MULTILINE))
    count += 1
    if done.returncode:
        failures += 1
        print(f"ferry.h: the program in its first comment does not compile\n{done.stderr}")
    print(f"{count} snippets, {failures} failures")
    for problem, blocks in missing.items():
        print(f"skipped: {blocks} snippets, because of the headers in -Dtoolkit_include={cuda_include}: {problem}")
    return 1 if failures or not count else SKIPPED if missing else 0


sys.exit(main(*sys.argv[1:]))
