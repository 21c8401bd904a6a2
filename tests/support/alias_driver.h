// Wraps any driver so that pinned and registered memory has another address on the device than on the host, as where
// CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0. A kernel or fill that is given the host's address is refused, as the
// address is no device's there. One of them can be in use at a time.
#pragma once

#include "driver/table.h"
#include "ferry/ferry.h"

namespace ferry::test {

class alias_driver {
public:
    explicit alias_driver(resolver inner);
    ~alias_driver();
    alias_driver(const alias_driver &) = delete;
    alias_driver &operator=(const alias_driver &) = delete;

    // Options that open the wrapped driver.
    ferry_options options() const;
    resolver entry_points() const;

    // Launches and fills that were given an address of the host's.
    int refused() const;
};

} // namespace ferry::test
