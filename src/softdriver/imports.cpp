// Memory of other processes, mapped at device addresses of this process, and the memory and events that this process
// publishes.
#include "softdriver/state.h"

#include "system/pages.h"

namespace ferry::softdriver {

std::uint32_t publish(driver &cu, shared_kind kind, int device) {
    return publish(cu, kind, {.address = device_window.begin, .device = device});
}

std::uint32_t publish(driver &cu, shared_kind kind, const allocation &memory, std::uint64_t pool) {
    require(cu.device_file() >= 0, CUDA_ERROR_NOT_SUPPORTED);
    if (!cu.own) cu.own = shared_process::make_own(cu.device_file(), cu.settings.devices * cu.settings.device_memory);
    const auto at = cu.own->publish(kind, memory.device, memory.address - device_window.begin, memory.size, pool);
    require(at.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    return *at;
}

void no_longer_shared(driver &cu, const allocation &memory) {
    if (memory.shared_at) cu.own->retire(*memory.shared_at);
}

// A process's file is opened only once, and its last user does not close it; forget_unused_processes() does. Closing
// any descriptor of the file would release the locks on it (sharing.cpp).
std::shared_ptr<shared_process> find_process(driver &cu, const shared_name &name) {
    if (cu.own && cu.own->is_named_by(name)) return cu.own;
    if (name.process == own_number()) return nullptr;
    forget_unused_processes(cu);
    for (const auto &known : cu.others) {
        if (known->is_named_by(name)) return known;
        if (known->is_same_file(name)) return nullptr;
    }
    cu.others.reserve(cu.others.size() + 1);
    auto found = shared_process::open(name);
    if (found) cu.others.push_back(found);
    return found;
}

void forget_unused_processes(driver &cu) {
    std::erase_if(cu.others, [](const auto &one) { return one.use_count() == 1; });
}

std::uintptr_t import_memory(driver &cu, const std::shared_ptr<shared_process> &from, const shared_slot &what,
                             allocation like) {
    require(what.device >= 0 && static_cast<std::size_t>(what.device) < cu.devices.size());
    require(what.size != 0 && what.offset <= from->memory_size() && what.size <= from->memory_size() - what.offset);
    const std::uint64_t page = page_size();
    const std::uint64_t begin = what.offset / page * page;
    const std::uint64_t end = (what.offset + what.size + page - 1) / page * page;
    auto made = std::make_shared<import>();
    made->from = from;
    made->serial = what.serial;
    made->mapped_size = end - begin;
    made->mapped_at = cu.map_import(from->file(), begin, made->mapped_size);
    like.address = made->mapped_at + (what.offset - begin);
    like.size = what.size;
    like.buffer_id = cu.next_id++;
    like.imported = made;
    try {
        cu.allocations[like.address] = like;
    } catch (...) {
        cu.unmap_import(made->mapped_at, made->mapped_size);
        throw;
    }
    return like.address;
}

void end_import(driver &cu, const allocation &gone) {
    cu.unmap_import(gone.imported->mapped_at, gone.imported->mapped_size);
}

} // namespace ferry::softdriver
