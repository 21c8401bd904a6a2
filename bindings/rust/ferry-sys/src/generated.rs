// Made by generate.py from include/ferry/ferry.json: do not edit.

use std::ffi::c_void;
use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::c_char;

pub const FERRY_VERSION_MAJOR: i32 = 0;
pub const FERRY_VERSION_MINOR: i32 = 6;
pub const FERRY_VERSION_PATCH: i32 = 0;

choice!(Status, i32, "`FERRY_ERROR_*`");
/// counts as one of FERRY_ERROR_*
pub const FERRY_SUCCESS: Status = Status(0);
/// a required pointer is NULL, or a value is outside its documented range
pub const FERRY_ERROR_INVALID_ARGUMENT: Status = Status(-1);
/// host memory for ferry's own use; device memory is a driver status
pub const FERRY_ERROR_OUT_OF_MEMORY: Status = Status(-2);
/// struct_size is out of range, or covers unknown bytes that are not zero
pub const FERRY_ERROR_ABI_MISMATCH: Status = Status(-3);
/// a reserved field is not zero
pub const FERRY_ERROR_RESERVED: Status = Status(-4);
/// an unknown flag is set
pub const FERRY_ERROR_FLAGS: Status = Status(-5);
/// unknown kind; full checks: not the kind stated; a fill of pageable memory
pub const FERRY_ERROR_KIND: Status = Status(-6);
/// no such device; not the array's device; full checks: not the memory's device
pub const FERRY_ERROR_DEVICE: Status = Status(-7);
/// null address or array; full checks: freed, foreign or inaccessible memory
pub const FERRY_ERROR_ADDRESS: Status = Status(-8);
/// row pitch below x + width or above the device's limit, slice height below y + height
pub const FERRY_ERROR_PITCH: Status = Status(-9);
/// offsets and extent do not fit 64 bits
pub const FERRY_ERROR_OVERFLOW: Status = Status(-10);
/// the box reaches past the array; full checks: past the allocation
pub const FERRY_ERROR_OUT_OF_BOUNDS: Status = Status(-11);
/// source and destination share bytes
pub const FERRY_ERROR_OVERLAP: Status = Status(-12);
/// element sizes differ, x or width is no whole number of elements, no such format
pub const FERRY_ERROR_ARRAY_FORMAT: Status = Status(-13);
/// no NVIDIA driver on this machine
pub const FERRY_ERROR_NO_DRIVER: Status = Status(-14);
/// a driver older than CUDA 12.0, or one that lacks a required entry point
pub const FERRY_ERROR_DRIVER_TOO_OLD: Status = Status(-15);
/// a driver without a usable device
pub const FERRY_ERROR_NO_DEVICE: Status = Status(-16);
/// this build or this driver has no such feature
pub const FERRY_ERROR_UNSUPPORTED: Status = Status(-17);
/// the software driver already runs with other settings
pub const FERRY_ERROR_SOFTWARE_CONFIG: Status = Status(-18);
/// no context to pop, or the call cannot use the context
pub const FERRY_ERROR_NO_CONTEXT: Status = Status(-19);
/// no access between the two devices, or the probe lost data
pub const FERRY_ERROR_PEER_ACCESS: Status = Status(-20);
/// an address, pitch or width is no multiple of the pattern's size
pub const FERRY_ERROR_ALIGNMENT: Status = Status(-21);
/// the stream is being captured, and a graph cannot hold this call
pub const FERRY_ERROR_CAPTURE: Status = Status(-22);
/// a pinned pool is at its limit, or the staging buffer has no free slot
pub const FERRY_ERROR_LIMIT: Status = Status(-23);
/// memory of the pool is still allocated or imported
pub const FERRY_ERROR_IN_USE: Status = Status(-24);
/// not a handle for this call, or damaged, or its object no longer exists
pub const FERRY_ERROR_HANDLE: Status = Status(-25);
/// the handle was made on another machine, or before the last reboot
pub const FERRY_ERROR_MACHINE: Status = Status(-26);
/// the pool of this memory is not imported, or this is no imported pool
pub const FERRY_ERROR_POOL: Status = Status(-27);
/// imported: it cannot be freed, changed or allocated from, and ends with its import
pub const FERRY_ERROR_IMPORTED: Status = Status(-28);
/// this memory, pool, event or semaphore cannot be shared
pub const FERRY_ERROR_NOT_SHAREABLE: Status = Status(-29);
/// the profile is damaged, old, or of another device or driver
pub const FERRY_ERROR_PROFILE: Status = Status(-30);
/// the route that the flags force cannot take this copy: see value
pub const FERRY_ERROR_ROUTE: Status = Status(-31);

pub const FERRY_STATUS_DRIVER_BASE: i32 = -1000;

flags!(Traits, u32, "`FERRY_STATUS_*`");
/// the context (or the driver) is lost: every later call on it will fail too
pub const FERRY_STATUS_CONTEXT_DEAD: Traits = Traits(1);
/// the same call may succeed later, or once memory has been freed
pub const FERRY_STATUS_RETRY: Traits = Traits(2);

choice!(Side, i32, "`FERRY_SIDE_*`");
pub const FERRY_SIDE_NONE: Side = Side(0);
pub const FERRY_SIDE_SOURCE: Side = Side(1);
pub const FERRY_SIDE_DESTINATION: Side = Side(2);
pub const FERRY_SIDE_EXTENT: Side = Side(3);
/// the descriptor's own flags and reserved fields
pub const FERRY_SIDE_DESCRIPTOR: Side = Side(4);
/// the options or the description that a call was given
pub const FERRY_SIDE_OPTIONS: Side = Side(5);

choice!(Field, i32, "`FERRY_FIELD_*`");
pub const FERRY_FIELD_NONE: Field = Field(0);
pub const FERRY_FIELD_KIND: Field = Field(1);
pub const FERRY_FIELD_DEVICE: Field = Field(2);
pub const FERRY_FIELD_ADDRESS: Field = Field(3);
pub const FERRY_FIELD_ARRAY: Field = Field(4);
pub const FERRY_FIELD_ROW_PITCH: Field = Field(5);
pub const FERRY_FIELD_SLICE_HEIGHT: Field = Field(6);
pub const FERRY_FIELD_X: Field = Field(7);
pub const FERRY_FIELD_Y: Field = Field(8);
pub const FERRY_FIELD_Z: Field = Field(9);
pub const FERRY_FIELD_WIDTH: Field = Field(10);
pub const FERRY_FIELD_HEIGHT: Field = Field(11);
pub const FERRY_FIELD_DEPTH: Field = Field(12);
pub const FERRY_FIELD_FLAGS: Field = Field(13);
pub const FERRY_FIELD_RESERVED: Field = Field(14);
pub const FERRY_FIELD_STRUCT_SIZE: Field = Field(15);
pub const FERRY_FIELD_DRIVER: Field = Field(16);
pub const FERRY_FIELD_CHECKS: Field = Field(17);
/// allocate without deallocate, or the reverse
pub const FERRY_FIELD_CALLBACKS: Field = Field(18);
/// software_* options that differ from those of the running software driver
pub const FERRY_FIELD_SOFTWARE: Field = Field(19);
/// pattern_size
pub const FERRY_FIELD_PATTERN: Field = Field(20);
pub const FERRY_FIELD_NUMA: Field = Field(21);
pub const FERRY_FIELD_NUMA_NODE: Field = Field(22);
pub const FERRY_FIELD_THREADS: Field = Field(23);
pub const FERRY_FIELD_SIZE: Field = Field(24);
pub const FERRY_FIELD_LOCATION: Field = Field(25);
pub const FERRY_FIELD_INDEX: Field = Field(26);
pub const FERRY_FIELD_HANDLE_TYPES: Field = Field(27);
/// the bytes of a ferry_ipc_handle
pub const FERRY_FIELD_HANDLE: Field = Field(28);
pub const FERRY_FIELD_OS_HANDLE: Field = Field(29);
pub const FERRY_FIELD_POOL: Field = Field(30);
pub const FERRY_FIELD_EVENT: Field = Field(31);
pub const FERRY_FIELD_REGISTER_CHUNK: Field = Field(32);
/// of a profile
pub const FERRY_FIELD_VERSION: Field = Field(33);
/// of a profile: its number is the value
pub const FERRY_FIELD_LINE: Field = Field(34);
pub const FERRY_FIELD_KERNELS: Field = Field(35);
pub const FERRY_FIELD_STAGING: Field = Field(36);
/// staging_cpus or staging_cpu_count
pub const FERRY_FIELD_STAGING_CPUS: Field = Field(37);
pub const FERRY_FIELD_STAGING_PRIORITY: Field = Field(38);
pub const FERRY_FIELD_STAGING_BYTES: Field = Field(39);
pub const FERRY_FIELD_SOFTWARE_DEVICES: Field = Field(40);
pub const FERRY_FIELD_SOFTWARE_QUEUES: Field = Field(41);
/// of an array
pub const FERRY_FIELD_FORMAT: Field = Field(42);
/// of an array
pub const FERRY_FIELD_CHANNELS: Field = Field(43);
pub const FERRY_FIELD_SOFTWARE_LINKS: Field = Field(44);
pub const FERRY_FIELD_HELPERS: Field = Field(45);
pub const FERRY_FIELD_TRACE_PHASES: Field = Field(46);

choice!(Kind, i32, "`FERRY_KIND_*`");
/// `address` decides; memory unknown to the driver is host memory
pub const FERRY_KIND_ANY: Kind = Kind(0);
/// `address` is host memory, pageable or pinned
pub const FERRY_KIND_HOST: Kind = Kind(1);
/// `address` is device (or managed) memory on `device`
pub const FERRY_KIND_DEVICE: Kind = Kind(2);
/// `array` is a CUDA array on `device`
pub const FERRY_KIND_ARRAY: Kind = Kind(3);

pub const FERRY_DEVICE_UNKNOWN: i32 = -1;

flags!(CopyFlags, u32, "`FERRY_COPY_*`");
pub const FERRY_COPY_URGENT: CopyFlags = CopyFlags(1);
pub const FERRY_COPY_NO_KERNELS: CopyFlags = CopyFlags(2);
pub const FERRY_COPY_SOURCE_READ: CopyFlags = CopyFlags(4);
pub const FERRY_COPY_MULTILINK: CopyFlags = CopyFlags(8);
pub const FERRY_COPY_DESTINATION_WRITTEN: CopyFlags = CopyFlags(16);
pub const FERRY_COPY_BY_DRIVER: CopyFlags = CopyFlags(256);
pub const FERRY_COPY_BY_KERNEL: CopyFlags = CopyFlags(512);
pub const FERRY_COPY_BY_STAGING: CopyFlags = CopyFlags(1024);
pub const FERRY_COPY_BY_RELAY: CopyFlags = CopyFlags(2048);
/// a maximum of 65535 SMs, which limits nothing
pub const FERRY_COPY_DEFAULT: CopyFlags = CopyFlags(4294901760);

pub const FERRY_COPY_MAX_SMS_SHIFT: i32 = 16;

flags!(BatchFlags, u32, "`FERRY_BATCH_*`");
/// refuse a batch if a copy writes bytes that another one reads or writes
pub const FERRY_BATCH_CHECK_OVERLAP: BatchFlags = BatchFlags(4096);
/// prepared pieces only: allows ferry_prepared_set_addresses
pub const FERRY_BATCH_UPDATABLE: BatchFlags = BatchFlags(8192);

choice!(Route, i32, "`FERRY_ROUTE_*`");
/// not at all: its width is 0
pub const FERRY_ROUTE_NONE: Route = Route(0);
/// by the driver's own calls: one, or more if host memory is registered in pieces
pub const FERRY_ROUTE_DRIVER: Route = Route(1);
/// by a kernel of ferry's on the copy's stream
pub const FERRY_ROUTE_KERNEL: Route = Route(2);
/// by CPU threads and a kernel or copies on the stream, through pinned memory
pub const FERRY_ROUTE_STAGED: Route = Route(3);
/// the calling thread reads the source into pinned memory, the driver copies that
pub const FERRY_ROUTE_BUFFERED: Route = Route(4);
/// between devices, through pinned memory, by the driver's calls on ferry's own streams
pub const FERRY_ROUTE_RELAYED: Route = Route(5);
/// by kernels of several devices, each over its own host link: ferry_multilink_set
pub const FERRY_ROUTE_MULTILINK: Route = Route(6);

choice!(Obstacle, i32, "`FERRY_OBSTACLE_*`");
pub const FERRY_OBSTACLE_NONE: Obstacle = Obstacle(0);
/// the instance's flags are BY_STAGING, and pieces of a batch cannot be staged
pub const FERRY_OBSTACLE_NO_ROUTE: Obstacle = Obstacle(1);
/// FERRY_COPY_NO_KERNELS
pub const FERRY_OBSTACLE_FORBIDDEN: Obstacle = Obstacle(2);
/// the driver refused ferry's kernels, or the options exclude them
pub const FERRY_OBSTACLE_NOT_LOADED: Obstacle = Obstacle(3);
/// both ends are host memory
pub const FERRY_OBSTACLE_HOST_TO_HOST: Obstacle = Obstacle(4);
/// an end is pageable or host pool memory that the device does not reach
pub const FERRY_OBSTACLE_PAGEABLE: Obstacle = Obstacle(5);
/// an end is managed memory: kernels by BY_KERNEL or URGENT, staging never
pub const FERRY_OBSTACLE_MANAGED: Obstacle = Obstacle(6);
/// an end is an array that kernels do not take: see ferry_array_create
pub const FERRY_OBSTACLE_ARRAY: Obstacle = Obstacle(7);
/// the copy's context has no access to an end
pub const FERRY_OBSTACLE_NO_ACCESS: Obstacle = Obstacle(8);
/// an end reaches past its allocation or registration
pub const FERRY_OBSTACLE_BEYOND: Obstacle = Obstacle(9);
/// the destination is memory that the device may only read
pub const FERRY_OBSTACLE_READ_ONLY: Obstacle = Obstacle(10);
/// no end is pageable memory, and no narrow rows need staging
pub const FERRY_OBSTACLE_NOT_PAGEABLE: Obstacle = Obstacle(11);
/// the options exclude staging, it has no threads or pinned memory, or the host memory cannot be read
pub const FERRY_OBSTACLE_NO_STAGING: Obstacle = Obstacle(12);
/// an end lies on another device than the one of the stream
pub const FERRY_OBSTACLE_OTHER_DEVICE: Obstacle = Obstacle(13);
/// the device takes pageable memory itself (pageable_uses_host_page_tables)
pub const FERRY_OBSTACLE_DIRECT: Obstacle = Obstacle(14);
/// the ends are not on two devices
pub const FERRY_OBSTACLE_NOT_BETWEEN_DEVICES: Obstacle = Obstacle(15);
/// one of the two devices has access to the memory of the other
pub const FERRY_OBSTACLE_DIRECT_ACCESS: Obstacle = Obstacle(16);
/// ferry_multilink_set names none for this device, in this context
pub const FERRY_OBSTACLE_NO_HELPERS: Obstacle = Obstacle(17);
/// rows below 64 KiB, or addresses or pitches that differ modulo 16
pub const FERRY_OBSTACLE_NOT_CUT: Obstacle = Obstacle(18);
/// too small to gain by it
pub const FERRY_OBSTACLE_SMALL: Obstacle = Obstacle(19);
/// the copy becomes part of a graph, where it is the driver's
pub const FERRY_OBSTACLE_CAPTURED: Obstacle = Obstacle(20);

choice!(Reason, i32, "`FERRY_REASON_*`");
/// there is nothing to copy
pub const FERRY_REASON_NONE: Reason = Reason(0);
/// one line without pageable memory: the driver is as fast
pub const FERRY_REASON_LINE: Reason = Reason(1);
/// no other route can take it: see the obstacles
pub const FERRY_REASON_ONLY: Reason = Reason(2);
/// it is predicted to be the fastest, from the profile in force
pub const FERRY_REASON_PREDICTED: Reason = Reason(3);
/// the driver would make the caller wait
pub const FERRY_REASON_NO_WAIT: Reason = Reason(4);
/// the flags force it
pub const FERRY_REASON_FORCED: Reason = Reason(5);
/// FERRY_COPY_URGENT
pub const FERRY_REASON_URGENT: Reason = Reason(6);
/// FERRY_COPY_SOURCE_READ: the source is read in the call
pub const FERRY_REASON_SOURCE_READ: Reason = Reason(7);
/// FERRY_COPY_MULTILINK
pub const FERRY_REASON_MULTILINK: Reason = Reason(8);

choice!(Profile, i32, "`FERRY_PROFILE_*`");
pub const FERRY_PROFILE_NONE: Profile = Profile(0);
/// measured on other devices of this kind
pub const FERRY_PROFILE_BUILT_IN: Profile = Profile(1);
/// of no device: ferry_device_calibrate measures this one
pub const FERRY_PROFILE_CAUTIOUS: Profile = Profile(2);
/// by a calibration, now or before ferry_profile_load
pub const FERRY_PROFILE_MEASURED: Profile = Profile(3);

choice!(Blocks, i32, "`FERRY_BLOCKS_*`");
/// nothing: the call enqueues and returns
pub const FERRY_BLOCKS_NO: Blocks = Blocks(0);
/// until pageable source memory has been read, and for earlier work on the stream
pub const FERRY_BLOCKS_UNTIL_STAGED: Blocks = Blocks(1);
/// until the copy is complete
pub const FERRY_BLOCKS_UNTIL_DONE: Blocks = Blocks(2);

choice!(Driver, i32, "`FERRY_DRIVER_*`");
/// the default: the NVIDIA driver or an error
pub const FERRY_DRIVER_CUDA: Driver = Driver(0);
/// the NVIDIA driver if it has a usable device, else the software driver
pub const FERRY_DRIVER_AUTO: Driver = Driver(1);
/// the software driver
pub const FERRY_DRIVER_SOFTWARE: Driver = Driver(2);

choice!(Checks, i32, "`FERRY_CHECKS_*`");
/// arithmetic, pitches, array bounds and formats, overlap; resolves ANY
pub const FERRY_CHECKS_BASIC: Checks = Checks(0);
/// also each address: its kind and device as stated, inside its allocation
pub const FERRY_CHECKS_FULL: Checks = Checks(1);

choice!(Kernels, i32, "`FERRY_KERNELS_*`");
/// in each context, with its first copy by a kernel
pub const FERRY_KERNELS_LAZY: Kernels = Kernels(0);
/// in ferry_open, which makes all primary contexts; LAZY in other contexts
pub const FERRY_KERNELS_AT_OPEN: Kernels = Kernels(1);
/// never: the driver makes every copy
pub const FERRY_KERNELS_NONE: Kernels = Kernels(2);

choice!(Staging, i32, "`FERRY_STAGING_*`");
/// for each device with its first such copy
pub const FERRY_STAGING_LAZY: Staging = Staging(0);
/// in ferry_open, for all devices; loads kernels like FERRY_KERNELS_AT_OPEN
pub const FERRY_STAGING_AT_OPEN: Staging = Staging(1);
/// never: the driver makes such copies, and they block
pub const FERRY_STAGING_NONE: Staging = Staging(2);

choice!(Numa, i32, "`FERRY_NUMA_*`");
/// where the system puts it
pub const FERRY_NUMA_ANY: Numa = Numa(0);
/// near `device`: on its node in ferry_device_info; as ANY if that is not known
pub const FERRY_NUMA_DEVICE: Numa = Numa(1);
/// on node number `numa_node`
pub const FERRY_NUMA_NODE: Numa = Numa(2);

pub const FERRY_PRIORITY_OF_PROCESS: i32 = 20;

choice!(SoftwareLinks, i32, "`FERRY_SOFTWARE_LINKS_*`");
/// as the software driver runs already, or else ALL
pub const FERRY_SOFTWARE_LINKS_DEFAULT: SoftwareLinks = SoftwareLinks(0);
/// every pair
pub const FERRY_SOFTWARE_LINKS_ALL: SoftwareLinks = SoftwareLinks(1);
/// no pair
pub const FERRY_SOFTWARE_LINKS_NONE: SoftwareLinks = SoftwareLinks(2);
/// devices 2k and 2k + 1
pub const FERRY_SOFTWARE_LINKS_PAIRS: SoftwareLinks = SoftwareLinks(3);
/// every pair, but its access moves no bytes
pub const FERRY_SOFTWARE_LINKS_LOSSY: SoftwareLinks = SoftwareLinks(4);

choice!(LogLevel, i32, "`FERRY_LOG_*`");
pub const FERRY_LOG_ERROR: LogLevel = LogLevel(0);
pub const FERRY_LOG_WARNING: LogLevel = LogLevel(1);
pub const FERRY_LOG_INFO: LogLevel = LogLevel(2);

choice!(Trace, i32, "`FERRY_TRACE_*`");
/// a single copy
pub const FERRY_TRACE_COPY: Trace = Trace(1);
/// a batch of copies or pieces
pub const FERRY_TRACE_BATCH: Trace = Trace(2);
/// the launch of a prepared batch; bytes and count are 0
pub const FERRY_TRACE_PREPARED: Trace = Trace(3);
pub const FERRY_TRACE_FILL: Trace = Trace(4);

flags!(PhaseFlags, u32, "`FERRY_PHASE_*`");
/// the call begins
pub const FERRY_PHASE_BEGIN: PhaseFlags = PhaseFlags(1);
/// the call returns
pub const FERRY_PHASE_RETURN: PhaseFlags = PhaseFlags(2);
/// the stream has passed the work of a call that did not wait for it
pub const FERRY_PHASE_DONE: PhaseFlags = PhaseFlags(4);

choice!(CopyOverlap, i32, "`FERRY_COPY_OVERLAP_*`");
/// no engine: copies and kernels take turns
pub const FERRY_COPY_OVERLAP_NONE: CopyOverlap = CopyOverlap(0);
/// one engine: a copy in one direction at a time runs beside kernels
pub const FERRY_COPY_OVERLAP_ONE_WAY: CopyOverlap = CopyOverlap(1);
/// two: one copy in each direction runs beside kernels
pub const FERRY_COPY_OVERLAP_BOTH_WAYS: CopyOverlap = CopyOverlap(2);
/// more: also copies to peers or within the device beside those
pub const FERRY_COPY_OVERLAP_BOTH_AND_MORE: CopyOverlap = CopyOverlap(3);

flags!(HandleTypes, u32, "`FERRY_HANDLE_*`");
pub const FERRY_HANDLE_POSIX_FD: HandleTypes = HandleTypes(1);
pub const FERRY_HANDLE_WIN32: HandleTypes = HandleTypes(2);
pub const FERRY_HANDLE_WIN32_KMT: HandleTypes = HandleTypes(4);
pub const FERRY_HANDLE_FABRIC: HandleTypes = HandleTypes(8);

pub const FERRY_STREAM_LEGACY: i32 = 1;
pub const FERRY_STREAM_PER_THREAD: i32 = 2;

flags!(StreamFlags, u32, "`FERRY_STREAM_NON_BLOCKING`");
/// not ordered with the legacy default stream (CU_STREAM_NON_BLOCKING)
pub const FERRY_STREAM_NON_BLOCKING: StreamFlags = StreamFlags(1);

flags!(EventFlags, u32, "`FERRY_EVENT_*`");
/// ferry_event_synchronize sleeps instead of spinning
pub const FERRY_EVENT_BLOCKING_SYNC: EventFlags = EventFlags(1);
/// cheaper; ferry_event_elapsed_time does not take it
pub const FERRY_EVENT_DISABLE_TIMING: EventFlags = EventFlags(2);
/// for ferry_ipc_export_event; needs FERRY_EVENT_DISABLE_TIMING as well
pub const FERRY_EVENT_INTERPROCESS: EventFlags = EventFlags(4);

flags!(HostFlags, u32, "`FERRY_HOST_*`");
/// fast to write, very slow to read for the CPU
pub const FERRY_HOST_WRITE_COMBINED: HostFlags = HostFlags(1);
/// by cuMemHostAlloc: slower to allocate, and cuMemFreeHost takes it too
pub const FERRY_HOST_BY_DRIVER: HostFlags = HostFlags(2);
/// not pinned for other contexts; with unified addressing pinned anyway
pub const FERRY_HOST_NOT_PORTABLE: HostFlags = HostFlags(4);
/// not mapped into devices; with unified addressing mapped anyway
pub const FERRY_HOST_NOT_MAPPED: HostFlags = HostFlags(8);
/// a smaller block instead of an error: see min_size
pub const FERRY_HOST_ALLOW_SMALLER: HostFlags = HostFlags(16);
/// a pageable block instead of an error
pub const FERRY_HOST_ALLOW_PAGEABLE: HostFlags = HostFlags(32);
/// the children of a fork share it; usually small pages before Linux 6.1
pub const FERRY_HOST_SHARED: HostFlags = HostFlags(64);

choice!(HostFrom, i32, "`FERRY_HOST_FROM_*`");
/// mapped by ferry, registered with the driver
pub const FERRY_HOST_FROM_MAPPING: HostFrom = HostFrom(1);
/// cuMemHostAlloc
pub const FERRY_HOST_FROM_DRIVER: HostFrom = HostFrom(2);
/// mapped by ferry and pageable: FERRY_HOST_ALLOW_PAGEABLE
pub const FERRY_HOST_FROM_SYSTEM: HostFrom = HostFrom(3);

flags!(RegisterFlags, u32, "`FERRY_REGISTER_*`");
/// the devices only read it; for anonymous memory that the process may only read
pub const FERRY_REGISTER_READ_ONLY: RegisterFlags = RegisterFlags(1);

choice!(MemoryKind, i32, "`FERRY_MEMORY_*`");
/// in ferry_explanation only: a fill has no source
pub const FERRY_MEMORY_NONE: MemoryKind = MemoryKind(-1);
/// ordinary host memory or none at all; a host pool's without access to the pool
pub const FERRY_MEMORY_PAGEABLE: MemoryKind = MemoryKind(0);
/// allocated pinned, or registered
pub const FERRY_MEMORY_PINNED: MemoryKind = MemoryKind(1);
pub const FERRY_MEMORY_DEVICE: MemoryKind = MemoryKind(2);
pub const FERRY_MEMORY_MANAGED: MemoryKind = MemoryKind(3);
/// in ferry_explanation only
pub const FERRY_MEMORY_ARRAY: MemoryKind = MemoryKind(4);

choice!(Format, i32, "`FERRY_FORMAT_*`");
pub const FERRY_FORMAT_UINT8: Format = Format(1);
pub const FERRY_FORMAT_UINT16: Format = Format(2);
pub const FERRY_FORMAT_UINT32: Format = Format(3);
pub const FERRY_FORMAT_SINT8: Format = Format(8);
pub const FERRY_FORMAT_SINT16: Format = Format(9);
pub const FERRY_FORMAT_SINT32: Format = Format(10);
pub const FERRY_FORMAT_HALF: Format = Format(16);
pub const FERRY_FORMAT_FLOAT: Format = Format(32);
pub const FERRY_FORMAT_UNORM_INT8X1: Format = Format(192);
pub const FERRY_FORMAT_UNORM_INT8X2: Format = Format(193);
pub const FERRY_FORMAT_UNORM_INT8X4: Format = Format(194);
pub const FERRY_FORMAT_UNORM_INT16X1: Format = Format(195);
pub const FERRY_FORMAT_UNORM_INT16X2: Format = Format(196);
pub const FERRY_FORMAT_UNORM_INT16X4: Format = Format(197);
pub const FERRY_FORMAT_SNORM_INT8X1: Format = Format(198);
pub const FERRY_FORMAT_SNORM_INT8X2: Format = Format(199);
pub const FERRY_FORMAT_SNORM_INT8X4: Format = Format(200);
pub const FERRY_FORMAT_SNORM_INT16X1: Format = Format(201);
pub const FERRY_FORMAT_SNORM_INT16X2: Format = Format(202);
pub const FERRY_FORMAT_SNORM_INT16X4: Format = Format(203);
/// 4 channels in 32 bits
pub const FERRY_FORMAT_UNORM_INT_101010_2: Format = Format(80);
pub const FERRY_FORMAT_BC1_UNORM: Format = Format(145);
pub const FERRY_FORMAT_BC1_UNORM_SRGB: Format = Format(146);
pub const FERRY_FORMAT_BC2_UNORM: Format = Format(147);
pub const FERRY_FORMAT_BC2_UNORM_SRGB: Format = Format(148);
pub const FERRY_FORMAT_BC3_UNORM: Format = Format(149);
pub const FERRY_FORMAT_BC3_UNORM_SRGB: Format = Format(150);
pub const FERRY_FORMAT_BC4_UNORM: Format = Format(151);
pub const FERRY_FORMAT_BC4_SNORM: Format = Format(152);
pub const FERRY_FORMAT_BC5_UNORM: Format = Format(153);
pub const FERRY_FORMAT_BC5_SNORM: Format = Format(154);
pub const FERRY_FORMAT_BC6H_UF16: Format = Format(155);
pub const FERRY_FORMAT_BC6H_SF16: Format = Format(156);
pub const FERRY_FORMAT_BC7_UNORM: Format = Format(157);
pub const FERRY_FORMAT_BC7_UNORM_SRGB: Format = Format(158);
/// planar 4:2:0, 8 bits
pub const FERRY_FORMAT_NV12: Format = Format(176);
/// planar 4:2:0, 10 bits
pub const FERRY_FORMAT_P010: Format = Format(159);
/// planar 4:2:0, 16 bits
pub const FERRY_FORMAT_P016: Format = Format(161);
/// planar 4:2:2, 8 bits
pub const FERRY_FORMAT_NV16: Format = Format(162);
/// planar 4:2:2, 10 bits
pub const FERRY_FORMAT_P210: Format = Format(163);
/// planar 4:2:2, 16 bits
pub const FERRY_FORMAT_P216: Format = Format(164);
/// packed 4:2:2, 8 bits; 4 channels
pub const FERRY_FORMAT_YUY2: Format = Format(165);
/// packed 4:2:2, 10 bits; 2 channels
pub const FERRY_FORMAT_Y210: Format = Format(166);
/// packed 4:2:2, 16 bits; 2 channels
pub const FERRY_FORMAT_Y216: Format = Format(167);
/// packed 4:4:4, 8 bits; 4 channels
pub const FERRY_FORMAT_AYUV: Format = Format(168);
/// packed 4:4:4, 10 bits; 1 channel
pub const FERRY_FORMAT_Y410: Format = Format(169);
/// packed 4:4:4, 12 bits; 4 channels
pub const FERRY_FORMAT_Y416: Format = Format(177);
pub const FERRY_FORMAT_Y444_PLANAR8: Format = Format(178);
pub const FERRY_FORMAT_Y444_PLANAR10: Format = Format(179);
pub const FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR: Format = Format(180);
pub const FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR: Format = Format(181);

flags!(ArrayFlags, u32, "`FERRY_ARRAY_*`");
/// depth counts layers (CUDA_ARRAY3D_LAYERED)
pub const FERRY_ARRAY_LAYERED: ArrayFlags = ArrayFlags(1);
/// surfaces may be made of it (CUDA_ARRAY3D_SURFACE_LDST)
pub const FERRY_ARRAY_SURFACE: ArrayFlags = ArrayFlags(2);
/// square, six faces deep; layered: a multiple of six (CUDA_ARRAY3D_CUBEMAP)
pub const FERRY_ARRAY_CUBEMAP: ArrayFlags = ArrayFlags(4);
/// 2D only (CUDA_ARRAY3D_TEXTURE_GATHER)
pub const FERRY_ARRAY_TEXTURE_GATHER: ArrayFlags = ArrayFlags(8);
/// only of imported images (CUDA_ARRAY3D_COLOR_ATTACHMENT)
pub const FERRY_ARRAY_COLOR_ATTACHMENT: ArrayFlags = ArrayFlags(32);
/// for the video formats (CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)
pub const FERRY_ARRAY_VIDEO: ArrayFlags = ArrayFlags(256);

choice!(Location, i32, "`FERRY_LOCATION_*`");
/// on a device
pub const FERRY_LOCATION_DEVICE: Location = Location(0);
/// in host memory
pub const FERRY_LOCATION_HOST: Location = Location(1);
/// in host memory on a NUMA node
pub const FERRY_LOCATION_HOST_NUMA: Location = Location(2);

choice!(Access, i32, "`FERRY_ACCESS_*`");
pub const FERRY_ACCESS_NONE: Access = Access(0);
pub const FERRY_ACCESS_READ_WRITE: Access = Access(3);

pub const FERRY_IPC_HANDLE_SIZE: i32 = 256;

choice!(IpcKind, i32, "`FERRY_IPC_*`");
/// memory of ferry_device_alloc, cuMemAlloc or cudaMalloc
pub const FERRY_IPC_MEMORY: IpcKind = IpcKind(1);
/// a pool
pub const FERRY_IPC_POOL: IpcKind = IpcKind(2);
/// an allocation from a pool
pub const FERRY_IPC_POOL_MEMORY: IpcKind = IpcKind(3);
/// an event
pub const FERRY_IPC_EVENT: IpcKind = IpcKind(4);

choice!(Probe, i32, "`FERRY_PROBE_*`");
pub const FERRY_PROBE_NOT_RUN: Probe = Probe(0);
pub const FERRY_PROBE_PASSED: Probe = Probe(1);
/// the driver reports access, but bytes do not arrive: the pair counts as having none
pub const FERRY_PROBE_FAILED: Probe = Probe(2);

choice!(ExternalType, i32, "`FERRY_EXTERNAL_*`");
/// Vulkan on Linux: a file descriptor
pub const FERRY_EXTERNAL_OPAQUE_FD: ExternalType = ExternalType(1);
/// Vulkan on Windows: an NT handle, or a name
pub const FERRY_EXTERNAL_OPAQUE_WIN32: ExternalType = ExternalType(2);
/// the same: a KMT handle
pub const FERRY_EXTERNAL_OPAQUE_WIN32_KMT: ExternalType = ExternalType(3);
/// an NT handle, or a name
pub const FERRY_EXTERNAL_D3D12_HEAP: ExternalType = ExternalType(4);
/// the same; always dedicated, the flag need not be set
pub const FERRY_EXTERNAL_D3D12_RESOURCE: ExternalType = ExternalType(5);
/// the same
pub const FERRY_EXTERNAL_D3D11_RESOURCE: ExternalType = ExternalType(6);
/// a KMT handle; else the same
pub const FERRY_EXTERNAL_D3D11_RESOURCE_KMT: ExternalType = ExternalType(7);

flags!(ExternalFlags, u32, "`FERRY_EXTERNAL_DEDICATED`");
pub const FERRY_EXTERNAL_DEDICATED: ExternalFlags = ExternalFlags(1);

choice!(Semaphore, i32, "`FERRY_SEMAPHORE_*`");
/// a binary semaphore of Vulkan on Linux: a file descriptor
pub const FERRY_SEMAPHORE_OPAQUE_FD: Semaphore = Semaphore(1);
/// the same on Windows: an NT handle, or a name
pub const FERRY_SEMAPHORE_OPAQUE_WIN32: Semaphore = Semaphore(2);
/// the same: a KMT handle
pub const FERRY_SEMAPHORE_OPAQUE_WIN32_KMT: Semaphore = Semaphore(3);
pub const FERRY_SEMAPHORE_D3D12_FENCE: Semaphore = Semaphore(4);
pub const FERRY_SEMAPHORE_D3D11_FENCE: Semaphore = Semaphore(5);
pub const FERRY_SEMAPHORE_D3D11_KEYED_MUTEX: Semaphore = Semaphore(7);
pub const FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT: Semaphore = Semaphore(8);
/// a timeline semaphore of Vulkan on Linux: a file descriptor
pub const FERRY_SEMAPHORE_TIMELINE_FD: Semaphore = Semaphore(9);
/// the same on Windows: an NT handle, or a name
pub const FERRY_SEMAPHORE_TIMELINE_WIN32: Semaphore = Semaphore(10);

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct ferry_instance {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct ferry_pinned_pool {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct ferry_prepared {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct ferry_ticket {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUarray_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUctx_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUevent_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUextMemory_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUextSemaphore_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUmemPoolHandle_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUmipmappedArray_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Opaque: only pointers to it are passed.
#[repr(C)]
pub struct CUstream_st {
    bytes: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Details of an error. Set struct_size before the call: 0 counts as 40, the size of the first version, and becomes
/// 40; 1 to 7 is not filled. Every call that takes a ferry_error_info fills it; after a success all other fields
/// are 0.
///
/// `value` is the offending value and `limit` the bound that it missed, in the field's unit. Both are 0 where no
/// number applies; for a driver's status side and field are 0 too.
/// PITCH  value: the pitch or slice height given; limit: the allowed minimum or maximum
/// OUT_OF_BOUNDS  of an array, field X, Y or Z, value: one past the last byte, row or slice of the box; limit: the
/// array's width in bytes, its height or its depth. Of memory, field ADDRESS, value: the address one
/// past the last byte; limit: the end of the allocation. If the box begins before the allocation,
/// the two are the beginnings. The side is that of the copy; calls other than copies and fills
/// have none, and may name SIZE. ferry_external_memory_import has OPTIONS and no limit; the numbers
/// of ferry_external_memory_get_address and ferry_external_memory_get_array count from the memory's
/// beginning, or from the offset given. A piece of an updatable batch has no numbers
/// ARRAY_FORMAT  value: the x, the width or the destination's element size; limit: the element size required
/// DEVICE  value: the ordinal given; limit: the number of devices, the memory's device, or for a fill the
/// stream's device
/// INVALID_ARGUMENT  value: the number given; limit: the allowed maximum, minimum or unit
/// OVERFLOW  value: the offset, extent or slice height given; limit: the maximum that fits 64 bits
/// FLAGS  value: the flags given
/// ALIGNMENT  value: the address, pitch or width, or the shift of a prepared piece's destination; limit: the
/// divisor
/// OVERLAP  between two copies of a batch, value: the later copy's index; limit: the other's
/// UNSUPPORTED  value: the pattern's size, depth or layer given; limit: the maximum, or the layer, that works
/// DRIVER_TOO_OLD  value: the driver's version; limit: the oldest supported version
/// ROUTE  value: FERRY_OBSTACLE_*
/// PROFILE  for a line, value: its number; limit: the number of lines
/// HANDLE  for a handle of any other version, value: its version; limit: this library's. For OS_HANDLE,
/// value: the descriptor or handle; limit: the driver's result, or 0
/// ABI_MISMATCH  value: the size given; limit: this library's
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_error_info {
    pub struct_size: u32,
    /// as returned
    pub status: Status,
    /// FERRY_SIDE_*
    pub side: Side,
    /// FERRY_FIELD_*
    pub field: Field,
    /// of the copy or piece, if the call takes many and side is not FERRY_SIDE_NONE; else 0
    pub index: u64,
    pub limit: u64,
    pub value: u64,
}

impl Default for ferry_error_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One end of a copy. The bytes begin x bytes, y rows and z slices after the address or the array's first element.
///
/// row_pitch  Bytes from one row to the next, at least x + width. 0: rows are tight, width bytes apart; x must then
/// be 0 unless the copy is one row of the first slice. Not read for arrays.
/// slice_height  Rows from one slice to the next, at least y + height: the allocation's height, not the copy's. 0:
/// slices are tight, height rows apart; y must then be 0 unless the copy is in the first slice. Not read
/// for arrays.
/// address  Not read for ARRAY; `array` is read only for ARRAY.
/// device  Not read for ANY and HOST. Managed memory may be HOST, ANY, or DEVICE on any device. For an array that
/// the instance made, a level or a plane of it, another device is refused (FERRY_ERROR_DEVICE). The
/// device of any other array is not checked, because the driver does not report it.
/// array  Block-compressed arrays count rows and bytes in blocks of 4 x 4 texels. A planar array takes no copy
/// (the driver's -1001); its planes do.
///
/// Only full checks refuse a wrong address, and pageable memory that the process cannot read, or cannot write at a
/// destination. They test the process's mappings during the call, but not whether a file system has room for a
/// sparse file. With basic checks the driver may refuse such memory or the process may crash, as with the driver's
/// own calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_place {
    /// FERRY_KIND_*
    pub kind: Kind,
    /// ordinal, or FERRY_DEVICE_UNKNOWN
    pub device: i32,
    pub address: u64,
    pub array: *mut CUarray_st,
    pub row_pitch: u64,
    pub slice_height: u64,
    pub x: u64,
    pub y: u64,
    pub z: u64,
    /// must be zero
    pub reserved: [u64; 4],
}

impl Default for ferry_place {
    /// All zero.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let value: Self = unsafe { std::mem::zeroed() };
        value
    }
}

/// One copy. A zeroed descriptor with two addresses and a width is a 1D copy: height 0 and depth 0 count as 1
/// (CUDA's own calls copy nothing then). Width 0 copies nothing and succeeds if kinds, devices, flags and reserved
/// fields are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_copy_desc {
    pub source: ferry_place,
    pub destination: ferry_place,
    /// bytes
    pub width: u64,
    /// rows
    pub height: u64,
    /// slices
    pub depth: u64,
    /// FERRY_COPY_*; 0: the instance's (ferry_options.copy_flags)
    pub flags: CopyFlags,
    pub reserved0: u32,
    /// must be zero
    pub reserved: [u64; 4],
}

impl Default for ferry_copy_desc {
    /// All zero.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let value: Self = unsafe { std::mem::zeroed() };
        value
    }
}

/// The progress of a copy or a stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_ticket_info {
    pub struct_size: u32,
    /// 1: the work has ended, with success or not
    pub done: i32,
    /// of the work: 0 while in flight and after success; else what ended it
    pub status: Status,
    /// FERRY_ROUTE_* that the copy took, see ferry_copy_explain_async; 0 for a stream
    pub route: Route,
    /// bytes that have arrived; only staged copies count before the end; 0 for a stream
    pub bytes_done: u64,
    /// of the copy; 0 for a stream
    pub bytes_total: u64,
}

impl Default for ferry_ticket_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One fill: a pattern of 1, 2, 4, 8 or 16 bytes, in memory order, repeated over a box of device, managed or pinned
/// host memory. The address with its origin and the width must be multiples of the pattern's size, and so must the
/// row pitch if there is more than one row. A row pitch other than 0 is at least x + width. Height 0 and depth 0
/// count as 1. Width 0 fills nothing and succeeds if kind, device, pattern_size, flags and reserved fields are
/// valid.
///
/// The driver itself fills patterns of up to 4 bytes over equally spaced rows. Two kinds of fill need a kernel of
/// ferry's: a pattern of 8 or 16 bytes that does not repeat every 4; and slices with gaps between them, unless the
/// rows within a slice are tight or a slice has one row. Such a fill is refused if no kernel can run or reach the
/// memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_fill_desc {
    pub destination: ferry_place,
    /// bytes
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    /// its first pattern_size bytes are read
    pub pattern: [u8; 16],
    /// 1, 2, 4, 8 or 16
    pub pattern_size: u32,
    /// FERRY_COPY_*, as of a copy; 0: the instance's (ferry_options.copy_flags)
    pub flags: CopyFlags,
    /// must be zero
    pub reserved: [u64; 6],
}

impl Default for ferry_fill_desc {
    /// All zero.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let value: Self = unsafe { std::mem::zeroed() };
        value
    }
}

/// What a copy or a fill would do. For a fill, predicted times are 0, and of the obstacles only kernel_obstacle
/// counts, which is not looked for where the reason is LINE.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_explanation {
    pub struct_size: u32,
    /// FERRY_ROUTE_*
    pub route: Route,
    /// FERRY_BLOCKS_*
    pub blocks: Blocks,
    /// 1: ferry itself waits: after the driver's call, if the call returns before the copy is complete; before it,
    /// if the call would read a pageable source too early
    pub synchronises: i32,
    /// such as "cuMemcpy3DAsync" or "cuLaunchKernel"; empty for FERRY_ROUTE_NONE
    pub driver_call: [c_char; 32],
    /// the device of the context that the copy runs in; -1 for FERRY_ROUTE_NONE
    pub context_device: i32,
    /// FERRY_MEMORY_*; 0 and without meaning for FERRY_ROUTE_NONE; NONE for a fill
    pub source_memory: MemoryKind,
    /// where device or array memory lies; -1 otherwise
    pub source_device: i32,
    /// FERRY_MEMORY_*
    pub destination_memory: MemoryKind,
    pub destination_device: i32,
    /// of the driver: 1, or more where host memory is registered in pieces or in part; 0 for none
    pub calls: u32,
    /// the extent as the call gets it: bytes, rows, slices; tight dimensions have been folded
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    /// predicted for the driver route, from the call until the bytes are there; 0: not known
    pub driver_ns: u64,
    /// likewise for a kernel, which is taken where it wins by 5 %, see FERRY_COPY_*
    pub kernel_ns: u64,
    /// FERRY_OBSTACLE_*: why a kernel does not take it, and nothing was predicted for one
    pub kernel_obstacle: Obstacle,
    /// the maximum number of SMs that the route keeps busy; 0 for the driver's
    pub max_sms: u32,
    /// as driver_ns, for FERRY_ROUTE_STAGED
    pub staged_ns: u64,
    /// FERRY_OBSTACLE_*: why that cannot take it
    pub staged_obstacle: Obstacle,
    /// the maximum number of CPU threads that the route keeps busy, a waiting caller included
    pub threads: u32,
    /// in staged_ns: how late staged copies lately were because other programs kept the processors busy or other
    /// kernels the device; 0: not
    pub staging_delay_ns: u64,
    /// as driver_ns, for FERRY_ROUTE_RELAYED
    pub relay_ns: u64,
    /// FERRY_OBSTACLE_*: why that cannot take it, or need not. Copies below 2 MiB are taken only with
    /// FERRY_COPY_BY_RELAY; whether they could be is not looked at without
    pub relay_obstacle: Obstacle,
    /// for FERRY_ROUTE_MULTILINK, and staged over several: the host links taken; else 0
    pub links: u32,
    /// as driver_ns, for FERRY_ROUTE_MULTILINK: by measured or equal links
    pub multilink_ns: u64,
    /// FERRY_OBSTACLE_*: why that cannot take it; FORBIDDEN: the flags do not ask for it
    pub multilink_obstacle: Obstacle,
    /// FERRY_REASON_*: why the copy, or one of its parts, takes this route
    pub reason: Reason,
    /// FERRY_PROFILE_*: where the predicted times come from
    pub profile: Profile,
    /// with several links: the maximum number of SMs on each helper, and max_sms on the device; else 0
    pub helper_sms: u32,
    /// for FERRY_ROUTE_MULTILINK: of the copy, what the device's copy engine takes. Kernels on all the devices
    /// claim the rest chunk by chunk
    pub engine_bytes: u64,
}

impl Default for ferry_explanation {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The copies of a batch that go one way. Copies of width 0 do not count, merged neighbours count as one, and a
/// copy that is cut at the end of an allocation or registration counts as its parts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_batch_share {
    pub copies: u64,
    pub bytes: u64,
    /// the sum for these copies, without earlier work on the stream; 0: not known for all
    pub predicted_ns: u64,
}

impl Default for ferry_batch_share {
    /// All zero.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let value: Self = unsafe { std::mem::zeroed() };
        value
    }
}

/// What ferry would do with a batch. Set struct_size first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_batch_explanation {
    pub struct_size: u32,
    /// the device of the context that the batch runs in; -1 if nothing is to be copied
    pub context_device: i32,
    /// one by one, by any route: ferry_copy_explain_async tells which
    pub singles: ferry_batch_share,
    /// by cuMemcpyBatchAsync and cuMemcpy3DBatchAsync
    pub batch_calls: ferry_batch_share,
    /// by kernels that copy many in one launch
    pub kernels: ferry_batch_share,
    /// together, between pageable memory and the device; rows of boxes count each
    pub staged: ferry_batch_share,
    /// the maximum number of SMs that a launch of `kernels` or `staged` keeps busy
    pub max_sms: u32,
    /// the maximum number of CPU threads that `staged` keeps busy, a waiting caller included
    pub threads: u32,
    /// how late staged copies lately were, as far as it is in staged.predicted_ns
    pub staging_delay_ns: u64,
    /// lines with one source that go to several devices; bytes: each source once
    pub broadcasts: ferry_batch_share,
}

impl Default for ferry_batch_explanation {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One call that copies or fills, for ferry_options.trace. Times are nanoseconds of the system's monotonic clock
/// (CLOCK_MONOTONIC).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_trace_event {
    pub struct_size: u32,
    /// FERRY_TRACE_*
    pub kind: Trace,
    /// of the call, from 1: the same in all of its events
    pub id: u64,
    /// when the call began
    pub begin_ns: u64,
    /// when it returned; 0: not yet
    pub returned_ns: u64,
    /// when the stream was seen to have passed the work, or the call had waited for it; 0: not yet
    pub done_ns: u64,
    /// that were to be copied or filled
    pub bytes: u64,
    /// of copies or fills
    pub count: u64,
    pub stream: *mut CUstream_st,
    /// bits 1 \<\< FERRY_ROUTE_*: those taken; 0 if nothing was enqueued
    pub routes: u32,
    /// of the call; in FERRY_PHASE_DONE of its work
    pub status: Status,
    /// of the context that it ran in; -1 if nothing was enqueued
    pub device: i32,
    /// 1: the call waits for its work
    pub is_synchronous: i32,
    /// FERRY_PHASE_*
    pub phase: PhaseFlags,
    pub reserved: u32,
}

impl Default for ferry_trace_event {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// How to open an instance. All zero but struct_size means defaults.
///
/// get_proc  The program's own driver loader, with cuGetProcAddress's meaning: returns the newest variant of `name`
/// that is not newer than `version` (12000 is CUDA 12.0), in its legacy-stream form, or NULL. A plain dlsym
/// does not do: it finds first versions. Called during ferry_open and ferry_instance_get_proc, on the
/// calling thread; the results must stay valid until ferry_close. ferry then loads no library. Not used
/// with FERRY_DRIVER_SOFTWARE.
/// allocate  Host memory for ferry's own structures; alignment is a power of two; may return NULL. `deallocate`
/// receives the size. Set both or neither. Copies call it only on first need for staging, also on ferry's
/// threads; for a ticket if no released one is free; and for a batch that needs more room than earlier ones
/// or runs beside others. The software driver does not use it. A graph keeps 16 bytes for each staged copy
/// in it; they come from malloc, because the graph may outlive the instance.
/// register_chunk  The largest piece registered with the driver at once, a multiple of 4096. Drivers refuse pieces
/// of
/// 512 GiB. ferry_host_register splits larger memory; ferry_host_alloc leaves it to the driver.
/// copy_flags  Flags for every copy and fill whose own flags are 0, and for the short forms and pieces, which have
/// none.
/// kernels  When ferry's kernels are loaded. Loading takes about a millisecond (H200) for the instance and a third
/// of that for each context, and waits for running work in the context. With LAZY the first copy by a
/// kernel pays and waits, as the first launch of any kernel may. Use AT_OPEN in a program that holds
/// streams back until it has enqueued more.
/// log  `level`: FERRY_LOG_*. `message` is one line without its end, valid during the callback. ferry writes
/// nowhere else.
/// staging  When staging threads start and staging buffers are pinned, for copies between pageable memory and
/// devices. This takes some milliseconds; with LAZY the first such copy pays. A program whose calls must
/// never wait uses AT_OPEN or calls ferry_staging_prepare. FERRY_KERNELS_NONE
/// excludes staging.
/// staging_threads  The number of worker threads of the instance, for all its devices together, 1 to 64. 0: 8 for
/// each
/// device that has staged copies, but at most half the processors available to the program, and at least 2.
/// They sleep when idle and end in ferry_close. One more thread, the watchdog, starts spare workers while
/// workers are stuck in page faults that do not resolve. Workers and spares are 64 at most.
/// staging_cpus  The processors for the workers: staging_cpu_count numbers, read before ferry_open returns. Or all
/// processors of a node: staging_numa FERRY_NUMA_NODE and staging_numa_node. Not both, and a list needs its
/// count. Default: those of the program's main thread at ferry_open, whichever thread copies first; of
/// these, on a machine with several NUMA nodes, the default threads of a device (staging_threads 0) use
/// those of the device's node if there are at least two for each thread. A staging buffer always lies near
/// its device.
/// staging_priority  The workers' niceness, -20 to 19; 0: -20; FERRY_PRIORITY_OF_PROCESS: the main thread's. If the
/// system refuses it, they get the nearest that it grants, at most the main thread's. Their scheduling
/// class is the default one (SCHED_OTHER), with the shortest slices where the system has them (Linux 6.12).
/// staging_bytes  The size of each device's staging buffer, 4096 to 1 GiB; below 8192 it is 8192, because the
/// buffer has
/// at least two slots. It is smaller if less can be pinned. It has this size for each of up to four links
/// that copies of the device take: FERRY_COPY_MULTILINK, and broadcasts of pageable memory.
/// deferred_bytes  The maximum that deferred frees (ferry_array_destroy_async and similar calls) keep on each
/// device,
/// and in the host's memory. Above it, an allocation of ferry's there first frees what streams have passed,
/// which waits for running work. 0: a sixteenth of the device's memory, for the host's that of device 0.
/// UINT64_MAX: no limit until an allocation finds no memory.
/// submit  Uses the program's own threads; ferry starts only a watchdog. Each call of submit asks the program to
/// run work(argument) once and soon, on any thread, even while the rest of the program waits for a stream.
/// Until then the copy and the work behind it on its stream stand still. Returns 1 if work will be called,
/// else 0; ferry then starts one thread of its own, which stays until ferry_close. The driver calls
/// submit from a host function, so neither submit nor work may call the driver or wait for a thread that
/// does. work calls no driver and returns when nothing is left to do. submit may run work itself, as a full
/// thread pool does: the work then returns at once, and ferry starts one thread of its own, as if submit
/// had returned 0. submit must not wait for work that another thread runs. A copy asks for at most
/// staging_threads threads. The watchdog starts a copying thread in two cases: all threads that came are
/// stuck in page faults that do not resolve, or none came while a thread waits for a ticket. That thread
/// runs for as long as it is needed.
/// software_links  With every value, copies between contexts without peer access arrive. LOSSY imitates machines
/// that
/// report access and move nothing: ferry_peer_probe and ferry_peer_enable fail with
/// FERRY_ERROR_PEER_ACCESS. If the program enables access itself, copies between the two contexts' memory
/// write nothing and report no error. Fills and kernels then do not change a peer's memory, and kernels
/// read bytes of 0xff from it.
/// trace  Called for every copy, batch and fill, also one that fails: when the call begins, when it returns, and
/// for one on a stream once the stream has passed, on a thread of ferry's. That thread looks every 0.05 ms;
/// the stream does not wait for it. There is no third event if the call failed, did nothing, or became part
/// of a graph, if the stream has not passed the work at ferry_close, or if the context ended without
/// ferry_context_destroy. `event` is valid during the callback. The third event costs a call on a stream an
/// event of the driver's, some microseconds.
/// trace_phases  The events wanted: FERRY_PHASE_*, joined by |. 0: all.
///
/// Callbacks may run on several threads at once. get_proc and log run inside calls of this instance, also
/// ferry_open and ferry_close, on the calling thread; allocate and deallocate also on ferry's own threads, and
/// trace on both. No callback may call ferry or throw.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_options {
    pub struct_size: u32,
    /// FERRY_DRIVER_*
    pub driver: Driver,
    /// FERRY_CHECKS_*
    pub checks: Checks,
    /// number of devices of the software driver, 1 to 64; 0 for the default, 2
    pub software_devices: u32,
    /// hardware queues of each, 1 to 128; 0 for the default, 8
    pub software_queues: u32,
    pub reserved: u32,
    /// bytes of memory of each; 0 for the default, 4 GiB; committed on first write
    pub software_memory: u64,
    pub get_proc: Option<unsafe extern "C" fn(*mut c_void, *const c_char, i32) -> *mut c_void>,
    pub get_proc_user: *mut c_void,
    pub allocate: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> *mut c_void>,
    pub deallocate: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, u64)>,
    pub allocate_user: *mut c_void,
    pub log: Option<unsafe extern "C" fn(*mut c_void, LogLevel, *const c_char)>,
    pub log_user: *mut c_void,
    /// bytes; 0 for the default, 256 GiB
    pub register_chunk: u64,
    /// FERRY_COPY_*, for copies and fills that have none of their own
    pub copy_flags: CopyFlags,
    /// FERRY_KERNELS_*
    pub kernels: Kernels,
    /// FERRY_STAGING_*
    pub staging: Staging,
    pub staging_threads: u32,
    /// `staging_cpu_count` elements; NULL: any
    pub staging_cpus: *const i32,
    pub staging_cpu_count: u32,
    /// a niceness or FERRY_PRIORITY_OF_PROCESS
    pub staging_priority: i32,
    /// FERRY_NUMA_ANY or FERRY_NUMA_NODE
    pub staging_numa: Numa,
    pub staging_numa_node: i32,
    /// 0: 16 MiB
    pub staging_bytes: u64,
    pub submit: Option<unsafe extern "C" fn(*mut c_void, Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void) -> i32>,
    pub submit_user: *mut c_void,
    /// 0: a sixteenth of the device's memory
    pub deferred_bytes: u64,
    /// FERRY_SOFTWARE_LINKS_*: which devices of the software driver have peer access
    pub software_links: SoftwareLinks,
    /// FERRY_PHASE_*; 0: all
    pub trace_phases: PhaseFlags,
    pub trace: Option<unsafe extern "C" fn(*mut c_void, *const ferry_trace_event)>,
    pub trace_user: *mut c_void,
}

impl Default for ferry_options {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What ferry_open found.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_report {
    pub struct_size: u32,
    /// FERRY_DRIVER_CUDA or FERRY_DRIVER_SOFTWARE: the driver in use
    pub driver: Driver,
    /// the CUDA version it supports: 1000 * major + 10 * minor
    pub driver_version: i32,
    pub device_count: i32,
    /// a status: of ferry_open with CUDA, which is why AUTO took the software driver; or 0
    pub fallback_reason: Status,
    /// optional entry points that this driver lacks; see ferry_instance_get_missing_entry_point
    pub missing_count: u32,
    /// FERRY_CHECKS_* in force
    pub checks: Checks,
    /// ordered pairs of devices between which a probe has lost data so far
    pub failed_peers: u32,
    /// FERRY_KERNELS_* in force; NONE also if the driver refused them or cannot run them
    pub kernels: Kernels,
    /// 1: the driver has loaded them
    pub kernels_loaded: i32,
    /// contexts in which they are loaded; 16 at most are counted
    pub kernel_contexts: u32,
    /// FERRY_STAGING_* in force; NONE also if kernels are. If the driver has refused them only when they were
    /// loaded, pageable memory up to 256 MiB is still staged, by copies on the stream.
    pub staging: Staging,
    /// the maximum that copies of a device keep busy; see ferry_staging_info for all
    pub staging_threads: u32,
    /// 1: those are the program's, by ferry_options.submit
    pub program_threads: u32,
    /// the intended size of each staging buffer
    pub staging_bytes: u64,
}

impl Default for ferry_report {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The facts of one device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_device_info {
    pub struct_size: u32,
    /// its ordinal
    pub device: i32,
    /// UTF-8, ends with zero
    pub name: [c_char; 128],
    pub uuid: [u8; 16],
    /// domain:bus:device.function, such as "0000:3B:00.0"
    pub pci_address: [c_char; 32],
    /// bytes
    pub total_memory: u64,
    /// bytes: the largest row pitch a copy may have
    pub max_pitch: u64,
    /// 1: of the software driver
    pub is_software: i32,
    pub compute_major: i32,
    pub compute_minor: i32,
    pub sm_count: i32,
    pub copy_engine_count: i32,
    /// FERRY_COPY_OVERLAP_*: what that count means
    pub overlap: CopyOverlap,
    /// 1: one address space with the host: kind ANY works
    pub unified_addressing: i32,
    /// 1: kernels may read pageable host memory
    pub pageable_access: i32,
    /// 1: they do so by the host's page tables
    pub pageable_uses_host_page_tables: i32,
    /// 1: pinned memory can be mapped into the device
    pub can_map_host_memory: i32,
    /// 1: ferry_host_register works
    pub host_register: i32,
    /// 1: FERRY_REGISTER_READ_ONLY works
    pub host_register_read_only: i32,
    /// 1: registered memory has one address for host and device
    pub registered_address_is_device_address: i32,
    /// 1: ferry_managed_alloc works
    pub managed_memory: i32,
    /// 1: the host may use managed memory while the device works
    pub concurrent_managed_access: i32,
    /// 1: stream-ordered allocation works
    pub memory_pools: i32,
    /// FERRY_HANDLE_*
    pub pool_handle_types: HandleTypes,
    /// of the nearest host memory; -1 if the driver does not report it
    pub numa_node: i32,
    /// 1: shares the host's physical memory
    pub integrated: i32,
    /// bytes
    pub texture_pitch_alignment: i32,
    /// 1: pools of FERRY_LOCATION_HOST work
    pub host_memory_pools: i32,
    /// 1: pools of FERRY_LOCATION_HOST_NUMA work
    pub host_numa_memory_pools: i32,
    /// 1: events can be shared between processes
    pub ipc_events: i32,
    pub reserved: u32,
    /// Windows: of the adapter; zeros elsewhere
    pub luid: [u8; 8],
    /// Windows: the nodes of the adapter that are the device; 0 elsewhere
    pub luid_node_mask: u32,
    pub reserved1: u32,
}

impl Default for ferry_device_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What an instance keeps after ferry_device_free_deferred, ferry_host_free_deferred, ferry_array_destroy_async,
/// ferry_mipmapped_array_destroy_async, ferry_external_memory_release_async and
/// ferry_external_semaphore_release_async.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_deferred_info {
    pub struct_size: u32,
    /// mipmapped ones too
    pub arrays: u32,
    /// Of ferry_device_alloc, ferry_device_alloc_pitched and ferry_host_alloc, and imports of memory and
    /// semaphores.
    pub allocations: u32,
    pub reserved: u32,
    /// of both; for arrays, of their texels; semaphores have none
    pub bytes: u64,
}

impl Default for ferry_deferred_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// How to allocate host memory. All zero but struct_size means the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_host_options {
    pub struct_size: u32,
    /// FERRY_HOST_*
    pub flags: HostFlags,
    /// FERRY_NUMA_*: a preference; a full node does not make the call fail
    pub numa: Numa,
    /// of FERRY_NUMA_DEVICE
    pub device: i32,
    /// of FERRY_NUMA_NODE
    pub numa_node: i32,
    /// that touch the memory first, the caller included, 1 to 64; 0: as many as help
    pub threads: u32,
    /// of FERRY_HOST_ALLOW_SMALLER: the smallest size to accept; 0: any
    pub min_size: u64,
}

impl Default for ferry_host_options {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What was allocated.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_host_block {
    pub struct_size: u32,
    /// FERRY_MEMORY_PINNED, or FERRY_MEMORY_PAGEABLE where that was allowed
    pub memory: MemoryKind,
    pub address: *mut c_void,
    /// bytes; less than asked for only where that was allowed
    pub size: u64,
    /// FERRY_HOST_FROM_*
    pub origin: HostFrom,
    /// of its first page; -1 if the system does not report it
    pub numa_node: i32,
}

impl Default for ferry_host_block {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What lies at an address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_address_info {
    pub struct_size: u32,
    /// FERRY_MEMORY_*
    pub memory: MemoryKind,
    /// where device memory lies; -1 otherwise
    pub device: i32,
    pub reserved: u32,
    /// the allocation or registration around the address, all its pieces; 0: not known
    pub range_start: u64,
    /// bytes
    pub range_size: u64,
    /// the address that a kernel uses for the same byte; 0 for pageable memory
    pub device_address: u64,
    /// that the memory was allocated from or is imported through; NULL: from none
    pub pool: *mut CUmemPoolHandle_st,
}

impl Default for ferry_address_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// An array's shape. width and height are texels; height 0 is a 1D array, depth 0 a 1D or 2D array. In a copy a
/// layer is a slice, and so is a face of a cube: its number is z.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_array_desc {
    pub struct_size: u32,
    /// FERRY_FORMAT_*
    pub format: Format,
    /// 1, 2 or 4, or the number that the format has
    pub channels: u32,
    /// FERRY_ARRAY_*
    pub flags: ArrayFlags,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl Default for ferry_array_desc {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// How to create a pinned pool. All zero but struct_size means: on any node, without a limit. With FERRY_NUMA_NODE
/// or _DEVICE a pool's memory lies on one node; create one pool for each node that matters.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_pinned_pool_options {
    pub struct_size: u32,
    /// FERRY_HOST_WRITE_COMBINED, _BY_DRIVER, _NOT_PORTABLE, _NOT_MAPPED
    pub flags: HostFlags,
    /// FERRY_NUMA_*
    pub numa: Numa,
    /// of FERRY_NUMA_DEVICE
    pub device: i32,
    /// of FERRY_NUMA_NODE
    pub numa_node: i32,
    pub reserved: u32,
    /// bytes that the pool may hold; 0: no limit
    pub limit: u64,
}

impl Default for ferry_pinned_pool_options {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Bytes of a pool: now, and the high-water marks since the pool was created or the marks were reset. In a driver's
/// pool, memory that ferry_device_free has freed still counts as used (CUDA 13.0).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_pool_stats {
    pub struct_size: u32,
    pub reserved: u32,
    /// held by the pool
    pub reserved_current: u64,
    pub reserved_high: u64,
    /// allocated, as the pool rounds; in a pinned pool also blocks that wait for streams
    pub used_current: u64,
    pub used_high: u64,
}

impl Default for ferry_pool_stats {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// How to create a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_pool_desc {
    pub struct_size: u32,
    /// FERRY_LOCATION_*
    pub location: Location,
    /// ordinal of the device, or number of the NUMA node; 0 for FERRY_LOCATION_HOST
    pub index: i32,
    /// FERRY_HANDLE_* in ferry_device_info.pool_handle_types: how to share it; 0: not shared
    pub handle_types: HandleTypes,
    /// bytes; 0: no limit of its own
    pub max_size: u64,
}

impl Default for ferry_pool_desc {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The facts of one pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_pool_info {
    pub struct_size: u32,
    /// FERRY_LOCATION_*
    pub location: Location,
    /// ordinal of the device, number of the NUMA node, or 0
    pub index: i32,
    /// FERRY_HANDLE_*; 0 for pools that ferry did not create: the driver does not report them
    pub handle_types: HandleTypes,
    /// bytes; 0: no limit of its own, or not created by ferry
    pub max_size: u64,
    /// 1: the default pool of its location
    pub is_default: i32,
    /// 1: of another process. It serves only to import memory: it cannot allocate, trim, become current or report
    /// statistics or attributes
    pub is_imported: i32,
    /// 1: ferry_ipc_export_pool may succeed
    pub can_share: i32,
    pub reserved: u32,
}

impl Default for ferry_pool_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// How a pool keeps and reuses memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_pool_attributes {
    pub struct_size: u32,
    /// 1: reuse what another stream freed if an event orders the two streams
    pub reuse_follow_event_dependencies: i32,
    /// 1: reuse what another stream freed if that free is already complete
    pub reuse_opportunistic: i32,
    /// 1: reuse what another stream freed, and make this stream wait for it
    pub reuse_internal_dependencies: i32,
    /// bytes kept when a stream, event or context is waited for; at first 0
    pub release_threshold: u64,
}

impl Default for ferry_pool_attributes {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_ipc_handle {
    pub bytes: [u8; 256],
}

impl Default for ferry_ipc_handle {
    /// All zero.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let value: Self = unsafe { std::mem::zeroed() };
        value
    }
}

/// What a handle contains.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_ipc_info {
    pub struct_size: u32,
    /// FERRY_IPC_*
    pub kind: IpcKind,
    /// its ordinal in this process; -1: not visible here, or not of a device
    pub device: i32,
    /// FERRY_HANDLE_*: with which a pool was exported
    pub handle_types: HandleTypes,
    /// of memory: bytes from the imported address on
    pub size: u64,
    /// the exporter's process number, in its own namespace
    pub process: u64,
    pub device_uuid: [u8; 16],
    /// 1: this process exported it
    pub is_own: i32,
    pub reserved: u32,
}

impl Default for ferry_ipc_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One ordered pair of devices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_peer_info {
    pub struct_size: u32,
    pub device: i32,
    pub peer: i32,
    /// 1: `device` can reach the memory of `peer`: the driver reports access, and no probe failed
    pub can_access: i32,
    /// 1: the driver reports access
    pub driver_can_access: i32,
    /// FERRY_PROBE_*: in this instance
    pub probe: Probe,
    /// the driver's ranking of the links, 0 for the best; -1 if it is not reported
    pub performance_rank: i32,
    /// 1: atomic operations work across the link; 0 also if it is not reported
    pub native_atomics: i32,
    /// 1: arrays can be reached too; 0 also if it is not reported
    pub array_access: i32,
    pub reserved: u32,
    /// MB/s of copies from `device` to `peer` with access
    pub direct_rate: u32,
    /// likewise, by the driver without access
    pub bounce_rate: u32,
    /// likewise, by FERRY_ROUTE_RELAYED
    pub relay_rate: u32,
    /// the time of FERRY_ROUTE_RELAYED without the bytes
    pub relay_fixed_ns: u32,
    /// the time of copies with access without the bytes
    pub direct_fixed_ns: u32,
    /// MB/s from pinned memory to `peer` by `device` as a helper: FERRY_COPY_MULTILINK
    pub link_to_rate: u32,
    /// likewise, from `peer` to pinned memory
    pub link_from_rate: u32,
}

impl Default for ferry_peer_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The devices whose host links copies of another device may take.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_multilink_options {
    pub struct_size: u32,
    /// The maximum number of SMs that a copy of pinned memory may use on each helper. 0: as many as are useful,
    /// which is also the limit: 24 for copies to the device, 16 for copies to the host. For pageable memory the
    /// maximum in the copy's flags counts on each device.
    pub max_sms: u32,
    /// `helper_count` elements: devices, read during the call
    pub helpers: *const i32,
    /// at most 29; 0: as without options
    pub helper_count: u32,
    /// 0
    pub reserved: u32,
}

impl Default for ferry_multilink_options {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Memory that another API has exported.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_external_memory_desc {
    pub struct_size: u32,
    /// on which the other API allocated it
    pub device: i32,
    /// FERRY_EXTERNAL_*
    pub handle_type: ExternalType,
    /// FERRY_EXTERNAL_DEDICATED
    pub flags: ExternalFlags,
    /// a file descriptor or a handle; 0 with a name
    pub handle: i64,
    /// NULL, or the zero-terminated UTF-16 name of a Windows object
    pub name: *const c_void,
    /// bytes of the whole allocation: VkMemoryAllocateInfo.allocationSize, not a buffer's size
    pub size: u64,
}

impl Default for ferry_external_memory_desc {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A semaphore or fence that another API has exported.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_external_semaphore_desc {
    pub struct_size: u32,
    pub device: i32,
    /// FERRY_SEMAPHORE_*
    pub handle_type: Semaphore,
    pub reserved: u32,
    /// a file descriptor or a handle; 0 with a name
    pub handle: i64,
    /// NULL, or the zero-terminated UTF-16 name of a Windows object
    pub name: *const c_void,
}

impl Default for ferry_external_semaphore_desc {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The resources for staged copies, and the number of copies in flight: enqueued and not ended; in a graph, while
/// it runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ferry_staging_info {
    pub struct_size: u32,
    /// ferry's own; 0 until staging is prepared or first used. With submit: those it started
    pub threads: u32,
    /// moving bytes now, including helping callers and the program's threads
    pub busy_threads: u32,
    pub copies_in_flight: u32,
    /// pinned for the staging buffers of all devices
    pub staging_bytes: u64,
    /// of copies in flight: bytes that have not arrived yet
    pub bytes_in_flight: u64,
}

impl Default for ferry_staging_info {
    /// All zero, but `struct_size` set.
    fn default() -> Self {
        // SAFETY: zero is a value of every field: a number, a pointer or no function.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

extern "C" {
    /// Returns the version of the loaded library: major * 10000 + minor * 100 + patch.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_version() -> i32;

    /// Returns the constant's name, such as "FERRY_ERROR_PITCH" or, for a driver's result,
    /// "CUDA_ERROR_INVALID_VALUE". Unknown statuses are "FERRY_ERROR_UNKNOWN_STATUS", unknown results of the driver
    /// "CUDA_ERROR_UNKNOWN_RESULT". Needs no instance.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_status_name(status: Status) -> *const c_char;

    /// Returns the meaning of the status in a few English words, also for unknown statuses. Needs no instance.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_status_text(status: Status) -> *const c_char;

    /// Returns how to react to a status; 0 also for unknown statuses. Needs no instance.
    ///
    /// * NULL: none.
    /// * Values: returned: FERRY_STATUS_CONTEXT_DEAD, FERRY_STATUS_RETRY or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_status_traits(status: Status) -> Traits;

    /// Writes one readable line about `error` to `buffer`, cut to `size` bytes with its ending zero, such as "copy
    /// 7: destination.row_pitch: 100, must be at least 128 (FERRY_ERROR_PITCH)" or, if only status is set, "no such
    /// device ... (FERRY_ERROR_DEVICE)". FERRY_ERROR_OUT_OF_BOUNDS reads "destination.y: 17, past the end at 16
    /// (...)" of an array, and "source.address: 0x7f5e00001001, past the end at 0x7f5e00001000 (...)" of memory.
    /// Index 0 is left out. Returns the length of the whole line without the zero, or 0 for a NULL error. `buffer`
    /// may be NULL when size is 0: the call then measures the line.
    ///
    /// * NULL: `error`, `buffer`.
    /// * Values: `buffer`: `size` bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_error_format(error: *const ferry_error_info, buffer: *mut c_char, size: u64) -> u64;

    /// Opens an instance. NULL `options` are the defaults: the NVIDIA driver or an error. Several instances may be
    /// open at once, also on both drivers. Instances on the software driver share it: a later one with other
    /// software_* values is refused. Never give an instance a handle or a device address of the other driver. The
    /// software driver refuses handles that are not its own with the driver's status (-1400, of contexts -1201),
    /// but the NVIDIA driver may crash, and both take an address that they do not know for host memory.
    ///
    /// * NULL: `options`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while cuInit runs. With FERRY_KERNELS_AT_OPEN or FERRY_STAGING_AT_OPEN also makes each device's
    ///   primary context and waits for its running work, and with the latter starts threads and pins memory;
    ///   otherwise makes no context.
    /// * Ownership: *instance is the caller's until ferry_close. `options` is read before return. The callbacks and
    ///   their data must live until ferry_close has returned.
    /// * Errors: the common errors; FERRY_ERROR_NO_DRIVER, _DRIVER_TOO_OLD, _NO_DEVICE, or the driver's own status
    ///   if cuInit fails. With FERRY_DRIVER_AUTO the software driver serves instead, and ferry_report gives that
    ///   status. _ABI_MISMATCH, _RESERVED, _FLAGS and _INVALID_ARGUMENT name the option; _SOFTWARE_CONFIG;
    ///   _UNSUPPORTED if the build has no software driver; _OUT_OF_MEMORY. A device that refuses ferry's kernels at
    ///   open is logged, and reports FERRY_OBSTACLE_NOT_LOADED later.
    /// * Driver: cuInit, cuDriverGetVersion, cuDeviceGetCount and the queries for ferry_device_info; with
    ///   FERRY_KERNELS_AT_OPEN or FERRY_STAGING_AT_OPEN cuDevicePrimaryCtxRetain, cuLibraryLoadData and the calls
    ///   that get the kernels; with the latter also those of ferry_staging_prepare.
    pub fn ferry_open(options: *const ferry_options, instance: *mut *mut ferry_instance, error: *mut ferry_error_info) -> Status;

    /// Closes an instance: releases the contexts it retained and frees it. First free everything made through the
    /// instance (memory, registrations, arrays, streams, events, contexts, pools, imports, prepared batches).
    /// Anything left stays as it is. Prepared batches that are left must not be touched again; host memory and
    /// pinned pools that are left can no longer be freed. Copies and fills may be in flight. Graphs captured
    /// through the instance may not run afterwards, unless they hold no kernel of ferry's (FERRY_COPY_BY_DRIVER,
    /// _NO_KERNELS, FERRY_KERNELS_NONE). The call is harmless at process exit and after the driver has gone. In the
    /// child of a fork it does nothing: another thread may have been changing the instance's memory, which ends
    /// with the child.
    ///
    /// * NULL: `instance`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: no other call on this instance may be running or come later.
    /// * Blocking: until staged copies in flight have ended, unless their context is dead; until streams have
    ///   passed large batches, whose pieces are in tables of the instance (ferry_copy_batch_async); until streams
    ///   have passed deferred frees (see ferry_deferred_info), which are then done. If the instance holds the last
    ///   reference to a primary context, the driver waits for its work and destroys it with everything in it. The
    ///   last instance on the software driver ends that driver: running work ends first, then all its addresses,
    ///   arrays and contexts are gone.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: cuDevicePrimaryCtxRelease; if kernels were loaded cuLibraryUnload, cuSurfObjectDestroy,
    ///   cuEventSynchronize and the calls that release pinned memory and staging buffers; those of
    ///   ferry_deferred_trim and cuEventDestroy for deferred frees.
    pub fn ferry_close(instance: *mut ferry_instance);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_any(place: *mut ferry_place, address: u64);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`, `address`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_host(place: *mut ferry_place, address: *const c_void);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`, `address`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_host_pitched(place: *mut ferry_place, address: *const c_void, row_pitch: u64, slice_height: u64);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_device(place: *mut ferry_place, device: i32, address: u64);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_device_pitched(place: *mut ferry_place, device: i32, address: u64, row_pitch: u64, slice_height: u64);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`, `array`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_array(place: *mut ferry_place, device: i32, array: *mut CUarray_st);

    /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
    /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
    /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
    ///
    /// * NULL: `place`, `array`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_place_array_layer(place: *mut ferry_place, device: i32, array: *mut CUarray_st, layer: u64);

    /// Sets a descriptor from two places, which may be those inside *copy, and an extent. ferry_copy checks the
    /// values. A NULL place leaves that end all zero. A NULL copy is ignored.
    ///
    /// * NULL: `copy`, `source`, `destination`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_copy_desc_init(copy: *mut ferry_copy_desc, source: *const ferry_place, destination: *const ferry_place, width: u64, height: u64, depth: u64);

    /// Copies, and returns when the bytes are visible to the host, to every stream and to every other thread. The
    /// copy is ordered like a driver call on the legacy default stream of its context: after earlier work on that
    /// stream and on the streams that synchronise with it. The caller orders work on non-blocking streams. To wait
    /// for a copy on another stream, use ferry_copy_async and ferry_stream_synchronize. The context is the thread's
    /// current one, else that of the destination's device, else of the source's, else of device 0.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until the copy is complete.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_KIND, _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS,
    ///   _OVERLAP, _ARRAY_FORMAT, _FLAGS, _RESERVED name the field in `error`, and nothing was copied; _UNSUPPORTED
    ///   from one 2D layer or face to another of the same array, which the driver gets wrong; _ROUTE if the route
    ///   forced by the flags cannot take the copy. The driver's own may also report earlier asynchronous work that
    ///   failed.
    /// * Driver: cuMemcpy3D, or cuMemcpy3DPeer if an end is on another device than the context; then
    ///   cuStreamSynchronize where those return early (device to device, pageable host to device). If the driver
    ///   refuses a copy because its host memory was registered in pieces, ferry splits it, with one call for each
    ///   part; if one part fails, the parts before it were copied. By a kernel: cuPointerGetAttributes for both
    ///   ends, cuLaunchKernel and cuStreamSynchronize; before the first such copy, see ferry_options.kernels.
    ///   Staged: the same, the calling thread helps, and as ferry_copy_async on an idle stream.
    pub fn ferry_copy(instance: *mut ferry_instance, copy: *const ferry_copy_desc, error: *mut ferry_error_info) -> Status;

    /// Enqueues a copy on `stream`: it starts after earlier work there, and is complete for later work. `stream` is
    /// any CUstream or cudaStream_t. NULL and FERRY_STREAM_LEGACY are the legacy default stream,
    /// FERRY_STREAM_PER_THREAD is the per-thread one (both cast to a pointer). The context is the stream's; for
    /// those three it is found as for ferry_copy. `ticket` may be NULL; otherwise *ticket reports the copy's
    /// progress.
    ///
    /// * NULL: `stream`, `ticket`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU unless its flags say so (SOURCE_READ, DESTINATION_WRITTEN), with two
    ///   exceptions. The driver's own copies from host memory to host memory wait, and so do its copies of pageable
    ///   memory that are not staged: where staging cannot serve (managed memory, another device's memory, arrays
    ///   without a surface above 256 MiB; see docs/staging.md), where flags exclude it, and on an idle stream where
    ///   the driver is predicted to be faster: up to 1 MiB, or more while staging is late because the machine is
    ///   busy, where no kernel can serve, or on the software driver. Such a call waits for earlier work on the
    ///   stream (not with FERRY_COPY_SOURCE_READ), and until a pageable source has been read or, with a host
    ///   destination, until the copy is complete. A small upload waits up to 30 us (0.3 ms on the software driver)
    ///   for one of ferry's just before it on the stream, and a staged copy on an idle stream up to 0.1 ms until
    ///   the device has started a kernel, some 10 us if it is idle. ferry_copy_explain_async reports what applies.
    ///   Memory of a host pool does not count as host memory here if the device of the copy's other end has access
    ///   to the pool, or between host memory the stream's device. The first copy by a kernel in a context may wait
    ///   while the kernel is loaded; the first staged, buffered or relayed copy, while threads start, streams are
    ///   created or memory is pinned (ferry_options.kernels and staging). Like every call that enqueues, it waits
    ///   for the driver's lock while another thread frees (see Memory).
    /// * Ownership: `copy` is read before return. The memory must live until the stream has passed the copy, and
    ///   the source must not change until then, except a pageable source with FERRY_COPY_SOURCE_READ: until the
    ///   return. Memory that is unmapped while a copy runs cannot be made safe. *ticket is the caller's until
    ///   ferry_ticket_release, which must come before ferry_close.
    /// * Errors: the common errors; as ferry_copy; nothing was enqueued, except the parts of a split copy, the
    ///   launches of a staged one above 1 GiB, or the chunks of a relayed one, before the one that fails.
    ///   FERRY_ERROR_CAPTURE on a stream that is being captured, for three kinds of copy: between memory from pools
    ///   of two devices, neither of which has access to the other's pool; from pageable memory to a device without
    ///   staging, because the driver would read the source at the launch, before the graph's earlier nodes have
    ///   run; and of pageable memory with FERRY_COPY_SOURCE_READ or _DESTINATION_WRITTEN. With a ticket also
    ///   _OUT_OF_MEMORY, _UNSUPPORTED, and _CAPTURE under any capture, because the copy may run any number of
    ///   times. If the driver refuses only the event behind the copy, the copy is in flight all the same. A later
    ///   call that synchronises reports later failures.
    /// * Driver: cuMemcpy3DAsync or cuMemcpy3DPeerAsync. By a kernel or staged: cuPointerGetAttributes and
    ///   cuLaunchKernel. Staged also: cuStreamIsCapturing and cuCtxGetId before; under capture and with
    ///   ferry_options.submit cuLaunchHostFunc; cuEventCreate for the first in a context. Staged on an idle stream:
    ///   cuLaunchKernel on a stream of ferry's own before (cuStreamCreateWithPriority for the first in a context),
    ///   and cuMemcpy3DAsync and cuStreamBatchMemOp where the device has no room for kernels. For pageable memory
    ///   cuStreamQuery; for a buffered copy cuEventRecord behind it and later cuEventQuery; before the driver's own
    ///   copy of pageable memory cuStreamSynchronize, or cuEventRecord and cuEventSynchronize. Relayed:
    ///   cuMemcpy3DAsync into and out of the slots, cuEventRecord, cuStreamWaitEvent and cuEventQuery;
    ///   cuStreamCreateWithPriority, cuEventCreate and those of ferry_host_alloc for new streams and slots. Over
    ///   several links: cuLaunchKernel for each device, cuMemcpy3DAsync, and for streams and events as relayed.
    ///   With a ticket cuEventCreate before the copy and cuEventRecord behind it.
    pub fn ferry_copy_async(instance: *mut ferry_instance, copy: *const ferry_copy_desc, stream: *mut CUstream_st, ticket: *mut *mut ferry_ticket, error: *mut ferry_error_info) -> Status;

    /// Copies `size` bytes from address to address, both of kind ANY, otherwise as ferry_copy. Pass host addresses
    /// as integers: (uint64_t)(uintptr_t)pointer.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until the copy is complete.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP; as ferry_copy.
    /// * Driver: as ferry_copy, after cuPointerGetAttributes for each address.
    pub fn ferry_copy_bytes(instance: *mut ferry_instance, destination: u64, source: u64, size: u64, error: *mut ferry_error_info) -> Status;

    /// ferry_copy_bytes on a stream, as ferry_copy_async.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_async.
    /// * Ownership: the memory must live until the stream has passed the copy.
    /// * Errors: the common errors; as ferry_copy_async.
    /// * Driver: as ferry_copy_async, after cuPointerGetAttributes for each address.
    pub fn ferry_copy_bytes_async(instance: *mut ferry_instance, destination: u64, source: u64, size: u64, stream: *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Makes a ticket for the work enqueued on `stream` so far. Default streams as for ferry_stream_synchronize.
    ///
    /// Broadcasts and relays have a part of their work on other devices. If the context of one of these dies, bytes
    /// are missing, but `stream` goes on and reports nothing. A ticket made while that work is in flight has the
    /// status.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *ticket is the caller's until ferry_ticket_release, which must come before ferry_close.
    /// * Errors: the common errors; FERRY_ERROR_CAPTURE on a stream that is being captured;
    ///   FERRY_ERROR_OUT_OF_MEMORY.
    /// * Driver: cuCtxGetId, cuEventCreate, cuEventRecord; cuEventQuery where ferry's own streams have work on
    ///   other devices.
    pub fn ferry_ticket_create(instance: *mut ferry_instance, stream: *mut CUstream_st, ticket: *mut *mut ferry_ticket, error: *mut ferry_error_info) -> Status;

    /// Fills `info`. A staged copy is done when its last byte has arrived, which may be a moment before its stream
    /// continues. The call also detects a dead context: for a staged copy, no later than at the first query before
    /// which no bytes have arrived since the previous one.
    ///
    /// After a context has died, threads of ferry's may still be at the host memory of a staged copy, each until
    /// the end of its chunk. The copy's ticket is done, and ferry_ticket_wait returns, only after the last of them
    /// has left: then the memory may be freed. A batch, a copy without a ticket and a copy of memory that is
    /// registered in part have no such ticket. Their memory may be freed after ferry_close has returned, or after
    /// ferry_staging_info.busy_threads was 0 once a call has returned the status of the dead context.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe, but not beside ferry_ticket_release of the same ticket.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; info-\>status is the copy's own result; a copy that failed is no error of this
    ///   call. A ticket that was not found done before its context was destroyed has the driver's
    ///   CUDA_ERROR_CONTEXT_IS_DESTROYED.
    /// * Driver: cuThreadExchangeStreamCaptureMode, so that no capture is broken, cuCtxGetId and cuEventQuery; for
    ///   a staged copy none while bytes arrive or once it is done.
    pub fn ferry_ticket_get_info(ticket: *mut ferry_ticket, info: *mut ferry_ticket_info) -> Status;

    /// Waits until the copy is done, and returns its status. The calling thread helps with staged copies meanwhile.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: as ferry_ticket_get_info.
    /// * Blocking: until the copy is done, or its context has died.
    /// * Ownership: the ticket stays the caller's.
    /// * Errors: the common errors; the status that ended the copy, which may come from earlier work that failed;
    ///   FERRY_ERROR_INVALID_ARGUMENT for NULL. For the copy's own status alone see ferry_ticket_info.status.
    /// * Driver: cuThreadExchangeStreamCaptureMode, so that no capture is broken, cuCtxGetId and
    ///   cuEventSynchronize; for staged copies none, except cuCtxGetId and cuEventQuery when there is no progress.
    pub fn ferry_ticket_wait(ticket: *mut ferry_ticket) -> Status;

    /// Releases a ticket, at any time; the copy continues.
    ///
    /// * NULL: `ticket`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: not beside another call on the same ticket.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuCtxGetId, and cuEventDestroy unless the ticket's context has been destroyed.
    pub fn ferry_ticket_release(ticket: *mut ferry_ticket) -> Status;

    /// Makes `count` copies of any places and shapes, each as ferry_copy would. The copies have no order among
    /// themselves. Their sources may overlap. No destination may overlap another copy's source or destination: the
    /// bytes of both copies' destinations are then undefined, but no others change. FERRY_BATCH_CHECK_OVERLAP looks
    /// for overlap by sorting all rows, for some hundred nanoseconds each. All copies are checked before any is
    /// made. A copy that continues the one before at both ends is merged with it. Width 0 is fine, and so is count
    /// 0; `copies` may then be NULL.
    ///
    /// A copy may leave the allocation that it begins in only into adjacent memory of the same device, which full
    /// checks refuse too, and out of a registration of host memory. The context is found as for ferry_copy, for the
    /// first copy that has a device.
    ///
    /// A piece is a line of linear memory without flags of its own; any other copy is a box. Pieces use the
    /// instance's flags. A copy with flags of its own is routed by them, in a call or launch of its own. If the
    /// instance has flags, every box of rows gets a call or launch of its own too. All boxes out of arrays that
    /// kernels read (FERRY_ARRAY_SURFACE) take one launch together where that is faster. The driver makes copies
    /// into arrays. Between pageable memory and the context's device, pieces are staged together, with boxes of at
    /// most 16384 rows: in one launch for each direction, or several above 1 GiB. A single one, and copies with the
    /// instance's flags NO_KERNELS or BY_DRIVER, are routed as by ferry_copy_async.
    ///
    /// Pieces with the same source of 4 MiB or more that go to several devices are a broadcast, which runs on
    /// streams of ferry's own. Devices with access to each other's memory, proven by ferry_peer_enable or
    /// ferry_peer_probe, pass chunks on to each other (docs/devices.md). If the context of one dies meanwhile, the
    /// call makes the broadcast again without it, and returns its status and the index of its copy. With
    /// ferry_options.submit this call makes no broadcasts of pageable memory: the calling thread helps to stage
    /// each copy instead.
    ///
    /// * NULL: `copies`, `error`.
    /// * Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until all copies are complete.
    /// * Ownership: `copies` is read before return. Working memory is kept for the next batch, until ferry_close.
    /// * Errors: the common errors; as ferry_copy, with the copy's `index`; nothing was copied. _OVERLAP between
    ///   two copies names the later in `index`, with FERRY_FIELD_INDEX, and the other in `limit`. _FLAGS without a
    ///   side for `flags`; _OUT_OF_MEMORY. If the driver refuses a copy only on submission, the call waits for what
    ///   it has enqueued, and enqueues no more. Each other copy was then made whole or not at all, except in
    ///   broadcasts and in copies that take several calls or launches; `error` does not say which were made.
    /// * Driver: cuPointerGetAttributes once or twice for each allocation (for pageable memory, each copy; with
    ///   Linux 6.11 and later some copies in each mapping) and cuArray3DGetDescriptor for each array;
    ///   cuSurfObjectCreate for the first batch that reads an array; then for each group the fastest of
    ///   cuLaunchKernel, or cuMemcpy3DAsync and cuMemcpy3DPeerAsync for each copy; and cuStreamSynchronize.
    pub fn ferry_copy_batch(instance: *mut ferry_instance, copies: *const ferry_copy_desc, count: u64, flags: BatchFlags, error: *mut ferry_error_info) -> Status;

    /// Enqueues a batch on `stream`, as for ferry_copy_async: all of it starts after earlier work there, and is
    /// complete for later work.
    ///
    /// * NULL: `copies`, `stream`, `error`.
    /// * Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU, except for copies that wait in ferry_copy_async too; for pieces that
    ///   are staged together while the instance's flags have SOURCE_READ or DESTINATION_WRITTEN, until their
    ///   sources have been read or their destinations are complete; for pieces that the driver copies one by one
    ///   because kernels of others fill the device; and for the stream if the driver cannot make an event for a
    ///   table (see Driver).
    /// * Ownership: `copies` is read before return. The memory as for ferry_copy_async, until the stream has passed
    ///   the batch.
    /// * Errors: the common errors; as ferry_copy_batch and ferry_copy_async; nothing was enqueued, except the
    ///   parts before a part that the driver refuses or that fails with FERRY_ERROR_LIMIT or _OUT_OF_MEMORY.
    /// * Driver: as ferry_copy_batch, without the wait; also cuMemcpyBatchAsync and cuMemcpy3DBatchAsync, on
    ///   streams other than the legacy one that are not being captured. A launch of more than 169 pieces, or 46
    ///   boxes, keeps them in a table in pinned memory of the instance: cuMemHostAlloc or cuMemHostRegister to grow
    ///   it, and cuEventRecord.
    pub fn ferry_copy_batch_async(instance: *mut ferry_instance, copies: *const ferry_copy_desc, count: u64, flags: BatchFlags, stream: *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Copies a batch of `count` plain pieces: sizes\[i\] bytes from sources\[i\] to destinations\[i\], both of
    /// kind ANY, as ferry_copy_bytes. The fastest form for thousands of small pieces. A size of 0 is fine, whatever
    /// its addresses. The rule of ferry_copy_batch about overlap holds for pieces too.
    ///
    /// * NULL: `destinations`, `sources`, `sizes`, `error`.
    /// * Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until all pieces are complete.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_copy_batch.
    /// * Driver: as ferry_copy_batch.
    pub fn ferry_copy_pieces(instance: *mut ferry_instance, destinations: *const u64, sources: *const u64, sizes: *const u64, count: u64, flags: BatchFlags, error: *mut ferry_error_info) -> Status;

    /// ferry_copy_pieces on a stream, as ferry_copy_batch_async.
    ///
    /// * NULL: `destinations`, `sources`, `sizes`, `stream`, `error`.
    /// * Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_batch_async.
    /// * Ownership: the arrays are read before return; the memory must live until the stream has passed the batch.
    /// * Errors: the common errors; as ferry_copy_batch_async.
    /// * Driver: as ferry_copy_batch_async.
    pub fn ferry_copy_pieces_async(instance: *mut ferry_instance, destinations: *const u64, sources: *const u64, sizes: *const u64, count: u64, flags: BatchFlags, stream: *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Prepares a batch for streams of the device of `stream`, whose context is found as for
    /// ferry_copy_batch_async. The plan keeps the current profile and instance flags. `count` 0 is fine.
    ///
    /// * NULL: `copies`, `stream`, `error`.
    /// * Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while a table of the pieces is sent to the device, if kernels read one; cuMemAlloc may wait for
    ///   the device.
    /// * Ownership: *prepared is the caller's until ferry_prepared_destroy, which must come before ferry_close.
    ///   `copies` is read before return. For every launch the memory and the context must live, and the memory must
    ///   stay of the same kind.
    /// * Errors: the common errors; as ferry_copy_batch, including _ROUTE with the index of a copy that the
    ///   instance's flags force onto a route that cannot take it.
    /// * Driver: the look-ups of ferry_copy_batch; for the table cuMemAlloc, cuMemcpy3DAsync, and a stream that is
    ///   created, waited for and destroyed.
    pub fn ferry_prepared_create(instance: *mut ferry_instance, copies: *const ferry_copy_desc, count: u64, flags: BatchFlags, stream: *mut CUstream_st, prepared: *mut *mut ferry_prepared, error: *mut ferry_error_info) -> Status;

    /// Prepares a batch of pieces, as ferry_prepared_create. With FERRY_BATCH_UPDATABLE their addresses can be
    /// changed, and pieces are not merged.
    ///
    /// * NULL: `destinations`, `sources`, `sizes`, `stream`, `error`.
    /// * Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_prepared_create.
    /// * Ownership: as ferry_prepared_create; the arrays are read before return.
    /// * Errors: the common errors; as ferry_prepared_create; if updatable, FERRY_ERROR_OUT_OF_BOUNDS for a piece
    ///   that does not lie in one allocation at either end: FERRY_SIDE_DESCRIPTOR and FERRY_FIELD_ADDRESS, without
    ///   value and limit.
    /// * Driver: as ferry_prepared_create.
    pub fn ferry_prepared_create_pieces(instance: *mut ferry_instance, destinations: *const u64, sources: *const u64, sizes: *const u64, count: u64, flags: BatchFlags, stream: *mut CUstream_st, prepared: *mut *mut ferry_prepared, error: *mut ferry_error_info) -> Status;

    /// Enqueues a prepared batch on `stream`, a stream of the device that it was prepared for, as
    /// ferry_copy_batch_async would. A default stream is that of the current context, else of ferry's context for
    /// the device of the batch. On a stream that is being captured the batch becomes part of the graph and must
    /// live as long as the graph may run. In another context of the device, which does not see all memory of the
    /// first, the driver makes the copies instead of kernels.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe, but not beside ferry_prepared_set_addresses and ferry_prepared_destroy on the same
    ///   batch.
    /// * Blocking: as ferry_copy_batch_async.
    /// * Ownership: as ferry_copy_batch_async.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE for a stream of another device; for an updatable batch
    ///   _UNSUPPORTED in another context, and _CAPTURE if the graph would hold parts of it by their addresses.
    ///   `error` has no index.
    /// * Driver: as ferry_copy_batch_async, without the look-ups.
    pub fn ferry_prepared_launch(prepared: *mut ferry_prepared, stream: *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Gives all pieces of an updatable batch new addresses; NULL keeps the sources or the destinations. Addresses
    /// of pieces of size 0 are not read. The change is ordered on `stream`: earlier launches use the old addresses;
    /// later launches, also replays of graphs, use the new ones. The caller orders launches on other streams. Each
    /// piece keeps its size, its kind of memory (pinned host memory, the device's or a peer's), and its
    /// destination's remainder modulo 16. The new addresses are checked as before, with the original flags and for
    /// the context that the batch was prepared in.
    ///
    /// * NULL: `destinations`, `sources`, `stream`, `error`.
    /// * Values: `destinations`, `sources`: as many elements as `prepared` has pieces, those of size 0 included.
    /// * Thread-safety: safe, but not beside another call on the same prepared batch: ferry_prepared_launch,
    ///   ferry_prepared_destroy or this one. Launches of a graph that holds the batch may run beside it: only
    ///   streams order them.
    /// * Blocking: does not wait for the GPU.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_prepared_create_pieces, with the index; for a forbidden change
    ///   FERRY_ERROR_KIND, or _ALIGNMENT with the destination's shift as `value`. _UNSUPPORTED if the batch is not
    ///   updatable; _DEVICE for a stream of another device; _CAPTURE on a stream that is being captured. The
    ///   addresses are unchanged after an error.
    /// * Driver: the look-ups of ferry_copy_batch; cuMemcpy3DAsync for the table.
    pub fn ferry_prepared_set_addresses(prepared: *mut ferry_prepared, destinations: *const u64, sources: *const u64, stream: *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Destroys a prepared batch. Launches of it may be in flight; graphs that hold it may not run any more.
    ///
    /// * NULL: `prepared`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: not beside another call on the same batch, ferry_prepared_launch and
    ///   ferry_prepared_set_addresses.
    /// * Blocking: if the batch has a table on the device, for the device's running work, as cuMemFree does.
    /// * Ownership: the batch is gone, whatever is returned, except in the child of a fork.
    /// * Errors: the common errors; the driver's own may be those of earlier work.
    /// * Driver: cuMemFree for the table.
    pub fn ferry_prepared_destroy(prepared: *mut ferry_prepared) -> Status;

    /// Sets a descriptor from a place, which may be the one inside *fill, an extent and `pattern_size` bytes of
    /// pattern (at most 16 are taken). ferry_fill checks the values. A NULL place leaves the destination all zero;
    /// a NULL pattern means zero bytes. A NULL fill is ignored.
    ///
    /// * NULL: `fill`, `destination`, `pattern`.
    /// * Values: `pattern`: `pattern_size` bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_fill_desc_init(fill: *mut ferry_fill_desc, destination: *const ferry_place, width: u64, height: u64, depth: u64, pattern: *const c_void, pattern_size: u32);

    /// Fills, and returns when the bytes are there. The fill is ordered like a ferry_copy. The context is the
    /// current one if it belongs to the memory's device, else ferry's for that device; for pinned and managed
    /// memory the current one, else device 0's. Memory that the driver fills only in the memory's own context, such
    /// as another process's, uses that context.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until the fill is complete.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_KIND (pageable host memory too), _DEVICE, _ADDRESS, _PITCH,
    ///   _OVERFLOW, _OUT_OF_BOUNDS, _ALIGNMENT, _FLAGS, _RESERVED name the field in `error`, and nothing was
    ///   filled. If the driver refuses a part of a split fill, the parts before it were filled. _INVALID_ARGUMENT
    ///   for a pattern_size that is no power of two up to 16; _UNSUPPORTED for arrays; _ROUTE if
    ///   FERRY_COPY_BY_KERNEL is impossible. A fill that needs a kernel (see ferry_fill_desc) is _UNSUPPORTED with
    ///   the field PATTERN or DEPTH if the flags, the options or the driver exclude kernels, if the box leaves an
    ///   allocation or registration, or if kernels cannot reach the memory.
    /// * Driver: cuPointerGetAttributes unless the place states a device; cuMemsetD8Async, D16 or D32, or
    ///   cuMemsetD2D8Async, D2D16 or D2D32, on the legacy stream; then cuStreamSynchronize. A fill across
    ///   registered pieces is split as copies are, if all of the memory is registered. A kernel fills what needs
    ///   one and, in memory of the context's device, rows so narrow and many that the driver's call is slower:
    ///   cuPointerGetAttributes and cuLaunchKernel; on first need cuLibraryLoadData.
    pub fn ferry_fill(instance: *mut ferry_instance, fill: *const ferry_fill_desc, error: *mut ferry_error_info) -> Status;

    /// Enqueues a fill on `stream`, as ferry_copy_async does a copy. The stream must be on the memory's device, or
    /// on one with peer access to it; for pinned and managed memory any stream will do. The NULL, legacy and
    /// per-thread streams are those of the context found as for ferry_fill.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU, except while kernels are loaded (ferry_options.kernels).
    /// * Ownership: `fill` is read before return. The memory must live until the stream has passed the fill.
    /// * Errors: the common errors; as ferry_fill; nothing was enqueued but the parts of a split fill before the
    ///   one that fails. FERRY_ERROR_DEVICE also for a stream that cannot reach the memory; _NO_CONTEXT for another
    ///   process's memory on a stream of a context other than the one that opened it.
    /// * Driver: as ferry_fill, without the wait. The driver does not know memory that a capture itself has
    ///   allocated, and no kernel fills it.
    pub fn ferry_fill_async(instance: *mut ferry_instance, fill: *const ferry_fill_desc, stream: *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Returns a text such as "pageable memory"; "?" for an unknown number.
    ///
    /// * NULL: none.
    /// * Values: `obstacle`: FERRY_OBSTACLE_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_obstacle_text(obstacle: Obstacle) -> *const c_char;

    /// Reports what ferry_copy would do with `copy`, without doing it. Fills `explanation`. The explanation does
    /// not cover whether a copy between two devices uses the link between them: that depends on peer access.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never, except on first need as ferry_context_retain_primary, and while kernels are loaded as
    ///   ferry_copy.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_copy.
    /// * Driver: the look-ups of ferry_copy, and cuPointerGetAttributes for each address.
    pub fn ferry_copy_explain(instance: *mut ferry_instance, copy: *const ferry_copy_desc, explanation: *mut ferry_explanation, error: *mut ferry_error_info) -> Status;

    /// Reports what ferry_copy_async would do, as ferry_copy_explain.
    ///
    /// The explanation describes a copy that is enqueued at this moment. A later copy of the same description takes
    /// another route only if something has changed that the choice depends on: the earlier work on the stream has
    /// completed, or other work has been enqueued there; ferry has measured another staging delay or has another
    /// profile; the access between devices has changed; or the copy finds no free slot, stream or pinned memory for
    /// its route, and the driver makes it. ferry_ticket_info.route is the route that the copy took.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_explain; for a copy to be staged also while threads start and memory is pinned, as
    ///   ferry_copy_async.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_copy_async.
    /// * Driver: as ferry_copy_explain.
    pub fn ferry_copy_explain_async(instance: *mut ferry_instance, copy: *const ferry_copy_desc, stream: *mut CUstream_st, explanation: *mut ferry_explanation, error: *mut ferry_error_info) -> Status;

    /// Reports what ferry_fill would do with `fill`, without doing it. Fills `explanation`. A fill that the driver
    /// refuses in the call's context, and that ferry_fill then makes in the memory's own, is explained as in the
    /// call's.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_explain.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_fill, but for refusals by the driver.
    /// * Driver: the look-ups of ferry_fill, and cuPointerGetAttributes.
    pub fn ferry_fill_explain(instance: *mut ferry_instance, fill: *const ferry_fill_desc, explanation: *mut ferry_explanation, error: *mut ferry_error_info) -> Status;

    /// Reports what ferry_fill_async would do, as ferry_fill_explain.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_explain.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_fill_async, but for refusals by the driver: _DEVICE for a stream that
    ///   cannot reach the memory and _NO_CONTEXT are not found.
    /// * Driver: as ferry_fill_explain.
    pub fn ferry_fill_explain_async(instance: *mut ferry_instance, fill: *const ferry_fill_desc, stream: *mut CUstream_st, explanation: *mut ferry_explanation, error: *mut ferry_error_info) -> Status;

    /// Writes one readable line about `explanation` to `buffer`, such as "driver route: cuMemcpy3DAsync, pinned to
    /// device 0, 4096 B x 3 rows x 1 slices; does not block; 5.8 us by the driver, 11.2 us by a kernel; because it
    /// is predicted to be the fastest (built-in profile)" or "...; no kernel: pageable memory", cut to `size` bytes
    /// with its ending zero. Returns the length of the whole line without the zero, or 0 for a NULL explanation or
    /// a bad struct_size. `buffer` may be NULL when size is 0.
    ///
    /// * NULL: `explanation`, `buffer`.
    /// * Values: `buffer`: `size` bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_explanation_format(explanation: *const ferry_explanation, buffer: *mut c_char, size: u64) -> u64;

    /// Reports what ferry_copy_batch_async would do with a batch now, without doing it: how many copies go which
    /// way, and the predicted times. Checks the batch as that call does, and fills `explanation`. Does not tell
    /// whether that call waits: `singles` wait as ferry_copy_explain_async tells for each, and `staged` only to
    /// read sources early (Blocking of ferry_copy_batch_async).
    ///
    /// * NULL: `copies`, `stream`, `error`.
    /// * Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_explain_async.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_copy_batch_async.
    /// * Driver: the look-ups of ferry_copy_batch_async.
    pub fn ferry_copy_batch_explain_async(instance: *mut ferry_instance, copies: *const ferry_copy_desc, count: u64, flags: BatchFlags, stream: *mut CUstream_st, explanation: *mut ferry_batch_explanation, error: *mut ferry_error_info) -> Status;

    /// Reports what ferry_copy_pieces_async would do, as ferry_copy_batch_explain_async.
    ///
    /// * NULL: `destinations`, `sources`, `sizes`, `stream`, `error`.
    /// * Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_copy_explain_async.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_copy_pieces_async.
    /// * Driver: the look-ups of ferry_copy_pieces_async.
    pub fn ferry_copy_pieces_explain_async(instance: *mut ferry_instance, destinations: *const u64, sources: *const u64, sizes: *const u64, count: u64, flags: BatchFlags, stream: *mut CUstream_st, explanation: *mut ferry_batch_explanation, error: *mut ferry_error_info) -> Status;

    /// Writes one readable line about `explanation` to `buffer`, such as "1500 copies staged on 8 SMs and 8
    /// threads, 90.1 MB, 1900.0 us; 3 by a kernel on 8 SMs, 0.1 MB, 12.1 us", or "nothing to copy". The SMs are
    /// max_sms in both parts, and a MB is 10^6 bytes. Size and return value as for ferry_explanation_format.
    ///
    /// * NULL: `explanation`, `buffer`.
    /// * Values: `buffer`: `size` bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_batch_explanation_format(explanation: *const ferry_batch_explanation, buffer: *mut c_char, size: u64) -> u64;

    /// Fills `report`. The values are those of ferry_open, except for peers, kernels and staging, which are
    /// current.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: none.
    pub fn ferry_instance_get_report(instance: *const ferry_instance, report: *mut ferry_report) -> Status;

    /// Returns the name of the index-th optional entry point that the driver lacks, such as "cuLaunchHostFunc".
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: none.
    /// * Driver: none.
    pub fn ferry_instance_get_missing_entry_point(instance: *const ferry_instance, index: u32) -> *const c_char;

    /// Returns this instance's driver entry point: for the program's own calls to the same driver, software or not.
    /// `version` is as for cuGetProcAddress, such as 12000. The function's type is PFN_\<name\>_v\<version\> in
    /// cudaTypedefs.h.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe if the program's own get_proc is.
    /// * Blocking: never.
    /// * Ownership: valid until ferry_close.
    /// * Errors: none.
    /// * Driver: cuGetProcAddress.
    pub fn ferry_instance_get_proc(instance: *const ferry_instance, name: *const c_char, version: i32) -> *mut c_void;

    /// Fills `info` with the facts of device number `device`. They were queried at ferry_open.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: none.
    pub fn ferry_device_get_info(instance: *const ferry_instance, device: i32, info: *mut ferry_device_info) -> Status;

    /// Stores the number of the device that another API knows by a UUID (VkPhysicalDeviceIDProperties.deviceUUID)
    /// or by a LUID (ID3D12Device::GetAdapterLuid). Each API numbers the devices in its own way. One of the two may
    /// be NULL; the UUID counts if both are given. Linked adapters share a LUID: this is the first of them, and
    /// ferry_device_info.luid_node_mask tells them apart. *device is -1 after a failure.
    ///
    /// * NULL: `uuid`, `luid`.
    /// * Values: `uuid`: 16 bytes; `luid`: 8 bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE if this instance has no such device.
    /// * Driver: none.
    pub fn ferry_device_find(instance: *const ferry_instance, uuid: *const u8, luid: *const u8, device: *mut i32) -> Status;

    /// Retains the device's primary context for the caller. Each call needs one ferry_context_release_primary.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while the driver makes the context, on the first retain in the process (up to hundreds of ms).
    /// * Ownership: one reference to *context is the caller's.
    /// * Errors: the common errors.
    /// * Driver: cuDevicePrimaryCtxRetain.
    pub fn ferry_context_retain_primary(instance: *mut ferry_instance, device: i32, context: *mut *mut CUctx_st, error: *mut ferry_error_info) -> Status;

    /// Releases one reference to the device's primary context.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as the driver, if this was the last reference in the process.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuDevicePrimaryCtxRelease.
    pub fn ferry_context_release_primary(instance: *mut ferry_instance, device: i32) -> Status;

    /// Creates a context of the caller's own on `device`. Unlike cuCtxCreate it does not become current.
    ///
    /// * NULL: `error`.
    /// * Values: `flags`: CUctx_flags; 0 is the driver's default.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while the driver makes the context.
    /// * Ownership: *context is the caller's until ferry_context_destroy.
    /// * Errors: the common errors.
    /// * Driver: cuCtxCreate (as of CUDA 3.2), cuCtxPopCurrent.
    pub fn ferry_context_create(instance: *mut ferry_instance, device: i32, flags: u32, context: *mut *mut CUctx_st, error: *mut ferry_error_info) -> Status;

    /// Destroys a context made by ferry_context_create, with everything in it. If it was adopted, ferry returns to
    /// the device's primary context. No thread may have the context current, and no other call may be using it.
    /// First calls ferry_options.trace for the calls in this context that are not reported as done yet.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until the context's work has ended, and kernels of helpers (ferry_multilink_set) that come late.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuCtxDestroy.
    pub fn ferry_context_destroy(instance: *mut ferry_instance, context: *mut CUctx_st) -> Status;

    /// Makes ferry use the program's `context` for the context's device instead of the primary one, from the next
    /// call on. `device` is read only if `context` is NULL: it then returns to its primary context. The staging
    /// buffer stays in the primary context in any case; the first staged copy retains that.
    ///
    /// * NULL: `context`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; calls already running on other threads may still use the former context.
    /// * Blocking: never.
    /// * Ownership: the context stays the caller's and must live until another is adopted or the instance is
    ///   closed.
    /// * Errors: the common errors; the driver's own for an invalid context.
    /// * Driver: cuCtxPushCurrent, cuCtxGetDevice, cuCtxPopCurrent.
    pub fn ferry_context_adopt(instance: *mut ferry_instance, device: i32, context: *mut CUctx_st) -> Status;

    /// Makes `context` current on the calling thread, on top of its current one; `device` is then not read. NULL:
    /// pushes the context that ferry uses for `device`.
    ///
    /// * NULL: `context`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; affects only the calling thread.
    /// * Blocking: as ferry_context_retain_primary, if `context` is NULL and the primary one was not retained yet.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuCtxPushCurrent.
    pub fn ferry_context_push(instance: *mut ferry_instance, device: i32, context: *mut CUctx_st) -> Status;

    /// Pops the calling thread's current context, and stores it in *context unless `context` is NULL.
    ///
    /// * NULL: `context`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; affects only the calling thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_NO_CONTEXT if there was none.
    /// * Driver: cuCtxPopCurrent.
    pub fn ferry_context_pop(instance: *mut ferry_instance, context: *mut *mut CUctx_st) -> Status;

    /// Stores the calling thread's current context in *context; NULL if there is none.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuCtxGetCurrent.
    pub fn ferry_context_get_current(instance: *mut ferry_instance, context: *mut *mut CUctx_st) -> Status;

    /// Waits until all work of `context` has ended; `device` is then not read. NULL: waits for the context that
    /// ferry uses for `device`, which need not be the thread's current one.
    ///
    /// * NULL: `context`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until the work has ended. Calls for one device take turns, also with those of ferry_pool_destroy
    ///   and others that wait for a context: CUDA 13.0 can deadlock when two threads do so at once.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; late errors of earlier work.
    /// * Driver: cuCtxSynchronize.
    pub fn ferry_context_synchronize(instance: *mut ferry_instance, device: i32, context: *mut CUctx_st) -> Status;

    /// Creates a stream on `device`. `priority`: 0 is the lowest, negative numbers are more urgent, down to a limit
    /// that the driver applies; copies ignore it.
    ///
    /// * NULL: `error`.
    /// * Values: `flags`: FERRY_STREAM_NON_BLOCKING or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device.
    /// * Ownership: *stream, a CUstream, is the caller's until ferry_stream_destroy.
    /// * Errors: the common errors; FERRY_ERROR_FLAGS.
    /// * Driver: cuStreamCreateWithPriority.
    pub fn ferry_stream_create(instance: *mut ferry_instance, device: i32, flags: StreamFlags, priority: i32, stream: *mut *mut CUstream_st, error: *mut ferry_error_info) -> Status;

    /// Destroys a stream; work enqueued on it still completes. NULL does nothing. FERRY_STREAM_LEGACY and
    /// FERRY_STREAM_PER_THREAD are FERRY_ERROR_INVALID_ARGUMENT.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; no other call may be using the stream.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuStreamDestroy.
    pub fn ferry_stream_destroy(instance: *mut ferry_instance, stream: *mut CUstream_st) -> Status;

    /// Waits until all work enqueued on `stream` has ended. Default streams are those of the current context, else
    /// device 0's.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until the work has ended.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; late errors of earlier work.
    /// * Driver: cuStreamSynchronize.
    pub fn ferry_stream_synchronize(instance: *mut ferry_instance, stream: *mut CUstream_st) -> Status;

    /// Sets *done to 1 if all work enqueued on `stream` has ended, else to 0. A failure also sets 0, so a loop must
    /// check the status. Default streams as for ferry_stream_synchronize.
    ///
    /// * NULL: `stream`.
    /// * Values: `done`: 0 or 1.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; late errors of earlier work.
    /// * Driver: cuStreamQuery.
    pub fn ferry_stream_query(instance: *mut ferry_instance, stream: *mut CUstream_st, done: *mut i32) -> Status;

    /// Calls done(user, status) once the work enqueued on `stream` so far has ended, on a thread of the driver's,
    /// which holds back later work on the stream until `done` returns. `status` is 0, or what ended the work: a
    /// broken context calls `done` too, a destroyed one may not. Default streams as for ferry_stream_synchronize.
    ///
    /// * NULL: `stream`, `user`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: none. `done` must not call ferry or the driver, nor wait for a thread that does. It may be
    ///   called before this call returns, and after ferry_close.
    /// * Ownership: `user` must live until the call of `done`. If this call fails, `done` is not called.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT for NULL `done`; FERRY_ERROR_CAPTURE on a stream
    ///   that is being captured; FERRY_ERROR_OUT_OF_MEMORY.
    /// * Driver: cuStreamAddCallback.
    pub fn ferry_stream_notify(instance: *mut ferry_instance, stream: *mut CUstream_st, done: Option<unsafe extern "C" fn(*mut c_void, Status)>, user: *mut c_void, error: *mut ferry_error_info) -> Status;

    /// Makes later work on `stream` wait for the last record of `event`, on any device. It does not wait for an
    /// event that was never recorded. The event may be destroyed or recorded again at once. Default streams as for
    /// ferry_stream_synchronize.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU, only for the driver's lock while another thread frees (see Memory).
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuStreamWaitEvent.
    pub fn ferry_stream_wait_event(instance: *mut ferry_instance, stream: *mut CUstream_st, event: *mut CUevent_st) -> Status;

    /// Creates an event on `device`; it can be recorded on streams of that device.
    ///
    /// * NULL: `error`.
    /// * Values: `flags`: FERRY_EVENT_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never, except on first need as ferry_context_retain_primary.
    /// * Ownership: *event, a CUevent, is the caller's until ferry_event_destroy.
    /// * Errors: the common errors; FERRY_ERROR_FLAGS; _UNSUPPORTED for FERRY_EVENT_INTERPROCESS where the driver
    ///   shares no events (ferry_device_info.ipc_events).
    /// * Driver: cuEventCreate.
    pub fn ferry_event_create(instance: *mut ferry_instance, device: i32, flags: EventFlags, event: *mut *mut CUevent_st, error: *mut ferry_error_info) -> Status;

    /// Destroys an event; calls and streams that already wait for it are not affected.
    ///
    /// * NULL: `event`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; no other call may be using the event.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_IMPORTED for an event of another process (ferry_ipc_close_event).
    /// * Driver: cuEventDestroy.
    pub fn ferry_event_destroy(instance: *mut ferry_instance, event: *mut CUevent_st) -> Status;

    /// Records `event` after the work enqueued on `stream` so far. The stream must belong to the event's context.
    /// Default streams as for ferry_stream_synchronize: for an event of another device, name a stream.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU, only for the driver's lock while another thread frees (see Memory).
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; the driver's -1400 for a stream of another context.
    /// * Driver: cuEventRecord.
    pub fn ferry_event_record(instance: *mut ferry_instance, event: *mut CUevent_st, stream: *mut CUstream_st) -> Status;

    /// Waits until the work before the event's last record has ended; returns at once if it was never recorded.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until that work has ended.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; late errors of earlier work.
    /// * Driver: cuEventSynchronize.
    pub fn ferry_event_synchronize(instance: *mut ferry_instance, event: *mut CUevent_st) -> Status;

    /// Sets *done to 1 if the work before the event's last record has ended or the event was never recorded, else
    /// to 0. A failure also sets 0, so a loop must check the status.
    ///
    /// * NULL: none.
    /// * Values: `done`: 0 or 1.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; late errors of earlier work.
    /// * Driver: cuEventQuery.
    pub fn ferry_event_query(instance: *mut ferry_instance, event: *mut CUevent_st, done: *mut i32) -> Status;

    /// Stores the time from `start` to `end` in milliseconds, to about half a microsecond; negative if `end` passed
    /// first. Both events belong to one context and must have passed.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; the driver's -1600 if an event has not passed yet, and -1400 if one was never
    ///   recorded or has no timing, or if the two are of two contexts.
    /// * Driver: cuEventElapsedTime.
    pub fn ferry_event_elapsed_time(instance: *mut ferry_instance, start: *mut CUevent_st, end: *mut CUevent_st, milliseconds: *mut f32) -> Status;

    /// Allocates `size` bytes on `device`, aligned to 256 bytes or more. Size 0 is an error.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device, as cuMemAlloc may. Waits for running work if deferred frees keep more
    ///   than ferry_options.deferred_bytes, or if the device has no memory left and deferred frees keep some.
    /// * Ownership: *address is the caller's until ferry_device_free.
    /// * Errors: the common errors; the driver's -1002 if it is out of memory.
    /// * Driver: cuMemAlloc; before it, or before it is called again, as ferry_deferred_trim.
    pub fn ferry_device_alloc(instance: *mut ferry_instance, device: i32, size: u64, address: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Allocates `height` rows of `width` bytes on `device`, each row aligned well for elements of `element_size`
    /// bytes (4, 8 or 16; 0 counts as 4). *row_pitch is the bytes from one row to the next. A width or height of 0
    /// is an error.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device, as ferry_device_alloc.
    /// * Ownership: *address is the caller's until ferry_device_free.
    /// * Errors: the common errors; the driver's own for other element sizes.
    /// * Driver: cuMemAllocPitch, otherwise as ferry_device_alloc.
    pub fn ferry_device_alloc_pitched(instance: *mut ferry_instance, device: i32, width: u64, height: u64, element_size: u32, address: *mut u64, row_pitch: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Allocates `size` bytes of managed memory: one address for the host and every device, between which the
    /// driver moves the pages. The context of `device` allocates it. If ferry_device_info.concurrent_managed_access
    /// is 0, the host must not touch managed memory while any device has work. Size 0 is an error.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device.
    /// * Ownership: *address is the caller's until ferry_device_free.
    /// * Errors: the common errors; the driver's -1002 if it is out of memory.
    /// * Driver: cuMemAllocManaged, attached globally.
    pub fn ferry_managed_alloc(instance: *mut ferry_instance, device: i32, size: u64, address: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Frees memory of ferry_device_alloc, ferry_device_alloc_pitched, ferry_managed_alloc,
    /// ferry_device_alloc_async or ferry_pool_alloc_async. 0 is allowed.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the device has ended, as cuMemFree does.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS if it is neither device nor managed memory nor of a pool,
    ///   or was given to ferry_device_free_deferred; _IMPORTED for memory of another process
    ///   (ferry_ipc_close_memory) and of another API (ferry_external_memory_release).
    /// * Driver: cuPointerGetAttributes, cuMemFree.
    pub fn ferry_device_free(instance: *mut ferry_instance, address: u64) -> Status;

    /// A deferred free: frees memory of ferry_device_alloc or ferry_device_alloc_pitched in the order of `stream`,
    /// and waits for no work. The instance keeps the memory until the stream has passed. Then ferry_deferred_trim,
    /// a later allocation of ferry's on the device (see ferry_options.deferred_bytes) or ferry_close returns it to
    /// the driver. The stream must come after all work that uses the memory; it may be destroyed at once. 0 is
    /// allowed. Default streams are those of the memory's device.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU, only for the driver's lock while another thread frees.
    /// * Ownership: the memory is gone, though ferry_address_get_info knows it until the driver has it back.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS if it is not the beginning of such an allocation or was
    ///   freed already; _IMPORTED; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an error the
    ///   memory is still the caller's.
    /// * Driver: cuPointerGetAttributes, cuEventRecord; the first times cuEventCreate.
    pub fn ferry_device_free_deferred(instance: *mut ferry_instance, address: u64, stream: *mut CUstream_st) -> Status;

    /// Fills `info` with what is kept on `device`; for FERRY_DEVICE_UNKNOWN on all devices and in the host's
    /// memory.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: none.
    pub fn ferry_deferred_get_info(instance: *mut ferry_instance, device: i32, info: *mut ferry_deferred_info) -> Status;

    /// Returns memory and arrays kept on `device` to the driver, oldest first, until at most `keep` bytes are left
    /// there. For FERRY_DEVICE_UNKNOWN on each device, and in the host's memory. Anything that its stream has not
    /// passed yet stays.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the device has ended, as ferry_device_free, if there is anything to
    ///   return.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; the driver's own: whatever it refused to free stays.
    /// * Driver: cuEventQuery; cuArrayDestroy, cuMipmappedArrayDestroy, cuMemFree, cuDestroyExternalMemory,
    ///   cuDestroyExternalSemaphore; as ferry_host_free.
    pub fn ferry_deferred_trim(instance: *mut ferry_instance, device: i32, keep: u64) -> Status;

    /// Allocates `size` bytes of pinned host memory, usable and mapped on every device, aligned to a page, with
    /// undefined contents. Size 0 is an error. NULL `options` are the defaults; fields whose flag or mode is not
    /// set are not read. Fills `block`, whose struct_size must include the field ferry_host_block.size.
    ///
    /// ferry maps the memory in huge pages where the system gives them, touches it from several threads and
    /// registers it with the driver: several times as fast as the driver's own allocation. If that fails, and for
    /// the flags _WRITE_COMBINED and _BY_DRIVER, the driver allocates it. If the driver fails too,
    /// FERRY_HOST_ALLOW_SMALLER tries half as much, and half of that, down to min_size; then
    /// FERRY_HOST_ALLOW_PAGEABLE takes the whole size unpinned.
    ///
    /// The child of a fork does not have memory that ferry maps. With FERRY_HOST_SHARED it shares the memory, as it
    /// shares the driver's. In small pages (usual before Linux 6.1) ferry's own then takes longer, but still less
    /// than the driver's.
    ///
    /// * NULL: `options`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: tens of milliseconds per GiB, with _WRITE_COMBINED or _BY_DRIVER hundreds. Starts and ends
    ///   threads. Waits for running work if ferry_host_free_deferred keeps more than ferry_options.deferred_bytes,
    ///   or if no memory is left and it keeps some.
    /// * Ownership: block-\>address is the caller's until ferry_host_free or ferry_host_free_deferred on the same
    ///   instance. The memory stays pinned until the end of the context that it was made in: the current one, else
    ///   ferry's for device 0. The child of a fork must not free it.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _FLAGS, _DEVICE name the option in
    ///   `error` (a node that does not exist: _INVALID_ARGUMENT, numa_node); _OUT_OF_MEMORY; the driver's -1002 if
    ///   it is out of memory.
    /// * Driver: cuMemHostRegister, else cuMemHostAlloc, with PORTABLE and DEVICEMAP.
    pub fn ferry_host_alloc(instance: *mut ferry_instance, size: u64, options: *const ferry_host_options, block: *mut ferry_host_block, error: *mut ferry_error_info) -> Status;

    /// Frees memory that ferry_host_alloc of the same instance returned.
    ///
    /// * NULL: `address`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the devices has ended.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS for memory of a pinned pool, for registered memory, and for
    ///   memory given to ferry_host_free_deferred; the driver's own for an unknown address (freed twice, for
    ///   example).
    /// * Driver: cuMemHostUnregister or cuMemFreeHost.
    pub fn ferry_host_free(instance: *mut ferry_instance, address: *mut c_void) -> Status;

    /// A deferred free: frees memory of ferry_host_alloc in the order of `stream`, and waits for no work. The
    /// instance keeps the memory until the stream has passed. Then ferry_deferred_trim for FERRY_DEVICE_UNKNOWN, a
    /// later ferry_host_alloc (see ferry_options.deferred_bytes) or ferry_close frees it. Host memory lies on no
    /// device: it counts only for FERRY_DEVICE_UNKNOWN. The stream must come after all work that uses the memory;
    /// it may be destroyed at once. The host must not use the memory any more.
    ///
    /// * NULL: `address`, `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_device_free_deferred.
    /// * Ownership: the memory is gone, though ferry_address_get_info knows it until it is freed.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS if it is not the beginning of such a block or was freed
    ///   already, and as for ferry_host_free; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an
    ///   error the memory is still the caller's.
    /// * Driver: cuPointerGetAttributes, cuEventRecord; the first times cuEventCreate.
    pub fn ferry_host_free_deferred(instance: *mut ferry_instance, address: *mut c_void, stream: *mut CUstream_st) -> Status;

    /// Pins `size` bytes of the caller's own memory in place, for every device. Size 0 is an error. Memory larger
    /// than ferry_options.register_chunk is registered in pieces of that size: all of them or, on failure, none.
    /// Copies and fills on the same instance may cross from one piece or registration into the next, and copies may
    /// leave them for pageable memory. The driver refuses such a call; ferry then makes one call for each part (see
    /// ferry_copy). The program's own calls of the driver must stay within one piece.
    ///
    /// * NULL: `error`.
    /// * Values: `flags`: FERRY_REGISTER_READ_ONLY, which the driver refuses for memory of files, or 0.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: yes: pages are faulted in and pinned.
    /// * Ownership: the memory stays the caller's and must stay mapped until ferry_host_unregister; the
    ///   registration ends with its context, as for ferry_host_alloc.
    /// * Errors: the common errors; FERRY_ERROR_FLAGS, _OVERFLOW, _OUT_OF_MEMORY; the driver's -1712 if any part is
    ///   already registered. Nothing is registered then.
    /// * Driver: cuMemHostRegister with PORTABLE and DEVICEMAP, once for each piece.
    pub fn ferry_host_register(instance: *mut ferry_instance, address: *mut c_void, size: u64, flags: RegisterFlags, error: *mut ferry_error_info) -> Status;

    /// Undoes ferry_host_register; `address` is the one given there.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the devices has ended.
    /// * Ownership: the memory is the caller's as before.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS for what ferry itself registered (ferry_host_free takes
    ///   that); the driver's -1713 if it is not registered. If the driver refuses one piece, ferry unregisters the
    ///   others and returns the first error: there is nothing left to try again.
    /// * Driver: cuMemHostUnregister, once for each piece.
    pub fn ferry_host_unregister(instance: *mut ferry_instance, address: *mut c_void) -> Status;

    /// Fills `info` with what lies at `address`. An address that the driver does not know is pageable. Memory of a
    /// host pool is pinned for devices that have access to the pool, and pageable for the others. The call reports
    /// the kind for the current context's device, else for device 0. In a copy between such memory and another
    /// device's memory, SOURCE_READ and DESTINATION_WRITTEN apply unless both that device and the copy's own have
    /// access.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuPointerGetAttributes.
    pub fn ferry_address_get_info(instance: *mut ferry_instance, address: u64, info: *mut ferry_address_info) -> Status;

    /// Creates a CUDA array on `device`: 1D, 2D, 3D, layered or cubemap. Copies take any other CUarray too.
    ///
    /// ferry identifies the array by its handle. Destroy it with ferry_array_destroy (a mipmapped one with
    /// ferry_mipmapped_array_destroy) on the instance that made it. The driver's own call or another instance may
    /// destroy it only after this instance is closed: otherwise a later array with the same handle would be read
    /// wrongly, or be refused on its device.
    ///
    /// With FERRY_ARRAY_SURFACE and a format of plain texels (neither compressed nor video), ferry's kernels can
    /// read the array in the context it was made in: whole arrays reach the device's memory up to 1.8 times as fast
    /// (H200). From the first copy by a kernel on, ferry keeps a surface of such an array.
    ///
    /// An array given to ferry_array_destroy_async is reused for an equal description on the same device, once its
    /// stream has passed. Its contents are undefined, as in a new array.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device, as ferry_device_alloc; never if an array is reused.
    /// * Ownership: *array, a CUarray, is the caller's until ferry_array_destroy or ferry_array_destroy_async.
    /// * Errors: the common errors; FERRY_ERROR_FLAGS; _ARRAY_FORMAT for a format that the driver does not have, or
    ///   a number of channels that the format does not have; the driver's own for unsupported sizes.
    /// * Driver: cuArray3DCreate, or cuEventQuery if an array is reused; and as ferry_device_alloc.
    pub fn ferry_array_create(instance: *mut ferry_instance, device: i32, desc: *const ferry_array_desc, array: *mut *mut CUarray_st, error: *mut ferry_error_info) -> Status;

    /// Destroys an array.
    ///
    /// * NULL: `array`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the device has ended.
    /// * Ownership: the array is gone. Graphs that copy from it may not run any more.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an array given to
    ///   ferry_array_destroy_async.
    /// * Driver: cuArrayDestroy; cuSurfObjectDestroy after it, if a kernel has read the array.
    pub fn ferry_array_destroy(instance: *mut ferry_instance, array: *mut CUarray_st) -> Status;

    /// Destroys an array of ferry_array_create in the order of `stream`, and waits for no work. CUDA has no such
    /// call, so the instance keeps the array. Once the stream has passed, ferry_array_create reuses it for an equal
    /// description; ferry_deferred_trim, a later allocation of ferry's on the device (see
    /// ferry_options.deferred_bytes) and ferry_close destroy it. The stream must come after all work that uses the
    /// array; it may be destroyed at once. Default streams are those of the array's device.
    ///
    /// * NULL: `array`, `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_device_free_deferred.
    /// * Ownership: the array and its planes are gone. First destroy its texture and surface objects: they would
    ///   name the array of its next owner. Graphs that copy from it may not run any more.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an array that another instance or the
    ///   driver made, for a level, and for an array already destroyed in this way; _CAPTURE on a stream that is
    ///   being captured; _OUT_OF_MEMORY. After an error the array is still the caller's.
    /// * Driver: cuEventRecord; the first times cuEventCreate.
    pub fn ferry_array_destroy_async(instance: *mut ferry_instance, array: *mut CUarray_st, stream: *mut CUstream_st) -> Status;

    /// Creates a mipmapped array: `levels` arrays, each of half the width, height and depth of the one before,
    /// rounded down and at least 1; layers and faces are not halved. `levels` of 0, or above the maximum, creates
    /// the maximum number. FERRY_ARRAY_SURFACE means for each level what it means for ferry_array_create. A
    /// mipmapped array given to ferry_mipmapped_array_destroy_async is reused if the description and the number of
    /// levels are equal.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_array_create.
    /// * Ownership: *mipmapped, a CUmipmappedArray, is the caller's until ferry_mipmapped_array_destroy or
    ///   ferry_mipmapped_array_destroy_async.
    /// * Errors: the common errors; as ferry_array_create.
    /// * Driver: cuMipmappedArrayCreate, otherwise as ferry_array_create.
    pub fn ferry_mipmapped_array_create(instance: *mut ferry_instance, device: i32, desc: *const ferry_array_desc, levels: u32, mipmapped: *mut *mut CUmipmappedArray_st, error: *mut ferry_error_info) -> Status;

    /// Stores level number `level` of a mipmapped array in *array. Copies take it like any other array. Level 0 is
    /// the largest.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *array belongs to the mipmapped array and ends with it; it must not be destroyed by itself.
    /// * Errors: the common errors; the driver's -1001 if there is no such level.
    /// * Driver: cuMipmappedArrayGetLevel.
    pub fn ferry_mipmapped_array_get_level(instance: *mut ferry_instance, mipmapped: *mut CUmipmappedArray_st, level: u32, array: *mut *mut CUarray_st) -> Status;

    /// Destroys a mipmapped array with all its levels, also one of ferry_external_memory_get_array.
    ///
    /// * NULL: `mipmapped`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the device has ended.
    /// * Ownership: the arrays are gone. Graphs that copy from them may not run any more.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an array given to
    ///   ferry_mipmapped_array_destroy_async.
    /// * Driver: cuMipmappedArrayDestroy; cuSurfObjectDestroy after it, for each level that a kernel has read.
    pub fn ferry_mipmapped_array_destroy(instance: *mut ferry_instance, mipmapped: *mut CUmipmappedArray_st) -> Status;

    /// ferry_array_destroy_async for a mipmapped array with all its levels. An array of
    /// ferry_external_memory_get_array is never reused: ferry_deferred_trim, a later allocation, ferry_close and
    /// the release of its memory destroy it.
    ///
    /// * NULL: `mipmapped`, `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_device_free_deferred.
    /// * Ownership: as ferry_array_destroy_async.
    /// * Errors: the common errors; as ferry_array_destroy_async.
    /// * Driver: as ferry_array_destroy_async.
    pub fn ferry_mipmapped_array_destroy_async(instance: *mut ferry_instance, mipmapped: *mut CUmipmappedArray_st, stream: *mut CUstream_st) -> Status;

    /// Stores plane number `plane` of an array in a planar video format in *plane_array. Copies take it like any
    /// other array. Luma is plane 0; the chroma planes follow, smaller where the format subsamples them.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *plane_array belongs to `array` and ends with it; it must not be destroyed by itself.
    /// * Errors: the common errors; the driver's -1001 if there is no such plane or the format is not planar.
    /// * Driver: cuArrayGetPlane.
    pub fn ferry_array_get_plane(instance: *mut ferry_instance, array: *mut CUarray_st, plane: u32, plane_array: *mut *mut CUarray_st) -> Status;

    /// Fills `desc` from any CUarray. *element_size, unless NULL, is the size of one element in bytes: for
    /// block-compressed formats, whose copies count blocks, of a block of 4 x 4 texels; 0 for planar formats, which
    /// have no such size.
    ///
    /// * NULL: `element_size`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never, except on a thread without a context as ferry_context_retain_primary.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; the driver's own for a handle that is no array, if the driver detects it.
    /// * Driver: cuArray3DGetDescriptor.
    pub fn ferry_array_get_info(instance: *mut ferry_instance, array: *mut CUarray_st, desc: *mut ferry_array_desc, element_size: *mut u32) -> Status;

    /// Creates a pool. The pool takes memory from the system as needed and keeps it until ferry_pinned_pool_trim or
    /// _destroy. For each size of blocks it takes 64 KiB or more at once, in larger pieces as it holds more of
    /// them, up to 2 MiB; less near the limit. All of it is pinned in the context that ferry uses for `device` of
    /// FERRY_NUMA_DEVICE, else for device 0, whatever context is current. That context must not end before the
    /// pool.
    ///
    /// * NULL: `options`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *pool is the caller's until ferry_pinned_pool_destroy, which must come before ferry_close.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _FLAGS, _DEVICE, _RESERVED name
    ///   the option in `error`; _OUT_OF_MEMORY.
    /// * Driver: none.
    pub fn ferry_pinned_pool_create(instance: *mut ferry_instance, options: *const ferry_pinned_pool_options, pool: *mut *mut ferry_pinned_pool, error: *mut ferry_error_info) -> Status;

    /// Destroys a pool and releases its memory.
    ///
    /// * NULL: `pool`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: no other call on this pool may run meanwhile, nor later unless this one returned
    ///   FERRY_ERROR_IN_USE.
    /// * Blocking: until the streams have passed the frees, as ferry_host_free.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_IN_USE while blocks are allocated: the pool is then unchanged. A
    ///   pool still in use at ferry_close is leaked. After an error of the driver's own the pool is gone all the
    ///   same, and memory that the driver did not take back is lost.
    /// * Driver: cuEventSynchronize, cuEventDestroy; as ferry_host_free.
    pub fn ferry_pinned_pool_destroy(pool: *mut ferry_pinned_pool) -> Status;

    /// Allocates `size` bytes that the host may use at once: no stream uses them any more. Aligned to 256 bytes,
    /// and to 4096 if `size` is a multiple of 4096 or more than 30 KiB. Sizes are rounded up to classes, eight to
    /// each power of two from 2 KiB on: at most an eighth of a block is wasted, below 2 KiB at most 255 bytes. Size
    /// 0 is an error.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: only if the pool has to grow, as ferry_host_alloc; and, as ferry_host_free, if its limit makes
    ///   it release free blocks of other sizes first.
    /// * Ownership: *address is the caller's until it is freed, on a stream or not.
    /// * Errors: the common errors; FERRY_ERROR_LIMIT if neither free blocks nor the pool's limit suffice: a later
    ///   call may succeed, once streams have passed their frees, unless `size` itself exceeds the limit; as
    ///   ferry_host_alloc.
    /// * Driver: cuEventQuery for blocks that were freed on a stream; as ferry_host_alloc.
    pub fn ferry_pinned_pool_alloc(pool: *mut ferry_pinned_pool, size: u64, address: *mut *mut c_void, error: *mut ferry_error_info) -> Status;

    /// Allocates `size` bytes for later work on `stream`. The host must wait until the stream has reached this
    /// point before using them. A block that was freed on the same stream is reused at once. If the pool is at its
    /// limit or cannot grow, `stream` waits for a block that was freed on another stream.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_pinned_pool_alloc; it does not wait for streams.
    /// * Ownership: as ferry_pinned_pool_alloc. If the block is freed on another stream, that stream must come
    ///   after `stream`.
    /// * Errors: the common errors; as ferry_pinned_pool_alloc, and FERRY_ERROR_CAPTURE for a stream that is being
    ///   captured.
    /// * Driver: cuCtxGetId, cuStreamGetId, cuStreamIsCapturing; cuStreamWaitEvent for a block that is still in
    ///   use; cuEventQuery; as ferry_host_alloc.
    pub fn ferry_pinned_pool_alloc_async(pool: *mut ferry_pinned_pool, size: u64, stream: *mut CUstream_st, address: *mut *mut c_void, error: *mut ferry_error_info) -> Status;

    /// Frees a block that none of the caller's work uses any more. If ferry_pinned_pool_alloc_async made its stream
    /// wait for the block, the pool does not reuse the block before that earlier work has ended. May also be called
    /// from a host function of a stream.
    ///
    /// * NULL: `address`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never, not even while other threads are in the driver.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS if it is no block of this pool, or was freed already.
    /// * Driver: none.
    pub fn ferry_pinned_pool_free(pool: *mut ferry_pinned_pool, address: *mut c_void) -> Status;

    /// Frees a block in stream order: once `stream` has passed the work enqueued on it so far. NULL for `address`
    /// is allowed. Default streams as for ferry_stream_synchronize.
    ///
    /// * NULL: `address`, `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: the block is gone; the stream may be destroyed at once.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS as for ferry_pinned_pool_free; _CAPTURE for a stream that
    ///   is being captured; _OUT_OF_MEMORY. After an error the block is still the caller's.
    /// * Driver: cuCtxGetId, cuStreamGetId, cuStreamIsCapturing, cuEventRecord, cuEventCreate on first need.
    pub fn ferry_pinned_pool_free_async(pool: *mut ferry_pinned_pool, address: *mut c_void, stream: *mut CUstream_st) -> Status;

    /// Releases memory to the system until the pool holds at most `keep` bytes. Memory with a block that is
    /// allocated or waits for its stream stays.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_host_free, if there is memory to release.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuEventQuery; as ferry_host_free.
    pub fn ferry_pinned_pool_trim(pool: *mut ferry_pinned_pool, keep: u64) -> Status;

    /// Fills `stats`.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuEventQuery.
    pub fn ferry_pinned_pool_get_stats(pool: *mut ferry_pinned_pool, stats: *mut ferry_pool_stats) -> Status;

    /// Resets both high-water marks to the current values.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuEventQuery.
    pub fn ferry_pinned_pool_reset_stats(pool: *mut ferry_pinned_pool) -> Status;

    /// Allocates `size` bytes from the current pool of `device`, in the order of `stream`: work enqueued there from
    /// now on may use the memory, and so may work elsewhere after an event. FERRY_DEVICE_UNKNOWN means the stream's
    /// own device; with a default stream the device must be named (else _DEVICE). The current context never decides
    /// where memory lies. Size 0 gives an address of no bytes, which may be 0.
    ///
    /// Under capture the allocation becomes part of the graph. Until the graph is launched the driver does not know
    /// the address, so copies and fills of it must state kind DEVICE and the device.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU; while a pool grows, tens of microseconds to milliseconds.
    /// * Ownership: *address is the caller's until ferry_device_free_async or ferry_device_free.
    /// * Errors: the common errors; the driver's -1002 if it is out of memory.
    /// * Driver: cuMemAllocAsync; cuDeviceGetMemPool and cuMemAllocFromPoolAsync for another device than the
    ///   stream's.
    pub fn ferry_device_alloc_async(instance: *mut ferry_instance, device: i32, size: u64, stream: *mut CUstream_st, address: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Frees memory of ferry_device_alloc_async, ferry_pool_alloc_async or ferry_device_alloc in the order of
    /// `stream`. The stream must come after all work that uses the memory. 0 is allowed. Default streams are those
    /// of the memory's device. ferry_device_free takes stream-ordered memory too, and waits.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: does not wait for the GPU, except that the driver may for memory of ferry_device_alloc.
    /// * Ownership: the memory is gone, also for ferry_address_get_info and full checks, from this call on.
    /// * Errors: the common errors; FERRY_ERROR_IMPORTED for memory of another process (ferry_ipc_close_memory);
    ///   _ADDRESS for an address that is not the beginning of an allocation or was freed already. Memory of
    ///   ferry_device_alloc that is freed twice in stream order is not detected: the process may crash, as with the
    ///   driver.
    /// * Driver: cuMemFreeAsync.
    pub fn ferry_device_free_async(instance: *mut ferry_instance, address: u64, stream: *mut CUstream_st) -> Status;

    /// Creates a pool. Devices have no access to a pool in host memory before ferry_pool_set_access; without access
    /// copies work, but as slowly as with pageable memory. A pool of FERRY_LOCATION_HOST cannot be shared.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device.
    /// * Ownership: *pool, a CUmemoryPool, is the caller's until ferry_pool_destroy.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _DEVICE, _UNSUPPORTED name the
    ///   field in `error` (a node that does not exist: _INVALID_ARGUMENT, index).
    /// * Driver: cuMemPoolCreate.
    pub fn ferry_pool_create(instance: *mut ferry_instance, desc: *const ferry_pool_desc, pool: *mut *mut CUmemPoolHandle_st, error: *mut ferry_error_info) -> Status;

    /// Destroys a pool. All of its memory must have been freed: the driver would accept a pool in use, and end the
    /// process some time later (CUDA 13.0). If the pool was current for its location, the default pool is current
    /// again.
    ///
    /// * NULL: `pool`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; no other call may be using the pool.
    /// * Blocking: until the streams have passed the frees of its memory. If some have not, the call waits for all
    ///   work of the current context, of the contexts that ferry uses and of the primary contexts, so it may wait
    ///   and then return FERRY_ERROR_IN_USE. Streams of any other context must have passed their frees before the
    ///   call. May wait for the device.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_IN_USE while memory from it is allocated: the pool is then
    ///   unchanged; _INVALID_ARGUMENT for the default pool; _IMPORTED for a pool of another process
    ///   (ferry_ipc_close_pool).
    /// * Driver: cuMemPoolGetAttribute, cuMemPoolTrimTo, cuCtxSynchronize, cuMemPoolDestroy.
    pub fn ferry_pool_destroy(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st) -> Status;

    /// Stores the default pool of a location in *pool. It can be neither destroyed nor shared. `index` is as in
    /// ferry_pool_desc.
    ///
    /// * NULL: none.
    /// * Values: `location`: FERRY_LOCATION_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *pool is the driver's.
    /// * Errors: the common errors; FERRY_ERROR_UNSUPPORTED for locations other than devices before CUDA 13.0.
    /// * Driver: cuDeviceGetDefaultMemPool, cuMemGetDefaultMemPool.
    pub fn ferry_pool_get_default(instance: *mut ferry_instance, location: Location, index: i32, pool: *mut *mut CUmemPoolHandle_st) -> Status;

    /// Stores the current pool of a location in *pool: ferry_device_alloc_async allocates from it. Until another
    /// pool is set, it is the default pool. It is the same for the whole process.
    ///
    /// * NULL: none.
    /// * Values: `location`: FERRY_LOCATION_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *pool belongs to its owner as before.
    /// * Errors: the common errors; as ferry_pool_get_default.
    /// * Driver: cuDeviceGetMemPool, cuMemGetMemPool.
    pub fn ferry_pool_get_current(instance: *mut ferry_instance, location: Location, index: i32, pool: *mut *mut CUmemPoolHandle_st) -> Status;

    /// Makes `pool` the current one of a location, for the whole process. The pool must be of that location.
    ///
    /// * NULL: none.
    /// * Values: `location`: FERRY_LOCATION_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: the pool stays the caller's.
    /// * Errors: the common errors; as ferry_pool_get_default; FERRY_ERROR_IMPORTED for a pool of another process.
    /// * Driver: cuDeviceSetMemPool, cuMemSetMemPool.
    pub fn ferry_pool_set_current(instance: *mut ferry_instance, location: Location, index: i32, pool: *mut CUmemPoolHandle_st) -> Status;

    /// Allocates `size` bytes from `pool` in the order of `stream`, which may be of another device than the pool.
    /// Default streams are those of the pool's device; for pools in host memory, of the current context, else of
    /// device 0. The host may use the address of memory from a pool in host memory too.
    ///
    /// * NULL: `stream`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_device_alloc_async.
    /// * Ownership: as ferry_device_alloc_async.
    /// * Errors: the common errors; FERRY_ERROR_IMPORTED for a pool of another process, which cannot allocate; the
    ///   driver's -1002 if it is out of memory or the pool is at its max_size.
    /// * Driver: cuMemAllocFromPoolAsync.
    pub fn ferry_pool_alloc_async(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, size: u64, stream: *mut CUstream_st, address: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Fills `info`.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never, except for a pool that ferry did not create and that is not current: it allocates a byte
    ///   there.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: none, or cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuMemAllocFromPoolAsync,
    ///   cuPointerGetAttributes, cuMemFreeAsync.
    pub fn ferry_pool_get_info(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, info: *mut ferry_pool_info) -> Status;

    /// Fills `attributes`.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_IMPORTED for a pool of another process.
    /// * Driver: cuMemPoolGetAttribute.
    pub fn ferry_pool_get_attributes(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, attributes: *mut ferry_pool_attributes) -> Status;

    /// Sets all attributes; to change some, get all of them first. Attributes beyond the end of a shorter struct
    /// keep their values.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_pool_get_attributes; FERRY_ERROR_INVALID_ARGUMENT for flags that are
    ///   neither 0 nor 1. If the driver refuses an attribute, others may already be set.
    /// * Driver: cuMemPoolSetAttribute.
    pub fn ferry_pool_set_attributes(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, attributes: *const ferry_pool_attributes) -> Status;

    /// Fills `stats` with this process's share.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; the numbers are read one after the other.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_pool_get_attributes.
    /// * Driver: cuMemPoolGetAttribute.
    pub fn ferry_pool_get_stats(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, stats: *mut ferry_pool_stats) -> Status;

    /// Resets both high-water marks to the current values.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_pool_get_attributes.
    /// * Driver: cuMemPoolSetAttribute.
    pub fn ferry_pool_reset_stats(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st) -> Status;

    /// Releases memory that is not allocated, until the pool holds at most `keep` bytes or nothing more can be
    /// released.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_pool_get_attributes.
    /// * Driver: cuMemPoolTrimTo.
    pub fn ferry_pool_trim(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, keep: u64) -> Status;

    /// Gives `device` access to all memory of `pool`, or removes that access. Before it removes access, the call
    /// waits for the work of ferry's context for `device`; the program must wait for other work on the device
    /// itself. Peer access between contexts does not give access to pools. ferry first asks the driver whether
    /// `device` can have access, and asks again after setting it. Once for each pool and device, ferry sends data
    /// there and back, because on some machines such data was lost without an error. An imported pool is accepted
    /// without that test, since nothing can be allocated from it.
    ///
    /// * NULL: none.
    /// * Values: `access`: FERRY_ACCESS_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while the driver maps the memory, milliseconds; FERRY_ACCESS_NONE also as
    ///   ferry_context_synchronize.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_PEER_ACCESS if `device` cannot reach the pool's device or the data
    ///   was lost: access is then as before; _DEVICE also for FERRY_ACCESS_NONE on the pool's own device
    ///   (READ_WRITE succeeds there); _INVALID_ARGUMENT for other values of `access`.
    /// * Driver: cuDeviceCanAccessPeer, cuMemPoolSetAccess, cuMemPoolGetAccess; the first time
    ///   cuStreamCreateWithPriority, cuMemAlloc, cuMemAllocFromPoolAsync, cuMemcpy3DAsync, cuStreamSynchronize,
    ///   cuMemFreeAsync, cuMemFree, cuStreamDestroy.
    pub fn ferry_pool_set_access(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, device: i32, access: Access) -> Status;

    /// Sets *access to the access of `device` to memory of `pool`.
    ///
    /// * NULL: none.
    /// * Values: `access`: FERRY_ACCESS_*.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: cuMemPoolGetAccess.
    pub fn ferry_pool_get_access(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, device: i32, access: *mut Access) -> Status;

    /// Fills `info` from a handle, without importing it.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE for bytes that are no handle, are cut off or have changed,
    ///   and for a handle of a later version.
    /// * Driver: none.
    pub fn ferry_ipc_get_info(instance: *mut ferry_instance, handle: *const ferry_ipc_handle, info: *mut ferry_ipc_info) -> Status;

    /// Makes a handle for `size` bytes from `address` on; 0: to the end of the allocation. The importer maps the
    /// whole allocation. For memory from a pool, first export the pool through the same instance.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: the memory stays the caller's and must live until the importer has closed it.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS for an address that the driver does not know;
    ///   _OUT_OF_BOUNDS; _NOT_SHAREABLE for other kinds of memory, for memory of a pool that was not exported, and
    ///   for imported memory.
    /// * Driver: cuPointerGetAttributes, cuIpcGetMemHandle or cuMemPoolExportPointer.
    pub fn ferry_ipc_export_memory(instance: *mut ferry_instance, address: u64, size: u64, handle: *mut ferry_ipc_handle, error: *mut ferry_error_info) -> Status;

    /// Makes a handle for a pool, with one of the handle types it was created with. With FERRY_HANDLE_POSIX_FD,
    /// *os_handle is a file descriptor that must be sent too, over a Unix socket; with FERRY_HANDLE_WIN32 it is a
    /// HANDLE. With FERRY_HANDLE_FABRIC everything is in `handle`, and *os_handle is -1. After a failure it is -1
    /// too.
    ///
    /// * NULL: `error`.
    /// * Values: `handle_type`: FERRY_HANDLE_*, one of them.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *os_handle is the caller's to close; the pool stays the caller's.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT for a handle_type that is not one of the four;
    ///   _NOT_SHAREABLE for the default pool, for a pool without that handle type and for an imported pool.
    /// * Driver: cuMemPoolExportToShareableHandle; as ferry_pool_get_info to find the pool's location.
    pub fn ferry_ipc_export_pool(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st, handle_type: HandleTypes, handle: *mut ferry_ipc_handle, os_handle: *mut i64, error: *mut ferry_error_info) -> Status;

    /// Makes a handle for an event created with FERRY_EVENT_INTERPROCESS. For an event of ferry_event_create the
    /// handle names the device. For any other event it does not, because the driver does not report the device.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: the event stays the caller's.
    /// * Errors: the common errors; FERRY_ERROR_NOT_SHAREABLE for other events, and for imported ones.
    /// * Driver: cuIpcGetEventHandle.
    pub fn ferry_ipc_export_event(instance: *mut ferry_instance, event: *mut CUevent_st, handle: *mut ferry_ipc_handle, error: *mut ferry_error_info) -> Status;

    /// Maps memory of another process. *address is the address here of the first exported byte, on the device that
    /// the handle names, in the context that ferry uses for that device. Handles into one allocation share one
    /// mapping: an allocation that is imported twice has one address, and each import needs its own close. For
    /// memory from a pool, first import the pool through the same instance. A handle made by this process, through
    /// any instance, maps nothing: *address is the exported address.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while the driver maps the memory, tens of microseconds.
    /// * Ownership: *address is the caller's until ferry_ipc_close_memory; it must not be freed.
    /// * Errors: the common errors; FERRY_ERROR_KIND for the handle of a pool or event; _HANDLE for bytes that are
    ///   no handle, for a handle of a later version, for an offset or size beyond the memory that the driver has
    ///   mapped, and for an object that no longer exists (not always detected: only the exporter knows which memory
    ///   of a pool exists); _MACHINE for a handle made on another machine; _DEVICE for a device that this process
    ///   does not see; _POOL if the pool was not imported. Nothing has been mapped.
    /// * Driver: cuIpcOpenMemHandle or cuMemPoolImportPointer; cuPointerGetAttributes.
    pub fn ferry_ipc_import_memory(instance: *mut ferry_instance, handle: *const ferry_ipc_handle, address: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Imports a pool of another process, from its handle and the os_handle that was sent with it. An imported pool
    /// serves only to import memory (see ferry_pool_info.is_imported). Its own device has access; for others this
    /// process calls ferry_pool_set_access. A second import returns the same pool, needs a second close and does
    /// not read os_handle. For a pool that this instance exported, *pool is that pool. A pool that another instance
    /// of this process exported is imported like that of another process.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: milliseconds.
    /// * Ownership: os_handle stays the caller's, who may close it at once. *pool is the caller's until
    ///   ferry_ipc_close_pool.
    /// * Errors: the common errors; as ferry_ipc_import_memory; FERRY_ERROR_HANDLE also for an os_handle that is
    ///   not a pool's.
    /// * Driver: cuMemPoolImportFromShareableHandle.
    pub fn ferry_ipc_import_pool(instance: *mut ferry_instance, handle: *const ferry_ipc_handle, os_handle: i64, pool: *mut *mut CUmemPoolHandle_st, error: *mut ferry_error_info) -> Status;

    /// Imports an event of another process. Streams and calls can wait for it, query it and record it like any
    /// other; it has no timing. Each import makes a new event, in the context that ferry uses for the device that
    /// the handle names, else in the current context, else in device 0's. For an event that this instance exported,
    /// *event is that event.
    ///
    /// If the exporter dies before its stream has reached the record, the event never completes. A program that
    /// must not hang polls with ferry_event_query.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: on first need as ferry_context_retain_primary.
    /// * Ownership: *event is the caller's until ferry_ipc_close_event.
    /// * Errors: the common errors; as ferry_ipc_import_memory; FERRY_ERROR_HANDLE for an event of another instance
    ///   of this process. An event that its exporter has destroyed, while it still runs, is not detected.
    /// * Driver: cuIpcOpenEventHandle.
    pub fn ferry_ipc_import_event(instance: *mut ferry_instance, handle: *const ferry_ipc_handle, event: *mut *mut CUevent_st, error: *mut ferry_error_info) -> Status;

    /// Closes one import of memory; `address` is the imported address, or any within the memory. The last close
    /// unmaps it. Memory of a pool is unmapped in the order of `stream`, as by ferry_device_free_async: that stream
    /// must come after all use of any of the imports. Other memory is unmapped once running work on the device has
    /// ended; `stream` is then not read. 0 is allowed.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the device has ended, if this is the last close of memory that is not from
    ///   a pool; else never.
    /// * Ownership: the import is gone; the memory is still the exporter's.
    /// * Errors: the common errors; FERRY_ERROR_ADDRESS for an address that this instance has not imported;
    ///   _CAPTURE for memory of a pool and a stream that is being captured.
    /// * Driver: cuIpcCloseMemHandle or cuMemFreeAsync.
    pub fn ferry_ipc_close_memory(instance: *mut ferry_instance, address: u64, stream: *mut CUstream_st) -> Status;

    /// Closes one import of a pool. The last close destroys the imported pool.
    ///
    /// * NULL: `pool`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_POOL for a pool that this instance has not imported; _IN_USE while
    ///   memory from the pool is imported, also through another instance of this process, and possibly until the
    ///   stream has passed the close of such memory.
    /// * Driver: cuMemPoolDestroy.
    pub fn ferry_ipc_close_pool(instance: *mut ferry_instance, pool: *mut CUmemPoolHandle_st) -> Status;

    /// Closes one import of an event.
    ///
    /// * NULL: `event`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; no other call may be using the event.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an event that this instance has not
    ///   imported.
    /// * Driver: cuEventDestroy.
    pub fn ferry_ipc_close_event(instance: *mut ferry_instance, event: *mut CUevent_st) -> Status;

    /// Fills `info` for access by `device` to the memory of `peer`. Runs no probe.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE also for a device and itself.
    /// * Driver: cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute.
    pub fn ferry_peer_get_info(instance: *mut ferry_instance, device: i32, peer: i32, info: *mut ferry_peer_info) -> Status;

    /// Tests whether bytes arrive when `device` accesses the memory of `peer`: some machines report peer access and
    /// move nothing. Reads 64 KiB from the peer, writes as much to it and compares, in a context made for this on
    /// `device`. The result says nothing about `peer` accessing `device`. The test runs once per ordered pair and
    /// instance; later calls return the first result. Access between other contexts is unchanged.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: the first time, as ferry_context_create and ferry_context_retain_primary.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_PEER_ACCESS: there is no access, or the data was lost
    ///   (ferry_peer_get_info says which); _DEVICE also for a device and itself; _OUT_OF_MEMORY. After an error of
    ///   the driver's own no result is kept.
    /// * Driver: cuDeviceCanAccessPeer, cuThreadExchangeStreamCaptureMode, cuCtxCreate, cuCtxEnablePeerAccess,
    ///   cuStreamCreateWithPriority, cuMemAlloc, cuMemcpy3DPeerAsync, cuStreamSynchronize, cuMemFree,
    ///   cuStreamDestroy, cuCtxDestroy.
    pub fn ferry_peer_probe(instance: *mut ferry_instance, device: i32, peer: i32) -> Status;

    /// Gives `device` access to the memory of `peer`, between the contexts that ferry uses for the two. The first
    /// time, test data is then sent between these contexts, and the access is taken back if the data is lost.
    /// Access belongs to that pair of contexts, not to the instance, and is not counted: it lasts until any code in
    /// the process disables it or one of the contexts ends. ferry_close leaves it. After ferry_context_adopt call
    /// again. Access that is already enabled is a success.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while the driver maps the peer's memory; the first time also as ferry_peer_probe.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; as ferry_peer_probe.
    /// * Driver: cuDeviceCanAccessPeer, cuCtxEnablePeerAccess; the first time also the calls of ferry_peer_probe
    ///   but cuCtxCreate and cuCtxDestroy, and cuCtxDisablePeerAccess if the data is lost.
    pub fn ferry_peer_enable(instance: *mut ferry_instance, device: i32, peer: i32) -> Status;

    /// Undoes ferry_peer_enable. Access that is not enabled is a success. Later copies between the two still work;
    /// graphs and prepared batches made while there was access may not be launched any more.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe. Copies between the two that other threads enqueue meanwhile may fail, and their
    ///   context may be lost.
    /// * Blocking: until the work of both contexts has ended, which the driver's own call does not wait for. Breaks
    ///   a capture in either context.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE also for a device and itself. After an error access is as
    ///   before.
    /// * Driver: cuCtxSynchronize, cuCtxDisablePeerAccess.
    pub fn ferry_peer_disable(instance: *mut ferry_instance, device: i32, peer: i32) -> Status;

    /// Runs ferry_peer_probe, then measures copies from `device` to `peer` in each way that serves them: with
    /// access, if the probe passes; by the driver without access; and by FERRY_ROUTE_RELAYED. With access also
    /// copies between pinned memory and `peer` that `device` makes over its own link, as a helper of
    /// FERRY_COPY_MULTILINK. ferry_peer_get_info reports the rates. With them ferry plans copies from `device` to
    /// `peer` until this pair is calibrated again, a profile that has the pair is loaded, or ferry_close.
    /// ferry_profile_save keeps them. Access between other contexts is unchanged.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; two calibrations at once on one machine disturb each other.
    /// * Blocking: for two seconds at most on GPUs that are otherwise idle.
    /// * Ownership: takes up to 64 MiB of each device's memory, at most an eighth of what is free, or 8 MiB if that
    ///   is more; 40 MiB of pinned memory; and a context on each device, with streams and events. All of it is
    ///   released. The rates are the instance's.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE also for a device and itself; _OUT_OF_MEMORY; _UNSUPPORTED
    ///   for a driver without streams or events; late errors of earlier work. No access is no error. After an error
    ///   the rates are unchanged.
    /// * Driver: as ferry_peer_probe; cuMemGetInfo, cuEventCreate, those of ferry_host_alloc; many times
    ///   cuMemcpy3DPeerAsync, cuMemcpy3DAsync, cuLaunchKernel, cuEventQuery, cuEventRecord, cuStreamWaitEvent and
    ///   cuStreamSynchronize; and the calls that release all this. Loads kernels that are not loaded yet; with
    ///   FERRY_KERNELS_NONE the links are not measured.
    pub fn ferry_peer_calibrate(instance: *mut ferry_instance, device: i32, peer: i32, error: *mut ferry_error_info) -> Status;

    /// Lets copies with FERRY_COPY_MULTILINK between host memory and `device` take the host links of other devices:
    /// each helper runs a kernel on a stream of ferry's own that moves a part of the bytes and accesses the memory
    /// of `device` as a peer. Such a copy takes SMs and link of its helpers as long as it runs. The devices claim
    /// chunks, so a helper that is busy does less, and one whose kernel does not start delays nothing. `options`
    /// NULL: no helpers, as at first. Replaces the helpers of earlier calls; copies in flight keep theirs. Also
    /// starts staging threads for the helpers and enlarges the staging buffer of `device`, for pageable memory,
    /// which takes at most four links. With ferry_options.submit threads and buffer stay as they are.
    ///
    /// Each helper gets access to the memory of `device`, as by ferry_peer_enable, which it keeps. Only memory to
    /// which all contexts that ferry uses for these devices have access gains by it. After ferry_context_adopt for
    /// `device` other helpers cannot be set while the instance is open.
    ///
    /// If the context of a helper dies while it holds a chunk, the copy fails: its stream and context report
    /// CUDA_ERROR_LAUNCH_FAILED some seconds later. A helper's kernel may start after the copy has ended: end the
    /// context of `device` by ferry_context_destroy, which waits for that, not by the driver's call.
    ///
    /// * NULL: `options`, `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: while kernels are loaded and memory is allocated; else as ferry_peer_enable.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE: `device` with FERRY_FIELD_DEVICE; a helper that does not
    ///   exist, is `device` itself or comes twice with FERRY_FIELD_HELPERS, its number as value and its place in
    ///   `index`. _PEER_ACCESS with FERRY_FIELD_HELPERS: a helper has no access, lost the probe's data, or atomics
    ///   do not work over its link. _UNSUPPORTED without kernels; _LIMIT for too many helpers; _OUT_OF_MEMORY;
    ///   _IN_USE after ferry_context_adopt. After an error the helpers are as before, but those ahead of a bad one
    ///   keep their access.
    /// * Driver: as ferry_peer_enable; cuDeviceGetP2PAttribute, cuMemAlloc, cuEventCreate, those of
    ///   ferry_host_alloc.
    pub fn ferry_multilink_set(instance: *mut ferry_instance, device: i32, options: *const ferry_multilink_options, error: *mut ferry_error_info) -> Status;

    /// Imports memory. ferry_external_memory_get_address and ferry_external_memory_get_array make places of it.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device, as ferry_device_alloc.
    /// * Ownership: *memory, a CUexternalMemory, is the caller's until ferry_external_memory_release or
    ///   ferry_external_memory_release_async. It keeps the other API's memory alive. On success a file descriptor
    ///   is closed. A Windows handle stays the caller's, who may close it at once. After an error the handle is as
    ///   before, and the caller's, whatever the driver does with it.
    /// * Errors: the common errors; FERRY_ERROR_DEVICE; _INVALID_ARGUMENT for an unknown handle_type, a size of 0,
    ///   or a name beside a handle; _UNSUPPORTED for a type of another operating system; _HANDLE for a descriptor
    ///   or handle that is not open, or that the driver does not take for memory: `limit` is then the driver's
    ///   result; _OUT_OF_BOUNDS for a size beyond the allocation (of a D3D resource this is not detected); _FLAGS;
    ///   _OUT_OF_MEMORY also if the process has no descriptor left. `error` names the field. NVIDIA's driver takes
    ///   the descriptor of a semaphore for memory (CUDA 13.0, Linux); nothing detects that.
    /// * Driver: cuImportExternalMemory, cuExternalMemoryGetMappedBuffer.
    pub fn ferry_external_memory_import(instance: *mut ferry_instance, desc: *const ferry_external_memory_desc, memory: *mut *mut CUextMemory_st, error: *mut ferry_error_info) -> Status;

    /// Stores the address of imported memory at `offset`, and checks that `size` bytes, or none, follow it. A
    /// buffer begins at the offset that it was bound at. A linear image does too, with the row pitch that the other
    /// API reports.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: the address ends with `memory`. No other call frees it (FERRY_ERROR_IMPORTED).
    /// * Errors: the common errors; FERRY_ERROR_HANDLE if `memory` is not imported by this instance; _OUT_OF_BOUNDS
    ///   for a part that is not within the imported size; _UNSUPPORTED for a D3D texture, which has no addresses.
    /// * Driver: none.
    pub fn ferry_external_memory_get_address(instance: *mut ferry_instance, memory: *mut CUextMemory_st, offset: u64, size: u64, address: *mut u64, error: *mut ferry_error_info) -> Status;

    /// Stores a mipmapped array whose texels are those of an image of the other API in its optimal layout. The
    /// image was bound at `offset`; `desc` describes its level 0, and it has `levels` levels (0: 1). Copies take
    /// the arrays of ferry_mipmapped_array_get_level. Each call makes a new array. A plain 2D image has depth 0, an
    /// image with layers has FERRY_ARRAY_LAYERED. State FERRY_ARRAY_SURFACE for a storage image and
    /// FERRY_ARRAY_COLOR_ATTACHMENT for one that is rendered to.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: may wait for the device, as ferry_device_alloc.
    /// * Ownership: *mipmapped, a CUmipmappedArray, ends with `memory`. ferry_mipmapped_array_destroy and
    ///   ferry_mipmapped_array_destroy_async end it alone before that, for an allocation in which images come and
    ///   go. The memory and its other arrays live on.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE if `memory` is not imported by this instance; _OUT_OF_BOUNDS
    ///   for texels beyond the imported size; _FLAGS; _ARRAY_FORMAT; the driver's own for an image that it cannot
    ///   map so.
    /// * Driver: cuExternalMemoryGetMappedMipmappedArray.
    pub fn ferry_external_memory_get_array(instance: *mut ferry_instance, memory: *mut CUextMemory_st, offset: u64, desc: *const ferry_array_desc, levels: u32, mipmapped: *mut *mut CUmipmappedArray_st, error: *mut ferry_error_info) -> Status;

    /// Releases imported memory, with all addresses and arrays that were made of it, also arrays given to
    /// ferry_mipmapped_array_destroy_async. The other API's own memory lives on until that API frees it.
    ///
    /// * NULL: `memory`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the device has ended.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE if it is not imported by this instance, or was released
    ///   already. After an error of the driver's own some of its arrays may be gone: only release it again.
    /// * Driver: cuMemFree, cuMipmappedArrayDestroy, cuDestroyExternalMemory.
    pub fn ferry_external_memory_release(instance: *mut ferry_instance, memory: *mut CUextMemory_st) -> Status;

    /// Releases imported memory in the order of `stream`, and waits for no work. The stream must come after all
    /// work that uses the memory; it may be destroyed at once. Once the stream has passed, ferry_deferred_trim, a
    /// later allocation of ferry's own on the device (ferry_device_alloc and the like, see
    /// ferry_options.deferred_bytes; not an import) and ferry_close free it. Until then the other API's memory
    /// stays allocated, even if that API has freed it: a program that allocates nothing by ferry must call
    /// ferry_deferred_trim. Default streams are those of the memory's device.
    ///
    /// * NULL: `memory`, `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_device_free_deferred.
    /// * Ownership: the memory and all that was made of it are gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE as ferry_external_memory_release; _CAPTURE on a stream that
    ///   is being captured; _OUT_OF_MEMORY. After an error the memory is still the caller's.
    /// * Driver: cuEventRecord; the first times cuEventCreate.
    pub fn ferry_external_memory_release_async(instance: *mut ferry_instance, memory: *mut CUextMemory_st, stream: *mut CUstream_st) -> Status;

    /// Imports a semaphore. The driver believes what `handle_type` says (CUDA 13.0): a timeline semaphore imported
    /// as a binary one, or memory imported as a semaphore, is not detected.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: *semaphore, a CUexternalSemaphore, is the caller's until ferry_external_semaphore_release or
    ///   ferry_external_semaphore_release_async. The handle's ownership is as in ferry_external_memory_import.
    /// * Errors: the common errors; as ferry_external_memory_import; FERRY_ERROR_RESERVED.
    /// * Driver: cuImportExternalSemaphore.
    pub fn ferry_external_semaphore_import(instance: *mut ferry_instance, desc: *const ferry_external_semaphore_desc, semaphore: *mut *mut CUextSemaphore_st, error: *mut ferry_error_info) -> Status;

    /// Signals a semaphore once the earlier work on `stream` is complete: a timeline semaphore or fence gets
    /// `value`, which must be above its present one; a keyed mutex is released with the key `value`; a binary
    /// semaphore has no value. In a graph the same value is signalled at each launch. Default streams are those of
    /// the semaphore's device.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE if `semaphore` is not imported by this instance.
    /// * Driver: cuSignalExternalSemaphoresAsync.
    pub fn ferry_external_semaphore_signal_async(instance: *mut ferry_instance, semaphore: *mut CUextSemaphore_st, value: u64, stream: *mut CUstream_st) -> Status;

    /// Makes later work on `stream` wait for a semaphore: until a timeline semaphore or fence has at least `value`;
    /// until a keyed mutex is acquired with the key `value`, for at most `timeout_ms` milliseconds (UINT32_MAX: for
    /// ever); or until a binary semaphore is signalled. Only keyed mutexes have a timeout. The other API must have
    /// submitted the signal of a binary semaphore before this call; of a timeline semaphore it may come later.
    /// Default streams are those of the semaphore's device.
    ///
    /// * NULL: `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE if `semaphore` is not imported by this instance.
    /// * Driver: cuWaitExternalSemaphoresAsync.
    pub fn ferry_external_semaphore_wait_async(instance: *mut ferry_instance, semaphore: *mut CUextSemaphore_st, value: u64, timeout_ms: u32, stream: *mut CUstream_st) -> Status;

    /// Releases an imported semaphore. Its signals and waits must have completed.
    ///
    /// * NULL: `semaphore`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE if it is not imported by this instance, or was released
    ///   already.
    /// * Driver: cuDestroyExternalSemaphore.
    pub fn ferry_external_semaphore_release(instance: *mut ferry_instance, semaphore: *mut CUextSemaphore_st) -> Status;

    /// Releases an imported semaphore in the order of `stream`, and waits for no work. The stream must come after
    /// all its signals and waits; it may be destroyed at once. Once the stream has passed, ferry_deferred_trim and
    /// ferry_close release the semaphore, and so does an allocation that frees what deferred frees keep on the
    /// device. A semaphore takes no bytes: ferry_deferred_trim releases it whatever `keep` is. Default streams are
    /// those of the semaphore's device.
    ///
    /// * NULL: `semaphore`, `stream`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: as ferry_device_free_deferred.
    /// * Ownership: the semaphore is gone.
    /// * Errors: the common errors; FERRY_ERROR_HANDLE as ferry_external_semaphore_release; _CAPTURE on a stream
    ///   that is being captured; _OUT_OF_MEMORY. After an error the semaphore is still the caller's.
    /// * Driver: cuEventRecord; the first times cuEventCreate.
    pub fn ferry_external_semaphore_release_async(instance: *mut ferry_instance, semaphore: *mut CUextSemaphore_st, stream: *mut CUstream_st) -> Status;

    /// Fills `info`.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never; takes time that grows with the number of copies in flight.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: none.
    pub fn ferry_staging_get_info(instance: *mut ferry_instance, info: *mut ferry_staging_info) -> Status;

    /// Creates what the first staged copy of `device` would otherwise create and wait for: ferry's kernels in the
    /// device's context (the current one if it belongs to the device), threads, and the pinned staging buffer.
    /// Whatever exists already stays. After this, no staged copy in that context waits for them. May be called on
    /// any thread, also beside copies.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: some milliseconds, and until running work in the context has ended.
    /// * Ownership: the instance's; ferry_staging_trim releases the memory.
    /// * Errors: the common errors; FERRY_ERROR_OUT_OF_MEMORY; _UNSUPPORTED also if the options exclude kernels or
    ///   staging, or the driver takes no kernels.
    /// * Driver: cuLibraryLoadData, cuKernelGetFunction, cuMemHostRegister or cuMemHostAlloc, cuEventCreate,
    ///   cuStreamCreateWithPriority.
    pub fn ferry_staging_prepare(instance: *mut ferry_instance, device: i32) -> Status;

    /// Releases the staging buffers: all of their memory if no copy is in flight and no graph holds one, else the
    /// part that no copy or graph needs. Also releases the slots of relayed copies that are complete. The next copy
    /// pins it again. Threads stay.
    ///
    /// * NULL: none.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: until running work on the devices has ended, as ferry_host_free.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors; the driver's own: memory that it does not take back stays in use.
    /// * Driver: cuMemHostUnregister or cuMemFreeHost.
    pub fn ferry_staging_trim(instance: *mut ferry_instance) -> Status;

    /// Measures `device`. ferry plans with the result until the next calibration or ferry_profile_load, or until
    /// ferry_close. Copies between devices are not measured: see ferry_peer_calibrate, whose rates stay. Other work
    /// on the device or on its link distorts the numbers: calibrate when a machine is set up or a program starts.
    /// ferry never calibrates by itself.
    ///
    /// * NULL: `error`.
    /// * Values: any number; a pointer is to one object, or to a text that ends with zero.
    /// * Thread-safety: safe; two calibrations at once on one machine disturb each other.
    /// * Blocking: for two seconds at most on a GPU that is otherwise idle.
    /// * Ownership: takes up to 512 MiB of the device's memory, at most a quarter of what is free, and half as
    ///   much, at most 64 MiB, for an array; 64 MiB of pinned and 32 MiB of other host memory; and a stream. All of
    ///   it is released. Anything that ferry_staging_prepare would create stays, unless the options exclude
    ///   staging. The profile is the instance's.
    /// * Errors: the common errors; FERRY_ERROR_OUT_OF_MEMORY; late errors of earlier work. After an error the
    ///   profile is unchanged.
    /// * Driver: cuThreadExchangeStreamCaptureMode, cuStreamCreateWithPriority, cuMemGetInfo, cuMemAlloc,
    ///   cuMemHostAlloc, cuPointerGetAttributes, cuArray3DCreate, cuSurfObjectCreate, many times cuMemcpy3DAsync,
    ///   cuMemcpyBatchAsync, cuMemcpy3DBatchAsync, cuLaunchKernel and cuStreamSynchronize, and the calls that
    ///   release all this. Loads kernels that are not loaded yet; with FERRY_KERNELS_NONE none are measured.
    pub fn ferry_device_calibrate(instance: *mut ferry_instance, device: i32, error: *mut ferry_error_info) -> Status;

    /// Writes the profile of `device`, also the built-in one, to `buffer`: text of a few kilobytes in ASCII, lines
    /// ended by '\n', with an ending zero. `needed`, unless NULL, receives its size in bytes with that zero, also
    /// if the text does not fit; to ask only for the size, pass a NULL `buffer` of size 0. A buffer that is too
    /// small is an error (FERRY_ERROR_INVALID_ARGUMENT), and nothing is written to it.
    ///
    /// The text can be loaded on any device of the same name, number of SMs and compute capability with the same
    /// driver version, so also on the equal devices of one machine. It has a line for each pair that was measured
    /// and begins at such a device, with the PCI addresses of both. ferry does not detect that a device has moved
    /// to another link: calibrate it again. To return to the built-in profile later, save it first.
    ///
    /// * NULL: `buffer`, `needed`.
    /// * Values: `buffer`: `size` bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
    ///   the call ends is gone.
    /// * Errors: the common errors.
    /// * Driver: none.
    pub fn ferry_profile_save(instance: *const ferry_instance, device: i32, buffer: *mut c_char, size: u64, needed: *mut u64) -> Status;

    /// Loads a profile: from now on ferry plans with it on every device here that it fits, as after
    /// ferry_device_calibrate. Rates of pairs in the text replace those of the same pairs; the rates of other pairs
    /// stay. Pairs are skipped if one of their devices is not here, or if the profile does not fit the first.
    /// `size` is the length of the text in bytes, with or without an ending zero.
    ///
    /// * NULL: `error`.
    /// * Values: `text`: `size` bytes.
    /// * Thread-safety: safe from any thread.
    /// * Blocking: never.
    /// * Ownership: `text` is read before return. The instance keeps each different profile that was loaded or
    ///   measured, 2.4 KB, until it is closed; loading an equal one again takes no more memory.
    /// * Errors: the common errors; FERRY_ERROR_PROFILE: `error` names FERRY_FIELD_VERSION for a text of another
    ///   version; FERRY_FIELD_DEVICE if it fits no device here; FERRY_FIELD_DRIVER for another driver version; else
    ///   FERRY_FIELD_LINE: line number `value` of `limit` was changed or cannot be true. _OUT_OF_MEMORY. After an
    ///   error the profiles are unchanged.
    /// * Driver: none.
    pub fn ferry_profile_load(instance: *mut ferry_instance, text: *const c_char, size: u64, error: *mut ferry_error_info) -> Status;
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use std::mem::{align_of, size_of, MaybeUninit};

    macro_rules! check {
        ($name:ident, $size:expr, $align:expr, $($field:ident: $offset:expr),*) => {
            assert_eq!((size_of::<$name>(), align_of::<$name>()), ($size, $align), stringify!($name));
            let value = MaybeUninit::<$name>::uninit();
            let base = value.as_ptr();
            $(
                let field = unsafe { std::ptr::addr_of!((*base).$field) } as usize;
                assert_eq!(field - base as usize, $offset, stringify!($name.$field));
            )*
        };
    }

    #[test]
    fn structs_are_laid_out_as_in_c() {
        check!(ferry_error_info, 40, 8, struct_size: 0, status: 4, side: 8, field: 12, index: 16, limit: 24, value: 32);
        check!(ferry_place, 96, 8, kind: 0, device: 4, address: 8, array: 16, row_pitch: 24, slice_height: 32, x: 40, y: 48, z: 56, reserved: 64);
        check!(ferry_copy_desc, 256, 8, source: 0, destination: 96, width: 192, height: 200, depth: 208, flags: 216, reserved0: 220, reserved: 224);
        check!(ferry_ticket_info, 32, 8, struct_size: 0, done: 4, status: 8, route: 12, bytes_done: 16, bytes_total: 24);
        check!(ferry_fill_desc, 192, 8, destination: 0, width: 96, height: 104, depth: 112, pattern: 120, pattern_size: 136, flags: 140, reserved: 144);
        check!(ferry_explanation, 192, 8, struct_size: 0, route: 4, blocks: 8, synchronises: 12, driver_call: 16, context_device: 48, source_memory: 52, source_device: 56, destination_memory: 60, destination_device: 64, calls: 68, width: 72, height: 80, depth: 88, driver_ns: 96, kernel_ns: 104, kernel_obstacle: 112, max_sms: 116, staged_ns: 120, staged_obstacle: 128, threads: 132, staging_delay_ns: 136, relay_ns: 144, relay_obstacle: 152, links: 156, multilink_ns: 160, multilink_obstacle: 168, reason: 172, profile: 176, helper_sms: 180, engine_bytes: 184);
        check!(ferry_batch_share, 24, 8, copies: 0, bytes: 8, predicted_ns: 16);
        check!(ferry_batch_explanation, 144, 8, struct_size: 0, context_device: 4, singles: 8, batch_calls: 32, kernels: 56, staged: 80, max_sms: 104, threads: 108, staging_delay_ns: 112, broadcasts: 120);
        check!(ferry_trace_event, 88, 8, struct_size: 0, kind: 4, id: 8, begin_ns: 16, returned_ns: 24, done_ns: 32, bytes: 40, count: 48, stream: 56, routes: 64, status: 68, device: 72, is_synchronous: 76, phase: 80, reserved: 84);
        check!(ferry_options, 192, 8, struct_size: 0, driver: 4, checks: 8, software_devices: 12, software_queues: 16, reserved: 20, software_memory: 24, get_proc: 32, get_proc_user: 40, allocate: 48, deallocate: 56, allocate_user: 64, log: 72, log_user: 80, register_chunk: 88, copy_flags: 96, kernels: 100, staging: 104, staging_threads: 108, staging_cpus: 112, staging_cpu_count: 120, staging_priority: 124, staging_numa: 128, staging_numa_node: 132, staging_bytes: 136, submit: 144, submit_user: 152, deferred_bytes: 160, software_links: 168, trace_phases: 172, trace: 176, trace_user: 184);
        check!(ferry_report, 64, 8, struct_size: 0, driver: 4, driver_version: 8, device_count: 12, fallback_reason: 16, missing_count: 20, checks: 24, failed_peers: 28, kernels: 32, kernels_loaded: 36, kernel_contexts: 40, staging: 44, staging_threads: 48, program_threads: 52, staging_bytes: 56);
        check!(ferry_device_info, 312, 8, struct_size: 0, device: 4, name: 8, uuid: 136, pci_address: 152, total_memory: 184, max_pitch: 192, is_software: 200, compute_major: 204, compute_minor: 208, sm_count: 212, copy_engine_count: 216, overlap: 220, unified_addressing: 224, pageable_access: 228, pageable_uses_host_page_tables: 232, can_map_host_memory: 236, host_register: 240, host_register_read_only: 244, registered_address_is_device_address: 248, managed_memory: 252, concurrent_managed_access: 256, memory_pools: 260, pool_handle_types: 264, numa_node: 268, integrated: 272, texture_pitch_alignment: 276, host_memory_pools: 280, host_numa_memory_pools: 284, ipc_events: 288, reserved: 292, luid: 296, luid_node_mask: 304, reserved1: 308);
        check!(ferry_deferred_info, 24, 8, struct_size: 0, arrays: 4, allocations: 8, reserved: 12, bytes: 16);
        check!(ferry_host_options, 32, 8, struct_size: 0, flags: 4, numa: 8, device: 12, numa_node: 16, threads: 20, min_size: 24);
        check!(ferry_host_block, 32, 8, struct_size: 0, memory: 4, address: 8, size: 16, origin: 24, numa_node: 28);
        check!(ferry_address_info, 48, 8, struct_size: 0, memory: 4, device: 8, reserved: 12, range_start: 16, range_size: 24, device_address: 32, pool: 40);
        check!(ferry_array_desc, 40, 8, struct_size: 0, format: 4, channels: 8, flags: 12, width: 16, height: 24, depth: 32);
        check!(ferry_pinned_pool_options, 32, 8, struct_size: 0, flags: 4, numa: 8, device: 12, numa_node: 16, reserved: 20, limit: 24);
        check!(ferry_pool_stats, 40, 8, struct_size: 0, reserved: 4, reserved_current: 8, reserved_high: 16, used_current: 24, used_high: 32);
        check!(ferry_pool_desc, 24, 8, struct_size: 0, location: 4, index: 8, handle_types: 12, max_size: 16);
        check!(ferry_pool_info, 40, 8, struct_size: 0, location: 4, index: 8, handle_types: 12, max_size: 16, is_default: 24, is_imported: 28, can_share: 32, reserved: 36);
        check!(ferry_pool_attributes, 24, 8, struct_size: 0, reuse_follow_event_dependencies: 4, reuse_opportunistic: 8, reuse_internal_dependencies: 12, release_threshold: 16);
        check!(ferry_ipc_handle, 256, 1, bytes: 0);
        check!(ferry_ipc_info, 56, 8, struct_size: 0, kind: 4, device: 8, handle_types: 12, size: 16, process: 24, device_uuid: 32, is_own: 48, reserved: 52);
        check!(ferry_peer_info, 68, 4, struct_size: 0, device: 4, peer: 8, can_access: 12, driver_can_access: 16, probe: 20, performance_rank: 24, native_atomics: 28, array_access: 32, reserved: 36, direct_rate: 40, bounce_rate: 44, relay_rate: 48, relay_fixed_ns: 52, direct_fixed_ns: 56, link_to_rate: 60, link_from_rate: 64);
        check!(ferry_multilink_options, 24, 8, struct_size: 0, max_sms: 4, helpers: 8, helper_count: 16, reserved: 20);
        check!(ferry_external_memory_desc, 40, 8, struct_size: 0, device: 4, handle_type: 8, flags: 12, handle: 16, name: 24, size: 32);
        check!(ferry_external_semaphore_desc, 32, 8, struct_size: 0, device: 4, handle_type: 8, reserved: 12, handle: 16, name: 24);
        check!(ferry_staging_info, 32, 8, struct_size: 0, threads: 4, busy_threads: 8, copies_in_flight: 12, staging_bytes: 16, bytes_in_flight: 24);
    }
}
