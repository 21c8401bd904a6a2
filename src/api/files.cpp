// The C functions for files as places of copies.
#include <memory>
#include <new>

#include "api/call_options.h"
#include "base/sized.h"
#include "ferry/ferry_file.h"
#include "submit/instance.h"
#include "system/file.h"

using namespace ferry;

namespace {

error describe_failure(std::int32_t code, std::int32_t field) noexcept {
    error failed = to_error(file_failure{code});
    failed.field = static_cast<std::int16_t>(field);
    return failed;
}

error read_flags(const ferry_file_options *given, open_file::access &access) noexcept {
    ferry_file_options options = {};
    if (given)
        if (error failed = read_sized(given, options)) return failed;
    constexpr std::uint32_t known = FERRY_FILE_READ | FERRY_FILE_WRITE | FERRY_FILE_CREATE | FERRY_FILE_TRUNCATE;
    const std::uint32_t flags = options.flags ? options.flags : FERRY_FILE_READ;
    if (flags & ~known) return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::bits, known, flags);
    access = {.reads = (flags & FERRY_FILE_READ) != 0,
              .writes = (flags & FERRY_FILE_WRITE) != 0,
              .creates = (flags & FERRY_FILE_CREATE) != 0,
              .truncates = (flags & FERRY_FILE_TRUNCATE) != 0};
    if ((access.creates || access.truncates) && !access.writes)
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::needs, FERRY_FILE_WRITE, flags);
    return {};
}

// Calls open(file), which returns the system's error number, with a new file.
template <class Open>
error open_with(ferry_instance &instance, std::int32_t field, ferry_file *&opened, const Open &open) noexcept {
    if (instance.fork_mark.is_in_child()) return in_child;
    if (!instance.staging.has_own_threads())
        return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_SUBMIT);
    void *const place = instance.allocator.allocate(sizeof(ferry_file), alignof(ferry_file));
    if (!place) return no_memory;
    ferry_file *const made = new (place) ferry_file(instance.allocator);
    error failed;
    if (const std::int32_t code = open(made->file))
        failed = describe_failure(code, field);
    else if (!made->file.is_regular())
        failed = refuse(FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, field);
    if (failed)
        release(*made);
    else
        opened = made;
    return failed;
}

} // namespace

extern "C" {

int32_t ferry_file_open(ferry_instance *instance, const char *path, const ferry_file_options *options,
                        ferry_file **file, ferry_error_info *details) {
    if (file) *file = nullptr;
    if (!instance || !file) return report_null(details, instance, file);
    if (!path) return report_null_field(details, FERRY_FIELD_PATH);
    open_file::access access;
    if (error failed = read_flags(options, access)) return report(details, failed);
    return report(details, open_with(*instance, FERRY_FIELD_PATH, *file,
                                     [&](open_file &made) noexcept { return made.open(path, access); }));
}

int32_t ferry_file_open_descriptor(ferry_instance *instance, int64_t os_handle, ferry_file **file,
                                   ferry_error_info *details) {
    if (file) *file = nullptr;
    if (!instance || !file) return report_null(details, instance, file);
    return report(details, open_with(*instance, FERRY_FIELD_OS_HANDLE, *file,
                                     [&](open_file &made) noexcept { return made.share(os_handle); }));
}

void ferry_file_close(ferry_file *file) {
    if (file) release(*file);
}

int32_t ferry_file_get_info(ferry_file *file, ferry_file_info *info, ferry_error_info *details) {
    if (!file) return report_null_field(details, FERRY_FIELD_FILE);
    if (!info) return report_null(details, info);
    ferry_file_info found = {};
    found.flags = (file->file.may_read() ? FERRY_FILE_READ : 0) | (file->file.may_write() ? FERRY_FILE_WRITE : 0);
    if (const std::int32_t code = file->file.measure(found.size))
        return report(details, describe_failure(code, FERRY_FIELD_FILE));
    return report(details, write_sized(found, info));
}

} // extern "C"
