// Sharing between processes.
#include "abi/instance.h"

using namespace ferry;

extern "C" {

int32_t ferry_ipc_close_event(ferry_instance *, CUevent_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_ipc_close_memory(ferry_instance *, uint64_t, CUstream_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_ipc_close_pool(ferry_instance *, CUmemPoolHandle_st *) { return FERRY_ERROR_UNSUPPORTED; }

int32_t ferry_ipc_export_event(ferry_instance *, CUevent_st *, ferry_ipc_handle *, ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_ipc_export_memory(ferry_instance *, uint64_t, uint64_t, ferry_ipc_handle *, ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_ipc_export_pool(ferry_instance *, CUmemPoolHandle_st *, uint32_t, ferry_ipc_handle *, int64_t *,
                              ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_ipc_get_info(ferry_instance *, const ferry_ipc_handle *, ferry_ipc_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_ipc_import_event(ferry_instance *, const ferry_ipc_handle *, CUevent_st **, ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_ipc_import_memory(ferry_instance *, const ferry_ipc_handle *, uint64_t *, ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

int32_t ferry_ipc_import_pool(ferry_instance *, const ferry_ipc_handle *, int64_t, CUmemPoolHandle_st **,
                              ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

} // extern "C"
