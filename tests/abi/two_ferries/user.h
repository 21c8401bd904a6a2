/* Who uses one copy of ferry: compiled into the program and into the plug-in, which link a ferry each. */
#include <ferry/ferry_memory.h>
#include <ferry/ferry_software.h>

#include <string.h>

typedef struct user {
    void *library;                     /* an address in its ferry */
    int32_t (*open)(uint32_t devices); /* on a software driver of so many devices; a running one of others refuses */
    int32_t (*copy)(uint64_t *memory); /* up to the last device, into *memory, and back; 1 if the bytes changed */
    int32_t (*kind_of)(uint64_t address, int32_t *memory);
    void (*close)(void);
} user;

static ferry_instance *instance;
static int32_t last_device;

static int32_t user_open(uint32_t devices) {
    const ferry_software_options settings = {.struct_size = sizeof settings, .devices = devices};
    ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_SOFTWARE};
    options.driver_options = &settings;
    last_device = (int32_t)devices - 1;
    return ferry_open(&options, &instance, NULL);
}

static int32_t user_copy(uint64_t *memory) {
    char sent[1000], received[sizeof sent] = {0};
    int32_t status = ferry_device_alloc(instance, last_device, sizeof sent, memory, NULL);
    memset(sent, 1 + last_device, sizeof sent);
    if (!status) status = ferry_copy_bytes(instance, *memory, (uint64_t)(uintptr_t)sent, sizeof sent, NULL, NULL);
    if (!status) status = ferry_copy_bytes(instance, (uint64_t)(uintptr_t)received, *memory, sizeof sent, NULL, NULL);
    return status ? status : memcmp(sent, received, sizeof sent) != 0;
}

static int32_t user_kind_of(uint64_t address, int32_t *memory) {
    ferry_address_info info = {.struct_size = sizeof info};
    const int32_t status = ferry_address_get_info(instance, address, &info, NULL);
    *memory = info.memory;
    return status;
}

static void user_close(void) { ferry_close(instance); }

static user make_user(void) {
    const user made = {(void *)ferry_open, user_open, user_copy, user_kind_of, user_close};
    return made;
}
