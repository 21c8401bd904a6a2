// Moves blocks of a paged KV cache to pinned memory and back, between two layouts:
// in the cache [layer, kv, block, head, token, width], in the store [block, layer, kv, token, head, width].
#include <cstdio>
#include <ferry/ferry.hpp>
#include <vector>

static constexpr std::int64_t layers = 4, blocks = 32, heads = 8, tokens = 16, width = 128 * 2; // width: bytes
static constexpr std::int64_t row = heads * width, plane = tokens * row, block_bytes = layers * 2 * plane;

// The same axes for both directions, from the cache to the store. `ids` are the blocks in the cache.
static ferry::nest describe(std::uint64_t cache, const void *store, const std::vector<std::uint32_t> &ids,
                            bool evicts) {
    ferry_place in_cache, in_store;
    ferry_place_device(&in_cache, 0, cache);
    ferry_place_host(&in_store, store);
    ferry::nest nest(evicts ? in_cache : in_store, evicts ? in_store : in_cache, width);
    const auto add = [&](std::uint64_t count, const ferry::axis_end &of_cache, const ferry::axis_end &of_store) {
        nest.add_axis(count, evicts ? of_cache : of_store, evicts ? of_store : of_cache);
    };
    add(ids.size(), {plane, ferry::host_indices(ids.data(), blocks)}, block_bytes);
    add(layers, 2 * blocks * plane, 2 * plane);
    add(2, blocks * plane, plane); // keys and values
    add(heads, tokens * width, width);
    add(tokens, width, row);
    return nest;
}

int main() try {
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    auto cache = ferry::device_memory<char>::create(ferry, 0, blocks * block_bytes).or_throw();
    const auto store = ferry::pinned_memory<char>::create(ferry, 3 * block_bytes).or_throw();
    const auto stream = ferry::stream::create(ferry, 0).or_throw();
    std::vector<char> before(blocks * block_bytes), after(before.size());
    for (std::size_t i = 0; i < before.size(); ++i)
        before[i] = static_cast<char>((i * 2654435761u >> 13) | 1); // no byte is 0
    ferry::copy(ferry, before, cache).or_throw();

    const std::vector<std::uint32_t> evicted = {3, 17, 5};
    ferry::copy_nest_async(ferry, describe(cache.address(), store.data(), evicted, true), stream).or_throw();
    stream.synchronize().or_throw();
    ferry::copy(ferry, after, cache).or_throw(); // the cache is lost: all bytes are 0
    ferry::copy_nest_async(ferry, describe(cache.address(), store.data(), evicted, false), stream).or_throw();
    stream.synchronize().or_throw();

    ferry::copy(ferry, cache, after).or_throw();
    std::int64_t restored = 0, wrong = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        restored += after[i] == before[i];
        wrong += after[i] != before[i] && after[i] != 0;
    }
    std::printf("%zu blocks, %lld bytes restored\n", evicted.size(), static_cast<long long>(restored));
    return wrong == 0 && restored == 3 * block_bytes ? 0 : 1;
} catch (const std::exception &error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
}
