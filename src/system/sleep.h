// Makes a thread sleep until another thread changes a word. std::atomic::wait loses wake-ups if the C++ runtime has no
// futex.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Returns immediately if the word is not `seen`; otherwise sleeps until woken. May return early.
void sleep_while(const std::atomic<std::uint32_t> &word, std::uint32_t seen) noexcept;

// Must be called after the word has changed.
void wake_one(const std::atomic<std::uint32_t> &word) noexcept;

} // namespace ferry
