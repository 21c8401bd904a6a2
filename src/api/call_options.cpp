#include "api/call_options.h"

#include "base/sized.h"

namespace ferry {

namespace {

error refuse_number(std::int32_t status, std::int32_t field, numbers given, std::int64_t limit,
                    std::int64_t value) noexcept {
    return refuse_signed(status, FERRY_SIDE_OPTIONS, field, given, limit, value);
}

// Not every route can be forced. Bit n: the route with the number n can be.
constexpr std::int64_t routes_of_options = [] {
    std::int64_t bits = 1 << FERRY_ROUTE_AUTO;
    for (int number = 1; number <= route_count; ++number)
        if (routes_by_number.all[number].may_be_forced) bits |= 1 << number;
    return bits;
}();

error check_route(std::int32_t route, std::uint32_t flags) noexcept {
    if (route < FERRY_ROUTE_AUTO || route > route_count)
        return refuse_number(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_ROUTE, numbers::up_to, route_count, route);
    if (route != FERRY_ROUTE_AUTO && !entry_of_number(route).may_be_forced)
        return refuse_number(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_ROUTE, numbers::one_of, routes_of_options, route);
    return route == FERRY_ROUTE_KERNEL && flags & FERRY_COPY_NO_KERNELS ? refuse_route(obstacle::forbidden) : ok;
}

error check_numbers(const ferry_copy_options &options) noexcept {
    const struct {
        std::int64_t value, limit;
        std::int32_t field;
    } ranges[] = {
        {options.priority, FERRY_PRIORITY_BACKGROUND, FERRY_FIELD_PRIORITY},
        {options.source_order, FERRY_SOURCE_ORDER_CALL, FERRY_FIELD_SOURCE_ORDER},
        {options.max_sms, UINT16_MAX, FERRY_FIELD_MAX_SMS},
    };
    for (const auto &range : ranges)
        if (range.value < 0 || range.value > range.limit)
            return refuse_number(FERRY_ERROR_INVALID_ARGUMENT, range.field, numbers::up_to, range.limit, range.value);
    if (options.priority == FERRY_PRIORITY_BACKGROUND)
        return refuse_number(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_PRIORITY, numbers::up_to, FERRY_PRIORITY_URGENT,
                             options.priority);
    return {};
}

} // namespace

error read_options(const ferry_copy_options &given, std::uint32_t known_flags, call_options &options) noexcept {
    ferry_copy_options known = {};
    if (error failed = read_sized(&given, known)) return on_side(failed, FERRY_SIDE_OPTIONS);
    constexpr std::uint32_t updatable = FERRY_COPY_UPDATABLE;
    if ((known.flags & ~known_flags) == updatable)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::not_here, updatable, known.flags);
    if (known.flags & ~known_flags)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::bits, known_flags, known.flags);
    if (error failed = check_route(known.route, known.flags)) return failed;
    if (error failed = check_numbers(known)) return failed;
    copy_preferences &preferences = options.preferences;
    preferences.forced = static_cast<route_kind>(known.route);
    preferences.no_kernels = known.flags & FERRY_COPY_NO_KERNELS;
    preferences.is_urgent = known.priority == FERRY_PRIORITY_URGENT;
    preferences.over_links = known.flags & FERRY_COPY_MULTILINK;
    preferences.order = static_cast<source_order>(known.source_order);
    preferences.written = known.flags & FERRY_COPY_DESTINATION_WRITTEN;
    preferences.no_wait = known.flags & FERRY_COPY_NO_WAIT;
    preferences.max_blocks = static_cast<std::uint16_t>(known.max_sms);
    options.tag = known.tag;
    options.checks_overlap = known.flags & FERRY_COPY_CHECK_OVERLAP;
    options.is_updatable = known.flags & FERRY_COPY_UPDATABLE;
    return {};
}

} // namespace ferry
