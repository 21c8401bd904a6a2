// Precompiled: what most suites include. Parsing it takes g++ longer than the rest of a suite.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cuda.h>
#include <cudaTypedefs.h>
