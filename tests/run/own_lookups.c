/* A library that a program preloads itself, with a dlsym of its own. It finds libc's by version. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static int look_ups = 0;

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name) {
    typedef void *(*dlsym_function)(void *, const char *);
    static dlsym_function next = NULL;
    const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; !next && i < sizeof versions / sizeof *versions; ++i)
        next = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    ++look_ups;
    void *volatile found = next ? next(handle, name) : NULL; /* no tail call: the look-up depends on the caller */
    return found;
}

__attribute__((destructor)) static void tell(void) { printf("own dlsym: %s\n", look_ups ? "called" : "unused"); }
