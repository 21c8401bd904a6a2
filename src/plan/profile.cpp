#include "plan/profile.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/hash.h"

namespace ferry {

namespace {

// ---- Built in --------------------------------------------------------------------------------------------------

struct measured_rate {
    std::uint32_t width, rate;
};

constexpr std::uint32_t between(std::uint32_t low, std::uint32_t high, std::int64_t step, std::int64_t steps) {
    return static_cast<std::uint32_t>(low + (static_cast<std::int64_t>(high) - low) * step / steps);
}

// One rate for each class of width: those measured, lines between them, and beside them rows a second below the first and
// bytes a second above the last.
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

template <std::size_t count, std::size_t other_count>
constexpr void fill_sides(std::uint32_t (&rates)[gap_sides][width_classes], const measured_rate (&source)[count],
                          const measured_rate (&destination)[other_count]) {
    fill_rates(rates[static_cast<int>(gaps::source)], source);
    fill_rates(rates[static_cast<int>(gaps::destination)], destination);
    for (int at = 0; at < width_classes; ++at)
        rates[static_cast<int>(gaps::both)][at] = std::min(rates[0][at], rates[1][at]);
}

// NVIDIA H200 SXM, PCIe 5 x16, driver 580, CUDA 13.0, wall time with a stream synchronise, medians: copies of 8 MiB in rows
// narrower than 64 B, else 32 MiB, within the device 256 MiB. Where a line says so the number is expected, not measured:
// then it favours the driver.
constexpr device_profile hopper() {
    device_profile profile = {};

    direction_profile &to_device = profile[copy_direction::host_to_device];
    to_device.driver_fixed_ns = 5700;
    to_device.driver_line_rate = 55000;
    to_device.driver_pageable_rate = 8000;
    fill_sides(to_device.driver_rates,
               {{4, 1728}, {16, 10454}, {64, 41155}, {128, 54000 /* expected */}, {256, 54480}, {4096, 54852}},
               {{4, 1115}, {16, 8953}, {64, 41986}, {128, 53000 /* expected */}, {256, 53811}, {65536, 54839}});
    to_device.kernel_fixed_ns = 11000;
    to_device.kernel_line_rate = 50000;
    fill_sides(to_device.kernel_rates, {{4, 24554}, {16, 24659}, {64, 39719}, {256, 50019}, {65536, 50312}},
               {{4, 47160}, {16, 47224}, {64, 50049}, {256, 49998}, {65536, 50417}});
    const std::uint32_t reads[access_classes] = {12000, 24000, 47000, 49000, 50400}; // expected, but for the last
    std::copy(std::begin(reads), std::end(reads), to_device.kernel_access_rates);
    to_device.kernel_block_rate = 18000; // one block 20400, two 36000, four 49400
    to_device.kernel_blocks = 8;
    to_device.call_ns = 2400;
    to_device.batch_piece_ns = 440; // 440 with 64 KiB, 1030 with 256 B, 1300 with 4 KiB
    to_device.batch_box_ns = 440;   // expected
    to_device.kernel_piece_ns = 6;  // expected: the launch itself shows none

    direction_profile &to_host = profile[copy_direction::device_to_host];
    to_host.driver_fixed_ns = 6500;
    to_host.driver_line_rate = 55000;
    to_host.driver_pageable_rate = 15000;
    fill_sides(to_host.driver_rates, // with gaps in the source as measured with gaps in the destination: expected
               {{4, 2646}, {16, 10496}, {64, 42005}, {128, 54000}, {256, 54369}, {65536, 54880}},
               {{4, 2646}, {16, 10496}, {64, 42005}, {128, 54000 /* expected */}, {256, 54369}, {65536, 54880}});
    to_host.kernel_fixed_ns = 11000;
    to_host.kernel_line_rate = 52000;
    fill_sides(to_host.kernel_rates, {{4, 40000 /* expected */}, {16, 45000 /* expected */}, {64, 51500}, {256, 51900}},
               {{4, 1987}, {16, 7862}, {64, 44528}, {256, 51556}, {65536, 51939}});
    const std::uint32_t writes[access_classes] = {12000, 24000, 45000, 50000, 52000}; // expected, but for the last
    std::copy(std::begin(writes), std::end(writes), to_host.kernel_access_rates);
    to_host.kernel_block_rate = 44000;
    to_host.kernel_blocks = 4;
    to_host.call_ns = 1850;
    to_host.batch_piece_ns = 380;
    to_host.batch_box_ns = 380; // expected
    to_host.kernel_piece_ns = 6;

    direction_profile &within = profile[copy_direction::within_device];
    within.driver_fixed_ns = 9000;
    within.driver_line_rate = 2104000;
    within.driver_pageable_rate = 2104000; // no end is a host's
    fill_sides(within.driver_rates,        // of gaps in the destination, and beyond 64 KiB: expected
               {{4, 35500},
                {16, 123000},
                {64, 520000},
                {256, 1366000},
                {1024, 1506000},
                {4096, 1469000},
                {65536, 817000},
                {1048576, 2104000}},
               {{4, 35500},
                {16, 123000},
                {64, 520000},
                {256, 1366000},
                {1024, 1506000},
                {4096, 1469000},
                {65536, 817000},
                {1048576, 2104000}});
    within.kernel_fixed_ns = 11000;
    within.kernel_line_rate = 1950000;
    fill_sides(within.kernel_rates, // narrower than 64 B, and gaps in the destination: expected
               {{4, 800000}, {16, 1400000}, {64, 1854000}, {256, 1892000}, {1024, 1912000}, {65536, 1929000}},
               {{4, 400000}, {16, 800000}, {64, 1700000}, {256, 1850000}, {1024, 1900000}, {65536, 1929000}});
    const std::uint32_t copies[access_classes] = {150000, 300000, 600000, 1200000,
                                                  1950000}; // expected, but for the last
    std::copy(std::begin(copies), std::end(copies), within.kernel_access_rates);
    within.kernel_block_rate = 48000;
    within.kernel_blocks = 528; // 264 blocks 1840, 528 to 2112 blocks 1930 to 1980 GB/s
    within.call_ns = 3950;
    within.batch_piece_ns = 3560;
    within.batch_box_ns = 3560; // expected
    within.kernel_piece_ns = 6;

    direction_profile &peer = profile[copy_direction::between_devices];
    peer = within;
    peer.driver_fixed_ns = 8000;
    peer.driver_line_rate = peer.driver_pageable_rate = 395000;
    peer.kernel_fixed_ns = 13500;
    peer.kernel_line_rate = 367000;
    for (int side = 0; side < gap_sides; ++side) // expected: NVLink's packets carry 32 bytes
        for (int at = 0; at < width_classes; ++at) {
            peer.driver_rates[side][at] = std::min(within.driver_rates[side][at], peer.driver_line_rate);
            peer.kernel_rates[side][at] = std::min(within.kernel_rates[side][at] / 5, peer.kernel_line_rate);
        }
    for (std::uint32_t &rate : peer.kernel_access_rates)
        rate = std::min(rate, peer.kernel_line_rate);
    peer.kernel_block_rate = 12000;
    peer.kernel_blocks = 32;

    profile.batch_fixed_ns = 6000;
    profile.array_driver_rate = 1090000;
    profile.array_kernel_rate = 1922000;
    profile.array_call_ns = 5460;
    profile.array_kernel_box_ns = 50; // expected
    return profile;
}

// A driver twice as good and kernels an eighth as good as there: links from PCIe 3 x8 on.
constexpr device_profile cautious() {
    device_profile profile = hopper();
    for (direction_profile &direction : profile.directions) {
        for (int side = 0; side < gap_sides; ++side)
            for (int at = 0; at < width_classes; ++at) {
                std::uint32_t &driver = direction.driver_rates[side][at], &kernel = direction.kernel_rates[side][at];
                driver = std::min(driver * 2, direction.driver_line_rate);
                kernel = std::max(kernel / 8, 1u);
            }
        for (std::uint32_t &rate : direction.kernel_access_rates)
            rate /= 8;
        direction.kernel_line_rate /= 8;
        direction.kernel_block_rate /= 2;
        direction.kernel_fixed_ns *= 2;
        direction.kernel_piece_ns *= 4;
        direction.driver_fixed_ns /= 2;
        direction.call_ns /= 2;
        direction.batch_piece_ns /= 2;
        direction.batch_box_ns /= 2;
    }
    profile.array_kernel_rate /= 8;
    profile.array_kernel_box_ns *= 4;
    profile.array_call_ns /= 2;
    return profile;
}

constexpr device_profile hopper_profile = hopper(), cautious_profile = cautious();

// ---- Text ------------------------------------------------------------------------------------------------------

constexpr std::uint32_t format_version = 1;
constexpr char title[] = "ferry-profile ", checksum_word[] = "checksum ";
constexpr const char *direction_names[copy_directions] = {"host_to_device", "device_to_host", "within_device",
                                                          "between_devices"};
constexpr const char *gap_names[gap_sides] = {"source_gaps", "destination_gaps", "both_gaps"};

enum class quantity : std::uint8_t { time, rate, count };
// What no machine measures is damage that the checksum was made over: a second a piece, 100 TB/s.
constexpr std::uint32_t most(quantity unit) noexcept {
    return unit == quantity::time ? 1'000'000'000 : unit == quantity::rate ? 100'000'000 : 65'535;
}

// One name; in the struct rows × columns numbers, in the text a line for each row.
struct fact {
    const char *name;
    std::size_t offset;
    std::uint32_t rows, columns;
    quantity unit;
};

template <class Member> constexpr fact describe(const char *name, std::size_t offset, quantity unit) noexcept {
    constexpr std::uint32_t rows = std::rank_v<Member> == 2 ? std::extent_v<Member> : 1;
    return {name, offset, rows, sizeof(Member) / sizeof(std::uint32_t) / rows, unit};
}

#define FERRY_DIRECTION_FACT(name, dimensions, unit)                                                                   \
    describe<decltype(direction_profile::name)>(#name, offsetof(direction_profile, name), quantity::unit),
constexpr fact direction_facts[] = {FERRY_DIRECTION_FACTS(FERRY_DIRECTION_FACT)};
#define FERRY_DEVICE_FACT(name, dimensions, unit)                                                                      \
    describe<decltype(device_profile::name)>(#name, offsetof(device_profile, name), quantity::unit),
constexpr fact device_wide_facts[] = {FERRY_DEVICE_FACTS(FERRY_DEVICE_FACT)};
#undef FERRY_DIRECTION_FACT
#undef FERRY_DEVICE_FACT

// A line of numbers: where they are and what they are called, in up to three words joined by dots.
struct fact_line {
    const char *words[3];
    std::size_t offset;
    std::uint32_t count;
    std::uint32_t most;
};

// Calls `use` for each line in their order, until it returns false.
template <class Use> bool for_each_line(const Use &use) noexcept {
    const auto for_each_of = [&](const fact &fact, const char *prefix, std::size_t base) noexcept {
        for (std::uint32_t row = 0; row < fact.rows; ++row) {
            const char *const suffix = fact.rows > 1 ? gap_names[row] : nullptr;
            if (!use(fact_line{{prefix, fact.name, suffix},
                               base + fact.offset + row * fact.columns * sizeof(std::uint32_t),
                               fact.columns,
                               most(fact.unit)}))
                return false;
        }
        return true;
    };
    for (int direction = 0; direction < copy_directions; ++direction)
        for (const fact &fact : direction_facts)
            if (!for_each_of(fact, direction_names[direction],
                             static_cast<std::size_t>(direction) * sizeof(direction_profile)))
                return false;
    for (const fact &fact : device_wide_facts)
        if (!for_each_of(fact, nullptr, 0)) return false;
    return true;
}

// Puts text where there is room, and counts it where there is none.
class text_writer {
public:
    text_writer(char *text, std::uint64_t size) noexcept : text_(text), size_(size) {}
    void put(char character) noexcept {
        if (length_ < size_) text_[length_] = character;
        ++length_;
    }
    void put(const char *word) noexcept {
        while (*word)
            put(*word++);
    }
    void put(std::uint64_t number, unsigned base = 10, int least_digits = 1) noexcept {
        char digits[20];
        int count = 0;
        for (; number || count < least_digits; number /= base)
            digits[count++] = "0123456789abcdef"[number % base];
        while (count)
            put(digits[--count]);
    }
    std::uint64_t length() const noexcept { return length_; }

private:
    char *text_;
    std::uint64_t size_, length_ = 0;
};

// The same words from writing and reading: here put into a text, there compared with one.
class text_comparer {
public:
    text_comparer(const char *text, const char *end) noexcept : at_(text), end_(end) {}
    void put(char character) noexcept {
        same_ = same_ && at_ < end_ && *at_ == character;
        at_ += same_;
    }
    void put(const char *word) noexcept {
        while (*word)
            put(*word++);
    }
    void put(std::uint64_t number, unsigned base = 10, int least_digits = 1) noexcept {
        char digits[24] = "";
        text_writer(digits, sizeof digits - 1).put(number, base, least_digits);
        put(static_cast<const char *>(digits));
    }
    bool same() const noexcept { return same_; }
    const char *at() const noexcept { return at_; }

private:
    const char *at_, *end_;
    bool same_ = true;
};

template <class Out> void put_device(Out &out, const profile_owner &owner) noexcept {
    out.put("device ");
    for (const char *name = owner.device.name; *name; ++name)
        out.put(static_cast<unsigned char>(*name) < ' ' ? '?' : *name); // the name stays in its line
    out.put(", compute ");
    out.put(static_cast<std::uint64_t>(owner.device.compute_major));
    out.put('.');
    out.put(static_cast<std::uint64_t>(owner.device.compute_minor));
    out.put(", multiprocessors ");
    out.put(static_cast<std::uint64_t>(owner.device.multiprocessor_count));
    out.put('\n');
}

template <class Out> void put_driver(Out &out, const profile_owner &owner) noexcept {
    out.put("driver ");
    out.put(static_cast<std::uint64_t>(owner.driver_version));
    out.put('\n');
}

template <class Out> void put_name(Out &out, const fact_line &line) noexcept {
    bool is_first = true;
    for (const char *word : line.words) {
        if (!word) continue;
        if (!is_first) out.put('.');
        out.put(word);
        is_first = false;
    }
}

template <class Out> void put_checksum(Out &out, const char *text, std::uint64_t size) noexcept {
    out.put(checksum_word);
    out.put(hash_of(text, size), 16, 16);
    out.put('\n');
}
constexpr std::uint64_t checksum_size = sizeof checksum_word - 1 + 16 + 1;

// A number as the writer writes it: digits alone, no leading zero.
bool read_number(const char *&at, const char *end, std::uint64_t &number) noexcept {
    const char *const first = at;
    number = 0;
    for (; at < end && *at >= '0' && *at <= '9' && at - first < 12; ++at)
        number = number * 10 + static_cast<std::uint64_t>(*at - '0');
    return at != first && (*first != '0' || at - first == 1);
}

profile_problem read_facts(const char *at, const char *end, std::uint32_t line_number,
                           device_profile &profile) noexcept {
    profile_problem problem;
    for_each_line([&](const fact_line &line) noexcept {
        problem.line = line_number++;
        text_comparer name(at, end);
        put_name(name, line);
        at = name.at();
        if (!name.same()) problem.fault = profile_fault::damage;
        for (std::uint32_t i = 0; i < line.count && problem.fault == profile_fault::none; ++i) {
            std::uint64_t number = 0;
            if (at == end || *at++ != ' ' || !read_number(at, end, number))
                problem.fault = profile_fault::damage;
            else if (number < 1 || number > line.most)
                problem.fault = profile_fault::value;
            const auto value = static_cast<std::uint32_t>(number);
            std::memcpy(reinterpret_cast<std::byte *>(&profile) + line.offset + i * sizeof value, &value, sizeof value);
        }
        if (problem.fault == profile_fault::none && (at == end || *at++ != '\n')) problem.fault = profile_fault::damage;
        return problem.fault == profile_fault::none;
    });
    if (problem.fault != profile_fault::none) return problem;
    if (at != end) return {profile_fault::damage, line_number};
    return {};
}

} // namespace

const device_profile &built_in_profile(const ferry_device_info &device) noexcept {
    // Those that share page tables with the host have another link to it (GH200).
    const bool is_hopper = device.compute_major == 9 && device.compute_minor == 0 && !device.is_software &&
                           !device.integrated && !device.pageable_uses_host_page_tables;
    return is_hopper ? hopper_profile : cautious_profile;
}

std::uint64_t write_profile(const device_profile &profile, const profile_owner &owner, char *text,
                            std::uint64_t size) noexcept {
    const auto put_all = [&](text_writer &out) noexcept {
        out.put(title);
        out.put(std::uint64_t{format_version});
        out.put('\n');
        put_device(out, owner);
        put_driver(out, owner);
        for_each_line([&](const fact_line &line) noexcept {
            put_name(out, line);
            for (std::uint32_t i = 0; i < line.count; ++i) {
                std::uint32_t value = 0;
                const auto *const bytes = reinterpret_cast<const std::byte *>(&profile);
                std::memcpy(&value, bytes + line.offset + i * sizeof value, sizeof value);
                out.put(' ');
                out.put(std::uint64_t{value});
            }
            out.put('\n');
            return true;
        });
    };
    text_writer measure(nullptr, 0);
    put_all(measure);
    const std::uint64_t length = measure.length() + checksum_size;
    if (length >= size) return length;
    text_writer out(text, size);
    put_all(out);
    put_checksum(out, text, measure.length());
    text[length] = '\0';
    return length;
}

profile_problem read_profile(const char *text, std::uint64_t size, const profile_owner &owner,
                             device_profile &profile) noexcept {
    const char *const end = text + size;
    text_comparer head(text, end);
    head.put(title);
    if (!head.same()) return {profile_fault::damage, 1};
    head.put(std::uint64_t{format_version});
    head.put('\n');
    if (!head.same()) return {profile_fault::version, 1};

    // Damage first: what a damaged text says of its device is nothing to tell of.
    const auto lines = static_cast<std::uint32_t>(std::count(text, end, '\n'));
    if (size < checksum_size) return {profile_fault::damage, lines + 1};
    const char *const facts_end = end - checksum_size;
    text_comparer checksum(facts_end, end);
    put_checksum(checksum, text, size - checksum_size);
    if (!checksum.same()) return {profile_fault::damage, lines + (end[-1] != '\n')};

    text_comparer device(head.at(), facts_end);
    put_device(device, owner);
    if (!device.same()) return {profile_fault::other_device, 2};
    text_comparer driver(device.at(), facts_end);
    put_driver(driver, owner);
    if (!driver.same()) return {profile_fault::other_driver, 3};

    device_profile found = {};
    const profile_problem problem = read_facts(driver.at(), facts_end, 4, found);
    if (problem.fault == profile_fault::none) profile = found;
    return problem;
}

} // namespace ferry
