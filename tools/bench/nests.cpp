#include "nests.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace bench {

std::size_t nest_sizes::memory() const {
    const std::size_t most_blocks = *std::max_element(block_counts.begin(), block_counts.end());
    return std::max({most_blocks * 24 * 1024 * 5 / 4, matrix * matrix * 8, cache_layers * cache_blocks * 64 * 1024});
}

nest_sizes nest_sizes_of(const session &session) {
    const ferry_device_info &device = session.environment.device_info;
    const nest_sizes full = {{50'000, 100'000}, 16, 1024, 256, 16384, 8192, 4096};
    const nest_sizes quick = {{4'000, 8'000}, 16, 64, 32, 4096, 8192, 4096};
    const nest_sizes tiny = {{40, 80}, 2, 3, 2, 128, 256, 256};
    if (device.is_software) return tiny;
    return session.is_quick || full.memory() > device.total_memory / 8 ? quick : full;
}

nest_memory::nest_memory(const bench::environment &environment, std::size_t size)
    : environment(environment), pinned_memory_(allocate_pinned(environment, size)),
      first_memory_(allocate_device(environment, size)), second_memory_(allocate_device(environment, size)),
      pinned(host_buffer(memory::pinned, pinned_memory_.get())),
      first(device_buffer(first_memory_.get(), environment.device, environment.context.handle)),
      second(device_buffer(second_memory_.get(), environment.device, environment.context.handle)),
      to_device{"H2D", pinned, second}, to_host{"D2H", first, pinned}, within_device{"D2D", first, second} {}

void nest_memory::load(const direction &direction, std::size_t size,
                       const std::function<void(std::byte *)> &fill) const {
    fill(pinned.host());
    if (!direction.source.is_host()) {
        check(environment.cu.cuMemcpyHtoD(direction.source.address, pinned.host(), size), "cuMemcpyHtoD");
        check(environment.cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

void nest_memory::verify(const direction &direction, std::size_t size, const contender &contender,
                         const std::function<bool(const std::byte *)> &is_right) const {
    const buffer &to = direction.destination;
    if (to.is_host()) {
        in_parallel(size + guard, [&](std::size_t begin, std::size_t end) {
            std::memset(to.host() + begin, 0, end - begin);
            return true;
        });
    } else {
        check(environment.cu.cuMemsetD8(to.address, 0, size + guard), "cuMemsetD8");
        check(environment.cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
    contender.run();
    if (contender.finish) contender.finish();
    if (!to.is_host()) check(environment.cu.cuMemcpyDtoH(pinned.host(), to.address, size + guard), "cuMemcpyDtoH");
    const std::byte *const found = pinned.host();
    const bool has_guard =
        std::all_of(found + size, found + size + guard, [](std::byte byte) { return byte == std::byte{0}; });
    if (!has_guard || !is_right(found)) fail(std::string(contender.name) + ": a nest copied wrong bytes");
}

bool in_parallel(std::size_t count, const std::function<bool(std::size_t, std::size_t)> &work) {
    const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
    std::atomic<bool> is_right = true;
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < threads; ++i)
        all.emplace_back([&, i] {
            if (!work(count * i / threads, count * (i + 1) / threads)) is_right = false;
        });
    for (std::thread &thread : all)
        thread.join();
    return is_right;
}

ferry_place place_of(const buffer &buffer) {
    ferry_place place;
    if (buffer.is_host())
        ferry_place_host(&place, buffer.host());
    else
        ferry_place_device(&place, buffer.device, buffer.address);
    return place;
}

void issue_nest(const environment &environment, const ferry_nest &nest, CUstream stream, const copy_options &options) {
    auto error = sized<ferry_error_info>();
    check(ferry_copy_nests_async(environment.basic.get(), &nest, 1, pointer_to(options), stream, nullptr, &error),
          "ferry_copy_nests_async", error);
}

contender ferry_nest_contender(const environment &environment, const ferry_nest &nest) {
    return {"ferry_copy_nests_async", [&environment, &nest] {
                issue_nest(environment, nest, environment.stream.get());
                drain(environment);
            }};
}

std::size_t run_of(const environment &environment, const ferry_nest &nest) {
    auto found = sized<ferry_explanation>();
    auto error = sized<ferry_error_info>();
    check(ferry_copy_nest_explain_async(environment.basic.get(), &nest, nullptr, environment.stream.get(), &found,
                                        &error),
          "ferry_copy_nest_explain_async", error);
    return found.width;
}

} // namespace bench
