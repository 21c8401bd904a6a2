// Tests every copy and fill of the driver API against its form in ferry on equal memory: all bytes must come out the
// same. docs/cuda-to-ferry.md has a row for each test, and tests/abi/cuda_table.py checks that rows and tests match.
#include <functional>
#include <optional>
#include <ostream>
#include <vector>

#include "support/piece_lists.h"
#include "support/raw_objects.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

using enum place_kind;

struct extent {
    std::uint64_t width, height = 1, depth = 1;
};

// A box to copy, with room on every side, so that a call that misses the box leaves traces. In whole elements of 4
// bytes, except for odd_picture.
struct picture {
    grid shape;
    box from, to;
    extent size;
};
constexpr picture line_picture = {{.width = 4096, .element_size = 4}, {.x = 36}, {.x = 140}, {1204}};
constexpr picture image_picture = {{.width = 512, .height = 24, .element_size = 4}, {36, 3}, {140, 8}, {84, 11}};
// A pitch that only 2DUnaligned must accept between linear ends on the device.
constexpr picture odd_picture = {{.width = 500, .height = 24, .row_pitch = 517}, {37, 3}, {141, 8}, {83, 11}};
constexpr picture volume_picture = {{.width = 256, .height = 14, .depth = 9, .slice_height = 16, .element_size = 4},
                                    {36, 3, 1},
                                    {140, 2, 4},
                                    {84, 9, 5}};

// One copy between two places. `line` holds the same copy as the arguments of one-dimensional calls.
struct job {
    test_place &source, &destination;
    box from, to;
    extent size;
};
struct line {
    CUdeviceptr from, to; // for linear ends
    const void *host_from;
    void *host_to;
    CUarray array_from, array_to;
    std::size_t offset_from, offset_to; // in bytes, for arrays
    std::size_t size;
};
line line_of(const job &at) {
    const std::uint64_t from = at.source.address() + at.from.x, to = at.destination.address() + at.to.x;
    return {.from = from,
            .to = to,
            .host_from = reinterpret_cast<const void *>(from),
            .host_to = reinterpret_cast<void *>(to),
            .array_from = at.source.array(),
            .array_to = at.destination.array(),
            .offset_from = at.from.x,
            .offset_to = at.to.x,
            .size = at.size.width};
}

CUmemorytype memory_type(const test_place &place) {
    return is_array(place.kind())               ? CU_MEMORYTYPE_ARRAY
           : place.kind() == place_kind::device ? CU_MEMORYTYPE_DEVICE
                                                : CU_MEMORYTYPE_HOST;
}

// Fills CUDA_MEMCPY2D, CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER. The caller sets the contexts of the last.
template <class Call> Call described(const job &at) {
    Call call = {};
    call.srcMemoryType = memory_type(at.source);
    call.srcHost = reinterpret_cast<const void *>(at.source.address());
    call.srcDevice = at.source.address();
    call.srcArray = at.source.array();
    call.srcPitch = at.source.shape().row_pitch;
    call.srcXInBytes = at.from.x;
    call.srcY = at.from.y;
    call.dstMemoryType = memory_type(at.destination);
    call.dstHost = reinterpret_cast<void *>(at.destination.address());
    call.dstDevice = at.destination.address();
    call.dstArray = at.destination.array();
    call.dstPitch = at.destination.shape().row_pitch;
    call.dstXInBytes = at.to.x;
    call.dstY = at.to.y;
    call.WidthInBytes = at.size.width;
    call.Height = at.size.height;
    if constexpr (!std::is_same_v<Call, CUDA_MEMCPY2D>) {
        call.srcHeight = at.source.shape().slice_height;
        call.srcZ = at.from.z;
        call.dstHeight = at.destination.shape().slice_height;
        call.dstZ = at.to.z;
        call.Depth = at.size.depth;
    }
    return call;
}

struct pairing {
    place_kind from, to;
};
using pairings = std::vector<pairing>;
const pairings pairings_in_2d = {{pageable, device}, {device, pinned},   {device, device},
                                 {pageable, pinned}, {pinned, array_2d}, {array_2d, pageable},
                                 {device, array_2d}, {array_2d, device}, {array_2d, array_2d}};
const pairings pairings_in_3d = {{pageable, device}, {device, pinned},   {device, device},
                                 {pageable, pinned}, {pinned, array_3d}, {array_3d, pageable},
                                 {device, array_3d}, {array_3d, device}, {array_3d, array_3d}};

void *entry_point(const char *name, int version) {
    int driver_version = 0;
    EXPECT_OK(raw().cuDriverGetVersion(&driver_version));
    const resolver from = raw_entry_points();
    // An older driver might answer with an entry point of an older signature.
    return driver_version < version ? nullptr : from.get_proc(from.user, name, version);
}

// Defines `name` as the driver's entry point or skips the test. A macro, because skipping returns from the test.
#define FERRY_NEED(name, version)                                                                                      \
    const auto name = reinterpret_cast<PFN_##name##_v##version>(entry_point(#name, version));                          \
    if (!name) GTEST_SKIP() << "the driver under test has no " #name

class cuda_to_ferry : public ferry_test {
protected:
    void SetUp() override {
        ferry_test::SetUp();
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamDestroy(stream));
        ferry_test::TearDown();
    }

    // `theirs` and `ours` do the same job, each into its own destination, and return their status.
    template <class Theirs, class Ours>
    void expect_same(const pairing &pair, const picture &what, Theirs theirs, Ours ours, int source_device = 0) {
        SCOPED_TRACE(std::string(name_of(pair.from)) + " to " + name_of(pair.to));
        test_place source(pair.from, what.shape, source_device);
        test_place expected(pair.to, what.shape), copied(pair.to, what.shape);
        source.fill(1);
        expected.fill(2);
        copied.fill(2);
        ASSERT_OK(theirs(job{source, expected, what.from, what.to, what.size}));
        ASSERT_OK(raw().cuCtxSynchronize());
        ASSERT_OK(ours(job{source, copied, what.from, what.to, what.size}));
        ASSERT_OK(raw().cuCtxSynchronize());
        EXPECT_NE(expected.read(), expected.picture()) << "CUDA's call copied nothing";
        EXPECT_EQ(copied.read(), expected.read());
        EXPECT_EQ(source.read(), source.picture());
    }
    template <class Theirs, class Ours> void expect_same_line(const pairing &pair, Theirs theirs, Ours ours) {
        expect_same(
            pair, line_picture, [&](const job &at) { return theirs(line_of(at)); }, ours);
    }
    // Copies from device 1 to device 0, first without peer access, then with peer access if the devices have it.
    template <class Theirs, class Ours>
    void expect_same_between_devices(const pairing &pair, const picture &what, Theirs theirs, Ours ours) {
        expect_same(pair, what, theirs, ours, 1);
        for (const int device : {0, 1}) {
            const std::int32_t status = ferry_peer_enable(basic.get(), device, 1 - device, nullptr);
            if (is_without_access(status) || status == FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_NOT_SUPPORTED) return;
            ASSERT_OK(status);
        }
        SCOPED_TRACE("with peer access");
        expect_same(pair, what, theirs, ours, 1);
        for (const int device : {0, 1})
            EXPECT_OK(ferry_peer_disable(basic.get(), device, 1 - device, nullptr));
    }

    // The same jobs in ferry's forms.
    static ferry_copy_desc describe(const job &at) {
        return describe_copy(at.source.describe(statement::stated, at.from),
                             at.destination.describe(statement::stated, at.to), at.size.width, at.size.height,
                             at.size.depth);
    }
    std::int32_t copy_bytes(const job &at) const {
        const line line = line_of(at);
        return ferry_copy_bytes(basic.get(), line.to, line.from, line.size, nullptr, nullptr);
    }
    std::int32_t copy_bytes_async(const job &at, CUstream on) const {
        const line line = line_of(at);
        return ferry_copy_bytes_async(basic.get(), line.to, line.from, line.size, nullptr, on, nullptr, nullptr);
    }
    std::int32_t copy(const job &at) const {
        const ferry_copy_desc copy = describe(at);
        return ferry_copy(basic.get(), &copy, nullptr, nullptr);
    }
    std::int32_t copy_async(const job &at) const {
        const ferry_copy_desc copy = describe(at);
        return ferry_copy_async(basic.get(), &copy, nullptr, stream, nullptr, nullptr);
    }

    CUstream stream = nullptr;
};

// ---- One copy ---------------------------------------------------------------------------------------------------

// What a call of CUDA's gets.
struct call_site : line {
    const job &at;
    CUstream stream;
    CUcontext destination, source;
};

template <class Box> Box box_for(const call_site &site) {
    Box box = described<Box>(site.at);
    if constexpr (std::is_same_v<Box, CUDA_MEMCPY3D_PEER>)
        box.srcContext = site.source, box.dstContext = site.destination;
    return box;
}
template <class Box> CUresult call_with_box(CUresult(CUDAAPI *call)(const Box *), const call_site &site) {
    const Box box = box_for<Box>(site);
    return call(&box);
}
template <class Box> CUresult call_with_box(CUresult(CUDAAPI *call)(const Box *, CUstream), const call_site &site) {
    const Box box = box_for<Box>(site);
    return call(&box, site.stream);
}
// Calls the entry point of the driver with a description of the box.
template <auto entry> call_result box_copy(const call_site &site) { return {call_with_box((raw().*entry).call, site)}; }

enum class form { bytes, bytes_async, descriptor, descriptor_async };

struct equal_calls {
    const char *name; // begins with the name of CUDA's call
    pairings pairs;
    const picture &what;
    call_result (*theirs)(const call_site &);
    form ours;
    bool between_devices = false;
};
void PrintTo(const equal_calls &row, std::ostream *out) { *out << row.name; }

const equal_calls rows[] = {
    {"cuMemcpy_is_ferry_copy_bytes",
     {{pinned, pinned}, {pinned, device}, {device, pinned}, {device, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpy(of.to, of.from, of.size); },
     form::bytes},
    {"cuMemcpyAsync_is_ferry_copy_bytes_async",
     {{pinned, pinned}, {pinned, device}, {device, pinned}, {device, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyAsync(of.to, of.from, of.size, of.stream); },
     form::bytes_async},
    {"cuMemcpyHtoD_is_ferry_copy_bytes",
     {{pageable, device}, {pinned, device}, {registered, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyHtoD(of.to, of.host_from, of.size); },
     form::bytes},
    {"cuMemcpyHtoDAsync_is_ferry_copy_bytes_async",
     {{pageable, device}, {pinned, device}, {registered, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyHtoDAsync(of.to, of.host_from, of.size, of.stream); },
     form::bytes_async},
    {"cuMemcpyDtoH_is_ferry_copy_bytes",
     {{device, pageable}, {device, pinned}, {device, registered}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyDtoH(of.host_to, of.from, of.size); },
     form::bytes},
    {"cuMemcpyDtoHAsync_is_ferry_copy_bytes_async",
     {{device, pageable}, {device, pinned}, {device, registered}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyDtoHAsync(of.host_to, of.from, of.size, of.stream); },
     form::bytes_async},
    {"cuMemcpyDtoD_is_ferry_copy_bytes",
     {{device, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyDtoD(of.to, of.from, of.size); },
     form::bytes},
    {"cuMemcpyDtoDAsync_is_ferry_copy_bytes_async",
     {{device, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyDtoDAsync(of.to, of.from, of.size, of.stream); },
     form::bytes_async},
    {"cuMemcpyDtoA_is_a_copy_to_an_array_place",
     {{device, array_1d}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyDtoA(of.array_to, of.offset_to, of.from, of.size); },
     form::descriptor},
    {"cuMemcpyAtoD_is_a_copy_from_an_array_place",
     {{array_1d, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyAtoD(of.to, of.array_from, of.offset_from, of.size); },
     form::descriptor},
    {"cuMemcpyHtoA_is_a_copy_to_an_array_place",
     {{pageable, array_1d}, {pinned, array_1d}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyHtoA(of.array_to, of.offset_to, of.host_from, of.size); },
     form::descriptor},
    {"cuMemcpyHtoAAsync_is_a_copy_to_an_array_place",
     {{pageable, array_1d}, {pinned, array_1d}},
     line_picture,
     [](const call_site &of) {
         return raw().cuMemcpyHtoAAsync(of.array_to, of.offset_to, of.host_from, of.size, of.stream);
     },
     form::descriptor_async},
    {"cuMemcpyAtoH_is_a_copy_from_an_array_place",
     {{array_1d, pageable}, {array_1d, pinned}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyAtoH(of.host_to, of.array_from, of.offset_from, of.size); },
     form::descriptor},
    {"cuMemcpyAtoHAsync_is_a_copy_from_an_array_place",
     {{array_1d, pageable}, {array_1d, pinned}},
     line_picture,
     [](const call_site &of) {
         return raw().cuMemcpyAtoHAsync(of.host_to, of.array_from, of.offset_from, of.size, of.stream);
     },
     form::descriptor_async},
    {"cuMemcpyAtoA_is_a_copy_between_array_places",
     {{array_1d, array_1d}},
     line_picture,
     [](const call_site &of) {
         return raw().cuMemcpyAtoA(of.array_to, of.offset_to, of.array_from, of.offset_from, of.size);
     },
     form::descriptor},
    {"cuMemcpy2D_is_ferry_copy", pairings_in_2d, image_picture, box_copy<&driver_table::cuMemcpy2D>, form::descriptor},
    {"cuMemcpy2DUnaligned_is_ferry_copy", pairings_in_2d, odd_picture, box_copy<&driver_table::cuMemcpy2DUnaligned>,
     form::descriptor},
    {"cuMemcpy2DAsync_is_ferry_copy_async", pairings_in_2d, image_picture, box_copy<&driver_table::cuMemcpy2DAsync>,
     form::descriptor_async},
    {"cuMemcpy3D_is_ferry_copy", pairings_in_3d, volume_picture, box_copy<&driver_table::cuMemcpy3D>, form::descriptor},
    {"cuMemcpy3DAsync_is_ferry_copy_async", pairings_in_3d, volume_picture, box_copy<&driver_table::cuMemcpy3DAsync>,
     form::descriptor_async},
    {"cuMemcpyPeer_is_ferry_copy_bytes",
     {{device, device}},
     line_picture,
     [](const call_site &of) { return raw().cuMemcpyPeer(of.to, of.destination, of.from, of.source, of.size); },
     form::bytes,
     true},
    {"cuMemcpyPeerAsync_is_ferry_copy_bytes_async",
     {{device, device}},
     line_picture,
     [](const call_site &of) {
         return raw().cuMemcpyPeerAsync(of.to, of.destination, of.from, of.source, of.size, of.stream);
     },
     form::bytes_async,
     true},
    {"cuMemcpy3DPeer_is_ferry_copy",
     {{device, device}, {array_3d, array_3d}},
     volume_picture,
     box_copy<&driver_table::cuMemcpy3DPeer>,
     form::descriptor,
     true},
    {"cuMemcpy3DPeerAsync_is_ferry_copy_async",
     {{device, device}, {array_3d, array_3d}},
     volume_picture,
     box_copy<&driver_table::cuMemcpy3DPeerAsync>,
     form::descriptor_async,
     true},
};

class cuda_to_ferry_copies : public cuda_to_ferry, public testing::WithParamInterface<equal_calls> {};

TEST_P(cuda_to_ferry_copies, copy_the_same_bytes) {
    const equal_calls &row = GetParam();
    if (row.between_devices && device_count() < 2) GTEST_SKIP() << "needs two devices";
    std::optional<other_device> second;
    if (row.between_devices) second.emplace();
    const CUcontext source = second ? second->context : context;
    const auto theirs = [&](const job &at) { return row.theirs({line_of(at), at, stream, context, source}); };
    const auto ours = [&](const job &at) {
        switch (row.ours) {
        case form::bytes:
            return copy_bytes(at);
        case form::bytes_async:
            return copy_bytes_async(at, stream);
        case form::descriptor:
            return copy(at);
        case form::descriptor_async:
            break;
        }
        return copy_async(at);
    };
    for (const pairing &pair : row.pairs)
        if (row.between_devices)
            expect_same_between_devices(pair, row.what, theirs, ours);
        else
            expect_same(pair, row.what, theirs, ours);
}

INSTANTIATE_TEST_SUITE_P(calls, cuda_to_ferry_copies, testing::ValuesIn(rows),
                         [](const auto &row) { return std::string(row.param.name); });

TEST_F(cuda_to_ferry, cuMemcpyAsync_ptsz_takes_the_per_thread_stream) {
    expect_same_line(
        {pinned, device},
        [](const line &at) { return raw().cuMemcpyAsync(at.to, at.from, at.size, CU_STREAM_PER_THREAD); },
        [&](const job &at) {
            return copy_bytes_async(at,
                                    reinterpret_cast<CUstream_st *>(std::uintptr_t{FERRY_DEFAULT_STREAM_PER_THREAD}));
        });
}

// ---- Many copies in one call ------------------------------------------------------------------------------------

TEST_F(cuda_to_ferry, cuMemcpyBatchAsync_is_ferry_copy_pieces_async) {
    FERRY_NEED(cuMemcpyBatchAsync, 13000);
    constexpr std::size_t count = 3, size = 100, apart = 200;
    expect_same_line(
        {pinned, device},
        [&](const line &at) {
            CUdeviceptr to[count], from[count];
            std::size_t sizes[count];
            for (std::size_t i = 0; i < count; ++i)
                to[i] = at.to + i * apart, from[i] = at.from + i * apart, sizes[i] = size;
            CUmemcpyAttributes attributes = {};
            attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
            std::size_t first = 0;
            return cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream);
        },
        [&](const job &job) {
            const line at = line_of(job);
            std::uint64_t to[count], from[count], sizes[count];
            for (std::size_t i = 0; i < count; ++i)
                to[i] = at.to + i * apart, from[i] = at.from + i * apart, sizes[i] = size;
            return ferry_copy_pieces_async(basic.get(), in_arrays(to, from, sizes, count), nullptr, stream, nullptr,
                                           nullptr);
        });
}

CUmemcpy3DOperand operand(const test_place &place, const box &origin, std::size_t element_size) {
    CUmemcpy3DOperand operand = {};
    if (is_array(place.kind())) {
        operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
        operand.op.array.array = place.array();
        operand.op.array.offset = {origin.x / element_size, origin.y, origin.z};
        return operand;
    }
    const grid &shape = place.shape();
    operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr.ptr = place.address() + (origin.z * shape.slice_height + origin.y) * shape.row_pitch + origin.x;
    operand.op.ptr.rowLength = shape.row_pitch / element_size;
    operand.op.ptr.layerHeight = shape.slice_height;
    return operand;
}

TEST_F(cuda_to_ferry, cuMemcpy3DBatchAsync_is_ferry_copy_batch_async) {
    FERRY_NEED(cuMemcpy3DBatchAsync, 13000);
    // Splits the box of the other tests in two: its upper slices and the rest.
    const auto part = [](job at, std::uint64_t first, std::uint64_t depth) {
        at.from.z += first;
        at.to.z += first;
        at.size.depth = depth;
        return at;
    };
    const std::uint64_t depth = volume_picture.size.depth;
    for (const pairing &pair : {pairing{device, device}, {device, array_3d}, {array_3d, device}, {pinned, array_3d}})
        expect_same(
            pair, volume_picture,
            [&](const job &whole) {
                const bool has_array = is_array(pair.from) || is_array(pair.to);
                const std::size_t element_size = has_array ? volume_picture.shape.element_size : 1;
                CUDA_MEMCPY3D_BATCH_OP operations[2] = {};
                for (const int i : {0, 1}) {
                    const job at = i == 0 ? part(whole, 0, 2) : part(whole, 2, depth - 2);
                    operations[i].src = operand(at.source, at.from, element_size);
                    operations[i].dst = operand(at.destination, at.to, element_size);
                    operations[i].extent = {at.size.width / element_size, at.size.height, at.size.depth};
                    operations[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
                }
                return cuMemcpy3DBatchAsync(2, operations, 0, stream);
            },
            [&](const job &whole) {
                const ferry_copy_desc copies[] = {describe(part(whole, 0, 2)), describe(part(whole, 2, depth - 2))};
                return ferry_copy_batch_async(basic.get(), copies, 2, nullptr, stream, nullptr, nullptr);
            });
}

// ---- Fills ------------------------------------------------------------------------------------------------------

class cuda_to_ferry_fills : public cuda_to_ferry {
protected:
    static constexpr std::uint64_t offset = 40, units = 77, rows = 9, pitch = 512;

    // `theirs` takes (address, value). ferry fills the same box with the same value as its pattern.
    template <class Value, class Theirs> void expect_same_fill(std::uint64_t height, bool is_async, Theirs theirs) {
        constexpr auto value = static_cast<Value>(0x8badf00d);
        const grid shape = {.width = pitch, .height = height + 3};
        for (const place_kind kind : {device, pinned}) {
            test_place expected(kind, shape), filled(kind, shape);
            expected.fill(1);
            filled.fill(1);
            ASSERT_OK(theirs(expected.address() + pitch + offset, value));
            ASSERT_OK(raw().cuCtxSynchronize());
            ferry_fill_desc fill;
            const ferry_place place = filled.describe(statement::any, {.x = offset, .y = 1});
            ferry_fill_desc_init(&fill, &place, units * sizeof value, height, 1, &value, sizeof value);
            ASSERT_OK(is_async ? ferry_fill_async(basic.get(), &fill, nullptr, stream, nullptr, nullptr)
                               : ferry_fill(basic.get(), &fill, nullptr, nullptr));
            ASSERT_OK(raw().cuCtxSynchronize());
            EXPECT_NE(expected.read(), expected.picture()) << "CUDA's call filled nothing";
            EXPECT_EQ(filled.read(), expected.read());
        }
    }
    template <class Value> void expect_same_line(CUresult (*call)(CUdeviceptr, Value, std::size_t)) {
        expect_same_fill<Value>(1, false, [&](CUdeviceptr to, Value value) { return call(to, value, units); });
    }
    template <class Value> void expect_same_line(CUresult (*call)(CUdeviceptr, Value, std::size_t, CUstream)) {
        expect_same_fill<Value>(1, true, [&](CUdeviceptr to, Value value) { return call(to, value, units, stream); });
    }
    template <class Value>
    void expect_same_rows(CUresult (*call)(CUdeviceptr, std::size_t, Value, std::size_t, std::size_t)) {
        expect_same_fill<Value>(rows, false,
                                [&](CUdeviceptr to, Value value) { return call(to, pitch, value, units, rows); });
    }
    template <class Value>
    void expect_same_rows(CUresult (*call)(CUdeviceptr, std::size_t, Value, std::size_t, std::size_t, CUstream)) {
        expect_same_fill<Value>(
            rows, true, [&](CUdeviceptr to, Value value) { return call(to, pitch, value, units, rows, stream); });
    }
};

TEST_F(cuda_to_ferry_fills, cuMemsetD8_is_ferry_fill) { expect_same_line(raw().cuMemsetD8.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD16_is_ferry_fill) { expect_same_line(raw().cuMemsetD16.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD32_is_ferry_fill) { expect_same_line(raw().cuMemsetD32.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD8Async_is_ferry_fill_async) { expect_same_line(raw().cuMemsetD8Async.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD16Async_is_ferry_fill_async) { expect_same_line(raw().cuMemsetD16Async.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD32Async_is_ferry_fill_async) { expect_same_line(raw().cuMemsetD32Async.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD2D8_is_ferry_fill) { expect_same_rows(raw().cuMemsetD2D8.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD2D16_is_ferry_fill) { expect_same_rows(raw().cuMemsetD2D16.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD2D32_is_ferry_fill) { expect_same_rows(raw().cuMemsetD2D32.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD2D8Async_is_ferry_fill_async) { expect_same_rows(raw().cuMemsetD2D8Async.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD2D16Async_is_ferry_fill_async) { expect_same_rows(raw().cuMemsetD2D16Async.call); }
TEST_F(cuda_to_ferry_fills, cuMemsetD2D32Async_is_ferry_fill_async) { expect_same_rows(raw().cuMemsetD2D32Async.call); }

// ---- Nodes of graphs --------------------------------------------------------------------------------------------

class cuda_to_ferry_graphs : public cuda_to_ferry {
protected:
    // Builds a graph of one node, which add(node, graph) creates.
    template <class Add> CUgraph build(PFN_cuGraphCreate_v10000 create, Add add, CUgraphNode &node) {
        CUgraph graph = nullptr;
        EXPECT_OK(create(&graph, 0));
        EXPECT_OK(add(&node, graph));
        return graph;
    }
    template <class Enqueue> CUgraph capture(Enqueue enqueue) {
        CUgraph graph = nullptr;
        EXPECT_OK(raw().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        EXPECT_OK(enqueue());
        EXPECT_OK(raw().cuStreamEndCapture(stream, &graph));
        return graph;
    }
    CUgraphNode only_node(PFN_cuGraphGetNodes_v10000 get_nodes, CUgraph graph) {
        CUgraphNode node = nullptr;
        std::size_t count = 1;
        EXPECT_OK(get_nodes(graph, &node, &count));
        return node;
    }

    // Launches `graph` after change(executable) and destroys the graph and its executable.
    template <class Change> CUresult launch(CUgraph graph, Change change) {
        CUgraphExec executable = nullptr;
        EXPECT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_OK(change(executable));
        EXPECT_OK(raw().cuGraphLaunch(executable, stream));
        const CUresult result = raw().cuStreamSynchronize(stream);
        EXPECT_OK(raw().cuGraphExecDestroy(executable));
        EXPECT_OK(raw().cuGraphDestroy(graph));
        return result;
    }
    CUresult launch(CUgraph graph) {
        return launch(graph, [](CUgraphExec) { return CUDA_SUCCESS; });
    }
    CUresult launch_updated(PFN_cuGraphExecUpdate_v12000 update, CUgraph before, CUgraph after) {
        const CUresult result = launch(before, [&](CUgraphExec executable) {
            CUgraphExecUpdateResultInfo found = {};
            return update(executable, after, &found);
        });
        EXPECT_OK(raw().cuGraphDestroy(after));
        return result;
    }

    // Another copy of the same kind, for a node that is changed later.
    static job decoy(job at) {
        std::swap(at.from.x, at.to.x);
        at.size.width /= 2;
        return at;
    }
    // Describes a fill of one row, for which no pitch is read.
    static CUDA_MEMSET_NODE_PARAMS described_fill(const job &at) {
        CUDA_MEMSET_NODE_PARAMS what = {};
        what.dst = line_of(at).to;
        what.value = 0x8badf00d;
        what.elementSize = sizeof what.value;
        what.width = at.size.width / what.elementSize;
        what.height = 1;
        return what;
    }
    std::int32_t fill_async(const job &at) {
        const CUDA_MEMSET_NODE_PARAMS what = described_fill(at);
        ferry_fill_desc fill;
        ferry_place place;
        ferry_place_device(&place, 0, what.dst);
        ferry_fill_desc_init(&fill, &place, what.width * what.elementSize, 1, 1, &what.value, what.elementSize);
        return ferry_fill_async(basic.get(), &fill, nullptr, stream, nullptr, nullptr);
    }
    CUgraph capture_copy(const job &at) {
        return capture([&] { return copy_async(at); });
    }
    CUgraph capture_fill(const job &at) {
        return capture([&] { return fill_async(at); });
    }

    // What the node does: CUDA_MEMCPY3D copies, CUDA_MEMSET_NODE_PARAMS fills.
    template <class Node> static Node described_node(const job &at) {
        if constexpr (std::is_same_v<Node, CUDA_MEMCPY3D>)
            return described<Node>(at);
        else
            return described_fill(at);
    }
    template <class Node> CUgraph capture_node(const job &at) {
        if constexpr (std::is_same_v<Node, CUDA_MEMCPY3D>)
            return capture_copy(at);
        else
            return capture_fill(at);
    }
    template <class Node>
    using add_node = CUresult(CUDAAPI *)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const Node *, CUcontext);
    template <class Node>
    CUgraph build(PFN_cuGraphCreate_v10000 create, add_node<Node> add, const Node &what, CUgraphNode &node) {
        return build(
            create, [&](CUgraphNode *made, CUgraph graph) { return add(made, graph, nullptr, 0, &what, context); },
            node);
    }

    template <class Node>
    void expect_same_node(const picture &shape, PFN_cuGraphCreate_v10000 create, add_node<Node> add) {
        expect_same(
            pair, shape,
            [&](const job &at) {
                CUgraphNode node = nullptr;
                return launch(build(create, add, described_node<Node>(at), node));
            },
            [&](const job &at) { return launch(capture_node<Node>(at)); });
    }
    template <class Node>
    void expect_same_after_set(PFN_cuGraphCreate_v10000 create, add_node<Node> add,
                               CUresult(CUDAAPI *set)(CUgraphNode, const Node *)) {
        expect_same(
            pair, line_picture,
            [&](const job &at) {
                const Node after = described_node<Node>(at);
                CUgraphNode node = nullptr;
                const CUgraph graph = build(create, add, described_node<Node>(decoy(at)), node);
                EXPECT_OK(set(node, &after));
                return launch(graph);
            },
            [&](const job &at) { return launch(capture_node<Node>(at)); });
    }
    template <class Node>
    void expect_same_after_update(PFN_cuGraphCreate_v10000 create, add_node<Node> add,
                                  CUresult(CUDAAPI *set)(CUgraphExec, CUgraphNode, const Node *, CUcontext),
                                  PFN_cuGraphExecUpdate_v12000 update) {
        expect_same(
            pair, line_picture,
            [&](const job &at) {
                const Node after = described_node<Node>(at);
                CUgraphNode node = nullptr;
                return launch(build(create, add, described_node<Node>(decoy(at)), node),
                              [&](CUgraphExec executable) { return set(executable, node, &after, context); });
            },
            [&](const job &at) {
                return launch_updated(update, capture_node<Node>(decoy(at)), capture_node<Node>(at));
            });
    }

    static constexpr pairing pair = {device, device};
};

TEST_F(cuda_to_ferry_graphs, cuGraphAddMemcpyNode_is_a_captured_ferry_copy_async) {
    FERRY_NEED(cuGraphCreate, 10000);
    FERRY_NEED(cuGraphAddMemcpyNode, 10000);
    expect_same_node(volume_picture, cuGraphCreate, cuGraphAddMemcpyNode);
}

TEST_F(cuda_to_ferry_graphs, cuGraphMemcpyNodeGetParams_reads_what_ferry_captured) {
    FERRY_NEED(cuGraphGetNodes, 10000);
    FERRY_NEED(cuGraphMemcpyNodeGetParams, 10000);
    expect_same_line(
        pair, [](const line &at) { return raw().cuMemcpyDtoD(at.to, at.from, at.size); },
        [&](const job &at) {
            const CUgraph graph = capture_copy(at);
            CUDA_MEMCPY3D found = {};
            EXPECT_OK(cuGraphMemcpyNodeGetParams(only_node(cuGraphGetNodes, graph), &found));
            EXPECT_EQ(found.srcDevice + found.srcXInBytes, line_of(at).from);
            EXPECT_EQ(found.dstDevice + found.dstXInBytes, line_of(at).to);
            EXPECT_EQ(found.WidthInBytes, at.size.width);
            return launch(graph);
        });
}

TEST_F(cuda_to_ferry_graphs, cuGraphMemcpyNodeSetParams_is_a_capture_anew) {
    FERRY_NEED(cuGraphCreate, 10000);
    FERRY_NEED(cuGraphAddMemcpyNode, 10000);
    FERRY_NEED(cuGraphMemcpyNodeSetParams, 10000);
    expect_same_after_set(cuGraphCreate, cuGraphAddMemcpyNode, cuGraphMemcpyNodeSetParams);
}

TEST_F(cuda_to_ferry_graphs, cuGraphExecMemcpyNodeSetParams_is_an_update_from_a_capture) {
    FERRY_NEED(cuGraphCreate, 10000);
    FERRY_NEED(cuGraphAddMemcpyNode, 10000);
    FERRY_NEED(cuGraphExecMemcpyNodeSetParams, 10020);
    FERRY_NEED(cuGraphExecUpdate, 12000);
    expect_same_after_update(cuGraphCreate, cuGraphAddMemcpyNode, cuGraphExecMemcpyNodeSetParams, cuGraphExecUpdate);
}

TEST_F(cuda_to_ferry_graphs, cuGraphAddMemsetNode_is_a_captured_ferry_fill_async) {
    FERRY_NEED(cuGraphCreate, 10000);
    FERRY_NEED(cuGraphAddMemsetNode, 10000);
    expect_same_node(line_picture, cuGraphCreate, cuGraphAddMemsetNode);
}

TEST_F(cuda_to_ferry_graphs, cuGraphMemsetNodeGetParams_reads_what_ferry_captured) {
    FERRY_NEED(cuGraphGetNodes, 10000);
    FERRY_NEED(cuGraphMemsetNodeGetParams, 10000);
    expect_same(
        pair, line_picture,
        [&](const job &at) {
            const CUDA_MEMSET_NODE_PARAMS what = described_fill(at);
            return raw().cuMemsetD32(what.dst, what.value, what.width);
        },
        [&](const job &at) {
            const CUgraph graph = capture_fill(at);
            CUDA_MEMSET_NODE_PARAMS found = {};
            EXPECT_OK(cuGraphMemsetNodeGetParams(only_node(cuGraphGetNodes, graph), &found));
            EXPECT_EQ(found.dst, line_of(at).to);
            EXPECT_EQ(found.value, described_fill(at).value);
            EXPECT_EQ(found.width * found.elementSize * found.height, at.size.width);
            return launch(graph);
        });
}

TEST_F(cuda_to_ferry_graphs, cuGraphMemsetNodeSetParams_is_a_capture_anew) {
    FERRY_NEED(cuGraphCreate, 10000);
    FERRY_NEED(cuGraphAddMemsetNode, 10000);
    FERRY_NEED(cuGraphMemsetNodeSetParams, 10000);
    expect_same_after_set(cuGraphCreate, cuGraphAddMemsetNode, cuGraphMemsetNodeSetParams);
}

TEST_F(cuda_to_ferry_graphs, cuGraphExecMemsetNodeSetParams_is_an_update_from_a_capture) {
    FERRY_NEED(cuGraphCreate, 10000);
    FERRY_NEED(cuGraphAddMemsetNode, 10000);
    FERRY_NEED(cuGraphExecMemsetNodeSetParams, 10020);
    FERRY_NEED(cuGraphExecUpdate, 12000);
    expect_same_after_update(cuGraphCreate, cuGraphAddMemsetNode, cuGraphExecMemsetNodeSetParams, cuGraphExecUpdate);
}

} // namespace
} // namespace ferry::test
