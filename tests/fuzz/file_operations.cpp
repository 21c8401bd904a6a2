// Operations that read, write and resize files.
#include <algorithm>
#include <optional>

#include "ferry/ferry_file.h"
#include "fuzz/limited_gate.h"
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
    if (status != 0) w.fail("a valid copy of a file was refused: " + describe_status(status, error));
    return status == 0;
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
    w.say("writing " + std::to_string(size) + " B of " + from.name() + " from byte " + std::to_string(offset) +
          " on to a file, from byte " + std::to_string(before) + " on");
    w.wait_for(from);
    ferry_instance *const ferry = w.instance_for(from);
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

// ---- Sizes

// Resizes a file of batches, between its copies. Bytes that the file gains are 0. Later operations copy from and to the
// whole file.
void resize_a_file(world &w) {
    if (w.files.empty()) return;
    constexpr std::uint64_t sizes[] = {1 << 10, 100 << 10, 600'000, 3 << 20};
    buffer &file = *w.random.among(w.files);
    const std::uint64_t before = file.size(), after = 64 + w.random.size(w.random.of(sizes));
    w.say("resizing " + file.name() + " to " + std::to_string(after) + " B");
    w.wait_for(file);
    w.compare(file, "before it is resized");
    file.on_disk().resize(after);
    file.model.resize(after);
    w.compare(file, "after it was resized");
    ferry_file_info info = {};
    info.struct_size = sizeof info;
    w.require(ferry_file_get_info(file.file(), &info, nullptr));
    w.expect(info.size == after, "ferry_file_get_info reports another size");

    // A read that ends behind the new end, and within the old end if the file has become shorter.
    buffer &to = any_with_files(w);
    const std::uint64_t end = after + 1 + w.random.up_to(before > after ? before - after - 1 : 5000),
                        width = 1 + w.random.up_to(std::min(to.size(), end) - 1), offset = end - width;
    ferry_copy_desc copy = {};
    copy.destination = line_in(to, 0, width).describe();
    ferry_place_file(&copy.source, file.file(), offset);
    copy.width = width;
    ferry_error_info error = new_error();
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_copy(w.run.ferry.get(), &copy, nullptr, &error); });
    w.expect(status == FERRY_ERROR_OUT_OF_BOUNDS && error.side == FERRY_SIDE_SOURCE &&
                 error.field == FERRY_FIELD_OFFSET && error.value == end && error.limit == after,
             "a read past the new end was not refused as expected");
}

namespace {

enum class size_change { shorter, shorter_and_longer, longer };

struct resized_read {
    drawn_write to;
    std::uint64_t offset; // in the file
    std::uint64_t end() const { return offset + to.data.size(); }
};

// One copy, a batch, or pieces: all copy contiguous ranges of one file, which is resized while they are in flight.
struct resized_reads {
    std::vector<resized_read> all;
    std::uint64_t size = 0; // of the file
    size_change change = size_change::shorter;
    std::uint64_t cut = 0; // the size of the shorter file

    bool loses_bytes(const resized_read &one) const { return change != size_change::longer && one.end() > cut; }
    bool is_missing(const resized_read &one) const { return change == size_change::shorter && one.end() > cut; }
    bool are_any_lost() const {
        return std::any_of(all.begin(), all.end(), [&](const resized_read &one) { return loses_bytes(one); });
    }
    bool are_any_missing() const {
        return std::any_of(all.begin(), all.end(), [&](const resized_read &one) { return is_missing(one); });
    }
    std::vector<effect> effects() const {
        std::vector<effect> found;
        for (const resized_read &one : all)
            found.emplace_back(one.to);
        return found;
    }
    bytes contents() const {
        bytes whole(size);
        for (const resized_read &one : all)
            std::copy(one.to.data.begin(), one.to.data.end(), whole.begin() + static_cast<std::ptrdiff_t>(one.offset));
        return whole;
    }
};

resized_reads draw_resized_reads(world &w, const lane &on, std::uint64_t most) {
    std::vector<buffer *> fit;
    for (const auto &one : w.buffers) // only the instance that has registered a part of memory knows that part
        if (may_be_copied(*one) && one->kind != memory_kind::registered_in_part && is_filled_on(*one, on))
            fit.push_back(one.get());
    resized_reads drawn;
    for (std::uint64_t count = 1 + w.random.up_to(most - 1); count && !fit.empty(); --count) {
        const std::size_t chosen = w.random.up_to(fit.size() - 1);
        buffer &to = *fit[chosen];
        fit.erase(fit.begin() + static_cast<std::ptrdiff_t>(chosen));
        const std::uint64_t length = w.random.size(to.size()), gap = w.random.up_to(w.random.one_in(2) ? 0 : 5000);
        drawn.all.push_back(
            {{&to, w.random.up_to(to.size() - length), random_bytes(length, w.random.any())}, drawn.size + gap});
        drawn.size += gap + length;
    }
    drawn.size += w.random.up_to(100);
    constexpr size_change changes[] = {size_change::shorter, size_change::shorter, size_change::shorter_and_longer,
                                       size_change::longer};
    drawn.change = w.random.of(changes);
    drawn.cut = w.random.up_to(drawn.size);
    return drawn;
}

enum class call_form { copy, batch, pieces };

std::int32_t enqueue(ferry_instance *ferry, const resized_reads &reads, ferry_file *file, call_form form,
                     const how &options, CUstream_st *stream, ferry_ticket **ticket, ferry_error_info *error) {
    std::vector<ferry_copy_desc> copies;
    std::vector<ferry_piece> pieces;
    for (const resized_read &one : reads.all) {
        const std::uint64_t width = one.to.data.size();
        ferry_copy_desc copy = {};
        copy.destination = line_in(*one.to.to, one.to.offset, width).describe();
        ferry_place_file(&copy.source, file, one.offset);
        copy.width = width;
        copies.push_back(copy);
        pieces.push_back({copy.destination.address, one.offset, width});
    }
    if (form == call_form::copy) return ferry_copy_async(ferry, copies.data(), options, stream, ticket, error);
    if (form == call_form::batch)
        return ferry_copy_batch_async(ferry, copies.data(), copies.size(), options, stream, ticket, error);
    ferry_piece_list list;
    ferry_piece_list_set(&list, pieces.data(), pieces.size());
    list.source_file = file;
    return ferry_copy_pieces_async(ferry, &list, options, stream, ticket, error);
}

// Waits for the ticket, which must report that the file has ended, or that all bytes were copied. Returns whether the
// copy has failed.
bool wait_for_reads(world &w, const resized_reads &reads, call_form form, const how &options, ferry_ticket *ticket) {
    ferry_error_info error = new_error();
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    const std::int32_t status =
        w.call(w.any_context(), [&] { return ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error); });
    w.require(ferry_ticket_get_info(ticket, &info, nullptr));
    w.require(ferry_ticket_release(ticket, nullptr));
    const std::uint64_t bytes = bytes_of(reads.effects());
    w.expect(info.done && info.status == status && info.tag == options.fields().tag && info.bytes_total == bytes,
             "the ticket reports a wrong state");
    if (status != FERRY_ERROR_FILE) {
        w.expect(info.bytes_done == bytes || status, "not all bytes of a complete copy were copied");
        return !w.require(status);
    }
    const auto index = static_cast<std::size_t>(info.file_index);
    w.expect(info.file_error == FERRY_FILE_ENDED && info.file_offset >= reads.cut && index < reads.all.size() &&
                 reads.loses_bytes(reads.all[index]) && info.file_offset < reads.all[index].end(),
             "the ticket names a byte or a copy whose bytes the file has");
    w.expect(static_cast<std::int64_t>(error.value) == FERRY_FILE_ENDED && error.limit == info.file_offset &&
                 (form == call_form::copy || error.index == index),
             "the error of the wait differs from the ticket");
    return true;
}

// The models take over the bytes of the copies. After a failure, all of these bytes are undefined. Otherwise the bytes
// behind the cut may be 0.
void take_over(world &w, const resized_reads &reads, bool has_failed) {
    std::vector<effect> found;
    for (const resized_read &one : reads.all) {
        const bytes now = w.read(*one.to.to);
        drawn_write arrived = one.to;
        for (std::size_t i = 0; i < arrived.data.size(); ++i) {
            const std::byte byte = now[one.to.offset + i];
            const bool may_be_zero = reads.loses_bytes(one) && one.offset + i >= reads.cut;
            if (!has_failed && byte != arrived.data[i] && (!may_be_zero || byte != std::byte{}))
                return w.fail("byte " + std::to_string(i) + " of a copy to " + one.to.to->name() +
                              " is not a byte of the file");
            arrived.data[i] = byte;
        }
        found.emplace_back(arrived);
    }
    w.done(found);
    for (const effect &one : found)
        w.compare(*destination_of(one), "beside the bytes that were read from a resized file");
}

std::uint64_t failed_files(world &w, ferry_instance *ferry) {
    ferry_staging_info info = {};
    info.struct_size = sizeof info;
    w.require(ferry_staging_get_info(ferry, &info, nullptr));
    return info.failed_files;
}

} // namespace

// Resizes a file while copies that read it are in flight. If a gate blocks their stream meanwhile, the result is certain.
void resize_a_file_during_a_copy(world &w) {
    static constexpr call_form forms[] = {call_form::copy, call_form::batch, call_form::pieces};
    const std::size_t lane = w.any_lane([](const struct lane &one) { return !one.is_default; });
    const struct lane &on = w.lanes[lane];
    const call_form form = w.random.of(forms);
    resized_reads reads = draw_resized_reads(w, on, form == call_form::copy ? 1 : 4);
    const bool is_held = w.random.one_in(2), is_released = is_held && w.random.one_in(4);
    const how options = with_any_tag(w.random, {});
    std::string words = std::string("resizing a file during ") + (is_held ? "held " : "") + "reads on '" + on.name +
                        "' of device " + std::to_string(on.device) + ", cut at " + std::to_string(reads.cut);
    for (const resized_read &one : reads.all)
        words += "\n    " + std::to_string(one.to.data.size()) + " B from " + std::to_string(one.offset) + " to " +
                 one.to.to->name() + " at " + std::to_string(one.to.offset);
    w.say(words);
    ferry_instance *const ferry = w.run.other.get(); // the trace of the first instance must report no failure
    const opened_file opened(w, ferry, reads.contents(), FERRY_FILE_READ);
    if (!opened.file) return;
    // Staging is prepared first, because a first copy may wait.
    const std::int32_t prepared = w.call(on.context, [&] { return ferry_staging_prepare(ferry, on.device, nullptr); });
    w.expect(prepared == 0 || prepared == FERRY_ERROR_UNSUPPORTED, "ferry_staging_prepare failed");
    const std::uint64_t failed_before = failed_files(w, ferry);
    const std::vector<effect> effects = reads.effects();
    w.order(lane, effects);
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    std::optional<limited_gate> gate;
    if (is_held) gate.emplace(on);
    const std::int32_t status = w.call(
        w.any_context(), [&] { return enqueue(ferry, reads, opened.file, form, options, on.stream, &ticket, &error); });
    w.expect(!gate || !gate->has_timed_out(), "a copy of a file waited for its stream");
    if (is_released) w.require(ferry_ticket_release(ticket, nullptr));
    if (reads.change != size_change::longer) opened.on_disk.resize(reads.cut);
    if (reads.change != size_change::shorter) opened.on_disk.resize(reads.size + 10'000);
    gate.reset();
    if (!went_well(w, status, error)) return;
    bool has_failed = is_held && reads.are_any_missing();
    if (!is_released) {
        const bool must_fail = has_failed;
        has_failed = wait_for_reads(w, reads, form, options, ticket);
        w.expect(!is_held || has_failed == must_fail, "a copy of a file has another result than its bytes");
        w.expect(!has_failed || reads.are_any_lost(), "a copy whose bytes the file has had failed");
    }
    w.synchronize(lane);
    w.expect((failed_files(w, ferry) != failed_before) == has_failed, "failed_files differs from the tickets");
    if (is_held && reads.change == size_change::shorter_and_longer)
        for (resized_read &one : reads.all)
            for (std::size_t i = 0; i < one.to.data.size(); ++i)
                if (one.offset + i >= reads.cut) one.to.data[i] = {};
    take_over(w, reads, has_failed);
}

} // namespace ferry::test
