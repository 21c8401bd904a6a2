// The C functions for tickets and for the threads and memory of staged copies.
#include "base/sized.h"
#include "ferry/ferry_file.h"
#include "submit/staging_setup.h"
#include "submit/ticket.h"

#include <algorithm>

using namespace ferry;

namespace {

error null_ticket() noexcept { return refuse_null(FERRY_FIELD_TICKET); }

error check_timeout(std::int64_t timeout_ns) noexcept {
    if (timeout_ns >= FERRY_NO_TIMEOUT) return {};
    return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TIMEOUT, numbers::at_least,
                         FERRY_NO_TIMEOUT, timeout_ns);
}

} // namespace

extern "C" {

int32_t ferry_ticket_create(ferry_instance *instance, CUstream_st *stream, ferry_ticket **ticket,
                            ferry_error_info *details) {
    if (ticket) *ticket = nullptr;
    if (!instance || !ticket) return report_null(details, instance, ticket);
    return report(details, make_ticket(*instance, stream, *ticket));
}

int32_t ferry_ticket_get_info(ferry_ticket *ticket, ferry_ticket_info *info, ferry_error_info *details) {
    if (!ticket) return report(details, null_ticket());
    if (!info) return report_null(details, info);
    ferry_ticket_info found = {};
    if (error failed = query_ticket(*ticket, found)) return report(details, failed);
    return report(details, write_sized(found, info));
}

int32_t ferry_ticket_wait(ferry_ticket *ticket, int64_t timeout_ns, ferry_error_info *details) {
    if (!ticket) return report(details, null_ticket());
    if (error failed = check_timeout(timeout_ns)) return report(details, failed);
    error_item failed_copy;
    const error failed = wait_for_ticket(*ticket, timeout_ns, failed_copy);
    return report(details, failed, failed_copy);
}

int32_t ferry_ticket_wait_any(ferry_ticket *const *tickets, uint64_t count, int64_t timeout_ns, uint64_t *index,
                              ferry_error_info *details) {
    if (index) *index = 0;
    if (!index) return report_null(details, index);
    if (!count) return report(details, refuse_zero(FERRY_FIELD_COUNT));
    if (!tickets) return report(details, null_ticket());
    if (error failed = check_timeout(timeout_ns)) return report(details, failed);
    const uint64_t bad = static_cast<uint64_t>(std::find(tickets, tickets + count, nullptr) - tickets);
    if (bad != count) return report(details, null_ticket(), {FERRY_ITEM_TICKET, bad});
    return report(details, wait_for_any(tickets, count, timeout_ns, *index));
}

int32_t ferry_ticket_wait_async(ferry_ticket *ticket, CUstream_st *stream, ferry_error_info *details) {
    return report(details, ticket ? make_stream_wait(*ticket, stream) : null_ticket());
}

int32_t ferry_ticket_cancel(ferry_ticket *ticket, ferry_error_info *details) {
    return report(details, ticket ? cancel_ticket(*ticket) : null_ticket());
}

int32_t ferry_ticket_write_status(ferry_ticket *ticket, uint64_t address, CUstream_st *stream,
                                  ferry_error_info *details) {
    return report(details, ticket ? write_ticket_status(*ticket, address, stream) : null_ticket());
}

int32_t ferry_ticket_release(ferry_ticket *ticket, ferry_error_info *details) {
    return report(details, ticket ? release_ticket(*ticket) : ok);
}

int32_t ferry_staging_prepare(ferry_instance *instance, int32_t device, ferry_error_info *details) {
    return report(details, instance ? prepare_staging(*instance, device) : null_among(instance));
}

int32_t ferry_staging_trim(ferry_instance *instance, ferry_error_info *details) {
    return report(details, instance ? trim_staging(*instance) : null_among(instance));
}

int32_t ferry_staging_get_info(ferry_instance *instance, ferry_staging_info *info, ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    ferry_staging_info found = {};
    if (error failed = get_staging_info(*instance, found)) return report(details, failed);
    return report(details, write_sized(found, info));
}

} // extern "C"
