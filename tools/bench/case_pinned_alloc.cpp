// pinned-alloc: allocation and release of pinned host memory, and whether copies are equally fast with ferry's memory.
#include "case.h"
#include "ferry/ferry_memory.h"
#include "host_memory.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pinned_alloc {
namespace {

// A way to allocate and free pinned memory.
struct way {
    const char *name;
    std::function<void *(std::size_t size)> allocate;
    std::function<void(void *memory)> free;
};

way by_driver(const environment &environment) {
    const ferry::driver_table &cu = environment.cu;
    return {"cuMemHostAlloc",
            [&cu](std::size_t size) {
                void *memory = nullptr;
                check(cu.cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                      "cuMemHostAlloc");
                return memory;
            },
            [&cu](void *memory) { check(cu.cuMemFreeHost(memory), "cuMemFreeHost"); }};
}

way by_ferry(const environment &environment) {
    ferry_instance *const ferry = environment.basic.get();
    return {"ferry_host_alloc",
            [ferry](std::size_t size) {
                auto block = sized<ferry_host_block>();
                check(ferry_host_alloc(ferry, size, nullptr, &block, nullptr), "ferry_host_alloc", {});
                return block.address;
            },
            [ferry](void *memory) { check(ferry_host_free(ferry, memory, nullptr), "ferry_host_free", {}); }};
}

// The values that all rows share.
struct table {
    bench::session &session;
    const way ways[2]; // raw, ferry
    row_list &rows;

    // Every visible device maps the memory.
    std::int32_t device_count() const { return session.environment.report.device_count; }
    void add(const char *what, std::size_t size, const std::vector<samples> &taken, std::optional<double> target) {
        rows.push_back({.labels = {what, std::to_string(device_count())},
                        .bytes = size,
                        .times = compare(taken[0], taken[1]),
                        .target = target});
    }
};

// At 1 GiB, which takes the driver 0.31 s, one round takes 0.8 s. At 64 KiB each sample is 0.5 ms (H200, 2026-11).
effort effort_of(const session &session) { return session.is_quick ? effort{3, 60, 0.05e9} : effort{5, 200, 0.8e9}; }

// The target for 1 GiB, which took a sixth to an eighth of the driver's time on one H200 (2026-11). With more visible
// devices, both allocators map the memory into each device.
std::optional<double> allocation_target(const table &table, std::size_t size) {
    if (size < 1 << 30) return std::nullopt;
    return table.device_count() == 1 ? 5 : 3;
}

// Measures the same contender for raw (0) and for ferry (1).
template <typename Make> std::vector<samples> interleave_ways(const table &table, Make make) {
    const contender pair[] = {make(0), make(1)};
    return interleave(pair, effort_of(table.session));
}

void measure_allocation(table &table, std::size_t size) {
    table.session.progress.show("pinned-alloc", "allocate", size);
    void *held[] = {nullptr, nullptr};
    const auto taken = interleave_ways(table, [&](int i) -> contender {
        const way &way = table.ways[i];
        void *&memory = held[i];
        return {way.name, [&way, &memory, size] { memory = way.allocate(size); }, 1,
                [&way, &memory] { way.free(memory); }};
    });
    table.add("allocate", size, taken, allocation_target(table, size));
}

void measure_free(table &table, std::size_t size) {
    table.session.progress.show("pinned-alloc", "free", size);
    void *held[] = {table.ways[0].allocate(size), table.ways[1].allocate(size)};
    const auto taken = interleave_ways(table, [&](int i) -> contender {
        const way &way = table.ways[i];
        void *&memory = held[i];
        return {way.name, [&way, &memory] { way.free(memory); }, 1,
                [&way, &memory, size] { memory = way.allocate(size); }};
    });
    table.add("free", size, taken, {});
    for (int i = 0; i < 2; ++i)
        table.ways[i].free(held[i]);
}

// The driver's copy call with the memory of either allocator. Only the memory differs.
void measure_copies(table &table, std::size_t size) {
    const environment &environment = table.session.environment;
    workspace &workspace = table.session.workspace;
    const owned<void *> memory[] = {{table.ways[0].allocate(size + guard), table.ways[0].free},
                                    {table.ways[1].allocate(size + guard), table.ways[1].free}};
    for (const bool is_up : {true, false}) {
        const char *const name = is_up ? "copy H2D" : "copy D2H";
        table.session.progress.show("pinned-alloc", name, size);
        const auto taken = interleave_ways(table, [&](int i) {
            const buffer host = host_buffer(memory::pinned, memory[i].get());
            const direction direction = is_up ? bench::direction{name, host, workspace.device_destination}
                                              : bench::direction{name, workspace.device_source, host};
            const contender copy = {table.ways[i].name, [&environment, direction, size] {
                                        raw_copy_async(environment, direction, size, environment.stream.get());
                                        drain(environment);
                                    }};
            const box copied = line(direction, size);
            verify_each(workspace, {&copied, 1}, {&copy, 1});
            return copy;
        });
        table.add(name, size, taken, 0.99);
    }
}

case_result run_pinned_alloc(session &session) {
    case_result result = session.begin(
        {.note = "raw: cuMemHostAlloc (PORTABLE, DEVICEMAP) and cuMemFreeHost; ferry: ferry_host_alloc and "
                 "ferry_host_free;\none call each. Copies: cuMemcpy*Async until the bytes have arrived, with memory "
                 "from each "
                 "allocator.\nThe target for 1 GiB is 5 with one visible device, and 3 with more",
         .label_columns = {"what", "devices"}});
    table table = {session, {by_driver(session.environment), by_ferry(session.environment)}, result.rows};
    const std::size_t largest = session.workspace.largest;
    warm_host_memory(6 * largest); // each allocator has one block allocated, and the system hands out other pages
    for (const std::size_t size : {64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30})
        if (size <= largest) {
            measure_allocation(table, size);
            measure_free(table, size);
        }
    measure_copies(table, largest);
    return result;
}

} // namespace
} // namespace of_pinned_alloc

const bench_case pinned_alloc_case = {"pinned-alloc",
                                      "pinned host memory, 64 KiB to 1 GiB: allocation, release and copies",
                                      of_pinned_alloc::run_pinned_alloc};

} // namespace bench
