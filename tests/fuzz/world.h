// Buffers, streams and the work on them. The world orders operations that use the same buffer, so that the models
// predict the result. Operations that the world leaves unordered must not affect each other.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ferry/ferry_ipc.h"
#include "fuzz/buffer.h"
#include "fuzz/effect.h"
#include "support/program_threads.h"

namespace ferry::test {

// How a run opens the library.
struct fuzz_setting {
    const char *name;
    std::int32_t checks, kernels, staging;
    std::uint64_t staging_bytes = 0;
    std::uint32_t staging_threads = 2;
    bool has_program_threads = false;         // uses ferry_options.submit
    bool (*is_queue_full)(int nth) = nullptr; // the calls of submit that run work themselves
};
extern const fuzz_setting fuzz_settings[];
extern const std::size_t fuzz_setting_count;

// Options that guarantee something when a call returns.
constexpr how promises = read_in_the_call | written_in_the_call;

// One run with one seed. All threads of the run share it.
struct fuzz_run {
    fuzz_run(std::uint64_t seed, unsigned threads);

    const std::uint64_t seed;
    const unsigned threads;
    const fuzz_setting &setting;
    std::optional<program_threads> workers; // before the instances, which wait for the workers
    instance_owner ferry, other;            // both on one driver; `other` uses the other level of checks
    instance_owner promising;               // as `other`, with `promises` for calls without options
    const ferry_ipc_handle *lent = nullptr;
    bool prints = false;       // prints each operation as it begins
    bool forbids_waits = true; // some options have NO_WAIT. Whether such a call is refused depends on timing
    std::atomic<bool> has_failed = false;
    // Copies that the trace has reported as failed. Every other run is traced.
    std::atomic<int> failed_in_trace = 0;

    // Records what a thread is doing, for the watchdog.
    void say(unsigned thread, const std::string &words);
    std::string words();

private:
    std::mutex mutex_;
    std::vector<std::string> doing;
};

struct lane {
    const char *name;
    CUstream_st *stream;
    int device;
    CUcontext context;
    bool is_default = false;  // the current context determines the stream
    bool is_blocking = false; // ordered with the legacy stream of its context
};

struct held_ticket {
    ferry_ticket *ticket;
    std::vector<effect> effects;
    std::uint64_t operation; // the operation that made the ticket
    std::size_t lane;
    std::uint64_t bytes, tag; // that the ticket must report
};

struct held_prepared {
    ferry_prepared *handle;
    std::vector<drawn_copy> copies;
    how options;
    std::size_t lane; // the lane of its creation, the only lane on which addresses may change
    bool is_updatable;
};

struct held_graph {
    CUgraph graph;
    CUgraphExec executable;
    std::vector<effect> effects;
    CUcontext context;
    std::vector<ferry_prepared *> prepared;
    std::vector<std::shared_ptr<drawn_write>> writes;
};

class world {
public:
    world(fuzz_run &run, unsigned thread);
    ~world();
    world(const world &) = delete;

    void step();
    // Waits for everything and compares every byte of every buffer.
    void check_all();

    // ---- Used by operations

    fuzz_run &run;
    dice random;
    std::vector<lane> lanes;
    std::vector<std::unique_ptr<buffer>> buffers; // memory
    std::vector<std::unique_ptr<buffer>> files;   // two, or none if the instance opens no files
    std::vector<held_ticket> tickets;
    std::vector<held_prepared> prepared;
    std::vector<held_graph> graphs;
    buffer_sources sources;
    std::vector<CUcontext> contexts; // contexts that calls may find current: none, primary contexts, the program's own
    buffer *last_written = nullptr;

    const std::string &words() const { return words_; }
    std::uint64_t operation() const { return operation_; }
    bool is_alone() const { return run.threads == 1; }
    bool has_failed() const { return run.has_failed; }
    template <class Use> void for_each_buffer(const Use &use) const {
        for (const auto *const all : {&buffers, &files})
            for (const auto &one : *all)
                use(*one);
    }
    void say(const std::string &words);
    // The last operation that has written the buffer since the last comparison, or 0.
    std::uint64_t last_write_of(const buffer &one);
    // Returns whether a host function has written the buffer since the last comparison.
    bool is_written_by_a_host_function(const buffer &one);
    void fail(const std::string &what);
    void expect(bool is_so, const char *what) {
        if (!is_so) fail(what);
    }
    template <class Status> bool require(Status status) {
        const testing::AssertionResult well = is_success(status);
        if (!well) fail(well.message());
        return static_cast<bool>(well);
    }

    // Calls ferry with `current` as the current context. Expects that the context stays current and that the status is
    // known, regardless of the outcome.
    std::int32_t call(CUcontext current, const std::function<std::int32_t()> &ferry_call);
    CUcontext any_context();
    CUcontext context_for(const lane &one); // any context, unless the stream depends on it
    ferry_instance *instance_for(const std::vector<effect> &effects);
    ferry_instance *instance_for(const buffer &end);
    std::size_t any_lane(const std::function<bool(const lane &)> &is_fit);
    std::size_t any_lane();

    // Orders `effects`, which are enqueued on `lane` next, after the work that they conflict with.
    void order(std::size_t lane, const std::vector<effect> &effects);
    // Waits until the program's own work has written the source of a copy that may read the source before that work.
    void wait_for_early_read(const drawn_copy &drawn);
    void enqueued(std::size_t lane, const std::vector<effect> &effects);
    // Same as above, for effects of the calling thread itself. Work on the lanes in `ordered` comes first anyway.
    void wait_for(const std::vector<effect> &effects, std::uint32_t ordered = 0);
    void done(const std::vector<effect> &effects);
    void wait_for(buffer &one);
    void synchronize(std::size_t lane);
    std::uint32_t lanes_of_legacy_stream(CUcontext of) const;

    void compare(const buffer &one, const char *what);
    bytes read(const buffer &one) { return witness_.read(one); }
    void compare_if_settled(const buffer &one, const char *what) {
        if (!one.writers) compare(one, what);
    }
    // Releases every prepared batch, graph and ticket that uses the buffer.
    void drop_users(const buffer &one);
    void replace(std::size_t number);
    void release_all();
    // Keeps the ticket of effects that were enqueued, or releases it. Ignores a null ticket. `bytes` and `tag` are what
    // the ticket must report.
    void keep_ticket(ferry_ticket *ticket, std::size_t lane, const std::vector<effect> &effects, std::uint64_t bytes,
                     const how &options);
    // Queries a ticket, which must agree with its effects.
    ferry_ticket_info query_ticket(const held_ticket &held);
    void release_ticket(std::size_t number);
    void release_prepared(std::size_t number);
    void release_graph(std::size_t number);
    std::unique_ptr<buffer> make_buffer(memory_kind kind);

private:
    struct written {
        std::uint64_t operation;
        std::string on;
        effect what;
    };

    std::string earliest_wrong_write();
    void note_write(const effect &one, const std::string &on);
    void make_lanes();
    void make_pools();

    std::string words_;
    std::uint64_t operation_ = 0;
    std::uint32_t buffers_made_ = 0;
    unsigned thread_;
    CUcontext own_context_ = nullptr;
    std::vector<CUevent_st *> events_; // one per lane
    std::string behind_;               // the lanes that the operation follows only by the legacy stream's rule
    std::map<const buffer *, std::vector<written>> writes_; // since the last comparison
    witness witness_;
};

// ---- The operations

struct operation {
    const char *name;
    unsigned weight;
    void (*run)(world &);
    bool needs_one_thread = false; // because it changes what calls of other threads may do
};
extern const operation operations[];
extern const std::size_t operation_count;

// Totals over all threads.
void count_run(std::size_t operation);
std::uint64_t runs_of(std::size_t operation);
void count_checked(std::uint64_t bytes);
std::uint64_t checked_bytes();
// Counts any progress, for the watchdog.
void note_step();
std::uint64_t fuzz_steps();

} // namespace ferry::test
