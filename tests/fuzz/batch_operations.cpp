// Operations on batches, pieces and prepared batches. The copies of one batch are unordered, so they are drawn without
// overlap.
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

// Draws copies that write some buffers and read any of the others.
copies draw_batch(world &w, bool with_boxes, const std::function<bool(const buffer &)> &is_fit) {
    std::vector<buffer *> fit, written;
    for (const auto &one : w.buffers)
        if (is_fit(*one) && (with_boxes || !one->is_array())) fit.push_back(one.get());
    std::shuffle(fit.begin(), fit.end(), std::minstd_rand(static_cast<unsigned>(w.random.up_to(1u << 30))));
    written.assign(fit.begin(), fit.begin() + 1 + static_cast<std::ptrdiff_t>(w.random.up_to(2)));
    const std::vector<buffer *> read(fit.begin() + static_cast<std::ptrdiff_t>(written.size()), fit.end());
    std::vector<buffer *> linear;
    std::copy_if(read.begin(), read.end(), std::back_inserter(linear), [](buffer *one) { return !one->is_array(); });
    copies drawn;
    for (buffer *const to : written) {
        if (with_boxes && (to->is_array() || w.random.one_in(2))) {
            drawn_copy box;
            if (!draw_copy(w.random, *read[w.random.up_to(read.size() - 1)], *to, box)) continue;
            box.options = {};
            drawn.push_back(box);
        } else {
            const copies pieces = draw_pieces(w.random, linear, *to, w.random.one_in(6) ? 300 : 12);
            drawn.insert(drawn.end(), pieces.begin(), pieces.end());
        }
    }
    return drawn;
}

bool is_any(const buffer &) { return true; }

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
template <class Submit> bool is_submitted(world &w, const copies &all, const how &options, const Submit &submit) {
    ferry_error_info error = new_error();
    std::int32_t status = submit(options, error);
    if (status == FERRY_ERROR_LIMIT && may_exceed_limits(options)) status = submit(without_route(options), error);
    return went_well(w, status, error, all, options);
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

void run_on_a_stream(world &w, const char *name, bool with_boxes) {
    const copies all = draw_batch(w, with_boxes, is_any);
    const std::vector<effect> effects = effects_of(all);
    const how options = draw_options(w);
    ferry_instance *ferry = w.instance_for(effects);
    const bool is_promising = options == how() && ferry == w.run.other.get() && w.random.one_in(2);
    if (is_promising) ferry = w.run.promising.get();
    const how in_force = is_promising ? promises : options;
    const std::size_t lane = w.any_lane();
    const struct lane &on = w.lanes[lane];
    w.say(words_of(name, all) + "\n  on '" + on.name + "' of device " + std::to_string(on.device) + words_of(in_force));
    wait_for_early_reads(w, all, in_force);
    w.order(lane, effects);
    const CUcontext current = w.context_for(on);
    const std::vector<ferry_copy_desc> described = describe(all);
    const laid_out_pieces pieces = lay_out_pieces(w, all);
    ferry_ticket *made = nullptr, **const ticket = w.random.one_in(3) ? &made : nullptr;
    const auto submit = [&](const how &with, ferry_error_info &error) {
        return w.call(current, [&] {
            return with_boxes ? ferry_copy_batch_async(ferry, described.data(), described.size(), with, on.stream,
                                                       ticket, &error)
                              : ferry_copy_pieces_async(ferry, pieces, with, on.stream, ticket, &error);
        });
    };
    if (!is_submitted(w, all, options, submit)) return;
    w.enqueued(lane, effects);
    w.keep_ticket(made, lane, effects, bytes_of(effects), options);
    check_promise(w, lane, all, in_force);
}

void run_at_once(world &w, const char *name, bool with_boxes) {
    const copies all = draw_batch(w, with_boxes, is_any);
    const std::vector<effect> effects = effects_of(all);
    const how options = draw_options(w);
    w.say(words_of(name, all) + words_of(options));
    w.wait_for(effects);
    ferry_instance *const ferry = w.instance_for(effects);
    const CUcontext current = w.any_context();
    const std::vector<ferry_copy_desc> described = describe(all);
    const laid_out_pieces pieces = lay_out_pieces(w, all);
    const auto submit = [&](const how &with, ferry_error_info &error) {
        return w.call(current, [&] {
            return with_boxes ? ferry_copy_batch(ferry, described.data(), described.size(), with, &error)
                              : ferry_copy_pieces(ferry, pieces, with, &error);
        });
    };
    if (!is_submitted(w, all, options, submit)) return;
    w.done(effects);
    for (const effect &one : effects)
        w.compare(*destination_of(one), "right after a synchronous batch");
}

} // namespace

void batch_on_a_stream(world &w) { run_on_a_stream(w, "ferry_copy_batch_async", true); }
void batch_at_once(world &w) { run_at_once(w, "ferry_copy_batch", true); }
void pieces_on_a_stream(world &w) { run_on_a_stream(w, "ferry_copy_pieces_async", false); }
void pieces_at_once(world &w) { run_at_once(w, "ferry_copy_pieces", false); }

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
