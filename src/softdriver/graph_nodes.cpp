// Graphs that the program builds node by node, and updates of the nodes of an executable. The rules are as seen on CUDA
// 13.0, H200 (docs/driver.md).
#include "softdriver/copy.h"
#include "softdriver/entry.h"

#include <algorithm>
#include <tuple>

namespace ferry::softdriver {

namespace {

bool is_same(const CUDA_MEMCPY3D &a, const CUDA_MEMCPY3D &b) {
    const copy_request one = lower(a), other = lower(b);
    return one.destination == other.destination && one.source == other.source && one.size == other.size;
}
bool is_same(const CUDA_MEMSET_NODE_PARAMS &a, const CUDA_MEMSET_NODE_PARAMS &b) {
    const auto fields = [](const CUDA_MEMSET_NODE_PARAMS &of) {
        return std::tie(of.dst, of.pitch, of.value, of.elementSize, of.width, of.height);
    };
    return fields(a) == fields(b);
}

graph_node *find_graph_node(graph &in, CUgraphNode handle) {
    const auto found = std::find_if(in.nodes.begin(), in.nodes.end(),
                                    [&](const graph_node &one) { return handle && one.handle == handle; });
    return found == in.nodes.end() ? nullptr : &*found;
}

// The context of a node: the current one, unless the call names another.
const context *context_of_node(driver &cu, CUcontext named) {
    if (!named) return find_current_context(cu);
    const context *const found = cu.contexts.find(named);
    require(found);
    return found;
}

graph_node make_node(driver &cu, const CUDA_MEMCPY3D &copy, CUcontext named) {
    context_of_node(cu, named);
    return copy_in_graph(cu, lower(copy));
}
graph_node make_node(driver &cu, const CUDA_MEMSET_NODE_PARAMS &fill, CUcontext named) {
    const context *const from = context_of_node(cu, named);
    require(from, CUDA_ERROR_INVALID_CONTEXT);
    return fill_in_graph(cu, fill, *from);
}

template <class Parameters>
CUresult add_node(CUgraphNode *handle, CUgraph to, const CUgraphNode *dependencies, std::size_t count,
                  const Parameters *asked, CUcontext named) noexcept {
    return enter([&](driver &cu) {
        const graph_ptr *const found = cu.graphs.find(to);
        require(handle && found && asked && (dependencies || !count));
        graph &into = **found;
        for (std::size_t i = 0; i < count; ++i) {
            require(find_graph_node(into, dependencies[i]));
            require(std::find(dependencies, dependencies + i, dependencies[i]) == dependencies + i);
        }
        graph_node made = make_node(cu, *asked, named);
        made.handle = reinterpret_cast<CUgraphNode>(next_handle());
        made.parameters = *asked;
        into.nodes.push_back(std::move(made));
        *handle = into.nodes.back().handle;
    });
}

// A node ends with its graph, although executables continue to run it.
bool is_live_node(driver &cu, CUgraphNode handle) {
    bool is_found = false;
    cu.graphs.each([&](graph_ptr &one) { is_found |= find_graph_node(*one, handle) != nullptr; });
    return is_found;
}

// Only contiguous copies and fills can be changed, and a copy keeps its direction. Parameters that change nothing are
// accepted for all nodes.
template <class Parameters>
CUresult change_node(CUgraphExec of, CUgraphNode handle, const Parameters *asked, CUcontext named) noexcept {
    return enter([&](driver &cu) {
        const executable *const found = cu.executables.find(of);
        require(found && asked && is_live_node(cu, handle));
        graph_node *const node = find_graph_node(*found->runs, handle);
        const Parameters *const before = node ? std::get_if<Parameters>(&node->parameters) : nullptr;
        require(before);
        graph_node made = make_node(cu, *asked, named);
        const bool is_changeable =
            node->is_line && made.is_line && node->from_host == made.from_host && node->to_host == made.to_host;
        require(is_changeable || is_same(*before, *asked));
        made.handle = handle;
        made.parameters = *asked;
        *node = std::move(made);
    });
}

} // namespace

CUresult cuGraphCreate(CUgraph *handle, unsigned flags) {
    return enter([&](driver &cu) {
        require(handle && flags == 0);
        *handle = cu.graphs.add(std::make_unique<graph_ptr>(std::make_shared<graph>()));
    });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMCPY3D *copy, CUcontext context) {
    return add_node(node, graph, dependencies, count, copy, context);
}
CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context) {
    return add_node(node, graph, dependencies, count, fill, context);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                        CUcontext context) {
    return change_node(executable, node, copy, context);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill,
                                        CUcontext context) {
    return change_node(executable, node, fill, context);
}

} // namespace ferry::softdriver
