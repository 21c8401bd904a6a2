// ferry.hpp in every language mode that it supports: built as C++17, 20 and 23, with and without exceptions and RTTI,
// and run. The compiler decides what can be copied, so static assertions check most of it.

// A program's own names. They would be better matches than ferry's if ferry.hpp left the choice to the compiler.
template <class... Any> void fetch(Any &&...) = delete;
template <class... Any> void as_view(Any &&...) = delete;
template <class... Any> void view_of(Any &&...) = delete;
template <class... Any> void describe(Any &&...) = delete;
template <class... Any> void set_extent(Any &&...) = delete;
template <class... Any> void call_with_error_info(Any &&...) = delete;
template <class... Any> void fetch_with_error_info(Any &&...) = delete;
template <class... Any> void own(Any &&...) = delete;
template <class... Any> void free_block(Any &&...) = delete;
template <class... Any> void is_done(Any &&...) = delete;
template <class... Any> void line_of(Any &&...) = delete;
template <class... Any> void at_side(Any &&...) = delete;
template <class... Any> void check_same(Any &&...) = delete;
template <class... Any> void refusal(Any &&...) = delete;
template <class... Any> void list_of(Any &&...) = delete;
template <class... Any> void in_elements(Any &&...) = delete;
template <class... Any> void with_copy(Any &&...) = delete;
template <class... Any> void with_fill(Any &&...) = delete;
template <class... Any> void check_elements(Any &&...) = delete;
template <class... Any> void check_count(Any &&...) = delete;
template <class... Any> void explain(Any &&...) = delete;
struct pixel {
    unsigned char red, green, blue, alpha;
};

#if defined(_WIN32)
#include <windows.h> // with macros such as min and near
#endif

#include <ferry/ferry.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
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
// Also shaped like a container.
template <class Span> struct sized_span : Span {
    int *data() const { return Span::first; }
    std::size_t size() const { return 1; }
};

// Shaped like std::extents and the layouts of std::mdspan.
template <class Index, std::size_t... sizes> struct static_extents {};
template <class, std::size_t... sizes> struct layout_base {
    std::array<int, sizeof...(sizes)> extents = {static_cast<int>(sizes)...};
    constexpr bool is_exhaustive() const { return true; }
    constexpr int required_span_size() const {
        int count = 1;
        for (const int extent : extents)
            count *= extent;
        return count;
    }
    friend bool operator==(const layout_base &a, const layout_base &b) { return a.extents == b.extents; }
};
struct columns_first {
    template <class> struct mapping;
    template <std::size_t... sizes>
    struct mapping<static_extents<int, sizes...>> : layout_base<columns_first, sizes...> {
        static constexpr bool has_strides = true;
        constexpr int stride(std::size_t axis) const {
            int stride = 1;
            for (std::size_t i = 0; i < axis; ++i)
                stride *= this->extents[i];
            return stride;
        }
        int offset(int i, int j) const { return i + j * this->extents[0]; }
    };
};
struct rows_first {
    template <class> struct mapping;
    template <std::size_t... sizes> struct mapping<static_extents<int, sizes...>> : layout_base<rows_first, sizes...> {
        static constexpr bool has_strides = true;
        constexpr int stride(std::size_t axis) const {
            int stride = 1;
            for (std::size_t i = axis + 1; i < sizeof...(sizes); ++i)
                stride *= this->extents[i];
            return stride;
        }
        int offset(int i, int j) const { return i * this->extents[1] + j; }
    };
};
struct diagonals { // without strides
    template <class> struct mapping;
    template <std::size_t... sizes> struct mapping<static_extents<int, sizes...>> : layout_base<diagonals, sizes...> {
        static constexpr bool has_strides = false;
        int stride(std::size_t) const { std::abort(); }
        int offset(int i, int j) const { return (i + j) % this->extents[1] * this->extents[0] + i; }
    };
};
template <class T, class Layout, std::size_t... sizes> struct laid_out_span {
    using element_type = T;
    using reference = T &;
    using data_handle_type = T *;
    using layout_type = Layout;
    using extents_type = static_extents<int, sizes...>;
    using mapping_type = typename Layout::template mapping<extents_type>;
    T *first;
    mapping_type map = {};

    static constexpr std::size_t rank() { return sizeof...(sizes); }
    T *data_handle() const { return first; }
    const mapping_type &mapping() const { return map; }
    int extent(std::size_t axis) const { return map.extents[axis]; }
    int stride(std::size_t axis) const { return map.stride(axis); }
    bool is_strided() const { return mapping_type::has_strides; }
    T &at(int i, int j) const { return first[map.offset(i, j)]; }
};

// Holds its bytes itself and has a const data(), so a copy of a packet has bytes of its own.
struct packet {
    char bytes[16];
    const char *data() const { return bytes; }
    std::size_t size() const { return sizeof bytes; }
};

// Shaped like rmm::device_uvector: a container whose elements the host cannot access.
template <class T> struct device_buffer {
    T *first;
    std::size_t count;
    T *data() { return first; }
    const T *data() const { return first; }
    std::size_t size() const { return count; }
};
// A program says where the memory of its types is.
template <class T> struct known_device_buffer : device_buffer<T> {};
struct mapped_file : device_buffer<const char> {};

} // namespace
template <class T>
struct ferry::memory_kind_of<known_device_buffer<T>> : std::integral_constant<std::int32_t, FERRY_KIND_DEVICE> {};
template <> struct ferry::memory_kind_of<mapped_file> : std::integral_constant<std::int32_t, FERRY_KIND_HOST> {};
namespace {

// Views that a program defines, which look like containers.
struct own_view : device_buffer<int> {};
struct borrowed_view : device_buffer<int> {};
struct ranges_view : device_buffer<int> {};

} // namespace
template <> struct ferry::borrows_memory<borrowed_view> : std::true_type {};
#ifdef __cpp_lib_ranges
template <> inline constexpr bool std::ranges::enable_borrowed_range<ranges_view> = true;
#else
template <> struct ferry::borrows_memory<ranges_view> : std::true_type {};
#endif
namespace {

// An allocator of the program, which may give any memory.
template <class T> struct own_allocator : std::allocator<T> {
    template <class U> struct rebind { using other = own_allocator<U>; };
};

// ---- The ends of a copy and of a fill

using gpu = ferry_instance *;
using ferry::device_memory, ferry::pinned_memory, ferry::device_view, ferry::host_view, ferry::any_view;

// ferry's own answers. Where one is yes, the calls must compile; cpp_rejections.py has calls where it is no.
template <class... Calls> constexpr bool compile(Calls...) { return true; }

template <class From, class To> constexpr bool find_copy() {
    if constexpr (ferry::can_copy<From, To>)
        return compile(ferry::copy<From, To>, ferry::explain<From, To>, ferry::explain_async<From, To>);
    return ferry::can_copy<From, To>;
}
template <class From, class To> inline constexpr bool can_copy = find_copy<From, To>();

template <class From, class To> constexpr bool find_copy_async() {
    if constexpr (ferry::can_copy_async<From, To>)
        return compile(ferry::copy_async<From, To>, ferry::copy_async_ticket<From, To>, ferry::describe_copy<From, To>);
    return ferry::can_copy_async<From, To>;
}
template <class From, class To> inline constexpr bool can_enqueue = find_copy_async<From, To>();

template <class To> constexpr bool find_fill() {
    if constexpr (ferry::can_fill<To>) return compile(ferry::fill<To>, ferry::fill_async<To>, ferry::describe_fill<To>);
    return ferry::can_fill<To>;
}
// The type of the value is for overload resolution.
template <class, class To, class Value> inline constexpr bool is_fill = false;
template <class To, class Value>
inline constexpr bool
    is_fill<decltype(void(ferry::fill(gpu(), std::declval<To>(), std::declval<Value>()))), To, Value> = find_fill<To>();
template <class To, class Value> inline constexpr bool can_fill = is_fill<void, To, Value>;

using vector = std::vector<int>;
using memory = device_memory<int>;
using block = ferry::pinned_block<int>;
using ordered = ferry::stream_memory<int>;
using imported = ferry::imported_memory<int>;
using from_host_pool = ferry::stream_memory<int, FERRY_KIND_HOST>;

// Every kind of end, in both directions.
static_assert(can_copy<vector &, memory &> && can_copy<memory &, vector &>);
static_assert(can_copy<std::array<int, 4> &, vector &> && can_copy<int (&)[4], memory &>);
static_assert(can_copy<int (&)[3][4], memory &> && can_copy<memory &, int (&)[2][3][4]>);
static_assert(can_copy<pinned_memory<int> &, ferry::array &> && can_copy<ferry::array &, ferry::array &>);
static_assert(can_copy<ferry::managed_memory<int> &, ferry::pitched_memory<int> &>);
static_assert(can_copy<std::string &, device_view<char>> && can_copy<any_view<int>, device_view<int>>);
static_assert(can_copy<strided_span<int, 2>, memory &>);
static_assert(can_enqueue<block &, ordered &> && can_enqueue<ordered &, block &>);
static_assert(can_enqueue<imported &, ordered &> && can_enqueue<from_host_pool &, imported &>);

// A source may be const, a destination may not.
static_assert(can_copy<const vector &, memory &> && !can_copy<memory &, const vector &>);
static_assert(can_copy<const memory &, vector &> && !can_copy<vector &, const memory &>);
static_assert(can_copy<const ordered &, block &> && !can_copy<block &, const ordered &>);
static_assert(can_copy<const int (&)[4], memory &> && !can_copy<memory &, const int (&)[4]>);
static_assert(can_copy<host_view<const int>, memory &> && !can_copy<memory &, host_view<const int>>);
static_assert(can_copy<const device_view<int> &, vector &> && can_copy<vector &, const device_view<int> &>);
static_assert(can_copy<strided_span<const int, 1>, memory &> && !can_copy<memory &, strided_span<const int, 1>>);
static_assert(std::is_convertible_v<host_view<int>, host_view<const int>>);
static_assert(!std::is_convertible_v<host_view<const int>, host_view<int>>);
static_assert(!std::is_convertible_v<host_view<int>, device_view<int>>);

// Typed ends have the same element type, and it is trivially copyable.
static_assert(!can_copy<std::vector<float> &, memory &> && can_copy<std::vector<float> &, ferry::array &>);
static_assert(!can_copy<std::vector<std::string> &, ferry::array &> && !can_copy<std::vector<bool> &, ferry::array &>);
static_assert(!can_copy<made_up_span, memory &> && !can_copy<int, memory &>);

// A temporary that owns its memory is no destination, and no source of an asynchronous copy.
static_assert(can_copy<vector, memory &> && !can_copy<memory &, vector> && !can_copy<vector &, memory>);
static_assert(can_enqueue<vector &, memory &> && !can_enqueue<vector, memory &>);
static_assert(can_enqueue<host_view<int>, device_view<int>> && !can_enqueue<memory, vector &>);
static_assert(!can_enqueue<block, memory &> && !can_enqueue<ordered, vector &> && !can_enqueue<imported, vector &>);
static_assert(can_enqueue<strided_span<int, 2>, strided_span<int, 2>>);
static_assert(can_copy<std::array<const int, 4>, memory &> && !can_enqueue<std::array<const int, 4>, memory &>);
static_assert(can_enqueue<std::array<const int, 4> &, memory &> && !can_enqueue<std::array<int, 4>, memory &>);
static_assert(can_enqueue<packet &, ferry::array &> && !can_enqueue<packet, ferry::array &>);
static_assert(!can_enqueue<own_view, memory &> && !can_copy<memory &, own_view> && can_enqueue<own_view &, memory &>);
static_assert(can_enqueue<borrowed_view, memory &> && can_copy<memory &, borrowed_view>);
static_assert(can_enqueue<ranges_view, memory &> && can_copy<memory &, ranges_view>);
static_assert(can_enqueue<std::string_view, device_view<char>> && !can_enqueue<std::string, device_view<char>>);

// A type shaped like an mdspan is treated as one, or refused.
static_assert(can_enqueue<sized_span<strided_span<int, 2>>, sized_span<strided_span<int, 2>> &>);
static_assert(!can_copy<sized_span<made_up_span>, memory &> && !can_copy<sized_span<strided_span<int, 4>> &, memory &>);

// A temporary owner gives out neither a view nor a pointer.
template <class, class Owner> inline constexpr bool is_viewed = false;
template <class Owner> inline constexpr bool is_viewed<decltype(void(std::declval<Owner>().view())), Owner> = true;
template <class, class Owner> inline constexpr bool is_range = false;
template <class Owner> inline constexpr bool is_range<decltype(void(std::declval<Owner>().data())), Owner> = true;
static_assert(is_viewed<void, memory &> && !is_viewed<void, memory> && !is_viewed<void, const memory>);
static_assert(is_viewed<void, const ferry::array &> && !is_viewed<void, ferry::array>);
static_assert(is_range<void, const pinned_memory<int> &> && !is_range<void, pinned_memory<int>>);
static_assert(is_range<void, const block &> && !is_range<void, block> && !is_viewed<void, ordered>);

template <class R> constexpr bool find_export() {
    if constexpr (ferry::can_export<R>) return compile(ferry::export_memory<R>);
    return ferry::can_export<R>;
}
template <class R> inline constexpr bool can_export = find_export<R>();
static_assert(can_export<memory &> && can_export<const ordered &> && can_export<device_view<const int>>);
static_assert(!can_export<memory> && !can_export<ferry::array &>);

template <class R> constexpr bool find_registration() {
    if constexpr (ferry::can_register<R>) return compile(ferry::registration::create<R>);
    return ferry::can_register<R>;
}
template <class R> inline constexpr bool can_register = find_registration<R>();
static_assert(can_register<const vector &> && can_register<int (&)[2][3]> && can_register<host_view<int>>);
static_assert(!can_register<vector> && !can_register<memory &> && !can_register<ferry::array &> && !can_register<int>);

template <class R> constexpr bool find_view() {
    if constexpr (ferry::can_view<R>) return compile(ferry::view_of<R>);
    return ferry::can_view<R>;
}
template <class R> inline constexpr bool can_view = find_view<R>();
static_assert(can_view<const vector &> && can_view<ferry::array &> && can_view<strided_span<int, 3>>);
static_assert(!can_view<vector> && !can_view<memory> && !can_view<int *> && !can_view<std::vector<bool> &>);
static_assert(!can_view<std::string (&)[2]> && !can_view<int (&)[1][1][1][1]> && !can_view<volatile int (&)[2]>);

// Only types that can have no other memory count as host memory. Of others ferry queries the kind.
template <class R> using viewed = decltype(ferry::view_of(std::declval<R>()));
template <class T> inline constexpr bool is_host = std::is_same_v<viewed<T>, host_view<int>>;
template <class T> inline constexpr bool is_any = std::is_same_v<viewed<T>, any_view<int>>;
static_assert(is_host<vector &> && is_host<std::array<int, 4> &> && is_host<int (&)[4]> && is_host<int (&)[2][3][4]>);
static_assert(std::is_same_v<viewed<const vector &>, host_view<const int>>);
static_assert(std::is_same_v<viewed<const std::string &>, host_view<const char>>);
static_assert(std::is_same_v<viewed<const std::array<int, 4> &>, host_view<const int>>);
static_assert(is_any<std::vector<int, own_allocator<int>> &> && is_any<device_buffer<int> &>);
static_assert(is_any<strided_span<int, 2>> && is_any<laid_out_span<int, columns_first, 2, 2>>);
static_assert(std::is_same_v<viewed<std::string_view>, any_view<const char>>);
static_assert(std::is_same_v<viewed<const device_buffer<int> &>, any_view<const int>>);
static_assert(std::is_same_v<viewed<known_device_buffer<int> &>, device_view<int>>);
static_assert(std::is_same_v<viewed<const known_device_buffer<int> &>, device_view<const int>>);
static_assert(std::is_same_v<viewed<mapped_file &>, host_view<const char>>);
static_assert(can_register<strided_span<int, 2>> && !can_register<known_device_buffer<int> &>);

static_assert(can_fill<memory &, int> && can_fill<device_view<float>, int> && can_fill<pinned_memory<char> &, char>);
static_assert(!can_fill<const memory &, int> && !can_fill<device_view<const int>, int>);
static_assert(!can_fill<ferry::array &, int> && !can_fill<memory, int> && !can_fill<memory &, vector>);
static_assert(can_fill<device_view<std::array<int, 4>>, std::array<int, 4>>);
static_assert(!can_fill<device_view<std::array<int, 3>>, std::array<int, 3>>);

// A batch is any contiguous range of descriptors or pieces, or contiguous ranges of 64-bit numbers.
template <class Copies>
inline constexpr bool can_copy_batch = compile(ferry::copy_batch<Copies>, ferry::copy_batch_async<Copies>,
                                               ferry::explain_batch_async<Copies>, ferry::prepared::create<Copies>);
static_assert(can_copy_batch<std::vector<ferry_copy_desc>> && can_copy_batch<ferry_copy_desc[4]>);
static_assert(can_copy_batch<std::array<ferry_copy_desc, 2>> && can_copy_batch<pinned_memory<ferry_copy_desc>>);

using addresses = std::vector<std::uint64_t>;
template <class R> ferry::pieces pieces_of(R &&from, R &&to, R &&of) {
    return {ferry::sources(std::forward<R>(from)), ferry::destinations(std::forward<R>(to)),
            ferry::sizes(std::forward<R>(of))};
}
template <class R> inline constexpr bool can_be_pieces = compile(pieces_of<R>);
static_assert(can_be_pieces<addresses &> && can_be_pieces<const addresses &> && can_be_pieces<std::uint64_t (&)[4]>);
static_assert(can_be_pieces<const std::uint64_t (&)[4]> && can_be_pieces<std::array<std::uint64_t, 4> &>);
static_assert(can_be_pieces<const pinned_memory<std::uint64_t> &>);
struct changeable {
    std::uint64_t numbers[2] = {};
    std::uint64_t *data() { return numbers; }
    std::size_t size() const { return 2; }
};
static_assert(can_be_pieces<changeable &>);

// What a program derives from ferry's arguments passes for them.
struct own_pieces : ferry::pieces {
    using pieces::pieces;
};
struct own_options : ferry_multilink_options {};
[[maybe_unused]] void pass_derived(ferry::instance &ferry, own_pieces &all) {
    static_cast<void>(ferry::prepared::create(ferry, all, nullptr));
    static_cast<void>(ferry.set_multilink(0, own_options()));
}

// Structs of ferry, and structs of the program. Ranges of numbers need names.
struct own_struct {
    std::uint64_t from, to, bytes;
    void *pointer;
    std::uint32_t small;
};
template <class R> inline constexpr bool is_pieces = std::is_convertible_v<R, ferry::pieces>;
static_assert(is_pieces<std::vector<ferry_piece> &> && is_pieces<const std::vector<ferry::piece> &>);
static_assert(is_pieces<ferry_piece (&)[4]> && is_pieces<const std::array<ferry::piece, 4> &>);
static_assert(!is_pieces<addresses &> && !is_pieces<std::vector<own_struct> &> && !is_pieces<ferry_piece *>);
static_assert(!is_pieces<std::vector<ferry_copy_desc> &>);
template <class... Arguments> inline constexpr bool makes_pieces = std::is_constructible_v<ferry::pieces, Arguments...>;
static_assert(!makes_pieces<addresses &, addresses &, addresses &>);
static_assert(!makes_pieces<ferry::destination_list, ferry::source_list, ferry::size_list>);
using own_number = std::uint64_t own_struct::*;
static_assert(makes_pieces<std::vector<own_struct> &, own_number, own_number, own_number>);
static_assert(makes_pieces<own_struct (&)[2], void * own_struct::*, own_number, own_number>);
static_assert(!std::is_constructible_v<ferry::piece, std::uint64_t, std::uint64_t, std::uint64_t>);
static_assert(!std::is_constructible_v<ferry::piece, ferry::destination_address, ferry::source_address, std::uint64_t>);

#ifdef __cpp_lib_span
static_assert(can_copy_batch<std::span<const ferry_copy_desc>> && can_be_pieces<std::span<const std::uint64_t>>);
static_assert(can_be_pieces<std::span<std::uint64_t, 4> &>);
static_assert(can_copy<std::span<int>, memory &> && can_copy<const std::span<int> &, memory &>);
static_assert(can_copy<memory &, std::span<int>> && can_copy<memory &, std::span<int, 4>>);
static_assert(can_copy<std::span<const int>, memory &> && !can_copy<memory &, std::span<const int>>);
static_assert(can_enqueue<std::span<int>, memory &> && is_any<std::span<int>> && is_any<std::span<int, 4> &>);
#endif

// A stream argument takes types that convert to a handle, and types whose get() returns a handle.
struct stream_reference { // shaped like cuda::stream_ref
    CUstream_st *handle;
    CUstream_st *get() const { return handle; }
};
struct stream_wrapper { // shaped like rmm::cuda_stream_view
    CUstream_st *handle;
    operator CUstream_st *() const { return handle; }
};
struct event_reference {
    CUevent_st *handle;
    CUevent_st *get() const { return handle; }
};
template <class S> inline constexpr bool is_stream = std::is_convertible_v<S, ferry::stream_view>;
static_assert(is_stream<CUstream_st *> && is_stream<ferry::stream &> && is_stream<const ferry::stream &>);
static_assert(is_stream<stream_reference> && is_stream<const stream_reference &> && is_stream<stream_wrapper &>);
static_assert(is_stream<std::nullptr_t> && std::is_trivially_copyable_v<ferry::stream_view>);
static_assert(!is_stream<ferry::stream> && !is_stream<const ferry::stream> && !is_stream<event_reference>);
static_assert(!is_stream<ferry::event &> && !is_stream<int> && !is_stream<CUevent_st *>);
static_assert(ferry::stream_view().handle() == nullptr && ferry::stream_view(nullptr) == nullptr);

// Handles convert to CUDA's own types, without any header of CUDA.
static_assert(std::is_convertible_v<ferry::stream &, CUstream_st *> &&
              std::is_convertible_v<ferry::event &, CUevent_st *>);
static_assert(std::is_convertible_v<ferry::array &, CUarray_st *> &&
              std::is_convertible_v<ferry::instance &, ferry_instance *>);
static_assert(std::is_convertible_v<ferry::pinned_pool &, ferry_pinned_pool *> &&
              std::is_convertible_v<ferry::pool &, CUmemPoolHandle_st *> &&
              std::is_convertible_v<ferry::imported_event &, CUevent_st *>);
// A pool allocates, also through a pool_view. An imported pool does not.
static_assert(std::is_convertible_v<ferry::pool &, ferry::pool_view> && std::is_copy_constructible_v<ferry::pool_view>);
static_assert(!std::is_copy_constructible_v<ferry::pool> && !std::is_copy_constructible_v<ferry::imported_pool>);
static_assert(!std::is_convertible_v<ferry::imported_pool &, ferry::pool_view>);
static_assert(!std::is_copy_constructible_v<ferry::instance> && std::is_nothrow_move_constructible_v<ferry::instance>);

// An owner can take over a handle together with whatever else the owner must know.
template <class Owner, class... Known>
inline constexpr bool can_take_over =
    std::is_constructible_v<Owner, gpu, decltype(std::declval<Owner &>().handle()), Known...>;
static_assert(can_take_over<ferry::stream> && can_take_over<ferry::event> && can_take_over<ferry::registration>);
static_assert(can_take_over<memory, device_view<int>> && !can_take_over<memory> && !can_take_over<pinned_memory<int>>);
static_assert(can_take_over<pinned_memory<int>, host_view<int>>);
static_assert(can_take_over<ferry::pinned_pool> && can_take_over<ferry::imported_event>);
static_assert(!can_take_over<block> && !can_take_over<block, host_view<int>>);
static_assert(!can_take_over<ordered> && !can_take_over<ordered, device_view<int>> && !can_take_over<ferry::pool>);
static_assert(can_take_over<ferry::array, ferry::array_view> && !can_take_over<ferry::array>);
static_assert(can_take_over<ferry::mipmapped_array, int> && !can_take_over<ferry::mipmapped_array>);
static_assert(can_take_over<ferry::prepared, std::uint64_t> && !can_take_over<ferry::prepared>);

// An assignment would begin the new scope before it ended the old one.
static_assert(std::is_nothrow_move_constructible_v<ferry::context_scope>);
static_assert(!std::is_move_assignable_v<ferry::context_scope> && !std::is_copy_constructible_v<ferry::context_scope>);

// `if (event.is_done())` would be true as long as nothing failed.
static_assert(!std::is_constructible_v<bool, ferry::result<bool>>);
static_assert(std::is_constructible_v<bool, ferry::result<float>> && std::is_constructible_v<bool, ferry::stream>);

// Flags of one kind are joined, and have the numbers of ferry.h.
using ferry::copy_flag, ferry::copy_flags;
static_assert((copy_flag::no_kernels | copy_flag::multilink).bits() == (FERRY_COPY_NO_KERNELS | FERRY_COPY_MULTILINK));
static_assert((copy_flags(FERRY_COPY_MULTILINK) | copy_flag::updatable) ==
              (copy_flag::updatable | copy_flag::multilink));
static_assert(copy_flags() != copy_flag::multilink && copy_flags().bits() == 0);
static_assert((copy_flag::no_kernels | copy_flag::multilink).has(copy_flag::multilink) &&
              !copy_flags().has(copy_flag::multilink));
static_assert(!std::is_convertible_v<std::uint32_t, copy_flags> && std::is_constructible_v<copy_flags, std::uint32_t>);
static_assert(!std::is_constructible_v<copy_flags, ferry::host_flag> &&
              !std::is_constructible_v<copy_flags, ferry::host_flags>);
static_assert(!std::is_convertible_v<copy_flags, std::uint32_t> && std::is_trivially_copyable_v<copy_flags>);

// Options are made of parts, and have the numbers of ferry.h.
using ferry::copy_options, ferry::copy_route, ferry::copy_priority, ferry::source_order, ferry::max_sms, ferry::tag;
constexpr bool are(const copy_options &options, std::uint32_t flags, std::int32_t route, std::int32_t priority,
                   std::int32_t order, std::uint32_t sms, std::uint64_t number) {
    const ferry_copy_options &fields = options.fields();
    return fields.struct_size == sizeof fields && fields.flags == flags && fields.route == route &&
           fields.priority == priority && fields.source_order == order && fields.max_sms == sms && fields.tag == number;
}
constexpr copy_options defaults, ordinary = copy_options::ordinary(),
                                 all = copy_route::relayed | copy_priority::urgent | source_order::call | max_sms(8) |
                                       tag(9) | copy_flag::no_kernels | copy_flag::multilink;
static_assert(defaults.get() == nullptr && ordinary.get() == &ordinary.fields() && all.get() == &all.fields());
static_assert(are(ordinary, 0, 0, 0, 0, 0, 0) && are(defaults | copy_route::driver, 0, FERRY_ROUTE_DRIVER, 0, 0, 0, 0));
static_assert(are(all, FERRY_COPY_NO_KERNELS | FERRY_COPY_MULTILINK, FERRY_ROUTE_RELAYED, FERRY_PRIORITY_URGENT,
                  FERRY_SOURCE_ORDER_CALL, 8, 9));
// A part replaces the value on its left, even by zero. Flags are added.
static_assert(are(all | copy_route::automatic | copy_priority::normal | source_order::any | max_sms(0) | tag(0) |
                      (copy_flag::updatable | copy_flag::multilink),
                  FERRY_COPY_NO_KERNELS | FERRY_COPY_MULTILINK | FERRY_COPY_UPDATABLE, 0, 0, 0, 0, 0));
static_assert(are(copy_flag::multilink | tag(2), FERRY_COPY_MULTILINK, 0, 0, 0, 0, 2) &&
              are(copy_flags() | max_sms(2), 0, 0, 0, 0, 2, 0) && are(copy_flag::multilink, 2, 0, 0, 0, 0, 0));
static_assert(are(ferry_copy_options{0, 0, FERRY_ROUTE_KERNEL, 0, 0, 0, 0}, 0, FERRY_ROUTE_KERNEL, 0, 0, 0, 0));
static_assert(!std::is_convertible_v<std::uint32_t, copy_options> &&
              !std::is_convertible_v<ferry::host_flag, copy_options> &&
              !std::is_convertible_v<const ferry_copy_options *, copy_options> &&
              !std::is_convertible_v<std::uint32_t, max_sms> && std::is_trivially_copyable_v<copy_options>);

// Views are literal types. A view of an object of static storage can be made, cut and queried before the program runs.
constexpr int table[12] = {};
constexpr std::array<pixel, 6> palette = {};
constexpr host_view<const int> rows(table, 4, 3);
constexpr device_view<float> frame(0, 4096, 16, 4, 1, 256);
static_assert(rows.width() == 4 && rows.height() == 3 && rows.reach() == sizeof table && rows.error().ok());
static_assert(rows.sub(1, 1, 3, 2).row_pitch() == 16 && rows.sub(1, 1, 3, 2).byte_extent().width == 12);
static_assert(rows.sub(2, 3).error().field() == FERRY_FIELD_X && rows.as_bytes().width() == 16);
static_assert(ferry::view_of(table).shaped(2, 2, 3).depth() == 3 && ferry::view_of(palette).width() == 6);
static_assert(ferry::view_of(table).shaped(5, 3).error().field() == FERRY_FIELD_X);
static_assert(host_view<const int>(table, 1, 3, 1, ~std::uint64_t{0} / 2).sub(0, 2, 1, 1).error().code() ==
              FERRY_ERROR_OVERFLOW);
static_assert(frame.sub(2, 1, 4, 2).address() == 4096 + 256 + 8 && frame.sub(0, 1, 1, 1).place().row_pitch == 0);
static_assert(frame.place().row_pitch == 256 && any_view<float>().width() == 0);
static_assert(device_view<char>(0, 8, 4, 3, 1, ~std::uint64_t{0} / 2).sub(0, 2, 4, 1).error().code() ==
              FERRY_ERROR_OVERFLOW);
static_assert(frame.sub(14, 3).address() == 0 && frame.sub(14, 3).place().address == 0);
static_assert(ferry::array_view().sub(0, 1).error().field() == FERRY_FIELD_X);
static_assert(!ferry::pool_view() && ferry::pool_view(nullptr, nullptr, {FERRY_LOCATION_HOST, 1}).index() == 1);

// ---- What must run

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
        std::int32_t field; // FERRY_FIELD_NONE: the copy is allowed
    } cases[] = {
        {{numbers.data(), {2, 3, 4}, {1, 2, 6}}, FERRY_FIELD_X},             // column-major
        {{numbers.data(), {2, 3, 4}, {12, 3, 1}}, FERRY_FIELD_ROW_PITCH},    // rows that overlap
        {{numbers.data(), {2, 3, 4}, {0, 4, 1}}, FERRY_FIELD_SLICE_HEIGHT},  // the same slice repeatedly
        {{numbers.data(), {2, 3, 4}, {13, 4, 1}}, FERRY_FIELD_SLICE_HEIGHT}, // slices of three and a quarter rows
        {{numbers.data(), {2, 3, 4}, {12, 4, 1}, false}, FERRY_FIELD_X},     // not strided
        {{numbers.data(), {2, 1, 4}, {9, 0, 1}}, FERRY_FIELD_NONE},          // one row: its stride is ignored
        {{numbers.data(), {1, 3, 1}, {0, 9, 9}}, FERRY_FIELD_NONE},
        {{numbers.data(), {2, 0, 4}, {0, 0, 9}}, FERRY_FIELD_NONE}, // empty
    };
    for (const auto &each : cases) {
        const auto view = ferry::view_of(each.span);
        expect(view.error().field() == each.field, "a layout is taken or refused for the right reason");
        const bool names_row =
            std::string(view.error().line().text).find("elements of a row, which must be contiguous") !=
            std::string::npos;
        expect(names_row == (each.field == FERRY_FIELD_X), "a stride between the elements of a row is named");
        const std::size_t w = view.width(), h = view.height(), d = view.depth();
        const ferry::status done = ferry::copy(ferry, view, ferry::view_of(back).shaped(w, h, d));
        expect(each.field ? done.side() == FERRY_SIDE_SOURCE : done.ok(), "and so by a copy");
        for (std::size_t i = 0; done.ok() && i < w * h * d; ++i) {
            const std::size_t at[] = {i / (w * h), i / w % h, i % w};
            std::size_t from = 0;
            for (std::size_t axis = 0; axis < 3; ++axis)
                from += at[axis] * static_cast<std::size_t>(each.span.stride(axis));
            expect(back[i] == numbers[from], "which moves its elements");
        }
    }
}

// Copies a matrix of `rows` x `columns` and compares it element by element.
template <class From, class To>
void expect_same_matrix(const ferry::instance &ferry, const From &from, const To &to, const char *what) {
    const int height = from.extent(0), width = from.extent(1);
    for (int i = 0; i < height; ++i)
        for (int j = 0; j < width; ++j)
            from.at(i, j) = 100 * i + j, to.at(i, j) = -1;
    expect(ferry::copy(ferry, from, to), what);
    for (int i = 0; i < height; ++i)
        for (int j = 0; j < width; ++j)
            expect(to.at(i, j) == 100 * i + j, what);
}
struct strided_matrix : strided_span<int, 2> {
    int &at(int i, int j) const { return first[i * strides[0] + j * strides[1]]; }
};

void copy_layouts(const ferry::instance &ferry) {
    std::vector<int> a(400), b(400);
    using left = laid_out_span<int, columns_first, 4, 3>;
    using right = laid_out_span<int, rows_first, 4, 3>;
    using square_left = laid_out_span<int, columns_first, 4, 4>;
    using square_right = laid_out_span<int, rows_first, 4, 4>;
    using unstrided = laid_out_span<int, diagonals, 4, 3>;
    expect_same_matrix(ferry, left{a.data()}, left{b.data()}, "columns are copied to columns");
    expect_same_matrix(ferry, right{a.data()}, right{b.data()}, "rows are copied to rows");
    expect_same_matrix(ferry, unstrided{a.data()}, unstrided{b.data()}, "a layout without strides is copied to itself");
    const strided_matrix gaps = {{a.data(), {4, 3}, {1, 9}}}, wider = {{b.data(), {4, 3}, {1, 5}}};
    expect_same_matrix(ferry, gaps, wider, "columns with gaps are copied to others");
    expect_same_matrix(ferry, left{a.data()}, wider, "columns without gaps are too");
    expect_same_matrix(ferry, gaps, left{b.data()}, "in both directions");

    // No copy transposes, whatever the extents are.
    const auto refused = [&](auto from, auto to, std::int32_t side = FERRY_SIDE_DESTINATION) {
        const ferry::status done = ferry::copy(ferry, from, to);
        expect(done.field() == FERRY_FIELD_X && done.side() == side, "no copy transposes");
    };
    refused(left{a.data()}, right{b.data()});
    refused(right{a.data()}, left{b.data()});
    refused(square_left{a.data()}, square_right{b.data()});
    refused(square_right{a.data()}, gaps);
    refused(unstrided{a.data()}, right{b.data()}, FERRY_SIDE_SOURCE);
    expect(ferry::copy(ferry, left{a.data()}, laid_out_span<int, columns_first, 3, 4>{b.data()}).code() ==
               FERRY_ERROR_OUT_OF_BOUNDS,
           "extents must be the same, index by index");

    // All orders of three indices, if they are the same at both ends.
    const strided_span<int, 3> box = {a.data(), {2, 3, 4}, {10, 1, 30}}, other = {b.data(), {2, 3, 4}, {4, 1, 8}};
    for (int i = 0; i < 400; ++i)
        a[static_cast<std::size_t>(i)] = i, b[static_cast<std::size_t>(i)] = -1;
    expect(ferry::copy(ferry, box, other), "axes in another order are copied");
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 3; ++j)
            for (std::size_t k = 0; k < 4; ++k)
                expect(b[4 * i + j + 8 * k] == a[10 * i + j + 30 * k], "index by index");

    // Beside a view, the first extent of columns is X.
    auto device = *ferry::pitched_memory<int>::create(ferry, 0, 4, 3);
    const left columns = {a.data()};
    expect(ferry::view_of(columns).width() == 4 && ferry::view_of(columns).height() == 3,
           "columns are lines of a view");
    expect(ferry::copy(ferry, columns, device), "columns go up");
    expect(ferry::copy(ferry, device, left{b.data()}), "they come back");
    expect(std::equal(a.begin(), a.begin() + 12, b.begin()), "they are the same");
}

void copy_what_is_the_programs_own(const ferry::instance &ferry) {
    std::vector<pixel> pixels(12, pixel{1, 2, 3, 4}), back(12);
    auto device = *device_memory<pixel>::create(ferry, 0, pixels.size());
    const auto stream = *ferry::stream::create(ferry, 0);
    expect(ferry::fill(ferry, device, pixel{}), "pixels are filled");
    expect(ferry::copy_async(ferry, pixels, device, stream), "pixels go up");
    expect(stream.synchronize(), "they are there");
    const ferry::result<bool> done = stream.is_done();
    expect(done.ok() && *done, "and nothing is left to do");
    expect(ferry::copy(ferry, device, back), "they come back");
    expect(back[11].alpha == 4, "they are the same");
    expect(ferry::explain(ferry, device, back).error(), "it can be explained");
    expect(ferry::copy(ferry, *ferry::describe_copy(device, back)), "and described");
}

void ask_for_a_way(const ferry::instance &ferry) {
    std::vector<int> sent(12, 7), back(12);
    auto device = *device_memory<int>::create(ferry, 0, sent.size());
    const auto stream = *ferry::stream::create(ferry, 0);
    expect(ferry::fill(ferry, device, 0, ferry::copy_flag::no_kernels), "a fill by no kernel");
    expect(ferry::fill_async(ferry, device.view().sub(0, 4), 1, stream, ferry::copy_route::driver), "one on a stream");
    expect(ferry::fill_async(ferry, *ferry::describe_fill(device.view().sub(4, 8), 2), stream), "one described");
    expect(ferry::copy_async(ferry, device, back, stream, ferry::copy_route::driver), "a copy by the driver");
    expect(stream.synchronize(), "all of that is done");
    expect(back[3] == 1 && back[4] == 2, "in order");
    expect(ferry::copy(ferry, sent, device, ferry::copy_priority::urgent), "an urgent copy");
    const auto found = ferry::explain(ferry, sent, device, ferry::copy_flag::no_kernels);
    expect(found.ok() && found->kernel_obstacle == FERRY_OBSTACLE_FORBIDDEN, "an explanation knows the wish");
    const auto described = *ferry::describe_copy(device, back);
    const auto options = ferry::copy_flag::no_kernels | ferry::tag(7);
    expect(ferry::explain_async(ferry, described, stream, options)->kernel_obstacle == FERRY_OBSTACLE_FORBIDDEN,
           "of a descriptor too");
    const auto ticket = ferry::copy_async_ticket(ferry, described, stream, options);
    expect(ticket.ok() && ticket->info()->tag == 7, "which is copied");
    expect(stream.synchronize(), "at last");
    expect(back == sent, "they are the same");
}

void copy_many(const ferry::instance &ferry) {
    auto host = *pinned_memory<int>::create(ferry, 64);
    for (std::size_t i = 0; i < host.size(); ++i)
        host[i] = static_cast<int>(i);
    auto device = *device_memory<int>::create(ferry, 0, host.size());
    std::vector<int> back(host.size());
    const ferry_copy_desc halves[] = {*ferry::describe_copy(host.view().sub(0, 32), device.view().sub(32, 32)),
                                      *ferry::describe_copy(host.view().sub(32, 32), device.view().sub(0, 32))};
    expect(ferry::copy_batch(ferry, halves, ferry::copy_flag::check_overlap), "a batch goes up");
    expect(ferry::copy(ferry, device, back), "and comes back");
    expect(back[0] == 32 && back[32] == 0, "each half where it belongs");
    const ferry::piece swapped[] = {*ferry::describe_piece(back, device)};
    expect(swapped[0].size == 256 && ferry::copy_pieces(ferry, swapped).ok(), "a piece is made of two ranges");
    expect(ferry::describe_piece(host.view().shaped(8, 8).sub(0, 4), device.view().sub(0, 32).shaped(4, 8))
                   .error()
                   .field() == FERRY_FIELD_ROW_PITCH,
           "rows with gaps are refused");

    const auto first = reinterpret_cast<std::uintptr_t>(host.data());
    const std::uint64_t to[] = {device.address(), device.address() + 128}, from[] = {first, first + 128},
                        again[] = {first + 128, first}, size[] = {128, 128, 128};
    expect(ferry::copy_pieces(ferry, {ferry::sources(from), ferry::destinations(to), ferry::sizes(size)}).field() ==
               FERRY_FIELD_SIZE,
           "a size too many is refused");
    const std::array<std::uint64_t, 2> sizes = {128, 128};
    const ferry::pieces listed(ferry::sources(from), ferry::destinations(to), ferry::sizes(sizes));
    const auto batch = *ferry::prepared::create(ferry, listed, nullptr, ferry::copy_flag::updatable);
    expect(batch && batch.launch(nullptr).ok(), "pieces are prepared and launched");
    expect(ferry::copy(ferry, device, back), "they come back");
    expect(back[0] == 0 && back[63] == 63, "as they were");
    expect(batch.set_addresses(ferry::sources(again), nullptr), "from other addresses");
    expect(batch.launch(nullptr), "again");
    expect(ferry::copy(ferry, device, back), "they come back too");
    expect(back[0] == 32 && back[63] == 31, "the other way round");
    expect(batch.set_addresses(ferry::sources(size), nullptr).field() == FERRY_FIELD_COUNT,
           "three addresses are refused");
}

void copy_to_several(const ferry::instance &ferry) {
    auto first = *device_memory<int>::create(ferry, 0, 64), second = *device_memory<int>::create(ferry, 0, 64);
    const std::vector<int> sent(64, 5);
    std::vector<int> back(64);
    const std::uint64_t both[] = {first.address(), second.address()};
    const ferry::destination_list to = ferry::destinations(both);
    const ferry::source_address from = ferry::source(sent.data());
    expect(ferry::explain_broadcast_async(ferry, from, to, 256, nullptr).error(), "a broadcast is explained");
    expect(ferry::broadcast_async(ferry, from, to, 256, nullptr), "and enqueued");
    expect(ferry::broadcast(ferry, from, to, 256), "and made");
    expect(ferry::broadcast_async_ticket(ferry, from, to, 256, nullptr).error(), "a ticket is returned");
    expect(ferry::copy(ferry, second, back), "it comes back");
    expect(back == sent, "as it was");
    expect(ferry.enable_all_peers().error(), "access is enabled wherever it is offered");
    const std::array<std::int32_t, 1> nobody = {-1};
    expect(ferry.set_multilink(0, nobody).field() == FERRY_FIELD_HELPERS, "a helper that does not exist is refused");
    expect(ferry.set_multilink(0), "no helpers are accepted");
}

void copy_in_the_order_of_a_stream(const ferry::instance &ferry) {
    const auto pool = *ferry::pinned_pool::create(ferry);
    const auto stream = *ferry::stream::create(ferry, 0, ferry::stream_flag::non_blocking);
    auto back = *ferry::pinned_block<int>::create(pool, 100, stream);
    {
        auto sent = *ferry::pinned_block<int>::create(pool, 100);
        auto freed = *ferry::stream_memory<int>::create(ferry, 0, 100, stream);
        expect(sent && back && freed, "blocks and stream-ordered memory are given");
        for (std::size_t i = 0; i < sent.size(); ++i)
            sent[i] = static_cast<int>(i);
        expect(ferry::copy_async(ferry, sent, freed, stream), "a block goes up");
        expect(ferry::copy_async(ferry, freed, back, stream), "it comes back");
        sent.set_stream(stream);
    }
    expect(stream.synchronize(), "all has come");
    expect(back[99] == 99, "also from what was freed behind the copies");
}

[[maybe_unused]] void share(const ferry::instance &ferry) {
    auto shared = *device_memory<int>::create(ferry, 0, 100);
    const auto handle = ferry::export_memory(ferry, shared.view().sub(10, 5));
    expect(handle.error(), "memory is exported");
    expect(ferry.ipc_info(*handle)->size == 5 * sizeof(int), "as much as was named");
    const auto stream = *ferry::stream::create(ferry, 0);
    auto opened = *imported::open(ferry, *handle, stream);
    expect(ferry::fill(ferry, opened, 7), "and opened");
    std::vector<int> back(1);
    expect(ferry::copy(ferry, shared.view().sub(14, 1), back), "it comes back");
    expect(back[0] == 7, "it is the same");
    const auto event =
        *ferry::event::create(ferry, 0, ferry::event_flag::interprocess | ferry::event_flag::disable_timing);
    const auto event_handle = ferry::export_event(ferry, event);
    expect(event_handle.error(), "an event is exported");
    expect(stream.wait(*ferry::imported_event::open(ferry, *event_handle)), "and waited for");
}

// Containers and mdspans of any memory are copied.
template <class Buffer> void copy_device_buffer(const ferry::instance &ferry) {
    auto owner = *device_memory<int>::create(ferry, 0, 12);
    Buffer buffer;
    buffer.first = owner.view().pointer();
    buffer.count = 12;
    std::vector<int> sent(12), back(12);
    for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<int>(i);
    expect(ferry::copy(ferry, sent, buffer), "a container of device memory is a destination");
    expect(ferry::copy(ferry, std::as_const(buffer), back), "and a source");
    expect(back == sent, "its elements are the same");
    const auto order = *ferry::stream::create(ferry, 0);
    expect(ferry::fill_async(ferry, buffer, 3, order), "it is filled");
    const strided_span<int, 2> part = {buffer.first + 1, {3, 2}, {4, 1}};
    expect(ferry::copy_async(ferry, *ferry::describe_copy(ferry::view_of(sent).shaped(2, 3), part), order),
           "so is an mdspan of device memory");
    expect(ferry::copy_async(ferry, buffer, back, order), "both are copied on a stream");
    expect(order.synchronize(), "and complete");
    expect(back == std::vector<int>({3, 0, 1, 3, 3, 2, 3, 3, 3, 4, 5, 3}), "in the right places");
}

// Counts its calls.
struct doubled {
    int calls = 0;
    ferry::result<long> operator()(int value) { return ++calls, 2L * value; }
};

void chain_results(const ferry::instance &ferry) {
    const ferry::result<int> seven = 7, none = ferry::status(FERRY_ERROR_LIMIT);
    expect(seven.value_or(1) == 7 && none.value_or(1) == 1, "a failure has another value");
    doubled twice;
    expect(*seven.and_then(twice) == 14 && twice.calls == 1, "a value is passed on");
    expect(none.and_then(twice).error().code() == FERRY_ERROR_LIMIT && twice.calls == 1, "a failure calls nothing");

    // An owner moves through, and a function may return a status.
    auto filled = device_memory<int>::create(ferry, 0, 8)
                      .and_then([&](device_memory<int> &&made) -> ferry::result<device_memory<int>> {
                          const ferry::status done = ferry::fill(ferry, made, 9);
                          return done.ok() ? ferry::result<device_memory<int>>(std::move(made)) : done;
                      })
                      .value_or(device_memory<int>());
    expect(bool(filled), "an owner moves through");
    expect(device_memory<int>::create(ferry, -7, 8)
                   .and_then([&](device_memory<int> &&made) { return ferry::fill(ferry, made, 9); })
                   .code() == FERRY_ERROR_DEVICE,
           "a status reports the failure before");
    std::vector<int> back(8);
    auto kept = ferry::result<device_memory<int>>(std::move(filled));
    expect(kept.and_then([&](const device_memory<int> &made) { return ferry::copy(ferry, made, back); }), "it is kept");
    expect(*kept && back[7] == 9, "and was filled");
}

// Copies with any type of stream argument.
template <class Stream> void copy_on(const ferry::instance &ferry, const ferry::stream &order, const Stream &stream) {
    auto back = *pinned_memory<int>::create(ferry, 8);
    auto freed = *ferry::stream_memory<int>::create(ferry, 0, back.size(), stream);
    expect(freed.stream() == order, "memory keeps the stream");
    freed.set_stream(stream);
    expect(ferry::fill_async(ferry, freed, 6, stream), "a fill is enqueued");
    expect(ferry::copy_async(ferry, freed, back, stream), "so is a copy");
    const auto event = *ferry::event::create(ferry, 0);
    expect(event.record(stream), "and an event");
    expect((*ferry::ticket::create(ferry, stream)).wait(), "and a ticket");
    expect(*event.is_done() && back[7] == 6, "on that stream");
}

void copy_on_streams(const ferry::instance &ferry) {
    const auto order = *ferry::stream::create(ferry, 0, ferry::stream_flag::non_blocking);
    copy_on(ferry, order, order);
    copy_on(ferry, order, stream_reference{order});
    copy_on(ferry, order, stream_wrapper{order});
    expect((*ferry::ticket::create(ferry, {})).wait(), "no stream is the default stream");
}

void name_addresses() {
    int number = 0;
    expect(device_view<int>(0, 0, 7).width() == 7, "a literal 0 is an address");
    expect(device_view<int>(0, &number, 1).pointer() == &number, "a pointer is one");
    expect(device_view<const int>(0, &number, 1).pointer() == &number, "also of what may be written");
    static_assert(!std::is_constructible_v<device_view<int>, int, const int *, int>);
    static_assert(!std::is_constructible_v<device_view<int>, int, float *, int>);
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
    expect(ferry::copy(ferry, device, columns).field() == FERRY_FIELD_WIDTH, "columns have another shape");
    auto tall = *ferry::pitched_memory<int>::create(ferry, 0, 2, 3);
    expect(ferry::copy(ferry, columns, tall), "columns go up");
    std::vector<int> other(12);
    const std::mdspan<int, std::dextents<int, 2>, std::layout_left> again(other.data(), 2, 3);
    expect(ferry::copy(ferry, tall, again), "they come back");
    expect(again[1, 2] == columns[1, 2], "as they were");
    other.assign(12, 0);
    expect(ferry::copy(ferry, columns, again), "columns are copied to columns");
    expect(again[1, 2] == columns[1, 2], "as they were");
    const std::array<int, 2> strides = {1, 4};
    const std::mdspan<int, std::dextents<int, 2>, std::layout_stride> gaps(other.data(),
                                                                           {std::dextents<int, 2>(2, 3), strides});
    expect(ferry::copy(ferry, columns, gaps), "and to columns with gaps");
    expect(gaps[1, 2] == columns[1, 2], "as they were");
    expect(ferry::copy(ferry, columns, std::mdspan(other.data(), 2, 3)).field() == FERRY_FIELD_X, "but not to rows");
}
#else
void copy_mdspans(const ferry::instance &) {}
#endif

} // namespace

// Compiles every member.
template class ferry::linear_view<int, FERRY_KIND_ANY>;
template class ferry::device_memory<int>;
template class ferry::pinned_memory<int>;
template class ferry::stream_memory<int, FERRY_KIND_DEVICE>;
template class ferry::stream_memory<int, FERRY_KIND_HOST>;
template class ferry::result<bool>;

int main() {
    auto opened = ferry::instance::open(ferry::any_driver());
    expect(opened.error(), "ferry opens");
    if (!opened) return 1;
    const ferry::instance ferry = *std::move(opened);
    copy_strided(ferry);
    copy_layouts(ferry);
    copy_mdspans(ferry);
    copy_what_is_the_programs_own(ferry);
    ask_for_a_way(ferry);
    copy_many(ferry);
    copy_to_several(ferry);
    copy_in_the_order_of_a_stream(ferry);
#if !defined(_WIN32) // where the software driver shares nothing
    share(ferry);
#endif
    copy_device_buffer<device_buffer<int>>(ferry);
    copy_device_buffer<known_device_buffer<int>>(ferry);
    chain_results(ferry);
    copy_on_streams(ferry);
    name_addresses();

#ifdef FERRY_HAS_EXCEPTIONS
    try {
        device_memory<int>::create(ferry, -7, 1).or_throw();
        expect(false, "a failure is thrown");
    } catch (const ferry::error &thrown) {
        expect(thrown.status().code() == FERRY_ERROR_DEVICE, "it is that failure");
    }
#else
    expect(!device_memory<int>::create(ferry, -7, 1), "a failure comes back");
#endif
    return failures ? 1 : 0;
}
