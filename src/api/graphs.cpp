// The C functions that make copies and fills nodes of graphs.
#include "api/call_options.h"
#include "ferry/ferry_graph.h"
#include "submit/copy.h"
#include "submit/fill.h"
#include "submit/note_error.h"

using namespace ferry;

namespace {

error become_node(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                  graph_target &target) noexcept {
    return set_copy(instance, copy, wanted, target);
}
error become_node(ferry_instance &instance, const ferry_fill_desc &fill, const copy_preferences &wanted,
                  graph_target &target) noexcept {
    return set_fill(instance, fill, wanted, target);
}

template <class Desc>
error set_graph_node(ferry_instance &instance, const Desc &desc, const ferry_copy_options *given,
                     graph_target &target) noexcept {
    call_options options;
    if (error failed = choose_options(instance, given, options)) return failed;
    const route_kind forced = options.preferences.forced;
    constexpr std::uint64_t routes_of_nodes = 1 << FERRY_ROUTE_AUTO | 1 << FERRY_ROUTE_DRIVER;
    if (forced != route_kind::none && forced != route_kind::driver)
        return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_ROUTE, numbers::one_of, routes_of_nodes,
                             static_cast<std::uint64_t>(forced));
    return noted(instance, become_node(instance, desc, options.preferences, target));
}

template <class Desc>
int32_t add_graph_node(ferry_instance *instance, CUgraph graph, const CUgraphNode *dependencies, uint64_t count,
                       const Desc *desc, const ferry_copy_options *options, CUgraphNode *node,
                       ferry_error_info *details) noexcept {
    if (node) *node = nullptr;
    if (!instance || !graph || !desc || !node) return report_null(details, instance, graph, desc, node);
    if (!dependencies && count)
        return report(details, refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_COUNT, count));
    graph_target target = {.graph = graph, .dependencies = dependencies, .dependency_count = count};
    const error failed = set_graph_node(*instance, *desc, options, target);
    if (!failed) *node = target.node;
    return report(details, failed);
}

template <class Desc>
int32_t change_graph_node(ferry_instance *instance, CUgraphExec executable, CUgraphNode node, const Desc *desc,
                          const ferry_copy_options *options, ferry_error_info *details) noexcept {
    if (!instance || !executable || !node || !desc) return report_null(details, instance, executable, node, desc);
    graph_target target = {.executable = executable, .node = node};
    return report(details, set_graph_node(*instance, *desc, options, target));
}

} // namespace

extern "C" {

int32_t ferry_graph_add_copy(ferry_instance *instance, CUgraph_st *graph, CUgraphNode_st *const *dependencies,
                             uint64_t dependency_count, const ferry_copy_desc *copy, const ferry_copy_options *options,
                             CUgraphNode_st **node, ferry_error_info *details) {
    return add_graph_node(instance, graph, dependencies, dependency_count, copy, options, node, details);
}

int32_t ferry_graph_add_fill(ferry_instance *instance, CUgraph_st *graph, CUgraphNode_st *const *dependencies,
                             uint64_t dependency_count, const ferry_fill_desc *fill, const ferry_copy_options *options,
                             CUgraphNode_st **node, ferry_error_info *details) {
    return add_graph_node(instance, graph, dependencies, dependency_count, fill, options, node, details);
}

int32_t ferry_graph_exec_set_copy(ferry_instance *instance, CUgraphExec_st *executable, CUgraphNode_st *node,
                                  const ferry_copy_desc *copy, const ferry_copy_options *options,
                                  ferry_error_info *details) {
    return change_graph_node(instance, executable, node, copy, options, details);
}

int32_t ferry_graph_exec_set_fill(ferry_instance *instance, CUgraphExec_st *executable, CUgraphNode_st *node,
                                  const ferry_fill_desc *fill, const ferry_copy_options *options,
                                  ferry_error_info *details) {
    return change_graph_node(instance, executable, node, fill, options, details);
}

} // extern "C"
