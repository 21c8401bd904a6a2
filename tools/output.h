// Detects output that a tool could not write, for example because the disk is full.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace ferry_tools {

// Returns the exit code of a tool that would otherwise end with `code`. std::cout writes through stdout.
inline int exit_code(const char *tool, int code) {
    errno = 0;
    if (std::cout.flush() && std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
    std::fprintf(stderr, "%s: cannot write to standard output%s%s\n", tool, errno ? ": " : "",
                 errno ? std::strerror(errno) : "");
    return code ? code : 1;
}

} // namespace ferry_tools
