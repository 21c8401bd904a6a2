// Everything that an open instance owns.
#pragma once

#include "base/host.h"
#include "base/spare_records.h"
#include "copy/shape.h"
#include "device/contexts.h"
#include "device/kernels.h"
#include "driver/library.h"
#include "links/multilink.h"
#include "links/peer_access.h"
#include "memory/deferred_frees.h"
#include "memory/pinned.h"
#include "memory/pinned_pool.h"
#include "memory/pools.h"
#include "memory/sharing.h"
#include "memory/surfaces.h"
#include "plan/device_profiles.h"
#include "staging/engine.h"
#include "submit/recent_copies.h"
#include "submit/ticket.h"
#include "submit/trace.h"
#include "system/code_reference.h"
#include "system/fork_mark.h"

namespace ferry {
struct batch_request; // batch/request.h
}

struct ferry_instance {
    ferry::code_reference code;
    ferry::allocator allocator;
    ferry::log_sink log;
    ferry::driver_library library; // stays closed if the entry points come from elsewhere
    ferry::resolver entry_points;
    ferry::driver_table cu;
    bool found[ferry::driver_symbol_count] = {}; // parallel to driver_symbols
    bool holds_software_driver = false;
    bool full_checks = false;
    std::uint32_t copy_flags = 0; // for copies without flags of their own
    ferry::tracer trace{cu, contexts, allocator};
    ferry_report report = {};
    ferry::copy_limits limits;
    ferry::device_facts devices[ferry::device_contexts::max_devices];
    ferry::device_contexts contexts{cu, devices};
    ferry::array_surfaces surfaces{cu, contexts, allocator}; // destroyed after the kernels that read them
    ferry::external_objects externals{cu, contexts, surfaces, allocator};
    ferry::pinned_memory pinned{cu, allocator};
    ferry::deferred_frees deferred{cu, contexts, surfaces, externals, pinned, allocator};
    std::uint64_t deferred_bytes = 0; // maximum kept on each device; 0: a share of its memory
    ferry::kernel_set kernels{cu};
    ferry::peer_access peers{cu, devices, contexts, allocator};
    ferry::device_profiles profiles{allocator};
    ferry::address_space mappings;
    ferry::memory_pools pools{cu, devices, contexts, allocator};
    ferry::sharing sharing{cu, devices, contexts, pools, allocator};
    // The tables from which kernels read their pieces.
    ferry::pinned_pool tables{cu,
                              contexts,
                              pinned,
                              allocator,
                              {.owner = ferry::host_owner::pool},
                              0,
                              0,
                              ferry::pinned_pool::use::of_instance};
    // What the calling thread has read for copies that are enqueued.
    ferry::pinned_pool read_buffers{cu,
                                    contexts,
                                    pinned,
                                    allocator,
                                    {.owner = ferry::host_owner::pool},
                                    0,
                                    std::uint64_t{32} << 20,
                                    ferry::pinned_pool::use::of_instance};
    ferry::recent_copies recent;
    ferry::spare_records<ferry::batch_request> requests{allocator};
    bool stages = false;                     // pageable memory is staged where kernels can serve
    std::uint16_t staging_threads = 0;       // maximum that a copy may keep busy
    ferry::processor_set staging_processors; // on which the staging threads may run
    ferry::staging_engine staging{cu, contexts, kernels, pinned, devices, allocator};
    ferry::lane_set lanes{cu, contexts, pinned, devices, allocator};
    ferry::link_helpers links{cu, contexts, kernels, pinned, devices, lanes, allocator};
    std::atomic<bool> is_staging_ready[ferry::device_contexts::max_devices] = {};
    ferry::ticket_pool tickets{allocator};
    ferry::fork_mark fork_mark;
};

namespace ferry {

constexpr error null_argument = {.status = FERRY_ERROR_INVALID_ARGUMENT};
// The driver's status in the child of a fork, for calls that may not reach the driver, or where the driver does not
// report it.
constexpr std::int32_t no_driver_in_child = to_status(CUDA_ERROR_NOT_INITIALIZED);

inline error check_device(const ferry_instance &instance, std::int32_t device) noexcept {
    const int count = instance.limits.device_count;
    if (device >= 0 && device < count) return {};
    return refuse(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE, static_cast<std::uint64_t>(count),
                  static_cast<std::uint64_t>(device));
}

// The context ferry uses for `device`, made current for the scope.
inline error enter_device(ferry_instance &instance, std::int32_t device, context_scope &scope,
                          CUcontext &context) noexcept {
    if (error failed = check_device(instance, device)) return failed;
    if (error failed = instance.contexts.get(device, context)) return failed;
    return scope.enter(context);
}

inline error enter_device(ferry_instance &instance, std::int32_t device, context_scope &scope) noexcept {
    CUcontext context = nullptr;
    return enter_device(instance, device, scope, context);
}

// Makes a context current for work that may run in any: the stream's context, or for the default streams the current
// one, else that of device 0.
inline error enter_any(ferry_instance &instance, CUstream stream, context_scope &scope) noexcept {
    context_choice choice;
    if (error failed = choose_context(instance.cu, instance.contexts, stream, -1, choice)) return failed;
    return scope.enter(choice.wanted, choice.current);
}

} // namespace ferry
