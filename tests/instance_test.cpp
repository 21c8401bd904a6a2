// Tests opening and closing, the report, contexts, memory, and queries about addresses.
#include <algorithm>
#include <cstring>
#include <thread>

#include "support/fault_driver.h"
#include "support/how.h"
#include "support/system.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

class instance : public ferry_test {};

TEST_F(instance, several_are_open_at_the_same_time_and_close_in_any_order) {
    instance_owner first = open_or_fail(options_under_test()), second = open_or_fail(options_under_test());
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(first.get(), 0, 4096, &address, nullptr));
    first.reset();
    std::vector<std::byte> bytes = random_bytes(4096, 1), back(4096);
    EXPECT_OK(
        ferry_copy_bytes(second.get(), address, reinterpret_cast<std::uint64_t>(bytes.data()), 4096, nullptr, nullptr));
    EXPECT_OK(
        ferry_copy_bytes(basic.get(), reinterpret_cast<std::uint64_t>(back.data()), address, 4096, nullptr, nullptr));
    EXPECT_EQ(back, bytes);
    EXPECT_OK(ferry_device_free(second.get(), address, nullptr));
}

TEST_F(instance, report_states_what_was_found) {
    ferry_report report = {};
    report.struct_size = sizeof report;
    ASSERT_OK(ferry_instance_get_report(full.get(), &report, nullptr));
    EXPECT_EQ(report.driver, on_software_driver() ? FERRY_DRIVER_SOFTWARE : FERRY_DRIVER_CUDA);
    EXPECT_GE(report.driver_version, 12000);
    EXPECT_GE(report.device_count, 1);
    EXPECT_EQ(report.checks, FERRY_CHECKS_FULL);
    EXPECT_EQ(report.missing_count, 0u) << ferry_instance_get_missing_entry_point(full.get(), 0);
    EXPECT_EQ(ferry_instance_get_missing_entry_point(full.get(), report.missing_count), nullptr);
}

ferry_report report_of(const instance_owner &instance) {
    ferry_report report = {};
    report.struct_size = sizeof report;
    EXPECT_OK(ferry_instance_get_report(instance.get(), &report, nullptr));
    return report;
}

TEST_F(instance, report_states_when_kernels_and_staging_are_set_up_and_whether_they_are) {
    fault_driver driver(raw_entry_points());
    const struct {
        std::int32_t kernels, staging, kernels_in_force, staging_in_force;
        bool is_at_open;
    } rows[] = {
        {FERRY_KERNELS_LAZY, FERRY_STAGING_LAZY, FERRY_KERNELS_LAZY, FERRY_STAGING_LAZY, false},
        {FERRY_KERNELS_AT_OPEN, FERRY_STAGING_LAZY, FERRY_KERNELS_AT_OPEN, FERRY_STAGING_LAZY, true},
        {FERRY_KERNELS_LAZY, FERRY_STAGING_AT_OPEN, FERRY_KERNELS_AT_OPEN, FERRY_STAGING_AT_OPEN, true},
        {FERRY_KERNELS_LAZY, FERRY_STAGING_NONE, FERRY_KERNELS_LAZY, FERRY_STAGING_NONE, false},
        {FERRY_KERNELS_NONE, FERRY_STAGING_LAZY, FERRY_KERNELS_NONE, FERRY_STAGING_NONE, false},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(&row - rows);
        ferry_options options = driver.options();
        options.kernels = row.kernels;
        options.staging = row.staging;
        options.staging_threads = 3;
        options.staging_bytes = 8 << 20;
        const instance_owner opened = open_or_fail(options);
        if (!ferry_instance_get_proc(opened.get(), "cuLibraryLoadData", 12000))
            GTEST_SKIP() << "the driver cannot load kernels";
        const ferry_report report = report_of(opened);
        EXPECT_EQ(report.kernels, row.kernels_in_force);
        EXPECT_EQ(report.kernels_loaded, row.is_at_open);
        EXPECT_EQ(report.kernel_contexts,
                  row.is_at_open ? static_cast<std::uint32_t>(std::min(device_count(), 16)) : 0u);
        EXPECT_EQ(report.staging, row.staging_in_force);
        const bool stages = row.staging_in_force != FERRY_STAGING_NONE;
        EXPECT_EQ(report.staging_threads, stages ? 3u : 0u);
        EXPECT_EQ(report.uses_program_threads, 0);
        EXPECT_EQ(report.staging_bytes, stages ? 8u << 20 : 0u);
    }
    driver.hide("cuLibraryLoadData");
    const instance_owner poor = open_or_fail(driver.options());
    EXPECT_EQ(report_of(poor).kernels, FERRY_KERNELS_NONE);
    EXPECT_EQ(report_of(poor).staging, FERRY_STAGING_NONE);
    driver.heal();
    driver.fail("cuLibraryLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    ferry_options options = driver.options();
    options.kernels = FERRY_KERNELS_AT_OPEN;
    const instance_owner refused = open_or_fail(options);
    EXPECT_EQ(report_of(refused).kernels, FERRY_KERNELS_NONE) << "the driver refused the kernels";
    EXPECT_EQ(report_of(refused).kernels_loaded, 0);
}

TEST_F(instance, kernels_are_counted_in_each_context_that_has_them) {
    const instance_owner opened = open_or_fail(options_under_test());
    if (!ferry_instance_get_proc(opened.get(), "cuLibraryLoadData", 12000))
        GTEST_SKIP() << "the driver cannot load kernels";
    CUcontext made = nullptr;
    ASSERT_OK(ferry_context_create(opened.get(), 0, 0, &made, nullptr));
    const auto fill_by_kernel = [&] {
        std::uint64_t address = 0;
        ASSERT_OK(ferry_device_alloc(opened.get(), 0, 4096, &address, nullptr));
        ferry_fill_desc fill = {};
        fill.destination.address = address;
        fill.width = 4096;
        fill.pattern_size = 1;
        EXPECT_OK(ferry_fill(opened.get(), &fill, by_kernel, nullptr));
        EXPECT_OK(ferry_device_free(opened.get(), address, nullptr));
    };
    fill_by_kernel();
    EXPECT_EQ(report_of(opened).kernel_contexts, 1u);
    ASSERT_OK(ferry_context_push(opened.get(), 0, made, nullptr));
    ASSERT_OK(ferry_context_adopt(opened.get(), 0, made, nullptr));
    fill_by_kernel();
    EXPECT_EQ(report_of(opened).kernel_contexts, 2u);
    EXPECT_OK(ferry_context_pop(opened.get(), nullptr, nullptr));
    EXPECT_OK(ferry_context_destroy(opened.get(), made, nullptr));
    EXPECT_EQ(report_of(opened).kernel_contexts, 1u);
}

TEST_F(instance, a_driver_may_lack_an_optional_entry_point_and_its_name_is_reported) {
    fault_driver driver(raw_entry_points());
    driver.hide("cuLaunchHostFunc");
    driver.hide("cuMemcpyAtoA");
    const instance_owner poor = open_or_fail(driver.options());
    ferry_report report = {};
    report.struct_size = sizeof report;
    ASSERT_OK(ferry_instance_get_report(poor.get(), &report, nullptr));
    ASSERT_EQ(report.missing_count, 2u);
    EXPECT_STREQ(ferry_instance_get_missing_entry_point(poor.get(), 0), "cuMemcpyAtoA");
    EXPECT_STREQ(ferry_instance_get_missing_entry_point(poor.get(), 1), "cuLaunchHostFunc");
    EXPECT_EQ(ferry_instance_get_proc(poor.get(), "cuLaunchHostFunc", 10000), nullptr);
}

struct log_lines {
    std::vector<std::string> lines;
    static void write(void *self, std::int32_t, const char *message) {
        static_cast<log_lines *>(self)->lines.emplace_back(message);
    }
    bool contain(const char *words) const {
        for (const std::string &line : lines)
            if (line.find(words) != std::string::npos) return true;
        return false;
    }
};

TEST_F(instance, an_old_driver_a_broken_driver_and_no_device_each_have_their_own_status) {
    struct {
        const char *entry;
        CUresult result;
        bool hide;
        std::int32_t status;
    } const cases[] = {
        {"cuMemcpy3DAsync", CUDA_SUCCESS, true, FERRY_ERROR_DRIVER_TOO_OLD},
        {"cuInit", CUDA_ERROR_NO_DEVICE, false, FERRY_ERROR_NO_DEVICE},
        {"cuInit", CUDA_ERROR_STUB_LIBRARY, false, FERRY_ERROR_NO_DRIVER},
        {"cuInit", CUDA_ERROR_SYSTEM_NOT_READY, false, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_SYSTEM_NOT_READY},
        {"cuDeviceGetCount", CUDA_SUCCESS, false, FERRY_ERROR_NO_DEVICE}, // leaves the count at 0
        {"cuDeviceGetName", CUDA_ERROR_UNKNOWN, false, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_UNKNOWN},
    };
    for (const auto &each : cases) {
        SCOPED_TRACE(each.entry);
        fault_driver driver(raw_entry_points());
        if (each.hide)
            driver.hide(each.entry);
        else
            driver.fail(each.entry, each.result, 1, true);
        ferry_instance *opened = nullptr;
        ferry_options options = driver.options();
        log_lines log;
        options.log = log_lines::write;
        options.log_user = &log;
        EXPECT_EQ(ferry_open(&options, &opened, nullptr), each.status);
        EXPECT_EQ(opened, nullptr);
        EXPECT_EQ(log.contain(each.entry), each.hide) << "the log names a missing entry point";

        if (!on_software_driver()) continue; // the software driver may be built out or configured otherwise
        options.driver = FERRY_DRIVER_AUTO;
        ASSERT_OK(ferry_open(&options, &opened, nullptr));
        ferry_report report = {};
        report.struct_size = sizeof report;
        EXPECT_OK(ferry_instance_get_report(opened, &report, nullptr));
        EXPECT_EQ(report.driver, FERRY_DRIVER_SOFTWARE);
        EXPECT_EQ(report.fallback_reason, each.status);
        EXPECT_TRUE(log.contain("software driver"));
        ferry_close(opened);
    }
}

TEST_F(instance, allocator_callbacks_serve_the_instance_and_all_memory_is_freed) {
    struct counts {
        std::uint64_t given = 0, returned = 0;
        static void *allocate(void *self, std::uint64_t size, std::uint64_t alignment) {
            static_cast<counts *>(self)->given += size;
            return allocate_aligned(size, alignment);
        }
        static void deallocate(void *self, void *memory, std::uint64_t size) {
            static_cast<counts *>(self)->returned += size;
            free_aligned(memory);
        }
    } counts;
    ferry_options options = options_under_test();
    options.allocate = counts::allocate;
    options.deallocate = counts::deallocate;
    options.allocate_user = &counts;
    open_or_fail(options).reset();
    EXPECT_GT(counts.given, 0u);
    EXPECT_EQ(counts.given, counts.returned);

    options.allocate = [](void *, std::uint64_t, std::uint64_t) -> void * { return nullptr; };
    ferry_instance *opened = nullptr;
    EXPECT_EQ(ferry_open(&options, &opened, nullptr), FERRY_ERROR_OUT_OF_MEMORY);
}

TEST_F(instance, device_info_matches_the_driver) {
    for (int device = 0; device < device_count(); ++device) {
        ferry_device_info info = {};
        info.struct_size = sizeof info;
        ASSERT_OK(ferry_device_get_info(basic.get(), device, &info, nullptr));
        EXPECT_EQ(info.device, device);
        EXPECT_GT(std::strlen(info.name), 0u);
        EXPECT_NE(std::strchr(info.pci_address, ':'), nullptr);
        EXPECT_EQ(info.is_software, on_software_driver());
        EXPECT_GT(info.total_memory, 0u);
        int engines = -1, pitch = 0;
        CUuuid uuid = {};
        ASSERT_OK(raw().cuDeviceGetAttribute(&engines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device));
        ASSERT_OK(raw().cuDeviceGetAttribute(&pitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH, device));
        ASSERT_OK(raw().cuDeviceGetUuid(&uuid, device));
        EXPECT_EQ(info.copy_engine_count, engines);
        EXPECT_EQ(info.overlap, engines == 0   ? FERRY_COPY_OVERLAP_NONE
                                : engines == 1 ? FERRY_COPY_OVERLAP_ONE_WAY
                                : engines == 2 ? FERRY_COPY_OVERLAP_BOTH_WAYS
                                               : FERRY_COPY_OVERLAP_BOTH_AND_MORE);
        EXPECT_EQ(info.max_pitch, static_cast<std::uint64_t>(pitch));
        EXPECT_EQ(std::memcmp(info.uuid, uuid.bytes, 16), 0);
        EXPECT_EQ(info.unified_addressing, 1);
    }
    ferry_device_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(ferry_device_get_info(basic.get(), device_count(), &info, nullptr), FERRY_ERROR_DEVICE);
    EXPECT_EQ(ferry_device_get_info(basic.get(), -1, &info, nullptr), FERRY_ERROR_DEVICE);
}

TEST_F(instance, every_status_has_a_name_and_a_text) {
    for (std::int32_t status = 0; status >= FERRY_ERROR_PROFILE; --status) {
        EXPECT_EQ(std::strncmp(ferry_status_name(status), "FERRY_", 6), 0) << status;
        EXPECT_GT(std::strlen(ferry_status_text(status)), 0u);
    }
    EXPECT_STREQ(ferry_status_name(-999), "FERRY_ERROR_UNKNOWN_STATUS");
    EXPECT_STREQ(ferry_status_name(5), "FERRY_ERROR_UNKNOWN_STATUS");
    EXPECT_STREQ(ferry_status_name(FERRY_STATUS_DRIVER_BASE - 12345), "CUDA_ERROR_UNKNOWN_RESULT");
    // Each name is the driver's own name for that number.
    for (int number = 1; number < 1000; ++number) {
        const char *name = nullptr;
        if (raw().cuGetErrorName(static_cast<CUresult>(number), &name) != CUDA_SUCCESS) continue;
        const char *ours = ferry_status_name(FERRY_STATUS_DRIVER_BASE - number);
        EXPECT_TRUE(std::strcmp(ours, name) == 0 || std::strcmp(ours, "CUDA_ERROR_UNKNOWN_RESULT") == 0)
            << ours << " is " << name;
    }
}

TEST_F(instance, status_traits_distinguish_dead_contexts_from_retries) {
    const auto traits = [](int result) { return ferry_status_traits(FERRY_STATUS_DRIVER_BASE - result); };
    EXPECT_EQ(traits(CUDA_ERROR_ILLEGAL_ADDRESS), FERRY_STATUS_CONTEXT_DEAD);
    EXPECT_EQ(traits(CUDA_ERROR_DEINITIALIZED), FERRY_STATUS_CONTEXT_DEAD);
    EXPECT_EQ(traits(CUDA_ERROR_OUT_OF_MEMORY), FERRY_STATUS_RETRY);
    EXPECT_EQ(traits(CUDA_ERROR_INVALID_VALUE), 0u);
    EXPECT_EQ(ferry_status_traits(FERRY_ERROR_OUT_OF_MEMORY), FERRY_STATUS_RETRY);
    EXPECT_EQ(ferry_status_traits(FERRY_ERROR_PITCH), 0u);
    EXPECT_EQ(ferry_status_traits(FERRY_SUCCESS), 0u);
}

// ---- Contexts --------------------------------------------------------------------------------------------------

class contexts : public ferry_test {
protected:
    CUcontext current() {
        CUcontext current = nullptr;
        EXPECT_OK(ferry_context_get_current(basic.get(), &current, nullptr));
        return current;
    }
};

TEST_F(contexts, push_and_pop_nest) {
    CUcontext own = nullptr, popped = nullptr;
    ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &own, nullptr));
    EXPECT_EQ(current(), context) << "creating a context does not make it current";
    ASSERT_OK(ferry_context_push(basic.get(), 0, own, nullptr));
    EXPECT_EQ(current(), own);
    ASSERT_OK(ferry_context_push(basic.get(), 0, nullptr, nullptr));
    EXPECT_EQ(current(), context) << "the context ferry uses is the primary one";
    ASSERT_OK(ferry_context_pop(basic.get(), &popped, nullptr));
    EXPECT_EQ(popped, context);
    ASSERT_OK(ferry_context_synchronize(basic.get(), 0, nullptr, nullptr));
    ASSERT_OK(ferry_context_pop(basic.get(), &popped, nullptr));
    EXPECT_EQ(popped, own);
    ASSERT_OK(ferry_context_synchronize(basic.get(), 0, own, nullptr));
    EXPECT_EQ(current(), context);
    ASSERT_OK(ferry_context_destroy(basic.get(), own, nullptr));
    EXPECT_EQ(current(), context);
}

TEST_F(contexts, pop_without_a_context_is_refused) {
    ASSERT_OK(raw().cuCtxSetCurrent(nullptr));
    std::thread([this] { EXPECT_EQ(ferry_context_pop(basic.get(), nullptr, nullptr), FERRY_ERROR_NO_CONTEXT); }).join();
}

TEST_F(contexts, the_primary_context_is_reference_counted) {
    CUcontext retained = nullptr;
    ASSERT_OK(ferry_context_retain_primary(basic.get(), 0, &retained, nullptr));
    EXPECT_EQ(retained, context);
    EXPECT_OK(ferry_context_release_primary(basic.get(), 0, nullptr));
    ferry_error_info error = new_error();
    expect_refusal(ferry_context_release_primary(basic.get(), 0, &error), error, FERRY_ERROR_NO_CONTEXT,
                   FERRY_SIDE_NONE, FERRY_FIELD_DEVICE);
    EXPECT_EQ(ferry_context_retain_primary(basic.get(), 99, &retained, nullptr), FERRY_ERROR_DEVICE);
}

TEST_F(contexts, an_adopted_context_is_used_until_it_is_released_or_destroyed) {
    CUcontext own = nullptr, popped = nullptr;
    ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &own, nullptr));
    ASSERT_OK(ferry_context_adopt(basic.get(), -1, own, nullptr));
    std::uint64_t address = 0;
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, 4096, &address, nullptr));
    CUcontext owner = nullptr;
    ASSERT_OK(raw().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
    EXPECT_EQ(owner, own);
    ASSERT_OK(ferry_device_free(basic.get(), address, nullptr));

    ASSERT_OK(ferry_context_adopt(basic.get(), 0, nullptr, nullptr));
    ASSERT_OK(ferry_context_push(basic.get(), 0, nullptr, nullptr));
    ASSERT_OK(ferry_context_pop(basic.get(), &popped, nullptr));
    EXPECT_EQ(popped, context);

    ASSERT_OK(ferry_context_adopt(basic.get(), 0, own, nullptr));
    ASSERT_OK(ferry_context_destroy(basic.get(), own, nullptr));
    ASSERT_OK(ferry_device_alloc(basic.get(), 0, 4096, &address, nullptr)) << "back to the primary context";
    ASSERT_OK(raw().cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
    EXPECT_EQ(owner, context);
    ASSERT_OK(ferry_device_free(basic.get(), address, nullptr));
}

// Whatever fails in the middle of a call, the thread's current context must not change.
TEST_F(contexts, stay_current_whichever_driver_call_fails) {
    fault_driver driver(raw_entry_points());
    const instance_owner wrapped = open_or_fail(driver.options());
    CUcontext own = nullptr;
    ASSERT_OK(ferry_context_create(basic.get(), 0, 0, &own, nullptr));
    test_place host(place_kind::pinned, {.width = 4096}), memory(place_kind::device, {.width = 4096});
    test_place image(place_kind::device, {.width = 64, .height = 4}),
        array(place_kind::array_2d, {.width = 64, .height = 4});
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const ferry_copy_desc copies[] = {
        describe_copy(host.describe(statement::any), memory.describe(statement::any), 4096),
        describe_copy(image.describe(statement::stated), array.describe(statement::stated), 64, 4),
    };
    const char *const entries[] = {"cuCtxGetCurrent",
                                   "cuCtxPushCurrent",
                                   "cuStreamGetCtx",
                                   "cuPointerGetAttributes",
                                   "cuMemcpy3DAsync",
                                   "cuMemcpy3D",
                                   "cuMemAlloc",
                                   "cuMemHostAlloc",
                                   "cuMemFree",
                                   "cuArray3DCreate",
                                   "cuStreamSynchronize",
                                   "cuArray3DGetDescriptor",
                                   "cuDevicePrimaryCtxRetain"};
    for (const char *const entry : entries) {
        for (const CUcontext before : {context, own, CUcontext{nullptr}}) {
            SCOPED_TRACE(entry);
            ASSERT_OK(raw().cuCtxSetCurrent(before));
            driver.heal();
            driver.fail(entry, CUDA_ERROR_OPERATING_SYSTEM, 1, true);
            int failures = 0;
            const auto expect_fault_or_success = [&](std::int32_t status) {
                if (status == FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OPERATING_SYSTEM)
                    ++failures;
                else
                    EXPECT_OK(status);
                CUcontext after = nullptr;
                EXPECT_OK(raw().cuCtxGetCurrent(&after));
                EXPECT_EQ(after, before);
            };
            const instance_owner fresh = open_or_fail(driver.options()); // retains the primary context anew
            for (const ferry_copy_desc &copy : copies) {
                expect_fault_or_success(ferry_copy_async(fresh.get(), &copy, nullptr, stream, nullptr, nullptr));
                EXPECT_OK(
                    raw().cuStreamSynchronize(stream)); // the next copy, of the same bytes, does not wait for this one
                expect_fault_or_success(ferry_copy(fresh.get(), &copy, nullptr, nullptr));
            }
            std::uint64_t address = 0;
            void *pinned = nullptr;
            CUarray made = nullptr;
            const ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_FLOAT, 1, 0, 16, 0, 0};
            expect_fault_or_success(ferry_device_alloc(fresh.get(), 0, 4096, &address, nullptr));
            expect_fault_or_success(allocate_pinned(fresh.get(), 4096, FERRY_HOST_BY_DRIVER, &pinned));
            expect_fault_or_success(ferry_array_create(fresh.get(), 0, &desc, &made, nullptr));
            expect_fault_or_success(ferry_device_free(fresh.get(), address, nullptr));
            driver.heal();
            ferry_device_free(fresh.get(), address, nullptr); // already freed, unless the fault was in that call
            EXPECT_OK(ferry_host_free(fresh.get(), pinned, nullptr));
            EXPECT_OK(ferry_array_destroy(fresh.get(), made, nullptr));
            const bool never_called = before == context && std::string(entry) == "cuCtxPushCurrent";
            EXPECT_EQ(failures == 0, never_called) << "the fault must be met wherever the entry point is called";
        }
    }
    ASSERT_OK(raw().cuCtxSetCurrent(context));
    EXPECT_OK(ferry_context_destroy(basic.get(), own, nullptr));
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

// ---- Memory ----------------------------------------------------------------------------------------------------

class memory : public ferry_test {
protected:
    ferry_address_info ask(std::uint64_t address) {
        ferry_address_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_address_get_info(basic.get(), address, &info, nullptr));
        return info;
    }

    // Copies the bytes into the array and out again, and returns what comes back.
    std::vector<std::byte> through_array(CUarray array, const std::vector<std::byte> &bytes, std::uint64_t width,
                                         std::uint64_t height, std::uint64_t depth) {
        std::vector<std::byte> back(bytes.size());
        ferry_place from, inside, to;
        ferry_place_host(&from, bytes.data());
        ferry_place_array(&inside, 0, array);
        ferry_place_host(&to, back.data());
        const ferry_copy_desc in = describe_copy(from, inside, width, height, depth);
        const ferry_copy_desc out = describe_copy(inside, to, width, height, depth);
        EXPECT_OK(ferry_copy(full.get(), &in, nullptr, nullptr));
        EXPECT_OK(ferry_copy(full.get(), &out, nullptr, nullptr));
        return back;
    }
};

TEST_F(memory, address_info_describes_every_kind_of_memory) {
    std::uint64_t device = 0;
    void *pinned = nullptr;
    std::vector<std::byte> own(3 * 4096);
    ASSERT_OK(ferry_device_alloc(basic.get(), device_count() - 1, 10000, &device, nullptr));
    ASSERT_OK(allocate_pinned(basic.get(), 10000, 0, &pinned));
    void *const pages = allocate_aligned(2 * 4096, 4096);
    ASSERT_OK(ferry_host_register(basic.get(), pages, 2 * 4096, 0, nullptr));

    ferry_address_info info = ask(device + 9999);
    EXPECT_EQ(info.memory, FERRY_MEMORY_DEVICE);
    EXPECT_EQ(info.device, device_count() - 1);
    EXPECT_EQ(info.range_start, device);
    EXPECT_EQ(info.range_size, 10000u);
    EXPECT_EQ(info.device_address, device + 9999);

    const auto pinned_address = reinterpret_cast<std::uint64_t>(pinned);
    info = ask(pinned_address + 5000);
    EXPECT_EQ(info.memory, FERRY_MEMORY_PINNED);
    EXPECT_EQ(info.device, -1);
    EXPECT_EQ(info.range_start, pinned_address);
    EXPECT_EQ(info.range_size, 10000u);

    const auto registered = reinterpret_cast<std::uint64_t>(pages);
    info = ask(registered + 4096);
    EXPECT_EQ(info.memory, FERRY_MEMORY_PINNED);
    EXPECT_EQ(info.range_start, registered);
    EXPECT_EQ(info.range_size, 2 * 4096u);

    EXPECT_EQ(ask(reinterpret_cast<std::uint64_t>(own.data())).memory, FERRY_MEMORY_PAGEABLE);

    ASSERT_OK(ferry_host_unregister(basic.get(), pages, nullptr));
    EXPECT_EQ(ask(registered).memory, FERRY_MEMORY_PAGEABLE);
    free_aligned(pages);
    ASSERT_OK(ferry_host_free(basic.get(), pinned, nullptr));
    ASSERT_OK(ferry_device_free(basic.get(), device, nullptr));
}

TEST_F(memory, pitched_rows_are_aligned_and_copied_by_their_pitch) {
    std::uint64_t address = 0, pitch = 0;
    ASSERT_OK(ferry_device_alloc_pitched(basic.get(), 0, 1001, 33, 0, &address, &pitch, nullptr));
    EXPECT_GE(pitch, 1001u);
    EXPECT_EQ(pitch % 32, 0u);
    EXPECT_EQ(address % 256, 0u);
    const std::vector<std::byte> image = random_bytes(1001 * 33, 5);
    std::vector<std::byte> back(image.size());
    ferry_place host, device;
    ferry_place_device_pitched(&device, 0, address, pitch, 0);
    ferry_place_host(&host, image.data());
    ferry_copy_desc copy = describe_copy(host, device, 1001, 33);
    ASSERT_OK(ferry_copy(full.get(), &copy, nullptr, nullptr));
    ferry_place_host(&host, back.data());
    copy = describe_copy(device, host, 1001, 33);
    ASSERT_OK(ferry_copy(full.get(), &copy, nullptr, nullptr));
    EXPECT_EQ(back, image);
    EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
    EXPECT_EQ(ferry_device_alloc_pitched(basic.get(), 0, 64, 4, 5, &address, &pitch, nullptr),
              FERRY_STATUS_DRIVER_BASE - 1);
}

TEST_F(memory, arrays_of_every_format_and_channel_count_keep_their_bytes) {
    constexpr std::int32_t formats[] = {FERRY_FORMAT_UINT8, FERRY_FORMAT_UINT16, FERRY_FORMAT_UINT32,
                                        FERRY_FORMAT_SINT8, FERRY_FORMAT_SINT16, FERRY_FORMAT_SINT32,
                                        FERRY_FORMAT_HALF,  FERRY_FORMAT_FLOAT};
    constexpr std::uint32_t sizes[] = {1, 2, 4, 1, 2, 4, 2, 4};
    constexpr std::uint64_t extents[][3] = {{37, 0, 0}, {37, 11, 0}, {37, 11, 5}};
    for (std::size_t f = 0; f < std::size(formats); ++f)
        for (const std::uint32_t channels : {1u, 2u, 4u})
            for (const auto &extent : extents) {
                SCOPED_TRACE(testing::Message() << formats[f] << " x " << channels << " depth " << extent[2]);
                const ferry_array_desc desc = {sizeof desc, formats[f], channels, FERRY_ARRAY_SURFACE,
                                               extent[0],   extent[1],  extent[2]};
                CUarray array = nullptr;
                ASSERT_OK(ferry_array_create(basic.get(), 0, &desc, &array, nullptr));
                ferry_array_desc told = {};
                told.struct_size = sizeof told;
                std::uint32_t element = 0;
                ASSERT_OK(ferry_array_get_info(basic.get(), array, &told, &element, nullptr));
                EXPECT_EQ(std::memcmp(&told, &desc, sizeof desc), 0);
                ASSERT_EQ(element, sizes[f] * channels);
                const std::uint64_t width = extent[0] * element, height = std::max<std::uint64_t>(extent[1], 1),
                                    depth = std::max<std::uint64_t>(extent[2], 1);
                const std::vector<std::byte> bytes = random_bytes(width * height * depth, f + channels);
                EXPECT_EQ(through_array(array, bytes, width, height, depth), bytes);
                EXPECT_OK(ferry_array_destroy(basic.get(), array, nullptr));
            }
}

// Block-compressed arrays are copied in blocks of 4 x 4 texels: 8 or 16 bytes each, and a quarter of the rows.
TEST_F(memory, block_compressed_arrays_are_copied_by_blocks) {
    struct {
        CUarray_format format;
        std::uint32_t channels, block;
    } const formats[] = {
        {CU_AD_FORMAT_BC1_UNORM, 4, 8}, {CU_AD_FORMAT_BC5_SNORM, 2, 16}, {CU_AD_FORMAT_BC7_UNORM, 4, 16}};
    for (const auto &each : formats) {
        const ferry_array_desc desc = {
            sizeof desc, static_cast<std::int32_t>(each.format), each.channels, 0, 64, 32, 0};
        CUarray array = nullptr;
        ASSERT_OK(ferry_array_create(basic.get(), 0, &desc, &array, nullptr));
        ferry_array_desc told = {};
        told.struct_size = sizeof told;
        std::uint32_t element = 0;
        ASSERT_OK(ferry_array_get_info(basic.get(), array, &told, &element, nullptr));
        EXPECT_EQ(element, each.block);
        const std::uint64_t width = 16 * each.block, height = 8;
        const std::vector<std::byte> blocks = random_bytes(width * height, each.block);
        EXPECT_EQ(through_array(array, blocks, width, height, 1), blocks);
        ferry_place image, host;
        ferry_place_array(&image, 0, array);
        ferry_place_host(&host, blocks.data());
        const ferry_copy_desc copy = describe_copy(image, host, width, height + 1);
        ferry_error_info error = new_error();
        expect_refusal(ferry_copy(full.get(), &copy, nullptr, &error), error, FERRY_ERROR_OUT_OF_BOUNDS,
                       FERRY_SIDE_SOURCE, FERRY_FIELD_Y);
        EXPECT_EQ(error.limit, 8u);
        EXPECT_OK(ferry_array_destroy(basic.get(), array, nullptr));
    }
}

struct named_format {
    std::int32_t format;
    std::uint32_t channels, flags, element; // element 0: planar
};
constexpr named_format named_formats[] = {
    {FERRY_FORMAT_UNORM_INT8X1, 1, 0, 1},
    {FERRY_FORMAT_UNORM_INT8X2, 2, 0, 2},
    {FERRY_FORMAT_UNORM_INT8X4, 4, 0, 4},
    {FERRY_FORMAT_UNORM_INT16X1, 1, 0, 2},
    {FERRY_FORMAT_UNORM_INT16X2, 2, 0, 4},
    {FERRY_FORMAT_UNORM_INT16X4, 4, 0, 8},
    {FERRY_FORMAT_SNORM_INT8X1, 1, 0, 1},
    {FERRY_FORMAT_SNORM_INT8X2, 2, 0, 2},
    {FERRY_FORMAT_SNORM_INT8X4, 4, 0, 4},
    {FERRY_FORMAT_SNORM_INT16X1, 1, 0, 2},
    {FERRY_FORMAT_SNORM_INT16X2, 2, 0, 4},
    {FERRY_FORMAT_SNORM_INT16X4, 4, 0, 8},
    {FERRY_FORMAT_UNORM_INT_101010_2, 4, 0, 4},
    {FERRY_FORMAT_BC1_UNORM, 4, 0, 8},
    {FERRY_FORMAT_BC1_UNORM_SRGB, 4, 0, 8},
    {FERRY_FORMAT_BC2_UNORM, 4, 0, 16},
    {FERRY_FORMAT_BC2_UNORM_SRGB, 4, 0, 16},
    {FERRY_FORMAT_BC3_UNORM, 4, 0, 16},
    {FERRY_FORMAT_BC3_UNORM_SRGB, 4, 0, 16},
    {FERRY_FORMAT_BC4_UNORM, 1, 0, 8},
    {FERRY_FORMAT_BC4_SNORM, 1, 0, 8},
    {FERRY_FORMAT_BC5_UNORM, 2, 0, 16},
    {FERRY_FORMAT_BC5_SNORM, 2, 0, 16},
    {FERRY_FORMAT_BC6H_UF16, 3, 0, 16},
    {FERRY_FORMAT_BC6H_SF16, 3, 0, 16},
    {FERRY_FORMAT_BC7_UNORM, 4, 0, 16},
    {FERRY_FORMAT_BC7_UNORM_SRGB, 4, 0, 16},
    {FERRY_FORMAT_YUY2, 4, FERRY_ARRAY_VIDEO, 4},
    {FERRY_FORMAT_Y210, 2, FERRY_ARRAY_VIDEO, 4},
    {FERRY_FORMAT_Y216, 2, FERRY_ARRAY_VIDEO, 4},
    {FERRY_FORMAT_AYUV, 4, FERRY_ARRAY_VIDEO, 4},
    {FERRY_FORMAT_Y410, 1, FERRY_ARRAY_VIDEO, 4},
    {FERRY_FORMAT_Y416, 4, FERRY_ARRAY_VIDEO, 8},
    {FERRY_FORMAT_NV12, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_P010, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_P016, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_NV16, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_P210, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_P216, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_Y444_PLANAR8, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_Y444_PLANAR10, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR, 3, FERRY_ARRAY_VIDEO, 0},
    {FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR, 3, FERRY_ARRAY_VIDEO, 0},
};

// The arrays have 64 x 32 texels. A planar array takes no copy itself, so each plane is copied.
TEST_F(memory, arrays_of_every_named_format_keep_their_bytes) {
    const auto describe_as = [&](CUarray array, ferry_array_desc &told) {
        told.struct_size = sizeof told;
        std::uint32_t element = 0;
        EXPECT_OK(ferry_array_get_info(basic.get(), array, &told, &element, nullptr));
        return element;
    };
    const auto expect_through = [&](CUarray array, std::uint64_t width, std::uint64_t height) {
        const std::vector<std::byte> bytes = random_bytes(width * height, width);
        EXPECT_EQ(through_array(array, bytes, width, height, 1), bytes);
    };
    for (const named_format &each : named_formats) {
        SCOPED_TRACE(each.format);
        const ferry_array_desc desc = {sizeof desc, each.format, each.channels, each.flags, 64, 32, 0};
        CUarray array = nullptr;
        ASSERT_OK(ferry_array_create(basic.get(), 0, &desc, &array, nullptr));
        ferry_array_desc told = {};
        ASSERT_EQ(describe_as(array, told), each.element);
        EXPECT_EQ(std::memcmp(&told, &desc, sizeof desc), 0);
        const bool is_block = each.format >= FERRY_FORMAT_BC1_UNORM && each.format <= FERRY_FORMAT_BC7_UNORM_SRGB;
        if (each.element) expect_through(array, (is_block ? 16 : 64) * each.element, is_block ? 8 : 32);
        CUarray plane = nullptr;
        std::uint32_t planes = 0;
        while (ferry_array_get_plane(basic.get(), array, planes, &plane, nullptr) == FERRY_SUCCESS && ++planes < 9) {
            const std::uint32_t element = describe_as(plane, told);
            ASSERT_GT(element, 0u);
            expect_through(plane, told.width * element, told.height);
        }
        EXPECT_EQ(planes > 0, each.element == 0) << "only planar formats have planes";
        EXPECT_EQ(plane, nullptr) << "a missing plane is returned as null";
        EXPECT_OK(ferry_array_destroy(basic.get(), array, nullptr));
    }
}

TEST_F(memory, missing_levels_and_impossible_mipmapped_arrays_are_refused) {
    const ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_FLOAT, 1, 0, 20, 12, 0};
    CUmipmappedArray mipmapped = nullptr;
    CUarray level = nullptr;
    for (const std::uint32_t levels : {0u, 99u, 5u}) { // widths of 20, 10, 5, 2 and 1
        ASSERT_OK(ferry_mipmapped_array_create(basic.get(), 0, &desc, levels, &mipmapped, nullptr));
        ASSERT_OK(ferry_mipmapped_array_get_level(basic.get(), mipmapped, 4, &level, nullptr));
        EXPECT_EQ(ferry_mipmapped_array_get_level(basic.get(), mipmapped, 5, &level, nullptr),
                  FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(level, nullptr);
        EXPECT_OK(ferry_mipmapped_array_destroy(basic.get(), mipmapped, nullptr));
    }
    ASSERT_OK(ferry_mipmapped_array_create(basic.get(), 0, &desc, 2, &mipmapped, nullptr));
    EXPECT_NE(ferry_mipmapped_array_get_level(basic.get(), mipmapped, 2, &level, nullptr), FERRY_SUCCESS);
    EXPECT_OK(ferry_mipmapped_array_destroy(basic.get(), mipmapped, nullptr));
    EXPECT_EQ(ferry_mipmapped_array_create(basic.get(), device_count(), &desc, 1, &mipmapped, nullptr),
              FERRY_ERROR_DEVICE);
    EXPECT_EQ(mipmapped, nullptr);
    ferry_array_desc bad = desc;
    bad.flags = 0x80;
    EXPECT_EQ(ferry_mipmapped_array_create(basic.get(), 0, &bad, 1, &mipmapped, nullptr), FERRY_ERROR_FLAGS);
    EXPECT_EQ(ferry_mipmapped_array_create(basic.get(), 0, nullptr, 1, &mipmapped, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ferry_mipmapped_array_get_level(basic.get(), nullptr, 0, &level, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_OK(ferry_mipmapped_array_destroy(basic.get(), nullptr, nullptr));
    std::uint64_t address = 7;
    EXPECT_EQ(ferry_managed_alloc(basic.get(), 0, 0, &address, nullptr), FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(address, 0u);
    EXPECT_EQ(ferry_managed_alloc(basic.get(), -1, 64, &address, nullptr), FERRY_ERROR_DEVICE);
}

TEST_F(memory, an_array_whose_device_is_unknown_is_copied_on_the_streams_device) {
    test_place array(place_kind::array_2d, {.width = 64, .height = 8}),
        host(place_kind::pageable, {.width = 64, .height = 8});
    host.fill(1);
    ferry_place place = array.describe(statement::stated);
    place.device = FERRY_DEVICE_UNKNOWN;
    const ferry_copy_desc copy = describe_copy(host.describe(statement::stated), place, 64, 8);
    ASSERT_OK(ferry_copy(full.get(), &copy, nullptr, nullptr));
    EXPECT_EQ(array.read(), host.picture());
}

TEST_F(memory, write_combined_memory_is_portable_and_frees_of_null_succeed) {
    void *combined = nullptr;
    ASSERT_OK(allocate_pinned(basic.get(), 4096, FERRY_HOST_WRITE_COMBINED, &combined));
    unsigned flags = 0;
    ASSERT_OK(raw().cuMemHostGetFlags(&flags, combined));
    EXPECT_TRUE(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
    EXPECT_TRUE(flags & CU_MEMHOSTALLOC_PORTABLE);
    EXPECT_OK(ferry_host_free(basic.get(), combined, nullptr));
    EXPECT_OK(ferry_host_free(basic.get(), nullptr, nullptr));
    EXPECT_OK(ferry_device_free(basic.get(), 0, nullptr));
    EXPECT_OK(ferry_array_destroy(basic.get(), nullptr, nullptr));
}

TEST_F(memory, exhausted_device_memory_returns_the_drivers_status_and_can_be_retried) {
    std::uint64_t address = 1;
    const std::int32_t status = ferry_device_alloc(basic.get(), 0, std::uint64_t{1} << 50, &address, nullptr);
    EXPECT_EQ(status, FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ferry_status_traits(status), FERRY_STATUS_RETRY);
    EXPECT_EQ(address, 0u);
}

// The software driver on Windows shares nothing. Elsewhere the driver is made to refuse.
TEST_F(memory, objects_that_the_driver_cannot_share_are_refused_by_name) {
    fault_driver driver(raw_entry_points());
    const instance_owner counted = open_or_fail(driver.options());
    constexpr std::uint32_t shared = FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING;
    std::uint64_t address = 0;
    CUevent_st *event = nullptr;
    ferry_ipc_handle handle = {};
    ferry_error_info error = new_error();
    const auto refuse = [&](const char *entry) {
        if (has_second_process) driver.fail(entry, CUDA_ERROR_NOT_SUPPORTED);
    };
    ASSERT_OK(ferry_device_alloc(counted.get(), 0, 4096, &address, nullptr));
    refuse("cuIpcGetMemHandle");
    EXPECT_EQ(ferry_ipc_export_memory(counted.get(), address, 0, &handle, &error), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(error.field, FERRY_FIELD_ADDRESS);
    refuse("cuEventCreate");
    EXPECT_EQ(ferry_event_create(counted.get(), 0, shared, &event, &error), FERRY_ERROR_UNSUPPORTED);
    EXPECT_EQ(error.field, FERRY_FIELD_FLAGS);
    EXPECT_EQ(event, nullptr);
    if (has_second_process) {
        ASSERT_OK(ferry_event_create(counted.get(), 0, shared, &event, nullptr));
        refuse("cuIpcGetEventHandle");
        EXPECT_EQ(ferry_ipc_export_event(counted.get(), event, &handle, &error), FERRY_ERROR_UNSUPPORTED);
        EXPECT_EQ(error.field, FERRY_FIELD_EVENT);
        EXPECT_OK(ferry_event_destroy(counted.get(), event, nullptr));
    }
    EXPECT_OK(ferry_device_free(counted.get(), address, nullptr));
}

TEST_F(memory, threads_share_one_instance) {
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
        threads.emplace_back([this, seed] {
            const std::vector<std::byte> bytes = random_bytes(40000, seed);
            std::vector<std::byte> back(bytes.size());
            for (int round = 0; round < 25; ++round) {
                std::uint64_t address = 0;
                EXPECT_OK(ferry_device_alloc(basic.get(), 0, bytes.size(), &address, nullptr));
                EXPECT_OK(ferry_copy_bytes(basic.get(), address, reinterpret_cast<std::uint64_t>(bytes.data()),
                                           bytes.size(), nullptr, nullptr));
                EXPECT_OK(ferry_copy_bytes_async(basic.get(), reinterpret_cast<std::uint64_t>(back.data()), address,
                                                 back.size(), nullptr, CU_STREAM_PER_THREAD, nullptr, nullptr));
                EXPECT_OK(ferry_context_synchronize(basic.get(), 0, nullptr, nullptr));
                EXPECT_EQ(back, bytes);
                EXPECT_OK(ferry_device_free(basic.get(), address, nullptr));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

// Makes the other kinds of calls from several threads at the same time, on one instance and one pair of devices.
TEST_F(memory, threads_share_one_instance_for_streams_events_fills_peers_and_arrays) {
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number)
        threads.emplace_back([this, number] {
            const int device = number % std::min(device_count(), 2);
            ferry_instance *const shared = basic.get();
            for (int round = 0; round < 10; ++round) {
                CUstream stream = nullptr;
                CUevent event = nullptr;
                std::uint64_t managed = 0;
                CUmipmappedArray mipmapped = nullptr;
                CUarray level = nullptr;
                EXPECT_OK(ferry_stream_create(shared, device, FERRY_STREAM_NON_BLOCKING, 0, &stream, nullptr));
                EXPECT_OK(ferry_event_create(shared, device, 0, &event, nullptr));
                EXPECT_OK(ferry_managed_alloc(shared, device, 4096, &managed, nullptr));
                const ferry_array_desc desc = {sizeof desc, FERRY_FORMAT_UINT8, 1, 0, 128, 128, 0};
                EXPECT_OK(ferry_mipmapped_array_create(shared, device, &desc, 2, &mipmapped, nullptr));
                EXPECT_OK(ferry_mipmapped_array_get_level(shared, mipmapped, 1, &level, nullptr));
                if (device_count() > 1) {
                    const std::int32_t status = ferry_peer_enable(shared, device, 1 - device, nullptr);
                    EXPECT_TRUE(status == FERRY_SUCCESS || is_without_access(status));
                }
                ferry_place linear, array;
                ferry_place_device(&linear, device, managed);
                ferry_place_array(&array, device, level);
                ferry_fill_desc fill;
                const auto value = static_cast<unsigned char>(number * 16 + round);
                ferry_fill_desc_init(&fill, &linear, 4096, 1, 1, &value, 1);
                EXPECT_OK(ferry_fill_async(shared, &fill, nullptr, stream, nullptr, nullptr));
                const ferry_copy_desc in = describe_copy(linear, array, 64, 64);
                ferry_explanation told = {};
                told.struct_size = sizeof told;
                EXPECT_OK(ferry_copy_explain_async(shared, &in, nullptr, stream, &told, nullptr));
                EXPECT_OK(ferry_copy_async(shared, &in, nullptr, stream, nullptr, nullptr));
                EXPECT_OK(ferry_event_record(shared, event, stream, nullptr));
                EXPECT_OK(ferry_event_synchronize(shared, event, nullptr));
                std::vector<unsigned char> back(4096);
                ferry_place host;
                ferry_place_host(&host, back.data());
                const ferry_copy_desc out = describe_copy(array, host, 64, 64);
                EXPECT_OK(ferry_copy(shared, &out, nullptr, nullptr));
                EXPECT_EQ(back, std::vector<unsigned char>(4096, value));
                EXPECT_OK(ferry_mipmapped_array_destroy(shared, mipmapped, nullptr));
                EXPECT_OK(ferry_device_free(shared, managed, nullptr));
                EXPECT_OK(ferry_event_destroy(shared, event, nullptr));
                EXPECT_OK(ferry_stream_destroy(shared, stream, nullptr));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    if (device_count() > 1) {
        EXPECT_OK(ferry_peer_disable(basic.get(), 0, 1, nullptr));
        EXPECT_OK(ferry_peer_disable(basic.get(), 1, 0, nullptr));
    }
}

} // namespace
} // namespace ferry::test
