// Memory and semaphores of graphics APIs that run on the CPU. Memory is a file, which is mapped for each address and
// each array. A semaphore is a file that begins with its value; tests make such files. As with NVIDIA's driver (CUDA
// 13.0, H200) a descriptor is closed even if it is rejected, and memory and semaphores are not distinguished.
#include "softdriver/arrays.h"
#include "softdriver/entry.h"
#include "softdriver/state.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/atomic_word.h"
#include "system/pages.h"

namespace ferry::softdriver {

namespace {

constexpr std::uint64_t semaphore_file_size = sizeof(std::uint64_t);

external_memory &find(driver &cu, CUexternalMemory handle) {
    external_memory *const found = cu.external_memories.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

std::shared_ptr<external_mapping> map(driver &cu, const external_file &file, std::uint64_t offset, std::uint64_t size) {
    const std::uint64_t page = page_size(), at = file.begin() + offset;
    const std::uint64_t begin = at / page * page, end = (at + size + page - 1) / page * page;
    auto made = std::make_shared<external_mapping>(cu);
    made->mapped_at = cu.map_import(file.descriptor(), begin, end - begin);
    made->mapped_size = end - begin;
    made->address = made->mapped_at + (at - begin);
    return made;
}

// The value, as long as the operation needs it.
struct semaphore_value {
    atomic_word<std::uint64_t> word() const noexcept {
        return atomic_word(*reinterpret_cast<std::uint64_t *>(reach(mapping->address)));
    }
    std::shared_ptr<external_mapping> mapping;
};

external_semaphore &find(driver &cu, CUexternalSemaphore handle) {
    external_semaphore *const found = cu.external_semaphores.find(handle);
    require(found, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

// Like a kernel, a wait blocks its hardware queue.
work wait_for(const external_semaphore &semaphore, std::uint64_t wanted, const stream &on) {
    work waits;
    waits.body = [value = semaphore_value{semaphore.mapping}, is_timeline = semaphore.is_timeline, wanted,
                  broken = on.owner->broken] {
        constexpr std::chrono::microseconds between_looks{5};
        while (!broken->has_happened()) {
            std::uint64_t found = value.word().load(std::memory_order_acquire);
            if (is_timeline ? found >= wanted
                            : found != 0 && value.word().compare_exchange(found, found - 1, std::memory_order_acq_rel))
                return;
            std::this_thread::sleep_for(between_looks);
        }
    };
    return waits;
}

work signal(const external_semaphore &semaphore, std::uint64_t wanted, const stream &on) {
    work signals;
    signals.body = [value = semaphore_value{semaphore.mapping}, is_timeline = semaphore.is_timeline, wanted,
                    broken = on.owner->broken] {
        if (broken->has_happened()) return;
        std::uint64_t found = value.word().load(std::memory_order_relaxed);
        while (!value.word().compare_exchange(found, is_timeline ? wanted : found + 1, std::memory_order_release)) {
        }
    };
    return signals;
}

template <class Parameters, class Make>
CUresult enqueue_all(const CUexternalSemaphore *handles, const Parameters *parameters, unsigned count, CUstream handle,
                     const Make &make) {
    return enter([&](driver &cu) {
        require(handles && parameters && count != 0);
        stream &on = find_stream(cu, handle);
        std::vector<work> all;
        for (unsigned i = 0; i < count; ++i) {
            require(parameters[i].flags == 0);
            all.push_back(make(find(cu, handles[i]), parameters[i].params.fence.value, on));
        }
        for (work &one : all)
            enqueue(cu, on, std::move(one));
    });
}

} // namespace

external_mapping::~external_mapping() {
    if (mapped_size) cu.unmap_import(mapped_at, mapped_size);
}

CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *given) {
    return enter_context([&](driver &cu, context &current) {
        require(memory && given && given->size != 0 && !(given->flags & ~unsigned{CUDA_EXTERNAL_MEMORY_DEDICATED}));
        require(given->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, CUDA_ERROR_NOT_SUPPORTED);
        auto file = std::make_unique<external_file>(given->handle.fd);
        require(file->size() != 0, CUDA_ERROR_INVALID_HANDLE); // mapping finds out whether it is large enough
        auto made = std::make_unique<external_memory>();
        made->owner = &current;
        made->size = given->size;
        made->file = std::move(file);
        *memory = cu.external_memories.add(std::move(made));
    });
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *asked) {
    return enter_context([&](driver &cu, context &current) {
        const external_memory &memory = find(cu, handle);
        require(address && asked && asked->flags == 0 && asked->size != 0);
        const std::uint64_t size = std::min(memory.size, memory.file->size());
        require(asked->offset <= size && asked->size <= size - asked->offset);
        auto mapping = map(cu, *memory.file, asked->offset, asked->size);
        const std::uintptr_t at = mapping->address;
        cu.allocations[at] = {.address = at,
                              .size = asked->size,
                              .device = current.device,
                              .owner = current.handle,
                              .buffer_id = cu.next_id++,
                              .external = std::move(mapping)};
        *address = at;
    });
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *array, CUexternalMemory handle,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *asked) {
    return enter_context([&](driver &cu, context &current) {
        const external_memory &memory = find(cu, handle);
        require(array && asked && asked->numLevels != 0);
        const std::uint64_t all = std::min(memory.size, memory.file->size());
        *array = make_mipmapped_array(cu, current, asked->arrayDesc, asked->numLevels, [&](std::size_t size) {
            require(asked->offset <= all && size <= all - asked->offset);
            return map(cu, *memory.file, asked->offset, size);
        });
    });
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
    return enter([&](driver &cu) { require(cu.external_memories.remove(handle), CUDA_ERROR_INVALID_HANDLE); });
}

CUresult cuImportExternalSemaphore(CUexternalSemaphore *semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *given) {
    return enter_context([&](driver &cu, context &current) {
        require(semaphore && given && given->flags == 0);
        const bool is_timeline = given->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
        require(is_timeline || given->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, CUDA_ERROR_NOT_SUPPORTED);
        external_file file(given->handle.fd);
        require(file.size() >= semaphore_file_size, CUDA_ERROR_INVALID_HANDLE);
        auto made = std::make_unique<external_semaphore>();
        made->owner = &current;
        made->is_timeline = is_timeline;
        made->mapping = map(cu, file, 0, semaphore_file_size);
        *semaphore = cu.external_semaphores.add(std::move(made));
    });
}

CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *handles,
                                         const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *parameters, unsigned count,
                                         CUstream on) {
    return enqueue_all(handles, parameters, count, on, signal);
}

CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *handles,
                                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *parameters, unsigned count,
                                       CUstream on) {
    return enqueue_all(handles, parameters, count, on, wait_for);
}

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore handle) {
    return enter([&](driver &cu) { require(cu.external_semaphores.remove(handle), CUDA_ERROR_INVALID_HANDLE); });
}

// A LUID exists only on Windows.
CUresult cuDeviceGetLuid(char *, unsigned *, CUdevice) {
    return enter([](driver &) { return CUDA_ERROR_NOT_SUPPORTED; });
}

} // namespace ferry::softdriver
