#include "plan/profile_text.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/hash.h"

namespace ferry {

namespace {

constexpr std::uint32_t format_version = 5;
constexpr char title[] = "ferry-profile ", pair_word[] = "pair ", driver_word[] = "driver ",
               checksum_word[] = "checksum ";
constexpr const char *direction_names[copy_directions] = {"host_to_device", "device_to_host", "within_device",
                                                          "between_devices"};
constexpr const char *gap_names[gap_sides] = {"source_gaps", "destination_gaps", "both_gaps"};

enum class quantity : std::uint8_t { time, rate, count };
// Larger numbers, which no machine measures, indicate damage from before the checksum was computed. The limits are one
// second per piece and 100 TB/s.
constexpr std::uint32_t max_of(quantity unit) noexcept {
    return unit == quantity::time ? 1'000'000'000 : unit == quantity::rate ? 100'000'000 : 65'535;
}

// One named fact: rows × columns numbers in the struct, one line of text per row.
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
#define FERRY_PAIR_UNIT(name, unit) quantity::unit,
constexpr quantity pair_units[] = {FERRY_PAIR_FACTS(FERRY_PAIR_UNIT)};
#undef FERRY_PAIR_UNIT
static_assert(std::size(pair_units) == std::tuple_size_v<pair_numbers>);

// A line of numbers: their position in the struct, and their name in up to three words joined by dots.
struct fact_line {
    const char *words[3];
    std::size_t offset;
    std::uint32_t count;
    std::uint32_t max;
};

// Calls `use` for each line in order, until it returns false.
template <class Use> bool for_each_line(const Use &use) noexcept {
    const auto for_each_of = [&](const fact &fact, const char *prefix, std::size_t base) noexcept {
        for (std::uint32_t row = 0; row < fact.rows; ++row) {
            const char *const suffix = fact.rows > 1 ? gap_names[row] : nullptr;
            if (!use(fact_line{{prefix, fact.name, suffix},
                               base + fact.offset + row * fact.columns * sizeof(std::uint32_t),
                               fact.columns,
                               max_of(fact.unit)}))
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

// Writes as much text as fits, and counts all of it.
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
    void put(std::uint64_t number, unsigned base = 10, int min_digits = 1) noexcept {
        char digits[20];
        int count = 0;
        for (; number || count < min_digits; number /= base)
            digits[count++] = "0123456789abcdef"[number % base];
        while (count)
            put(digits[--count]);
    }
    std::uint64_t length() const noexcept { return length_; }

private:
    char *text_;
    std::uint64_t size_, length_ = 0;
};

// Compares a text with the text that text_writer would write, so that reading and writing share one set of functions.
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
    void put(std::uint64_t number, unsigned base = 10, int min_digits = 1) noexcept {
        char digits[24] = "";
        text_writer(digits, sizeof digits - 1).put(number, base, min_digits);
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
        out.put(static_cast<unsigned char>(*name) < ' ' ? '?' : *name); // keeps the name on one line
    out.put(", compute ");
    out.put(static_cast<std::uint64_t>(owner.device.compute_major));
    out.put('.');
    out.put(static_cast<std::uint64_t>(owner.device.compute_minor));
    out.put(", multiprocessors ");
    out.put(static_cast<std::uint64_t>(owner.device.sm_count));
    out.put('\n');
}

template <class Out> void put_driver(Out &out, const profile_owner &owner) noexcept {
    out.put(driver_word);
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

void put_pair(text_writer &out, const profile_pair &pair) noexcept {
    out.put(pair_word);
    out.put(static_cast<const char *>(pair.device));
    out.put(' ');
    out.put(static_cast<const char *>(pair.peer));
    for (const std::uint32_t number : std::bit_cast<pair_numbers>(pair.rates)) {
        out.put(' ');
        out.put(std::uint64_t{number});
    }
    out.put('\n');
}

template <class Out> void put_checksum(Out &out, const char *text, std::uint64_t size) noexcept {
    out.put(checksum_word);
    out.put(hash_of(text, size), 16, 16);
    out.put('\n');
}
constexpr std::uint64_t checksum_size = sizeof checksum_word - 1 + 16 + 1;

// Reads a number as text_writer writes it: only digits, no leading zero.
bool read_number(const char *&at, const char *end, std::uint64_t &number) noexcept {
    const char *const first = at;
    number = 0;
    for (; at < end && *at >= '0' && *at <= '9' && at - first < 12; ++at)
        number = number * 10 + static_cast<std::uint64_t>(*at - '0');
    return at != first && (*first != '0' || at - first == 1);
}

// The number behind `word`; 0 if there is none.
std::uint64_t number_after(const char *at, const char *end, const char *word) noexcept {
    text_comparer begin(at, end);
    begin.put(word);
    std::uint64_t number = 0;
    const char *digits = begin.at();
    return begin.same() && read_number(digits, end, number) ? number : 0;
}

// Reads a PCI address.
template <std::size_t Size> bool read_word(const char *&at, const char *end, char (&word)[Size]) noexcept {
    std::size_t length = 0;
    for (; at<end && * at> ' ' && *at <= '~' && length < Size - 1; ++at)
        word[length++] = *at;
    word[length] = '\0';
    return length != 0;
}

bool read_character(const char *&at, const char *end, char character) noexcept {
    return at < end && *at++ == character;
}

profile_fault read_pair(const char *&at, const char *end, profile_pair &pair) noexcept {
    text_comparer word(at, end);
    word.put(pair_word);
    at = word.at();
    if (!word.same() || !read_word(at, end, pair.device) || !read_character(at, end, ' ') ||
        !read_word(at, end, pair.peer))
        return profile_fault::damage;
    pair_numbers numbers = {};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        std::uint64_t number = 0;
        if (!read_character(at, end, ' ') || !read_number(at, end, number)) return profile_fault::damage;
        if (number > max_of(pair_units[i])) return profile_fault::value;
        numbers[i] = static_cast<std::uint32_t>(number);
    }
    pair.rates = std::bit_cast<pair_rates>(numbers);
    return read_character(at, end, '\n') ? profile_fault::none : profile_fault::damage;
}

profile_problem read_facts(const char *&at, const char *end, std::uint32_t &line_number,
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
            if (!read_character(at, end, ' ') || !read_number(at, end, number))
                problem.fault = profile_fault::damage;
            else if (number < 1 || number > line.max)
                problem.fault = profile_fault::value;
            const auto value = static_cast<std::uint32_t>(number);
            std::memcpy(reinterpret_cast<std::byte *>(&profile) + line.offset + i * sizeof value, &value, sizeof value);
        }
        if (problem.fault == profile_fault::none && !read_character(at, end, '\n'))
            problem.fault = profile_fault::damage;
        return problem.fault == profile_fault::none;
    });
    return problem;
}

} // namespace

std::uint64_t write_profile(const device_profile &profile, const profile_owner &owner, const pair_list &pairs,
                            char *text, std::uint64_t size) noexcept {
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
        pairs([&](const profile_pair &pair) noexcept { put_pair(out, pair); });
        return out.length();
    };
    for (;;) {
        text_writer measure(nullptr, 0);
        const std::uint64_t facts = put_all(measure), length = facts + checksum_size;
        if (length >= size) return length;
        text_writer out(text, size);
        if (put_all(out) != facts) continue; // another thread has measured a pair in the meantime
        put_checksum(out, text, facts);
        text[length] = '\0';
        return length;
    }
}

profile_problem read_profile(const char *text, std::uint64_t size, const profile_owner &owner,
                             device_profile &profile) noexcept {
    const char *const end = text + size;
    text_comparer head(text, end);
    head.put(title);
    if (!head.same()) return {profile_fault::damage, 1};
    head.put(std::uint64_t{format_version});
    head.put('\n');
    if (!head.same()) return {profile_fault::version, 1, number_after(text, end, title), format_version};

    // Damage is reported first, because the device that a damaged text states is irrelevant.
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
    if (!driver.same())
        return {profile_fault::other_driver, 3, number_after(device.at(), facts_end, driver_word),
                static_cast<std::uint64_t>(owner.driver_version)};

    device_profile found = {};
    const char *at = driver.at();
    std::uint32_t line = 4;
    if (const profile_problem problem = read_facts(at, facts_end, line, found); problem.fault != profile_fault::none)
        return problem;
    for (; at != facts_end; ++line) {
        profile_pair pair;
        if (const profile_fault fault = read_pair(at, facts_end, pair); fault != profile_fault::none)
            return {fault, line};
    }
    profile = found;
    return {};
}

void read_pairs(const char *text, std::uint64_t size, const pair_use &use) noexcept {
    const char *const end = text + size - checksum_size;
    for (const char *at = text; at != end;) {
        const char *const line = at;
        profile_pair pair;
        if (read_pair(at, end, pair) == profile_fault::none)
            use(pair);
        else
            at = std::find(line, end, '\n') + 1;
    }
}

} // namespace ferry
