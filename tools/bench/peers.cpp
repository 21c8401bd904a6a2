#include "peers.h"

#include <algorithm>
#include <thread>

namespace bench {

peer_device::peer_device(const environment &environment, int ordinal, std::size_t size)
    : context(retain_primary(environment.cu, ordinal)), memory([&] {
          const current_context current(environment.cu, context.handle);
          return allocate_device(environment, size);
      }()),
      stream([&] {
          const current_context current(environment.cu, context.handle);
          return make_stream(environment);
      }()),
      buffer(device_buffer(memory.get(), ordinal, context.handle)) {}

peer_devices open_peers(const environment &environment, std::size_t size) {
    peer_devices peers;
    for (int ordinal = 0; ordinal < environment.report.device_count; ++ordinal)
        if (ordinal != environment.device) peers.push_back(std::make_unique<peer_device>(environment, ordinal, size));
    return peers;
}

peer_access::peer_access(const ferry::driver_table &cu, CUcontext here, CUcontext there, bool is_on)
    : cu_(cu), is_on_(is_on) {
    for (const auto &[from, to] : {std::pair(here, there), std::pair(there, here)}) {
        const CUresult result = set(from, to, is_on);
        if (result == CUDA_SUCCESS)
            changed_.push_back({from, to});
        else if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && result != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
            refusal_ = result;
    }
}

peer_access::~peer_access() {
    for (const auto &[from, to] : changed_)
        set(from, to, !is_on_);
}

CUresult peer_access::set(CUcontext from, CUcontext to, bool is_on) noexcept {
    if (const CUresult failed = cu_.cuCtxPushCurrent(from)) return failed;
    const CUresult result = is_on ? cu_.cuCtxEnablePeerAccess(to, 0) : cu_.cuCtxDisablePeerAccess(to);
    cu_.cuCtxPopCurrent(&from);
    return result;
}

access_between_devices::access_between_devices(const environment &environment) : environment_(environment) {
    ferry_instance *const ferry = environment.basic.get();
    const int count = environment.report.device_count;
    for (int device = 0; device < count; ++device)
        for (int peer = 0; peer < count; ++peer) {
            auto info = sized<ferry_peer_info>();
            if (device == peer) continue;
            check(ferry_peer_get_info(ferry, device, peer, &info, nullptr), "ferry_peer_get_info", {});
            if (!info.can_access) continue;
            const std::int32_t status = ferry_peer_enable(ferry, device, peer, nullptr);
            if (status == FERRY_ERROR_DATA_LOST) continue;
            check(status, "ferry_peer_enable", {});
            enabled_.push_back({device, peer});
        }
}

access_between_devices::~access_between_devices() {
    for (const auto &[device, peer] : enabled_)
        ferry_peer_disable(environment_.basic.get(), device, peer, nullptr);
}

bool access_between_devices::has_both_ways(int device, int peer) const {
    const auto has = [&](const std::pair<int, int> &pair) {
        return std::find(enabled_.begin(), enabled_.end(), pair) != enabled_.end();
    };
    return has({device, peer}) && has({peer, device});
}

std::string access_between_devices::text() const {
    const int count = environment_.report.device_count;
    return "peer access for " + std::to_string(enabled_.size()) + " of " + std::to_string(count * (count - 1)) +
           " ordered pairs of devices";
}

namespace {

void start(const environment &environment, const transfer &one) {
    const buffer &source = one.way.source, &destination = one.way.destination;
    const current_context current(environment.cu, one.context);
    if (source.is_host() || destination.is_host())
        raw_copy_async(environment, one.way, one.size, one.stream);
    else
        check(environment.cu.cuMemcpyPeerAsync(destination.address, destination.context, source.address, source.context,
                                               one.size, one.stream),
              "cuMemcpyPeerAsync");
}

void wait(const environment &environment, const transfer &one) {
    check(environment.cu.cuStreamSynchronize(one.stream), "cuStreamSynchronize");
}

} // namespace

contender raw_transfers(const char *name, const environment &environment, std::vector<transfer> all) {
    environment.need({"cuMemcpyPeerAsync"});
    if (all.front().way.kind() == memory::pageable)
        return {name, [&environment, all = std::move(all)] {
                    std::vector<std::thread> threads;
                    for (const transfer &one : all)
                        threads.emplace_back([&] {
                            start(environment, one);
                            wait(environment, one);
                        });
                    for (std::thread &thread : threads)
                        thread.join();
                }};
    return {name, [&environment, all = std::move(all)] {
                for (const transfer &one : all)
                    start(environment, one);
                for (const transfer &one : all)
                    wait(environment, one);
            }};
}

contender raw_transfers_in_order(const char *name, const environment &environment, std::vector<transfer> all) {
    environment.need({"cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuStreamWaitEvent"});
    const auto ends = std::make_shared<std::vector<owned<CUevent>>>();
    for (const transfer &one : all) {
        const current_context current(environment.cu, one.context);
        CUevent end = nullptr;
        check(environment.cu.cuEventCreate(&end, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        ends->emplace_back(end, environment.cu.cuEventDestroy);
    }
    return {name, [&environment, all = std::move(all), ends] {
                const CUstream last = environment.stream.get();
                for (const transfer &one : all)
                    start(environment, one);
                for (std::size_t i = 0; i < all.size(); ++i) {
                    if (all[i].stream == last) continue;
                    const current_context current(environment.cu, all[i].context);
                    const CUevent end = (*ends)[i].get();
                    check(environment.cu.cuEventRecord(end, all[i].stream), "cuEventRecord");
                    check(environment.cu.cuStreamWaitEvent(last, end, 0), "cuStreamWaitEvent");
                }
                check(environment.cu.cuStreamSynchronize(last), "cuStreamSynchronize");
            }};
}

} // namespace bench
