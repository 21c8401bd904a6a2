/* ferry.h without comments and directives, for cffi's cdef and LuaJIT's ffi.cdef. Made by tools/describe.py:
 * do not edit. */
static const int32_t FERRY_VERSION_MAJOR = 0;
static const int32_t FERRY_VERSION_MINOR = 6;
static const int32_t FERRY_VERSION_PATCH = 0;
static const int32_t FERRY_SUCCESS = 0;
static const int32_t FERRY_ERROR_INVALID_ARGUMENT = -1;
static const int32_t FERRY_ERROR_OUT_OF_MEMORY = -2;
static const int32_t FERRY_ERROR_ABI_MISMATCH = -3;
static const int32_t FERRY_ERROR_RESERVED = -4;
static const int32_t FERRY_ERROR_FLAGS = -5;
static const int32_t FERRY_ERROR_KIND = -6;
static const int32_t FERRY_ERROR_DEVICE = -7;
static const int32_t FERRY_ERROR_ADDRESS = -8;
static const int32_t FERRY_ERROR_PITCH = -9;
static const int32_t FERRY_ERROR_OVERFLOW = -10;
static const int32_t FERRY_ERROR_OUT_OF_BOUNDS = -11;
static const int32_t FERRY_ERROR_OVERLAP = -12;
static const int32_t FERRY_ERROR_ARRAY_FORMAT = -13;
static const int32_t FERRY_ERROR_NO_DRIVER = -14;
static const int32_t FERRY_ERROR_DRIVER_TOO_OLD = -15;
static const int32_t FERRY_ERROR_NO_DEVICE = -16;
static const int32_t FERRY_ERROR_UNSUPPORTED = -17;
static const int32_t FERRY_ERROR_SOFTWARE_CONFIG = -18;
static const int32_t FERRY_ERROR_NO_CONTEXT = -19;
static const int32_t FERRY_ERROR_PEER_ACCESS = -20;
static const int32_t FERRY_ERROR_ALIGNMENT = -21;
static const int32_t FERRY_ERROR_CAPTURE = -22;
static const int32_t FERRY_ERROR_LIMIT = -23;
static const int32_t FERRY_ERROR_IN_USE = -24;
static const int32_t FERRY_ERROR_HANDLE = -25;
static const int32_t FERRY_ERROR_MACHINE = -26;
static const int32_t FERRY_ERROR_POOL = -27;
static const int32_t FERRY_ERROR_IMPORTED = -28;
static const int32_t FERRY_ERROR_NOT_SHAREABLE = -29;
static const int32_t FERRY_ERROR_PROFILE = -30;
static const int32_t FERRY_ERROR_ROUTE = -31;
static const int32_t FERRY_STATUS_DRIVER_BASE = -1000;
static const uint32_t FERRY_STATUS_CONTEXT_DEAD = 1;
static const uint32_t FERRY_STATUS_RETRY = 2;
static const int32_t FERRY_SIDE_NONE = 0;
static const int32_t FERRY_SIDE_SOURCE = 1;
static const int32_t FERRY_SIDE_DESTINATION = 2;
static const int32_t FERRY_SIDE_EXTENT = 3;
static const int32_t FERRY_SIDE_DESCRIPTOR = 4;
static const int32_t FERRY_SIDE_OPTIONS = 5;
static const int32_t FERRY_FIELD_NONE = 0;
static const int32_t FERRY_FIELD_KIND = 1;
static const int32_t FERRY_FIELD_DEVICE = 2;
static const int32_t FERRY_FIELD_ADDRESS = 3;
static const int32_t FERRY_FIELD_ARRAY = 4;
static const int32_t FERRY_FIELD_ROW_PITCH = 5;
static const int32_t FERRY_FIELD_SLICE_HEIGHT = 6;
static const int32_t FERRY_FIELD_X = 7;
static const int32_t FERRY_FIELD_Y = 8;
static const int32_t FERRY_FIELD_Z = 9;
static const int32_t FERRY_FIELD_WIDTH = 10;
static const int32_t FERRY_FIELD_HEIGHT = 11;
static const int32_t FERRY_FIELD_DEPTH = 12;
static const int32_t FERRY_FIELD_FLAGS = 13;
static const int32_t FERRY_FIELD_RESERVED = 14;
static const int32_t FERRY_FIELD_STRUCT_SIZE = 15;
static const int32_t FERRY_FIELD_DRIVER = 16;
static const int32_t FERRY_FIELD_CHECKS = 17;
static const int32_t FERRY_FIELD_CALLBACKS = 18;
static const int32_t FERRY_FIELD_SOFTWARE = 19;
static const int32_t FERRY_FIELD_PATTERN = 20;
static const int32_t FERRY_FIELD_NUMA = 21;
static const int32_t FERRY_FIELD_NUMA_NODE = 22;
static const int32_t FERRY_FIELD_THREADS = 23;
static const int32_t FERRY_FIELD_SIZE = 24;
static const int32_t FERRY_FIELD_LOCATION = 25;
static const int32_t FERRY_FIELD_INDEX = 26;
static const int32_t FERRY_FIELD_HANDLE_TYPES = 27;
static const int32_t FERRY_FIELD_HANDLE = 28;
static const int32_t FERRY_FIELD_OS_HANDLE = 29;
static const int32_t FERRY_FIELD_POOL = 30;
static const int32_t FERRY_FIELD_EVENT = 31;
static const int32_t FERRY_FIELD_REGISTER_CHUNK = 32;
static const int32_t FERRY_FIELD_VERSION = 33;
static const int32_t FERRY_FIELD_LINE = 34;
static const int32_t FERRY_FIELD_KERNELS = 35;
static const int32_t FERRY_FIELD_STAGING = 36;
static const int32_t FERRY_FIELD_STAGING_CPUS = 37;
static const int32_t FERRY_FIELD_STAGING_PRIORITY = 38;
static const int32_t FERRY_FIELD_STAGING_BYTES = 39;
static const int32_t FERRY_FIELD_SOFTWARE_DEVICES = 40;
static const int32_t FERRY_FIELD_SOFTWARE_QUEUES = 41;
static const int32_t FERRY_FIELD_FORMAT = 42;
static const int32_t FERRY_FIELD_CHANNELS = 43;
static const int32_t FERRY_FIELD_SOFTWARE_LINKS = 44;
static const int32_t FERRY_FIELD_HELPERS = 45;
static const int32_t FERRY_FIELD_TRACE_PHASES = 46;
static const int32_t FERRY_KIND_ANY = 0;
static const int32_t FERRY_KIND_HOST = 1;
static const int32_t FERRY_KIND_DEVICE = 2;
static const int32_t FERRY_KIND_ARRAY = 3;
static const int32_t FERRY_DEVICE_UNKNOWN = -1;
static const uint32_t FERRY_COPY_URGENT = 1;
static const uint32_t FERRY_COPY_NO_KERNELS = 2;
static const uint32_t FERRY_COPY_SOURCE_READ = 4;
static const uint32_t FERRY_COPY_MULTILINK = 8;
static const uint32_t FERRY_COPY_DESTINATION_WRITTEN = 16;
static const uint32_t FERRY_COPY_BY_DRIVER = 256;
static const uint32_t FERRY_COPY_BY_KERNEL = 512;
static const uint32_t FERRY_COPY_BY_STAGING = 1024;
static const uint32_t FERRY_COPY_BY_RELAY = 2048;
static const uint32_t FERRY_COPY_DEFAULT = 4294901760;
static const int32_t FERRY_COPY_MAX_SMS_SHIFT = 16;
static const uint32_t FERRY_BATCH_CHECK_OVERLAP = 4096;
static const uint32_t FERRY_BATCH_UPDATABLE = 8192;
static const int32_t FERRY_ROUTE_NONE = 0;
static const int32_t FERRY_ROUTE_DRIVER = 1;
static const int32_t FERRY_ROUTE_KERNEL = 2;
static const int32_t FERRY_ROUTE_STAGED = 3;
static const int32_t FERRY_ROUTE_BUFFERED = 4;
static const int32_t FERRY_ROUTE_RELAYED = 5;
static const int32_t FERRY_ROUTE_MULTILINK = 6;
static const int32_t FERRY_OBSTACLE_NONE = 0;
static const int32_t FERRY_OBSTACLE_NO_ROUTE = 1;
static const int32_t FERRY_OBSTACLE_FORBIDDEN = 2;
static const int32_t FERRY_OBSTACLE_NOT_LOADED = 3;
static const int32_t FERRY_OBSTACLE_HOST_TO_HOST = 4;
static const int32_t FERRY_OBSTACLE_PAGEABLE = 5;
static const int32_t FERRY_OBSTACLE_MANAGED = 6;
static const int32_t FERRY_OBSTACLE_ARRAY = 7;
static const int32_t FERRY_OBSTACLE_NO_ACCESS = 8;
static const int32_t FERRY_OBSTACLE_BEYOND = 9;
static const int32_t FERRY_OBSTACLE_READ_ONLY = 10;
static const int32_t FERRY_OBSTACLE_NOT_PAGEABLE = 11;
static const int32_t FERRY_OBSTACLE_NO_STAGING = 12;
static const int32_t FERRY_OBSTACLE_OTHER_DEVICE = 13;
static const int32_t FERRY_OBSTACLE_DIRECT = 14;
static const int32_t FERRY_OBSTACLE_NOT_BETWEEN_DEVICES = 15;
static const int32_t FERRY_OBSTACLE_DIRECT_ACCESS = 16;
static const int32_t FERRY_OBSTACLE_NO_HELPERS = 17;
static const int32_t FERRY_OBSTACLE_NOT_CUT = 18;
static const int32_t FERRY_OBSTACLE_SMALL = 19;
static const int32_t FERRY_OBSTACLE_CAPTURED = 20;
static const int32_t FERRY_REASON_NONE = 0;
static const int32_t FERRY_REASON_LINE = 1;
static const int32_t FERRY_REASON_ONLY = 2;
static const int32_t FERRY_REASON_PREDICTED = 3;
static const int32_t FERRY_REASON_NO_WAIT = 4;
static const int32_t FERRY_REASON_FORCED = 5;
static const int32_t FERRY_REASON_URGENT = 6;
static const int32_t FERRY_REASON_SOURCE_READ = 7;
static const int32_t FERRY_REASON_MULTILINK = 8;
static const int32_t FERRY_PROFILE_NONE = 0;
static const int32_t FERRY_PROFILE_BUILT_IN = 1;
static const int32_t FERRY_PROFILE_CAUTIOUS = 2;
static const int32_t FERRY_PROFILE_MEASURED = 3;
static const int32_t FERRY_BLOCKS_NO = 0;
static const int32_t FERRY_BLOCKS_UNTIL_STAGED = 1;
static const int32_t FERRY_BLOCKS_UNTIL_DONE = 2;
static const int32_t FERRY_DRIVER_CUDA = 0;
static const int32_t FERRY_DRIVER_AUTO = 1;
static const int32_t FERRY_DRIVER_SOFTWARE = 2;
static const int32_t FERRY_CHECKS_BASIC = 0;
static const int32_t FERRY_CHECKS_FULL = 1;
static const int32_t FERRY_KERNELS_LAZY = 0;
static const int32_t FERRY_KERNELS_AT_OPEN = 1;
static const int32_t FERRY_KERNELS_NONE = 2;
static const int32_t FERRY_STAGING_LAZY = 0;
static const int32_t FERRY_STAGING_AT_OPEN = 1;
static const int32_t FERRY_STAGING_NONE = 2;
static const int32_t FERRY_NUMA_ANY = 0;
static const int32_t FERRY_NUMA_DEVICE = 1;
static const int32_t FERRY_NUMA_NODE = 2;
static const int32_t FERRY_PRIORITY_OF_PROCESS = 20;
static const int32_t FERRY_SOFTWARE_LINKS_DEFAULT = 0;
static const int32_t FERRY_SOFTWARE_LINKS_ALL = 1;
static const int32_t FERRY_SOFTWARE_LINKS_NONE = 2;
static const int32_t FERRY_SOFTWARE_LINKS_PAIRS = 3;
static const int32_t FERRY_SOFTWARE_LINKS_LOSSY = 4;
static const int32_t FERRY_LOG_ERROR = 0;
static const int32_t FERRY_LOG_WARNING = 1;
static const int32_t FERRY_LOG_INFO = 2;
static const int32_t FERRY_TRACE_COPY = 1;
static const int32_t FERRY_TRACE_BATCH = 2;
static const int32_t FERRY_TRACE_PREPARED = 3;
static const int32_t FERRY_TRACE_FILL = 4;
static const uint32_t FERRY_PHASE_BEGIN = 1;
static const uint32_t FERRY_PHASE_RETURN = 2;
static const uint32_t FERRY_PHASE_DONE = 4;
static const int32_t FERRY_COPY_OVERLAP_NONE = 0;
static const int32_t FERRY_COPY_OVERLAP_ONE_WAY = 1;
static const int32_t FERRY_COPY_OVERLAP_BOTH_WAYS = 2;
static const int32_t FERRY_COPY_OVERLAP_BOTH_AND_MORE = 3;
static const uint32_t FERRY_HANDLE_POSIX_FD = 1;
static const uint32_t FERRY_HANDLE_WIN32 = 2;
static const uint32_t FERRY_HANDLE_WIN32_KMT = 4;
static const uint32_t FERRY_HANDLE_FABRIC = 8;
static const int32_t FERRY_STREAM_LEGACY = 1;
static const int32_t FERRY_STREAM_PER_THREAD = 2;
static const uint32_t FERRY_STREAM_NON_BLOCKING = 1;
static const uint32_t FERRY_EVENT_BLOCKING_SYNC = 1;
static const uint32_t FERRY_EVENT_DISABLE_TIMING = 2;
static const uint32_t FERRY_EVENT_INTERPROCESS = 4;
static const uint32_t FERRY_HOST_WRITE_COMBINED = 1;
static const uint32_t FERRY_HOST_BY_DRIVER = 2;
static const uint32_t FERRY_HOST_NOT_PORTABLE = 4;
static const uint32_t FERRY_HOST_NOT_MAPPED = 8;
static const uint32_t FERRY_HOST_ALLOW_SMALLER = 16;
static const uint32_t FERRY_HOST_ALLOW_PAGEABLE = 32;
static const uint32_t FERRY_HOST_SHARED = 64;
static const int32_t FERRY_HOST_FROM_MAPPING = 1;
static const int32_t FERRY_HOST_FROM_DRIVER = 2;
static const int32_t FERRY_HOST_FROM_SYSTEM = 3;
static const uint32_t FERRY_REGISTER_READ_ONLY = 1;
static const int32_t FERRY_MEMORY_NONE = -1;
static const int32_t FERRY_MEMORY_PAGEABLE = 0;
static const int32_t FERRY_MEMORY_PINNED = 1;
static const int32_t FERRY_MEMORY_DEVICE = 2;
static const int32_t FERRY_MEMORY_MANAGED = 3;
static const int32_t FERRY_MEMORY_ARRAY = 4;
static const int32_t FERRY_FORMAT_UINT8 = 1;
static const int32_t FERRY_FORMAT_UINT16 = 2;
static const int32_t FERRY_FORMAT_UINT32 = 3;
static const int32_t FERRY_FORMAT_SINT8 = 8;
static const int32_t FERRY_FORMAT_SINT16 = 9;
static const int32_t FERRY_FORMAT_SINT32 = 10;
static const int32_t FERRY_FORMAT_HALF = 16;
static const int32_t FERRY_FORMAT_FLOAT = 32;
static const int32_t FERRY_FORMAT_UNORM_INT8X1 = 192;
static const int32_t FERRY_FORMAT_UNORM_INT8X2 = 193;
static const int32_t FERRY_FORMAT_UNORM_INT8X4 = 194;
static const int32_t FERRY_FORMAT_UNORM_INT16X1 = 195;
static const int32_t FERRY_FORMAT_UNORM_INT16X2 = 196;
static const int32_t FERRY_FORMAT_UNORM_INT16X4 = 197;
static const int32_t FERRY_FORMAT_SNORM_INT8X1 = 198;
static const int32_t FERRY_FORMAT_SNORM_INT8X2 = 199;
static const int32_t FERRY_FORMAT_SNORM_INT8X4 = 200;
static const int32_t FERRY_FORMAT_SNORM_INT16X1 = 201;
static const int32_t FERRY_FORMAT_SNORM_INT16X2 = 202;
static const int32_t FERRY_FORMAT_SNORM_INT16X4 = 203;
static const int32_t FERRY_FORMAT_UNORM_INT_101010_2 = 80;
static const int32_t FERRY_FORMAT_BC1_UNORM = 145;
static const int32_t FERRY_FORMAT_BC1_UNORM_SRGB = 146;
static const int32_t FERRY_FORMAT_BC2_UNORM = 147;
static const int32_t FERRY_FORMAT_BC2_UNORM_SRGB = 148;
static const int32_t FERRY_FORMAT_BC3_UNORM = 149;
static const int32_t FERRY_FORMAT_BC3_UNORM_SRGB = 150;
static const int32_t FERRY_FORMAT_BC4_UNORM = 151;
static const int32_t FERRY_FORMAT_BC4_SNORM = 152;
static const int32_t FERRY_FORMAT_BC5_UNORM = 153;
static const int32_t FERRY_FORMAT_BC5_SNORM = 154;
static const int32_t FERRY_FORMAT_BC6H_UF16 = 155;
static const int32_t FERRY_FORMAT_BC6H_SF16 = 156;
static const int32_t FERRY_FORMAT_BC7_UNORM = 157;
static const int32_t FERRY_FORMAT_BC7_UNORM_SRGB = 158;
static const int32_t FERRY_FORMAT_NV12 = 176;
static const int32_t FERRY_FORMAT_P010 = 159;
static const int32_t FERRY_FORMAT_P016 = 161;
static const int32_t FERRY_FORMAT_NV16 = 162;
static const int32_t FERRY_FORMAT_P210 = 163;
static const int32_t FERRY_FORMAT_P216 = 164;
static const int32_t FERRY_FORMAT_YUY2 = 165;
static const int32_t FERRY_FORMAT_Y210 = 166;
static const int32_t FERRY_FORMAT_Y216 = 167;
static const int32_t FERRY_FORMAT_AYUV = 168;
static const int32_t FERRY_FORMAT_Y410 = 169;
static const int32_t FERRY_FORMAT_Y416 = 177;
static const int32_t FERRY_FORMAT_Y444_PLANAR8 = 178;
static const int32_t FERRY_FORMAT_Y444_PLANAR10 = 179;
static const int32_t FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR = 180;
static const int32_t FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR = 181;
static const uint32_t FERRY_ARRAY_LAYERED = 1;
static const uint32_t FERRY_ARRAY_SURFACE = 2;
static const uint32_t FERRY_ARRAY_CUBEMAP = 4;
static const uint32_t FERRY_ARRAY_TEXTURE_GATHER = 8;
static const uint32_t FERRY_ARRAY_COLOR_ATTACHMENT = 32;
static const uint32_t FERRY_ARRAY_VIDEO = 256;
static const int32_t FERRY_LOCATION_DEVICE = 0;
static const int32_t FERRY_LOCATION_HOST = 1;
static const int32_t FERRY_LOCATION_HOST_NUMA = 2;
static const int32_t FERRY_ACCESS_NONE = 0;
static const int32_t FERRY_ACCESS_READ_WRITE = 3;
static const int32_t FERRY_IPC_HANDLE_SIZE = 256;
static const int32_t FERRY_IPC_MEMORY = 1;
static const int32_t FERRY_IPC_POOL = 2;
static const int32_t FERRY_IPC_POOL_MEMORY = 3;
static const int32_t FERRY_IPC_EVENT = 4;
static const int32_t FERRY_PROBE_NOT_RUN = 0;
static const int32_t FERRY_PROBE_PASSED = 1;
static const int32_t FERRY_PROBE_FAILED = 2;
static const int32_t FERRY_EXTERNAL_OPAQUE_FD = 1;
static const int32_t FERRY_EXTERNAL_OPAQUE_WIN32 = 2;
static const int32_t FERRY_EXTERNAL_OPAQUE_WIN32_KMT = 3;
static const int32_t FERRY_EXTERNAL_D3D12_HEAP = 4;
static const int32_t FERRY_EXTERNAL_D3D12_RESOURCE = 5;
static const int32_t FERRY_EXTERNAL_D3D11_RESOURCE = 6;
static const int32_t FERRY_EXTERNAL_D3D11_RESOURCE_KMT = 7;
static const uint32_t FERRY_EXTERNAL_DEDICATED = 1;
static const int32_t FERRY_SEMAPHORE_OPAQUE_FD = 1;
static const int32_t FERRY_SEMAPHORE_OPAQUE_WIN32 = 2;
static const int32_t FERRY_SEMAPHORE_OPAQUE_WIN32_KMT = 3;
static const int32_t FERRY_SEMAPHORE_D3D12_FENCE = 4;
static const int32_t FERRY_SEMAPHORE_D3D11_FENCE = 5;
static const int32_t FERRY_SEMAPHORE_D3D11_KEYED_MUTEX = 7;
static const int32_t FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT = 8;
static const int32_t FERRY_SEMAPHORE_TIMELINE_FD = 9;
static const int32_t FERRY_SEMAPHORE_TIMELINE_WIN32 = 10;
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUarray_st;
struct CUextMemory_st;
struct CUextSemaphore_st;
struct CUmipmappedArray_st;
struct CUmemPoolHandle_st;
typedef struct ferry_instance ferry_instance;
int32_t ferry_version(void);
const char *ferry_status_name(int32_t status);
const char *ferry_status_text(int32_t status);
uint32_t ferry_status_traits(int32_t status);
typedef struct ferry_error_info {
    uint32_t struct_size;
    int32_t status;
    int32_t side;
    int32_t field;
    uint64_t index;
    uint64_t limit;
    uint64_t value;
} ferry_error_info;
uint64_t ferry_error_format(const ferry_error_info *error, char *buffer, uint64_t size);
typedef struct ferry_options ferry_options;
int32_t ferry_open(const ferry_options *options, ferry_instance **instance, ferry_error_info *error);
void ferry_close(ferry_instance *instance);
typedef struct ferry_place {
    int32_t kind;
    int32_t device;
    uint64_t address;
    struct CUarray_st *array;
    uint64_t row_pitch;
    uint64_t slice_height;
    uint64_t x;
    uint64_t y;
    uint64_t z;
    uint64_t reserved[4];
} ferry_place;
typedef struct ferry_copy_desc {
    ferry_place source;
    ferry_place destination;
    uint64_t width;
    uint64_t height;
    uint64_t depth;
    uint32_t flags;
    uint32_t reserved0;
    uint64_t reserved[4];
} ferry_copy_desc;
void ferry_place_any(ferry_place *place, uint64_t address);
void ferry_place_host(ferry_place *place, const void *address);
void ferry_place_host_pitched(ferry_place *place, const void *address, uint64_t row_pitch,
                                        uint64_t slice_height);
void ferry_place_device(ferry_place *place, int32_t device, uint64_t address);
void ferry_place_device_pitched(ferry_place *place, int32_t device, uint64_t address, uint64_t row_pitch,
                                          uint64_t slice_height);
void ferry_place_array(ferry_place *place, int32_t device, struct CUarray_st *array);
void ferry_place_array_layer(ferry_place *place, int32_t device, struct CUarray_st *array, uint64_t layer);
void ferry_copy_desc_init(ferry_copy_desc *copy, const ferry_place *source, const ferry_place *destination,
                                    uint64_t width, uint64_t height, uint64_t depth);
int32_t ferry_copy(ferry_instance *instance, const ferry_copy_desc *copy, ferry_error_info *error);
typedef struct ferry_ticket ferry_ticket;
int32_t ferry_copy_async(ferry_instance *instance, const ferry_copy_desc *copy, struct CUstream_st *stream,
                                   ferry_ticket **ticket, ferry_error_info *error);
int32_t ferry_copy_bytes(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                                   ferry_error_info *error);
int32_t ferry_copy_bytes_async(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                                         struct CUstream_st *stream, ferry_error_info *error);
typedef struct ferry_ticket_info {
    uint32_t struct_size;
    int32_t done;
    int32_t status;
    int32_t route;
    uint64_t bytes_done;
    uint64_t bytes_total;
} ferry_ticket_info;
int32_t ferry_ticket_create(ferry_instance *instance, struct CUstream_st *stream, ferry_ticket **ticket,
                                      ferry_error_info *error);
int32_t ferry_ticket_get_info(ferry_ticket *ticket, ferry_ticket_info *info);
int32_t ferry_ticket_wait(ferry_ticket *ticket);
int32_t ferry_ticket_release(ferry_ticket *ticket);
int32_t ferry_copy_batch(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                   uint32_t flags, ferry_error_info *error);
int32_t ferry_copy_batch_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                         uint32_t flags, struct CUstream_st *stream, ferry_error_info *error);
int32_t ferry_copy_pieces(ferry_instance *instance, const uint64_t *destinations, const uint64_t *sources,
                                    const uint64_t *sizes, uint64_t count, uint32_t flags, ferry_error_info *error);
int32_t ferry_copy_pieces_async(ferry_instance *instance, const uint64_t *destinations,
                                          const uint64_t *sources, const uint64_t *sizes, uint64_t count,
                                          uint32_t flags, struct CUstream_st *stream, ferry_error_info *error);
typedef struct ferry_prepared ferry_prepared;
int32_t ferry_prepared_create(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                        uint32_t flags, struct CUstream_st *stream, ferry_prepared **prepared,
                                        ferry_error_info *error);
int32_t ferry_prepared_create_pieces(ferry_instance *instance, const uint64_t *destinations,
                                               const uint64_t *sources, const uint64_t *sizes, uint64_t count,
                                               uint32_t flags, struct CUstream_st *stream, ferry_prepared **prepared,
                                               ferry_error_info *error);
int32_t ferry_prepared_launch(ferry_prepared *prepared, struct CUstream_st *stream, ferry_error_info *error);
int32_t ferry_prepared_set_addresses(ferry_prepared *prepared, const uint64_t *destinations,
                                               const uint64_t *sources, struct CUstream_st *stream,
                                               ferry_error_info *error);
int32_t ferry_prepared_destroy(ferry_prepared *prepared);
typedef struct ferry_fill_desc {
    ferry_place destination;
    uint64_t width;
    uint64_t height;
    uint64_t depth;
    uint8_t pattern[16];
    uint32_t pattern_size;
    uint32_t flags;
    uint64_t reserved[6];
} ferry_fill_desc;
void ferry_fill_desc_init(ferry_fill_desc *fill, const ferry_place *destination, uint64_t width,
                                    uint64_t height, uint64_t depth, const void *pattern, uint32_t pattern_size);
int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, ferry_error_info *error);
int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, struct CUstream_st *stream,
                                   ferry_error_info *error);
const char *ferry_obstacle_text(int32_t obstacle);
typedef struct ferry_explanation {
    uint32_t struct_size;
    int32_t route;
    int32_t blocks;
    int32_t synchronises;
    char driver_call[32];
    int32_t context_device;
    int32_t source_memory;
    int32_t source_device;
    int32_t destination_memory;
    int32_t destination_device;
    uint32_t calls;
    uint64_t width;
    uint64_t height;
    uint64_t depth;
    uint64_t driver_ns;
    uint64_t kernel_ns;
    int32_t kernel_obstacle;
    uint32_t max_sms;
    uint64_t staged_ns;
    int32_t staged_obstacle;
    uint32_t threads;
    uint64_t staging_delay_ns;
    uint64_t relay_ns;
    int32_t relay_obstacle;
    uint32_t links;
    uint64_t multilink_ns;
    int32_t multilink_obstacle;
    int32_t reason;
    int32_t profile;
    uint32_t helper_sms;
    uint64_t engine_bytes;
} ferry_explanation;
int32_t ferry_copy_explain(ferry_instance *instance, const ferry_copy_desc *copy,
                                     ferry_explanation *explanation, ferry_error_info *error);
int32_t ferry_copy_explain_async(ferry_instance *instance, const ferry_copy_desc *copy,
                                           struct CUstream_st *stream, ferry_explanation *explanation,
                                           ferry_error_info *error);
int32_t ferry_fill_explain(ferry_instance *instance, const ferry_fill_desc *fill,
                                     ferry_explanation *explanation, ferry_error_info *error);
int32_t ferry_fill_explain_async(ferry_instance *instance, const ferry_fill_desc *fill,
                                           struct CUstream_st *stream, ferry_explanation *explanation,
                                           ferry_error_info *error);
uint64_t ferry_explanation_format(const ferry_explanation *explanation, char *buffer, uint64_t size);
typedef struct ferry_batch_share {
    uint64_t copies;
    uint64_t bytes;
    uint64_t predicted_ns;
} ferry_batch_share;
typedef struct ferry_batch_explanation {
    uint32_t struct_size;
    int32_t context_device;
    ferry_batch_share singles;
    ferry_batch_share batch_calls;
    ferry_batch_share kernels;
    ferry_batch_share staged;
    uint32_t max_sms;
    uint32_t threads;
    uint64_t staging_delay_ns;
    ferry_batch_share broadcasts;
} ferry_batch_explanation;
int32_t ferry_copy_batch_explain_async(ferry_instance *instance, const ferry_copy_desc *copies,
                                                 uint64_t count, uint32_t flags, struct CUstream_st *stream,
                                                 ferry_batch_explanation *explanation, ferry_error_info *error);
int32_t ferry_copy_pieces_explain_async(ferry_instance *instance, const uint64_t *destinations,
                                                  const uint64_t *sources, const uint64_t *sizes, uint64_t count,
                                                  uint32_t flags, struct CUstream_st *stream,
                                                  ferry_batch_explanation *explanation, ferry_error_info *error);
uint64_t ferry_batch_explanation_format(const ferry_batch_explanation *explanation, char *buffer,
                                                  uint64_t size);
typedef struct ferry_trace_event {
    uint32_t struct_size;
    int32_t kind;
    uint64_t id;
    uint64_t begin_ns;
    uint64_t returned_ns;
    uint64_t done_ns;
    uint64_t bytes;
    uint64_t count;
    struct CUstream_st *stream;
    uint32_t routes;
    int32_t status;
    int32_t device;
    int32_t is_synchronous;
    uint32_t phase;
    uint32_t reserved;
} ferry_trace_event;
struct ferry_options {
    uint32_t struct_size;
    int32_t driver;
    int32_t checks;
    uint32_t software_devices;
    uint32_t software_queues;
    uint32_t reserved;
    uint64_t software_memory;
    void *(*get_proc)(void *user, const char *name, int32_t version);
    void *get_proc_user;
    void *(*allocate)(void *user, uint64_t size, uint64_t alignment);
    void (*deallocate)(void *user, void *memory, uint64_t size);
    void *allocate_user;
    void (*log)(void *user, int32_t level, const char *message);
    void *log_user;
    uint64_t register_chunk;
    uint32_t copy_flags;
    int32_t kernels;
    int32_t staging;
    uint32_t staging_threads;
    const int32_t *staging_cpus;
    uint32_t staging_cpu_count;
    int32_t staging_priority;
    int32_t staging_numa;
    int32_t staging_numa_node;
    uint64_t staging_bytes;
    int32_t (*submit)(void *user, void (*work)(void *argument), void *argument);
    void *submit_user;
    uint64_t deferred_bytes;
    int32_t software_links;
    uint32_t trace_phases;
    void (*trace)(void *user, const ferry_trace_event *event);
    void *trace_user;
};
typedef struct ferry_report {
    uint32_t struct_size;
    int32_t driver;
    int32_t driver_version;
    int32_t device_count;
    int32_t fallback_reason;
    uint32_t
        missing_count;
    int32_t checks;
    uint32_t failed_peers;
    int32_t kernels;
    int32_t kernels_loaded;
    uint32_t kernel_contexts;
    int32_t staging;
    uint32_t staging_threads;
    uint32_t program_threads;
    uint64_t staging_bytes;
} ferry_report;
int32_t ferry_instance_get_report(const ferry_instance *instance, ferry_report *report);
const char *ferry_instance_get_missing_entry_point(const ferry_instance *instance, uint32_t index);
void *ferry_instance_get_proc(const ferry_instance *instance, const char *name, int32_t version);
typedef struct ferry_device_info {
    uint32_t struct_size;
    int32_t device;
    char name[128];
    uint8_t uuid[16];
    char pci_address[32];
    uint64_t total_memory;
    uint64_t max_pitch;
    int32_t is_software;
    int32_t compute_major;
    int32_t compute_minor;
    int32_t sm_count;
    int32_t copy_engine_count;
    int32_t overlap;
    int32_t unified_addressing;
    int32_t pageable_access;
    int32_t pageable_uses_host_page_tables;
    int32_t can_map_host_memory;
    int32_t host_register;
    int32_t host_register_read_only;
    int32_t registered_address_is_device_address;
    int32_t managed_memory;
    int32_t concurrent_managed_access;
    int32_t memory_pools;
    uint32_t pool_handle_types;
    int32_t numa_node;
    int32_t integrated;
    int32_t texture_pitch_alignment;
    int32_t host_memory_pools;
    int32_t host_numa_memory_pools;
    int32_t ipc_events;
    uint32_t reserved;
    uint8_t luid[8];
    uint32_t luid_node_mask;
    uint32_t reserved1;
} ferry_device_info;
int32_t ferry_device_get_info(const ferry_instance *instance, int32_t device, ferry_device_info *info);
int32_t ferry_device_find(const ferry_instance *instance, const uint8_t *uuid, const uint8_t *luid,
                                    int32_t *device);
int32_t ferry_context_retain_primary(ferry_instance *instance, int32_t device, struct CUctx_st **context,
                                               ferry_error_info *error);
int32_t ferry_context_release_primary(ferry_instance *instance, int32_t device);
int32_t ferry_context_create(ferry_instance *instance, int32_t device, uint32_t flags,
                                       struct CUctx_st **context, ferry_error_info *error);
int32_t ferry_context_destroy(ferry_instance *instance, struct CUctx_st *context);
int32_t ferry_context_adopt(ferry_instance *instance, int32_t device, struct CUctx_st *context);
int32_t ferry_context_push(ferry_instance *instance, int32_t device, struct CUctx_st *context);
int32_t ferry_context_pop(ferry_instance *instance, struct CUctx_st **context);
int32_t ferry_context_get_current(ferry_instance *instance, struct CUctx_st **context);
int32_t ferry_context_synchronize(ferry_instance *instance, int32_t device, struct CUctx_st *context);
int32_t ferry_stream_create(ferry_instance *instance, int32_t device, uint32_t flags, int32_t priority,
                                      struct CUstream_st **stream, ferry_error_info *error);
int32_t ferry_stream_destroy(ferry_instance *instance, struct CUstream_st *stream);
int32_t ferry_stream_synchronize(ferry_instance *instance, struct CUstream_st *stream);
int32_t ferry_stream_query(ferry_instance *instance, struct CUstream_st *stream, int32_t *done);
int32_t ferry_stream_notify(ferry_instance *instance, struct CUstream_st *stream,
                                      void (*done)(void *user, int32_t status), void *user, ferry_error_info *error);
int32_t ferry_stream_wait_event(ferry_instance *instance, struct CUstream_st *stream,
                                          struct CUevent_st *event);
int32_t ferry_event_create(ferry_instance *instance, int32_t device, uint32_t flags,
                                     struct CUevent_st **event, ferry_error_info *error);
int32_t ferry_event_destroy(ferry_instance *instance, struct CUevent_st *event);
int32_t ferry_event_record(ferry_instance *instance, struct CUevent_st *event, struct CUstream_st *stream);
int32_t ferry_event_synchronize(ferry_instance *instance, struct CUevent_st *event);
int32_t ferry_event_query(ferry_instance *instance, struct CUevent_st *event, int32_t *done);
int32_t ferry_event_elapsed_time(ferry_instance *instance, struct CUevent_st *start, struct CUevent_st *end,
                                           float *milliseconds);
int32_t ferry_device_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address,
                                     ferry_error_info *error);
int32_t ferry_device_alloc_pitched(ferry_instance *instance, int32_t device, uint64_t width, uint64_t height,
                                             uint32_t element_size, uint64_t *address, uint64_t *row_pitch,
                                             ferry_error_info *error);
int32_t ferry_managed_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address,
                                      ferry_error_info *error);
int32_t ferry_device_free(ferry_instance *instance, uint64_t address);
int32_t ferry_device_free_deferred(ferry_instance *instance, uint64_t address, struct CUstream_st *stream);
typedef struct ferry_deferred_info {
    uint32_t struct_size;
    uint32_t arrays;
    uint32_t allocations;
    uint32_t reserved;
    uint64_t bytes;
} ferry_deferred_info;
int32_t ferry_deferred_get_info(ferry_instance *instance, int32_t device, ferry_deferred_info *info);
int32_t ferry_deferred_trim(ferry_instance *instance, int32_t device, uint64_t keep);
typedef struct ferry_host_options {
    uint32_t struct_size;
    uint32_t flags;
    int32_t numa;
    int32_t device;
    int32_t numa_node;
    uint32_t threads;
    uint64_t min_size;
} ferry_host_options;
typedef struct ferry_host_block {
    uint32_t struct_size;
    int32_t memory;
    void *address;
    uint64_t size;
    int32_t origin;
    int32_t numa_node;
} ferry_host_block;
int32_t ferry_host_alloc(ferry_instance *instance, uint64_t size, const ferry_host_options *options,
                                   ferry_host_block *block, ferry_error_info *error);
int32_t ferry_host_free(ferry_instance *instance, void *address);
int32_t ferry_host_free_deferred(ferry_instance *instance, void *address, struct CUstream_st *stream);
int32_t ferry_host_register(ferry_instance *instance, void *address, uint64_t size, uint32_t flags,
                                      ferry_error_info *error);
int32_t ferry_host_unregister(ferry_instance *instance, void *address);
typedef struct ferry_address_info {
    uint32_t struct_size;
    int32_t memory;
    int32_t device;
    uint32_t reserved;
    uint64_t range_start;
    uint64_t range_size;
    uint64_t device_address;
    struct CUmemPoolHandle_st *pool;
} ferry_address_info;
int32_t ferry_address_get_info(ferry_instance *instance, uint64_t address, ferry_address_info *info);
typedef struct ferry_array_desc {
    uint32_t struct_size;
    int32_t format;
    uint32_t channels;
    uint32_t flags;
    uint64_t width;
    uint64_t height;
    uint64_t depth;
} ferry_array_desc;
int32_t ferry_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                     struct CUarray_st **array, ferry_error_info *error);
int32_t ferry_array_destroy(ferry_instance *instance, struct CUarray_st *array);
int32_t ferry_array_destroy_async(ferry_instance *instance, struct CUarray_st *array,
                                            struct CUstream_st *stream);
int32_t ferry_mipmapped_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                               uint32_t levels, struct CUmipmappedArray_st **mipmapped,
                                               ferry_error_info *error);
int32_t ferry_mipmapped_array_get_level(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped,
                                                  uint32_t level, struct CUarray_st **array);
int32_t ferry_mipmapped_array_destroy(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped);
int32_t ferry_mipmapped_array_destroy_async(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped,
                                                      struct CUstream_st *stream);
int32_t ferry_array_get_plane(ferry_instance *instance, struct CUarray_st *array, uint32_t plane,
                                        struct CUarray_st **plane_array);
int32_t ferry_array_get_info(ferry_instance *instance, struct CUarray_st *array, ferry_array_desc *desc,
                                       uint32_t *element_size);
typedef struct ferry_pinned_pool ferry_pinned_pool;
typedef struct ferry_pinned_pool_options {
    uint32_t struct_size;
    uint32_t flags;
    int32_t numa;
    int32_t device;
    int32_t numa_node;
    uint32_t reserved;
    uint64_t limit;
} ferry_pinned_pool_options;
int32_t ferry_pinned_pool_create(ferry_instance *instance, const ferry_pinned_pool_options *options,
                                           ferry_pinned_pool **pool, ferry_error_info *error);
int32_t ferry_pinned_pool_destroy(ferry_pinned_pool *pool);
int32_t ferry_pinned_pool_alloc(ferry_pinned_pool *pool, uint64_t size, void **address,
                                          ferry_error_info *error);
int32_t ferry_pinned_pool_alloc_async(ferry_pinned_pool *pool, uint64_t size, struct CUstream_st *stream,
                                                void **address, ferry_error_info *error);
int32_t ferry_pinned_pool_free(ferry_pinned_pool *pool, void *address);
int32_t ferry_pinned_pool_free_async(ferry_pinned_pool *pool, void *address, struct CUstream_st *stream);
int32_t ferry_pinned_pool_trim(ferry_pinned_pool *pool, uint64_t keep);
typedef struct ferry_pool_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t reserved_current;
    uint64_t reserved_high;
    uint64_t used_current;
    uint64_t used_high;
} ferry_pool_stats;
int32_t ferry_pinned_pool_get_stats(ferry_pinned_pool *pool, ferry_pool_stats *stats);
int32_t ferry_pinned_pool_reset_stats(ferry_pinned_pool *pool);
int32_t ferry_device_alloc_async(ferry_instance *instance, int32_t device, uint64_t size,
                                           struct CUstream_st *stream, uint64_t *address, ferry_error_info *error);
int32_t ferry_device_free_async(ferry_instance *instance, uint64_t address, struct CUstream_st *stream);
typedef struct ferry_pool_desc {
    uint32_t struct_size;
    int32_t location;
    int32_t index;
    uint32_t handle_types;
    uint64_t max_size;
} ferry_pool_desc;
int32_t ferry_pool_create(ferry_instance *instance, const ferry_pool_desc *desc,
                                    struct CUmemPoolHandle_st **pool, ferry_error_info *error);
int32_t ferry_pool_destroy(ferry_instance *instance, struct CUmemPoolHandle_st *pool);
int32_t ferry_pool_get_default(ferry_instance *instance, int32_t location, int32_t index,
                                         struct CUmemPoolHandle_st **pool);
int32_t ferry_pool_get_current(ferry_instance *instance, int32_t location, int32_t index,
                                         struct CUmemPoolHandle_st **pool);
int32_t ferry_pool_set_current(ferry_instance *instance, int32_t location, int32_t index,
                                         struct CUmemPoolHandle_st *pool);
int32_t ferry_pool_alloc_async(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint64_t size,
                                         struct CUstream_st *stream, uint64_t *address, ferry_error_info *error);
typedef struct ferry_pool_info {
    uint32_t struct_size;
    int32_t location;
    int32_t index;
    uint32_t handle_types;
    uint64_t max_size;
    int32_t is_default;
    int32_t is_imported;
    int32_t can_share;
    uint32_t reserved;
} ferry_pool_info;
int32_t ferry_pool_get_info(ferry_instance *instance, struct CUmemPoolHandle_st *pool, ferry_pool_info *info);
typedef struct ferry_pool_attributes {
    uint32_t struct_size;
    int32_t reuse_follow_event_dependencies;
    int32_t reuse_opportunistic;
    int32_t reuse_internal_dependencies;
    uint64_t release_threshold;
} ferry_pool_attributes;
int32_t ferry_pool_get_attributes(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                            ferry_pool_attributes *attributes);
int32_t ferry_pool_set_attributes(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                            const ferry_pool_attributes *attributes);
int32_t ferry_pool_get_stats(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                       ferry_pool_stats *stats);
int32_t ferry_pool_reset_stats(ferry_instance *instance, struct CUmemPoolHandle_st *pool);
int32_t ferry_pool_trim(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint64_t keep);
int32_t ferry_pool_set_access(ferry_instance *instance, struct CUmemPoolHandle_st *pool, int32_t device,
                                        int32_t access);
int32_t ferry_pool_get_access(ferry_instance *instance, struct CUmemPoolHandle_st *pool, int32_t device,
                                        int32_t *access);
typedef struct ferry_ipc_handle {
    uint8_t bytes[FERRY_IPC_HANDLE_SIZE];
} ferry_ipc_handle;
typedef struct ferry_ipc_info {
    uint32_t struct_size;
    int32_t kind;
    int32_t device;
    uint32_t handle_types;
    uint64_t size;
    uint64_t process;
    uint8_t device_uuid[16];
    int32_t is_own;
    uint32_t reserved;
} ferry_ipc_info;
int32_t ferry_ipc_get_info(ferry_instance *instance, const ferry_ipc_handle *handle, ferry_ipc_info *info);
int32_t ferry_ipc_export_memory(ferry_instance *instance, uint64_t address, uint64_t size,
                                          ferry_ipc_handle *handle, ferry_error_info *error);
int32_t ferry_ipc_export_pool(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint32_t handle_type,
                                        ferry_ipc_handle *handle, int64_t *os_handle, ferry_error_info *error);
int32_t ferry_ipc_export_event(ferry_instance *instance, struct CUevent_st *event, ferry_ipc_handle *handle,
                                         ferry_error_info *error);
int32_t ferry_ipc_import_memory(ferry_instance *instance, const ferry_ipc_handle *handle, uint64_t *address,
                                          ferry_error_info *error);
int32_t ferry_ipc_import_pool(ferry_instance *instance, const ferry_ipc_handle *handle, int64_t os_handle,
                                        struct CUmemPoolHandle_st **pool, ferry_error_info *error);
int32_t ferry_ipc_import_event(ferry_instance *instance, const ferry_ipc_handle *handle,
                                         struct CUevent_st **event, ferry_error_info *error);
int32_t ferry_ipc_close_memory(ferry_instance *instance, uint64_t address, struct CUstream_st *stream);
int32_t ferry_ipc_close_pool(ferry_instance *instance, struct CUmemPoolHandle_st *pool);
int32_t ferry_ipc_close_event(ferry_instance *instance, struct CUevent_st *event);
typedef struct ferry_peer_info {
    uint32_t struct_size;
    int32_t device;
    int32_t peer;
    int32_t can_access;
    int32_t driver_can_access;
    int32_t probe;
    int32_t performance_rank;
    int32_t native_atomics;
    int32_t array_access;
    uint32_t reserved;
    uint32_t direct_rate;
    uint32_t bounce_rate;
    uint32_t relay_rate;
    uint32_t relay_fixed_ns;
    uint32_t direct_fixed_ns;
    uint32_t link_to_rate;
    uint32_t link_from_rate;
} ferry_peer_info;
int32_t ferry_peer_get_info(ferry_instance *instance, int32_t device, int32_t peer, ferry_peer_info *info);
int32_t ferry_peer_probe(ferry_instance *instance, int32_t device, int32_t peer);
int32_t ferry_peer_enable(ferry_instance *instance, int32_t device, int32_t peer);
int32_t ferry_peer_disable(ferry_instance *instance, int32_t device, int32_t peer);
int32_t ferry_peer_calibrate(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *error);
typedef struct ferry_multilink_options {
    uint32_t struct_size;
    uint32_t max_sms;
    const int32_t *helpers;
    uint32_t helper_count;
    uint32_t reserved;
} ferry_multilink_options;
int32_t ferry_multilink_set(ferry_instance *instance, int32_t device, const ferry_multilink_options *options,
                                      ferry_error_info *error);
typedef struct ferry_external_memory_desc {
    uint32_t struct_size;
    int32_t device;
    int32_t handle_type;
    uint32_t flags;
    int64_t handle;
    const void *name;
    uint64_t size;
} ferry_external_memory_desc;
int32_t ferry_external_memory_import(ferry_instance *instance, const ferry_external_memory_desc *desc,
                                               struct CUextMemory_st **memory, ferry_error_info *error);
int32_t ferry_external_memory_get_address(ferry_instance *instance, struct CUextMemory_st *memory,
                                                    uint64_t offset, uint64_t size, uint64_t *address,
                                                    ferry_error_info *error);
int32_t ferry_external_memory_get_array(ferry_instance *instance, struct CUextMemory_st *memory,
                                                  uint64_t offset, const ferry_array_desc *desc, uint32_t levels,
                                                  struct CUmipmappedArray_st **mipmapped, ferry_error_info *error);
int32_t ferry_external_memory_release(ferry_instance *instance, struct CUextMemory_st *memory);
int32_t ferry_external_memory_release_async(ferry_instance *instance, struct CUextMemory_st *memory,
                                                      struct CUstream_st *stream);
typedef struct ferry_external_semaphore_desc {
    uint32_t struct_size;
    int32_t device;
    int32_t handle_type;
    uint32_t reserved;
    int64_t handle;
    const void *name;
} ferry_external_semaphore_desc;
int32_t ferry_external_semaphore_import(ferry_instance *instance, const ferry_external_semaphore_desc *desc,
                                                  struct CUextSemaphore_st **semaphore, ferry_error_info *error);
int32_t ferry_external_semaphore_signal_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore,
                                                        uint64_t value, struct CUstream_st *stream);
int32_t ferry_external_semaphore_wait_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore,
                                                      uint64_t value, uint32_t timeout_ms, struct CUstream_st *stream);
int32_t ferry_external_semaphore_release(ferry_instance *instance, struct CUextSemaphore_st *semaphore);
int32_t ferry_external_semaphore_release_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore,
                                                         struct CUstream_st *stream);
typedef struct ferry_staging_info {
    uint32_t struct_size;
    uint32_t threads;
    uint32_t busy_threads;
    uint32_t copies_in_flight;
    uint64_t staging_bytes;
    uint64_t bytes_in_flight;
} ferry_staging_info;
int32_t ferry_staging_get_info(ferry_instance *instance, ferry_staging_info *info);
int32_t ferry_staging_prepare(ferry_instance *instance, int32_t device);
int32_t ferry_staging_trim(ferry_instance *instance);
int32_t ferry_device_calibrate(ferry_instance *instance, int32_t device, ferry_error_info *error);
int32_t ferry_profile_save(const ferry_instance *instance, int32_t device, char *buffer, uint64_t size,
                                     uint64_t *needed);
int32_t ferry_profile_load(ferry_instance *instance, const char *text, uint64_t size,
                                     ferry_error_info *error);
