package ferry

// #include "calls.h"
import "C"

// Version returns the version of the loaded library: major * 10000 + minor * 100 + patch.
func Version() int { return int(C.ferry_version()) }

// Error returns the meaning of the status and its name. A Status is the error that errors.Is finds in an [Error].
func (s Status) Error() string { return "ferry: " + s.Text() + " (" + s.Name() + ")" }

// Name returns the constant's name, such as "FERRY_ERROR_PITCH" or "CUDA_ERROR_INVALID_VALUE".
func (s Status) Name() string { return C.GoString(C.ferry_status_name(C.int32_t(s))) }

// Text returns the meaning of the status in a few words.
func (s Status) Text() string { return C.GoString(C.ferry_status_text(C.int32_t(s))) }

// Traits returns how to react to the status: StatusContextDead, StatusRetry or 0.
func (s Status) Traits() Traits { return Traits(C.ferry_status_traits(C.int32_t(s))) }

func (o Obstacle) String() string { return C.GoString(C.ferry_obstacle_text(C.int32_t(o))) }

// Error is the failure of a call. errors.Is compares it with its Status:
//
//	if errors.Is(err, ferry.ErrorOutOfBounds) { ... }
type Error struct {
	Status Status
	Side   Side   // which end of a copy
	Field  Field  // which field of it
	Item   Item   // what Index counts
	Index  uint64 // of the copy or piece in a batch, or of another item
	Value  uint64 // the offending value
	Limit  uint64 // the bound that it missed

	Numbers        Numbers // what Value and Limit are
	DriverFunction string  // the driver function that failed, such as "cuMemAlloc", or empty

	line string
}

// Error returns the line of ferry_error_format.
func (e *Error) Error() string { return "ferry: " + e.line }

func (e *Error) Unwrap() error { return e.Status }

// FileError returns the system's error number or FileEnded, if Status is ErrorFile. Limit is then the offset of the
// first byte that was not transferred. Else it returns 0.
func (e *Error) FileError() int {
	if e.Status != ErrorFile {
		return 0
	}
	return int(int32(e.Value))
}

// details is where a function of the library describes its error.
type details = *C.ferry_error_info

func newInfo() C.ferry_error_info { return C.ferry_error_info{struct_size: C.sizeof_ferry_error_info} }

// call runs a function of the library and makes an error of its status and details. It returns nil after a success.
func call(function func(info details) C.int32_t) error {
	info := newInfo()
	if status := function(&info); status != 0 {
		return failure(status, &info)
	}
	return nil
}

// failure makes an error of a status and its details.
func failure(status C.int32_t, info details) error {
	info.status = status
	line := text(func(buffer *C.char, size C.uint64_t) C.uint64_t { return C.ferry_error_format(info, buffer, size) })
	return &Error{Status(status), Side(info.side), Field(info.field), Item(info.item), uint64(info.index),
		uint64(info.value), uint64(info.limit), Numbers(info.numbers), C.GoString(info.driver_function), line}
}

// text reads a line from a function that writes to a buffer and returns the length of the whole line.
func text(write func(buffer *C.char, size C.uint64_t) C.uint64_t) string {
	buffer := make([]C.char, write(nil, 0)+1)
	write(&buffer[0], C.uint64_t(len(buffer)))
	return C.GoString(&buffer[0])
}
