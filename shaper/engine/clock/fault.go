// SPDX-License-Identifier: Apache-2.0

//go:build ddlemu_faults

package clock

// #cgo CFLAGS: -DDDLEMU_FAULTS
import "C"
