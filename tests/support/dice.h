// Random draws that a seed reproduces.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>

namespace ferry::test {

class dice {
public:
    explicit dice(std::uint64_t seed) : random_(seed) {}
    std::uint64_t any() { return random_(); }
    std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }
    bool one_in(std::uint64_t number) { return up_to(number - 1) == 0; }
    // Draws small sizes often. A uniform draw would rarely produce them.
    std::uint64_t size(std::uint64_t most) {
        std::uint64_t limit = most;
        if (one_in(2)) limit >>= up_to(static_cast<std::uint64_t>(std::bit_width(most)) - 1);
        return one_in(4) ? limit : 1 + up_to(limit - 1);
    }
    template <class One, std::size_t count> const One &of(const One (&choices)[count]) {
        return choices[up_to(count - 1)];
    }
    template <class Container> auto &among(Container &choices) { return choices[up_to(choices.size() - 1)]; }

private:
    std::mt19937_64 random_;
};

} // namespace ferry::test
