// Legacy IPC: 64-byte handles for cuMemAlloc memory and for events, which any other process on the machine can open.
// Where the manual is silent, the behaviour is as seen on H200s (docs/driver.md).
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

namespace {

constexpr unsigned event_flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

// Finds the memory in the context that opened it. Within a context, memory is mapped once and its openings are counted;
// each context has its own mapping.
allocation *find_opened(driver &cu, const context &by, const shared_process &from, std::uint64_t serial) {
    for (auto &[address, memory] : cu.allocations)
        if (memory.imported && !memory.pool && memory.owner == by.handle && memory.imported->from.get() == &from &&
            memory.imported->serial == serial)
            return &memory;
    return nullptr;
}

} // namespace

// The handle identifies the whole allocation, even if the address is inside it.
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    return enter([&](driver &cu) {
        require(handle);
        const auto known = find_allocation(cu, address);
        require(known && known->kind == allocation_kind::device && !known->is_stream_ordered() && !known->imported);
        allocation &memory = cu.allocations.at(known->address);
        if (!memory.shared_at) memory.shared_at = publish(cu, shared_kind::memory, memory);
        cu.own->name_of(*memory.shared_at).write_to(*handle);
    });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {
    return enter_context([&](driver &cu, context &current) {
        require(address && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        const auto name = shared_name::read_from(handle, shared_kind::memory);
        require(name.has_value());
        const auto from = find_process(cu, *name);
        require(from && from->is_alive());
        require(!from->is_own(), CUDA_ERROR_INVALID_CONTEXT);
        const shared_slot *const what = from->find(*name);
        require(what);
        if (allocation *const opened = find_opened(cu, current, *from, name->serial)) {
            ++opened->imported->opened;
            *address = opened->address;
            return;
        }
        *address = import_memory(cu, from, *what, {.device = current.device, .owner = current.handle});
    });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    return enter([&](driver &cu) {
        refuse_if_capture_forbids(cu);
        const auto found = cu.allocations.find(address);
        require(found != cu.allocations.end() && found->second.imported && !found->second.pool);
        if (--found->second.imported->opened != 0) return;
        wait_for_devices(cu, ~std::uint64_t{0});
        release(cu, found);
    });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent of) {
    return enter([&](driver &cu) {
        require(handle);
        const event *const shared = cu.events.find(of);
        require(shared && shared->shared && shared->shared->is_own(), CUDA_ERROR_INVALID_HANDLE);
        shared->shared->name().write_to(*handle);
    });
}

// The handle of a destroyed event can be opened, and such an event counts as complete.
CUresult cuIpcOpenEventHandle(CUevent *opened, CUipcEventHandle handle) {
    return enter_context([&](driver &cu, context &current) {
        require(opened);
        const auto name = shared_name::read_from(handle, shared_kind::event);
        require(name.has_value(), CUDA_ERROR_MAP_FAILED);
        const auto from = find_process(cu, *name);
        require(from && from->is_alive(), CUDA_ERROR_MAP_FAILED);
        require(!from->is_own(), CUDA_ERROR_INVALID_CONTEXT);
        require(name->slot < shared_page::max_slots && name->serial != 0, CUDA_ERROR_MAP_FAILED);
        auto made = std::make_unique<event>();
        made->owner = &current;
        made->flags = event_flags;
        made->shared = std::make_shared<shared_event>(from, *name);
        event &kept = *made;
        *opened = kept.handle = cu.events.add(std::move(made));
    });
}

} // namespace ferry::softdriver
