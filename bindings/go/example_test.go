package ferry_test

import (
	"bytes"
	"fmt"
	"log"

	"ferry"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func value[T any](value T, err error) T {
	must(err)
	return value
}

// A Go slice goes to the device and back, by calls that wait.
func Example_upload() {
	f := value(ferry.Open(ferry.Options{Driver: ferry.DriverAuto})) // the software driver if there is no GPU
	defer f.Close()
	memory := value(f.Alloc(0, 4000))
	defer memory.Free()

	sent, received := make([]float32, 1000), make([]float32, 1000)
	sent[999] = 1.5
	must(f.Copy(memory, ferry.Slice(sent), ferry.Line(4000)))
	must(f.Copy(ferry.Slice(received), memory, ferry.Line(4000)))
	fmt.Println(received[999])
	// Output: 1.5
}

// A box of an image goes into a box of an array. X, width and pitch are bytes.
func Example_box() {
	f := value(ferry.Open(ferry.Options{Driver: ferry.DriverAuto}))
	defer f.Close()
	array := value(f.NewArray(0, ferry.ArrayDesc{Format: ferry.FormatUint8, Channels: 4, Width: 256, Height: 256}))
	defer array.Destroy()

	const texel, width, height = 4, 640, 480
	image, back := make([]byte, texel*width*height), make([]byte, texel*64*32)
	image[texel*(100+50*width)] = 42
	from := ferry.Slice(image).Pitched(texel*width, height).At(100*texel, 50, 0)
	box := array.Place().At(16*texel, 8, 0)
	must(f.Copy(box, from, ferry.Rect(64*texel, 32)))
	must(f.Copy(ferry.Slice(back), box, ferry.Rect(64*texel, 32)))
	fmt.Println(back[0])
	// Output: 42
}

// Many copies in one call, from pinned memory. A copy that does not fit is named.
func Example_batch() {
	f := value(ferry.Open(ferry.Options{Driver: ferry.DriverAuto}))
	defer f.Close()
	stream := value(f.NewStream(0, ferry.StreamNonBlocking, 0))
	defer stream.Destroy()
	from, to := value(f.AllocPinned(256000, ferry.HostOptions{})), value(f.Alloc(0, 256000))
	defer from.Free()
	defer to.Free()

	var pieces ferry.Pieces
	for i := uint64(0); i < 1000; i++ {
		pieces.Add(to.Place().Offset(256*(999-i)), from.Place().Offset(256*i), 256)
	}
	must(stream.Run(&pieces))
	must(stream.Synchronize())
	pieces.Add(to.Place().Offset(255999), from, 2)
	fmt.Println(stream.Run(&pieces))
	// Output: ferry: piece 1000: destination.width: 2, past the end at 1 (FERRY_ERROR_OUT_OF_BOUNDS)
}

// Each frame fills a block of a pinned pool, uploads it and frees it in the order of the stream. Nothing waits but the
// pace of two frames in flight.
func Example_frameLoop() {
	f := value(ferry.Open(ferry.Options{Driver: ferry.DriverAuto}))
	defer f.Close()
	stream := value(f.NewStream(0, ferry.StreamNonBlocking, 0))
	defer stream.Destroy()
	pool := value(f.NewPinnedPool(ferry.PinnedPoolOptions{MaxSize: 1 << 20}))
	defer pool.Destroy()
	texture := value(f.NewArray(0, ferry.ArrayDesc{Format: ferry.FormatUint32, Channels: 1, Width: 64, Height: 64}))
	defer texture.Destroy()

	var inFlight []<-chan error
	for frame := 0; frame < 60; frame++ {
		block := value(pool.Alloc(64 * 64 * 4))
		copy(block.Bytes(), bytes.Repeat([]byte{byte(frame)}, 64*64*4))
		must(stream.Copy(texture, block, ferry.Rect(64*4, 64)))
		must(block.FreeOn(stream))
		inFlight = append(inFlight, value(stream.Done()))
		if len(inFlight) > 2 {
			must(<-inFlight[0])
			inFlight = inFlight[1:]
		}
	}
	must(stream.Synchronize())
	texel := make([]uint32, 1)
	must(f.Copy(ferry.Slice(texel), texture, ferry.Line(4)))
	fmt.Printf("%#x\n", texel[0])
	// Output: 0x3b3b3b3b
}
