// The table of a prepared batch: in the device's memory, filled through pinned memory.
#pragma once

#include "submit/prepared_batch.h"

namespace ferry {

// Unless it has ended with its context: its address may be another's then.
error free_table_of(const ferry_prepared &prepared) noexcept;

// Of the batch's job, once that is planned. Where no kernel reads one there is none.
error make_table(ferry_prepared &prepared) noexcept;

// The same table with the addresses of `job`, in the order of the stream.
error change_table(const ferry_prepared &prepared, const batch_request &request, CUstream stream) noexcept;

} // namespace ferry
