#include "memory/surfaces.h"

#include <algorithm>
#include <functional>

#include "device/capture_mode.h"
#include "driver/formats.h"
#include "driver/result.h"

namespace ferry {

namespace {

using lock_guard = std::lock_guard<std::mutex>;

// Returns whether an array was created for surfaces and has texels that kernels can read as bytes.
bool can_have_surface(const ferry_array_desc &desc) noexcept {
    const array_format *const format = find_format(array_formats, static_cast<CUarray_format>(desc.format));
    return desc.flags & FERRY_ARRAY_SURFACE && format && format->side == 1 && !format->is_video;
}

array_surface none_yet(const ferry_array_desc &desc) noexcept {
    return {.surface = 0,
            .has_rows = desc.height != 0,
            .has_slices = desc.depth != 0,
            .is_layered = (desc.flags & (FERRY_ARRAY_LAYERED | FERRY_ARRAY_CUBEMAP)) != 0};
}

} // namespace

array_surfaces::~array_surfaces() {
    if (records_.size() == 0 || is_driver_gone(cu_)) return;
    for (const record &left : records_)
        end(left);
}

std::size_t array_surfaces::lower_bound(const void *key) const noexcept {
    const record *const at =
        std::lower_bound(records_.begin(), records_.end(), key, [](const record &one, const void *key) noexcept {
            return std::less<const void *>{}(one.key(), key);
        });
    return static_cast<std::size_t>(at - records_.begin());
}

array_surfaces::record *array_surfaces::look_up(const void *key) noexcept {
    const std::size_t at = lower_bound(key);
    return at < records_.size() && records_[at].key() == key ? &records_[at] : nullptr;
}

void array_surfaces::add(const record &added) noexcept {
    record old = {};
    {
        const lock_guard lock(mutex_);
        // An old record belongs to an array that the program destroyed directly through the driver.
        if (record *const same = look_up(added.key())) {
            old = *same;
            *same = added;
        } else if (!records_.insert(lower_bound(added.key()), added)) {
            old = added;
        }
    }
    end(old);
}

void array_surfaces::note(CUarray array, const made_array &as) noexcept {
    add({array, nullptr, as, can_have_surface(as.desc), none_yet(as.desc)});
}

void array_surfaces::note(CUmipmappedArray mipmapped, const made_array &as) noexcept {
    add({nullptr, mipmapped, as, can_have_surface(as.desc), none_yet(as.desc)});
}

bool array_surfaces::describe(const void *whole, made_array &found) const noexcept {
    const lock_guard lock(mutex_);
    const record *const known = const_cast<array_surfaces *>(this)->look_up(whole);
    if (!known || (known->array && known->whole)) return false; // a level or plane belongs to its whole array
    found = known->as;
    return true;
}

void array_surfaces::note_part(const void *whole, CUarray part) noexcept {
    record added = {};
    {
        const lock_guard lock(mutex_);
        const record *const known_whole = look_up(whole);
        const record *const known = look_up(part);
        if (!known_whole || (known && known->whole == whole)) return;
        added = *known_whole;
    }
    added.array = part;
    added.whole = whole;
    added.made.surface = 0;
    add(added);
}

int array_surfaces::device_of(CUarray array) const noexcept {
    const lock_guard lock(mutex_);
    const record *const known = const_cast<array_surfaces *>(this)->look_up(array);
    return known ? known->as.device : -1;
}

bool array_surfaces::may_serve(CUarray array, CUcontext context) const noexcept {
    if (!cu_.cuSurfObjectCreate || !cu_.cuSurfObjectDestroy) return false;
    const lock_guard lock(mutex_);
    const record *const known = const_cast<array_surfaces *>(this)->look_up(array);
    return known && known->may_have_surface && known->as.context == context;
}

bool array_surfaces::find(CUarray array, CUcontext context, array_surface &found) noexcept {
    if (!may_serve(array, context)) return false;
    const auto look_up_made = [&]() noexcept {
        const lock_guard lock(mutex_);
        const record *const known = look_up(array);
        if (known) found = known->made;
        return found.surface != 0;
    };
    if (look_up_made()) return true;

    CUDA_RESOURCE_DESC of = {};
    of.resType = CU_RESOURCE_TYPE_ARRAY;
    of.res.array.hArray = array;
    CUsurfObject made = 0;
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered() || cu_.cuSurfObjectCreate(&made, &of)) return false;
    {
        const lock_guard lock(mutex_);
        record *const known = look_up(array);
        if (known && !known->made.surface) {
            known->made.surface = made;
            found = known->made;
            return true;
        }
    }
    cu_.cuSurfObjectDestroy(made); // another thread has created the surface first
    return look_up_made();
}

template <class Is> array_surfaces::parts array_surfaces::take(const Is &is) noexcept {
    parts taken;
    const lock_guard lock(mutex_);
    for (std::size_t at = 0; at < records_.size() && taken.count < max_parts;) {
        if (!is(records_[at])) {
            ++at;
            continue;
        }
        taken.records[taken.count++] = records_[at];
        records_.remove(at);
    }
    return taken;
}

template <class Destroy> error array_surfaces::destroy_with(const parts &gone, const Destroy &destroy) noexcept {
    const error failed = destroy();
    for (std::size_t at = 0; at < gone.count; ++at)
        if (failed)
            add(gone.records[at]);
        else if (!end_in_its_context(gone.records[at])) // the context is alive, because the array was
            add({nullptr, nullptr, gone.records[at].as, false, gone.records[at].made});
    return failed;
}

// The mutex is unlocked during the driver call, which waits for the device.
error array_surfaces::destroy(CUarray array) noexcept {
    return destroy_with(take([&](const record &one) noexcept { return one.array == array || one.whole == array; }),
                        [&]() noexcept { return to_error(cu_.cuArrayDestroy(array)); });
}

error array_surfaces::destroy(CUmipmappedArray mipmapped) noexcept {
    return destroy_with(take([&](const record &one) noexcept { return one.whole == mipmapped; }), [&]() noexcept {
        return error{.status = call_optional(cu_.cuMipmappedArrayDestroy, mipmapped)};
    });
}

void array_surfaces::forget(CUcontext context) noexcept {
    const lock_guard lock(mutex_);
    for (std::size_t at = records_.size(); at-- != 0;)
        if (records_[at].as.context == context) records_.remove(at);
}

void array_surfaces::end(const record &gone) noexcept {
    if (gone.made.surface && contexts_.keeps(gone.as.context)) static_cast<void>(end_in_its_context(gone));
}

bool array_surfaces::end_in_its_context(const record &gone) noexcept {
    if (!gone.made.surface) return true;
    context_scope scope(cu_);
    if (scope.enter(gone.as.context)) return false;
    const relaxed_capture_mode relaxed(cu_);
    cu_.cuSurfObjectDestroy(gone.made.surface);
    return true;
}

} // namespace ferry
