package main

import "ferry"

func main() {
	var stream *ferry.Stream
	_ = stream.Fill(ferry.Slice([]byte{1}), ferry.Line(1), []byte{0})
}
