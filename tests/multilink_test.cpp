// Copies over the host links of several devices: FERRY_COPY_MULTILINK.
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "submit/instance.h"
#include "support/counted_test.h"
#include "support/dying_context.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/loaded_pairs.h"
#include "support/raw_objects.h"
#include "support/station.h"
#include "support/system.h"
#include "support/waiting_free.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t megabyte = 1 << 20;
constexpr how staged_over_links = over_links | by_staging; // whatever is predicted while this machine is busy

std::uint64_t at(const bytes &memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); }
std::uint64_t at(const pinned_memory &memory) { return reinterpret_cast<std::uintptr_t>(memory.address); }

// Of device 0.
std::int32_t set_helpers(ferry_instance *instance, const std::vector<std::int32_t> &wanted, std::uint32_t max_sms = 0,
                         ferry_error_info *error = nullptr) {
    ferry_multilink_options options = {};
    options.struct_size = sizeof options;
    options.max_sms = max_sms;
    options.helpers = wanted.data();
    options.helper_count = static_cast<std::uint32_t>(wanted.size());
    return ferry_multilink_set(instance, 0, &options, error);
}

class multilink : public counted_test {
protected:
    void SetUp() override {
        if (device_count() < 2) GTEST_SKIP() << "needs two devices";
        counted_test::SetUp();
        ASSERT_OK(ferry_context_retain_primary(counted.get(), 1, &there, nullptr));
        if (!has_kernels()) GTEST_SKIP() << "without kernels";
        for (std::int32_t device = 1; device < device_count(); ++device) {
            ferry_error_info error = new_error();
            const std::int32_t status = set({device}, &error);
            if (is_without_access(status)) {
                EXPECT_EQ(error.field, FERRY_FIELD_HELPERS);
                EXPECT_EQ(error.value, static_cast<std::uint64_t>(device));
                continue;
            }
            ASSERT_OK(status);
            helpers.push_back(device);
        }
        if (helpers.empty()) GTEST_SKIP() << "no peer access with atomics";
        ASSERT_OK(set(helpers));
        launches = static_cast<int>(helpers.size()) + 1;
        driver.reset_counts();
    }
    void TearDown() override {
        if (!counted) return;
        for (const std::int32_t helper : helpers)
            EXPECT_OK(ferry_peer_disable(counted.get(), helper, 0, nullptr));
        counted_test::TearDown();
    }
    std::int32_t set(const std::vector<std::int32_t> &wanted, ferry_error_info *error = nullptr) const {
        return set_helpers(counted.get(), wanted, 0, error);
    }
    static ferry_copy_desc line(std::uint64_t to, std::uint64_t from, std::uint64_t size) {
        ferry_copy_desc copy = {};
        copy.source.address = from;
        copy.destination.address = to;
        copy.width = size;
        return copy;
    }
    std::int32_t copy_async(std::uint64_t to, std::uint64_t from, std::uint64_t size, CUstream on,
                            const how &options = over_links) const {
        const ferry_copy_desc copy = line(to, from, size);
        return ferry_copy_async(counted.get(), &copy, options, on, nullptr, nullptr);
    }
    ferry_explanation explain(const ferry_copy_desc &copy, const how &options = over_links) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(counted.get(), &copy, options, stream, &told, nullptr));
        return told;
    }

    // An instance of its own whose helper of device 0 is device 1, with a context of its own there.
    struct owner_instance {
        std::int32_t set(const std::vector<std::int32_t> &wanted) const { return set_helpers(instance.get(), wanted); }
        instance_owner instance;
        CUcontext own = nullptr;
    };
    owner_instance set_in_fresh_context() const {
        owner_instance fresh = {open_or_fail(options_under_test())};
        EXPECT_OK(ferry_context_create(fresh.instance.get(), 0, 0, &fresh.own, nullptr));
        EXPECT_OK(ferry_context_adopt(fresh.instance.get(), 0, fresh.own, nullptr));
        EXPECT_OK(fresh.set({1}));
        return fresh;
    }

    CUcontext there = nullptr;
    std::vector<std::int32_t> helpers;
    int launches = 0; // of a copy
};

TEST_F(multilink, lines_arrive_whole_in_both_directions_by_launches_on_both_devices) {
    for (const std::uint64_t size : {4 * megabyte, 9 * megabyte + 4097, 33 * megabyte + 15}) {
        for (const std::uint64_t lead : {0, 5}) {
            SCOPED_TRACE(testing::Message() << size << " at " << lead);
            const pinned_memory up(size + lead + 16), down(size + lead + 16);
            const station device(context, size + lead + 16);
            const bytes sent = random_bytes(size, size);
            std::memcpy(up.data() + lead, sent.data(), size);
            std::memset(down.data(), 0x5a, size + lead + 16);
            device.write(bytes(size + lead + 16, std::byte{0x77}));
            ASSERT_OK(copy_async(device.address() + lead, at(up) + lead, size, stream));
            ASSERT_OK(copy_async(at(down) + lead, device.address() + lead, size, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_EQ(std::memcmp(down.data() + lead, sent.data(), size), 0);
            const bytes found = device.read();
            EXPECT_EQ(std::memcmp(found.data() + lead, sent.data(), size), 0);
            for (std::uint64_t i = 0; i < 16; ++i) { // nothing beside the copies
                const std::uint64_t at = i < lead ? i : size + i;
                EXPECT_EQ(found[at], std::byte{0x77}) << at;
                EXPECT_EQ(down.data()[at], std::byte{0x5a}) << at;
            }
            EXPECT_EQ(driver.calls("cuLaunchKernel"), 2 * launches);
            EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 2) << "the engine's share";
            driver.reset_counts();
        }
    }
}

// Threads fill slots, and blocks of all devices empty them, or the other way round.
TEST_F(multilink, pageable_memory_takes_all_links_too) {
    if (!counted->stages) GTEST_SKIP() << "nothing is staged";
    for (const std::uint64_t size : {32 * megabyte, 41 * megabyte + 333}) {
        const bytes sent = random_bytes(size, size);
        bytes back(size + 64, std::byte{0x5a});
        const station device(context, size + 64);
        device.write(bytes(size + 64, std::byte{0x77}));
        ASSERT_OK(raw().cuCtxSetCurrent(context));
        const ferry_copy_desc copy = line(device.address(), at(sent), size);
        const ferry_explanation told = explain(copy, staged_over_links);
        EXPECT_EQ(told.route, FERRY_ROUTE_STAGED);
        EXPECT_EQ(told.links, static_cast<std::uint32_t>(std::min(launches, 4)));
        const ferry_explanation alone = explain(copy, by_staging);
        EXPECT_LE(alone.links, 1u);
        EXPECT_EQ(told.max_sms, alone.max_sms);
        driver.reset_counts();
        ASSERT_OK(copy_async(device.address(), at(sent), size, stream, staged_over_links));
        ASSERT_OK(copy_async(at(back) + 1, device.address(), size, stream, staged_over_links));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_GE(driver.calls("cuLaunchKernel"), 2 * std::min(launches, 4));
        EXPECT_EQ(std::memcmp(back.data() + 1, sent.data(), size), 0);
        EXPECT_EQ(back[0], std::byte{0x5a});
        EXPECT_EQ(back[size + 1], std::byte{0x5a});
        const bytes found = device.read();
        EXPECT_EQ(std::memcmp(found.data(), sent.data(), size), 0);
        EXPECT_EQ(found[size], std::byte{0x77});
    }
    // Rows, synchronously.
    constexpr std::uint64_t width = 5000, height = 7000, pitch = 5003;
    const bytes sent = random_bytes(pitch * height, 2);
    bytes back(width * height);
    const station device(context, pitch * height);
    ferry_copy_desc up = line(device.address(), at(sent), width), down = line(at(back), device.address(), width);
    up.height = down.height = height;
    up.source.row_pitch = up.destination.row_pitch = down.source.row_pitch = pitch;
    ASSERT_OK(ferry_copy(counted.get(), &up, staged_over_links, nullptr));
    ASSERT_OK(ferry_copy(counted.get(), &down, staged_over_links, nullptr));
    for (std::uint64_t y = 0; y < height; ++y)
        ASSERT_EQ(std::memcmp(back.data() + y * width, sent.data() + y * pitch, width), 0) << y;
}

TEST_F(multilink, launches_are_short_where_a_helper_has_a_watchdog) {
    if (!counted->stages) GTEST_SKIP() << "nothing is staged";
    static ferry_options inner;
    inner = driver.options();
    const std::uint64_t size = 70 * megabyte;
    const bytes sent = random_bytes(size, 41);
    const station device(context, size);
    for (const bool is_watched : {false, true}) {
        ferry_options options = driver.options();
        if (is_watched)
            options.get_proc = [](void *, const char *name, int version) -> void * {
                if (std::strcmp(name, "cuDeviceGetAttribute"))
                    return inner.get_proc(inner.get_proc_user, name, version);
                return reinterpret_cast<void *>(+[](int *value, CUdevice_attribute which, CUdevice of) {
                    CUdevice watched = 0;
                    const CUresult result = raw().cuDeviceGetAttribute(value, which, of);
                    if (which == CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT && !raw().cuDeviceGet(&watched, 1))
                        *value = of == watched;
                    return result;
                });
            };
        const instance_owner instance = open_or_fail(options);
        ASSERT_OK(set_helpers(instance.get(), {1}));
        ASSERT_OK(ferry_staging_prepare(instance.get(), 0, nullptr));
        {
            const gate held(stream);
            driver.reset_counts();
            const ferry_copy_desc copy = line(device.address(), at(sent), size);
            ASSERT_OK(ferry_copy_async(instance.get(), &copy, staged_over_links, stream, nullptr, nullptr));
            EXPECT_EQ(driver.calls("cuLaunchKernel"), is_watched ? 4 : 2); // of 64 MiB at most, on two devices
        }
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(device.read() == sent);
    }
}

TEST_F(multilink, boxes_of_long_rows_are_cut_too) {
    constexpr std::uint64_t width = 100'000, height = 29, depth = 3, pitch = 100'016, slice = 31;
    const pinned_memory up(pitch * slice * depth), down(width * height * depth);
    const station device(context, pitch * slice * depth);
    const bytes sent = random_bytes(pitch * slice * depth, 4);
    std::memcpy(up.data(), sent.data(), sent.size());
    device.write(bytes(pitch * slice * depth));
    ferry_copy_desc there_copy = line(device.address(), at(up), width);
    there_copy.height = height;
    there_copy.depth = depth;
    there_copy.source.row_pitch = there_copy.destination.row_pitch = pitch;
    there_copy.source.slice_height = there_copy.destination.slice_height = slice;
    ferry_copy_desc back = there_copy;
    back.source = there_copy.destination;
    back.destination = {};
    back.destination.address = at(down);
    ASSERT_OK(ferry_copy_async(counted.get(), &there_copy, over_links, stream, nullptr, nullptr));
    ASSERT_OK(ferry_copy_async(counted.get(), &back, over_links, stream, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 2 * launches);
    for (std::uint64_t z = 0; z < depth; ++z)
        for (std::uint64_t y = 0; y < height; ++y)
            ASSERT_EQ(std::memcmp(down.data() + (z * height + y) * width, sent.data() + (z * slice + y) * pitch, width),
                      0)
                << y << " " << z;
}

TEST_F(multilink, copies_are_ordered_with_other_work_on_the_stream) {
    const std::uint64_t size = 8 * megabyte;
    const pinned_memory host(size), back(size);
    const station device(context, size);
    for (unsigned char value = 1; value <= 6; ++value) {
        device.fill(value, stream);
        ASSERT_OK(copy_async(at(host), device.address(), size, stream));
        device.fill(0xee, stream);
        ASSERT_OK(copy_async(device.address(), at(host), size, stream));
        ASSERT_OK(raw().cuMemcpyDtoHAsync(back.data(), device.address(), size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        ASSERT_TRUE(back.copy() == bytes(size, std::byte{value}));
    }
}

TEST_F(multilink, synchronous_copies_are_complete_on_return) {
    const std::uint64_t size = 8 * megabyte;
    const pinned_memory host(size);
    const station device(context, size);
    const bytes sent = random_bytes(size, 6);
    std::memcpy(host.data(), sent.data(), size);
    const ferry_copy_desc copy = line(device.address(), at(host), size);
    ASSERT_OK(ferry_copy(counted.get(), &copy, over_links, nullptr));
    EXPECT_TRUE(device.read() == sent);
    EXPECT_EQ(driver.calls("cuLaunchKernel"), launches);
}

// With all hardware queues of the helper held, its kernels cannot start.
TEST_F(multilink, a_helper_that_does_not_start_delays_no_copy_and_may_start_late) {
    if (streams_share_a_queue()) GTEST_SKIP() << "the gates would hold each other's streams";
    constexpr int queues = 40; // more than any driver has by default
    const std::uint64_t size = 6 * megabyte;
    const pinned_memory host(size);
    const station device(context, size);
    std::deque<station> held;
    for (int i = 0; i < queues; ++i)
        held.emplace_back(there, 256);
    const auto copy_and_check = [&](std::uint64_t seed) {
        const bytes sent = random_bytes(size, seed);
        std::memcpy(host.data(), sent.data(), size);
        ASSERT_OK(copy_async(device.address(), at(host), size, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_TRUE(device.read() == sent);
    };
    copy_and_check(1);
    const std::uint64_t large = 33 * megabyte;
    const station staged(context, large);
    {
        gate shut(held[0].stream());
        for (int i = 1; i < queues; ++i)
            shut.hold(held[i].stream());
        for (std::uint64_t seed = 2; seed < 8; ++seed)
            copy_and_check(seed);
        for (std::uint64_t seed = 1; seed < 3; ++seed) { // pageable memory
            const bytes sent = random_bytes(large, seed);
            ASSERT_OK(copy_async(staged.address(), at(sent), large, stream, staged_over_links));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(staged.read() == sent);
        }
    }
    for (std::uint64_t seed = 8; seed < 12; ++seed)
        copy_and_check(seed);
}

// Each copy has counters of its own until all its kernels have ended, and there are 32.
TEST_F(multilink, many_copies_in_flight_are_all_made) {
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory host(size * 4);
    std::deque<station> devices;
    for (int i = 0; i < 4; ++i) {
        devices.emplace_back(context, size);
        const bytes sent = random_bytes(size, static_cast<std::uint64_t>(i));
        std::memcpy(host.data() + static_cast<std::size_t>(i) * size, sent.data(), size);
    }
    {
        gate shut(stream);
        for (int i = 0; i < 60; ++i)
            ASSERT_OK(copy_async(devices[static_cast<std::size_t>(i) % 4].address(),
                                 at(host) + static_cast<std::uint64_t>(i) % 4 * size, size, stream));
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_TRUE(devices[i].read() == random_bytes(size, i));
}

TEST_F(multilink, the_explanation_reports_links_and_time_or_the_obstacle) {
    const std::uint64_t size = 64 * megabyte;
    const pinned_memory host(size);
    const station device(context, size);
    ferry_copy_desc copy = line(device.address(), at(host), size);
    const ferry_explanation told = explain(copy);
    EXPECT_EQ(told.route, FERRY_ROUTE_MULTILINK);
    EXPECT_EQ(told.links, static_cast<std::uint32_t>(launches));
    EXPECT_EQ(told.max_sms, 24u);
    EXPECT_EQ(told.helper_sms, 24u);
    EXPECT_EQ(told.blocks, FERRY_BLOCKS_NO);
    EXPECT_STREQ(told.driver_call, "cuLaunchKernel");
    EXPECT_EQ(told.multilink_obstacle, FERRY_OBSTACLE_NONE);
    EXPECT_GT(told.multilink_ns, 0u);
    char text[512] = "";
    ferry_explanation_format(&told, text, sizeof text);
    EXPECT_NE(std::string(text).find("multilink route: cuLaunchKernel over " + std::to_string(launches) +
                                     " links on 24 SMs each"),
              std::string::npos)
        << text;

    const auto obstacle_of = [&](const how &options) {
        const ferry_explanation other = explain(copy, options);
        EXPECT_NE(other.route, FERRY_ROUTE_MULTILINK);
        EXPECT_EQ(other.links, 0u);
        return other.multilink_obstacle;
    };
    EXPECT_EQ(obstacle_of({}), FERRY_OBSTACLE_FORBIDDEN);
    EXPECT_EQ(obstacle_of(over_links | no_kernels), FERRY_OBSTACLE_FORBIDDEN);
    copy.width = 4 * megabyte - 1;
    EXPECT_EQ(obstacle_of(over_links), FERRY_OBSTACLE_SMALL);
    copy.width = size - 8;
    copy.source.address += 8;
    EXPECT_EQ(obstacle_of(over_links), FERRY_OBSTACLE_NOT_CUT);
    copy.source.address -= 8;
    ASSERT_OK(ferry_multilink_set(counted.get(), 0, nullptr, nullptr));
    EXPECT_EQ(obstacle_of(over_links), FERRY_OBSTACLE_NO_HELPERS);
}

TEST_F(multilink, the_driver_makes_captured_copies) {
    const std::uint64_t size = 5 * megabyte;
    const pinned_memory host(size);
    const station device(context, size);
    const bytes sent = random_bytes(size, 8);
    std::memcpy(host.data(), sent.data(), size);
    ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    const ferry_explanation told = explain(line(device.address(), at(host), size));
    EXPECT_EQ(told.route, FERRY_ROUTE_DRIVER);
    EXPECT_EQ(told.multilink_obstacle, FERRY_OBSTACLE_CAPTURED);
    char text[512] = "";
    ferry_explanation_format(&told, text, sizeof text);
    EXPECT_NE(std::string(text).find("one link: the copy becomes part of a graph"), std::string::npos) << text;
    EXPECT_OK(copy_async(device.address(), at(host), size, stream));
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
    CUgraphExec ready = nullptr;
    ASSERT_OK(raw().cuGraphInstantiateWithFlags(&ready, graph, 0));
    ASSERT_OK(raw().cuGraphLaunch(ready, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(device.read() == sent);
    EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
    ASSERT_OK(raw().cuGraphExecDestroy(ready));
    ASSERT_OK(raw().cuGraphDestroy(graph));
}

TEST_F(multilink, a_helper_that_cannot_serve_is_named) {
    const auto expect = [&](const std::vector<std::int32_t> &wanted, std::int32_t status, std::uint64_t index) {
        ferry_error_info error = new_error();
        EXPECT_EQ(set(wanted, &error), status);
        EXPECT_EQ(error.field, FERRY_FIELD_HELPERS);
        EXPECT_EQ(error.index, index);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(wanted[index]));
    };
    expect({1, 0}, FERRY_ERROR_DEVICE, 1);
    expect({1, 1}, FERRY_ERROR_DEVICE, 1);
    expect({device_count()}, FERRY_ERROR_DEVICE, 0);
    expect({-1}, FERRY_ERROR_DEVICE, 0);
    EXPECT_EQ(set(std::vector<std::int32_t>(30, 1)), FERRY_ERROR_LIMIT);
    EXPECT_EQ(ferry_multilink_set(counted.get(), device_count(), nullptr, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_multilink_set(nullptr, 0, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    const pinned_memory host(4 * megabyte);
    const station device(context, 4 * megabyte);
    EXPECT_EQ(explain(line(device.address(), at(host), 4 * megabyte)).links, static_cast<std::uint32_t>(launches))
        << "as before the errors";
}

// An instance whose launches go through `launch`. Its contexts of the first two devices are its own.
class launching_instance {
public:
    using launch_call = CUresult(CUDAAPI *)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, CUstream, void **, void **);
    explicit launching_instance(launch_call launch) : launches_{"cuLaunchKernel", reinterpret_cast<void *>(launch)} {
        instance = open_or_fail(launches_.options());
        for (int device = 0; device < 2; ++device) {
            EXPECT_OK(ferry_context_create(instance.get(), device, 0, &contexts[device], nullptr));
            EXPECT_OK(ferry_context_adopt(instance.get(), device, contexts[device], nullptr));
        }
    }
    ~launching_instance() {
        instance.reset();
        for (const CUcontext one : contexts)
            EXPECT_OK(raw().cuCtxDestroy(one));
    }
    launching_instance(const launching_instance &) = delete;
    launching_instance &operator=(const launching_instance &) = delete;

    std::int32_t help(std::uint32_t max_sms = 0) const { return set_helpers(instance.get(), {1}, max_sms); }
    ferry_explanation explain(const ferry_copy_desc &copy, CUstream on, const how &options = over_links) const {
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        EXPECT_OK(ferry_copy_explain_async(instance.get(), &copy, options, on, &told, nullptr));
        EXPECT_EQ(told.links, 2u);
        return told;
    }

    instance_owner instance;
    CUcontext contexts[2] = {};

private:
    replaced_call launches_;
};

bool bad_launch_is_staged = false, bad_launch_reads = false;

// Launches of helpers get addresses on the device that do not exist.
CUresult CUDAAPI launch_badly(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, CUstream on, void **parameters, void **extra) {
    CUdevice device = 0;
    EXPECT_OK(raw().cuCtxGetDevice(&device));
    if (device == 0) return raw().cuLaunchKernel(function, x, y, z, bx, by, bz, shared, on, parameters, extra);
    constexpr std::uint64_t nowhere = 4096;
    gpu::link_parameters of_link;
    gpu::ring_parameters of_ring;
    void *changed[] = {&of_link};
    if (bad_launch_is_staged) {
        of_ring = *static_cast<const gpu::ring_parameters *>(parameters[0]);
        of_ring.device.address = nowhere;
        changed[0] = &of_ring;
    } else {
        of_link = *static_cast<const gpu::link_parameters *>(parameters[0]);
        (bad_launch_reads ? of_link.source : of_link.destination).address = nowhere;
    }
    return raw().cuLaunchKernel(function, x, y, z, bx, by, bz, shared, on, changed, extra);
}

TEST_F(multilink, a_copy_whose_helper_dies_with_a_chunk_fails) {
    if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
    const std::uint64_t width = 3072, pitch = 4096, rows = 16384, size = pitch * rows;
    const pinned_memory pinned(size);
    bytes pageable(size);
    for (const bool is_staged : {false, true})
        for (const bool to_device : {true, false}) {
            SCOPED_TRACE(testing::Message() << (is_staged ? "pageable" : "pinned") << (to_device ? " up" : " down"));
            const launching_instance doomed(launch_badly);
            bad_launch_is_staged = is_staged;
            bad_launch_reads = !to_device;
            ASSERT_OK(doomed.help());
            doomed.instance->links.patience = 500;
            const made_current in(doomed.contexts[0]);
            CUdeviceptr memory = 0;
            CUstream on = nullptr;
            ASSERT_OK(raw().cuMemAlloc(&memory, size));
            ASSERT_OK(raw().cuStreamCreate(&on, CU_STREAM_NON_BLOCKING));
            const std::uint64_t host = is_staged ? at(pageable) : at(pinned);
            ferry_copy_desc copy = to_device ? line(memory, host, size) : line(host, memory, size);
            if (is_staged) { // whose rows have gaps: messages hold the addresses of lines
                copy.source.row_pitch = copy.destination.row_pitch = pitch;
                copy.width = width;
                copy.height = rows;
            }
            const how options = is_staged ? staged_over_links : over_links;
            ferry_ticket *ticket = nullptr;
            ASSERT_OK(ferry_copy_async(doomed.instance.get(), &copy, options, on, &ticket, nullptr));
            const CUresult passed = raw().cuStreamSynchronize(on);
            const std::int32_t status = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr);
            EXPECT_NE(passed, CUDA_SUCCESS);
            EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_CONTEXT_DEAD) << status;
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        }
}

TEST_F(multilink, a_helper_whose_context_is_dead_is_left_out) {
    if (!on_software_driver()) GTEST_SKIP() << "would break the contexts of later tests";
    const std::uint64_t size = 36 * megabyte;
    const pinned_memory pinned(size);
    const bytes sent = random_bytes(size, 31);
    std::memcpy(pinned.data(), sent.data(), size);
    const dying_context doomed(1);
    CUcontext own = nullptr;
    ASSERT_OK(ferry_context_create(counted.get(), 0, 0, &own, nullptr));
    instance_owner instance = open_or_fail(dying_context::options());
    ASSERT_OK(ferry_context_adopt(instance.get(), 0, own, nullptr));
    ASSERT_OK(ferry_context_adopt(instance.get(), 1, doomed, nullptr));
    ASSERT_OK(set_helpers(instance.get(), {1}));
    {
        const station device(own, size);
        const auto explain_here = [&](std::uint64_t from, const how &options) {
            const ferry_copy_desc copy = line(device.address(), from, size);
            ferry_explanation told = {};
            told.struct_size = sizeof told;
            EXPECT_OK(ferry_copy_explain_async(instance.get(), &copy, options, device.stream(), &told, nullptr));
            return told;
        };
        EXPECT_EQ(explain_here(at(pinned), over_links).links, 2u);
        doomed.die();
        EXPECT_EQ(explain_here(at(pinned), over_links).multilink_obstacle, FERRY_OBSTACLE_NO_ACCESS);
        EXPECT_EQ(explain_here(at(sent), staged_over_links).links, 0u);
        for (const std::uint64_t from : {at(pinned), at(sent)}) {
            device.write(bytes(size));
            const ferry_copy_desc copy = line(device.address(), from, size);
            const how options = from == at(sent) ? staged_over_links : over_links;
            ASSERT_OK(ferry_copy_async(instance.get(), &copy, options, device.stream(), nullptr, nullptr));
            device.wait();
            EXPECT_TRUE(device.read() == sent);
        }
    }
    instance.reset();
    EXPECT_OK(raw().cuCtxDestroy(own));
}

std::vector<std::pair<CUdevice, unsigned>> launched; // the device and the blocks of each kernel

CUresult CUDAAPI launch_noting(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream on, void **parameters, void **extra) {
    CUdevice device = 0;
    EXPECT_OK(raw().cuCtxGetDevice(&device));
    launched.emplace_back(device, x);
    return raw().cuLaunchKernel(function, x, y, z, bx, by, bz, shared, on, parameters, extra);
}

std::shared_future<void> late_helpers; // whose kernels come only then

CUresult CUDAAPI launch_late(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream on, void **parameters, void **extra) {
    CUdevice device = 0;
    EXPECT_OK(raw().cuCtxGetDevice(&device));
    const CUhostFn wait = [](void *) { late_helpers.wait(); };
    if (device != 0) {
        EXPECT_OK(raw().cuLaunchHostFunc(on, wait, nullptr));
    }
    return raw().cuLaunchKernel(function, x, y, z, bx, by, bz, shared, on, parameters, extra);
}

TEST_F(multilink, relays_on_the_same_stream_do_not_wait_for_late_helpers) {
    const std::uint64_t size = 36 * megabyte;
    const pinned_memory host(size);
    const bytes sent = random_bytes(size, 41);
    std::memcpy(host.data(), sent.data(), size);
    const launching_instance late(launch_late);
    ASSERT_OK(late.help());
    const station device(late.contexts[0], size), other(late.contexts[1], size);
    std::promise<void> may_come;
    late_helpers = may_come.get_future().share();
    const ferry_copy_desc up = line(device.address(), at(host), size),
                          on = line(other.address(), device.address(), size);
    for (const ferry_copy_desc *const copy : {&up, &on}) {
        const how options = copy == &on ? over_links | by_relay : over_links;
        ASSERT_OK(ferry_copy_async(late.instance.get(), copy, options, device.stream(), nullptr, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(device.stream()));
    }
    may_come.set_value();
    EXPECT_TRUE(other.read() == sent);
}

// Beside a slow link the device's own has to carry more than half.
TEST_F(multilink, the_copy_engine_copies_the_measured_share_of_its_link) {
    const std::uint64_t size = 64 * megabyte;
    const pinned_memory host(size);
    const launching_instance noting(launch_noting);
    ASSERT_OK(noting.help());
    const station device(noting.contexts[0], size);
    const ferry_copy_desc up = line(device.address(), at(host), size), down = line(at(host), device.address(), size);
    const auto explain = [&](const ferry_copy_desc &copy) { return noting.explain(copy, device.stream()); };
    const ferry_explanation equal_up = explain(up), equal_down = explain(down);
    load_rates(noting.instance.get(), 1, 0, {.link_to_rate = 1, .link_from_rate = 100'000'000});
    const ferry_explanation slow = explain(up), fast = explain(down);
    EXPECT_GT(slow.engine_bytes, size * 8 / 10);
    EXPECT_LE(slow.engine_bytes, size * 9 / 10);
    EXPECT_GT(slow.multilink_ns, equal_up.multilink_ns);
    EXPECT_LT(fast.engine_bytes, equal_down.engine_bytes / 10);
    EXPECT_LT(fast.multilink_ns, equal_down.multilink_ns);
    const bytes sent = random_bytes(size, 3);
    std::memcpy(host.data(), sent.data(), size);
    ASSERT_OK(ferry_copy_async(noting.instance.get(), &up, over_links, device.stream(), nullptr, nullptr));
    device.wait();
    EXPECT_TRUE(device.read() == sent);
    std::memset(host.data(), 0, size);
    ASSERT_OK(ferry_copy_async(noting.instance.get(), &down, over_links, device.stream(), nullptr, nullptr));
    device.wait();
    EXPECT_TRUE(host.copy() == sent);
}

TEST_F(multilink, the_maximum_number_of_sms_applies_to_each_helper_and_is_reported) {
    const std::uint64_t size = 64 * megabyte;
    const pinned_memory host(size);
    const launching_instance noting(launch_noting);
    ASSERT_OK(noting.help(4));
    const station device(noting.contexts[0], size);
    const ferry_copy_desc copy = line(device.address(), at(host), size);
    for (const std::uint32_t of_device : {0u, 6u}) {
        const how options = over_links | max_sms(of_device);
        const ferry_explanation told = noting.explain(copy, device.stream(), options);
        const std::uint32_t own = of_device ? of_device : 24;
        EXPECT_EQ(told.max_sms, own);
        EXPECT_EQ(told.helper_sms, 4u);
        EXPECT_GT(told.engine_bytes, size / 4);
        EXPECT_LT(told.engine_bytes, size / 2);
        char text[512] = "";
        ferry_explanation_format(&told, text, sizeof text);
        EXPECT_NE(std::string(text).find("over 2 links on " + std::to_string(own) + " SMs, and 4 of each helper"),
                  std::string::npos)
            << text;
        launched.clear();
        ASSERT_OK(ferry_copy_async(noting.instance.get(), &copy, options, device.stream(), nullptr, nullptr));
        device.wait();
        const std::vector<std::pair<CUdevice, unsigned>> expected = {{0, own}, {1, 4}};
        EXPECT_EQ(launched, expected);
    }
}

TEST_F(multilink, the_options_of_the_instance_apply_to_copies_without_options) {
    ferry_options options = driver.options();
    options.copy_options = over_links;
    const instance_owner instance = open_or_fail(options);
    ASSERT_OK(set_helpers(instance.get(), helpers));
    const std::uint64_t size = 8 * megabyte;
    const pinned_memory host(size);
    const bytes sent = random_bytes(size, 19);
    std::memcpy(host.data(), sent.data(), size);
    const station device(context, size);
    const ferry_copy_desc copy = line(device.address(), at(host), size);
    for (const how &of_copy : {how(), ordinary}) {
        driver.reset_counts();
        device.write(bytes(size));
        ASSERT_OK(ferry_copy_async(instance.get(), &copy, of_copy, device.stream(), nullptr, nullptr));
        device.wait();
        EXPECT_TRUE(device.read() == sent);
        EXPECT_EQ(driver.calls("cuLaunchKernel"), of_copy == how() ? launches : 0);
    }
}

TEST_F(multilink, later_copies_create_nothing_and_do_not_wait) {
    const std::uint64_t size = 33 * megabyte;
    const pinned_memory pinned(size);
    const bytes pageable(size);
    const station device(context, size);
    for (const std::uint64_t host : {at(pinned), at(pageable)}) {
        const how options = host == at(pageable) ? staged_over_links : over_links;
        for (int round = 0; round < 3; ++round) {
            driver.reset_counts();
            ASSERT_OK(copy_async(device.address(), host, size, device.stream(), options));
            for (const char *const call :
                 {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemAlloc", "cuLaunchHostFunc"})
                EXPECT_TRUE(round == 0 || driver.calls(call) == 0) << call;
            if (round > 0 && host == at(pinned)) { // staged copies make a stream where another one is busy
                EXPECT_EQ(driver.calls("cuEventCreate") + driver.calls("cuStreamCreateWithPriority"), 0);
            }
            device.wait();
        }
    }
}

TEST_F(multilink, frees_in_other_threads_do_not_block_copies) {
    const std::uint64_t size = 36 * megabyte;
    const pinned_memory pinned(size);
    const bytes sent = random_bytes(size, 23);
    std::memcpy(pinned.data(), sent.data(), size);
    const station device(context, size);
    for (const CUcontext of_free : {context, there})
        for (const std::uint64_t host : {at(pinned), at(sent)}) {
            device.write(bytes(size));
            std::optional<waiting_free> free;
            {
                gate shut(device.stream());
                ASSERT_OK(copy_async(device.address(), host, size, device.stream(),
                                     host == at(sent) ? staged_over_links : over_links));
                const made_current in(of_free);
                free.emplace();
                std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the free is most likely in the driver
            }
            device.wait();
            free.reset();
            EXPECT_TRUE(device.read() == sent);
        }
}

// Kernels end their context if they access memory that is not registered.
TEST_F(multilink, the_driver_copies_host_memory_that_is_registered_in_part) {
    const std::uint64_t size = 8 * megabyte;
    const mapped_memory host(size);
    const station device(context, size);
    const bytes sent = random_bytes(size, 14);
    std::memcpy(host.data(), sent.data(), size);
    ASSERT_OK(ferry_host_register(counted.get(), host.data(), size / 2, 0, nullptr));
    driver.reset_counts();
    const auto source = reinterpret_cast<std::uintptr_t>(host.data());
    EXPECT_EQ(explain(line(device.address(), source, size)).links, static_cast<std::uint32_t>(launches))
        << "of the registered part";
    EXPECT_OK(copy_async(device.address(), source, size, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(device.read() == sent);
    ASSERT_OK(ferry_host_unregister(counted.get(), host.data(), nullptr));
}

TEST_F(multilink, the_driver_copies_memory_of_another_context) {
    const std::uint64_t size = 8 * megabyte;
    const pinned_memory host(size);
    const test_context other;
    const station device(other, size);
    for (const std::int32_t helper : helpers) {
        CUcontext of_helper = nullptr;
        ASSERT_OK(ferry_context_retain_primary(counted.get(), helper, &of_helper, nullptr));
        const made_current in(of_helper);
        ASSERT_OK(raw().cuCtxEnablePeerAccess(other, 0));
        ASSERT_OK(ferry_context_release_primary(counted.get(), helper, nullptr));
    }
    const bytes sent = random_bytes(size, 15);
    std::memcpy(host.data(), sent.data(), size);
    ASSERT_OK(copy_async(device.address(), at(host), size, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(device.read() == sent);
}

// Access to a pool is separate from access to the other memory of its device, which contains the counters.
TEST_F(multilink, a_helper_without_access_to_the_counters_is_left_out) {
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_device_get_info(counted.get(), 0, &info, nullptr));
    if (!info.memory_pools) GTEST_SKIP() << "the device has no pools";
    const std::uint64_t size = 4 * megabyte;
    const pinned_memory host(size);
    const bytes sent = random_bytes(size, 21);
    std::memcpy(host.data(), sent.data(), size);
    ferry_pool_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.location = FERRY_LOCATION_DEVICE;
    CUmemoryPool pool = nullptr;
    std::uint64_t memory = 0;
    ASSERT_OK(ferry_pool_create(counted.get(), &desc, &pool, nullptr));
    for (const std::int32_t helper : helpers)
        ASSERT_OK(ferry_pool_set_access(counted.get(), pool, helper, FERRY_ACCESS_READ_WRITE, nullptr));
    ASSERT_OK(ferry_pool_alloc_async(counted.get(), pool, size, stream, &memory, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(explain(line(memory, at(host), size)).links, static_cast<std::uint32_t>(launches));
    for (const std::int32_t helper : helpers)
        ASSERT_OK(ferry_peer_disable(counted.get(), helper, 0, nullptr));
    EXPECT_EQ(explain(line(memory, at(host), size)).multilink_obstacle, FERRY_OBSTACLE_NO_ACCESS);
    ASSERT_OK(copy_async(memory, at(host), size, stream));
    bytes back(size);
    ASSERT_OK(raw().cuMemcpyDtoHAsync(back.data(), memory, size, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(back == sent);
    for (const std::int32_t helper : helpers)
        EXPECT_OK(ferry_context_synchronize(counted.get(), helper, nullptr, nullptr))
            << "the context of a helper is lost";
    ASSERT_OK(ferry_device_free_async(counted.get(), memory, stream, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    ASSERT_OK(ferry_pool_destroy(counted.get(), pool, nullptr));
}

TEST_F(multilink, urgent_copies_use_no_engine) {
    const std::uint64_t size = 8 * megabyte;
    const pinned_memory host(size);
    const station device(context, size);
    ASSERT_OK(copy_async(device.address(), at(host), size, stream, over_links | urgent));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(driver.calls("cuMemcpy3DAsync"), 0);
}

TEST_F(multilink, prepared_copies_do_not_become_part_of_a_graph) {
    const std::uint64_t size = 5 * megabyte;
    const pinned_memory host(size);
    const station device(context, size);
    const bytes sent = random_bytes(size, 16);
    const ferry_copy_desc copy = line(device.address(), at(host), size);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(ferry_prepared_create(counted.get(), &copy, 1, over_links, stream, &prepared, nullptr));
    for (int round = 0; round < 2; ++round) {
        ASSERT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        EXPECT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
        CUgraph graph = nullptr;
        ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
        CUgraphExec ready = nullptr;
        ASSERT_OK(raw().cuGraphInstantiateWithFlags(&ready, graph, 0));
        for (int launch = 0; launch < 2; ++launch) {
            std::memcpy(host.data(), sent.data(), size);
            device.write(bytes(size));
            ASSERT_OK(raw().cuGraphLaunch(ready, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(device.read() == sent);
        }
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
        ASSERT_OK(raw().cuGraphExecDestroy(ready));
        ASSERT_OK(raw().cuGraphDestroy(graph));
    }
    ASSERT_OK(ferry_prepared_destroy(prepared, nullptr));
}

// A kernel of a helper that comes late counts itself out in memory of the owner's context.
TEST_F(multilink, a_context_whose_helpers_start_late_may_be_destroyed) {
    if (streams_share_a_queue()) GTEST_SKIP() << "the gates would hold each other's streams";
    const std::uint64_t size = 6 * megabyte;
    const pinned_memory host(size);
    const owner_instance fresh = set_in_fresh_context();
    std::deque<station> held;
    for (int i = 0; i < 40; ++i)
        held.emplace_back(there, 256);
    {
        gate shut(held[0].stream());
        for (std::size_t i = 1; i < held.size(); ++i)
            shut.hold(held[i].stream());
        {
            const station device(fresh.own, size);
            const ferry_copy_desc copy = line(device.address(), at(host), size);
            ASSERT_OK(ferry_copy_async(fresh.instance.get(), &copy, over_links, device.stream(), nullptr, nullptr));
            device.wait();
        }
        std::atomic<bool> is_open = false;
        std::thread opener([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            is_open = true;
            shut.let_go();
        });
        EXPECT_OK(ferry_context_destroy(fresh.instance.get(), fresh.own, nullptr));
        EXPECT_TRUE(is_open) << "the kernels have not run yet";
        opener.join();
    }
    for (const station &one : held)
        one.wait();
}

TEST_F(multilink, helpers_can_be_set_again_after_their_context_has_ended) {
    const std::uint64_t size = 6 * megabyte;
    const pinned_memory host(size);
    const owner_instance fresh = set_in_fresh_context();
    ASSERT_OK(raw().cuCtxDestroy(fresh.own));
    const test_context next; // often gets the handle
    ASSERT_OK(ferry_context_adopt(fresh.instance.get(), 0, next, nullptr));
    const station device(next, size);
    const ferry_copy_desc copy = line(device.address(), at(host), size);
    EXPECT_OK(ferry_copy_async(fresh.instance.get(), &copy, over_links, device.stream(), nullptr, nullptr));
    device.wait();
    EXPECT_OK(fresh.set({1}));
    EXPECT_OK(ferry_copy_async(fresh.instance.get(), &copy, over_links, device.stream(), nullptr, nullptr));
    device.wait();
    ASSERT_OK(ferry_context_adopt(fresh.instance.get(), 0, nullptr, nullptr));
}

} // namespace
} // namespace ferry::test
