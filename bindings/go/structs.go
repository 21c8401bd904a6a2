// Code generated from the C headers by generate/main.go. DO NOT EDIT.

package ferry

// #include "calls.h"
import "C"
import "unsafe"

// Report is ferry_report. What ferry_open found.
type Report struct {
	Driver             Driver // FERRY_DRIVER_CUDA or FERRY_DRIVER_SOFTWARE: the driver in use
	DriverVersion      int    // the CUDA version it supports: 1000 * major + 10 * minor
	DeviceCount        int
	FallbackReason     Status  // a status: of ferry_open with CUDA, which is why AUTO took the software driver; or 0
	MissingCount       uint32  // optional entry points that this driver lacks; see ferry_instance_get_missing_entry_point
	Checks             Checks  // FERRY_CHECKS_* in force
	FailedPeers        uint32  // ordered pairs of devices between which a probe has lost data so far
	Kernels            Kernels // FERRY_KERNELS_* in force; NONE also if the driver refused them or cannot run them
	KernelsLoaded      bool    // the driver has loaded them
	KernelContexts     uint32  // contexts in which they are loaded; 16 at most are counted
	Staging            Staging // FERRY_STAGING_* in force; NONE also if kernels are. If the driver has refused them only when they were loaded, pageable memory is still staged by copies on the stream, as with FERRY_COPY_NO_KERNELS.
	StagingThreads     uint32  // the maximum that copies of a device keep busy, except copies of files; see ferry_staging_info for all
	UsesProgramThreads bool    // those are the program's, by ferry_options.submit
	StagingBytes       uint64  // the intended size of each staging buffer
}

func newReport(c *C.ferry_report) Report {
	return Report{
		Driver:             Driver(c.driver),
		DriverVersion:      int(c.driver_version),
		DeviceCount:        int(c.device_count),
		FallbackReason:     Status(c.fallback_reason),
		MissingCount:       uint32(c.missing_count),
		Checks:             Checks(c.checks),
		FailedPeers:        uint32(c.failed_peers),
		Kernels:            Kernels(c.kernels),
		KernelsLoaded:      c.kernels_loaded != 0,
		KernelContexts:     uint32(c.kernel_contexts),
		Staging:            Staging(c.staging),
		StagingThreads:     uint32(c.staging_threads),
		UsesProgramThreads: c.uses_program_threads != 0,
		StagingBytes:       uint64(c.staging_bytes),
	}
}

// DeviceInfo is ferry_device_info. The facts of one device.
type DeviceInfo struct {
	Device                           int    // its ordinal
	Name                             string // UTF-8, ends with zero
	UUID                             [16]byte
	PCIAddress                       string // domain:bus:device.function, such as "0000:3B:00.0"
	TotalMemory                      uint64 // bytes
	MaxPitch                         uint64 // bytes: the largest row pitch a copy may have
	IsSoftware                       bool   // of the software driver
	ComputeMajor                     int
	ComputeMinor                     int
	SMCount                          int
	CopyEngineCount                  int
	Overlap                          CopyOverlap // FERRY_COPY_OVERLAP_*: what that count means
	UnifiedAddressing                bool        // one address space with the host: kind ANY works
	PageableAccess                   bool        // kernels may read pageable host memory
	PageableUsesHostPageTables       bool        // they do so by the host's page tables
	CanMapHostMemory                 bool        // pinned memory can be mapped into the device
	HostRegister                     bool        // ferry_host_register works
	HostRegisterReadOnly             bool        // FERRY_REGISTER_READ_ONLY works
	RegisteredAddressIsDeviceAddress bool        // registered memory has one address for host and device
	ManagedMemory                    bool        // ferry_managed_alloc works
	ConcurrentManagedAccess          bool        // the host may use managed memory while the device works
	MemoryPools                      bool        // stream-ordered allocation works
	PoolHandleTypes                  HandleTypes // FERRY_HANDLE_*
	NUMANode                         int         // of the nearest host memory; -1: the driver does not report it
	Integrated                       bool        // shares the host's physical memory
	TexturePitchAlignment            int         // bytes
	HostMemoryPools                  bool        // pools of FERRY_LOCATION_HOST work
	HostNUMAMemoryPools              bool        // pools of FERRY_LOCATION_HOST_NUMA work
	IPCEvents                        bool        // events can be shared between processes
	LUID                             [8]byte     // Windows: of the adapter; zeros elsewhere
	LUIDNodeMask                     uint32      // Windows: the nodes of the adapter that are the device; 0: other systems
}

func newDeviceInfo(c *C.ferry_device_info) DeviceInfo {
	return DeviceInfo{
		Device:                           int(c.device),
		Name:                             C.GoString(&c.name[0]),
		UUID:                             *(*[16]byte)(unsafe.Pointer(&c.uuid)),
		PCIAddress:                       C.GoString(&c.pci_address[0]),
		TotalMemory:                      uint64(c.total_memory),
		MaxPitch:                         uint64(c.max_pitch),
		IsSoftware:                       c.is_software != 0,
		ComputeMajor:                     int(c.compute_major),
		ComputeMinor:                     int(c.compute_minor),
		SMCount:                          int(c.sm_count),
		CopyEngineCount:                  int(c.copy_engine_count),
		Overlap:                          CopyOverlap(c.overlap),
		UnifiedAddressing:                c.unified_addressing != 0,
		PageableAccess:                   c.pageable_access != 0,
		PageableUsesHostPageTables:       c.pageable_uses_host_page_tables != 0,
		CanMapHostMemory:                 c.can_map_host_memory != 0,
		HostRegister:                     c.host_register != 0,
		HostRegisterReadOnly:             c.host_register_read_only != 0,
		RegisteredAddressIsDeviceAddress: c.registered_address_is_device_address != 0,
		ManagedMemory:                    c.managed_memory != 0,
		ConcurrentManagedAccess:          c.concurrent_managed_access != 0,
		MemoryPools:                      c.memory_pools != 0,
		PoolHandleTypes:                  HandleTypes(c.pool_handle_types),
		NUMANode:                         int(c.numa_node),
		Integrated:                       c.integrated != 0,
		TexturePitchAlignment:            int(c.texture_pitch_alignment),
		HostMemoryPools:                  c.host_memory_pools != 0,
		HostNUMAMemoryPools:              c.host_numa_memory_pools != 0,
		IPCEvents:                        c.ipc_events != 0,
		LUID:                             *(*[8]byte)(unsafe.Pointer(&c.luid)),
		LUIDNodeMask:                     uint32(c.luid_node_mask),
	}
}

// String returns one line, as ferry_explanation_format writes it.
func (s Explanation) String() string { return s.line }

// Explanation is ferry_explanation. What a copy or a fill would do. For a fill, predicted times are 0, and of the obstacles only kernel_obstacle counts, which is not looked for where the reason is LINE.
type Explanation struct {
	Route             Route      // FERRY_ROUTE_*
	Blocks            Blocks     // FERRY_BLOCKS_*
	Synchronises      bool       // ferry itself waits: after the driver's call, if the call returns before the copy is complete; before it, if the call would read a pageable source too early
	DriverCall        string     // such as "cuMemcpy3DAsync" or "cuLaunchKernel"; empty for FERRY_ROUTE_NONE
	ContextDevice     int        // of the context that the copy runs in; -1: FERRY_ROUTE_NONE
	DestinationMemory MemoryKind // FERRY_MEMORY_*; without meaning for FERRY_ROUTE_NONE
	DestinationDevice int        // of device or array memory; -1: other memory
	SourceMemory      MemoryKind // FERRY_MEMORY_*, likewise; NONE for a fill
	SourceDevice      int
	Calls             uint32 // of the driver: 1, or more where host memory is registered in pieces or in part; 0: none
	Width             uint64 // the extent as the call gets it: bytes, rows, slices; tight dimensions have been folded
	Height            uint64
	Depth             uint64
	DriverNS          uint64        // predicted for the driver route, from the call until the bytes are there; 0: not known
	KernelNS          uint64        // likewise for a kernel, which is used if it is 5 % faster: see FERRY_ROUTE_AUTO
	KernelObstacle    Obstacle      // FERRY_OBSTACLE_*: why a kernel does not take it, and nothing was predicted for one
	MaxSMs            uint32        // the maximum number of SMs that the route keeps busy; 0: the driver's choice
	StagedNS          uint64        // as driver_ns, for FERRY_ROUTE_STAGED
	StagedObstacle    Obstacle      // FERRY_OBSTACLE_*: why that cannot take it
	Threads           uint32        // the maximum number of CPU threads that the route keeps busy, a waiting caller included
	StagingDelayNS    uint64        // in staged_ns: the recent delay of staged copies because other programs kept the processors busy or other kernels kept the device busy; 0: no delay
	RelayNS           uint64        // as driver_ns, for FERRY_ROUTE_RELAYED
	RelayObstacle     Obstacle      // FERRY_OBSTACLE_*: why that cannot take it, or need not. Below 2 MiB, the relay route is considered only with the route RELAYED
	Links             uint32        // for FERRY_ROUTE_MULTILINK, and staged over several: the host links taken; else 0
	MultilinkNS       uint64        // as driver_ns, for FERRY_ROUTE_MULTILINK: by measured or equal links
	MultilinkObstacle Obstacle      // FERRY_OBSTACLE_*: why that cannot take it; FORBIDDEN: no MULTILINK
	Reason            Reason        // FERRY_REASON_*: why the copy, or one of its parts, takes this route
	Profile           ProfileOrigin // FERRY_PROFILE_*: where the predicted times come from
	HelperSMs         uint32        // with several links: the maximum number of SMs on each helper, and max_sms on the device; else 0
	EngineBytes       uint64        // for FERRY_ROUTE_MULTILINK: of the copy, what the device's copy engine takes. Kernels on all the devices claim the rest chunk by chunk
	line              string
}

func newExplanation(c *C.ferry_explanation) Explanation {
	return Explanation{
		Route:             Route(c.route),
		Blocks:            Blocks(c.blocks),
		Synchronises:      c.synchronises != 0,
		DriverCall:        C.GoString(&c.driver_call[0]),
		ContextDevice:     int(c.context_device),
		DestinationMemory: MemoryKind(c.destination_memory),
		DestinationDevice: int(c.destination_device),
		SourceMemory:      MemoryKind(c.source_memory),
		SourceDevice:      int(c.source_device),
		Calls:             uint32(c.calls),
		Width:             uint64(c.width),
		Height:            uint64(c.height),
		Depth:             uint64(c.depth),
		DriverNS:          uint64(c.driver_ns),
		KernelNS:          uint64(c.kernel_ns),
		KernelObstacle:    Obstacle(c.kernel_obstacle),
		MaxSMs:            uint32(c.max_sms),
		StagedNS:          uint64(c.staged_ns),
		StagedObstacle:    Obstacle(c.staged_obstacle),
		Threads:           uint32(c.threads),
		StagingDelayNS:    uint64(c.staging_delay_ns),
		RelayNS:           uint64(c.relay_ns),
		RelayObstacle:     Obstacle(c.relay_obstacle),
		Links:             uint32(c.links),
		MultilinkNS:       uint64(c.multilink_ns),
		MultilinkObstacle: Obstacle(c.multilink_obstacle),
		Reason:            Reason(c.reason),
		Profile:           ProfileOrigin(c.profile),
		HelperSMs:         uint32(c.helper_sms),
		EngineBytes:       uint64(c.engine_bytes),
		line: text(func(buffer *C.char, size C.uint64_t) C.uint64_t {
			return C.ferry_explanation_format(c, buffer, size)
		}),
	}
}

// BatchShare is ferry_batch_share. The copies of a batch that go one way. Copies of width 0 do not count, merged neighbours count as one, and a copy that is cut at the end of an allocation or registration counts as its parts. It never grows: later versions give `reserved` a name.
type BatchShare struct {
	Copies      uint64
	Bytes       uint64
	PredictedNS uint64 // the sum for these copies, without earlier work on the stream; 0: not known for all
}

func newBatchShare(c *C.ferry_batch_share) BatchShare {
	return BatchShare{
		Copies:      uint64(c.copies),
		Bytes:       uint64(c.bytes),
		PredictedNS: uint64(c.predicted_ns),
	}
}

// String returns one line, as ferry_batch_explanation_format writes it.
func (s BatchExplanation) String() string { return s.line }

// BatchExplanation is ferry_batch_explanation. What ferry would do with a batch. Set struct_size first.
type BatchExplanation struct {
	ContextDevice  int        // the device of the context that the batch runs in; -1: nothing to copy
	Singles        BatchShare // one by one, by any route: ferry_copy_explain_async reports the route
	BatchCalls     BatchShare // by cuMemcpyBatchAsync and cuMemcpy3DBatchAsync
	Kernels        BatchShare // by kernels that copy many in one launch
	Staged         BatchShare // together, between pageable memory and the device; rows of boxes count each
	Broadcasts     BatchShare // lines with one source that go to several devices; bytes: each source once
	MaxSMs         uint32     // the maximum number of SMs that a launch of `kernels` or `staged` keeps busy
	Threads        uint32     // the maximum number of CPU threads that `staged` keeps busy, a waiting caller included
	StagingDelayNS uint64     // the recent staging delay that staged.predicted_ns includes
	Blocks         Blocks     // FERRY_BLOCKS_*: the longest wait of a copy in the call. Broadcasts do not count
	line           string
}

func newBatchExplanation(c *C.ferry_batch_explanation) BatchExplanation {
	return BatchExplanation{
		ContextDevice:  int(c.context_device),
		Singles:        newBatchShare(&c.singles),
		BatchCalls:     newBatchShare(&c.batch_calls),
		Kernels:        newBatchShare(&c.kernels),
		Staged:         newBatchShare(&c.staged),
		Broadcasts:     newBatchShare(&c.broadcasts),
		MaxSMs:         uint32(c.max_sms),
		Threads:        uint32(c.threads),
		StagingDelayNS: uint64(c.staging_delay_ns),
		Blocks:         Blocks(c.blocks),
		line: text(func(buffer *C.char, size C.uint64_t) C.uint64_t {
			return C.ferry_batch_explanation_format(c, buffer, size)
		}),
	}
}

// TicketInfo is ferry_ticket_info. The progress of the work of a ticket.
type TicketInfo struct {
	Done       bool   // the work has ended, with success or not
	Status     Status // of the work. 0: in flight, or ended with success; else what ended it
	Route      Route  // FERRY_ROUTE_* that a single copy took, see ferry_copy_explain_async; else 0
	BytesDone  uint64 // bytes that have arrived. Before the end, only staged copies and files have a number
	BytesTotal uint64 // of the copy, the batch or the fill. 0: a stream
	Tag        uint64 // ferry_copy_options.tag; 0: a stream
	FileOffset uint64 // bytes before the first that was not transferred; 0 unless status is FERRY_ERROR_FILE
	FileError  int    // number of the error, FERRY_FILE_ENDED or FERRY_FILE_CANCELLED; 0: no error of a file
	FileIndex  int    // index of the failed copy or piece in its batch; 0: the first, a single copy, no failure
}

func newTicketInfo(c *C.ferry_ticket_info) TicketInfo {
	return TicketInfo{
		Done:       c.done != 0,
		Status:     Status(c.status),
		Route:      Route(c.route),
		BytesDone:  uint64(c.bytes_done),
		BytesTotal: uint64(c.bytes_total),
		Tag:        uint64(c.tag),
		FileOffset: uint64(c.file_offset),
		FileError:  int(c.file_error),
		FileIndex:  int(c.file_index),
	}
}

// AddressInfo is ferry_address_info. The memory at an address.
type AddressInfo struct {
	Memory        MemoryKind // FERRY_MEMORY_*
	Device        int        // the device of device memory; -1: other memory
	RangeStart    uint64     // the allocation or registration around the address, all its pieces; 0: not known
	RangeSize     uint64     // bytes
	DeviceAddress uint64     // the address that a kernel uses for the same byte; 0: pageable memory
}

func newAddressInfo(c *C.ferry_address_info) AddressInfo {
	return AddressInfo{
		Memory:        MemoryKind(c.memory),
		Device:        int(c.device),
		RangeStart:    uint64(c.range_start),
		RangeSize:     uint64(c.range_size),
		DeviceAddress: uint64(c.device_address),
	}
}

// DeferredInfo is ferry_deferred_info. What an instance keeps after ferry_device_free_deferred, ferry_host_free_deferred, ferry_host_unregister_deferred, ferry_array_destroy_deferred, ferry_mipmapped_array_destroy_deferred, ferry_prepared_destroy_deferred, ferry_pinned_pool_destroy_deferred, ferry_pool_destroy_deferred, ferry_ipc_close_memory_deferred, ferry_ipc_close_pool_deferred, ferry_external_memory_release_deferred and ferry_external_semaphore_release_deferred.
type DeferredInfo struct {
	Arrays      uint32 // mipmapped ones too
	Allocations uint32 // Of ferry_device_alloc, ferry_device_alloc_pitched and ferry_host_alloc; registrations, tables of prepared batches, pools, and imports of memory, pools and semaphores.
	Bytes       uint64 // of both; for arrays, of their texels; imports of pools and semaphores have none
}

func newDeferredInfo(c *C.ferry_deferred_info) DeferredInfo {
	return DeferredInfo{
		Arrays:      uint32(c.arrays),
		Allocations: uint32(c.allocations),
		Bytes:       uint64(c.bytes),
	}
}

// PoolStats is ferry_pool_stats. Bytes of a pool: now, and the high-water marks since the pool was created or the marks were reset. In a driver's pool, memory that ferry_device_free has freed still counts as used (CUDA 13.0).
type PoolStats struct {
	ReservedCurrent uint64 // held by the pool
	ReservedHigh    uint64
	UsedCurrent     uint64 // allocated, as the pool rounds; in a pinned pool also blocks that wait for streams
	UsedHigh        uint64
}

func newPoolStats(c *C.ferry_pool_stats) PoolStats {
	return PoolStats{
		ReservedCurrent: uint64(c.reserved_current),
		ReservedHigh:    uint64(c.reserved_high),
		UsedCurrent:     uint64(c.used_current),
		UsedHigh:        uint64(c.used_high),
	}
}

// PeerInfo is ferry_peer_info. One ordered pair of devices.
type PeerInfo struct {
	Device          int
	Peer            int
	CanAccess       bool   // `device` can reach the memory of `peer`: the driver reports access, and no probe failed
	DriverCanAccess bool   // the driver reports access
	Probe           Probe  // FERRY_PROBE_*: in this instance
	PerformanceRank int    // the driver's ranking of the links; 0: the best; -1: not reported
	NativeAtomics   bool   // atomic operations work across the link; 0: they do not, or it is not reported
	ArrayAccess     bool   // arrays can be reached too; 0: they cannot, or it is not reported
	DirectMbPerS    uint32 // MB/s of copies from `device` to `peer` with access
	BounceMbPerS    uint32 // likewise, by the driver without access
	RelayMbPerS     uint32 // likewise, by FERRY_ROUTE_RELAYED
	RelayFixedNS    uint32 // the time of FERRY_ROUTE_RELAYED without the bytes
	DirectFixedNS   uint32 // the time of copies with access without the bytes
	LinkToMbPerS    uint32 // MB/s from pinned memory to `peer` by `device` as a helper: FERRY_COPY_MULTILINK
	LinkFromMbPerS  uint32 // likewise, from `peer` to pinned memory
}

func newPeerInfo(c *C.ferry_peer_info) PeerInfo {
	return PeerInfo{
		Device:          int(c.device),
		Peer:            int(c.peer),
		CanAccess:       c.can_access != 0,
		DriverCanAccess: c.driver_can_access != 0,
		Probe:           Probe(c.probe),
		PerformanceRank: int(c.performance_rank),
		NativeAtomics:   c.native_atomics != 0,
		ArrayAccess:     c.array_access != 0,
		DirectMbPerS:    uint32(c.direct_mb_per_s),
		BounceMbPerS:    uint32(c.bounce_mb_per_s),
		RelayMbPerS:     uint32(c.relay_mb_per_s),
		RelayFixedNS:    uint32(c.relay_fixed_ns),
		DirectFixedNS:   uint32(c.direct_fixed_ns),
		LinkToMbPerS:    uint32(c.link_to_mb_per_s),
		LinkFromMbPerS:  uint32(c.link_from_mb_per_s),
	}
}

// StagingInfo is ferry_staging_info. The resources for staged copies, and the number of copies in flight: enqueued and not ended; in a graph, while it runs.
type StagingInfo struct {
	Threads        uint32 // ferry's own; 0: staging was neither prepared nor used. With submit: those it started
	BusyThreads    uint32 // moving bytes now, including helping callers and the program's threads
	CopiesInFlight uint32
	StagingBytes   uint64 // pinned for the staging buffers of all devices
	BytesInFlight  uint64 // of copies in flight: bytes that have not arrived yet
	FailedFiles    uint64 // count of calls with copies of files that failed later, see ferry_file.h
}

func newStagingInfo(c *C.ferry_staging_info) StagingInfo {
	return StagingInfo{
		Threads:        uint32(c.threads),
		BusyThreads:    uint32(c.busy_threads),
		CopiesInFlight: uint32(c.copies_in_flight),
		StagingBytes:   uint64(c.staging_bytes),
		BytesInFlight:  uint64(c.bytes_in_flight),
		FailedFiles:    uint64(c.failed_files),
	}
}

// Usage is ferry_usage. The memory and the threads that an instance uses for itself, and how often ferry_options.max_pinned_bytes, max_device_bytes and max_threads have refused a part or granted less than wanted. Memory that a call allocates and frees again (ferry_device_calibrate, probes of peer access) does not count.
type Usage struct {
	Threads         uint32 // that the instance has started and whose work is not complete
	PinnedBytes     uint64 // the sum of the next four
	StagingBytes    uint64 // staging buffers of all devices, and the records of staged copies
	TableBytes      uint64 // tables of batches
	ReadBufferBytes uint64 // of the route BUFFERED
	LinkBytes       uint64 // slots of the route RELAYED, and records of MULTILINK
	DeviceBytes     uint64 // of all devices: as for ferry_options.max_device_bytes, and memory kept for buffers
	DeferredBytes   uint64 // kept by deferred frees: ferry_deferred_info.bytes of FERRY_DEVICE_UNKNOWN
	PinnedRefused   uint64
	DeviceRefused   uint64
	ThreadsRefused  uint64
}

func newUsage(c *C.ferry_usage) Usage {
	return Usage{
		Threads:         uint32(c.threads),
		PinnedBytes:     uint64(c.pinned_bytes),
		StagingBytes:    uint64(c.staging_bytes),
		TableBytes:      uint64(c.table_bytes),
		ReadBufferBytes: uint64(c.read_buffer_bytes),
		LinkBytes:       uint64(c.link_bytes),
		DeviceBytes:     uint64(c.device_bytes),
		DeferredBytes:   uint64(c.deferred_bytes),
		PinnedRefused:   uint64(c.pinned_refused),
		DeviceRefused:   uint64(c.device_refused),
		ThreadsRefused:  uint64(c.threads_refused),
	}
}

// PoolDesc is ferry_pool_desc. How to create a pool.
type PoolDesc struct {
	Location    Location    // FERRY_LOCATION_*
	Index       int         // ordinal of the device, or number of the NUMA node; 0: the only one of FERRY_LOCATION_HOST
	HandleTypes HandleTypes // FERRY_HANDLE_* in ferry_device_info.pool_handle_types: how to share it; 0: not shared
	MaxSize     uint64      // bytes; 0: no limit of its own
}

func (s PoolDesc) c() C.ferry_pool_desc {
	return C.ferry_pool_desc{
		struct_size:  C.sizeof_ferry_pool_desc,
		location:     C.int32_t(s.Location),
		index:        number(s.Index),
		handle_types: C.uint32_t(s.HandleTypes),
		max_size:     C.uint64_t(s.MaxSize),
	}
}

// PoolInfo is ferry_pool_info. The facts of one pool.
type PoolInfo struct {
	Location    Location    // FERRY_LOCATION_*
	Index       int         // ordinal of the device, number of the NUMA node, or 0; -1: the location is unknown
	HandleTypes HandleTypes // FERRY_HANDLE_*; 0: none, or a pool that ferry did not create
	MaxSize     uint64      // bytes; 0: no limit of its own, or not created by ferry
	IsDefault   bool        // the default pool of its location
	IsImported  bool        // of another process. It serves only to import memory: it cannot allocate, trim, become current or report statistics or attributes
	CanShare    bool        // ferry_ipc_export_pool may succeed
}

func newPoolInfo(c *C.ferry_pool_info) PoolInfo {
	return PoolInfo{
		Location:    Location(c.location),
		Index:       int(c.index),
		HandleTypes: HandleTypes(c.handle_types),
		MaxSize:     uint64(c.max_size),
		IsDefault:   c.is_default != 0,
		IsImported:  c.is_imported != 0,
		CanShare:    c.can_share != 0,
	}
}

// PoolAttributes is ferry_pool_attributes. How a pool keeps and reuses memory.
type PoolAttributes struct {
	ReuseFollowEventDependencies bool   // reuse what another stream freed if an event orders the two streams
	ReuseOpportunistic           bool   // reuse what another stream freed if that free is already complete
	ReuseInternalDependencies    bool   // reuse what another stream freed, and make this stream wait for it
	ReleaseThreshold             uint64 // bytes kept when a stream, event or context is waited for; at first 0
}

func newPoolAttributes(c *C.ferry_pool_attributes) PoolAttributes {
	return PoolAttributes{
		ReuseFollowEventDependencies: c.reuse_follow_event_dependencies != 0,
		ReuseOpportunistic:           c.reuse_opportunistic != 0,
		ReuseInternalDependencies:    c.reuse_internal_dependencies != 0,
		ReleaseThreshold:             uint64(c.release_threshold),
	}
}

func (s PoolAttributes) c() C.ferry_pool_attributes {
	return C.ferry_pool_attributes{
		struct_size:                     C.sizeof_ferry_pool_attributes,
		reuse_follow_event_dependencies: flag(s.ReuseFollowEventDependencies),
		reuse_opportunistic:             flag(s.ReuseOpportunistic),
		reuse_internal_dependencies:     flag(s.ReuseInternalDependencies),
		release_threshold:               C.uint64_t(s.ReleaseThreshold),
	}
}

// IPCInfo is ferry_ipc_info. What a handle contains.
type IPCInfo struct {
	Kind        IPCKind     // FERRY_IPC_*
	Device      int         // its ordinal in this process; -1: not visible here, or not of a device
	HandleTypes HandleTypes // FERRY_HANDLE_*: with which a pool was exported
	Size        uint64      // of memory: bytes from the imported address on
	Process     uint64      // the exporter's process number, in its own namespace
	DeviceUUID  [16]byte
	IsOwn       bool // this process exported it
}

func newIPCInfo(c *C.ferry_ipc_info) IPCInfo {
	return IPCInfo{
		Kind:        IPCKind(c.kind),
		Device:      int(c.device),
		HandleTypes: HandleTypes(c.handle_types),
		Size:        uint64(c.size),
		Process:     uint64(c.process),
		DeviceUUID:  *(*[16]byte)(unsafe.Pointer(&c.device_uuid)),
		IsOwn:       c.is_own != 0,
	}
}

// ArrayDesc is ferry_array_desc. An array's shape. In a copy a layer is a slice, and so is a face of a cube: its number is z.
type ArrayDesc struct {
	Format   Format     // FERRY_FORMAT_*
	Channels uint32     // 1, 2 or 4, or the number that the format has
	Flags    ArrayFlags // FERRY_ARRAY_*
	Width    uint64     // texels
	Height   uint64     // texels; 0: a 1D array
	Depth    uint64     // texels, layers or faces; 0: a 1D or 2D array
}

func newArrayDesc(c *C.ferry_array_desc) ArrayDesc {
	return ArrayDesc{
		Format:   Format(c.format),
		Channels: uint32(c.channels),
		Flags:    ArrayFlags(c.flags),
		Width:    uint64(c.width),
		Height:   uint64(c.height),
		Depth:    uint64(c.depth),
	}
}

func (s ArrayDesc) c() C.ferry_array_desc {
	return C.ferry_array_desc{
		struct_size: C.sizeof_ferry_array_desc,
		format:      C.int32_t(s.Format),
		channels:    C.uint32_t(s.Channels),
		flags:       C.uint32_t(s.Flags),
		width:       C.uint64_t(s.Width),
		height:      C.uint64_t(s.Height),
		depth:       C.uint64_t(s.Depth),
	}
}

// HostOptions is ferry_host_options. How to allocate host memory. All zero but struct_size means the defaults.
type HostOptions struct {
	Flags    HostFlags // FERRY_HOST_*
	NUMA     NUMA      // FERRY_NUMA_*: a preference; a full node does not make the call fail
	Device   int       // of FERRY_NUMA_DEVICE
	NUMANode int       // of FERRY_NUMA_NODE
	Threads  uint32    // that touch the memory first, the caller included, 1 to 64; 0: as many as help
	MinSize  uint64    // of FERRY_HOST_ALLOW_SMALLER: the smallest size to accept; 0: any
}

func (s HostOptions) c() C.ferry_host_options {
	return C.ferry_host_options{
		struct_size: C.sizeof_ferry_host_options,
		flags:       C.uint32_t(s.Flags),
		numa:        C.int32_t(s.NUMA),
		device:      number(s.Device),
		numa_node:   number(s.NUMANode),
		threads:     C.uint32_t(s.Threads),
		min_size:    C.uint64_t(s.MinSize),
	}
}

// PinnedPoolOptions is ferry_pinned_pool_options. How to create a pinned pool. All zero but struct_size means: on any node, without a limit. With FERRY_NUMA_NODE or _DEVICE a pool's memory is on one node; create one pool for each node that matters.
type PinnedPoolOptions struct {
	Flags    HostFlags // FERRY_HOST_WRITE_COMBINED, _BY_DRIVER, _NOT_PORTABLE, _NOT_MAPPED
	NUMA     NUMA      // FERRY_NUMA_*
	Device   int       // of FERRY_NUMA_DEVICE
	NUMANode int       // of FERRY_NUMA_NODE
	MaxSize  uint64    // bytes that the pool may hold; 0: no limit
}

func (s PinnedPoolOptions) c() C.ferry_pinned_pool_options {
	return C.ferry_pinned_pool_options{
		struct_size: C.sizeof_ferry_pinned_pool_options,
		flags:       C.uint32_t(s.Flags),
		numa:        C.int32_t(s.NUMA),
		device:      number(s.Device),
		numa_node:   number(s.NUMANode),
		max_size:    C.uint64_t(s.MaxSize),
	}
}

// FileOptions is ferry_file_options.
type FileOptions struct {
	Flags      FileFlags  // FERRY_FILE_*, joined by |. Without READ and WRITE: READ, or the access of a descriptor
	Direct     FileDirect // FERRY_FILE_DIRECT_*
	MaxThreads uint32     // that transfer bytes of one copy at the same time; 0: no limit
}

func (s FileOptions) c() C.ferry_file_options {
	return C.ferry_file_options{
		struct_size: C.sizeof_ferry_file_options,
		flags:       C.uint32_t(s.Flags),
		direct:      C.int32_t(s.Direct),
		max_threads: C.uint32_t(s.MaxThreads),
	}
}

// FileInfo is ferry_file_info.
type FileInfo struct {
	Flags FileFlags // FERRY_FILE_READ, FERRY_FILE_WRITE or both
	Size  uint64    // bytes, now
}

func newFileInfo(c *C.ferry_file_info) FileInfo {
	return FileInfo{
		Flags: FileFlags(c.flags),
		Size:  uint64(c.size),
	}
}
