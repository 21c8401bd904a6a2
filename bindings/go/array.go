package ferry

// #include "calls.h"
import "C"

import "unsafe"

// Array is a CUDA array, a level of a mipmapped array or a plane of an array.
type Array struct {
	object
	device int
}

// NewArray creates an array on a device.
func (f *Instance) NewArray(device int, shape ArrayDesc) (*Array, error) {
	a := &Array{device: device}
	c := shape.c()
	return create(f, a, &a.object, "array", func(info details) C.int32_t {
		var array *C.struct_CUarray_st
		status := C.ferry_array_create(f.c, number(device), &c, &array, info)
		a.handle = C.uint64_t(uintptr(unsafe.Pointer(array)))
		return status
	})
}

// ForeignArray makes an Array of a CUarray that others created, and destroy.
func (f *Instance) ForeignArray(device int, handle uintptr) *Array {
	return &Array{object{instance: f, handle: C.uint64_t(handle), foreign: true}, device}
}

func (a *Array) c() *C.struct_CUarray_st { return (*C.struct_CUarray_st)(C.go_pointer(a.handle)) }

// Handle returns the CUarray.
func (a *Array) Handle() uintptr { return uintptr(a.handle) }

// Place returns the first element of the array.
func (a *Array) Place() Place {
	return Place{place{c: C.ferry_place{kind: C.FERRY_KIND_ARRAY, device: C.int32_t(a.device), array: a.c()},
		owner: &a.object}}
}

func (a *Array) end() *place { p := a.Place(); return &p.place }

// Info returns the shape of the array and the bytes of an element, or 0 for planar formats.
func (a *Array) Info() (shape ArrayDesc, elementSize uint32, err error) {
	c := C.ferry_array_desc{struct_size: C.sizeof_ferry_array_desc}
	err = a.call(func(info details) C.int32_t {
		return C.ferry_array_get_info(a.instance.c, a.c(), &c, (*C.uint32_t)(&elementSize), info)
	})
	return newArrayDesc(&c), elementSize, err
}

// Plane returns a plane of an array in a planar format. It ends with the array.
func (a *Array) Plane(plane uint32) (*Array, error) {
	var array *C.struct_CUarray_st
	err := a.call(func(info details) C.int32_t {
		return C.ferry_array_get_plane(a.instance.c, a.c(), C.uint32_t(plane), &array, info)
	})
	return a.part(a.device, array), err
}

// part makes an Array of one that lives in the object and ends with it.
func (o *object) part(device int, array *C.struct_CUarray_st) *Array {
	a := o.instance.ForeignArray(device, uintptr(unsafe.Pointer(array)))
	a.owner = o
	return a
}

// Destroy destroys the array. It waits for running work on the device. Levels and planes end with their owner instead.
func (a *Array) Destroy() error {
	return a.object.end(func(info details) C.int32_t { return C.ferry_array_destroy(a.instance.c, a.c(), info) }, false)
}

// DestroyOn destroys the array after the work enqueued on the stream has completed, and does not wait.
func (a *Array) DestroyOn(s *Stream) error {
	leave, err := a.instance.use(&s.object)
	if err != nil {
		return err
	}
	defer leave()
	return a.object.end(func(info details) C.int32_t {
		return C.go_ferry_array_destroy_deferred(a.instance.c, a.c(), s.number(), info)
	}, false)
}

// MipmappedArray is an array with levels of halved sizes.
type MipmappedArray struct {
	object
	device int
}

// NewMipmappedArray creates a mipmapped array; 0 levels mean as many as the shape has.
func (f *Instance) NewMipmappedArray(device int, shape ArrayDesc, levels uint32) (*MipmappedArray, error) {
	m := &MipmappedArray{device: device}
	c := shape.c()
	return create(f, m, &m.object, "mipmapped array", func(info details) C.int32_t {
		var mipmapped *C.struct_CUmipmappedArray_st
		status := C.ferry_mipmapped_array_create(f.c, number(device), &c, C.uint32_t(levels), &mipmapped, info)
		m.handle = C.uint64_t(uintptr(unsafe.Pointer(mipmapped)))
		return status
	})
}

func (m *MipmappedArray) c() *C.struct_CUmipmappedArray_st {
	return (*C.struct_CUmipmappedArray_st)(C.go_pointer(m.handle))
}

// Level returns a level as an array, which ends with the mipmapped array. Level 0 is the largest.
func (m *MipmappedArray) Level(level uint32) (*Array, error) {
	var array *C.struct_CUarray_st
	err := m.call(func(info details) C.int32_t {
		return C.ferry_mipmapped_array_get_level(m.instance.c, m.c(), C.uint32_t(level), &array, info)
	})
	return m.part(m.device, array), err
}

// Destroy destroys the array with its levels. It waits for running work on the device.
func (m *MipmappedArray) Destroy() error {
	return m.end(func(info details) C.int32_t {
		return C.ferry_mipmapped_array_destroy(m.instance.c, m.c(), info)
	}, false)
}

// DestroyOn destroys the array with its levels after the work enqueued on the stream has completed.
func (m *MipmappedArray) DestroyOn(s *Stream) error {
	leave, err := m.instance.use(&s.object)
	if err != nil {
		return err
	}
	defer leave()
	return m.end(func(info details) C.int32_t {
		return C.go_ferry_mipmapped_array_destroy_deferred(m.instance.c, m.c(), s.number(), info)
	}, false)
}
