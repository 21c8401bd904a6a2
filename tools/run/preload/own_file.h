// A file that this library writes, in a process whose program may close any descriptor and open its own files.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace ferry_run {

// Identifies the file of a descriptor. The program may have closed the descriptor and opened another file with the same
// number.
class file_identity {
public:
    void remember(int descriptor) noexcept;
    bool is_file_of(int descriptor) const noexcept;

private:
    dev_t device_ = 0;
    ino_t inode_ = 0; // 0: no file
};

// Returns 0 or the error. A pipe without a reader, or a file at its maximum size, does not kill the process with a
// signal.
int write_whole(int descriptor, const char *text, std::size_t size) noexcept;

class own_file {
public:
    // Opens an empty file. Never follows a symbolic link, and replaces only a regular file of the same user. The exact
    // name given by the user may also refer to a pipe or a device. Returns the reason why the file cannot be written,
    // or null.
    const char *open(const char *plain_name) noexcept;
    const char *name() const noexcept { return name_; }

    bool is_open() const noexcept { return descriptor_ >= 0; }

    // Returns the reason why nothing more can be written, or null. The file then ends after the last text that was
    // written completely. If the program has closed the descriptor, opens the file again.
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
