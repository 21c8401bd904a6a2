#include "support/test_place.h"

#include <cstdlib>
#include <cstring>

#include "support/system.h"

namespace ferry::test {

const char *name_of(place_kind kind) {
    constexpr const char *names[] = {"pageable", "pinned",       "registered",        "managed",  "device",
                                     "pool",     "pool_of_host", "open_pool_of_host", "array_1d", "array_2d",
                                     "array_3d", "layers_1d",    "layers_2d",         "cubemap",  "mipmap_level"};
    return names[static_cast<int>(kind)];
}

bool is_supported(place_kind kind) {
    int supported = 1;
    if (kind == place_kind::pool) {
        EXPECT_OK(raw().cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    }
    // The attribute is new in CUDA 13.0.
    if ((kind == place_kind::pool_of_host || kind == place_kind::open_pool_of_host) &&
        raw().cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0))
        supported = 0;
    return supported;
}

bool can_be(place_kind kind, const grid &shape) {
    switch (kind) {
    case place_kind::array_1d:
        return shape.height == 1 && shape.depth == 1;
    case place_kind::array_2d:
        return shape.depth == 1;
    case place_kind::layers_1d:
        return shape.height == 1 && shape.width <= 32768; // the limit that every GPU supports
    case place_kind::layers_2d:
        return shape.width <= 32768;
    case place_kind::cubemap:
        return shape.width == shape.height * shape.element_size && shape.depth == 6;
    case place_kind::array_3d:
    case place_kind::mipmap_level:
        return shape.width <= 8192; // level 0 is twice as wide
    default:
        return is_supported(kind);
    }
}

namespace {

void array_format(std::uint32_t element_size, CUarray_format &format, unsigned &channels) {
    switch (element_size) {
    case 1:
        format = CU_AD_FORMAT_UNSIGNED_INT8, channels = 1;
        break;
    case 2:
        format = CU_AD_FORMAT_HALF, channels = 1;
        break;
    case 4:
        format = CU_AD_FORMAT_FLOAT, channels = 1;
        break;
    case 8:
        format = CU_AD_FORMAT_SIGNED_INT16, channels = 4;
        break;
    default:
        format = CU_AD_FORMAT_UNSIGNED_INT32, channels = 4;
        break;
    }
}

constexpr std::uint64_t page = 4096;

// Created once, because a host pool takes tens of milliseconds for its first allocation.
CUmemoryPool make_host_pool(int devices) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemoryPool pool = nullptr;
    std::uint64_t everything = ~std::uint64_t{0};
    EXPECT_OK(raw().cuMemPoolCreate(&pool, &props));
    EXPECT_OK(raw().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
    for (int device = 0; device < devices; ++device) {
        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_OK(raw().cuMemPoolSetAccess(pool, &access, 1));
    }
    return pool;
}

CUmemoryPool pool_for(place_kind kind) {
    if (kind == place_kind::open_pool_of_host) {
        static const CUmemoryPool open = make_host_pool(device_count());
        return open;
    }
    static const CUmemoryPool closed = make_host_pool(0);
    return closed;
}

} // namespace

test_place::test_place(place_kind kind, const grid &shape, int device) : kind_(kind), shape_(shape), device_(device) {
    if (!shape_.row_pitch || is_array(kind)) shape_.row_pitch = shape_.width;
    if (!shape_.slice_height || is_array(kind)) shape_.slice_height = shape_.height;
    if (is_array(kind)) shape_.lead = 0;
    CUdevice handle = 0;
    EXPECT_OK(raw().cuDeviceGet(&handle, device));
    EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&context_, handle));
    const std::uint64_t size = shape_.lead + shape_.row_pitch * shape_.slice_height * shape_.depth;
    picture_.resize(size);
    enter();
    switch (kind) {
    case place_kind::pageable:
        allocation_ = reinterpret_cast<std::uint64_t>(std::malloc(size));
        break;
    case place_kind::registered:
        allocation_ = reinterpret_cast<std::uint64_t>(allocate_aligned((size + page - 1) / page * page, page));
        EXPECT_OK(raw().cuMemHostRegister(reinterpret_cast<void *>(allocation_), size, CU_MEMHOSTREGISTER_PORTABLE));
        break;
    case place_kind::pinned:
        EXPECT_OK(raw().cuMemHostAlloc(reinterpret_cast<void **>(&allocation_), size, CU_MEMHOSTALLOC_PORTABLE));
        break;
    case place_kind::device: {
        CUdeviceptr allocated = 0;
        EXPECT_OK(raw().cuMemAlloc(&allocated, size));
        allocation_ = allocated;
        break;
    }
    case place_kind::pool:
    case place_kind::pool_of_host:
    case place_kind::open_pool_of_host: {
        CUdeviceptr allocated = 0;
        EXPECT_OK(kind == place_kind::pool ? raw().cuMemAllocAsync(&allocated, size, nullptr)
                                           : raw().cuMemAllocFromPoolAsync(&allocated, size, pool_for(kind), nullptr));
        EXPECT_OK(raw().cuStreamSynchronize(nullptr));
        allocation_ = allocated;
        break;
    }
    case place_kind::managed: {
        CUdeviceptr allocated = 0;
        EXPECT_OK(raw().cuMemAllocManaged(&allocated, size, CU_MEM_ATTACH_GLOBAL));
        allocation_ = allocated;
        break;
    }
    default:
        create_array();
    }
    leave();
    address_ = allocation_ + shape_.lead;
}

void test_place::create_array() {
    CUDA_ARRAY3D_DESCRIPTOR desc = {};
    array_format(shape_.element_size, desc.Format, desc.NumChannels);
    const bool has_rows = kind_ != place_kind::array_1d && kind_ != place_kind::layers_1d;
    const bool has_slices = has_rows && kind_ != place_kind::array_2d;
    desc.Width = shape_.width / shape_.element_size;
    desc.Height = has_rows ? shape_.height : 0;
    desc.Depth = has_slices || kind_ == place_kind::layers_1d ? shape_.depth : 0;
    if (kind_ == place_kind::layers_1d || kind_ == place_kind::layers_2d) desc.Flags = CUDA_ARRAY3D_LAYERED;
    if (kind_ == place_kind::cubemap) desc.Flags = CUDA_ARRAY3D_CUBEMAP;
    if (kind_ != place_kind::mipmap_level) {
        EXPECT_OK(raw().cuArray3DCreate(&array_, &desc));
        return;
    }
    desc.Width *= 2;
    desc.Height *= 2;
    desc.Depth *= 2;
    EXPECT_OK(raw().cuMipmappedArrayCreate(&mipmap_, &desc, 2));
    EXPECT_OK(raw().cuMipmappedArrayGetLevel(&array_, mipmap_, 1));
}

test_place::~test_place() {
    enter();
    void *const host = reinterpret_cast<void *>(allocation_);
    switch (kind_) {
    case place_kind::pageable:
        std::free(host);
        break;
    case place_kind::registered:
        EXPECT_OK(raw().cuMemHostUnregister(host));
        free_aligned(host);
        break;
    case place_kind::pinned:
        EXPECT_OK(raw().cuMemFreeHost(host));
        break;
    case place_kind::device:
    case place_kind::managed:
    case place_kind::pool:
    case place_kind::pool_of_host:
    case place_kind::open_pool_of_host:
        EXPECT_OK(raw().cuMemFree(allocation_));
        break;
    case place_kind::mipmap_level:
        EXPECT_OK(raw().cuMipmappedArrayDestroy(mipmap_));
        break;
    default:
        EXPECT_OK(raw().cuArrayDestroy(array_));
    }
    leave();
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(device_));
}

void test_place::enter() const { EXPECT_OK(raw().cuCtxPushCurrent(context_)); }

void test_place::leave() const {
    CUcontext popped = nullptr;
    EXPECT_OK(raw().cuCtxPopCurrent(&popped));
}

void test_place::fill(std::uint64_t seed) {
    picture_ = random_bytes(picture_.size(), seed);
    enter();
    if (is_array(kind_)) {
        CUDA_MEMCPY3D call = {};
        call.srcMemoryType = CU_MEMORYTYPE_HOST;
        call.srcHost = picture_.data();
        call.srcPitch = shape_.width;
        call.srcHeight = shape_.height;
        call.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        call.dstArray = array_;
        call.WidthInBytes = shape_.width;
        call.Height = shape_.height;
        call.Depth = shape_.depth;
        EXPECT_OK(raw().cuMemcpy3D(&call));
        EXPECT_OK(raw().cuCtxSynchronize());
    } else if (kind_ == place_kind::device || kind_ == place_kind::pool) {
        EXPECT_OK(raw().cuMemcpyHtoD(allocation_, picture_.data(), picture_.size()));
        EXPECT_OK(raw().cuCtxSynchronize());
    } else {
        std::memcpy(reinterpret_cast<void *>(allocation_), picture_.data(), picture_.size());
    }
    leave();
}

bytes test_place::read() const {
    bytes got(picture_.size());
    enter();
    if (is_array(kind_)) {
        CUDA_MEMCPY3D call = {};
        call.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        call.srcArray = array_;
        call.dstMemoryType = CU_MEMORYTYPE_HOST;
        call.dstHost = got.data();
        call.dstPitch = shape_.width;
        call.dstHeight = shape_.height;
        call.WidthInBytes = shape_.width;
        call.Height = shape_.height;
        call.Depth = shape_.depth;
        EXPECT_OK(raw().cuMemcpy3D(&call));
    } else if (kind_ == place_kind::device || kind_ == place_kind::pool) {
        EXPECT_OK(raw().cuMemcpyDtoH(got.data(), allocation_, got.size()));
    } else {
        std::memcpy(got.data(), reinterpret_cast<void *>(allocation_), got.size());
    }
    leave();
    return got;
}

ferry_place test_place::describe(statement how, const box &origin) const {
    ferry_place place = {};
    const void *const host = reinterpret_cast<void *>(address_);
    if (is_array(kind_))
        ferry_place_array(&place, device_, array_);
    else if (kind_ == place_kind::device || kind_ == place_kind::managed || kind_ == place_kind::pool)
        ferry_place_device_pitched(&place, device_, address_, shape_.row_pitch, shape_.slice_height);
    else
        ferry_place_host_pitched(&place, host, shape_.row_pitch, shape_.slice_height);
    if (how == statement::any && !is_array(kind_)) place.kind = FERRY_KIND_ANY;
    if (how == statement::pinned && (kind_ == place_kind::pinned || kind_ == place_kind::registered))
        place.kind = FERRY_KIND_PINNED;
    place.x = origin.x;
    place.y = origin.y;
    place.z = origin.z;
    return place;
}

std::byte &test_place::picture_at(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    return picture_[shape_.lead + (z * shape_.slice_height + y) * shape_.row_pitch + x];
}

void reference_copy(test_place &source, const box &from, test_place &destination, const box &to, std::uint64_t width,
                    std::uint64_t height, std::uint64_t depth) {
    for (std::uint64_t z = 0; z < depth; ++z)
        for (std::uint64_t y = 0; y < height; ++y)
            std::memcpy(&destination.picture_at(to.x, to.y + y, to.z + z),
                        &source.picture_at(from.x, from.y + y, from.z + z), width);
}

ferry_copy_desc describe_copy(const ferry_place &source, const ferry_place &destination, std::uint64_t width,
                              std::uint64_t height, std::uint64_t depth) {
    ferry_copy_desc copy;
    ferry_copy_desc_set(&copy, &destination, &source, width, height, depth);
    return copy;
}

} // namespace ferry::test
