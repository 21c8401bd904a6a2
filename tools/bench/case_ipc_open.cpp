// ipc-open: opens memory and pools that another process shares. The second process measures; this process only exports.
#include <algorithm>
#include <cstring>

#include "case.h"
#include "ferry/ferry_ipc.h"
#include "progress.h"
#include "second_process.h"
#include "units.h"

#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace bench {

namespace of_ipc_open {
namespace {

constexpr std::size_t block = 8 << 20;
constexpr unsigned char pattern = 0x5a;
constexpr double min_ratio = 0.95; // for the first opening of memory

// The objects that are opened, in the order of the answers.
enum class subject { memory, memory_again, pool, pool_memory };
struct subject_row {
    of_ipc_open::subject subject;
    const char *name, *raw;
    bool is_of_pool;
    std::optional<double> target;
};
constexpr subject_row subjects[] = {
    {subject::memory, "memory", "cuIpcOpenMemHandle", false, min_ratio},
    {subject::memory_again, "memory, again", "cuIpcOpenMemHandle", false, std::nullopt},
    {subject::pool, "pool", "cuMemPoolImportFromShareableHandle", true, std::nullopt},
    {subject::pool_memory, "pool memory", "cuMemPoolImportPointer", true, std::nullopt},
};

// Sent from this process to the second process.
struct offer {
    CUipcMemHandle raw_memory;
    ferry_ipc_handle memory;
    bool has_pool;
    int pool_descriptor; // inherited by the second process
    CUmemPoolPtrExportData raw_pool_memory;
    ferry_ipc_handle pool, pool_memory;
};

// Sent from the second process to this process, once for each offered object.
struct answer {
    char fault[256]; // the error text; empty on success
    comparison times;
};

// A way to open an object and to close it again. The object is an address or a pool.
struct way {
    const char *name;
    std::function<std::uint64_t()> open;
    std::function<void(std::uint64_t)> close;
};

// ---- The second process

struct importer {
    const bench::environment &environment;
    const of_ipc_open::offer &offer;
    bool is_quick;

    ferry_instance *ferry() const { return environment.basic.get(); }
    CUstream stream() const { return environment.stream.get(); }
};

way memory_by_driver(const importer &importer) {
    return {"cuIpcOpenMemHandle",
            [&importer] {
                CUdeviceptr address = 0;
                check(importer.environment.cu.cuIpcOpenMemHandle(&address, importer.offer.raw_memory,
                                                                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                      "cuIpcOpenMemHandle");
                return std::uint64_t{address};
            },
            [&importer](std::uint64_t address) {
                check(importer.environment.cu.cuIpcCloseMemHandle(address), "cuIpcCloseMemHandle");
            }};
}

way memory_by_ferry(const importer &importer, const ferry_ipc_handle &handle) {
    return {"ferry_ipc_import_memory",
            [&importer, &handle] {
                std::uint64_t address = 0;
                auto error = sized<ferry_error_info>();
                check(ferry_ipc_import_memory(importer.ferry(), &handle, &address, &error), "ferry_ipc_import_memory",
                      error);
                return address;
            },
            [&importer](std::uint64_t address) {
                check(ferry_ipc_close_memory(importer.ferry(), address, importer.stream(), nullptr),
                      "ferry_ipc_close_memory", {});
            }};
}

std::uint64_t number(CUmemoryPool pool) { return reinterpret_cast<std::uint64_t>(pool); }
CUmemoryPool pool_of(std::uint64_t number) { return reinterpret_cast<CUmemoryPool>(number); }

way pool_by_driver(const importer &importer) {
    return {"cuMemPoolImportFromShareableHandle",
            [&importer] {
                CUmemoryPool pool = nullptr;
                const auto descriptor = static_cast<std::intptr_t>(importer.offer.pool_descriptor);
                check(importer.environment.cu.cuMemPoolImportFromShareableHandle(
                          &pool, reinterpret_cast<void *>(descriptor), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                      "cuMemPoolImportFromShareableHandle");
                return number(pool);
            },
            [&importer](std::uint64_t pool) {
                check(importer.environment.cu.cuMemPoolDestroy(pool_of(pool)), "cuMemPoolDestroy");
            }};
}

way pool_by_ferry(const importer &importer) {
    return {"ferry_ipc_import_pool",
            [&importer] {
                CUmemoryPool pool = nullptr;
                auto error = sized<ferry_error_info>();
                check(ferry_ipc_import_pool(importer.ferry(), &importer.offer.pool, importer.offer.pool_descriptor,
                                            &pool, &error),
                      "ferry_ipc_import_pool", error);
                return number(pool);
            },
            [&importer](std::uint64_t pool) {
                check(ferry_ipc_close_pool(importer.ferry(), pool_of(pool), nullptr), "ferry_ipc_close_pool", {});
            }};
}

way pool_memory_by_driver(const importer &importer, CUmemoryPool pool) {
    return {"cuMemPoolImportPointer",
            [&importer, pool] {
                CUmemPoolPtrExportData data = importer.offer.raw_pool_memory;
                CUdeviceptr address = 0;
                check(importer.environment.cu.cuMemPoolImportPointer(&address, pool, &data), "cuMemPoolImportPointer");
                return std::uint64_t{address};
            },
            [&importer](std::uint64_t address) {
                check(importer.environment.cu.cuMemFreeAsync(address, importer.stream()), "cuMemFreeAsync");
            }};
}

void verify(const importer &importer, const way &way) {
    std::vector<unsigned char> bytes(block);
    const std::uint64_t address = way.open();
    check(importer.environment.cu.cuMemcpyDtoH(bytes.data(), address, block), "cuMemcpyDtoH");
    way.close(address);
    drain(importer.environment);
    if (std::any_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte != pattern; }))
        fail(std::string(way.name) + ": the shared memory has wrong bytes");
}

comparison compare_ways(const importer &importer, const way (&ways)[2]) {
    std::vector<contender> contenders;
    for (const way &way : ways)
        contenders.push_back(
            {way.name, [&way] { way.close(way.open()); }, 1, [&importer] { drain(importer.environment); }});
    const std::vector<samples> taken =
        interleave(contenders, importer.is_quick ? effort{4, 100, 0.05e9} : effort{20, 1000, 1e9});
    return compare(taken[0], taken[1]);
}

comparison compare_memory(const importer &importer, const way (&ways)[2]) {
    for (const way &way : ways)
        verify(importer, way);
    return compare_ways(importer, ways);
}

comparison compare_again(const importer &importer) {
    const way ways[] = {memory_by_driver(importer), memory_by_ferry(importer, importer.offer.memory)};
    const owned<std::uint64_t> held = {ways[1].open(), ways[1].close};
    return compare_memory(importer, ways);
}

comparison compare_pool_memory(const importer &importer) {
    const way pool = pool_by_ferry(importer);
    const owned<std::uint64_t> held = {pool.open(), pool.close};
    return compare_memory(importer, {pool_memory_by_driver(importer, pool_of(held.get())),
                                     memory_by_ferry(importer, importer.offer.pool_memory)});
}

comparison compare_subject(const importer &importer, subject subject) {
    switch (subject) {
    case subject::memory:
        return compare_memory(importer, {memory_by_driver(importer), memory_by_ferry(importer, importer.offer.memory)});
    case subject::memory_again:
        return compare_again(importer);
    case subject::pool:
        return compare_ways(importer, {pool_by_driver(importer), pool_by_ferry(importer)});
    default:
        return compare_pool_memory(importer);
    }
}

// ---- This process

// Filled memory that ferry has allocated, exported as both kinds of handle.
class exported_memory {
public:
    exported_memory(const environment &environment, offer &offer)
        : memory_(allocate_device(environment, block)), is_shared_(share(environment, offer)) {}
    bool is_shared() const { return is_shared_; }

private:
    bool share(const environment &environment, offer &offer) {
        check(environment.cu.cuMemsetD8(memory_.get(), pattern, block), "cuMemsetD8");
        check(environment.cu.cuCtxSynchronize(), "cuCtxSynchronize");
        auto error = sized<ferry_error_info>();
        const std::int32_t status =
            ferry_ipc_export_memory(environment.basic.get(), memory_.get(), 0, &offer.memory, &error);
        if (!is_supported(status, "ferry_ipc_export_memory", error)) return false;
        check(environment.cu.cuIpcGetMemHandle(&offer.raw_memory, memory_.get()), "cuIpcGetMemHandle");
        return true;
    }

    const owned<CUdeviceptr> memory_;
    const bool is_shared_;
};

// A pool and filled memory from it, both exported. Offers nothing if such pools, or sharing them, are not supported.
class exported_pool {
public:
    exported_pool(const environment &environment, offer &offer) : environment_(environment) {
        offer.pool_descriptor = -1;
        offer.has_pool = share(offer);
    }
    ~exported_pool() {
        ferry_device_free(environment_.basic.get(), memory_, nullptr);
        ferry_pool_destroy(environment_.basic.get(), pool_, nullptr);
#if !defined(_WIN32)
        if (descriptor_ >= 0) close(static_cast<int>(descriptor_));
#endif
    }
    exported_pool(const exported_pool &) = delete;

private:
    bool share(offer &offer) {
        if (!(environment_.device_info.pool_handle_types & FERRY_HANDLE_POSIX_FD)) return false;
        if (environment_.missing({"cuMemPoolImportFromShareableHandle", "cuMemPoolExportPointer",
                                  "cuMemPoolImportPointer", "cuMemPoolDestroy", "cuMemFreeAsync"}))
            return false;
        ferry_instance *const ferry = environment_.basic.get();
        auto desc = sized<ferry_pool_desc>();
        desc.index = environment_.device;
        desc.handle_types = FERRY_HANDLE_POSIX_FD;
        auto error = sized<ferry_error_info>();
        if (!is_supported(ferry_pool_create(ferry, &desc, &pool_, &error), "ferry_pool_create", error)) return false;
        check(ferry_pool_alloc_async(ferry, pool_, block, environment_.stream.get(), &memory_, nullptr),
              "ferry_pool_alloc_async", {});
        drain(environment_);
        check(environment_.cu.cuMemsetD8(memory_, pattern, block), "cuMemsetD8");
        check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
        const std::int32_t status =
            ferry_ipc_export_pool(ferry, pool_, FERRY_HANDLE_POSIX_FD, &offer.pool, &descriptor_, &error);
        if (!is_supported(status, "ferry_ipc_export_pool", error)) return false;
        offer.pool_descriptor = static_cast<int>(descriptor_);
        check(ferry_ipc_export_memory(ferry, memory_, 0, &offer.pool_memory, &error), "ferry_ipc_export_memory", error);
        check(environment_.cu.cuMemPoolExportPointer(&offer.raw_pool_memory, memory_), "cuMemPoolExportPointer");
        return true;
    }

    const environment &environment_;
    CUmemoryPool pool_ = nullptr;
    std::uint64_t memory_ = 0;
    std::int64_t descriptor_ = -1;
};

case_result run_ipc_open(session &session) {
    const environment &environment = session.environment;
    if (const char *absent = environment.missing({"cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuIpcCloseMemHandle"}))
        return skipped(std::string("this driver lacks ") + absent);
    offer offer = {};
    const exported_memory memory(environment, offer);
    if (!memory.is_shared()) return skipped("this driver or this build of ferry cannot share memory");
    const exported_pool pool(environment, offer);

    case_result result = session.begin(
        {.note =
             "a sample is a pair of calls in a second process, which opens the shared object and "
             "closes it; again: while it is already open;\nferry: ferry_ipc_import_memory or ferry_ipc_import_pool; "
             "context, stream and the pool of the memory exist before",
         .label_columns = {"what", "raw call"}});
    const auto other = second_process::start(environment, session.is_quick, offer.pool_descriptor);
    if (!other) return skipped("ferry-bench cannot be started a second time here");
    other->talk().send(offer);
    for (const subject_row &subject : subjects) {
        if (subject.is_of_pool && !offer.has_pool) continue;
        session.progress.show("ipc-open", subject.name, block);
        answer answer;
        other->talk().receive(answer);
        if (answer.fault[0]) fail(answer.fault);
        result.rows.push_back(
            {.labels = {subject.name, subject.raw}, .bytes = block, .times = answer.times, .target = subject.target});
    }
    if (!offer.has_pool) result.note += "\nskipped: pools and pool memory, which this driver cannot share";
    return result;
}

} // namespace
} // namespace of_ipc_open

void run_importer(const environment &environment, int socket, bool is_quick) {
    using namespace of_ipc_open;
    channel channel(socket);
    channel.send('\0'); // reports that it runs
    offer offer;
    channel.receive(offer);
    const importer importer = {environment, offer, is_quick};
    for (const subject_row &each : subjects) {
        if (each.is_of_pool && !offer.has_pool) continue;
        answer answer = {};
        try {
            answer.times = compare_subject(importer, each.subject);
        } catch (const std::exception &failure) {
            std::strncpy(answer.fault, failure.what(), sizeof answer.fault - 1);
        }
        channel.send(answer);
    }
}

const bench_case ipc_open_case = {"ipc-open", "opening memory and pools of another process", of_ipc_open::run_ipc_open};

} // namespace bench
