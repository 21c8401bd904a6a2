// Tests that no information is lost in errors: the text contains all that ferry_error_info holds, and the struct holds
// what the call knew.
#include <functional>

#include "support/fault_driver.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t small_value = 7'340'123, small_limit = 5'120'771;

void expect_words(const std::string &text, std::initializer_list<std::string> all_words) {
    for (const std::string &words : all_words)
        EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' in: " << text;
}

// ---- Text ------------------------------------------------------------------------------------------------------

const char *const side_names[] = {"", "source", "destination", "extent", "descriptor", "options", "driver_options"};
const char *const item_names[] = {"", "copy", "piece", "helper", "staging_cpus"};

// Each number in both forms that the text may use.
bool contains(const std::string &text, std::uint64_t number) {
    char hex[32];
    std::snprintf(hex, sizeof hex, "%#llx", static_cast<unsigned long long>(number));
    return text.find(std::to_string(number)) != std::string::npos || text.find(hex) != std::string::npos;
}

TEST(error_text, contains_side_field_item_value_and_limit_in_every_combination) {
    std::vector<std::string> fields;
    for (std::int32_t field = 0; field <= FERRY_FIELD_LINKS; ++field) {
        ferry_error_info error = new_error();
        error.status = FERRY_ERROR_INVALID_ARGUMENT;
        error.field = field;
        const std::string text = describe(error);
        fields.push_back(field ? text.substr(0, text.find(':')) : "");
        EXPECT_TRUE(field == 0 || fields.back().find(' ') == std::string::npos) << "field " << field << " has no name";
    }
    for (std::int32_t side = 0; side <= FERRY_SIDE_DRIVER_OPTIONS; ++side)
        for (std::int32_t field = 0; field <= FERRY_FIELD_LINKS; ++field)
            for (std::int32_t item = 0; item <= FERRY_ITEM_CPU; ++item)
                for (std::int32_t numbers = 0; numbers <= FERRY_NUMBERS_NEEDS; ++numbers)
                    for (const std::uint64_t index : {0u, 41u}) {
                        ferry_error_info error = new_error();
                        error.status = FERRY_ERROR_INVALID_ARGUMENT;
                        error.side = side;
                        error.field = field;
                        error.item = item;
                        error.index = index;
                        error.numbers = numbers;
                        error.value = numbers == FERRY_NUMBERS_OBSTACLE ? FERRY_OBSTACLE_MANAGED : small_value;
                        error.limit = small_limit;
                        error.driver_function = "cuFunction";
                        const std::string text = describe(error);
                        ASSERT_NE(text.find("(FERRY_ERROR_INVALID_ARGUMENT from cuFunction)"), std::string::npos)
                            << text;
                        const std::string which =
                            item ? std::string(item_names[item]) + ' ' + std::to_string(index) + ": " : "";
                        const std::string dot = side && field ? "." : "";
                        const std::string where = side_names[side] + dot + fields[field] + (side || field ? ": " : "");
                        ASSERT_EQ(text.compare(0, (which + where).size(), which + where), 0) << text;
                        const bool has_value = numbers != FERRY_NUMBERS_NONE && numbers != FERRY_NUMBERS_OBSTACLE;
                        const bool has_limit = has_value && numbers != FERRY_NUMBERS_VALUE;
                        ASSERT_EQ(contains(text, small_value), has_value) << text;
                        ASSERT_EQ(contains(text, small_limit), has_limit) << text;
                        if (numbers == FERRY_NUMBERS_OBSTACLE) {
                            ASSERT_NE(text.find(ferry_obstacle_text(FERRY_OBSTACLE_MANAGED)), std::string::npos)
                                << text;
                        }
                        ASSERT_EQ(has_limit, text.find(ferry_status_text(error.status)) == std::string::npos) << text;
                    }
}

TEST(error_text, contains_zeros_and_negative_numbers) {
    ferry_error_info error = new_error();
    error.status = FERRY_ERROR_INVALID_ARGUMENT;
    error.field = FERRY_FIELD_SIZE;
    error.numbers = FERRY_NUMBERS_AT_LEAST;
    error.limit = 1;
    EXPECT_EQ(describe(error), "size: 0, must be at least 1 (FERRY_ERROR_INVALID_ARGUMENT)");
    error.field = FERRY_FIELD_STAGING_PRIORITY;
    error.value = static_cast<std::uint64_t>(-21);
    error.limit = static_cast<std::uint64_t>(-20);
    EXPECT_EQ(describe(error), "staging_priority: -21, must be at least -20 (FERRY_ERROR_INVALID_ARGUMENT)");
}

TEST(error_text, of_a_smaller_struct_reads_only_what_it_has) {
    ferry_error_info error = new_error();
    error.status = FERRY_ERROR_PITCH;
    error.field = FERRY_FIELD_ROW_PITCH;
    error.numbers = FERRY_NUMBERS_AT_LEAST;
    error.driver_function = reinterpret_cast<const char *>(1); // must not be read
    error.struct_size = offsetof(ferry_error_info, driver_function);
    EXPECT_EQ(describe(error),
              std::string("row_pitch: ") + ferry_status_text(FERRY_ERROR_PITCH) + " (FERRY_ERROR_PITCH)");
}

// ---- Refusals --------------------------------------------------------------------------------------------------

class error_details : public ferry_test {
protected:
    std::string opened_with(const std::function<void(ferry_options &)> &spoil) {
        ferry_options options = options_under_test();
        spoil(options);
        ferry_instance *instance = nullptr;
        ferry_error_info error = new_error();
        EXPECT_NE(ferry_open(&options, &instance, &error), FERRY_SUCCESS);
        return describe(error);
    }
};

TEST_F(error_details, options_are_named_with_value_and_limit) {
    const struct {
        std::function<void(ferry_options &)> spoil;
        const char *line;
    } rows[] = {
        {[](ferry_options &o) { o.staging_threads = 65; },
         "options.staging_threads: 65, must be from 0 to 64 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.driver = -1; },
         "options.driver: -1, must be from 0 to 2 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.staging_priority = -21; },
         "options.staging_priority: -21, must be at least -20 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.register_chunk = 4097; },
         "options.register_chunk: 4097, must be a multiple of 4096 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.staging_bytes = 4095; },
         "options.staging_bytes: 4095, must be at least 4096 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.copy_flags = FERRY_COPY_BY_DRIVER | FERRY_COPY_BY_KERNEL; },
         "has flags that exclude each other"},
    };
    for (const auto &row : rows)
        expect_words(opened_with(row.spoil), {row.line});
    ferry_error_info error = new_error();
    ferry_options options = options_under_test();
    options.struct_size = 0;
    ferry_instance *instance = nullptr;
    EXPECT_EQ(ferry_open(&options, &instance, &error), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(describe(error), "options.struct_size: 0, unlike this library's " + std::to_string(sizeof options) +
                                   " (FERRY_ERROR_ABI_MISMATCH)");
}

TEST_F(error_details, two_forced_routes_are_called_exclusive_and_unknown_flags_unknown) {
    ferry_copy_desc copy = {};
    copy.flags = FERRY_COPY_BY_DRIVER | FERRY_COPY_BY_RELAY;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy(basic.get(), &copy, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_EXCLUSIVE);
    EXPECT_EQ(error.value, copy.flags);
    EXPECT_EQ(error.limit, copy.flags);
    copy.flags = FERRY_COPY_BY_KERNEL | FERRY_COPY_NO_KERNELS;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_EXCLUSIVE);
    copy.flags = 1u << 15;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_BITS);
    EXPECT_EQ(error.value, copy.flags);
    EXPECT_EQ(error.limit & error.value, 0u);
}

TEST_F(error_details, an_array_with_three_channels_names_the_channels) {
    ferry_array_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.format = FERRY_FORMAT_UINT8;
    desc.channels = 3;
    desc.width = 64;
    CUarray_st *array = nullptr;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_array_create(basic.get(), 0, &desc, &array, &error), FERRY_ERROR_ARRAY_FORMAT);
    EXPECT_EQ(describe(error),
              "options.channels: 3, must be a power of two, at most 4 (FERRY_ERROR_ARRAY_FORMAT from cuArray3DCreate)");
    desc.channels = 1;
    desc.format = 99;
    EXPECT_EQ(ferry_array_create(basic.get(), 0, &desc, &array, &error), FERRY_ERROR_ARRAY_FORMAT);
    expect_words(describe(error), {"options.format: 99: ", "from cuArray3DCreate"});
}

TEST_F(error_details, a_batch_names_copy_0_and_piece_0) {
    const test_place memory(place_kind::device, {.width = 256});
    ferry_copy_desc copies[2] = {};
    copies[0] = describe_copy(memory.describe(statement::stated), memory.describe(statement::stated, {.x = 128}), 64);
    copies[1] = copies[0];
    copies[0].source.device = 7777;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy_batch(basic.get(), copies, 2, 0, &error), FERRY_ERROR_DEVICE);
    EXPECT_EQ(describe(error), "copy 0: source.device: 7777, must be at least 0 and less than " +
                                   std::to_string(device_count()) + " (FERRY_ERROR_DEVICE)");
    const std::uint64_t to[] = {memory.address(), memory.address()}, from[] = {0, memory.address() + 128},
                        sizes[] = {64, 64};
    EXPECT_EQ(ferry_copy_pieces(basic.get(), to, from, sizes, 2, 0, &error), FERRY_ERROR_ADDRESS);
    expect_words(describe(error), {"piece 0: source.address: 0"});
    EXPECT_EQ(ferry_copy_pieces(basic.get(), to, from, sizes, 2, 1u << 31, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.item, FERRY_ITEM_NONE) << "the flags belong to no piece";
}

// ---- The driver's failures -------------------------------------------------------------------------------------

TEST_F(error_details, a_failure_of_the_driver_names_its_function_and_the_field) {
    fault_driver driver(raw_entry_points());
    const instance_owner faulty = open_or_fail(driver.options());
    ferry_instance *const ferry = faulty.get();
    const test_place memory(place_kind::device, {.width = 256});
    std::uint64_t address = 0;
    ferry_host_block block = {};
    block.struct_size = sizeof block;
    CUstream_st *stream_made = nullptr;
    CUevent_st *event = nullptr;
    const struct {
        const char *function;
        std::int32_t field;
        std::uint64_t value;
        std::function<std::int32_t(ferry_error_info &)> call;
    } rows[] = {
        {"cuMemAlloc", FERRY_FIELD_SIZE, 4096,
         [&](ferry_error_info &error) { return ferry_device_alloc(ferry, 0, 4096, &address, &error); }},
        {"cuStreamCreateWithPriority", FERRY_FIELD_NONE, 0,
         [&](ferry_error_info &error) { return ferry_stream_create(ferry, 0, 0, 0, &stream_made, &error); }},
        {"cuEventCreate", FERRY_FIELD_NONE, 0,
         [&](ferry_error_info &error) { return ferry_event_create(ferry, 0, 0, &event, &error); }},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.function);
        for (const CUresult result : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
            driver.fail(row.function, result);
            ferry_error_info error = new_error();
            EXPECT_EQ(row.call(error), FERRY_STATUS_DRIVER_BASE - result);
            driver.heal();
            ASSERT_NE(error.driver_function, nullptr) << describe(error);
            EXPECT_STREQ(error.driver_function, row.function);
            const bool is_named = result == CUDA_ERROR_OUT_OF_MEMORY; // an unknown error is not about a field
            EXPECT_EQ(error.field, is_named ? row.field : FERRY_FIELD_NONE) << describe(error);
            EXPECT_EQ(error.value, is_named ? row.value : 0);
            expect_words(describe(error), {std::string(" from ") + row.function + ")"});
        }
    }
}

TEST_F(error_details, after_a_success_no_driver_function_is_named) {
    ferry_error_info error = new_error();
    std::uint64_t address = 0;
    error.driver_function = "cuNothing";
    error.item = error.numbers = 1;
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, 4096, &address, &error));
    EXPECT_EQ(error.driver_function, nullptr);
    EXPECT_EQ(error.item | error.numbers, 0);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
}

} // namespace
} // namespace ferry::test
