#include "memory/external.h"

#include <algorithm>

#include "device/capture_mode.h"
#include "driver/result.h"
#include "memory/arrays.h"
#include "system/handles.h"

namespace ferry {

namespace {

static_assert(FERRY_EXTERNAL_OPAQUE_FD == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
              FERRY_EXTERNAL_OPAQUE_WIN32 == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32 &&
              FERRY_EXTERNAL_OPAQUE_WIN32_KMT == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT &&
              FERRY_EXTERNAL_D3D12_HEAP == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP &&
              FERRY_EXTERNAL_D3D12_RESOURCE == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE &&
              FERRY_EXTERNAL_D3D11_RESOURCE == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE &&
              FERRY_EXTERNAL_D3D11_RESOURCE_KMT == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT);
static_assert(FERRY_SEMAPHORE_OPAQUE_FD == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD &&
              FERRY_SEMAPHORE_OPAQUE_WIN32 == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32 &&
              FERRY_SEMAPHORE_OPAQUE_WIN32_KMT == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT &&
              FERRY_SEMAPHORE_D3D12_FENCE == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE &&
              FERRY_SEMAPHORE_D3D11_FENCE == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE &&
              FERRY_SEMAPHORE_D3D11_KEYED_MUTEX == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX &&
              FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT &&
              FERRY_SEMAPHORE_TIMELINE_FD == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD &&
              FERRY_SEMAPHORE_TIMELINE_WIN32 == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32);
static_assert(FERRY_EXTERNAL_DEDICATED == CUDA_EXTERNAL_MEMORY_DEDICATED);
static_assert(FERRY_ARRAY_COLOR_ATTACHMENT == CUDA_ARRAY3D_COLOR_ATTACHMENT);

constexpr error unknown_handle = {FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE};

// How the system names an object of a type.
enum class naming : std::uint8_t {
    none,       // there is no such type
    descriptor, // of a file
    handle,     // of Windows, or a name in its place
    number,     // of Windows, valid in all processes: KMT
};
constexpr naming memory_namings[] = {naming::none,   naming::descriptor, naming::handle, naming::number,
                                     naming::handle, naming::handle,     naming::handle, naming::number};
constexpr naming semaphore_namings[] = {naming::none,   naming::descriptor, naming::handle, naming::number,
                                        naming::handle, naming::handle,     naming::none,   naming::handle,
                                        naming::number, naming::descriptor, naming::handle};

template <std::size_t count> naming naming_of(const naming (&all)[count], std::int32_t type) noexcept {
    return type > 0 && static_cast<std::size_t>(type) < count ? all[type] : naming::none;
}

// Checks what the driver would get wrong or not report: it takes a descriptor to be the one it once exported.
error check_handle(naming as, std::int32_t type, std::int64_t handle, const void *name) noexcept {
    const auto given = static_cast<std::uint64_t>(handle);
    if (as == naming::none)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HANDLE_TYPES, 0,
                             static_cast<std::uint64_t>(type));
    const bool is_of_this_system = (as == naming::descriptor) == has_descriptors;
    if (!is_of_this_system)
        return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPES, 0, static_cast<std::uint64_t>(type));
    const bool is_named = name && as == naming::handle && handle == 0;
    if (name && !is_named) return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_OS_HANDLE, 0, given);
    if (!is_named && as != naming::number && !is_open_handle(handle))
        return refuse_option(FERRY_ERROR_HANDLE, FERRY_FIELD_OS_HANDLE, 0, given);
    return {};
}

// The handle as a call of the driver gets it. The driver closes a descriptor even where it refuses it (CUDA 13.0, seen
// for a pipe), so it gets a duplicate, and the caller's is closed only once the driver has taken that.
class given_handle {
public:
    template <class Call>
    given_handle(Call &call, naming as, std::int64_t handle, const void *name) noexcept
        : is_descriptor_(as == naming::descriptor), own_(static_cast<int>(handle)) {
        if (is_descriptor_) {
            call.handle.fd = duplicate_ = duplicate_descriptor(own_);
        } else {
            call.handle.win32.handle = reinterpret_cast<void *>(static_cast<std::uintptr_t>(handle));
            call.handle.win32.name = name;
        }
    }
    given_handle(const given_handle &) = delete;
    ~given_handle() {
        if (duplicate_ < 0) return;
        if (is_taken_)
            close_descriptor(own_);
        else
            close_duplicate(duplicate_, own_);
    }
    explicit operator bool() const noexcept { return !is_descriptor_ || duplicate_ >= 0; }
    void take() noexcept { is_taken_ = true; }

private:
    bool is_descriptor_, is_taken_ = false;
    int own_, duplicate_ = -1;
};

// What a driver says of an import after the checks: only the handle can be at fault. The limit is its own result.
error explain_import(CUresult result, std::int64_t handle) noexcept {
    switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_UNKNOWN:
        return refuse_option(FERRY_ERROR_HANDLE, FERRY_FIELD_OS_HANDLE, static_cast<std::uint64_t>(result),
                             static_cast<std::uint64_t>(handle));
    default:
        return to_error(result);
    }
}

template <class Records, class Handle> auto *find_by_handle(Records &all, Handle handle) noexcept {
    const auto found = std::find_if(all.begin(), all.end(), [=](const auto &one) { return one.handle == handle; });
    return found == all.end() ? nullptr : found;
}

template <class Records, class Is> void remove_if(Records &all, const Is &is) noexcept {
    for (std::size_t i = all.size(); i-- != 0;)
        if (is(all[i])) all.remove(i);
}

} // namespace

error external_objects::enter(int device, context_scope &scope, CUcontext &context) noexcept {
    if (error failed = contexts_.get(device, context)) return failed;
    return scope.enter(context);
}

// ---- Memory

error external_objects::import_memory(const ferry_external_memory_desc &desc, CUexternalMemory &memory) noexcept {
    const naming as = naming_of(memory_namings, desc.handle_type);
    if (error failed = check_handle(as, desc.handle_type, desc.handle, desc.name)) return failed;
    if (desc.size == 0) return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SIZE, 1);
    if (desc.flags & ~FERRY_EXTERNAL_DEDICATED)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, 0, desc.flags);
    if (!cu_.cuImportExternalMemory || !cu_.cuDestroyExternalMemory) return {.status = FERRY_ERROR_UNSUPPORTED};
    context_scope scope(cu_);
    made_memory made = {.handle = nullptr, .context = nullptr, .device = desc.device, .size = desc.size, .address = 0};
    if (error failed = enter(desc.device, scope, made.context)) return failed;
    const lock_guard lock(mutex_);
    if (!memories_.reserve(memories_.size() + 1)) return no_memory; // before the driver takes the handle
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC call = {};
    call.type = static_cast<CUexternalMemoryHandleType>(desc.handle_type);
    call.size = desc.size;
    call.flags = desc.flags;
    given_handle given(call, as, desc.handle, desc.name);
    if (!given) return no_memory; // the process has no descriptor left
    if (CUresult result = cu_.cuImportExternalMemory(&made.handle, &call)) return explain_import(result, desc.handle);
    if (error failed = map_all(desc, made)) {
        cu_.cuDestroyExternalMemory(made.handle);
        return failed;
    }
    given.take();
    memories_.append_reserved(made);
    memory = made.handle;
    return {};
}

bool external_objects::find(CUexternalMemory memory, made_memory &found) noexcept {
    const lock_guard lock(mutex_);
    const made_memory *const known = find_by_handle(memories_, memory);
    if (known) found = *known;
    return known;
}

// Maps all of the memory at once: the driver imports any size, and refuses it only here (CUDA 13.0).
error external_objects::map_all(const ferry_external_memory_desc &desc, made_memory &made) noexcept {
    if (!cu_.cuExternalMemoryGetMappedBuffer) return {.status = FERRY_ERROR_UNSUPPORTED};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC call = {};
    call.size = desc.size;
    CUdeviceptr address = 0;
    const CUresult result = cu_.cuExternalMemoryGetMappedBuffer(&address, made.handle, &call);
    made.address = address;
    const bool is_resource = desc.handle_type == FERRY_EXTERNAL_D3D12_RESOURCE ||
                             desc.handle_type == FERRY_EXTERNAL_D3D11_RESOURCE ||
                             desc.handle_type == FERRY_EXTERNAL_D3D11_RESOURCE_KMT;
    if (result == CUDA_ERROR_INVALID_VALUE && is_resource) return {}; // a texture
    if (result == CUDA_ERROR_INVALID_VALUE)
        return refuse_option(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_SIZE, 0, desc.size);
    return to_error(result);
}

bool external_objects::is_part(std::uint64_t address) noexcept {
    const lock_guard lock(mutex_);
    return std::any_of(memories_.begin(), memories_.end(),
                       [&](const made_memory &one) { return one.address != 0 && address - one.address < one.size; });
}

bool external_objects::is_part(CUmipmappedArray array) noexcept {
    const lock_guard lock(mutex_);
    return std::any_of(images_.begin(), images_.end(), [&](const made_image &one) { return one.array == array; });
}

error external_objects::get_address(CUexternalMemory memory, std::uint64_t offset, std::uint64_t size,
                                    std::uint64_t &address) noexcept {
    made_memory of;
    if (!find(memory, of)) return unknown_handle;
    if (offset >= of.size)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, of.size, offset);
    const std::uint64_t most = of.size - offset;
    if (size > most) return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, most, size);
    if (of.address == 0) return {.status = FERRY_ERROR_UNSUPPORTED};
    address = of.address + offset;
    return {};
}

error external_objects::get_array(CUexternalMemory memory, std::uint64_t offset, const ferry_array_desc &desc,
                                  std::uint32_t levels, CUmipmappedArray &array) noexcept {
    made_memory of;
    if (!find(memory, of)) return unknown_handle;
    if (levels == 0) levels = 1;
    const std::uint64_t needed = array_bytes(desc, levels); // at least
    if (offset >= of.size || needed > of.size - offset)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, of.size, offset + needed);
    context_scope scope(cu_);
    if (error failed = scope.enter(of.context)) return failed;
    const lock_guard lock(mutex_);
    if (!images_.reserve(images_.size() + 1)) return no_memory;
    made_image made = {.of = memory, .array = nullptr};
    if (error failed = map_mipmapped_array(cu_, memory, offset, desc, levels, made.array)) return failed;
    images_.append_reserved(made);
    const made_array as = {
        .context = of.context, .device = of.device, .is_mipmapped = true, .levels = levels, .desc = desc};
    arrays_.note(made.array, as);
    array = made.array;
    return {};
}

error external_objects::destroy_images(CUexternalMemory of) noexcept {
    for (;;) {
        made_image gone = {};
        {
            const lock_guard lock(mutex_);
            const auto found =
                std::find_if(images_.begin(), images_.end(), [&](const made_image &one) { return one.of == of; });
            if (found == images_.end()) return {};
            gone = *found;
            images_.remove(static_cast<std::size_t>(found - images_.begin()));
        }
        if (error failed = arrays_.destroy(gone.array)) {
            const lock_guard lock(mutex_);
            images_.append_reserved(gone);
            return failed;
        }
    }
}

// Ends the parts first, as the driver demands. What cannot be ended stays, and so does the import.
error external_objects::release_memory(CUexternalMemory memory) noexcept {
    made_memory of;
    if (!find(memory, of)) return unknown_handle;
    context_scope scope(cu_);
    if (error failed = scope.enter(of.context)) return failed;
    if (error failed = destroy_images(memory)) return failed;
    if (of.address != 0) {
        if (CUresult result = cu_.cuMemFree(of.address)) return to_error(result);
        const lock_guard lock(mutex_);
        if (made_memory *const known = find_by_handle(memories_, memory)) known->address = 0;
    }
    if (CUresult result = cu_.cuDestroyExternalMemory(memory)) return to_error(result);
    const lock_guard lock(mutex_);
    remove_if(memories_, [&](const made_memory &one) { return one.handle == memory; });
    return {};
}

// ---- Semaphores

error external_objects::import_semaphore(const ferry_external_semaphore_desc &desc,
                                         CUexternalSemaphore &semaphore) noexcept {
    const naming as = naming_of(semaphore_namings, desc.handle_type);
    if (error failed = check_handle(as, desc.handle_type, desc.handle, desc.name)) return failed;
    if (desc.reserved) return refuse_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED, 0, desc.reserved);
    if (!cu_.cuImportExternalSemaphore || !cu_.cuDestroyExternalSemaphore) return {.status = FERRY_ERROR_UNSUPPORTED};
    context_scope scope(cu_);
    made_semaphore made = {.handle = nullptr, .context = nullptr, .device = desc.device, .type = desc.handle_type};
    if (error failed = enter(desc.device, scope, made.context)) return failed;
    const lock_guard lock(mutex_);
    if (!semaphores_.reserve(semaphores_.size() + 1)) return no_memory;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC call = {};
    call.type = static_cast<CUexternalSemaphoreHandleType>(desc.handle_type);
    given_handle given(call, as, desc.handle, desc.name);
    if (!given) return no_memory;
    if (CUresult result = cu_.cuImportExternalSemaphore(&made.handle, &call))
        return explain_import(result, desc.handle);
    given.take();
    semaphores_.append_reserved(made);
    semaphore = made.handle;
    return {};
}

bool external_objects::find(CUexternalSemaphore semaphore, made_semaphore &found) noexcept {
    const lock_guard lock(mutex_);
    const made_semaphore *const known = find_by_handle(semaphores_, semaphore);
    if (known) found = *known;
    return known;
}

namespace {

bool is_keyed_mutex(std::int32_t type) noexcept {
    return type == FERRY_SEMAPHORE_D3D11_KEYED_MUTEX || type == FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT;
}

} // namespace

error external_objects::signal(CUexternalSemaphore semaphore, std::uint64_t value, CUstream stream) noexcept {
    made_semaphore of;
    if (!find(semaphore, of)) return unknown_handle;
    context_choice choice;
    if (error failed = choose_context_on(cu_, contexts_, stream, of.device, choice)) return failed;
    context_scope scope(cu_);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS call = {};
    (is_keyed_mutex(of.type) ? call.params.keyedMutex.key : call.params.fence.value) = value;
    return {.status = call_optional(cu_.cuSignalExternalSemaphoresAsync, &semaphore, &call, 1U, stream)};
}

error external_objects::wait(CUexternalSemaphore semaphore, std::uint64_t value, std::uint32_t timeout_ms,
                             CUstream stream) noexcept {
    made_semaphore of;
    if (!find(semaphore, of)) return unknown_handle;
    context_choice choice;
    if (error failed = choose_context_on(cu_, contexts_, stream, of.device, choice)) return failed;
    context_scope scope(cu_);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS call = {};
    if (is_keyed_mutex(of.type)) {
        call.params.keyedMutex.key = value;
        call.params.keyedMutex.timeoutMs = timeout_ms;
    } else {
        call.params.fence.value = value;
    }
    return {.status = call_optional(cu_.cuWaitExternalSemaphoresAsync, &semaphore, &call, 1U, stream)};
}

error external_objects::release_semaphore(CUexternalSemaphore semaphore) noexcept {
    made_semaphore of;
    if (!find(semaphore, of)) return unknown_handle;
    context_scope scope(cu_);
    if (error failed = scope.enter(of.context)) return failed;
    if (CUresult result = cu_.cuDestroyExternalSemaphore(semaphore)) return to_error(result);
    const lock_guard lock(mutex_);
    remove_if(semaphores_, [&](const made_semaphore &one) { return one.handle == semaphore; });
    return {};
}

// ---- The end

void external_objects::forget(CUcontext context) noexcept {
    const lock_guard lock(mutex_);
    for (const made_memory &gone : memories_)
        if (gone.context == context) remove_if(images_, [&](const made_image &one) { return one.of == gone.handle; });
    remove_if(memories_, [&](const made_memory &one) { return one.context == context; });
    remove_if(semaphores_, [&](const made_semaphore &one) { return one.context == context; });
}

void external_objects::close() noexcept {
    if (is_driver_gone(cu_)) return;
    const relaxed_capture_mode relaxed(cu_);
    while (memories_.size() != 0)
        if (release_memory(memories_[memories_.size() - 1].handle)) break; // the context is lost
    while (semaphores_.size() != 0)
        if (release_semaphore(semaphores_[semaphores_.size() - 1].handle)) break;
}

} // namespace ferry
