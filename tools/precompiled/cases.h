// Precompiled: what most cases of ferry-bench include.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <cuda.h>
#include <cudaTypedefs.h>
