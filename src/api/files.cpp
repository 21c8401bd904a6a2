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

constexpr std::uint32_t flags_of_access = FERRY_FILE_READ | FERRY_FILE_WRITE;
constexpr std::uint32_t flags_of_descriptors = flags_of_access | FERRY_FILE_KEEP_CACHE | FERRY_FILE_SYNC;
constexpr std::uint32_t flags_of_paths = flags_of_descriptors | FERRY_FILE_CREATE | FERRY_FILE_TRUNCATE;
constexpr std::uint32_t flags_of_writing = FERRY_FILE_CREATE | FERRY_FILE_TRUNCATE | FERRY_FILE_SYNC;

error describe_failure(std::int32_t code, std::int32_t field) noexcept {
    if (code == 0) return {};
    error failed = to_error(file_failure{code});
    failed.field = static_cast<std::int16_t>(field);
    return failed;
}

error check_flags(std::uint32_t flags, std::uint32_t known) noexcept {
    if (flags & ~known) return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::bits, known, flags);
    if ((flags & flags_of_writing) && !(flags & FERRY_FILE_WRITE))
        return refuse_option(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, numbers::needs, FERRY_FILE_WRITE, flags);
    return {};
}

error check_direct(const ferry_file_options &options) noexcept {
    if (options.direct < FERRY_FILE_DIRECT_AUTO || options.direct > FERRY_FILE_DIRECT_ALWAYS)
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_DIRECT, numbers::up_to,
                             FERRY_FILE_DIRECT_ALWAYS, options.direct);
    if (options.direct == FERRY_FILE_DIRECT_NEVER && (options.flags & FERRY_FILE_KEEP_CACHE))
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_DIRECT, numbers::one_of,
                             1u << FERRY_FILE_DIRECT_AUTO | 1u << FERRY_FILE_DIRECT_ALWAYS, FERRY_FILE_DIRECT_NEVER);
    return {};
}

open_file::access to_access(std::uint32_t flags) noexcept {
    return {.reads = (flags & FERRY_FILE_READ) != 0,
            .writes = (flags & FERRY_FILE_WRITE) != 0,
            .creates = (flags & FERRY_FILE_CREATE) != 0,
            .is_durable = (flags & FERRY_FILE_SYNC) != 0};
}

error open_path(open_file &file, const char *path, std::uint32_t flags) noexcept {
    if (!(flags & flags_of_access)) flags |= FERRY_FILE_READ;
    if (error failed = check_flags(flags, flags_of_paths)) return failed;
    return describe_failure(file.open(path, to_access(flags)), FERRY_FIELD_PATH);
}

error open_descriptor(open_file &file, std::int64_t descriptor, std::uint32_t flags) noexcept {
    if (const std::int32_t code = file.share(descriptor)) return describe_failure(code, FERRY_FIELD_OS_HANDLE);
    const std::uint32_t access = access_of(file);
    if (!(flags & flags_of_access)) flags |= access;
    if (error failed = check_flags(flags, flags_of_descriptors & (~flags_of_access | access))) return failed;
    file.restrict(to_access(flags));
    return {};
}

error use_direct_io(open_file &file, const ferry_file_options &options) noexcept {
    const bool keeps_cache = (options.flags & FERRY_FILE_KEEP_CACHE) != 0;
    if (!keeps_cache && options.direct != FERRY_FILE_DIRECT_ALWAYS) return {};
    const std::int32_t code = file.use_direct_io(keeps_cache);
    if (code == 0) return {};
    return refuse_signed(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_OPTIONS,
                         keeps_cache ? FERRY_FIELD_FLAGS : FERRY_FIELD_DIRECT, numbers::system, 0, code);
}

// Calls open(file, flags), which returns an error, with a new file.
template <class Open>
error open_with(ferry_instance &instance, std::int32_t field, const ferry_file_options *given, ferry_file *&opened,
                const Open &open) noexcept {
    ferry_file_options options = {};
    if (given)
        if (error failed = read_sized(given, options)) return failed;
    if (error failed = check_direct(options)) return failed;
    if (instance.fork_mark.is_in_child()) return in_child;
    if (!instance.staging.has_own_threads())
        return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_SUBMIT);
    void *const place = instance.allocator.allocate(sizeof(ferry_file), alignof(ferry_file));
    if (!place) return no_memory;
    ferry_file *const made = new (place) ferry_file(instance.allocator);
    made->max_threads = options.max_threads;
    error failed = open(made->file, options.flags);
    if (!failed && !made->file.is_regular()) failed = refuse(FERRY_ERROR_HANDLE, FERRY_SIDE_NONE, field);
    if (!failed) failed = use_direct_io(made->file, options);
    if (!failed && (options.flags & FERRY_FILE_TRUNCATE)) failed = describe_failure(made->file.truncate(), field);
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
    return report(details, open_with(*instance, FERRY_FIELD_PATH, options, *file,
                                     [&](open_file &made, std::uint32_t flags) noexcept {
                                         return open_path(made, path, flags);
                                     }));
}

int32_t ferry_file_open_descriptor(ferry_instance *instance, int64_t os_handle, const ferry_file_options *options,
                                   ferry_file **file, ferry_error_info *details) {
    if (file) *file = nullptr;
    if (!instance || !file) return report_null(details, instance, file);
    return report(details, open_with(*instance, FERRY_FIELD_OS_HANDLE, options, *file,
                                     [&](open_file &made, std::uint32_t flags) noexcept {
                                         return open_descriptor(made, os_handle, flags);
                                     }));
}

void ferry_file_close(ferry_file *file) {
    if (file) release(*file);
}

int32_t ferry_file_get_info(ferry_file *file, ferry_file_info *info, ferry_error_info *details) {
    if (!file) return report_null_field(details, FERRY_FIELD_FILE);
    if (!info) return report_null(details, info);
    ferry_file_info found = {};
    found.flags = access_of(file->file);
    if (const std::int32_t code = file->file.measure(found.size))
        return report(details, describe_failure(code, FERRY_FIELD_FILE));
    return report(details, write_sized(found, info));
}

} // extern "C"
