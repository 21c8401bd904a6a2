// Tests bad input: each mistake has its own status and names the field, nothing is enqueued, and no memory or context
// of the caller changes.
#include <functional>
#include <limits>

#include "support/fault_driver.h"
#include "support/ferry_array.h"
#include "support/piece_lists.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

class bad_input : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        host = std::make_unique<test_place>(place_kind::pinned, grid{.width = 256, .height = 16, .depth = 4});
        device = std::make_unique<test_place>(place_kind::device, grid{.width = 256, .height = 16, .depth = 4});
        array = std::make_unique<test_place>(place_kind::array_3d,
                                             grid{.width = 256, .height = 16, .depth = 4, .element_size = 4});
        device->fill(1);
        array->fill(2);
    }
    void TearDown() override {
        host.reset();
        device.reset();
        array.reset();
        ferry_test::TearDown();
    }

    ferry_copy_desc good() const {
        return describe_copy(host->describe(statement::stated), device->describe(statement::stated), 128, 8, 2);
    }

    // Expects both forms of the call to refuse `copy` with the same error, and no byte of any destination to change.
    void expect_refused(ferry_instance *instance, const ferry_copy_desc &copy, std::int32_t status, std::int32_t side,
                        std::int32_t field) {
        for (const bool is_synchronous : {true, false}) {
            ferry_error_info error = new_error();
            const std::int32_t returned = is_synchronous
                                              ? ferry_copy(instance, &copy, nullptr, &error)
                                              : ferry_copy_async(instance, &copy, nullptr, nullptr, nullptr, &error);
            expect_refusal(returned, error, status, side, field);
            CUcontext current = nullptr;
            EXPECT_OK(raw().cuCtxGetCurrent(&current));
            EXPECT_EQ(current, context);
        }
        EXPECT_OK(raw().cuCtxSynchronize());
        EXPECT_EQ(device->read(), device->picture());
        EXPECT_EQ(array->read(), array->picture());
    }
    void expect_refused(const ferry_copy_desc &copy, std::int32_t status, std::int32_t side, std::int32_t field) {
        expect_refused(basic.get(), copy, status, side, field);
        expect_refused(full.get(), copy, status, side, field);
    }

    std::unique_ptr<test_place> host, device, array;
};

TEST_F(bad_input, null_handles_are_refused) {
    const ferry_copy_desc copy = good();
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy(nullptr, &copy, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(error.status, FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_copy(basic.get(), nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_copy_async(nullptr, &copy, nullptr, nullptr, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_copy_bytes(nullptr, 1, 2, 3, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_device_alloc(basic.get(), 0, 64, nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_instance_get_report(basic.get(), nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_context_destroy(basic.get(), nullptr, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(bad_input, each_field_of_a_descriptor_is_named) {
    struct {
        const char *name;
        std::function<void(ferry_copy_desc &)> spoil;
        std::int32_t status, side, field;
    } const cases[] = {
        {"reserved word", [](auto &c) { c.reserved[3] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
         FERRY_FIELD_RESERVED},
        {"first reserved word", [](auto &c) { c.reserved[0] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
         FERRY_FIELD_RESERVED},
        {"reserved of a place", [](auto &c) { c.destination.reserved[0] = 1; }, FERRY_ERROR_RESERVED,
         FERRY_SIDE_DESTINATION, FERRY_FIELD_RESERVED},
        {"file of another kind", [](auto &c) { c.source.file = reinterpret_cast<ferry_file *>(1); },
         FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE, FERRY_FIELD_FILE},
        {"kind file without a file", [](auto &c) { c.destination.kind = FERRY_KIND_FILE; }, FERRY_ERROR_ADDRESS,
         FERRY_SIDE_DESTINATION, FERRY_FIELD_FILE},
        {"unknown kind", [](auto &c) { c.source.kind = 6; }, FERRY_ERROR_KIND, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND},
        {"negative kind", [](auto &c) { c.destination.kind = -1; }, FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_KIND},
        {"unknown device", [](auto &c) { c.destination.device = 64; }, FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_DEVICE},
        {"negative device", [](auto &c) { c.destination.device = -2; }, FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_DEVICE},
        {"largest device", [](auto &c) { c.destination.device = std::numeric_limits<std::int32_t>::max(); },
         FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE},
        {"null source", [](auto &c) { c.source.address = 0; }, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE,
         FERRY_FIELD_ADDRESS},
        {"null array",
         [](auto &c) {
             c.destination.kind = FERRY_KIND_ARRAY;
             c.destination.array = nullptr;
         },
         FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY},
        {"pitch below width", [](auto &c) { c.source.row_pitch = 127; }, FERRY_ERROR_PITCH, FERRY_SIDE_SOURCE,
         FERRY_FIELD_ROW_PITCH},
        {"pitch below x plus width", [](auto &c) { c.destination.x = 129; }, FERRY_ERROR_PITCH, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_ROW_PITCH},
        {"pitch above the device's limit", [](auto &c) { c.source.row_pitch = std::uint64_t{1} << 31; },
         FERRY_ERROR_PITCH, FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH},
        {"slice height below height", [](auto &c) { c.source.slice_height = 7; }, FERRY_ERROR_PITCH, FERRY_SIDE_SOURCE,
         FERRY_FIELD_SLICE_HEIGHT},
        {"width that overflows",
         [](auto &c) {
             c.source.row_pitch = c.destination.row_pitch = 0;
             c.height = c.depth = 1;
             c.width = most;
         },
         FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH},
        {"x that overflows", [](auto &c) { c.source.x = most; }, FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE,
         FERRY_FIELD_X},
        {"y that overflows", [](auto &c) { c.source.y = most; }, FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE,
         FERRY_FIELD_Y},
        {"z that overflows", [](auto &c) { c.source.z = most; }, FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE,
         FERRY_FIELD_Z},
        {"overlapping ends",
         [](auto &c) {
             c.destination = c.source;
             c.destination.x = 1;
         },
         FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS},
        {"identical ends", [](auto &c) { c.destination = c.source; }, FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_ADDRESS},
    };
    for (const auto &each : cases) {
        SCOPED_TRACE(each.name);
        ferry_copy_desc copy = good();
        each.spoil(copy);
        expect_refused(copy, each.status, each.side, each.field);
    }
}

TEST_F(bad_input, an_error_states_the_value_and_the_limit) {
    ferry_copy_desc copy = good();
    copy.source.row_pitch = 100;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_PITCH);
    EXPECT_EQ(error.value, 100u);
    EXPECT_EQ(error.limit, 128u);
    EXPECT_EQ(describe(error), "source.row_pitch: 100, must be at least 128 (FERRY_ERROR_PITCH)");
    copy = good();
    copy.destination.device = -7;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_DEVICE);
    EXPECT_EQ(describe(error), "destination.device: -7, must be at least 0 and less than " +
                                   std::to_string(device_count()) + " (FERRY_ERROR_DEVICE)");
    copy = describe_copy(host->describe(statement::stated), array->describe(statement::stated, {.y = 9}), 128, 8, 2);
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(describe(error), "destination.y: 17, past the end at 16 (FERRY_ERROR_OUT_OF_BOUNDS)");
    copy = good();
    copy.source.row_pitch = 100;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_PITCH);
    char short_buffer[8];
    EXPECT_EQ(ferry_error_format(&error, short_buffer, sizeof short_buffer), describe(error).size());
    EXPECT_STREQ(short_buffer, "source.");
}

TEST_F(bad_input, an_overflow_names_the_field_at_fault_and_the_largest_value_that_fits) {
    ferry_copy_desc copy = good();
    copy.source.row_pitch = 256;
    copy.source.slice_height = 16;
    copy.source.z = most;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_OVERFLOW);
    EXPECT_EQ(error.limit, (most - copy.source.address) / 4096);
    EXPECT_EQ(describe(error), "source.z: 18446744073709551615, must be at most " + std::to_string(error.limit) +
                                   " (FERRY_ERROR_OVERFLOW)");
    copy.source.z = 1;
    copy.source.slice_height = most / 2;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_OVERFLOW);
    EXPECT_EQ(describe(error), "source.slice_height: 9223372036854775807, must be at most 72057594037927935 "
                               "(FERRY_ERROR_OVERFLOW)");
    copy = good();
    copy.depth = most;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_OVERFLOW);
    EXPECT_EQ(error.side, FERRY_SIDE_EXTENT);
    EXPECT_EQ(error.field, FERRY_FIELD_DEPTH);
    EXPECT_EQ(error.value, most);
    const std::uint64_t to = device->address(), from = host->address(), size = most - 8;
    EXPECT_EQ(ferry_copy_pieces(basic.get(), in_arrays(&to, &from, &size, 1), nullptr, &error), FERRY_ERROR_OVERFLOW);
    EXPECT_EQ(error.field, FERRY_FIELD_WIDTH);
    EXPECT_EQ(error.limit, most - from + 1);
    EXPECT_EQ(device->read(), device->picture());
}

TEST_F(bad_input, error_info_is_filled_up_to_its_size_and_cleared_on_success) {
    ferry_copy_desc copy = good();
    copy.source.row_pitch = 100;
    ferry_error_info error = {};
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_PITCH)
        << "a size of 0 means the first version";
    EXPECT_EQ(error.struct_size, sizeof error);
    EXPECT_EQ(error.limit, 128u);
    error = {};
    error.struct_size = offsetof(ferry_error_info, field);
    error.field = 77;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_PITCH);
    EXPECT_EQ(error.side, FERRY_SIDE_SOURCE);
    EXPECT_EQ(error.field, 77) << "is past the size that the caller stated";
    error = {};
    error.struct_size = 7;
    error.status = 77;
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_PITCH);
    EXPECT_EQ(error.status, 77) << "the struct is too small for a field";
    error = new_error();
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, &error), FERRY_ERROR_PITCH);
    copy = good();
    EXPECT_OK(ferry_copy(basic.get(), &copy, nullptr, &error));
    EXPECT_EQ(error.status | error.side | error.field, 0);
    EXPECT_EQ(error.limit | error.value, 0u);
    device->fill(1);
}

TEST_F(bad_input, boxes_past_the_end_of_an_array_are_refused) {
    ferry_copy_desc copy =
        describe_copy(host->describe(statement::stated), array->describe(statement::stated), 128, 8, 2);
    struct {
        box origin;
        std::int32_t field;
        std::uint64_t end, limit;
    } const cases[] = {
        {{.x = 132}, FERRY_FIELD_X, 260, 256},
        {{.y = 9}, FERRY_FIELD_Y, 17, 16},
        {{.z = 3}, FERRY_FIELD_Z, 5, 4},
    };
    for (const auto &each : cases) {
        copy.destination = array->describe(statement::stated, each.origin);
        expect_refused(copy, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_DESTINATION, each.field);
        ferry_error_info error = new_error();
        ferry_copy(basic.get(), &copy, nullptr, &error);
        EXPECT_EQ(error.value, each.end);
        EXPECT_EQ(error.limit, each.limit);
    }
}

TEST_F(bad_input, array_formats_that_do_not_match_are_refused) {
    const test_place wide(place_kind::array_2d, {.width = 256, .height = 16, .element_size = 16});
    ferry_copy_desc copy = describe_copy(wide.describe(statement::stated), array->describe(statement::stated), 128, 8);
    expect_refused(copy, FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY);
    copy = describe_copy(host->describe(statement::stated), array->describe(statement::stated), 127, 8);
    expect_refused(copy, FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH);
    copy = describe_copy(host->describe(statement::stated), array->describe(statement::stated, {.x = 2}), 128, 8);
    expect_refused(copy, FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_DESTINATION, FERRY_FIELD_X);
}

TEST_F(bad_input, full_checks_find_copies_past_the_end_of_an_allocation) {
    const std::uint64_t size = 256 * 16 * 4;
    for (test_place *const place : {host.get(), device.get()}) {
        ferry_error_info error = new_error();
        test_place other(place_kind::device, {.width = 2 * size});
        const std::int32_t status =
            ferry_copy_bytes(full.get(), other.address(), place->address() + 1, size, nullptr, &error);
        expect_refusal(status, error, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
        EXPECT_EQ(error.value, place->address() + size + 1);
        EXPECT_EQ(error.limit, place->address() + size);
        char expected[96];
        std::snprintf(expected, sizeof expected, "address: %#llx, past the end at %#llx",
                      static_cast<unsigned long long>(error.value), static_cast<unsigned long long>(error.limit));
        EXPECT_NE(describe(error).find(expected), std::string::npos) << describe(error);
    }
}

TEST_F(bad_input, full_checks_find_wrong_kinds_and_devices) {
    ferry_copy_desc copy = good();
    copy.source = device->describe(statement::stated);
    copy.source.kind = FERRY_KIND_HOST;
    copy.destination = host->describe(statement::stated);
    expect_refused(full.get(), copy, FERRY_ERROR_OTHER_KIND, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND);

    copy = good();
    copy.destination.kind = FERRY_KIND_DEVICE;
    copy.destination.address = host->address();
    copy.source = device->describe(statement::stated);
    expect_refused(full.get(), copy, FERRY_ERROR_OTHER_KIND, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND);

    if (device_count() < 2) return;
    copy = good();
    copy.destination.device = 1;
    expect_refused(full.get(), copy, FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE);
}

// Arrays of device 0 that ferry made: one array of each kind, and a plane of a planar array.
struct made_arrays {
    explicit made_arrays(ferry_instance *instance) : instance(instance) {
        for (const array_kind &kind : array_kinds)
            whole.push_back(std::make_unique<ferry_array>(instance, kind, texels[2], 0));
        for (const std::unique_ptr<ferry_array> &one : whole)
            all.push_back(one->array());
        const ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_NV12, 3, FERRY_ARRAY_VIDEO, 64, 32, 0};
        EXPECT_OK(ferry_array_create(instance, 0, &desc, &planar, nullptr));
        for (const std::uint32_t index : {0u, 1u}) {
            CUarray plane = nullptr;
            EXPECT_OK(ferry_array_get_plane(instance, planar, index, &plane, nullptr));
            all.push_back(plane);
        }
    }
    ~made_arrays() { EXPECT_OK(ferry_array_destroy(instance, planar, nullptr)); }
    made_arrays(const made_arrays &) = delete;

    ferry_instance *instance;
    std::vector<std::unique_ptr<ferry_array>> whole;
    CUarray planar = nullptr;
    std::vector<CUarray> all;
};

TEST_F(bad_input, an_array_that_ferry_made_is_refused_on_another_device_than_its_own) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        const made_arrays made(instance);
        for (const CUarray array : made.all)
            for (const std::int32_t side : {FERRY_SIDE_SOURCE, FERRY_SIDE_DESTINATION}) {
                ferry_copy_desc copy = {};
                copy.width = 8;
                ferry_place &end = side == FERRY_SIDE_SOURCE ? copy.source : copy.destination;
                (side == FERRY_SIDE_SOURCE ? copy.destination : copy.source) = host->describe(statement::stated);
                for (const std::int32_t right : {0, FERRY_DEVICE_UNKNOWN}) {
                    ferry_place_array(&end, right, array);
                    EXPECT_OK(ferry_copy(instance, &copy, nullptr, nullptr));
                    EXPECT_OK(ferry_copy_batch(instance, &copy, 1, nullptr, nullptr));
                }
                ferry_place_array(&end, 1, array);
                expect_refused(instance, copy, FERRY_ERROR_DEVICE, side, FERRY_FIELD_DEVICE);
                ferry_explanation told = new_explanation();
                EXPECT_EQ(ferry_copy_explain(instance, &copy, nullptr, &told, nullptr), FERRY_ERROR_DEVICE);
                const ferry_copy_desc two[] = {good(), copy};
                ferry_prepared *prepared = nullptr;
                for (const int form : {0, 1, 2, 3}) {
                    ferry_error_info error = new_error();
                    const std::int32_t status =
                        form == 0   ? ferry_copy_batch(instance, two, 2, nullptr, &error)
                        : form == 1 ? ferry_copy_batch_async(instance, two, 2, nullptr, nullptr, nullptr, &error)
                        : form == 2 ? ferry_prepared_create(instance, two, 2, nullptr, nullptr, &prepared, &error)
                                    : ferry_copy_async(instance, &copy, nullptr, nullptr, nullptr, &error);
                    expect_refusal(status, error, FERRY_ERROR_DEVICE, side, FERRY_FIELD_DEVICE);
                    EXPECT_EQ(error.limit, 0u);
                    EXPECT_EQ(error.value, 1u);
                    EXPECT_EQ(error.index, form == 3 ? 0u : 1u);
                }
            }
    }
}

TEST_F(bad_input, the_device_of_an_array_that_ferry_made_need_not_be_stated_on_another_device_s_stream) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const other_device far;
    const made_current there(far);
    const test_stream of_far;
    for (ferry_instance *const instance : {basic.get(), full.get()}) {
        ferry_array made(instance, array_kinds[0], texels[2], 0);
        {
            const made_current here(context);
            made.fill(5);
        }
        ferry_copy_desc copy = {};
        ferry_place_array(&copy.source, FERRY_DEVICE_UNKNOWN, made.array());
        copy.destination = host->describe(statement::stated);
        copy.width = 256;
        ferry_explanation told = new_explanation();
        ASSERT_OK(ferry_copy_explain_async(instance, &copy, nullptr, of_far, &told, nullptr));
        EXPECT_EQ(told.source_device, 0);
        EXPECT_EQ(told.context_device, 1);
        ASSERT_OK(ferry_copy_async(instance, &copy, nullptr, of_far, nullptr, nullptr));
        ASSERT_OK(raw().cuStreamSynchronize(of_far));
        EXPECT_EQ(std::memcmp(reinterpret_cast<const void *>(host->address()), made.picture.data(), 256), 0);
    }
}

TEST_F(bad_input, an_array_is_found_on_the_device_where_it_was_made_last) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    for (int i = 0; i < 4; ++i) {
        ferry_array made(basic.get(), array_kinds[i % 2], texels[2], 0, i % 2);
        ferry_copy_desc copy = {};
        ferry_place_array(&copy.source, i % 2, made.array());
        copy.destination = host->describe(statement::stated);
        copy.width = 8;
        EXPECT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr)) << "the driver may give the same handle again";
    }
}

TEST_F(bad_input, freed_and_foreign_addresses_are_refused_where_the_driver_reports_them) {
    std::uint64_t freed = 0;
    ASSERT_OK(ferry_device_alloc(full.get(), 0, 1 << 20, &freed, nullptr));
    ASSERT_OK(ferry_device_free(full.get(), freed, nullptr));
    ferry_copy_desc copy = good();
    copy.destination.address = freed;
    expect_refused(full.get(), copy, FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    // Nothing is mapped in the first page, so neither the driver nor a process can read it.
    copy = good();
    copy.source.kind = FERRY_KIND_ANY;
    copy.source.address = 64;
    expect_refused(full.get(), copy, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    EXPECT_EQ(ferry_device_free(full.get(), freed, nullptr), FERRY_ERROR_ADDRESS);
    EXPECT_EQ(ferry_device_free(full.get(), host->address(), nullptr), FERRY_ERROR_ADDRESS);
}

TEST_F(bad_input, width_0_succeeds_without_a_driver_call) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    driver.reset_counts();
    ferry_copy_desc copy = {};
    EXPECT_OK(ferry_copy(instance.get(), &copy, nullptr, nullptr));
    EXPECT_OK(ferry_copy_async(instance.get(), &copy, nullptr, nullptr, nullptr, nullptr));
    EXPECT_OK(ferry_copy_bytes(instance.get(), 0, 0, 0, nullptr, nullptr));
    EXPECT_EQ(driver.calls_beginning("cu"), 0);
    copy.source.kind = 99;
    EXPECT_EQ(ferry_copy(instance.get(), &copy, nullptr, nullptr), FERRY_ERROR_KIND) << "an empty copy is checked too";
}

TEST_F(bad_input, refused_copies_make_no_driver_copy_call) {
    fault_driver driver(raw_entry_points());
    const instance_owner instance = open_or_fail(driver.options());
    driver.reset_counts();
    ferry_copy_desc copy = good();
    copy.source.row_pitch = 1;
    EXPECT_EQ(ferry_copy_async(instance.get(), &copy, nullptr, nullptr, nullptr, nullptr), FERRY_ERROR_PITCH);
    copy = describe_copy(host->describe(statement::any), array->describe(statement::stated, {.z = 4}), 128, 8, 1);
    EXPECT_EQ(ferry_copy_async(instance.get(), &copy, nullptr, nullptr, nullptr, nullptr), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(driver.calls_beginning("cuMemcpy"), 0);
}

TEST_F(bad_input, options_of_the_wrong_size_or_content_are_refused) {
    ferry_instance *instance = nullptr;
    ferry_error_info error = new_error();
    std::string text;
    const auto refuse = [&](const ferry_options &options, std::int32_t status, std::int32_t field) {
        error = new_error();
        const std::int32_t returned = ferry_open(&options, &instance, &error);
        EXPECT_EQ(instance, nullptr);
        expect_refusal(returned, error, status, FERRY_SIDE_OPTIONS, field);
        text = describe(error);
    };
    ferry_options options = options_under_test();
    options.struct_size = 0;
    refuse(options, FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE);
    options.struct_size = 1 << 20;
    refuse(options, FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE);
    options = options_under_test();
    options.trace_phases = FERRY_PHASE_DONE << 1;
    refuse(options, FERRY_ERROR_FLAGS, FERRY_FIELD_TRACE_PHASES);
    EXPECT_EQ(text, "options.trace_phases: 0x8, has bits outside 0x7 (FERRY_ERROR_FLAGS)");
    options = options_under_test();
    options.driver = 3;
    refuse(options, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_DRIVER);
    options = options_under_test();
    options.checks = -1;
    refuse(options, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_CHECKS);
    options = options_under_test();
    options.allocate = [](void *, std::uint64_t, std::uint64_t) -> void * { return nullptr; };
    refuse(options, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_CALLBACKS);
    EXPECT_EQ(ferry_open(&options, nullptr, &error), FERRY_ERROR_INVALID_ARGUMENT);
}

TEST_F(bad_input, structs_of_older_programs_are_accepted_and_of_newer_ones_if_the_new_fields_are_zero) {
    struct {
        ferry_options known;
        std::uint64_t newer;
    } longer = {options_under_test(), 0};
    longer.known.struct_size = sizeof longer;
    ferry_instance *instance = nullptr;
    EXPECT_OK(ferry_open(&longer.known, &instance, nullptr));
    ferry_close(instance);
    longer.newer = 1;
    EXPECT_EQ(ferry_open(&longer.known, &instance, nullptr), FERRY_ERROR_ABI_MISMATCH);

    ferry_options shorter = options_under_test();
    shorter.struct_size = offsetof(ferry_options, checks);
    shorter.checks = 77; // past the size that the program states
    EXPECT_OK(ferry_open(&shorter, &instance, nullptr));
    ferry_close(instance);

    ferry_report report = {};
    report.struct_size = offsetof(ferry_report, device_count);
    report.device_count = -5;
    EXPECT_OK(ferry_instance_get_report(basic.get(), &report, nullptr));
    EXPECT_GT(report.driver_version, 0);
    EXPECT_EQ(report.device_count, -5) << "is past the size that the caller stated";
}

TEST_F(bad_input, memory_calls_refuse_unknown_flags_and_formats) {
    void *memory = nullptr;
    CUarray made = nullptr;
    EXPECT_EQ(allocate_pinned(basic.get(), 64, 128u, &memory), FERRY_ERROR_FLAGS);
    char bytes[64];
    EXPECT_EQ(ferry_host_register(basic.get(), bytes, 64, 2, nullptr), FERRY_ERROR_FLAGS);
    ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_FLOAT, 1, 0x40, 16, 0, 0};
    EXPECT_EQ(ferry_array_create(basic.get(), 0, &desc, &made, nullptr), FERRY_ERROR_FLAGS);
    desc.flags = 0;
    desc.channels = 3;
    EXPECT_EQ(ferry_array_create(basic.get(), 0, &desc, &made, nullptr), FERRY_ERROR_ARRAY_FORMAT);
    EXPECT_EQ(made, nullptr);
    desc.channels = 1;
    CUmipmappedArray mipmapped = nullptr;
    for (const std::int32_t format : {0, 0x7f, -1}) {
        desc.format = format;
        EXPECT_EQ(ferry_array_create(basic.get(), 0, &desc, &made, nullptr), FERRY_ERROR_ARRAY_FORMAT) << format;
        EXPECT_EQ(ferry_mipmapped_array_create(basic.get(), 0, &desc, 1, &mipmapped, nullptr),
                  FERRY_ERROR_ARRAY_FORMAT);
    }
    desc.format = FERRY_FORMAT_FLOAT;
    desc.width = std::uint64_t{1} << 40;
    EXPECT_EQ(ferry_array_create(basic.get(), 0, &desc, &made, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE)
        << "the format is known, so the driver's own status";
    EXPECT_EQ(ferry_device_alloc(basic.get(), device_count(), 64, reinterpret_cast<std::uint64_t *>(bytes), nullptr),
              FERRY_ERROR_DEVICE);
}

TEST_F(bad_input, copies_between_layers_of_one_1d_array_work) {
    const grid shape = {.width = 64, .depth = 6, .element_size = 4};
    test_place array(place_kind::layers_1d, shape);
    array.fill(1);
    for (ferry_instance *const instance : {basic.get(), full.get()})
        for (const bool is_synchronous : {true, false}) {
            const ferry_copy_desc across = describe_copy(array.describe(statement::stated, {.x = 8, .z = 4}),
                                                         array.describe(statement::stated, {.z = 1}), 32, 1, 2);
            EXPECT_OK(is_synchronous ? ferry_copy(instance, &across, nullptr, nullptr)
                                     : ferry_copy_async(instance, &across, nullptr, nullptr, nullptr, nullptr));
            EXPECT_OK(raw().cuCtxSynchronize());
            reference_copy(array, {.x = 8, .z = 4}, array, {.z = 1}, 32, 1, 2);
            EXPECT_EQ(array.read(), array.picture());
            array.fill(2);
        }
}

// In a copy between two layers of one array the driver reads the layer that it writes.
TEST_F(bad_input, copies_between_layers_of_one_array_are_refused_and_within_a_layer_work) {
    const grid shape = {.width = 64, .height = 16, .depth = 6, .element_size = 4};
    for (const place_kind kind : {place_kind::layers_2d, place_kind::cubemap}) {
        test_place array(kind, shape), other(kind, shape);
        array.fill(1);
        other.fill(2);
        for (ferry_instance *const instance : {basic.get(), full.get()}) {
            const ferry_copy_desc across = describe_copy(array.describe(statement::stated, {.z = 4}),
                                                         array.describe(statement::stated, {.z = 1}), 32, 4, 2);
            ferry_error_info error = new_error();
            expect_refusal(ferry_copy(instance, &across, nullptr, &error), error, FERRY_ERROR_UNSUPPORTED,
                           FERRY_SIDE_DESTINATION, FERRY_FIELD_Z);
            EXPECT_EQ(error.limit, 4u);
            EXPECT_EQ(error.value, 1u);
            EXPECT_EQ(array.read(), array.picture());
            const ferry_copy_desc within = describe_copy(array.describe(statement::stated, {.x = 32, .y = 2, .z = 3}),
                                                         array.describe(statement::stated, {.y = 9, .z = 3}), 32, 4, 2);
            EXPECT_OK(ferry_copy(instance, &within, nullptr, &error));
            reference_copy(array, {.x = 32, .y = 2, .z = 3}, array, {.y = 9, .z = 3}, 32, 4, 2);
            EXPECT_EQ(array.read(), array.picture());
            const ferry_copy_desc apart = describe_copy(array.describe(statement::stated, {.z = 4}),
                                                        other.describe(statement::stated, {.z = 1}), 32, 4, 2);
            EXPECT_OK(ferry_copy(instance, &apart, nullptr, &error));
            reference_copy(array, {.z = 4}, other, {.z = 1}, 32, 4, 2);
            EXPECT_EQ(other.read(), other.picture());
        }
    }
}

} // namespace
} // namespace ferry::test
