package main

import "ferry"

func main() {
	ferry.Slice([]*int{nil})
}
