// Small contiguous copies between host memory and a device, and within a device: for every statement of the kinds, from
// threads with and without a current context, on streams of every context. Most of them take a path that queries little.
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "driver/result.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t size = 4096;

struct memory_under_test {
    CUdeviceptr address = 0;
    std::int32_t stated = FERRY_KIND_DEVICE; // besides ANY
    const char *name = "";
    bool is_pageable = false;
};

class short_copies : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        if (IsSkipped()) return;
        plain = std::make_unique<device_memory>(2 * size);
        host = std::make_unique<pinned_memory>(2 * size);
        if (raw().cuMemAllocAsync) {
            EXPECT_OK(raw().cuMemAllocAsync(&pooled, 2 * size, nullptr));
            EXPECT_OK(raw().cuStreamSynchronize(nullptr));
        }
    }
    void TearDown() override {
        if (pooled) {
            EXPECT_OK(raw().cuMemFree(pooled));
        }
        plain.reset(), host.reset();
        ferry_test::TearDown();
    }
    std::vector<memory_under_test> all_memory() const {
        std::vector<memory_under_test> all = {
            {CUdeviceptr{*plain}, FERRY_KIND_DEVICE, "device memory"},
            {reinterpret_cast<std::uintptr_t>(host->data()), FERRY_KIND_PINNED, "pinned memory"},
            {reinterpret_cast<std::uintptr_t>(host->data()), FERRY_KIND_HOST, "pinned memory, stated as host memory"},
            {reinterpret_cast<std::uintptr_t>(paged.data()), FERRY_KIND_HOST, "pageable memory", true}};
        if (pooled) all.push_back({pooled, FERRY_KIND_DEVICE, "pool memory"});
        return all;
    }
    static ferry_place place(const memory_under_test &memory, bool is_stated, std::uint64_t offset) {
        ferry_place place = {};
        place.address = memory.address + offset;
        place.kind = is_stated ? memory.stated : FERRY_KIND_ANY;
        if (place.kind != FERRY_KIND_DEVICE) place.device = FERRY_DEVICE_UNKNOWN;
        return place;
    }
    // A copy of `size` bytes of pinned memory to the device.
    ferry_copy_desc describe_upload(std::int32_t stated = FERRY_KIND_PINNED) const {
        ferry_copy_desc copy = {};
        copy.source = place({reinterpret_cast<std::uintptr_t>(host->data()), stated}, true, 0);
        copy.destination = place({CUdeviceptr{*plain}, FERRY_KIND_DEVICE}, true, 0);
        copy.width = size;
        return copy;
    }
    static void write(const memory_under_test &to, std::uint64_t offset, std::byte value) {
        if (to.is_pageable) {
            std::memset(reinterpret_cast<void *>(to.address + offset), static_cast<int>(value), size);
            return;
        }
        EXPECT_OK(raw().cuMemsetD8(to.address + offset, static_cast<unsigned char>(value), size));
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    static bytes read(const memory_under_test &from, std::uint64_t offset) {
        if (!from.is_pageable) return read_back(from.address + offset, size);
        const auto *const first = reinterpret_cast<const std::byte *>(from.address + offset);
        return bytes(first, first + size);
    }
    // Asynchronous copies on a stream and synchronous copies between all kinds of memory. `enter` changes the current
    // context for the call.
    template <class Enter> void check_all(CUstream stream, const Enter &enter) {
        for (const bool is_synchronous : {false, true})
            check_all(stream, is_synchronous, enter);
    }
    template <class Enter> void check_all(CUstream stream, bool is_synchronous, const Enter &enter) {
        int value = 1;
        for (const memory_under_test &from : all_memory())
            for (const memory_under_test &to : all_memory())
                for (const bool is_stated : {true, false}) {
                    SCOPED_TRACE(testing::Message() << from.name << " to " << to.name << ", stated: " << is_stated
                                                    << ", synchronous: " << is_synchronous);
                    ferry_copy_desc copy = {};
                    copy.source = place(from, is_stated, 0);
                    copy.destination = place(to, is_stated, size);
                    copy.width = size - 1;
                    write(from, 0, static_cast<std::byte>(value % 250 + 1));
                    write(to, size, std::byte{0});
                    ferry_error_info error = new_error();
                    std::int32_t status = 0;
                    {
                        [[maybe_unused]] const auto entered = enter();
                        if (is_synchronous) {
                            status = ferry_copy(basic.get(), &copy, nullptr, &error);
                        } else {
                            status = ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, &error);
                            EXPECT_OK(raw().cuStreamSynchronize(stream));
                        }
                    }
                    ASSERT_OK(status) << describe(error);
                    bytes expected(size, static_cast<std::byte>(value++ % 250 + 1));
                    expected.back() = std::byte{0};
                    EXPECT_EQ(read(to, size), expected);
                }
    }

    std::unique_ptr<device_memory> plain;
    std::unique_ptr<pinned_memory> host;
    bytes paged = bytes(2 * size);
    CUdeviceptr pooled = 0;
};

TEST_F(short_copies, arrive_on_streams_of_the_current_context) {
    const test_stream named;
    const auto stay = [] { return 0; };
    for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUstream{named}})
        check_all(stream, stay);
}

TEST_F(short_copies, arrive_from_threads_without_a_context_and_with_another_context) {
    const test_stream named;
    const test_context second;
    check_all(named, [] { return std::make_unique<made_current>(nullptr); });
    check_all(named, [&] { return std::make_unique<made_current>(second); });
    if (device_count() < 2) return;
    const other_device other;
    check_all(named, [&] { return std::make_unique<made_current>(other); });
}

TEST_F(short_copies, arrive_on_streams_of_other_contexts_and_devices) {
    const test_context second;
    std::unique_ptr<test_stream> stream;
    const auto stay = [] { return 0; };
    {
        const made_current there(second);
        stream = std::make_unique<test_stream>();
    }
    check_all(*stream, stay);
    stream.reset();
    if (device_count() < 2) return;
    const other_device other;
    {
        const made_current there(other);
        stream = std::make_unique<test_stream>();
    }
    check_all(*stream, stay);
}

TEST_F(short_copies, follow_the_order_of_their_stream) {
    const test_stream stream;
    gate gate(stream);
    std::memset(host->data(), 1, size);
    const ferry_copy_desc copy = describe_upload();
    ASSERT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, nullptr));
    std::memset(host->data(), 2, size); // before the stream reaches the copy
    gate.let_go();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(read_back(*plain, size), bytes(size, std::byte{2}));
}

// The driver finds out the kind of the destination, which is not on a device.
TEST_F(short_copies, reach_pageable_memory_whose_kind_is_not_stated) {
    const test_stream stream;
    bytes received(size);
    std::memset(host->data(), 5, size);
    ferry_copy_desc copy = describe_upload();
    copy.destination = place({reinterpret_cast<std::uintptr_t>(received.data()), FERRY_KIND_HOST}, false, 0);
    copy.width = size - 1;
    ferry_error_info error = new_error();
    ASSERT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, &error)) << describe(error);
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    bytes expected(size, std::byte{5});
    expected.back() = std::byte{0};
    EXPECT_EQ(received, expected);
}

// Uploads are read in the call or behind the earlier work, as the source order says. Downloads are staged.
TEST_F(short_copies, of_pageable_memory_do_not_wait_for_earlier_work) {
    const test_stream stream;
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0, nullptr));
    const ferry_place on_device = place({CUdeviceptr{*plain}}, true, 0),
                      in_memory = place({reinterpret_cast<std::uintptr_t>(paged.data())}, false, 0);
    for (const std::int32_t order : {FERRY_SOURCE_ORDER_ANY, FERRY_SOURCE_ORDER_STREAM, FERRY_SOURCE_ORDER_CALL}) {
        std::memset(paged.data(), 1 + order, size);
        ferry_copy_options options = {};
        options.struct_size = sizeof options;
        options.source_order = order;
        ferry_copy_desc upload = {}, download = {};
        upload.source = download.destination = in_memory;
        upload.destination = download.source = on_device;
        upload.width = download.width = size;
        download.destination.address += size;
        gate held(stream);
        ASSERT_OK(ferry_copy_async(basic.get(), &upload, &options, stream, nullptr, nullptr));
        if (order == FERRY_SOURCE_ORDER_CALL) std::memset(paged.data(), 99, size); // the call has read it
        ASSERT_OK(ferry_copy_async(basic.get(), &download, &options, stream, nullptr, nullptr));
        held.open();
        EXPECT_EQ(bytes(paged.begin() + size, paged.end()), bytes(size, static_cast<std::byte>(1 + order))) << order;
    }
}

TEST_F(short_copies, that_the_driver_refuses_name_the_wrong_field) {
    ferry_copy_desc copy = describe_upload();
    copy.width = 2 * size + 1;
    ferry_error_info error = new_error();
    const test_stream stream;
    EXPECT_NE(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, &error), 0);
    EXPECT_EQ(error.side, FERRY_SIDE_SOURCE);
    EXPECT_EQ(error.field, FERRY_FIELD_ADDRESS) << describe(error);
    for (const std::uint64_t address : {UINT64_MAX - 10, UINT64_MAX}) {
        copy.source.address = address;
        EXPECT_EQ(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, &error), FERRY_ERROR_OVERFLOW);
    }
}

TEST_F(short_copies, between_the_same_bytes_are_refused) {
    const test_stream stream;
    for (const std::uint64_t apart : {std::uint64_t{0}, std::uint64_t{1}, size - 1, size}) {
        for (const bool is_backwards : {false, true}) {
            ferry_copy_desc copy = {};
            copy.source = place({CUdeviceptr{*plain}, FERRY_KIND_DEVICE}, true, is_backwards ? apart : 0);
            copy.destination = place({CUdeviceptr{*plain}, FERRY_KIND_DEVICE}, true, is_backwards ? 0 : apart);
            copy.width = size;
            EXPECT_EQ(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, nullptr),
                      apart < size ? FERRY_ERROR_OVERLAP : FERRY_SUCCESS)
                << apart;
        }
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

// The thread's current context does not matter for a named stream.
TEST_F(short_copies, arrive_from_a_thread_whose_context_was_destroyed) {
    if (!on_software_driver()) GTEST_SKIP() << "the handle of a destroyed context is undefined";
    const test_stream stream;
    CUcontext ended = nullptr, popped = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&ended, 0, 0));
    ASSERT_OK(raw().cuCtxPopCurrent(&popped));
    std::memset(host->data(), 9, size);
    const ferry_copy_desc copy = describe_upload();
    std::thread([&] {
        EXPECT_OK(raw().cuCtxSetCurrent(ended));
        EXPECT_OK(raw().cuCtxDestroy(ended));
        EXPECT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, nullptr));
    }).join();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(read_back(*plain, size), bytes(size, std::byte{9}));
}

TEST_F(short_copies, report_what_the_driver_reports) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const test_stream stream;
    const ferry_copy_desc copy = describe_upload(FERRY_KIND_HOST);
    for (const char *const entry : {"cuCtxGetCurrent", "cuPointerGetAttributes", "cuMemcpy3DAsync"}) {
        SCOPED_TRACE(entry);
        driver.fail(entry, CUDA_ERROR_ILLEGAL_ADDRESS, 1, true);
        ferry_error_info error = new_error();
        EXPECT_EQ(ferry_copy_async(instance.get(), &copy, nullptr, stream, nullptr, &error),
                  to_status(CUDA_ERROR_ILLEGAL_ADDRESS));
        EXPECT_STREQ(error.driver_function, entry);
        driver.heal();
        // The pipeline repeats a copy that failed once.
        for (const CUresult once : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_CONTEXT}) {
            driver.fail(entry, once);
            EXPECT_OK(ferry_copy_async(instance.get(), &copy, nullptr, stream, nullptr, nullptr));
        }
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(short_copies, count_the_time_of_synchronous_calls) {
    const auto waited_ns = [&] {
        ferry_device_counters found = {};
        found.struct_size = sizeof found;
        EXPECT_OK(ferry_device_get_counters(basic.get(), 0, &found, nullptr));
        return found.driver.waited_ns;
    };
    const ferry_copy_desc copy = describe_upload();
    const test_stream stream;
    const std::uint64_t before = waited_ns();
    ASSERT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, nullptr));
    EXPECT_EQ(waited_ns(), before);
    ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
    EXPECT_GT(waited_ns(), before);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(short_copies, are_complete_when_a_synchronous_call_returns) {
    constexpr std::size_t large = 8 << 20;
    const pinned_memory from(large), to(large);
    const device_memory device(large);
    ferry_copy_desc copies[2] = {};
    copies[0].destination = copies[1].source = place({CUdeviceptr{device}, FERRY_KIND_DEVICE}, true, 0);
    copies[0].source = place({reinterpret_cast<std::uintptr_t>(from.data()), FERRY_KIND_PINNED}, true, 0);
    copies[1].destination = place({reinterpret_cast<std::uintptr_t>(to.data()), FERRY_KIND_PINNED}, true, 0);
    copies[0].width = copies[1].width = large;
    for (int round = 1; round < 20; ++round) {
        std::memset(from.data(), round, large);
        ASSERT_OK(ferry_copy(basic.get(), &copies[0], nullptr, nullptr));
        std::memset(from.data(), 99, large);
        ASSERT_OK(ferry_copy(basic.get(), &copies[1], nullptr, nullptr));
        std::memset(from.data(), round, large);
        ASSERT_EQ(std::memcmp(from.data(), to.data(), large), 0) << round;
    }
}

} // namespace
} // namespace ferry::test
