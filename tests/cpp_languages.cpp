// ferry.hpp in every language that it is for: built as C++17, 20 and 23, with and without exceptions and run-time
// types, and run. What a copy may be made of is decided by the compiler, so most of this is asserted while it compiles.
#include <ferry/ferry.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif
#if defined(__has_include) && __cplusplus > 202002L
#if __has_include(<mdspan>)
#include <mdspan>
#endif
#endif

namespace {

// Shaped like std::mdspan, with strides of any kind.
template <class T, std::size_t dimensions> struct strided_span {
    using element_type = T;
    using reference = T &;
    using data_handle_type = T *;
    T *first;
    std::array<int, dimensions> extents, strides;
    bool has_strides = true;

    static constexpr std::size_t rank() { return dimensions; }
    T *data_handle() const { return first; }
    int extent(std::size_t axis) const { return extents[axis]; }
    int stride(std::size_t axis) const { return strides[axis]; }
    bool is_strided() const { return has_strides; }
};
struct made_up_span : strided_span<int, 1> {
    using reference = int;
};

// A copy's ends, a fill's end.

using gpu = ferry_instance *;
using ferry::device_memory, ferry::pinned_memory, ferry::device_view, ferry::host_view, ferry::any_view;

template <class, class From, class To> inline constexpr bool is_copy = false;
template <class From, class To>
inline constexpr bool is_copy<decltype(void(ferry::copy(gpu(), std::declval<From>(), std::declval<To>()))), From, To> =
    true;
template <class From, class To> inline constexpr bool can_copy = is_copy<void, From, To>;

template <class, class From, class To> inline constexpr bool is_copy_async = false;
template <class From, class To>
inline constexpr bool is_copy_async<
    decltype(void(ferry::copy_async(gpu(), std::declval<From>(), std::declval<To>(), nullptr))), From, To> = true;
template <class From, class To> inline constexpr bool can_enqueue = is_copy_async<void, From, To>;

template <class, class To, class Value> inline constexpr bool is_fill = false;
template <class To, class Value>
inline constexpr bool
    is_fill<decltype(void(ferry::fill(gpu(), std::declval<To>(), std::declval<Value>()))), To, Value> = true;
template <class To, class Value> inline constexpr bool can_fill = is_fill<void, To, Value>;

using vector = std::vector<int>;
using memory = device_memory<int>;

// Every end, and in both directions.
static_assert(can_copy<vector &, memory &> && can_copy<memory &, vector &>);
static_assert(can_copy<std::array<int, 4> &, vector &> && can_copy<int (&)[4], memory &>);
static_assert(can_copy<int (&)[3][4], memory &> && can_copy<memory &, int (&)[2][3][4]>);
static_assert(can_copy<pinned_memory<int> &, ferry::array &> && can_copy<ferry::array &, ferry::array &>);
static_assert(can_copy<ferry::managed_memory<int> &, ferry::pitched_memory<int> &>);
static_assert(can_copy<std::string &, device_view<char>> && can_copy<any_view<int>, device_view<int>>);
static_assert(can_copy<strided_span<int, 2>, memory &>);

// A source may be const, a destination not.
static_assert(can_copy<const vector &, memory &> && !can_copy<memory &, const vector &>);
static_assert(can_copy<const memory &, vector &> && !can_copy<vector &, const memory &>);
static_assert(can_copy<const int (&)[4], memory &> && !can_copy<memory &, const int (&)[4]>);
static_assert(can_copy<host_view<const int>, memory &> && !can_copy<memory &, host_view<const int>>);
static_assert(can_copy<const device_view<int> &, vector &> && can_copy<vector &, const device_view<int> &>);
static_assert(can_copy<strided_span<const int, 1>, memory &> && !can_copy<memory &, strided_span<const int, 1>>);
static_assert(std::is_convertible_v<host_view<int>, host_view<const int>>);
static_assert(!std::is_convertible_v<host_view<const int>, host_view<int>>);
static_assert(!std::is_convertible_v<host_view<int>, device_view<int>>);

// Elements are of one type, and bytes are all there is to them.
static_assert(!can_copy<std::vector<float> &, memory &> && can_copy<std::vector<float> &, ferry::array &>);
static_assert(!can_copy<std::vector<std::string> &, ferry::array &> && !can_copy<std::vector<bool> &, ferry::array &>);
static_assert(!can_copy<made_up_span, memory &> && !can_copy<int, memory &>);

// No temporary that owns its memory is written to, or read later.
static_assert(can_copy<vector, memory &> && !can_copy<memory &, vector> && !can_copy<vector &, memory>);
static_assert(can_enqueue<vector &, memory &> && !can_enqueue<vector, memory &>);
static_assert(can_enqueue<host_view<int>, device_view<int>> && !can_enqueue<memory, vector &>);
static_assert(can_enqueue<strided_span<int, 2>, strided_span<int, 2>>);

static_assert(can_fill<memory &, int> && can_fill<device_view<float>, int> && can_fill<pinned_memory<char> &, char>);
static_assert(!can_fill<const memory &, int> && !can_fill<device_view<const int>, int>);
static_assert(!can_fill<ferry::array &, int> && !can_fill<memory, int> && !can_fill<memory &, vector>);

#ifdef __cpp_lib_span
static_assert(can_copy<std::span<int>, memory &> && can_copy<const std::span<int> &, memory &>);
static_assert(can_copy<memory &, std::span<int>> && can_copy<memory &, std::span<int, 4>>);
static_assert(can_copy<std::span<const int>, memory &> && !can_copy<memory &, std::span<const int>>);
static_assert(can_enqueue<std::span<int>, memory &>);
#endif

// Handles pass as CUDA's own; nothing of the driver's is needed.
static_assert(std::is_convertible_v<ferry::stream &, CUstream_st *> &&
              std::is_convertible_v<ferry::event &, CUevent_st *>);
static_assert(std::is_convertible_v<ferry::array &, CUarray_st *> &&
              std::is_convertible_v<ferry::instance &, ferry_instance *>);
static_assert(!std::is_copy_constructible_v<ferry::instance> && std::is_nothrow_move_constructible_v<ferry::instance>);

// What has to be run.

int failures = 0;
void expect(bool holds, const char *what) {
    if (holds) return;
    std::printf("failed: %s\n", what);
    ++failures;
}
void expect(const ferry::status &done, const char *what) { expect(done.ok(), what); }

void copy_strided(const ferry::instance &ferry) {
    std::vector<int> numbers(4 * 5 * 6), back(2 * 3 * 4);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<int>(i);
    auto device = *device_memory<int>::create(ferry, 0, back.size());
    const strided_span<const int, 3> box = {numbers.data() + 31, {2, 3, 4}, {30, 6, 1}};
    expect(ferry::copy(ferry, box, device.view().shaped(4, 3, 2)), "a strided box goes up");
    expect(ferry::copy(ferry, device, back), "it comes back");
    for (std::size_t i = 0; i < back.size(); ++i)
        expect(back[i] == numbers[31 + i / 12 * 30 + i / 4 % 3 * 6 + i % 4], "its elements are where they belong");

    const struct {
        strided_span<int, 3> span;
        std::int32_t field; // FERRY_FIELD_NONE: it can be copied
    } cases[] = {
        {{numbers.data(), {2, 3, 4}, {1, 2, 6}}, FERRY_FIELD_X},             // column-major
        {{numbers.data(), {2, 3, 4}, {12, 3, 1}}, FERRY_FIELD_ROW_PITCH},    // rows that overlap
        {{numbers.data(), {2, 3, 4}, {0, 4, 1}}, FERRY_FIELD_SLICE_HEIGHT},  // one slice again and again
        {{numbers.data(), {2, 3, 4}, {13, 4, 1}}, FERRY_FIELD_SLICE_HEIGHT}, // slices of three and a quarter rows
        {{numbers.data(), {2, 3, 4}, {12, 4, 1}, false}, FERRY_FIELD_X},     // no strides at all
        {{numbers.data(), {2, 1, 4}, {9, 0, 1}}, FERRY_FIELD_NONE},          // one row: its stride is not looked at
        {{numbers.data(), {1, 3, 1}, {0, 9, 9}}, FERRY_FIELD_NONE},
        {{numbers.data(), {2, 0, 4}, {0, 0, 9}}, FERRY_FIELD_NONE}, // nothing
    };
    for (const auto &each : cases) {
        const auto view = ferry::view_of(each.span);
        expect(view.mistake().field() == each.field, "a layout is taken or refused for the right reason");
        const ferry::status done = ferry::copy(ferry, view, ferry::view_of(back).shaped(view.width(), view.height()));
        expect(each.field == FERRY_FIELD_NONE || done.side() == FERRY_SIDE_SOURCE, "and so by a copy");
    }
}

#ifdef __cpp_lib_mdspan
static_assert(can_copy<std::mdspan<int, std::dextents<int, 3>>, memory &>);
static_assert(!can_copy<memory &, std::mdspan<const int, std::dextents<int, 1>>>);

void copy_mdspans(const ferry::instance &ferry) {
    std::vector<int> numbers = {1, 2, 3, 4, 5, 6}, back(6);
    auto device = *ferry::pitched_memory<int>::create(ferry, 0, 3, 2);
    expect(ferry::copy(ferry, std::mdspan(numbers.data(), 2, 3), device), "an mdspan goes up");
    expect(ferry::copy(ferry, device, std::mdspan(back.data(), std::extents<int, 2, 3>())), "it comes back");
    expect(back == numbers, "it is the same");
    const std::mdspan<int, std::dextents<int, 2>, std::layout_left> columns(back.data(), 2, 3);
    expect(ferry::copy(ferry, device, columns).field() == FERRY_FIELD_X, "columns are refused");
}
#else
void copy_mdspans(const ferry::instance &) {}
#endif

} // namespace

int main() {
    auto opened = ferry::instance::open();
    expect(opened.why(), "ferry opens");
    if (!opened) return 1;
    const ferry::instance ferry = *std::move(opened);
    copy_strided(ferry);
    copy_mdspans(ferry);

#ifdef FERRY_HAS_EXCEPTIONS
    try {
        device_memory<int>::create(ferry, -7, 1).or_throw();
        expect(false, "a failure is thrown");
    } catch (const ferry::error &thrown) {
        expect(thrown.why().code() == FERRY_ERROR_DEVICE, "it is that failure");
    }
#else
    expect(!device_memory<int>::create(ferry, -7, 1), "a failure comes back");
#endif
    return failures ? 1 : 0;
}
