// The end of a tool: text that could not be written, as on a full disk, is an error.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace ferry_tools {

// Returns the exit code of a tool that would end with `code`. std::cout writes through stdout.
inline int exit_code(const char *tool, int code) {
    errno = 0;
    if (std::cout.flush() && std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
    std::fprintf(stderr, "%s: cannot write to standard output%s%s\n", tool, errno ? ": " : "",
                 errno ? std::strerror(errno) : "");
    return code ? code : 1;
}

} // namespace ferry_tools
