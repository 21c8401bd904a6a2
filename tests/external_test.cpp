// Imports of memory and semaphores. The software driver imports files in the roles of memory and semaphores, so these
// tests need no graphics API; vulkan_test.cpp has one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "ferry/ferry.hpp"
#include "support/fault_driver.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/second_process.h"
#include "system/handles.h"

namespace ferry::test {
namespace {

struct external : ferry_test {
    ferry_external_memory_desc memory_desc(std::int64_t handle, std::uint64_t size) const {
        ferry_external_memory_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.handle_type = FERRY_EXTERNAL_OPAQUE_FD;
        desc.handle = handle;
        desc.size = size;
        return desc;
    }
    ferry_external_semaphore_desc semaphore_desc(std::int64_t handle, std::int32_t type) const {
        ferry_external_semaphore_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.handle_type = type;
        desc.handle = handle;
        return desc;
    }
    // Both imports refuse it so.
    void expect_refusal(std::int32_t type, std::int64_t handle, std::int32_t status, std::int32_t field) {
        ferry_error_info error = {};
        error.struct_size = sizeof error;
        auto memory_wanted = memory_desc(handle, 4096);
        memory_wanted.handle_type = type;
        CUextMemory_st *memory = reinterpret_cast<CUextMemory_st *>(1);
        EXPECT_EQ(ferry_external_memory_import(basic.get(), &memory_wanted, &memory, &error), status);
        EXPECT_EQ(memory, nullptr);
        EXPECT_EQ(error.side, FERRY_SIDE_OPTIONS);
        EXPECT_EQ(error.field, field);
        const auto semaphore_wanted = semaphore_desc(handle, type);
        CUextSemaphore_st *semaphore = reinterpret_cast<CUextSemaphore_st *>(1);
        EXPECT_EQ(ferry_external_semaphore_import(basic.get(), &semaphore_wanted, &semaphore, &error), status);
        EXPECT_EQ(semaphore, nullptr);
        EXPECT_EQ(error.field, field);
    }
};

TEST_F(external, a_device_is_found_by_its_uuid) {
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    const int last = device_count() - 1;
    ASSERT_OK(ferry_device_get_info(basic.get(), last, &info, nullptr));
    int device = -2;
    EXPECT_OK(ferry_device_find(basic.get(), info.uuid, nullptr, &device, nullptr));
    EXPECT_EQ(device, last);
    info.uuid[5] ^= 1;
    EXPECT_EQ(ferry_device_find(basic.get(), info.uuid, info.luid, &device, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(device, -1);
    EXPECT_EQ(ferry_device_find(basic.get(), nullptr, nullptr, &device, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    // LUIDs exist on Windows alone; elsewhere the zeros of all devices name none.
    const std::uint8_t zeros[8] = {};
    EXPECT_EQ(ferry_device_find(basic.get(), nullptr, zeros, &device, nullptr), FERRY_ERROR_DEVICE);
    const auto view = ferry::instance::open(options_under_test()).or_throw();
    info.uuid[5] ^= 1;
    EXPECT_EQ(view.find_device(info.uuid).or_throw(), last);
    EXPECT_EQ(view.find_device(info.uuid, zeros).or_throw(), last);
    EXPECT_EQ(view.find_device(nullptr, zeros).error().code(), FERRY_ERROR_DEVICE);
    EXPECT_EQ(view.find_device(nullptr).error().code(), FERRY_ERROR_INVALID_ARGUMENT);
}

// The driver of Windows in the role of the one under test. Each byte of a device's LUID is 7 more than its number.
CUresult CUDAAPI luid_of(char *luid, unsigned *nodes, CUdevice device) {
    std::memset(luid, 7 + device, 8);
    *nodes = 1;
    return CUDA_SUCCESS;
}

void *entry_with_luids(void *, const char *name, std::int32_t version) {
    const resolver inner = raw_entry_points();
    if (std::string(name) == "cuDeviceGetLuid") return reinterpret_cast<void *>(luid_of);
    return inner.get_proc(inner.user, name, version);
}

TEST_F(external, a_device_is_found_by_its_luid) {
    ferry_options options = {};
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = entry_with_luids;
    const auto view = ferry::instance::open(options).or_throw();
    for (int device = 0; device < device_count(); ++device) {
        std::uint8_t luid[8];
        std::memset(luid, 7 + device, sizeof luid);
        EXPECT_EQ(view.find_device(nullptr, luid).or_throw(), device);
        luid[7] ^= 1;
        EXPECT_EQ(view.find_device(nullptr, luid).error().code(), FERRY_ERROR_DEVICE);
    }
}

TEST_F(external, handles_of_no_type_and_of_other_systems_are_refused) {
    for (const std::int32_t type : {0, -1, 11, 1000})
        expect_refusal(type, 0, FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HANDLE_TYPE);
#if defined(_WIN32)
    expect_refusal(FERRY_EXTERNAL_OPAQUE_FD, 1, FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPE);
#else
    for (const std::int32_t type : {2, 3, 4, 5, 7}) // common to both
        expect_refusal(type, 1, FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPE);
#endif
}

TEST_F(external, other_fields_are_checked_before_the_handle_is_used) {
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    CUextMemory_st *memory = nullptr;
    auto wanted = memory_desc(0, 4096);
    wanted.device = device_count();
    EXPECT_EQ(ferry_external_memory_import(basic.get(), &wanted, &memory, &error), FERRY_ERROR_DEVICE);
    EXPECT_EQ(error.field, FERRY_FIELD_DEVICE);
    wanted = memory_desc(0, 4096);
    wanted.struct_size = 3;
    EXPECT_EQ(ferry_external_memory_import(basic.get(), &wanted, &memory, &error), FERRY_ERROR_ABI_MISMATCH);
    EXPECT_EQ(ferry_external_memory_import(basic.get(), nullptr, &memory, &error), FERRY_ERROR_INVALID_ARGUMENT);
    std::uint64_t address = 7;
    auto *const unknown = reinterpret_cast<CUextMemory_st *>(0x10);
    EXPECT_EQ(ferry_external_memory_get_address(basic.get(), unknown, 0, 0, &address, &error), FERRY_ERROR_HANDLE);
    EXPECT_EQ(error.field, FERRY_FIELD_HANDLE);
    EXPECT_EQ(address, 0u);
    EXPECT_EQ(ferry_external_memory_release(basic.get(), unknown, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(ferry_external_memory_release_deferred(basic.get(), unknown, nullptr, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_OK(ferry_external_memory_release(basic.get(), nullptr, nullptr));
    EXPECT_OK(ferry_external_memory_release_deferred(basic.get(), nullptr, nullptr, nullptr));
    auto *const semaphore = reinterpret_cast<CUextSemaphore_st *>(0x10);
    EXPECT_EQ(ferry_external_semaphore_signal_async(basic.get(), semaphore, 1, nullptr, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(ferry_external_semaphore_wait_async(basic.get(), semaphore, 1, 0, nullptr, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(ferry_external_semaphore_release(basic.get(), semaphore, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_OK(ferry_external_semaphore_release(basic.get(), nullptr, nullptr));
    EXPECT_EQ(ferry_external_semaphore_release_deferred(basic.get(), semaphore, nullptr, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(ferry_external_semaphore_release_deferred(nullptr, semaphore, nullptr, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_external_semaphore_release_deferred(basic.get(), nullptr, nullptr, nullptr));
}

#if defined(__linux__)

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) != -1; }

TEST_F(external, closed_descriptors_are_refused) {
    for (const std::int64_t closed : {std::int64_t{-1}, std::int64_t{1'000'000}, std::int64_t{1} << 40}) {
        expect_refusal(FERRY_EXTERNAL_OPAQUE_FD, closed, FERRY_ERROR_HANDLE, FERRY_FIELD_OS_HANDLE);
    }
}

TEST_F(external, handles_that_are_neither_memory_nor_semaphores_are_refused_and_stay_open) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    expect_refusal(FERRY_EXTERNAL_OPAQUE_FD, ends[0], FERRY_ERROR_HANDLE, FERRY_FIELD_OS_HANDLE);
    EXPECT_TRUE(is_open(ends[0]));
    auto wanted = memory_desc(ends[0], 0);
    CUextMemory_st *memory = nullptr;
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    EXPECT_EQ(ferry_external_memory_import(basic.get(), &wanted, &memory, &error), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(error.field, FERRY_FIELD_SIZE);
    wanted = memory_desc(ends[0], 4096);
    wanted.flags = 2;
    EXPECT_EQ(ferry_external_memory_import(basic.get(), &wanted, &memory, &error), FERRY_ERROR_FLAGS);
    wanted = memory_desc(ends[0], 4096);
    wanted.name = "name";
    EXPECT_EQ(ferry_external_memory_import(basic.get(), &wanted, &memory, &error), FERRY_ERROR_INVALID_ARGUMENT);
    auto semaphore_wanted = semaphore_desc(ends[0], FERRY_SEMAPHORE_TIMELINE_FD);
    semaphore_wanted.reserved = 1;
    CUextSemaphore_st *semaphore = nullptr;
    EXPECT_EQ(ferry_external_semaphore_import(basic.get(), &semaphore_wanted, &semaphore, &error),
              FERRY_ERROR_RESERVED);
    EXPECT_TRUE(is_open(ends[0]));
    close(ends[0]);
    close(ends[1]);
}

// A file in the role of another API's memory or semaphore. Its bytes stay mapped here.
class file {
public:
    explicit file(std::size_t size) : size_(size), descriptor_(memfd_create("external", MFD_CLOEXEC)) {
        EXPECT_EQ(ftruncate(descriptor_, static_cast<off_t>(size)), 0);
        struct stat one {};
        EXPECT_EQ(fstat(descriptor_, &one), 0);
        number_ = one.st_ino;
        data_ = static_cast<std::byte *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
    }
    ~file() { munmap(data_, size_); }
    file(const file &) = delete;
    int descriptor() const { return descriptor_; } // closed by whom it is given to
    // The descriptors of this process for the file: the driver's too.
    int descriptors() const {
        int found = 0;
        for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            struct stat one {};
            found += stat(entry.path().c_str(), &one) == 0 && one.st_ino == number_ && S_ISREG(one.st_mode);
        }
        return found;
    }
    std::byte *data() const { return data_; }
    std::size_t size() const { return size_; }
    std::atomic<std::uint64_t> &value() const { return *reinterpret_cast<std::atomic<std::uint64_t> *>(data_); }

private:
    std::size_t size_;
    int descriptor_;
    ino_t number_ = 0;
    std::byte *data_;
};

constexpr std::size_t memory_size = 256 << 10, semaphore_size = 8;

struct files : external {
    void SetUp() override {
        external::SetUp();
        if (IsSkipped()) return;
        if (!on_software_driver()) GTEST_SKIP() << "a GPU's driver imports what another API has exported";
    }
    CUextMemory_st *import(const file &from, std::uint64_t size = memory_size) {
        const auto wanted = memory_desc(from.descriptor(), size);
        CUextMemory_st *memory = nullptr;
        EXPECT_OK(ferry_external_memory_import(basic.get(), &wanted, &memory, nullptr));
        return memory;
    }
    CUextSemaphore_st *import_semaphore(const file &from, std::int32_t type) {
        const auto wanted = semaphore_desc(from.descriptor(), type);
        CUextSemaphore_st *semaphore = nullptr;
        EXPECT_OK(ferry_external_semaphore_import(basic.get(), &wanted, &semaphore, nullptr));
        return semaphore;
    }
    std::uint64_t address_of(CUextMemory_st *memory, std::uint64_t offset, std::uint64_t size) {
        std::uint64_t address = 0;
        EXPECT_OK(ferry_external_memory_get_address(basic.get(), memory, offset, size, &address, nullptr));
        return address;
    }
};

// The same with counts of the driver's calls.
struct counted_files : files {
    void SetUp() override {
        files::SetUp();
        if (!IsSkipped()) basic = open_or_fail(driver.options());
    }
    void TearDown() override {
        basic.reset();
        files::TearDown();
    }
    fault_driver driver{raw_entry_points()};
};

TEST_F(files, copies_reach_the_memory_at_every_offset) {
    const file shared(memory_size);
    CUextMemory_st *const memory = import(shared);
    for (const std::uint64_t offset : {0, 1, 4096, 5000, 200'000}) {
        SCOPED_TRACE(offset);
        const bytes data = random_bytes(memory_size - offset - 100, offset);
        const std::uint64_t address = address_of(memory, offset, data.size());
        ASSERT_OK(ferry_copy_bytes(basic.get(), address, reinterpret_cast<std::uintptr_t>(data.data()), data.size(),
                                   nullptr, nullptr));
        EXPECT_EQ(std::memcmp(shared.data() + offset, data.data(), data.size()), 0);
        std::memset(shared.data() + offset, 0x5b, data.size());
        bytes back(data.size());
        ASSERT_OK(ferry_copy_bytes(basic.get(), reinterpret_cast<std::uintptr_t>(back.data()), address, back.size(),
                                   nullptr, nullptr));
        EXPECT_EQ(back, bytes(back.size(), std::byte{0x5b}));
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        ASSERT_OK(ferry_address_get_info(basic.get(), address, &info, nullptr));
        EXPECT_EQ(info.memory, FERRY_MEMORY_DEVICE);
        EXPECT_EQ(info.range_start, address - offset);
        EXPECT_EQ(info.range_size, memory_size);
        EXPECT_EQ(ferry_device_free(basic.get(), address, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(ferry_device_free_deferred(basic.get(), address, nullptr, nullptr), FERRY_ERROR_IMPORTED);
        EXPECT_EQ(ferry_device_free_async(basic.get(), address, nullptr, nullptr), FERRY_ERROR_IMPORTED);
    }
    EXPECT_FALSE(is_open(shared.descriptor()));
    EXPECT_EQ(shared.descriptors(), 1) << "the driver's";
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
    EXPECT_EQ(shared.descriptors(), 0);
    EXPECT_EQ(ferry_external_memory_release(basic.get(), memory, nullptr), FERRY_ERROR_HANDLE);
}

TEST_F(files, pageable_batches_fills_and_explanations_take_the_memory) {
    const file shared(std::size_t{4} << 20);
    CUextMemory_st *const memory = import(shared, shared.size());
    const std::uint64_t address = address_of(memory, 0, 0);
    const test_stream stream;
    const bytes data = random_bytes(shared.size(), 3);
    ASSERT_OK(ferry_copy_bytes_async(basic.get(), address, reinterpret_cast<std::uintptr_t>(data.data()), data.size(),
                                     nullptr, stream, nullptr, nullptr));
    ASSERT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    EXPECT_EQ(std::memcmp(shared.data(), data.data(), data.size()), 0);
    std::vector<std::uint64_t> to, from, sizes;
    for (std::uint64_t i = 0; i < 64; ++i) {
        to.push_back(address + i * 1000);
        from.push_back(reinterpret_cast<std::uintptr_t>(data.data()) + 64'000 - i * 1000);
        sizes.push_back(1000);
    }
    ASSERT_OK(ferry_copy_pieces(basic.get(), in_arrays(to.data(), from.data(), sizes.data(), sizes.size()), nullptr,
                                nullptr));
    for (std::uint64_t i = 0; i < 64; ++i)
        EXPECT_EQ(std::memcmp(shared.data() + i * 1000, data.data() + 64'000 - i * 1000, 1000), 0) << i;
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
}

TEST_F(files, parts_beyond_the_memory_are_refused) {
    const file shared(memory_size);
    CUextMemory_st *const memory = import(shared, 100'000);
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    std::uint64_t address = 0;
    EXPECT_EQ(ferry_external_memory_get_address(basic.get(), memory, 100'000, 0, &address, &error),
              FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(ferry_external_memory_get_address(basic.get(), memory, 50'000, 50'001, &address, &error),
              FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(error.field, FERRY_FIELD_SIZE);
    EXPECT_EQ(error.limit, 50'000u);
    EXPECT_EQ(error.value, 50'001u);
    EXPECT_EQ(ferry_external_memory_get_address(basic.get(), memory, 1, UINT64_MAX, &address, &error),
              FERRY_ERROR_OUT_OF_BOUNDS);
    ferry_array_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.format = FERRY_FORMAT_UINT8;
    desc.channels = 4;
    desc.width = desc.height = 200;
    CUmipmappedArray_st *array = nullptr;
    EXPECT_EQ(ferry_external_memory_create_array(basic.get(), memory, 0, &desc, 1, &array, &error),
              FERRY_ERROR_OUT_OF_BOUNDS);
    desc.height = 100;
    desc.format = 0x77;
    EXPECT_EQ(ferry_external_memory_create_array(basic.get(), memory, 0, &desc, 1, &array, &error),
              FERRY_ERROR_ARRAY_FORMAT);
    desc.flags = 0x4000;
    EXPECT_EQ(ferry_external_memory_create_array(basic.get(), memory, 0, &desc, 1, &array, &error), FERRY_ERROR_FLAGS);
    EXPECT_EQ(array, nullptr);
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));

    // Beyond the allocation: the driver finds out when it maps, and the descriptor stays the caller's.
    const file small(4096);
    const auto wanted = memory_desc(small.descriptor(), 4097);
    CUextMemory_st *none = nullptr;
    EXPECT_EQ(ferry_external_memory_import(basic.get(), &wanted, &none, &error), FERRY_ERROR_OUT_OF_BOUNDS);
    EXPECT_EQ(error.field, FERRY_FIELD_SIZE);
    EXPECT_EQ(error.value, 4097u);
    EXPECT_EQ(none, nullptr);
    EXPECT_TRUE(is_open(small.descriptor()));
    EXPECT_EQ(small.descriptors(), 1);
    close(small.descriptor());
}

TEST_F(files, arrays_of_several_levels_share_the_memory) {
    const file shared(memory_size);
    CUextMemory_st *const memory = import(shared);
    for (const std::uint32_t flags : {0u, FERRY_ARRAY_SURFACE | FERRY_ARRAY_COLOR_ATTACHMENT}) {
        ferry_array_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.format = FERRY_FORMAT_FLOAT;
        desc.channels = 1;
        desc.flags = flags;
        desc.width = desc.height = 64;
        CUmipmappedArray_st *whole = nullptr;
        ASSERT_OK(ferry_external_memory_create_array(basic.get(), memory, 4096, &desc, 3, &whole, nullptr));
        for (std::uint32_t level = 0; level < 3; ++level) {
            CUarray_st *array = nullptr;
            ASSERT_OK(ferry_mipmapped_array_get_level(basic.get(), whole, level, &array, nullptr));
            const std::uint64_t side = 64 >> level;
            const bytes data = random_bytes(side * side * 4, level);
            bytes back(data.size());
            ferry_copy_desc copy = {};
            ferry_place_host(&copy.source, data.data());
            ferry_place_array(&copy.destination, 0, array);
            copy.width = side * 4;
            copy.height = side;
            ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
            ferry_place_array(&copy.source, 0, array);
            ferry_place_host(&copy.destination, back.data());
            ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
            EXPECT_EQ(back, data);
            if (device_count() > 1) {
                ferry_place_array(&copy.source, 1, array);
                EXPECT_EQ(ferry_copy(basic.get(), &copy, nullptr, nullptr), FERRY_ERROR_DEVICE) << "it is on device 0";
            }
        }
        CUarray_st *none = nullptr;
        EXPECT_NE(ferry_mipmapped_array_get_level(basic.get(), whole, 3, &none, nullptr), FERRY_SUCCESS);
    }
    EXPECT_NE(bytes(shared.data(), shared.data() + memory_size), bytes(memory_size)) << "the texels are there";
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
}

TEST_F(files, memory_is_released_after_its_last_use) {
    const file shared(memory_size), semaphore_file(semaphore_size);
    CUextMemory_st *const memory = import(shared);
    const std::uint64_t address = address_of(memory, 0, 0);
    CUextSemaphore_st *const semaphore = import_semaphore(semaphore_file, FERRY_SEMAPHORE_TIMELINE_FD);
    const bytes data = random_bytes(memory_size, 9);
    const pinned_memory source(memory_size);
    std::memcpy(source.data(), data.data(), data.size());
    {
        const test_stream stream;
        ASSERT_OK(
            ferry_external_semaphore_wait_async(basic.get(), semaphore, 1, 0, stream, nullptr)); // blocks the stream
        ASSERT_OK(ferry_copy_bytes_async(basic.get(), address, reinterpret_cast<std::uintptr_t>(source.data()),
                                         memory_size, nullptr, stream, nullptr, nullptr));
        ASSERT_OK(ferry_external_memory_release_deferred(basic.get(), memory, stream, nullptr));
        EXPECT_EQ(ferry_external_memory_release_deferred(basic.get(), memory, stream, nullptr), FERRY_ERROR_HANDLE);
        EXPECT_EQ(ferry_external_memory_release(basic.get(), memory, nullptr), FERRY_ERROR_HANDLE);
        std::uint64_t none = 0;
        EXPECT_EQ(ferry_external_memory_get_address(basic.get(), memory, 0, 0, &none, nullptr), FERRY_ERROR_HANDLE);
        ferry_deferred_info kept = {};
        kept.struct_size = sizeof kept;
        ASSERT_OK(ferry_deferred_get_info(basic.get(), 0, &kept, nullptr));
        EXPECT_EQ(kept.allocations, 1u);
        EXPECT_EQ(kept.bytes, memory_size);
        ASSERT_OK(ferry_deferred_trim(basic.get(), 0, 0, nullptr));
        EXPECT_EQ(shared.descriptors(), 1) << "in use";
        semaphore_file.value() = 1;
        ASSERT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    }
    EXPECT_EQ(std::memcmp(shared.data(), data.data(), data.size()), 0);
    ASSERT_OK(ferry_deferred_trim(basic.get(), 0, 0, nullptr));
    EXPECT_EQ(shared.descriptors(), 0);
    ASSERT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
}

// ---- Arrays that end before their import ------------------------------------------------------------------------

constexpr std::uint64_t side = 64, texels = side * side * 4;

struct imported_arrays : counted_files {
    ferry_array_desc shape() const {
        ferry_array_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.format = FERRY_FORMAT_UINT8;
        desc.channels = 4;
        desc.width = desc.height = side;
        return desc;
    }
    CUmipmappedArray_st *make(CUextMemory_st *memory, std::uint64_t offset = 0) {
        const ferry_array_desc desc = shape();
        CUmipmappedArray_st *made = nullptr;
        EXPECT_OK(ferry_external_memory_create_array(basic.get(), memory, offset, &desc, 1, &made, nullptr));
        return made;
    }
    std::int32_t give_up(CUmipmappedArray_st *array, CUstream stream = nullptr) {
        return ferry_mipmapped_array_destroy_deferred(basic.get(), array, stream, nullptr);
    }
    std::int32_t trim() { return ferry_deferred_trim(basic.get(), 0, 0, nullptr); }
    int destroyed() { return driver.calls("cuMipmappedArrayDestroy"); }
    ferry_deferred_info kept() {
        ferry_deferred_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_deferred_get_info(basic.get(), FERRY_DEVICE_UNKNOWN, &info, nullptr));
        return info;
    }
    void expect_usable(CUmipmappedArray_st *whole) {
        CUarray_st *array = nullptr;
        ASSERT_OK(ferry_mipmapped_array_get_level(basic.get(), whole, 0, &array, nullptr));
        const bytes data = random_bytes(texels, reinterpret_cast<std::uintptr_t>(whole));
        bytes back(texels);
        ferry_copy_desc copy = {};
        ferry_place_host(&copy.source, data.data());
        ferry_place_array(&copy.destination, 0, array);
        copy.width = side * 4;
        copy.height = side;
        ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
        ferry_place_array(&copy.source, 0, array);
        ferry_place_host(&copy.destination, back.data());
        ASSERT_OK(ferry_copy(basic.get(), &copy, nullptr, nullptr));
        EXPECT_EQ(back, data);
    }
};

TEST_F(imported_arrays, one_array_ends_and_the_rest_of_the_import_lives) {
    const file shared(memory_size);
    CUextMemory_st *const memory = import(shared);
    CUmipmappedArray_st *const gone = make(memory), *const living = make(memory, texels);
    ASSERT_OK(ferry_mipmapped_array_destroy(basic.get(), gone, nullptr));
    EXPECT_EQ(destroyed(), 1);
    expect_usable(living);
    expect_usable(make(memory)); // at the same offset
    address_of(memory, 0, 0);
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
    EXPECT_EQ(destroyed(), 3);
    EXPECT_EQ(shared.descriptors(), 0);
}

TEST_F(imported_arrays, an_array_is_destroyed_after_the_work_on_its_stream_and_never_reused) {
    const file shared(memory_size), semaphore_file(semaphore_size);
    CUextMemory_st *const memory = import(shared);
    CUextSemaphore_st *const semaphore = import_semaphore(semaphore_file, FERRY_SEMAPHORE_TIMELINE_FD);
    CUmipmappedArray_st *const array = make(memory);
    const test_stream stream;
    ASSERT_OK(ferry_external_semaphore_wait_async(basic.get(), semaphore, 1, 0, stream, nullptr)); // blocks the stream
    ASSERT_OK(give_up(array, stream));
    EXPECT_EQ(give_up(array, stream), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_mipmapped_array_destroy(basic.get(), array, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(kept().arrays, 1u);
    EXPECT_EQ(kept().bytes, texels);
    ASSERT_OK(trim());
    EXPECT_EQ(destroyed(), 0) << "the stream has not passed";
    semaphore_file.value() = 1;
    ASSERT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    const ferry_array_desc desc = shape();
    CUmipmappedArray_st *other = nullptr;
    ASSERT_OK(ferry_mipmapped_array_create(basic.get(), 0, &desc, 1, &other, nullptr));
    EXPECT_NE(other, array);
    EXPECT_EQ(driver.calls("cuMipmappedArrayCreate"), 1);
    EXPECT_EQ(kept().arrays, 1u);
    ASSERT_OK(trim());
    EXPECT_EQ(destroyed(), 1);
    EXPECT_EQ(kept().arrays, 0u);
    expect_usable(other);
    expect_usable(make(memory));
    ASSERT_OK(ferry_mipmapped_array_destroy(basic.get(), other, nullptr));
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
    EXPECT_EQ(destroyed(), 3);
    ASSERT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
}

TEST_F(imported_arrays, an_import_that_ends_first_destroys_its_abandoned_arrays) {
    for (const bool in_order : {false, true}) {
        SCOPED_TRACE(in_order);
        driver.reset_counts();
        const file shared(memory_size), next_file(memory_size);
        CUextMemory_st *const memory = import(shared);
        CUmipmappedArray_st *const first = make(memory), *const second = make(memory, texels);
        if (in_order) { // the trim reaches the import before the second array
            ASSERT_OK(give_up(first));
            ASSERT_OK(ferry_external_memory_release_deferred(basic.get(), memory, nullptr, nullptr));
            ASSERT_OK(give_up(second));
            EXPECT_EQ(kept().arrays, 2u);
            ASSERT_OK(ferry_context_synchronize(basic.get(), 0, nullptr, nullptr));
            ASSERT_OK(trim());
        } else {
            ASSERT_OK(give_up(first));
            ASSERT_OK(give_up(second));
            ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
        }
        EXPECT_EQ(kept().arrays, 0u);
        EXPECT_EQ(kept().bytes, 0u);
        EXPECT_EQ(destroyed(), 2);
        EXPECT_EQ(shared.descriptors(), 0);
        // New arrays may have the handles of the old ones.
        CUextMemory_st *const next = import(next_file);
        CUmipmappedArray_st *const arrays[] = {make(next), make(next, texels)};
        ASSERT_OK(trim());
        EXPECT_EQ(destroyed(), 2);
        for (CUmipmappedArray_st *const one : arrays)
            expect_usable(one);
        ASSERT_OK(give_up(arrays[0]));
        ASSERT_OK(ferry_mipmapped_array_destroy(basic.get(), arrays[1], nullptr));
        ASSERT_OK(ferry_external_memory_release(basic.get(), next, nullptr));
        EXPECT_EQ(destroyed(), 4);
    }
}

TEST_F(imported_arrays, failures_leak_no_array_and_destroy_none_twice) {
    const file shared(memory_size);
    CUextMemory_st *const memory = import(shared);
    for (const char *const entry : {"cuEventRecord", "cuStreamIsCapturing"}) {
        SCOPED_TRACE(entry);
        CUmipmappedArray_st *const array = make(memory);
        driver.fail(entry, CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(give_up(array), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
        EXPECT_OK(give_up(array)) << "still the caller's";
    }
    ASSERT_OK(ferry_context_synchronize(basic.get(), 0, nullptr, nullptr));
    driver.fail("cuMipmappedArrayDestroy", CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(trim(), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(kept().arrays, 1u);
    ASSERT_OK(trim());
    EXPECT_EQ(destroyed(), 3) << "one call has failed";
    CUmipmappedArray_st *const array = make(memory);
    driver.fail("cuMipmappedArrayDestroy", CUDA_ERROR_UNKNOWN);
    EXPECT_NE(ferry_mipmapped_array_destroy(basic.get(), array, nullptr), FERRY_SUCCESS);
    ASSERT_OK(give_up(array)) << "still the caller's";
    driver.fail("cuMipmappedArrayDestroy", CUDA_ERROR_UNKNOWN);
    EXPECT_NE(ferry_external_memory_release(basic.get(), memory, nullptr), FERRY_SUCCESS);
    EXPECT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
    EXPECT_OK(trim());
    EXPECT_EQ(destroyed(), 6) << "three calls have failed";
    EXPECT_EQ(shared.descriptors(), 0);
}

TEST_F(imported_arrays, a_capturing_stream_is_refused) {
    const file shared(memory_size);
    CUextMemory_st *const memory = import(shared);
    CUmipmappedArray_st *const array = make(memory);
    const test_stream capturing;
    ASSERT_OK(raw().cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(give_up(array, capturing), FERRY_ERROR_CAPTURE);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(capturing, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    expect_usable(array);
    ASSERT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
}

TEST_F(imported_arrays, abandoned_arrays_end_with_their_context) {
    for (const bool by_ferry : {true, false}) {
        SCOPED_TRACE(by_ferry);
        const file shared(memory_size);
        CUcontext made = nullptr;
        ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &made, nullptr));
        ASSERT_OK(ferry_context_adopt(basic.get(), 0, made, nullptr));
        CUextMemory_st *const memory = import(shared);
        ASSERT_OK(give_up(make(memory)));
        CUmipmappedArray_st *const left = make(memory, texels);
        ASSERT_OK(ferry_context_adopt(basic.get(), 0, nullptr, nullptr));
        driver.reset_counts();
        if (by_ferry) {
            ASSERT_OK(ferry_context_destroy(basic.get(), made, nullptr));
        } else {
            ASSERT_OK(raw().cuCtxDestroy(made));
            EXPECT_OK(ferry_mipmapped_array_destroy(basic.get(), left, nullptr)) << "there is nothing to destroy";
        }
        EXPECT_OK(trim());
        EXPECT_EQ(kept().arrays, 0u);
        EXPECT_EQ(destroyed(), 0);
        EXPECT_EQ(ferry_external_memory_release(basic.get(), memory, nullptr),
                  by_ferry ? FERRY_ERROR_HANDLE : FERRY_SUCCESS);
    }
}

// The driver wants the arrays of an import to end before the import.
TEST_F(imported_arrays, an_import_waits_for_a_thread_that_destroys_its_array) {
    const file shared(memory_size), semaphore_file(semaphore_size);
    CUextMemory_st *const memory = import(shared);
    CUextSemaphore_st *const semaphore = import_semaphore(semaphore_file, FERRY_SEMAPHORE_TIMELINE_FD);
    const test_stream passed, held;
    ASSERT_OK(give_up(make(memory), passed));
    ASSERT_OK(ferry_stream_synchronize(basic.get(), passed, nullptr));
    ASSERT_OK(ferry_external_semaphore_wait_async(basic.get(), semaphore, 1, 0, held, nullptr));
    std::thread trimming([&] { EXPECT_OK(trim()); });
    while (destroyed() == 0)
        std::this_thread::yield();
    std::thread releasing([&] { EXPECT_OK(ferry_external_memory_release(basic.get(), memory, nullptr)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(driver.calls("cuMemFree"), 0);
    semaphore_file.value() = 1;
    trimming.join();
    releasing.join();
    EXPECT_EQ(destroyed(), 1);
    EXPECT_EQ(driver.calls("cuDestroyExternalMemory"), 1);
    EXPECT_EQ(shared.descriptors(), 0);
    ASSERT_OK(ferry_stream_synchronize(basic.get(), held, nullptr));
    ASSERT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
}

TEST_F(imported_arrays, cpp_ends_arrays_and_semaphores_in_stream_order) {
    const file shared(memory_size), semaphore_file(semaphore_size);
    ferry::external_memory memory =
        ferry::external_memory::open(basic.get(), memory_desc(shared.descriptor(), memory_size)).or_throw();
    const auto of_semaphore = semaphore_desc(semaphore_file.descriptor(), FERRY_SEMAPHORE_TIMELINE_FD);
    auto semaphore = ferry::external_semaphore::open(basic.get(), of_semaphore).or_throw();
    const ferry::stream order = ferry::stream::create(basic.get(), 0, ferry::stream_flag::non_blocking).or_throw();
    CUmipmappedArray_st *const first = memory.mipmapped(0, shape(), 1).or_throw();
    CUmipmappedArray_st *const second = memory.mipmapped(texels, shape(), 1).or_throw();
    ASSERT_TRUE(memory.destroy(first).ok());
    ASSERT_TRUE(memory.destroy_deferred(second, order).ok());
    EXPECT_EQ(memory.destroy(second).code(), FERRY_ERROR_INVALID_ARGUMENT);
    ASSERT_TRUE(semaphore.signal(order, 3).ok());
    ASSERT_TRUE(semaphore.release_deferred(order).ok());
    EXPECT_FALSE(semaphore);
    EXPECT_TRUE(semaphore.release_deferred(order).ok()) << "it is empty";
    EXPECT_EQ(kept().arrays, 1u);
    EXPECT_EQ(kept().allocations, 1u);
    ASSERT_TRUE(order.synchronize().ok());
    EXPECT_EQ(semaphore_file.value(), 3u);
    ASSERT_OK(trim());
    EXPECT_EQ(destroyed(), 2);
    EXPECT_EQ(driver.calls("cuDestroyExternalSemaphore"), 1);
}

TEST_F(imported_arrays, cpp_counts_a_line_past_the_end_in_elements) {
    const file shared(memory_size);
    const ferry::external_memory memory =
        ferry::external_memory::open(basic.get(), memory_desc(shared.descriptor(), memory_size)).or_throw();
    const std::uint64_t count = memory_size / 4;
    EXPECT_EQ(memory.line<float>(0, count + 1).error().line().c_str(),
              "size: " + std::to_string(memory_size + 4) + ", past the end at " + std::to_string(memory_size) +
                  " (FERRY_ERROR_OUT_OF_BOUNDS); in elements of 4 bytes: " + std::to_string(count + 1) + ", limit " +
                  std::to_string(count));
}

TEST_F(imported_arrays, threads_end_arrays_and_imports_at_the_same_time) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            EXPECT_OK(raw().cuCtxSetCurrent(context));
            const file shared(memory_size);
            for (int round = 0; round < 40; ++round) {
                const auto wanted = memory_desc(dup(shared.descriptor()), memory_size);
                CUextMemory_st *memory = nullptr;
                EXPECT_OK(ferry_external_memory_import(basic.get(), &wanted, &memory, nullptr));
                for (int one = 0; one < 4; ++one) {
                    CUmipmappedArray_st *const array = make(memory);
                    EXPECT_OK(one % 2 ? give_up(array) : ferry_mipmapped_array_destroy(basic.get(), array, nullptr));
                }
                make(memory);
                if (round % 4 == thread) {
                    EXPECT_OK(trim());
                }
                EXPECT_OK(round % 2 ? ferry_external_memory_release(basic.get(), memory, nullptr)
                                    : ferry_external_memory_release_deferred(basic.get(), memory, nullptr, nullptr));
            }
            close(shared.descriptor());
        });
    for (std::thread &thread : threads)
        thread.join();
    ASSERT_OK(ferry_context_synchronize(basic.get(), 0, nullptr, nullptr));
    EXPECT_OK(trim());
    EXPECT_EQ(kept().arrays, 0u);
    EXPECT_EQ(kept().allocations, 0u);
    EXPECT_EQ(destroyed(), 4 * 40 * 5);
    EXPECT_EQ(driver.calls("cuDestroyExternalMemory"), 4 * 40);
}

TEST_F(counted_files, semaphores_are_released_after_their_last_use) {
    const file awaited_file(semaphore_size), signalled_file(semaphore_size);
    CUextSemaphore_st *const awaited = import_semaphore(awaited_file, FERRY_SEMAPHORE_TIMELINE_FD);
    CUextSemaphore_st *const signalled = import_semaphore(signalled_file, FERRY_SEMAPHORE_TIMELINE_FD);
    const auto count = [&] {
        ferry_deferred_info kept = {};
        kept.struct_size = sizeof kept;
        EXPECT_OK(ferry_deferred_get_info(basic.get(), 0, &kept, nullptr));
        EXPECT_EQ(kept.bytes, 0u);
        return kept.allocations;
    };
    {
        const test_stream stream;
        ASSERT_OK(ferry_external_semaphore_wait_async(basic.get(), awaited, 1, 0, stream, nullptr));
        ASSERT_OK(ferry_external_semaphore_signal_async(basic.get(), signalled, 7, stream, nullptr));
        for (CUextSemaphore_st *const one : {awaited, signalled}) {
            ASSERT_OK(ferry_external_semaphore_release_deferred(basic.get(), one, stream, nullptr));
            EXPECT_EQ(ferry_external_semaphore_release_deferred(basic.get(), one, stream, nullptr), FERRY_ERROR_HANDLE);
            EXPECT_EQ(ferry_external_semaphore_release(basic.get(), one, nullptr), FERRY_ERROR_HANDLE);
            EXPECT_EQ(ferry_external_semaphore_signal_async(basic.get(), one, 9, stream, nullptr), FERRY_ERROR_HANDLE);
            EXPECT_EQ(ferry_external_semaphore_wait_async(basic.get(), one, 9, 0, stream, nullptr), FERRY_ERROR_HANDLE);
        }
        ASSERT_OK(ferry_deferred_trim(basic.get(), 0, 0, nullptr));
        EXPECT_EQ(count(), 2u) << "the stream has not passed";
        EXPECT_EQ(driver.calls("cuDestroyExternalSemaphore"), 0);
        awaited_file.value() = 1;
        ASSERT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
    }
    EXPECT_EQ(signalled_file.value(), 7u);
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, 4096, &address, nullptr));
    EXPECT_EQ(count(), 2u) << "an allocation below the limit frees nothing";
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    ASSERT_OK(ferry_deferred_trim(basic.get(), 0, UINT64_MAX, nullptr));
    EXPECT_EQ(count(), 0u);
    EXPECT_EQ(driver.calls("cuDestroyExternalSemaphore"), 2);
    CUextSemaphore_st *const again = import_semaphore(file(semaphore_size), FERRY_SEMAPHORE_TIMELINE_FD);
    const test_stream capturing;
    ASSERT_OK(raw().cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(ferry_external_semaphore_release_deferred(basic.get(), again, capturing, nullptr), FERRY_ERROR_CAPTURE);
    CUgraph graph = nullptr;
    ASSERT_OK(raw().cuStreamEndCapture(capturing, &graph));
    EXPECT_OK(raw().cuGraphDestroy(graph));
    EXPECT_OK(ferry_external_semaphore_release(basic.get(), again, nullptr)) << "still the caller's";
}

TEST_F(files, imports_end_with_their_context) {
    const file shared(memory_size);
    CUctx_st *made = nullptr;
    ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &made, nullptr));
    ASSERT_OK(ferry_context_adopt(basic.get(), 0, made, nullptr));
    CUextMemory_st *const memory = import(shared);
    address_of(memory, 0, 0);
    const file semaphore_file(semaphore_size);
    CUextSemaphore_st *const semaphore = import_semaphore(semaphore_file, FERRY_SEMAPHORE_TIMELINE_FD);
    ASSERT_OK(ferry_external_semaphore_release_deferred(basic.get(), semaphore, nullptr, nullptr));
    ASSERT_OK(ferry_context_adopt(basic.get(), 0, nullptr, nullptr));
    ASSERT_OK(ferry_context_destroy(basic.get(), made, nullptr));
    EXPECT_EQ(ferry_external_memory_release(basic.get(), memory, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(ferry_external_semaphore_release(basic.get(), semaphore, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(shared.descriptors(), 0);
    ferry_deferred_info kept = {};
    kept.struct_size = sizeof kept;
    ASSERT_OK(ferry_deferred_get_info(basic.get(), 0, &kept, nullptr));
    EXPECT_EQ(kept.allocations, 0u);
}

// A release waits for running work. Calls that need no driver do not wait for it.
TEST_F(files, addresses_are_known_while_another_import_is_released) {
    const file shared(memory_size), other(memory_size), semaphore_file(semaphore_size);
    CUextSemaphore_st *const semaphore = import_semaphore(semaphore_file, FERRY_SEMAPHORE_TIMELINE_FD);
    const test_stream held;
    CUextMemory_st *const memory = import(shared), *const living = import(other);
    ASSERT_OK(ferry_external_semaphore_wait_async(basic.get(), semaphore, 1, 0, held, nullptr));
    std::thread releasing([&] { EXPECT_OK(ferry_external_memory_release(basic.get(), memory, nullptr)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    address_of(living, 5, 5);
    std::uint64_t none = 0;
    EXPECT_EQ(ferry_external_memory_get_address(basic.get(), memory, 0, 0, &none, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_EQ(ferry_external_memory_release(basic.get(), memory, nullptr), FERRY_ERROR_HANDLE);
    semaphore_file.value() = 1;
    releasing.join();
    ASSERT_OK(ferry_stream_synchronize(basic.get(), held, nullptr));
    ASSERT_OK(ferry_external_memory_release(basic.get(), living, nullptr));
    ASSERT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
}

TEST_F(files, a_context_that_ended_without_ferry_leaves_nothing_to_free) {
    const file shared(memory_size), other(memory_size);
    CUcontext made = nullptr;
    ASSERT_OK(raw().cuCtxCreate(&made, 0, 0));
    ASSERT_OK(raw().cuCtxPopCurrent(nullptr));
    ASSERT_OK(ferry_context_adopt(basic.get(), 0, made, nullptr));
    CUextMemory_st *const memory = import(shared);
    ASSERT_OK(ferry_context_adopt(basic.get(), 0, nullptr, nullptr));
    CUextMemory_st *const living = import(other);
    ASSERT_OK(raw().cuCtxDestroy(made));
    EXPECT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
    EXPECT_EQ(ferry_external_memory_release(basic.get(), memory, nullptr), FERRY_ERROR_HANDLE);
    EXPECT_OK(ferry_external_memory_release(basic.get(), living, nullptr));
    EXPECT_EQ(other.descriptors(), 0);
}

TEST_F(files, threads_import_and_release_at_the_same_time) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int round = 0; round < 20; ++round) {
                const file shared(memory_size), semaphore_file(semaphore_size);
                CUextMemory_st *const memory = import(shared);
                const std::uint64_t address = address_of(memory, 100, 1000);
                EXPECT_EQ(ferry_device_free(basic.get(), address, nullptr), FERRY_ERROR_IMPORTED);
                CUextSemaphore_st *const semaphore = import_semaphore(semaphore_file, FERRY_SEMAPHORE_TIMELINE_FD);
                EXPECT_OK(ferry_external_memory_release(basic.get(), memory, nullptr));
                EXPECT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
                EXPECT_EQ(shared.descriptors(), 0);
            }
        });
    for (std::thread &one : threads)
        one.join();
}

TEST_F(files, timelines_order_streams_both_ways) {
    const file shared(semaphore_size);
    CUextSemaphore_st *const semaphore = import_semaphore(shared, FERRY_SEMAPHORE_TIMELINE_FD);
    const test_stream waiting, signalling;
    std::atomic<bool> is_passed = false;
    ASSERT_OK(ferry_external_semaphore_wait_async(basic.get(), semaphore, 5, 0, waiting, nullptr));
    ASSERT_OK(raw().cuLaunchHostFunc(
        waiting, [](void *flag) { *static_cast<std::atomic<bool> *>(flag) = true; }, &is_passed));
    ASSERT_OK(ferry_external_semaphore_signal_async(basic.get(), semaphore, 4, signalling, nullptr));
    ASSERT_OK(ferry_stream_synchronize(basic.get(), signalling, nullptr));
    EXPECT_EQ(shared.value(), 4u);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(is_passed);
    shared.value() = 6; // from the other API
    ASSERT_OK(ferry_stream_synchronize(basic.get(), waiting, nullptr));
    EXPECT_TRUE(is_passed);
    ASSERT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
}

TEST_F(files, a_binary_semaphore_lets_one_wait_pass) {
    const file shared(semaphore_size);
    CUextSemaphore_st *const semaphore = import_semaphore(shared, FERRY_SEMAPHORE_OPAQUE_FD);
    const test_stream stream;
    for (int round = 0; round < 3; ++round) {
        ASSERT_OK(ferry_external_semaphore_signal_async(basic.get(), semaphore, 0, stream, nullptr));
        ASSERT_OK(ferry_external_semaphore_wait_async(basic.get(), semaphore, 0, 0, stream, nullptr));
        ASSERT_OK(ferry_stream_synchronize(basic.get(), stream, nullptr));
        EXPECT_EQ(shared.value(), 0u);
    }
    ASSERT_OK(ferry_external_semaphore_release(basic.get(), semaphore, nullptr));
}

TEST_F(files, a_failing_import_leaves_the_descriptor_open) {
    fault_driver wrapped{raw_entry_points()};
    const instance_owner faulty = open_or_fail(wrapped.options());
    ferry_instance *const opened = faulty.get();
    const file shared(memory_size), semaphore_file(semaphore_size);
    wrapped.fail("cuImportExternalMemory", CUDA_ERROR_OUT_OF_MEMORY);
    const auto wanted = memory_desc(shared.descriptor(), memory_size);
    CUextMemory_st *memory = nullptr;
    EXPECT_EQ(ferry_external_memory_import(opened, &wanted, &memory, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    wrapped.fail("cuExternalMemoryGetMappedBuffer", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ferry_external_memory_import(opened, &wanted, &memory, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(memory, nullptr);
    EXPECT_TRUE(is_open(shared.descriptor()));
    EXPECT_EQ(shared.descriptors(), 1) << "nothing is left";
    ASSERT_OK(ferry_external_memory_import(opened, &wanted, &memory, nullptr));
    for (const char *const entry : {"cuMemFree", "cuDestroyExternalMemory"}) {
        wrapped.fail(entry, CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(ferry_external_memory_release(opened, memory, nullptr),
                  FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN);
    }
    EXPECT_OK(ferry_external_memory_release(opened, memory, nullptr));
    EXPECT_EQ(shared.descriptors(), 0);
    wrapped.fail("cuImportExternalSemaphore", CUDA_ERROR_OUT_OF_MEMORY);
    const auto semaphore_wanted = semaphore_desc(semaphore_file.descriptor(), FERRY_SEMAPHORE_TIMELINE_FD);
    CUextSemaphore_st *semaphore = nullptr;
    EXPECT_EQ(ferry_external_semaphore_import(opened, &semaphore_wanted, &semaphore, nullptr),
              FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(is_open(semaphore_file.descriptor()));
    close(semaphore_file.descriptor());
}

// ---- Descriptors that are kept from one call to another

// A file of the program. Its bytes must stay.
struct own_file {
    own_file() : descriptor(memfd_create("the program's own", MFD_CLOEXEC)) {
        EXPECT_EQ(::write(descriptor, full.data(), full.size()), static_cast<ssize_t>(full.size()));
    }
    bool is_untouched() const {
        bytes found(full.size());
        return pread(descriptor, found.data(), found.size(), 0) == static_cast<ssize_t>(full.size()) && found == full;
    }
    void move_to(int number) {
        EXPECT_EQ(dup2(descriptor, number), number);
        close(std::exchange(descriptor, number));
    }
    const bytes full = random_bytes(1 << 20, 3);
    int descriptor;
};

TEST(kept_descriptor, a_number_that_names_another_file_is_neither_used_nor_closed) {
    int number = -1;
    {
        kept_descriptor kept;
        EXPECT_EQ(kept.get(), -1);
        kept = kept_descriptor(memfd_create("kept", MFD_CLOEXEC));
        number = kept.get();
        ASSERT_GE(number, 0);
        EXPECT_EQ(close(number), 0); // as a program does that closes all it does not know
        EXPECT_EQ(kept.get(), -1);
        const own_file own;
        EXPECT_EQ(own.descriptor, number) << "the lowest free number";
        EXPECT_EQ(kept.get(), -1);
    }
    EXPECT_TRUE(is_open(number));
    EXPECT_EQ(close(number), 0);
    {
        kept_descriptor kept(memfd_create("kept", MFD_CLOEXEC));
        number = kept.number();
        EXPECT_EQ(kept.get(), number);
    }
    EXPECT_FALSE(is_open(number));
}

// Returns the descriptors that ferry and the software driver have opened.
std::vector<int> descriptors_of_ferry() {
    std::vector<int> found;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(entry.path(), gone);
        for (const char *const part : {"/maps", "ferry software", "memfd:external"})
            if (target.find(part) != std::string::npos) found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
}

FERRY_SECOND_PROCESS(closes_every_descriptor_that_it_does_not_know) {
    instance_owner ferry = open_or_fail(options_under_test());
    CUextMemory_st *imported = nullptr;
    if (on_software_driver()) {
        const file exported(64 << 10);
        ferry_external_memory_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.handle_type = FERRY_EXTERNAL_OPAQUE_FD;
        desc.handle = exported.descriptor();
        desc.size = exported.size();
        EXPECT_OK(ferry_external_memory_import(ferry.get(), &desc, &imported, nullptr));
    }
    std::uint64_t memory = 0;
    EXPECT_OK(ferry_device_alloc(ferry.get(), 0, 4 << 20, &memory, nullptr));
    std::vector<std::unique_ptr<own_file>> own;
    const std::vector<int> known = descriptors_of_ferry();
    EXPECT_FALSE(on_software_driver() && known.empty());
    for (const int number : known) {
        EXPECT_EQ(close(number), 0);
        own.push_back(std::make_unique<own_file>());
        if (own.back()->descriptor != number) own.back()->move_to(number);
    }
    const bytes sent = random_bytes(4 << 20, 1);
    bytes got(sent.size());
    EXPECT_OK(ferry_copy_bytes(ferry.get(), memory, reinterpret_cast<std::uintptr_t>(sent.data()), sent.size(), nullptr,
                               nullptr));
    EXPECT_OK(ferry_copy_bytes(ferry.get(), reinterpret_cast<std::uintptr_t>(got.data()), memory, got.size(), nullptr,
                               nullptr));
    EXPECT_EQ(got, sent);
    EXPECT_OK(ferry_device_free(ferry.get(), memory, nullptr));
    if (imported) {
        EXPECT_OK(ferry_external_memory_release(ferry.get(), imported, nullptr));
    }
    ferry.reset();
    for (const auto &one : own)
        EXPECT_TRUE(is_open(one->descriptor) && one->is_untouched()) << one->descriptor;
    return 0;
}

TEST_F(external, files_of_the_program_with_numbers_of_closed_descriptors_stay_open) {
    second_process other("closes_every_descriptor_that_it_does_not_know");
    EXPECT_EQ(other.wait(), 0);
}

#endif

} // namespace
} // namespace ferry::test
