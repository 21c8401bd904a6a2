#if defined(_WIN32)
#include "system/process.h"

#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "system/windows_api.h"

namespace ferry {

namespace {

std::uint64_t start_time_of(HANDLE process) noexcept {
    FILETIME started = {}, other = {};
    if (!GetProcessTimes(process, &started, &other, &other, &other)) return 0;
    return static_cast<std::uint64_t>(started.dwHighDateTime) << 32 | started.dwLowDateTime;
}

} // namespace

process_identity own_process() noexcept {
    process_identity own = {};
    wchar_t name[256];
    DWORD length = sizeof name / sizeof *name;
    if (!GetComputerNameExW(ComputerNamePhysicalDnsFullyQualified, name, &length)) return own;
    for (std::uint64_t half = 0; half < 2; ++half) {
        const std::uint64_t hash = hash_of(name, length * sizeof *name, half);
        std::memcpy(own.machine + half * sizeof hash, &hash, sizeof hash);
    }
    own.number = GetCurrentProcessId();
    own.start_time = start_time_of(GetCurrentProcess());
    own.number_space = 1; // process numbers are unique on the machine
    return own;
}

bool is_gone(const process_identity &other, const process_identity &own) noexcept {
    if (!own.number_space || other.number_space != own.number_space) return false;
    if (other.number == 0 || other.number > UINT32_MAX) return true;
    constexpr DWORD rights = SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION;
    const HANDLE process = OpenProcess(rights, FALSE, static_cast<DWORD>(other.number));
    if (!process) return GetLastError() == ERROR_INVALID_PARAMETER; // no process has this number
    const bool has_ended = WaitForSingleObject(process, 0) == WAIT_OBJECT_0;
    const std::uint64_t start_time = start_time_of(process);
    CloseHandle(process);
    return has_ended || (start_time && start_time != other.start_time);
}

bool fill_with_random_bytes(void *bytes, std::size_t size) noexcept {
    for (std::size_t done = 0; done < size;) {
        unsigned value = 0;
        if (rand_s(&value) != 0) return false;
        const std::size_t length = size - done < sizeof value ? size - done : sizeof value;
        std::memcpy(static_cast<std::byte *>(bytes) + done, &value, length);
        done += length;
    }
    return true;
}

} // namespace ferry
#endif
