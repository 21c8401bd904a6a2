// Randomly drawn copies that overlap in time: on many streams, from several threads, beside the other work of a
// program. Every byte is compared with a plain copy on the CPU. Further tests do the same while the threads that serve
// the copies are slow, stopped or few.
//
// FERRY_SOAK_SECONDS is the duration. FERRY_SOAK_SEED repeats the draws of an earlier run or of a failed round, but not
// how its threads interleaved.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#if !defined(_WIN32)
#include <csignal>
#include <pthread.h>
#endif

#include "support/captured_graph.h"
#include "support/dice.h"
#include "support/ferry_array.h"
#include "support/how.h"
#include "support/raw_objects.h"
#include "support/system.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

using std::chrono::steady_clock;

// ---- What is copied ----------------------------------------------------------------------------------------------

// One end of copies, with the bytes it must hold once everything that was enqueued has run.
class station {
public:
    station(place_kind kind, const grid &shape, int device, std::uint64_t seed) {
        memory_.emplace(kind, shape, device);
        memory_->fill(seed);
    }
    station(ferry_instance *ferry, const array_kind &kind, const texel &texel, std::uint64_t seed) {
        array_.emplace(ferry, kind, texel);
        array_->fill(seed);
    }
    // To be called after the instance that made the array was closed.
    void end() {
        if (array_) array_->destroy_by_the_driver();
        array_.reset();
    }

    const char *name() const { return memory_ ? name_of(memory_->kind()) : "an array"; }
    bool is_pageable() const { return memory_ && memory_->kind() == place_kind::pageable; }
    bool is_device_memory() const { return memory_ && !is_on_host(); }
    bool is_on_host() const {
        return memory_ &&
               (is_pageable() || memory_->kind() == place_kind::pinned || memory_->kind() == place_kind::registered);
    }
    // Registers pages in the middle of pageable memory, if it has that many.
    void register_part(ferry_instance *ferry) {
        constexpr std::uint64_t page = 4096;
        const std::uint64_t first = (address() + size() / 3) / page * page + page, last = address() + size() / 3 * 2;
        if (first + page > last) return;
        registered_ = reinterpret_cast<void *>(first);
        EXPECT_OK(ferry_host_register(ferry, registered_, (last - first) / page * page, 0, nullptr));
    }
    void unregister_part(ferry_instance *ferry) {
        if (registered_) {
            EXPECT_OK(ferry_host_unregister(ferry, registered_, nullptr));
        }
        registered_ = nullptr;
    }
    bool is_registered_in_part() const { return registered_; }
    ferry_place describe(statement how, const box &at) const {
        if (memory_) return memory_->describe(how, at);
        ferry_place place = {};
        ferry_place_array(&place, 0, array_->array());
        place.x = at.x;
        place.y = at.y;
        place.z = at.z;
        return place;
    }
    grid shape_of_array() const { return {array_->row_bytes, array_->rows, array_->slices}; }
    std::uint64_t size() const { return memory_ ? memory_->picture().size() : array_->picture.size(); }
    std::uint64_t address() const { return memory_->address() - memory_->shape().lead; }
    std::byte *picture() {
        return memory_ ? &memory_->picture_at(0, 0, 0) - memory_->shape().lead : array_->picture.data();
    }
    std::byte *picture_at(const box &at) {
        if (memory_) return &memory_->picture_at(at.x, at.y, at.z);
        return &array_->picture[(at.z * array_->rows + at.y) * array_->row_bytes + at.x];
    }
    bool is_as_expected() const {
        if (memory_) return memory_->read() == memory_->picture();
        CUDA_MEMCPY3D call = {};
        bytes found(array_->picture.size());
        call.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        call.srcArray = array_->array();
        call.dstMemoryType = CU_MEMORYTYPE_HOST;
        call.dstHost = found.data();
        call.dstPitch = call.WidthInBytes = array_->row_bytes;
        call.dstHeight = call.Height = array_->rows;
        call.Depth = array_->slices;
        EXPECT_OK(raw().cuMemcpy3D(&call));
        return found == array_->picture;
    }
    // Writes to this memory as the program. No copy may be using it.
    void scribble(dice &random) {
        const std::uint64_t length = 1 + random.up_to(std::min<std::uint64_t>(size(), 50'000) - 1),
                            first = random.up_to(size() - length);
        const bytes data = random_bytes(length, random.up_to(~std::uint64_t{1}));
        std::memcpy(picture() + first, data.data(), length);
        std::memcpy(reinterpret_cast<std::byte *>(address()) + first, data.data(), length);
    }

private:
    std::optional<test_place> memory_;
    std::optional<ferry_array> array_;
    void *registered_ = nullptr;
};

struct drawn_copy {
    station *from, *to;
    box from_at, to_at;
    std::uint64_t width, height, depth;
    how options;
    statement stated = statement::stated;

    ferry_copy_desc describe() const {
        return describe_copy(from->describe(stated, from_at), to->describe(stated, to_at), width, height, depth);
    }
    void apply() const {
        for (std::uint64_t z = 0; z < depth; ++z)
            for (std::uint64_t y = 0; y < height; ++y)
                std::memcpy(to->picture_at({to_at.x, to_at.y + y, to_at.z + z}),
                            from->picture_at({from_at.x, from_at.y + y, from_at.z + z}), width);
    }
};

// ---- A run and its threads ---------------------------------------------------------------------------------------

// How copies are served.
struct setting {
    const char *name;
    std::uint64_t staging_bytes;
    std::uint32_t threads;
    std::uint64_t largest; // bytes of a buffer
    // Whether the program's own threads replace ferry's, and in which order they take jobs.
    enum class order { none, first, last, any } jobs = order::none;
    std::chrono::microseconds max_late{0}; // the longest delay before a job starts
    bool is_stopped = false;               // now and then, at any point; the calling threads too
    bool shares_a_processor = false;       // with threads that are always busy
};

struct counts {
    std::atomic<std::uint64_t> copies = 0, bytes = 0, tickets = 0, staged = 0, graphs = 0, launches = 0, checks = 0,
                               batches = 0, changed = 0;
};

struct soak_run {
    soak_run(const setting &given, std::uint64_t seed, counts &all) : how(given), seed(seed), all(all) {}

    const setting &how;
    const std::uint64_t seed;
    counts &all;
    ferry_instance *ferry = nullptr;
    std::atomic<std::uint64_t> steps = 0;
    std::atomic<bool> has_failed = false;
};

// The progress of one lane, for the watchdog.
struct lane_progress {
    std::atomic<const char *> doing = "nothing", stream = "none";
    std::atomic<std::uint64_t> enqueued = 0, tickets = 0; // since the last time everything was waited for
};

// A chain of copies and other work between buffers of its own. The chain keeps its order across several streams.
class lane {
public:
    lane(soak_run &of, lane_progress &seen, unsigned form, std::uint64_t seed) : of_(of), seen_(seen), random_(seed) {
        const int devices = device_count();
        if (devices > 1 && form != arrays && random_.one_in(4))
            device_ = static_cast<int>(1 + random_.up_to(devices - 2));
        EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&context_, device_));
        const made_current scope(context_);
        for (std::size_t i = 0; i < std::size(own_); ++i)
            own_[i].emplace(i == 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        passed_.emplace(CU_EVENT_DISABLE_TIMING);
        on_ = *own_[0];
        make_stations(form);
    }
    // To be destroyed after the instance, in any thread.
    ~lane() {
        const made_current scope(context_);
        EXPECT_OK(raw().cuCtxSynchronize());
        check();
        for (station &one : stations_)
            one.end();
        stations_.clear();
        passed_.reset();
        for (auto &one : own_)
            one.reset();
        EXPECT_OK(raw().cuDevicePrimaryCtxRelease(device_));
    }
    lane(const lane &) = delete;

    void step() {
        const made_current scope(context_);
        switch (random_.up_to(33)) {
        case 0:
            return check_now();
        case 1:
            return copy_at_once();
        case 2:
            return hold_up();
        case 3:
            return change_device_memory();
        case 4:
            return pass_the_stream();
        case 5:
        case 6:
            return run_graph();
        case 7:
        case 8:
        case 9:
            return look_at_a_ticket();
        case 10:
            return go_to(any_stream());
        case 11:
            return copy_many();
        case 12:
            return copy_and_change_source();
        default:
            return copy();
        }
    }
    // Ends the lane except for a few copies, which closing the instance must complete.
    void finish() {
        const made_current scope(context_);
        pass_the_stream();
        graph_.reset();
        check();
        for (station &one : stations_)
            one.unregister_part(of_.ferry);
        // Not a per-thread stream: the thread ends.
        go_to({*own_[0], "its own"});
        for (int i = 0; i < 3 && !has_failed(); ++i)
            enqueue(draw(true), false);
        tell("at its end");
    }

private:
    enum form { lines, rows, boxes, arrays };
    struct named_stream {
        CUstream handle;
        const char *name;
    };
    struct held_ticket {
        ferry_ticket *ticket;
        std::uint64_t total;
    };
    struct recorded {
        recorded(CUstream on) : graph(on, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {}
        captured_graph graph;
        std::vector<drawn_copy> copies;
    };

    void make_stations(unsigned form) {
        grid least = {}; // the smallest shape of all ends
        if (form == arrays) {
            const array_kind &kind = random_.of(array_kinds);
            const texel &texel = random_.of(texels);
            unit_ = texel.size;
            for (int i = 0; i < 2; ++i)
                stations_.emplace_back(of_.ferry, kind, texel, random_.up_to(1'000'000));
            least = stations_[0].shape_of_array();
        } else if (form == lines)
            least.width = random_.one_in(2) ? of_.how.largest : random_.size(of_.how.largest);
        else if (form == rows)
            least = {1 + random_.up_to(3000), 1 + random_.up_to(100)};
        else
            least = {1 + random_.up_to(300), 1 + random_.up_to(40), 1 + random_.up_to(12)};
        extent_ = least;
        for (const place_kind kind : {place_kind::pageable, place_kind::pageable, place_kind::device, place_kind::pool,
                                      random_.one_in(2) ? place_kind::pinned : place_kind::registered}) {
            if (!is_supported(kind)) continue;
            grid shape = least;
            shape.lead = random_.up_to(20);
            if (form != lines) {
                shape.row_pitch = shape.width + random_.up_to(40);
                shape.slice_height = shape.height + random_.up_to(3);
            }
            station &made = stations_.emplace_back(kind, shape, device_, random_.up_to(1'000'000));
            if (form == lines && stations_.size() == 1 && random_.one_in(3)) made.register_part(of_.ferry);
        }
    }

    // Draws a copy between pageable memory and the device, if so requested, otherwise any copy that ferry supports.
    drawn_copy draw(bool is_to_be_staged) {
        drawn_copy drawn = {};
        do {
            drawn.from = &stations_[random_.up_to(stations_.size() - 1)];
            drawn.to = &stations_[random_.up_to(stations_.size() - 1)];
        } while (drawn.from == drawn.to || (drawn.from->is_on_host() && drawn.to->is_on_host()) ||
                 (is_to_be_staged && !drawn.from->is_pageable() && !drawn.to->is_pageable()));
        drawn.width = random_.size(extent_.width / unit_) * unit_;
        drawn.height = random_.size(extent_.height);
        drawn.depth = random_.size(extent_.depth);
        for (box *const at : {&drawn.from_at, &drawn.to_at})
            *at = {random_.up_to((extent_.width - drawn.width) / unit_) * unit_,
                   random_.up_to(extent_.height - drawn.height), random_.up_to(extent_.depth - drawn.depth)};
        drawn.stated = random_.one_in(2) ? statement::stated : statement::any;
        const bool may_be_staged = drawn.from->is_pageable() || drawn.to->is_pageable();
        static constexpr how for_all[] = {{}, {}, {}, urgent, by_driver, no_kernels},
                             for_staged[] = {{}, {}, {}, urgent, by_staging, by_staging | max_sms(1)};
        drawn.options =
            is_to_be_staged || (may_be_staged && !random_.one_in(8)) ? random_.of(for_staged) : random_.of(for_all);
        const bool may_be_registered = drawn.from->is_registered_in_part() || drawn.to->is_registered_in_part();
        if (may_be_registered && drawn.options.has(by_staging)) drawn.options = max_sms(1);
        return drawn;
    }

    void copy() {
        const drawn_copy drawn = draw(random_.one_in(2));
        const bool is_read_by_driver = drawn.options.has(by_driver) || drawn.options.has(no_kernels);
        // The driver may read inside the call what copies in flight still write.
        if (is_read_by_driver && drawn.from->is_pageable()) pass_the_stream();
        if (random_.one_in(4)) go_to(any_stream());
        enqueue(drawn, random_.one_in(3));
    }

    void enqueue(const drawn_copy &drawn, bool with_ticket) {
        tell(with_ticket ? "enqueueing a copy with a ticket" : "enqueueing a copy");
        const ferry_copy_desc copy = drawn.describe();
        ferry_error_info error = new_error();
        ferry_ticket *ticket = nullptr;
        std::int32_t status = 0;
        {
            // Only the default streams depend on the current context.
            std::optional<made_current> elsewhere;
            const bool is_own = std::any_of(std::begin(own_), std::end(own_), [&](auto &one) { return *one == on_; });
            if (is_own && random_.one_in(4)) elsewhere.emplace(nullptr);
            status = with_ticket ? ferry_copy_async(of_.ferry, &copy, drawn.options, on_, &ticket, &error)
                                 : ferry_copy_async(of_.ferry, &copy, drawn.options, on_, nullptr, &error);
        }
        if (!is_success(status)) return fail(describe_failure(drawn, error));
        drawn.apply();
        of_.all.copies++;
        of_.all.bytes += drawn.width * drawn.height * drawn.depth;
        ++seen_.enqueued;
        last_ = drawn;
        is_last_ticketed_ = ticket && !random_.one_in(4);
        if (!ticket) return;
        of_.all.tickets++;
        if (!is_last_ticketed_) {
            require(ferry_ticket_release(ticket, nullptr));
            return;
        }
        tickets_.push_back({ticket, drawn.width * drawn.height * drawn.depth});
        seen_.tickets = tickets_.size();
    }

    // Copies the parts of a box as a batch. Most of them are next to each other at neither end.
    void copy_many() {
        drawn_copy whole = draw(random_.one_in(2));
        whole.options = {};
        const std::uint64_t columns = 1 + random_.up_to(whole.height > 1 ? 2 : 40),
                            bands = 1 + random_.up_to(std::min<std::uint64_t>(whole.height - 1, 30));
        const std::uint64_t step_x = (whole.width / unit_ + columns - 1) / columns * unit_,
                            step_y = (whole.height + bands - 1) / bands;
        std::vector<drawn_copy> parts;
        for (std::uint64_t y = 0; y < whole.height; y += step_y)
            for (std::uint64_t x = 0; x < whole.width; x += step_x) {
                if (random_.one_in(4)) continue;
                drawn_copy part = whole;
                for (box *const at : {&part.from_at, &part.to_at}) {
                    at->x += x;
                    at->y += y;
                }
                part.width = std::min(step_x, whole.width - x);
                part.height = std::min(step_y, whole.height - y);
                parts.push_back(part);
            }
        std::shuffle(parts.begin(), parts.end(), std::mt19937_64(random_.up_to(1'000'000)));
        std::vector<ferry_copy_desc> copies;
        for (const drawn_copy &part : parts)
            copies.push_back(part.describe());
        tell("enqueueing a batch");
        ferry_error_info error = new_error();
        const std::int32_t status =
            ferry_copy_batch_async(of_.ferry, copies.data(), copies.size(), nullptr, on_, nullptr, &error);
        if (!is_success(status)) return fail(describe_failure(whole, error));
        for (const drawn_copy &part : parts) {
            part.apply();
            of_.all.bytes += part.width * part.height * part.depth;
        }
        of_.all.copies += parts.size();
        of_.all.batches++;
        ++seen_.enqueued;
        is_last_ticketed_ = false;
    }

    // The source may be written once the call has returned, whatever the stream has yet to do.
    void copy_and_change_source() {
        drawn_copy drawn = draw(true);
        if (!drawn.from->is_pageable() || drawn.from->is_registered_in_part()) return;
        pass_the_stream(); // earlier work of the lane may write the source
        if (random_.one_in(2)) hold_up();
        drawn.options = read_in_the_call;
        enqueue(drawn, false);
        drawn.from->scribble(random_);
        of_.all.changed++;
    }

    // Copies synchronously. The bytes must then be there for the host and for all later work.
    void copy_at_once() {
        pass_the_stream();
        const drawn_copy drawn = draw(random_.one_in(2));
        tell("copying synchronously");
        const ferry_copy_desc copy = drawn.describe();
        ferry_error_info error = new_error();
        if (!is_success(ferry_copy(of_.ferry, &copy, drawn.options, &error)))
            return fail(describe_failure(drawn, error));
        drawn.apply();
        of_.all.copies++;
        of_.all.bytes += drawn.width * drawn.height * drawn.depth;
        if (drawn.to->is_on_host() && !drawn.to->is_as_expected()) fail("a synchronous copy to the host");
    }

    // Blocks the stream for a moment, so that later work piles up behind it.
    void hold_up() {
        tell("blocking its stream");
        static constexpr auto hold = [](void *) { std::this_thread::sleep_for(std::chrono::microseconds(700)); };
        require(raw().cuLaunchHostFunc(on_, hold, nullptr));
    }

    // Writes device memory by driver calls, not by ferry, between its copies.
    void change_device_memory() {
        std::vector<station *> found;
        for (station &one : stations_)
            if (one.is_device_memory()) found.push_back(&one);
        station &to = *found[random_.up_to(found.size() - 1)];
        const std::uint64_t first = random_.up_to(to.size() - 1),
                            size = random_.size(std::min<std::uint64_t>(to.size() - first, 300'000));
        tell("changing device memory");
        if (random_.one_in(2)) {
            const auto value = static_cast<unsigned char>(random_.up_to(255));
            require(raw().cuMemsetD8Async(to.address() + first, value, size, on_));
            std::memset(to.picture() + first, value, size);
        } else {
            station &from = *found[0];
            if (&from == &to || first + size > from.size()) return;
            require(raw().cuMemcpyDtoDAsync(to.address() + first, from.address() + first, size, on_));
            std::memcpy(to.picture() + first, from.picture() + first, size);
        }
        is_last_ticketed_ = false;
    }

    void run_graph() {
        if (!graph_) {
            tell("capturing a graph");
            graph_.emplace(*own_[1]);
            for (int i = 0; i < 4; ++i) {
                drawn_copy drawn = draw(true);
                while (drawn.from->is_registered_in_part() || drawn.to->is_registered_in_part())
                    // The driver may refuse such a copy as one call, which breaks the capture.
                    drawn = draw(true);
                const ferry_copy_desc copy = drawn.describe();
                ferry_error_info error = new_error();
                if (!is_success(ferry_copy_async(of_.ferry, &copy, drawn.options, *own_[1], nullptr, &error)))
                    fail(describe_failure(drawn, error));
                graph_->copies.push_back(drawn);
            }
            graph_->graph.end();
            of_.all.graphs++;
        }
        if (has_failed()) return;
        tell("launching a graph");
        for (std::uint64_t launches = 1 + random_.up_to(1); launches != 0; --launches) {
            require(raw().cuGraphLaunch(graph_->graph.executable, on_));
            for (const drawn_copy &drawn : graph_->copies)
                drawn.apply();
            of_.all.launches++;
            seen_.enqueued += graph_->copies.size();
        }
        is_last_ticketed_ = false;
    }

    // ---- Waiting

    void look_at_a_ticket() {
        if (tickets_.empty()) return;
        const std::size_t chosen = random_.up_to(tickets_.size() - 1);
        const held_ticket held = tickets_[chosen];
        tell("looking at a ticket");
        const bool waits = random_.one_in(3);
        if (waits) require(ferry_ticket_wait(held.ticket, FERRY_NO_TIMEOUT, nullptr));
        ferry_ticket_info info = {};
        info.struct_size = sizeof info;
        require(ferry_ticket_get_info(held.ticket, &info, nullptr));
        of_.all.staged += info.route == FERRY_ROUTE_STAGED;
        if (info.bytes_total != held.total || info.bytes_done > info.bytes_total || info.status != 0 ||
            (waits && !info.done) || (info.done && info.bytes_done != info.bytes_total))
            fail("a ticket that is wrong");
        if (waits && chosen + 1 == tickets_.size() && is_last_ticketed_ && last_.to->is_on_host() &&
            !last_.to->is_as_expected())
            fail("a copy to the host whose ticket says that it is done");
        if (random_.one_in(2)) return;
        if (chosen + 1 == tickets_.size()) is_last_ticketed_ = false;
        require(ferry_ticket_release(held.ticket, nullptr));
        tickets_.erase(tickets_.begin() + static_cast<std::ptrdiff_t>(chosen));
        seen_.tickets = tickets_.size();
    }

    void pass_the_stream() {
        tell("waiting for its stream");
        switch (random_.up_to(2)) {
        case 0:
            require(raw().cuStreamSynchronize(on_));
            break;
        case 1:
            require(ferry_stream_synchronize(of_.ferry, on_, nullptr));
            break;
        default:
            require(raw().cuEventRecord(*passed_, on_));
            require(raw().cuEventSynchronize(*passed_));
        }
        for (const held_ticket &held : tickets_) {
            ferry_ticket_info info = {};
            info.struct_size = sizeof info;
            require(ferry_ticket_get_info(held.ticket, &info, nullptr));
            if (!info.done || info.bytes_done != held.total) fail("a ticket of a copy complete on its stream");
            require(ferry_ticket_release(held.ticket, nullptr));
        }
        tickets_.clear();
        is_last_ticketed_ = false;
        seen_.tickets = 0;
        seen_.enqueued = 0;
    }

    void check_now() {
        pass_the_stream();
        check();
        for (station &one : stations_)
            if (one.is_on_host()) one.scribble(random_);
    }
    void check() {
        tell("reading back");
        of_.all.checks++;
        for (station &one : stations_)
            if (!has_failed() && !one.is_as_expected()) fail(name_of(one) + " has other bytes than it should");
    }

    // ---- Streams

    named_stream any_stream() {
        switch (random_.up_to(11)) {
        case 0:
            return {CU_STREAM_LEGACY, "the legacy one"};
        case 1:
            return {nullptr, "the default one"};
        case 2:
        case 3:
            return {CU_STREAM_PER_THREAD, "the thread's"};
        case 4:
        case 5:
            return {*own_[2], "one that the legacy one waits for"};
        default:
            return {*own_[random_.up_to(1)], "its own"};
        }
    }
    void go_to(const named_stream &next) {
        if (next.handle == on_) return;
        require(raw().cuEventRecord(*passed_, on_));
        require(raw().cuStreamWaitEvent(next.handle, *passed_, 0));
        on_ = next.handle;
        seen_.stream = next.name;
    }

    // ---- Reporting

    void tell(const char *what) {
        seen_.doing = what;
        ++of_.steps;
    }
    bool has_failed() const { return of_.has_failed; }
    void fail(const std::string &what) {
        if (of_.has_failed.exchange(true)) return;
        ADD_FAILURE() << what << "\nwhere " << of_.how.name << ", FERRY_SOAK_SEED=" << of_.seed << ", a lane of "
                      << extent_.width << " x " << extent_.height << " x " << extent_.depth << " on device " << device_
                      << ", on stream: " << seen_.stream << ", " << seen_.enqueued << " copies in flight";
    }
    template <class Status> void require(Status status) {
        if (const testing::AssertionResult well = is_success(status); !well) fail(well.message());
    }
    std::string name_of(const station &one) const {
        std::size_t number = 0;
        while (&stations_[number] != &one)
            ++number;
        return std::string(one.name()) + " (" + std::to_string(number) + ")";
    }
    std::string describe_failure(const drawn_copy &drawn, const ferry_error_info &error) const {
        return describe(error) + ", of " + std::to_string(drawn.width) + " x " + std::to_string(drawn.height) + " x " +
               std::to_string(drawn.depth) + " with " + testing::PrintToString(drawn.options) + " from " +
               name_of(*drawn.from) + " to " + name_of(*drawn.to);
    }

    soak_run &of_;
    lane_progress &seen_;
    dice random_;
    int device_ = 0;
    CUcontext context_ = nullptr;
    std::optional<test_stream> own_[3];
    std::optional<test_event> passed_;
    CUstream on_ = nullptr;
    std::deque<station> stations_;
    grid extent_;
    std::uint64_t unit_ = 1; // in bytes; the texel size of an array
    std::vector<held_ticket> tickets_;
    drawn_copy last_ = {};
    bool is_last_ticketed_ = false; // whether the last copy has the last ticket
    std::optional<recorded> graph_;
};

// ---- Beside the copies -------------------------------------------------------------------------------------------

// Reports what each lane is doing, and ends the process, when there is no progress.
class watchdog {
public:
    watchdog(const soak_run &of, const std::vector<lane_progress> &lanes) : of_(of), lanes_(lanes) {}
    ~watchdog() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_all();
        thread_.join();
    }

private:
    void run() {
        constexpr std::chrono::seconds patience(60);
        std::uint64_t seen = of_.steps;
        auto since = steady_clock::now();
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::milliseconds(200), [&] { return is_over_; })) {
            if (const std::uint64_t now = of_.steps; now != seen) {
                seen = now;
                since = steady_clock::now();
            } else if (steady_clock::now() - since > patience) {
                bark();
            }
        }
    }
    [[noreturn]] void bark() const {
        std::fprintf(stderr, "Nothing has gone on for long where %s, FERRY_SOAK_SEED=%llu, after %llu steps:\n",
                     of_.how.name, static_cast<unsigned long long>(of_.seed),
                     static_cast<unsigned long long>(of_.steps));
        for (const lane_progress &one : lanes_)
            std::fprintf(stderr, "lane %td: %s; stream: %s; %llu copies under way, %llu tickets\n", &one - &lanes_[0],
                         one.doing.load(), one.stream.load(), static_cast<unsigned long long>(one.enqueued),
                         static_cast<unsigned long long>(one.tickets));
        std::abort();
    }

    const soak_run &of_;
    const std::vector<lane_progress> &lanes_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool is_over_ = false;
    std::thread thread_{[this] { run(); }};
};

// The program's own threads. They take jobs as the setting says.
class job_system {
public:
    job_system(const setting &how, std::uint64_t seed) : how_(how), random_(seed) {
        for (std::uint32_t i = 0; i < how.threads; ++i)
            threads_.emplace_back([this] { run(); });
    }
    ~job_system() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_all();
        for (std::thread &one : threads_)
            one.join();
    }
    static std::int32_t submit(void *user, void (*work)(void *), void *argument) {
        auto &self = *static_cast<job_system *>(user);
        const std::lock_guard lock(self.mutex_);
        self.jobs_.push_back({work, argument});
        self.wake_.notify_one();
        return 1;
    }
    std::deque<std::thread> &threads() { return threads_; }

private:
    struct job {
        void (*work)(void *);
        void *argument;
    };
    job take() {
        std::size_t chosen = 0;
        if (how_.jobs == setting::order::last) chosen = jobs_.size() - 1;
        if (how_.jobs == setting::order::any) chosen = random_.up_to(jobs_.size() - 1);
        const job taken = jobs_[chosen];
        jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(chosen));
        return taken;
    }
    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return is_over_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            const std::chrono::microseconds late(random_.up_to(static_cast<std::uint64_t>(how_.max_late.count())));
            lock.unlock();
            if (late.count()) std::this_thread::sleep_for(late);
            lock.lock();
            if (jobs_.empty()) continue; // other threads took the jobs
            const job taken = take();
            lock.unlock();
            taken.work(taken.argument);
            lock.lock();
        }
    }

    const setting &how_;
    dice random_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<job> jobs_;
    std::deque<std::thread> threads_;
    bool is_over_ = false;
};

// Repeats a step in a thread of its own until the object is destroyed.
class background {
public:
    template <class Step> explicit background(Step step) {
        thread_ = std::thread([this, step]() mutable {
            while (!is_over_)
                step();
        });
    }
    ~background() {
        is_over_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> is_over_ = false;
    std::thread thread_;
};

// The other work of a program: allocating, freeing, and having the staging buffers released.
auto other_work(soak_run &run) {
    return [&run, random = dice(run.seed + 1)]() mutable {
        CUcontext context = nullptr;
        EXPECT_OK(ferry_context_push(run.ferry, static_cast<int>(random.up_to(device_count() - 1)), nullptr, nullptr));
        if (random.one_in(2)) {
            const device_memory device(random.size(1 << 20));
            EXPECT_OK(raw().cuMemsetD8Async(device, 1, 1, CU_STREAM_PER_THREAD));
            EXPECT_OK(raw().cuStreamSynchronize(CU_STREAM_PER_THREAD));
        } else {
            const pinned_memory host(random.size(1 << 18));
        }
        ferry_staging_info info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(ferry_staging_get_info(run.ferry, &info, nullptr));
        EXPECT_LE(info.threads, run.how.threads);
        if (random.one_in(8)) {
            EXPECT_OK(ferry_staging_trim(run.ferry, nullptr));
        }
        EXPECT_OK(ferry_context_pop(run.ferry, &context, nullptr));
        std::this_thread::sleep_for(std::chrono::microseconds(200)); // leaves time for the copies
    };
}

// ---- The tests ---------------------------------------------------------------------------------------------------

struct soak : driver_test {
    static constexpr std::size_t callers = 4, lanes_of_each = 4;

    void SetUp() override {
        driver_test::SetUp();
        if (!raw().cuLibraryLoadData) GTEST_SKIP() << "the driver takes no kernels";
    }
    static void run_lanes(soak_run &run, std::vector<std::optional<lane>> &lanes, std::vector<lane_progress> &seen,
                          std::latch &are_made, std::size_t caller, int steps) {
        dice random(run.seed * callers + caller);
        for (std::size_t i = 0; i < lanes_of_each; ++i)
            lanes[caller * lanes_of_each + i].emplace(run, seen[caller * lanes_of_each + i], static_cast<unsigned>(i),
                                                      random.up_to(~std::uint64_t{1}));
        are_made.arrive_and_wait(); // waits for whole contexts, which breaks captures
        for (int step = 0; step < steps && !run.has_failed; ++step)
            lanes[caller * lanes_of_each + random.up_to(lanes_of_each - 1)]->step();
        for (std::size_t i = 0; i < lanes_of_each; ++i)
            lanes[caller * lanes_of_each + i]->finish();
    }
    // One round. The last copies are in flight when the instance is closed.
    static void run(const setting &how, std::uint64_t seed, int steps, counts &all) {
        soak_run run(how, seed, all);
        std::optional<job_system> jobs;
        const auto processor = static_cast<std::int32_t>(first_processor());
        ferry_options options = options_under_test();
        options.checks = seed % 2 ? FERRY_CHECKS_FULL : FERRY_CHECKS_BASIC;
        options.staging_bytes = how.staging_bytes;
        options.staging_threads = how.threads;
        if (how.jobs != setting::order::none) {
            jobs.emplace(how, seed);
            options.submit = job_system::submit;
            options.submit_user = &*jobs;
        }
        if (how.shares_a_processor) {
            options.staging_cpus = &processor;
            options.staging_cpu_count = 1;
        }
        instance_owner ferry = open_or_fail(options);
        run.ferry = ferry.get();

        std::vector<lane_progress> seen(callers * lanes_of_each);
        std::vector<std::optional<lane>> lanes(seen.size());
        std::deque<background> stalls;
        const watchdog looks_on(run, seen);
        if (how.shares_a_processor)
            for (int i = 0; i < 3; ++i)
                stalls.emplace_back([&] { keep_thread_on(static_cast<unsigned>(processor)); });
        {
            const background other(other_work(run));
            std::latch are_made(callers), are_through(callers);
            std::deque<std::thread> threads;
            for (std::size_t caller = 0; caller < callers; ++caller)
                threads.emplace_back([&, caller] {
                    run_lanes(run, lanes, seen, are_made, caller, steps);
                    are_through.count_down();
                });
            {
#if !defined(_WIN32)
                std::optional<background> stops;
                if (how.is_stopped) {
                    std::vector<pthread_t> all_of_them;
                    for (std::thread &one : threads)
                        all_of_them.push_back(one.native_handle());
                    if (jobs)
                        for (std::thread &one : jobs->threads())
                            all_of_them.push_back(one.native_handle());
                    stops.emplace([all_of_them, next = std::size_t{0}]() mutable {
                        EXPECT_EQ(pthread_kill(all_of_them[next++ % all_of_them.size()], SIGUSR1), 0);
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    });
                }
#endif
                are_through.wait(); // must not signal a thread that has been joined
            }
            for (std::thread &one : threads)
                one.join();
        }
        ferry.reset();
        lanes.clear();
    }
    static void expect_whole(const setting &how, std::uint64_t seed, int steps) {
        counts all;
        run(how, seed, steps, all);
        EXPECT_GT(all.copies, static_cast<std::uint64_t>(steps));
    }
};

std::uint64_t number_in(const char *variable, std::uint64_t otherwise) {
    const char *const text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_F(soak, copies_that_overlap_in_time_arrive_whole_for_the_requested_time) {
    const auto until = steady_clock::now() + std::chrono::seconds(number_in("FERRY_SOAK_SECONDS", 3));
    const std::uint64_t first = number_in("FERRY_SOAK_SEED", std::random_device()());
    constexpr std::uint64_t sizes[] = {4096, 64 << 10, 256 << 10, 2 << 20, 0};
    constexpr setting::order orders[] = {setting::order::none, setting::order::none, setting::order::first,
                                         setting::order::last, setting::order::any};
    std::printf("FERRY_SOAK_SEED=%llu\n", static_cast<unsigned long long>(first));
    std::fflush(stdout); // visible even if the process is killed
    counts all;
    std::uint64_t rounds = 0;
    do {
        const std::uint64_t seed = first + rounds++;
        dice random(seed);
        const std::uint64_t staging_bytes = random.of(sizes);
        const setting drawn = {.name = "settings are drawn",
                               .staging_bytes = staging_bytes,
                               .threads = static_cast<std::uint32_t>(1 + random.up_to(3)),
                               .largest = staging_bytes == 4096 ? std::uint64_t{200'000}
                                          : random.one_in(8)    ? 2'000'000
                                                                : 600'000,
                               .jobs = random.of(orders),
                               .max_late = std::chrono::microseconds(random.one_in(3) ? 1000 : 0)};
        run(drawn, seed, drawn.largest > 1'000'000 ? 30 : 100, all);
    } while (!HasFailure() && steady_clock::now() < until);
    std::printf("%llu rounds: %llu copies of %llu MB, %llu tickets, %llu graphs launched %llu times, %llu batches, "
                "%llu sources changed, %llu looks at all\n",
                static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(all.copies),
                static_cast<unsigned long long>(all.bytes / 1'000'000), static_cast<unsigned long long>(all.tickets),
                static_cast<unsigned long long>(all.graphs), static_cast<unsigned long long>(all.launches),
                static_cast<unsigned long long>(all.batches), static_cast<unsigned long long>(all.changed),
                static_cast<unsigned long long>(all.checks));
}

constexpr std::uint64_t little = 100'000;

TEST_F(soak, two_slots_and_one_thread_serve_many_streams) {
    expect_whole({.name = "the staging buffer has two slots", .staging_bytes = 4096, .threads = 1, .largest = little},
                 1, 40);
}

TEST_F(soak, jobs_run_late_and_out_of_order_by_one_thread_complete_all_copies) {
    for (const auto order : {setting::order::last, setting::order::any})
        expect_whole({.name = "jobs are late",
                      .staging_bytes = 64 << 10,
                      .threads = 1,
                      .largest = little,
                      .jobs = order,
                      .max_late = std::chrono::milliseconds(3)},
                     2, 20);
}

#if !defined(_WIN32)
TEST_F(soak, threads_that_are_stopped_at_any_point_continue) {
    struct sigaction stop = {}, before = {};
    stop.sa_handler = [](int) {
        const timespec pause = {0, 2'000'000};
        nanosleep(&pause, nullptr);
    };
    stop.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGUSR1, &stop, &before), 0);
    for (const auto order : {setting::order::first, setting::order::none})
        expect_whole({.name = "threads are stopped",
                      .staging_bytes = 64 << 10,
                      .threads = 3,
                      .largest = little,
                      .jobs = order,
                      .is_stopped = true},
                     3, 20);
    ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}
#endif

TEST_F(soak, threads_with_little_processor_time_complete_all_copies) {
    expect_whole({.name = "threads share a busy processor",
                  .staging_bytes = 64 << 10,
                  .threads = 3,
                  .largest = little,
                  .shares_a_processor = true},
                 4, 20);
}

} // namespace
} // namespace ferry::test
