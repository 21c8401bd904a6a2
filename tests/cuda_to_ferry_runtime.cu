// Every copy and fill of the CUDA runtime beside its form in ferry, on memory alike: all bytes must come out the same.
// docs/cuda-to-ferry.md has a row for each test, and tests/abi/cuda_table.py holds the two together.
// nvcc builds it, for symbols are variables of the device; it runs on a GPU alone.
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <ferry/ferry.h>
#include <ferry/ferry_devices.h>

namespace {

ferry_instance *ferry; // open as long as the program runs

testing::AssertionResult is_success(cudaError_t result) {
    if (result == cudaSuccess) return testing::AssertionSuccess();
    return testing::AssertionFailure() << cudaGetErrorName(result) << ": " << cudaGetErrorString(result);
}
testing::AssertionResult is_success(std::int32_t status) {
    if (status == FERRY_SUCCESS) return testing::AssertionSuccess();
    return testing::AssertionFailure() << ferry_status_name(status) << ": " << ferry_status_text(status);
}
#define EXPECT_OK(call) EXPECT_TRUE(is_success(call))
#define ASSERT_OK(call) ASSERT_TRUE(is_success(call))

using bytes = std::vector<unsigned char>;

bytes random_bytes(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    bytes made(size);
    for (unsigned char &each : made)
        each = static_cast<unsigned char>(random());
    return made;
}

// Every place is this large; images have one slice. Elements of arrays have 4 bytes.
constexpr std::size_t row_pitch = 512, rows = 16, slices = 6, element_size = 4;

enum class memory { pageable, pinned, device, image, volume };

class place {
public:
    explicit place(memory kind, int device = 0) : kind_(kind), device_(device) {
        EXPECT_OK(cudaSetDevice(device));
        if (is_array()) {
            const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
            const cudaExtent extent =
                make_cudaExtent(row_pitch / element_size, rows, kind == memory::volume ? slices : 0);
            EXPECT_OK(cudaMalloc3DArray(&array_, &format, extent));
        } else if (kind == memory::device) {
            EXPECT_OK(cudaMalloc(reinterpret_cast<void **>(&address_), size()));
        } else if (kind == memory::pinned) {
            EXPECT_OK(cudaMallocHost(reinterpret_cast<void **>(&address_), size()));
        } else {
            address_ = new unsigned char[size()];
        }
        EXPECT_OK(cudaSetDevice(0));
    }
    ~place() {
        EXPECT_OK(cudaSetDevice(device_));
        if (is_array())
            EXPECT_OK(cudaFreeArray(array_));
        else if (kind_ == memory::device)
            EXPECT_OK(cudaFree(address_));
        else if (kind_ == memory::pinned)
            EXPECT_OK(cudaFreeHost(address_));
        else
            delete[] address_;
        EXPECT_OK(cudaSetDevice(0));
    }
    place(const place &) = delete;
    place &operator=(const place &) = delete;

    void fill(unsigned seed) {
        const bytes written = random_bytes(size(), seed);
        EXPECT_OK(cudaSetDevice(device_));
        if (is_array()) {
            cudaMemcpy3DParms call = {};
            call.srcPtr = whole(const_cast<unsigned char *>(written.data()));
            call.dstArray = array_;
            call.extent = make_cudaExtent(row_pitch / element_size, rows, depth());
            call.kind = cudaMemcpyHostToDevice;
            EXPECT_OK(cudaMemcpy3D(&call));
        } else {
            EXPECT_OK(cudaMemcpy(address_, written.data(), size(), cudaMemcpyDefault));
        }
        EXPECT_OK(cudaDeviceSynchronize());
        EXPECT_OK(cudaSetDevice(0));
    }
    bytes read() const {
        bytes found(size());
        EXPECT_OK(cudaSetDevice(device_));
        if (is_array()) {
            cudaMemcpy3DParms call = {};
            call.srcArray = array_;
            call.dstPtr = whole(found.data());
            call.extent = make_cudaExtent(row_pitch / element_size, rows, depth());
            call.kind = cudaMemcpyDeviceToHost;
            EXPECT_OK(cudaMemcpy3D(&call));
        } else {
            EXPECT_OK(cudaMemcpy(found.data(), address_, size(), cudaMemcpyDefault));
        }
        EXPECT_OK(cudaSetDevice(0));
        return found;
    }

    bool is_array() const { return kind_ == memory::image || kind_ == memory::volume; }
    std::size_t depth() const { return kind_ == memory::image ? 1 : slices; }
    std::size_t size() const { return row_pitch * rows * depth(); }
    unsigned char *address() const { return address_; }
    std::uint64_t number() const { return reinterpret_cast<std::uintptr_t>(address_); }
    cudaArray_t array() const { return array_; }
    int device() const { return device_; }
    cudaPitchedPtr pitched() const { return whole(address_); }

private:
    static cudaPitchedPtr whole(unsigned char *address) {
        return make_cudaPitchedPtr(address, row_pitch, row_pitch, rows);
    }

    memory kind_;
    int device_;
    unsigned char *address_ = nullptr;
    cudaArray_t array_ = nullptr;
};

// Where each side's box begins, in bytes, rows and slices, and its extent; in one plane, z and depth do not count.
constexpr std::size_t from_x = 12, from_y = 2, from_z = 1, to_x = 36, to_y = 5, to_z = 2;
constexpr std::size_t width = 84, height = 7, depth = 3;
constexpr std::size_t line = 1204; // bytes
constexpr int value = 0x1a5;       // of which a fill takes the lowest byte

struct box {
    std::size_t from_x, from_y, from_z, to_x, to_y, to_z, width, height, depth;
};
constexpr box plane = {from_x, from_y, 0, to_x, to_y, 0, width, height, 1};
constexpr box volume = {from_x, from_y, from_z, to_x, to_y, to_z, width, height, depth};

ferry_place describe(const place &at, std::size_t x, std::size_t y, std::size_t z) {
    ferry_place described;
    if (at.is_array()) { // the runtime's array is the driver's, by another name
        ferry_place_array(&described, at.device(), reinterpret_cast<CUarray_st *>(at.array()));
    } else {
        ferry_place_any(&described, at.number());
        described.row_pitch = row_pitch;
        described.slice_height = rows;
    }
    described.x = x;
    described.y = y;
    described.z = z;
    return described;
}

ferry_copy_desc describe(const place &from, const place &to, const box &what) {
    const ferry_place source = describe(from, what.from_x, what.from_y, what.from_z);
    const ferry_place destination = describe(to, what.to_x, what.to_y, what.to_z);
    ferry_copy_desc copy;
    ferry_copy_desc_set(&copy, &destination, &source, what.width, what.height, what.depth);
    return copy;
}

std::int32_t copy_box(const place &from, const place &to, const box &what) {
    const ferry_copy_desc copy = describe(from, to, what);
    return ferry_copy(ferry, &copy, nullptr, nullptr);
}
std::int32_t copy_box_async(const place &from, const place &to, const box &what, cudaStream_t stream) {
    const ferry_copy_desc copy = describe(from, to, what);
    return ferry_copy_async(ferry, &copy, nullptr, stream, nullptr, nullptr);
}

ferry_fill_desc describe_fill(const ferry_place &to, std::size_t fill_width, std::size_t fill_height = 1,
                              std::size_t fill_depth = 1) {
    const unsigned char pattern = static_cast<unsigned char>(value);
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &to, fill_width, fill_height, fill_depth, &pattern, 1);
    return fill;
}
ferry_fill_desc describe_line_fill(const place &to, std::size_t offset, std::size_t size) {
    ferry_place destination;
    ferry_place_any(&destination, to.number() + offset);
    return describe_fill(destination, size);
}

constexpr std::size_t symbol_size = 4096;
__device__ unsigned char symbol[symbol_size];

class cuda_runtime_to_ferry : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_OK(cudaSetDevice(0));
        ASSERT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        void *address = nullptr; // found here, as a capture might forbid it
        ASSERT_OK(cudaGetSymbolAddress(&address, symbol));
        symbol_address = reinterpret_cast<std::uintptr_t>(address);
    }
    void TearDown() override {
        EXPECT_OK(cudaStreamDestroy(stream));
        EXPECT_OK(cudaGetLastError());
    }

    // `theirs` and `ours` do the same from one source, each to a destination of its own, and return their status.
    template <class Theirs, class Ours>
    void expect_same(memory from, memory to, Theirs theirs, Ours ours, int source_device = 0) {
        SCOPED_TRACE("memory " + std::to_string(static_cast<int>(from)) + " to " +
                     std::to_string(static_cast<int>(to)));
        place source(from, source_device), expected(to), copied(to);
        source.fill(1);
        expected.fill(2);
        copied.fill(2);
        const bytes before = expected.read(), sent = source.read();
        ASSERT_OK(theirs(source, expected));
        ASSERT_OK(cudaDeviceSynchronize());
        ASSERT_OK(ours(source, copied));
        ASSERT_OK(cudaDeviceSynchronize());
        EXPECT_NE(expected.read(), before) << "CUDA's call copied nothing";
        EXPECT_EQ(copied.read(), expected.read());
        EXPECT_EQ(source.read(), sent);
    }

    cudaStream_t stream = nullptr;
    std::uint64_t symbol_address = 0;
};

// ---- One line ---------------------------------------------------------------------------------------------------

struct direction {
    memory from, to;
    cudaMemcpyKind kind;
};
constexpr direction every_kind[] = {{memory::pageable, memory::pageable, cudaMemcpyHostToHost},
                                    {memory::pageable, memory::device, cudaMemcpyHostToDevice},
                                    {memory::pinned, memory::device, cudaMemcpyHostToDevice},
                                    {memory::device, memory::pageable, cudaMemcpyDeviceToHost},
                                    {memory::device, memory::pinned, cudaMemcpyDeviceToHost},
                                    {memory::device, memory::device, cudaMemcpyDeviceToDevice},
                                    {memory::pinned, memory::device, cudaMemcpyDefault},
                                    {memory::pageable, memory::device, cudaMemcpyDefault},
                                    {memory::device, memory::pageable, cudaMemcpyDefault}};

std::int32_t copy_line_async(const place &from, const place &to, cudaStream_t stream) {
    return ferry_copy_bytes_async(ferry, to.number() + to_x, from.number() + from_x, line, nullptr, stream, nullptr,
                                  nullptr);
}
std::int32_t copy_line(const place &from, const place &to) {
    return ferry_copy_bytes(ferry, to.number() + to_x, from.number() + from_x, line, nullptr, nullptr);
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpy_of_every_kind_is_ferry_copy_bytes) {
    for (const direction &each : every_kind)
        expect_same(
            each.from, each.to,
            [&](const place &from, const place &to) {
                return cudaMemcpy(to.address() + to_x, from.address() + from_x, line, each.kind);
            },
            copy_line);
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpyAsync_of_every_kind_is_ferry_copy_bytes_async) {
    for (const direction &each : every_kind)
        expect_same(
            each.from, each.to,
            [&](const place &from, const place &to) {
                return cudaMemcpyAsync(to.address() + to_x, from.address() + from_x, line, each.kind, stream);
            },
            [&](const place &from, const place &to) { return copy_line_async(from, to, stream); });
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpyAsync_ptsz_takes_the_per_thread_stream) {
    expect_same(
        memory::pinned, memory::device,
        [&](const place &from, const place &to) {
            return cudaMemcpyAsync(to.address() + to_x, from.address() + from_x, line, cudaMemcpyDefault,
                                   cudaStreamPerThread);
        },
        [&](const place &from, const place &to) {
            return copy_line_async(from, to, reinterpret_cast<CUstream_st *>(std::uintptr_t{FERRY_DEFAULT_STREAM_PER_THREAD}));
        });
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpyBatchAsync_is_ferry_copy_pieces_async) {
    constexpr std::size_t count = 3, size = 100, apart = 200;
    expect_same(
        memory::pinned, memory::device,
        [&](const place &from, const place &to) {
            void *destinations[count];
            const void *sources[count];
            std::size_t sizes[count];
            for (std::size_t i = 0; i < count; ++i) {
                destinations[i] = to.address() + i * apart;
                sources[i] = from.address() + i * apart;
                sizes[i] = size;
            }
            cudaMemcpyAttributes attributes = {};
            attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
            std::size_t first = 0;
            return cudaMemcpyBatchAsync(destinations, sources, sizes, count, &attributes, &first, 1, stream);
        },
        [&](const place &from, const place &to) {
            std::uint64_t destinations[count], sources[count], sizes[count];
            for (std::size_t i = 0; i < count; ++i) {
                destinations[i] = to.number() + i * apart;
                sources[i] = from.number() + i * apart;
                sizes[i] = size;
            }
            ferry_piece_list pieces;
            ferry_piece_list_set_arrays(&pieces, destinations, sources, sizes, count);
            return ferry_copy_pieces_async(ferry, &pieces, nullptr, stream, nullptr, nullptr);
        });
}

// ---- Rows -------------------------------------------------------------------------------------------------------

unsigned char *source_row(const place &from) { return from.address() + from_y * row_pitch + from_x; }
unsigned char *destination_row(const place &to) { return to.address() + to_y * row_pitch + to_x; }

class cuda_runtime_rows_to_ferry : public cuda_runtime_to_ferry {
protected:
    template <class Theirs> void expect_same_rows(memory from, memory to, Theirs theirs) {
        expect_same(from, to, theirs, [](const place &from, const place &to) { return copy_box(from, to, plane); });
    }
    template <class Theirs> void expect_same_rows_async(memory from, memory to, Theirs theirs) {
        expect_same(from, to, theirs,
                    [&](const place &from, const place &to) { return copy_box_async(from, to, plane, stream); });
    }
};

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2D_of_every_kind_is_ferry_copy) {
    for (const direction &each : every_kind)
        expect_same_rows(each.from, each.to, [&](const place &from, const place &to) {
            return cudaMemcpy2D(destination_row(to), row_pitch, source_row(from), row_pitch, width, height, each.kind);
        });
}

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2DAsync_of_every_kind_is_ferry_copy_async) {
    for (const direction &each : every_kind)
        expect_same_rows_async(each.from, each.to, [&](const place &from, const place &to) {
            return cudaMemcpy2DAsync(destination_row(to), row_pitch, source_row(from), row_pitch, width, height,
                                     each.kind, stream);
        });
}

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2DToArray_is_ferry_copy) {
    for (const memory from : {memory::pageable, memory::pinned, memory::device})
        expect_same_rows(from, memory::image, [&](const place &from, const place &to) {
            return cudaMemcpy2DToArray(to.array(), to_x, to_y, source_row(from), row_pitch, width, height,
                                       cudaMemcpyDefault);
        });
}

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2DToArrayAsync_is_ferry_copy_async) {
    for (const memory from : {memory::pageable, memory::pinned, memory::device})
        expect_same_rows_async(from, memory::image, [&](const place &from, const place &to) {
            return cudaMemcpy2DToArrayAsync(to.array(), to_x, to_y, source_row(from), row_pitch, width, height,
                                            cudaMemcpyDefault, stream);
        });
}

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2DFromArray_is_ferry_copy) {
    for (const memory to : {memory::pageable, memory::pinned, memory::device})
        expect_same_rows(memory::image, to, [&](const place &from, const place &to) {
            return cudaMemcpy2DFromArray(destination_row(to), row_pitch, from.array(), from_x, from_y, width, height,
                                         cudaMemcpyDefault);
        });
}

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2DFromArrayAsync_is_ferry_copy_async) {
    for (const memory to : {memory::pageable, memory::pinned, memory::device})
        expect_same_rows_async(memory::image, to, [&](const place &from, const place &to) {
            return cudaMemcpy2DFromArrayAsync(destination_row(to), row_pitch, from.array(), from_x, from_y, width,
                                              height, cudaMemcpyDefault, stream);
        });
}

TEST_F(cuda_runtime_rows_to_ferry, cudaMemcpy2DArrayToArray_is_ferry_copy) {
    expect_same_rows(memory::image, memory::image, [&](const place &from, const place &to) {
        return cudaMemcpy2DArrayToArray(to.array(), to_x, to_y, from.array(), from_x, from_y, width, height,
                                        cudaMemcpyDeviceToDevice);
    });
}

// ---- The deprecated calls on arrays: a part of one row, or whole rows ---------------------------------------------

class cuda_runtime_deprecated_to_ferry : public cuda_runtime_to_ferry {
protected:
    // theirs(source, destination, offsets of both, bytes) beside ferry's copy of one part and of three rows.
    template <class Theirs> void expect_same_parts(memory from, memory to, bool is_async, Theirs theirs) {
        constexpr box part = {from_x, from_y, 0, to_x, to_y, 0, width, 1, 1};
        constexpr box whole_rows = {0, from_y, 0, 0, to_y, 0, row_pitch, 3, 1};
        for (const box &what : {part, whole_rows})
            expect_same(
                from, to, [&](const place &from, const place &to) { return theirs(from, to, what); },
                [&](const place &from, const place &to) {
                    return is_async ? copy_box_async(from, to, what, stream) : copy_box(from, to, what);
                });
    }
    static const void *linear(const place &from, const box &what) {
        return from.address() + what.from_y * row_pitch + what.from_x;
    }
    static void *linear_to(const place &to, const box &what) {
        return to.address() + what.to_y * row_pitch + what.to_x;
    }
};

TEST_F(cuda_runtime_deprecated_to_ferry, cudaMemcpyToArray_is_ferry_copy) {
    expect_same_parts(memory::pageable, memory::image, false, [&](const place &from, const place &to, const box &what) {
        return cudaMemcpyToArray(to.array(), what.to_x, what.to_y, linear(from, what), what.width * what.height,
                                 cudaMemcpyHostToDevice);
    });
}

TEST_F(cuda_runtime_deprecated_to_ferry, cudaMemcpyToArrayAsync_is_ferry_copy_async) {
    expect_same_parts(memory::pinned, memory::image, true, [&](const place &from, const place &to, const box &what) {
        return cudaMemcpyToArrayAsync(to.array(), what.to_x, what.to_y, linear(from, what), what.width * what.height,
                                      cudaMemcpyHostToDevice, stream);
    });
}

TEST_F(cuda_runtime_deprecated_to_ferry, cudaMemcpyFromArray_is_ferry_copy) {
    expect_same_parts(memory::image, memory::pageable, false, [&](const place &from, const place &to, const box &what) {
        return cudaMemcpyFromArray(linear_to(to, what), from.array(), what.from_x, what.from_y,
                                   what.width * what.height, cudaMemcpyDeviceToHost);
    });
}

TEST_F(cuda_runtime_deprecated_to_ferry, cudaMemcpyFromArrayAsync_is_ferry_copy_async) {
    expect_same_parts(memory::image, memory::pinned, true, [&](const place &from, const place &to, const box &what) {
        return cudaMemcpyFromArrayAsync(linear_to(to, what), from.array(), what.from_x, what.from_y,
                                        what.width * what.height, cudaMemcpyDeviceToHost, stream);
    });
}

TEST_F(cuda_runtime_deprecated_to_ferry, cudaMemcpyArrayToArray_is_ferry_copy) {
    expect_same_parts(memory::image, memory::image, false, [&](const place &from, const place &to, const box &what) {
        return cudaMemcpyArrayToArray(to.array(), what.to_x, what.to_y, from.array(), what.from_x, what.from_y,
                                      what.width * what.height, cudaMemcpyDeviceToDevice);
    });
}

// ---- Boxes ------------------------------------------------------------------------------------------------------

constexpr memory volume_ends[][2] = {{memory::pageable, memory::device}, {memory::device, memory::pinned},
                                     {memory::device, memory::device},   {memory::pinned, memory::volume},
                                     {memory::volume, memory::pageable}, {memory::device, memory::volume},
                                     {memory::volume, memory::device},   {memory::volume, memory::volume}};

// In the runtime's units: as soon as one end is an array, every x and the width count its elements. CUDA's manual says
// bytes for the x of linear memory; CUDA 13.0 counts elements there too.
template <class Parameters> Parameters describe_theirs(const place &from, const place &to) {
    Parameters call = {};
    if (from.is_array())
        call.srcArray = from.array();
    else
        call.srcPtr = from.pitched();
    if (to.is_array())
        call.dstArray = to.array();
    else
        call.dstPtr = to.pitched();
    const std::size_t unit = from.is_array() || to.is_array() ? element_size : 1;
    call.srcPos = make_cudaPos(from_x / unit, from_y, from_z);
    call.dstPos = make_cudaPos(to_x / unit, to_y, to_z);
    call.extent = make_cudaExtent(width / unit, height, depth);
    return call;
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpy3D_is_ferry_copy) {
    for (const auto &ends : volume_ends)
        expect_same(
            ends[0], ends[1],
            [](const place &from, const place &to) {
                auto call = describe_theirs<cudaMemcpy3DParms>(from, to);
                call.kind = cudaMemcpyDefault;
                return cudaMemcpy3D(&call);
            },
            [](const place &from, const place &to) { return copy_box(from, to, volume); });
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpy3DAsync_is_ferry_copy_async) {
    for (const auto &ends : volume_ends)
        expect_same(
            ends[0], ends[1],
            [&](const place &from, const place &to) {
                auto call = describe_theirs<cudaMemcpy3DParms>(from, to);
                call.kind = cudaMemcpyDefault;
                return cudaMemcpy3DAsync(&call, stream);
            },
            [&](const place &from, const place &to) { return copy_box_async(from, to, volume, stream); });
}

cudaMemcpy3DOperand operand(const place &at, std::size_t x, std::size_t y, std::size_t z, std::size_t unit) {
    cudaMemcpy3DOperand made = {};
    if (at.is_array()) {
        made.type = cudaMemcpyOperandTypeArray;
        made.op.array.array = at.array();
        made.op.array.offset = {x / unit, y, z};
    } else {
        made.type = cudaMemcpyOperandTypePointer;
        made.op.ptr.ptr = at.address() + (z * rows + y) * row_pitch + x;
        made.op.ptr.rowLength = row_pitch / unit;
        made.op.ptr.layerHeight = rows;
    }
    return made;
}

TEST_F(cuda_runtime_to_ferry, cudaMemcpy3DBatchAsync_is_ferry_copy_batch_async) {
    // The box in two: its first slice, and the others.
    const box first = {from_x, from_y, from_z, to_x, to_y, to_z, width, height, 1};
    const box others = {from_x, from_y, from_z + 1, to_x, to_y, to_z + 1, width, height, depth - 1};
    for (const auto &ends : volume_ends)
        if (ends[0] != memory::pageable && ends[1] != memory::pageable)
            expect_same(
                ends[0], ends[1],
                [&](const place &from, const place &to) {
                    const std::size_t unit = from.is_array() || to.is_array() ? element_size : 1;
                    cudaMemcpy3DBatchOp operations[2] = {};
                    for (int i = 0; i < 2; ++i) {
                        const box &what = i == 0 ? first : others;
                        operations[i].src = operand(from, what.from_x, what.from_y, what.from_z, unit);
                        operations[i].dst = operand(to, what.to_x, what.to_y, what.to_z, unit);
                        operations[i].extent = make_cudaExtent(what.width / unit, what.height, what.depth);
                        operations[i].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
                    }
                    return cudaMemcpy3DBatchAsync(2, operations, 0, stream);
                },
                [&](const place &from, const place &to) {
                    const ferry_copy_desc copies[] = {describe(from, to, first), describe(from, to, others)};
                    return ferry_copy_batch_async(ferry, copies, 2, nullptr, stream, nullptr, nullptr);
                });
}

// ---- Two devices ------------------------------------------------------------------------------------------------

class cuda_runtime_peers_to_ferry : public cuda_runtime_to_ferry {
protected:
    // From device 1 to device 0, without peer access and, where there is any, with it.
    template <class Theirs, class Ours> void expect_same_between(memory kind, Theirs theirs, Ours ours) {
        int count = 0;
        ASSERT_OK(cudaGetDeviceCount(&count));
        if (count < 2) GTEST_SKIP() << "one device only";
        expect_same(kind, kind, theirs, ours, 1);
        for (const int device : {0, 1}) {
            const std::int32_t status = ferry_peer_enable(ferry, device, 1 - device, nullptr);
            if (status == FERRY_ERROR_PEER_ACCESS || status == FERRY_ERROR_DATA_LOST) return;
            ASSERT_OK(status);
        }
        SCOPED_TRACE("with peer access");
        expect_same(kind, kind, theirs, ours, 1);
        for (const int device : {0, 1})
            EXPECT_OK(ferry_peer_disable(ferry, device, 1 - device, nullptr));
    }
};

TEST_F(cuda_runtime_peers_to_ferry, cudaMemcpyPeer_is_ferry_copy_bytes) {
    expect_same_between(
        memory::device,
        [](const place &from, const place &to) {
            return cudaMemcpyPeer(to.address() + to_x, 0, from.address() + from_x, 1, line);
        },
        copy_line);
}

TEST_F(cuda_runtime_peers_to_ferry, cudaMemcpyPeerAsync_is_ferry_copy_bytes_async) {
    expect_same_between(
        memory::device,
        [&](const place &from, const place &to) {
            return cudaMemcpyPeerAsync(to.address() + to_x, 0, from.address() + from_x, 1, line, stream);
        },
        [&](const place &from, const place &to) { return copy_line_async(from, to, stream); });
}

cudaMemcpy3DPeerParms describe_peers(const place &from, const place &to) {
    auto call = describe_theirs<cudaMemcpy3DPeerParms>(from, to);
    call.srcDevice = from.device();
    call.dstDevice = to.device();
    return call;
}

TEST_F(cuda_runtime_peers_to_ferry, cudaMemcpy3DPeer_is_ferry_copy) {
    for (const memory kind : {memory::device, memory::volume})
        expect_same_between(
            kind,
            [](const place &from, const place &to) {
                const cudaMemcpy3DPeerParms call = describe_peers(from, to);
                return cudaMemcpy3DPeer(&call);
            },
            [](const place &from, const place &to) { return copy_box(from, to, volume); });
}

TEST_F(cuda_runtime_peers_to_ferry, cudaMemcpy3DPeerAsync_is_ferry_copy_async) {
    for (const memory kind : {memory::device, memory::volume})
        expect_same_between(
            kind,
            [&](const place &from, const place &to) {
                const cudaMemcpy3DPeerParms call = describe_peers(from, to);
                return cudaMemcpy3DPeerAsync(&call, stream);
            },
            [&](const place &from, const place &to) { return copy_box_async(from, to, volume, stream); });
}

// ---- Symbols ----------------------------------------------------------------------------------------------------

class cuda_symbols_to_ferry : public cuda_runtime_to_ferry {
protected:
    static bytes read() {
        bytes found(symbol_size);
        EXPECT_OK(cudaMemcpyFromSymbol(found.data(), symbol, symbol_size));
        return found;
    }
    // What the symbol holds after `write` put part of `source` into it, over the same bytes each time.
    template <class Write> bytes written_by(memory kind, Write write) {
        place source(kind);
        source.fill(1);
        const bytes before = random_bytes(symbol_size, 2);
        EXPECT_OK(cudaMemcpyToSymbol(symbol, before.data(), symbol_size));
        EXPECT_OK(cudaDeviceSynchronize());
        EXPECT_OK(write(source));
        EXPECT_OK(cudaDeviceSynchronize());
        const bytes after = read();
        EXPECT_NE(after, before) << "nothing was copied";
        return after;
    }
    // Into a destination each, from the same bytes in the symbol.
    template <class Theirs, class Ours> void expect_same_reads(memory to, Theirs theirs, Ours ours) {
        const bytes before = random_bytes(symbol_size, 2);
        EXPECT_OK(cudaMemcpyToSymbol(symbol, before.data(), symbol_size));
        expect_same(
            memory::device, to, [&](const place &, const place &to) { return theirs(to); },
            [&](const place &, const place &to) { return ours(to); });
    }
};

TEST_F(cuda_symbols_to_ferry, cudaMemcpyToSymbol_is_ferry_copy_bytes) {
    for (const memory kind : {memory::pageable, memory::device})
        EXPECT_EQ(written_by(kind,
                             [&](const place &from) {
                                 return ferry_copy_bytes(ferry, symbol_address + to_x, from.number() + from_x, line,
                                                         nullptr, nullptr);
                             }),
                  written_by(kind, [](const place &from) {
                      return cudaMemcpyToSymbol(symbol, from.address() + from_x, line, to_x, cudaMemcpyDefault);
                  }));
}

TEST_F(cuda_symbols_to_ferry, cudaMemcpyToSymbolAsync_is_ferry_copy_bytes_async) {
    for (const memory kind : {memory::pinned, memory::device})
        EXPECT_EQ(written_by(kind,
                             [&](const place &from) {
                                 return ferry_copy_bytes_async(ferry, symbol_address + to_x, from.number() + from_x,
                                                               line, nullptr, stream, nullptr, nullptr);
                             }),
                  written_by(kind, [&](const place &from) {
                      return cudaMemcpyToSymbolAsync(symbol, from.address() + from_x, line, to_x, cudaMemcpyDefault,
                                                     stream);
                  }));
}

TEST_F(cuda_symbols_to_ferry, cudaMemcpyFromSymbol_is_ferry_copy_bytes) {
    for (const memory kind : {memory::pageable, memory::device})
        expect_same_reads(
            kind,
            [](const place &to) {
                return cudaMemcpyFromSymbol(to.address() + to_x, symbol, line, from_x, cudaMemcpyDefault);
            },
            [&](const place &to) {
                return ferry_copy_bytes(ferry, to.number() + to_x, symbol_address + from_x, line, nullptr, nullptr);
            });
}

TEST_F(cuda_symbols_to_ferry, cudaMemcpyFromSymbolAsync_is_ferry_copy_bytes_async) {
    for (const memory kind : {memory::pinned, memory::device})
        expect_same_reads(
            kind,
            [&](const place &to) {
                return cudaMemcpyFromSymbolAsync(to.address() + to_x, symbol, line, from_x, cudaMemcpyDefault, stream);
            },
            [&](const place &to) {
                return ferry_copy_bytes_async(ferry, to.number() + to_x, symbol_address + from_x, line, nullptr, stream,
                                              nullptr, nullptr);
            });
}

// ---- Fills ------------------------------------------------------------------------------------------------------

class cuda_runtime_fills_to_ferry : public cuda_runtime_to_ferry {
protected:
    // theirs(place) beside one or more of ferry's fills.
    template <class Theirs, class Ours> void expect_same_fill(memory kind, Theirs theirs, Ours ours) {
        expect_same(
            memory::device, kind, [&](const place &, const place &to) { return theirs(to); },
            [&](const place &, const place &to) { return ours(to); });
    }
    std::int32_t run(const ferry_fill_desc &fill, bool is_async) {
        return is_async ? ferry_fill_async(ferry, &fill, nullptr, stream, nullptr, nullptr)
                        : ferry_fill(ferry, &fill, nullptr, nullptr);
    }
    // Slices with or without gaps: one fill in both cases.
    std::int32_t run_slices(const place &to, std::size_t fill_height, bool is_async) {
        return run(describe_fill(describe(to, 0, 0, 0), width, fill_height, depth), is_async);
    }
};

TEST_F(cuda_runtime_fills_to_ferry, cudaMemset_is_ferry_fill) {
    for (const memory kind : {memory::device, memory::pinned})
        expect_same_fill(
            kind, [](const place &to) { return cudaMemset(to.address() + to_x, value, line); },
            [&](const place &to) { return run(describe_line_fill(to, to_x, line), false); });
}

TEST_F(cuda_runtime_fills_to_ferry, cudaMemsetAsync_is_ferry_fill_async) {
    for (const memory kind : {memory::device, memory::pinned})
        expect_same_fill(
            kind, [&](const place &to) { return cudaMemsetAsync(to.address() + to_x, value, line, stream); },
            [&](const place &to) { return run(describe_line_fill(to, to_x, line), true); });
}

TEST_F(cuda_runtime_fills_to_ferry, cudaMemset2D_is_ferry_fill) {
    for (const memory kind : {memory::device, memory::pinned})
        expect_same_fill(
            kind, [](const place &to) { return cudaMemset2D(destination_row(to), row_pitch, value, width, height); },
            [&](const place &to) { return run(describe_fill(describe(to, to_x, to_y, 0), width, height), false); });
}

TEST_F(cuda_runtime_fills_to_ferry, cudaMemset2DAsync_is_ferry_fill_async) {
    for (const memory kind : {memory::device, memory::pinned})
        expect_same_fill(
            kind,
            [&](const place &to) {
                return cudaMemset2DAsync(destination_row(to), row_pitch, value, width, height, stream);
            },
            [&](const place &to) { return run(describe_fill(describe(to, to_x, to_y, 0), width, height), true); });
}

TEST_F(cuda_runtime_fills_to_ferry, cudaMemset3D_is_ferry_fill) {
    for (const std::size_t fill_height : {rows, height})
        expect_same_fill(
            memory::device,
            [&](const place &to) {
                return cudaMemset3D(to.pitched(), value, make_cudaExtent(width, fill_height, depth));
            },
            [&](const place &to) { return run_slices(to, fill_height, false); });
}

TEST_F(cuda_runtime_fills_to_ferry, cudaMemset3DAsync_is_ferry_fill_async) {
    for (const std::size_t fill_height : {rows, height})
        expect_same_fill(
            memory::device,
            [&](const place &to) {
                return cudaMemset3DAsync(to.pitched(), value, make_cudaExtent(width, fill_height, depth), stream);
            },
            [&](const place &to) { return run_slices(to, fill_height, true); });
}

// ---- Nodes of graphs --------------------------------------------------------------------------------------------

class cuda_runtime_graphs_to_ferry : public cuda_runtime_to_ferry {
protected:
    // A graph of one node, which add(node, graph) makes.
    template <class Add> cudaGraph_t build(Add add, cudaGraphNode_t &node) {
        cudaGraph_t graph = nullptr;
        EXPECT_OK(cudaGraphCreate(&graph, 0));
        EXPECT_OK(add(&node, graph));
        return graph;
    }
    template <class Enqueue> cudaGraph_t capture(Enqueue enqueue) {
        cudaGraph_t graph = nullptr;
        EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        EXPECT_OK(enqueue());
        EXPECT_OK(cudaStreamEndCapture(stream, &graph));
        return graph;
    }
    cudaGraphNode_t only_node(cudaGraph_t graph) {
        cudaGraphNode_t node = nullptr;
        std::size_t count = 1;
        EXPECT_OK(cudaGraphGetNodes(graph, &node, &count));
        return node;
    }

    // Launches what `graph` is after change(executable), and destroys both.
    template <class Change> cudaError_t launch(cudaGraph_t graph, Change change) {
        cudaGraphExec_t executable = nullptr;
        EXPECT_OK(cudaGraphInstantiate(&executable, graph, 0));
        EXPECT_OK(change(executable));
        EXPECT_OK(cudaGraphLaunch(executable, stream));
        const cudaError_t result = cudaStreamSynchronize(stream);
        EXPECT_OK(cudaGraphExecDestroy(executable));
        EXPECT_OK(cudaGraphDestroy(graph));
        return result;
    }
    cudaError_t launch(cudaGraph_t graph) {
        return launch(graph, [](cudaGraphExec_t) { return cudaSuccess; });
    }
    // CUDA's ways to a node: made as it is to be, made otherwise and changed in the graph, or in what the graph became.
    template <class Add> cudaError_t launch_added(Add add) {
        cudaGraphNode_t node = nullptr;
        return launch(build(add, node));
    }
    template <class Add, class Set> cudaError_t launch_set(Add add, Set set) {
        cudaGraphNode_t node = nullptr;
        const cudaGraph_t graph = build(add, node);
        EXPECT_OK(set(node));
        return launch(graph);
    }
    template <class Add, class Set> cudaError_t launch_exec_set(Add add, Set set) {
        cudaGraphNode_t node = nullptr;
        const cudaGraph_t graph = build(add, node);
        return launch(graph, [&](cudaGraphExec_t executable) { return set(executable, node); });
    }
    // ferry's: captured, or captured anew and brought into what another capture became.
    template <class Enqueue> cudaError_t launch_captured(Enqueue enqueue) { return launch(capture(enqueue)); }
    template <class Before, class After> cudaError_t launch_updated(Before before, After after) {
        const cudaGraph_t wanted = capture(after);
        const cudaError_t result = launch(capture(before), [&](cudaGraphExec_t executable) {
            cudaGraphExecUpdateResultInfo found = {};
            return cudaGraphExecUpdate(executable, wanted, &found);
        });
        EXPECT_OK(cudaGraphDestroy(wanted));
        return result;
    }

    // A copy of `line` bytes, or of fewer bytes at another address: what a node does before it is changed.
    struct span {
        std::size_t from, to, size;
    };
    static constexpr span wanted = {from_x, to_x, line}, other = {to_x, from_x, line / 2};

    std::int32_t copy(const place &from, const place &to, const span &what) {
        return ferry_copy_bytes_async(ferry, to.number() + what.to, from.number() + what.from, what.size, nullptr,
                                      stream, nullptr, nullptr);
    }
    std::int32_t copy_to_symbol(const place &from, const span &what) {
        return ferry_copy_bytes_async(ferry, symbol_address + what.to, from.number() + what.from, what.size, nullptr,
                                      stream, nullptr, nullptr);
    }
    std::int32_t copy_from_symbol(const place &to, const span &what) {
        return ferry_copy_bytes_async(ferry, to.number() + what.to, symbol_address + what.from, what.size, nullptr,
                                      stream, nullptr, nullptr);
    }
    std::int32_t fill(const place &to, const span &what) {
        const ferry_fill_desc fill = describe_line_fill(to, what.to, what.size);
        return ferry_fill_async(ferry, &fill, nullptr, stream, nullptr, nullptr);
    }

    static cudaMemcpy3DParms parameters(const place &from, const place &to, const span &what) {
        cudaMemcpy3DParms call = {};
        call.srcPtr = make_cudaPitchedPtr(from.address() + what.from, what.size, what.size, 1);
        call.dstPtr = make_cudaPitchedPtr(to.address() + what.to, what.size, what.size, 1);
        call.extent = make_cudaExtent(what.size, 1, 1);
        call.kind = cudaMemcpyDeviceToDevice;
        return call;
    }
    static cudaMemsetParams fill_parameters(const place &to, const span &what) {
        cudaMemsetParams call = {};
        call.dst = to.address() + what.to;
        call.elementSize = 1;
        call.value = value & 0xff;
        call.width = what.size;
        call.height = 1;
        return call;
    }

    // Each adds a node for `what`.
    static auto adds(const place &from, const place &to, const span &what) {
        return [&](cudaGraphNode_t *node, cudaGraph_t graph) {
            const cudaMemcpy3DParms call = parameters(from, to, what);
            return cudaGraphAddMemcpyNode(node, graph, nullptr, 0, &call);
        };
    }
    static auto adds_line(const place &from, const place &to, const span &what) {
        return [&](cudaGraphNode_t *node, cudaGraph_t graph) {
            return cudaGraphAddMemcpyNode1D(node, graph, nullptr, 0, to.address() + what.to, from.address() + what.from,
                                            what.size, cudaMemcpyDeviceToDevice);
        };
    }
    static auto adds_to_symbol(const place &from, const span &what) {
        return [&](cudaGraphNode_t *node, cudaGraph_t graph) {
            return cudaGraphAddMemcpyNodeToSymbol(node, graph, nullptr, 0, symbol, from.address() + what.from,
                                                  what.size, what.to, cudaMemcpyDeviceToDevice);
        };
    }
    static auto adds_from_symbol(const place &to, const span &what) {
        return [&](cudaGraphNode_t *node, cudaGraph_t graph) {
            return cudaGraphAddMemcpyNodeFromSymbol(node, graph, nullptr, 0, to.address() + what.to, symbol, what.size,
                                                    what.from, cudaMemcpyDeviceToDevice);
        };
    }
    static auto adds_fill(const place &to, const span &what) {
        return [&](cudaGraphNode_t *node, cudaGraph_t graph) {
            const cudaMemsetParams call = fill_parameters(to, what);
            return cudaGraphAddMemsetNode(node, graph, nullptr, 0, &call);
        };
    }

    // theirs(source, destination) beside the capture of a copy, from memory to memory on the device.
    template <class Theirs> void expect_same_copy(Theirs theirs) {
        expect_same(memory::device, memory::device, theirs, [&](const place &from, const place &to) {
            return launch_captured([&] { return copy(from, to, wanted); });
        });
    }
    template <class Theirs> void expect_same_updated_copy(Theirs theirs) {
        expect_same(memory::device, memory::device, theirs, [&](const place &from, const place &to) {
            return launch_updated([&] { return copy(from, to, other); }, [&] { return copy(from, to, wanted); });
        });
    }
    template <class Theirs> void expect_same_captured_fill(Theirs theirs) {
        expect_same(memory::device, memory::device, theirs,
                    [&](const place &, const place &to) { return launch_captured([&] { return fill(to, wanted); }); });
    }

    // The symbol before either side writes to it, or reads from it.
    static void reset_symbol() {
        const bytes before = random_bytes(symbol_size, 3);
        EXPECT_OK(cudaMemcpyToSymbol(symbol, before.data(), symbol_size));
        EXPECT_OK(cudaDeviceSynchronize());
    }
    // What came into the symbol is read back into the destinations, which expect_same compares.
    static cudaError_t read_symbol_into(const place &to) {
        return cudaMemcpyFromSymbol(to.address(), symbol, symbol_size, 0, cudaMemcpyDeviceToDevice);
    }
    template <class Theirs, class Ours> void expect_same_in_symbol(Theirs theirs, Ours ours) {
        expect_same(
            memory::device, memory::device,
            [&](const place &from, const place &to) {
                reset_symbol();
                EXPECT_OK(theirs(from));
                return read_symbol_into(to);
            },
            [&](const place &from, const place &to) {
                reset_symbol();
                EXPECT_OK(ours(from));
                return read_symbol_into(to);
            });
    }
    template <class Theirs, class Ours> void expect_same_out_of_symbol(Theirs theirs, Ours ours) {
        reset_symbol();
        expect_same(
            memory::device, memory::device, [&](const place &, const place &to) { return theirs(to); },
            [&](const place &, const place &to) { return ours(to); });
    }
};

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphAddMemcpyNode_is_a_captured_copy) {
    expect_same_copy([&](const place &from, const place &to) { return launch_added(adds(from, to, wanted)); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphAddMemcpyNode1D_is_a_captured_copy) {
    expect_same_copy([&](const place &from, const place &to) { return launch_added(adds_line(from, to, wanted)); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphAddMemcpyNodeToSymbol_is_a_captured_copy) {
    expect_same_in_symbol(
        [&](const place &from) { return launch_added(adds_to_symbol(from, wanted)); },
        [&](const place &from) { return launch_captured([&] { return copy_to_symbol(from, wanted); }); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphAddMemcpyNodeFromSymbol_is_a_captured_copy) {
    expect_same_out_of_symbol(
        [&](const place &to) { return launch_added(adds_from_symbol(to, wanted)); },
        [&](const place &to) { return launch_captured([&] { return copy_from_symbol(to, wanted); }); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemcpyNodeGetParams_reads_what_ferry_captured) {
    expect_same(
        memory::device, memory::device,
        [&](const place &from, const place &to) {
            return cudaMemcpy(to.address() + to_x, from.address() + from_x, line, cudaMemcpyDeviceToDevice);
        },
        [&](const place &from, const place &to) {
            const cudaGraph_t graph = capture([&] { return copy(from, to, wanted); });
            cudaMemcpy3DParms found = {};
            EXPECT_OK(cudaGraphMemcpyNodeGetParams(only_node(graph), &found));
            EXPECT_EQ(static_cast<unsigned char *>(found.srcPtr.ptr) + found.srcPos.x, from.address() + from_x);
            EXPECT_EQ(static_cast<unsigned char *>(found.dstPtr.ptr) + found.dstPos.x, to.address() + to_x);
            EXPECT_EQ(found.extent.width, line);
            return launch(graph);
        });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemcpyNodeSetParams_is_a_capture_anew) {
    expect_same_copy([&](const place &from, const place &to) {
        return launch_set(adds(from, to, other), [&](cudaGraphNode_t node) {
            const cudaMemcpy3DParms call = parameters(from, to, wanted);
            return cudaGraphMemcpyNodeSetParams(node, &call);
        });
    });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemcpyNodeSetParams1D_is_a_capture_anew) {
    expect_same_copy([&](const place &from, const place &to) {
        return launch_set(adds_line(from, to, other), [&](cudaGraphNode_t node) {
            return cudaGraphMemcpyNodeSetParams1D(node, to.address() + to_x, from.address() + from_x, line,
                                                  cudaMemcpyDeviceToDevice);
        });
    });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemcpyNodeSetParamsToSymbol_is_a_capture_anew) {
    expect_same_in_symbol(
        [&](const place &from) {
            return launch_set(adds_to_symbol(from, other), [&](cudaGraphNode_t node) {
                return cudaGraphMemcpyNodeSetParamsToSymbol(node, symbol, from.address() + from_x, line, to_x,
                                                            cudaMemcpyDeviceToDevice);
            });
        },
        [&](const place &from) { return launch_captured([&] { return copy_to_symbol(from, wanted); }); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemcpyNodeSetParamsFromSymbol_is_a_capture_anew) {
    expect_same_out_of_symbol(
        [&](const place &to) {
            return launch_set(adds_from_symbol(to, other), [&](cudaGraphNode_t node) {
                return cudaGraphMemcpyNodeSetParamsFromSymbol(node, to.address() + to_x, symbol, line, from_x,
                                                              cudaMemcpyDeviceToDevice);
            });
        },
        [&](const place &to) { return launch_captured([&] { return copy_from_symbol(to, wanted); }); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphExecMemcpyNodeSetParams_is_an_update_from_a_capture) {
    expect_same_updated_copy([&](const place &from, const place &to) {
        return launch_exec_set(adds(from, to, other), [&](cudaGraphExec_t executable, cudaGraphNode_t node) {
            const cudaMemcpy3DParms call = parameters(from, to, wanted);
            return cudaGraphExecMemcpyNodeSetParams(executable, node, &call);
        });
    });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphExecMemcpyNodeSetParams1D_is_an_update_from_a_capture) {
    expect_same_updated_copy([&](const place &from, const place &to) {
        return launch_exec_set(adds_line(from, to, other), [&](cudaGraphExec_t executable, cudaGraphNode_t node) {
            return cudaGraphExecMemcpyNodeSetParams1D(executable, node, to.address() + to_x, from.address() + from_x,
                                                      line, cudaMemcpyDeviceToDevice);
        });
    });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphExecMemcpyNodeSetParamsToSymbol_is_an_update_from_a_capture) {
    expect_same_in_symbol(
        [&](const place &from) {
            return launch_exec_set(adds_to_symbol(from, other), [&](cudaGraphExec_t executable, cudaGraphNode_t node) {
                return cudaGraphExecMemcpyNodeSetParamsToSymbol(executable, node, symbol, from.address() + from_x, line,
                                                                to_x, cudaMemcpyDeviceToDevice);
            });
        },
        [&](const place &from) {
            return launch_updated([&] { return copy_to_symbol(from, other); },
                                  [&] { return copy_to_symbol(from, wanted); });
        });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphExecMemcpyNodeSetParamsFromSymbol_is_an_update_from_a_capture) {
    expect_same_out_of_symbol(
        [&](const place &to) {
            return launch_exec_set(adds_from_symbol(to, other), [&](cudaGraphExec_t executable, cudaGraphNode_t node) {
                return cudaGraphExecMemcpyNodeSetParamsFromSymbol(executable, node, to.address() + to_x, symbol, line,
                                                                  from_x, cudaMemcpyDeviceToDevice);
            });
        },
        [&](const place &to) {
            return launch_updated([&] { return copy_from_symbol(to, other); },
                                  [&] { return copy_from_symbol(to, wanted); });
        });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphAddMemsetNode_is_a_captured_fill) {
    expect_same_captured_fill([&](const place &, const place &to) { return launch_added(adds_fill(to, wanted)); });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemsetNodeGetParams_reads_what_ferry_captured) {
    expect_same(
        memory::device, memory::device,
        [&](const place &, const place &to) { return cudaMemset(to.address() + to_x, value, line); },
        [&](const place &, const place &to) {
            const cudaGraph_t graph = capture([&] { return fill(to, wanted); });
            cudaMemsetParams found = {};
            EXPECT_OK(cudaGraphMemsetNodeGetParams(only_node(graph), &found));
            EXPECT_EQ(found.dst, to.address() + to_x);
            EXPECT_EQ(found.width * found.elementSize * found.height, line);
            return launch(graph);
        });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphMemsetNodeSetParams_is_a_capture_anew) {
    expect_same_captured_fill([&](const place &, const place &to) {
        return launch_set(adds_fill(to, other), [&](cudaGraphNode_t node) {
            const cudaMemsetParams call = fill_parameters(to, wanted);
            return cudaGraphMemsetNodeSetParams(node, &call);
        });
    });
}

TEST_F(cuda_runtime_graphs_to_ferry, cudaGraphExecMemsetNodeSetParams_is_an_update_from_a_capture) {
    expect_same(
        memory::device, memory::device,
        [&](const place &, const place &to) {
            return launch_exec_set(adds_fill(to, other), [&](cudaGraphExec_t executable, cudaGraphNode_t node) {
                const cudaMemsetParams call = fill_parameters(to, wanted);
                return cudaGraphExecMemsetNodeSetParams(executable, node, &call);
            });
        },
        [&](const place &, const place &to) {
            return launch_updated([&] { return fill(to, other); }, [&] { return fill(to, wanted); });
        });
}

} // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_CUDA;
    const std::int32_t status = ferry_open(&options, &ferry, nullptr);
    int driver_version = 0;
    if (!status) cudaDriverGetVersion(&driver_version);
    const bool no_gpu = status == FERRY_ERROR_NO_DRIVER || status == FERRY_ERROR_NO_DEVICE;
    const bool too_old = !status && driver_version / 1000 < CUDART_VERSION / 1000;
    if (status || too_old) {
        std::printf("%s: %s\n", no_gpu || too_old ? "SKIPPED" : "FAILED",
                    too_old ? "the driver is older than the runtime" : ferry_status_text(status));
        return no_gpu || too_old ? 77 : 1; // 77 is Meson's word for a skipped test
    }
    const int result = RUN_ALL_TESTS();
    ferry_close(ferry);
    return result;
}
