// Package ferry copies between host memory, GPU memory, CUDA arrays and files. It wraps the C library of the same name, whose
// headers are the manual: the rules of a C function apply to the method that calls it.
//
// # Memory
//
// C code may use Go's memory only until a call returns. The types keep this rule: [Slice] makes an [End] of a Go slice,
// and only calls that wait for their copy take an End. Streams, batches and fills take a [Memory], which is memory
// outside of Go's heap: [DeviceMemory], [PinnedMemory], [Array], [File] or a [Place] in one of these. A copy in flight can
// therefore never access memory that the garbage collector has freed.
//
// The package checks that a box is within its slice or allocation before C sees an address. It cannot check three
// things. The slices of [PinnedMemory.Bytes] and [As] must not be used after the memory was freed. A block of a
// [PinnedPool] must not be freed by Free while a copy uses it. Addresses and handles from elsewhere must be valid:
// [AddressPlace], [Instance.ForeignStream] and [Instance.ForeignArray].
//
// Finalizers free nothing, because a free waits for running work. Every object has a Free, Destroy or Release.
// While objects are open, [Instance.Close] fails and names them ([OpenError]); [Instance.OpenObjects] counts
// them. A call on an object that has ended returns [ErrClosed]. Ending an object that another goroutine's call is using
// returns [ErrBusy] and does nothing. Levels, planes and the current pool end with the object that they belong to.
//
// # Threads
//
// Any goroutine may call anything, except that one [Batch] or [Pieces] belongs to one goroutine at a time. A call that
// waits, such as [Instance.Copy], [Stream.Synchronize] or a Free, occupies an operating system thread meanwhile.
// [Stream.Done] occupies none.
//
// CUDA's current context belongs to a thread, and goroutines change their threads. So calls take a [Stream] or the
// number of a device, and the package has no calls for the current context. [Instance.LegacyStream] and
// [Instance.PerThreadStream] depend on the thread: use them only after runtime.LockOSThread in programs that make
// contexts current by other means, and the second one always.
package ferry

// #cgo pkg-config: ferry
// #include "calls.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime/cgo"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

//go:generate go run ./generate

var (
	// ErrClosed is returned by calls on an instance or an object that has ended.
	ErrClosed = errors.New("ferry: the object has ended")
	// ErrOtherDriver is returned by calls on objects of two instances, one of which is on the software driver.
	ErrOtherDriver = errors.New("ferry: the object belongs to another driver")
	// ErrBusy is returned when a call would end an object that another call is using.
	ErrBusy = errors.New("ferry: another call is using the object")
)

// Options configures an instance; the zero value is the default: the NVIDIA driver or an error. The fields are
// the fields of ferry_options and, after Software, the fields of ferry_software_options.
type Options struct {
	Driver          Driver
	Checks          Checks
	SoftwareDevices uint32
	SoftwareQueues  uint32
	SoftwareMemory  uint64
	// Log receives lines of the log, on the goroutine that calls the package. It must neither call the package nor
	// panic.
	Log             func(level LogLevel, message string)
	RegisterChunk   uint64
	CopyOptions     []CopyOption // of calls that have none
	Kernels         Kernels
	Staging         Staging
	StagingThreads  uint32
	StagingCPUs     []int32
	StagingPriority StagingPriority
	StagingNiceness int // of StagingPriorityNiceness
	StagingNUMA     NUMA
	StagingNUMANode int
	StagingBytes    uint64
	DeferredBytes   uint64
	MaxPinnedBytes  uint64
	MaxDeviceBytes  uint64
	MaxThreads      uint32
	SoftwareLinks   SoftwareLinks
}

// Instance is one opened library.
type Instance struct {
	c      *C.ferry_instance
	driver Driver // in use
	log    cgo.Handle
	users  atomic.Int64 // running calls and open objects; -1: closed
	mutex  sync.Mutex
	open   map[string]int
}

// Open opens an instance. Several may be open at the same time.
func Open(options Options) (*Instance, error) {
	c := C.ferry_options{
		struct_size:       C.sizeof_ferry_options,
		driver:            C.int32_t(options.Driver),
		checks:            C.int32_t(options.Checks),
		register_chunk:    C.uint64_t(options.RegisterChunk),
		kernels:           C.int32_t(options.Kernels),
		staging:           C.int32_t(options.Staging),
		staging_threads:   C.uint32_t(options.StagingThreads),
		staging_cpu_count: C.uint32_t(number(len(options.StagingCPUs))),
		staging_priority:  C.int32_t(options.StagingPriority),
		staging_niceness:  number(options.StagingNiceness),
		staging_numa:      C.int32_t(options.StagingNUMA),
		staging_numa_node: number(options.StagingNUMANode),
		staging_bytes:     C.uint64_t(options.StagingBytes),
		deferred_bytes:    C.uint64_t(options.DeferredBytes),
		max_pinned_bytes:  C.uint64_t(options.MaxPinnedBytes),
		max_device_bytes:  C.uint64_t(options.MaxDeviceBytes),
		max_threads:       C.uint32_t(options.MaxThreads),
	}
	software := C.ferry_software_options{
		struct_size: C.sizeof_ferry_software_options,
		devices:     C.uint32_t(options.SoftwareDevices),
		queues:      C.uint32_t(options.SoftwareQueues),
		links:       C.int32_t(options.SoftwareLinks),
		memory:      C.uint64_t(options.SoftwareMemory),
	}
	var cpus *C.int32_t
	if len(options.StagingCPUs) > 0 {
		cpus = (*C.int32_t)(&options.StagingCPUs[0])
	}
	f := &Instance{open: map[string]int{}}
	if options.Log != nil {
		f.log = cgo.NewHandle(options.Log)
	}
	err := call(func(info details) C.int32_t {
		return C.go_open(&c, &software, cpus, how(options.CopyOptions), C.uintptr_t(f.log), &f.c, info)
	})
	if err != nil {
		f.deleteLog()
		return nil, err
	}
	report, err := f.Report()
	f.driver = report.Driver
	return f, err
}

//export goFerryLog
func goFerryLog(log C.uintptr_t, level C.int32_t, message *C.char) {
	cgo.Handle(log).Value().(func(LogLevel, string))(LogLevel(level), C.GoString(message))
}

func (f *Instance) deleteLog() {
	if f.log != 0 {
		f.log.Delete()
	}
}

// OpenError is returned by [Instance.Close] while objects are open or calls are running.
type OpenError struct {
	Objects map[string]int // how many of each kind are open
}

func (e *OpenError) Error() string {
	var kinds []string
	for kind, count := range e.Objects {
		kinds = append(kinds, fmt.Sprintf("%d %s", count, kind))
	}
	if len(kinds) == 0 {
		return "ferry: cannot close: calls are running"
	}
	sort.Strings(kinds)
	return "ferry: cannot close: still open: " + strings.Join(kinds, ", ")
}

// OpenObjects returns how many objects of each kind are open. At the end of a program, these are its leaks.
func (f *Instance) OpenObjects() map[string]int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	result := map[string]int{}
	for kind, count := range f.open {
		if count > 0 {
			result[kind] = count
		}
	}
	return result
}

// Close closes the instance. It does nothing and returns an [OpenError] while objects are open or calls are running.
// It may wait for copies in flight and for deferred frees.
func (f *Instance) Close() error {
	if !f.users.CompareAndSwap(0, -1) {
		if f.users.Load() < 0 {
			return ErrClosed
		}
		return &OpenError{f.OpenObjects()}
	}
	C.ferry_close(f.c)
	f.deleteLog()
	return nil
}

// enter keeps the instance open until leave.
func (f *Instance) enter() error { return enter(&f.users) }

func (f *Instance) leave() { f.users.Add(-1) }

func enter(users *atomic.Int64) error {
	for {
		count := users.Load()
		if count < 0 {
			return ErrClosed
		}
		if users.CompareAndSwap(count, count+1) {
			return nil
		}
	}
}

// call runs a function of the library with the instance kept open.
func (f *Instance) call(function func(info details) C.int32_t) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	return call(function)
}

// object is an object that must end before its instance.
type object struct {
	instance *Instance
	kind     string
	handle   C.uint64_t   // an address or a pointer to an object of C
	users    atomic.Int64 // running calls; -1: ended
	foreign  bool         // not ended by this package
	owner    *object      // the object that contains this object, or nil
}

func (f *Instance) count(kind string, change int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.open[kind] += change
}

// use keeps objects from being ended until leave is called. Objects that are nil are skipped.
func (f *Instance) use(objects ...*object) (leave func(), err error) {
	used := 0
	leave = func() {
		for _, o := range objects[:used] {
			if o != nil {
				o.counter().Add(-1)
			}
		}
	}
	for _, o := range objects {
		if o != nil {
			err := enter(o.counter())
			if err == nil && o.instance.driver != f.driver {
				o.counter().Add(-1)
				err = ErrOtherDriver
			}
			if err != nil {
				leave()
				return nil, err
			}
		}
		used++
	}
	return leave, nil
}

// counter counts the calls that use the object. An object keeps its instance open, a foreign one does not. A part of an
// object ends with it.
func (o *object) counter() *atomic.Int64 {
	if o.owner != nil {
		return o.owner.counter()
	}
	if o.foreign {
		return &o.instance.users
	}
	return &o.users
}

// call runs a function of the library with the object and others kept from being ended.
func (o *object) call(function func(info details) C.int32_t, others ...*object) error {
	leave, err := o.instance.use(o)
	if err != nil {
		return err
	}
	defer leave()
	leaveOthers, err := o.instance.use(others...)
	if err != nil {
		return err
	}
	defer leaveOthers()
	return call(function)
}

// create makes an object by a function of the library, which sets the object's handle.
func create[T any](f *Instance, result *T, o *object, kind string,
	function func(info details) C.int32_t) (*T, error) {
	o.instance, o.kind = f, kind
	err := f.call(func(info details) C.int32_t {
		status := function(info)
		if status == 0 {
			f.users.Add(1)
			f.count(kind, 1)
		}
		return status
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// end ends the object by a function of the library. After ferry's own errors the object is unchanged. After errors of
// the driver it is gone if its context is lost or the function reports that.
func (o *object) end(function func(info details) C.int32_t, goneAfterDriverErrors bool) error {
	if o.foreign || !o.users.CompareAndSwap(0, -1) {
		if o.foreign || o.users.Load() < 0 {
			return ErrClosed
		}
		return ErrBusy
	}
	err := call(function)
	if failed, _ := err.(*Error); failed != nil && !(failed.Status <= StatusDriverBase && goneAfterDriverErrors) &&
		failed.Status.Traits()&StatusContextDead == 0 {
		o.users.Store(0)
		return err
	}
	o.instance.count(o.kind, -1)
	o.instance.leave()
	return err
}
