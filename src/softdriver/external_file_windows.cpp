#if defined(_WIN32)
// The software driver imports no memory on Windows: its device memory has no room for mappings of other files.
#include "softdriver/external_file.h"

namespace ferry::softdriver {

external_file::external_file(int descriptor) noexcept : descriptor_(descriptor) {}

} // namespace ferry::softdriver
#endif
