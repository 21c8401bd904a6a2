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

} // namespace ferry
