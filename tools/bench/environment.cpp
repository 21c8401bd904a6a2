#include "environment.h"

#include <cstring>
#include <stdexcept>

#include "measure.h"
#include "trace.h"

namespace bench {

namespace {

ferry_report report_of(const instance &ferry) {
    auto report = sized<ferry_report>();
    check(ferry_instance_get_report(ferry.get(), &report, nullptr), "ferry_instance_get_report", {});
    return report;
}

ferry_device_info info_of(const instance &ferry, int device) {
    auto info = sized<ferry_device_info>();
    check(ferry_device_get_info(ferry.get(), device, &info, nullptr), "ferry_device_get_info", {});
    return info;
}

ferry::driver_table raw_table(const instance &ferry) {
    const ferry::resolver through_ferry = {[](void *user, const char *name, int version) {
                                               return ferry_instance_get_proc(static_cast<ferry_instance *>(user), name,
                                                                              version);
                                           },
                                           ferry.get()};
    ferry::driver_table table;
    bool found[ferry::driver_symbol_count];
    ferry::resolve_table(through_ferry, table, found);
    return table;
}

} // namespace

void fail(const std::string &message) { throw std::runtime_error(message); }

void fail(std::int32_t status, const char *call, const ferry_error_info &error) {
    ferry_error_info full = error;
    full.struct_size = sizeof full;
    full.status = status;
    std::string line(ferry_error_format(&full, nullptr, 0) + 1, '\0');
    ferry_error_format(&full, line.data(), line.size());
    fail(std::string(call) + ": " + line.c_str());
}

void fail(CUresult result, const char *call) {
    fail(FERRY_STATUS_DRIVER_BASE - static_cast<std::int32_t>(result), call, ferry_error_info{});
}

bool is_supported(std::int32_t status, const char *call, const ferry_error_info &error) {
    if (status == FERRY_ERROR_UNSUPPORTED || status == FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_SUPPORTED)
        return false;
    check(status, call, error);
    return true;
}

instance open_ferry(const ferry_options &wanted) {
    auto error = sized<ferry_error_info>();
    ferry_options options = wanted;
    add_trace(options);
    ferry_instance *opened = nullptr;
    check(ferry_open(&options, &opened, &error), "ferry_open", error);
    return {opened, ferry_close};
}

instance open_ferry(std::int32_t driver, std::int32_t checks) {
    auto options = sized<ferry_options>();
    options.driver = driver;
    options.checks = checks;
    return open_ferry(options);
}

primary_context retain_primary(const ferry::driver_table &cu, int ordinal) {
    CUdevice device = 0;
    CUcontext context = nullptr;
    check(cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    check(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    return {{device, cu.cuDevicePrimaryCtxRelease}, context};
}

current_context::current_context(const ferry::driver_table &cu, CUcontext context) : cu_(cu) {
    check(cu.cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

current_context::~current_context() {
    CUcontext popped = nullptr;
    cu_.cuCtxPopCurrent(&popped);
}

owned<CUstream> make_stream(const environment &environment) {
    environment.need({"cuStreamCreate", "cuStreamDestroy"});
    CUstream stream = nullptr;
    check(environment.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return {stream, environment.cu.cuStreamDestroy};
}

environment::environment(std::int32_t driver, int device)
    : device(device), basic([&] {
          const double start = now_ns();
          instance opened = open_ferry(driver, FERRY_CHECKS_BASIC);
          first_open_ns = now_ns() - start;
          return opened;
      }()),
      full(open_ferry(report_of(basic).driver, FERRY_CHECKS_FULL)), report(report_of(basic)),
      device_info(info_of(basic, device)), cu(raw_table(basic)), context(retain_primary(cu, device)),
      current(cu, context.handle), stream(make_stream(*this)) {}

const char *environment::missing(std::initializer_list<const char *> entry_points) const {
    for (std::uint32_t i = 0; const char *missing = ferry_instance_get_missing_entry_point(basic.get(), i); ++i)
        for (const char *wanted : entry_points)
            if (std::strcmp(missing, wanted) == 0) return wanted;
    return nullptr;
}

void environment::need(std::initializer_list<const char *> entry_points) const {
    if (const char *absent = missing(entry_points)) fail(std::string("this driver lacks ") + absent);
}

opening_cost measure_opening(const environment &environment) {
    samples open, close;
    for (int i = 0; i < 9; ++i) {
        const double start = now_ns();
        double opened = 0;
        {
            const instance another = open_ferry(environment.report.driver, FERRY_CHECKS_BASIC);
            opened = now_ns();
        }
        open.push_back(opened - start);
        close.push_back(now_ns() - opened);
    }
    return {summarise(open).median, summarise(close).median};
}

} // namespace bench
