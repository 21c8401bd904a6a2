// What sharing by the system's handles needs.
#pragma once

#include <cstdint>
#include <utility>

namespace ferry {

// The attributes that the driver asks for to create objects with Win32 handles: the process's default security, and
// handles that children do not inherit. Null on systems without such handles.
void *default_handle_attributes() noexcept;

// Whether the system's objects have file descriptors; else they have Windows's handles.
#if defined(_WIN32)
inline constexpr bool has_descriptors = false;
#else
inline constexpr bool has_descriptors = true;
#endif

// Whether a file descriptor or a handle of Windows is open in this process.
bool is_open_handle(std::int64_t handle) noexcept;

// A second descriptor of a file, to be given away in place of the first; -1 if there is none. Its number is one that
// nothing else of the process is likely to get.
int duplicate_descriptor(int descriptor) noexcept;
void close_descriptor(int descriptor) noexcept;
// For one to whom a duplicate was given, and who may have closed it: closes it if it still is a descriptor of that file.
void close_duplicate(int duplicate, int descriptor) noexcept;

// Owns a descriptor that stays open from one call of the program to another. A program may close descriptors that it
// does not know, as daemons do, and its next file gets the same number. So the file is compared before it is closed.
class kept_descriptor {
public:
    kept_descriptor() noexcept = default;
    explicit kept_descriptor(int descriptor) noexcept; // -1: none
    ~kept_descriptor();
    kept_descriptor(const kept_descriptor &) = delete;
    kept_descriptor &operator=(kept_descriptor &&other) noexcept {
        std::swap(number_, other.number_);
        std::swap(device_, other.device_);
        std::swap(inode_, other.inode_);
        return *this;
    }

    // The descriptor, or -1 if its number no longer names the file.
    int get() const noexcept;
    // Its number, for calls that do no harm to another file and that check the answer.
    int number() const noexcept { return number_; }

private:
    int number_ = -1;
    std::uint64_t device_ = 0, inode_ = 0;
};

} // namespace ferry
