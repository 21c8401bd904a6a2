// Shares pool memory with another process: a file descriptor is sent together with the handles. share_memory.cpp shows
// how to order the work by events.
#include <ferry/ferry.hpp>

#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct letter {
    ferry_ipc_handle pool, memory;
};

void check(std::int32_t status) { ferry::status(status).or_throw(); }

// `call` is sendmsg or recvmsg, which pass a descriptor along with the bytes (cmsg(3)).
template <class Call> int travel(Call call, int other, letter &letter, std::int64_t descriptor) {
    iovec bytes = {&letter, sizeof letter};
    alignas(cmsghdr) char beside[CMSG_SPACE(sizeof(int))];
    msghdr message = {nullptr, 0, &bytes, 1, beside, sizeof beside, 0};
    auto *const header = reinterpret_cast<cmsghdr *>(beside);
    header->cmsg_len = CMSG_LEN(sizeof(int)), header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    int &passed = *reinterpret_cast<int *>(CMSG_DATA(header)) = static_cast<int>(descriptor);
    return call(other, &message, MSG_WAITALL) == sizeof letter ? passed : -1;
}

int main() { // an uncaught error ends the program with a message
    std::vector<int> sent(1 << 20, 42), received(sent.size());
    int ends[2], ended = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    const pid_t importer = fork(); // before the driver is initialised: a forked child has no driver
    close(ends[importer ? 1 : 0]); // so that each process detects the end of the other process
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    letter letter;
    CUmemPoolHandle_st *pool = nullptr;
    std::uint64_t address = 0;
    std::int64_t descriptor = -1;
    if (importer) {
        const ferry_pool_desc desc = {sizeof desc, FERRY_LOCATION_DEVICE, 0, FERRY_HANDLE_POSIX_FD, 0};
        check(ferry_pool_create(ferry, &desc, &pool, nullptr));
        check(ferry_pool_alloc_async(ferry, pool, sent.size() * sizeof(int), nullptr, &address, nullptr));
        ferry::copy(ferry, sent, ferry::device_view<int>(0, address, sent.size())).or_throw();
        check(ferry_ipc_export_pool(ferry, pool, FERRY_HANDLE_POSIX_FD, &letter.pool, &descriptor, nullptr));
        check(ferry_ipc_export_memory(ferry, address, 0, &letter.memory, nullptr)); // after its pool
        if (travel(sendmsg, ends[0], letter, descriptor) < 0 || waitpid(importer, &ended, 0) != importer) return 1;
        check(ferry_device_free_async(ferry, address, nullptr, nullptr)); // the importer closes first
        check(ferry_pool_destroy(ferry, pool, nullptr));
        return ended;
    }
    if ((descriptor = travel(recvmsg, ends[1], letter, -1)) < 0) return 1;
    check(ferry_ipc_import_pool(ferry, &letter.pool, descriptor, &pool, nullptr));
    check(ferry_ipc_import_memory(ferry, &letter.memory, &address, nullptr));
    ferry::copy(ferry, ferry::device_view<int>(0, address, sent.size()), received).or_throw();
    check(ferry_ipc_close_memory(ferry, address, nullptr, nullptr));
    ferry.synchronize(0).or_throw(); // memory is closed in stream order, before its pool
    check(ferry_ipc_close_pool(ferry, pool, nullptr));
    return received != sent;
}
