/*
 * Copies and fills as nodes of CUDA graphs that the program builds.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_GRAPH_H
#define FERRY_FERRY_GRAPH_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's own handles, by tag: CUgraph, CUgraphNode and CUgraphExec are pointers to these, and so are cudaGraph_t,
 * cudaGraphNode_t and cudaGraphExec_t. */
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

/* ---------------------------------------------------------------------------------------------------------------
 * Nodes of graphs
 *
 * A node is one call of the driver: its copy (FERRY_ROUTE_DRIVER) or its fill. ferry validates it as ferry_copy and
 * ferry_fill do. To record other routes, or a copy or fill that needs several calls, capture ferry_copy_async,
 * ferry_fill_async or ferry_prepared_launch on a stream instead.
 *
 * The driver reads a pageable source when the graph is launched, before the nodes that the copy depends on have run.
 * Such a copy to a device is therefore refused, as it is under capture: use pinned memory, or capture a staged copy.
 * Pageable destinations are written in the order of the graph. From the first node with such a destination on, ferry
 * reads the pageable sources of all asynchronous copies of the process in stream order, because a launch of the graph
 * may write them.
 *
 * The memory, and arrays, must stay valid as long as the graph or an executable of it can run. Nodes contain nothing of
 * the instance: graphs may run after ferry_close. ferry_options.trace does not report nodes. Graphs are the program's,
 * and the handles must be valid: the driver may crash otherwise.
 *
 * Of the options, `route` must be FERRY_ROUTE_AUTO or FERRY_ROUTE_DRIVER. FERRY_SOURCE_ORDER_CALL and
 * FERRY_COPY_DESTINATION_WRITTEN are refused where they would matter, because the bytes move at each launch. The others
 * have no effect.
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Adds a node that copies to `graph`, after the nodes in `dependencies`. The node runs in the context of ferry_copy.
 *
 * NULL:          `dependencies`, `options`.
 * Values:        `dependencies`: `dependency_count` elements, different nodes of `graph`.
 * Thread-safety: safe; no other call may be using the graph.
 * Blocking:      driver_lock.
 * Ownership:     *node belongs to the graph.
 * Errors:        as ferry_copy. FERRY_ERROR_INVALID_ARGUMENT also for an empty copy (FERRY_FIELD_WIDTH) and for NULL
 *                `dependencies` with a number (FERRY_FIELD_COUNT); _CAPTURE for a copy that a graph cannot hold, such as
 *                one from pageable memory to a device; _UNSUPPORTED for another route (FERRY_FIELD_ROUTE) and for host
 *                memory that was registered in pieces, which needs several calls (FERRY_FIELD_ADDRESS); the driver's
 *                -1001 for nodes that are not of the graph.
 */
FERRY_API int32_t ferry_graph_add_copy(ferry_instance *instance, struct CUgraph_st *graph,
                                       struct CUgraphNode_st *const *dependencies, uint64_t dependency_count,
                                       const ferry_copy_desc *copy, const ferry_copy_options *options,
                                       struct CUgraphNode_st **node, ferry_error_info *error);

/*
 * Adds a node that fills to `graph`, after the nodes in `dependencies`. The node runs in the context that ferry_fill
 * uses. The pattern has at most 4 bytes, and the fill one slice, or slices without gaps between them.
 *
 * NULL:          `dependencies`, `options`.
 * Values:        `dependencies`: `dependency_count` elements, different nodes of `graph`.
 * Thread-safety: safe; no other call may be using the graph.
 * Blocking:      driver_lock.
 * Ownership:     *node belongs to the graph.
 * Errors:        as ferry_fill and ferry_graph_add_copy; FERRY_ERROR_UNSUPPORTED also for a fill that only a kernel can
 *                make (FERRY_FIELD_PATTERN_SIZE, FERRY_FIELD_DEPTH).
 */
FERRY_API int32_t ferry_graph_add_fill(ferry_instance *instance, struct CUgraph_st *graph,
                                       struct CUgraphNode_st *const *dependencies, uint64_t dependency_count,
                                       const ferry_fill_desc *fill, const ferry_copy_options *options,
                                       struct CUgraphNode_st **node, ferry_error_info *error);

/*
 * Makes a node of `executable` copy something else from the next launch on. Launches in flight and the graph that it
 * was instantiated from are not affected. `node` is a node of that graph, which must still exist.
 *
 * The driver changes only contiguous copies between linear memory, to contiguous copies of the same direction: within
 * devices, to a device or to the host. Rows without gaps are contiguous. To change other copies, capture or build the
 * graph again.
 *
 * NULL:          `options`.
 * Thread-safety: safe; no other call may be using the executable.
 * Blocking:      driver_lock.
 * Errors:        as ferry_graph_add_copy. FERRY_ERROR_UNSUPPORTED also for a copy that is not contiguous
 *                (FERRY_FIELD_HEIGHT, FERRY_FIELD_DEPTH) or has an array (FERRY_FIELD_ARRAY), if the driver refuses it;
 *                the driver's -1001 for a node that is no copy, or that copies in another direction.
 */
FERRY_API int32_t ferry_graph_exec_set_copy(ferry_instance *instance, struct CUgraphExec_st *executable,
                                            struct CUgraphNode_st *node, const ferry_copy_desc *copy,
                                            const ferry_copy_options *options, ferry_error_info *error);

/*
 * Makes a node of `executable` fill something else from the next launch on, otherwise as ferry_graph_exec_set_copy. The
 * driver changes only contiguous fills to contiguous fills; the pattern may change its size.
 *
 * NULL:          `options`.
 * Thread-safety: safe; no other call may be using the executable.
 * Blocking:      driver_lock.
 * Errors:        as ferry_graph_add_fill and ferry_graph_exec_set_copy.
 */
FERRY_API int32_t ferry_graph_exec_set_fill(ferry_instance *instance, struct CUgraphExec_st *executable,
                                            struct CUgraphNode_st *node, const ferry_fill_desc *fill,
                                            const ferry_copy_options *options, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_GRAPH_H */
