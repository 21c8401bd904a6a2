#include "fuzz/world.h"

#include <algorithm>
#include <cstring>

namespace ferry::test {

world::world(fuzz_run &run, unsigned thread) : run(run), random(run.seed * 64 + thread + 1), thread_(thread) {
    sources.ferry = run.ferry.get();
    if (thread == 0) sources.lent = run.lent;
    make_lanes();
    make_pools();
    sources.opens_files = !run.setting.has_program_threads;
    for (const memory_traits &traits : all_memory)
        if (sources.has(traits.kind, 0))
            (traits.kind == memory_kind::file ? files : buffers).push_back(make_buffer(traits.kind));
    if (sources.opens_files) files.push_back(make_buffer(memory_kind::file));
    if (sources.host_pool) buffers.push_back(make_buffer(memory_kind::host_pool_of_one_device));
    for (int i = 0; i < 4; ++i) // more buffers of the kinds that are staged
        buffers.push_back(make_buffer(i % 2 ? memory_kind::device : memory_kind::heap));
}

void world::make_lanes() {
    contexts.push_back(nullptr);
    const int devices = std::min(device_count(), 2);
    for (int device = 0; device < devices; ++device) {
        CUcontext context = nullptr;
        require(ferry_context_retain_primary(sources.ferry, device, &context, nullptr));
        contexts.push_back(context);
        for (const std::uint32_t flags : {FERRY_STREAM_NON_BLOCKING, FERRY_STREAM_NON_BLOCKING, 0u}) {
            CUstream_st *stream = nullptr;
            require(ferry_stream_create(sources.ferry, device, flags, 0, &stream, nullptr));
            lanes.push_back({flags ? "non-blocking" : "blocking", stream, device, context, false, flags == 0});
        }
        lanes.push_back({"legacy", device ? CU_STREAM_LEGACY : nullptr, device, context, true, true});
        lanes.push_back({"per-thread", CU_STREAM_PER_THREAD, device, context, true, true});
    }
    if (thread_ == 0) {
        require(ferry_context_create(sources.ferry, 0, 0, &own_context_, nullptr));
        contexts.push_back(own_context_);
        const made_current scope(own_context_);
        CUstream stream = nullptr;
        require(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        lanes.push_back({"of another context", stream, 0, own_context_});
    }
    for (const lane &one : lanes) {
        CUevent event = nullptr;
        const made_current scope(one.context);
        require(raw().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        events_.push_back(event);
    }
}

void world::make_pools() {
    require(ferry_pinned_pool_create(sources.ferry, nullptr, &sources.pinned, nullptr));
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    require(ferry_device_get_info(sources.ferry, 0, &info, nullptr));
    const int devices = std::min(device_count(), 2);
    ferry_pool_desc desc = {};
    desc.struct_size = sizeof desc;
    for (desc.index = 0; desc.index < devices && info.memory_pools; ++desc.index)
        require(ferry_pool_create(sources.ferry, &desc, &sources.device_pools[desc.index], nullptr));
    if (!info.host_memory_pools) return;
    desc.location = FERRY_LOCATION_HOST;
    desc.index = 0;
    require(ferry_pool_create(sources.ferry, &desc, &sources.host_pool, nullptr));
    require(ferry_pool_create(sources.ferry, &desc, &sources.host_pool_with_access, nullptr));
    for (int device = 0; device < devices; ++device) {
        CUmemPoolHandle_st *&of_one = sources.host_pools_of_one[device];
        require(ferry_pool_create(sources.ferry, &desc, &of_one, nullptr));
        for (CUmemPoolHandle_st *const pool : {sources.host_pool_with_access, of_one})
            require(ferry_pool_set_access(sources.ferry, pool, device, FERRY_ACCESS_READ_WRITE, nullptr));
    }
}

world::~world() {
    release_all();
    files.clear();
    for (auto &one : buffers)
        one.reset();
    require(ferry_pinned_pool_destroy(sources.pinned, nullptr));
    for (CUmemPoolHandle_st *const pool :
         {sources.host_pool, sources.host_pool_with_access, sources.host_pools_of_one[0], sources.host_pools_of_one[1],
          sources.device_pools[0], sources.device_pools[1]})
        require(ferry_pool_destroy(sources.ferry, pool, nullptr));
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const made_current scope(lanes[i].context);
        require(ferry_event_destroy(sources.ferry, events_[i], nullptr));
        if (!lanes[i].is_default) require(ferry_stream_destroy(sources.ferry, lanes[i].stream, nullptr));
    }
    if (own_context_) require(ferry_context_destroy(sources.ferry, own_context_, nullptr));
    for (int device = 0; device < std::min(device_count(), 2); ++device)
        require(ferry_context_release_primary(sources.ferry, device, nullptr));
}

void world::release_all() {
    for (std::size_t i = 0; i < lanes.size(); ++i)
        synchronize(i);
    while (!graphs.empty())
        release_graph(0);
    while (!prepared.empty())
        release_prepared(0);
    while (!tickets.empty())
        release_ticket(0);
}

// ---- Steps

void world::step() {
    static const std::size_t whole = [] {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < operation_count; ++i)
            sum += operations[i].weight;
        return sum;
    }();
    std::uint64_t drawn = random.up_to(whole - 1);
    std::size_t chosen = 0;
    for (; drawn >= operations[chosen].weight; ++chosen)
        drawn -= operations[chosen].weight;
    ++operation_;
    if (operations[chosen].needs_one_thread && !is_alone()) return;
    operations[chosen].run(*this);
    count_run(chosen);
}

void world::say(const std::string &words) {
    words_ = words;
    run.say(thread_, std::to_string(operation_) + " " + words);
    note_step();
}

void world::fail(const std::string &what) {
    if (run.has_failed.exchange(true)) return;
    ADD_FAILURE() << what << "\nin operation " << operation_ << " of thread " << thread_ << ": " << words_
                  << "\nto repeat: --seed " << run.seed << " --operations " << operation_ << " --threads "
                  << run.threads << " (" << run.setting.name << ")";
}

std::int32_t world::call(CUcontext current, const std::function<std::int32_t()> &ferry_call) {
    const made_current scope(current);
    const std::int32_t status = ferry_call();
    CUcontext after = nullptr;
    require(raw().cuCtxGetCurrent(&after));
    expect(after == current, "the call changed the current context");
    const char *const name = ferry_status_name(status);
    expect(std::strcmp(name, "FERRY_ERROR_UNKNOWN_STATUS") != 0 && std::strcmp(name, "CUDA_ERROR_UNKNOWN_RESULT") != 0,
           "the call returned an unknown status");
    return status;
}

CUcontext world::any_context() { return random.among(contexts); }
CUcontext world::context_for(const lane &one) { return one.is_default ? one.context : any_context(); }

namespace {

// Only the instance that registered the memory can distinguish its parts.
bool needs_the_registering_instance(const buffer &end) { return end.kind == memory_kind::registered_in_part; }

} // namespace

ferry_instance *world::instance_for(const std::vector<effect> &effects) {
    for (const effect &one : effects) {
        const buffer *const from = source_of(one), *const to = destination_of(one);
        for (const buffer *const end : {from, to})
            if (end && needs_the_registering_instance(*end)) return run.ferry.get();
        // Only the instance that created an array knows its device.
        if (const auto *const copy = std::get_if<drawn_copy>(&one))
            for (const view *const end : {&copy->source, &copy->destination})
                if (end->in->is_array() && !end->states_device) return run.ferry.get();
    }
    return random.one_in(4) ? run.other.get() : run.ferry.get();
}

ferry_instance *world::instance_for(const buffer &end) {
    return needs_the_registering_instance(end) ? run.ferry.get() : instance_for(std::vector<effect>());
}

std::size_t world::any_lane(const std::function<bool(const lane &)> &is_fit) {
    for (;;) {
        const std::size_t drawn = random.up_to(lanes.size() - 1);
        if (is_fit(lanes[drawn])) return drawn;
    }
}

std::size_t world::any_lane() {
    return any_lane([](const lane &) { return true; });
}

// ---- Order

namespace {

std::uint32_t bit(std::size_t lane) { return 1u << lane; }

// The lanes whose work must complete before an effect.
std::uint32_t conflicts_of(const effect &one) {
    const buffer *const from = source_of(one), *const to = destination_of(one);
    return to->readers | to->writers | (from ? from->writers : 0);
}

} // namespace

void world::order(std::size_t lane, const std::vector<effect> &effects) {
    std::uint32_t before = 0;
    for (const effect &one : effects)
        before |= conflicts_of(one);
    // Without an event, a copy may read its host source before pending work on the legacy stream has written the
    // source. That happens if ferry stages the source and the writer is not ferry's own work, or if the source is one
    // short row, which the driver reads within the call (docs/contract.md).
    const bool may_be_read_before = std::any_of(effects.begin(), effects.end(), [&](const effect &one) {
        const buffer *const from = source_of(one);
        return from && from->traits().is_on_host && (from->may_be_pinned() || is_written_by_a_host_function(*from));
    });
    const struct lane &next = lanes[lane];
    behind_.clear();
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const struct lane &earlier = lanes[i];
        if (i == lane || !(before & bit(i))) continue;
        const bool is_ordered_already =
            earlier.context == next.context && earlier.is_blocking && next.is_blocking &&
            (std::strcmp(earlier.name, "legacy") == 0 || std::strcmp(next.name, "legacy") == 0);
        if (is_ordered_already && !may_be_read_before && random.one_in(2)) {
            behind_ += std::string(", behind '") + earlier.name + "' without an event";
            continue;
        }
        require(call(earlier.context,
                     [&] { return ferry_event_record(run.ferry.get(), events_[i], earlier.stream, nullptr); }));
        require(call(next.context,
                     [&] { return ferry_stream_wait_event(run.ferry.get(), next.stream, events_[i], nullptr); }));
    }
}

void world::wait_for_early_read(const drawn_copy &drawn) {
    buffer &from = *drawn.source.in;
    if (drawn.options.fields().source_order == FERRY_SOURCE_ORDER_ANY && is_written_by_a_host_function(from))
        wait_for(from);
}

void world::enqueued(std::size_t lane, const std::vector<effect> &effects) {
    for (const effect &one : effects) {
        apply(one);
        if (const auto *const copy = std::get_if<drawn_copy>(&one)) copy->source.in->readers |= bit(lane);
        buffer *const to = destination_of(one);
        to->writers |= bit(lane);
        note_write(one, "enqueued on '" + std::string(lanes[lane].name) + "' of device " +
                            std::to_string(lanes[lane].device) + behind_);
    }
}

void world::note_write(const effect &one, const std::string &on) {
    buffer *const to = destination_of(one);
    if (!to->file()) last_written = to;
    std::vector<written> &all = writes_[to];
    if (all.size() >= 4000) all.clear();
    all.push_back({operation_, on, one});
}

bool world::is_written_by_a_host_function(const buffer &one) {
    const std::vector<written> &all = writes_[&one];
    return std::any_of(all.begin(), all.end(),
                       [](const written &each) { return std::holds_alternative<drawn_write>(each.what); });
}

std::uint64_t world::last_write_of(const buffer &one) {
    const std::vector<written> &all = writes_[&one];
    return all.empty() ? 0 : all.back().operation;
}

void world::wait_for(const std::vector<effect> &effects, std::uint32_t ordered) {
    std::uint32_t before = 0;
    for (const effect &one : effects)
        before |= conflicts_of(one);
    for (std::size_t i = 0; i < lanes.size(); ++i)
        if (before & ~ordered & bit(i)) synchronize(i);
}

void world::wait_for(buffer &one) {
    for (std::size_t i = 0; i < lanes.size(); ++i)
        if ((one.readers | one.writers) & bit(i)) synchronize(i);
}

void world::done(const std::vector<effect> &effects) {
    for (const effect &one : effects) {
        apply(one);
        buffer *const to = destination_of(one);
        to->readers = to->writers = 0;
        note_write(one, "immediately");
    }
}

void world::synchronize(std::size_t number) {
    const lane &one = lanes[number];
    ferry_instance *const ferry = run.ferry.get();
    switch (random.up_to(3)) {
    case 0:
        require(call(one.context, [&] { return ferry_context_synchronize(ferry, one.device, one.context, nullptr); }));
        break;
    case 1:
        require(call(one.context, [&] { return ferry_event_record(ferry, events_[number], one.stream, nullptr); }));
        require(call(any_context(), [&] { return ferry_event_synchronize(ferry, events_[number], nullptr); }));
        break;
    default:
        require(call(one.context, [&] { return ferry_stream_synchronize(ferry, one.stream, nullptr); }));
    }
    for_each_buffer([&](buffer &each) {
        each.readers &= ~bit(number);
        each.writers &= ~bit(number);
    });
    for (const held_ticket &held : tickets)
        expect(held.lane != number || query_ticket(held).done, "the stream completed, but a ticket is not done");
}

std::uint32_t world::lanes_of_legacy_stream(CUcontext of) const {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < lanes.size(); ++i)
        if (lanes[i].context == of && lanes[i].is_blocking) found |= bit(i);
    return found;
}

// ---- Checks

void world::compare(const buffer &one, const char *what) {
    if (has_failed()) return;
    count_checked(one.size());
    if (const auto found = witness_.first_difference(one))
        fail(std::string(what) + ": " + one.name() + " differs from the model at " + found->words +
             earliest_wrong_write());
    else if (!(one.readers | one.writers))
        writes_[&one].clear();
}

// Wrong bytes are spread by copies, so this finds the first wrong write.
std::string world::earliest_wrong_write() {
    for (std::size_t i = 0; i < lanes.size(); ++i)
        synchronize(i);
    const written *earliest = nullptr;
    for_each_buffer([&](const buffer &one) {
        const auto found = witness_.first_difference(one);
        if (!found) return;
        const std::vector<written> &all = writes_[&one];
        const auto last =
            std::find_if(all.rbegin(), all.rend(), [&](auto &each) { return writes_byte(each.what, found->at); });
        if (last != all.rend() && (!earliest || last->operation < earliest->operation)) earliest = &*last;
    });
    if (!earliest) return "; after all work has ended, every written byte is right";
    return "; the first wrong write belongs to operation " + std::to_string(earliest->operation) + ", " + earliest->on +
           ": " + words_of(earliest->what);
}

void world::check_all() {
    for (std::size_t i = 0; i < lanes.size(); ++i)
        synchronize(i);
    for_each_buffer([&](const buffer &one) { compare(one, "after all streams were synchronized"); });
    expect(run.failed_in_trace == 0, "the trace has reported that a copy failed");
}

// ---- Creation and release

std::unique_ptr<buffer> world::make_buffer(memory_kind kind) {
    constexpr std::uint64_t sizes[] = {1 << 10, 100 << 10, 600'000, 3 << 20};
    const int device = static_cast<int>(random.up_to(static_cast<std::uint64_t>(std::min(device_count(), 2) - 1)));
    auto made =
        std::make_unique<buffer>(sources, kind, device, 64 + random.size(random.of(sizes)), buffers_made_++, random);
    witness_.write_model(*made);
    return made;
}

void world::drop_users(const buffer &one) {
    const auto names = [&](const effect &each) { return source_of(each) == &one || destination_of(each) == &one; };
    for (std::size_t i = graphs.size(); i-- > 0;)
        if (std::any_of(graphs[i].effects.begin(), graphs[i].effects.end(), names)) release_graph(i);
    for (std::size_t i = prepared.size(); i-- > 0;)
        if (std::any_of(prepared[i].copies.begin(), prepared[i].copies.end(), names)) release_prepared(i);
    for (std::size_t i = tickets.size(); i-- > 0;)
        if (std::any_of(tickets[i].effects.begin(), tickets[i].effects.end(), names)) release_ticket(i);
}

void world::replace(std::size_t number) {
    buffer &old = *buffers[number];
    wait_for(old);
    compare(old, "before it is freed");
    drop_users(old);
    const memory_kind kind = old.kind;
    if (last_written == &old) last_written = nullptr;
    writes_.erase(&old);
    buffers[number].reset();
    buffers[number] = make_buffer(kind);
}

void world::keep_ticket(ferry_ticket *ticket, std::size_t lane, const std::vector<effect> &effects, std::uint64_t bytes,
                        const how &options) {
    if (!ticket) return;
    tickets.push_back({ticket, effects, operation_, lane, bytes, options.fields().tag});
    if (random.one_in(4)) release_ticket(tickets.size() - 1);
}

ferry_ticket_info world::query_ticket(const held_ticket &held) {
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    require(call(any_context(), [&] { return ferry_ticket_get_info(held.ticket, &info, nullptr); }));
    expect(info.bytes_total == held.bytes && info.bytes_done <= info.bytes_total && info.tag == held.tag &&
               info.status == 0 && (!info.done || info.bytes_done == info.bytes_total),
           "the ticket reports a wrong state");
    return info;
}

void world::release_ticket(std::size_t number) {
    require(ferry_ticket_release(tickets[number].ticket, nullptr));
    tickets.erase(tickets.begin() + static_cast<std::ptrdiff_t>(number));
}

void world::release_prepared(std::size_t number) {
    ferry_prepared *const handle = prepared[number].handle;
    for (std::size_t i = graphs.size(); i-- > 0;)
        if (std::count(graphs[i].prepared.begin(), graphs[i].prepared.end(), handle)) release_graph(i);
    // The stream need not come after launches on other streams, because the batch is destroyed after they have ended.
    const bool is_deferred = random.one_in(2);
    if (is_deferred)
        for (std::size_t i = 0; i < lanes.size(); ++i)
            synchronize(i);
    require(call(any_context(), [&] {
        return is_deferred ? ferry_prepared_destroy_deferred(handle, nullptr, nullptr)
                           : ferry_prepared_destroy(handle, nullptr);
    }));
    prepared.erase(prepared.begin() + static_cast<std::ptrdiff_t>(number));
}

void world::release_graph(std::size_t number) {
    held_graph &one = graphs[number];
    // The graph's host functions and prepared batches must have run before the graph is destroyed.
    for (const effect &each : one.effects)
        wait_for(*destination_of(each));
    require(raw().cuGraphExecDestroy(one.executable));
    require(raw().cuGraphDestroy(one.graph));
    graphs.erase(graphs.begin() + static_cast<std::ptrdiff_t>(number));
}

} // namespace ferry::test
