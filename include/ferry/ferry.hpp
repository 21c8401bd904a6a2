/*
 * ferry for C++17 and later: owners, typed views, and copies that take their sizes from the views. This layer is
 * header-only and calls only the functions of the C headers. They document what each call does, when the call blocks and
 * what the call refuses.
 *
 *     ferry::instance gpu = ferry::instance::open().or_throw();
 *     auto volume = ferry::pitched_memory<float>::create(gpu, 0, 96, 64, 48).or_throw();
 *     std::vector<float> slice(96 * 64);
 *     ferry::copy(gpu, ferry::view_of(slice).shaped(96, 64), volume.view().sub(0, 0, 7, 96, 64, 1)).or_throw();
 *
 *   Arguments  The source comes before the destination, in copies, pieces and broadcasts. The functions of the C headers
 *              take the destination first, like memcpy.
 *   Errors     Calls return a status and creators return a result<T>. Both are [[nodiscard]]. or_throw() turns either
 *              into an exception and exists only where exceptions are enabled. Nothing else throws. Errors count
 *              bytes, as in ferry.h. line() and what() of an error about a typed view also count its elements.
 *              Descriptors and batches have no element type.
 *              While developing, open the instance with options.checks = FERRY_CHECKS_FULL. ferry then also detects wrong
 *              addresses, kinds and devices.
 *   Ownership  Owners are movable, not copyable, and empty after a move. The destructor destroys what they own. They
 *              keep a pointer to the ferry_instance they were made with, which must outlive them. The compiler refuses a
 *              temporary instance, pool or stream; it cannot refuse a variable whose scope ends too early. Errors during
 *              destruction are discarded; to see them, pass release() to the C function. An empty stream refuses its
 *              own calls, but as an argument, for example to copy_async(), it is NULL: the legacy default stream.
 *   Order      stream_memory, imported_memory and a pinned_block with a stream are freed in stream order, after all work
 *              enqueued on the stream before the free. So are other owners after set_stream(). The stream must outlive
 *              them. So must the pinned_pool of a block, the pool of stream_memory and the imported_pool of imported
 *              memory. The first sentence about each owner says what its destructor waits for.
 *   Views      A view names memory and does not own it. The memory must outlive the view and every enqueued copy.
 *              Extents and origins count elements, rows and slices; row pitches count bytes; slice heights count rows.
 *              A view may be in error, for example a box past its edge. The call that receives the view refuses it and
 *              names the field. The address of such a view is 0, and its pointer and its array are NULL. Views are
 *              literal types: a constexpr view of a static object can be cut with sub().
 *   Handles    Owners convert to the driver's handles, and ferry takes these without casts. Every stream argument also
 *              takes types such as cuda::stream_ref: see stream_view. The runtime's cudaArray_t and cudaMipmappedArray_t
 *              take a cast. An instance converts to ferry_instance *, so a function that takes ferry_instance * takes
 *              both. A temporary instance, stream, pool or array does not convert, because what is made with its handle
 *              would outlive it.
 *   Types      The compiler refuses arguments of wrong types in one sentence. Such a call is still found by overload
 *              resolution, so a requires expression or std::is_invocable does not show whether it compiles. These
 *              constants show it: can_view, can_register, can_export, can_copy, can_copy_async and can_fill.
 *   Threads    As in ferry.h. An owner is an ordinary variable: two threads must not change it at the same time.
 *   Needs      C++17, with or without exceptions and RTTI. std::span, std::mdspan and types of the same shape are
 *              accepted where the program has them.
 */
#ifndef FERRY_FERRY_HPP
#define FERRY_FERRY_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iosfwd> // declares std::allocator
#include <iterator>
#include <new>
#include <type_traits>
#include <utility>

#include "ferry.h"
#include "ferry_devices.h"
#include "ferry_event.h"
#include "ferry_external.h"
#include "ferry_file.h"
#include "ferry_graph.h"
#include "ferry_ipc.h"
#include "ferry_memory.h"
#include "ferry_nest.h"

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define FERRY_HAS_EXCEPTIONS 1
#include <exception>
#endif

namespace ferry {
// Keeps inline functions apart when parts of a program are built with headers of two minor versions.
static_assert(FERRY_VERSION_MAJOR == 0 && FERRY_VERSION_MINOR == 7, "this namespace is named after the version");
inline namespace v0_7 {

// ---------------------------------------------------------------------------------------------------------------------
// Status
// ---------------------------------------------------------------------------------------------------------------------

// One readable line. Lines about explanations always fit; other lines are truncated to fit.
struct line {
    char text[768] = "";
    const char *c_str() const noexcept { return text; }
};

namespace detail {

// What an error of the C functions means in terms of the C++ arguments. Repeats the numbers of an error that counts bytes
// in elements, if these are whole.
inline void write_note(const ferry_error_info &error, std::uint64_t element_size, char *buffer,
                       std::size_t size) noexcept {
    const char *const note =
        error.status == FERRY_ERROR_PITCH && error.field == FERRY_FIELD_X // only mdspans
            ? "; x is the stride between elements of a row, which must be contiguous"
            : error.status == FERRY_ERROR_ARRAY_FORMAT && error.field == FERRY_FIELD_FORMAT
                  ? "; array_desc() takes a FERRY_FORMAT_* constant first, then the number of channels"
                  : nullptr;
    if (note) std::snprintf(buffer, size, "%s", note);
    if (error.status == FERRY_ERROR_OUT_OF_BOUNDS && error.numbers == FERRY_NUMBERS_EQUAL) { // of check_same
        const char *const field = error.field == FERRY_FIELD_WIDTH    ? "width"
                                  : error.field == FERRY_FIELD_HEIGHT ? "height"
                                                                      : "depth";
        const int length = std::snprintf(buffer, size, "; both ends must have the same %s, and the source's is %llu",
                                         field, static_cast<unsigned long long>(error.limit));
        if (length < 0 || static_cast<std::size_t>(length) >= size) return;
        buffer += length, size -= static_cast<std::size_t>(length);
    }
    // Numbers that overflow are cut off.
    if (note || element_size <= 1 || error.value == error.limit || error.status == FERRY_ERROR_OVERFLOW) return;
    const auto whole = [=](std::uint64_t bytes) noexcept { return bytes % element_size == 0; };
    const auto elements = [=](std::uint64_t bytes) noexcept -> unsigned long long { return bytes / element_size; };
    const bool counts_bytes = error.field == FERRY_FIELD_X || error.field == FERRY_FIELD_WIDTH ||
                              error.field == FERRY_FIELD_ROW_PITCH || error.field == FERRY_FIELD_SIZE;
    const std::uint64_t beyond = error.value > error.limit ? error.value - error.limit : error.limit - error.value;
    if (counts_bytes && whole(error.value) && whole(error.limit))
        std::snprintf(buffer, size, "; in elements of %llu bytes: %llu, limit %llu",
                      static_cast<unsigned long long>(element_size), elements(error.value), elements(error.limit));
    else if (error.field == FERRY_FIELD_ADDRESS && error.status == FERRY_ERROR_OUT_OF_BOUNDS && whole(beyond))
        std::snprintf(buffer, size, "; in elements of %llu bytes: by %llu",
                      static_cast<unsigned long long>(element_size), elements(beyond));
}

} // namespace detail

// The outcome of a call. It does not convert to bool, because in C a nonzero (true) status is a failure.
class [[nodiscard]] status {
public:
    constexpr status() noexcept : status(FERRY_SUCCESS) {}
    constexpr explicit status(std::int32_t code) noexcept {
        info_.struct_size = sizeof info_;
        info_.status = code;
    }
    // `element_size`: of the typed view that the error is about, in bytes; 0: unknown.
    constexpr explicit status(const ferry_error_info &info, std::uint64_t element_size = 0) noexcept
        : info_(info), element_size_(element_size) {}

    constexpr bool ok() const noexcept { return code() == FERRY_SUCCESS; }
    constexpr std::int32_t code() const noexcept { return info_.status; } // 0, FERRY_ERROR_*, or -1000 - CUresult
    // FERRY_SIDE_* and FERRY_FIELD_*, if the call reports them.
    constexpr std::int32_t side() const noexcept { return info_.side; }
    constexpr std::int32_t field() const noexcept { return info_.field; }
    constexpr const ferry_error_info &info() const noexcept { return info_; }
    // In bytes; 0: the call was given no typed view.
    constexpr std::uint64_t element_size() const noexcept { return element_size_; }

    const char *name() const noexcept { return ferry_status_name(code()); }
    const char *text() const noexcept { return ferry_status_text(code()); }
    ferry::line line() const noexcept {
        ferry::line line;
        const std::uint64_t length = ferry_error_format(&info_, line.text, sizeof line.text);
        if (length < sizeof line.text)
            detail::write_note(info_, element_size_, line.text + length, sizeof line.text - length);
        return line;
    }
    bool context_is_dead() const noexcept { return (ferry_status_traits(code()) & FERRY_STATUS_CONTEXT_DEAD) != 0; }
    bool can_retry() const noexcept { return (ferry_status_traits(code()) & FERRY_STATUS_RETRY) != 0; }

#ifdef FERRY_HAS_EXCEPTIONS
    void or_throw() const; // ferry::error
#endif

private:
    ferry_error_info info_ = {};
    std::uint64_t element_size_ = 0;
};

#ifdef FERRY_HAS_EXCEPTIONS
class error : public std::exception {
public:
    explicit error(const ferry::status &failure) noexcept : status_(failure), line_(failure.line()) {}
    const ferry::status &status() const noexcept { return status_; }
    const char *what() const noexcept override { return line_.c_str(); }

private:
    ferry::status status_;
    line line_;
};

inline void status::or_throw() const {
    if (!ok()) throw error(*this);
}
#endif

template <class T> class result;

namespace detail {

// For static assertions that fail wherever they are instantiated.
template <class...> inline constexpr bool never = false;

template <class R> inline constexpr bool is_result = false;
template <class T> inline constexpr bool is_result<result<T>> = true;

template <class T, class Use> auto then(T &&value, const status &error, Use &&use) {
    using next = decltype(std::forward<Use>(use)(std::forward<T>(value)));
    if constexpr (is_result<next> || std::is_same_v<next, status>)
        return error.ok() ? std::forward<Use>(use)(std::forward<T>(value)) : next(error);
    else
        static_assert(never<Use>, "the function of and_then() must return a ferry::result or a ferry::status");
}

} // namespace detail

// A value, or the status that explains why there is none. On failure the value is empty.
template <class T> class [[nodiscard]] result {
public:
    result(T value) noexcept : value_(std::move(value)) {}
    result(const status &failure) noexcept : error_(failure) {}

    bool ok() const noexcept { return error_.ok(); }
    template <class U = T, std::enable_if_t<!std::is_same_v<U, bool>, int> = 0>
    explicit operator bool() const noexcept {
        return ok();
    }
    template <class U = T, std::enable_if_t<std::is_same_v<U, bool>, int> = 0>
    explicit operator bool() const = delete; // a result<bool> as a condition is ambiguous: check ok(), then operator*
    const status &error() const noexcept { return error_; } // success if there is a value

    T &operator*() &noexcept { return value_; }
    const T &operator*() const &noexcept { return value_; }
    T &&operator*() &&noexcept { return std::move(value_); }
    T *operator->() &noexcept { return &value_; }
    const T *operator->() const &noexcept { return &value_; }
    template <class U = T, std::enable_if_t<std::is_copy_constructible_v<U>, int> = 0> U *operator->() &&noexcept {
        return &value_;
    }
    template <class U = T, std::enable_if_t<!std::is_copy_constructible_v<U>, int> = 0>
    void operator->() && = delete; // the owner would be gone: keep the result in a variable

    // The value, or `other` on failure.
    template <class U> T value_or(U &&other) const & { return ok() ? value_ : static_cast<T>(std::forward<U>(other)); }
    template <class U> T value_or(U &&other) && {
        return ok() ? std::move(value_) : static_cast<T>(std::forward<U>(other));
    }
    // use(value), which returns a result or a status. On failure, the error in the same type, without a call.
    template <class Use> auto and_then(Use &&use) & { return detail::then(value_, error_, std::forward<Use>(use)); }
    template <class Use> auto and_then(Use &&use) const & {
        return detail::then(value_, error_, std::forward<Use>(use));
    }
    template <class Use> auto and_then(Use &&use) && {
        return detail::then(std::move(value_), error_, std::forward<Use>(use));
    }

#ifdef FERRY_HAS_EXCEPTIONS
    T or_throw() && {
        error_.or_throw();
        return std::move(value_);
    }
#endif

private:
    T value_ = {};
    status error_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Flags
//
// ferry.h documents the flags. Each kind has an enumeration, such as array_flag, and a set, such as array_flags:
//
//     ferry::array_desc(format, 4, width, height, 0, ferry::array_flag::layered | ferry::array_flag::surface)
//
// The default is {}: no flag. Constants of ferry.h take an explicit conversion, and bits() is what C expects:
//
//     desc.flags = ferry::array_flags(FERRY_ARRAY_SURFACE).bits();
// ---------------------------------------------------------------------------------------------------------------------

template <class Flag> class flags {
public:
    constexpr flags() noexcept = default;
    constexpr flags(Flag flag) noexcept : bits_(static_cast<std::uint32_t>(flag)) {}
    constexpr explicit flags(std::uint32_t bits) noexcept : bits_(bits) {}
    template <class T> flags(T) = delete; // no flag of this kind: pass its enumerators, or convert constants of ferry.h

    constexpr std::uint32_t bits() const noexcept { return bits_; }
    // Whether all bits of `other` are set.
    constexpr bool has(flags other) const noexcept { return (bits_ & other.bits_) == other.bits_; }
    friend constexpr flags operator|(flags a, flags b) noexcept { return flags(a.bits_ | b.bits_); }
    constexpr flags &operator|=(flags other) noexcept { return *this = *this | other; }
    friend constexpr bool operator==(flags a, flags b) noexcept { return a.bits_ == b.bits_; }
    friend constexpr bool operator!=(flags a, flags b) noexcept { return a.bits_ != b.bits_; }

private:
    std::uint32_t bits_ = 0;
};

enum class copy_flag : std::uint32_t {
    no_kernels = FERRY_COPY_NO_KERNELS,
    multilink = FERRY_COPY_MULTILINK,
    destination_written = FERRY_COPY_DESTINATION_WRITTEN,
    check_overlap = FERRY_COPY_CHECK_OVERLAP,
    updatable = FERRY_COPY_UPDATABLE,
    no_wait = FERRY_COPY_NO_WAIT,
};
using copy_flags = flags<copy_flag>;

enum class host_flag : std::uint32_t {
    write_combined = FERRY_HOST_WRITE_COMBINED,
    by_driver = FERRY_HOST_BY_DRIVER,
    not_portable = FERRY_HOST_NOT_PORTABLE,
    not_mapped = FERRY_HOST_NOT_MAPPED,
    allow_smaller = FERRY_HOST_ALLOW_SMALLER,
    allow_pageable = FERRY_HOST_ALLOW_PAGEABLE,
    shared = FERRY_HOST_SHARED,
};
using host_flags = flags<host_flag>;

enum class register_flag : std::uint32_t { read_only = FERRY_REGISTER_READ_ONLY };
using register_flags = flags<register_flag>;

enum class array_flag : std::uint32_t {
    layered = FERRY_ARRAY_LAYERED,
    surface = FERRY_ARRAY_SURFACE,
    cubemap = FERRY_ARRAY_CUBEMAP,
    texture_gather = FERRY_ARRAY_TEXTURE_GATHER,
    color_attachment = FERRY_ARRAY_COLOR_ATTACHMENT,
    video = FERRY_ARRAY_VIDEO,
};
using array_flags = flags<array_flag>;

enum class stream_flag : std::uint32_t { non_blocking = FERRY_STREAM_NON_BLOCKING };
using stream_flags = flags<stream_flag>;

enum class event_flag : std::uint32_t {
    blocking_sync = FERRY_EVENT_BLOCKING_SYNC,
    disable_timing = FERRY_EVENT_DISABLE_TIMING,
    interprocess = FERRY_EVENT_INTERPROCESS,
};
using event_flags = flags<event_flag>;

enum class file_flag : std::uint32_t {
    read = FERRY_FILE_READ,
    write = FERRY_FILE_WRITE,
    create = FERRY_FILE_CREATE,
    truncate = FERRY_FILE_TRUNCATE,
    keep_cache = FERRY_FILE_KEEP_CACHE,
    sync = FERRY_FILE_SYNC,
};
using file_flags = flags<file_flag>;

namespace detail {

template <class> inline constexpr bool is_flag = false;
template <> inline constexpr bool is_flag<copy_flag> = true;
template <> inline constexpr bool is_flag<host_flag> = true;
template <> inline constexpr bool is_flag<register_flag> = true;
template <> inline constexpr bool is_flag<array_flag> = true;
template <> inline constexpr bool is_flag<stream_flag> = true;
template <> inline constexpr bool is_flag<event_flag> = true;
template <> inline constexpr bool is_flag<file_flag> = true;

} // namespace detail

template <class Flag, std::enable_if_t<detail::is_flag<Flag>, int> = 0>
constexpr flags<Flag> operator|(Flag a, Flag b) noexcept {
    return flags<Flag>(a) | b;
}

// ---------------------------------------------------------------------------------------------------------------------
// Options of copies, batches and fills
//
// The last parameter of every call that enqueues or explains work is copy_options. ferry.h documents the values, under
// ferry_copy_options. The default means the options of the instance. Any other value replaces all of them. Parts are
// joined by |. A part replaces the value of the same part on its left, except that flags are added:
//
//     ferry::copy(gpu, from, to, ferry::copy_priority::urgent | ferry::copy_flag::no_kernels | ferry::max_sms(8))
// ---------------------------------------------------------------------------------------------------------------------

enum class copy_route : std::int32_t {
    automatic = FERRY_ROUTE_AUTO,
    driver = FERRY_ROUTE_DRIVER,
    kernel = FERRY_ROUTE_KERNEL,
    staged = FERRY_ROUTE_STAGED,
    relayed = FERRY_ROUTE_RELAYED,
};

enum class copy_priority : std::int32_t { normal = FERRY_PRIORITY_NORMAL, urgent = FERRY_PRIORITY_URGENT };

enum class source_order : std::int32_t {
    any = FERRY_SOURCE_ORDER_ANY,
    stream = FERRY_SOURCE_ORDER_STREAM,
    call = FERRY_SOURCE_ORDER_CALL,
};

// The maximum number of SMs that a kernel may use; 0: as many as are useful.
struct max_sms {
    constexpr explicit max_sms(std::uint32_t number) noexcept : count(number) {}
    std::uint32_t count;
};

// A number that ferry_trace_event and ferry_ticket_info contain.
struct tag {
    constexpr explicit tag(std::uint64_t value) noexcept : number(value) {}
    std::uint64_t number;
};

namespace detail {

constexpr void set(ferry_copy_options &options, copy_flags part) noexcept { options.flags |= part.bits(); }
constexpr void set(ferry_copy_options &options, copy_route part) noexcept {
    options.route = static_cast<std::int32_t>(part);
}
constexpr void set(ferry_copy_options &options, copy_priority part) noexcept {
    options.priority = static_cast<std::int32_t>(part);
}
constexpr void set(ferry_copy_options &options, source_order part) noexcept {
    options.source_order = static_cast<std::int32_t>(part);
}
constexpr void set(ferry_copy_options &options, max_sms part) noexcept { options.max_sms = part.count; }
constexpr void set(ferry_copy_options &options, tag part) noexcept { options.tag = part.number; }

template <class S, class = void> inline constexpr bool gets_stream = false;
template <class S>
inline constexpr bool
    gets_stream<S, std::enable_if_t<std::is_convertible_v<decltype(std::declval<S &>().get()), CUstream_st *>>> = true;
// Whether a variable of the type S is a stream argument: see stream_view.
template <class S>
inline constexpr bool is_stream = std::is_convertible_v<std::remove_reference_t<S> &, CUstream_st *> || gets_stream<S>;
template <class S> inline constexpr bool is_given_stream = is_stream<S> && !std::is_null_pointer_v<S>; // not NULL

template <class T, class = void> inline constexpr bool is_part = false;
template <class T>
inline constexpr bool
    is_part<T, std::void_t<decltype(detail::set(std::declval<ferry_copy_options &>(), std::declval<T>()))>> = true;

} // namespace detail

// How a call makes its copies or its fill.
class copy_options {
public:
    constexpr copy_options() noexcept = default; // the options of the instance
    // struct_size need not be set.
    constexpr copy_options(const ferry_copy_options &fields) noexcept : fields_(fields) {
        fields_.struct_size = sizeof fields_;
    }
    template <class Part, std::enable_if_t<detail::is_part<Part>, int> = 0>
    constexpr copy_options(Part part) noexcept : copy_options(ordinary()) {
        detail::set(fields_, part);
    }
    template <class T, std::enable_if_t<!detail::is_part<T> && !detail::is_given_stream<T>, int> = 0>
    copy_options(T) = delete; // not an option: pass copy_flag, copy_route, copy_priority, source_order, max_sms or tag
    template <class T, std::enable_if_t<detail::is_given_stream<T>, int> = 0>
    copy_options(const T &) = delete; // a stream is not an option: pass it to copy_async(), before the options

    // The ordinary choice in every field. Replaces the options of the instance.
    static constexpr copy_options ordinary() noexcept { return ferry_copy_options{}; }

    // For functions of ferry.h. NULL means the options of the instance.
    constexpr const ferry_copy_options *get() const &noexcept { return fields_.struct_size ? &fields_ : nullptr; }
    const ferry_copy_options *get() const && = delete; // the options would be gone: keep them in a variable
    constexpr const ferry_copy_options &fields() const noexcept { return fields_; }

private:
    ferry_copy_options fields_ = {};
};

namespace detail {

template <class T> inline constexpr bool are_flags = std::is_same_v<T, copy_flag> || std::is_same_v<T, copy_flags>;
template <class T> inline constexpr bool are_options = std::is_same_v<T, copy_options>;
template <class T> inline constexpr bool is_option = is_part<T> || are_options<T>;

// Two flags make copy_flags.
template <class A, class B>
inline constexpr bool can_join = is_option<A> &&is_part<B> && !std::is_same_v<A, B> && !(are_flags<A> && are_flags<B>);

} // namespace detail

template <class A, class B, std::enable_if_t<detail::can_join<A, B>, int> = 0>
constexpr copy_options operator|(A options, B part) noexcept {
    ferry_copy_options joined = copy_options(options).fields();
    detail::set(joined, part);
    return joined;
}
template <class Part, std::enable_if_t<detail::is_part<Part> && !detail::are_flags<Part>, int> = 0>
copy_options operator|(Part, Part) = delete; // two values of one option: pass one
template <class A, class B, std::enable_if_t<detail::is_option<A> && detail::are_options<B>, int> = 0>
copy_options operator|(A, B) = delete; // only a part can be on the right of |: join the parts one by one

// ---------------------------------------------------------------------------------------------------------------------
// Views
// ---------------------------------------------------------------------------------------------------------------------

// The size of a box: width in elements or bytes, height in rows, depth in slices.
struct extent {
    std::uint64_t width = 0, height = 1, depth = 1;
    constexpr bool empty() const noexcept { return width == 0 || height == 0 || depth == 0; }
};

namespace detail {

constexpr std::uint64_t max_uint64 = ~std::uint64_t{0};

// Overflow saturates, so that later checks refuse the value.
constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) noexcept {
    return b && a > max_uint64 / b ? max_uint64 : a * b;
}
constexpr std::uint64_t add(std::uint64_t a, std::uint64_t b) noexcept {
    return a > max_uint64 - b ? max_uint64 : a + b;
}

template <class T> T sized() noexcept {
    T filled = {};
    filled.struct_size = sizeof filled;
    return filled;
}

// Returns the status of a function of ferry.h, whose last parameter is a ferry_error_info.
template <class Call, class... Arguments> status call(Call function, Arguments... arguments) noexcept {
    ferry_error_info info = sized<ferry_error_info>();
    info.status = function(arguments..., &info);
    return status(info);
}

constexpr status refusal_with(std::int32_t numbers, std::int32_t code, std::int32_t field, std::uint64_t limit,
                              std::uint64_t value, std::int32_t side) noexcept {
    ferry_error_info info = {};
    info.struct_size = sizeof info;
    info.status = code;
    info.side = side;
    info.field = field;
    info.limit = limit;
    info.value = value;
    info.numbers = numbers;
    return status(info);
}
constexpr status refusal(std::int32_t code, std::int32_t field, std::uint64_t limit = 0, std::uint64_t value = 0,
                         std::int32_t side = FERRY_SIDE_NONE) noexcept {
    const std::int32_t numbers = limit == 0 && value == 0            ? FERRY_NUMBERS_NONE
                                 : code == FERRY_ERROR_OUT_OF_BOUNDS ? FERRY_NUMBERS_END // also of an empty view
                                 : limit == 0                        ? FERRY_NUMBERS_VALUE
                                 : code == FERRY_ERROR_ARRAY_FORMAT  ? FERRY_NUMBERS_ELEMENT
                                 : value < limit                     ? FERRY_NUMBERS_AT_LEAST
                                                                     : FERRY_NUMBERS_AT_MOST;
    return refusal_with(numbers, code, field, limit, value, side);
}

// A status knows the element size of the view that it is about first.
constexpr status in_elements(const status &done, std::uint64_t element_size) noexcept {
    return done.ok() || done.element_size() ? done : status(done.info(), element_size);
}

// std::is_constant_evaluated() of C++20, where the compiler offers it.
constexpr bool is_constant_evaluated() noexcept {
#ifdef __has_builtin
#if __has_builtin(__builtin_is_constant_evaluated)
    return __builtin_is_constant_evaluated();
#endif
#endif
    return false;
}

// Whether sub() takes so many numbers.
template <std::size_t count> inline constexpr bool is_box = count == 2 || count == 4 || count == 6;

// The common part of all views. View supplies the element size and moves its origin.
template <class View> class box_view {
public:
    constexpr std::uint64_t width() const noexcept { return size_.width; } // elements
    constexpr std::uint64_t height() const noexcept { return size_.height; }
    constexpr std::uint64_t depth() const noexcept { return size_.depth; }
    constexpr extent byte_extent() const noexcept {
        return {multiply(size_.width, self().element_size()), size_.height, size_.depth};
    }

    // A box inside the view. The shorter overloads keep the other dimensions whole.
    constexpr View sub(std::uint64_t x, std::uint64_t y, std::uint64_t z, std::uint64_t width, std::uint64_t height,
                       std::uint64_t depth) const noexcept {
        View inner = self();
        const struct {
            std::uint64_t end, limit, unit;
            std::int32_t field;
        } axes[] = {{add(x, width), size_.width, self().element_size(), FERRY_FIELD_X},
                    {add(y, height), size_.height, 1, FERRY_FIELD_Y},
                    {add(z, depth), size_.depth, 1, FERRY_FIELD_Z}};
        for (const auto &axis : axes)
            if (axis.end > axis.limit)
                inner.set_error(refusal(FERRY_ERROR_OUT_OF_BOUNDS, axis.field, multiply(axis.limit, axis.unit),
                                        multiply(axis.end, axis.unit)));
        inner.size_ = {width, height, depth};
        if (inner.error().ok()) inner.move_origin(x, y, z);
        return inner;
    }
    constexpr View sub(std::uint64_t x, std::uint64_t y, std::uint64_t width, std::uint64_t height) const noexcept {
        return sub(x, y, 0, width, height, size_.depth);
    }
    constexpr View sub(std::uint64_t x, std::uint64_t width) const noexcept {
        return sub(x, 0, 0, width, size_.height, size_.depth);
    }
    template <class... Numbers, std::enable_if_t<!is_box<sizeof...(Numbers)>, int> = 0>
    constexpr View sub(Numbers...) const noexcept {
        static_assert(never<Numbers...>,
                      "sub() takes (x, width), (x, y, width, height) or (x, y, z, width, height, depth)");
        return self();
    }

    // The reason copies refuse this view, or success.
    constexpr const status &error() const noexcept { return error_; }
    // Makes copies refuse this view. The first error stays.
    constexpr void set_error(const status &failure) noexcept {
        if (error_.ok()) error_ = in_elements(failure, self().element_size());
    }

protected:
    extent size_;
    status error_;

private:
    constexpr const View &self() const noexcept { return static_cast<const View &>(*this); }
};

// ferry copies bytes, so elements must be trivially copyable.
template <class T>
inline constexpr bool is_element =
    std::is_object_v<T> && !std::is_array_v<T> && !std::is_volatile_v<T> && std::is_trivially_copyable_v<T>;

template <class T> constexpr void refuse_elements() noexcept {
    static_assert(never<T>, "elements must be trivially copyable and not volatile, because ferry copies their bytes: "
                            "pack others into elements that are");
}

// Views call this in their constructors. In the class, Clang would report all that derives from the view, too.
template <class T> constexpr void check_elements_of_view() noexcept {
    if constexpr (!is_element<T>) refuse_elements<T>();
}

} // namespace detail

// A line, image or volume of elements of T in addressable memory. A view of const T is read-only. `kind` is
// FERRY_KIND_HOST, FERRY_KIND_DEVICE, or FERRY_KIND_ANY to let the address decide.
template <class T, std::int32_t kind> class linear_view : public detail::box_view<linear_view<T, kind>> {
    static constexpr bool on_device = kind == FERRY_KIND_DEVICE;

public:
    using element_type = T;
    using value_type = std::remove_const_t<T>;

    constexpr linear_view() noexcept { detail::check_elements_of_view<T>(); }

    // Row pitch 0: rows are packed. Slice height 0: slices are packed.
    template <bool is_host = !on_device, std::enable_if_t<is_host, int> = 0>
    constexpr linear_view(T *first, std::uint64_t width, std::uint64_t height = 1, std::uint64_t depth = 1,
                          std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) noexcept
        : linear_view(extent{width, height, depth}, 0, first, 0, row_pitch, slice_height) {}

    // `device` is an ordinal or FERRY_DEVICE_UNKNOWN; `address` is a CUdeviceptr or a pointer from the CUDA runtime.
    template <bool is_device = on_device, std::enable_if_t<is_device, int> = 0>
    constexpr linear_view(std::int32_t device, std::uint64_t address, std::uint64_t width, std::uint64_t height = 1,
                          std::uint64_t depth = 1, std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) noexcept
        : linear_view(extent{width, height, depth}, device, nullptr, address, row_pitch, slice_height) {}
    template <class Pointer, bool is_device = on_device,
              std::enable_if_t<is_device && std::is_pointer_v<Pointer> && std::is_convertible_v<Pointer, T *>, int> = 0>
    constexpr linear_view(std::int32_t device, Pointer address, std::uint64_t width, std::uint64_t height = 1,
                          std::uint64_t depth = 1, std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) noexcept
        : linear_view(extent{width, height, depth}, device, address, 0, row_pitch, slice_height) {}

    // A writable view converts to a read-only one.
    template <class U = T, std::enable_if_t<std::is_const_v<U>, int> = 0>
    constexpr linear_view(const linear_view<std::remove_const_t<U>, kind> &view) noexcept
        : linear_view(view.size_, view.device_, view.first_, view.offset_, view.row_pitch_, view.slice_height_) {
        this->error_ = view.error_;
    }

    // 0 for a view in error, so that no call uses the address.
    constexpr std::uint64_t address() const noexcept {
        if (!this->error_.ok()) return 0;
        return first_ ? static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(first_)) + offset_ : offset_;
    }
    T *pointer() const noexcept { return reinterpret_cast<T *>(static_cast<std::uintptr_t>(address())); }
    constexpr std::int32_t device() const noexcept { return device_; }
    constexpr std::uint64_t row_pitch() const noexcept { return row_pitch_; } // bytes
    constexpr std::uint64_t slice_height() const noexcept { return slice_height_; }
    static constexpr std::uint64_t element_size() noexcept { return sizeof(T); }
    // Bytes from the first byte to the end of the last element, gaps included.
    constexpr std::uint64_t reach() const noexcept {
        if (this->size_.empty()) return 0;
        return offset_of(this->width(), this->height() - 1, this->depth() - 1);
    }

    // Views the first width * height * depth elements of a line as an image or a volume.
    constexpr linear_view shaped(std::uint64_t width, std::uint64_t height, std::uint64_t depth = 1) const noexcept {
        const std::uint64_t count = detail::multiply(detail::multiply(width, height), depth);
        linear_view shaped(extent{width, height, depth}, device_, first_, offset_, 0, 0);
        shaped.error_ = this->error_;
        if (this->height() != 1 || this->depth() != 1)
            shaped.set_error(detail::refusal(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HEIGHT, 1, this->height()));
        shaped.set_error(sub(0, 0, 0, count, 1, 1).error());
        return shaped;
    }
    using detail::box_view<linear_view>::sub;

    // The same memory with bytes as elements.
    constexpr auto as_bytes() const noexcept {
        using byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
        linear_view<byte, kind> bytes(this->byte_extent(), device_, first_, offset_, row_pitch_, slice_height_);
        bytes.set_error(this->error_);
        return bytes;
    }

    // For hand-written descriptors. The stride of packed rows or slices is 0. Calls refuse the place of a view in error.
    constexpr ferry_place place() const noexcept {
        ferry_place place = {};
        place.kind = kind;
        place.device = device_;
        place.address = address();
        const bool has_slices = this->depth() > 1, has_rows = has_slices || this->height() > 1;
        if (has_rows && row_pitch_ != this->byte_extent().width) place.row_pitch = row_pitch_;
        if (has_slices && slice_height_ != this->height()) place.slice_height = slice_height_;
        return place;
    }

private:
    template <class, std::int32_t> friend class linear_view;
    friend detail::box_view<linear_view>;

    constexpr linear_view(const extent &size, std::int32_t device, const void *first, std::uint64_t offset,
                          std::uint64_t row_pitch, std::uint64_t slice_height) noexcept
        : first_(first), offset_(offset), row_pitch_(row_pitch ? row_pitch : detail::multiply(size.width, sizeof(T))),
          slice_height_(slice_height ? slice_height : size.height), device_(device) {
        detail::check_elements_of_view<T>();
        this->size_ = size;
    }

    constexpr std::uint64_t offset_of(std::uint64_t x, std::uint64_t y, std::uint64_t z) const noexcept {
        const std::uint64_t rows = detail::add(detail::multiply(z, slice_height_), y);
        return detail::add(detail::multiply(rows, row_pitch_), detail::multiply(x, sizeof(T)));
    }
    constexpr void move_origin(std::uint64_t x, std::uint64_t y, std::uint64_t z) noexcept {
        const std::uint64_t offset = offset_of(x, y, z);
        if (offset > room_behind()) return this->set_error(overflow_of(x, y, z));
        offset_ += offset;
    }
    // Bytes from the origin to the end of the address space. A constant expression cannot know a pointer's address, but
    // no object is larger than half of the address space.
    constexpr std::uint64_t room_behind() const noexcept {
        if (first_ && detail::is_constant_evaluated()) return detail::max_uint64 / 2 - offset_;
        return detail::max_uint64 - address();
    }
    constexpr status overflow_of(std::uint64_t x, std::uint64_t y, std::uint64_t z) const noexcept {
        const auto refused = [](std::int32_t field, std::uint64_t limit, std::uint64_t value) noexcept {
            return detail::refusal(FERRY_ERROR_OVERFLOW, field, limit, value);
        };
        std::uint64_t room = room_behind();
        const std::uint64_t bytes = detail::multiply(x, sizeof(T));
        if (bytes > room) return refused(FERRY_FIELD_X, room, bytes);
        room -= bytes;
        if (y && y > room / row_pitch_) return refused(FERRY_FIELD_Y, room / row_pitch_, y);
        room -= y * row_pitch_;
        const std::uint64_t max_rows = detail::max_uint64 / row_pitch_;
        if (slice_height_ > max_rows) return refused(FERRY_FIELD_SLICE_HEIGHT, max_rows, slice_height_);
        return refused(FERRY_FIELD_Z, room / (row_pitch_ * slice_height_), z);
    }

    const void *first_ = nullptr; // if the view was made of a pointer, which has no number in a constant expression
    std::uint64_t offset_ = 0;    // bytes from there, or the address
    std::uint64_t row_pitch_ = 0;
    std::uint64_t slice_height_ = 1;
    std::int32_t device_ = 0;
};

template <class T> using host_view = linear_view<T, FERRY_KIND_HOST>;
template <class T> using device_view = linear_view<T, FERRY_KIND_DEVICE>;
template <class T> using any_view = linear_view<T, FERRY_KIND_ANY>;

// A box of a CUDA array. Elements are texels or, in block-compressed formats, blocks of 4 x 4 texels. Layers and cube
// faces are slices. Like CUDA's handle, the view does not carry const.
class array_view : public detail::box_view<array_view> {
public:
    array_view() noexcept = default;

    // Views the whole of any CUarray on `device`, which may be FERRY_DEVICE_UNKNOWN. Queries the driver for the shape.
    static result<array_view> of(ferry_instance *instance, std::int32_t device, CUarray_st *array) noexcept {
        ferry_array_desc desc = {};
        desc.struct_size = sizeof desc;
        array_view view;
        const status done = detail::call(ferry_array_get_info, instance, array, &desc, &view.element_size_);
        if (!done.ok()) return done;
        const bool has_blocks = desc.format >= FERRY_FORMAT_BC1_UNORM && desc.format <= FERRY_FORMAT_BC7_UNORM_SRGB;
        const std::uint64_t side = has_blocks ? 4 : 1;
        view.array_ = array;
        view.device_ = device;
        view.size_ = {(desc.width + side - 1) / side, desc.height ? (desc.height + side - 1) / side : 1,
                      desc.depth ? desc.depth : 1};
        if (view.element_size_ == 0) view.set_error(detail::refusal(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_ARRAY));
        return view;
    }

    // NULL for a view in error, so that no call uses the array.
    constexpr CUarray_st *array() const noexcept { return error_.ok() ? array_ : nullptr; }
    constexpr std::int32_t device() const noexcept { return device_; }
    // In bytes; 0: only the planes can be copied.
    constexpr std::uint32_t element_size() const noexcept { return element_size_; }

    // One layer, face or slice.
    constexpr array_view layer(std::uint64_t number) const noexcept { return sub(0, 0, number, width(), height(), 1); }

    // For hand-written descriptors. Calls refuse the place of a view in error.
    constexpr ferry_place place() const noexcept {
        ferry_place place = {};
        place.kind = FERRY_KIND_ARRAY;
        place.device = device_;
        place.array = array();
        place.x = x_ * element_size_;
        place.y = y_;
        place.z = z_;
        return place;
    }

private:
    friend detail::box_view<array_view>;
    constexpr void move_origin(std::uint64_t x, std::uint64_t y, std::uint64_t z) noexcept {
        x_ += x, y_ += y, z_ += z;
    }

    CUarray_st *array_ = nullptr;
    std::uint64_t x_ = 0, y_ = 0, z_ = 0;
    std::uint32_t element_size_ = 0;
    std::int32_t device_ = 0;
};

namespace detail {

// The elements are in the object, as in std::array, or come from std::allocator, as in std::vector and std::string.
template <class R, class = void> inline constexpr bool has_inner_elements = false;
template <class R>
inline constexpr bool
    has_inner_elements<R, std::enable_if_t<(std::tuple_size<R>::value * sizeof(typename R::value_type) <= sizeof(R))>> =
        true;
template <class R, class = void> inline constexpr bool has_std_allocator = false;
template <class R>
inline constexpr bool has_std_allocator<R, std::void_t<typename R::allocator_type, typename R::value_type>> =
    std::is_same_v<typename R::allocator_type, std::allocator<typename R::value_type>>;

} // namespace detail

// The kind of the memory that a container or an mdspan R refers to. FERRY_KIND_HOST for types that can have no other
// memory: std::array, and containers with std::allocator. FERRY_KIND_ANY for all other types, such as std::span, mdspans
// and rmm::device_uvector: ferry queries the driver for the kind. Between host and device memory this costs no driver
// call, because ferry also queries whether host memory is pinned. A synchronous copy of 256 bytes from pageable memory
// took 15 044 instructions with ANY and 15 040 with HOST (callgrind, medians, software driver, 2026-11-27). A program may
// specialise this template for its own types:
//
//     template <class T> struct ferry::memory_kind_of<my::device_buffer<T>>
//         : std::integral_constant<std::int32_t, FERRY_KIND_DEVICE> {};
//
// With FERRY_KIND_DEVICE, the view is a device_view with FERRY_DEVICE_UNKNOWN.
template <class R, class = void>
struct memory_kind_of
    : std::integral_constant<std::int32_t, detail::has_inner_elements<R> || detail::has_std_allocator<R>
                                               ? FERRY_KIND_HOST
                                               : FERRY_KIND_ANY> {};

// Conversion of ranges to views.
namespace detail {

template <class R> constexpr std::int32_t checked_kind() noexcept {
    constexpr std::int32_t kind = memory_kind_of<std::remove_const_t<R>>::value;
    static_assert(kind == FERRY_KIND_ANY || kind == FERRY_KIND_HOST || kind == FERRY_KIND_DEVICE,
                  "ferry::memory_kind_of must be FERRY_KIND_ANY, FERRY_KIND_HOST or FERRY_KIND_DEVICE");
    return kind;
}
// The view of the elements of a container or mdspan R.
template <class R, class T> using view_of_elements = linear_view<T, checked_kind<R>()>;
template <class R, class T, class... Shape>
constexpr view_of_elements<R, T> view_elements(T *first, Shape... shape) noexcept {
    if constexpr (checked_kind<R>() == FERRY_KIND_DEVICE)
        return {FERRY_DEVICE_UNKNOWN, first, shape...};
    else
        return {first, shape...};
}

template <class> inline constexpr bool is_linear_view = false;
template <class T, std::int32_t kind> inline constexpr bool is_linear_view<linear_view<T, kind>> = true;
template <class> inline constexpr bool may_be_host = false;
template <class T, std::int32_t kind>
inline constexpr bool may_be_host<linear_view<T, kind>> = kind != FERRY_KIND_DEVICE;
template <class V> inline constexpr bool is_view = is_linear_view<V> || std::is_same_v<V, array_view>;

template <class V> inline constexpr bool is_writable = std::is_same_v<V, array_view>;
template <class T, std::int32_t kind> inline constexpr bool is_writable<linear_view<T, kind>> = !std::is_const_v<T>;

// A fill repeats one element, which must have one of these sizes.
template <class V> inline constexpr bool has_pattern = false;
template <class T, std::int32_t kind>
inline constexpr bool has_pattern<linear_view<T, kind>> = (sizeof(T) <= 16 && 16 % sizeof(T) == 0);

// Both ends have one element type. Arrays know only their element size, so they match any type here.
template <class From, class To> inline constexpr bool same_elements = true;
template <class From, std::int32_t from_kind, class To, std::int32_t to_kind>
inline constexpr bool same_elements<linear_view<From, from_kind>, linear_view<To, to_kind>> =
    std::is_same_v<std::remove_const_t<From>, std::remove_const_t<To>>;

// Overload priority of as_view: the most derived tag that fits wins.
struct as_container {};
struct as_mdspan : as_container {};
struct as_c_array : as_mdspan {};
struct as_owner : as_c_array {};
struct as_itself : as_owner {};

template <class V, std::enable_if_t<is_view<V>, int> = 0> constexpr V as_view(const V &view, as_itself) noexcept {
    return view;
}

template <class Owner, class V = decltype(std::declval<Owner &>().view()), std::enable_if_t<is_view<V>, int> = 0>
constexpr V as_view(Owner &owner, as_owner) noexcept {
    return owner.view();
}

template <class T> using if_element = std::enable_if_t<is_element<T>, int>;

template <class T, std::size_t width, if_element<T> = 0>
constexpr host_view<T> as_view(T (&array)[width], as_c_array) noexcept {
    return {array, width};
}
template <class T, std::size_t height, std::size_t width, if_element<T> = 0>
constexpr host_view<T> as_view(T (&array)[height][width], as_c_array) noexcept {
    return {array[0], width, height};
}
template <class T, std::size_t depth, std::size_t height, std::size_t width, if_element<T> = 0>
constexpr host_view<T> as_view(T (&array)[depth][height][width], as_c_array) noexcept {
    return {array[0][0], width, height, depth};
}

// A type shaped like std::mdspan is never treated as a container, even if it has data() and size().
template <class M, class = void> inline constexpr bool is_mdspan = false;
template <class M> inline constexpr bool is_mdspan<M, std::void_t<typename M::data_handle_type>> = true;

// The element type of an mdspan that can be copied. Elements that an accessor computes have no address to copy from.
template <class M, class T = typename M::element_type>
using mdspan_element =
    std::enable_if_t<std::is_same_v<typename M::reference, T &> && std::is_same_v<typename M::data_handle_type, T *> &&
                         is_element<T> && (M::rank() >= 1 && M::rank() <= 3),
                     T>;

// The layout of an mdspan, if all its extents were 2. The strides of two extents of 2 differ, so they show the order.
template <class M, class = typename M::extents_type> struct layout_of_twos;
template <class M, template <class, std::size_t...> class Extents, class Index, std::size_t... sizes>
struct layout_of_twos<M, Extents<Index, sizes...>> {
    using type = typename M::layout_type::template mapping<Extents<Index, (sizes * 0 + 2)...>>;
};

// Whether the first extent has the smallest stride in every mdspan of this type, as in layout_left.
template <class M, class = void> inline constexpr bool is_column_major = false;
template <class M>
inline constexpr bool
    is_column_major<M, std::enable_if_t<(M::rank() > 1 && typename layout_of_twos<M>::type().stride(0) <
                                                              typename layout_of_twos<M>::type().stride(1))>> = true;

// The indices of an mdspan that become X, Y and Z.
struct axes {
    std::size_t at[3];
};
template <class M> constexpr axes rows_first() noexcept {
    constexpr auto rank = static_cast<std::size_t>(M::rank());
    return {{rank - 1, rank - 2, rank - 3}};
}

// Elements along X must be contiguous, and the slice stride must be a multiple of the row pitch.
template <class M, class T = mdspan_element<M>>
constexpr view_of_elements<M, T> view_along(const M &span, const axes &order) noexcept {
    const bool is_strided = span.is_strided();
    std::uint64_t size[3] = {1, 1, 1}, stride[3] = {sizeof(T), 0, 0}; // of X, Y, Z; size in elements, stride in bytes
    for (std::size_t axis = 0; axis < M::rank(); ++axis) {
        size[axis] = static_cast<std::uint64_t>(span.extent(order.at[axis]));
        if (is_strided && size[axis] > 1)
            stride[axis] = multiply(static_cast<std::uint64_t>(span.stride(order.at[axis])), sizeof(T));
    }
    const bool has_slices = size[2] > 1, has_rows = size[1] > 1;
    const std::uint64_t width = multiply(size[0], sizeof(T));
    const std::uint64_t row_pitch = has_rows ? stride[1] : has_slices ? stride[2] : width;
    const std::uint64_t slice_height = has_slices && row_pitch ? stride[2] / row_pitch : size[1];
    auto view = detail::view_elements<M>(span.data_handle(), size[0], size[1], size[2], row_pitch, slice_height);
    if (extent{size[0], size[1], size[2]}.empty()) return view;
    if (!is_strided || stride[0] != sizeof(T))
        view.set_error(refusal(FERRY_ERROR_PITCH, FERRY_FIELD_X, sizeof(T), is_strided ? stride[0] : 0));
    if (row_pitch < width) view.set_error(refusal(FERRY_ERROR_PITCH, FERRY_FIELD_ROW_PITCH, width, row_pitch));
    if (slice_height < size[1] || (has_slices && row_pitch && stride[2] % row_pitch != 0))
        view.set_error(refusal(FERRY_ERROR_PITCH, FERRY_FIELD_SLICE_HEIGHT));
    return view;
}

// X is the last extent, or the first one in layout_left.
template <class M, class T = mdspan_element<M>>
constexpr view_of_elements<M, T> as_view(const M &span, as_mdspan) noexcept {
    return view_along(span, is_column_major<M> ? axes{{0, 1, 2}} : rows_first<M>());
}

// std::vector, std::array, std::span, std::string and similar types.
template <class C, class T = std::remove_pointer_t<decltype(std::declval<C &>().data())>,
          class Size = decltype(std::declval<C &>().size()),
          std::enable_if_t<is_element<T> && std::is_same_v<decltype(std::declval<C &>().data()), T *> &&
                               std::is_convertible_v<Size, std::uint64_t> && !is_mdspan<C>,
                           int> = 0>
constexpr view_of_elements<C, T> as_view(C &container, as_container) noexcept {
    return detail::view_elements<C>(container.data(), static_cast<std::uint64_t>(container.size()));
}

template <class R>
using view_type = decltype(detail::as_view(std::declval<std::remove_reference_t<R> &>(), as_itself{}));

// The member types element_type and traits_type identify spans and string views. The return type of data() does not:
// std::array<const int, 4> owns the memory that data() points to.
template <class R, class = void> inline constexpr bool is_span = false;
template <class R>
inline constexpr bool is_span<
    R, std::enable_if_t<std::is_same_v<decltype(std::declval<const R &>().data()), typename R::element_type *>>> =
    std::is_trivially_copyable_v<R>;
template <class R, class = void> inline constexpr bool is_string_view = false;
template <class R>
inline constexpr bool is_string_view<
    R, std::enable_if_t<std::is_class_v<typename R::traits_type> &&
                        std::is_same_v<decltype(std::declval<R &>().data()), const typename R::value_type *>>> =
    std::is_trivially_copyable_v<R>;
#ifdef __cpp_lib_ranges
template <class R> inline constexpr bool is_borrowed_range = std::ranges::enable_borrowed_range<R>;
#else
template <class R> inline constexpr bool is_borrowed_range = false;
#endif

} // namespace detail

// Whether the memory that R refers to outlives a temporary R, so that a call may keep the address. True for views, mdspans,
// spans, string views and, in C++20, types for which std::ranges::enable_borrowed_range is true. A program may
// specialise this template for its own views:
//
//     template <> struct ferry::borrows_memory<my::view> : std::true_type {};
template <class R, class = void>
struct borrows_memory : std::bool_constant<detail::is_view<R> || detail::is_mdspan<R> || detail::is_span<R> ||
                                           detail::is_string_view<R> || detail::is_borrowed_range<R>> {};

namespace detail {

template <class R>
inline constexpr bool outlives_call =
    std::is_lvalue_reference_v<R> || borrows_memory<std::remove_cv_t<std::remove_reference_t<R>>>::value;

// The view of a range, or void.
template <class R, class = void> struct viewed { using type = void; };
template <class R> struct viewed<R, std::void_t<view_type<R>>> { using type = view_type<R>; };
template <class R> using view_or_void = typename viewed<R>::type;

template <class R> inline constexpr bool has_view = is_view<view_or_void<R>>;
template <class To> inline constexpr bool is_destination = (is_writable<view_or_void<To>> && outlives_call<To>);

} // namespace detail

// Whether calls take arguments of these types: T & means a variable, T a temporary.
// view_of()
template <class R> inline constexpr bool can_view = (detail::has_view<R> && detail::outlives_call<R>);
// registration::create()
template <class R>
inline constexpr bool can_register = (detail::may_be_host<detail::view_or_void<R>> && detail::outlives_call<R>);
// export_memory()
template <class R>
inline constexpr bool can_export = (detail::is_linear_view<detail::view_or_void<R>> && detail::outlives_call<R>);
// copy(), explain() and explain_async()
template <class From, class To>
inline constexpr bool can_copy = (detail::has_view<From> && detail::is_destination<To> &&
                                  detail::same_elements<detail::view_or_void<From>, detail::view_or_void<To>>);
// copy_async(), copy_async_ticket() and describe_copy(), and describe_piece() if neither end is an array
template <class From, class To>
inline constexpr bool can_copy_async = (can_copy<From, To> && detail::outlives_call<From>);
// fill(), fill_async() and describe_fill(), if the value converts to the element type
template <class To>
inline constexpr bool can_fill = (detail::is_destination<To> && detail::has_pattern<detail::view_or_void<To>>);

// What the compiler says about other types. A call begins with its check, and does nothing with types that do not pass.
namespace detail {

// The type of the elements that std::data() points to, or void.
template <class R, class = void> struct data_of { using type = void; };
template <class R> struct data_of<R, std::enable_if_t<std::is_pointer_v<decltype(std::data(std::declval<R &>()))>>> {
    using type = std::remove_pointer_t<decltype(std::data(std::declval<R &>()))>;
};
template <class R> using data_element = typename data_of<R>::type;

// Whether data() returns something other than a pointer to elements, such as a thrust::device_ptr or a void *.
template <class R, class = void> inline constexpr bool has_other_data = false;
template <class R>
inline constexpr bool has_other_data<R, std::enable_if_t<!std::is_void_v<decltype(std::declval<R &>().data())>>> =
    std::is_void_v<data_element<R>>;

template <class R> constexpr void refuse_range() noexcept {
    using range = std::remove_cv_t<std::remove_reference_t<R>>;
    if constexpr (is_result<range>)
        static_assert(never<R>, "this is a ferry::result, which may hold an error: pass its value, with operator* "
                                "after a check of ok(), or with or_throw()");
    else if constexpr (std::is_pointer_v<range> || std::is_integral_v<range>)
        static_assert(never<R>, "an address has no number of elements: pass a view, such as "
                                "ferry::host_view<T>(pointer, width) or ferry::device_view<T>(device, address, width)");
    else if constexpr (is_mdspan<range>)
        static_assert(never<R>, "an mdspan must have 1 to 3 dimensions, and trivially copyable elements in memory: "
                                "its reference must be T & and its data handle T *");
    else if constexpr (std::rank_v<range> > 3)
        static_assert(never<R>, "a C array must have at most 3 dimensions: pass a view of the part to copy");
    else if constexpr (std::is_array_v<range> || (!std::is_void_v<data_element<R>> && !is_element<data_element<R>>))
        refuse_elements<R>();
    else if constexpr (has_other_data<range>)
        static_assert(never<R>, "data() of this range returns no pointer to elements: pass a view, such as "
                                "ferry::device_view<T>(device, pointer, width). thrust::raw_pointer_cast or "
                                "static_cast<T *> of data() gives the pointer");
    else
        static_assert(never<R>, "this is no range of contiguous memory: pass a view, an owner, a C array, an mdspan, "
                                "or a container with data() and size() such as std::vector, but not std::vector<bool>");
}

template <class To> constexpr void refuse_destination() noexcept {
    if constexpr (!has_view<To>)
        refuse_range<To>();
    else if constexpr (!is_writable<view_type<To>>)
        static_assert(never<To>, "the destination is const, so it cannot be written: pass a container, view or owner "
                                 "whose elements are not const");
    else
        static_assert(never<To>, "the destination is a temporary that owns its memory, so what is written would be "
                                 "lost: pass a variable or a view. For a type that does not own the memory, "
                                 "specialise ferry::borrows_memory");
}

template <class From, class To> void check_copy() noexcept {
    if constexpr (!has_view<From>)
        refuse_range<From>();
    else if constexpr (!is_destination<To>)
        refuse_destination<To>();
    else
        static_assert(can_copy<From, To>, "source and destination have different element types: convert the elements "
                                          "before the copy, or copy bytes with as_bytes() of both views");
}

template <class From, class To> void check_copy_async() noexcept {
    if constexpr (has_view<From> && !outlives_call<From>)
        static_assert(never<From>, "the source is a temporary that owns its memory, but the copy reads it after the "
                                   "call: pass a variable that lives until the copy is complete. For a type that does "
                                   "not own the memory, specialise ferry::borrows_memory");
    else
        check_copy<From, To>();
}

template <class From, class To> void check_piece() noexcept {
    check_copy_async<From, To>();
    static_assert(!can_copy_async<From, To> || (is_linear_view<view_or_void<From>> && is_linear_view<view_or_void<To>>),
                  "CUDA arrays have no addresses, so a piece cannot name them: copy them with describe_copy() and "
                  "copy_batch()");
}

template <class To> void check_fill() noexcept {
    if constexpr (!is_destination<To>)
        refuse_destination<To>();
    else if constexpr (!is_linear_view<view_or_void<To>>)
        static_assert(never<To>, "CUDA arrays cannot be filled: fill memory, and copy it to the array");
    else
        static_assert(can_fill<To>, "elements must have 1, 2, 4, 8 or 16 bytes: fill others by their bytes, with "
                                    "as_bytes()");
}

template <class R> constexpr void check_view() noexcept {
    if constexpr (!has_view<R>)
        refuse_range<R>();
    else
        static_assert(can_view<R>, "this is a temporary that owns its memory, so the memory would be gone after the "
                                   "call: pass a variable. For a type that does not own the memory, specialise "
                                   "ferry::borrows_memory");
}

template <class R> void check_registration() noexcept {
    check_view<R>();
    static_assert(can_register<R> || !can_view<R>,
                  "only host memory can be registered: pass a container or a ferry::host_view of it");
}

template <class R> void check_export() noexcept {
    check_view<R>();
    static_assert(can_export<R> || !can_view<R>, "CUDA arrays cannot be exported: pass memory with addresses");
}

// Contiguous values of T, as batches take them: any type that std::data() and std::size() accept.
template <class R, class T, class = void> inline constexpr bool is_contiguous = false;
template <class R, class T>
inline constexpr bool is_contiguous<
    R, T,
    std::enable_if_t<
        std::is_same_v<std::remove_const_t<std::remove_pointer_t<decltype(std::data(std::declval<R &>()))>>, T> &&
        std::is_convertible_v<decltype(std::size(std::declval<R &>())), std::uint64_t>>> =
    !is_mdspan<std::remove_const_t<R>>;

// Leaves what converts to `Other` to an overload that takes that.
template <class R, class Other> using if_not = std::enable_if_t<!std::is_convertible_v<R, Other>, int>;

template <class T> struct list {
    const T *first;
    std::uint64_t count;
};
template <class T, class R> list<T> list_of(R &range) noexcept {
    if constexpr (is_contiguous<R, T>) {
        return {std::data(range), static_cast<std::uint64_t>(std::size(range))};
    } else {
        static_assert(!std::is_same_v<T, ferry_copy_desc>,
                      "the copies must be a contiguous range of ferry_copy_desc, such as a std::vector or a C array: "
                      "describe_copy() makes a descriptor");
        static_assert(!std::is_same_v<T, std::uint64_t>,
                      "addresses and sizes must be contiguous ranges of std::uint64_t, such as a std::vector or a C "
                      "array: a pointer has no number of elements");
        static_assert(std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::int32_t> ||
                          std::is_same_v<T, ferry_copy_desc>,
                      "the structs must be a contiguous range, such as a std::vector or a C array, of the struct whose "
                      "fields are given");
        static_assert(!std::is_same_v<T, std::int32_t>,
                      "helpers must be a contiguous range of std::int32_t, such as a std::vector or a C array");
        return {};
    }
}

// The type of a fill's value. What has no elements takes any value, so that one mistake is one error.
struct any_value {
    template <class T> any_value(const T &) noexcept {}
};
using any = const any_value &;
template <class V> struct value_of { using type = any_value; };
template <class T, std::int32_t kind> struct value_of<linear_view<T, kind>> { using type = std::remove_const_t<T>; };
template <class To> using fill_element = typename value_of<view_or_void<To>>::type;

} // namespace detail

// Returns the view that a copy uses for a range. A view stays itself, and an owner becomes the view of its memory. A C
// array of up to three dimensions is host memory. An mdspan, and any type with data() and size(), has the kind that
// memory_kind_of states.
template <class R>
constexpr std::conditional_t<detail::has_view<R>, detail::view_or_void<R>, any_view<const std::byte>>
view_of(R &&range) noexcept {
    detail::check_view<R>();
    if constexpr (can_view<R>)
        return detail::as_view(range, detail::as_itself{});
    else
        return {};
}

namespace detail {

// A temporary that ends a stream, such as a std::unique_ptr: owners cannot be copied.
template <class S>
inline constexpr bool is_temporary_owner =
    !std::is_lvalue_reference_v<S> && !std::is_copy_constructible_v<std::remove_cv_t<S>>;

} // namespace detail

// A stream as an argument, named and not owned: a CUstream, a cudaStream_t, a ferry::stream, or any type that converts to
// such a handle or returns one from get(), such as cuda::stream_ref. NULL and {} are the legacy default stream. A
// temporary that cannot be copied counts as the owner of its stream and is refused.
class stream_view {
public:
    constexpr stream_view() noexcept = default;
    constexpr stream_view(CUstream_st *handle) noexcept : handle_(handle) {}
    template <class S, std::enable_if_t<detail::is_stream<S> && !detail::is_temporary_owner<S>, int> = 0>
    constexpr stream_view(S &&stream) {
        if constexpr (std::is_convertible_v<std::remove_reference_t<S> &, CUstream_st *>)
            handle_ = stream;
        else
            handle_ = stream.get();
    }
    template <class S, std::enable_if_t<detail::is_stream<S> && detail::is_temporary_owner<S>, int> = 0>
    stream_view(S &&) = delete; // the stream would be gone: keep the owner in a variable
    template <class S,
              std::enable_if_t<!detail::is_stream<S> && !std::is_integral_v<std::remove_reference_t<S>>, int> = 0>
    stream_view(S &&) = delete; // not a stream: pass a CUstream, a ferry::stream, or a type that stream_view describes
    constexpr operator CUstream_st *() const noexcept { return handle_; }
    constexpr CUstream_st *handle() const noexcept { return handle_; }

private:
    CUstream_st *handle_ = nullptr;
};

// ---------------------------------------------------------------------------------------------------------------------
// Instance
// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

// Returns the value that `call` writes to its last argument but one, before the ferry_error_info.
template <class T, class Call, class... Arguments>
result<T> fetch(T value, Call call, Arguments... arguments) noexcept {
    const status done = detail::call(call, arguments..., &value);
    return done.ok() ? result<T>(value) : done;
}

struct no_data {};

// The stream in whose order an object ends, if set_stream() has named one.
struct end_stream {
    CUstream_st *after = nullptr;
    bool is_set = false;
};
struct no_end_stream {};

// A view of memory, and the extra data that an owner needs to free or describe the memory.
template <class View, class More> struct view_and : View {
    view_and() noexcept = default;
    view_and(const View &view, const More &rest) noexcept : View(view), more(rest) {}
    More more = {};
};

// Owns a handle that `destroy` destroys, and data about the handle. If `destroy` takes an argument before the
// ferry_error_info, that argument is the `more` of a view_and.
// If `deferred` is not null, it ends the object in the order of a stream and does not wait.
template <class Handle, auto destroy, class Data = no_data, auto deferred = nullptr>
class owner : protected std::conditional_t<std::is_null_pointer_v<decltype(deferred)>, no_end_stream, end_stream> {
    static constexpr bool can_defer = !std::is_null_pointer_v<decltype(deferred)>;
    using order = std::conditional_t<can_defer, end_stream, no_end_stream>;

public:
    owner() noexcept = default;
    // Takes ownership of a handle that a call of ferry.h created. `data` is the view of the memory, the device of a
    // mipmapped array, or whatever the class documents.
    owner(ferry_instance *instance, Handle handle, const Data &data) noexcept
        : instance_(instance), handle_(handle), data_(data) {}
    template <class K = Data, std::enable_if_t<std::is_same_v<K, no_data>, int> = 0>
    owner(ferry_instance *instance, Handle handle) noexcept : owner(instance, handle, no_data()) {}
    owner(owner &&other) noexcept
        : order(other), instance_(other.instance_), handle_(other.handle_), data_(std::exchange(other.data_, {})) {
        other.release();
    }
    owner &operator=(owner &&other) noexcept {
        if (this == &other) return *this;
        reset();
        static_cast<order &>(*this) = other;
        instance_ = other.instance_;
        data_ = other.data_;
        handle_ = other.release();
        return *this;
    }
    ~owner() { reset(); }

    explicit operator bool() const noexcept { return handle_ != Handle{}; }
    Handle handle() const &noexcept { return handle_; }
    void handle() const && = delete; // the object would be gone before the handle: keep the owner in a variable
    ferry_instance *instance() const noexcept { return instance_; }
    // Passes ownership to the caller and leaves this empty.
    Handle release() noexcept {
        static_cast<order &>(*this) = {};
        data_ = {};
        return std::exchange(handle_, {});
    }
    // From now on, the destructor and reset() end the object in the order of `stream` and do not wait. The stream must
    // outlive the object, and come after all work that uses it. They still wait if the object cannot end in this way,
    // for example because the stream is being captured.
    template <bool can = can_defer, std::enable_if_t<can, int> = 0> void set_stream(stream_view stream) noexcept {
        static_cast<end_stream &>(*this) = {stream, true};
    }
    void reset() noexcept {
        if constexpr (can_defer)
            if (this->is_set && destroy_with(deferred, end_stream::after).ok()) return;
        if constexpr (std::is_invocable_v<decltype(destroy), ferry_instance *, Handle, ferry_error_info *>) {
            if (const Handle handle = release()) static_cast<void>(destroy(instance_, handle, nullptr));
        } else {
            const auto more = data_.more;
            if (const Handle handle = release()) static_cast<void>(destroy(instance_, handle, more, nullptr));
        }
    }

protected:
    // Destroys the handle with another call than `destroy`. On failure the handle stays owned.
    template <class Call, class... Arguments> status destroy_with(Call call, Arguments... arguments) noexcept {
        const status done = handle_ ? detail::call(call, instance_, handle_, arguments...) : status();
        if (done.ok()) release();
        return done;
    }

    ferry_instance *instance_ = nullptr;
    Handle handle_ = {};
    Data data_ = {};
};

template <class Owner, class Handle, class... Data>
result<Owner> own(ferry_instance *instance, const result<Handle> &made, const Data &...data) noexcept {
    if (!made) return made.error();
    return Owner(instance, *made, data...);
}

inline std::int32_t close(ferry_instance *, ferry_instance *instance, ferry_error_info *) noexcept {
    ferry_close(instance);
    return FERRY_SUCCESS;
}

} // namespace detail

// Options that accept the software driver on machines without a usable GPU: instance::open(any_driver()).
inline ferry_options any_driver() noexcept {
    ferry_options options = {};
    options.driver = FERRY_DRIVER_AUTO;
    return options;
}

// An open ferry_instance, whose destructor waits for its copies in flight and for its deferred frees, and may wait for all
// running work of the devices (ferry_close). It must outlive everything made with it.
class instance : public detail::owner<ferry_instance *, detail::close> {
public:
    instance() noexcept = default;
    explicit instance(ferry_instance *opened) noexcept : owner(opened, opened) {} // takes ownership

    // struct_size need not be set.
    static result<instance> open(ferry_options options = {}) noexcept {
        options.struct_size = sizeof options;
        ferry_instance *const none = nullptr;
        const auto opened = detail::fetch(none, ferry_open, &options);
        return opened ? result<instance>(instance(*opened)) : opened.error();
    }
    operator ferry_instance *() const &noexcept { return handle_; }
    operator ferry_instance *() const && = delete; // the instance would be closed: keep the owner in a variable

    result<ferry_report> report() const noexcept {
        return detail::fetch(detail::sized<ferry_report>(), ferry_instance_get_report, handle_);
    }
    result<ferry_device_info> device_info(std::int32_t device) const noexcept {
        return detail::fetch(detail::sized<ferry_device_info>(), ferry_device_get_info, handle_, device);
    }
    result<ferry_device_counters> device_counters(std::int32_t device) const noexcept {
        return detail::fetch(detail::sized<ferry_device_counters>(), ferry_device_get_counters, handle_, device);
    }
    // The number of the device that another API knows by the 16 bytes of a UUID, or by the 8 bytes of a LUID, as Direct3D
    // does: find_device(nullptr, luid). The UUID counts if both are given.
    result<std::int32_t> find_device(const std::uint8_t *uuid, const std::uint8_t *luid = nullptr) const noexcept {
        return detail::fetch(std::int32_t{-1}, ferry_device_find, handle_, uuid, luid);
    }
    // How much memory the device has, how much is free, and how much its pools and deferred frees keep.
    result<ferry_device_memory_info> memory_info(std::int32_t device) const noexcept {
        return detail::fetch(detail::sized<ferry_device_memory_info>(), ferry_device_get_memory, handle_, device);
    }
    result<ferry_address_info> address_info(std::uint64_t address) const noexcept {
        return detail::fetch(detail::sized<ferry_address_info>(), ferry_address_get_info, handle_, address);
    }
    // Describes an exported handle without opening it.
    result<ferry_ipc_info> ipc_info(const ferry_ipc_handle &handle) const noexcept {
        return detail::fetch(detail::sized<ferry_ipc_info>(), ferry_ipc_get_info, handle_, &handle);
    }
    // The next five calls concern access by `device` to the memory of `peer`.
    result<ferry_peer_info> peer_info(std::int32_t device, std::int32_t peer) const noexcept {
        return detail::fetch(detail::sized<ferry_peer_info>(), ferry_peer_get_info, handle_, device, peer);
    }
    status probe_peer(std::int32_t device, std::int32_t peer) const noexcept {
        return detail::call(ferry_peer_probe, handle_, device, peer);
    }
    // The driver's copies need access in one of the two directions. Kernels need it for the device that runs the copy:
    // the device of the stream, or of the destination in a synchronous copy. See ferry_peer_enable.
    status enable_peer(std::int32_t device, std::int32_t peer) const noexcept {
        return detail::call(ferry_peer_enable, handle_, device, peer);
    }
    status disable_peer(std::int32_t device, std::int32_t peer) const noexcept {
        return detail::call(ferry_peer_disable, handle_, device, peer);
    }
    // Measures copies from `device` to `peer`, for peer_info and for the profile of `device`.
    status calibrate_peer(std::int32_t device, std::int32_t peer) const noexcept {
        return detail::call(ferry_peer_calibrate, handle_, device, peer);
    }
    // Enables access for every ordered pair of devices that offers it, and returns their number. A pair that loses the
    // probe's data does not count. Any other error ends the call, and the pairs before it keep their access.
    result<std::uint32_t> enable_all_peers() const noexcept {
        const result<ferry_report> found = report();
        if (!found) return found.error();
        std::uint32_t count = 0;
        for (std::int32_t device = 0; device < found->device_count; ++device)
            for (std::int32_t peer = 0; peer < found->device_count; ++peer) {
                if (peer == device) continue;
                const status enabled = enable_peer(device, peer);
                if (!enabled.ok() && enabled.code() != FERRY_ERROR_PEER_ACCESS &&
                    enabled.code() != FERRY_ERROR_DATA_LOST)
                    return enabled;
                count += enabled.ok();
            }
        return count;
    }
    // ferry_multilink_set: the devices whose host links copies of `device` with FERRY_COPY_MULTILINK may take. Without
    // options: none. struct_size need not be set.
    status set_multilink(std::int32_t device, ferry_multilink_options options = {}) const noexcept {
        options.struct_size = sizeof options;
        return detail::call(ferry_multilink_set, handle_, device, &options);
    }
    // `helpers`: std::int32_t in any type that std::data() and std::size() accept. `max_sms`: on each, for pinned memory.
    template <class Helpers, detail::if_not<const Helpers &, ferry_multilink_options> = 0>
    status set_multilink(std::int32_t device, const Helpers &helpers, std::uint32_t max_sms = 0) const noexcept {
        ferry_multilink_options options = {};
        options.max_sms = max_sms;
        const auto list = detail::list_of<std::int32_t>(helpers);
        options.helpers = list.first;
        options.helper_count = list.count < UINT32_MAX ? static_cast<std::uint32_t>(list.count) : UINT32_MAX;
        return set_multilink(device, options);
    }
    result<ferry_usage> usage() const noexcept {
        return detail::fetch(detail::sized<ferry_usage>(), ferry_instance_get_usage, handle_);
    }
    result<ferry_staging_info> staging() const noexcept {
        return detail::fetch(detail::sized<ferry_staging_info>(), ferry_staging_get_info, handle_);
    }
    // Does the set-up that the first staged copy would otherwise wait for.
    status prepare_staging(std::int32_t device) const noexcept {
        return detail::call(ferry_staging_prepare, handle_, device);
    }
    status trim_staging() const noexcept { return detail::call(ferry_staging_trim, handle_); }
    // Arrays and memory freed in stream order that the instance still keeps, on one device, or on all and in the host's
    // memory.
    result<ferry_deferred_info> deferred(std::int32_t device = FERRY_DEVICE_UNKNOWN) const noexcept {
        return detail::fetch(detail::sized<ferry_deferred_info>(), ferry_deferred_get_info, handle_, device);
    }
    // If there is anything to free, waits for running work.
    status trim_deferred(std::uint64_t keep = 0, std::int32_t device = FERRY_DEVICE_UNKNOWN) const noexcept {
        return detail::call(ferry_deferred_trim, handle_, device, keep);
    }
    // Measures the device; later copies are planned with this profile.
    status calibrate(std::int32_t device) const noexcept {
        return detail::call(ferry_device_calibrate, handle_, device);
    }
    // The size of the profile as text, including the terminating zero.
    result<std::uint64_t> profile_size(std::int32_t device) const noexcept {
        char *const nowhere = nullptr;
        return detail::fetch(std::uint64_t{0}, ferry_profile_save, handle_, device, nowhere, std::uint64_t{0});
    }
    status save_profile(std::int32_t device, char *buffer, std::uint64_t size) const noexcept {
        return detail::call(ferry_profile_save, handle_, device, buffer, size, nullptr);
    }
    status load_profile(const char *text, std::uint64_t size) const noexcept {
        return detail::call(ferry_profile_load, handle_, text, size);
    }
    // Waits for all work in the context that ferry uses for `device`.
    status synchronize(std::int32_t device) const noexcept {
        return detail::call(ferry_context_synchronize, handle_, device, nullptr);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Memory. Elements are not constructed: their initial values are undefined.
// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

template <class View, class More>
using view_with = std::conditional_t<std::is_same_v<More, no_data>, View, view_and<View, More>>;

// Memory with the shape of a view. A const owner gives a read-only view.
template <class T, std::int32_t kind, class Handle, auto destroy, class More = no_data, auto deferred = nullptr>
class memory : public owner<Handle, destroy, view_with<linear_view<T, kind>, More>, deferred> {
    static_assert(!std::is_const_v<T>, "memory of const elements could never be written");

public:
    using memory::owner::owner;
    linear_view<T, kind> view() &noexcept { return this->data_; }
    linear_view<const T, kind> view() const &noexcept { return this->data_; }
    void view() const && = delete; // the memory would be gone before the view: keep the owner in a variable
    std::uint64_t address() const &noexcept { return this->data_.address(); }
    void address() const && = delete; // the memory would be gone before the address: keep the owner in a variable
};

// Memory that the host can access, as a range.
template <class T, std::int32_t kind, class Handle, auto destroy, class More = no_data, auto deferred = nullptr>
class host_memory : public memory<T, kind, Handle, destroy, More, deferred> {
public:
    using host_memory::memory::memory;
    T *data() &noexcept { return this->data_.pointer(); }
    const T *data() const &noexcept { return this->data_.pointer(); }
    void data() const && = delete; // the memory would be gone before the pointer: keep the owner in a variable
    std::size_t size() const noexcept { return static_cast<std::size_t>(this->data_.width()); } // elements
    T *begin() &noexcept { return data(); }
    T *end() &noexcept { return data() + size(); }
    const T *begin() const &noexcept { return data(); }
    const T *end() const &noexcept { return data() + size(); }
    void begin() const && = delete; // the memory would be gone before the loop: keep the owner in a variable
    void end() const && = delete;
    T &operator[](std::size_t index) noexcept { return data()[index]; }
    const T &operator[](std::size_t index) const noexcept { return data()[index]; }
};

} // namespace detail

namespace detail {

// Memory that can be freed in stream order, without waiting for any work.
template <class T>
class deferrable_memory
    : public memory<T, FERRY_KIND_DEVICE, std::uint64_t, ferry_device_free, no_data, ferry_device_free_deferred> {
public:
    using deferrable_memory::memory::memory;
    // ferry_device_free_deferred: leaves this empty on success and unchanged on failure.
    status free_deferred(stream_view stream) noexcept { return this->destroy_with(ferry_device_free_deferred, stream); }
};

} // namespace detail

// ferry_device_alloc: a line of elements on a device, whose destructor waits for the running work of the device, unless
// set_stream() has named a stream.
template <class T> class device_memory : public detail::deferrable_memory<T> {
public:
    using device_memory::deferrable_memory::deferrable_memory;
    static result<device_memory> create(ferry_instance *instance, std::int32_t device, std::uint64_t count) noexcept {
        const auto made =
            detail::fetch(std::uint64_t{0}, ferry_device_alloc, instance, device, detail::multiply(count, sizeof(T)));
        return detail::own<device_memory>(instance, made, device_view<T>(device, *made, count));
    }
};

// ferry_device_alloc_pitched: an image, or a volume of `depth` consecutive images, whose destructor waits for the running
// work of the device, unless set_stream() has named a stream.
template <class T> class pitched_memory : public detail::deferrable_memory<T> {
public:
    using pitched_memory::deferrable_memory::deferrable_memory;
    static result<pitched_memory> create(ferry_instance *instance, std::int32_t device, std::uint64_t width,
                                         std::uint64_t height, std::uint64_t depth = 1) noexcept {
        constexpr std::uint32_t element_size = sizeof(T) % 16 == 0 ? 16 : sizeof(T) % 8 == 0 ? 8 : 4;
        std::uint64_t address = 0;
        const auto row_pitch =
            detail::fetch(std::uint64_t{0}, ferry_device_alloc_pitched, instance, device,
                          detail::multiply(width, sizeof(T)), detail::multiply(height, depth), element_size, &address);
        if (!row_pitch) return row_pitch.error();
        return pitched_memory(instance, address, device_view<T>(device, address, width, height, depth, *row_pitch));
    }
};

// ferry_managed_alloc: memory with one address for the host and every device, whose destructor waits for the running work
// of the device, unless set_stream() has named a stream. Copies treat managed memory as device memory.
template <class T>
class managed_memory : public detail::host_memory<T, FERRY_KIND_DEVICE, std::uint64_t, ferry_device_free,
                                                  detail::no_data, ferry_device_free_deferred> {
public:
    using managed_memory::host_memory::host_memory;
    // ferry_device_free_deferred: leaves this empty on success and unchanged on failure.
    status free_deferred(stream_view stream) noexcept { return this->destroy_with(ferry_device_free_deferred, stream); }
    static result<managed_memory> create(ferry_instance *instance, std::int32_t device, std::uint64_t count) noexcept {
        const auto made =
            detail::fetch(std::uint64_t{0}, ferry_managed_alloc, instance, device, detail::multiply(count, sizeof(T)));
        return detail::own<managed_memory>(instance, made, device_view<T>(device, *made, count));
    }
};

// ferry_host_alloc: pinned host memory, whose destructor waits for the running work of the devices, unless set_stream()
// has named a stream.
template <class T>
class pinned_memory : public detail::host_memory<T, FERRY_KIND_HOST, void *, ferry_host_free, ferry_host_block,
                                                 ferry_host_free_deferred> {
public:
    // To take ownership of memory from ferry_host_alloc, pass {view, block} as `data`.
    using pinned_memory::host_memory::host_memory;
    // Takes ownership of memory from ferry_host_alloc; block() is zeroed.
    pinned_memory(ferry_instance *instance, void *address, const host_view<T> &view) noexcept
        : pinned_memory(instance, address, {view, ferry_host_block()}) {}

    // struct_size need not be set. With FERRY_HOST_ALLOW_SMALLER, size() is the number of elements allocated.
    static result<pinned_memory> create(ferry_instance *instance, std::uint64_t count,
                                        ferry_host_options options) noexcept {
        options.struct_size = sizeof options;
        const auto made = detail::fetch(detail::sized<ferry_host_block>(), ferry_host_alloc, instance,
                                        detail::multiply(count, sizeof(T)), &options);
        if (!made) return made.error();
        const host_view<T> view(static_cast<T *>(made->address), made->size / sizeof(T));
        return pinned_memory(instance, made->address, {view, *made});
    }
    static result<pinned_memory> create(ferry_instance *instance, std::uint64_t count, host_flags flags = {}) noexcept {
        ferry_host_options options = {};
        options.flags = flags.bits();
        return create(instance, count, options);
    }
    // ferry_host_free_deferred: leaves this empty on success and unchanged on failure.
    status free_deferred(stream_view stream) noexcept { return this->destroy_with(ferry_host_free_deferred, stream); }
    // Describes the allocation: whether it is pinned, its source and its NUMA node.
    const ferry_host_block &block() const noexcept { return this->data_.more; }
};

// ferry_host_register: existing host memory, pinned for the lifetime of this object, whose destructor waits for the
// running work of the devices, unless set_stream() has named a stream. With a stream, the memory must stay mapped until it
// is unregistered (ferry_host_unregister_deferred). The program uses the range as before and must not move or free it.
class registration
    : public detail::owner<void *, ferry_host_unregister, detail::no_data, ferry_host_unregister_deferred> {
public:
    using owner::owner;
    template <class R>
    static result<registration> create(ferry_instance *instance, R &&range, register_flags flags = {}) noexcept {
        detail::check_registration<R>();
        if constexpr (can_register<R>) {
            const auto view = ferry::view_of(range);
            if (!view.error().ok()) return view.error();
            void *const first = reinterpret_cast<void *>(static_cast<std::uintptr_t>(view.address()));
            const status done = detail::call(ferry_host_register, instance, first, view.reach(), flags.bits());
            return done.ok() ? result<registration>(registration(instance, first)) : done;
        } else {
            return status();
        }
    }
    // ferry_host_unregister_deferred: leaves this empty on success and unchanged on failure.
    status unregister_deferred(stream_view stream) noexcept {
        return destroy_with(ferry_host_unregister_deferred, stream);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Pinned pools
// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline std::int32_t destroy_pinned_pool(ferry_instance *, ferry_pinned_pool *pool, ferry_error_info *error) noexcept {
    return ferry_pinned_pool_destroy(pool, error);
}
inline std::int32_t destroy_pinned_pool_deferred(ferry_instance *, ferry_pinned_pool *pool, CUstream_st *stream,
                                                 ferry_error_info *error) noexcept {
    return ferry_pinned_pool_destroy_deferred(pool, stream, error);
}

// The pool of a block, and the stream in whose order the block is freed, if it has one.
struct pool_block {
    ferry_pinned_pool *pool = nullptr;
    CUstream_st *stream = nullptr;
    bool has_stream = false;
};

inline std::int32_t free_block(ferry_instance *, void *address, const pool_block &block,
                               ferry_error_info *error) noexcept {
    if (block.has_stream) return ferry_pinned_pool_free_async(block.pool, address, block.stream, error);
    return ferry_pinned_pool_free(block.pool, address, error);
}

} // namespace detail

// ferry_pinned_pool_create: reusable blocks of pinned host memory, whose destructor waits for the streams on which blocks
// were freed and for the running work of the devices, unless set_stream() has named a stream. The pool must outlive its
// blocks.
class pinned_pool : public detail::owner<ferry_pinned_pool *, detail::destroy_pinned_pool, detail::no_data,
                                         detail::destroy_pinned_pool_deferred> {
public:
    using owner::owner;
    // ferry_pinned_pool_destroy_deferred: leaves this empty on success and unchanged on failure.
    status destroy_deferred(stream_view stream) noexcept {
        return destroy_with(detail::destroy_pinned_pool_deferred, stream);
    }
    // struct_size need not be set.
    static result<pinned_pool> create(ferry_instance *instance, ferry_pinned_pool_options options = {}) noexcept {
        options.struct_size = sizeof options;
        ferry_pinned_pool *const none = nullptr;
        return detail::own<pinned_pool>(instance, detail::fetch(none, ferry_pinned_pool_create, instance, &options));
    }
    operator ferry_pinned_pool *() const &noexcept { return handle_; }
    operator ferry_pinned_pool *() const && = delete; // the pool would be gone: keep the owner in a variable

    result<ferry_pool_stats> stats() const noexcept {
        return detail::fetch(detail::sized<ferry_pool_stats>(), ferry_pinned_pool_get_stats, handle_);
    }
    status reset_stats() const noexcept { return detail::call(ferry_pinned_pool_reset_stats, handle_); }
    status trim(std::uint64_t keep = 0) const noexcept { return detail::call(ferry_pinned_pool_trim, handle_, keep); }
};

// A block of a pinned pool, whose destructor waits for nothing. Without a stream, the next allocation may reuse the block
// immediately.
template <class T>
class pinned_block : public detail::host_memory<T, FERRY_KIND_HOST, void *, detail::free_block, detail::pool_block> {
public:
    // To take ownership of a block, pass {view, {pool}} or {view, {pool, stream, true}} as `data`.
    using pinned_block::host_memory::host_memory;
    // ferry_pinned_pool_alloc: the host may use the block immediately. The destructor also frees it immediately. If
    // copies may still use the block by then, pass their stream to set_stream().
    static result<pinned_block> create(const pinned_pool &pool, std::uint64_t count) noexcept {
        return allocate(pool, count, {pool, nullptr, false}, ferry_pinned_pool_alloc);
    }
    // ferry_pinned_pool_alloc_async: for work on `stream`. The block is freed in the order of `stream`, too.
    static result<pinned_block> create(const pinned_pool &pool, std::uint64_t count, stream_view stream) noexcept {
        return allocate(pool, count, {pool, stream, true}, ferry_pinned_pool_alloc_async, stream);
    }
    static result<pinned_block> create(pinned_pool &&, std::uint64_t) = delete;              // the pool would be gone
    static result<pinned_block> create(pinned_pool &&, std::uint64_t, stream_view) = delete; // the pool would be gone
    // Has the block freed in the order of `stream`.
    void set_stream(stream_view stream) noexcept {
        this->data_.more.stream = stream;
        this->data_.more.has_stream = true;
    }

private:
    template <class Call, class... Stream>
    static result<pinned_block> allocate(const pinned_pool &pool, std::uint64_t count, const detail::pool_block &block,
                                         Call call, Stream... stream) noexcept {
        void *const none = nullptr;
        const auto made = detail::fetch(none, call, pool.handle(), detail::multiply(count, sizeof(T)), stream...);
        if (!made) return made.error();
        return pinned_block(pool.instance(), *made, {host_view<T>(static_cast<T *>(*made), count), block});
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Stream-ordered memory
// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

// The location of a pool, as in ferry_pool_desc.
struct pool_location {
    std::int32_t location = FERRY_LOCATION_DEVICE, index = 0;
};

// Names a pool without owning it.
class pool_reference {
public:
    pool_reference() noexcept = default;
    constexpr pool_reference(ferry_instance *instance, CUmemPoolHandle_st *handle, const pool_location &data) noexcept
        : instance_(instance), handle_(handle), data_(data) {}
    constexpr explicit operator bool() const noexcept { return handle_ != nullptr; }
    constexpr CUmemPoolHandle_st *handle() const noexcept { return handle_; }
    constexpr ferry_instance *instance() const noexcept { return instance_; }

protected:
    ferry_instance *instance_ = nullptr;
    CUmemPoolHandle_st *handle_ = nullptr;
    pool_location data_;
};

// The calls common to all pools. Base owns or names the pool.
template <class Base> class pool_calls : public Base {
public:
    using Base::Base;
    constexpr std::int32_t location() const noexcept { return this->data_.location; } // FERRY_LOCATION_*
    constexpr std::int32_t index() const noexcept { return this->data_.index; }

    result<ferry_pool_info> info() const noexcept { return get(sized<ferry_pool_info>(), ferry_pool_get_info); }
    result<ferry_pool_attributes> attributes() const noexcept {
        return get(sized<ferry_pool_attributes>(), ferry_pool_get_attributes);
    }
    // To change some attributes, get all, change those and set all.
    status set_attributes(const ferry_pool_attributes &attributes) const noexcept {
        return invoke(ferry_pool_set_attributes, &attributes);
    }
    result<ferry_pool_stats> stats() const noexcept { return get(sized<ferry_pool_stats>(), ferry_pool_get_stats); }
    status reset_stats() const noexcept { return invoke(ferry_pool_reset_stats); }
    status trim(std::uint64_t keep = 0) const noexcept { return invoke(ferry_pool_trim, keep); }
    // The access of `device` to the pool's memory, as FERRY_ACCESS_*.
    result<std::int32_t> access(std::int32_t device) const noexcept {
        return get(std::int32_t{0}, ferry_pool_get_access, device);
    }
    status set_access(std::int32_t device, std::int32_t access) const noexcept {
        return invoke(ferry_pool_set_access, device, access);
    }
    // Makes this the current pool of its location, for the whole process.
    status make_current() const noexcept {
        return detail::call(ferry_pool_set_current, this->instance_, location(), index(), this->handle_);
    }

private:
    template <class T, class Call, class... Arguments>
    result<T> get(T value, Call call, Arguments... arguments) const noexcept {
        return detail::fetch(value, call, this->instance_, this->handle_, arguments...);
    }
    template <class Call, class... Arguments> status invoke(Call call, Arguments... arguments) const noexcept {
        return detail::call(call, this->instance_, this->handle_, arguments...);
    }
};

} // namespace detail

// Any pool, a CUmemoryPool or cudaMemPool_t, named and not owned. The pool must outlive its use.
class pool_view : public detail::pool_calls<detail::pool_reference> {
public:
    using pool_calls::pool_calls;
    constexpr operator CUmemPoolHandle_st *() const noexcept { return handle_; }
    // Queries the driver for the location.
    static result<pool_view> of(ferry_instance *instance, CUmemPoolHandle_st *pool) noexcept {
        const auto info = detail::fetch(detail::sized<ferry_pool_info>(), ferry_pool_get_info, instance, pool);
        if (!info) return info.error();
        return pool_view(instance, pool, {info->location, info->index});
    }
    static result<pool_view> default_of(ferry_instance *instance, std::int32_t location, std::int32_t index) noexcept {
        return find(ferry_pool_get_default, instance, location, index);
    }
    static result<pool_view> current_of(ferry_instance *instance, std::int32_t location, std::int32_t index) noexcept {
        return find(ferry_pool_get_current, instance, location, index);
    }

private:
    template <class Call>
    static result<pool_view> find(Call call, ferry_instance *instance, std::int32_t location,
                                  std::int32_t index) noexcept {
        CUmemPoolHandle_st *const none = nullptr;
        const auto found = detail::fetch(none, call, instance, location, index);
        return found ? result<pool_view>(pool_view(instance, *found, {location, index})) : found.error();
    }
};

// ferry_pool_create: a pool whose destructor waits for the streams on which memory of the pool was freed, unless
// set_stream() has named a stream. Free all memory from the pool first. Without a stream, the destructor cannot destroy a
// pool in use and leaks it. With a stream, a pool in use ends after its memory is freed.
class pool
    : public detail::pool_calls<
          detail::owner<CUmemPoolHandle_st *, ferry_pool_destroy, detail::pool_location, ferry_pool_destroy_deferred>> {
public:
    // To take ownership of a pool, pass {location, index} as `data`.
    using pool_calls::pool_calls;
    // ferry_pool_destroy_deferred: leaves this empty on success and unchanged on failure.
    status destroy_deferred(stream_view stream) noexcept { return destroy_with(ferry_pool_destroy_deferred, stream); }
    // struct_size need not be set.
    static result<pool> create(ferry_instance *instance, ferry_pool_desc desc) noexcept {
        desc.struct_size = sizeof desc;
        CUmemPoolHandle_st *const none = nullptr;
        return detail::own<pool>(instance, detail::fetch(none, ferry_pool_create, instance, &desc),
                                 detail::pool_location{desc.location, desc.index});
    }
    operator CUmemPoolHandle_st *() const &noexcept { return handle_; }
    operator CUmemPoolHandle_st *() const && = delete; // the pool would be gone: keep the owner in a variable
    operator pool_view() const &noexcept { return {instance_, handle_, data_}; }
    operator pool_view() const && = delete; // the pool would be gone before the view: keep the owner in a variable
};

namespace detail {

// Device or host memory, handled by address, that is freed in stream order.
template <class T, std::int32_t kind, auto destroy>
class stream_ordered : public memory<T, kind, std::uint64_t, destroy, CUstream_st *> {
public:
    // To take ownership of memory, pass {view, stream} as `data`.
    using stream_ordered::memory::memory;
    CUstream_st *stream() const noexcept { return this->data_.more; }
    // Has the memory freed in the order of `stream`. The free must come after all work that uses the memory.
    void set_stream(stream_view stream) noexcept { this->data_.more = stream; }

protected:
    static linear_view<T, kind> line_at(std::int32_t device, std::uint64_t address, std::uint64_t count) noexcept {
        if constexpr (kind == FERRY_KIND_DEVICE)
            return {device, address, count};
        else
            return {reinterpret_cast<T *>(static_cast<std::uintptr_t>(address)), count};
    }
};

} // namespace detail

// A line of elements, allocated and freed in stream order, whose destructor waits for nothing. Work on that stream may use
// the memory, and so may work on other streams after an event. `kind` is FERRY_KIND_HOST for memory from pools in host
// memory.
template <class T, std::int32_t kind = FERRY_KIND_DEVICE>
class stream_memory : public detail::stream_ordered<T, kind, ferry_device_free_async> {
public:
    using stream_memory::stream_ordered::stream_ordered;
    // ferry_device_alloc_async: from the current pool of `device`.
    template <std::int32_t k = kind> // explicit instantiations of the class leave it out
    static result<stream_memory> create(ferry_instance *instance, std::int32_t device, std::uint64_t count,
                                        stream_view stream) noexcept {
        static_assert(k == FERRY_KIND_DEVICE, "the current pool of a device has device memory only: pass a pool in "
                                              "host memory, in create(pool, count, stream)");
        return allocate(instance, device, count, stream, ferry_device_alloc_async, device);
    }
    // ferry_pool_alloc_async: from `pool`.
    static result<stream_memory> create(const pool_view &pool, std::uint64_t count, stream_view stream) noexcept {
        if ((pool.location() == FERRY_LOCATION_DEVICE) != (kind == FERRY_KIND_DEVICE))
            return status(FERRY_ERROR_OTHER_KIND);
        return allocate(pool.instance(), pool.index(), count, stream, ferry_pool_alloc_async, pool.handle());
    }

private:
    template <class Call, class From>
    static result<stream_memory> allocate(ferry_instance *instance, std::int32_t device, std::uint64_t count,
                                          stream_view stream, Call call, From from) noexcept {
        const auto made =
            detail::fetch(std::uint64_t{0}, call, instance, from, detail::multiply(count, sizeof(T)), stream);
        if (!made) return made.error();
        return stream_memory(instance, *made, {stream_memory::line_at(device, *made, count), stream});
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Arrays
// ---------------------------------------------------------------------------------------------------------------------

// Width and height in texels; height 0 for 1D, depth 0 for 1D and 2D.
inline ferry_array_desc array_desc(std::int32_t format, std::uint32_t channels, std::uint64_t width,
                                   std::uint64_t height = 0, std::uint64_t depth = 0, array_flags flags = {}) noexcept {
    ferry_array_desc desc = detail::sized<ferry_array_desc>();
    desc.format = format;
    desc.channels = channels;
    desc.flags = flags.bits();
    desc.width = width;
    desc.height = height;
    desc.depth = depth;
    return desc;
}

// ferry_array_create: an array whose destructor waits for the running work of the device, unless set_stream() has named a
// stream.
class array : public detail::owner<CUarray_st *, ferry_array_destroy, array_view, ferry_array_destroy_deferred> {
public:
    using owner::owner;
    static result<array> create(ferry_instance *instance, std::int32_t device, const ferry_array_desc &desc) noexcept {
        CUarray_st *const none = nullptr;
        const auto handle = detail::fetch(none, ferry_array_create, instance, device, &desc);
        auto made = detail::own<array>(instance, handle, array_view());
        if (!made) return made.error();
        const auto view = array_view::of(instance, device, *made);
        if (!view) return view.error();
        made->data_ = *view;
        return made;
    }
    operator CUarray_st *() const &noexcept { return handle_; }
    operator CUarray_st *() const && = delete; // the array would be gone: keep the owner in a variable
    array_view view() const &noexcept {
        array_view view = data_;
        if (!handle_) view.set_error(detail::refusal(FERRY_ERROR_ADDRESS, FERRY_FIELD_ARRAY));
        return view;
    }
    void view() const && = delete; // the array would be gone before the view: keep the owner in a variable
    // A plane of a planar video format. It lives as long as the array.
    result<array_view> plane(std::uint32_t number) const &noexcept {
        CUarray_st *const none = nullptr;
        const auto plane = detail::fetch(none, ferry_array_get_plane, instance_, handle_, number);
        return plane ? array_view::of(instance_, data_.device(), *plane) : plane.error();
    }
    void plane(std::uint32_t) const && = delete; // the array would be gone before the plane
    // ferry_array_destroy_deferred: leaves this empty on success and unchanged on failure.
    status destroy_deferred(stream_view stream) noexcept { return destroy_with(ferry_array_destroy_deferred, stream); }
};

// ferry_mipmapped_array_create: a mipmapped array whose destructor waits for the running work of the device, unless
// set_stream() has named a stream. `levels` 0: the maximum number of levels.
class mipmapped_array : public detail::owner<CUmipmappedArray_st *, ferry_mipmapped_array_destroy, std::int32_t,
                                             ferry_mipmapped_array_destroy_deferred> {
public:
    using owner::owner;
    static result<mipmapped_array> create(ferry_instance *instance, std::int32_t device, const ferry_array_desc &desc,
                                          std::uint32_t levels = 0) noexcept {
        CUmipmappedArray_st *const none = nullptr;
        const auto made = detail::fetch(none, ferry_mipmapped_array_create, instance, device, &desc, levels);
        if (!made) return made.error();
        return detail::own<mipmapped_array>(instance, made, device);
    }
    operator CUmipmappedArray_st *() const &noexcept { return handle_; }
    operator CUmipmappedArray_st *() const && = delete; // the array would be gone: keep the owner in a variable
    // Level 0 is the largest. A level lives as long as the mipmapped array.
    result<array_view> level(std::uint32_t number) const &noexcept {
        CUarray_st *const none = nullptr;
        const auto level = detail::fetch(none, ferry_mipmapped_array_get_level, instance_, handle_, number);
        return level ? array_view::of(instance_, data_, *level) : level.error();
    }
    void level(std::uint32_t) const && = delete; // the array would be gone before the level
    // ferry_mipmapped_array_destroy_deferred: see array::destroy_deferred.
    status destroy_deferred(stream_view stream) noexcept {
        return destroy_with(ferry_mipmapped_array_destroy_deferred, stream);
    }
};

// ferry_array_desc_get_footprint: where the levels of an array are in one buffer. A range of ferry_level_footprint.
class array_footprint {
public:
    static constexpr std::uint32_t max_levels = 33; // sides have 32 bits at most
    // `levels`: the maximum number of levels, as by default, or fewer. struct_size need not be set.
    static result<array_footprint> of(ferry_array_desc desc, std::uint32_t levels = max_levels,
                                      std::uint32_t row_alignment = 1, std::uint32_t level_alignment = 1) noexcept {
        desc.struct_size = sizeof desc;
        array_footprint made;
        const status done =
            detail::call(ferry_array_desc_get_footprint, &desc, levels < max_levels ? levels : max_levels,
                         row_alignment, level_alignment, made.levels_, &made.count_, &made.bytes_);
        return done.ok() ? result<array_footprint>(made) : done;
    }
    std::uint64_t bytes() const noexcept { return bytes_; } // of the buffer
    std::size_t size() const noexcept { return count_; }    // levels
    const ferry_level_footprint &operator[](std::size_t level) const noexcept { return levels_[level]; }
    const ferry_level_footprint *begin() const noexcept { return levels_; }
    const ferry_level_footprint *end() const noexcept { return levels_ + count_; }

private:
    ferry_level_footprint levels_[max_levels] = {};
    std::uint32_t count_ = 0;
    std::uint64_t bytes_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Streams, events and contexts
// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

template <class Call, class... Arguments> result<bool> is_done(Call call, Arguments... arguments) noexcept {
    const auto done = detail::fetch(std::int32_t{0}, call, arguments...);
    if (!done) return done.error();
    return *done != 0;
}

inline std::int32_t pop_context(ferry_instance *instance, bool, ferry_error_info *error) noexcept {
    return ferry_context_pop(instance, nullptr, error);
}

} // namespace detail

// ferry_stream_create: a stream whose destructor waits for nothing. Enqueued work still completes. An empty stream
// converts to NULL, the legacy default stream.
class stream : public detail::owner<CUstream_st *, ferry_stream_destroy> {
public:
    using owner::owner;
    static result<stream> create(ferry_instance *instance, std::int32_t device, stream_flags flags = {},
                                 std::int32_t priority = 0) noexcept {
        CUstream_st *const none = nullptr;
        return detail::own<stream>(instance,
                                   detail::fetch(none, ferry_stream_create, instance, device, flags.bits(), priority));
    }
    operator CUstream_st *() const &noexcept { return handle_; }
    operator CUstream_st *() const && = delete; // the stream would be gone: keep the owner in a variable

    status synchronize() const noexcept { return invoke(ferry_stream_synchronize); }
    result<bool> is_done() const noexcept {
        if (!handle_) return status(FERRY_ERROR_INVALID_ARGUMENT);
        return detail::is_done(ferry_stream_query, instance_, handle_);
    }
    // ferry_stream_notify: calls done(status) on a thread of the driver's once the work enqueued so far has ended. `done`
    // must not throw, nor call ferry or the driver.
    template <class Done> status notify(Done done) const {
        if (!handle_) return status(FERRY_ERROR_INVALID_ARGUMENT);
        auto *const kept = new (std::nothrow) Done(std::move(done));
        if (!kept) return status(FERRY_ERROR_OUT_OF_MEMORY);
        const status enqueued = detail::call(ferry_stream_notify, instance_, handle_, run<Done>, kept);
        if (!enqueued.ok()) delete kept;
        return enqueued;
    }
    // Work enqueued from now on waits for the work before the event's last record.
    status wait(CUevent_st *event) const noexcept { return invoke(ferry_stream_wait_event, event); }

private:
    template <class Done> static void run(void *given, std::int32_t ended) {
        auto *const done = static_cast<Done *>(given);
        (*done)(status(ended));
        delete done;
    }
    // An empty stream is refused: NULL would name the legacy default stream.
    template <class Call, class... Arguments> status invoke(Call call, Arguments... arguments) const noexcept {
        if (!handle_) return status(FERRY_ERROR_INVALID_ARGUMENT);
        return detail::call(call, instance_, handle_, arguments...);
    }
};

namespace detail {

template <auto destroy> class event_owner : public owner<CUevent_st *, destroy> {
public:
    using event_owner::owner::owner;
    operator CUevent_st *() const noexcept { return this->handle_; }

    status record(stream_view stream) const noexcept {
        return detail::call(ferry_event_record, this->instance_, this->handle_, stream);
    }
    status synchronize() const noexcept {
        return detail::call(ferry_event_synchronize, this->instance_, this->handle_);
    }
    result<bool> is_done() const noexcept { return detail::is_done(ferry_event_query, this->instance_, this->handle_); }
};

} // namespace detail

// ferry_event_create: an event whose destructor waits for nothing. Work that waits for the event continues.
class event : public detail::event_owner<ferry_event_destroy> {
public:
    using event_owner::event_owner;
    static result<event> create(ferry_instance *instance, std::int32_t device, event_flags flags = {}) noexcept {
        CUevent_st *const none = nullptr;
        return detail::own<event>(instance, detail::fetch(none, ferry_event_create, instance, device, flags.bits()));
    }
    result<float> elapsed_ms_since(CUevent_st *start) const noexcept {
        return detail::fetch(0.0f, ferry_event_elapsed_time, instance_, start, handle_);
    }
};

// ferry_context_push: a scope in which a context is current on the thread, whose destructor waits for nothing. Scopes must
// end on the thread where they began, in reverse order. They cannot be assigned to: assignment would begin one scope
// before it ended the other.
class context_scope : public detail::owner<bool, detail::pop_context> {
public:
    using owner::owner;
    context_scope() noexcept = default;
    context_scope(context_scope &&) noexcept = default;
    // The context that ferry uses for `device`.
    static result<context_scope> enter(ferry_instance *instance, std::int32_t device) noexcept {
        return enter(instance, device, nullptr);
    }
    static result<context_scope> enter(ferry_instance *instance, CUctx_st *context) noexcept {
        if (!context) return status(FERRY_ERROR_INVALID_ARGUMENT);
        return enter(instance, 0, context);
    }

private:
    static result<context_scope> enter(ferry_instance *instance, std::int32_t device, CUctx_st *context) noexcept {
        const status done = detail::call(ferry_context_push, instance, device, context);
        if (!done.ok()) return done;
        return context_scope(instance, true);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Sharing between processes
//
// A ferry_ipc_handle is 256 plain bytes. Send it to the other process unchanged.
// ---------------------------------------------------------------------------------------------------------------------

// ferry_ipc_export_memory: the memory of a view, from its first byte to its last.
template <class R> result<ferry_ipc_handle> export_memory(ferry_instance *instance, R &&range) noexcept {
    detail::check_export<R>();
    if constexpr (can_export<R>) {
        const auto view = ferry::view_of(range);
        if (!view.error().ok()) return view.error();
        // Size 0 would export the rest of the allocation.
        if (!view.reach()) return detail::refusal(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_WIDTH);
        return detail::fetch(ferry_ipc_handle(), ferry_ipc_export_memory, instance, view.address(), view.reach());
    } else {
        return status();
    }
}

// Identifies a pool to another process. Send both members.
struct exported_pool {
    ferry_ipc_handle handle = {};
    std::int64_t os_handle = -1; // a file descriptor or a HANDLE, closed by the caller; -1 with FERRY_HANDLE_FABRIC
};

// ferry_ipc_export_pool. `handle_type` is one of the types that the pool was created with.
inline result<exported_pool> export_pool(ferry_instance *instance, CUmemPoolHandle_st *pool,
                                         std::uint32_t handle_type) noexcept {
    exported_pool exported;
    const auto os_handle =
        detail::fetch(std::int64_t{-1}, ferry_ipc_export_pool, instance, pool, handle_type, &exported.handle);
    if (!os_handle) return os_handle.error();
    exported.os_handle = *os_handle;
    return exported;
}

// ferry_ipc_export_event. The event must have been created with FERRY_EVENT_INTERPROCESS.
inline result<ferry_ipc_handle> export_event(ferry_instance *instance, CUevent_st *event) noexcept {
    return detail::fetch(ferry_ipc_handle(), ferry_ipc_export_event, instance, event);
}

namespace detail {

inline std::int32_t close_import(ferry_instance *instance, std::uint64_t address, CUstream_st *stream,
                                 ferry_error_info *error) noexcept {
    const std::int32_t status = ferry_ipc_close_memory_deferred(instance, address, stream, error);
    return status == FERRY_SUCCESS ? status : ferry_ipc_close_memory(instance, address, stream, error);
}

} // namespace detail

// ferry_ipc_import_memory: a line of elements in memory of another process, whose destructor waits for nothing. The
// destructor closes the import in the order of `stream` (ferry_ipc_close_memory_deferred). The line's length is the number
// of whole elements exported. `kind` is as for stream_memory.
template <class T, std::int32_t kind = FERRY_KIND_DEVICE>
class imported_memory : public detail::stream_ordered<T, kind, detail::close_import> {
public:
    using imported_memory::stream_ordered::stream_ordered;
    static result<imported_memory> open(ferry_instance *instance, const ferry_ipc_handle &handle,
                                        stream_view stream) noexcept {
        const auto address = detail::fetch(std::uint64_t{0}, ferry_ipc_import_memory, instance, &handle);
        auto opened =
            detail::own<imported_memory>(instance, address, detail::view_and{linear_view<T, kind>(), stream.handle()});
        if (!opened) return opened;
        const auto info = detail::fetch(detail::sized<ferry_ipc_info>(), ferry_ipc_get_info, instance, &handle);
        if (!info) return info.error();
        if ((info->device >= 0) != (kind == FERRY_KIND_DEVICE)) return status(FERRY_ERROR_OTHER_KIND);
        opened->data_ = {imported_memory::line_at(info->device, *address, info->size / sizeof(T)), stream};
        return opened;
    }
};

// ferry_ipc_import_pool: a pool of another process, whose destructor may wait for the running work of the device, unless
// set_stream() has named a stream. The pool must outlive the memory imported through it. It cannot allocate memory.
class imported_pool : public detail::pool_calls<detail::owner<CUmemPoolHandle_st *, ferry_ipc_close_pool,
                                                              detail::pool_location, ferry_ipc_close_pool_deferred>> {
public:
    using pool_calls::pool_calls;
    // ferry_ipc_close_pool_deferred: leaves this empty on success and unchanged on failure.
    status close_deferred(stream_view stream) noexcept { return destroy_with(ferry_ipc_close_pool_deferred, stream); }
    // `os_handle` may be closed immediately.
    static result<imported_pool> open(ferry_instance *instance, const ferry_ipc_handle &handle,
                                      std::int64_t os_handle) noexcept {
        CUmemPoolHandle_st *const none = nullptr;
        const auto found = detail::fetch(none, ferry_ipc_import_pool, instance, &handle, os_handle);
        auto opened = detail::own<imported_pool>(instance, found, detail::pool_location());
        if (!opened) return opened;
        const auto info = opened->info();
        if (!info) return info.error();
        opened->data_ = {info->location, info->index};
        return opened;
    }
    operator CUmemPoolHandle_st *() const &noexcept { return handle_; }
    operator CUmemPoolHandle_st *() const && = delete; // the pool would be gone: keep the owner in a variable
};

// ferry_ipc_import_event: an event of another process, whose destructor waits for nothing. Wait for, query and record the
// event like any other.
class imported_event : public detail::event_owner<ferry_ipc_close_event> {
public:
    using event_owner::event_owner;
    static result<imported_event> open(ferry_instance *instance, const ferry_ipc_handle &handle) noexcept {
        CUevent_st *const none = nullptr;
        return detail::own<imported_event>(instance, detail::fetch(none, ferry_ipc_import_event, instance, &handle));
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Memory and semaphores of graphics APIs. ferry_vulkan.hpp makes them of Vulkan's objects.
// ---------------------------------------------------------------------------------------------------------------------

// ferry_external_memory_import: imported memory whose destructor waits for the running work of the device, unless
// set_stream() has named a stream. On success a file descriptor in `desc` is closed.
class external_memory : public detail::owner<CUextMemory_st *, ferry_external_memory_release, std::int32_t,
                                             ferry_external_memory_release_deferred> {
public:
    using owner::owner;
    // struct_size need not be set.
    static result<external_memory> open(ferry_instance *instance, ferry_external_memory_desc desc) noexcept {
        desc.struct_size = sizeof desc;
        CUextMemory_st *const none = nullptr;
        return detail::own<external_memory>(
            instance, detail::fetch(none, ferry_external_memory_import, instance, &desc), desc.device);
    }
    std::int32_t device() const noexcept { return data_; }

    // ferry_external_memory_get_address: `count` elements from byte `offset` on. What these calls return ends with the
    // memory.
    template <class T> result<device_view<T>> line(std::uint64_t offset, std::uint64_t count) const &noexcept {
        if (!count) return detail::refusal(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_WIDTH);
        const auto address = detail::fetch(std::uint64_t{0}, ferry_external_memory_get_address, instance_, handle_,
                                           offset, detail::multiply(count, sizeof(T)));
        if (!address) return detail::in_elements(address.error(), sizeof(T));
        return device_view<T>(data_, *address, count);
    }
    template <class T> void line(std::uint64_t, std::uint64_t) const && = delete;
    // ferry_external_memory_create_array.
    result<CUmipmappedArray_st *> mipmapped(std::uint64_t offset, const ferry_array_desc &desc,
                                            std::uint32_t levels) const &noexcept {
        CUmipmappedArray_st *const none = nullptr;
        return detail::fetch(none, ferry_external_memory_create_array, instance_, handle_, offset, &desc, levels);
    }
    void mipmapped(std::uint64_t, const ferry_array_desc &, std::uint32_t) const && = delete;
    // Such an array ends with the memory at the latest. These end it alone: ferry_mipmapped_array_destroy, which waits for
    // running work, and ferry_mipmapped_array_destroy_deferred.
    status destroy(CUmipmappedArray_st *of) const noexcept {
        return detail::call(ferry_mipmapped_array_destroy, instance_, of);
    }
    status destroy_deferred(CUmipmappedArray_st *of, stream_view stream) const noexcept {
        return detail::call(ferry_mipmapped_array_destroy_deferred, instance_, of, stream);
    }
    // A level of such an array; level 0 is the largest.
    result<array_view> level(CUmipmappedArray_st *of, std::uint32_t number) const &noexcept {
        CUarray_st *const none = nullptr;
        const auto level = detail::fetch(none, ferry_mipmapped_array_get_level, instance_, of, number);
        return level ? array_view::of(instance_, data_, *level) : level.error();
    }
    void level(CUmipmappedArray_st *, std::uint32_t) const && = delete;
    // An image of one level.
    result<array_view> array(std::uint64_t offset, const ferry_array_desc &desc) const &noexcept {
        const auto whole = mipmapped(offset, desc, 1);
        return whole ? level(*whole, 0) : whole.error();
    }
    void array(std::uint64_t, const ferry_array_desc &) const && = delete;
    // ferry_external_memory_release_deferred: leaves this empty on success and unchanged on failure.
    status release_deferred(stream_view stream) noexcept {
        return destroy_with(ferry_external_memory_release_deferred, stream);
    }
};

// ferry_external_semaphore_import: an imported semaphore whose destructor waits for nothing. Unless set_stream() has named
// a stream, the signals and waits of the semaphore must have completed before.
class external_semaphore : public detail::owner<CUextSemaphore_st *, ferry_external_semaphore_release, detail::no_data,
                                                ferry_external_semaphore_release_deferred> {
public:
    using owner::owner;
    // struct_size need not be set.
    static result<external_semaphore> open(ferry_instance *instance, ferry_external_semaphore_desc desc) noexcept {
        desc.struct_size = sizeof desc;
        CUextSemaphore_st *const none = nullptr;
        return detail::own<external_semaphore>(instance,
                                               detail::fetch(none, ferry_external_semaphore_import, instance, &desc));
    }
    // On `stream`. A binary semaphore has no value.
    status signal(stream_view stream, std::uint64_t value = 0) const noexcept {
        return detail::call(ferry_external_semaphore_signal_async, instance_, handle_, value, stream);
    }
    status wait(stream_view stream, std::uint64_t value = 0, std::uint32_t timeout_ms = UINT32_MAX) const noexcept {
        return detail::call(ferry_external_semaphore_wait_async, instance_, handle_, value, timeout_ms, stream);
    }
    // ferry_external_semaphore_release_deferred: leaves this empty on success and unchanged on failure.
    status release_deferred(stream_view stream) noexcept {
        return destroy_with(ferry_external_semaphore_release_deferred, stream);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Copies, explanations and fills
//
// Both ends of a copy have the same width, height and depth and one element type. If either end is an array, the widths
// must be equal in bytes and the array's element size must be a multiple of the other end's. Extents that differ are
// refused with FERRY_ERROR_OUT_OF_BOUNDS. The error has the destination's extent as its value and the source's as its
// limit. A destination is not const. Nothing is enqueued from or to a temporary that owns its memory. A copy between two mdspans of one rank never transposes: element (i, j)
// becomes element (i, j). The layouts must have the same order of strides, or be the same layout without gaps.
//
// Each call also takes a descriptor, such as describe_copy() and describe_fill() make.
// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline status at_side(const status &error, std::int32_t side) noexcept {
    ferry_error_info info = error.info();
    info.side = side;
    return status(info, error.element_size());
}

inline status check_same(const extent &from, const extent &to) noexcept {
    const struct {
        std::uint64_t from, to;
        std::int32_t field;
    } axes[] = {{from.width, to.width, FERRY_FIELD_WIDTH},
                {from.height, to.height, FERRY_FIELD_HEIGHT},
                {from.depth, to.depth, FERRY_FIELD_DEPTH}};
    for (const auto &axis : axes)
        if (axis.from != axis.to)
            return refusal_with(FERRY_NUMBERS_EQUAL, FERRY_ERROR_OUT_OF_BOUNDS, axis.field, axis.from, axis.to,
                                FERRY_SIDE_DESTINATION);
    return {};
}

// Only the element size of an array is known. It must be a multiple of the other end's element size, so that no element
// straddles two array elements.
template <class From, class To> status check_elements(const From &from, const To &to) noexcept {
    if (std::is_same_v<From, To>) return {};
    const bool to_array = std::is_same_v<To, array_view>;
    const std::uint64_t given = to_array ? from.element_size() : to.element_size(),
                        of_array = to_array ? to.element_size() : from.element_size();
    if (!(to_array || std::is_same_v<From, array_view>) || of_array % given == 0) return {};
    return refusal(FERRY_ERROR_ARRAY_FORMAT, FERRY_FIELD_ARRAY, of_array, given,
                   to_array ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE);
}

// A descriptor counts height 0 and depth 0 as 1, so an empty extent is marked by width 0.
template <class Desc> void set_extent(Desc &desc, const extent &extent) noexcept {
    desc.width = extent.empty() ? 0 : extent.width;
    desc.height = extent.height;
    desc.depth = extent.depth;
}

template <class From, class To> status describe(const From &from, const To &to, ferry_copy_desc &copy) noexcept {
    if (!from.error().ok()) return at_side(from.error(), FERRY_SIDE_SOURCE);
    if (!to.error().ok()) return at_side(to.error(), FERRY_SIDE_DESTINATION);
    copy.source = from.place();
    copy.destination = to.place();
    detail::set_extent(copy, from.byte_extent());
    const status fits = detail::check_elements(from, to);
    return fits.ok() ? detail::check_same(from.byte_extent(), to.byte_extent()) : fits;
}

template <class To>
status describe(const To &to, const typename To::value_type &value, ferry_fill_desc &fill) noexcept {
    if (!to.error().ok()) return at_side(to.error(), FERRY_SIDE_DESTINATION);
    const ferry_place place = to.place();
    ferry_fill_desc_init(&fill, &place, 0, 1, 1, &value, sizeof value);
    detail::set_extent(fill, to.byte_extent());
    return {};
}

// Gives errors the element size of the end that they are about. Errors about both ends count in the smaller elements.
struct element_sizes {
    std::uint64_t source, destination;

    status apply(const status &done) const noexcept {
        return detail::in_elements(done, done.side() == FERRY_SIDE_SOURCE        ? source
                                         : done.side() == FERRY_SIDE_DESTINATION ? destination
                                         : source < destination                  ? source
                                                                                 : destination);
    }
    template <class T> result<T> apply(result<T> made) const noexcept {
        return made.ok() ? std::move(made) : result<T>(apply(made.error()));
    }
};

template <class M, class = void> inline constexpr std::size_t rank_of = 0; // not of an mdspan
template <class M>
inline constexpr std::size_t rank_of<M, std::void_t<mdspan_element<M>>> = static_cast<std::size_t>(M::rank());

// Whether the layouts of two mdspans can be compared.
template <class From, class To, class = void> inline constexpr bool can_compare_layouts = false;
template <class From, class To>
inline constexpr bool
    can_compare_layouts<From, To,
                        std::void_t<decltype(static_cast<bool>(std::declval<const From &>().mapping() ==
                                                               std::declval<const To &>().mapping())),
                                    decltype(std::declval<const From &>().mapping().required_span_size())>> = true;
template <class M> auto line_of_all(const M &span) noexcept {
    const auto count = static_cast<std::uint64_t>(span.mapping().required_span_size());
    return detail::view_elements<M>(span.data_handle(), count);
}

// The axes of a copy between mdspans: rows first if the source permits it, else the smallest stride first.
template <class M> axes axes_of_copy(const M &source) noexcept {
    axes order = rows_first<M>();
    if (!source.is_strided() || view_along(source, order).error().ok()) return order;
    const auto stride_of = [&](std::size_t axis) noexcept {
        return source.extent(axis) > 1 ? static_cast<std::uint64_t>(source.stride(axis)) : max_uint64;
    };
    for (std::size_t end = M::rank(); end > 1; --end)
        for (std::size_t i = 1; i < end; ++i)
            if (stride_of(order.at[i]) < stride_of(order.at[i - 1])) std::swap(order.at[i], order.at[i - 1]);
    return order;
}

template <class Source, class Destination> struct both_views {
    Source source;
    Destination destination;
};

// The views of a copy. Two mdspans of one rank are copied index by index: as one line if both have the same layout
// without gaps, else along the same axes.
template <class From, class To> auto views_of_copy(From &from, To &to) noexcept {
    using views = both_views<view_type<From>, view_type<To>>;
    constexpr std::size_t rank = rank_of<std::remove_const_t<From>>;
    if constexpr (rank == 0 || rank != rank_of<std::remove_const_t<To>>) {
        return views{ferry::view_of(from), ferry::view_of(to)};
    } else {
        if constexpr (can_compare_layouts<From, To>)
            if (from.mapping() == to.mapping() && from.mapping().is_exhaustive() && to.mapping().is_exhaustive())
                return views{detail::line_of_all(from), detail::line_of_all(to)};
        const axes order = detail::axes_of_copy(from);
        return views{detail::view_along(from, order), detail::view_along(to, order)};
    }
}

// For overloads that take a range first: with a descriptor instead, options or a stream would match their next parameter.
template <class T>
using if_range = std::enable_if_t<
    !std::is_same_v<std::decay_t<T>, ferry_copy_desc> && !std::is_same_v<std::decay_t<T>, ferry_fill_desc>, int>;

// Calls `use` with the descriptor of a copy between two ranges.
template <class From, class To, class Use>
auto with_copy(std::remove_reference_t<From> &from, std::remove_reference_t<To> &to, Use use) noexcept
    -> decltype(use(std::declval<const ferry_copy_desc &>())) {
    if constexpr (can_copy<From, To>) {
        const auto views = detail::views_of_copy(from, to);
        const element_sizes sizes = {views.source.element_size(), views.destination.element_size()};
        ferry_copy_desc desc = {};
        const status described = detail::describe(views.source, views.destination, desc);
        if (!described.ok()) return sizes.apply(described);
        return sizes.apply(use(desc));
    } else {
        return status();
    }
}

// The same for a fill.
template <class To, class Use>
auto with_fill(std::remove_reference_t<To> &to, const fill_element<To> &value, Use use) noexcept
    -> decltype(use(std::declval<const ferry_fill_desc &>())) {
    if constexpr (can_fill<To>) {
        const auto destination = ferry::view_of(to);
        const element_sizes sizes = {destination.element_size(), destination.element_size()};
        ferry_fill_desc desc = {};
        const status described = detail::describe(destination, value, desc);
        if (!described.ok()) return sizes.apply(described);
        return sizes.apply(use(desc));
    } else {
        return status();
    }
}

} // namespace detail

// Returns the descriptor of a copy, to keep or to change.
template <class From, class To> result<ferry_copy_desc> describe_copy(From &&from, To &&to) noexcept {
    detail::check_copy_async<From, To>();
    return detail::with_copy<From, To>(
        from, to, [](const ferry_copy_desc &desc) noexcept { return result<ferry_copy_desc>(desc); });
}

// ferry_copy: returns when the copy is complete.
inline status copy(ferry_instance *instance, const ferry_copy_desc &desc, const copy_options &options = {}) noexcept {
    return detail::call(ferry_copy, instance, &desc, options.get());
}
template <class From, class To, detail::if_range<From> = 0>
status copy(ferry_instance *instance, From &&from, To &&to, const copy_options &options = {}) noexcept {
    detail::check_copy<From, To>();
    return detail::with_copy<From, To>(
        from, to, [&](const ferry_copy_desc &desc) noexcept { return ferry::copy(instance, desc, options); });
}

// For calls whose arguments fit no other function. The compiler prints the comment.
template <int = 0>
status copy(detail::any, detail::any, detail::any = 0, detail::any = 0) = delete; // pass (gpu, from, to)
template <int = 0>
status copy_async(detail::any, detail::any, detail::any = 0, detail::any = 0) = delete; // pass (gpu, from, to, stream)
template <int = 0>
status fill(detail::any, detail::any, detail::any = 0, detail::any = 0) = delete; // pass (gpu, to, value)
template <int = 0>
status fill_async(detail::any, detail::any, detail::any = 0, detail::any = 0) = delete; // pass (gpu, to, value, stream)

// ferry_copy_async: ordered on `stream`.
inline status copy_async(ferry_instance *instance, const ferry_copy_desc &desc, stream_view stream,
                         const copy_options &options = {}) noexcept {
    return detail::call(ferry_copy_async, instance, &desc, options.get(), stream, nullptr);
}
template <class From, class To, detail::if_range<From> = 0>
status copy_async(ferry_instance *instance, From &&from, To &&to, stream_view stream,
                  const copy_options &options = {}) noexcept {
    detail::check_copy_async<From, To>();
    return detail::with_copy<From, To>(from, to, [&](const ferry_copy_desc &desc) noexcept {
        return ferry::copy_async(instance, desc, stream, options);
    });
}

namespace detail {

inline std::int32_t release_ticket(ferry_instance *, ferry_ticket *ticket, ferry_error_info *error) noexcept {
    return ferry_ticket_release(ticket, error);
}

} // namespace detail

// The progress of a copy, in a ticket whose destructor waits for nothing. A ticket may be released before the copy is
// complete.
class ticket : public detail::owner<ferry_ticket *, detail::release_ticket> {
public:
    using owner::owner;
    // For the work enqueued on the stream so far.
    static result<ticket> create(ferry_instance *instance, stream_view stream) noexcept {
        ferry_ticket *const none = nullptr;
        return detail::own<ticket>(instance, detail::fetch(none, ferry_ticket_create, instance, stream));
    }
    operator ferry_ticket *() const noexcept { return handle_; }

    result<ferry_ticket_info> info() const noexcept {
        return detail::fetch(detail::sized<ferry_ticket_info>(), ferry_ticket_get_info, handle_);
    }
    // Whether the work has ended. If it failed, the error that ended it.
    result<bool> is_done() const noexcept {
        const auto found = info();
        if (!found) return found.error();
        if (found->status != FERRY_SUCCESS) return status(found->status);
        return found->done != 0;
    }
    // Waits until the work is complete and returns its status: FERRY_ERROR_NOT_READY after `timeout_ns` nanoseconds.
    status wait(std::int64_t timeout_ns = FERRY_NO_TIMEOUT) const noexcept {
        return detail::call(ferry_ticket_wait, handle_, timeout_ns);
    }
    // Makes later work on `stream` wait for the work.
    status wait_async(stream_view stream) const noexcept {
        return detail::call(ferry_ticket_wait_async, handle_, stream);
    }
    // For copies of files: see ferry_file.h.
    status cancel() const noexcept { return detail::call(ferry_ticket_cancel, handle_); }
    status write_status(std::uint64_t address, stream_view stream) const noexcept {
        return detail::call(ferry_ticket_write_status, handle_, address, stream);
    }
};

// ferry_ticket_wait_any: the index of a ticket whose work has ended. `tickets` is a contiguous range of ferry_ticket *, to
// which a ticket converts.
template <class R>
result<std::uint64_t> wait_any(const R &tickets, std::int64_t timeout_ns = FERRY_NO_TIMEOUT) noexcept {
    if constexpr (detail::is_contiguous<const R, ferry_ticket *>) {
        return detail::fetch(std::uint64_t{0}, ferry_ticket_wait_any, std::data(tickets),
                             std::uint64_t{std::size(tickets)}, timeout_ns);
    } else {
        static_assert(detail::is_contiguous<const R, ferry_ticket *>,
                      "the tickets must be a contiguous range of ferry_ticket *, such as a std::vector or a C array");
        return status();
    }
}

namespace detail {

// Calls `function(arguments..., &made, error)` and owns the ticket that it makes.
template <class Function, class... Arguments>
result<ticket> with_ticket(ferry_instance *instance, Function function, Arguments... arguments) noexcept {
    ferry_ticket *const none = nullptr;
    return detail::own<ticket>(instance, detail::fetch(none, function, arguments...));
}

} // namespace detail

// ferry_copy_async: like copy_async(), and returns a ticket. Batches, pieces, fills and prepared batches have such a call.
inline result<ticket> copy_async_ticket(ferry_instance *instance, const ferry_copy_desc &desc, stream_view stream,
                                        const copy_options &options = {}) noexcept {
    return detail::with_ticket(instance, ferry_copy_async, instance, &desc, options.get(), stream);
}
template <class From, class To, detail::if_range<From> = 0>
result<ticket> copy_async_ticket(ferry_instance *instance, From &&from, To &&to, stream_view stream,
                                 const copy_options &options = {}) noexcept {
    detail::check_copy_async<From, To>();
    return detail::with_copy<From, To>(from, to, [&](const ferry_copy_desc &desc) noexcept {
        return ferry::copy_async_ticket(instance, desc, stream, options);
    });
}

namespace detail {

inline std::int32_t close_file(ferry_instance *, ferry_file *file, ferry_error_info *) noexcept {
    ferry_file_close(file);
    return FERRY_SUCCESS;
}

// Calls `use` with the descriptor of a copy between a range and bytes of a file, whose rows are tight.
template <class R, class Use>
auto with_file_copy(std::remove_reference_t<R> &range, ferry_file *file, std::uint64_t offset, bool reads,
                    Use use) noexcept -> decltype(use(std::declval<const ferry_copy_desc &>())) {
    if constexpr (has_view<R>) {
        const auto view = ferry::view_of(range);
        const element_sizes sizes = {reads ? 1 : view.element_size(), reads ? view.element_size() : 1};
        if (!view.error().ok())
            return sizes.apply(at_side(view.error(), reads ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE));
        ferry_copy_desc desc = {};
        ferry_place_file(reads ? &desc.source : &desc.destination, file, offset);
        (reads ? desc.destination : desc.source) = view.place();
        detail::set_extent(desc, view.byte_extent());
        return sizes.apply(use(desc));
    } else {
        return status();
    }
}

template <class To> void check_file_read() noexcept {
    if constexpr (!is_destination<To>) refuse_destination<To>();
}

} // namespace detail

struct pieces;

// Whether transfers of a file bypass the page cache: FERRY_FILE_DIRECT_*.
enum class file_direct : std::int32_t {
    automatic = FERRY_FILE_DIRECT_AUTO,
    never = FERRY_FILE_DIRECT_NEVER,
    always = FERRY_FILE_DIRECT_ALWAYS,
};

// ferry_file_open: an open file, whose destructor waits for the file system. The bytes of the file are copied from and to
// memory and arrays. Copies that use the file continue.
class file : public detail::owner<ferry_file *, detail::close_file> {
public:
    using owner::owner;
    // `max_threads`: of one copy, 0: no limit.
    static result<file> open(ferry_instance *instance, const char *path, file_flags flags = file_flag::read,
                             file_direct direct = file_direct::automatic, std::uint32_t max_threads = 0) noexcept {
        const ferry_file_options options = how(flags, direct, max_threads);
        ferry_file *const none = nullptr;
        return detail::own<file>(instance, detail::fetch(none, ferry_file_open, instance, path, &options));
    }
    // ferry_file_open_descriptor: the caller keeps the descriptor, or the HANDLE on Windows.
    // Without flags, the file has the access of the descriptor.
    static result<file> open_descriptor(ferry_instance *instance, std::int64_t os_handle, file_flags flags = {},
                                        file_direct direct = file_direct::automatic,
                                        std::uint32_t max_threads = 0) noexcept {
        const ferry_file_options options = how(flags, direct, max_threads);
        ferry_file *const none = nullptr;
        return detail::own<file>(instance,
                                 detail::fetch(none, ferry_file_open_descriptor, instance, os_handle, &options));
    }
    static file open(ferry_instance *, const char *, file_flags, int, ...) = delete;            // pass a file_direct
    static file open_descriptor(ferry_instance *, std::int64_t, file_flags, int, ...) = delete; // pass a file_direct

    result<ferry_file_info> info() const noexcept {
        return detail::fetch(detail::sized<ferry_file_info>(), ferry_file_get_info, handle_);
    }
    // For descriptors. Rows and slices that are not tight need the pitches.
    ferry_place at(std::uint64_t offset, std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) const &noexcept {
        ferry_place place;
        ferry_place_file_pitched(&place, handle_, offset, row_pitch, slice_height);
        return place;
    }
    template <class... N> void at(N...) const && = delete; // the file would be closed: keep the owner

    // Fills device memory, host memory or an array with the bytes from `offset` on. Returns when they have arrived.
    template <class To> status read(std::uint64_t offset, To &&to, const copy_options &options = {}) const noexcept {
        detail::check_file_read<To>();
        return detail::with_file_copy<To>(to, handle_, offset, true, [&](const ferry_copy_desc &desc) noexcept {
            return ferry::copy(instance_, desc, options);
        });
    }
    // Writes all bytes of device memory, host memory or an array to the file, from `offset` on. Returns when the system
    // has them.
    template <class From>
    status write(From &&from, std::uint64_t offset, const copy_options &options = {}) const noexcept {
        if constexpr (!detail::has_view<From>) detail::refuse_range<From>();
        return detail::with_file_copy<From>(from, handle_, offset, false, [&](const ferry_copy_desc &desc) noexcept {
            return ferry::copy(instance_, desc, options);
        });
    }
    // The same on a stream. The ticket reports failures of the file.
    template <class To>
    result<ticket> read_async(std::uint64_t offset, To &&to, stream_view stream,
                              const copy_options &options = {}) const noexcept {
        detail::check_file_read<To>();
        return detail::with_file_copy<To>(to, handle_, offset, true, [&](const ferry_copy_desc &desc) noexcept {
            return ferry::copy_async_ticket(instance_, desc, stream, options);
        });
    }
    template <class From>
    result<ticket> write_async(From &&from, std::uint64_t offset, stream_view stream,
                               const copy_options &options = {}) const noexcept {
        detail::check_view<From>();
        return detail::with_file_copy<From>(from, handle_, offset, false, [&](const ferry_copy_desc &desc) noexcept {
            return ferry::copy_async_ticket(instance_, desc, stream, options);
        });
    }

    // ferry_copy_pieces and ferry_copy_pieces_async with a source_file: reads many ranges into device memory, for example
    // all tensors of a model. The source of each piece is an offset in this file: source(offset).
    status read_pieces(const pieces &all, const copy_options &options = {}) const noexcept;
    result<ticket> read_pieces_async(const pieces &all, stream_view stream,
                                     const copy_options &options = {}) const noexcept;

private:
    static ferry_file_options how(file_flags flags, file_direct direct, std::uint32_t max_threads) noexcept {
        ferry_file_options options = detail::sized<ferry_file_options>();
        options.flags = flags.bits();
        options.direct = static_cast<std::int32_t>(direct);
        options.max_threads = max_threads;
        return options;
    }
};

// ferry_copy_explain: reports what copy() would do, without copying.
inline result<ferry_explanation> explain(ferry_instance *instance, const ferry_copy_desc &desc,
                                         const copy_options &options = {}) noexcept {
    ferry_explanation found = detail::sized<ferry_explanation>();
    const status done = detail::call(ferry_copy_explain, instance, &desc, options.get(), &found);
    return done.ok() ? result<ferry_explanation>(found) : done;
}
template <class From, class To, detail::if_range<From> = 0>
result<ferry_explanation> explain(ferry_instance *instance, From &&from, To &&to,
                                  const copy_options &options = {}) noexcept {
    detail::check_copy<From, To>();
    return detail::with_copy<From, To>(
        from, to, [&](const ferry_copy_desc &desc) noexcept { return ferry::explain(instance, desc, options); });
}

// ferry_copy_explain_async: reports what copy_async() would do, without copying.
inline result<ferry_explanation> explain_async(ferry_instance *instance, const ferry_copy_desc &desc,
                                               stream_view stream, const copy_options &options = {}) noexcept {
    ferry_explanation found = detail::sized<ferry_explanation>();
    const status done = detail::call(ferry_copy_explain_async, instance, &desc, options.get(), stream, &found);
    return done.ok() ? result<ferry_explanation>(found) : done;
}
template <class From, class To, detail::if_range<From> = 0>
result<ferry_explanation> explain_async(ferry_instance *instance, From &&from, To &&to, stream_view stream,
                                        const copy_options &options = {}) noexcept {
    detail::check_copy<From, To>();
    return detail::with_copy<From, To>(from, to, [&](const ferry_copy_desc &desc) noexcept {
        return ferry::explain_async(instance, desc, stream, options);
    });
}

inline line line_of(const ferry_explanation &explanation) noexcept {
    line line;
    ferry_explanation_format(&explanation, line.text, sizeof line.text);
    return line;
}
inline line line_of(const ferry_batch_explanation &explanation) noexcept {
    line line;
    ferry_batch_explanation_format(&explanation, line.text, sizeof line.text);
    return line;
}

// Returns the descriptor of a fill that sets every element to `value`.
template <class To> result<ferry_fill_desc> describe_fill(To &&to, const detail::fill_element<To> &value) noexcept {
    detail::check_fill<To>();
    return detail::with_fill<To>(to, value,
                                 [](const ferry_fill_desc &desc) noexcept { return result<ferry_fill_desc>(desc); });
}

// ferry_fill: returns when the fill is complete.
inline status fill(ferry_instance *instance, const ferry_fill_desc &desc, const copy_options &options = {}) noexcept {
    return detail::call(ferry_fill, instance, &desc, options.get());
}
template <class To, detail::if_range<To> = 0>
status fill(ferry_instance *instance, To &&to, const detail::fill_element<To> &value,
            const copy_options &options = {}) noexcept {
    detail::check_fill<To>();
    return detail::with_fill<To>(
        to, value, [&](const ferry_fill_desc &desc) noexcept { return ferry::fill(instance, desc, options); });
}

// ferry_fill_async: ordered on `stream`.
inline status fill_async(ferry_instance *instance, const ferry_fill_desc &desc, stream_view stream,
                         const copy_options &options = {}) noexcept {
    return detail::call(ferry_fill_async, instance, &desc, options.get(), stream, nullptr);
}
template <class To, detail::if_range<To> = 0>
status fill_async(ferry_instance *instance, To &&to, const detail::fill_element<To> &value, stream_view stream,
                  const copy_options &options = {}) noexcept {
    detail::check_fill<To>();
    return detail::with_fill<To>(to, value, [&](const ferry_fill_desc &desc) noexcept {
        return ferry::fill_async(instance, desc, stream, options);
    });
}
inline result<ticket> fill_async_ticket(ferry_instance *instance, const ferry_fill_desc &desc, stream_view stream,
                                        const copy_options &options = {}) noexcept {
    return detail::with_ticket(instance, ferry_fill_async, instance, &desc, options.get(), stream);
}
template <class To, detail::if_range<To> = 0>
result<ticket> fill_async_ticket(ferry_instance *instance, To &&to, const detail::fill_element<To> &value,
                                 stream_view stream, const copy_options &options = {}) noexcept {
    detail::check_fill<To>();
    return detail::with_fill<To>(to, value, [&](const ferry_fill_desc &desc) noexcept {
        return ferry::fill_async_ticket(instance, desc, stream, options);
    });
}

// ferry_fill_explain and ferry_fill_explain_async: report what a fill would do, without filling. Take the descriptor
// that describe_fill() makes.
inline result<ferry_explanation> explain(ferry_instance *instance, const ferry_fill_desc &desc,
                                         const copy_options &options = {}) noexcept {
    ferry_explanation found = detail::sized<ferry_explanation>();
    const status done = detail::call(ferry_fill_explain, instance, &desc, options.get(), &found);
    return done.ok() ? result<ferry_explanation>(found) : done;
}
inline result<ferry_explanation> explain_async(ferry_instance *instance, const ferry_fill_desc &desc,
                                               stream_view stream, const copy_options &options = {}) noexcept {
    ferry_explanation found = detail::sized<ferry_explanation>();
    const status done = detail::call(ferry_fill_explain_async, instance, &desc, options.get(), stream, &found);
    return done.ok() ? result<ferry_explanation>(found) : done;
}

// Nodes of a graph that the new node runs after: a contiguous range of CUgraphNode, or none.
class node_dependencies {
public:
    node_dependencies() noexcept = default;
    template <class Nodes, std::enable_if_t<std::is_convertible_v<decltype(std::data(std::declval<const Nodes &>())),
                                                                  CUgraphNode_st *const *>,
                                            int> = 0>
    node_dependencies(const Nodes &nodes) noexcept : first_(std::data(nodes)), count_(std::size(nodes)) {}
    CUgraphNode_st *const *data() const noexcept { return first_; }
    std::uint64_t size() const noexcept { return count_; }

private:
    CUgraphNode_st *const *first_ = nullptr;
    std::uint64_t count_ = 0;
};

// ferry_graph_add_copy and ferry_graph_add_fill: describe_copy() and describe_fill() make the descriptors.
inline result<CUgraphNode_st *> add_copy_node(ferry_instance *instance, CUgraph_st *graph, const ferry_copy_desc &copy,
                                              node_dependencies after = {}, const copy_options &options = {}) noexcept {
    CUgraphNode_st *const none = nullptr;
    return detail::fetch(none, ferry_graph_add_copy, instance, graph, after.data(), after.size(), &copy, options.get());
}
inline result<CUgraphNode_st *> add_fill_node(ferry_instance *instance, CUgraph_st *graph, const ferry_fill_desc &fill,
                                              node_dependencies after = {}, const copy_options &options = {}) noexcept {
    CUgraphNode_st *const none = nullptr;
    return detail::fetch(none, ferry_graph_add_fill, instance, graph, after.data(), after.size(), &fill, options.get());
}

// ferry_graph_exec_set_copy and ferry_graph_exec_set_fill: from the next launch on, the node does something else.
inline status set_copy_node(ferry_instance *instance, CUgraphExec_st *executable, CUgraphNode_st *node,
                            const ferry_copy_desc &copy, const copy_options &options = {}) noexcept {
    return detail::call(ferry_graph_exec_set_copy, instance, executable, node, &copy, options.get());
}
inline status set_fill_node(ferry_instance *instance, CUgraphExec_st *executable, CUgraphNode_st *node,
                            const ferry_fill_desc &fill, const copy_options &options = {}) noexcept {
    return detail::call(ferry_graph_exec_set_fill, instance, executable, node, &fill, options.get());
}

// ---------------------------------------------------------------------------------------------------------------------
// Batches
//
// Descriptors (see describe_copy()), pieces (see describe_piece()), addresses and sizes are passed in any type that
// std::data() and std::size() accept: a vector, a span, a C array. A call reads them before it returns. When a call
// refuses a copy, info().index of the status is the index of that copy. There is no batch of fills.
// ---------------------------------------------------------------------------------------------------------------------

// ferry_copy_batch.
template <class Copies>
status copy_batch(ferry_instance *instance, const Copies &copies, const copy_options &options = {}) noexcept {
    const auto list = detail::list_of<ferry_copy_desc>(copies);
    return detail::call(ferry_copy_batch, instance, list.first, list.count, options.get());
}

// ferry_copy_batch_async.
template <class Copies>
status copy_batch_async(ferry_instance *instance, const Copies &copies, stream_view stream,
                        const copy_options &options = {}) noexcept {
    const auto list = detail::list_of<ferry_copy_desc>(copies);
    return detail::call(ferry_copy_batch_async, instance, list.first, list.count, options.get(), stream, nullptr);
}

template <class Copies>
result<ticket> copy_batch_async_ticket(ferry_instance *instance, const Copies &copies, stream_view stream,
                                       const copy_options &options = {}) noexcept {
    const auto list = detail::list_of<ferry_copy_desc>(copies);
    return detail::with_ticket(instance, ferry_copy_batch_async, instance, list.first, list.count, options.get(),
                               stream);
}

// ferry_copy_batch_explain_async: reports what copy_batch_async() would do, without copying.
template <class Copies>
result<ferry_batch_explanation> explain_batch_async(ferry_instance *instance, const Copies &copies, stream_view stream,
                                                    const copy_options &options = {}) noexcept {
    ferry_batch_explanation found = detail::sized<ferry_batch_explanation>();
    const auto list = detail::list_of<ferry_copy_desc>(copies);
    const status done =
        detail::call(ferry_copy_batch_explain_async, instance, list.first, list.count, options.get(), stream, &found);
    return done.ok() ? result<ferry_batch_explanation>(found) : done;
}

// The ends of a piece. The types say which end an address is, so a call cannot confuse the ends.
struct source_address {
    std::uint64_t address;
};
struct destination_address {
    std::uint64_t address;
};

// Name an end of a piece: a host pointer, an address of kind ANY, or an offset in a file for file::read_pieces.
constexpr source_address source(std::uint64_t address) noexcept { return {address}; }
inline source_address source(const void *pointer) noexcept { return {reinterpret_cast<std::uintptr_t>(pointer)}; }
constexpr destination_address destination(std::uint64_t address) noexcept { return {address}; }
inline destination_address destination(void *pointer) noexcept { return {reinterpret_cast<std::uintptr_t>(pointer)}; }

// One contiguous copy of linear memory: a ferry_piece. `bytes` is the size.
struct piece : ferry_piece {
    constexpr piece() noexcept : ferry_piece() {}
    constexpr piece(source_address from, destination_address to, std::uint64_t bytes) noexcept
        : ferry_piece{to.address, from.address, bytes} {}
};
static_assert(sizeof(piece) == sizeof(ferry_piece));

namespace detail {

// A piece has neither pitches nor slice heights. A view gives its place the strides that leave gaps or overlap.
inline status check_contiguous(const ferry_place &place, const ferry_copy_desc &copy, std::int32_t side) noexcept {
    if (copy.width && place.row_pitch)
        return refusal_with(FERRY_NUMBERS_EQUAL, FERRY_ERROR_PITCH, FERRY_FIELD_ROW_PITCH, copy.width, place.row_pitch,
                            side);
    if (copy.width && place.slice_height)
        return refusal_with(FERRY_NUMBERS_EQUAL, FERRY_ERROR_PITCH, FERRY_FIELD_SLICE_HEIGHT, copy.height,
                            place.slice_height, side);
    return {};
}

} // namespace detail

// Returns the piece of a copy between two ranges, as describe_copy() returns its descriptor. The rows and slices of both
// ranges must be contiguous. Boxes with gaps are descriptors: describe_copy() and copy_batch().
template <class From, class To> result<piece> describe_piece(From &&from, To &&to) noexcept {
    detail::check_piece<From, To>();
    return detail::with_copy<From, To>(from, to, [](const ferry_copy_desc &copy) noexcept -> result<piece> {
        const status read = detail::check_contiguous(copy.source, copy, FERRY_SIDE_SOURCE);
        if (!read.ok()) return read;
        const status written = detail::check_contiguous(copy.destination, copy, FERRY_SIDE_DESTINATION);
        if (!written.ok()) return written;
        return piece({copy.source.address}, {copy.destination.address},
                     detail::multiply(detail::multiply(copy.width, copy.height), copy.depth));
    });
}

namespace detail {

// Checks that there are as many values as the batch has pieces.
inline status check_count(std::uint64_t count, std::uint64_t size, std::int32_t side) noexcept {
    if (size == count) return {};
    return refusal(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_SIZE, count, size, side);
}

template <class R, class T>
inline constexpr bool outlives_pieces = outlives_call<R> || !is_contiguous<std::remove_reference_t<R>, T>;
template <class R, class T> void check_outlives_pieces() noexcept {
    static_assert(outlives_pieces<R, T>,
                  "these addresses or sizes are a temporary that owns its memory, but the pieces refer to it: pass a "
                  "variable. For a type that does not own the memory, specialise ferry::borrows_memory");
}

// Numbers with a name, in a contiguous range. The struct does not own the range, which must outlive it.
template <class Name> struct named_numbers : list<std::uint64_t> {
    template <class R, if_not<R, named_numbers> = 0>
    explicit named_numbers(R &&numbers) noexcept : list<std::uint64_t>(list_of<std::uint64_t>(numbers)) {
        check_outlives_pieces<R, std::uint64_t>();
    }
};

template <class... R>
inline constexpr bool are_numbers = (is_contiguous<std::remove_reference_t<R>, std::uint64_t> && ...);
template <class R>
inline constexpr bool is_pieces =
    is_contiguous<std::remove_reference_t<R>, ferry_piece> || is_contiguous<std::remove_reference_t<R>, piece>;

// What a field of a program's struct must be, to be an address or a size of a piece: 8 bytes, which are the number.
template <class Field>
inline constexpr bool is_number_of_piece = sizeof(Field) == sizeof(std::uint64_t) &&
                                           (std::is_pointer_v<Field> ||
                                            (std::is_integral_v<Field> && !std::is_same_v<Field, bool>));

template <class Struct, class Field> const std::uint64_t *field_of(const Struct *first, Field Struct::*field) noexcept {
    static_assert(is_number_of_piece<Field>, "addresses and sizes of pieces must be integers or pointers of 8 bytes");
    static_assert(sizeof(Struct) % sizeof(std::uint64_t) == 0, "the size of the struct must be a multiple of 8 bytes");
    return first ? reinterpret_cast<const std::uint64_t *>(&(first->*field)) : nullptr;
}

} // namespace detail

// The addresses or the sizes of pieces. The types say which range is which, so a call cannot confuse them.
using source_list = detail::named_numbers<struct name_of_sources>;
using destination_list = detail::named_numbers<struct name_of_destinations>;
using size_list = detail::named_numbers<struct name_of_sizes>;

// Name the addresses or the sizes of pieces: contiguous ranges of std::uint64_t.
template <class R> source_list sources(R &&addresses) noexcept { return source_list(std::forward<R>(addresses)); }
template <class R> destination_list destinations(R &&addresses) noexcept {
    return destination_list(std::forward<R>(addresses));
}
template <class R> size_list sizes(R &&bytes) noexcept { return size_list(std::forward<R>(bytes)); }

// The pieces of a batch, where the program has them. The struct does not own them: they must outlive it.
//   pieces(list)                                  a vector, span or C array of ferry::piece or ferry_piece
//   pieces(sources(a), destinations(b), sizes(c)) three ranges of std::uint64_t
//   pieces(meshes, &mesh::from, &mesh::to, &mesh::bytes)
//                                                 the program's own structs: the source, the destination and the size
// If the number of sources or destinations differs from the number of sizes, calls refuse the pieces with
// FERRY_FIELD_SIZE.
struct pieces {
    explicit pieces(const ferry_piece_list &all) noexcept : list(all) {}
    pieces(const ferry_piece *first, std::uint64_t number) noexcept : list() {
        ferry_piece_list_set(&list, first, number);
    }
    template <class R, std::enable_if_t<detail::is_pieces<R>, int> = 0> pieces(R &&all) noexcept : list() {
        using element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(all))>>;
        detail::check_outlives_pieces<R, element>();
        const auto whole = detail::list_of<element>(all);
        ferry_piece_list_set(&list, whole.first, whole.count);
    }
    template <class R, detail::if_not<R, ferry_piece_list> = 0,
              std::enable_if_t<!detail::is_pieces<R> && !std::is_base_of_v<pieces, std::decay_t<R>>, int> = 0>
    pieces(R &&) = delete; // not a range of ferry::piece: pass pieces(structs, &S::source, &S::destination, &S::bytes)
    template <class A, class B, class C, std::enable_if_t<detail::are_numbers<A, B, C>, int> = 0>
    pieces(A &&, B &&, C &&) = delete; // name the ranges: pieces(sources(a), destinations(b), sizes(c))
    pieces(const source_list &from, const destination_list &to, const size_list &of) noexcept
        : list(), error(detail::check_count(of.count, to.count, FERRY_SIDE_DESTINATION)) {
        if (error.ok()) error = detail::check_count(of.count, from.count, FERRY_SIDE_SOURCE);
        ferry_piece_list_set_arrays(&list, to.first, from.first, of.first, of.count);
    }
    template <class R, class Struct, class Source, class Destination, class Size>
    pieces(R &&all, Source Struct::*from, Destination Struct::*to, Size Struct::*of) noexcept : list() {
        static_assert(!std::is_pointer_v<Size>, "the third field is the size: an integer, not a pointer");
        static_assert(!std::is_const_v<std::remove_pointer_t<Destination>>,
                      "the second field is the destination, which cannot be a pointer to const");
        detail::check_outlives_pieces<R, Struct>();
        const auto structs = detail::list_of<Struct>(all);
        ferry_piece_list_set_arrays(&list, detail::field_of(structs.first, to), detail::field_of(structs.first, from),
                                    detail::field_of(structs.first, of), structs.count);
        list.stride = sizeof(Struct);
    }
    std::uint64_t count() const noexcept { return list.count; }

    ferry_piece_list list;
    status error; // the reason calls refuse these pieces, or success
};

// ferry_copy_pieces.
inline status copy_pieces(ferry_instance *instance, const pieces &all, const copy_options &options = {}) noexcept {
    if (!all.error.ok()) return all.error;
    return detail::call(ferry_copy_pieces, instance, &all.list, options.get());
}

// ferry_copy_pieces_async.
inline status copy_pieces_async(ferry_instance *instance, const pieces &all, stream_view stream,
                                const copy_options &options = {}) noexcept {
    if (!all.error.ok()) return all.error;
    return detail::call(ferry_copy_pieces_async, instance, &all.list, options.get(), stream, nullptr);
}
inline result<ticket> copy_pieces_async_ticket(ferry_instance *instance, const pieces &all, stream_view stream,
                                               const copy_options &options = {}) noexcept {
    if (!all.error.ok()) return all.error;
    return detail::with_ticket(instance, ferry_copy_pieces_async, instance, &all.list, options.get(), stream);
}

namespace detail {

inline pieces in_file(pieces all, ferry_file *file) noexcept {
    all.list.source_file = file;
    return all;
}

} // namespace detail

inline status file::read_pieces(const pieces &all, const copy_options &options) const noexcept {
    return ferry::copy_pieces(instance_, detail::in_file(all, handle_), options);
}
inline result<ticket> file::read_pieces_async(const pieces &all, stream_view stream,
                                              const copy_options &options) const noexcept {
    return ferry::copy_pieces_async_ticket(instance_, detail::in_file(all, handle_), stream, options);
}

// ferry_copy_pieces_explain_async: reports what copy_pieces_async() would do, without copying.
inline result<ferry_batch_explanation> explain_pieces_async(ferry_instance *instance, const pieces &all,
                                                            stream_view stream,
                                                            const copy_options &options = {}) noexcept {
    if (!all.error.ok()) return all.error;
    ferry_batch_explanation found = detail::sized<ferry_batch_explanation>();
    const status done =
        detail::call(ferry_copy_pieces_explain_async, instance, &all.list, options.get(), stream, &found);
    return done.ok() ? result<ferry_batch_explanation>(found) : done;
}

// The indices of one end of an axis. All are below `limit`.
struct index_list {
    std::uint64_t address = 0;
    std::uint64_t limit = 0;
    std::int32_t type = FERRY_INDEX_NONE;
    std::int32_t memory = FERRY_INDICES_HOST;
};
// Read before the call returns.
inline index_list host_indices(const std::uint32_t *first, std::uint64_t limit) noexcept {
    return {reinterpret_cast<std::uintptr_t>(first), limit, FERRY_INDEX_U32, FERRY_INDICES_HOST};
}
inline index_list host_indices(const std::uint64_t *first, std::uint64_t limit) noexcept {
    return {reinterpret_cast<std::uintptr_t>(first), limit, FERRY_INDEX_U64, FERRY_INDICES_HOST};
}
// Read when the stream reaches the copy. `type` is FERRY_INDEX_U32 or FERRY_INDEX_U64.
inline index_list device_indices(std::uint64_t address, std::uint64_t limit,
                                 std::int32_t type = FERRY_INDEX_U32) noexcept {
    return {address, limit, type, FERRY_INDICES_DEVICE};
}

// One end of an axis. A number is a stride in bytes without indices.
struct axis_end {
    axis_end(std::int64_t bytes, const index_list &list = {}) noexcept : stride(bytes), indices(list) {}

    std::int64_t stride;
    index_list indices;
};

// A copy between two layouts: ferry_nest. The places come from the builders in ferry.h.
class nest {
public:
    nest(const ferry_place &from, const ferry_place &to, std::uint64_t width) noexcept {
        fields_.source.place = from;
        fields_.destination.place = to;
        fields_.width = width;
    }
    // Every call refuses a nest with more than FERRY_NEST_AXES axes.
    nest &add_axis(std::uint64_t count, const axis_end &from, const axis_end &to) noexcept {
        const std::uint32_t number = fields_.axes++;
        if (number >= FERRY_NEST_AXES) return *this;
        fields_.source.axes[number] = axis_of(count, from);
        fields_.destination.axes[number] = axis_of(count, to);
        return *this;
    }
    // ferry_nest.skipped.
    nest &count_skipped_at(std::uint64_t address) noexcept {
        fields_.skipped = address;
        return *this;
    }
    const ferry_nest &get() const noexcept { return fields_; }

private:
    static ferry_axis axis_of(std::uint64_t count, const axis_end &end) noexcept {
        return {count, end.stride, end.indices.address, end.indices.limit, end.indices.type, end.indices.memory, {}};
    }

    ferry_nest fields_ = {};
};

// ferry_copy_nests with one nest.
inline status copy_nest(ferry_instance *instance, const nest &copy, const copy_options &options = {}) noexcept {
    return detail::call(ferry_copy_nests, instance, &copy.get(), std::uint64_t{1}, options.get());
}
// ferry_copy_nests_async with one nest.
inline status copy_nest_async(ferry_instance *instance, const nest &copy, stream_view stream,
                              const copy_options &options = {}) noexcept {
    return detail::call(ferry_copy_nests_async, instance, &copy.get(), std::uint64_t{1}, options.get(), stream,
                        nullptr);
}
inline result<ticket> copy_nest_async_ticket(ferry_instance *instance, const nest &copy, stream_view stream,
                                             const copy_options &options = {}) noexcept {
    return detail::with_ticket(instance, ferry_copy_nests_async, instance, &copy.get(), std::uint64_t{1}, options.get(),
                               stream);
}
// ferry_copy_nest_explain_async: reports what copy_nest_async() would do, without copying.
inline result<ferry_explanation> explain_nest_async(ferry_instance *instance, const nest &copy, stream_view stream,
                                                    const copy_options &options = {}) noexcept {
    return detail::fetch(detail::sized<ferry_explanation>(), ferry_copy_nest_explain_async, instance, &copy.get(),
                         options.get(), stream);
}

namespace detail {

inline ferry_piece copy_to(std::uint64_t address, source_address from, std::uint64_t size) noexcept {
    return {address, from.address, size};
}
inline ferry_copy_desc copy_to(std::uint64_t address, const ferry_place &from, std::uint64_t size) noexcept {
    ferry_copy_desc copy;
    ferry_place to;
    ferry_place_any(&to, address);
    ferry_copy_desc_set(&copy, &to, &from, size, 1, 1);
    return copy;
}

// Calls `use(copies, count)` with one copy for each destination: a piece, or the descriptor of a copy from a place. All
// have the same source and size.
template <class From, class Use>
auto with_broadcast(const From &from, const destination_list &to, std::uint64_t size, Use use) noexcept {
    using copy = decltype(copy_to(0, from, size));
    using returned = decltype(use(std::declval<const copy *>(), to.count));
    const auto count = static_cast<std::size_t>(to.count);
    copy *const all = new (std::nothrow) copy[count];
    if (!all) return returned(status(FERRY_ERROR_OUT_OF_MEMORY));
    for (std::size_t i = 0; i < count; ++i)
        all[i] = copy_to(to.first[i], from, size);
    returned done = use(all, to.count);
    delete[] all;
    return done;
}

} // namespace detail

// `size` bytes from one source to each of the destinations: a batch of pieces, as broadcast(gpu, source(from),
// destinations(to), size). Large ones that go to several devices share the work: docs/devices.md. The addresses are of
// kind ANY.
inline status broadcast(ferry_instance *instance, source_address from, const destination_list &to, std::uint64_t size,
                        const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_piece *all, std::uint64_t count) noexcept {
        return ferry::copy_pieces(instance, pieces(all, count), options);
    });
}
inline status broadcast_async(ferry_instance *instance, source_address from, const destination_list &to,
                              std::uint64_t size, stream_view stream, const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_piece *all, std::uint64_t count) noexcept {
        return ferry::copy_pieces_async(instance, pieces(all, count), stream, options);
    });
}
inline result<ticket> broadcast_async_ticket(ferry_instance *instance, source_address from, const destination_list &to,
                                             std::uint64_t size, stream_view stream,
                                             const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_piece *all, std::uint64_t count) noexcept {
        return ferry::copy_pieces_async_ticket(instance, pieces(all, count), stream, options);
    });
}

// The same from a file, which is read once for all devices: broadcast(gpu, file.at(offset), destinations(to), size). On
// a stream, a copy of a file requires a ticket.
inline status broadcast(ferry_instance *instance, const ferry_place &from, const destination_list &to,
                        std::uint64_t size, const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_copy_desc *all, std::uint64_t count) noexcept {
        return detail::call(ferry_copy_batch, instance, all, count, options.get());
    });
}
inline result<ticket> broadcast_async_ticket(ferry_instance *instance, const ferry_place &from,
                                             const destination_list &to, std::uint64_t size, stream_view stream,
                                             const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_copy_desc *all, std::uint64_t count) noexcept {
        return detail::with_ticket(instance, ferry_copy_batch_async, instance, all, count, options.get(), stream);
    });
}
template <class... Rest>
void broadcast_async(ferry_instance *, const ferry_place &, Rest &&...) = delete; // call broadcast_async_ticket()

// Reports what broadcast_async() and broadcast_async_ticket() would do, without copying.
inline result<ferry_batch_explanation> explain_broadcast_async(ferry_instance *instance, source_address from,
                                                               const destination_list &to, std::uint64_t size,
                                                               stream_view stream,
                                                               const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_piece *all, std::uint64_t count) noexcept {
        return ferry::explain_pieces_async(instance, pieces(all, count), stream, options);
    });
}
inline result<ferry_batch_explanation> explain_broadcast_async(ferry_instance *instance, const ferry_place &from,
                                                               const destination_list &to, std::uint64_t size,
                                                               stream_view stream,
                                                               const copy_options &options = {}) noexcept {
    return detail::with_broadcast(from, to, size, [&](const ferry_copy_desc *all, std::uint64_t count) noexcept {
        return detail::fetch(detail::sized<ferry_batch_explanation>(), ferry_copy_batch_explain_async, instance, all,
                             count, options.get(), stream);
    });
}

namespace detail {

inline std::int32_t destroy_prepared(ferry_instance *, ferry_prepared *prepared, ferry_error_info *error) noexcept {
    return ferry_prepared_destroy(prepared, error);
}
inline std::int32_t destroy_prepared_deferred(ferry_instance *, ferry_prepared *prepared, CUstream_st *stream,
                                              ferry_error_info *error) noexcept {
    return ferry_prepared_destroy_deferred(prepared, stream, error);
}

} // namespace detail

// ferry_prepared_create, ferry_prepared_create_pieces and ferry_prepared_create_nests: a batch whose destructor waits for
// the running work of the device, unless set_stream() has named a stream. The batch is checked and planned once and can be
// launched any number of times. The batch must outlive the graphs it was captured into.
class prepared : public detail::owner<ferry_prepared *, detail::destroy_prepared, std::uint64_t,
                                      detail::destroy_prepared_deferred> {
public:
    // To take ownership of a prepared batch, pass the number of its copies as `data`.
    using owner::owner;
    // ferry_prepared_destroy_deferred: leaves this empty on success and unchanged on failure.
    status destroy_deferred(stream_view stream) noexcept {
        return destroy_with(detail::destroy_prepared_deferred, stream);
    }
    template <class Copies, detail::if_not<const Copies &, pieces> = 0>
    static result<prepared> create(ferry_instance *instance, const Copies &copies, stream_view stream,
                                   const copy_options &options = {}) noexcept {
        ferry_prepared *const none = nullptr;
        const auto list = detail::list_of<ferry_copy_desc>(copies);
        const auto made =
            detail::fetch(none, ferry_prepared_create, instance, list.first, list.count, options.get(), stream);
        return detail::own<prepared>(instance, made, list.count);
    }
    static result<prepared> create(ferry_instance *instance, const pieces &all, stream_view stream,
                                   const copy_options &options = {}) noexcept {
        if (!all.error.ok()) return all.error;
        ferry_prepared *const none = nullptr;
        const auto made = detail::fetch(none, ferry_prepared_create_pieces, instance, &all.list, options.get(), stream);
        return detail::own<prepared>(instance, made, all.count());
    }
    static result<prepared> create(ferry_instance *instance, const nest &copy, stream_view stream,
                                   const copy_options &options = {}) noexcept {
        ferry_prepared *const none = nullptr;
        const auto made = detail::fetch(none, ferry_prepared_create_nests, instance, &copy.get(), std::uint64_t{1},
                                        options.get(), stream);
        return detail::own<prepared>(instance, made, std::uint64_t{1});
    }
    operator ferry_prepared *() const noexcept { return handle_; }
    std::uint64_t count() const noexcept { return data_; } // copies in the batch

    // A launch uses only the tag and no_wait of the options. create() has used all other fields.
    status launch(stream_view stream, const copy_options &options = {}) const noexcept {
        return detail::call(ferry_prepared_launch, handle_, options.get(), stream, nullptr);
    }
    result<ticket> launch_ticket(stream_view stream, const copy_options &options = {}) const noexcept {
        return detail::with_ticket(instance_, ferry_prepared_launch, handle_, options.get(), stream);
    }
    // ferry_prepared_set_addresses: for pieces prepared with copy_flag::updatable, one address per piece. Sizes of
    // `all` are not read. Without sources or destinations, the batch keeps the current ones.
    status set_addresses(const pieces &all, stream_view stream) const noexcept {
        return all.error.ok() ? detail::call(ferry_prepared_set_addresses, handle_, &all.list, stream) : all.error;
    }
    status set_addresses(const source_list &from, const destination_list &to, stream_view stream) const noexcept {
        const status same = detail::check_count(from.count, to.count, FERRY_SIDE_DESTINATION);
        return same.ok() ? set(from.first, to.first, from.count, stream) : same;
    }
    status set_addresses(const source_list &from, stream_view stream) const noexcept {
        return set(from.first, nullptr, from.count, stream);
    }
    status set_addresses(const destination_list &to, stream_view stream) const noexcept {
        return set(nullptr, to.first, to.count, stream);
    }

private:
    status set(const std::uint64_t *from, const std::uint64_t *to, std::uint64_t count,
               stream_view stream) const noexcept {
        ferry_piece_list list;
        ferry_piece_list_set_arrays(&list, to, from, nullptr, count);
        return detail::call(ferry_prepared_set_addresses, handle_, &list, stream);
    }
};

} // namespace v0_7
} // namespace ferry

#endif
