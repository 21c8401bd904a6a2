//! The C interface of ferry. Made from ferry.json by generate.py: do not edit. Link with libferry and libc.

pub const FERRY_VERSION_MAJOR: i32 = 0;
pub const FERRY_VERSION_MINOR: i32 = 6;
pub const FERRY_VERSION_PATCH: i32 = 0;

pub const FERRY_SUCCESS: i32 = 0; // counts as one of FERRY_ERROR_*
pub const FERRY_ERROR_INVALID_ARGUMENT: i32 = -1; // a required pointer is NULL, or a value is outside its documented range
pub const FERRY_ERROR_OUT_OF_MEMORY: i32 = -2; // host memory for ferry's own use; device memory is a driver status
pub const FERRY_ERROR_ABI_MISMATCH: i32 = -3; // struct_size is out of range, or covers unknown bytes that are not zero
pub const FERRY_ERROR_RESERVED: i32 = -4; // a reserved field is not zero
pub const FERRY_ERROR_FLAGS: i32 = -5; // an unknown flag is set
pub const FERRY_ERROR_KIND: i32 = -6; // unknown kind; full checks: not the kind stated; a fill of pageable memory
pub const FERRY_ERROR_DEVICE: i32 = -7; // no such device; not the array's device; full checks: not the memory's device
pub const FERRY_ERROR_ADDRESS: i32 = -8; // null address or array; full checks: freed, foreign or inaccessible memory
pub const FERRY_ERROR_PITCH: i32 = -9; // row pitch below x + width or above the device's limit, slice height below y + height
pub const FERRY_ERROR_OVERFLOW: i32 = -10; // offsets and extent do not fit 64 bits
pub const FERRY_ERROR_OUT_OF_BOUNDS: i32 = -11; // the box reaches past the array; full checks: past the allocation
pub const FERRY_ERROR_OVERLAP: i32 = -12; // source and destination share bytes
pub const FERRY_ERROR_ARRAY_FORMAT: i32 = -13; // element sizes differ, x or width is no whole number of elements, no such format
pub const FERRY_ERROR_NO_DRIVER: i32 = -14; // no NVIDIA driver on this machine
pub const FERRY_ERROR_DRIVER_TOO_OLD: i32 = -15; // a driver older than CUDA 12.0, or one that lacks a required entry point
pub const FERRY_ERROR_NO_DEVICE: i32 = -16; // a driver without a usable device
pub const FERRY_ERROR_UNSUPPORTED: i32 = -17; // this build or this driver has no such feature
pub const FERRY_ERROR_SOFTWARE_CONFIG: i32 = -18; // the software driver already runs with other settings
pub const FERRY_ERROR_NO_CONTEXT: i32 = -19; // no context to pop, or the call cannot use the context
pub const FERRY_ERROR_PEER_ACCESS: i32 = -20; // no access between the two devices, or the probe lost data
pub const FERRY_ERROR_ALIGNMENT: i32 = -21; // an address, pitch or width is no multiple of the pattern's size
pub const FERRY_ERROR_CAPTURE: i32 = -22; // the stream is being captured, and a graph cannot hold this call
pub const FERRY_ERROR_LIMIT: i32 = -23; // a pinned pool is at its limit, or the staging buffer has no free slot
pub const FERRY_ERROR_IN_USE: i32 = -24; // memory of the pool is still allocated or imported
pub const FERRY_ERROR_HANDLE: i32 = -25; // not a handle for this call, or damaged, or its object no longer exists
pub const FERRY_ERROR_MACHINE: i32 = -26; // the handle was made on another machine, or before the last reboot
pub const FERRY_ERROR_POOL: i32 = -27; // the pool of this memory is not imported, or this is no imported pool
pub const FERRY_ERROR_IMPORTED: i32 = -28; // imported: it cannot be freed, changed or allocated from, and ends with its import
pub const FERRY_ERROR_NOT_SHAREABLE: i32 = -29; // this memory, pool, event or semaphore cannot be shared
pub const FERRY_ERROR_PROFILE: i32 = -30; // the profile is damaged, old, or of another device or driver
pub const FERRY_ERROR_ROUTE: i32 = -31; // the route that the flags force cannot take this copy: see value

pub const FERRY_STATUS_DRIVER_BASE: i32 = -1000;

pub const FERRY_STATUS_CONTEXT_DEAD: u32 = 1; // the context (or the driver) is lost: every later call on it will fail too
pub const FERRY_STATUS_RETRY: u32 = 2; // the same call may succeed later, or once memory has been freed

pub const FERRY_SIDE_NONE: i32 = 0;
pub const FERRY_SIDE_SOURCE: i32 = 1;
pub const FERRY_SIDE_DESTINATION: i32 = 2;
pub const FERRY_SIDE_EXTENT: i32 = 3;
pub const FERRY_SIDE_DESCRIPTOR: i32 = 4; // the descriptor's own flags and reserved fields
pub const FERRY_SIDE_OPTIONS: i32 = 5; // the options or the description that a call was given

pub const FERRY_FIELD_NONE: i32 = 0;
pub const FERRY_FIELD_KIND: i32 = 1;
pub const FERRY_FIELD_DEVICE: i32 = 2;
pub const FERRY_FIELD_ADDRESS: i32 = 3;
pub const FERRY_FIELD_ARRAY: i32 = 4;
pub const FERRY_FIELD_ROW_PITCH: i32 = 5;
pub const FERRY_FIELD_SLICE_HEIGHT: i32 = 6;
pub const FERRY_FIELD_X: i32 = 7;
pub const FERRY_FIELD_Y: i32 = 8;
pub const FERRY_FIELD_Z: i32 = 9;
pub const FERRY_FIELD_WIDTH: i32 = 10;
pub const FERRY_FIELD_HEIGHT: i32 = 11;
pub const FERRY_FIELD_DEPTH: i32 = 12;
pub const FERRY_FIELD_FLAGS: i32 = 13;
pub const FERRY_FIELD_RESERVED: i32 = 14;
pub const FERRY_FIELD_STRUCT_SIZE: i32 = 15;
pub const FERRY_FIELD_DRIVER: i32 = 16;
pub const FERRY_FIELD_CHECKS: i32 = 17;
pub const FERRY_FIELD_CALLBACKS: i32 = 18; // allocate without deallocate, or the reverse
pub const FERRY_FIELD_SOFTWARE: i32 = 19; // software_* options that differ from those of the running software driver
pub const FERRY_FIELD_PATTERN: i32 = 20; // pattern_size
pub const FERRY_FIELD_NUMA: i32 = 21;
pub const FERRY_FIELD_NUMA_NODE: i32 = 22;
pub const FERRY_FIELD_THREADS: i32 = 23;
pub const FERRY_FIELD_SIZE: i32 = 24;
pub const FERRY_FIELD_LOCATION: i32 = 25;
pub const FERRY_FIELD_INDEX: i32 = 26;
pub const FERRY_FIELD_HANDLE_TYPES: i32 = 27;
pub const FERRY_FIELD_HANDLE: i32 = 28; // the bytes of a ferry_ipc_handle
pub const FERRY_FIELD_OS_HANDLE: i32 = 29;
pub const FERRY_FIELD_POOL: i32 = 30;
pub const FERRY_FIELD_EVENT: i32 = 31;
pub const FERRY_FIELD_REGISTER_CHUNK: i32 = 32;
pub const FERRY_FIELD_VERSION: i32 = 33; // of a profile
pub const FERRY_FIELD_LINE: i32 = 34; // of a profile: its number is the value
pub const FERRY_FIELD_KERNELS: i32 = 35;
pub const FERRY_FIELD_STAGING: i32 = 36;
pub const FERRY_FIELD_STAGING_CPUS: i32 = 37; // staging_cpus or staging_cpu_count
pub const FERRY_FIELD_STAGING_PRIORITY: i32 = 38;
pub const FERRY_FIELD_STAGING_BYTES: i32 = 39;
pub const FERRY_FIELD_SOFTWARE_DEVICES: i32 = 40;
pub const FERRY_FIELD_SOFTWARE_QUEUES: i32 = 41;
pub const FERRY_FIELD_FORMAT: i32 = 42; // of an array
pub const FERRY_FIELD_CHANNELS: i32 = 43; // of an array
pub const FERRY_FIELD_SOFTWARE_LINKS: i32 = 44;
pub const FERRY_FIELD_HELPERS: i32 = 45;
pub const FERRY_FIELD_TRACE_PHASES: i32 = 46;

pub const FERRY_KIND_ANY: i32 = 0; // `address` decides; memory unknown to the driver is host memory
pub const FERRY_KIND_HOST: i32 = 1; // `address` is host memory, pageable or pinned
pub const FERRY_KIND_DEVICE: i32 = 2; // `address` is device (or managed) memory on `device`
pub const FERRY_KIND_ARRAY: i32 = 3; // `array` is a CUDA array on `device`

pub const FERRY_DEVICE_UNKNOWN: i32 = -1;

pub const FERRY_COPY_URGENT: u32 = 1;
pub const FERRY_COPY_NO_KERNELS: u32 = 2;
pub const FERRY_COPY_SOURCE_READ: u32 = 4;
pub const FERRY_COPY_MULTILINK: u32 = 8;
pub const FERRY_COPY_DESTINATION_WRITTEN: u32 = 16;
pub const FERRY_COPY_BY_DRIVER: u32 = 256;
pub const FERRY_COPY_BY_KERNEL: u32 = 512;
pub const FERRY_COPY_BY_STAGING: u32 = 1024;
pub const FERRY_COPY_BY_RELAY: u32 = 2048;
pub const FERRY_COPY_DEFAULT: u32 = 4294901760; // a maximum of 65535 SMs, which limits nothing

pub const FERRY_COPY_MAX_SMS_SHIFT: i32 = 16;

pub const FERRY_BATCH_CHECK_OVERLAP: u32 = 4096; // refuse a batch if a copy writes bytes that another one reads or writes
pub const FERRY_BATCH_UPDATABLE: u32 = 8192; // prepared pieces only: allows ferry_prepared_set_addresses

pub const FERRY_ROUTE_NONE: i32 = 0; // not at all: its width is 0
pub const FERRY_ROUTE_DRIVER: i32 = 1; // by the driver's own calls: one, or more if host memory is registered in pieces
pub const FERRY_ROUTE_KERNEL: i32 = 2; // by a kernel of ferry's on the copy's stream
pub const FERRY_ROUTE_STAGED: i32 = 3; // by CPU threads and a kernel or copies on the stream, through pinned memory
pub const FERRY_ROUTE_BUFFERED: i32 = 4; // the calling thread reads the source into pinned memory, the driver copies that
pub const FERRY_ROUTE_RELAYED: i32 = 5; // between devices, through pinned memory, by the driver's calls on ferry's own streams
pub const FERRY_ROUTE_MULTILINK: i32 = 6; // by kernels of several devices, each over its own host link: ferry_multilink_set

pub const FERRY_OBSTACLE_NONE: i32 = 0;
pub const FERRY_OBSTACLE_NO_ROUTE: i32 = 1; // the instance's flags are BY_STAGING, and pieces of a batch cannot be staged
pub const FERRY_OBSTACLE_FORBIDDEN: i32 = 2; // FERRY_COPY_NO_KERNELS
pub const FERRY_OBSTACLE_NOT_LOADED: i32 = 3; // the driver refused ferry's kernels, or the options exclude them
pub const FERRY_OBSTACLE_HOST_TO_HOST: i32 = 4; // both ends are host memory
pub const FERRY_OBSTACLE_PAGEABLE: i32 = 5; // an end is pageable or host pool memory that the device does not reach
pub const FERRY_OBSTACLE_MANAGED: i32 = 6; // an end is managed memory: kernels by BY_KERNEL or URGENT, staging never
pub const FERRY_OBSTACLE_ARRAY: i32 = 7; // an end is an array that kernels do not take: see ferry_array_create
pub const FERRY_OBSTACLE_NO_ACCESS: i32 = 8; // the copy's context has no access to an end
pub const FERRY_OBSTACLE_BEYOND: i32 = 9; // an end reaches past its allocation or registration
pub const FERRY_OBSTACLE_READ_ONLY: i32 = 10; // the destination is memory that the device may only read
pub const FERRY_OBSTACLE_NOT_PAGEABLE: i32 = 11; // no end is pageable memory, and no narrow rows need staging
pub const FERRY_OBSTACLE_NO_STAGING: i32 = 12; // the options exclude staging, it has no threads or pinned memory, or the host memory cannot be read
pub const FERRY_OBSTACLE_OTHER_DEVICE: i32 = 13; // an end lies on another device than the one of the stream
pub const FERRY_OBSTACLE_DIRECT: i32 = 14; // the device takes pageable memory itself (pageable_uses_host_page_tables)
pub const FERRY_OBSTACLE_NOT_BETWEEN_DEVICES: i32 = 15; // the ends are not on two devices
pub const FERRY_OBSTACLE_DIRECT_ACCESS: i32 = 16; // one of the two devices has access to the memory of the other
pub const FERRY_OBSTACLE_NO_HELPERS: i32 = 17; // ferry_multilink_set names none for this device, in this context
pub const FERRY_OBSTACLE_NOT_CUT: i32 = 18; // rows below 64 KiB, or addresses or pitches that differ modulo 16
pub const FERRY_OBSTACLE_SMALL: i32 = 19; // too small to gain by it
pub const FERRY_OBSTACLE_CAPTURED: i32 = 20; // the copy becomes part of a graph, where it is the driver's

pub const FERRY_REASON_NONE: i32 = 0; // there is nothing to copy
pub const FERRY_REASON_LINE: i32 = 1; // one line without pageable memory: the driver is as fast
pub const FERRY_REASON_ONLY: i32 = 2; // no other route can take it: see the obstacles
pub const FERRY_REASON_PREDICTED: i32 = 3; // it is predicted to be the fastest, from the profile in force
pub const FERRY_REASON_NO_WAIT: i32 = 4; // the driver would make the caller wait
pub const FERRY_REASON_FORCED: i32 = 5; // the flags force it
pub const FERRY_REASON_URGENT: i32 = 6; // FERRY_COPY_URGENT
pub const FERRY_REASON_SOURCE_READ: i32 = 7; // FERRY_COPY_SOURCE_READ: the source is read in the call
pub const FERRY_REASON_MULTILINK: i32 = 8; // FERRY_COPY_MULTILINK

pub const FERRY_PROFILE_NONE: i32 = 0;
pub const FERRY_PROFILE_BUILT_IN: i32 = 1; // measured on other devices of this kind
pub const FERRY_PROFILE_CAUTIOUS: i32 = 2; // of no device: ferry_device_calibrate measures this one
pub const FERRY_PROFILE_MEASURED: i32 = 3; // by a calibration, now or before ferry_profile_load

pub const FERRY_BLOCKS_NO: i32 = 0; // nothing: the call enqueues and returns
pub const FERRY_BLOCKS_UNTIL_STAGED: i32 = 1; // until pageable source memory has been read, and for earlier work on the stream
pub const FERRY_BLOCKS_UNTIL_DONE: i32 = 2; // until the copy is complete

pub const FERRY_DRIVER_CUDA: i32 = 0; // the default: the NVIDIA driver or an error
pub const FERRY_DRIVER_AUTO: i32 = 1; // the NVIDIA driver if it has a usable device, else the software driver
pub const FERRY_DRIVER_SOFTWARE: i32 = 2; // the software driver

pub const FERRY_CHECKS_BASIC: i32 = 0; // arithmetic, pitches, array bounds and formats, overlap; resolves ANY
pub const FERRY_CHECKS_FULL: i32 = 1; // also each address: its kind and device as stated, inside its allocation

pub const FERRY_KERNELS_LAZY: i32 = 0; // in each context, with its first copy by a kernel
pub const FERRY_KERNELS_AT_OPEN: i32 = 1; // in ferry_open, which makes all primary contexts; LAZY in other contexts
pub const FERRY_KERNELS_NONE: i32 = 2; // never: the driver makes every copy

pub const FERRY_STAGING_LAZY: i32 = 0; // for each device with its first such copy
pub const FERRY_STAGING_AT_OPEN: i32 = 1; // in ferry_open, for all devices; loads kernels like FERRY_KERNELS_AT_OPEN
pub const FERRY_STAGING_NONE: i32 = 2; // never: the driver makes such copies, and they block

pub const FERRY_NUMA_ANY: i32 = 0; // where the system puts it
pub const FERRY_NUMA_DEVICE: i32 = 1; // near `device`: on its node in ferry_device_info; as ANY if that is not known
pub const FERRY_NUMA_NODE: i32 = 2; // on node number `numa_node`

pub const FERRY_PRIORITY_OF_PROCESS: i32 = 20;

pub const FERRY_SOFTWARE_LINKS_DEFAULT: i32 = 0; // as the software driver runs already, or else ALL
pub const FERRY_SOFTWARE_LINKS_ALL: i32 = 1; // every pair
pub const FERRY_SOFTWARE_LINKS_NONE: i32 = 2; // no pair
pub const FERRY_SOFTWARE_LINKS_PAIRS: i32 = 3; // devices 2k and 2k + 1
pub const FERRY_SOFTWARE_LINKS_LOSSY: i32 = 4; // every pair, but its access moves no bytes

pub const FERRY_LOG_ERROR: i32 = 0;
pub const FERRY_LOG_WARNING: i32 = 1;
pub const FERRY_LOG_INFO: i32 = 2;

pub const FERRY_TRACE_COPY: i32 = 1; // a single copy
pub const FERRY_TRACE_BATCH: i32 = 2; // a batch of copies or pieces
pub const FERRY_TRACE_PREPARED: i32 = 3; // the launch of a prepared batch; bytes and count are 0
pub const FERRY_TRACE_FILL: i32 = 4;

pub const FERRY_PHASE_BEGIN: u32 = 1; // the call begins
pub const FERRY_PHASE_RETURN: u32 = 2; // the call returns
pub const FERRY_PHASE_DONE: u32 = 4; // the stream has passed the work of a call that did not wait for it

pub const FERRY_COPY_OVERLAP_NONE: i32 = 0; // no engine: copies and kernels take turns
pub const FERRY_COPY_OVERLAP_ONE_WAY: i32 = 1; // one engine: a copy in one direction at a time runs beside kernels
pub const FERRY_COPY_OVERLAP_BOTH_WAYS: i32 = 2; // two: one copy in each direction runs beside kernels
pub const FERRY_COPY_OVERLAP_BOTH_AND_MORE: i32 = 3; // more: also copies to peers or within the device beside those

pub const FERRY_HANDLE_POSIX_FD: u32 = 1;
pub const FERRY_HANDLE_WIN32: u32 = 2;
pub const FERRY_HANDLE_WIN32_KMT: u32 = 4;
pub const FERRY_HANDLE_FABRIC: u32 = 8;

pub const FERRY_STREAM_LEGACY: i32 = 1;
pub const FERRY_STREAM_PER_THREAD: i32 = 2;

pub const FERRY_STREAM_NON_BLOCKING: u32 = 1; // not ordered with the legacy default stream (CU_STREAM_NON_BLOCKING)

pub const FERRY_EVENT_BLOCKING_SYNC: u32 = 1; // ferry_event_synchronize sleeps instead of spinning
pub const FERRY_EVENT_DISABLE_TIMING: u32 = 2; // cheaper; ferry_event_elapsed_time does not take it
pub const FERRY_EVENT_INTERPROCESS: u32 = 4; // for ferry_ipc_export_event; needs FERRY_EVENT_DISABLE_TIMING as well

pub const FERRY_HOST_WRITE_COMBINED: u32 = 1; // fast to write, very slow to read for the CPU
pub const FERRY_HOST_BY_DRIVER: u32 = 2; // by cuMemHostAlloc: slower to allocate, and cuMemFreeHost takes it too
pub const FERRY_HOST_NOT_PORTABLE: u32 = 4; // not pinned for other contexts; with unified addressing pinned anyway
pub const FERRY_HOST_NOT_MAPPED: u32 = 8; // not mapped into devices; with unified addressing mapped anyway
pub const FERRY_HOST_ALLOW_SMALLER: u32 = 16; // a smaller block instead of an error: see min_size
pub const FERRY_HOST_ALLOW_PAGEABLE: u32 = 32; // a pageable block instead of an error
pub const FERRY_HOST_SHARED: u32 = 64; // the children of a fork share it; usually small pages before Linux 6.1

pub const FERRY_HOST_FROM_MAPPING: i32 = 1; // mapped by ferry, registered with the driver
pub const FERRY_HOST_FROM_DRIVER: i32 = 2; // cuMemHostAlloc
pub const FERRY_HOST_FROM_SYSTEM: i32 = 3; // mapped by ferry and pageable: FERRY_HOST_ALLOW_PAGEABLE

pub const FERRY_REGISTER_READ_ONLY: u32 = 1; // the devices only read it; for anonymous memory that the process may only read

pub const FERRY_MEMORY_NONE: i32 = -1; // in ferry_explanation only: a fill has no source
pub const FERRY_MEMORY_PAGEABLE: i32 = 0; // ordinary host memory or none at all; a host pool's without access to the pool
pub const FERRY_MEMORY_PINNED: i32 = 1; // allocated pinned, or registered
pub const FERRY_MEMORY_DEVICE: i32 = 2;
pub const FERRY_MEMORY_MANAGED: i32 = 3;
pub const FERRY_MEMORY_ARRAY: i32 = 4; // in ferry_explanation only

pub const FERRY_FORMAT_UINT8: i32 = 1;
pub const FERRY_FORMAT_UINT16: i32 = 2;
pub const FERRY_FORMAT_UINT32: i32 = 3;
pub const FERRY_FORMAT_SINT8: i32 = 8;
pub const FERRY_FORMAT_SINT16: i32 = 9;
pub const FERRY_FORMAT_SINT32: i32 = 10;
pub const FERRY_FORMAT_HALF: i32 = 16;
pub const FERRY_FORMAT_FLOAT: i32 = 32;
pub const FERRY_FORMAT_UNORM_INT8X1: i32 = 192;
pub const FERRY_FORMAT_UNORM_INT8X2: i32 = 193;
pub const FERRY_FORMAT_UNORM_INT8X4: i32 = 194;
pub const FERRY_FORMAT_UNORM_INT16X1: i32 = 195;
pub const FERRY_FORMAT_UNORM_INT16X2: i32 = 196;
pub const FERRY_FORMAT_UNORM_INT16X4: i32 = 197;
pub const FERRY_FORMAT_SNORM_INT8X1: i32 = 198;
pub const FERRY_FORMAT_SNORM_INT8X2: i32 = 199;
pub const FERRY_FORMAT_SNORM_INT8X4: i32 = 200;
pub const FERRY_FORMAT_SNORM_INT16X1: i32 = 201;
pub const FERRY_FORMAT_SNORM_INT16X2: i32 = 202;
pub const FERRY_FORMAT_SNORM_INT16X4: i32 = 203;
pub const FERRY_FORMAT_UNORM_INT_101010_2: i32 = 80; // 4 channels in 32 bits
pub const FERRY_FORMAT_BC1_UNORM: i32 = 145;
pub const FERRY_FORMAT_BC1_UNORM_SRGB: i32 = 146;
pub const FERRY_FORMAT_BC2_UNORM: i32 = 147;
pub const FERRY_FORMAT_BC2_UNORM_SRGB: i32 = 148;
pub const FERRY_FORMAT_BC3_UNORM: i32 = 149;
pub const FERRY_FORMAT_BC3_UNORM_SRGB: i32 = 150;
pub const FERRY_FORMAT_BC4_UNORM: i32 = 151;
pub const FERRY_FORMAT_BC4_SNORM: i32 = 152;
pub const FERRY_FORMAT_BC5_UNORM: i32 = 153;
pub const FERRY_FORMAT_BC5_SNORM: i32 = 154;
pub const FERRY_FORMAT_BC6H_UF16: i32 = 155;
pub const FERRY_FORMAT_BC6H_SF16: i32 = 156;
pub const FERRY_FORMAT_BC7_UNORM: i32 = 157;
pub const FERRY_FORMAT_BC7_UNORM_SRGB: i32 = 158;
pub const FERRY_FORMAT_NV12: i32 = 176; // planar 4:2:0, 8 bits
pub const FERRY_FORMAT_P010: i32 = 159; // planar 4:2:0, 10 bits
pub const FERRY_FORMAT_P016: i32 = 161; // planar 4:2:0, 16 bits
pub const FERRY_FORMAT_NV16: i32 = 162; // planar 4:2:2, 8 bits
pub const FERRY_FORMAT_P210: i32 = 163; // planar 4:2:2, 10 bits
pub const FERRY_FORMAT_P216: i32 = 164; // planar 4:2:2, 16 bits
pub const FERRY_FORMAT_YUY2: i32 = 165; // packed 4:2:2, 8 bits; 4 channels
pub const FERRY_FORMAT_Y210: i32 = 166; // packed 4:2:2, 10 bits; 2 channels
pub const FERRY_FORMAT_Y216: i32 = 167; // packed 4:2:2, 16 bits; 2 channels
pub const FERRY_FORMAT_AYUV: i32 = 168; // packed 4:4:4, 8 bits; 4 channels
pub const FERRY_FORMAT_Y410: i32 = 169; // packed 4:4:4, 10 bits; 1 channel
pub const FERRY_FORMAT_Y416: i32 = 177; // packed 4:4:4, 12 bits; 4 channels
pub const FERRY_FORMAT_Y444_PLANAR8: i32 = 178;
pub const FERRY_FORMAT_Y444_PLANAR10: i32 = 179;
pub const FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR: i32 = 180;
pub const FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR: i32 = 181;

pub const FERRY_ARRAY_LAYERED: u32 = 1; // depth counts layers (CUDA_ARRAY3D_LAYERED)
pub const FERRY_ARRAY_SURFACE: u32 = 2; // surfaces may be made of it (CUDA_ARRAY3D_SURFACE_LDST)
pub const FERRY_ARRAY_CUBEMAP: u32 = 4; // square, six faces deep; layered: a multiple of six (CUDA_ARRAY3D_CUBEMAP)
pub const FERRY_ARRAY_TEXTURE_GATHER: u32 = 8; // 2D only (CUDA_ARRAY3D_TEXTURE_GATHER)
pub const FERRY_ARRAY_COLOR_ATTACHMENT: u32 = 32; // only of imported images (CUDA_ARRAY3D_COLOR_ATTACHMENT)
pub const FERRY_ARRAY_VIDEO: u32 = 256; // for the video formats (CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)

pub const FERRY_LOCATION_DEVICE: i32 = 0; // on a device
pub const FERRY_LOCATION_HOST: i32 = 1; // in host memory
pub const FERRY_LOCATION_HOST_NUMA: i32 = 2; // in host memory on a NUMA node

pub const FERRY_ACCESS_NONE: i32 = 0;
pub const FERRY_ACCESS_READ_WRITE: i32 = 3;

pub const FERRY_IPC_HANDLE_SIZE: i32 = 256;

pub const FERRY_IPC_MEMORY: i32 = 1; // memory of ferry_device_alloc, cuMemAlloc or cudaMalloc
pub const FERRY_IPC_POOL: i32 = 2; // a pool
pub const FERRY_IPC_POOL_MEMORY: i32 = 3; // an allocation from a pool
pub const FERRY_IPC_EVENT: i32 = 4; // an event

pub const FERRY_PROBE_NOT_RUN: i32 = 0;
pub const FERRY_PROBE_PASSED: i32 = 1;
pub const FERRY_PROBE_FAILED: i32 = 2; // the driver reports access, but bytes do not arrive: the pair counts as having none

pub const FERRY_EXTERNAL_OPAQUE_FD: i32 = 1; // Vulkan on Linux: a file descriptor
pub const FERRY_EXTERNAL_OPAQUE_WIN32: i32 = 2; // Vulkan on Windows: an NT handle, or a name
pub const FERRY_EXTERNAL_OPAQUE_WIN32_KMT: i32 = 3; // the same: a KMT handle
pub const FERRY_EXTERNAL_D3D12_HEAP: i32 = 4; // an NT handle, or a name
pub const FERRY_EXTERNAL_D3D12_RESOURCE: i32 = 5; // the same; always dedicated, the flag need not be set
pub const FERRY_EXTERNAL_D3D11_RESOURCE: i32 = 6; // the same
pub const FERRY_EXTERNAL_D3D11_RESOURCE_KMT: i32 = 7; // a KMT handle; else the same

pub const FERRY_EXTERNAL_DEDICATED: u32 = 1;

pub const FERRY_SEMAPHORE_OPAQUE_FD: i32 = 1; // a binary semaphore of Vulkan on Linux: a file descriptor
pub const FERRY_SEMAPHORE_OPAQUE_WIN32: i32 = 2; // the same on Windows: an NT handle, or a name
pub const FERRY_SEMAPHORE_OPAQUE_WIN32_KMT: i32 = 3; // the same: a KMT handle
pub const FERRY_SEMAPHORE_D3D12_FENCE: i32 = 4;
pub const FERRY_SEMAPHORE_D3D11_FENCE: i32 = 5;
pub const FERRY_SEMAPHORE_D3D11_KEYED_MUTEX: i32 = 7;
pub const FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT: i32 = 8;
pub const FERRY_SEMAPHORE_TIMELINE_FD: i32 = 9; // a timeline semaphore of Vulkan on Linux: a file descriptor
pub const FERRY_SEMAPHORE_TIMELINE_WIN32: i32 = 10; // the same on Windows: an NT handle, or a name

pub const ferry_instance = opaque {};
pub const ferry_pinned_pool = opaque {};
pub const ferry_prepared = opaque {};
pub const ferry_ticket = opaque {};
pub const CUarray_st = opaque {};
pub const CUctx_st = opaque {};
pub const CUevent_st = opaque {};
pub const CUextMemory_st = opaque {};
pub const CUextSemaphore_st = opaque {};
pub const CUmemPoolHandle_st = opaque {};
pub const CUmipmappedArray_st = opaque {};
pub const CUstream_st = opaque {};

/// Details of an error. Set struct_size before the call: 0 counts as 40, the size of the first version, and becomes 40; 1 to 7 is not filled. Every call that takes a ferry_error_info fills it; after a success all other fields are 0.
///
/// `value` is the offending value and `limit` the bound that it missed, in the field's unit. Both are 0 where no number applies; for a driver's status side and field are 0 too.
/// PITCH               value: the pitch or slice height given; limit: the allowed minimum or maximum
/// OUT_OF_BOUNDS       of an array, field X, Y or Z, value: one past the last byte, row or slice of the box; limit: the
///                     array's width in bytes, its height or its depth. Of memory, field ADDRESS, value: the address one
///                     past the last byte; limit: the end of the allocation. If the box begins before the allocation,
///                     the two are the beginnings. The side is that of the copy; calls other than copies and fills
///                     have none, and may name SIZE. ferry_external_memory_import has OPTIONS and no limit; the numbers
///                     of ferry_external_memory_get_address and ferry_external_memory_get_array count from the memory's
///                     beginning, or from the offset given. A piece of an updatable batch has no numbers
/// ARRAY_FORMAT        value: the x, the width or the destination's element size; limit: the element size required
/// DEVICE              value: the ordinal given; limit: the number of devices, the memory's device, or for a fill the
///                     stream's device
/// INVALID_ARGUMENT    value: the number given; limit: the allowed maximum, minimum or unit
/// OVERFLOW            value: the offset, extent or slice height given; limit: the maximum that fits 64 bits
/// FLAGS               value: the flags given
/// ALIGNMENT           value: the address, pitch or width, or the shift of a prepared piece's destination; limit: the
///                     divisor
/// OVERLAP             between two copies of a batch, value: the later copy's index; limit: the other's
/// UNSUPPORTED         value: the pattern's size, depth or layer given; limit: the maximum, or the layer, that works
/// DRIVER_TOO_OLD      value: the driver's version; limit: the oldest supported version
/// ROUTE               value: FERRY_OBSTACLE_*
/// PROFILE             for a line, value: its number; limit: the number of lines
/// HANDLE              for a handle of any other version, value: its version; limit: this library's. For OS_HANDLE,
///                     value: the descriptor or handle; limit: the driver's result, or 0
/// ABI_MISMATCH        value: the size given; limit: this library's
pub const ferry_error_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_error_info),
    status: i32 = 0, // as returned
    side: i32 = 0, // FERRY_SIDE_*
    field: i32 = 0, // FERRY_FIELD_*
    index: u64 = 0, // of the copy or piece, if the call takes many and side is not FERRY_SIDE_NONE; else 0
    limit: u64 = 0,
    value: u64 = 0,
};

/// One end of a copy. The bytes begin x bytes, y rows and z slices after the address or the array's first element.
///
/// row_pitch     Bytes from one row to the next, at least x + width. 0: rows are tight, width bytes apart; x must then
///               be 0 unless the copy is one row of the first slice. Not read for arrays.
/// slice_height  Rows from one slice to the next, at least y + height: the allocation's height, not the copy's. 0:
///               slices are tight, height rows apart; y must then be 0 unless the copy is in the first slice. Not read
///               for arrays.
/// address       Not read for ARRAY; `array` is read only for ARRAY.
/// device        Not read for ANY and HOST. Managed memory may be HOST, ANY, or DEVICE on any device. For an array that
///               the instance made, a level or a plane of it, another device is refused (FERRY_ERROR_DEVICE). The
///               device of any other array is not checked, because the driver does not report it.
/// array         Block-compressed arrays count rows and bytes in blocks of 4 x 4 texels. A planar array takes no copy
///               (the driver's -1001); its planes do.
///
/// Only full checks refuse a wrong address, and pageable memory that the process cannot read, or cannot write at a destination. They test the process's mappings during the call, but not whether a file system has room for a sparse file. With basic checks the driver may refuse such memory or the process may crash, as with the driver's own calls.
pub const ferry_place = extern struct {
    kind: i32 = 0, // FERRY_KIND_*
    device: i32 = 0, // ordinal, or FERRY_DEVICE_UNKNOWN
    address: u64 = 0,
    array: ?*CUarray_st = null,
    row_pitch: u64 = 0,
    slice_height: u64 = 0,
    x: u64 = 0,
    y: u64 = 0,
    z: u64 = 0,
    reserved: [4]u64 = @splat(0), // must be zero
};

/// One copy. A zeroed descriptor with two addresses and a width is a 1D copy: height 0 and depth 0 count as 1 (CUDA's own calls copy nothing then). Width 0 copies nothing and succeeds if kinds, devices, flags and reserved fields are valid.
pub const ferry_copy_desc = extern struct {
    source: ferry_place = .{},
    destination: ferry_place = .{},
    width: u64 = 0, // bytes
    height: u64 = 0, // rows
    depth: u64 = 0, // slices
    flags: u32 = 0, // FERRY_COPY_*; 0: the instance's (ferry_options.copy_flags)
    reserved0: u32 = 0,
    reserved: [4]u64 = @splat(0), // must be zero
};

/// The progress of a copy or a stream.
pub const ferry_ticket_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_ticket_info),
    done: i32 = 0, // 1: the work has ended, with success or not
    status: i32 = 0, // of the work: 0 while in flight and after success; else what ended it
    route: i32 = 0, // FERRY_ROUTE_* that the copy took, see ferry_copy_explain_async; 0 for a stream
    bytes_done: u64 = 0, // bytes that have arrived; only staged copies count before the end; 0 for a stream
    bytes_total: u64 = 0, // of the copy; 0 for a stream
};

/// One fill: a pattern of 1, 2, 4, 8 or 16 bytes, in memory order, repeated over a box of device, managed or pinned host memory. The address with its origin and the width must be multiples of the pattern's size, and so must the row pitch if there is more than one row. A row pitch other than 0 is at least x + width. Height 0 and depth 0 count as 1. Width 0 fills nothing and succeeds if kind, device, pattern_size, flags and reserved fields are valid.
///
/// The driver itself fills patterns of up to 4 bytes over equally spaced rows. Two kinds of fill need a kernel of ferry's: a pattern of 8 or 16 bytes that does not repeat every 4; and slices with gaps between them, unless the rows within a slice are tight or a slice has one row. Such a fill is refused if no kernel can run or reach the memory.
pub const ferry_fill_desc = extern struct {
    destination: ferry_place = .{},
    width: u64 = 0, // bytes
    height: u64 = 0,
    depth: u64 = 0,
    pattern: [16]u8 = @splat(0), // its first pattern_size bytes are read
    pattern_size: u32 = 0, // 1, 2, 4, 8 or 16
    flags: u32 = 0, // FERRY_COPY_*, as of a copy; 0: the instance's (ferry_options.copy_flags)
    reserved: [6]u64 = @splat(0), // must be zero
};

/// What a copy or a fill would do. For a fill, predicted times are 0, and of the obstacles only kernel_obstacle counts, which is not looked for where the reason is LINE.
pub const ferry_explanation = extern struct {
    struct_size: u32 = @sizeOf(ferry_explanation),
    route: i32 = 0, // FERRY_ROUTE_*
    blocks: i32 = 0, // FERRY_BLOCKS_*
    synchronises: i32 = 0, // 1: ferry itself waits: after the driver's call, if the call returns before the copy is complete; before it, if the call would read a pageable source too early
    driver_call: [32]u8 = @splat(0), // such as "cuMemcpy3DAsync" or "cuLaunchKernel"; empty for FERRY_ROUTE_NONE
    context_device: i32 = 0, // the device of the context that the copy runs in; -1 for FERRY_ROUTE_NONE
    source_memory: i32 = 0, // FERRY_MEMORY_*; 0 and without meaning for FERRY_ROUTE_NONE; NONE for a fill
    source_device: i32 = 0, // where device or array memory lies; -1 otherwise
    destination_memory: i32 = 0, // FERRY_MEMORY_*
    destination_device: i32 = 0,
    calls: u32 = 0, // of the driver: 1, or more where host memory is registered in pieces or in part; 0 for none
    width: u64 = 0, // the extent as the call gets it: bytes, rows, slices; tight dimensions have been folded
    height: u64 = 0,
    depth: u64 = 0,
    driver_ns: u64 = 0, // predicted for the driver route, from the call until the bytes are there; 0: not known
    kernel_ns: u64 = 0, // likewise for a kernel, which is taken where it wins by 5 %, see FERRY_COPY_*
    kernel_obstacle: i32 = 0, // FERRY_OBSTACLE_*: why a kernel does not take it, and nothing was predicted for one
    max_sms: u32 = 0, // the maximum number of SMs that the route keeps busy; 0 for the driver's
    staged_ns: u64 = 0, // as driver_ns, for FERRY_ROUTE_STAGED
    staged_obstacle: i32 = 0, // FERRY_OBSTACLE_*: why that cannot take it
    threads: u32 = 0, // the maximum number of CPU threads that the route keeps busy, a waiting caller included
    staging_delay_ns: u64 = 0, // in staged_ns: how late staged copies lately were because other programs kept the processors busy or other kernels the device; 0: not
    relay_ns: u64 = 0, // as driver_ns, for FERRY_ROUTE_RELAYED
    relay_obstacle: i32 = 0, // FERRY_OBSTACLE_*: why that cannot take it, or need not. Copies below 2 MiB are taken only with FERRY_COPY_BY_RELAY; whether they could be is not looked at without
    links: u32 = 0, // for FERRY_ROUTE_MULTILINK, and staged over several: the host links taken; else 0
    multilink_ns: u64 = 0, // as driver_ns, for FERRY_ROUTE_MULTILINK: by measured or equal links
    multilink_obstacle: i32 = 0, // FERRY_OBSTACLE_*: why that cannot take it; FORBIDDEN: the flags do not ask for it
    reason: i32 = 0, // FERRY_REASON_*: why the copy, or one of its parts, takes this route
    profile: i32 = 0, // FERRY_PROFILE_*: where the predicted times come from
    helper_sms: u32 = 0, // with several links: the maximum number of SMs on each helper, and max_sms on the device; else 0
    engine_bytes: u64 = 0, // for FERRY_ROUTE_MULTILINK: of the copy, what the device's copy engine takes. Kernels on all the devices claim the rest chunk by chunk
};

/// The copies of a batch that go one way. Copies of width 0 do not count, merged neighbours count as one, and a copy that is cut at the end of an allocation or registration counts as its parts.
pub const ferry_batch_share = extern struct {
    copies: u64 = 0,
    bytes: u64 = 0,
    predicted_ns: u64 = 0, // the sum for these copies, without earlier work on the stream; 0: not known for all
};

/// What ferry would do with a batch. Set struct_size first.
pub const ferry_batch_explanation = extern struct {
    struct_size: u32 = @sizeOf(ferry_batch_explanation),
    context_device: i32 = 0, // the device of the context that the batch runs in; -1 if nothing is to be copied
    singles: ferry_batch_share = .{}, // one by one, by any route: ferry_copy_explain_async tells which
    batch_calls: ferry_batch_share = .{}, // by cuMemcpyBatchAsync and cuMemcpy3DBatchAsync
    kernels: ferry_batch_share = .{}, // by kernels that copy many in one launch
    staged: ferry_batch_share = .{}, // together, between pageable memory and the device; rows of boxes count each
    max_sms: u32 = 0, // the maximum number of SMs that a launch of `kernels` or `staged` keeps busy
    threads: u32 = 0, // the maximum number of CPU threads that `staged` keeps busy, a waiting caller included
    staging_delay_ns: u64 = 0, // how late staged copies lately were, as far as it is in staged.predicted_ns
    broadcasts: ferry_batch_share = .{}, // lines with one source that go to several devices; bytes: each source once
};

/// One call that copies or fills, for ferry_options.trace. Times are nanoseconds of the system's monotonic clock (CLOCK_MONOTONIC).
pub const ferry_trace_event = extern struct {
    struct_size: u32 = @sizeOf(ferry_trace_event),
    kind: i32 = 0, // FERRY_TRACE_*
    id: u64 = 0, // of the call, from 1: the same in all of its events
    begin_ns: u64 = 0, // when the call began
    returned_ns: u64 = 0, // when it returned; 0: not yet
    done_ns: u64 = 0, // when the stream was seen to have passed the work, or the call had waited for it; 0: not yet
    bytes: u64 = 0, // that were to be copied or filled
    count: u64 = 0, // of copies or fills
    stream: ?*CUstream_st = null,
    routes: u32 = 0, // bits 1 << FERRY_ROUTE_*: those taken; 0 if nothing was enqueued
    status: i32 = 0, // of the call; in FERRY_PHASE_DONE of its work
    device: i32 = 0, // of the context that it ran in; -1 if nothing was enqueued
    is_synchronous: i32 = 0, // 1: the call waits for its work
    phase: u32 = 0, // FERRY_PHASE_*
    reserved: u32 = 0,
};

/// How to open an instance. All zero but struct_size means defaults.
///
/// get_proc     The program's own driver loader, with cuGetProcAddress's meaning: returns the newest variant of `name`
///              that is not newer than `version` (12000 is CUDA 12.0), in its legacy-stream form, or NULL. A plain dlsym
///              does not do: it finds first versions. Called during ferry_open and ferry_instance_get_proc, on the
///              calling thread; the results must stay valid until ferry_close. ferry then loads no library. Not used
///              with FERRY_DRIVER_SOFTWARE.
/// allocate     Host memory for ferry's own structures; alignment is a power of two; may return NULL. `deallocate`
///              receives the size. Set both or neither. Copies call it only on first need for staging, also on ferry's
///              threads; for a ticket if no released one is free; and for a batch that needs more room than earlier ones
///              or runs beside others. The software driver does not use it. A graph keeps 16 bytes for each staged copy
///              in it; they come from malloc, because the graph may outlive the instance.
/// register_chunk  The largest piece registered with the driver at once, a multiple of 4096. Drivers refuse pieces of
///              512 GiB. ferry_host_register splits larger memory; ferry_host_alloc leaves it to the driver.
/// copy_flags   Flags for every copy and fill whose own flags are 0, and for the short forms and pieces, which have
///              none.
/// kernels      When ferry's kernels are loaded. Loading takes about a millisecond (H200) for the instance and a third
///              of that for each context, and waits for running work in the context. With LAZY the first copy by a
///              kernel pays and waits, as the first launch of any kernel may. Use AT_OPEN in a program that holds
///              streams back until it has enqueued more.
/// log          `level`: FERRY_LOG_*. `message` is one line without its end, valid during the callback. ferry writes
///              nowhere else.
/// staging      When staging threads start and staging buffers are pinned, for copies between pageable memory and
///              devices. This takes some milliseconds; with LAZY the first such copy pays. A program whose calls must
///              never wait uses AT_OPEN or calls ferry_staging_prepare. FERRY_KERNELS_NONE
///              excludes staging.
/// staging_threads  The number of worker threads of the instance, for all its devices together, 1 to 64. 0: 8 for each
///              device that has staged copies, but at most half the processors available to the program, and at least 2.
///              They sleep when idle and end in ferry_close. One more thread, the watchdog, starts spare workers while
///              workers are stuck in page faults that do not resolve. Workers and spares are 64 at most.
/// staging_cpus  The processors for the workers: staging_cpu_count numbers, read before ferry_open returns. Or all
///              processors of a node: staging_numa FERRY_NUMA_NODE and staging_numa_node. Not both, and a list needs its
///              count. Default: those of the program's main thread at ferry_open, whichever thread copies first; of
///              these, on a machine with several NUMA nodes, the default threads of a device (staging_threads 0) use
///              those of the device's node if there are at least two for each thread. A staging buffer always lies near
///              its device.
/// staging_priority  The workers' niceness, -20 to 19; 0: -20; FERRY_PRIORITY_OF_PROCESS: the main thread's. If the
///              system refuses it, they get the nearest that it grants, at most the main thread's. Their scheduling
///              class is the default one (SCHED_OTHER), with the shortest slices where the system has them (Linux 6.12).
/// staging_bytes  The size of each device's staging buffer, 4096 to 1 GiB; below 8192 it is 8192, because the buffer has
///              at least two slots. It is smaller if less can be pinned. It has this size for each of up to four links
///              that copies of the device take: FERRY_COPY_MULTILINK, and broadcasts of pageable memory.
/// deferred_bytes  The maximum that deferred frees (ferry_array_destroy_async and similar calls) keep on each device,
///              and in the host's memory. Above it, an allocation of ferry's there first frees what streams have passed,
///              which waits for running work. 0: a sixteenth of the device's memory, for the host's that of device 0.
///              UINT64_MAX: no limit until an allocation finds no memory.
/// submit       Uses the program's own threads; ferry starts only a watchdog. Each call of submit asks the program to
///              run work(argument) once and soon, on any thread, even while the rest of the program waits for a stream.
///              Until then the copy and the work behind it on its stream stand still. Returns 1 if work will be called,
///              else 0; ferry then starts one thread of its own, which stays until ferry_close. The driver calls
///              submit from a host function, so neither submit nor work may call the driver or wait for a thread that
///              does. work calls no driver and returns when nothing is left to do. submit may run work itself, as a full
///              thread pool does: the work then returns at once, and ferry starts one thread of its own, as if submit
///              had returned 0. submit must not wait for work that another thread runs. A copy asks for at most
///              staging_threads threads. The watchdog starts a copying thread in two cases: all threads that came are
///              stuck in page faults that do not resolve, or none came while a thread waits for a ticket. That thread
///              runs for as long as it is needed.
/// software_links  With every value, copies between contexts without peer access arrive. LOSSY imitates machines that
///              report access and move nothing: ferry_peer_probe and ferry_peer_enable fail with
///              FERRY_ERROR_PEER_ACCESS. If the program enables access itself, copies between the two contexts' memory
///              write nothing and report no error. Fills and kernels then do not change a peer's memory, and kernels
///              read bytes of 0xff from it.
/// trace        Called for every copy, batch and fill, also one that fails: when the call begins, when it returns, and
///              for one on a stream once the stream has passed, on a thread of ferry's. That thread looks every 0.05 ms;
///              the stream does not wait for it. There is no third event if the call failed, did nothing, or became part
///              of a graph, if the stream has not passed the work at ferry_close, or if the context ended without
///              ferry_context_destroy. `event` is valid during the callback. The third event costs a call on a stream an
///              event of the driver's, some microseconds.
/// trace_phases  The events wanted: FERRY_PHASE_*, joined by |. 0: all.
///
/// Callbacks may run on several threads at once. get_proc and log run inside calls of this instance, also ferry_open and ferry_close, on the calling thread; allocate and deallocate also on ferry's own threads, and trace on both. No callback may call ferry or throw.
pub const ferry_options = extern struct {
    struct_size: u32 = @sizeOf(ferry_options),
    driver: i32 = 0, // FERRY_DRIVER_*
    checks: i32 = 0, // FERRY_CHECKS_*
    software_devices: u32 = 0, // number of devices of the software driver, 1 to 64; 0 for the default, 2
    software_queues: u32 = 0, // hardware queues of each, 1 to 128; 0 for the default, 8
    reserved: u32 = 0,
    software_memory: u64 = 0, // bytes of memory of each; 0 for the default, 4 GiB; committed on first write
    get_proc: ?*const fn (user: ?*anyopaque, name: ?[*:0]const u8, version: i32) callconv(.c) ?*anyopaque = null,
    get_proc_user: ?*anyopaque = null,
    allocate: ?*const fn (user: ?*anyopaque, size: u64, alignment: u64) callconv(.c) ?*anyopaque = null,
    deallocate: ?*const fn (user: ?*anyopaque, memory: ?*anyopaque, size: u64) callconv(.c) void = null,
    allocate_user: ?*anyopaque = null,
    log: ?*const fn (user: ?*anyopaque, level: i32, message: ?[*:0]const u8) callconv(.c) void = null,
    log_user: ?*anyopaque = null,
    register_chunk: u64 = 0, // bytes; 0 for the default, 256 GiB
    copy_flags: u32 = 0, // FERRY_COPY_*, for copies and fills that have none of their own
    kernels: i32 = 0, // FERRY_KERNELS_*
    staging: i32 = 0, // FERRY_STAGING_*
    staging_threads: u32 = 0,
    staging_cpus: ?[*]const i32 = null, // `staging_cpu_count` elements; NULL: any
    staging_cpu_count: u32 = 0,
    staging_priority: i32 = 0, // a niceness or FERRY_PRIORITY_OF_PROCESS
    staging_numa: i32 = 0, // FERRY_NUMA_ANY or FERRY_NUMA_NODE
    staging_numa_node: i32 = 0,
    staging_bytes: u64 = 0, // 0: 16 MiB
    submit: ?*const fn (user: ?*anyopaque, work: ?*const fn (argument: ?*anyopaque) callconv(.c) void, argument: ?*anyopaque) callconv(.c) i32 = null,
    submit_user: ?*anyopaque = null,
    deferred_bytes: u64 = 0, // 0: a sixteenth of the device's memory
    software_links: i32 = 0, // FERRY_SOFTWARE_LINKS_*: which devices of the software driver have peer access
    trace_phases: u32 = 0, // FERRY_PHASE_*; 0: all
    trace: ?*const fn (user: ?*anyopaque, event: ?*const ferry_trace_event) callconv(.c) void = null,
    trace_user: ?*anyopaque = null,
};

/// What ferry_open found.
pub const ferry_report = extern struct {
    struct_size: u32 = @sizeOf(ferry_report),
    driver: i32 = 0, // FERRY_DRIVER_CUDA or FERRY_DRIVER_SOFTWARE: the driver in use
    driver_version: i32 = 0, // the CUDA version it supports: 1000 * major + 10 * minor
    device_count: i32 = 0,
    fallback_reason: i32 = 0, // a status: of ferry_open with CUDA, which is why AUTO took the software driver; or 0
    missing_count: u32 = 0, // optional entry points that this driver lacks; see ferry_instance_get_missing_entry_point
    checks: i32 = 0, // FERRY_CHECKS_* in force
    failed_peers: u32 = 0, // ordered pairs of devices between which a probe has lost data so far
    kernels: i32 = 0, // FERRY_KERNELS_* in force; NONE also if the driver refused them or cannot run them
    kernels_loaded: i32 = 0, // 1: the driver has loaded them
    kernel_contexts: u32 = 0, // contexts in which they are loaded; 16 at most are counted
    staging: i32 = 0, // FERRY_STAGING_* in force; NONE also if kernels are. If the driver has refused them only when they were loaded, pageable memory up to 256 MiB is still staged, by copies on the stream.
    staging_threads: u32 = 0, // the maximum that copies of a device keep busy; see ferry_staging_info for all
    program_threads: u32 = 0, // 1: those are the program's, by ferry_options.submit
    staging_bytes: u64 = 0, // the intended size of each staging buffer
};

/// The facts of one device.
pub const ferry_device_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_device_info),
    device: i32 = 0, // its ordinal
    name: [128]u8 = @splat(0), // UTF-8, ends with zero
    uuid: [16]u8 = @splat(0),
    pci_address: [32]u8 = @splat(0), // domain:bus:device.function, such as "0000:3B:00.0"
    total_memory: u64 = 0, // bytes
    max_pitch: u64 = 0, // bytes: the largest row pitch a copy may have
    is_software: i32 = 0, // 1: of the software driver
    compute_major: i32 = 0,
    compute_minor: i32 = 0,
    sm_count: i32 = 0,
    copy_engine_count: i32 = 0,
    overlap: i32 = 0, // FERRY_COPY_OVERLAP_*: what that count means
    unified_addressing: i32 = 0, // 1: one address space with the host: kind ANY works
    pageable_access: i32 = 0, // 1: kernels may read pageable host memory
    pageable_uses_host_page_tables: i32 = 0, // 1: they do so by the host's page tables
    can_map_host_memory: i32 = 0, // 1: pinned memory can be mapped into the device
    host_register: i32 = 0, // 1: ferry_host_register works
    host_register_read_only: i32 = 0, // 1: FERRY_REGISTER_READ_ONLY works
    registered_address_is_device_address: i32 = 0, // 1: registered memory has one address for host and device
    managed_memory: i32 = 0, // 1: ferry_managed_alloc works
    concurrent_managed_access: i32 = 0, // 1: the host may use managed memory while the device works
    memory_pools: i32 = 0, // 1: stream-ordered allocation works
    pool_handle_types: u32 = 0, // FERRY_HANDLE_*
    numa_node: i32 = 0, // of the nearest host memory; -1 if the driver does not report it
    integrated: i32 = 0, // 1: shares the host's physical memory
    texture_pitch_alignment: i32 = 0, // bytes
    host_memory_pools: i32 = 0, // 1: pools of FERRY_LOCATION_HOST work
    host_numa_memory_pools: i32 = 0, // 1: pools of FERRY_LOCATION_HOST_NUMA work
    ipc_events: i32 = 0, // 1: events can be shared between processes
    reserved: u32 = 0,
    luid: [8]u8 = @splat(0), // Windows: of the adapter; zeros elsewhere
    luid_node_mask: u32 = 0, // Windows: the nodes of the adapter that are the device; 0 elsewhere
    reserved1: u32 = 0,
};

/// What an instance keeps after ferry_device_free_deferred, ferry_host_free_deferred, ferry_array_destroy_async, ferry_mipmapped_array_destroy_async, ferry_external_memory_release_async and ferry_external_semaphore_release_async.
pub const ferry_deferred_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_deferred_info),
    arrays: u32 = 0, // mipmapped ones too
    allocations: u32 = 0, // Of ferry_device_alloc, ferry_device_alloc_pitched and ferry_host_alloc, and imports of memory and semaphores.
    reserved: u32 = 0,
    bytes: u64 = 0, // of both; for arrays, of their texels; semaphores have none
};

/// How to allocate host memory. All zero but struct_size means the defaults.
pub const ferry_host_options = extern struct {
    struct_size: u32 = @sizeOf(ferry_host_options),
    flags: u32 = 0, // FERRY_HOST_*
    numa: i32 = 0, // FERRY_NUMA_*: a preference; a full node does not make the call fail
    device: i32 = 0, // of FERRY_NUMA_DEVICE
    numa_node: i32 = 0, // of FERRY_NUMA_NODE
    threads: u32 = 0, // that touch the memory first, the caller included, 1 to 64; 0: as many as help
    min_size: u64 = 0, // of FERRY_HOST_ALLOW_SMALLER: the smallest size to accept; 0: any
};

/// What was allocated.
pub const ferry_host_block = extern struct {
    struct_size: u32 = @sizeOf(ferry_host_block),
    memory: i32 = 0, // FERRY_MEMORY_PINNED, or FERRY_MEMORY_PAGEABLE where that was allowed
    address: ?*anyopaque = null,
    size: u64 = 0, // bytes; less than asked for only where that was allowed
    origin: i32 = 0, // FERRY_HOST_FROM_*
    numa_node: i32 = 0, // of its first page; -1 if the system does not report it
};

/// What lies at an address.
pub const ferry_address_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_address_info),
    memory: i32 = 0, // FERRY_MEMORY_*
    device: i32 = 0, // where device memory lies; -1 otherwise
    reserved: u32 = 0,
    range_start: u64 = 0, // the allocation or registration around the address, all its pieces; 0: not known
    range_size: u64 = 0, // bytes
    device_address: u64 = 0, // the address that a kernel uses for the same byte; 0 for pageable memory
    pool: ?*CUmemPoolHandle_st = null, // that the memory was allocated from or is imported through; NULL: from none
};

/// An array's shape. width and height are texels; height 0 is a 1D array, depth 0 a 1D or 2D array. In a copy a layer is a slice, and so is a face of a cube: its number is z.
pub const ferry_array_desc = extern struct {
    struct_size: u32 = @sizeOf(ferry_array_desc),
    format: i32 = 0, // FERRY_FORMAT_*
    channels: u32 = 0, // 1, 2 or 4, or the number that the format has
    flags: u32 = 0, // FERRY_ARRAY_*
    width: u64 = 0,
    height: u64 = 0,
    depth: u64 = 0,
};

/// How to create a pinned pool. All zero but struct_size means: on any node, without a limit. With FERRY_NUMA_NODE or _DEVICE a pool's memory lies on one node; create one pool for each node that matters.
pub const ferry_pinned_pool_options = extern struct {
    struct_size: u32 = @sizeOf(ferry_pinned_pool_options),
    flags: u32 = 0, // FERRY_HOST_WRITE_COMBINED, _BY_DRIVER, _NOT_PORTABLE, _NOT_MAPPED
    numa: i32 = 0, // FERRY_NUMA_*
    device: i32 = 0, // of FERRY_NUMA_DEVICE
    numa_node: i32 = 0, // of FERRY_NUMA_NODE
    reserved: u32 = 0,
    limit: u64 = 0, // bytes that the pool may hold; 0: no limit
};

/// Bytes of a pool: now, and the high-water marks since the pool was created or the marks were reset. In a driver's pool, memory that ferry_device_free has freed still counts as used (CUDA 13.0).
pub const ferry_pool_stats = extern struct {
    struct_size: u32 = @sizeOf(ferry_pool_stats),
    reserved: u32 = 0,
    reserved_current: u64 = 0, // held by the pool
    reserved_high: u64 = 0,
    used_current: u64 = 0, // allocated, as the pool rounds; in a pinned pool also blocks that wait for streams
    used_high: u64 = 0,
};

/// How to create a pool.
pub const ferry_pool_desc = extern struct {
    struct_size: u32 = @sizeOf(ferry_pool_desc),
    location: i32 = 0, // FERRY_LOCATION_*
    index: i32 = 0, // ordinal of the device, or number of the NUMA node; 0 for FERRY_LOCATION_HOST
    handle_types: u32 = 0, // FERRY_HANDLE_* in ferry_device_info.pool_handle_types: how to share it; 0: not shared
    max_size: u64 = 0, // bytes; 0: no limit of its own
};

/// The facts of one pool.
pub const ferry_pool_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_pool_info),
    location: i32 = 0, // FERRY_LOCATION_*
    index: i32 = 0, // ordinal of the device, number of the NUMA node, or 0
    handle_types: u32 = 0, // FERRY_HANDLE_*; 0 for pools that ferry did not create: the driver does not report them
    max_size: u64 = 0, // bytes; 0: no limit of its own, or not created by ferry
    is_default: i32 = 0, // 1: the default pool of its location
    is_imported: i32 = 0, // 1: of another process. It serves only to import memory: it cannot allocate, trim, become current or report statistics or attributes
    can_share: i32 = 0, // 1: ferry_ipc_export_pool may succeed
    reserved: u32 = 0,
};

/// How a pool keeps and reuses memory.
pub const ferry_pool_attributes = extern struct {
    struct_size: u32 = @sizeOf(ferry_pool_attributes),
    reuse_follow_event_dependencies: i32 = 0, // 1: reuse what another stream freed if an event orders the two streams
    reuse_opportunistic: i32 = 0, // 1: reuse what another stream freed if that free is already complete
    reuse_internal_dependencies: i32 = 0, // 1: reuse what another stream freed, and make this stream wait for it
    release_threshold: u64 = 0, // bytes kept when a stream, event or context is waited for; at first 0
};

///
pub const ferry_ipc_handle = extern struct {
    bytes: [256]u8 = @splat(0),
};

/// What a handle contains.
pub const ferry_ipc_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_ipc_info),
    kind: i32 = 0, // FERRY_IPC_*
    device: i32 = 0, // its ordinal in this process; -1: not visible here, or not of a device
    handle_types: u32 = 0, // FERRY_HANDLE_*: with which a pool was exported
    size: u64 = 0, // of memory: bytes from the imported address on
    process: u64 = 0, // the exporter's process number, in its own namespace
    device_uuid: [16]u8 = @splat(0),
    is_own: i32 = 0, // 1: this process exported it
    reserved: u32 = 0,
};

/// One ordered pair of devices.
pub const ferry_peer_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_peer_info),
    device: i32 = 0,
    peer: i32 = 0,
    can_access: i32 = 0, // 1: `device` can reach the memory of `peer`: the driver reports access, and no probe failed
    driver_can_access: i32 = 0, // 1: the driver reports access
    probe: i32 = 0, // FERRY_PROBE_*: in this instance
    performance_rank: i32 = 0, // the driver's ranking of the links, 0 for the best; -1 if it is not reported
    native_atomics: i32 = 0, // 1: atomic operations work across the link; 0 also if it is not reported
    array_access: i32 = 0, // 1: arrays can be reached too; 0 also if it is not reported
    reserved: u32 = 0,
    direct_rate: u32 = 0, // MB/s of copies from `device` to `peer` with access
    bounce_rate: u32 = 0, // likewise, by the driver without access
    relay_rate: u32 = 0, // likewise, by FERRY_ROUTE_RELAYED
    relay_fixed_ns: u32 = 0, // the time of FERRY_ROUTE_RELAYED without the bytes
    direct_fixed_ns: u32 = 0, // the time of copies with access without the bytes
    link_to_rate: u32 = 0, // MB/s from pinned memory to `peer` by `device` as a helper: FERRY_COPY_MULTILINK
    link_from_rate: u32 = 0, // likewise, from `peer` to pinned memory
};

/// The devices whose host links copies of another device may take.
pub const ferry_multilink_options = extern struct {
    struct_size: u32 = @sizeOf(ferry_multilink_options),
    max_sms: u32 = 0, // The maximum number of SMs that a copy of pinned memory may use on each helper. 0: as many as are useful, which is also the limit: 24 for copies to the device, 16 for copies to the host. For pageable memory the maximum in the copy's flags counts on each device.
    helpers: ?[*]const i32 = null, // `helper_count` elements: devices, read during the call
    helper_count: u32 = 0, // at most 29; 0: as without options
    reserved: u32 = 0, // 0
};

/// Memory that another API has exported.
pub const ferry_external_memory_desc = extern struct {
    struct_size: u32 = @sizeOf(ferry_external_memory_desc),
    device: i32 = 0, // on which the other API allocated it
    handle_type: i32 = 0, // FERRY_EXTERNAL_*
    flags: u32 = 0, // FERRY_EXTERNAL_DEDICATED
    handle: i64 = 0, // a file descriptor or a handle; 0 with a name
    name: ?*const anyopaque = null, // NULL, or the zero-terminated UTF-16 name of a Windows object
    size: u64 = 0, // bytes of the whole allocation: VkMemoryAllocateInfo.allocationSize, not a buffer's size
};

/// A semaphore or fence that another API has exported.
pub const ferry_external_semaphore_desc = extern struct {
    struct_size: u32 = @sizeOf(ferry_external_semaphore_desc),
    device: i32 = 0,
    handle_type: i32 = 0, // FERRY_SEMAPHORE_*
    reserved: u32 = 0,
    handle: i64 = 0, // a file descriptor or a handle; 0 with a name
    name: ?*const anyopaque = null, // NULL, or the zero-terminated UTF-16 name of a Windows object
};

/// The resources for staged copies, and the number of copies in flight: enqueued and not ended; in a graph, while it runs.
pub const ferry_staging_info = extern struct {
    struct_size: u32 = @sizeOf(ferry_staging_info),
    threads: u32 = 0, // ferry's own; 0 until staging is prepared or first used. With submit: those it started
    busy_threads: u32 = 0, // moving bytes now, including helping callers and the program's threads
    copies_in_flight: u32 = 0,
    staging_bytes: u64 = 0, // pinned for the staging buffers of all devices
    bytes_in_flight: u64 = 0, // of copies in flight: bytes that have not arrived yet
};

/// Returns the version of the loaded library: major * 10000 + minor * 100 + patch.
pub extern fn ferry_version() i32;

/// Returns the constant's name, such as "FERRY_ERROR_PITCH" or, for a driver's result, "CUDA_ERROR_INVALID_VALUE". Unknown statuses are "FERRY_ERROR_UNKNOWN_STATUS", unknown results of the driver "CUDA_ERROR_UNKNOWN_RESULT". Needs no instance.
pub extern fn ferry_status_name(status: i32) [*:0]const u8;

/// Returns the meaning of the status in a few English words, also for unknown statuses. Needs no instance.
pub extern fn ferry_status_text(status: i32) [*:0]const u8;

/// Returns how to react to a status; 0 also for unknown statuses. Needs no instance.
/// Values: returned: FERRY_STATUS_CONTEXT_DEAD, FERRY_STATUS_RETRY or 0.
pub extern fn ferry_status_traits(status: i32) u32;

/// Writes one readable line about `error` to `buffer`, cut to `size` bytes with its ending zero, such as "copy 7: destination.row_pitch: 100, must be at least 128 (FERRY_ERROR_PITCH)" or, if only status is set, "no such device ... (FERRY_ERROR_DEVICE)". FERRY_ERROR_OUT_OF_BOUNDS reads "destination.y: 17, past the end at 16 (...)" of an array, and "source.address: 0x7f5e00001001, past the end at 0x7f5e00001000 (...)" of memory. Index 0 is left out. Returns the length of the whole line without the zero, or 0 for a NULL error. `buffer` may be NULL when size is 0: the call then measures the line.
/// Values: `buffer`: `size` bytes.
pub extern fn ferry_error_format(@"error": ?*const ferry_error_info, buffer: ?[*]u8, size: u64) u64;

/// Opens an instance. NULL `options` are the defaults: the NVIDIA driver or an error. Several instances may be open at once, also on both drivers. Instances on the software driver share it: a later one with other software_* values is refused. Never give an instance a handle or a device address of the other driver. The software driver refuses handles that are not its own with the driver's status (-1400, of contexts -1201), but the NVIDIA driver may crash, and both take an address that they do not know for host memory.
pub extern fn ferry_open(options: ?*const ferry_options, instance: *?*ferry_instance, @"error": ?*ferry_error_info) i32;

/// Closes an instance: releases the contexts it retained and frees it. First free everything made through the instance (memory, registrations, arrays, streams, events, contexts, pools, imports, prepared batches). Anything left stays as it is. Prepared batches that are left must not be touched again; host memory and pinned pools that are left can no longer be freed. Copies and fills may be in flight. Graphs captured through the instance may not run afterwards, unless they hold no kernel of ferry's (FERRY_COPY_BY_DRIVER, _NO_KERNELS, FERRY_KERNELS_NONE). The call is harmless at process exit and after the driver has gone. In the child of a fork it does nothing: another thread may have been changing the instance's memory, which ends with the child.
pub extern fn ferry_close(instance: ?*ferry_instance) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_any(place: ?*ferry_place, address: u64) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_host(place: ?*ferry_place, address: ?*const anyopaque) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_host_pitched(place: ?*ferry_place, address: ?*const anyopaque, row_pitch: u64, slice_height: u64) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_device(place: ?*ferry_place, device: i32, address: u64) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_device_pitched(place: ?*ferry_place, device: i32, address: u64, row_pitch: u64, slice_height: u64) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_array(place: ?*ferry_place, device: i32, array: ?*CUarray_st) void;

/// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks the values. A NULL place is ignored.
pub extern fn ferry_place_array_layer(place: ?*ferry_place, device: i32, array: ?*CUarray_st, layer: u64) void;

/// Sets a descriptor from two places, which may be those inside *copy, and an extent. ferry_copy checks the values. A NULL place leaves that end all zero. A NULL copy is ignored.
pub extern fn ferry_copy_desc_init(copy: ?*ferry_copy_desc, source: ?*const ferry_place, destination: ?*const ferry_place, width: u64, height: u64, depth: u64) void;

/// Copies, and returns when the bytes are visible to the host, to every stream and to every other thread. The copy is ordered like a driver call on the legacy default stream of its context: after earlier work on that stream and on the streams that synchronise with it. The caller orders work on non-blocking streams. To wait for a copy on another stream, use ferry_copy_async and ferry_stream_synchronize. The context is the thread's current one, else that of the destination's device, else of the source's, else of device 0.
pub extern fn ferry_copy(instance: *ferry_instance, copy: *const ferry_copy_desc, @"error": ?*ferry_error_info) i32;

/// Enqueues a copy on `stream`: it starts after earlier work there, and is complete for later work. `stream` is any CUstream or cudaStream_t. NULL and FERRY_STREAM_LEGACY are the legacy default stream, FERRY_STREAM_PER_THREAD is the per-thread one (both cast to a pointer). The context is the stream's; for those three it is found as for ferry_copy. `ticket` may be NULL; otherwise *ticket reports the copy's progress.
pub extern fn ferry_copy_async(instance: *ferry_instance, copy: *const ferry_copy_desc, stream: ?*CUstream_st, ticket: ?*?*ferry_ticket, @"error": ?*ferry_error_info) i32;

/// Copies `size` bytes from address to address, both of kind ANY, otherwise as ferry_copy. Pass host addresses as integers: (uint64_t)(uintptr_t)pointer.
pub extern fn ferry_copy_bytes(instance: *ferry_instance, destination: u64, source: u64, size: u64, @"error": ?*ferry_error_info) i32;

/// ferry_copy_bytes on a stream, as ferry_copy_async.
pub extern fn ferry_copy_bytes_async(instance: *ferry_instance, destination: u64, source: u64, size: u64, stream: ?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Makes a ticket for the work enqueued on `stream` so far. Default streams as for ferry_stream_synchronize.
///
/// Broadcasts and relays have a part of their work on other devices. If the context of one of these dies, bytes are missing, but `stream` goes on and reports nothing. A ticket made while that work is in flight has the status.
pub extern fn ferry_ticket_create(instance: *ferry_instance, stream: ?*CUstream_st, ticket: *?*ferry_ticket, @"error": ?*ferry_error_info) i32;

/// Fills `info`. A staged copy is done when its last byte has arrived, which may be a moment before its stream continues. The call also detects a dead context: for a staged copy, no later than at the first query before which no bytes have arrived since the previous one.
///
/// After a context has died, threads of ferry's may still be at the host memory of a staged copy, each until the end of its chunk. The copy's ticket is done, and ferry_ticket_wait returns, only after the last of them has left: then the memory may be freed. A batch, a copy without a ticket and a copy of memory that is registered in part have no such ticket. Their memory may be freed after ferry_close has returned, or after ferry_staging_info.busy_threads was 0 once a call has returned the status of the dead context.
pub extern fn ferry_ticket_get_info(ticket: *ferry_ticket, info: *ferry_ticket_info) i32;

/// Waits until the copy is done, and returns its status. The calling thread helps with staged copies meanwhile.
pub extern fn ferry_ticket_wait(ticket: *ferry_ticket) i32;

/// Releases a ticket, at any time; the copy continues.
pub extern fn ferry_ticket_release(ticket: ?*ferry_ticket) i32;

/// Makes `count` copies of any places and shapes, each as ferry_copy would. The copies have no order among themselves. Their sources may overlap. No destination may overlap another copy's source or destination: the bytes of both copies' destinations are then undefined, but no others change. FERRY_BATCH_CHECK_OVERLAP looks for overlap by sorting all rows, for some hundred nanoseconds each. All copies are checked before any is made. A copy that continues the one before at both ends is merged with it. Width 0 is fine, and so is count 0; `copies` may then be NULL.
///
/// A copy may leave the allocation that it begins in only into adjacent memory of the same device, which full checks refuse too, and out of a registration of host memory. The context is found as for ferry_copy, for the first copy that has a device.
///
/// A piece is a line of linear memory without flags of its own; any other copy is a box. Pieces use the instance's flags. A copy with flags of its own is routed by them, in a call or launch of its own. If the instance has flags, every box of rows gets a call or launch of its own too. All boxes out of arrays that kernels read (FERRY_ARRAY_SURFACE) take one launch together where that is faster. The driver makes copies into arrays. Between pageable memory and the context's device, pieces are staged together, with boxes of at most 16384 rows: in one launch for each direction, or several above 1 GiB. A single one, and copies with the instance's flags NO_KERNELS or BY_DRIVER, are routed as by ferry_copy_async.
///
/// Pieces with the same source of 4 MiB or more that go to several devices are a broadcast, which runs on streams of ferry's own. Devices with access to each other's memory, proven by ferry_peer_enable or ferry_peer_probe, pass chunks on to each other (docs/devices.md). If the context of one dies meanwhile, the call makes the broadcast again without it, and returns its status and the index of its copy. With ferry_options.submit this call makes no broadcasts of pageable memory: the calling thread helps to stage each copy instead.
/// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_copy_batch(instance: *ferry_instance, copies: ?[*]const ferry_copy_desc, count: u64, flags: u32, @"error": ?*ferry_error_info) i32;

/// Enqueues a batch on `stream`, as for ferry_copy_async: all of it starts after earlier work there, and is complete for later work.
/// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_copy_batch_async(instance: *ferry_instance, copies: ?[*]const ferry_copy_desc, count: u64, flags: u32, stream: ?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Copies a batch of `count` plain pieces: sizes[i] bytes from sources[i] to destinations[i], both of kind ANY, as ferry_copy_bytes. The fastest form for thousands of small pieces. A size of 0 is fine, whatever its addresses. The rule of ferry_copy_batch about overlap holds for pieces too.
/// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_copy_pieces(instance: *ferry_instance, destinations: ?[*]const u64, sources: ?[*]const u64, sizes: ?[*]const u64, count: u64, flags: u32, @"error": ?*ferry_error_info) i32;

/// ferry_copy_pieces on a stream, as ferry_copy_batch_async.
/// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_copy_pieces_async(instance: *ferry_instance, destinations: ?[*]const u64, sources: ?[*]const u64, sizes: ?[*]const u64, count: u64, flags: u32, stream: ?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Prepares a batch for streams of the device of `stream`, whose context is found as for ferry_copy_batch_async. The plan keeps the current profile and instance flags. `count` 0 is fine.
/// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_prepared_create(instance: *ferry_instance, copies: ?[*]const ferry_copy_desc, count: u64, flags: u32, stream: ?*CUstream_st, prepared: *?*ferry_prepared, @"error": ?*ferry_error_info) i32;

/// Prepares a batch of pieces, as ferry_prepared_create. With FERRY_BATCH_UPDATABLE their addresses can be changed, and pieces are not merged.
/// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_*.
pub extern fn ferry_prepared_create_pieces(instance: *ferry_instance, destinations: ?[*]const u64, sources: ?[*]const u64, sizes: ?[*]const u64, count: u64, flags: u32, stream: ?*CUstream_st, prepared: *?*ferry_prepared, @"error": ?*ferry_error_info) i32;

/// Enqueues a prepared batch on `stream`, a stream of the device that it was prepared for, as ferry_copy_batch_async would. A default stream is that of the current context, else of ferry's context for the device of the batch. On a stream that is being captured the batch becomes part of the graph and must live as long as the graph may run. In another context of the device, which does not see all memory of the first, the driver makes the copies instead of kernels.
pub extern fn ferry_prepared_launch(prepared: *ferry_prepared, stream: ?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Gives all pieces of an updatable batch new addresses; NULL keeps the sources or the destinations. Addresses of pieces of size 0 are not read. The change is ordered on `stream`: earlier launches use the old addresses; later launches, also replays of graphs, use the new ones. The caller orders launches on other streams. Each piece keeps its size, its kind of memory (pinned host memory, the device's or a peer's), and its destination's remainder modulo 16. The new addresses are checked as before, with the original flags and for the context that the batch was prepared in.
/// Values: `destinations`, `sources`: as many elements as `prepared` has pieces, those of size 0 included.
pub extern fn ferry_prepared_set_addresses(prepared: *ferry_prepared, destinations: ?[*]const u64, sources: ?[*]const u64, stream: ?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Destroys a prepared batch. Launches of it may be in flight; graphs that hold it may not run any more.
pub extern fn ferry_prepared_destroy(prepared: ?*ferry_prepared) i32;

/// Sets a descriptor from a place, which may be the one inside *fill, an extent and `pattern_size` bytes of pattern (at most 16 are taken). ferry_fill checks the values. A NULL place leaves the destination all zero; a NULL pattern means zero bytes. A NULL fill is ignored.
/// Values: `pattern`: `pattern_size` bytes.
pub extern fn ferry_fill_desc_init(fill: ?*ferry_fill_desc, destination: ?*const ferry_place, width: u64, height: u64, depth: u64, pattern: ?*const anyopaque, pattern_size: u32) void;

/// Fills, and returns when the bytes are there. The fill is ordered like a ferry_copy. The context is the current one if it belongs to the memory's device, else ferry's for that device; for pinned and managed memory the current one, else device 0's. Memory that the driver fills only in the memory's own context, such as another process's, uses that context.
pub extern fn ferry_fill(instance: *ferry_instance, fill: *const ferry_fill_desc, @"error": ?*ferry_error_info) i32;

/// Enqueues a fill on `stream`, as ferry_copy_async does a copy. The stream must be on the memory's device, or on one with peer access to it; for pinned and managed memory any stream will do. The NULL, legacy and per-thread streams are those of the context found as for ferry_fill.
pub extern fn ferry_fill_async(instance: *ferry_instance, fill: *const ferry_fill_desc, stream: ?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Returns a text such as "pageable memory"; "?" for an unknown number.
/// Values: `obstacle`: FERRY_OBSTACLE_*.
pub extern fn ferry_obstacle_text(obstacle: i32) [*:0]const u8;

/// Reports what ferry_copy would do with `copy`, without doing it. Fills `explanation`. The explanation does not cover whether a copy between two devices uses the link between them: that depends on peer access.
pub extern fn ferry_copy_explain(instance: *ferry_instance, copy: *const ferry_copy_desc, explanation: *ferry_explanation, @"error": ?*ferry_error_info) i32;

/// Reports what ferry_copy_async would do, as ferry_copy_explain.
///
/// The explanation describes a copy that is enqueued at this moment. A later copy of the same description takes another route only if something has changed that the choice depends on: the earlier work on the stream has completed, or other work has been enqueued there; ferry has measured another staging delay or has another profile; the access between devices has changed; or the copy finds no free slot, stream or pinned memory for its route, and the driver makes it. ferry_ticket_info.route is the route that the copy took.
pub extern fn ferry_copy_explain_async(instance: *ferry_instance, copy: *const ferry_copy_desc, stream: ?*CUstream_st, explanation: *ferry_explanation, @"error": ?*ferry_error_info) i32;

/// Reports what ferry_fill would do with `fill`, without doing it. Fills `explanation`. A fill that the driver refuses in the call's context, and that ferry_fill then makes in the memory's own, is explained as in the call's.
pub extern fn ferry_fill_explain(instance: *ferry_instance, fill: *const ferry_fill_desc, explanation: *ferry_explanation, @"error": ?*ferry_error_info) i32;

/// Reports what ferry_fill_async would do, as ferry_fill_explain.
pub extern fn ferry_fill_explain_async(instance: *ferry_instance, fill: *const ferry_fill_desc, stream: ?*CUstream_st, explanation: *ferry_explanation, @"error": ?*ferry_error_info) i32;

/// Writes one readable line about `explanation` to `buffer`, such as "driver route: cuMemcpy3DAsync, pinned to device 0, 4096 B x 3 rows x 1 slices; does not block; 5.8 us by the driver, 11.2 us by a kernel; because it is predicted to be the fastest (built-in profile)" or "...; no kernel: pageable memory", cut to `size` bytes with its ending zero. Returns the length of the whole line without the zero, or 0 for a NULL explanation or a bad struct_size. `buffer` may be NULL when size is 0.
/// Values: `buffer`: `size` bytes.
pub extern fn ferry_explanation_format(explanation: ?*const ferry_explanation, buffer: ?[*]u8, size: u64) u64;

/// Reports what ferry_copy_batch_async would do with a batch now, without doing it: how many copies go which way, and the predicted times. Checks the batch as that call does, and fills `explanation`. Does not tell whether that call waits: `singles` wait as ferry_copy_explain_async tells for each, and `staged` only to read sources early (Blocking of ferry_copy_batch_async).
/// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_copy_batch_explain_async(instance: *ferry_instance, copies: ?[*]const ferry_copy_desc, count: u64, flags: u32, stream: ?*CUstream_st, explanation: *ferry_batch_explanation, @"error": ?*ferry_error_info) i32;

/// Reports what ferry_copy_pieces_async would do, as ferry_copy_batch_explain_async.
/// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
pub extern fn ferry_copy_pieces_explain_async(instance: *ferry_instance, destinations: ?[*]const u64, sources: ?[*]const u64, sizes: ?[*]const u64, count: u64, flags: u32, stream: ?*CUstream_st, explanation: *ferry_batch_explanation, @"error": ?*ferry_error_info) i32;

/// Writes one readable line about `explanation` to `buffer`, such as "1500 copies staged on 8 SMs and 8 threads, 90.1 MB, 1900.0 us; 3 by a kernel on 8 SMs, 0.1 MB, 12.1 us", or "nothing to copy". The SMs are max_sms in both parts, and a MB is 10^6 bytes. Size and return value as for ferry_explanation_format.
/// Values: `buffer`: `size` bytes.
pub extern fn ferry_batch_explanation_format(explanation: ?*const ferry_batch_explanation, buffer: ?[*]u8, size: u64) u64;

/// Fills `report`. The values are those of ferry_open, except for peers, kernels and staging, which are current.
pub extern fn ferry_instance_get_report(instance: *const ferry_instance, report: *ferry_report) i32;

/// Returns the name of the index-th optional entry point that the driver lacks, such as "cuLaunchHostFunc".
pub extern fn ferry_instance_get_missing_entry_point(instance: *const ferry_instance, index: u32) ?[*:0]const u8;

/// Returns this instance's driver entry point: for the program's own calls to the same driver, software or not. `version` is as for cuGetProcAddress, such as 12000. The function's type is PFN_<name>_v<version> in cudaTypedefs.h.
pub extern fn ferry_instance_get_proc(instance: *const ferry_instance, name: [*:0]const u8, version: i32) ?*anyopaque;

/// Fills `info` with the facts of device number `device`. They were queried at ferry_open.
pub extern fn ferry_device_get_info(instance: *const ferry_instance, device: i32, info: *ferry_device_info) i32;

/// Stores the number of the device that another API knows by a UUID (VkPhysicalDeviceIDProperties.deviceUUID) or by a LUID (ID3D12Device::GetAdapterLuid). Each API numbers the devices in its own way. One of the two may be NULL; the UUID counts if both are given. Linked adapters share a LUID: this is the first of them, and ferry_device_info.luid_node_mask tells them apart. *device is -1 after a failure.
/// Values: `uuid`: 16 bytes; `luid`: 8 bytes.
pub extern fn ferry_device_find(instance: *const ferry_instance, uuid: ?*const [16]u8, luid: ?*const [8]u8, device: *i32) i32;

/// Retains the device's primary context for the caller. Each call needs one ferry_context_release_primary.
pub extern fn ferry_context_retain_primary(instance: *ferry_instance, device: i32, context: *?*CUctx_st, @"error": ?*ferry_error_info) i32;

/// Releases one reference to the device's primary context.
pub extern fn ferry_context_release_primary(instance: *ferry_instance, device: i32) i32;

/// Creates a context of the caller's own on `device`. Unlike cuCtxCreate it does not become current.
/// Values: `flags`: CUctx_flags; 0 is the driver's default.
pub extern fn ferry_context_create(instance: *ferry_instance, device: i32, flags: u32, context: *?*CUctx_st, @"error": ?*ferry_error_info) i32;

/// Destroys a context made by ferry_context_create, with everything in it. If it was adopted, ferry returns to the device's primary context. No thread may have the context current, and no other call may be using it. First calls ferry_options.trace for the calls in this context that are not reported as done yet.
pub extern fn ferry_context_destroy(instance: *ferry_instance, context: *CUctx_st) i32;

/// Makes ferry use the program's `context` for the context's device instead of the primary one, from the next call on. `device` is read only if `context` is NULL: it then returns to its primary context. The staging buffer stays in the primary context in any case; the first staged copy retains that.
pub extern fn ferry_context_adopt(instance: *ferry_instance, device: i32, context: ?*CUctx_st) i32;

/// Makes `context` current on the calling thread, on top of its current one; `device` is then not read. NULL: pushes the context that ferry uses for `device`.
pub extern fn ferry_context_push(instance: *ferry_instance, device: i32, context: ?*CUctx_st) i32;

/// Pops the calling thread's current context, and stores it in *context unless `context` is NULL.
pub extern fn ferry_context_pop(instance: *ferry_instance, context: ?*?*CUctx_st) i32;

/// Stores the calling thread's current context in *context; NULL if there is none.
pub extern fn ferry_context_get_current(instance: *ferry_instance, context: *?*CUctx_st) i32;

/// Waits until all work of `context` has ended; `device` is then not read. NULL: waits for the context that ferry uses for `device`, which need not be the thread's current one.
pub extern fn ferry_context_synchronize(instance: *ferry_instance, device: i32, context: ?*CUctx_st) i32;

/// Creates a stream on `device`. `priority`: 0 is the lowest, negative numbers are more urgent, down to a limit that the driver applies; copies ignore it.
/// Values: `flags`: FERRY_STREAM_NON_BLOCKING or 0.
pub extern fn ferry_stream_create(instance: *ferry_instance, device: i32, flags: u32, priority: i32, stream: *?*CUstream_st, @"error": ?*ferry_error_info) i32;

/// Destroys a stream; work enqueued on it still completes. NULL does nothing. FERRY_STREAM_LEGACY and FERRY_STREAM_PER_THREAD are FERRY_ERROR_INVALID_ARGUMENT.
pub extern fn ferry_stream_destroy(instance: *ferry_instance, stream: ?*CUstream_st) i32;

/// Waits until all work enqueued on `stream` has ended. Default streams are those of the current context, else device 0's.
pub extern fn ferry_stream_synchronize(instance: *ferry_instance, stream: ?*CUstream_st) i32;

/// Sets *done to 1 if all work enqueued on `stream` has ended, else to 0. A failure also sets 0, so a loop must check the status. Default streams as for ferry_stream_synchronize.
/// Values: `done`: 0 or 1.
pub extern fn ferry_stream_query(instance: *ferry_instance, stream: ?*CUstream_st, done: *i32) i32;

/// Calls done(user, status) once the work enqueued on `stream` so far has ended, on a thread of the driver's, which holds back later work on the stream until `done` returns. `status` is 0, or what ended the work: a broken context calls `done` too, a destroyed one may not. Default streams as for ferry_stream_synchronize.
pub extern fn ferry_stream_notify(instance: *ferry_instance, stream: ?*CUstream_st, done: ?*const fn (user: ?*anyopaque, status: i32) callconv(.c) void, user: ?*anyopaque, @"error": ?*ferry_error_info) i32;

/// Makes later work on `stream` wait for the last record of `event`, on any device. It does not wait for an event that was never recorded. The event may be destroyed or recorded again at once. Default streams as for ferry_stream_synchronize.
pub extern fn ferry_stream_wait_event(instance: *ferry_instance, stream: ?*CUstream_st, event: *CUevent_st) i32;

/// Creates an event on `device`; it can be recorded on streams of that device.
/// Values: `flags`: FERRY_EVENT_*.
pub extern fn ferry_event_create(instance: *ferry_instance, device: i32, flags: u32, event: *?*CUevent_st, @"error": ?*ferry_error_info) i32;

/// Destroys an event; calls and streams that already wait for it are not affected.
pub extern fn ferry_event_destroy(instance: *ferry_instance, event: ?*CUevent_st) i32;

/// Records `event` after the work enqueued on `stream` so far. The stream must belong to the event's context. Default streams as for ferry_stream_synchronize: for an event of another device, name a stream.
pub extern fn ferry_event_record(instance: *ferry_instance, event: *CUevent_st, stream: ?*CUstream_st) i32;

/// Waits until the work before the event's last record has ended; returns at once if it was never recorded.
pub extern fn ferry_event_synchronize(instance: *ferry_instance, event: *CUevent_st) i32;

/// Sets *done to 1 if the work before the event's last record has ended or the event was never recorded, else to 0. A failure also sets 0, so a loop must check the status.
/// Values: `done`: 0 or 1.
pub extern fn ferry_event_query(instance: *ferry_instance, event: *CUevent_st, done: *i32) i32;

/// Stores the time from `start` to `end` in milliseconds, to about half a microsecond; negative if `end` passed first. Both events belong to one context and must have passed.
pub extern fn ferry_event_elapsed_time(instance: *ferry_instance, start: *CUevent_st, end: *CUevent_st, milliseconds: *f32) i32;

/// Allocates `size` bytes on `device`, aligned to 256 bytes or more. Size 0 is an error.
pub extern fn ferry_device_alloc(instance: *ferry_instance, device: i32, size: u64, address: *u64, @"error": ?*ferry_error_info) i32;

/// Allocates `height` rows of `width` bytes on `device`, each row aligned well for elements of `element_size` bytes (4, 8 or 16; 0 counts as 4). *row_pitch is the bytes from one row to the next. A width or height of 0 is an error.
pub extern fn ferry_device_alloc_pitched(instance: *ferry_instance, device: i32, width: u64, height: u64, element_size: u32, address: *u64, row_pitch: *u64, @"error": ?*ferry_error_info) i32;

/// Allocates `size` bytes of managed memory: one address for the host and every device, between which the driver moves the pages. The context of `device` allocates it. If ferry_device_info.concurrent_managed_access is 0, the host must not touch managed memory while any device has work. Size 0 is an error.
pub extern fn ferry_managed_alloc(instance: *ferry_instance, device: i32, size: u64, address: *u64, @"error": ?*ferry_error_info) i32;

/// Frees memory of ferry_device_alloc, ferry_device_alloc_pitched, ferry_managed_alloc, ferry_device_alloc_async or ferry_pool_alloc_async. 0 is allowed.
pub extern fn ferry_device_free(instance: *ferry_instance, address: u64) i32;

/// A deferred free: frees memory of ferry_device_alloc or ferry_device_alloc_pitched in the order of `stream`, and waits for no work. The instance keeps the memory until the stream has passed. Then ferry_deferred_trim, a later allocation of ferry's on the device (see ferry_options.deferred_bytes) or ferry_close returns it to the driver. The stream must come after all work that uses the memory; it may be destroyed at once. 0 is allowed. Default streams are those of the memory's device.
pub extern fn ferry_device_free_deferred(instance: *ferry_instance, address: u64, stream: ?*CUstream_st) i32;

/// Fills `info` with what is kept on `device`; for FERRY_DEVICE_UNKNOWN on all devices and in the host's memory.
pub extern fn ferry_deferred_get_info(instance: *ferry_instance, device: i32, info: *ferry_deferred_info) i32;

/// Returns memory and arrays kept on `device` to the driver, oldest first, until at most `keep` bytes are left there. For FERRY_DEVICE_UNKNOWN on each device, and in the host's memory. Anything that its stream has not passed yet stays.
pub extern fn ferry_deferred_trim(instance: *ferry_instance, device: i32, keep: u64) i32;

/// Allocates `size` bytes of pinned host memory, usable and mapped on every device, aligned to a page, with undefined contents. Size 0 is an error. NULL `options` are the defaults; fields whose flag or mode is not set are not read. Fills `block`, whose struct_size must include the field ferry_host_block.size.
///
/// ferry maps the memory in huge pages where the system gives them, touches it from several threads and registers it with the driver: several times as fast as the driver's own allocation. If that fails, and for the flags _WRITE_COMBINED and _BY_DRIVER, the driver allocates it. If the driver fails too, FERRY_HOST_ALLOW_SMALLER tries half as much, and half of that, down to min_size; then FERRY_HOST_ALLOW_PAGEABLE takes the whole size unpinned.
///
/// The child of a fork does not have memory that ferry maps. With FERRY_HOST_SHARED it shares the memory, as it shares the driver's. In small pages (usual before Linux 6.1) ferry's own then takes longer, but still less than the driver's.
pub extern fn ferry_host_alloc(instance: *ferry_instance, size: u64, options: ?*const ferry_host_options, block: *ferry_host_block, @"error": ?*ferry_error_info) i32;

/// Frees memory that ferry_host_alloc of the same instance returned.
pub extern fn ferry_host_free(instance: *ferry_instance, address: ?*anyopaque) i32;

/// A deferred free: frees memory of ferry_host_alloc in the order of `stream`, and waits for no work. The instance keeps the memory until the stream has passed. Then ferry_deferred_trim for FERRY_DEVICE_UNKNOWN, a later ferry_host_alloc (see ferry_options.deferred_bytes) or ferry_close frees it. Host memory lies on no device: it counts only for FERRY_DEVICE_UNKNOWN. The stream must come after all work that uses the memory; it may be destroyed at once. The host must not use the memory any more.
pub extern fn ferry_host_free_deferred(instance: *ferry_instance, address: ?*anyopaque, stream: ?*CUstream_st) i32;

/// Pins `size` bytes of the caller's own memory in place, for every device. Size 0 is an error. Memory larger than ferry_options.register_chunk is registered in pieces of that size: all of them or, on failure, none. Copies and fills on the same instance may cross from one piece or registration into the next, and copies may leave them for pageable memory. The driver refuses such a call; ferry then makes one call for each part (see ferry_copy). The program's own calls of the driver must stay within one piece.
/// Values: `flags`: FERRY_REGISTER_READ_ONLY, which the driver refuses for memory of files, or 0.
pub extern fn ferry_host_register(instance: *ferry_instance, address: *anyopaque, size: u64, flags: u32, @"error": ?*ferry_error_info) i32;

/// Undoes ferry_host_register; `address` is the one given there.
pub extern fn ferry_host_unregister(instance: *ferry_instance, address: *anyopaque) i32;

/// Fills `info` with what lies at `address`. An address that the driver does not know is pageable. Memory of a host pool is pinned for devices that have access to the pool, and pageable for the others. The call reports the kind for the current context's device, else for device 0. In a copy between such memory and another device's memory, SOURCE_READ and DESTINATION_WRITTEN apply unless both that device and the copy's own have access.
pub extern fn ferry_address_get_info(instance: *ferry_instance, address: u64, info: *ferry_address_info) i32;

/// Creates a CUDA array on `device`: 1D, 2D, 3D, layered or cubemap. Copies take any other CUarray too.
///
/// ferry identifies the array by its handle. Destroy it with ferry_array_destroy (a mipmapped one with ferry_mipmapped_array_destroy) on the instance that made it. The driver's own call or another instance may destroy it only after this instance is closed: otherwise a later array with the same handle would be read wrongly, or be refused on its device.
///
/// With FERRY_ARRAY_SURFACE and a format of plain texels (neither compressed nor video), ferry's kernels can read the array in the context it was made in: whole arrays reach the device's memory up to 1.8 times as fast (H200). From the first copy by a kernel on, ferry keeps a surface of such an array.
///
/// An array given to ferry_array_destroy_async is reused for an equal description on the same device, once its stream has passed. Its contents are undefined, as in a new array.
pub extern fn ferry_array_create(instance: *ferry_instance, device: i32, desc: *const ferry_array_desc, array: *?*CUarray_st, @"error": ?*ferry_error_info) i32;

/// Destroys an array.
pub extern fn ferry_array_destroy(instance: *ferry_instance, array: ?*CUarray_st) i32;

/// Destroys an array of ferry_array_create in the order of `stream`, and waits for no work. CUDA has no such call, so the instance keeps the array. Once the stream has passed, ferry_array_create reuses it for an equal description; ferry_deferred_trim, a later allocation of ferry's on the device (see ferry_options.deferred_bytes) and ferry_close destroy it. The stream must come after all work that uses the array; it may be destroyed at once. Default streams are those of the array's device.
pub extern fn ferry_array_destroy_async(instance: *ferry_instance, array: ?*CUarray_st, stream: ?*CUstream_st) i32;

/// Creates a mipmapped array: `levels` arrays, each of half the width, height and depth of the one before, rounded down and at least 1; layers and faces are not halved. `levels` of 0, or above the maximum, creates the maximum number. FERRY_ARRAY_SURFACE means for each level what it means for ferry_array_create. A mipmapped array given to ferry_mipmapped_array_destroy_async is reused if the description and the number of levels are equal.
pub extern fn ferry_mipmapped_array_create(instance: *ferry_instance, device: i32, desc: *const ferry_array_desc, levels: u32, mipmapped: *?*CUmipmappedArray_st, @"error": ?*ferry_error_info) i32;

/// Stores level number `level` of a mipmapped array in *array. Copies take it like any other array. Level 0 is the largest.
pub extern fn ferry_mipmapped_array_get_level(instance: *ferry_instance, mipmapped: *CUmipmappedArray_st, level: u32, array: *?*CUarray_st) i32;

/// Destroys a mipmapped array with all its levels, also one of ferry_external_memory_get_array.
pub extern fn ferry_mipmapped_array_destroy(instance: *ferry_instance, mipmapped: ?*CUmipmappedArray_st) i32;

/// ferry_array_destroy_async for a mipmapped array with all its levels. An array of ferry_external_memory_get_array is never reused: ferry_deferred_trim, a later allocation, ferry_close and the release of its memory destroy it.
pub extern fn ferry_mipmapped_array_destroy_async(instance: *ferry_instance, mipmapped: ?*CUmipmappedArray_st, stream: ?*CUstream_st) i32;

/// Stores plane number `plane` of an array in a planar video format in *plane_array. Copies take it like any other array. Luma is plane 0; the chroma planes follow, smaller where the format subsamples them.
pub extern fn ferry_array_get_plane(instance: *ferry_instance, array: *CUarray_st, plane: u32, plane_array: *?*CUarray_st) i32;

/// Fills `desc` from any CUarray. *element_size, unless NULL, is the size of one element in bytes: for block-compressed formats, whose copies count blocks, of a block of 4 x 4 texels; 0 for planar formats, which have no such size.
pub extern fn ferry_array_get_info(instance: *ferry_instance, array: *CUarray_st, desc: *ferry_array_desc, element_size: ?*u32) i32;

/// Creates a pool. The pool takes memory from the system as needed and keeps it until ferry_pinned_pool_trim or _destroy. For each size of blocks it takes 64 KiB or more at once, in larger pieces as it holds more of them, up to 2 MiB; less near the limit. All of it is pinned in the context that ferry uses for `device` of FERRY_NUMA_DEVICE, else for device 0, whatever context is current. That context must not end before the pool.
pub extern fn ferry_pinned_pool_create(instance: *ferry_instance, options: ?*const ferry_pinned_pool_options, pool: *?*ferry_pinned_pool, @"error": ?*ferry_error_info) i32;

/// Destroys a pool and releases its memory.
pub extern fn ferry_pinned_pool_destroy(pool: ?*ferry_pinned_pool) i32;

/// Allocates `size` bytes that the host may use at once: no stream uses them any more. Aligned to 256 bytes, and to 4096 if `size` is a multiple of 4096 or more than 30 KiB. Sizes are rounded up to classes, eight to each power of two from 2 KiB on: at most an eighth of a block is wasted, below 2 KiB at most 255 bytes. Size 0 is an error.
pub extern fn ferry_pinned_pool_alloc(pool: *ferry_pinned_pool, size: u64, address: *?*anyopaque, @"error": ?*ferry_error_info) i32;

/// Allocates `size` bytes for later work on `stream`. The host must wait until the stream has reached this point before using them. A block that was freed on the same stream is reused at once. If the pool is at its limit or cannot grow, `stream` waits for a block that was freed on another stream.
pub extern fn ferry_pinned_pool_alloc_async(pool: *ferry_pinned_pool, size: u64, stream: ?*CUstream_st, address: *?*anyopaque, @"error": ?*ferry_error_info) i32;

/// Frees a block that none of the caller's work uses any more. If ferry_pinned_pool_alloc_async made its stream wait for the block, the pool does not reuse the block before that earlier work has ended. May also be called from a host function of a stream.
pub extern fn ferry_pinned_pool_free(pool: *ferry_pinned_pool, address: ?*anyopaque) i32;

/// Frees a block in stream order: once `stream` has passed the work enqueued on it so far. NULL for `address` is allowed. Default streams as for ferry_stream_synchronize.
pub extern fn ferry_pinned_pool_free_async(pool: *ferry_pinned_pool, address: ?*anyopaque, stream: ?*CUstream_st) i32;

/// Releases memory to the system until the pool holds at most `keep` bytes. Memory with a block that is allocated or waits for its stream stays.
pub extern fn ferry_pinned_pool_trim(pool: *ferry_pinned_pool, keep: u64) i32;

/// Fills `stats`.
pub extern fn ferry_pinned_pool_get_stats(pool: *ferry_pinned_pool, stats: *ferry_pool_stats) i32;

/// Resets both high-water marks to the current values.
pub extern fn ferry_pinned_pool_reset_stats(pool: *ferry_pinned_pool) i32;

/// Allocates `size` bytes from the current pool of `device`, in the order of `stream`: work enqueued there from now on may use the memory, and so may work elsewhere after an event. FERRY_DEVICE_UNKNOWN means the stream's own device; with a default stream the device must be named (else _DEVICE). The current context never decides where memory lies. Size 0 gives an address of no bytes, which may be 0.
///
/// Under capture the allocation becomes part of the graph. Until the graph is launched the driver does not know the address, so copies and fills of it must state kind DEVICE and the device.
pub extern fn ferry_device_alloc_async(instance: *ferry_instance, device: i32, size: u64, stream: ?*CUstream_st, address: *u64, @"error": ?*ferry_error_info) i32;

/// Frees memory of ferry_device_alloc_async, ferry_pool_alloc_async or ferry_device_alloc in the order of `stream`. The stream must come after all work that uses the memory. 0 is allowed. Default streams are those of the memory's device. ferry_device_free takes stream-ordered memory too, and waits.
pub extern fn ferry_device_free_async(instance: *ferry_instance, address: u64, stream: ?*CUstream_st) i32;

/// Creates a pool. Devices have no access to a pool in host memory before ferry_pool_set_access; without access copies work, but as slowly as with pageable memory. A pool of FERRY_LOCATION_HOST cannot be shared.
pub extern fn ferry_pool_create(instance: *ferry_instance, desc: *const ferry_pool_desc, pool: *?*CUmemPoolHandle_st, @"error": ?*ferry_error_info) i32;

/// Destroys a pool. All of its memory must have been freed: the driver would accept a pool in use, and end the process some time later (CUDA 13.0). If the pool was current for its location, the default pool is current again.
pub extern fn ferry_pool_destroy(instance: *ferry_instance, pool: ?*CUmemPoolHandle_st) i32;

/// Stores the default pool of a location in *pool. It can be neither destroyed nor shared. `index` is as in ferry_pool_desc.
/// Values: `location`: FERRY_LOCATION_*.
pub extern fn ferry_pool_get_default(instance: *ferry_instance, location: i32, index: i32, pool: *?*CUmemPoolHandle_st) i32;

/// Stores the current pool of a location in *pool: ferry_device_alloc_async allocates from it. Until another pool is set, it is the default pool. It is the same for the whole process.
/// Values: `location`: FERRY_LOCATION_*.
pub extern fn ferry_pool_get_current(instance: *ferry_instance, location: i32, index: i32, pool: *?*CUmemPoolHandle_st) i32;

/// Makes `pool` the current one of a location, for the whole process. The pool must be of that location.
/// Values: `location`: FERRY_LOCATION_*.
pub extern fn ferry_pool_set_current(instance: *ferry_instance, location: i32, index: i32, pool: *CUmemPoolHandle_st) i32;

/// Allocates `size` bytes from `pool` in the order of `stream`, which may be of another device than the pool. Default streams are those of the pool's device; for pools in host memory, of the current context, else of device 0. The host may use the address of memory from a pool in host memory too.
pub extern fn ferry_pool_alloc_async(instance: *ferry_instance, pool: *CUmemPoolHandle_st, size: u64, stream: ?*CUstream_st, address: *u64, @"error": ?*ferry_error_info) i32;

/// Fills `info`.
pub extern fn ferry_pool_get_info(instance: *ferry_instance, pool: *CUmemPoolHandle_st, info: *ferry_pool_info) i32;

/// Fills `attributes`.
pub extern fn ferry_pool_get_attributes(instance: *ferry_instance, pool: *CUmemPoolHandle_st, attributes: *ferry_pool_attributes) i32;

/// Sets all attributes; to change some, get all of them first. Attributes beyond the end of a shorter struct keep their values.
pub extern fn ferry_pool_set_attributes(instance: *ferry_instance, pool: *CUmemPoolHandle_st, attributes: *const ferry_pool_attributes) i32;

/// Fills `stats` with this process's share.
pub extern fn ferry_pool_get_stats(instance: *ferry_instance, pool: *CUmemPoolHandle_st, stats: *ferry_pool_stats) i32;

/// Resets both high-water marks to the current values.
pub extern fn ferry_pool_reset_stats(instance: *ferry_instance, pool: *CUmemPoolHandle_st) i32;

/// Releases memory that is not allocated, until the pool holds at most `keep` bytes or nothing more can be released.
pub extern fn ferry_pool_trim(instance: *ferry_instance, pool: *CUmemPoolHandle_st, keep: u64) i32;

/// Gives `device` access to all memory of `pool`, or removes that access. Before it removes access, the call waits for the work of ferry's context for `device`; the program must wait for other work on the device itself. Peer access between contexts does not give access to pools. ferry first asks the driver whether `device` can have access, and asks again after setting it. Once for each pool and device, ferry sends data there and back, because on some machines such data was lost without an error. An imported pool is accepted without that test, since nothing can be allocated from it.
/// Values: `access`: FERRY_ACCESS_*.
pub extern fn ferry_pool_set_access(instance: *ferry_instance, pool: *CUmemPoolHandle_st, device: i32, access: i32) i32;

/// Sets *access to the access of `device` to memory of `pool`.
/// Values: `access`: FERRY_ACCESS_*.
pub extern fn ferry_pool_get_access(instance: *ferry_instance, pool: *CUmemPoolHandle_st, device: i32, access: *i32) i32;

/// Fills `info` from a handle, without importing it.
pub extern fn ferry_ipc_get_info(instance: *ferry_instance, handle: *const ferry_ipc_handle, info: *ferry_ipc_info) i32;

/// Makes a handle for `size` bytes from `address` on; 0: to the end of the allocation. The importer maps the whole allocation. For memory from a pool, first export the pool through the same instance.
pub extern fn ferry_ipc_export_memory(instance: *ferry_instance, address: u64, size: u64, handle: *ferry_ipc_handle, @"error": ?*ferry_error_info) i32;

/// Makes a handle for a pool, with one of the handle types it was created with. With FERRY_HANDLE_POSIX_FD, *os_handle is a file descriptor that must be sent too, over a Unix socket; with FERRY_HANDLE_WIN32 it is a HANDLE. With FERRY_HANDLE_FABRIC everything is in `handle`, and *os_handle is -1. After a failure it is -1 too.
/// Values: `handle_type`: FERRY_HANDLE_*, one of them.
pub extern fn ferry_ipc_export_pool(instance: *ferry_instance, pool: *CUmemPoolHandle_st, handle_type: u32, handle: *ferry_ipc_handle, os_handle: *i64, @"error": ?*ferry_error_info) i32;

/// Makes a handle for an event created with FERRY_EVENT_INTERPROCESS. For an event of ferry_event_create the handle names the device. For any other event it does not, because the driver does not report the device.
pub extern fn ferry_ipc_export_event(instance: *ferry_instance, event: *CUevent_st, handle: *ferry_ipc_handle, @"error": ?*ferry_error_info) i32;

/// Maps memory of another process. *address is the address here of the first exported byte, on the device that the handle names, in the context that ferry uses for that device. Handles into one allocation share one mapping: an allocation that is imported twice has one address, and each import needs its own close. For memory from a pool, first import the pool through the same instance. A handle made by this process, through any instance, maps nothing: *address is the exported address.
pub extern fn ferry_ipc_import_memory(instance: *ferry_instance, handle: *const ferry_ipc_handle, address: *u64, @"error": ?*ferry_error_info) i32;

/// Imports a pool of another process, from its handle and the os_handle that was sent with it. An imported pool serves only to import memory (see ferry_pool_info.is_imported). Its own device has access; for others this process calls ferry_pool_set_access. A second import returns the same pool, needs a second close and does not read os_handle. For a pool that this instance exported, *pool is that pool. A pool that another instance of this process exported is imported like that of another process.
pub extern fn ferry_ipc_import_pool(instance: *ferry_instance, handle: *const ferry_ipc_handle, os_handle: i64, pool: *?*CUmemPoolHandle_st, @"error": ?*ferry_error_info) i32;

/// Imports an event of another process. Streams and calls can wait for it, query it and record it like any other; it has no timing. Each import makes a new event, in the context that ferry uses for the device that the handle names, else in the current context, else in device 0's. For an event that this instance exported, *event is that event.
///
/// If the exporter dies before its stream has reached the record, the event never completes. A program that must not hang polls with ferry_event_query.
pub extern fn ferry_ipc_import_event(instance: *ferry_instance, handle: *const ferry_ipc_handle, event: *?*CUevent_st, @"error": ?*ferry_error_info) i32;

/// Closes one import of memory; `address` is the imported address, or any within the memory. The last close unmaps it. Memory of a pool is unmapped in the order of `stream`, as by ferry_device_free_async: that stream must come after all use of any of the imports. Other memory is unmapped once running work on the device has ended; `stream` is then not read. 0 is allowed.
pub extern fn ferry_ipc_close_memory(instance: *ferry_instance, address: u64, stream: ?*CUstream_st) i32;

/// Closes one import of a pool. The last close destroys the imported pool.
pub extern fn ferry_ipc_close_pool(instance: *ferry_instance, pool: ?*CUmemPoolHandle_st) i32;

/// Closes one import of an event.
pub extern fn ferry_ipc_close_event(instance: *ferry_instance, event: ?*CUevent_st) i32;

/// Fills `info` for access by `device` to the memory of `peer`. Runs no probe.
pub extern fn ferry_peer_get_info(instance: *ferry_instance, device: i32, peer: i32, info: *ferry_peer_info) i32;

/// Tests whether bytes arrive when `device` accesses the memory of `peer`: some machines report peer access and move nothing. Reads 64 KiB from the peer, writes as much to it and compares, in a context made for this on `device`. The result says nothing about `peer` accessing `device`. The test runs once per ordered pair and instance; later calls return the first result. Access between other contexts is unchanged.
pub extern fn ferry_peer_probe(instance: *ferry_instance, device: i32, peer: i32) i32;

/// Gives `device` access to the memory of `peer`, between the contexts that ferry uses for the two. The first time, test data is then sent between these contexts, and the access is taken back if the data is lost. Access belongs to that pair of contexts, not to the instance, and is not counted: it lasts until any code in the process disables it or one of the contexts ends. ferry_close leaves it. After ferry_context_adopt call again. Access that is already enabled is a success.
pub extern fn ferry_peer_enable(instance: *ferry_instance, device: i32, peer: i32) i32;

/// Undoes ferry_peer_enable. Access that is not enabled is a success. Later copies between the two still work; graphs and prepared batches made while there was access may not be launched any more.
pub extern fn ferry_peer_disable(instance: *ferry_instance, device: i32, peer: i32) i32;

/// Runs ferry_peer_probe, then measures copies from `device` to `peer` in each way that serves them: with access, if the probe passes; by the driver without access; and by FERRY_ROUTE_RELAYED. With access also copies between pinned memory and `peer` that `device` makes over its own link, as a helper of FERRY_COPY_MULTILINK. ferry_peer_get_info reports the rates. With them ferry plans copies from `device` to `peer` until this pair is calibrated again, a profile that has the pair is loaded, or ferry_close. ferry_profile_save keeps them. Access between other contexts is unchanged.
pub extern fn ferry_peer_calibrate(instance: *ferry_instance, device: i32, peer: i32, @"error": ?*ferry_error_info) i32;

/// Lets copies with FERRY_COPY_MULTILINK between host memory and `device` take the host links of other devices: each helper runs a kernel on a stream of ferry's own that moves a part of the bytes and accesses the memory of `device` as a peer. Such a copy takes SMs and link of its helpers as long as it runs. The devices claim chunks, so a helper that is busy does less, and one whose kernel does not start delays nothing. `options` NULL: no helpers, as at first. Replaces the helpers of earlier calls; copies in flight keep theirs. Also starts staging threads for the helpers and enlarges the staging buffer of `device`, for pageable memory, which takes at most four links. With ferry_options.submit threads and buffer stay as they are.
///
/// Each helper gets access to the memory of `device`, as by ferry_peer_enable, which it keeps. Only memory to which all contexts that ferry uses for these devices have access gains by it. After ferry_context_adopt for `device` other helpers cannot be set while the instance is open.
///
/// If the context of a helper dies while it holds a chunk, the copy fails: its stream and context report CUDA_ERROR_LAUNCH_FAILED some seconds later. A helper's kernel may start after the copy has ended: end the context of `device` by ferry_context_destroy, which waits for that, not by the driver's call.
pub extern fn ferry_multilink_set(instance: *ferry_instance, device: i32, options: ?*const ferry_multilink_options, @"error": ?*ferry_error_info) i32;

/// Imports memory. ferry_external_memory_get_address and ferry_external_memory_get_array make places of it.
pub extern fn ferry_external_memory_import(instance: *ferry_instance, desc: *const ferry_external_memory_desc, memory: *?*CUextMemory_st, @"error": ?*ferry_error_info) i32;

/// Stores the address of imported memory at `offset`, and checks that `size` bytes, or none, follow it. A buffer begins at the offset that it was bound at. A linear image does too, with the row pitch that the other API reports.
pub extern fn ferry_external_memory_get_address(instance: *ferry_instance, memory: *CUextMemory_st, offset: u64, size: u64, address: *u64, @"error": ?*ferry_error_info) i32;

/// Stores a mipmapped array whose texels are those of an image of the other API in its optimal layout. The image was bound at `offset`; `desc` describes its level 0, and it has `levels` levels (0: 1). Copies take the arrays of ferry_mipmapped_array_get_level. Each call makes a new array. A plain 2D image has depth 0, an image with layers has FERRY_ARRAY_LAYERED. State FERRY_ARRAY_SURFACE for a storage image and FERRY_ARRAY_COLOR_ATTACHMENT for one that is rendered to.
pub extern fn ferry_external_memory_get_array(instance: *ferry_instance, memory: *CUextMemory_st, offset: u64, desc: *const ferry_array_desc, levels: u32, mipmapped: *?*CUmipmappedArray_st, @"error": ?*ferry_error_info) i32;

/// Releases imported memory, with all addresses and arrays that were made of it, also arrays given to ferry_mipmapped_array_destroy_async. The other API's own memory lives on until that API frees it.
pub extern fn ferry_external_memory_release(instance: *ferry_instance, memory: ?*CUextMemory_st) i32;

/// Releases imported memory in the order of `stream`, and waits for no work. The stream must come after all work that uses the memory; it may be destroyed at once. Once the stream has passed, ferry_deferred_trim, a later allocation of ferry's own on the device (ferry_device_alloc and the like, see ferry_options.deferred_bytes; not an import) and ferry_close free it. Until then the other API's memory stays allocated, even if that API has freed it: a program that allocates nothing by ferry must call ferry_deferred_trim. Default streams are those of the memory's device.
pub extern fn ferry_external_memory_release_async(instance: *ferry_instance, memory: ?*CUextMemory_st, stream: ?*CUstream_st) i32;

/// Imports a semaphore. The driver believes what `handle_type` says (CUDA 13.0): a timeline semaphore imported as a binary one, or memory imported as a semaphore, is not detected.
pub extern fn ferry_external_semaphore_import(instance: *ferry_instance, desc: *const ferry_external_semaphore_desc, semaphore: *?*CUextSemaphore_st, @"error": ?*ferry_error_info) i32;

/// Signals a semaphore once the earlier work on `stream` is complete: a timeline semaphore or fence gets `value`, which must be above its present one; a keyed mutex is released with the key `value`; a binary semaphore has no value. In a graph the same value is signalled at each launch. Default streams are those of the semaphore's device.
pub extern fn ferry_external_semaphore_signal_async(instance: *ferry_instance, semaphore: *CUextSemaphore_st, value: u64, stream: ?*CUstream_st) i32;

/// Makes later work on `stream` wait for a semaphore: until a timeline semaphore or fence has at least `value`; until a keyed mutex is acquired with the key `value`, for at most `timeout_ms` milliseconds (UINT32_MAX: for ever); or until a binary semaphore is signalled. Only keyed mutexes have a timeout. The other API must have submitted the signal of a binary semaphore before this call; of a timeline semaphore it may come later. Default streams are those of the semaphore's device.
pub extern fn ferry_external_semaphore_wait_async(instance: *ferry_instance, semaphore: *CUextSemaphore_st, value: u64, timeout_ms: u32, stream: ?*CUstream_st) i32;

/// Releases an imported semaphore. Its signals and waits must have completed.
pub extern fn ferry_external_semaphore_release(instance: *ferry_instance, semaphore: ?*CUextSemaphore_st) i32;

/// Releases an imported semaphore in the order of `stream`, and waits for no work. The stream must come after all its signals and waits; it may be destroyed at once. Once the stream has passed, ferry_deferred_trim and ferry_close release the semaphore, and so does an allocation that frees what deferred frees keep on the device. A semaphore takes no bytes: ferry_deferred_trim releases it whatever `keep` is. Default streams are those of the semaphore's device.
pub extern fn ferry_external_semaphore_release_async(instance: *ferry_instance, semaphore: ?*CUextSemaphore_st, stream: ?*CUstream_st) i32;

/// Fills `info`.
pub extern fn ferry_staging_get_info(instance: *ferry_instance, info: *ferry_staging_info) i32;

/// Creates what the first staged copy of `device` would otherwise create and wait for: ferry's kernels in the device's context (the current one if it belongs to the device), threads, and the pinned staging buffer. Whatever exists already stays. After this, no staged copy in that context waits for them. May be called on any thread, also beside copies.
pub extern fn ferry_staging_prepare(instance: *ferry_instance, device: i32) i32;

/// Releases the staging buffers: all of their memory if no copy is in flight and no graph holds one, else the part that no copy or graph needs. Also releases the slots of relayed copies that are complete. The next copy pins it again. Threads stay.
pub extern fn ferry_staging_trim(instance: *ferry_instance) i32;

/// Measures `device`. ferry plans with the result until the next calibration or ferry_profile_load, or until ferry_close. Copies between devices are not measured: see ferry_peer_calibrate, whose rates stay. Other work on the device or on its link distorts the numbers: calibrate when a machine is set up or a program starts. ferry never calibrates by itself.
pub extern fn ferry_device_calibrate(instance: *ferry_instance, device: i32, @"error": ?*ferry_error_info) i32;

/// Writes the profile of `device`, also the built-in one, to `buffer`: text of a few kilobytes in ASCII, lines ended by '\n', with an ending zero. `needed`, unless NULL, receives its size in bytes with that zero, also if the text does not fit; to ask only for the size, pass a NULL `buffer` of size 0. A buffer that is too small is an error (FERRY_ERROR_INVALID_ARGUMENT), and nothing is written to it.
///
/// The text can be loaded on any device of the same name, number of SMs and compute capability with the same driver version, so also on the equal devices of one machine. It has a line for each pair that was measured and begins at such a device, with the PCI addresses of both. ferry does not detect that a device has moved to another link: calibrate it again. To return to the built-in profile later, save it first.
/// Values: `buffer`: `size` bytes.
pub extern fn ferry_profile_save(instance: *const ferry_instance, device: i32, buffer: ?[*]u8, size: u64, needed: ?*u64) i32;

/// Loads a profile: from now on ferry plans with it on every device here that it fits, as after ferry_device_calibrate. Rates of pairs in the text replace those of the same pairs; the rates of other pairs stay. Pairs are skipped if one of their devices is not here, or if the profile does not fit the first. `size` is the length of the text in bytes, with or without an ending zero.
/// Values: `text`: `size` bytes.
pub extern fn ferry_profile_load(instance: *ferry_instance, text: [*]const u8, size: u64, @"error": ?*ferry_error_info) i32;
