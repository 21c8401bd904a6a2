// A thread sleeps until another changes a word. std::atomic::wait loses wake-ups where the C++ runtime has no futex.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Returns at once if the word is not `seen`; otherwise sleeps until woken. May return early.
void sleep_while(const std::atomic<std::uint32_t> &word, std::uint32_t seen) noexcept;

// Called after a change of the word.
void wake_one(const std::atomic<std::uint32_t> &word) noexcept;
void wake_all(const std::atomic<std::uint32_t> &word) noexcept;

} // namespace ferry
