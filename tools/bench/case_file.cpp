// file, file-busy: ranges, pieces and rows of files to the device and back, beside what a loader makes of threads and
// pinned memory.
#include "case.h"

#if !defined(_WIN32)
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "beside.h"
#include "ferry/ferry_file.h"
#include "peers.h"
#include "progress.h"
#include "units.h"
#endif

namespace bench {

namespace of_file {
namespace {

#if defined(_WIN32)
case_result run_file(session &) { return skipped("the raw side needs pread"); }
case_result run_file_busy(session &) { return skipped("the raw side needs pread"); }
#else

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;
constexpr unsigned loader_threads = 16;
constexpr std::size_t chunk = 4 * MiB;       // of a thread of the loader
constexpr std::size_t plain_chunk = 1 * MiB; // of a thread that only reads: the fastest in docs/files.md

[[noreturn]] void fail_with_errno(const std::string &what) { fail(what + ": " + std::strerror(errno)); }

// A file of random bytes, or an empty file that copies write. Its name is removed immediately, so it ends with its descriptor.
class bench_file {
public:
    bench_file(const std::string &folder, const std::byte *data, std::size_t size) : size(size) {
        std::string path = folder + "/ferry-bench-XXXXXX";
        descriptor = mkstemp(path.data());
        if (descriptor < 0) fail_with_errno("cannot make a file in " + folder + " (see --folder)");
        unlink(path.c_str());
        for (std::size_t done = 0; done < size;) {
            const ssize_t written = pwrite(descriptor, data + done, size - done, static_cast<off_t>(done));
            if (written <= 0) fail_with_errno("cannot write " + size_text(size) + " to " + folder);
            done += static_cast<std::size_t>(written);
        }
    }
    ~bench_file() { close(descriptor); }
    bench_file(const bench_file &) = delete;

    // Removes the file from the page cache. The file systems of a RAM disk ignore this. Returns the share of the file that
    // is still in the cache.
    double evict() const {
        if (fsync(descriptor) != 0 || posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) != 0)
            fail_with_errno("cannot remove a file from the page cache");
        const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), pages = (size + page - 1) / page;
        std::uint64_t whole[2] = {0, 0}, found[5] = {};
        constexpr long cachestat = 451; // the number of the system call, from Linux 6.5 on. Containers may refuse it
        if (syscall(cachestat, descriptor, whole, found, 0) == 0)
            return static_cast<double>(found[0]) / static_cast<double>(pages);
        void *const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
        if (mapped == MAP_FAILED) fail_with_errno("mmap");
        std::vector<unsigned char> present(pages);
        if (mincore(mapped, size, present.data()) != 0) fail_with_errno("mincore");
        munmap(mapped, size);
        const auto is_present = [](unsigned char each) { return (each & 1) != 0; };
        return static_cast<double>(std::count_if(present.begin(), present.end(), is_present)) /
               static_cast<double>(pages);
    }

    const std::size_t size;
    int descriptor;
};

// The contiguous parts that a copy reads, in their order on the device.
struct part {
    std::size_t offset, size;
};
struct plan {
    std::vector<part> parts;
    std::size_t bytes = 0;

    void add(std::size_t offset, std::size_t size) {
        parts.push_back({offset, size});
        bytes += size;
    }
};

// Memory of a device that a loader reads or writes.
struct device_end {
    CUcontext context;
    CUdeviceptr memory;
};
// A part that a thread of a loader moves in one go, to or from all or one of the devices.
struct unit {
    std::size_t offset, size, place; // the place in the memory of the devices
    std::size_t first_device, device_count;
};

// What loaders build: threads that call pread into pinned memory and start copies on streams of their own.
class loader {
public:
    loader(const environment &environment, std::vector<device_end> ends)
        : environment_(environment), ends_(std::move(ends)) {
        for (unsigned i = 0; i < loader_threads; ++i)
            threads_.emplace_back([this, i] { work(i); });
    }
    ~loader() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        begun_.notify_all();
        for (std::thread &one : threads_)
            one.join();
    }
    loader(const loader &) = delete;

    // Returns when all bytes are on the devices, or in the file.
    void run(int descriptor, const std::vector<unit> &units, bool reads) {
        std::unique_lock lock(mutex_);
        descriptor_ = descriptor, units_ = &units, reads_ = reads;
        at_work_ = loader_threads;
        ++round_;
        begun_.notify_all();
        ended_.wait(lock, [&] { return at_work_ == 0; });
    }

private:
    struct lane {
        const device_end &end;
        owned<CUstream> stream;
    };

    void work(unsigned number) {
        const current_context current(environment_.cu, environment_.context.handle);
        const owned<void *> memory = allocate_pinned(environment_, chunk);
        std::vector<lane> lanes;
        for (const device_end &end : ends_) {
            const current_context there(environment_.cu, end.context);
            lanes.push_back({end, make_stream(environment_)});
        }
        for (unsigned done = 0;;) {
            {
                std::unique_lock lock(mutex_);
                begun_.wait(lock, [&] { return is_over_ || round_ != done; });
                if (is_over_) return;
                done = round_;
            }
            for (std::size_t i = number; i < units_->size(); i += loader_threads)
                move((*units_)[i], static_cast<std::byte *>(memory.get()), lanes);
            const std::lock_guard lock(mutex_);
            if (--at_work_ == 0) ended_.notify_one();
        }
    }
    void move(const unit &unit, std::byte *memory, const std::vector<lane> &lanes) const {
        const ferry::driver_table &cu = environment_.cu;
        const auto offset = static_cast<off_t>(unit.offset);
        if (reads_ && pread(descriptor_, memory, unit.size, offset) != static_cast<ssize_t>(unit.size))
            fail_with_errno("pread");
        for (std::size_t i = unit.first_device; i < unit.first_device + unit.device_count; ++i) {
            const current_context there(cu, lanes[i].end.context);
            const CUdeviceptr device = lanes[i].end.memory + unit.place;
            if (reads_)
                check(cu.cuMemcpyHtoDAsync(device, memory, unit.size, lanes[i].stream.get()), "cuMemcpyHtoDAsync");
            else
                check(cu.cuMemcpyDtoHAsync(memory, device, unit.size, lanes[i].stream.get()), "cuMemcpyDtoHAsync");
        }
        for (std::size_t i = unit.first_device; i < unit.first_device + unit.device_count; ++i)
            check(cu.cuStreamSynchronize(lanes[i].stream.get()), "cuStreamSynchronize");
        if (!reads_ && pwrite(descriptor_, memory, unit.size, offset) != static_cast<ssize_t>(unit.size))
            fail_with_errno("pwrite");
    }

    const environment &environment_;
    const std::vector<device_end> ends_;
    std::mutex mutex_;
    std::condition_variable begun_, ended_;
    unsigned round_ = 0, at_work_ = 0;
    bool is_over_ = false;
    int descriptor_ = -1;
    const std::vector<unit> *units_ = nullptr;
    bool reads_ = true;
    std::vector<std::thread> threads_;
};

// Threads that only read whole files. They show what the file system achieves without a GPU.
class plain_reader {
public:
    void run(int descriptor, std::size_t size, unsigned threads) const {
        std::vector<std::thread> running;
        for (unsigned i = 0; i < threads; ++i)
            running.emplace_back([this, descriptor, size, threads, i] {
                for (std::size_t at = i * plain_chunk; at < size; at += threads * plain_chunk)
                    if (!read(descriptor, at, std::min(plain_chunk, size - at), i)) fail_with_errno("pread");
            });
        for (std::thread &one : running)
            one.join();
    }
    bool can_read(int descriptor) const { return descriptor >= 0 && read(descriptor, 0, plain_chunk, 0); }

private:
    bool read(int descriptor, std::size_t at, std::size_t size, unsigned thread) const {
        std::byte *const memory = static_cast<std::byte *>(memory_.get()) + thread * plain_chunk;
        return pread(descriptor, memory, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
    }

    static constexpr std::size_t memory_size = loader_threads * plain_chunk;
    const owned<void *> memory_{std::aligned_alloc(4096, memory_size), std::free}; // for direct reads
};

// Units of at most a chunk, so that all threads of the loader have work.
std::vector<unit> units_of(const plan &plan, std::size_t first_device = 0, std::size_t device_count = 1) {
    std::vector<unit> units;
    std::size_t place = 0;
    for (const part &one : plan.parts)
        for (std::size_t done = 0; done < one.size; done += chunk) {
            const std::size_t size = std::min(chunk, one.size - done);
            units.push_back({one.offset + done, size, place, first_device, device_count});
            place += size;
        }
    return units;
}

struct targets {
    std::optional<double> ratio = 1, of_staged = {};
    std::optional<double> max_ns = {};
};
constexpr targets no_targets = {.ratio = {}};

struct situation {
    std::string name = "warm";
    bool is_cold = false;
    std::function<std::shared_ptr<void>()> begin = {}; // what it returns exists while the copies are measured
};

class file_rows {
public:
    file_rows(session &session, row_list &rows, std::size_t size)
        : session_(session), environment_(session.environment), rows_(rows), size_(size), data_(size), back_(size),
          device_(allocate_device(environment_, size)),
          loader_(environment_, {{environment_.context.handle, device_.get()}}) {
        std::mt19937_64 random(1);
        for (std::size_t i = 0; i + sizeof(std::uint64_t) <= size; i += sizeof(std::uint64_t)) {
            const std::uint64_t word = random();
            std::memcpy(&data_[i], &word, sizeof word);
        }
    }

    void read(const std::string &where, const bench_file &file, const std::string &what, const plan &plan,
              const targets &targets, const situation &situation = {});
    void write(const std::string &where, const bench_file &file, const targets &targets);
    // The whole file to each device, or a share of the file to each.
    void read_on_devices(const std::string &where, const bench_file &file, const peer_devices &peers, bool is_shared);
    const std::byte *data() const { return data_.data(); }

private:
    contender by_loader(const bench_file &file, const std::vector<unit> &units, bool reads) {
        return {"16 threads", [this, &file, &units, reads] { loader_.run(file.descriptor, units, reads); }};
    }
    owned<ferry_file *> open_by_ferry(const bench_file &file) const;
    void verify_device(const device_end &end, std::size_t offset, std::size_t bytes, const char *who);
    // ferry's own copy of as many bytes of pageable memory: the limit for a file in the page cache.
    contender staged(std::size_t bytes) {
        return {"pageable memory", [this, bytes] {
                    check(ferry_copy_bytes(environment_.basic.get(), device_.get(),
                                           reinterpret_cast<std::uintptr_t>(data_.data()), bytes, nullptr, nullptr),
                          "ferry_copy_bytes", {});
                }};
    }
    void verify(const plan &plan, const contender &one, const bench_file *written);
    effort effort_of(bool is_cold) const {
        if (session_.is_quick) return {2, 20, 0.02e9};
        return is_cold ? effort{2, 3, 1e9} : effort{3, 100, 2e9};
    }
    void read_cold(const std::string &where, const bench_file &file, const std::string &what, std::size_t bytes,
                   std::vector<contender> all, const targets &targets);
    void add(std::vector<std::string> labels, std::size_t bytes, const samples &raw, const samples &ferry,
             const samples *staged, const targets &targets);

    session &session_;
    const environment &environment_;
    row_list &rows_;
    const std::size_t size_;
    std::vector<std::byte> data_, back_;
    const owned<CUdeviceptr> device_;
    loader loader_;
    const plain_reader plain_;
};

void file_rows::verify(const plan &plan, const contender &one, const bench_file *written) {
    if (written) {
        if (ftruncate(written->descriptor, 0) != 0) fail_with_errno("ftruncate");
        one.run();
        for (std::size_t done = 0; done < plan.bytes;) { // one call reads 2 GiB at most
            const ssize_t read = pread(written->descriptor, &back_[done], plan.bytes - done, static_cast<off_t>(done));
            if (read <= 0) fail(std::string(one.name) + " has written too few bytes to a file");
            done += static_cast<std::size_t>(read);
        }
        if (std::memcmp(back_.data(), data_.data(), plan.bytes) != 0)
            fail(std::string(one.name) + " has written wrong bytes to a file");
        return;
    }
    check(environment_.cu.cuMemsetD8(device_.get(), 0, size_), "cuMemsetD8");
    check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize"); // the loader's streams do not wait for it
    one.run();
    check(environment_.cu.cuMemcpyDtoH(back_.data(), device_.get(), plan.bytes), "cuMemcpyDtoH");
    std::size_t place = 0;
    for (const part &each : plan.parts) {
        if (std::memcmp(&back_[place], &data_[each.offset], each.size) != 0)
            fail(std::string(one.name) + " has copied wrong bytes of a file");
        place += each.size;
    }
}

void file_rows::add(std::vector<std::string> labels, std::size_t bytes, const samples &raw, const samples &ferry,
                    const samples *staged, const targets &targets) {
    row made = {.labels = std::move(labels),
                .bytes = bytes,
                .times = compare(raw, ferry),
                .target = targets.max_ns ? std::nullopt : targets.ratio,
                .max_ns = targets.max_ns,
                .ceiling = ceiling_of(made.labels[1] == "write" ? "D2H" : "H2D", session_.ceilings)};
    if (staged) {
        made.reference_ns = summarise(*staged);
        made.of_link = link_share{compare(*staged, ferry).ratio, targets.of_staged};
    }
    rows_.push_back(std::move(made));
}

// The target is beside the fastest plain read of the run. If the file stays in the cache, there is no target.
void file_rows::read_cold(const std::string &where, const bench_file &file, const std::string &what, std::size_t bytes,
                          std::vector<contender> all, const targets &targets) {
    const owned<int> direct(open(("/proc/self/fd/" + std::to_string(file.descriptor)).c_str(), O_RDONLY | O_DIRECT),
                            [](int descriptor) { close(descriptor); });
    const auto read_plainly = [&](int descriptor, unsigned threads) {
        return [this, &file, descriptor, threads] { plain_.run(descriptor, file.size, threads); };
    };
    const std::size_t first_plain = all.size();
    all.push_back({"pread, 8 threads", read_plainly(file.descriptor, 8)});
    all.push_back({"pread, 16 threads", read_plainly(file.descriptor, 16)});
    if (plain_.can_read(direct.get())) {
        all.push_back({"O_DIRECT, 8 threads", read_plainly(direct.get(), 8)});
        all.push_back({"O_DIRECT, 16 threads", read_plainly(direct.get(), 16)});
    }
    double still_cached = 0;
    for (contender &one : all)
        one.prepare = [&] { still_cached = std::max(still_cached, file.evict()); };
    const std::vector<samples> taken = interleave(all, effort_of(true));
    const auto is_faster = [](const samples &one, const samples &other) {
        return summarise(one).median < summarise(other).median;
    };
    const auto fastest =
        std::min_element(taken.begin() + static_cast<std::ptrdiff_t>(first_plain), taken.end(), is_faster);
    const bool is_cold = still_cached <= 0.01; // single pages may stay while the kernel uses them
    const std::string cache =
        is_cold ? "cold" : "not cold: " + std::to_string(std::lround(100 * still_cached)) + " % cached";
    for (std::size_t i = 0; i < all.size(); ++i)
        if (i != 1)
            add({where, "read", what, cache, all[i].name}, bytes, taken[i], taken[1], nullptr,
                is_cold && &taken[i] == &*fastest ? targets : no_targets);
}

owned<ferry_file *> file_rows::open_by_ferry(const bench_file &file) const {
    ferry_file *made = nullptr;
    auto error = sized<ferry_error_info>();
    check(ferry_file_open_descriptor(environment_.basic.get(), file.descriptor, nullptr, &made, &error),
          "ferry_file_open_descriptor", error);
    return {made, [](ferry_file *one) { ferry_file_close(one); }};
}

void file_rows::read(const std::string &where, const bench_file &file, const std::string &what, const plan &plan,
                     const targets &targets, const situation &situation) {
    session_.progress.show("file", where + ", " + what, plan.bytes);
    const owned<ferry_file *> opened = open_by_ferry(file);
    // One descriptor for a range or rows, and otherwise pieces.
    const bool is_box = plan.parts.size() == 1 || what.find("rows") == 0;
    ferry_place from, to;
    ferry_copy_desc copy;
    const std::size_t pitch = plan.parts.size() > 1 ? plan.parts[1].offset - plan.parts[0].offset : 0;
    ferry_place_file_pitched(&from, opened.get(), plan.parts[0].offset, is_box ? pitch : 0, 0);
    ferry_place_device(&to, environment_.device, device_.get());
    ferry_copy_desc_set(&copy, &to, &from, plan.parts[0].size, plan.parts.size(), 1);
    std::vector<ferry_piece> pieces;
    std::size_t place = 0;
    for (const part &each : plan.parts) {
        pieces.push_back({device_.get() + place, each.offset, each.size});
        place += each.size;
    }
    ferry_piece_list list;
    ferry_piece_list_set(&list, pieces.data(), pieces.size());
    list.source_file = opened.get();
    const std::vector<unit> units = units_of(plan);
    const contender all[] = {
        by_loader(file, units, true),
        {is_box ? "ferry_copy" : "ferry_copy_pieces",
         [&, error = sized<ferry_error_info>()]() mutable {
             if (is_box)
                 check(ferry_copy(environment_.basic.get(), &copy, nullptr, &error), "ferry_copy", error);
             else
                 check(ferry_copy_pieces(environment_.basic.get(), &list, nullptr, &error), "ferry_copy_pieces", error);
         }},
        staged(plan.bytes)};
    verify(plan, all[0], nullptr);
    verify(plan, all[1], nullptr);
    if (situation.is_cold) return read_cold(where, file, what, plan.bytes, {all[0], all[1]}, targets);
    const std::shared_ptr<void> beside = situation.begin ? situation.begin() : nullptr;
    const std::vector<samples> taken = interleave(all, effort_of(false));
    add({where, "read", what, situation.name, all[0].name}, plan.bytes, taken[0], taken[1], &taken[2], targets);
}

void file_rows::write(const std::string &where, const bench_file &file, const targets &targets) {
    session_.progress.show("file", where + ", written", size_);
    plan whole;
    whole.add(0, size_);
    check(environment_.cu.cuMemcpyHtoD(device_.get(), data_.data(), size_), "cuMemcpyHtoD");
    check(environment_.cu.cuCtxSynchronize(),
          "cuCtxSynchronize"); // cuMemcpyHtoD may return before the last bytes arrive
    const owned<ferry_file *> opened = open_by_ferry(file);
    auto error = sized<ferry_error_info>();
    ferry_place from, to;
    ferry_copy_desc copy;
    ferry_place_file(&to, opened.get(), 0);
    ferry_place_device(&from, environment_.device, device_.get());
    ferry_copy_desc_set(&copy, &to, &from, size_, 1, 1);
    const std::vector<unit> units = units_of(whole);
    const contender all[] = {
        by_loader(file, units, false),
        {"ferry_copy",
         [&] { check(ferry_copy(environment_.basic.get(), &copy, nullptr, &error), "ferry_copy", error); }}};
    verify(whole, all[0], &file);
    verify(whole, all[1], &file);
    const std::vector<samples> taken = interleave(all, effort_of(false));
    add({where, "write", "range", "warm", all[0].name}, size_, taken[0], taken[1], nullptr, targets);
}

void file_rows::verify_device(const device_end &end, std::size_t offset, std::size_t bytes, const char *who) {
    const current_context there(environment_.cu, end.context);
    check(environment_.cu.cuMemcpyDtoH(back_.data(), end.memory, bytes), "cuMemcpyDtoH");
    if (std::memcmp(back_.data(), &data_[offset], bytes) != 0)
        fail(std::string(who) + " has copied wrong bytes of a file to a device");
}

void file_rows::read_on_devices(const std::string &where, const bench_file &file, const peer_devices &peers,
                                bool is_shared) {
    std::vector<device_end> ends = {{environment_.context.handle, device_.get()}};
    std::vector<int> numbers = {environment_.device};
    for (const auto &peer : peers) {
        ends.push_back({peer->context.handle, peer->memory.get()});
        numbers.push_back(peer->buffer.device);
    }
    const std::size_t count = ends.size(), each = is_shared ? size_ / count : size_;
    const std::string what = (is_shared ? "a share for each of " : "range to each of ") + std::to_string(count);
    session_.progress.show("file", where + ", " + what, size_);
    const owned<ferry_file *> opened = open_by_ferry(file);
    std::vector<unit> units;
    std::vector<ferry_copy_desc> copies(count);
    for (std::size_t i = 0; i < count; ++i) {
        plan share;
        share.add(is_shared ? i * each : 0, each);
        if (is_shared || i == 0) {
            const std::vector<unit> more = units_of(share, i, is_shared ? 1 : count);
            units.insert(units.end(), more.begin(), more.end());
        }
        ferry_place from, to;
        ferry_place_file(&from, opened.get(), share.parts[0].offset);
        ferry_place_device(&to, numbers[i], ends[i].memory);
        ferry_copy_desc_set(&copies[i], &to, &from, each, 1, 1);
    }
    if (is_shared) { // so that all devices have work at the same time
        std::vector<unit> mixed;
        for (std::size_t i = 0; i < units.size(); ++i)
            mixed.push_back(units[i % count * (units.size() / count) + i / count]);
        units = std::move(mixed);
    }
    loader several(environment_, ends);
    const contender both[] = {
        {"16 threads", [&] { several.run(file.descriptor, units, true); }},
        {"ferry_copy_batch", [&, error = sized<ferry_error_info>()]() mutable {
             check(ferry_copy_batch(environment_.basic.get(), copies.data(), copies.size(), nullptr, &error),
                   "ferry_copy_batch", error);
         }}};
    for (const contender &one : both) {
        for (const device_end &end : ends) {
            const current_context there(environment_.cu, end.context);
            check(environment_.cu.cuMemsetD8(end.memory, 0, each), "cuMemsetD8");
            check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
        }
        one.run();
        for (std::size_t i = 0; i < count; ++i)
            verify_device(ends[i], is_shared ? i * each : 0, each, one.name);
    }
    const std::vector<samples> taken = interleave(both, effort_of(false));
    const double at_least = count < 4 ? 0 : is_shared ? 100 : 80; // GB/s
    const targets target =
        at_least == 0 ? targets{.ratio = 1} : targets{.max_ns = static_cast<double>(size_) / at_least};
    add({where, "read", what, "warm", both[0].name}, is_shared ? each * count : size_, taken[0], taken[1], nullptr,
        target);
}

// 4 GiB, or less if there is not enough memory.
std::size_t size_of_file(const session &session) {
    const ferry_device_info &info = session.environment.device_info;
    if (session.is_quick || info.is_software) return info.is_software ? 16 * MiB : 256 * MiB;
    std::size_t size = 4 * GiB;
    while (size > info.total_memory / 4)
        size /= 2;
    return size;
}

// 300 tensors of a model, of 1 KiB to 64 MiB, with gaps of some bytes.
plan tensors_of(std::size_t size) {
    std::mt19937 random(2);
    plan plan;
    const std::size_t mean = size / 320;
    for (std::size_t at = 0; plan.parts.size() < 300;) {
        const std::size_t bytes = std::max<std::size_t>(mean / 16 * (random() % 32), KiB);
        if (at + bytes > size) break;
        plan.add(at, bytes);
        at += bytes + random() % 64;
    }
    return plan;
}

// The first of eight shards of a matrix with rows of 64 KiB.
plan shard_of(std::size_t size) {
    plan plan;
    for (std::size_t at = 0; at + 64 * KiB <= size; at += 64 * KiB)
        plan.add(at, 8 * KiB);
    return plan;
}

void add_folder(file_rows &rows, const std::string &where, const std::string &folder, std::size_t size,
                const peer_devices &peers, bool is_ram) {
    plan range, small;
    range.add(0, size);
    small.add(0, std::min(size, MiB));
    const bench_file file(folder, rows.data(), size), empty(folder, nullptr, 0);
    rows.read(where, file, "range", range, {.ratio = 1, .of_staged = is_ram ? std::nullopt : std::optional(0.97)});
    rows.read(where, file, "300 tensors", tensors_of(size),
              {.ratio = 1, .of_staged = is_ram ? std::nullopt : std::optional(0.92)});
    rows.read(where, file, "rows of 8 KiB of 64 KiB", shard_of(size), {.ratio = 1, .of_staged = 0.8});
    rows.read(where, file, "range of 1 MiB", small, {.max_ns = 130e3});
    rows.write(where, empty, {.ratio = 0.85});
    if (!peers.empty())
        for (const bool is_shared : {false, true})
            rows.read_on_devices(where, file, peers, is_shared);
    if (!is_ram) rows.read(where, file, "range", range, {.ratio = 0.95}, {.name = "cold", .is_cold = true});
}

case_result run_file(session &session) {
    const std::string folder = session.folder;
    struct statfs found {};
    if (statfs(folder.c_str(), &found) != 0) fail_with_errno(folder);
    char kind[32];
    std::snprintf(kind, sizeof kind, "%#lx", static_cast<unsigned long>(found.f_type));
    case_result result = session.begin(
        {.note =
             "raw: 16 threads that call pread into pinned memory and start copies, or pwrite after copies; ferry: "
             "ferry_copy,\nferry_copy_pieces for tensors, and ferry_copy_batch for several devices; both until the "
             "bytes have arrived; of link: beside "
             "ferry's copy of as many bytes of\npageable memory; cold: fsync and posix_fadvise before each copy, and "
             "threads that only read the file,\nof which the fastest has the target; folder: " +
             folder + ", file system of type " + kind,
         .label_columns = {"folder", "copy", "what", "cache", "raw"},
         .reference_column = "pageable"});
    const std::size_t size = size_of_file(session);
    file_rows rows(session, result.rows, size);
    std::optional<access_between_devices> access;
    peer_devices peers;
    if (session.environment.report.device_count > 1) {
        access.emplace(session.environment);
        peers = open_peers(session.environment, size);
    }
    add_folder(rows, "folder", folder, size, peers, false);
    struct statfs memory {};
    if (statfs("/dev/shm", &memory) == 0 && memory.f_bavail * static_cast<std::uint64_t>(memory.f_bsize) > 3 * size)
        add_folder(rows, "/dev/shm", "/dev/shm", size, peers, true);
    return result;
}

case_result run_file_busy(session &session) {
    const environment &environment = session.environment;
    case_result result = session.begin(
        {.note =
             "raw: 16 threads that call pread into pinned memory and start copies; ferry: ferry_copy; both until the "
             "bytes have arrived.\nMeanwhile other processes compute, kernels of 1.5 ms fill the device back to back, "
             "or one kernel fills it all the time;\nfolder: " +
             session.folder,
         .label_columns = {"folder", "copy", "what", "beside", "raw"},
         .reference_column = "pageable"});
    const std::size_t size = std::min(size_of_file(session), GiB);
    file_rows rows(session, result.rows, size);
    const bench_file file(session.folder, rows.data(), size);
    std::vector<situation> situations;
#if defined(__linux__)
    const unsigned processors = std::thread::hardware_concurrency();
    for (const unsigned count : {processors, 2 * processors})
        situations.push_back({.name = std::to_string(count) + " processes",
                              .begin = [count] { return std::make_shared<computing_processes>(count); }});
#endif
    if (why_no_computing(environment).empty()) {
        situations.push_back(
            {.name = "kernels", .begin = [&] { return std::make_shared<computing_device>(environment); }});
        situations.push_back(
            {.name = "one kernel", .begin = [&] { return std::make_shared<persistent_kernel>(environment); }});
    }
    for (const situation &beside : situations)
        for (const std::size_t bytes : {size, std::min(size, MiB)}) {
            plan range;
            range.add(0, bytes);
            rows.read("folder", file, "range of " + size_text(bytes), range, {}, beside);
        }
    return result;
}
#endif

} // namespace
} // namespace of_file

const bench_case file_case = {"file", "files to the device and back, beside threads with pread and pinned memory",
                              of_file::run_file};
const bench_case file_busy_case = {"file-busy", "files to the device while the processors or the device are busy",
                                   of_file::run_file_busy};

} // namespace bench
