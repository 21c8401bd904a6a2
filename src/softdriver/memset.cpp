// The driver's twelve entry points for fills, each lowered to fill().
#include "base/checked.h"
#include "softdriver/copy.h"
#include "softdriver/entry.h"

#include <cstring>

namespace ferry::softdriver {

namespace {

struct checked_fill {
    work what;
    bool is_on_host = false;
};

// Unlike a copy, a fill requires access from its stream's context, `from` (seen on CUDA 13.0 with two H200).
template <class Element>
checked_fill check_fill(driver &cu, const context &from, CUdeviceptr address, std::size_t pitch, Element value,
                        std::size_t width, std::size_t height) {
    extent size{.height = height};
    require(multiply(width, sizeof value, size.width));
    require(height == 1 || pitch >= size.width); // one row needs no pitch, and 0 does not mean tight
    const place at = {.type = CU_MEMORYTYPE_DEVICE, .address = address, .pitch = height > 1 ? pitch : 0};
    const side target = resolve(cu, at, size, false);
    const allocation &memory = *find_allocation(cu, target.start);
    require(can_reach(from, memory));
    const bool is_lost = loses_accesses(cu, from, memory);

    work what{.is_transfer = true};
    what.devices = target.device_bit();
    what.body = [target, value, width, height, is_lost] {
        if (is_lost) return;
        for (std::size_t y = 0; y < height; ++y) {
            std::byte *const row = reach(target.start) + y * target.row_pitch;
            if constexpr (sizeof value == 1)
                std::memset(row, value, width);
            else
                for (std::size_t x = 0; x < width; ++x)
                    std::memcpy(row + x * sizeof value, &value, sizeof value);
        }
    };
    return {std::move(what), target.on_host()};
}

template <class Element> void require_alignment(CUdeviceptr address, std::size_t pitch, std::size_t height) {
    require(address % sizeof(Element) == 0 && (height <= 1 || pitch % sizeof(Element) == 0));
}

// All fills are asynchronous to the host, except the forms without Async on pinned host memory ("API synchronization
// behavior"). `stream` is null for the forms without Async.
template <class Element>
CUresult fill(CUdeviceptr address, std::size_t pitch, Element value, std::size_t width, std::size_t height,
              const CUstream *stream) noexcept {
    return enter([&](driver &cu) -> operation_ptr {
        auto &on = stream ? find_stream(cu, *stream) : stream_of_synchronous_call(cu);
        require_alignment<Element>(address, pitch, height);
        if (width == 0 || height == 0) return {};
        checked_fill checked = check_fill(cu, *on.owner, address, pitch, value, width, height);
        const operation_ptr done = enqueue(cu, on, std::move(checked.what));
        return !stream && checked.is_on_host ? done : nullptr;
    });
}

template <class Element> graph_node fill_node(driver &cu, const CUDA_MEMSET_NODE_PARAMS &asked, const context &from) {
    require_alignment<Element>(asked.dst, asked.pitch, asked.height);
    return {.what = check_fill(cu, from, asked.dst, asked.pitch, static_cast<Element>(asked.value), asked.width,
                               asked.height)
                        .what,
            .is_line = asked.height == 1};
}

} // namespace

graph_node fill_in_graph(driver &cu, const CUDA_MEMSET_NODE_PARAMS &asked, const context &from) {
    require(asked.width && asked.height);
    switch (asked.elementSize) {
    case 1:
        return fill_node<unsigned char>(cu, asked, from);
    case 2:
        return fill_node<unsigned short>(cu, asked, from);
    case 4:
        return fill_node<unsigned>(cu, asked, from);
    default:
        throw refusal{CUDA_ERROR_INVALID_VALUE};
    }
}

#define FERRY_MEMSET(bits, type)                                                                                       \
    CUresult cuMemsetD##bits(CUdeviceptr to, type value, size_t n) { return fill(to, 0, value, n, 1, nullptr); }       \
    CUresult cuMemsetD2D##bits(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) {                \
        return fill(to, pitch, value, width, height, nullptr);                                                         \
    }                                                                                                                  \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t n, CUstream stream) {                           \
        return fill(to, 0, value, n, 1, &stream);                                                                      \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,           \
                                      CUstream stream) {                                                               \
        return fill(to, pitch, value, width, height, &stream);                                                         \
    }
FERRY_MEMSET(8, unsigned char)
FERRY_MEMSET(16, unsigned short)
FERRY_MEMSET(32, unsigned)
#undef FERRY_MEMSET

} // namespace ferry::softdriver
