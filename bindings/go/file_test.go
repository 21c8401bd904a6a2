package ferry

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func fileWith(t *testing.T, contents []byte) string {
	path := filepath.Join(t.TempDir(), "fähre.bin")
	must(t, os.WriteFile(path, contents, 0o600))
	return path
}

func openFile(t *testing.T, f *Instance, path string, flags FileFlags) *File {
	t.Helper()
	file, err := f.OpenFile(path, FileOptions{Flags: flags})
	return made(t, file, err, (*File).Close)
}

func contentsOf(t *testing.T, path string) []byte {
	contents, err := os.ReadFile(path)
	must(t, err)
	return contents
}

func download(t *testing.T, f *Instance, memory *DeviceMemory) []byte {
	received := make([]byte, memory.Size())
	must(t, f.Copy(Slice(received), memory, Line(memory.Size())))
	return received
}

// failed returns the error of ferry, which must have these details.
func failed(t *testing.T, err error, status Status, side Side, field Field) *Error {
	t.Helper()
	details, _ := err.(*Error)
	if details == nil || details.Status != status || details.Side != side || details.Field != field {
		t.Fatalf("%v, not %v of side %d and field %d", err, status, side, field)
	}
	return details
}

func TestABoxGoesToAFileAndBackAndChangesNothingAroundIt(t *testing.T) {
	f := open(t)
	s := stream(t, f)
	here, there := geometry{700, 40, 3, 11, 5, 1}, geometry{500, 24, 3, 7, 2, 1}
	extent, sent, before := Box(300, 20, 2), noise(here.size()), noise(there.size()+5000)
	from, to := device(t, f, here.size()), device(t, f, here.size())
	must(t, f.Copy(from, Slice(sent), Line(here.size())))
	at := func(m *DeviceMemory) Place {
		return m.Place().Pitched(here.pitch, here.height).At(here.x, here.y, here.z)
	}
	for name, run := range map[string]func(destination, source Memory) error{
		"now": func(destination, source Memory) error { return f.Copy(destination, source, extent) },
		"ticket": func(destination, source Memory) error {
			ticket, err := s.CopyTicket(destination, source, extent)
			if err != nil {
				return err
			}
			defer ticket.Release()
			if err := ticket.Wait(context.Background()); err != nil {
				return err
			}
			info, err := ticket.Info()
			if info.BytesDone != 300*20*2 || info.FileError != 0 || info.FileOffset != 0 {
				t.Errorf("%+v", info)
			}
			return err
		},
	} {
		path := fileWith(t, before)
		file := openFile(t, f, path, FileRead|FileWrite)
		box := file.Place().Offset(4096).Pitched(there.pitch, there.height).At(there.x, there.y, there.z)
		must(t, f.Fill(to, Line(here.size()), []byte{0}))
		must(t, run(box, at(from)))
		must(t, run(at(to), box))
		expected, expectedFile := make([]byte, here.size()), append([]byte(nil), before...)
		for z := uint64(0); z < extent.Depth; z++ {
			for y := uint64(0); y < extent.Height; y++ {
				inside := ((here.z+z)*here.height+here.y+y)*here.pitch + here.x
				row := sent[inside : inside+extent.Width]
				copy(expected[inside:], row)
				copy(expectedFile[4096+((there.z+z)*there.height+there.y+y)*there.pitch+there.x:], row)
			}
		}
		if !bytes.Equal(contentsOf(t, path), expectedFile) || !bytes.Equal(download(t, f, to), expected) {
			t.Errorf("%s: wrong bytes", name)
		}
	}
}

func TestAFileIsMadeAndItsOldBytesAreRemoved(t *testing.T) {
	f := open(t)
	memory, path := device(t, f, 1000), filepath.Join(t.TempDir(), "new")
	must(t, f.Fill(memory, Line(1000), []byte{7}))
	for i := 0; i < 2; i++ {
		file := openFile(t, f, path, FileWrite|FileCreate|FileTruncate)
		if info, err := file.Info(); err != nil || info.Size != 0 || info.Flags != FileWrite {
			t.Errorf("%+v %v", info, err)
		}
		must(t, f.Copy(file.Place().Offset(5), memory, Line(1000)))
		if info, err := file.Info(); err != nil || info.Size != 1005 {
			t.Errorf("%+v %v", info, err)
		}
		if !bytes.Equal(contentsOf(t, path), append(make([]byte, 5), bytes.Repeat([]byte{7}, 1000)...)) {
			t.Error("wrong bytes")
		}
		must(t, os.WriteFile(path, make([]byte, 5000), 0o600))
	}
}

func TestCloseClosesTheFileForTheSystem(t *testing.T) {
	path := fileWith(t, noise(10))
	count := func() (count int) {
		links, err := filepath.Glob("/proc/self/fd/*")
		must(t, err)
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == path {
				count++
			}
		}
		return count
	}
	file := openFile(t, open(t), path, 0)
	if links := count(); links != 1 {
		t.Error(links)
	}
	must(t, file.Close())
	if links := count(); links != 0 {
		t.Error(links)
	}
}

func TestPiecesOfAFileAreOneCopy(t *testing.T) {
	f := open(t)
	s, content := stream(t, f), noise(300_000)
	file := openFile(t, f, fileWith(t, content), 0)
	offsets, sizes := []uint64{299_999, 0, 1000, 1007, 100_000}, []uint64{1, 1000, 7, 65_536, 12_345}
	for _, isAsync := range []bool{false, true} {
		var pieces Pieces
		var tensors []*DeviceMemory
		for i, offset := range offsets {
			tensors = append(tensors, device(t, f, sizes[i]))
			pieces.Add(tensors[i], file.Place().Offset(offset), sizes[i])
		}
		if isAsync {
			ticket, err := s.RunTicket(&pieces)
			made(t, ticket, err, (*Ticket).Release)
			must(t, ticket.Wait(context.Background()))
			explanation, err := s.ExplainRun(&pieces)
			if err != nil || explanation.Staged.Copies != uint64(len(sizes)) {
				t.Errorf("%+v %v", explanation, err)
			}
		} else {
			must(t, f.Run(&pieces))
		}
		for i, offset := range offsets {
			if !bytes.Equal(download(t, f, tensors[i]), content[offset:offset+sizes[i]]) {
				t.Errorf("piece %d has wrong bytes", i)
			}
		}
	}
}

func TestPiecesRefuseSourcesOfTwoFilesAndDestinationsInAFile(t *testing.T) {
	f := open(t)
	path, memory := fileWith(t, noise(100)), device(t, f, 10)
	file, other := openFile(t, f, path, 0), openFile(t, f, path, 0)
	for _, second := range []Memory{other, memory} {
		var pieces Pieces
		pieces.Add(memory, file, 10)
		pieces.Add(memory, second, 10)
		if err := failed(t, f.Run(&pieces), ErrorHandle, SidePieces, FieldSourceFile); err.Index != 1 {
			t.Error(err)
		}
	}
	var pieces Pieces
	pieces.Add(file, memory, 10)
	failed(t, f.Run(&pieces), ErrorOtherKind, SideDestination, FieldKind)
	pieces.Reset()
	pieces.Add(memory, file, 10)
	s := stream(t, f)
	_, err := s.Prepare(&pieces)
	failed(t, err, ErrorUnsupported, SidePieces, FieldSourceFile)
	pieces.Reset()
	pieces.Add(memory, device(t, f, 10), 10)
	prepared, err := s.Prepare(&pieces, CopyUpdatable)
	made(t, prepared, err, (*Prepared).Destroy)
	pieces.Reset()
	pieces.Add(memory, file, 10)
	failed(t, s.SetAddresses(prepared, &pieces), ErrorUnsupported, SidePieces, FieldSourceFile)
}

func TestAFileOfTheProgramKeepsItsPositionAndMayBeClosed(t *testing.T) {
	f := open(t)
	content, memory := noise(1000), device(t, f, 100)
	path := fileWith(t, content)
	own, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer own.Close()
	_, err = own.Seek(50, io.SeekStart)
	must(t, err)
	opened, err := f.OpenDescriptor(own, FileOptions{})
	file := made(t, opened, err, (*File).Close)
	if info, err := file.Info(); err != nil || info.Size != 1000 || info.Flags != FileRead|FileWrite {
		t.Errorf("%+v %v", info, err)
	}
	must(t, f.Copy(memory, file.Place().Offset(3), Line(100)))
	if !bytes.Equal(download(t, f, memory), content[3:103]) {
		t.Error("wrong bytes")
	}
	if position, err := own.Seek(0, io.SeekCurrent); err != nil || position != 50 {
		t.Error(position, err)
	}
	must(t, own.Close())
	must(t, f.Copy(file.Place().Offset(200), memory, Line(100)))
	if !bytes.Equal(contentsOf(t, path)[200:300], content[3:103]) {
		t.Error("wrong bytes")
	}
	if _, err := f.OpenDescriptor(own, FileOptions{}); err == nil {
		t.Error("a closed file was opened")
	}
}

// The size of every file in sysfs is 4096 bytes, but this file ends earlier.
func TestAFileThatEndsEarlyFailsItsTicketAndItsCopy(t *testing.T) {
	const path = "/sys/devices/system/cpu/online"
	f := open(t)
	s, memory, end := stream(t, f), device(t, f, 100), uint64(len(contentsOf(t, path)))
	file := openFile(t, f, path, FileRead)
	from := file.Place().Offset(1)
	ticket, err := s.CopyTicket(memory, from, Line(100))
	made(t, ticket, err, (*Ticket).Release)
	for _, err := range []error{ticket.Wait(context.Background()), f.Copy(memory, from, Line(100))} {
		details, _ := err.(*Error)
		if details == nil || details.Status != ErrorFile || details.FileError() != FileEnded || details.Limit != end {
			t.Error(err)
		}
	}
	info, err := ticket.Info()
	if err != nil || info.Status != ErrorFile || info.FileError != FileEnded || info.FileOffset != end {
		t.Errorf("%+v %v", info, err)
	}
	must(t, s.Synchronize()) // the stream goes on
	must(t, ticket.Cancel()) // it has ended
	ofMemory, err := s.CopyTicket(device(t, f, 100), memory, Line(100))
	made(t, ofMemory, err, (*Ticket).Release)
	if refused, _ := ofMemory.Cancel().(*Error); refused == nil || refused.Field != FieldTicket {
		t.Error(refused)
	}
}

func TestWhatCannotBeOpenedOrCopiedIsNamed(t *testing.T) {
	f := open(t)
	s, memory, folder := stream(t, f), device(t, f, 100), t.TempDir()
	_, err := f.OpenFile(filepath.Join(folder, "missing"), FileOptions{})
	if details := failed(t, err, ErrorFile, SideNone, FieldPath); details.FileError() != int(syscall.ENOENT) {
		t.Error(details)
	}
	_, err = f.OpenFile(folder, FileOptions{})
	if details := failed(t, err, ErrorHandle, SideNone, FieldPath); details.FileError() != 0 {
		t.Error(details)
	}
	if _, err := f.OpenFile("a\x00b", FileOptions{}); err != syscall.EINVAL {
		t.Error(err)
	}
	_, err = f.OpenFile(filepath.Join(folder, "new"), FileOptions{Flags: FileCreate})
	failed(t, err, ErrorFlags, SideOptions, FieldFlags)
	end, pipe, err := os.Pipe()
	must(t, err)
	defer end.Close()
	defer pipe.Close()
	_, err = f.OpenDescriptor(end, FileOptions{})
	failed(t, err, ErrorHandle, SideNone, FieldOSHandle)

	file := openFile(t, f, fileWith(t, noise(1000)), 0)
	err = f.Copy(memory, file.Place().Offset(901), Line(100))
	details := failed(t, err, ErrorOutOfBounds, SideSource, FieldOffset)
	if details.Value != 1001 || details.Limit != 1000 {
		t.Error(details)
	}
	failed(t, f.Copy(file, memory, Line(100)), ErrorHandle, SideDestination, FieldFile)
	here := make([]byte, 100)
	must(t, f.Copy(Slice(here), file, Line(100)))
	if !bytes.Equal(here, noise(1000)[:100]) {
		t.Error(here)
	}
	failed(t, s.Copy(memory, file, Line(100)), ErrorInvalidArgument, SideNone, FieldTicket)
	failed(t, f.Copy(memory, file.Place().Offset(1<<63).Offset(1<<63), Line(1)), ErrorOutOfBounds, SideSource, FieldWidth)
	if open := f.OpenObjects()["file"]; open != 1 {
		t.Error(open, "files are open")
	}
	must(t, file.Close())
	if open := f.OpenObjects()["file"]; open != 0 {
		t.Error(open, "files are open")
	}
	if err := f.Copy(memory, file, Line(100)); err != ErrClosed {
		t.Error(err)
	}
	if _, err := file.Info(); err != ErrClosed {
		t.Error(err)
	}
}
