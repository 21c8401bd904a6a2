// Reports in about a nanosecond whether this process is a forked child: the system clears the mark's page in the child.
#pragma once

namespace ferry {

class fork_mark {
public:
    fork_mark() noexcept;
    ~fork_mark();
    fork_mark(const fork_mark &) = delete;
    fork_mark &operator=(const fork_mark &) = delete;

    // Always false where the system cannot clear pages on fork.
    bool is_in_child() const noexcept { return page_ && *page_ == 0; }

private:
    const volatile char *page_ = nullptr;
};

} // namespace ferry
