// Keeps the shared library loaded that contains ferry. A program may unload the library while an instance is open, but
// worker threads, and functions that the driver calls later, must not run in unmapped code.
#pragma once

namespace ferry {

// Copies are the same reference.
class code_reference {
public:
    void take() noexcept;          // none where ferry is part of the program itself
    void release() const noexcept; // the caller's own reference must keep the code loaded until it returns

private:
    void *library_ = nullptr;
};

} // namespace ferry
