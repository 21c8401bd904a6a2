// User objects: resources that graphs keep alive. The program's function is called when nothing uses the resource any
// more.
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

namespace {

user_object &find(driver &cu, CUuserObject handle) {
    user_object *const found = cu.user_objects.find(handle);
    require(found);
    return *found;
}

void release(driver &cu, CUuserObject handle, unsigned count) {
    user_object &from = find(cu, handle);
    require(count != 0 && count <= from.references);
    from.references -= count;
    if (from.references == 0) cu.user_objects.remove(handle);
}

user_resources &resources_of(driver &cu, CUgraph handle) {
    if (const graph_ptr *const found = cu.graphs.find(handle)) return (*found)->keeps;
    for (const capture_ptr &one : cu.captures)
        if (handle && one->handle == handle) return one->keeps;
    throw refusal{CUDA_ERROR_INVALID_VALUE};
}

} // namespace

// Calls the function on the host-function thread, because the thread with the last reference may hold locks.
user_resource::~user_resource() {
    const auto call = [destroy = destroy, user = user] {
        enter_host_function(true);
        destroy(user);
        enter_host_function(false);
    };
    try {
        of.engine.submit({.kind = lane_kind::host_function}, call, 0, {});
    } catch (...) {
        call();
    }
}

CUresult cuUserObjectCreate(CUuserObject *handle, void *user, CUhostFn destroy, unsigned references, unsigned flags) {
    return enter([&](driver &cu) {
        require(handle && destroy && references != 0 && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        auto made =
            std::make_unique<user_object>(user_object{std::make_shared<user_resource>(cu, user, destroy), references});
        *handle = cu.user_objects.add(std::move(made));
    });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
    return enter([&](driver &cu) { release(cu, handle, count); });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags) {
    return enter([&](driver &cu) {
        require(count != 0 && !(flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)));
        const user_object &kept = find(cu, handle);
        require(!(flags & CU_GRAPH_USER_OBJECT_MOVE) || count <= kept.references);
        resources_of(cu, graph).push_back(kept.resource);
        if (flags & CU_GRAPH_USER_OBJECT_MOVE) release(cu, handle, count);
    });
}

} // namespace ferry::softdriver
