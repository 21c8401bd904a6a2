// Stream-ordered allocation: a call returns an address immediately, and freed memory is reused by work that is ordered
// after the free.
#include "base/checked.h"
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20; // of device memory, if a whole step does not fit

std::optional<std::size_t> rounded_up(std::size_t bytes, std::size_t to) {
    if (!add(bytes, to - 1, bytes)) return std::nullopt;
    return bytes / to * to;
}

// Reserves more memory at the pool's location, at least `bytes` in one piece. Returns false if that is not possible.
bool grow(driver &cu, pool &of, std::size_t bytes) {
    const std::size_t left = of.largest ? of.largest - of.reserved.now : ~std::size_t{0};
    for (const std::size_t unit : {pool::step, granularity, heap::alignment}) {
        const auto wanted = rounded_up(bytes, unit);
        if (!wanted || *wanted > left) continue;
        heap &below = memory_below(cu, of.location);
        const auto address = cu.take_memory(below, *wanted);
        if (!address) continue;
        try {
            of.memory.release(*address, *wanted);
        } catch (...) {
            below.release(*address, *wanted);
            throw;
        }
        of.reserved.add(*wanted);
        return true;
    }
    return false;
}

// Releases unused memory, in the steps in which it was reserved, until at most `kept` bytes are reserved.
void release_down_to(driver &cu, pool &of, std::size_t kept) {
    while (of.gives_back() && of.reserved.now > kept) {
        const std::size_t largest = of.memory.largest_free();
        const bool is_unused = of.live == 0 && of.freed.empty();
        const std::size_t all = is_unused ? largest : largest / pool::step * pool::step;
        const std::size_t spare = of.reserved.now - kept;
        const std::size_t bytes = all <= spare ? all : spare / pool::step * pool::step;
        if (bytes == 0) return;
        const std::uintptr_t address = *of.memory.take(bytes);
        cu.discard_pages(address, bytes);
        memory_below(cu, of.location).release(address, bytes);
        of.reserved.now -= bytes;
    }
}

void collect_freed_blocks(driver &cu, pool &of) {
    std::erase_if(of.freed, [&](const freed_block &block) {
        if (!cu.engine.finished(block.freed)) return false;
        of.memory.release(block.address, block.size);
        return true;
    });
}

bool comes_after(const stream &next, const freed_block &block) {
    const auto known = next.after.find(block.stream);
    return known != next.after.end() && known->second >= block.number;
}

// Takes `bytes` from the smallest freed block that is large enough and that `may_be` accepts. The rest of the block
// stays freed.
template <class Condition> std::optional<freed_block> take_freed(pool &from, std::size_t bytes, Condition &&may_be) {
    auto best = from.freed.end();
    for (auto block = from.freed.begin(); block != from.freed.end(); ++block)
        if (block->size >= bytes && (best == from.freed.end() || block->size < best->size) && may_be(*block))
            best = block;
    if (best == from.freed.end()) return std::nullopt;
    freed_block taken = *best;
    taken.size = bytes;
    best->address += bytes;
    best->size -= bytes;
    if (best->size == 0) from.freed.erase(best);
    return taken;
}

// Tries sources in the manual's order: blocks whose free precedes the stream's work, blocks whose free has completed,
// new memory, and finally a block whose free the stream has to wait for.
std::uintptr_t take(driver &cu, pool &from, stream &on, std::size_t bytes) {
    const auto ordered = take_freed(from, bytes, [&](const freed_block &block) {
        return block.stream == on.id || (from.follow_event_dependencies && comes_after(on, block));
    });
    if (ordered) return ordered->address;
    if (from.allow_opportunistic) collect_freed_blocks(cu, from);
    if (const auto address = from.memory.take(bytes)) return *address;
    if (grow(cu, from, bytes)) return *from.memory.take(bytes);
    release_unused_memory(cu);
    if (grow(cu, from, bytes)) return *from.memory.take(bytes);
    require(from.allow_internal_dependencies, CUDA_ERROR_OUT_OF_MEMORY);
    from.freed.reserve(from.freed.size() + 1);
    const auto waited_for = take_freed(from, bytes, [](const freed_block &) { return true; });
    require(waited_for.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    try {
        enqueue(cu, on, {}, {waited_for->freed});
        merge(on.after, {{waited_for->stream, waited_for->number}});
    } catch (...) {
        from.freed.push_back(*waited_for);
        throw;
    }
    return waited_for->address;
}

CUresult allocate(driver &cu, CUdeviceptr *address, std::size_t bytes, pool &from, stream &on) {
    require(address && !from.exporter);
    if (bytes == 0) {
        *address = 0;
        return CUDA_SUCCESS;
    }
    if (on.capturing) {
        *address = allocate_in_capture(cu, on, from, bytes);
        return CUDA_SUCCESS;
    }
    std::size_t rounded = bytes;
    require(heap::round_up(rounded), CUDA_ERROR_OUT_OF_MEMORY);
    refuse_if_capture_forbids(cu); // seen on CUDA 13.0, H200
    enqueue(cu, on, {});           // work after the allocation must come after what the stream waited for
    const std::uintptr_t taken = take(cu, from, on, rounded);
    try {
        cu.allocations[taken] = {.address = taken,
                                 .size = bytes,
                                 .kind = from.on_device() ? allocation_kind::device : allocation_kind::host,
                                 .device = from.on_device() ? from.location.id : CU_DEVICE_CPU,
                                 .buffer_id = cu.next_id++,
                                 .pool = &from};
    } catch (...) {
        from.memory.release(taken, rounded);
        throw;
    }
    from.take_into_use(rounded);
    *address = taken;
    return CUDA_SUCCESS;
}

// The driver does not know the memory after this call. The memory is free when the free has completed on the stream.
void free_in_order(driver &cu, stream &on, std::map<std::uintptr_t, allocation>::iterator gone) {
    const allocation memory = gone->second;
    const bool serves_again = memory.pool && !memory.imported;
    std::uint64_t &number = on.after[on.id]; // nothing after the enqueue may throw
    if (serves_again)
        memory.pool->freed.reserve(memory.pool->freed.size() + 1);
    else
        cu.late_frees.reserve(cu.late_frees.size() + 1);
    const operation_ptr freed = enqueue(cu, on, {});
    ++number;
    cu.allocations.erase(gone);
    no_longer_shared(cu, memory);
    if (memory.graph) {
        memory.graph->live = false;
        memory.graph->last_use = freed;
    } else if (serves_again) {
        const std::size_t size = rounded_size(memory);
        memory.pool->freed.push_back({memory.address, size, freed, on.id, number});
        memory.pool->leave_use(size);
    } else {
        cu.late_frees.push_back({freed, memory});
    }
}

} // namespace

std::size_t rounded_size(const allocation &memory) {
    std::size_t size = memory.size;
    heap::round_up(size);
    return size;
}

heap &memory_below(driver &cu, const CUmemLocation &at) {
    if (at.type == CU_MEM_LOCATION_TYPE_DEVICE) return cu.devices[at.id].memory;
    cu.reserve_host_memory();
    return cu.host_memory;
}

void merge(frees_before &into, const frees_before &more) {
    for (const auto &[stream, number] : more) {
        std::uint64_t &known = into[stream];
        known = std::max(known, number);
    }
}

void free_to_pool(driver &cu, const allocation &memory) {
    const std::size_t size = rounded_size(memory);
    if (memory.imported)
        end_import(cu, memory);
    else
        memory.pool->memory.release(memory.address, size);
    --memory.pool->live; // but `used` keeps counting the memory (seen on CUDA 13.0, H200)
}

void collect_frees(driver &cu) {
    std::erase_if(cu.late_frees, [&](const late_free &one) {
        if (!cu.engine.finished(one.freed)) return false;
        one.memory.pool ? free_to_pool(cu, one.memory) : release(cu, one.memory);
        return true;
    });
    collect_graph_memory(cu);
    forget_unused_processes(cu);
    cu.pools.each([&](pool &one) {
        collect_freed_blocks(cu, one);
        if (one.destroyed) release_down_to(cu, one, 0);
    });
    cu.pools.remove_if([](const pool &one) { return one.destroyed && one.live == 0 && one.reserved.now == 0; });
}

void release_unused_memory(driver &cu) {
    collect_frees(cu);
    cu.pools.each([&](pool &one) { release_down_to(cu, one, 0); });
}

void after_synchronising(driver &cu) {
    collect_frees(cu);
    cu.pools.each([&](pool &one) { release_down_to(cu, one, one.release_threshold); });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t kept) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        pool &of = find_pool(cu, handle);
        require(!of.exporter);
        collect_freed_blocks(cu, of);
        release_down_to(cu, of, kept);
    });
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream handle) {
    return enter([&](driver &cu) {
        stream &on = find_stream(cu, handle);
        return allocate(cu, address, bytes, *cu.devices[on.owner->device].pools.current, on);
    });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream handle) {
    return enter([&](driver &cu) { //
        return allocate(cu, address, bytes, find_pool(cu, pool), find_stream(cu, handle));
    });
}

// The call also accepts cuMemAlloc memory (seen on CUDA 13.0, H200).
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
    return enter([&](driver &cu) {
        stream &on = find_stream(cu, handle);
        if (!address) return;
        const auto found = cu.allocations.find(address);
        require(found != cu.allocations.end());
        const allocation &memory = found->second;
        require(memory.is_stream_ordered() || (memory.kind == allocation_kind::device && !memory.imported));
        if (on.capturing) return free_in_capture(cu, on, memory);
        require(!memory.awaits_launch());
        free_in_order(cu, on, found);
    });
}

} // namespace ferry::softdriver
