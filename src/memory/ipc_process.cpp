#include "memory/ipc_process.h"

#include <cstring>

namespace ferry {

error export_failure(status_code status, std::int32_t field) noexcept {
    if (status == to_status(CUDA_ERROR_NOT_SUPPORTED))
        return replace(status, refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, field));
    const bool is_refusal =
        status == to_status(CUDA_ERROR_INVALID_VALUE) || status == to_status(CUDA_ERROR_INVALID_HANDLE);
    return is_refusal ? replace(status, refuse(FERRY_ERROR_NOT_SHAREABLE, FERRY_SIDE_NONE, field))
                      : error{.status = status};
}

error import_failure(status_code status) noexcept {
    if (status == to_status(CUDA_ERROR_NOT_SUPPORTED)) return replace(status, bad_handle(FERRY_ERROR_UNSUPPORTED));
    // The first result was seen for memory, the others for events.
    const bool is_refusal = status == to_status(CUDA_ERROR_INVALID_VALUE) ||
                            status == to_status(CUDA_ERROR_MAP_FAILED) ||
                            status == to_status(CUDA_ERROR_INVALID_HANDLE);
    return is_refusal ? replace(status, bad_handle(FERRY_ERROR_HANDLE)) : error{.status = status};
}

bool ipc_key::operator==(const ipc_key &other) const noexcept {
    return std::memcmp(bytes, other.bytes, sizeof bytes) == 0;
}

error ipc_process::check_driver() const noexcept {
    CUcontext current = nullptr;
    return to_error(cu_.cuCtxGetCurrent(&current));
}

int ipc_process::find_device(const handle_contents &contents) const noexcept {
    for (int device = 0; device < contexts_.count(); ++device)
        if (std::memcmp(devices_[device].info.uuid, contents.device_uuid, sizeof contents.device_uuid) == 0)
            return device;
    return -1;
}

error ipc_process::check_handle(const ferry_ipc_handle &handle, bool is_expected(std::int32_t),
                                handle_contents &contents, int &device) const noexcept {
    if (error failed = decode(handle, contents)) return failed;
    if (!is_expected(contents.kind))
        return refuse_value(FERRY_ERROR_OTHER_KIND, FERRY_SIDE_NONE, FERRY_FIELD_HANDLE, contents.kind);
    if (!is_same_machine(contents.exporter, own_)) return bad_handle(FERRY_ERROR_MACHINE);
    if (is_gone(contents.exporter, own_)) return bad_handle(FERRY_ERROR_HANDLE);
    device = find_device(contents);
    constexpr std::uint8_t none[sizeof contents.device_uuid] = {};
    if (device < 0 && std::memcmp(contents.device_uuid, none, sizeof none) != 0) return bad_handle(FERRY_ERROR_DEVICE);
    return check_driver();
}

void ipc_process::begin_handle(std::int32_t kind, int device, handle_contents &contents) const noexcept {
    contents.kind = kind;
    contents.exporter = own_;
    if (device >= 0) std::memcpy(contents.device_uuid, devices_[device].info.uuid, sizeof contents.device_uuid);
}

error ipc_process::enter(int device, context_scope &scope, CUcontext &context) noexcept {
    context_choice choice;
    if (call_result result = cu_.cuCtxGetCurrent(&choice.current)) return to_error(result);
    choice.wanted = choice.current;
    if (device >= 0 || !choice.wanted)
        if (error failed = contexts_.get(device < 0 ? 0 : device, choice.wanted)) return failed;
    context = choice.wanted;
    return scope.enter(choice.wanted, choice.current);
}

error ipc_process::describe(const ferry_ipc_handle &handle, ferry_ipc_info &info) const noexcept {
    handle_contents contents;
    if (error failed = decode(handle, contents)) return failed;
    info.kind = contents.kind;
    info.device = find_device(contents);
    info.handle_types = contents.handle_type;
    info.size = contents.size;
    info.process = contents.exporter.number;
    std::memcpy(info.device_uuid, contents.device_uuid, sizeof info.device_uuid);
    info.is_own = is_same(contents.exporter, own_);
    return {};
}

} // namespace ferry
