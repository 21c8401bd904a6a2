package ferry

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// open opens an instance on the software driver, which must have nothing open when the test ends. The file
// FERRY_TEST_PROFILE makes its copies take the routes that they take on a GPU.
func open(t testing.TB, options ...CopyOption) *Instance {
	t.Helper()
	f, err := Open(Options{Driver: DriverSoftware, SoftwareDevices: 2, CopyOptions: options})
	must(t, err)
	if file := os.Getenv("FERRY_TEST_PROFILE"); file != "" {
		profile, err := os.ReadFile(file)
		must(t, err)
		must(t, f.LoadProfile(string(profile)))
	}
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func made[T any](t testing.TB, object T, err error, end func(T) error) T {
	t.Helper()
	must(t, err)
	t.Cleanup(func() {
		if err := end(object); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return object
}

func stream(t testing.TB, f *Instance) *Stream {
	s, err := f.NewStream(0, StreamNonBlocking, 0)
	return made(t, s, err, (*Stream).Destroy)
}

func device(t testing.TB, f *Instance, size uint64) *DeviceMemory {
	m, err := f.Alloc(0, size)
	return made(t, m, err, (*DeviceMemory).Free)
}

func pinned(t testing.TB, f *Instance, size uint64) *PinnedMemory {
	m, err := f.AllocPinned(size, HostOptions{})
	return made(t, m, err, (*PinnedMemory).Free)
}

func noise(size uint64) []byte {
	result := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(result)
	return result
}

// geometry is a memory of slices, and where the box begins in it.
type geometry struct{ pitch, height, slices, x, y, z uint64 }

func (g geometry) size() uint64 { return g.pitch * g.height * g.slices }

// store is memory of one kind: what a copy takes, and how a test writes and reads all of it.
type store struct {
	place End
	write func([]byte)
	read  func() []byte
}

var stores = map[string]func(t testing.TB, f *Instance, g geometry) store{
	"go": func(t testing.TB, f *Instance, g geometry) store {
		memory := make([]byte, g.size())
		return store{Slice(memory).Pitched(g.pitch, g.height).At(g.x, g.y, g.z), func(b []byte) { copy(memory, b) },
			func() []byte { return memory }}
	},
	"pinned": func(t testing.TB, f *Instance, g geometry) store {
		memory := pinned(t, f, g.size())
		return store{memory.Place().Pitched(g.pitch, g.height).At(g.x, g.y, g.z),
			func(b []byte) { copy(memory.Bytes(), b) }, func() []byte { return memory.Bytes() }}
	},
	"device": func(t testing.TB, f *Instance, g geometry) store {
		memory := device(t, f, g.size())
		return store{memory.Place().Pitched(g.pitch, g.height).At(g.x, g.y, g.z),
			func(b []byte) { must(t, f.Copy(memory, Slice(b), Line(g.size()))) },
			func() []byte {
				b := make([]byte, g.size())
				must(t, f.Copy(Slice(b), memory, Line(g.size())))
				return b
			}}
	},
	"array": func(t testing.TB, f *Instance, g geometry) store {
		shape := ArrayDesc{Format: FormatUint8, Channels: 1, Width: g.pitch, Height: g.height}
		if g.slices > 1 {
			shape.Depth = g.slices
		}
		array, err := f.NewArray(0, shape)
		made(t, array, err, (*Array).Destroy)
		whole := Box(g.pitch, g.height, g.slices)
		return store{array.Place().At(g.x, g.y, g.z), func(b []byte) { must(t, f.Copy(array, Slice(b), whole)) },
			func() []byte {
				b := make([]byte, g.size())
				must(t, f.Copy(Slice(b), array, whole))
				return b
			}}
	},
}

var shapes = map[string]struct {
	extent              Extent
	source, destination geometry
}{
	"1D":          {Line(100), geometry{100, 1, 1, 0, 0, 0}, geometry{100, 1, 1, 0, 0, 0}},
	"1D inside":   {Line(77), geometry{100, 1, 1, 13, 0, 0}, geometry{211, 1, 1, 5, 0, 0}},
	"1D large":    {Line(3 << 20), geometry{3<<20 + 9, 1, 1, 9, 0, 0}, geometry{3<<20 + 2, 1, 1, 1, 0, 0}},
	"2D":          {Rect(64, 5), geometry{64, 5, 1, 0, 0, 0}, geometry{64, 5, 1, 0, 0, 0}},
	"2D inside":   {Rect(30, 7), geometry{64, 9, 1, 3, 2, 0}, geometry{41, 12, 1, 11, 4, 0}},
	"2D narrow":   {Rect(1, 200), geometry{17, 201, 1, 16, 1, 0}, geometry{2, 200, 1, 1, 0, 0}},
	"3D":          {Box(16, 4, 3), geometry{16, 4, 3, 0, 0, 0}, geometry{16, 4, 3, 0, 0, 0}},
	"3D inside":   {Box(10, 3, 2), geometry{32, 5, 4, 8, 1, 2}, geometry{21, 6, 3, 11, 3, 1}},
	"3D height 0": {Extent{Width: 12}, geometry{40, 3, 2, 4, 1, 1}, geometry{33, 2, 3, 21, 1, 2}},
	"nothing":     {Box(0, 3, 2), geometry{32, 5, 4, 8, 1, 2}, geometry{21, 6, 3, 11, 3, 1}},
}

// reference is the plain copy that every other one is compared with.
func reference(to, from []byte, extent Extent, destination, source geometry) {
	for z := uint64(0); z < orOne(extent.Depth); z++ {
		for y := uint64(0); y < orOne(extent.Height); y++ {
			for x := uint64(0); x < extent.Width; x++ {
				d, s := destination, source
				to[((d.z+z)*d.height+d.y+y)*d.pitch+d.x+x] = from[((s.z+z)*s.height+s.y+y)*s.pitch+s.x+x]
			}
		}
	}
}

func TestEveryShapeArrivesBetweenAllKindsOfMemory(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	for name, shape := range shapes {
		for from := range stores {
			for to := range stores {
				shape := shape
				if shape.source.pitch > 1<<16 && (from == "array" || to == "array") {
					continue // arrays are not as wide
				}
				t.Run(fmt.Sprintf("%s %s to %s", name, from, to), func(t *testing.T) {
					source, destination := stores[from](t, f, shape.source), stores[to](t, f, shape.destination)
					content, before := noise(shape.source.size()), noise(shape.destination.size())
					source.write(content)
					expected := append([]byte(nil), before...)
					reference(expected, content, shape.extent, shape.destination, shape.source)
					check := func(how string, err error) {
						t.Helper()
						must(t, err)
						if !bytes.Equal(destination.read(), expected) {
							t.Errorf("%s: wrong bytes", how)
						}
						if !bytes.Equal(source.read(), content) {
							t.Errorf("%s: the source has changed", how)
						}
					}
					destination.write(before)
					check("synchronous", f.Copy(destination.place, source.place, shape.extent))

					d, ok := destination.place.(Memory)
					o, ok2 := source.place.(Memory)
					if !ok || !ok2 {
						return
					}
					destination.write(before)
					err := s.Copy(d, o, shape.extent)
					must(t, s.Synchronize())
					check("on a stream", err)

					destination.write(before)
					var batch Batch
					batch.Add(d, o, shape.extent)
					err = s.Run(&batch)
					must(t, s.Synchronize())
					check("in a batch", err)
				})
			}
		}
	}
}

func TestABoxThatLeavesItsSliceIsRefused(t *testing.T) {
	f := open(t)
	memory, slice := device(t, f, 1000), make([]byte, 100)
	for name, test := range map[string]struct {
		to, from     End
		extent       Extent
		side         Side
		value, limit uint64
	}{
		"line":        {memory, Slice(slice), Line(101), SideSource, 101, 100},
		"destination": {Slice(slice), memory, Line(101), SideDestination, 101, 100},
		"empty":       {Slice([]int32{}), memory, Line(1), SideDestination, 1, 0},
		"nil":         {memory, Slice[byte](nil), Line(1), SideSource, 1, 0},
		"elements":    {memory, Slice(make([]float64, 4)), Line(33), SideSource, 33, 32},
		"last row":    {memory, Slice(slice).Pitched(30, 0), Rect(11, 4), SideSource, 101, 100},
		"x":           {memory, Slice(slice).Pitched(100, 0).At(96, 0, 0), Line(5), SideSource, 101, 100},
		"slices":      {memory, Slice(slice).Pitched(10, 5), Box(10, 1, 3), SideSource, 110, 100},
		"overflow":    {memory, Slice(slice), Box(1<<40, 1<<40, 1), SideSource, math.MaxUint64, 100},
		"overflow x":  {memory, Slice(slice).At(math.MaxUint64, 0, 0), Line(2), SideSource, math.MaxUint64, 100},
		"device":      {memory.Place().Offset(990), Slice(slice), Line(11), SideDestination, 11, 10},
		"offset":      {memory.Place().Offset(math.MaxUint64), Slice(slice), Line(1), SideDestination, 1, 0},
	} {
		err := f.Copy(test.to, test.from, test.extent)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrorOutOfBounds) || e.Side != test.side || e.Value != test.value ||
			e.Limit != test.limit {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, f.Copy(memory, Slice(slice).Pitched(30, 0), Rect(10, 4)))
}

func TestEveryCallHasTheDetailsOfItsError(t *testing.T) {
	f := open(t)
	report, err := f.Report()
	must(t, err)
	_, deviceErr := f.Device(99)
	_, profileErr := f.Profile(99)
	for name, err := range map[string]error{"Device": deviceErr, "Profile": profileErr, "Synchronize": f.Synchronize(99),
		"EnablePeer": f.EnablePeer(99, 0), "TrimDeferred": f.TrimDeferred(99, 0)} {
		var e *Error
		if !errors.As(err, &e) || e.Status != ErrorDevice || e.Field != FieldDevice || e.Value != 99 ||
			e.Limit != uint64(report.DeviceCount) || e.Numbers != NumbersCount {
			t.Errorf("%s: %v", name, err)
		}
	}
	start, err := f.NewEvent(0, 0)
	must(t, err)
	end, err := f.NewEvent(0, 0)
	must(t, err)
	var e *Error
	if _, err := end.Since(start); !errors.As(err, &e) || e.DriverFunction != "cuEventElapsedTime" { // never recorded
		t.Error(err)
	}
	must(t, start.Destroy())
	must(t, end.Destroy())
	pool, err := f.NewPinnedPool(PinnedPoolOptions{})
	must(t, err)
	block, err := pool.Alloc(64)
	must(t, err)
	if err := pool.Destroy(); !errors.As(err, &e) || e.Status != ErrorInUse {
		t.Error(err)
	}
	must(t, block.Free())
	must(t, pool.Destroy())
}

func TestAnErrorNamesSideFieldAndLimit(t *testing.T) {
	f := open(t)
	memory := device(t, f, 1000)
	err := f.Copy(memory.Place().Pitched(4, 0), Slice(make([]byte, 100)), Rect(8, 2))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.Status != ErrorPitch || e.Side != SideDestination || e.Field != FieldRowPitch || e.Value != 4 || e.Limit != 8 {
		t.Errorf("%+v", e)
	}
	if want := "ferry: destination.row_pitch: 4, must be at least 8 (FERRY_ERROR_PITCH)"; err.Error() != want {
		t.Errorf("%s", err)
	}
	if !errors.Is(err, ErrorPitch) || errors.Is(err, ErrorOutOfBounds) {
		t.Error("errors.Is")
	}
	if _, err := f.Alloc(7, 1); !errors.Is(err, ErrorDevice) || !strings.Contains(err.Error(), "FERRY_ERROR_DEVICE") {
		t.Error(err)
	}
	if _, err := f.Alloc(0, 1<<50); !errors.Is(err, StatusDriverBase-Status(2)) {
		t.Error(err)
	}
	if ErrorLimit.Traits()&StatusRetry == 0 || ErrorPitch.Name() != "FERRY_ERROR_PITCH" {
		t.Error("traits or name")
	}
	if _, err := Open(Options{Driver: DriverSoftware, SoftwareDevices: 65}); !errors.Is(err, ErrorInvalidArgument) {
		t.Error(err)
	}
}

func TestABatchNamesTheBadCopy(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	from, to := pinned(t, f, 100), device(t, f, 100)
	var batch Batch
	var pieces Pieces
	for i := uint64(0); i < 10; i++ {
		batch.Add(to.Place().Offset(10*i), from.Place().Offset(10*i), Line(10+i/7*5))
		pieces.Add(to.Place().Offset(10*i), from.Place().Offset(10*i), 10+i/9)
	}
	for index, work := range map[uint64]Work{9: &pieces} {
		for _, err := range []error{f.Run(work), s.Run(work)} {
			var e *Error
			if !errors.As(err, &e) || e.Index != index || e.Side != SideSource || !strings.Contains(err.Error(), "piece 9") {
				t.Error(err)
			}
		}
	}
	var e *Error
	if err := s.Run(&batch, CopyCheckOverlap); !errors.As(err, &e) || e.Status != ErrorOutOfBounds || e.Index != 9 {
		t.Error(err)
	}
	batch.Reset()
	batch.Add(to.Place(), from.Place(), Line(10))
	batch.Add(to.Place().Offset(9), from.Place().Offset(50), Line(10))
	if err := f.Run(&batch, CopyCheckOverlap); !errors.As(err, &e) || e.Status != ErrorOverlap || e.Index != 1 {
		t.Error(err)
	}
	array, err := f.NewArray(0, ArrayDesc{Format: FormatUint8, Channels: 1, Width: 10})
	made(t, array, err, (*Array).Destroy)
	pieces.Reset()
	pieces.Add(array, from, 10)
	if err := f.Run(&pieces); !errors.As(err, &e) || e.Status != ErrorOtherKind || e.Side != SideDestination {
		t.Error(err)
	}
	must(t, f.Run(&Batch{}))
	must(t, s.Run(&Pieces{}))
}

func TestPreparedBatchesKeepTheirMemory(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	from, from2, to := pinned(t, f, 4096), pinned(t, f, 4096), device(t, f, 4096)
	copy(from.Bytes(), noise(4096))
	copy(from2.Bytes(), noise(4097))
	pieces := func(from *PinnedMemory) *Pieces {
		var pieces Pieces
		for i := uint64(0); i < 64; i++ {
			pieces.Add(to.Place().Offset(64*i), from.Place().Offset(4096-64*(i+1)), 64)
		}
		return &pieces
	}
	expect := func(from *PinnedMemory) {
		t.Helper()
		got, want := make([]byte, 4096), []byte{}
		must(t, s.Synchronize())
		must(t, f.Copy(Slice(got), to, Line(4096)))
		for i := 63; i >= 0; i-- {
			want = append(want, from.Bytes()[64*i:64*(i+1)]...)
		}
		if !bytes.Equal(got, want) {
			t.Error("wrong bytes")
		}
	}
	p, err := s.Prepare(pieces(from), CopyUpdatable)
	made(t, p, err, (*Prepared).Destroy)
	must(t, s.Launch(p))
	expect(from)
	if err := from.Free(); err != ErrBusy {
		t.Error(err)
	}
	must(t, s.SetAddresses(p, pieces(from2)))
	must(t, s.Launch(p))
	expect(from2)
	must(t, from.Free())
	if err := s.SetAddresses(p, &Pieces{}); !errors.Is(err, ErrorInvalidArgument) {
		t.Error(err)
	}
	var other Pieces
	for i := uint64(0); i < 64; i++ {
		other.Add(to, from2, 64-i/63)
	}
	var e *Error
	if err := s.SetAddresses(p, &other); !errors.As(err, &e) || e.Index != 63 {
		t.Error(err)
	}
	must(t, p.Destroy())
	if err := s.Launch(p); err != ErrClosed {
		t.Error(err)
	}
	var batch Batch
	batch.Add(to, from2, Line(4096))
	p, err = s.Prepare(&batch)
	must(t, err)
	must(t, s.Launch(p))
	must(t, p.Destroy())
	explanation, err := s.ExplainRun(&batch)
	if err != nil || explanation.ContextDevice != 0 || !strings.Contains(explanation.String(), "cop") {
		t.Error(explanation, err)
	}
}

func TestTicketsReportProgressAndHeedTheirContext(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	const size = 64 << 20
	from, to := pinned(t, f, size), device(t, f, size)
	ticket, err := s.CopyTicket(to, from, Line(size))
	made(t, ticket, err, (*Ticket).Release)
	must(t, ticket.Wait(context.Background()))
	info, err := ticket.Info()
	if err != nil || !info.Done || info.Status != Success || info.BytesDone != size || info.BytesTotal != size {
		t.Errorf("%+v %v", info, err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ticket.Wait(cancelled); err != context.Canceled {
		t.Error(err)
	}
	must(t, ticket.Release())
	if err := ticket.Wait(context.Background()); err != ErrClosed {
		t.Error(err)
	}

	for i := 0; i < 8; i++ { // some of these contexts end first
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
		ticket, err := s.CopyTicket(to, from, Line(size))
		must(t, err)
		if err := ticket.Wait(ctx); err != nil && err != context.DeadlineExceeded {
			t.Error(err)
		}
		must(t, ticket.Release())
		cancel()
	}
	ticket, err = s.Ticket()
	must(t, err)
	must(t, ticket.Wait(context.Background()))
	must(t, ticket.Release())
	for f.OpenObjects()["ticket"] > 0 { // waits whose context has ended return behind the copy
		runtime.Gosched()
	}
}

func TestTheTagOfEveryCallArrivesInItsTicket(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	from, to := pinned(t, f, 4096), device(t, f, 4096)
	var batch Batch
	var pieces Pieces
	batch.Add(to, from, Line(4096))
	pieces.Add(to, from, 4096)
	p, err := s.Prepare(&batch, Tag(math.MaxUint64))
	made(t, p, err, (*Prepared).Destroy)
	for want, make := range map[TicketInfo]func() (*Ticket, error){
		{Tag: 1, BytesTotal: 4096}:              func() (*Ticket, error) { return s.CopyTicket(to, from, Line(4096), Tag(9), Tag(1)) },
		{Tag: 2, BytesTotal: 4096}:              func() (*Ticket, error) { return s.RunTicket(&batch, Tag(2)) },
		{Tag: 3, BytesTotal: 4096}:              func() (*Ticket, error) { return s.RunTicket(&pieces, Tag(3)) },
		{Tag: 4, BytesTotal: 4096}:              func() (*Ticket, error) { return s.FillTicket(to, Line(4096), []byte{7}, Tag(4)) },
		{Tag: 5, BytesTotal: 4096}:              func() (*Ticket, error) { return s.LaunchTicket(p, Tag(5)) },
		{Tag: math.MaxUint64, BytesTotal: 4096}: func() (*Ticket, error) { return s.LaunchTicket(p) },
		{BytesTotal: 4096}:                      func() (*Ticket, error) { return s.RunTicket(&batch) },
		{BytesTotal: 4096, Done: true}:          func() (*Ticket, error) { return s.LaunchTicket(p, CopyFlags(0)) },
		{Tag: 6, BytesTotal: 0}:                 func() (*Ticket, error) { return s.RunTicket(&Pieces{}, Tag(6)) },
		{Tag: 7, Route: RouteKernel, BytesTotal: 4096}: func() (*Ticket, error) {
			return s.CopyTicket(to, from, Line(4096), RouteKernel, Tag(7))
		},
	} {
		ticket, err := make()
		must(t, err)
		must(t, ticket.Wait(context.Background()))
		info, err := ticket.Info()
		if err != nil || !info.Done || info.Tag != want.Tag || info.BytesTotal != want.BytesTotal ||
			want.Route != RouteNone && info.Route != want.Route {
			t.Errorf("%+v, not %+v: %v", info, want, err)
		}
		must(t, ticket.Release())
	}
}

func TestEveryCallNamesTheFieldOfTheOptionsThatItRefuses(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	from, to := pinned(t, f, 4096), device(t, f, 4096)
	var batch Batch
	var pieces Pieces
	batch.Add(to, from, Line(4096))
	pieces.Add(to, from, 4096)
	p, err := s.Prepare(&batch)
	made(t, p, err, (*Prepared).Destroy)
	second := func(_ any, err error) error { return err }
	for _, one := range []struct {
		option CopyOption
		status Status
		field  Field
	}{
		{Route(99), ErrorInvalidArgument, FieldRoute}, {RouteBuffered, ErrorUnsupported, FieldRoute},
		{Priority(-1), ErrorInvalidArgument, FieldPriority}, {PriorityBackground, ErrorUnsupported, FieldPriority},
		{SourceOrder(3), ErrorInvalidArgument, FieldSourceOrder}, {CopyFlags(1 << 20), ErrorFlags, FieldFlags},
		{MaxSMs(1 << 16), ErrorInvalidArgument, FieldMaxSMs},
	} {
		pattern := []byte{7}
		for i, err := range []error{
			f.Copy(to, from, Line(4096), one.option), s.Copy(to, from, Line(4096), one.option),
			second(f.Explain(to, from, Line(4096), one.option)), second(s.Explain(to, from, Line(4096), one.option)),
			second(s.CopyTicket(to, from, Line(4096), one.option)), f.Fill(to, Line(4096), pattern, one.option),
			s.Fill(to, Line(4096), pattern, one.option), second(s.ExplainFill(to, Line(4096), pattern, one.option)),
			second(s.FillTicket(to, Line(4096), pattern, one.option)), f.Run(&batch, one.option),
			s.Run(&batch, one.option), second(s.RunTicket(&batch, one.option)), f.Run(&pieces, one.option),
			s.Run(&pieces, one.option), second(s.ExplainRun(&batch, one.option)),
			second(s.ExplainRun(&pieces, one.option)), second(s.Prepare(&batch, one.option)),
			second(s.Prepare(&pieces, one.option)), s.Launch(p, one.option), second(s.LaunchTicket(p, one.option)),
		} {
			var e *Error
			if !errors.As(err, &e) || e.Status != one.status || e.Side != SideOptions || e.Field != one.field {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
}

func TestOptionsOfTheInstanceApplyToCallsThatHaveNone(t *testing.T) {
	f := open(t, RouteStaged, Tag(7))
	s := stream(t, f)
	to, slice := device(t, f, 4096), Slice(make([]byte, 4096))
	for _, one := range []struct {
		options []CopyOption
		route   Route
	}{{nil, RouteStaged}, {[]CopyOption{RouteDriver}, RouteDriver}, {[]CopyOption{CopyFlags(0)}, RouteDriver}} {
		explanation, err := f.Explain(to, slice, Line(4096), one.options...)
		if err != nil || explanation.Route != one.route {
			t.Error(explanation, err)
		}
	}
	ticket, err := s.FillTicket(to, Line(4096), []byte{7})
	made(t, ticket, err, (*Ticket).Release)
	if info, err := ticket.Info(); err != nil || info.Tag != 7 {
		t.Errorf("%+v %v", info, err)
	}
	var e *Error
	_, err = Open(Options{Driver: DriverSoftware, CopyOptions: []CopyOption{MaxSMs(1 << 16)}})
	if !errors.As(err, &e) || e.Side != SideOptions || e.Field != FieldMaxSMs {
		t.Error(err)
	}
}

func TestDoneWaitsWithoutAThread(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	from, to := pinned(t, f, 1<<20), device(t, f, 1<<20)
	var waiting []<-chan error
	for i := 0; i < 50; i++ {
		must(t, s.Copy(to, from, Line(1<<20)))
		done, err := s.Done()
		must(t, err)
		waiting = append(waiting, done)
	}
	for _, done := range waiting {
		must(t, <-done)
	}
	must(t, s.Synchronize()) // the last call of Done may not have returned on its thread
	if done, err := s.Query(); err != nil || !done {
		t.Error(done, err)
	}
}

func TestEventsOrderStreamsAndMeasure(t *testing.T) {
	f := open(t)
	up, down := stream(t, f), stream(t, f)
	start, err := f.NewEvent(0, 0)
	made(t, start, err, (*Event).Destroy)
	end, err := f.NewEvent(0, 0)
	made(t, end, err, (*Event).Destroy)
	const size = 8 << 20
	from, between, to := pinned(t, f, size), device(t, f, size), pinned(t, f, size)
	copy(from.Bytes(), noise(size))
	must(t, up.Record(start))
	must(t, up.Copy(between, from, Line(size)))
	must(t, up.Record(end))
	must(t, down.WaitEvent(end))
	must(t, down.Copy(to, between, Line(size)))
	must(t, end.Synchronize())
	if done, err := end.Query(); err != nil || !done {
		t.Error(done, err)
	}
	must(t, down.Synchronize())
	if elapsed, err := end.Since(start); err != nil || elapsed <= 0 {
		t.Error(elapsed, err)
	}
	if !bytes.Equal(from.Bytes(), to.Bytes()) {
		t.Error("wrong bytes")
	}
}

func TestFillsRepeatTheirPattern(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	memory, err := f.AllocPitched(0, 60, 4, 4)
	made(t, memory, err, (*DeviceMemory).Free)
	must(t, f.Fill(memory.Place().Pitched(0, 0), Line(memory.Size()), []byte{0xee}))
	explanation, err := s.ExplainFill(memory.Place().At(8, 1, 0), Rect(16, 2), []byte{1, 2, 3, 4})
	must(t, err)
	if explanation.Width != 16 || explanation.SourceMemory != MemoryNone {
		t.Error(explanation)
	}
	if _, err = s.ExplainFill(memory, Line(4), make([]byte, 3)); !errors.Is(err, ErrorInvalidArgument) {
		t.Error(err)
	}
	must(t, s.Fill(memory.Place().At(8, 1, 0), Rect(16, 2), []byte{1, 2, 3, 4}))
	must(t, s.Synchronize())
	got := make([]byte, memory.Size())
	must(t, f.Copy(Slice(got), memory.Place().Pitched(0, 0), Line(memory.Size())))
	for i, b := range got {
		x, y, want := uint64(i)%memory.RowPitch(), uint64(i)/memory.RowPitch(), byte(0xee)
		if x >= 8 && x < 24 && y >= 1 && y < 3 {
			want = byte(x%4 + 1)
		}
		if b != want {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	if err := f.Fill(memory, Line(4), make([]byte, 3)); !errors.Is(err, ErrorInvalidArgument) {
		t.Error(err)
	}
	if err := s.Fill(memory, Line(4), make([]byte, 17)); !errors.Is(err, ErrorInvalidArgument) {
		t.Error(err)
	}
	if err := s.Fill(memory.Place().Offset(memory.Size()-3), Line(4), []byte{1}); !errors.Is(err, ErrorOutOfBounds) {
		t.Error(err)
	}
}

func TestPinnedMemoryHasTypes(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	memory := pinned(t, f, 4099)
	numbers := As[float32](memory)
	if len(memory.Bytes()) != 4099 || len(numbers) != 1024 || memory.IsPageable() {
		t.Fatal(len(memory.Bytes()), len(numbers))
	}
	numbers[1023] = 1.5
	to := device(t, f, 4)
	must(t, s.Copy(to, memory.Place().Offset(4092), Line(4)))
	must(t, s.Synchronize())
	var got [1]float32
	must(t, f.Copy(Slice(got[:]), to, Line(4)))
	if got[0] != 1.5 {
		t.Error(got)
	}
	must(t, memory.Free())
	if memory.Bytes() != nil {
		t.Error("bytes of freed memory")
	}
	if err := f.Copy(to, memory, Line(4)); err != ErrClosed {
		t.Error(err)
	}
}

func TestPinnedPoolsReuseBlocksInStreamOrder(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	pool, err := f.NewPinnedPool(PinnedPoolOptions{MaxSize: 1 << 20})
	made(t, pool, err, (*PinnedPool).Destroy)
	to := device(t, f, 1000)
	for i := 0; i < 100; i++ {
		block, err := pool.Alloc(1000)
		must(t, err)
		copy(block.Bytes(), noise(1000))
		must(t, s.Copy(to, block, Line(1000)))
		must(t, block.FreeOn(s))
	}
	block, err := pool.AllocOn(s, 1000)
	must(t, err)
	must(t, s.Copy(block, to, Line(1000)))
	must(t, s.Synchronize())
	if !bytes.Equal(block.Bytes(), noise(1000)) {
		t.Error("wrong bytes")
	}
	if _, err := pool.Alloc(2 << 20); !errors.Is(err, ErrorLimit) {
		t.Error(err)
	}
	if err := pool.Destroy(); !errors.Is(err, ErrorInUse) {
		t.Error(err)
	}
	stats, err := pool.Stats()
	if err != nil || stats.UsedCurrent == 0 {
		t.Error(stats, err)
	}
	must(t, block.Free())
	must(t, pool.ResetStats())
	must(t, pool.Trim(0))
}

func TestArraysHaveLevelsLayersAndPlanes(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	shape := ArrayDesc{Format: FormatFloat, Channels: 4, Width: 8, Height: 8, Depth: 3, Flags: ArrayLayered}
	array, err := f.NewArray(0, shape)
	made(t, array, err, (*Array).Destroy)
	if got, size, err := array.Info(); err != nil || got != shape || size != 16 {
		t.Error(got, size, err)
	}
	sent, got := noise(128), make([]byte, 128)
	must(t, f.Copy(array.Place().Layer(2), Slice(sent), Rect(128, 1)))
	must(t, f.Copy(Slice(got), array.Place().At(0, 0, 2), Rect(128, 1)))
	if !bytes.Equal(sent, got) {
		t.Error("wrong bytes")
	}
	if err := f.Copy(array.Place().Layer(3), Slice(sent), Rect(128, 1)); !errors.Is(err, ErrorOutOfBounds) {
		t.Error(err)
	}
	mipmapped, err := f.NewMipmappedArray(0, ArrayDesc{Format: FormatUint8, Channels: 1, Width: 8, Height: 8}, 0)
	must(t, err)
	level, err := mipmapped.Level(1)
	must(t, err)
	if got, _, err := level.Info(); err != nil || got.Width != 4 {
		t.Error(got, err)
	}
	if err := level.Destroy(); err != ErrClosed {
		t.Error(err)
	}
	must(t, mipmapped.DestroyOn(s))
	plain, err := f.NewArray(0, ArrayDesc{Format: FormatUint8, Channels: 1, Width: 8, Height: 8})
	must(t, err)
	must(t, plain.DestroyOn(s))
	must(t, s.Synchronize())
	if info, err := f.DeferredInfo(0); err != nil || info.Arrays != 2 {
		t.Error(info, err)
	}
	must(t, f.TrimDeferred(0, 0))
}

func TestExplanationsTellTheRoute(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	from, to := pinned(t, f, 4096), device(t, f, 4096)
	explanation, err := s.Explain(to, from, Line(4096))
	if err != nil || explanation.Route != RouteDriver || explanation.Blocks != BlocksNo ||
		explanation.DestinationMemory != MemoryDevice || !strings.HasPrefix(explanation.String(), "driver route") {
		t.Error(explanation, err)
	}
	explanation, err = f.Explain(to, Slice(make([]byte, 4096)), Line(4096), RouteDriver)
	if err != nil || explanation.SourceMemory != MemoryPageable || explanation.KernelObstacle.String() == "" {
		t.Error(explanation, err)
	}
	if _, err = f.Explain(to, from, Line(4096), CopyNoKernels, RouteKernel); !errors.Is(err, ErrorRoute) {
		t.Error(err)
	}
}

func TestDevicesAndPeers(t *testing.T) {
	f := open(t)
	report, err := f.Report()
	if err != nil || report.Driver != DriverSoftware || report.DeviceCount != 2 {
		t.Errorf("%+v %v", report, err)
	}
	info, err := f.Device(1)
	if err != nil || info.Name == "" || !info.IsSoftware || info.Device != 1 || info.TotalMemory == 0 {
		t.Errorf("%+v %v", info, err)
	}
	if found, err := f.FindDevice(info.UUID); err != nil || found != 1 {
		t.Error(found, err)
	}
	if _, err := f.FindDeviceByLUID([8]byte{1}); err == nil {
		t.Error("found a device")
	}
	if names, err := f.MissingEntryPoints(); err != nil || uint32(len(names)) != report.MissingCount {
		t.Error(names, err)
	}
	must(t, f.ProbePeer(0, 1))
	must(t, f.EnablePeer(0, 1))
	if peer, err := f.PeerInfo(0, 1); err != nil || !peer.CanAccess || peer.Probe != ProbePassed {
		t.Error(peer, err)
	}
	must(t, f.SetHelpers(0, nil, 0))
	if err := f.SetHelpers(0, []int{0}, 0); !errors.Is(err, ErrorDevice) {
		t.Error(err)
	}
	must(t, f.DisablePeer(0, 1))
	must(t, f.PrepareStaging(0))
	if staging, err := f.StagingInfo(); err != nil || staging.Threads == 0 {
		t.Error(staging, err)
	}
	must(t, f.TrimStaging())
	must(t, f.Synchronize(1))
	profile, err := f.Profile(0)
	must(t, err)
	must(t, f.LoadProfile(profile))
	if err := f.LoadProfile("no profile"); !errors.Is(err, ErrorProfile) {
		t.Error(err)
	}
	managed, err := f.AllocManaged(0, 4096)
	made(t, managed, err, (*DeviceMemory).Free)
	if info, err := f.AddressInfo(managed); err != nil || info.Memory != MemoryManaged || info.RangeSize != 4096 {
		t.Error(info, err)
	}
	if Version() != VersionMajor*10000+VersionMinor*100+VersionPatch {
		t.Error(Version())
	}
}

func TestStreamOrderedMemory(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	memory, err := s.Alloc(0, 4096)
	must(t, err)
	must(t, s.Fill(memory, Line(4096), []byte{7}))
	must(t, memory.FreeOn(s))
	plain, err := f.Alloc(0, 4096)
	must(t, err)
	must(t, plain.FreeOn(s))
	host, err := f.AllocPinned(4096, HostOptions{})
	must(t, err)
	must(t, host.FreeOn(s))
	for _, free := range []func(*Stream) error{memory.FreeOn, plain.FreeOn, host.FreeOn} {
		if err := free(s); err != ErrClosed {
			t.Error(err)
		}
	}
	must(t, s.Synchronize())
	if info, err := f.DeferredInfo(DeviceUnknown); err != nil || info.Allocations != 2 {
		t.Error(info, err)
	}
}

func TestPoolsAllocateInStreamOrder(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	pool, err := f.NewPool(PoolDesc{Location: LocationDevice, Index: 0, MaxSize: 1 << 20})
	made(t, pool, err, (*Pool).Destroy)
	attributes, err := pool.Attributes()
	must(t, err)
	attributes.ReuseOpportunistic, attributes.ReleaseThreshold = false, 1<<16
	must(t, pool.SetAttributes(attributes))
	if got, err := pool.Attributes(); err != nil || got != attributes {
		t.Errorf("%+v %v", got, err)
	}
	memory, err := s.AllocFrom(pool, 4096)
	must(t, err)
	must(t, s.Fill(memory, Line(4096), []byte{7}))
	if err := pool.Destroy(); !errors.Is(err, ErrorInUse) {
		t.Error(err)
	}
	if stats, err := pool.Stats(); err != nil || stats.UsedCurrent == 0 {
		t.Errorf("%+v %v", stats, err)
	}
	got := make([]byte, 4096)
	must(t, s.Synchronize())
	must(t, f.Copy(Slice(got), memory, Line(4096)))
	if got[4095] != 7 {
		t.Error("wrong bytes")
	}
	must(t, memory.FreeOn(s))
	must(t, s.Synchronize())
	must(t, pool.ResetStats())
	must(t, pool.Trim(0))
	must(t, pool.SetAccess(1, AccessReadWrite))
	if access, err := pool.Access(1); err != nil || access != AccessReadWrite {
		t.Error(access, err)
	}
	before, err := f.CurrentPool(LocationDevice, 0)
	must(t, err)
	must(t, f.SetCurrentPool(LocationDevice, 0, pool))
	must(t, f.SetCurrentPool(LocationDevice, 0, before))
	standard, err := f.DefaultPool(LocationDevice, 0)
	must(t, err)
	if info, err := standard.Info(); err != nil || !info.IsDefault {
		t.Errorf("%+v %v", info, err)
	}
	if err := standard.Destroy(); err != ErrClosed {
		t.Error(err)
	}
}

// The test runs itself as the other process, which finds the handles in its environment.
func TestAnotherProcessSeesMemoryAndEvents(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	if os.Getenv("FERRY_GO_MEMORY") != "" {
		var memoryHandle, eventHandle IPCHandle
		for name, handle := range map[string]*IPCHandle{"FERRY_GO_MEMORY": &memoryHandle, "FERRY_GO_EVENT": &eventHandle} {
			_, err := hex.Decode(handle[:], []byte(os.Getenv(name)))
			must(t, err)
		}
		event, err := f.ImportEvent(eventHandle)
		must(t, err)
		memory, err := f.ImportMemory(memoryHandle)
		must(t, err)
		must(t, s.WaitEvent(event))
		must(t, s.Fill(memory.Place().Offset(1), Line(50), []byte{8}))
		must(t, s.Synchronize())
		if err := f.Copy(memory, Slice(make([]byte, 101)), Line(101)); !errors.Is(err, ErrorOutOfBounds) {
			t.Error(err)
		}
		if err := memory.Free(); !errors.Is(err, ErrorImported) {
			t.Error(err)
		}
		must(t, memory.FreeOn(s))
		must(t, event.Destroy())
		return
	}
	memory := device(t, f, 100)
	event, err := f.NewEvent(0, EventInterprocess|EventDisableTiming)
	made(t, event, err, (*Event).Destroy)
	must(t, s.Fill(memory, Line(100), []byte{7}))
	must(t, s.Record(event))
	memoryHandle, err := f.ExportMemory(memory, 100)
	must(t, err)
	if info, err := f.IPCInfo(memoryHandle); err != nil || info.Size != 100 || info.Kind != IPCMemory || !info.IsOwn {
		t.Errorf("%+v %v", info, err)
	}
	eventHandle, err := event.Export()
	must(t, err)
	other := exec.Command(os.Args[0], "-test.run", "^TestAnotherProcessSeesMemoryAndEvents$")
	other.Env = append(os.Environ(), fmt.Sprintf("FERRY_GO_MEMORY=%x", memoryHandle),
		fmt.Sprintf("FERRY_GO_EVENT=%x", eventHandle))
	if out, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := make([]byte, 100)
	must(t, f.Copy(Slice(got), memory, Line(100)))
	if got[0] != 7 || got[1] != 8 || got[50] != 8 || got[51] != 7 {
		t.Error(got)
	}

	pool, err := f.NewPool(PoolDesc{Location: LocationDevice, HandleTypes: HandlePosixFD})
	made(t, pool, err, (*Pool).Destroy)
	poolHandle, descriptor, err := pool.Export(HandlePosixFD)
	must(t, err)
	must(t, os.NewFile(uintptr(descriptor), "pool").Close())
	same, err := f.ImportPool(poolHandle, -1)
	must(t, err)
	must(t, same.Destroy())
	if _, err := f.ImportMemory(IPCHandle{}); !errors.Is(err, ErrorHandle) {
		t.Error(err)
	}
}

// A stream that is 1 or 2 must never be in a pointer of Go: a growing stack would find it.
func TestDefaultStreamsAreNoPointers(t *testing.T) {
	f := open(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from, to := pinned(t, f, 100), device(t, f, 100)
	for _, s := range []*Stream{f.LegacyStream(), f.PerThreadStream(), f.ForeignStream(stream(t, f).Handle())} {
		must(t, s.Copy(to, from, Line(100)))
		growStack(100)
		runtime.GC()
		must(t, s.Synchronize())
		if err := s.Destroy(); err != ErrClosed {
			t.Error(err)
		}
	}
}

func growStack(depth int) byte {
	var local [1024]byte
	if depth > 0 {
		local[depth] = growStack(depth - 1)
	}
	return local[depth]
}

func TestASliceInsideAStructWithPointersIsFine(t *testing.T) {
	f := open(t)
	memory := device(t, f, 8)
	holder := &struct {
		pointer *int
		numbers [8]byte
	}{new(int), [8]byte{1, 2, 3}}
	must(t, f.Copy(memory, Slice(holder.numbers[:]), Line(8)))
	var onStack [8]byte
	must(t, f.Copy(Slice(onStack[:]), memory, Line(8)))
	if onStack != holder.numbers {
		t.Error(onStack)
	}
}

func TestCloseRefusesWhileObjectsAreOpen(t *testing.T) {
	f, err := Open(Options{Driver: DriverSoftware, SoftwareDevices: 2})
	must(t, err)
	memory, err := f.Alloc(0, 100)
	must(t, err)
	s, err := f.NewStream(0, 0, 0)
	must(t, err)
	legacy := f.LegacyStream()
	var e *OpenError
	if err := f.Close(); !errors.As(err, &e) || e.Objects["device memory"] != 1 || e.Objects["stream"] != 1 {
		t.Error(err)
	}
	must(t, memory.Free())
	if err := memory.Free(); err != ErrClosed {
		t.Error(err)
	}
	must(t, s.Destroy())
	must(t, f.Close())
	_, allocError := f.Alloc(0, 1)
	_, reportError := f.Report()
	for _, err := range []error{f.Close(), s.Synchronize(), legacy.Synchronize(), memory.FreeOn(s), allocError,
		reportError, f.Copy(memory, memory, Line(1))} {
		if err != ErrClosed {
			t.Error(err)
		}
	}
}

func TestManyGoroutinesCopyAtOnce(t *testing.T) {
	f := open(t)
	var group sync.WaitGroup
	for i := 0; i < 24; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			if err := roundTrips(f, i%2, uint64(1000+100*i)); err != nil {
				t.Error(err)
			}
		}(i)
	}
	group.Wait()
}

func roundTrips(f *Instance, device int, size uint64) error {
	s, err := f.NewStream(device, StreamNonBlocking, 0)
	if err != nil {
		return err
	}
	defer s.Destroy()
	memory, err := f.Alloc(device, size)
	if err != nil {
		return err
	}
	defer memory.Free()
	host, err := f.AllocPinned(size, HostOptions{})
	if err != nil {
		return err
	}
	defer host.Free()
	for i := 0; i < 20; i++ {
		sent, got := noise(size + uint64(i))[:size], make([]byte, size)
		if err := f.Copy(memory, Slice(sent), Line(size)); err != nil {
			return err
		}
		if err := s.Copy(host, memory, Line(size)); err != nil {
			return err
		}
		done, err := s.Done()
		if err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		if err := f.Copy(Slice(got), host, Line(size)); err != nil {
			return err
		}
		if !bytes.Equal(sent, got) {
			return errors.New("wrong bytes")
		}
	}
	return nil
}

func TestAFreeBesideACopyIsRefusedOrComesLater(t *testing.T) {
	f := open(t)
	data := make([]byte, 1<<16)
	for i := 0; i < 50; i++ {
		memory, err := f.Alloc(0, 1<<16)
		must(t, err)
		var group sync.WaitGroup
		for j := 0; j < 4; j++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for n := 0; n < 20; n++ {
					if err := f.Copy(memory, Slice(data), Line(1<<16)); err != nil && err != ErrClosed {
						t.Error(err)
					}
				}
			}()
		}
		for err = ErrBusy; err == ErrBusy; err = memory.Free() {
			runtime.Gosched()
		}
		must(t, err)
		group.Wait()
	}
}

func TestTheLogIsWrittenInGo(t *testing.T) {
	var lines []string
	f, err := Open(Options{Driver: DriverAuto, StagingCPUs: []int32{0},
		Log: func(level LogLevel, message string) { lines = append(lines, message) }})
	must(t, err)
	defer f.Close()
	if report, err := f.Report(); err != nil || report.FallbackReason != Success && len(lines) == 0 {
		t.Error(report, err, lines)
	}
}

// A place of a batch and one of pieces are the same, or both are refused for the same reason.
func TestPiecesAreTheLinesOfABatch(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	const size = 4096
	to, from := device(t, f, size), pinned(t, f, 2*size)
	copy(from.Bytes(), noise(2*size))
	run := func(work Work) ([]byte, error) {
		must(t, f.Fill(to, Line(size), []byte{0}))
		got := make([]byte, size)
		if err := s.Run(work); err != nil {
			return got, err
		}
		must(t, s.Synchronize())
		must(t, f.Copy(Slice(got), to, Line(size)))
		return got, nil
	}
	for _, origin := range [][3]uint64{{0, 0, 0}, {5, 0, 0}, {0, 2, 0}, {0, 0, 2}, {3, 2, 0}, {0, 2, 2}, {9, 0, 1}, {7, 3, 2}} {
		for _, pitches := range [][2]uint64{{0, 0}, {32, 0}, {0, 5}, {32, 5}, {16, 1}, {20, 3}, {1, 1}} {
			for _, length := range []uint64{16, 40, 2048, 0} {
				place := to.Place().Offset(64).Pitched(pitches[0], pitches[1]).At(origin[0], origin[1], origin[2])
				for _, turned := range []bool{false, true} {
					var batch Batch
					var pieces Pieces
					if turned { // the place is the source
						place := from.Place().Offset(64).Pitched(pitches[0], pitches[1]).At(origin[0], origin[1], origin[2])
						batch.Add(to, place, Line(length))
						pieces.Add(to, place, length)
					} else {
						batch.Add(place, from, Line(length))
						pieces.Add(place, from, length)
					}
					wanted, wantedError := run(&batch)
					got, err := run(&pieces)
					var a, b *Error
					differ := errors.As(wantedError, &a) != errors.As(err, &b)
					if a != nil && b != nil {
						of := *a // the copy of the batch is a piece here
						of.Item, of.line = ItemPiece, strings.Replace(a.line, "copy ", "piece ", 1)
						differ = a.Item != ItemCopy || of != *b
					}
					if differ {
						t.Errorf("%d bytes at %v, pitches %v: %v, not %v", length, origin, pitches, err, wantedError)
					} else if !bytes.Equal(got, wanted) {
						t.Errorf("%d bytes at %v, pitches %v: not where the batch writes", length, origin, pitches)
					}
				}
			}
		}
	}
}

func TestAnAddressThatDependsOnTheExtentIsRefused(t *testing.T) {
	f := open(t)
	memory := device(t, f, 4096)
	for _, place := range []Place{memory.Place().At(0, 1, 0), memory.Place().At(0, 0, 1),
		memory.Place().Pitched(64, 0).At(0, 0, 1)} {
		if _, err := f.AddressInfo(place); !errors.Is(err, ErrorPitch) {
			t.Error(err)
		}
		if _, err := f.ExportMemory(place, 1); !errors.Is(err, ErrorPitch) {
			t.Error(err)
		}
	}
	_, err := f.AddressInfo(memory.Place().Pitched(64, 4).At(1, 2, 3))
	must(t, err)
}

func TestLevelsAndPlanesEndWithTheirArray(t *testing.T) {
	f := open(t)
	shape := ArrayDesc{Format: FormatUint8, Channels: 1, Width: 8, Height: 8}
	mipmapped, err := f.NewMipmappedArray(0, shape, 0)
	must(t, err)
	level, err := mipmapped.Level(1)
	must(t, err)
	must(t, f.Copy(level, Slice(make([]byte, 4)), Line(4)))
	must(t, mipmapped.Destroy())
	s := stream(t, f)
	var batch Batch
	batch.Add(level, pinned(t, f, 4), Line(4))
	_, _, infoError := level.Info()
	for _, err := range []error{f.Copy(level, Slice(make([]byte, 4)), Line(4)), infoError, s.Run(&batch)} {
		if err != ErrClosed {
			t.Error(err)
		}
	}
	nv12, err := f.NewArray(0, ArrayDesc{Format: FormatNv12, Channels: 3, Width: 64, Height: 32,
		Flags: ArrayVideo})
	must(t, err)
	plane, err := nv12.Plane(0)
	must(t, err)
	must(t, f.Copy(plane, Slice(make([]byte, 8)), Line(8)))
	must(t, nv12.Destroy())
	if err := f.Copy(plane, Slice(make([]byte, 8)), Line(8)); err != ErrClosed {
		t.Error(err)
	}
}

func TestTheCurrentPoolEndsWithTheOneThatWasCreated(t *testing.T) {
	f := open(t)
	pool, err := f.NewPool(PoolDesc{Location: LocationDevice, Index: 0})
	must(t, err)
	must(t, f.SetCurrentPool(LocationDevice, 0, pool))
	current, err := f.CurrentPool(LocationDevice, 0)
	must(t, err)
	_, err = current.Info()
	must(t, err)
	if err := current.Destroy(); err != ErrClosed {
		t.Error(err)
	}
	must(t, pool.Destroy())
	if _, err := current.Info(); err != ErrClosed {
		t.Error(err)
	}
}

func TestNumbersThatDoNotFitAreRefused(t *testing.T) {
	f := open(t)
	for _, device := range []int{1 << 32, math.MaxInt, math.MinInt, -(1 << 32)} {
		_, allocError := f.Alloc(device, 16)
		_, streamError := f.NewStream(device, 0, 0)
		_, deviceError := f.Device(device)
		_, arrayError := f.NewArray(device, ArrayDesc{Format: FormatUint8, Channels: 1, Width: 8})
		_, poolError := f.NewPool(PoolDesc{Location: LocationDevice, Index: device})
		place := AddressPlace(KindDevice, device, 4096, 16)
		copyError := f.Copy(place, Slice(make([]byte, 16)), Line(16))
		for i, err := range []error{allocError, streamError, deviceError, arrayError, f.EnablePeer(0, device),
			f.SetHelpers(0, []int{device}, 0), poolError, copyError} {
			if !errors.Is(err, ErrorDevice) {
				t.Errorf("device %d, call %d: %v", device, i, err)
			}
		}
	}
	memory := device(t, f, 16)
	if err := f.Fill(memory, Line(16), make([]byte, 1<<32+4)); !errors.Is(err, ErrorInvalidArgument) {
		t.Error(err)
	}
	if _, err := Open(Options{Driver: DriverSoftware, StagingNUMA: NUMANode, StagingNUMANode: 1 << 32}); err == nil {
		t.Error("NUMA node 1 << 32 is another one")
	}
}

// Handles of the software driver would crash NVIDIA's. The test runs itself with the software libcuda in its path.
func TestObjectsOfAnotherDriverAreRefused(t *testing.T) {
	folder := os.Getenv("FERRY_SOFTWARE_LIBCUDA")
	if folder != "" {
		other := exec.Command(os.Args[0], "-test.run", "^TestObjectsOfAnotherDriverAreRefused$")
		other.Env = append(os.Environ(), "FERRY_SOFTWARE_LIBCUDA=", "LD_LIBRARY_PATH="+folder+":"+os.Getenv("LD_LIBRARY_PATH"))
		if out, err := other.CombinedOutput(); err != nil || bytes.Contains(out, []byte("SKIP")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	cuda, err := Open(Options{Driver: DriverCUDA})
	if err != nil {
		t.Skip(err)
	}
	defer cuda.Close()
	software := open(t)
	memory, s := device(t, software, 16), stream(t, software)
	cudaMemory, cudaStream := device(t, cuda, 16), stream(t, cuda)
	var batch Batch
	batch.Add(memory, cudaMemory, Line(16))
	for i, err := range []error{cuda.Copy(memory, Slice(make([]byte, 16)), Line(16)), cudaStream.Copy(cudaMemory, memory, Line(16)),
		s.Copy(memory, cudaMemory, Line(16)), cuda.Run(&batch), s.Run(&batch), cuda.Fill(memory, Line(16), []byte{1}),
		memory.FreeOn(cudaStream), cudaMemory.FreeOn(s)} {
		if err != ErrOtherDriver {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// Sizes around 2 and 4 GiB. Only the largest copy is made whole; its source is never written, so it takes no memory.
func TestSizesAbove32Bits(t *testing.T) {
	const largest = 1<<32 + 5
	f, err := Open(Options{Driver: DriverSoftware, SoftwareMemory: 5 << 30})
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	s := stream(t, f)
	memory, slice := device(t, f, largest), make([]byte, largest)
	first, last := []byte{1, 2, 3, 4, 5, 6, 7, 8}, []byte{11, 12, 13, 14, 15, 16, 17, 18}
	copy(slice, first)
	got := make([]byte, 8)
	for _, size := range []uint64{1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 1, 1 << 32, largest} {
		if _, err := f.Explain(memory, Slice(slice), Line(size)); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		for _, err := range []error{f.Copy(memory, Slice(slice[:size-1]), Line(size)),
			f.Copy(memory.Place().Offset(largest-size+1), Slice(slice), Line(size))} {
			var e *Error
			if !errors.As(err, &e) || e.Status != ErrorOutOfBounds || e.Value != size || e.Limit != size-1 {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		// As the last row of a box whose rows are far apart.
		const height = 3
		pitch := size / (height - 1)
		if pitch < 1<<31 {
			copy(slice[pitch*(height-1)-8:], last)
			box := Slice(slice).Pitched(pitch, 0).At(pitch-8, 0, 0)
			must(t, f.Copy(memory.Place().Pitched(pitch, 0).At(pitch-8, 0, 0), box, Rect(8, height-1)))
			must(t, f.Copy(Slice(got), memory.Place().Offset(pitch*(height-1)-8), Line(8)))
			if !bytes.Equal(got, last) {
				t.Errorf("rows %d bytes apart: %v", pitch, got)
			}
		}
		var pieces Pieces
		must(t, s.Fill(memory.Place().Offset(size-8), Line(8), []byte{9}))
		pieces.Add(memory.Place().Offset(size-4), memory.Place().Offset(size-8), 4)
		must(t, s.Run(&pieces))
		must(t, s.Synchronize())
	}
	copy(slice[largest-8:], last)
	must(t, f.Copy(memory, Slice(slice), Line(largest), RouteDriver))
	for offset, want := range map[uint64][]byte{0: first, largest - 8: last} {
		must(t, f.Copy(Slice(got), memory.Place().Offset(offset), Line(8)))
		if !bytes.Equal(got, want) {
			t.Errorf("at %d: %v", offset, got)
		}
	}
	for _, size := range []uint64{1 << 63, math.MaxUint64} {
		if _, err := f.Alloc(0, size); err == nil {
			t.Errorf("allocated %d bytes", size)
		}
		if _, err := f.AllocPinned(size, HostOptions{}); err == nil {
			t.Errorf("allocated %d bytes", size)
		}
		if err := f.Copy(memory, Slice(slice), Line(size)); !errors.Is(err, ErrorOutOfBounds) {
			t.Error(err)
		}
		var pieces Pieces
		pieces.Add(memory, AddressPlace(KindHost, 0, 4096, math.MaxUint64), size)
		if err := s.Run(&pieces); !errors.Is(err, ErrorOutOfBounds) {
			t.Error(err)
		}
	}
	if _, err := f.AllocPitched(0, 1<<33, 1<<33, 4); err == nil {
		t.Error("allocated 1 << 66 bytes")
	}
}
