package ferry

// #include "calls.h"
import "C"

// CopyOption is how a copy, a batch or a fill is made: a [Route] that is forced, a [Priority], a [SourceOrder],
// [CopyFlags], [MaxSMs] or a [Tag]. Calls take any number of options. Flags are combined. Of two other options of one
// type, the last is used. A call without options uses the CopyOptions of [Options]. If a call has options, it uses none
// of these: CopyFlags(0) alone is the ordinary choice.
type CopyOption interface{ set(c *C.ferry_copy_options) }

// MaxSMs is the maximum number of SMs that a kernel may use. 0: as many as are useful.
type MaxSMs uint32

// Tag is a number of the program's choice, which [Ticket.Info] returns.
type Tag uint64

func (r Route) set(c *C.ferry_copy_options)       { c.route = C.int32_t(r) }
func (p Priority) set(c *C.ferry_copy_options)    { c.priority = C.int32_t(p) }
func (o SourceOrder) set(c *C.ferry_copy_options) { c.source_order = C.int32_t(o) }
func (f CopyFlags) set(c *C.ferry_copy_options)   { c.flags |= C.uint32_t(f) }
func (m MaxSMs) set(c *C.ferry_copy_options)      { c.max_sms = C.uint32_t(m) }
func (t Tag) set(c *C.ferry_copy_options)         { c.tag = C.uint64_t(t) }

// how makes the parameter of a call.
func how(options []CopyOption) *C.ferry_copy_options {
	if len(options) == 0 {
		return nil
	}
	c := &C.ferry_copy_options{struct_size: C.sizeof_ferry_copy_options}
	for _, option := range options {
		option.set(c)
	}
	return c
}
