/*
 * Loads ferry, copies with it and unloads it, 100 times: unload LIBRARY. Nothing of it may stay, nor anything grow.
 * Then the same without closing the instance: the library must stay until its threads have ended.
 */
#define _GNU_SOURCE
#include "ferry/ferry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { rounds = 100, warm = 20, counted = 4 }; /* the loader's own tables are full after about ten rounds */
/* malloc counts a rest of 16 bytes behind a block as used. How many blocks have one depends on which thread ends first. */
static const long slack[counted] = {96, 0, 0, 0};

static long entries_of(const char *folder) {
    long entries = 0;
    DIR *const open = opendir(folder);
    while (readdir(open))
        ++entries;
    closedir(open);
    return entries;
}

static long mappings(void) {
    long lines = 0;
    int character;
    FILE *const maps = fopen("/proc/self/maps", "r");
    while ((character = getc(maps)) != EOF)
        lines += character == '\n';
    fclose(maps);
    return lines;
}

static const char *const what[counted] = {"bytes of heap", "mappings", "threads", "files"};

static void count(long counts[counted]) {
    counts[0] = (long)mallinfo2().uordblks;
    counts[1] = mappings();
    counts[2] = entries_of("/proc/self/task");
    counts[3] = entries_of("/proc/self/fd");
}

#define LOOK_UP(library, name) (*(void **)&name = dlsym(library, "ferry_" #name))

static int32_t copy_once(void *library, ferry_instance **left_open) {
    __typeof__(ferry_open) *open;
    __typeof__(ferry_device_alloc) *device_alloc;
    __typeof__(ferry_copy_bytes) *copy_bytes;
    __typeof__(ferry_close) *close;
    LOOK_UP(library, open), LOOK_UP(library, device_alloc), LOOK_UP(library, copy_bytes), LOOK_UP(library, close);

    char sent[1000] = {1}, received[sizeof sent] = {0};
    const ferry_copy_options staged = {.struct_size = sizeof staged, .route = FERRY_ROUTE_STAGED};
    ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_SOFTWARE, .copy_options = &staged};
    ferry_instance *ferry;
    uint64_t memory;
    int32_t status = open(&options, &ferry, NULL);
    if (!status) status = device_alloc(ferry, 0, sizeof sent, &memory, NULL);
    if (!status) status = copy_bytes(ferry, memory, (uint64_t)(uintptr_t)sent, sizeof sent, NULL, NULL);
    if (!status) status = copy_bytes(ferry, (uint64_t)(uintptr_t)received, memory, sizeof sent, NULL, NULL);
    if (left_open)
        *left_open = ferry;
    else
        close(ferry);
    return status ? status : memcmp(sent, received, sizeof sent) != 0;
}

/* The threads of the instances would run in unmapped code. */
static int leave_open(const char *path) {
    enum { instances = 3 };
    ferry_instance *open[instances];
    for (int i = 0; i < instances; ++i) {
        void *const library = dlopen(path, RTLD_NOW);
        if (!library || copy_once(library, &open[i])) return printf("instance %d cannot copy\n", i), 1;
        dlclose(library);
        usleep(20000); /* threads that sleep wake up meanwhile */
    }
    void *const library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return printf("it is unloaded although instances are open\n"), 1;
    __typeof__(ferry_close) *close;
    LOOK_UP(library, close);
    for (int i = 0; i < instances; ++i)
        close(open[i]);
    dlclose(library);
    if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) return printf("it is still loaded after the last ferry_close\n"), 1;
    return 0;
}

/*
 * The C library keeps the stacks of ended threads, and freed memory for each thread. How much depends on how many threads
 * happened to run at the same time. Without these caches all counts are almost the same in every run.
 */
static void run_without_caches(char **argv) {
    static const char tunables[] =
        "glibc.pthread.stack_cache_size=0:glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0";
    const char *const given = getenv("GLIBC_TUNABLES");
    if (given && strcmp(given, tunables) == 0) return;
    setenv("GLIBC_TUNABLES", tunables, 1); /* read when a program starts */
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
    const char *const path = argv[argc - 1];
    run_without_caches(argv);
    long early[counted], late[counted];
    for (int round = 0; round < rounds; ++round) {
        count(round == warm ? early : late); /* in every round, as counting takes memory too */
        void *const library = dlopen(path, RTLD_NOW);
        const int32_t status = library ? copy_once(library, NULL) : -1;
        if (status) return printf("round %d: status %d\n", round, status), 1;
        dlclose(library);
        if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) return printf("round %d: it is still loaded\n", round), 1;
    }
    count(late);
    for (int tries = 0; tries < 100 && late[0] > early[0] + slack[0]; ++tries) {
        /* a thread that has ended may free a little later */
        usleep(10000);
        count(late);
    }
    int grown = 0;
    for (int i = 0; i < counted; ++i) {
        printf("%s: %ld, %ld after %d rounds\n", what[i], early[i], late[i], rounds);
        grown |= late[i] > early[i] + slack[i];
    }
    return grown || leave_open(path);
}
