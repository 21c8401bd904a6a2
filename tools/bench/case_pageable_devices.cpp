// pageable-devices: pageable memory to and from several devices at the same time, and the bandwidth of this machine's
// memory.
#include <cstring>
#include <memory>
#include <thread>

#include "case.h"
#include "host_memory.h"
#include "lines.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pageable_devices {
namespace {

// A device with memory at both ends. Its stream and its memory are used in its primary context.
class station {
public:
    station(const environment &environment, int device, std::size_t size)
        : environment_(environment), context_(retain_primary(environment.cu, device)), size_(size), host_(size) {
        const current_context current(environment.cu, context_.handle);
        stream_.emplace(make_stream(environment));
        memory_.emplace(allocate_device(environment, size));
    }
    void fill(bool host, int seed) {
        const current_context current(environment_.cu, context_.handle);
        if (host)
            std::memset(host_.data(), seed, size_);
        else
            check(environment_.cu.cuMemsetD8(memory_->get(), static_cast<unsigned char>(seed), size_), "cuMemsetD8");
        check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
    // Whether the destination contains only this byte.
    bool holds(bool to_device, int seed) {
        const current_context current(environment_.cu, context_.handle);
        std::vector<char> seen(to_device ? size_ : 0);
        if (to_device) check(environment_.cu.cuMemcpyDtoH(seen.data(), memory_->get(), size_), "cuMemcpyDtoH");
        const std::vector<char> &bytes = to_device ? seen : host_;
        const char wanted = static_cast<char>(seed);
        return std::all_of(bytes.begin(), bytes.end(), [=](char byte) { return byte == wanted; });
    }
    void copy_raw(bool to_device) const {
        const current_context current(environment_.cu, context_.handle);
        if (to_device)
            check(environment_.cu.cuMemcpyHtoDAsync(memory_->get(), host_.data(), size_, stream_->get()),
                  "cuMemcpyHtoDAsync");
        else
            check(environment_.cu.cuMemcpyDtoHAsync(const_cast<char *>(host_.data()), memory_->get(), size_,
                                                    stream_->get()),
                  "cuMemcpyDtoHAsync");
        wait();
    }
    void enqueue(bool to_device) const {
        const auto host = reinterpret_cast<std::uintptr_t>(host_.data());
        ferry_copy_desc copy = {};
        copy.source.address = to_device ? host : memory_->get();
        copy.destination.address = to_device ? memory_->get() : host;
        copy.width = size_;
        ferry_copy_async_checked(environment_.basic.get(), copy, stream_->get());
    }
    void wait() const { check(environment_.cu.cuStreamSynchronize(stream_->get()), "cuStreamSynchronize"); }

private:
    const environment &environment_;
    const primary_context context_;
    const std::size_t size_;
    std::vector<char> host_;
    std::optional<owned<CUstream>> stream_;
    std::optional<owned<CUdeviceptr>> memory_;
};

using stations = std::vector<std::unique_ptr<station>>;

// The driver's calls block, so each device has its own thread.
contender raw_copies(const stations &all, bool to_device) {
    return {"raw", [&all, to_device] {
                std::vector<std::thread> threads;
                for (const auto &one : all)
                    threads.emplace_back([&one, to_device] { one->copy_raw(to_device); });
                for (std::thread &one : threads)
                    one.join();
            }};
}
contender ferry_copies(const stations &all, bool to_device) {
    return {"ferry", [&all, to_device] {
                for (const auto &one : all)
                    one->enqueue(to_device);
                for (const auto &one : all)
                    one->wait();
            }};
}

void verify(const stations &all, const contender &one, bool to_device) {
    for (const auto &place : all) {
        place->fill(to_device, 0x5a);
        place->fill(!to_device, 0);
    }
    one.run();
    for (const auto &place : all)
        if (!place->holds(to_device, 0x5a)) fail(std::string(one.name) + ": a copy is wrong");
}

// The bandwidth in GB/s of threads that copy from memory into small buffers, which stay in their caches.
double carried_by(unsigned threads, std::size_t size) {
    std::vector<std::vector<char>> sources(threads, std::vector<char>(size, 1)),
        buffers(threads, std::vector<char>(std::min<std::size_t>(size, 256 << 10)));
    const auto work = [&](unsigned index) {
        const std::vector<char> &source = sources[index];
        std::vector<char> &buffer = buffers[index];
        for (std::size_t at = 0; at + buffer.size() <= source.size(); at += buffer.size())
            std::memcpy(buffer.data(), source.data() + at, buffer.size());
    };
    double best = 0;
    for (int round = 0; round < 3; ++round) {
        std::vector<std::thread> running;
        const double begun = now_ns();
        for (unsigned i = 0; i < threads; ++i)
            running.emplace_back(work, i);
        for (std::thread &one : running)
            one.join();
        best = std::max(best, static_cast<double>(threads * size) / (now_ns() - begun));
    }
    return best;
}

case_result run_pageable_devices(session &session) {
    case_result result = session.begin(
        {.note = "all devices copy the same number of bytes at the same time; raw: cuMemcpy*Async, one thread for "
                 "each device;\nferry: ferry_copy_async, one thread for all devices; times until all bytes have "
                 "arrived. The second table:\nmemcpy by threads, from memory into buffers of 256 KiB",
         .label_columns = {"devices", "copy"}});
    result.numbers.label_columns = {"threads"};
    result.numbers.number_columns = {"GB/s"};
    const environment &environment = session.environment;
    int count = 0;
    check(environment.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
    const std::size_t size = session.workspace.largest;
    stations all;
    for (int devices = 1; devices <= count; devices *= 2) {
        while (static_cast<int>(all.size()) < devices)
            all.push_back(std::make_unique<station>(environment, static_cast<int>(all.size()), size));
        for (const bool to_device : {true, false}) {
            const char *const name = to_device ? "H2D" : "D2H";
            session.progress.show("pageable-devices", std::to_string(devices) + ", " + name, size);
            const contender both[] = {raw_copies(all, to_device), ferry_copies(all, to_device)};
            for (const contender &one : both)
                verify(all, one, to_device);
            const std::vector<samples> taken =
                interleave(both, session.is_quick ? effort{2, 4, 0.05e9} : effort{5, 20, 3e9});
            row found = {.labels = {std::to_string(devices), name},
                         .bytes = size * static_cast<std::size_t>(devices),
                         .times = compare(taken[0], taken[1])};
            found.target = 1.0;
            const std::optional<double> of_one = ceiling_of(name, session.ceilings);
            if (of_one) found.ceiling = *of_one * devices;
            result.rows.push_back(found);
        }
    }
    const unsigned processors = std::thread::hardware_concurrency();
    for (unsigned threads = 8; threads <= std::max(processors / 2, 8u); threads *= 2) {
        const double rate = carried_by(threads, session.is_quick ? 4 << 20 : 256 << 20);
        result.numbers.lines.push_back({{std::to_string(threads)}, {rate}});
    }
    return result;
}

} // namespace
} // namespace of_pageable_devices

const bench_case pageable_devices_case = {"pageable-devices",
                                          "pageable memory to and from several devices at the same time",
                                          of_pageable_devices::run_pageable_devices};

} // namespace bench
