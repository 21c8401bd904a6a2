// Operations on batches, pieces and prepared batches, with and without files. The copies of one batch are unordered, so
// they are drawn without overlap.
#include <algorithm>

#include "fuzz/operations.h"
#include "support/piece_lists.h"

namespace ferry::test {

namespace {

using copies = std::vector<drawn_copy>;

std::vector<effect> effects_of(const copies &all) { return {all.begin(), all.end()}; }

std::string words_of(const char *call, const copies &all) {
    std::string words = call;
    for (const drawn_copy &one : all)
        words += "\n    " + one.words();
    return words;
}

std::vector<ferry_copy_desc> describe(const copies &all) {
    std::vector<ferry_copy_desc> described;
    for (const drawn_copy &one : all)
        described.push_back(one.describe());
    return described;
}

laid_out_pieces lay_out_pieces(world &w, const copies &all) {
    std::vector<std::uint64_t> destinations, sources, sizes;
    for (const drawn_copy &one : all) {
        const ferry_copy_desc copy = one.describe();
        destinations.push_back(copy.destination.address);
        sources.push_back(copy.source.address);
        sizes.push_back(copy.width);
    }
    return {w.random.of(piece_layouts), destinations, sources, sizes};
}

// Adds copies to one buffer: a box from one of `read`, or pieces from linear ones.
void add_copies_to(world &w, buffer &to, const std::vector<buffer *> &read, bool with_boxes, copies &drawn) {
    std::vector<buffer *> linear;
    std::copy_if(read.begin(), read.end(), std::back_inserter(linear), [](buffer *one) { return !one->is_array(); });
    if (with_boxes && (to.is_array() || linear.empty() || w.random.one_in(2))) {
        drawn_copy box;
        if (!draw_copy(w.random, *read[w.random.up_to(read.size() - 1)], to, box)) return;
        box.options = {};
        drawn.push_back(box);
    } else {
        const copies pieces = draw_pieces(w.random, linear, to, w.random.one_in(6) ? 300 : 12);
        drawn.insert(drawn.end(), pieces.begin(), pieces.end());
    }
}

template <class Container> void shuffle(world &w, Container &all) {
    std::shuffle(all.begin(), all.end(), std::minstd_rand(static_cast<unsigned>(w.random.up_to(1u << 30))));
}

// Draws copies that write some buffers and read any of the others.
copies draw_batch(world &w, bool with_boxes, const std::function<bool(const buffer &)> &is_fit) {
    std::vector<buffer *> fit, written;
    for (const auto &one : w.buffers)
        if (is_fit(*one) && (with_boxes || !one->is_array())) fit.push_back(one.get());
    shuffle(w, fit);
    written.assign(fit.begin(), fit.begin() + 1 + static_cast<std::ptrdiff_t>(w.random.up_to(2)));
    const std::vector<buffer *> read(fit.begin() + static_cast<std::ptrdiff_t>(written.size()), fit.end());
    copies drawn;
    for (buffer *const to : written)
        add_copies_to(w, *to, read, with_boxes, drawn);
    return drawn;
}

bool is_any(const buffer &) { return true; }

// ---- Files

bool has_file(const drawn_copy &one) { return one.source.in->file() || one.destination.in->file(); }

// Draws copies of one range of a file to several buffers, which may be on several devices.
copies draw_reads_of_one_range(world &w, buffer &from, const std::vector<buffer *> &to) {
    std::uint64_t length = from.size();
    for (const buffer *const one : to)
        length = std::min(length, one->size());
    length = w.random.size(length);
    const view range = line_in(from, w.random.up_to(from.size() - length), length);
    copies drawn;
    for (buffer *const one : to)
        drawn.push_back({range, line_in(*one, w.random.up_to(one->size() - length), length), {length, 1, 1}});
    return drawn;
}

// Draws copies that read one file and may write the other, beside copies of memory. Only contiguous reads reach another
// device, so few batches have other copies there.
copies draw_batch_with_files(world &w, const lane &on) {
    std::vector<buffer *> rest;
    for (const auto &one : w.buffers)
        if (one->kind != memory_kind::managed) rest.push_back(one.get()); // no file is copied from or to it
    shuffle(w, rest);
    const auto take_if = [&](std::size_t most, const auto &is_fit) {
        std::vector<buffer *> taken;
        for (std::size_t i = rest.size(); i-- > 0 && taken.size() < most;)
            if (is_fit(*rest[i])) {
                taken.push_back(rest[i]);
                rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
            }
        return taken;
    };
    const bool is_anywhere = w.random.one_in(6);
    const auto take = [&](std::size_t most) {
        return take_if(
            most, [&](const buffer &one) { return is_anywhere || one.traits().is_on_host || one.device == on.device; });
    };
    copies drawn;
    const auto add = [&](const copies &more) { drawn.insert(drawn.end(), more.begin(), more.end()); };
    const std::size_t chosen = w.random.up_to(1);
    buffer &read = *w.files[chosen], &written = *w.files[1 - chosen];
    if (w.random.one_in(2))
        add(draw_reads_of_one_range(w, read, take_if(1 + w.random.up_to(3), [](const buffer &one) {
                                        return one.traits().place == FERRY_KIND_DEVICE;
                                    })));
    for (buffer *const to : take(w.random.up_to(2)))
        add_copies_to(w, *to, {&read}, true, drawn);
    if (w.random.one_in(2)) add_copies_to(w, written, take(3), true, drawn);
    if (rest.size() >= 5 && w.random.one_in(2))
        add(draw_batch(w, true,
                       [&](const buffer &one) { return std::find(rest.begin(), rest.end(), &one) != rest.end(); }));
    shuffle(w, drawn);
    return drawn;
}

// Draws pieces of one file for device memory of the lane's device.
copies draw_pieces_of_a_file(world &w, const lane &on) {
    std::vector<buffer *> fit;
    for (const auto &one : w.buffers)
        if (one->traits().place == FERRY_KIND_DEVICE && one->kind != memory_kind::managed && one->device == on.device &&
            is_filled_on(*one, on))
            fit.push_back(one.get());
    shuffle(w, fit);
    fit.resize(std::min<std::size_t>(fit.size(), 1 + w.random.up_to(2)));
    buffer &from = *w.random.among(w.files);
    copies drawn;
    for (buffer *const to : fit)
        add_copies_to(w, *to, {&from}, false, drawn);
    return drawn;
}

bool is_primary(world &w, const lane &on) { return on.context == w.contexts[static_cast<std::size_t>(1 + on.device)]; }

// Whether a copy of a file was refused because it cannot be staged: without kernels or staging, with options that exclude
// one of them, with memory that the context of the lane cannot access, and with host memory if streams cannot wait for it.
bool is_refused_file(world &w, std::int32_t status, const ferry_error_info &error, const copies &all, const lane &on,
                     const how &options) {
    if (status != FERRY_ERROR_ROUTE || error.index >= all.size() || !has_file(all[error.index])) return false;
    const drawn_copy &one = all[error.index];
    const buffer &memory = one.source.in->file() ? *one.destination.in : *one.source.in;
    const bool is_range = one.source.in->file() && !memory.is_array() && one.size.height * one.size.depth == 1 &&
                          one.source.at.x + one.source.at.y + one.source.at.z == 0 &&
                          one.destination.at.x + one.destination.at.y + one.destination.at.z == 0;
    const bool is_reached = is_primary(w, on) && (memory.device == on.device || is_range);
    const bool is_elsewhere = !memory.traits().is_on_host && !is_reached;
    const bool is_excluded = is_forced(options) || options.has(no_wait) ||
                             (options.has(no_kernels) && error.value == FERRY_OBSTACLE_FORBIDDEN); // of pieces
    const bool is_disabled = w.run.setting.staging == FERRY_STAGING_NONE || w.run.setting.kernels == FERRY_KERNELS_NONE;
    const bool lacks_waits = memory.traits().is_on_host && !raw().cuStreamBatchMemOp;
    if (!is_elsewhere && !is_excluded && !is_disabled && !lacks_waits)
        w.fail("a copy of a file was refused: " + describe_status(status, error));
    return true;
}

// Moves one source behind the end of its file, and returns the index of the copy, or `all.size()` if there is none.
std::size_t read_past_the_end(world &w, copies &all) {
    const std::size_t first = w.random.up_to(all.size());
    const auto found = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                                    [](auto &one) { return one.source.in->file() && one.size.total() != 0; });
    if (found != all.end()) found->source.offset += found->source.in->size();
    return static_cast<std::size_t>(found - all.begin());
}

void expect_past_the_end(world &w, std::int32_t status, const ferry_error_info &error, const copies &all,
                         const lane &on, std::size_t index) {
    if (is_refused_file(w, status, error, all, on, {})) return;
    if (status != FERRY_ERROR_OUT_OF_BOUNDS || error.status != status || error.index != index ||
        error.side != FERRY_SIDE_SOURCE || error.field != FERRY_FIELD_OFFSET)
        w.fail("copy " + std::to_string(index) + " was not refused as expected: " + describe_status(status, error));
}

// Draws options of a whole batch.
how draw_options(world &w) {
    static constexpr how usual[] = {{}, {}, check_overlap, ordinary, in_stream_order, urgent, no_kernels, by_driver};
    static constexpr how demanding[] = {by_kernel,
                                        by_staging,
                                        by_staging | no_kernels,
                                        by_staging | max_sms(1),
                                        urgent | max_sms(3),
                                        read_in_the_call,
                                        written_in_the_call,
                                        promises,
                                        promises | by_staging};
    const how drawn = w.random.one_in(3) ? w.random.of(demanding) : w.random.of(usual);
    return with_any_tag(w.random, may_forbid_waits(w, w.random.one_in(4) ? drawn | check_overlap : drawn));
}

bool went_well(world &w, std::int32_t status, const ferry_error_info &error, const copies &all, const how &options) {
    w.expect(error.status == status, "the status in the error info differs from the returned status");
    if (status == 0) return true;
    if (would_block(w, status, error, options)) return false;
    if (status == FERRY_ERROR_ROUTE && is_forced(options) && error.index < all.size()) return false;
    w.fail("a valid batch was refused: " + describe_status(status, error));
    return false;
}

how without_route(const how &options) {
    ferry_copy_options fields = options.fields();
    fields.route = FERRY_ROUTE_AUTO;
    return how(fields);
}

// Calls submit(options, error), and returns true for a success. After FERRY_ERROR_LIMIT some copies of the batch may
// have been enqueued. No copy reads memory that another copy writes, so the whole batch can be repeated without the
// forced route.
template <class Submit>
bool is_submitted(world &w, const copies &all, const lane &on, const how &options, const Submit &submit) {
    ferry_error_info error = new_error();
    std::int32_t status = submit(options, error);
    if (status == FERRY_ERROR_LIMIT && may_exceed_limits(options)) status = submit(without_route(options), error);
    return !is_refused_file(w, status, error, all, on, options) && went_well(w, status, error, all, options);
}

// A source that a call promises to read may be read before earlier work.
void wait_for_early_reads(world &w, const copies &all, const how &options) {
    if (options.has(read_in_the_call))
        for (const drawn_copy &one : all)
            w.wait_for(*one.source.in);
}

// Checks the guarantees of the options after the call has returned.
void check_promise(world &w, std::size_t lane, const copies &all, const how &options) {
    const int device = w.lanes[lane].device;
    const bool reuses = w.random.one_in(2);
    const auto is_promised = [&](const buffer &one, bool is_source) {
        return options.has(is_source ? read_in_the_call : written_in_the_call) && is_only_of(one, lane) &&
               std::all_of(all.begin(), all.end(), [&](const drawn_copy &each) {
                   const buffer &from = *each.source.in, &to = *each.destination.in;
                   if (&from != &one && &to != &one) return true;
                   return (is_source ? &from : &to) == &one && one.is_pageable_beside(is_source ? to : from, device);
               });
    };
    for (const drawn_copy &one : all) {
        if (is_promised(*one.destination.in, false))
            w.compare(*one.destination.in, "right after a batch that promises written destinations");
        if (reuses && is_promised(*one.source.in, true)) overwrite_source(one);
    }
}

struct batch_form {
    const char *call;
    bool has_boxes, has_files; // without boxes: pieces
};

// Calls with batches of one form. The lists outlive the calls.
class batch_calls {
public:
    batch_calls(world &w, const batch_form &form, const copies &all)
        : form_(form), described_(describe(all)), pieces_(lay_out_pieces(w, all)) {
        if (form.has_files && !all.empty()) pieces_.list.source_file = all.front().source.in->file();
    }
    std::int32_t run(ferry_instance *ferry, const how &options, ferry_error_info &error) const {
        return form_.has_boxes ? ferry_copy_batch(ferry, described_.data(), described_.size(), options, &error)
                               : ferry_copy_pieces(ferry, pieces_, options, &error);
    }
    std::int32_t run_async(ferry_instance *ferry, const how &options, CUstream_st *stream, ferry_ticket **ticket,
                           ferry_error_info &error) const {
        return form_.has_boxes ? ferry_copy_batch_async(ferry, described_.data(), described_.size(), options, stream,
                                                        ticket, &error)
                               : ferry_copy_pieces_async(ferry, pieces_, options, stream, ticket, &error);
    }

private:
    const batch_form form_;
    const std::vector<ferry_copy_desc> described_;
    laid_out_pieces pieces_;
};

// Pieces of a file are copied only to memory that the context of the lane can access.
std::size_t any_lane_for(world &w, const batch_form &form) {
    return w.any_lane([&](const lane &one) { return !form.has_files || form.has_boxes || is_primary(w, one); });
}

copies draw(world &w, const batch_form &form, const lane &on) {
    if (!form.has_files) return draw_batch(w, form.has_boxes, is_any);
    return form.has_boxes ? draw_batch_with_files(w, on) : draw_pieces_of_a_file(w, on);
}

void run_on_a_stream(world &w, const batch_form &form) {
    if (form.has_files && w.files.empty()) return;
    const std::size_t lane = any_lane_for(w, form);
    const struct lane &on = w.lanes[lane];
    copies all = draw(w, form, on);
    const std::size_t wrong = form.has_files && w.random.one_in(8) ? read_past_the_end(w, all) : all.size();
    const bool is_wrong = wrong < all.size();
    const std::vector<effect> effects = effects_of(all);
    const how options = is_wrong ? how() : draw_options(w);
    ferry_instance *ferry = w.instance_for(effects);
    const bool is_promising = options == how() && ferry == w.run.other.get() && w.random.one_in(2);
    if (is_promising) ferry = w.run.promising.get();
    const how in_force = is_promising ? promises : options;
    w.say(words_of(form.call, all) + "\n  on '" + on.name + "' of device " + std::to_string(on.device) +
          words_of(in_force));
    wait_for_early_reads(w, all, in_force);
    w.order(lane, effects);
    const CUcontext current = w.context_for(on);
    const batch_calls calls(w, form, all);
    ferry_ticket *made = nullptr, **const ticket = form.has_files || w.random.one_in(3) ? &made : nullptr;
    const auto submit = [&](const how &with, ferry_error_info &error) {
        return w.call(current, [&] { return calls.run_async(ferry, with, on.stream, ticket, error); });
    };
    if (is_wrong) {
        ferry_error_info error = new_error();
        return expect_past_the_end(w, submit(options, error), error, all, on, wrong);
    }
    if (!is_submitted(w, all, on, options, submit)) return;
    w.enqueued(lane, effects);
    w.keep_ticket(made, lane, effects, bytes_of(effects), options);
    check_promise(w, lane, all, in_force);
}

void run_at_once(world &w, const batch_form &form) {
    if (form.has_files && w.files.empty()) return;
    const struct lane &on = w.lanes[any_lane_for(w, form)];
    copies all = draw(w, form, on);
    const std::size_t wrong = form.has_files && w.random.one_in(8) ? read_past_the_end(w, all) : all.size();
    const bool is_wrong = wrong < all.size();
    const std::vector<effect> effects = effects_of(all);
    const how options = is_wrong ? how() : draw_options(w);
    w.say(words_of(form.call, all) + words_of(options));
    w.wait_for(effects);
    ferry_instance *const ferry = w.instance_for(effects);
    const CUcontext current = form.has_files ? on.context : w.any_context();
    const batch_calls calls(w, form, all);
    const auto submit = [&](const how &with, ferry_error_info &error) {
        return w.call(current, [&] { return calls.run(ferry, with, error); });
    };
    if (is_wrong) {
        ferry_error_info error = new_error();
        return expect_past_the_end(w, submit(options, error), error, all, on, wrong);
    }
    if (!is_submitted(w, all, on, options, submit)) return;
    w.done(effects);
    for (const effect &one : effects)
        w.compare(*destination_of(one), "right after a synchronous batch");
}

} // namespace

void batch_on_a_stream(world &w) { run_on_a_stream(w, {"ferry_copy_batch_async", true, false}); }
void batch_at_once(world &w) { run_at_once(w, {"ferry_copy_batch", true, false}); }
void pieces_on_a_stream(world &w) { run_on_a_stream(w, {"ferry_copy_pieces_async", false, false}); }
void pieces_at_once(world &w) { run_at_once(w, {"ferry_copy_pieces", false, false}); }
void batch_with_files_on_a_stream(world &w) { run_on_a_stream(w, {"ferry_copy_batch_async, files", true, true}); }
void batch_with_files_at_once(world &w) { run_at_once(w, {"ferry_copy_batch, files", true, true}); }
void pieces_of_a_file_on_a_stream(world &w) { run_on_a_stream(w, {"ferry_copy_pieces_async, a file", false, true}); }
void pieces_of_a_file_at_once(world &w) { run_at_once(w, {"ferry_copy_pieces, a file", false, true}); }

// ---- Prepared batches

void prepare_a_batch(world &w) {
    if (w.prepared.size() > 5) w.release_prepared(0);
    const bool is_updatable = w.random.one_in(2);
    // New addresses must be in the same allocation, which the device must be able to access.
    const auto is_reached = [](const buffer &one) { return !one.traits().is_pageable; };
    const copies all = is_updatable ? draw_batch(w, false, is_reached) : draw_batch(w, w.random.one_in(2), is_any);
    if (all.empty()) return;
    const how options = is_updatable ? updatable | draw_options(w) : draw_options(w);
    const auto is_piece = [](const view &end) { return !end.in->is_array() && end.at.x + end.at.y + end.at.z == 0; };
    const bool is_pieces =
        is_updatable || std::all_of(all.begin(), all.end(), [&](const drawn_copy &one) {
            return one.size.height * one.size.depth == 1 && is_piece(one.source) && is_piece(one.destination);
        });
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    w.say(words_of(is_updatable ? "ferry_prepared_create_pieces, updatable" : "ferry_prepared_create", all) +
          "\n  for '" + on.name + "' of device " + std::to_string(on.device) + words_of(options));
    const std::vector<ferry_copy_desc> described = describe(all);
    const laid_out_pieces pieces = lay_out_pieces(w, all);
    ferry_instance *const ferry = w.instance_for(effects_of(all));
    ferry_error_info error = new_error();
    ferry_prepared *made = nullptr;
    const std::int32_t status = w.call(w.context_for(on), [&] {
        return is_pieces ? ferry_prepared_create_pieces(ferry, pieces, options, on.stream, &made, &error)
                         : ferry_prepared_create(ferry, described.data(), described.size(), options, on.stream, &made,
                                                 &error);
    });
    if (went_well(w, status, error, all, options)) w.prepared.push_back({made, all, options, lane, is_updatable});
}

void launch_a_prepared_batch(world &w) {
    if (w.prepared.empty()) return;
    const held_prepared &held = w.random.among(w.prepared);
    const CUcontext context = w.lanes[held.lane].context;
    const std::size_t lane =
        held.is_updatable ? held.lane : w.any_lane([&](const struct lane &one) { return one.context == context; });
    const struct lane &on = w.lanes[lane];
    const how options = draw_options(w); // of which the launch reads only the tag and NO_WAIT
    w.say(words_of("ferry_prepared_launch", held.copies) + "\n  on '" + on.name + "' of device " +
          std::to_string(on.device) + words_of(held.options) + ", launched with" + words_of(options));
    const std::vector<effect> effects = effects_of(held.copies);
    for (std::uint64_t launches = 1 + w.random.up_to(2); launches; --launches) {
        wait_for_early_reads(w, held.copies, held.options);
        w.order(lane, effects);
        const CUcontext current = w.context_for(on);
        ferry_error_info error = new_error();
        // A later launch of this operation writes the same bytes again, so only the last launch has a ticket.
        ferry_ticket *made = nullptr, **const ticket = launches == 1 && w.random.one_in(2) ? &made : nullptr;
        std::int32_t status =
            w.call(current, [&] { return ferry_prepared_launch(held.handle, options, on.stream, ticket, &error); });
        if (status == FERRY_ERROR_LIMIT && may_exceed_limits(held.options)) {
            const std::vector<ferry_copy_desc> described = describe(held.copies);
            ferry_instance *const ferry = w.instance_for(effects);
            status = w.call(current, [&] {
                return ferry_copy_batch_async(ferry, described.data(), described.size(), without_route(held.options),
                                              on.stream, nullptr, &error);
            });
        }
        if (would_block(w, status, error, options == how() ? held.options : options)) return;
        if (!went_well(w, status, error, {}, held.options)) return;
        w.enqueued(lane, effects);
        w.keep_ticket(made, lane, effects, bytes_of(effects), options == how() ? held.options : options);
        check_promise(w, lane, held.copies, held.options);
    }
}

void set_addresses(world &w) {
    const auto found = std::find_if(w.prepared.begin(), w.prepared.end(), [](auto &one) { return one.is_updatable; });
    if (found == w.prepared.end()) return;
    copies moved = found->copies;
    for (drawn_copy &one : moved) {
        one.source.offset = w.random.up_to(one.source.in->size() - one.size.width);
        // Moves the destination by whole vectors, within the gap before the next piece.
        std::uint64_t end = one.destination.in->size();
        for (const drawn_copy &other : found->copies)
            if (other.destination.in == one.destination.in && other.destination.offset > one.destination.offset)
                end = std::min(end, other.destination.offset);
        one.destination.offset += w.random.up_to((end - one.destination.offset - one.size.width) / 16) * 16;
    }
    const struct lane &on = w.lanes[found->lane];
    w.say(words_of("ferry_prepared_set_addresses", moved) + "\n  on '" + on.name + "'");
    const laid_out_pieces pieces = lay_out_pieces(w, moved);
    ferry_error_info error = new_error();
    const std::int32_t status = w.call(
        w.context_for(on), [&] { return ferry_prepared_set_addresses(found->handle, pieces, on.stream, &error); });
    if (went_well(w, status, error, {}, found->options)) found->copies = moved;
}

void destroy_a_prepared_batch(world &w) {
    if (w.prepared.empty()) return;
    w.say("destroying a prepared batch");
    w.release_prepared(w.random.up_to(w.prepared.size() - 1));
}

} // namespace ferry::test
