// libFuzzer's target for the text of profiles. A text that is not a profile is rejected and changes nothing. A profile
// that loads can be saved. The saved text loads, is saved again unchanged, and allows plans.
#include "fuzz/target.h"

#include <vector>

namespace ferry::fuzzing {
namespace {

ferry_instance *instance() {
    static ferry_instance *const made = open_with(FERRY_CHECKS_BASIC);
    return made;
}

std::string save() {
    std::uint64_t needed = 0;
    expect(ferry_profile_save(instance(), 0, nullptr, 0, &needed, nullptr) == 0,
           "ferry_profile_save does not return the size");
    std::string text(needed, '\0');
    expect(ferry_profile_save(instance(), 0, text.data(), needed, &needed, nullptr) == 0, "ferry_profile_save failed");
    text.pop_back();
    return text;
}

// Returns the bytes unchanged, or a valid text with edits.
std::string text_of(input from, const std::string &good) {
    if (from.one_in(3)) return std::string(reinterpret_cast<const char *>(from.data()), from.left());
    std::string text = good;
    for (std::uint64_t edits = from.up_to(4); edits && from.left(); --edits) {
        const std::uint64_t at = from.up_to(text.size()), removed = from.up_to(from.one_in(2) ? 4 : 400);
        char added[12];
        const std::uint64_t length = from.up_to(sizeof added);
        from.take_bytes(added, length);
        text.replace(at, removed, added, length);
    }
    return text;
}

void explain() {
    ferry_copy_desc copy = {};
    static std::uint8_t bytes[64];
    ferry_place_host(&copy.source, bytes);
    ferry_place_host(&copy.destination, bytes + 32);
    copy.width = 32;
    ferry_explanation explanation = {};
    explanation.struct_size = sizeof explanation;
    expect(ferry_copy_explain(instance(), &copy, nullptr, &explanation, nullptr) == 0,
           "ferry_copy_explain failed with the loaded profile");
}

} // namespace
} // namespace ferry::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace ferry::fuzzing;
    static const std::string built_in = save();
    const std::string before = save(), text = text_of({data, size}, built_in);
    // A buffer of exactly this size, so that a sanitizer detects a read past the end.
    const std::vector<char> exact(text.begin(), text.end());
    ferry_error_info error = new_error();
    const std::int32_t status = known(ferry_profile_load(instance(), exact.data(), exact.size(), &error));
    expect(error.status == status, "the status in the error info differs from the returned status");
    if (status == 0) {
        const std::string loaded = save();
        expect(ferry_profile_load(instance(), loaded.data(), loaded.size(), nullptr) == 0,
               "a saved profile was refused");
        expect(save() == loaded, "a profile changed between loading and saving");
        explain();
    } else {
        expect(is_one_of(status, {FERRY_ERROR_PROFILE, FERRY_ERROR_INVALID_ARGUMENT}),
               "unexpected status for a bad profile");
        expect(status != FERRY_ERROR_PROFILE ||
                   is_one_of(error.field, {FERRY_FIELD_VERSION, FERRY_FIELD_DEVICE, FERRY_FIELD_DRIVER,
                                           FERRY_FIELD_LINE, FERRY_FIELD_SIZE}),
               "the error info does not name the fault of a profile");
        expect(save() == before, "a refused profile changed the profile in use");
    }
    return 0;
}
