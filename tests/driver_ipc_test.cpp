// Sharing memory and events with another process, on the raw entry points: the same bodies hold on the software driver
// and on a real GPU. What is asserted is documented, or was seen on two H200 (docs/driver.md).
#include "support/gate.h"
#include "support/raw_objects.h"
#include "support/second_process.h"

#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace ferry::test {
namespace {

using driver_ipc_test = driver_test;

// ---- The second process itself

FERRY_SECOND_PROCESS(answers) {
    const int received = channel.receive<int>();
    const int descriptor = channel.receive_descriptor();
    EXPECT_NE(-1, fcntl(descriptor, F_GETFD));
    EXPECT_EQ(0, close(descriptor));
    channel.send(received + 1);
    CUcontext current = nullptr;
    EXPECT_OK(raw().cuCtxGetCurrent(&current));
    EXPECT_NE(nullptr, current);
    return 3;
}

FERRY_SECOND_PROCESS(waits_for_ever) {
    channel.arrive();
    channel.await();
    return 0;
}

TEST_F(driver_ipc_test, a_second_process_plays_its_role_and_ends) {
    second_process other("answers");
    other->send(41);
    other->send_descriptor(STDOUT_FILENO);
    EXPECT_EQ(42, other->receive<int>());
    EXPECT_EQ(3, other.wait());
    EXPECT_THROW(other->receive<int>(), std::runtime_error);
    second_process killed("waits_for_ever");
    killed->await();
    killed.kill();
    EXPECT_THROW(killed->receive<int>(), std::runtime_error);
}

} // namespace
} // namespace ferry::test
