// Memory that graphs allocate and free. A graph owns its addresses from its capture until it is destroyed. A launch
// allocates the memory there for the program, until the graph or the program frees it.
#include "softdriver/state.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

void make_known(driver &cu, graph_memory &memory) {
    const bool on_device = memory.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    cu.allocations[memory.address] = {.address = memory.address,
                                      .size = memory.size,
                                      .kind = on_device ? allocation_kind::device : allocation_kind::host,
                                      .device = on_device ? memory.location.id : CU_DEVICE_CPU,
                                      .buffer_id = cu.next_id++,
                                      .graph = &memory};
}

bool contains(const std::vector<graph_memory_ptr> &all, const graph_memory *one) {
    return std::any_of(all.begin(), all.end(), [&](const auto &other) { return other.get() == one; });
}

} // namespace

std::uintptr_t allocate_in_capture(driver &cu, stream &on, const pool &like, std::size_t bytes) {
    heap &below = memory_below(cu, like.location);
    auto memory = std::make_shared<graph_memory>();
    memory->size = bytes;
    memory->location = like.location;
    memory->accessible_from = like.accessible_from;
    cu.of_graphs.reserve(cu.of_graphs.size() + 1);
    on.capturing->allocates.reserve(on.capturing->allocates.size() + 1);
    const auto address = cu.take_memory(below, bytes);
    require(address.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    memory->address = *address;
    cu.of_graphs.push_back(memory); // from here on, collect_graph_memory() frees it if an exception is thrown
    add_to_capture(on, {});
    make_known(cu, *memory);
    on.capturing->allocates.push_back(std::move(memory));
    return *address;
}

// The manual says that a captured free must get the address of a graph's allocation.
void free_in_capture(driver &cu, stream &on, const allocation &memory) {
    require(memory.graph);
    const auto shared = std::find_if(cu.of_graphs.begin(), cu.of_graphs.end(),
                                     [&](const auto &one) { return one.get() == memory.graph; });
    capture &into = *on.capturing;
    into.frees.push_back(*shared);
    try {
        add_to_capture(on, {});
    } catch (...) {
        into.frees.pop_back();
        throw;
    }
    if (contains(into.allocates, memory.graph)) cu.allocations.erase(memory.address);
}

// A graph cannot run again until the memory that its last launch left to the program is freed.
void require_launchable(const graph &runs, const stream &on, bool frees_on_launch) {
    const bool has_memory = !runs.allocates.empty() || !runs.frees.empty();
    require(!has_memory || !on.capturing, CUDA_ERROR_NOT_SUPPORTED);
    for (const graph_memory_ptr &memory : runs.allocates)
        require(!memory->live || frees_on_launch);
    for (const graph_memory_ptr &memory : runs.frees)
        require(memory->live || contains(runs.allocates, memory.get()));
}

void note_memory_of_launch(driver &cu, const graph &launched, const stream &on) {
    for (const graph_memory_ptr &memory : launched.allocates) {
        memory->last_use = on.last;
        memory->live = !contains(launched.frees, memory.get());
        if (memory->live && !cu.allocations.count(memory->address)) make_known(cu, *memory);
    }
    for (const graph_memory_ptr &memory : launched.frees) {
        memory->last_use = on.last;
        memory->live = false;
        cu.allocations.erase(memory->address);
    }
}

void collect_graph_memory(driver &cu) {
    std::erase_if(cu.of_graphs, [&](const graph_memory_ptr &memory) {
        if (memory.use_count() != 1 || memory->live || !cu.engine.finished(memory->last_use)) return false;
        const auto known = cu.allocations.find(memory->address);
        if (known != cu.allocations.end() && known->second.graph == memory.get()) cu.allocations.erase(known);
        cu.discard_pages(memory->address, memory->size);
        memory_below(cu, memory->location).release(memory->address, memory->size);
        return true;
    });
}

} // namespace ferry::softdriver
