// Symbols of loaded libraries without dlsym, which this library itself replaces.
#pragma once

namespace ferry_run {

// Returns the default version of a function in the libraries that were loaded after this one in the order of symbol
// look-up, as dlsym(RTLD_NEXT, name) would; null if none has it.
void *find_next_definition(const char *name) noexcept;

} // namespace ferry_run
