package ferry

// #include "calls.h"
import "C"

import (
	"math"
	"os"
	"syscall"
	"unsafe"
)

// File is an open file. One end of a copy may be a file if the other end is device memory or an array:
//
//	ticket, err := stream.CopyTicket(memory, file.Place().Offset(4096), ferry.Line(memory.Size()))
//
// Copies on a stream require a ticket, which reports failures of the file: the work of the stream goes on after such a
// failure.
type File struct{ object }

// OpenFile opens the file at a path. The zero value of the options opens it to read.
func (f *Instance) OpenFile(path string, options FileOptions) (*File, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	c := options.c()
	return f.newFile(func(file **C.ferry_file, info details) C.int32_t {
		return C.ferry_file_open(f.c, (*C.char)(unsafe.Pointer(name)), &c, file, info)
	})
}

// OpenDescriptor opens a file of the program. The zero value of the options opens it with the same access. The program may
// close its file, whose position never moves.
func (f *Instance) OpenDescriptor(file *os.File, options FileOptions) (*File, error) {
	connection, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := options.c()
	var opened *File
	failed := connection.Control(func(descriptor uintptr) {
		opened, err = f.newFile(func(file **C.ferry_file, info details) C.int32_t {
			return C.ferry_file_open_descriptor(f.c, C.int64_t(descriptor), &c, file, info)
		})
	})
	if failed != nil {
		return nil, failed
	}
	return opened, err
}

func (f *Instance) newFile(open func(file **C.ferry_file, info details) C.int32_t) (*File, error) {
	opened := &File{}
	return create(f, opened, &opened.object, "file", func(info details) C.int32_t {
		var file *C.ferry_file
		status := open(&file, info)
		opened.handle = C.uint64_t(uintptr(unsafe.Pointer(file)))
		return status
	})
}

func (f *File) c() *C.ferry_file { return (*C.ferry_file)(C.go_pointer(f.handle)) }

// Place returns the beginning of the file.
func (f *File) Place() Place {
	return Place{place{c: C.ferry_place{kind: C.FERRY_KIND_FILE, file: f.c()}, owner: &f.object, size: math.MaxUint64}}
}

func (f *File) end() *place { p := f.Place(); return &p.place }

// Info returns the size of the file, now, and how it can be used.
func (f *File) Info() (FileInfo, error) {
	c := C.ferry_file_info{struct_size: C.sizeof_ferry_file_info}
	err := f.call(func(info details) C.int32_t { return C.ferry_file_get_info(f.c(), &c, info) })
	return newFileInfo(&c), err
}

// Close closes the file. Copies in flight continue.
func (f *File) Close() error {
	return f.object.end(func(details) C.int32_t {
		C.ferry_file_close(f.c())
		return 0
	}, false)
}
