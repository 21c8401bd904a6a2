// What every case uses: ferry's instances, the raw driver that they use, a context, a stream, and errors.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "driver/table.h"
#include "ferry/ferry.h"
#include "ferry/ferry_devices.h"

namespace bench {

// Throws: the run cannot continue. The message states the reason.
[[noreturn]] void fail(const std::string &message);
// Throws for a failed call and names the call.
[[noreturn]] void fail(CUresult result, const char *call);
[[noreturn]] void fail(std::int32_t status, const char *call, const ferry_error_info &error);
// Inline, because they run inside timed code.
inline void check(CUresult result, const char *call) {
    if (result != CUDA_SUCCESS) fail(result, call);
}
inline void check(std::int32_t status, const char *call, const ferry_error_info &error) {
    if (status != FERRY_SUCCESS) fail(status, call, error);
}

// Returns whether this build and this driver support what a call requested. Throws if the call failed for another
// reason.
bool is_supported(std::int32_t status, const char *call, const ferry_error_info &error);

// One of ferry's structs: all zero except the struct_size at its beginning.
template <typename Struct> Struct sized() {
    Struct value = {};
    value.struct_size = sizeof value;
    return value;
}

// A handle with the call that releases it.
template <typename Handle> class owned {
public:
    owned(Handle handle, std::function<void(Handle)> release) : handle_(handle), give_back_(std::move(release)) {}
    owned(owned &&other) noexcept : handle_(other.handle_), give_back_(std::exchange(other.give_back_, nullptr)) {}
    ~owned() {
        if (give_back_) give_back_(handle_);
    }
    Handle get() const { return handle_; }

private:
    Handle handle_;
    std::function<void(Handle)> give_back_;
};

using instance = owned<ferry_instance *>;
instance open_ferry(const ferry_options &options);

// A device's primary context, retained while this object lives.
struct primary_context {
    owned<CUdevice> retained;
    CUcontext handle;
};
primary_context retain_primary(const ferry::driver_table &cu, int ordinal);

// Makes a context current on this thread while the object exists, as in any program that uses the driver.
class current_context {
public:
    current_context(const ferry::driver_table &cu, CUcontext context);
    ~current_context();
    current_context(const current_context &) = delete;

private:
    const ferry::driver_table &cu_;
};

struct environment {
    environment(std::int32_t driver, int device);

    // Returns the first of these optional entry points that the driver lacks, or NULL.
    const char *missing(std::initializer_list<const char *> entry_points) const;
    // Throws if the driver lacks an entry point that a case requires.
    void need(std::initializer_list<const char *> entry_points) const;

    const int device;
    double first_open_ns = 0; // of ferry_open, including the driver's cuInit
    const instance basic;
    const instance full; // the same driver, opened with FERRY_CHECKS_FULL
    ferry_report report = {};
    ferry_device_info device_info = {};
    ferry::driver_table cu; // from ferry_instance_get_proc: the same driver, called directly
    const primary_context context;
    const current_context current;
    const owned<CUstream> stream;
};

// Creates a non-blocking stream in the current context.
owned<CUstream> make_stream(const environment &environment);

// Median times to open and close an instance after the driver has been initialised.
struct opening_cost {
    double open_ns, close_ns;
};
opening_cost measure_opening(const environment &environment);

} // namespace bench
