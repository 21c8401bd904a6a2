// Passes one copy of the program to ferry, or to the driver.
#pragma once

#include "driver.h"
#include "record.h"
#include "settings.h"

namespace ferry_run {

// What the call's name or struct states about an end.
enum class end : unsigned char { host, device, array, any };

struct request {
    CUstream stream;
    bool is_async;
    bool is_line; // linear and contiguous at both ends
    end source, destination;
    std::uint64_t bytes, rows;
};

// Below this size, the driver is as fast, unless the bytes are scattered. From this size on, ferry stages pageable
// memory. Measured beside an H100: 2 MiB gain 3 to 30 %, and lose 10 to 40 % while twice as many processes compute as
// there are processors.
inline constexpr std::uint64_t worth_staging = std::uint64_t{4} << 20;
// The same threshold on a crowded host. There, 8 MiB take twice as long as the driver's copy, and a model with tensors
// of 16 and 64 MiB is loaded 5 times as fast.
inline constexpr std::uint64_t worth_staging_in_a_crowd = std::uint64_t{16} << 20;
// From this size on, narrow rows are considered for a kernel.
inline constexpr std::uint64_t worth_a_kernel = std::uint64_t{32} << 10;
inline constexpr std::uint64_t widest_narrow_row = 4096;

inline traffic kind_by_name(const request &asked) noexcept {
    if (asked.source == end::host && asked.destination != end::host) return traffic::host_to_device;
    if (asked.destination == end::host && asked.source != end::host) return traffic::device_to_host;
    return asked.source == end::any || asked.destination == end::any || asked.source == end::host ? traffic::other
                                                                                                  : traffic::on_device;
}

inline bool has_narrow_rows(std::uint64_t bytes, std::uint64_t rows) noexcept {
    return rows > 1 && bytes >= worth_a_kernel && bytes / rows <= widest_narrow_row;
}
inline bool is_worth_looking(const request &asked) noexcept {
    return asked.bytes >= worth_staging || the_settings().takes_all || has_narrow_rows(asked.bytes, asked.rows);
}

// The default stream of the variants for per-thread default streams.
inline CUstream own(CUstream stream) noexcept { return stream ? stream : CU_STREAM_PER_THREAD; }

struct verdict {
    outcome what;
    traffic kind;
    CUresult result = CUDA_SUCCESS; // of a call that ferry served
    std::uint64_t saved_ns = 0;
};

// Serves the copy, or returns the reason why the driver must perform it.
verdict serve(const request &asked, const ferry_copy_desc &copy) noexcept;

// Whether ferry can make its calls on this stream in the current state of the program's thread; `why` if not.
bool may_enqueue(const driver &on, CUstream stream, outcome &why) noexcept;

// Performs and records one call of the program: `try_ferry` serves it, or returns the reason why the driver must
// perform it.
template <entry self, class TryFerry, class... Arguments>
CUresult pass_on(std::uint64_t bytes, const TryFerry &try_ferry, Arguments... arguments) {
    if (!is_on() || is_inside()) return call_real<self>(arguments...);
    const std::uint64_t start = the_settings().times ? clock_ns() : 0;
    const verdict found = try_ferry();
    const CUresult result = is_served(found.what) ? found.result : call_real<self>(arguments...);
    note({self, found.kind, found.what, bytes, start ? clock_ns() - start : 0, found.saved_ns,
          __builtin_return_address(0), &found});
    return result;
}

} // namespace ferry_run
