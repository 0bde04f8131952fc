// SPDX-License-Identifier: Apache-2.0

// Package conformance tests the plugin without NCCL: the driver in driver/ loads
// libgoemu.so as NCCL does and makes NCCL's calls through each of its vtables,
// v6 to v12, on two ranks. It knows the vtables from NCCL's headers, not from the
// plugin's.
//
// The ranks are two processes. Both ends in one process is nothing that the plugin
// allows: a process is on one node, and no link leads from a node to itself. The
// case wrong-arguments holds that it refuses. Cases marked `threads` are run by
// four threads of each rank at once, as NCCL's communicators are.
//
// The tests need what `make build plugin-faults` leaves in build/, and a C compiler.
// `make conformance` runs every case for every version and prints a line for each;
// plain `go test` leaves out what takes long and says so.
package conformance
