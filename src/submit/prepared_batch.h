// Prepared batches: checked and planned once, launched as often as wanted. Their pieces that kernels copy lie in one table
// in the device's memory, which changes in the order of a stream, so that graphs see new addresses too.
#pragma once

#include "submit/batch_request.h"
#include "submit/instance.h"

struct ferry_prepared {
    ferry_prepared(ferry_instance &of, ferry::batch_request &made) noexcept
        : instance(of), request(&made), destinations(of.allocator), sources(of.allocator), sizes(of.allocator),
          kinds(of.allocator) {}

    ferry_instance &instance;
    ferry::batch_request *request;
    std::uint64_t table = 0, table_records = 0;
    unsigned long long context_number = 0;          // of the job's context, with which the table ends; 0: not told
    ferry::piece_table tables[ferry::piece_groups]; // parts of it
    // Of changeable ones: what was asked for, and the group of each piece that has a size.
    bool is_updatable = false;
    std::uint32_t flags = 0;
    ferry::growing<std::uint64_t> destinations, sources, sizes;
    ferry::growing<ferry::piece_group> kinds;
};

namespace ferry {

// `bad_index` is where it has failed, of those of the input.
error create_prepared(ferry_instance &instance, const batch_input &input, CUstream stream, ferry_prepared *&prepared,
                      std::uint64_t &bad_index) noexcept;
error launch_prepared(ferry_prepared &prepared, CUstream stream) noexcept;
// Those that are null stay as they were.
error set_addresses(ferry_prepared &prepared, const std::uint64_t *destinations, const std::uint64_t *sources,
                    CUstream stream, std::uint64_t &bad_index) noexcept;
error destroy_prepared(ferry_prepared &prepared) noexcept;

} // namespace ferry
