// Copies from one GPU to another. Enables peer access if possible. Without peer access, the same copy is slower.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

int main() try {
    std::vector<int> sent(1 << 18), received(sent.size());
    std::iota(sent.begin(), sent.end(), 0);

    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const int peer = ferry.report().or_throw().device_count > 1 ? 1 : 0; // 0: both ends are on device 0
    const bool has_access = peer == 1 && ferry.enable_peer(peer, 0).ok();

    auto first = ferry::device_memory<int>::create(ferry, 0, sent.size()).or_throw();
    auto second = ferry::device_memory<int>::create(ferry, peer, sent.size()).or_throw();
    ferry::copy(ferry, sent, first).or_throw();
    ferry::copy(ferry, first, second).or_throw();
    ferry::copy(ferry, second, received).or_throw();

    if (received != sent) return 1;
    std::printf("%zu numbers went %s\n", sent.size(),
                peer == 0    ? "from one place to another of the only device"
                : has_access ? "from device 0 to device 1 by peer access"
                             : "from device 0 to device 1 without peer access");
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
