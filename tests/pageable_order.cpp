// Measures when the driver reads pageable sources and writes pageable destinations. Calls the driver alone, through the
// dynamic loader, and prints a table for docs/driver.md. It is not a test: driver_conformance_test.cpp checks what the
// table shows. Without a build folder:
//   g++ -std=c++20 -O1 -Isrc tests/pageable_order.cpp src/driver/table.cpp src/driver/library.cpp
//       src/system/shared_library_linux.cpp -ldl -lpthread
//
// A busy stream has a gate in front of the copy. The gate opens when the copy's call has returned, or after `patience`
// if the call has not returned, and then the source is overwritten. Old bytes at the destination were read before that.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "driver/library.h"

namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;
constexpr std::size_t arena = 160 * MiB; // the largest span at either end
constexpr unsigned char before = 0x11, after = 0x77;

ferry::driver_table cu;
CUcontext first_context, second_context; // the second is null on a machine with one device
CUdeviceptr device, second_device, managed, pooled;
CUarray rows_array, box_array;
unsigned char *pageable, *pinned, *read_back;
std::uint32_t *word; // pinned; the stream waits until it is not 0
CUfunction hold_kernel, write_kernel;

CUresult check(CUresult result, const char *what) {
    if (result) std::printf("%s: error %d\n", what, result), std::exit(1);
    return result;
}
#define CHECK(call) check(call, #call)

// ---- What is copied, and how

struct box {
    std::size_t width, height = 1, depth = 1;
    std::size_t pitch = 0, slice_rows = 0;       // of the host end; 0 means tight
    std::size_t to_pitch = 0, to_slice_rows = 0; // of the device end

    std::size_t row_pitch() const { return pitch ? pitch : width; }
    std::size_t to_row_pitch() const { return to_pitch ? to_pitch : width; }
    std::size_t rows_per_slice() const { return slice_rows ? slice_rows : height; }
    std::size_t to_rows_per_slice() const { return to_slice_rows ? to_slice_rows : height; }
    std::size_t payload() const { return width * height * depth; }
    static std::size_t span(const box &b, std::size_t row, std::size_t rows) {
        return (b.depth - 1) * rows * row + (b.height - 1) * row + b.width;
    }
    std::size_t host_span() const { return span(*this, row_pitch(), rows_per_slice()); }
    std::size_t device_span() const { return span(*this, to_row_pitch(), to_rows_per_slice()); }
};

enum class form { line, unified, plane, volume, peer, batch, box_batch, array_line };
enum class target { device, managed, pool, second, rows_array, box_array };
// What blocks the stream. With `written_by_kernel`, a kernel writes pinned memory and a host function copies it to the
// source, because these devices have no access to pageable memory. With the others the gate itself writes the source.
enum class gate { idle, host_function, wait_value, kernel, written_by_kernel };

struct plan {
    form call = form::line;
    target to = target::device;
    bool upload = true; // host to device
    box size{};
    gate behind = gate::host_function;
    const char *stream_name = "blocking";
    CUstream stream = nullptr;
    CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    std::size_t copies = 1; // of a batch: each copies its part
    bool from_pinned = false;
    std::size_t offset = 0;           // at the device end
    const plan *written_by = nullptr; // the copy behind the gate that writes the source, instead of the gate
};

const char *name_of(const plan &p) {
    const bool up = p.upload;
    switch (p.call) {
    case form::line:
        return up ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync";
    case form::unified:
        return "cuMemcpyAsync";
    case form::plane:
        return "cuMemcpy2DAsync";
    case form::volume:
        return "cuMemcpy3DAsync";
    case form::peer:
        return "cuMemcpy3DPeerAsync";
    case form::array_line:
        return up ? "cuMemcpyHtoAAsync" : "cuMemcpyAtoHAsync";
    case form::batch:
    case form::box_batch:
        break;
    }
    const bool lines = p.call == form::batch;
    switch (p.order) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
        return lines ? "Batch STREAM" : "3DBatch STREAM";
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL:
        return lines ? "Batch DURING_CALL" : "3DBatch DURING_CALL";
    case CU_MEMCPY_SRC_ACCESS_ORDER_ANY:
        return lines ? "Batch ANY" : "3DBatch ANY";
    }
    return "";
}

const char *name_of(target to) {
    switch (to) {
    case target::device:
        return "device";
    case target::managed:
        return "managed";
    case target::pool:
        return "pool";
    case target::second:
        return "device 1";
    case target::rows_array:
        return "array 2D";
    case target::box_array:
        return "array 3D";
    }
    return "";
}

const char *name_of(gate of) {
    switch (of) {
    case gate::idle:
        return "idle";
    case gate::host_function:
        return "host fn";
    case gate::wait_value:
        return "wait";
    case gate::kernel:
        return "kernel";
    case gate::written_by_kernel:
        return "kernel, then host fn";
    }
    return "";
}

CUdeviceptr memory_of(target to) {
    switch (to) {
    case target::managed:
        return managed;
    case target::pool:
        return pooled;
    case target::second:
        return second_device;
    default:
        return device;
    }
}
CUdeviceptr address_of(const plan &p) { return memory_of(p.to) + p.offset; }
CUarray array_of(target to) {
    return to == target::rows_array ? rows_array : to == target::box_array ? box_array : nullptr;
}

template <class Descriptor> Descriptor describe(const plan &p, unsigned char *host, std::size_t tight_at_host) {
    Descriptor c{};
    const box &b = p.size;
    const CUarray array = array_of(p.to);
    const bool tight = tight_at_host != 0;
    const std::size_t host_pitch = tight ? b.width : b.row_pitch(), host_rows = tight ? b.height : b.rows_per_slice();
    (p.upload ? c.srcMemoryType : c.dstMemoryType) = CU_MEMORYTYPE_HOST;
    (p.upload ? c.dstMemoryType : c.srcMemoryType) = array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    (p.upload ? c.dstDevice : c.srcDevice) = address_of(p);
    (p.upload ? c.dstArray : c.srcArray) = array;
    if (p.upload)
        c.srcHost = host;
    else
        c.dstHost = host;
    (p.upload ? c.srcPitch : c.dstPitch) = host_pitch;
    (p.upload ? c.dstPitch : c.srcPitch) = b.to_row_pitch();
    if constexpr (!std::is_same_v<Descriptor, CUDA_MEMCPY2D>) {
        (p.upload ? c.srcHeight : c.dstHeight) = host_rows;
        (p.upload ? c.dstHeight : c.srcHeight) = b.to_rows_per_slice();
        c.Depth = b.depth;
    }
    c.WidthInBytes = b.width;
    c.Height = b.height;
    return c;
}

CUmemcpy3DOperand operand(CUdeviceptr at, std::size_t pitch, std::size_t rows, std::size_t offset) {
    CUmemcpy3DOperand o{};
    o.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    o.op.ptr.ptr = at + offset;
    o.op.ptr.rowLength = pitch;
    o.op.ptr.layerHeight = rows;
    return o;
}

CUresult batch_of_lines(const plan &p, CUdeviceptr host) {
    std::vector<CUdeviceptr> to, from;
    std::vector<std::size_t> sizes;
    const std::size_t each = p.size.width / p.copies;
    for (std::size_t i = 0; i < p.copies; ++i) {
        (p.upload ? to : from).push_back(address_of(p) + i * each);
        (p.upload ? from : to).push_back(host + i * each);
        sizes.push_back(i + 1 == p.copies ? p.size.width - i * each : each);
    }
    CUmemcpyAttributes how{};
    how.srcAccessOrder = p.order;
    std::size_t first = 0, failed = 0;
    if (cu.cuMemcpyBatchAsync)
        return cu.cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), p.copies, &how, &first, 1, p.stream);
    if (!cu.cuMemcpyBatchAsync_v12080) return CUDA_ERROR_NOT_SUPPORTED;
    return cu.cuMemcpyBatchAsync_v12080(to.data(), from.data(), sizes.data(), p.copies, &how, &first, 1, &failed,
                                        p.stream);
}

CUresult batch_of_boxes(const plan &p, CUdeviceptr host) {
    const box &b = p.size;
    CUDA_MEMCPY3D_BATCH_OP one{};
    (p.upload ? one.src : one.dst) = operand(host, b.row_pitch(), b.rows_per_slice(), 0);
    (p.upload ? one.dst : one.src) = operand(address_of(p), b.to_row_pitch(), b.to_rows_per_slice(), 0);
    one.extent = {b.width, b.height, b.depth};
    one.srcAccessOrder = p.order;
    std::size_t failed = 0;
    if (cu.cuMemcpy3DBatchAsync) return cu.cuMemcpy3DBatchAsync(1, &one, 0, p.stream);
    if (!cu.cuMemcpy3DBatchAsync_v12080) return CUDA_ERROR_NOT_SUPPORTED;
    return cu.cuMemcpy3DBatchAsync_v12080(1, &one, &failed, 0, p.stream);
}

CUresult issue(const plan &p, unsigned char *host) {
    const auto at = reinterpret_cast<CUdeviceptr>(host);
    const CUdeviceptr there = address_of(p);
    switch (p.call) {
    case form::line:
        return p.upload ? cu.cuMemcpyHtoDAsync(there, host, p.size.width, p.stream)
                        : cu.cuMemcpyDtoHAsync(host, there, p.size.width, p.stream);
    case form::unified:
        return cu.cuMemcpyAsync(p.upload ? there : at, p.upload ? at : there, p.size.width, p.stream);
    case form::plane: {
        const auto c = describe<CUDA_MEMCPY2D>(p, host, 0);
        return cu.cuMemcpy2DAsync(&c, p.stream);
    }
    case form::volume: {
        const auto c = describe<CUDA_MEMCPY3D>(p, host, 0);
        return cu.cuMemcpy3DAsync(&c, p.stream);
    }
    case form::peer: {
        auto c = describe<CUDA_MEMCPY3D_PEER>(p, host, 0);
        c.srcContext = c.dstContext = p.to == target::second ? second_context : first_context;
        return cu.cuMemcpy3DPeerAsync(&c, p.stream);
    }
    case form::batch:
        return batch_of_lines(p, at);
    case form::box_batch:
        return batch_of_boxes(p, at);
    case form::array_line:
        return p.upload ? cu.cuMemcpyHtoAAsync(array_of(p.to), 0, host, p.size.width, p.stream)
                        : cu.cuMemcpyAtoHAsync(host, array_of(p.to), 0, p.size.width, p.stream);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

// ---- The gate

double since(steady_clock::time_point begin) {
    return duration<double, std::micro>(steady_clock::now() - begin).count();
}

struct opening {
    std::atomic<bool> returned{false}, opened{false};
    unsigned char *overwrite = nullptr; // by the gate
    unsigned char *written = nullptr;   // after the gate
    std::size_t bytes = 0;
    double patience_us = 0;

    void pass() {
        const auto begin = steady_clock::now();
        while (!returned && since(begin) < patience_us)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (overwrite) std::memset(overwrite, after, bytes);
        opened = true;
    }
};

void CUDA_CB pass_gate(void *at) { static_cast<opening *>(at)->pass(); }
void CUDA_CB copy_what_the_kernel_wrote(void *at) {
    const auto &of = *static_cast<opening *>(at);
    std::memcpy(of.written, pinned, of.bytes);
}

constexpr unsigned threads_of_a_block = 256; // of the kernel that writes, one byte each

// Blocks the stream. Returns the thread that opens the gate, if it is not a host function.
bool close_gate(gate kind, CUstream stream, opening &of, std::thread &opener) {
    if (kind == gate::idle) return true;
    if (kind == gate::host_function) return CHECK(cu.cuLaunchHostFunc(stream, pass_gate, &of)) == CUDA_SUCCESS;
    *static_cast<volatile std::uint32_t *>(word) = 0;
    const auto at = reinterpret_cast<CUdeviceptr>(word);
    if (kind == gate::wait_value) {
        CUstreamBatchMemOpParams wait{};
        wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        wait.waitValue.address = at;
        wait.waitValue.value = 1;
        wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
        if (!cu.cuStreamBatchMemOp || cu.cuStreamBatchMemOp(stream, 1, &wait, 0)) return false;
    } else {
        CUdeviceptr argument = at;
        void *arguments[] = {&argument};
        if (!hold_kernel || !write_kernel ||
            cu.cuLaunchKernel(hold_kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr))
            return false;
    }
    if (kind == gate::written_by_kernel) {
        of.written = std::exchange(of.overwrite, nullptr);
        std::memset(pinned, before, of.bytes);
        auto to = reinterpret_cast<CUdeviceptr>(pinned);
        std::uint64_t bytes = of.bytes;
        void *arguments[] = {&to, &bytes};
        const auto blocks = static_cast<unsigned>(of.bytes / threads_of_a_block + 1);
        CHECK(cu.cuLaunchKernel(write_kernel, blocks, 1, 1, threads_of_a_block, 1, 1, 0, stream, arguments, nullptr));
        CHECK(cu.cuLaunchHostFunc(stream, copy_what_the_kernel_wrote, &of));
    }
    opener = std::thread([&of] {
        of.pass();
        *static_cast<volatile std::uint32_t *>(word) = 1;
    });
    return true;
}

constexpr const char *kernels_source = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry hold(.param .u64 word)
{
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [word];
    cvta.to.global.u64 %rd2, %rd1;
again:
    ld.volatile.global.u32 %r1, [%rd2];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
.visible .entry write(.param .u64 to, .param .u64 bytes)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [bytes];
    cvta.to.global.u64 %rd3, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.wide.u32 %rd4, %r1, %r2, 0;
    cvt.u64.u32 %rd5, %r3;
    add.u64 %rd4, %rd4, %rd5;
    setp.ge.u64 %p1, %rd4, %rd2;
    @%p1 bra done;
    add.u64 %rd4, %rd3, %rd4;
    mov.u32 %r4, 0x77;
    st.global.u8 [%rd4], %r4;
done:
    ret;
}
)";

// ---- One measurement

struct outcome {
    CUresult result = CUDA_SUCCESS;
    double call_us = 0;
    bool waited = false;        // the gate had to open by itself
    bool writer_waited = false; // for the copy that writes the source
    std::size_t old = 0;        // bytes of the payload that are old
    std::size_t prefix = 0;     // of these, before the first new byte
    std::size_t lost = 0;       // neither old nor new
    bool first_old = false, last_old = false;
};

// Visits the payload's bytes of a box at `at`.
void judge(const box &b, const unsigned char *at, std::size_t row, std::size_t rows, outcome &o) {
    bool is_prefix = true;
    for (std::size_t z = 0; z < b.depth; ++z)
        for (std::size_t y = 0; y < b.height; ++y) {
            const unsigned char *line = at + (z * rows + y) * row;
            for (std::size_t x = 0; x < b.width; ++x) { // once, because the bytes may be changing
                const unsigned char byte = line[x];
                is_prefix = is_prefix && byte == before;
                o.prefix += is_prefix;
                o.old += byte == before;
                o.lost += byte != before && byte != after;
                o.last_old = byte == before;
                if (x == 0 && y == 0 && z == 0) o.first_old = o.last_old;
            }
        }
}

// Where the uploaded bytes are read back to, in pinned memory: as at the device, or tight from an array.
void fetch(const plan &p, outcome &o) {
    const box &b = p.size;
    if (!array_of(p.to)) {
        CHECK(cu.cuMemcpyDtoH(read_back, address_of(p), b.device_span()));
        judge(b, read_back, b.to_row_pitch(), b.to_rows_per_slice(), o);
        return;
    }
    plan down = p;
    down.upload = false;
    auto c = describe<CUDA_MEMCPY3D>(down, read_back, 1);
    CHECK(cu.cuMemcpy3D(&c));
    judge(b, read_back, b.width, b.height, o);
}

void fill(const plan &p, unsigned char value) {
    if (array_of(p.to)) return;
    CHECK(cu.cuCtxSetCurrent(p.to == target::second ? second_context : first_context));
    CHECK(cu.cuMemsetD8Async(address_of(p), value, p.size.device_span(), nullptr));
    CHECK(cu.cuStreamSynchronize(nullptr));
    CHECK(cu.cuCtxSetCurrent(first_context));
}

outcome measure(const plan &p) {
    outcome o;
    const box &b = p.size;
    unsigned char *const host = p.from_pinned ? pinned : pageable;
    const std::size_t host_span = b.host_span();
    if (host_span > arena || b.device_span() > arena) return {.result = CUDA_ERROR_OUT_OF_MEMORY};
    std::memset(host, before, host_span);
    CHECK(cu.cuStreamSynchronize(p.stream));
    fill(p, p.upload ? 0 : after);
    if (p.written_by) fill(*p.written_by, after);

    opening gate_of;
    gate_of.patience_us = 10000 + static_cast<double>(host_span) / 500; // the driver reads 0.5 GB/s or more
    if (p.upload && !p.written_by) gate_of.overwrite = host, gate_of.bytes = host_span;
    std::thread opener;
    if (!close_gate(p.behind, p.stream, gate_of, opener)) return {.result = CUDA_ERROR_NOT_SUPPORTED};
    if (p.written_by) {
        o.result = issue(*p.written_by, host);
        o.writer_waited = gate_of.opened;
    }
    const auto begin = steady_clock::now();
    if (!o.result) o.result = issue(p, host);
    o.call_us = since(begin);
    o.waited = gate_of.opened && !o.writer_waited;
    if (!p.upload && !o.result) judge(b, host, b.row_pitch(), b.rows_per_slice(), o);
    if (p.upload && p.behind == gate::idle && !p.written_by) { // from the end, where a copy that runs on is last
        constexpr std::size_t piece = 64 * KiB;
        for (std::size_t end = host_span; end;) {
            const std::size_t start = end > piece ? end - piece : 0;
            std::memset(host + start, after, end - start);
            end = start;
        }
    }
    gate_of.returned = true;
    CHECK(cu.cuStreamSynchronize(p.stream));
    if (opener.joinable()) opener.join();
    if (p.upload && !o.result) fetch(p, o);
    if (p.upload && !o.result && host[host_span - 1] != after) o.result = CUDA_ERROR_UNKNOWN; // it was not written
    return o;
}

// ---- The table

std::string in_units(std::size_t bytes) {
    char text[32];
    if (bytes >= MiB && bytes % MiB == 0)
        std::snprintf(text, sizeof text, "%zu MiB", bytes / MiB);
    else if (bytes >= KiB && bytes % KiB == 0)
        std::snprintf(text, sizeof text, "%zu KiB", bytes / KiB);
    else
        std::snprintf(text, sizeof text, "%zu", bytes);
    return text;
}

std::string in_words(const plan &p) {
    const box &b = p.size;
    std::string text = in_units(b.width);
    if (b.height * b.depth > 1) {
        text += " x " + std::to_string(b.height);
        if (b.depth > 1) text += " x " + std::to_string(b.depth);
        text += ", pitch " + in_units(b.row_pitch());
        if (b.depth > 1) text += "/" + std::to_string(b.rows_per_slice()) + " rows";
        if (b.to_row_pitch() != b.row_pitch() || b.to_rows_per_slice() != b.rows_per_slice()) {
            text += " to " + in_units(b.to_row_pitch());
            if (b.depth > 1) text += "/" + std::to_string(b.to_rows_per_slice()) + " rows";
        }
    }
    if (p.copies > 1) text += " in " + std::to_string(p.copies);
    return text;
}

std::string bytes_seen(const plan &p, const outcome &o) {
    if (o.result) return "error " + std::to_string(o.result);
    if (o.lost) return "LOST " + in_units(o.lost);
    if (o.old == p.size.payload()) return "old";
    if (o.old == 0) return "new";
    return (o.prefix == o.old ? "old: first " : "old, in parts: ") + in_units(o.old);
}

void print_head(const char *title) {
    std::printf(
        "\n%s\n| call | to | copy | payload | span | stream | behind | first, last | bytes | call us | waits |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        title);
}

void print(const plan &p) {
    const outcome o = measure(p);
    const auto name = [&](bool old) { return o.result ? "-" : old ? "old" : "new"; };
    std::printf("| %s | %s | %s | %s | %s | %s | %s | %s, %s | %s | %.0f | %s |\n", name_of(p), name_of(p.to),
                in_words(p).c_str(), in_units(p.size.payload()).c_str(), in_units(p.size.host_span()).c_str(),
                p.stream_name, name_of(p.behind), name(o.first_old), name(o.last_old), bytes_seen(p, o).c_str(),
                o.call_us,
                p.behind == gate::idle ? "-"
                : o.waited             ? "yes"
                                       : "no");
    std::fflush(stdout);
}

// Finds the largest copy that is read entirely in its call, by halving: `grow` sets the size of a plan to n units.
template <class Grow> void print_border(plan p, std::size_t most, Grow grow) {
    const auto is_read_early = [&](std::size_t n) {
        grow(p.size, n);
        const outcome o = measure(p);
        return !o.result && o.old == p.size.payload();
    };
    std::size_t yes = 0, no = most + 1;
    for (std::size_t n = 1; n <= most && yes < n; n *= 2) // doubling first, because long waits are slow
        if (is_read_early(n))
            yes = n;
        else
            no = n;
    while (no - yes > 1)
        (is_read_early(yes + (no - yes) / 2) ? yes : no) = yes + (no - yes) / 2;
    grow(p.size, yes ? yes : 1);
    const outcome o = measure(p);
    const bool at_most = yes == most;
    const std::size_t span = p.size.host_span();
    grow(p.size, std::max<std::size_t>(yes, 1));
    std::printf("| %s | %s | %s | %s%zu | %zu | %zu | %s | %s |\n", name_of(p), name_of(p.to), in_words(p).c_str(),
                at_most ? "at least "
                : !yes  ? "none of "
                        : "",
                p.size.payload(), span, p.size.device_span(), p.stream_name, bytes_seen(p, o).c_str());
    std::fflush(stdout);
}

// ---- Everything

struct named_stream {
    const char *name;
    CUstream stream;
};

void open_driver() {
    static ferry::driver_library library;
    if (!library.open()) std::printf("no driver library\n"), std::exit(77);
    bool found[ferry::driver_symbol_count];
    ferry::resolve_table(library.entry_points(), cu, found);
    int devices = 0, version = 0;
    if (!cu.cuInit || cu.cuInit(0) || cu.cuDeviceGetCount(&devices) || !devices)
        std::printf("no device\n"), std::exit(77);
    CHECK(cu.cuDriverGetVersion(&version));
    char name[128] = "";
    CHECK(cu.cuDeviceGetName(name, sizeof name, 0));
    const std::time_t now = std::time(nullptr);
    char date[32] = "";
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    std::printf("%s, %d device(s), CUDA %d.%d, %s\n", name, devices, version / 1000, version % 1000 / 10, date);
    if (devices > 1) {
        CHECK(cu.cuDevicePrimaryCtxRetain(&second_context, 1));
        CHECK(cu.cuCtxSetCurrent(second_context));
        CHECK(cu.cuMemAlloc(&second_device, arena));
    }
    CHECK(cu.cuDevicePrimaryCtxRetain(&first_context, 0));
    CHECK(cu.cuCtxSetCurrent(first_context));
    CHECK(cu.cuMemAlloc(&device, arena));
    if (!cu.cuMemAllocManaged || cu.cuMemAllocManaged(&managed, arena, 1)) managed = 0;
    if (!cu.cuMemAllocAsync || cu.cuMemAllocAsync(&pooled, arena, nullptr)) pooled = 0;
    CHECK(cu.cuCtxSynchronize());
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    shape.NumChannels = 1;
    shape.Width = 4096, shape.Height = 4096;
    CHECK(cu.cuArray3DCreate(&rows_array, &shape));
    shape.Width = 512, shape.Height = 128, shape.Depth = 256;
    CHECK(cu.cuArray3DCreate(&box_array, &shape));
    void *memory = nullptr;
    CHECK(cu.cuMemHostAlloc(&memory, arena, 0));
    pinned = static_cast<unsigned char *>(memory);
    CHECK(cu.cuMemHostAlloc(&memory, arena, 0));
    read_back = static_cast<unsigned char *>(memory);
    CHECK(cu.cuMemHostAlloc(&memory, 4096, 0));
    word = static_cast<std::uint32_t *>(memory);
    pageable = static_cast<unsigned char *>(std::malloc(arena));
    std::memset(pageable, before, arena);
    CUlibrary kernels = nullptr;
    if (!cu.cuLibraryLoadData ||
        cu.cuLibraryLoadData(&kernels, kernels_source, nullptr, nullptr, 0, nullptr, nullptr, 0)) {
        std::printf("no kernels\n");
        return;
    }
    for (const auto &[name, function] : {std::pair{"hold", &hold_kernel}, {"write", &write_kernel}}) {
        CUkernel kernel = nullptr;
        CHECK(cu.cuLibraryGetKernel(&kernel, kernels, name));
        CHECK(cu.cuKernelGetFunction(function, kernel));
    }
}

void print_lines(const std::vector<named_stream> &streams) {
    const std::size_t sizes[] = {KiB,         16 * KiB, 64 * KiB, 64 * KiB + 1, 128 * KiB, 512 * KiB,
                                 MiB,         MiB + 1,  2 * MiB,  2 * MiB + 1,  3 * MiB,   4 * MiB,
                                 4 * MiB + 1, 8 * MiB,  16 * MiB, 64 * MiB};
    print_head("Lines behind a host function that writes their source");
    for (const named_stream &on : streams)
        for (const std::size_t size : sizes)
            print({.size = {size}, .stream_name = on.name, .stream = on.stream});
    print_head("Lines on an idle stream whose source is overwritten when the call has returned");
    for (const std::size_t size : sizes)
        print({.size = {size}, .behind = gate::idle, .stream_name = streams[1].name, .stream = streams[1].stream});
    print_head("Lines behind other work");
    for (const gate behind : {gate::wait_value, gate::kernel})
        for (const std::size_t size : {KiB, 64 * KiB, 128 * KiB, MiB, 2 * MiB, 2 * MiB + 1, 4 * MiB, 16 * MiB})
            print({.size = {size}, .behind = behind, .stream_name = streams[2].name, .stream = streams[2].stream});
    print_head("Lines from pinned memory behind a host function");
    for (const std::size_t size : {KiB, 16 * KiB, 64 * KiB, MiB, 16 * MiB})
        print({.size = {size}, .stream_name = streams[1].name, .stream = streams[1].stream, .from_pinned = true});
}

struct call_of {
    form call;
    CUmemcpySrcAccessOrder order;
};
constexpr CUmemcpySrcAccessOrder orders[] = {
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, CU_MEMCPY_SRC_ACCESS_ORDER_ANY};

std::vector<call_of> all_calls() {
    std::vector<call_of> calls;
    for (const form call : {form::line, form::unified, form::plane, form::volume, form::peer})
        calls.push_back({call, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM});
    for (const form call : {form::batch, form::box_batch})
        for (const CUmemcpySrcAccessOrder order : orders)
            calls.push_back({call, order});
    return calls;
}

std::vector<target> linear_targets() {
    std::vector<target> targets{target::device};
    if (managed) targets.push_back(target::managed);
    if (pooled) targets.push_back(target::pool);
    if (second_context) targets.push_back(target::second);
    return targets;
}

void print_forms(const named_stream &on) {
    print_head("One row by every call, behind a host function that writes the source");
    for (const call_of &one : all_calls())
        for (const std::size_t size : {64 * KiB, 128 * KiB, MiB, 2 * MiB, 2 * MiB + 1, 4 * MiB, 4 * MiB + 1, 16 * MiB})
            print({.call = one.call, .size = {size}, .stream_name = on.name, .stream = on.stream, .order = one.order});
    for (const CUmemcpySrcAccessOrder order : orders)
        for (const std::size_t copies : {2, 64})
            for (const std::size_t size : {64 * KiB, 4 * MiB, 16 * MiB})
                print({.call = form::batch,
                       .size = {size},
                       .stream_name = on.name,
                       .stream = on.stream,
                       .order = order,
                       .copies = copies});
    print_head("Boxes by every call, behind a host function that writes the source");
    for (const call_of &one : all_calls()) {
        if (one.call == form::line || one.call == form::unified || one.call == form::batch) continue;
        for (const std::size_t rows : {64, 1024, 4096, 4097, 8192, 16384, 32768})
            print({.call = one.call,
                   .size = {.width = 512, .height = rows, .pitch = 1024, .to_pitch = 512},
                   .stream_name = on.name,
                   .stream = on.stream,
                   .order = one.order});
        if (one.call == form::plane) continue;
        for (const std::size_t slices : {1, 8, 32, 64, 65, 128, 512})
            print({.call = one.call,
                   .size = {.width = 512, .height = 64, .depth = slices, .pitch = 1024, .slice_rows = 65},
                   .stream_name = on.name,
                   .stream = on.stream,
                   .order = one.order});
    }
}

void print_borders(const named_stream &on) {
    std::printf("\nThe largest copy that is read entirely in its call, behind a host function that writes the source\n"
                "| call | to | copy | payload | span | span at device | stream | bytes |\n"
                "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    const plan base{.stream_name = on.name, .stream = on.stream};
    const auto grow_line = [](box &b, std::size_t n) { b.width = n; };
    const auto grow_rows = [](box &b, std::size_t n) { b.height = n; };
    const auto grow_slices = [](box &b, std::size_t n) { b.depth = n; };
    for (const call_of &one : all_calls())
        for (const target to : linear_targets()) {
            plan p = base;
            p.call = one.call, p.order = one.order, p.to = to;
            print_border(p, 16 * MiB, grow_line);
        }
    for (const gate behind : {gate::wait_value, gate::kernel}) {
        plan p = base;
        p.behind = behind;
        if (behind == gate::wait_value || hold_kernel) print_border(p, 16 * MiB, grow_line);
    }
    struct rows {
        std::size_t width, pitch, to_pitch;
    };
    for (const form call : {form::plane, form::volume, form::peer})
        for (const rows &r : std::initializer_list<rows>{{4, 4, 4},
                                                         {4, 8, 4},
                                                         {64, 64, 64},
                                                         {64, 64, 128},
                                                         {64, 128, 64},
                                                         {64, 1024, 64},
                                                         {512, 512, 512},
                                                         {512, 512, 1024},
                                                         {512, 1024, 512},
                                                         {512, 1024, 1024},
                                                         {512, 8192, 512},
                                                         {4096, 4096, 8192},
                                                         {4096, 8192, 4096},
                                                         {64 * KiB, 64 * KiB, 128 * KiB},
                                                         {64 * KiB, 128 * KiB, 64 * KiB},
                                                         {MiB, 2 * MiB, MiB}}) {
            if (call == form::peer && r.width != 512) continue;
            plan p = base;
            p.call = call;
            p.size = {.width = r.width, .pitch = r.pitch, .to_pitch = r.to_pitch};
            print_border(p, 16 * MiB / std::max(r.pitch, r.to_pitch), grow_rows);
        }
    for (const CUmemcpySrcAccessOrder order : orders) {
        plan p = base;
        p.call = form::box_batch, p.order = order;
        p.size = {.width = 512, .pitch = 1024, .to_pitch = 512};
        print_border(p, 16 * MiB / 1024, grow_rows);
    }
    for (const form call : {form::volume, form::peer, form::box_batch})
        for (const box &size : {box{.width = 64, .height = 64, .pitch = 64, .slice_rows = 65},
                                box{.width = 512, .height = 16, .pitch = 512, .slice_rows = 17},
                                box{.width = 512, .height = 16, .pitch = 1024, .slice_rows = 17},
                                box{.width = 512, .height = 16, .pitch = 1024, .slice_rows = 64},
                                box{.width = 512, .height = 16, .pitch = 512, .to_pitch = 1024, .to_slice_rows = 32},
                                box{.width = 4096, .height = 16, .pitch = 4096, .slice_rows = 32}}) {
            plan p = base;
            p.call = call, p.size = size;
            print_border(p, 16 * MiB / (size.row_pitch() * size.rows_per_slice()), grow_slices);
        }
    for (const form call : {form::plane, form::volume})
        for (const std::size_t width : {64, 512, 4096}) {
            plan p = base;
            p.call = call, p.to = target::rows_array;
            p.size = {.width = width};
            print_border(p, 4096, grow_rows);
        }
    for (const bool gap : {false, true}) {
        plan p = base;
        p.call = form::volume, p.to = target::box_array;
        p.size = {.width = 512, .height = 128, .slice_rows = gap ? 256u : 128u};
        print_border(p, 256, grow_slices);
    }
    {
        plan p = base;
        p.call = form::array_line, p.to = target::rows_array;
        print_border(p, 4096, grow_line);
    }
}

// How many copies go behind one gate until a call waits, and when that copy is read.
void print_room(const named_stream &on) {
    std::printf("\nCopies of one size behind one gate, until a call waits\n"
                "| copy | stream | calls before the first that waits | bytes in them | call us, first and waiting |\n"
                "| --- | --- | --- | --- | --- |\n");
    for (const std::size_t size : {64 * KiB, 64 * KiB + 256, 128 * KiB, 256 * KiB, 512 * KiB, MiB, 2 * MiB}) {
        opening of;
        of.patience_us = 60000;
        std::thread none;
        close_gate(gate::host_function, on.stream, of, none);
        std::size_t calls = 0;
        double first_us = 0, last_us = 0;
        for (; (calls + 1) * size <= arena && !of.opened && calls < 1200; ++calls) {
            const auto begin = steady_clock::now();
            CHECK(cu.cuMemcpyHtoDAsync(device + calls * size, pageable + calls * size, size, on.stream));
            last_us = since(begin);
            if (calls == 0) first_us = last_us;
            if (of.opened) break;
        }
        const bool waited = of.opened;
        of.returned = true;
        CHECK(cu.cuStreamSynchronize(on.stream));
        std::printf("| %s | %s | %s%zu | %s | %.0f, %.0f |\n", in_units(size).c_str(), on.name,
                    waited ? "" : "at least ", calls, in_units(calls * size).c_str(), first_us, last_us);
        std::fflush(stdout);
    }
}

void print_downloads(const std::vector<named_stream> &streams) {
    print_head("To pageable memory: the bytes there when the call has returned");
    for (const gate behind : {gate::host_function, gate::idle}) {
        for (const named_stream &on : streams)
            for (const std::size_t size : {KiB, 64 * KiB, 64 * KiB + 1, 2 * MiB, 16 * MiB})
                print({.upload = false, .size = {size}, .behind = behind, .stream_name = on.name, .stream = on.stream});
        for (const call_of &one : all_calls()) {
            if (one.call == form::line) continue;
            const bool boxes = one.call != form::unified && one.call != form::batch;
            for (const std::size_t rows : {16, 4096, 16384})
                print({.call = one.call,
                       .upload = false,
                       .size = boxes ? box{.width = 512, .height = rows, .pitch = 1024} : box{512 * rows},
                       .behind = behind,
                       .stream_name = streams[1].name,
                       .stream = streams[1].stream,
                       .order = one.order});
        }
    }
}

// Copies behind a gate on one stream that leave no room for others, then one more copy on that stream or another.
void print_room_taken(const std::vector<named_stream> &streams) {
    std::printf(
        "\nA copy behind others that wait on the blocking stream, whose source the gate overwrites\n"
        "| before it | the copy | its stream | bytes | call us | waits |\n| --- | --- | --- | --- | --- | --- |\n");
    struct room {
        std::size_t count, each, last;
        bool elsewhere; // on the non-blocking stream, which is idle
    };
    for (const room &one : std::initializer_list<room>{{2, MiB, 64 * KiB, false},
                                                       {2, MiB, 128 * KiB, false},
                                                       {2, MiB, 4 * MiB, false},
                                                       {1, MiB, MiB, false},
                                                       {1, MiB, 2 * MiB, false},
                                                       {1, 128 * KiB, 2 * MiB, false},
                                                       {1, 2 * MiB, 128 * KiB, true},
                                                       {2, MiB, 64 * KiB, true},
                                                       {2, MiB, 128 * KiB, true},
                                                       {2, MiB, 2 * MiB, true},
                                                       {2, MiB, 4 * MiB, true}}) {
        const named_stream &held = streams[1], &on = one.elsewhere ? streams[2] : held;
        std::memset(pageable, before, 16 * MiB);
        opening of;
        of.patience_us = 30000;
        of.overwrite = pageable, of.bytes = 16 * MiB;
        std::thread none;
        close_gate(gate::host_function, held.stream, of, none);
        for (std::size_t i = 0; i < one.count; ++i)
            CHECK(cu.cuMemcpyHtoDAsync(device + i * one.each, pageable + i * one.each, one.each, held.stream));
        const auto begin = steady_clock::now();
        CHECK(cu.cuMemcpyHtoDAsync(device + 64 * MiB, pageable + 8 * MiB, one.last, on.stream));
        outcome o;
        o.call_us = since(begin);
        o.waited = of.opened;
        of.returned = true;
        CHECK(cu.cuStreamSynchronize(on.stream));
        CHECK(cu.cuStreamSynchronize(held.stream));
        CHECK(cu.cuMemcpyDtoH(read_back, device + 64 * MiB, one.last));
        const plan p{.size = {one.last}};
        judge(p.size, read_back, one.last, 1, o);
        std::printf("| %zu of %s | %s | %s | %s | %.0f | %s |\n", one.count, in_units(one.each).c_str(),
                    in_units(one.last).c_str(), on.name, bytes_seen(p, o).c_str(), o.call_us, o.waited ? "yes" : "no");
        std::fflush(stdout);
    }
}

// Batch calls with one row of each kind, and to managed memory.
void print_batch_rows(const named_stream &on) {
    print_head("Batch calls with one row");
    for (const form call : {form::batch, form::box_batch})
        for (const CUmemcpySrcAccessOrder order : orders) {
            for (const gate behind : {gate::host_function, gate::idle})
                for (const std::size_t size : {8 * KiB, 2 * MiB})
                    print({.call = call,
                           .upload = false,
                           .size = {size},
                           .behind = behind,
                           .stream_name = on.name,
                           .stream = on.stream,
                           .order = order});
            for (const std::size_t size : {KiB, 64 * KiB, 128 * KiB, 2 * MiB})
                print({.call = call,
                       .to = target::managed,
                       .size = {size},
                       .stream_name = on.name,
                       .stream = on.stream,
                       .order = order});
            for (const std::size_t size : {128 * KiB, 2 * MiB, 16 * MiB})
                print({.call = call,
                       .size = {size},
                       .behind = gate::idle,
                       .stream_name = on.name,
                       .stream = on.stream,
                       .order = order});
        }
}

// Every call with one row, and every call that can have several rows. Pitches and slices have gaps at the device, so
// that the driver cannot join rows, and none in host memory, so that each copy moves all its bytes.
std::vector<plan> all_shapes(const named_stream &on, bool upload, std::size_t bytes) {
    std::vector<plan> shapes;
    const auto add = [&](call_of one, const box &size, target to = target::device) {
        shapes.push_back({.call = one.call,
                          .to = to,
                          .upload = upload,
                          .size = size,
                          .stream_name = on.name,
                          .stream = on.stream,
                          .order = one.order});
    };
    const box rows{.width = 512, .height = bytes / 512, .to_pitch = 1024};
    const box slices{.width = 512, .height = bytes / 2048, .depth = 4, .to_pitch = 1024, .to_slice_rows = bytes / 1024};
    for (const call_of &one : all_calls()) {
        const bool is_box = one.call != form::line && one.call != form::unified && one.call != form::batch;
        if (!is_box || one.call == form::box_batch) add(one, {bytes});
        if (!is_box) continue;
        add(one, rows);
        if (one.call != form::plane) add(one, slices);
        if (one.call == form::peer && second_context) add(one, rows, target::second);
    }
    return shapes;
}

std::string shape_of(const plan &p) {
    const box &b = p.size;
    std::string text = name_of(p);
    text += b.depth > 1 ? ", slices" : b.height > 1 ? ", rows" : "";
    return p.to == target::device ? text : text + ", " + name_of(p.to);
}

// The bytes that each upload reads, in one line, and "waits" where its call waited for the stream.
void print_uploads(const named_stream &on, std::size_t bytes, gate behind, const plan *writer) {
    for (plan &p : all_shapes(on, true, bytes)) {
        p.behind = behind;
        p.written_by = writer;
        p.offset = 64 * MiB;
        const outcome o = measure(p);
        std::printf(" %s%s |", bytes_seen(p, o).c_str(), o.waited ? ", waits" : "");
    }
    std::printf("\n");
    std::fflush(stdout);
}

// What every call reads whose source is written by a host function, by a host thread while a kernel blocks the stream,
// by a kernel, or by a copy to pageable memory.
void print_writers(const named_stream &on) {
    std::printf("\nUploads whose source is written by work before them on the stream: which bytes they read\n"
                "| written by | bytes | behind |");
    const std::vector<plan> shapes = all_shapes(on, true, MiB);
    for (const plan &p : shapes)
        std::printf(" %s |", shape_of(p).c_str());
    std::printf("\n| --- | --- | --- |");
    for (std::size_t i = 0; i < shapes.size(); ++i)
        std::printf(" --- |");
    std::printf("\n");
    const std::size_t sizes[] = {64 * KiB, 128 * KiB, 2 * MiB, 8 * MiB};
    for (const gate behind : {gate::host_function, gate::kernel, gate::written_by_kernel})
        for (const std::size_t bytes : sizes) {
            if (behind != gate::host_function && !hold_kernel) continue;
            std::printf("| %s | %s | itself |", name_of(behind), in_units(bytes).c_str());
            print_uploads(on, bytes, behind, nullptr);
        }
    for (const std::size_t bytes : sizes)
        for (const gate behind : {gate::idle, gate::host_function})
            for (const plan &writer : all_shapes(on, false, bytes)) {
                std::printf("| %s | %s | %s |", shape_of(writer).c_str(), in_units(bytes).c_str(), name_of(behind));
                print_uploads(on, bytes, behind, &writer);
            }
}

// A source that an earlier copy of the same stream writes.
void print_round_trip(const named_stream &on) {
    std::printf("\nA copy to pageable memory behind a host function, then a copy from it\n"
                "| size | stream | first call us | second call us | bytes |\n| --- | --- | --- | --- | --- |\n");
    for (const std::size_t size : {KiB, 64 * KiB, 2 * MiB, 16 * MiB}) {
        std::memset(pageable, before, size);
        CHECK(cu.cuMemsetD8Async(device, after, size, on.stream));
        CHECK(cu.cuStreamSynchronize(on.stream));
        opening of;
        of.patience_us = 10000;
        std::thread none;
        close_gate(gate::host_function, on.stream, of, none);
        const auto begin = steady_clock::now();
        CHECK(cu.cuMemcpyDtoHAsync(pageable, device, size, on.stream));
        const double first = since(begin);
        CHECK(cu.cuMemcpyHtoDAsync(device + 80 * MiB, pageable, size, on.stream));
        const double second = since(begin) - first;
        of.returned = true;
        CHECK(cu.cuStreamSynchronize(on.stream));
        CHECK(cu.cuMemcpyDtoH(read_back, device + 80 * MiB, size));
        plan p{.size = {size}};
        outcome o;
        judge(p.size, read_back, size, 1, o);
        std::printf("| %s | %s | %.0f | %.0f | %s |\n", in_units(size).c_str(), on.name, first, second,
                    bytes_seen(p, o).c_str());
    }
}

} // namespace

// `pageable-order more` measures the second half alone, `pageable-order writers` the uploads whose source is written by
// work before them.
int main(int count, char **arguments) {
    const auto begin = steady_clock::now();
    open_driver();
    std::vector<named_stream> streams{{"legacy", nullptr}, {"blocking", nullptr}, {"non-blocking", nullptr}};
    CHECK(cu.cuStreamCreateWithPriority(&streams[1].stream, 0, 0));
    CHECK(cu.cuStreamCreateWithPriority(&streams[2].stream, 1, 0)); // CU_STREAM_NON_BLOCKING
    if (count == 1) {
        print_lines(streams);
        print_forms(streams[1]);
        print_downloads(streams);
        print_round_trip(streams[1]);
        print_borders(streams[1]);
    }
    const bool writers_alone = count > 1 && std::string_view(arguments[1]) == "writers";
    if (!writers_alone) {
        print_room(streams[1]);
        print_room_taken(streams);
        if (managed) print_batch_rows(streams[1]);
    }
    print_writers(streams[1]);
    std::printf("\n%.1f s\n", since(begin) / 1e6);
    return 0;
}
