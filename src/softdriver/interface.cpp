// The C functions of ferry_software.h.
#include "base/sized.h"
#include "driver/result.h"
#include "ferry/ferry_software.h"
#include "softdriver/softdriver.h"

namespace ferry::softdriver {

namespace {

error read_options(const ferry_software_options *theirs, config &asked) noexcept {
    ferry_software_options options = {};
    if (theirs)
        if (error failed = read_sized(theirs, options)) return on_side(failed, FERRY_SIDE_DRIVER_OPTIONS);
    static_assert(static_cast<int>(device_links::unset) == FERRY_SOFTWARE_LINKS_DEFAULT);
    static_assert(static_cast<int>(device_links::all) == FERRY_SOFTWARE_LINKS_ALL);
    static_assert(static_cast<int>(device_links::none) == FERRY_SOFTWARE_LINKS_NONE);
    static_assert(static_cast<int>(device_links::pairs) == FERRY_SOFTWARE_LINKS_PAIRS);
    const struct {
        std::int64_t value, limit;
        std::int32_t field;
    } ranges[] = {{options.devices, max_devices, FERRY_FIELD_DEVICES},
                  {options.queues, 128, FERRY_FIELD_QUEUES},
                  {options.links, FERRY_SOFTWARE_LINKS_PAIRS, FERRY_FIELD_LINKS}};
    for (const auto &range : ranges)
        if (range.value < 0 || range.value > range.limit)
            return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_DRIVER_OPTIONS, range.field, numbers::up_to,
                                 range.limit, range.value);
    asked = {options.devices, options.queues, options.memory, static_cast<device_links>(options.links)};
    return {};
}

error open_for_program(const ferry_software_options *options) noexcept {
    config asked;
    if (error failed = read_options(options, asked)) return failed;
    switch (open(asked)) {
    case open_result::refused_config:
        return refuse_option(FERRY_ERROR_SOFTWARE_CONFIG, FERRY_FIELD_DRIVER_OPTIONS);
    case open_result::out_of_memory:
        return no_memory;
    case open_result::opened:
        break;
    }
    return {};
}

} // namespace
} // namespace ferry::softdriver

extern "C" {

int32_t ferry_software_open(const ferry_software_options *options, ferry_error_info *details) {
    return ferry::report(details, ferry::softdriver::open_for_program(options));
}

void ferry_software_close(void) { ferry::softdriver::close(); }

void *ferry_software_get_proc(void *, const char *name, int32_t version) {
    return ferry::softdriver::get_proc(name, version);
}

} // extern "C"
