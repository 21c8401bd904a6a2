// Atomic accesses to a word that is part of a plain struct or of the program's memory. Replaces std::atomic_ref, which
// libc++ lacks before LLVM 19.
#pragma once

#include <atomic>

namespace ferry {

template <class Word> class atomic_word {
public:
    static constexpr std::memory_order strictest = std::memory_order_seq_cst;

    explicit atomic_word(Word &word) noexcept : word_(word) {}

#if defined(__GNUC__) // and Clang, with any C++ library
    Word load(std::memory_order order = strictest) const noexcept {
        return __atomic_load_n(&word_, static_cast<int>(order));
    }
    void store(Word value, std::memory_order order = strictest) const noexcept {
        __atomic_store_n(&word_, value, static_cast<int>(order));
    }
    Word exchange(Word value, std::memory_order order = strictest) const noexcept {
        return __atomic_exchange_n(&word_, value, static_cast<int>(order));
    }
    Word fetch_add(Word more, std::memory_order order = strictest) const noexcept {
        return __atomic_fetch_add(&word_, more, static_cast<int>(order));
    }
    // Writes `value` if the word equals `expected`. Otherwise returns false and sets `expected` to the word's value.
    bool compare_exchange(Word &expected, Word value, std::memory_order order = strictest) const noexcept {
        return __atomic_compare_exchange_n(&word_, &expected, value, false, static_cast<int>(order), __ATOMIC_RELAXED);
    }
#else
    Word load(std::memory_order order = strictest) const noexcept { return std::atomic_ref(word_).load(order); }
    void store(Word value, std::memory_order order = strictest) const noexcept {
        std::atomic_ref(word_).store(value, order);
    }
    Word exchange(Word value, std::memory_order order = strictest) const noexcept {
        return std::atomic_ref(word_).exchange(value, order);
    }
    Word fetch_add(Word more, std::memory_order order = strictest) const noexcept {
        return std::atomic_ref(word_).fetch_add(more, order);
    }
    bool compare_exchange(Word &expected, Word value, std::memory_order order = strictest) const noexcept {
        return std::atomic_ref(word_).compare_exchange_strong(expected, value, order, std::memory_order_relaxed);
    }
#endif

private:
    Word &word_;
};

} // namespace ferry
