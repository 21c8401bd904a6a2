// libFuzzer's target for descriptors: copies, batches, prepared batches, fills and options with arbitrary bytes.
// Addresses come from a table of small buffers or are outside any memory. A call that succeeds must change exactly the
// bytes that the descriptor describes. A call that is rejected must not change any bytes.
#include "driver/table.h"
#include "ferry/ferry_memory.h"
#include "ferry/ferry_software.h"
#include "fuzz/target.h"
#include "support/how.h"

#include <algorithm>
#include <iterator>

namespace ferry::fuzzing {
namespace {

constexpr std::uint64_t buffer_bytes = 4096, array_width = 64, array_height = 8, array_depth = 4;

struct buffer {
    std::int32_t kind, device;
    std::uint64_t address;
    CUarray_st *array;
    bool is_readable; // by the host
    std::uint8_t model[buffer_bytes];
};

struct table {
    ferry_instance *ferry = open_with(FERRY_CHECKS_FULL);
    PFN_cuMemcpy3D_v3020 copy_3d =
        reinterpret_cast<PFN_cuMemcpy3D_v3020>(ferry_instance_get_proc(ferry, "cuMemcpy3D", 12000));
    buffer buffers[8] = {};
    CUstream_st *streams[3] = {};
    CUctx_st *context = nullptr;

    table() {
        ferry_host_block pinned = {};
        pinned.struct_size = sizeof pinned;
        expect(ferry_host_alloc(ferry, buffer_bytes, nullptr, &pinned, nullptr) == 0, "cannot allocate pinned memory");
        buffers[0] = {FERRY_KIND_HOST, 0,    reinterpret_cast<std::uint64_t>(std::malloc(buffer_bytes)),
                      nullptr,         true, {}};
        buffers[1] = {FERRY_KIND_HOST, 0,    reinterpret_cast<std::uint64_t>(std::malloc(buffer_bytes)),
                      nullptr,         true, {}};
        buffers[2] = {FERRY_KIND_HOST, 0, reinterpret_cast<std::uint64_t>(pinned.address), nullptr, true, {}};
        for (int i = 3; i < 5; ++i) {
            buffers[i] = {FERRY_KIND_DEVICE, i - 3, 0, nullptr, false, {}};
            expect(ferry_device_alloc(ferry, i - 3, buffer_bytes, &buffers[i].address, nullptr) == 0,
                   "cannot allocate device memory");
            expect(ferry_stream_create(ferry, i - 3, FERRY_STREAM_NON_BLOCKING, 0, &streams[i - 3], nullptr) == 0,
                   "cannot create a stream");
        }
        buffers[5] = {FERRY_KIND_DEVICE, 0, 0, nullptr, true, {}};
        expect(ferry_managed_alloc(ferry, 0, buffer_bytes, &buffers[5].address, nullptr) == 0,
               "cannot allocate managed memory");
        ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_UINT16, 1,          FERRY_ARRAY_SURFACE,
                                 array_width, array_height,        array_depth};
        for (int i = 6; i < 8; ++i) {
            buffers[i] = {FERRY_KIND_ARRAY, 0, 0, nullptr, false, {}};
            expect(ferry_array_create(ferry, 0, &desc, &buffers[i].array, nullptr) == 0, "cannot create an array");
            desc.flags = FERRY_ARRAY_LAYERED;
        }
        expect(ferry_context_retain_primary(ferry, 0, &context, nullptr) == 0, "cannot retain a context");
        expect(ferry_context_push(ferry, 0, context, nullptr) == 0, "cannot make a context current");
        for (buffer &one : buffers)
            transfer(one, one.model, true);
    }
    // Copies through the driver itself.
    void transfer(const buffer &one, std::uint8_t *bytes, bool to_buffer) const {
        CUDA_MEMCPY3D call = {};
        call.WidthInBytes = call.srcPitch = call.dstPitch = one.array ? array_width * 2 : buffer_bytes;
        call.Height = call.srcHeight = call.dstHeight = one.array ? array_height : 1;
        call.Depth = one.array ? array_depth : 1;
        const CUmemorytype there = one.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
        call.srcMemoryType = to_buffer ? CU_MEMORYTYPE_HOST : there;
        call.dstMemoryType = to_buffer ? there : CU_MEMORYTYPE_HOST;
        call.srcHost = call.dstHost = bytes;
        (to_buffer ? call.dstDevice : call.srcDevice) = one.address;
        (to_buffer ? call.dstArray : call.srcArray) = one.array;
        expect(copy_3d(&call) == CUDA_SUCCESS && ferry_context_synchronize(ferry, 0, nullptr, nullptr) == 0,
               "a copy by the driver failed");
    }
    void compare(const buffer &one) const {
        std::uint8_t found[buffer_bytes];
        transfer(one, found, false);
        expect(std::memcmp(found, one.model, sizeof found) == 0, "a buffer differs from the model");
    }
};

// Draws mostly small numbers, and edge cases.
std::uint64_t number(input &from) {
    constexpr std::uint64_t edges[] = {
        0, 1, 2, 127, 128, 4095, 4096, 1u << 31, ~std::uint64_t{0}, std::uint64_t{1} << 63};
    switch (from.take<std::uint8_t>() % 8) {
    case 0:
        return from.of(edges);
    case 1:
        return from.take<std::uint64_t>();
    case 2:
        return from.take<std::uint16_t>();
    default:
        return from.take<std::uint8_t>();
    }
}

// Draws a place and returns its buffer, or null for an address without memory.
buffer *draw_place(input &from, table &all, ferry_place &place) {
    constexpr std::uint64_t nowhere[] = {0, 1, 4095, ~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 56};
    buffer *const one = from.one_in(12) ? nullptr : &from.of(all.buffers);
    if (one) {
        place.kind = one->kind;
        place.device = one->device;
        place.address = one->array ? 0 : one->address + from.up_to(64) * 16;
        place.array = one->array;
        if (from.one_in(3) && !one->array) place.kind = FERRY_KIND_ANY;
    } else {
        place.kind = from.take<std::int8_t>() % 6;
        if (place.kind == FERRY_KIND_ARRAY) place.kind = 7; // the handle of an array place must be valid
        place.device = from.take<std::int8_t>();
        place.address = from.of(nowhere);
    }
    if (from.one_in(6)) place.device = from.take<std::int8_t>();
    if (from.one_in(2)) {
        place.row_pitch = number(from);
        place.slice_height = number(from);
    }
    if (from.one_in(2)) {
        place.x = number(from);
        place.y = number(from);
        place.z = number(from);
    }
    if (from.one_in(24)) place.reserved[from.up_to(2)] = from.take<std::uint64_t>();
    // The file of a file place must be valid or null, and all other places must have none.
    if (from.one_in(24) && place.kind != FERRY_KIND_FILE)
        place.file = reinterpret_cast<ferry_file *>(from.take<std::uintptr_t>());
    return one;
}

struct drawn_copy {
    ferry_copy_desc desc = {};
    buffer *from = nullptr, *to = nullptr;
};

template <class Struct> Struct draw_struct(input &from) {
    Struct drawn = {};
    from.take_bytes(&drawn, sizeof drawn);
    if (!from.one_in(4)) drawn.struct_size = sizeof drawn;
    // The struct's size must not exceed the variable that ferry reads.
    if (drawn.struct_size > sizeof drawn) drawn.struct_size = sizeof drawn;
    return drawn;
}

// The options of a call: none, usual options, or any bytes.
class drawn_options {
public:
    explicit drawn_options(input &from) {
        using namespace test;
        static constexpr how usual[] = {urgent,        by_driver,        by_kernel,        by_staging,
                                        no_kernels,    in_stream_order,  read_in_the_call, written_in_the_call,
                                        check_overlap, ordinary | tag(1)};
        is_given_ = from.one_in(2);
        if (!is_given_) return;
        fields_ = from.of(usual).fields();
        if (!from.one_in(4)) return;
        // One field is any number, or all are any bytes.
        std::int32_t *const numbers[] = {&fields_.route, &fields_.priority, &fields_.source_order};
        if (from.one_in(4))
            fields_ = draw_struct<ferry_copy_options>(from);
        else if (from.one_in(3))
            fields_.flags = from.take<std::uint32_t>();
        else
            *from.of(numbers) = from.take<std::int8_t>();
    }
    operator const ferry_copy_options *() const { return is_given_ ? &fields_ : nullptr; }

private:
    ferry_copy_options fields_ = {};
    bool is_given_ = false;
};

// Waits for the work of a ticket, which may be null, and releases the ticket.
void end(ferry_ticket *ticket) {
    if (!ticket) return;
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    expect(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr) == 0 &&
               ferry_ticket_get_info(ticket, &info, nullptr) == 0 && info.done && info.bytes_done == info.bytes_total,
           "a ticket that was waited for is not done");
    expect(ferry_ticket_release(ticket, nullptr) == 0, "cannot release a ticket");
}

drawn_copy draw_copy(input &from, table &all) {
    drawn_copy drawn;
    drawn.from = draw_place(from, all, drawn.desc.source);
    drawn.to = draw_place(from, all, drawn.desc.destination);
    drawn.desc.width = number(from);
    drawn.desc.height = from.one_in(2) ? number(from) : 1;
    drawn.desc.depth = from.one_in(2) ? number(from) : 1;
    if (from.one_in(24)) drawn.desc.reserved[from.up_to(4)] = from.take<std::uint64_t>();
    return drawn;
}

// Finds the start of each row in its buffer, as the header defines it. `find` returns false if the box is not
// completely inside.
struct rows {
    std::uint64_t start = 0, pitch = 0, slice = 0;
    std::uint64_t first_byte = 0; // address of the first byte, for linear memory that is outside the buffer

    bool find(const buffer *one, const ferry_place &place, std::uint64_t width, std::uint64_t height,
              std::uint64_t depth) {
        using wide = unsigned __int128;
        if (!one) return false;
        const bool is_array = one->array;
        // With one row, any pitch is ignored, and with one slice, any slice height.
        const bool has_rows = height != 1 || depth != 1 || place.y || place.z;
        const wide row = !has_rows ? 0 : is_array ? array_width * 2 : place.row_pitch ? place.row_pitch : width;
        const bool has_slices = depth != 1 || place.z;
        const wide rows_each = !has_slices          ? 0
                               : is_array           ? array_height
                               : place.slice_height ? place.slice_height
                                                    : height;
        constexpr wide limit = std::uint64_t{1} << 32;
        if (row > limit || rows_each > limit || place.x > limit || place.y > limit || place.z > limit ||
            width > limit || height > limit || depth > limit)
            return false;
        const wide offset = is_array ? 0 : place.address - one->address;
        const wide first = offset + (place.z * rows_each + place.y) * row + place.x;
        const wide end = first + ((depth - 1) * rows_each + height - 1) * row + width;
        if (first >= buffer_bytes && !is_array) first_byte = static_cast<std::uint64_t>(one->address + first);
        if (end > buffer_bytes) return false;
        start = static_cast<std::uint64_t>(first);
        pitch = static_cast<std::uint64_t>(row);
        slice = static_cast<std::uint64_t>(rows_each * row);
        return true;
    }
    std::uint64_t at(std::uint64_t y, std::uint64_t z) const { return start + z * slice + y * pitch; }
};

// An origin may lead from one buffer into another. No check can detect that mistake.
bool leads_into_another(const table &all, const rows &where) {
    return std::any_of(std::begin(all.buffers), std::end(all.buffers), [&](const buffer &one) {
        return where.first_byte && !one.array && where.first_byte - one.address < buffer_bytes;
    });
}

struct located_copy {
    rows from, to;
    std::uint64_t width, height, depth;
    bool is_from_inside, is_to_inside, is_inside;

    explicit located_copy(const drawn_copy &drawn)
        : width(drawn.desc.width), height(drawn.desc.height ? drawn.desc.height : 1),
          depth(drawn.desc.depth ? drawn.desc.depth : 1),
          is_from_inside(from.find(drawn.from, drawn.desc.source, width, height, depth)),
          is_to_inside(to.find(drawn.to, drawn.desc.destination, width, height, depth)),
          is_inside(is_from_inside && is_to_inside) {}
    void apply(const drawn_copy &drawn) const {
        for (std::uint64_t z = 0; z < depth; ++z)
            for (std::uint64_t y = 0; y < height; ++y)
                std::memcpy(drawn.to->model + to.at(y, z), drawn.from->model + from.at(y, z), width);
    }
};

// ferry cannot check everything: the end of pageable host memory is unknown, and overlap is detected only for equal
// strides at both ends. A copy that escapes the checks is explained but not performed.
bool may_be_made(const drawn_copy &drawn, const table &all) {
    const located_copy located(drawn);
    if (leads_into_another(all, located.from) || leads_into_another(all, located.to)) return false;
    const bool has_equal_strides = (located.height == 1 || located.from.pitch == located.to.pitch) &&
                                   (located.depth == 1 || located.from.slice == located.to.slice);
    if (drawn.from == drawn.to && !has_equal_strides) return false;
    const auto is_checked = [](const buffer *one) { return one && !one->is_readable; };
    return located.is_inside || drawn.desc.width == 0 || (is_checked(drawn.from) && is_checked(drawn.to));
}

void check(const table &all, const drawn_copy &drawn, std::int32_t status, const ferry_error_info &error) {
    expect(error.status == known(status), "the status in the error info differs from the returned status");
    const located_copy located(drawn);
    if (status == 0 && drawn.desc.width) {
        expect(located.is_inside, "a copy out of bounds was accepted");
        located.apply(drawn);
    }
    for (const buffer *const one : {drawn.from, drawn.to})
        if (one) all.compare(*one);
}

void run_copy(input &from, table &all) {
    const drawn_copy drawn = draw_copy(from, all);
    const drawn_options options(from);
    CUstream_st *const stream = from.of(all.streams);
    ferry_explanation explanation = {};
    explanation.struct_size = sizeof explanation;
    ferry_error_info error = new_error();
    const std::int32_t explained = known(ferry_copy_explain(all.ferry, &drawn.desc, options, &explanation, &error));
    char line[80];
    ferry_explanation_format(&explanation, line, sizeof line);
    ferry_error_format(&error, line, sizeof line);
    known(ferry_copy_explain_async(all.ferry, &drawn.desc, options, stream, &explanation, &error));
    if (!may_be_made(drawn, all)) return;
    if (from.one_in(2)) {
        const std::int32_t status = ferry_copy(all.ferry, &drawn.desc, options, &error);
        expect(status == explained, "a copy returned another status than its explanation");
        check(all, drawn, status, error);
    } else {
        ferry_ticket *ticket = nullptr;
        const std::int32_t status =
            ferry_copy_async(all.ferry, &drawn.desc, options, stream, from.one_in(3) ? &ticket : nullptr, &error);
        end(ticket);
        expect(ferry_stream_synchronize(all.ferry, stream, nullptr) == 0, "the stream has failed");
        check(all, drawn, status, error);
    }
}

// Runs one drawn copy among empty copies.
void run_batch(input &from, table &all) {
    const drawn_copy drawn = draw_copy(from, all);
    if (!may_be_made(drawn, all)) return;
    ferry_copy_desc copies[4];
    for (ferry_copy_desc &one : copies) {
        one = drawn.desc;
        one.width = 0;
    }
    const std::uint64_t index = from.up_to(3);
    copies[index] = drawn.desc;
    const drawn_options options(from);
    CUstream_st *const stream = from.of(all.streams);
    ferry_error_info error = new_error();
    std::int32_t status = 0;
    ferry_ticket *made = nullptr, **const ticket = from.one_in(3) ? &made : nullptr;
    if (from.one_in(2)) {
        status = ferry_copy_batch_async(all.ferry, copies, 4, options, stream, ticket, &error);
    } else {
        ferry_prepared *prepared = nullptr;
        status = ferry_prepared_create(all.ferry, copies, 4, options, stream, &prepared, &error);
        expect((status == 0) == (prepared != nullptr),
               "preparing a batch must return either success and a batch, or an error");
        if (prepared) {
            status = ferry_prepared_launch(prepared, drawn_options(from), stream, ticket, &error);
            expect(ferry_prepared_destroy(prepared, nullptr) == 0, "cannot destroy a prepared batch");
        }
    }
    end(made);
    expect(ferry_stream_synchronize(all.ferry, stream, nullptr) == 0, "the stream has failed");
    check(all, drawn, status, error);
}

void run_fill(input &from, table &all) {
    ferry_fill_desc fill = {};
    buffer *const to = draw_place(from, all, fill.destination);
    fill.width = number(from);
    fill.height = from.one_in(2) ? number(from) : 1;
    fill.depth = from.one_in(2) ? number(from) : 1;
    from.take_bytes(fill.pattern, sizeof fill.pattern);
    constexpr std::uint32_t sizes[] = {1, 2, 4, 8, 16, 0, 3, 32};
    fill.pattern_size = from.of(sizes);
    if (from.one_in(24)) fill.reserved0 = from.take<std::uint32_t>();
    const drawn_options options(from);
    rows where;
    const std::uint64_t height = fill.height ? fill.height : 1, depth = fill.depth ? fill.depth : 1;
    const bool is_inside = where.find(to, fill.destination, fill.width, height, depth);
    if (!is_inside && fill.width && (!(to && !to->is_readable) || leads_into_another(all, where))) return;
    ferry_error_info error = new_error();
    const std::int32_t status = known(ferry_fill(all.ferry, &fill, options, &error));
    expect(error.status == status, "the status in the error info differs from the returned status");
    if (status == 0 && fill.width) {
        expect(is_inside, "a fill out of bounds was accepted");
        for (std::uint64_t z = 0; z < depth; ++z)
            for (std::uint64_t y = 0; y < height; ++y)
                for (std::uint64_t x = 0; x < fill.width; ++x)
                    to->model[where.at(y, z) + x] = fill.pattern[x % fill.pattern_size];
    }
    if (to) all.compare(*to);
}

void run_options(input &from, table &all) {
    ferry_error_info error = new_error();
    if (from.one_in(8)) {
        ferry_options options = draw_struct<ferry_options>(from);
        options.struct_size &= ~7u; // ferry would read a part of a pointer if the size ended inside it
        // Pointers are the program's responsibility, and the settings of the running driver stay unchanged.
        options.get_proc = nullptr;
        options.allocate = nullptr;
        options.deallocate = nullptr;
        options.log = nullptr;
        options.staging_cpus = nullptr;
        options.submit = nullptr;
        const ferry_copy_options copy_options = draw_struct<ferry_copy_options>(from);
        options.copy_options = from.one_in(2) ? &copy_options : nullptr;
        options.driver = FERRY_DRIVER_SOFTWARE;
        const ferry_software_options settings = draw_struct<ferry_software_options>(from);
        options.driver_options = from.one_in(2) ? &settings : nullptr;
        options.staging_bytes %= 1 << 20;
        options.staging_threads %= 4;
        ferry_instance *made = nullptr;
        expect((known(ferry_open(&options, &made, &error)) == 0) == (made != nullptr),
               "ferry_open must return either success and an instance, or an error");
        ferry_close(made);
    } else if (from.one_in(3)) {
        ferry_host_options options = draw_struct<ferry_host_options>(from);
        ferry_host_block block = {};
        block.struct_size = sizeof block;
        if (known(ferry_host_alloc(all.ferry, from.up_to(1 << 16), &options, &block, &error)) == 0)
            expect(ferry_host_free(all.ferry, block.address, nullptr) == 0, "cannot free host memory");
    } else if (from.one_in(2)) {
        ferry_array_desc desc = draw_struct<ferry_array_desc>(from);
        desc.width %= 4096;
        desc.height %= 128;
        desc.depth %= 32;
        CUarray_st *array = nullptr;
        if (known(ferry_array_create(all.ferry, from.take<std::int8_t>(), &desc, &array, nullptr)) == 0)
            expect(ferry_array_destroy(all.ferry, array, nullptr) == 0, "cannot destroy an array");
    } else {
        ferry_pinned_pool_options options = draw_struct<ferry_pinned_pool_options>(from);
        ferry_pinned_pool *pool = nullptr;
        if (known(ferry_pinned_pool_create(all.ferry, &options, &pool, &error)) == 0)
            expect(ferry_pinned_pool_destroy(pool, nullptr) == 0, "cannot destroy a pinned pool");
    }
}

} // namespace
} // namespace ferry::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace ferry::fuzzing;
    static table all;
    input from(data, size);
    constexpr void (*const runs[])(input &, table &) = {run_copy, run_copy, run_copy, run_batch, run_fill, run_options};
    from.of(runs)(from, all);
    return 0;
}
