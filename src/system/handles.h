// What sharing by the system's handles needs.
#pragma once

#include <cstdint>

namespace ferry {

// The attributes that the driver asks for to create objects with Win32 handles: the process's default security, and
// handles that children do not inherit. Null on systems without such handles.
void *default_handle_attributes() noexcept;

// Whether the system's objects have file descriptors; else they have Windows's handles.
#if defined(_WIN32)
inline constexpr bool has_descriptors = false;
#else
inline constexpr bool has_descriptors = true;
#endif

// Whether a file descriptor or a handle of Windows is open in this process.
bool is_open_handle(std::int64_t handle) noexcept;

// A second descriptor of a file, to be given away in place of the first; -1 if there is none. Its number is one that
// nothing else of the process is likely to get.
int duplicate_descriptor(int descriptor) noexcept;
void close_descriptor(int descriptor) noexcept;
// For one to whom a duplicate was given, and who may have closed it: closes it if it still is a descriptor of that file.
void close_duplicate(int duplicate, int descriptor) noexcept;

} // namespace ferry
