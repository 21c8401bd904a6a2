// Batches whose copies share their source and have destinations on several devices. On the software driver, the tests
// run with four devices: with links between all devices, between pairs, without links, and with links that lose bytes.
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "driver/result.h"
#include "ferry/ferry_file.h"
#include "support/counted_test.h"
#include "support/dying_context.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/program_threads.h"
#include "support/raw_objects.h"
#include "support/station.h"
#include "support/system.h"
#include "support/temporary_file.h"
#include "support/waiting_free.h"

#if defined(__linux__)
#include <unistd.h>
#endif

namespace ferry::test {
namespace {

constexpr std::uint64_t megabyte = 1 << 20;

std::uint64_t at(const pinned_memory &memory) { return reinterpret_cast<std::uintptr_t>(memory.address); }
std::uint64_t at(const bytes &memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }

// Pinned memory that holds `sent`.
struct pinned_bytes : pinned_memory {
    pinned_bytes(std::uint64_t size, std::uint64_t seed) : pinned_memory(size), sent(random_bytes(size, seed)) {
        std::memcpy(address, sent.data(), size);
    }
    const bytes sent;
};

class broadcasts : public counted_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        counted_test::SetUp();
        contexts.resize(static_cast<std::size_t>(device_count()));
        for (int device = 0; device < device_count(); ++device)
            ASSERT_OK(ferry_context_retain_primary(counted.get(), device, &contexts[static_cast<std::size_t>(device)],
                                                   nullptr));
    }
    void TearDown() override {
        if (!counted) return;
        for_each_pair(
            [&](int device, int peer) { EXPECT_OK(ferry_peer_disable(counted.get(), device, peer, nullptr)); });
        counted_test::TearDown();
    }
    template <class Use> void for_each_pair(const Use &use) const {
        for (int device = 0; device < device_count(); ++device)
            for (int peer = 0; peer < device_count(); ++peer)
                if (device != peer) use(device, peer);
    }
    // Enables access between all pairs that offer it and lose no bytes.
    void enable_all() {
        for_each_pair([&](int device, int peer) { ferry_peer_enable(counted.get(), device, peer, nullptr); });
    }

    // Memory of `size` bytes on each device.
    std::deque<station> &on_all_devices(std::uint64_t size) {
        stations.clear();
        for (const CUcontext context : contexts)
            stations.emplace_back(context, size).write(bytes(size, std::byte{0x11}));
        return stations;
    }
    // One piece to each device from number `first` on.
    piece_batch pieces_to_all(std::uint64_t from, std::uint64_t size, std::size_t first = 0) const {
        piece_batch pieces;
        for (std::size_t i = first; i < stations.size(); ++i)
            pieces.add(stations[i].address(), from, size);
        return pieces;
    }
    std::int32_t broadcast(std::uint64_t from, std::uint64_t size, CUstream on, std::size_t first = 0) {
        return pieces_to_all(from, size, first).copy_async(counted.get(), on);
    }
    void expect_on_all(const bytes &sent, std::size_t first = 0) {
        for (std::size_t i = first; i < stations.size(); ++i)
            EXPECT_TRUE(stations[i].read() == sent) << "device " << i;
    }

    std::vector<CUcontext> contexts;
    std::deque<station> stations;
};

TEST_F(broadcasts, every_device_gets_the_bytes_with_and_without_access) {
    for (const bool with_access : {false, true}) {
        if (with_access) enable_all();
        for (const std::uint64_t size : {4 * megabyte, 11 * megabyte + 777}) {
            SCOPED_TRACE(testing::Message() << size << (with_access ? " with access" : " without"));
            const pinned_bytes pinned(size, size + with_access);
            const bytes &sent = pinned.sent;
            on_all_devices(size);
            ASSERT_OK(broadcast(at(pinned), size, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_on_all(sent);

            on_all_devices(size);
            ASSERT_OK(broadcast(at(sent), size, stream)); // pageable
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_on_all(sent);

            for (const std::size_t caller : {std::size_t{0}, stations.size() - 1}) {
                on_all_devices(size)[0].write(sent);
                ASSERT_OK(broadcast(stations[0].address(), size, stations[caller].stream(), 1));
                stations[caller].wait();
                expect_on_all(sent, 1);
            }
        }
    }
}

TEST_F(broadcasts, large_pageable_memory_arrives) {
    const std::uint64_t size = static_cast<std::uint64_t>(device_count()) * 33 * megabyte + 123;
    const bytes sent = random_bytes(size, 29);
    on_all_devices(size);
    enable_all();
    ASSERT_OK(broadcast(at(sent), size, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_on_all(sent);
}

// Kernels that occupy all SMs and wait for the bytes therefore cannot delay the copies.
TEST_F(broadcasts, pinned_memory_and_memory_of_a_device_arrive_without_any_kernel) {
    const std::uint64_t size = 12 * megabyte;
    const pinned_bytes pinned(size, 37);
    const bytes &sent = pinned.sent;
    enable_all();
    for (const bool is_from_device : {false, true}) {
        on_all_devices(size);
        if (is_from_device) stations[0].write(sent);
        driver.reset_counts();
        ASSERT_OK(is_from_device ? broadcast(stations[0].address(), size, stream, 1)
                                 : broadcast(at(pinned), size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
        expect_on_all(sent);
    }
}

TEST_F(broadcasts, synchronous_batches_are_complete_on_return) {
    enable_all();
    const std::uint64_t size = 9 * megabyte;
    const pinned_bytes pinned(size, 3);
    const bytes &sent = pinned.sent;
    on_all_devices(size);
    std::vector<ferry_copy_desc> copies;
    for (const station &one : stations) {
        ferry_copy_desc copy = {};
        copy.source.address = at(pinned);
        copy.destination.address = one.address();
        copy.width = size;
        copies.push_back(copy);
    }
    ASSERT_OK(ferry_copy_batch(counted.get(), copies.data(), copies.size(), nullptr, nullptr));
    expect_on_all(sent);
}

TEST_F(broadcasts, are_ordered_with_other_work_on_the_stream) {
    enable_all();
    const std::uint64_t size = 6 * megabyte;
    on_all_devices(size);
    const station source(context, size);
    for (unsigned char value = 1; value <= 6; ++value) {
        source.fill(value, stream);
        ASSERT_OK(broadcast(source.address(), size, stream, 1));
        source.fill(0xee, stream); // must not affect the copies before it
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        expect_on_all(bytes(size, std::byte{value}), 1);
    }
}

// Without work on the stream before them, the lanes do not wait for the stream.
TEST_F(broadcasts, of_pinned_memory_follow_the_earlier_work_of_the_stream) {
    enable_all();
    for (const std::uint64_t size : {megabyte, 3 * contexts.size() * megabyte}) {
        const pinned_bytes pinned(size, size);
        const bytes sent = random_bytes(size, size + 1);
        const station source(context, size), later(context, size);
        source.write(sent);
        on_all_devices(size);
        gate held(stream);
        ASSERT_OK(raw().cuMemcpyDtoHAsync(pinned.address, source.address(), size, stream));
        ASSERT_OK(broadcast(at(pinned), size, stream));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(pinned.address, later.address(), size, stream));
        held.open();
        expect_on_all(sent);
    }
}

TEST_F(broadcasts, other_copies_of_the_batch_are_made_in_any_order) {
    enable_all();
    const std::uint64_t size = 5 * megabyte;
    const bytes first = random_bytes(size, 1), second = random_bytes(size, 2), small = random_bytes(4096, 3);
    on_all_devices(2 * size + 4096 + 64);
    piece_batch pieces;
    for (const station &one : stations) {
        pieces.add(one.address(), at(first), size);
        pieces.add(one.address() + size, at(second), size);
        pieces.add(one.address() + 2 * size + 64, at(small), 4096);
    }
    bytes back(100);
    pieces.add(at(back), at(first) + 1000, back.size());
    ASSERT_OK(pieces.copy_async(counted.get(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (const station &one : stations) {
        const bytes found = one.read();
        EXPECT_EQ(std::memcmp(found.data(), first.data(), size), 0);
        EXPECT_EQ(std::memcmp(found.data() + size, second.data(), size), 0);
        EXPECT_EQ(std::memcmp(found.data() + 2 * size + 64, small.data(), 4096), 0);
        for (std::size_t i = 2 * size; i < 2 * size + 64; ++i)
            ASSERT_EQ(found[i], std::byte{0x11});
    }
    EXPECT_EQ(std::memcmp(back.data(), first.data() + 1000, back.size()), 0);
}

TEST_F(broadcasts, a_device_that_occurs_twice_among_the_destinations_receives_both_copies) {
    enable_all();
    const std::uint64_t size = 4 * megabyte;
    const bytes sent = random_bytes(size, 8);
    on_all_devices(size);
    const station again(context, size);
    piece_batch pieces = {{again.address()}, {at(sent)}, {size}};
    for (const station &one : stations)
        pieces.add(one.address(), at(sent), size);
    ASSERT_OK(pieces.copy_async(counted.get(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_on_all(sent);
    EXPECT_TRUE(again.read() == sent);
}

TEST_F(broadcasts, a_refused_batch_names_the_copy_and_enqueues_nothing) {
    enable_all();
    const std::uint64_t size = 4 * megabyte;
    const bytes sent = random_bytes(size, 8);
    const struct {
        const char *what;
        std::int32_t status;
        std::uint64_t room; // on each device
        void (*spoil)(piece_batch &);
    } cases[] = {
        {"past the end of its memory, and of another size than the others", FERRY_ERROR_OUT_OF_BOUNDS, size,
         [](piece_batch &pieces) { ++pieces.sizes.back(); }},
        {"overlaps another destination", FERRY_ERROR_OVERLAP, 2 * size,
         [](piece_batch &pieces) { pieces.add(pieces.to[1] + pieces.sizes[1] - 1, pieces.from[1], pieces.sizes[1]); }},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(one.what);
        on_all_devices(one.room);
        piece_batch pieces = pieces_to_all(at(sent), size);
        one.spoil(pieces);
        ferry_error_info error = new_error();
        EXPECT_EQ(pieces.copy_async(counted.get(), stream, check_overlap, &error), one.status);
        EXPECT_EQ(error.index, pieces.to.size() - 1);
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        expect_on_all(bytes(one.room, std::byte{0x11}));
    }
}

TEST_F(broadcasts, frees_in_other_threads_do_not_block_copies) {
    enable_all();
    const std::uint64_t size = 12 * megabyte;
    const pinned_bytes pinned(size, 19);
    const bytes &sent = pinned.sent;
    for (int device = 0; device < device_count(); ++device) // loads kernels, which waits for the work that runs
        ferry_staging_prepare(counted.get(), device, nullptr);
    for (const CUcontext of_free : {contexts.front(), contexts.back()})
        for (const std::uint64_t source : {at(pinned), at(sent)}) {
            on_all_devices(size);
            std::optional<waiting_free> free;
            {
                gate shut(stream);
                ASSERT_OK(broadcast(source, size, stream));
                const made_current in(of_free);
                free.emplace();
                std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the free is most likely in the driver
            }
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            free.reset();
            expect_on_all(sent);
        }
}

TEST_F(broadcasts, create_nothing_once_warm_and_do_not_wait_or_change_the_context) {
    enable_all();
    const std::uint64_t size = 12 * megabyte;
    const pinned_bytes pinned(size, 20);
    const bytes &sent = pinned.sent;
    on_all_devices(size);
    CUcontext before = nullptr;
    ASSERT_OK(raw().cuCtxGetCurrent(&before));
    for (const std::uint64_t source : {at(pinned), at(sent)})
        for (int round = 0; round < 3; ++round) {
            driver.reset_counts();
            ASSERT_OK(broadcast(source, size, stream));
            CUcontext after = nullptr;
            ASSERT_OK(raw().cuCtxGetCurrent(&after));
            EXPECT_EQ(after, before);
            if (round > 0 && source == at(pinned)) { // the route of pageable memory depends on how busy the machine is
                for (const char *const call : {"cuEventCreate", "cuStreamCreateWithPriority", "cuStreamSynchronize",
                                               "cuEventSynchronize", "cuCtxSynchronize", "cuLaunchHostFunc"})
                    EXPECT_EQ(driver.calls(call), 0) << call;
            }
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            expect_on_all(sent);
        }
}

struct counted_memory {
    std::atomic<long> calls = 0;
    static void *allocate(void *self, std::uint64_t size, std::uint64_t alignment) {
        ++static_cast<counted_memory *>(self)->calls;
        return allocate_aligned(size, alignment);
    }
    static void deallocate(void *, void *memory, std::uint64_t) { free_aligned(memory); }
};

TEST_F(broadcasts, batches_of_large_copies_allocate_nothing_once_warm) {
    counted_memory memory;
    ferry_options options = driver.options();
    options.allocate = counted_memory::allocate;
    options.deallocate = counted_memory::deallocate;
    options.allocate_user = &memory;
    const instance_owner instance = open_or_fail(options);
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(2 * size);
    on_all_devices(size);
    const std::uint64_t to[] = {stations[0].address(), stations[1].address()}, sizes[] = {size, size};
    for (const std::uint64_t apart : {size, std::uint64_t{0}}) { // without and with a broadcast
        const std::uint64_t from[] = {at(pinned), at(pinned) + apart};
        long warm = 0;
        for (int round = 0; round < 4; ++round) {
            ASSERT_OK(ferry_copy_pieces_async(instance.get(), in_arrays(to, from, sizes, 2), nullptr, stream, nullptr,
                                              nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            ASSERT_OK(ferry_copy_pieces(instance.get(), in_arrays(to, from, sizes, 2), nullptr, nullptr));
            if (round == 1) warm = memory.calls;
        }
        EXPECT_EQ(memory.calls, warm) << apart;
    }
}

TEST_F(broadcasts, a_program_thread_that_waits_for_its_batch_needs_no_other_thread) {
    if (!has_kernels()) GTEST_SKIP() << "without kernels";
    program_threads own;
    ferry_options options = driver.options();
    options.submit = program_threads::submit;
    options.submit_user = &own;
    const instance_owner instance = open_or_fail(options);
    for_each_pair([&](int device, int peer) { ferry_peer_enable(instance.get(), device, peer, nullptr); });
    const std::uint64_t size = 32 * megabyte; // large enough to be staged
    const bytes sent = random_bytes(size, 23);
    bytes begun = sent;
    ASSERT_OK(ferry_host_register(instance.get(), begun.data(), megabyte, 0, nullptr));
    const pinned_memory pinned(size);
    for (const bool is_held : {false, true}) {
        own.hold(is_held);
        on_all_devices(size);
        const piece_batch pieces = pieces_to_all(at(sent), size);
        ASSERT_OK(pieces.copy(instance.get()));
        expect_on_all(sent);
        // One pageable piece beside another kind
        on_all_devices(size);
        const std::uint64_t parts = size / 2;
        const std::uint64_t ends[] = {pieces.to[0], pieces.to[0] + parts}, starts[] = {at(sent), at(pinned)},
                            each[] = {parts, parts};
        std::memcpy(pinned.address, sent.data() + parts, parts);
        ASSERT_OK(ferry_copy_pieces(instance.get(), in_arrays(ends, starts, each, 2), nullptr, nullptr));
        EXPECT_TRUE(stations[0].read() == sent);
        // With options
        stations[0].write(bytes(size));
        ferry_copy_desc described[2] = {};
        for (std::size_t i = 0; i < 2; ++i) {
            described[i].source.address = starts[i];
            described[i].destination.address = ends[i];
            described[i].width = parts;
        }
        ASSERT_OK(ferry_copy_batch(instance.get(), described, 2, max_sms(4), nullptr));
        EXPECT_TRUE(stations[0].read() == sent);
        // A copy that begins in registered memory and continues in pageable memory
        stations[0].write(bytes(size));
        described[0].source.address = at(begun);
        ASSERT_OK(ferry_copy_batch(instance.get(), described, 2, max_sms(4), nullptr));
        EXPECT_TRUE(stations[0].read() == sent);
        // Boxes, which have a call each: every second row of either memory
        stations[0].write(bytes(size));
        std::memcpy(pinned.address, sent.data(), size);
        constexpr std::uint64_t row = 8192;
        for (std::size_t i = 0; i < 2; ++i) {
            described[i].source.address = (i == 0 ? at(sent) : at(pinned)) + i * row;
            described[i].destination.address = ends[0] + i * row;
            described[i].source.row_pitch = described[i].destination.row_pitch = 2 * row;
            described[i].width = row;
            described[i].height = size / (2 * row);
        }
        ASSERT_OK(ferry_copy_batch(instance.get(), described, 2, max_sms(4), nullptr));
        EXPECT_TRUE(stations[0].read() == sent);
    }
    own.hold(false);
    EXPECT_OK(ferry_host_unregister(instance.get(), begun.data(), nullptr));
    for_each_pair([&](int device, int peer) { EXPECT_OK(ferry_peer_disable(instance.get(), device, peer, nullptr)); });
}

TEST_F(broadcasts, blocked_streams_that_use_all_lanes_are_served_one_by_one) {
    enable_all();
    const std::uint64_t size = 4 * megabyte;
    const pinned_bytes pinned(size, 12);
    const bytes &sent = pinned.sent;
    std::deque<test_stream> held(9);
    std::deque<std::deque<station>> all;
    {
        gate shut(held[0]);
        for (std::size_t i = 1; i < held.size(); ++i)
            shut.hold(held[i]);
        for (test_stream &one : held) {
            std::deque<station> &on = all.emplace_back();
            piece_batch pieces;
            for (const CUcontext each : contexts)
                pieces.add(on.emplace_back(each, size).address(), at(pinned), size);
            ASSERT_OK(pieces.copy_async(counted.get(), one));
        }
    }
    for (std::size_t i = 0; i < held.size(); ++i) {
        ASSERT_OK(raw().cuStreamSynchronize(held[i]));
        for (const station &one : all[i])
            EXPECT_TRUE(one.read() == sent) << i;
    }
}

TEST_F(broadcasts, a_captured_batch_becomes_part_of_the_graph) {
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(size);
    std::memset(pinned.address, 0x22, size);
    on_all_devices(size);
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(broadcast(at(pinned), size, stream));
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    CUgraphExec ready = nullptr;
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&ready, graph, 0));
    std::memset(pinned.address, 0x33, size);
    ASSERT_OK(raw().cuGraphLaunch(ready, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_on_all(bytes(size, std::byte{0x33}));
    ASSERT_OK(raw().cuGraphExecDestroy(ready));
    ASSERT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(broadcasts, are_counted_by_the_explanation) {
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(size + 64);
    on_all_devices(size + 64);
    std::vector<ferry_copy_desc> copies;
    for (const station &one : stations) {
        ferry_copy_desc copy = {};
        copy.source.address = at(pinned);
        copy.destination.address = one.address();
        copy.width = size;
        copies.push_back(copy);
    }
    copies.push_back(copies[0]);
    copies.back().source.address += size;
    copies.back().destination.address += size;
    copies.back().width = 64;
    ferry_batch_explanation told = {};
    told.struct_size = sizeof told;
    ASSERT_OK(
        ferry_copy_batch_explain_async(counted.get(), copies.data(), copies.size(), nullptr, stream, &told, nullptr));
    EXPECT_EQ(told.broadcasts.copies, stations.size());
    EXPECT_EQ(told.broadcasts.bytes, size);
    EXPECT_EQ(told.singles.copies + told.batch_calls.copies + told.kernels.copies, 1u);
    char text[512] = "";
    ferry_batch_explanation_format(&told, text, sizeof text);
    EXPECT_NE(std::string(text).find(std::to_string(stations.size()) + " copies by broadcasts, 4.2 MB"),
              std::string::npos)
        << text;
}

// With access, the bytes cross the host's links once.
TEST_F(broadcasts, devices_with_access_forward_the_bytes) {
    ferry_peer_info pair = {};
    pair.struct_size = sizeof pair;
    ASSERT_OK(ferry_peer_get_info(counted.get(), 0, 1, &pair, nullptr));
    if (ferry_peer_enable(counted.get(), 0, 1, nullptr) || ferry_peer_enable(counted.get(), 1, 0, nullptr))
        GTEST_SKIP() << "no peer access";
    const std::uint64_t size = 16 * megabyte; // several rounds
    const pinned_memory pinned(size);
    const station near(contexts[0], size), far(contexts[1], size);
    driver.reset_counts();
    const piece_batch pieces = {{near.address(), far.address()}, {at(pinned), at(pinned)}, {size, size}};
    ASSERT_OK(pieces.copy_async(counted.get(), stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(driver.calls("cuMemcpy3DPeerAsync"), driver.calls("cuMemcpy3DAsync"))
        << "a chunk comes from the host and goes to the other device";
    EXPECT_GT(driver.calls("cuMemcpy3DPeerAsync"), 2);
}

// Exchanging a small copy would take longer than each device's own link.
TEST_F(broadcasts, each_device_gets_a_small_copy_over_its_own_link) {
    enable_all();
    const auto devices = static_cast<int>(contexts.size());
    for (const std::uint64_t size : {megabyte, 2 * contexts.size() * megabyte - 16}) {
        const pinned_bytes pinned(size, size);
        on_all_devices(size);
        driver.reset_counts();
        ASSERT_OK(broadcast(at(pinned), size, stream));
        EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), devices);
        EXPECT_EQ(driver.calls("cuMemcpy3DPeerAsync"), 0);
        EXPECT_EQ(driver.calls("cuStreamWaitEvent"), devices - 1) << "after the copies of the other devices";
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        expect_on_all(pinned.sent);
    }
}

// The driver would copy chunks of such a source as pinned memory. It reads the pageable part in the call, before
// earlier work on the stream has written it.
TEST_F(broadcasts, a_source_that_is_registered_in_part_is_not_broadcast) {
    const std::uint64_t size = 8 * megabyte;
    const mapped_memory source(size);
    const bytes sent = random_bytes(size, 17);
    std::memcpy(source.data(), sent.data(), size);
    ASSERT_OK(ferry_host_register(counted.get(), source.data(), size / 2, 0, nullptr));
    on_all_devices(size);
    const std::uint64_t to[] = {stations[0].address(), stations[1].address()},
                        from[] = {source.address(), source.address()}, sizes[] = {size, size};
    ferry_batch_explanation told = {};
    told.struct_size = sizeof told;
    ASSERT_OK(
        ferry_copy_pieces_explain_async(counted.get(), in_arrays(to, from, sizes, 2), nullptr, stream, &told, nullptr));
    EXPECT_EQ(told.broadcasts.copies, 0u);
    ASSERT_OK(broadcast(source.address(), size, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    expect_on_all(sent);
    ASSERT_OK(ferry_host_unregister(counted.get(), source.data(), nullptr));
}

TEST_F(broadcasts, a_capture_of_the_per_thread_stream_continues) {
    enable_all();
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(size);
    on_all_devices(size);
    ASSERT_OK(raw().cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(broadcast(at(pinned), size, stream));
    CUgraph graph = nullptr;
    EXPECT_OK(raw().cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    if (graph) {
        ASSERT_OK(raw().cuGraphDestroy(graph));
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(broadcasts, urgent_batches_are_not_broadcast) {
    if (!has_kernels()) GTEST_SKIP() << "without kernels";
    ferry_options options = driver.options();
    options.copy_options = urgent;
    const instance_owner instance = open_or_fail(options);
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(size);
    on_all_devices(size);
    const std::uint64_t to[] = {stations[0].address(), stations[1].address()}, from[] = {at(pinned), at(pinned)},
                        sizes[] = {size, size};
    ferry_batch_explanation told = {};
    told.struct_size = sizeof told;
    ASSERT_OK(ferry_copy_pieces_explain_async(instance.get(), in_arrays(to, from, sizes, 2), nullptr, stream, &told,
                                              nullptr));
    EXPECT_EQ(told.broadcasts.copies, 0u);
    EXPECT_GT(told.kernels.copies, 0u);
}

TEST_F(broadcasts, an_error_of_the_driver_names_a_copy_of_the_broadcast) {
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(size);
    on_all_devices(size + 64);
    const std::uint64_t to[] = {stations[0].address() + size, stations[0].address(), stations[1].address()},
                        from[] = {at(pinned), at(pinned), at(pinned)}, sizes[] = {64, size, size};
    ASSERT_OK(ferry_copy_pieces_async(counted.get(), in_arrays(to, from, sizes, 3), nullptr, stream, nullptr,
                                      nullptr)); // makes the lanes
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    driver.fail("cuMemcpy3DAsync", CUDA_ERROR_NOT_SUPPORTED, 2, true); // not the other copy, which comes first
    ferry_error_info error = new_error();
    EXPECT_NE(ferry_copy_pieces_async(counted.get(), in_arrays(to, from, sizes, 3), nullptr, stream, nullptr, &error),
              FERRY_SUCCESS);
    EXPECT_GE(error.index, 1u);
    driver.heal();
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

// Without memory for lanes, the stream makes the copies one by one, in the order of the devices.
TEST_F(broadcasts, an_error_of_the_driver_names_the_copy_of_a_broadcast_without_lanes) {
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory pinned(size);
    on_all_devices(size + 64);
    const std::uint64_t to[] = {stations[0].address() + size, stations[1].address(), stations[0].address()},
                        from[] = {at(pinned), at(pinned), at(pinned)}, sizes[] = {64, size, size};
    const auto run = [&](ferry_error_info &error) {
        driver.fail("cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY, 1, true);
        return ferry_copy_pieces_async(counted.get(), in_arrays(to, from, sizes, 3), nullptr, stream, nullptr, &error);
    };
    const struct {
        const char *entry;
        int nth; // the first copy is in no broadcast
        std::uint64_t index;
    } failures[] = {{"cuMemcpy3DAsync", 2, 2}, {"cuMemcpy3DPeerAsync", 1, 1}};
    for (const auto &[entry, nth, index] : failures) {
        ferry_error_info error = new_error();
        driver.fail(entry, CUDA_ERROR_NOT_SUPPORTED, nth, true);
        EXPECT_EQ(to_status(CUDA_ERROR_NOT_SUPPORTED), run(error)) << describe(error);
        EXPECT_EQ(error.item, FERRY_ITEM_PIECE) << describe(error);
        EXPECT_EQ(error.index, index) << describe(error);
        driver.heal();
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
}

// ---- Contexts that die

// Has an instance of its own. Its contexts of the first two devices end with the test. The second context dies during a
// broadcast.
// ---- Files

class broadcasts_of_files : public broadcasts {
protected:
    void SetUp() override {
        broadcasts::SetUp();
        if (IsSkipped()) return;
        ASSERT_OK(ferry_file_open(counted.get(), on_disk.path().c_str(), nullptr, &file, nullptr));
    }
    void TearDown() override {
        ferry_file_close(file);
        broadcasts::TearDown();
    }
    ferry_copy_desc read_to(std::size_t device, std::uint64_t offset, std::uint64_t size) const {
        ferry_copy_desc copy = {};
        ferry_place_file(&copy.source, file, offset);
        ferry_place_device(&copy.destination, static_cast<std::int32_t>(device), stations[device].address());
        copy.width = size;
        return copy;
    }
    void run(const std::vector<ferry_copy_desc> &copies, bool waits, const how &options = {}) {
        ferry_error_info error = new_error();
        if (waits) {
            ASSERT_OK(ferry_copy_batch(counted.get(), copies.data(), copies.size(), options, &error))
                << describe(error);
            return;
        }
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_batch_async(counted.get(), copies.data(), copies.size(), options, stream, &ticket, &error))
            << describe(error);
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error)) << describe(error);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }

    const bytes sent = random_bytes(9 * megabyte + 12'345, 71);
    const temporary_file on_disk{sent};
    ferry_file *file = nullptr;
};

TEST_F(broadcasts_of_files, one_range_arrives_on_all_devices) {
    for (const bool with_access : {false, true}) {
        if (with_access) enable_all();
        for (const bool waits : {false, true})
            for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{70'001}, std::uint64_t{sent.size()} - 7}) {
                SCOPED_TRACE(testing::Message() << size << (with_access ? " with access" : " without") << waits);
                on_all_devices(size);
                std::vector<ferry_copy_desc> copies;
                for (std::size_t device = 0; device < stations.size(); ++device)
                    copies.push_back(read_to(device, 7, size));
                run(copies, waits);
                expect_on_all(bytes(sent.begin() + 7, sent.begin() + static_cast<std::ptrdiff_t>(7 + size)));
            }
    }
}

// A set of copies that forward their bytes has one destination for each device.
TEST_F(broadcasts_of_files, one_range_arrives_at_several_places_of_each_device) {
    constexpr std::uint64_t size = 70'001, places = 3;
    for (const bool with_access : {false, true}) {
        if (with_access) enable_all();
        for (const bool waits : {false, true})
            for (const how &options : {how(), urgent, read_in_the_call}) {
                SCOPED_TRACE(testing::Message() << options << (with_access ? " with access" : " without") << waits);
                on_all_devices(places * size);
                std::vector<ferry_copy_desc> copies;
                for (std::uint64_t place = 0; place < places; ++place)
                    for (std::size_t device = 0; device < stations.size(); ++device)
                        if (place < 2 || device != 1) { // the devices have different numbers of destinations
                            copies.push_back(read_to(device, 7, size));
                            copies.back().destination.address += place * size;
                        }
                run(copies, waits, options);
                for (std::size_t device = 0; device < stations.size(); ++device) {
                    const bytes found = stations[device].read();
                    for (std::uint64_t place = 0; place < places; ++place) {
                        const auto begin = found.begin() + static_cast<std::ptrdiff_t>(place * size);
                        const bool has_bytes = std::equal(begin, begin + size, sent.begin() + 7);
                        EXPECT_EQ(has_bytes, place < 2 || device != 1) << device << " " << place;
                    }
                }
            }
    }
}

TEST_F(broadcasts_of_files, each_device_gets_its_own_ranges_beside_other_copies) {
    const std::uint64_t size = 2 * megabyte;
    const pinned_bytes pinned(size, 72);
    std::deque<station> &all = on_all_devices(2 * size);
    std::vector<ferry_copy_desc> copies;
    for (std::size_t device = 0; device < all.size(); ++device) {
        copies.push_back(read_to(device, device * 100'003, size));
        ferry_copy_desc beside = read_to(device, 0, size);
        ferry_place_any(&beside.source, at(pinned));
        beside.destination.address += size;
        copies.push_back(beside);
    }
    run(copies, false);
    for (std::size_t device = 0; device < all.size(); ++device) {
        const bytes found = all[device].read();
        const auto own = sent.begin() + static_cast<std::ptrdiff_t>(device * 100'003);
        const auto half = static_cast<std::ptrdiff_t>(size);
        EXPECT_TRUE(std::equal(found.begin(), found.begin() + half, own)) << device;
        EXPECT_TRUE(std::equal(found.begin() + half, found.end(), pinned.sent.begin())) << device;
    }
}

TEST_F(broadcasts_of_files, a_file_that_becomes_shorter_fails_the_ticket) {
    on_all_devices(sent.size());
    std::vector<ferry_copy_desc> copies;
    for (std::size_t device = 0; device < stations.size(); ++device)
        copies.push_back(read_to(device, 0, sent.size()));
    run(copies, true); // creates what would wait for the gate
    ferry_ticket *ticket = nullptr;
    {
        gate before(stream);
        ASSERT_OK(
            ferry_copy_batch_async(counted.get(), copies.data(), copies.size(), nullptr, stream, &ticket, nullptr));
        on_disk.resize(megabyte);
        before.open();
    }
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error)) << describe(error);
    EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(broadcasts_of_files, a_range_for_another_device_is_refused_while_blocked_streams_use_all_lanes) {
    const std::uint64_t size = 4 * megabyte;
    std::deque<test_stream> held(9);
    on_all_devices(size * held.size());
    // The streams have no order among themselves, so each writes other bytes.
    const auto copies_of = [&](std::size_t of_stream) {
        std::vector<ferry_copy_desc> copies = {read_to(0, megabyte, 100), read_to(1, 0, size)};
        for (ferry_copy_desc &copy : copies)
            copy.destination.address += of_stream * size;
        return copies;
    };
    run(copies_of(0), true); // creates what would wait for the gate
    std::vector<ferry_ticket *> tickets;
    {
        gate shut(held[0]);
        for (std::size_t i = 1; i < held.size(); ++i)
            shut.hold(held[i]);
        for (std::size_t i = 0; i < held.size(); ++i) {
            const std::vector<ferry_copy_desc> copies = copies_of(i);
            ferry_error_info error = new_error();
            ferry_ticket *ticket = nullptr;
            const std::int32_t status =
                ferry_copy_batch_async(counted.get(), copies.data(), copies.size(), nullptr, held[i], &ticket, &error);
            if (ticket) tickets.push_back(ticket);
            if (status == FERRY_SUCCESS) continue;
            EXPECT_EQ(status, FERRY_ERROR_LIMIT) << describe(error);
            EXPECT_EQ(error.item, FERRY_ITEM_COPY) << describe(error);
            EXPECT_EQ(error.index, 1u) << describe(error);
        }
        EXPECT_GE(tickets.size(), 1u);
        EXPECT_LT(tickets.size(), held.size());
    }
    for (ferry_ticket *const ticket : tickets) {
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    for (const test_stream &one : held)
        EXPECT_OK(raw().cuStreamSynchronize(one));
    run(copies_of(0), false);
    const bytes found = stations[1].read();
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(size), sent.begin()));
}

#if defined(__linux__)
// The file has fewer bytes than the system reports, so that its copy fails too. The error has the status of the call.
TEST_F(broadcasts_of_files, an_error_of_the_call_names_its_copy_although_the_file_of_another_copy_fails) {
    const char *const short_file = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (access(short_file, R_OK) != 0) GTEST_SKIP() << "no " << short_file;
    ferry_file *other = nullptr;
    ASSERT_OK(ferry_file_open(counted.get(), short_file, nullptr, &other, nullptr));
    on_all_devices(4096);
    std::vector<ferry_copy_desc> copies = {read_to(0, 0, 4096), read_to(1, 0, 4096)};
    copies[0].source.file = other;
    driver.fail("cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY, 1, true); // of lanes
    ferry_error_info error = new_error();
    EXPECT_EQ(to_status(CUDA_ERROR_OUT_OF_MEMORY),
              ferry_copy_batch(counted.get(), copies.data(), copies.size(), nullptr, &error));
    EXPECT_EQ(error.index, 1u) << describe(error);
    driver.heal();
    error = new_error();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_batch(counted.get(), copies.data(), copies.size(), nullptr, &error));
    EXPECT_EQ(error.index, 0u) << describe(error);
    ferry_file_close(other);
}
#endif

// Boxes of a file are copied only in the batch's own context. Nothing of such a batch is copied.
TEST_F(broadcasts_of_files, a_box_for_another_device_is_refused) {
    const std::size_t last = contexts.size() - 1;
    on_all_devices(sent.size());
    std::vector<ferry_copy_desc> copies = {read_to(last, 0, sent.size()), read_to(last, 0, 100)};
    copies[1].height = 2;
    copies[1].source.row_pitch = copies[1].destination.row_pitch = 1000;
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    EXPECT_EQ(FERRY_ERROR_ROUTE,
              ferry_copy_batch_async(counted.get(), copies.data(), 2, nullptr, stream, &ticket, &error));
    EXPECT_EQ(error.value, static_cast<std::uint64_t>(FERRY_OBSTACLE_OTHER_DEVICE)) << describe(error);
    EXPECT_EQ(error.index, 1u) << describe(error);
    expect_on_all(bytes(sent.size(), std::byte{0x11}));
}

class dying_broadcasts : public broadcasts {
protected:
    void SetUp() override {
        broadcasts::SetUp();
        if (IsSkipped()) return;
        if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
        if (!has_kernels()) GTEST_SKIP() << "without kernels";
        ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
        doomed.emplace(1);
        instance = open_or_fail(dying_context::options());
        ASSERT_OK(ferry_context_adopt(instance.get(), 0, own, nullptr));
        ASSERT_OK(ferry_context_adopt(instance.get(), 1, *doomed, nullptr));
        contexts[0] = own;
        for_each_pair([&](int device, int peer) { ferry_peer_enable(instance.get(), device, peer, nullptr); });
        host.emplace(size, 17);
        for (const CUcontext one : contexts)
            pieces.add(pieces.to.size() == 1 ? doomed->allocate(size) : stations.emplace_back(one, size).address(),
                       at(*host), size);
        doomed->arm();
    }
    void TearDown() override {
        stations.clear();
        instance.reset();
        host.reset();
        doomed.reset();
        if (own) {
            EXPECT_OK(raw().cuCtxDestroy(own));
        }
        broadcasts::TearDown();
    }

    const std::uint64_t size = 24 * megabyte;
    std::optional<pinned_bytes> host;
    CUcontext own = nullptr;
    std::optional<dying_context> doomed;
    instance_owner instance;
    piece_batch pieces;
};

TEST_F(dying_broadcasts, when_a_synchronous_call_returns_the_other_devices_have_the_bytes) {
    const made_current in(own);
    ferry_error_info error = new_error();
    const std::int32_t status = pieces.copy(instance.get(), {}, &error);
    expect_on_all(host->sent);
    if (status == FERRY_SUCCESS && !doomed->is_doomed()) GTEST_SKIP() << "without access no device passes anything on";
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << describe(error);
    EXPECT_EQ(error.index, 1u);
    // Later calls leave the dead device out.
    pieces = pieces_to_all(at(*host), size);
    stations[0].write(bytes(size));
    EXPECT_OK(pieces.copy(instance.get()));
    expect_on_all(host->sent);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_ticket_create(instance.get(), nullptr, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
}

TEST_F(dying_broadcasts, devices_after_a_dead_device_in_a_chain_have_the_bytes_when_a_synchronous_call_returns) {
    if (device_count() < 4) GTEST_SKIP() << "needs four devices";
    const made_current in(own);
    stations[0].write(host->sent);
    const std::uint64_t source = pieces.to[0];
    piece_batch to_others;
    for (std::size_t i = 1; i < pieces.to.size(); ++i)
        to_others.add(pieces.to[i], source, size);
    pieces = to_others;
    ferry_error_info error = new_error();
    const std::int32_t status = pieces.copy(instance.get(), {}, &error);
    expect_on_all(host->sent);
    if (!doomed->is_doomed()) GTEST_SKIP() << "without access no device passes anything on";
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << describe(error);
    EXPECT_EQ(error.index, 0u);
}

TEST_F(dying_broadcasts, a_source_that_dies_fails_a_synchronous_call) {
    if (device_count() < 4) GTEST_SKIP() << "needs four devices";
    const made_current in(own);
    const std::uint64_t source = pieces.to[1];
    pieces = {{pieces.to[0], pieces.to[2], pieces.to[3]}, {source, source, source}, {size, size, size}};
    const std::int32_t status = pieces.copy(instance.get());
    if (!doomed->is_doomed()) GTEST_SKIP() << "without access no device passes anything on";
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << status;
}

TEST_F(dying_broadcasts, the_ticket_of_an_asynchronous_broadcast_has_the_status_although_its_stream_completes) {
    const made_current in(own);
    const test_stream on;
    ferry_ticket *ticket = nullptr;
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    {
        const gate held(on);
        ASSERT_OK(pieces.copy_async(instance.get(), on));
        if (!doomed->is_doomed()) GTEST_SKIP() << "without access no device passes anything on";
        ASSERT_OK(ferry_ticket_create(instance.get(), on, &ticket, nullptr));
        ASSERT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_FALSE(info.done);
    }
    ASSERT_OK(raw().cuStreamSynchronize(on));
    for (int i = 0; i < 2; ++i) {
        ASSERT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_TRUE(info.done);
        EXPECT_EQ(ferry_status_traits(info.status), FERRY_STATUS_CONTEXT_DEAD) << info.status;
        EXPECT_EQ(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr), info.status);
    }
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    ferry_copy_desc copy = {};
    copy.source.address = at(*host);
    copy.destination.address = stations[0].address();
    copy.width = 64;
    ASSERT_OK(ferry_copy_async(instance.get(), &copy, nullptr, on, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr)); // of this copy alone
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    for (const bool is_later : {false, true}) { // a later ticket does not report the death again
        ASSERT_OK(ferry_ticket_create(instance.get(), on, &ticket, nullptr));
        EXPECT_EQ(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr) == FERRY_SUCCESS, is_later);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    const test_stream other;
    ASSERT_OK(ferry_ticket_create(instance.get(), other, &ticket, nullptr));
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr)); // its stream took no part in the broadcast
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
}

TEST_F(dying_broadcasts, tickets_report_devices_that_forward_nothing_and_contexts_that_were_replaced) {
    if (device_count() < 4) GTEST_SKIP() << "needs four devices";
    const made_current in(own);
    const test_stream on;
    stations.back().write(host->sent);
    const std::uint64_t source = pieces.to[3];
    pieces = {{pieces.to[0], pieces.to[1]}, {source, source}, {size, size}}; // device 1 is the last of the chain
    ferry_ticket *ticket = nullptr;
    {
        const gate held(on);
        ASSERT_OK(pieces.copy_async(instance.get(), on));
        ASSERT_OK(ferry_ticket_create(instance.get(), on, &ticket, nullptr));
        if (!doomed->is_doomed()) doomed->die();
    }
    ASSERT_OK(raw().cuStreamSynchronize(on));
    ASSERT_OK(ferry_context_adopt(instance.get(), 1, nullptr, nullptr));
    const std::int32_t status = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr);
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << status;
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
}

// ---- Pageable memory, whose slots every device's kernel empties for all

enum class launch_fault : std::uint8_t { none, bad_address, late };
launch_fault fault_of_launches = launch_fault::none;
int faulty_device = 1;
std::shared_future<void> late_launches; // kernels start only then, as if other kernels occupied all SMs
std::atomic<int> launches_of_device_1 = 0;

CUresult CUDAAPI launch_with_fault(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream on, void **parameters, void **extra) {
    CUdevice device = 0;
    EXPECT_OK(raw().cuCtxGetDevice(&device));
    gpu::ring_parameters of_ring;
    void *changed[] = {&of_ring};
    if (device == faulty_device && fault_of_launches == launch_fault::bad_address) {
        of_ring = *static_cast<const gpu::ring_parameters *>(parameters[0]);
        of_ring.to[0] = std::uint64_t{1} << 60;
        parameters = changed;
    }
    if (device == faulty_device && fault_of_launches == launch_fault::late) {
        const auto wait = [](void *start) {
            std::unique_ptr<std::shared_future<void>>(static_cast<std::shared_future<void> *>(start))->wait();
        };
        EXPECT_OK(raw().cuLaunchHostFunc(on, wait, new std::shared_future<void>(late_launches)));
    }
    launches_of_device_1 += device == 1;
    return raw().cuLaunchKernel(function, x, y, z, bx, by, bz, shared, on, parameters, extra);
}

// Has an instance of its own, and pageable memory. On a blocked stream, such memory is always staged.
class staged_broadcasts : public broadcasts {
protected:
    void SetUp() override {
        broadcasts::SetUp();
        if (IsSkipped()) return;
        if (!has_kernels()) GTEST_SKIP() << "without kernels";
        for (int device = 0; device < 2; ++device) {
            ASSERT_OK(ferry_context_create(counted.get(), device, 0, &own[device], nullptr));
            contexts[static_cast<std::size_t>(device)] = own[device];
        }
        instance = open_or_fail(launches.options());
        for (int device = 0; device < 2; ++device)
            ASSERT_OK(ferry_context_adopt(instance.get(), device, own[device], nullptr));
        for_each_pair([&](int device, int peer) { ferry_peer_enable(instance.get(), device, peer, nullptr); });
        ferry_peer_info info = {};
        info.struct_size = sizeof info;
        ASSERT_OK(ferry_peer_get_info(instance.get(), 0, 1, &info, nullptr));
        if (!info.can_access) GTEST_SKIP() << "no access between the first two devices";
        for (int device = 0; device < device_count();
             ++device) { // loads kernels, which would wait for the blocked stream
            const made_current in(contexts[static_cast<std::size_t>(device)]);
            ASSERT_OK(ferry_staging_prepare(instance.get(), device, nullptr));
        }
        for (std::size_t device = 0; device < contexts.size(); ++device)
            if (device != 1) stations.emplace_back(contexts[device], size).write(bytes(size));
        const made_current in(own[1]);
        ASSERT_OK(raw().cuMemAlloc(&of_second, size + 16)); // ends with its context
        fault_of_launches = launch_fault::none;
        faulty_device = 1;
        launches_of_device_1 = 0;
    }
    void TearDown() override {
        stations.clear();
        instance.reset();
        for (const CUcontext one : own) {
            if (!one) continue;
            EXPECT_OK(raw().cuCtxDestroy(one));
        }
        broadcasts::TearDown();
    }
    // To all devices, `apart` bytes into the memory of the second one.
    piece_batch pieces(std::uint64_t apart = 0) const {
        piece_batch all;
        all.add(of_first ? of_first : stations[0].address(), at(sent), size);
        all.add(of_second + apart, at(sent), size);
        for (std::size_t i = of_first ? 0 : 1; i < stations.size(); ++i)
            all.add(stations[i].address(), at(sent), size);
        return all;
    }
    std::int32_t enqueue(CUstream on, std::uint64_t apart = 0) const {
        return pieces(apart).copy_async(instance.get(), on);
    }
    void expect_on_second(std::uint64_t apart = 0) const {
        bytes got(size);
        const made_current in(own[1]);
        ASSERT_OK(raw().cuMemcpyDtoH(got.data(), of_second + apart, size));
        EXPECT_TRUE(got == sent);
    }

    const std::uint64_t size = 24 * megabyte + 5;
    const bytes sent = random_bytes(size, 23);
    replaced_call launches{"cuLaunchKernel", reinterpret_cast<void *>(launch_with_fault)};
    CUcontext own[2] = {};
    CUdeviceptr of_first = 0, of_second = 0; // of_first: replaces the first station
    instance_owner instance;
};

TEST_F(staged_broadcasts, every_device_gets_the_bytes_whatever_the_alignment) {
    const made_current in(own[0]);
    for (const std::uint64_t apart : {0, 3, 16}) {
        const test_stream on;
        {
            const gate held(on);
            ASSERT_OK(enqueue(on, apart));
        }
        ASSERT_OK(raw().cuStreamSynchronize(on));
        expect_on_all(sent);
        expect_on_second(apart);
        EXPECT_GT(launches_of_device_1, 0);
    }
}

// A kernel of the program may occupy all SMs of a device and wait for the bytes.
TEST_F(staged_broadcasts, on_an_idle_stream_full_devices_delay_nothing) {
    const made_current in(own[0]);
    for (const int full : {1, 0}) { // in this order: ferry remembers that the first device was late
        SCOPED_TRACE(full);
        std::promise<void> may_start;
        late_launches = may_start.get_future().share();
        fault_of_launches = launch_fault::late;
        faulty_device = full;
        const test_stream on(full == 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        // The second of two broadcasts is enqueued on a stream that is busy with the first. A full first device blocks
        // the second broadcast.
        piece_batch all = pieces();
        if (full == 1)
            for (const std::uint64_t to : pieces().to)
                all.add(to + size / 2, at(sent) + size / 2, size - size / 2);
        if (full == 1) std::fill_n(all.sizes.begin(), all.sizes.size() / 2, size / 2);
        ASSERT_OK(all.copy_async(instance.get(), on));
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (raw().cuStreamQuery(on) == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
        // If threads are late on a busy machine, the driver makes the first broadcast, and the second waits.
        ferry_copy_desc copy = {};
        copy.source.address = at(sent);
        copy.destination.address = stations[0].address();
        copy.width = size;
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        ASSERT_OK(ferry_copy_explain_async(instance.get(), &copy, nullptr, on, &told, nullptr));
        EXPECT_TRUE(raw().cuStreamQuery(on) == CUDA_SUCCESS || told.staging_delay_ns != 0);
        may_start.set_value();
        EXPECT_OK(raw().cuStreamSynchronize(on));
        expect_on_all(sent);
        expect_on_second();
    }
}

TEST_F(staged_broadcasts, a_context_that_dies_leaves_the_contexts_of_other_devices_intact) {
    if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
    const made_current in(own[0]);
    fault_of_launches = launch_fault::bad_address;
    ferry_ticket *ticket = nullptr;
    const test_stream on;
    {
        const gate held(on);
        ASSERT_OK(enqueue(on));
        ASSERT_OK(ferry_ticket_create(instance.get(), on, &ticket, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(on)) << "its stream passes";
    EXPECT_EQ(ferry_status_traits(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr)), FERRY_STATUS_CONTEXT_DEAD);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_EQ(launches_of_device_1, 1);
    EXPECT_OK(raw().cuCtxSynchronize());
    ASSERT_NE(enqueue(on), FERRY_SUCCESS) << "the dead device has a status";
    ASSERT_OK(raw().cuStreamSynchronize(on));
    expect_on_all(sent);
}

TEST_F(staged_broadcasts, if_the_context_of_the_stream_dies_the_stream_reports_it_and_other_contexts_survive) {
    if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
    stations.pop_front();
    {
        const made_current in(own[0]);
        ASSERT_OK(raw().cuMemAlloc(&of_first, size)); // ends with its context
    }
    for (const int of_stream : {1, 0}) {
        SCOPED_TRACE(of_stream);
        fault_of_launches = of_stream == 1 ? launch_fault::none : launch_fault::bad_address;
        faulty_device = of_stream;
        const made_current in(own[of_stream]);
        CUstream on = nullptr; // ends with its context
        ASSERT_OK(raw().cuStreamCreate(&on, CU_STREAM_NON_BLOCKING));
        {
            const gate held(on);
            ASSERT_OK(enqueue(on));
        }
        EXPECT_EQ(raw().cuStreamSynchronize(on) == CUDA_SUCCESS, of_stream == 1);
    }
    const made_current in(own[1]);
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_OK(ferry_context_synchronize(instance.get(), 1, nullptr, nullptr));
}

TEST_F(staged_broadcasts, when_a_synchronous_call_returns_the_other_devices_have_the_bytes) {
    if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
    const made_current in(own[0]);
    fault_of_launches = launch_fault::bad_address;
    ferry_error_info error = new_error();
    const std::int32_t status = pieces().copy(instance.get(), {}, &error);
    if (launches_of_device_1 == 0) GTEST_SKIP() << "the driver was predicted to be faster";
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << describe(error);
    EXPECT_EQ(error.index, 1u);
    expect_on_all(sent);
}

} // namespace
} // namespace ferry::test
