// Wraps any driver so that pinned and registered memory has different addresses on the device and on the host, as on
// machines where CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0. A kernel or fill that gets a host address is rejected,
// because no device knows that address. Only one alias_driver can be in use at a time.
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

    // The number of launches and fills that were rejected because they got a host address.
    int refused() const;
};

} // namespace ferry::test
