// SPDX-License-Identifier: Apache-2.0

// A second Go library in the process.
package main

import "C"

import "runtime"

//export work
func work(n C.int) C.int {
	parts := make(chan int)
	for i := range int(n) {
		go func() { parts <- len(make([]byte, i)) }()
	}
	sum := 0
	for range int(n) {
		sum += <-parts
	}
	runtime.GC()
	return C.int(sum)
}

// recovered reports 1 when a fault in this library becomes its own panic.
//
//export recovered
func recovered() (result C.int) {
	defer func() {
		if recover() != nil {
			result = 1
		}
	}()
	var nowhere *int
	return C.int(*nowhere)
}

func main() {}
