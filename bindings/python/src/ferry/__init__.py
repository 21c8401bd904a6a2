"""ferry: copies between host memory, GPU memory and arrays of every library.

    import ferry
    gpu = ferry.open()                                  # or ferry.open(software=True), without a GPU
    gpu.copy(array, tensor)                             # NumPy, PyTorch, CuPy, JAX, buffers; either way
    ticket = gpu.copy_async(image[10:20, ::2], tensor, stream=torch.cuda.current_stream())
    with gpu.batch() as batch:
        for one, other in zip(arrays, tensors):
            batch.copy(one, other)
    print(gpu.explain(array, tensor))
"""
from __future__ import annotations

from typing import Any

from . import native
from .errors import ArgumentError, ClosedError, Error
from .instance import Batch, Device, Explanation, Instance, Prepared
from .memory import DeviceArray, PinnedArray
from .native import FERRY_COPY_BY_DRIVER as BY_DRIVER
from .native import FERRY_COPY_BY_KERNEL as BY_KERNEL
from .native import FERRY_COPY_BY_RELAY as BY_RELAY
from .native import FERRY_COPY_BY_STAGING as BY_STAGING
from .native import FERRY_COPY_DESTINATION_WRITTEN as DESTINATION_WRITTEN
from .native import FERRY_COPY_MULTILINK as MULTILINK
from .native import FERRY_COPY_NO_KERNELS as NO_KERNELS
from .native import FERRY_COPY_SOURCE_READ as SOURCE_READ
from .native import FERRY_COPY_URGENT as URGENT
from .streams import LEGACY, PER_THREAD, Event, Stream
from .tickets import Ticket
from .views import HOST, UNKNOWN, View, memory, register, view

__version__ = native.VERSION
__all__ = ["ArgumentError", "BY_DRIVER", "BY_KERNEL", "BY_RELAY", "BY_STAGING", "Batch", "ClosedError",
           "DESTINATION_WRITTEN", "Device", "DeviceArray", "Error", "Event", "Explanation", "HOST", "Instance", "LEGACY",
           "MULTILINK", "NO_KERNELS", "PER_THREAD", "PinnedArray", "Prepared", "SOURCE_READ", "Stream", "Ticket", "UNKNOWN", "URGENT", "View",
           "memory", "native", "open", "register", "view"]


def open(*, software: bool = False, **options: Any) -> Instance:
    """Opens ferry on the NVIDIA driver, or on the software driver. Other options are the fields of ferry_options, such
    as software_devices=4, checks=ferry.native.FERRY_CHECKS_FULL or copy_flags=ferry.SOURCE_READ."""
    return Instance(software=software, **options)
