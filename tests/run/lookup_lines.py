"""What the program `lookups` prints beneath ferry-run."""

replaced = {"cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemHostAlloc", "cuGetProcAddress", "cuGetProcAddress_v2",
            "cuMemcpyHtoDAsync", "cuMemcpyBatchAsync", "cuMemcpyDtoH"}


def beneath_ferry_run(plain):
    """The lines of `plain`, the output without ferry-run, with ferry's functions instead of the driver's functions."""
    def line(before):
        is_replaced = before.endswith(": libcuda.so.1") and replaced & set(before.removesuffix(": libcuda.so.1").split())
        return before.replace(": libcuda.so.1", ": libferry-run.so") if is_replaced else before
    return [line(before) for before in plain.splitlines()]
