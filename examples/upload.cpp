// Copies bytes to a GPU and back, without exceptions. Without a GPU, the software driver is used.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

static int fail(const ferry::status &why) {
    std::fprintf(stderr, "%s\n", why.line().c_str());
    return 1;
}

int main() {
    std::vector<int> sent(1 << 18), received(sent.size());
    std::iota(sent.begin(), sent.end(), 0);

    const auto ferry = ferry::instance::open(ferry::any_driver());
    if (!ferry) return fail(ferry.error());
    auto memory = ferry::device_memory<int>::create(*ferry, 0, sent.size());
    if (!memory) return fail(memory.error());
    if (auto done = ferry::copy(*ferry, sent, *memory); !done.ok()) return fail(done);
    if (auto done = ferry::copy(*ferry, *memory, received); !done.ok()) return fail(done);

    if (received != sent) return 1;
    const bool is_software = ferry->report()->driver == FERRY_DRIVER_SOFTWARE;
    std::printf("%zu numbers went there and back on %s\n", sent.size(),
                is_software ? "the software driver" : "the GPU");
}
