// ferry's kernels on the CPU: libraries, launches, and the memory that a kernel can access. The kernels are compiled
// from the same headers as the GPU's code. An image is only searched for their names.
#include "base/atomic_word.h"
#include "softdriver/entry.h"
#include "softdriver/state.h"
#include "system/pages.h"

#include "kernels/arrays.h"
#include "kernels/boxes.h"
#include "kernels/fills.h"
#include "kernels/links.h"
#include "kernels/nests.h"
#include "kernels/pieces.h"
#include "kernels/ring.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

namespace ferry::softdriver {

namespace {

// Memory that a kernel may access, recorded when the kernel is submitted: it must not be freed before the kernel has
// run.
struct memory_range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool is_lossy = false; // accessed over a link that loses data
};
// A surface that a kernel may read and write.
struct reachable_surface {
    CUsurfObject handle = 0;
    gpu::array_form form{};
    tiled_layout layout;
};
struct reachable_memory {
    std::vector<memory_range> ranges; // sorted
    const mapped_host_memory *mapped_since;
    std::vector<reachable_surface> surfaces;
};

struct bad_access {
    CUresult result;
};

// The launch that runs on this thread. Caches the last ranges, because most accesses are near the previous access.
struct running_launch {
    const reachable_memory *reachable = nullptr;
    memory_range read;
    memory_range written;
};
thread_local running_launch running;

// Represents memory behind a lossy link: a read that no device answers returns ones on PCIe, and writes change nothing.
// Kernels access one word at a time, except the tables of their launch, which ferry never places on a peer.
std::byte *lost_word(std::size_t size) {
    alignas(gpu::sixteen_bytes) thread_local std::byte word[sizeof(gpu::sixteen_bytes)];
    if (size > sizeof word) throw bad_access{CUDA_ERROR_ILLEGAL_ADDRESS};
    std::memset(word, 0xff, sizeof word);
    return word;
}

memory_range find_range(std::uintptr_t address) {
    const std::vector<memory_range> &all = running.reachable->ranges;
    const auto beyond = std::upper_bound(all.begin(), all.end(), address,
                                         [](std::uintptr_t at, const memory_range &one) { return at < one.begin; });
    if (beyond != all.begin() && address < beyond[-1].end) return beyond[-1];
    const auto [begin, end] = running.reachable->mapped_since->find(address);
    if (begin != end) return {.begin = begin, .end = end};
    if (!uses_host_page_tables || is_device_address(address)) throw bad_access{CUDA_ERROR_ILLEGAL_ADDRESS};
    const std::uintptr_t page = address / page_size() * page_size();
    return {.begin = page, .end = page + page_size()};
}

// Accesses nothing that other threads write, and runs for every word. The sanitizer checks the access to the word.
__attribute__((no_sanitize("thread"))) std::byte *find_memory(memory_range &last, std::uintptr_t address,
                                                              std::size_t size, std::size_t alignment) {
    if (address % alignment != 0) throw bad_access{CUDA_ERROR_MISALIGNED_ADDRESS};
    if (address < last.begin || address >= last.end) {
        last = find_range(address);
    }
    if (last.end - address < size) throw bad_access{CUDA_ERROR_ILLEGAL_ADDRESS};
    return last.is_lossy ? lost_word(size) : reach(address);
}

// An access outside the array ends the launch, as a trap does on a GPU.
std::byte *find_texels(CUsurfObject handle, gpu::array_form form, std::size_t x, std::size_t y, std::size_t z,
                       std::size_t size) {
    for (const reachable_surface &one : running.reachable->surfaces) {
        if (one.handle != handle) continue;
        const tiled_layout &of = one.layout;
        if (one.form != form || x % size != 0) throw bad_access{CUDA_ERROR_MISALIGNED_ADDRESS};
        if (x + size > of.row_bytes || y >= of.rows || z >= of.slices) throw bad_access{CUDA_ERROR_LAUNCH_FAILED};
        return reach(of.storage + of.offset(x, y, z));
    }
    throw bad_access{CUDA_ERROR_ILLEGAL_ADDRESS};
}

} // namespace
} // namespace ferry::softdriver

namespace ferry::gpu {

inline const void *memory_to_read(u64 address, u64 size, u64 alignment) {
    return softdriver::find_memory(softdriver::running.read, address, size, alignment);
}
inline void *memory_to_write(u64 address, u64 size, u64 alignment) {
    return softdriver::find_memory(softdriver::running.written, address, size, alignment);
}

inline u64 load_acquire(u64 address) {
    const void *const word = memory_to_read(address, sizeof(u64), alignof(u64));
    return atomic_word(*static_cast<u64 *>(const_cast<void *>(word))).load(std::memory_order_acquire);
}
inline atomic_word<u64> word_to_write(u64 address) {
    return atomic_word(*static_cast<u64 *>(memory_to_write(address, sizeof(u64), alignof(u64))));
}
inline void store_release(u64 address, u64 word) { word_to_write(address).store(word, std::memory_order_release); }
inline u64 exchange(u64 address, u64 word) { return word_to_write(address).exchange(word, std::memory_order_acq_rel); }

inline u64 count_up(u64 address) { return word_to_write(address).fetch_add(1, std::memory_order_acq_rel); }

// A GPU waits without occupying a processor, so this sleeps.
inline void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

[[noreturn]] inline void trap() { throw softdriver::bad_access{CUDA_ERROR_LAUNCH_FAILED}; }

inline void *find_in_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u64 size) {
    return softdriver::find_texels(surface, form, x, y, z, size);
}

} // namespace ferry::gpu

namespace ferry::softdriver {

struct built_in_kernel {
    const char *name;
    std::size_t parameters_size;
    void (*run)(const void *parameters, unsigned blocks, unsigned threads);
};

namespace {

// Runs a kernel whose threads are independent, thread by thread, or a kernel whose blocks are independent, block by
// block.
template <class Parameters, void (*kernel)(const Parameters &, const gpu::thread_index &)>
void run_threads(const void *given, unsigned blocks, unsigned threads) {
    const auto &parameters = *static_cast<const Parameters *>(given);
    for (unsigned block = 0; block < blocks; ++block)
        for (unsigned thread = 0; thread < threads; ++thread)
            kernel(parameters, {block, thread, blocks, threads});
}
template <class Parameters, void (*kernel)(const Parameters &, const gpu::block_of_threads &)>
void run_threads(const void *given, unsigned blocks, unsigned threads) {
    for (unsigned block = 0; block < blocks; ++block)
        kernel(*static_cast<const Parameters *>(given), {{block, 0, blocks, threads}});
}

namespace of_kernels {
using namespace ferry::gpu;
constexpr built_in_kernel all[] = {
#define FERRY_KERNEL(name, parameters, function)                                                                       \
    {"ferry_" #name, sizeof(parameters), run_threads<parameters, function>},
#include "kernels/list.inc"
#undef FERRY_KERNEL
};
} // namespace of_kernels
using of_kernels::all;

// ---- Images ---------------------------------------------------------------------------------------------------

// A fatbinary's header states the size of the image; any other image must be text.
struct fatbinary_header {
    static constexpr const char *expected_mark = "\x50\xed\x55\xba";

    std::uint32_t mark;
    std::uint16_t version;
    std::uint16_t header_size;
    std::uint64_t size;
};
// tools/kernels.py puts this mark into its fatbinaries, because their contents are compressed.
constexpr std::string_view mark_of_kernels = "ferry kernels";

class program_image {
public:
    explicit program_image(const void *image) {
        const auto *const begin = static_cast<const char *>(image);
        is_fatbinary_ = std::strncmp(begin, fatbinary_header::expected_mark, 4) == 0; // stops at the first difference
        if (is_fatbinary_) {
            fatbinary_header header{};
            std::memcpy(&header, image, sizeof header);
            contents_ = {begin, header.header_size + header.size};
        } else {
            contents_ = begin;
            require(contains(".version"), CUDA_ERROR_INVALID_IMAGE);
        }
    }

    bool has(const built_in_kernel &kernel) const {
        return contains(is_fatbinary_ ? mark_of_kernels : std::string_view(kernel.name));
    }

private:
    bool contains(std::string_view text) const { return contents_.find(text) != contents_.npos; }

    std::string_view contents_;
    bool is_fatbinary_ = false;
};

// ---- Launches -------------------------------------------------------------------------------------------------

gpu::array_form form_of(const CUDA_ARRAY3D_DESCRIPTOR &of) {
    using gpu::array_form;
    if (of.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP))
        return of.Height ? array_form::layers_of_two_d : array_form::layers_of_one_d;
    if (of.Depth) return array_form::three_d;
    return of.Height ? array_form::two_d : array_form::one_d;
}

// Each context of a device has its own addresses for kernels. Copies can use the memory of all contexts.
bool is_of_another_context(const context &from, const allocation &memory) {
    return memory.kind == allocation_kind::device && !memory.is_stream_ordered() && memory.device == from.device &&
           memory.owner != from.handle;
}

reachable_memory memory_of(const driver &cu, const context &from) {
    reachable_memory found;
    found.mapped_since = &cu.mapped_host;
    for (const auto &[address, memory] : cu.allocations)
        if (!memory.awaits_launch() && can_reach(from, memory) && !is_of_another_context(from, memory))
            found.ranges.push_back({address, address + memory.size, loses_accesses(cu, from, memory)});
    cu.surfaces.each([&](CUsurfObject handle, const surface &one) {
        const array *const of = cu.arrays.find(one.of);
        if (of && of->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST && one.owner == from.handle)
            found.surfaces.push_back({handle, form_of(of->descriptor), of->layout});
    });
    return found;
}

struct launch_request {
    const built_in_kernel *kernel;
    CUcontext context;
    unsigned blocks;
    unsigned threads;
    std::vector<std::byte> parameters;
};

void run(const launch_request &asked, const reachable_memory &reachable, context &in) {
    if (in.broken->has_happened()) return; // nothing runs in a broken context
    running.reachable = &reachable;
    try {
        asked.kernel->run(asked.parameters.data(), asked.blocks, asked.threads);
    } catch (const bad_access &access) {
        in.broken->happen(access.result);
    }
    running = {};
}

// A library is loaded into a context when the context first queries or launches one of its kernels. Loading waits for
// the work that runs in the context (seen on CUDA 13.0, H200), and here for all work on the device.
void load_into(driver &cu, const context &in, CUkernel kernel) {
    cu.libraries.each([&](library &from) {
        if (std::count(from.kernels.begin(), from.kernels.end(), kernel) == 0) return;
        if (std::count(from.loaded_in.begin(), from.loaded_in.end(), in.handle) != 0) return;
        from.loaded_in.reserve(from.loaded_in.size() + 1);
        wait_for_devices(cu, std::uint64_t{1} << in.device);
        from.loaded_in.push_back(in.handle);
    });
}

void require_launchable(const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes) {
    constexpr unsigned largest_grid[] = {2147483647, 65535, 65535};
    constexpr unsigned max_shared_bytes = 48 << 10;
    for (int i = 0; i < 3; ++i)
        require(grid[i] != 0 && grid[i] <= largest_grid[i] && block[i] != 0);
    // The kernels are compiled for at most this many threads, and use one dimension and no shared memory.
    require(block[0] <= gpu::threads_per_block && shared_bytes <= max_shared_bytes);
    const bool is_flat = grid[1] == 1 && grid[2] == 1 && block[1] == 1 && block[2] == 1;
    require(is_flat, CUDA_ERROR_NOT_SUPPORTED);
}

} // namespace

CUresult cuLibraryLoadData(CUlibrary *handle, const void *image, CUjit_option *, void **, unsigned jit_options,
                           CUlibraryOption *, void **, unsigned library_options) {
    return enter([&](driver &cu) {
        require(handle && image);
        require(jit_options == 0 && library_options == 0, CUDA_ERROR_NOT_SUPPORTED);
        refuse_if_capture_forbids(cu);
        const program_image contents(image);
        auto made = std::make_unique<library>();
        made->kernels.reserve(std::size(all));
        for (const built_in_kernel &one : all)
            if (contents.has(one))
                made->kernels.push_back(cu.kernels.add(std::make_unique<const built_in_kernel *>(&one)));
        require(!made->kernels.empty(), CUDA_ERROR_NO_BINARY_FOR_GPU); // this driver runs only ferry's kernels
        *handle = cu.libraries.add(std::move(made));
    });
}

CUresult cuLibraryUnload(CUlibrary handle) {
    return enter([&](driver &cu) {
        const library *const gone = cu.libraries.find(handle);
        require(gone, CUDA_ERROR_INVALID_HANDLE);
        for (const CUkernel kernel : gone->kernels)
            cu.kernels.remove(kernel);
        cu.libraries.remove(handle);
    });
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name) {
    return enter([&](driver &cu) {
        require(kernel && name);
        const library *const from = cu.libraries.find(handle);
        require(from, CUDA_ERROR_INVALID_HANDLE);
        const auto found = std::find_if(from->kernels.begin(), from->kernels.end(), [&](CUkernel one) {
            return !std::strcmp((*cu.kernels.find(one))->name, name);
        });
        require(found != from->kernels.end(), CUDA_ERROR_NOT_FOUND);
        *kernel = *found;
    });
}

// Here the function handle is the kernel's handle, which is the same in every context.
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    return enter_context([&](driver &cu, context &current) {
        require(function);
        require(cu.kernels.find(kernel), CUDA_ERROR_INVALID_HANDLE);
        load_into(cu, current, kernel);
        *function = reinterpret_cast<CUfunction>(kernel);
    });
}

// The call accepts functions and kernels; both are kernel handles here.
CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream_handle,
                        void **parameters, void **extra) {
    return enter([&](driver &cu) {
        const built_in_kernel *const *const kernel = cu.kernels.find(reinterpret_cast<CUkernel>(handle));
        require(kernel, CUDA_ERROR_INVALID_HANDLE);
        require_launchable({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes);
        require(!extra, CUDA_ERROR_NOT_SUPPORTED);
        require(parameters && parameters[0]);
        stream &on = find_stream(cu, stream_handle);
        load_into(cu, *on.owner, reinterpret_cast<CUkernel>(handle));
        const auto *const given = static_cast<const std::byte *>(parameters[0]);
        auto asked = std::make_shared<const launch_request>(
            launch_request{*kernel, on.owner->handle, grid_x, block_x, {given, given + (*kernel)->parameters_size}});

        work what;
        for (const CUcontext peer : on.owner->peers)
            what.devices |= std::uint64_t{1} << cu.contexts.find(peer)->device;
        what.prepare = [asked](driver &at_launch) -> std::function<void()> {
            context *const in = at_launch.contexts.find(asked->context);
            require(in, CUDA_ERROR_CONTEXT_IS_DESTROYED);
            in->require_sound();
            auto reachable = std::make_shared<const reachable_memory>(memory_of(at_launch, *in));
            return [asked, reachable, in] { run(*asked, *reachable, *in); };
        };
        enqueue(cu, on, std::move(what));
    });
}

} // namespace ferry::softdriver
