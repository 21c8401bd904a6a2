// Compares the speed of the kernels with the driver's own copies, as tables to choose constants by. It is not a test:
// kernel_test.cpp checks the bytes. Run on a GPU: FERRY_TEST_DRIVER=cuda tests/kernel-speed [--gtest_filter=…].
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "exec/kernel_launch.h"
#include "support/raw_objects.h"

namespace ferry::test {
namespace {

// The median: a moment in which the machine is busy does not count.
double median_us(std::vector<double> &times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// Spreads tightly packed rows to twice their width apart.
template <std::size_t width> void spread(std::byte *to, const std::byte *from, std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row)
        std::memcpy(to + row * 2 * width, from + row * width, width);
}

struct kernel_speed : driver_test {
    static constexpr std::uint64_t room = std::uint64_t{1} << 30;

    void SetUp() override {
        driver_test::SetUp();
        if (on_software_driver()) GTEST_SKIP() << "needs a GPU";
        ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        ASSERT_OK(raw().cuMemAlloc(&from, room));
        ASSERT_OK(raw().cuMemAlloc(&to, room));
        ASSERT_OK(raw().cuMemHostAlloc(&pinned, room, 0));
        ASSERT_OK(raw().cuMemHostGetDevicePointer(&host, pinned, 0));
        const auto begin = std::chrono::steady_clock::now();
        ASSERT_OK(loaded.load().status);
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
        ASSERT_OK(raw().cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
        std::printf("kernels loaded in %.1f ms\n", took.count());
    }
    void TearDown() override {
        if (stream) {
            raw().cuStreamDestroy(stream);
            raw().cuMemFree(from);
            raw().cuMemFree(to);
            raw().cuMemFreeHost(pinned);
        }
        driver_test::TearDown();
    }

    template <class Work> double time_us(const Work &work, int rounds = 7) {
        std::vector<double> times;
        for (int i = 0; i <= rounds; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            work();
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
            if (i != 0) times.push_back(took.count());
        }
        return median_us(times);
    }

    double driver_2d_us(CUdeviceptr destination, std::uint64_t to_pitch, CUdeviceptr source, std::uint64_t from_pitch,
                        std::uint64_t width, std::uint64_t height) {
        CUDA_MEMCPY2D copy = {};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
        copy.srcDevice = source;
        copy.dstDevice = destination;
        copy.srcPitch = from_pitch;
        copy.dstPitch = to_pitch;
        copy.WidthInBytes = width;
        copy.Height = height;
        return time_us([&] { EXPECT_OK(raw().cuMemcpy2DAsync(&copy, stream)); }, 3);
    }

    void print_strided(const char *name, CUdeviceptr destination, bool scatter, CUdeviceptr source, bool gather,
                       std::uint64_t bytes, const std::vector<std::uint32_t> &blocks, std::uint64_t lead = 0) {
        std::printf("%s, GB/s of payload: driver, then by blocks\n  width   driver", name);
        for (const std::uint32_t count : blocks)
            std::printf(" %7u", count);
        std::printf("\n");
        for (const std::uint64_t width : {1, 2, 4, 8, 12, 16, 32, 64, 100, 256, 1024, 4096, 65536}) {
            const std::uint64_t height = std::min<std::uint64_t>(bytes, width * (std::uint64_t{1} << 24)) / width;
            const std::uint64_t to_pitch = scatter ? 2 * width : width, from_pitch = gather ? 2 * width : width;
            const double payload = static_cast<double>(width * height) * 1e-3;
            std::printf("%7llu %8.1f", static_cast<unsigned long long>(width),
                        payload / driver_2d_us(destination, to_pitch, source, from_pitch, width, height));
            const kernel_box box = {{destination, to_pitch, 0}, {source + lead, from_pitch, 0}, width, height, 1};
            for (const std::uint32_t count : blocks)
                std::printf(" %7.1f", payload / time_us([&] {
                                          EXPECT_OK(launch_strided(raw(), loaded, box, count, stream).status);
                                      }));
            std::printf("\n");
        }
    }

    // Prints the speed of copies into spaced rows on the host, made in three ways: by the driver, by a kernel, and
    // packed on the device, copied as lines and spread piece by piece by this thread.
    template <std::size_t width> void print_spreading(bool gather) {
        constexpr std::size_t bytes = 16 * mebi, rows = bytes / width, slots = 4;
        constexpr std::uint8_t untouched = 0;
        const std::size_t from_pitch = gather ? 2 * width : width;
        std::vector<std::uint8_t> source(rows * from_pitch);
        std::mt19937 random(width);
        for (std::uint8_t &byte : source)
            byte = static_cast<std::uint8_t>(random() % 255 + 1);
        EXPECT_OK(raw().cuMemcpyHtoD(from, source.data(), source.size()));
        std::byte *const destination = static_cast<std::byte *>(pinned), *const staging = destination + room / 2;
        const auto is_right = [&] {
            for (std::size_t i = 0; i < rows * 2 * width; ++i) {
                const std::size_t row = i / (2 * width), x = i % (2 * width);
                const std::uint8_t expected = x < width ? source[row * from_pitch + x] : untouched;
                if (static_cast<std::uint8_t>(destination[i]) != expected) return false;
            }
            return true;
        };
        const auto rate = [&](double us) { return static_cast<double>(bytes) * 1e-3 / us; };
        std::printf("%s %2zu B: driver %5.1f, kernel by blocks", gather ? "gathered" : "tight   ", width,
                    rate(driver_2d_us(host, 2 * width, from, from_pitch, width, rows)));
        for (const std::uint32_t blocks : {4, 16, 64}) {
            const kernel_box box = {{host, 2 * width, 0}, {from, from_pitch, 0}, width, rows, 1};
            std::memset(destination, untouched, 2 * bytes);
            std::printf(" %5.1f",
                        rate(time_us([&] { EXPECT_OK(launch_strided(raw(), loaded, box, blocks, stream).status); })));
            EXPECT_TRUE(is_right());
        }
        std::printf("; packed and spread, by pieces of");
        CUevent arrived[slots];
        for (CUevent &each : arrived)
            EXPECT_OK(raw().cuEventCreate(&each, CU_EVENT_DISABLE_TIMING));
        for (const std::size_t piece : {mebi / 4, mebi, 4 * mebi}) {
            const auto fetch = [&](std::size_t i) {
                CUdeviceptr packed = from + i * piece;
                if (gather) {
                    packed = to + i * piece;
                    const kernel_box box = {
                        {packed, width, 0}, {from + 2 * i * piece, from_pitch, 0}, width, piece / width, 1};
                    const auto blocks = static_cast<std::uint32_t>(multiprocessors);
                    EXPECT_OK(launch_strided(raw(), loaded, box, blocks, stream).status);
                }
                EXPECT_OK(raw().cuMemcpyDtoHAsync(staging + i % slots * piece, packed, piece, stream));
                EXPECT_OK(raw().cuEventRecord(arrived[i % slots], stream));
            };
            const auto spread_piece = [&](std::size_t i) {
                spread<width>(destination + 2 * i * piece, staging + i % slots * piece, piece / width);
            };
            std::memset(destination, untouched, 2 * bytes);
            std::printf(" %zu KiB %5.1f", piece >> 10, rate(time_us([&] {
                            for (std::size_t i = 0; i < slots; ++i)
                                fetch(i);
                            for (std::size_t i = 0; i < bytes / piece; ++i) {
                                EXPECT_OK(raw().cuEventSynchronize(arrived[i % slots]));
                                spread_piece(i);
                                if (i + slots < bytes / piece) fetch(i + slots);
                            }
                        })));
            EXPECT_TRUE(is_right());
            const double alone_us = time_us([&] {
                for (std::size_t i = 0; i < bytes / piece; ++i)
                    spread_piece(i);
            });
            std::printf(" (spread alone %.1f)", rate(alone_us));
        }
        std::printf("\n");
        for (CUevent each : arrived)
            EXPECT_OK(raw().cuEventDestroy(each));
    }

    kernel_set loaded{raw()};
    CUstream stream = nullptr;
    CUdeviceptr from = 0, to = 0, host = 0;
    void *pinned = nullptr;
    int multiprocessors = 0;
    static constexpr std::uint64_t mebi = std::uint64_t{1} << 20;
};

TEST_F(kernel_speed, strided) {
    const auto all = static_cast<std::uint32_t>(multiprocessors);
    const std::vector<std::uint32_t> many = {all, 2 * all, 4 * all, 8 * all, 16 * all}, few = {2, 4, 8, 16, 32, 64};
    print_strided("device to device, gathered", to, false, from, true, 256 * mebi, many);
    print_strided("device to device, scattered", to, true, from, false, 256 * mebi, many);
    print_strided("device to device, gathered, a byte off", to, false, from, true, 64 * mebi, many, 1);
    print_strided("device to device, gathered, 4 bytes off", to, false, from, true, 64 * mebi, many, 4);
    print_strided("host to device, gathered", to, false, host, true, 64 * mebi, few);
    print_strided("host to device, scattered", to, true, host, false, 64 * mebi, few);
    print_strided("device to host, gathered", host, false, from, true, 64 * mebi, few);
    print_strided("device to host, scattered", host, true, from, false, 16 * mebi, few);
}

TEST_F(kernel_speed, lines) {
    for (const auto &[name, destination, source] :
         {std::tuple{"host to device", to, host}, {"device to host", host, from}, {"device to device", to, from}})
        for (const std::uint64_t size :
             {std::uint64_t{64}, std::uint64_t{4096}, std::uint64_t{65536}, mebi, 64 * mebi}) {
            std::printf("%s %9llu bytes: driver %8.1f us, kernel by blocks:", name,
                        static_cast<unsigned long long>(size), driver_2d_us(destination, size, source, size, size, 1));
            for (const std::uint32_t count : {1, 4, 8, 16, 32, 264})
                std::printf(" %8.1f", time_us(
                                          [&] {
                                              const kernel_box box = {{destination, 0, 0}, {source, 0, 0}, size, 1, 1};
                                              EXPECT_OK(launch_strided(raw(), loaded, box, count, stream).status);
                                          },
                                          21));
            std::printf("\n");
        }
}

TEST_F(kernel_speed, pieces) {
    struct {
        const char *name;
        std::uint32_t count;
        std::uint64_t size; // 0: all magnitudes from 16 bytes to 1 MiB
    } const cases[] = {{"4096 x 16 B", 4096, 16},
                       {"4096 x 256 B", 4096, 256},
                       {"4096 x 4 KiB", 4096, 4096},
                       {"4096 x 64 KiB", 4096, 65536},
                       {"64 x 4 MiB", 64, 4 * mebi},
                       {"mixed, 64 MiB", 0, 0},
                       {"150 x 256 B, parameters", 150, 256}};
    std::mt19937_64 random(1);
    for (const auto &[way, destination, source] :
         {std::tuple{"host to device", to, host}, {"device to host", host, from}, {"device to device", to, from}})
        for (const auto &one : cases) {
            std::vector<std::uint64_t> sizes(one.count, one.size);
            std::uint64_t sum = one.count * one.size;
            while (one.count == 0 && sum < 64 * mebi) {
                sizes.push_back(std::uint64_t{16} << random() % 17);
                sum += sizes.back();
            }
            std::vector<std::uint64_t> places;
            std::uint64_t at = 0;
            for (const std::uint64_t size : sizes) {
                places.push_back(at);
                at += 2 * size;
            }
            std::vector<std::size_t> order(sizes.size());
            for (std::size_t i = 0; i < order.size(); ++i)
                order[i] = i;
            std::shuffle(order.begin(), order.end(), random);
            const auto count = static_cast<std::uint32_t>(sizes.size());
            const bool in_parameters = count <= gpu::max_pieces_in_parameters && one.size < 65536;
            gpu::piece_parameters given = {};
            std::vector<gpu::piece> table(count);
            piece_packer packer(in_parameters ? given.pieces : table.data(), count, cut_pieces(count, sum));
            const auto begin = std::chrono::steady_clock::now();
            for (const std::size_t i : order)
                EXPECT_TRUE(packer.add(destination + places[i], source + places[i], sizes[i]));
            const std::chrono::duration<double, std::nano> packed = std::chrono::steady_clock::now() - begin;
            const device_memory on_device(table.size() * sizeof table[0]);
            const pinned_memory on_host(table.size() * sizeof table[0]);
            EXPECT_OK(raw().cuMemcpyHtoD(on_device, table.data(), on_host.size));
            std::memcpy(on_host.data(), table.data(), on_host.size);
            EXPECT_OK(raw().cuCtxSynchronize());
            CUdeviceptr host_table = 0;
            EXPECT_OK(raw().cuMemHostGetDevicePointer(&host_table, on_host.address, 0));
            std::printf("%s, %s: %.1f ns a piece to pack; us (GB/s) by blocks\n", way, one.name,
                        packed.count() / count);
            const gpu::piece *const none = nullptr;
            for (const auto &[kind, address, readable] : {std::tuple{"device table", CUdeviceptr{on_device}, none},
                                                          {"host table", host_table, none},
                                                          {"indexed", host_table, table.data()}}) {
                std::printf("  %-12s", in_parameters ? "parameters" : kind);
                for (const std::uint32_t blocks : {4, 8, 16, 64, 132, 264, 528, 1056}) {
                    const double us = time_us(
                        [&] {
                            EXPECT_OK((in_parameters ? launch_pieces(raw(), loaded, packer, given, blocks, stream)
                                                     : launch_piece_table(raw(), loaded, packer, address, readable,
                                                                          blocks, stream))
                                          .status);
                        },
                        21);
                    std::printf(" %u: %.1f (%.0f)", blocks, us, static_cast<double>(sum) * 1e-3 / us);
                }
                std::printf("\n");
                if (in_parameters) break;
            }
        }
}

TEST_F(kernel_speed, arrays) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {512, 512, 512, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    ASSERT_OK(raw().cuArray3DCreate(&resource.res.array.hArray, &descriptor));
    CUsurfObject surface = 0;
    ASSERT_OK(raw().cuSurfObjectCreate(&surface, &resource));
    const auto read = [&](std::uint32_t boxes, std::uint64_t width, std::uint64_t side) {
        std::vector<gpu::array_box> table(boxes);
        array_packer packer(table.data(), boxes, cut_array_boxes(boxes, boxes * width * side * side));
        for (std::uint64_t i = 0; i < boxes; ++i) {
            const std::uint64_t x = boxes == 1 ? 0 : i % 31 * 64, y = boxes == 1 ? 0 : i * 7 % 400;
            EXPECT_EQ(packer.add({{to + i * width * side * side, width, width * side},
                                  surface,
                                  gpu::array_form::three_d,
                                  x,
                                  y,
                                  boxes == 1 ? 0 : i * 13 % 400,
                                  width,
                                  side,
                                  side}),
                      pack_result::added);
        }
        const device_memory memory(table.size() * sizeof table[0]);
        EXPECT_OK(raw().cuMemcpyHtoD(memory, table.data(), table.size() * sizeof table[0]));
        EXPECT_OK(raw().cuCtxSynchronize());
        gpu::array_box_parameters given;
        for (const std::uint32_t blocks : {132, 264, 528, 1056, 2112}) {
            const double us =
                time_us([&] { EXPECT_OK(launch_arrays(raw(), loaded, packer, given, memory, blocks, stream).status); });
            std::printf(" %u: %.1f us (%.0f GB/s)", blocks, us,
                        static_cast<double>(boxes * width * side * side) * 1e-3 / us);
        }
        std::printf("\n");
    };
    CUDA_MEMCPY3D call = {};
    call.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    call.srcArray = resource.res.array.hArray;
    call.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    call.dstDevice = to;
    call.dstPitch = call.WidthInBytes = 2048;
    call.dstHeight = call.Height = call.Depth = 512;
    const double bytes = 512.0 * 1048.576;
    std::printf("3D array, 512^3 float: driver %.0f GB/s\n",
                bytes / time_us([&] { EXPECT_OK(raw().cuMemcpy3DAsync(&call, stream)); }));
    for (const std::uint64_t off : {0, 16, 8, 4, 2, 1}) {
        std::printf("3D array, 512^3 float, to %llu bytes past a line, GB/s by blocks:",
                    static_cast<unsigned long long>(off));
        const kernel_array_box box = {
            {to + off, 2048, 2048 * 512}, surface, gpu::array_form::three_d, 0, 0, 0, 2048 - off % 16, 512, 512};
        for (const std::uint32_t blocks : {33, 132, 264, 528, 1056, 4224, 16384, 65535})
            std::printf(" %u: %.0f", blocks,
                        bytes / time_us([&] { EXPECT_OK(launch_array(raw(), loaded, box, blocks, stream).status); }));
        std::printf("\n");
    }
    std::printf("3D array, 512^3 float, as one of many, by blocks:");
    read(1, 2048, 512);
    std::printf("3D array, 1000 boxes of 16^3, by blocks:");
    read(1000, 64, 16);
    EXPECT_OK(raw().cuSurfObjectDestroy(surface));
    EXPECT_OK(raw().cuArrayDestroy(resource.res.array.hArray));
}

TEST_F(kernel_speed, spreading) {
    std::printf("device to host, scattered to twice the width, 16 MiB, GB/s of payload\n");
    for (const bool gather : {false, true}) {
        print_spreading<4>(gather);
        print_spreading<8>(gather);
        print_spreading<16>(gather);
        print_spreading<32>(gather);
    }
}

TEST_F(kernel_speed, fills) {
    for (const std::uint64_t width : {4, 16, 64, 100, 256, 512, 1024, 2048, 4096, 1 << 20}) {
        const std::uint64_t height = 256 * mebi / width;
        kernel_fill fill = {{to, 2 * width, 0}, width, height, 1, {1, 2, 3, 4}, 4};
        std::printf(
            "fill, rows of %llu bytes: driver %.0f GB/s, kernel by blocks:", static_cast<unsigned long long>(width),
            256.0 * 1048.576 /
                time_us([&] { EXPECT_OK(raw().cuMemsetD2D32Async(to, 2 * width, 7, width / 4, height, stream)); }));
        for (const std::uint32_t blocks : {132, 264, 528, 1056})
            std::printf(" %u: %.0f", blocks, 256.0 * 1048.576 / time_us([&] {
                                                 EXPECT_OK(launch_fill(raw(), loaded, fill, blocks, stream).status);
                                             }));
        std::printf("\n");
    }
}

} // namespace
} // namespace ferry::test
