#if defined(_WIN32)
#include "system/file.h"

#include <algorithm>

#include "system/windows_api.h"

namespace ferry {

namespace {

HANDLE to_handle(std::int64_t number) noexcept { return reinterpret_cast<HANDLE>(static_cast<std::uintptr_t>(number)); }
std::int64_t to_number(HANDLE handle) noexcept {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(handle));
}
std::int32_t last_error() noexcept { return static_cast<std::int32_t>(GetLastError()); }

// Repeats a transfer until all bytes are transferred. transfer(memory, size, at, moved) makes one system call.
template <class Transfer>
file_failure transfer_all(std::uint64_t offset, const file_part *parts, std::size_t count, std::int32_t if_nothing,
                          const Transfer &transfer) noexcept {
    constexpr std::uint64_t max_size = std::uint64_t{1} << 30;
    for (const file_part *part = parts; part != parts + count; ++part)
        for (std::uint64_t done = 0; done < part->size;) {
            // The union of the offset has a name in some headers.
            OVERLAPPED at = {0, 0, {{static_cast<DWORD>(offset), static_cast<DWORD>(offset >> 32)}}, nullptr};
            DWORD moved = 0;
            if (!transfer(part->memory + done, static_cast<DWORD>(std::min(part->size - done, max_size)), &at,
                          &moved)) {
                const std::int32_t failed = last_error();
                return {failed == ERROR_HANDLE_EOF ? file_failure::end_of_file : failed, offset};
            }
            if (moved == 0) return {if_nothing, offset};
            done += moved;
            offset += moved;
        }
    return {};
}

} // namespace

open_file::~open_file() {
    if (handle_ != -1) CloseHandle(to_handle(handle_));
}

std::int32_t open_file::open(const char *path, const access &wanted) noexcept {
    constexpr int max_path = 32768; // of Windows
    wchar_t *const wide = static_cast<wchar_t *>(HeapAlloc(GetProcessHeap(), 0, max_path * sizeof(wchar_t)));
    if (!wide) return ERROR_NOT_ENOUGH_MEMORY;
    std::int32_t failed = 0;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, max_path) == 0) {
        failed = last_error();
    } else {
        const DWORD rights = (wanted.reads ? GENERIC_READ : 0u) | (wanted.writes ? GENERIC_WRITE : 0u);
        const HANDLE opened = CreateFileW(wide, rights, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                          wanted.creates ? OPEN_ALWAYS : OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
        if (opened == INVALID_HANDLE_VALUE)
            failed = last_error();
        else
            handle_ = to_number(opened);
    }
    HeapFree(GetProcessHeap(), 0, wide);
    access_ = wanted;
    return failed;
}

// Windows does not report the access of a handle: a transfer that it does not allow fails.
std::int32_t open_file::share(std::int64_t descriptor) noexcept {
    HANDLE duplicate = nullptr;
    const HANDLE self = GetCurrentProcess();
    if (!DuplicateHandle(self, to_handle(descriptor), self, &duplicate, 0, FALSE, DUPLICATE_SAME_ACCESS))
        return last_error();
    handle_ = to_number(duplicate);
    access_ = {.reads = true, .writes = true};
    return 0;
}

bool open_file::is_regular() const noexcept {
    LARGE_INTEGER size;
    return GetFileType(to_handle(handle_)) == FILE_TYPE_DISK && GetFileSizeEx(to_handle(handle_), &size);
}

std::int32_t open_file::measure(std::uint64_t &size) const noexcept {
    LARGE_INTEGER found;
    if (!GetFileSizeEx(to_handle(handle_), &found)) return last_error();
    size = static_cast<std::uint64_t>(found.QuadPart);
    return 0;
}

// The position of a handle that was opened by ferry is the begin of the file.
std::int32_t open_file::truncate() noexcept { return SetEndOfFile(to_handle(handle_)) ? 0 : last_error(); }

std::int32_t open_file::use_direct_io(bool) noexcept { return direct_.open(handle_, access_.reads, access_.writes); }

std::int32_t open_file::flush() const noexcept { return FlushFileBuffers(to_handle(handle_)) ? 0 : last_error(); }

bool open_file::is_slow(std::uint64_t, std::uint64_t) const noexcept { return false; } // not known

bool open_file::is_missing(std::uint64_t) const noexcept { return false; }
void open_file::expect(std::uint64_t, std::uint64_t) const noexcept {}
void open_file::reserve(std::uint64_t, std::uint64_t) const noexcept {}

file_failure open_file::read(std::uint64_t offset, const file_part *parts, std::size_t count, bool) const noexcept {
    return transfer_all(offset, parts, count, file_failure::end_of_file,
                        [&](std::byte *to, DWORD size, OVERLAPPED *at, DWORD *moved) noexcept {
                            return ReadFile(to_handle(handle_), to, size, moved, at);
                        });
}

file_failure open_file::write(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept {
    return transfer_all(offset, parts, count, ERROR_DISK_FULL,
                        [&](const std::byte *from, DWORD size, OVERLAPPED *at, DWORD *moved) noexcept {
                            return WriteFile(to_handle(handle_), from, size, moved, at);
                        });
}

} // namespace ferry
#endif
