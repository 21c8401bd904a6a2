#include "base/explanation.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "base/obstacle.h"
#include "base/route_kind.h"

namespace ferry {

namespace {

struct end_name {
    char text[32];
};

end_name name_of(std::int32_t memory, std::int32_t device) noexcept {
    constexpr const char *names[] = {"pageable", "pinned", "device", "managed", "array", "file"};
    end_name name;
    const char *word = memory >= 0 && memory <= FERRY_MEMORY_FILE ? names[memory] : "?";
    if (memory == FERRY_MEMORY_ARRAY)
        std::snprintf(name.text, sizeof name.text, "array on device %d", device);
    else if (memory == FERRY_MEMORY_DEVICE)
        std::snprintf(name.text, sizeof name.text, "device %d", device);
    else
        std::snprintf(name.text, sizeof name.text, "%s", word);
    return name;
}

// Formats a number with one decimal. printf's %f would write a decimal comma in some locales.
struct decimal {
    decimal(std::uint64_t number, std::uint64_t unit) noexcept {
        const std::uint64_t tenth = unit / 10, tenths = number / tenth + (number % tenth >= tenth / 2);
        std::snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
    }
    char text[24];
};
constexpr std::uint64_t microsecond = 1'000, megabyte = 1'000'000;

// A text that is truncated at the end of its buffer. snprintf returns the length that it would have written.
template <std::size_t size> struct growing_text {
    char text[size] = {}; // some versions of Clang give "" the size of another instantiation
    std::size_t length = 0;

    char *end() noexcept { return text + length; }
    std::size_t space() const noexcept { return size - length; }
    void grow(int written) noexcept {
        length = std::min(length + static_cast<std::size_t>(std::max(written, 0)), size - 1);
    }
};

// The predicted times of the routes. A single time needs no route.
growing_text<40 * route_count> format_times(const ferry_explanation &explanation) noexcept {
    const auto ns_of = [&](const route_entry &route) noexcept { return route.ns ? explanation.*route.ns : 0; };
    const auto others = std::count_if(std::begin(routes_by_number.all), std::end(routes_by_number.all),
                                      [&](const route_entry &each) noexcept { return ns_of(each) != 0; }) -
                        (explanation.driver_ns != 0);
    growing_text<40 * route_count> times;
    for (const route_entry &route : routes_by_number.all)
        if (const std::uint64_t ns = ns_of(route))
            times.grow(std::snprintf(times.end(), times.space(), "%s%s us%s%s", times.length ? ", " : "; ",
                                     decimal(ns, microsecond).text, others ? " " : "", others ? route.how : ""));
    return times;
}

} // namespace

std::uint64_t format_explanation(const ferry_explanation &explanation, char *buffer, std::uint64_t size) noexcept {
    const bool is_fill = explanation.source_memory == FERRY_MEMORY_NONE;
    const char *const waits[] = {"does not block", "blocks until the source has been read",
                                 is_fill ? "blocks until the fill is complete" : "blocks until the copy is complete"};
    const bool is_known = explanation.blocks >= 0 && explanation.blocks <= FERRY_BLOCKS_UNTIL_DONE;
    char how[96] = "", calls[32] = "";
    if (explanation.route == FERRY_ROUTE_STAGED && explanation.max_sms == 0)
        std::snprintf(how, sizeof how, " on %" PRIu32 " threads", explanation.threads);
    else if (explanation.route == FERRY_ROUTE_STAGED && explanation.links > 1)
        std::snprintf(how, sizeof how, " over %" PRIu32 " links on %" PRIu32 " SMs each and %" PRIu32 " threads",
                      explanation.links, explanation.max_sms, explanation.threads);
    else if (explanation.route == FERRY_ROUTE_STAGED)
        std::snprintf(how, sizeof how, " on %" PRIu32 " SMs and %" PRIu32 " threads", explanation.max_sms,
                      explanation.threads);
    else if (explanation.route == FERRY_ROUTE_MULTILINK && explanation.helper_sms != explanation.max_sms)
        std::snprintf(how, sizeof how, " over %" PRIu32 " links on %" PRIu32 " SMs, and %" PRIu32 " of each helper",
                      explanation.links, explanation.max_sms, explanation.helper_sms);
    else if (explanation.route == FERRY_ROUTE_MULTILINK)
        std::snprintf(how, sizeof how, " over %" PRIu32 " links on %" PRIu32 " SMs each", explanation.links,
                      explanation.max_sms);
    else if (explanation.route == FERRY_ROUTE_KERNEL)
        std::snprintf(how, sizeof how, " on %" PRIu32 " SMs", explanation.max_sms);
    if (explanation.calls > 1) std::snprintf(calls, sizeof calls, " in %" PRIu32 " calls", explanation.calls);
    // For pageable memory, prints why the copy is not staged. In a graph, prints why it is not relayed or multilinked.
    const bool is_pageable = explanation.kernel_obstacle == FERRY_OBSTACLE_PAGEABLE;
    const struct {
        bool applies;
        std::int32_t obstacle;
        const char *what;
    } candidates[] = {
        {explanation.route != FERRY_ROUTE_DRIVER, FERRY_OBSTACLE_NONE, ""},
        {is_pageable, explanation.staged_obstacle, "; not staged: "},
        {explanation.relay_obstacle == FERRY_OBSTACLE_CAPTURED, FERRY_OBSTACLE_CAPTURED, "; not relayed: "},
        {explanation.multilink_obstacle == FERRY_OBSTACLE_CAPTURED, FERRY_OBSTACLE_CAPTURED, "; one link: "},
        {true, explanation.kernel_obstacle, "; no kernel: "}};
    const auto &missed =
        *std::find_if(std::begin(candidates), std::end(candidates), [](const auto &each) { return each.applies; });
    // A copy that blocks only until its source has been read synchronises before the call instead of after it.
    const bool waits_before = explanation.synchronises && explanation.blocks == FERRY_BLOCKS_UNTIL_STAGED;
    const bool says_why = missed.obstacle != FERRY_OBSTACLE_NONE;
    constexpr const char *reasons[] = {"",
                                       "; because the driver is as fast for contiguous memory",
                                       "",
                                       "; because it is predicted to be the fastest",
                                       "; because the driver would make the caller wait",
                                       "; because the options force it",
                                       "; because of URGENT",
                                       "; because the source is read in the call",
                                       "; because of MULTILINK"};
    constexpr const char *profiles[] = {"", " (built-in profile)", " (cautious profile: calibrate the device)",
                                        " (measured profile)"};
    const auto reason = static_cast<std::uint32_t>(explanation.reason),
               profile = static_cast<std::uint32_t>(explanation.profile);
    const char *const because = reason < std::size(reasons) ? reasons[reason] : "";
    const bool is_predicted = explanation.reason == FERRY_REASON_PREDICTED && profile < std::size(profiles);
    const int length =
        explanation.route == FERRY_ROUTE_NONE
            ? std::snprintf(buffer, size, is_fill ? "nothing to fill" : "nothing to copy")
            : std::snprintf(
                  buffer, size,
                  "%s route: %s%s%s%s%s, %s%s%s, %" PRIu64 " B x %" PRIu64 " rows x %" PRIu64 " slices; %s%s%s%s%s%s",
                  entry_of_number(explanation.route).name, waits_before ? "cuStreamSynchronize and " : "",
                  explanation.driver_call, how, calls,
                  explanation.synchronises && !waits_before ? " and cuStreamSynchronize" : "",
                  is_fill ? "" : name_of(explanation.source_memory, explanation.source_device).text,
                  is_fill ? "" : " to ", name_of(explanation.destination_memory, explanation.destination_device).text,
                  explanation.width, explanation.height, explanation.depth, is_known ? waits[explanation.blocks] : "",
                  format_times(explanation).text, says_why ? missed.what : "",
                  says_why ? text_of(static_cast<std::uint64_t>(missed.obstacle)) : "", because,
                  is_predicted ? profiles[profile] : "");
    return length < 0 ? 0 : static_cast<std::uint64_t>(length);
}

std::uint64_t format_explanation(const ferry_batch_explanation &explanation, char *buffer,
                                 std::uint64_t size) noexcept {
    char on_sms[32] = "", on_both[64] = "";
    growing_text<640> line;
    std::snprintf(on_sms, sizeof on_sms, " on %" PRIu32 " SMs", explanation.max_sms);
    std::snprintf(on_both, sizeof on_both, " staged on %" PRIu32 " SMs and %" PRIu32 " threads", explanation.max_sms,
                  explanation.threads);
    const struct {
        const ferry_batch_share &share;
        const char *how, *where;
    } shares[] = {{explanation.broadcasts, " by broadcasts", ""},
                  {explanation.staged, on_both, ""},
                  {explanation.kernels, " by a kernel", on_sms},
                  {explanation.batch_calls, " by a batch call", ""},
                  {explanation.singles, " by separate calls", ""}};
    for (const auto &one : shares) {
        if (one.share.copies == 0) continue;
        char time[32] = "";
        if (one.share.predicted_ns)
            std::snprintf(time, sizeof time, ", %s us", decimal(one.share.predicted_ns, microsecond).text);
        line.grow(std::snprintf(line.end(), line.space(), "%s%" PRIu64 "%s%s%s, %s MB%s", line.length ? "; " : "",
                                one.share.copies, line.length ? "" : " copies", one.how, one.where,
                                decimal(one.share.bytes, megabyte).text, time));
    }
    const char *const wait = explanation.blocks == FERRY_BLOCKS_UNTIL_DONE     ? "; blocks until copies are complete"
                             : explanation.blocks == FERRY_BLOCKS_UNTIL_STAGED ? "; blocks until sources have been read"
                                                                               : "";
    const int written = std::snprintf(buffer, size, "%s%s", line.length ? line.text : "nothing to copy", wait);
    return written < 0 ? 0 : static_cast<std::uint64_t>(written);
}

} // namespace ferry
