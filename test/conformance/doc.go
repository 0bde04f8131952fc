// SPDX-License-Identifier: Apache-2.0

// Package conformance tests the plugin without NCCL. The driver in driver/ loads libgoemu.so as
// NCCL does, and makes NCCL's calls through each of its vtables, v6 to v12, on two ranks. Its
// description of the vtables comes from NCCL's headers, not from the plugin's.
//
// The ranks are two processes. The plugin does not allow both ends of a connection in one
// process: a process is on one node, and no link leads from a node to itself. The case
// wrong-arguments tests that. Cases marked `threads` run in four threads of each rank at once,
// as NCCL's communicators do.
//
// The tests need `make build plugin-faults` and a C compiler. `make conformance` runs every case
// for every version and prints a line for each. Plain `go test` skips the slow cases and says
// so.
package conformance
