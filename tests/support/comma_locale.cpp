#include "support/comma_locale.h"

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

namespace ferry::test {

namespace {

std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ferry-locale-XXXXXX").string();
    return mkdtemp(name.data()) ? name : "";
}

// The character map of the package "locales", which minimal systems lack as well.
void write_ascii(const std::filesystem::path &path) {
    std::ofstream out(path);
    out << "<code_set_name> ANSI_X3.4-1968\n<comment_char> %\n<escape_char> /\n<mb_cur_min> 1\n<mb_cur_max> "
           "1\nCHARMAP\n";
    for (int i = 0; i < 128; ++i) {
        char line[40];
        std::snprintf(line, sizeof line, "<U%04X> /x%02x one\n", static_cast<unsigned>(i), static_cast<unsigned>(i));
        out << line;
    }
    out << "END CHARMAP\n";
}

} // namespace

comma_locale::comma_locale() : folder_(make_folder()), locale_before_(std::setlocale(LC_ALL, nullptr)) {
    if (folder_.empty()) return;
    write_ascii(folder_ / "ascii");
    std::ofstream(folder_ / "source")
        << "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    // The command fails because the other categories are left to their defaults. The locale is created nevertheless.
    const std::string command = "cd " + folder_.string() + " && localedef -c -f ./ascii -i source ./comma >log 2>&1";
    static_cast<void>(std::system(command.c_str()));
    setenv("LOCPATH", folder_.c_str(), 1);
    is_set_ = std::setlocale(LC_ALL, "comma") != nullptr;
    char written[8];
    is_set_ = is_set_ && std::snprintf(written, sizeof written, "%.1f", 1.5) == 3 && written[1] == ',';
}

comma_locale::~comma_locale() {
    std::setlocale(LC_ALL, locale_before_.c_str());
    unsetenv("LOCPATH");
    std::error_code failed;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, failed);
}

} // namespace ferry::test
