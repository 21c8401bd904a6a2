// The C functions for tickets and for the threads and memory of staged copies.
#include "base/sized.h"
#include "submit/staging_setup.h"
#include "submit/ticket.h"

using namespace ferry;

extern "C" {

int32_t ferry_ticket_create(ferry_instance *instance, CUstream_st *stream, ferry_ticket **ticket,
                            ferry_error_info *details) {
    if (ticket) *ticket = nullptr;
    if (!instance || !ticket) return report(details, null_argument);
    return report(details, make_ticket(*instance, stream, *ticket));
}

int32_t ferry_ticket_get_info(ferry_ticket *ticket, ferry_ticket_info *info) {
    if (!ticket || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    ferry_ticket_info found = {};
    if (error failed = query_ticket(*ticket, found)) return failed.status;
    return write_sized(found, info).status;
}

int32_t ferry_ticket_wait(ferry_ticket *ticket) {
    return ticket ? wait_for_ticket(*ticket).status.number : FERRY_ERROR_INVALID_ARGUMENT;
}

int32_t ferry_ticket_release(ferry_ticket *ticket) {
    return ticket ? release_ticket(*ticket).status.number : FERRY_SUCCESS;
}

int32_t ferry_staging_prepare(ferry_instance *instance, int32_t device) {
    return instance ? prepare_staging(*instance, device).status.number : FERRY_ERROR_INVALID_ARGUMENT;
}

int32_t ferry_staging_trim(ferry_instance *instance) {
    return instance ? trim_staging(*instance).status.number : FERRY_ERROR_INVALID_ARGUMENT;
}

int32_t ferry_staging_get_info(ferry_instance *instance, ferry_staging_info *info) {
    if (!instance || !info) return FERRY_ERROR_INVALID_ARGUMENT;
    ferry_staging_info found = {};
    if (error failed = get_staging_info(*instance, found)) return failed.status;
    return write_sized(found, info).status;
}

} // extern "C"
