// ferry_piece_list with every call that takes a list: each layout of the pieces copies the same bytes, and each wrong
// field is refused by its name.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "support/piece_batch.h"
#include "support/piece_lists.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

struct prepared_owner {
    ~prepared_owner() { EXPECT_OK(ferry_prepared_destroy(handle, nullptr)); }
    ferry_prepared *handle = nullptr;
};

class piece_lists : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }
    void wait() { ASSERT_OK(raw().cuStreamSynchronize(stream)); }

    struct any_call {
        const char *name;
        std::function<std::int32_t(const ferry_piece_list *, ferry_error_info *)> make;
    };
    // The calls that read whole pieces.
    std::vector<any_call> calls(ferry_instance *instance) {
        return {
            {"ferry_copy_pieces",
             [=](const ferry_piece_list *list, ferry_error_info *error) {
                 return ferry_copy_pieces(instance, list, nullptr, error);
             }},
            {"ferry_copy_pieces_async",
             [=, this](const ferry_piece_list *list, ferry_error_info *error) {
                 return ferry_copy_pieces_async(instance, list, nullptr, stream, nullptr, error);
             }},
            {"ferry_copy_pieces_async with a ticket",
             [=, this](const ferry_piece_list *list, ferry_error_info *error) {
                 ferry_ticket *ticket = nullptr;
                 const std::int32_t status = ferry_copy_pieces_async(instance, list, nullptr, stream, &ticket, error);
                 EXPECT_EQ(ticket == nullptr, status != 0);
                 EXPECT_OK(ferry_ticket_release(ticket, nullptr));
                 return status;
             }},
            {"ferry_copy_pieces_explain_async",
             [=, this](const ferry_piece_list *list, ferry_error_info *error) {
                 ferry_batch_explanation found = {};
                 found.struct_size = sizeof found;
                 return ferry_copy_pieces_explain_async(instance, list, nullptr, stream, &found, error);
             }},
            {"ferry_prepared_create_pieces",
             [=, this](const ferry_piece_list *list, ferry_error_info *error) {
                 prepared_owner made;
                 return ferry_prepared_create_pieces(instance, list, updatable, stream, &made.handle, error);
             }},
        };
    }

    CUstream stream = nullptr;
};

// ---- Layouts

TEST_F(piece_lists, every_layout_copies_the_same_bytes) {
    std::uint64_t seed = 1;
    for (const auto &[from, to] : {std::pair{place_kind::pinned, place_kind::device},
                                   {place_kind::device, place_kind::pageable},
                                   {place_kind::pageable, place_kind::device},
                                   {place_kind::pageable, place_kind::pageable}})
        for (const piece_layout &layout : piece_layouts)
            for (ferry_instance *const instance : {basic.get(), full.get()})
                for (const bool is_synchronous : {true, false}) {
                    SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to) << ", a piece each "
                                                    << layout.words << " words");
                    scattered pieces(from, to, 300, 200, seed++);
                    const laid_out_pieces list(layout, pieces.batch.to, pieces.batch.from, pieces.batch.sizes);
                    ferry_error_info error = new_error();
                    const std::int32_t status =
                        is_synchronous ? ferry_copy_pieces(instance, list, check_overlap, &error)
                                       : ferry_copy_pieces_async(instance, list, {}, stream, nullptr, &error);
                    ASSERT_OK(status) << describe(error);
                    wait();
                    pieces.expect_copied();
                }
}

TEST_F(piece_lists, the_elements_are_read_before_the_call_returns) {
    scattered pieces(place_kind::pinned, place_kind::device, 200, 100, 5);
    {
        const laid_out_pieces list(array_of_pieces, pieces.batch.to, pieces.batch.from, pieces.batch.sizes);
        ASSERT_OK(ferry_copy_pieces_async(basic.get(), list, nullptr, stream, nullptr, nullptr));
    }
    wait();
    pieces.expect_copied();
}

TEST_F(piece_lists, a_prepared_batch_keeps_its_pieces_in_every_layout) {
    std::uint64_t seed = 20;
    for (const piece_layout &layout : piece_layouts)
        for (const bool is_updatable : {true, false}) {
            scattered pieces(place_kind::pinned, place_kind::device, 250, 100, seed++);
            prepared_owner prepared;
            {
                const laid_out_pieces list(layout, pieces.batch.to, pieces.batch.from, pieces.batch.sizes);
                ASSERT_OK(ferry_prepared_create_pieces(basic.get(), list, is_updatable ? updatable : how(), stream,
                                                       &prepared.handle, nullptr));
            }
            for (int i = 0; i < 2; ++i)
                ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
            wait();
            pieces.expect_copied();
        }
}

TEST_F(piece_lists, an_explanation_counts_the_pieces_of_every_layout) {
    const scattered pieces(place_kind::pinned, place_kind::device, 300, 200, 40);
    for (const piece_layout &layout : piece_layouts) {
        const laid_out_pieces list(layout, pieces.batch.to, pieces.batch.from, pieces.batch.sizes);
        ferry_batch_explanation found = {};
        found.struct_size = sizeof found;
        ferry_batch_explanation expected = found;
        ASSERT_OK(ferry_copy_pieces_explain_async(basic.get(), list, nullptr, stream, &found, nullptr));
        const in_arrays arrays(pieces.batch.to.data(), pieces.batch.from.data(), pieces.batch.sizes.data(), 300);
        ASSERT_OK(ferry_copy_pieces_explain_async(basic.get(), arrays, nullptr, stream, &expected, nullptr));
        EXPECT_EQ(std::memcmp(&found, &expected, sizeof found), 0);
    }
}

TEST_F(piece_lists, an_error_has_the_index_of_the_piece_in_every_layout) {
    scattered pieces(place_kind::pinned, place_kind::device, 100, 100, 50);
    pieces.batch.sizes[61] = std::uint64_t{64} << 10;
    for (const piece_layout &layout : piece_layouts)
        for (const any_call &call : calls(full.get())) {
            SCOPED_TRACE(call.name);
            const laid_out_pieces list(layout, pieces.batch.to, pieces.batch.from, pieces.batch.sizes);
            ferry_error_info error = new_error();
            EXPECT_EQ(call.make(list, &error), FERRY_ERROR_OUT_OF_BOUNDS);
            EXPECT_EQ(error.item, FERRY_ITEM_PIECE);
            EXPECT_EQ(error.index, 61u);
        }
    wait();
    EXPECT_TRUE(pieces.destination.read() == pieces.destination.picture());
}

TEST_F(piece_lists, overlap_is_found_in_every_layout) {
    test_place device(place_kind::device, {.width = 4096});
    const std::uint64_t at = device.address();
    for (const piece_layout &layout : piece_layouts) {
        const laid_out_pieces list(layout, {at, at + 1024, at + 64}, {at + 2048, at + 2048, at + 2048}, {64, 64, 64});
        EXPECT_OK(ferry_copy_pieces(basic.get(), list, check_overlap, nullptr));
        const laid_out_pieces shared(layout, {at, at + 1024, at + 63}, {at + 2048, at + 2048, at + 2048}, {64, 64, 64});
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy_pieces(basic.get(), shared, check_overlap, &error), error, FERRY_ERROR_OVERLAP,
                       FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
        EXPECT_EQ(error.index, 2u);
        EXPECT_EQ(error.limit, 0u);
    }
}

// ---- Builders

TEST_F(piece_lists, the_builders_set_every_field_of_the_first_version_and_no_byte_behind) {
    struct {
        ferry_piece_list list;
        unsigned char behind[8];
    } after;
    static_assert(sizeof(ferry_piece_list) == 56);
    const ferry_piece pieces[2] = {{1, 2, 3}, {4, 5, 6}};
    std::memset(&after, 0xee, sizeof after);
    ferry_piece_list_set(&after.list, pieces, 2);
    EXPECT_EQ(after.list.struct_size, 56u);
    EXPECT_EQ(after.list.reserved, 0u);
    EXPECT_EQ(after.list.count, 2u);
    EXPECT_EQ(after.list.destinations, &pieces[0].destination);
    EXPECT_EQ(after.list.sources, &pieces[0].source);
    EXPECT_EQ(after.list.sizes, &pieces[0].size);
    EXPECT_EQ(after.list.stride, sizeof(ferry_piece));
    EXPECT_EQ(after.list.source_file, nullptr);
    std::memset(&after.list, 0xee, sizeof after.list);
    const std::uint64_t to[2] = {}, from[2] = {}, sizes[2] = {};
    ferry_piece_list_set_arrays(&after.list, to, from, sizes, 2);
    EXPECT_EQ(after.list.struct_size, 56u);
    EXPECT_EQ(after.list.reserved, 0u);
    EXPECT_EQ(after.list.count, 2u);
    EXPECT_EQ(after.list.destinations, to);
    EXPECT_EQ(after.list.sources, from);
    EXPECT_EQ(after.list.sizes, sizes);
    EXPECT_EQ(after.list.stride, 8u);
    EXPECT_EQ(after.list.source_file, nullptr);
    for (const unsigned char byte : after.behind)
        EXPECT_EQ(byte, 0xee);
    ferry_piece_list_set(nullptr, pieces, 2);
    ferry_piece_list_set_arrays(nullptr, to, from, sizes, 2);
}

// ---- Refused lists

TEST_F(piece_lists, no_pieces_need_no_pointers) {
    ferry_piece_list none = {};
    none.struct_size = sizeof none;
    ferry_piece_list of_structs, of_arrays, misplaced = none;
    ferry_piece_list_set(&of_structs, nullptr, 0);
    ferry_piece_list_set_arrays(&of_arrays, nullptr, nullptr, nullptr, 0);
    misplaced.destinations = misplaced.sources = reinterpret_cast<const std::uint64_t *>(13);
    misplaced.stride = 1 << 20;
    for (const ferry_piece_list &list : {none, of_structs, of_arrays, misplaced})
        for (const any_call &call : calls(basic.get()))
            EXPECT_OK(call.make(&list, nullptr)) << call.name;
    prepared_owner prepared;
    ASSERT_OK(ferry_prepared_create_pieces(basic.get(), &none, updatable, stream, &prepared.handle, nullptr));
    EXPECT_OK(ferry_prepared_set_addresses(prepared.handle, &none, stream, nullptr));
    EXPECT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
    wait();
}

TEST_F(piece_lists, a_missing_list_is_refused) {
    for (const any_call &call : calls(basic.get()))
        EXPECT_EQ(call.make(nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT) << call.name;
    EXPECT_EQ(ferry_prepared_set_addresses(nullptr, nullptr, stream, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

struct wrong_field {
    const char *what;
    std::int32_t status, field;
    std::int32_t are;
    std::uint64_t value, limit;
    std::function<void(ferry_piece_list &)> break_it;
    bool is_of_sizes = false; // which new addresses do not have
};

TEST_F(piece_lists, every_wrong_field_is_named_with_its_value_and_limit) {
    test_place device(place_kind::device, {.width = 4096});
    const std::vector<std::uint64_t> to = {device.address(), device.address() + 512},
                                     from = {device.address() + 1024, device.address() + 2048}, sizes = {64, 64};
    const laid_out_pieces good(own_structs, to, from, sizes);
    const auto address = [](const std::uint64_t *pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
    const auto moved = [](const std::uint64_t *pointer, std::uint64_t by) {
        return reinterpret_cast<const std::uint64_t *>(reinterpret_cast<std::uintptr_t>(pointer) + by);
    };
    const ferry_piece_list &is = good.list;
    // The last element is at the end of the address space if its stride is this.
    const std::uint64_t largest = (UINT64_MAX - 7 - address(is.destinations)) / 8 * 8;
    using list = ferry_piece_list;
    const wrong_field rows[] = {
        {"a struct_size that is too small", FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE, FERRY_NUMBERS_AT_LEAST,
         4, 8, [](list &each) { each.struct_size = 4; }},
        {"no struct_size", FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE, FERRY_NUMBERS_AT_LEAST, 0, 8,
         [](list &each) { each.struct_size = 0; }},
        {"a struct_size that is too large", FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE, FERRY_NUMBERS_AT_MOST,
         4097, 4096, [](list &each) { each.struct_size = 4097; }},
        {"a reserved field", FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED, FERRY_NUMBERS_VALUE, 7, 0,
         [](list &each) { each.reserved = 7; }},
        {"no destinations", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_DESTINATIONS, FERRY_NUMBERS_VALUE, 0, 0,
         [](list &each) { each.destinations = nullptr; }, true},
        {"no sources", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SOURCES, FERRY_NUMBERS_VALUE, 0, 0,
         [](list &each) { each.sources = nullptr; }, true},
        {"no sizes", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SIZES, FERRY_NUMBERS_VALUE, 0, 0,
         [](list &each) { each.sizes = nullptr; }, true},
        {"misaligned destinations", FERRY_ERROR_ALIGNMENT, FERRY_FIELD_DESTINATIONS, FERRY_NUMBERS_MULTIPLE,
         address(is.destinations) + 4, 8, [&](list &each) { each.destinations = moved(is.destinations, 4); }},
        {"misaligned sources", FERRY_ERROR_ALIGNMENT, FERRY_FIELD_SOURCES, FERRY_NUMBERS_MULTIPLE,
         address(is.sources) + 1, 8, [&](list &each) { each.sources = moved(is.sources, 1); }},
        {"misaligned sizes", FERRY_ERROR_ALIGNMENT, FERRY_FIELD_SIZES, FERRY_NUMBERS_MULTIPLE, address(is.sizes) + 7, 8,
         [&](list &each) { each.sizes = moved(is.sizes, 7); }, true},
        {"an odd stride", FERRY_ERROR_ALIGNMENT, FERRY_FIELD_STRIDE, FERRY_NUMBERS_MULTIPLE, 20, 8,
         [](list &each) { each.stride = 20; }},
        {"a stride past the end", FERRY_ERROR_OVERFLOW, FERRY_FIELD_STRIDE, FERRY_NUMBERS_AT_MOST, largest + 8, largest,
         [&](list &each) { each.stride = largest + 8; }},
        {"a stride that looks negative", FERRY_ERROR_OVERFLOW, FERRY_FIELD_STRIDE, FERRY_NUMBERS_AT_MOST,
         ~std::uint64_t{0} - 39, largest, [](list &each) { each.stride = ~std::uint64_t{0} - 39; }},
        {"a stride whose product overflows", FERRY_ERROR_OVERFLOW, FERRY_FIELD_STRIDE, FERRY_NUMBERS_AT_MOST,
         std::uint64_t{1} << 62, largest / 4 / 8 * 8, [](list &each) { each.stride = 1ull << 62, each.count = 5; }},
        {"a count past the end", FERRY_ERROR_OVERFLOW, FERRY_FIELD_COUNT, FERRY_NUMBERS_AT_MOST, UINT64_MAX,
         largest / 8 + 1, [](list &each) { each.stride = 0, each.count = UINT64_MAX; }},
        {"a stride that was left out", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_STRIDE, FERRY_NUMBERS_AT_LEAST, 0, 24,
         [&](list &each) { each.destinations = is.sources + 1, each.sizes = is.sources + 2, each.stride = 0; }, true},
        {"one array for both ends", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SOURCES, FERRY_NUMBERS_SAME,
         address(is.sources), FERRY_FIELD_DESTINATIONS, [&](list &each) { each.destinations = is.sources; }},
        {"the destinations for the sizes", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SIZES, FERRY_NUMBERS_SAME,
         address(is.destinations), FERRY_FIELD_DESTINATIONS, [&](list &each) { each.sizes = is.destinations; }, true},
    };
    prepared_owner prepared;
    ASSERT_OK(ferry_prepared_create_pieces(basic.get(), good, updatable, stream, &prepared.handle, nullptr));
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        std::vector<any_call> all = calls(instance);
        all.push_back({"ferry_prepared_set_addresses", [&](const ferry_piece_list *pieces, ferry_error_info *error) {
                           return ferry_prepared_set_addresses(prepared.handle, pieces, stream, error);
                       }});
        for (const any_call &call : all) {
            EXPECT_OK(call.make(good, nullptr)) << call.name;
            for (const wrong_field &row : rows) {
                if (row.is_of_sizes && &call == &all.back()) continue;
                SCOPED_TRACE(testing::Message() << call.name << ": " << row.what);
                ferry_piece_list broken = good.list;
                row.break_it(broken);
                ferry_error_info error = new_error();
                expect_refusal(call.make(&broken, &error), error, row.status, FERRY_SIDE_PIECES, row.field);
                EXPECT_EQ(error.item, FERRY_ITEM_NONE);
                EXPECT_EQ(error.numbers, row.are);
                EXPECT_EQ(error.value, row.value);
                EXPECT_EQ(error.limit, row.limit);
            }
        }
    }
    wait();
}

TEST_F(piece_lists, an_error_of_a_list_can_be_read) {
    const std::uint64_t words[6] = {};
    ferry_piece_list list;
    ferry_piece_list_set_arrays(&list, &words[0], &words[1], &words[2], 2);
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy_pieces(basic.get(), &list, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(describe(error), "pieces.stride: 8, must be the size of the struct that contains a piece, at least 24 "
                               "(FERRY_ERROR_INVALID_ARGUMENT)");
    list.stride = 12;
    EXPECT_EQ(ferry_copy_pieces(basic.get(), &list, nullptr, &error), FERRY_ERROR_ALIGNMENT);
    EXPECT_EQ(describe(error), "pieces.stride: 12, must be a multiple of 8 (FERRY_ERROR_ALIGNMENT)");
}

TEST_F(piece_lists, a_list_of_a_newer_header_is_taken_if_its_new_fields_are_zero) {
    test_place device(place_kind::device, {.width = 4096});
    const ferry_piece piece = {device.address(), device.address() + 1024, 64};
    struct {
        ferry_piece_list list;
        std::uint64_t newer;
    } larger = {};
    ferry_piece_list_set(&larger.list, &piece, 1);
    larger.list.struct_size = sizeof larger;
    for (const any_call &call : calls(basic.get())) {
        larger.newer = 0;
        EXPECT_OK(call.make(&larger.list, nullptr)) << call.name;
        larger.newer = 1;
        ferry_error_info error = new_error();
        expect_refusal(call.make(&larger.list, &error), error, FERRY_ERROR_ABI_MISMATCH, FERRY_SIDE_PIECES,
                       FERRY_FIELD_STRUCT_SIZE);
    }
    wait();
}

TEST_F(piece_lists, one_piece_needs_no_stride) {
    test_place device(place_kind::device, {.width = 4096});
    const ferry_piece piece = {device.address(), device.address() + 1024, 64};
    ferry_piece_list list;
    ferry_piece_list_set(&list, &piece, 1);
    for (const std::uint64_t stride : {std::uint64_t{0}, std::uint64_t{8}, ~std::uint64_t{7}}) {
        list.stride = stride;
        for (const any_call &call : calls(basic.get()))
            EXPECT_OK(call.make(&list, nullptr)) << call.name << ", " << stride;
    }
    wait();
}

// ---- New addresses

TEST_F(piece_lists, new_addresses_come_in_every_layout_and_their_sizes_are_not_read) {
    std::uint64_t seed = 60;
    for (const piece_layout &layout : piece_layouts) {
        scattered pieces(place_kind::pinned, place_kind::device, 200, 100, seed++);
        piece_batch &batch = pieces.batch;
        prepared_owner prepared;
        ASSERT_OK(batch.prepare(basic.get(), stream, updatable, &prepared.handle));
        std::vector<std::uint64_t> other_sources = batch.from;
        for (std::size_t i = 0; i < other_sources.size(); ++i)
            pieces.offsets[i].from = (other_sources[i] = pieces.source.address() + i) - pieces.source.address();
        const laid_out_pieces changed(layout, batch.to, other_sources,
                                      std::vector<std::uint64_t>(batch.sizes.size(), UINT64_MAX));
        ferry_error_info error = new_error();
        ASSERT_OK(ferry_prepared_set_addresses(prepared.handle, changed, stream, &error)) << describe(error);
        ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
        wait();
        pieces.expect_copied();
    }
}

TEST_F(piece_lists, new_addresses_without_a_pointer_keep_that_end) {
    test_place host(place_kind::pinned, {.width = 4096}), device(place_kind::device, {.width = 4096});
    host.fill(1), device.fill(2);
    const ferry_piece piece = {device.address(), host.address(), 64};
    ferry_piece_list list;
    ferry_piece_list_set(&list, &piece, 1);
    prepared_owner prepared;
    ASSERT_OK(ferry_prepared_create_pieces(basic.get(), &list, updatable, stream, &prepared.handle, nullptr));
    const std::uint64_t to = device.address() + 1024, from = host.address() + 2048;
    const struct {
        const std::uint64_t *destinations, *sources;
        std::uint64_t to, from;
    } steps[] = {{nullptr, nullptr, 0, 0}, {&to, nullptr, 1024, 0}, {nullptr, &from, 1024, 2048}};
    for (const auto &step : steps) {
        ASSERT_OK(ferry_prepared_set_addresses(prepared.handle, in_arrays(step.destinations, step.sources, nullptr, 1),
                                               stream, nullptr));
        ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr));
        wait();
        reference_copy(host, {.x = step.from}, device, {.x = step.to}, 64, 1, 1);
        EXPECT_TRUE(device.read() == device.picture());
    }
}

TEST_F(piece_lists, new_addresses_of_another_number_are_refused_with_both_numbers) {
    scattered pieces(place_kind::pinned, place_kind::device, 20, 100, 70);
    prepared_owner prepared;
    ASSERT_OK(pieces.batch.prepare(basic.get(), stream, updatable, &prepared.handle));
    for (const std::uint64_t count : {0, 19, 21}) {
        const std::vector<std::uint64_t> words(21, 0);
        ferry_error_info error = new_error();
        expect_refusal(ferry_prepared_set_addresses(prepared.handle, in_arrays(words.data(), nullptr, nullptr, count),
                                                    stream, &error),
                       error, FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_PIECES, FERRY_FIELD_COUNT);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_EQUAL);
        EXPECT_EQ(error.value, count);
        EXPECT_EQ(error.limit, 20u);
        EXPECT_EQ(describe(error),
                  "pieces.count: " + std::to_string(count) + ", must be 20 (FERRY_ERROR_INVALID_ARGUMENT)");
    }
    ASSERT_OK(ferry_prepared_launch(prepared.handle, nullptr, stream, nullptr, nullptr)); // nothing changed
    wait();
    pieces.expect_copied();
}

} // namespace
} // namespace ferry::test
