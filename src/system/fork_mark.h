// Reports within about a nanosecond whether this process is a forked child. The system clears the page of the mark in
// the child.
#pragma once

namespace ferry {

class fork_mark {
public:
    fork_mark() noexcept;
    ~fork_mark();
    fork_mark(const fork_mark &) = delete;
    fork_mark &operator=(const fork_mark &) = delete;

    // Always false if the system cannot clear pages on fork.
    bool is_in_child() const noexcept { return page_ && *page_ == 0; }

private:
    const volatile char *page_ = nullptr;
};

} // namespace ferry
