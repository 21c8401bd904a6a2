// Captures the work that is enqueued on a stream between the construction of a captured_graph and end(), as a graph
// that a test can launch repeatedly.
#pragma once

#include "support/driver_under_test.h"

namespace ferry::test {

struct captured_graph {
    explicit captured_graph(CUstream on, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) : stream(on) {
        EXPECT_OK(raw().cuStreamBeginCapture(on, mode));
    }
    ~captured_graph() {
        if (executable) {
            EXPECT_OK(raw().cuGraphExecDestroy(executable));
        }
        if (graph) {
            EXPECT_OK(raw().cuGraphDestroy(graph));
        }
    }
    captured_graph(const captured_graph &) = delete;
    void end() {
        ASSERT_OK(raw().cuStreamEndCapture(stream, &graph));
        ASSERT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
    }
    void run() const {
        ASSERT_OK(raw().cuGraphLaunch(executable, stream));
        ASSERT_OK(raw().cuStreamSynchronize(stream));
    }
    CUstream stream;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
};

} // namespace ferry::test
