#include "support/alias_driver.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/names.h"
#include "kernels/parameters.h"

namespace ferry::test {

namespace {

// Set in the device addresses of host memory, which makes them differ from every real address.
constexpr std::uint64_t alias_bit = std::uint64_t{1} << 55;

driver_table real;
resolver real_entry_points;
std::atomic<int> refusals = 0;
std::mutex mutex;
std::map<CUfunction, gpu::kernel> known_kernels; // guarded by mutex

bool is_host_memory(std::uint64_t address) {
    unsigned type = 0, is_managed = 0;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *answers[] = {&type, &is_managed};
    return real.cuPointerGetAttributes(2, asked, answers, address) == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST &&
           !is_managed;
}

// Converts a device address to the address that the real driver knows. Returns false for a host address.
bool to_real(std::uint64_t &address) {
    if (!(address & alias_bit)) return !is_host_memory(address);
    address &= ~alias_bit;
    return true;
}

bool to_real(gpu::strided_parameters &given) {
    return to_real(given.destination.address) && to_real(given.source.address);
}
bool to_real(gpu::fill_parameters &given) { return to_real(given.destination.address); }
bool to_real(gpu::piece &one) { return to_real(one.destination) && to_real(one.source); }
bool to_real(gpu::box &one) { return to_real(one.destination.address) && to_real(one.source.address); }
bool to_real(gpu::array_box &one) { return to_real(one.destination.address); }
bool to_real(gpu::ring_parameters &given) { return to_real(given.record) && to_real(given.device.address); }
bool to_real(gpu::array_parameters &given) { return to_real(given.destination.address); }
bool to_real(gpu::link_parameters &given) {
    return to_real(given.destination.address) && to_real(given.source.address) && to_real(given.passed);
}

bool to_real(gpu::nest_parameters &given) {
    bool all = to_real(given.destination) && to_real(given.source) && (!given.skipped || to_real(given.skipped));
    for (std::uint32_t i = 0; i < given.axes; ++i)
        for (gpu::u64 *const list : {&given.axis[i].destination_indices, &given.axis[i].source_indices})
            if (*list) all = to_real(*list) && all;
    return all;
}

template <class Job> bool to_real(Job *jobs, std::uint32_t count) {
    bool all = true;
    for (std::uint32_t i = 0; i < count; ++i)
        all = to_real(jobs[i]) && all;
    return all;
}
// Corrects a table in host-visible memory in place. The correction persists, so a second launch finds a corrected
// table.
template <class Job> bool table_to_real(std::uint64_t &table, std::uint32_t count) {
    if (!to_real(table)) return false;
    if (!is_host_memory(table)) return true;
    auto *const jobs = reinterpret_cast<Job *>(table);
    for (std::uint32_t i = 0; i < count; ++i)
        to_real(jobs[i]);
    return true;
}
bool to_real(gpu::piece_parameters &given) { return to_real(given.pieces, given.work.count); }
bool to_real(gpu::piece_table_parameters &given) { return table_to_real<gpu::piece>(given.table, given.work.count); }
bool to_real(gpu::box_parameters &given) {
    return given.table ? table_to_real<gpu::box>(given.table, given.work.count)
                       : to_real(given.boxes, given.work.count);
}
bool to_real(gpu::array_box_parameters &given) {
    return given.table ? table_to_real<gpu::array_box>(given.table, given.work.count)
                       : to_real(given.boxes, given.work.count);
}

CUresult refuse() {
    ++refusals;
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult CUDAAPI get_kernel(CUkernel *kernel, CUlibrary library, const char *name) {
    const CUresult result = real.cuLibraryGetKernel(kernel, library, name);
    const std::lock_guard lock(mutex);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < gpu::kernel_count; ++i)
        if (!std::strcmp(gpu::entry_names[i], name))
            known_kernels[reinterpret_cast<CUfunction>(*kernel)] = static_cast<gpu::kernel>(i);
    return result;
}

template <class Parameters> bool copy_to_real(const void *given, std::vector<std::byte> &copy) {
    copy.resize(sizeof(Parameters));
    std::memcpy(copy.data(), given, sizeof(Parameters));
    return to_real(*reinterpret_cast<Parameters *>(copy.data()));
}

bool copy_to_real(CUfunction function, const void *given, std::vector<std::byte> &copy) {
    const std::lock_guard lock(mutex);
    switch (known_kernels.at(function)) {
#define FERRY_KERNEL(name, parameters, function)                                                                       \
    case gpu::kernel::name:                                                                                            \
        return copy_to_real<gpu::parameters>(given, copy);
#include "kernels/list.inc"
#undef FERRY_KERNEL
    default:
        return false;
    }
}

CUresult CUDAAPI launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **given,
                        void **extra) {
    std::vector<std::byte> copy;
    if (!copy_to_real(function, given[0], copy)) return refuse();
    void *parameters[] = {copy.data()};
    return real.cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                               parameters, extra);
}

CUresult CUDAAPI get_attributes(unsigned count, CUpointer_attribute *asked, void **answers, CUdeviceptr address) {
    const CUresult result = real.cuPointerGetAttributes(count, asked, answers, address & ~alias_bit);
    const bool has_alias = result == CUDA_SUCCESS && is_host_memory(address & ~alias_bit);
    for (unsigned i = 0; has_alias && i < count; ++i)
        if (asked[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
            if (auto *const told = static_cast<CUdeviceptr *>(answers[i]); *told) *told |= alias_bit;
    return result;
}

CUresult CUDAAPI get_device_pointer(CUdeviceptr *address, void *host, unsigned flags) {
    const CUresult result = real.cuMemHostGetDevicePointer(address, host, flags);
    if (result == CUDA_SUCCESS) *address |= alias_bit;
    return result;
}

CUresult CUDAAPI get_attribute(int *value, CUdevice_attribute asked, CUdevice device) {
    const CUresult result = real.cuDeviceGetAttribute(value, asked, device);
    if (asked == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) *value = 0;
    return result;
}

// One wrapper per memset function, identified by its field in the driver table.
template <auto field, class Function> struct fill;
template <auto field, class... Arguments> struct fill<field, CUresult(CUDAAPI *)(CUdeviceptr, Arguments...)> {
    static CUresult CUDAAPI call(CUdeviceptr address, Arguments... arguments) {
        std::uint64_t destination = address;
        return to_real(destination) ? (real.*field)(destination, arguments...) : refuse();
    }
};
template <auto field> void *address_of_fill() {
    return reinterpret_cast<void *>(
        &fill<field, typename std::remove_reference_t<decltype(real.*field)>::function>::call);
}

void *get_proc(void *, const char *name, int version) {
    const struct {
        const char *name;
        void *function;
    } wrapped[] = {
        {"cuLibraryGetKernel", reinterpret_cast<void *>(&get_kernel)},
        {"cuLaunchKernel", reinterpret_cast<void *>(&launch)},
        {"cuPointerGetAttributes", reinterpret_cast<void *>(&get_attributes)},
        {"cuMemHostGetDevicePointer", reinterpret_cast<void *>(&get_device_pointer)},
        {"cuDeviceGetAttribute", reinterpret_cast<void *>(&get_attribute)},
        {"cuMemsetD8Async", address_of_fill<&driver_table::cuMemsetD8Async>()},
        {"cuMemsetD16Async", address_of_fill<&driver_table::cuMemsetD16Async>()},
        {"cuMemsetD32Async", address_of_fill<&driver_table::cuMemsetD32Async>()},
        {"cuMemsetD2D8Async", address_of_fill<&driver_table::cuMemsetD2D8Async>()},
        {"cuMemsetD2D16Async", address_of_fill<&driver_table::cuMemsetD2D16Async>()},
        {"cuMemsetD2D32Async", address_of_fill<&driver_table::cuMemsetD2D32Async>()},
    };
    void *const entry = real_entry_points.get_proc(real_entry_points.user, name, version);
    for (const auto &one : wrapped)
        if (entry && !std::strcmp(one.name, name)) return one.function;
    return entry;
}

} // namespace

alias_driver::alias_driver(resolver inner) {
    real_entry_points = inner;
    bool found[driver_symbol_count];
    resolve_table(inner, real, found);
    refusals = 0;
}

alias_driver::~alias_driver() { known_kernels.clear(); }

ferry_options alias_driver::options() const {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = get_proc;
    return options;
}

resolver alias_driver::entry_points() const { return {get_proc}; }

int alias_driver::refused() const { return refusals; }

} // namespace ferry::test
