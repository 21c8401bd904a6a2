#include "driver/software_driver.h"

#include <cstring>
#include <initializer_list>

#include "base/abi_version.h"
#include "driver/software_build.h"
#include "system/shared_library.h"

namespace ferry {

#if !FERRY_HAS_SOFTWARE_DRIVER && defined(__GNUC__)
// Null in a program that links only ferry's static library, without the software driver's.
namespace maybe_linked {
[[gnu::weak]] decltype(ferry_software_open) open __asm__("ferry_software_open");
[[gnu::weak]] decltype(ferry_software_close) close __asm__("ferry_software_close");
[[gnu::weak]] decltype(ferry_software_get_proc) get_proc __asm__("ferry_software_get_proc");
} // namespace maybe_linked
#if defined(__ELF__)
// Hidden, so that functions of another library in the process are not used. GCC ignores the attribute for weak
// functions.
__asm__(".hidden ferry_software_open, ferry_software_close, ferry_software_get_proc");
#else
// On Windows, GCC ignores the attribute `weak` for functions with an assembler name.
__asm__(".weak ferry_software_open\n.weak ferry_software_close\n.weak ferry_software_get_proc");
#endif
#endif

namespace {

#if defined(_WIN32)
constexpr const char *file_names[] = {"libferry-software-" FERRY_ABI_VERSION ".dll",
                                      "ferry-software-" FERRY_ABI_VERSION ".dll"};
#else
constexpr const char *file_names[] = {"libferry-software.so." FERRY_ABI_VERSION};
#endif

constexpr int any_version = 12000;

template <class Function> void look_up(void *library, const char *name, Function &function) noexcept {
    function = reinterpret_cast<Function>(find_symbol(library, name));
}

} // namespace

error identify_driver(const resolver &driver, const log_sink &log, bool &is_software) noexcept {
    const auto *build = static_cast<const char *>(driver.get_proc(driver.user, software_driver_mark, any_version));
    is_software = build != nullptr;
    if (!build || std::strcmp(build, software_build) == 0) return {};
    log.write(FERRY_LOG_ERROR, "the software driver is of build %s, ferry needs build %s", build, software_build);
    return {.status = FERRY_ERROR_SOFTWARE_BUILD};
}

software_driver::functions software_driver::linked() noexcept {
#if FERRY_HAS_SOFTWARE_DRIVER
    return {ferry_software_open, ferry_software_close, ferry_software_get_proc};
#elif defined(__GNUC__)
    return {maybe_linked::open, maybe_linked::close, maybe_linked::get_proc};
#else
    return {};
#endif
}

bool software_driver::load() noexcept {
    for (const auto open : {open_loaded_library, open_library_beside, open_library})
        for (const char *const name : file_names)
            if (!library_) library_ = open(name);
    if (!library_) return false;
    look_up(library_, "ferry_software_open", functions_.open);
    look_up(library_, "ferry_software_close", functions_.close);
    look_up(library_, "ferry_software_get_proc", functions_.get_proc);
    return functions_.open && functions_.close && functions_.get_proc;
}

void software_driver::unload() noexcept {
    functions_ = {};
    if (library_) close_library(library_);
    library_ = nullptr;
}

error software_driver::open(const ferry_software_options *options, const log_sink &log) noexcept {
    functions_ = linked();
    if (!functions_.open && !load()) {
        log.write(FERRY_LOG_ERROR, "%s cannot be loaded", file_names[0]);
        unload();
        return {.status = FERRY_ERROR_NO_SOFTWARE_DRIVER};
    }
    bool is_software = false;
    error failed = identify_driver(entry_points(), log, is_software);
    ferry_error_info details = {};
    details.struct_size = sizeof details;
    if (!failed && functions_.open(options, &details))
        failed = refuse(details.status, details.side, details.field, static_cast<numbers>(details.numbers),
                        details.limit, details.value);
    if (failed) unload();
    return failed;
}

void software_driver::close() noexcept {
    if (functions_.close) functions_.close();
    unload();
}

} // namespace ferry
