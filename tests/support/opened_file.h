// Open files, places in them, and copies that have ended when the test continues.
#pragma once

#include <memory>
#include <string>

#include "support/driver_under_test.h"
#include "support/raw_objects.h"

namespace ferry::test {

struct close_opened_file {
    void operator()(ferry_file *file) const noexcept { ferry_file_close(file); }
};
using opened_file = std::unique_ptr<ferry_file, close_opened_file>;

// How a file is opened. The default: only for reads, and ferry decides the rest.
struct file_mode {
    std::uint32_t flags = FERRY_FILE_READ;
    std::int32_t direct = FERRY_FILE_DIRECT_AUTO;
    std::uint32_t max_threads = 0;

    bool is_direct() const { return direct == FERRY_FILE_DIRECT_ALWAYS || (flags & FERRY_FILE_KEEP_CACHE); }
};

// Null if the file system has no direct I/O and the mode requires it.
inline opened_file open_file_as(ferry_instance *instance, const std::string &path, const file_mode &mode = {}) {
    const ferry_file_options options = {sizeof options, mode.flags, mode.direct, mode.max_threads};
    ferry_error_info error = new_error();
    ferry_file *file = nullptr;
    const std::int32_t status = ferry_file_open(instance, path.c_str(), &options, &file, &error);
    EXPECT_TRUE(status == FERRY_SUCCESS || (mode.is_direct() && status == FERRY_ERROR_UNSUPPORTED)) << describe(error);
    return opened_file(file);
}

inline ferry_place place_in(const opened_file &file, std::uint64_t offset, std::uint64_t row_pitch = 0,
                            std::uint64_t slice_height = 0) {
    ferry_place place;
    ferry_place_file_pitched(&place, file.get(), offset, row_pitch, slice_height);
    return place;
}
inline ferry_place place_on_device(std::uint64_t address, std::uint64_t row_pitch = 0, std::uint64_t slice_height = 0) {
    ferry_place place;
    ferry_place_device_pitched(&place, 0, address, row_pitch, slice_height);
    return place;
}
inline ferry_place place_on_host(bytes &memory) {
    ferry_place place;
    ferry_place_host(&place, memory.data());
    return place;
}

// Copies of files of one instance and one stream. Each function returns the status with which the copy ended.
class file_copies {
public:
    file_copies(ferry_instance *instance, CUstream stream) : instance_(instance), stream_(stream) {}

    std::int32_t copy(const ferry_copy_desc &desc) {
        error = new_error();
        return ferry_copy(instance_, &desc, nullptr, &error);
    }
    std::int32_t copy_async(const ferry_copy_desc &desc) {
        error = new_error();
        ferry_ticket *ticket = nullptr;
        const std::int32_t status = ferry_copy_async(instance_, &desc, nullptr, stream_, &ticket, &error);
        return status == FERRY_SUCCESS ? end(ticket) : status;
    }
    std::int32_t copy(const ferry_piece_list &list) {
        error = new_error();
        return ferry_copy_pieces(instance_, &list, nullptr, &error);
    }
    std::int32_t copy_async(const ferry_piece_list &list) {
        error = new_error();
        ferry_ticket *ticket = nullptr;
        const std::int32_t status = ferry_copy_pieces_async(instance_, &list, nullptr, stream_, &ticket, &error);
        return status == FERRY_SUCCESS ? end(ticket) : status;
    }
    ferry_instance *instance() const { return instance_; }

    ferry_error_info error = new_error(); // of the last copy

private:
    std::int32_t end(ferry_ticket *ticket) {
        const std::int32_t status = ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(stream_));
        return status;
    }

    ferry_instance *instance_;
    CUstream stream_;
};

// A stream beside the instances. The tests are skipped on drivers without kernels, where ferry cannot stage.
class file_fixture : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        if (!raw().cuLibraryLoadData) GTEST_SKIP() << "this driver has no kernels, so ferry cannot stage";
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }
    static bool has_stream_waits() { return raw().cuStreamBatchMemOp; }

    CUstream stream = nullptr;
};

} // namespace ferry::test
