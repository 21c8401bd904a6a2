// The C interface of ferry: its constants, structs, callbacks and functions. Made from ferry.json by generate.py:
// do not edit. The functions have their names in C, so that ferry.h is their manual. All types are blittable.
// For 64-bit processors.
using System;
using System.Runtime.InteropServices;

namespace Ferry
{
    /// <summary>Constants that belong to no enum.</summary>
    public static class Constants
    {
        public const int VersionMajor = 0;
        public const int VersionMinor = 6;
        public const int VersionPatch = 0;
        public const int StatusDriverBase = -1000;
        public const int DeviceUnknown = -1;
        public const int CopyMaxSmsShift = 16;
        public const int PriorityOfProcess = 20;
        public const int StreamLegacy = 1;
        public const int StreamPerThread = 2;
        public const int IpcHandleSize = 256;
    }

    /// <summary>FERRY_ERROR_*</summary>
    public enum Status : int
    {
        /// <summary>counts as one of FERRY_ERROR_*</summary>
        Success = 0,
        /// <summary>a required pointer is NULL, or a value is outside its documented range</summary>
        InvalidArgument = -1,
        /// <summary>host memory for ferry's own use; device memory is a driver status</summary>
        OutOfMemory = -2,
        /// <summary>struct_size is out of range, or covers unknown bytes that are not zero</summary>
        AbiMismatch = -3,
        /// <summary>a reserved field is not zero</summary>
        Reserved = -4,
        /// <summary>an unknown flag is set</summary>
        Flags = -5,
        /// <summary>unknown kind; full checks: not the kind stated; a fill of pageable memory</summary>
        Kind = -6,
        /// <summary>no such device; not the array's device; full checks: not the memory's device</summary>
        Device = -7,
        /// <summary>null address or array; full checks: freed, foreign or inaccessible memory</summary>
        Address = -8,
        /// <summary>row pitch below x + width or above the device's limit, slice height below y + height</summary>
        Pitch = -9,
        /// <summary>offsets and extent do not fit 64 bits</summary>
        Overflow = -10,
        /// <summary>the box reaches past the array; full checks: past the allocation</summary>
        OutOfBounds = -11,
        /// <summary>source and destination share bytes</summary>
        Overlap = -12,
        /// <summary>element sizes differ, x or width is no whole number of elements, no such format</summary>
        ArrayFormat = -13,
        /// <summary>no NVIDIA driver on this machine</summary>
        NoDriver = -14,
        /// <summary>a driver older than CUDA 12.0, or one that lacks a required entry point</summary>
        DriverTooOld = -15,
        /// <summary>a driver without a usable device</summary>
        NoDevice = -16,
        /// <summary>this build or this driver has no such feature</summary>
        Unsupported = -17,
        /// <summary>the software driver already runs with other settings</summary>
        SoftwareConfig = -18,
        /// <summary>no context to pop, or the call cannot use the context</summary>
        NoContext = -19,
        /// <summary>no access between the two devices, or the probe lost data</summary>
        PeerAccess = -20,
        /// <summary>an address, pitch or width is no multiple of the pattern's size</summary>
        Alignment = -21,
        /// <summary>the stream is being captured, and a graph cannot hold this call</summary>
        Capture = -22,
        /// <summary>a pinned pool is at its limit, or the staging buffer has no free slot</summary>
        Limit = -23,
        /// <summary>memory of the pool is still allocated or imported</summary>
        InUse = -24,
        /// <summary>not a handle for this call, or damaged, or its object no longer exists</summary>
        Handle = -25,
        /// <summary>the handle was made on another machine, or before the last reboot</summary>
        Machine = -26,
        /// <summary>the pool of this memory is not imported, or this is no imported pool</summary>
        Pool = -27,
        /// <summary>imported: it cannot be freed, changed or allocated from, and ends with its import</summary>
        Imported = -28,
        /// <summary>this memory, pool, event or semaphore cannot be shared</summary>
        NotShareable = -29,
        /// <summary>the profile is damaged, old, or of another device or driver</summary>
        Profile = -30,
        /// <summary>the route that the flags force cannot take this copy: see value</summary>
        Route = -31,
    }

    /// <summary>FERRY_STATUS_*</summary>
    [Flags] public enum StatusTraits : uint
    {
        None = 0,
        /// <summary>the context (or the driver) is lost: every later call on it will fail too</summary>
        ContextDead = 0x1,
        /// <summary>the same call may succeed later, or once memory has been freed</summary>
        Retry = 0x2,
    }

    /// <summary>FERRY_SIDE_*</summary>
    public enum Side : int
    {
        None = 0,
        Source = 1,
        Destination = 2,
        Extent = 3,
        /// <summary>the descriptor's own flags and reserved fields</summary>
        Descriptor = 4,
        /// <summary>the options or the description that a call was given</summary>
        Options = 5,
    }

    /// <summary>FERRY_FIELD_*</summary>
    public enum Field : int
    {
        None = 0,
        Kind = 1,
        Device = 2,
        Address = 3,
        Array = 4,
        RowPitch = 5,
        SliceHeight = 6,
        X = 7,
        Y = 8,
        Z = 9,
        Width = 10,
        Height = 11,
        Depth = 12,
        Flags = 13,
        Reserved = 14,
        StructSize = 15,
        Driver = 16,
        Checks = 17,
        /// <summary>allocate without deallocate, or the reverse</summary>
        Callbacks = 18,
        /// <summary>software_* options that differ from those of the running software driver</summary>
        Software = 19,
        /// <summary>pattern_size</summary>
        Pattern = 20,
        Numa = 21,
        NumaNode = 22,
        Threads = 23,
        Size = 24,
        Location = 25,
        Index = 26,
        HandleTypes = 27,
        /// <summary>the bytes of a ferry_ipc_handle</summary>
        Handle = 28,
        OsHandle = 29,
        Pool = 30,
        Event = 31,
        RegisterChunk = 32,
        /// <summary>of a profile</summary>
        Version = 33,
        /// <summary>of a profile: its number is the value</summary>
        Line = 34,
        Kernels = 35,
        Staging = 36,
        /// <summary>staging_cpus or staging_cpu_count</summary>
        StagingCpus = 37,
        StagingPriority = 38,
        StagingBytes = 39,
        SoftwareDevices = 40,
        SoftwareQueues = 41,
        /// <summary>of an array</summary>
        Format = 42,
        /// <summary>of an array</summary>
        Channels = 43,
        SoftwareLinks = 44,
        Helpers = 45,
        TracePhases = 46,
    }

    /// <summary>FERRY_KIND_*</summary>
    public enum PlaceKind : int
    {
        /// <summary>`address` decides; memory unknown to the driver is host memory</summary>
        Any = 0,
        /// <summary>`address` is host memory, pageable or pinned</summary>
        Host = 1,
        /// <summary>`address` is device (or managed) memory on `device`</summary>
        Device = 2,
        /// <summary>`array` is a CUDA array on `device`</summary>
        Array = 3,
    }

    /// <summary>FERRY_COPY_*</summary>
    [Flags] public enum CopyFlags : uint
    {
        None = 0,
        Urgent = 0x1,
        NoKernels = 0x2,
        SourceRead = 0x4,
        Multilink = 0x8,
        DestinationWritten = 0x10,
        ByDriver = 0x100,
        ByKernel = 0x200,
        ByStaging = 0x400,
        ByRelay = 0x800,
        /// <summary>a maximum of 65535 SMs, which limits nothing</summary>
        Default = 0xffff0000,
    }

    /// <summary>FERRY_BATCH_*</summary>
    [Flags] public enum BatchFlags : uint
    {
        None = 0,
        /// <summary>refuse a batch if a copy writes bytes that another one reads or writes</summary>
        CheckOverlap = 0x1000,
        /// <summary>prepared pieces only: allows ferry_prepared_set_addresses</summary>
        Updatable = 0x2000,
    }

    /// <summary>FERRY_ROUTE_*</summary>
    public enum Route : int
    {
        /// <summary>not at all: its width is 0</summary>
        None = 0,
        /// <summary>by the driver's own calls: one, or more if host memory is registered in pieces</summary>
        Driver = 1,
        /// <summary>by a kernel of ferry's on the copy's stream</summary>
        Kernel = 2,
        /// <summary>by CPU threads and a kernel or copies on the stream, through pinned memory</summary>
        Staged = 3,
        /// <summary>the calling thread reads the source into pinned memory, the driver copies that</summary>
        Buffered = 4,
        /// <summary>between devices, through pinned memory, by the driver's calls on ferry's own streams</summary>
        Relayed = 5,
        /// <summary>by kernels of several devices, each over its own host link: ferry_multilink_set</summary>
        Multilink = 6,
    }

    /// <summary>FERRY_OBSTACLE_*</summary>
    public enum Obstacle : int
    {
        None = 0,
        /// <summary>the instance's flags are BY_STAGING, and pieces of a batch cannot be staged</summary>
        NoRoute = 1,
        /// <summary>FERRY_COPY_NO_KERNELS</summary>
        Forbidden = 2,
        /// <summary>the driver refused ferry's kernels, or the options exclude them</summary>
        NotLoaded = 3,
        /// <summary>both ends are host memory</summary>
        HostToHost = 4,
        /// <summary>an end is pageable or host pool memory that the device does not reach</summary>
        Pageable = 5,
        /// <summary>an end is managed memory: kernels by BY_KERNEL or URGENT, staging never</summary>
        Managed = 6,
        /// <summary>an end is an array that kernels do not take: see ferry_array_create</summary>
        Array = 7,
        /// <summary>the copy's context has no access to an end</summary>
        NoAccess = 8,
        /// <summary>an end reaches past its allocation or registration</summary>
        Beyond = 9,
        /// <summary>the destination is memory that the device may only read</summary>
        ReadOnly = 10,
        /// <summary>no end is pageable memory, and no narrow rows need staging</summary>
        NotPageable = 11,
        /// <summary>
        /// the options exclude staging, it has no threads or pinned memory, or the host memory cannot be read
        /// </summary>
        NoStaging = 12,
        /// <summary>an end lies on another device than the one of the stream</summary>
        OtherDevice = 13,
        /// <summary>the device takes pageable memory itself (pageable_uses_host_page_tables)</summary>
        Direct = 14,
        /// <summary>the ends are not on two devices</summary>
        NotBetweenDevices = 15,
        /// <summary>one of the two devices has access to the memory of the other</summary>
        DirectAccess = 16,
        /// <summary>ferry_multilink_set names none for this device, in this context</summary>
        NoHelpers = 17,
        /// <summary>rows below 64 KiB, or addresses or pitches that differ modulo 16</summary>
        NotCut = 18,
        /// <summary>too small to gain by it</summary>
        Small = 19,
        /// <summary>the copy becomes part of a graph, where it is the driver's</summary>
        Captured = 20,
    }

    /// <summary>FERRY_REASON_*</summary>
    public enum Reason : int
    {
        /// <summary>there is nothing to copy</summary>
        None = 0,
        /// <summary>one line without pageable memory: the driver is as fast</summary>
        Line = 1,
        /// <summary>no other route can take it: see the obstacles</summary>
        Only = 2,
        /// <summary>it is predicted to be the fastest, from the profile in force</summary>
        Predicted = 3,
        /// <summary>the driver would make the caller wait</summary>
        NoWait = 4,
        /// <summary>the flags force it</summary>
        Forced = 5,
        /// <summary>FERRY_COPY_URGENT</summary>
        Urgent = 6,
        /// <summary>FERRY_COPY_SOURCE_READ: the source is read in the call</summary>
        SourceRead = 7,
        /// <summary>FERRY_COPY_MULTILINK</summary>
        Multilink = 8,
    }

    /// <summary>FERRY_PROFILE_*</summary>
    public enum Profile : int
    {
        None = 0,
        /// <summary>measured on other devices of this kind</summary>
        BuiltIn = 1,
        /// <summary>of no device: ferry_device_calibrate measures this one</summary>
        Cautious = 2,
        /// <summary>by a calibration, now or before ferry_profile_load</summary>
        Measured = 3,
    }

    /// <summary>FERRY_BLOCKS_*</summary>
    public enum Blocks : int
    {
        /// <summary>nothing: the call enqueues and returns</summary>
        No = 0,
        /// <summary>until pageable source memory has been read, and for earlier work on the stream</summary>
        UntilStaged = 1,
        /// <summary>until the copy is complete</summary>
        UntilDone = 2,
    }

    /// <summary>FERRY_DRIVER_*</summary>
    public enum Driver : int
    {
        /// <summary>the default: the NVIDIA driver or an error</summary>
        Cuda = 0,
        /// <summary>the NVIDIA driver if it has a usable device, else the software driver</summary>
        Auto = 1,
        /// <summary>the software driver</summary>
        Software = 2,
    }

    /// <summary>FERRY_CHECKS_*</summary>
    public enum Checks : int
    {
        /// <summary>arithmetic, pitches, array bounds and formats, overlap; resolves ANY</summary>
        Basic = 0,
        /// <summary>also each address: its kind and device as stated, inside its allocation</summary>
        Full = 1,
    }

    /// <summary>FERRY_KERNELS_*</summary>
    public enum Kernels : int
    {
        /// <summary>in each context, with its first copy by a kernel</summary>
        Lazy = 0,
        /// <summary>in ferry_open, which makes all primary contexts; LAZY in other contexts</summary>
        AtOpen = 1,
        /// <summary>never: the driver makes every copy</summary>
        None = 2,
    }

    /// <summary>FERRY_STAGING_*</summary>
    public enum Staging : int
    {
        /// <summary>for each device with its first such copy</summary>
        Lazy = 0,
        /// <summary>in ferry_open, for all devices; loads kernels like FERRY_KERNELS_AT_OPEN</summary>
        AtOpen = 1,
        /// <summary>never: the driver makes such copies, and they block</summary>
        None = 2,
    }

    /// <summary>FERRY_NUMA_*</summary>
    public enum Numa : int
    {
        /// <summary>where the system puts it</summary>
        Any = 0,
        /// <summary>near `device`: on its node in ferry_device_info; as ANY if that is not known</summary>
        Device = 1,
        /// <summary>on node number `numa_node`</summary>
        Node = 2,
    }

    /// <summary>FERRY_SOFTWARE_LINKS_*</summary>
    public enum SoftwareLinks : int
    {
        /// <summary>as the software driver runs already, or else ALL</summary>
        Default = 0,
        /// <summary>every pair</summary>
        All = 1,
        /// <summary>no pair</summary>
        None = 2,
        /// <summary>devices 2k and 2k + 1</summary>
        Pairs = 3,
        /// <summary>every pair, but its access moves no bytes</summary>
        Lossy = 4,
    }

    /// <summary>FERRY_LOG_*</summary>
    public enum LogLevel : int
    {
        Error = 0,
        Warning = 1,
        Info = 2,
    }

    /// <summary>FERRY_TRACE_*</summary>
    public enum Trace : int
    {
        /// <summary>a single copy</summary>
        Copy = 1,
        /// <summary>a batch of copies or pieces</summary>
        Batch = 2,
        /// <summary>the launch of a prepared batch; bytes and count are 0</summary>
        Prepared = 3,
        Fill = 4,
    }

    /// <summary>FERRY_PHASE_*</summary>
    [Flags] public enum PhaseFlags : uint
    {
        None = 0,
        /// <summary>the call begins</summary>
        Begin = 0x1,
        /// <summary>the call returns</summary>
        Return = 0x2,
        /// <summary>the stream has passed the work of a call that did not wait for it</summary>
        Done = 0x4,
    }

    /// <summary>FERRY_COPY_OVERLAP_*</summary>
    public enum CopyOverlap : int
    {
        /// <summary>no engine: copies and kernels take turns</summary>
        None = 0,
        /// <summary>one engine: a copy in one direction at a time runs beside kernels</summary>
        OneWay = 1,
        /// <summary>two: one copy in each direction runs beside kernels</summary>
        BothWays = 2,
        /// <summary>more: also copies to peers or within the device beside those</summary>
        BothAndMore = 3,
    }

    /// <summary>FERRY_HANDLE_*</summary>
    [Flags] public enum HandleTypes : uint
    {
        None = 0,
        PosixFd = 0x1,
        Win32 = 0x2,
        Win32Kmt = 0x4,
        Fabric = 0x8,
    }

    /// <summary>FERRY_STREAM_NON_BLOCKING</summary>
    [Flags] public enum StreamFlags : uint
    {
        None = 0,
        /// <summary>not ordered with the legacy default stream (CU_STREAM_NON_BLOCKING)</summary>
        NonBlocking = 0x1,
    }

    /// <summary>FERRY_EVENT_*</summary>
    [Flags] public enum EventFlags : uint
    {
        None = 0,
        /// <summary>ferry_event_synchronize sleeps instead of spinning</summary>
        BlockingSync = 0x1,
        /// <summary>cheaper; ferry_event_elapsed_time does not take it</summary>
        DisableTiming = 0x2,
        /// <summary>for ferry_ipc_export_event; needs FERRY_EVENT_DISABLE_TIMING as well</summary>
        Interprocess = 0x4,
    }

    /// <summary>FERRY_HOST_*</summary>
    [Flags] public enum HostFlags : uint
    {
        None = 0,
        /// <summary>fast to write, very slow to read for the CPU</summary>
        WriteCombined = 0x1,
        /// <summary>by cuMemHostAlloc: slower to allocate, and cuMemFreeHost takes it too</summary>
        ByDriver = 0x2,
        /// <summary>not pinned for other contexts; with unified addressing pinned anyway</summary>
        NotPortable = 0x4,
        /// <summary>not mapped into devices; with unified addressing mapped anyway</summary>
        NotMapped = 0x8,
        /// <summary>a smaller block instead of an error: see min_size</summary>
        AllowSmaller = 0x10,
        /// <summary>a pageable block instead of an error</summary>
        AllowPageable = 0x20,
        /// <summary>the children of a fork share it; usually small pages before Linux 6.1</summary>
        Shared = 0x40,
    }

    /// <summary>FERRY_HOST_FROM_*</summary>
    public enum HostFrom : int
    {
        /// <summary>mapped by ferry, registered with the driver</summary>
        Mapping = 1,
        /// <summary>cuMemHostAlloc</summary>
        Driver = 2,
        /// <summary>mapped by ferry and pageable: FERRY_HOST_ALLOW_PAGEABLE</summary>
        System = 3,
    }

    /// <summary>FERRY_REGISTER_*</summary>
    [Flags] public enum RegisterFlags : uint
    {
        None = 0,
        /// <summary>the devices only read it; for anonymous memory that the process may only read</summary>
        ReadOnly = 0x1,
    }

    /// <summary>FERRY_MEMORY_*</summary>
    public enum MemoryKind : int
    {
        /// <summary>in ferry_explanation only: a fill has no source</summary>
        None = -1,
        /// <summary>ordinary host memory or none at all; a host pool's without access to the pool</summary>
        Pageable = 0,
        /// <summary>allocated pinned, or registered</summary>
        Pinned = 1,
        Device = 2,
        Managed = 3,
        /// <summary>in ferry_explanation only</summary>
        Array = 4,
    }

    /// <summary>FERRY_FORMAT_*</summary>
    public enum ArrayFormat : int
    {
        Uint8 = 1,
        Uint16 = 2,
        Uint32 = 3,
        Sint8 = 8,
        Sint16 = 9,
        Sint32 = 10,
        Half = 16,
        Float = 32,
        UnormInt8x1 = 192,
        UnormInt8x2 = 193,
        UnormInt8x4 = 194,
        UnormInt16x1 = 195,
        UnormInt16x2 = 196,
        UnormInt16x4 = 197,
        SnormInt8x1 = 198,
        SnormInt8x2 = 199,
        SnormInt8x4 = 200,
        SnormInt16x1 = 201,
        SnormInt16x2 = 202,
        SnormInt16x4 = 203,
        /// <summary>4 channels in 32 bits</summary>
        UnormInt1010102 = 80,
        Bc1Unorm = 145,
        Bc1UnormSrgb = 146,
        Bc2Unorm = 147,
        Bc2UnormSrgb = 148,
        Bc3Unorm = 149,
        Bc3UnormSrgb = 150,
        Bc4Unorm = 151,
        Bc4Snorm = 152,
        Bc5Unorm = 153,
        Bc5Snorm = 154,
        Bc6hUf16 = 155,
        Bc6hSf16 = 156,
        Bc7Unorm = 157,
        Bc7UnormSrgb = 158,
        /// <summary>planar 4:2:0, 8 bits</summary>
        Nv12 = 176,
        /// <summary>planar 4:2:0, 10 bits</summary>
        P010 = 159,
        /// <summary>planar 4:2:0, 16 bits</summary>
        P016 = 161,
        /// <summary>planar 4:2:2, 8 bits</summary>
        Nv16 = 162,
        /// <summary>planar 4:2:2, 10 bits</summary>
        P210 = 163,
        /// <summary>planar 4:2:2, 16 bits</summary>
        P216 = 164,
        /// <summary>packed 4:2:2, 8 bits; 4 channels</summary>
        Yuy2 = 165,
        /// <summary>packed 4:2:2, 10 bits; 2 channels</summary>
        Y210 = 166,
        /// <summary>packed 4:2:2, 16 bits; 2 channels</summary>
        Y216 = 167,
        /// <summary>packed 4:4:4, 8 bits; 4 channels</summary>
        Ayuv = 168,
        /// <summary>packed 4:4:4, 10 bits; 1 channel</summary>
        Y410 = 169,
        /// <summary>packed 4:4:4, 12 bits; 4 channels</summary>
        Y416 = 177,
        Y444Planar8 = 178,
        Y444Planar10 = 179,
        Yuv4448bitSemiplanar = 180,
        Yuv44416bitSemiplanar = 181,
    }

    /// <summary>FERRY_ARRAY_*</summary>
    [Flags] public enum ArrayFlags : uint
    {
        None = 0,
        /// <summary>depth counts layers (CUDA_ARRAY3D_LAYERED)</summary>
        Layered = 0x1,
        /// <summary>surfaces may be made of it (CUDA_ARRAY3D_SURFACE_LDST)</summary>
        Surface = 0x2,
        /// <summary>square, six faces deep; layered: a multiple of six (CUDA_ARRAY3D_CUBEMAP)</summary>
        Cubemap = 0x4,
        /// <summary>2D only (CUDA_ARRAY3D_TEXTURE_GATHER)</summary>
        TextureGather = 0x8,
        /// <summary>only of imported images (CUDA_ARRAY3D_COLOR_ATTACHMENT)</summary>
        ColorAttachment = 0x20,
        /// <summary>for the video formats (CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)</summary>
        Video = 0x100,
    }

    /// <summary>FERRY_LOCATION_*</summary>
    public enum Location : int
    {
        /// <summary>on a device</summary>
        Device = 0,
        /// <summary>in host memory</summary>
        Host = 1,
        /// <summary>in host memory on a NUMA node</summary>
        HostNuma = 2,
    }

    /// <summary>FERRY_ACCESS_*</summary>
    public enum Access : int
    {
        None = 0,
        ReadWrite = 3,
    }

    /// <summary>FERRY_IPC_*</summary>
    public enum IpcKind : int
    {
        /// <summary>memory of ferry_device_alloc, cuMemAlloc or cudaMalloc</summary>
        Memory = 1,
        /// <summary>a pool</summary>
        Pool = 2,
        /// <summary>an allocation from a pool</summary>
        PoolMemory = 3,
        /// <summary>an event</summary>
        Event = 4,
    }

    /// <summary>FERRY_PROBE_*</summary>
    public enum Probe : int
    {
        NotRun = 0,
        Passed = 1,
        /// <summary>the driver reports access, but bytes do not arrive: the pair counts as having none</summary>
        Failed = 2,
    }

    /// <summary>FERRY_EXTERNAL_*</summary>
    public enum ExternalMemoryType : int
    {
        /// <summary>Vulkan on Linux: a file descriptor</summary>
        OpaqueFd = 1,
        /// <summary>Vulkan on Windows: an NT handle, or a name</summary>
        OpaqueWin32 = 2,
        /// <summary>the same: a KMT handle</summary>
        OpaqueWin32Kmt = 3,
        /// <summary>an NT handle, or a name</summary>
        D3d12Heap = 4,
        /// <summary>the same; always dedicated, the flag need not be set</summary>
        D3d12Resource = 5,
        /// <summary>the same</summary>
        D3d11Resource = 6,
        /// <summary>a KMT handle; else the same</summary>
        D3d11ResourceKmt = 7,
    }

    /// <summary>FERRY_EXTERNAL_DEDICATED</summary>
    [Flags] public enum ExternalFlags : uint
    {
        None = 0,
        Dedicated = 0x1,
    }

    /// <summary>FERRY_SEMAPHORE_*</summary>
    public enum ExternalSemaphoreType : int
    {
        /// <summary>a binary semaphore of Vulkan on Linux: a file descriptor</summary>
        OpaqueFd = 1,
        /// <summary>the same on Windows: an NT handle, or a name</summary>
        OpaqueWin32 = 2,
        /// <summary>the same: a KMT handle</summary>
        OpaqueWin32Kmt = 3,
        D3d12Fence = 4,
        D3d11Fence = 5,
        D3d11KeyedMutex = 7,
        D3d11KeyedMutexKmt = 8,
        /// <summary>a timeline semaphore of Vulkan on Linux: a file descriptor</summary>
        TimelineFd = 9,
        /// <summary>the same on Windows: an NT handle, or a name</summary>
        TimelineWin32 = 10,
    }

    /// <summary>ferry_options.get_proc</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate IntPtr OptionsGetProc(IntPtr user, byte* name, int version);

    /// <summary>ferry_options.allocate</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate IntPtr OptionsAllocate(IntPtr user, ulong size, ulong alignment);

    /// <summary>ferry_options.deallocate</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate void OptionsDeallocate(IntPtr user, IntPtr memory, ulong size);

    /// <summary>ferry_options.log</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate void OptionsLog(IntPtr user, LogLevel level, byte* message);

    /// <summary>ferry_options.submit</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate int OptionsSubmit(IntPtr user, IntPtr work, IntPtr argument);

    /// <summary>ferry_options.submit.work</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate void OptionsSubmitWork(IntPtr argument);

    /// <summary>ferry_options.trace</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate void OptionsTrace(IntPtr user, TraceEvent* @event);

    /// <summary>ferry_stream_notify.done</summary>
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    public unsafe delegate void StreamNotifyDone(IntPtr user, Status status);

    /// <summary>
    /// ferry_error_info: Details of an error. Set struct_size before the call: 0 counts as 40, the size of the first
    /// version, and becomes 40; 1 to 7 is not filled. Every call that takes a ferry_error_info fills it; after a
    /// success all other fields are 0. `value` is the offending value and `limit` the bound that it missed, in the
    /// field's unit. Both are 0 where no number applies; for a driver's status side and field are 0 too. PITCH value:
    /// the pitch or slice height given; limit: the allowed minimum or maximum OUT_OF_BOUNDS of an array, field X, Y or
    /// Z, value: one past the last byte, row or slice of the box; limit: the array's width in bytes, its height or its
    /// depth. Of memory, field ADDRESS, value: the address one past the last byte; limit: the end of the allocation. If
    /// the box begins before the allocation, the two are the beginnings. The side is that of the copy; calls other than
    /// copies and fills have none, and may name SIZE. ferry_external_memory_import has OPTIONS and no limit; the
    /// numbers of ferry_external_memory_get_address and ferry_external_memory_get_array count from the memory's
    /// beginning, or from the offset given. A piece of an updatable batch has no numbers ARRAY_FORMAT value: the x, the
    /// width or the destination's element size; limit: the element size required DEVICE value: the ordinal given;
    /// limit: the number of devices, the memory's device, or for a fill the stream's device INVALID_ARGUMENT value: the
    /// number given; limit: the allowed maximum, minimum or unit OVERFLOW value: the offset, extent or slice height
    /// given; limit: the maximum that fits 64 bits FLAGS value: the flags given ALIGNMENT value: the address, pitch or
    /// width, or the shift of a prepared piece's destination; limit: the divisor OVERLAP between two copies of a batch,
    /// value: the later copy's index; limit: the other's UNSUPPORTED value: the pattern's size, depth or layer given;
    /// limit: the maximum, or the layer, that works DRIVER_TOO_OLD value: the driver's version; limit: the oldest
    /// supported version ROUTE value: FERRY_OBSTACLE_* PROFILE for a line, value: its number; limit: the number of
    /// lines HANDLE for a handle of any other version, value: its version; limit: this library's. For OS_HANDLE, value:
    /// the descriptor or handle; limit: the driver's result, or 0 ABI_MISMATCH value: the size given; limit: this
    /// library's
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct ErrorInfo
    {
        public const uint SizeOf = 40;
        public uint StructSize;
        /// <summary>as returned</summary>
        public Status Status;
        /// <summary>FERRY_SIDE_*</summary>
        public Side Side;
        /// <summary>FERRY_FIELD_*</summary>
        public Field Field;
        /// <summary>of the copy or piece, if the call takes many and side is not FERRY_SIDE_NONE; else 0</summary>
        public ulong Index;
        public ulong Limit;
        public ulong Value;
    }

    /// <summary>
    /// ferry_place: One end of a copy. The bytes begin x bytes, y rows and z slices after the address or the array's
    /// first element. row_pitch Bytes from one row to the next, at least x + width. 0: rows are tight, width bytes
    /// apart; x must then be 0 unless the copy is one row of the first slice. Not read for arrays. slice_height Rows
    /// from one slice to the next, at least y + height: the allocation's height, not the copy's. 0: slices are tight,
    /// height rows apart; y must then be 0 unless the copy is in the first slice. Not read for arrays. address Not read
    /// for ARRAY; `array` is read only for ARRAY. device Not read for ANY and HOST. Managed memory may be HOST, ANY, or
    /// DEVICE on any device. For an array that the instance made, a level or a plane of it, another device is refused
    /// (FERRY_ERROR_DEVICE). The device of any other array is not checked, because the driver does not report it. array
    /// Block-compressed arrays count rows and bytes in blocks of 4 x 4 texels. A planar array takes no copy (the
    /// driver's -1001); its planes do. Only full checks refuse a wrong address, and pageable memory that the process
    /// cannot read, or cannot write at a destination. They test the process's mappings during the call, but not whether
    /// a file system has room for a sparse file. With basic checks the driver may refuse such memory or the process may
    /// crash, as with the driver's own calls.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct NativePlace
    {
        public const uint SizeOf = 96;
        /// <summary>FERRY_KIND_*</summary>
        public PlaceKind Kind;
        /// <summary>ordinal, or FERRY_DEVICE_UNKNOWN</summary>
        public int Device;
        public ulong Address;
        public IntPtr Array;
        public ulong RowPitch;
        public ulong SliceHeight;
        public ulong X;
        public ulong Y;
        public ulong Z;
        /// <summary>must be zero</summary>
        public fixed ulong Reserved[4];
    }

    /// <summary>
    /// ferry_copy_desc: One copy. A zeroed descriptor with two addresses and a width is a 1D copy: height 0 and depth 0
    /// count as 1 (CUDA's own calls copy nothing then). Width 0 copies nothing and succeeds if kinds, devices, flags
    /// and reserved fields are valid.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct NativeCopy
    {
        public const uint SizeOf = 256;
        public NativePlace Source;
        public NativePlace Destination;
        /// <summary>bytes</summary>
        public ulong Width;
        /// <summary>rows</summary>
        public ulong Height;
        /// <summary>slices</summary>
        public ulong Depth;
        /// <summary>FERRY_COPY_*; 0: the instance's (ferry_options.copy_flags)</summary>
        public CopyFlags Flags;
        public uint Reserved0;
        /// <summary>must be zero</summary>
        public fixed ulong Reserved[4];
    }

    /// <summary>ferry_ticket_info: The progress of a copy or a stream.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct TicketInfo
    {
        public const uint SizeOf = 32;
        public uint StructSize;
        /// <summary>1: the work has ended, with success or not</summary>
        public int Done;
        /// <summary>of the work: 0 while in flight and after success; else what ended it</summary>
        public Status Status;
        /// <summary>FERRY_ROUTE_* that the copy took, see ferry_copy_explain_async; 0 for a stream</summary>
        public Route Route;
        /// <summary>bytes that have arrived; only staged copies count before the end; 0 for a stream</summary>
        public ulong BytesDone;
        /// <summary>of the copy; 0 for a stream</summary>
        public ulong BytesTotal;
    }

    /// <summary>
    /// ferry_fill_desc: One fill: a pattern of 1, 2, 4, 8 or 16 bytes, in memory order, repeated over a box of device,
    /// managed or pinned host memory. The address with its origin and the width must be multiples of the pattern's
    /// size, and so must the row pitch if there is more than one row. A row pitch other than 0 is at least x + width.
    /// Height 0 and depth 0 count as 1. Width 0 fills nothing and succeeds if kind, device, pattern_size, flags and
    /// reserved fields are valid. The driver itself fills patterns of up to 4 bytes over equally spaced rows. Two kinds
    /// of fill need a kernel of ferry's: a pattern of 8 or 16 bytes that does not repeat every 4; and slices with gaps
    /// between them, unless the rows within a slice are tight or a slice has one row. Such a fill is refused if no
    /// kernel can run or reach the memory.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct NativeFill
    {
        public const uint SizeOf = 192;
        public NativePlace Destination;
        /// <summary>bytes</summary>
        public ulong Width;
        public ulong Height;
        public ulong Depth;
        /// <summary>its first pattern_size bytes are read</summary>
        public fixed byte Pattern[16];
        /// <summary>1, 2, 4, 8 or 16</summary>
        public uint PatternSize;
        /// <summary>FERRY_COPY_*, as of a copy; 0: the instance's (ferry_options.copy_flags)</summary>
        public CopyFlags Flags;
        /// <summary>must be zero</summary>
        public fixed ulong Reserved[6];
    }

    /// <summary>
    /// ferry_explanation: What a copy or a fill would do. For a fill, predicted times are 0, and of the obstacles only
    /// kernel_obstacle counts, which is not looked for where the reason is LINE.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct Explanation
    {
        public const uint SizeOf = 192;
        public uint StructSize;
        /// <summary>FERRY_ROUTE_*</summary>
        public Route Route;
        /// <summary>FERRY_BLOCKS_*</summary>
        public Blocks Blocks;
        /// <summary>
        /// 1: ferry itself waits: after the driver's call, if the call returns before the copy is complete; before it,
        /// if the call would read a pageable source too early
        /// </summary>
        public int Synchronises;
        /// <summary>such as "cuMemcpy3DAsync" or "cuLaunchKernel"; empty for FERRY_ROUTE_NONE</summary>
        public fixed byte DriverCall[32];
        /// <summary>the device of the context that the copy runs in; -1 for FERRY_ROUTE_NONE</summary>
        public int ContextDevice;
        /// <summary>FERRY_MEMORY_*; 0 and without meaning for FERRY_ROUTE_NONE; NONE for a fill</summary>
        public MemoryKind SourceMemory;
        /// <summary>where device or array memory lies; -1 otherwise</summary>
        public int SourceDevice;
        /// <summary>FERRY_MEMORY_*</summary>
        public MemoryKind DestinationMemory;
        public int DestinationDevice;
        /// <summary>
        /// of the driver: 1, or more where host memory is registered in pieces or in part; 0 for none
        /// </summary>
        public uint Calls;
        /// <summary>the extent as the call gets it: bytes, rows, slices; tight dimensions have been folded</summary>
        public ulong Width;
        public ulong Height;
        public ulong Depth;
        /// <summary>predicted for the driver route, from the call until the bytes are there; 0: not known</summary>
        public ulong DriverNs;
        /// <summary>likewise for a kernel, which is taken where it wins by 5 %, see FERRY_COPY_*</summary>
        public ulong KernelNs;
        /// <summary>FERRY_OBSTACLE_*: why a kernel does not take it, and nothing was predicted for one</summary>
        public Obstacle KernelObstacle;
        /// <summary>the maximum number of SMs that the route keeps busy; 0 for the driver's</summary>
        public uint MaxSms;
        /// <summary>as driver_ns, for FERRY_ROUTE_STAGED</summary>
        public ulong StagedNs;
        /// <summary>FERRY_OBSTACLE_*: why that cannot take it</summary>
        public Obstacle StagedObstacle;
        /// <summary>the maximum number of CPU threads that the route keeps busy, a waiting caller included</summary>
        public uint Threads;
        /// <summary>
        /// in staged_ns: how late staged copies lately were because other programs kept the processors busy or other
        /// kernels the device; 0: not
        /// </summary>
        public ulong StagingDelayNs;
        /// <summary>as driver_ns, for FERRY_ROUTE_RELAYED</summary>
        public ulong RelayNs;
        /// <summary>
        /// FERRY_OBSTACLE_*: why that cannot take it, or need not. Copies below 2 MiB are taken only with
        /// FERRY_COPY_BY_RELAY; whether they could be is not looked at without
        /// </summary>
        public Obstacle RelayObstacle;
        /// <summary>for FERRY_ROUTE_MULTILINK, and staged over several: the host links taken; else 0</summary>
        public uint Links;
        /// <summary>as driver_ns, for FERRY_ROUTE_MULTILINK: by measured or equal links</summary>
        public ulong MultilinkNs;
        /// <summary>FERRY_OBSTACLE_*: why that cannot take it; FORBIDDEN: the flags do not ask for it</summary>
        public Obstacle MultilinkObstacle;
        /// <summary>FERRY_REASON_*: why the copy, or one of its parts, takes this route</summary>
        public Reason Reason;
        /// <summary>FERRY_PROFILE_*: where the predicted times come from</summary>
        public Profile Profile;
        /// <summary>
        /// with several links: the maximum number of SMs on each helper, and max_sms on the device; else 0
        /// </summary>
        public uint HelperSms;
        /// <summary>
        /// for FERRY_ROUTE_MULTILINK: of the copy, what the device's copy engine takes. Kernels on all the devices
        /// claim the rest chunk by chunk
        /// </summary>
        public ulong EngineBytes;
    }

    /// <summary>
    /// ferry_batch_share: The copies of a batch that go one way. Copies of width 0 do not count, merged neighbours
    /// count as one, and a copy that is cut at the end of an allocation or registration counts as its parts.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct BatchShare
    {
        public const uint SizeOf = 24;
        public ulong Copies;
        public ulong Bytes;
        /// <summary>the sum for these copies, without earlier work on the stream; 0: not known for all</summary>
        public ulong PredictedNs;
    }

    /// <summary>ferry_batch_explanation: What ferry would do with a batch. Set struct_size first.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct BatchExplanation
    {
        public const uint SizeOf = 144;
        public uint StructSize;
        /// <summary>the device of the context that the batch runs in; -1 if nothing is to be copied</summary>
        public int ContextDevice;
        /// <summary>one by one, by any route: ferry_copy_explain_async tells which</summary>
        public BatchShare Singles;
        /// <summary>by cuMemcpyBatchAsync and cuMemcpy3DBatchAsync</summary>
        public BatchShare BatchCalls;
        /// <summary>by kernels that copy many in one launch</summary>
        public BatchShare Kernels;
        /// <summary>together, between pageable memory and the device; rows of boxes count each</summary>
        public BatchShare Staged;
        /// <summary>the maximum number of SMs that a launch of `kernels` or `staged` keeps busy</summary>
        public uint MaxSms;
        /// <summary>the maximum number of CPU threads that `staged` keeps busy, a waiting caller included</summary>
        public uint Threads;
        /// <summary>how late staged copies lately were, as far as it is in staged.predicted_ns</summary>
        public ulong StagingDelayNs;
        /// <summary>lines with one source that go to several devices; bytes: each source once</summary>
        public BatchShare Broadcasts;
    }

    /// <summary>
    /// ferry_trace_event: One call that copies or fills, for ferry_options.trace. Times are nanoseconds of the system's
    /// monotonic clock (CLOCK_MONOTONIC).
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct TraceEvent
    {
        public const uint SizeOf = 88;
        public uint StructSize;
        /// <summary>FERRY_TRACE_*</summary>
        public Trace Kind;
        /// <summary>of the call, from 1: the same in all of its events</summary>
        public ulong Id;
        /// <summary>when the call began</summary>
        public ulong BeginNs;
        /// <summary>when it returned; 0: not yet</summary>
        public ulong ReturnedNs;
        /// <summary>
        /// when the stream was seen to have passed the work, or the call had waited for it; 0: not yet
        /// </summary>
        public ulong DoneNs;
        /// <summary>that were to be copied or filled</summary>
        public ulong Bytes;
        /// <summary>of copies or fills</summary>
        public ulong Count;
        public IntPtr Stream;
        /// <summary>bits 1 &lt;&lt; FERRY_ROUTE_*: those taken; 0 if nothing was enqueued</summary>
        public uint Routes;
        /// <summary>of the call; in FERRY_PHASE_DONE of its work</summary>
        public Status Status;
        /// <summary>of the context that it ran in; -1 if nothing was enqueued</summary>
        public int Device;
        /// <summary>1: the call waits for its work</summary>
        public int IsSynchronous;
        /// <summary>FERRY_PHASE_*</summary>
        public PhaseFlags Phase;
        public uint Reserved;
    }

    /// <summary>
    /// ferry_options: How to open an instance. All zero but struct_size means defaults. get_proc The program's own
    /// driver loader, with cuGetProcAddress's meaning: returns the newest variant of `name` that is not newer than
    /// `version` (12000 is CUDA 12.0), in its legacy-stream form, or NULL. A plain dlsym does not do: it finds first
    /// versions. Called during ferry_open and ferry_instance_get_proc, on the calling thread; the results must stay
    /// valid until ferry_close. ferry then loads no library. Not used with FERRY_DRIVER_SOFTWARE. allocate Host memory
    /// for ferry's own structures; alignment is a power of two; may return NULL. `deallocate` receives the size. Set
    /// both or neither. Copies call it only on first need for staging, also on ferry's threads; for a ticket if no
    /// released one is free; and for a batch that needs more room than earlier ones or runs beside others. The software
    /// driver does not use it. A graph keeps 16 bytes for each staged copy in it; they come from malloc, because the
    /// graph may outlive the instance. register_chunk The largest piece registered with the driver at once, a multiple
    /// of 4096. Drivers refuse pieces of 512 GiB. ferry_host_register splits larger memory; ferry_host_alloc leaves it
    /// to the driver. copy_flags Flags for every copy and fill whose own flags are 0, and for the short forms and
    /// pieces, which have none. kernels When ferry's kernels are loaded. Loading takes about a millisecond (H200) for
    /// the instance and a third of that for each context, and waits for running work in the context. With LAZY the
    /// first copy by a kernel pays and waits, as the first launch of any kernel may. Use AT_OPEN in a program that
    /// holds streams back until it has enqueued more. log `level`: FERRY_LOG_*. `message` is one line without its end,
    /// valid during the callback. ferry writes nowhere else. staging When staging threads start and staging buffers are
    /// pinned, for copies between pageable memory and devices. This takes some milliseconds; with LAZY the first such
    /// copy pays. A program whose calls must never wait uses AT_OPEN or calls ferry_staging_prepare. FERRY_KERNELS_NONE
    /// excludes staging. staging_threads The number of worker threads of the instance, for all its devices together, 1
    /// to 64. 0: 8 for each device that has staged copies, but at most half the processors available to the program,
    /// and at least 2. They sleep when idle and end in ferry_close. One more thread, the watchdog, starts spare workers
    /// while workers are stuck in page faults that do not resolve. Workers and spares are 64 at most. staging_cpus The
    /// processors for the workers: staging_cpu_count numbers, read before ferry_open returns. Or all processors of a
    /// node: staging_numa FERRY_NUMA_NODE and staging_numa_node. Not both, and a list needs its count. Default: those
    /// of the program's main thread at ferry_open, whichever thread copies first; of these, on a machine with several
    /// NUMA nodes, the default threads of a device (staging_threads 0) use those of the device's node if there are at
    /// least two for each thread. A staging buffer always lies near its device. staging_priority The workers' niceness,
    /// -20 to 19; 0: -20; FERRY_PRIORITY_OF_PROCESS: the main thread's. If the system refuses it, they get the nearest
    /// that it grants, at most the main thread's. Their scheduling class is the default one (SCHED_OTHER), with the
    /// shortest slices where the system has them (Linux 6.12). staging_bytes The size of each device's staging buffer,
    /// 4096 to 1 GiB; below 8192 it is 8192, because the buffer has at least two slots. It is smaller if less can be
    /// pinned. It has this size for each of up to four links that copies of the device take: FERRY_COPY_MULTILINK, and
    /// broadcasts of pageable memory. deferred_bytes The maximum that deferred frees (ferry_array_destroy_async and
    /// similar calls) keep on each device, and in the host's memory. Above it, an allocation of ferry's there first
    /// frees what streams have passed, which waits for running work. 0: a sixteenth of the device's memory, for the
    /// host's that of device 0. UINT64_MAX: no limit until an allocation finds no memory. submit Uses the program's own
    /// threads; ferry starts only a watchdog. Each call of submit asks the program to run work(argument) once and soon,
    /// on any thread, even while the rest of the program waits for a stream. Until then the copy and the work behind it
    /// on its stream stand still. Returns 1 if work will be called, else 0; ferry then starts one thread of its own,
    /// which stays until ferry_close. The driver calls submit from a host function, so neither submit nor work may call
    /// the driver or wait for a thread that does. work calls no driver and returns when nothing is left to do. submit
    /// may run work itself, as a full thread pool does: the work then returns at once, and ferry starts one thread of
    /// its own, as if submit had returned 0. submit must not wait for work that another thread runs. A copy asks for at
    /// most staging_threads threads. The watchdog starts a copying thread in two cases: all threads that came are stuck
    /// in page faults that do not resolve, or none came while a thread waits for a ticket. That thread runs for as long
    /// as it is needed. software_links With every value, copies between contexts without peer access arrive. LOSSY
    /// imitates machines that report access and move nothing: ferry_peer_probe and ferry_peer_enable fail with
    /// FERRY_ERROR_PEER_ACCESS. If the program enables access itself, copies between the two contexts' memory write
    /// nothing and report no error. Fills and kernels then do not change a peer's memory, and kernels read bytes of
    /// 0xff from it. trace Called for every copy, batch and fill, also one that fails: when the call begins, when it
    /// returns, and for one on a stream once the stream has passed, on a thread of ferry's. That thread looks every
    /// 0.05 ms; the stream does not wait for it. There is no third event if the call failed, did nothing, or became
    /// part of a graph, if the stream has not passed the work at ferry_close, or if the context ended without
    /// ferry_context_destroy. `event` is valid during the callback. The third event costs a call on a stream an event
    /// of the driver's, some microseconds. trace_phases The events wanted: FERRY_PHASE_*, joined by |. 0: all.
    /// Callbacks may run on several threads at once. get_proc and log run inside calls of this instance, also
    /// ferry_open and ferry_close, on the calling thread; allocate and deallocate also on ferry's own threads, and
    /// trace on both. No callback may call ferry or throw.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct NativeOptions
    {
        public const uint SizeOf = 192;
        public uint StructSize;
        /// <summary>FERRY_DRIVER_*</summary>
        public Driver Driver;
        /// <summary>FERRY_CHECKS_*</summary>
        public Checks Checks;
        /// <summary>number of devices of the software driver, 1 to 64; 0 for the default, 2</summary>
        public uint SoftwareDevices;
        /// <summary>hardware queues of each, 1 to 128; 0 for the default, 8</summary>
        public uint SoftwareQueues;
        public uint Reserved;
        /// <summary>bytes of memory of each; 0 for the default, 4 GiB; committed on first write</summary>
        public ulong SoftwareMemory;
        /// <summary>A function pointer: OptionsGetProc.</summary>
        public IntPtr GetProc;
        public IntPtr GetProcUser;
        /// <summary>A function pointer: OptionsAllocate.</summary>
        public IntPtr Allocate;
        /// <summary>A function pointer: OptionsDeallocate.</summary>
        public IntPtr Deallocate;
        public IntPtr AllocateUser;
        /// <summary>A function pointer: OptionsLog.</summary>
        public IntPtr Log;
        public IntPtr LogUser;
        /// <summary>bytes; 0 for the default, 256 GiB</summary>
        public ulong RegisterChunk;
        /// <summary>FERRY_COPY_*, for copies and fills that have none of their own</summary>
        public CopyFlags CopyFlags;
        /// <summary>FERRY_KERNELS_*</summary>
        public Kernels Kernels;
        /// <summary>FERRY_STAGING_*</summary>
        public Staging Staging;
        public uint StagingThreads;
        /// <summary>`staging_cpu_count` elements; NULL: any</summary>
        public int* StagingCpus;
        public uint StagingCpuCount;
        /// <summary>a niceness or FERRY_PRIORITY_OF_PROCESS</summary>
        public int StagingPriority;
        /// <summary>FERRY_NUMA_ANY or FERRY_NUMA_NODE</summary>
        public Numa StagingNuma;
        public int StagingNumaNode;
        /// <summary>0: 16 MiB</summary>
        public ulong StagingBytes;
        /// <summary>A function pointer: OptionsSubmit.</summary>
        public IntPtr Submit;
        public IntPtr SubmitUser;
        /// <summary>0: a sixteenth of the device's memory</summary>
        public ulong DeferredBytes;
        /// <summary>FERRY_SOFTWARE_LINKS_*: which devices of the software driver have peer access</summary>
        public SoftwareLinks SoftwareLinks;
        /// <summary>FERRY_PHASE_*; 0: all</summary>
        public PhaseFlags TracePhases;
        /// <summary>A function pointer: OptionsTrace.</summary>
        public IntPtr Trace;
        public IntPtr TraceUser;
    }

    /// <summary>ferry_report: What ferry_open found.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct Report
    {
        public const uint SizeOf = 64;
        public uint StructSize;
        /// <summary>FERRY_DRIVER_CUDA or FERRY_DRIVER_SOFTWARE: the driver in use</summary>
        public Driver Driver;
        /// <summary>the CUDA version it supports: 1000 * major + 10 * minor</summary>
        public int DriverVersion;
        public int DeviceCount;
        /// <summary>a status: of ferry_open with CUDA, which is why AUTO took the software driver; or 0</summary>
        public Status FallbackReason;
        /// <summary>optional entry points that this driver lacks; see ferry_instance_get_missing_entry_point</summary>
        public uint MissingCount;
        /// <summary>FERRY_CHECKS_* in force</summary>
        public Checks Checks;
        /// <summary>ordered pairs of devices between which a probe has lost data so far</summary>
        public uint FailedPeers;
        /// <summary>FERRY_KERNELS_* in force; NONE also if the driver refused them or cannot run them</summary>
        public Kernels Kernels;
        /// <summary>1: the driver has loaded them</summary>
        public int KernelsLoaded;
        /// <summary>contexts in which they are loaded; 16 at most are counted</summary>
        public uint KernelContexts;
        /// <summary>
        /// FERRY_STAGING_* in force; NONE also if kernels are. If the driver has refused them only when they were
        /// loaded, pageable memory up to 256 MiB is still staged, by copies on the stream.
        /// </summary>
        public Staging Staging;
        /// <summary>the maximum that copies of a device keep busy; see ferry_staging_info for all</summary>
        public uint StagingThreads;
        /// <summary>1: those are the program's, by ferry_options.submit</summary>
        public uint ProgramThreads;
        /// <summary>the intended size of each staging buffer</summary>
        public ulong StagingBytes;
    }

    /// <summary>ferry_device_info: The facts of one device.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct DeviceInfo
    {
        public const uint SizeOf = 312;
        public uint StructSize;
        /// <summary>its ordinal</summary>
        public int Device;
        /// <summary>UTF-8, ends with zero</summary>
        public fixed byte Name[128];
        public fixed byte Uuid[16];
        /// <summary>domain:bus:device.function, such as "0000:3B:00.0"</summary>
        public fixed byte PciAddress[32];
        /// <summary>bytes</summary>
        public ulong TotalMemory;
        /// <summary>bytes: the largest row pitch a copy may have</summary>
        public ulong MaxPitch;
        /// <summary>1: of the software driver</summary>
        public int IsSoftware;
        public int ComputeMajor;
        public int ComputeMinor;
        public int SmCount;
        public int CopyEngineCount;
        /// <summary>FERRY_COPY_OVERLAP_*: what that count means</summary>
        public CopyOverlap Overlap;
        /// <summary>1: one address space with the host: kind ANY works</summary>
        public int UnifiedAddressing;
        /// <summary>1: kernels may read pageable host memory</summary>
        public int PageableAccess;
        /// <summary>1: they do so by the host's page tables</summary>
        public int PageableUsesHostPageTables;
        /// <summary>1: pinned memory can be mapped into the device</summary>
        public int CanMapHostMemory;
        /// <summary>1: ferry_host_register works</summary>
        public int HostRegister;
        /// <summary>1: FERRY_REGISTER_READ_ONLY works</summary>
        public int HostRegisterReadOnly;
        /// <summary>1: registered memory has one address for host and device</summary>
        public int RegisteredAddressIsDeviceAddress;
        /// <summary>1: ferry_managed_alloc works</summary>
        public int ManagedMemory;
        /// <summary>1: the host may use managed memory while the device works</summary>
        public int ConcurrentManagedAccess;
        /// <summary>1: stream-ordered allocation works</summary>
        public int MemoryPools;
        /// <summary>FERRY_HANDLE_*</summary>
        public HandleTypes PoolHandleTypes;
        /// <summary>of the nearest host memory; -1 if the driver does not report it</summary>
        public int NumaNode;
        /// <summary>1: shares the host's physical memory</summary>
        public int Integrated;
        /// <summary>bytes</summary>
        public int TexturePitchAlignment;
        /// <summary>1: pools of FERRY_LOCATION_HOST work</summary>
        public int HostMemoryPools;
        /// <summary>1: pools of FERRY_LOCATION_HOST_NUMA work</summary>
        public int HostNumaMemoryPools;
        /// <summary>1: events can be shared between processes</summary>
        public int IpcEvents;
        public uint Reserved;
        /// <summary>Windows: of the adapter; zeros elsewhere</summary>
        public fixed byte Luid[8];
        /// <summary>Windows: the nodes of the adapter that are the device; 0 elsewhere</summary>
        public uint LuidNodeMask;
        public uint Reserved1;
    }

    /// <summary>
    /// ferry_deferred_info: What an instance keeps after ferry_device_free_deferred, ferry_host_free_deferred,
    /// ferry_array_destroy_async, ferry_mipmapped_array_destroy_async, ferry_external_memory_release_async and
    /// ferry_external_semaphore_release_async.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct DeferredInfo
    {
        public const uint SizeOf = 24;
        public uint StructSize;
        /// <summary>mipmapped ones too</summary>
        public uint Arrays;
        /// <summary>
        /// Of ferry_device_alloc, ferry_device_alloc_pitched and ferry_host_alloc, and imports of memory and
        /// semaphores.
        /// </summary>
        public uint Allocations;
        public uint Reserved;
        /// <summary>of both; for arrays, of their texels; semaphores have none</summary>
        public ulong Bytes;
    }

    /// <summary>ferry_host_options: How to allocate host memory. All zero but struct_size means the defaults.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct HostOptions
    {
        public const uint SizeOf = 32;
        public uint StructSize;
        /// <summary>FERRY_HOST_*</summary>
        public HostFlags Flags;
        /// <summary>FERRY_NUMA_*: a preference; a full node does not make the call fail</summary>
        public Numa Numa;
        /// <summary>of FERRY_NUMA_DEVICE</summary>
        public int Device;
        /// <summary>of FERRY_NUMA_NODE</summary>
        public int NumaNode;
        /// <summary>that touch the memory first, the caller included, 1 to 64; 0: as many as help</summary>
        public uint Threads;
        /// <summary>of FERRY_HOST_ALLOW_SMALLER: the smallest size to accept; 0: any</summary>
        public ulong MinSize;
    }

    /// <summary>ferry_host_block: What was allocated.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct HostBlock
    {
        public const uint SizeOf = 32;
        public uint StructSize;
        /// <summary>FERRY_MEMORY_PINNED, or FERRY_MEMORY_PAGEABLE where that was allowed</summary>
        public MemoryKind Memory;
        public IntPtr Address;
        /// <summary>bytes; less than asked for only where that was allowed</summary>
        public ulong Size;
        /// <summary>FERRY_HOST_FROM_*</summary>
        public HostFrom Origin;
        /// <summary>of its first page; -1 if the system does not report it</summary>
        public int NumaNode;
    }

    /// <summary>ferry_address_info: What lies at an address.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct AddressInfo
    {
        public const uint SizeOf = 48;
        public uint StructSize;
        /// <summary>FERRY_MEMORY_*</summary>
        public MemoryKind Memory;
        /// <summary>where device memory lies; -1 otherwise</summary>
        public int Device;
        public uint Reserved;
        /// <summary>the allocation or registration around the address, all its pieces; 0: not known</summary>
        public ulong RangeStart;
        /// <summary>bytes</summary>
        public ulong RangeSize;
        /// <summary>the address that a kernel uses for the same byte; 0 for pageable memory</summary>
        public ulong DeviceAddress;
        /// <summary>that the memory was allocated from or is imported through; NULL: from none</summary>
        public IntPtr Pool;
    }

    /// <summary>
    /// ferry_array_desc: An array's shape. width and height are texels; height 0 is a 1D array, depth 0 a 1D or 2D
    /// array. In a copy a layer is a slice, and so is a face of a cube: its number is z.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct ArrayDesc
    {
        public const uint SizeOf = 40;
        public uint StructSize;
        /// <summary>FERRY_FORMAT_*</summary>
        public ArrayFormat Format;
        /// <summary>1, 2 or 4, or the number that the format has</summary>
        public uint Channels;
        /// <summary>FERRY_ARRAY_*</summary>
        public ArrayFlags Flags;
        public ulong Width;
        public ulong Height;
        public ulong Depth;
    }

    /// <summary>
    /// ferry_pinned_pool_options: How to create a pinned pool. All zero but struct_size means: on any node, without a
    /// limit. With FERRY_NUMA_NODE or _DEVICE a pool's memory lies on one node; create one pool for each node that
    /// matters.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct PinnedPoolOptions
    {
        public const uint SizeOf = 32;
        public uint StructSize;
        /// <summary>FERRY_HOST_WRITE_COMBINED, _BY_DRIVER, _NOT_PORTABLE, _NOT_MAPPED</summary>
        public HostFlags Flags;
        /// <summary>FERRY_NUMA_*</summary>
        public Numa Numa;
        /// <summary>of FERRY_NUMA_DEVICE</summary>
        public int Device;
        /// <summary>of FERRY_NUMA_NODE</summary>
        public int NumaNode;
        public uint Reserved;
        /// <summary>bytes that the pool may hold; 0: no limit</summary>
        public ulong Limit;
    }

    /// <summary>
    /// ferry_pool_stats: Bytes of a pool: now, and the high-water marks since the pool was created or the marks were
    /// reset. In a driver's pool, memory that ferry_device_free has freed still counts as used (CUDA 13.0).
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct PoolStats
    {
        public const uint SizeOf = 40;
        public uint StructSize;
        public uint Reserved;
        /// <summary>held by the pool</summary>
        public ulong ReservedCurrent;
        public ulong ReservedHigh;
        /// <summary>allocated, as the pool rounds; in a pinned pool also blocks that wait for streams</summary>
        public ulong UsedCurrent;
        public ulong UsedHigh;
    }

    /// <summary>ferry_pool_desc: How to create a pool.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct PoolDesc
    {
        public const uint SizeOf = 24;
        public uint StructSize;
        /// <summary>FERRY_LOCATION_*</summary>
        public Location Location;
        /// <summary>ordinal of the device, or number of the NUMA node; 0 for FERRY_LOCATION_HOST</summary>
        public int Index;
        /// <summary>FERRY_HANDLE_* in ferry_device_info.pool_handle_types: how to share it; 0: not shared</summary>
        public HandleTypes HandleTypes;
        /// <summary>bytes; 0: no limit of its own</summary>
        public ulong MaxSize;
    }

    /// <summary>ferry_pool_info: The facts of one pool.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct PoolInfo
    {
        public const uint SizeOf = 40;
        public uint StructSize;
        /// <summary>FERRY_LOCATION_*</summary>
        public Location Location;
        /// <summary>ordinal of the device, number of the NUMA node, or 0</summary>
        public int Index;
        /// <summary>FERRY_HANDLE_*; 0 for pools that ferry did not create: the driver does not report them</summary>
        public HandleTypes HandleTypes;
        /// <summary>bytes; 0: no limit of its own, or not created by ferry</summary>
        public ulong MaxSize;
        /// <summary>1: the default pool of its location</summary>
        public int IsDefault;
        /// <summary>
        /// 1: of another process. It serves only to import memory: it cannot allocate, trim, become current or report
        /// statistics or attributes
        /// </summary>
        public int IsImported;
        /// <summary>1: ferry_ipc_export_pool may succeed</summary>
        public int CanShare;
        public uint Reserved;
    }

    /// <summary>ferry_pool_attributes: How a pool keeps and reuses memory.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct PoolAttributes
    {
        public const uint SizeOf = 24;
        public uint StructSize;
        /// <summary>1: reuse what another stream freed if an event orders the two streams</summary>
        public int ReuseFollowEventDependencies;
        /// <summary>1: reuse what another stream freed if that free is already complete</summary>
        public int ReuseOpportunistic;
        /// <summary>1: reuse what another stream freed, and make this stream wait for it</summary>
        public int ReuseInternalDependencies;
        /// <summary>bytes kept when a stream, event or context is waited for; at first 0</summary>
        public ulong ReleaseThreshold;
    }

    /// <summary>ferry_ipc_handle:</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct IpcHandle
    {
        public const uint SizeOf = 256;
        public fixed byte Bytes[256];
    }

    /// <summary>ferry_ipc_info: What a handle contains.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct IpcInfo
    {
        public const uint SizeOf = 56;
        public uint StructSize;
        /// <summary>FERRY_IPC_*</summary>
        public IpcKind Kind;
        /// <summary>its ordinal in this process; -1: not visible here, or not of a device</summary>
        public int Device;
        /// <summary>FERRY_HANDLE_*: with which a pool was exported</summary>
        public HandleTypes HandleTypes;
        /// <summary>of memory: bytes from the imported address on</summary>
        public ulong Size;
        /// <summary>the exporter's process number, in its own namespace</summary>
        public ulong Process;
        public fixed byte DeviceUuid[16];
        /// <summary>1: this process exported it</summary>
        public int IsOwn;
        public uint Reserved;
    }

    /// <summary>ferry_peer_info: One ordered pair of devices.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct PeerInfo
    {
        public const uint SizeOf = 68;
        public uint StructSize;
        public int Device;
        public int Peer;
        /// <summary>
        /// 1: `device` can reach the memory of `peer`: the driver reports access, and no probe failed
        /// </summary>
        public int CanAccess;
        /// <summary>1: the driver reports access</summary>
        public int DriverCanAccess;
        /// <summary>FERRY_PROBE_*: in this instance</summary>
        public Probe Probe;
        /// <summary>the driver's ranking of the links, 0 for the best; -1 if it is not reported</summary>
        public int PerformanceRank;
        /// <summary>1: atomic operations work across the link; 0 also if it is not reported</summary>
        public int NativeAtomics;
        /// <summary>1: arrays can be reached too; 0 also if it is not reported</summary>
        public int ArrayAccess;
        public uint Reserved;
        /// <summary>MB/s of copies from `device` to `peer` with access</summary>
        public uint DirectRate;
        /// <summary>likewise, by the driver without access</summary>
        public uint BounceRate;
        /// <summary>likewise, by FERRY_ROUTE_RELAYED</summary>
        public uint RelayRate;
        /// <summary>the time of FERRY_ROUTE_RELAYED without the bytes</summary>
        public uint RelayFixedNs;
        /// <summary>the time of copies with access without the bytes</summary>
        public uint DirectFixedNs;
        /// <summary>MB/s from pinned memory to `peer` by `device` as a helper: FERRY_COPY_MULTILINK</summary>
        public uint LinkToRate;
        /// <summary>likewise, from `peer` to pinned memory</summary>
        public uint LinkFromRate;
    }

    /// <summary>ferry_multilink_options: The devices whose host links copies of another device may take.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct MultilinkOptions
    {
        public const uint SizeOf = 24;
        public uint StructSize;
        /// <summary>
        /// The maximum number of SMs that a copy of pinned memory may use on each helper. 0: as many as are useful,
        /// which is also the limit: 24 for copies to the device, 16 for copies to the host. For pageable memory the
        /// maximum in the copy's flags counts on each device.
        /// </summary>
        public uint MaxSms;
        /// <summary>`helper_count` elements: devices, read during the call</summary>
        public int* Helpers;
        /// <summary>at most 29; 0: as without options</summary>
        public uint HelperCount;
        /// <summary>0</summary>
        public uint Reserved;
    }

    /// <summary>ferry_external_memory_desc: Memory that another API has exported.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct ExternalMemoryDesc
    {
        public const uint SizeOf = 40;
        public uint StructSize;
        /// <summary>on which the other API allocated it</summary>
        public int Device;
        /// <summary>FERRY_EXTERNAL_*</summary>
        public ExternalMemoryType HandleType;
        /// <summary>FERRY_EXTERNAL_DEDICATED</summary>
        public ExternalFlags Flags;
        /// <summary>a file descriptor or a handle; 0 with a name</summary>
        public long Handle;
        /// <summary>NULL, or the zero-terminated UTF-16 name of a Windows object</summary>
        public IntPtr Name;
        /// <summary>bytes of the whole allocation: VkMemoryAllocateInfo.allocationSize, not a buffer's size</summary>
        public ulong Size;
    }

    /// <summary>ferry_external_semaphore_desc: A semaphore or fence that another API has exported.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct ExternalSemaphoreDesc
    {
        public const uint SizeOf = 32;
        public uint StructSize;
        public int Device;
        /// <summary>FERRY_SEMAPHORE_*</summary>
        public ExternalSemaphoreType HandleType;
        public uint Reserved;
        /// <summary>a file descriptor or a handle; 0 with a name</summary>
        public long Handle;
        /// <summary>NULL, or the zero-terminated UTF-16 name of a Windows object</summary>
        public IntPtr Name;
    }

    /// <summary>
    /// ferry_staging_info: The resources for staged copies, and the number of copies in flight: enqueued and not ended;
    /// in a graph, while it runs.
    /// </summary>
    [StructLayout(LayoutKind.Sequential)]
    public unsafe partial struct StagingInfo
    {
        public const uint SizeOf = 32;
        public uint StructSize;
        /// <summary>ferry's own; 0 until staging is prepared or first used. With submit: those it started</summary>
        public uint Threads;
        /// <summary>moving bytes now, including helping callers and the program's threads</summary>
        public uint BusyThreads;
        public uint CopiesInFlight;
        /// <summary>pinned for the staging buffers of all devices</summary>
        public ulong StagingBytes;
        /// <summary>of copies in flight: bytes that have not arrived yet</summary>
        public ulong BytesInFlight;
    }

    /// <summary>The functions of libferry. Native.Library is in Ferry.cs.</summary>
    public static unsafe partial class Native
    {
        /// <summary>Returns the version of the loaded library: major * 10000 + minor * 100 + patch.</summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int ferry_version();

        /// <summary>
        /// Returns the constant's name, such as "FERRY_ERROR_PITCH" or, for a driver's result,
        /// "CUDA_ERROR_INVALID_VALUE". Unknown statuses are "FERRY_ERROR_UNKNOWN_STATUS", unknown results of the driver
        /// "CUDA_ERROR_UNKNOWN_RESULT". Needs no instance.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* ferry_status_name(Status status);

        /// <summary>
        /// Returns the meaning of the status in a few English words, also for unknown statuses. Needs no instance.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* ferry_status_text(Status status);

        /// <summary>Returns how to react to a status; 0 also for unknown statuses. Needs no instance.</summary>
        /// <remarks>Values: returned: FERRY_STATUS_CONTEXT_DEAD, FERRY_STATUS_RETRY or 0. Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern StatusTraits ferry_status_traits(Status status);

        /// <summary>
        /// Writes one readable line about `error` to `buffer`, cut to `size` bytes with its ending zero, such as "copy
        /// 7: destination.row_pitch: 100, must be at least 128 (FERRY_ERROR_PITCH)" or, if only status is set, "no such
        /// device ... (FERRY_ERROR_DEVICE)". FERRY_ERROR_OUT_OF_BOUNDS reads "destination.y: 17, past the end at 16
        /// (...)" of an array, and "source.address: 0x7f5e00001001, past the end at 0x7f5e00001000 (...)" of memory.
        /// Index 0 is left out. Returns the length of the whole line without the zero, or 0 for a NULL error. `buffer`
        /// may be NULL when size is 0: the call then measures the line.
        /// </summary>
        /// <remarks>Values: `buffer`: `size` bytes. Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong ferry_error_format(ErrorInfo* error, byte* buffer, ulong size);

        /// <summary>
        /// Opens an instance. NULL `options` are the defaults: the NVIDIA driver or an error. Several instances may be
        /// open at once, also on both drivers. Instances on the software driver share it: a later one with other
        /// software_* values is refused. Never give an instance a handle or a device address of the other driver. The
        /// software driver refuses handles that are not its own with the driver's status (-1400, of contexts -1201),
        /// but the NVIDIA driver may crash, and both take an address that they do not know for host memory.
        /// </summary>
        /// <remarks>
        /// Blocking: while cuInit runs. With FERRY_KERNELS_AT_OPEN or FERRY_STAGING_AT_OPEN also makes each device's
        /// primary context and waits for its running work, and with the latter starts threads and pins memory;
        /// otherwise makes no context. Ownership: *instance is the caller's until ferry_close. `options` is read before
        /// return. The callbacks and their data must live until ferry_close has returned. Errors: the common errors;
        /// FERRY_ERROR_NO_DRIVER, _DRIVER_TOO_OLD, _NO_DEVICE, or the driver's own status if cuInit fails. With
        /// FERRY_DRIVER_AUTO the software driver serves instead, and ferry_report gives that status. _ABI_MISMATCH,
        /// _RESERVED, _FLAGS and _INVALID_ARGUMENT name the option; _SOFTWARE_CONFIG; _UNSUPPORTED if the build has no
        /// software driver; _OUT_OF_MEMORY. A device that refuses ferry's kernels at open is logged, and reports
        /// FERRY_OBSTACLE_NOT_LOADED later.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_open(NativeOptions* options, IntPtr* instance, ErrorInfo* error);

        /// <summary>
        /// Closes an instance: releases the contexts it retained and frees it. First free everything made through the
        /// instance (memory, registrations, arrays, streams, events, contexts, pools, imports, prepared batches).
        /// Anything left stays as it is. Prepared batches that are left must not be touched again; host memory and
        /// pinned pools that are left can no longer be freed. Copies and fills may be in flight. Graphs captured
        /// through the instance may not run afterwards, unless they hold no kernel of ferry's (FERRY_COPY_BY_DRIVER,
        /// _NO_KERNELS, FERRY_KERNELS_NONE). The call is harmless at process exit and after the driver has gone. In the
        /// child of a fork it does nothing: another thread may have been changing the instance's memory, which ends
        /// with the child.
        /// </summary>
        /// <remarks>
        /// Thread-safety: no other call on this instance may be running or come later. Blocking: until staged copies in
        /// flight have ended, unless their context is dead; until streams have passed large batches, whose pieces are
        /// in tables of the instance (ferry_copy_batch_async); until streams have passed deferred frees (see
        /// ferry_deferred_info), which are then done. If the instance holds the last reference to a primary context,
        /// the driver waits for its work and destroys it with everything in it. The last instance on the software
        /// driver ends that driver: running work ends first, then all its addresses, arrays and contexts are gone.
        /// Errors: none.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_close(IntPtr instance);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_any(NativePlace* place, ulong address);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_host(NativePlace* place, IntPtr address);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_host_pitched(NativePlace* place, IntPtr address, ulong row_pitch,
            ulong slice_height);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_device(NativePlace* place, int device, ulong address);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_device_pitched(NativePlace* place, int device, ulong address,
            ulong row_pitch, ulong slice_height);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_array(NativePlace* place, int device, IntPtr array);

        /// <summary>
        /// Each builder overwrites the whole place. For a box inside, set x, y and z afterwards.
        /// ferry_place_array_layer starts at layer number `layer` of a layered array, or at that face of a cubemap, and
        /// sets z to it. ferry_copy checks the values. A NULL place is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_place_array_layer(NativePlace* place, int device, IntPtr array, ulong layer);

        /// <summary>
        /// Sets a descriptor from two places, which may be those inside *copy, and an extent. ferry_copy checks the
        /// values. A NULL place leaves that end all zero. A NULL copy is ignored.
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_copy_desc_init(NativeCopy* copy, NativePlace* source, NativePlace* destination,
            ulong width, ulong height, ulong depth);

        /// <summary>
        /// Copies, and returns when the bytes are visible to the host, to every stream and to every other thread. The
        /// copy is ordered like a driver call on the legacy default stream of its context: after earlier work on that
        /// stream and on the streams that synchronise with it. The caller orders work on non-blocking streams. To wait
        /// for a copy on another stream, use ferry_copy_async and ferry_stream_synchronize. The context is the thread's
        /// current one, else that of the destination's device, else of the source's, else of device 0.
        /// </summary>
        /// <remarks>
        /// Blocking: until the copy is complete. Errors: the common errors; FERRY_ERROR_KIND, _DEVICE, _ADDRESS,
        /// _PITCH, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP, _ARRAY_FORMAT, _FLAGS, _RESERVED name the field in `error`, and
        /// nothing was copied; _UNSUPPORTED from one 2D layer or face to another of the same array, which the driver
        /// gets wrong; _ROUTE if the route forced by the flags cannot take the copy. The driver's own may also report
        /// earlier asynchronous work that failed.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy(IntPtr instance, NativeCopy* copy, ErrorInfo* error);

        /// <summary>
        /// Enqueues a copy on `stream`: it starts after earlier work there, and is complete for later work. `stream` is
        /// any CUstream or cudaStream_t. NULL and FERRY_STREAM_LEGACY are the legacy default stream,
        /// FERRY_STREAM_PER_THREAD is the per-thread one (both cast to a pointer). The context is the stream's; for
        /// those three it is found as for ferry_copy. `ticket` may be NULL; otherwise *ticket reports the copy's
        /// progress.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU unless its flags say so (SOURCE_READ, DESTINATION_WRITTEN), with two
        /// exceptions. The driver's own copies from host memory to host memory wait, and so do its copies of pageable
        /// memory that are not staged: where staging cannot serve (managed memory, another device's memory, arrays
        /// without a surface above 256 MiB; see docs/staging.md), where flags exclude it, and on an idle stream where
        /// the driver is predicted to be faster: up to 1 MiB, or more while staging is late because the machine is
        /// busy, where no kernel can serve, or on the software driver. Such a call waits for earlier work on the stream
        /// (not with FERRY_COPY_SOURCE_READ), and until a pageable source has been read or, with a host destination,
        /// until the copy is complete. A small upload waits up to 30 us (0.3 ms on the software driver) for one of
        /// ferry's just before it on the stream, and a staged copy on an idle stream up to 0.1 ms until the device has
        /// started a kernel, some 10 us if it is idle. ferry_copy_explain_async reports what applies. Memory of a host
        /// pool does not count as host memory here if the device of the copy's other end has access to the pool, or
        /// between host memory the stream's device. The first copy by a kernel in a context may wait while the kernel
        /// is loaded; the first staged, buffered or relayed copy, while threads start, streams are created or memory is
        /// pinned (ferry_options.kernels and staging). Like every call that enqueues, it waits for the driver's lock
        /// while another thread frees (see Memory). Ownership: `copy` is read before return. The memory must live until
        /// the stream has passed the copy, and the source must not change until then, except a pageable source with
        /// FERRY_COPY_SOURCE_READ: until the return. Memory that is unmapped while a copy runs cannot be made safe.
        /// *ticket is the caller's until ferry_ticket_release, which must come before ferry_close. Errors: the common
        /// errors; as ferry_copy; nothing was enqueued, except the parts of a split copy, the launches of a staged one
        /// above 1 GiB, or the chunks of a relayed one, before the one that fails. FERRY_ERROR_CAPTURE on a stream that
        /// is being captured, for three kinds of copy: between memory from pools of two devices, neither of which has
        /// access to the other's pool; from pageable memory to a device without staging, because the driver would read
        /// the source at the launch, before the graph's earlier nodes have run; and of pageable memory with
        /// FERRY_COPY_SOURCE_READ or _DESTINATION_WRITTEN. With a ticket also _OUT_OF_MEMORY, _UNSUPPORTED, and
        /// _CAPTURE under any capture, because the copy may run any number of times. If the driver refuses only the
        /// event behind the copy, the copy is in flight all the same. A later call that synchronises reports later
        /// failures.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_async(IntPtr instance, NativeCopy* copy, IntPtr stream, IntPtr* ticket,
            ErrorInfo* error);

        /// <summary>
        /// Copies `size` bytes from address to address, both of kind ANY, otherwise as ferry_copy. Pass host addresses
        /// as integers: (uint64_t)(uintptr_t)pointer.
        /// </summary>
        /// <remarks>
        /// Blocking: until the copy is complete. Errors: the common errors; FERRY_ERROR_ADDRESS, _OVERFLOW,
        /// _OUT_OF_BOUNDS, _OVERLAP; as ferry_copy.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_bytes(IntPtr instance, ulong destination, ulong source, ulong size,
            ErrorInfo* error);

        /// <summary>ferry_copy_bytes on a stream, as ferry_copy_async.</summary>
        /// <remarks>
        /// Blocking: as ferry_copy_async. Ownership: the memory must live until the stream has passed the copy. Errors:
        /// the common errors; as ferry_copy_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_bytes_async(IntPtr instance, ulong destination, ulong source, ulong size,
            IntPtr stream, ErrorInfo* error);

        /// <summary>
        /// Makes a ticket for the work enqueued on `stream` so far. Default streams as for ferry_stream_synchronize.
        /// Broadcasts and relays have a part of their work on other devices. If the context of one of these dies, bytes
        /// are missing, but `stream` goes on and reports nothing. A ticket made while that work is in flight has the
        /// status.
        /// </summary>
        /// <remarks>
        /// Ownership: *ticket is the caller's until ferry_ticket_release, which must come before ferry_close. Errors:
        /// the common errors; FERRY_ERROR_CAPTURE on a stream that is being captured; FERRY_ERROR_OUT_OF_MEMORY.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ticket_create(IntPtr instance, IntPtr stream, IntPtr* ticket,
            ErrorInfo* error);

        /// <summary>
        /// Fills `info`. A staged copy is done when its last byte has arrived, which may be a moment before its stream
        /// continues. The call also detects a dead context: for a staged copy, no later than at the first query before
        /// which no bytes have arrived since the previous one. After a context has died, threads of ferry's may still
        /// be at the host memory of a staged copy, each until the end of its chunk. The copy's ticket is done, and
        /// ferry_ticket_wait returns, only after the last of them has left: then the memory may be freed. A batch, a
        /// copy without a ticket and a copy of memory that is registered in part have no such ticket. Their memory may
        /// be freed after ferry_close has returned, or after ferry_staging_info.busy_threads was 0 once a call has
        /// returned the status of the dead context.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe, but not beside ferry_ticket_release of the same ticket. Errors: the common errors;
        /// info-&gt;status is the copy's own result; a copy that failed is no error of this call. A ticket that was not
        /// found done before its context was destroyed has the driver's CUDA_ERROR_CONTEXT_IS_DESTROYED.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ticket_get_info(IntPtr ticket, TicketInfo* info);

        /// <summary>
        /// Waits until the copy is done, and returns its status. The calling thread helps with staged copies meanwhile.
        /// </summary>
        /// <remarks>
        /// Thread-safety: as ferry_ticket_get_info. Blocking: until the copy is done, or its context has died.
        /// Ownership: the ticket stays the caller's. Errors: the common errors; the status that ended the copy, which
        /// may come from earlier work that failed; FERRY_ERROR_INVALID_ARGUMENT for NULL. For the copy's own status
        /// alone see ferry_ticket_info.status.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ticket_wait(IntPtr ticket);

        /// <summary>Releases a ticket, at any time; the copy continues.</summary>
        /// <remarks>Thread-safety: not beside another call on the same ticket.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ticket_release(IntPtr ticket);

        /// <summary>
        /// Makes `count` copies of any places and shapes, each as ferry_copy would. The copies have no order among
        /// themselves. Their sources may overlap. No destination may overlap another copy's source or destination: the
        /// bytes of both copies' destinations are then undefined, but no others change. FERRY_BATCH_CHECK_OVERLAP looks
        /// for overlap by sorting all rows, for some hundred nanoseconds each. All copies are checked before any is
        /// made. A copy that continues the one before at both ends is merged with it. Width 0 is fine, and so is count
        /// 0; `copies` may then be NULL. A copy may leave the allocation that it begins in only into adjacent memory of
        /// the same device, which full checks refuse too, and out of a registration of host memory. The context is
        /// found as for ferry_copy, for the first copy that has a device. A piece is a line of linear memory without
        /// flags of its own; any other copy is a box. Pieces use the instance's flags. A copy with flags of its own is
        /// routed by them, in a call or launch of its own. If the instance has flags, every box of rows gets a call or
        /// launch of its own too. All boxes out of arrays that kernels read (FERRY_ARRAY_SURFACE) take one launch
        /// together where that is faster. The driver makes copies into arrays. Between pageable memory and the
        /// context's device, pieces are staged together, with boxes of at most 16384 rows: in one launch for each
        /// direction, or several above 1 GiB. A single one, and copies with the instance's flags NO_KERNELS or
        /// BY_DRIVER, are routed as by ferry_copy_async. Pieces with the same source of 4 MiB or more that go to
        /// several devices are a broadcast, which runs on streams of ferry's own. Devices with access to each other's
        /// memory, proven by ferry_peer_enable or ferry_peer_probe, pass chunks on to each other (docs/devices.md). If
        /// the context of one dies meanwhile, the call makes the broadcast again without it, and returns its status and
        /// the index of its copy. With ferry_options.submit this call makes no broadcasts of pageable memory: the
        /// calling thread helps to stage each copy instead.
        /// </summary>
        /// <remarks>
        /// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0. Blocking: until all copies are
        /// complete. Ownership: `copies` is read before return. Working memory is kept for the next batch, until
        /// ferry_close. Errors: the common errors; as ferry_copy, with the copy's `index`; nothing was copied. _OVERLAP
        /// between two copies names the later in `index`, with FERRY_FIELD_INDEX, and the other in `limit`. _FLAGS
        /// without a side for `flags`; _OUT_OF_MEMORY. If the driver refuses a copy only on submission, the call waits
        /// for what it has enqueued, and enqueues no more. Each other copy was then made whole or not at all, except in
        /// broadcasts and in copies that take several calls or launches; `error` does not say which were made.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_batch(IntPtr instance, NativeCopy* copies, ulong count, BatchFlags flags,
            ErrorInfo* error);

        /// <summary>
        /// Enqueues a batch on `stream`, as for ferry_copy_async: all of it starts after earlier work there, and is
        /// complete for later work.
        /// </summary>
        /// <remarks>
        /// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0. Blocking: does not wait for the
        /// GPU, except for copies that wait in ferry_copy_async too; for pieces that are staged together while the
        /// instance's flags have SOURCE_READ or DESTINATION_WRITTEN, until their sources have been read or their
        /// destinations are complete; for pieces that the driver copies one by one because kernels of others fill the
        /// device; and for the stream if the driver cannot make an event for a table (see Driver). Ownership: `copies`
        /// is read before return. The memory as for ferry_copy_async, until the stream has passed the batch. Errors:
        /// the common errors; as ferry_copy_batch and ferry_copy_async; nothing was enqueued, except the parts before a
        /// part that the driver refuses or that fails with FERRY_ERROR_LIMIT or _OUT_OF_MEMORY.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_batch_async(IntPtr instance, NativeCopy* copies, ulong count,
            BatchFlags flags, IntPtr stream, ErrorInfo* error);

        /// <summary>
        /// Copies a batch of `count` plain pieces: sizes[i] bytes from sources[i] to destinations[i], both of kind ANY,
        /// as ferry_copy_bytes. The fastest form for thousands of small pieces. A size of 0 is fine, whatever its
        /// addresses. The rule of ferry_copy_batch about overlap holds for pieces too.
        /// </summary>
        /// <remarks>
        /// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
        /// Blocking: until all pieces are complete. Errors: the common errors; as ferry_copy_batch.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_pieces(IntPtr instance, ulong* destinations, ulong* sources,
            ulong* sizes, ulong count, BatchFlags flags, ErrorInfo* error);

        /// <summary>ferry_copy_pieces on a stream, as ferry_copy_batch_async.</summary>
        /// <remarks>
        /// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
        /// Blocking: as ferry_copy_batch_async. Ownership: the arrays are read before return; the memory must live
        /// until the stream has passed the batch. Errors: the common errors; as ferry_copy_batch_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_pieces_async(IntPtr instance, ulong* destinations, ulong* sources,
            ulong* sizes, ulong count, BatchFlags flags, IntPtr stream, ErrorInfo* error);

        /// <summary>
        /// Prepares a batch for streams of the device of `stream`, whose context is found as for
        /// ferry_copy_batch_async. The plan keeps the current profile and instance flags. `count` 0 is fine.
        /// </summary>
        /// <remarks>
        /// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0. Blocking: while a table of the
        /// pieces is sent to the device, if kernels read one; cuMemAlloc may wait for the device. Ownership: *prepared
        /// is the caller's until ferry_prepared_destroy, which must come before ferry_close. `copies` is read before
        /// return. For every launch the memory and the context must live, and the memory must stay of the same kind.
        /// Errors: the common errors; as ferry_copy_batch, including _ROUTE with the index of a copy that the
        /// instance's flags force onto a route that cannot take it.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_prepared_create(IntPtr instance, NativeCopy* copies, ulong count,
            BatchFlags flags, IntPtr stream, IntPtr* prepared, ErrorInfo* error);

        /// <summary>
        /// Prepares a batch of pieces, as ferry_prepared_create. With FERRY_BATCH_UPDATABLE their addresses can be
        /// changed, and pieces are not merged.
        /// </summary>
        /// <remarks>
        /// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_*. Blocking: as
        /// ferry_prepared_create. Ownership: as ferry_prepared_create; the arrays are read before return. Errors: the
        /// common errors; as ferry_prepared_create; if updatable, FERRY_ERROR_OUT_OF_BOUNDS for a piece that does not
        /// lie in one allocation at either end: FERRY_SIDE_DESCRIPTOR and FERRY_FIELD_ADDRESS, without value and limit.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_prepared_create_pieces(IntPtr instance, ulong* destinations, ulong* sources,
            ulong* sizes, ulong count, BatchFlags flags, IntPtr stream, IntPtr* prepared, ErrorInfo* error);

        /// <summary>
        /// Enqueues a prepared batch on `stream`, a stream of the device that it was prepared for, as
        /// ferry_copy_batch_async would. A default stream is that of the current context, else of ferry's context for
        /// the device of the batch. On a stream that is being captured the batch becomes part of the graph and must
        /// live as long as the graph may run. In another context of the device, which does not see all memory of the
        /// first, the driver makes the copies instead of kernels.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe, but not beside ferry_prepared_set_addresses and ferry_prepared_destroy on the same
        /// batch. Blocking: as ferry_copy_batch_async. Ownership: as ferry_copy_batch_async. Errors: the common errors;
        /// FERRY_ERROR_DEVICE for a stream of another device; for an updatable batch _UNSUPPORTED in another context,
        /// and _CAPTURE if the graph would hold parts of it by their addresses. `error` has no index.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_prepared_launch(IntPtr prepared, IntPtr stream, ErrorInfo* error);

        /// <summary>
        /// Gives all pieces of an updatable batch new addresses; NULL keeps the sources or the destinations. Addresses
        /// of pieces of size 0 are not read. The change is ordered on `stream`: earlier launches use the old addresses;
        /// later launches, also replays of graphs, use the new ones. The caller orders launches on other streams. Each
        /// piece keeps its size, its kind of memory (pinned host memory, the device's or a peer's), and its
        /// destination's remainder modulo 16. The new addresses are checked as before, with the original flags and for
        /// the context that the batch was prepared in.
        /// </summary>
        /// <remarks>
        /// Values: `destinations`, `sources`: as many elements as `prepared` has pieces, those of size 0 included.
        /// Thread-safety: safe, but not beside another call on the same prepared batch: ferry_prepared_launch,
        /// ferry_prepared_destroy or this one. Launches of a graph that holds the batch may run beside it: only streams
        /// order them. Blocking: does not wait for the GPU. Errors: the common errors; as ferry_prepared_create_pieces,
        /// with the index; for a forbidden change FERRY_ERROR_KIND, or _ALIGNMENT with the destination's shift as
        /// `value`. _UNSUPPORTED if the batch is not updatable; _DEVICE for a stream of another device; _CAPTURE on a
        /// stream that is being captured. The addresses are unchanged after an error.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_prepared_set_addresses(IntPtr prepared, ulong* destinations, ulong* sources,
            IntPtr stream, ErrorInfo* error);

        /// <summary>
        /// Destroys a prepared batch. Launches of it may be in flight; graphs that hold it may not run any more.
        /// </summary>
        /// <remarks>
        /// Thread-safety: not beside another call on the same batch, ferry_prepared_launch and
        /// ferry_prepared_set_addresses. Blocking: if the batch has a table on the device, for the device's running
        /// work, as cuMemFree does. Ownership: the batch is gone, whatever is returned, except in the child of a fork.
        /// Errors: the common errors; the driver's own may be those of earlier work.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_prepared_destroy(IntPtr prepared);

        /// <summary>
        /// Sets a descriptor from a place, which may be the one inside *fill, an extent and `pattern_size` bytes of
        /// pattern (at most 16 are taken). ferry_fill checks the values. A NULL place leaves the destination all zero;
        /// a NULL pattern means zero bytes. A NULL fill is ignored.
        /// </summary>
        /// <remarks>Values: `pattern`: `pattern_size` bytes. Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void ferry_fill_desc_init(NativeFill* fill, NativePlace* destination, ulong width,
            ulong height, ulong depth, IntPtr pattern, uint pattern_size);

        /// <summary>
        /// Fills, and returns when the bytes are there. The fill is ordered like a ferry_copy. The context is the
        /// current one if it belongs to the memory's device, else ferry's for that device; for pinned and managed
        /// memory the current one, else device 0's. Memory that the driver fills only in the memory's own context, such
        /// as another process's, uses that context.
        /// </summary>
        /// <remarks>
        /// Blocking: until the fill is complete. Errors: the common errors; FERRY_ERROR_KIND (pageable host memory
        /// too), _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS, _ALIGNMENT, _FLAGS, _RESERVED name the field in
        /// `error`, and nothing was filled. If the driver refuses a part of a split fill, the parts before it were
        /// filled. _INVALID_ARGUMENT for a pattern_size that is no power of two up to 16; _UNSUPPORTED for arrays;
        /// _ROUTE if FERRY_COPY_BY_KERNEL is impossible. A fill that needs a kernel (see ferry_fill_desc) is
        /// _UNSUPPORTED with the field PATTERN or DEPTH if the flags, the options or the driver exclude kernels, if the
        /// box leaves an allocation or registration, or if kernels cannot reach the memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_fill(IntPtr instance, NativeFill* fill, ErrorInfo* error);

        /// <summary>
        /// Enqueues a fill on `stream`, as ferry_copy_async does a copy. The stream must be on the memory's device, or
        /// on one with peer access to it; for pinned and managed memory any stream will do. The NULL, legacy and
        /// per-thread streams are those of the context found as for ferry_fill.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU, except while kernels are loaded (ferry_options.kernels). Ownership:
        /// `fill` is read before return. The memory must live until the stream has passed the fill. Errors: the common
        /// errors; as ferry_fill; nothing was enqueued but the parts of a split fill before the one that fails.
        /// FERRY_ERROR_DEVICE also for a stream that cannot reach the memory; _NO_CONTEXT for another process's memory
        /// on a stream of a context other than the one that opened it.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_fill_async(IntPtr instance, NativeFill* fill, IntPtr stream,
            ErrorInfo* error);

        /// <summary>Returns a text such as "pageable memory"; "?" for an unknown number.</summary>
        /// <remarks>Values: `obstacle`: FERRY_OBSTACLE_*. Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* ferry_obstacle_text(Obstacle obstacle);

        /// <summary>
        /// Reports what ferry_copy would do with `copy`, without doing it. Fills `explanation`. The explanation does
        /// not cover whether a copy between two devices uses the link between them: that depends on peer access.
        /// </summary>
        /// <remarks>
        /// Blocking: never, except on first need as ferry_context_retain_primary, and while kernels are loaded as
        /// ferry_copy. Errors: the common errors; as ferry_copy.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_explain(IntPtr instance, NativeCopy* copy, Explanation* explanation,
            ErrorInfo* error);

        /// <summary>
        /// Reports what ferry_copy_async would do, as ferry_copy_explain. The explanation describes a copy that is
        /// enqueued at this moment. A later copy of the same description takes another route only if something has
        /// changed that the choice depends on: the earlier work on the stream has completed, or other work has been
        /// enqueued there; ferry has measured another staging delay or has another profile; the access between devices
        /// has changed; or the copy finds no free slot, stream or pinned memory for its route, and the driver makes it.
        /// ferry_ticket_info.route is the route that the copy took.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_copy_explain; for a copy to be staged also while threads start and memory is pinned, as
        /// ferry_copy_async. Errors: the common errors; as ferry_copy_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_explain_async(IntPtr instance, NativeCopy* copy, IntPtr stream,
            Explanation* explanation, ErrorInfo* error);

        /// <summary>
        /// Reports what ferry_fill would do with `fill`, without doing it. Fills `explanation`. A fill that the driver
        /// refuses in the call's context, and that ferry_fill then makes in the memory's own, is explained as in the
        /// call's.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_copy_explain. Errors: the common errors; as ferry_fill, but for refusals by the driver.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_fill_explain(IntPtr instance, NativeFill* fill, Explanation* explanation,
            ErrorInfo* error);

        /// <summary>Reports what ferry_fill_async would do, as ferry_fill_explain.</summary>
        /// <remarks>
        /// Blocking: as ferry_copy_explain. Errors: the common errors; as ferry_fill_async, but for refusals by the
        /// driver: _DEVICE for a stream that cannot reach the memory and _NO_CONTEXT are not found.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_fill_explain_async(IntPtr instance, NativeFill* fill, IntPtr stream,
            Explanation* explanation, ErrorInfo* error);

        /// <summary>
        /// Writes one readable line about `explanation` to `buffer`, such as "driver route: cuMemcpy3DAsync, pinned to
        /// device 0, 4096 B x 3 rows x 1 slices; does not block; 5.8 us by the driver, 11.2 us by a kernel; because it
        /// is predicted to be the fastest (built-in profile)" or "...; no kernel: pageable memory", cut to `size` bytes
        /// with its ending zero. Returns the length of the whole line without the zero, or 0 for a NULL explanation or
        /// a bad struct_size. `buffer` may be NULL when size is 0.
        /// </summary>
        /// <remarks>Values: `buffer`: `size` bytes. Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong ferry_explanation_format(Explanation* explanation, byte* buffer, ulong size);

        /// <summary>
        /// Reports what ferry_copy_batch_async would do with a batch now, without doing it: how many copies go which
        /// way, and the predicted times. Checks the batch as that call does, and fills `explanation`. Does not tell
        /// whether that call waits: `singles` wait as ferry_copy_explain_async tells for each, and `staged` only to
        /// read sources early (Blocking of ferry_copy_batch_async).
        /// </summary>
        /// <remarks>
        /// Values: `copies`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0. Blocking: as
        /// ferry_copy_explain_async. Errors: the common errors; as ferry_copy_batch_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_batch_explain_async(IntPtr instance, NativeCopy* copies, ulong count,
            BatchFlags flags, IntPtr stream, BatchExplanation* explanation, ErrorInfo* error);

        /// <summary>Reports what ferry_copy_pieces_async would do, as ferry_copy_batch_explain_async.</summary>
        /// <remarks>
        /// Values: `destinations`, `sources`, `sizes`: `count` elements; `flags`: FERRY_BATCH_CHECK_OVERLAP or 0.
        /// Blocking: as ferry_copy_explain_async. Errors: the common errors; as ferry_copy_pieces_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_copy_pieces_explain_async(IntPtr instance, ulong* destinations,
            ulong* sources, ulong* sizes, ulong count, BatchFlags flags, IntPtr stream, BatchExplanation* explanation,
            ErrorInfo* error);

        /// <summary>
        /// Writes one readable line about `explanation` to `buffer`, such as "1500 copies staged on 8 SMs and 8
        /// threads, 90.1 MB, 1900.0 us; 3 by a kernel on 8 SMs, 0.1 MB, 12.1 us", or "nothing to copy". The SMs are
        /// max_sms in both parts, and a MB is 10^6 bytes. Size and return value as for ferry_explanation_format.
        /// </summary>
        /// <remarks>Values: `buffer`: `size` bytes. Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong ferry_batch_explanation_format(BatchExplanation* explanation, byte* buffer,
            ulong size);

        /// <summary>
        /// Fills `report`. The values are those of ferry_open, except for peers, kernels and staging, which are
        /// current.
        /// </summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_instance_get_report(IntPtr instance, Report* report);

        /// <summary>
        /// Returns the name of the index-th optional entry point that the driver lacks, such as "cuLaunchHostFunc".
        /// </summary>
        /// <remarks>Errors: none.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* ferry_instance_get_missing_entry_point(IntPtr instance, uint index);

        /// <summary>
        /// Returns this instance's driver entry point: for the program's own calls to the same driver, software or not.
        /// `version` is as for cuGetProcAddress, such as 12000. The function's type is
        /// PFN_&lt;name&gt;_v&lt;version&gt; in cudaTypedefs.h.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe if the program's own get_proc is. Ownership: valid until ferry_close. Errors: none.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr ferry_instance_get_proc(IntPtr instance, byte* name, int version);

        /// <summary>Fills `info` with the facts of device number `device`. They were queried at ferry_open.</summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_get_info(IntPtr instance, int device, DeviceInfo* info);

        /// <summary>
        /// Stores the number of the device that another API knows by a UUID (VkPhysicalDeviceIDProperties.deviceUUID)
        /// or by a LUID (ID3D12Device::GetAdapterLuid). Each API numbers the devices in its own way. One of the two may
        /// be NULL; the UUID counts if both are given. Linked adapters share a LUID: this is the first of them, and
        /// ferry_device_info.luid_node_mask tells them apart. *device is -1 after a failure.
        /// </summary>
        /// <remarks>
        /// Values: `uuid`: 16 bytes; `luid`: 8 bytes. Errors: the common errors; FERRY_ERROR_DEVICE if this instance
        /// has no such device.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_find(IntPtr instance, byte* uuid, byte* luid, int* device);

        /// <summary>
        /// Retains the device's primary context for the caller. Each call needs one ferry_context_release_primary.
        /// </summary>
        /// <remarks>
        /// Blocking: while the driver makes the context, on the first retain in the process (up to hundreds of ms).
        /// Ownership: one reference to *context is the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_retain_primary(IntPtr instance, int device, IntPtr* context,
            ErrorInfo* error);

        /// <summary>Releases one reference to the device's primary context.</summary>
        /// <remarks>Blocking: as the driver, if this was the last reference in the process.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_release_primary(IntPtr instance, int device);

        /// <summary>
        /// Creates a context of the caller's own on `device`. Unlike cuCtxCreate it does not become current.
        /// </summary>
        /// <remarks>
        /// Values: `flags`: CUctx_flags; 0 is the driver's default. Blocking: while the driver makes the context.
        /// Ownership: *context is the caller's until ferry_context_destroy.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_create(IntPtr instance, int device, uint flags, IntPtr* context,
            ErrorInfo* error);

        /// <summary>
        /// Destroys a context made by ferry_context_create, with everything in it. If it was adopted, ferry returns to
        /// the device's primary context. No thread may have the context current, and no other call may be using it.
        /// First calls ferry_options.trace for the calls in this context that are not reported as done yet.
        /// </summary>
        /// <remarks>
        /// Blocking: until the context's work has ended, and kernels of helpers (ferry_multilink_set) that come late.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_destroy(IntPtr instance, IntPtr context);

        /// <summary>
        /// Makes ferry use the program's `context` for the context's device instead of the primary one, from the next
        /// call on. `device` is read only if `context` is NULL: it then returns to its primary context. The staging
        /// buffer stays in the primary context in any case; the first staged copy retains that.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe; calls already running on other threads may still use the former context. Ownership: the
        /// context stays the caller's and must live until another is adopted or the instance is closed. Errors: the
        /// common errors; the driver's own for an invalid context.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_adopt(IntPtr instance, int device, IntPtr context);

        /// <summary>
        /// Makes `context` current on the calling thread, on top of its current one; `device` is then not read. NULL:
        /// pushes the context that ferry uses for `device`.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe; affects only the calling thread. Blocking: as ferry_context_retain_primary, if
        /// `context` is NULL and the primary one was not retained yet.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_push(IntPtr instance, int device, IntPtr context);

        /// <summary>
        /// Pops the calling thread's current context, and stores it in *context unless `context` is NULL.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe; affects only the calling thread. Errors: the common errors; FERRY_ERROR_NO_CONTEXT if
        /// there was none.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_pop(IntPtr instance, IntPtr* context);

        /// <summary>Stores the calling thread's current context in *context; NULL if there is none.</summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_get_current(IntPtr instance, IntPtr* context);

        /// <summary>
        /// Waits until all work of `context` has ended; `device` is then not read. NULL: waits for the context that
        /// ferry uses for `device`, which need not be the thread's current one.
        /// </summary>
        /// <remarks>
        /// Blocking: until the work has ended. Calls for one device take turns, also with those of ferry_pool_destroy
        /// and others that wait for a context: CUDA 13.0 can deadlock when two threads do so at once. Errors: the
        /// common errors; late errors of earlier work.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_context_synchronize(IntPtr instance, int device, IntPtr context);

        /// <summary>
        /// Creates a stream on `device`. `priority`: 0 is the lowest, negative numbers are more urgent, down to a limit
        /// that the driver applies; copies ignore it.
        /// </summary>
        /// <remarks>
        /// Values: `flags`: FERRY_STREAM_NON_BLOCKING or 0. Blocking: may wait for the device. Ownership: *stream, a
        /// CUstream, is the caller's until ferry_stream_destroy. Errors: the common errors; FERRY_ERROR_FLAGS.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_stream_create(IntPtr instance, int device, StreamFlags flags, int priority,
            IntPtr* stream, ErrorInfo* error);

        /// <summary>
        /// Destroys a stream; work enqueued on it still completes. NULL does nothing. FERRY_STREAM_LEGACY and
        /// FERRY_STREAM_PER_THREAD are FERRY_ERROR_INVALID_ARGUMENT.
        /// </summary>
        /// <remarks>Thread-safety: safe; no other call may be using the stream.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_stream_destroy(IntPtr instance, IntPtr stream);

        /// <summary>
        /// Waits until all work enqueued on `stream` has ended. Default streams are those of the current context, else
        /// device 0's.
        /// </summary>
        /// <remarks>
        /// Blocking: until the work has ended. Errors: the common errors; late errors of earlier work.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_stream_synchronize(IntPtr instance, IntPtr stream);

        /// <summary>
        /// Sets *done to 1 if all work enqueued on `stream` has ended, else to 0. A failure also sets 0, so a loop must
        /// check the status. Default streams as for ferry_stream_synchronize.
        /// </summary>
        /// <remarks>Values: `done`: 0 or 1. Errors: the common errors; late errors of earlier work.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_stream_query(IntPtr instance, IntPtr stream, int* done);

        /// <summary>
        /// Calls done(user, status) once the work enqueued on `stream` so far has ended, on a thread of the driver's,
        /// which holds back later work on the stream until `done` returns. `status` is 0, or what ended the work: a
        /// broken context calls `done` too, a destroyed one may not. Default streams as for ferry_stream_synchronize.
        /// </summary>
        /// <remarks>
        /// Blocking: none. `done` must not call ferry or the driver, nor wait for a thread that does. It may be called
        /// before this call returns, and after ferry_close. Ownership: `user` must live until the call of `done`. If
        /// this call fails, `done` is not called. Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT for NULL
        /// `done`; FERRY_ERROR_CAPTURE on a stream that is being captured; FERRY_ERROR_OUT_OF_MEMORY.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_stream_notify(IntPtr instance, IntPtr stream, IntPtr done, IntPtr user,
            ErrorInfo* error);

        /// <summary>
        /// Makes later work on `stream` wait for the last record of `event`, on any device. It does not wait for an
        /// event that was never recorded. The event may be destroyed or recorded again at once. Default streams as for
        /// ferry_stream_synchronize.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU, only for the driver's lock while another thread frees (see Memory).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_stream_wait_event(IntPtr instance, IntPtr stream, IntPtr @event);

        /// <summary>Creates an event on `device`; it can be recorded on streams of that device.</summary>
        /// <remarks>
        /// Values: `flags`: FERRY_EVENT_*. Blocking: never, except on first need as ferry_context_retain_primary.
        /// Ownership: *event, a CUevent, is the caller's until ferry_event_destroy. Errors: the common errors;
        /// FERRY_ERROR_FLAGS; _UNSUPPORTED for FERRY_EVENT_INTERPROCESS where the driver shares no events
        /// (ferry_device_info.ipc_events).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_event_create(IntPtr instance, int device, EventFlags flags, IntPtr* @event,
            ErrorInfo* error);

        /// <summary>Destroys an event; calls and streams that already wait for it are not affected.</summary>
        /// <remarks>
        /// Thread-safety: safe; no other call may be using the event. Errors: the common errors; FERRY_ERROR_IMPORTED
        /// for an event of another process (ferry_ipc_close_event).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_event_destroy(IntPtr instance, IntPtr @event);

        /// <summary>
        /// Records `event` after the work enqueued on `stream` so far. The stream must belong to the event's context.
        /// Default streams as for ferry_stream_synchronize: for an event of another device, name a stream.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU, only for the driver's lock while another thread frees (see Memory).
        /// Errors: the common errors; the driver's -1400 for a stream of another context.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_event_record(IntPtr instance, IntPtr @event, IntPtr stream);

        /// <summary>
        /// Waits until the work before the event's last record has ended; returns at once if it was never recorded.
        /// </summary>
        /// <remarks>
        /// Blocking: until that work has ended. Errors: the common errors; late errors of earlier work.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_event_synchronize(IntPtr instance, IntPtr @event);

        /// <summary>
        /// Sets *done to 1 if the work before the event's last record has ended or the event was never recorded, else
        /// to 0. A failure also sets 0, so a loop must check the status.
        /// </summary>
        /// <remarks>Values: `done`: 0 or 1. Errors: the common errors; late errors of earlier work.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_event_query(IntPtr instance, IntPtr @event, int* done);

        /// <summary>
        /// Stores the time from `start` to `end` in milliseconds, to about half a microsecond; negative if `end` passed
        /// first. Both events belong to one context and must have passed.
        /// </summary>
        /// <remarks>
        /// Errors: the common errors; the driver's -1600 if an event has not passed yet, and -1400 if one was never
        /// recorded or has no timing, or if the two are of two contexts.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_event_elapsed_time(IntPtr instance, IntPtr start, IntPtr end,
            float* milliseconds);

        /// <summary>Allocates `size` bytes on `device`, aligned to 256 bytes or more. Size 0 is an error.</summary>
        /// <remarks>
        /// Blocking: may wait for the device, as cuMemAlloc may. Waits for running work if deferred frees keep more
        /// than ferry_options.deferred_bytes, or if the device has no memory left and deferred frees keep some.
        /// Ownership: *address is the caller's until ferry_device_free. Errors: the common errors; the driver's -1002
        /// if it is out of memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_alloc(IntPtr instance, int device, ulong size, ulong* address,
            ErrorInfo* error);

        /// <summary>
        /// Allocates `height` rows of `width` bytes on `device`, each row aligned well for elements of `element_size`
        /// bytes (4, 8 or 16; 0 counts as 4). *row_pitch is the bytes from one row to the next. A width or height of 0
        /// is an error.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device, as ferry_device_alloc. Ownership: *address is the caller's until
        /// ferry_device_free. Errors: the common errors; the driver's own for other element sizes.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_alloc_pitched(IntPtr instance, int device, ulong width, ulong height,
            uint element_size, ulong* address, ulong* row_pitch, ErrorInfo* error);

        /// <summary>
        /// Allocates `size` bytes of managed memory: one address for the host and every device, between which the
        /// driver moves the pages. The context of `device` allocates it. If ferry_device_info.concurrent_managed_access
        /// is 0, the host must not touch managed memory while any device has work. Size 0 is an error.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device. Ownership: *address is the caller's until ferry_device_free. Errors: the
        /// common errors; the driver's -1002 if it is out of memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_managed_alloc(IntPtr instance, int device, ulong size, ulong* address,
            ErrorInfo* error);

        /// <summary>
        /// Frees memory of ferry_device_alloc, ferry_device_alloc_pitched, ferry_managed_alloc,
        /// ferry_device_alloc_async or ferry_pool_alloc_async. 0 is allowed.
        /// </summary>
        /// <remarks>
        /// Blocking: until running work on the device has ended, as cuMemFree does. Errors: the common errors;
        /// FERRY_ERROR_ADDRESS if it is neither device nor managed memory nor of a pool, or was given to
        /// ferry_device_free_deferred; _IMPORTED for memory of another process (ferry_ipc_close_memory) and of another
        /// API (ferry_external_memory_release).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_free(IntPtr instance, ulong address);

        /// <summary>
        /// A deferred free: frees memory of ferry_device_alloc or ferry_device_alloc_pitched in the order of `stream`,
        /// and waits for no work. The instance keeps the memory until the stream has passed. Then ferry_deferred_trim,
        /// a later allocation of ferry's on the device (see ferry_options.deferred_bytes) or ferry_close returns it to
        /// the driver. The stream must come after all work that uses the memory; it may be destroyed at once. 0 is
        /// allowed. Default streams are those of the memory's device.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU, only for the driver's lock while another thread frees. Ownership: the
        /// memory is gone, though ferry_address_get_info knows it until the driver has it back. Errors: the common
        /// errors; FERRY_ERROR_ADDRESS if it is not the beginning of such an allocation or was freed already;
        /// _IMPORTED; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an error the memory is still
        /// the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_free_deferred(IntPtr instance, ulong address, IntPtr stream);

        /// <summary>
        /// Fills `info` with what is kept on `device`; for FERRY_DEVICE_UNKNOWN on all devices and in the host's
        /// memory.
        /// </summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_deferred_get_info(IntPtr instance, int device, DeferredInfo* info);

        /// <summary>
        /// Returns memory and arrays kept on `device` to the driver, oldest first, until at most `keep` bytes are left
        /// there. For FERRY_DEVICE_UNKNOWN on each device, and in the host's memory. Anything that its stream has not
        /// passed yet stays.
        /// </summary>
        /// <remarks>
        /// Blocking: until running work on the device has ended, as ferry_device_free, if there is anything to return.
        /// Errors: the common errors; the driver's own: whatever it refused to free stays.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_deferred_trim(IntPtr instance, int device, ulong keep);

        /// <summary>
        /// Allocates `size` bytes of pinned host memory, usable and mapped on every device, aligned to a page, with
        /// undefined contents. Size 0 is an error. NULL `options` are the defaults; fields whose flag or mode is not
        /// set are not read. Fills `block`, whose struct_size must include the field ferry_host_block.size. ferry maps
        /// the memory in huge pages where the system gives them, touches it from several threads and registers it with
        /// the driver: several times as fast as the driver's own allocation. If that fails, and for the flags
        /// _WRITE_COMBINED and _BY_DRIVER, the driver allocates it. If the driver fails too, FERRY_HOST_ALLOW_SMALLER
        /// tries half as much, and half of that, down to min_size; then FERRY_HOST_ALLOW_PAGEABLE takes the whole size
        /// unpinned. The child of a fork does not have memory that ferry maps. With FERRY_HOST_SHARED it shares the
        /// memory, as it shares the driver's. In small pages (usual before Linux 6.1) ferry's own then takes longer,
        /// but still less than the driver's.
        /// </summary>
        /// <remarks>
        /// Blocking: tens of milliseconds per GiB, with _WRITE_COMBINED or _BY_DRIVER hundreds. Starts and ends
        /// threads. Waits for running work if ferry_host_free_deferred keeps more than ferry_options.deferred_bytes, or
        /// if no memory is left and it keeps some. Ownership: block-&gt;address is the caller's until ferry_host_free
        /// or ferry_host_free_deferred on the same instance. The memory stays pinned until the end of the context that
        /// it was made in: the current one, else ferry's for device 0. The child of a fork must not free it. Errors:
        /// the common errors; FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _FLAGS, _DEVICE name the option in `error`
        /// (a node that does not exist: _INVALID_ARGUMENT, numa_node); _OUT_OF_MEMORY; the driver's -1002 if it is out
        /// of memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_host_alloc(IntPtr instance, ulong size, HostOptions* options,
            HostBlock* block, ErrorInfo* error);

        /// <summary>Frees memory that ferry_host_alloc of the same instance returned.</summary>
        /// <remarks>
        /// Blocking: until running work on the devices has ended. Errors: the common errors; FERRY_ERROR_ADDRESS for
        /// memory of a pinned pool, for registered memory, and for memory given to ferry_host_free_deferred; the
        /// driver's own for an unknown address (freed twice, for example).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_host_free(IntPtr instance, IntPtr address);

        /// <summary>
        /// A deferred free: frees memory of ferry_host_alloc in the order of `stream`, and waits for no work. The
        /// instance keeps the memory until the stream has passed. Then ferry_deferred_trim for FERRY_DEVICE_UNKNOWN, a
        /// later ferry_host_alloc (see ferry_options.deferred_bytes) or ferry_close frees it. Host memory lies on no
        /// device: it counts only for FERRY_DEVICE_UNKNOWN. The stream must come after all work that uses the memory;
        /// it may be destroyed at once. The host must not use the memory any more.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_device_free_deferred. Ownership: the memory is gone, though ferry_address_get_info knows
        /// it until it is freed. Errors: the common errors; FERRY_ERROR_ADDRESS if it is not the beginning of such a
        /// block or was freed already, and as for ferry_host_free; _CAPTURE on a stream that is being captured;
        /// _OUT_OF_MEMORY. After an error the memory is still the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_host_free_deferred(IntPtr instance, IntPtr address, IntPtr stream);

        /// <summary>
        /// Pins `size` bytes of the caller's own memory in place, for every device. Size 0 is an error. Memory larger
        /// than ferry_options.register_chunk is registered in pieces of that size: all of them or, on failure, none.
        /// Copies and fills on the same instance may cross from one piece or registration into the next, and copies may
        /// leave them for pageable memory. The driver refuses such a call; ferry then makes one call for each part (see
        /// ferry_copy). The program's own calls of the driver must stay within one piece.
        /// </summary>
        /// <remarks>
        /// Values: `flags`: FERRY_REGISTER_READ_ONLY, which the driver refuses for memory of files, or 0. Blocking:
        /// yes: pages are faulted in and pinned. Ownership: the memory stays the caller's and must stay mapped until
        /// ferry_host_unregister; the registration ends with its context, as for ferry_host_alloc. Errors: the common
        /// errors; FERRY_ERROR_FLAGS, _OVERFLOW, _OUT_OF_MEMORY; the driver's -1712 if any part is already registered.
        /// Nothing is registered then.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_host_register(IntPtr instance, IntPtr address, ulong size,
            RegisterFlags flags, ErrorInfo* error);

        /// <summary>Undoes ferry_host_register; `address` is the one given there.</summary>
        /// <remarks>
        /// Blocking: until running work on the devices has ended. Ownership: the memory is the caller's as before.
        /// Errors: the common errors; FERRY_ERROR_ADDRESS for what ferry itself registered (ferry_host_free takes
        /// that); the driver's -1713 if it is not registered. If the driver refuses one piece, ferry unregisters the
        /// others and returns the first error: there is nothing left to try again.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_host_unregister(IntPtr instance, IntPtr address);

        /// <summary>
        /// Fills `info` with what lies at `address`. An address that the driver does not know is pageable. Memory of a
        /// host pool is pinned for devices that have access to the pool, and pageable for the others. The call reports
        /// the kind for the current context's device, else for device 0. In a copy between such memory and another
        /// device's memory, SOURCE_READ and DESTINATION_WRITTEN apply unless both that device and the copy's own have
        /// access.
        /// </summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_address_get_info(IntPtr instance, ulong address, AddressInfo* info);

        /// <summary>
        /// Creates a CUDA array on `device`: 1D, 2D, 3D, layered or cubemap. Copies take any other CUarray too. ferry
        /// identifies the array by its handle. Destroy it with ferry_array_destroy (a mipmapped one with
        /// ferry_mipmapped_array_destroy) on the instance that made it. The driver's own call or another instance may
        /// destroy it only after this instance is closed: otherwise a later array with the same handle would be read
        /// wrongly, or be refused on its device. With FERRY_ARRAY_SURFACE and a format of plain texels (neither
        /// compressed nor video), ferry's kernels can read the array in the context it was made in: whole arrays reach
        /// the device's memory up to 1.8 times as fast (H200). From the first copy by a kernel on, ferry keeps a
        /// surface of such an array. An array given to ferry_array_destroy_async is reused for an equal description on
        /// the same device, once its stream has passed. Its contents are undefined, as in a new array.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device, as ferry_device_alloc; never if an array is reused. Ownership: *array, a
        /// CUarray, is the caller's until ferry_array_destroy or ferry_array_destroy_async. Errors: the common errors;
        /// FERRY_ERROR_FLAGS; _ARRAY_FORMAT for a format that the driver does not have, or a number of channels that
        /// the format does not have; the driver's own for unsupported sizes.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_array_create(IntPtr instance, int device, ArrayDesc* desc, IntPtr* array,
            ErrorInfo* error);

        /// <summary>Destroys an array.</summary>
        /// <remarks>
        /// Blocking: until running work on the device has ended. Ownership: the array is gone. Graphs that copy from it
        /// may not run any more. Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an array given to
        /// ferry_array_destroy_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_array_destroy(IntPtr instance, IntPtr array);

        /// <summary>
        /// Destroys an array of ferry_array_create in the order of `stream`, and waits for no work. CUDA has no such
        /// call, so the instance keeps the array. Once the stream has passed, ferry_array_create reuses it for an equal
        /// description; ferry_deferred_trim, a later allocation of ferry's on the device (see
        /// ferry_options.deferred_bytes) and ferry_close destroy it. The stream must come after all work that uses the
        /// array; it may be destroyed at once. Default streams are those of the array's device.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_device_free_deferred. Ownership: the array and its planes are gone. First destroy its
        /// texture and surface objects: they would name the array of its next owner. Graphs that copy from it may not
        /// run any more. Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an array that another
        /// instance or the driver made, for a level, and for an array already destroyed in this way; _CAPTURE on a
        /// stream that is being captured; _OUT_OF_MEMORY. After an error the array is still the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_array_destroy_async(IntPtr instance, IntPtr array, IntPtr stream);

        /// <summary>
        /// Creates a mipmapped array: `levels` arrays, each of half the width, height and depth of the one before,
        /// rounded down and at least 1; layers and faces are not halved. `levels` of 0, or above the maximum, creates
        /// the maximum number. FERRY_ARRAY_SURFACE means for each level what it means for ferry_array_create. A
        /// mipmapped array given to ferry_mipmapped_array_destroy_async is reused if the description and the number of
        /// levels are equal.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_array_create. Ownership: *mipmapped, a CUmipmappedArray, is the caller's until
        /// ferry_mipmapped_array_destroy or ferry_mipmapped_array_destroy_async. Errors: the common errors; as
        /// ferry_array_create.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_mipmapped_array_create(IntPtr instance, int device, ArrayDesc* desc,
            uint levels, IntPtr* mipmapped, ErrorInfo* error);

        /// <summary>
        /// Stores level number `level` of a mipmapped array in *array. Copies take it like any other array. Level 0 is
        /// the largest.
        /// </summary>
        /// <remarks>
        /// Ownership: *array belongs to the mipmapped array and ends with it; it must not be destroyed by itself.
        /// Errors: the common errors; the driver's -1001 if there is no such level.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_mipmapped_array_get_level(IntPtr instance, IntPtr mipmapped, uint level,
            IntPtr* array);

        /// <summary>
        /// Destroys a mipmapped array with all its levels, also one of ferry_external_memory_get_array.
        /// </summary>
        /// <remarks>
        /// Blocking: until running work on the device has ended. Ownership: the arrays are gone. Graphs that copy from
        /// them may not run any more. Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT also for an array given
        /// to ferry_mipmapped_array_destroy_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_mipmapped_array_destroy(IntPtr instance, IntPtr mipmapped);

        /// <summary>
        /// ferry_array_destroy_async for a mipmapped array with all its levels. An array of
        /// ferry_external_memory_get_array is never reused: ferry_deferred_trim, a later allocation, ferry_close and
        /// the release of its memory destroy it.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_device_free_deferred. Ownership: as ferry_array_destroy_async. Errors: the common errors;
        /// as ferry_array_destroy_async.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_mipmapped_array_destroy_async(IntPtr instance, IntPtr mipmapped,
            IntPtr stream);

        /// <summary>
        /// Stores plane number `plane` of an array in a planar video format in *plane_array. Copies take it like any
        /// other array. Luma is plane 0; the chroma planes follow, smaller where the format subsamples them.
        /// </summary>
        /// <remarks>
        /// Ownership: *plane_array belongs to `array` and ends with it; it must not be destroyed by itself. Errors: the
        /// common errors; the driver's -1001 if there is no such plane or the format is not planar.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_array_get_plane(IntPtr instance, IntPtr array, uint plane,
            IntPtr* plane_array);

        /// <summary>
        /// Fills `desc` from any CUarray. *element_size, unless NULL, is the size of one element in bytes: for
        /// block-compressed formats, whose copies count blocks, of a block of 4 x 4 texels; 0 for planar formats, which
        /// have no such size.
        /// </summary>
        /// <remarks>
        /// Blocking: never, except on a thread without a context as ferry_context_retain_primary. Errors: the common
        /// errors; the driver's own for a handle that is no array, if the driver detects it.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_array_get_info(IntPtr instance, IntPtr array, ArrayDesc* desc,
            uint* element_size);

        /// <summary>
        /// Creates a pool. The pool takes memory from the system as needed and keeps it until ferry_pinned_pool_trim or
        /// _destroy. For each size of blocks it takes 64 KiB or more at once, in larger pieces as it holds more of
        /// them, up to 2 MiB; less near the limit. All of it is pinned in the context that ferry uses for `device` of
        /// FERRY_NUMA_DEVICE, else for device 0, whatever context is current. That context must not end before the
        /// pool.
        /// </summary>
        /// <remarks>
        /// Ownership: *pool is the caller's until ferry_pinned_pool_destroy, which must come before ferry_close.
        /// Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _FLAGS, _DEVICE, _RESERVED name the
        /// option in `error`; _OUT_OF_MEMORY.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_create(IntPtr instance, PinnedPoolOptions* options, IntPtr* pool,
            ErrorInfo* error);

        /// <summary>Destroys a pool and releases its memory.</summary>
        /// <remarks>
        /// Thread-safety: no other call on this pool may run meanwhile, nor later unless this one returned
        /// FERRY_ERROR_IN_USE. Blocking: until the streams have passed the frees, as ferry_host_free. Errors: the
        /// common errors; FERRY_ERROR_IN_USE while blocks are allocated: the pool is then unchanged. A pool still in
        /// use at ferry_close is leaked. After an error of the driver's own the pool is gone all the same, and memory
        /// that the driver did not take back is lost.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_destroy(IntPtr pool);

        /// <summary>
        /// Allocates `size` bytes that the host may use at once: no stream uses them any more. Aligned to 256 bytes,
        /// and to 4096 if `size` is a multiple of 4096 or more than 30 KiB. Sizes are rounded up to classes, eight to
        /// each power of two from 2 KiB on: at most an eighth of a block is wasted, below 2 KiB at most 255 bytes. Size
        /// 0 is an error.
        /// </summary>
        /// <remarks>
        /// Blocking: only if the pool has to grow, as ferry_host_alloc; and, as ferry_host_free, if its limit makes it
        /// release free blocks of other sizes first. Ownership: *address is the caller's until it is freed, on a stream
        /// or not. Errors: the common errors; FERRY_ERROR_LIMIT if neither free blocks nor the pool's limit suffice: a
        /// later call may succeed, once streams have passed their frees, unless `size` itself exceeds the limit; as
        /// ferry_host_alloc.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_alloc(IntPtr pool, ulong size, IntPtr* address, ErrorInfo* error);

        /// <summary>
        /// Allocates `size` bytes for later work on `stream`. The host must wait until the stream has reached this
        /// point before using them. A block that was freed on the same stream is reused at once. If the pool is at its
        /// limit or cannot grow, `stream` waits for a block that was freed on another stream.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_pinned_pool_alloc; it does not wait for streams. Ownership: as ferry_pinned_pool_alloc.
        /// If the block is freed on another stream, that stream must come after `stream`. Errors: the common errors; as
        /// ferry_pinned_pool_alloc, and FERRY_ERROR_CAPTURE for a stream that is being captured.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_alloc_async(IntPtr pool, ulong size, IntPtr stream,
            IntPtr* address, ErrorInfo* error);

        /// <summary>
        /// Frees a block that none of the caller's work uses any more. If ferry_pinned_pool_alloc_async made its stream
        /// wait for the block, the pool does not reuse the block before that earlier work has ended. May also be called
        /// from a host function of a stream.
        /// </summary>
        /// <remarks>
        /// Blocking: never, not even while other threads are in the driver. Errors: the common errors;
        /// FERRY_ERROR_ADDRESS if it is no block of this pool, or was freed already.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_free(IntPtr pool, IntPtr address);

        /// <summary>
        /// Frees a block in stream order: once `stream` has passed the work enqueued on it so far. NULL for `address`
        /// is allowed. Default streams as for ferry_stream_synchronize.
        /// </summary>
        /// <remarks>
        /// Ownership: the block is gone; the stream may be destroyed at once. Errors: the common errors;
        /// FERRY_ERROR_ADDRESS as for ferry_pinned_pool_free; _CAPTURE for a stream that is being captured;
        /// _OUT_OF_MEMORY. After an error the block is still the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_free_async(IntPtr pool, IntPtr address, IntPtr stream);

        /// <summary>
        /// Releases memory to the system until the pool holds at most `keep` bytes. Memory with a block that is
        /// allocated or waits for its stream stays.
        /// </summary>
        /// <remarks>Blocking: as ferry_host_free, if there is memory to release.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_trim(IntPtr pool, ulong keep);

        /// <summary>Fills `stats`.</summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_get_stats(IntPtr pool, PoolStats* stats);

        /// <summary>Resets both high-water marks to the current values.</summary>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pinned_pool_reset_stats(IntPtr pool);

        /// <summary>
        /// Allocates `size` bytes from the current pool of `device`, in the order of `stream`: work enqueued there from
        /// now on may use the memory, and so may work elsewhere after an event. FERRY_DEVICE_UNKNOWN means the stream's
        /// own device; with a default stream the device must be named (else _DEVICE). The current context never decides
        /// where memory lies. Size 0 gives an address of no bytes, which may be 0. Under capture the allocation becomes
        /// part of the graph. Until the graph is launched the driver does not know the address, so copies and fills of
        /// it must state kind DEVICE and the device.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU; while a pool grows, tens of microseconds to milliseconds. Ownership:
        /// *address is the caller's until ferry_device_free_async or ferry_device_free. Errors: the common errors; the
        /// driver's -1002 if it is out of memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_alloc_async(IntPtr instance, int device, ulong size, IntPtr stream,
            ulong* address, ErrorInfo* error);

        /// <summary>
        /// Frees memory of ferry_device_alloc_async, ferry_pool_alloc_async or ferry_device_alloc in the order of
        /// `stream`. The stream must come after all work that uses the memory. 0 is allowed. Default streams are those
        /// of the memory's device. ferry_device_free takes stream-ordered memory too, and waits.
        /// </summary>
        /// <remarks>
        /// Blocking: does not wait for the GPU, except that the driver may for memory of ferry_device_alloc. Ownership:
        /// the memory is gone, also for ferry_address_get_info and full checks, from this call on. Errors: the common
        /// errors; FERRY_ERROR_IMPORTED for memory of another process (ferry_ipc_close_memory); _ADDRESS for an address
        /// that is not the beginning of an allocation or was freed already. Memory of ferry_device_alloc that is freed
        /// twice in stream order is not detected: the process may crash, as with the driver.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_free_async(IntPtr instance, ulong address, IntPtr stream);

        /// <summary>
        /// Creates a pool. Devices have no access to a pool in host memory before ferry_pool_set_access; without access
        /// copies work, but as slowly as with pageable memory. A pool of FERRY_LOCATION_HOST cannot be shared.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device. Ownership: *pool, a CUmemoryPool, is the caller's until
        /// ferry_pool_destroy. Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _DEVICE,
        /// _UNSUPPORTED name the field in `error` (a node that does not exist: _INVALID_ARGUMENT, index).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_create(IntPtr instance, PoolDesc* desc, IntPtr* pool, ErrorInfo* error);

        /// <summary>
        /// Destroys a pool. All of its memory must have been freed: the driver would accept a pool in use, and end the
        /// process some time later (CUDA 13.0). If the pool was current for its location, the default pool is current
        /// again.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe; no other call may be using the pool. Blocking: until the streams have passed the frees
        /// of its memory. If some have not, the call waits for all work of the current context, of the contexts that
        /// ferry uses and of the primary contexts, so it may wait and then return FERRY_ERROR_IN_USE. Streams of any
        /// other context must have passed their frees before the call. May wait for the device. Errors: the common
        /// errors; FERRY_ERROR_IN_USE while memory from it is allocated: the pool is then unchanged; _INVALID_ARGUMENT
        /// for the default pool; _IMPORTED for a pool of another process (ferry_ipc_close_pool).
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_destroy(IntPtr instance, IntPtr pool);

        /// <summary>
        /// Stores the default pool of a location in *pool. It can be neither destroyed nor shared. `index` is as in
        /// ferry_pool_desc.
        /// </summary>
        /// <remarks>
        /// Values: `location`: FERRY_LOCATION_*. Ownership: *pool is the driver's. Errors: the common errors;
        /// FERRY_ERROR_UNSUPPORTED for locations other than devices before CUDA 13.0.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_get_default(IntPtr instance, Location location, int index, IntPtr* pool);

        /// <summary>
        /// Stores the current pool of a location in *pool: ferry_device_alloc_async allocates from it. Until another
        /// pool is set, it is the default pool. It is the same for the whole process.
        /// </summary>
        /// <remarks>
        /// Values: `location`: FERRY_LOCATION_*. Ownership: *pool belongs to its owner as before. Errors: the common
        /// errors; as ferry_pool_get_default.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_get_current(IntPtr instance, Location location, int index, IntPtr* pool);

        /// <summary>
        /// Makes `pool` the current one of a location, for the whole process. The pool must be of that location.
        /// </summary>
        /// <remarks>
        /// Values: `location`: FERRY_LOCATION_*. Ownership: the pool stays the caller's. Errors: the common errors; as
        /// ferry_pool_get_default; FERRY_ERROR_IMPORTED for a pool of another process.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_set_current(IntPtr instance, Location location, int index, IntPtr pool);

        /// <summary>
        /// Allocates `size` bytes from `pool` in the order of `stream`, which may be of another device than the pool.
        /// Default streams are those of the pool's device; for pools in host memory, of the current context, else of
        /// device 0. The host may use the address of memory from a pool in host memory too.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_device_alloc_async. Ownership: as ferry_device_alloc_async. Errors: the common errors;
        /// FERRY_ERROR_IMPORTED for a pool of another process, which cannot allocate; the driver's -1002 if it is out
        /// of memory or the pool is at its max_size.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_alloc_async(IntPtr instance, IntPtr pool, ulong size, IntPtr stream,
            ulong* address, ErrorInfo* error);

        /// <summary>Fills `info`.</summary>
        /// <remarks>
        /// Blocking: never, except for a pool that ferry did not create and that is not current: it allocates a byte
        /// there.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_get_info(IntPtr instance, IntPtr pool, PoolInfo* info);

        /// <summary>Fills `attributes`.</summary>
        /// <remarks>Errors: the common errors; FERRY_ERROR_IMPORTED for a pool of another process.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_get_attributes(IntPtr instance, IntPtr pool, PoolAttributes* attributes);

        /// <summary>
        /// Sets all attributes; to change some, get all of them first. Attributes beyond the end of a shorter struct
        /// keep their values.
        /// </summary>
        /// <remarks>
        /// Errors: the common errors; as ferry_pool_get_attributes; FERRY_ERROR_INVALID_ARGUMENT for flags that are
        /// neither 0 nor 1. If the driver refuses an attribute, others may already be set.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_set_attributes(IntPtr instance, IntPtr pool, PoolAttributes* attributes);

        /// <summary>Fills `stats` with this process's share.</summary>
        /// <remarks>
        /// Thread-safety: safe; the numbers are read one after the other. Errors: the common errors; as
        /// ferry_pool_get_attributes.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_get_stats(IntPtr instance, IntPtr pool, PoolStats* stats);

        /// <summary>Resets both high-water marks to the current values.</summary>
        /// <remarks>Errors: the common errors; as ferry_pool_get_attributes.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_reset_stats(IntPtr instance, IntPtr pool);

        /// <summary>
        /// Releases memory that is not allocated, until the pool holds at most `keep` bytes or nothing more can be
        /// released.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device. Errors: the common errors; as ferry_pool_get_attributes.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_trim(IntPtr instance, IntPtr pool, ulong keep);

        /// <summary>
        /// Gives `device` access to all memory of `pool`, or removes that access. Before it removes access, the call
        /// waits for the work of ferry's context for `device`; the program must wait for other work on the device
        /// itself. Peer access between contexts does not give access to pools. ferry first asks the driver whether
        /// `device` can have access, and asks again after setting it. Once for each pool and device, ferry sends data
        /// there and back, because on some machines such data was lost without an error. An imported pool is accepted
        /// without that test, since nothing can be allocated from it.
        /// </summary>
        /// <remarks>
        /// Values: `access`: FERRY_ACCESS_*. Blocking: while the driver maps the memory, milliseconds;
        /// FERRY_ACCESS_NONE also as ferry_context_synchronize. Errors: the common errors; FERRY_ERROR_PEER_ACCESS if
        /// `device` cannot reach the pool's device or the data was lost: access is then as before; _DEVICE also for
        /// FERRY_ACCESS_NONE on the pool's own device (READ_WRITE succeeds there); _INVALID_ARGUMENT for other values
        /// of `access`.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_set_access(IntPtr instance, IntPtr pool, int device, Access access);

        /// <summary>Sets *access to the access of `device` to memory of `pool`.</summary>
        /// <remarks>Values: `access`: FERRY_ACCESS_*.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_pool_get_access(IntPtr instance, IntPtr pool, int device, Access* access);

        /// <summary>Fills `info` from a handle, without importing it.</summary>
        /// <remarks>
        /// Errors: the common errors; FERRY_ERROR_HANDLE for bytes that are no handle, are cut off or have changed, and
        /// for a handle of a later version.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_get_info(IntPtr instance, IpcHandle* handle, IpcInfo* info);

        /// <summary>
        /// Makes a handle for `size` bytes from `address` on; 0: to the end of the allocation. The importer maps the
        /// whole allocation. For memory from a pool, first export the pool through the same instance.
        /// </summary>
        /// <remarks>
        /// Ownership: the memory stays the caller's and must live until the importer has closed it. Errors: the common
        /// errors; FERRY_ERROR_ADDRESS for an address that the driver does not know; _OUT_OF_BOUNDS; _NOT_SHAREABLE for
        /// other kinds of memory, for memory of a pool that was not exported, and for imported memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_export_memory(IntPtr instance, ulong address, ulong size,
            IpcHandle* handle, ErrorInfo* error);

        /// <summary>
        /// Makes a handle for a pool, with one of the handle types it was created with. With FERRY_HANDLE_POSIX_FD,
        /// *os_handle is a file descriptor that must be sent too, over a Unix socket; with FERRY_HANDLE_WIN32 it is a
        /// HANDLE. With FERRY_HANDLE_FABRIC everything is in `handle`, and *os_handle is -1. After a failure it is -1
        /// too.
        /// </summary>
        /// <remarks>
        /// Values: `handle_type`: FERRY_HANDLE_*, one of them. Ownership: *os_handle is the caller's to close; the pool
        /// stays the caller's. Errors: the common errors; FERRY_ERROR_INVALID_ARGUMENT for a handle_type that is not
        /// one of the four; _NOT_SHAREABLE for the default pool, for a pool without that handle type and for an
        /// imported pool.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_export_pool(IntPtr instance, IntPtr pool, HandleTypes handle_type,
            IpcHandle* handle, long* os_handle, ErrorInfo* error);

        /// <summary>
        /// Makes a handle for an event created with FERRY_EVENT_INTERPROCESS. For an event of ferry_event_create the
        /// handle names the device. For any other event it does not, because the driver does not report the device.
        /// </summary>
        /// <remarks>
        /// Ownership: the event stays the caller's. Errors: the common errors; FERRY_ERROR_NOT_SHAREABLE for other
        /// events, and for imported ones.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_export_event(IntPtr instance, IntPtr @event, IpcHandle* handle,
            ErrorInfo* error);

        /// <summary>
        /// Maps memory of another process. *address is the address here of the first exported byte, on the device that
        /// the handle names, in the context that ferry uses for that device. Handles into one allocation share one
        /// mapping: an allocation that is imported twice has one address, and each import needs its own close. For
        /// memory from a pool, first import the pool through the same instance. A handle made by this process, through
        /// any instance, maps nothing: *address is the exported address.
        /// </summary>
        /// <remarks>
        /// Blocking: while the driver maps the memory, tens of microseconds. Ownership: *address is the caller's until
        /// ferry_ipc_close_memory; it must not be freed. Errors: the common errors; FERRY_ERROR_KIND for the handle of
        /// a pool or event; _HANDLE for bytes that are no handle, for a handle of a later version, for an offset or
        /// size beyond the memory that the driver has mapped, and for an object that no longer exists (not always
        /// detected: only the exporter knows which memory of a pool exists); _MACHINE for a handle made on another
        /// machine; _DEVICE for a device that this process does not see; _POOL if the pool was not imported. Nothing
        /// has been mapped.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_import_memory(IntPtr instance, IpcHandle* handle, ulong* address,
            ErrorInfo* error);

        /// <summary>
        /// Imports a pool of another process, from its handle and the os_handle that was sent with it. An imported pool
        /// serves only to import memory (see ferry_pool_info.is_imported). Its own device has access; for others this
        /// process calls ferry_pool_set_access. A second import returns the same pool, needs a second close and does
        /// not read os_handle. For a pool that this instance exported, *pool is that pool. A pool that another instance
        /// of this process exported is imported like that of another process.
        /// </summary>
        /// <remarks>
        /// Blocking: milliseconds. Ownership: os_handle stays the caller's, who may close it at once. *pool is the
        /// caller's until ferry_ipc_close_pool. Errors: the common errors; as ferry_ipc_import_memory;
        /// FERRY_ERROR_HANDLE also for an os_handle that is not a pool's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_import_pool(IntPtr instance, IpcHandle* handle, long os_handle,
            IntPtr* pool, ErrorInfo* error);

        /// <summary>
        /// Imports an event of another process. Streams and calls can wait for it, query it and record it like any
        /// other; it has no timing. Each import makes a new event, in the context that ferry uses for the device that
        /// the handle names, else in the current context, else in device 0's. For an event that this instance exported,
        /// *event is that event. If the exporter dies before its stream has reached the record, the event never
        /// completes. A program that must not hang polls with ferry_event_query.
        /// </summary>
        /// <remarks>
        /// Blocking: on first need as ferry_context_retain_primary. Ownership: *event is the caller's until
        /// ferry_ipc_close_event. Errors: the common errors; as ferry_ipc_import_memory; FERRY_ERROR_HANDLE for an
        /// event of another instance of this process. An event that its exporter has destroyed, while it still runs, is
        /// not detected.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_import_event(IntPtr instance, IpcHandle* handle, IntPtr* @event,
            ErrorInfo* error);

        /// <summary>
        /// Closes one import of memory; `address` is the imported address, or any within the memory. The last close
        /// unmaps it. Memory of a pool is unmapped in the order of `stream`, as by ferry_device_free_async: that stream
        /// must come after all use of any of the imports. Other memory is unmapped once running work on the device has
        /// ended; `stream` is then not read. 0 is allowed.
        /// </summary>
        /// <remarks>
        /// Blocking: until running work on the device has ended, if this is the last close of memory that is not from a
        /// pool; else never. Ownership: the import is gone; the memory is still the exporter's. Errors: the common
        /// errors; FERRY_ERROR_ADDRESS for an address that this instance has not imported; _CAPTURE for memory of a
        /// pool and a stream that is being captured.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_close_memory(IntPtr instance, ulong address, IntPtr stream);

        /// <summary>Closes one import of a pool. The last close destroys the imported pool.</summary>
        /// <remarks>
        /// Blocking: may wait for the device. Errors: the common errors; FERRY_ERROR_POOL for a pool that this instance
        /// has not imported; _IN_USE while memory from the pool is imported, also through another instance of this
        /// process, and possibly until the stream has passed the close of such memory.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_close_pool(IntPtr instance, IntPtr pool);

        /// <summary>Closes one import of an event.</summary>
        /// <remarks>
        /// Thread-safety: safe; no other call may be using the event. Errors: the common errors;
        /// FERRY_ERROR_INVALID_ARGUMENT also for an event that this instance has not imported.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_ipc_close_event(IntPtr instance, IntPtr @event);

        /// <summary>Fills `info` for access by `device` to the memory of `peer`. Runs no probe.</summary>
        /// <remarks>Errors: the common errors; FERRY_ERROR_DEVICE also for a device and itself.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_peer_get_info(IntPtr instance, int device, int peer, PeerInfo* info);

        /// <summary>
        /// Tests whether bytes arrive when `device` accesses the memory of `peer`: some machines report peer access and
        /// move nothing. Reads 64 KiB from the peer, writes as much to it and compares, in a context made for this on
        /// `device`. The result says nothing about `peer` accessing `device`. The test runs once per ordered pair and
        /// instance; later calls return the first result. Access between other contexts is unchanged.
        /// </summary>
        /// <remarks>
        /// Blocking: the first time, as ferry_context_create and ferry_context_retain_primary. Errors: the common
        /// errors; FERRY_ERROR_PEER_ACCESS: there is no access, or the data was lost (ferry_peer_get_info says which);
        /// _DEVICE also for a device and itself; _OUT_OF_MEMORY. After an error of the driver's own no result is kept.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_peer_probe(IntPtr instance, int device, int peer);

        /// <summary>
        /// Gives `device` access to the memory of `peer`, between the contexts that ferry uses for the two. The first
        /// time, test data is then sent between these contexts, and the access is taken back if the data is lost.
        /// Access belongs to that pair of contexts, not to the instance, and is not counted: it lasts until any code in
        /// the process disables it or one of the contexts ends. ferry_close leaves it. After ferry_context_adopt call
        /// again. Access that is already enabled is a success.
        /// </summary>
        /// <remarks>
        /// Blocking: while the driver maps the peer's memory; the first time also as ferry_peer_probe. Errors: the
        /// common errors; as ferry_peer_probe.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_peer_enable(IntPtr instance, int device, int peer);

        /// <summary>
        /// Undoes ferry_peer_enable. Access that is not enabled is a success. Later copies between the two still work;
        /// graphs and prepared batches made while there was access may not be launched any more.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe. Copies between the two that other threads enqueue meanwhile may fail, and their context
        /// may be lost. Blocking: until the work of both contexts has ended, which the driver's own call does not wait
        /// for. Breaks a capture in either context. Errors: the common errors; FERRY_ERROR_DEVICE also for a device and
        /// itself. After an error access is as before.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_peer_disable(IntPtr instance, int device, int peer);

        /// <summary>
        /// Runs ferry_peer_probe, then measures copies from `device` to `peer` in each way that serves them: with
        /// access, if the probe passes; by the driver without access; and by FERRY_ROUTE_RELAYED. With access also
        /// copies between pinned memory and `peer` that `device` makes over its own link, as a helper of
        /// FERRY_COPY_MULTILINK. ferry_peer_get_info reports the rates. With them ferry plans copies from `device` to
        /// `peer` until this pair is calibrated again, a profile that has the pair is loaded, or ferry_close.
        /// ferry_profile_save keeps them. Access between other contexts is unchanged.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe; two calibrations at once on one machine disturb each other. Blocking: for two seconds
        /// at most on GPUs that are otherwise idle. Ownership: takes up to 64 MiB of each device's memory, at most an
        /// eighth of what is free, or 8 MiB if that is more; 40 MiB of pinned memory; and a context on each device,
        /// with streams and events. All of it is released. The rates are the instance's. Errors: the common errors;
        /// FERRY_ERROR_DEVICE also for a device and itself; _OUT_OF_MEMORY; _UNSUPPORTED for a driver without streams
        /// or events; late errors of earlier work. No access is no error. After an error the rates are unchanged.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_peer_calibrate(IntPtr instance, int device, int peer, ErrorInfo* error);

        /// <summary>
        /// Lets copies with FERRY_COPY_MULTILINK between host memory and `device` take the host links of other devices:
        /// each helper runs a kernel on a stream of ferry's own that moves a part of the bytes and accesses the memory
        /// of `device` as a peer. Such a copy takes SMs and link of its helpers as long as it runs. The devices claim
        /// chunks, so a helper that is busy does less, and one whose kernel does not start delays nothing. `options`
        /// NULL: no helpers, as at first. Replaces the helpers of earlier calls; copies in flight keep theirs. Also
        /// starts staging threads for the helpers and enlarges the staging buffer of `device`, for pageable memory,
        /// which takes at most four links. With ferry_options.submit threads and buffer stay as they are. Each helper
        /// gets access to the memory of `device`, as by ferry_peer_enable, which it keeps. Only memory to which all
        /// contexts that ferry uses for these devices have access gains by it. After ferry_context_adopt for `device`
        /// other helpers cannot be set while the instance is open. If the context of a helper dies while it holds a
        /// chunk, the copy fails: its stream and context report CUDA_ERROR_LAUNCH_FAILED some seconds later. A helper's
        /// kernel may start after the copy has ended: end the context of `device` by ferry_context_destroy, which waits
        /// for that, not by the driver's call.
        /// </summary>
        /// <remarks>
        /// Blocking: while kernels are loaded and memory is allocated; else as ferry_peer_enable. Errors: the common
        /// errors; FERRY_ERROR_DEVICE: `device` with FERRY_FIELD_DEVICE; a helper that does not exist, is `device`
        /// itself or comes twice with FERRY_FIELD_HELPERS, its number as value and its place in `index`. _PEER_ACCESS
        /// with FERRY_FIELD_HELPERS: a helper has no access, lost the probe's data, or atomics do not work over its
        /// link. _UNSUPPORTED without kernels; _LIMIT for too many helpers; _OUT_OF_MEMORY; _IN_USE after
        /// ferry_context_adopt. After an error the helpers are as before, but those ahead of a bad one keep their
        /// access.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_multilink_set(IntPtr instance, int device, MultilinkOptions* options,
            ErrorInfo* error);

        /// <summary>
        /// Imports memory. ferry_external_memory_get_address and ferry_external_memory_get_array make places of it.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device, as ferry_device_alloc. Ownership: *memory, a CUexternalMemory, is the
        /// caller's until ferry_external_memory_release or ferry_external_memory_release_async. It keeps the other
        /// API's memory alive. On success a file descriptor is closed. A Windows handle stays the caller's, who may
        /// close it at once. After an error the handle is as before, and the caller's, whatever the driver does with
        /// it. Errors: the common errors; FERRY_ERROR_DEVICE; _INVALID_ARGUMENT for an unknown handle_type, a size of
        /// 0, or a name beside a handle; _UNSUPPORTED for a type of another operating system; _HANDLE for a descriptor
        /// or handle that is not open, or that the driver does not take for memory: `limit` is then the driver's
        /// result; _OUT_OF_BOUNDS for a size beyond the allocation (of a D3D resource this is not detected); _FLAGS;
        /// _OUT_OF_MEMORY also if the process has no descriptor left. `error` names the field. NVIDIA's driver takes
        /// the descriptor of a semaphore for memory (CUDA 13.0, Linux); nothing detects that.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_memory_import(IntPtr instance, ExternalMemoryDesc* desc,
            IntPtr* memory, ErrorInfo* error);

        /// <summary>
        /// Stores the address of imported memory at `offset`, and checks that `size` bytes, or none, follow it. A
        /// buffer begins at the offset that it was bound at. A linear image does too, with the row pitch that the other
        /// API reports.
        /// </summary>
        /// <remarks>
        /// Ownership: the address ends with `memory`. No other call frees it (FERRY_ERROR_IMPORTED). Errors: the common
        /// errors; FERRY_ERROR_HANDLE if `memory` is not imported by this instance; _OUT_OF_BOUNDS for a part that is
        /// not within the imported size; _UNSUPPORTED for a D3D texture, which has no addresses.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_memory_get_address(IntPtr instance, IntPtr memory, ulong offset,
            ulong size, ulong* address, ErrorInfo* error);

        /// <summary>
        /// Stores a mipmapped array whose texels are those of an image of the other API in its optimal layout. The
        /// image was bound at `offset`; `desc` describes its level 0, and it has `levels` levels (0: 1). Copies take
        /// the arrays of ferry_mipmapped_array_get_level. Each call makes a new array. A plain 2D image has depth 0, an
        /// image with layers has FERRY_ARRAY_LAYERED. State FERRY_ARRAY_SURFACE for a storage image and
        /// FERRY_ARRAY_COLOR_ATTACHMENT for one that is rendered to.
        /// </summary>
        /// <remarks>
        /// Blocking: may wait for the device, as ferry_device_alloc. Ownership: *mipmapped, a CUmipmappedArray, ends
        /// with `memory`. ferry_mipmapped_array_destroy and ferry_mipmapped_array_destroy_async end it alone before
        /// that, for an allocation in which images come and go. The memory and its other arrays live on. Errors: the
        /// common errors; FERRY_ERROR_HANDLE if `memory` is not imported by this instance; _OUT_OF_BOUNDS for texels
        /// beyond the imported size; _FLAGS; _ARRAY_FORMAT; the driver's own for an image that it cannot map so.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_memory_get_array(IntPtr instance, IntPtr memory, ulong offset,
            ArrayDesc* desc, uint levels, IntPtr* mipmapped, ErrorInfo* error);

        /// <summary>
        /// Releases imported memory, with all addresses and arrays that were made of it, also arrays given to
        /// ferry_mipmapped_array_destroy_async. The other API's own memory lives on until that API frees it.
        /// </summary>
        /// <remarks>
        /// Blocking: until running work on the device has ended. Errors: the common errors; FERRY_ERROR_HANDLE if it is
        /// not imported by this instance, or was released already. After an error of the driver's own some of its
        /// arrays may be gone: only release it again.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_memory_release(IntPtr instance, IntPtr memory);

        /// <summary>
        /// Releases imported memory in the order of `stream`, and waits for no work. The stream must come after all
        /// work that uses the memory; it may be destroyed at once. Once the stream has passed, ferry_deferred_trim, a
        /// later allocation of ferry's own on the device (ferry_device_alloc and the like, see
        /// ferry_options.deferred_bytes; not an import) and ferry_close free it. Until then the other API's memory
        /// stays allocated, even if that API has freed it: a program that allocates nothing by ferry must call
        /// ferry_deferred_trim. Default streams are those of the memory's device.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_device_free_deferred. Ownership: the memory and all that was made of it are gone. Errors:
        /// the common errors; FERRY_ERROR_HANDLE as ferry_external_memory_release; _CAPTURE on a stream that is being
        /// captured; _OUT_OF_MEMORY. After an error the memory is still the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_memory_release_async(IntPtr instance, IntPtr memory, IntPtr stream);

        /// <summary>
        /// Imports a semaphore. The driver believes what `handle_type` says (CUDA 13.0): a timeline semaphore imported
        /// as a binary one, or memory imported as a semaphore, is not detected.
        /// </summary>
        /// <remarks>
        /// Ownership: *semaphore, a CUexternalSemaphore, is the caller's until ferry_external_semaphore_release or
        /// ferry_external_semaphore_release_async. The handle's ownership is as in ferry_external_memory_import.
        /// Errors: the common errors; as ferry_external_memory_import; FERRY_ERROR_RESERVED.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_semaphore_import(IntPtr instance, ExternalSemaphoreDesc* desc,
            IntPtr* semaphore, ErrorInfo* error);

        /// <summary>
        /// Signals a semaphore once the earlier work on `stream` is complete: a timeline semaphore or fence gets
        /// `value`, which must be above its present one; a keyed mutex is released with the key `value`; a binary
        /// semaphore has no value. In a graph the same value is signalled at each launch. Default streams are those of
        /// the semaphore's device.
        /// </summary>
        /// <remarks>
        /// Errors: the common errors; FERRY_ERROR_HANDLE if `semaphore` is not imported by this instance.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_semaphore_signal_async(IntPtr instance, IntPtr semaphore,
            ulong value, IntPtr stream);

        /// <summary>
        /// Makes later work on `stream` wait for a semaphore: until a timeline semaphore or fence has at least `value`;
        /// until a keyed mutex is acquired with the key `value`, for at most `timeout_ms` milliseconds (UINT32_MAX: for
        /// ever); or until a binary semaphore is signalled. Only keyed mutexes have a timeout. The other API must have
        /// submitted the signal of a binary semaphore before this call; of a timeline semaphore it may come later.
        /// Default streams are those of the semaphore's device.
        /// </summary>
        /// <remarks>
        /// Errors: the common errors; FERRY_ERROR_HANDLE if `semaphore` is not imported by this instance.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_semaphore_wait_async(IntPtr instance, IntPtr semaphore, ulong value,
            uint timeout_ms, IntPtr stream);

        /// <summary>Releases an imported semaphore. Its signals and waits must have completed.</summary>
        /// <remarks>
        /// Errors: the common errors; FERRY_ERROR_HANDLE if it is not imported by this instance, or was released
        /// already.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_semaphore_release(IntPtr instance, IntPtr semaphore);

        /// <summary>
        /// Releases an imported semaphore in the order of `stream`, and waits for no work. The stream must come after
        /// all its signals and waits; it may be destroyed at once. Once the stream has passed, ferry_deferred_trim and
        /// ferry_close release the semaphore, and so does an allocation that frees what deferred frees keep on the
        /// device. A semaphore takes no bytes: ferry_deferred_trim releases it whatever `keep` is. Default streams are
        /// those of the semaphore's device.
        /// </summary>
        /// <remarks>
        /// Blocking: as ferry_device_free_deferred. Ownership: the semaphore is gone. Errors: the common errors;
        /// FERRY_ERROR_HANDLE as ferry_external_semaphore_release; _CAPTURE on a stream that is being captured;
        /// _OUT_OF_MEMORY. After an error the semaphore is still the caller's.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_external_semaphore_release_async(IntPtr instance, IntPtr semaphore,
            IntPtr stream);

        /// <summary>Fills `info`.</summary>
        /// <remarks>Blocking: never; takes time that grows with the number of copies in flight.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_staging_get_info(IntPtr instance, StagingInfo* info);

        /// <summary>
        /// Creates what the first staged copy of `device` would otherwise create and wait for: ferry's kernels in the
        /// device's context (the current one if it belongs to the device), threads, and the pinned staging buffer.
        /// Whatever exists already stays. After this, no staged copy in that context waits for them. May be called on
        /// any thread, also beside copies.
        /// </summary>
        /// <remarks>
        /// Blocking: some milliseconds, and until running work in the context has ended. Ownership: the instance's;
        /// ferry_staging_trim releases the memory. Errors: the common errors; FERRY_ERROR_OUT_OF_MEMORY; _UNSUPPORTED
        /// also if the options exclude kernels or staging, or the driver takes no kernels.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_staging_prepare(IntPtr instance, int device);

        /// <summary>
        /// Releases the staging buffers: all of their memory if no copy is in flight and no graph holds one, else the
        /// part that no copy or graph needs. Also releases the slots of relayed copies that are complete. The next copy
        /// pins it again. Threads stay.
        /// </summary>
        /// <remarks>
        /// Blocking: until running work on the devices has ended, as ferry_host_free. Errors: the common errors; the
        /// driver's own: memory that it does not take back stays in use.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_staging_trim(IntPtr instance);

        /// <summary>
        /// Measures `device`. ferry plans with the result until the next calibration or ferry_profile_load, or until
        /// ferry_close. Copies between devices are not measured: see ferry_peer_calibrate, whose rates stay. Other work
        /// on the device or on its link distorts the numbers: calibrate when a machine is set up or a program starts.
        /// ferry never calibrates by itself.
        /// </summary>
        /// <remarks>
        /// Thread-safety: safe; two calibrations at once on one machine disturb each other. Blocking: for two seconds
        /// at most on a GPU that is otherwise idle. Ownership: takes up to 512 MiB of the device's memory, at most a
        /// quarter of what is free, and half as much, at most 64 MiB, for an array; 64 MiB of pinned and 32 MiB of
        /// other host memory; and a stream. All of it is released. Anything that ferry_staging_prepare would create
        /// stays, unless the options exclude staging. The profile is the instance's. Errors: the common errors;
        /// FERRY_ERROR_OUT_OF_MEMORY; late errors of earlier work. After an error the profile is unchanged.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_device_calibrate(IntPtr instance, int device, ErrorInfo* error);

        /// <summary>
        /// Writes the profile of `device`, also the built-in one, to `buffer`: text of a few kilobytes in ASCII, lines
        /// ended by '\n', with an ending zero. `needed`, unless NULL, receives its size in bytes with that zero, also
        /// if the text does not fit; to ask only for the size, pass a NULL `buffer` of size 0. A buffer that is too
        /// small is an error (FERRY_ERROR_INVALID_ARGUMENT), and nothing is written to it. The text can be loaded on
        /// any device of the same name, number of SMs and compute capability with the same driver version, so also on
        /// the equal devices of one machine. It has a line for each pair that was measured and begins at such a device,
        /// with the PCI addresses of both. ferry does not detect that a device has moved to another link: calibrate it
        /// again. To return to the built-in profile later, save it first.
        /// </summary>
        /// <remarks>Values: `buffer`: `size` bytes.</remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_profile_save(IntPtr instance, int device, byte* buffer, ulong size,
            ulong* needed);

        /// <summary>
        /// Loads a profile: from now on ferry plans with it on every device here that it fits, as after
        /// ferry_device_calibrate. Rates of pairs in the text replace those of the same pairs; the rates of other pairs
        /// stay. Pairs are skipped if one of their devices is not here, or if the profile does not fit the first.
        /// `size` is the length of the text in bytes, with or without an ending zero.
        /// </summary>
        /// <remarks>
        /// Values: `text`: `size` bytes. Ownership: `text` is read before return. The instance keeps each different
        /// profile that was loaded or measured, 2.4 KB, until it is closed; loading an equal one again takes no more
        /// memory. Errors: the common errors; FERRY_ERROR_PROFILE: `error` names FERRY_FIELD_VERSION for a text of
        /// another version; FERRY_FIELD_DEVICE if it fits no device here; FERRY_FIELD_DRIVER for another driver
        /// version; else FERRY_FIELD_LINE: line number `value` of `limit` was changed or cannot be true.
        /// _OUT_OF_MEMORY. After an error the profiles are unchanged.
        /// </remarks>
        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern Status ferry_profile_load(IntPtr instance, byte* text, ulong size, ErrorInfo* error);
    }
}
