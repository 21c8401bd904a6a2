// A second process to share with: this program started again, on the same driver and device. The two processes
// communicate through a pair of sockets.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "environment.h"

namespace bench {

// One end of the pair. Throws if the other process has ended or does not answer in time.
class channel {
public:
    explicit channel(int socket);
    ~channel();
    channel(const channel &) = delete;

    template <typename Value> void send(const Value &value) {
        static_assert(std::is_trivially_copyable_v<Value>);
        send_bytes(&value, sizeof value);
    }
    template <typename Value> void receive(Value &value) {
        static_assert(std::is_trivially_copyable_v<Value>);
        receive_bytes(&value, sizeof value);
    }

private:
    void send_bytes(const void *data, std::size_t size);
    void receive_bytes(void *data, std::size_t size);

    friend class second_process;
    const int socket_;
};

// The hidden option that starts the second process. Its value is the descriptor of its socket.
inline constexpr const char *importer_option = "--importer";

class second_process {
public:
    // The other process inherits the open file `descriptor` under the same number, unless it is negative. Returns null
    // if this program cannot start itself again: on Windows, where this is not implemented, and in an emulator. The
    // other process must send one byte first.
    static std::unique_ptr<second_process> start(const environment &environment, bool is_quick, int descriptor);
    ~second_process(); // kills the process if it is still running
    second_process(const second_process &) = delete;

    channel &talk() { return channel_; }

private:
    second_process(int socket, int process);
    bool runs();

    channel channel_;
    const int process_;
};

} // namespace bench
