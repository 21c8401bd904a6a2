// ferry_nvtx.hpp, beside a tool that keeps the ranges.
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <ferry/ferry_nvtx.hpp>

#include "support/driver_under_test.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"

namespace ferry::test {
namespace {

// The ranges that the tool received since the last call: the depth, name and bytes of each.
std::vector<std::string> told() {
    void *const tool = dlopen(NVTX_TOOL, RTLD_NOW | RTLD_NOLOAD);
    std::vector<std::string> lines;
    if (!tool) return lines;
    const auto line = reinterpret_cast<const char *(*)(int)>(dlsym(tool, "nvtx_tool_line"));
    const auto depth = reinterpret_cast<int (*)()>(dlsym(tool, "nvtx_tool_depth"));
    for (int i = 0; const char *const text = line(i); ++i)
        lines.emplace_back(text);
    EXPECT_EQ(depth(), 0) << "each range has an end";
    EXPECT_STREQ(reinterpret_cast<const char *(*)()>(dlsym(tool, "nvtx_tool_domain"))(), "ferry");
    reinterpret_cast<void (*)()>(dlsym(tool, "nvtx_tool_forget"))();
    return lines;
}

using nvtx_ranges = ferry_test;

TEST_F(nvtx_ranges, surround_every_call_and_report_its_kind_and_bytes) {
    setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1); // read at the first range
    ferry_options options = options_under_test();
    nvtx::trace(options);
    const instance_owner traced = open_or_fail(options);
    const test_stream stream;
    const device_memory device(1 << 20);
    const pinned_memory pinned(1 << 20);
    const auto host = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pinned.address));
    ASSERT_OK(ferry_copy_bytes(traced.get(), device, host, 4096, nullptr, nullptr));
    ASSERT_OK(ferry_copy_bytes_async(traced.get(), device, host, 5000, nullptr, stream, nullptr, nullptr));
    const std::uint64_t to[] = {device, device + 4096}, from[] = {host, host + 4096}, sizes[] = {16, 32};
    ASSERT_OK(ferry_copy_pieces_async(traced.get(), in_arrays(to, from, sizes, 2), nullptr, stream, nullptr, nullptr));
    ferry_fill_desc fill = {};
    fill.destination.address = device;
    fill.width = 64;
    fill.pattern_size = 1;
    ASSERT_OK(ferry_fill_async(traced.get(), &fill, nullptr, stream, nullptr, nullptr));
    ferry_copy_desc copy = {};
    copy.source.kind = 99;
    EXPECT_EQ(ferry_copy(traced.get(), &copy, nullptr, nullptr), FERRY_ERROR_KIND)
        << "a range of a call that fails ends too";
    ferry_prepared *prepared = nullptr;
    copy.source.kind = FERRY_KIND_ANY;
    copy.destination.address = device, copy.source.address = host, copy.width = 100;
    ASSERT_OK(ferry_prepared_create(traced.get(), &copy, 1, nullptr, stream, &prepared, nullptr));
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    const std::vector<std::string> wanted = {"0 copy 4096", "0 copy 5000", "0 batch 48",
                                             "0 fill 64",   "0 copy 0",    "0 prepared batch 100"};
    EXPECT_EQ(told(), wanted);
}

} // namespace
} // namespace ferry::test
