// Shared by libFuzzer's targets: reads input bytes as values, opens one instance on the software driver, and ends the
// process if an expectation fails, which libFuzzer reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "ferry/ferry.h"
#include "support/gpu_profile.h"

namespace ferry::fuzzing {

// Reads values from the input bytes. Past the end every byte reads as zero.
class input {
public:
    input(const std::uint8_t *data, std::size_t size) : data_(data), left_(size) {}
    template <class Value> Value take() {
        static_assert(std::is_trivially_copyable_v<Value>);
        Value value = {};
        take_bytes(&value, sizeof value);
        return value;
    }
    void take_bytes(void *to, std::size_t size) {
        const std::size_t taken = size < left_ ? size : left_;
        if (taken) std::memcpy(to, data_, taken);
        data_ += taken;
        left_ -= taken;
    }
    std::uint64_t up_to(std::uint64_t most) { return take<std::uint32_t>() % (most + 1); }
    bool one_in(unsigned number) { return take<std::uint8_t>() % number == 0; }
    template <class One, std::size_t count> One &of(One (&choices)[count]) {
        return choices[take<std::uint8_t>() % count];
    }
    const std::uint8_t *data() const { return data_; }
    std::size_t left() const { return left_; }

private:
    const std::uint8_t *data_;
    std::size_t left_;
};

inline void expect(bool is_so, const char *what) {
    if (is_so) return;
    std::fprintf(stderr, "FAILED: %s\n", what);
    std::abort();
}

// Returns `status`, which must be a success, a status that ferry defines, or a driver status with a known name.
inline std::int32_t known(std::int32_t status) {
    const char *const name = ferry_status_name(status);
    expect(std::strcmp(name, "FERRY_ERROR_UNKNOWN_STATUS") != 0, "a call returned an unknown status");
    expect(!(ferry_status_traits(status) & FERRY_STATUS_CONTEXT_DEAD), "a call reported a dead context");
    return status;
}

inline bool is_one_of(std::int32_t status, std::initializer_list<std::int32_t> expected) {
    for (const std::int32_t one : expected)
        if (status == one) return true;
    return false;
}

inline ferry_error_info new_error() {
    ferry_error_info error = {};
    error.struct_size = sizeof error;
    return error;
}

// Opens an instance that is never closed, because libFuzzer ends the process first.
inline ferry_instance *open_with(std::int32_t checks) {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_SOFTWARE;
    options.checks = checks;
    options.staging_threads = 1;
    ferry_instance *made = nullptr;
    expect(ferry_open(&options, &made, nullptr) == 0, "cannot open the software driver");
    test::plan_as_on_a_gpu(made);
    return made;
}

} // namespace ferry::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);
