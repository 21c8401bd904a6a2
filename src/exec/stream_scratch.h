// Memory of the device for one copy, allocated and freed in the order of a stream.
#pragma once

#include "base/address_span.h"
#include "driver/table.h"

namespace ferry {

class stream_scratch {
public:
    // The stream's context must be current.
    stream_scratch(const driver_table &cu, CUstream stream) noexcept : cu_(cu), stream_(stream) {}
    ~stream_scratch();
    stream_scratch(const stream_scratch &) = delete;
    stream_scratch &operator=(const stream_scratch &) = delete;

    // At most once.
    error allocate(std::uint64_t bytes) noexcept;
    address_span span() const noexcept { return span_; }

private:
    const driver_table &cu_;
    const CUstream stream_;
    address_span span_ = {};
};

} // namespace ferry
