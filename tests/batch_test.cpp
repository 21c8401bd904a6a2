// Tests batches and prepared batches against a plain reference: the right bytes are copied, and no other byte changes.
// Also tests each line of their contract.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "support/captured_graph.h"
#include "support/fault_driver.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

std::uint64_t at(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

constexpr place_kind linear_kinds[] = {place_kind::pageable, place_kind::pinned, place_kind::registered,
                                       place_kind::managed,  place_kind::device, place_kind::pool};

struct batch : ferry_test {
    void SetUp() override {
        ferry_test::SetUp();
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }
    // Loads the kernels and allocates the tables. Later, both would wait for work that a test blocks.
    void warm_up(ferry_instance *instance) {
        for (const auto &[from, to] :
             {std::pair{place_kind::pinned, place_kind::device}, {place_kind::device, place_kind::pinned}}) {
            const scattered pieces(from, to, 1000, 64, 1);
            ASSERT_OK(pieces.batch.copy_async(instance, stream));
            wait();
        }
    }
    void wait() { ASSERT_OK(raw().cuStreamSynchronize(stream)); }
    CUstream stream = nullptr;
};

// ---- Every byte and no other

TEST_F(batch, pieces_between_all_kinds_of_memory_are_copied_and_no_other_bytes) {
    std::uint64_t seed = 1;
    for (const place_kind from : linear_kinds)
        for (const place_kind to : linear_kinds) {
            if (!is_supported(from) || !is_supported(to)) continue;
            for (ferry_instance *const instance : {basic.get(), full.get()})
                for (const bool is_synchronous : {true, false}) {
                    SCOPED_TRACE(testing::Message()
                                 << name_of(from) << " to " << name_of(to) << (is_synchronous ? "" : " on a stream"));
                    scattered pieces(from, to, 50, 300, seed++);
                    ferry_error_info error = new_error();
                    if (is_synchronous) {
                        ASSERT_OK(pieces.batch.copy(instance, check_overlap, &error)) << describe(error);
                    } else {
                        ASSERT_OK(pieces.batch.copy_async(instance, stream, {}, &error)) << describe(error);
                        wait();
                    }
                    pieces.expect_copied();
                }
        }
}

// The driver does not report where memory of a host pool begins or ends.
TEST_F(batch, pieces_of_host_pool_memory_may_overlap_and_run_past_each_other) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CUmemoryPool pool = nullptr;
    if (!raw().cuMemPoolCreate || raw().cuMemPoolCreate(&pool, &props))
        GTEST_SKIP() << "the driver has no host memory pools";
    constexpr std::size_t size = 4096;
    for (const bool has_access : {false, true}) {
        if (has_access) {
            const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            ASSERT_OK(raw().cuMemPoolSetAccess(pool, &access, 1));
        }
        CUdeviceptr host = 0;
        const test_stream stream;
        ASSERT_OK(raw().cuMemAllocFromPoolAsync(&host, size, pool, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
        const bytes written = random_bytes(size, 3);
        std::memcpy(reinterpret_cast<void *>(host), written.data(), size);
        device_memory device(3 * size);
        piece_batch pieces;
        const std::uint64_t offsets[][2] = {{100, 44}, {80, 60}, {120, 500}, {0, size}};
        bytes expected;
        for (const auto &[first, length] : offsets) {
            pieces.add(device + expected.size(), host + first, length);
            expected.insert(expected.end(), written.begin() + static_cast<std::ptrdiff_t>(first),
                            written.begin() + static_cast<std::ptrdiff_t>(first + length));
        }
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            ASSERT_OK(raw().cuMemsetD8(device, 0, 3 * size));
            ASSERT_OK(raw().cuCtxSynchronize());
            ferry_error_info error = new_error();
            ASSERT_OK(pieces.copy_async(instance, stream, {}, &error)) << describe(error);
            ASSERT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_EQ(read_back(device, expected.size()), expected);
        }
        ASSERT_OK(raw().cuMemFreeAsync(host, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    ASSERT_OK(raw().cuMemPoolDestroy(pool));
}

TEST_F(batch, thousands_of_pieces_of_mixed_sizes_are_copied) {
    std::uint64_t seed = 100;
    for (const auto &[from, to] : {std::pair{place_kind::pinned, place_kind::device},
                                   {place_kind::device, place_kind::pinned},
                                   {place_kind::device, place_kind::device}}) {
        SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
        scattered pieces(from, to, 5000, 600, seed++);
        ASSERT_OK(pieces.batch.copy_async(basic.get(), stream));
        wait();
        pieces.expect_copied();
    }
}

TEST_F(batch, pieces_between_two_devices_are_copied) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    std::uint64_t seed = 200;
    for (const place_kind kind : {place_kind::device, place_kind::pool})
        for (const auto &[from, to] : {std::pair{0, 1}, {1, 0}, {1, 1}}) {
            if (!is_supported(kind)) continue;
            SCOPED_TRACE(testing::Message() << name_of(kind) << " of device " << from << " to " << to);
            scattered pieces(kind, kind, 40, 500, seed++, from, to);
            ASSERT_OK(pieces.batch.copy_async(basic.get(), stream));
            wait();
            pieces.expect_copied();
            scattered again(kind, kind, 40, 500, seed++, from, to);
            ASSERT_OK(again.batch.copy(basic.get()));
            again.expect_copied();
        }
}

// Copies in one, two and three dimensions between memory and arrays of all kinds. Each copy has its own band of rows in
// its destination.
struct mixture {
    explicit mixture(std::uint64_t seed) : random(seed) {
        const grid shapes[] = {
            {.width = 512, .element_size = 4},
            {.width = 128, .height = 32, .row_pitch = 144, .lead = 8, .element_size = 4},
            {.width = 64, .height = 16, .depth = 6, .row_pitch = 80, .slice_height = 18, .element_size = 4}};
        for (const place_kind kind : all_place_kinds)
            for (const grid &shape : shapes)
                if (can_be(kind, shape))
                    for (auto *const list : {&sources, &destinations})
                        list->push_back(std::make_unique<test_place>(kind, shape));
        for (const auto &source : sources)
            source->fill(random());
        for (const auto &destination : destinations) {
            destination->fill(random());
            fill_with_copies_into(*destination);
        }
        std::shuffle(copies.begin(), copies.end(), random);
    }

    std::uint64_t below(std::uint64_t limit) { return limit ? random() % limit : 0; }

    void fill_with_copies_into(test_place &destination) {
        const grid &to = destination.shape();
        std::uint64_t y = 0;
        while (y < to.height) {
            const std::uint64_t height = 1 + below(std::min<std::uint64_t>(to.height - y, 7));
            test_place &source = *sources[below(sources.size())];
            const grid &from = source.shape();
            const std::uint64_t width = 4 * (1 + below(std::min(to.width, from.width) / 4));
            const std::uint64_t rows = std::min(height, from.height), depth = std::min(to.depth, from.depth);
            const box target = {4 * below((to.width - width) / 4 + 1), y, below(to.depth - depth + 1)};
            const box origin = {4 * below((from.width - width) / 4 + 1), below(from.height - rows + 1),
                                below(from.depth - depth + 1)};
            const auto any_or_stated = [&] { return below(2) ? statement::any : statement::stated; };
            copies.push_back(describe_copy(source.describe(any_or_stated(), origin),
                                           destination.describe(any_or_stated(), target), width, rows, depth));
            reference_copy(source, origin, destination, target, width, rows, depth);
            y += height;
        }
    }
    void expect_copied() {
        for (const auto &destination : destinations)
            EXPECT_TRUE(destination->read() == destination->picture()) << name_of(destination->kind());
    }

    std::mt19937_64 random;
    std::vector<std::unique_ptr<test_place>> sources, destinations;
    std::vector<ferry_copy_desc> copies;
};

TEST_F(batch, a_mixed_batch_gives_the_same_bytes_as_its_copies_one_by_one) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
        for (ferry_instance *const instance : {basic.get(), full.get()})
            for (const bool is_synchronous : {true, false}) {
                SCOPED_TRACE(testing::Message() << "seed " << seed << (is_synchronous ? "" : " on a stream"));
                mixture mixed(seed);
                ferry_error_info error = new_error();
                if (is_synchronous) {
                    ASSERT_OK(
                        ferry_copy_batch(instance, mixed.copies.data(), mixed.copies.size(), check_overlap, &error))
                        << describe(error) << " at " << error.index;
                } else {
                    ASSERT_OK(ferry_copy_batch_async(instance, mixed.copies.data(), mixed.copies.size(), nullptr,
                                                     stream, nullptr, &error))
                        << describe(error) << " at " << error.index;
                    wait();
                }
                mixed.expect_copied();
            }
}

TEST_F(batch, adjacent_pieces_are_merged_into_one_copy) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    test_place source(place_kind::pinned, {.width = 4096}), destination(place_kind::device, {.width = 4096});
    source.fill(1);
    destination.fill(2);
    piece_batch pieces;
    for (std::uint64_t i = 0; i < 64; ++i)
        pieces.add(destination.address() + i * 64, source.address() + i * 64, 64);
    driver.reset_counts();
    ASSERT_OK(pieces.copy_async(instance.get(), stream));
    EXPECT_EQ(driver.calls_beginning("cuMemcpy") + driver.calls("cuLaunchKernel"), 1);
    EXPECT_EQ(driver.calls_beginning("cuMemcpyBatch"), 0);
    wait();
    reference_copy(source, {}, destination, {}, 4096, 1, 1);
    EXPECT_TRUE(destination.read() == destination.picture());
}

// A kernel in flight still reads its table, even if a driver call reports that another context has failed.
TEST_F(batch, a_table_in_flight_is_not_reused_after_the_failure_of_another_context) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    if (!ferry_instance_get_proc(instance.get(), "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "the driver cannot load kernels";
    warm_up(instance.get());
    scattered first(place_kind::pinned, place_kind::device, 1000, 64, 5),
        second(place_kind::pinned, place_kind::device, 1000, 64, 6);
    const test_stream other;
    {
        const gate held(stream);
        driver.reset_counts();
        driver.fail("cuEventRecord", CUDA_ERROR_LAUNCH_FAILED);
        driver.fail("cuStreamSynchronize", CUDA_ERROR_LAUNCH_FAILED);
        EXPECT_EQ(first.batch.copy_async(instance.get(), stream),
                  FERRY_STATUS_DRIVER_BASE - static_cast<int>(CUDA_ERROR_LAUNCH_FAILED));
        EXPECT_EQ(driver.calls("cuLaunchKernel"), 1);
        EXPECT_EQ(driver.injected(), 2);
        EXPECT_OK(second.batch.copy_async(instance.get(), other));
        EXPECT_OK(raw().cuStreamSynchronize(other));
    }
    wait();
    first.expect_copied();
    second.expect_copied();
}

// ---- The contract

TEST_F(batch, an_empty_batch_and_empty_copies_succeed) {
    test_place device(place_kind::device, {.width = 64});
    EXPECT_OK(ferry_copy_batch(basic.get(), nullptr, 0, nullptr, nullptr));
    EXPECT_OK(ferry_copy_pieces(basic.get(), in_arrays(nullptr, nullptr, nullptr, 0), nullptr, nullptr));
    EXPECT_OK(ferry_copy_batch_async(basic.get(), nullptr, 0, nullptr, stream, nullptr, nullptr));
    EXPECT_OK(ferry_copy_pieces_async(basic.get(), in_arrays(nullptr, nullptr, nullptr, 0), nullptr, stream, nullptr,
                                      nullptr));
    piece_batch pieces;
    pieces.add(0, 0, 0);
    pieces.add(1, device.address(), 0);
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        EXPECT_OK(pieces.copy(instance, check_overlap));
        EXPECT_OK(pieces.copy_async(instance, stream));
    }
    const ferry_copy_desc nothing = {};
    EXPECT_OK(ferry_copy_batch(basic.get(), &nothing, 1, check_overlap, nullptr));
}

TEST_F(batch, null_arrays_are_refused) {
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy_batch(nullptr, nullptr, 0, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_copy_batch(basic.get(), nullptr, 1, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_copy_pieces(basic.get(), nullptr, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    const std::uint64_t words[3] = {};
    const in_arrays endless(&words[0], &words[1], &words[2], UINT64_MAX / 64);
    ferry_piece_list apart = endless.list;
    apart.stride = 24;
    expect_refusal(ferry_copy_pieces(basic.get(), &apart, nullptr, &error), error, FERRY_ERROR_OUT_OF_MEMORY,
                   FERRY_SIDE_NONE, FERRY_FIELD_NONE);
}

TEST_F(batch, a_bad_piece_is_refused_with_its_index_before_anything_is_enqueued) {
    test_place device(place_kind::device, {.width = 4096}), host(place_kind::pinned, {.width = 4096});
    device.fill(1);
    host.fill(2);
    const struct {
        const char *what;
        std::uint64_t to, from, size;
        std::int32_t status, side;
    } bad[] = {
        {"no source", device.address(), 0, 8, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE},
        {"no destination", 0, host.address(), 8, FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION},
        {"beyond 64 bits", UINT64_MAX - 3, host.address(), 8, FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT},
        {"onto itself", device.address(), device.address() + 4, 8, FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION},
        {"past the destination's end", device.address() + 4090, host.address(), 8, FERRY_ERROR_OUT_OF_BOUNDS,
         FERRY_SIDE_DESTINATION},
        {"past the source's end", host.address(), device.address() + 4090, 8, FERRY_ERROR_OUT_OF_BOUNDS,
         FERRY_SIDE_SOURCE},
    };
    for (ferry_instance *const instance : {basic.get(), full.get()})
        for (const auto &one : bad) {
            SCOPED_TRACE(one.what);
            constexpr std::uint64_t index = 37;
            piece_batch pieces;
            std::vector<ferry_copy_desc> copies;
            for (std::uint64_t i = 0; i < 50; ++i) {
                if (i == index)
                    pieces.add(one.to, one.from, one.size);
                else
                    pieces.add(device.address() + i * 16, host.address() + i * 32, 16);
                ferry_copy_desc copy = {};
                copy.source.address = pieces.from[i];
                copy.destination.address = pieces.to[i];
                copy.width = pieces.sizes[i];
                copies.push_back(copy);
            }
            for (const bool is_described : {false, true})
                for (const bool is_synchronous : {false, true}) {
                    ferry_error_info error = new_error();
                    const std::int32_t status =
                        is_described     ? is_synchronous
                                               ? ferry_copy_batch(instance, copies.data(), copies.size(), nullptr, &error)
                                               : ferry_copy_batch_async(instance, copies.data(), copies.size(), nullptr,
                                                                        stream, nullptr, &error)
                            : is_synchronous ? pieces.copy(instance, {}, &error)
                                         : pieces.copy_async(instance, stream, {}, &error);
                    EXPECT_STREQ(ferry_status_name(status), ferry_status_name(one.status)) << describe(error);
                    EXPECT_EQ(error.side, one.side) << describe(error);
                    EXPECT_EQ(error.index, index);
                    ferry_prepared *prepared = nullptr;
                    error = new_error();
                    EXPECT_EQ(pieces.prepare(instance, stream, {}, &prepared, &error), one.status);
                    EXPECT_EQ(error.index, index);
                    EXPECT_EQ(prepared, nullptr);
                }
        }
    wait();
    EXPECT_TRUE(device.read() == device.picture());
    EXPECT_TRUE(host.read() == host.picture());
}

// ---- Copies that the instance's options force onto a route that cannot serve them

struct end_of_piece {
    place_kind kind;
    int device = 0;
};

// Two pieces: the forced route supports only one of them.
struct half_refused {
    static constexpr std::size_t size = 4096;
    half_refused(const end_of_piece (&served)[2], const end_of_piece (&refused)[2], bool is_refused_first)
        : sources{{served[0].kind, {.width = size}, served[0].device},
                  {refused[0].kind, {.width = size}, refused[0].device}},
          destinations{{served[1].kind, {.width = size}, served[1].device},
                       {refused[1].kind, {.width = size}, refused[1].device}},
          refused_index(is_refused_first ? 1 : 2) {
        for (int i = 0; i < 2; ++i) {
            sources[i].fill(1 + i);
            destinations[i].fill(3 + i);
        }
        pieces.add(0, 0, 0); // an empty piece, so that no expected index is 0
        for (int i = 0; i < 2; ++i) {
            const int which = is_refused_first ? 1 - i : i;
            pieces.add(destinations[which].address(), sources[which].address(), size);
        }
        for (std::size_t i = 0; i < pieces.sizes.size(); ++i) {
            copies.emplace_back();
            copies.back().source.address = pieces.from[i];
            copies.back().destination.address = pieces.to[i];
            copies.back().width = pieces.sizes[i];
        }
    }
    void expect_untouched() const {
        for (const test_place &one : destinations)
            EXPECT_TRUE(one.read() == one.picture());
    }

    test_place sources[2], destinations[2];
    piece_batch pieces;
    std::vector<ferry_copy_desc> copies;
    std::uint64_t refused_index;
};

// Whether one piece by itself is refused with FERRY_ERROR_ROUTE.
bool is_route_refused(ferry_instance *instance, CUstream stream, const end_of_piece &from, const end_of_piece &to,
                      ferry_error_info *error = nullptr) {
    const test_place source(from.kind, {.width = half_refused::size}, from.device);
    const test_place destination(to.kind, {.width = half_refused::size}, to.device);
    piece_batch one;
    one.add(destination.address(), source.address(), half_refused::size);
    const std::int32_t status = one.copy_async(instance, stream, {}, error);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    return status == FERRY_ERROR_ROUTE;
}

std::vector<end_of_piece> ends_of_pieces() {
    std::vector<end_of_piece> ends = {{place_kind::pageable}, {place_kind::pinned}, {place_kind::device}};
    if (is_supported(place_kind::managed)) ends.push_back({place_kind::managed});
    if (device_count() > 1) ends.push_back({place_kind::device, 1});
    return ends;
}

TEST_F(batch, a_piece_is_refused_if_the_forced_route_does_not_serve_a_single_copy_of_it) {
    for (const how &forced : {by_staging, by_kernel, by_relay}) {
        ferry_options options = options_under_test();
        options.copy_options = forced;
        const instance_owner instance = open_or_fail(options);
        for (const end_of_piece &from : ends_of_pieces())
            for (const end_of_piece &to : ends_of_pieces()) {
                SCOPED_TRACE(testing::Message() << forced << ": " << name_of(from.kind) << from.device << " to "
                                                << name_of(to.kind) << to.device);
                const test_place source(from.kind, {.width = half_refused::size}, from.device);
                const test_place destination(to.kind, {.width = half_refused::size}, to.device);
                ferry_error_info error = new_error(), of_piece = new_error();
                const std::int32_t single =
                    ferry_copy_bytes_async(instance.get(), destination.address(), source.address(), half_refused::size,
                                           nullptr, stream, nullptr, &error);
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                if (single != FERRY_ERROR_ROUTE) {
                    EXPECT_OK(single);
                    continue;
                }
                EXPECT_TRUE(is_route_refused(instance.get(), stream, from, to, &of_piece));
                EXPECT_EQ(of_piece.numbers, FERRY_NUMBERS_OBSTACLE) << describe(of_piece);
                EXPECT_EQ(ferry_obstacle_text(static_cast<std::int32_t>(of_piece.value)),
                          ferry_obstacle_text(static_cast<std::int32_t>(error.value)));
            }
    }
}

TEST_F(batch, a_batch_with_a_copy_that_its_route_cannot_serve_copies_nothing_and_names_that_copy) {
    const std::vector<end_of_piece> ends = ends_of_pieces();
    struct pair {
        end_of_piece ends[2];
    };
    for (const how &forced : {by_staging, by_staging | no_kernels, by_kernel, by_relay, by_relay | no_kernels}) {
        ferry_options options = options_under_test();
        options.copy_options = forced;
        const instance_owner instance = open_or_fail(options);
        std::vector<pair> served, refused;
        for (const end_of_piece &from : ends)
            for (const end_of_piece &to : ends)
                (is_route_refused(instance.get(), stream, from, to) ? refused : served).push_back({{from, to}});
        EXPECT_FALSE(refused.empty());
        for (const pair &one : served)
            for (const pair &other : refused)
                for (const bool is_refused_first : {false, true}) {
                    SCOPED_TRACE(testing::Message() << forced << ": " << name_of(one.ends[0].kind) << one.ends[0].device
                                                    << " to " << name_of(one.ends[1].kind) << one.ends[1].device
                                                    << ", and refused: " << name_of(other.ends[0].kind)
                                                    << other.ends[0].device << " to " << name_of(other.ends[1].kind)
                                                    << other.ends[1].device << (is_refused_first ? ", first" : ""));
                    const half_refused both(one.ends, other.ends, is_refused_first);
                    const piece_batch &pieces = both.pieces;
                    ferry_prepared *prepared = nullptr;
                    ferry_batch_explanation explanation = {};
                    explanation.struct_size = sizeof explanation;
                    const std::size_t count = pieces.sizes.size();
                    ferry_error_info error = new_error();
                    const auto expect_refused = [&](std::int32_t status) {
                        EXPECT_EQ(status, FERRY_ERROR_ROUTE) << describe(error);
                        EXPECT_EQ(error.index, both.refused_index) << describe(error);
                    };
                    expect_refused(pieces.copy_async(instance.get(), stream, {}, &error));
                    expect_refused(pieces.copy(instance.get(), {}, &error));
                    expect_refused(ferry_copy_batch_async(instance.get(), both.copies.data(), count, nullptr, stream,
                                                          nullptr, &error));
                    expect_refused(pieces.prepare(instance.get(), stream, {}, &prepared, &error));
                    expect_refused(pieces.prepare(instance.get(), stream, forced | updatable, &prepared, &error));
                    expect_refused(ferry_copy_pieces_explain_async(
                        instance.get(), in_arrays(pieces.to.data(), pieces.from.data(), pieces.sizes.data(), count),
                        nullptr, stream, &explanation, &error));
                    EXPECT_EQ(prepared, nullptr);
                    wait();
                    both.expect_untouched();
                    if (HasFailure()) return;
                }
    }
}

TEST_F(batch, a_failed_memory_query_reports_the_index_of_its_copy) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    constexpr std::uint64_t size = 64, count = 3;
    const device_memory destinations[count] = {device_memory(size), device_memory(size), device_memory(size)};
    const pinned_memory sources[count] = {pinned_memory(size), pinned_memory(size), pinned_memory(size)};
    piece_batch pieces;
    std::vector<ferry_copy_desc> copies(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        pieces.add(destinations[i], at(sources[i].address), size);
        copies[i].destination.address = destinations[i];
        copies[i].source.address = at(sources[i].address);
        copies[i].width = size;
    }
    ferry_error_info error = new_error();
    ferry_prepared *prepared = nullptr;
    const struct {
        const char *name;
        std::function<std::int32_t()> call;
    } calls[] = {
        {"ferry_copy_batch", [&] { return ferry_copy_batch(instance.get(), copies.data(), count, nullptr, &error); }},
        {"ferry_copy_batch_async",
         [&] {
             return ferry_copy_batch_async(instance.get(), copies.data(), count, nullptr, stream, nullptr, &error);
         }},
        {"ferry_copy_pieces", [&] { return pieces.copy(instance.get(), {}, &error); }},
        {"ferry_copy_pieces_async", [&] { return pieces.copy_async(instance.get(), stream, {}, &error); }},
        {"ferry_prepared_create",
         [&] {
             return ferry_prepared_create(instance.get(), copies.data(), count, nullptr, stream, &prepared, &error);
         }},
        {"ferry_prepared_create_pieces", [&] { return pieces.prepare(instance.get(), stream, {}, &prepared, &error); }},
    };
    for (const auto &each : calls) {
        SCOPED_TRACE(each.name);
        ASSERT_OK(each.call()); // loads kernels and allocates tables, which also queries memory
        ASSERT_OK(ferry_prepared_destroy(std::exchange(prepared, nullptr), nullptr));
        wait();
        bool is_index_seen[count] = {};
        bool has_failed = true;
        for (int nth = 1; has_failed; ++nth) {
            driver.reset_counts();
            driver.fail("cuPointerGetAttributes", CUDA_ERROR_UNKNOWN, nth);
            const std::int32_t status = each.call();
            driver.heal();
            has_failed = driver.injected() != 0;
            ASSERT_OK(ferry_prepared_destroy(std::exchange(prepared, nullptr), nullptr));
            EXPECT_EQ(error.status, status);
            EXPECT_EQ(error.side, FERRY_SIDE_NONE);
            ASSERT_LT(error.index, count);
            if (!status) continue;
            EXPECT_EQ(status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN) << describe(error);
            is_index_seen[error.index] = true;
        }
        EXPECT_EQ(error.index, 0u) << "after a success";
        wait();
        for (std::uint64_t i = 0; i < count; ++i)
            EXPECT_TRUE(is_index_seen[i]) << i;
    }
}

TEST_F(batch, the_index_of_a_refused_copy_counts_merged_pieces) {
    ferry_options options = options_under_test();
    options.copy_options = by_kernel;
    const instance_owner instance = open_or_fail(options);
    const test_place device(place_kind::device, {.width = 1000}), pinned(place_kind::pinned, {.width = 1000}),
        pageable(place_kind::pageable, {.width = 1000});
    std::vector<ferry_copy_desc> copies;
    const auto add = [&](const test_place &from, std::uint64_t at, std::uint64_t width, std::uint64_t height) {
        copies.push_back(describe_copy(from.describe(statement::any), device.describe(statement::any), width, height));
        for (ferry_place *const place : {&copies.back().source, &copies.back().destination}) {
            place->address += at;
            place->row_pitch = place->slice_height = 0;
        }
    };
    for (std::uint64_t i = 0; i < 4; ++i)
        add(pinned, 50 * i, 50, 1); // merged
    for (std::uint64_t i = 4; i < 8; ++i)
        add(pageable, 50 * i, 50, 1); // merged, and refused
    add(pinned, 500, 50, 4);
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy_batch_async(instance.get(), copies.data(), copies.size(), nullptr, stream, nullptr, &error),
              FERRY_ERROR_ROUTE);
    EXPECT_EQ(error.index, 4u) << describe(error);
}

TEST_F(batch, forced_staging_of_unreadable_memory_is_refused_before_readable_pieces_are_copied) {
    if (!raw().cuLibraryLoadData) GTEST_SKIP() << "without kernels nothing is staged";
    for (const how &forced : {by_staging, by_staging | no_kernels}) {
        ferry_options options = options_under_test();
        options.copy_options = forced;
        const instance_owner instance = open_or_fail(options);
        const mapped_memory none(4096, page_access::none);
        test_place source(place_kind::pageable, {.width = 4096}), destination(place_kind::device, {.width = 2 * 4096});
        source.fill(1);
        destination.fill(2);
        piece_batch pieces;
        pieces.add(destination.address(), source.address(), 4096);
        pieces.add(destination.address() + 4096, none.address(), 4096);
        ferry_prepared *prepared = nullptr;
        ferry_error_info error = new_error();
        EXPECT_EQ(pieces.copy_async(instance.get(), stream, {}, &error), FERRY_ERROR_ROUTE);
        EXPECT_EQ(pieces.prepare(instance.get(), stream, {}, &prepared, &error), FERRY_ERROR_ROUTE);
        wait();
        EXPECT_TRUE(destination.read() == destination.picture());
    }
}

TEST_F(batch, a_bad_descriptor_is_refused_with_its_index_and_field) {
    const grid shape = {.width = 64, .height = 8, .element_size = 4};
    test_place device(place_kind::device, shape), host(place_kind::pinned, shape), array(place_kind::array_2d, shape);
    for (test_place *const place : {&device, &host, &array})
        place->fill(1);
    std::vector<ferry_copy_desc> good;
    for (std::uint64_t y = 0; y < 8; ++y)
        good.push_back(describe_copy(host.describe(statement::stated, {.y = y}),
                                     device.describe(statement::stated, {.y = y}), 60));
    const struct {
        void (*spoil)(ferry_copy_desc &);
        std::int32_t status, side, field;
    } bad[] = {
        {[](ferry_copy_desc &copy) { copy.reserved[1] = 0x80; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
         FERRY_FIELD_RESERVED},
        {[](ferry_copy_desc &copy) { copy.source.kind = 9; }, FERRY_ERROR_KIND, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND},
        {[](ferry_copy_desc &copy) { copy.destination.device = 99; }, FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_DEVICE},
        {[](ferry_copy_desc &copy) { copy.height = 2, copy.source.row_pitch = 8; }, FERRY_ERROR_PITCH,
         FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH},
    };
    for (const auto &one : bad) {
        std::vector<ferry_copy_desc> copies = good;
        one.spoil(copies[5]);
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy_batch(basic.get(), copies.data(), copies.size(), nullptr, &error), error, one.status,
                       one.side, one.field);
        EXPECT_EQ(error.index, 5u);
    }
    std::vector<ferry_copy_desc> copies = good;
    copies[6] = describe_copy(host.describe(statement::stated, {.y = 6}),
                              array.describe(statement::stated, {.x = 8, .y = 6}), 60);
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_batch(basic.get(), copies.data(), copies.size(), nullptr, &error), error,
                   FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, FERRY_FIELD_X);
    EXPECT_EQ(error.index, 6u);
    EXPECT_TRUE(device.read() == device.picture());
}

TEST_F(batch, full_checks_verify_the_stated_kinds) {
    test_place device(place_kind::device, {.width = 256}), host(place_kind::pinned, {.width = 256});
    std::vector<ferry_copy_desc> copies;
    for (std::uint64_t i = 0; i < 4; ++i)
        copies.push_back(describe_copy(host.describe(statement::stated, {.x = 64 * i}),
                                       device.describe(statement::stated, {.x = 64 * i}), 32));
    ASSERT_OK(ferry_copy_batch(full.get(), copies.data(), copies.size(), nullptr, nullptr));
    copies[2].destination.kind = FERRY_KIND_HOST;
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_batch(full.get(), copies.data(), copies.size(), nullptr, &error), error,
                   FERRY_ERROR_OTHER_KIND, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND);
    EXPECT_EQ(error.index, 2u);
}

TEST_F(batch, overlap_between_copies_is_found_on_request) {
    test_place device(place_kind::device, {.width = 8192}), host(place_kind::pinned, {.width = 8192});
    device.fill(1);
    const std::uint64_t to = device.address(), from = host.address();
    const struct {
        const char *what;
        piece_batch pieces;
        bool is_found;
        std::uint64_t index, other;
        std::int32_t side = FERRY_SIDE_DESTINATION;
    } cases[] = {
        {"two destinations share a byte", {{to, to + 100, to + 15}, {from, from, from}, {16, 16, 16}}, true, 2, 0},
        {"destinations touch", {{to, to + 16, to + 32}, {from, from, from}, {16, 16, 16}}, false, 0, 0},
        {"sources may be shared", {{to, to + 64}, {from, from + 1}, {16, 16}}, false, 0, 0},
        {"a source is another's destination",
         {{to, to + 64}, {from, to + 15}, {16, 16}},
         true,
         1,
         0,
         FERRY_SIDE_SOURCE},
        {"… the other way round", {{to + 64, to}, {to + 15, from}, {16, 16}}, true, 1, 0},
        {"a long one over a short one", {{to + 50, to}, {from, from}, {4, 1000}}, true, 1, 0},
        {"nothing covers nothing", {{to, to, to + 8}, {from, from, from}, {16, 0, 0}}, false, 0, 0},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(one.what);
        ferry_error_info error = new_error();
        const std::int32_t status = one.pieces.copy(basic.get(), check_overlap, &error);
        if (!one.is_found) {
            EXPECT_OK(status) << describe(error);
            continue;
        }
        expect_refusal(status, error, FERRY_ERROR_OVERLAP, one.side, FERRY_FIELD_ADDRESS);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_COPY);
        EXPECT_EQ(error.index, one.index);
        EXPECT_EQ(error.value, one.index);
        EXPECT_EQ(error.limit, one.other);
        EXPECT_OK(one.pieces.copy(basic.get())) << "without the flag nothing is checked";
    }
}

TEST_F(batch, columns_of_one_image_interleave_without_overlap) {
    const grid shape = {.width = 64, .height = 16, .row_pitch = 64, .element_size = 4};
    for (const place_kind kind : {place_kind::device, place_kind::array_2d}) {
        test_place image(kind, shape), host(place_kind::pinned, shape);
        host.fill(1);
        image.fill(2);
        std::vector<ferry_copy_desc> columns;
        for (std::uint64_t x = 0; x < 64; x += 8)
            columns.push_back(describe_copy(host.describe(statement::stated, {.x = x}),
                                            image.describe(statement::stated, {.x = x}), 8, 16));
        ferry_error_info error = new_error();
        ASSERT_OK(ferry_copy_batch(basic.get(), columns.data(), columns.size(), check_overlap, &error))
            << describe(error);
        reference_copy(host, {}, image, {}, 64, 16, 1);
        EXPECT_TRUE(image.read() == image.picture());
        columns[5].destination.x -= 4;
        expect_refusal(ferry_copy_batch(basic.get(), columns.data(), columns.size(), check_overlap, &error), error,
                       FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION,
                       kind == place_kind::array_2d ? FERRY_FIELD_ARRAY : FERRY_FIELD_ADDRESS);
        EXPECT_EQ(error.index, 5u);
        EXPECT_EQ(error.limit, 4u);
    }
}

TEST_F(batch, batches_run_on_every_default_stream_with_and_without_a_current_context) {
    CUcontext const contexts[] = {context, nullptr};
    std::uint64_t seed = 300;
    for (CUstream const on : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
        for (CUcontext const current : contexts) {
            scattered pieces(place_kind::pinned, place_kind::device, 300, 200, seed++);
            {
                const made_current as(current);
                ASSERT_OK(pieces.batch.copy_async(basic.get(), on));
                CUcontext after = nullptr;
                EXPECT_OK(raw().cuCtxGetCurrent(&after));
                EXPECT_EQ(after, current);
            }
            ASSERT_OK(raw().cuCtxSynchronize());
            pieces.expect_copied();
        }
}

TEST_F(batch, a_batch_without_a_context_runs_on_the_device_of_its_first_copy_that_has_one) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    scattered pieces(place_kind::pinned, place_kind::pool, 20, 100, 400, 0, 1);
    {
        const made_current none(nullptr);
        ASSERT_OK(pieces.batch.copy(basic.get()));
    }
    pieces.expect_copied();
}

TEST_F(batch, a_batch_runs_after_earlier_and_before_later_work_on_its_stream) {
    constexpr std::size_t size = 1 << 16, count = 256;
    test_place first(place_kind::pinned, {.width = size}), middle(place_kind::device, {.width = size}),
        last(place_kind::pinned, {.width = size});
    first.fill(1);
    middle.fill(2);
    last.fill(3);
    piece_batch down;
    for (std::uint64_t i = 0; i < count; ++i)
        down.add(last.address() + i * (size / count), middle.address() + (count - 1 - i) * (size / count),
                 size / count - 1);
    test_stream on(CU_STREAM_NON_BLOCKING);
    warm_up(basic.get());
    {
        gate held(on);
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), middle.address(), first.address(), size, nullptr, on, nullptr,
                                         nullptr));
        ASSERT_OK(down.copy_async(basic.get(), on));
        ASSERT_OK(
            ferry_copy_bytes_async(basic.get(), middle.address(), last.address(), size, nullptr, on, nullptr, nullptr));
        EXPECT_TRUE(last.read() == last.picture()) << "nothing may run behind the gate";
    }
    ASSERT_OK(raw().cuStreamSynchronize(on));
    reference_copy(first, {}, middle, {}, size, 1, 1);
    for (std::uint64_t i = 0; i < count; ++i)
        reference_copy(middle, {.x = (count - 1 - i) * (size / count)}, last, {.x = i * (size / count)},
                       size / count - 1, 1, 1);
    reference_copy(last, {}, middle, {}, size, 1, 1);
    EXPECT_TRUE(last.read() == last.picture());
    EXPECT_TRUE(middle.read() == middle.picture());
}

TEST_F(batch, the_arrays_of_a_call_are_read_before_it_returns) {
    scattered pieces(place_kind::pinned, place_kind::device, 1000, 64, 500);
    warm_up(basic.get());
    {
        gate held(stream);
        ASSERT_OK(pieces.batch.copy_async(basic.get(), stream));
        for (auto *const array : {&pieces.batch.to, &pieces.batch.from, &pieces.batch.sizes})
            std::fill(array->begin(), array->end(), 0x5555555555555555);
    }
    wait();
    pieces.expect_copied();
}

// ---- Pieces that need several driver calls

TEST_F(batch, pieces_may_cross_registrations_and_pageable_memory) {
    constexpr std::uint64_t page = 4096;
    bytes memory(8 * page);
    const std::uint64_t base = (at(memory.data()) + page - 1) / page * page;
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        // Two adjacent registrations, then pageable memory.
        ASSERT_OK(ferry_host_register(instance, reinterpret_cast<void *>(base), page, 0, nullptr));
        ASSERT_OK(ferry_host_register(instance, reinterpret_cast<void *>(base + page), page, 0, nullptr));
        test_place device(place_kind::device, {.width = 8 * page});
        device.fill(1);
        const bytes data = random_bytes(4 * page, 2);
        std::memcpy(reinterpret_cast<void *>(base), data.data(), data.size());
        piece_batch pieces;
        pieces.add(device.address() + 5, base + 100, 3 * page);
        pieces.add(device.address() + 4 * page, base + page - 7, 14);
        pieces.add(device.address() + 5 * page, base + 3 * page, 64);
        ferry_error_info error = new_error();
        EXPECT_OK(pieces.copy(instance, {}, &error)) << describe(error) << " at " << error.index;
        const bytes copied = device.read();
        for (std::size_t i = 0; i < 3; ++i)
            EXPECT_EQ(0, std::memcmp(copied.data() + (pieces.to[i] - device.address()),
                                     data.data() + (pieces.from[i] - base), pieces.sizes[i]))
                << i;
        EXPECT_OK(ferry_host_unregister(instance, reinterpret_cast<void *>(base), nullptr));
        EXPECT_OK(ferry_host_unregister(instance, reinterpret_cast<void *>(base + page), nullptr));
    }
}

// ---- Graphs

TEST_F(batch, a_captured_batch_copies_at_every_launch_of_the_graph) {
    std::uint64_t seed = 600;
    for (const auto &[from, to] : {std::pair{place_kind::pinned, place_kind::device},
                                   {place_kind::device, place_kind::pinned},
                                   {place_kind::device, place_kind::device}})
        for (const std::size_t count : {3, 400}) {
            scattered pieces(from, to, count, 100, seed++);
            captured_graph graph(stream);
            ASSERT_OK(pieces.batch.copy_async(basic.get(), stream));
            graph.end();
            EXPECT_TRUE(pieces.destination.read() == pieces.destination.picture()) << "captured copies must not run";
            for (int round = 0; round < 2; ++round) {
                pieces.source.fill(seed * 10 + static_cast<std::uint64_t>(round));
                graph.run();
                pieces.expect_copied();
            }
        }
}

// ---- Prepared

struct prepared_owner {
    ~prepared_owner() { EXPECT_OK(ferry_prepared_destroy(handle, nullptr)); }
    ferry_prepared *handle = nullptr;
};

TEST_F(batch, a_prepared_batch_can_be_launched_repeatedly_on_any_stream_of_its_device) {
    std::uint64_t seed = 700;
    test_stream other;
    for (const place_kind from : linear_kinds)
        for (const place_kind to : linear_kinds) {
            if (!is_supported(from) || !is_supported(to)) continue;
            SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
            scattered pieces(from, to, 300, 90, seed++);
            prepared_owner prepared;
            ASSERT_OK(pieces.batch.prepare(basic.get(), stream, {}, &prepared.handle));
            for (CUstream const on : {stream, other.handle, CUstream{}, CU_STREAM_PER_THREAD}) {
                pieces.source.fill(seed++);
                ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, on, nullptr, nullptr));
                ASSERT_OK(raw().cuStreamSynchronize(on));
                pieces.expect_copied();
            }
        }
}

TEST_F(batch, a_prepared_batch_of_descriptors_can_be_launched) {
    mixture mixed(11);
    prepared_owner prepared;
    ASSERT_OK(ferry_prepared_create(basic.get(), mixed.copies.data(), mixed.copies.size(), check_overlap, nullptr,
                                    &prepared.handle, nullptr));
    ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
    wait();
    mixed.expect_copied();
    EXPECT_EQ(ferry_prepared_set_addresses(prepared.handle, in_arrays(nullptr, nullptr, nullptr, mixed.copies.size()),
                                           stream, nullptr),
              FERRY_ERROR_UNSUPPORTED);
}

TEST_F(batch, an_empty_prepared_batch_does_nothing) {
    prepared_owner prepared;
    ASSERT_OK(ferry_prepared_create(basic.get(), nullptr, 0, nullptr, stream, &prepared.handle, nullptr));
    EXPECT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
    EXPECT_OK(ferry_prepared_destroy(nullptr, nullptr));
    EXPECT_EQ(ferry_prepared_launch(nullptr, nullptr, stream, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_prepared_create(basic.get(), nullptr, 0, nullptr, stream, nullptr, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(batch, a_prepared_batch_is_refused_on_streams_of_another_device) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    scattered pieces(place_kind::pinned, place_kind::device, 10, 90, 750);
    prepared_owner prepared;
    ASSERT_OK(pieces.batch.prepare(basic.get(), stream, {}, &prepared.handle));
    const other_device other;
    const made_current as(other);
    const test_stream elsewhere;
    ferry_error_info error = new_error();
    expect_refusal(ferry_prepared_launch(prepared.handle, nullptr, elsewhere, nullptr, &error), error,
                   FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE);
}

TEST_F(batch, a_prepared_batch_may_be_destroyed_while_its_launches_are_in_flight) {
    scattered pieces(place_kind::pinned, place_kind::device, 1000, 90, 760);
    ferry_prepared *prepared = nullptr;
    ASSERT_OK(pieces.batch.prepare(basic.get(), stream, {}, &prepared));
    for (int i = 0; i < 20; ++i)
        ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
    EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
    wait();
    pieces.expect_copied();
}

// The pieces of a page cache: each step copies to other pages.
struct pages {
    pages(place_kind from, place_kind to, std::size_t count, std::uint64_t seed)
        : source(from, {.width = count * page}), destination(to, {.width = 2 * count * page}), count(count) {
        source.fill(seed);
        destination.fill(seed + 1);
        shuffle(seed);
    }
    void shuffle(std::uint64_t seed) {
        std::mt19937_64 random(seed);
        offsets.resize(2 * count);
        for (std::size_t i = 0; i < 2 * count; ++i)
            offsets[i] = i * page;
        std::shuffle(offsets.begin(), offsets.end(), random);
        batch = {};
        for (std::size_t i = 0; i < count; ++i)
            batch.add(destination.address() + offsets[i], source.address() + (count - 1 - i) * page, page - 16);
    }
    void expect_copied() {
        for (std::size_t i = 0; i < count; ++i)
            reference_copy(source, {.x = (count - 1 - i) * page}, destination, {.x = offsets[i]}, page - 16, 1, 1);
        EXPECT_TRUE(destination.read() == destination.picture());
    }
    static constexpr std::uint64_t page = 128;
    test_place source, destination;
    std::size_t count;
    std::vector<std::uint64_t> offsets;
    piece_batch batch;
};

TEST_F(batch, new_addresses_apply_to_later_launches) {
    std::uint64_t seed = 800;
    for (const place_kind from : linear_kinds)
        for (const place_kind to : linear_kinds) {
            if (!is_supported(from) || !is_supported(to)) continue;
            SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
            pages cache(from, to, 500, seed++);
            prepared_owner prepared;
            ASSERT_OK(cache.batch.prepare(basic.get(), stream, updatable, &prepared.handle));
            for (int step = 0; step < 3; ++step) {
                ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
                wait();
                cache.expect_copied();
                cache.shuffle(seed++);
                ferry_error_info error = new_error();
                ASSERT_OK(ferry_prepared_set_addresses(
                    prepared.handle, in_arrays(cache.batch.to.data(), nullptr, nullptr, cache.batch.to.size()), stream,
                    &error))
                    << describe(error);
            }
        }
}

TEST_F(batch, a_graph_of_a_changeable_batch_reads_its_current_addresses_or_is_refused) {
    std::uint64_t seed = 900;
    for (const auto &[from, to] : {std::pair{place_kind::pinned, place_kind::device},
                                   {place_kind::device, place_kind::pinned},
                                   {place_kind::device, place_kind::device}}) {
        pages cache(from, to, 600, seed++);
        prepared_owner prepared;
        ASSERT_OK(cache.batch.prepare(basic.get(), stream, updatable, &prepared.handle));
        captured_graph graph(stream);
        const std::int32_t status = ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr);
        EXPECT_EQ(ferry_prepared_set_addresses(
                      prepared.handle, in_arrays(nullptr, nullptr, nullptr, cache.batch.to.size()), stream, nullptr),
                  FERRY_ERROR_CAPTURE);
        graph.end();
        if (status == FERRY_ERROR_CAPTURE) continue; // no kernels can serve this batch
        ASSERT_OK(status);
        for (int step = 0; step < 3; ++step) {
            graph.run();
            cache.expect_copied();
            cache.shuffle(seed++);
            ASSERT_OK(ferry_prepared_set_addresses(
                prepared.handle,
                in_arrays(cache.batch.to.data(), cache.batch.from.data(), nullptr, cache.batch.to.size()), stream,
                nullptr));
        }
    }
}

TEST_F(batch, a_captured_prepared_batch_copies_at_every_launch_of_the_graph) {
    std::uint64_t seed = 950;
    for (const std::size_t count : {5, 700}) {
        scattered pieces(place_kind::pinned, place_kind::device, count, 100, seed++);
        prepared_owner prepared;
        ASSERT_OK(pieces.batch.prepare(basic.get(), stream, {}, &prepared.handle));
        captured_graph graph(stream);
        ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
        graph.end();
        for (int round = 0; round < 2; ++round) {
            pieces.source.fill(seed++);
            graph.run();
            pieces.expect_copied();
        }
    }
}

TEST_F(batch, bad_new_addresses_are_refused_with_their_index_and_the_old_addresses_remain) {
    pages cache(place_kind::pinned, place_kind::device, 300, 970);
    test_place elsewhere(place_kind::pinned, {.width = 4096});
    prepared_owner prepared;
    ASSERT_OK(cache.batch.prepare(basic.get(), stream, updatable | check_overlap, &prepared.handle));
    const struct {
        const char *what;
        std::uint64_t to;
        std::int32_t status;
    } bad[] = {
        {"other memory", elsewhere.address() / 128 * 128 + 128, FERRY_ERROR_OUT_OF_MEMORY},
        {"another alignment", cache.batch.to[7] + 1, FERRY_ERROR_ALIGNMENT},
        {"beyond the end", cache.destination.address() + 2 * 300 * pages::page - 16, FERRY_ERROR_OUT_OF_BOUNDS},
        {"nothing", 0, FERRY_ERROR_ADDRESS},
        {"another's destination", cache.batch.to[3], FERRY_ERROR_OVERLAP},
    };
    for (const auto &one : bad) {
        SCOPED_TRACE(one.what);
        std::vector<std::uint64_t> to = cache.batch.to;
        to[7] = one.to;
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_prepared_set_addresses(
            prepared.handle, in_arrays(to.data(), nullptr, nullptr, to.size()), stream, &error);
        if (one.status == FERRY_ERROR_OUT_OF_MEMORY) // pinned to pinned: the kind differs, or even the alignment
            EXPECT_TRUE(status == FERRY_ERROR_OTHER_KIND || status == FERRY_ERROR_ALIGNMENT) << describe(error);
        else
            EXPECT_STREQ(ferry_status_name(status), ferry_status_name(one.status)) << describe(error);
        EXPECT_EQ(error.index, 7u);
    }
    ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
    wait();
    cache.expect_copied();
}

// ---- Failures and threads

struct counting_allocator {
    std::atomic<long> live = 0;
    std::atomic<long> calls = 0;
    long fail_at = 0; // the number of the call that fails; 0: none
    static void *allocate(void *self, std::uint64_t size, std::uint64_t alignment) {
        auto &of = *static_cast<counting_allocator *>(self);
        if (++of.calls == of.fail_at) return nullptr;
        ++of.live;
        return allocate_aligned(size, alignment);
    }
    static void deallocate(void *self, void *memory, std::uint64_t) {
        --static_cast<counting_allocator *>(self)->live;
        free_aligned(memory);
    }
};

TEST_F(batch, a_failure_of_any_driver_call_is_reported_and_leaks_nothing) {
    fault_driver driver(raw_entry_points());
    counting_allocator memory;
    ferry_options options = driver.options();
    options.allocate = counting_allocator::allocate;
    options.deallocate = counting_allocator::deallocate;
    options.allocate_user = &memory;
    scattered up(place_kind::pinned, place_kind::device, 400, 60, 1000),
        apart(place_kind::pageable, place_kind::device, 4, 60, 1001);
    piece_batch all = up.batch;
    for (std::size_t i = 0; i < apart.batch.to.size(); ++i)
        all.add(apart.batch.to[i], apart.batch.from[i], apart.batch.sizes[i]);
    const char *const entries[] = {"cuCtxGetCurrent",
                                   "cuStreamGetCtx",
                                   "cuPointerGetAttributes",
                                   "cuMemcpy3DAsync",
                                   "cuMemcpyBatchAsync",
                                   "cuLaunchKernel",
                                   "cuMemAlloc",
                                   "cuMemFree",
                                   "cuStreamSynchronize",
                                   "cuEventRecord",
                                   "cuStreamCreateWithPriority"};
    for (const char *const entry : entries)
        for (int nth = 1; nth <= 3; ++nth) {
            SCOPED_TRACE(testing::Message() << entry << " fails at its call number " << nth);
            {
                const instance_owner instance = open_or_fail(options);
                driver.fail(entry, CUDA_ERROR_LAUNCH_FAILED, nth, true);
                const auto expect_told = [](std::int32_t status) {
                    const bool is_reported =
                        status == FERRY_SUCCESS ||
                        status == FERRY_STATUS_DRIVER_BASE - static_cast<int>(CUDA_ERROR_LAUNCH_FAILED);
                    EXPECT_TRUE(is_reported) << ferry_status_name(status);
                };
                // All calls write the same memory. A failed call may leave copies in flight, so the test waits after
                // each.
                expect_told(all.copy_async(instance.get(), stream));
                EXPECT_OK(raw().cuCtxSynchronize());
                expect_told(all.copy(instance.get()));
                EXPECT_OK(raw().cuCtxSynchronize());
                ferry_prepared *prepared = nullptr;
                expect_told(all.prepare(instance.get(), stream, updatable, &prepared));
                if (prepared) {
                    expect_told(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
                    expect_told(ferry_prepared_set_addresses(
                        prepared, in_arrays(all.to.data(), all.from.data(), nullptr, all.to.size()), stream, nullptr));
                    expect_told(ferry_prepared_destroy(prepared, nullptr));
                }
                driver.heal();
                wait();
                EXPECT_OK(raw().cuCtxSynchronize());
                CUcontext current = nullptr;
                EXPECT_OK(raw().cuCtxGetCurrent(&current));
                EXPECT_EQ(current, context);
                ASSERT_OK(all.copy(instance.get())) << "the instance must work after the failure";
            }
            EXPECT_EQ(memory.live, 0);
        }
    up.expect_copied();
    apart.expect_copied();
}

// Each box needs a call of its own. The test waits only for the batch.
TEST_F(batch, a_synchronous_batch_that_fails_midway_waits_and_completes_each_other_copy_or_does_not_begin_it) {
    constexpr std::uint64_t width = 1 << 19, height = 2;
    constexpr grid shape = {.width = width, .height = height, .row_pitch = width + 64};
    constexpr int count = 6, refused = 4;
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    std::vector<std::unique_ptr<test_place>> sources, destinations;
    std::vector<ferry_copy_desc> copies;
    for (int i = 0; i < count; ++i) {
        sources.push_back(std::make_unique<test_place>(place_kind::device, shape));
        destinations.push_back(std::make_unique<test_place>(place_kind::pinned, shape));
        sources[i]->fill(10 + i);
        destinations[i]->fill(20 + i);
        copies.push_back(describe_copy(sources[i]->describe(statement::stated),
                                       destinations[i]->describe(statement::stated), width, height));
    }
    driver.fail("cuMemcpy3DAsync", CUDA_ERROR_INVALID_VALUE, refused);
    EXPECT_EQ(ferry_copy_batch(instance.get(), copies.data(), copies.size(), by_driver, nullptr),
              FERRY_STATUS_DRIVER_BASE - static_cast<int>(CUDA_ERROR_INVALID_VALUE));
    driver.heal();
    for (int i = 0; i < count; ++i) {
        const bytes now = destinations[i]->read();
        const bool is_untouched = now == destinations[i]->picture();
        reference_copy(*sources[i], {}, *destinations[i], {}, width, height, 1);
        EXPECT_TRUE(is_untouched || now == destinations[i]->picture()) << "copy " << i << " was made in part";
        EXPECT_EQ(is_untouched, i >= refused - 1) << "copy " << i;
    }
}

TEST_F(batch, copies_that_overlap_change_only_their_destinations) {
    for (const place_kind from : {place_kind::pageable, place_kind::pinned, place_kind::device}) {
        SCOPED_TRACE(name_of(from));
        constexpr std::uint64_t size = 60'000, margin = 1000, shift = 100;
        test_place source(from, {.width = size}), destination(place_kind::device, {.width = size});
        source.fill(1);
        destination.fill(2);
        piece_batch pieces; // each destination overlaps the next
        for (std::uint64_t at = margin; at + 2 * shift <= size - margin; at += shift)
            pieces.add(destination.address() + at, source.address() + at / 2, 2 * shift);
        pieces.add(destination.address() + margin, destination.address() + 2 * margin, 3 * shift); // and a source
        ASSERT_OK(pieces.copy(basic.get()));
        const bytes now = destination.read(), before = destination.picture();
        EXPECT_TRUE(std::equal(now.begin(), now.begin() + margin, before.begin()));
        EXPECT_TRUE(std::equal(now.end() - margin, now.end(), before.end() - margin));
        EXPECT_TRUE(source.read() == source.picture());
    }
}

TEST_F(batch, copies_that_the_driver_refuses_as_a_batch_are_made_one_by_one) {
    fault_driver driver(raw_entry_points());
    driver.hide("cuLaunchKernel");
    const instance_owner instance = open_or_fail(driver.options());
    scattered pieces(place_kind::pinned, place_kind::device, 60, 60, 1010);
    driver.fail("cuMemcpyBatchAsync", CUDA_ERROR_NOT_SUPPORTED, 1, true);
    ASSERT_OK(pieces.batch.copy_async(instance.get(), stream));
    EXPECT_EQ(driver.calls("cuMemcpyBatchAsync"), 1);
    wait();
    pieces.expect_copied();
}

TEST_F(batch, a_failed_allocation_is_reported_and_the_next_batch_works) {
    counting_allocator memory;
    ferry_options options = options_under_test();
    options.allocate = counting_allocator::allocate;
    options.deallocate = counting_allocator::deallocate;
    options.allocate_user = &memory;
    {
        const instance_owner instance = open_or_fail(options);
        scattered pieces(place_kind::pinned, place_kind::device, 300, 60, 1020);
        for (long nth = 1; nth < 12; ++nth) {
            memory.fail_at = memory.calls + nth;
            const std::int32_t status = pieces.batch.copy_async(instance.get(), stream, check_overlap);
            EXPECT_TRUE(status == FERRY_SUCCESS || status == FERRY_ERROR_OUT_OF_MEMORY) << ferry_status_name(status);
        }
        memory.fail_at = 0;
        wait(); // the next batch writes the same memory
        ASSERT_OK(pieces.batch.copy(instance.get()));
        wait();
        pieces.expect_copied();
    }
    EXPECT_EQ(memory.live, 0);
}

TEST_F(batch, threads_copy_batches_at_the_same_time) {
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            const made_current as(context);
            const test_stream own;
            for (std::uint64_t round = 0; round < 5; ++round) {
                scattered pieces(place_kind::pinned, place_kind::device, 250, 80, 1100 + 10 * thread + round);
                ASSERT_OK(pieces.batch.copy_async(basic.get(), own));
                ASSERT_OK(raw().cuStreamSynchronize(own));
                pieces.expect_copied();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(batch, threads_launch_one_prepared_batch_at_the_same_time) {
    scattered pieces(place_kind::device, place_kind::device, 300, 80, 1200);
    prepared_owner prepared;
    ASSERT_OK(pieces.batch.prepare(basic.get(), stream, {}, &prepared.handle));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&] {
            const made_current as(context); // one stream for all threads, because they write the same memory
            for (int round = 0; round < 10; ++round)
                ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
            ASSERT_OK(raw().cuStreamSynchronize(stream));
        });
    for (std::thread &thread : threads)
        thread.join();
    pieces.expect_copied();
}

// Without a current context the first copy's device chooses it, before that copy is validated.
TEST_F(batch, a_device_that_does_not_exist_is_refused_as_such_in_a_thread_without_a_context) {
    std::byte from[64] = {}, to[64] = {};
    ferry_copy_desc copy = {};
    ferry_place_host(&copy.source, from);
    ferry_place_device(&copy.destination, device_count(), reinterpret_cast<std::uintptr_t>(to));
    copy.width = sizeof to;
    const made_current none(nullptr);
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_batch(basic.get(), &copy, 1, nullptr, &error), error, FERRY_ERROR_DEVICE,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE);
    expect_refusal(ferry_copy(basic.get(), &copy, nullptr, &error), error, FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION,
                   FERRY_FIELD_DEVICE);
}

} // namespace
} // namespace ferry::test
