// A file that this library writes, in a process whose program may close any descriptor and open files of its own.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace ferry_run {

// Which file a descriptor had. The program may have closed the descriptor, and opened another file in its place.
class file_identity {
public:
    void remember(int descriptor) noexcept;
    bool is_file_of(int descriptor) const noexcept;

private:
    dev_t device_ = 0;
    ino_t inode_ = 0; // 0: none
};

// Returns 0 or the error. A pipe without a reader, or a file at its largest size, does not end the process by a signal.
int write_whole(int descriptor, const char *text, std::size_t size) noexcept;

class own_file {
public:
    // Opens an empty file. Never follows a symbolic link, and replaces only a regular file of the same user. The exact
    // name that the user gave may also name a pipe or a device. Returns why the file cannot be written, or null.
    const char *open(const char *plain_name) noexcept;
    const char *name() const noexcept { return name_; }

    bool is_open() const noexcept { return descriptor_ >= 0; }

    // Returns why nothing more can be written, or null. The file then ends behind the last text that was written whole.
    // If the program has closed the descriptor, opens the file again.
    const char *write(const char *text, std::size_t size) noexcept;

    // Returns the error, or null.
    const char *close() noexcept;

private:
    bool reopen() noexcept;

    int descriptor_ = -1;
    file_identity identity_;
    off_t size_ = 0;
    char name_[4096] = "";
};

} // namespace ferry_run
