// The profiles of devices that were not calibrated: the measurements of an H200, conservative estimates derived from
// them, and the measurements of the software driver.
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "plan/profile.h"

namespace ferry {

namespace {

struct measured_rate {
    std::uint32_t width, rate;
};

constexpr std::uint32_t between(std::uint32_t low, std::uint32_t high, std::int64_t step, std::int64_t steps) {
    return static_cast<std::uint32_t>(low + (static_cast<std::int64_t>(high) - low) * step / steps);
}

// One rate per width class: the measured rates, with linear interpolation between them. Below the first measured width
// the number of rows per second is constant, and above the last one the number of bytes per second.
template <std::size_t count>
constexpr void fill_rates(std::uint32_t (&rates)[width_classes], const measured_rate (&measured)[count]) {
    std::size_t next = 0;
    int from = 0;
    for (int at = 0; at < width_classes; ++at) {
        const std::uint32_t width = 1u << at;
        if (next < count && measured[next].width == width) {
            rates[at] = measured[next].rate;
            for (int gap = from + 1; next && gap < at; ++gap)
                rates[gap] = between(rates[from], rates[at], gap - from, at - from);
            from = at;
            ++next;
        } else {
            rates[at] = next ? rates[from] : std::max(measured[0].rate / measured[0].width * width, 1u);
        }
    }
}

// Rows with gaps at both ends have the same rates as rows with gaps at the slower end.
template <std::size_t count, std::size_t other_count>
constexpr void fill_sides(std::uint32_t (&rates)[gap_sides][width_classes], gaps slower,
                          const measured_rate (&source)[count], const measured_rate (&destination)[other_count]) {
    fill_rates(rates[static_cast<int>(gaps::source)], source);
    fill_rates(rates[static_cast<int>(gaps::destination)], destination);
    for (int at = 0; at < width_classes; ++at)
        rates[static_cast<int>(gaps::both)][at] = rates[static_cast<int>(slower)][at];
}

constexpr void fill_accesses(direction_profile &direction, const std::uint32_t (&rates)[access_classes]) {
    std::copy(std::begin(rates), std::end(rates), direction.kernel_access_rates);
}

// NVIDIA H200 SXM, PCIe 5 x16, driver 580, CUDA 13.0. Medians of wall time with a stream synchronise, measured by
// tests/kernel-speed with copies of 64 MiB over the link and 256 MiB within the device, or 16 Mi rows if that is less.
// ferry-info --calibrate measured what kernel-speed does not. Numbers marked as expected were not measured and favour
// the driver.
constexpr device_profile hopper() {
    device_profile profile = {};

    direction_profile &to_device = profile[copy_direction::host_to_device];
    to_device.driver_fixed_ns = 5700;
    to_device.driver_line_rate = 55200;
    // At 1 MiB, where the routes are about equally fast. At 16 MiB it is 15 GB/s, and at 1 GiB 8 to 9.5 GB/s.
    to_device.driver_pageable_rate = 12500;
    fill_sides(
        to_device.driver_rates, gaps::source,
        {{1, 114}, {2, 590}, {4, 1800}, {8, 4700}, {16, 11100}, {32, 24200}, {64, 42800}, {128, 50100}, {256, 54800}},
        {{1, 85}, {2, 240}, {4, 1205}, {8, 3680}, {16, 9600}, {32, 22300}, {64, 43200}, {128, 50000}, {256, 54800}});
    to_device.kernel_fixed_ns = 10500;
    to_device.kernel_line_rate = 51000;
    fill_sides(to_device.kernel_rates, gaps::source,
               {{1, 20700}, {2, 25300}, {4, 25500}, {16, 25600}, {32, 29100}, {64, 42200}, {128, 49300}, {256, 51000}},
               {{1, 23600}, {2, 42400}, {4, 48700}, {8, 50800}, {16, 51000}});
    fill_accesses(to_device, {23600, 42400, 48700, 50800, 51000});
    to_device.kernel_block_rate = 19500;
    to_device.kernel_blocks = 4;
    to_device.call_ns = 2400;
    to_device.batch_piece_ns = 440; // for pieces of 64 KiB and of 256 B; 1300 for 4 KiB
    to_device.batch_box_ns = 440;   // expected
    to_device.kernel_piece_ns = 6;
    to_device.staged_fixed_ns = 65000; // from the times of 256 KiB to 4 MiB
    to_device.staged_rate = 43000;     // with 8 threads on 16 processors; 49 GB/s at best
    to_device.staged_thread_rate = 9900;
    to_device.staged_row_ns = 1; // expected

    direction_profile &to_host = profile[copy_direction::device_to_host];
    to_host.driver_fixed_ns = 6500;
    to_host.driver_line_rate = 55300;
    to_host.driver_pageable_rate = 9500; // at 1 MiB, as above; 15 GB/s at 1 GiB
    fill_sides(
        to_host.driver_rates, gaps::destination,
        {{1, 770}, {2, 1500}, {4, 3000}, {8, 6000}, {16, 11900}, {32, 23800}, {64, 44300}, {128, 52900}, {256, 55200}},
        {{1, 770}, {2, 1500}, {4, 3000}, {8, 6000}, {16, 11900}, {32, 23800}, {64, 44300}, {128, 52900}, {256, 55000}});
    to_host.kernel_fixed_ns = 9200;
    to_host.kernel_line_rate = 52000;
    fill_sides(to_host.kernel_rates, gaps::destination, {{1, 25400}, {2, 44000}, {4, 51500}, {16, 52000}},
               {{1, 2000},
                {4, 2000},
                {8, 4000},
                {16, 8000},
                {32, 24800},
                {64, 44400},
                {128, 50000 /* expected */},
                {256, 51300}});
    fill_accesses(to_host, {27000, 44000, 51500, 51900, 52000});
    to_host.kernel_block_rate = 44900;
    to_host.kernel_blocks = 2;
    to_host.call_ns = 1850;
    to_host.batch_piece_ns = 380;
    to_host.batch_box_ns = 380; // expected
    to_host.kernel_piece_ns = 7;
    to_host.staged_fixed_ns = 58000;
    to_host.staged_rate = 46000;
    to_host.staged_thread_rate = 9700;
    to_host.staged_row_ns = 1; // 8 threads write rows of 4 B at a pitch of 8 at 26 GB/s

    direction_profile &within = profile[copy_direction::within_device];
    within.driver_fixed_ns = 8900;
    within.driver_line_rate = 2104000;
    within.driver_pageable_rate = 2104000;             // unused: no end is on the host
    fill_sides(within.driver_rates, gaps::destination, // rows beyond 64 KiB: 3 MiB in total
               {{1, 1570},
                {2, 3140},
                {4, 36600},
                {8, 73000},
                {16, 145000},
                {32, 283000},
                {64, 550000},
                {256, 1560000},
                {1024, 1720000},
                {4096, 1660000},
                {65536, 848000},
                {1048576, 844000}},
               {{1, 1570},
                {2, 3140},
                {4, 37000},
                {8, 73500},
                {16, 145500},
                {32, 287000},
                {64, 529000},
                {256, 1560000},
                {1024, 1720000},
                {4096, 1660000},
                {65536, 848000},
                {1048576, 844000}});
    within.kernel_fixed_ns = 8800;
    within.kernel_line_rate = 1900000;
    fill_sides(within.kernel_rates, gaps::destination,
               {{1, 325000},
                {2, 614000},
                {4, 1045000},
                {8, 1232000},
                {16, 1315000},
                {32, 1332000},
                {64, 1733000},
                {256, 1898000}},
               {{1, 338000},
                {2, 580000},
                {4, 711000},
                {8, 777000},
                {16, 809000},
                {32, 1446000},
                {64, 1446000},
                {256, 1866000}});
    fill_accesses(within, {385000, 731000, 1100000, 1600000 /* expected */, 1900000});
    within.kernel_block_rate = 41000;
    within.kernel_blocks = 132; // one per SM
    within.call_ns = 3950;
    within.batch_piece_ns = 3560;
    within.batch_box_ns = 3560; // expected
    within.kernel_piece_ns = 4;
    within.staged_fixed_ns = to_host.staged_fixed_ns; // unused: no end is on the host
    within.staged_rate = within.staged_thread_rate = to_host.staged_rate;
    within.staged_row_ns = to_host.staged_row_ns;

    // NVLink 4: contiguous copies were measured. The rates of rows are estimates for packets of 32 bytes.
    direction_profile &peer = profile[copy_direction::between_devices];
    peer = within;
    peer.driver_fixed_ns = 8000;
    peer.driver_line_rate = peer.driver_pageable_rate = 395000;
    peer.kernel_fixed_ns = 13500;
    peer.kernel_line_rate = 367000;
    fill_sides(peer.driver_rates, gaps::destination, {{4, 35500}, {16, 123000}, {32, 322000}, {64, 395000}},
               {{4, 35500}, {16, 123000}, {32, 322000}, {64, 395000}});
    fill_sides(peer.kernel_rates, gaps::destination, {{1, 40000}, {4, 160000}, {16, 280000}, {64, 367000}},
               {{1, 20000}, {4, 80000}, {16, 160000}, {64, 340000}, {256, 367000}});
    fill_accesses(peer, {150000, 300000, 367000, 367000, 367000});
    peer.kernel_block_rate = 12000;
    peer.kernel_blocks = 32;
    peer.kernel_piece_ns = 6;

    profile.many_rows_fixed_ns = 20000;
    profile.batch_fixed_ns = 6000;
    profile.array_driver_rate = 1109000;
    profile.array_kernel_rate = 2000000; // 2100 GB/s if rows start at cache lines, 1920 if 16 bytes past one
    profile.array_call_ns = 5460;
    profile.array_kernel_box_ns = 50; // expected
    profile.copies_fixed_ns = 60'000; // copies use the link less than a kernel: docs/performance.md
    profile.copies_rate = 33'000;
    profile.bounce_rate = 37400;
    profile.relay_fixed_ns = 90000; // from the times of 16 MiB to 1 GiB (two H100)
    profile.relay_rate = 53000;
    return profile;
}

// Assumes a driver twice as fast as on the H200. Kernels are an eighth as fast, for links from PCIe 3 x8 on, and a
// thirty-second within the device, because its memory may be slower than an H200's by that factor.
constexpr device_profile cautious() {
    device_profile profile = hopper();
    for (direction_profile &direction : profile.directions) {
        const std::uint32_t slower = &direction == &profile[copy_direction::within_device] ? 32 : 8;
        for (int side = 0; side < gap_sides; ++side)
            for (int at = 0; at < width_classes; ++at) {
                std::uint32_t &driver = direction.driver_rates[side][at], &kernel = direction.kernel_rates[side][at];
                driver = std::min(driver * 2, direction.driver_line_rate);
                kernel = std::max(kernel / slower, 1u);
            }
        for (std::uint32_t &rate : direction.kernel_access_rates)
            rate /= slower;
        direction.kernel_line_rate /= slower;
        direction.kernel_block_rate /= 2;
        direction.kernel_fixed_ns *= 2;
        direction.kernel_piece_ns *= 4;
        direction.staged_fixed_ns *= 2;
        direction.staged_rate /= 8;
        direction.staged_thread_rate /= 2;
        direction.staged_row_ns *= 4;
        direction.driver_fixed_ns /= 2;
        direction.call_ns /= 2;
        direction.batch_piece_ns /= 2;
        direction.batch_box_ns /= 2;
    }
    profile.array_kernel_rate /= 8;
    profile.array_kernel_box_ns *= 4;
    profile.array_call_ns /= 2;
    profile.bounce_rate *= 2;
    profile.relay_fixed_ns *= 2;
    profile.relay_rate /= 8;
    return profile;
}

// The software driver on two processors of an x86-64 machine: `ferry-info --driver software --calibrate 0`, the best of
// several runs, rounded. Other machines have other rates. The property that determines the routes is the same on all
// machines: a processor copies rows by memcpy, while a kernel runs thread by thread. So the driver's calls are 10 to 40
// times as fast as kernels and staging. Only for many small pieces, one launch is faster than separate calls.
constexpr device_profile software() {
    device_profile profile = hopper();
    for (direction_profile &direction : profile.directions) {
        direction.driver_fixed_ns = 5000;
        direction.driver_line_rate = 20000;
        direction.driver_pageable_rate = 12000;
        for (int side = 0; side < gap_sides; ++side) {
            fill_rates(
                direction.driver_rates[side],
                {{1, 70}, {2, 140}, {4, 280}, {16, 1200}, {64, 4400}, {256, 12000}, {1024, 17000}, {4096, 20000}});
            fill_rates(direction.kernel_rates[side], {{1, 35}, {2, 55}, {4, 130}, {16, 500}, {64, 600}});
        }
        fill_accesses(direction, {38, 70, 155, 320, 620});
        direction.kernel_fixed_ns = 17000;
        direction.kernel_line_rate = 600;
        direction.kernel_block_rate = 550;
        direction.kernel_blocks = 2;
        direction.call_ns = 2100;
        direction.batch_piece_ns = 1100;
        direction.batch_box_ns = 1900;
        direction.kernel_piece_ns = 280;
        direction.staged_fixed_ns = 500'000;
        direction.staged_rate = 500;
        direction.staged_thread_rate = 2000;
        direction.staged_row_ns = 200;
    }
    profile.many_rows_fixed_ns = profile[copy_direction::within_device].driver_fixed_ns; // has one method for rows
    profile.batch_fixed_ns = 12000;
    profile.array_driver_rate = 500;
    profile.array_kernel_rate = 400;
    profile.array_call_ns = 54000;
    profile.array_kernel_box_ns = 54000;
    profile.copies_fixed_ns = 500'000;
    profile.copies_rate = 500;
    profile.bounce_rate = profile.relay_rate = 6000;
    profile.relay_fixed_ns = 100'000;
    return profile;
}

constexpr device_profile hopper_profile = hopper(), cautious_profile = cautious(), software_profile = software();

} // namespace

const device_profile &built_in_profile(const ferry_device_info &device) noexcept {
    if (device.is_software) return software_profile;
    // Devices that share page tables with the host have another link to it (GH200).
    const bool is_hopper = device.compute_major == 9 && device.compute_minor == 0 && !device.integrated &&
                           !device.pageable_uses_host_page_tables;
    return is_hopper ? hopper_profile : cautious_profile;
}

std::int32_t origin_of(const device_profile *profile, const ferry_device_info &device) noexcept {
    if (!profile) return FERRY_PROFILE_NONE;
    if (profile == &cautious_profile) return FERRY_PROFILE_CAUTIOUS;
    return profile == &built_in_profile(device) ? FERRY_PROFILE_BUILT_IN : FERRY_PROFILE_MEASURED;
}

} // namespace ferry
