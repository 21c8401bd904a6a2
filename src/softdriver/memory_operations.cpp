// Stream memory operations: a stream waits for a value in memory, or writes one.
#include "softdriver/copy.h"
#include "softdriver/entry.h"

#include <chrono>
#include <thread>

#include "base/atomic_word.h"

namespace ferry::softdriver {

namespace {

constexpr extent one_value = {.width = sizeof(std::uint32_t)};

atomic_word<std::uint32_t> value_at(CUdeviceptr address) noexcept {
    return atomic_word(*reinterpret_cast<std::uint32_t *>(reach(address)));
}

bool is_met(std::uint32_t found, std::uint32_t wanted, unsigned condition) noexcept {
    switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<std::int32_t>(found - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & wanted) != 0;
    default:
        return ~(found | wanted) != 0;
    }
}

// Like a kernel, a wait blocks its hardware queue: work of other streams in that queue waits too.
work wait_for(driver &cu, stream &on, const CUstreamBatchMemOpParams &given) {
    const auto &wait = given.waitValue;
    require(wait.flags <= CU_STREAM_WAIT_VALUE_NOR && wait.address % sizeof wait.value == 0);
    const side at = resolve(cu, {.type = CU_MEMORYTYPE_DEVICE, .address = wait.address}, one_value, false);
    work waits{.devices = at.device_bit()};
    waits.body = [address = at.start, wanted = wait.value, condition = wait.flags, broken = on.owner->broken] {
        constexpr std::chrono::microseconds between_looks{5};
        while (!is_met(value_at(address).load(std::memory_order_acquire), wanted, condition) && !broken->has_happened())
            std::this_thread::sleep_for(between_looks);
    };
    return waits;
}

// Does nothing in a dead context, where earlier waits have ended without their value.
work write_to(driver &cu, stream &on, const CUstreamBatchMemOpParams &given) {
    const auto &write = given.writeValue;
    // Version 2 of these calls has no flags (seen on CUDA 13.0, H200).
    require(write.flags == CU_STREAM_WRITE_VALUE_DEFAULT && write.address % sizeof write.value == 0);
    const side at = resolve(cu, {.type = CU_MEMORYTYPE_DEVICE, .address = write.address}, one_value, false);
    work writes{.devices = at.device_bit()};
    writes.body = [address = at.start, value = write.value, broken = on.owner->broken] {
        if (!broken->has_happened()) value_at(address).store(value, std::memory_order_release);
    };
    return writes;
}

} // namespace

CUresult cuStreamBatchMemOp(CUstream handle, unsigned count, CUstreamBatchMemOpParams *given, unsigned flags) {
    return enter([&](driver &cu) {
        constexpr unsigned max_operations = 256;
        require(given && count != 0 && count <= max_operations && flags == 0);
        stream &on = find_stream(cu, handle);
        std::vector<work> all;
        for (unsigned i = 0; i < count; ++i) {
            const bool is_write = given[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32;
            require(is_write || given[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32, CUDA_ERROR_NOT_SUPPORTED);
            all.push_back(is_write ? write_to(cu, on, given[i]) : wait_for(cu, on, given[i]));
        }
        for (work &one : all)
            enqueue(cu, on, std::move(one));
    });
}

} // namespace ferry::softdriver
