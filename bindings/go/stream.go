package ferry

// #include "calls.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"sync/atomic"
	"time"
	"unsafe"
)

// Stream is a queue of work on a device.
type Stream struct{ object }

// NewStream creates a stream. A negative priority is more urgent than 0.
func (f *Instance) NewStream(device int, flags StreamFlags, priority int) (*Stream, error) {
	s := &Stream{}
	return create(f, s, &s.object, "stream", func(info details) C.int32_t {
		var stream *C.struct_CUstream_st
		status := C.ferry_stream_create(f.c, number(device), C.uint32_t(flags), number(priority), &stream, info)
		s.handle = C.uint64_t(uintptr(unsafe.Pointer(stream)))
		return status
	})
}

// LegacyStream returns the legacy default stream. Its context depends on the thread: see Threads above.
func (f *Instance) LegacyStream() *Stream { return f.ForeignStream(DefaultStreamLegacy) }

// PerThreadStream returns the default stream of the calling thread: only for goroutines that are locked to a thread.
func (f *Instance) PerThreadStream() *Stream { return f.ForeignStream(DefaultStreamPerThread) }

// ForeignStream makes a Stream of a CUstream or cudaStream_t that the program created and destroys.
func (f *Instance) ForeignStream(handle uintptr) *Stream {
	return &Stream{object{instance: f, handle: C.uint64_t(handle), foreign: true}}
}

// Handle returns the CUstream.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// number is the stream as a parameter of the functions in streams.h.
func (s *Stream) number() C.uintptr_t { return C.uintptr_t(s.handle) }

// Destroy destroys the stream. Work on it still completes.
func (s *Stream) Destroy() error {
	return s.end(func(info details) C.int32_t {
		return C.go_ferry_stream_destroy(s.instance.c, s.number(), info)
	}, false)
}

// Synchronize waits until all work on the stream has ended. It occupies a thread.
func (s *Stream) Synchronize() error {
	return s.call(func(info details) C.int32_t { return C.go_ferry_stream_synchronize(s.instance.c, s.number(), info) })
}

// Query reports whether all work on the stream has ended.
func (s *Stream) Query() (bool, error) {
	var done C.int32_t
	err := s.call(func(info details) C.int32_t {
		return C.go_ferry_stream_query(s.instance.c, s.number(), &done, info)
	})
	return done != 0, err
}

// Done returns a channel that receives nil, or what ended the work, once the work enqueued so far has ended. Waiting
// for it occupies no thread, and a select can wait for a context too. Later work on the stream starts a little later
// than it would without. The channel may never receive if the stream's context is destroyed.
func (s *Stream) Done() (<-chan error, error) {
	done := make(chan error, 1)
	handle := cgo.NewHandle(done)
	err := s.call(func(info details) C.int32_t {
		return C.go_notify(s.instance.c, s.number(), C.uintptr_t(handle), info)
	})
	if err != nil {
		handle.Delete()
		return nil, err
	}
	return done, nil
}

// goFerryDone runs on a driver thread, which must not wait: the channel has room for the value.
//
//export goFerryDone
func goFerryDone(done C.uintptr_t, status C.int32_t) {
	handle := cgo.Handle(done)
	channel := handle.Value().(chan error)
	handle.Delete()
	if status == 0 {
		channel <- nil
	} else {
		channel <- Status(status)
	}
}

// WaitEvent makes later work on the stream wait for the last record of the event.
func (s *Stream) WaitEvent(e *Event) error {
	return s.call(func(info details) C.int32_t {
		return C.go_ferry_stream_wait_event(s.instance.c, s.number(), e.c(), info)
	}, &e.object)
}

// Record records the event behind the work enqueued so far.
func (s *Stream) Record(e *Event) error {
	return s.call(func(info details) C.int32_t {
		return C.go_ferry_event_record(s.instance.c, e.c(), s.number(), info)
	}, &e.object)
}

// Event is a mark in a stream.
type Event struct {
	object
	imported bool // from another process
}

// NewEvent creates an event for the streams of a device.
func (f *Instance) NewEvent(device int, flags EventFlags) (*Event, error) {
	e := &Event{}
	return create(f, e, &e.object, "event", func(info details) C.int32_t {
		var event *C.struct_CUevent_st
		status := C.ferry_event_create(f.c, number(device), C.uint32_t(flags), &event, info)
		e.handle = C.uint64_t(uintptr(unsafe.Pointer(event)))
		return status
	})
}

func (e *Event) c() *C.struct_CUevent_st { return (*C.struct_CUevent_st)(C.go_pointer(e.handle)) }

// Handle returns the CUevent.
func (e *Event) Handle() uintptr { return uintptr(e.handle) }

// Destroy destroys the event. Calls and streams that already wait for it are not affected.
func (e *Event) Destroy() error {
	return e.end(func(info details) C.int32_t {
		if e.imported {
			return C.ferry_ipc_close_event(e.instance.c, e.c(), info)
		}
		return C.ferry_event_destroy(e.instance.c, e.c(), info)
	}, false)
}

// Synchronize waits until the work before the last record has ended. It occupies a thread.
func (e *Event) Synchronize() error {
	return e.call(func(info details) C.int32_t { return C.ferry_event_synchronize(e.instance.c, e.c(), info) })
}

// Query reports whether the work before the last record has ended, or the event was never recorded.
func (e *Event) Query() (bool, error) {
	var done C.int32_t
	err := e.call(func(info details) C.int32_t { return C.ferry_event_query(e.instance.c, e.c(), &done, info) })
	return done != 0, err
}

// Since returns the time from an earlier event to this one. Both must have completed.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var milliseconds C.float
	err := e.call(func(info details) C.int32_t {
		return C.ferry_event_elapsed_time(e.instance.c, start.c(), e.c(), &milliseconds, info)
	}, &start.object)
	return time.Duration(float64(milliseconds) * float64(time.Millisecond)), err
}

// Ticket reports the progress of a copy, or of the work on a stream up to some point. Only copies of files can be
// cancelled.
type Ticket struct {
	instance *Instance
	c        *C.ferry_ticket
	users    atomic.Int64 // running calls, and 1 until Release
	released atomic.Bool
}

// Ticket makes a ticket for the work enqueued on the stream so far.
func (s *Stream) Ticket() (*Ticket, error) {
	return s.newTicket(func(ticket **C.ferry_ticket) error {
		return s.call(func(info details) C.int32_t {
			return C.go_ferry_ticket_create(s.instance.c, s.number(), ticket, info)
		})
	})
}

// newTicket makes a Ticket of what a function creates, while the stream cannot end.
func (s *Stream) newTicket(create func(ticket **C.ferry_ticket) error) (*Ticket, error) {
	leave, err := s.instance.use(&s.object)
	if err != nil {
		return nil, err
	}
	defer leave()
	var c *C.ferry_ticket
	if err := create(&c); err != nil {
		return nil, err
	}
	t := &Ticket{instance: s.instance, c: c}
	t.users.Store(1)
	t.instance.users.Add(1)
	t.instance.count("ticket", 1)
	return t, nil
}

func (t *Ticket) enter() error {
	for {
		users := t.users.Load()
		if users == 0 || t.released.Load() {
			return ErrClosed
		}
		if t.users.CompareAndSwap(users, users+1) {
			return nil
		}
	}
}

// leave releases the ticket after the last call on it, if Release was called.
func (t *Ticket) leave() {
	if t.users.Add(-1) == 0 {
		C.ferry_ticket_release(t.c, nil)
		t.instance.count("ticket", -1)
		t.instance.leave()
	}
}

// Info returns the progress.
func (t *Ticket) Info() (TicketInfo, error) {
	if err := t.enter(); err != nil {
		return TicketInfo{}, err
	}
	defer t.leave()
	c := C.ferry_ticket_info{struct_size: C.sizeof_ferry_ticket_info}
	err := call(func(info details) C.int32_t { return C.ferry_ticket_get_info(t.c, &c, info) })
	return newTicketInfo(&c), err
}

// Cancel cancels copies of files: what has not begun is not transferred. Wait then returns an error, unless all bytes were
// transferred before.
func (t *Ticket) Cancel() error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	return call(func(info details) C.int32_t { return C.ferry_ticket_cancel(t.c, info) })
}

// Wait waits until the work is done, and helps with staged copies meanwhile. It occupies a thread. It returns the
// context's error if that ends first; the copy continues, and a thread waits for it.
func (t *Ticket) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	wait := func(info details) C.int32_t { return C.ferry_ticket_wait(t.c, C.FERRY_NO_TIMEOUT, info) }
	if ctx.Done() == nil {
		defer t.leave()
		return call(wait)
	}
	result := make(chan error, 1)
	go func() {
		err := call(wait)
		t.leave()
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release releases the ticket, at any time; the copy continues. The instance counts the ticket until waits that their
// context ended have returned.
func (t *Ticket) Release() error {
	if !t.released.CompareAndSwap(false, true) {
		return ErrClosed
	}
	t.leave()
	return nil
}
