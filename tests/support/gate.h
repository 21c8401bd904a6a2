// Work that stays in a stream until a test lets it go.
#pragma once

#include <future>
#include <utility>

#include "support/driver_under_test.h"

namespace ferry::test {

// Holds a stream by a host function until it is opened. Nothing may wait for the stream before that.
struct gate {
    explicit gate(CUstream stream) {
        EXPECT_OK(raw().cuLaunchHostFunc(
            stream, [](void *self) { static_cast<gate *>(self)->opened.get_future().wait(); }, this));
        held = stream;
    }
    ~gate() { open(); }
    void open() {
        if (std::exchange(is_open, true)) return;
        opened.set_value();
        raw().cuStreamSynchronize(held); // the host function has left this object
    }
    std::promise<void> opened;
    CUstream held = nullptr;
    bool is_open = false;
};

} // namespace ferry::test
