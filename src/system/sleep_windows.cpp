#if defined(_WIN32)
#include "system/sleep.h"

#include "system/windows_api.h"

namespace ferry {

namespace {

void *address_of(const std::atomic<std::uint32_t> &word) noexcept {
    return const_cast<std::atomic<std::uint32_t> *>(&word);
}

} // namespace

void sleep_while(const std::atomic<std::uint32_t> &word, std::uint32_t seen) noexcept {
    WaitOnAddress(address_of(word), &seen, sizeof seen, INFINITE);
}
void wake_one(const std::atomic<std::uint32_t> &word) noexcept { WakeByAddressSingle(address_of(word)); }

} // namespace ferry
#endif
