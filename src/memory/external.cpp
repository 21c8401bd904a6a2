#include "memory/external.h"

#include <algorithm>
#include <type_traits>

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

// A Direct3D resource: a buffer or a texture with its own memory.
bool is_resource(std::int32_t type) noexcept {
    return type == FERRY_EXTERNAL_D3D12_RESOURCE || type == FERRY_EXTERNAL_D3D11_RESOURCE ||
           type == FERRY_EXTERNAL_D3D11_RESOURCE_KMT;
}

// How the operating system identifies an object of a handle type.
enum class naming : std::uint8_t {
    none,       // no such handle type
    descriptor, // a file descriptor
    handle,     // a Windows handle, or a name instead
    number,     // a Windows KMT number, valid in all processes
};
constexpr naming memory_namings[] = {naming::none,   naming::descriptor, naming::handle, naming::number,
                                     naming::handle, naming::handle,     naming::handle, naming::number};
constexpr naming semaphore_namings[] = {naming::none,   naming::descriptor, naming::handle, naming::number,
                                        naming::handle, naming::handle,     naming::none,   naming::handle,
                                        naming::number, naming::descriptor, naming::handle};

template <std::size_t count> naming naming_of(const naming (&all)[count], std::int32_t type) noexcept {
    return type > 0 && static_cast<std::size_t>(type) < count ? all[type] : naming::none;
}

// Checks what the driver mishandles or does not report: it assumes that a descriptor is one that it has exported.
error check_handle(naming as, std::int32_t type, std::int64_t handle, const void *name) noexcept {
    const auto given = static_cast<std::uint64_t>(handle);
    if (as == naming::none)
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_HANDLE_TYPE, numbers::value,
                             0, type);
    const bool is_of_this_system = (as == naming::descriptor) == has_descriptors;
    if (!is_of_this_system)
        return refuse_signed(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_OPTIONS, FERRY_FIELD_HANDLE_TYPE, numbers::value, 0,
                             type);
    const bool is_named = name && as == naming::handle && handle == 0;
    if (name && !is_named)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_OS_HANDLE, numbers::value, 0, given);
    if (!is_named && as != naming::number && !is_open_handle(handle))
        return refuse_option(FERRY_ERROR_HANDLE, FERRY_FIELD_OS_HANDLE, numbers::value, 0, given);
    return {};
}

// The handle in the form that a driver call expects. The driver closes a descriptor even if it rejects it (CUDA 13.0,
// seen for a pipe). So the driver gets a duplicate, and the caller's descriptor is closed only after the driver has
// accepted the duplicate.
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

// Translates the driver's result of an import. After the checks, only the handle can be invalid. The limit is the
// driver's result.
error explain_import(call_result result, std::int64_t handle) noexcept {
    switch (result) {
    case CUDA_SUCCESS:
        return {};
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_UNKNOWN:
        return {{FERRY_ERROR_HANDLE, result.call},
                FERRY_SIDE_OPTIONS,
                FERRY_FIELD_OS_HANDLE,
                numbers::result,
                static_cast<std::uint64_t>(result.result),
                static_cast<std::uint64_t>(handle)};
    default:
        return to_error(result);
    }
}

template <class Records, class Is> auto *find_if(Records &all, const Is &is) noexcept {
    const auto found = std::find_if(all.begin(), all.end(), is);
    return found == all.end() ? nullptr : found;
}

template <class Records, class Is> void remove_if(Records &all, const Is &is) noexcept {
    for (std::size_t i = all.size(); i-- != 0;)
        if (is(all[i])) all.remove(i);
}

} // namespace

// ---- Records

template <class Record> bool external_objects::reserve(records<Record> &of) noexcept {
    const lock_guard lock(mutex_);
    const bool is_reserved = of.all.reserve(of.all.size() + of.in_flight + 1);
    of.in_flight += is_reserved;
    return is_reserved;
}

template <class Record> void external_objects::cancel(records<Record> &of) noexcept {
    const lock_guard lock(mutex_);
    --of.in_flight;
}

template <class Record> void external_objects::keep(records<Record> &of, const Record &made) noexcept {
    const lock_guard lock(mutex_);
    --of.in_flight;
    of.all.append_reserved(made);
}

template <class Record, class Handle>
bool external_objects::find(records<Record> &of, Handle handle, Record &found) noexcept {
    const lock_guard lock(mutex_);
    const Record *const known =
        find_if(of.all, [&](const Record &one) { return one.handle == handle && !one.is_ending; });
    if (known) found = *known;
    return known;
}

template <class Record, class Is>
bool external_objects::begin_end(records<Record> &of, const Is &is, Record &found) noexcept {
    const lock_guard lock(mutex_);
    Record *const known = find_if(of.all, [&](const Record &one) { return !one.is_ending && is(one); });
    if (!known) return false;
    found = *known;
    known->is_ending = true;
    return true;
}

template <class Record> void external_objects::end(records<Record> &of, const Record &ended, bool is_gone) noexcept {
    const lock_guard lock(mutex_);
    Record *const known =
        find_if(of.all, [&](const Record &one) { return one.handle == ended.handle && one.is_ending; });
    if (!known) return; // it was destroyed with its context in the meantime
    if constexpr (std::is_same_v<Record, made_image>) image_ended_.notify_all();
    if (is_gone)
        of.all.remove(static_cast<std::size_t>(known - of.all.begin()));
    else
        *known = ended;
}

error external_objects::enter(int device, context_scope &scope, context_name &made_in) noexcept {
    CUcontext context = nullptr;
    if (error failed = contexts_.get(device, context)) return failed;
    if (error failed = scope.enter(context)) return failed;
    made_in = name_context(cu_, context);
    return {};
}

// ---- Memory

error external_objects::import_memory(const ferry_external_memory_desc &desc, CUexternalMemory &memory) noexcept {
    const naming as = naming_of(memory_namings, desc.handle_type);
    if (error failed = check_handle(as, desc.handle_type, desc.handle, desc.name)) return failed;
    if (desc.size == 0) return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SIZE, numbers::at_least, 1, 0);
    if (desc.flags & ~FERRY_EXTERNAL_DEDICATED)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::bits, FERRY_EXTERNAL_DEDICATED, desc.flags);
    if (!cu_.cuImportExternalMemory || !cu_.cuDestroyExternalMemory) return {.status = FERRY_ERROR_UNSUPPORTED};
    context_scope scope(cu_);
    made_memory made = {};
    made.device = desc.device;
    made.size = desc.size;
    if (error failed = enter(desc.device, scope, made.made_in)) return failed;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC call = {};
    call.type = static_cast<CUexternalMemoryHandleType>(desc.handle_type);
    call.size = desc.size;
    call.flags = desc.flags | (is_resource(desc.handle_type) ? FERRY_EXTERNAL_DEDICATED : 0);
    given_handle given(call, as, desc.handle, desc.name);
    if (!given || !reserve(memories_)) return no_memory; // or the process has no free descriptor
    error failed = explain_import(cu_.cuImportExternalMemory(&made.handle, &call), desc.handle);
    if (!failed && (failed = map_all(desc, made))) cu_.cuDestroyExternalMemory(made.handle);
    if (failed) {
        cancel(memories_);
        return failed;
    }
    given.take();
    has_memory_.store(true, std::memory_order_relaxed);
    keep(memories_, made);
    memory = made.handle;
    return {};
}

bool external_objects::find(CUexternalMemory memory, made_memory &found) noexcept {
    return find(memories_, memory, found);
}

bool external_objects::find(CUexternalSemaphore semaphore, made_semaphore &found) noexcept {
    return find(semaphores_, semaphore, found);
}

// Maps the whole memory immediately: the driver imports memory of any stated size, and rejects a wrong size only here
// (CUDA 13.0).
error external_objects::map_all(const ferry_external_memory_desc &desc, made_memory &made) noexcept {
    if (!cu_.cuExternalMemoryGetMappedBuffer) return {.status = FERRY_ERROR_UNSUPPORTED};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC call = {};
    call.size = desc.size;
    CUdeviceptr address = 0;
    const call_result result = cu_.cuExternalMemoryGetMappedBuffer(&address, made.handle, &call);
    made.address = address;
    if (result != CUDA_ERROR_INVALID_VALUE) return to_error(result);
    if (is_resource(desc.handle_type)) return {}; // a texture
    return refuse_option(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_SIZE, numbers::value, 0, desc.size);
}

bool external_objects::is_part_of_any(std::uint64_t address) noexcept {
    const lock_guard lock(mutex_);
    return find_if(memories_.all, [&](const made_memory &one) {
        return one.address != 0 && !one.is_ending && address - one.address < one.size;
    });
}

bool external_objects::is_part(CUmipmappedArray array) noexcept {
    if (!has_memory_.load(std::memory_order_relaxed)) return false;
    const lock_guard lock(mutex_);
    return find_if(images_.all, [&](const made_image &one) { return one.handle == array && !one.is_ending; });
}

error external_objects::get_address(CUexternalMemory memory, std::uint64_t offset, std::uint64_t size,
                                    std::uint64_t &address) noexcept {
    made_memory of;
    if (!find(memory, of)) return unknown_handle;
    if (offset >= of.size)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, numbers::end, of.size, offset);
    const std::uint64_t most = of.size - offset;
    if (size > most)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, numbers::end, most, size);
    if (of.address == 0) return {.status = FERRY_ERROR_UNSUPPORTED};
    address = of.address + offset;
    return {};
}

error external_objects::create_array(CUexternalMemory memory, std::uint64_t offset, const ferry_array_desc &desc,
                                     std::uint32_t levels, CUmipmappedArray &array) noexcept {
    made_memory of;
    if (!find(memory, of)) return unknown_handle;
    if (levels == 0) levels = 1;
    const std::uint64_t needed = array_bytes(desc, levels); // lower bound
    if (offset >= of.size || needed > of.size - offset)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, numbers::end, of.size,
                      offset + needed);
    context_scope scope(cu_);
    if (error failed = scope.enter(of.made_in.handle)) return failed;
    if (!reserve(images_)) return no_memory;
    made_image made = {};
    made.of = memory;
    made.made_in = of.made_in;
    made.device = of.device;
    made.size = needed;
    if (error failed = map_mipmapped_array(cu_, memory, offset, desc, levels, made.handle)) {
        cancel(images_);
        return failed;
    }
    const made_array as = {
        .context = of.made_in.handle, .device = of.device, .is_mipmapped = true, .levels = levels, .desc = desc};
    arrays_.note(made.handle, as);
    {
        const lock_guard lock(mutex_);
        made.number = ++last_number_;
    }
    keep(images_, made);
    array = made.handle;
    return {};
}

// Destroys an array that is marked as ending.
error external_objects::end_image(const made_image &gone) noexcept {
    error failed;
    if (may_live(cu_, gone.made_in)) {
        context_scope scope(cu_);
        failed = scope.enter(gone.made_in.handle);
        if (!failed) failed = arrays_.destroy(gone.handle);
    }
    end(images_, gone, !failed);
    return failed;
}

error external_objects::release_array(CUmipmappedArray array) noexcept {
    made_image gone = {};
    const auto is = [&](const made_image &one) { return one.handle == array && !one.is_claimed; };
    return begin_end(images_, is, gone) ? end_image(gone) : error{.status = FERRY_ERROR_INVALID_ARGUMENT};
}

bool external_objects::claim_array(CUmipmappedArray array, made_image &given) noexcept {
    const lock_guard lock(mutex_);
    made_image *const known = find_if(
        images_.all, [&](const made_image &one) { return one.handle == array && !one.is_claimed && !one.is_ending; });
    if (!known) return false;
    given = *known;
    known->is_claimed = true;
    return true;
}

void external_objects::cancel_claim(const made_image &given) noexcept {
    const lock_guard lock(mutex_);
    made_image *const known = find_if(images_.all, [&](const made_image &one) { return one.number == given.number; });
    if (known) known->is_claimed = false;
}

error external_objects::release_claimed(const made_image &given) noexcept {
    made_image gone = {};
    const auto is = [&](const made_image &one) { return one.number == given.number; };
    return begin_end(images_, is, gone) ? end_image(gone) : ok;
}

// Marks an array of an import as ending; false if not found. Another thread may be destroying such an array because its
// deferred free is due. The import must outlast that call, so this function waits for it.
bool external_objects::begin_end_of_part(CUexternalMemory of, made_image &found) noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        made_image *next = nullptr;
        for (made_image &one : images_.all)
            if (one.of == of && (!next || next->is_ending)) next = &one;
        if (!next) return false;
        if (!next->is_ending) {
            found = *next;
            next->is_ending = true;
            return true;
        }
        image_ended_.wait(lock);
    }
}

// Destroys the arrays and the mapping, which the driver requires before the import is destroyed.
error external_objects::end_parts(const made_memory &of) noexcept {
    made_image gone = {};
    while (begin_end_of_part(of.handle, gone))
        if (error failed = end_image(gone)) return failed;
    return of.address ? to_error(cu_.cuMemFree(of.address)) : ok;
}

error external_objects::release_memory(CUexternalMemory memory) noexcept {
    made_memory of = {};
    if (!begin_end(
            memories_, [&](const made_memory &one) { return one.handle == memory; }, of))
        return unknown_handle;
    error failed;
    if (may_live(cu_, of.made_in)) { // otherwise everything was destroyed with the context
        context_scope scope(cu_);
        failed = scope.enter(of.made_in.handle);
        if (!failed) failed = end_parts(of);
        if (!failed) {
            of.address = 0;
            failed = to_error(cu_.cuDestroyExternalMemory(memory));
        }
    } else {
        const lock_guard lock(mutex_);
        remove_if(images_.all, [&](const made_image &one) { return one.of == memory; });
        image_ended_.notify_all();
    }
    end(memories_, of, !failed);
    return failed;
}

// ---- Semaphores

error external_objects::import_semaphore(const ferry_external_semaphore_desc &desc,
                                         CUexternalSemaphore &semaphore) noexcept {
    const naming as = naming_of(semaphore_namings, desc.handle_type);
    if (error failed = check_handle(as, desc.handle_type, desc.handle, desc.name)) return failed;
    if (desc.reserved)
        return refuse_option(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED, numbers::value, 0, desc.reserved);
    if (!cu_.cuImportExternalSemaphore || !cu_.cuDestroyExternalSemaphore) return {.status = FERRY_ERROR_UNSUPPORTED};
    context_scope scope(cu_);
    made_semaphore made = {};
    made.device = desc.device;
    made.type = desc.handle_type;
    if (error failed = enter(desc.device, scope, made.made_in)) return failed;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC call = {};
    call.type = static_cast<CUexternalSemaphoreHandleType>(desc.handle_type);
    given_handle given(call, as, desc.handle, desc.name);
    if (!given || !reserve(semaphores_)) return no_memory;
    if (error failed = explain_import(cu_.cuImportExternalSemaphore(&made.handle, &call), desc.handle)) {
        cancel(semaphores_);
        return failed;
    }
    given.take();
    keep(semaphores_, made);
    semaphore = made.handle;
    return {};
}

namespace {

bool is_keyed_mutex(std::int32_t type) noexcept {
    return type == FERRY_SEMAPHORE_D3D11_KEYED_MUTEX || type == FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT;
}

} // namespace

// Finds the semaphore and enters the stream's context.
error external_objects::enter_stream(CUexternalSemaphore semaphore, CUstream stream, context_scope &scope,
                                     made_semaphore &of) noexcept {
    if (!find(semaphores_, semaphore, of)) return unknown_handle;
    context_choice choice;
    if (error failed = choose_context_on(cu_, contexts_, stream, of.device, choice)) return failed;
    return scope.enter(choice.wanted, choice.current);
}

error external_objects::signal(CUexternalSemaphore semaphore, std::uint64_t value, CUstream stream) noexcept {
    made_semaphore of;
    context_scope scope(cu_);
    if (error failed = enter_stream(semaphore, stream, scope, of)) return failed;
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS call = {};
    (is_keyed_mutex(of.type) ? call.params.keyedMutex.key : call.params.fence.value) = value;
    return {.status = call_optional(cu_.cuSignalExternalSemaphoresAsync, &semaphore, &call, 1U, stream)};
}

error external_objects::wait(CUexternalSemaphore semaphore, std::uint64_t value, std::uint32_t timeout_ms,
                             CUstream stream) noexcept {
    made_semaphore of;
    context_scope scope(cu_);
    if (error failed = enter_stream(semaphore, stream, scope, of)) return failed;
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
    made_semaphore of = {};
    if (!begin_end(
            semaphores_, [&](const made_semaphore &one) { return one.handle == semaphore; }, of))
        return unknown_handle;
    error failed;
    if (may_live(cu_, of.made_in)) {
        context_scope scope(cu_);
        failed = scope.enter(of.made_in.handle);
        if (!failed) failed = to_error(cu_.cuDestroyExternalSemaphore(semaphore));
    }
    end(semaphores_, of, !failed);
    return failed;
}

void external_objects::forget(CUcontext context) noexcept {
    const lock_guard lock(mutex_);
    for (const made_memory &gone : memories_.all)
        if (gone.made_in.handle == context)
            remove_if(images_.all, [&](const made_image &one) { return one.of == gone.handle; });
    remove_if(memories_.all, [&](const made_memory &one) { return one.made_in.handle == context; });
    remove_if(semaphores_.all, [&](const made_semaphore &one) { return one.made_in.handle == context; });
    image_ended_.notify_all();
}

} // namespace ferry
