// Copies of host memory that the process cannot read or write. Full checks refuse them before anything is enqueued;
// basic checks leave them to the driver, which returns an error or crashes.
#include <functional>
#include <memory>
#include <optional>

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "support/emulator.h"
#include "support/how.h"
#include "support/piece_batch.h"
#include "support/raw_objects.h"
#include "support/second_process.h"
#include "support/system.h"
#include "system/pages.h"

namespace ferry::test {
namespace {

enum class defect { read_only, closed, closed_half, hole, read_only_file, short_file, short_private_file };
struct defective {
    defect what;
    const char *name;
    bool can_be_read;
};
constexpr defective defects[] = {
    {defect::read_only, "read-only memory", true},
    {defect::closed, "memory without access", false},
    {defect::closed_half, "memory whose second half is without access", false},
    {defect::hole, "memory with a hole", false},
#if !defined(_WIN32)
    {defect::read_only_file, "a read-only mapping of a file", true},
    {defect::short_file, "a file that is shorter than its mapping", false},
    {defect::short_private_file, "a private mapping of such a file", false},
#endif
};
constexpr std::size_t sizes[] = {std::size_t{64} << 10, std::size_t{8} << 20};

// Memory of zeros with a defect. Its first page can be read, unless the whole memory is closed.
class bad_memory {
public:
    bad_memory(defect what, std::size_t size) : size_(size) {
#if !defined(_WIN32)
        if (what >= defect::read_only_file) {
            const bool is_short = what != defect::read_only_file;
            file_ = memfd_create("bad memory", MFD_CLOEXEC);
            EXPECT_EQ(ftruncate(file_, static_cast<off_t>(size)), 0);
            mapped_ = mmap(nullptr, size, is_short ? PROT_READ | PROT_WRITE : PROT_READ,
                           what == defect::short_private_file ? MAP_PRIVATE : MAP_SHARED, file_, 0);
            EXPECT_NE(mapped_, MAP_FAILED);
            EXPECT_EQ(ftruncate(file_, static_cast<off_t>(is_short ? size / 2 : size)), 0);
            return;
        }
#endif
        pages_ = std::make_unique<mapped_memory>(size);
        if (what == defect::read_only)
            pages_->allow(0, size, page_access::read);
        else if (what == defect::closed)
            pages_->allow(0, size, page_access::none);
        else if (what == defect::closed_half)
            pages_->allow(size / 2, size / 2, page_access::none);
        else
            pages_->remove(size / 2, page_size());
    }
    ~bad_memory() {
#if !defined(_WIN32)
        if (mapped_) munmap(mapped_, size_);
        if (file_ >= 0) close(file_);
#endif
    }
    bad_memory(const bad_memory &) = delete;

    std::uint64_t address() const {
        return pages_ ? pages_->address() : static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(mapped_));
    }

private:
    std::size_t size_;
    std::unique_ptr<mapped_memory> pages_;
    void *mapped_ = nullptr;
    int file_ = -1;
};

struct unusable_memory : ferry_test {
    void SetUp() override {
        ferry_test::SetUp();
        device.emplace(sizes[1]);
        picture = random_bytes(sizes[1], 5);
        write_for_all_streams(*device, picture);
    }
    void TearDown() override {
        device.reset();
        ferry_test::TearDown();
    }

    // Between host memory and the device, as one row or as rows with gaps.
    ferry_copy_desc describe(std::uint64_t host, std::size_t size, bool to_host, bool has_rows) const {
        ferry_place at_host = {}, at_device = {};
        at_host.kind = FERRY_KIND_HOST;
        at_host.address = host;
        at_device.kind = FERRY_KIND_DEVICE;
        at_device.address = *device;
        ferry_copy_desc copy =
            to_host ? describe_copy(at_device, at_host, size) : describe_copy(at_host, at_device, size);
        if (!has_rows) return copy;
        const std::size_t pitch = 1024, rows = size / pitch;
        copy.width = pitch - 8;
        copy.height = rows;
        copy.source.row_pitch = copy.destination.row_pitch = pitch;
        return copy;
    }

    std::optional<device_memory> device;
    bytes picture;
};

TEST_F(unusable_memory, full_checks_refuse_every_copy_of_it) {
    test_stream stream;
    for (const defective &bad : defects)
        for (const std::size_t size : sizes)
            for (const bool to_host : {false, true}) {
                if (!to_host && bad.can_be_read) continue;
                SCOPED_TRACE(testing::Message()
                             << bad.name << " as the " << (to_host ? "destination" : "source") << ", " << size << " B");
                const bad_memory memory(bad.what, size);
                const std::uint64_t host = memory.address();
                const std::int32_t side = to_host ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE;
                const auto expect_refused = [&](const char *way,
                                                const std::function<std::int32_t(ferry_error_info &)> &copy) {
                    SCOPED_TRACE(way);
                    ferry_error_info error = new_error();
                    expect_refusal(copy(error), error, FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ADDRESS);
                };
                for (const bool has_rows : {false, true})
                    for (const how &options : {how(), by_driver, by_staging}) {
                        const ferry_copy_desc copy = describe(host, size, to_host, has_rows);
                        expect_refused("ferry_copy", [&](ferry_error_info &error) {
                            return ferry_copy(full.get(), &copy, options, &error);
                        });
                        expect_refused("ferry_copy_async", [&](ferry_error_info &error) {
                            return ferry_copy_async(full.get(), &copy, options, stream, nullptr, &error);
                        });
                        expect_refused("ferry_copy_explain", [&](ferry_error_info &error) {
                            ferry_explanation found = new_explanation();
                            return ferry_copy_explain(full.get(), &copy, options, &found, &error);
                        });
                        expect_refused("ferry_copy_batch", [&](ferry_error_info &error) {
                            return ferry_copy_batch(full.get(), &copy, 1, options, &error);
                        });
                        expect_refused("ferry_copy_batch_async", [&](ferry_error_info &error) {
                            return ferry_copy_batch_async(full.get(), &copy, 1, options, stream, nullptr, &error);
                        });
                    }
                piece_batch pieces;
                for (std::size_t at = 0; at < size; at += size / 16)
                    pieces.add(to_host ? host + at : *device + at, to_host ? *device + at : host + at, size / 16 - 3);
                expect_refused("ferry_copy_pieces",
                               [&](ferry_error_info &error) { return pieces.copy(full.get(), {}, &error); });
                expect_refused("ferry_copy_pieces_async", [&](ferry_error_info &error) {
                    return pieces.copy_async(full.get(), stream, {}, &error);
                });
                ferry_prepared *prepared = nullptr;
                expect_refused("ferry_prepared_create_pieces", [&](ferry_error_info &error) {
                    return pieces.prepare(full.get(), stream, {}, &prepared, &error);
                });
            }
    EXPECT_OK(raw().cuCtxSynchronize());
    EXPECT_TRUE(read_back(*device, picture.size()) == picture) << "nothing has been copied";
}

TEST_F(unusable_memory, full_checks_refuse_every_fill_of_it) {
    test_stream stream;
    const std::uint8_t one = 1;
    for (const defective &bad : defects) {
        SCOPED_TRACE(bad.name);
        const bad_memory memory(bad.what, sizes[0]);
        ferry_place place;
        ferry_place_any(&place, memory.address());
        for (const std::uint64_t height : {1, 4}) {
            ferry_fill_desc fill;
            ferry_fill_desc_init(&fill, &place, sizes[0] / height, height, 1, &one, 1);
            ferry_error_info error = new_error();
            const auto expect_refused = [&](std::int32_t status) {
                expect_refusal(status, error, FERRY_ERROR_ADDRESS, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
            };
            expect_refused(ferry_fill(full.get(), &fill, nullptr, &error));
            expect_refused(ferry_fill_async(full.get(), &fill, nullptr, stream, nullptr, &error));
            ferry_explanation found = new_explanation();
            expect_refused(ferry_fill_explain(full.get(), &fill, nullptr, &found, &error));
        }
    }
}

TEST_F(unusable_memory, rows_beside_it_are_copied) {
    constexpr std::size_t rows = 16, width = 512;
    const std::size_t page = page_size(), pitch = 2 * page;
    const mapped_memory memory(rows * pitch);
    for (std::size_t row = 0; row < rows; ++row) { // every other page cannot be used
        std::memset(memory.data() + row * pitch, static_cast<int>(row + 1), width);
        const page_access access[] = {page_access::none, page_access::read};
        if (row % 3 == 2)
            memory.remove(row * pitch + page, page);
        else
            memory.allow(row * pitch + page, page, access[row % 3]);
    }
    for (const bool is_synchronous : {true, false})
        for (const bool is_batch : {false, true}) {
            ferry_copy_desc up = describe(memory.address(), width, false, false);
            up.height = rows;
            up.source.row_pitch = pitch;
            ferry_copy_desc down = up;
            std::swap(down.source, down.destination);
            const auto copy = [&](const ferry_copy_desc &one) {
                if (is_batch && is_synchronous) return ferry_copy_batch(full.get(), &one, 1, nullptr, nullptr);
                if (is_batch) return ferry_copy_batch_async(full.get(), &one, 1, nullptr, nullptr, nullptr, nullptr);
                return is_synchronous ? ferry_copy(full.get(), &one, nullptr, nullptr)
                                      : ferry_copy_async(full.get(), &one, nullptr, nullptr, nullptr, nullptr);
            };
            EXPECT_OK(copy(up));
            EXPECT_OK(raw().cuCtxSynchronize());
            bytes expected;
            for (std::size_t row = 0; row < rows; ++row) {
                expected.insert(expected.end(), width, static_cast<std::byte>(row + 1));
                std::memset(memory.data() + row * pitch, 0, width);
            }
            EXPECT_TRUE(read_back(*device, rows * width) == expected);
            EXPECT_OK(copy(down));
            EXPECT_OK(raw().cuCtxSynchronize());
            for (std::size_t row = 0; row < rows; ++row)
                EXPECT_EQ(memory.data()[row * pitch + width - 1], static_cast<std::byte>(row + 1));
        }
}

// Two slices of one byte each: the first byte is accessible, and the second is the last byte of the address space.
TEST_F(unusable_memory, the_end_of_the_address_space_is_refused) {
    constexpr std::uint64_t pitch = 0x10000;
    const mapped_memory memory(2 * pitch);
    const std::uint64_t first = memory.address() | (pitch - 1);
    for (const bool to_host : {false, true}) {
        ferry_copy_desc copy = describe(first, 1, to_host, false);
        copy.height = 1;
        copy.depth = 2;
        ferry_place &host = to_host ? copy.destination : copy.source;
        host.row_pitch = pitch;
        host.slice_height = (UINT64_MAX - first) / pitch;
        ferry_error_info info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(ferry_copy(full.get(), &copy, nullptr, &info), FERRY_ERROR_ADDRESS);
        EXPECT_EQ(info.side, to_host ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE);
        EXPECT_EQ(ferry_copy_batch(full.get(), &copy, 1, nullptr, nullptr), FERRY_ERROR_ADDRESS);
    }
}

#if !defined(_WIN32)

TEST_F(unusable_memory, full_checks_leave_the_holes_of_a_file_alone) {
    const int file = memfd_create("sparse", MFD_CLOEXEC);
    const std::size_t size = sizes[1];
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(size)), 0);
    void *const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const auto host = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(mapped));
    const auto blocks = [&] {
        struct stat found = {};
        EXPECT_EQ(fstat(file, &found), 0);
        return found.st_blocks;
    };
    ASSERT_EQ(blocks(), 0);
    for (const bool to_host : {false, true}) {
        const ferry_copy_desc copy = describe(host, size, to_host, false);
        ferry_explanation found = new_explanation();
        EXPECT_OK(ferry_copy_explain(full.get(), &copy, nullptr, &found, nullptr));
        EXPECT_OK(ferry_copy_explain_async(full.get(), &copy, nullptr, nullptr, &found, nullptr));
        // The second copy of a batch is refused, so that nothing is copied.
        ferry_copy_desc copies[] = {copy, copy};
        copies[1].source.address = copies[1].destination.address = 64;
        ferry_error_info error = new_error();
        EXPECT_NE(ferry_copy_batch(full.get(), copies, 2, nullptr, &error), FERRY_SUCCESS);
        EXPECT_EQ(error.index, 1u);
    }
    EXPECT_EQ(blocks(), 0);
    const ferry_copy_desc down = describe(host, size, true, false);
    EXPECT_OK(ferry_copy(full.get(), &down, nullptr, nullptr));
    EXPECT_EQ(std::memcmp(mapped, picture.data(), size), 0);
    munmap(mapped, size);
    close(file);
}

// ---- What the driver does by itself

struct trial {
    int bad;
    std::size_t size;
    bool to_host, is_asynchronous;
};
std::vector<trial> all_trials() {
    std::vector<trial> all;
    for (int bad = 0; bad < static_cast<int>(std::size(defects)); ++bad)
        for (const std::size_t size : sizes)
            for (const bool to_host : {false, true})
                for (const bool is_asynchronous : {false, true})
                    if (to_host || !defects[bad].can_be_read) all.push_back({bad, size, to_host, is_asynchronous});
    return all;
}

CUresult copy_by_driver(const trial &one, const bad_memory &memory, CUdeviceptr device, CUstream stream) {
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = one.to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.dstMemoryType = one.to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = copy.dstDevice = device;
    copy.srcHost = copy.dstHost = reinterpret_cast<void *>(memory.address());
    copy.WidthInBytes = one.size;
    copy.Height = copy.Depth = 1;
    if (!one.is_asynchronous) return raw().cuMemcpy3D(&copy);
    const CUresult result = raw().cuMemcpy3DAsync(&copy, stream);
    return result ? result : raw().cuStreamSynchronize(stream);
}

// Makes the trials from the one that the test names, and reports each result, until a copy breaks the context.
FERRY_SECOND_PROCESS(copies_unusable_memory) {
    const std::vector<trial> all = all_trials();
    const auto first = channel.receive<std::size_t>();
    const rlimit no_dumps = {0, 0};
    EXPECT_EQ(setrlimit(RLIMIT_CORE, &no_dumps), 0);
    device_memory device(sizes[1]);
    test_stream stream;
    for (std::size_t i = first; i < all.size(); ++i) {
        const bad_memory memory(defects[all[i].bad].what, all[i].size);
        channel.send(copy_by_driver(all[i], memory, device, stream));
        if (raw().cuCtxSynchronize()) break;
    }
    return 0;
}

TEST_F(unusable_memory, the_driver_does_not_copy_it_either) {
    const std::vector<trial> all = all_trials();
    for (std::size_t done = 0; done < all.size();) {
        second_process other("copies_unusable_memory");
        other->send(done);
        const std::size_t first = done;
        int ended = 0;
        const auto report = [&](const char *what, int number) {
            const trial &one = all[done++];
            std::printf("%-45s %-11s %7zu B %-5s: %s %d\n", defects[one.bad].name,
                        one.to_host ? "destination" : "source", one.size, one.is_asynchronous ? "async" : "sync", what,
                        number);
        };
        try {
            while (done < all.size()) {
                const auto result = other->receive<CUresult>();
                EXPECT_NE(result, CUDA_SUCCESS);
                report("result", result);
            }
        } catch (const std::exception &) { // it has ended
            ended = other.wait();
            if (ended) report("the process ends with", ended);
        }
        ASSERT_GT(done, first);
    }
}

#endif

} // namespace
} // namespace ferry::test
