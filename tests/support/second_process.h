// A second process for tests of sharing: the same program, started again on the same driver. It plays a role and
// communicates with its test through a pair of sockets.
#pragma once

#include "support/driver_under_test.h"

#include <cstddef>
#include <string>
#include <type_traits>

namespace ferry::test {

// One end of the socket pair. Receiving throws if nothing arrives. In the test, gtest reports the exception as a
// failure; in a role, play_second_process does.
class channel {
public:
    explicit channel(int socket) : socket_(socket) {}
    ~channel();
    channel(const channel &) = delete;

    template <class Value> void send(const Value &value) {
        static_assert(std::is_trivially_copyable_v<Value>);
        send_bytes(&value, sizeof value);
    }
    template <class Value> Value receive() {
        static_assert(std::is_trivially_copyable_v<Value>);
        Value value;
        receive_bytes(&value, sizeof value);
        return value;
    }
    void send_descriptor(int descriptor);
    int receive_descriptor(); // the caller closes it

    // arrive() reports that this process has reached a point, and await() waits until the other process has.
    void arrive() { send('.'); }
    void await() { receive<char>(); }
    void await_for_ever(); // until the other process ends

private:
    void send_bytes(const void *data, std::size_t size);
    void receive_bytes(void *data, std::size_t size);
    void wait_for_input() const;
    friend class second_process;

    int socket_;
};

void close_descriptor(int descriptor); // closes a descriptor of the kind that a channel sends

// On Windows, where the software driver does not support sharing, the constructor throws.
class second_process {
public:
    explicit second_process(const char *role);
    ~second_process(); // kills the process if it is still running

    channel *operator->() { return &channel_; }
    // Waits until the process ends. Returns 0 if its role returned 0 and all its expectations were met. Kills a process
    // that does not end.
    int wait();
    void kill();

private:
    second_process(const char *role, const int *sockets);

    channel channel_;
    int pid_ = -1;
};

// FERRY_SECOND_PROCESS(reads_what_was_shared) { … use `channel`, the raw driver and expectations …; return 0; }
// Device 0's primary context is current in the role.
#define FERRY_SECOND_PROCESS(name)                                                                                     \
    int name(::ferry::test::channel &channel);                                                                         \
    const ::ferry::test::registered_role registered_##name(#name, name);                                               \
    int name([[maybe_unused]] ::ferry::test::channel &channel)

struct registered_role {
    registered_role(const char *name, int (*play)(channel &));
    const char *name;
    int (*play)(channel &);
    const registered_role *next;
};

// Called by main. Returns true if this process was started to play a role, after it has played the role.
bool play_second_process(int argc, char **argv, int &status);

} // namespace ferry::test
