package ferry

// #include "calls.h"
import "C"

import (
	"math"
	"sync"
	"unsafe"
)

// Pool is one of the driver's pools, from which memory is allocated in the order of streams.
type Pool struct {
	object
	imported bool // from another process
}

// pools has the pools of this process that the package created. A pool that is current ends with the one that created
// it.
var pools = struct {
	sync.Mutex
	created map[C.uint64_t]*Pool
}{created: map[C.uint64_t]*Pool{}}

func (f *Instance) foreignPool(c *C.struct_CUmemPoolHandle_st) *Pool {
	return &Pool{object: object{instance: f, handle: C.uint64_t(uintptr(unsafe.Pointer(c))), foreign: true}}
}

func (p *Pool) c() *C.struct_CUmemPoolHandle_st {
	return (*C.struct_CUmemPoolHandle_st)(C.go_pointer(p.handle))
}

// number converts a number to C's type. A number out of range becomes the nearest number of the type, which is the
// number of no device and no node.
func number(value int) C.int32_t {
	if value > math.MaxInt32 {
		return math.MaxInt32
	}
	if value < math.MinInt32 {
		return math.MinInt32
	}
	return C.int32_t(value)
}

func flag(set bool) C.int32_t {
	if set {
		return 1
	}
	return 0
}

// NewPool creates a pool.
func (f *Instance) NewPool(description PoolDesc) (*Pool, error) {
	p := &Pool{}
	c := description.c()
	pools.Lock()
	defer pools.Unlock()
	return create(f, p, &p.object, "pool", func(info details) C.int32_t {
		var pool *C.struct_CUmemPoolHandle_st
		status := C.ferry_pool_create(f.c, &c, &pool, info)
		p.handle = C.uint64_t(uintptr(unsafe.Pointer(pool)))
		if status == 0 {
			pools.created[p.handle] = p
		}
		return status
	})
}

// DefaultPool returns the default pool of a location, which cannot be destroyed.
func (f *Instance) DefaultPool(location Location, index int) (*Pool, error) {
	var pool *C.struct_CUmemPoolHandle_st
	err := f.call(func(info details) C.int32_t {
		return C.ferry_pool_get_default(f.c, C.int32_t(location), number(index), &pool, info)
	})
	return f.foreignPool(pool), err
}

// CurrentPool returns the pool of a location that Stream.Alloc takes. The pool still belongs to its creator.
func (f *Instance) CurrentPool(location Location, index int) (*Pool, error) {
	pools.Lock()
	defer pools.Unlock()
	var pool *C.struct_CUmemPoolHandle_st
	err := f.call(func(info details) C.int32_t {
		return C.ferry_pool_get_current(f.c, C.int32_t(location), number(index), &pool, info)
	})
	p := f.foreignPool(pool)
	if created := pools.created[p.handle]; created != nil {
		p.owner = &created.object
	}
	return p, err
}

// SetCurrentPool makes the pool the current one of a location, for the whole process.
func (f *Instance) SetCurrentPool(location Location, index int, p *Pool) error {
	leave, err := f.use(&p.object)
	if err != nil {
		return err
	}
	defer leave()
	return f.call(func(info details) C.int32_t {
		return C.ferry_pool_set_current(f.c, C.int32_t(location), number(index), p.c(), info)
	})
}

// AllocFrom allocates from a pool in the order of the stream.
func (s *Stream) AllocFrom(p *Pool, size uint64) (*DeviceMemory, error) {
	leave, err := s.instance.use(&s.object, &p.object)
	if err != nil {
		return nil, err
	}
	defer leave()
	pool, err := p.Info()
	if err != nil {
		return nil, err
	}
	m := &DeviceMemory{kind: C.FERRY_KIND_ANY, size: size, ordered: true}
	if pool.Location == LocationDevice {
		m.kind, m.device = C.FERRY_KIND_DEVICE, pool.Index
	}
	return create(s.instance, m, &m.object, "device memory", func(info details) C.int32_t {
		return C.go_ferry_pool_alloc_async(s.instance.c, p.c(), C.uint64_t(size), s.number(), &m.handle, info)
	})
}

// Info returns the facts of the pool.
func (p *Pool) Info() (PoolInfo, error) {
	c := C.ferry_pool_info{struct_size: C.sizeof_ferry_pool_info}
	err := p.call(func(info details) C.int32_t { return C.ferry_pool_get_info(p.instance.c, p.c(), &c, info) })
	return newPoolInfo(&c), err
}

// Attributes reports how the pool keeps and reuses memory.
func (p *Pool) Attributes() (PoolAttributes, error) {
	c := C.ferry_pool_attributes{struct_size: C.sizeof_ferry_pool_attributes}
	err := p.call(func(info details) C.int32_t { return C.ferry_pool_get_attributes(p.instance.c, p.c(), &c, info) })
	return newPoolAttributes(&c), err
}

// SetAttributes sets all attributes; to change some, get all of them first.
func (p *Pool) SetAttributes(attributes PoolAttributes) error {
	c := attributes.c()
	return p.call(func(info details) C.int32_t { return C.ferry_pool_set_attributes(p.instance.c, p.c(), &c, info) })
}

// Stats returns the bytes of the pool.
func (p *Pool) Stats() (PoolStats, error) {
	c := C.ferry_pool_stats{struct_size: C.sizeof_ferry_pool_stats}
	err := p.call(func(info details) C.int32_t { return C.ferry_pool_get_stats(p.instance.c, p.c(), &c, info) })
	return newPoolStats(&c), err
}

// ResetStats resets both high-water marks to the current values.
func (p *Pool) ResetStats() error {
	return p.call(func(info details) C.int32_t { return C.ferry_pool_reset_stats(p.instance.c, p.c(), info) })
}

// Trim releases memory until the pool holds at most keep bytes. It may wait for the device.
func (p *Pool) Trim(keep uint64) error {
	return p.call(func(info details) C.int32_t {
		return C.ferry_pool_trim(p.instance.c, p.c(), C.uint64_t(keep), info)
	})
}

// SetAccess gives a device access to all memory of the pool, or takes it away.
func (p *Pool) SetAccess(device int, access Access) error {
	return p.call(func(info details) C.int32_t {
		return C.ferry_pool_set_access(p.instance.c, p.c(), number(device), C.int32_t(access), info)
	})
}

// Access returns the access of a device to memory of the pool.
func (p *Pool) Access(device int) (Access, error) {
	var access C.int32_t
	err := p.call(func(info details) C.int32_t {
		return C.ferry_pool_get_access(p.instance.c, p.c(), number(device), &access, info)
	})
	return Access(access), err
}

// Destroy destroys the pool. It fails with ErrorInUse while memory from it is allocated, and may wait.
func (p *Pool) Destroy() error {
	return p.end(func(info details) C.int32_t {
		if p.imported {
			return C.ferry_ipc_close_pool(p.instance.c, p.c(), info)
		}
		pools.Lock()
		defer pools.Unlock()
		status := C.ferry_pool_destroy(p.instance.c, p.c(), info)
		if status == 0 {
			delete(pools.created, p.handle)
		}
		return status
	}, false)
}
