#if defined(_WIN32)
// On Windows, processes share nothing: the devices' memory has no file, so publish() rejects the call.
#include "softdriver/sharing.h"

namespace ferry::softdriver {

void sleep_until_changed(std::atomic<std::uint32_t> &, std::uint32_t) {}
void wake_sharers(std::atomic<std::uint32_t> &) {}
std::int32_t own_number() { return 0; }

std::shared_ptr<shared_process> shared_process::make_own(int, std::size_t) { return nullptr; }
std::shared_ptr<shared_process> shared_process::open(const shared_name &) { return nullptr; }
shared_process::~shared_process() = default;
bool shared_process::is_alive(std::uint32_t) const { return false; }
bool shared_process::is_same_file(const shared_name &) const { return false; }

int write_name(const shared_name &) { return -1; }
std::optional<shared_name> read_name(int) { return std::nullopt; }

} // namespace ferry::softdriver
#endif
