// Copies between two layouts: random nests against a plain model, and every wrong field is refused by its name.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "copy/nest.h"
#include "copy/nest_packing.h"
#include "driver/result.h"
#include "support/captured_graph.h"
#include "support/fault_driver.h"
#include "support/how.h"
#include "support/opened_file.h"
#include "support/raw_objects.h"
#include "support/temporary_file.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t memory_size = std::uint64_t{1} << 18;

// A place without pitches, as a nest takes it.
ferry_place line_in(const test_place &place, statement how) {
    ferry_place line = place.describe(how);
    line.row_pitch = line.slice_height = 0;
    return line;
}

ferry_nest between(const test_place &from, const test_place &to, std::uint64_t width) {
    ferry_nest nest = {};
    nest.source.place = line_in(from, statement::stated);
    nest.destination.place = line_in(to, statement::stated);
    nest.width = width;
    return nest;
}

// Adds an axis without indices.
void add_axis(ferry_nest &nest, std::uint64_t count, std::int64_t to, std::int64_t from) {
    nest.destination.axes[nest.axes].count = nest.source.axes[nest.axes].count = count;
    nest.destination.axes[nest.axes].stride = to;
    nest.source.axes[nest.axes].stride = from;
    ++nest.axes;
}

// Memory that kernels read indices from.
class index_memory {
public:
    explicit index_memory(std::uint64_t size) : size_(size) { EXPECT_OK(raw().cuMemAlloc(&address_, size)); }
    ~index_memory() { EXPECT_OK(raw().cuMemFree(address_)); }
    index_memory(const index_memory &) = delete;
    index_memory &operator=(const index_memory &) = delete;

    void clear() { used_ = 0; }
    // The driver's call may return before the bytes have arrived, and streams of the tests do not wait for it.
    static void put(std::uint64_t at, const void *indices, std::uint64_t size) {
        EXPECT_OK(raw().cuMemcpyHtoD(at, indices, size));
        EXPECT_OK(raw().cuCtxSynchronize());
    }
    std::uint64_t add(const void *indices, std::uint64_t size) {
        const std::uint64_t at = address_ + used_;
        used_ += (size + 15) / 16 * 16;
        EXPECT_LE(used_, size_);
        put(at, indices, size);
        return at;
    }

private:
    CUdeviceptr address_ = 0;
    std::uint64_t size_, used_ = 0;
};

// The indices of one axis of one end, as the model reads them. Empty: the axis has none.
struct index_list {
    std::vector<std::uint64_t> indices;
    std::vector<std::uint32_t> narrow;
    std::uint64_t limit = 0;

    std::uint64_t at(std::uint64_t coordinate) const { return indices.empty() ? coordinate : indices[coordinate]; }
    bool skips(std::uint64_t coordinate) const { return !indices.empty() && indices[coordinate] >= limit; }
};

struct drawn_nest {
    ferry_nest nest = {};
    index_list to[FERRY_NEST_AXES], from[FERRY_NEST_AXES];
    bool has_device_indices = false, has_host_indices = false;
    std::uint64_t skipped = 0; // indices that are not below their limit, each counted once

    // Calls move(offset at the destination, offset at the source) for each run that is not skipped. Offsets are
    // distances from the places.
    template <class Move> void for_each_run(const Move &move) const {
        std::uint64_t at[FERRY_NEST_AXES] = {};
        for (;;) {
            std::int64_t to_offset = 0, from_offset = 0;
            bool is_skipped = false;
            for (std::uint32_t i = 0; i < nest.axes; ++i) {
                is_skipped |= to[i].skips(at[i]) || from[i].skips(at[i]);
                to_offset += static_cast<std::int64_t>(to[i].at(at[i])) * nest.destination.axes[i].stride;
                from_offset += static_cast<std::int64_t>(from[i].at(at[i])) * nest.source.axes[i].stride;
            }
            if (!is_skipped) move(to_offset, from_offset);
            std::uint32_t next = 0;
            while (next < nest.axes && ++at[next] == nest.source.axes[next].count)
                at[next++] = 0;
            if (next == nest.axes) return;
        }
    }
};

class nest_dice {
public:
    explicit nest_dice(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t up_to(std::uint64_t most) { return engine_() % (most + 1); }
    bool one_in(std::uint64_t n) { return engine_() % n == 0; }
    std::mt19937_64 &engine() { return engine_; }

private:
    std::mt19937_64 engine_;
};

// Draws the strides of one end: the axes in a random order, each with some room between its runs, and its indices.
// Returns the bytes that the end spans, or 0 if they are too many. `is_source`: strides may be 0 or negative, and runs may
// be read several times.
std::uint64_t draw_end(nest_dice &dice, bool is_source, std::uint64_t unit, drawn_nest &drawn, ferry_nest_end &end,
                       index_list *lists, std::int64_t &lead) {
    std::uint32_t order[FERRY_NEST_AXES];
    std::iota(order, order + drawn.nest.axes, 0);
    std::shuffle(order, order + drawn.nest.axes, dice.engine());
    std::uint64_t extent = drawn.nest.width;
    lead = 0;
    for (std::uint32_t n = 0; n < drawn.nest.axes; ++n) {
        ferry_axis &axis = end.axes[order[n]];
        index_list &list = lists[order[n]];
        std::uint64_t stride = dice.one_in(2) ? extent : extent + dice.up_to(3) * unit;
        stride = (stride + unit - 1) / unit * unit;
        std::uint64_t limit = axis.count;
        if (dice.one_in(6)) {
            limit = axis.count + dice.up_to(5);
            list.limit = limit;
            std::vector<std::uint64_t> all(limit);
            std::iota(all.begin(), all.end(), 0);
            std::shuffle(all.begin(), all.end(), dice.engine());
            for (std::uint64_t i = 0; i < axis.count; ++i)
                list.indices.push_back(is_source ? dice.up_to(limit - 1) : all[i]);
        }
        extent = stride * (limit - 1) + extent;
        if (extent > memory_size / 2) return 0;
        axis.stride = static_cast<std::int64_t>(stride);
        if (is_source && dice.one_in(12)) {
            axis.stride = 0;
        } else if (dice.one_in(6)) {
            axis.stride = -axis.stride;
            lead += static_cast<std::int64_t>(stride * (limit - 1));
        }
    }
    return extent;
}

// Gives the lists to the nest: on the host or in `memory`, narrow or wide. Some indices on the device are beyond their
// limit.
void place_indices(nest_dice &dice, drawn_nest &drawn, ferry_nest_end &end, index_list *lists, index_memory *memory,
                   bool may_be_on_device) {
    for (std::uint32_t i = 0; i < drawn.nest.axes; ++i) {
        index_list &list = lists[i];
        if (list.indices.empty()) continue;
        ferry_axis &axis = end.axes[i];
        const bool is_wide = dice.one_in(2), is_on_device = may_be_on_device && dice.one_in(2);
        if (is_on_device && dice.one_in(3))
            for (std::uint64_t &index : list.indices)
                if (dice.one_in(4))
                    index = list.limit + dice.up_to(1) * UINT32_MAX % (is_wide ? UINT64_MAX : UINT32_MAX);
        list.narrow.assign(list.indices.begin(), list.indices.end());
        if (!is_wide) list.indices.assign(list.narrow.begin(), list.narrow.end());
        const void *const first = is_wide ? static_cast<const void *>(list.indices.data()) : list.narrow.data();
        const std::uint64_t size = axis.count * (is_wide ? 8 : 4);
        axis.index_type = is_wide ? FERRY_INDEX_U64 : FERRY_INDEX_U32;
        axis.index_memory = is_on_device ? FERRY_INDICES_DEVICE : FERRY_INDICES_HOST;
        axis.index_limit = list.limit;
        axis.indices = is_on_device ? memory->add(first, size) : reinterpret_cast<std::uintptr_t>(first);
        (is_on_device ? drawn.has_device_indices : drawn.has_host_indices) = true;
    }
}

class nests : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        device_indices = std::make_unique<index_memory>(std::uint64_t{1} << 20);
        ASSERT_OK(raw().cuMemHostAlloc(&counter, sizeof(std::uint64_t), 0));
    }
    void TearDown() override {
        places.clear();
        device_indices.reset();
        EXPECT_OK(raw().cuMemFreeHost(counter));
        EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }
    test_place &place_of(place_kind kind, int device = 0) {
        for (const auto &place : places)
            if (place->kind() == kind && place->device() == device) return *place;
        places.push_back(std::make_unique<test_place>(kind, grid{.width = memory_size, .lead = 0}, device));
        places.back()->fill(places.size());
        return *places.back();
    }
    test_place &second_of(place_kind kind) {
        seconds.push_back(std::make_unique<test_place>(kind, grid{.width = memory_size, .lead = 0}));
        seconds.back()->fill(100 + seconds.size());
        return *seconds.back();
    }
    std::uint64_t &skipped() { return *static_cast<std::uint64_t *>(counter); }
    std::int32_t copy(ferry_instance *instance, const ferry_nest &nest, const how &options = {},
                      ferry_error_info *error = nullptr) {
        const std::int32_t status = ferry_copy_nests_async(instance, &nest, 1, options, stream, nullptr, error);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        return status;
    }

    std::int32_t copy_prepared(ferry_instance *instance, const ferry_nest &nest, const how &options,
                               ferry_error_info *error) {
        ferry_prepared *prepared = nullptr;
        std::int32_t status = ferry_prepared_create_nests(instance, &nest, 1, options, stream, &prepared, error);
        if (status == 0) status = ferry_prepared_launch(prepared, nullptr, stream, nullptr, error);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
        return status;
    }

    CUstream stream = nullptr;
    void *counter = nullptr;
    std::unique_ptr<index_memory> device_indices;
    std::vector<std::unique_ptr<test_place>> places, seconds;
};

bool is_kernel_memory(place_kind kind) { return kind != place_kind::pageable; }

// Draws the axes and both ends of a nest. False if it does not fit the memory.
bool draw(nest_dice &dice, bool may_have_device_indices, index_memory *memory, drawn_nest &drawn,
          std::int64_t (&at)[2]) {
    const bool is_fine = dice.one_in(4); // many runs of a few bytes
    const std::uint64_t unit = std::uint64_t{1} << dice.up_to(is_fine ? 2 : 4);
    drawn.nest.width = unit * (1 + (!is_fine && dice.one_in(3) ? dice.up_to(20) : 0));
    drawn.nest.axes = static_cast<std::uint32_t>(dice.up_to(FERRY_NEST_AXES));
    for (std::uint32_t i = 0; i < drawn.nest.axes; ++i) {
        const std::uint64_t most = drawn.nest.axes < 3 ? 7 : drawn.nest.axes < 5 && is_fine ? 5 : 4;
        drawn.nest.destination.axes[i].count = drawn.nest.source.axes[i].count =
            1 + dice.up_to(std::uint64_t{1} << (is_fine ? most : dice.up_to(most)));
    }
    const std::uint64_t to = draw_end(dice, false, unit, drawn, drawn.nest.destination, drawn.to, at[0]);
    const std::uint64_t from = draw_end(dice, true, unit, drawn, drawn.nest.source, drawn.from, at[1]);
    if (!to || !from) return false;
    // Both ends may be in the same memory: the source is in its first half.
    at[1] += static_cast<std::int64_t>(dice.up_to((memory_size / 2 - from) / unit) * unit);
    at[0] += static_cast<std::int64_t>(memory_size / 2 + dice.up_to((memory_size / 2 - to) / unit) * unit);
    if (dice.one_in(4)) {
        at[0] += at[0] + 1 + static_cast<std::int64_t>(to) < static_cast<std::int64_t>(memory_size) ? 1 : 0;
    }
    place_indices(dice, drawn, drawn.nest.destination, drawn.to, memory, may_have_device_indices);
    place_indices(dice, drawn, drawn.nest.source, drawn.from, memory, may_have_device_indices);
    for (std::uint32_t i = 0; i < drawn.nest.axes; ++i)
        for (std::uint64_t c = 0; c < drawn.nest.source.axes[i].count; ++c)
            drawn.skipped += drawn.to[i].skips(c) || drawn.from[i].skips(c);
    return true;
}

// The number of random nests: FERRY_NEST_CASES, with the first seed in FERRY_NEST_SEED.
std::uint64_t number_in(const char *variable, std::uint64_t otherwise) {
    const char *const given = std::getenv(variable);
    return given ? std::strtoull(given, nullptr, 10) : otherwise;
}

TEST_F(nests, random_ones_arrive_whole_and_touch_nothing_else) {
    struct {
        place_kind from, to;
    } const pairs[] = {{place_kind::device, place_kind::device},   {place_kind::pinned, place_kind::device},
                       {place_kind::device, place_kind::pinned},   {place_kind::device, place_kind::managed},
                       {place_kind::pageable, place_kind::device}, {place_kind::device, place_kind::pageable},
                       {place_kind::pinned, place_kind::pinned},   {place_kind::registered, place_kind::device},
                       {place_kind::device, place_kind::device},   {place_kind::device, place_kind::device}};
    const std::uint64_t first = number_in("FERRY_NEST_SEED", 1), cases = number_in("FERRY_NEST_CASES", 400);
    std::uint64_t copied = 0, by_kernel_count = 0, through_buffer_count = 0, with_skipped = 0;
    for (std::uint64_t seed = first; seed < first + cases; ++seed) {
        nest_dice dice(seed);
        const auto &[from_kind, to_kind] = pairs[dice.up_to(std::size(pairs) - 1)];
        if (!is_supported(from_kind) || !is_supported(to_kind)) continue;
        const bool by_kernels = is_kernel_memory(from_kind) && is_kernel_memory(to_kind) &&
                                (from_kind == place_kind::device || to_kind == place_kind::device);
        device_indices->clear();
        drawn_nest drawn;
        std::int64_t at[2] = {};
        if (!draw(dice, by_kernels, device_indices.get(), drawn, at)) continue;
        SCOPED_TRACE(testing::Message() << "FERRY_NEST_SEED=" << seed << " FERRY_NEST_CASES=1: " << name_of(from_kind)
                                        << " to " << name_of(to_kind));
        test_place &from = place_of(from_kind), &to = place_of(to_kind);
        to.fill(seed);
        from.fill(seed + 1);
        ferry_nest &nest = drawn.nest;
        nest.destination.place = line_in(to, dice.one_in(2) ? statement::stated : statement::any);
        nest.source.place = line_in(from, dice.one_in(2) ? statement::stated : statement::any);
        nest.destination.place.address += static_cast<std::uint64_t>(at[0]);
        nest.source.place.address += static_cast<std::uint64_t>(at[1]);
        skipped() = 5;
        if (drawn.has_device_indices) nest.skipped = reinterpret_cast<std::uintptr_t>(counter);
        bytes expected = to.picture();
        const bytes source = from.picture(); // the same memory may be the destination
        drawn.for_each_run([&](std::int64_t to_offset, std::int64_t from_offset) {
            std::memcpy(&expected[static_cast<std::size_t>(at[0] + to_offset)],
                        &source[static_cast<std::size_t>(at[1] + from_offset)], nest.width);
        });
        const how options = by_kernels && dice.one_in(2)                 ? by_kernel
                            : drawn.has_device_indices || dice.one_in(3) ? ordinary
                            : dice.one_in(2)                             ? no_kernels
                                             : max_sms(static_cast<std::uint32_t>(1 + dice.up_to(3)));
        ferry_explanation found = new_explanation();
        ferry_error_info error = new_error();
        ferry_instance *const instance = dice.one_in(2) ? basic.get() : full.get();
        const std::int32_t explained = ferry_copy_nest_explain_async(instance, &nest, options, stream, &found, &error);
        ASSERT_OK(explained) << test::describe(error);
        const std::uint64_t form = dice.up_to(2);
        ASSERT_OK(form == 0   ? ferry_copy_nests(instance, &nest, 1, options, &error)
                  : form == 1 ? copy(instance, nest, options, &error)
                              : copy_prepared(instance, nest, options, &error))
            << test::describe(error);
        ASSERT_TRUE(to.read() == expected) << test::describe(found);
        if (drawn.has_device_indices) {
            ASSERT_EQ(skipped(), 5 + drawn.skipped);
        }
        ++copied;
        by_kernel_count += found.route == FERRY_ROUTE_KERNEL;
        through_buffer_count += found.route == FERRY_ROUTE_STAGED && found.max_sms != 0 && found.driver_ns == 0;
        with_skipped += drawn.has_device_indices && drawn.skipped;
    }
    if (cases < 400) return;
    EXPECT_GT(copied, cases / 4);
    EXPECT_GT(by_kernel_count, cases / 20);
    EXPECT_GT(with_skipped, 0);
    EXPECT_GT(through_buffer_count, 0);
}

TEST(nest, strides_of_any_size_are_turned_and_joined) {
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    nest of = {.destination = 0, .source = 0, .run = 1};
    of.add({3, huge, huge});
    of.add({2, INT64_MIN, INT64_MIN});
    of.add({2, -8, -8});
    normalize(of);
    ASSERT_EQ(of.axes, 3);
    EXPECT_EQ(of.axis[0].destination_stride, 8);
    EXPECT_EQ(of.axis[1].destination_stride, huge);
    EXPECT_EQ(of.axis[2].destination_stride, INT64_MIN) << "its own opposite";
    EXPECT_EQ(of.destination, (std::uint64_t{1} << 63) - 8);
}

// Copies a nest in plain memory, whose addresses are offsets in `to` and `from`.
void copy_plainly(const nest &of, std::byte *to, const std::byte *from) {
    std::uint64_t at[max_nest_axes] = {};
    for (;;) {
        std::uint64_t destination = of.destination, source = of.source;
        for (int i = 0; i < of.axes; ++i) {
            const nest_axis &axis = of.axis[i];
            const auto index_of = [&](const nest_indices &list) { return list.address ? list.at(at[i]) : at[i]; };
            destination += static_cast<std::uint64_t>(axis.destination_stride) * index_of(axis.destination_indices);
            source += static_cast<std::uint64_t>(axis.source_stride) * index_of(axis.source_indices);
        }
        std::memcpy(to + destination, from + source, of.run);
        int next = 0;
        while (next < of.axes && ++at[next] == of.axis[next].count)
            at[next++] = 0;
        if (next == of.axes) return;
    }
}

TEST(nest, of_any_form_passes_through_a_buffer_in_parts) {
    std::uint64_t parts = 0, cut_parts = 0;
    const std::uint64_t first = number_in("FERRY_NEST_SEED", 1), cases = number_in("FERRY_NEST_CASES", 400);
    const bytes source = random_bytes(memory_size, 1);
    for (std::uint64_t seed = first; seed < first + cases; ++seed) {
        SCOPED_TRACE(testing::Message() << "FERRY_NEST_SEED=" << seed << " FERRY_NEST_CASES=1");
        nest_dice dice(seed);
        drawn_nest drawn;
        std::int64_t at[2] = {};
        if (!draw(dice, false, nullptr, drawn, at)) continue;
        nest of = {static_cast<std::uint64_t>(at[0]), static_cast<std::uint64_t>(at[1]), drawn.nest.width};
        for (std::uint32_t i = 0; i < drawn.nest.axes; ++i) {
            const ferry_axis &to = drawn.nest.destination.axes[i], &from = drawn.nest.source.axes[i];
            const auto list_of = [](const ferry_axis &axis) -> nest_indices {
                return {axis.indices, axis.index_limit, axis.index_type == FERRY_INDEX_U64, axis.indices != 0};
            };
            of.add({to.count, to.stride, from.stride, list_of(to), list_of(from)});
        }
        normalize(of);
        bytes expected(memory_size), found(memory_size), buffer(memory_size);
        copy_plainly(of, expected.data(), source.data());
        const bool by_source = dice.one_in(2);
        const nest_packing packing(of, by_source, std::uint64_t{1} << dice.up_to(18));
        std::uint64_t count = 0, outer_bytes = 0, inner_bytes = 0;
        ASSERT_LE(packing.buffer_bytes(), buffer.size());
        EXPECT_EQ(packing.first().outer.bytes(), packing.buffer_bytes());
        const error failed = packing.for_each([&](const nest_halves &halves) -> error {
            std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
            ++count;
            outer_bytes = std::max(outer_bytes, halves.outer.bytes());
            inner_bytes += halves.inner.bytes();
            if (by_source) copy_plainly(halves.outer, buffer.data(), source.data());
            copy_plainly(halves.inner, by_source ? found.data() : buffer.data(),
                         by_source ? buffer.data() : source.data());
            if (!by_source) copy_plainly(halves.outer, found.data(), buffer.data());
            return {};
        });
        ASSERT_FALSE(failed);
        ASSERT_TRUE(found == expected);
        EXPECT_EQ(count, packing.parts());
        EXPECT_EQ(outer_bytes, packing.buffer_bytes()) << "the first part is the largest";
        EXPECT_EQ(inner_bytes, of.bytes());
        parts += count;
        cut_parts += count > 1;
    }
    if (cases < 400) return;
    EXPECT_GT(cut_parts, 20);
    EXPECT_GT(parts, cut_parts);
}

// ---- Transposes

struct matrix {
    const char *name;
    std::uint64_t element, rows, columns, pitch; // of the source; the destination has no gaps
};
const matrix matrices[] = {
    {"single bytes", 1, 100, 200, 256},       {"odd numbers of bytes", 1, 33, 67, 80},
    {"words of 2 bytes", 2, 64, 120, 256},    {"odd numbers of words of 2 bytes", 2, 41, 77, 160},
    {"words of 4 bytes", 4, 100, 60, 256},    {"odd numbers of words of 4 bytes", 4, 31, 37, 160},
    {"words of 8 bytes", 8, 50, 70, 576},     {"odd numbers of words of 8 bytes", 8, 29, 31, 256},
    {"words of 16 bytes", 16, 30, 20, 336},   {"pixels of 3 bytes", 3, 40, 50, 160},
    {"vectors of 12 bytes", 12, 20, 30, 384}, {"rows that are not aligned", 2, 30, 40, 82}};

TEST_F(nests, matrices_of_all_elements_are_transposed) {
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device);
    for (const matrix &one : matrices) {
        SCOPED_TRACE(one.name);
        to.fill(one.element);
        ferry_nest nest = between(from, to, one.element);
        add_axis(nest, one.columns, static_cast<std::int64_t>(one.rows * one.element),
                 static_cast<std::int64_t>(one.element));
        add_axis(nest, one.rows, static_cast<std::int64_t>(one.element), static_cast<std::int64_t>(one.pitch));
        bytes expected = to.picture();
        for (std::uint64_t x = 0; x < one.columns; ++x)
            for (std::uint64_t y = 0; y < one.rows; ++y)
                std::memcpy(&expected[(x * one.rows + y) * one.element],
                            &from.picture()[y * one.pitch + x * one.element], one.element);
        ferry_explanation found = new_explanation();
        ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &nest, nullptr, stream, &found, nullptr));
        EXPECT_EQ(found.route, FERRY_ROUTE_KERNEL);
        ASSERT_OK(copy(basic.get(), nest));
        ASSERT_TRUE(to.read() == expected);
    }
}

// More than 2^32 elements: each row of the source has one value, so each row of the destination has the values of all
// rows.
TEST_F(nests, of_more_than_32_bits_of_elements_are_transposed) {
    constexpr std::size_t rows = 65552, columns = 65536, size = rows * columns;
    std::size_t free = 0, total = 0;
    ASSERT_OK(raw().cuMemGetInfo(&free, &total));
    if (on_software_driver() || free < 2 * size + (std::size_t{1} << 30))
        GTEST_SKIP() << "needs a GPU with 10 GB of free memory";
    const device_memory from(size), to(size);
    bytes values = random_bytes(rows, 5);
    for (std::size_t row = 0; row < rows; ++row)
        ASSERT_OK(
            raw().cuMemsetD8Async(from + row * columns, static_cast<unsigned char>(values[row]), columns, stream));
    ferry_nest nest = {};
    ferry_place_device(&nest.source.place, 0, from);
    ferry_place_device(&nest.destination.place, 0, to);
    nest.width = 1;
    add_axis(nest, columns, rows, 1);
    add_axis(nest, rows, 1, columns);
    ASSERT_OK(copy(basic.get(), nest));
    for (const std::size_t row : {std::size_t{0}, columns / 2, columns - 1}) {
        bytes found(rows);
        ASSERT_OK(raw().cuMemcpyDtoH(found.data(), to + row * rows, rows));
        ASSERT_TRUE(found == values) << "row " << row;
    }
}

// ---- Routes

TEST_F(nests, a_box_takes_the_route_of_a_copy) {
    test_place &from = place_of(place_kind::pinned), &to = place_of(place_kind::device);
    ferry_nest nest = between(from, to, 16);
    add_axis(nest, 10, 1280, 640); // slices, rows and the rest of each row in any order
    add_axis(nest, 8, 128, 64);
    add_axis(nest, 4, 16, 16);
    ferry_copy_desc box = {};
    box.source = nest.source.place;
    box.destination = nest.destination.place;
    box.width = 64, box.height = 8, box.depth = 10;
    box.source.row_pitch = 64, box.source.slice_height = 10;
    box.destination.row_pitch = 128, box.destination.slice_height = 10;
    ferry_explanation of_nest = new_explanation(), of_box = new_explanation();
    ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &nest, nullptr, stream, &of_nest, nullptr));
    ASSERT_OK(ferry_copy_explain_async(basic.get(), &box, nullptr, stream, &of_box, nullptr));
    EXPECT_EQ(describe(of_nest), describe(of_box));
}

TEST_F(nests, of_one_call_are_all_copied) {
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device);
    ferry_nest three[3] = {};
    bytes expected = to.picture();
    for (int n = 0; n < 3; ++n) {
        three[n].source.place = line_in(from, statement::any);
        three[n].destination.place = line_in(to, statement::any);
        three[n].destination.place.address += static_cast<std::uint64_t>(n) * 5000;
        three[n].width = 4;
        if (n != 1) add_axis(three[n], 20, 40 * 4, 4);
        if (n != 1) add_axis(three[n], 40, 4, 20 * 4);
        for (std::uint64_t x = 0; x < (n == 1 ? 1 : 20); ++x)
            for (std::uint64_t y = 0; y < (n == 1 ? 1 : 40); ++y)
                std::memcpy(&expected[static_cast<std::size_t>(n) * 5000 + (x * 40 + y) * 4],
                            &from.picture()[(y * 20 + x) * 4], 4);
    }
    ASSERT_OK(ferry_copy_nests(basic.get(), three, 3, nullptr, nullptr));
    ASSERT_TRUE(to.read() == expected);
    ASSERT_OK(ferry_copy_nests(basic.get(), nullptr, 0, nullptr, nullptr));
    ferry_error_info error = new_error();
    three[2].destination.axes[1].count = 39;
    to.fill(9);
    expect_refusal(ferry_copy_nests(basic.get(), three, 3, nullptr, &error), error, FERRY_ERROR_INVALID_ARGUMENT,
                   FERRY_SIDE_DESTINATION, FERRY_FIELD_COUNT);
    EXPECT_EQ(error.item, FERRY_ITEM_AXIS);
    EXPECT_EQ(error.index, 2 * FERRY_NEST_AXES + 1);
    EXPECT_EQ(describe(error), "nest 2, axis 1: destination.count: 39, must be 40 (FERRY_ERROR_INVALID_ARGUMENT)");
    EXPECT_TRUE(to.read() == to.picture()) << "nothing is copied if one nest is wrong";
}

// A transpose of elements of 2 bytes, which would be many small boxes.
ferry_nest transpose(const test_place &from, const test_place &to, std::uint64_t rows, std::uint64_t columns) {
    ferry_nest nest = between(from, to, 2);
    add_axis(nest, columns, static_cast<std::int64_t>(rows * 2), 2);
    add_axis(nest, rows, 2, static_cast<std::int64_t>(columns * 2));
    return nest;
}

TEST_F(nests, of_many_small_boxes_pass_through_a_buffer) {
    const place_kind kinds[][2] = {{place_kind::pageable, place_kind::device},
                                   {place_kind::device, place_kind::pageable}};
    ferry_options options = options_under_test();
    options.max_device_bytes = 300 * 200 * 2 - 1;
    const instance_owner small = open_or_fail(options);
    for (const auto &[from_kind, to_kind] : kinds) {
        SCOPED_TRACE(name_of(from_kind));
        test_place &from = place_of(from_kind), &to = place_of(to_kind);
        const ferry_nest nest = transpose(from, to, 300, 200);
        bytes expected = to.picture();
        for (std::size_t x = 0; x < 200; ++x)
            for (std::size_t y = 0; y < 300; ++y)
                std::memcpy(&expected[(x * 300 + y) * 2], &from.picture()[(y * 200 + x) * 2], 2);
        ferry_explanation found = new_explanation();
        ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &nest, nullptr, stream, &found, nullptr));
        EXPECT_EQ(found.route, FERRY_ROUTE_STAGED) << describe(found);
        EXPECT_EQ(found.width, 300 * 200 * 2) << "one box";
        EXPECT_EQ(found.calls, 1);
        for (const bool is_synchronous : {false, true}) {
            to.fill(3);
            ASSERT_OK(is_synchronous ? ferry_copy_nests(basic.get(), &nest, 1, nullptr, nullptr)
                                     : copy(basic.get(), nest));
            std::copy_n(to.picture().begin() + 300 * 200 * 2, memory_size - 300 * 200 * 2,
                        expected.begin() + 300 * 200 * 2);
            ASSERT_TRUE(to.read() == expected);
        }
        ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &nest, no_kernels, stream, &found, nullptr));
        EXPECT_EQ(found.calls, 200) << "no kernel changes the layout";
        to.fill(3);
        ASSERT_OK(ferry_copy_nests(small.get(), &nest, 1, nullptr, nullptr)) << "without a buffer";
        ASSERT_TRUE(to.read() == expected);
        places.clear();
    }
}

// All parts are read from the same bytes, which pass over the link once.
TEST_F(nests, that_repeat_bytes_of_the_host_stage_them_once) {
    constexpr std::uint64_t size = 2048, count = 64;
    test_place &from = place_of(place_kind::pageable), &to = place_of(place_kind::device);
    ferry_nest nest = between(from, to, size);
    add_axis(nest, count, static_cast<std::int64_t>(size), 0);
    nest.width = size / 64;
    add_axis(nest, 64, static_cast<std::int64_t>(size / 64), static_cast<std::int64_t>(size / 32));
    bytes expected = to.picture();
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t part = 0; part < 64; ++part)
            std::memcpy(&expected[i * size + part * size / 64], &from.picture()[part * size / 32], size / 64);
    ASSERT_OK(copy(basic.get(), nest, max_sms(1)));
    ASSERT_TRUE(to.read() == expected);
    ferry_explanation found = new_explanation();
    const ferry_nest wide = transpose(from, to, 300, 200);
    ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &wide, max_sms(1), stream, &found, nullptr));
    EXPECT_EQ(found.route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(found.max_sms, 1u);
}

TEST_F(nests, that_are_empty_or_have_many_boxes_are_explained_quickly) {
    ferry_nest nest = {};
    ferry_place_any(&nest.source.place, 4096);
    ferry_place_any(&nest.destination.place, 4096);
    nest.width = std::uint64_t{1} << 40;
    add_axis(nest, 0, 1, 1);
    add_axis(nest, std::uint64_t{1} << 40, 1, 1);
    EXPECT_OK(ferry_copy_nests(basic.get(), &nest, 1, nullptr, nullptr)) << "no run, whatever the other counts are";
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device);
    ferry_nest endless = between(from, to, 1);
    add_axis(endless, std::uint64_t{1} << 40, 0, 0);
    ferry_explanation found = new_explanation();
    ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &endless, no_kernels, stream, &found, nullptr));
    EXPECT_EQ(found.calls, UINT32_MAX);
}

TEST_F(nests, between_two_host_ends_use_no_buffer) {
    const ferry_nest nest = transpose(place_of(place_kind::pageable), place_of(place_kind::pinned), 300, 200);
    const temporary_file file{bytes(memory_size)};
    const opened_file opened = open_file_as(basic.get(), file.path());
    ferry_nest of_file = nest;
    of_file.source.place = place_in(opened, 0);
    for (const ferry_nest &one : {nest, of_file}) {
        ferry_explanation found = new_explanation();
        ASSERT_OK(ferry_copy_nest_explain_async(basic.get(), &one, nullptr, stream, &found, nullptr));
        EXPECT_EQ(found.calls, 200);
    }
}

TEST_F(nests, of_files_are_read_and_written_with_one_ticket) {
    constexpr std::uint64_t columns = 30, rows = 20;
    const bytes contents = random_bytes(columns * rows * 4, 3);
    const temporary_file file(contents), written(bytes(columns * rows * 4));
    const opened_file from = open_file_as(basic.get(), file.path());
    const opened_file to = open_file_as(basic.get(), written.path(), {.flags = FERRY_FILE_WRITE});
    test_place &device = place_of(place_kind::device);
    ferry_nest nest = {};
    nest.source.place = place_in(from, 0);
    nest.destination.place = line_in(device, statement::stated);
    nest.width = 4;
    add_axis(nest, columns, rows * 4, 4);
    add_axis(nest, rows, 4, columns * 4);
    bytes expected = device.picture();
    for (std::size_t x = 0; x < columns; ++x)
        for (std::size_t y = 0; y < rows; ++y)
            std::memcpy(&expected[(x * rows + y) * 4], &contents[(y * columns + x) * 4], 4);
    ferry_error_info error = new_error();
    expect_refusal(ferry_copy_nests_async(basic.get(), &nest, 1, nullptr, stream, nullptr, &error), error,
                   FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TICKET);
    ferry_nest two[] = {nest, nest}; // both read the same bytes, to different places
    two[1].destination.place.address += memory_size / 2;
    std::copy_n(expected.begin(), contents.size(), expected.begin() + memory_size / 2);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_nests_async(basic.get(), two, 2, nullptr, stream, &ticket, &error)) << describe(error);
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    ASSERT_TRUE(device.read() == expected);
    std::swap(nest.source.place, nest.destination.place);
    std::swap(nest.source.axes, nest.destination.axes);
    nest.destination.place = place_in(to, 0);
    ASSERT_OK(ferry_copy_nests(basic.get(), &nest, 1, nullptr, &error)) << describe(error);
    EXPECT_TRUE(written.read() == contents);
    file.resize(columns * rows * 4 - 1);
    two[1].width = 0;
    expect_refusal(ferry_copy_nests_async(basic.get(), two, 2, nullptr, stream, &ticket, &error), error,
                   FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    EXPECT_EQ(error.item, FERRY_ITEM_NEST);
}

TEST_F(nests, of_a_graph_read_new_indices_at_each_launch) {
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device);
    constexpr std::uint64_t blocks = 30, size = 512;
    std::vector<std::uint32_t> ids(blocks);
    const std::uint64_t list = device_indices->add(ids.data(), blocks * 4);
    ferry_nest nest = between(from, to, size);
    add_axis(nest, blocks, size, size);
    nest.source.axes[0].indices = list;
    nest.source.axes[0].index_type = FERRY_INDEX_U32;
    nest.source.axes[0].index_memory = FERRY_INDICES_DEVICE;
    nest.source.axes[0].index_limit = memory_size / size;
    nest.skipped = reinterpret_cast<std::uintptr_t>(counter);
    skipped() = 0;
    ASSERT_OK(ferry_copy_nests(basic.get(), &nest, 1, nullptr, nullptr)) << "loads the kernels";
    captured_graph graph(stream);
    ASSERT_OK(ferry_copy_nests_async(basic.get(), &nest, 1, nullptr, stream, nullptr, nullptr));
    graph.end();
    nest_dice dice(7);
    for (int launch = 0; launch < 3; ++launch) {
        std::uint64_t expected_skips = skipped();
        bytes expected = to.read();
        for (std::uint64_t i = 0; i < blocks; ++i) {
            ids[i] = static_cast<std::uint32_t>(dice.up_to(memory_size / size + 5));
            if (ids[i] >= memory_size / size)
                ++expected_skips;
            else
                std::memcpy(&expected[i * size], &from.picture()[ids[i] * size], size);
        }
        index_memory::put(list, ids.data(), blocks * 4);
        graph.run();
        ASSERT_TRUE(to.read() == expected);
        EXPECT_EQ(skipped(), expected_skips);
    }
}

// ---- Lists in host memory

// A nest of 1 MiB reads its lists from device memory, unless there is none.
TEST_F(nests, with_host_indices_read_them_from_device_memory_if_they_are_large) {
    constexpr std::uint64_t size = 4096, blocks = 256, slots = 300;
    const device_memory from(slots * size), to(slots * size);
    bytes content(slots * size);
    std::generate(content.begin(), content.end(),
                  [random = std::mt19937_64(5)]() mutable { return std::byte(random()); });
    ASSERT_OK(raw().cuMemcpyHtoD(from, content.data(), content.size()));
    ASSERT_OK(raw().cuCtxSynchronize());
    std::vector<std::uint32_t> ids(slots);
    std::iota(ids.begin(), ids.end(), 0u);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(7));
    fault_driver driver(raw_entry_points());
    const auto copy_with = [&](ferry_instance *instance, std::uint64_t count) {
        ferry_nest nest = {};
        ferry_place_device(&nest.source.place, 0, from);
        ferry_place_device(&nest.destination.place, 0, to);
        nest.width = size;
        add_axis(nest, count, static_cast<std::int64_t>(size), static_cast<std::int64_t>(size));
        ferry_axis &axis = nest.source.axes[0];
        axis.indices = reinterpret_cast<std::uintptr_t>(ids.data());
        axis.index_type = FERRY_INDEX_U32;
        axis.index_limit = slots;
        EXPECT_OK(raw().cuMemsetD8(to, 0, slots * size));
        EXPECT_OK(raw().cuStreamSynchronize(nullptr));
        driver.reset_counts();
        const std::int32_t status = ferry_copy_nests_async(instance, &nest, 1, by_kernel, stream, nullptr, nullptr);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        bytes expected(slots * size);
        for (std::uint64_t i = 0; i < count; ++i)
            std::memcpy(&expected[i * size], &content[ids[i] * size], size);
        EXPECT_TRUE(status || read_back(to, slots * size) == expected);
        return status;
    };
    const instance_owner instance = open_or_fail(driver.options());
    ASSERT_OK(copy_with(instance.get(), blocks));
    EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 1);
    EXPECT_EQ(driver.calls("cuMemFreeAsync"), 1);
    ASSERT_OK(copy_with(instance.get(), blocks - 1));
    EXPECT_EQ(driver.calls("cuMemAllocFromPoolAsync"), 0) << "below 1 MiB";
    ferry_options options = driver.options();
    options.max_device_bytes = blocks * sizeof(std::uint32_t) - 1;
    const instance_owner small = open_or_fail(options);
    ASSERT_OK(copy_with(small.get(), blocks));
    EXPECT_EQ(driver.calls("cuMemAllocAsync"), 0) << "beyond the budget";
    options.max_device_bytes = blocks * sizeof(std::uint32_t);
    const instance_owner sufficient = open_or_fail(options);
    ASSERT_OK(copy_with(sufficient.get(), blocks));
    EXPECT_EQ(driver.calls("cuMemAllocAsync"), 1) << "within the budget";
    for (const CUresult refusal : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}) {
        driver.fail("cuMemAllocFromPoolAsync", refusal);
        ASSERT_OK(copy_with(instance.get(), blocks));
    }
    for (const char *const entry : {"cuMemAllocFromPoolAsync", "cuMemcpy3DAsync", "cuLaunchKernel", "cuMemFreeAsync"}) {
        SCOPED_TRACE(entry);
        driver.fail(entry, CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_EQ(copy_with(instance.get(), blocks), to_status(CUDA_ERROR_INVALID_CONTEXT));
        EXPECT_EQ(driver.calls("cuMemFreeAsync"), std::strcmp(entry, "cuMemAllocFromPoolAsync") != 0);
        if (std::strcmp(entry, "cuMemFreeAsync") == 0) continue; // the memory stays allocated
        ASSERT_OK(ferry_staging_trim(instance.get(), nullptr));
        ferry_usage usage = {};
        usage.struct_size = sizeof usage;
        ASSERT_OK(ferry_instance_get_usage(instance.get(), &usage, nullptr));
        EXPECT_EQ(usage.device_bytes, 0u);
    }
    driver.heal();
    ASSERT_OK(copy_with(instance.get(), blocks));
}

// ---- Prepared nests

// Gathers `blocks` blocks by a list in host memory.
ferry_nest gathering(const test_place &from, const test_place &to, std::uint64_t size,
                     const std::vector<std::uint32_t> &ids) {
    ferry_nest nest = between(from, to, size);
    add_axis(nest, ids.size(), static_cast<std::int64_t>(size), static_cast<std::int64_t>(size));
    ferry_axis &axis = nest.source.axes[0];
    axis.indices = reinterpret_cast<std::uintptr_t>(ids.data());
    axis.index_type = FERRY_INDEX_U32;
    axis.index_memory = FERRY_INDICES_HOST;
    axis.index_limit = memory_size / size;
    return nest;
}

TEST_F(nests, that_are_prepared_keep_their_indices_and_may_be_captured) {
    test_place &device = place_of(place_kind::device), &to = second_of(place_kind::device);
    test_place &pageable = place_of(place_kind::pageable);
    constexpr std::uint64_t blocks = 200, size = 48, box = 3000;
    std::vector<std::uint32_t> ids(blocks);
    nest_dice dice(3);
    for (std::uint32_t &id : ids)
        id = static_cast<std::uint32_t>(dice.up_to(memory_size / size - 1));
    ferry_nest all[] = {gathering(device, to, size, ids), between(pageable, to, box), gathering(device, to, size, ids)};
    all[1].destination.place.address += blocks * size;
    all[2].destination.place.address += blocks * size + box;
    all[2].source.axes[0].index_type = FERRY_INDEX_U64;
    std::vector<std::uint64_t> wide(ids.rbegin(), ids.rend());
    all[2].source.axes[0].indices = reinterpret_cast<std::uintptr_t>(wide.data());
    const auto expected_after = [&] {
        bytes expected = to.picture();
        for (std::size_t i = 0; i < blocks; ++i) {
            std::memcpy(&expected[i * size], &device.picture()[ids[i] * size], size);
            std::memcpy(&expected[(blocks + i) * size + box], &device.picture()[wide[i] * size], size);
        }
        std::memcpy(&expected[blocks * size], pageable.picture().data(), box);
        return expected;
    };
    ferry_prepared *prepared = nullptr;
    ferry_error_info error = new_error();
    ASSERT_OK(ferry_prepared_create_nests(basic.get(), all, 3, nullptr, stream, &prepared, &error)) << describe(error);
    const bytes first = expected_after();
    const std::vector<std::uint32_t> kept = std::exchange(ids, std::vector<std::uint32_t>(blocks, UINT32_MAX));
    std::fill(wide.begin(), wide.end(), UINT64_MAX); // the lists were read
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, &ticket, &error)) << describe(error);
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    ASSERT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_EQ(info.bytes_total, 2 * blocks * size + box);
    ASSERT_OK(ferry_ticket_release(ticket, nullptr));
    ASSERT_TRUE(to.read() == first);
    // Again, as a graph and with other contents.
    captured_graph graph(stream);
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, &error)) << describe(error);
    graph.end();
    device.fill(77), pageable.fill(78), to.fill(79);
    ids = kept;
    wide.assign(ids.rbegin(), ids.rend());
    graph.run();
    ASSERT_TRUE(to.read() == expected_after());
    ASSERT_OK(ferry_prepared_destroy_deferred(prepared, stream, nullptr));
}

TEST_F(nests, that_are_prepared_are_checked_as_others) {
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device);
    std::vector<std::uint32_t> ids(10, 1);
    ferry_nest two[] = {gathering(from, to, 64, ids), gathering(from, to, 64, ids)};
    ferry_prepared *prepared = nullptr;
    ferry_error_info error = new_error();
    ids[4] = memory_size / 64;
    expect_refusal(ferry_prepared_create_nests(basic.get(), two, 2, nullptr, stream, &prepared, &error), error,
                   FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_INDICES);
    EXPECT_EQ(error.item, FERRY_ITEM_AXIS);
    EXPECT_EQ(prepared, nullptr);
    ids[4] = 0;
    const temporary_file file(bytes(4096));
    const opened_file opened = open_file_as(basic.get(), file.path());
    two[1].source.place = place_in(opened, 0);
    two[1].source.axes[0] = ferry_axis();
    two[1].source.axes[0].count = 10;
    two[1].source.axes[0].stride = 64;
    expect_refusal(ferry_prepared_create_nests(basic.get(), two, 2, nullptr, stream, &prepared, &error), error,
                   FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_FILE);
    EXPECT_EQ(error.item, FERRY_ITEM_NEST);
    EXPECT_EQ(error.index, 1u);
    ASSERT_OK(ferry_prepared_create_nests(basic.get(), nullptr, 0, nullptr, stream, &prepared, &error));
    ASSERT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, &error)) << describe(error);
    ASSERT_OK(ferry_prepared_destroy(prepared, nullptr));
    // The table counts for the budget.
    ferry_options options = options_under_test();
    options.max_device_bytes = 10 * sizeof(std::uint32_t) - 1;
    const instance_owner small = open_or_fail(options);
    expect_refusal(ferry_prepared_create_nests(small.get(), two, 1, by_kernel, stream, &prepared, &error), error,
                   FERRY_ERROR_LIMIT, FERRY_SIDE_OPTIONS, FERRY_FIELD_MAX_DEVICE_BYTES);
}

TEST_F(nests, reach_memory_of_a_peer) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    if (const std::int32_t status = ferry_peer_enable(basic.get(), 0, 1, nullptr); is_without_access(status))
        GTEST_SKIP() << "no peer access";
    test_place &from = place_of(place_kind::device, 1), &to = second_of(place_kind::device);
    ferry_nest nest = between(from, to, 4);
    add_axis(nest, 64, 4, 256);
    add_axis(nest, 64, 256, 4);
    bytes expected = to.picture();
    for (std::size_t x = 0; x < 64; ++x)
        for (std::size_t y = 0; y < 64; ++y)
            std::memcpy(&expected[y * 256 + x * 4], &from.picture()[x * 256 + y * 4], 4);
    ASSERT_OK(copy(basic.get(), nest));
    ASSERT_TRUE(to.read() == expected);
}

// ---- Bytes that are shared

TEST_F(nests, that_share_bytes_are_refused_on_request) {
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device);
    static const std::uint32_t distinct[] = {4, 0, 2, 9}, repeated[] = {4, 0, 2, 4};
    const auto with_indices = [](ferry_nest nest, const std::uint32_t *list) {
        nest.destination.axes[0].indices = reinterpret_cast<std::uintptr_t>(list);
        nest.destination.axes[0].index_type = FERRY_INDEX_U32;
        nest.destination.axes[0].index_limit = 10;
        return nest;
    };
    ferry_nest apart = between(from, to, 8), narrow = between(from, to, 8), blocks = between(from, to, 64);
    add_axis(apart, 20, 8, 160);
    add_axis(apart, 20, 160, 8);
    add_axis(narrow, 20, 4, 8);
    add_axis(blocks, 4, 64, 64);
    ferry_nest onto_itself = between(to, to, 8), columns = between(to, to, 8), crossing = between(from, to, 2);
    add_axis(onto_itself, 20, 8, 160);
    add_axis(onto_itself, 20, 160, 8);
    add_axis(columns, 20, 32, 32);
    add_axis(columns, 20, 640, 640);
    columns.source.place.address += 16; // the other columns of the same matrix
    add_axis(crossing, 3, 4, 2);        // 0, 4, 8 and 0, 6: no two are equal
    add_axis(crossing, 2, 6, 6);
    const struct {
        const char *name;
        ferry_nest nest;
        std::int32_t side; // NONE: nothing is shared
    } rows[] = {{"a transpose", apart, FERRY_SIDE_NONE},
                {"a stride below the width", narrow, FERRY_SIDE_DESTINATION},
                {"distinct indices", with_indices(blocks, distinct), FERRY_SIDE_NONE},
                {"an index that is repeated", with_indices(blocks, repeated), FERRY_SIDE_DESTINATION},
                {"a matrix that is transposed in place", onto_itself, FERRY_SIDE_DESTINATION},
                {"columns of one matrix", columns, FERRY_SIDE_NONE},
                {"strides that cross", crossing, FERRY_SIDE_NONE}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.name);
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_copy_nests(basic.get(), &row.nest, 1, check_overlap, &error);
        if (row.side == FERRY_SIDE_NONE) {
            ASSERT_OK(status) << describe(error);
        } else {
            EXPECT_EQ(status, FERRY_ERROR_OVERLAP);
            EXPECT_EQ(error.field, FERRY_FIELD_ADDRESS);
            EXPECT_NE(error.side, FERRY_SIDE_NONE);
        }
    }
}

// ---- Wrong fields

TEST_F(nests, every_wrong_field_is_refused_by_its_name) {
    test_place &from = place_of(place_kind::device), &to = second_of(place_kind::device),
               &host = place_of(place_kind::pageable);
    const auto right = [&] {
        ferry_nest nest = between(from, to, 8);
        add_axis(nest, 32, 8, 1024);
        add_axis(nest, 100, 1024, 8);
        return nest;
    };
    static const std::uint32_t narrow[100] = {};
    static const std::uint64_t wide[100] = {0, 5};
    const auto index = [&](ferry_axis &axis, const void *list, std::int32_t type, std::uint64_t limit) {
        axis.indices = reinterpret_cast<std::uintptr_t>(list);
        axis.index_type = type;
        axis.index_limit = limit;
    };
    const std::uint64_t on_device = device_indices->add(narrow, sizeof narrow);
    struct {
        const char *name;
        std::int32_t status, side, field;
        std::function<void(ferry_nest &)> spoil;
    } const rows[] = {
        {"axes", FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_AXES,
         [](ferry_nest &nest) { nest.axes = 7; }},
        {"reserved", FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED,
         [](ferry_nest &nest) { nest.reserved[3] = 1; }},
        {"reserved_32", FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED,
         [](ferry_nest &nest) { nest.reserved_32 = 1; }},
        {"an axis' reserved", FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE, FERRY_FIELD_RESERVED,
         [](ferry_nest &nest) { nest.source.axes[1].reserved[1] = 1; }},
        {"a list of indices that does not fit the address space", FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE,
         FERRY_FIELD_COUNT,
         [&](ferry_nest &nest) {
             nest.width = nest.axes = 1;
             nest.source.axes[0].count = nest.destination.axes[0].count = (std::uint64_t{1} << 61) + 1;
             nest.source.axes[0].stride = nest.destination.axes[0].stride = 0;
             nest.source.axes[0].indices = on_device;
             nest.source.axes[0].index_type = FERRY_INDEX_U64;
             nest.source.axes[0].index_memory = FERRY_INDICES_DEVICE;
             nest.source.axes[0].index_limit = 1;
         }},
        {"a pitch", FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH,
         [](ferry_nest &nest) { nest.source.place.row_pitch = 64; }},
        {"an origin", FERRY_ERROR_RESERVED, FERRY_SIDE_DESTINATION, FERRY_FIELD_Z,
         [](ferry_nest &nest) { nest.destination.place.z = 1; }},
        {"the kind", FERRY_ERROR_KIND, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND,
         [](ferry_nest &nest) { nest.source.place.kind = 9; }},
        {"an array", FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND,
         [](ferry_nest &nest) { nest.source.place.kind = FERRY_KIND_ARRAY; }},
        {"the device", FERRY_ERROR_DEVICE, FERRY_SIDE_SOURCE, FERRY_FIELD_DEVICE,
         [](ferry_nest &nest) { nest.source.place.device = 99; }},
        {"a null address", FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS,
         [](ferry_nest &nest) { nest.source.place.address = 0; }},
        {"counts", FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_DESTINATION, FERRY_FIELD_COUNT,
         [](ferry_nest &nest) { nest.source.axes[0].count = 31; }},
        {"a count that is too large", FERRY_ERROR_OVERFLOW, FERRY_SIDE_DESTINATION, FERRY_FIELD_COUNT,
         [](ferry_nest &nest) { nest.source.axes[1].count = nest.destination.axes[1].count = std::uint64_t{1} << 60; }},
        {"a stride that is too large", FERRY_ERROR_OVERFLOW, FERRY_SIDE_DESTINATION, FERRY_FIELD_STRIDE,
         [](ferry_nest &nest) { nest.destination.axes[0].stride = INT64_MAX; }},
        {"an end past the address space", FERRY_ERROR_OVERFLOW, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS,
         [](ferry_nest &nest) { nest.destination.axes[0].stride = -(std::int64_t{1} << 58); }},
        {"the end of the memory", FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS,
         [](ferry_nest &nest) { nest.source.axes[0].stride = memory_size; }},
        {"the beginning of the memory", FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS,
         [](ferry_nest &nest) { nest.source.axes[0].stride = -1024; }},
        {"an unknown index type", FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_SOURCE, FERRY_FIELD_INDEX_TYPE,
         [&](ferry_nest &nest) { index(nest.source.axes[0], narrow, 3, 1); }},
        {"indices without a type", FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_SOURCE, FERRY_FIELD_INDEX_TYPE,
         [&](ferry_nest &nest) { index(nest.source.axes[0], narrow, 0, 1); }},
        {"an unknown index memory", FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_SOURCE, FERRY_FIELD_INDEX_MEMORY,
         [&](ferry_nest &nest) {
             index(nest.source.axes[0], narrow, FERRY_INDEX_U32, 1), nest.source.axes[0].index_memory = 2;
         }},
        {"null indices", FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_INDICES,
         [&](ferry_nest &nest) { index(nest.destination.axes[0], nullptr, FERRY_INDEX_U32, 1); }},
        {"indices at an odd address", FERRY_ERROR_ALIGNMENT, FERRY_SIDE_SOURCE, FERRY_FIELD_INDICES,
         [&](ferry_nest &nest) {
             index(nest.source.axes[0], reinterpret_cast<const char *>(wide) + 4, FERRY_INDEX_U64, 1);
         }},
        {"no limit", FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_SOURCE, FERRY_FIELD_INDEX_LIMIT,
         [&](ferry_nest &nest) { index(nest.source.axes[0], narrow, FERRY_INDEX_U32, 0); }},
        {"an index past its limit", FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_INDICES,
         [&](ferry_nest &nest) { index(nest.source.axes[0], wide, FERRY_INDEX_U64, 5); }},
        {"indices in memory that the device cannot access", FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_INDICES,
         [&](ferry_nest &nest) {
             index(nest.source.axes[0], narrow, FERRY_INDEX_U32, 1),
                 nest.source.axes[0].index_memory = FERRY_INDICES_DEVICE;
         }},
        {"indices on the device for a pageable end", FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_SOURCE,
         FERRY_FIELD_INDEX_MEMORY,
         [&](ferry_nest &nest) {
             index(nest.source.axes[0], nullptr, FERRY_INDEX_U32, 1),
                 nest.source.axes[0].index_memory = FERRY_INDICES_DEVICE;
             nest.source.axes[0].indices = on_device;
             nest.destination.place = line_in(host, statement::any);
         }},
        {"skipped at an odd address", FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_SKIPPED,
         [&](ferry_nest &nest) { nest.skipped = 4; }},
        {"skipped in memory that the device cannot access", FERRY_ERROR_ADDRESS, FERRY_SIDE_DESCRIPTOR,
         FERRY_FIELD_SKIPPED, [&](ferry_nest &nest) { nest.skipped = reinterpret_cast<std::uintptr_t>(wide); }},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.name);
        ferry_nest nest = right();
        row.spoil(nest);
        const bool only_full = row.field == FERRY_FIELD_ADDRESS && row.status == FERRY_ERROR_OUT_OF_BOUNDS;
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            if (only_full && instance == basic.get()) continue;
            ferry_error_info error = new_error();
            expect_refusal(ferry_copy_nests_async(instance, &nest, 1, nullptr, stream, nullptr, &error), error,
                           row.status, row.side, row.field);
            ferry_explanation found = new_explanation();
            expect_refusal(ferry_copy_nest_explain_async(instance, &nest, nullptr, stream, &found, &error), error,
                           row.status, row.side, row.field);
        }
    }
    ferry_nest nest = right();
    ASSERT_OK(copy(full.get(), nest));
}

} // namespace
} // namespace ferry::test
