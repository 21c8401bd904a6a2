#include "say.h"

#include <cstring>
#include <unistd.h>

#include "own_file.h"

namespace ferry_run {

namespace {

file_identity error_at_start;
__attribute__((constructor)) void remember_error() { error_at_start.remember(STDERR_FILENO); }

} // namespace

void say(const char *text) noexcept {
    if (error_at_start.is_file_of(STDERR_FILENO)) write_whole(STDERR_FILENO, text, std::strlen(text));
}

} // namespace ferry_run
