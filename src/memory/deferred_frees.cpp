#include "memory/deferred_frees.h"

#include <algorithm>
#include <new>

#include "device/capture_mode.h"
#include "driver/result.h"
#include "memory/arrays.h"

namespace ferry {

namespace {

// An array creation queries at most this many events before it creates a new array.
constexpr unsigned max_queries = 8;

bool is_same(const made_array &one, const made_array &other) noexcept {
    const ferry_array_desc &a = one.desc, &b = other.desc;
    return one.is_mipmapped == other.is_mipmapped && one.levels == other.levels && a.format == b.format &&
           a.channels == b.channels && a.flags == b.flags && a.width == b.width && a.height == b.height &&
           a.depth == b.depth;
}

} // namespace

deferred_frees::~deferred_frees() {
    while (kept *const one = deferred_.pop())
        drop(*one);
    while (kept *const one = spare_.pop())
        drop(*one);
}

// ---- Records

deferred_frees::kept *deferred_frees::find(std::uint64_t name) noexcept {
    kept *one = deferred_.first();
    // external_objects tracks abandoned imported arrays. Their handles here may meanwhile refer to other objects.
    while (one && (one->name != name || one->what == kind::imported_array || one->is_lost))
        one = one->next;
    return one;
}

bool deferred_frees::is_kept(std::uint64_t name) noexcept {
    const lock held(mutex_);
    if (deferred_.is_empty()) may_hold_any_ = false;
    return find(name) != nullptr;
}

deferred_frees::kept *deferred_frees::take_spare(const context_name &context) noexcept {
    kept *one = spare_.first();
    while (one && one->recorded_in != context)
        one = one->next;
    if (one) spare_.remove(*one);
    return one;
}

void deferred_frees::keep_spare(kept &done) noexcept { done.passed ? spare_.push_front(done) : drop(done); }

void deferred_frees::drop(kept &gone) noexcept { memory_.deallocate(&gone, sizeof(kept)); }

// Drops events that were destroyed with their context, without a driver call: their handles may refer to other objects.
void deferred_frees::drop_spares(const context_name &context) noexcept {
    while (kept *const one = take_spare(context))
        drop(*one);
}

bool deferred_frees::lives(const context_name &context) noexcept {
    return contexts_.retains(context.handle) || may_live(cu_, context);
}

// ---- Deferring frees

error deferred_frees::record(const kept &given, const context_name &on, CUstream stream, kept *&made) noexcept {
    for (;;) {
        {
            const lock held(mutex_);
            made = take_spare(on);
        }
        const bool is_new = !made;
        CUevent passed = made ? made->passed : nullptr;
        if (is_new) {
            made = static_cast<kept *>(memory_.allocate(sizeof(kept), alignof(kept)));
            if (!made) return {.status = FERRY_ERROR_OUT_OF_MEMORY};
            constexpr unsigned flags = CU_EVENT_DISABLE_TIMING;
            if (const status_code status = call_optional(cu_.cuEventCreate, &passed, flags)) {
                drop(*made);
                return {.status = status};
            }
        }
        new (made) kept(given);
        made->passed = passed;
        made->recorded_in = on;
        const status_code status = call_optional(cu_.cuEventRecord, passed, stream);
        if (status == FERRY_SUCCESS) return {};
        const lock held(mutex_);
        // A reused event may have been destroyed with its context, and a new context may have the same handle. For a
        // new event the error is real.
        if (status != invalid_handle || is_new) {
            keep_spare(*made);
            return {.status = status};
        }
        drop(*made);
        drop_spares(on);
    }
}

error deferred_frees::defer(const kept &given, CUstream stream) noexcept {
    context_choice choice;
    if (error failed = choose_context_on(cu_, contexts_, stream, given.device, choice)) return failed;
    context_scope scope(cu_);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (error failed = refuse_events_under_capture(cu_, stream)) return failed;
    const relaxed_capture_mode relaxed(cu_); // creating an event would break a capture of another thread
    if (!relaxed.entered()) return relaxed.why();
    kept named = given;
    if (given.as.context) named.made_in = name_context(cu_, given.as.context);
    kept *made = nullptr;
    if (error failed = record(named, name_context(cu_, choice.wanted), stream, made)) return failed;
    const lock held(mutex_);
    deferred_.push_back(*made);
    may_hold_any_ = true;
    return {};
}

error deferred_frees::defer_array(kind what, const void *array, CUstream stream) noexcept {
    kept given;
    if (holds(array) || !arrays_.describe(array, given.as)) return {.status = FERRY_ERROR_INVALID_ARGUMENT};
    if (given.as.is_mipmapped != (what == kind::mipmapped_array)) return {.status = FERRY_ERROR_INVALID_ARGUMENT};
    given.what = what;
    given.device = given.as.device;
    given.name = name_of(array);
    given.size = array_bytes(given.as.desc, given.as.levels);
    return defer(given, stream);
}

error deferred_frees::defer(CUmipmappedArray mipmapped, CUstream stream) noexcept {
    if (!externals_.is_part(mipmapped)) return defer_array(kind::mipmapped_array, mipmapped, stream);
    kept given;
    given.what = kind::imported_array;
    if (!externals_.claim_array(mipmapped, given.image)) return {.status = FERRY_ERROR_INVALID_ARGUMENT};
    given.device = given.image.device;
    given.name = name_of(mipmapped);
    given.size = given.image.size;
    given.as.context = given.image.made_in.handle;
    const error failed = defer(given, stream);
    if (failed) externals_.cancel_claim(given.image);
    return failed;
}

void deferred_frees::forget_parts(CUexternalMemory of) noexcept {
    const lock held(mutex_);
    for (kept *next = deferred_.first(); next;) {
        kept &one = *next;
        next = one.next;
        if (one.what != kind::imported_array || one.image.of != of) continue;
        one.is_lost = true;
        if (one.is_queried) continue;
        deferred_.remove(one);
        keep_spare(one);
    }
}

error deferred_frees::defer(CUdeviceptr address, std::uint64_t size, int device, CUcontext owner,
                            CUstream stream) noexcept {
    if (holds(address)) return {.status = FERRY_ERROR_ADDRESS};
    kept given;
    given.what = kind::memory;
    given.device = device;
    given.name = address;
    given.size = size;
    given.as.context = owner;
    return defer(given, stream);
}

error deferred_frees::defer_host(std::uint64_t address, CUstream stream) noexcept {
    kept given;
    given.what = kind::host_memory;
    given.name = address;
    if (error failed = pinned_.claim(address, given.block, given.as.context)) return failed;
    given.size = given.block.size;
    const error failed = defer(given, stream);
    if (failed) pinned_.cancel_claim(given.block);
    return failed;
}

error deferred_frees::defer_unregistering(std::uint64_t address, CUstream stream) noexcept {
    kept given;
    given.what = kind::registration;
    given.name = address;
    if (error failed = pinned_.claim_registration(address, given.registered, given.as.context)) return failed;
    given.size = given.registered.size;
    const error failed = defer(given, stream);
    if (failed) pinned_.cancel_claim(given.registered);
    return failed;
}

error deferred_frees::defer_closing(std::uint64_t address, CUstream stream) noexcept {
    kept given;
    given.what = kind::imported_memory;
    if (error failed = imported_.begin_closing(address, stream, given.opened)) return failed;
    if (!given.opened.context) return {};
    given.device = given.opened.device;
    given.name = given.opened.address;
    given.size = given.opened.size;
    given.as.context = given.opened.context;
    const error failed = defer(given, stream);
    if (failed) imported_.cancel_closing(given.opened);
    return failed;
}

error deferred_frees::defer_closing(CUmemoryPool pool, CUstream stream) noexcept {
    std::uintptr_t closing = 0;
    int device = host;
    if (error failed = imported_.begin_closing(pool, closing, device)) return failed;
    if (!closing) return {};
    const auto end = [](void *of, void *number) noexcept {
        return static_cast<ipc_memory *>(of)->end_closing(reinterpret_cast<std::uintptr_t>(number));
    };
    const error failed = defer({&imported_, reinterpret_cast<void *>(closing), end}, 0, device, stream);
    if (failed) imported_.cancel_closing(closing);
    return failed;
}

error deferred_frees::defer(const deferred_object &object, std::uint64_t size, int device, CUstream stream) noexcept {
    kept given;
    given.what = kind::object;
    given.device = device;
    given.name = name_of(object.object);
    given.size = size;
    given.other = object;
    return defer(given, stream);
}

error deferred_frees::defer(CUexternalMemory memory, CUstream stream) noexcept {
    external_objects::made_memory of;
    if (holds(memory) || !externals_.find(memory, of)) return {FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE};
    kept given;
    given.what = kind::external_memory;
    given.device = of.device;
    given.name = name_of(memory);
    given.size = of.size;
    given.as.context = of.made_in.handle;
    return defer(given, stream);
}

error deferred_frees::defer(CUexternalSemaphore semaphore, CUstream stream) noexcept {
    external_objects::made_semaphore of;
    if (holds(semaphore) || !externals_.find(semaphore, of))
        return {FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE};
    kept given;
    given.what = kind::external_semaphore;
    given.device = of.device;
    given.name = name_of(semaphore);
    given.as.context = of.made_in.handle;
    return defer(given, stream);
}

// ---- Reuse

bool deferred_frees::has_passed(kept &waiting, lock &held) noexcept {
    const CUevent passed = waiting.passed;
    waiting.is_queried = true;
    held.unlock();
    bool is_passed = true; // the work of a context that no longer exists has ended
    if (passed && lives(waiting.recorded_in)) {
        const status_code status = call_optional(cu_.cuEventQuery, passed);
        is_passed = status == FERRY_SUCCESS || (status == invalid_handle && !waiting.recorded_in.number);
    }
    held.lock();
    waiting.is_queried = false;
    return is_passed;
}

bool deferred_frees::take_name(const made_array &as, std::uint64_t &name) noexcept {
    lock held(mutex_);
    if (deferred_.is_empty()) return false;
    held.unlock();
    const relaxed_capture_mode relaxed(cu_); // queries would break a capture of another thread
    if (!relaxed.entered()) return false;
    const context_name here = name_context(cu_, as.context);
    held.lock();
    kept *one = deferred_.first();
    for (unsigned turns = max_queries; one && turns != 0;) {
        kept &candidate = *one;
        const bool matches =
            !candidate.is_queried && is_reusable(candidate) && candidate.made_in == here && is_same(candidate.as, as);
        const bool is_passed = matches && has_passed(candidate, held);
        turns -= matches;
        one = candidate.next;
        if (!matches || (!is_passed && !candidate.is_lost)) continue;
        deferred_.remove(candidate);
        const bool is_found = !candidate.is_lost;
        name = candidate.name;
        keep_spare(candidate);
        if (is_found) return true;
    }
    return false;
}

// ---- Destroying

std::uint64_t deferred_frees::bytes_of(int device) const noexcept {
    std::uint64_t bytes = 0;
    for (const kept *one = deferred_.first(); one; one = one->next)
        if (one->device == device) bytes += one->size;
    return bytes;
}

// Whether a trim would destroy anything if the streams have completed their work.
bool deferred_frees::holds_more(int device, std::uint64_t keep) const noexcept {
    const kept *one = deferred_.first();
    while (one && (one->device != device || one->size != 0))
        one = one->next;
    return one || bytes_of(device) > keep;
}

void deferred_frees::count(int device, ferry_deferred_info &info) noexcept {
    const lock held(mutex_);
    for (const kept *one = deferred_.first(); one; one = one->next) {
        if (device != host && one->device != device) continue;
        ++(is_array(*one) ? info.arrays : info.allocations);
        info.bytes += one->size;
    }
}

// Memory that the driver allocated is freed with its context. Pages that ferry mapped survive; only their registration
// ends.
error deferred_frees::destroy_host(const kept &gone) noexcept {
    const bool has_context = gone.made_in.handle && lives(gone.made_in);
    context_scope scope(cu_);
    switch (gone.block.origin) {
    case FERRY_HOST_FROM_SYSTEM:
        break; // no driver call frees it
    case FERRY_HOST_FROM_MAPPING: {
        CUcontext any = gone.made_in.handle;
        if (!has_context)
            if (error failed = contexts_.get(0, any)) return failed;
        if (error failed = scope.enter(any)) return failed;
        break;
    }
    default:
        if (!has_context) {
            pinned_.forget_claimed(gone.block);
            return {};
        }
        if (error failed = scope.enter(gone.made_in.handle)) return failed;
    }
    return pinned_.free_claimed(gone.block);
}

error deferred_frees::unregister(const kept &gone) noexcept {
    CUcontext context = gone.made_in.handle;
    if (context && !lives(gone.made_in)) {
        pinned_.forget_claimed(gone.registered);
        return {};
    }
    if (!context) // the driver does not report the owner
        if (error failed = contexts_.get(0, context)) return failed;
    context_scope scope(cu_);
    if (error failed = scope.enter(context)) return failed;
    return pinned_.unregister_claimed(gone.registered);
}

error deferred_frees::destroy(const kept &gone) noexcept {
    if (gone.what == kind::host_memory) return destroy_host(gone);
    if (gone.what == kind::registration) return unregister(gone);
    if (gone.what == kind::object) return gone.other.end(gone.other.of, gone.other.object);
    const auto handle = static_cast<std::uintptr_t>(gone.name);
    const bool is_memory = gone.what == kind::external_memory;
    if (gone.what == kind::imported_array) return externals_.release_claimed(gone.image);
    if (is_memory || gone.what == kind::external_semaphore) {
        if (is_memory) forget_parts(reinterpret_cast<CUexternalMemory>(handle));
        const error failed = is_memory ? externals_.release_memory(reinterpret_cast<CUexternalMemory>(handle))
                                       : externals_.release_semaphore(reinterpret_cast<CUexternalSemaphore>(handle));
        return failed.status == FERRY_ERROR_HANDLE ? ok : failed; // it was destroyed with its context
    }
    if (!lives(gone.made_in)) {
        if (gone.what == kind::imported_memory) imported_.forget_closing(gone.opened);
        return {};
    }
    context_scope scope(cu_);
    if (error failed = scope.enter(gone.made_in.handle)) return failed;
    switch (gone.what) {
    case kind::array:
        return arrays_.destroy(reinterpret_cast<CUarray>(handle));
    case kind::mipmapped_array:
        return arrays_.destroy(reinterpret_cast<CUmipmappedArray>(handle));
    case kind::imported_memory:
        return imported_.end_closing(gone.opened, true);
    default:
        return to_error(cu_.cuMemFree(gone.name));
    }
}

void deferred_frees::collect(int device, std::uint64_t keep, chain<kept> &passed, lock &held) noexcept {
    std::uint64_t left = bytes_of(device);
    for (kept *one = deferred_.first(); one;) {
        kept &candidate = *one;
        const bool matches =
            candidate.device == device && !candidate.is_queried && (left > keep || candidate.size == 0);
        const bool is_passed = matches && has_passed(candidate, held);
        one = candidate.next;
        if (!matches || (!is_passed && !candidate.is_lost)) continue;
        deferred_.remove(candidate);
        left -= std::min(left, candidate.size);
        if (candidate.is_lost)
            keep_spare(candidate);
        else
            passed.push_back(candidate);
    }
}

error deferred_frees::limit(int device, std::uint64_t keep) noexcept {
    {
        const lock held(mutex_);
        if (is_trimming_ || bytes_of(device) <= keep) return {};
    }
    return trim(device, keep);
}

error deferred_frees::limit_host(std::uint64_t keep) noexcept {
    {
        const lock held(mutex_);
        if (is_trimming_) return {};
    }
    return trim_host(keep);
}

error deferred_frees::trim(int first, int end, std::uint64_t keep, std::uint64_t *freed) noexcept {
    lock held(mutex_);
    // What another trim has taken is not returned yet.
    ended_.wait(held, [&] { return !is_trimming_; });
    bool is_more = false;
    for (int one = first; one < end; ++one)
        is_more |= holds_more(one, keep);
    if (!is_more) return {};
    is_trimming_ = true;
    const error failed = trim_alone(first, end, keep, freed, held);
    is_trimming_ = false;
    ended_.notify_all();
    return failed;
}

error deferred_frees::trim_alone(int first, int end, std::uint64_t keep, std::uint64_t *freed, lock &held) noexcept {
    held.unlock();
    const relaxed_capture_mode relaxed(cu_); // for queries and destroys
    held.lock();
    if (!relaxed.entered()) return relaxed.why();
    chain<kept> passed;
    for (int one = first; one < end; ++one)
        collect(one, keep, passed, held);
    error first_failed;
    while (kept *const one = passed.pop()) {
        held.unlock();
        const error failed = destroy(*one);
        held.lock();
        if (failed) {
            if (!first_failed && failed.status != FERRY_ERROR_IN_USE) first_failed = failed;
            deferred_.push_front(*one);
            may_hold_any_ = true;
            continue;
        }
        if (freed) ++*freed;
        keep_spare(*one);
    }
    return first_failed;
}

void deferred_frees::forget(CUcontext context) noexcept {
    const lock held(mutex_);
    for (kept *next = deferred_.first(); next;) {
        kept &one = *next;
        next = one.next;
        if (one.recorded_in.handle == context) one.passed = nullptr;
        if (one.made_in.handle != context) continue;
        if (one.what == kind::host_memory) {
            if (one.block.origin != FERRY_HOST_FROM_DRIVER) { // the pages still exist
                one.made_in = {};
                continue;
            }
            pinned_.forget_claimed(one.block);
        }
        if (one.what == kind::registration) pinned_.forget_claimed(one.registered);
        one.is_lost = true;
        if (one.is_queried) continue;
        deferred_.remove(one);
        keep_spare(one);
    }
    for (kept *next = spare_.first(); next;) {
        kept &one = *next;
        next = one.next;
        if (one.recorded_in.handle != context) continue;
        spare_.remove(one);
        drop(one);
    }
}

void deferred_frees::close() noexcept {
    if (is_driver_gone(cu_)) return;
    const relaxed_capture_mode relaxed(cu_);
    while (kept *const one = deferred_.pop()) {
        if (one->passed && lives(one->recorded_in)) call_optional(cu_.cuEventSynchronize, one->passed);
        static_cast<void>(destroy(*one)); // a dead context cannot destroy anything
        keep_spare(*one);
    }
    while (kept *const one = spare_.pop()) {
        if (lives(one->recorded_in)) call_optional(cu_.cuEventDestroy, one->passed);
        drop(*one);
    }
}

} // namespace ferry
