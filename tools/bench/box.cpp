#include "box.h"

#include "base/route_kind.h"
#include "ferry/ferry_memory.h"

namespace bench {

namespace {

CUmemorytype type_of(const buffer &buffer) {
    return buffer.is_host()                ? CU_MEMORYTYPE_HOST
           : buffer.kind == memory::device ? CU_MEMORYTYPE_DEVICE
                                           : CU_MEMORYTYPE_ARRAY;
}

// Fills the members that CUDA_MEMCPY2D, CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER share. A contiguous copy needs no pitch.
template <class Call> Call lower_rows(const box &box) {
    const auto &[source, destination, size] = box;
    Call call = {};
    call.srcMemoryType = type_of(source.buffer);
    call.srcHost = source.buffer.host(); // the driver reads only the member that the type names
    call.srcDevice = source.buffer.address;
    call.srcArray = source.buffer.array;
    call.srcPitch = size.is_line() ? 0 : source.frame.width;
    call.srcXInBytes = source.x;
    call.srcY = source.y;
    call.dstMemoryType = type_of(destination.buffer);
    call.dstHost = destination.buffer.host();
    call.dstDevice = destination.buffer.address;
    call.dstArray = destination.buffer.array;
    call.dstPitch = size.is_line() ? 0 : destination.frame.width;
    call.dstXInBytes = destination.x;
    call.dstY = destination.y;
    call.WidthInBytes = size.width;
    call.Height = size.height;
    return call;
}

template <class Call> Call lower_slices(const box &box) {
    const auto &[source, destination, size] = box;
    Call call = lower_rows<Call>(box);
    call.srcHeight = size.is_line() ? 0 : source.frame.height;
    call.srcZ = source.z;
    call.dstHeight = size.is_line() ? 0 : destination.frame.height;
    call.dstZ = destination.z;
    call.Depth = size.depth;
    return call;
}

CUDA_MEMCPY3D_PEER lower_between_devices(const box &box) {
    auto call = lower_slices<CUDA_MEMCPY3D_PEER>(box);
    call.srcContext = box.source.buffer.context;
    call.dstContext = box.destination.buffer.context;
    return call;
}

// A box as the arguments of each call, prepared before the time is measured.
struct lowered {
    bench::box box;
    CUstream stream;
    CUDA_MEMCPY2D rows = lower_rows<CUDA_MEMCPY2D>(box);
    CUDA_MEMCPY3D slices = lower(box);
    CUDA_MEMCPY3D_PEER peer = lower_between_devices(box);

    const buffer &from() const { return box.source.buffer; }
    const buffer &to() const { return box.destination.buffer; }
    std::size_t bytes() const { return box.size.width; }
};

bool is_line(const box &box, memory from, memory to) {
    return box.source.frame.is_line() && box.destination.frame.is_line() && box.source.buffer.kind == from &&
           box.destination.buffer.kind == to;
}

enum class call_form { async, sync };

using table = const ferry::driver_table &;
struct raw_call {
    const char *name;
    call_form form;
    bool (*serves)(const box &);
    ferry::call_result (*issue)(table, const lowered &);
};

bool serves_planes(const box &box) {
    return !box.size.is_line() && box.source.frame.depth == 1 && box.destination.frame.depth == 1;
}
template <memory from, memory to> bool serves_lines(const box &box) { return is_line(box, from, to); }

constexpr raw_call raw_calls[] = {
    {"cuMemcpy3DAsync", call_form::async, [](const box &) { return true; },
     [](table cu, const lowered &copy) { return cu.cuMemcpy3DAsync(&copy.slices, copy.stream); }},
    {"cuMemcpy3DPeerAsync", call_form::async, [](const box &box) { return box.is_between_devices(); },
     [](table cu, const lowered &copy) { return cu.cuMemcpy3DPeerAsync(&copy.peer, copy.stream); }},
    {"cuMemcpy2DAsync", call_form::async, serves_planes,
     [](table cu, const lowered &copy) { return cu.cuMemcpy2DAsync(&copy.rows, copy.stream); }},
    {"cuMemcpy2DUnaligned", call_form::sync, serves_planes,
     [](table cu, const lowered &copy) { return cu.cuMemcpy2DUnaligned(&copy.rows); }},
    {"cuMemcpyDtoDAsync", call_form::async, serves_lines<memory::device, memory::device>,
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyDtoDAsync(copy.to().address, copy.from().address, copy.bytes(), copy.stream);
     }},
    {"cuMemcpyPeerAsync", call_form::async,
     [](const box &box) { return box.is_between_devices() && is_line(box, memory::device, memory::device); },
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyPeerAsync(copy.to().address, copy.to().context, copy.from().address, copy.from().context,
                                     copy.bytes(), copy.stream);
     }},
    {"cuMemcpyHtoAAsync", call_form::async, serves_lines<memory::pinned, memory::array>,
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyHtoAAsync(copy.to().array, 0, copy.from().host(), copy.bytes(), copy.stream);
     }},
    {"cuMemcpyAtoHAsync", call_form::async, serves_lines<memory::array, memory::pinned>,
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyAtoHAsync(copy.to().host(), copy.from().array, 0, copy.bytes(), copy.stream);
     }},
    {"cuMemcpyDtoA", call_form::sync, serves_lines<memory::device, memory::array>,
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyDtoA(copy.to().array, 0, copy.from().address, copy.bytes());
     }},
    {"cuMemcpyAtoD", call_form::sync, serves_lines<memory::array, memory::device>,
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyAtoD(copy.to().address, copy.from().array, 0, copy.bytes());
     }},
    {"cuMemcpyAtoA", call_form::sync, serves_lines<memory::array, memory::array>,
     [](table cu, const lowered &copy) {
         return cu.cuMemcpyAtoA(copy.to().array, 0, copy.from().array, 0, copy.bytes());
     }},
};

// The stream to wait for, or null if the call itself waits. A synchronous copy without a host end returns before the
// bytes have arrived.
CUstream stream_to_wait_for(const raw_call &call, const lowered &copy) {
    if (call.form == call_form::async) return copy.stream;
    return copy.from().is_host() || copy.to().is_host() ? nullptr : CU_STREAM_LEGACY;
}

// According to its manual, cuMemcpy2DAsync may reject pitches that do not come from cuMemAllocPitch.
bool is_refused(const environment &environment, const raw_call &call, const lowered &copy) {
    const CUresult result = call.issue(environment.cu, copy);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED) return true;
    check(result, call.name);
    check(environment.cu.cuCtxSynchronize(), "cuCtxSynchronize");
    return false;
}

contender contender_of(const environment &environment, const raw_call &call, const lowered &copy) {
    return {call.name, [&environment, &call, copy, wait = stream_to_wait_for(call, copy)] {
                check(call.issue(environment.cu, copy), call.name);
                if (wait) check(environment.cu.cuStreamSynchronize(wait), "cuStreamSynchronize");
            }};
}

} // namespace

const char *name_of(memory kind) {
    switch (kind) {
    case memory::pageable:
        return "pageable";
    case memory::pinned:
        return "pinned";
    case memory::device:
        return "device";
    default:
        return "array";
    }
}

bool box::is_between_devices() const {
    return !source.buffer.is_host() && !destination.buffer.is_host() &&
           source.buffer.device != destination.buffer.device;
}

place padded(const buffer &buffer, const extent &size, std::size_t row_padding, std::size_t slice_padding) {
    return {buffer, {size.width + row_padding, size.height + slice_padding, size.depth}};
}

namespace {

CUDA_ARRAY3D_DESCRIPTOR description_of(const extent &size, std::size_t element_size) {
    CUDA_ARRAY3D_DESCRIPTOR description = {};
    description.NumChannels = element_size <= 4 ? 1 : static_cast<unsigned>(element_size / 4);
    description.Format = element_size == 1   ? CU_AD_FORMAT_UNSIGNED_INT8
                         : element_size == 2 ? CU_AD_FORMAT_UNSIGNED_INT16
                                             : CU_AD_FORMAT_UNSIGNED_INT32;
    description.Width = size.width / element_size;
    description.Height = size.is_line() ? 0 : size.height;
    description.Depth = size.depth == 1 ? 0 : size.depth;
    return description;
}

array array_of(owned<CUarray> made, const buffer &where, const extent &size) {
    const CUarray handle = made.get();
    return {std::move(made),
            {{.kind = memory::array, .array = handle, .device = where.device, .context = where.context}, size}};
}

} // namespace

array make_array(const environment &environment, const buffer &where, const extent &size, std::size_t element_size) {
    const CUDA_ARRAY3D_DESCRIPTOR description = description_of(size, element_size);
    CUarray made = nullptr;
    check(environment.cu.cuArray3DCreate(&made, &description), "cuArray3DCreate");
    return array_of({made, environment.cu.cuArrayDestroy}, where, size);
}

array make_ferry_array(const environment &environment, const buffer &where, const extent &size,
                       std::size_t element_size) {
    const CUDA_ARRAY3D_DESCRIPTOR description = description_of(size, element_size);
    auto wanted = sized<ferry_array_desc>();
    wanted.format = static_cast<std::int32_t>(description.Format);
    wanted.channels = description.NumChannels;
    wanted.flags = FERRY_ARRAY_SURFACE;
    wanted.width = description.Width;
    wanted.height = description.Height;
    wanted.depth = description.Depth;
    ferry_instance *const ferry = environment.basic.get();
    CUarray made = nullptr;
    check(ferry_array_create(ferry, where.device, &wanted, &made, nullptr), "ferry_array_create", {});
    return array_of({made, [ferry](CUarray handle) { ferry_array_destroy(ferry, handle, nullptr); }}, where, size);
}

CUDA_MEMCPY3D lower(const box &box) { return lower_slices<CUDA_MEMCPY3D>(box); }

ferry_copy_desc describe(const box &box) {
    const auto place_of = [&](const place &from) {
        const buffer &buffer = from.buffer;
        const bool has_pitch = !box.size.is_line();
        const std::size_t row_pitch = has_pitch ? from.frame.width : 0,
                          slice_height = has_pitch ? from.frame.height : 0;
        ferry_place place;
        if (buffer.is_host())
            ferry_place_host_pitched(&place, buffer.host(), row_pitch, slice_height);
        else if (buffer.kind == memory::device)
            ferry_place_device_pitched(&place, buffer.device, buffer.address, row_pitch, slice_height);
        else
            ferry_place_array(&place, buffer.device, buffer.array);
        place.x = from.x;
        place.y = from.y;
        place.z = from.z;
        return place;
    };
    const ferry_place source = place_of(box.source), destination = place_of(box.destination);
    ferry_copy_desc copy;
    ferry_copy_desc_set(&copy, &destination, &source, box.size.width, box.size.height, box.size.depth);
    return copy;
}

void drain(const environment &environment) {
    check(environment.cu.cuStreamSynchronize(environment.stream.get()), "cuStreamSynchronize");
}

copy_options with_route(std::int32_t route, std::uint32_t max_sms) {
    auto options = sized<ferry_copy_options>();
    options.route = route;
    options.max_sms = max_sms;
    return options;
}

copy_options with_flags(std::uint32_t flags) {
    auto options = sized<ferry_copy_options>();
    options.flags = flags;
    return options;
}

copy_options with_priority(std::int32_t priority) {
    auto options = sized<ferry_copy_options>();
    options.priority = priority;
    return options;
}

void ferry_copy_async_checked(ferry_instance *ferry, const ferry_copy_desc &copy, CUstream stream,
                              const copy_options &options) {
    ferry_error_info error = sized<ferry_error_info>();
    check(ferry_copy_async(ferry, &copy, pointer_to(options), stream, nullptr, &error), "ferry_copy_async", error);
}

std::vector<contender> raw_contenders(const environment &environment, const box &box) {
    return raw_contenders(environment, box, environment.stream.get());
}

std::vector<contender> raw_contenders(const environment &environment, const box &box, CUstream stream) {
    const lowered copy = {box, stream};
    std::vector<contender> contenders;
    for (const raw_call &call : raw_calls) {
        if (!call.serves(box)) continue;
        environment.need({call.name});
        if (!is_refused(environment, call, copy)) contenders.push_back(contender_of(environment, call, copy));
    }
    return contenders;
}

contender ferry_contender(const environment &environment, const box &box, const copy_options &options) {
    return ferry_contender(environment, box, options, environment.stream.get());
}

contender ferry_contender(const environment &environment, const box &box, const copy_options &options,
                          CUstream stream) {
    return {"ferry_copy_async", [&environment, desc = describe(box), options, stream] {
                ferry_copy_async_checked(environment.basic.get(), desc, stream, options);
                check(environment.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
            }};
}

std::optional<ferry_explanation> explain(const environment &environment, const ferry_copy_desc &copy,
                                         const copy_options &options) {
    auto told = sized<ferry_explanation>();
    auto error = sized<ferry_error_info>();
    const std::int32_t status = ferry_copy_explain_async(environment.basic.get(), &copy, pointer_to(options),
                                                         environment.stream.get(), &told, &error);
    if (status == FERRY_ERROR_ROUTE) return std::nullopt;
    check(status, "ferry_copy_explain_async", error);
    return told;
}

const char *name_of_route(std::int32_t route) {
    return route == FERRY_ROUTE_NONE ? "none" : ferry::entry_of_number(route).name;
}

} // namespace bench
