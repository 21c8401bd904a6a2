// The look-ups by which programs find the driver's functions: dlsym, dlvsym and cuGetProcAddress. Each first calls the
// real function. It replaces the result only if it is a function of libcuda.so.1 that this library replaces, or libc's
// look-up.
#include "dynamic_symbols.h"
#include "entry_points.h"
#include "exported.h"
#include "settings.h"

#include <dlfcn.h>
#include <link.h>

// The stubs below, which the dlsym of another library cannot replace.
extern "C" __attribute__((visibility("hidden"))) void *ferry_run_own_dlsym(void *, const char *);
extern "C" __attribute__((visibility("hidden"))) void *ferry_run_own_dlvsym(void *, const char *, const char *);

namespace ferry_run {

namespace {

using dlsym_function = void *(*)(void *, const char *);
using dlvsym_function = void *(*)(void *, const char *, const char *);

std::atomic<dlsym_function> next_dlsym = nullptr;
std::atomic<dlvsym_function> next_dlvsym = nullptr;

template <class Function> Function find_once(std::atomic<Function> &kept, const char *name) noexcept {
    Function function = kept.load(std::memory_order_acquire);
    if (!function) {
        function = reinterpret_cast<Function>(find_next_definition(name));
        kept.store(function, std::memory_order_release);
    }
    return function;
}

struct replacement {
    const char *symbol;
    void *substitute;
};
const replacement replacements[] = {
#define FERRY_RUN_ENTRY(symbol, name, version) {#symbol, reinterpret_cast<void *>(&::symbol)},
#include "entry_points.inc"
#undef FERRY_RUN_ENTRY
};

const replacement *find_replacement(const char *name) noexcept {
    if (name[0] != 'c' || name[1] != 'u') return nullptr;
    if (name[2] < 'A' || name[2] > 'Z') return nullptr; // another library's function, such as cudnnCreate
    for (const replacement &one : replacements)
        if (are_equal(one.symbol, name)) return &one;
    return nullptr;
}

// Other interposers get libc's look-ups by libc's handle, or by a version, which this library's functions do not have.
bool is_look_up(const char *name) noexcept { return are_equal(name, "dlsym") || are_equal(name, "dlvsym"); }

// Returns the result that the program would get without this library, or the replacement for that result.
void *replace(void *found) noexcept {
    if (found && found == reinterpret_cast<void *>(find_once(next_dlsym, "dlsym")))
        return reinterpret_cast<void *>(&ferry_run_own_dlsym);
    if (found && found == reinterpret_cast<void *>(find_once(next_dlvsym, "dlvsym")))
        return reinterpret_cast<void *>(&ferry_run_own_dlvsym);
    return found && is_on() && find_real() ? substitute_for(found) : found;
}

void *replaced_dlsym(void *handle, const char *name) noexcept {
    const auto find = find_once(next_dlsym, "dlsym");
    void *const found = find(handle, name);
    // A handle of the whole process finds this library's function even if no other definition follows.
    if (const replacement *const one = find_replacement(name); one && one->substitute == found)
        return find(RTLD_NEXT, name) ? found : nullptr;
    return replace(found);
}

void *replaced_dlvsym(void *handle, const char *name, const char *version) noexcept {
    return replace(find_once(next_dlvsym, "dlvsym")(handle, name, version));
}

void *find_nothing(void *, const char *name) noexcept {
    return find_once(next_dlsym, "dlsym")(RTLD_NEXT, name); // sets dlerror's text
}

link_map *library_of(const void *address) noexcept {
    Dl_info info;
    link_map *library = nullptr;
    const int is_found = dladdr1(address, &info, reinterpret_cast<void **>(&library), RTLD_DL_LINKMAP);
    return is_found ? library : nullptr;
}

// Whether a look-up by RTLD_NEXT would find this library's function. That is the case if the caller is in the program,
// or in a library before this library, and no library in between has the symbol.
bool would_find_this_library(const void *caller, const char *name) noexcept {
    const link_map *const library = library_of(caller);
    return library && is_first_definition_behind(library, name);
}

// Whether the caller's own look-up by RTLD_DEFAULT would find the symbol without this library: in the process's scope
// after this library, or in the scope of the caller's library.
bool is_in_scope_of(const void *caller, const char *name) noexcept {
    const auto find = find_once(next_dlsym, "dlsym");
    if (find(RTLD_NEXT, name)) return true;
    const link_map *const library = library_of(caller);
    if (!library || !library->l_name || !*library->l_name) return false; // unknown, or the program itself
    void *const handle = dlopen(library->l_name, RTLD_LAZY | RTLD_NOLOAD);
    const bool is_found = handle && find(handle, name);
    if (handle) dlclose(handle);
    return is_found;
}

} // namespace

std::atomic<void *> real_functions[static_cast<unsigned>(entry::count)];

// Uses no lock: dlopen takes the loader's own lock, which a thread in a constructor may hold while it waits for this
// thread. Concurrent threads store the same values.
bool find_real() noexcept {
    static std::atomic<bool> is_found = false;
    if (is_found.load(std::memory_order_acquire)) return true;
    // The reference is never released: the functions stay valid if the program unloads the library.
    void *const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return false;
    const auto find = find_once(next_dlsym, "dlsym");
    for (const replacement &one : replacements)
        real_functions[&one - replacements].store(find(library, one.symbol), std::memory_order_release);
    is_found.store(true, std::memory_order_release);
    return true;
}

void *find_next(entry one) noexcept { return find_once(next_dlsym, "dlsym")(RTLD_NEXT, symbol_of(one)); }

void *substitute_for(void *real) noexcept {
    for (const replacement &one : replacements)
        if (real_functions[&one - replacements].load(std::memory_order_relaxed) == real) return one.substitute;
    return real;
}

const char *symbol_of(entry one) noexcept { return replacements[static_cast<unsigned>(one)].symbol; }

void *find_driver_function(void *, const char *name, int version) noexcept {
    void *function = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result = call_real<entry::cuGetProcAddress_v2>(
        name, &function, version, cuuint64_t{CU_GET_PROC_ADDRESS_LEGACY_STREAM}, &found);
    return result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS ? function : nullptr;
}

} // namespace ferry_run

using namespace ferry_run;

// Return the function at which the stubs below continue: the real function, which then sees the program as its caller,
// or the replacement. RTLD_NEXT and RTLD_DEFAULT depend on the caller, so they use the real function. For the driver's
// symbols in the caller's scope, RTLD_DEFAULT finds this library's symbol first.
extern "C" __attribute__((visibility("hidden"), used)) void *ferry_run_dlsym_target(void *handle, const char *name,
                                                                                    const void *caller) {
    const bool is_replaced = name && find_replacement(name),
               is_of_caller = handle == RTLD_NEXT || handle == RTLD_DEFAULT;
    if (name && !is_of_caller && (is_replaced || is_look_up(name))) return reinterpret_cast<void *>(&replaced_dlsym);
    if (is_replaced && handle == RTLD_DEFAULT && !is_in_scope_of(caller, name))
        return reinterpret_cast<void *>(&find_nothing);
    if (is_replaced && handle == RTLD_NEXT && !find_once(next_dlsym, "dlsym")(RTLD_NEXT, name) &&
        would_find_this_library(caller, name))
        return reinterpret_cast<void *>(&find_nothing);
    return reinterpret_cast<void *>(find_once(next_dlsym, "dlsym"));
}
extern "C" __attribute__((visibility("hidden"), used)) void *ferry_run_dlvsym_target(void *handle, const char *name,
                                                                                     const void *caller) {
    bool is_replaced = name && handle != RTLD_NEXT && handle != RTLD_DEFAULT && find_replacement(name);
    if (name && is_look_up(name)) is_replaced = handle != RTLD_NEXT || would_find_this_library(caller, name);
    return is_replaced ? reinterpret_cast<void *>(&replaced_dlvsym)
                       : reinterpret_cast<void *>(find_once(next_dlvsym, "dlvsym"));
}

// Jumps with the arguments, the stack and the return address that the program passed. Compilers do not guarantee such a
// call.
#if defined(__x86_64__)
#define FERRY_RUN_STUB(symbol)                                                                                         \
    asm(".text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol ":\n"                                      \
        ".globl ferry_run_own_" #symbol "\n.hidden ferry_run_own_" #symbol "\nferry_run_own_" #symbol ":\n"            \
        ".cfi_startproc\n"                                                                                             \
        "endbr64\n"                                                                                                    \
        "push %rdi\n.cfi_adjust_cfa_offset 8\n"                                                                        \
        "push %rsi\n.cfi_adjust_cfa_offset 8\n"                                                                        \
        "push %rdx\n.cfi_adjust_cfa_offset 8\n"                                                                        \
        "mov 24(%rsp), %rdx\n"                                                                                         \
        "call ferry_run_" #symbol "_target\n"                                                                          \
        "pop %rdx\n.cfi_adjust_cfa_offset -8\n"                                                                        \
        "pop %rsi\n.cfi_adjust_cfa_offset -8\n"                                                                        \
        "pop %rdi\n.cfi_adjust_cfa_offset -8\n"                                                                        \
        "jmp *%rax\n"                                                                                                  \
        ".cfi_endproc\n.size " #symbol ", .-" #symbol "\n");
#elif defined(__aarch64__)
#define FERRY_RUN_STUB(symbol)                                                                                         \
    asm(".text\n.globl " #symbol "\n.type " #symbol ", %function\n" #symbol ":\n"                                      \
        ".globl ferry_run_own_" #symbol "\n.hidden ferry_run_own_" #symbol "\nferry_run_own_" #symbol ":\n"            \
        ".cfi_startproc\n"                                                                                             \
        "hint #34\n" /* bti c */                                                                                       \
        "stp x29, x30, [sp, #-48]!\n.cfi_adjust_cfa_offset 48\n.cfi_rel_offset x30, 8\n"                               \
        "stp x0, x1, [sp, #16]\n"                                                                                      \
        "str x2, [sp, #32]\n"                                                                                          \
        "mov x2, x30\n"                                                                                                \
        "bl ferry_run_" #symbol "_target\n"                                                                            \
        "mov x16, x0\n"                                                                                                \
        "ldp x0, x1, [sp, #16]\n"                                                                                      \
        "ldr x2, [sp, #32]\n"                                                                                          \
        "ldp x29, x30, [sp], #48\n.cfi_adjust_cfa_offset -48\n.cfi_restore x30\n"                                      \
        "br x16\n"                                                                                                     \
        ".cfi_endproc\n.size " #symbol ", .-" #symbol "\n");
#else
#error "ferry-run knows x86-64 and 64-bit Arm"
#endif
FERRY_RUN_STUB(dlsym)
FERRY_RUN_STUB(dlvsym)

// gcc links the address sanitizer as a shared library that refuses to start after a preloaded library, because
// functions of libc that a preceding library replaces escape it. This library replaces none of these functions. A
// program's own definition takes precedence.
extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
    return "verify_asan_link_order=0";
}

FERRY_RUN_EXPORTED cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    const CUresult result = call_real<entry::cuGetProcAddress>(name, function, version, flags);
    if (result == CUDA_SUCCESS && function && *function && is_on()) *function = substitute_for(*function);
    return result;
}

FERRY_RUN_EXPORTED cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status) {
    const CUresult result = call_real<entry::cuGetProcAddress_v2>(name, function, version, flags, status);
    if (result == CUDA_SUCCESS && function && *function && is_on()) *function = substitute_for(*function);
    return result;
}
