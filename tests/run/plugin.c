/* A library that is loaded late: it requests definitions after its own, and copies. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef int (*init_function)(unsigned);
typedef int (*retain_function)(void **, int);
typedef int (*set_function)(void *);
typedef int (*alloc_function)(unsigned long long *, size_t);
typedef int (*up_function)(unsigned long long, const void *, size_t);
typedef int (*down_function)(void *, unsigned long long, size_t);
typedef int (*puts_function)(const char *);

__attribute__((visibility("default"))) int copy_in_plugin(void) {
    static unsigned char from[4 << 20], to[4 << 20];
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *context = NULL;
    unsigned long long memory = 0;
    if (!driver) return 1;
    memset(from, 7, sizeof from);
    /* The next puts is libc's. The next cuInit is none: the driver is not in the scope of this library. */
    if (!dlsym(RTLD_NEXT, "puts") || dlsym(RTLD_NEXT, "no_such_function")) return 2;
    if (((init_function)dlsym(driver, "cuInit"))(0)) return 3;
    if (((retain_function)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0)) return 4;
    if (((set_function)dlsym(driver, "cuCtxSetCurrent"))(context)) return 5;
    if (((alloc_function)dlsym(driver, "cuMemAlloc_v2"))(&memory, sizeof from)) return 6;
    if (((up_function)dlsym(driver, "cuMemcpyHtoD_v2"))(memory, from, sizeof from)) return 7;
    if (((down_function)dlsym(driver, "cuMemcpyDtoH_v2"))(to, memory, sizeof to)) return 8;
    return memcmp(from, to, sizeof from) ? 9 : 0;
}
