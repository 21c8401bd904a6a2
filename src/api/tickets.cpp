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

int32_t ferry_ticket_get_info(ferry_ticket *ticket, ferry_ticket_info *info, ferry_error_info *details) {
    if (!ticket || !info) return report(details, null_argument);
    ferry_ticket_info found = {};
    if (error failed = query_ticket(*ticket, found)) return report(details, failed);
    return report(details, write_sized(found, info));
}

int32_t ferry_ticket_wait(ferry_ticket *ticket, ferry_error_info *details) {
    return report(details, ticket ? wait_for_ticket(*ticket) : null_argument);
}

int32_t ferry_ticket_release(ferry_ticket *ticket, ferry_error_info *details) {
    return report(details, ticket ? release_ticket(*ticket) : ok);
}

int32_t ferry_staging_prepare(ferry_instance *instance, int32_t device, ferry_error_info *details) {
    return report(details, instance ? prepare_staging(*instance, device) : null_argument);
}

int32_t ferry_staging_trim(ferry_instance *instance, ferry_error_info *details) {
    return report(details, instance ? trim_staging(*instance) : null_argument);
}

int32_t ferry_staging_get_info(ferry_instance *instance, ferry_staging_info *info, ferry_error_info *details) {
    if (!instance || !info) return report(details, null_argument);
    ferry_staging_info found = {};
    if (error failed = get_staging_info(*instance, found)) return report(details, failed);
    return report(details, write_sized(found, info));
}

} // extern "C"
