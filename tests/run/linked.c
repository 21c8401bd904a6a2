/* A library that is linked to the driver, as an extension of Python may be: it finds the driver's functions in its own
 * scope, though it is opened RTLD_LOCAL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int cuDriverGetVersion(int *);

__attribute__((visibility("default"))) void *find_by_default(const char *name) {
    void *volatile found = dlsym(RTLD_DEFAULT, name); /* no tail call: the look-up depends on the caller */
    return found;
}
__attribute__((visibility("default"))) int ask_driver(void) {
    int version = 0;
    return cuDriverGetVersion(&version) == 0 ? version : -1;
}
