#if defined(_WIN32)
#include "system/processor_descriptors.h"

namespace ferry {

// Reads of Windows use the file's own handle.
processor_descriptors::~processor_descriptors() = default;

} // namespace ferry
#endif
