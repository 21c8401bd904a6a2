// The C functions for sharing between processes.
#include "base/sized.h"
#include "submit/instance.h"

using namespace ferry;

extern "C" {

int32_t ferry_ipc_get_info(ferry_instance *instance, const ferry_ipc_handle *handle, ferry_ipc_info *info,
                           ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    if (!handle) return report_null_field(details, FERRY_FIELD_HANDLE);
    ferry_ipc_info found = {};
    if (error failed = instance->sharing.process.describe(*handle, found)) return report(details, failed);
    return report(details, write_sized(found, info));
}

int32_t ferry_ipc_export_memory(ferry_instance *instance, uint64_t address, uint64_t size, ferry_ipc_handle *handle,
                                ferry_error_info *details) {
    if (!instance || !handle) return report_null(details, instance, handle);
    return report(details,
                  about(instance->sharing.memory.export_memory(address, size, *handle), FERRY_FIELD_ADDRESS, address));
}

int32_t ferry_ipc_export_pool(ferry_instance *instance, CUmemPoolHandle_st *pool, uint32_t handle_type,
                              ferry_ipc_handle *handle, int64_t *os_handle, ferry_error_info *details) {
    if (os_handle) *os_handle = -1; // 0 is a valid file descriptor
    if (!instance || !handle || !os_handle) return report_null(details, instance, handle, os_handle);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, about(instance->sharing.memory.export_pool(pool, handle_type, *handle, *os_handle),
                                 FERRY_FIELD_POOL, number(pool)));
}

int32_t ferry_ipc_export_event(ferry_instance *instance, CUevent_st *event, ferry_ipc_handle *handle,
                               ferry_error_info *details) {
    if (!instance || !handle) return report_null(details, instance, handle);
    if (!event) return report_null_field(details, FERRY_FIELD_EVENT);
    return report(details,
                  about(instance->sharing.events.export_event(event, *handle), FERRY_FIELD_EVENT, number(event)));
}

int32_t ferry_ipc_import_memory(ferry_instance *instance, const ferry_ipc_handle *handle, uint64_t *address,
                                ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    if (!handle) return report_null_field(details, FERRY_FIELD_HANDLE);
    return report(details, instance->sharing.memory.import_memory(*handle, *address));
}

int32_t ferry_ipc_import_pool(ferry_instance *instance, const ferry_ipc_handle *handle, int64_t os_handle,
                              CUmemPoolHandle_st **pool, ferry_error_info *details) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return report_null(details, instance, pool);
    if (!handle) return report_null_field(details, FERRY_FIELD_HANDLE);
    return report(details, instance->sharing.memory.import_pool(*handle, os_handle, *pool));
}

int32_t ferry_ipc_import_event(ferry_instance *instance, const ferry_ipc_handle *handle, CUevent_st **event,
                               ferry_error_info *details) {
    if (event) *event = nullptr;
    if (!instance || !event) return report_null(details, instance, event);
    if (!handle) return report_null_field(details, FERRY_FIELD_HANDLE);
    return report(details, instance->sharing.events.import_event(*handle, *event));
}

int32_t ferry_ipc_close_memory(ferry_instance *instance, uint64_t address, CUstream_st *stream,
                               ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details,
                  address ? about(instance->sharing.memory.close_memory(address, stream), FERRY_FIELD_ADDRESS, address)
                          : ok);
}

int32_t ferry_ipc_close_memory_deferred(ferry_instance *instance, uint64_t address, CUstream_st *stream,
                                        ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(
        details, address ? about(instance->deferred.defer_closing(address, stream), FERRY_FIELD_ADDRESS, address) : ok);
}

int32_t ferry_ipc_close_pool(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details,
                  pool ? about(instance->sharing.memory.close_pool(pool), FERRY_FIELD_POOL, number(pool)) : ok);
}

int32_t ferry_ipc_close_pool_deferred(ferry_instance *instance, CUmemPoolHandle_st *pool, CUstream_st *stream,
                                      ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details,
                  pool ? about(instance->deferred.defer_closing(pool, stream), FERRY_FIELD_POOL, number(pool)) : ok);
}

int32_t ferry_ipc_close_event(ferry_instance *instance, CUevent_st *event, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details,
                  event ? about(instance->sharing.events.close_event(event), FERRY_FIELD_EVENT, number(event)) : ok);
}

} // extern "C"
