// libFuzzer's target for handles from other processes: forged, damaged and good handles, with the checksum as it comes
// or corrected.
#include "fuzz/target.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/ipc_handle.h"

namespace ferry::fuzzing {
namespace {

struct exported {
    ferry_instance *ferry = open_with(FERRY_CHECKS_BASIC);
    ferry_ipc_handle good[4] = {};
    std::int64_t descriptors[3] = {-1, open("/dev/null", O_RDWR), -1};
    exported() {
        std::uint64_t address = 0;
        CUmemPoolHandle_st *pool = nullptr;
        CUevent_st *event = nullptr;
        ferry_pool_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.handle_types = FERRY_HANDLE_POSIX_FD;
        expect(ferry_device_alloc(ferry, 0, 4096, &address, nullptr) == 0, "memory");
        expect(ferry_ipc_export_memory(ferry, address, 0, &good[0], nullptr) == 0, "cannot export memory");
        expect(ferry_pool_create(ferry, &desc, &pool, nullptr) == 0, "cannot create a pool");
        expect(ferry_ipc_export_pool(ferry, pool, FERRY_HANDLE_POSIX_FD, &good[1], &descriptors[2], nullptr) == 0,
               "cannot export a pool");
        expect(ferry_pool_alloc_async(ferry, pool, 4096, nullptr, &address, nullptr) == 0,
               "cannot allocate pool memory");
        expect(ferry_context_synchronize(ferry, 0, nullptr) == 0, "cannot synchronize the device");
        expect(ferry_ipc_export_memory(ferry, address, 0, &good[2], nullptr) == 0, "cannot export pool memory");
        expect(ferry_event_create(ferry, 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event, nullptr) ==
                   0,
               "cannot create an event");
        expect(ferry_ipc_export_event(ferry, event, &good[3], nullptr) == 0, "cannot export an event");
    }
};

ferry_ipc_handle forge(input &from, const exported &given) {
    ferry_ipc_handle handle = {};
    if (from.one_in(8)) {
        from.take_bytes(&handle, sizeof handle);
        return handle;
    }
    handle = from.of(given.good);
    const bool has_a_right_checksum = !from.one_in(4);
    for (std::uint64_t edits = from.up_to(6); edits; --edits) {
        // Mostly at the beginning of fields, which lie at multiples of 4.
        const std::uint64_t at = from.one_in(2) ? from.up_to(63) * 4 : from.up_to(sizeof handle.bytes - 1);
        std::uint8_t value[8];
        const std::uint64_t length = 1 + from.up_to(sizeof value - 1);
        from.take_bytes(value, sizeof value);
        for (std::uint64_t i = 0; i < length && at + i < sizeof handle.bytes; ++i)
            handle.bytes[at + i] = value[i];
    }
    if (!has_a_right_checksum) return handle;
    handle_contents contents;
    std::memcpy(&contents, &handle, sizeof contents);
    encode(contents, handle);
    return handle;
}

} // namespace
} // namespace ferry::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace ferry::fuzzing;
    static const exported given;
    input from(data, size);
    const ferry_ipc_handle handle = forge(from, given);
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    const std::int32_t told = known(ferry_ipc_get_info(given.ferry, &handle, &info));
    expect(is_one_of(told, {0, FERRY_ERROR_HANDLE}),
           "ferry_ipc_get_info returned neither success nor FERRY_ERROR_HANDLE");
    ferry_error_info error = new_error();
    std::uint64_t address = 1;
    CUmemPoolHandle_st *pool = nullptr;
    CUevent_st *event = nullptr;
    std::int32_t status = known(ferry_ipc_import_memory(given.ferry, &handle, &address, &error));
    expect(error.status == status && (status == 0) == (address != 0),
           "importing memory must return either success and an address, or an error");
    expect(status != 0 || told == 0, "bytes that are not a handle were imported");
    if (status == 0) expect(ferry_ipc_close_memory(given.ferry, address, nullptr) == 0, "cannot close imported memory");
    status = known(ferry_ipc_import_pool(given.ferry, &handle, from.of(given.descriptors), &pool, &error));
    expect(error.status == status && (status == 0) == (pool != nullptr),
           "importing a pool must return either success and a pool, or an error");
    if (pool) expect(ferry_ipc_close_pool(given.ferry, pool) == 0, "cannot close an imported pool");
    status = known(ferry_ipc_import_event(given.ferry, &handle, &event, &error));
    expect(error.status == status && (status == 0) == (event != nullptr),
           "importing an event must return either success and an event, or an error");
    if (event) expect(ferry_ipc_close_event(given.ferry, event) == 0, "cannot close an imported event");
    return 0;
}
