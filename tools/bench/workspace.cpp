#include "workspace.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace bench {

namespace {

std::unique_ptr<std::byte[]> random_data(std::size_t size) {
    auto data = std::make_unique_for_overwrite<std::byte[]>(size);
    std::mt19937_64 random(20240607); // a fixed seed, so that every run moves the same bytes
    for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
        const std::uint64_t bytes = random() | 0x0101010101010101;
        std::memcpy(data.get() + i, &bytes, std::min(size - i, sizeof bytes));
    }
    return data;
}

std::size_t watched_bytes(const place &of) { return of.frame.bytes() + (of.buffer.kind == memory::array ? 0 : guard); }

// A copy from host memory that fills the whole array.
box to_array(const place &array, const void *host) {
    const buffer here = host_buffer(memory::pageable, const_cast<void *>(host));
    return {{here, array.frame}, {array.buffer, array.frame}, array.frame};
}

bool is_clear(const std::byte *bytes, std::size_t size) {
    return size == 0 || (bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

[[noreturn]] void report_fault(const box &box, const char *who, const std::string &where) {
    const auto &[width, height, depth] = box.size;
    fail(std::string(who) + ": a copy of " + std::to_string(width) + " bytes x " + std::to_string(height) + " rows x " +
         std::to_string(depth) + " slices has wrong bytes " + where);
}

void check_row(const box &box, const std::byte *found, const std::byte *expected, std::size_t y, std::size_t z,
               const char *who) {
    if (std::memcmp(found, expected, box.size.width) == 0) return;
    const auto right = std::mismatch(found, found + box.size.width, expected).first - found;
    report_fault(box, who,
                 "at byte " + std::to_string(right) + " of row " + std::to_string(y) + " of slice " +
                     std::to_string(z));
}

} // namespace

std::vector<std::size_t> sizes_that_fit(const workspace &workspace, std::initializer_list<std::size_t> sizes) {
    std::vector<std::size_t> found;
    for (const std::size_t size : sizes)
        if (size <= workspace.largest) found.push_back(size);
    if (found.empty()) found.push_back(workspace.largest);
    return found;
}

owned<void *> allocate_pinned(const environment &environment, std::size_t size) {
    void *memory = nullptr;
    check(environment.cu.cuMemHostAlloc(&memory, size + guard, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    return {memory, environment.cu.cuMemFreeHost};
}

owned<CUdeviceptr> allocate_device(const environment &environment, std::size_t size) {
    CUdeviceptr memory = 0;
    check(environment.cu.cuMemAlloc(&memory, size + guard), "cuMemAlloc");
    return {memory, environment.cu.cuMemFree};
}

buffer host_buffer(memory kind, void *address) { return {kind, reinterpret_cast<std::uint64_t>(address)}; }

buffer device_buffer(CUdeviceptr address, int device, CUcontext context) {
    return {.kind = memory::device, .address = address, .device = device, .context = context};
}

workspace::workspace(const environment &environment, std::size_t largest)
    : largest(largest), environment_(environment), data_(random_data(largest)),
      image_(std::make_unique<std::byte[]>(largest + guard)),
      pageable_memory_(std::make_unique<std::byte[]>(largest + guard)),
      pinned_memory_(allocate_pinned(environment, largest)), source_memory_(allocate_device(environment, largest)),
      destination_memory_(allocate_device(environment, largest)),
      pageable(host_buffer(memory::pageable, pageable_memory_.get())),
      pinned(host_buffer(memory::pinned, pinned_memory_.get())),
      device_source(device_buffer(source_memory_.get(), environment.device, environment.context.handle)),
      device_destination(device_buffer(destination_memory_.get(), environment.device, environment.context.handle)) {
    environment.need({"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                      "cuMemcpyDtoDAsync", "cuMemsetD8"});
}

void workspace::put(const place &to, const std::byte *bytes) {
    const current_context current(environment_.cu, to.buffer.context);
    if (to.buffer.kind == memory::array) {
        const CUDA_MEMCPY3D copy = lower(to_array(to, bytes));
        check(environment_.cu.cuMemcpy3D(&copy), "cuMemcpy3D");
    } else {
        check(environment_.cu.cuMemcpyHtoD(to.buffer.address, bytes, to.frame.bytes()), "cuMemcpyHtoD");
    }
    check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
}

const std::byte *workspace::get(const place &from) {
    if (from.buffer.is_host()) return from.buffer.host();
    const current_context current(environment_.cu, from.buffer.context);
    if (from.buffer.kind == memory::array) {
        box whole = to_array(from, image_.get());
        std::swap(whole.source, whole.destination);
        const CUDA_MEMCPY3D copy = lower(whole);
        check(environment_.cu.cuMemcpy3D(&copy), "cuMemcpy3D");
    } else {
        check(environment_.cu.cuMemcpyDtoH(image_.get(), from.buffer.address, watched_bytes(from)), "cuMemcpyDtoH");
    }
    return image_.get();
}

void workspace::load(const place &to) {
    if (to.buffer.is_host())
        std::memcpy(to.buffer.host(), data_.get(), to.frame.bytes());
    else
        put(to, data_.get());
}

void workspace::clear(const place &in) {
    if (in.buffer.is_host()) {
        std::memset(in.buffer.host(), 0, watched_bytes(in));
    } else if (in.buffer.kind == memory::array) {
        std::memset(image_.get(), 0, in.frame.bytes());
        put(in, image_.get());
    } else {
        const current_context current(environment_.cu, in.buffer.context);
        check(environment_.cu.cuMemsetD8(in.buffer.address, 0, watched_bytes(in)), "cuMemsetD8");
        check(environment_.cu.cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

void workspace::verify(const box &box, const char *who) {
    const auto &[source, destination, size] = box;
    const std::byte *const found = get(destination);
    std::size_t checked = 0; // up to here
    for (std::size_t z = 0; z < size.depth; ++z)
        for (std::size_t y = 0; y < size.height; ++y) {
            const std::size_t row = destination.row(y, z);
            if (!is_clear(found + checked, row - checked)) report_fault(box, who, "outside its box");
            check_row(box, found + row, data_.get() + source.row(y, z), y, z, who);
            checked = row + size.width;
        }
    if (!is_clear(found + checked, watched_bytes(destination) - checked)) report_fault(box, who, "past its end");
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

box line(const direction &direction, std::size_t size) {
    return {{direction.source, {size}}, {direction.destination, {size}}, {size}};
}

void raw_copy_async(const environment &environment, const direction &direction, std::size_t size, CUstream stream) {
    const auto &[name, source, destination] = direction;
    const ferry::driver_table &cu = environment.cu;
    if (source.is_host())
        check(cu.cuMemcpyHtoDAsync(destination.address, source.host(), size, stream), "cuMemcpyHtoDAsync");
    else if (destination.is_host())
        check(cu.cuMemcpyDtoHAsync(destination.host(), source.address, size, stream), "cuMemcpyDtoHAsync");
    else
        check(cu.cuMemcpyDtoDAsync(destination.address, source.address, size, stream), "cuMemcpyDtoDAsync");
}

void raw_copy(const environment &environment, const direction &direction, std::size_t size) {
    const auto &[name, source, destination] = direction;
    const ferry::driver_table &cu = environment.cu;
    if (source.is_host())
        check(cu.cuMemcpyHtoD(destination.address, source.host(), size), "cuMemcpyHtoD");
    else if (destination.is_host())
        check(cu.cuMemcpyDtoH(destination.host(), source.address, size), "cuMemcpyDtoH");
    else
        check(cu.cuMemcpyDtoD(destination.address, source.address, size), "cuMemcpyDtoD");
    // Two of these calls return before the bytes have arrived, which ferry_copy never does. From pageable memory to the
    // device, the driver returns once it has staged the bytes, and from device to device it returns immediately. For a
    // fair comparison, the raw side waits for the stream on which these calls run.
    if (source.kind == memory::pageable || direction.kind() == memory::device)
        check(cu.cuStreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize");
}

namespace {

bool has_frame_of(const place &one, const place &other) {
    return one.buffer.address == other.buffer.address && one.buffer.array == other.buffer.array &&
           one.frame.width == other.frame.width && one.frame.height == other.frame.height &&
           one.frame.depth == other.frame.depth;
}

} // namespace

void verify_each(workspace &workspace, std::span<const box> boxes, std::span<const contender> contenders) {
    const place *loaded = nullptr;
    for (const box &box : boxes) {
        if (!loaded || !has_frame_of(box.source, *loaded)) workspace.load(box.source);
        loaded = &box.source;
    }
    for (const contender &contender : contenders) {
        for (const box &box : boxes)
            workspace.clear(box.destination);
        if (contender.prepare) contender.prepare();
        contender.run();
        if (contender.finish) contender.finish();
        for (const box &box : boxes)
            workspace.verify(box, contender.name);
    }
}

double measure_ceiling(const environment &environment, workspace &workspace, const direction &direction) {
    workspace.load({direction.source, {workspace.largest}});
    double best = 0;
    for (std::size_t size = std::min<std::size_t>(workspace.largest, 64 << 20); size <= workspace.largest; size *= 4)
        for (int sample = 0; sample < 7; ++sample) {
            const double start = now_ns();
            raw_copy_async(environment, direction, size, environment.stream.get());
            drain(environment);
            best = std::max(best, static_cast<double>(size) / (now_ns() - start));
        }
    return best;
}

std::vector<ceiling> measure_ceilings(const environment &environment, workspace &workspace) {
    std::vector<ceiling> ceilings;
    for (const direction &direction : pinned_directions(workspace))
        ceilings.push_back({direction.name, measure_ceiling(environment, workspace, direction)});
    return ceilings;
}

double ceiling_of(const char *direction, const std::vector<ceiling> &ceilings) {
    const auto found = std::find_if(ceilings.begin(), ceilings.end(), [&](const ceiling &ceiling) {
        return std::strcmp(ceiling.direction, direction) == 0;
    });
    return found->bandwidth;
}

} // namespace bench
