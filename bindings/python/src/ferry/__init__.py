"""ferry: copies between host memory, GPU memory and arrays of every library.

    import ferry
    gpu = ferry.open()                                  # or ferry.open(software=True), without a GPU
    gpu.copy(array, tensor)                             # NumPy, PyTorch, CuPy, JAX, buffers; either way
    ticket = gpu.copy_async(image[10:20, ::2], tensor, stream=torch.cuda.current_stream())
    with gpu.batch() as batch:
        for one, other in zip(arrays, tensors):
            batch.copy(one, other)
    gpu.copy(ferry.blocks(pool, [7, 3]), tensor)        # blocks of a paged cache; transpose() permutes the axes
    print(gpu.explain(array, tensor))
"""
from __future__ import annotations

from typing import Any

from . import native
from .blocks import Blocks, blocks
from .errors import ArgumentError, ClosedError, Error
from .files import File
from .instance import Batch, Device, Explanation, Instance, Prepared
from .memory import DeviceArray, PinnedArray
from .native import CopyFlags, Priority, Route, SourceOrder, Status
from .options import CopyOptions
from .streams import LEGACY, PER_THREAD, Event, Stream
from .tickets import Ticket
from .views import HOST, UNKNOWN, View, memory, register, view

__version__ = native.VERSION

__all__ = ["ArgumentError", "Batch", "Blocks", "ClosedError", "CopyFlags", "CopyOptions", "Device", "DeviceArray",
           "Error", "Event", "Explanation", "File", "HOST", "Instance", "LEGACY", "PER_THREAD", "PinnedArray",
           "Prepared", "Priority", "Route", "SourceOrder", "Status", "Stream", "Ticket", "UNKNOWN", "View", "blocks",
           "memory", "native", "open", "register", "view"]


def open(*, software: bool = False, **options: Any) -> Instance:
    """Opens ferry on the NVIDIA driver, or on the software driver. Other options are the fields of ferry_options, such
    as checks=ferry.native.FERRY_CHECKS_FULL, and the fields of ferry_software_options after software_, such as
    software_devices=4. copy_options=ferry.CopyOptions(...): the options of calls that have none."""
    return Instance(software=software, **options)
