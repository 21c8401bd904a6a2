// Reads and checks ferry_copy_options.
#pragma once

#include "submit/instance.h"

namespace ferry {

// The flags that every call accepts. FERRY_COPY_UPDATABLE is only for prepared pieces.
inline constexpr std::uint32_t flags_of_every_call = FERRY_COPY_NO_KERNELS | FERRY_COPY_MULTILINK |
                                                     FERRY_COPY_DESTINATION_WRITTEN | FERRY_COPY_CHECK_OVERLAP |
                                                     FERRY_COPY_NO_WAIT;

// Checks the options that a program passes. Flags other than `known_flags` are errors.
error read_options(const ferry_copy_options &given, std::uint32_t known_flags, call_options &options) noexcept;

// The options that the program passes, or else the instance's.
inline error choose_options(const ferry_instance &instance, const ferry_copy_options *given, call_options &options,
                            std::uint32_t known_flags = flags_of_every_call) noexcept {
    if (!given) return options = instance.options, ok;
    // Most options state only the source order and a tag.
    const bool is_usual = given->struct_size == sizeof *given &&
                          static_cast<std::uint32_t>(given->source_order) <= FERRY_SOURCE_ORDER_CALL &&
                          !(given->flags | static_cast<std::uint32_t>(given->route | given->priority | given->max_sms));
    if (is_unlikely(!is_usual)) return read_options(*given, known_flags, options);
    options.preferences.order = static_cast<source_order>(given->source_order);
    options.tag = given->tag;
    return {};
}

} // namespace ferry
