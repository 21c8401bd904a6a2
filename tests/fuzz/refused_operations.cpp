// Operations that must be rejected. Each error reports the invalid field, and no byte changes.
#include <functional>
#include <limits>

#include "fuzz/operations.h"
#include "support/piece_lists.h"

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
    {"reserved word", [](auto &c) { c.reserved[0] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_RESERVED, false},
    {"last reserved word", [](auto &c) { c.reserved[4] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR,
     FERRY_FIELD_RESERVED, false},
    {"reserved word of a place", [](auto &c) { c.source.reserved[1] = 1; }, FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE,
     FERRY_FIELD_RESERVED, false},
    {"file of another kind", [](auto &c) { c.source.file = reinterpret_cast<ferry_file *>(1); }, FERRY_ERROR_RESERVED,
     FERRY_SIDE_SOURCE, FERRY_FIELD_FILE, false},
    {"kind file without a file", [](auto &c) { c.source.kind = FERRY_KIND_FILE; }, FERRY_ERROR_ADDRESS,
     FERRY_SIDE_SOURCE, FERRY_FIELD_FILE, false},
    {"unknown kind", [](auto &c) { c.source.kind = 6; }, FERRY_ERROR_KIND, FERRY_SIDE_SOURCE, FERRY_FIELD_KIND, false},
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

drawn_copy copy_to_spoil(world &w, const spoilt &wrong) {
    for (;;) {
        drawn_copy drawn = any_copy(w);
        drawn.options = {};
        const bool is_linear = !drawn.source.in->is_array() && !drawn.destination.in->is_array();
        if (drawn.size.width > 1 && (is_linear || !wrong.needs_linear_ends)) return drawn;
    }
}

void expect_refused(world &w, std::int32_t status, const ferry_error_info &error, const spoilt &wrong) {
    if (status == wrong.status && error.status == status && error.side == wrong.side && error.field == wrong.field)
        return;
    w.fail(std::string("not refused as expected: ") + describe_status(status, error));
}

} // namespace

void refused_copy(world &w) {
    const spoilt &wrong = w.random.of(spoilt_copies);
    const drawn_copy drawn = copy_to_spoil(w, wrong);
    ferry_copy_desc copy = drawn.describe();
    wrong.spoil(copy);
    w.say(std::string(wrong.name) + " in a " + drawn.words());
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
        return form == 0   ? ferry_copy(ferry, &copy, nullptr, &error)
               : form == 1 ? ferry_copy_async(ferry, &copy, nullptr, on.stream, nullptr, &error)
               : form == 2 ? ferry_copy_async(ferry, &copy, nullptr, on.stream, &ticket, &error)
               : form == 3 ? ferry_copy_explain(ferry, &copy, nullptr, &explained, &error)
                           : ferry_copy_explain_async(ferry, &copy, nullptr, on.stream, &explained, &error);
    });
    expect_refused(w, status, error, wrong);
    w.expect(!ticket && explained.route == 0, "a refused call left a ticket or an explanation");
    w.compare(*drawn.source.in, "after a refused copy");
    w.compare(*drawn.destination.in, "after a refused copy");
}

void refused_batch(world &w) {
    const spoilt &wrong = w.random.of(spoilt_copies);
    const drawn_copy drawn = copy_to_spoil(w, wrong);
    const std::uint64_t index = w.random.up_to(6);
    std::vector<ferry_copy_desc> copies(7, drawn.describe());
    for (ferry_copy_desc &one : copies)
        one.width = 0; // empty, except for the invalid copy
    copies[index].width = drawn.size.width;
    wrong.spoil(copies[index]);
    w.say(std::string(wrong.name) + " in copy " + std::to_string(index) + " of a batch: " + drawn.words());
    w.wait_for(*drawn.destination.in);
    const struct lane &on = w.lanes[w.any_lane()];
    ferry_instance *const ferry = w.instance_for({drawn});
    ferry_error_info error = new_error();
    ferry_prepared *prepared = nullptr;
    const std::uint64_t form = w.random.up_to(2);
    const std::int32_t status = w.call(w.context_for(on), [&] {
        return form == 0 ? ferry_copy_batch(ferry, copies.data(), copies.size(), nullptr, &error)
               : form == 1
                   ? ferry_copy_batch_async(ferry, copies.data(), copies.size(), nullptr, on.stream, nullptr, &error)
                   : ferry_prepared_create(ferry, copies.data(), copies.size(), nullptr, on.stream, &prepared, &error);
    });
    expect_refused(w, status, error, wrong);
    w.expect(error.index == index && !prepared, "the error info names another copy of the batch");
    w.compare(*drawn.destination.in, "after a refused batch");
}

// Options that no call accepts. They are checked before the rest of a call, which may be wrong too.
void refused_options(world &w) {
    struct {
        const char *name;
        void (*spoil)(ferry_copy_options &);
        std::int32_t status, field;
    } constexpr cases[] = {
        {"struct_size of 4", [](auto &o) { o.struct_size = 4; }, FERRY_ERROR_ABI_MISMATCH, FERRY_FIELD_STRUCT_SIZE},
        {"unknown flag", [](auto &o) { o.flags |= 0x80; }, FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS},
        {"kernels and no kernels",
         [](auto &o) {
             o.route = FERRY_ROUTE_KERNEL;
             o.flags |= FERRY_COPY_NO_KERNELS;
         },
         FERRY_ERROR_ROUTE, FERRY_FIELD_ROUTE},
        {"negative route", [](auto &o) { o.route = -1; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_ROUTE},
        {"unknown route", [](auto &o) { o.route = 100; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_ROUTE},
        {"buffered route", [](auto &o) { o.route = FERRY_ROUTE_BUFFERED; }, FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_ROUTE},
        {"route over several links", [](auto &o) { o.route = FERRY_ROUTE_MULTILINK; }, FERRY_ERROR_UNSUPPORTED,
         FERRY_FIELD_ROUTE},
        {"negative priority", [](auto &o) { o.priority = -1; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_PRIORITY},
        {"unknown priority", [](auto &o) { o.priority = 3; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_PRIORITY},
        {"background", [](auto &o) { o.priority = FERRY_PRIORITY_BACKGROUND; }, FERRY_ERROR_UNSUPPORTED,
         FERRY_FIELD_PRIORITY},
        {"negative source order", [](auto &o) { o.source_order = -1; }, FERRY_ERROR_INVALID_ARGUMENT,
         FERRY_FIELD_SOURCE_ORDER},
        {"unknown source order", [](auto &o) { o.source_order = 3; }, FERRY_ERROR_INVALID_ARGUMENT,
         FERRY_FIELD_SOURCE_ORDER},
        {"more SMs than fit", [](auto &o) { o.max_sms = 65536; }, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_MAX_SMS},
    };
    const auto &wrong = w.random.of(cases);
    const drawn_copy drawn = any_copy(w);
    const struct lane &on = w.lanes[w.any_lane()];
    ferry_instance *const ferry = w.instance_for({drawn});
    ferry_copy_desc copy = drawn.describe();
    ferry_fill_desc fill = {};
    fill.destination = copy.destination;
    fill.width = copy.width;
    fill.pattern_size = 1;
    if (w.random.one_in(2)) copy.reserved[0] = fill.reserved[0] = 1;
    const std::uint64_t to = copy.destination.address, from = copy.source.address, size = copy.width;
    ferry_copy_options options = tag(1).fields();
    wrong.spoil(options);
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    ferry_prepared *prepared = nullptr;
    ferry_explanation explained = new_explanation();
    ferry_batch_explanation of_batch = {};
    of_batch.struct_size = sizeof of_batch;
    const struct {
        const char *name;
        std::function<std::int32_t()> run;
    } calls[] = {
        {"ferry_copy", [&] { return ferry_copy(ferry, &copy, &options, &error); }},
        {"ferry_copy_async", [&] { return ferry_copy_async(ferry, &copy, &options, on.stream, &ticket, &error); }},
        {"ferry_copy_explain", [&] { return ferry_copy_explain(ferry, &copy, &options, &explained, &error); }},
        {"ferry_copy_explain_async",
         [&] { return ferry_copy_explain_async(ferry, &copy, &options, on.stream, &explained, &error); }},
        {"ferry_copy_bytes", [&] { return ferry_copy_bytes(ferry, to, from, size, &options, &error); }},
        {"ferry_copy_bytes_async",
         [&] { return ferry_copy_bytes_async(ferry, to, from, size, &options, on.stream, &ticket, &error); }},
        {"ferry_copy_batch", [&] { return ferry_copy_batch(ferry, &copy, 1, &options, &error); }},
        {"ferry_copy_batch_async",
         [&] { return ferry_copy_batch_async(ferry, &copy, 1, &options, on.stream, &ticket, &error); }},
        {"ferry_copy_batch_explain_async",
         [&] { return ferry_copy_batch_explain_async(ferry, &copy, 1, &options, on.stream, &of_batch, &error); }},
        {"ferry_copy_pieces",
         [&] { return ferry_copy_pieces(ferry, in_arrays(&to, &from, &size, 1), &options, &error); }},
        {"ferry_copy_pieces_async",
         [&] {
             return ferry_copy_pieces_async(ferry, in_arrays(&to, &from, &size, 1), &options, on.stream, &ticket,
                                            &error);
         }},
        {"ferry_copy_pieces_explain_async",
         [&] {
             return ferry_copy_pieces_explain_async(ferry, in_arrays(&to, &from, &size, 1), &options, on.stream,
                                                    &of_batch, &error);
         }},
        {"ferry_prepared_create",
         [&] { return ferry_prepared_create(ferry, &copy, 1, &options, on.stream, &prepared, &error); }},
        {"ferry_prepared_create_pieces",
         [&] {
             return ferry_prepared_create_pieces(ferry, in_arrays(&to, &from, &size, 1), &options, on.stream, &prepared,
                                                 &error);
         }},
        {"ferry_fill", [&] { return ferry_fill(ferry, &fill, &options, &error); }},
        {"ferry_fill_async", [&] { return ferry_fill_async(ferry, &fill, &options, on.stream, &ticket, &error); }},
        {"ferry_fill_explain", [&] { return ferry_fill_explain(ferry, &fill, &options, &explained, &error); }},
        {"ferry_fill_explain_async",
         [&] { return ferry_fill_explain_async(ferry, &fill, &options, on.stream, &explained, &error); }},
        {"ferry_prepared_launch", // only if a batch is prepared
         [&] { return ferry_prepared_launch(w.prepared.front().handle, &options, on.stream, &ticket, &error); }},
    };
    const std::size_t count = std::size(calls) - (w.prepared.empty() ? 1 : 0);
    const auto &call = calls[w.random.up_to(count - 1)];
    w.say(std::string(wrong.name) + " in the options of " + call.name + ": " + drawn.words());
    w.wait_for(*drawn.source.in);
    w.wait_for(*drawn.destination.in);
    const std::int32_t status = w.call(w.any_context(), call.run);
    if (status != wrong.status || error.status != status || error.side != FERRY_SIDE_OPTIONS ||
        error.field != wrong.field)
        w.fail("not refused as expected: " + describe_status(status, error));
    w.expect(!ticket && !prepared && explained.route == 0, "a refused call returned an object or an explanation");
    w.compare(*drawn.source.in, "after a call with refused options");
    w.compare(*drawn.destination.in, "after a call with refused options");
}

void refused_fill(world &w) {
    struct {
        const char *name;
        void (*spoil)(ferry_fill_desc &);
        std::int32_t status, field;
    } constexpr cases[] = {
        {"pattern of 3 bytes", [](auto &f) { f.pattern_size = 3; }, FERRY_ERROR_INVALID_ARGUMENT,
         FERRY_FIELD_PATTERN_SIZE},
        {"odd address", [](auto &f) { f.destination.address += 1; }, FERRY_ERROR_ALIGNMENT, FERRY_FIELD_ADDRESS},
        {"reserved word", [](auto &f) { f.reserved[5] = 1; }, FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED},
        {"reserved0", [](auto &f) { f.reserved0 = 1; }, FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED},
        {"null address", [](auto &f) { f.destination.address = 0; }, FERRY_ERROR_ADDRESS, FERRY_FIELD_ADDRESS},
    };
    buffer &to = any_buffer(w);
    const auto &wrong = w.random.of(cases);
    drawn_fill drawn;
    drawn.size.width = std::min<std::uint64_t>(to.size() / 8 * 4, 4096);
    drawn.destination = line_in(to, 0, drawn.size.width);
    drawn.pattern_size = 4;
    ferry_fill_desc fill = drawn.describe();
    std::int32_t expected = wrong.status, field = wrong.field;
    if (to.traits().is_fillable)
        wrong.spoil(fill);
    else
        expected = to.is_array() ? FERRY_ERROR_UNSUPPORTED : FERRY_ERROR_PAGEABLE,
        field = to.is_array() ? FERRY_FIELD_KIND : FERRY_FIELD_ADDRESS;
    if (to.kind == memory_kind::registered_in_part || to.kind == memory_kind::host_pool ||
        to.kind == memory_kind::host_pool_of_one_device)
        return; // may or may not be fillable
    w.say(std::string(to.traits().is_fillable ? wrong.name : "unfillable memory") + " in a fill of " + to.name());
    w.wait_for(to);
    ferry_error_info error = new_error();
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_fill(w.run.ferry.get(), &fill, nullptr, &error); });
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
        {"ferry_copy_batch without copies", ferry_copy_batch(ferry, nullptr, 1, nullptr, nullptr),
         FERRY_ERROR_INVALID_ARGUMENT},
        {"ferry_prepared_launch of NULL", ferry_prepared_launch(nullptr, nullptr, nullptr, nullptr, nullptr),
         FERRY_ERROR_INVALID_ARGUMENT},
    };
    for (const auto &one : cases)
        if (one.status != one.expected)
            w.fail(std::string(one.call) + " returned another status: " + ferry_status_name(one.status));
    w.expect(address == 0 && !host && !stream && !array, "a refused call returned an object");
}

} // namespace ferry::test
