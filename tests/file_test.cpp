// Files as places of copies, and the functions of ferry_file.h.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <thread>

#include "ferry/ferry.hpp"
#include "support/captured_graph.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/sanitizer.h"
#include "support/system.h"
#include "support/temporary_file.h"
#include "support/test_place.h"

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#endif

namespace {

// What one of the next transfers of a file does. The others are made by the system.
struct replaced_transfer {
    std::atomic<int> left = 0; // transfers up to this one; 0: none is replaced
    std::atomic<int> failure = 0;
    std::atomic<bool> is_short = false;   // transfers one byte or, if it is direct, one block; otherwise fails or ends
    std::atomic<bool> was_direct = false; // the replaced transfer
    std::atomic<std::int64_t> bad_byte = -1; // no transfer moves the byte at this offset of a file
    std::atomic<int> calls = 0;
    std::atomic<bool> are_late = false; // all transfers wait until it is false, as on a server that does not answer
    std::atomic<int> waiting = 0;
    std::atomic<long> refused_call = -1; // the number of a system call
    std::atomic<int> refusal = EPERM;    // as a container's filter
    std::atomic<int> hints = 0;
    std::atomic<int> flushes = 0, flush_failure = 0, calls_before_flush = 0;
    std::atomic<bool> is_flush_late = false;
    std::atomic<bool> are_closes_late = false; // by ferry's threads: all wait until it is false
    std::atomic<int> closing = 0;
} replaced;

} // namespace

#if defined(__linux__)
extern "C" ssize_t __real_preadv64(int, const iovec *, int, off64_t);
extern "C" ssize_t __real_pwritev64(int, const iovec *, int, off64_t);
extern "C" int __real_close(int);
extern "C" int __real_fdatasync(int);
extern "C" long __real_syscall(long, ...);
extern "C" int __real_posix_fadvise64(int, off64_t, off64_t, int);

namespace {

template <class Transfer>
ssize_t transfer_or_replace(Transfer transfer, int file, const iovec *parts, int count, off64_t offset) {
    ++replaced.calls;
    ++replaced.waiting;
    replaced.are_late.wait(true);
    --replaced.waiting;
    const std::int64_t bad = replaced.bad_byte - offset;
    if (bad == 0) {
        errno = EIO;
        return -1;
    }
    if (bad > 0 && bad < static_cast<std::int64_t>(parts[0].iov_len)) {
        const iovec until_there = {parts[0].iov_base, static_cast<std::size_t>(bad)};
        return transfer(file, &until_there, 1, offset);
    }
    if (bad > 0) count = std::min(count, 1); // a later call transfers the other parts
    int before = replaced.left;
    while (before > 0 && !replaced.left.compare_exchange_weak(before, before - 1)) {
    }
    if (before != 1) return transfer(file, parts, count, offset);
    const bool is_direct = (fcntl(file, F_GETFL) & O_DIRECT) != 0;
    replaced.was_direct = is_direct;
    const iovec first = {parts[0].iov_base, std::min<std::size_t>(parts[0].iov_len, is_direct ? 4096 : 1)};
    if (replaced.is_short) return transfer(file, &first, 1, offset);
    errno = replaced.failure;
    return replaced.failure ? -1 : 0;
}

} // namespace

extern "C" ssize_t __wrap_preadv64(int file, const iovec *parts, int count, off64_t offset) {
    return transfer_or_replace(__real_preadv64, file, parts, count, offset);
}
extern "C" ssize_t __wrap_pwritev64(int file, const iovec *parts, int count, off64_t offset) {
    return transfer_or_replace(__real_pwritev64, file, parts, count, offset);
}
extern "C" int __wrap_close(int file) {
    if (replaced.are_closes_late && syscall(SYS_gettid) != getpid()) {
        ++replaced.closing;
        replaced.are_closes_late.wait(true);
        --replaced.closing;
    }
    return __real_close(file);
}
extern "C" int __wrap_fdatasync(int file) {
    ++replaced.flushes;
    replaced.calls_before_flush = replaced.calls.load();
    replaced.is_flush_late.wait(true);
    errno = replaced.flush_failure;
    return replaced.flush_failure ? -1 : __real_fdatasync(file);
}
extern "C" int __wrap_posix_fadvise64(int file, off64_t offset, off64_t size, int advice) {
    ++replaced.hints;
    return __real_posix_fadvise64(file, offset, size, advice);
}
extern "C" long __wrap_syscall(long number, ...) {
    long given[6];
    std::va_list list;
    va_start(list, number);
    for (long &one : given)
        one = va_arg(list, long);
    va_end(list);
    if (number == replaced.refused_call) {
        errno = replaced.refusal;
        return -1;
    }
    return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
#endif

namespace ferry::test {
namespace {

struct close_file {
    void operator()(ferry_file *file) const noexcept { ferry_file_close(file); }
};
using file_owner = std::unique_ptr<ferry_file, close_file>;

ferry_place in_file(const file_owner &file, std::uint64_t offset, std::uint64_t row_pitch = 0,
                    std::uint64_t slice_height = 0) {
    ferry_place place;
    ferry_place_file_pitched(&place, file.get(), offset, row_pitch, slice_height);
    return place;
}
ferry_place on_host(bytes &memory) {
    ferry_place place;
    ferry_place_host(&place, memory.data());
    return place;
}
ferry_place on_device(std::uint64_t address, std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) {
    ferry_place place;
    ferry_place_device_pitched(&place, 0, address, row_pitch, slice_height);
    return place;
}

// FERRY_FILE_DIRECT_*, or the flag instead.
constexpr std::uint32_t ways_to_transfer[] = {FERRY_FILE_DIRECT_AUTO, FERRY_FILE_DIRECT_NEVER, FERRY_FILE_DIRECT_ALWAYS,
                                              FERRY_FILE_KEEP_CACHE};

class files : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        if (explain({on_device(1 << 20), in_file(open(temporary_file(bytes(1))), 0), 1, 1, 1, {}}).route == 0)
            GTEST_SKIP() << "this driver has no kernels, so ferry cannot stage";
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }

    file_owner open(const std::string &path, std::uint32_t flags = FERRY_FILE_READ,
                    std::int32_t direct = FERRY_FILE_DIRECT_AUTO) {
        const ferry_file_options options = {sizeof options, flags, direct, 0};
        ferry_error_info error = new_error();
        ferry_file *file = nullptr;
        EXPECT_OK(ferry_file_open(basic.get(), path.c_str(), &options, &file, &error)) << describe(error);
        return file_owner(file);
    }
    file_owner open(const temporary_file &file, std::uint32_t flags = FERRY_FILE_READ,
                    std::int32_t direct = FERRY_FILE_DIRECT_AUTO) {
        return open(file.path(), flags, direct);
    }
    ferry_error_info refuse_open(const char *path, std::int32_t status, std::uint32_t flags = FERRY_FILE_READ,
                                 std::int32_t direct = FERRY_FILE_DIRECT_AUTO) {
        const ferry_file_options options = {sizeof options, flags, direct, 0};
        ferry_error_info error = new_error();
        ferry_file *file = reinterpret_cast<ferry_file *>(1);
        EXPECT_EQ(status, ferry_file_open(basic.get(), path, &options, &file, &error)) << describe(error);
        EXPECT_EQ(nullptr, file);
        return error;
    }
    // For reading and writing. Null if the system has no direct I/O for the file.
    file_owner open_as(const std::string &path, std::uint32_t how) {
        const bool keeps_cache = how == FERRY_FILE_KEEP_CACHE;
        const ferry_file_options options = {sizeof options,
                                            FERRY_FILE_READ | FERRY_FILE_WRITE | (keeps_cache ? how : 0),
                                            keeps_cache ? FERRY_FILE_DIRECT_AUTO : static_cast<std::int32_t>(how), 0};
        ferry_file *file = nullptr;
        ferry_error_info error = new_error();
        const std::int32_t status = ferry_file_open(basic.get(), path.c_str(), &options, &file, &error);
        if (how != FERRY_FILE_DIRECT_ALWAYS && !keeps_cache) {
            EXPECT_OK(status) << describe(error);
        } else if (status != FERRY_SUCCESS) {
            EXPECT_EQ(status, FERRY_ERROR_UNSUPPORTED) << describe(error);
            EXPECT_EQ(error.field, keeps_cache ? FERRY_FIELD_FLAGS : FERRY_FIELD_DIRECT) << describe(error);
        }
        return file_owner(file);
    }
    file_owner open_as(const temporary_file &file, std::uint32_t how) { return open_as(file.path(), how); }
    // With each level of checks in turn.
    void copy(const ferry_copy_desc &copy) {
        ferry_error_info error = new_error();
        ASSERT_OK(ferry_copy((++copies % 2 ? basic : full).get(), &copy, nullptr, &error)) << describe(error);
    }
    ferry_error_info refuse(const ferry_copy_desc &copy, std::int32_t status,
                            const ferry_copy_options *options = nullptr) {
        ferry_error_info error = new_error();
        EXPECT_EQ(status, ferry_copy(basic.get(), &copy, options, &error)) << describe(error);
        ferry_error_info again = new_error();
        ferry_ticket *ticket = nullptr;
        EXPECT_EQ(status, ferry_copy_async(basic.get(), &copy, options, stream, &ticket, &again)) << describe(again);
        EXPECT_EQ(describe(error), describe(again));
        return error;
    }
    ferry_ticket *begin(const ferry_copy_desc &copy) {
        ferry_error_info error = new_error();
        ferry_ticket *ticket = nullptr;
        EXPECT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, &ticket, &error)) << describe(error);
        return ticket;
    }
    bool has_stream_waits() { return raw().cuStreamBatchMemOp; }
    ferry_explanation explain(const ferry_copy_desc &copy) {
        ferry_explanation found = {};
        found.struct_size = sizeof found;
        static_cast<void>(ferry_copy_explain(basic.get(), &copy, nullptr, &found, nullptr));
        return found;
    }

    CUstream stream = nullptr;
    int copies = 0;
};

// ---- Bytes

TEST_F(files, ranges_arrive_at_every_offset_and_size) {
    constexpr std::uint64_t size = 3'000'000;
    const bytes contents = random_bytes(size, 1);
    const temporary_file file(contents);
    const file_owner opened = open(file);
    const device_memory to(size + 64);
    for (const std::uint64_t width : {1ull, 3ull, 4095ull, 4096ull, 65537ull, 524288ull, 2'999'000ull})
        for (const std::uint64_t offset : {0ull, 1ull, 511ull, 1000ull}) {
            const bytes before(width + 2, std::byte{0xee});
            write(to, before);
            copy({on_device(to + 1), in_file(opened, offset), width, 1, 1, {}});
            bytes expected = before;
            std::copy_n(contents.begin() + static_cast<std::ptrdiff_t>(offset), width, expected.begin() + 1);
            ASSERT_EQ(expected, read_back(to, width + 2)) << width << " bytes at " << offset;
        }
}

TEST_F(files, the_last_byte_and_the_whole_file_arrive) {
    const bytes contents = random_bytes(1'000'003, 2);
    const temporary_file file(contents);
    const file_owner opened = open(file);
    const device_memory to(contents.size());
    copy({on_device(to), in_file(opened, contents.size() - 1), 1, 1, 1, {}});
    EXPECT_EQ(contents.back(), read_back(to, 1)[0]);
    copy({on_device(to), in_file(opened, 0), contents.size(), 1, 1, {}});
    EXPECT_EQ(contents, read_back(to, contents.size()));
}

// Random boxes between files and devices or arrays, in both directions, against a copy of the pictures.
TEST_F(files, random_boxes_arrive_in_both_directions) {
    std::minstd_rand random(3);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    std::vector<place_kind> kinds = {place_kind::device, place_kind::array_2d, place_kind::array_3d};
    if (has_stream_waits()) {
        const auto of_host = {place_kind::pageable, place_kind::pinned, place_kind::registered};
        kinds.insert(kinds.end(), of_host.begin(), of_host.end());
    }
    for (int i = 0; i < 300; ++i) {
        const place_kind kind = kinds[up_to(kinds.size() - 1)];
        const std::uint32_t element = is_array(kind) ? 4 : 1;
        grid inside = {.width = (1 + up_to(i % 10 == 0 && !is_array(kind) ? 40'000 : 300)) * element,
                       .height = 1 + up_to(30),
                       .depth = kind == place_kind::array_2d ? 1 : 1 + up_to(5),
                       .element_size = element};
        const grid shape = inside;
        if (!is_array(kind)) {
            inside.row_pitch = inside.width + up_to(50);
            inside.slice_height = inside.height + up_to(2);
        }
        test_place memory(kind, inside);
        memory.fill(static_cast<std::uint64_t>(i));
        const std::uint64_t pitch = shape.width + up_to(100), height = shape.height + up_to(3), lead = up_to(5000);
        bytes contents = random_bytes(lead + pitch * height * (shape.depth + 1), static_cast<unsigned>(i));
        const temporary_file file(contents);
        const file_owner opened = open(file, FERRY_FILE_READ | FERRY_FILE_WRITE);
        const box at = {up_to((shape.width - 1) / element) * element, up_to(shape.height - 1), up_to(shape.depth - 1)};
        const std::uint64_t width = (1 + up_to((shape.width - at.x) / element - 1)) * element,
                            rows = 1 + up_to(shape.height - at.y - 1), slices = 1 + up_to(shape.depth - at.z - 1);
        ferry_place place = in_file(opened, lead, pitch, height);
        place.x = up_to(pitch - width);
        place.y = up_to(height - rows);
        const auto in_contents = [&](std::uint64_t x, std::uint64_t y, std::uint64_t z) -> std::byte & {
            return contents[lead + ((z + place.z) * height + y + place.y) * pitch + x + place.x];
        };
        const bool reads = up_to(1) == 0;
        const ferry_place end = memory.describe(up_to(1) ? statement::any : statement::stated, at);
        const ferry_copy_desc desc = {reads ? end : place, reads ? place : end, width, rows, slices, {}};
        if (up_to(1)) {
            copy(desc);
        } else {
            ferry_ticket *const ticket = begin(desc);
            EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            EXPECT_OK(raw().cuStreamSynchronize(stream));
        }
        for (std::uint64_t z = 0; z < slices; ++z)
            for (std::uint64_t y = 0; y < rows; ++y)
                for (std::uint64_t x = 0; x < width; ++x) {
                    std::byte &inside_byte = memory.picture_at(at.x + x, at.y + y, at.z + z);
                    if (reads)
                        inside_byte = in_contents(x, y, z);
                    else
                        in_contents(x, y, z) = inside_byte;
                }
        ASSERT_EQ(memory.picture(), memory.read()) << i << (reads ? " read" : " written");
        ASSERT_EQ(contents, file.read()) << i << (reads ? " read" : " written");
    }
}

TEST_F(files, copies_without_a_kernel_arrive_in_both_directions) {
    if (!raw().cuStreamBatchMemOp) GTEST_SKIP() << "this driver has no stream memory operations";
    ferry_copy_options options = {};
    options.struct_size = sizeof options;
    options.flags = FERRY_COPY_NO_KERNELS;
    const bytes data = random_bytes(2'000'000, 16);
    const temporary_file file(data), other(bytes(1));
    const file_owner from = open(file), to = open(other, FERRY_FILE_WRITE);
    test_place image(place_kind::array_2d, {.width = 400, .height = 100, .element_size = 4});
    const device_memory memory(data.size());
    ferry_error_info error = new_error();
    for (const bool is_box : {false, true}) {
        const ferry_place end = is_box ? image.describe(statement::stated) : on_device(memory);
        const std::uint64_t width = is_box ? 400 : data.size(), height = is_box ? 100 : 1;
        const ferry_copy_desc read = {end, in_file(from, is_box ? 7 : 0, is_box ? 411 : 0), width, height, 1, {}},
                              write = {in_file(to, 0), end, width, height, 1, {}};
        ASSERT_OK(ferry_copy(basic.get(), &read, &options, &error)) << describe(error);
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_async(basic.get(), &write, &options, stream, &ticket, &error)) << describe(error);
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        bytes expected = data;
        if (is_box)
            for (std::size_t row = 0; row < height; ++row)
                std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(7 + row * 411), width,
                            expected.begin() + static_cast<std::ptrdiff_t>(row * width));
        EXPECT_EQ(expected, other.read());
    }
}

TEST_F(files, ranges_of_any_size_arrive_in_memory_of_the_host_and_leave_it) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    const bytes data = random_bytes(300 << 20, 17); // more than a copy without a kernel can pass through slots
    const temporary_file file(data), other(bytes(1));
    const file_owner from = open(file), to = open(other, FERRY_FILE_WRITE);
    bytes memory(data.size());
    copy({on_host(memory), in_file(from, 0), data.size(), 1, 1, {}});
    EXPECT_TRUE(data == memory);
    ferry_ticket *const written = begin({in_file(to, 0), on_host(memory), data.size(), 1, 1, {}});
    EXPECT_OK(ferry_ticket_wait(written, FERRY_NO_TIMEOUT, nullptr));
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(written, &info, nullptr));
    EXPECT_EQ(info.route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(info.bytes_done, data.size());
    EXPECT_OK(ferry_ticket_release(written, nullptr));
    EXPECT_TRUE(data == other.read());
    const ferry_explanation found = explain({on_host(memory), in_file(from, 0), data.size(), 1, 1, {}});
    EXPECT_EQ(found.route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(found.max_sms, 0u);
    EXPECT_STREQ(found.driver_call, "cuStreamBatchMemOp");
}

TEST_F(files, memory_of_the_host_is_read_and_written_in_the_order_of_the_stream) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    const bytes first = random_bytes(1'000'000, 18), second = random_bytes(1'000'000, 19);
    const temporary_file source(first), destination(bytes(first.size()));
    const file_owner from = open(source), to = open(destination, FERRY_FILE_WRITE);
    const device_memory on(first.size());
    bytes memory(first.size());
    gate before(stream);
    ferry_ticket *const read = begin({on_host(memory), in_file(from, 0), memory.size(), 1, 1, {}});
    // Small enough to be read in the call, if no copy before it wrote the memory.
    constexpr std::size_t little = 1'000;
    const ferry_copy_desc up = {on_device(on), on_host(memory), little, 1, 1, {}};
    ferry_copy_options any = {};
    any.struct_size = sizeof any;
    any.source_order = FERRY_SOURCE_ORDER_ANY;
    ferry_ticket *uploaded = nullptr;
    ASSERT_OK(ferry_copy_async(basic.get(), &up, &any, stream, &uploaded, nullptr));
    ferry_ticket *const written = begin({in_file(to, 0), on_host(memory), memory.size(), 1, 1, {}});
    source.write(second);
    EXPECT_EQ(bytes(first.size()), destination.read());
    EXPECT_EQ(bytes(first.size()), memory);
    before.open();
    for (ferry_ticket *const ticket : {read, uploaded, written}) {
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(second, memory);
    EXPECT_EQ(second, destination.read());
    EXPECT_EQ(bytes(second.begin(), second.begin() + little), read_back(on, little));
}

TEST_F(files, options_for_memory_of_the_host_end_the_copy_in_the_call) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    const bytes data = random_bytes(3'000'000, 20);
    const temporary_file source(data), destination(bytes(1));
    const file_owner from = open(source), to = open(destination, FERRY_FILE_WRITE);
    bytes memory(data.size());
    ferry_copy_options options = {};
    options.struct_size = sizeof options;
    options.flags = FERRY_COPY_DESTINATION_WRITTEN;
    options.source_order = FERRY_SOURCE_ORDER_CALL;
    const ferry_copy_desc both[] = {{on_host(memory), in_file(from, 0), data.size(), 1, 1, {}},
                                    {in_file(to, 0), on_host(memory), data.size(), 1, 1, {}}};
    for (const ferry_copy_desc &one : both) {
        ferry_ticket *ticket = nullptr;
        ferry_error_info error = new_error();
        ASSERT_OK(ferry_copy_async(basic.get(), &one, &options, stream, &ticket, &error)) << describe(error);
        EXPECT_TRUE(data == memory);
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    EXPECT_TRUE(data == destination.read());
    options.flags = FERRY_COPY_NO_WAIT;
    options.source_order = FERRY_SOURCE_ORDER_ANY;
    for (const ferry_copy_desc &one : both) {
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_async(basic.get(), &one, &options, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
}

TEST_F(files, a_file_that_becomes_shorter_fails_a_copy_to_the_host) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    const bytes data = random_bytes(2'000'000, 21);
    const temporary_file file(data);
    const file_owner opened = open(file);
    bytes memory(data.size());
    gate before(stream);
    ferry_ticket *const ticket = begin({on_host(memory), in_file(opened, 0), data.size(), 1, 1, {}});
    file.resize(1'000'000);
    before.open();
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error));
    EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED);
    EXPECT_GE(error.limit, 1'000'000u);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

TEST_F(files, a_written_file_grows) {
    const bytes data = random_bytes(2'000'000, 4);
    const device_memory from(data.size());
    write_for_all_streams(from, data);
    const temporary_file file(bytes(10, std::byte{7}));
    const file_owner opened = open(file, FERRY_FILE_WRITE);
    copy({in_file(opened, 100), on_device(from), data.size(), 1, 1, {}});
    bytes expected(10, std::byte{7});
    expected.resize(100);
    expected.insert(expected.end(), data.begin(), data.end());
    EXPECT_EQ(expected, file.read());
}

TEST_F(files, a_copy_larger_than_the_staging_buffer_arrives) {
    const bytes data = random_bytes(40 << 20, 5);
    const temporary_file file(data), other(bytes(1));
    const file_owner opened = open(file), written = open(other, FERRY_FILE_READ | FERRY_FILE_WRITE);
    const device_memory memory(data.size());
    ferry_ticket *const read = begin({on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}});
    ferry_ticket *const write = begin({in_file(written, 0), on_device(memory), data.size(), 1, 1, {}}); // after it
    EXPECT_OK(ferry_ticket_wait(write, FERRY_NO_TIMEOUT, nullptr));
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(read, &info, nullptr));
    EXPECT_EQ(info.done, 1);
    EXPECT_EQ(info.route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(info.bytes_done, data.size());
    EXPECT_EQ(info.bytes_total, data.size());
    EXPECT_OK(ferry_ticket_release(read, nullptr));
    EXPECT_OK(ferry_ticket_release(write, nullptr));
    EXPECT_EQ(data, other.read());
}

TEST_F(files, a_sparse_file_is_read_and_written_behind_4_GiB) {
    constexpr std::uint64_t far = (std::uint64_t{1} << 32) - 5000;
    const bytes data = random_bytes(10'000, 6);
    const device_memory memory(data.size());
    write_for_all_streams(memory, data);
    const temporary_file file(bytes(1));
    const file_owner opened = open(file, FERRY_FILE_READ | FERRY_FILE_WRITE);
    copy({in_file(opened, far), on_device(memory), data.size(), 1, 1, {}});
    write_for_all_streams(memory, bytes(data.size()));
    copy({on_device(memory), in_file(opened, far), data.size(), 1, 1, {}});
    EXPECT_EQ(data, read_back(memory, data.size()));
    write_for_all_streams(memory, bytes(data.size(), std::byte{1}));
    copy({on_device(memory), in_file(opened, far - 20'000), data.size(), 1, 1, {}});
    EXPECT_EQ(bytes(data.size()), read_back(memory, data.size()));
}

// ---- Pieces

TEST_F(files, pieces_of_a_file_arrive_at_any_offsets) {
    std::minstd_rand random(12);
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    const bytes contents = random_bytes(5'000'000, 12);
    const temporary_file file(contents);
    const file_owner opened = open(file);
    constexpr std::uint64_t room = 9'000'000;
    const device_memory memory(room);
    for (int i = 0; i < 20; ++i) {
        // Neighbours, neighbours only in the file or only in memory, with short and long gaps, and in any order.
        std::vector<ferry_piece> pieces;
        bytes expected = random_bytes(room, static_cast<std::uint64_t>(i));
        write_for_all_streams(memory, expected);
        for (std::uint64_t to = up_to(100), from = up_to(1000); pieces.size() < 2000;) {
            const std::uint64_t size =
                std::array<std::uint64_t, 4>{0, up_to(40), up_to(5000), up_to(100'000)}[up_to(3)];
            if (up_to(20) == 0) from = up_to(contents.size());
            if (to + size > room || from + size > contents.size()) break;
            pieces.push_back({memory + to, from, size});
            std::copy_n(contents.begin() + static_cast<std::ptrdiff_t>(from), size,
                        expected.begin() + static_cast<std::ptrdiff_t>(to));
            to += size + (up_to(2) ? 0 : up_to(200));
            from += size + (up_to(2) ? 0 : up_to(300));
        }
        ferry_piece_list list;
        ferry_piece_list_set(&list, pieces.data(), pieces.size());
        list.source_file = opened.get();
        ferry_error_info error = new_error();
        if (i % 2 == 0) {
            ASSERT_OK(ferry_copy_pieces(basic.get(), &list, nullptr, &error)) << describe(error);
        } else {
            ferry_ticket *ticket = nullptr;
            ASSERT_OK(ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, &error)) << describe(error);
            EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            EXPECT_OK(raw().cuStreamSynchronize(stream));
        }
        ASSERT_EQ(expected, read_back(memory, room)) << i;
    }
}

TEST_F(files, pieces_of_a_file_arrive_in_any_memory_and_without_kernels) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    const bytes contents = random_bytes(300'000, 34);
    const temporary_file file(contents);
    const file_owner opened = open(file);
    const device_memory memory(100'000);
    const pinned_memory pinned(100'000);
    bytes pageable(100'000);
    const auto in = [](const void *address) { return reinterpret_cast<std::uintptr_t>(address); };
    const std::vector<ferry_piece> everywhere = {{memory, 1000, 70'000},
                                                 {in(pinned.data()) + 7, 90'001, 60'000},
                                                 {memory + 70'000, 0, 0},
                                                 {in(pageable.data()) + 3, 5, 90'000},
                                                 {memory + 70'000, 200'000, 30'000}},
                                   on_device = {{memory, 1000, 70'000}, {memory + 70'000, 200'000, 30'000}};
    const auto part = [&](std::ptrdiff_t offset, std::ptrdiff_t size) {
        return bytes(contents.begin() + offset, contents.begin() + offset + size);
    };
    for (const bool has_kernels : {true, false})
        for (const bool waits : {true, false}) {
            const std::vector<ferry_piece> &pieces = has_kernels ? everywhere : on_device;
            ferry_copy_options options = {};
            options.struct_size = sizeof options;
            options.flags = has_kernels ? 0 : FERRY_COPY_NO_KERNELS;
            write_for_all_streams(memory, bytes(100'000));
            std::memset(pinned.data(), 0, 100'000);
            pageable.assign(pageable.size(), std::byte{});
            ferry_piece_list list;
            ferry_piece_list_set(&list, pieces.data(), pieces.size());
            list.source_file = opened.get();
            ferry_error_info error = new_error();
            if (waits) {
                ASSERT_OK(ferry_copy_pieces(basic.get(), &list, &options, &error)) << describe(error);
            } else {
                ferry_ticket *ticket = nullptr;
                ASSERT_OK(ferry_copy_pieces_async(basic.get(), &list, &options, stream, &ticket, &error))
                    << describe(error);
                EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
                EXPECT_OK(ferry_ticket_release(ticket, nullptr));
                EXPECT_OK(raw().cuStreamSynchronize(stream));
            }
            ferry_batch_explanation found = {};
            found.struct_size = sizeof found;
            EXPECT_OK(ferry_copy_pieces_explain_async(basic.get(), &list, &options, stream, &found, &error))
                << describe(error);
            EXPECT_EQ(part(1000, 70'000), read_back(memory, 70'000));
            EXPECT_EQ(part(200'000, 30'000), read_back(memory + 70'000, 30'000));
            if (!has_kernels) continue;
            EXPECT_EQ(0, std::memcmp(static_cast<const std::byte *>(pinned.data()) + 7, &contents[90'001], 60'000));
            EXPECT_EQ(0, std::memcmp(&pageable[3], &contents[5], 90'000));
            EXPECT_EQ(pageable[2], std::byte{});
            EXPECT_EQ(pageable[90'003], std::byte{});
        }
}

TEST_F(files, pieces_of_a_file_name_what_is_wrong) {
    const temporary_file file(bytes(1000));
    const file_owner reads = open(file), writes = open(file, FERRY_FILE_WRITE);
    const device_memory memory(1000);
    ferry_error_info error = new_error();
    const auto refuse = [&](const file_owner &from, ferry_piece second, std::int32_t status, std::int32_t side,
                            std::int32_t field, bool has_index = true) {
        const ferry_piece both[] = {{memory, 0, 10}, second};
        ferry_piece_list list;
        ferry_piece_list_set(&list, both, 2);
        list.source_file = from.get();
        EXPECT_EQ(status, ferry_copy_pieces(basic.get(), &list, nullptr, &error)) << describe(error);
        EXPECT_EQ(error.side, side) << describe(error);
        EXPECT_EQ(error.field, field) << describe(error);
        EXPECT_EQ(error.item, has_index ? FERRY_ITEM_PIECE : FERRY_ITEM_NONE) << describe(error);
        EXPECT_EQ(error.index, has_index ? 1u : 0u) << describe(error);
    };
    refuse(reads, {memory, 991, 10}, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    EXPECT_EQ(error.limit, 1000u);
    refuse(reads, {memory, UINT64_MAX, 2}, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    EXPECT_EQ(error.value, UINT64_MAX) << "the end does not wrap around";
    refuse(reads, {0, 0, 10}, FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    if (has_stream_waits()) { // no memory at all
        refuse(reads, {1 << 12, 0, 10}, FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    }
    refuse(reads, {UINT64_MAX - 3, 0, 10}, FERRY_ERROR_OVERFLOW, FERRY_SIDE_PIECES, FERRY_FIELD_SIZE);
    refuse(writes, {memory, 0, 10}, FERRY_ERROR_HANDLE, FERRY_SIDE_PIECES, FERRY_FIELD_SOURCE_FILE, false);
    EXPECT_EQ(describe(error), "pieces.source_file: the file was not opened with FERRY_FILE_READ (FERRY_ERROR_HANDLE)");

    const ferry_piece one = {memory, 0, 10};
    ferry_piece_list list;
    ferry_piece_list_set(&list, &one, 1);
    list.source_file = reads.get();
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, nullptr, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_TICKET);
    ferry_prepared *prepared = nullptr;
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED,
              ferry_prepared_create_pieces(basic.get(), &list, nullptr, stream, &prepared, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_SOURCE_FILE);
    captured_graph graph(stream);
    ferry_ticket *ticket = nullptr;
    EXPECT_EQ(FERRY_ERROR_CAPTURE, ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_SOURCE_FILE) << describe(error);
    graph.end();
}

TEST_F(files, pieces_of_a_file_that_becomes_shorter_fail_the_ticket) {
    const temporary_file file(bytes(1'000'000));
    const file_owner opened = open(file);
    const device_memory memory(1'000'000);
    const ferry_piece both[] = {{memory, 0, 1000}, {memory + 2000, 500'000, 400'000}};
    ferry_piece_list list;
    ferry_piece_list_set(&list, both, 2);
    list.source_file = opened.get();
    ferry_error_info error = new_error();
    ferry_batch_explanation found = {};
    found.struct_size = sizeof found;
    EXPECT_OK(ferry_copy_pieces_explain_async(basic.get(), &list, nullptr, stream, &found, &error)) << describe(error);
    EXPECT_EQ(found.staged.copies, 2u);
    EXPECT_EQ(found.staged.bytes, 401'000u);
    gate before(stream);
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, &error)) << describe(error);
    file.resize(600'000);
    before.open();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error));
    EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED);
    EXPECT_GE(error.limit, 600'000u);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
}

#if defined(__linux__)
// Runs a batch whose transfers fail at this byte of a file, and expects that the error and the ticket name the copy.
template <class Enqueue, class Run>
void expect_failed_index(std::uint64_t byte, std::int32_t item, std::uint64_t index, const Enqueue &enqueue,
                         const Run &run) {
    SCOPED_TRACE(index);
    replaced.bad_byte = static_cast<std::int64_t>(byte);
    ferry_error_info error = new_error();
    const auto expect_error = [&] {
        EXPECT_EQ(error.status, FERRY_ERROR_FILE) << describe(error);
        EXPECT_EQ(error.limit, byte) << describe(error);
        EXPECT_EQ(error.item, item) << describe(error);
        EXPECT_EQ(error.index, index) << describe(error);
    };
    run(error);
    expect_error();
    ferry_ticket *ticket = nullptr;
    error = new_error();
    ASSERT_OK(enqueue(ticket, error)) << describe(error);
    for (const std::int64_t timeout_ns : {FERRY_NO_TIMEOUT, 0}) {
        error = new_error();
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, timeout_ns, &error));
        expect_error();
    }
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_EQ(info.file_offset, byte);
    EXPECT_EQ(info.file_error, EIO);
    EXPECT_EQ(static_cast<std::uint64_t>(info.file_index), index);
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    replaced.bad_byte = -1;
}

TEST_F(files, a_failed_transfer_names_the_piece) {
    const bytes data = random_bytes(4'000'000, 37);
    const temporary_file file(data);
    const file_owner opened = open(file);
    const device_memory memory(data.size());
    // Neighbours at both ends are one piece for the threads. One call reads the pieces around a short gap.
    const std::vector<ferry_piece> pieces = {
        {memory, 3'000'000, 1000},           {memory + 1000, 3'001'000, 0},      {memory + 1000, 3'001'000, 500},
        {memory + 1500, 3'001'500, 700'000}, {memory + 800'000, 10, 2'000'000},  {memory + 2'800'000, 2'000'010, 200},
        {memory + 2'900'000, 2'000'300, 90}, {memory + 3'000'000, 2'000'390, 0},
    };
    ferry_piece_list list;
    ferry_piece_list_set(&list, pieces.data(), pieces.size());
    list.source_file = opened.get();
    const auto run = [&](ferry_error_info &error) {
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_pieces(basic.get(), &list, nullptr, &error));
    };
    const auto enqueue = [&](ferry_ticket *&ticket, ferry_error_info &error) {
        std::vector<ferry_piece> until_return = pieces;
        ferry_piece_list same = list;
        ferry_piece_list_set(&same, until_return.data(), until_return.size());
        same.source_file = list.source_file;
        const std::int32_t status = ferry_copy_pieces_async(basic.get(), &same, nullptr, stream, &ticket, &error);
        std::fill(until_return.begin(), until_return.end(), ferry_piece{});
        return status;
    };
    for (std::uint64_t i = 0; i < pieces.size(); ++i)
        if (const ferry_piece &piece = pieces[i]; piece.size != 0)
            for (const std::uint64_t byte :
                 {piece.source, piece.source + piece.size / 2, piece.source + piece.size - 1})
                expect_failed_index(byte, FERRY_ITEM_PIECE, i, enqueue, run);
    expect_failed_index(2'000'250, FERRY_ITEM_PIECE, 6, enqueue, run); // in the gap before it
}

TEST_F(files, a_failed_transfer_names_the_piece_that_is_a_copy_of_its_own) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    const temporary_file file(random_bytes(300'000, 39));
    const file_owner opened = open(file);
    const device_memory memory(100'000);
    bytes here(100'000);
    const ferry_piece pieces[] = {{memory, 0, 50'000},
                                  {reinterpret_cast<std::uintptr_t>(here.data()), 100'000, 50'000},
                                  {memory + 50'000, 200'000, 50'000}};
    ferry_piece_list list;
    ferry_piece_list_set(&list, pieces, 3);
    list.source_file = opened.get();
    const auto run = [&](ferry_error_info &error) {
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_pieces(basic.get(), &list, nullptr, &error));
    };
    const auto enqueue = [&](ferry_ticket *&ticket, ferry_error_info &error) {
        return ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, &error);
    };
    for (const std::uint64_t i : {0, 1, 2})
        expect_failed_index(100'000 * i + 7, FERRY_ITEM_PIECE, i, enqueue, run);
}

TEST_F(files, a_failed_transfer_names_the_copy_of_the_batch) {
    const bytes data = random_bytes(2'000'000, 38);
    const temporary_file file(data), written(bytes(1));
    const file_owner from = open(file), to = open(written, FERRY_FILE_WRITE | FERRY_FILE_SYNC);
    const device_memory memory(data.size());
    const std::vector<ferry_copy_desc> copies = {
        {on_device(memory + 1'900'000), on_device(memory + 1'800'000), 1000, 1, 1, {}},
        {on_device(memory), in_file(from, 0), 100'000, 1, 1, {}},
        {on_device(memory), in_file(from, 100'000), 0, 1, 1, {}},
        {on_device(memory + 100'000), in_file(from, 200'000, 3000), 1000, 20, 1, {}},
        {in_file(to, 1'000'000), on_device(memory + 1'700'000), 50'000, 1, 1, {}},
        {on_device(memory + 1'200'000), on_device(memory + 1'210'000), 1000, 1, 1, {}},
        {on_device(memory + 300'000), in_file(from, 500'000), 300'000, 1, 1, {}},
    };
    const auto run = [&](ferry_error_info &error) {
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_batch(basic.get(), copies.data(), copies.size(), nullptr, &error));
    };
    const auto enqueue = [&](ferry_ticket *&ticket, ferry_error_info &error) {
        std::vector<ferry_copy_desc> until_return = copies;
        const std::int32_t status = ferry_copy_batch_async(basic.get(), until_return.data(), until_return.size(),
                                                           nullptr, stream, &ticket, &error);
        std::fill(until_return.begin(), until_return.end(), ferry_copy_desc{});
        return status;
    };
    const std::pair<std::uint64_t, std::uint64_t> failures[] = {
        {99'999, 1}, {200'000, 3}, {257'500, 3}, {1'049'999, 4}, {500'001, 6}};
    for (const auto &[byte, index] : failures)
        expect_failed_index(byte, FERRY_ITEM_COPY, index, enqueue, run);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    replaced.flush_failure = EIO;
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_batch(basic.get(), copies.data(), copies.size(), nullptr, &error));
    replaced.flush_failure = 0;
    EXPECT_EQ(error.index, 4u) << describe(error);
    error = new_error();
    ferry_copy_desc one = copies[1];
    replaced.bad_byte = 5;
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_batch(basic.get(), &one, 1, nullptr, &error));
    EXPECT_EQ(error.item, FERRY_ITEM_COPY) << describe(error);
    EXPECT_EQ(error.index, 0u) << describe(error);
    error = new_error();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy(basic.get(), &one, nullptr, &error));
    EXPECT_EQ(error.item, FERRY_ITEM_NONE) << describe(error);
    replaced.bad_byte = -1;
}

TEST_F(files, a_failed_transfer_names_the_copy_beside_ranges_for_other_devices) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const bytes data = random_bytes(500'000, 39);
    const temporary_file file(data);
    const file_owner opened = open(file);
    std::uint64_t memory[2] = {};
    ferry_place to[2];
    for (int device = 0; device < 2; ++device) {
        ASSERT_OK(ferry_device_alloc(basic.get(), device, data.size(), &memory[device], nullptr));
        ferry_place_device(&to[device], device, memory[device]);
    }
    const std::vector<ferry_copy_desc> copies = {
        {to[0], in_file(opened, 0), 0, 1, 1, {}},
        {to[1], in_file(opened, 0), 100'000, 1, 1, {}},
        {on_device(memory[0]), in_file(opened, 100'000), 50'000, 1, 1, {}},
        {on_device(memory[0] + 50'000), in_file(opened, 200'000), 70'000, 1, 1, {}},
        {to[1], in_file(opened, 300'000), 100'000, 1, 1, {}}};
    const auto run = [&](ferry_error_info &error) {
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_batch(basic.get(), copies.data(), copies.size(), nullptr, &error));
    };
    const auto enqueue = [&](ferry_ticket *&ticket, ferry_error_info &error) {
        return ferry_copy_batch_async(basic.get(), copies.data(), copies.size(), nullptr, stream, &ticket, &error);
    };
    const std::uint64_t starts[] = {0, 0, 100'000, 200'000, 300'000};
    for (const std::uint64_t index : {1, 2, 3, 4})
        expect_failed_index(starts[index] + 10'000, FERRY_ITEM_COPY, index, enqueue, run);
    for (const std::uint64_t address : memory)
        EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
}
#endif

// ---- Order and ends

TEST_F(files, a_file_is_read_and_written_in_the_order_of_the_stream) {
    const bytes first = random_bytes(1'000'000, 7), second = random_bytes(1'000'000, 8);
    const temporary_file source(first), destination(bytes(first.size()));
    const file_owner from = open(source), to = open(destination, FERRY_FILE_WRITE);
    const device_memory memory(first.size());
    gate before(stream);
    ferry_ticket *const read = begin({on_device(memory), in_file(from, 0), first.size(), 1, 1, {}});
    ferry_ticket *const write = begin({in_file(to, 0), on_device(memory), first.size(), 1, 1, {}});
    source.write(second);
    EXPECT_EQ(bytes(first.size()), destination.read());
    EXPECT_EQ(FERRY_ERROR_NOT_READY, ferry_ticket_wait(read, 1'000'000, nullptr));
    before.open();
    EXPECT_OK(ferry_ticket_wait(write, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_EQ(second, destination.read());
    EXPECT_OK(ferry_ticket_release(read, nullptr));
    EXPECT_OK(ferry_ticket_release(write, nullptr));
}

TEST_F(files, a_file_may_be_closed_and_removed_while_a_copy_reads_it) {
    const bytes data = random_bytes(1'000'000, 9);
    const device_memory memory(data.size());
    ferry_ticket *ticket = nullptr;
    gate before(stream);
    {
        const temporary_file file(data);
        ticket = begin({on_device(memory), in_file(open(file), 0), data.size(), 1, 1, {}});
    }
    before.open();
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, read_back(memory, data.size()));
}

// ---- Failures

TEST_F(files, a_file_that_becomes_shorter_fails_the_ticket_and_no_other_copy) {
    const bytes data = random_bytes(20 << 20, 10);
    const temporary_file file(data), intact(data);
    const file_owner opened = open(file), other = open(intact);
    const device_memory memory(data.size()), to(data.size());
    gate before(stream);
    ferry_ticket *const failing = begin({on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}});
    ferry_ticket *const good = begin({on_device(to), in_file(other, 0), data.size(), 1, 1, {}});
    file.resize(5'000'000);
    before.open();
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(failing, FERRY_NO_TIMEOUT, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_FILE);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_SYSTEM);
    EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED);
    EXPECT_GE(error.limit, 5'000'000u);
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(failing, &info, nullptr));
    EXPECT_EQ(info.done, 1);
    EXPECT_EQ(info.status, FERRY_ERROR_FILE);
    EXPECT_EQ(info.file_error, FERRY_FILE_ENDED);
    EXPECT_EQ(info.file_offset, error.limit);
    EXPECT_EQ(error.item, FERRY_ITEM_NONE);
    EXPECT_EQ(info.file_index, 0);
    EXPECT_OK(ferry_ticket_wait(good, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(failing, nullptr));
    EXPECT_OK(ferry_ticket_release(good, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, read_back(to, data.size()));
    file.write(data); // the file itself is as usable as before
    copy({on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}});
    EXPECT_EQ(data, read_back(memory, data.size()));
}

#if defined(__linux__)
// Each transfer of a copy is replaced once. Signals and short transfers are repeated. A direct transfer that the system
// refuses is repeated through the cache. All other failures are reported with their error number, and no byte is
// reported as copied that was not.
TEST_F(files, each_transfer_that_fails_once_is_repeated_or_reported) {
    const bytes data = random_bytes(300'000, 13);
    const temporary_file file(data);
    const device_memory memory(data.size());
    const struct {
        int failure;
        bool is_short, is_repeated, is_repeated_if_direct;
    } rows[] = {{EINTR, false, true, true},   {0, true, true, true},        {EAGAIN, false, false, false},
                {EIO, false, false, false},   {EINVAL, false, false, true}, {ESTALE, false, false, false},
                {EBADF, false, false, false}, {0, false, false, false}};
    for (const std::uint32_t how : std::span(ways_to_transfer).subspan(1)) {
        const file_owner opened = open_as(file, how);
        if (!opened) continue; // the file system has no direct I/O
        for (const bool reads : {true, false}) {
            const ferry_copy_desc desc =
                reads ? ferry_copy_desc{on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}}
                      : ferry_copy_desc{in_file(opened, 0), on_device(memory), data.size(), 1, 1, {}};
            if (!reads) write_for_all_streams(memory, data);
            replaced.calls = 0;
            copy(desc);
            const int calls = replaced.calls;
            ASSERT_GT(calls, 1);
            for (const auto &row : rows)
                for (int at = 1; at <= calls; ++at) {
                    if (reads) write_for_all_streams(memory, bytes(data.size()));
                    replaced.failure = row.failure;
                    replaced.is_short = row.is_short;
                    replaced.left = at;
                    replaced.was_direct = false;
                    ferry_error_info error = new_error();
                    const std::int32_t status = ferry_copy(basic.get(), &desc, nullptr, &error);
                    // Direct transfers depend on the alignment of the slots, so another run may have fewer of them.
                    const bool is_replaced = replaced.left.exchange(0) == 0;
                    EXPECT_TRUE(is_replaced || (at > 1 && how != FERRY_FILE_DIRECT_NEVER)) << at;
                    if (!is_replaced) {
                        ASSERT_OK(status) << describe(error);
                        continue;
                    }
                    const bool is_repeated = how == FERRY_FILE_DIRECT_ALWAYS && replaced.was_direct
                                                 ? row.is_repeated_if_direct
                                                 : row.is_repeated;
                    ASSERT_EQ(status, is_repeated ? FERRY_SUCCESS : FERRY_ERROR_FILE) << describe(error);
                    if (is_repeated) {
                        ASSERT_EQ(data, reads ? read_back(memory, data.size()) : file.read());
                        continue;
                    }
                    const int expected = row.failure ? row.failure : reads ? FERRY_FILE_ENDED : ENOSPC;
                    EXPECT_EQ(static_cast<std::int64_t>(error.value), expected);
                    EXPECT_LT(error.limit, data.size());
                }
        }
        replaced.left = 0;
        copy({on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}});
        EXPECT_EQ(data, read_back(memory, data.size()));
    }
}

// Copies of memory get other threads and slots while all threads at first wait for a file.
TEST_F(files, a_file_that_does_not_answer_delays_no_copy_of_memory) {
    if (streams_share_a_queue()) GTEST_SKIP() << "all streams wait for each other";
    const bytes data = random_bytes(20 << 20, 14), here = random_bytes(20 << 20, 15);
    const temporary_file file(data);
    const file_owner opened = open(file);
    const device_memory memory(data.size()), to(here.size());
    test_stream other;
    replaced.are_late = true;
    ferry_ticket *const late = begin({on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}});
    while (replaced.waiting == 0)
        std::this_thread::yield();
    ferry_copy_options staged = {};
    staged.struct_size = sizeof staged;
    staged.route = FERRY_ROUTE_STAGED;
    for (int i = 0; i < 3; ++i) {
        write(to, bytes(here.size()));
        EXPECT_OK(raw().cuStreamSynchronize(nullptr)); // waits for no other stream
        ferry_ticket *ticket = nullptr;
        EXPECT_OK(ferry_copy_bytes_async(basic.get(), to, reinterpret_cast<std::uintptr_t>(here.data()), here.size(),
                                         &staged, other, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_wait(ticket, 20'000'000'000, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(other));
        EXPECT_EQ(here, read_back(to, here.size()));
    }
    EXPECT_EQ(FERRY_ERROR_NOT_READY, ferry_ticket_wait(late, 0, nullptr));
    replaced.are_late = false;
    replaced.are_late.notify_all();
    EXPECT_OK(ferry_ticket_wait(late, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(late, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, read_back(memory, data.size()));
}

TEST_F(files, a_cancelled_copy_ends_without_the_bytes_that_no_thread_had_begun) {
    const bytes data = random_bytes(20 << 20, 26);
    const temporary_file file(data);
    const file_owner opened = open(file);
    const device_memory memory(data.size());
    ferry_piece piece = {memory, 0, data.size()};
    ferry_piece_list list;
    ferry_piece_list_set(&list, &piece, 1);
    list.source_file = opened.get();
    const ferry_copy_desc copy = {on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}};
    ferry_error_info error = new_error();
    for (const int form : {0, 1, 2}) {
        ferry_ticket *ticket = nullptr;
        replaced.are_late = true;
        const std::int32_t status =
            form == 0   ? ferry_copy_async(basic.get(), &copy, nullptr, stream, &ticket, &error)
            : form == 1 ? ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, &error)
                        : ferry_copy_batch_async(basic.get(), &copy, 1, nullptr, stream, &ticket, &error);
        ASSERT_OK(status) << describe(error);
        while (replaced.waiting == 0)
            std::this_thread::yield();
        EXPECT_OK(ferry_ticket_cancel(ticket, &error)) << describe(error);
        EXPECT_EQ(FERRY_ERROR_NOT_READY, ferry_ticket_wait(ticket, 0, nullptr)); // a transfer is in flight
        const int begun = replaced.calls;
        replaced.are_late = false;
        replaced.are_late.notify_all();
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error));
        EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_CANCELLED);
        EXPECT_NE(describe(error).find("cancelled at byte"), std::string::npos) << describe(error);
        ferry_ticket_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_EQ(info.file_error, FERRY_FILE_CANCELLED);
        EXPECT_GT(info.file_offset, 0u);
        constexpr int max_threads = 16;
        EXPECT_LE(replaced.calls, begun + max_threads); // a thread that had looked may have begun one transfer since
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    // A copy whose bytes have all arrived has not failed.
    ferry_ticket *const complete = begin(copy);
    EXPECT_OK(ferry_ticket_wait(complete, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_cancel(complete, nullptr));
    EXPECT_OK(ferry_ticket_wait(complete, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(complete, nullptr));
    ferry_ticket *other = nullptr;
    ASSERT_OK(ferry_ticket_create(basic.get(), stream, &other, nullptr));
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, ferry_ticket_cancel(other, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_TICKET);
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, ferry_ticket_write_status(other, memory, stream, &error));
    EXPECT_OK(ferry_ticket_release(other, nullptr));
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_ticket_cancel(nullptr, &error));
}
#endif

// A kernel that runs behind a copy can see whether the copy is complete, even if the ticket was released.
TEST_F(files, the_status_of_a_copy_is_written_in_the_order_of_the_stream) {
    const bytes data = random_bytes(3'000'000, 27);
    const temporary_file file(data);
    const file_owner opened = open(file);
    const device_memory memory(data.size()), words(64);
    const ferry_copy_desc copy = {on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}};
    ferry_error_info error = new_error();
    for (const bool fails : {false, true}) {
        write_for_all_streams(words, bytes(64, std::byte{0x55}));
        gate before(stream);
        ferry_ticket *const ticket = begin(copy);
        EXPECT_OK(ferry_ticket_write_status(ticket, words + 8, stream, &error)) << describe(error);
        EXPECT_EQ(FERRY_ERROR_IN_USE, ferry_ticket_write_status(ticket, words + 12, stream, &error));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        if (fails) file.resize(1'000'000);
        before.open();
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        bytes expected(64, std::byte{0x55});
        const std::int32_t status = fails ? FERRY_ERROR_FILE : FERRY_SUCCESS;
        std::memcpy(&expected[8], &status, sizeof status);
        EXPECT_EQ(expected, read_back(words, 64)) << fails;
    }
    // After the end of the copy, on another stream.
    ferry_ticket *const failed = begin({on_device(memory), in_file(opened, 0), 1'000'000, 1, 1, {}});
    EXPECT_OK(ferry_ticket_wait(failed, FERRY_NO_TIMEOUT, nullptr));
    test_stream other;
    for (const CUdeviceptr bad : {CUdeviceptr{0}, words + 2, CUdeviceptr{reinterpret_cast<std::uintptr_t>(&error)}}) {
        EXPECT_EQ(FERRY_ERROR_ADDRESS, ferry_ticket_write_status(failed, bad, other, &error)) << describe(error);
        EXPECT_EQ(error.field, FERRY_FIELD_ADDRESS);
        EXPECT_EQ(error.value, bad);
    }
    EXPECT_OK(ferry_ticket_write_status(failed, words, other, &error)) << describe(error);
    EXPECT_OK(raw().cuStreamSynchronize(other));
    EXPECT_EQ(bytes(4), read_back(words, 4));
    EXPECT_OK(ferry_ticket_release(failed, nullptr));
}

TEST_F(files, the_failure_of_a_released_ticket_is_logged_and_counted) {
    struct line {
        std::string text;
        int count = 0;
    } log;
    ferry_options options = options_under_test();
    options.log = [](void *to, std::int32_t level, const char *message) {
        if (level != FERRY_LOG_ERROR) return;
        static_cast<line *>(to)->text = message;
        ++static_cast<line *>(to)->count;
    };
    options.log_user = &log;
    options.staging = FERRY_STAGING_AT_OPEN; // loading kernels behind the gate would wait for it
    const bytes data(2'000'000);
    const temporary_file file(data);
    const device_memory memory(data.size());
    for (const bool is_seen : {false, true}) {
        log = {};
        file.write(data);
        instance_owner logged = open_or_fail(options);
        ferry_file *opened = nullptr;
        ASSERT_OK(ferry_file_open(logged.get(), file.path().c_str(), nullptr, &opened, nullptr));
        ferry_copy_desc copy = {on_device(memory), {}, data.size(), 1, 1, {}};
        ferry_place_file(&copy.source, opened, 0);
        ferry_ticket *ticket = nullptr;
        {
            gate before(stream);
            ASSERT_OK(ferry_copy_async(logged.get(), &copy, nullptr, stream, &ticket, nullptr));
            ferry_file_close(opened);
            file.resize(1'000);
            if (!is_seen) {
                EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            }
            before.open();
        }
        if (is_seen) {
            EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        ferry_staging_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_staging_get_info(logged.get(), &info, nullptr));
        EXPECT_EQ(info.failed_files, 1u);
        logged.reset();
        EXPECT_EQ(log.count, is_seen ? 0 : 1) << log.text;
        EXPECT_EQ(log.text.find("a copy of a file failed") == 0, !is_seen) << log.text;
    }
}

TEST_F(files, the_log_names_the_copy_of_a_batch_that_failed_after_its_ticket_was_released) {
    std::vector<std::string> log;
    ferry_options options = options_under_test();
    options.log = [](void *to, std::int32_t level, const char *message) {
        if (level == FERRY_LOG_ERROR) static_cast<std::vector<std::string> *>(to)->emplace_back(message);
    };
    options.log_user = &log;
    options.staging = FERRY_STAGING_AT_OPEN; // loading kernels behind the gate would wait for it
    const bytes data(2'000'000);
    const temporary_file file(data);
    const device_memory memory(data.size());
    ferry_copy_options with_tag = {};
    with_tag.struct_size = sizeof with_tag;
    with_tag.tag = 77;
    // Each form reads 100'000 bytes from byte 1'500'000 on, which the file lacks.
    using enqueue_form = std::int32_t(ferry_instance *, ferry_file *, ferry_ticket *&);
    const auto expect_line = [&](const char *in_batch, const std::function<enqueue_form> &enqueue) {
        SCOPED_TRACE(in_batch);
        log.clear();
        file.write(data);
        instance_owner logged = open_or_fail(options);
        ferry_file *opened = nullptr;
        ASSERT_OK(ferry_file_open(logged.get(), file.path().c_str(), nullptr, &opened, nullptr));
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(enqueue(logged.get(), opened, ticket)); // creates what would wait for the gate
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        {
            gate before(stream);
            ASSERT_OK(enqueue(logged.get(), opened, ticket));
            file.resize(1'000'000);
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            before.open();
        }
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        ferry_file_close(opened);
        logged.reset();
        ASSERT_EQ(log.size(), 1u);
        // Several threads read the range, and the first that fails is named.
        const std::string before_byte =
            "a copy of a file failed after its ticket was released: error -1 of the system at byte ";
        ASSERT_EQ(log[0].rfind(before_byte, 0), 0u) << log[0];
        std::size_t digits = 0;
        const unsigned long byte = std::stoul(log[0].substr(before_byte.size()), &digits);
        EXPECT_TRUE(byte >= 1'500'000 && byte < 1'600'000) << log[0];
        EXPECT_EQ(log[0].substr(before_byte.size() + digits), std::string(in_batch) + ", tag 77");
    };
    const auto read = [&](ferry_file *from, std::uint64_t offset) {
        ferry_copy_desc copy = {on_device(memory + offset), {}, 100'000, 1, 1, {}};
        ferry_place_file(&copy.source, from, offset);
        return copy;
    };
    expect_line("", [&](ferry_instance *on, ferry_file *from, ferry_ticket *&ticket) {
        const ferry_copy_desc copy = read(from, 1'500'000);
        return ferry_copy_async(on, &copy, &with_tag, stream, &ticket, nullptr);
    });
    expect_line(", copy 2 of its batch", [&](ferry_instance *on, ferry_file *from, ferry_ticket *&ticket) {
        const ferry_copy_desc copies[] = {read(from, 0),
                                          {on_device(memory + 300'000), on_device(memory + 400'000), 1000, 1, 1, {}},
                                          read(from, 1'500'000)};
        return ferry_copy_batch_async(on, copies, std::size(copies), &with_tag, stream, &ticket, nullptr);
    });
    expect_line(", piece 3 of its batch", [&](ferry_instance *on, ferry_file *from, ferry_ticket *&ticket) {
        const ferry_piece pieces[] = {{memory, 0, 10'000},
                                      {memory + 10'000, 10'000, 10'000},
                                      {memory + 500'000, 500'000, 200'000},
                                      {memory + 1'500'000, 1'500'000, 100'000}};
        ferry_piece_list list;
        ferry_piece_list_set(&list, pieces, std::size(pieces));
        list.source_file = from;
        return ferry_copy_pieces_async(on, &list, &with_tag, stream, &ticket, nullptr);
    });
}

#if defined(__linux__)
// A network file system writes back bytes when a file is closed.
TEST_F(files, a_file_that_is_closed_slowly_delays_no_other_copy) {
    const bytes data = random_bytes(2'000'000, 30);
    const temporary_file file(data);
    const device_memory memory(data.size()), to(data.size());
    ferry_ticket *ticket = nullptr;
    {
        gate before(stream);
        ticket = begin({on_device(memory), in_file(open(file), 0), data.size(), 1, 1, {}});
        replaced.are_closes_late = true;
        before.open();
    }
    EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    while (replaced.closing == 0)
        std::this_thread::yield();
    const file_owner other = open(file);
    for (int i = 0; i < 3; ++i)
        copy({on_device(to), in_file(other, 0), data.size(), 1, 1, {}});
    EXPECT_EQ(replaced.closing, 1);
    replaced.are_closes_late = false;
    replaced.are_closes_late.notify_all();
    EXPECT_EQ(data, read_back(to, data.size()));
}

// A thread closes a file without the lock. If it then finds no work, it must not sleep if the instance was closed in the
// meantime.
TEST_F(files, an_instance_closes_while_a_thread_closes_a_file) {
    const bytes data = random_bytes(200'000, 33);
    const temporary_file file(data);
    const device_memory memory(data.size());
    for (int i = 0; i < 20; ++i) {
        instance_owner instance = open_or_fail(options_under_test());
        ASSERT_OK(ferry_staging_prepare(instance.get(), 0, nullptr));
        ferry_file *opened = nullptr;
        ASSERT_OK(ferry_file_open(instance.get(), file.path().c_str(), nullptr, &opened, nullptr));
        file_owner owner(opened);
        const ferry_copy_desc copy = {on_device(memory), in_file(owner, 0), data.size(), 1, 1, {}};
        ferry_ticket *ticket = nullptr;
        {
            gate before(stream);
            ASSERT_OK(ferry_copy_async(instance.get(), &copy, nullptr, stream, &ticket, nullptr));
            owner.reset();
            replaced.are_closes_late = true;
        }
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        while (replaced.closing == 0)
            std::this_thread::yield();
        std::thread closes([&] { instance.reset(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        replaced.are_closes_late = false;
        replaced.are_closes_late.notify_all();
        closes.join();
    }
}

// A limit on the size of files makes the system refuse a write.
TEST_F(files, a_write_that_the_system_refuses_fails_with_its_error_number) {
    struct rlimit before {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    constexpr std::uint64_t limit = 3'000'000;
    const device_memory memory(8 << 20);
    const temporary_file file(bytes(1));
    const file_owner opened = open(file, FERRY_FILE_WRITE);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit low = {limit, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    const ferry_copy_desc desc = {in_file(opened, 0), on_device(memory), 8 << 20, 1, 1, {}};
    ferry_error_info error = new_error();
    const std::int32_t status = ferry_copy(basic.get(), &desc, nullptr, &error);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    EXPECT_EQ(status, FERRY_ERROR_FILE);
    EXPECT_EQ(error.side, FERRY_SIDE_DESTINATION);
    EXPECT_EQ(error.field, FERRY_FIELD_FILE);
    EXPECT_EQ(error.value, static_cast<std::uint64_t>(EFBIG));
    EXPECT_GE(error.limit, limit);
    EXPECT_EQ(describe(error), "destination.file: File too large (system error 27) at byte " +
                                   std::to_string(error.limit) + " (FERRY_ERROR_FILE)");
    copy(desc);
}

TEST_F(files, a_descriptor_is_duplicated_with_its_access) {
    const bytes data = random_bytes(100'000, 11);
    const int descriptor = memfd_create("ferry", MFD_CLOEXEC);
    ASSERT_EQ(::write(descriptor, data.data(), data.size()), static_cast<ssize_t>(data.size()));
    ferry_file *file = nullptr;
    EXPECT_OK(ferry_file_open_descriptor(basic.get(), descriptor, nullptr, &file, nullptr));
    const file_owner opened(file);
    const device_memory memory(data.size());
    copy({on_device(memory), in_file(opened, 0), data.size(), 1, 1, {}});
    EXPECT_EQ(data, read_back(memory, data.size()));
    EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), static_cast<off_t>(data.size())) << "the position must not move";
    close(descriptor);
    copy({in_file(opened, 50), on_device(memory), 100, 1, 1, {}});
    ferry_file_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_file_get_info(file, &info, nullptr));
    EXPECT_EQ(info.flags, FERRY_FILE_READ | FERRY_FILE_WRITE);
    EXPECT_EQ(info.size, data.size());

    const temporary_file other(data);
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR | O_APPEND}) {
        const int one = ::open(other.path().c_str(), flags | O_CLOEXEC);
        EXPECT_OK(ferry_file_open_descriptor(basic.get(), one, nullptr, &file, nullptr));
        close(one);
        const file_owner owner(file);
        EXPECT_OK(ferry_file_get_info(file, &info, nullptr));
        EXPECT_EQ(info.flags, flags == O_WRONLY ? FERRY_FILE_WRITE : FERRY_FILE_READ);
    }
}

TEST_F(files, only_regular_files_can_be_opened) {
    const std::string pipe = temporary_file(bytes(1)).path() + "-pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    for (const char *path : {"/", "/dev/null", "/dev/zero", pipe.c_str()})
        EXPECT_EQ(refuse_open(path, FERRY_ERROR_HANDLE).field, FERRY_FIELD_PATH) << path;
    unlink(pipe.c_str());
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ferry_error_info error = new_error();
    ferry_file *file = nullptr;
    EXPECT_EQ(FERRY_ERROR_HANDLE, ferry_file_open_descriptor(basic.get(), ends[0], nullptr, &file, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_OS_HANDLE);
    close(ends[0]), close(ends[1]);
    for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{ends[0]}, std::int64_t{1} << 40}) {
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_file_open_descriptor(basic.get(), bad, nullptr, &file, &error));
        EXPECT_EQ(error.field, FERRY_FIELD_OS_HANDLE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(EBADF));
    }
}
#endif

TEST_F(files, a_wrong_file_names_what_is_wrong) {
    const ferry_error_info missing = refuse_open("/nonexistent/ferry", FERRY_ERROR_FILE);
    EXPECT_EQ(missing.field, FERRY_FIELD_PATH);
#if defined(__linux__)
    EXPECT_EQ(describe(missing), "path: No such file or directory (system error 2) (FERRY_ERROR_FILE)");
#endif
    EXPECT_EQ(refuse_open(nullptr, FERRY_ERROR_INVALID_ARGUMENT).field, FERRY_FIELD_PATH);
    EXPECT_EQ(refuse_open("/", FERRY_ERROR_FLAGS, 64).limit, 63u);
    EXPECT_EQ(refuse_open("/", FERRY_ERROR_FLAGS, FERRY_FILE_READ | FERRY_FILE_CREATE).numbers, FERRY_NUMBERS_NEEDS);
}

TEST_F(files, create_and_truncate_do_what_they_say) {
    const temporary_file file(bytes(5, std::byte{3}));
    open(file, FERRY_FILE_WRITE | FERRY_FILE_CREATE);
    EXPECT_EQ(file.read().size(), 5u);
    open(file, FERRY_FILE_WRITE | FERRY_FILE_TRUNCATE);
    EXPECT_EQ(file.read().size(), 0u);
    const std::string path = file.path() + "-new";
    open(path, FERRY_FILE_READ | FERRY_FILE_WRITE | FERRY_FILE_CREATE);
    EXPECT_TRUE(std::filesystem::remove(std::u8string(path.begin(), path.end())));
}

TEST_F(files, a_copy_that_a_file_cannot_serve_is_refused_with_its_field) {
    const bytes data(10'000);
    const temporary_file file(data);
    const file_owner reads = open(file), writes = open(file, FERRY_FILE_WRITE);
    const device_memory memory(data.size());
    bytes here(data.size());
    ferry_place host;
    ferry_place_host(&host, here.data());
    const auto expect = [&](const ferry_copy_desc &copy, std::int32_t status, std::int32_t side, std::int32_t field) {
        const ferry_error_info error = refuse(copy, status);
        EXPECT_EQ(error.side, side) << describe(error);
        EXPECT_EQ(error.field, field) << describe(error);
        return error;
    };
    const ferry_error_info past = expect({on_device(memory), in_file(reads, 9'000), 1'001, 1, 1, {}},
                                         FERRY_ERROR_OUT_OF_BOUNDS, FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    EXPECT_EQ(past.value, 10'001u);
    EXPECT_EQ(past.limit, 10'000u);
    expect({on_device(memory), in_file(reads, 0, 1'000), 1'000, 11, 1, {}}, FERRY_ERROR_OUT_OF_BOUNDS,
           FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    const ferry_error_info unread = expect({on_device(memory), in_file(writes, 0), 10, 1, 1, {}}, FERRY_ERROR_HANDLE,
                                           FERRY_SIDE_SOURCE, FERRY_FIELD_FILE);
    EXPECT_EQ(describe(unread), "source.file: the file was not opened with FERRY_FILE_READ (FERRY_ERROR_HANDLE)");
    const ferry_error_info unwritten = expect({in_file(reads, 0), on_device(memory), 10, 1, 1, {}}, FERRY_ERROR_HANDLE,
                                              FERRY_SIDE_DESTINATION, FERRY_FIELD_FILE);
    EXPECT_EQ(describe(unwritten),
              "destination.file: the file was not opened with FERRY_FILE_WRITE (FERRY_ERROR_HANDLE)");
    EXPECT_EQ(unwritten.numbers, FERRY_NUMBERS_OPENED);
    EXPECT_EQ(unwritten.value, FERRY_FILE_READ);
    EXPECT_EQ(unwritten.limit, FERRY_FILE_WRITE);
    expect({in_file(writes, INT64_MAX - 5), on_device(memory), 10, 1, 1, {}}, FERRY_ERROR_OUT_OF_BOUNDS,
           FERRY_SIDE_DESTINATION, FERRY_FIELD_OFFSET);
    expect({in_file(writes, 0), in_file(reads, 0), 10, 1, 1, {}}, FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESTINATION,
           FERRY_FIELD_KIND);
    ferry_place nowhere = host;
    nowhere.address = 4096;
    expect({nowhere, in_file(reads, 0), 10, 1, 1, {}}, FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION,
           FERRY_FIELD_ADDRESS);
    expect({in_file(writes, 0), nowhere, 10, 1, 1, {}}, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS);
    expect({on_device(memory), in_file(nullptr, 0), 10, 1, 1, {}}, FERRY_ERROR_ADDRESS, FERRY_SIDE_SOURCE,
           FERRY_FIELD_FILE);
    ferry_place marked = host;
    marked.file = reads.get();
    expect({on_device(memory), marked, 10, 1, 1, {}}, FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE, FERRY_FIELD_FILE);
    for (const std::int32_t route : {FERRY_ROUTE_DRIVER, FERRY_ROUTE_KERNEL, FERRY_ROUTE_RELAYED}) {
        ferry_copy_options options = {};
        options.struct_size = sizeof options;
        options.route = route;
        EXPECT_EQ(refuse({on_device(memory), in_file(reads, 0), 10, 1, 1, {}}, FERRY_ERROR_ROUTE, &options).value,
                  static_cast<std::uint64_t>(route == FERRY_ROUTE_RELAYED ? FERRY_OBSTACLE_NOT_BETWEEN_DEVICES
                                                                          : FERRY_OBSTACLE_FILE));
    }
}

TEST_F(files, an_asynchronous_copy_requires_a_ticket) {
    const temporary_file file(bytes(100));
    const file_owner opened = open(file);
    const device_memory memory(100);
    const ferry_copy_desc desc = {on_device(memory), in_file(opened, 0), 100, 1, 1, {}};
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy_async(basic.get(), &desc, nullptr, stream, nullptr, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_TICKET);
}

TEST_F(files, a_batch_copies_files_beside_memory_with_one_ticket) {
    const bytes data = random_bytes(1'000'000, 22);
    const temporary_file shards(data), other(data), written(bytes(1));
    const file_owner from = open(shards), second = open(other), to = open(written, FERRY_FILE_WRITE);
    test_place image(place_kind::array_2d, {.width = 1600, .height = 50, .element_size = 4});
    const device_memory memory(data.size()), copied(1000);
    bytes here(5'000);
    std::vector<ferry_copy_desc> copies = {
        {on_device(memory), in_file(from, 100), 300'000, 1, 1, {}},
        {on_device(memory + 300'000), in_file(second, 7, 1000), 500, 200, 1, {}},
        {image.describe(statement::stated), in_file(from, 11, 1601), 1600, 50, 1, {}},
        {on_device(copied), on_device(memory + 900'000), 1000, 1, 1, {}},
        {on_device(memory), in_file(from, 0), 0, 1, 1, {}}, // empty
    };
    if (has_stream_waits()) copies.push_back({on_host(here), in_file(second, 300), here.size(), 1, 1, {}});
    std::uint64_t total = 0;
    for (const ferry_copy_desc &copy : copies)
        total += copy.width * copy.height;
    const bytes marked = random_bytes(1000, 23);
    const auto check = [&] {
        EXPECT_EQ(bytes(data.begin() + 100, data.begin() + 300'100), read_back(memory, 300'000));
        const bytes rows = read_back(memory + 300'000, 100'000);
        for (std::ptrdiff_t row = 0; row < 200; ++row)
            ASSERT_TRUE(
                std::equal(rows.begin() + row * 500, rows.begin() + (row + 1) * 500, data.begin() + 7 + row * 1000))
                << row;
        const bytes picture = image.read();
        for (std::ptrdiff_t row = 0; row < 50; ++row)
            ASSERT_TRUE(std::equal(picture.begin() + row * 1600, picture.begin() + (row + 1) * 1600,
                                   data.begin() + 11 + row * 1601))
                << row;
        EXPECT_EQ(marked, read_back(copied, 1000));
        if (has_stream_waits()) {
            EXPECT_TRUE(std::equal(here.begin(), here.end(), data.begin() + 300));
        }
    };
    const auto clear = [&] {
        write_for_all_streams(memory, bytes(data.size()));
        write_for_all_streams(memory + 900'000, marked);
        write_for_all_streams(copied, bytes(1000));
        image.fill(5);
        here.assign(here.size(), std::byte{});
    };
    for (const bool checks : {false, true}) {
        ferry_copy_options options = {};
        options.struct_size = sizeof options;
        options.flags = checks ? FERRY_COPY_CHECK_OVERLAP : 0;
        ferry_error_info error = new_error();
        clear();
        ASSERT_OK(ferry_copy_batch((checks ? full : basic).get(), copies.data(), copies.size(), &options, &error))
            << describe(error);
        check();
        clear();
        gate before(stream);
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_batch_async(basic.get(), copies.data(), copies.size(), &options, stream, &ticket, &error))
            << describe(error);
        EXPECT_EQ(FERRY_ERROR_NOT_READY, ferry_ticket_wait(ticket, 1'000'000, nullptr));
        before.open();
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        ferry_ticket_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
        EXPECT_EQ(info.done, 1);
        EXPECT_EQ(info.bytes_done, total);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        check();
    }
    ferry_batch_explanation found = {};
    found.struct_size = sizeof found;
    ASSERT_OK(
        ferry_copy_batch_explain_async(basic.get(), copies.data(), copies.size(), nullptr, stream, &found, nullptr));
    EXPECT_EQ(found.singles.copies + found.batch_calls.copies, copies.size() - 1);
}

// No kernel reaches these arrays. Copies without a kernel hold slots until their stream has run them.
TEST_F(files, any_number_of_copies_of_sampled_arrays_waits_for_a_stream) {
    const bytes data = random_bytes(400'000, 31);
    const temporary_file file(data), other(bytes(1));
    const file_owner from = open(file), to = open(other, FERRY_FILE_WRITE);
    constexpr std::size_t count = 40, size = 400 * 25;
    std::vector<std::unique_ptr<test_place>> images;
    std::vector<ferry_ticket *> tickets;
    for (std::size_t i = 0; i < count; ++i)
        images.push_back(
            std::make_unique<test_place>(place_kind::array_2d, grid{.width = 400, .height = 25, .element_size = 4}));
    const auto copy = [&](const ferry_place &destination, const ferry_place &source) {
        const ferry_copy_desc desc = {destination, source, 400, 25, 1, {}};
        ferry_error_info error = new_error();
        tickets.emplace_back();
        ASSERT_OK(ferry_copy_async(basic.get(), &desc, nullptr, stream, &tickets.back(), &error)) << describe(error);
    };
    gate before(stream);
    for (std::size_t i = 0; i < count; ++i)
        copy(images[i]->describe(statement::stated), in_file(from, i * size, 400));
    const test_stream idle;
    test_place image(place_kind::array_2d, {.width = 400, .height = 25, .element_size = 4});
    const ferry_copy_desc meanwhile = {image.describe(statement::stated), in_file(from, 3, 400), 400, 25, 1, {}};
    ferry_error_info error = new_error();
    EXPECT_OK(ferry_copy(basic.get(), &meanwhile, nullptr, &error)) << describe(error);
    EXPECT_EQ(bytes(data.begin() + 3, data.begin() + 3 + size), image.read());
    for (std::size_t i = 0; i < count; ++i)
        copy(in_file(to, i * size, 400), images[i]->describe(statement::stated));
    before.open();
    for (ferry_ticket *ticket : tickets) {
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error)) << describe(error);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    EXPECT_EQ(data, other.read());
}

// Larger than all slots that a copy without a kernel may use.
TEST_F(files, an_array_of_any_size_is_copied_without_a_surface) {
    ferry_options options = options_under_test();
    options.staging_bytes = 65536;
    const instance_owner small = open_or_fail(options);
    const bytes data = random_bytes(9'000'000, 32);
    const temporary_file file(data), other(bytes(1));
    ferry_file *from = nullptr, *to = nullptr;
    const ferry_file_options how = {sizeof how, FERRY_FILE_WRITE, FERRY_FILE_DIRECT_AUTO, 0};
    ASSERT_OK(ferry_file_open(small.get(), file.path().c_str(), nullptr, &from, nullptr));
    ASSERT_OK(ferry_file_open(small.get(), other.path().c_str(), &how, &to, nullptr));
    test_place image(place_kind::array_3d, {.width = 1200, .height = 250, .depth = 30, .element_size = 4});
    const auto file_of = [](ferry_file *opened) {
        ferry_place place;
        ferry_place_file(&place, opened, 0);
        place.row_pitch = 1200;
        place.slice_height = 250;
        return place;
    };
    const ferry_place array = image.describe(statement::stated);
    const ferry_copy_desc read = {array, file_of(from), 1200, 250, 30, {}},
                          write = {file_of(to), array, 1200, 250, 30, {}};
    const auto run = [&](const ferry_copy_desc &copy, bool waits) {
        ferry_error_info error = new_error();
        if (waits) {
            EXPECT_OK(ferry_copy(small.get(), &copy, nullptr, &error)) << describe(error);
            return;
        }
        ferry_ticket *ticket = nullptr;
        gate before(stream);
        ASSERT_OK(ferry_copy_async(small.get(), &copy, nullptr, stream, &ticket, &error)) << describe(error);
        before.open();
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error)) << describe(error);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    };
    for (const bool waits : {true, false}) {
        image.fill(7);
        run(read, waits);
        EXPECT_EQ(data, image.read());
        ASSERT_EQ(0, truncate(other.path().c_str(), 0));
        run(write, waits);
        EXPECT_EQ(data, other.read());
    }
    ferry_file_close(from);
    ferry_file_close(to);
}

TEST_F(files, an_asynchronous_copy_above_2_GiB_without_a_kernel_is_refused) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    constexpr std::uint64_t limit = std::uint64_t{2} << 30;
    const temporary_file file(bytes(1)); // the other bytes are a hole
    file.resize(limit + 1);
    const file_owner opened = open(file, FERRY_FILE_READ | FERRY_FILE_WRITE);
    const device_memory memory(limit + 1);
    const ferry_place at_file = in_file(opened, 0), end = on_device(memory);
    for (const bool reads : {true, false}) {
        const ferry_copy_desc copy = {reads ? end : at_file, reads ? at_file : end, limit + 1, 1, 1, {}};
        for (const bool is_batch : {false, true}) {
            SCOPED_TRACE(testing::Message() << (reads ? "read" : "written") << (is_batch ? " in a batch" : ""));
            ferry_error_info error = new_error();
            ferry_ticket *ticket = nullptr;
            const std::int32_t status =
                is_batch ? ferry_copy_batch_async(basic.get(), &copy, 1, no_kernels, stream, &ticket, &error)
                         : ferry_copy_async(basic.get(), &copy, no_kernels, stream, &ticket, &error);
            EXPECT_EQ(FERRY_ERROR_LIMIT, status) << describe(error);
            EXPECT_EQ(FERRY_SIDE_EXTENT, error.side) << describe(error);
            EXPECT_EQ(FERRY_FIELD_SIZE, error.field) << describe(error);
            EXPECT_EQ(limit + 1, error.value) << describe(error);
            EXPECT_EQ(limit, error.limit) << describe(error);
            EXPECT_EQ(nullptr, ticket);
        }
    }
    EXPECT_OK(raw().cuStreamQuery(stream)) << "nothing was enqueued";
}

// Each copy is too large for the slots, so it passes through a pinned block.
TEST_F(files, an_asynchronous_copy_without_a_kernel_is_refused_while_other_streams_use_all_pinned_blocks) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    ferry_options options = options_under_test();
    options.staging_bytes = 65536;
    options.staging = FERRY_STAGING_AT_OPEN; // a first copy behind the gate would wait for it
    const instance_owner small = open_or_fail(options);
    constexpr std::uint64_t size = 9'000'000, long_size = 300 << 20; // blocks of 4 MiB, and a larger block
    const bytes data = random_bytes(size, 33);
    const temporary_file file(data);
    file.resize(long_size);
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open(small.get(), file.path().c_str(), nullptr, &opened, nullptr));
    const device_memory memory(long_size);
    const auto enqueue = [&](std::uint64_t width, CUstream on, ferry_ticket *&ticket) {
        ferry_copy_desc copy = {on_device(memory), {}, width, 1, 1, {}};
        ferry_place_file(&copy.source, opened, 0);
        return ferry_copy_async(small.get(), &copy, no_kernels, on, &ticket, nullptr);
    };
    ferry_ticket *refused = nullptr;
    std::deque<test_stream> streams(9);
    std::vector<ferry_ticket *> tickets(streams.size());
    gate before(streams[0]);
    for (std::size_t i = 0; i < 8; ++i) {
        if (i > 0) before.hold(streams[i]);
        ASSERT_OK(enqueue(size, streams[i], tickets[i])) << i;
    }
    EXPECT_EQ(FERRY_ERROR_LIMIT, enqueue(long_size, streams[8], refused));
    EXPECT_EQ(nullptr, refused);
    EXPECT_OK(enqueue(size, streams[8], tickets[8])) << "a block of the same size is used again";
    before.open();
    for (ferry_ticket *const ticket : tickets) {
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    for (const test_stream &one : streams)
        EXPECT_OK(raw().cuStreamSynchronize(one));
    EXPECT_EQ(data, read_back(memory, size));
    ferry_file_close(opened);
}

TEST_F(files, a_budget_that_is_too_small_for_a_pinned_block_refuses_a_copy_without_a_kernel) {
    if (!has_stream_waits()) GTEST_SKIP() << "this driver has no stream memory operations";
    ferry_options options = options_under_test();
    options.max_pinned_bytes = 2 << 20;
    const instance_owner small = open_or_fail(options);
    constexpr std::uint64_t size = 300 << 20;
    const temporary_file file(bytes(1));
    file.resize(size);
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open(small.get(), file.path().c_str(), nullptr, &opened, nullptr));
    const device_memory memory(size);
    ferry_copy_desc copy = {on_device(memory), {}, size, 1, 1, {}};
    ferry_place_file(&copy.source, opened, 0);
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    EXPECT_EQ(FERRY_ERROR_LIMIT, ferry_copy_async(small.get(), &copy, no_kernels, stream, &ticket, &error));
    EXPECT_EQ(FERRY_SIDE_OPTIONS, error.side) << describe(error);
    EXPECT_EQ(FERRY_FIELD_MAX_PINNED_BYTES, error.field) << describe(error);
    EXPECT_EQ(options.max_pinned_bytes, error.limit) << describe(error);
    EXPECT_EQ(nullptr, ticket);
    ferry_file_close(opened);
}

TEST_F(files, a_batch_with_files_names_the_copy_that_is_wrong) {
    const bytes data = random_bytes(100'000, 24);
    const temporary_file file(data);
    const file_owner opened = open(file, FERRY_FILE_READ | FERRY_FILE_WRITE);
    const device_memory memory(data.size());
    write_for_all_streams(memory, bytes(data.size()));
    const ferry_copy_desc good = {on_device(memory), in_file(opened, 0), 1000, 1, 1, {}};
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    const auto refuse_second = [&](const ferry_copy_desc &second, std::int32_t status, std::int32_t side,
                                   std::int32_t field, std::uint32_t flags = 0) {
        const ferry_copy_desc both[] = {good, second};
        ferry_copy_options options = {};
        options.struct_size = sizeof options;
        options.flags = flags;
        for (const ferry_instance *const instance : {basic.get(), full.get()}) {
            EXPECT_EQ(status, ferry_copy_batch_async(const_cast<ferry_instance *>(instance), both, 2, &options, stream,
                                                     &ticket, &error))
                << describe(error);
            EXPECT_EQ(error.side, side) << describe(error);
            EXPECT_EQ(error.field, field) << describe(error);
            EXPECT_EQ(error.item, FERRY_ITEM_COPY);
            EXPECT_EQ(error.index, 1u) << describe(error);
            EXPECT_EQ(nullptr, ticket);
        }
    };
    refuse_second({on_device(memory), in_file(opened, 99'500), 1000, 1, 1, {}}, FERRY_ERROR_OUT_OF_BOUNDS,
                  FERRY_SIDE_SOURCE, FERRY_FIELD_OFFSET);
    refuse_second({in_file(opened, 0), in_file(opened, 5000), 1000, 1, 1, {}}, FERRY_ERROR_UNSUPPORTED,
                  FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND);
    refuse_second({on_device(memory + 99'500), in_file(opened, 0), 1000, 1, 1, {}}, FERRY_ERROR_OUT_OF_BOUNDS,
                  FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    // Two copies share bytes of the file, which one of them writes.
    refuse_second({in_file(opened, 999), on_device(memory + 2000), 10, 1, 1, {}}, FERRY_ERROR_OVERLAP,
                  FERRY_SIDE_DESTINATION, FERRY_FIELD_OFFSET, FERRY_COPY_CHECK_OVERLAP);
    EXPECT_EQ(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_copy_batch_async(basic.get(), &good, 1, nullptr, stream, nullptr, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_TICKET);
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(bytes(data.size()), read_back(memory, data.size())); // nothing was copied
}

TEST_F(files, a_batch_with_a_file_that_becomes_shorter_fails) {
    const bytes data = random_bytes(3'000'000, 25);
    const temporary_file file(data);
    const file_owner opened = open(file);
    const device_memory memory(data.size());
    const ferry_copy_desc both[] = {{on_device(memory), in_file(opened, 0), 1'000'000, 1, 1, {}},
                                    {on_device(memory + 1'000'000), in_file(opened, 1'000'000), 2'000'000, 1, 1, {}}};
    ferry_error_info error = new_error();
    ferry_ticket *ticket = nullptr;
    {
        gate before(stream);
        ASSERT_OK(ferry_copy_batch_async(basic.get(), both, 2, nullptr, stream, &ticket, &error)) << describe(error);
        file.resize(2'000'000);
        before.open();
    }
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error));
    EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED);
    EXPECT_GE(error.limit, 2'000'000u);
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    EXPECT_EQ(info.status, FERRY_ERROR_FILE);
    EXPECT_EQ(info.file_error, FERRY_FILE_ENDED);
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, 1'000'000'000, &error));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    EXPECT_OK(raw().cuStreamSynchronize(stream));
#if defined(__linux__)
    file.write(data);
    replaced.failure = EIO;
    replaced.left = 1;
    EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy_batch(basic.get(), both, 2, nullptr, &error)) << describe(error);
    EXPECT_EQ(static_cast<std::int64_t>(error.value), EIO);
    replaced.left = 0;
#endif
}

TEST_F(files, prepared_batches_fills_and_graphs_refuse_files) {
    const temporary_file file(bytes(100));
    const file_owner opened = open(file, FERRY_FILE_READ | FERRY_FILE_WRITE);
    const device_memory memory(100);
    const ferry_copy_desc both[] = {{on_device(memory), in_file(opened, 0), 100, 1, 1, {}},
                                    {in_file(opened, 0), on_device(memory), 10, 2, 1, {}}};
    for (const ferry_copy_desc &one : both) {
        const std::int32_t side = one.source.file ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION;
        ferry_error_info error = new_error();
        ferry_prepared *prepared = nullptr;
        EXPECT_EQ(FERRY_ERROR_UNSUPPORTED,
                  ferry_prepared_create(basic.get(), &one, 1, nullptr, stream, &prepared, &error))
            << describe(error);
        EXPECT_EQ(error.side, side) << describe(error);
        EXPECT_EQ(error.field, FERRY_FIELD_KIND) << describe(error);
        captured_graph graph(stream);
        for (const bool is_batch : {false, true}) {
            ferry_ticket *ticket = nullptr;
            error = new_error();
            EXPECT_EQ(FERRY_ERROR_CAPTURE,
                      is_batch ? ferry_copy_batch_async(basic.get(), &one, 1, nullptr, stream, &ticket, &error)
                               : ferry_copy_async(basic.get(), &one, nullptr, stream, &ticket, &error));
            EXPECT_EQ(error.side, side) << describe(error);
            EXPECT_EQ(error.field, FERRY_FIELD_FILE) << describe(error);
        }
        graph.end();
    }
    ferry_fill_desc fill;
    const ferry_place place = in_file(opened, 0);
    const std::uint32_t pattern = 0;
    ferry_fill_desc_init(&fill, &place, 100, 1, 1, &pattern, sizeof pattern);
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, ferry_fill(basic.get(), &fill, nullptr, &error));
    EXPECT_EQ(error.side, FERRY_SIDE_DESTINATION);
    EXPECT_EQ(error.field, FERRY_FIELD_KIND) << describe(error);
}

TEST_F(files, an_instance_without_staging_refuses_copies_of_files_with_the_obstacle) {
    ferry_options options = options_under_test();
    options.staging = FERRY_STAGING_NONE;
    const instance_owner other = open_or_fail(options);
    const temporary_file file(bytes(100));
    const device_memory memory(100);
    ferry_file *opened = nullptr;
    const ferry_file_options both = {sizeof both, FERRY_FILE_READ | FERRY_FILE_WRITE, FERRY_FILE_DIRECT_AUTO, 0};
    ASSERT_OK(ferry_file_open(other.get(), file.path().c_str(), &both, &opened, nullptr));
    ferry_place at_file;
    ferry_place_file(&at_file, opened, 0);
    for (const bool reads : {true, false}) {
        const ferry_copy_desc copy = {
            reads ? on_device(memory) : at_file, reads ? at_file : on_device(memory), 100, 1, 1, {}};
        for (const bool waits : {true, false}) {
            ferry_error_info error = new_error();
            ferry_ticket *ticket = nullptr;
            EXPECT_EQ(FERRY_ERROR_ROUTE, waits
                                             ? ferry_copy(other.get(), &copy, nullptr, &error)
                                             : ferry_copy_async(other.get(), &copy, nullptr, stream, &ticket, &error));
            EXPECT_EQ(error.value, static_cast<std::uint64_t>(FERRY_OBSTACLE_NO_STAGING)) << describe(error);
        }
    }
    ferry_file_close(opened);
}

TEST_F(files, an_explanation_names_the_file_and_the_staged_route) {
    const temporary_file file(bytes(1 << 20));
    const device_memory memory(1 << 20);
    const ferry_explanation found = explain({on_device(memory), in_file(open(file), 0), 1 << 20, 1, 1, {}});
    EXPECT_EQ(found.route, FERRY_ROUTE_STAGED);
    EXPECT_EQ(found.reason, FERRY_REASON_ONLY);
    EXPECT_EQ(found.source_memory, FERRY_MEMORY_FILE);
    EXPECT_EQ(found.kernel_obstacle, FERRY_OBSTACLE_FILE);
    EXPECT_NE(describe(found).find(", file to device 0, "), std::string::npos) << describe(found);
}

TEST_F(files, an_instance_that_stages_with_the_programs_threads_opens_no_file) {
    ferry_options options = options_under_test();
    options.submit = [](void *, void (*)(void *), void *) -> std::int32_t { return 1; };
    const instance_owner other = open_or_fail(options);
    const temporary_file file(bytes(1));
    ferry_file *opened = nullptr;
    ferry_error_info error = new_error();
    EXPECT_EQ(FERRY_ERROR_UNSUPPORTED, ferry_file_open(other.get(), file.path().c_str(), nullptr, &opened, &error));
    EXPECT_EQ(error.field, FERRY_FIELD_SUBMIT);
}

// ---- Direct I/O

TEST_F(files, every_alignment_of_file_and_memory_arrives) {
    const bytes contents = random_bytes(1'300'001, 20), ours = random_bytes(1'200'000, 21);
    const temporary_file file(contents);
    const device_memory memory(ours.size() + 16), other(contents.size());
    write_for_all_streams(memory, ours);
    for (const std::uint32_t how : ways_to_transfer) {
        const file_owner opened = open_as(file, how);
        if (!opened) continue;
        for (const std::uint64_t offset : {0, 1, 512, 4095, 70'000})
            for (const std::uint64_t size : {1, 4096, 65'537, 524'288, 1'200'000})
                for (const std::uint64_t lead : {0, 1, 4}) {
                    file.write(contents);
                    copy({on_device(other + lead), in_file(opened, offset), size, 1, 1, {}});
                    const auto begin = contents.begin() + static_cast<std::ptrdiff_t>(offset);
                    ASSERT_EQ(bytes(begin, begin + static_cast<std::ptrdiff_t>(size)), read_back(other + lead, size))
                        << how << ": " << size << " bytes at " << offset << " to " << lead;
                    copy(
                        {in_file(opened, offset), on_device(memory + lead), size - std::min(size - 1, lead), 1, 1, {}});
                    bytes expected = contents;
                    std::copy_n(ours.begin() + static_cast<std::ptrdiff_t>(lead), size - std::min(size - 1, lead),
                                expected.begin() + static_cast<std::ptrdiff_t>(offset));
                    ASSERT_EQ(expected, file.read()) << how << ": " << size << " bytes at " << offset;
                }
    }
}

TEST_F(files, rows_and_pieces_arrive_by_direct_io) {
    const bytes contents = random_bytes(3'000'000, 22);
    const temporary_file file(contents);
    const device_memory memory(contents.size());
    for (const std::uint32_t how : ways_to_transfer) {
        const file_owner opened = open_as(file, how);
        if (!opened) continue;
        for (const std::uint64_t width : {100, 4096, 8192, 9000}) {
            copy({on_device(memory), in_file(opened, 1000, 16'384), width, 180, 1, {}});
            bytes expected;
            for (std::size_t row = 0; row < 180; ++row)
                expected.insert(expected.end(), contents.begin() + static_cast<std::ptrdiff_t>(1000 + row * 16'384),
                                contents.begin() + static_cast<std::ptrdiff_t>(1000 + row * 16'384 + width));
            ASSERT_EQ(expected, read_back(memory, expected.size())) << how << ", rows of " << width;
            copy({in_file(opened, 1000, 16'384), on_device(memory), width, 180, 1, {}});
            ASSERT_EQ(contents, file.read()) << how << ", rows of " << width;
        }
        const ferry_piece pieces[] = {
            {memory, 2'999'999, 1}, {memory + 1, 5, 3000}, {memory + 4000, 3005, 200'000}, {memory + 3500, 0, 5}};
        ferry_piece_list list;
        ferry_piece_list_set(&list, pieces, std::size(pieces));
        list.source_file = opened.get();
        ASSERT_OK(ferry_copy_pieces(basic.get(), &list, nullptr, nullptr));
        for (const ferry_piece &piece : pieces)
            ASSERT_EQ(bytes(contents.begin() + static_cast<std::ptrdiff_t>(piece.source),
                            contents.begin() + static_cast<std::ptrdiff_t>(piece.source + piece.size)),
                      read_back(piece.destination, piece.size));
    }
}

TEST_F(files, a_file_grows_by_direct_io) {
    const bytes data = random_bytes(1'500'007, 23);
    const device_memory memory(data.size());
    write_for_all_streams(memory, data);
    for (const std::uint32_t how : ways_to_transfer) {
        const temporary_file file(bytes(10, std::byte{7}));
        const file_owner opened = open_as(file, how);
        if (!opened) continue;
        copy({in_file(opened, 5000), on_device(memory), data.size(), 1, 1, {}});
        bytes expected(10, std::byte{7});
        expected.resize(5000);
        expected.insert(expected.end(), data.begin(), data.end());
        EXPECT_EQ(expected, file.read()) << how;
    }
}

#if defined(__linux__)
TEST_F(files, a_file_that_becomes_shorter_ends_a_direct_read) {
    const temporary_file file(bytes(3'000'000));
    const device_memory memory(3'000'000);
    for (const std::uint64_t left : {0, 4096, 1'000'001}) {
        file.write(bytes(3'000'000));
        const file_owner opened = open_as(file, FERRY_FILE_DIRECT_ALWAYS);
        if (!opened) GTEST_SKIP() << "no direct I/O";
        gate before(stream);
        ferry_ticket *const ticket = begin({on_device(memory), in_file(opened, 10), 2'999'990, 1, 1, {}});
        file.resize(left);
        before.open();
        ferry_error_info error = new_error();
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error));
        EXPECT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED);
        EXPECT_GE(error.limit, left);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
}

// Returns the number of cached pages of the file; -1: the system does not report it.
long cached_pages(const temporary_file &file) {
    constexpr long cachestat = 451;
    const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    const std::uint64_t range[2] = {};
    std::uint64_t found[5] = {};
    const long failed = syscall(cachestat, descriptor, range, found, 0);
    close(descriptor);
    return failed ? -1 : static_cast<long>(found[0]);
}

TEST_F(files, a_file_that_keeps_the_cache_leaves_it_untouched) {
    const bytes contents = random_bytes(8 << 20, 24);
    const temporary_file file(contents);
    const file_owner opened = open_as(file, FERRY_FILE_KEEP_CACHE);
    if (!opened) GTEST_SKIP() << "no direct I/O";
    const int descriptor = ::open(file.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(fsync(descriptor), 0);
    ASSERT_EQ(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
    ASSERT_EQ(posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM), 0);
    bytes some(64 << 10);
    ASSERT_EQ(pread(descriptor, some.data(), some.size(), 1 << 20), static_cast<ssize_t>(some.size()));
    close(descriptor);
    const long before = cached_pages(file);
    if (before < 0 || before > 1000) GTEST_SKIP() << "the system does not report or release cached pages: " << before;
    EXPECT_GE(before, 16);
    const device_memory memory(contents.size());
    copy({on_device(memory), in_file(opened, 0), contents.size(), 1, 1, {}});
    EXPECT_EQ(contents, read_back(memory, contents.size()));
    copy({on_device(memory), in_file(opened, 123, 65'536), 8192, 100, 1, {}});
    copy({in_file(opened, 2 << 20), on_device(memory), 1 << 20, 1, 1, {}});
    EXPECT_EQ(cached_pages(file), before);
}

// Containers refuse statx, and chroots may have no /proc.
TEST_F(files, a_system_that_refuses_calls_reads_the_same_bytes) {
    const bytes contents = random_bytes(700'003, 25);
    const temporary_file file(contents);
    const device_memory memory(contents.size());
    for (const long refused : {static_cast<long>(SYS_statx), 451L, 425L, static_cast<long>(SYS_preadv2)})
        for (const std::uint32_t how : ways_to_transfer) {
            replaced.refused_call = refused;
            const file_owner opened = open_as(file, how);
            if (!opened) continue;
            write_for_all_streams(memory, bytes(contents.size()));
            copy({on_device(memory), in_file(opened, 1), contents.size() - 1, 1, 1, {}});
            EXPECT_EQ(bytes(contents.begin() + 1, contents.end()), read_back(memory, contents.size() - 1)) << refused;
            copy({on_device(memory), in_file(opened, 7, 10'000), 6000, 70, 1, {}});
            for (std::size_t row = 0; row < 70; ++row)
                EXPECT_EQ(bytes(contents.begin() + static_cast<std::ptrdiff_t>(7 + row * 10'000),
                                contents.begin() + static_cast<std::ptrdiff_t>(6007 + row * 10'000)),
                          read_back(memory + row * 6000, 6000))
                    << refused;
        }
    replaced.refused_call = -1;
}

TEST_F(files, the_system_learns_of_all_bytes_that_are_not_cached) {
    const bytes contents = random_bytes(3'000'000, 27);
    const temporary_file file(contents);
    const device_memory memory(contents.size());
    const file_owner cached = open(file), direct = open_as(file, FERRY_FILE_DIRECT_ALWAYS);
    const auto hints_of = [&](const file_owner &from, std::uint64_t width, std::uint64_t rows, int answer) {
        replaced.refused_call = answer ? SYS_preadv2 : -1;
        replaced.refusal = answer;
        replaced.hints = 0;
        copy({on_device(memory), in_file(from, 9, rows > 1 ? 16'384 : 0), width, rows, 1, {}});
        replaced.refused_call = -1;
        replaced.refusal = EPERM;
        return replaced.hints.load();
    };
    EXPECT_EQ(hints_of(cached, 8192, 180, EAGAIN), 180);
    EXPECT_LT(hints_of(cached, 16'000, 180, EAGAIN), 100) << "gaps of 384 bytes are read too";
    EXPECT_EQ(hints_of(cached, 8192, 180, 0), 0);
    EXPECT_EQ(hints_of(cached, 8192, 180, EPERM), 0);
    EXPECT_GT(hints_of(cached, 2'000'000, 1, EAGAIN), 1);
    if (direct) {
        EXPECT_EQ(hints_of(direct, 8192, 180, EAGAIN), 0);
    }
}

TEST_F(files, the_system_reads_ahead_while_a_copy_waits_for_its_stream) {
    const bytes contents = random_bytes(3'000'000, 30);
    const temporary_file file(contents);
    const device_memory memory(contents.size());
    const file_owner opened = open(file);
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0, nullptr));
    const auto hints_before = [&](int answer, std::uint64_t pitch) {
        ferry_ticket *ticket = nullptr;
        const std::uint64_t width = 1'000'000, rows = 2;
        const ferry_copy_desc copy = {on_device(memory), in_file(opened, 9, pitch), width, rows, 1, {}};
        replaced.hints = replaced.calls = 0;
        replaced.refusal = answer;
        replaced.refused_call = answer ? SYS_preadv2 : -1;
        gate before(stream);
        EXPECT_OK(ferry_copy_async(basic.get(), &copy, nullptr, stream, &ticket, nullptr));
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(answer == EAGAIN ? 20'000 : 50);
        while (replaced.hints == 0 && std::chrono::steady_clock::now() < until)
            std::this_thread::yield();
        const int hints = replaced.hints;
        EXPECT_EQ(replaced.calls, 0) << "nothing is read yet";
        replaced.refused_call = -1;
        replaced.refusal = EPERM;
        before.open();
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        return hints;
    };
    EXPECT_EQ(hints_before(EAGAIN, 1'000'000), 1);
    EXPECT_EQ(read_back(memory, 2'000'000), bytes(&contents[9], &contents[2'000'009]));
    EXPECT_EQ(hints_before(0, 1'000'000), 0) << "the bytes are cached";
    EXPECT_EQ(hints_before(EPERM, 1'500'000), 0);
}

// Bytes of the process in memory that belong to no file.
std::uint64_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("RssAnon:", 0) == 0) return std::stoull(line.substr(8)) * 1024;
    return 0;
}

// Beside the staging buffer, which the first copy makes.
TEST_F(files, resident_memory_does_not_grow_with_the_file) {
    if (is_sanitized || resident_bytes() == 0) GTEST_SKIP() << "the memory of a sanitizer counts too";
    constexpr std::uint64_t size = 32 << 20;
    const temporary_file file(bytes(1));
    file.resize(8 * size);
    const device_memory memory(size);
    for (const std::uint32_t how : {FERRY_FILE_DIRECT_NEVER, FERRY_FILE_DIRECT_ALWAYS}) {
        const file_owner opened = open_as(file, how);
        if (!opened) continue; // no direct I/O
        copy({on_device(memory), in_file(opened, 1), size, 1, 1, {}});
        copy({on_device(memory), in_file(opened, 1), size, 1, 1, {}}); // with the other level of checks
        const std::uint64_t before = resident_bytes();
        for (std::uint64_t i = 0; i < 7; ++i)
            copy({on_device(memory), in_file(opened, i * size + 1), size, 1, 1, {}});
        EXPECT_LE(resident_bytes(), before + (8 << 20)) << how;
    }
}

TEST_F(files, large_writes_reserve_their_space_and_leave_the_size) {
    const temporary_file file(bytes(0));
    file_owner opened = open_as(file, FERRY_FILE_DIRECT_AUTO);
    const std::uint64_t size = 8 << 20, cut = 1 << 20;
    const int descriptor = ::open(file.path().c_str(), O_WRONLY);
    const bool can_reserve = fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, 1) == 0;
    close(descriptor);
    if (!can_reserve) GTEST_SKIP() << "the file system reserves no space";
    const device_memory memory(size);
    const auto allocated = [&] {
        struct stat found {};
        EXPECT_EQ(stat(file.path().c_str(), &found), 0);
        return static_cast<std::uint64_t>(found.st_blocks) * 512;
    };
    replaced.failure = EIO; // the first write: later ones are skipped
    replaced.is_short = false;
    replaced.left = 1;
    ferry_copy_desc copy = {in_file(opened, 0), on_device(memory), size, 1, 1, {}};
    EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, nullptr), FERRY_ERROR_FILE);
    EXPECT_GE(allocated(), size);
    EXPECT_LE(std::filesystem::file_size(file.path()), size);
    file.resize(0);
    copy.width = cut; // small writes, and writes with gaps, need no more than their bytes
    EXPECT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
    copy = {in_file(opened, cut), on_device(memory), 100, 800, 1, {}};
    copy.destination.row_pitch = 10'000;
    EXPECT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
    EXPECT_LT(allocated(), size);
}

// Rows that are read by many system calls.
struct read_rows {
    static constexpr std::size_t width = 1000, pitch = 5000, rows = 400;
    explicit read_rows(std::uint64_t seed) : contents(random_bytes(pitch * rows, seed)), file(contents) {}

    void copy(ferry_instance *instance, CUstream stream) const {
        ferry_place from = in_file(opened, 0);
        from.row_pitch = pitch;
        const device_memory memory(width * rows);
        const ferry_copy_desc copy = {on_device(memory), from, width, rows, 1, {}};
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(ferry_copy_async(instance, &copy, nullptr, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        bytes expected;
        for (std::size_t row = 0; row < rows; ++row)
            expected.insert(expected.end(), &contents[row * pitch], &contents[row * pitch] + width);
        EXPECT_TRUE(expected == read_back(memory, expected.size()));
    }

    bytes contents;
    temporary_file file;
    file_owner opened;
};

TEST_F(files, short_reads_use_more_descriptors_until_the_file_is_closed) {
    read_rows one(31);
    one.opened = open_as(one.file, FERRY_FILE_DIRECT_AUTO);
    EXPECT_EQ(one.file.count_descriptors(), 1u);
    one.copy(basic.get(), stream);
    EXPECT_GT(one.file.count_descriptors(), 1u);
    EXPECT_LE(one.file.count_descriptors(), 17u);
    one.opened.reset();
    EXPECT_EQ(one.file.count_descriptors(), 0u);
}

TEST_F(files, short_reads_share_a_descriptor_if_no_more_can_be_opened) {
    read_rows first(32), one(33);
    first.opened = open_as(first.file, FERRY_FILE_DIRECT_AUTO);
    first.copy(basic.get(), stream); // prepares everything else
    one.opened = open_as(one.file, FERRY_FILE_DIRECT_AUTO);
    rlimit limit = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int next = fcntl(STDERR_FILENO, F_DUPFD, 0);
    close(next);
    const rlimit full = {static_cast<rlim_t>(next), limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
    one.copy(basic.get(), stream);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(one.file.count_descriptors(), 1u);
    ferry_file *refused = nullptr;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
    ferry_error_info error = new_error();
    const std::int32_t status = ferry_file_open(basic.get(), one.file.path().c_str(), nullptr, &refused, &error);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(status, FERRY_ERROR_FILE);
    EXPECT_EQ(describe(error), "path: Too many open files (system error 24) (FERRY_ERROR_FILE)");
}

TEST_F(files, many_files_leave_the_process_most_descriptors) {
    std::vector<std::unique_ptr<read_rows>> all;
    std::size_t descriptors = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
        all.push_back(std::make_unique<read_rows>(40 + i));
        all.back()->opened = open_as(all.back()->file, FERRY_FILE_DIRECT_AUTO);
        all.back()->copy(basic.get(), stream);
    }
    for (const auto &one : all)
        descriptors += one->file.count_descriptors();
    EXPECT_GT(descriptors, 100u);
    EXPECT_LE(descriptors, 164u);
}

TEST_F(files, a_file_that_is_not_in_memory_occupies_two_sms_and_others_more_than_memory) {
    ferry_options options = options_under_test();
    options.staging_threads = 12;
    const instance_owner instance = open_or_fail(options);
    const temporary_file file(bytes(3'000'000));
    const device_memory memory(3'000'000);
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open(instance.get(), file.path().c_str(), nullptr, &opened, nullptr));
    const file_owner owner(opened);
    const ferry_copy_desc copy = {on_device(memory), in_file(owner, 0), 3'000'000, 1, 1, {}};
    ferry_piece piece = {memory, 0, 3'000'000};
    ferry_piece_list list;
    ferry_piece_list_set(&list, &piece, 1);
    list.source_file = opened;
    const auto sms = [&](bool of_pieces, std::uint32_t max_sms) {
        ferry_copy_options how = {};
        how.struct_size = sizeof how;
        how.max_sms = max_sms;
        ferry_explanation one = {};
        one.struct_size = sizeof one;
        ferry_batch_explanation many = {};
        many.struct_size = sizeof many;
        EXPECT_OK(ferry_copy_pieces_explain_async(instance.get(), &list, &how, stream, &many, nullptr));
        EXPECT_OK(ferry_copy_explain_async(instance.get(), &copy, &how, stream, &one, nullptr));
        return of_pieces ? many.max_sms : one.max_sms;
    };
    for (const bool of_pieces : {false, true}) {
        const std::uint32_t fast = sms(of_pieces, 0);
        EXPECT_EQ(fast, 12u);
        for (const int answer : {EAGAIN, EOPNOTSUPP, EPERM}) {
            replaced.refused_call = SYS_preadv2;
            replaced.refusal = answer;
            const std::uint32_t slow = sms(of_pieces, 0), one = sms(of_pieces, 1);
            replaced.refused_call = -1;
            replaced.refusal = EPERM;
            EXPECT_EQ(slow, answer == EAGAIN ? 2u : fast) << answer;
            EXPECT_EQ(one, 1u);
        }
    }
}

// The kernel of a copy waits for the file. Neither the work of another stream nor a call that frees memory and waits for
// that kernel prevents the file's bytes from arriving.
TEST_F(files, a_file_that_does_not_answer_stops_no_kernel_and_no_close) {
    if (streams_share_a_queue()) GTEST_SKIP() << "all streams wait for each other";
    const bytes data = random_bytes(2'000'000, 28);
    const temporary_file file(data);
    instance_owner instance = open_or_fail(options_under_test());
    ASSERT_OK(ferry_staging_prepare(instance.get(), 0, nullptr));
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open(instance.get(), file.path().c_str(), nullptr, &opened, nullptr));
    file_owner owner(opened);
    const device_memory memory(data.size()), to(4096);
    CUdeviceptr freed = 0;
    ASSERT_OK(raw().cuMemAlloc(&freed, 4096));
    test_stream other;
    replaced.are_late = true;
    const ferry_copy_desc copy = {on_device(memory), in_file(owner, 0), data.size(), 1, 1, {}};
    ferry_ticket *ticket = nullptr;
    ASSERT_OK(ferry_copy_async(instance.get(), &copy, nullptr, stream, &ticket, nullptr));
    while (replaced.waiting == 0)
        std::this_thread::yield();
    EXPECT_OK(raw().cuMemsetD8Async(to, 7, 4096, other));
    EXPECT_OK(raw().cuStreamSynchronize(other));
    EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    owner.reset();
    CUcontext context = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&context));
    std::atomic<int> ended = 0;
    std::thread frees([&] {
        EXPECT_OK(raw().cuCtxSetCurrent(context));
        EXPECT_OK(raw().cuMemFree(freed));
        ++ended;
    });
    std::thread closes([&] {
        instance.reset();
        ++ended;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_LT(ended, 2); // ferry_close waits for the copy
    replaced.are_late = false;
    replaced.are_late.notify_all();
    frees.join();
    closes.join();
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(data, read_back(memory, data.size()));
}

TEST_F(files, no_more_threads_transfer_a_copy_than_its_file_permits) {
    ferry_options many = options_under_test();
    many.staging_threads = 6;
    const instance_owner instance = open_or_fail(many);
    const bytes data = random_bytes(8'000'000, 29);
    const temporary_file file(data);
    const device_memory memory(data.size());
    bytes here(data.size());
    for (const std::uint32_t max_threads : {0, 1, 2}) {
        ferry_file_options how = {};
        how.struct_size = sizeof how;
        how.max_threads = max_threads;
        ferry_file *opened = nullptr;
        ASSERT_OK(ferry_file_open(instance.get(), file.path().c_str(), &how, &opened, nullptr));
        const file_owner owner(opened);
        for (const bool to_host : {false, true}) {
            if (to_host && !has_stream_waits()) continue;
            ferry_place to = to_host ? on_host(here) : on_device(memory);
            const ferry_copy_desc copy = {to, in_file(owner, 0), data.size(), 1, 1, {}};
            replaced.are_late = true;
            ferry_ticket *ticket = nullptr;
            ASSERT_OK(ferry_copy_async(instance.get(), &copy, nullptr, stream, &ticket, nullptr));
            // The blocks of the software driver's kernels need not run at the same time.
            const int expected = !to_host ? 1 : max_threads ? static_cast<int>(max_threads) : 3;
            while (replaced.waiting < expected)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50)); // for threads that must not come
            if (max_threads) {
                EXPECT_LE(replaced.waiting, static_cast<int>(max_threads));
            }
            replaced.are_late = false;
            replaced.are_late.notify_all();
            EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            EXPECT_TRUE(data == (to_host ? here : read_back(memory, data.size())));
        }
    }
}

TEST_F(files, ranges_for_several_devices_are_read_at_the_same_time) {
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
    const bytes data = random_bytes(100'000, 34);
    const temporary_file file(data);
    ferry_file_options how = {};
    how.struct_size = sizeof how;
    how.max_threads = 1; // of each copy
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open(basic.get(), file.path().c_str(), &how, &opened, nullptr));
    const file_owner owner(opened);
    std::uint64_t memory[2] = {};
    std::vector<ferry_copy_desc> copies(2);
    std::vector<ferry_piece> pieces(2);
    for (int device = 0; device < 2; ++device) {
        ASSERT_OK(ferry_device_alloc(basic.get(), device, 50'000, &memory[device], nullptr));
        ASSERT_OK(ferry_staging_prepare(basic.get(), device, nullptr));
        ferry_place to;
        ferry_place_device(&to, device, memory[device]);
        copies[device] = {to, in_file(owner, 50'000u * static_cast<unsigned>(device)), 50'000, 1, 1, {}};
        pieces[device] = {memory[device], 50'000u * static_cast<unsigned>(device), 50'000};
    }
    ferry_piece_list list;
    ferry_piece_list_set(&list, pieces.data(), pieces.size());
    list.source_file = owner.get();
    for (const int round : {0, 1, 2}) {
        replaced.are_late = true;
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(round == 2 ? ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, nullptr)
                             : ferry_copy_batch_async(basic.get(), copies.data(), copies.size(), nullptr, stream,
                                                      &ticket, nullptr));
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (replaced.waiting < 2 && std::chrono::steady_clock::now() < until)
            std::this_thread::yield();
        EXPECT_EQ(replaced.waiting, 2) << round;
        replaced.are_late = false;
        replaced.are_late.notify_all();
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        std::swap(copies[0], copies[1]);
    }
    for (int device = 0; device < 2; ++device) {
        bytes found(50'000);
        EXPECT_OK(ferry_copy_bytes(basic.get(), reinterpret_cast<std::uintptr_t>(found.data()), memory[device],
                                   found.size(), nullptr, nullptr));
        EXPECT_TRUE(std::equal(found.begin(), found.end(), data.begin() + 50'000 * device)) << device;
        EXPECT_OK(ferry_device_free(basic.get(), memory[device], nullptr));
    }
}

TEST_F(files, a_file_system_that_refuses_the_first_direct_transfer_refuses_the_option) {
    const temporary_file file(bytes(10'000));
    if (!open_as(file, FERRY_FILE_DIRECT_ALWAYS)) GTEST_SKIP() << "no direct I/O";
    const auto refuse_with = [&](std::uint32_t flags, std::int32_t direct) {
        replaced.failure = EINVAL;
        replaced.is_short = false;
        replaced.left = 1;
        return refuse_open(file.path().c_str(), FERRY_ERROR_UNSUPPORTED, flags, direct);
    };
    for (const std::uint32_t access : {FERRY_FILE_READ, FERRY_FILE_WRITE, FERRY_FILE_READ | FERRY_FILE_WRITE}) {
        const ferry_error_info always = refuse_with(access, FERRY_FILE_DIRECT_ALWAYS);
        EXPECT_EQ(describe(always), "options.direct: Invalid argument (system error 22) (FERRY_ERROR_UNSUPPORTED)");
        const ferry_error_info keeps = refuse_with(access | FERRY_FILE_KEEP_CACHE, FERRY_FILE_DIRECT_AUTO);
        EXPECT_EQ(describe(keeps), "options.flags: Invalid argument (system error 22) (FERRY_ERROR_UNSUPPORTED)");
    }
    refuse_with(FERRY_FILE_WRITE | FERRY_FILE_TRUNCATE, FERRY_FILE_DIRECT_ALWAYS);
    EXPECT_EQ(file.read().size(), 10'000u) << "a refused call must not remove bytes";
    EXPECT_EQ(replaced.left, 0);
}

TEST_F(files, a_file_in_memory_is_read_and_written_with_every_option) {
    const bytes contents = random_bytes(700'003, 26);
    const std::string path = "/dev/shm/ferry-" + std::to_string(getpid());
    open(path, FERRY_FILE_WRITE | FERRY_FILE_CREATE);
    const device_memory memory(contents.size());
    for (const std::uint32_t how : ways_to_transfer) {
        const file_owner opened = open_as(path, how);
        if (!opened) continue;
        write_for_all_streams(memory, contents);
        copy({in_file(opened, 3), on_device(memory), contents.size(), 1, 1, {}});
        write_for_all_streams(memory, bytes(contents.size()));
        copy({on_device(memory), in_file(opened, 3), contents.size(), 1, 1, {}});
        EXPECT_EQ(contents, read_back(memory, contents.size())) << how;
    }
    unlink(path.c_str());
}

// ---- Durable writes

TEST_F(files, durable_bytes_are_flushed_after_the_last_write_and_before_the_end) {
    const device_memory memory(5 << 20);
    const temporary_file file(bytes(1));
    for (const std::int32_t direct : {FERRY_FILE_DIRECT_NEVER, FERRY_FILE_DIRECT_ALWAYS}) {
        const bool is_direct = direct == FERRY_FILE_DIRECT_ALWAYS;
        if (is_direct && !open_as(file, FERRY_FILE_DIRECT_ALWAYS)) continue;
        const file_owner opened = open(file, FERRY_FILE_WRITE | FERRY_FILE_SYNC, direct);
        const ferry_copy_desc desc = {in_file(opened, 100), on_device(memory), 5 << 20, 1, 1, {}};
        replaced.flushes = replaced.calls = 0;
        copy(desc);
        EXPECT_EQ(replaced.flushes, 1);
        EXPECT_EQ(replaced.calls_before_flush, replaced.calls);
        if (raw().cuStreamBatchMemOp) {
            ferry_copy_options without_kernels = {};
            without_kernels.struct_size = sizeof without_kernels;
            without_kernels.flags = FERRY_COPY_NO_KERNELS;
            EXPECT_OK(ferry_copy(basic.get(), &desc, &without_kernels, nullptr));
            EXPECT_EQ(replaced.flushes, 2);
        }

        replaced.flushes = 1;
        replaced.is_flush_late = true;
        ferry_ticket *const ticket = begin(desc);
        while (replaced.flushes != 2)
            std::this_thread::yield();
        EXPECT_EQ(FERRY_ERROR_NOT_READY, ferry_ticket_wait(ticket, 1'000'000, nullptr));
        replaced.is_flush_late = false;
        replaced.is_flush_late.notify_all();
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream));

        replaced.flush_failure = EIO;
        ferry_error_info error = new_error();
        EXPECT_EQ(FERRY_ERROR_FILE, ferry_copy(basic.get(), &desc, nullptr, &error));
        replaced.flush_failure = 0;
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(EIO));
        EXPECT_EQ(error.limit, 100u);
    }
    replaced.flushes = 0;
    copy({in_file(open(file, FERRY_FILE_WRITE), 0), on_device(memory), 1000, 1, 1, {}});
    EXPECT_EQ(replaced.flushes, 0);
}

TEST_F(files, the_options_of_a_descriptor_restrict_its_access) {
    const temporary_file file(bytes(1));
    const int both = ::open(file.path().c_str(), O_RDWR | O_CLOEXEC), one = ::open(file.path().c_str(), O_RDONLY);
    const auto open_descriptor = [&](int descriptor, std::uint32_t flags, ferry_error_info &error) {
        const ferry_file_options options = {sizeof options, flags, FERRY_FILE_DIRECT_AUTO, 0};
        ferry_file *opened = nullptr;
        ferry_file_info info = {};
        info.struct_size = sizeof info;
        if (ferry_file_open_descriptor(basic.get(), descriptor, &options, &opened, &error) == FERRY_SUCCESS) {
            EXPECT_OK(ferry_file_get_info(opened, &info, nullptr));
        }
        ferry_file_close(opened);
        return info.flags;
    };
    ferry_error_info error = new_error();
    for (const std::uint32_t flags : {FERRY_FILE_READ, FERRY_FILE_WRITE, FERRY_FILE_READ | FERRY_FILE_WRITE})
        EXPECT_EQ(open_descriptor(both, flags, error), flags);
    EXPECT_EQ(open_descriptor(both, 0, error), FERRY_FILE_READ | FERRY_FILE_WRITE);
    EXPECT_EQ(open_descriptor(one, 0, error), FERRY_FILE_READ);
    EXPECT_EQ(open_descriptor(one, FERRY_FILE_WRITE, error), 0u);
    EXPECT_EQ(error.status, FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.limit, FERRY_FILE_READ | FERRY_FILE_KEEP_CACHE | FERRY_FILE_SYNC);
    EXPECT_EQ(open_descriptor(both, FERRY_FILE_WRITE | FERRY_FILE_CREATE, error), 0u);
    EXPECT_EQ(error.status, FERRY_ERROR_FLAGS);
    EXPECT_EQ(error.limit, 51u);
    EXPECT_EQ(open_descriptor(both, FERRY_FILE_SYNC, error), FERRY_FILE_READ | FERRY_FILE_WRITE);
    EXPECT_EQ(open_descriptor(one, FERRY_FILE_SYNC, error), 0u);
    EXPECT_EQ(error.numbers, FERRY_NUMBERS_NEEDS);
    close(both), close(one);
}
#endif

TEST_F(files, wrong_options_name_what_is_wrong) {
    EXPECT_EQ(refuse_open("/", FERRY_ERROR_FLAGS, FERRY_FILE_SYNC).numbers, FERRY_NUMBERS_NEEDS);
    for (const std::int32_t direct : {-1, 3}) {
        const ferry_error_info error = refuse_open("/", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FILE_READ, direct);
        EXPECT_EQ(error.field, FERRY_FIELD_DIRECT);
        EXPECT_EQ(error.limit, 2u);
    }
    const ferry_error_info error =
        refuse_open("/", FERRY_ERROR_INVALID_ARGUMENT, FERRY_FILE_KEEP_CACHE, FERRY_FILE_DIRECT_NEVER);
    EXPECT_EQ(describe(error), "options.direct: 1, must be one of 0, 2 (FERRY_ERROR_INVALID_ARGUMENT)");
}

// ---- C++

TEST_F(files, views_are_read_and_written) {
    ferry_instance *const gpu = full.get();
    std::vector<float> numbers(6000);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>(i);
    const temporary_file path(bytes(1));
    auto memory = ferry::device_memory<float>::create(gpu, 0, numbers.size());
    ASSERT_TRUE(memory.ok());
    auto opened = ferry::file::open(gpu, path.path().c_str(), ferry::file_flag::read | ferry::file_flag::write);
    ASSERT_TRUE(opened.ok()) << opened.error().line().text;
    const ferry::file &file = *opened;
    EXPECT_EQ(file.info()->flags, FERRY_FILE_READ | FERRY_FILE_WRITE);
    ASSERT_TRUE(ferry::copy(gpu, numbers, *memory).ok());
    const auto image = memory->view().shaped(60, 100);
    ASSERT_TRUE(file.write(image.sub(0, 0, 10, 20), 100).ok()); // rows of 10 elements, one after the other
    EXPECT_EQ(file.info()->size, 100 + 10 * 20 * sizeof(float));
    {
        auto written = file.write_async(image, 5000, stream);
        ASSERT_TRUE(written.ok()) << written.error().line().text;
        EXPECT_TRUE(written->wait().ok());
    }
    auto other = ferry::device_memory<float>::create(gpu, 0, numbers.size());
    ASSERT_TRUE(file.read(5000, *other).ok());
    std::vector<float> back(numbers.size());
    ASSERT_TRUE(ferry::copy(gpu, *other, back).ok());
    EXPECT_EQ(back, numbers);
    {
        auto read = file.read_async(100, other->view().shaped(10, 20), stream);
        ASSERT_TRUE(read.ok()) << read.error().line().text;
        EXPECT_TRUE(read->wait().ok());
        EXPECT_OK(raw().cuStreamSynchronize(stream));
    }
    ASSERT_TRUE(ferry::copy(gpu, *other, back).ok());
    for (std::size_t i = 0; i < 200; ++i)
        EXPECT_EQ(back[i], numbers[i / 10 * 60 + i % 10]) << i;
    const status past = file.read(6000 * sizeof(float), *other);
    EXPECT_EQ(past.code(), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(past.side(), FERRY_SIDE_SOURCE);
    std::vector<float> here(200);
    EXPECT_TRUE(file.read(100, here).ok());
    EXPECT_EQ(here, std::vector<float>(back.begin(), back.begin() + 200));
    ASSERT_TRUE(file.write(here, 7).ok());
    std::vector<float> again(200);
    ASSERT_TRUE(file.read(7, again).ok());
    EXPECT_EQ(here, again);
    EXPECT_EQ(ferry::file::open(gpu, "/nonexistent/ferry").error().code(), FERRY_ERROR_FILE);
}

TEST_F(files, an_offset_that_overflows_is_named_as_the_cause) {
    ferry_instance *const gpu = full.get();
    const temporary_file path(bytes(100));
    const auto opened = ferry::file::open(gpu, path.path().c_str(), ferry::file_flag::read | ferry::file_flag::write);
    ASSERT_TRUE(opened.ok());
    std::vector<char> here(40);
    const auto expect_offset = [](const status &refused, std::int32_t side, std::uint64_t limit, std::uint64_t value) {
        EXPECT_EQ(refused.code(), FERRY_ERROR_OVERFLOW);
        EXPECT_EQ(refused.side(), side);
        EXPECT_EQ(refused.field(), FERRY_FIELD_OFFSET);
        EXPECT_EQ(refused.info().numbers, FERRY_NUMBERS_AT_MOST);
        EXPECT_EQ(refused.info().limit, limit);
        EXPECT_EQ(refused.info().value, value);
    };
    const std::uint64_t before = std::uint64_t{0} - 4;
    expect_offset(opened->read(before, here), FERRY_SIDE_SOURCE, UINT64_MAX - 39, before);
    expect_offset(opened->write(here, before), FERRY_SIDE_DESTINATION, UINT64_MAX - 39, before);
    EXPECT_STREQ(opened->read(before, here).line().c_str(),
                 "source.offset: 18446744073709551612, must be at most 18446744073709551576 (FERRY_ERROR_OVERFLOW)");
    // Boxes: 4 rows of 10 bytes that are 20 bytes apart.
    auto box = ferry::describe_copy(ferry::view_of(here).shaped(10, 4), ferry::view_of(here).shaped(10, 4));
    box->source = opened->at(before, 20);
    expect_offset(ferry::copy(gpu, *box), FERRY_SIDE_SOURCE, UINT64_MAX - 69, before);
    // The limit is an offset without an overflow. No file is so large.
    EXPECT_EQ(opened->read(UINT64_MAX - 39, here).code(), FERRY_ERROR_OUT_OF_BOUNDS);
    // An origin that overflows by itself is named, also in a file.
    box->source = opened->at(8, 20);
    box->source.x = before;
    EXPECT_EQ(ferry::copy(gpu, *box).field(), FERRY_FIELD_X);
}

TEST_F(files, flags_and_direct_of_cpp_reach_the_call) {
    ferry_instance *const gpu = full.get();
    const temporary_file path(bytes(1));
    using ferry::file_direct;
    using ferry::file_flag;
    const auto refused = [&](ferry::file_flags flags, file_direct direct) {
        return ferry::file::open(gpu, path.path().c_str(), flags, direct).error();
    };
    EXPECT_EQ(refused(file_flag::create, file_direct::automatic).field(), FERRY_FIELD_FLAGS);
    EXPECT_EQ(refused(file_flag::keep_cache, file_direct::never).field(), FERRY_FIELD_DIRECT);
    EXPECT_TRUE(refused(file_flag::write | file_flag::sync, file_direct::never).ok());
    const status always = refused(file_flag::read, file_direct::always);
    EXPECT_TRUE(always.ok() || always.code() == FERRY_ERROR_UNSUPPORTED) << always.line().text;
    const auto reads = ferry::file::open(gpu, path.path().c_str());
    EXPECT_EQ(reads->info()->flags, FERRY_FILE_READ);
    EXPECT_EQ(reads->info()->size, 1u);
    EXPECT_TRUE(refused(file_flag::write | file_flag::truncate, file_direct::automatic).ok());
    EXPECT_EQ(reads->info()->size, 0u);
    const int descriptor = ::open(path.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    const auto info_of = [&](ferry::file_flags flags) {
        const auto opened = ferry::file::open_descriptor(gpu, descriptor, flags, file_direct::never, 2);
        return opened ? opened->info()->flags : 0;
    };
    EXPECT_EQ(info_of({}), FERRY_FILE_READ | FERRY_FILE_WRITE);
    EXPECT_EQ(info_of(file_flag::read), FERRY_FILE_READ);
    EXPECT_EQ(info_of(ferry::file_flags(FERRY_FILE_WRITE)), FERRY_FILE_WRITE);
    ::close(descriptor);
}

TEST_F(files, pieces_are_read_from_offsets_in_cpp) {
    struct tensor {
        std::uint64_t offset, address, size;
    };
    ferry_instance *const gpu = full.get();
    const bytes contents = random_bytes(100'000, 20);
    const temporary_file path(contents);
    const auto opened = ferry::file::open(gpu, path.path().c_str());
    ASSERT_TRUE(opened.ok()) << opened.error().line().text;
    const ferry::file &file = *opened;
    const device_memory memory(90'000);
    const tensor tensors[] = {{70'001, memory, 20'000}, {5, memory + 20'000, 60'000}, {0, memory + 80'000, 10'000}};
    bytes expected;
    for (const tensor &one : tensors) {
        const auto from = contents.begin() + static_cast<std::ptrdiff_t>(one.offset);
        expected.insert(expected.end(), from, from + static_cast<std::ptrdiff_t>(one.size));
    }
    const ferry::pieces all(tensors, &tensor::offset, &tensor::address, &tensor::size);
    ASSERT_TRUE(file.read_pieces(all).ok());
    EXPECT_EQ(expected, read_back(memory, expected.size()));
    EXPECT_EQ(all.list.source_file, nullptr);

    write_for_all_streams(memory, bytes(expected.size()));
    std::vector<ferry::piece> list;
    for (const tensor &one : tensors)
        list.emplace_back(ferry::source(one.offset), ferry::destination(one.address), one.size);
    const auto read = file.read_pieces_async(list, stream);
    ASSERT_TRUE(read.ok()) << read.error().line().text;
    EXPECT_TRUE(read->wait().ok());
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_EQ(expected, read_back(memory, expected.size()));

    list[1].size = contents.size();
    EXPECT_EQ(file.read_pieces(list).code(), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(file.read_pieces_async(list, stream).error().code(), FERRY_ERROR_OUT_OF_BOUNDS);
    const std::uint64_t offset[] = {0}, address[] = {memory, memory}, size[] = {1};
    const ferry::pieces unequal(ferry::sources(offset), ferry::destinations(address), ferry::sizes(size));
    EXPECT_EQ(file.read_pieces(unequal).code(), FERRY_ERROR_INVALID_ARGUMENT);
}

} // namespace
} // namespace ferry::test
