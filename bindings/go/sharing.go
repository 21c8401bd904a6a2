package ferry

// #include "calls.h"
import "C"

import "unsafe"

// IPCHandle names an object of a process for another one, which imports it. Send its bytes by any means.
type IPCHandle [IPCHandleSize]byte

func (h *IPCHandle) c() *C.ferry_ipc_handle { return (*C.ferry_ipc_handle)(unsafe.Pointer(h)) }

// IPCInfo reports what a handle names, without importing it.
func (f *Instance) IPCInfo(handle IPCHandle) (IPCInfo, error) {
	c := C.ferry_ipc_info{struct_size: C.sizeof_ferry_ipc_info}
	err := f.call(func(info details) C.int32_t { return C.ferry_ipc_get_info(f.c, handle.c(), &c, info) })
	return newIPCInfo(&c), err
}

// ExportMemory makes a handle for size bytes of device memory, or for all that follow if size is 0. The memory must
// live until the importer has freed it.
func (f *Instance) ExportMemory(memory Memory, size uint64) (handle IPCHandle, err error) {
	p := memory.end()
	leave, err := f.use(p.owner)
	if err != nil {
		return handle, err
	}
	defer leave()
	address, err := p.begin()
	if err != nil {
		return handle, err
	}
	err = f.call(func(info details) C.int32_t {
		return C.ferry_ipc_export_memory(f.c, address, C.uint64_t(size), handle.c(), info)
	})
	return handle, err
}

// ImportMemory maps memory of another process. It ends by FreeOn.
func (f *Instance) ImportMemory(handle IPCHandle) (*DeviceMemory, error) {
	about, err := f.IPCInfo(handle)
	if err != nil {
		return nil, err
	}
	m := &DeviceMemory{device: about.Device, kind: C.FERRY_KIND_DEVICE, size: about.Size, imported: true}
	return create(f, m, &m.object, "imported memory", func(info details) C.int32_t {
		return C.ferry_ipc_import_memory(f.c, handle.c(), &m.handle, info)
	})
}

// Export makes a handle for a pool that was created with a handle type. osHandle is a file descriptor or HANDLE that
// must be sent too, and closed; -1 for HandleFabric.
func (p *Pool) Export(handleType HandleTypes) (handle IPCHandle, osHandle int64, err error) {
	c := C.int64_t(-1)
	err = p.call(func(info details) C.int32_t {
		return C.ferry_ipc_export_pool(p.instance.c, p.c(), C.uint32_t(handleType), handle.c(), &c, info)
	})
	return handle, int64(c), err
}

// ImportPool imports a pool of another process, which serves to import memory.
func (f *Instance) ImportPool(handle IPCHandle, osHandle int64) (*Pool, error) {
	p := &Pool{imported: true}
	return create(f, p, &p.object, "imported pool", func(info details) C.int32_t {
		var pool *C.struct_CUmemPoolHandle_st
		status := C.ferry_ipc_import_pool(f.c, handle.c(), C.int64_t(osHandle), &pool, info)
		p.handle = C.uint64_t(uintptr(unsafe.Pointer(pool)))
		return status
	})
}

// Export makes a handle for an event created with EventInterprocess and EventDisableTiming.
func (e *Event) Export() (handle IPCHandle, err error) {
	err = e.call(func(info details) C.int32_t {
		return C.ferry_ipc_export_event(e.instance.c, e.c(), handle.c(), info)
	})
	return handle, err
}

// ImportEvent imports an event of another process. If that process dies before the record, the event never completes.
func (f *Instance) ImportEvent(handle IPCHandle) (*Event, error) {
	e := &Event{imported: true}
	return create(f, e, &e.object, "imported event", func(info details) C.int32_t {
		var event *C.struct_CUevent_st
		status := C.ferry_ipc_import_event(f.c, handle.c(), &event, info)
		e.handle = C.uint64_t(uintptr(unsafe.Pointer(event)))
		return status
	})
}
