// The program's threads: how much stack they need in ferry's calls, beside the driver's own calls for the same work, and
// that they can be cancelled after a call. Prints a table of the stacks.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>

#include "support/fault_driver.h"
#include "support/piece_batch.h"
#include "support/raw_objects.h"
#include "support/sanitizer.h"
#include "support/system.h"

namespace ferry::test {
namespace {

constexpr std::size_t KiB = 1024;

struct stack_use {
    std::size_t all;             // bytes that have been written
    std::size_t at_driver_calls; // the most above a call of the fault_driver; 0: there was none
};

// Runs `call` on a thread whose stack is full of a pattern, and returns what it has used below its first frame. A buffer
// that a function does not write does not count, as no guard page would notice it.
stack_use stack_of(const std::function<void()> &call) {
    constexpr std::size_t size = 1024 * KiB;
    constexpr std::uint64_t paint = 0x5ca1ab1e5ca1ab1e;
    struct {
        const std::function<void()> &call;
        std::uintptr_t first_frame, deepest_call;
    } given{call, 0, 0};
    const mapped_memory memory(size);
    auto *const words = reinterpret_cast<std::uint64_t *>(memory.data());
    std::fill(words, words + size / sizeof paint, paint);
    pthread_attr_t attributes;
    EXPECT_EQ(pthread_attr_init(&attributes), 0);
    EXPECT_EQ(pthread_attr_setstack(&attributes, words, size), 0);
    pthread_t thread;
    const auto run = [](void *all) -> void * {
        auto *const mine = static_cast<decltype(given) *>(all);
        mine->first_frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        mine->call();
        mine->deepest_call = reinterpret_cast<std::uintptr_t>(fault_driver::deepest_call());
        return nullptr;
    };
    EXPECT_EQ(pthread_create(&thread, &attributes, run, &given), 0);
    EXPECT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
    const auto *const lowest =
        std::find_if(words, words + size / sizeof paint, [](std::uint64_t word) { return word != paint; });
    return {given.first_frame - reinterpret_cast<std::uintptr_t>(lowest),
            given.deepest_call ? given.first_frame - given.deepest_call : 0};
}

// The same work by the driver and by ferry.
struct work {
    const char *name;
    std::function<void()> by_driver, by_ferry;
};

class threads : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        if (is_sanitized) GTEST_SKIP() << "sanitizers need stack of their own";
    }

    std::function<void()> in_context(std::function<void()> call) const {
        return [this, call] {
            EXPECT_OK(raw().cuCtxSetCurrent(context));
            call();
        };
    }
};

// Runs `call` on a thread whose stack has that many bytes, the thread's own data included, and ends at a page without
// access.
void run_on_stack_of(std::size_t size, const std::function<void()> &call) {
    constexpr std::size_t page = 4 * KiB;
    const mapped_memory memory(page + size);
    memory.allow(0, page, page_access::none);
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, memory.data() + page, size), 0);
    pthread_t thread;
    const auto run = [](void *given) -> void * {
        (*static_cast<const std::function<void()> *>(given))();
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()> *>(&call)), 0);
    EXPECT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
}

// Calls `use` with every kind of work. The instance must be set before the work is done.
void with_all_work(const std::function<void(ferry_instance *&, const std::vector<work> &)> &use) {
    constexpr std::uint64_t large = 8 << 20, piece = 64;
    constexpr std::size_t many = 500, few = 100;
    const test_stream stream;
    const device_memory device(2 * large);
    const pinned_memory pinned(large);
    std::vector<std::byte> pageable(large);
    const auto at = [](const void *memory) { return reinterpret_cast<std::uintptr_t>(memory); };
    ferry_instance *ferry = nullptr;

    const auto wait = [&] { EXPECT_OK(raw().cuStreamSynchronize(stream)); };
    const auto line = [&](std::uint64_t to, std::uint64_t from, std::uint64_t size, const how &options = {}) {
        return [&, to, from, size, options] {
            ferry_copy_desc copy = {};
            copy.destination.address = to;
            copy.source.address = from;
            copy.width = size;
            EXPECT_OK(ferry_copy_async(ferry, &copy, options, stream, nullptr, nullptr));
            wait();
        };
    };
    const auto rows = [&](std::uint64_t to, std::uint64_t from, const how &options) {
        return [&, to, from, options] {
            ferry_copy_desc copy = {};
            copy.destination.address = to;
            copy.source.address = from;
            copy.width = 64, copy.height = 200;
            copy.source.row_pitch = 128, copy.destination.row_pitch = 256;
            EXPECT_OK(ferry_copy_async(ferry, &copy, options, stream, nullptr, nullptr));
            wait();
        };
    };
    const auto driver_rows = [&](const void *host) {
        return [&, host] {
            CUDA_MEMCPY3D copy = {};
            copy.srcMemoryType = CU_MEMORYTYPE_HOST;
            copy.srcHost = host;
            copy.srcPitch = 128;
            copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
            copy.dstDevice = device;
            copy.dstPitch = 256;
            copy.WidthInBytes = 64, copy.Height = 200, copy.Depth = 1;
            copy.srcHeight = copy.dstHeight = 200;
            EXPECT_OK(raw().cuMemcpy3DAsync(&copy, stream));
            wait();
        };
    };
    const auto driver_up = [&](const void *host, std::uint64_t size) {
        return [&, host, size] {
            EXPECT_OK(raw().cuMemcpyHtoDAsync(device, host, size, stream));
            wait();
        };
    };
    const auto driver_down = [&](void *host, std::uint64_t size) {
        return [&, host, size] {
            EXPECT_OK(raw().cuMemcpyDtoHAsync(host, device, size, stream));
            wait();
        };
    };
    const auto pieces_of = [&](const void *host, std::size_t count) {
        piece_batch batch;
        for (std::size_t i = 0; i < count; ++i)
            batch.add(device + 2 * piece * i, at(host) + 3 * piece * i, piece);
        return batch;
    };
    const auto pieces = [&](const void *host, std::size_t count) {
        return [&, batch = pieces_of(host, count)] {
            EXPECT_OK(batch.copy_async(ferry, stream));
            wait();
        };
    };
    const auto boxes = [&](std::size_t count) {
        return [&, count] {
            std::vector<ferry_copy_desc> copies(count);
            for (std::size_t i = 0; i < count; ++i) {
                copies[i].destination.address = device + 4096 * i;
                copies[i].source.address = at(pinned.data()) + 4096 * i;
                copies[i].width = 24, copies[i].height = 8;
                copies[i].source.row_pitch = copies[i].destination.row_pitch = 64;
            }
            EXPECT_OK(ferry_copy_batch_async(ferry, copies.data(), count, nullptr, stream, nullptr, nullptr));
            wait();
        };
    };

    std::vector<work> all = {
        {"pinned line to the device", driver_up(pinned.data(), large), line(device, at(pinned.data()), large)},
        {"device line to pinned", driver_down(pinned.data(), large), line(at(pinned.data()), device, large)},
        {"device line",
         [&] {
             EXPECT_OK(raw().cuMemcpyDtoDAsync(device, device + large, large, stream));
             wait();
         },
         line(device, device + large, large)},
        {"pageable line to the device, by the driver", driver_up(pageable.data(), large),
         line(device, at(pageable.data()), large, by_driver)},
        {"pageable line to the device, staged", driver_up(pageable.data(), large),
         line(device, at(pageable.data()), large, by_staging)},
        {"device line to pageable, staged", driver_down(pageable.data(), large),
         line(at(pageable.data()), device, large, by_staging)},
        {"pageable line, staged without a kernel", driver_up(pageable.data(), large),
         line(device, at(pageable.data()), large, by_staging | no_kernels)},
        {"pageable line, read in the call", driver_up(pageable.data(), large),
         line(device, at(pageable.data()), large, read_in_the_call)},
        {"pageable line, synchronous", [&] { EXPECT_OK(raw().cuMemcpyHtoD(device, pageable.data(), large)); },
         [&] { EXPECT_OK(ferry_copy_bytes(ferry, device, at(pageable.data()), large, nullptr, nullptr)); }},
        {"pinned rows by the driver", driver_rows(pinned.data()), rows(device, at(pinned.data()), by_driver)},
        {"pinned rows by a kernel", driver_rows(pinned.data()), rows(device, at(pinned.data()), by_kernel)},
        {"pageable rows, staged", driver_rows(pageable.data()), rows(device, at(pageable.data()), by_staging)},
        {"few pinned pieces", driver_up(pinned.data(), piece), pieces(pinned.data(), few)},
        {"many pinned pieces", driver_up(pinned.data(), piece), pieces(pinned.data(), many)},
        {"many pageable pieces", driver_up(pageable.data(), piece), pieces(pageable.data(), many)},
        {"few boxes", driver_rows(pinned.data()), boxes(few / 4)},
        {"many boxes", driver_rows(pinned.data()), boxes(many)},
        {"prepared pieces", driver_up(pinned.data(), piece),
         [&, batch = pieces_of(pinned.data(), many)] {
             ferry_prepared *prepared = nullptr;
             EXPECT_OK(batch.prepare(ferry, stream, updatable, &prepared));
             EXPECT_OK(ferry_prepared_launch(prepared, nullptr, stream, nullptr, nullptr));
             wait();
             EXPECT_OK(ferry_prepared_destroy(prepared, nullptr));
         }},
        {"a fill",
         [&] {
             EXPECT_OK(raw().cuMemsetD8Async(device, 1, large, stream));
             wait();
         },
         [&] {
             ferry_fill_desc fill = {};
             const std::uint8_t value = 1;
             ferry_place to = {};
             to.address = device;
             ferry_fill_desc_init(&fill, &to, large, 1, 1, &value, 1);
             EXPECT_OK(ferry_fill_async(ferry, &fill, nullptr, stream, nullptr, nullptr));
             wait();
         }},
        {"a ticket", driver_up(pageable.data(), large),
         [&] {
             ferry_copy_desc copy = {};
             copy.destination.address = device;
             copy.source.address = at(pageable.data());
             copy.width = large;
             ferry_ticket *ticket = nullptr;
             EXPECT_OK(ferry_copy_async(ferry, &copy, by_staging, stream, &ticket, nullptr));
             EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
             EXPECT_OK(ferry_ticket_release(ticket, nullptr));
         }},
        {"32 MiB of pinned memory",
         [&] {
             void *address = nullptr;
             EXPECT_OK(raw().cuMemHostAlloc(&address, 32 << 20, 0));
             EXPECT_OK(raw().cuMemFreeHost(address));
         },
         [&] {
             void *address = nullptr;
             EXPECT_OK(allocate_pinned(ferry, 32 << 20, 0, &address));
             EXPECT_OK(ferry_host_free(ferry, address, nullptr));
         }},
        {"device memory",
         [&] {
             CUdeviceptr address = 0;
             EXPECT_OK(raw().cuMemAlloc(&address, large));
             EXPECT_OK(raw().cuMemFree(address));
         },
         [&] {
             std::uint64_t address = 0;
             EXPECT_OK(ferry_device_alloc(ferry, 0, large, &address, nullptr));
             EXPECT_OK(ferry_device_free(ferry, address, nullptr));
         }},
    };
    std::optional<other_device> second;
    std::optional<device_memory> on_second;
    if (device_count() > 1) {
        second.emplace();
        const made_current as(*second);
        on_second.emplace(large);
        all.push_back({"a broadcast", driver_up(pinned.data(), large), [&] {
                           piece_batch batch;
                           batch.add(device, at(pinned.data()), large);
                           batch.add(*on_second, at(pinned.data()), large);
                           EXPECT_OK(batch.copy_async(ferry, stream));
                           wait();
                       }});
    }
    use(ferry, all);
}

// What ferry may need above its calls of the driver, and beside the driver's own call for the same work: docs/contract.md.
constexpr std::size_t allowed = 10 * KiB;

TEST_F(threads, a_call_needs_little_more_stack_than_the_call_of_the_driver) {
    std::printf(
        "bytes of stack: the driver's call, ferry's, ferry's first, ferry's above the driver's calls, and first\n");
    with_all_work([&](ferry_instance *&ferry, const std::vector<work> &all) {
        for (const work &one : all) {
            const instance_owner instance = open_or_fail(options_under_test());
            ferry = instance.get();
            const stack_use first = stack_of(in_context(one.by_ferry));
            stack_of(in_context(one.by_driver)); // the first one binds symbols
            const stack_use of_driver = stack_of(in_context(one.by_driver)), later = stack_of(in_context(one.by_ferry));
            fault_driver driver(raw_entry_points());
            const instance_owner watched = open_or_fail(driver.options());
            ferry = watched.get();
            const stack_use first_above = stack_of(in_context(one.by_ferry)),
                            above = stack_of(in_context(one.by_ferry));
            std::printf("%6zu %6zu %6zu %6zu %6zu  %s\n", of_driver.all, later.all, first.all, above.at_driver_calls,
                        first_above.at_driver_calls, one.name);
            EXPECT_LE(above.at_driver_calls, allowed) << one.name;
            EXPECT_LE(first_above.at_driver_calls, allowed) << one.name;
            // On a GPU, the driver's call for the same work may need less stack than the calls that ferry makes.
            if (on_software_driver()) {
                EXPECT_LE(later.all, of_driver.all + allowed) << one.name;
            }
        }
    });
}

// docs/contract.md: a program whose threads have small stacks opens the instance with FERRY_STAGING_AT_OPEN on another
// thread. A stack that is too small ends this program, behind the line that names the work.
TEST_F(threads, calls_return_on_stacks_of_24_KiB_and_on_the_software_driver_of_16_KiB) {
    ferry_options options = options_under_test();
    options.staging = FERRY_STAGING_AT_OPEN;
    const instance_owner instance = open_or_fail(options);
    with_all_work([&](ferry_instance *&ferry, const std::vector<work> &all) {
        ferry = instance.get();
        for (const std::size_t size : {24 * KiB, 16 * KiB}) {
            if (size < 24 * KiB && !on_software_driver()) continue; // less than the driver's own calls need
            for (const work &one : all) {
                std::printf("on a stack of %zu KiB: %s\n", size / KiB, one.name);
                std::fflush(stdout);
                one.by_ferry(); // binds symbols and loads kernels
                run_on_stack_of(size, in_context(one.by_ferry));
            }
        }
    });
}

// In a call a cancellation would leave mutexes locked, ferry's and the driver's. A program disables cancellation around
// calls, and ferry leaves it disabled.
TEST_F(threads, a_cancellation_that_is_disabled_waits_until_the_calls_have_returned) {
    constexpr std::uint64_t size = 1 << 20;
    const test_stream stream;
    const device_memory device(size);
    const bytes from = random_bytes(size, 1);
    bytes to(size);
    const auto at = [](const bytes &memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); };
    const std::function<void()> calls = in_context([&] {
        int before = PTHREAD_CANCEL_ENABLE;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        EXPECT_EQ(pthread_cancel(pthread_self()), 0); // pending from now on
        const auto expect_disabled = [] {
            int state = PTHREAD_CANCEL_ENABLE;
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
            EXPECT_EQ(state, PTHREAD_CANCEL_DISABLE);
        };
        ferry_options options = options_under_test();
        options.copy_options = by_staging;
        ferry_instance *ferry = nullptr;
        ASSERT_OK(ferry_open(&options, &ferry, nullptr));
        expect_disabled();
        piece_batch batch;
        for (std::uint64_t i = 0; i < 64; ++i)
            batch.add(device + i * (size / 64), at(from) + i * (size / 64), size / 64);
        EXPECT_OK(batch.copy_async(ferry, stream));
        EXPECT_OK(ferry_stream_synchronize(ferry, stream, nullptr));
        expect_disabled();
        ferry_copy_desc copy = {};
        copy.source.address = device, copy.destination.address = at(to), copy.width = size;
        ferry_ticket *ticket = nullptr;
        EXPECT_OK(ferry_copy_async(ferry, &copy, nullptr, stream, &ticket, nullptr));
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        expect_disabled();
        EXPECT_OK(ferry_copy_bytes(ferry, device, at(from), size, nullptr, nullptr));
        void *address = nullptr;
        EXPECT_OK(allocate_pinned(ferry, 32 << 20, 0, &address));
        EXPECT_OK(ferry_host_free(ferry, address, nullptr));
        ferry_close(ferry);
        expect_disabled();
    });
    bool goes_on = false;
    const auto run = [&] {
        calls();
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
        pthread_testcancel();
        goes_on = true;
    };
    std::function<void()> body = run;
    pthread_t thread;
    const auto begin = [](void *all) -> void * {
        (*static_cast<std::function<void()> *>(all))();
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, nullptr, begin, &body), 0);
    void *result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_FALSE(goes_on);
    EXPECT_TRUE(to == from);
}

} // namespace
} // namespace ferry::test
