// address: looks up an address with ferry, and with the driver for the same attributes.
#include "case.h"
#include "contract_queries.h"
#include "ferry/ferry_memory.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_address {
namespace {

constexpr int burst_length = 200; // consecutive calls, 10 to 30 us in total
// ferry also finds the registration of the memory, and whether the memory belongs to ferry.
constexpr double max_ns = 150, max_ns_beside_query = 60;
constexpr std::size_t block = 1 << 20;

struct subject {
    const char *name;
    std::uint64_t address;
    std::int32_t memory; // FERRY_MEMORY_*: the kind that ferry must report
};

contender query_driver(const environment &environment, std::uint64_t address) {
    return burst("cuPointerGetAttributes", burst_length,
                 [&environment, address] { query_range(environment, address); });
}

contender ask_ferry(const environment &environment, std::uint64_t address) {
    return burst("ferry_address_get_info", burst_length,
                 [ferry = environment.basic.get(), address, info = sized<ferry_address_info>()]() mutable {
                     check(ferry_address_get_info(ferry, address, &info, nullptr), "ferry_address_get_info", {});
                 });
}

void verify(const environment &environment, const subject &subject) {
    auto info = sized<ferry_address_info>();
    check(ferry_address_get_info(environment.basic.get(), subject.address, &info, nullptr), "ferry_address_get_info",
          {});
    if (info.memory != subject.memory)
        fail(std::string("ferry_address_get_info reports a wrong kind for ") + subject.name + " memory");
}

row measure_subject(session &session, const subject &subject) {
    session.progress.show("address", subject.name, block);
    verify(session.environment, subject);
    const contender pair[] = {query_driver(session.environment, subject.address),
                              ask_ferry(session.environment, subject.address)};
    const effort effort = session.is_quick ? bench::effort{10, 400, 0.05e9} : bench::effort{20, 4000, 1e9};
    const std::vector<samples> taken = interleave(pair, effort);
    return {.labels = {subject.name},
            .bytes = block,
            .times = compare(taken[0], taken[1]),
            .target = std::nullopt,
            .max_ns = std::max(max_ns, summarise(taken[0]).median + max_ns_beside_query)};
}

// Allocates memory by `allocate`. The address is 0 if the driver has no such memory.
template <typename Allocate>
owned<std::uint64_t> allocate_maybe(const environment &environment, const char *call, Allocate allocate) {
    ferry_instance *const ferry = environment.basic.get();
    std::uint64_t address = 0;
    if (is_supported(allocate(ferry, &address), call, {})) drain(environment);
    return {address, [ferry](std::uint64_t address) { ferry_device_free(ferry, address, nullptr); }};
}

case_result run_address(session &session) {
    const environment &environment = session.environment;
    const workspace &workspace = session.workspace;
    case_result result = session.begin(
        {.note =
             "a sample is 200 calls for an address within the memory; raw: cuPointerGetAttributes "
             "with the same attributes;\nferry: ferry_address_get_info; target: 150 ns, or 60 ns more than the driver",
         .label_columns = {"memory"}});
    const owned<std::uint64_t> managed = allocate_maybe(
        environment, "ferry_managed_alloc", [device = environment.device](ferry_instance *ferry, auto *address) {
            return ferry_managed_alloc(ferry, device, block, address, nullptr);
        });
    const owned<std::uint64_t> pool = allocate_maybe(
        environment, "ferry_device_alloc_async",
        [stream = environment.stream.get()](ferry_instance *ferry, auto *address) {
            return ferry_device_alloc_async(ferry, FERRY_DEVICE_UNKNOWN, block, stream, address, nullptr);
        });
    for (const subject &subject : {subject{"device", workspace.device_source.address, FERRY_MEMORY_DEVICE},
                                   {"pinned", workspace.pinned.address, FERRY_MEMORY_PINNED},
                                   {"pageable", workspace.pageable.address, FERRY_MEMORY_PAGEABLE},
                                   {"managed", managed.get(), FERRY_MEMORY_MANAGED},
                                   {"pool", pool.get(), FERRY_MEMORY_DEVICE}})
        if (subject.address)
            result.rows.push_back(
                measure_subject(session, {subject.name, subject.address + block / 2, subject.memory}));
        else
            result.note += std::string("\nskipped: this driver does not support memory of the kind ") + subject.name;
    return result;
}

} // namespace
} // namespace of_address

const bench_case address_case = {"address", "queries of an address, for every kind of memory", of_address::run_address};

} // namespace bench
