// SPDX-License-Identifier: Apache-2.0

// Package state is the mapped file of a fabric that is up: one file in
// $DDLEMU_DIR, mapped by every process that takes part.
//
// It holds the links' parameters as immutable blocks (a change writes a free
// block and publishes its index with one atomic store), each hop's next-free
// time, counters and lateness histograms per job and link, the participants and
// a ring of events. Whoever reads it, or sends a message, takes no lock.
//
// What processes must not do at the same time (join, leave, make a job, change
// parameters) is guarded by record locks, which the kernel releases when their
// holder ends, so a killed process leaves none held; at whatever instant it is
// killed, the file is in order for the next one. A participant is alive while the
// record lock on its slot is held.
package state
