// Keeps the shared library that contains ferry loaded. A program may unload the library while an instance is open, but
// worker threads and driver callbacks must not run in unmapped code.
#pragma once

namespace ferry {

// Copies share the same reference.
class code_reference {
public:
    void take() noexcept;          // no effect if ferry is linked into the program
    void release() const noexcept; // the caller's own reference must keep the code loaded until this returns

private:
    void *library_ = nullptr;
};

} // namespace ferry
