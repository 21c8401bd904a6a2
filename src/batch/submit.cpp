// The third step of a batch: submits it. The parts that the driver may still refuse go first.
#include <algorithm>
#include <iterator>

#include "batch/pageable.h"
#include "batch/request.h"
#include "device/capture_mode.h"
#include "device/tracked_contexts.h"
#include "driver/result.h"
#include "exec/kernel_box_launcher.h"
#include "submit/copy_steps.h"
#include "submit/instance.h"

namespace ferry {

shape shape_of(const batch_piece &piece, const known_ranges &ranges) noexcept {
    const auto end_of = [&](std::uint64_t address, std::uint32_t range) noexcept {
        shape_end end = {};
        end.kind = ranges[range].kind;
        end.device = ranges[range].device;
        end.span = {address, address + (piece.size - 1)};
        end.row_pitch = piece.size;
        end.slice_height = 1;
        return end;
    };
    return {end_of(piece.source, piece.from), end_of(piece.destination, piece.to), piece.size, 1, 1};
}

namespace {

// Outside of graphs, ferry takes any copy whose route is not forced. Only the driver may refuse it.
bool may_be_refused(const copy_preferences &wanted) noexcept { return wanted.forced > route_kind::driver; }

constexpr error too_large = {.status = FERRY_ERROR_OVERFLOW}; // more bytes than any memory holds

[[gnu::always_inline]] inline bool pack(const known_ranges &ranges, const batch_piece &piece,
                                        piece_packer &packed) noexcept {
    return packed.add(piece.destination + ranges[piece.to].alias, piece.source + ranges[piece.from].alias, piece.size);
}

} // namespace

error free_table(ferry_instance &instance, CUstream stream, void *table) noexcept {
    if (!instance.tables.free_on(stream, table)) return {};
    const relaxed_capture_mode relaxed(instance.cu); // a wait would break a capture on another thread
    const error failed = relaxed.entered() ? to_error(instance.cu.cuStreamSynchronize(stream)) : relaxed.why();
    const bool is_over = !failed || (means_dead_context(failed.status) && current_context_has_died(instance.cu));
    if (is_over) instance.tables.free(table); // else the block is leaked: kernels may still read it
    return failed;
}

std::uint64_t records_of(const group_facts &group) noexcept {
    return group.count + group.bytes / piece_packer::largest_record;
}

bool pack_group(const batch_request &request, int group, piece_packer &packed) noexcept {
    for (const batch_piece *piece = request.pieces.begin(group); piece != request.pieces.end(group); ++piece)
        if (!pack(request.ranges, *piece, packed)) return false;
    return true;
}

namespace {

class batch_submitter {
public:
    batch_submitter(ferry_instance &instance, const batch_request &request, copy_form form, const launch_site &site,
                    shape &refused) noexcept
        : instance_(instance), request_(request), form_(form), site_(site), stream_(site.stream), refused_(refused),
          takes_batches_(takes_batch_calls(site.stream, site.is_captured)),
          is_at_home_(site.context == request.context.wanted) {
        refused_.width = 0;
    }

    // Finds a copy that ferry refuses, before anything is enqueued.
    error check() noexcept {
        if (error failed = look_at_pageable()) return failed;
        const auto try_one = [&](const single_call &one) noexcept {
            const error failed = site_.is_captured || may_be_refused(one.preferences) ? try_call(one) : ok;
            if (failed) refused_ = one.shape;
            return failed;
        };
        if (error failed = for_each_call(try_one)) return failed;
        return site_.is_captured ? try_own() : ok;
    }

    error run() noexcept {
        if (error failed = check()) return failed;
        const auto call_one = [&](const single_call &one) noexcept { return call(one); };
        if (error failed = for_each_call(call_one)) return failed;
        if (error failed = run_boxes()) return failed;
        std::size_t first_line = 0;
        for (int group = 0; group < piece_groups; ++group) {
            const std::size_t count = request_.pieces.facts(group).count;
            if (count == 0) continue;
            error failed;
            if (way_of(group) == batch_route::batch_call) {
                failed = run_lines(group, first_line);
                first_line += count;
            } else if (way_of(group) == batch_route::kernel) {
                failed = noted(run_kernel(group), route_kind::kernel);
            }
            if (failed) return failed;
        }
        return run_staged();
    }

    error explain(ferry_batch_explanation &found) noexcept {
        if (error failed = check()) return failed;
        for (int group = 0; group < piece_groups; ++group) {
            const batch_plan &plan = request_.plans[group];
            const group_facts &of = request_.pieces.facts(group);
            const batch_route way = way_of(group);
            if (of.count == 0 || plan.way == batch_route::staged) continue;
            ferry_batch_share &share = way == batch_route::kernel       ? found.kernels
                                       : way == batch_route::batch_call ? found.batch_calls
                                                                        : found.singles;
            add(share, of.count, of.bytes, way == plan.way ? plan.predicted_ns : 0);
            if (way == batch_route::kernel) found.max_sms = std::max<std::uint32_t>(found.max_sms, plan.blocks);
        }
        for (const batch_box &box : request_.boxes) {
            if (box.way == box_route::staged || (box.way == box_route::kernel && !is_called(box))) continue;
            const bool is_in_batch = box.way == box_route::batch_call && !is_called(box);
            add(is_in_batch ? found.batch_calls : found.singles, 1, box.bytes(), 0);
        }
        for (const auto &launches : request_.box_launches)
            for (const box_launch &launch : launches) {
                if (launch.count == 0 || !is_at_home_) continue;
                add(found.kernels, launch.count, launch.bytes, launch.predicted_ns);
                found.max_sms = std::max<std::uint32_t>(found.max_sms, launch.blocks);
            }
        for (int i = 0; i < 2; ++i) {
            const pageable_copies &of = request_.pageable[i];
            if (of.pieces.size() == 0) continue;
            const pageable_forecast expected = predict_pageable(instance_, of, request_, site_);
            const std::uint32_t blocks = blocks_for_threads(instance_.staging_threads, of.to_device);
            const copy_preferences wanted = preferences_of(instance_.copy_flags);
            if (are_staged_[i]) {
                const bool helps = wanted.is_awaited(of.to_device);
                const staging_engine::delays late = instance_.staging.delays_on(request_.context_device);
                add(found.staged, of.pieces.size(), of.bytes, expected.staged_ns);
                const std::uint32_t limit = wanted.max_blocks ? wanted.max_blocks : blocks;
                found.max_sms = std::max(found.max_sms, std::min(limit, blocks));
                found.threads = std::max(found.threads, instance_.staging_threads + (helps ? 1u : 0u));
                found.staging_delay_ns =
                    std::max(found.staging_delay_ns, late.start_ns + (helps ? 0 : late.threads_ns));
            } else
                add(found.singles, count_together(i), of.bytes, expected.calls_ns);
        }
        for (ferry_batch_share *const share : {&found.singles, &found.batch_calls, &found.kernels, &found.staged})
            if (share->predicted_ns == unknown) share->predicted_ns = 0;
        return {};
    }

private:
    // For the program's trace.
    error noted(const error &failed, route_kind route) const noexcept {
        if (instance_.trace && !failed) instance_.trace.note(route, site_.context);
        return failed;
    }

    // The copies of request_.pageable[of], where each box counts once.
    std::uint64_t count_together(int of) const noexcept {
        const auto group = of == 0 ? piece_group::pageable_up : piece_group::pageable_down;
        std::uint64_t count = request_.pieces.facts(static_cast<int>(group)).count;
        for (const batch_box &box : request_.boxes)
            count += box.way == box_route::staged && box.group == group;
        return count;
    }

    // A time of 0 is not known, and so is any sum with it.
    static constexpr std::uint64_t unknown = UINT64_MAX;
    static void add(ferry_batch_share &to, std::uint64_t copies, std::uint64_t bytes, std::uint64_t ns) noexcept {
        to.copies += copies;
        to.bytes += bytes;
        to.predicted_ns = ns == 0 || to.predicted_ns == unknown ? unknown : to.predicted_ns + ns;
    }

    batch_route way_of(int group) const noexcept {
        const batch_route planned = request_.plans[group].way;
        const bool is_served = planned == batch_route::kernel   ? is_at_home_
                               : planned == batch_route::staged ? are_staged(static_cast<piece_group>(group))
                                                                : takes_batches_;
        return is_served ? planned : batch_route::calls;
    }
    bool are_staged(piece_group group) const noexcept { return are_staged_[group == piece_group::pageable_down]; }

    bool is_called(const batch_box &box) const noexcept {
        if (box.way == box_route::call) return true;
        if (box.way == box_route::batch_call) return !takes_batches_;
        if (box.way == box_route::staged) return !are_staged(box.group);
        const bool is_planned_so = box.way == box_route::own && box.plan.route == route_kind::driver;
        // A prepared batch was planned for a stream that is not captured.
        const bool leaves_graph = site_.is_captured && box.way == box_route::own && needs_streams_of_ferry(box.plan);
        return is_planned_so || leaves_graph || !is_at_home_;
    }
    static bool needs_streams_of_ferry(const copy_plan &plan) noexcept { return plan.route >= route_kind::relayed; }
    bool is_own_kernel(const batch_box &box) const noexcept { return box.way == box_route::own && !is_called(box); }

    error try_own() noexcept {
        for (const batch_box &box : request_.boxes)
            if (is_own_kernel(box))
                if (error failed =
                        check_capture(instance_, {box.shape, facts(), box.plan, request_.own_views[box.to]}, site())) {
                    refused_ = box.shape;
                    return failed;
                }
        return {};
    }

    // Uses the views that were looked up when the box was planned.
    error run_own(const batch_box &box) noexcept {
        plan_facts facts = this->facts();
        facts.preferences = box.preferences;
        return run_call({box.shape, facts, box.plan, request_.own_views[box.to]});
    }

    // A copy of the batch that takes a call of its own.
    struct single_call {
        ferry::shape shape;
        copy_preferences preferences;
        known_ends known;
    };

    // The ranges are known for the request's own context only. A box with a plan of its own keeps its views there.
    static single_call call_of(const batch_box &box) noexcept {
        if (box.way == box_route::own) return {box.shape, box.preferences, {}};
        return {box.shape, box.preferences, {box.to, box.from}};
    }

    // Calls `action` for each copy that takes a call of its own.
    template <class Action> error for_each_call(const Action &action) noexcept {
        for (const batch_box &box : request_.boxes)
            if (is_called(box))
                if (error failed = action(call_of(box))) return failed;
        for (int group = 0; group < piece_groups; ++group)
            if (way_of(group) == batch_route::calls)
                if (error failed = for_each_piece(group, action)) return failed;
        return {};
    }

    template <class Action> error for_each_piece(int group, const Action &action) noexcept {
        const copy_preferences preferences = preferences_of(instance_.copy_flags);
        for (const batch_piece *piece = request_.pieces.begin(group); piece != request_.pieces.end(group); ++piece)
            if (error failed = action({shape_of(*piece, request_.ranges), preferences, {piece->to, piece->from}}))
                return failed;
        return {};
    }

    plan_facts facts() const noexcept {
        return {.context_device = request_.context_device, .form = form_, .is_captured = site_.is_captured};
    }
    copy_site site() const noexcept { return {site_.context, stream_}; }

    // Checks whether ferry refuses the copy, or a graph does.
    error try_call(single_call one) noexcept {
        plan_facts facts = this->facts();
        copy_plan plan;
        kernel_views views;
        if (error failed = plan_call(one, facts, views, plan)) return failed;
        return check_capture(instance_, {one.shape, facts, plan, views}, site());
    }

    error call(single_call one) noexcept {
        plan_facts facts = this->facts();
        copy_plan plan;
        kernel_views views;
        if (error failed = plan_call(one, facts, views, plan)) return failed;
        const error failed = run_call({one.shape, facts, plan, views});
        // From here on the stream's earlier work is complete. Later work belongs to this batch, whose copies have no
        // order among themselves.
        is_earlier_work_done_ |= facts.is_stream_idle || (!failed && plan.wait_before);
        return failed;
    }

    // Where the program's threads do the work, the one that waits for the batch helps.
    error run_call(const planned_copy &call) noexcept {
        const bool is_helped = site_.is_waited_for && instance_.report.program_threads && !site_.is_captured;
        if (!is_helped) return run_planned(instance_, call, site());
        return for_each_planned_call(instance_, call, site(),
                                     [&](const planned_copy &part) noexcept { return run_helped(part); });
    }
    error run_helped(const planned_copy &part) noexcept {
        if (part.plan.route != route_kind::staged) return run_planned(instance_, part, site());
        staged_progress progress;
        error failed = run_planned(instance_, part, site(), &progress);
        const error helped = instance_.staging.help(progress); // nobody writes to it any more when this is over
        if (lacks_memory(failed) && part.facts.preferences.forced == route_kind::none)
            failed = run_planned(instance_,
                                 {part.shape, part.facts, plan_for_driver(part.shape, part.facts), part.views}, site());
        return failed ? failed : helped;
    }

    // A copy that was planned as a driver call stays one, except for pageable memory.
    error plan_call(single_call &one, plan_facts &facts, kernel_views &views, copy_plan &plan) noexcept {
        if (leaves_device(one.shape, facts.context_device))
            if (error failed = look_up_pool_ends(instance_, facts.context_device, one.shape)) return failed;
        facts.preferences = one.preferences;
        if (is_pageable(one.shape) || has_far_end(one.shape)) return choose_for_pageable(one, facts, views, plan);
        plan = plan_for_driver(one.shape, facts);
        if (!may_be_relayed(one.shape, facts))
            return one.preferences.forced == route_kind::relayed ? refuse_route(obstacle::not_between_devices) : ok;
        resolved_ends ends;
        return choose(instance_, one.shape, ends, site_.context, facts, views, plan);
    }

    // Chooses as for a single copy. If the call waits for the whole batch, the copy is staged only where that is
    // faster.
    error choose_for_pageable(const single_call &one, plan_facts &facts, kernel_views &views,
                              copy_plan &plan) noexcept {
        const shape &shape = one.shape;
        // The driver writes pageable memory inside its call, so there the copies of this batch count as well.
        facts.is_source_final = is_earlier_work_done_;
        if (!is_earlier_work_done_ || shape.destination.kind == memory_kind::pageable)
            if (error failed = look_at_stream(instance_, shape, stream_, facts)) return failed;
        if (site_.is_waited_for) facts.form = copy_form::synchronous;
        resolved_ends ends;
        if (is_at_home_) know_ends(request_, shape, one.known, ends);
        const error failed = choose(instance_, shape, ends, site_.context, facts, views, plan);
        facts.form = form_;
        // Plan the driver call again for the form it is submitted in: on a stream the call waits before it reads the
        // source.
        if (plan.route == route_kind::driver) plan = plan_for_driver(shape, facts);
        plan.synchronise_after &= form_ == copy_form::synchronous;
        return failed;
    }

    // The driver may refuse copies in a batch that it takes one by one. Single calls also report which copy is wrong.
    static bool is_refused(CUresult result) noexcept {
        return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
    }

    error run_boxes() noexcept {
        for (const batch_box &box : request_.boxes)
            if (is_own_kernel(box))
                if (error failed = run_own(box)) return failed;
        if (error failed = run_box_calls()) return failed;
        for (int group = 0; group < piece_groups; ++group) {
            if (error failed = run_box_kernels<linear_boxes>(from_memory, group)) return failed;
            if (error failed = run_box_kernels<array_boxes>(from_array, group)) return failed;
        }
        return {};
    }

    error run_box_calls() noexcept {
        if (request_.operations.size() == 0 || !takes_batches_) return {};
        const CUresult result =
            run_box_batch(instance_.cu, request_.operations.begin(), request_.operations.size(), stream_);
        if (!is_refused(result)) return noted(to_error(result), route_kind::driver);
        for (const batch_box &box : request_.boxes)
            if (box.way == box_route::batch_call)
                if (error failed = call(call_of(box))) return failed;
        return {};
    }

    template <class Kind> error run_box_kernels(box_source source, int group) noexcept {
        const auto is_one = [&](const batch_box &box) noexcept {
            return box.way == box_route::kernel && !is_called(box) && box.is_of(source, group);
        };
        const box_launch &of = request_.box_launches[source][group];
        if (of.count == 0) return {};
        const auto launch = [&](const box_table<Kind> &table) noexcept -> error {
            box_launcher<Kind> launcher(instance_.cu, instance_.kernels, Kind::cut(of.count, of.bytes), of.blocks,
                                        stream_, table);
            for (const batch_box &box : request_.boxes)
                if (is_one(box))
                    if (error failed = launcher.add(box_for(Kind{}, box))) return failed;
            return noted(launcher.launch(), route_kind::kernel);
        };
        using record = typename Kind::record;
        void *const table = take_table(of.count, Kind::max_in_parameters, sizeof(record));
        if (!table) return launch({});
        return launch_from(table, [&](std::uint64_t address) noexcept {
            return launch({static_cast<record *>(table), static_cast<std::uint32_t>(of.count), address});
        });
    }

    kernel_box box_for(linear_boxes, const batch_box &box) const noexcept {
        return box_of(box.shape, box.shape.destination.span.first + request_.ranges[box.to].alias,
                      box.shape.source.span.first + request_.ranges[box.from].alias);
    }
    kernel_array_box box_for(array_boxes, const batch_box &box) const noexcept {
        kernel_views views;
        views.source = request_.array_views[box.from];
        views.destination.address = box.shape.destination.span.first + request_.ranges[box.to].alias;
        return array_box_of(box.shape, views);
    }

    // Decides before anything of the batch is enqueued.
    error look_at_pageable() noexcept {
        for (int i = 0; i < 2; ++i) {
            const pageable_copies &of = request_.pageable[i];
            if (of.pieces.size() == 0 || !is_at_home_) continue;
            plan_facts facts = this->facts();
            shape any = {};
            (of.to_device ? any.source : any.destination).kind = memory_kind::pageable;
            (of.to_device ? any.destination : any.source).kind = memory_kind::device;
            any.width = of.bytes;
            any.height = any.depth = 1;
            if (error failed = look_at_stream(instance_, any, stream_, facts)) return failed;
            is_idle_[i] = facts.is_stream_idle;
            are_staged_[i] = takes_staging(instance_, of, request_, site_, facts.is_stream_idle);
        }
        return {};
    }

    // The threads may need memory that is not to be had. Then the driver copies.
    error run_staged() noexcept {
        staged_progress progress[2];
        error failed;
        for (int i = 0; i < 2 && !failed; ++i) {
            if (!are_staged_[i]) continue;
            const pageable_copies &of = request_.pageable[i];
            staged_progress *const helped = is_helped(of) ? &progress[i] : nullptr;
            // The delay of its start counts only if nothing of the batch is in front.
            const bool is_alone = count_together(i) == request_.pieces.size() + request_.boxes.size();
            failed = noted(run_pageable(instance_, of, request_, site_, is_idle_[i] && is_alone, helped),
                           route_kind::staged);
            if (lacks_memory(failed) && !is_staging_forced()) failed = call_staged(i);
        }
        for (staged_progress &one : progress) { // nobody writes to them any more when this is over
            const error helped = instance_.staging.help(one);
            if (!failed) failed = helped;
        }
        return failed;
    }

    // Whether the caller works on the staged copy until it is done.
    bool is_helped(const pageable_copies &of) const noexcept {
        const bool is_awaited = preferences_of(instance_.copy_flags).is_awaited(of.to_device);
        return !site_.is_captured && (site_.is_waited_for || is_awaited);
    }
    bool is_staging_forced() const noexcept {
        return preferences_of(instance_.copy_flags).forced == route_kind::staged;
    }

    error call_staged(int of) noexcept {
        const auto group = of == 0 ? piece_group::pageable_up : piece_group::pageable_down;
        const auto call_one = [&](const single_call &one) noexcept { return call(one); };
        for (const batch_box &box : request_.boxes)
            if (box.way == box_route::staged && box.group == group)
                if (error failed = call(call_of(box))) return failed;
        return for_each_piece(static_cast<int>(group), call_one);
    }

    error run_lines(int group, std::size_t first) noexcept {
        const CUresult result =
            run_line_batch(instance_.cu, request_.lines, first, request_.pieces.facts(group).count, stream_);
        if (!is_refused(result)) return noted(to_error(result), route_kind::driver);
        return for_each_piece(group, [&](const single_call &one) noexcept { return call(one); });
    }

    error run_kernel(int group) noexcept {
        const std::uint32_t blocks = request_.plans[group].blocks;
        const std::uint64_t records = records_of(request_.pieces.facts(group));
        if (site_.tables && site_.tables[group].address)
            return launch_piece_table(instance_.cu, instance_.kernels, site_.tables[group].packed,
                                      site_.tables[group].address, nullptr, blocks, stream_);
        void *const table = take_table(records, gpu::max_pieces_in_parameters, sizeof(gpu::piece));
        if (!table) return run_in_parameters(group, blocks);
        return launch_from(table, [&](std::uint64_t address) noexcept -> error {
            auto *const pieces = static_cast<gpu::piece *>(table);
            const group_facts &of = request_.pieces.facts(group);
            piece_packer packer(pieces, static_cast<std::uint32_t>(records), cut_pieces(of.count, of.bytes));
            if (!pack_group(request_, group, packer)) return too_large;
            return launch_piece_table(instance_.cu, instance_.kernels, packer, address, pieces, blocks, stream_);
        });
    }

    // Returns null where the parameters have room, or memory runs out. A graph outlives the call, so the records of a
    // captured batch also travel in the parameters, in as many launches as they need.
    void *take_table(std::uint64_t records, std::uint64_t in_parameters, std::uint64_t record_size) noexcept {
        void *table = nullptr;
        if (records <= in_parameters || records > UINT32_MAX || site_.is_captured) return nullptr;
        return instance_.tables.allocate(records * record_size, table) ? nullptr : table;
    }

    template <class Launch> error launch_from(void *table, const Launch &launch) noexcept {
        address_facts facts;
        error failed =
            look_up_address(instance_.cu, reinterpret_cast<std::uintptr_t>(table), address_query::everything, facts);
        if (!failed) failed = launch(facts.device_address);
        const error passed = free_table(instance_, stream_, table); // part of it may have been launched even so
        return failed ? failed : passed;
    }

    // Not inline, because the parameters would be on the stack of every batch.
    [[gnu::noinline]] error run_in_parameters(int group, std::uint32_t blocks) noexcept {
        const group_facts &of = request_.pieces.facts(group);
        const team_cut cut = cut_pieces(of.count, of.bytes);
        const batch_piece *next = request_.pieces.begin(group);
        const batch_piece *const end = request_.pieces.end(group);
        while (next != end) {
            gpu::piece_parameters given;
            piece_packer packer(given.pieces, gpu::max_pieces_in_parameters, cut);
            while (next != end && pack(request_.ranges, *next, packer))
                ++next;
            if (packer.empty()) return too_large;
            if (error failed = launch_pieces(instance_.cu, instance_.kernels, packer, given, blocks, stream_))
                return failed;
        }
        return {};
    }

    ferry_instance &instance_;
    const batch_request &request_;
    const copy_form form_;
    const launch_site &site_;
    const CUstream stream_;
    shape &refused_; // set where check() fails because of one copy
    // These hold for this submission: a prepared request is planned for other streams too. In a context other than that
    // of the request, kernels find neither its memory nor its surfaces.
    const bool takes_batches_, is_at_home_;
    bool are_staged_[2] = {};           // the copies of request_.pageable
    bool is_idle_[2] = {};              // as is_earlier_work_done_, when they were looked at
    bool is_earlier_work_done_ = false; // the program's on the stream, not the batch's own
};

} // namespace

error submit_batch(ferry_instance &instance, const batch_request &request, copy_form form, const launch_site &site,
                   shape &refused) noexcept {
    return batch_submitter(instance, request, form, site, refused).run();
}

error check_submission(ferry_instance &instance, const batch_request &request, CUstream stream,
                       shape &refused) noexcept {
    // Copies with flags of their own have been planned already.
    if (!may_be_refused(preferences_of(instance.copy_flags))) return {};
    const launch_site site = {request.context.wanted, stream, false};
    return batch_submitter(instance, request, copy_form::asynchronous, site, refused).check();
}

error explain_submission(ferry_instance &instance, const batch_request &request, const launch_site &site,
                         ferry_batch_explanation &found, shape &refused) noexcept {
    found = {};
    return batch_submitter(instance, request, copy_form::asynchronous, site, refused).explain(found);
}

bool is_single_call(const batch_request &request) noexcept {
    if (request.pieces.size() + request.boxes.size() != 1) return false;
    if (request.boxes.size() == 1) return request.boxes[0].way == box_route::call;
    return std::none_of(std::begin(request.plans), std::end(request.plans),
                        [](const batch_plan &plan) { return plan.way != batch_route::calls; });
}

} // namespace ferry
