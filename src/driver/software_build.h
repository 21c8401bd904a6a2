// The build of ferry and of its software driver. The two must match.
#pragma once

namespace ferry {

// A checksum of the sources that both libraries contain: the list of entry points and the kernels, whose parameters
// both lay out. tools/software_build.py writes it.
extern const char software_build[];

// The software driver returns its software_build as the entry point of this name. Other drivers return null. The host
// program's own loader may return it, too.
inline constexpr char software_driver_mark[] = "ferrySoftwareDriver";

} // namespace ferry
