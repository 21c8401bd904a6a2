// Which host memory the process may read or write: one range, and many ranges with few system calls.
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#if !defined(_WIN32)
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "support/emulator.h"
#include "support/system.h"
#include "system/host_access.h"
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

// Returns the first address of `range` that cannot be used, or 0. Asks in both ways: for single mappings, where the
// system supports that, and by the list of all mappings.
std::uint64_t first_barred(const address_span &range, host_use use) {
    std::uint64_t found[2] = {};
    for (const bool is_listed : {false, true}) {
        address_space mappings;
        if (!is_listed) mappings.open();
        errno = EDOM;
        host_access access(mappings);
        address_span barred;
        if (access.find_barred(range, use, barred)) {
            EXPECT_GE(barred.first, range.first);
            EXPECT_LE(barred.last, range.last);
            found[is_listed] = barred.first;
        }
        EXPECT_EQ(errno, EDOM);
    }
    EXPECT_EQ(found[0], found[1]);
    return found[0];
}

TEST(host_access, memory_of_the_program_can_be_used) {
    const mapped_pages pages(40);
    std::vector<std::byte> heap(100);
    const auto first = reinterpret_cast<std::uintptr_t>(heap.data());
    for (const host_use use : {host_use::read, host_use::write}) {
        EXPECT_EQ(first_barred({pages.first, pages.first + pages.size() - 1}, use), 0u);
        EXPECT_EQ(first_barred({first, first + 99}, use), 0u);
        EXPECT_EQ(first_barred({first + 99, first + 99}, use), 0u);
    }
}

TEST(host_access, pages_are_used_as_their_protection_allows) {
    const mapped_pages pages(9);
    const auto at = [&](std::size_t page) { return pages.first + page * pages.page; };
    pages.allow(3 * pages.page, pages.page, page_access::read);
    pages.allow(6 * pages.page, pages.page, page_access::none);
    const address_span all = {pages.first, pages.first + pages.size() - 1};
    EXPECT_EQ(first_barred(all, host_use::read), at(6));
    EXPECT_EQ(first_barred(all, host_use::write), at(3));
    EXPECT_EQ(first_barred({at(3) + 5, at(3) + 5}, host_use::read), 0u);
    EXPECT_EQ(first_barred({at(3) + 5, at(3) + 5}, host_use::write), at(3) + 5);
    EXPECT_EQ(first_barred({at(4), at(6) - 1}, host_use::write), 0u);
    EXPECT_EQ(first_barred({at(4), at(6)}, host_use::write), at(6));
}

TEST(host_access, a_hole_between_mappings_is_found_wherever_it_is) {
    for (const std::size_t hole : {0, 1, 4, 7}) {
        const mapped_pages pages(8);
        pages.unmap(hole);
        const address_span all = {pages.first, pages.first + pages.size() - 1};
        for (const host_use use : {host_use::read, host_use::write})
            EXPECT_EQ(first_barred(all, use), pages.first + hole * pages.page) << hole;
    }
    EXPECT_EQ(first_barred({16, 20}, host_use::read), 16u);
    EXPECT_EQ(first_barred({UINT64_MAX - 7, UINT64_MAX}, host_use::write), UINT64_MAX - 7);
}

TEST(host_access, a_barred_range_ends_with_its_mapping_or_hole) {
    const mapped_pages pages(9);
    pages.unmap(2);
    pages.close(5);
    address_space mappings;
    mappings.open();
    host_access access(mappings);
    address_span barred, range = {pages.first, pages.first + pages.size() - 1};
    for (const std::size_t page : {std::size_t{2}, std::size_t{5}}) {
        ASSERT_TRUE(access.find_barred(range, host_use::write, barred));
        EXPECT_EQ(barred.first, pages.first + page * pages.page);
        EXPECT_EQ(barred.last, pages.first + (page + 1) * pages.page - 1);
        range.first = barred.last + 1;
    }
    EXPECT_FALSE(access.find_barred(range, host_use::write, barred));
}

TEST(host_access, the_list_of_mappings_is_searched_to_its_end) {
    std::vector<std::optional<mapped_pages>> many(300); // the list no longer fits into one read
    for (std::optional<mapped_pages> &pages : many) {
        pages.emplace(3);
        pages->close(1);
    }
    for (const std::optional<mapped_pages> &pages : many) {
        const address_span all = {pages->first, pages->first + pages->size() - 1};
        EXPECT_EQ(first_barred(all, host_use::read), pages->first + pages->page);
    }
}

// Against a test of each byte.
TEST(host_access, the_gaps_between_rows_are_not_touched) {
    std::mt19937 random(7);
    const auto draw = [&](std::uint64_t from, std::uint64_t to) {
        return std::uniform_int_distribution<std::uint64_t>(from, to)(random);
    };
    for (int round = 0; round < 3000; ++round) {
        row_layout rows = {1000, draw(1, 6), draw(1, 5), 0, draw(1, 4), 0};
        rows.row_pitch = rows.width + draw(0, 4);
        rows.slice_pitch = rows.height * rows.row_pitch + draw(0, 9);
        std::vector<bool> touched(1300);
        for (std::uint64_t z = 0; z < rows.depth; ++z)
            for (std::uint64_t y = 0; y < rows.height; ++y)
                for (std::uint64_t x = 0; x < rows.width; ++x)
                    touched[rows.first + z * rows.slice_pitch + y * rows.row_pitch + x] = true;
        const std::uint64_t first = draw(980, 1200), last = first + draw(0, 12);
        bool expected = false;
        for (std::uint64_t at = first; at <= last; ++at)
            expected = expected || touched[at];
        ASSERT_EQ(rows.touches({first, last}), expected) << "round " << round;
    }
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

TEST(readable, a_page_that_does_not_arrive_blocks_only_its_own_call) {
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

// A mapped file that is known by its name, by its descriptor, or in no way that counts.
struct mapped_file {
    enum class kind { named, long_named, open, forgotten };

    mapped_file(kind how, std::size_t pages, std::size_t kept, int sharing, int access) : size_(pages * page) {
        if (how == kind::named || how == kind::long_named) {
            std::string folder = top_;
            for (int i = 0; how == kind::long_named && i < 4; ++i)
                folder += "/" + std::string(200, 'n');
            std::filesystem::create_directories(folder);
            name_ = folder + "/file with a space";
            file_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        } else {
            file_ = memfd_create("host access", MFD_CLOEXEC);
        }
        EXPECT_EQ(ftruncate(file_, static_cast<off_t>(size_)), 0);
        address_ = mmap(nullptr, size_, access, sharing, file_, 0);
        EXPECT_NE(address_, MAP_FAILED);
        EXPECT_EQ(ftruncate(file_, static_cast<off_t>(kept * page)), 0);
        if (how == kind::open) return;
        close(file_);
        file_ = -1;
    }
    ~mapped_file() {
        munmap(address_, size_);
        if (file_ >= 0) close(file_);
        std::filesystem::remove_all(top_);
    }
    mapped_file(const mapped_file &) = delete;

    std::uint64_t at(std::size_t pages) const { return reinterpret_cast<std::uintptr_t>(address_) + pages * page; }
    std::int64_t blocks() const {
        struct stat found = {};
        EXPECT_EQ(name_.empty() ? fstat(file_, &found) : stat(name_.c_str(), &found), 0);
        return found.st_blocks;
    }

    const std::size_t page = page_size();

private:
    const std::string top_ = testing::TempDir() + "ferry_host_access";
    std::size_t size_;
    std::string name_;
    int file_ = -1;
    void *address_ = nullptr;
};

TEST(host_access, a_file_can_be_used_up_to_its_end_and_not_beyond) {
    using kind = mapped_file::kind;
    for (const kind how : {kind::named, kind::long_named, kind::open, kind::forgotten})
        for (const int sharing : {MAP_SHARED, MAP_PRIVATE})
            for (const host_use use : {host_use::read, host_use::write}) {
                SCOPED_TRACE(testing::Message() << static_cast<int>(how) << ", sharing " << sharing);
                const mapped_file file(how, 8, 5, sharing, PROT_READ | PROT_WRITE);
                EXPECT_EQ(first_barred({file.at(0), file.at(5) - 1}, use), 0u);
                const bool is_size_known = how == kind::named || how == kind::open;
                EXPECT_EQ(first_barred({file.at(1), file.at(5)}, use), file.at(is_size_known ? 5 : 1));
                EXPECT_EQ(first_barred({file.at(6), file.at(7)}, use), file.at(6));
            }
}

TEST(host_access, a_mapping_of_a_file_is_used_as_its_protection_allows) {
    const mapped_file to_read(mapped_file::kind::open, 2, 2, MAP_SHARED, PROT_READ);
    EXPECT_EQ(first_barred({to_read.at(0), to_read.at(1)}, host_use::read), 0u);
    EXPECT_EQ(first_barred({to_read.at(0), to_read.at(1)}, host_use::write), to_read.at(0));
    const mapped_file to_write(mapped_file::kind::open, 2, 2, MAP_SHARED, PROT_WRITE);
    EXPECT_EQ(first_barred({to_write.at(0), to_write.at(1)}, host_use::read), 0u) << "processors read it all the same";
    EXPECT_EQ(first_barred({to_write.at(0), to_write.at(1)}, host_use::write), 0u);
    const mapped_file closed(mapped_file::kind::open, 2, 2, MAP_SHARED, PROT_NONE);
    for (const host_use use : {host_use::read, host_use::write})
        EXPECT_EQ(first_barred({closed.at(0), closed.at(1)}, use), closed.at(0));
}

TEST(host_access, the_holes_of_files_stay_holes) {
    for (const mapped_file::kind how : {mapped_file::kind::named, mapped_file::kind::open}) {
        const mapped_file file(how, 512, 512, MAP_SHARED, PROT_READ | PROT_WRITE);
        ASSERT_EQ(file.blocks(), 0);
        for (const host_use use : {host_use::read, host_use::write})
            for (const std::size_t pages : {1, 100, 512})
                EXPECT_EQ(first_barred({file.at(0), file.at(pages) - 1}, use), 0u);
        EXPECT_EQ(file.blocks(), 0);
    }
}

TEST(host_access, untouched_shared_memory_stays_untouched) {
    constexpr std::size_t pages = 16;
    const std::size_t size = pages * page_size();
    void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    for (const host_use use : {host_use::read, host_use::write})
        EXPECT_EQ(first_barred({first, first + size - 1}, use), 0u);
    unsigned char is_resident[pages] = {};
    ASSERT_EQ(mincore(memory, size, is_resident), 0);
    for (const unsigned char one : is_resident)
        EXPECT_EQ(one & 1, 0);
    munmap(memory, size);
}

TEST(host_access, the_end_of_a_range_in_a_guard_region_is_found) {
    SKIP_WITHOUT(guard_regions);
    const mapped_pages pages(4);
    constexpr int install_guard = 102; // MADV_GUARD_INSTALL, Linux 6.13
    if (madvise(pages.data() + pages.page, pages.page, install_guard) != 0) GTEST_SKIP() << "no guard regions";
    const address_space mappings;
    host_access access(mappings);
    const std::uint64_t guard = pages.first + pages.page;
    EXPECT_TRUE(access.has_guarded_end({pages.first, guard}));
    EXPECT_TRUE(access.has_guarded_end({guard, guard + pages.page}));
    EXPECT_FALSE(access.has_guarded_end({pages.first, guard - 1}));
    EXPECT_FALSE(access.has_guarded_end({guard + pages.page, guard + 2 * pages.page - 1}));
}

TEST(host_access, the_search_leaves_no_file_open) {
    const std::size_t before = open_files();
    {
        const mapped_file file(mapped_file::kind::forgotten, 4, 2, MAP_SHARED, PROT_READ | PROT_WRITE);
        EXPECT_EQ(first_barred({file.at(0), file.at(3)}, host_use::write), file.at(0));
    }
    EXPECT_EQ(open_files(), before);
}

#endif

} // namespace
} // namespace ferry::test
