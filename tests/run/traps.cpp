// Programs that break where a copy is completed, read or ordered otherwise than by the driver: traps NAME. Each prints
// what it saw. ferry-run must not change a word of it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "additions.h"
#include "driver/table.h"
#include "expect.h"

#define FERRY_EXPORT(symbol, name, version, parameters, call) extern "C" CUresult symbol parameters;
#define FERRY_EXPORT_PER_THREAD FERRY_EXPORT
#include "exports.inc"

namespace {

constexpr std::size_t large = std::size_t{8} << 20, largest = 8 * large;

#define OK(call) EXPECT((call) == CUDA_SUCCESS)

class device_memory {
public:
    explicit device_memory(std::size_t size) { OK(cuMemAlloc_v2(&address_, size)); }
    ~device_memory() { OK(cuMemFree_v2(address_)); }
    device_memory(const device_memory &) = delete;
    operator CUdeviceptr() const { return address_; }

private:
    CUdeviceptr address_ = 0;
};

CUstream new_stream() {
    CUstream made = nullptr;
    OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

void wait_until(void *released) {
    while (!*static_cast<std::atomic<bool> *>(released))
        std::this_thread::yield();
}

// Within a moment: ferry's last byte may arrive before its stream is idle.
bool becomes_idle(CUstream stream) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    return cuStreamQuery(stream) == CUDA_SUCCESS;
}

void sleep_a_while(void *) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }
void keep_busy(CUstream stream) { OK(cuLaunchHostFunc(stream, sleep_a_while, nullptr)); }

CUcontext use_device() {
    CUcontext context = nullptr;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return context;
}

// The result of an asynchronous copy to pageable memory is there when the call returns.
void result_without_waiting() {
    for (const bool is_busy : {false, true}) {
        const bytes source = numbered(large, is_busy);
        const device_memory memory(large);
        const CUstream stream = new_stream();
        bytes result(large);
        OK(cuMemcpyHtoD_v2(memory, source.data(), large));
        OK(cuCtxSynchronize()); // the stream waits for no other, and the last bytes may be in flight
        if (is_busy) keep_busy(stream);
        OK(cuMemcpyDtoHAsync_v2(result.data(), memory, large, stream));
        EXPECT(result == source);
        EXPECT(becomes_idle(stream));
        OK(cuStreamDestroy_v2(stream));
    }
}

// With ferry-run --async only: the driver's own call, and ferry's without that option, wait for the work before.
void copy_behind_work_that_waits() {
    const bytes source = numbered(large, 1);
    const device_memory memory(large);
    const CUstream stream = new_stream();
    bytes result(large);
    std::atomic<bool> is_released = false;
    OK(cuMemcpyHtoD_v2(memory, source.data(), large));
    OK(cuCtxSynchronize());
    OK(cuLaunchHostFunc(stream, wait_until, &is_released));
    OK(cuMemcpyDtoHAsync_v2(result.data(), memory, large, stream));
    is_released = true;
    OK(cuStreamSynchronize(stream));
    EXPECT(result == source);
    OK(cuStreamDestroy_v2(stream));
}

// A pageable source belongs to the program again when the call returns.
void source_rewritten() {
    for (const std::size_t size : {std::size_t{1000}, std::size_t{300} << 10, large}) {
        const bytes original = numbered(size, 3);
        bytes source = original, result(size);
        const device_memory memory(size);
        const CUstream stream = new_stream();
        keep_busy(stream);
        OK(cuMemcpyHtoDAsync_v2(memory, source.data(), size, stream));
        std::memset(source.data(), 0xee, size);
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH_v2(result.data(), memory, size));
        EXPECT(result == original);
        OK(cuStreamDestroy_v2(stream));
    }
}

// Memory is allocated and freed, which waits for running work, while other threads copy.
void free_in_another_thread() {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    std::atomic<bool> is_over = false;
    std::thread other([&] {
        OK(cuCtxSetCurrent(context));
        while (!is_over) {
            const device_memory one(large);
            void *pinned = nullptr;
            OK(cuMemAllocHost_v2(&pinned, 2 * large));
            OK(cuMemFreeHost(pinned));
        }
    });
    std::vector<std::thread> copying;
    for (unsigned number = 0; number < 4; ++number)
        copying.emplace_back([=] {
            OK(cuCtxSetCurrent(context));
            const bytes source = numbered(large, number);
            const device_memory memory(large);
            const CUstream stream = new_stream();
            for (int round = 0; round < 10; ++round) {
                bytes result(large);
                OK(cuMemcpyHtoDAsync_v2(memory, source.data(), large, stream));
                OK(cuMemcpyDtoHAsync_v2(result.data(), memory, large, stream));
                EXPECT(result == source);
            }
            OK(cuStreamDestroy_v2(stream));
        });
    for (std::thread &one : copying)
        one.join();
    is_over = true;
    other.join();
}

void graph_capture() {
    constexpr std::size_t narrow_rows_of_capture = 20000; // enough for a kernel of ferry's
    const device_memory memory(large), copied(large);
    const CUstream stream = new_stream();
    void *up = nullptr, *down = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec runnable = nullptr;
    OK(cuMemAllocHost_v2(&up, large));
    OK(cuMemAllocHost_v2(&down, large));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpyHtoDAsync_v2(memory, up, large, stream));
    OK(cuMemsetD2D8Async(memory, 64, 5, 4, narrow_rows_of_capture, stream));
    OK(cuMemcpyDtoDAsync_v2(copied, memory, large, stream));
    OK(cuMemcpyDtoHAsync_v2(down, copied, large, stream));
    // A copy outside the capture meanwhile
    const bytes other = numbered(large, 9);
    bytes result(large);
    const device_memory elsewhere(large);
    const CUstream free_stream = new_stream();
    OK(cuMemcpyHtoDAsync_v2(elsewhere, other.data(), large, free_stream));
    OK(cuMemcpyDtoHAsync_v2(result.data(), elsewhere, large, free_stream));
    EXPECT(result == other);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&runnable, graph, 0));
    for (unsigned round = 0; round < 3; ++round) {
        bytes expected = numbered(large, round);
        std::memcpy(up, expected.data(), large);
        std::memset(down, 0, large);
        OK(cuGraphLaunch(runnable, stream));
        OK(cuStreamSynchronize(stream));
        for (std::size_t i = 0; i < narrow_rows_of_capture; ++i)
            std::memset(expected.data() + 64 * i, 5, 4);
        EXPECT(std::memcmp(down, expected.data(), large) == 0);
    }
    OK(cuGraphExecDestroy(runnable));
    OK(cuGraphDestroy(graph));
    OK(cuMemFreeHost(up));
    OK(cuMemFreeHost(down));
    OK(cuStreamDestroy_v2(stream));
    OK(cuStreamDestroy_v2(free_stream));
}

// The legacy stream waits for a blocking stream. The thread's own does not.
void per_thread_streams() {
    const bytes source = numbered(large, 1);
    bytes result(large);
    const device_memory memory(large);
    CUstream blocking = nullptr;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    std::atomic<bool> is_released = false;
    OK(cuLaunchHostFunc(blocking, wait_until, &is_released));
    OK(cuMemcpyHtoDAsync_v2_ptsz(memory, source.data(), large, nullptr));
    OK(cuMemcpyDtoHAsync_v2_ptsz(result.data(), memory, large, nullptr));
    EXPECT(result == source);
    std::memset(result.data(), 0, large);
    OK(cuMemcpyDtoH_v2_ptds(result.data(), memory, large));
    EXPECT(result == source);
    EXPECT(cuStreamQuery(blocking) == CUDA_ERROR_NOT_READY);
    is_released = true;
    OK(cuMemcpyDtoH_v2(result.data(), memory, large));
    EXPECT(cuStreamQuery(blocking) == CUDA_SUCCESS);
    OK(cuStreamDestroy_v2(blocking));
}

// No thread waits: the driver and ferry end with the process.
void exit_with_copies_in_flight() {
    static const bytes source = numbered(largest, 1);
    static bytes result(large);
    CUdeviceptr memory = 0;
    void *pinned = nullptr;
    OK(cuMemAlloc_v2(&memory, largest));
    OK(cuMemAllocHost_v2(&pinned, large));
    for (int i = 0; i < 4; ++i) {
        const CUstream stream = new_stream();
        OK(cuMemcpyHtoDAsync_v2(memory, source.data(), source.size(), stream));
        OK(cuMemcpyDtoHAsync_v2(pinned, memory, large, stream));
    }
    std::printf("%d failures\n", failures);
    std::exit(failures);
}

// The driver ends with the parent's fork for the child, which must not hang, and the parent goes on.
void fork_after_use() {
    const bytes source = numbered(large, 4);
    bytes result(large);
    const device_memory memory(large);
    OK(cuMemcpyHtoD_v2(memory, source.data(), large));
    const pid_t child = fork();
    if (child == 0) {
        const bool has_failed = cuMemcpyDtoH_v2(result.data(), memory, large) != CUDA_SUCCESS;
        std::exit(has_failed ? 7 : 8);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    OK(cuMemcpyDtoH_v2(result.data(), memory, large));
    EXPECT(result == source);
}

// Pinned memory answers as the driver's own does.
void pinned_memory() {
    for (const unsigned flags : {0U, unsigned{CU_MEMHOSTALLOC_PORTABLE}, unsigned{CU_MEMHOSTALLOC_DEVICEMAP}}) {
        const std::size_t size = 4 * large + 100;
        void *memory = nullptr;
        OK(cuMemHostAlloc(&memory, size, flags));
        auto *const at = static_cast<unsigned char *>(memory);
        const auto address = reinterpret_cast<CUdeviceptr>(memory);
        unsigned told = 99, type = 0;
        CUdeviceptr start = 0, device = 0;
        std::size_t range = 0;
        OK(cuMemHostGetFlags(&told, memory));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + size - 1));
        OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + size / 2));
        OK(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + size / 2));
        OK(cuMemHostGetDevicePointer_v2(&device, memory, 0));
        std::printf("flags %u type %u range %d %zu device address %d past the end %d\n", told, type, start == address,
                    range, device == address,
                    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + size));
        std::printf("unregister %d\n", cuMemHostUnregister(memory));
        std::printf("free inside %d\n", cuMemFreeHost(at + 4096));
        std::printf("register %d\n", cuMemHostRegister_v2(memory, 4096, 0));
        at[0] = 1;
        const pid_t child = fork(); // shares the memory
        if (child == 0) _exit(at[0] == 1 ? (at[0] = 2, 0) : 1);
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        EXPECT(at[0] == 2);
        const bytes source = numbered(size, flags);
        bytes result(size);
        const device_memory there(size);
        std::memcpy(memory, source.data(), size);
        OK(cuMemcpyHtoD_v2(there, memory, size));
        OK(cuMemcpyDtoH_v2(result.data(), there, size));
        EXPECT(result == source);
        std::printf("free %d\n", cuMemFreeHost(memory));
        std::printf("free again %d\n", cuMemFreeHost(memory));
    }
    void *memory = nullptr;
    std::printf("no place %d\n", cuMemHostAlloc(nullptr, 4 * large, 0));
    std::printf("wrong flags %d\n", cuMemHostAlloc(&memory, 4 * large, 0xff));
}

// Narrow rows, which ferry copies and fills by kernels.
void narrow_rows() {
    constexpr std::size_t rows = 20000, width = 12, pitch = 32;
    const bytes source = numbered(rows * pitch, 5);
    bytes expected = source, result(rows * pitch);
    const device_memory from(rows * pitch), to(rows * pitch);
    OK(cuMemcpyHtoD_v2(from, source.data(), source.size()));
    OK(cuMemsetD8_v2(to, 0xcc, source.size()));
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from, copy.dstDevice = to;
    copy.srcPitch = copy.dstPitch = pitch;
    copy.srcXInBytes = copy.dstXInBytes = 4;
    copy.WidthInBytes = width, copy.Height = rows;
    OK(cuMemcpy2D_v2(&copy));
    OK(cuMemsetD2D32_v2(to + 20, pitch, 0x04030201, 2, rows));
    for (std::size_t i = 0; i < rows; ++i) {
        unsigned char *const row = expected.data() + i * pitch;
        std::memset(row, 0xcc, 4);
        std::memset(row + 16, 0xcc, 16);
        const unsigned char pattern[] = {1, 2, 3, 4, 1, 2, 3, 4};
        std::memcpy(row + 20, pattern, sizeof pattern);
    }
    OK(cuMemcpyDtoH_v2(result.data(), to, result.size()));
    EXPECT(result == expected);
    // From pageable rows into a column on the device, and back
    std::memset(expected.data(), 0, expected.size());
    OK(cuMemsetD8_v2(to, 0, expected.size()));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = source.data();
    OK(cuMemcpy2DAsync_v2(&copy, CU_STREAM_LEGACY));
    OK(cuMemcpyDtoH_v2(result.data(), to, result.size()));
    for (std::size_t i = 0; i < rows; ++i)
        std::memcpy(expected.data() + i * pitch + 4, source.data() + i * pitch + 4, width);
    EXPECT(result == expected);
}

void batches() {
    constexpr std::size_t count = 2000, piece = 256;
    const bytes source = numbered(2 * count * piece, 6);
    bytes result(source.size()), expected(source.size());
    const device_memory from(source.size()), to(source.size());
    const CUstream stream = new_stream();
    for (const int version : {12080, 13000}) {
        void *function = nullptr;
        OK(cuGetProcAddress_v2("cuMemcpyBatchAsync", &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr));
        OK(cuMemcpyHtoD_v2(from, source.data(), source.size()));
        OK(cuMemsetD8_v2(to, 0, source.size()));
        OK(cuCtxSynchronize());
        std::memset(expected.data(), 0, expected.size());
        std::vector<CUdeviceptr> destinations, sources;
        std::vector<std::size_t> sizes(count, piece);
        for (std::size_t i = 0; i < count; ++i) {
            destinations.push_back(to + 2 * i * piece);
            sources.push_back(from + (count - i) * piece);
            std::memcpy(expected.data() + 2 * i * piece, source.data() + (count - i) * piece, piece);
        }
        CUmemcpyAttributes attributes = {};
        attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        std::size_t first = 0, failed = 0;
        const auto run = [&](CUstream on) {
            if (version == 13000)
                return reinterpret_cast<PFN_cuMemcpyBatchAsync_v13000>(function)(
                    destinations.data(), sources.data(), sizes.data(), count, &attributes, &first, 1, on);
            return reinterpret_cast<PFN_cuMemcpyBatchAsync_v12080>(function)(
                destinations.data(), sources.data(), sizes.data(), count, &attributes, &first, 1, &failed, on);
        };
        OK(run(stream));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH_v2(result.data(), to, result.size()));
        EXPECT(result == expected);
        std::printf("on the legacy stream %d", run(nullptr));
        sizes[5] = 0;
        std::printf(", with an empty piece %d\n", run(stream));
    }
    // Boxes of bytes
    OK(cuMemsetD8_v2(to, 0, source.size()));
    OK(cuCtxSynchronize());
    std::memset(expected.data(), 0, expected.size());
    std::vector<CUDA_MEMCPY3D_BATCH_OP> boxes(500);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        CUDA_MEMCPY3D_BATCH_OP &one = boxes[i];
        one.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        one.src.type = one.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        one.src.op.ptr.ptr = from + i * 1024;
        one.dst.op.ptr.ptr = to + i * 1024;
        one.src.op.ptr.rowLength = one.dst.op.ptr.rowLength = 64;
        one.extent = {16, 8, 1};
        for (std::size_t row = 0; row < 8; ++row)
            std::memcpy(expected.data() + i * 1024 + row * 64, source.data() + i * 1024 + row * 64, 16);
    }
    OK(cuMemcpy3DBatchAsync_v2(boxes.size(), boxes.data(), 0, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(result.data(), to, result.size()));
    EXPECT(result == expected);
    // A box of an array's elements of 16 bytes
    CUDA_ARRAY_DESCRIPTOR form = {};
    form.Width = form.Height = 64, form.Format = CU_AD_FORMAT_FLOAT, form.NumChannels = 4;
    CUarray array = nullptr;
    OK(cuArrayCreate_v2(&array, &form));
    CUDA_MEMCPY3D_BATCH_OP &box = boxes[0];
    box.dst = {};
    box.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, box.dst.op.array.array = array;
    box.extent = {64, 64, 1};
    OK(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream));
    OK(cuStreamSynchronize(stream));
    CUDA_MEMCPY2D back = {};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY, back.srcArray = array;
    back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = result.data(), back.dstPitch = 1024;
    back.WidthInBytes = 1024, back.Height = 64;
    OK(cuMemcpy2D_v2(&back));
    EXPECT(std::memcmp(result.data(), source.data(), 65536) == 0);
    OK(cuArrayDestroy(array));
    OK(cuStreamDestroy_v2(stream));
}

// Two contexts on one device, and a third after one has ended. Memory that is pinned in one is pinned in all.
void several_contexts() {
    const bytes source = numbered(large, 8);
    void *pinned = nullptr;
    const auto use = [&](CUcontext context) {
        OK(cuCtxPushCurrent_v2(context));
        {
            const device_memory memory(large);
            const CUstream stream = new_stream();
            bytes result(large);
            if (!pinned) OK(cuMemHostAlloc(&pinned, 2 * large, CU_MEMHOSTALLOC_PORTABLE));
            std::memcpy(pinned, source.data(), large);
            for (const void *const from :
                 {static_cast<const void *>(source.data()), static_cast<const void *>(pinned)}) {
                OK(cuMemsetD8Async(memory, 0, large, stream));
                OK(cuMemcpyHtoDAsync_v2(memory, from, large, stream));
                OK(cuMemcpyDtoHAsync_v2(result.data(), memory, large, stream));
                EXPECT(result == source);
                std::memset(result.data(), 0, large);
            }
            OK(cuStreamSynchronize(stream));
            OK(cuStreamDestroy_v2(stream));
        }
        CUcontext popped = nullptr;
        OK(cuCtxPopCurrent_v2(&popped));
        EXPECT(popped == context);
    };
    CUcontext contexts[3] = {};
    const auto make = [](CUcontext &made) {
        CUcontext popped = nullptr;
        OK(cuCtxCreate_v2(&made, 0, 0));
        OK(cuCtxPopCurrent_v2(&popped));
    };
    make(contexts[0]);
    make(contexts[1]);
    for (int round = 0; round < 2; ++round)
        for (const int one : {0, 1})
            use(contexts[one]);
    OK(cuCtxDestroy_v2(contexts[1]));
    make(contexts[2]);
    for (const int one : {0, 2})
        use(contexts[one]);
    OK(cuCtxPushCurrent_v2(contexts[0]));
    OK(cuMemFreeHost(pinned));
    OK(cuCtxDestroy_v2(contexts[2]));
    OK(cuCtxDestroy_v2(contexts[0]));
}

// A copy between devices on the legacy stream comes after earlier work of both. Without a second device there is none.
void between_devices() {
    int count = 0;
    OK(cuDeviceGetCount(&count));
    if (count < 2) return;
    CUcontext contexts[2] = {};
    CUdeviceptr memory[2] = {};
    for (int device = 0; device < 2; ++device) {
        OK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        OK(cuCtxSetCurrent(contexts[device]));
        OK(cuMemAlloc_v2(&memory[device], largest));
    }
    bytes result(large);
    for (unsigned form = 0; form < 4; ++form) {
        const auto value = static_cast<unsigned char>(form + 1);
        OK(cuCtxSetCurrent(contexts[0]));
        keep_busy(nullptr);
        OK(cuMemsetD8Async(memory[0], value, large, nullptr));
        if (form < 3) OK(cuCtxSetCurrent(contexts[1])); // the driver looks at both devices
        if (form == 0) OK(cuMemcpyPeer(memory[1], contexts[1], memory[0], contexts[0], large));
        CUDA_MEMCPY3D_PEER box = {};
        box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        box.srcDevice = memory[0], box.srcContext = contexts[0];
        box.dstDevice = memory[1], box.dstContext = contexts[1];
        box.srcPitch = box.dstPitch = 4096, box.srcHeight = box.dstHeight = large / 4096;
        box.WidthInBytes = 4096, box.Height = large / 4096, box.Depth = 1;
        if (form == 1) OK(cuMemcpy3DPeer(&box));
        if (form == 2) {
            OK(cuCtxSynchronize()); // of device 1 only
            OK(cuMemcpyPeer(memory[1], contexts[1], memory[0], contexts[0], large));
        }
        if (form == 3) OK(cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], large, nullptr));
        OK(cuMemcpyDtoH_v2(result.data(), memory[1], large));
        EXPECT(result == bytes(large, value));
    }
    // On a stream of one's own ferry may relay it.
    const CUstream stream = new_stream();
    const bytes source = numbered(largest, 11);
    bytes copied(largest);
    OK(cuMemcpyHtoD_v2(memory[0], source.data(), largest));
    OK(cuCtxSynchronize()); // the stream waits for no other
    OK(cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], largest, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(copied.data(), memory[1], largest));
    EXPECT(copied == source);
    OK(cuStreamDestroy_v2(stream));
    // Narrow rows within device 1, called for device 0, come after the work of both.
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemsetD8Async(memory[1], 0, large, nullptr));
    OK(cuCtxSynchronize());
    keep_busy(nullptr);
    OK(cuMemsetD8Async(memory[1], 9, large / 2, nullptr));
    OK(cuCtxSetCurrent(contexts[0]));
    const bool has_access = cuCtxEnablePeerAccess(contexts[1], 0) == CUDA_SUCCESS;
    CUDA_MEMCPY3D_PEER rows = {};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = memory[1], rows.dstDevice = memory[1] + large / 2;
    rows.srcContext = rows.dstContext = contexts[1];
    rows.srcPitch = rows.dstPitch = 32, rows.srcHeight = rows.dstHeight = 20000;
    rows.WidthInBytes = 12, rows.Height = 20000, rows.Depth = 1;
    OK(cuMemcpy3DPeer(&rows));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemcpyDtoH_v2(result.data(), memory[1], large));
    for (std::size_t i = 0; i < 20000 * 32; ++i)
        EXPECT(result[large / 2 + i] == (i % 32 < 12 ? 9 : 0));
    for (const CUdeviceptr one : memory)
        OK(cuMemFree_v2(one));
    OK(cuCtxSetCurrent(contexts[0]));
    if (has_access) OK(cuCtxDisablePeerAccess(contexts[1]));
}

template <class Function> bool find(const char *name, Function &found) {
    void *function = nullptr;
    const CUresult result = cuGetProcAddress_v2(name, &function, 12040, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
    found = reinterpret_cast<Function>(function);
    return result == CUDA_SUCCESS && function;
}

// A context of a part of the device. ferry loads nothing into it while the program's work waits for the program. The
// software driver has no such contexts.
void green_context() {
    constexpr int processors = 1;        // CU_DEV_RESOURCE_TYPE_SM
    constexpr unsigned with_streams = 1; // CU_GREEN_CTX_DEFAULT_STREAM
    CUresult (*get_resource)(CUdevice, void *, int) = nullptr;
    CUresult (*describe)(void **, void *, unsigned) = nullptr;
    CUresult (*create)(void **, void *, CUdevice, unsigned) = nullptr;
    CUresult (*destroy)(void *) = nullptr;
    CUresult (*to_context)(CUcontext *, void *) = nullptr;
    if (!find("cuDeviceGetDevResource", get_resource) || !find("cuDevResourceGenerateDesc", describe) ||
        !find("cuGreenCtxCreate", create) || !find("cuGreenCtxDestroy", destroy) ||
        !find("cuCtxFromGreenCtx", to_context))
        return;
    alignas(16) unsigned char all[1024] = {}; // more than a CUdevResource
    void *desc = nullptr, *green = nullptr;
    CUcontext context = nullptr;
    OK(get_resource(0, all, processors));
    OK(describe(&desc, all, 1));
    OK(create(&green, desc, 0, with_streams));
    OK(to_context(&context, green));
    OK(cuCtxPushCurrent_v2(context));
    {
        const bytes source = numbered(large, 12);
        bytes result(large);
        const device_memory memory(large);
        const CUstream waiting = new_stream(), stream = new_stream();
        std::atomic<bool> is_released = false;
        OK(cuLaunchHostFunc(waiting, wait_until, &is_released));
        OK(cuMemcpyHtoDAsync_v2(memory, source.data(), large, stream));
        OK(cuMemcpyDtoHAsync_v2(result.data(), memory, large, stream));
        EXPECT(result == source);
        is_released = true;
        OK(cuStreamSynchronize(waiting));
        OK(cuStreamDestroy_v2(waiting));
        OK(cuStreamDestroy_v2(stream));
    }
    OK(cuCtxPopCurrent_v2(&context));
    OK(destroy(green));
}

// The driver's own results for calls that it refuses.
void errors() {
    const bytes source(large);
    bytes result(large);
    const device_memory memory(large);
    const auto told = [](const char *what, CUresult got) { std::printf("%s: %d\n", what, got); };
    told("null source", cuMemcpyHtoD_v2(memory, nullptr, large));
    told("null destination", cuMemcpyDtoH_v2(nullptr, memory, large));
    told("past the end", cuMemcpyHtoD_v2(memory + large / 2, source.data(), large));
    told("past the end on a stream", cuMemcpyDtoHAsync_v2(result.data(), memory + large / 2, large, nullptr));
    told("no device memory", cuMemcpyHtoD_v2(4096, source.data(), large));
    told("nothing", cuMemcpyHtoD_v2(memory, source.data(), 0));
    told("nothing nowhere", cuMemcpyHtoD_v2(0, nullptr, 0));
    told("fill past the end", cuMemsetD8_v2(memory + large / 2, 0, large));
    told("fill misaligned", cuMemsetD32_v2(memory + 1, 0, 16));
    told("fill with overlapping rows", cuMemsetD2D8_v2(memory, 16, 0, 32, 30000));
    CUDA_MEMCPY2D box = {};
    box.srcMemoryType = CU_MEMORYTYPE_HOST, box.srcHost = source.data(), box.srcPitch = 16;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE, box.dstDevice = memory, box.dstPitch = 32;
    box.WidthInBytes = 32, box.Height = 100000;
    told("pitch below width", cuMemcpy2D_v2(&box));
    box.srcPitch = 32, box.Height = 1 << 20;
    told("box past the end", cuMemcpy2DAsync_v2(&box, nullptr));
    box.srcMemoryType = static_cast<CUmemorytype>(0), box.srcDevice = memory + large / 2;
    box.WidthInBytes = 12, box.Height = 20000;
    told("no type of memory", cuMemcpy2D_v2(&box));
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE, box.dstMemoryType = static_cast<CUmemorytype>(7);
    told("an unknown type of memory", cuMemcpy2DAsync_v2(&box, nullptr));
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE, box.Height = 0;
    told("no rows", cuMemcpy2D_v2(&box));
    told("null box", cuMemcpy2D_v2(nullptr));
    CUcontext current = nullptr;
    OK(cuCtxPopCurrent_v2(&current));
    told("without a context", cuMemcpyHtoD_v2(memory, source.data(), large));
    told("fill without a context", cuMemsetD8_v2(memory, 0, large));
    OK(cuCtxPushCurrent_v2(current));
}

// Closes descriptors that it has not opened, as daemons do, and opens files of its own in their place.
void closed_descriptors() {
    const bytes source = numbered(large, 5);
    bytes result(large);
    const device_memory memory(large);
    const auto is_file = [](int descriptor) {
        struct stat found = {};
        return fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
    };
    std::vector<int> own, free;
    for (int descriptor = 0; descriptor < 256; ++descriptor)
        if (fcntl(descriptor, F_GETFD) < 0) free.push_back(descriptor);
    OK(cuMemcpyHtoD_v2(memory, source.data(), large));
    for (const int descriptor : free)
        if (is_file(descriptor)) close(descriptor); // the driver needs its devices and sockets
    for (unsigned i = 0; i < 64; ++i) {
        own.push_back(memfd_create("own", 0));
        EXPECT(own.back() >= 0 && write(own.back(), "DATA\n", 5) == 5);
    }
    OK(cuMemcpyDtoH_v2(result.data(), memory, large));
    EXPECT(result == source);
    const auto are_all_open = [&] { return std::all_of(own.begin(), own.end(), is_file); };
    const pid_t child = fork();
    if (child == 0) _exit(are_all_open() ? 0 : 1);
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(are_all_open());
    for (const int descriptor : own)
        EXPECT(lseek(descriptor, 0, SEEK_END) == 5);
}

// Calls on a thread whose stack has so many KiB, and which ends the process.
void small_stack(std::size_t kib) {
    struct work {
        CUcontext context = nullptr;
        CUdeviceptr memory = 0;
        bytes source = numbered(large, 6), result = bytes(large);
    } shared;
    const device_memory memory(large);
    shared.memory = memory;
    OK(cuCtxGetCurrent(&shared.context));
    const auto run = [](void *argument) -> void * {
        work &own = *static_cast<work *>(argument);
        void *pinned = nullptr;
        OK(cuCtxSetCurrent(own.context));
        OK(cuMemHostAlloc(&pinned, largest, 0));
        OK(cuMemFreeHost(pinned));
        for (const std::size_t size : {std::size_t{1000}, large}) {
            CUDA_MEMCPY2D rows = {};
            rows.srcMemoryType = CU_MEMORYTYPE_HOST, rows.srcHost = own.source.data();
            rows.dstMemoryType = CU_MEMORYTYPE_DEVICE, rows.dstDevice = own.memory;
            rows.srcPitch = rows.dstPitch = 128, rows.WidthInBytes = 64, rows.Height = size / 128;
            OK(cuMemcpy2D_v2(&rows));
            OK(cuMemcpyHtoD_v2(own.memory, own.source.data(), size));
            OK(cuMemcpyDtoHAsync_v2(own.result.data(), own.memory, size, nullptr));
            OK(cuMemcpyDtoH_v2(own.result.data(), own.memory, size));
        }
        EXPECT(own.result == own.source);
        std::printf("%d failures\n", failures);
        std::exit(failures != 0);
    };
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread = {};
    if (pthread_attr_setstacksize(&attributes, kib << 10) == 0 &&
        pthread_create(&thread, &attributes, run, &shared) == 0)
        pthread_join(thread, nullptr);
    std::puts("the system refuses such a stack");
}

// Resets the device between copies. The software driver has no reset.
void reset() {
    using reset_function = CUresult (*)(CUdevice);
    void *function = nullptr;
    cuGetProcAddress_v2("cuDevicePrimaryCtxReset", &function, 11000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
    for (unsigned round = 0; function && round < 3; ++round) {
        const bytes source = numbered(large, round);
        bytes result(large);
        void *pinned = nullptr;
        {
            const device_memory memory(large);
            OK(cuMemcpyHtoD_v2(memory, source.data(), large));
            OK(cuMemcpyDtoHAsync_v2(result.data(), memory, large, nullptr));
            OK(cuMemHostAlloc(&pinned, 2 * large, 0));
        }
        EXPECT(result == source);
        OK(reinterpret_cast<reset_function>(function)(0));
        use_device();
        std::printf("free of pinned memory after the reset: %d\n", cuMemFreeHost(pinned));
    }
}

struct trap {
    const char *name;
    void (*run)();
};
constexpr trap traps[] = {{"result-without-waiting", result_without_waiting},
                          {"source-rewritten", source_rewritten},
                          {"free-in-another-thread", free_in_another_thread},
                          {"graph-capture", graph_capture},
                          {"per-thread-streams", per_thread_streams},
                          {"exit-with-copies-in-flight", exit_with_copies_in_flight},
                          {"fork", fork_after_use},
                          {"pinned-memory", pinned_memory},
                          {"narrow-rows", narrow_rows},
                          {"batches", batches},
                          {"between-devices", between_devices},
                          {"green-context", green_context},
                          {"several-contexts", several_contexts},
                          {"errors", errors},
                          {"closed-descriptors", closed_descriptors},
                          {"reset", reset}};

} // namespace

int main(int count, char **arguments) {
    std::setlocale(LC_ALL, "");
    if (count == 3 && std::strcmp(arguments[1], "small-stack") == 0) {
        use_device();
        small_stack(std::strtoul(arguments[2], nullptr, 10));
        return 77;
    }
    if (count == 2 && std::strcmp(arguments[1], "copy-behind-work-that-waits") == 0) {
        use_device();
        copy_behind_work_that_waits();
        return failures != 0;
    }
    if (count == 1)
        for (const trap &one : traps)
            std::puts(one.name);
    for (const trap &one : traps)
        if (count == 2 && std::strcmp(arguments[1], one.name) == 0) {
            use_device();
            one.run();
            std::printf("%d failures\n", failures);
        }
    return failures != 0;
}
