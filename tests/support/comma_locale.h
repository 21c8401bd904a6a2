// A locale with decimal commas, created by the tests, because minimal systems have no such locale.
#pragma once

#include <filesystem>
#include <string>

namespace ferry::test {

// The locale of the whole process until the end of the scope. Other threads must not format numbers during that time.
class comma_locale {
public:
    comma_locale();
    ~comma_locale();
    comma_locale(const comma_locale &) = delete;
    comma_locale &operator=(const comma_locale &) = delete;

    // False if the system has no localedef.
    bool is_set() const { return is_set_; }

private:
    const std::filesystem::path folder_;
    const std::string locale_before_;
    bool is_set_ = false;
};

} // namespace ferry::test
