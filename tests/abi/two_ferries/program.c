/* A program with a ferry that loads a plug-in with another: program PLUGIN. Neither may notice the other's. */
#include "user.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int holds, const char *what) {
    if (holds) return;
    printf("failed: %s\n", what);
    exit(1);
}
#define CHECK(condition) check(condition, #condition)

/* Both open, both copy, one closes, the other goes on. Their devices differ in number: one driver cannot serve both. */
static void use_both(const user *first, const user *second) {
    uint64_t of_first, of_second;
    int32_t kind;
    CHECK(first->open(3) == FERRY_SUCCESS);
    CHECK(second->open(5) == FERRY_SUCCESS);
    CHECK(first->copy(&of_first) == FERRY_SUCCESS);
    CHECK(second->copy(&of_second) == FERRY_SUCCESS);
    CHECK(first->kind_of(of_first, &kind) == FERRY_SUCCESS && kind == FERRY_MEMORY_DEVICE);
    CHECK(second->kind_of(of_first, &kind) == FERRY_SUCCESS && kind == FERRY_MEMORY_PAGEABLE);
    first->close();
    CHECK(second->copy(&of_second) == FERRY_SUCCESS);
    second->close();
}

int main(int argc, char **argv) {
    void *const loaded = dlopen(argv[argc - 1], RTLD_NOW | RTLD_GLOBAL);
    check(loaded != NULL, loaded ? "" : dlerror());
    user (*plugin_user)(void);
    *(void **)&plugin_user = dlsym(loaded, "plugin_user");
    const user ours = make_user(), theirs = plugin_user();
    uint64_t memory;
    CHECK(ours.library != theirs.library);
    use_both(&ours, &theirs);
    use_both(&theirs, &ours);

    CHECK(ours.open(4) == FERRY_SUCCESS);
    CHECK(dlclose(loaded) == 0);
    CHECK(dlopen(argv[argc - 1], RTLD_NOW | RTLD_NOLOAD) == NULL);
    CHECK(ours.copy(&memory) == FERRY_SUCCESS);
    ours.close();
    printf("two ferries, neither in the other's way\n");
    return 0;
}
