// The Windows API without what collides with other code. Empty on other systems.
#pragma once

#if defined(_WIN32)
#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#if !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0a00 // Windows 10, the oldest that today's NVIDIA drivers support
#endif
#include <windows.h>
// These need it.
#include <psapi.h>
#include <winternl.h>
#endif

// Words of 16-bit systems, which are names here. Other headers of Windows use them in capitals.
#if defined(_WIN32)
#undef near
#undef far
#undef NEAR
#undef FAR
#define NEAR
#define FAR
#endif
