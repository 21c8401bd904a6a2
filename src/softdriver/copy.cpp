// Checks copies and decides when their calls return.
#include "softdriver/copy.h"

#include "base/checked.h"
#include "softdriver/moves.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

constexpr std::size_t largest_pitch = 2147483647; // CU_DEVICE_ATTRIBUTE_MAX_PITCH
// When a copy from pageable memory returns, the last bytes of the source, up to this number, are in a staging buffer
// and not yet at the destination ("API synchronization behavior"). Copies of at most `sent_with_commands` bytes are
// transferred together with the commands of their stream and use no staging buffer.
constexpr std::size_t sent_with_commands = 64 << 10;
constexpr std::size_t staging_buffer = 1 << 20;

std::size_t sum(std::size_t a, std::size_t b) {
    require(add(a, b, a));
    return a;
}
std::size_t product(std::size_t a, std::size_t b) {
    require(multiply(a, b, a));
    return a;
}

side resolve_array(driver &cu, const place &at, const extent &size) {
    const array *const of = cu.arrays.find(at.array);
    require(of, CUDA_ERROR_INVALID_HANDLE);
    require(at.lod == 0); // ignored for linear ends; parts of elements can be copied (both seen on CUDA 13.0, H200)
    require(sum(at.x, size.width) <= of->layout.row_bytes && sum(at.y, size.height) <= of->layout.rows &&
            sum(at.z, size.depth) <= of->layout.slices);
    return {.memory = side::kind::array, .device = of->device, .tiles = of->layout, .x = at.x, .y = at.y, .z = at.z};
}

// `context` determines the access to the memory, or is null.
void identify(const allocation &memory, const context *context, side &found) {
    found.device = memory.device;
    found.stream_ordered = memory.is_stream_ordered();
    if (memory.kind == allocation_kind::device) {
        found.memory = side::kind::device;
    } else if (memory.kind == allocation_kind::managed) {
        found.memory = side::kind::managed;
    } else if (!found.stream_ordered) {
        found.memory = side::kind::pinned;
    } else if (context && can_reach(*context, memory)) {
        // Memory of a host pool is copied as device memory if the context's device has access, and as pageable memory
        // otherwise (seen on CUDA 13.0, H200).
        found.memory = side::kind::host_pool;
        found.device = context->device;
        found.reached_from = context;
    }
}

side resolve_linear(driver &cu, const place &at, const extent &size, const context *context) {
    const std::size_t row = sum(at.x, size.width);
    const std::size_t rows = sum(at.y, size.height);
    require(at.address && at.pitch <= largest_pitch);
    require(at.pitch == 0 || at.pitch >= row);
    require(at.height == 0 || at.height >= rows);
    const std::size_t pitch = at.pitch ? at.pitch : row;
    const std::size_t slice = product(pitch, at.height ? at.height : rows);
    const std::size_t start = sum(sum(at.address, at.x), sum(product(at.y, pitch), product(at.z, slice)));
    const std::size_t span = sum(sum(product(size.depth - 1, slice), product(size.height - 1, pitch)), size.width);
    const std::size_t end = sum(start, span);

    side found{.memory = side::kind::pageable, .start = start, .row_pitch = pitch, .slice_pitch = slice};
    const allocation *const memory = find_overlapping(cu, start, span);
    const bool contained = memory && memory->address <= start && end <= memory->address + memory->size;
    const bool beside_devices = end <= device_window.begin || start >= device_window.end;
    // HOST is only a hint: the address determines the kind, as on CUDA 13.0. A DEVICE address must be known to the
    // driver.
    const bool must_be_known = at.type == CU_MEMORYTYPE_DEVICE || !beside_devices;
    // A range must be within the allocation in which it starts (trap 6 in docs/driver.md). A range that starts in
    // pageable memory may extend into registered memory (seen on CUDA 13.0, H200).
    const bool runs_into_host = memory && memory->address > start && memory->on_host();
    require(contained || (!must_be_known && (!memory || runs_into_host)));
    if (!contained) return found;
    identify(*memory, context, found);
    return found;
}

// cuMemAlloc memory and arrays are accessible on any device, regardless of the current context. Pool memory is checked
// against the current context instead of the stream's context (both seen on CUDA 13.0 with two H200). Without a current
// context, the real driver crashes.
void require_access(driver &cu, const side &end) {
    if (end.memory == side::kind::device && end.stream_ordered)
        require(can_reach(current_context(cu), *find_allocation(cu, end.start)));
}

// Driver 580 crashes the process in a copy between memory of a host pool and another device without access to the pool,
// unless the context that can access the pool can also access the other device's memory. Such copies are rejected here.
void require_pool_in_reach(driver &cu, const side &end, const side &other) {
    if (end.memory != side::kind::host_pool || other.device_bit() == 0 || other.device == end.device) return;
    if (other.memory != side::kind::array && can_reach(*end.reached_from, *find_allocation(cu, other.start))) return;
    require(find_allocation(cu, end.start)->accessible_from() & other.device_bit());
}

// Merges rows without gaps between them at either end into one row.
extent collapsed(const side &a, const side &b, extent size) {
    if (a.memory == side::kind::array || b.memory == side::kind::array) return size;
    if (size.height == 1 || (a.row_pitch == size.width && b.row_pitch == size.width))
        size = {size.width * size.height, 1, size.depth};
    if (size.height == 1 && a.slice_pitch == size.width && b.slice_pitch == size.width)
        size = {size.width * size.depth, 1, 1};
    return size;
}

// cuMemcpyPeer and cuMemcpy3DPeer are "serialized with respect to all pending and future asynchronous work" of both
// contexts, so they are ordered on both legacy streams.
operations work_before_peers(driver &cu, const copy_request &asked) {
    operations before;
    for (const CUcontext handle : {asked.source.context, asked.destination.context})
        if (const context *const peer = cu.contexts.find(handle)) {
            refuse_if_legacy_would_join_capture(*peer);
            const operations more = work_before(peer->legacy);
            before.insert(before.end(), more.begin(), more.end());
        }
    return before;
}

// Imitates two faults of CUDA 13.0 on an H200, so that a program that triggers them also fails here. A copy from one
// layer to another of the same 2D array reads the layer that it writes. A copy between layers of a 1D array and managed
// memory, or memory of the array's device, uses the linear end's pitch as its slice pitch and ignores the slice height.
void imitate_faults_of_layers(driver &cu, const copy_request &asked, side &source, side &destination) {
    const auto is_layered = [&](const side &end, const place &at, bool with_rows) {
        if (end.memory != side::kind::array) return false;
        const CUDA_ARRAY3D_DESCRIPTOR &made = cu.arrays.find(at.array)->descriptor;
        return (made.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) && (made.Height != 0) == with_rows;
    };
    const auto is_beside = [](const side &end, const side &array) {
        return end.memory == side::kind::managed || (end.memory == side::kind::device && end.device == array.device);
    };
    if (is_layered(source, asked.source, true) && asked.source.array == asked.destination.array)
        source.z = destination.z;
    if (is_layered(source, asked.source, false) && is_beside(destination, source))
        destination.slice_pitch = destination.row_pitch;
    if (is_layered(destination, asked.destination, false) && is_beside(source, destination))
        source.slice_pitch = source.row_pitch;
}

void check_reach(driver &cu, const side &source, const side &destination, bool peer) {
    if (!peer) {
        require_access(cu, source);
        require_access(cu, destination);
    }
    require_pool_in_reach(cu, source, destination);
    require_pool_in_reach(cu, destination, source);
}

// Returns the context that determines peer access at one end of a copy: the named context, or else the owner of the
// memory. Pool memory has no owner.
const context *context_of(driver &cu, const copy_request &asked, const place &at, const side &end) {
    if (asked.peer) return cu.contexts.find(at.context);
    if (end.memory == side::kind::array) return cu.arrays.find(at.array)->owner;
    return cu.contexts.find(find_allocation(cu, end.start)->owner);
}

bool is_reached_from(driver &cu, const context *from, const side &other_end, const place &at, const side &end) {
    if (end.memory == side::kind::array) return from && has_peer_access(*from, cu.arrays.find(at.array)->owner->handle);
    const allocation &memory = *find_allocation(cu, end.start);
    if (memory.is_stream_ordered()) return memory.accessible_from() & other_end.device_bit();
    return from && has_peer_access(*from, memory.owner);
}

// A copy between two devices uses their link if one end's context can access the memory at the other end, and goes
// through the host otherwise. A lossy link loses its bytes.
bool is_lost(driver &cu, const copy_request &asked, const side &source, const side &destination) {
    const auto is_on_device = [](const side &end) {
        return end.memory == side::kind::device || end.memory == side::kind::array;
    };
    if (cu.settings.links != device_links::lossy) return false;
    if (!is_on_device(source) || !is_on_device(destination) || source.device == destination.device) return false;
    const context *const at_source = context_of(cu, asked, asked.source, source);
    const context *const at_destination = context_of(cu, asked, asked.destination, destination);
    return is_reached_from(cu, at_source, source, asked.destination, destination) ||
           is_reached_from(cu, at_destination, destination, asked.source, source);
}

} // namespace

side resolve(driver &cu, const place &at, const extent &size, bool peer) {
    const context *const named = cu.contexts.find(at.context);
    if (peer && at.type != CU_MEMORYTYPE_HOST) require(named, CUDA_ERROR_INVALID_CONTEXT);
    switch (at.type) {
    case CU_MEMORYTYPE_ARRAY:
        return resolve_array(cu, at, size);
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        return resolve_linear(cu, at, size, peer && named ? named : find_current_context(cu));
    default:
        throw refusal{CUDA_ERROR_INVALID_VALUE};
    }
}

void check_copy(driver &cu, const copy_request &asked) {
    const side source = resolve(cu, asked.source, asked.size, asked.peer);
    const side destination = resolve(cu, asked.destination, asked.size, asked.peer);
    check_reach(cu, source, destination, asked.peer);
}

// A copy of a short row from pinned memory to a device reads its source within the call if its own stream is idle.
// Pending writes to the source on the legacy stream, or on streams that synchronise with it, are ignored (seen on CUDA
// 13.0, H200).
bool is_read_at_once(driver &cu, const stream &on, const side &source, const side &destination, const extent &size) {
    constexpr std::size_t longest = 16384; // rows of 32 KiB are not read in the call
    return source.memory == side::kind::pinned && destination.memory == side::kind::device && size.width <= longest &&
           size.height == 1 && size.depth == 1 && !on.capturing && cu.engine.finished(on.last);
}

// The time at which a copy reads its host source, as seen on CUDA 13.0 with an H200 (docs/driver.md).
struct source_rules {
    std::size_t read_at_once = 0; // bytes that the call reads before earlier work on the stream is done
    bool is_read_in_call = true;  // the call returns when it has read the source
};

// A row of a batch. Batches copy boxes like single calls, and rows in a different way.
bool is_row_of_batch(const copy_request &asked, const side &source, const side &destination) {
    return asked.order && asked.size.height == 1 && asked.size.depth == 1 && source.memory != side::kind::array &&
           destination.memory != side::kind::array;
}

source_rules rules_of(driver &cu, const copy_request &asked, const side &source, const side &destination,
                      const stream &on) {
    const std::size_t bytes = bytes_of(asked.size);
    const bool is_in_order = !asked.order || asked.order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    if (source.memory == side::kind::pinned)
        return {.read_at_once = !is_in_order || is_read_at_once(cu, on, source, destination, asked.size) ? bytes : 0};
    if (!is_row_of_batch(asked, source, destination)) return {.read_at_once = bytes};
    if (is_in_order) return {};
    if (bytes <= sent_with_commands && destination.memory != side::kind::managed) return {.read_at_once = bytes};
    return {.is_read_in_call = false};
}

// Returns how many bytes of a copy fit in this number of staging buffers: whole rows in each buffer, or for a single
// row as much as fits. A row that is longer than one buffer uses both.
std::size_t room_in(std::size_t buffers, const extent &size) {
    if (size.height * size.depth == 1) return buffers * staging_buffer;
    if (size.width <= staging_buffer) return staging_buffer / size.width * size.width * buffers;
    return buffers * staging_buffer / size.width * size.width;
}

// Takes the context's staging buffers for as many of `wanted` bytes as fit. Returns the number of buffers. If they are
// not sufficient, the rest of the copy waits for `before`.
std::size_t take_staging_buffers(driver &cu, context &of, std::size_t wanted, operation_ptr &before) {
    constexpr std::size_t most = 2;
    of.staging.reserve(most);
    cu.engine.forget_finished(of.staging);
    const std::size_t left = most - std::min(most, of.staging.size());
    const std::size_t needed = (wanted + staging_buffer - 1) / staging_buffer;
    if (needed > left && !of.staging.empty()) before = of.staging.front();
    return std::min(left, needed);
}

work transfer(const side &source, const side &destination) {
    work what{.is_transfer = true};
    what.devices = source.device_bit() | destination.device_bit();
    if (source.on_host() != destination.on_host()) {
        what.kind = source.on_host() ? lane_kind::host_to_device : lane_kind::device_to_host;
        what.copy_device = static_cast<unsigned>(source.on_host() ? destination.device : source.device);
    }
    return what;
}

// Sets the body of a copy that no call has begun. Each launch of a graph reads a pageable source in the call (as above).
void set_body(driver &cu, const copy_request &asked, const side &source, const side &destination, const extent &size,
              bool in_graph, work &what) {
    const stretch all = {0, bytes_of(size)};
    if (in_graph && source.memory == side::kind::pageable && !destination.on_host())
        what.prepare = [=](driver &) {
            const staged_bytes staged(size, all);
            staged.read(source);
            return [=] { staged.write(destination); };
        };
    else if (is_lost(cu, asked, source, destination))
        what.body = [] {};
    else
        what.body = [=] { move_bytes(destination, source, size, all); };
}

// The call returns as early as the manual's "API synchronization behavior" permits (seen on CUDA 13.0, H200). A
// synchronous copy between device memory does not wait, and a synchronous copy from pageable memory waits only until
// its source has been read. A caller that relies on more must fail here first.
operation_ptr start_copy(driver &cu, const copy_request &asked, CUstream handle, bool asynchronous) {
    stream *const synchronous = asynchronous ? nullptr : &stream_of_synchronous_call(cu);
    if (!asked.size.width || !asked.size.height || !asked.size.depth) return {};
    side source = resolve(cu, asked.source, asked.size, asked.peer);
    side destination = resolve(cu, asked.destination, asked.size, asked.peer);
    check_reach(cu, source, destination, asked.peer);
    imitate_faults_of_layers(cu, asked, source, destination);
    stream &on = synchronous ? *synchronous : find_stream(cu, handle);
    if (asked.peer && on.capturing) invalidate(*on.capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);

    const bool from_host = source.on_host();
    const bool to_host = destination.on_host();
    const bool from_pageable = source.memory == side::kind::pageable;
    const bool to_pageable = destination.memory == side::kind::pageable;
    const bool managed = source.memory == side::kind::managed || destination.memory == side::kind::managed;
    const source_rules rules =
        asynchronous && from_host && !to_host ? rules_of(cu, asked, source, destination, on) : source_rules{};
    const bool is_read_early = from_pageable ? rules.is_read_in_call : rules.read_at_once != 0;
    const bool staged = is_read_early && !to_host && !on.capturing;
    // Batches write rows after the call has returned, unless their order is DURING_API_CALL.
    const bool in_call = asked.order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    const bool is_batch_row = is_row_of_batch(asked, source, destination);
    const bool wait = (from_host && to_host) || (to_pageable && (!is_batch_row || in_call)) ||
                      (from_pageable && !is_batch_row && in_call) ||
                      (!asynchronous && (managed || (!staged && (from_host || to_host))));
    const bool between = asked.peer && !asynchronous;

    work what = transfer(source, destination);
    operations after = between ? work_before_peers(cu, asked) : operations{};
    const extent size = collapsed(destination, source, asked.size);
    const std::size_t bytes = bytes_of(size);
    std::size_t buffers = 0;
    operation_ptr read;
    if (staged) {
        std::size_t early = rules.read_at_once;
        if (from_pageable && early > sent_with_commands) {
            operation_ptr before;
            buffers = take_staging_buffers(cu, *on.owner, std::min(early, 2 * staging_buffer), before);
            early = std::min(early, room_in(buffers, size));
            if (before && early < bytes) after.push_back(before);
        }
        const staged_bytes head(size, {0, early});
        head.read(source);
        if (early == bytes) {
            what.body = [=] { head.write(destination); };
        } else {
            const std::size_t at_end = bytes - std::min(sent_with_commands, bytes - early);
            const staged_bytes last(size, {at_end, bytes});
            work reads = what;
            reads.body = [=] {
                head.write(destination);
                move_bytes(destination, source, size, {early, at_end});
                last.read(source);
            };
            read = enqueue(cu, on, std::move(reads), std::move(after));
            after = {};
            what.body = [=] { last.write(destination); };
        }
    } else {
        set_body(cu, asked, source, destination, size, on.capturing != nullptr, what);
    }
    operation_ptr done;
    try {
        done = enqueue(cu, on, std::move(what), std::move(after));
        on.owner->staging.insert(on.owner->staging.end(), buffers, read ? read : done);
    } catch (...) {
        cu.engine.wait(read); // a failed call must not continue to read its source
        throw;
    }
    if (between)
        for (const CUcontext peer : {asked.source.context, asked.destination.context})
            if (context *const one = cu.contexts.find(peer)) one->legacy.last = done;
    return wait ? done : read;
}

graph_node copy_in_graph(driver &cu, const copy_request &asked) {
    require(asked.size.width && asked.size.height && asked.size.depth);
    side source = resolve(cu, asked.source, asked.size, asked.peer);
    side destination = resolve(cu, asked.destination, asked.size, asked.peer);
    check_reach(cu, source, destination, asked.peer);
    imitate_faults_of_layers(cu, asked, source, destination);
    const bool has_array = source.memory == side::kind::array || destination.memory == side::kind::array;
    graph_node made = {.what = transfer(source, destination),
                       .is_line = asked.size.height == 1 && asked.size.depth == 1 && !has_array,
                       .from_host = source.on_host(),
                       .to_host = destination.on_host()};
    set_body(cu, asked, source, destination, collapsed(destination, source, asked.size), true, made.what);
    return made;
}

CUresult copy(const copy_request &asked) noexcept {
    return enter([&](driver &cu) { return start_copy(cu, asked, nullptr, false); });
}

CUresult copy_async(const copy_request &asked, CUstream stream) noexcept {
    return enter([&](driver &cu) { return start_copy(cu, asked, stream, true); });
}

} // namespace ferry::softdriver
