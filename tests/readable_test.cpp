// Which host memory the process may read: one range, and many ranges with few system calls.
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#if !defined(_WIN32)
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "support/system.h"
#include "system/pages.h"
#include "system/readable.h"

namespace ferry::test {
namespace {

struct mapped_pages : mapped_memory {
    explicit mapped_pages(std::size_t count) : mapped_memory(count * page_size()) {}

    void close(std::size_t index) const { allow(index * page, page, page_access::none); }
    void unmap(std::size_t index) const { remove(index * page, page); }

    const std::size_t page = page_size();
    const std::uint64_t first = address();
};

bool are_readable(const std::vector<address_span> &ranges) {
    const auto range = [&](std::size_t at) noexcept { return ranges[at]; };
    errno = EDOM;
    const bool all = host_ranges_are_readable(address_space(), ranges.size(), range);
    EXPECT_EQ(errno, EDOM);
    address_space mappings;
    mappings.open();
    EXPECT_EQ(host_ranges_are_readable(mappings, ranges.size(), range), all);
    EXPECT_EQ(errno, EDOM);
    bool each = true;
    for (const address_span &range : ranges)
        each = each && host_range_is_readable(range.first, range.last);
    EXPECT_EQ(all, each);
    return all;
}

// Two ranges of half a page in each page.
std::vector<address_span> halves_of(const mapped_pages &pages) {
    std::vector<address_span> ranges;
    for (std::uint64_t at = pages.first; at < pages.first + pages.size(); at += pages.page / 2)
        ranges.push_back({at, at + pages.page / 2 - 1});
    return ranges;
}

constexpr std::size_t counts[] = {1, 2, 16, 17, 255, 256, 257, 1500, 4096}; // of pages, thus of addresses to test

TEST(readable, no_ranges_are_readable) { EXPECT_TRUE(are_readable({})); }

TEST(readable, pages_are_readable_before_the_program_has_touched_them) {
    for (const std::size_t count : counts)
        EXPECT_TRUE(are_readable(halves_of(mapped_pages(count)))) << count;
}

TEST(readable, one_unreadable_page_is_found_wherever_it_is) {
    for (const std::size_t count : counts)
        for (const std::size_t bad : {std::size_t{0}, count / 2, count - 1})
            for (const bool is_unmapped : {false, true}) {
                const mapped_pages pages(count);
                if (is_unmapped)
                    pages.unmap(bad);
                else
                    pages.close(bad);
                EXPECT_FALSE(are_readable(halves_of(pages))) << bad << " of " << count;
            }
}

TEST(readable, only_the_ends_of_a_range_count) {
    const mapped_pages pages(600);
    for (std::size_t i = 1; i < 600; i += 3)
        pages.close(i);
    std::vector<address_span> ranges;
    for (std::size_t i = 0; i < 600; i += 3)
        ranges.push_back({pages.first + i * pages.page, pages.first + (i + 3) * pages.page - 1});
    EXPECT_TRUE(are_readable(ranges));
    ranges[150].last -= pages.page;
    EXPECT_FALSE(are_readable(ranges));
}

TEST(readable, a_range_at_either_end_of_the_address_space_is_unreadable) {
    EXPECT_FALSE(are_readable({{0, 7}}));
    EXPECT_FALSE(are_readable({{UINT64_MAX - 7, UINT64_MAX}}));
}

#if !defined(_WIN32)

std::size_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(readable, a_file_is_readable_up_to_its_end_and_not_beyond) {
    constexpr std::size_t pages = 40, kept = 25;
    const std::size_t page = page_size();
    const int file = memfd_create("shortened", MFD_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(pages * page)), 0);
    for (const int sharing : {MAP_SHARED, MAP_PRIVATE}) {
        ASSERT_EQ(ftruncate(file, static_cast<off_t>(pages * page)), 0);
        void *const mapped = mmap(nullptr, pages * page, PROT_READ, sharing, file, 0);
        ASSERT_NE(mapped, MAP_FAILED);
        const auto first = reinterpret_cast<std::uintptr_t>(mapped);
        const mapped_pages other(3); // in between, the mapping changes
        const auto ranges_up_to = [&](std::size_t count) {
            std::vector<address_span> ranges;
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t at = i * 7 % count; // not in order
                ranges.push_back({first + at * page + 5, first + at * page + 9});
                if (i % 8 == 7) ranges.push_back({other.first, other.first + 100});
            }
            return ranges;
        };
        EXPECT_TRUE(are_readable(ranges_up_to(pages)));
        ASSERT_EQ(ftruncate(file, static_cast<off_t>(kept * page)), 0);
        EXPECT_TRUE(are_readable(ranges_up_to(kept)));
        EXPECT_FALSE(are_readable(ranges_up_to(kept + 1)));
        EXPECT_FALSE(are_readable(ranges_up_to(pages)));
        munmap(mapped, pages * page);
    }
    close(file);
}

// Fewer mappings than are remembered, and more, visited in turn. One of them is cut short.
TEST(readable, a_file_that_is_too_short_is_found_among_many_mappings) {
    constexpr std::size_t pages = 4;
    const std::size_t page = page_size();
    for (const std::size_t files : {20, 70}) {
        SCOPED_TRACE(files);
        std::vector<int> opened;
        std::vector<std::uint64_t> first;
        for (std::size_t i = 0; i < files; ++i) {
            opened.push_back(memfd_create("one of many", MFD_CLOEXEC));
            ASSERT_GE(opened.back(), 0);
            ASSERT_EQ(ftruncate(opened.back(), static_cast<off_t>(pages * page)), 0);
            void *const mapped = mmap(nullptr, pages * page, PROT_READ, MAP_SHARED, opened.back(), 0);
            ASSERT_NE(mapped, MAP_FAILED);
            first.push_back(reinterpret_cast<std::uintptr_t>(mapped));
        }
        std::vector<address_span> ranges;
        for (const std::size_t at : {2, 0, 3, 1}) // the highest page is neither the first nor the last one visited
            for (const std::uint64_t mapping : first)
                ranges.push_back({mapping + at * page, mapping + at * page + 9});
        EXPECT_TRUE(are_readable(ranges));
        for (const std::size_t cut : {std::size_t{0}, files / 2, files - 1}) {
            ASSERT_EQ(ftruncate(opened[cut], static_cast<off_t>(3 * page)), 0);
            EXPECT_FALSE(are_readable(ranges)) << cut;
            ASSERT_EQ(ftruncate(opened[cut], static_cast<off_t>(pages * page)), 0);
        }
        EXPECT_TRUE(are_readable(ranges));
        for (std::size_t i = 0; i < files; ++i) {
            munmap(reinterpret_cast<void *>(first[i]), pages * page);
            close(opened[i]);
        }
    }
}

TEST(readable, the_tests_leave_no_file_open) {
    const std::size_t before = open_files();
    const mapped_pages pages(600);
    EXPECT_TRUE(are_readable(halves_of(pages)));
    pages.close(300);
    EXPECT_FALSE(are_readable(halves_of(pages)));
    EXPECT_EQ(open_files(), before);
}

TEST(readable, without_file_descriptors_each_address_is_tested_by_itself) {
    const mapped_pages pages(600);
    rlimit files = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    const rlimit none = {0, files.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_LT(open("/dev/null", O_RDONLY), 0);
    EXPECT_TRUE(are_readable(halves_of(pages)));
    pages.close(599);
    EXPECT_FALSE(are_readable(halves_of(pages)));
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

TEST(readable, a_page_that_does_not_arrive_holds_up_only_its_own_call) {
    const mapped_pages stuck(600), others(600);
    const auto faults = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
    uffdio_api api = {.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register all = {.range = {stuck.first, stuck.size()}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &all) != 0) {
        close(faults);
        GTEST_SKIP() << "the system refuses userfaultfd";
    }
    std::thread waiting([&] { EXPECT_TRUE(are_readable(halves_of(stuck))); });
    uffd_msg fault = {};
    EXPECT_EQ(read(faults, &fault, sizeof fault), static_cast<ssize_t>(sizeof fault)); // the thread waits
    EXPECT_TRUE(are_readable(halves_of(others)));
    uffdio_zeropage zeros = {.range = {stuck.first, stuck.size()}, .mode = 0, .zeropage = 0};
    EXPECT_EQ(ioctl(faults, UFFDIO_ZEROPAGE, &zeros), 0);
    waiting.join();
    close(faults);
}

#endif

} // namespace
} // namespace ferry::test
