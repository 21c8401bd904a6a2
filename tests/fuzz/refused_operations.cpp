// Operations that must be rejected. Each error reports the invalid field, and no byte changes.
#include <limits>

#include "fuzz/operations.h"

namespace ferry::test {

namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

struct spoilt {
    const char *name;
    void (*spoil)(ferry_copy_desc &);
    std::int32_t status, side, field;
    bool needs_linear_ends = true;
};
const spoilt spoilt_copies[] = {
    {"unknown flag", [](auto &c) { c.flags = 0x80; }, FERRY_ERROR_FLAGS, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS,
     false},
    {"two routes", [](auto &c) { c.flags = FERRY_COPY_BY_DRIVER | FERRY_COPY_BY_KERNEL; }, FERRY_ERROR_FLAGS,
     FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, false},
    {"reserved word", [](auto &c) { c.reserved[3] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_RESERVED, false},
    {"reserved0", [](auto &c) { c.reserved0 = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED,
     false},
    {"reserved word of a place", [](auto &c) { c.source.reserved[1] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE,
     FERRY_FIELD_RESERVED, false},
    {"unknown kind", [](auto &c) { c.source.kind = 4; }, FERRY_ERROR_KIND, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND, false},
    {"negative kind", [](auto &c) { c.destination.kind = -1; }, FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION,
     FERRY_FIELD_KIND, false},
    {"unknown device",
     [](auto &c) {
         c.destination.kind = FERRY_KIND_DEVICE;
         c.destination.device = 64;
     },
     FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE},
    {"null source", [](auto &c) { c.source.address = 0; }, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS},
    {"null array",
     [](auto &c) {
         c.destination.kind = FERRY_KIND_ARRAY;
         c.destination.device = 0;
         c.destination.array = nullptr;
     },
     FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY},
    {"pitch below x plus width", [](auto &c) { c.source.row_pitch = c.source.x + c.width - 1; }, FERRY_ERROR_PITCH,
     FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH},
    {"slice height below y plus height",
     [](auto &c) {
         c.destination.slice_height = 1;
         c.destination.y = 1;
         c.destination.row_pitch = c.destination.x + c.width;
         c.height = 1;
     },
     FERRY_ERROR_PITCH, FERRY_SIDE_DESTINATION, FERRY_FIELD_SLICE_HEIGHT},
    {"x that overflows", [](auto &c) { c.source.x = most; }, FERRY_ERROR_OVERFLOW, FERRY_SIDE_SOURCE, FERRY_FIELD_X},
    {"both ends the same", [](auto &c) { c.destination = c.source; }, FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION,
     FERRY_FIELD_ADDRESS},
};

drawn_copy copy_to_spoil(world &w, const spoilt &how) {
    for (;;) {
        drawn_copy drawn = any_copy(w);
        drawn.flags = 0;
        const bool is_linear = !drawn.source.in->is_array() && !drawn.destination.in->is_array();
        if (drawn.size.width > 1 && (is_linear || !how.needs_linear_ends)) return drawn;
    }
}

void expect_refused(world &w, std::int32_t status, const ferry_error_info &error, const spoilt &how) {
    if (status == how.status && error.status == status && error.side == how.side && error.field == how.field) return;
    w.fail(std::string("not refused as expected: ") + describe_status(status, error));
}

} // namespace

void refused_copy(world &w) {
    const spoilt &how = w.random.of(spoilt_copies);
    const drawn_copy drawn = copy_to_spoil(w, how);
    ferry_copy_desc copy = drawn.describe();
    how.spoil(copy);
    w.say(std::string(how.name) + " in a " + drawn.words());
    w.wait_for(*drawn.source.in);
    w.wait_for(*drawn.destination.in);
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    ferry_instance *const ferry = w.instance_for({drawn});
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    ferry_explanation explained = {};
    explained.struct_size = sizeof explained;
    const std::uint64_t form = w.random.up_to(4);
    const std::int32_t status = w.call(w.context_for(on), [&] {
        return form == 0   ? ferry_copy(ferry, &copy, &error)
               : form == 1 ? ferry_copy_async(ferry, &copy, on.stream, nullptr, &error)
               : form == 2 ? ferry_copy_async(ferry, &copy, on.stream, &ticket, &error)
               : form == 3 ? ferry_copy_explain(ferry, &copy, &explained, &error)
                           : ferry_copy_explain_async(ferry, &copy, on.stream, &explained, &error);
    });
    expect_refused(w, status, error, how);
    w.expect(!ticket && explained.route == 0, "a refused call left a ticket or an explanation");
    w.compare(*drawn.source.in, "after a refused copy");
    w.compare(*drawn.destination.in, "after a refused copy");
}

void refused_batch(world &w) {
    const spoilt &how = w.random.of(spoilt_copies);
    const drawn_copy drawn = copy_to_spoil(w, how);
    const std::uint64_t index = w.random.up_to(6);
    std::vector<ferry_copy_desc> copies(7, drawn.describe());
    for (ferry_copy_desc &one : copies)
        one.width = 0; // empty, except for the invalid copy
    copies[index].width = drawn.size.width;
    how.spoil(copies[index]);
    w.say(std::string(how.name) + " in copy " + std::to_string(index) + " of a batch: " + drawn.words());
    w.wait_for(*drawn.destination.in);
    const struct lane &on = w.lanes[w.any_lane()];
    ferry_instance *const ferry = w.instance_for({drawn});
    ferry_error_info error = new_error();
    ferry_prepared *prepared = nullptr;
    const std::uint64_t form = w.random.up_to(2);
    const std::int32_t status = w.call(w.context_for(on), [&] {
        return form == 0 ? ferry_copy_batch(ferry, copies.data(), copies.size(), 0, &error)
               : form == 1
                   ? ferry_copy_batch_async(ferry, copies.data(), copies.size(), 0, on.stream, &error)
                   : ferry_prepared_create(ferry, copies.data(), copies.size(), 0, on.stream, &prepared, &error);
    });
    expect_refused(w, status, error, how);
    w.expect(error.index == index && !prepared, "the error info names another copy of the batch");
    w.compare(*drawn.destination.in, "after a refused batch");
}

void refused_fill(world &w) {
    struct {
        const char *name;
        void (*spoil)(ferry_fill_desc &);
        std::int32_t status, field;
    } constexpr cases[] = {
        {"pattern of 3 bytes", [](auto &f) { f.pattern_size = 3; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_PATTERN},
        {"odd address", [](auto &f) { f.destination.address += 1; }, FERRY_ERROR_ALIGNMENT, FERRY_FIELD_ADDRESS},
        {"reserved word", [](auto &f) { f.reserved[5] = 1; }, FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED},
        {"unknown flag", [](auto &f) { f.flags = 0x20; }, FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS},
        {"null address", [](auto &f) { f.destination.address = 0; }, FERRY_ERROR_ADDRESS, FERRY_FIELD_ADDRESS},
    };
    buffer &to = any_buffer(w);
    const auto &how = w.random.of(cases);
    drawn_fill drawn;
    drawn.size.width = std::min<std::uint64_t>(to.size() / 8 * 4, 4096);
    drawn.destination = line_in(to, 0, drawn.size.width);
    drawn.pattern_size = 4;
    ferry_fill_desc fill = drawn.describe();
    std::int32_t expected = how.status, field = how.field;
    if (to.traits().is_fillable)
        how.spoil(fill);
    else
        expected = to.is_array() ? FERRY_ERROR_UNSUPPORTED : FERRY_ERROR_PAGEABLE,
        field = to.is_array() ? FERRY_FIELD_KIND : FERRY_FIELD_ADDRESS;
    if (to.kind == memory_kind::registered_in_part || to.kind == memory_kind::host_pool ||
        to.kind == memory_kind::host_pool_of_one_device)
        return; // may or may not be fillable
    w.say(std::string(to.traits().is_fillable ? how.name : "unfillable memory") + " in a fill of " + to.name());
    w.wait_for(to);
    ferry_error_info error = new_error();
    const std::int32_t status = w.call(w.any_context(), [&] { return ferry_fill(w.run.ferry.get(), &fill, &error); });
    if (status != expected || error.field != field)
        w.fail("not refused as expected: " + describe_status(status, error));
    w.compare(to, "after a refused fill");
}

// Calls with invalid arguments, which every function must reject.
void refused_calls(world &w) {
    w.say("calls with arguments that are refused");
    ferry_instance *const ferry = w.run.ferry.get();
    std::uint64_t address = 1;
    void *host = &host;
    CUstream_st *stream = nullptr;
    CUarray_st *array = nullptr;
    ferry_array_desc desc = {};
    desc.struct_size = sizeof desc;
    struct {
        const char *call;
        std::int32_t status, expected;
    } const cases[] = {
        {"ferry_device_alloc of 0 bytes", ferry_device_alloc(ferry, 0, 0, &address, nullptr),
         FERRY_ERROR_INVALID_ARGUMENT},
        {"ferry_device_alloc on an invalid device", ferry_device_alloc(ferry, 99, 64, &address, nullptr),
         FERRY_ERROR_DEVICE},
        {"ferry_host_alloc with unknown flags", allocate_pinned(ferry, 64, 1u << 20, &host), FERRY_ERROR_FLAGS},
        {"ferry_host_register of NULL", ferry_host_register(ferry, nullptr, 64, 0, nullptr),
         FERRY_ERROR_INVALID_ARGUMENT},
        {"ferry_device_free of host memory", ferry_device_free(ferry, reinterpret_cast<std::uint64_t>(&w), nullptr),
         FERRY_ERROR_ADDRESS},
        {"ferry_pinned_pool_free of memory outside the pool", ferry_pinned_pool_free(w.sources.pinned, &w, nullptr),
         FERRY_ERROR_ADDRESS},
        {"ferry_ipc_close_memory of memory that was not imported", ferry_ipc_close_memory(ferry, 64, nullptr, nullptr),
         FERRY_ERROR_ADDRESS},
        {"ferry_stream_create with unknown flags", ferry_stream_create(ferry, 0, 8, 0, &stream, nullptr),
         FERRY_ERROR_FLAGS},
        {"ferry_array_create on an invalid device", ferry_array_create(ferry, -1, &desc, &array, nullptr),
         FERRY_ERROR_DEVICE},
        {"ferry_copy_batch without copies", ferry_copy_batch(ferry, nullptr, 1, 0, nullptr),
         FERRY_ERROR_INVALID_ARGUMENT},
        {"ferry_prepared_launch of NULL", ferry_prepared_launch(nullptr, nullptr, nullptr),
         FERRY_ERROR_INVALID_ARGUMENT},
    };
    for (const auto &one : cases)
        if (one.status != one.expected)
            w.fail(std::string(one.call) + " returned another status: " + ferry_status_name(one.status));
    w.expect(address == 0 && !host && !stream && !array, "a refused call returned an object");
}

} // namespace ferry::test
