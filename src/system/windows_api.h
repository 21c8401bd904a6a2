// Includes the Windows API without macros that conflict with other code. Empty on other systems.
#pragma once

#if defined(_WIN32)
#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#if !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0a00 // Windows 10, the oldest version that current NVIDIA drivers support
#endif
#include <windows.h>
// These headers depend on windows.h.
#include <psapi.h>
#include <winternl.h>
#endif

// Keywords of 16-bit compilers, which are identifiers here. Other Windows headers use them in capitals.
#if defined(_WIN32)
#undef near
#undef far
#undef NEAR
#undef FAR
#define NEAR
#define FAR
#endif
