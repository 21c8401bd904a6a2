// Code generated from the C headers by generate/main.go. DO NOT EDIT.

package ferry

// Kind is one of the constants FERRY_KIND_*.
type Kind int32

// FERRY_KIND_*
const (
	KindAny    Kind = 0 // `address` decides; memory unknown to the driver is host memory
	KindHost   Kind = 1 // `address` is host memory, pageable or pinned
	KindDevice Kind = 2 // `address` is device (or managed) memory on `device`
	KindArray  Kind = 3 // `array` is a CUDA array on `device`
	KindPinned Kind = 4 // `address` is pinned host memory, allocated or registered; not of a host pool
	KindFile   Kind = 5 // `file` is an open file, and `address` is the offset of a byte in it: see ferry_file.h
)

// FERRY_DEVICE_*
const (
	DeviceUnknown = -1
)

// Driver is one of the constants FERRY_DRIVER_*.
type Driver int32

// FERRY_DRIVER_*
const (
	DriverCUDA     Driver = 0 // the default: the NVIDIA driver or an error
	DriverAuto     Driver = 1 // only passed: the NVIDIA driver if it has a usable device, else the software driver
	DriverSoftware Driver = 2 // the software driver
)

// Checks is one of the constants FERRY_CHECKS_*.
type Checks int32

// FERRY_CHECKS_*
const (
	ChecksBasic Checks = 0 // arithmetic, pitches, array bounds and formats, overlap; resolves ANY
	ChecksFull  Checks = 1 // also each address: its kind and device as stated, inside its allocation, not freed
)

// Kernels is one of the constants FERRY_KERNELS_*.
type Kernels int32

// FERRY_KERNELS_*
const (
	KernelsLazy   Kernels = 0 // in each context, with its first copy by a kernel
	KernelsAtOpen Kernels = 1 // in ferry_open, which makes all primary contexts; LAZY in other contexts
	KernelsNone   Kernels = 2 // never: the driver makes every copy
)

// Staging is one of the constants FERRY_STAGING_*.
type Staging int32

// FERRY_STAGING_*
const (
	StagingLazy   Staging = 0 // for each device with its first such copy
	StagingAtOpen Staging = 1 // in ferry_open, for all devices; loads kernels like FERRY_KERNELS_AT_OPEN
	StagingNone   Staging = 2 // never: the driver makes such copies, and they block
)

// NUMA is one of the constants FERRY_NUMA_*.
type NUMA int32

// FERRY_NUMA_*
const (
	NUMAAny    NUMA = 0 // where the system puts it
	NUMADevice NUMA = 1 // near `device`: on its node in ferry_device_info; as ANY if that is not known
	NUMANode   NUMA = 2 // on node number `numa_node`
)

// StagingPriority is one of the constants FERRY_STAGING_PRIORITY_*.
type StagingPriority int32

// FERRY_STAGING_PRIORITY_*
const (
	StagingPriorityHighest   StagingPriority = 0 // -20, or the lowest that the system grants
	StagingPriorityOfProcess StagingPriority = 1 // the main thread's niceness
	StagingPriorityNiceness  StagingPriority = 2 // staging_niceness
)

// LogLevel is one of the constants FERRY_LOG_*.
type LogLevel int32

// FERRY_LOG_*
const (
	LogError   LogLevel = 0
	LogWarning LogLevel = 1
	LogInfo    LogLevel = 2
)

// TraceKind is one of the constants FERRY_TRACE_*.
type TraceKind int32

// FERRY_TRACE_*
const (
	TraceCopy     TraceKind = 1 // a single copy
	TraceBatch    TraceKind = 2 // a batch of copies or pieces
	TracePrepared TraceKind = 3 // the launch of a prepared batch
	TraceFill     TraceKind = 4
)

// PhaseFlags is any combination of the constants FERRY_PHASE_*.
type PhaseFlags uint32

// FERRY_PHASE_*
const (
	PhaseBegin  PhaseFlags = 1 // the call begins
	PhaseReturn PhaseFlags = 2 // the call returns
	PhaseDone   PhaseFlags = 4 // the work of a call that did not wait for it has completed on the stream
)

// FERRY_VERSION_*
const (
	VersionMajor = 0
	VersionMinor = 7
	VersionPatch = 0
)

// Status is one of the constants FERRY_ERROR_*.
type Status int32

// FERRY_ERROR_*
const (
	Success               Status = 0   // counts as one of FERRY_ERROR_*
	ErrorInvalidArgument  Status = -1  // a required pointer is NULL, or a value is outside its documented range
	ErrorOutOfMemory      Status = -2  // host memory for ferry's own use; device memory is a driver status
	ErrorAbiMismatch      Status = -3  // struct_size is out of range, or covers unknown bytes that are not zero
	ErrorReserved         Status = -4  // a reserved field is not zero
	ErrorFlags            Status = -5  // an unknown flag is set
	ErrorKind             Status = -6  // no such kind
	ErrorDevice           Status = -7  // no such device; not the array's device; full checks: not the memory's device
	ErrorAddress          Status = -8  // null address or array; full checks: freed, foreign or inaccessible memory
	ErrorPitch            Status = -9  // row pitch below x + width or above the device's limit, slice height below y + height
	ErrorOverflow         Status = -10 // offsets and extent do not fit 64 bits
	ErrorOutOfBounds      Status = -11 // the box reaches past the array; full checks: past the allocation
	ErrorOverlap          Status = -12 // source and destination share bytes
	ErrorArrayFormat      Status = -13 // element sizes differ, x or width is no whole number of elements, no such format
	ErrorNoDriver         Status = -14 // no NVIDIA driver on this machine
	ErrorDriverTooOld     Status = -15 // a driver older than CUDA 12.0, or one that lacks a required entry point
	ErrorNoDevice         Status = -16 // a driver without a usable device
	ErrorUnsupported      Status = -17 // this version of ferry or this driver has no such feature
	ErrorSoftwareConfig   Status = -18 // the software driver already runs with other settings
	ErrorNoContext        Status = -19 // no context to pop or to release, or the call cannot use the context
	ErrorPeerAccess       Status = -20 // one device cannot access the memory of the other
	ErrorAlignment        Status = -21 // an address, pitch, width or stride is no multiple of the required size
	ErrorCapture          Status = -22 // a graph cannot contain this call, as a node or by capture of its stream
	ErrorLimit            Status = -23 // a pool or budget is at its limit, or the staging buffer has no free slot
	ErrorInUse            Status = -24 // memory of the pool is still allocated or imported
	ErrorHandle           Status = -25 // not a handle for this call, or damaged, or its object no longer exists
	ErrorMachine          Status = -26 // the handle was made on another machine, or before the last reboot
	ErrorPool             Status = -27 // the pool of this memory is not imported, or this is no imported pool
	ErrorImported         Status = -28 // imported: it cannot be freed, changed or allocated from, and ends with its import
	ErrorNotShareable     Status = -29 // this memory, pool, event or semaphore cannot be shared
	ErrorProfile          Status = -30 // the profile is damaged, old, or of another device or driver
	ErrorRoute            Status = -31 // no route that the options allow can take this copy: see value
	ErrorNoSoftwareDriver Status = -32 // libferry-software, the library of the software driver, is missing
	ErrorSoftwareBuild    Status = -33 // libferry-software is of another build than this library
	ErrorOtherKind        Status = -34 // full checks: memory of another kind than stated; a handle of another kind
	ErrorPageable         Status = -35 // a fill of pageable memory, which the device cannot access
	ErrorDataLost         Status = -36 // the driver reports peer access, but the probe lost data
	ErrorNotReady         Status = -37 // the time-out of a wait is over, and the work has not ended
	ErrorWouldBlock       Status = -38 // FERRY_COPY_NO_WAIT: the call would wait, and has done nothing
	ErrorFile             Status = -39 // the system could not open, read or write the file, or the file has ended
)

// FERRY_STATUS_DRIVER_BASE
const (
	StatusDriverBase = -1000
)

// Traits is any combination of the constants FERRY_STATUS_*.
type Traits uint32

// FERRY_STATUS_*
const (
	StatusContextDead Traits = 1 // the context (or the driver) is lost: every later call on it will fail too
	StatusRetry       Traits = 2 // the same call may succeed later, or once memory has been freed
)

// Route is one of the constants FERRY_ROUTE_*.
type Route int32

// FERRY_ROUTE_*
const (
	RouteAuto      Route = 0 // only passed: ferry chooses the route
	RouteNone      Route = 0 // only reported: there is nothing to copy, because the width is 0
	RouteDriver    Route = 1 // by the driver's own calls: one, or more if host memory is registered in pieces
	RouteKernel    Route = 2 // by one of ferry's kernels on the copy's stream
	RouteStaged    Route = 3 // by CPU threads and a kernel or copies on the stream, through pinned memory
	RouteBuffered  Route = 4 // only reported: the calling thread reads the source into pinned memory
	RouteRelayed   Route = 5 // between devices, through pinned memory, by the driver's calls on ferry's own streams
	RouteMultilink Route = 6 // only reported: by kernels of several devices, each over its own host link
)

// Priority is one of the constants FERRY_PRIORITY_*.
type Priority int32

// FERRY_PRIORITY_*
const (
	PriorityNormal     Priority = 0
	PriorityUrgent     Priority = 1 // does not wait for other copies in the queue of a copy engine
	PriorityBackground Priority = 2 // not implemented: FERRY_ERROR_UNSUPPORTED
)

// SourceOrder is one of the constants FERRY_SOURCE_ORDER_*.
type SourceOrder int32

// FERRY_SOURCE_ORDER_*
const (
	SourceOrderAny    SourceOrder = 0 // the source is read at any time until the copy is complete
	SourceOrderStream SourceOrder = 1 // the source is read after the earlier work on the stream
	SourceOrderCall   SourceOrder = 2 // the source is read before the call returns
)

// CopyFlags is any combination of the constants FERRY_COPY_*.
type CopyFlags uint32

// FERRY_COPY_*
const (
	CopyNoKernels          CopyFlags = 1  // leaves all SMs to other work
	CopyMultilink          CopyFlags = 2  // uses the host links of several devices
	CopyDestinationWritten CopyFlags = 4  // the call returns after a pageable destination is complete
	CopyCheckOverlap       CopyFlags = 8  // rejects a batch or a nest whose copies overlap
	CopyUpdatable          CopyFlags = 16 // allows ferry_prepared_set_addresses
	CopyNoWait             CopyFlags = 32 // a call that would wait returns FERRY_ERROR_WOULD_BLOCK
)

// FERRY_NO_*
const (
	NoTimeout = -1 // wait without a limit
)

// Obstacle is one of the constants FERRY_OBSTACLE_*.
type Obstacle int32

// FERRY_OBSTACLE_*
const (
	ObstacleNone              Obstacle = 0
	ObstacleNoRoute           Obstacle = 1  // the route that the options force serves single copies, but no pieces
	ObstacleForbidden         Obstacle = 2  // the options exclude kernels
	ObstacleNotLoaded         Obstacle = 3  // the driver refused ferry's kernels, or the options exclude them
	ObstacleHostToHost        Obstacle = 4  // both ends are host memory
	ObstaclePageable          Obstacle = 5  // an end is pageable or host pool memory that the device does not reach
	ObstacleManaged           Obstacle = 6  // an end is managed memory: kernels if forced or URGENT, staging never
	ObstacleArray             Obstacle = 7  // an end is an array that kernels do not take: see ferry_array_create
	ObstacleNoAccess          Obstacle = 8  // the copy's context has no access to an end
	ObstacleBeyond            Obstacle = 9  // an end reaches past its allocation or registration
	ObstacleReadOnly          Obstacle = 10 // the destination is memory that the device may only read
	ObstacleNotPageable       Obstacle = 11 // no end is pageable memory, and no narrow rows need staging
	ObstacleNoStaging         Obstacle = 12 // the options exclude staging, it has no threads or pinned memory, or the host memory cannot be read
	ObstacleOtherDevice       Obstacle = 13 // an end is on another device than the stream
	ObstacleDirect            Obstacle = 14 // the device takes pageable memory itself (pageable_uses_host_page_tables)
	ObstacleNotBetweenDevices Obstacle = 15 // the ends are not on two devices
	ObstacleDirectAccess      Obstacle = 16 // one of the two devices has access to the memory of the other
	ObstacleNoHelpers         Obstacle = 17 // ferry_multilink_set names none for this device, in this context
	ObstacleNotCut            Obstacle = 18 // rows below 64 KiB, or addresses or pitches that differ modulo 16
	ObstacleSmall             Obstacle = 19 // too small to gain by it
	ObstacleCaptured          Obstacle = 20 // the copy becomes part of a graph, where it is the driver's
	ObstacleWaits             Obstacle = 21 // FERRY_COPY_NO_WAIT: the call would wait for work of a stream
	ObstacleNotPrepared       Obstacle = 22 // the same: for first-use work (see ferry_staging_prepare)
	ObstacleBusy              Obstacle = 23 // the same: until other copies have completed; try again later
	ObstacleFile              Obstacle = 24 // an end is a file, which only staging serves
)

// Reason is one of the constants FERRY_REASON_*.
type Reason int32

// FERRY_REASON_*
const (
	ReasonNone        Reason = 0 // there is nothing to copy
	ReasonLine        Reason = 1 // one line without pageable memory: the driver is as fast
	ReasonOnly        Reason = 2 // no other route can take it: see the obstacles
	ReasonPredicted   Reason = 3 // it is predicted to be the fastest, from the profile in force
	ReasonNoWait      Reason = 4 // the driver would make the caller wait
	ReasonForced      Reason = 5 // the options force it
	ReasonUrgent      Reason = 6 // FERRY_PRIORITY_URGENT
	ReasonSourceOrder Reason = 7 // the source is read in the call, as its order requires or permits
	ReasonMultilink   Reason = 8 // FERRY_COPY_MULTILINK
)

// ProfileOrigin is one of the constants FERRY_PROFILE_*.
type ProfileOrigin int32

// FERRY_PROFILE_*
const (
	ProfileNone     ProfileOrigin = 0
	ProfileBuiltIn  ProfileOrigin = 1 // measured on other devices of this kind
	ProfileCautious ProfileOrigin = 2 // of no device: ferry_device_calibrate measures this one
	ProfileMeasured ProfileOrigin = 3 // by a calibration, now or before ferry_profile_load
)

// Blocks is one of the constants FERRY_BLOCKS_*.
type Blocks int32

// FERRY_BLOCKS_*
const (
	BlocksNo          Blocks = 0 // nothing: the call enqueues and returns
	BlocksUntilStaged Blocks = 1 // until pageable source memory has been read, and for earlier work on the stream
	BlocksUntilDone   Blocks = 2 // until the copy is complete
)

// Side is one of the constants FERRY_SIDE_*.
type Side int32

// FERRY_SIDE_*
const (
	SideNone          Side = 0
	SideSource        Side = 1
	SideDestination   Side = 2
	SideExtent        Side = 3
	SideDescriptor    Side = 4 // the descriptor's own fields, such as its reserved fields
	SideOptions       Side = 5 // the options or the description that a call was given
	SideDriverOptions Side = 6 // ferry_options.driver_options, or the ferry_software_options of a call
	SidePieces        Side = 7 // the ferry_piece_list of a call
)

// Field is one of the constants FERRY_FIELD_*.
type Field int32

// FERRY_FIELD_*
const (
	FieldNone            Field = 0
	FieldKind            Field = 1
	FieldDevice          Field = 2
	FieldAddress         Field = 3
	FieldArray           Field = 4
	FieldRowPitch        Field = 5
	FieldSliceHeight     Field = 6
	FieldX               Field = 7
	FieldY               Field = 8
	FieldZ               Field = 9
	FieldWidth           Field = 10
	FieldHeight          Field = 11
	FieldDepth           Field = 12
	FieldFlags           Field = 13
	FieldReserved        Field = 14
	FieldStructSize      Field = 15
	FieldDriver          Field = 16
	FieldChecks          Field = 17
	FieldCallbacks       Field = 18 // allocate without deallocate, or the reverse
	FieldDriverOptions   Field = 19
	FieldPatternSize     Field = 20
	FieldNUMA            Field = 21
	FieldNUMANode        Field = 22
	FieldThreads         Field = 23
	FieldSize            Field = 24
	FieldLocation        Field = 25
	FieldIndex           Field = 26
	FieldHandleTypes     Field = 27
	FieldHandle          Field = 28 // the bytes of a ferry_ipc_handle
	FieldOSHandle        Field = 29
	FieldPool            Field = 30
	FieldEvent           Field = 31
	FieldRegisterChunk   Field = 32
	FieldVersion         Field = 33 // of a profile
	FieldLine            Field = 34 // of a profile: its number is the value
	FieldKernels         Field = 35
	FieldStaging         Field = 36
	FieldStagingCPUs     Field = 37 // staging_cpus or staging_cpu_count
	FieldStagingPriority Field = 38
	FieldStagingBytes    Field = 39
	FieldFormat          Field = 40 // of an array
	FieldChannels        Field = 41 // of an array
	FieldHelpers         Field = 42
	FieldTracePhases     Field = 43
	FieldStagingThreads  Field = 44
	FieldStagingCpuCount Field = 45
	FieldStagingNUMA     Field = 46
	FieldStagingNUMANode Field = 47
	FieldLevel           Field = 48
	FieldPlane           Field = 49
	FieldAccess          Field = 50
	FieldStream          Field = 51
	FieldContext         Field = 52
	FieldHandleType      Field = 53 // of external memory or an external semaphore
	FieldDevices         Field = 54 // of ferry_software_options, as QUEUES and LINKS
	FieldQueues          Field = 55
	FieldLinks           Field = 56
	FieldCount           Field = 57
	FieldTimeout         Field = 58 // timeout_ns
	FieldRoute           Field = 59 // of ferry_copy_options, as PRIORITY, SOURCE_ORDER and MAX_SMS
	FieldPriority        Field = 60
	FieldSourceOrder     Field = 61
	FieldMaxSMs          Field = 62
	FieldStagingNiceness Field = 63
	FieldFile            Field = 64
	FieldDestinations    Field = 65 // of ferry_piece_list, as SOURCES, SIZES, STRIDE and SOURCE_FILE
	FieldSources         Field = 66
	FieldSizes           Field = 67
	FieldStride          Field = 68
	FieldSourceFile      Field = 69
	FieldPeer            Field = 70
	FieldTicket          Field = 71
	FieldPrepared        Field = 72 // a prepared batch
	FieldMaxPinnedBytes  Field = 73 // of ferry_options, as MAX_DEVICE_BYTES and MAX_THREADS
	FieldMaxDeviceBytes  Field = 74
	FieldMaxThreads      Field = 75
	FieldSubmit          Field = 76 // of ferry_options
	FieldInstance        Field = 77 // a parameter that is NULL, as the following fields
	FieldCopy            Field = 78
	FieldCopies          Field = 79
	FieldPieces          Field = 80
	FieldFill            Field = 81
	FieldDesc            Field = 82
	FieldText            Field = 83
	FieldGraph           Field = 84
	FieldNode            Field = 85
	FieldExecutable      Field = 86
	FieldResult          Field = 87 // a parameter in which the call stores or fills something
	FieldPath            Field = 88
	FieldOffset          Field = 89 // `address` of a place in a file, or a source of pieces in a file
	FieldDirect          Field = 90 // of ferry_file_options
	FieldMaxSize         Field = 91 // of ferry_pinned_pool_options
	FieldNests           Field = 92
	FieldAxes            Field = 93 // of ferry_nest, as SKIPPED
	FieldSkipped         Field = 94
	FieldIndices         Field = 95 // of ferry_axis, as the following fields
	FieldIndexLimit      Field = 96
	FieldIndexType       Field = 97
	FieldIndexMemory     Field = 98
)

// Item is one of the constants FERRY_ITEM_*.
type Item int32

// FERRY_ITEM_*
const (
	ItemNone   Item = 0 // index is 0 and means nothing
	ItemCopy   Item = 1
	ItemPiece  Item = 2
	ItemHelper Item = 3 // of ferry_multilink_options.helpers
	ItemCpu    Item = 4 // of ferry_options.staging_cpus
	ItemTicket Item = 5
	ItemNest   Item = 6
	ItemAxis   Item = 7 // index is FERRY_NEST_AXES times the number of the nest, plus the number of the axis
)

// Numbers is one of the constants FERRY_NUMBERS_*.
type Numbers int32

// FERRY_NUMBERS_*
const (
	NumbersNone      Numbers = 0  // both are 0 and mean nothing
	NumbersValue     Numbers = 1  // value: the value given. limit means nothing, here only
	NumbersAtLeast   Numbers = 2  // value is less than limit, the minimum
	NumbersAtMost    Numbers = 3  // value is more than limit, the maximum
	NumbersUpTo      Numbers = 4  // value is not in 0 to limit
	NumbersCount     Numbers = 5  // value is not in 0 to limit - 1: limit is a number of things, such as devices
	NumbersEqual     Numbers = 6  // value is not limit, the only value that works
	NumbersMultiple  Numbers = 7  // value is no multiple of limit
	NumbersPower     Numbers = 8  // value is no power of two, or more than limit
	NumbersBits      Numbers = 9  // value has bits that limit lacks
	NumbersBegin     Numbers = 10 // value, where the box begins, is before limit, where the memory begins
	NumbersEnd       Numbers = 11 // value, one past the last byte, row or slice, is past limit, the end
	NumbersElement   Numbers = 12 // value does not fit elements of limit bytes
	NumbersCopy      Numbers = 13 // value and limit are the indices of two copies that conflict
	NumbersKnown     Numbers = 14 // value differs from limit, the size or version that this library knows
	NumbersOf        Numbers = 15 // value is the number of a line, and limit the number of lines
	NumbersObstacle  Numbers = 16 // value is FERRY_OBSTACLE_*
	NumbersResult    Numbers = 17 // value: the value given; limit: the CUresult with which the driver refused it
	NumbersNeeds     Numbers = 18 // value has a flag that also needs limit
	NumbersOneOf     Numbers = 19 // limit lacks the bit 1 << value: its bits are the values that work
	NumbersDifferent Numbers = 20 // value is the same device as limit, and must be another
	NumbersExcluded  Numbers = 21 // limit is the FERRY_FIELD_* of another field, whose value excludes value
	NumbersRequires  Numbers = 22 // limit is the FERRY_FIELD_* of another field, which value requires
	NumbersSame      Numbers = 23 // limit is the FERRY_FIELD_* of another field, which has the same value
	NumbersLacks     Numbers = 24 // value is the flags of the prepared batch, which lack the flag limit
	NumbersNotHere   Numbers = 25 // value has the flag limit, which other calls accept, but this call rejects
	NumbersShift     Numbers = 26 // value is an address whose distance to the prepared address is no multiple of limit
	NumbersPrepared  Numbers = 27 // value and limit, the prepared address, are memory of different kinds
	NumbersSystem    Numbers = 28 // value: the system's error number, or FERRY_FILE_ENDED; limit: an offset in a file
	NumbersOpened    Numbers = 29 // value is the FERRY_FILE_* access of the file, which lacks the flag limit
)

// FERRY_DEFAULT_STREAM_*
const (
	DefaultStreamLegacy    = 1 // the same stream as NULL
	DefaultStreamPerThread = 2 // the default stream of the calling thread
)

// StreamFlags is any combination of the constants FERRY_STREAM_*.
type StreamFlags uint32

// FERRY_STREAM_*
const (
	StreamNonBlocking StreamFlags = 1 // not ordered with the legacy default stream (CU_STREAM_NON_BLOCKING)
)

// MemoryKind is one of the constants FERRY_MEMORY_*.
type MemoryKind int32

// FERRY_MEMORY_*
const (
	MemoryNone     MemoryKind = -1 // in ferry_explanation only: a fill has no source
	MemoryPageable MemoryKind = 0  // ordinary host memory or none at all; a host pool's without access to the pool
	MemoryPinned   MemoryKind = 1  // allocated pinned, or registered
	MemoryDevice   MemoryKind = 2
	MemoryManaged  MemoryKind = 3
	MemoryArray    MemoryKind = 4 // in ferry_explanation only
	MemoryFile     MemoryKind = 5 // in ferry_explanation only
)

// CopyOverlap is one of the constants FERRY_COPY_OVERLAP_*.
type CopyOverlap int32

// FERRY_COPY_OVERLAP_*
const (
	CopyOverlapNone        CopyOverlap = 0 // no engine: copies and kernels take turns
	CopyOverlapOneWay      CopyOverlap = 1 // one engine: a copy in one direction at a time runs beside kernels
	CopyOverlapBothWays    CopyOverlap = 2 // two: one copy in each direction runs beside kernels
	CopyOverlapBothAndMore CopyOverlap = 3 // more: also copies to peers or within the device beside those
)

// Probe is one of the constants FERRY_PROBE_*.
type Probe int32

// FERRY_PROBE_*
const (
	ProbeNotRun Probe = 0
	ProbePassed Probe = 1
	ProbeFailed Probe = 2 // the driver reports access, but bytes do not arrive: the pair counts as having none
)

// EventFlags is any combination of the constants FERRY_EVENT_*.
type EventFlags uint32

// FERRY_EVENT_*
const (
	EventBlockingSync  EventFlags = 1 // ferry_event_synchronize sleeps instead of spinning
	EventDisableTiming EventFlags = 2 // cheaper; ferry_event_elapsed_time does not take it
	EventInterprocess  EventFlags = 4 // for ferry_ipc_export_event; needs FERRY_EVENT_DISABLE_TIMING as well
)

// HostFlags is any combination of the constants FERRY_HOST_*.
type HostFlags uint32

// FERRY_HOST_*
const (
	HostWriteCombined HostFlags = 1  // fast to write, very slow to read for the CPU
	HostByDriver      HostFlags = 2  // by cuMemHostAlloc: slower to allocate, and cuMemFreeHost takes it too
	HostNotPortable   HostFlags = 4  // not pinned for other contexts; with unified addressing pinned anyway
	HostNotMapped     HostFlags = 8  // not mapped into devices; with unified addressing mapped anyway
	HostAllowSmaller  HostFlags = 16 // a smaller block instead of an error: see min_size
	HostAllowPageable HostFlags = 32 // a pageable block instead of an error
	HostShared        HostFlags = 64 // the children of a fork share it; usually small pages before Linux 6.1
)

// HostOrigin is one of the constants FERRY_HOST_FROM_*.
type HostOrigin int32

// FERRY_HOST_FROM_*
const (
	HostFromMapping HostOrigin = 1 // mapped by ferry, registered with the driver
	HostFromDriver  HostOrigin = 2 // cuMemHostAlloc
	HostFromSystem  HostOrigin = 3 // mapped by ferry and pageable: FERRY_HOST_ALLOW_PAGEABLE
)

// RegisterFlags is any combination of the constants FERRY_REGISTER_*.
type RegisterFlags uint32

// FERRY_REGISTER_*
const (
	RegisterReadOnly RegisterFlags = 1 // the devices only read it; for anonymous memory that the process may only read
)

// Format is one of the constants FERRY_FORMAT_*.
type Format int32

// FERRY_FORMAT_*
const (
	FormatUint8                 Format = 1
	FormatUint16                Format = 2
	FormatUint32                Format = 3
	FormatSint8                 Format = 8
	FormatSint16                Format = 9
	FormatSint32                Format = 10
	FormatHalf                  Format = 16
	FormatFloat                 Format = 32
	FormatUnormInt8x1           Format = 192
	FormatUnormInt8x2           Format = 193
	FormatUnormInt8x4           Format = 194
	FormatUnormInt16x1          Format = 195
	FormatUnormInt16x2          Format = 196
	FormatUnormInt16x4          Format = 197
	FormatSnormInt8x1           Format = 198
	FormatSnormInt8x2           Format = 199
	FormatSnormInt8x4           Format = 200
	FormatSnormInt16x1          Format = 201
	FormatSnormInt16x2          Format = 202
	FormatSnormInt16x4          Format = 203
	FormatUnormInt1010102       Format = 80 // 4 channels in 32 bits
	FormatBc1Unorm              Format = 145
	FormatBc1UnormSrgb          Format = 146
	FormatBc2Unorm              Format = 147
	FormatBc2UnormSrgb          Format = 148
	FormatBc3Unorm              Format = 149
	FormatBc3UnormSrgb          Format = 150
	FormatBc4Unorm              Format = 151
	FormatBc4Snorm              Format = 152
	FormatBc5Unorm              Format = 153
	FormatBc5Snorm              Format = 154
	FormatBc6hUf16              Format = 155
	FormatBc6hSf16              Format = 156
	FormatBc7Unorm              Format = 157
	FormatBc7UnormSrgb          Format = 158
	FormatNv12                  Format = 176 // planar 4:2:0, 8 bits
	FormatP010                  Format = 159 // planar 4:2:0, 10 bits
	FormatP016                  Format = 161 // planar 4:2:0, 16 bits
	FormatNv16                  Format = 162 // planar 4:2:2, 8 bits
	FormatP210                  Format = 163 // planar 4:2:2, 10 bits
	FormatP216                  Format = 164 // planar 4:2:2, 16 bits
	FormatYuy2                  Format = 165 // packed 4:2:2, 8 bits; 4 channels
	FormatY210                  Format = 166 // packed 4:2:2, 10 bits; 2 channels
	FormatY216                  Format = 167 // packed 4:2:2, 16 bits; 2 channels
	FormatAyuv                  Format = 168 // packed 4:4:4, 8 bits; 4 channels
	FormatY410                  Format = 169 // packed 4:4:4, 10 bits; 1 channel
	FormatY416                  Format = 177 // packed 4:4:4, 12 bits; 4 channels
	FormatY444Planar8           Format = 178
	FormatY444Planar10          Format = 179
	FormatYuv4448bitSemiplanar  Format = 180
	FormatYuv44416bitSemiplanar Format = 181
)

// ArrayFlags is any combination of the constants FERRY_ARRAY_*.
type ArrayFlags uint32

// FERRY_ARRAY_*
const (
	ArrayLayered         ArrayFlags = 1   // depth counts layers (CUDA_ARRAY3D_LAYERED)
	ArraySurface         ArrayFlags = 2   // surfaces may be made of it (CUDA_ARRAY3D_SURFACE_LDST)
	ArrayCubemap         ArrayFlags = 4   // square, six faces deep; layered: a multiple of six (CUDA_ARRAY3D_CUBEMAP)
	ArrayTextureGather   ArrayFlags = 8   // 2D only (CUDA_ARRAY3D_TEXTURE_GATHER)
	ArrayColorAttachment ArrayFlags = 32  // only of imported images (CUDA_ARRAY3D_COLOR_ATTACHMENT)
	ArrayVideo           ArrayFlags = 256 // for the video formats (CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)
)

// HandleTypes is any combination of the constants FERRY_HANDLE_*.
type HandleTypes uint32

// FERRY_HANDLE_*
const (
	HandlePosixFD  HandleTypes = 1
	HandleWin32    HandleTypes = 2
	HandleWin32KMT HandleTypes = 4
	HandleFabric   HandleTypes = 8
)

// Location is one of the constants FERRY_LOCATION_*.
type Location int32

// FERRY_LOCATION_*
const (
	LocationUnknown  Location = -1 // only reported: ferry_pool_get_info does not know the location
	LocationDevice   Location = 0  // on a device
	LocationHost     Location = 1  // in host memory
	LocationHostNUMA Location = 2  // in host memory on a NUMA node
)

// Access is one of the constants FERRY_ACCESS_*.
type Access int32

// FERRY_ACCESS_*
const (
	AccessNone      Access = 0
	AccessReadWrite Access = 3
)

// ExternalType is one of the constants FERRY_EXTERNAL_*.
type ExternalType int32

// FERRY_EXTERNAL_*
const (
	ExternalOpaqueFD         ExternalType = 1 // Vulkan on Linux: a file descriptor
	ExternalOpaqueWin32      ExternalType = 2 // Vulkan on Windows: an NT handle, or a name
	ExternalOpaqueWin32KMT   ExternalType = 3 // the same: a KMT handle
	ExternalD3d12Heap        ExternalType = 4 // an NT handle, or a name
	ExternalD3d12Resource    ExternalType = 5 // the same; always dedicated, the flag need not be set
	ExternalD3d11Resource    ExternalType = 6 // the same
	ExternalD3d11ResourceKMT ExternalType = 7 // a KMT handle; else the same
)

// ExternalFlags is 0 or FERRY_EXTERNAL_DEDICATED.
type ExternalFlags uint32

// FERRY_EXTERNAL_DEDICATED
const (
	ExternalDedicated ExternalFlags = 1
)

// SemaphoreType is one of the constants FERRY_SEMAPHORE_*.
type SemaphoreType int32

// FERRY_SEMAPHORE_*
const (
	SemaphoreOpaqueFD           SemaphoreType = 1 // a binary semaphore of Vulkan on Linux: a file descriptor
	SemaphoreOpaqueWin32        SemaphoreType = 2 // the same on Windows: an NT handle, or a name
	SemaphoreOpaqueWin32KMT     SemaphoreType = 3 // the same: a KMT handle
	SemaphoreD3d12Fence         SemaphoreType = 4
	SemaphoreD3d11Fence         SemaphoreType = 5
	SemaphoreD3d11KeyedMutex    SemaphoreType = 7
	SemaphoreD3d11KeyedMutexKMT SemaphoreType = 8
	SemaphoreTimelineFD         SemaphoreType = 9  // a timeline semaphore of Vulkan on Linux: a file descriptor
	SemaphoreTimelineWin32      SemaphoreType = 10 // the same on Windows: an NT handle, or a name
)

// FileFlags is any combination of the constants FERRY_FILE_*.
type FileFlags uint32

// FERRY_FILE_*
const (
	FileRead      FileFlags = 1  // the file can be the source of a copy
	FileWrite     FileFlags = 2  // the file can be the destination of a copy
	FileCreate    FileFlags = 4  // ferry_file_open makes the file if it does not exist. Needs WRITE
	FileTruncate  FileFlags = 8  // ferry_file_open removes all bytes of the file. Needs WRITE
	FileKeepCache FileFlags = 16 // as FERRY_FILE_DIRECT_ALWAYS, but a refused direct transfer fails the copy
	FileSync      FileFlags = 32 // written bytes are durable (fdatasync) when a copy completes. Needs WRITE
)

// FileDirect is one of the constants FERRY_FILE_DIRECT_*.
type FileDirect int32

// FERRY_FILE_DIRECT_*
const (
	FileDirectAuto   FileDirect = 0 // ferry decides. In this release, all transfers use the page cache
	FileDirectNever  FileDirect = 1 // all transfers use the page cache
	FileDirectAlways FileDirect = 2 // direct, except for transfers that the system refuses. Linux only
)

// FERRY_FILE_ENDED
const (
	FileEnded = -1 // the file had ended before this byte
)

// FERRY_FILE_CANCELLED
const (
	FileCancelled = -2 // ferry_ticket_cancel came before this byte
)

// FERRY_IPC_HANDLE_SIZE
const (
	IPCHandleSize = 256
)

// IPCKind is one of the constants FERRY_IPC_*.
type IPCKind int32

// FERRY_IPC_*
const (
	IPCMemory     IPCKind = 1 // memory of ferry_device_alloc, cuMemAlloc or cudaMalloc
	IPCPool       IPCKind = 2 // a pool
	IPCPoolMemory IPCKind = 3 // an allocation from a pool
	IPCEvent      IPCKind = 4 // an event
)

// FERRY_NEST_*
const (
	NestAxes = 6 // the maximum number of axes
)

// Index is one of the constants FERRY_INDEX_*.
type Index int32

// FERRY_INDEX_*
const (
	IndexNone Index = 0 // no indices: `indices` is 0
	IndexU32  Index = 1 // uint32_t
	IndexU64  Index = 2 // uint64_t
)

// Indices is one of the constants FERRY_INDICES_*.
type Indices int32

// FERRY_INDICES_*
const (
	IndicesHost   Indices = 0 // host memory, read before the call returns
	IndicesDevice Indices = 1 // memory that kernels of the stream's device can access, read in the order of the stream
)

// SoftwareLinks is one of the constants FERRY_SOFTWARE_LINKS_*.
type SoftwareLinks int32

// FERRY_SOFTWARE_LINKS_*
const (
	SoftwareLinksDefault SoftwareLinks = 0 // as the driver already runs, else ALL
	SoftwareLinksAll     SoftwareLinks = 1 // every pair
	SoftwareLinksNone    SoftwareLinks = 2 // no pair
	SoftwareLinksPairs   SoftwareLinks = 3 // devices 2k and 2k + 1
)
