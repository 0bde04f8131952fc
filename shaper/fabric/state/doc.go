// SPDX-License-Identifier: Apache-2.0

// Package state is the mapped file of a fabric that is up: one file in
// $DDLEMU_DIR, mapped by every process that takes part.
//
// It contains the links' parameters as immutable blocks (a change writes a free block and publishes its index with one
// atomic store), each hop's next-free time, counters and lateness histograms for each job and link, the participants
// and a ring of events. Reading it and sending a message acquire no lock.
//
// Record locks protect what processes must not do at the same time: join, leave, make a job, change parameters. The
// kernel releases them when a process ends, so a killed process leaves no lock behind. The file stays consistent at
// whatever instant a process is killed. A participant is alive while its process has the record lock on its slot.
package state
