// Operating-system handles for sharing memory and events.
#pragma once

#include <cstdint>
#include <utility>

namespace ferry {

// The attributes with which the driver creates objects that have Win32 handles: default security, and handles that
// child processes do not inherit. Null on other systems.
void *default_handle_attributes() noexcept;

// Whether the system's objects have file descriptors. Otherwise they have Windows handles.
#if defined(_WIN32)
inline constexpr bool has_descriptors = false;
#else
inline constexpr bool has_descriptors = true;
#endif

// Whether a file descriptor or Windows handle is open in this process.
bool is_open_handle(std::int64_t handle) noexcept;

// Returns a second descriptor of a file, which can be handed out instead of the first; -1 on failure. The number is
// chosen so that the rest of the process is unlikely to reuse it.
int duplicate_descriptor(int descriptor) noexcept;
void close_descriptor(int descriptor) noexcept;
// Opens the file of a descriptor a second time, with flags of open(); -1 on failure.
int open_again(int descriptor, int flags) noexcept;
// For the recipient of a duplicate, which may have closed the duplicate: closes it if it is still a descriptor of the
// same file.
void close_duplicate(int duplicate, int descriptor) noexcept;

// Owns a descriptor that stays open between calls of the program. A program may close descriptors that it does not
// know, as daemons do, and its next file then gets the same number. So the file is compared before the descriptor is
// closed.
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

    // Returns the descriptor, or -1 if its number no longer refers to the file.
    int get() const noexcept;
    // Returns the number, for calls that cannot harm another file and whose callers check the result.
    int number() const noexcept { return number_; }

private:
    int number_ = -1;
    std::uint64_t device_ = 0, inode_ = 0;
};

} // namespace ferry
