package main

import "ferry"

func main() {
	var stream *ferry.Stream
	var memory *ferry.DeviceMemory
	_ = stream.Copy(memory, ferry.Slice([]byte{1}), ferry.Line(1))
}
