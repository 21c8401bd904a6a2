#include "copy/nest_overlap.h"

#include <algorithm>

#include "base/checked.h"
#include "copy/batch.h"

namespace ferry {

namespace {

enum class proof { apart, shared, none };

// Whether an index is in the list twice.
error find_repeated_index(const nest_axis &axis, const allocator &memory, bool &is_repeated) noexcept {
    growing<std::uint64_t> sorted(memory);
    if (!sorted.reserve(axis.count)) return no_memory;
    for (std::uint64_t i = 0; i < axis.count; ++i)
        sorted.append_reserved(axis.destination_indices.at(i));
    std::sort(sorted.begin(), sorted.end());
    is_repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    return {};
}

// Compares the strides of the destination, from the smallest. Runs are apart if each stride is at least as long as all that
// the smaller strides span.
error compare_strides(const nest &of, const allocator &memory, proof &found) noexcept {
    found = proof::apart;
    std::uint64_t extent = of.run;
    for (int i = 0; i < of.axes; ++i) {
        const nest_axis &axis = of.axis[i];
        const std::uint64_t stride = magnitude(axis.destination_stride);
        const nest_indices &indices = axis.destination_indices;
        if (axis.count == 1 && !indices.address) continue;
        std::uint64_t last = axis.count - 1;
        if (indices.address) {
            bool is_repeated = false;
            if (error failed = find_repeated_index(axis, memory, is_repeated)) return failed;
            if (is_repeated) {
                found = proof::shared;
                return {};
            }
            last = indices.limit - 1;
        }
        if (stride < extent) {
            found = proof::none;
            return {};
        }
        if (!multiply_add(stride, last, extent, extent)) extent = UINT64_MAX;
    }
    return {};
}

std::uint64_t offset_at(const nest &of, const std::uint64_t (&at)[max_nest_axes], bool at_source) noexcept {
    std::uint64_t address = at_source ? of.source : of.destination;
    for (int i = 0; i < of.axes; ++i) {
        const nest_axis &axis = of.axis[i];
        const nest_indices &indices = at_source ? axis.source_indices : axis.destination_indices;
        const std::uint64_t index = indices.address ? indices.at(at[i]) : at[i];
        address += index * static_cast<std::uint64_t>(at_source ? axis.source_stride : axis.destination_stride);
    }
    return address;
}

// Compares all runs. Only runs of the destination if `with_sources` is false.
error compare_runs(const nest &of, std::uint64_t runs, bool with_sources, const allocator &memory,
                   shared_bytes &found) noexcept {
    growing<byte_span> spans(memory);
    if (!spans.reserve(runs * (with_sources ? 2 : 1))) return no_memory;
    std::uint64_t at[max_nest_axes] = {};
    for (std::uint64_t run = 0; run < runs; ++run) {
        for (const bool at_source : {false, true}) {
            if (at_source && !with_sources) continue;
            const std::uint64_t first = offset_at(of, at, at_source);
            spans.append_reserved(
                {.first = first, .last = first + (of.run - 1), .index = run, .is_destination = !at_source});
        }
        int next = 0;
        while (next < of.axes && ++at[next] == of.axis[next].count)
            at[next++] = 0;
    }
    found = find_shared_bytes(spans);
    return {};
}

error refuse_overlap(std::int32_t side) noexcept { return refuse(FERRY_ERROR_OVERLAP, side, FERRY_FIELD_ADDRESS); }

} // namespace

error refuse_shared_bytes(const nest &of, const address_span &destination, const address_span &source,
                          bool is_one_space, const allocator &memory) noexcept {
    for (int i = 0; i < of.axes; ++i)
        if (of.axis[i].has_device_indices()) return {};
    proof strides = proof::none;
    if (error failed = compare_strides(of, memory, strides)) return failed;
    if (strides == proof::shared) return refuse_overlap(FERRY_SIDE_DESTINATION);
    const bool may_meet = is_one_space && destination.first <= source.last && source.first <= destination.last;
    const std::uint64_t runs = of.bytes() / of.run;
    if ((strides == proof::apart && !may_meet) || runs > max_compared_runs) return {};
    shared_bytes found;
    if (error failed = compare_runs(of, runs, may_meet, memory, found)) return failed;
    if (!found.found) return {};
    return refuse_overlap(found.is_destination ? FERRY_SIDE_DESTINATION : FERRY_SIDE_SOURCE);
}

} // namespace ferry
