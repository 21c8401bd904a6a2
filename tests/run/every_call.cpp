// Calls every copy and fill that ferry-run replaces, by its symbol, and looks at the bytes. Prints each symbol with what
// became of it. ferry_run_test.py runs it with and without ferry-run.
#include <cstdio>
#include <cstring>
#include <vector>

#include "additions.h"
#include "driver/table.h"

#define FERRY_EXPORT(symbol, name, version, parameters, call) extern "C" CUresult symbol parameters;
#define FERRY_EXPORT_PER_THREAD FERRY_EXPORT
#include "exports.inc"

namespace {

// A line takes all of the memory, a box the beginning of each row.
constexpr std::size_t size = 48 << 10, pitch = 512, rows = size / pitch, width = 48;
using bytes = std::vector<unsigned char>;
enum class place { host, device, array };
enum class form { line, box };

int failures = 0;
bytes source(size), host_to(size), result(size);
CUdeviceptr from = 0, to = 0;
CUarray array_from = nullptr, array_to = nullptr;

void must(const char *what, CUresult status) {
    if (status == CUDA_SUCCESS) return;
    std::printf("%s: %d\n", what, status);
    ++failures;
}
#define MUST(call) must(#call, call)

// Other bytes for each call in all sources, and zeros in all destinations.
void begin() {
    static unsigned seed = 0;
    ++seed;
    for (std::size_t i = 0; i < size; ++i)
        source[i] = static_cast<unsigned char>(i * 7 + i / 4096 * 13 + seed);
    host_to.assign(size, 0);
    MUST(cuMemcpyHtoD_v2(from, source.data(), size));
    MUST(cuMemcpyHtoA_v2(array_from, 0, source.data(), size));
    MUST(cuMemcpyHtoD_v2(to, host_to.data(), size));
    MUST(cuMemcpyHtoA_v2(array_to, 0, host_to.data(), size));
    MUST(cuCtxSynchronize());
}

bytes part_of(const bytes &whole, form form) {
    if (form == form::line) return whole;
    bytes part(size);
    for (std::size_t y = 0; y < rows; ++y)
        std::memcpy(part.data() + y * pitch, whole.data() + y * pitch, width);
    return part;
}

void end(const char *symbol, CUresult status, place destination, const bytes &expected) {
    MUST(cuCtxSynchronize());
    if (destination == place::device) MUST(cuMemcpyDtoH_v2(result.data(), to, size));
    if (destination == place::array) MUST(cuMemcpyAtoH_v2(result.data(), array_to, 0, size));
    const bool is_right = (destination == place::host ? host_to : result) == expected;
    std::printf("%s %d %s\n", symbol, status, is_right ? "right" : "wrong");
    failures += status != CUDA_SUCCESS || !is_right;
}

template <class Call> void copy(const char *symbol, place destination, form form, Call call) {
    begin();
    const CUresult status = call();
    end(symbol, status, destination, part_of(source, form));
}

// Fills with 0x11223344, or as many of its low bytes as an element has.
template <class Call> void fill(const char *symbol, std::size_t element, form form, Call call) {
    begin();
    const CUresult status = call();
    constexpr unsigned char pattern[] = {0x44, 0x33, 0x22, 0x11};
    bytes whole(size);
    for (std::size_t i = 0; i < size; ++i)
        whole[i] = pattern[i % element];
    end(symbol, status, place::device, part_of(whole, form));
}

CUDA_MEMCPY2D box_2d() {
    CUDA_MEMCPY2D box = {};
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from, box.dstDevice = to;
    box.srcPitch = box.dstPitch = pitch;
    box.WidthInBytes = width, box.Height = rows;
    return box;
}

template <class Box> Box box_3d() {
    Box box = {};
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from, box.dstDevice = to;
    box.srcPitch = box.dstPitch = pitch;
    box.srcHeight = box.dstHeight = rows / 2;
    box.WidthInBytes = width, box.Height = rows / 2, box.Depth = 2;
    return box;
}

CUDA_MEMCPY3D_BATCH_OP box_of_batch() {
    CUDA_MEMCPY3D_BATCH_OP box = {};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = from, box.dst.op.ptr.ptr = to;
    box.src.op.ptr.rowLength = box.dst.op.ptr.rowLength = pitch;
    box.extent = {width, rows, 1};
    return box;
}

} // namespace

// A call in both variants. Asynchronous ones come last on `stream`, or on the thread's own.
#define LINE(symbol, destination, ...)                                                                                 \
    copy(#symbol, place::destination, form::line, [&] { return symbol(__VA_ARGS__); });                                \
    copy(#symbol "_ptds", place::destination, form::line, [&] { return symbol##_ptds(__VA_ARGS__); })
#define LINE_ASYNC(symbol, destination, ...)                                                                           \
    copy(#symbol, place::destination, form::line, [&] { return symbol(__VA_ARGS__, stream); });                        \
    copy(#symbol "_ptsz", place::destination, form::line, [&] { return symbol##_ptsz(__VA_ARGS__, nullptr); })
#define BOX(symbol, given)                                                                                             \
    copy(#symbol, place::device, form::box, [&] { return symbol(&given); });                                           \
    copy(#symbol "_ptds", place::device, form::box, [&] { return symbol##_ptds(&given); })
#define BOX_ASYNC(symbol, ...)                                                                                         \
    copy(#symbol, place::device, form::box, [&] { return symbol(__VA_ARGS__, stream); });                              \
    copy(#symbol "_ptsz", place::device, form::box, [&] { return symbol##_ptsz(__VA_ARGS__, stream); })
#define FILL(symbol, element, form, ...)                                                                               \
    fill(#symbol, element, form, [&] { return symbol(to, __VA_ARGS__); });                                             \
    fill(#symbol "_ptds", element, form, [&] { return symbol##_ptds(to, __VA_ARGS__); })
#define FILL_ASYNC(symbol, element, form, ...)                                                                         \
    fill(#symbol, element, form, [&] { return symbol(to, __VA_ARGS__, stream); });                                     \
    fill(#symbol "_ptsz", element, form, [&] { return symbol##_ptsz(to, __VA_ARGS__, nullptr); })

int main() {
    CUcontext context = nullptr;
    CUstream stream = nullptr;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&from, size));
    MUST(cuMemAlloc_v2(&to, size));
    const CUDA_ARRAY_DESCRIPTOR bytes_in_a_row = {size, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    MUST(cuArrayCreate_v2(&array_from, &bytes_in_a_row));
    MUST(cuArrayCreate_v2(&array_to, &bytes_in_a_row));
    if (failures) return 1;

    LINE(cuMemcpy, device, to, from, size);
    LINE(cuMemcpyPeer, device, to, context, from, context, size);
    LINE(cuMemcpyHtoD_v2, device, to, source.data(), size);
    LINE(cuMemcpyDtoH_v2, host, host_to.data(), from, size);
    LINE(cuMemcpyDtoD_v2, device, to, from, size);
    LINE(cuMemcpyDtoA_v2, array, array_to, 0, from, size);
    LINE(cuMemcpyAtoD_v2, device, to, array_from, 0, size);
    LINE(cuMemcpyHtoA_v2, array, array_to, 0, source.data(), size);
    LINE(cuMemcpyAtoH_v2, host, host_to.data(), array_from, 0, size);
    LINE(cuMemcpyAtoA_v2, array, array_to, 0, array_from, 0, size);
    LINE_ASYNC(cuMemcpyAsync, device, to, from, size);
    LINE_ASYNC(cuMemcpyPeerAsync, device, to, context, from, context, size);
    LINE_ASYNC(cuMemcpyHtoDAsync_v2, device, to, source.data(), size);
    LINE_ASYNC(cuMemcpyDtoHAsync_v2, host, host_to.data(), from, size);
    LINE_ASYNC(cuMemcpyDtoDAsync_v2, device, to, from, size);
    LINE_ASYNC(cuMemcpyHtoAAsync_v2, array, array_to, 0, source.data(), size);
    LINE_ASYNC(cuMemcpyAtoHAsync_v2, host, host_to.data(), array_from, 0, size);

    const CUDA_MEMCPY2D flat = box_2d();
    const auto deep = box_3d<CUDA_MEMCPY3D>();
    auto of_peers = box_3d<CUDA_MEMCPY3D_PEER>();
    of_peers.srcContext = of_peers.dstContext = context;
    BOX(cuMemcpy2D_v2, flat);
    BOX(cuMemcpy2DUnaligned_v2, flat);
    BOX(cuMemcpy3D_v2, deep);
    BOX(cuMemcpy3DPeer, of_peers);
    BOX_ASYNC(cuMemcpy2DAsync_v2, &flat);
    BOX_ASYNC(cuMemcpy3DAsync_v2, &deep);
    BOX_ASYNC(cuMemcpy3DPeerAsync, &of_peers);

    std::vector<CUdeviceptr> destinations, sources;
    std::vector<std::size_t> sizes(rows, width);
    for (std::size_t y = 0; y < rows; ++y) {
        destinations.push_back(to + y * pitch);
        sources.push_back(from + y * pitch);
    }
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    std::size_t first = 0, failed = 0;
    CUDA_MEMCPY3D_BATCH_OP box = box_of_batch();
    BOX_ASYNC(cuMemcpyBatchAsync, destinations.data(), sources.data(), sizes.data(), rows, &attributes, &first, 1,
              &failed);
    BOX_ASYNC(cuMemcpyBatchAsync_v2, destinations.data(), sources.data(), sizes.data(), rows, &attributes, &first, 1);
    BOX_ASYNC(cuMemcpy3DBatchAsync, 1, &box, &failed, 0);
    BOX_ASYNC(cuMemcpy3DBatchAsync_v2, 1, &box, 0);

    FILL(cuMemsetD8_v2, 1, form::line, 0x44, size);
    FILL(cuMemsetD16_v2, 2, form::line, 0x3344, size / 2);
    FILL(cuMemsetD32_v2, 4, form::line, 0x11223344, size / 4);
    FILL(cuMemsetD2D8_v2, 1, form::box, pitch, 0x44, width, rows);
    FILL(cuMemsetD2D16_v2, 2, form::box, pitch, 0x3344, width / 2, rows);
    FILL(cuMemsetD2D32_v2, 4, form::box, pitch, 0x11223344, width / 4, rows);
    FILL_ASYNC(cuMemsetD8Async, 1, form::line, 0x44, size);
    FILL_ASYNC(cuMemsetD16Async, 2, form::line, 0x3344, size / 2);
    FILL_ASYNC(cuMemsetD32Async, 4, form::line, 0x11223344, size / 4);
    FILL_ASYNC(cuMemsetD2D8Async, 1, form::box, pitch, 0x44, width, rows);
    FILL_ASYNC(cuMemsetD2D16Async, 2, form::box, pitch, 0x3344, width / 2, rows);
    FILL_ASYNC(cuMemsetD2D32Async, 4, form::box, pitch, 0x11223344, width / 4, rows);

    MUST(cuArrayDestroy(array_from));
    MUST(cuArrayDestroy(array_to));
    MUST(cuMemFree_v2(from));
    MUST(cuMemFree_v2(to));
    MUST(cuStreamDestroy_v2(stream));
    std::printf("%d failures\n", failures);
    return failures != 0;
}
