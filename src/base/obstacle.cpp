#include "base/obstacle.h"

namespace ferry {

const char *text_of(std::uint64_t why) noexcept {
    constexpr const char *texts[] = {
#define FERRY_OBSTACLE(name, number, text) text,
        FERRY_PUBLIC_OBSTACLES(FERRY_OBSTACLE)
#undef FERRY_OBSTACLE
#define FERRY_OBSTACLE(name, text) text,
            FERRY_INTERNAL_OBSTACLES(FERRY_OBSTACLE)
#undef FERRY_OBSTACLE
    };
    return why < obstacles ? texts[why] : "?";
}

} // namespace ferry
