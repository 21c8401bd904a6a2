#!/usr/bin/env python3
"""Compiles programs that use ferry.hpp wrongly: cpp_rejections.py INCLUDE COMPILER [OPTION ...]

Each must be refused with one error, a sentence that says what is wrong.
"""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

GIVEN = """
#include <ferry/ferry.hpp>
#include <array>
#include <list>
#include <memory>
#include <string>
#include <vector>
template <class T, int dimensions> struct span { // shaped like std::mdspan
    using element_type = std::remove_reference_t<T>;
    using reference = T;
    using data_handle_type = element_type *;
    static constexpr int rank() { return dimensions; }
};
struct arrays { int *data(); int size(); };
template <class T> struct getter { T get() const; };
template <class T> struct with_data { T data(); int size(); };
struct ender { void operator()(CUstream_st *) const; };
struct own_view { int *data() const; int size() const; };
struct own_addresses { std::uint64_t *data() const; int size() const; };
struct upload { const void *from; std::uint64_t to, bytes; std::uint32_t small; };
template <> struct ferry::memory_kind_of<arrays> : std::integral_constant<std::int32_t, FERRY_KIND_ARRAY> {};
using rgb = std::array<unsigned char, 3>;
using namespace ferry;
"""
PARAMETERS = """ferry_instance *gpu, CUstream_st *stream, event &event, array &texels, prepared &batch,
                device_memory<int> &memory, device_memory<rgb> &pixels, std::vector<int> &ints,
                const std::vector<int> &fixed, std::vector<std::uint64_t> &addresses,
                std::vector<upload> &uploads, const pieces &all,
                const file &opened"""

ADDRESS = "an address has no number of elements: pass a view"
BATCH = "the copies must be a contiguous range of ferry_copy_desc"
BORROWED = "For a type that does not own the memory, specialise ferry::borrows_memory"
CONST = "the destination is const, so it cannot be written: pass"
CONTIGUOUS = "this is no range of contiguous memory: pass"
DATA = "data() of this range returns no pointer to elements: pass a view"
ELEMENTS = "elements must be trivially copyable and not volatile, because ferry copies their bytes: pack"
GONE = "this is a temporary that owns its memory, so the memory would be gone after the call: pass a variable"
LOST = "the destination is a temporary that owns its memory, so what is written would be lost: pass"
MDSPAN = "an mdspan must have 1 to 3 dimensions, and trivially copyable elements in memory"
NUMBERS = "addresses and sizes must be contiguous ranges of std::uint64_t"
PIECES = "these addresses or sizes are a temporary that owns its memory, but the pieces refer to it: pass a variable"
READ_LATER = "the source is a temporary that owns its memory, but the copy reads it after the call: pass a variable"
RESULT = "this is a ferry::result, which may hold an error: pass its value"
SIZES = "elements must have 1, 2, 4, 8 or 16 bytes: fill others by their bytes, with as_bytes()"
SUB = "sub() takes (x, width), (x, y, width, height) or (x, y, z, width, height, depth)"
TYPES = "source and destination have different element types: convert the elements"

# Statements that do not compile, by the sentence that the compiler prints.
WRONG = {
    ADDRESS: ["copy(gpu, ints.data(), memory)", "copy(gpu, ints, memory.address())", "fill(gpu, memory.address(), 1)"],
    BATCH: ["copy_batch(gpu, ints)", "copy_batch(gpu, ferry_copy_desc())",
            "ferry_copy_desc *one = nullptr; copy_batch(gpu, one)", "copy_batch_async(gpu, memory, stream)",
            "explain_batch_async(gpu, std::vector<ferry_fill_desc>(), stream)", "prepared::create(gpu, ints, stream)"],
    CONST: ["copy(gpu, memory, fixed)", "copy(gpu, ints, std::as_const(memory))",
            "copy(gpu, memory, host_view<const int>())", "fill(gpu, std::as_const(memory), 1)",
            "explain_async(gpu, memory, fixed, stream)", "describe_piece(ints, fixed)"],
    CONTIGUOUS: ["copy(gpu, std::list<int>(), memory)", "copy(gpu, memory, std::vector<bool>())",
                 "copy_async(gpu, std::list<int>(), memory, stream)", "view_of(nullptr)",
                 "registration::create(gpu, event)"],
    DATA: ["copy(gpu, with_data<getter<int *>>(), memory)", "copy_async(gpu, memory, *new with_data<void *>, stream)"],
    ELEMENTS: ["std::string names[2]; copy(gpu, names, texels)", "copy(gpu, std::vector<std::string>(), texels)",
               "device_memory<std::string> strings", "device_view<std::string> strings",
               "volatile int numbers[2]; copy(gpu, numbers, memory)"],
    BORROWED: ["copy_async(gpu, own_view(), memory, stream)", "copy(gpu, memory, own_view())", "view_of(own_view())",
               "copy_pieces(gpu, {sources(own_addresses()), destinations(addresses), sizes(addresses)})"],
    GONE: ["view_of(std::vector<int>()).sub(0, 1)", "export_memory(gpu, device_memory<int>())",
           "registration::create(gpu, std::vector<int>())"],
    LOST: ["copy(gpu, ints, device_memory<int>())", "fill(gpu, device_memory<int>(), 1)"],
    MDSPAN: ["copy(gpu, span<int &, 4>(), memory)", "copy(gpu, memory, span<int, 2>())"],
    NUMBERS: ["copy_pieces(gpu, {sources(addresses), destinations(addresses), sizes(ints)})",
              "broadcast(gpu, source(1), destinations(ints), 4)",
              "broadcast_async(gpu, source(1), destinations(memory.address()), 4, stream)",
              "broadcast(gpu, source(1), destinations(opened.at(0)), 4)",
              "auto made = broadcast_async_ticket(gpu, opened.at(0), destinations(std::vector<ferry_place>(2)), 4, stream)",
              "pieces(sources(addresses.data()), destinations(addresses), sizes(addresses))",
              "batch.set_addresses(sources(ints), stream)"],
    PIECES: ["copy_pieces(gpu, {sources(std::vector<std::uint64_t>(2)), destinations(addresses), sizes(addresses)})",
             "batch.set_addresses(destinations(std::array<std::uint64_t, 2>()), stream)",
             "auto same = sizes(std::array<const std::uint64_t, 2>{})", "copy_pieces(gpu, std::vector<piece>(2))",
             "copy_pieces_async(gpu, std::array<ferry_piece, 2>(), stream)",
             "copy_pieces(gpu, {std::vector<upload>(2), &upload::from, &upload::to, &upload::bytes})"],
    "the structs must be a contiguous range, such as a std::vector or a C array, of the struct whose fields are given":
        ["copy_pieces(gpu, {ints, &upload::from, &upload::to, &upload::bytes})"],
    "addresses and sizes of pieces must be integers or pointers of 8 bytes":
        ["copy_pieces(gpu, {uploads, &upload::small, &upload::to, &upload::bytes})"],
    "the third field is the size: an integer, not a pointer":
        ["copy_pieces(gpu, {uploads, &upload::to, &upload::bytes, &upload::from})"],
    "the second field is the destination, which cannot be a pointer to const":
        ["copy_pieces(gpu, {uploads, &upload::to, &upload::from, &upload::bytes})"],
    "name the ranges: pieces(sources(a), destinations(b), sizes(c))":
        ["copy_pieces(gpu, {addresses, addresses, addresses})", "auto made = pieces(addresses, addresses, addresses)"],
    READ_LATER: ["copy_async(gpu, std::vector<int>(4), memory, stream)",
                 "copy_async_ticket(gpu, pinned_block<int>(), memory, stream)",
                 "describe_copy(std::array<int, 4>(), memory)", "describe_piece(std::vector<int>(4), memory)"],
    RESULT: ["copy(gpu, ints, device_memory<int>::create(gpu, 0, 4))", "view_of(event.is_done())"],
    SIZES: ["fill(gpu, pixels, rgb())"],
    SUB: ["memory.view().sub(1)", "view_of(ints).sub(0, 0, 1)", "texels.view().sub(0, 0, 0, 1, 1)"],
    TYPES: ["copy(gpu, ints, pixels)", "copy_async(gpu, std::as_const(pixels), ints, stream)",
            "explain(gpu, std::vector<float>(), memory)", "describe_piece(ints, pixels)"],
    "CUDA arrays cannot be filled: fill memory, and copy it to the array": ["fill_async(gpu, texels, 1, stream)"],
    "CUDA arrays have no addresses, so a piece cannot name them: copy them with describe_copy() and copy_batch()":
        ["describe_piece(ints, texels)", "auto made = describe_piece(texels, memory)"],
    "CUDA arrays cannot be exported: pass memory with addresses": ["export_memory(gpu, texels)"],
    "only host memory can be registered: pass a container": ["registration::create(gpu, memory)"],
    "the function of and_then() must return a ferry::result or a ferry::status":
        ["result<int>(7).and_then([](int value) { return value; })"],
    "ferry::memory_kind_of must be FERRY_KIND_ANY, FERRY_KIND_HOST or FERRY_KIND_DEVICE": ["view_of(*new arrays())"],
    "a C array must have at most 3 dimensions": ["int box[2][2][2][2]; copy(gpu, box, memory)"],
    "helpers must be a contiguous range of std::int32_t": ["instance().set_multilink(0, addresses)"],
    "the current pool of a device has device memory only: pass a pool in host memory":
        ["stream_memory<int, FERRY_KIND_HOST>::create(gpu, 0, 4, stream)"],
    # Deleted functions: the sentence is the comment beside the declaration.
    "a result<bool> as a condition is ambiguous: check ok()": ["if (event.is_done()) return"],
    "no flag of this kind: pass its enumerators, or convert constants of ferry.h":
        ["auto made = stream::create(gpu, 0, event_flag::disable_timing)", "auto made = event::create(gpu, 0, 1u)",
         "auto made = pinned_memory<int>::create(gpu, 4, register_flag::read_only)",
         "auto made = registration::create(gpu, ints, host_flag::by_driver)",
         "array_desc(FERRY_FORMAT_FLOAT, 1, 4, 4, 0, stream_flag::non_blocking)",
         "auto made = file::open(gpu, nullptr, FERRY_FILE_DIRECT_ALWAYS)",
         "auto made = file::open(gpu, nullptr, FERRY_FILE_WRITE)", "auto made = file::open(gpu, nullptr, file_direct::never)",
         "auto made = file::open_descriptor(gpu, 3, FERRY_FILE_READ | FERRY_FILE_WRITE)",
         "auto flags = copy_flags(copy_flag::multilink) | host_flag::shared"],
    "pass a file_direct":
        ["auto made = file::open(gpu, nullptr, file_flag::read, FERRY_FILE_DIRECT_ALWAYS)",
         "auto made = file::open_descriptor(gpu, 3, {}, FERRY_FILE_DIRECT_NEVER)"],
    "not an option: pass copy_flag, copy_route, copy_priority, source_order, max_sms or tag":
        ["copy(gpu, ints, memory, FERRY_COPY_MULTILINK)", "copy(gpu, ints, memory, 8)",
         "copy(gpu, ferry_copy_desc(), FERRY_ROUTE_DRIVER)",
         "copy(gpu, ints, memory, nullptr)", "copy_async(gpu, ints, memory, stream, host_flags())",
         "ferry_copy_options options = {}; auto made = copy_async_ticket(gpu, ints, memory, stream, &options)",
         "explain_async(gpu, ferry_fill_desc(), stream, 0)", "fill(gpu, memory, 1, host_flag::shared)",
         "auto made = fill_async_ticket(gpu, memory, 1, stream, 1u)",
         "copy_batch(gpu, std::vector<ferry_copy_desc>(), array_flag::layered)",
         "copy_pieces(gpu, all, FERRY_COPY_CHECK_OVERLAP)",
         "broadcast(gpu, source(1), destinations(addresses), 4, event_flag::interprocess | event_flag::disable_timing)",
         "batch.launch(stream, 7)", "auto made = prepared::create(gpu, std::vector<ferry_copy_desc>(), stream, 1)"],
    "a stream is not an option: pass it to copy_async(), before the options":
        ["copy(gpu, ints, memory, stream)", "copy(gpu, ints, memory, ferry::stream())",
         "ferry::stream own; fill(gpu, memory, 1, own)", "explain(gpu, ints, memory, getter<CUstream_st *>())"],
    "not a stream: pass a CUstream, a ferry::stream, or a type that stream_view describes":
        ["copy_async(gpu, ints, memory, event)", "copy_async(gpu, ints, memory, copy_flag::multilink)",
         "copy_pieces_async(gpu, all, getter<int>())", "fill_async(gpu, memory, 1, memory)"],
    "pass (gpu, from, to)":
        ["copy(ints, memory)", "copy(ints, memory, gpu)", "copy(gpu, ints)"],
    "pass (gpu, from, to, stream)":
        ["copy_async(ints, memory, stream)", "copy_async(gpu, ints, memory)", "copy_async(ints, memory, gpu, stream)",
         "copy_async(gpu, ints, memory, 3)"],
    "call broadcast_async_ticket()": ["broadcast_async(gpu, opened.at(0), destinations(addresses), 4, stream)"],
    "the file would be closed: keep the owner":
        ["file().at(0)"],
    "pass (gpu, to, value)": ["fill(memory, 1)", "fill(gpu, memory)"],
    "pass (gpu, to, value, stream)":
        ["fill_async(gpu, memory, 1)", "fill_async(memory, 1, stream)"],
    "not a range of ferry::piece: pass pieces(structs, &S::source, &S::destination, &S::bytes)":
        ["copy_pieces(gpu, uploads)", "copy_pieces_async(gpu, ints, stream)", "auto made = pieces(memory)"],
    "two values of one option: pass one":
        ["copy(gpu, ints, memory, copy_route::driver | copy_route::kernel)", "auto options = max_sms(2) | max_sms(4)"],
    "only a part can be on the right of |: join the parts one by one":
        ["auto options = tag(1) | copy_options(copy_flag::multilink)",
         "auto options = copy_options() | copy_options::ordinary()"],
    "the options would be gone: keep them in a variable":
        ["ferry_options options = {}; options.copy_options = (copy_route::staged | max_sms(8)).get()"],
    "the instance would be closed: keep the owner":
        ["auto made = device_memory<int>::create(instance(), 0, 4)", "auto made = stream::create(instance(), 0)",
         "auto made = device_memory<int>::create(*instance::open(), 0, 4)",
         "auto made = pinned_memory<int>::create(instance::open().or_throw(), 4)",
         "auto made = pitched_memory<int>::create(instance(), 0, 4, 4)",
         "auto made = managed_memory<int>::create(instance(), 0, 4)", "auto made = pinned_pool::create(instance())",
         "auto made = pool::create(instance(), ferry_pool_desc())", "auto made = event::create(instance(), 0)",
         "auto made = array::create(instance(), 0, ferry_array_desc())",
         "auto made = mipmapped_array::create(instance(), 0, ferry_array_desc())",
         "auto made = registration::create(instance(), ints)", "auto made = context_scope::enter(instance(), 0)",
         "auto made = imported_event::open(instance(), ferry_ipc_handle())",
         "auto made = imported_memory<int>::open(instance(), ferry_ipc_handle(), stream)",
         "auto made = imported_pool::open(instance(), ferry_ipc_handle(), -1)",
         "auto made = external_memory::open(instance(), ferry_external_memory_desc())",
         "auto made = external_semaphore::open(instance(), ferry_external_semaphore_desc())",
         "auto made = pool_view::default_of(instance(), FERRY_LOCATION_DEVICE, 0)",
         "auto made = stream_memory<int>::create(instance(), 0, 4, stream)",
         "auto made = prepared::create(instance(), all, stream)",
         "auto made = ticket::create(instance(), stream)", "auto made = copy_async_ticket(instance(), ints, memory, stream)"],
    "the stream would be gone: keep the owner":
        ["auto made = stream_memory<int>::create(gpu, 0, 4, ferry::stream())",
         "auto made = imported_memory<int>::open(gpu, ferry_ipc_handle(), ferry::stream())",
         "pinned_block<int>().set_stream(ferry::stream())", "copy_async(gpu, ints, memory, ferry::stream())",
         "copy_async(gpu, ints, memory, std::unique_ptr<CUstream_st, ender>())"],
    "the pool would be gone": ["auto made = pinned_block<int>::create(pinned_pool(), 4)",
                               "auto made = pinned_block<int>::create(pinned_pool(), 4, stream)"],
    "the pool would be gone before the view: keep the owner":
        ["auto made = stream_memory<int>::create(pool(), 4, stream)", "pool_view found = pool()"],
    "the pool would be gone: keep the owner": ["auto found = pool_view::of(gpu, pool())",
                                               "auto found = pool_view::of(gpu, imported_pool())",
                                               "ferry_pinned_pool *handle = pinned_pool()"],
    "the array would be gone: keep the owner": ["auto found = array_view::of(gpu, 0, array())",
                                                "CUmipmappedArray_st *handle = mipmapped_array()"],
    "the owner would be gone: keep the result in a variable":
        ["auto view = device_memory<int>::create(gpu, 0, 4)->view()", "auto report = instance::open()->report()"],
    "the memory would be gone before the address: keep the owner": ["device_memory<int>().address()"],
    "the object would be gone before the handle: keep the owner": ["ferry::stream().handle()"],
    "the memory would be gone before the view: keep the owner": ["device_memory<int>().view()"],
    "the memory would be gone before the pointer: keep the owner": ["pinned_memory<int>().data()"],
    "the array would be gone before the view: keep the owner": ["array().view()"],
}


def main(include, *compiler):
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "given.h")
        given.write_text(GIVEN)
        # Both GCC and Clang look for a precompiled header under this name.
        subprocess.run([*compiler, "-I", include, "-x", "c++-header", given, "-o", f"{given}.gch"], check=True)

        no_limit = ["-ferror-limit=0"] if "clang" in compiler[0] else []

        def compile(*statements):
            program = "".join(f"void wrong{i}({PARAMETERS.replace(chr(10), ' ')}) {{ {statement}; }}\n"
                              for i, statement in enumerate(statements))
            done = subprocess.run([*compiler, *no_limit, "-fsyntax-only", "-I", include, "-include", given, "-x", "c++",
                                   "-"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, input=program)
            return done.returncode, done.stderr

        def errors_in(output):
            return re.findall(r":\d+: error: (.*)", output)

        def check(row):
            sentence, statement = row
            status, output = compile(statement)
            errors = errors_in(output)
            if status == 0 or len(errors) != 1 or sentence not in output:
                return f"\n`{statement}` must be refused with one error, «{sentence}», not {len(errors)}:\n{output}"
            return ""

        # Loading the header takes most of the time. So statements with different sentences are compiled together. If the
        # output has one error for each and all the sentences, only lines that it does not name are compiled again.
        def check_together(rows):
            output = compile(*(statement for _, statement in rows))[1]
            lines = {int(line) for line in re.findall(r"<stdin>:(\d+):", output)}
            if len(errors_in(output)) == len(rows) and all(sentence in output for sentence, _ in rows):
                rows = [row for line, row in enumerate(rows, 1) if line not in lines]
            return [failure for failure in map(check, rows) if failure]

        status, output = compile("")
        if status:
            print(f"what the programs share does not compile:\n{output}")
            return 1
        rows = [(sentence, statement) for sentence, statements in WRONG.items() for statement in statements]
        together = [[(sentence, statements[i]) for sentence, statements in WRONG.items() if i < len(statements)]
                    for i in range(max(map(len, WRONG.values())))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            failures = [failure for failures in pool.map(check_together, together) for failure in failures]
    print(*failures, f"{len(rows)} programs, {len(failures)} failures", sep="\n")
    return 1 if failures else 0


sys.exit(main(*sys.argv[1:]))
