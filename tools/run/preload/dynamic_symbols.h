// Looks up symbols of loaded libraries without dlsym, which this library replaces.
//
// A sanitizer's runtime calls dlsym while it sets up its own replacements of libc's functions. A call of such a
// function then jumps to address 0. So these functions call nothing: they read the dynamic linker's list of libraries.
#pragma once

struct link_map;

namespace ferry_run {

// Returns the default version of a function in the libraries after this library in look-up order, like dlsym(RTLD_NEXT,
// name); null if no library has it.
void *find_next_definition(const char *name) noexcept;

// Whether a look-up that begins after `library` reaches this library before any other definition of the function.
bool is_first_definition_behind(const link_map *library, const char *name) noexcept;

bool are_equal(const char *one, const char *other) noexcept; // like strcmp() == 0

} // namespace ferry_run
