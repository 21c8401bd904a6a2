#include "system/file.h"

#include <memory>

namespace ferry {

error to_error(const file_failure &failed) noexcept {
    return refuse_signed(FERRY_ERROR_FILE, FERRY_SIDE_NONE, FERRY_FIELD_FILE, numbers::system,
                         static_cast<std::int64_t>(failed.offset), failed.code);
}

bool drop(ferry_file &file) noexcept { return file.uses.fetch_sub(1, std::memory_order_acq_rel) == 1; }

void close_unused(ferry_file &file) noexcept {
    const allocator memory = file.memory;
    std::destroy_at(&file);
    memory.deallocate(&file, sizeof(ferry_file));
}

} // namespace ferry
