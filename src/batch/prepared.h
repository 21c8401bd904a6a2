// Prepared batches: checked and planned once, launched any number of times. The pieces that kernels copy are in one
// table in device memory. The table is changed in stream order, so graphs use new addresses too.
#pragma once

#include "batch/nest_plans.h"
#include "batch/request.h"
#include "submit/instance.h"

namespace ferry {

// A nest that a kernel copies. Its lists of indices are in the table or in the program's device memory.
struct prepared_nest {
    nest seen;
    nest_link link;
    std::uint32_t blocks;
    std::uint64_t skipped;
};

} // namespace ferry

struct ferry_prepared {
    ferry_prepared(ferry_instance &of, ferry::batch_request &made) noexcept
        : instance(of), request(&made), pieces(of.allocator), changed(of.allocator), kinds(of.allocator),
          nests(of.allocator) {}

    ferry_instance &instance;
    ferry::batch_request *request;
    std::uint64_t table = 0, table_records = 0;
    std::uint64_t index_bytes = 0; // of the lists of `nests`, behind the records in the table
    ferry::call_options options;
    std::uint64_t count = 0, bytes = 0;    // of the input
    bool no_wait = false;                  // of launches without options of their own; `options` do not contain it
    unsigned long long context_number = 0; // of the context, whose end frees the table; 0: unknown
    ferry::piece_table tables[ferry::piece_groups]; // parts of the table
    // For updatable batches: the input, the input with new addresses while these are checked, and the group of each
    // piece of the request. Pieces of size 0 are not in the request.
    ferry::growing<ferry_piece> pieces, changed;
    ferry::growing<ferry::piece_group> kinds;
    ferry::growing<ferry::prepared_nest> nests; // the request has the boxes of all other nests
};

namespace ferry {

// On failure, `bad_index` is the index of the input copy that failed, or no_index.
error create_prepared(ferry_instance &instance, const batch_input &input, CUstream stream, ferry_prepared *&prepared,
                      std::uint64_t &bad_index) noexcept;
// Likewise for nests, with the nest or its axis.
error create_prepared_nests(ferry_instance &instance, const nest_input &input, CUstream stream,
                            ferry_prepared *&prepared, error_item &bad) noexcept;
// `ticket` may be null.
error launch_prepared(ferry_prepared &prepared, bool no_wait, CUstream stream, ferry_ticket *ticket) noexcept;
// The sizes of `given` are not read. Without destinations or sources in it, these stay unchanged.
error set_addresses(ferry_prepared &prepared, const piece_list &given, std::uint64_t count, CUstream stream,
                    std::uint64_t &bad_index) noexcept;
error destroy_prepared(ferry_prepared &prepared) noexcept;
// Destroys the batch, but keeps its table until the stream has completed its earlier work. On failure, the batch is
// unchanged.
error destroy_prepared_deferred(ferry_prepared &prepared, CUstream stream) noexcept;

} // namespace ferry
