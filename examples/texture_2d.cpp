// Copies a box of a large host image into a box of a 2D array (a texture), and back. Views count texels, not bytes.
#include <ferry/ferry.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

struct rgba {
    unsigned char red, green, blue, alpha;
    friend bool operator==(const rgba &a, const rgba &b) {
        return a.red == b.red && a.green == b.green && a.blue == b.blue && a.alpha == b.alpha;
    }
};

int main() try {
    const std::size_t width = 640, height = 480;
    std::vector<rgba> image(width * height), received(64 * 32);
    for (std::size_t i = 0; i < image.size(); ++i)
        image[i] = {static_cast<unsigned char>(i), static_cast<unsigned char>(i / width), 7, 255};

    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const auto shape = ferry::array_desc(FERRY_FORMAT_UINT8, 4, 256, 256);
    const auto texture = ferry::array::create(ferry, 0, shape).or_throw();

    const auto box = ferry::view_of(image).shaped(width, height).sub(100, 50, 64, 32);
    const auto place = texture.view().sub(16, 8, 64, 32);
    ferry::copy(ferry, box, place).or_throw();
    ferry::copy(ferry, place, ferry::view_of(received).shaped(64, 32)).or_throw();

    for (std::size_t y = 0; y < 32; ++y)
        if (!std::equal(&received[y * 64], &received[y * 64] + 64, &image[(50 + y) * width + 100])) return 1;
    std::puts("a box of 64 by 32 texels went through the array");
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
