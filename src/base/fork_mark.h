// Tells the child of a fork from its parent, in a nanosecond: a page that the system clears in the child.
#pragma once

namespace ferry {

class fork_mark {
public:
    fork_mark() noexcept;
    ~fork_mark();
    fork_mark(const fork_mark &) = delete;
    fork_mark &operator=(const fork_mark &) = delete;

    // False where the system has no such pages.
    bool is_in_child() const noexcept { return page_ && *page_ == 0; }

private:
    const volatile char *page_ = nullptr;
};

} // namespace ferry
