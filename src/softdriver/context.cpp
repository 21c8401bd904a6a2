// Contexts: each device's primary context, created contexts, and each thread's stack of current contexts.
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

namespace {

// The stack has a fixed depth and no destructor, because a destructor could run after the library was unloaded.
// It is small because the C library allocates it from the stack of every thread of the process.
constexpr unsigned deepest = 128;
thread_local CUcontext stack[deepest];
thread_local unsigned depth = 0;

void push(CUcontext context) {
    require(depth < deepest, CUDA_ERROR_OUT_OF_MEMORY);
    stack[depth++] = context;
}

context &find(driver &cu, CUcontext handle) {
    context *const found = cu.contexts.find(handle);
    require(found, CUDA_ERROR_INVALID_CONTEXT);
    return *found;
}

context &create(driver &cu, int device, unsigned flags, bool primary) {
    auto made = std::make_unique<context>();
    made->device = device;
    made->flags = flags;
    made->primary = primary;
    made->legacy.owner = made.get();
    made->legacy.handle = CU_STREAM_LEGACY;
    made->legacy.queue = cu.devices[device].next_queue++ % cu.settings.hardware_queues;
    context &kept = *made;
    kept.handle = primary ? cu.devices[device].primary : reinterpret_cast<CUcontext>(next_handle());
    cu.contexts.add(std::move(made), kept.handle);
    return kept;
}

} // namespace

context &current_context(driver &cu) {
    require(depth != 0 && stack[depth - 1], CUDA_ERROR_INVALID_CONTEXT);
    context *const found = cu.contexts.find(stack[depth - 1]); // it was valid when it became current
    require(found, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    found->require_sound();
    return *found;
}

const context *find_current_context(driver &cu) {
    return depth != 0 && stack[depth - 1] ? cu.contexts.find(stack[depth - 1]) : nullptr;
}

void destroy_context(driver &cu, context &gone) {
    for (const stream *one : gone.streams)
        if (const capture_ptr held = one->capturing) {
            held->invalidated = true;
            if (held->origin->owner == &gone) end_capture(cu, *held);
        }
    wait_for_devices(cu, ~std::uint64_t{0}); // any device may be copying from the context's pinned memory
    for (auto next = cu.allocations.begin(); next != cu.allocations.end();) {
        const auto memory = next++;
        if (memory->second.owner == gone.handle) release(cu, memory);
    }
    cu.surfaces.remove_if([&](const surface &one) { return one.owner == gone.handle; });
    cu.arrays.remove_if([&](const array &one) { return one.owner == &gone; });
    cu.mipmapped_arrays.remove_if([&](const mipmapped_array &one) { return one.owner == &gone; });
    cu.external_memories.remove_if([&](const external_memory &one) { return one.owner == &gone; });
    cu.external_semaphores.remove_if([&](const external_semaphore &one) { return one.owner == &gone; });
    cu.events.remove_if([&](const event &one) { return one.owner == &gone; });
    cu.streams.remove_if([&](const stream &one) { return one.owner == &gone; });
    cu.contexts.each([&](context &other) { std::erase(other.peers, gone.handle); });
    cu.contexts.remove(gone.handle);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(handle);
        device &one = find_device(cu, ordinal);
        if (one.primary_retained == 0) create(cu, ordinal, 0, true);
        ++one.primary_retained;
        *handle = one.primary;
    });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
    return enter([&](driver &cu) {
        device &one = find_device(cu, ordinal);
        require(one.primary_retained != 0, CUDA_ERROR_INVALID_CONTEXT);
        if (one.primary_retained == 1) destroy_context(cu, find(cu, one.primary));
        --one.primary_retained;
    });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active) {
    return enter([&](driver &cu) {
        require(flags && active);
        *active = find_device(cu, ordinal).primary_retained != 0;
        *flags = 0;
    });
}

CUresult cuCtxCreate(CUcontext *handle, unsigned flags, CUdevice ordinal) {
    return enter([&](driver &cu) {
        require(handle && !(flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)));
        find_device(cu, ordinal);
        require(depth < deepest, CUDA_ERROR_OUT_OF_MEMORY);
        *handle = create(cu, ordinal, flags, false).handle;
        push(*handle);
    });
}

CUresult cuCtxDestroy(CUcontext handle) {
    return enter([&](driver &cu) {
        context &gone = find(cu, handle);
        require(!gone.primary, CUDA_ERROR_INVALID_CONTEXT);
        destroy_context(cu, gone);
        if (depth != 0 && stack[depth - 1] == handle) --depth;
    });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
    return enter_query([&](driver &cu) {
        require(handle);
        push(find(cu, handle).handle);
    });
}

CUresult cuCtxPopCurrent(CUcontext *handle) {
    return enter_query([&](driver &) {
        require(depth != 0, CUDA_ERROR_INVALID_CONTEXT);
        --depth;
        if (handle) *handle = stack[depth];
    });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
    return enter_query([&](driver &cu) {
        if (!handle) {
            if (depth != 0) --depth;
            return;
        }
        find(cu, handle);
        if (depth == 0) push(handle);
        stack[depth - 1] = handle;
    });
}

CUresult cuCtxGetCurrent(CUcontext *handle) {
    return enter_query([&](driver &) {
        require(handle);
        *handle = depth == 0 ? nullptr : stack[depth - 1];
    });
}

CUresult cuCtxGetDevice(CUdevice *ordinal) {
    return enter_context([&](driver &, context &current) {
        require(ordinal);
        *ordinal = current.device;
    });
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
    return enter_query([&](driver &cu) {
        require(id);
        *id = handle ? find(cu, handle).id : current_context(cu).id;
    });
}

CUresult cuCtxGetFlags(unsigned *flags) {
    return enter_context([&](driver &, context &current) {
        require(flags);
        *flags = current.flags;
    });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    return enter_context([&](driver &, context &) {
        if (least) *least = 0;
        if (greatest) *greatest = greatest_priority;
    });
}

CUresult cuCtxSynchronize() {
    return enter_to_synchronise([&](driver &cu) {
        const context &current = current_context(cu);
        for (const stream *one : current.streams)
            if (one->capturing) invalidate(*one->capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        refuse_if_capture_forbids(cu);
        return work_of(current);
    });
}

} // namespace ferry::softdriver
