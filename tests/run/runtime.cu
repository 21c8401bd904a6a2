// A program of the CUDA runtime, linked to its shared or static library. ferry-run must not change what it prints.
#include <cstdio>
#include <cstring>
#include <vector>

#include "expect.h"

namespace {

constexpr std::size_t large = std::size_t{8} << 20;

#define OK(call) EXPECT((call) == cudaSuccess)

__global__ void add_one(unsigned char *memory, std::size_t size) {
    const std::size_t at = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
    if (at < size) memory[at] += 1;
}

bytes plus_one(bytes of) {
    for (unsigned char &one : of)
        ++one;
    return of;
}

// The result of an asynchronous copy to pageable memory is there when the call returns, and the source may be written.
void pageable_memory(cudaStream_t stream) {
    const bytes sent = numbered(large, 1);
    bytes source = sent, result(large);
    unsigned char *memory = nullptr;
    OK(cudaMalloc(reinterpret_cast<void **>(&memory), large));
    OK(cudaMemcpyAsync(memory, source.data(), large, cudaMemcpyHostToDevice, stream));
    std::memset(source.data(), 0, large);
    add_one<<<large / 256, 256, 0, stream>>>(memory, large);
    OK(cudaGetLastError());
    OK(cudaMemcpyAsync(result.data(), memory, large, cudaMemcpyDeviceToHost, stream));
    EXPECT(result == plus_one(sent));
    OK(cudaMemcpy(memory, sent.data(), large, cudaMemcpyDefault));
    OK(cudaMemset(memory, 5, large / 2));
    OK(cudaMemcpy(result.data(), memory, large, cudaMemcpyDefault));
    bytes expected = sent;
    std::memset(expected.data(), 5, large / 2);
    EXPECT(result == expected);
    OK(cudaFree(memory));
}

void rows(cudaStream_t stream) {
    constexpr std::size_t width = 12, pitch = 64, count = 4096;
    const bytes source = numbered(pitch * count, 2);
    bytes result(pitch * count), expected(pitch * count);
    void *from = nullptr, *to = nullptr;
    OK(cudaMalloc(&from, pitch * count));
    OK(cudaMalloc(&to, pitch * count));
    OK(cudaMemcpy(from, source.data(), source.size(), cudaMemcpyHostToDevice));
    OK(cudaMemset(to, 0, pitch * count));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy2DAsync(to, pitch, from, pitch, width, count, cudaMemcpyDeviceToDevice, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(result.data(), to, result.size(), cudaMemcpyDeviceToHost));
    for (std::size_t row = 0; row < count; ++row)
        std::memcpy(expected.data() + row * pitch, source.data() + row * pitch, width);
    EXPECT(result == expected);
    OK(cudaFree(from));
    OK(cudaFree(to));
}

void pinned_memory(cudaStream_t stream) {
    const bytes source = numbered(large, 3);
    void *pinned = nullptr, *memory = nullptr, *seen = nullptr;
    OK(cudaMallocHost(&pinned, 2 * large));
    OK(cudaMalloc(&memory, large));
    cudaPointerAttributes attributes = {};
    OK(cudaPointerGetAttributes(&attributes, static_cast<unsigned char *>(pinned) + large));
    std::printf("pinned memory: kind %d, device %d, at its own address %d\n", static_cast<int>(attributes.type),
                attributes.device, attributes.hostPointer == static_cast<unsigned char *>(pinned) + large);
    unsigned flags = 0;
    OK(cudaHostGetFlags(&flags, pinned));
    OK(cudaHostGetDevicePointer(&seen, pinned, 0));
    std::printf("flags %u, the same address on the device %d\n", flags, seen == pinned);
    std::memcpy(pinned, source.data(), large);
    OK(cudaMemcpyAsync(memory, pinned, large, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(static_cast<unsigned char *>(pinned) + large, memory, large, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(std::memcmp(static_cast<unsigned char *>(pinned) + large, source.data(), large) == 0);
    OK(cudaFree(memory));
    OK(cudaFreeHost(pinned));
    std::printf("freed again: %s\n", cudaGetErrorName(cudaFreeHost(pinned)));
    static_cast<void>(cudaGetLastError());
}

void entry_point() {
    using copy_function = int (*)(unsigned long long, const void *, std::size_t);
    void *function = nullptr, *memory = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    OK(cudaGetDriverEntryPointByVersion("cuMemcpyHtoD", &function, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSuccess);
    const bytes source = numbered(large, 4);
    bytes result(large);
    OK(cudaMalloc(&memory, large));
    EXPECT(reinterpret_cast<copy_function>(function)(reinterpret_cast<unsigned long long>(memory), source.data(),
                                                     large) == 0);
    OK(cudaMemcpy(result.data(), memory, large, cudaMemcpyDeviceToHost));
    EXPECT(result == source);
    OK(cudaFree(memory));
}

} // namespace

int main() {
    for (int round = 0; round < 2; ++round) {
        cudaStream_t stream = nullptr;
        OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (const cudaStream_t one : {stream, cudaStream_t{nullptr}}) {
            pageable_memory(one);
            rows(one);
            pinned_memory(one);
        }
        entry_point();
        OK(cudaStreamDestroy(stream));
        if (round == 0) OK(cudaDeviceReset());
    }
    std::printf("%d failures\n", failures);
    return failures != 0;
}
