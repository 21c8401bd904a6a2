package ferry

// #include "calls.h"
import "C"

import (
	"sync"
	"unsafe"
)

// Work is a [Batch] or [Pieces].
type Work interface {
	describe() error
	owners() []*object
	run(f *Instance, options *C.ferry_copy_options, info details) C.int32_t
	enqueue(s *Stream, options *C.ferry_copy_options, ticket **C.ferry_ticket, info details) C.int32_t
	explain(s *Stream, options *C.ferry_copy_options, explanation *C.ferry_batch_explanation, info details) C.int32_t
	prepare(s *Stream, options *C.ferry_copy_options, prepared **C.ferry_prepared, info details) C.int32_t
}

// Batch is a list of copies of any shapes, made by one call. The copies have no order and must not overlap.
type Batch struct {
	copies []C.ferry_copy_desc
	used   []*object
	err    error
}

// Add adds a copy. If a box is not inside its memory, calls with the batch fail with the index of the box.
func (b *Batch) Add(destination, source Memory, extent Extent) {
	to, from := destination.end(), source.end()
	c, err := description(to, from, extent, item{C.FERRY_ITEM_COPY, C.uint64_t(len(b.copies))})
	if b.err == nil {
		b.err = err
	}
	b.copies = append(b.copies, c)
	b.used = addOwners(b.used, to, from)
}

// Len returns the number of copies.
func (b *Batch) Len() int { return len(b.copies) }

// Reset removes all copies.
func (b *Batch) Reset() { *b = Batch{copies: b.copies[:0], used: b.used[:0]} }

// addOwners adds the owners of a copy's memory, mostly once if many copies have the same.
func addOwners(used []*object, destination, source *place) []*object {
	if n := len(used); n >= 2 && used[n-2] == destination.owner && used[n-1] == source.owner {
		return used
	}
	return append(used, destination.owner, source.owner)
}

func (b *Batch) describe() error   { return b.err }
func (b *Batch) owners() []*object { return b.used }

func (b *Batch) first() *C.ferry_copy_desc { return first(b.copies) }

// first returns the address of a slice that a call reads.
func first[T any](slice []T) *T {
	if len(slice) == 0 {
		return nil
	}
	return &slice[0]
}

func (b *Batch) count() C.uint64_t { return C.uint64_t(len(b.copies)) }

func (b *Batch) run(f *Instance, options *C.ferry_copy_options, info details) C.int32_t {
	return C.ferry_copy_batch(f.c, b.first(), b.count(), options, info)
}

func (b *Batch) enqueue(s *Stream, options *C.ferry_copy_options, ticket **C.ferry_ticket, info details) C.int32_t {
	return C.go_ferry_copy_batch_async(s.instance.c, b.first(), b.count(), options, s.number(), ticket, info)
}

func (b *Batch) explain(s *Stream, options *C.ferry_copy_options, explanation *C.ferry_batch_explanation,
	info details) C.int32_t {
	return C.go_ferry_copy_batch_explain_async(s.instance.c, b.first(), b.count(), options, s.number(), explanation,
		info)
}

func (b *Batch) prepare(s *Stream, options *C.ferry_copy_options, prepared **C.ferry_prepared,
	info details) C.int32_t {
	return C.go_ferry_prepared_create(s.instance.c, b.first(), b.count(), options, s.number(), prepared, info)
}

// Pieces is a batch of lines: the fastest form for thousands of small copies. Either no source is in a [File], or all
// sources are in one file. Pieces of a file fill device memory, such as all tensors of a model.
type Pieces struct {
	all  []C.ferry_piece
	file *C.ferry_file // of all sources, or nil
	used []*object
	err  error
}

// Add adds a line of size bytes, from the place that [Batch.Add] takes for Line(size). If a line is not inside its
// memory or its row, calls with the pieces fail with the index of the line. So do calls with sources in several files.
func (p *Pieces) Add(destination, source Memory, size uint64) {
	to, from := destination.end(), source.end()
	ends := [2]C.uint64_t{} // of the source and the destination
	of := item{C.FERRY_ITEM_PIECE, C.uint64_t(len(p.all))}
	for i, end := range []*place{from, to} {
		var err error
		if ends[i], err = end.line(C.int32_t(C.FERRY_SIDE_SOURCE+i), size, of); p.err == nil {
			p.err = err
		}
	}
	if len(p.all) == 0 {
		p.file = from.c.file
	} else if p.file != from.c.file && p.err == nil {
		info := newInfo()
		info.side, info.field, info.item, info.index = C.FERRY_SIDE_PIECES, C.FERRY_FIELD_SOURCE_FILE, of.kind, of.index
		p.err = failure(C.FERRY_ERROR_HANDLE, &info)
	}
	p.all = append(p.all, C.ferry_piece{source: ends[0], destination: ends[1], size: C.uint64_t(size)})
	p.used = addOwners(p.used, to, from)
}

// Len returns the number of pieces.
func (p *Pieces) Len() int { return len(p.all) }

// Reset removes all pieces.
func (p *Pieces) Reset() {
	*p = Pieces{all: p.all[:0], used: p.used[:0]}
}

func (p *Pieces) describe() error   { return p.err }
func (p *Pieces) owners() []*object { return p.used }
func (p *Pieces) count() C.uint64_t { return C.uint64_t(len(p.all)) }

func (p *Pieces) run(f *Instance, options *C.ferry_copy_options, info details) C.int32_t {
	return C.go_copy_pieces(f.c, first(p.all), p.count(), p.file, options, info)
}

func (p *Pieces) enqueue(s *Stream, options *C.ferry_copy_options, ticket **C.ferry_ticket, info details) C.int32_t {
	return C.go_copy_pieces_async(s.instance.c, first(p.all), p.count(), p.file, options, s.number(), ticket, info)
}

func (p *Pieces) explain(s *Stream, options *C.ferry_copy_options, explanation *C.ferry_batch_explanation,
	info details) C.int32_t {
	return C.go_copy_pieces_explain_async(s.instance.c, first(p.all), p.count(), p.file, options, s.number(), explanation,
		info)
}

func (p *Pieces) prepare(s *Stream, options *C.ferry_copy_options, prepared **C.ferry_prepared,
	info details) C.int32_t {
	return C.go_prepared_create_pieces(s.instance.c, first(p.all), p.count(), p.file, options, s.number(), prepared, info)
}

// Run makes all copies of a batch, and returns when they are complete. It occupies a thread meanwhile.
func (f *Instance) Run(work Work, options ...CopyOption) error {
	if err := work.describe(); err != nil {
		return err
	}
	leave, err := f.use(work.owners()...)
	if err != nil {
		return err
	}
	defer leave()
	return f.call(func(info details) C.int32_t { return work.run(f, how(options), info) })
}

// Run enqueues all copies of a batch on the stream. The batch may be changed as soon as the call returns.
func (s *Stream) Run(work Work, options ...CopyOption) error { return s.run(work, options, nil) }

// RunTicket is Run with a ticket.
func (s *Stream) RunTicket(work Work, options ...CopyOption) (*Ticket, error) {
	return s.newTicket(func(ticket **C.ferry_ticket) error { return s.run(work, options, ticket) })
}

func (s *Stream) run(work Work, options []CopyOption, ticket **C.ferry_ticket) error {
	if err := work.describe(); err != nil {
		return err
	}
	return s.call(func(info details) C.int32_t { return work.enqueue(s, how(options), ticket, info) },
		work.owners()...)
}

// ExplainRun reports what Run would do, without doing it.
func (s *Stream) ExplainRun(work Work, options ...CopyOption) (BatchExplanation, error) {
	if err := work.describe(); err != nil {
		return BatchExplanation{}, err
	}
	c := C.ferry_batch_explanation{struct_size: C.sizeof_ferry_batch_explanation}
	err := s.call(func(info details) C.int32_t { return work.explain(s, how(options), &c, info) },
		work.owners()...)
	if err != nil {
		return BatchExplanation{}, err
	}
	return newBatchExplanation(&c), nil
}

// Prepared is a batch that was checked and planned once, to be launched any number of times. Its memory cannot be freed
// before it is destroyed.
type Prepared struct {
	object
	mutex   sync.RWMutex // SetAddresses writes, Launch reads
	sizes   []C.uint64_t // of pieces
	release func()       // lets the memory be freed
}

// Prepare checks and plans a batch for streams of the device of this stream.
func (s *Stream) Prepare(work Work, options ...CopyOption) (*Prepared, error) {
	if err := work.describe(); err != nil {
		return nil, err
	}
	release, err := s.instance.use(append([]*object(nil), work.owners()...)...)
	if err != nil {
		return nil, err
	}
	leave, err := s.instance.use(&s.object)
	if err != nil {
		release()
		return nil, err
	}
	defer leave()
	p := &Prepared{release: release}
	if pieces, ok := work.(*Pieces); ok {
		for i := range pieces.all {
			p.sizes = append(p.sizes, pieces.all[i].size)
		}
	}
	p, err = create(s.instance, p, &p.object, "prepared batch", func(info details) C.int32_t {
		var prepared *C.ferry_prepared
		status := work.prepare(s, how(options), &prepared, info)
		p.handle = C.uint64_t(uintptr(unsafe.Pointer(prepared)))
		return status
	})
	if err != nil {
		release()
	}
	return p, err
}

func (p *Prepared) c() *C.ferry_prepared { return (*C.ferry_prepared)(C.go_pointer(p.handle)) }

// Launch enqueues a prepared batch. Of the options, a launch uses only the [Tag]. Without options, it has the tag of
// Prepare.
func (s *Stream) Launch(p *Prepared, options ...CopyOption) error { return s.launch(p, options, nil) }

// LaunchTicket is Launch with a ticket.
func (s *Stream) LaunchTicket(p *Prepared, options ...CopyOption) (*Ticket, error) {
	return s.newTicket(func(ticket **C.ferry_ticket) error { return s.launch(p, options, ticket) })
}

func (s *Stream) launch(p *Prepared, options []CopyOption, ticket **C.ferry_ticket) error {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return s.call(func(info details) C.int32_t {
		return C.go_ferry_prepared_launch(p.c(), how(options), s.number(), ticket, info)
	}, &p.object)
}

// SetAddresses gives all pieces of a batch prepared with CopyUpdatable the addresses of other pieces, in the order of
// the stream. The pieces must be as many and of the same sizes. The old memory can then be freed, after launches of the
// batch have completed.
func (s *Stream) SetAddresses(p *Prepared, pieces *Pieces) error {
	if err := pieces.describe(); err != nil {
		return err
	}
	if err := p.checkSizes(pieces.all); err != nil {
		return err
	}
	leave, err := s.instance.use(&p.object)
	if err != nil {
		return err
	}
	defer leave()
	release, err := s.instance.use(append([]*object(nil), pieces.used...)...)
	if err != nil {
		return err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	err = s.call(func(info details) C.int32_t {
		return C.go_prepared_set_addresses(p.c(), first(pieces.all), pieces.count(), pieces.file, s.number(), info)
	})
	if err != nil {
		release()
		return err
	}
	p.release()
	p.release = release
	return nil
}

func (p *Prepared) checkSizes(pieces []C.ferry_piece) error {
	info := newInfo()
	info.field = C.FERRY_FIELD_SIZE
	if len(pieces) != len(p.sizes) {
		info.numbers, info.value, info.limit = C.FERRY_NUMBERS_EQUAL, C.uint64_t(len(pieces)), C.uint64_t(len(p.sizes))
		return failure(C.FERRY_ERROR_INVALID_ARGUMENT, &info)
	}
	for i := range pieces {
		if size := pieces[i].size; size != p.sizes[i] {
			info.side, info.item, info.index = C.FERRY_SIDE_EXTENT, C.FERRY_ITEM_PIECE, C.uint64_t(i)
			info.numbers, info.value, info.limit = C.FERRY_NUMBERS_EQUAL, size, p.sizes[i]
			return failure(C.FERRY_ERROR_INVALID_ARGUMENT, &info)
		}
	}
	return nil
}

// Destroy destroys the batch. Launches of it may be in flight. It may wait for the device's running work.
func (p *Prepared) Destroy() error {
	err := p.end(func(info details) C.int32_t { return C.ferry_prepared_destroy(p.c(), info) }, true)
	if err != ErrBusy && err != ErrClosed && p.users.Load() < 0 {
		p.release()
	}
	return err
}
