// Which devices of the software driver can access each other's memory (ferry_software_options.links), and links that
// lose what goes over them, which only tests can request. Each test opens a software driver of its own.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "driver/table.h"
#include "ferry/ferry_memory.h"
#include "ferry/ferry_software.h"
#include "softdriver/softdriver.h"
#include "support/gpu_profile.h"
#include "support/how.h"

namespace ferry::test {
namespace {

using picture = std::vector<unsigned char>;
constexpr std::size_t size = 3000;

picture make_picture(unsigned char seed) {
    picture made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<unsigned char>(i * 7 + i / 256 * 13 + seed * 61u);
    return made;
}

#define EXPECT_DONE(call) EXPECT_EQ(static_cast<int>(call), 0)
#define ASSERT_DONE(call) ASSERT_EQ(static_cast<int>(call), 0)
#define EXPECT_RESULT(expected, call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(expected))

using softdriver::device_links;
constexpr device_links all_settings[] = {device_links::unset, device_links::all, device_links::none,
                                         device_links::pairs, device_links::lossy};

std::int32_t open_with(const ferry_software_options *settings, ferry_instance **instance, ferry_error_info *error) {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_SOFTWARE;
    options.driver_options = settings;
    return ferry_open(&options, instance, error);
}

ferry_software_options new_settings() {
    ferry_software_options settings = {};
    settings.struct_size = sizeof settings;
    return settings;
}

// One end of a copy between devices: memory of a context.
struct end {
    CUdeviceptr address;
    CUcontext context;
};

class software_links : public testing::Test {
protected:
    // Makes the primary context of device 0 current.
    void open(device_links links, std::uint32_t devices = 2) {
        softdriver::config settings;
        settings.devices = devices;
        settings.links = links;
        ASSERT_EQ(softdriver::open(settings), softdriver::open_result::opened);
        ASSERT_EQ(open_with(nullptr, &ferry_, nullptr), FERRY_SUCCESS);
        softdriver::close(); // the instance keeps it running
        plan_as_on_a_gpu(ferry_);
        bool found[driver_symbol_count];
        const auto get_proc = [](void *instance, const char *name, int version) {
            return ferry_instance_get_proc(static_cast<ferry_instance *>(instance), name, version);
        };
        resolve_table({get_proc, ferry_}, cu_, found);
        contexts_.resize(devices);
        for (std::uint32_t i = 0; i < devices; ++i)
            ASSERT_DONE(cu_.cuDevicePrimaryCtxRetain(&contexts_[i], static_cast<int>(i)));
        ASSERT_DONE(cu_.cuCtxSetCurrent(contexts_[0]));
        ASSERT_DONE(cu_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    }
    void close() {
        if (!ferry_) return;
        EXPECT_DONE(cu_.cuCtxSetCurrent(nullptr));
        for (std::size_t i = 0; i < contexts_.size(); ++i)
            EXPECT_DONE(cu_.cuDevicePrimaryCtxRelease(static_cast<int>(i)));
        ferry_close(ferry_);
        ferry_ = nullptr;
    }
    void TearDown() override { close(); }

    // ---- Reports and access

    int attribute(CUdevice_P2PAttribute which, int device, int peer) {
        int value = -1;
        EXPECT_DONE(cu_.cuDeviceGetP2PAttribute(&value, which, device, peer));
        return value;
    }
    ferry_peer_info info_of(int device, int peer) {
        ferry_peer_info info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(ferry_peer_get_info(ferry_, device, peer, &info, nullptr), FERRY_SUCCESS);
        return info;
    }
    CUresult enable(int device, int peer) {
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[device]));
        const CUresult result = cu_.cuCtxEnablePeerAccess(contexts_[peer], 0);
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[0]));
        return result;
    }
    void disable(int device, int peer) {
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[device]));
        EXPECT_DONE(cu_.cuCtxDisablePeerAccess(contexts_[peer]));
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[0]));
    }
    // The reports of the driver and of ferry, and whether access is granted, also to a pool.
    void expect_link(int device, int peer, bool is_linked) {
        SCOPED_TRACE(testing::Message() << "from device " << device << " to device " << peer);
        int can = -1;
        EXPECT_DONE(cu_.cuDeviceCanAccessPeer(&can, device, peer));
        EXPECT_EQ(can, is_linked);
        EXPECT_EQ(attribute(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device, peer), is_linked);
        EXPECT_EQ(attribute(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device, peer), is_linked);
        EXPECT_EQ(attribute(CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, device, peer), is_linked);
        EXPECT_EQ(info_of(device, peer).driver_can_access, is_linked);
        EXPECT_EQ(info_of(device, peer).native_atomics, is_linked);
        EXPECT_EQ(info_of(device, peer).array_access, is_linked);

        EXPECT_RESULT(is_linked ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, enable(device, peer));
        if (is_linked) disable(device, peer);

        const CUmemoryPool pool = make_pool(peer);
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_RESULT(is_linked ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE, cu_.cuMemPoolSetAccess(pool, &access, 1));
        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
        EXPECT_DONE(cu_.cuMemPoolGetAccess(&flags, pool, &access.location));
        EXPECT_EQ(flags, is_linked ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        EXPECT_DONE(cu_.cuMemPoolSetAccess(pool, &access, 1)) << "taking access away needs no link";
        EXPECT_DONE(cu_.cuMemPoolDestroy(pool));
    }
    // By ferry's own calls, which send data.
    void expect_usable(int device, int peer, bool is_usable) {
        SCOPED_TRACE(testing::Message() << "from device " << device << " to device " << peer);
        const std::int32_t expected = is_usable                                 ? FERRY_SUCCESS
                                      : info_of(device, peer).driver_can_access ? FERRY_ERROR_DATA_LOST
                                                                                : FERRY_ERROR_PEER_ACCESS;
        EXPECT_EQ(ferry_peer_probe(ferry_, device, peer, nullptr), expected);
        EXPECT_EQ(info_of(device, peer).can_access, is_usable);
        EXPECT_EQ(ferry_peer_enable(ferry_, device, peer, nullptr), expected);
        const CUmemoryPool pool = make_pool(peer);
        EXPECT_EQ(ferry_pool_set_access(ferry_, pool, device, FERRY_ACCESS_READ_WRITE, nullptr), expected);
        std::int32_t access = -1;
        EXPECT_EQ(ferry_pool_get_access(ferry_, pool, device, &access, nullptr), FERRY_SUCCESS);
        EXPECT_EQ(access, is_usable ? FERRY_ACCESS_READ_WRITE : FERRY_ACCESS_NONE);
        EXPECT_EQ(ferry_pool_destroy(ferry_, pool, nullptr), FERRY_SUCCESS);
        if (is_usable) {
            EXPECT_EQ(ferry_peer_disable(ferry_, device, peer, nullptr), FERRY_SUCCESS);
        }
    }

    // ---- Memory. It is released when the driver closes.

    CUmemoryPool make_pool(int device) {
        CUmemPoolProps wanted = {};
        wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        CUmemoryPool pool = nullptr;
        EXPECT_DONE(cu_.cuMemPoolCreate(&pool, &wanted));
        return pool;
    }
    CUdeviceptr make(int device) {
        CUdeviceptr address = 0;
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[device]));
        EXPECT_DONE(cu_.cuMemAlloc(&address, size));
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[0]));
        return address;
    }
    end make_end(int device) { return {make(device), contexts_[device]}; }
    CUarray make_array(int device) {
        const CUDA_ARRAY3D_DESCRIPTOR wanted = {size, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
        CUarray array = nullptr;
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[device]));
        EXPECT_DONE(cu_.cuArray3DCreate(&array, &wanted));
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[0]));
        return array;
    }
    void write(CUdeviceptr address, const picture &data) {
        EXPECT_DONE(cu_.cuMemcpyHtoD(address, data.data(), size));
        synchronise();
    }
    picture read(CUdeviceptr address) {
        synchronise();
        picture data(size);
        EXPECT_DONE(cu_.cuMemcpyDtoH(data.data(), address, size));
        return data;
    }
    void synchronise() {
        for (const CUcontext context : contexts_) {
            EXPECT_DONE(cu_.cuCtxSetCurrent(context));
            EXPECT_DONE(cu_.cuCtxSynchronize());
        }
        EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[0]));
    }

    // ---- Copies between devices, in every form

    CUDA_MEMCPY3D_PEER describe(const end &to, const end &from) {
        CUDA_MEMCPY3D_PEER call = {};
        call.srcMemoryType = call.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        call.srcDevice = from.address;
        call.srcContext = from.context;
        call.dstDevice = to.address;
        call.dstContext = to.context;
        call.srcPitch = call.dstPitch = call.WidthInBytes = size / 3;
        call.Height = 3;
        call.Depth = 1;
        return call;
    }
    void copy_in_graph(const end &to, const end &from) {
        CUgraph graph = nullptr;
        CUgraphExec runs = nullptr;
        EXPECT_DONE(cu_.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
        EXPECT_DONE(cu_.cuMemcpyDtoDAsync(to.address, from.address, size, stream_));
        EXPECT_DONE(cu_.cuStreamEndCapture(stream_, &graph));
        EXPECT_DONE(cu_.cuGraphInstantiateWithFlags(&runs, graph, 0));
        EXPECT_DONE(cu_.cuGraphLaunch(runs, stream_));
        EXPECT_DONE(cu_.cuStreamSynchronize(stream_));
        EXPECT_DONE(cu_.cuGraphExecDestroy(runs));
        EXPECT_DONE(cu_.cuGraphDestroy(graph));
    }
    void copy_in_batch(end to, end from) {
        CUmemcpyAttributes attributes = {};
        attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        std::size_t bytes = size, first = 0;
        EXPECT_DONE(cu_.cuMemcpyBatchAsync(&to.address, &from.address, &bytes, 1, &attributes, &first, 1, stream_));
    }
    // Copies with every form, and expects the source's bytes at the destination, or the bytes from before.
    void expect_copies(const end &to, const end &from, bool arrive) {
        const CUDA_MEMCPY3D_PEER box = describe(to, from);
        const struct {
            const char *name;
            std::function<void()> copy;
        } forms[] = {
            {"cuMemcpy", [&] { EXPECT_DONE(cu_.cuMemcpy(to.address, from.address, size)); }},
            {"cuMemcpyDtoDAsync", [&] { EXPECT_DONE(cu_.cuMemcpyDtoDAsync(to.address, from.address, size, stream_)); }},
            {"cuMemcpyPeer",
             [&] { EXPECT_DONE(cu_.cuMemcpyPeer(to.address, to.context, from.address, from.context, size)); }},
            {"cuMemcpyPeerAsync",
             [&] {
                 EXPECT_DONE(cu_.cuMemcpyPeerAsync(to.address, to.context, from.address, from.context, size, stream_));
             }},
            {"cuMemcpy3DPeer", [&] { EXPECT_DONE(cu_.cuMemcpy3DPeer(&box)); }},
            {"cuMemcpy3DPeerAsync", [&] { EXPECT_DONE(cu_.cuMemcpy3DPeerAsync(&box, stream_)); }},
            {"cuMemcpyBatchAsync", [&] { copy_in_batch(to, from); }},
            {"a graph", [&] { copy_in_graph(to, from); }},
            {"ferry_copy_bytes",
             [&] {
                 EXPECT_EQ(ferry_copy_bytes(ferry_, to.address, from.address, size, nullptr, nullptr), FERRY_SUCCESS);
             }},
        };
        unsigned char seed = 0;
        for (const auto &one : forms) {
            SCOPED_TRACE(one.name);
            const picture sent = make_picture(++seed), before = make_picture(++seed);
            write(from.address, sent);
            write(to.address, before);
            one.copy();
            EXPECT_EQ(read(to.address), arrive ? sent : before);
            EXPECT_EQ(read(from.address), sent);
        }
    }

    ferry_instance *ferry_ = nullptr;
    driver_table cu_;
    std::vector<CUcontext> contexts_; // primary, by device
    CUstream stream_ = nullptr;       // on device 0
};

TEST_F(software_links, every_pair_is_linked_by_default_and_on_request) {
    for (const device_links links : {device_links::unset, device_links::all}) {
        open(links, 3);
        for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}, std::pair{0, 2}, std::pair{2, 1}}) {
            expect_link(device, peer, true);
            expect_usable(device, peer, true);
            EXPECT_EQ(info_of(device, peer).probe, FERRY_PROBE_PASSED);
        }
        close();
    }
}

TEST_F(software_links, without_links_no_pair_reports_or_gets_access) {
    open(device_links::none);
    for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
        expect_link(device, peer, false);
        expect_usable(device, peer, false);
        EXPECT_EQ(info_of(device, peer).probe, FERRY_PROBE_NOT_RUN);
    }
    // A device always has access to its own pools.
    const CUmemoryPool own = make_pool(1);
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_DONE(cu_.cuMemPoolSetAccess(own, &access, 1));
    EXPECT_DONE(cu_.cuMemPoolDestroy(own));
}

TEST_F(software_links, in_pairs_four_devices_are_two_islands) {
    open(device_links::pairs, 4);
    for (int device = 0; device < 4; ++device)
        for (int peer = 0; peer < 4; ++peer)
            if (peer != device) {
                expect_link(device, peer, device / 2 == peer / 2);
                expect_usable(device, peer, device / 2 == peer / 2);
            }
}

TEST_F(software_links, of_an_odd_number_in_pairs_the_last_device_has_no_link) {
    open(device_links::pairs, 3);
    expect_link(0, 1, true);
    expect_link(2, 0, false);
    expect_link(1, 2, false);
}

TEST_F(software_links, lossy_links_are_reported_and_granted_and_fail_the_probe) {
    open(device_links::lossy);
    std::uint32_t failed = 0;
    for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
        expect_link(device, peer, true);
        EXPECT_EQ(info_of(device, peer).can_access, 1) << "before the probe";
        expect_usable(device, peer, false);
        EXPECT_EQ(info_of(device, peer).driver_can_access, 1);
        EXPECT_EQ(info_of(device, peer).probe, FERRY_PROBE_FAILED);
        ferry_report report = {};
        report.struct_size = sizeof report;
        EXPECT_EQ(ferry_instance_get_report(ferry_, &report, nullptr), FERRY_SUCCESS);
        EXPECT_EQ(report.failed_peers, ++failed);
    }
    expect_copies(make_end(0), make_end(1), true); // the probes have left no access behind
}

TEST_F(software_links, threads_that_enable_a_lossy_link_together_leave_it_off) {
    for (int round = 0; round < 30; ++round) {
        open(device_links::lossy);
        std::vector<std::thread> threads;
        std::atomic<int> ready = 0;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back([&] {
                ++ready;
                while (ready < 3)
                    std::this_thread::yield();
                EXPECT_EQ(ferry_peer_enable(ferry_, 0, 1, nullptr), FERRY_ERROR_DATA_LOST);
            });
        for (std::thread &one : threads)
            one.join();
        EXPECT_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cu_.cuCtxDisablePeerAccess(contexts_[1]));
        close();
    }
}

TEST_F(software_links, calibrations_measure_copies_with_access_only_over_sound_links) {
    const struct {
        device_links links;
        std::int32_t probe;
    } settings[] = {{device_links::all, FERRY_PROBE_PASSED},
                    {device_links::none, FERRY_PROBE_NOT_RUN},
                    {device_links::lossy, FERRY_PROBE_FAILED}};
    for (const auto &[links, probe] : settings) {
        SCOPED_TRACE(static_cast<int>(links));
        open(links);
        ASSERT_EQ(ferry_peer_calibrate(ferry_, 0, 1, nullptr), FERRY_SUCCESS);
        const ferry_peer_info info = info_of(0, 1);
        EXPECT_EQ(info.probe, probe);
        EXPECT_EQ(info.direct_mb_per_s > 0, probe == FERRY_PROBE_PASSED);
        EXPECT_EQ(info.link_to_mb_per_s > 0, probe == FERRY_PROBE_PASSED);
        EXPECT_GT(info.bounce_mb_per_s, 0u);
        EXPECT_GT(info.relay_mb_per_s, 0u);
        EXPECT_GT(info.relay_fixed_ns, 0u);
        expect_copies(make_end(0), make_end(1),
                      true); // no access is left behind, which would lose them over lossy links
        close();
    }
    open(device_links::pairs, 3);
    for (const int peer : {1, 2})
        ASSERT_EQ(ferry_peer_calibrate(ferry_, 0, peer, nullptr), FERRY_SUCCESS);
    EXPECT_GT(info_of(0, 1).direct_mb_per_s, 0u);
    EXPECT_EQ(info_of(0, 2).direct_mb_per_s, 0u);
    EXPECT_GT(info_of(0, 2).bounce_mb_per_s, 0u);
    EXPECT_EQ(info_of(1, 2).bounce_mb_per_s, 0u) << "not calibrated";
}

TEST_F(software_links, copies_without_access_arrive_whatever_the_links) {
    for (const device_links links : all_settings) {
        SCOPED_TRACE(static_cast<int>(links));
        open(links, 4);
        const end first = make_end(0);
        for (const int other : {1, 2, 3}) {
            const end second = make_end(other);
            expect_copies(first, second, true);
            expect_copies(second, first, true);
        }
        close();
    }
}

TEST_F(software_links, copies_over_sound_links_arrive) {
    for (const device_links links : {device_links::all, device_links::pairs}) {
        SCOPED_TRACE(static_cast<int>(links));
        open(links);
        const end first = make_end(0), second = make_end(1);
        ASSERT_DONE(enable(0, 1));
        expect_copies(first, second, true);
        expect_copies(second, first, true);
        close();
    }
}

TEST_F(software_links, copies_over_lossy_links_write_nothing_while_either_context_has_access) {
    open(device_links::lossy, 3);
    const end first = make_end(0), second = make_end(1), third = make_end(2), neighbour = make_end(0);
    for (const auto &[device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
        SCOPED_TRACE(testing::Message() << "from device " << device << " to device " << peer);
        ASSERT_DONE(enable(device, peer));
        expect_copies(first, second, false);
        expect_copies(second, first, false);
        expect_copies(first, third, true);
        expect_copies(third, second, true);
        expect_copies(first, neighbour, true);
        disable(device, peer);
        expect_copies(first, second, true);
        expect_copies(second, first, true);
    }
}

TEST_F(software_links, the_contexts_that_a_copy_names_count_or_else_the_owners_of_the_memory) {
    open(device_links::lossy);
    const CUdeviceptr far = make(1);
    CUcontext other = nullptr; // also on device 0
    CUdeviceptr near = 0;
    ASSERT_DONE(cu_.cuCtxCreate(&other, 0, 0));
    ASSERT_DONE(cu_.cuMemAlloc(&near, size));
    ASSERT_DONE(enable(0, 1));
    const picture of_far = make_picture(1), of_near = make_picture(2);
    const auto copy = [&](CUcontext named) {
        write(far, of_far);
        write(near, of_near);
        if (named) {
            EXPECT_DONE(cu_.cuMemcpyPeer(near, named, far, contexts_[1], size));
        } else {
            EXPECT_DONE(cu_.cuMemcpyDtoD(near, far, size));
        }
        return read(near);
    };
    EXPECT_EQ(copy(contexts_[0]), of_near);
    EXPECT_EQ(copy(other), of_far);
    EXPECT_EQ(copy(nullptr), of_far);
    ASSERT_DONE(cu_.cuCtxSetCurrent(other));
    ASSERT_DONE(cu_.cuCtxEnablePeerAccess(contexts_[1], 0));
    EXPECT_EQ(copy(other), of_near);
    EXPECT_EQ(copy(nullptr), of_near);
    ASSERT_DONE(cu_.cuCtxDestroy(other));
}

TEST_F(software_links, copies_of_arrays_are_lost_like_copies_of_memory) {
    open(device_links::lossy);
    const CUarray array = make_array(1);
    const CUdeviceptr memory = make(0);
    const picture of_array = make_picture(1), of_memory = make_picture(2);
    for (const bool has_access : {false, true}) {
        SCOPED_TRACE(has_access);
        if (has_access) {
            ASSERT_DONE(enable(0, 1));
        }
        EXPECT_DONE(cu_.cuMemcpyHtoA(array, 0, of_array.data(), size));
        write(memory, of_memory);
        EXPECT_DONE(cu_.cuMemcpyAtoD(memory, array, 0, size));
        EXPECT_EQ(read(memory), has_access ? of_memory : of_array);
        write(memory, of_memory);
        EXPECT_DONE(cu_.cuMemcpyDtoA(array, 0, memory, size));
        synchronise();
        picture back(size);
        EXPECT_DONE(cu_.cuMemcpyAtoH(back.data(), array, 0, size));
        EXPECT_EQ(back, has_access ? of_array : of_memory);
    }
}

TEST_F(software_links, access_to_a_pool_over_a_lossy_link_loses_copies) {
    for (const device_links links : {device_links::all, device_links::lossy}) {
        SCOPED_TRACE(static_cast<int>(links));
        const bool arrives = links == device_links::all;
        open(links);
        const CUmemoryPool pool = make_pool(1);
        CUdeviceptr far = 0;
        ASSERT_DONE(cu_.cuMemAllocFromPoolAsync(&far, size, pool, stream_));
        ASSERT_DONE(cu_.cuStreamSynchronize(stream_));
        const CUdeviceptr near = make(0);
        const auto copy = [&](bool names_contexts, CUdeviceptr to, CUdeviceptr from) {
            const int device = to == near ? 0 : 1;
            if (names_contexts) {
                EXPECT_DONE(cu_.cuMemcpyPeer(to, contexts_[device], from, contexts_[1 - device], size));
            } else {
                EXPECT_DONE(cu_.cuMemcpyDtoD(to, from, size));
            }
            synchronise();
        };
        const auto write_far = [&](const picture &data) {
            EXPECT_DONE(cu_.cuCtxSetCurrent(contexts_[1])); // which has access
            EXPECT_DONE(cu_.cuMemcpyHtoD(far, data.data(), size));
            synchronise();
        };
        const picture of_near = make_picture(1), of_far = make_picture(2);
        write(near, of_near);
        write_far(of_far);
        copy(true, near, far);
        EXPECT_EQ(read(near), of_far) << "without access";

        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        ASSERT_DONE(cu_.cuMemPoolSetAccess(pool, &access, 1));
        for (const bool names_contexts : {false, true}) {
            SCOPED_TRACE(names_contexts);
            write(near, of_near);
            write_far(of_far);
            copy(names_contexts, near, far);
            EXPECT_EQ(read(near), arrives ? of_far : of_near);
            write(near, of_near);
            copy(names_contexts, far, near);
            EXPECT_EQ(read(far), arrives ? of_near : of_far);
        }
        close();
    }
}

TEST_F(software_links, fills_and_kernels_over_lossy_links_change_nothing_at_the_peer_and_read_ones) {
    for (const device_links links : {device_links::all, device_links::lossy}) {
        SCOPED_TRACE(static_cast<int>(links));
        const bool arrives = links == device_links::all;
        open(links);
        const CUdeviceptr near = make(0), far = make(1);
        ASSERT_DONE(enable(0, 1));
        const picture of_near = make_picture(1), of_far = make_picture(2);
        write(far, of_far);
        EXPECT_DONE(cu_.cuMemsetD8Async(far, 0x5a, size, stream_));
        EXPECT_EQ(read(far), arrives ? picture(size, 0x5a) : of_far);
        EXPECT_DONE(cu_.cuMemsetD8Async(near, 0x5a, size, stream_));
        EXPECT_EQ(read(near), picture(size, 0x5a)) << "a device reaches its own memory";

        const auto copy_by_kernel = [&](CUdeviceptr to, CUdeviceptr from) {
            ferry_copy_desc copy = {};
            copy.source.address = from;
            copy.destination.address = to;
            copy.width = size;
            copy.height = copy.depth = 1;
            EXPECT_EQ(ferry_copy_async(ferry_, &copy, by_kernel, stream_, nullptr, nullptr), FERRY_SUCCESS);
            EXPECT_DONE(cu_.cuStreamSynchronize(stream_));
        };
        write(near, of_near);
        write(far, of_far);
        copy_by_kernel(far, near);
        EXPECT_EQ(read(far), arrives ? of_near : of_far);
        write(far, of_far);
        copy_by_kernel(near, far);
        EXPECT_EQ(read(near), arrives ? of_far : picture(size, 0xff));
        close();
    }
}

TEST_F(software_links, links_that_differ_from_the_running_driver_are_refused) {
    for (const device_links running : all_settings) {
        SCOPED_TRACE(testing::Message() << "running " << static_cast<int>(running));
        open(running);
        for (const device_links asked :
             {device_links::unset, device_links::all, device_links::none, device_links::pairs}) {
            SCOPED_TRACE(testing::Message() << "asked " << static_cast<int>(asked));
            const device_links in_force = running == device_links::unset ? device_links::all : running;
            const bool agrees = asked == device_links::unset || asked == in_force;
            ferry_software_options settings = new_settings();
            settings.links = static_cast<std::int32_t>(asked);
            ferry_error_info error = {};
            error.struct_size = sizeof error;
            ferry_instance *second = nullptr;
            EXPECT_EQ(open_with(&settings, &second, &error), agrees ? FERRY_SUCCESS : FERRY_ERROR_SOFTWARE_CONFIG);
            EXPECT_EQ(second != nullptr, agrees);
            EXPECT_EQ(error.side, agrees ? FERRY_SIDE_NONE : FERRY_SIDE_OPTIONS);
            EXPECT_EQ(error.field, agrees ? FERRY_FIELD_NONE : FERRY_FIELD_DRIVER_OPTIONS);
            ferry_close(second);
        }
        expect_link(0, 1, running != device_links::none); // as before
        close();
    }
}

TEST_F(software_links, settings_out_of_range_are_refused) {
    const ferry_software_options good = new_settings();
    struct {
        ferry_software_options settings;
        std::int32_t status;
        std::string line;
    } cases[] = {
        {good, FERRY_ERROR_INVALID_ARGUMENT,
         "driver_options.devices: 65, must be from 0 to 64 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {good, FERRY_ERROR_INVALID_ARGUMENT,
         "driver_options.queues: 129, must be from 0 to 128 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {good, FERRY_ERROR_INVALID_ARGUMENT,
         "driver_options.links: 4, must be from 0 to 3 (FERRY_ERROR_INVALID_ARGUMENT)"},
        {good, FERRY_ERROR_ABI_MISMATCH,
         "driver_options.struct_size: 7, must be at least 8 (FERRY_ERROR_ABI_MISMATCH)"},
        {good, FERRY_ERROR_OUT_OF_MEMORY,
         "no host memory for the library's own structures (FERRY_ERROR_OUT_OF_MEMORY)"},
    };
    cases[0].settings.devices = 65;
    cases[1].settings.queues = 129;
    cases[2].settings.links = static_cast<std::int32_t>(device_links::lossy); // for tests only
    cases[3].settings.struct_size = 7;
    cases[4].settings.memory = UINT64_MAX;
    for (const auto &[settings, status, line] : cases) {
        ferry_error_info error = {};
        error.struct_size = sizeof error;
        ferry_instance *instance = nullptr;
        EXPECT_EQ(open_with(&settings, &instance, &error), status);
        EXPECT_EQ(instance, nullptr);
        char text[200] = "";
        ferry_error_format(&error, text, sizeof text);
        EXPECT_EQ(text, line);
    }
}

} // namespace
} // namespace ferry::test
