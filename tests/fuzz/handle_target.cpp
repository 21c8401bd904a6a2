// libFuzzer's target for handles from other processes: forged, damaged and valid handles, with the resulting or a
// corrected checksum.
#include "fuzz/target.h"

#include <csignal>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ferry/ferry_ipc.h"
#include "memory/ipc_handle.h"

namespace ferry::fuzzing {
namespace {

// One handle of each kind. The objects live as long as the process.
struct exports {
    ferry_ipc_handle memory, pool, pool_memory, event;
    std::int64_t pool_descriptor;
};

exports export_one_of_each(ferry_instance *ferry) {
    exports all = {};
    std::uint64_t address = 0;
    CUmemPoolHandle_st *pool = nullptr;
    CUevent_st *event = nullptr;
    ferry_pool_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.handle_types = FERRY_HANDLE_POSIX_FD;
    expect(ferry_device_alloc(ferry, 0, 4096, &address, nullptr) == 0, "memory");
    expect(ferry_ipc_export_memory(ferry, address, 0, &all.memory, nullptr) == 0, "cannot export memory");
    expect(ferry_pool_create(ferry, &desc, &pool, nullptr) == 0, "cannot create a pool");
    expect(ferry_ipc_export_pool(ferry, pool, FERRY_HANDLE_POSIX_FD, &all.pool, &all.pool_descriptor, nullptr) == 0,
           "cannot export a pool");
    expect(ferry_pool_alloc_async(ferry, pool, 4096, nullptr, &address, nullptr) == 0, "cannot allocate pool memory");
    expect(ferry_context_synchronize(ferry, 0, nullptr, nullptr) == 0, "cannot synchronize the device");
    expect(ferry_ipc_export_memory(ferry, address, 0, &all.pool_memory, nullptr) == 0, "cannot export pool memory");
    expect(ferry_event_create(ferry, 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event, nullptr) == 0,
           "cannot create an event");
    expect(ferry_ipc_export_event(ferry, event, &all.event, nullptr) == 0, "cannot export an event");
    return all;
}

// Handles of another process, which must be started before this process opens the driver. It ends with this process.
exports exports_of_a_child(std::int64_t &descriptor) {
    int ends[2];
    expect(pipe(ends) == 0, "cannot make a pipe");
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const exports all = export_one_of_each(open_with(FERRY_CHECKS_BASIC));
        if (write(ends[1], &all, sizeof all) == sizeof all)
            for (;;)
                pause();
        _exit(1);
    }
    exports all;
    expect(read(ends[0], &all, sizeof all) == sizeof all, "cannot read from another process");
    const std::string path = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(all.pool_descriptor);
    descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    return all;
}

struct exported {
    std::int64_t descriptors[4] = {-1, open("/dev/null", O_RDWR), -1, -1};
    const exports foreign = exports_of_a_child(descriptors[3]);
    ferry_instance *const ferry = open_with(FERRY_CHECKS_BASIC);
    const exports own = export_one_of_each(ferry);
    const ferry_ipc_handle good[8] = {own.memory,     own.pool,     own.pool_memory,     own.event,
                                      foreign.memory, foreign.pool, foreign.pool_memory, foreign.event};
    exported() {
        descriptors[2] = own.pool_descriptor;
        // Most forged handles refer to memory that is already imported.
        std::uint64_t address = 0;
        CUmemPoolHandle_st *pool = nullptr;
        expect(ferry_ipc_import_memory(ferry, &foreign.memory, &address, nullptr) == 0, "cannot import memory");
        expect(ferry_ipc_import_pool(ferry, &foreign.pool, descriptors[3], &pool, nullptr) == 0,
               "cannot import a pool");
        expect(ferry_ipc_import_memory(ferry, &foreign.pool_memory, &address, nullptr) == 0,
               "cannot import pool memory");
    }
};

// The range that a handle states must be within one allocation that the driver knows.
void expect_inside(ferry_instance *ferry, std::uint64_t address, std::uint64_t size) {
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    expect(ferry_address_get_info(ferry, address, &info, nullptr) == 0 && info.memory == FERRY_MEMORY_DEVICE,
           "a handle was imported as an address of other memory");
    expect(address >= info.range_start && address - info.range_start <= info.range_size &&
               size <= info.range_size - (address - info.range_start),
           "a handle was imported that reaches beyond its memory");
}

const exported &given() {
    static const exported all;
    return all;
}

ferry_ipc_handle forge(input &from, const exported &all) {
    ferry_ipc_handle handle = {};
    if (from.one_in(8)) {
        from.take_bytes(&handle, sizeof handle);
        return handle;
    }
    handle = from.of(all.good);
    const bool has_a_right_checksum = !from.one_in(4);
    for (std::uint64_t edits = from.up_to(6); edits; --edits) {
        // Mostly at the start of fields, which are at multiples of 4.
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
    if (from.one_in(2)) { // a part that fits in the stated range, and perhaps in no memory
        contents.offset = from.take<std::uint64_t>() >> from.up_to(63);
        contents.size = 1 + from.up_to(8192);
        contents.allocation_size = contents.offset + contents.size + from.up_to(1);
    }
    encode(contents, handle);
    return handle;
}

} // namespace
} // namespace ferry::fuzzing

// Exports before libFuzzer starts its thread. The address sanitizer's allocator could be locked in the child of a
// process with several threads.
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    ferry::fuzzing::given();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace ferry::fuzzing;
    const exported &given = ferry::fuzzing::given();
    input from(data, size);
    const ferry_ipc_handle handle = forge(from, given);
    ferry_ipc_info info = {};
    info.struct_size = sizeof info;
    const std::int32_t told = known(ferry_ipc_get_info(given.ferry, &handle, &info, nullptr));
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
    if (status == 0) {
        expect_inside(given.ferry, address, info.size);
        expect(ferry_ipc_close_memory(given.ferry, address, nullptr, nullptr) == 0, "cannot close imported memory");
    }
    status = known(ferry_ipc_import_pool(given.ferry, &handle, from.of(given.descriptors), &pool, &error));
    expect(error.status == status && (status == 0) == (pool != nullptr),
           "importing a pool must return either success and a pool, or an error");
    if (pool) expect(ferry_ipc_close_pool(given.ferry, pool, nullptr) == 0, "cannot close an imported pool");
    status = known(ferry_ipc_import_event(given.ferry, &handle, &event, &error));
    expect(error.status == status && (status == 0) == (event != nullptr),
           "importing an event must return either success and an event, or an error");
    if (event) expect(ferry_ipc_close_event(given.ferry, event, nullptr) == 0, "cannot close an imported event");
    return 0;
}
