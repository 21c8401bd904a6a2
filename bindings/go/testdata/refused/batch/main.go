package main

import "ferry"

func main() {
	var batch ferry.Batch
	var memory *ferry.DeviceMemory
	batch.Add(ferry.Slice([]byte{1}), memory, ferry.Line(1))
}
