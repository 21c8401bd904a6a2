#include "lines.h"

namespace bench {

const char *name_of(form form) { return form == form::async ? "async" : "sync"; }

contender raw_line(const environment &environment, const direction &direction, form form, std::size_t size) {
    if (form == form::sync)
        return {"cuMemcpy*", [&environment, direction, size] { raw_copy(environment, direction, size); }};
    return {"cuMemcpy*Async", [&environment, direction, size] {
                raw_copy_async(environment, direction, size, environment.stream.get());
                drain(environment);
            }};
}

contender ferry_line(const environment &environment, const direction &direction, form form, std::size_t size) {
    const box copied = line(direction, size);
    if (form == form::async) return ferry_contender(environment, copied);
    return {"ferry_copy", [&environment, desc = describe(copied)] {
                auto error = sized<ferry_error_info>();
                check(ferry_copy(environment.basic.get(), &desc, nullptr, &error), "ferry_copy", error);
            }};
}

} // namespace bench
