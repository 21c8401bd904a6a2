// The options of a call, in one expression: ferry_copy(instance, &copy, nullptr, by_kernel | max_sms(2), &error).
#pragma once

#include <cstdint>
#include <ostream>

#include "ferry/ferry.h"

namespace ferry::test {

// A default-constructed object means the options of the instance: it converts to NULL.
class how {
public:
    constexpr how() noexcept = default;
    constexpr explicit how(const ferry_copy_options &fields) noexcept : fields_(fields) {
        fields_.struct_size = sizeof fields_;
    }

    constexpr operator const ferry_copy_options *() const noexcept { return fields_.struct_size ? &fields_ : nullptr; }
    constexpr const ferry_copy_options &fields() const noexcept { return fields_; }

    // Joins the flags. Of each other field, takes the value of `b` if it is not zero.
    friend constexpr how operator|(const how &a, const how &b) noexcept {
        how both = a;
        const ferry_copy_options &from = b.fields_;
        ferry_copy_options &to = both.fields_;
        if (from.struct_size) to.struct_size = from.struct_size;
        to.flags |= from.flags;
        if (from.route) to.route = from.route;
        if (from.priority) to.priority = from.priority;
        if (from.source_order) to.source_order = from.source_order;
        if (from.max_sms) to.max_sms = from.max_sms;
        if (from.tag) to.tag = from.tag;
        return both;
    }
    constexpr how &operator|=(const how &other) noexcept { return *this = *this | other; }

    friend constexpr bool operator==(const how &a, const how &b) noexcept {
        const ferry_copy_options &one = a.fields_, &other = b.fields_;
        return one.struct_size == other.struct_size && one.flags == other.flags && one.route == other.route &&
               one.priority == other.priority && one.source_order == other.source_order &&
               one.max_sms == other.max_sms && one.tag == other.tag;
    }
    // Whether the object has everything that `part` has.
    constexpr bool has(const how &part) const noexcept { return (*this | part) == *this; }

    friend std::ostream &operator<<(std::ostream &out, const how &options) {
        const ferry_copy_options &fields = options.fields_;
        if (!fields.struct_size) return out << "no options";
        return out << "options: flags " << fields.flags << ", route " << fields.route << ", priority "
                   << fields.priority << ", source order " << fields.source_order << ", max_sms " << fields.max_sms
                   << ", tag " << fields.tag;
    }

private:
    ferry_copy_options fields_ = {};
};

namespace detail {

constexpr how with_flags(std::uint32_t flags) noexcept {
    ferry_copy_options fields = {};
    fields.flags = flags;
    return how(fields);
}
constexpr how with_route(std::int32_t route) noexcept {
    ferry_copy_options fields = {};
    fields.route = route;
    return how(fields);
}
constexpr how with_priority(std::int32_t priority) noexcept {
    ferry_copy_options fields = {};
    fields.priority = priority;
    return how(fields);
}
constexpr how with_source_order(std::int32_t source_order) noexcept {
    ferry_copy_options fields = {};
    fields.source_order = source_order;
    return how(fields);
}

} // namespace detail

inline constexpr how ordinary = how(ferry_copy_options{}); // replaces the options of the instance
inline constexpr how by_driver = detail::with_route(FERRY_ROUTE_DRIVER);
inline constexpr how by_kernel = detail::with_route(FERRY_ROUTE_KERNEL);
inline constexpr how by_staging = detail::with_route(FERRY_ROUTE_STAGED);
inline constexpr how by_relay = detail::with_route(FERRY_ROUTE_RELAYED);
inline constexpr how urgent = detail::with_priority(FERRY_PRIORITY_URGENT);
inline constexpr how in_stream_order = detail::with_source_order(FERRY_SOURCE_ORDER_STREAM);
inline constexpr how read_in_the_call = detail::with_source_order(FERRY_SOURCE_ORDER_CALL);
inline constexpr how no_kernels = detail::with_flags(FERRY_COPY_NO_KERNELS);
inline constexpr how over_links = detail::with_flags(FERRY_COPY_MULTILINK);
inline constexpr how written_in_the_call = detail::with_flags(FERRY_COPY_DESTINATION_WRITTEN);
inline constexpr how check_overlap = detail::with_flags(FERRY_COPY_CHECK_OVERLAP);
inline constexpr how updatable = detail::with_flags(FERRY_COPY_UPDATABLE);
inline constexpr how no_wait = detail::with_flags(FERRY_COPY_NO_WAIT);

constexpr how max_sms(std::uint32_t count) noexcept {
    ferry_copy_options fields = {};
    fields.max_sms = count;
    return how(fields);
}
constexpr how tag(std::uint64_t number) noexcept {
    ferry_copy_options fields = {};
    fields.tag = number;
    return how(fields);
}

} // namespace ferry::test
