// Moves the bytes of copies, between linear memory and the tiles of arrays.
#pragma once

#include "softdriver/copy.h"

#include <cstddef>
#include <memory>

namespace ferry::softdriver {

// Bytes of a copy, counted from row to row.
struct stretch {
    std::size_t first, end;
};

std::size_t bytes_of(const extent &size);

void move_bytes(const side &destination, const side &source, const extent &size, const stretch &of);

// The bytes of a stretch in a staging buffer.
class staged_bytes {
public:
    staged_bytes(const extent &size, const stretch &of);

    void read(const side &source) const;
    void write(const side &destination) const;

private:
    extent size_;
    stretch of_;
    std::shared_ptr<std::byte[]> buffer_;
};

} // namespace ferry::softdriver
