// SPDX-License-Identifier: Apache-2.0

// Package workload describes what a job does: for how long its ranks compute, which collectives, sends and receives
// they call, and in which order. The file format, ddlemu.workload/1, is JSON lines; docs/workloads.md specifies it.
//
// A rank has a host thread, which takes the rank's operations in the order of the file, and streams, which execute
// them. An operation on a stream starts when the one before it on that stream of that rank has ended, and all
// operations of its After. The host thread launches without waiting, except at [Wait].
package workload
