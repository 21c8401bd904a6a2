package ferry

// #include "calls.h"
import "C"

import (
	"math"
	"math/bits"
	"unsafe"
)

// End is one end of a copy that waits: a [Memory], or a Go slice ([Slice]).
type End interface{ end() *place }

// Memory is memory outside of Go's heap, or a [File]. Asynchronous calls take it too.
type Memory interface {
	End
	Place() Place
}

// place is one end of a copy, with what must not end before the call and how far the memory reaches.
type place struct {
	c      C.ferry_place // its address is 0 for memory of Go
	owner  *object       // nil for memory of Go and of others
	memory *C.uint8_t    // of Go
	size   C.uint64_t    // bytes from the address on; not read for arrays
}

// Place is a place in memory outside of Go's heap, or in a file.
type Place struct{ place }

func (p Place) end() *place { return &p.place }

// Place returns p.
func (p Place) Place() Place { return p }

// Offset returns the place that begins so many bytes later.
func (p Place) Offset(bytes uint64) Place { p.place.skip(bytes); return p }

// Pitched returns the place with rows rowPitch bytes apart and slices sliceHeight rows apart; 0 means tight.
func (p Place) Pitched(rowPitch, sliceHeight uint64) Place {
	p.place.pitch(rowPitch, sliceHeight)
	return p
}

// At returns the place of a box that begins x bytes, y rows and z slices after the first.
func (p Place) At(x, y, z uint64) Place { p.place.at(x, y, z); return p }

// Layer returns the place with the layer or face of an array as first slice.
func (p Place) Layer(layer uint64) Place { p.place.c.z = C.uint64_t(layer); return p }

// GoPlace is a place in a Go slice. Only copies that wait take it.
type GoPlace struct{ place }

func (p GoPlace) end() *place { return &p.place }

// Pitched returns the place with rows rowPitch bytes apart and slices sliceHeight rows apart; 0 means tight.
func (p GoPlace) Pitched(rowPitch, sliceHeight uint64) GoPlace {
	p.place.pitch(rowPitch, sliceHeight)
	return p
}

// At returns the place of a box that begins x bytes, y rows and z slices after the first.
func (p GoPlace) At(x, y, z uint64) GoPlace { p.place.at(x, y, z); return p }

// Element is a type that memory shared with C may hold.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64 |
		~complex64 | ~complex128
}

// Slice makes a place of a Go slice, for copies that wait.
func Slice[T Element](slice []T) GoPlace {
	p := GoPlace{place{c: C.ferry_place{kind: C.FERRY_KIND_HOST}}}
	if len(slice) > 0 {
		p.memory = (*C.uint8_t)(unsafe.Pointer(&slice[0]))
		p.size = C.uint64_t(uintptr(len(slice)) * unsafe.Sizeof(slice[0]))
	}
	return p
}

// AddressPlace makes a place of memory that others allocated outside of Go's heap, such as C or the CUDA runtime. It
// must not be memory of Go, must have size bytes, and must live until work on it has ended. device is read for
// KindDevice.
func AddressPlace(kind Kind, device int, address uintptr, size uint64) Place {
	return Place{place{c: C.ferry_place{kind: C.int32_t(kind), device: number(device),
		address: C.uint64_t(address)}, size: C.uint64_t(size)}}
}

func (p *place) pitch(rowPitch, sliceHeight uint64) {
	p.c.row_pitch, p.c.slice_height = C.uint64_t(rowPitch), C.uint64_t(sliceHeight)
}

func (p *place) at(x, y, z uint64) { p.c.x, p.c.y, p.c.z = C.uint64_t(x), C.uint64_t(y), C.uint64_t(z) }

func (p *place) skip(bytes uint64) {
	skipped := C.uint64_t(bytes)
	if skipped > p.size {
		skipped = p.size // a copy from here on is out of bounds
	}
	p.c.address += skipped
	p.size -= skipped
}

// Extent is the size of a copy. Height and depth 0 count as 1.
type Extent struct {
	Width  uint64 // bytes
	Height uint64 // rows
	Depth  uint64 // slices
}

// Line is the extent of bytes in a row.
func Line(bytes uint64) Extent { return Extent{bytes, 1, 1} }

// Rect is the extent of a 2D box.
func Rect(width, height uint64) Extent { return Extent{width, height, 1} }

// Box is the extent of a 3D box.
func Box(width, height, depth uint64) Extent { return Extent{width, height, depth} }

// An item is what an error is about, if a call takes many.
type item struct {
	kind  C.int32_t // ITEM_*
	index C.uint64_t
}

// check finds a box that leaves the memory, which the library cannot know of Go's memory. Value and limit of the error
// are bytes from the beginning of the memory.
func (p *place) check(side C.int32_t, extent Extent, of item) error {
	if p.c.kind == C.FERRY_KIND_ARRAY || extent.Width == 0 {
		return nil
	}
	if end := p.reach(extent); end > uint64(p.size) || end == math.MaxUint64 {
		info := newInfo()
		info.side, info.field, info.item, info.index = side, C.FERRY_FIELD_WIDTH, of.kind, of.index
		info.numbers, info.value, info.limit = C.FERRY_NUMBERS_END, C.uint64_t(end), p.size
		return failure(C.FERRY_ERROR_OUT_OF_BOUNDS, &info)
	}
	return nil
}

// reach returns how many bytes from the address on a box needs, or the maximum if 64 bits cannot hold them.
func (p *place) reach(extent Extent) uint64 {
	pitch, sliceHeight := uint64(p.c.row_pitch), uint64(p.c.slice_height)
	height, depth := orOne(extent.Height), orOne(extent.Depth)
	if pitch == 0 {
		pitch = extent.Width
	}
	if sliceHeight == 0 {
		sliceHeight = height
	}
	overflow := false
	add := func(a, b uint64) uint64 {
		sum, carry := bits.Add64(a, b, 0)
		overflow = overflow || carry != 0
		return sum
	}
	multiply := func(a, b uint64) uint64 {
		high, low := bits.Mul64(a, b)
		overflow = overflow || high != 0
		return low
	}
	rows := add(multiply(add(uint64(p.c.z), depth-1), sliceHeight), add(uint64(p.c.y), height-1))
	end := add(multiply(rows, pitch), add(uint64(p.c.x), extent.Width))
	if overflow {
		return math.MaxUint64
	}
	return end
}

// line returns the address of a line of bytes, or its offset in a file. Its default pitches are the same as in
// ferry_place.
func (p *place) line(side C.int32_t, size uint64, of item) (C.uint64_t, error) {
	isWrittenFile := p.c.kind == C.FERRY_KIND_FILE && side == C.FERRY_SIDE_DESTINATION
	if p.c.kind == C.FERRY_KIND_ARRAY || isWrittenFile {
		info := newInfo()
		info.side, info.field, info.item, info.index = side, C.FERRY_FIELD_KIND, of.kind, of.index
		info.numbers, info.value = C.FERRY_NUMBERS_VALUE, C.uint64_t(p.c.kind)
		return 0, failure(C.FERRY_ERROR_OTHER_KIND, &info)
	}
	if size == 0 {
		return p.c.address, nil
	}
	if err := p.check(side, Line(size), of); err != nil {
		return 0, err
	}
	return p.origin(side, C.uint64_t(size), 1, of)
}

// begin returns the address at which the place begins. It must not depend on the extent of a copy.
func (p *place) begin() (C.uint64_t, error) { return p.origin(C.FERRY_SIDE_DESCRIPTOR, 0, 0, item{}) }

// origin returns the address of the first byte. The place has these pitches if it has none of its own; rows and slices
// that the box does not fit are an error, as in a copy.
func (p *place) origin(side C.int32_t, pitch, sliceHeight C.uint64_t, of item) (C.uint64_t, error) {
	rowEnd, sliceEnd := p.c.x+pitch, p.c.y+1
	hasSlices := p.c.z > 0 || p.c.slice_height > 0
	hasRows := p.c.z > 0 || p.c.y > 0 || p.c.row_pitch > 0
	if p.c.row_pitch > 0 {
		pitch = p.c.row_pitch
	}
	if p.c.slice_height > 0 {
		sliceHeight = p.c.slice_height
	}
	info := newInfo()
	info.side, info.item, info.index, info.numbers = side, of.kind, of.index, C.FERRY_NUMBERS_AT_LEAST
	if hasRows && (pitch < rowEnd || pitch == 0) {
		info.field, info.value, info.limit = C.FERRY_FIELD_ROW_PITCH, p.c.row_pitch, rowEnd
	} else if hasSlices && sliceHeight < sliceEnd {
		info.field, info.value, info.limit = C.FERRY_FIELD_SLICE_HEIGHT, p.c.slice_height, sliceEnd
	} else {
		return p.c.address + (p.c.z*sliceHeight+p.c.y)*pitch + p.c.x, nil
	}
	return 0, failure(C.FERRY_ERROR_PITCH, &info)
}

func orOne(extent uint64) uint64 {
	if extent == 0 {
		return 1
	}
	return extent
}
