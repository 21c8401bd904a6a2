package ferry

// #include "calls.h"
import "C"

import (
	"errors"
	"runtime"
	"time"
)

// description checks the bounds of a copy and describes it.
func description(destination, source *place, extent Extent, of item) (C.ferry_copy_desc, error) {
	c := C.ferry_copy_desc{destination: destination.c, source: source.c, width: C.uint64_t(extent.Width),
		height: C.uint64_t(extent.Height), depth: C.uint64_t(extent.Depth)}
	err := source.check(C.FERRY_SIDE_SOURCE, extent, of)
	if err == nil {
		err = destination.check(C.FERRY_SIDE_DESTINATION, extent, of)
	}
	return c, err
}

// Copy copies a box of bytes, and returns when it is complete. It occupies a thread meanwhile. It is ordered as on the
// legacy default stream: after work there and on streams that are not StreamNonBlocking.
func (f *Instance) Copy(destination, source End, extent Extent, options ...CopyOption) error {
	return f.copyOrExplain(destination.end(), source.end(), extent, options, nil)
}

// Explain reports what Copy would do, without doing it.
func (f *Instance) Explain(destination, source End, extent Extent, options ...CopyOption) (Explanation, error) {
	c := C.ferry_explanation{struct_size: C.sizeof_ferry_explanation}
	if err := f.copyOrExplain(destination.end(), source.end(), extent, options, &c); err != nil {
		return Explanation{}, err
	}
	return newExplanation(&c), nil
}

func (f *Instance) copyOrExplain(destination, source *place, extent Extent, options []CopyOption,
	explanation *C.ferry_explanation) error {
	c, err := description(destination, source, extent, item{})
	if err != nil {
		return err
	}
	leave, err := f.use(destination.owner, source.owner)
	if err != nil {
		return err
	}
	defer leave()
	err = f.call(func(info details) C.int32_t {
		return C.go_copy(f.c, &c, destination.memory, source.memory, how(options), explanation, info)
	})
	f.waitForThreads(err)
	runtime.KeepAlive(destination)
	runtime.KeepAlive(source)
	return err
}

// waitForThreads waits until threads of C no longer access the memory of a copy. After its context has died, they may
// access it until they finish their current chunk.
func (f *Instance) waitForThreads(err error) {
	var failed *Error
	if !errors.As(err, &failed) || failed.Status.Traits()&StatusContextDead == 0 {
		return
	}
	for {
		if info, err := f.StagingInfo(); err != nil || info.BusyThreads == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// Copy enqueues a copy on the stream. The memory must not be freed, and the source not be written, before the copy
// has completed on the stream.
func (s *Stream) Copy(destination, source Memory, extent Extent, options ...CopyOption) error {
	return s.copy(destination.end(), source.end(), extent, options, nil)
}

// CopyTicket is Copy with a ticket that reports the copy's progress.
func (s *Stream) CopyTicket(destination, source Memory, extent Extent, options ...CopyOption) (*Ticket, error) {
	return s.newTicket(func(ticket **C.ferry_ticket) error {
		return s.copy(destination.end(), source.end(), extent, options, ticket)
	})
}

func (s *Stream) copy(destination, source *place, extent Extent, options []CopyOption,
	ticket **C.ferry_ticket) error {
	c, err := description(destination, source, extent, item{})
	if err != nil {
		return err
	}
	return s.call(func(info details) C.int32_t {
		return C.go_ferry_copy_async(s.instance.c, &c, how(options), s.number(), ticket, info)
	}, destination.owner, source.owner)
}

// Explain reports what the stream's Copy would do, without doing it.
func (s *Stream) Explain(destination, source Memory, extent Extent, options ...CopyOption) (Explanation, error) {
	to, from := destination.end(), source.end()
	c, err := description(to, from, extent, item{})
	if err != nil {
		return Explanation{}, err
	}
	explanation := C.ferry_explanation{struct_size: C.sizeof_ferry_explanation}
	err = s.call(func(info details) C.int32_t {
		return C.go_ferry_copy_explain_async(s.instance.c, &c, how(options), s.number(), &explanation, info)
	}, to.owner, from.owner)
	if err != nil {
		return Explanation{}, err
	}
	return newExplanation(&explanation), nil
}

// filling checks the bounds of a fill and describes it.
func filling(destination *place, extent Extent, pattern []byte) (C.ferry_fill_desc, error) {
	c := C.ferry_fill_desc{destination: destination.c, width: C.uint64_t(extent.Width),
		height: C.uint64_t(extent.Height), depth: C.uint64_t(extent.Depth), pattern_size: C.uint32_t(number(len(pattern)))}
	for i := 0; i < len(pattern) && i < len(c.pattern); i++ {
		c.pattern[i] = C.uint8_t(pattern[i])
	}
	return c, destination.check(C.FERRY_SIDE_DESTINATION, extent, item{})
}

// Fill repeats a pattern of 1, 2, 4, 8 or 16 bytes over a box, and returns when the fill is complete.
func (f *Instance) Fill(destination Memory, extent Extent, pattern []byte, options ...CopyOption) error {
	to := destination.end()
	c, err := filling(to, extent, pattern)
	if err != nil {
		return err
	}
	leave, err := f.use(to.owner)
	if err != nil {
		return err
	}
	defer leave()
	return f.call(func(info details) C.int32_t { return C.ferry_fill(f.c, &c, how(options), info) })
}

// ExplainFill reports what the stream's Fill would do, without doing it.
func (s *Stream) ExplainFill(destination Memory, extent Extent, pattern []byte,
	options ...CopyOption) (Explanation, error) {
	to := destination.end()
	c, err := filling(to, extent, pattern)
	if err != nil {
		return Explanation{}, err
	}
	explanation := C.ferry_explanation{struct_size: C.sizeof_ferry_explanation}
	err = s.call(func(info details) C.int32_t {
		return C.go_ferry_fill_explain_async(s.instance.c, &c, how(options), s.number(), &explanation, info)
	}, to.owner)
	if err != nil {
		return Explanation{}, err
	}
	return newExplanation(&explanation), nil
}

// Fill enqueues a fill on the stream.
func (s *Stream) Fill(destination Memory, extent Extent, pattern []byte, options ...CopyOption) error {
	return s.fill(destination.end(), extent, pattern, options, nil)
}

// FillTicket is Fill with a ticket.
func (s *Stream) FillTicket(destination Memory, extent Extent, pattern []byte, options ...CopyOption) (*Ticket, error) {
	return s.newTicket(func(ticket **C.ferry_ticket) error {
		return s.fill(destination.end(), extent, pattern, options, ticket)
	})
}

func (s *Stream) fill(destination *place, extent Extent, pattern []byte, options []CopyOption,
	ticket **C.ferry_ticket) error {
	c, err := filling(destination, extent, pattern)
	if err != nil {
		return err
	}
	return s.call(func(info details) C.int32_t {
		return C.go_ferry_fill_async(s.instance.c, &c, how(options), s.number(), ticket, info)
	}, destination.owner)
}
