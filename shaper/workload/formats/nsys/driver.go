// SPDX-License-Identifier: Apache-2.0

//go:build !ddlemu_demo

package nsys

// It takes a quarter of the time that the Go code of the command takes to compile, so `make demo` leaves it out.
import _ "modernc.org/sqlite"
