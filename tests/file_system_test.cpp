// Files that other programs change, file systems with limits, systems that refuse calls, and forks.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/dice.h"
#include "support/emulator.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/opened_file.h"
#include "support/refused_calls.h"
#include "support/sanitizer.h"
#include "support/second_process.h"
#include "support/system.h"
#include "support/temporary_file.h"

namespace ferry::test {
namespace {

constexpr std::uint32_t reads_and_writes = FERRY_FILE_READ | FERRY_FILE_WRITE;
constexpr file_mode cached = {reads_and_writes, FERRY_FILE_DIRECT_NEVER};
constexpr file_mode direct = {reads_and_writes, FERRY_FILE_DIRECT_ALWAYS};
constexpr file_mode strictly_direct = {reads_and_writes | FERRY_FILE_KEEP_CACHE};

// A descriptor of a test, which reads and writes the file without ferry.
class descriptor {
public:
    explicit descriptor(int number) : number_(number) { EXPECT_GE(number, 0) << std::strerror(errno); }
    explicit descriptor(const std::string &path, int flags = O_RDWR)
        : descriptor(::open(path.c_str(), flags | O_CLOEXEC)) {}
    ~descriptor() { ::close(number_); }
    descriptor(const descriptor &) = delete;
    operator int() const { return number_; }

    void write(std::uint64_t offset, const bytes &data) const {
        EXPECT_EQ(pwrite(number_, data.data(), data.size(), static_cast<off_t>(offset)),
                  static_cast<ssize_t>(data.size()));
    }
    bytes read(std::uint64_t offset, std::size_t size) const {
        bytes found(size);
        EXPECT_EQ(pread(number_, found.data(), size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
        return found;
    }
    void resize(std::uint64_t size) const { EXPECT_EQ(ftruncate(number_, static_cast<off_t>(size)), 0); }
    void punch(std::uint64_t offset, std::uint64_t size) const {
        EXPECT_EQ(fallocate(number_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                            static_cast<off_t>(size)),
                  0);
    }

private:
    int number_;
};

bytes part_of(const bytes &all, std::uint64_t offset, std::uint64_t size) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// ---- The same reads in several forms

constexpr std::uint64_t file_size = 1'000'000;

// Each form reads other bytes of a file of file_size bytes, and writes them to the memory one after the other.
enum class form { range, rows, pieces, range_to_host };
constexpr form all_forms[] = {form::range, form::rows, form::pieces, form::range_to_host};

struct piece_of_file {
    std::uint64_t offset, size;
};
std::vector<piece_of_file> parts_of(form which) {
    std::vector<piece_of_file> parts;
    if (which == form::rows)
        for (std::uint64_t row = 0; row < 199; ++row)
            parts.push_back({7 + row * 5000, 1000});
    else if (which == form::pieces)
        for (std::uint64_t at = 1; at < file_size - 8000; at += 7001)
            parts.push_back({at, 1 + at % 7000});
    else
        parts.push_back({0, file_size});
    return parts;
}
bytes select(form which, const bytes &contents) {
    bytes selected;
    for (const piece_of_file &part : parts_of(which)) {
        const bytes one = part_of(contents, part.offset, part.size);
        selected.insert(selected.end(), one.begin(), one.end());
    }
    return selected;
}

// Reads a file with the copies of one instance.
class reader {
public:
    reader(ferry_instance *instance, CUstream stream) : copies(instance, stream), memory_(file_size) {}

    // Returns the status. The bytes are in `found`.
    std::int32_t read(form which, const opened_file &file, bool is_async) {
        const std::vector<piece_of_file> parts = parts_of(which);
        found.assign(file_size, std::byte{0xee});
        ferry_copy_desc desc = {place_on_device(memory_), place_in(file, 0), file_size, 1, 1, {}};
        std::int32_t status;
        if (which == form::range_to_host) {
            desc.destination = place_on_host(found);
            return is_async ? copies.copy_async(desc) : copies.copy(desc);
        }
        write_for_all_streams(memory_, found);
        std::uint64_t size = 0;
        std::vector<ferry_piece> pieces;
        for (const piece_of_file &part : parts) {
            pieces.push_back({memory_ + size, part.offset, part.size});
            size += part.size;
        }
        if (which == form::pieces) {
            ferry_piece_list list;
            ferry_piece_list_set(&list, pieces.data(), pieces.size());
            list.source_file = file.get();
            status = is_async ? copies.copy_async(list) : copies.copy(list);
        } else {
            if (which == form::rows) {
                desc.source = place_in(file, parts[0].offset, parts[1].offset - parts[0].offset);
                desc.width = parts[0].size;
                desc.height = parts.size();
            }
            status = is_async ? copies.copy_async(desc) : copies.copy(desc);
        }
        found = read_back(memory_, size);
        return status;
    }

    file_copies copies;
    bytes found;

private:
    device_memory memory_;
};

// Calls change(random) on another thread again and again while the object exists.
class repeated_change {
public:
    explicit repeated_change(std::function<void(dice &)> change)
        : thread_([this, change = std::move(change)] {
              for (dice random(1); !is_over_; ++count_)
                  change(random);
          }) {}
    ~repeated_change() {
        is_over_ = true;
        thread_.join();
        EXPECT_GT(count_, 0u);
    }
    repeated_change(const repeated_change &) = delete;

private:
    std::atomic<bool> is_over_ = false;
    std::uint64_t count_ = 0;
    std::thread thread_;
};

class file_systems : public file_fixture {
protected:
    // Calls check(form, mode, status, reader) after each of many reads, in all forms, of a file that has been opened in
    // each mode.
    template <class Check> void read_often(const std::string &path, int times, const Check &check) {
        for (const file_mode &mode : {cached, direct}) {
            const opened_file file = open_file_as(basic.get(), path, mode);
            if (file) read_often(file, times, check);
        }
    }
    template <class Check> void read_often(const opened_file &file, int times, const Check &check) {
        reader to(basic.get(), stream);
        if (is_sanitized) times = (times + 2) / 3;
        for (int i = 0; i < times; ++i)
            for (const form which : all_forms) {
                if (which == form::range_to_host && !has_stream_waits()) continue;
                const std::int32_t status = to.read(which, file, i % 2 == 1);
                check(which, status, to);
                if (HasFatalFailure()) return;
            }
    }
};

// Returns the first place where `found` has neither the byte of `one` nor of `other`; otherwise its size.
std::size_t first_foreign(const bytes &found, const bytes &one, const bytes &other) {
    std::size_t at = 0;
    while (at < found.size() && (found[at] == one[at] || found[at] == other[at]))
        ++at;
    return at;
}

// ---- Files that change

TEST_F(file_systems, a_replaced_file_is_read_and_written_as_it_was_opened) {
    const bytes old = random_bytes(file_size, 1), other = random_bytes(file_size, 2);
    for (const file_mode &mode : {cached, direct}) {
        const temporary_file file(old);
        const opened_file opened = open_file_as(basic.get(), file.path(), mode);
        if (!opened) continue;
        const descriptor before(file.path());
        const auto replace = [&] {
            const temporary_file replacement(other);
            ASSERT_EQ(rename(replacement.path().c_str(), file.path().c_str()), 0);
        };
        // The first copies of short ranges open the file again, after its name has gone to another file.
        replace();
        const auto expect_old = [&](form which, std::int32_t status, const reader &to) {
            ASSERT_OK(status) << describe(to.copies.error);
            ASSERT_TRUE(to.found == select(which, old));
        };
        read_often(opened, 1, expect_old);
        {
            const repeated_change replacing([&](dice &) { replace(); });
            read_often(opened, 10, expect_old);
        }
        if (HasFatalFailure()) return;

        const device_memory memory(file_size);
        const bytes written = random_bytes(file_size, 3);
        write_for_all_streams(memory, written);
        file_copies copies(basic.get(), stream);
        ASSERT_OK(copies.copy({place_in(opened, 5), place_on_device(memory), file_size - 5, 1, 1, {}}));
        EXPECT_TRUE(before.read(5, file_size - 5) == part_of(written, 0, file_size - 5));
        EXPECT_TRUE(file.read() == other);
    }
}

TEST_F(file_systems, a_hole_that_is_punched_during_a_read_has_old_bytes_or_zeros) {
    const bytes old = random_bytes(file_size, 4), zeros(file_size);
    for (const char *const folder : {"", "/dev/shm"}) {
        const temporary_file of_folder(old);
        const std::string in_memory = std::string(folder) + "/ferry-punched-" + std::to_string(getpid());
        const std::string path = *folder ? in_memory : of_folder.path();
        {
            const descriptor file(path, O_RDWR | O_CREAT);
            file.write(0, old);
            {
                const repeated_change punching([&](dice &random) {
                    const std::uint64_t at = random.up_to(file_size - 1), size = random.size(file_size - at);
                    file.punch(at, size);
                    file.write(at, part_of(old, at, size));
                });
                read_often(path, 8, [&](form which, std::int32_t status, const reader &to) {
                    ASSERT_OK(status) << describe(to.copies.error);
                    const bytes expected = select(which, old);
                    ASSERT_EQ(first_foreign(to.found, expected, zeros), expected.size());
                });
            }
            file.punch(1234, 500'001);
            bytes punched = old;
            std::fill_n(punched.begin() + 1234, 500'001, std::byte{});
            read_often(path, 1, [&](form which, std::int32_t status, const reader &to) {
                ASSERT_OK(status) << describe(to.copies.error);
                ASSERT_TRUE(to.found == select(which, punched));
            });
        }
        unlink(in_memory.c_str());
        if (HasFailure()) return;
    }
}

TEST_F(file_systems, a_file_that_grows_during_a_read_keeps_its_bytes_and_gains_others) {
    const bytes old = random_bytes(file_size, 5), more = random_bytes(100'000, 6);
    const temporary_file temporary(old);
    const descriptor file(temporary.path());
    {
        std::uint64_t end = file_size;
        const repeated_change growing([&](dice &random) {
            if (end > 8 * file_size) file.resize(end = file_size);
            file.write(end, part_of(more, 0, 1 + random.up_to(more.size() - 1)));
            end = static_cast<std::uint64_t>(lseek(file, 0, SEEK_END));
        });
        read_often(temporary.path(), 10, [&](form which, std::int32_t status, const reader &to) {
            ASSERT_OK(status) << describe(to.copies.error);
            ASSERT_TRUE(to.found == select(which, old));
        });
    }
    for (const file_mode &mode : {cached, direct}) {
        file.resize(file_size);
        const opened_file opened = open_file_as(basic.get(), temporary.path(), mode);
        if (!opened) continue;
        const device_memory memory(file_size + more.size());
        file_copies copies(basic.get(), stream);
        ASSERT_OK(copies.copy({place_on_device(memory), place_in(opened, 0), file_size, 1, 1, {}}));
        const ferry_copy_desc longer = {place_on_device(memory), place_in(opened, 3), file_size + 1000 - 3, 1, 1, {}};
        EXPECT_EQ(copies.copy(longer), FERRY_ERROR_OUT_OF_BOUNDS);
        EXPECT_EQ(copies.error.limit, file_size);
        file.write(file_size, part_of(more, 0, 1000));
        ASSERT_OK(copies.copy(longer)) << describe(copies.error);
        bytes expected = part_of(old, 3, file_size - 3);
        expected.insert(expected.end(), more.begin(), more.begin() + 1000);
        EXPECT_TRUE(expected == read_back(memory, expected.size()));
    }
}

// The file is cut and gets its old bytes back. A read of the hole between the two has zeros.
TEST_F(file_systems, a_file_that_is_cut_during_a_read_has_old_bytes_or_zeros_or_an_end) {
    constexpr std::uint64_t cut = 400'003;
    const bytes old = random_bytes(file_size, 7), zeros(file_size), rest = part_of(old, cut, file_size - cut);
    const temporary_file temporary(old);
    const descriptor file(temporary.path());
    {
        const repeated_change cutting([&](dice &random) {
            file.resize(cut);
            if (random.one_in(2)) file.resize(file_size);
            constexpr std::uint64_t step = 2000; // the file is too short most of the time
            for (std::uint64_t at = 0; at < rest.size(); at += step)
                file.write(cut + at, part_of(rest, at, std::min(step, rest.size() - at)));
        });
        read_often(temporary.path(), 40, [&](form which, std::int32_t status, const reader &to) {
            const ferry_error_info &error = to.copies.error;
            if (status == FERRY_ERROR_OUT_OF_BOUNDS) {
                ASSERT_EQ(error.field, FERRY_FIELD_OFFSET) << describe(error);
                ASSERT_GE(error.limit, cut) << describe(error);
            } else if (status == FERRY_ERROR_FILE) {
                ASSERT_EQ(static_cast<std::int64_t>(error.value), FERRY_FILE_ENDED) << describe(error);
                ASSERT_GE(error.limit, cut) << describe(error);
            } else {
                ASSERT_OK(status) << describe(error);
                const bytes expected = select(which, old);
                ASSERT_EQ(first_foreign(to.found, expected, zeros), expected.size());
            }
        });
    }
    read_often(temporary.path(), 1, [&](form which, std::int32_t status, const reader &to) {
        ASSERT_OK(status) << describe(to.copies.error);
        ASSERT_TRUE(to.found == select(which, old));
    });
}

// ---- Systems that refuse calls

struct refusal {
    long numbers[4];
    int count;
    bool is_before_open;     // of the instance and the files; otherwise after both
    bool has_direct = false; // whether direct transfers work without the filter

    std::span<const long> calls() const { return {numbers, static_cast<std::size_t>(count)}; }
};
constexpr int no_filters = 77;

// The other process reads and writes this file with the calls that its filter leaves.
void expect_all_transfers(ferry_instance *instance, CUstream stream, const opened_file &file, const bytes &contents,
                          const descriptor &plain) {
    reader to(instance, stream);
    for (const form which : all_forms) {
        if (which == form::range_to_host && !raw().cuStreamBatchMemOp) continue;
        for (const bool is_async : {false, true}) {
            // Bytes that are not cached, so that all ways to read ahead are tried.
            EXPECT_EQ(fdatasync(plain), 0);
            EXPECT_EQ(posix_fadvise(plain, 0, 0, POSIX_FADV_DONTNEED), 0);
            EXPECT_OK(to.read(which, file, is_async)) << describe(to.copies.error);
            EXPECT_TRUE(to.found == select(which, contents));
        }
    }
    const bytes written = random_bytes(70'000, 8);
    const device_memory memory(written.size());
    write_for_all_streams(memory, written);
    EXPECT_OK(to.copies.copy({place_in(file, 5000), place_on_device(memory), written.size(), 1, 1, {}}))
        << describe(to.copies.error);
    EXPECT_TRUE(plain.read(5000, written.size()) == written);
    EXPECT_OK(to.copies.copy_async({place_in(file, 100'001, 9000), place_on_device(memory), 7000, 10, 1, {}}))
        << describe(to.copies.error);
    for (std::uint64_t row = 0; row < 10; ++row)
        EXPECT_TRUE(plain.read(100'001 + row * 9000, 7000) == part_of(written, row * 7000, 7000));
    plain.write(0, contents);
}

// Transfers themselves are refused. The copies end with the error number, and copies of memory go on.
void expect_refused_transfers(ferry_instance *instance, CUstream stream, const std::string &path,
                              const opened_file &file) {
    const opened_file durable = open_file_as(instance, path, {reads_and_writes | FERRY_FILE_SYNC});
    const device_memory memory(file_size), other(file_size);
    file_copies copies(instance, stream);
    const auto expect_error = [&](const ferry_copy_desc &desc, std::int32_t side, std::uint64_t offset) {
        for (const bool is_async : {false, true}) {
            EXPECT_EQ(is_async ? copies.copy_async(desc) : copies.copy(desc), FERRY_ERROR_FILE);
            EXPECT_EQ(copies.error.side, is_async ? FERRY_SIDE_NONE : side) << describe(copies.error);
            EXPECT_EQ(copies.error.field, FERRY_FIELD_FILE) << describe(copies.error);
            EXPECT_EQ(copies.error.value, static_cast<std::uint64_t>(EPERM)) << describe(copies.error);
            EXPECT_EQ(copies.error.limit, offset) << describe(copies.error);
        }
    };
    const ferry_copy_desc in = {place_on_device(memory), place_in(file, 77), 1000, 1, 1, {}};
    const ferry_copy_desc out = {place_in(file, 88), place_on_device(memory), 1000, 1, 1, {}};
    ferry_copy_desc out_durably = out;
    out_durably.destination.file = durable.get();
    EXPECT_OK(copies.copy(out_durably)) << describe(copies.error);
    EXPECT_TRUE(refuse_calls(std::array{static_cast<long>(SYS_fdatasync)}));
    expect_error(out_durably, FERRY_SIDE_DESTINATION, 88);
    EXPECT_OK(copies.copy(out)) << describe(copies.error);
    EXPECT_TRUE(refuse_calls(std::array{static_cast<long>(SYS_pwritev)}));
    expect_error(out, FERRY_SIDE_DESTINATION, 88);
    EXPECT_OK(copies.copy(in)) << describe(copies.error);
    EXPECT_TRUE(refuse_calls(std::array{static_cast<long>(SYS_preadv)}));
    expect_error(in, FERRY_SIDE_SOURCE, 77);
    const ferry_file_options options = {sizeof options, FERRY_FILE_READ, FERRY_FILE_DIRECT_ALWAYS, 0};
    ferry_file *refused = nullptr;
    ferry_error_info error = new_error();
    EXPECT_EQ(ferry_file_open(instance, path.c_str(), &options, &refused, &error), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(error.field, FERRY_FIELD_DIRECT) << describe(error);
    bytes here = random_bytes(file_size, 9);
    EXPECT_OK(copies.copy({place_on_device(other), place_on_host(here), file_size, 1, 1, {}}));
    EXPECT_TRUE(here == read_back(other, file_size));
}

FERRY_SECOND_PROCESS(uses_files_while_the_system_refuses_calls) {
    const auto asked = channel.receive<refusal>();
    const bytes contents = random_bytes(file_size, 10);
    const temporary_file file(contents);
    const descriptor plain(file.path());
    if (asked.is_before_open && !refuse_calls(asked.calls())) return no_filters;
    const instance_owner instance = open_or_fail(options_under_test());
    const test_stream stream;
    std::vector<opened_file> opened;
    const auto open_all = [&] {
        for (const file_mode &mode : {cached, direct, strictly_direct}) {
            opened.push_back(open_file_as(instance.get(), file.path(), mode));
            EXPECT_EQ(opened.back() != nullptr, !mode.is_direct() || asked.has_direct);
        }
    };
    open_all();
    if (!asked.is_before_open) {
        expect_all_transfers(instance.get(), stream, opened[0], contents, plain); // starts all threads
        if (!refuse_calls(asked.calls())) return no_filters;
        open_all();
    }
    for (const long number : asked.calls()) {
        EXPECT_EQ(syscall(number, -1, nullptr, 0, 0, 0), -1);
        EXPECT_EQ(errno, EPERM) << number;
    }
    for (const opened_file &one : opened)
        if (one) expect_all_transfers(instance.get(), stream, one, contents, plain);
    if (asked.count > 1) expect_refused_transfers(instance.get(), stream, file.path(), opened[0]);
    return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST_F(file_systems, a_filter_of_system_calls_changes_no_byte) {
    FERRY_NEEDS_SECOND_PROCESS();
    constexpr long statx_call = SYS_statx, preadv2_call = SYS_preadv2;
    const bool has_direct = open_file_as(basic.get(), temporary_file(bytes(1)).path(), direct) != nullptr;
    for (const bool is_before_open : {false, true})
        for (refusal asked :
             {refusal{{io_uring_setup_call}, 1, is_before_open}, refusal{{cachestat_call}, 1, is_before_open},
              refusal{{statx_call}, 1, is_before_open}, refusal{{preadv2_call}, 1, is_before_open},
              refusal{{io_uring_setup_call, cachestat_call, statx_call, preadv2_call}, 4, is_before_open}}) {
            asked.has_direct = has_direct;
            second_process other("uses_files_while_the_system_refuses_calls");
            other->send(asked);
            const int ended = other.wait();
            if (ended == no_filters) GTEST_SKIP() << "this system has no filters of system calls";
            EXPECT_EQ(ended, 0) << asked.numbers[0] << ", " << asked.count << " calls, " << is_before_open;
        }
}

// ---- Forks

constexpr std::int32_t no_driver = -1000 - CUDA_ERROR_NOT_INITIALIZED;

TEST_F(file_systems, a_forked_child_is_refused_and_copies_of_the_parent_complete) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    const bytes contents = random_bytes(20 << 20, 11), ours = random_bytes(file_size, 12);
    const temporary_file temporary(contents), target(bytes(1));
    opened_file file = open_file_as(basic.get(), temporary.path());
    const opened_file to = open_file_as(basic.get(), target.path(), {FERRY_FILE_WRITE});
    const descriptor plain(temporary.path());
    const device_memory memory(contents.size()), from(ours.size());
    write_for_all_streams(from, ours);
    bytes here(1000);
    ferry_ticket *tickets[2] = {};
    ASSERT_OK(ferry_staging_prepare(basic.get(), 0, nullptr)); // the first copy would wait for the gate
    gate before(stream);
    const ferry_copy_desc in_flight[] = {{place_on_device(memory), place_in(file, 0), contents.size(), 1, 1, {}},
                                         {place_in(to, 0), place_on_device(from), ours.size(), 1, 1, {}}};
    for (int i : {0, 1})
        ASSERT_OK(ferry_copy_async(basic.get(), &in_flight[i], nullptr, stream, &tickets[i], nullptr));

    // Returns the line of the first call that returned something else.
    const auto child = [&] {
#define RETURNS(expected, call)                                                                                        \
    if ((call) != (expected)) return __LINE__ % 250 + 1
        ferry_file *opened = file.get();
        RETURNS(no_driver, ferry_file_open(basic.get(), temporary.path().c_str(), nullptr, &opened, nullptr));
        RETURNS(nullptr, opened);
        RETURNS(no_driver, ferry_file_open_descriptor(basic.get(), plain, nullptr, &opened, nullptr));
        RETURNS(nullptr, opened);
        ferry_file_info info = {};
        info.struct_size = sizeof info;
        RETURNS(FERRY_SUCCESS, ferry_file_get_info(file.get(), &info, nullptr));
        RETURNS(contents.size(), info.size);
        RETURNS(FERRY_FILE_READ, info.flags);

        const ferry_copy_desc to_device = {place_on_device(memory), place_in(file, 0), 1000, 1, 1, {}},
                              to_host = {place_on_host(here), place_in(file, 0), 1000, 1, 1, {}},
                              to_file = {place_in(to, 0), place_on_host(here), 1000, 1, 1, {}};
        ferry_ticket *ticket = nullptr;
        for (const ferry_copy_desc &one : {to_device, to_host, to_file}) {
            RETURNS(no_driver, ferry_copy(basic.get(), &one, nullptr, nullptr));
            RETURNS(no_driver, ferry_copy_async(basic.get(), &one, nullptr, stream, &ticket, nullptr));
            RETURNS(nullptr, ticket);
            RETURNS(no_driver, ferry_copy_batch(basic.get(), &one, 1, nullptr, nullptr));
        }
        const ferry_piece piece = {memory, 0, 1000};
        ferry_piece_list list;
        ferry_piece_list_set(&list, &piece, 1);
        list.source_file = file.get();
        RETURNS(no_driver, ferry_copy_pieces(basic.get(), &list, nullptr, nullptr));
        RETURNS(no_driver, ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, nullptr));
        RETURNS(nullptr, ticket);

        RETURNS(no_driver, ferry_ticket_wait(tickets[0], 0, nullptr));
        ferry_ticket_info state = {};
        state.struct_size = sizeof state;
        RETURNS(no_driver, ferry_ticket_get_info(tickets[0], &state, nullptr));
        RETURNS(no_driver, ferry_ticket_cancel(tickets[0], nullptr));
        RETURNS(no_driver, ferry_ticket_write_status(tickets[0], memory, stream, nullptr));
        RETURNS(no_driver, ferry_ticket_release(tickets[0], nullptr));
        ferry_file_close(file.get());
        ferry_close(basic.get());
        return 0;
#undef RETURNS
    };
    EXPECT_EQ(run_in_child(child), 0) << "the line of the call, modulo 250, plus 1";
    EXPECT_EQ(here, bytes(1000));
    before.let_go();
    EXPECT_EQ(run_in_child(child), 0) << "while threads read the file";
    for (ferry_ticket *const ticket : tickets) {
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(contents == read_back(memory, contents.size()));
    EXPECT_TRUE(ours == target.read());
    file.reset();
    EXPECT_EQ(plain.read(0, 1000), part_of(contents, 0, 1000));
}

TEST_F(file_systems, forks_at_any_time_change_no_byte_of_the_parent) {
    FERRY_NEEDS_FORK();
    SKIP_WITHOUT(pages_wiped_in_children);
    const bytes contents = random_bytes(file_size, 13);
    const temporary_file temporary(contents);
    const opened_file file = open_file_as(basic.get(), temporary.path(), direct);
    const repeated_change forking([&](dice &) {
        ferry_file_info info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(run_in_child([&] {
                      const bool is_right = !file || ferry_file_get_info(file.get(), &info, nullptr) == FERRY_SUCCESS;
                      ferry_file_close(file.get());
                      return is_right ? 17 : 1;
                  }),
                  17);
    });
    read_often(temporary.path(), 20, [&](form which, std::int32_t status, const reader &to) {
        ASSERT_OK(status) << describe(to.copies.error);
        ASSERT_TRUE(to.found == select(which, contents));
    });
}

// ---- Large offsets

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST_F(file_systems, boxes_and_pieces_behind_4_GiB_arrive_in_both_directions) {
    constexpr std::uint64_t pitch = gib + 4097, width = 3001, rows = 5, slices = 2, slice_height = 6, lead = 200'005;
    constexpr std::uint64_t size = rows * slices * width;
    const bytes data = random_bytes(size, 14), other = random_bytes(size, 15);
    const temporary_file temporary(bytes(1));
    const descriptor plain(temporary.path());
    const auto offset_of = [&](std::uint64_t row) { return lead + (row / rows * slice_height + row % rows) * pitch; };
    for (std::uint64_t row = 0; row < rows * slices; ++row)
        plain.write(offset_of(row), part_of(data, row * width, width));
    constexpr std::uint64_t border = 4 * gib;
    const bytes at_border = random_bytes(100'000, 16);
    plain.write(border - 50'000, at_border);
    const device_memory memory(size + at_border.size());
    file_copies copies(basic.get(), stream);
    for (const file_mode &mode : {cached, direct}) {
        const opened_file file = open_file_as(basic.get(), temporary.path(), mode);
        if (!file) continue;
        bytes here(size);
        for (const bool to_host : {false, true}) {
            if (to_host && !has_stream_waits()) continue;
            const ferry_place memory_place = to_host ? place_on_host(here) : place_on_device(memory, width, rows);
            ferry_place packed = memory_place;
            packed.row_pitch = width;
            packed.slice_height = rows;
            const ferry_place in_file = place_in(file, lead, pitch, slice_height);
            ASSERT_OK(copies.copy({packed, in_file, width, rows, slices, {}})) << describe(copies.error);
            EXPECT_TRUE(data == (to_host ? here : read_back(memory, size)));
            if (to_host)
                here = other;
            else
                write_for_all_streams(memory, other);
            ASSERT_OK(copies.copy_async({in_file, packed, width, rows, slices, {}})) << describe(copies.error);
            for (std::uint64_t row = 0; row < rows * slices; ++row) {
                EXPECT_TRUE(plain.read(offset_of(row), width) == part_of(other, row * width, width)) << row;
                plain.write(offset_of(row), part_of(data, row * width, width));
            }
        }
        std::vector<ferry_piece> pieces;
        std::uint64_t to = 0;
        for (const std::uint64_t from : {border - 50'000, border - 20'001, border - 1, border, border + 1}) {
            pieces.push_back({memory + to, from, 20'000});
            to += 20'000;
        }
        ferry_piece_list list;
        ferry_piece_list_set(&list, pieces.data(), pieces.size());
        list.source_file = file.get();
        ASSERT_OK(copies.copy(list)) << describe(copies.error);
        for (const ferry_piece &piece : pieces)
            EXPECT_TRUE(read_back(piece.destination, piece.size) ==
                        part_of(at_border, piece.source - (border - 50'000), piece.size))
                << piece.source;
        ASSERT_OK(copies.copy({place_on_device(memory), place_in(file, border - 49'999), 99'999, 1, 1, {}}));
        EXPECT_TRUE(read_back(memory, 99'999) == part_of(at_border, 1, 99'999));
    }
}

// The longest file that Linux has, in memory.
TEST_F(file_systems, the_last_byte_of_the_longest_file_arrives_and_bytes_behind_it_are_refused) {
    constexpr std::uint64_t end = INT64_MAX, width = 5000;
    const descriptor plain(memfd_create("ferry", MFD_CLOEXEC));
    if (ftruncate(plain, INT64_MAX) != 0) GTEST_SKIP() << "no file of 8 EiB: " << std::strerror(errno);
    const bytes data = random_bytes(width, 17), other = random_bytes(width, 18);
    const device_memory memory(4 * width);
    bytes here(width);
    file_copies copies(full.get(), stream);
    for (const file_mode &mode : {cached, direct}) {
        const std::string path = "/proc/self/fd/" + std::to_string(plain);
        const opened_file file = open_file_as(full.get(), path, mode);
        if (!file) continue;
        plain.write(end - width, data);
        ASSERT_OK(copies.copy({place_on_device(memory), place_in(file, end - width), width, 1, 1, {}}))
            << describe(copies.error);
        EXPECT_EQ(read_back(memory, width), data);
        write_for_all_streams(memory, other);
        ASSERT_OK(copies.copy({place_in(file, end - width), place_on_device(memory), width, 1, 1, {}}))
            << describe(copies.error);
        EXPECT_EQ(plain.read(end - width, width), other);

        const struct {
            std::uint64_t offset, row_pitch, slice_height, rows, slices;
            std::int32_t status, field; // of rows of 1000 bytes
            std::uint64_t value, limit;
        } behind[] = {
            {end - 999, 0, 0, 1, 1, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_OFFSET, end + 1, end},
            {end, 0, 0, 1, 1, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_OFFSET, end + 1000, end},
            {end + 4097, 0, 0, 1, 1, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_OFFSET, end + 5097, end},
            {UINT64_MAX - 999, 0, 0, 1, 1, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_OFFSET, UINT64_MAX, end},
            {UINT64_MAX, 0, 0, 1, 1, FERRY_ERROR_OVERFLOW, FERRY_FIELD_OFFSET, UINT64_MAX, UINT64_MAX - 999},
            {end - 2000, 1001, 0, 2, 1, FERRY_ERROR_OUT_OF_BOUNDS, FERRY_FIELD_OFFSET, end + 1, end},
            {end - (std::uint64_t{1} << 40), std::uint64_t{1} << 30, 1024, 1, 2, FERRY_ERROR_OUT_OF_BOUNDS,
             FERRY_FIELD_OFFSET, end + 1000, end},
            {UINT64_MAX - 2000, 2000, 0, 2, 1, FERRY_ERROR_OVERFLOW, FERRY_FIELD_OFFSET, UINT64_MAX - 2000,
             UINT64_MAX - 2999},
            {1, std::uint64_t{1} << 30, std::uint64_t{1} << 33, 1, 3, FERRY_ERROR_OVERFLOW, FERRY_FIELD_DEPTH, 3, 2},
            {0, std::uint64_t{1} << 30, std::uint64_t{1} << 40, 1, 2, FERRY_ERROR_OVERFLOW, FERRY_FIELD_SLICE_HEIGHT,
             std::uint64_t{1} << 40, UINT64_MAX >> 30},
        };
        for (const auto &one : behind)
            for (const bool reads : {false, true})
                for (const bool on_host : {false, true}) {
                    const ferry_place in_file = place_in(file, one.offset, one.row_pitch, one.slice_height);
                    const ferry_place in_memory = on_host ? place_on_host(here) : place_on_device(memory);
                    const ferry_copy_desc desc = {
                        reads ? in_memory : in_file, reads ? in_file : in_memory, 1000, one.rows, one.slices, {}};
                    for (const bool is_async : {false, true}) {
                        EXPECT_EQ(is_async ? copies.copy_async(desc) : copies.copy(desc), one.status)
                            << describe(copies.error);
                        EXPECT_EQ(copies.error.field, one.field) << describe(copies.error);
                        EXPECT_EQ(copies.error.value, one.value) << describe(copies.error);
                        EXPECT_EQ(copies.error.limit, one.limit) << describe(copies.error);
                    }
                }
        for (const std::uint64_t offset : {end - 999, end + 1, std::uint64_t{UINT64_MAX}}) {
            const ferry_piece piece = {memory, offset, 1000};
            ferry_piece_list list;
            ferry_piece_list_set(&list, &piece, 1);
            list.source_file = file.get();
            EXPECT_EQ(copies.copy(list), FERRY_ERROR_OUT_OF_BOUNDS) << describe(copies.error);
            EXPECT_EQ(copies.error.value, offset == UINT64_MAX ? offset : offset + 1000) << describe(copies.error);
            EXPECT_EQ(copies.error.limit, end);
        }
        EXPECT_EQ(plain.read(end - width, width), other);
    }
}

// ---- Special files

// These files say that they have no bytes, or more than they have.
TEST_F(file_systems, a_file_that_the_system_makes_up_ends_where_it_says_or_where_its_bytes_end) {
    const device_memory memory(8192);
    file_copies copies(basic.get(), stream);
    for (const char *const path : {"/proc/self/maps", "/proc/self/status"}) {
        const opened_file file = open_file_as(basic.get(), path);
        ferry_file_info info = {};
        info.struct_size = sizeof info;
        ASSERT_OK(ferry_file_get_info(file.get(), &info, nullptr));
        EXPECT_EQ(info.size, 0u);
        EXPECT_EQ(copies.copy({place_on_device(memory), place_in(file, 0), 1, 1, 1, {}}), FERRY_ERROR_OUT_OF_BOUNDS);
        EXPECT_EQ(copies.error.field, FERRY_FIELD_OFFSET);
        EXPECT_EQ(copies.error.limit, 0u);
        EXPECT_OK(copies.copy({place_on_device(memory), place_in(file, 0), 0, 1, 1, {}}));
        EXPECT_FALSE(open_file_as(basic.get(), path, {FERRY_FILE_READ, FERRY_FILE_DIRECT_ALWAYS}));
        EXPECT_FALSE(open_file_as(basic.get(), path, {FERRY_FILE_READ | FERRY_FILE_KEEP_CACHE}));
    }
    const char *const short_file = "/sys/kernel/mm/transparent_hugepage/enabled"; // of 4096 bytes, it says
    if (access(short_file, R_OK) != 0) GTEST_SKIP() << "no " << short_file;
    const opened_file file = open_file_as(basic.get(), short_file);
    bytes contents(4096);
    const ssize_t size = pread(descriptor(short_file, O_RDONLY), contents.data(), contents.size(), 0);
    ASSERT_GT(size, 0);
    contents.resize(static_cast<std::size_t>(size));
    ASSERT_OK(copies.copy({place_on_device(memory), place_in(file, 0), contents.size(), 1, 1, {}}));
    EXPECT_EQ(read_back(memory, contents.size()), contents);
    EXPECT_EQ(copies.copy({place_on_device(memory), place_in(file, 0), contents.size() + 1, 1, 1, {}}),
              FERRY_ERROR_FILE);
    EXPECT_EQ(static_cast<std::int64_t>(copies.error.value), FERRY_FILE_ENDED) << describe(copies.error);
    EXPECT_EQ(copies.error.limit, contents.size());
}

TEST_F(file_systems, descriptors_of_other_objects_are_refused) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const descriptor one(sockets[0]), two(sockets[1]), folder("/", O_RDONLY | O_DIRECTORY), null("/dev/null");
    const temporary_file file(bytes(1));
    const descriptor only_path(file.path(), O_PATH);
    const std::string pipe_path = file.path() + "-pipe";
    ASSERT_EQ(mkfifo(pipe_path.c_str(), 0600), 0);
    const descriptor pipe(pipe_path);
    unlink(pipe_path.c_str());
    const auto open_descriptor = [&](int number, ferry_error_info &error) {
        ferry_file *opened = reinterpret_cast<ferry_file *>(1);
        const std::int32_t status = ferry_file_open_descriptor(basic.get(), number, nullptr, &opened, &error);
        EXPECT_EQ(opened, nullptr);
        EXPECT_EQ(error.field, FERRY_FIELD_OS_HANDLE) << describe(error);
        return status;
    };
    ferry_error_info error = new_error();
    for (const descriptor *const bad : {&one, &folder, &null, &pipe})
        EXPECT_EQ(open_descriptor(*bad, error), FERRY_ERROR_HANDLE) << describe(error);
    EXPECT_EQ(open_descriptor(only_path, error), FERRY_ERROR_FILE) << describe(error);
    EXPECT_EQ(error.value, static_cast<std::uint64_t>(EBADF));
}

TEST_F(file_systems, paths_that_the_system_refuses_have_its_error_number) {
    const temporary_file file(bytes(1000, std::byte{5}));
    const std::string link = file.path() + "-link", endless = file.path() + "-endless",
                      socket_path = file.path() + "-s";
    ASSERT_EQ(symlink(file.path().c_str(), link.c_str()), 0);
    ASSERT_EQ(symlink(endless.c_str(), endless.c_str()), 0);
    const descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    ASSERT_LT(socket_path.size(), sizeof address.sun_path);
    std::copy(socket_path.begin(), socket_path.end(), address.sun_path);
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
    const auto refuse = [&](const std::string &path, int number, std::uint32_t flags = FERRY_FILE_READ) {
        const ferry_file_options options = {sizeof options, flags, FERRY_FILE_DIRECT_AUTO, 0};
        ferry_file *opened = nullptr;
        ferry_error_info error = new_error();
        EXPECT_EQ(ferry_file_open(basic.get(), path.c_str(), &options, &opened, &error), FERRY_ERROR_FILE) << path;
        EXPECT_EQ(error.field, FERRY_FIELD_PATH) << describe(error);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(number)) << describe(error);
    };
    refuse(endless, ELOOP);
    refuse(socket_path, ENXIO);
    refuse("/", EISDIR, FERRY_FILE_WRITE);
    refuse(file.path() + "/below", ENOTDIR);
    refuse(std::string(5000, 'x'), ENAMETOOLONG);
    refuse("", ENOENT);
    EXPECT_TRUE(open_file_as(basic.get(), link));

    // Root may read all files, so another user tries.
    const uid_t user = geteuid();
    constexpr uid_t nobody = 65534;
    ASSERT_EQ(chmod(file.path().c_str(), 0000), 0);
    if (user != 0 || seteuid(nobody) == 0) {
        refuse(file.path(), EACCES);
        refuse(file.path(), EACCES, FERRY_FILE_WRITE);
        refuse(file.path(), EACCES, reads_and_writes);
        EXPECT_EQ(seteuid(user), 0);
        EXPECT_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0); // the change of the user has cleared it
    }
    for (const std::string &path : {link, endless, socket_path})
        unlink(path.c_str());
}

// A seal works like a file system that refuses single calls.
TEST_F(file_systems, a_sealed_file_is_read_and_refuses_what_its_seals_forbid) {
    const bytes contents = random_bytes(100'000, 19);
    const descriptor plain(memfd_create("ferry", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    plain.write(0, contents);
    ferry_file *opened = nullptr;
    ASSERT_OK(ferry_file_open_descriptor(basic.get(), plain, nullptr, &opened, nullptr));
    const opened_file file(opened);
    const device_memory memory(contents.size());
    write_for_all_streams(memory, bytes(contents.size()));
    file_copies copies(basic.get(), stream);
    const auto expect_refused_write = [&](std::uint64_t offset) {
        EXPECT_EQ(copies.copy({place_in(file, offset), place_on_device(memory), 1000, 1, 1, {}}), FERRY_ERROR_FILE);
        EXPECT_EQ(copies.error.value, static_cast<std::uint64_t>(EPERM)) << describe(copies.error);
        EXPECT_EQ(copies.error.limit, offset) << describe(copies.error);
    };
    ASSERT_EQ(fcntl(plain, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
    expect_refused_write(contents.size());
    ASSERT_EQ(fcntl(plain, F_ADD_SEALS, F_SEAL_WRITE), 0);
    expect_refused_write(0);
    ASSERT_OK(copies.copy({place_on_device(memory), place_in(file, 0), contents.size(), 1, 1, {}}));
    EXPECT_EQ(read_back(memory, contents.size()), contents);
}

} // namespace
} // namespace ferry::test
