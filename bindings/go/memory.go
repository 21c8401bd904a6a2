package ferry

// #include "calls.h"
import "C"

import "unsafe"

// DeviceMemory is memory on a device, or managed memory.
type DeviceMemory struct {
	object
	device   int
	kind     C.int32_t
	size     uint64
	rowPitch uint64
	ordered  bool // allocated in stream order
	imported bool // from another process
}

// Alloc allocates bytes on a device. It may wait for the device.
func (f *Instance) Alloc(device int, size uint64) (*DeviceMemory, error) {
	m := &DeviceMemory{device: device, kind: C.FERRY_KIND_DEVICE, size: size}
	return create(f, m, &m.object, "device memory", func(info details) C.int32_t {
		return C.ferry_device_alloc(f.c, number(device), C.uint64_t(size), &m.handle, info)
	})
}

// AllocPitched allocates height rows of width bytes on a device, with a pitch that suits elements of elementSize bytes:
// 4, 8 or 16. Its Place has that pitch.
func (f *Instance) AllocPitched(device int, width, height uint64, elementSize uint32) (*DeviceMemory, error) {
	m := &DeviceMemory{device: device, kind: C.FERRY_KIND_DEVICE}
	return create(f, m, &m.object, "device memory", func(info details) C.int32_t {
		status := C.ferry_device_alloc_pitched(f.c, number(device), C.uint64_t(width), C.uint64_t(height),
			C.uint32_t(elementSize), &m.handle, (*C.uint64_t)(&m.rowPitch), info)
		m.size = m.rowPitch * height
		return status
	})
}

// AllocManaged allocates managed memory, whose pages the driver moves between host and devices.
func (f *Instance) AllocManaged(device int, size uint64) (*DeviceMemory, error) {
	m := &DeviceMemory{device: device, kind: C.FERRY_KIND_ANY, size: size}
	return create(f, m, &m.object, "managed memory", func(info details) C.int32_t {
		return C.ferry_managed_alloc(f.c, number(device), C.uint64_t(size), &m.handle, info)
	})
}

// Alloc allocates from the current pool of a device in the order of the stream, without waiting for the device.
func (s *Stream) Alloc(device int, size uint64) (*DeviceMemory, error) {
	m := &DeviceMemory{device: device, kind: C.FERRY_KIND_DEVICE, size: size, ordered: true}
	leave, err := s.instance.use(&s.object)
	if err != nil {
		return nil, err
	}
	defer leave()
	return create(s.instance, m, &m.object, "device memory", func(info details) C.int32_t {
		return C.go_ferry_device_alloc_async(s.instance.c, number(device), C.uint64_t(size), s.number(),
			&m.handle, info)
	})
}

// Place returns the beginning of the memory.
func (m *DeviceMemory) Place() Place {
	return Place{place{c: C.ferry_place{kind: m.kind, device: C.int32_t(m.device), address: m.handle,
		row_pitch: C.uint64_t(m.rowPitch)}, owner: &m.object, size: C.uint64_t(m.size)}}
}

func (m *DeviceMemory) end() *place { p := m.Place(); return &p.place }

// Device returns the number of the device.
func (m *DeviceMemory) Device() int { return m.device }

// Size returns the number of bytes.
func (m *DeviceMemory) Size() uint64 { return m.size }

// RowPitch returns the bytes from one row to the next, or 0 if the memory has no rows.
func (m *DeviceMemory) RowPitch() uint64 { return m.rowPitch }

// Address returns the address, for kernels.
func (m *DeviceMemory) Address() uint64 { return uint64(m.handle) }

// Free frees the memory. It waits for running work on the device.
func (m *DeviceMemory) Free() error {
	return m.object.end(func(info details) C.int32_t {
		return C.ferry_device_free(m.instance.c, m.handle, info)
	}, false)
}

// FreeOn frees the memory after the work enqueued on the stream has completed, and does not wait.
func (m *DeviceMemory) FreeOn(s *Stream) error {
	leave, err := m.instance.use(&s.object)
	if err != nil {
		return err
	}
	defer leave()
	return m.object.end(func(info details) C.int32_t {
		if m.imported {
			return C.go_ferry_ipc_close_memory_deferred(m.instance.c, m.handle, s.number(), info)
		}
		if m.ordered {
			return C.go_ferry_device_free_async(m.instance.c, m.handle, s.number(), info)
		}
		return C.go_ferry_device_free_deferred(m.instance.c, m.handle, s.number(), info)
	}, false)
}

// PinnedMemory is page-locked host memory outside of Go's heap.
type PinnedMemory struct {
	object
	size     uint64
	pageable bool
	pool     *PinnedPool
}

// AllocPinned allocates pinned host memory with undefined contents. Its size may be less than requested, and it may be
// pageable, only if the options allow this.
func (f *Instance) AllocPinned(size uint64, options HostOptions) (*PinnedMemory, error) {
	m := &PinnedMemory{}
	c := options.c()
	return create(f, m, &m.object, "pinned memory", func(info details) C.int32_t {
		block := C.ferry_host_block{struct_size: C.sizeof_ferry_host_block}
		status := C.ferry_host_alloc(f.c, C.uint64_t(size), &c, &block, info)
		m.handle, m.size = C.uint64_t(uintptr(block.address)), uint64(block.size)
		m.pageable = block.memory == C.FERRY_MEMORY_PAGEABLE
		return status
	})
}

// Place returns the beginning of the memory.
func (m *PinnedMemory) Place() Place {
	return Place{place{c: C.ferry_place{kind: C.FERRY_KIND_HOST, address: m.handle}, owner: &m.object,
		size: C.uint64_t(m.size)}}
}

func (m *PinnedMemory) end() *place { p := m.Place(); return &p.place }

// Size returns the number of bytes.
func (m *PinnedMemory) Size() uint64 { return m.size }

// IsPageable reports whether the memory is not pinned, which HostAllowPageable allows.
func (m *PinnedMemory) IsPageable() bool { return m.pageable }

// Bytes returns the memory, or nil once it was freed. The slice is not Go's memory: it must not be used after Free or
// FreeOn, nor read or written while a copy in flight writes or reads it.
func (m *PinnedMemory) Bytes() []byte { return As[byte](m) }

// As returns pinned memory as a slice of another type, with the rules of [PinnedMemory.Bytes]. Bytes behind the last
// whole element are left out.
func As[T Element](m *PinnedMemory) []T {
	if m.users.Load() < 0 {
		return nil
	}
	var element T
	return unsafe.Slice((*T)(m.pointer()), m.size/uint64(unsafe.Sizeof(element)))
}

func (m *PinnedMemory) pointer() unsafe.Pointer { return C.go_pointer(m.handle) }

// Free frees the memory. It waits for running work, except for a block of a pool, which no work may use any more.
func (m *PinnedMemory) Free() error {
	if m.pool != nil {
		return m.object.end(func(info details) C.int32_t {
			return C.ferry_pinned_pool_free(m.pool.c(), m.pointer(), info)
		}, false)
	}
	return m.object.end(func(info details) C.int32_t {
		return C.ferry_host_free(m.instance.c, m.pointer(), info)
	}, false)
}

// FreeOn frees the memory after the work enqueued on the stream has completed, and does not wait. The program must
// not use the memory any more.
func (m *PinnedMemory) FreeOn(s *Stream) error {
	leave, err := m.instance.use(&s.object)
	if err != nil {
		return err
	}
	defer leave()
	return m.object.end(func(info details) C.int32_t {
		if m.pool != nil {
			return C.go_ferry_pinned_pool_free_async(m.pool.c(), m.pointer(), s.number(), info)
		}
		return C.go_ferry_host_free_deferred(m.instance.c, m.pointer(), s.number(), info)
	}, false)
}

// PinnedPool allocates blocks of pinned memory in well below a microsecond.
type PinnedPool struct{ object }

// NewPinnedPool creates a pool.
func (f *Instance) NewPinnedPool(options PinnedPoolOptions) (*PinnedPool, error) {
	p := &PinnedPool{}
	c := options.c()
	return create(f, p, &p.object, "pinned pool", func(info details) C.int32_t {
		var pool *C.ferry_pinned_pool
		status := C.ferry_pinned_pool_create(f.c, &c, &pool, info)
		p.handle = C.uint64_t(uintptr(unsafe.Pointer(pool)))
		return status
	})
}

func (p *PinnedPool) c() *C.ferry_pinned_pool { return (*C.ferry_pinned_pool)(C.go_pointer(p.handle)) }

// Alloc allocates a block that the program may use immediately.
func (p *PinnedPool) Alloc(size uint64) (*PinnedMemory, error) {
	return p.alloc(size, nil, func(address *unsafe.Pointer, info details) C.int32_t {
		return C.ferry_pinned_pool_alloc(p.c(), C.uint64_t(size), address, info)
	})
}

// AllocOn allocates a block for later work on the stream. The program must wait for the stream before it uses the
// block itself.
func (p *PinnedPool) AllocOn(s *Stream, size uint64) (*PinnedMemory, error) {
	return p.alloc(size, s, func(address *unsafe.Pointer, info details) C.int32_t {
		return C.go_ferry_pinned_pool_alloc_async(p.c(), C.uint64_t(size), s.number(), address, info)
	})
}

func (p *PinnedPool) alloc(size uint64, s *Stream,
	function func(*unsafe.Pointer, *C.ferry_error_info) C.int32_t) (*PinnedMemory, error) {
	used := []*object{&p.object}
	if s != nil {
		used = append(used, &s.object)
	}
	leave, err := p.instance.use(used...)
	if err != nil {
		return nil, err
	}
	defer leave()
	m := &PinnedMemory{size: size, pool: p}
	return create(p.instance, m, &m.object, "pinned block", func(info details) C.int32_t {
		var address unsafe.Pointer
		status := function(&address, info)
		m.handle = C.uint64_t(uintptr(address))
		return status
	})
}

// Trim releases memory to the system until the pool holds at most keep bytes.
func (p *PinnedPool) Trim(keep uint64) error {
	return p.call(func(info details) C.int32_t { return C.ferry_pinned_pool_trim(p.c(), C.uint64_t(keep), info) })
}

// Stats returns the bytes of the pool.
func (p *PinnedPool) Stats() (PoolStats, error) {
	c := C.ferry_pool_stats{struct_size: C.sizeof_ferry_pool_stats}
	err := p.call(func(info details) C.int32_t { return C.ferry_pinned_pool_get_stats(p.c(), &c, info) })
	return newPoolStats(&c), err
}

// ResetStats resets both high-water marks to the current values.
func (p *PinnedPool) ResetStats() error {
	return p.call(func(info details) C.int32_t { return C.ferry_pinned_pool_reset_stats(p.c(), info) })
}

// Destroy destroys the pool, and waits for the streams on which blocks were freed. It fails with ErrorInUse while
// blocks are allocated.
func (p *PinnedPool) Destroy() error {
	return p.object.end(func(info details) C.int32_t { return C.ferry_pinned_pool_destroy(p.c(), info) }, true)
}
