// Operations that read and write files.
#include <algorithm>

#include "ferry/ferry_file.h"
#include "fuzz/operations.h"
#include "support/temporary_file.h"

namespace ferry::test {

namespace {

// A file that is open while the object lives. `file` is null if the instance stages with the program's threads.
struct opened_file {
    opened_file(world &w, ferry_instance *ferry, const bytes &contents, std::uint32_t flags) : on_disk(contents) {
        ferry_file_options options = {};
        options.struct_size = sizeof options;
        options.flags = flags;
        if (w.random.one_in(2)) options.direct = FERRY_FILE_DIRECT_ALWAYS;
        if (w.random.one_in(4) && (flags & FERRY_FILE_WRITE)) options.flags |= FERRY_FILE_SYNC;
        const std::string path = on_disk.path();
        std::int32_t status = ferry_file_open(ferry, path.c_str(), &options, &file, nullptr);
        if (status == FERRY_ERROR_UNSUPPORTED && options.direct != 0) { // by the file system
            options.direct = FERRY_FILE_DIRECT_AUTO;
            status = ferry_file_open(ferry, path.c_str(), &options, &file, nullptr);
        }
        if (status != FERRY_ERROR_UNSUPPORTED) w.require(status);
    }
    ~opened_file() { ferry_file_close(file); }
    opened_file(const opened_file &) = delete;

    temporary_file on_disk;
    ferry_file *file = nullptr;
};

bool may_be_copied(const buffer &one) {
    const bool is_of_device = one.traits().place == FERRY_KIND_DEVICE;
    return (is_of_device || one.traits().is_on_host) && one.kind != memory_kind::managed;
}

buffer &any_with_files(world &w) {
    for (;;)
        if (buffer &drawn = any_buffer(w); may_be_copied(drawn)) return drawn;
}

// Returns true for a success. A copy is refused if it cannot be staged: without kernels or staging, and in a context of
// another device.
bool went_well(world &w, std::int32_t status, const ferry_error_info &error) {
    w.expect(error.status == status, "the status in the error info differs from the returned status");
    if (status == FERRY_ERROR_ROUTE) return false;
    return w.require(status);
}

} // namespace

void read_a_file_on_a_stream(world &w) {
    buffer &to = any_with_files(w);
    const drawn_write drawn = draw_write(w.random, to);
    const std::uint64_t before = w.random.up_to(5000), after = w.random.up_to(100);
    const std::size_t lane = w.any_lane([&](const struct lane &one) { return is_filled_on(to, one); });
    const struct lane &on = w.lanes[lane];
    w.say("a file of " + std::to_string(before) + " B and more on '" + on.name + "' of device " +
          std::to_string(on.device) + ": " + drawn.words());
    bytes contents(before + drawn.data.size() + after);
    std::copy(drawn.data.begin(), drawn.data.end(), contents.begin() + static_cast<std::ptrdiff_t>(before));
    w.order(lane, {drawn});
    ferry_instance *const ferry = w.instance_for({drawn});
    const opened_file opened(w, ferry, contents, FERRY_FILE_READ);
    if (!opened.file) return;
    ferry_copy_desc copy = {};
    copy.destination = line_in(to, drawn.offset, drawn.data.size()).describe();
    ferry_place_file(&copy.source, opened.file, before);
    copy.width = drawn.data.size();
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    const how options = with_any_tag(w.random, {});
    const std::int32_t status =
        w.call(w.context_for(on), [&] { return ferry_copy_async(ferry, &copy, options, on.stream, &ticket, &error); });
    if (!went_well(w, status, error)) return;
    w.enqueued(lane, {drawn});
    w.keep_ticket(ticket, lane, {drawn}, drawn.data.size(), options);
}

void write_a_file(world &w) {
    buffer &from = any_with_files(w);
    const std::uint64_t size = w.random.size(std::min<std::uint64_t>(from.size(), 100'000)),
                        offset = w.random.up_to(from.size() - size), before = w.random.up_to(5000);
    w.say("writing " + std::to_string(size) + " B of a buffer to a file, from byte " + std::to_string(before) + " on");
    w.wait_for(from);
    ferry_instance *const ferry = w.instance_for({});
    const opened_file opened(w, ferry, bytes(w.random.up_to(6000)), FERRY_FILE_WRITE);
    if (!opened.file) return;
    ferry_copy_desc copy = {};
    copy.source = line_in(from, offset, size).describe();
    ferry_place_file(&copy.destination, opened.file, before);
    copy.width = size;
    ferry_error_info error = new_error();
    const std::int32_t status = w.call(w.any_context(), [&] { return ferry_copy(ferry, &copy, nullptr, &error); });
    if (!went_well(w, status, error)) return;
    const bytes written = opened.on_disk.read();
    w.expect(written.size() >= before + size &&
                 std::equal(from.model.begin() + static_cast<std::ptrdiff_t>(offset),
                            from.model.begin() + static_cast<std::ptrdiff_t>(offset + size),
                            written.begin() + static_cast<std::ptrdiff_t>(before)),
             "a file has other bytes than the buffer");
}

} // namespace ferry::test
