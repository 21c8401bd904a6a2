// Writes seed inputs for libFuzzer's targets: random bytes of several lengths, from which the targets draw, and for
// profiles also the text of a valid profile. write-seeds FOLDER creates a subfolder for each target.
#include "fuzz/target.h"

#include <filesystem>
#include <fstream>
#include <random>

using namespace ferry::fuzzing;

namespace {

void write(const std::filesystem::path &to, const std::string &bytes) {
    std::ofstream(to, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string built_in_profile() {
    ferry_instance *const ferry = open_with(FERRY_CHECKS_BASIC);
    std::uint64_t needed = 0;
    expect(ferry_profile_save(ferry, 0, nullptr, 0, &needed, nullptr) == 0,
           "ferry_profile_save does not return the size");
    std::string text(needed, '\0');
    expect(ferry_profile_save(ferry, 0, text.data(), needed, nullptr, nullptr) == 0, "ferry_profile_save failed");
    ferry_close(ferry);
    return text;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    std::mt19937 random(1);
    for (const char *const target : {"profile", "handle", "descriptor"}) {
        const std::filesystem::path folder = std::filesystem::path(argv[1]) / target;
        std::filesystem::create_directories(folder);
        for (int i = 0; i < 64; ++i) {
            std::string bytes(static_cast<std::size_t>(4 + 4 * i), '\0');
            for (char &one : bytes)
                one = static_cast<char>(random());
            write(folder / ("random-" + std::to_string(i)), bytes);
        }
    }
    write(std::filesystem::path(argv[1]) / "profile" / "good", std::string(1, '\0') + built_in_profile());
    return 0;
}
