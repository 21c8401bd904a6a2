// The node of a graph that a copy or a fill becomes.
#pragma once

#include "driver/result.h"

namespace ferry {

// A new node of a graph, or an existing node of an executable, which gets other parameters.
struct graph_target {
    CUgraphExec executable = nullptr; // null for a new node
    CUgraphNode node = nullptr;
    CUgraph graph = nullptr; // this and the next two members: for a new node
    const CUgraphNode *dependencies = nullptr;
    std::size_t dependency_count = 0;
    bool is_set = false; // the node has its parameters. An empty copy or fill has no node
};

// Calls the entry point that adds a node, or the entry point that changes it. `context` is the context of the node.
template <class Add, class Change, class Parameters>
error put_node(const Add &add, const Change &change, const Parameters &parameters, CUcontext context,
               graph_target &target) noexcept {
    const status_code status = target.executable
                                   ? call_optional(change, target.executable, target.node, &parameters, context)
                                   : call_optional(add, &target.node, target.graph, target.dependencies,
                                                   target.dependency_count, &parameters, context);
    target.is_set = status == FERRY_SUCCESS;
    return {.status = status};
}

// Whether the driver has refused a change of the node, possibly because it changes only contiguous copies and fills.
inline bool is_change_refused(const error &failed, const graph_target &target) noexcept {
    return target.executable && failed.status == to_status(CUDA_ERROR_INVALID_VALUE);
}

} // namespace ferry
