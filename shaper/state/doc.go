// SPDX-License-Identifier: Apache-2.0

// Package state is the mapped file of a fabric that is up: one file in
// $DDLEMU_DIR, mapped by every process that takes part.
//
// It holds the links' parameters as immutable blocks (a change writes a free
// block and publishes its index with one atomic store), each hop's next-free
// time, counters and lateness histograms per job and link, the participants and
// a ring of events. Nothing in it is guarded by a lock that a killed process
// could leave held: participants are alive while the record lock on their slot
// is, and a change of parameters is guarded by flock, which the kernel releases.
package state
