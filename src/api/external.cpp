// The C functions for memory and semaphores of graphics APIs.
#include "base/sized.h"
#include "submit/instance.h"
#include "submit/note_error.h"

using namespace ferry;

namespace {

// Runs `body`, except in a forked child, which has no driver and may have inherited a locked mutex.
template <class Body> error with_driver(ferry_instance &instance, const Body &body) noexcept {
    if (instance.fork_mark.is_in_child()) return in_child;
    const error failed = body();
    note_error(instance, failed);
    return failed;
}

template <class Description, class Import>
error import(ferry_instance &instance, const Description *desc, const Import &import) noexcept {
    Description wanted = {};
    if (error failed = read_sized(desc, wanted)) return failed;
    if (error failed = check_device(instance, wanted.device)) return on_side(failed, FERRY_SIDE_OPTIONS);
    return with_driver(instance, [&]() noexcept { return import(wanted); });
}

// A handle that was released in stream order is no longer valid for the program.
template <class Handle, class Body>
error with_handle(ferry_instance &instance, Handle handle, const Body &body) noexcept {
    return with_driver(instance, [&]() noexcept -> error {
        if (instance.deferred.holds(handle))
            return refuse_value(FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE, number(handle));
        return body();
    });
}

} // namespace

extern "C" {

int32_t ferry_external_memory_import(ferry_instance *instance, const ferry_external_memory_desc *desc,
                                     CUextMemory_st **memory, ferry_error_info *details) {
    if (memory) *memory = nullptr;
    if (!instance || !desc || !memory) return report_null(details, instance, desc, memory);
    return report(details, import(*instance, desc, [&](const ferry_external_memory_desc &wanted) noexcept {
                      return instance->externals.import_memory(wanted, *memory);
                  }));
}

int32_t ferry_external_memory_get_address(ferry_instance *instance, CUextMemory_st *memory, uint64_t offset,
                                          uint64_t size, uint64_t *address, ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    if (!memory) return report_null_field(details, FERRY_FIELD_HANDLE);
    return report(details, with_handle(*instance, memory, [&]() noexcept {
                      return instance->externals.get_address(memory, offset, size, *address);
                  }));
}

int32_t ferry_external_memory_create_array(ferry_instance *instance, CUextMemory_st *memory, uint64_t offset,
                                           const ferry_array_desc *desc, uint32_t levels,
                                           CUmipmappedArray_st **mipmapped, ferry_error_info *details) {
    if (mipmapped) *mipmapped = nullptr;
    if (!instance || !desc || !mipmapped) return report_null(details, instance, desc, mipmapped);
    if (!memory) return report_null_field(details, FERRY_FIELD_HANDLE);
    ferry_array_desc wanted = {};
    if (error failed = read_sized(desc, wanted)) return report(details, failed);
    return report(details, with_handle(*instance, memory, [&]() noexcept {
                      return instance->externals.create_array(memory, offset, wanted, levels, *mipmapped);
                  }));
}

int32_t ferry_external_memory_release(ferry_instance *instance, CUextMemory_st *memory, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!memory) return report(details, ok);
    return report(details, with_handle(*instance, memory, [&]() noexcept {
                      instance->deferred.forget_parts(memory);
                      return instance->externals.release_memory(memory);
                  }));
}

int32_t ferry_external_memory_release_deferred(ferry_instance *instance, CUextMemory_st *memory, CUstream_st *stream,
                                               ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!memory) return report(details, ok);
    const error failed = with_driver(*instance, [&]() noexcept { return instance->deferred.defer(memory, stream); });
    return report(details, about(failed, FERRY_FIELD_HANDLE, number(memory)));
}

int32_t ferry_external_semaphore_import(ferry_instance *instance, const ferry_external_semaphore_desc *desc,
                                        CUextSemaphore_st **semaphore, ferry_error_info *details) {
    if (semaphore) *semaphore = nullptr;
    if (!instance || !desc || !semaphore) return report_null(details, instance, desc, semaphore);
    return report(details, import(*instance, desc, [&](const ferry_external_semaphore_desc &wanted) noexcept {
                      return instance->externals.import_semaphore(wanted, *semaphore);
                  }));
}

int32_t ferry_external_semaphore_signal_async(ferry_instance *instance, CUextSemaphore_st *semaphore, uint64_t value,
                                              CUstream_st *stream, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!semaphore) return report_null_field(details, FERRY_FIELD_HANDLE);
    return report(details, with_handle(*instance, semaphore, [&]() noexcept {
                      return instance->externals.signal(semaphore, value, stream);
                  }));
}

int32_t ferry_external_semaphore_wait_async(ferry_instance *instance, CUextSemaphore_st *semaphore, uint64_t value,
                                            uint32_t timeout_ms, CUstream_st *stream, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!semaphore) return report_null_field(details, FERRY_FIELD_HANDLE);
    return report(details, with_handle(*instance, semaphore, [&]() noexcept {
                      return instance->externals.wait(semaphore, value, timeout_ms, stream);
                  }));
}

int32_t ferry_external_semaphore_release(ferry_instance *instance, CUextSemaphore_st *semaphore,
                                         ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!semaphore) return report(details, ok);
    return report(details, with_handle(*instance, semaphore,
                                       [&]() noexcept { return instance->externals.release_semaphore(semaphore); }));
}

int32_t ferry_external_semaphore_release_deferred(ferry_instance *instance, CUextSemaphore_st *semaphore,
                                                  CUstream_st *stream, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!semaphore) return report(details, ok);
    const error failed = with_driver(*instance, [&]() noexcept { return instance->deferred.defer(semaphore, stream); });
    return report(details, about(failed, FERRY_FIELD_HANDLE, number(semaphore)));
}

} // extern "C"
