// Order and completeness. A copy sees everything that earlier work on its stream has written, whichever routes the two
// take. A synchronous copy is complete when it returns. A captured copy is right at each launch of its graph, or it is
// refused.
#include <atomic>
#include <cstring>
#include <thread>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"
#include "system/pages.h"

namespace ferry::test {
namespace {

std::uint64_t at(const void *memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Pageable memory of the program, parts of which a test may register.
struct pages : mapped_memory {
    using mapped_memory::mapped_memory;
    void fill(std::byte value) const { std::memset(data(), static_cast<int>(value), size()); }
};

class order : public counted_test {
protected:
    // Prepares staging in advance: the first copy might otherwise wait for work that a gate holds.
    void SetUp() override {
        counted_test::SetUp();
        if (has_kernels()) {
            ASSERT_OK(ferry_staging_prepare(counted.get(), 0, nullptr));
        }
    }
    // Runs `call` and opens the gate as soon as the call waits in the driver, at the latest when the call has returned.
    template <class Call> static void run_behind(gate &held, const fault_driver &driver, const Call &call) {
        const int waits = waits_and_copies_of(driver);
        std::atomic<bool> has_returned = false;
        std::thread opener([&] {
            while (!has_returned && waits_and_copies_of(driver) == waits)
                std::this_thread::yield();
            held.let_go();
        });
        call();
        has_returned = true;
        opener.join();
    }
    static int waits_of(const fault_driver &driver) {
        return driver.calls("cuStreamSynchronize") + driver.calls("cuEventSynchronize");
    }
    // A copy between two host addresses waits inside the driver's call, so copies count as waits too.
    static int waits_and_copies_of(const fault_driver &driver) {
        return waits_of(driver) + driver.calls_beginning("cuMemcpy");
    }
    // Copying the memory of device 1 needs no peer access.
    static bool has_two_devices() { return device_count() > 1; }
};

// ---- Order on a stream ------------------------------------------------------------------------------------------

enum class form { single, batch, pieces, prepared, ticket };
constexpr form forms[] = {form::single, form::batch, form::pieces, form::prepared, form::ticket};
const how routes[] = {how(), by_driver, no_kernels};

struct enqueued {
    ferry_prepared *prepared = nullptr;
    ferry_ticket *ticket = nullptr;
};

void enqueue(ferry_instance *instance, form made, const ferry_copy_desc &copy, const how &options, CUstream stream,
             enqueued &kept) {
    const std::uint64_t to = copy.destination.address, from = copy.source.address;
    switch (made) {
    case form::single:
        EXPECT_OK(ferry_copy_async(instance, &copy, options, stream, nullptr, nullptr));
        break;
    case form::batch:
        EXPECT_OK(ferry_copy_batch_async(instance, &copy, 1, options, stream, nullptr, nullptr));
        break;
    case form::pieces:
        EXPECT_OK(ferry_copy_pieces_async(instance, in_arrays(&to, &from, &copy.width, 1), options, stream, nullptr,
                                          nullptr));
        break;
    case form::prepared:
        EXPECT_OK(ferry_prepared_launch(kept.prepared, nullptr, stream, nullptr, nullptr));
        break;
    case form::ticket:
        EXPECT_OK(ferry_copy_async(instance, &copy, options, stream, &kept.ticket, nullptr));
        break;
    }
}

TEST_F(order, a_pageable_source_is_read_after_earlier_work_has_written_it) {
    constexpr std::uint64_t large = 2 << 20;
    struct target {
        place_kind kind;
        int device;
    };
    constexpr target targets[] = {{place_kind::device, 0},    {place_kind::managed, 0},
                                  {place_kind::device, 1},    {place_kind::array_1d, 0},
                                  {place_kind::pool, 0},      {place_kind::pool, 1},
                                  {place_kind::pinned, 0},    {place_kind::pageable, 0},
                                  {place_kind::layers_2d, 0}, {place_kind::open_pool_of_host, 0}};
    test_place origin(place_kind::device, {.width = large});
    origin.fill(1);
    bytes between(large);
    for (const target &to : targets)
        for (const std::uint64_t size : {std::uint64_t{64}, std::uint64_t{60'000}, std::uint64_t{300'000}})
            for (const how &options : routes)
                for (const form made : forms) {
                    const grid shape = {.width = is_array(to.kind) ? 64 : size};
                    if (to.device >= device_count() || !can_be(to.kind, shape)) continue;
                    if (is_array(to.kind) && (size != 64 || made == form::pieces)) continue;
                    SCOPED_TRACE(testing::Message() << name_of(to.kind) << " of device " << to.device << ", " << size
                                                    << " bytes, " << options << ", form " << static_cast<int>(made));
                    test_place target(to.kind, shape, to.device);
                    target.fill(2);
                    std::memset(between.data(), 0x11, large);
                    ferry_copy_desc write = {}, read = {};
                    write.source = origin.describe(statement::any);
                    ferry_place_host(&write.destination, between.data());
                    write.width = large;
                    ferry_place_host(&read.source, between.data() + large - size);
                    read.destination = target.describe(statement::any);
                    read.width = size;
                    enqueued kept;
                    if (made == form::prepared) {
                        ASSERT_OK(
                            ferry_prepared_create(counted.get(), &read, 1, options, stream, &kept.prepared, nullptr));
                    }
                    {
                        gate held(stream);
                        // Without kernels the driver writes the pageable memory itself, and the call waits for the
                        // stream.
                        run_behind(held, driver, [&] {
                            if (!has_kernels()) held.let_go();
                            EXPECT_OK(ferry_copy_async(counted.get(), &write, nullptr, stream, nullptr, nullptr));
                            enqueue(counted.get(), made, read, options, stream, kept);
                        });
                    }
                    EXPECT_OK(raw().cuStreamSynchronize(stream));
                    if (kept.ticket) {
                        EXPECT_OK(ferry_ticket_release(kept.ticket, nullptr));
                    }
                    if (kept.prepared) {
                        EXPECT_OK(ferry_prepared_destroy(kept.prepared, nullptr));
                    }
                    const bytes found = target.read();
                    EXPECT_EQ(std::memcmp(found.data(), origin.picture().data() + large - size, size), 0);
                }
}

// Neither a query of a stream nor a wait for it covers earlier work on the legacy stream.
TEST_F(order, a_pageable_source_is_read_after_staged_work_on_the_legacy_stream) {
    if (!has_kernels()) GTEST_SKIP() << "this driver stages no copies";
    constexpr std::uint64_t large = 2 << 20, size = 4096;
    test_place origin(place_kind::device, {.width = large}), target(place_kind::device, {.width = size});
    origin.fill(1);
    CUstream blocking = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    bytes between(large);
    const instance_owner another = open_or_fail(driver.options());
    ASSERT_OK(ferry_staging_prepare(another.get(), 0, nullptr));
    for (CUstream on : {blocking, static_cast<CUstream>(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
        for (const how &options : {how(), by_driver})
            // 0 and 4: on the stream. 1 to 3: synchronous, as one copy, as a batch, as pieces.
            for (const int way : {0, 1, 2, 3, 4}) {
                // In way 4 another instance makes the first copy.
                ferry_instance *const writer = way == 4 ? another.get() : counted.get();
                SCOPED_TRACE(testing::Message() << "stream " << on << ", " << options << ", way " << way);
                target.fill(2);
                std::memset(between.data(), 0x11, large);
                ferry_copy_desc write = {}, read = {};
                write.source = origin.describe(statement::any);
                ferry_place_host(&write.destination, between.data());
                write.width = large;
                ferry_place_host(&read.source, between.data() + large - size);
                read.destination = target.describe(statement::any);
                read.width = size;
                {
                    gate held(nullptr);
                    run_behind(held, driver, [&] {
                        EXPECT_OK(ferry_copy_async(writer, &write, nullptr, nullptr, nullptr, nullptr));
                        const std::uint64_t to = target.address(), from = read.source.address;
                        ferry_instance *const ferry = counted.get();
                        EXPECT_OK(way % 4 == 0 ? ferry_copy_async(ferry, &read, options, on, nullptr, nullptr)
                                  : way == 1   ? ferry_copy(ferry, &read, options, nullptr)
                                  : way == 2   ? ferry_copy_batch(ferry, &read, 1, options, nullptr)
                                             : ferry_copy_pieces(ferry, in_arrays(&to, &from, &read.width, 1), options,
                                                                 nullptr));
                    });
                }
                EXPECT_OK(raw().cuCtxSynchronize());
                const bytes found = target.read();
                EXPECT_EQ(std::memcmp(found.data(), origin.picture().data() + large - size, size), 0);
            }
    EXPECT_OK(raw().cuStreamDestroy(blocking));
}

TEST_F(order, explain_reports_that_a_copy_waits_for_its_stream) {
    test_place host(place_kind::pageable, {.width = 4096}), managed(place_kind::managed, {.width = 4096});
    const ferry_copy_desc copy = describe_copy(host.describe(statement::any), managed.describe(statement::any), 4096);
    ferry_explanation told = {};
    told.struct_size = sizeof told;
    gate held(stream);
    ASSERT_OK(ferry_copy_explain_async(counted.get(), &copy, in_stream_order, stream, &told, nullptr));
    EXPECT_EQ(told.blocks, FERRY_BLOCKS_UNTIL_STAGED);
    EXPECT_EQ(told.synchronises, 1);
    const int before = waits_of(driver);
    run_behind(held, driver,
               [&] { EXPECT_OK(ferry_copy_async(counted.get(), &copy, in_stream_order, stream, nullptr, nullptr)); });
    EXPECT_EQ(waits_of(driver), before + 1);
}

// One wait is enough for a whole batch: its copies have no order among themselves.
TEST_F(order, a_batch_waits_for_its_stream_once) {
    bytes host(64 * 128);
    test_place managed(place_kind::managed, {.width = 64 * 128});
    std::uint64_t to[64], from[64], sizes[64];
    for (std::uint64_t i = 0; i < 64; ++i) {
        to[i] = managed.address() + i * 128;
        from[i] = at(host.data()) + i * 128;
        sizes[i] = 100;
    }
    gate held(stream);
    const int before = waits_of(driver);
    run_behind(held, driver, [&] {
        EXPECT_OK(
            ferry_copy_pieces_async(counted.get(), in_arrays(to, from, sizes, 64), nullptr, stream, nullptr, nullptr));
    });
    EXPECT_EQ(waits_of(driver), before + 1);
}

// ---- Synchronous copies -----------------------------------------------------------------------------------------

// Reads device memory immediately, on a stream that waits for nothing.
void expect_there(CUstream stream, std::uint64_t address, std::byte value, std::uint64_t size) {
    pinned_memory seen(size);
    ASSERT_OK(raw().cuMemcpyDtoHAsync(seen.data(), address, size, stream));
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(seen.data()[0], value);
    EXPECT_EQ(seen.data()[size - 1], value);
}

TEST_F(order, a_synchronous_copy_is_complete_when_its_origin_leads_into_pageable_memory) {
    constexpr std::uint64_t size = 20'000;
    const std::uint64_t page = page_size();
    const pages memory(16 * page);
    ASSERT_OK(ferry_host_register(counted.get(), memory.data(), page, 0, nullptr));
    device_memory device(size);
    ferry_copy_desc copy = {};
    ferry_place_host(&copy.source, memory.data());
    copy.source.x = 2 * page;
    ferry_place_device(&copy.destination, 0, device);
    copy.width = size;
    ferry_explanation told = {};
    told.struct_size = sizeof told;
    ASSERT_OK(ferry_copy_explain(counted.get(), &copy, nullptr, &told, nullptr));
    EXPECT_EQ(told.source_memory, FERRY_MEMORY_PAGEABLE);
    EXPECT_TRUE(told.synchronises || told.route == FERRY_ROUTE_STAGED);
    for (int i = 1; i <= 60; ++i) {
        const auto value = static_cast<std::byte>(i);
        memory.fill(value);
        ASSERT_OK(ferry_copy(counted.get(), &copy, nullptr, nullptr));
        expect_there(stream, device, value, size);
    }
    EXPECT_OK(ferry_host_unregister(counted.get(), memory.data(), nullptr));
}

// Memory of a host pool that one device can access. Whether it counts as pageable depends on the context of the copy.
// The caller's context does not matter and may be none.
struct host_pool_memory {
    host_pool_memory(ferry_instance *instance, int device, std::uint64_t size,
                     std::int32_t location = FERRY_LOCATION_HOST)
        : instance(instance), size(size) {
        ferry_pool_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.location = location;
        if (ferry_pool_create(instance, &desc, &pool, nullptr)) return;
        EXPECT_OK(ferry_pool_set_access(instance, pool, device, FERRY_ACCESS_READ_WRITE, nullptr));
        const test_stream stream;
        EXPECT_OK(ferry_pool_alloc_async(instance, pool, size, stream, &address, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
    ~host_pool_memory() {
        if (!pool) return;
        const test_stream stream;
        EXPECT_OK(ferry_device_free_async(instance, address, stream, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_OK(ferry_pool_destroy(instance, pool, nullptr));
    }
    host_pool_memory(const host_pool_memory &) = delete;
    void fill(int value) const { std::memset(reinterpret_cast<void *>(address), value, size); }
    bool holds(int value) const {
        const auto *const data = reinterpret_cast<const unsigned char *>(address);
        return data[0] == value && data[size - 1] == value;
    }

    ferry_instance *instance;
    std::uint64_t size;
    CUmemoryPool pool = nullptr;
    std::uint64_t address = 0;
};

// Copies between memory of device 0 and memory of a host pool that only one of the two devices reaches.
struct host_pool_copies {
    host_pool_copies(ferry_instance *instance, int reaching_device, std::uint64_t size,
                     std::int32_t location = FERRY_LOCATION_HOST)
        : host(instance, reaching_device, size, location), device(size) {
        ferry_place_any(&up.source, host.address);
        ferry_place_device(&up.destination, 0, device);
        ferry_place_device(&down.source, 0, device);
        ferry_place_host(&down.destination, reinterpret_cast<void *>(host.address));
        up.width = down.width = size;
    }
    const host_pool_memory host;
    const device_memory device;
    ferry_copy_desc up = {}, down = {};
};

struct host_pool_kind {
    std::int32_t location;
    int reaching_device;
};
// Skipped tests name the location that the driver lacks, so the node's pools are last.
constexpr host_pool_kind host_pool_kinds[] = {
    {FERRY_LOCATION_HOST, 0}, {FERRY_LOCATION_HOST, 1}, {FERRY_LOCATION_HOST_NUMA, 0}, {FERRY_LOCATION_HOST_NUMA, 1}};

TEST_F(order, a_synchronous_copy_is_complete_when_only_one_of_two_devices_reaches_the_host_pool) {
    if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
    constexpr std::uint64_t size = 60'000;
    const other_device far;
    for (const host_pool_kind &kind : host_pool_kinds) {
        const host_pool_copies copies(counted.get(), kind.reaching_device, size, kind.location);
        const host_pool_memory &host = copies.host;
        if (!host.pool) GTEST_SKIP() << "the driver has no host memory pools in " << kind.location;
        for (const CUcontext current : {static_cast<CUcontext>(nullptr), context, static_cast<CUcontext>(far)})
            for (int i = 1; i <= 60; ++i) {
                const bool in_batch = i % 3 == 0;
                const auto copy = [&](const ferry_copy_desc &one) {
                    return in_batch ? ferry_copy_batch(counted.get(), &one, 1, nullptr, nullptr)
                                    : ferry_copy(counted.get(), &one, nullptr, nullptr);
                };
                host.fill(i);
                const made_current one(current);
                ASSERT_OK(copy(copies.up));
                {
                    const made_current near(context);
                    expect_there(stream, copies.device, static_cast<std::byte>(i), size);
                }
                host.fill(0);
                ASSERT_OK(copy(copies.down));
                EXPECT_TRUE(host.holds(i))
                    << "device " << kind.reaching_device << " reaches the pool in " << kind.location;
            }
    }
}

// The copy is on a stream of device 1. The driver's call names a context of device 0, which therefore decides how the
// driver copies the memory. What the program is promised follows from the context of the stream: to that context the
// memory of a pool that only device 0 reaches is pageable.
TEST_F(order, a_copy_waits_as_its_options_and_explain_state_when_only_one_of_two_devices_reaches_the_host_pool) {
    if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
    const other_device far;
    for (const host_pool_kind &kind : host_pool_kinds)
        for (const std::uint64_t size : {std::uint64_t{60'000}, std::uint64_t{3} << 20}) {
            if (kind.location == FERRY_LOCATION_HOST_NUMA && size > 1 << 20) continue; // the same calls, and slow
            const int reaching = kind.reaching_device;
            const host_pool_copies copies(counted.get(), reaching, size, kind.location);
            const host_pool_memory &host = copies.host;
            if (!host.pool) GTEST_SKIP() << "the driver has no host memory pools in " << kind.location;
            const made_current there(far);
            const test_stream of_far;
            for (const bool is_up : {true, false})
                for (const how &route : routes)
                    for (const bool promise : {false, true}) {
                        const how promised = is_up ? read_in_the_call : written_in_the_call;
                        const how options = promise ? route | promised : route;
                        const ferry_copy_desc &copy = is_up ? copies.up : copies.down;
                        const bool is_buffered = is_up && promise && size <= 1 << 20 && route != by_driver;
                        const std::int32_t waits = is_buffered                 ? FERRY_BLOCKS_NO
                                                   : reaching == 0 && !promise ? FERRY_BLOCKS_NO
                                                   : reaching == 0 || !is_up   ? FERRY_BLOCKS_UNTIL_DONE
                                                                               : FERRY_BLOCKS_UNTIL_STAGED;
                        ferry_explanation told = new_explanation();
                        {
                            gate held(of_far);
                            ASSERT_OK(ferry_copy_explain_async(counted.get(), &copy, options, of_far, &told, nullptr));
                        }
                        EXPECT_EQ(told.blocks, waits);
                        EXPECT_EQ(is_up ? told.source_memory : told.destination_memory, FERRY_MEMORY_PAGEABLE);
                        for (const form made : forms) {
                            SCOPED_TRACE(testing::Message()
                                         << "device " << reaching << " reaches the pool in " << kind.location << ", "
                                         << size << " bytes " << (is_up ? "to" : "from") << " the device, " << options
                                         << ", form " << static_cast<int>(made));
                            enqueued kept;
                            if (made == form::prepared) {
                                ASSERT_OK(ferry_prepared_create(counted.get(), &copy, 1, options, of_far,
                                                                &kept.prepared, nullptr));
                            }
                            host.fill(is_up ? 1 : 0);
                            ASSERT_OK(raw().cuMemsetD8Async(copies.device, is_up ? 0 : 1, size, stream));
                            ASSERT_OK(raw().cuStreamSynchronize(stream));
                            {
                                gate held(of_far);
                                run_behind(held, driver,
                                           [&] { enqueue(counted.get(), made, copy, options, of_far, kept); });
                            }
                            if (is_up && promise) host.fill(2);
                            EXPECT_TRUE(is_up || !promise || host.holds(1)) << "when the call has returned";
                            ASSERT_OK(raw().cuStreamSynchronize(of_far));
                            if (is_up) {
                                const made_current near(context);
                                expect_there(stream, copies.device, std::byte{1}, size);
                            } else {
                                EXPECT_TRUE(host.holds(1));
                            }
                            if (kept.ticket) {
                                EXPECT_OK(ferry_ticket_release(kept.ticket, nullptr));
                            }
                            if (kept.prepared) {
                                EXPECT_OK(ferry_prepared_destroy(kept.prepared, nullptr));
                            }
                        }
                    }
        }
}

// A kernel on device 1 could access both ends, but to device 0, which the driver's calls name, the pool is pageable.
TEST_F(order, pieces_keep_what_their_options_promise_beside_a_host_pool_that_only_one_of_two_devices_reaches) {
    if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
    constexpr std::uint64_t count = 64, size = count * 1000;
    const other_device far;
    const host_pool_copies copies(counted.get(), 1, size);
    const host_pool_memory &host = copies.host;
    if (!host.pool) GTEST_SKIP() << "the driver has no host memory pools";
    if (ferry_peer_enable(counted.get(), 1, 0, nullptr)) GTEST_SKIP() << "the devices have no peer access";
    const made_current there(far);
    const test_stream of_far;
    for (const bool is_prepared : {false, true})
        for (const bool is_up : {true, false}) {
            SCOPED_TRACE(testing::Message() << (is_prepared ? "prepared, " : "") << (is_up ? "up" : "down"));
            const ferry_copy_desc &copy = is_up ? copies.up : copies.down;
            const how options = is_up ? read_in_the_call : written_in_the_call;
            piece_batch pieces; // in the opposite order at the destination, so that none are merged
            for (std::uint64_t at = 0; at < size; at += 1000)
                pieces.add(copy.destination.address + size - 1000 - at, copy.source.address + at, 1000);
            ferry_prepared *prepared = nullptr;
            if (is_prepared) {
                ASSERT_OK(pieces.prepare(counted.get(), of_far, options, &prepared));
            }
            // Kernels are loaded now: loading waits for work that a gate holds.
            ASSERT_OK(pieces.copy_async(counted.get(), of_far, options));
            ASSERT_OK(raw().cuStreamSynchronize(of_far));
            host.fill(is_up ? 1 : 0);
            ASSERT_OK(raw().cuMemsetD8Async(copies.device, is_up ? 0 : 1, size, stream));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            {
                gate held(of_far);
                run_behind(held, driver, [&] {
                    EXPECT_OK(is_prepared ? ferry_prepared_launch(prepared, nullptr, of_far, nullptr, nullptr)
                                          : pieces.copy_async(counted.get(), of_far, options));
                });
                if (is_up) host.fill(2);
                EXPECT_TRUE(is_up || host.holds(1)) << "when the call has returned";
            }
            ASSERT_OK(raw().cuStreamSynchronize(of_far));
            if (is_up) {
                const made_current near(context);
                expect_there(stream, copies.device, std::byte{1}, size);
            }
            if (prepared) {
                EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
            }
        }
    EXPECT_OK(ferry_peer_disable(counted.get(), 1, 0, nullptr));
}

TEST_F(order, copies_are_right_when_only_another_device_reaches_the_host_pool) {
    if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
    constexpr std::uint64_t size = 60'000;
    const other_device far;
    const host_pool_copies copies(counted.get(), 1, size);
    const host_pool_memory &host = copies.host;
    if (!host.pool) GTEST_SKIP() << "the driver has no host memory pools";
    const ferry_copy_desc &up = copies.up, &down = copies.down;
    // On a stream of the device that has access.
    const made_current there(far);
    const test_stream of_far;
    for (const how &options : routes)
        for (const form made : {form::single, form::batch, form::pieces, form::ticket}) {
            SCOPED_TRACE(testing::Message() << options << ", form " << static_cast<int>(made));
            enqueued kept;
            host.fill(3);
            {
                gate held(of_far);
                ASSERT_OK(raw().cuLaunchHostFunc(
                    of_far, [](void *memory) { static_cast<const host_pool_memory *>(memory)->fill(1); },
                    const_cast<host_pool_memory *>(&host)));
                run_behind(held, driver, [&] { enqueue(counted.get(), made, up, options, of_far, kept); });
            }
            ASSERT_OK(raw().cuStreamSynchronize(of_far));
            host.fill(2);
            if (kept.ticket) {
                EXPECT_OK(ferry_ticket_release(kept.ticket, nullptr));
            }
            enqueue(counted.get(), made, down, options, of_far, kept);
            ASSERT_OK(raw().cuStreamSynchronize(of_far));
            EXPECT_TRUE(host.holds(1));
            if (kept.ticket) {
                EXPECT_OK(ferry_ticket_release(kept.ticket, nullptr));
            }
        }
}

TEST_F(order, a_graph_accepts_or_refuses_copies_with_a_host_pool_that_only_one_of_two_devices_reaches) {
    if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
    constexpr std::uint64_t size = 60'000;
    const host_pool_memory host(counted.get(), 1, size);
    if (!host.pool) GTEST_SKIP() << "the driver has no host memory pools";
    const other_device far;
    test_place near(place_kind::device, {.width = size});
    near.fill(5);
    ferry_copy_desc down = {}, up = {};
    ferry_place_device(&down.source, 0, near.address());
    ferry_place_host(&down.destination, reinterpret_cast<void *>(host.address));
    up.source = down.destination;
    up.destination = down.source;
    up.width = down.width = size;
    const made_current there(far);
    const test_stream of_far;
    ferry_options options = driver.options();
    options.staging = FERRY_STAGING_NONE; // so a stated host destination is not looked up before the capture is known
    const instance_owner without_staging = open_or_fail(options);
    options.checks = FERRY_CHECKS_FULL; // which look up what the caller has stated
    const instance_owner with_full_checks = open_or_fail(options);
    for (ferry_instance *const instance : {counted.get(), without_staging.get(), with_full_checks.get()}) {
        captured_graph refused(of_far);
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy_async(instance, &up, nullptr, of_far, nullptr, &error), error, FERRY_ERROR_CAPTURE,
                       FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        refused.end();
        for (const std::int32_t stated : {FERRY_KIND_HOST, FERRY_KIND_ANY}) {
            down.destination.kind = stated;
            captured_graph graph(of_far);
            ASSERT_OK(ferry_copy_async(instance, &down, nullptr, of_far, nullptr, &error)) << describe(error);
            graph.end();
            for (int i = 0; i < 2; ++i) {
                host.fill(0);
                graph.run();
                EXPECT_EQ(std::memcmp(reinterpret_cast<const void *>(host.address), near.picture().data(), size), 0);
            }
        }
    }
}

// The graph reads the source in stream order, because the call is made in a context of the device that reaches the pool.
TEST_F(order, a_graph_on_another_device_s_stream_accepts_copies_with_a_host_pool_that_the_memory_s_device_reaches) {
    if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
    constexpr std::uint64_t size = 60'000;
    const host_pool_copies copies(counted.get(), 0, size);
    const host_pool_memory &host = copies.host;
    if (!host.pool) GTEST_SKIP() << "the driver has no host memory pools";
    const other_device far;
    const made_current there(far);
    const test_stream of_far;
    const struct {
        const ferry_copy_desc &copy;
        how options;
        std::int32_t field;
    } promises[] = {{copies.up, read_in_the_call, FERRY_FIELD_SOURCE_ORDER},
                    {copies.down, written_in_the_call, FERRY_FIELD_FLAGS}};
    for (const auto &[copy, options, field] : promises) {
        ferry_error_info error = new_error();
        captured_graph refused(of_far);
        expect_refusal(ferry_copy_async(counted.get(), &copy, options, of_far, nullptr, &error), error,
                       FERRY_ERROR_CAPTURE, FERRY_SIDE_OPTIONS, field);
        EXPECT_EQ(ferry_copy_batch_async(counted.get(), &copy, 1, options, of_far, nullptr, nullptr),
                  FERRY_ERROR_CAPTURE);
        refused.end();
    }
    const auto fill_1 = [](void *memory) { static_cast<const host_pool_memory *>(memory)->fill(1); };
    const auto fill_0 = [](void *memory) { static_cast<const host_pool_memory *>(memory)->fill(0); };
    auto *const memory = const_cast<host_pool_memory *>(&host);
    captured_graph graph(of_far);
    ASSERT_OK(raw().cuLaunchHostFunc(of_far, fill_1, memory));
    ASSERT_OK(ferry_copy_async(counted.get(), &copies.up, nullptr, of_far, nullptr, nullptr));
    ASSERT_OK(raw().cuLaunchHostFunc(of_far, fill_0, memory));
    ASSERT_OK(ferry_copy_batch_async(counted.get(), &copies.down, 1, nullptr, of_far, nullptr, nullptr));
    graph.end();
    for (int i = 0; i < 2; ++i) {
        host.fill(7);
        graph.run();
        EXPECT_TRUE(host.holds(1));
    }
}

// For a device with access to a host pool, the pool's memory is not host memory: the driver's calls return before the
// copy is done, and they read pageable memory before the stream gets there.
TEST_F(order, a_synchronous_copy_between_host_memory_and_a_host_pool_is_complete) {
    if (!is_supported(place_kind::open_pool_of_host)) GTEST_SKIP() << "the driver has no host memory pools";
    constexpr std::uint64_t size = 3 << 20;
    for (const place_kind from : {place_kind::pageable, place_kind::pinned, place_kind::open_pool_of_host})
        for (const place_kind to : {place_kind::pageable, place_kind::pinned, place_kind::open_pool_of_host})
            for (const statement stated : {statement::any, statement::stated})
                for (const how &options : {how(), no_kernels}) {
                    SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
                    test_place source(from, {.width = size}), target(to, {.width = size});
                    const ferry_copy_desc copy = describe_copy(source.describe(stated), target.describe(stated), size);
                    for (std::uint64_t i = 1; i <= 3; ++i) {
                        source.fill(i);
                        ASSERT_OK(ferry_copy(counted.get(), &copy, options, nullptr));
                        EXPECT_EQ(std::memcmp(reinterpret_cast<const void *>(target.address()), source.picture().data(),
                                              size),
                                  0);
                    }
                }
}

// ---- Graphs -----------------------------------------------------------------------------------------------------

constexpr std::uint64_t rows = 60, row_width = 24, row_pitch = 40;

ferry_copy_desc rows_to_host(std::uint64_t to, std::uint64_t from) {
    ferry_copy_desc copy = {};
    ferry_place_any(&copy.source, from);
    ferry_place_host_pitched(&copy.destination, reinterpret_cast<void *>(to), row_pitch, 0);
    copy.width = row_width;
    copy.height = rows;
    return copy;
}

void expect_rows(const std::byte *host, const bytes &source, std::uint64_t pitch = row_pitch) {
    for (std::uint64_t row = 0; row < rows; ++row)
        ASSERT_EQ(std::memcmp(host + row * pitch, source.data() + row * row_width, row_width), 0) << "row " << row;
}

TEST_F(order, a_captured_copy_of_rows_into_pinned_memory_runs_at_each_launch) {
    if (!has_kernels()) GTEST_SKIP() << "this driver stages no copies";
    device_memory device(rows * row_width);
    pinned_memory host(rows * row_pitch);
    const ferry_copy_desc copy = rows_to_host(at(host.address), device);
    captured_graph graph(stream);
    ASSERT_OK(ferry_copy_async(counted.get(), &copy, by_staging, stream, nullptr, nullptr));
    graph.end();
    for (std::uint64_t i = 0; i < 5; ++i) {
        const bytes source = random_bytes(rows * row_width, i);
        write_for_all_streams(device, source);
        std::memset(host.address, 0, host.size);
        graph.run();
        expect_rows(host.data(), source);
    }
}

// Host memory that is registered in part, in pieces or not at all, and device memory of either device, from a pool or
// not.
TEST_F(order, a_captured_copy_is_right_or_refused_however_its_host_memory_is_registered) {
    const std::uint64_t page = page_size();
    struct registration {
        std::uint64_t first, pages;
    };
    const registration registrations[][2] = {{{0, 0}, {0, 0}}, {{0, 1}, {0, 0}}, {{1, 1}, {0, 0}}, {{0, 1}, {1, 1}}};
    for (int on_device = 0; on_device < std::min(device_count(), 2); ++on_device)
        for (const place_kind kind : {place_kind::device, place_kind::pool})
            for (const auto &parts : registrations)
                for (const how &options : {how(), urgent, by_driver, by_staging})
                    for (const auto &[to_host, is_line] :
                         {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
                        SCOPED_TRACE(testing::Message()
                                     << name_of(kind) << " of device " << on_device << ", " << parts[0].first << "+"
                                     << parts[0].pages << " and " << parts[1].first << "+" << parts[1].pages << ", "
                                     << options << (is_line ? ", a line" : "") << (to_host ? ", to" : ", from")
                                     << " the host");
                        if (!can_be(kind, {.width = rows * row_width})) continue;
                        test_place device(kind, {.width = rows * row_width}, on_device);
                        device.fill(3);
                        const pages host(2 * page);
                        const std::uint64_t pitch = is_line ? row_width : row_pitch;
                        std::byte *const first = host.data() + page - rows / 2 * pitch; // across the page boundary
                        for (const registration &part : parts)
                            if (part.pages) {
                                ASSERT_OK(ferry_host_register(counted.get(), host.data() + part.first * page,
                                                              part.pages * page, 0, nullptr));
                            }
                        ferry_copy_desc copy = rows_to_host(at(first), device.address());
                        if (is_line) {
                            copy.destination.row_pitch = 0;
                            copy.width = rows * row_width;
                            copy.height = 1;
                        }
                        if (!to_host) std::swap(copy.source, copy.destination);
                        {
                            captured_graph graph(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
                            ferry_error_info error = new_error();
                            const std::int32_t status =
                                ferry_copy_async(counted.get(), &copy, options, stream, nullptr, &error);
                            graph.end();
                            if (status) {
                                EXPECT_TRUE(status == FERRY_ERROR_CAPTURE || status == FERRY_ERROR_ROUTE)
                                    << describe(error);
                                // Every copy to the host can be captured unless staging is forced.
                                EXPECT_FALSE(to_host && options != by_staging) << describe(error);
                                if (status == FERRY_ERROR_CAPTURE) {
                                    EXPECT_EQ(error.side, FERRY_SIDE_SOURCE);
                                }
                            }
                            for (int launch = 0; launch < 2 && !status; ++launch) {
                                const bytes source = random_bytes(rows * row_width, 4);
                                for (std::uint64_t row = 0; row < rows; ++row)
                                    if (to_host)
                                        std::memset(first + row * pitch, 0, row_width);
                                    else
                                        std::memcpy(first + row * pitch, source.data() + row * row_width, row_width);
                                graph.run();
                                if (to_host)
                                    expect_rows(first, device.picture(), pitch);
                                else
                                    EXPECT_EQ(device.read(), source);
                            }
                        }
                        ASSERT_OK(raw().cuCtxSynchronize()) << "the context still works";
                        for (const registration &part : parts)
                            if (part.pages) {
                                EXPECT_OK(
                                    ferry_host_unregister(counted.get(), host.data() + part.first * page, nullptr));
                            }
                    }
}

// The driver would read the source at the launch, before the nodes in front of the copy have run.
TEST_F(order, a_capture_refuses_pageable_sources_that_only_the_driver_can_copy) {
    bytes host(4096);
    for (const place_kind kind : {place_kind::managed, place_kind::open_pool_of_host, place_kind::device}) {
        if (!is_supported(kind)) continue;
        SCOPED_TRACE(name_of(kind));
        const test_place to(kind, {.width = 4096});
        const bool is_device = kind == place_kind::device;
        const std::uint64_t address = to.address(), source = at(host.data()), size = host.size();
        ferry_copy_desc copy = {};
        ferry_place_host(&copy.source, host.data());
        ferry_place_any(&copy.destination, address);
        copy.width = size;
        const how options = is_device ? by_driver : how();
        captured_graph graph(stream);
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy_async(counted.get(), &copy, options, stream, nullptr, &error), error,
                       FERRY_ERROR_CAPTURE, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        expect_refusal(ferry_copy_batch_async(counted.get(), &copy, 1, options, stream, nullptr, &error), error,
                       FERRY_ERROR_CAPTURE, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        expect_refusal(ferry_copy_pieces_async(counted.get(), in_arrays(&address, &source, &size, 1), options, stream,
                                               nullptr, &error),
                       error, FERRY_ERROR_CAPTURE, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        expect_refusal(ferry_copy_explain_async(counted.get(), &copy, options, stream, &told, &error), error,
                       FERRY_ERROR_CAPTURE, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        graph.end();
    }
}

// ---- Explanations and tickets -----------------------------------------------------------------------------------

TEST_F(order, a_ticket_names_the_route_that_explain_names_for_memory_registered_in_part) {
    const std::uint64_t page = page_size();
    const pages host(256 * page);
    ASSERT_OK(ferry_host_register(counted.get(), host.data(), 128 * page, 0, nullptr));
    device_memory device(256 * page);
    for (const bool to_device : {true, false})
        for (const std::uint64_t first : {std::uint64_t{0}, 64 * page, 192 * page}) {
            ferry_copy_desc copy = {};
            ferry_place_host(&copy.source, host.data() + first);
            ferry_place_any(&copy.destination, device);
            copy.width = 256 * page - first;
            if (!to_device) std::swap(copy.source, copy.destination);
            ferry_explanation told = {};
            told.struct_size = sizeof told;
            ASSERT_OK(ferry_copy_explain_async(counted.get(), &copy, nullptr, stream, &told, nullptr));
            ferry_ticket *ticket = nullptr;
            ASSERT_OK(ferry_copy_async(counted.get(), &copy, nullptr, stream, &ticket, nullptr));
            ferry_ticket_info info = {};
            info.struct_size = sizeof info;
            EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
            EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
            EXPECT_EQ(info.route, told.route);
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_OK(ferry_host_unregister(counted.get(), host.data(), nullptr));
}

TEST_F(order, pageable_copies_of_a_batch_take_the_route_that_the_options_request) {
    if (!has_kernels()) GTEST_SKIP() << "this driver stages no copies";
    bytes host(300'000);
    device_memory device(host.size());
    ferry_copy_desc copy = {};
    ferry_place_host(&copy.source, host.data());
    ferry_place_any(&copy.destination, device);
    copy.width = host.size();
    enqueued none;
    for (const how &requested : {by_driver, no_kernels}) {
        ferry_options options = driver.options();
        options.copy_options = requested;
        const instance_owner requesting = open_or_fail(options);
        for (const form made : {form::batch, form::pieces})
            for (const bool is_of_the_call : {true, false}) {
                SCOPED_TRACE(testing::Message() << requested << ", form " << static_cast<int>(made)
                                                << (is_of_the_call ? ", of the call" : ", of the instance"));
                driver.reset_counts();
                if (is_of_the_call)
                    enqueue(counted.get(), made, copy, requested, stream, none);
                else
                    enqueue(requesting.get(), made, copy, {}, stream, none);
                EXPECT_EQ(driver.calls("cuLaunchKernel"), 0);
            }
    }
    ASSERT_OK(raw().cuStreamSynchronize(stream));
}

} // namespace
} // namespace ferry::test
