// batch: thousands of pieces in one call, in 16 allocations at either end, timed until all have arrived, prepared and
// unprepared. Also measures the time that validation and planning take on the calling thread.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "contest.h"
#include "progress.h"
#include "scattered_pieces.h"
#include "units.h"

namespace bench {

namespace of_batch {
namespace {

constexpr std::size_t max_pieces = 4096;

constexpr batch_direction directions[] = {{"H2D", memory::pinned, memory::device},
                                          {"D2H", memory::device, memory::pinned},
                                          {"D2D", memory::device, memory::device}};

std::vector<std::size_t> equal_sizes(std::size_t count, std::size_t size) {
    return std::vector<std::size_t>(count, size);
}

// Sizes that are evenly distributed over the powers of two, so most bytes are in large pieces.
std::vector<std::size_t> mixed_sizes(std::size_t bytes) {
    std::mt19937_64 random(5);
    std::vector<std::size_t> sizes;
    for (std::size_t left = bytes; left >= 16;) {
        const double log_size = 4 + 16.0 * static_cast<double>(random() % 10001) / 10000; // 16 B to 1 MiB
        const std::size_t size = std::min<std::size_t>(static_cast<std::size_t>(std::exp2(log_size)) / 16 * 16, left);
        sizes.push_back(size);
        left -= size;
    }
    return sizes;
}

// ---- The contenders

void issue_descriptors(ferry_instance *ferry, const piece_list &pieces, CUstream stream) {
    auto error = sized<ferry_error_info>();
    check(ferry_copy_batch_async(ferry, pieces.descriptors.data(), pieces.count(), nullptr, stream, nullptr, &error),
          "ferry_copy_batch_async", error);
}

contender ferry_descriptors(const environment &environment, const piece_list &pieces) {
    return {"ferry_copy_batch_async", [&] {
                issue_descriptors(environment.basic.get(), pieces, environment.stream.get());
                drain(environment);
            }};
}

owned<ferry_prepared *> prepare(const environment &environment, const piece_list &pieces,
                                const copy_options &options = {}) {
    auto error = sized<ferry_error_info>();
    ferry_prepared *prepared = nullptr;
    const ferry_piece_list list = pieces.list();
    check(ferry_prepared_create_pieces(environment.basic.get(), &list, pointer_to(options), environment.stream.get(),
                                       &prepared, &error),
          "ferry_prepared_create_pieces", error);
    return {prepared, [](ferry_prepared *handle) { ferry_prepared_destroy(handle, nullptr); }};
}

contender ferry_launch(const environment &environment, ferry_prepared *prepared) {
    return {"ferry_prepared_launch", [&environment, prepared] {
                check(ferry_prepared_launch(prepared, nullptr, environment.stream.get(), nullptr, nullptr),
                      "ferry_prepared_launch", {});
                drain(environment);
            }};
}

contender ferry_set_and_launch(const environment &environment, ferry_prepared *prepared, const piece_list &pieces) {
    return {"ferry_prepared_set_addresses", [&environment, prepared, &pieces] {
                auto error = sized<ferry_error_info>();
                const ferry_piece_list list = pieces.list();
                check(ferry_prepared_set_addresses(prepared, &list, environment.stream.get(), &error),
                      "ferry_prepared_set_addresses", error);
                check(ferry_prepared_launch(prepared, nullptr, environment.stream.get(), nullptr, nullptr),
                      "ferry_prepared_launch", {});
                drain(environment);
            }};
}

// ---- The routes

// The routes that can copy these pieces if they are forced.
struct route_contenders {
    std::vector<route_choice::route> routes;
    std::vector<contender> contenders;
};

route_contenders serving(const environment &environment, const piece_list &pieces) {
    route_contenders found;
    for (const std::int32_t route : {FERRY_ROUTE_DRIVER, FERRY_ROUTE_KERNEL}) {
        const copy_options forced = with_route(route);
        const std::optional<ferry_explanation> told = explain(environment, pieces.descriptors.front(), forced);
        if (!told) continue;
        found.routes.push_back({told->route, {}, 0});
        found.contenders.push_back(ferry_pieces(environment, pieces, forced));
    }
    return found;
}

// ---- The rows

struct size_class {
    std::size_t size;
    double targets[3], prepared_targets[3]; // for H2D, D2H, D2D
};
// A target of 0 means no target.
constexpr size_class size_classes[] = {
    {256, {40, 15, 140}, {100, 40, 800}}, {4 << 10, {12, 4.2, 140}, {0, 0, 0}}, {64 << 10, {1.2, 1.2, 60}, {0, 0, 0}}};

std::optional<double> target_of(double ratio) { return ratio > 0 ? std::optional(ratio) : std::nullopt; }

effort effort_of(const session &session) { return session.is_quick ? effort{3, 20, 0.05e9} : effort{10, 200, 1e9}; }

void measure_equal(session &session, const batch_direction &direction, int which, const size_class &of,
                   row_list &rows) {
    const environment &environment = session.environment;
    const std::size_t count = std::min(max_pieces, session.workspace.largest / (4 * of.size));
    session.progress.show("batch", direction.name, of.size);
    scattered_pieces scattered(environment, direction, equal_sizes(count, of.size));
    piece_list &pieces = scattered.pieces;
    const owned<ferry_prepared *> fixed = prepare(environment, pieces),
                                  changeable = prepare(environment, pieces, with_flags(FERRY_COPY_UPDATABLE));
    struct form {
        const char *name;
        contender ferry;
        double target;
    };
    const form forms[] = {
        {"pieces", ferry_pieces(environment, pieces), of.targets[which]},
        {"descriptors", ferry_descriptors(environment, pieces), 0},
        {"prepared", ferry_launch(environment, fixed.get()), of.prepared_targets[which]},
        {"new addresses", ferry_set_and_launch(environment, changeable.get(), pieces), 0},
    };
    std::vector<contender> all = {raw_loop(environment, pieces)};
    if (environment.cu.cuMemcpyBatchAsync) all.push_back(raw_batch(environment, pieces));
    const std::size_t raw_count = all.size();
    for (const form &form : forms)
        all.push_back(form.ferry);
    const route_contenders routes = serving(environment, pieces);
    all.insert(all.end(), routes.contenders.begin(), routes.contenders.end());
    for (const contender &contender : all)
        scattered.verify(contender);
    const std::vector<samples> taken = interleave(all, effort_of(session));
    std::size_t fastest = 0;
    for (std::size_t i = 1; i < raw_count; ++i)
        if (summarise(taken[i]).median < summarise(taken[fastest]).median) fastest = i;
    for (std::size_t i = 0; i < std::size(forms); ++i) {
        row row = {.labels = {direction.name, std::to_string(count) + " x " + size_text(of.size), forms[i].name,
                              all[fastest].name},
                   .bytes = pieces.bytes,
                   .times = compare(taken[fastest], taken[raw_count + i]),
                   .target = target_of(forms[i].target)};
        if (i == 0)
            row.choice =
                compare_routes(routes.routes, std::span(taken).subspan(raw_count + std::size(forms)), taken[raw_count]);
        rows.push_back(std::move(row));
    }
}

// Compares pieces of mixed sizes with one contiguous copy of the same number of bytes.
void measure_mixed(session &session, const batch_direction &direction, int which, row_list &rows) {
    const environment &environment = session.environment;
    const std::size_t bytes = std::min<std::size_t>(64 << 20, session.workspace.largest / 4);
    session.progress.show("batch", direction.name, bytes);
    scattered_pieces scattered(environment, direction, mixed_sizes(bytes));
    const piece_list &pieces = scattered.pieces;
    const bench::direction whole = pinned_directions(session.workspace)[static_cast<std::size_t>(which)];
    const owned<ferry_prepared *> prepared = prepare(environment, pieces);
    std::vector<contender> all = {{"one cuMemcpy*Async",
                                   [&] {
                                       raw_copy_async(environment, whole, pieces.bytes, environment.stream.get());
                                       drain(environment);
                                   }},
                                  ferry_pieces(environment, pieces),
                                  ferry_launch(environment, prepared.get())};
    const std::size_t own = all.size();
    const route_contenders routes = serving(environment, pieces);
    all.insert(all.end(), routes.contenders.begin(), routes.contenders.end());
    for (std::size_t i = 1; i < all.size(); ++i)
        scattered.verify(all[i]);
    const std::vector<samples> taken = interleave(all, effort_of(session));
    const std::string text = std::to_string(pieces.count()) + " of 16 B to 1 MiB";
    rows.push_back({.labels = {direction.name, text, "pieces", all[0].name},
                    .bytes = pieces.bytes,
                    .times = compare(taken[0], taken[1]),
                    .target = direction.source == direction.destination ? 0.7 : 0.85,
                    .choice = compare_routes(routes.routes, std::span(taken).subspan(own), taken[1])});
    rows.push_back({.labels = {direction.name, text, "prepared", all[0].name},
                    .bytes = pieces.bytes,
                    .times = compare(taken[0], taken[2]),
                    .target = std::nullopt});
}

// ---- The calling thread's share: everything except the driver calls that move bytes, which are replaced by empty
// functions

template <class Function> struct does_nothing;
template <class... Arguments> struct does_nothing<CUresult(CUDAAPI *)(Arguments...)> {
    static CUresult CUDAAPI call(Arguments...) { return CUDA_SUCCESS; }
};

void *get_proc_that_moves_nothing(void *ferry, const char *name, std::int32_t version) {
    void *const real = ferry_instance_get_proc(static_cast<ferry_instance *>(ferry), name, version);
    if (!real) return nullptr;
#define FERRY_MOVES_NOTHING(entry, of_version)                                                                         \
    if (std::strcmp(name, #entry) == 0 && version == of_version)                                                       \
        return reinterpret_cast<void *>(&does_nothing<PFN_##entry##_v##of_version>::call);
    FERRY_MOVES_NOTHING(cuLaunchKernel, 4000)
    FERRY_MOVES_NOTHING(cuMemcpyBatchAsync, 13000)
    FERRY_MOVES_NOTHING(cuMemcpyBatchAsync, 12080)
    FERRY_MOVES_NOTHING(cuMemcpy3DAsync, 3020)
#undef FERRY_MOVES_NOTHING
    return real;
}

void measure_thread(session &session, row_list &rows) {
    const environment &environment = session.environment;
    auto options = sized<ferry_options>();
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = get_proc_that_moves_nothing;
    options.get_proc_user = environment.basic.get();
    const instance idle = open_ferry(options);
    constexpr std::size_t size = 256;
    const std::size_t count = std::min(max_pieces, session.workspace.largest / (4 * size));
    const int calls = static_cast<int>(count);
    for (int which = 0; which < 3; ++which) {
        const batch_direction &direction = directions[which];
        session.progress.show("batch", direction.name, size);
        scattered_pieces scattered(environment, direction, equal_sizes(count, size));
        piece_list &pieces = scattered.pieces;
        const CUstream stream = environment.stream.get();
        const contender all[] = {
            {"loop of cuMemcpyAsync", raw_loop(environment, pieces).run, calls},
            {"ferry_copy_pieces_async", [&] { issue_pieces(idle.get(), pieces, stream); }, calls,
             [&] { drain(environment); }},
            {"ferry_copy_batch_async", [&] { issue_descriptors(idle.get(), pieces, stream); }, calls,
             [&] { drain(environment); }},
        };
        const std::vector<samples> taken = interleave(all, effort_of(session));
        const struct {
            const char *name;
            double max_ns;
        } forms[] = {{"pieces", 15}, {"descriptors", 40}};
        for (std::size_t i = 0; i < std::size(forms); ++i)
            rows.push_back({.labels = {direction.name, "one of " + std::to_string(count),
                                       forms[i].name + std::string(", check and plan"), all[0].name},
                            .bytes = size,
                            .times = compare(taken[0], taken[1 + i]),
                            .target = std::nullopt,
                            .max_ns = forms[i].max_ns});
    }
}

case_result run_batch(session &session) {
    session.environment.need({"cuMemcpyAsync", "cuMemcpy"});
    case_result result = session.begin(
        {.note = joined({"scattered pieces in 16 allocations at each end, host memory is pinned; raw: the faster "
                         "of cuMemcpyBatchAsync and a loop of cuMemcpyAsync,\nor one copy of as many bytes; "
                         "all until the bytes have arrived. Check and plan: per piece, without the launch; raw "
                         "includes the launch;\n",
                         routes_note}),
         .label_columns = {"copy", "pieces", "form", "raw call"}});
    measure_thread(session, result.rows);
    for (int which = 0; which < 3; ++which) {
        for (const size_class &of : size_classes)
            measure_equal(session, directions[which], which, of, result.rows);
        measure_mixed(session, directions[which], which, result.rows);
    }
    return result;
}

} // namespace
} // namespace of_batch

const bench_case batch_case = {"batch", "thousands of small pieces in one call, and in a prepared batch",
                               of_batch::run_batch};

} // namespace bench
