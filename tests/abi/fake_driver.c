/*
 * A libcuda.so.1 that stops short of being a driver. driver_search.py builds it once per case, with these macros:
 *   VERSION      what cuDriverGetVersion reports
 *   INIT_RESULT  what cuInit returns
 *   MISSING      an entry point it lacks
 *   SIGNATURES   which cuGetProcAddress it exports: 1 the one of 11.3, 2 the one of 12.0 (_v2), 3 both, 0 none
 * Any other entry point exists and does nothing.
 */
#include <stdint.h>
#include <string.h>

enum { success = 0, invalid_value = 1, not_found = 500, legacy_stream = 1, symbol_found = 0, symbol_not_found = 1 };

static int init(unsigned flags) { return flags ? invalid_value : INIT_RESULT; }
static int get_version(int *version) { return *version = VERSION, success; }
static int nothing(void) { return success; }

/* The library's only other query is for the software driver's mark, which is not a name of CUDA's. */
static void *find(const char *name) {
    if (strncmp(name, "cu", 2) != 0 || strcmp(name, MISSING) == 0) return NULL;
    if (strcmp(name, "cuInit") == 0) return (void *)init;
    if (strcmp(name, "cuDriverGetVersion") == 0) return (void *)get_version;
    return (void *)nothing;
}

#if SIGNATURES & 2
int cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags, int *found) {
    if (version <= 0 || flags != legacy_stream || !found) return invalid_value;
    *entry = find(name);
    *found = *entry ? symbol_found : symbol_not_found;
    return success; /* like the driver, which reports it in `found` */
}
#endif

#if SIGNATURES == 1
int cuGetProcAddress(const char *name, void **entry, int version, uint64_t flags) {
    if (version <= 0 || flags != legacy_stream) return invalid_value;
    *entry = find(name);
    return *entry ? success : not_found;
}
#elif SIGNATURES == 3
int cuGetProcAddress(void) { return invalid_value; /* beside _v2 the old one is not to be used */ }
#endif
