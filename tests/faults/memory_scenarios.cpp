// Scenarios for everything except copies: instances, contexts, memory, pools, streams and events, sharing, calibration.
#include <atomic>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults/trial.h"
#include "memory/ipc_handle.h"
#include "support/how.h"
#include "support/second_process.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t page_bytes = 4096;

// Writes to host memory that a call has allocated and reads it back, to show that the memory exists.
void use_host_memory(trial &t, void *address, std::uint64_t size) {
    std::memset(address, 0x5a, size);
    if (static_cast<unsigned char *>(address)[size - 1] != 0x5a) t.add(finding::wrong_bytes, "host memory");
}

void use_device_memory(trial &t, std::uint64_t address, std::uint64_t size) {
    const bytes written = random_bytes(size, address);
    bytes found(size);
    if (raw().cuMemcpyHtoD(address, written.data(), size) || raw().cuMemcpyDtoH(found.data(), address, size))
        t.add(finding::bad_output, "memory that a call returned cannot be used");
    else if (found != written)
        t.add(finding::wrong_bytes, "device memory");
}

// ---- Instances and contexts

// Faults are possible starting with the first driver call of ferry_open.
void opening_and_closing(trial &t) {
    ferry_options options = t.options();
    options.kernels = FERRY_KERNELS_AT_OPEN;
    options.staging = FERRY_STAGING_AT_OPEN;
    options.staging_threads = 2;
    t.begin_faults();
    t.begin("ferry_open");
    if (!t.ended("ferry_open", ferry_open(&options, &t.ferry, t.error()), t.ferry)) {
        t.close(); // nothing is open
        return;
    }
    ferry_report report = {};
    report.struct_size = sizeof report;
    CALL(t, ferry_instance_get_report, t.ferry, &report);
}

void contexts(trial &t) {
    t.open();
    CUctx_st *retained = nullptr, *own = nullptr, *current = nullptr;
    if (MAKE(t, retained, ferry_context_retain_primary, t.ferry, 0, &retained))
        RELEASE(t, ferry_context_release_primary, t.ferry, 0);
    CALL(t, ferry_context_get_current, t.ferry, &current);
    CALL(t, ferry_context_synchronize, t.ferry, 0, nullptr);
    // Push and pop change the current context, so it is checked only after both.
    t.begin("ferry_context_push");
    const std::int32_t pushed = ferry_context_push(t.ferry, 0, nullptr, nullptr);
    std::int32_t popped = FERRY_SUCCESS;
    if (pushed == FERRY_SUCCESS) {
        t.begin("ferry_context_pop");
        popped = ferry_context_pop(t.ferry, &current, nullptr);
        if (popped) raw().cuCtxPopCurrent(&current);
    }
    t.ended("ferry_context_push", pushed);
    t.ended("ferry_context_pop", popped);
    if (MAKE(t, own, ferry_context_create, t.ferry, 0, 0, &own)) {
        const bool is_adopted = CALL(t, ferry_context_adopt, t.ferry, 0, own);
        CALL(t, ferry_context_synchronize, t.ferry, 0, nullptr);
        constexpr grid shape = {.width = 100'000};
        {
            test_place host(place_kind::pageable, shape);
            host.fill(1);
            std::uint64_t address = 0;
            if (MAKE(t, address, ferry_device_alloc, t.ferry, 0, shape.width, &address)) {
                ferry_place there;
                ferry_place_any(&there, address);
                const ferry_copy_desc up = describe_copy(host.describe(statement::any), there, 90'000),
                                      down = describe_copy(there, host.describe(statement::any), 90'000);
                CUstream_st *stream = nullptr;
                if (MAKE(t, stream, ferry_stream_create, t.ferry, 0, FERRY_STREAM_NON_BLOCKING, 0, &stream)) {
                    const bool is_up = CALL(t, ferry_copy_async, t.ferry, &up, by_staging, stream, nullptr);
                    const bool is_down = CALL(t, ferry_copy_async, t.ferry, &down, by_staging, stream, nullptr);
                    t.expect_copy(is_up && is_down, host, {}, host, {}, 90'000);
                    t.wait_and_compare(stream);
                    RELEASE(t, ferry_stream_destroy, t.ferry, stream);
                }
                RELEASE(t, ferry_device_free, t.ferry, address);
            }
        }
        if (is_adopted) RELEASE(t, ferry_context_adopt, t.ferry, 0, nullptr);
        RELEASE(t, ferry_context_destroy, t.ferry, own);
    }
}

// The tracer's events end with the context, and a copy that was performed must not be reported as failed.
void contexts_that_end_beside_a_trace(trial &t) {
    static std::atomic<int> failed = 0;
    failed = 0;
    ferry_options options = t.options();
    options.trace = [](void *, const ferry_trace_event *event) {
        failed += event->phase == FERRY_PHASE_DONE && event->status;
    };
    t.open(options);
    for (int i = 0; i < 3; ++i) {
        CUctx_st *own = nullptr;
        if (!MAKE(t, own, ferry_context_create, t.ferry, 0, 0, &own)) continue;
        const CUcontext before = t.context();
        t.make_current(own);
        CUstream stream = nullptr;
        CUdeviceptr memory = 0;
        EXPECT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        EXPECT_OK(raw().cuMemAlloc(&memory, 8192));
        CALL(t, ferry_copy_bytes_async, t.ferry, memory + 4096, memory, 4096, nullptr, stream, nullptr);
        t.make_current(before);
        RELEASE(t, ferry_context_destroy, t.ferry, own);
    }
    if (failed && !t.driver.injected()) t.add(finding::bad_output, "the trace reports a failed copy");
}

void streams_and_events(trial &t) {
    t.open();
    for (int device = 0; device < std::min(device_count(), 2); ++device) {
        CUstream_st *one = nullptr, *other = nullptr;
        CUevent_st *start = nullptr, *end = nullptr;
        MAKE(t, one, ferry_stream_create, t.ferry, device, 0, 0, &one);
        MAKE(t, other, ferry_stream_create, t.ferry, device, FERRY_STREAM_NON_BLOCKING, -1, &other);
        MAKE(t, start, ferry_event_create, t.ferry, device, 0, &start);
        MAKE(t, end, ferry_event_create, t.ferry, device, FERRY_EVENT_BLOCKING_SYNC, &end);
        std::int32_t done = 0;
        if (one && other && start && end) {
            bool is_recorded = CALL(t, ferry_event_record, t.ferry, start, one);
            CALL(t, ferry_stream_wait_event, t.ferry, other, start);
            is_recorded = CALL(t, ferry_event_record, t.ferry, end, other) && is_recorded;
            const bool has_passed = CALL(t, ferry_event_synchronize, t.ferry, end);
            if (CALL(t, ferry_event_query, t.ferry, end, &done) && has_passed && !done)
                t.add(finding::bad_output, "a synchronized event is not complete");
            float milliseconds = 0;
            if (is_recorded && has_passed) CALL(t, ferry_event_elapsed_time, t.ferry, start, end, &milliseconds);
            CALL(t, ferry_stream_query, t.ferry, other, &done);
            CALL(t, ferry_stream_synchronize, t.ferry, other);
            CALL(t, ferry_stream_synchronize, t.ferry, nullptr);
        }
        if (start) RELEASE(t, ferry_event_destroy, t.ferry, start);
        if (end) RELEASE(t, ferry_event_destroy, t.ferry, end);
        if (one) RELEASE(t, ferry_stream_destroy, t.ferry, one);
        if (other) RELEASE(t, ferry_stream_destroy, t.ferry, other);
    }
}

// ---- Memory

void memory_of_devices(trial &t) {
    t.open();
    for (int device = 0; device < std::min(device_count(), 2); ++device) {
        std::uint64_t address = 0, pitch = 0;
        if (MAKE(t, address, ferry_device_alloc, t.ferry, device, 10'000, &address)) {
            use_device_memory(t, address, 10'000);
            ferry_address_info info = {};
            info.struct_size = sizeof info;
            CALL(t, ferry_address_get_info, t.ferry, address, &info);
            RELEASE(t, ferry_device_free, t.ferry, address);
        }
        if (MAKE(t, address, ferry_device_alloc_pitched, t.ferry, device, 100, 30, 4, &address, &pitch)) {
            use_device_memory(t, address, pitch * 30);
            RELEASE(t, ferry_device_free, t.ferry, address);
        }
        if (MAKE(t, address, ferry_managed_alloc, t.ferry, device, 10'000, &address)) {
            use_host_memory(t, reinterpret_cast<void *>(address), 10'000);
            RELEASE(t, ferry_device_free, t.ferry, address);
        }
    }
}

void memory_of_hosts(trial &t) {
    t.open();
    for (const std::uint32_t flags : {0u, FERRY_HOST_WRITE_COMBINED, FERRY_HOST_BY_DRIVER, FERRY_HOST_NOT_PORTABLE}) {
        void *address = nullptr;
        if (!MAKE(t, address, allocate_pinned, t.ferry, 200'000, flags, &address)) continue;
        use_host_memory(t, address, 200'000);
        RELEASE(t, ferry_host_free, t.ferry, address);
    }
    for (const std::uint32_t flags : {FERRY_HOST_ALLOW_SMALLER, FERRY_HOST_ALLOW_PAGEABLE, 0u}) {
        ferry_host_options options = {.struct_size = sizeof options,
                                      .flags = flags,
                                      .numa = flags ? FERRY_NUMA_ANY : FERRY_NUMA_DEVICE,
                                      .device = 0,
                                      .numa_node = 0,
                                      .threads = 1,
                                      .min_size = 1000};
        ferry_host_block block = {};
        block.struct_size = sizeof block;
        if (!CALL(t, ferry_host_alloc, t.ferry, 300'000, &options, &block)) continue;
        use_host_memory(t, block.address, block.size);
        RELEASE(t, ferry_host_free, t.ferry, block.address);
    }
}

void memory_of_hosts_freed_in_stream_order(trial &t) {
    t.open();
    for (const std::uint32_t flags : {0u, FERRY_HOST_BY_DRIVER, 0u}) {
        void *address = nullptr;
        if (!MAKE(t, address, allocate_pinned, t.ferry, 200'000, flags, &address)) continue;
        use_host_memory(t, address, 200'000);
        RELEASE(t, ferry_host_free_deferred, t.ferry, address, t.stream);
        if (flags) RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
    }
    t.wait_and_compare(t.stream);
    ferry_deferred_info info = {};
    info.struct_size = sizeof info;
    CALL(t, ferry_deferred_get_info, t.ferry, FERRY_DEVICE_UNKNOWN, &info);
    ferry_device_memory_info memory = {};
    memory.struct_size = sizeof memory;
    CALL(t, ferry_device_get_memory, t.ferry, 0, &memory);
    RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
}

void registered_in_chunks(trial &t) {
    ferry_options options = t.options();
    options.register_chunk = 4 * page_bytes;
    t.open(options);
    constexpr std::uint64_t size = 22 * page_bytes;
    bytes memory(size + page_bytes);
    void *const begin = reinterpret_cast<void *>((reinterpret_cast<std::uint64_t>(memory.data()) + page_bytes - 1) /
                                                 page_bytes * page_bytes);
    for (const std::uint32_t flags : {0u, FERRY_REGISTER_READ_ONLY}) {
        if (!CALL(t, ferry_host_register, t.ferry, begin, size, flags)) continue;
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        CALL(t, ferry_address_get_info, t.ferry, reinterpret_cast<std::uint64_t>(begin) + size / 2, &info);
        if (flags)
            RELEASE(t, ferry_host_unregister, t.ferry, begin);
        else
            RELEASE(t, ferry_host_unregister_deferred, t.ferry, begin, t.stream);
        t.wait_and_compare(t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
    }
}

void arrays_of_all_forms(trial &t) {
    t.open();
    ferry_array_desc desc = {.struct_size = sizeof desc,
                             .format = FERRY_FORMAT_FLOAT,
                             .channels = 1,
                             .flags = FERRY_ARRAY_SURFACE,
                             .width = 32,
                             .height = 16,
                             .depth = 0};
    CUarray_st *array = nullptr, *part = nullptr;
    CUmipmappedArray_st *mipmapped = nullptr;
    ferry_array_desc told = {};
    told.struct_size = sizeof told;
    std::uint32_t element = 0;
    if (MAKE(t, array, ferry_array_create, t.ferry, 0, &desc, &array)) {
        CALL(t, ferry_array_get_info, t.ferry, array, &told, &element);
        RELEASE(t, ferry_array_destroy, t.ferry, array);
    }
    desc.flags |= FERRY_ARRAY_LAYERED;
    desc.depth = 3;
    if (MAKE(t, mipmapped, ferry_mipmapped_array_create, t.ferry, 0, &desc, 3, &mipmapped)) {
        for (std::uint32_t level = 0; level < 3; ++level)
            MAKE(t, part, ferry_mipmapped_array_get_level, t.ferry, mipmapped, level, &part);
        RELEASE(t, ferry_mipmapped_array_destroy, t.ferry, mipmapped);
    }
    desc = {.struct_size = sizeof desc,
            .format = FERRY_FORMAT_NV12,
            .channels = 3,
            .flags = FERRY_ARRAY_VIDEO,
            .width = 64,
            .height = 32,
            .depth = 0};
    array = nullptr;
    if (MAKE(t, array, ferry_array_create, t.ferry, 0, &desc, &array)) {
        part = nullptr;
        MAKE(t, part, ferry_array_get_plane, t.ferry, array, 1, &part);
        RELEASE(t, ferry_array_destroy, t.ferry, array);
    }
}

// ---- Pools

void stream_ordered_memory(trial &t) {
    t.open();
    for (int device = 0; device < std::min(device_count(), 2); ++device) {
        std::uint64_t one = 0, other = 0;
        MAKE(t, one, ferry_device_alloc_async, t.ferry, device, 50'000, t.stream, &one);
        MAKE(t, other, ferry_device_alloc_async, t.ferry, device, 20'000, nullptr, &other);
        if (one) RELEASE(t, ferry_device_free_async, t.ferry, one, t.stream);
        if (other) RELEASE(t, ferry_device_free, t.ferry, other);
    }
    std::uint64_t plain = 0;
    if (MAKE(t, plain, ferry_device_alloc, t.ferry, 0, 1000, &plain))
        RELEASE(t, ferry_device_free_async, t.ferry, plain, nullptr);
    t.wait_and_compare(t.stream);
    t.wait_and_compare(nullptr);
}

void pools(trial &t) {
    t.open();
    CUmemPoolHandle_st *pool = nullptr, *former = nullptr;
    MAKE(t, pool, ferry_pool_get_default, t.ferry, FERRY_LOCATION_DEVICE, 0, &pool);
    ferry_pool_info info = {};
    info.struct_size = sizeof info;
    if (pool) CALL(t, ferry_pool_get_info, t.ferry, pool, &info);
    const bool has_former = MAKE(t, former, ferry_pool_get_current, t.ferry, FERRY_LOCATION_DEVICE, 0, &former);
    const ferry_pool_desc descs[] = {{.struct_size = sizeof(ferry_pool_desc),
                                      .location = FERRY_LOCATION_DEVICE,
                                      .index = 0,
                                      .handle_types = FERRY_HANDLE_POSIX_FD,
                                      .max_size = 0},
                                     {.struct_size = sizeof(ferry_pool_desc),
                                      .location = FERRY_LOCATION_HOST,
                                      .index = 0,
                                      .handle_types = 0,
                                      .max_size = 0}};
    for (const ferry_pool_desc &desc : descs) {
        if (desc.location == FERRY_LOCATION_HOST && !is_supported(place_kind::pool_of_host)) continue;
        pool = nullptr;
        if (!MAKE(t, pool, ferry_pool_create, t.ferry, &desc, &pool)) continue;
        CALL(t, ferry_pool_get_info, t.ferry, pool, &info);
        ferry_pool_attributes attributes = {};
        attributes.struct_size = sizeof attributes;
        if (CALL(t, ferry_pool_get_attributes, t.ferry, pool, &attributes)) {
            attributes.release_threshold = 1 << 20;
            CALL(t, ferry_pool_set_attributes, t.ferry, pool, &attributes);
        }
        ferry_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        CALL(t, ferry_pool_get_stats, t.ferry, pool, &stats);
        CALL(t, ferry_pool_reset_stats, t.ferry, pool);
        if (device_count() > 1) {
            std::int32_t access = 0;
            CALL(t, ferry_pool_set_access, t.ferry, pool, 1, FERRY_ACCESS_READ_WRITE);
            CALL(t, ferry_pool_get_access, t.ferry, pool, 1, &access);
        }
        CALL(t, ferry_pool_set_access, t.ferry, pool, 0, FERRY_ACCESS_READ_WRITE);
        std::uint64_t address = 0;
        if (MAKE(t, address, ferry_pool_alloc_async, t.ferry, pool, 30'000, t.stream, &address)) {
            t.wait_and_compare(t.stream);
            if (desc.location == FERRY_LOCATION_HOST)
                use_host_memory(t, reinterpret_cast<void *>(address), 30'000);
            else
                use_device_memory(t, address, 30'000);
            RELEASE(t, ferry_device_free_async, t.ferry, address, t.stream);
        }
        if (desc.location == FERRY_LOCATION_DEVICE && has_former) {
            if (CALL(t, ferry_pool_set_current, t.ferry, FERRY_LOCATION_DEVICE, 0, pool))
                RELEASE(t, ferry_pool_set_current, t.ferry, FERRY_LOCATION_DEVICE, 0, former);
        }
        CALL(t, ferry_pool_trim, t.ferry, pool, 0);
        RELEASE(t, ferry_pool_destroy, t.ferry, pool);
        if (!MAKE(t, pool, ferry_pool_create, t.ferry, &desc, &pool)) continue;
        RELEASE(t, ferry_pool_destroy_deferred, t.ferry, pool, t.stream);
        t.wait_and_compare(t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
    }
}

void pinned_pools(trial &t) {
    t.open();
    const ferry_pinned_pool_options options = {.struct_size = sizeof options,
                                               .flags = 0,
                                               .numa = FERRY_NUMA_DEVICE,
                                               .device = 0,
                                               .numa_node = 0,
                                               .reserved = 0,
                                               .max_size = 512 << 10};
    ferry_pinned_pool *pool = nullptr;
    if (!MAKE(t, pool, ferry_pinned_pool_create, t.ferry, &options, &pool)) return;
    CUstream second = nullptr;
    EXPECT_OK(raw().cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    ferry_pool_stats stats = {};
    stats.struct_size = sizeof stats;
    for (int round = 0; round < 3; ++round) {
        void *blocks[4] = {};
        MAKE(t, blocks[0], ferry_pinned_pool_alloc, pool, 10'000, &blocks[0]);
        MAKE(t, blocks[1], ferry_pinned_pool_alloc_async, pool, 100'000, t.stream, &blocks[1]);
        MAKE(t, blocks[2], ferry_pinned_pool_alloc_async, pool, 100'000, second, &blocks[2]);
        MAKE(t, blocks[3], ferry_pinned_pool_alloc, pool, 700, &blocks[3]);
        CALL(t, ferry_pinned_pool_get_stats, pool, &stats);
        for (void *const block : blocks)
            if (block) use_host_memory(t, block, 700);
        if (blocks[0]) RELEASE(t, ferry_pinned_pool_free, pool, blocks[0]);
        if (blocks[1]) RELEASE(t, ferry_pinned_pool_free_async, pool, blocks[1], t.stream);
        if (blocks[2]) RELEASE(t, ferry_pinned_pool_free_async, pool, blocks[2], second);
        if (blocks[3]) RELEASE(t, ferry_pinned_pool_free_async, pool, blocks[3], t.stream);
        CALL(t, ferry_pinned_pool_reset_stats, pool);
        if (round == 1) CALL(t, ferry_pinned_pool_trim, pool, 0);
    }
    EXPECT_OK(raw().cuStreamDestroy(second));
    // The pool no longer exists, whatever the driver returns.
    t.begin("ferry_pinned_pool_destroy");
    t.ended("ferry_pinned_pool_destroy", ferry_pinned_pool_destroy(pool, t.error()));
    if (!MAKE(t, pool, ferry_pinned_pool_create, t.ferry, nullptr, &pool)) return;
    void *block = nullptr;
    if (MAKE(t, block, ferry_pinned_pool_alloc, pool, 10'000, &block))
        RELEASE(t, ferry_pinned_pool_free_async, pool, block, t.stream);
    RELEASE(t, ferry_pinned_pool_destroy_deferred, pool, t.stream);
    t.wait_and_compare(t.stream);
    RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
}

// ---- Sharing

// Importing handles of this process opens nothing, but the imports are counted.
void sharing_with_oneself(trial &t) {
    t.open();
    std::uint64_t address = 0, imported = 0;
    ferry_ipc_handle handle = {};
    if (MAKE(t, address, ferry_device_alloc, t.ferry, 0, 10'000, &address)) {
        if (CALL(t, ferry_ipc_export_memory, t.ferry, address, 0, &handle) &&
            MAKE(t, imported, ferry_ipc_import_memory, t.ferry, &handle, &imported))
            RELEASE(t, ferry_ipc_close_memory, t.ferry, imported, nullptr);
        RELEASE(t, ferry_device_free, t.ferry, address);
    }
    CUevent_st *event = nullptr, *imported_event = nullptr;
    if (MAKE(t, event, ferry_event_create, t.ferry, 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event)) {
        if (CALL(t, ferry_ipc_export_event, t.ferry, event, &handle) &&
            MAKE(t, imported_event, ferry_ipc_import_event, t.ferry, &handle, &imported_event))
            RELEASE(t, ferry_ipc_close_event, t.ferry, imported_event);
        RELEASE(t, ferry_event_destroy, t.ferry, event);
    }
    const ferry_pool_desc desc = {.struct_size = sizeof desc,
                                  .location = FERRY_LOCATION_DEVICE,
                                  .index = 0,
                                  .handle_types = FERRY_HANDLE_POSIX_FD,
                                  .max_size = 0};
    CUmemPoolHandle_st *pool = nullptr, *imported_pool = nullptr;
    if (!MAKE(t, pool, ferry_pool_create, t.ferry, &desc, &pool)) return;
    std::int64_t os_handle = -1;
    ferry_ipc_handle of_memory = {};
    if (CALL(t, ferry_ipc_export_pool, t.ferry, pool, FERRY_HANDLE_POSIX_FD, &handle, &os_handle)) {
        if (MAKE(t, address, ferry_pool_alloc_async, t.ferry, pool, 10'000, t.stream, &address)) {
            const bool is_exported = CALL(t, ferry_ipc_export_memory, t.ferry, address, 0, &of_memory);
            if (MAKE(t, imported_pool, ferry_ipc_import_pool, t.ferry, &handle, os_handle, &imported_pool)) {
                if (is_exported && MAKE(t, imported, ferry_ipc_import_memory, t.ferry, &of_memory, &imported))
                    RELEASE(t, ferry_ipc_close_memory, t.ferry, imported, t.stream);
                RELEASE(t, ferry_ipc_close_pool, t.ferry, imported_pool);
            }
            RELEASE(t, ferry_device_free_async, t.ferry, address, t.stream);
        }
        ::close(static_cast<int>(os_handle));
    } else if (os_handle != -1) {
        t.add(finding::bad_output, "a pool that was not exported has a descriptor");
    }
    RELEASE(t, ferry_pool_destroy, t.ferry, pool);
}

// ---- Graphics APIs

// The software driver imports any file.
void imports(trial &t) {
    if (!on_software_driver()) return;
    t.open();
    constexpr std::uint64_t size = 100'000;
    const auto make_file = [] {
        const int made = memfd_create("external", MFD_CLOEXEC);
        return ftruncate(made, static_cast<off_t>(size)) == 0 ? made : -1;
    };
    int memory_file = make_file(), semaphore_file = make_file();
    ferry_external_memory_desc desc = {};
    desc.struct_size = sizeof desc;
    desc.handle_type = FERRY_EXTERNAL_OPAQUE_FD;
    desc.handle = memory_file;
    desc.size = size;
    CUextMemory_st *memory = nullptr;
    if (MAKE(t, memory, ferry_external_memory_import, t.ferry, &desc, &memory)) {
        memory_file = -1;
        std::uint64_t address = 0;
        if (CALL(t, ferry_external_memory_get_address, t.ferry, memory, 100, 1000, &address)) {
            ferry_place place = {};
            ferry_fill_desc fill = {};
            const unsigned char pattern = 7;
            ferry_place_device(&place, 0, address);
            ferry_fill_desc_init(&fill, &place, 1000, 1, 1, &pattern, 1);
            CALL(t, ferry_fill, t.ferry, &fill, nullptr);
        }
        ferry_array_desc shape = {};
        shape.struct_size = sizeof shape;
        shape.format = FERRY_FORMAT_UINT8;
        shape.channels = 4;
        shape.flags = FERRY_ARRAY_SURFACE;
        shape.width = shape.height = 32;
        CUmipmappedArray_st *array = nullptr;
        CALL(t, ferry_external_memory_create_array, t.ferry, memory, 4096, &shape, 2, &array);
        for (const bool is_deferred : {false, true}) {
            CUmipmappedArray_st *one = nullptr;
            if (!MAKE(t, one, ferry_external_memory_create_array, t.ferry, memory, 40'000, &shape, 1, &one)) continue;
            if (is_deferred)
                RELEASE(t, ferry_mipmapped_array_destroy_deferred, t.ferry, one, t.stream);
            else
                RELEASE(t, ferry_mipmapped_array_destroy, t.ferry, one);
        }
        if (!CALL(t, ferry_external_memory_release_deferred, t.ferry, memory, t.stream))
            RELEASE(t, ferry_external_memory_release, t.ferry, memory);
        RELEASE(t, ferry_stream_synchronize, t.ferry, t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, 0, 0);
    } else if (fcntl(memory_file, F_GETFD) == -1) {
        t.add(finding::bad_output, "a refused import has closed the descriptor");
    }
    ferry_external_semaphore_desc of_semaphore = {};
    of_semaphore.struct_size = sizeof of_semaphore;
    of_semaphore.handle_type = FERRY_SEMAPHORE_TIMELINE_FD;
    of_semaphore.handle = semaphore_file;
    CUextSemaphore_st *semaphore = nullptr;
    if (MAKE(t, semaphore, ferry_external_semaphore_import, t.ferry, &of_semaphore, &semaphore)) {
        semaphore_file = -1;
        if (CALL(t, ferry_external_semaphore_signal_async, t.ferry, semaphore, 3, t.stream))
            CALL(t, ferry_external_semaphore_wait_async, t.ferry, semaphore, 3, 0, t.stream);
        if (!CALL(t, ferry_external_semaphore_release_deferred, t.ferry, semaphore, t.stream))
            RELEASE(t, ferry_external_semaphore_release, t.ferry, semaphore);
        RELEASE(t, ferry_stream_synchronize, t.ferry, t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, 0, 0);
    } else if (fcntl(semaphore_file, F_GETFD) == -1) {
        t.add(finding::bad_output, "a refused import has closed the descriptor");
    }
    if (memory_file >= 0) ::close(memory_file);
    if (semaphore_file >= 0) ::close(semaphore_file);
}

constexpr std::uint64_t shared_size = 100'000;
constexpr int shared_byte = 0x37, pooled_byte = 0x59;

// The handles that another process exports.
struct exported {
    ferry_ipc_handle memory, event, pool, pooled;
};

FERRY_SECOND_PROCESS(exports_everything) {
    const ferry_options options = options_under_test();
    ferry_instance *instance = nullptr;
    EXPECT_OK(ferry_open(&options, &instance, nullptr));
    std::uint64_t memory = 0, pooled = 0;
    CUevent_st *event = nullptr;
    CUmemPoolHandle_st *pool = nullptr;
    const ferry_pool_desc desc = {.struct_size = sizeof desc,
                                  .location = FERRY_LOCATION_DEVICE,
                                  .index = 0,
                                  .handle_types = FERRY_HANDLE_POSIX_FD,
                                  .max_size = 0};
    EXPECT_OK(ferry_device_alloc(instance, 0, shared_size, &memory, nullptr));
    EXPECT_OK(ferry_event_create(instance, 0, FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING, &event, nullptr));
    EXPECT_OK(ferry_pool_create(instance, &desc, &pool, nullptr));
    EXPECT_OK(ferry_pool_alloc_async(instance, pool, shared_size, nullptr, &pooled, nullptr));
    EXPECT_OK(raw().cuMemsetD8(memory, shared_byte, shared_size));
    EXPECT_OK(raw().cuMemsetD8(pooled, pooled_byte, shared_size));
    EXPECT_OK(ferry_event_record(instance, event, nullptr, nullptr));
    EXPECT_OK(raw().cuCtxSynchronize());
    exported all = {};
    std::int64_t os_handle = -1;
    EXPECT_OK(ferry_ipc_export_memory(instance, memory, 0, &all.memory, nullptr));
    EXPECT_OK(ferry_ipc_export_event(instance, event, &all.event, nullptr));
    EXPECT_OK(ferry_ipc_export_pool(instance, pool, FERRY_HANDLE_POSIX_FD, &all.pool, &os_handle, nullptr));
    EXPECT_OK(ferry_ipc_export_memory(instance, pooled, 0, &all.pooled, nullptr));
    channel.send(all);
    channel.send_descriptor(static_cast<int>(os_handle));
    channel.await(); // until the importer has closed its imports
    ::close(static_cast<int>(os_handle));
    EXPECT_OK(ferry_device_free(instance, memory, nullptr));
    EXPECT_OK(ferry_device_free(instance, pooled, nullptr));
    EXPECT_OK(ferry_event_destroy(instance, event, nullptr));
    EXPECT_OK(ferry_pool_destroy(instance, pool, nullptr));
    ferry_close(instance);
    return 0;
}

// A handle that states more than is mapped, for memory that is imported and for memory that is not.
void expect_nothing_forged(trial &t, const ferry_ipc_handle &genuine) {
    for (const bool is_imported : {true, false}) {
        handle_contents contents;
        EXPECT_OK(decode(genuine, contents).status);
        contents.offset = std::uint64_t{1} << 40;
        contents.allocation_size = contents.offset + contents.size;
        if (!is_imported) ++contents.buffer_id;
        ferry_ipc_handle forged;
        encode(contents, forged);
        std::uint64_t address = 0;
        t.begin("ferry_ipc_import_memory");
        t.ended_refused("ferry_ipc_import_memory", ferry_ipc_import_memory(t.ferry, &forged, &address, t.error()));
    }
}

void sharing_with_another_process(trial &t) {
    second_process other("exports_everything");
    const auto all = other->receive<exported>();
    const int descriptor = other->receive_descriptor();
    t.open();
    test_place host(place_kind::pinned, {.width = shared_size});
    host.fill(1);
    const auto expect_bytes = [&](std::uint64_t address, int value) {
        const bool succeeded =
            CALL(t, ferry_copy_bytes_async, t.ferry, host.address(), address, shared_size, nullptr, t.stream, nullptr);
        const auto pattern = static_cast<unsigned char>(value);
        t.expect_pattern(succeeded, host, {}, shared_size, 1, 1, &pattern, 1);
        t.wait_and_compare(t.stream);
    };
    CUevent_st *event = nullptr;
    if (MAKE(t, event, ferry_ipc_import_event, t.ferry, &all.event, &event)) {
        std::int32_t done = 0;
        CALL(t, ferry_stream_wait_event, t.ferry, t.stream, event);
        CALL(t, ferry_event_query, t.ferry, event, &done);
        RELEASE(t, ferry_ipc_close_event, t.ferry, event);
    }
    std::uint64_t first = 0, second = 0;
    MAKE(t, first, ferry_ipc_import_memory, t.ferry, &all.memory, &first);
    MAKE(t, second, ferry_ipc_import_memory, t.ferry, &all.memory, &second);
    if (first && second && first != second) t.add(finding::bad_output, "memory imported twice has two addresses");
    expect_nothing_forged(t, all.memory);
    for (const std::uint64_t address : {first, second}) {
        if (!address) continue;
        expect_bytes(address, shared_byte);
        RELEASE(t, ferry_ipc_close_memory_deferred, t.ferry, address, t.stream);
        t.wait_and_compare(t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
    }
    CUmemPoolHandle_st *pool = nullptr;
    if (MAKE(t, pool, ferry_ipc_import_pool, t.ferry, &all.pool, descriptor, &pool)) {
        std::uint64_t pooled = 0;
        if (MAKE(t, pooled, ferry_ipc_import_memory, t.ferry, &all.pooled, &pooled)) {
            expect_nothing_forged(t, all.pooled);
            expect_bytes(pooled, pooled_byte);
            RELEASE(t, ferry_ipc_close_memory, t.ferry, pooled, t.stream);
            t.wait_and_compare(t.stream);
        }
        RELEASE(t, ferry_ipc_close_pool, t.ferry, pool);
    }
    if (MAKE(t, pool, ferry_ipc_import_pool, t.ferry, &all.pool, descriptor, &pool)) {
        RELEASE(t, ferry_ipc_close_pool_deferred, t.ferry, pool, t.stream);
        t.wait_and_compare(t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
    }
    ::close(descriptor);
    other->arrive();
    if (other.wait()) t.add(finding::harness, "the other process failed");
}

// ---- Calibration

void calibration(trial &t) {
    t.open();
    std::string text(16384, '\0');
    std::uint64_t needed = 0;
    const auto save = [&] {
        CALL(t, ferry_profile_save, t.ferry, 0, text.data(), text.size(), &needed);
        return text.substr(0, needed);
    };
    const std::string before = save();
    if (!CALL(t, ferry_device_calibrate, t.ferry, 0) && save() != before)
        t.add(finding::bad_output, "a failed calibration changed the profile");
    save();
}

void calibration_of_a_pair(trial &t) {
    t.open();
    if (device_count() < 2) return;
    std::string text(16384, '\0');
    std::uint64_t needed = 0;
    const auto save = [&] {
        CALL(t, ferry_profile_save, t.ferry, 0, text.data(), text.size(), &needed);
        return text.substr(0, needed);
    };
    const std::string before = save();
    const bool is_measured = CALL(t, ferry_peer_calibrate, t.ferry, 0, 1);
    if (!is_measured && save() != before) t.add(finding::bad_output, "a failed calibration changed the profile");
    ferry_peer_info info = {};
    info.struct_size = sizeof info;
    if (CALL(t, ferry_peer_get_info, t.ferry, 0, 1, &info) && (info.bounce_mb_per_s != 0) != is_measured)
        t.add(finding::bad_output, "a calibration that %s has left %u MB/s", is_measured ? "succeeded" : "failed",
              info.bounce_mb_per_s);
}

} // namespace

const std::vector<scenario> memory_scenarios = {
    {"opening and closing", opening_and_closing},
    {"contexts", contexts},
    {"contexts that end beside a trace", contexts_that_end_beside_a_trace},
    {"streams and events", streams_and_events},
    {"memory of devices", memory_of_devices},
    {"memory of hosts", memory_of_hosts},
    {"host memory freed in stream order", memory_of_hosts_freed_in_stream_order},
    {"registered in chunks", registered_in_chunks},
    {"arrays of all forms", arrays_of_all_forms},
    {"stream-ordered memory", stream_ordered_memory},
    {"pools", pools},
    {"pinned pools", pinned_pools},
    {"sharing with oneself", sharing_with_oneself},
    {"imports", imports},
    {"sharing with another process", sharing_with_another_process},
    {"calibration", calibration, 3, true},
    {"calibration of a pair", calibration_of_a_pair, 6, true},
};

} // namespace ferry::test
