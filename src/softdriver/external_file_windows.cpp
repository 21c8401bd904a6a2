#if defined(_WIN32)
// On Windows, the software driver imports no memory: its device memory has no space for mappings of other files.
#include "softdriver/external_file.h"

namespace ferry::softdriver {

external_file::external_file(int descriptor) noexcept : descriptor_(descriptor) {}

} // namespace ferry::softdriver
#endif
