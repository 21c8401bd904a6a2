// register: registers memory of the program and unregisters it.
#include <algorithm>

#include "case.h"
#include "ferry/ferry_memory.h"
#include "host_memory.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_register {
namespace {

contender by_driver(const environment &environment, void *memory, std::size_t size) {
    return {"cuMemHostRegister", [&cu = environment.cu, memory, size] {
                check(cu.cuMemHostRegister(memory, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
                      "cuMemHostRegister");
                check(cu.cuMemHostUnregister(memory), "cuMemHostUnregister");
            }};
}

contender by_ferry(ferry_instance *ferry, void *memory, std::size_t size) {
    return {"ferry_host_register", [ferry, memory, size] {
                check(ferry_host_register(ferry, memory, size, 0, nullptr), "ferry_host_register", {});
                check(ferry_host_unregister(ferry, memory, nullptr), "ferry_host_unregister", {});
            }};
}

instance open_with_chunk(const environment &environment, std::size_t chunk) {
    auto options = sized<ferry_options>();
    options.driver = environment.report.driver;
    options.register_chunk = chunk;
    return open_ferry(options);
}

case_result run_register(session &session) {
    const environment &environment = session.environment;
    case_result result = session.begin(
        {.note = "a sample is a pair of calls on touched memory, in huge pages where the system has them; raw: "
                 "cuMemHostRegister (PORTABLE,\nDEVICEMAP) and cuMemHostUnregister; ferry: "
                 "ferry_host_register and ferry_host_unregister; pieces: register_chunk",
         .label_columns = {"pieces"}});
    const std::size_t largest = session.workspace.largest, chunk = std::min<std::size_t>(64 << 20, largest / 4);
    const instance in_pieces = open_with_chunk(environment, chunk);
    const owned<void *> memory = allocate_touched(largest);
    const effort effort = session.is_quick ? bench::effort{3, 60, 0.05e9} : bench::effort{7, 400, 0.5e9};
    for (const std::size_t size : {1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30}) {
        if (size > largest) continue;
        session.progress.show("register", "", size);
        const contender contenders[] = {by_driver(environment, memory.get(), size),
                                        by_ferry(environment.basic.get(), memory.get(), size),
                                        by_ferry(in_pieces.get(), memory.get(), size)};
        const std::vector<samples> taken = interleave(contenders, effort);
        result.rows.push_back({.labels = {"one"}, .bytes = size, .times = compare(taken[0], taken[1]), .target = 0.95});
        if (size > chunk)
            result.rows.push_back({.labels = {"of " + size_text(chunk)},
                                   .bytes = size,
                                   .times = compare(taken[0], taken[2]),
                                   .target = std::nullopt});
    }
    return result;
}

} // namespace
} // namespace of_register

const bench_case register_case = {"register", "registering the program's memory and unregistering it, 1 MiB to 1 GiB",
                                  of_register::run_register};

} // namespace bench
