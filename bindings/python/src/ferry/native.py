"""ferry's C interface, one to one. Made by generate.py from ferry.json: do not edit."""
from __future__ import annotations

from ctypes import (CDLL, CFUNCTYPE, Structure, c_char, c_char_p, c_float, c_int32, c_int64, c_uint8, c_uint32,
                    c_uint64, c_void_p)
from typing import Any, Final

VERSION: Final = "0.6.0"

FERRY_VERSION_MAJOR: Final = 0
FERRY_VERSION_MINOR: Final = 6
FERRY_VERSION_PATCH: Final = 0

FERRY_SUCCESS: Final = 0

FERRY_ERROR_INVALID_ARGUMENT: Final = -1
FERRY_ERROR_OUT_OF_MEMORY: Final = -2
FERRY_ERROR_ABI_MISMATCH: Final = -3
FERRY_ERROR_RESERVED: Final = -4
FERRY_ERROR_FLAGS: Final = -5
FERRY_ERROR_KIND: Final = -6
FERRY_ERROR_DEVICE: Final = -7
FERRY_ERROR_ADDRESS: Final = -8
FERRY_ERROR_PITCH: Final = -9
FERRY_ERROR_OVERFLOW: Final = -10
FERRY_ERROR_OUT_OF_BOUNDS: Final = -11
FERRY_ERROR_OVERLAP: Final = -12
FERRY_ERROR_ARRAY_FORMAT: Final = -13
FERRY_ERROR_NO_DRIVER: Final = -14
FERRY_ERROR_DRIVER_TOO_OLD: Final = -15
FERRY_ERROR_NO_DEVICE: Final = -16
FERRY_ERROR_UNSUPPORTED: Final = -17
FERRY_ERROR_SOFTWARE_CONFIG: Final = -18
FERRY_ERROR_NO_CONTEXT: Final = -19
FERRY_ERROR_PEER_ACCESS: Final = -20
FERRY_ERROR_ALIGNMENT: Final = -21
FERRY_ERROR_CAPTURE: Final = -22
FERRY_ERROR_LIMIT: Final = -23
FERRY_ERROR_IN_USE: Final = -24
FERRY_ERROR_HANDLE: Final = -25
FERRY_ERROR_MACHINE: Final = -26
FERRY_ERROR_POOL: Final = -27
FERRY_ERROR_IMPORTED: Final = -28
FERRY_ERROR_NOT_SHAREABLE: Final = -29
FERRY_ERROR_PROFILE: Final = -30
FERRY_ERROR_ROUTE: Final = -31

FERRY_STATUS_DRIVER_BASE: Final = -1000
FERRY_STATUS_CONTEXT_DEAD: Final = 0x1
FERRY_STATUS_RETRY: Final = 0x2

FERRY_SIDE_NONE: Final = 0
FERRY_SIDE_SOURCE: Final = 1
FERRY_SIDE_DESTINATION: Final = 2
FERRY_SIDE_EXTENT: Final = 3
FERRY_SIDE_DESCRIPTOR: Final = 4
FERRY_SIDE_OPTIONS: Final = 5

FERRY_FIELD_NONE: Final = 0
FERRY_FIELD_KIND: Final = 1
FERRY_FIELD_DEVICE: Final = 2
FERRY_FIELD_ADDRESS: Final = 3
FERRY_FIELD_ARRAY: Final = 4
FERRY_FIELD_ROW_PITCH: Final = 5
FERRY_FIELD_SLICE_HEIGHT: Final = 6
FERRY_FIELD_X: Final = 7
FERRY_FIELD_Y: Final = 8
FERRY_FIELD_Z: Final = 9
FERRY_FIELD_WIDTH: Final = 10
FERRY_FIELD_HEIGHT: Final = 11
FERRY_FIELD_DEPTH: Final = 12
FERRY_FIELD_FLAGS: Final = 13
FERRY_FIELD_RESERVED: Final = 14
FERRY_FIELD_STRUCT_SIZE: Final = 15
FERRY_FIELD_DRIVER: Final = 16
FERRY_FIELD_CHECKS: Final = 17
FERRY_FIELD_CALLBACKS: Final = 18
FERRY_FIELD_SOFTWARE: Final = 19
FERRY_FIELD_PATTERN: Final = 20
FERRY_FIELD_NUMA: Final = 21
FERRY_FIELD_NUMA_NODE: Final = 22
FERRY_FIELD_THREADS: Final = 23
FERRY_FIELD_SIZE: Final = 24
FERRY_FIELD_LOCATION: Final = 25
FERRY_FIELD_INDEX: Final = 26
FERRY_FIELD_HANDLE_TYPES: Final = 27
FERRY_FIELD_HANDLE: Final = 28
FERRY_FIELD_OS_HANDLE: Final = 29
FERRY_FIELD_POOL: Final = 30
FERRY_FIELD_EVENT: Final = 31
FERRY_FIELD_REGISTER_CHUNK: Final = 32
FERRY_FIELD_VERSION: Final = 33
FERRY_FIELD_LINE: Final = 34
FERRY_FIELD_KERNELS: Final = 35
FERRY_FIELD_STAGING: Final = 36
FERRY_FIELD_STAGING_CPUS: Final = 37
FERRY_FIELD_STAGING_PRIORITY: Final = 38
FERRY_FIELD_STAGING_BYTES: Final = 39
FERRY_FIELD_SOFTWARE_DEVICES: Final = 40
FERRY_FIELD_SOFTWARE_QUEUES: Final = 41
FERRY_FIELD_FORMAT: Final = 42
FERRY_FIELD_CHANNELS: Final = 43
FERRY_FIELD_SOFTWARE_LINKS: Final = 44
FERRY_FIELD_HELPERS: Final = 45

FERRY_KIND_ANY: Final = 0
FERRY_KIND_HOST: Final = 1
FERRY_KIND_DEVICE: Final = 2
FERRY_KIND_ARRAY: Final = 3

FERRY_DEVICE_UNKNOWN: Final = -1

FERRY_COPY_URGENT: Final = 0x1
FERRY_COPY_NO_KERNELS: Final = 0x2
FERRY_COPY_SOURCE_READ: Final = 0x4
FERRY_COPY_MULTILINK: Final = 0x8
FERRY_COPY_DESTINATION_WRITTEN: Final = 0x10
FERRY_COPY_BY_DRIVER: Final = 0x100
FERRY_COPY_BY_KERNEL: Final = 0x200
FERRY_COPY_BY_STAGING: Final = 0x400
FERRY_COPY_BY_RELAY: Final = 0x800
FERRY_COPY_MAX_SMS_SHIFT: Final = 16
FERRY_COPY_DEFAULT: Final = 0xffff0000

FERRY_BATCH_CHECK_OVERLAP: Final = 0x1000
FERRY_BATCH_UPDATABLE: Final = 0x2000

FERRY_ROUTE_NONE: Final = 0
FERRY_ROUTE_DRIVER: Final = 1
FERRY_ROUTE_KERNEL: Final = 2
FERRY_ROUTE_STAGED: Final = 3
FERRY_ROUTE_BUFFERED: Final = 4
FERRY_ROUTE_RELAYED: Final = 5
FERRY_ROUTE_MULTILINK: Final = 6

FERRY_OBSTACLE_NONE: Final = 0
FERRY_OBSTACLE_NO_ROUTE: Final = 1
FERRY_OBSTACLE_FORBIDDEN: Final = 2
FERRY_OBSTACLE_NOT_LOADED: Final = 3
FERRY_OBSTACLE_HOST_TO_HOST: Final = 4
FERRY_OBSTACLE_PAGEABLE: Final = 5
FERRY_OBSTACLE_MANAGED: Final = 6
FERRY_OBSTACLE_ARRAY: Final = 7
FERRY_OBSTACLE_NO_ACCESS: Final = 8
FERRY_OBSTACLE_BEYOND: Final = 9
FERRY_OBSTACLE_READ_ONLY: Final = 10
FERRY_OBSTACLE_NOT_PAGEABLE: Final = 11
FERRY_OBSTACLE_NO_STAGING: Final = 12
FERRY_OBSTACLE_OTHER_DEVICE: Final = 13
FERRY_OBSTACLE_DIRECT: Final = 14
FERRY_OBSTACLE_NOT_BETWEEN_DEVICES: Final = 15
FERRY_OBSTACLE_DIRECT_ACCESS: Final = 16
FERRY_OBSTACLE_NO_HELPERS: Final = 17
FERRY_OBSTACLE_NOT_CUT: Final = 18
FERRY_OBSTACLE_SMALL: Final = 19

FERRY_REASON_NONE: Final = 0
FERRY_REASON_LINE: Final = 1
FERRY_REASON_ONLY: Final = 2
FERRY_REASON_PREDICTED: Final = 3
FERRY_REASON_NO_WAIT: Final = 4
FERRY_REASON_FORCED: Final = 5
FERRY_REASON_URGENT: Final = 6
FERRY_REASON_SOURCE_READ: Final = 7
FERRY_REASON_MULTILINK: Final = 8

FERRY_PROFILE_NONE: Final = 0
FERRY_PROFILE_BUILT_IN: Final = 1
FERRY_PROFILE_CAUTIOUS: Final = 2
FERRY_PROFILE_MEASURED: Final = 3

FERRY_BLOCKS_NO: Final = 0
FERRY_BLOCKS_UNTIL_STAGED: Final = 1
FERRY_BLOCKS_UNTIL_DONE: Final = 2

FERRY_DRIVER_CUDA: Final = 0
FERRY_DRIVER_AUTO: Final = 1
FERRY_DRIVER_SOFTWARE: Final = 2

FERRY_CHECKS_BASIC: Final = 0
FERRY_CHECKS_FULL: Final = 1

FERRY_KERNELS_LAZY: Final = 0
FERRY_KERNELS_AT_OPEN: Final = 1
FERRY_KERNELS_NONE: Final = 2

FERRY_STAGING_LAZY: Final = 0
FERRY_STAGING_AT_OPEN: Final = 1
FERRY_STAGING_NONE: Final = 2

FERRY_NUMA_ANY: Final = 0
FERRY_NUMA_DEVICE: Final = 1
FERRY_NUMA_NODE: Final = 2

FERRY_PRIORITY_OF_PROCESS: Final = 20

FERRY_SOFTWARE_LINKS_DEFAULT: Final = 0
FERRY_SOFTWARE_LINKS_ALL: Final = 1
FERRY_SOFTWARE_LINKS_NONE: Final = 2
FERRY_SOFTWARE_LINKS_PAIRS: Final = 3
FERRY_SOFTWARE_LINKS_LOSSY: Final = 4

FERRY_LOG_ERROR: Final = 0
FERRY_LOG_WARNING: Final = 1
FERRY_LOG_INFO: Final = 2

FERRY_TRACE_COPY: Final = 1
FERRY_TRACE_BATCH: Final = 2
FERRY_TRACE_PREPARED: Final = 3
FERRY_TRACE_FILL: Final = 4

FERRY_COPY_OVERLAP_NONE: Final = 0
FERRY_COPY_OVERLAP_ONE_WAY: Final = 1
FERRY_COPY_OVERLAP_BOTH_WAYS: Final = 2
FERRY_COPY_OVERLAP_BOTH_AND_MORE: Final = 3

FERRY_HANDLE_POSIX_FD: Final = 0x1
FERRY_HANDLE_WIN32: Final = 0x2
FERRY_HANDLE_WIN32_KMT: Final = 0x4
FERRY_HANDLE_FABRIC: Final = 0x8

FERRY_STREAM_LEGACY: Final = 1
FERRY_STREAM_PER_THREAD: Final = 2
FERRY_STREAM_NON_BLOCKING: Final = 0x1

FERRY_EVENT_BLOCKING_SYNC: Final = 0x1
FERRY_EVENT_DISABLE_TIMING: Final = 0x2
FERRY_EVENT_INTERPROCESS: Final = 0x4

FERRY_HOST_WRITE_COMBINED: Final = 0x1
FERRY_HOST_BY_DRIVER: Final = 0x2
FERRY_HOST_NOT_PORTABLE: Final = 0x4
FERRY_HOST_NOT_MAPPED: Final = 0x8
FERRY_HOST_ALLOW_SMALLER: Final = 0x10
FERRY_HOST_ALLOW_PAGEABLE: Final = 0x20
FERRY_HOST_SHARED: Final = 0x40

FERRY_HOST_FROM_MAPPING: Final = 1
FERRY_HOST_FROM_DRIVER: Final = 2
FERRY_HOST_FROM_SYSTEM: Final = 3

FERRY_REGISTER_READ_ONLY: Final = 0x1

FERRY_MEMORY_PAGEABLE: Final = 0
FERRY_MEMORY_PINNED: Final = 1
FERRY_MEMORY_DEVICE: Final = 2
FERRY_MEMORY_MANAGED: Final = 3
FERRY_MEMORY_ARRAY: Final = 4

FERRY_FORMAT_UINT8: Final = 1
FERRY_FORMAT_UINT16: Final = 2
FERRY_FORMAT_UINT32: Final = 3
FERRY_FORMAT_SINT8: Final = 8
FERRY_FORMAT_SINT16: Final = 9
FERRY_FORMAT_SINT32: Final = 10
FERRY_FORMAT_HALF: Final = 16
FERRY_FORMAT_FLOAT: Final = 32
FERRY_FORMAT_UNORM_INT8X1: Final = 192
FERRY_FORMAT_UNORM_INT8X2: Final = 193
FERRY_FORMAT_UNORM_INT8X4: Final = 194
FERRY_FORMAT_UNORM_INT16X1: Final = 195
FERRY_FORMAT_UNORM_INT16X2: Final = 196
FERRY_FORMAT_UNORM_INT16X4: Final = 197
FERRY_FORMAT_SNORM_INT8X1: Final = 198
FERRY_FORMAT_SNORM_INT8X2: Final = 199
FERRY_FORMAT_SNORM_INT8X4: Final = 200
FERRY_FORMAT_SNORM_INT16X1: Final = 201
FERRY_FORMAT_SNORM_INT16X2: Final = 202
FERRY_FORMAT_SNORM_INT16X4: Final = 203
FERRY_FORMAT_UNORM_INT_101010_2: Final = 80
FERRY_FORMAT_BC1_UNORM: Final = 145
FERRY_FORMAT_BC1_UNORM_SRGB: Final = 146
FERRY_FORMAT_BC2_UNORM: Final = 147
FERRY_FORMAT_BC2_UNORM_SRGB: Final = 148
FERRY_FORMAT_BC3_UNORM: Final = 149
FERRY_FORMAT_BC3_UNORM_SRGB: Final = 150
FERRY_FORMAT_BC4_UNORM: Final = 151
FERRY_FORMAT_BC4_SNORM: Final = 152
FERRY_FORMAT_BC5_UNORM: Final = 153
FERRY_FORMAT_BC5_SNORM: Final = 154
FERRY_FORMAT_BC6H_UF16: Final = 155
FERRY_FORMAT_BC6H_SF16: Final = 156
FERRY_FORMAT_BC7_UNORM: Final = 157
FERRY_FORMAT_BC7_UNORM_SRGB: Final = 158
FERRY_FORMAT_NV12: Final = 176
FERRY_FORMAT_P010: Final = 159
FERRY_FORMAT_P016: Final = 161
FERRY_FORMAT_NV16: Final = 162
FERRY_FORMAT_P210: Final = 163
FERRY_FORMAT_P216: Final = 164
FERRY_FORMAT_YUY2: Final = 165
FERRY_FORMAT_Y210: Final = 166
FERRY_FORMAT_Y216: Final = 167
FERRY_FORMAT_AYUV: Final = 168
FERRY_FORMAT_Y410: Final = 169
FERRY_FORMAT_Y416: Final = 177
FERRY_FORMAT_Y444_PLANAR8: Final = 178
FERRY_FORMAT_Y444_PLANAR10: Final = 179
FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR: Final = 180
FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR: Final = 181

FERRY_ARRAY_LAYERED: Final = 0x1
FERRY_ARRAY_SURFACE: Final = 0x2
FERRY_ARRAY_CUBEMAP: Final = 0x4
FERRY_ARRAY_TEXTURE_GATHER: Final = 0x8
FERRY_ARRAY_COLOR_ATTACHMENT: Final = 0x20
FERRY_ARRAY_VIDEO: Final = 0x100

FERRY_LOCATION_DEVICE: Final = 0
FERRY_LOCATION_HOST: Final = 1
FERRY_LOCATION_HOST_NUMA: Final = 2

FERRY_ACCESS_NONE: Final = 0
FERRY_ACCESS_READ_WRITE: Final = 3

FERRY_IPC_HANDLE_SIZE: Final = 256
FERRY_IPC_MEMORY: Final = 1
FERRY_IPC_POOL: Final = 2
FERRY_IPC_POOL_MEMORY: Final = 3
FERRY_IPC_EVENT: Final = 4

FERRY_PROBE_NOT_RUN: Final = 0
FERRY_PROBE_PASSED: Final = 1
FERRY_PROBE_FAILED: Final = 2

FERRY_EXTERNAL_OPAQUE_FD: Final = 1
FERRY_EXTERNAL_OPAQUE_WIN32: Final = 2
FERRY_EXTERNAL_OPAQUE_WIN32_KMT: Final = 3
FERRY_EXTERNAL_D3D12_HEAP: Final = 4
FERRY_EXTERNAL_D3D12_RESOURCE: Final = 5
FERRY_EXTERNAL_D3D11_RESOURCE: Final = 6
FERRY_EXTERNAL_D3D11_RESOURCE_KMT: Final = 7
FERRY_EXTERNAL_DEDICATED: Final = 0x1

FERRY_SEMAPHORE_OPAQUE_FD: Final = 1
FERRY_SEMAPHORE_OPAQUE_WIN32: Final = 2
FERRY_SEMAPHORE_OPAQUE_WIN32_KMT: Final = 3
FERRY_SEMAPHORE_D3D12_FENCE: Final = 4
FERRY_SEMAPHORE_D3D11_FENCE: Final = 5
FERRY_SEMAPHORE_D3D11_KEYED_MUTEX: Final = 7
FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT: Final = 8
FERRY_SEMAPHORE_TIMELINE_FD: Final = 9
FERRY_SEMAPHORE_TIMELINE_WIN32: Final = 10

ferry_options_get_proc = CFUNCTYPE(c_void_p, c_void_p, c_char_p, c_int32)
ferry_options_allocate = CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_uint64)
ferry_options_deallocate = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
ferry_options_log = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
ferry_options_submit = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)
ferry_options_trace = CFUNCTYPE(None, c_void_p, c_void_p)
ferry_stream_notify_done = CFUNCTYPE(None, c_void_p, c_int32)


class ferry_error_info(Structure):
    """Details of an error."""

    struct_size: int
    status: int
    side: int
    field: int
    index: int
    limit: int
    value: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("side", c_int32),
        ("field", c_int32),
        ("index", c_uint64),
        ("limit", c_uint64),
        ("value", c_uint64),
    ]


class ferry_place(Structure):
    """One end of a copy."""

    kind: int
    device: int
    address: int
    array: int | None
    row_pitch: int
    slice_height: int
    x: int
    y: int
    z: int
    reserved: Any
    _fields_ = [
        ("kind", c_int32),
        ("device", c_int32),
        ("address", c_uint64),
        ("array", c_void_p),
        ("row_pitch", c_uint64),
        ("slice_height", c_uint64),
        ("x", c_uint64),
        ("y", c_uint64),
        ("z", c_uint64),
        ("reserved", c_uint64 * 4),
    ]


class ferry_copy_desc(Structure):
    """One copy."""

    source: ferry_place
    destination: ferry_place
    width: int
    height: int
    depth: int
    flags: int
    reserved0: int
    reserved: Any
    _fields_ = [
        ("source", ferry_place),
        ("destination", ferry_place),
        ("width", c_uint64),
        ("height", c_uint64),
        ("depth", c_uint64),
        ("flags", c_uint32),
        ("reserved0", c_uint32),
        ("reserved", c_uint64 * 4),
    ]


class ferry_ticket_info(Structure):
    """The progress of a copy or a stream."""

    struct_size: int
    done: int
    status: int
    route: int
    bytes_done: int
    bytes_total: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("done", c_int32),
        ("status", c_int32),
        ("route", c_int32),
        ("bytes_done", c_uint64),
        ("bytes_total", c_uint64),
    ]


class ferry_fill_desc(Structure):
    """One fill: a pattern of 1, 2, 4, 8 or 16 bytes, in memory order, repeated over a box of device, managed or pinned
    host memory."""

    destination: ferry_place
    width: int
    height: int
    depth: int
    pattern: Any
    pattern_size: int
    flags: int
    reserved: Any
    _fields_ = [
        ("destination", ferry_place),
        ("width", c_uint64),
        ("height", c_uint64),
        ("depth", c_uint64),
        ("pattern", c_uint8 * 16),
        ("pattern_size", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint64 * 6),
    ]


class ferry_explanation(Structure):
    """What a copy would do."""

    struct_size: int
    route: int
    blocks: int
    synchronises: int
    driver_call: bytes
    context_device: int
    source_memory: int
    source_device: int
    destination_memory: int
    destination_device: int
    calls: int
    width: int
    height: int
    depth: int
    driver_ns: int
    kernel_ns: int
    kernel_obstacle: int
    max_sms: int
    staged_ns: int
    staged_obstacle: int
    threads: int
    staging_delay_ns: int
    relay_ns: int
    relay_obstacle: int
    links: int
    multilink_ns: int
    multilink_obstacle: int
    reason: int
    profile: int
    reserved: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("route", c_int32),
        ("blocks", c_int32),
        ("synchronises", c_int32),
        ("driver_call", c_char * 32),
        ("context_device", c_int32),
        ("source_memory", c_int32),
        ("source_device", c_int32),
        ("destination_memory", c_int32),
        ("destination_device", c_int32),
        ("calls", c_uint32),
        ("width", c_uint64),
        ("height", c_uint64),
        ("depth", c_uint64),
        ("driver_ns", c_uint64),
        ("kernel_ns", c_uint64),
        ("kernel_obstacle", c_int32),
        ("max_sms", c_uint32),
        ("staged_ns", c_uint64),
        ("staged_obstacle", c_int32),
        ("threads", c_uint32),
        ("staging_delay_ns", c_uint64),
        ("relay_ns", c_uint64),
        ("relay_obstacle", c_int32),
        ("links", c_uint32),
        ("multilink_ns", c_uint64),
        ("multilink_obstacle", c_int32),
        ("reason", c_int32),
        ("profile", c_int32),
        ("reserved", c_uint32),
    ]


class ferry_batch_share(Structure):
    """The copies of a batch that go one way."""

    copies: int
    bytes: int
    predicted_ns: int
    _fields_ = [
        ("copies", c_uint64),
        ("bytes", c_uint64),
        ("predicted_ns", c_uint64),
    ]


class ferry_batch_explanation(Structure):
    """What ferry would do with a batch."""

    struct_size: int
    context_device: int
    singles: ferry_batch_share
    batch_calls: ferry_batch_share
    kernels: ferry_batch_share
    staged: ferry_batch_share
    max_sms: int
    threads: int
    staging_delay_ns: int
    broadcasts: ferry_batch_share
    _fields_ = [
        ("struct_size", c_uint32),
        ("context_device", c_int32),
        ("singles", ferry_batch_share),
        ("batch_calls", ferry_batch_share),
        ("kernels", ferry_batch_share),
        ("staged", ferry_batch_share),
        ("max_sms", c_uint32),
        ("threads", c_uint32),
        ("staging_delay_ns", c_uint64),
        ("broadcasts", ferry_batch_share),
    ]


class ferry_trace_event(Structure):
    """One call that copies or fills, for ferry_options.trace."""

    struct_size: int
    kind: int
    id: int
    begin_ns: int
    returned_ns: int
    done_ns: int
    bytes: int
    count: int
    stream: int | None
    routes: int
    status: int
    device: int
    is_synchronous: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("id", c_uint64),
        ("begin_ns", c_uint64),
        ("returned_ns", c_uint64),
        ("done_ns", c_uint64),
        ("bytes", c_uint64),
        ("count", c_uint64),
        ("stream", c_void_p),
        ("routes", c_uint32),
        ("status", c_int32),
        ("device", c_int32),
        ("is_synchronous", c_int32),
    ]


class ferry_options(Structure):
    """How to open an instance."""

    struct_size: int
    driver: int
    checks: int
    software_devices: int
    software_queues: int
    reserved: int
    software_memory: int
    get_proc: Any
    get_proc_user: int | None
    allocate: Any
    deallocate: Any
    allocate_user: int | None
    log: Any
    log_user: int | None
    register_chunk: int
    copy_flags: int
    kernels: int
    staging: int
    staging_threads: int
    staging_cpus: int | None
    staging_cpu_count: int
    staging_priority: int
    staging_numa: int
    staging_numa_node: int
    staging_bytes: int
    submit: Any
    submit_user: int | None
    deferred_bytes: int
    software_links: int
    reserved1: int
    trace: Any
    trace_user: int | None
    _fields_ = [
        ("struct_size", c_uint32),
        ("driver", c_int32),
        ("checks", c_int32),
        ("software_devices", c_uint32),
        ("software_queues", c_uint32),
        ("reserved", c_uint32),
        ("software_memory", c_uint64),
        ("get_proc", ferry_options_get_proc),
        ("get_proc_user", c_void_p),
        ("allocate", ferry_options_allocate),
        ("deallocate", ferry_options_deallocate),
        ("allocate_user", c_void_p),
        ("log", ferry_options_log),
        ("log_user", c_void_p),
        ("register_chunk", c_uint64),
        ("copy_flags", c_uint32),
        ("kernels", c_int32),
        ("staging", c_int32),
        ("staging_threads", c_uint32),
        ("staging_cpus", c_void_p),
        ("staging_cpu_count", c_uint32),
        ("staging_priority", c_int32),
        ("staging_numa", c_int32),
        ("staging_numa_node", c_int32),
        ("staging_bytes", c_uint64),
        ("submit", ferry_options_submit),
        ("submit_user", c_void_p),
        ("deferred_bytes", c_uint64),
        ("software_links", c_uint32),
        ("reserved1", c_uint32),
        ("trace", ferry_options_trace),
        ("trace_user", c_void_p),
    ]


class ferry_report(Structure):
    """What ferry_open found."""

    struct_size: int
    driver: int
    driver_version: int
    device_count: int
    fallback_reason: int
    missing_count: int
    checks: int
    failed_peers: int
    kernels: int
    kernels_loaded: int
    kernel_contexts: int
    staging: int
    staging_threads: int
    program_threads: int
    staging_bytes: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("driver", c_int32),
        ("driver_version", c_int32),
        ("device_count", c_int32),
        ("fallback_reason", c_int32),
        ("missing_count", c_uint32),
        ("checks", c_int32),
        ("failed_peers", c_uint32),
        ("kernels", c_int32),
        ("kernels_loaded", c_int32),
        ("kernel_contexts", c_uint32),
        ("staging", c_int32),
        ("staging_threads", c_uint32),
        ("program_threads", c_uint32),
        ("staging_bytes", c_uint64),
    ]


class ferry_device_info(Structure):
    """The facts of one device."""

    struct_size: int
    device: int
    name: bytes
    uuid: Any
    pci_address: bytes
    total_memory: int
    max_pitch: int
    is_software: int
    compute_major: int
    compute_minor: int
    sm_count: int
    copy_engine_count: int
    overlap: int
    unified_addressing: int
    pageable_access: int
    pageable_uses_host_page_tables: int
    can_map_host_memory: int
    host_register: int
    host_register_read_only: int
    registered_address_is_device_address: int
    managed_memory: int
    concurrent_managed_access: int
    memory_pools: int
    pool_handle_types: int
    numa_node: int
    integrated: int
    texture_pitch_alignment: int
    host_memory_pools: int
    host_numa_memory_pools: int
    ipc_events: int
    reserved: int
    luid: Any
    luid_node_mask: int
    reserved1: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("name", c_char * 128),
        ("uuid", c_uint8 * 16),
        ("pci_address", c_char * 32),
        ("total_memory", c_uint64),
        ("max_pitch", c_uint64),
        ("is_software", c_int32),
        ("compute_major", c_int32),
        ("compute_minor", c_int32),
        ("sm_count", c_int32),
        ("copy_engine_count", c_int32),
        ("overlap", c_int32),
        ("unified_addressing", c_int32),
        ("pageable_access", c_int32),
        ("pageable_uses_host_page_tables", c_int32),
        ("can_map_host_memory", c_int32),
        ("host_register", c_int32),
        ("host_register_read_only", c_int32),
        ("registered_address_is_device_address", c_int32),
        ("managed_memory", c_int32),
        ("concurrent_managed_access", c_int32),
        ("memory_pools", c_int32),
        ("pool_handle_types", c_uint32),
        ("numa_node", c_int32),
        ("integrated", c_int32),
        ("texture_pitch_alignment", c_int32),
        ("host_memory_pools", c_int32),
        ("host_numa_memory_pools", c_int32),
        ("ipc_events", c_int32),
        ("reserved", c_uint32),
        ("luid", c_uint8 * 8),
        ("luid_node_mask", c_uint32),
        ("reserved1", c_uint32),
    ]


class ferry_deferred_info(Structure):
    """What an instance keeps after ferry_device_free_deferred, ferry_host_free_deferred, ferry_array_destroy_async,
    ferry_mipmapped_array_destroy_async, ferry_external_memory_release_async and
    ferry_external_semaphore_release_async."""

    struct_size: int
    arrays: int
    allocations: int
    reserved: int
    bytes: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("arrays", c_uint32),
        ("allocations", c_uint32),
        ("reserved", c_uint32),
        ("bytes", c_uint64),
    ]


class ferry_host_options(Structure):
    """How to allocate host memory."""

    struct_size: int
    flags: int
    numa: int
    device: int
    numa_node: int
    threads: int
    min_size: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("numa", c_int32),
        ("device", c_int32),
        ("numa_node", c_int32),
        ("threads", c_uint32),
        ("min_size", c_uint64),
    ]


class ferry_host_block(Structure):
    """What was allocated."""

    struct_size: int
    memory: int
    address: int | None
    size: int
    origin: int
    numa_node: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("memory", c_int32),
        ("address", c_void_p),
        ("size", c_uint64),
        ("origin", c_int32),
        ("numa_node", c_int32),
    ]


class ferry_address_info(Structure):
    """What lies at an address."""

    struct_size: int
    memory: int
    device: int
    reserved: int
    range_start: int
    range_size: int
    device_address: int
    pool: int | None
    _fields_ = [
        ("struct_size", c_uint32),
        ("memory", c_int32),
        ("device", c_int32),
        ("reserved", c_uint32),
        ("range_start", c_uint64),
        ("range_size", c_uint64),
        ("device_address", c_uint64),
        ("pool", c_void_p),
    ]


class ferry_array_desc(Structure):
    """An array's shape."""

    struct_size: int
    format: int
    channels: int
    flags: int
    width: int
    height: int
    depth: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("format", c_int32),
        ("channels", c_uint32),
        ("flags", c_uint32),
        ("width", c_uint64),
        ("height", c_uint64),
        ("depth", c_uint64),
    ]


class ferry_pinned_pool_options(Structure):
    """How to create a pinned pool."""

    struct_size: int
    flags: int
    numa: int
    device: int
    numa_node: int
    reserved: int
    limit: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("numa", c_int32),
        ("device", c_int32),
        ("numa_node", c_int32),
        ("reserved", c_uint32),
        ("limit", c_uint64),
    ]


class ferry_pool_stats(Structure):
    """Bytes of a pool: now, and the high-water marks since the pool was created or the marks were reset."""

    struct_size: int
    reserved: int
    reserved_current: int
    reserved_high: int
    used_current: int
    used_high: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("reserved_current", c_uint64),
        ("reserved_high", c_uint64),
        ("used_current", c_uint64),
        ("used_high", c_uint64),
    ]


class ferry_pool_desc(Structure):
    """How to create a pool."""

    struct_size: int
    location: int
    index: int
    handle_types: int
    max_size: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("location", c_int32),
        ("index", c_int32),
        ("handle_types", c_uint32),
        ("max_size", c_uint64),
    ]


class ferry_pool_info(Structure):
    """The facts of one pool."""

    struct_size: int
    location: int
    index: int
    handle_types: int
    max_size: int
    is_default: int
    is_imported: int
    can_share: int
    reserved: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("location", c_int32),
        ("index", c_int32),
        ("handle_types", c_uint32),
        ("max_size", c_uint64),
        ("is_default", c_int32),
        ("is_imported", c_int32),
        ("can_share", c_int32),
        ("reserved", c_uint32),
    ]


class ferry_pool_attributes(Structure):
    """How a pool keeps and reuses memory."""

    struct_size: int
    reuse_follow_event_dependencies: int
    reuse_opportunistic: int
    reuse_internal_dependencies: int
    release_threshold: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("reuse_follow_event_dependencies", c_int32),
        ("reuse_opportunistic", c_int32),
        ("reuse_internal_dependencies", c_int32),
        ("release_threshold", c_uint64),
    ]


class ferry_ipc_handle(Structure):
    bytes: Any
    _fields_ = [
        ("bytes", c_uint8 * 256),
    ]


class ferry_ipc_info(Structure):
    """What a handle contains."""

    struct_size: int
    kind: int
    device: int
    handle_types: int
    size: int
    process: int
    device_uuid: Any
    is_own: int
    reserved: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("device", c_int32),
        ("handle_types", c_uint32),
        ("size", c_uint64),
        ("process", c_uint64),
        ("device_uuid", c_uint8 * 16),
        ("is_own", c_int32),
        ("reserved", c_uint32),
    ]


class ferry_peer_info(Structure):
    """One ordered pair of devices."""

    struct_size: int
    device: int
    peer: int
    can_access: int
    driver_can_access: int
    probe: int
    performance_rank: int
    native_atomics: int
    array_access: int
    reserved: int
    direct_rate: int
    bounce_rate: int
    relay_rate: int
    relay_fixed_ns: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("peer", c_int32),
        ("can_access", c_int32),
        ("driver_can_access", c_int32),
        ("probe", c_int32),
        ("performance_rank", c_int32),
        ("native_atomics", c_int32),
        ("array_access", c_int32),
        ("reserved", c_uint32),
        ("direct_rate", c_uint32),
        ("bounce_rate", c_uint32),
        ("relay_rate", c_uint32),
        ("relay_fixed_ns", c_uint32),
    ]


class ferry_multilink_options(Structure):
    """The devices whose host links copies of another device may take."""

    struct_size: int
    max_sms: int
    helpers: int | None
    helper_count: int
    reserved: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_sms", c_uint32),
        ("helpers", c_void_p),
        ("helper_count", c_uint32),
        ("reserved", c_uint32),
    ]


class ferry_external_memory_desc(Structure):
    """Memory that another API has exported."""

    struct_size: int
    device: int
    handle_type: int
    flags: int
    handle: int
    name: int | None
    size: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("handle_type", c_int32),
        ("flags", c_uint32),
        ("handle", c_int64),
        ("name", c_void_p),
        ("size", c_uint64),
    ]


class ferry_external_semaphore_desc(Structure):
    """A semaphore or fence that another API has exported."""

    struct_size: int
    device: int
    handle_type: int
    reserved: int
    handle: int
    name: int | None
    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("handle_type", c_int32),
        ("reserved", c_uint32),
        ("handle", c_int64),
        ("name", c_void_p),
    ]


class ferry_staging_info(Structure):
    """The resources for staged copies, and the number of copies in flight: enqueued and not ended; in a graph, while
    it runs."""

    struct_size: int
    threads: int
    busy_threads: int
    copies_in_flight: int
    staging_bytes: int
    bytes_in_flight: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("threads", c_uint32),
        ("busy_threads", c_uint32),
        ("copies_in_flight", c_uint32),
        ("staging_bytes", c_uint64),
        ("bytes_in_flight", c_uint64),
    ]


# Name: what it returns, and its parameters. Addresses of objects and structs are numbers or byref().
FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "ferry_version": (c_int32, []),
    "ferry_status_name": (c_char_p, [c_int32]),
    "ferry_status_text": (c_char_p, [c_int32]),
    "ferry_status_traits": (c_uint32, [c_int32]),
    "ferry_error_format": (c_uint64, [c_void_p, c_void_p, c_uint64]),
    "ferry_open": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_close": (None, [c_void_p]),
    "ferry_place_any": (None, [c_void_p, c_uint64]),
    "ferry_place_host": (None, [c_void_p, c_void_p]),
    "ferry_place_host_pitched": (None, [c_void_p, c_void_p, c_uint64, c_uint64]),
    "ferry_place_device": (None, [c_void_p, c_int32, c_uint64]),
    "ferry_place_device_pitched": (None, [c_void_p, c_int32, c_uint64, c_uint64, c_uint64]),
    "ferry_place_array": (None, [c_void_p, c_int32, c_void_p]),
    "ferry_place_array_layer": (None, [c_void_p, c_int32, c_void_p, c_uint64]),
    "ferry_copy_desc_init": (None, [c_void_p, c_void_p, c_void_p, c_uint64, c_uint64, c_uint64]),
    "ferry_copy": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_copy_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_copy_bytes": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p]),
    "ferry_copy_bytes_async": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_void_p]),
    "ferry_ticket_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_ticket_get_info": (c_int32, [c_void_p, c_void_p]),
    "ferry_ticket_wait": (c_int32, [c_void_p]),
    "ferry_ticket_release": (c_int32, [c_void_p]),
    "ferry_copy_batch": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p]),
    "ferry_copy_batch_async": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_void_p]),
    "ferry_copy_pieces": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_uint32, c_void_p]),
    "ferry_copy_pieces_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_void_p]),
    "ferry_prepared_create": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p]),
    "ferry_prepared_create_pieces": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p]),
    "ferry_prepared_launch": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_prepared_set_addresses": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_prepared_destroy": (c_int32, [c_void_p]),
    "ferry_fill_desc_init": (None, [c_void_p, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_uint32]),
    "ferry_fill": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_fill_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_obstacle_text": (c_char_p, [c_int32]),
    "ferry_copy_explain": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_copy_explain_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_explanation_format": (c_uint64, [c_void_p, c_void_p, c_uint64]),
    "ferry_copy_batch_explain_async": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p]),
    "ferry_copy_pieces_explain_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p]),
    "ferry_batch_explanation_format": (c_uint64, [c_void_p, c_void_p, c_uint64]),
    "ferry_instance_get_report": (c_int32, [c_void_p, c_void_p]),
    "ferry_instance_get_missing_entry_point": (c_char_p, [c_void_p, c_uint32]),
    "ferry_instance_get_proc": (c_void_p, [c_void_p, c_char_p, c_int32]),
    "ferry_device_get_info": (c_int32, [c_void_p, c_int32, c_void_p]),
    "ferry_device_find": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_context_retain_primary": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p]),
    "ferry_context_release_primary": (c_int32, [c_void_p, c_int32]),
    "ferry_context_create": (c_int32, [c_void_p, c_int32, c_uint32, c_void_p, c_void_p]),
    "ferry_context_destroy": (c_int32, [c_void_p, c_void_p]),
    "ferry_context_adopt": (c_int32, [c_void_p, c_int32, c_void_p]),
    "ferry_context_push": (c_int32, [c_void_p, c_int32, c_void_p]),
    "ferry_context_pop": (c_int32, [c_void_p, c_void_p]),
    "ferry_context_get_current": (c_int32, [c_void_p, c_void_p]),
    "ferry_context_synchronize": (c_int32, [c_void_p, c_int32, c_void_p]),
    "ferry_stream_create": (c_int32, [c_void_p, c_int32, c_uint32, c_int32, c_void_p, c_void_p]),
    "ferry_stream_destroy": (c_int32, [c_void_p, c_void_p]),
    "ferry_stream_synchronize": (c_int32, [c_void_p, c_void_p]),
    "ferry_stream_query": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_stream_notify": (c_int32, [c_void_p, c_void_p, ferry_stream_notify_done, c_void_p, c_void_p]),
    "ferry_stream_wait_event": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_event_create": (c_int32, [c_void_p, c_int32, c_uint32, c_void_p, c_void_p]),
    "ferry_event_destroy": (c_int32, [c_void_p, c_void_p]),
    "ferry_event_record": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_event_synchronize": (c_int32, [c_void_p, c_void_p]),
    "ferry_event_query": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_event_elapsed_time": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_device_alloc": (c_int32, [c_void_p, c_int32, c_uint64, c_void_p, c_void_p]),
    "ferry_device_alloc_pitched": (c_int32, [c_void_p, c_int32, c_uint64, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p]),
    "ferry_managed_alloc": (c_int32, [c_void_p, c_int32, c_uint64, c_void_p, c_void_p]),
    "ferry_device_free": (c_int32, [c_void_p, c_uint64]),
    "ferry_device_free_deferred": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "ferry_deferred_get_info": (c_int32, [c_void_p, c_int32, c_void_p]),
    "ferry_deferred_trim": (c_int32, [c_void_p, c_int32, c_uint64]),
    "ferry_host_alloc": (c_int32, [c_void_p, c_uint64, c_void_p, c_void_p, c_void_p]),
    "ferry_host_free": (c_int32, [c_void_p, c_void_p]),
    "ferry_host_free_deferred": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_host_register": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p]),
    "ferry_host_unregister": (c_int32, [c_void_p, c_void_p]),
    "ferry_address_get_info": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "ferry_array_create": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p, c_void_p]),
    "ferry_array_destroy": (c_int32, [c_void_p, c_void_p]),
    "ferry_array_destroy_async": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_mipmapped_array_create": (c_int32, [c_void_p, c_int32, c_void_p, c_uint32, c_void_p, c_void_p]),
    "ferry_mipmapped_array_get_level": (c_int32, [c_void_p, c_void_p, c_uint32, c_void_p]),
    "ferry_mipmapped_array_destroy": (c_int32, [c_void_p, c_void_p]),
    "ferry_mipmapped_array_destroy_async": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_array_get_plane": (c_int32, [c_void_p, c_void_p, c_uint32, c_void_p]),
    "ferry_array_get_info": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_pinned_pool_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_pinned_pool_destroy": (c_int32, [c_void_p]),
    "ferry_pinned_pool_alloc": (c_int32, [c_void_p, c_uint64, c_void_p, c_void_p]),
    "ferry_pinned_pool_alloc_async": (c_int32, [c_void_p, c_uint64, c_void_p, c_void_p, c_void_p]),
    "ferry_pinned_pool_free": (c_int32, [c_void_p, c_void_p]),
    "ferry_pinned_pool_free_async": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_pinned_pool_trim": (c_int32, [c_void_p, c_uint64]),
    "ferry_pinned_pool_get_stats": (c_int32, [c_void_p, c_void_p]),
    "ferry_pinned_pool_reset_stats": (c_int32, [c_void_p]),
    "ferry_device_alloc_async": (c_int32, [c_void_p, c_int32, c_uint64, c_void_p, c_void_p, c_void_p]),
    "ferry_device_free_async": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "ferry_pool_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_pool_destroy": (c_int32, [c_void_p, c_void_p]),
    "ferry_pool_get_default": (c_int32, [c_void_p, c_int32, c_int32, c_void_p]),
    "ferry_pool_get_current": (c_int32, [c_void_p, c_int32, c_int32, c_void_p]),
    "ferry_pool_set_current": (c_int32, [c_void_p, c_int32, c_int32, c_void_p]),
    "ferry_pool_alloc_async": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p, c_void_p]),
    "ferry_pool_get_info": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_pool_get_attributes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_pool_set_attributes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_pool_get_stats": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_pool_reset_stats": (c_int32, [c_void_p, c_void_p]),
    "ferry_pool_trim": (c_int32, [c_void_p, c_void_p, c_uint64]),
    "ferry_pool_set_access": (c_int32, [c_void_p, c_void_p, c_int32, c_int32]),
    "ferry_pool_get_access": (c_int32, [c_void_p, c_void_p, c_int32, c_void_p]),
    "ferry_ipc_get_info": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_ipc_export_memory": (c_int32, [c_void_p, c_uint64, c_uint64, c_void_p, c_void_p]),
    "ferry_ipc_export_pool": (c_int32, [c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p]),
    "ferry_ipc_export_event": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_ipc_import_memory": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_ipc_import_pool": (c_int32, [c_void_p, c_void_p, c_int64, c_void_p, c_void_p]),
    "ferry_ipc_import_event": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_ipc_close_memory": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "ferry_ipc_close_pool": (c_int32, [c_void_p, c_void_p]),
    "ferry_ipc_close_event": (c_int32, [c_void_p, c_void_p]),
    "ferry_peer_get_info": (c_int32, [c_void_p, c_int32, c_int32, c_void_p]),
    "ferry_peer_probe": (c_int32, [c_void_p, c_int32, c_int32]),
    "ferry_peer_enable": (c_int32, [c_void_p, c_int32, c_int32]),
    "ferry_peer_disable": (c_int32, [c_void_p, c_int32, c_int32]),
    "ferry_peer_calibrate": (c_int32, [c_void_p, c_int32, c_int32, c_void_p]),
    "ferry_multilink_set": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p]),
    "ferry_external_memory_import": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_external_memory_get_address": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint64, c_void_p, c_void_p]),
    "ferry_external_memory_get_array": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint32, c_void_p, c_void_p]),
    "ferry_external_memory_release": (c_int32, [c_void_p, c_void_p]),
    "ferry_external_memory_release_async": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_external_semaphore_import": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_external_semaphore_signal_async": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "ferry_external_semaphore_wait_async": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, c_void_p]),
    "ferry_external_semaphore_release": (c_int32, [c_void_p, c_void_p]),
    "ferry_external_semaphore_release_async": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "ferry_staging_get_info": (c_int32, [c_void_p, c_void_p]),
    "ferry_staging_prepare": (c_int32, [c_void_p, c_int32]),
    "ferry_staging_trim": (c_int32, [c_void_p]),
    "ferry_device_calibrate": (c_int32, [c_void_p, c_int32, c_void_p]),
    "ferry_profile_save": (c_int32, [c_void_p, c_int32, c_void_p, c_uint64, c_void_p]),
    "ferry_profile_load": (c_int32, [c_void_p, c_char_p, c_uint64, c_void_p]),
}


def load(file: str) -> CDLL:
    """Loads the library and declares its functions. A call releases the interpreter's lock."""
    library = CDLL(file)
    for name, (returned, parameters) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = returned
        function.argtypes = parameters
    return library
