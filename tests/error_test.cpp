// Tests that no information is lost in errors: the text contains all that ferry_error_info holds, and the struct holds
// what the call knew.
#include <functional>
#include <tuple>
#include <utility>

#include "support/fault_driver.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/test_place.h"
#include "system/handles.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t small_value = 7'340'123, small_limit = 5'120'771;

void expect_words(const std::string &text, std::initializer_list<std::string> all_words) {
    for (const std::string &words : all_words)
        EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' in: " << text;
}

// ---- Text ------------------------------------------------------------------------------------------------------

const char *const side_names[] = {"",           "source",  "destination",    "extent",
                                  "descriptor", "options", "driver_options", "pieces"};
const char *const item_names[] = {"", "copy", "piece", "helper", "staging_cpus", "ticket"};

// Each number in both forms that the text may use.
bool contains(const std::string &text, std::uint64_t number) {
    char hex[32];
    std::snprintf(hex, sizeof hex, "%#llx", static_cast<unsigned long long>(number));
    return text.find(std::to_string(number)) != std::string::npos || text.find(hex) != std::string::npos;
}

TEST(error_text, contains_side_field_item_value_and_limit_in_every_combination) {
    std::vector<std::string> fields;
    for (std::int32_t field = 0; field <= FERRY_FIELD_RESULT; ++field) {
        ferry_error_info error = new_error();
        error.status = FERRY_ERROR_INVALID_ARGUMENT;
        error.field = field;
        const std::string text = describe(error);
        fields.push_back(field ? text.substr(0, text.find(':')) : "");
        EXPECT_TRUE(field == 0 || fields.back().find(' ') == std::string::npos) << "field " << field << " has no name";
    }
    for (std::int32_t side = 0; side <= FERRY_SIDE_PIECES; ++side)
        for (std::int32_t field = 0; field <= FERRY_FIELD_RESULT; ++field)
            for (std::int32_t item = 0; item <= FERRY_ITEM_TICKET; ++item)
                for (std::int32_t numbers = 0; numbers <= FERRY_NUMBERS_PREPARED; ++numbers)
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
                        const bool has_numbers = numbers != FERRY_NUMBERS_NONE && numbers != FERRY_NUMBERS_OBSTACLE;
                        const bool has_value = has_numbers && numbers != FERRY_NUMBERS_COPY; // which is `index`
                        const bool has_limit = has_numbers && numbers != FERRY_NUMBERS_VALUE;
                        ASSERT_EQ(contains(text, small_value), has_value) << text;
                        if (numbers == FERRY_NUMBERS_ONE_OF)
                            ASSERT_NE(text.find(", 8, 9, 13, "), std::string::npos) << text;
                        else
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
    error.field = FERRY_FIELD_STAGING_NICENESS;
    error.value = static_cast<std::uint64_t>(-21);
    error.limit = static_cast<std::uint64_t>(-20);
    EXPECT_EQ(describe(error), "staging_niceness: -21, must be at least -20 (FERRY_ERROR_INVALID_ARGUMENT)");
}

TEST(error_text, addresses_are_hexadecimal_and_constants_have_their_names) {
    const struct {
        std::int32_t field, numbers;
        std::uint64_t value, limit;
        const char *line;
    } rows[] = {
        {FERRY_FIELD_ADDRESS, FERRY_NUMBERS_END, 0x1001, 0x1000, "address: 0x1001, past the end at 0x1000"},
        {FERRY_FIELD_ADDRESS, FERRY_NUMBERS_MULTIPLE, 0x1001, 16, "address: 0x1001, must be a multiple of 16"},
        {FERRY_FIELD_STREAM, FERRY_NUMBERS_VALUE, 12345, 0, "stream: 0x3039: "},
        {FERRY_FIELD_ARRAY, FERRY_NUMBERS_ELEMENT, 12, 8, "array: 12, does not fit elements of 8"},
        {FERRY_FIELD_KIND, FERRY_NUMBERS_EQUAL, 1, 2, "kind: FERRY_KIND_HOST, must be FERRY_KIND_DEVICE"},
        {FERRY_FIELD_KIND, FERRY_NUMBERS_UP_TO, 6, 5, "kind: 6, must be from FERRY_KIND_ANY to FERRY_KIND_FILE"},
        {FERRY_FIELD_KIND, FERRY_NUMBERS_UP_TO, static_cast<std::uint64_t>(-1), 5, "kind: -1, must be from"},
        {FERRY_FIELD_INSTANCE, FERRY_NUMBERS_VALUE, 0, 0, "instance: NULL, must be a valid pointer"},
    };
    for (const auto &row : rows) {
        ferry_error_info error = new_error();
        error.status = FERRY_ERROR_INVALID_ARGUMENT;
        error.field = row.field;
        error.numbers = row.numbers;
        error.value = row.value;
        error.limit = row.limit;
        EXPECT_EQ(describe(error).find(row.line), 0u) << describe(error);
    }
}

TEST(error_text, of_a_call_that_would_wait_says_why) {
    const struct {
        std::uint64_t obstacle;
        const char *why;
    } rows[] = {
        {FERRY_OBSTACLE_WAITS, "every route would wait for work of a stream"},
        {FERRY_OBSTACLE_NOT_PREPARED, "the first-use work is not done (see ferry_staging_prepare)"},
        {FERRY_OBSTACLE_BUSY, "other copies use what the route needs (try again later)"},
    };
    for (const auto &row : rows) {
        ferry_error_info error = new_error();
        error.status = FERRY_ERROR_WOULD_BLOCK;
        error.side = FERRY_SIDE_OPTIONS;
        error.field = FERRY_FIELD_FLAGS;
        error.numbers = FERRY_NUMBERS_OBSTACLE;
        error.value = row.obstacle;
        EXPECT_EQ(describe(error),
                  std::string("options.flags: the call would wait, which FERRY_COPY_NO_WAIT forbids: ") + row.why +
                      " (FERRY_ERROR_WOULD_BLOCK)");
    }
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
        {[](ferry_options &o) {
             o.staging_priority = FERRY_STAGING_PRIORITY_NICENESS;
             o.staging_niceness = -21;
         },
         "options.staging_niceness: -21, must be at least -20 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.register_chunk = 4097; },
         "options.register_chunk: 4097, must be a multiple of 4096 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) { o.staging_bytes = 4095; },
         "options.staging_bytes: 4095, must be at least 4096 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) {
             static constexpr how unknown = max_sms(65536);
             o.copy_options = unknown;
         },
         "options.max_sms: 65536, must be from 0 to 65535 (FERRY_ERROR_INVALID_ARGUMENT)"},
    };
    for (const auto &row : rows)
        expect_words(opened_with(row.spoil), {row.line});
    const std::int32_t processors[] = {0, -1};
    const struct {
        std::function<void(ferry_options &)> spoil;
        const char *line;
    } combinations[] = {
        {[](ferry_options &o) { o.staging_cpu_count = 3; },
         "options.staging_cpu_count: 3, requires staging_cpus (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[&](ferry_options &o) { o.staging_cpus = processors; },
         "options.staging_cpu_count: 0, must be at least 1 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[&](ferry_options &o) {
             o.staging_cpus = processors;
             o.staging_cpu_count = 1;
             o.staging_numa = FERRY_NUMA_NODE;
         },
         "options.staging_cpu_count: 1, excluded by staging_numa (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) {
             o.kernels = FERRY_KERNELS_NONE;
             o.staging = FERRY_STAGING_AT_OPEN;
         },
         "options.staging: FERRY_STAGING_AT_OPEN, excluded by kernels (FERRY_ERROR_INVALID_ARGUMENT)"},
        {[](ferry_options &o) {
             o.submit = [](void *, void (*)(void *), void *) -> std::int32_t { return 0; };
             o.staging = FERRY_STAGING_NONE;
         },
         "options.staging: FERRY_STAGING_NONE, excluded by submit (FERRY_ERROR_INVALID_ARGUMENT)"},
    };
    for (const auto &row : combinations)
        EXPECT_EQ(opened_with(row.spoil), row.line);
    const auto choose = [&](ferry_options &o) {
        o.staging_cpus = processors;
        o.staging_cpu_count = 2;
    };
    expect_words(opened_with(choose), {"staging_cpus 1: options.staging_cpus: -1, must be at least 0"});
    ferry_error_info error = new_error();
    ferry_options options = options_under_test();
    options.struct_size = 0;
    ferry_instance *instance = nullptr;
    EXPECT_EQ(ferry_open(&options, &instance, &error), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(describe(error), "options.struct_size: 0, must be at least 8 (FERRY_ERROR_ABI_MISMATCH)");
}

TEST_F(error_details,
       a_flag_that_excludes_the_route_is_the_obstacle_and_unknown_flags_are_reported_with_the_known_flags) {
    const ferry_copy_desc copy = {};
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy(basic.get(), &copy, by_kernel | no_kernels, &error), FERRY_ERROR_ROUTE);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_OBSTACLE);
    EXPECT_EQ(error.value, FERRY_OBSTACLE_FORBIDDEN);
    expect_words(describe(error), {"options.route: ", "the options exclude kernels"});
    ferry_copy_options unknown = {};
    unknown.flags = 1u << 15;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, how(unknown), &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_BITS);
    EXPECT_EQ(error.value, unknown.flags);
    EXPECT_EQ(error.limit & error.value, 0u);
    EXPECT_EQ(describe(error), "options.flags: 0x8000, has bits outside 0x2f (FERRY_ERROR_FLAGS)");
    EXPECT_EQ(ferry_copy(basic.get(), &copy, no_kernels | updatable, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_NOT_HERE);
    EXPECT_EQ(error.limit, FERRY_COPY_UPDATABLE);
    EXPECT_EQ(describe(error),
              "options.flags: 0x11, not accepted by this call: FERRY_COPY_UPDATABLE (FERRY_ERROR_FLAGS)");
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
    EXPECT_EQ(ferry_copy_batch(basic.get(), copies, 2, nullptr, &error), FERRY_ERROR_DEVICE);
    EXPECT_EQ(describe(error), "copy 0: source.device: 7777, must be at least 0 and less than " +
                                   std::to_string(device_count()) + " (FERRY_ERROR_DEVICE)");
    const std::uint64_t to[] = {memory.address(), memory.address()}, from[] = {0, memory.address() + 128},
                        sizes[] = {64, 64};
    EXPECT_EQ(ferry_copy_pieces(basic.get(), in_arrays(to, from, sizes, 2), nullptr, &error), FERRY_ERROR_ADDRESS);
    expect_words(describe(error), {"piece 0: source.address: 0"});
    EXPECT_EQ(ferry_copy_pieces(basic.get(), in_arrays(to, from, sizes, 2), updatable, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.item, FERRY_ITEM_NONE) << "the options belong to no piece";
}

TEST_F(error_details, a_required_object_that_is_null_is_named) {
    ferry_instance *const ferry = basic.get();
    std::uint64_t address = 0;
    std::int32_t done = 0;
    void *block = nullptr;
    CUarray_st *array = nullptr;
    ferry_array_desc desc = {};
    ferry_pool_stats stats = {};
    ferry_ticket_info info = {};
    desc.struct_size = sizeof desc;
    stats.struct_size = sizeof stats;
    info.struct_size = sizeof info;
    const ferry_copy_desc copy = {};
    const ferry_fill_desc fill = {};
    CUgraphNode_st *node = nullptr;
    const auto graph = reinterpret_cast<CUgraph_st *>(8);
    const auto executable = reinterpret_cast<CUgraphExec_st *>(8);
    using error_info = ferry_error_info *;
    const struct {
        std::int32_t field;
        std::function<std::int32_t(error_info)> call;
    } rows[] = {
        {FERRY_FIELD_INSTANCE, [&](error_info e) { return ferry_copy(nullptr, nullptr, nullptr, e); }},
        {FERRY_FIELD_INSTANCE, [&](error_info e) { return ferry_copy_batch(nullptr, nullptr, 1, nullptr, e); }},
        {FERRY_FIELD_INSTANCE, [&](error_info e) { return ferry_staging_trim(nullptr, e); }},
        {FERRY_FIELD_COPY, [&](error_info e) { return ferry_copy(ferry, nullptr, nullptr, e); }},
        {FERRY_FIELD_COPIES, [&](error_info e) { return ferry_copy_batch(ferry, nullptr, 1, nullptr, e); }},
        {FERRY_FIELD_PIECES, [&](error_info e) { return ferry_copy_pieces(ferry, nullptr, nullptr, e); }},
        {FERRY_FIELD_FILL, [&](error_info e) { return ferry_fill(ferry, nullptr, nullptr, e); }},
        {FERRY_FIELD_DESC, [&](error_info e) { return ferry_array_create(ferry, 0, nullptr, &array, e); }},
        {FERRY_FIELD_TEXT, [&](error_info e) { return ferry_profile_load(ferry, nullptr, 1, e); }},
        {FERRY_FIELD_GRAPH,
         [&](error_info e) { return ferry_graph_add_copy(ferry, nullptr, nullptr, 0, &copy, nullptr, &node, e); }},
        {FERRY_FIELD_RESULT,
         [&](error_info e) { return ferry_graph_add_copy(ferry, graph, nullptr, 0, &copy, nullptr, nullptr, e); }},
        {FERRY_FIELD_EXECUTABLE,
         [&](error_info e) { return ferry_graph_exec_set_fill(ferry, nullptr, nullptr, &fill, nullptr, e); }},
        {FERRY_FIELD_NODE,
         [&](error_info e) { return ferry_graph_exec_set_fill(ferry, executable, nullptr, &fill, nullptr, e); }},
        {FERRY_FIELD_RESULT, [&](error_info e) { return ferry_open(nullptr, nullptr, e); }},
        {FERRY_FIELD_RESULT, [&](error_info e) { return ferry_copy_explain(ferry, &copy, nullptr, nullptr, e); }},
        {FERRY_FIELD_RESULT, [&](error_info e) { return ferry_device_alloc(ferry, 0, 1, nullptr, e); }},
        {FERRY_FIELD_CALLBACKS, [&](error_info e) { return ferry_stream_notify(ferry, nullptr, nullptr, nullptr, e); }},
        {FERRY_FIELD_CONTEXT, [&](error_info e) { return ferry_context_destroy(ferry, nullptr, e); }},
        {FERRY_FIELD_ADDRESS, [&](error_info e) { return ferry_host_register(ferry, nullptr, 4096, 0, e); }},
        {FERRY_FIELD_EVENT, [&](error_info e) { return ferry_event_query(ferry, nullptr, &done, e); }},
        {FERRY_FIELD_ARRAY, [&](error_info e) { return ferry_array_get_plane(ferry, nullptr, 0, &array, e); }},
        {FERRY_FIELD_ARRAY, [&](error_info e) { return ferry_array_get_info(ferry, nullptr, &desc, nullptr, e); }},
        {FERRY_FIELD_ARRAY,
         [&](error_info e) { return ferry_mipmapped_array_get_level(ferry, nullptr, 0, &array, e); }},
        {FERRY_FIELD_POOL, [&](error_info e) { return ferry_pool_get_stats(ferry, nullptr, &stats, e); }},
        {FERRY_FIELD_POOL, [&](error_info e) { return ferry_pinned_pool_alloc(nullptr, 1, &block, e); }},
        {FERRY_FIELD_POOL, [&](error_info e) { return ferry_pinned_pool_free(nullptr, &done, e); }},
        {FERRY_FIELD_POOL, [&](error_info e) { return ferry_pinned_pool_get_stats(nullptr, &stats, e); }},
        {FERRY_FIELD_HANDLE, [&](error_info e) { return ferry_ipc_import_memory(ferry, nullptr, &address, e); }},
        {FERRY_FIELD_TICKET, [&](error_info e) { return ferry_ticket_get_info(nullptr, &info, e); }},
        {FERRY_FIELD_TICKET, [&](error_info e) { return ferry_ticket_wait(nullptr, 0, e); }},
        {FERRY_FIELD_TICKET, [&](error_info e) { return ferry_ticket_wait_async(nullptr, nullptr, e); }},
        {FERRY_FIELD_PREPARED,
         [&](error_info e) { return ferry_prepared_launch(nullptr, nullptr, nullptr, nullptr, e); }},
        {FERRY_FIELD_PREPARED,
         [&](error_info e) { return ferry_prepared_set_addresses(nullptr, nullptr, nullptr, e); }},
    };
    for (const auto &row : rows) {
        ferry_error_info error = new_error();
        SCOPED_TRACE(&row - rows);
        EXPECT_EQ(row.call(&error), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(error.field, row.field) << describe(error);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_VALUE);
        EXPECT_EQ(error.value, 0u);
        expect_words(describe(error), {": NULL, must be a valid pointer (FERRY_ERROR_INVALID_ARGUMENT)"});
    }
}

TEST_F(error_details, an_address_that_the_driver_refuses_is_found_by_full_checks) {
    ferry_instance *const ferry = basic.get();
    const test_place host(place_kind::pinned, {.width = 4096});
    std::uint64_t freed = 0, memory = 0;
    ASSERT_OK(ferry_device_alloc(ferry, 0, 4096, &freed, nullptr));
    ASSERT_OK(ferry_device_alloc(ferry, 0, 4096, &memory, nullptr));
    ASSERT_OK(ferry_device_free(ferry, freed, nullptr));
    CUstream_st *stream = nullptr;
    ASSERT_OK(ferry_stream_create(ferry, 0, 0, 0, &stream, nullptr));
    const struct {
        const char *what;
        std::uint64_t address, width;
        std::int32_t status, field;
    } rows[] = {
        {"freed", freed, 64, FERRY_ERROR_ADDRESS, FERRY_FIELD_ADDRESS},
        {"past the end", memory + 4000, 97, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_ADDRESS},
        {"host memory", host.address() + 2048, 64, FERRY_ERROR_OTHER_KIND, FERRY_FIELD_KIND},
    };
    for (const auto &row : rows)
        for (int form = 0; form < 4; ++form) {
            SCOPED_TRACE(testing::Message() << row.what << ", form " << form);
            ferry_place device = {}, to_host = {};
            ferry_place_device(&device, 0, row.address);
            ferry_place_host(&to_host, reinterpret_cast<void *>(host.address()));
            ferry_copy_desc copies[2] = {};
            ferry_copy_desc_set(&copies[1], &device, &to_host, row.width, 1, 1);
            ferry_error_info error = new_error();
            ferry_ticket *ticket = nullptr;
            const std::int32_t status =
                form == 0   ? ferry_copy(ferry, &copies[1], nullptr, &error)
                : form == 1 ? ferry_copy_async(ferry, &copies[1], nullptr, stream, nullptr, &error)
                : form == 2 ? ferry_copy_async(ferry, &copies[1], nullptr, stream, &ticket, &error)
                            : ferry_copy_batch_async(ferry, copies, 2, nullptr, stream, nullptr, &error);
            EXPECT_EQ(ferry_ticket_release(ticket, nullptr), FERRY_SUCCESS);
            if (row.status == FERRY_ERROR_OTHER_KIND && status == FERRY_SUCCESS) continue; // drivers may accept it
            EXPECT_EQ(status, row.status) << describe(error);
            EXPECT_EQ(error.side, FERRY_SIDE_DESTINATION);
            EXPECT_EQ(error.field, row.field);
            EXPECT_TRUE(form == 3 || error.driver_function) << "the driver refused the copy first";
            EXPECT_EQ(error.index, form == 3 ? 1u : 0u) << describe(error);
        }
    ASSERT_OK(ferry_stream_synchronize(ferry, stream, nullptr));
    EXPECT_OK(ferry_stream_destroy(ferry, stream, nullptr));
    EXPECT_OK(ferry_device_free(ferry, memory, nullptr));
}

TEST_F(error_details, an_address_that_the_driver_refuses_for_no_reason_keeps_the_error_of_the_driver) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    const test_place memory(place_kind::device, {.width = 256});
    const ferry_copy_desc copy =
        describe_copy(memory.describe(statement::stated), memory.describe(statement::stated, {.x = 128}), 64);
    ASSERT_OK(ferry_copy(instance.get(), &copy, nullptr, nullptr));
    for (const bool is_batch : {false, true}) {
        driver.fail("cuMemcpy3DAsync", CUDA_ERROR_INVALID_VALUE);
        ferry_error_info error = new_error();
        const std::int32_t status = is_batch ? ferry_copy_batch(instance.get(), &copy, 1, nullptr, &error)
                                             : ferry_copy(instance.get(), &copy, nullptr, &error);
        driver.heal();
        if (status == FERRY_SUCCESS) continue; // another function of the driver made the copy
        EXPECT_EQ(status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(error.field, FERRY_FIELD_NONE) << describe(error);
    }
}

TEST_F(error_details, new_addresses_of_a_prepared_batch_name_the_end_and_the_change) {
    ferry_instance *const ferry = basic.get();
    const test_place device(place_kind::device, {.width = 4096}), host(place_kind::pinned, {.width = 4096});
    const std::uint64_t to[] = {device.address()}, from[] = {host.address()}, sizes[] = {64};
    const auto prepare = [&](const how &options) {
        ferry_prepared *made = nullptr;
        EXPECT_OK(ferry_prepared_create_pieces(ferry, in_arrays(to, from, sizes, 1), options, nullptr, &made, nullptr));
        return made;
    };
    const auto set = [&](ferry_prepared *of, std::uint64_t destination, std::uint64_t source) {
        ferry_error_info error = new_error();
        EXPECT_NE(ferry_prepared_set_addresses(of, in_arrays(&destination, &source, nullptr, 1), nullptr, &error), 0);
        return error;
    };
    ferry_prepared *const fixed = prepare({}), *const changeable = prepare(updatable);
    EXPECT_EQ(describe(set(fixed, to[0], from[0])),
              "options.flags: 0, prepared without FERRY_COPY_UPDATABLE (FERRY_ERROR_UNSUPPORTED)");
    const std::string shift = " must differ from the prepared address by a multiple of 16 (FERRY_ERROR_ALIGNMENT)";
    char address[32];
    std::snprintf(address, sizeof address, "%#llx", static_cast<unsigned long long>(to[0] + 2));
    EXPECT_EQ(describe(set(changeable, to[0] + 2, from[0])),
              "piece 0: destination.address: " + std::string(address) + "," + shift);
    const std::uint64_t inside = host.address() + ((to[0] - host.address()) & 15);
    for (const bool is_source : {false, true}) {
        const ferry_error_info error =
            is_source ? set(changeable, to[0], to[0] + 128) : set(changeable, inside, from[0] + 128);
        EXPECT_EQ(error.status, FERRY_ERROR_OTHER_KIND) << describe(error);
        EXPECT_EQ(error.side, is_source ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION) << describe(error);
        EXPECT_EQ(error.value, is_source ? to[0] + 128 : inside);
        EXPECT_EQ(error.limit, is_source ? from[0] : to[0]);
        expect_words(describe(error), {".address: 0x", ", must be memory of the same kind as the prepared address 0x"});
    }
    EXPECT_OK(ferry_prepared_destroy(fixed, nullptr));
    EXPECT_OK(ferry_prepared_destroy(changeable, nullptr));
}

TEST_F(error_details, two_copies_that_overlap_name_the_end_of_the_later_copy) {
    const test_place memory(place_kind::device, {.width = 4096});
    const std::uint64_t at = memory.address();
    const std::uint64_t to[] = {at, at + 1024}, other_to[] = {at, at + 63}, sizes[] = {64, 64};
    const std::uint64_t from[] = {at + 2048, at + 2048}, other_from[] = {at + 2048, at + 63};
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy_pieces(basic.get(), in_arrays(other_to, from, sizes, 2), check_overlap, &error),
              FERRY_ERROR_OVERLAP);
    EXPECT_EQ(describe(error), "piece 1: destination.address: shares bytes with piece 0 (FERRY_ERROR_OVERLAP)");
    EXPECT_EQ(ferry_copy_pieces(basic.get(), in_arrays(to, other_from, sizes, 2), check_overlap, &error),
              FERRY_ERROR_OVERLAP);
    EXPECT_EQ(describe(error), "piece 1: source.address: shares bytes with piece 0 (FERRY_ERROR_OVERLAP)");
}

TEST_F(error_details, full_checks_refuse_memory_whose_deferred_free_is_pending) {
    ferry_instance *const ferry = full.get();
    const test_place host(place_kind::pinned, {.width = 4096});
    std::uint64_t memory = 0;
    ASSERT_OK(ferry_device_alloc(ferry, 0, 4096, &memory, nullptr));
    const std::uint64_t to[] = {memory + 64}, from[] = {host.address()}, sizes[] = {64};
    ferry_place device = {}, source = {};
    ferry_place_device(&device, 0, memory + 64);
    ferry_place_host(&source, reinterpret_cast<void *>(host.address()));
    ferry_copy_desc copies[2] = {};
    ferry_copy_desc_set(&copies[0], &device, &source, 64, 1, 1);
    device.row_pitch = source.row_pitch = 128;
    ferry_copy_desc_set(&copies[1], &device, &source, 64, 2, 1);
    ferry_fill_desc fill = {};
    fill.destination = device;
    fill.width = 64;
    fill.pattern_size = 1;
    const auto expect = [&](std::int32_t status) {
        EXPECT_EQ(ferry_copy(ferry, &copies[0], nullptr, nullptr), status);
        EXPECT_EQ(ferry_copy(ferry, &copies[1], nullptr, nullptr), status);
        EXPECT_EQ(ferry_copy_batch(ferry, copies, 1, nullptr, nullptr), status);
        EXPECT_EQ(ferry_copy_batch(ferry, copies + 1, 1, nullptr, nullptr), status);
        EXPECT_EQ(ferry_copy_pieces(ferry, in_arrays(to, from, sizes, 1), nullptr, nullptr), status);
        EXPECT_EQ(ferry_fill(ferry, &fill, nullptr, nullptr), status);
    };
    expect(FERRY_SUCCESS);
    CUstream_st *stream = nullptr;
    ASSERT_OK(ferry_stream_create(ferry, 0, 0, 0, &stream, nullptr));
    ASSERT_OK(ferry_device_free_deferred(ferry, memory, stream, nullptr));
    expect(FERRY_ERROR_ADDRESS);
    EXPECT_OK(ferry_stream_destroy(ferry, stream, nullptr));
}

TEST_F(error_details, a_place_without_an_address_or_an_array_is_named_with_its_value) {
    const test_place memory(place_kind::device, {.width = 256});
    ferry_error_info error = new_error();
    for (const bool is_array : {false, true}) {
        ferry_copy_desc copy =
            describe_copy(memory.describe(statement::stated), memory.describe(statement::stated), 64);
        if (is_array)
            ferry_place_array(&copy.source, 0, nullptr);
        else
            ferry_place_device(&copy.source, 0, 0);
        const std::string line = std::string(is_array ? "source.array: 0: " : "source.address: 0: ") +
                                 ferry_status_text(FERRY_ERROR_ADDRESS) + " (FERRY_ERROR_ADDRESS)";
        EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(describe(error), line);
        EXPECT_EQ(ferry_copy_async(basic.get(), &copy, nullptr, nullptr, nullptr, &error), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(describe(error), line);
        EXPECT_EQ(ferry_copy_batch(basic.get(), &copy, 1, nullptr, &error), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(describe(error), "copy 0: " + line);
    }
}

TEST_F(error_details, a_value_that_this_version_does_not_support_is_named_with_the_values_that_it_supports) {
    const test_place memory(place_kind::device, {.width = 256});
    ferry_copy_desc copy = describe_copy(memory.describe(statement::stated), memory.describe(statement::stated), 64);
    ferry_error_info error = new_error();
    ferry_copy_options options = {};
    options.route = FERRY_ROUTE_BUFFERED;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, how(options), &error), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(describe(error),
              "options.route: FERRY_ROUTE_BUFFERED, must be one of FERRY_ROUTE_AUTO, FERRY_ROUTE_DRIVER, "
              "FERRY_ROUTE_KERNEL, FERRY_ROUTE_STAGED, FERRY_ROUTE_RELAYED (FERRY_ERROR_UNSUPPORTED)");
    options.route = FERRY_ROUTE_AUTO;
    options.priority = FERRY_PRIORITY_BACKGROUND;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, how(options), &error), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(
        describe(error),
        "options.priority: FERRY_PRIORITY_BACKGROUND, must be from FERRY_PRIORITY_NORMAL to FERRY_PRIORITY_URGENT "
        "(FERRY_ERROR_UNSUPPORTED)");
}

TEST_F(error_details, memory_that_is_stated_as_pinned_but_is_not_is_refused_by_full_checks) {
    const test_place device(place_kind::device, {.width = 256});
    for (const place_kind kind : {place_kind::pageable, place_kind::device, place_kind::open_pool_of_host}) {
        if (!is_supported(kind)) continue;
        test_place other(kind, {.width = 256});
        ferry_copy_desc copy = describe_copy(other.describe(statement::any), device.describe(statement::stated), 64);
        copy.source.kind = FERRY_KIND_PINNED;
        ferry_error_info error = new_error();
        EXPECT_EQ(ferry_copy(full.get(), &copy, nullptr, &error), FERRY_ERROR_OTHER_KIND);
        EXPECT_EQ(describe(error), std::string("source.kind: FERRY_KIND_PINNED, must be ") +
                                       (kind == place_kind::device ? "FERRY_KIND_DEVICE" : "FERRY_KIND_HOST") +
                                       " (FERRY_ERROR_OTHER_KIND)");
        EXPECT_EQ(ferry_copy_batch(full.get(), &copy, 1, nullptr, &error), FERRY_ERROR_OTHER_KIND);
    }
    // With basic checks, pageable memory is copied correctly.
    test_place pageable(place_kind::pageable, {.width = 256}), to(place_kind::device, {.width = 256});
    pageable.fill(1), to.fill(2);
    ferry_copy_desc copy = describe_copy(pageable.describe(statement::any), to.describe(statement::stated), 256);
    copy.source.kind = FERRY_KIND_PINNED;
    ASSERT_OK(ferry_copy_async(basic.get(), &copy, nullptr, CU_STREAM_PER_THREAD, nullptr, nullptr));
    ASSERT_OK(raw().cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_TRUE(to.read() == pageable.picture());
}

TEST_F(error_details, a_wrong_size_of_a_pattern_names_pattern_size) {
    const test_place memory(place_kind::device, {.width = 256});
    ferry_fill_desc fill = {};
    fill.destination = memory.describe(statement::any);
    fill.width = 64;
    fill.height = fill.depth = 1;
    fill.pattern_size = 3;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_fill(basic.get(), &fill, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(describe(error),
              "descriptor.pattern_size: 3, must be a power of two, at most 16 (FERRY_ERROR_INVALID_ARGUMENT)");
}

TEST_F(error_details, a_default_stream_that_is_destroyed_and_a_buffer_that_is_too_small_are_named) {
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_stream_destroy(basic.get(), CU_STREAM_LEGACY, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(error.field, FERRY_FIELD_STREAM);
    EXPECT_EQ(error.value, 1u);
    char text[8];
    std::uint64_t needed = 0;
    EXPECT_EQ(ferry_profile_save(basic.get(), 0, text, sizeof text, &needed, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(describe(error),
              "size: 8, must be at least " + std::to_string(needed) + " (FERRY_ERROR_INVALID_ARGUMENT)");
}

// ---- Every function --------------------------------------------------------------------------------------------

// Calls a function with `instance`, if the function takes an instance, and zeros.
template <class... Parameters>
std::int32_t call_with_zeros(std::int32_t (*function)(Parameters...), ferry_instance *instance,
                             ferry_error_info *error) {
    std::tuple<Parameters...> values = {};
    using first = std::tuple_element_t<0, std::tuple<Parameters...>>;
    if constexpr (std::is_convertible_v<ferry_instance *, first>) std::get<0>(values) = instance;
    std::get<sizeof...(Parameters) - 1>(values) = error; // compiles only if the last parameter is a ferry_error_info
    return std::apply(function, values);
}

const struct {
    const char *name;
    std::int32_t (*call)(ferry_instance *instance, ferry_error_info *error);
} status_functions[] = {
#define FERRY_STATUS_FUNCTION(name)                                                                                    \
    {#name, [](ferry_instance *instance, ferry_error_info *error) { return call_with_zeros(name, instance, error); }},
#include "status_functions.inc"
#undef FERRY_STATUS_FUNCTION
};

ferry_error_info spoiled_error() {
    ferry_error_info error = new_error();
    error.status = error.side = error.field = error.item = error.numbers = 1;
    error.index = error.limit = error.value = 1;
    error.driver_function = "cuNothing";
    return error;
}

bool is_clear(const ferry_error_info &error) {
    return !error.status && !error.side && !error.field && !error.item && !error.numbers && !error.index &&
           !error.limit && !error.value && !error.driver_function;
}

TEST_F(error_details, every_function_accepts_null_for_its_error_and_fills_the_error_it_is_given) {
    // These change what the test needs, or take seconds.
    const std::string left_out[] = {"ferry_context_push", "ferry_context_pop", "ferry_context_release_primary",
                                    "ferry_device_calibrate"};
    for (ferry_instance *const instance : {static_cast<ferry_instance *>(nullptr), basic.get()})
        for (const auto &function : status_functions) {
            const std::string name = function.name;
            if (instance && std::find(std::begin(left_out), std::end(left_out), name) != std::end(left_out)) continue;
            SCOPED_TRACE(name + (instance ? " with an instance" : " without an instance"));
            ferry_error_info error = spoiled_error();
            const std::int32_t status = function.call(instance, &error);
            EXPECT_EQ(function.call(instance, nullptr), status);
            EXPECT_EQ(error.status, status);
            EXPECT_EQ(is_clear(error), status == FERRY_SUCCESS) << describe(error);
            if (instance) continue;
            const bool ends = name.find("_destroy") != std::string::npos || name.find("_release") != std::string::npos;
            EXPECT_TRUE(status == FERRY_ERROR_INVALID_ARGUMENT || (ends && status == FERRY_SUCCESS)) << describe(error);
        }
}

// ---- The driver's failures -------------------------------------------------------------------------------------

// Calls of the functions in each file of src/api, on an instance whose driver calls fail.
struct failing_calls : error_details {
    void SetUp() override {
        error_details::SetUp();
        driver = std::make_unique<fault_driver>(raw_entry_points());
        owner = open_or_fail(driver->options());
        ferry = owner.get();
        memory = std::make_unique<test_place>(place_kind::device, grid{.width = 8192});
        ASSERT_OK(ferry_stream_create(ferry, 0, FERRY_STREAM_NON_BLOCKING, 0, &stream, nullptr));
        ASSERT_OK(ferry_event_create(ferry, 0, 0, &event, nullptr));
        ASSERT_OK(ferry_event_record(ferry, event, stream, nullptr));
        ASSERT_OK(ferry_pinned_pool_create(ferry, nullptr, &pinned_pool, nullptr));
    }
    void TearDown() override {
        release();
        EXPECT_OK(ferry_pinned_pool_destroy(pinned_pool, nullptr));
        EXPECT_OK(ferry_event_destroy(ferry, event, nullptr));
        EXPECT_OK(ferry_stream_destroy(ferry, stream, nullptr));
        memory.reset();
        owner.reset();
        driver.reset();
        error_details::TearDown();
    }
    // Releases what a call has made.
    void release() {
        driver->heal();
        EXPECT_OK(raw().cuCtxSetCurrent(context)); // if the driver failed to pop a context, another context is current
        EXPECT_OK(ferry_ticket_release(std::exchange(ticket, nullptr), nullptr));
        EXPECT_OK(ferry_prepared_destroy(std::exchange(prepared, nullptr), nullptr));
        EXPECT_OK(ferry_pinned_pool_free(pinned_pool, std::exchange(block, nullptr), nullptr));
        EXPECT_OK(ferry_host_free(ferry, std::exchange(host, nullptr), nullptr));
        EXPECT_OK(ferry_array_destroy(ferry, std::exchange(array, nullptr), nullptr));
        EXPECT_OK(ferry_device_free(ferry, std::exchange(address, 0), nullptr));
        EXPECT_OK(ferry_event_destroy(ferry, std::exchange(event_made, nullptr), nullptr));
        EXPECT_OK(ferry_stream_destroy(ferry, std::exchange(stream_made, nullptr), nullptr));
        if (CUctx_st *const made = std::exchange(context_made, nullptr)) {
            EXPECT_OK(ferry_context_destroy(ferry, made, nullptr));
        }
        if (std::exchange(is_retained, false)) {
            EXPECT_OK(ferry_context_release_primary(ferry, 0, nullptr));
        }
    }
    // The status of a call that ends `object`, which is then gone unless the call failed.
    template <class Object> static std::int32_t ended(Object &object, std::int32_t status) {
        if (status == FERRY_SUCCESS) object = {};
        return status;
    }
    std::uint64_t first() const { return memory->address(); }
    std::uint64_t second() const { return memory->address() + 4096; }

    std::unique_ptr<fault_driver> driver;
    instance_owner owner;
    ferry_instance *ferry = nullptr;
    std::unique_ptr<test_place> memory;
    CUstream_st *stream = nullptr, *stream_made = nullptr;
    CUevent_st *event = nullptr, *event_made = nullptr;
    ferry_pinned_pool *pinned_pool = nullptr;
    void *block = nullptr, *host = nullptr;
    std::uint64_t address = 0;
    CUarray_st *array = nullptr;
    CUctx_st *context_made = nullptr;
    bool is_retained = false;
    ferry_prepared *prepared = nullptr;
    ferry_ticket *ticket = nullptr;
};

TEST_F(failing_calls, of_every_source_file_name_the_driver_function_that_failed) {
    constexpr CUresult result = CUDA_ERROR_NOT_PERMITTED; // has no other meaning for ferry
    const std::uint64_t to[] = {second(), second() + 2048}, from[] = {first(), first() + 2048}, sizes[] = {999, 1001};
    ferry_nest nest = {};
    nest.source.place.address = first();
    nest.destination.place.address = second();
    nest.width = 4;
    nest.axes = 1;
    nest.source.axes[0].count = nest.destination.axes[0].count = 50;
    nest.source.axes[0].stride = 8;
    nest.destination.axes[0].stride = -4;
    nest.destination.place.address += 400;
    ferry_fill_desc fill = {};
    fill.destination = memory->describe(statement::any);
    fill.width = 1000;
    fill.height = fill.depth = fill.pattern_size = 1;
    ferry_array_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.format = FERRY_FORMAT_UINT8;
    desc.channels = 1;
    desc.width = desc.height = 64;
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    float milliseconds = 0;
    std::int32_t done = 0;
    CUmemPoolHandle_st *pool = nullptr;
    ferry_ipc_handle handle = {};
    ferry_external_memory_desc external = {};
    external.struct_size = sizeof external;
    external.size = 4096;
    external.handle = 1;
    external.handle_type = has_descriptors ? FERRY_EXTERNAL_OPAQUE_FD : FERRY_EXTERNAL_OPAQUE_WIN32_KMT;
    using error_info = ferry_error_info *;
    struct row {
        const char *file; // of src/api
        std::function<std::int32_t(error_info)> call;
        std::function<void()> prepare = [] {}; // before the call, without a fault
        const char *only = nullptr;            // the driver function that fails; null: each that the call needs
    };
    std::vector<row> rows = {
        {"batches", [&](error_info e) { return ferry_copy_pieces(ferry, in_arrays(to, from, sizes, 2), nullptr, e); }},
        {"batches",
         [&](error_info e) {
             return ferry_copy_pieces_async(ferry, in_arrays(to, from, sizes, 2), nullptr, stream, nullptr, e);
         }},
        {"batches",
         [&](error_info e) {
             return ferry_prepared_create_pieces(ferry, in_arrays(to, from, sizes, 2), nullptr, stream, &prepared, e);
         }},
        {"batches", [&](error_info e) { return ferry_prepared_launch(prepared, nullptr, stream, nullptr, e); },
         [&] {
             EXPECT_OK(ferry_prepared_create_pieces(ferry, in_arrays(to, from, sizes, 2), nullptr, stream, &prepared,
                                                    nullptr));
         }},
        {"nests", [&](error_info e) { return ferry_copy_nests(ferry, &nest, 1, nullptr, e); }},
        {"nests", [&](error_info e) { return ferry_copy_nests_async(ferry, &nest, 1, nullptr, stream, nullptr, e); }},
        {"nests",
         [&](error_info e) { return ferry_prepared_create_nests(ferry, &nest, 1, nullptr, stream, &prepared, e); }},
        {"contexts",
         [&](error_info e) {
             CUctx_st *retained = nullptr;
             const std::int32_t status = ferry_context_retain_primary(ferry, 0, &retained, e);
             is_retained = status == FERRY_SUCCESS;
             return status;
         }},
        {"contexts", [&](error_info e) { return ferry_context_create(ferry, 0, 0, &context_made, e); }},
        {"contexts", [&](error_info e) { return ferry_context_synchronize(ferry, 0, nullptr, e); }},
        {"contexts",
         [&](error_info e) {
             CUctx_st *current = nullptr;
             return ferry_context_get_current(ferry, &current, e);
         }},
        {"copies", [&](error_info e) { return ferry_copy_bytes(ferry, second(), first(), 1000, nullptr, e); }},
        {"copies",
         [&](error_info e) {
             return ferry_copy_bytes_async(ferry, second(), first(), 1000, nullptr, stream, nullptr, e);
         }},
        {"external",
         [&](error_info e) {
             CUextMemory_st *imported = nullptr;
             return ferry_external_memory_import(ferry, &external, &imported, e);
         },
         [] {}, "cuImportExternalMemory"},
        {"fills", [&](error_info e) { return ferry_fill(ferry, &fill, nullptr, e); }},
        {"fills", [&](error_info e) { return ferry_fill_async(ferry, &fill, nullptr, stream, nullptr, e); }},
        {"host_memory", [&](error_info e) { return allocate_pinned(ferry, 4096, FERRY_HOST_BY_DRIVER, &host, e); }},
        {"host_memory", [&](error_info e) { return ended(host, ferry_host_free(ferry, host, e)); },
         [&] { EXPECT_OK(allocate_pinned(ferry, 4096, FERRY_HOST_BY_DRIVER, &host)); }},
        {"memory", [&](error_info e) { return ferry_device_alloc(ferry, 0, 4096, &address, e); }},
        {"memory", [&](error_info e) { return ferry_managed_alloc(ferry, 0, 4096, &address, e); }},
        {"memory", [&](error_info e) { return ended(address, ferry_device_free(ferry, address, e)); },
         [&] { EXPECT_OK(ferry_device_alloc(ferry, 0, 4096, &address, nullptr)); }},
        {"memory", [&](error_info e) { return ferry_address_get_info(ferry, first(), &info, e); }},
        {"memory", [&](error_info e) { return ferry_array_create(ferry, 0, &desc, &array, e); }},
        {"memory", [&](error_info e) { return ferry_array_get_info(ferry, array, &desc, nullptr, e); },
         [&] { EXPECT_OK(ferry_array_create(ferry, 0, &desc, &array, nullptr)); }},
        {"memory", [&](error_info e) { return ended(array, ferry_array_destroy(ferry, array, e)); },
         [&] { EXPECT_OK(ferry_array_create(ferry, 0, &desc, &array, nullptr)); }},
        {"open",
         [&](error_info e) {
             const ferry_options options = driver->options();
             ferry_instance *opened = nullptr;
             const std::int32_t status = ferry_open(&options, &opened, e);
             ferry_close(opened);
             return status;
         }},
        {"pinned_pools", [&](error_info e) { return ferry_pinned_pool_alloc(pinned_pool, 4096, &block, e); },
         [&] { EXPECT_OK(ferry_pinned_pool_trim(pinned_pool, 0, nullptr)); }},
        {"pools", [&](error_info e) { return ferry_pool_get_default(ferry, FERRY_LOCATION_DEVICE, 0, &pool, e); }},
        {"pools", [&](error_info e) { return ferry_pool_trim(ferry, pool, 0, e); },
         [&] { EXPECT_OK(ferry_pool_get_default(ferry, FERRY_LOCATION_DEVICE, 0, &pool, nullptr)); }},
        {"pools", [&](error_info e) { return ferry_device_alloc_async(ferry, 0, 4096, stream, &address, e); }},
        {"profiles", [&](error_info e) { return ferry_device_calibrate(ferry, 0, e); }, [] {}, "cuCtxGetCurrent"},
        {"sharing", [&](error_info e) { return ferry_ipc_export_memory(ferry, first(), 4096, &handle, e); }},
        {"streams", [&](error_info e) { return ferry_stream_create(ferry, 0, 0, 0, &stream_made, e); }},
        {"streams", [&](error_info e) { return ferry_stream_synchronize(ferry, stream, e); }},
        {"streams", [&](error_info e) { return ferry_stream_query(ferry, stream, &done, e); }},
        {"streams", [&](error_info e) { return ferry_stream_wait_event(ferry, stream, event, e); }},
        {"streams", [&](error_info e) { return ended(stream_made, ferry_stream_destroy(ferry, stream_made, e)); },
         [&] { EXPECT_OK(ferry_stream_create(ferry, 0, 0, 0, &stream_made, nullptr)); }},
        {"streams", [&](error_info e) { return ferry_event_create(ferry, 0, 0, &event_made, e); }},
        {"streams", [&](error_info e) { return ferry_event_record(ferry, event, stream, e); }},
        {"streams", [&](error_info e) { return ferry_event_synchronize(ferry, event, e); }},
        {"streams", [&](error_info e) { return ferry_event_query(ferry, event, &done, e); }},
        {"streams", [&](error_info e) { return ferry_event_elapsed_time(ferry, event, event, &milliseconds, e); }},
        {"streams", [&](error_info e) { return ended(event_made, ferry_event_destroy(ferry, event_made, e)); },
         [&] { EXPECT_OK(ferry_event_create(ferry, 0, 0, &event_made, nullptr)); }},
        {"tickets", [&](error_info e) { return ferry_ticket_create(ferry, stream, &ticket, e); }},
    };
    if (device_count() > 1 && ferry_peer_enable(ferry, 0, 1, nullptr) == FERRY_SUCCESS)
        rows.push_back({"peers", [&](error_info e) { return ferry_peer_disable(ferry, 0, 1, e); },
                        [&] { EXPECT_OK(ferry_peer_enable(ferry, 0, 1, nullptr)); }});
    for (const row &row : rows) {
        SCOPED_TRACE(testing::Message() << "row " << &row - rows.data() << ", of " << row.file << ".cpp");
        std::vector<std::string> needed = {row.only ? row.only : ""};
        if (!row.only) {
            row.prepare();
            driver->reset_counts();
            EXPECT_OK(row.call(nullptr));
            needed.clear();
            for (const driver_symbol &symbol : driver_symbols)
                if (driver->calls(symbol.name)) needed.push_back(symbol.name);
            release();
        }
        int failures = 0;
        for (const std::string &entry : needed) {
            row.prepare();
            driver->fail(entry.c_str(), result);
            ferry_error_info error = new_error();
            const std::int32_t status = row.call(&error);
            release();
            EXPECT_EQ(error.status, status);
            if (status != FERRY_STATUS_DRIVER_BASE - result) continue; // ferry did without the function
            ++failures;
            ASSERT_NE(error.driver_function, nullptr) << entry;
            EXPECT_EQ(error.driver_function, entry);
            expect_words(describe(error), {" from " + entry + ")"});
        }
        EXPECT_GT(failures, 0);
    }
}

TEST_F(failing_calls, name_the_field_whose_value_the_driver_could_not_use) {
    CUmemPoolHandle_st *pool = nullptr;
    ASSERT_OK(ferry_pool_get_default(ferry, FERRY_LOCATION_DEVICE, 0, &pool, nullptr));
    ASSERT_OK(ferry_context_create(ferry, 0, 0, &context_made, nullptr));
    using error_info = ferry_error_info *;
    const auto number = [](const void *handle) { return reinterpret_cast<std::uint64_t>(handle); };
    const struct {
        const char *function;
        std::int32_t field;
        std::uint64_t value;
        std::function<std::int32_t(error_info)> call;
    } rows[] = {
        {"cuMemAlloc", FERRY_FIELD_SIZE, 4096,
         [&](error_info e) { return ferry_device_alloc(ferry, 0, 4096, &address, e); }},
        {"cuMemAllocManaged", FERRY_FIELD_SIZE, 4096,
         [&](error_info e) { return ferry_managed_alloc(ferry, 0, 4096, &address, e); }},
        {"cuStreamCreateWithPriority", FERRY_FIELD_NONE, 0,
         [&](error_info e) { return ferry_stream_create(ferry, 0, 0, 0, &stream_made, e); }},
        {"cuEventCreate", FERRY_FIELD_NONE, 0,
         [&](error_info e) { return ferry_event_create(ferry, 0, 0, &event_made, e); }},
        {"cuStreamSynchronize", FERRY_FIELD_STREAM, number(stream),
         [&](error_info e) { return ferry_stream_synchronize(ferry, stream, e); }},
        {"cuEventRecord", FERRY_FIELD_STREAM, number(stream),
         [&](error_info e) { return ferry_event_record(ferry, event, stream, e); }},
        {"cuEventSynchronize", FERRY_FIELD_EVENT, number(event),
         [&](error_info e) { return ferry_event_synchronize(ferry, event, e); }},
        {"cuCtxDestroy", FERRY_FIELD_CONTEXT, number(context_made),
         [&](error_info e) { return ferry_context_destroy(ferry, context_made, e); }},
        {"cuMemPoolTrimTo", FERRY_FIELD_POOL, number(pool),
         [&](error_info e) { return ferry_pool_trim(ferry, pool, 0, e); }},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.function);
        for (const CUresult result : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_PERMITTED}) {
            driver->fail(row.function, result);
            ferry_error_info error = new_error();
            EXPECT_EQ(row.call(&error), FERRY_STATUS_DRIVER_BASE - result);
            driver->heal();
            ASSERT_NE(error.driver_function, nullptr) << describe(error);
            EXPECT_STREQ(error.driver_function, row.function);
            const bool is_named = result == CUDA_ERROR_OUT_OF_MEMORY; // a call that is not permitted has no such value
            EXPECT_EQ(error.field, is_named ? row.field : FERRY_FIELD_NONE) << describe(error);
            EXPECT_EQ(error.value, is_named ? row.value : 0);
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
