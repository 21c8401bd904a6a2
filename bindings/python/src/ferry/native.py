"""ferry's C interface, one to one. Made by generate.py from ferry.json: do not edit."""
from __future__ import annotations

from ctypes import (CDLL, CFUNCTYPE, Structure, c_char, c_char_p, c_float, c_int32, c_int64, c_uint8, c_uint32,
                    c_uint64, c_void_p)
from enum import IntEnum, IntFlag
from typing import Any, Final

VERSION: Final = "0.6.0"

FERRY_VERSION_MAJOR: Final = 0
FERRY_VERSION_MINOR: Final = 6
FERRY_VERSION_PATCH: Final = 0


class Status(IntEnum):
    """FERRY_ERROR_*"""

    SUCCESS = 0
    INVALID_ARGUMENT = -1
    OUT_OF_MEMORY = -2
    ABI_MISMATCH = -3
    RESERVED = -4
    FLAGS = -5
    KIND = -6
    DEVICE = -7
    ADDRESS = -8
    PITCH = -9
    OVERFLOW = -10
    OUT_OF_BOUNDS = -11
    OVERLAP = -12
    ARRAY_FORMAT = -13
    NO_DRIVER = -14
    DRIVER_TOO_OLD = -15
    NO_DEVICE = -16
    UNSUPPORTED = -17
    SOFTWARE_CONFIG = -18
    NO_CONTEXT = -19
    PEER_ACCESS = -20
    ALIGNMENT = -21
    CAPTURE = -22
    LIMIT = -23
    IN_USE = -24
    HANDLE = -25
    MACHINE = -26
    POOL = -27
    IMPORTED = -28
    NOT_SHAREABLE = -29
    PROFILE = -30
    ROUTE = -31


FERRY_SUCCESS: Final = Status.SUCCESS
FERRY_ERROR_INVALID_ARGUMENT: Final = Status.INVALID_ARGUMENT
FERRY_ERROR_OUT_OF_MEMORY: Final = Status.OUT_OF_MEMORY
FERRY_ERROR_ABI_MISMATCH: Final = Status.ABI_MISMATCH
FERRY_ERROR_RESERVED: Final = Status.RESERVED
FERRY_ERROR_FLAGS: Final = Status.FLAGS
FERRY_ERROR_KIND: Final = Status.KIND
FERRY_ERROR_DEVICE: Final = Status.DEVICE
FERRY_ERROR_ADDRESS: Final = Status.ADDRESS
FERRY_ERROR_PITCH: Final = Status.PITCH
FERRY_ERROR_OVERFLOW: Final = Status.OVERFLOW
FERRY_ERROR_OUT_OF_BOUNDS: Final = Status.OUT_OF_BOUNDS
FERRY_ERROR_OVERLAP: Final = Status.OVERLAP
FERRY_ERROR_ARRAY_FORMAT: Final = Status.ARRAY_FORMAT
FERRY_ERROR_NO_DRIVER: Final = Status.NO_DRIVER
FERRY_ERROR_DRIVER_TOO_OLD: Final = Status.DRIVER_TOO_OLD
FERRY_ERROR_NO_DEVICE: Final = Status.NO_DEVICE
FERRY_ERROR_UNSUPPORTED: Final = Status.UNSUPPORTED
FERRY_ERROR_SOFTWARE_CONFIG: Final = Status.SOFTWARE_CONFIG
FERRY_ERROR_NO_CONTEXT: Final = Status.NO_CONTEXT
FERRY_ERROR_PEER_ACCESS: Final = Status.PEER_ACCESS
FERRY_ERROR_ALIGNMENT: Final = Status.ALIGNMENT
FERRY_ERROR_CAPTURE: Final = Status.CAPTURE
FERRY_ERROR_LIMIT: Final = Status.LIMIT
FERRY_ERROR_IN_USE: Final = Status.IN_USE
FERRY_ERROR_HANDLE: Final = Status.HANDLE
FERRY_ERROR_MACHINE: Final = Status.MACHINE
FERRY_ERROR_POOL: Final = Status.POOL
FERRY_ERROR_IMPORTED: Final = Status.IMPORTED
FERRY_ERROR_NOT_SHAREABLE: Final = Status.NOT_SHAREABLE
FERRY_ERROR_PROFILE: Final = Status.PROFILE
FERRY_ERROR_ROUTE: Final = Status.ROUTE

FERRY_STATUS_DRIVER_BASE: Final = -1000


class Traits(IntFlag):
    """FERRY_STATUS_*"""

    CONTEXT_DEAD = 0x1
    RETRY = 0x2


FERRY_STATUS_CONTEXT_DEAD: Final = Traits.CONTEXT_DEAD
FERRY_STATUS_RETRY: Final = Traits.RETRY


class Side(IntEnum):
    """FERRY_SIDE_*"""

    NONE = 0
    SOURCE = 1
    DESTINATION = 2
    EXTENT = 3
    DESCRIPTOR = 4
    OPTIONS = 5


FERRY_SIDE_NONE: Final = Side.NONE
FERRY_SIDE_SOURCE: Final = Side.SOURCE
FERRY_SIDE_DESTINATION: Final = Side.DESTINATION
FERRY_SIDE_EXTENT: Final = Side.EXTENT
FERRY_SIDE_DESCRIPTOR: Final = Side.DESCRIPTOR
FERRY_SIDE_OPTIONS: Final = Side.OPTIONS


class Field(IntEnum):
    """FERRY_FIELD_*"""

    NONE = 0
    KIND = 1
    DEVICE = 2
    ADDRESS = 3
    ARRAY = 4
    ROW_PITCH = 5
    SLICE_HEIGHT = 6
    X = 7
    Y = 8
    Z = 9
    WIDTH = 10
    HEIGHT = 11
    DEPTH = 12
    FLAGS = 13
    RESERVED = 14
    STRUCT_SIZE = 15
    DRIVER = 16
    CHECKS = 17
    CALLBACKS = 18
    SOFTWARE = 19
    PATTERN = 20
    NUMA = 21
    NUMA_NODE = 22
    THREADS = 23
    SIZE = 24
    LOCATION = 25
    INDEX = 26
    HANDLE_TYPES = 27
    HANDLE = 28
    OS_HANDLE = 29
    POOL = 30
    EVENT = 31
    REGISTER_CHUNK = 32
    VERSION = 33
    LINE = 34
    KERNELS = 35
    STAGING = 36
    STAGING_CPUS = 37
    STAGING_PRIORITY = 38
    STAGING_BYTES = 39
    SOFTWARE_DEVICES = 40
    SOFTWARE_QUEUES = 41
    FORMAT = 42
    CHANNELS = 43
    SOFTWARE_LINKS = 44
    HELPERS = 45
    TRACE_PHASES = 46


FERRY_FIELD_NONE: Final = Field.NONE
FERRY_FIELD_KIND: Final = Field.KIND
FERRY_FIELD_DEVICE: Final = Field.DEVICE
FERRY_FIELD_ADDRESS: Final = Field.ADDRESS
FERRY_FIELD_ARRAY: Final = Field.ARRAY
FERRY_FIELD_ROW_PITCH: Final = Field.ROW_PITCH
FERRY_FIELD_SLICE_HEIGHT: Final = Field.SLICE_HEIGHT
FERRY_FIELD_X: Final = Field.X
FERRY_FIELD_Y: Final = Field.Y
FERRY_FIELD_Z: Final = Field.Z
FERRY_FIELD_WIDTH: Final = Field.WIDTH
FERRY_FIELD_HEIGHT: Final = Field.HEIGHT
FERRY_FIELD_DEPTH: Final = Field.DEPTH
FERRY_FIELD_FLAGS: Final = Field.FLAGS
FERRY_FIELD_RESERVED: Final = Field.RESERVED
FERRY_FIELD_STRUCT_SIZE: Final = Field.STRUCT_SIZE
FERRY_FIELD_DRIVER: Final = Field.DRIVER
FERRY_FIELD_CHECKS: Final = Field.CHECKS
FERRY_FIELD_CALLBACKS: Final = Field.CALLBACKS
FERRY_FIELD_SOFTWARE: Final = Field.SOFTWARE
FERRY_FIELD_PATTERN: Final = Field.PATTERN
FERRY_FIELD_NUMA: Final = Field.NUMA
FERRY_FIELD_NUMA_NODE: Final = Field.NUMA_NODE
FERRY_FIELD_THREADS: Final = Field.THREADS
FERRY_FIELD_SIZE: Final = Field.SIZE
FERRY_FIELD_LOCATION: Final = Field.LOCATION
FERRY_FIELD_INDEX: Final = Field.INDEX
FERRY_FIELD_HANDLE_TYPES: Final = Field.HANDLE_TYPES
FERRY_FIELD_HANDLE: Final = Field.HANDLE
FERRY_FIELD_OS_HANDLE: Final = Field.OS_HANDLE
FERRY_FIELD_POOL: Final = Field.POOL
FERRY_FIELD_EVENT: Final = Field.EVENT
FERRY_FIELD_REGISTER_CHUNK: Final = Field.REGISTER_CHUNK
FERRY_FIELD_VERSION: Final = Field.VERSION
FERRY_FIELD_LINE: Final = Field.LINE
FERRY_FIELD_KERNELS: Final = Field.KERNELS
FERRY_FIELD_STAGING: Final = Field.STAGING
FERRY_FIELD_STAGING_CPUS: Final = Field.STAGING_CPUS
FERRY_FIELD_STAGING_PRIORITY: Final = Field.STAGING_PRIORITY
FERRY_FIELD_STAGING_BYTES: Final = Field.STAGING_BYTES
FERRY_FIELD_SOFTWARE_DEVICES: Final = Field.SOFTWARE_DEVICES
FERRY_FIELD_SOFTWARE_QUEUES: Final = Field.SOFTWARE_QUEUES
FERRY_FIELD_FORMAT: Final = Field.FORMAT
FERRY_FIELD_CHANNELS: Final = Field.CHANNELS
FERRY_FIELD_SOFTWARE_LINKS: Final = Field.SOFTWARE_LINKS
FERRY_FIELD_HELPERS: Final = Field.HELPERS
FERRY_FIELD_TRACE_PHASES: Final = Field.TRACE_PHASES


class PlaceKind(IntEnum):
    """FERRY_KIND_*"""

    ANY = 0
    HOST = 1
    DEVICE = 2
    ARRAY = 3


FERRY_KIND_ANY: Final = PlaceKind.ANY
FERRY_KIND_HOST: Final = PlaceKind.HOST
FERRY_KIND_DEVICE: Final = PlaceKind.DEVICE
FERRY_KIND_ARRAY: Final = PlaceKind.ARRAY

FERRY_DEVICE_UNKNOWN: Final = -1


class CopyFlags(IntFlag):
    """FERRY_COPY_*"""

    URGENT = 0x1
    NO_KERNELS = 0x2
    SOURCE_READ = 0x4
    MULTILINK = 0x8
    DESTINATION_WRITTEN = 0x10
    BY_DRIVER = 0x100
    BY_KERNEL = 0x200
    BY_STAGING = 0x400
    BY_RELAY = 0x800
    DEFAULT = 0xffff0000


FERRY_COPY_URGENT: Final = CopyFlags.URGENT
FERRY_COPY_NO_KERNELS: Final = CopyFlags.NO_KERNELS
FERRY_COPY_SOURCE_READ: Final = CopyFlags.SOURCE_READ
FERRY_COPY_MULTILINK: Final = CopyFlags.MULTILINK
FERRY_COPY_DESTINATION_WRITTEN: Final = CopyFlags.DESTINATION_WRITTEN
FERRY_COPY_BY_DRIVER: Final = CopyFlags.BY_DRIVER
FERRY_COPY_BY_KERNEL: Final = CopyFlags.BY_KERNEL
FERRY_COPY_BY_STAGING: Final = CopyFlags.BY_STAGING
FERRY_COPY_BY_RELAY: Final = CopyFlags.BY_RELAY
FERRY_COPY_DEFAULT: Final = CopyFlags.DEFAULT

FERRY_COPY_MAX_SMS_SHIFT: Final = 16


class BatchFlags(IntFlag):
    """FERRY_BATCH_*"""

    CHECK_OVERLAP = 0x1000
    UPDATABLE = 0x2000


FERRY_BATCH_CHECK_OVERLAP: Final = BatchFlags.CHECK_OVERLAP
FERRY_BATCH_UPDATABLE: Final = BatchFlags.UPDATABLE


class Route(IntEnum):
    """FERRY_ROUTE_*"""

    NONE = 0
    DRIVER = 1
    KERNEL = 2
    STAGED = 3
    BUFFERED = 4
    RELAYED = 5
    MULTILINK = 6


FERRY_ROUTE_NONE: Final = Route.NONE
FERRY_ROUTE_DRIVER: Final = Route.DRIVER
FERRY_ROUTE_KERNEL: Final = Route.KERNEL
FERRY_ROUTE_STAGED: Final = Route.STAGED
FERRY_ROUTE_BUFFERED: Final = Route.BUFFERED
FERRY_ROUTE_RELAYED: Final = Route.RELAYED
FERRY_ROUTE_MULTILINK: Final = Route.MULTILINK


class Obstacle(IntEnum):
    """FERRY_OBSTACLE_*"""

    NONE = 0
    NO_ROUTE = 1
    FORBIDDEN = 2
    NOT_LOADED = 3
    HOST_TO_HOST = 4
    PAGEABLE = 5
    MANAGED = 6
    ARRAY = 7
    NO_ACCESS = 8
    BEYOND = 9
    READ_ONLY = 10
    NOT_PAGEABLE = 11
    NO_STAGING = 12
    OTHER_DEVICE = 13
    DIRECT = 14
    NOT_BETWEEN_DEVICES = 15
    DIRECT_ACCESS = 16
    NO_HELPERS = 17
    NOT_CUT = 18
    SMALL = 19
    CAPTURED = 20


FERRY_OBSTACLE_NONE: Final = Obstacle.NONE
FERRY_OBSTACLE_NO_ROUTE: Final = Obstacle.NO_ROUTE
FERRY_OBSTACLE_FORBIDDEN: Final = Obstacle.FORBIDDEN
FERRY_OBSTACLE_NOT_LOADED: Final = Obstacle.NOT_LOADED
FERRY_OBSTACLE_HOST_TO_HOST: Final = Obstacle.HOST_TO_HOST
FERRY_OBSTACLE_PAGEABLE: Final = Obstacle.PAGEABLE
FERRY_OBSTACLE_MANAGED: Final = Obstacle.MANAGED
FERRY_OBSTACLE_ARRAY: Final = Obstacle.ARRAY
FERRY_OBSTACLE_NO_ACCESS: Final = Obstacle.NO_ACCESS
FERRY_OBSTACLE_BEYOND: Final = Obstacle.BEYOND
FERRY_OBSTACLE_READ_ONLY: Final = Obstacle.READ_ONLY
FERRY_OBSTACLE_NOT_PAGEABLE: Final = Obstacle.NOT_PAGEABLE
FERRY_OBSTACLE_NO_STAGING: Final = Obstacle.NO_STAGING
FERRY_OBSTACLE_OTHER_DEVICE: Final = Obstacle.OTHER_DEVICE
FERRY_OBSTACLE_DIRECT: Final = Obstacle.DIRECT
FERRY_OBSTACLE_NOT_BETWEEN_DEVICES: Final = Obstacle.NOT_BETWEEN_DEVICES
FERRY_OBSTACLE_DIRECT_ACCESS: Final = Obstacle.DIRECT_ACCESS
FERRY_OBSTACLE_NO_HELPERS: Final = Obstacle.NO_HELPERS
FERRY_OBSTACLE_NOT_CUT: Final = Obstacle.NOT_CUT
FERRY_OBSTACLE_SMALL: Final = Obstacle.SMALL
FERRY_OBSTACLE_CAPTURED: Final = Obstacle.CAPTURED


class Reason(IntEnum):
    """FERRY_REASON_*"""

    NONE = 0
    LINE = 1
    ONLY = 2
    PREDICTED = 3
    NO_WAIT = 4
    FORCED = 5
    URGENT = 6
    SOURCE_READ = 7
    MULTILINK = 8


FERRY_REASON_NONE: Final = Reason.NONE
FERRY_REASON_LINE: Final = Reason.LINE
FERRY_REASON_ONLY: Final = Reason.ONLY
FERRY_REASON_PREDICTED: Final = Reason.PREDICTED
FERRY_REASON_NO_WAIT: Final = Reason.NO_WAIT
FERRY_REASON_FORCED: Final = Reason.FORCED
FERRY_REASON_URGENT: Final = Reason.URGENT
FERRY_REASON_SOURCE_READ: Final = Reason.SOURCE_READ
FERRY_REASON_MULTILINK: Final = Reason.MULTILINK


class Profile(IntEnum):
    """FERRY_PROFILE_*"""

    NONE = 0
    BUILT_IN = 1
    CAUTIOUS = 2
    MEASURED = 3


FERRY_PROFILE_NONE: Final = Profile.NONE
FERRY_PROFILE_BUILT_IN: Final = Profile.BUILT_IN
FERRY_PROFILE_CAUTIOUS: Final = Profile.CAUTIOUS
FERRY_PROFILE_MEASURED: Final = Profile.MEASURED


class Blocks(IntEnum):
    """FERRY_BLOCKS_*"""

    NO = 0
    UNTIL_STAGED = 1
    UNTIL_DONE = 2


FERRY_BLOCKS_NO: Final = Blocks.NO
FERRY_BLOCKS_UNTIL_STAGED: Final = Blocks.UNTIL_STAGED
FERRY_BLOCKS_UNTIL_DONE: Final = Blocks.UNTIL_DONE


class Driver(IntEnum):
    """FERRY_DRIVER_*"""

    CUDA = 0
    AUTO = 1
    SOFTWARE = 2


FERRY_DRIVER_CUDA: Final = Driver.CUDA
FERRY_DRIVER_AUTO: Final = Driver.AUTO
FERRY_DRIVER_SOFTWARE: Final = Driver.SOFTWARE


class Checks(IntEnum):
    """FERRY_CHECKS_*"""

    BASIC = 0
    FULL = 1


FERRY_CHECKS_BASIC: Final = Checks.BASIC
FERRY_CHECKS_FULL: Final = Checks.FULL


class Kernels(IntEnum):
    """FERRY_KERNELS_*"""

    LAZY = 0
    AT_OPEN = 1
    NONE = 2


FERRY_KERNELS_LAZY: Final = Kernels.LAZY
FERRY_KERNELS_AT_OPEN: Final = Kernels.AT_OPEN
FERRY_KERNELS_NONE: Final = Kernels.NONE


class Staging(IntEnum):
    """FERRY_STAGING_*"""

    LAZY = 0
    AT_OPEN = 1
    NONE = 2


FERRY_STAGING_LAZY: Final = Staging.LAZY
FERRY_STAGING_AT_OPEN: Final = Staging.AT_OPEN
FERRY_STAGING_NONE: Final = Staging.NONE


class Numa(IntEnum):
    """FERRY_NUMA_*"""

    ANY = 0
    DEVICE = 1
    NODE = 2


FERRY_NUMA_ANY: Final = Numa.ANY
FERRY_NUMA_DEVICE: Final = Numa.DEVICE
FERRY_NUMA_NODE: Final = Numa.NODE

FERRY_PRIORITY_OF_PROCESS: Final = 20


class SoftwareLinks(IntEnum):
    """FERRY_SOFTWARE_LINKS_*"""

    DEFAULT = 0
    ALL = 1
    NONE = 2
    PAIRS = 3
    LOSSY = 4


FERRY_SOFTWARE_LINKS_DEFAULT: Final = SoftwareLinks.DEFAULT
FERRY_SOFTWARE_LINKS_ALL: Final = SoftwareLinks.ALL
FERRY_SOFTWARE_LINKS_NONE: Final = SoftwareLinks.NONE
FERRY_SOFTWARE_LINKS_PAIRS: Final = SoftwareLinks.PAIRS
FERRY_SOFTWARE_LINKS_LOSSY: Final = SoftwareLinks.LOSSY


class LogLevel(IntEnum):
    """FERRY_LOG_*"""

    ERROR = 0
    WARNING = 1
    INFO = 2


FERRY_LOG_ERROR: Final = LogLevel.ERROR
FERRY_LOG_WARNING: Final = LogLevel.WARNING
FERRY_LOG_INFO: Final = LogLevel.INFO


class Trace(IntEnum):
    """FERRY_TRACE_*"""

    COPY = 1
    BATCH = 2
    PREPARED = 3
    FILL = 4


FERRY_TRACE_COPY: Final = Trace.COPY
FERRY_TRACE_BATCH: Final = Trace.BATCH
FERRY_TRACE_PREPARED: Final = Trace.PREPARED
FERRY_TRACE_FILL: Final = Trace.FILL


class PhaseFlags(IntFlag):
    """FERRY_PHASE_*"""

    BEGIN = 0x1
    RETURN = 0x2
    DONE = 0x4


FERRY_PHASE_BEGIN: Final = PhaseFlags.BEGIN
FERRY_PHASE_RETURN: Final = PhaseFlags.RETURN
FERRY_PHASE_DONE: Final = PhaseFlags.DONE


class CopyOverlap(IntEnum):
    """FERRY_COPY_OVERLAP_*"""

    NONE = 0
    ONE_WAY = 1
    BOTH_WAYS = 2
    BOTH_AND_MORE = 3


FERRY_COPY_OVERLAP_NONE: Final = CopyOverlap.NONE
FERRY_COPY_OVERLAP_ONE_WAY: Final = CopyOverlap.ONE_WAY
FERRY_COPY_OVERLAP_BOTH_WAYS: Final = CopyOverlap.BOTH_WAYS
FERRY_COPY_OVERLAP_BOTH_AND_MORE: Final = CopyOverlap.BOTH_AND_MORE


class HandleTypes(IntFlag):
    """FERRY_HANDLE_*"""

    POSIX_FD = 0x1
    WIN32 = 0x2
    WIN32_KMT = 0x4
    FABRIC = 0x8


FERRY_HANDLE_POSIX_FD: Final = HandleTypes.POSIX_FD
FERRY_HANDLE_WIN32: Final = HandleTypes.WIN32
FERRY_HANDLE_WIN32_KMT: Final = HandleTypes.WIN32_KMT
FERRY_HANDLE_FABRIC: Final = HandleTypes.FABRIC

FERRY_STREAM_LEGACY: Final = 1
FERRY_STREAM_PER_THREAD: Final = 2


class StreamFlags(IntFlag):
    """FERRY_STREAM_NON_BLOCKING"""

    NON_BLOCKING = 0x1


FERRY_STREAM_NON_BLOCKING: Final = StreamFlags.NON_BLOCKING


class EventFlags(IntFlag):
    """FERRY_EVENT_*"""

    BLOCKING_SYNC = 0x1
    DISABLE_TIMING = 0x2
    INTERPROCESS = 0x4


FERRY_EVENT_BLOCKING_SYNC: Final = EventFlags.BLOCKING_SYNC
FERRY_EVENT_DISABLE_TIMING: Final = EventFlags.DISABLE_TIMING
FERRY_EVENT_INTERPROCESS: Final = EventFlags.INTERPROCESS


class HostFlags(IntFlag):
    """FERRY_HOST_*"""

    WRITE_COMBINED = 0x1
    BY_DRIVER = 0x2
    NOT_PORTABLE = 0x4
    NOT_MAPPED = 0x8
    ALLOW_SMALLER = 0x10
    ALLOW_PAGEABLE = 0x20
    SHARED = 0x40


FERRY_HOST_WRITE_COMBINED: Final = HostFlags.WRITE_COMBINED
FERRY_HOST_BY_DRIVER: Final = HostFlags.BY_DRIVER
FERRY_HOST_NOT_PORTABLE: Final = HostFlags.NOT_PORTABLE
FERRY_HOST_NOT_MAPPED: Final = HostFlags.NOT_MAPPED
FERRY_HOST_ALLOW_SMALLER: Final = HostFlags.ALLOW_SMALLER
FERRY_HOST_ALLOW_PAGEABLE: Final = HostFlags.ALLOW_PAGEABLE
FERRY_HOST_SHARED: Final = HostFlags.SHARED


class HostFrom(IntEnum):
    """FERRY_HOST_FROM_*"""

    MAPPING = 1
    DRIVER = 2
    SYSTEM = 3


FERRY_HOST_FROM_MAPPING: Final = HostFrom.MAPPING
FERRY_HOST_FROM_DRIVER: Final = HostFrom.DRIVER
FERRY_HOST_FROM_SYSTEM: Final = HostFrom.SYSTEM


class RegisterFlags(IntFlag):
    """FERRY_REGISTER_*"""

    READ_ONLY = 0x1


FERRY_REGISTER_READ_ONLY: Final = RegisterFlags.READ_ONLY


class MemoryKind(IntEnum):
    """FERRY_MEMORY_*"""

    NONE = -1
    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    MANAGED = 3
    ARRAY = 4


FERRY_MEMORY_NONE: Final = MemoryKind.NONE
FERRY_MEMORY_PAGEABLE: Final = MemoryKind.PAGEABLE
FERRY_MEMORY_PINNED: Final = MemoryKind.PINNED
FERRY_MEMORY_DEVICE: Final = MemoryKind.DEVICE
FERRY_MEMORY_MANAGED: Final = MemoryKind.MANAGED
FERRY_MEMORY_ARRAY: Final = MemoryKind.ARRAY


class Format(IntEnum):
    """FERRY_FORMAT_*"""

    UINT8 = 1
    UINT16 = 2
    UINT32 = 3
    SINT8 = 8
    SINT16 = 9
    SINT32 = 10
    HALF = 16
    FLOAT = 32
    UNORM_INT8X1 = 192
    UNORM_INT8X2 = 193
    UNORM_INT8X4 = 194
    UNORM_INT16X1 = 195
    UNORM_INT16X2 = 196
    UNORM_INT16X4 = 197
    SNORM_INT8X1 = 198
    SNORM_INT8X2 = 199
    SNORM_INT8X4 = 200
    SNORM_INT16X1 = 201
    SNORM_INT16X2 = 202
    SNORM_INT16X4 = 203
    UNORM_INT_101010_2 = 80
    BC1_UNORM = 145
    BC1_UNORM_SRGB = 146
    BC2_UNORM = 147
    BC2_UNORM_SRGB = 148
    BC3_UNORM = 149
    BC3_UNORM_SRGB = 150
    BC4_UNORM = 151
    BC4_SNORM = 152
    BC5_UNORM = 153
    BC5_SNORM = 154
    BC6H_UF16 = 155
    BC6H_SF16 = 156
    BC7_UNORM = 157
    BC7_UNORM_SRGB = 158
    NV12 = 176
    P010 = 159
    P016 = 161
    NV16 = 162
    P210 = 163
    P216 = 164
    YUY2 = 165
    Y210 = 166
    Y216 = 167
    AYUV = 168
    Y410 = 169
    Y416 = 177
    Y444_PLANAR8 = 178
    Y444_PLANAR10 = 179
    YUV444_8BIT_SEMIPLANAR = 180
    YUV444_16BIT_SEMIPLANAR = 181


FERRY_FORMAT_UINT8: Final = Format.UINT8
FERRY_FORMAT_UINT16: Final = Format.UINT16
FERRY_FORMAT_UINT32: Final = Format.UINT32
FERRY_FORMAT_SINT8: Final = Format.SINT8
FERRY_FORMAT_SINT16: Final = Format.SINT16
FERRY_FORMAT_SINT32: Final = Format.SINT32
FERRY_FORMAT_HALF: Final = Format.HALF
FERRY_FORMAT_FLOAT: Final = Format.FLOAT
FERRY_FORMAT_UNORM_INT8X1: Final = Format.UNORM_INT8X1
FERRY_FORMAT_UNORM_INT8X2: Final = Format.UNORM_INT8X2
FERRY_FORMAT_UNORM_INT8X4: Final = Format.UNORM_INT8X4
FERRY_FORMAT_UNORM_INT16X1: Final = Format.UNORM_INT16X1
FERRY_FORMAT_UNORM_INT16X2: Final = Format.UNORM_INT16X2
FERRY_FORMAT_UNORM_INT16X4: Final = Format.UNORM_INT16X4
FERRY_FORMAT_SNORM_INT8X1: Final = Format.SNORM_INT8X1
FERRY_FORMAT_SNORM_INT8X2: Final = Format.SNORM_INT8X2
FERRY_FORMAT_SNORM_INT8X4: Final = Format.SNORM_INT8X4
FERRY_FORMAT_SNORM_INT16X1: Final = Format.SNORM_INT16X1
FERRY_FORMAT_SNORM_INT16X2: Final = Format.SNORM_INT16X2
FERRY_FORMAT_SNORM_INT16X4: Final = Format.SNORM_INT16X4
FERRY_FORMAT_UNORM_INT_101010_2: Final = Format.UNORM_INT_101010_2
FERRY_FORMAT_BC1_UNORM: Final = Format.BC1_UNORM
FERRY_FORMAT_BC1_UNORM_SRGB: Final = Format.BC1_UNORM_SRGB
FERRY_FORMAT_BC2_UNORM: Final = Format.BC2_UNORM
FERRY_FORMAT_BC2_UNORM_SRGB: Final = Format.BC2_UNORM_SRGB
FERRY_FORMAT_BC3_UNORM: Final = Format.BC3_UNORM
FERRY_FORMAT_BC3_UNORM_SRGB: Final = Format.BC3_UNORM_SRGB
FERRY_FORMAT_BC4_UNORM: Final = Format.BC4_UNORM
FERRY_FORMAT_BC4_SNORM: Final = Format.BC4_SNORM
FERRY_FORMAT_BC5_UNORM: Final = Format.BC5_UNORM
FERRY_FORMAT_BC5_SNORM: Final = Format.BC5_SNORM
FERRY_FORMAT_BC6H_UF16: Final = Format.BC6H_UF16
FERRY_FORMAT_BC6H_SF16: Final = Format.BC6H_SF16
FERRY_FORMAT_BC7_UNORM: Final = Format.BC7_UNORM
FERRY_FORMAT_BC7_UNORM_SRGB: Final = Format.BC7_UNORM_SRGB
FERRY_FORMAT_NV12: Final = Format.NV12
FERRY_FORMAT_P010: Final = Format.P010
FERRY_FORMAT_P016: Final = Format.P016
FERRY_FORMAT_NV16: Final = Format.NV16
FERRY_FORMAT_P210: Final = Format.P210
FERRY_FORMAT_P216: Final = Format.P216
FERRY_FORMAT_YUY2: Final = Format.YUY2
FERRY_FORMAT_Y210: Final = Format.Y210
FERRY_FORMAT_Y216: Final = Format.Y216
FERRY_FORMAT_AYUV: Final = Format.AYUV
FERRY_FORMAT_Y410: Final = Format.Y410
FERRY_FORMAT_Y416: Final = Format.Y416
FERRY_FORMAT_Y444_PLANAR8: Final = Format.Y444_PLANAR8
FERRY_FORMAT_Y444_PLANAR10: Final = Format.Y444_PLANAR10
FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR: Final = Format.YUV444_8BIT_SEMIPLANAR
FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR: Final = Format.YUV444_16BIT_SEMIPLANAR


class ArrayFlags(IntFlag):
    """FERRY_ARRAY_*"""

    LAYERED = 0x1
    SURFACE = 0x2
    CUBEMAP = 0x4
    TEXTURE_GATHER = 0x8
    COLOR_ATTACHMENT = 0x20
    VIDEO = 0x100


FERRY_ARRAY_LAYERED: Final = ArrayFlags.LAYERED
FERRY_ARRAY_SURFACE: Final = ArrayFlags.SURFACE
FERRY_ARRAY_CUBEMAP: Final = ArrayFlags.CUBEMAP
FERRY_ARRAY_TEXTURE_GATHER: Final = ArrayFlags.TEXTURE_GATHER
FERRY_ARRAY_COLOR_ATTACHMENT: Final = ArrayFlags.COLOR_ATTACHMENT
FERRY_ARRAY_VIDEO: Final = ArrayFlags.VIDEO


class Location(IntEnum):
    """FERRY_LOCATION_*"""

    DEVICE = 0
    HOST = 1
    HOST_NUMA = 2


FERRY_LOCATION_DEVICE: Final = Location.DEVICE
FERRY_LOCATION_HOST: Final = Location.HOST
FERRY_LOCATION_HOST_NUMA: Final = Location.HOST_NUMA


class Access(IntEnum):
    """FERRY_ACCESS_*"""

    NONE = 0
    READ_WRITE = 3


FERRY_ACCESS_NONE: Final = Access.NONE
FERRY_ACCESS_READ_WRITE: Final = Access.READ_WRITE

FERRY_IPC_HANDLE_SIZE: Final = 256


class IpcKind(IntEnum):
    """FERRY_IPC_*"""

    MEMORY = 1
    POOL = 2
    POOL_MEMORY = 3
    EVENT = 4


FERRY_IPC_MEMORY: Final = IpcKind.MEMORY
FERRY_IPC_POOL: Final = IpcKind.POOL
FERRY_IPC_POOL_MEMORY: Final = IpcKind.POOL_MEMORY
FERRY_IPC_EVENT: Final = IpcKind.EVENT


class Probe(IntEnum):
    """FERRY_PROBE_*"""

    NOT_RUN = 0
    PASSED = 1
    FAILED = 2


FERRY_PROBE_NOT_RUN: Final = Probe.NOT_RUN
FERRY_PROBE_PASSED: Final = Probe.PASSED
FERRY_PROBE_FAILED: Final = Probe.FAILED


class ExternalType(IntEnum):
    """FERRY_EXTERNAL_*"""

    OPAQUE_FD = 1
    OPAQUE_WIN32 = 2
    OPAQUE_WIN32_KMT = 3
    D3D12_HEAP = 4
    D3D12_RESOURCE = 5
    D3D11_RESOURCE = 6
    D3D11_RESOURCE_KMT = 7


FERRY_EXTERNAL_OPAQUE_FD: Final = ExternalType.OPAQUE_FD
FERRY_EXTERNAL_OPAQUE_WIN32: Final = ExternalType.OPAQUE_WIN32
FERRY_EXTERNAL_OPAQUE_WIN32_KMT: Final = ExternalType.OPAQUE_WIN32_KMT
FERRY_EXTERNAL_D3D12_HEAP: Final = ExternalType.D3D12_HEAP
FERRY_EXTERNAL_D3D12_RESOURCE: Final = ExternalType.D3D12_RESOURCE
FERRY_EXTERNAL_D3D11_RESOURCE: Final = ExternalType.D3D11_RESOURCE
FERRY_EXTERNAL_D3D11_RESOURCE_KMT: Final = ExternalType.D3D11_RESOURCE_KMT


class ExternalFlags(IntFlag):
    """FERRY_EXTERNAL_DEDICATED"""

    DEDICATED = 0x1


FERRY_EXTERNAL_DEDICATED: Final = ExternalFlags.DEDICATED


class Semaphore(IntEnum):
    """FERRY_SEMAPHORE_*"""

    OPAQUE_FD = 1
    OPAQUE_WIN32 = 2
    OPAQUE_WIN32_KMT = 3
    D3D12_FENCE = 4
    D3D11_FENCE = 5
    D3D11_KEYED_MUTEX = 7
    D3D11_KEYED_MUTEX_KMT = 8
    TIMELINE_FD = 9
    TIMELINE_WIN32 = 10


FERRY_SEMAPHORE_OPAQUE_FD: Final = Semaphore.OPAQUE_FD
FERRY_SEMAPHORE_OPAQUE_WIN32: Final = Semaphore.OPAQUE_WIN32
FERRY_SEMAPHORE_OPAQUE_WIN32_KMT: Final = Semaphore.OPAQUE_WIN32_KMT
FERRY_SEMAPHORE_D3D12_FENCE: Final = Semaphore.D3D12_FENCE
FERRY_SEMAPHORE_D3D11_FENCE: Final = Semaphore.D3D11_FENCE
FERRY_SEMAPHORE_D3D11_KEYED_MUTEX: Final = Semaphore.D3D11_KEYED_MUTEX
FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT: Final = Semaphore.D3D11_KEYED_MUTEX_KMT
FERRY_SEMAPHORE_TIMELINE_FD: Final = Semaphore.TIMELINE_FD
FERRY_SEMAPHORE_TIMELINE_WIN32: Final = Semaphore.TIMELINE_WIN32

ferry_options_get_proc = CFUNCTYPE(c_void_p, c_void_p, c_char_p, c_int32)
ferry_options_allocate = CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_uint64)
ferry_options_deallocate = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
ferry_options_log = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
ferry_options_submit = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)
ferry_options_submit_work = CFUNCTYPE(None, c_void_p)
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
    """What a copy or a fill would do."""

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
    helper_sms: int
    engine_bytes: int
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
        ("helper_sms", c_uint32),
        ("engine_bytes", c_uint64),
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
    phase: int
    reserved: int
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
        ("phase", c_uint32),
        ("reserved", c_uint32),
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
    trace_phases: int
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
        ("software_links", c_int32),
        ("trace_phases", c_uint32),
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
    direct_fixed_ns: int
    link_to_rate: int
    link_from_rate: int
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
        ("direct_fixed_ns", c_uint32),
        ("link_to_rate", c_uint32),
        ("link_from_rate", c_uint32),
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
    "ferry_fill_explain": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "ferry_fill_explain_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
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
