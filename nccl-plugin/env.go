// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import "unsafe"

// getenv reads the environment of the host process. os.Getenv would miss what it
// set after its start: a Go library copies the environment at load.
func getenv(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.GoString(C.net_getenv(n))
}

// environ is the environment of the host process, as NAME=VALUE. NCCL has added what its files set.
func environ() (all []string) {
	for i := C.int(0); ; i++ {
		entry := C.net_environ(i)
		if entry == nil {
			return all
		}
		all = append(all, C.GoString(entry))
	}
}
