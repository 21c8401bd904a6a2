// Copies a box of a host volume to a box of a volume on the GPU, and back.
#include <ferry/ferry.hpp>

#include <cstdio>

static float volume[48][64][96], received[48][64][96]; // a C array is a view of its shape

int main() try {
    float number = 0;
    for (auto &slice : volume)
        for (auto &row : slice)
            for (float &voxel : row)
                voxel = number++;

    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    auto memory = ferry::pitched_memory<float>::create(ferry, 0, 96, 64, 48).or_throw();

    // 32 by 16 by 8 voxels: the origin, then the size; x comes first.
    const auto on_device = memory.view().sub(4, 5, 6, 32, 16, 8);
    ferry::copy(ferry, ferry::view_of(volume).sub(10, 20, 30, 32, 16, 8), on_device).or_throw();
    ferry::copy(ferry, on_device, ferry::view_of(received).sub(10, 20, 30, 32, 16, 8)).or_throw();

    for (int z = 30; z < 38; ++z)
        for (int y = 20; y < 36; ++y)
            for (int x = 10; x < 42; ++x)
                if (received[z][y][x] != volume[z][y][x]) return 1;
    std::puts("a box of 32 by 16 by 8 voxels went there and back");
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
