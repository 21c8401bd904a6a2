// Pieces for the batch calls, listed explicitly or scattered at random.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "support/how.h"
#include "support/piece_lists.h"
#include "support/test_place.h"

namespace ferry::test {

struct piece_batch {
    std::vector<std::uint64_t> to, from, sizes;

    void add(std::uint64_t destination, std::uint64_t source, std::uint64_t size) {
        to.push_back(destination);
        from.push_back(source);
        sizes.push_back(size);
    }
    std::int32_t copy(ferry_instance *instance, const how &options = {}, ferry_error_info *error = nullptr) const {
        return ferry_copy_pieces(instance, in_arrays(to.data(), from.data(), sizes.data(), sizes.size()), options,
                                 error);
    }
    std::int32_t copy_async(ferry_instance *instance, CUstream stream, const how &options = {},
                            ferry_error_info *error = nullptr) const {
        return ferry_copy_pieces_async(instance, in_arrays(to.data(), from.data(), sizes.data(), sizes.size()), options,
                                       stream, nullptr, error);
    }
    std::int32_t prepare(ferry_instance *instance, CUstream stream, const how &options, ferry_prepared **prepared,
                         ferry_error_info *error = nullptr) const {
        return ferry_prepared_create_pieces(instance, in_arrays(to.data(), from.data(), sizes.data(), sizes.size()),
                                            options, stream, prepared, error);
    }
};

// Two ranges of memory, and pieces from the first to the second in any order and alignment. Destinations do not
// overlap.
struct scattered {
    scattered(place_kind source_kind, place_kind destination_kind, std::size_t count, std::size_t largest,
              std::uint64_t seed, int source_device = 0, int destination_device = 0)
        : source(source_kind, {.width = count * (largest + 3) + 64, .lead = 5}, source_device),
          destination(destination_kind, {.width = count * (largest + 3) + 64, .lead = 3}, destination_device) {
        std::mt19937_64 random(seed);
        source.fill(seed);
        destination.fill(seed + 1);
        std::vector<std::size_t> slots(count);
        for (std::size_t i = 0; i < count; ++i)
            slots[i] = i;
        std::shuffle(slots.begin(), slots.end(), random);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t size = random() % 8 == 0 ? random() % 3 : 1 + random() % largest;
            offsets.push_back(
                {slots[i] * (largest + 3) + random() % 4, random() % ((count - 1) * (largest + 3)), size});
            batch.add(destination.address() + offsets[i].to, source.address() + offsets[i].from, size);
        }
    }
    void apply() {
        for (const auto &one : offsets)
            if (one.size) reference_copy(source, {.x = one.from}, destination, {.x = one.to}, one.size, 1, 1);
    }
    void expect_copied() {
        apply();
        EXPECT_TRUE(destination.read() == destination.picture());
        EXPECT_TRUE(source.read() == source.picture());
    }

    struct offset {
        std::uint64_t to, from, size;
    };
    test_place source, destination;
    std::vector<offset> offsets;
    piece_batch batch;
};

} // namespace ferry::test
