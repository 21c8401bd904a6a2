#include "system/host_access.h"

#include <algorithm>

#include "system/readable.h"

namespace ferry {

const mapping_report *host_access::find(std::uint64_t address, mapping_search &result) noexcept {
    result = mapping_search::found;
    for (const mapping_report &one : known_)
        if (address >= one.first && address < one.end) return &one;
    mapping_report report;
    result = mappings_.find_from(address, report);
    if (result != mapping_search::found) return nullptr;
    latest_ = (latest_ + 1) % most;
    return &(known_[latest_] = report);
}

bool host_access::find_barred(const address_span &range, host_use use, address_span &barred) noexcept {
    for (std::uint64_t at = range.first;;) {
        mapping_search result;
        const mapping_report *const found = find(at, result);
        barred = {at, range.last};
        if (result == mapping_search::nothing) return true;
        if (result == mapping_search::unknown) return !host_range_is_readable(at, range.last);
        if (at < found->first) {
            barred.last = std::min(range.last, found->first - 1);
            return true;
        }
        const std::uint64_t last = barred.last = std::min(range.last, found->end - 1);
        if (!(use == host_use::write ? found->is_writable : found->is_readable)) return true;
        // No byte past the end of a file is accessible, so testing the last byte covers all bytes past the end.
        if (last >= found->sure_end) {
            barred.first = std::max(at, found->sure_end);
            if (!host_range_is_readable(last, last)) return true;
        }
        if (last == range.last) return false;
        at = last + 1;
    }
}

bool host_access::has_guarded_end(const address_span &range) noexcept {
    const auto may_be_guarded = [&](std::uint64_t address) noexcept {
        mapping_search result;
        const mapping_report *const found = find(address, result);
        return found && found->is_anonymous;
    };
    const bool at_first = may_be_guarded(range.first), at_last = may_be_guarded(range.last);
    if (!at_first && !at_last) return false;
    return !host_range_is_readable(at_first ? range.first : range.last, at_last ? range.last : range.first);
}

} // namespace ferry
