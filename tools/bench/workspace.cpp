#include "workspace.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace bench {

namespace {

constexpr std::size_t guard = 64;            // bytes past the end of a copy that must stay as they were
constexpr std::size_t bounce_size = 4 << 20; // device memory comes back for comparison in pieces of this size

std::unique_ptr<std::byte[]> random_data(std::size_t size) {
    auto data = std::make_unique_for_overwrite<std::byte[]>(size);
    std::mt19937_64 random(20240607); // any seed: fixed, so that every run moves the same bytes
    for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
        const std::uint64_t bytes = random() | 0x0101010101010101;
        std::memcpy(data.get() + i, &bytes, std::min(size - i, sizeof bytes));
    }
    return data;
}

owned<void *> allocate_pinned(const ferry::driver_table &cu, std::size_t size) {
    void *memory = nullptr;
    check(cu.cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    return {memory, cu.cuMemFreeHost};
}

owned<CUdeviceptr> allocate_device(const ferry::driver_table &cu, std::size_t size) {
    CUdeviceptr memory = 0;
    check(cu.cuMemAlloc(&memory, size), "cuMemAlloc");
    return {memory, cu.cuMemFree};
}

buffer host_buffer(memory kind, void *address) { return {kind, reinterpret_cast<std::uint64_t>(address)}; }

} // namespace

const char *name_of(memory kind) {
    switch (kind) {
    case memory::pageable:
        return "pageable";
    case memory::pinned:
        return "pinned";
    default:
        return "device";
    }
}

workspace::workspace(const environment &environment, std::size_t largest)
    : largest(largest), environment_(environment), data_(random_data(largest)),
      pageable_memory_(std::make_unique<std::byte[]>(largest + guard)),
      pinned_memory_(allocate_pinned(environment.cu, largest + guard)),
      bounce_memory_(allocate_pinned(environment.cu, bounce_size)),
      source_memory_(allocate_device(environment.cu, largest + guard)),
      destination_memory_(allocate_device(environment.cu, largest + guard)),
      pageable(host_buffer(memory::pageable, pageable_memory_.get())),
      pinned(host_buffer(memory::pinned, pinned_memory_.get())), device_source{memory::device, source_memory_.get()},
      device_destination{memory::device, destination_memory_.get()} {
    environment.need({"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                      "cuMemcpyDtoDAsync", "cuMemsetD8"});
}

void workspace::load(const buffer &to, std::size_t size) {
    if (!to.is_device()) {
        std::memcpy(to.host(), data_.get(), size);
        return;
    }
    check(environment_.cu.cuMemcpyHtoD(to.address, data_.get(), size), "cuMemcpyHtoD");
    check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
}

void workspace::clear(const buffer &in, std::size_t size) {
    if (!in.is_device()) {
        std::memset(in.host(), 0, size + guard);
        return;
    }
    check(environment_.cu.cuMemsetD8(in.address, 0, size + guard), "cuMemsetD8");
    check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
}

void workspace::verify(const buffer &in, std::size_t size, const char *who) {
    auto *const bounce = static_cast<std::byte *>(bounce_memory_.get());
    for (std::size_t start = 0; start < size + guard; start += bounce_size) {
        const std::size_t piece = std::min(bounce_size, size + guard - start);
        const std::byte *found = in.host() + start;
        if (in.is_device()) {
            check(environment_.cu.cuMemcpyDtoH(bounce, in.address + start, piece), "cuMemcpyDtoH");
            found = bounce;
        }
        const std::size_t copied = start < size ? std::min(piece, size - start) : 0;
        const bool is_past_end_clear =
            std::all_of(found + copied, found + piece, [](std::byte byte) { return byte == std::byte{0}; });
        const std::byte *const expected = data_.get() + start;
        if (std::memcmp(found, expected, copied) == 0 && is_past_end_clear) continue;
        const auto right = static_cast<std::size_t>(std::mismatch(found, found + copied, expected).first - found);
        fail(std::string(who) + ": a copy of " + std::to_string(size) + " bytes went wrong " +
             (right < copied ? "at byte " + std::to_string(start + right) : "past its end"));
    }
}

std::vector<direction> pinned_directions(const workspace &workspace) {
    return {{"H2D", workspace.pinned, workspace.device_destination},
            {"D2H", workspace.device_source, workspace.pinned},
            {"D2D", workspace.device_source, workspace.device_destination}};
}

std::vector<direction> pageable_directions(const workspace &workspace) {
    return {{"H2D", workspace.pageable, workspace.device_destination},
            {"D2H", workspace.device_source, workspace.pageable}};
}

ferry_copy_desc describe(const direction &direction, std::size_t size, int device) {
    const auto place_of = [device](const buffer &buffer) {
        ferry_place place;
        if (buffer.is_device())
            ferry_place_device(&place, device, buffer.address);
        else
            ferry_place_host(&place, buffer.host());
        return place;
    };
    const ferry_place source = place_of(direction.source), destination = place_of(direction.destination);
    ferry_copy_desc copy;
    ferry_copy_desc_init(&copy, &source, &destination, size, 1, 1);
    return copy;
}

void raw_copy_async(const environment &environment, const direction &direction, std::size_t size) {
    const auto &[name, source, destination] = direction;
    const ferry::driver_table &cu = environment.cu;
    const CUstream stream = environment.stream.get();
    if (!source.is_device())
        check(cu.cuMemcpyHtoDAsync(destination.address, source.host(), size, stream), "cuMemcpyHtoDAsync");
    else if (!destination.is_device())
        check(cu.cuMemcpyDtoHAsync(destination.host(), source.address, size, stream), "cuMemcpyDtoHAsync");
    else
        check(cu.cuMemcpyDtoDAsync(destination.address, source.address, size, stream), "cuMemcpyDtoDAsync");
}

void raw_copy(const environment &environment, const direction &direction, std::size_t size) {
    const auto &[name, source, destination] = direction;
    const ferry::driver_table &cu = environment.cu;
    if (!source.is_device())
        check(cu.cuMemcpyHtoD(destination.address, source.host(), size), "cuMemcpyHtoD");
    else if (!destination.is_device())
        check(cu.cuMemcpyDtoH(destination.host(), source.address, size), "cuMemcpyDtoH");
    else
        check(cu.cuMemcpyDtoD(destination.address, source.address, size), "cuMemcpyDtoD");
    // Two of them return before the bytes are there, which ferry_copy never does: pageable memory to the device once
    // it is staged, and device to device at once. To be comparable the raw side waits for the stream they ran on.
    if (source.kind == memory::pageable || direction.kind() == memory::device)
        check(cu.cuStreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize");
}

void ferry_copy_async_checked(ferry_instance *ferry, const ferry_copy_desc &copy, CUstream stream) {
    ferry_error_info error = sized<ferry_error_info>();
    check(ferry_copy_async(ferry, &copy, stream, &error), "ferry_copy_async", error);
}

void drain(const environment &environment) {
    check(environment.cu.cuStreamSynchronize(environment.stream.get()), "cuStreamSynchronize");
}

void verify_each(workspace &workspace, const direction &direction, std::size_t size,
                 std::span<const contender> contenders) {
    workspace.load(direction.source, size);
    for (const contender &contender : contenders) {
        workspace.clear(direction.destination, size);
        contender.run();
        if (contender.settle) contender.settle();
        workspace.verify(direction.destination, size, contender.name);
    }
}

std::vector<ceiling> measure_ceilings(const environment &environment, workspace &workspace) {
    std::vector<ceiling> ceilings;
    for (const direction &direction : pinned_directions(workspace)) {
        workspace.load(direction.source, workspace.largest);
        double best = 0;
        for (std::size_t size = std::min<std::size_t>(workspace.largest, 64 << 20); size <= workspace.largest;
             size *= 4)
            for (int sample = 0; sample < 7; ++sample) {
                const double start = now_ns();
                raw_copy_async(environment, direction, size);
                drain(environment);
                best = std::max(best, static_cast<double>(size) / (now_ns() - start));
            }
        ceilings.push_back({direction.name, best});
    }
    return ceilings;
}

double ceiling_of(const direction &direction, const std::vector<ceiling> &ceilings) {
    const auto found = std::find_if(ceilings.begin(), ceilings.end(), [&](const ceiling &ceiling) {
        return std::strcmp(ceiling.direction, direction.name) == 0;
    });
    return found->bandwidth;
}

} // namespace bench
