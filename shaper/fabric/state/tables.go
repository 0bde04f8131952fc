// SPDX-License-Identifier: Apache-2.0

package state

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Sizes of the fixed tables in entries; of all link statistics, of the configuration and of a page in bytes. A fabric
// with many links has places for fewer jobs. If one place takes more than maxLinkStats, it has no more than it needs.
const (
	maxParticipants = 512
	maxEvents       = 256
	maxJobs         = 16
	maxLinkStats    = 24 << 20
	maxConfig       = 1 << 20
	page            = 4096
)

// MaxRanks is the most ranks that can take part in a fabric; on the kernel datapath its daemon has one of the places.
const MaxRanks = maxParticipants

const linkStatsSize = int(unsafe.Sizeof(LinkStats{}))

// blocksFor is the number of blocks for a fabric of so many hops and planned changes, which have the last ones. It
// allows two changes of all hops within the grace period.
func blocksFor(hops, planned int) uint32 { return uint32(2*hops + 64 + planned) }

// jobsFor is the number of places for jobs in a fabric, each with so many statistics of hops and nodes. On the kernel
// datapath one is the job of all traffic.
func jobsFor(stats int, kernel bool) uint32 {
	least := 1
	if kernel {
		least = 2
	}
	return uint32(min(maxJobs, max(least, maxLinkStats/max(linkStatsSize*stats, 1))))
}

// snapshotsFor is the number of snapshots for so many places for jobs and hops.
func snapshotsFor(jobs, hops uint32) uint32 { return snapshotsPerJob * jobs * hops }

// place returns h with the offsets of its tables, each at the start of a page.
func (h header) place() header {
	off := uint64(page)
	table := func(size uintptr, n uint32) uint64 {
		at := off
		off = (off + uint64(size)*uint64(n) + page - 1) &^ (page - 1)
		return at
	}
	h.HopsOff = table(unsafe.Sizeof(link.Hop{}), h.Hops)
	h.PathsOff = table(unsafe.Sizeof(pathEntry{}), h.Paths)
	h.BlocksOff = table(unsafe.Sizeof(link.Block{}), h.Blocks)
	h.PlannedOff = table(unsafe.Sizeof(link.PlannedChange{}), h.Planned)
	h.JobsOff = table(unsafe.Sizeof(jobEntry{}), h.Jobs)
	h.LinkStatsOff = table(unsafe.Sizeof(LinkStats{}), h.Jobs*h.Hops)
	h.NodeStatsOff = table(unsafe.Sizeof(LinkStats{}), h.Jobs*h.NodeRows)
	h.SnapshotsOff = table(unsafe.Sizeof(Snapshot{}), h.Snapshots)
	h.ParticipantsOff = table(unsafe.Sizeof(participantEntry{}), h.Participants)
	h.EventsOff = table(unsafe.Sizeof(eventEntry{}), h.Events)
	h.TablesOff = table(unsafe.Sizeof(link.JitterTable{}), 3)
	h.ConfigOff = table(1, h.ConfigLen)
	h.ClockOff = table(uintptr(clock.Size(int(h.Nodes), int(h.Participants))), h.VirtualClock)
	h.FileSize = off
	return h
}

// nics is the number of NICs of all nodes.
func (h *header) nics() int { return int(h.Nodes) * int(h.NICsPerNode) }

// gpus is the number of GPUs of all nodes.
func (h *header) gpus() int { return int(h.Nodes) * int(h.GPUsPerNode) }

// hasFlows reports whether the fabric has a file of flows: flows of a virtual clock, or flows between the GPUs of nodes
// that cost time.
func (h *header) hasFlows() bool { return h.VirtualClock != 0 || h.NodeTime.On != 0 }
