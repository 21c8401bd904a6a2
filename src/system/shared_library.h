// Shared libraries that are opened while the program runs.
#pragma once

namespace ferry {

// Each returns a handle, or null. Each handle is closed once.
void *open_library(const char *name) noexcept;        // where the system's loader looks
void *open_loaded_library(const char *name) noexcept; // only if the process has loaded it already
// From the folder of the library that contains ferry. On Linux, returns null if ferry is part of the program itself,
// because the loader does not reliably report the program's folder.
void *open_library_beside(const char *name) noexcept;
void close_library(void *library) noexcept;
void *find_symbol(void *library, const char *name) noexcept;

#if defined(_WIN32)
void *open_system_library(const char *name) noexcept; // only from the folder of Windows
#endif

} // namespace ferry
