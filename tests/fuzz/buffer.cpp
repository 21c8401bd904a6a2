#include "fuzz/buffer.h"

#include <algorithm>
#include <cstdlib>

namespace ferry::test {

namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t whole_pages(std::uint64_t size) { return (size + page - 1) / page * page; }

bool is_mapped(memory_kind kind) {
    return kind == memory_kind::mapped || kind == memory_kind::registered_in_part || kind == memory_kind::registered;
}

} // namespace

bool buffer_sources::has(memory_kind kind, int on) const {
    switch (kind) {
    case memory_kind::host_pool:
    case memory_kind::host_pool_with_access:
    case memory_kind::host_pool_of_one_device:
        return host_pool;
    case memory_kind::stream_ordered:
    case memory_kind::device_pool:
        return device_pools[on];
    case memory_kind::imported:
        return lent;
    case memory_kind::file:
        return opens_files;
    default:
        return true;
    }
}

buffer::buffer(const buffer_sources &from, memory_kind kind, int device, std::uint64_t size, std::uint32_t number,
               dice &random)
    : kind(kind), device(kind == memory_kind::imported ? 0 : device), number(number), from_(from) {
    if (kind == memory_kind::imported) size = lent_bytes;
    model.resize(size);
    if (traits().place == FERRY_KIND_ARRAY)
        make_array(random);
    else if (kind == memory_kind::file)
        make_file(random);
    else
        allocate(size);
    if (kind == memory_kind::registered_in_part) register_part(random);
    model = random_bytes(model.size(), random.any());
}

void buffer::allocate(std::uint64_t size) {
    void *host = nullptr;
    std::uint64_t row_pitch = 0;
    switch (kind) {
    case memory_kind::heap:
        host = std::malloc(size);
        break;
    case memory_kind::mapped:
    case memory_kind::registered_in_part:
    case memory_kind::registered:
        host = mapped_.emplace(whole_pages(size)).data();
        if (kind == memory_kind::registered) {
            EXPECT_OK(ferry_host_register(from_.ferry, host, size, 0, nullptr));
            registered_.push_back(host);
        }
        break;
    case memory_kind::host_alloc:
        EXPECT_OK(allocate_pinned(from_.ferry, size, 0, &host));
        break;
    case memory_kind::pinned_pool:
        EXPECT_OK(ferry_pinned_pool_alloc(from_.pinned, size, &host, nullptr));
        break;
    case memory_kind::host_pool:
    case memory_kind::host_pool_with_access:
    case memory_kind::host_pool_of_one_device:
        EXPECT_OK(ferry_pool_alloc_async(from_.ferry,
                                         kind == memory_kind::host_pool               ? from_.host_pool
                                         : kind == memory_kind::host_pool_with_access ? from_.host_pool_with_access
                                                                                      : from_.host_pools_of_one[device],
                                         size, nullptr, &address, nullptr));
        EXPECT_OK(ferry_context_synchronize(from_.ferry, 0, nullptr, nullptr));
        return;
    case memory_kind::device:
        EXPECT_OK(ferry_device_alloc(from_.ferry, device, size, &address, nullptr));
        return;
    case memory_kind::device_pitched:
        EXPECT_OK(
            ferry_device_alloc_pitched(from_.ferry, device, (size + 15) / 16, 16, 4, &address, &row_pitch, nullptr));
        model.resize(row_pitch * 16);
        return;
    case memory_kind::stream_ordered:
    case memory_kind::device_pool:
        reallocate(nullptr);
        EXPECT_OK(ferry_context_synchronize(from_.ferry, device, nullptr, nullptr));
        return;
    case memory_kind::managed:
        EXPECT_OK(ferry_managed_alloc(from_.ferry, device, size, &address, nullptr));
        return;
    case memory_kind::imported:
        EXPECT_OK(ferry_ipc_import_memory(from_.ferry, from_.lent, &address, nullptr));
        return;
    default:
        break;
    }
    address = reinterpret_cast<std::uint64_t>(host);
}

void buffer::make_array(dice &random) {
    const texel &element = random.of(texels);
    const std::uint32_t flags = kind == memory_kind::array ? FERRY_ARRAY_SURFACE : 0;
    made_array_.emplace(from_.ferry, random.of(array_kinds), element, flags, device);
    element_size = element.size;
    model.resize(made_array_->row_bytes * made_array_->rows * made_array_->slices);
}

void buffer::make_file(dice &random) {
    on_disk_.emplace(model);
    ferry_file_options options = {};
    options.struct_size = sizeof options;
    options.flags = FERRY_FILE_READ | FERRY_FILE_WRITE | (random.one_in(4) ? FERRY_FILE_SYNC : 0);
    options.max_threads = random.one_in(4) ? 1 : 0;
    if (random.one_in(2)) options.direct = FERRY_FILE_DIRECT_ALWAYS;
    const auto open = [&] { return ferry_file_open(from_.ferry, on_disk_->path().c_str(), &options, &file_, nullptr); };
    std::int32_t status = open();
    if (status == FERRY_ERROR_UNSUPPORTED && options.direct) { // by the file system
        options.direct = FERRY_FILE_DIRECT_AUTO;
        status = open();
    }
    EXPECT_OK(status);
}

buffer::~buffer() {
    unregister_parts();
    ferry_file_close(file_);
    if (is_array() || file_) return;
    void *const host = bytes_on_host();
    if (kind == memory_kind::heap)
        std::free(host);
    else if (is_mapped(kind))
        mapped_.reset();
    else if (kind == memory_kind::host_alloc)
        EXPECT_OK(size() % 2 ? ferry_host_free_deferred(from_.ferry, host, nullptr, nullptr)
                             : ferry_host_free(from_.ferry, host, nullptr));
    else if (kind == memory_kind::pinned_pool)
        EXPECT_OK(ferry_pinned_pool_free(from_.pinned, host, nullptr));
    else if (kind == memory_kind::imported)
        EXPECT_OK(size() % 2 ? ferry_ipc_close_memory_deferred(from_.ferry, address, nullptr, nullptr)
                             : ferry_ipc_close_memory(from_.ferry, address, nullptr, nullptr));
    else if (kind == memory_kind::managed && size() % 2)
        EXPECT_OK(ferry_device_free_deferred(from_.ferry, address, nullptr, nullptr));
    else
        EXPECT_OK(ferry_device_free(from_.ferry, address, nullptr));
}

bool buffer::may_be_pinned() const {
    return traits().is_on_host && (!traits().is_pageable || kind == memory_kind::registered_in_part ||
                                   kind == memory_kind::host_pool_of_one_device);
}

bool buffer::is_pageable_beside(const buffer &other, int context_device) const {
    if (!traits().is_pageable || kind == memory_kind::registered_in_part) return false;
    if (kind != memory_kind::host_pool_of_one_device || context_device != device) return true;
    const bool is_on_device = !other.traits().is_on_host && !other.file() && other.kind != memory_kind::managed;
    return is_on_device && other.device != device;
}

void buffer::register_part(dice &random) {
    const std::uint64_t pages = size() / page;
    if (pages < 2) return;
    // Registers one range, or two adjacent ranges.
    std::uint64_t first = random.up_to(pages - 1), end = first + 1 + random.up_to(pages - first - 1);
    for (std::uint64_t parts = 1 + random.up_to(1); parts && end <= pages && first < end; --parts) {
        void *const start = bytes_on_host() + first * page;
        EXPECT_OK(ferry_host_register(from_.ferry, start, (end - first) * page, 0, nullptr));
        registered_.push_back(start);
        first = end;
        end += 1 + random.up_to(4);
    }
}

void buffer::unregister_parts() {
    bool is_deferred = false;
    for (void *const one : registered_) {
        const bool defers = reinterpret_cast<std::uintptr_t>(one) / page % 2;
        EXPECT_OK(defers ? ferry_host_unregister_deferred(from_.ferry, one, nullptr, nullptr)
                         : ferry_host_unregister(from_.ferry, one, nullptr));
        is_deferred |= defers;
    }
    if (is_deferred) { // the memory must stay mapped until it is unregistered
        EXPECT_OK(ferry_context_synchronize(from_.ferry, 0, nullptr, nullptr));
        EXPECT_OK(ferry_deferred_trim(from_.ferry, FERRY_DEVICE_UNKNOWN, 0, nullptr));
    }
    registered_.clear();
}

void buffer::reallocate(CUstream_st *stream) {
    if (address) {
        EXPECT_OK(ferry_device_free_async(from_.ferry, address, stream, nullptr));
    }
    if (kind == memory_kind::device_pool)
        EXPECT_OK(ferry_pool_alloc_async(from_.ferry, from_.device_pools[device], size(), stream, &address, nullptr));
    else
        EXPECT_OK(ferry_device_alloc_async(from_.ferry, device, size(), stream, &address, nullptr));
}

std::string buffer::name() const {
    return std::string(traits().name) + " #" + std::to_string(number) +
           (traits().is_on_host || file_ ? "" : " on device " + std::to_string(device)) + " of " +
           std::to_string(size()) + " B";
}

witness::witness() {
    for (int device = 0; device < std::min(device_count(), 2); ++device) {
        EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&contexts_[device], device));
        const made_current scope(contexts_[device]);
        EXPECT_OK(raw().cuStreamCreate(&streams_[device], CU_STREAM_NON_BLOCKING));
    }
}

witness::~witness() {
    for (int device = 0; device < 2; ++device) {
        if (!contexts_[device]) continue;
        EXPECT_OK(raw().cuStreamDestroy(streams_[device]));
        EXPECT_OK(raw().cuDevicePrimaryCtxRelease(device));
    }
    const made_current scope(contexts_[0]);
    room_.reset();
}

std::byte *witness::room_for(std::uint64_t size) {
    const made_current scope(contexts_[0]);
    if (!room_ || room_->size < size) {
        room_.reset();
        room_.emplace(size * 2);
    }
    return room_->data();
}

void witness::transfer(const buffer &one, bool to_buffer) {
    const made_current scope(contexts_[one.device]);
    const CUstream stream = streams_[one.device];
    std::byte *const room = room_->data();
    if (auto *const made = const_cast<buffer &>(one).array()) {
        CUDA_MEMCPY3D call = {};
        call.WidthInBytes = call.srcPitch = call.dstPitch = made->row_bytes;
        call.Height = call.srcHeight = call.dstHeight = made->rows;
        call.Depth = made->slices;
        call.srcMemoryType = to_buffer ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
        call.dstMemoryType = to_buffer ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
        (to_buffer ? call.dstArray : call.srcArray) = made->array();
        call.srcHost = call.dstHost = room;
        EXPECT_OK(raw().cuMemcpy3DAsync(&call, stream));
    } else if (to_buffer) {
        EXPECT_OK(raw().cuMemcpyHtoDAsync(one.address, room, one.size(), stream));
    } else {
        EXPECT_OK(raw().cuMemcpyDtoHAsync(room, one.address, one.size(), stream));
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
}

std::byte *witness::fetch(const buffer &one) {
    if (one.traits().is_on_host) return one.bytes_on_host();
    if (one.file()) {
        of_file_ = one.on_disk().read();
        EXPECT_EQ(of_file_.size(), one.size());
        of_file_.resize(one.size());
        return of_file_.data();
    }
    std::byte *const room = room_for(one.size());
    transfer(one, false);
    return room;
}

std::optional<witness::difference> witness::first_difference(const buffer &one) {
    const std::byte *const found = fetch(one);
    if (std::memcmp(found, one.model.data(), one.size()) == 0) return std::nullopt;
    std::uint64_t at = 0;
    while (found[at] == one.model[at])
        ++at;
    const auto hexadecimal = [&](const std::byte *bytes) {
        std::string all;
        for (std::uint64_t i = at; i < std::min<std::uint64_t>(at + 8, one.size()); ++i)
            for (const int half : {4, 0})
                all += "0123456789abcdef"[std::to_integer<int>(bytes[i]) >> half & 15];
        return all;
    };
    return difference{at, "byte " + std::to_string(at) + " (" + hexadecimal(found) + ", not " +
                              hexadecimal(one.model.data()) + ")"};
}

bytes witness::read(const buffer &one) {
    const std::byte *const found = fetch(one);
    return {found, found + one.size()};
}

void witness::write_model(buffer &one) {
    if (one.file()) return one.on_disk().write(one.model);
    std::byte *const to = one.traits().is_on_host ? one.bytes_on_host() : room_for(one.size());
    std::memcpy(to, one.model.data(), one.size());
    if (!one.traits().is_on_host) transfer(one, true);
}

} // namespace ferry::test
