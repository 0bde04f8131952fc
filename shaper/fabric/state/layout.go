// SPDX-License-Identifier: Apache-2.0

package state

// #include "layout.h"
import "C"

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
)

// Magic and Version are at the start of the file. Raise the version, in layout.h, at any change of the layout.
// A fabric does not outlive a boot, so older files are refused, not converted.
const (
	Magic   = 0x31756d656c6464ff // "\xffddlemu1"
	Version = C.DDLEMU_STATE_VERSION
)

// SizeClasses are the classes of message sizes that the verdict judges: up to 4 KiB, 64 KiB, 1 MiB, and larger.
const SizeClasses = C.DDLEMU_SIZE_CLASSES

// LateBuckets is the number of buckets of a lateness histogram.
const LateBuckets = C.DDLEMU_LATE_BUCKETS

// layoutSum changes with the size of any struct in the file, so that builds with different
// layouts refuse each other's files even if Version was not raised.
const layoutSum = uint32(unsafe.Sizeof(header{}) + 3*unsafe.Sizeof(link.Hop{}) + 5*unsafe.Sizeof(pathEntry{}) +
	7*unsafe.Sizeof(link.Block{}) +
	11*unsafe.Sizeof(jobEntry{}) + 13*unsafe.Sizeof(LinkStats{}) + 17*unsafe.Sizeof(participantEntry{}) +
	19*unsafe.Sizeof(eventEntry{}) +
	23*unsafe.Sizeof(Snapshot{}))

// Names in the file are NUL-terminated.
const nameSize = C.DDLEMU_NAME

// Flow classes: the kernel datapath counts payload by these.
const (
	PluginFlow    = iota // connections of the plugin
	BootstrapFlow        // connections that NCCL itself makes to set up
	OtherFlow            // everything else
	FlowClasses          // as link.FlowClasses
)

// Class is the counters of one job in one size class of one link.
type Class struct {
	Messages, Bytes  uint64
	OverP50, OverP99 uint64
	SumLate, SumTime int64
	MaxLate          int64
	Late             [LateBuckets]uint32
}

// LinkStats is the counters of one job on one link. All access is atomic.
type LinkStats struct {
	Size                       [SizeClasses]Class
	ModelBusy, WallBusy        int64
	ModelUntil, WallUntil      int64
	FirstPosted, LastVisible   int64
	Distortion                 int64
	Stalls, Aborted, HeldSends uint64
	Broken                     uint64 // ends of connections that failed because the path was down
	CarriedMessages            uint64 // of a link between switches: what flows with a path of their own sent over it
	CarriedBytes               uint64
	Start, End                 Pauses // of the hop: when the job was made, and when its last rank had left
}

// Pauses are the times that a full queue behind a hop held it back, and for how long in sum.
type Pauses struct {
	Times uint64
	Ns    int64
}

// Snapshot is the counters of all traffic on one link at one moment: packets
// of every size together, of which a message's last one may be any.
type Snapshot struct {
	Messages            uint64
	SumLate, MaxLate    int64
	ModelBusy, WallBusy int64
	Late                [LateBuckets]uint32
}

type header struct {
	Magic                                               uint64
	Version, Layout                                     uint32
	FileSize                                            uint64
	BootID                                              [16]byte
	TimeNamespace                                       uint64
	UID, Closed                                         uint32
	Created                                             int64
	FabricID                                            uint64
	Seed                                                uint64
	TimeScale, Nodes, GPUsPerNode, NICsPerNode          uint32
	Hops, Links, Paths, Blocks                          uint32
	Jobs, Participants, Events, ConfigLen               uint32
	HopsOff, PathsOff, BlocksOff, JobsOff, LinkStatsOff uint64
	ParticipantsOff, EventsOff, TablesOff, ConfigOff    uint64
	Transport                                           link.Transport
	NextEvent                                           uint64
	Name, Profile                                       [nameSize]byte
	// of the kernel datapath, written once by its daemon
	Shaper                 [nameSize]byte
	Followed               uint64 // changes << 1, and whether they are in force
	SnapshotsOff, ClockOff uint64
	Snapshots              uint32 // two per job and hop on the kernel datapath, else none
	VirtualClock           uint32 // 1: the fabric has a virtual clock
	FlowPaths              uint32 // 1: each flow has a path of its own
	NodeRows               uint32 // of NodeStats, of a job
	LockUses               [2]uint64
	GPU                    gpuEntry
	NodeTime               NodeTime
	NodeStatsOff           uint64
	PlannedOff             uint64
	Planned, _             uint32
}

// pathEntry is the path from one NIC to another.
type pathEntry struct {
	Hops    [link.MaxHops]uint32
	N       uint8 // 0: no path
	Private uint8 // bit i: only hop i-1 feeds hop i
	_       [6]uint8
}

// jobEntry is one job: the ranks that share counters and a verdict.
type jobEntry struct {
	Key       uint64
	State     uint32
	Ranks     uint32 // participants that joined, ever
	Left      uint32 // of these, the ones that left in order
	Died      uint32
	Flags     uint64 // reasons for INVALID, see Reason
	Started   int64
	Ended     int64
	Nodes     uint32 // nodes that NCCL itself counted, 0 = not known
	World     uint32
	Printed   uint32
	Number    uint32   // of the jobs with this key, from 1
	NodeSet   NodeSet  // emulated nodes of the ranks that joined
	Snapshots uint32   // which of its snapshots there are
	Lost      uint32   // ranks that died while they took part, see File.miss
	LostRanks [4]int32 // their ranks: the rank of number n is at n % 4
	Stopping  uint32   // 1: its launcher ends it before it is done
	Stopped   uint32   // ranks that have ended since then without leaving
	Exits     uint64   // which of the exits that are expected have been seen, see Rank.Exit: bit n-1 for number n
	// Ranks that ended with a status that is not 0 before they had a communicator, and the last of them.
	Failed     uint32
	FailedRank int32
	_          [48]byte
}

// participantEntry is the slot of one participant. Its process has a record lock on the first byte.
type participantEntry struct {
	State  uint32
	PID    uint32 // for display only, never signalled
	Job    uint32
	Rank   int32
	Node   int32
	World  int32
	Joined int64
	Rings  uint64 // bytes of shared memory reserved
	Budget uint64
	HostID uint64   // hash of NCCL's id of this process's host
	GPU    [40]byte // PCI bus id, to find ranks that share a GPU
	// Communicators of NCCL: how many the process has, and whether it ever had one.
	Communicators, HadOne uint32
	Exit                  uint32 // see Rank.Exit
	Past                  uint32 // 1: it is past its start, whatever HadOne says
	_                     [16]byte
}

// eventEntry is one line of the event ring.
type eventEntry struct {
	Sequence uint64 // 1 + index when complete, 0 while being written
	Time     int64
	Text     [104]byte
	Sum      uint64 // of the three above
}

// BucketFloor is the smallest lateness of bucket b, in ns.
func BucketFloor(b int) int64 {
	if b < 8 {
		return int64(b)
	}
	return int64(4+b%4) << (b/4 - 1)
}

// MaxGraphGPUs is the most GPUs of a node between which a file has NVLinks.
const MaxGraphGPUs = C.DDLEMU_GRAPH_GPUS

// gpuEntry is a GPU in the file.
type gpuEntry struct {
	Name, Product                         [nameSize]byte
	Memory                                uint64
	Capability, SMs                       uint32
	PCIeGeneration, PCIeLanes             uint32
	NVLinkGeneration, NVLinks, NVLinkMBps uint32
	Switched                              uint32
	C2CLinks, C2CMBps                     uint32
	NVLinkDomain                          uint32
	GPUs                                  uint32
	Between                               [MaxGraphGPUs][MaxGraphGPUs]uint8
}

// NodeTime is what the nodes of a fabric cost, for the executor of the software CUDA, which reads it from the file. The
// links within the nodes are hops of the fabric. The zero value: nothing.
type NodeTime struct {
	On       uint32 // 1: they cost something
	Mesh     uint32 // 1: a link from each GPU of a node to each other one, else one out of each GPU and one into it
	GPUs     uint32 // of a node
	FirstHop uint32 // of the links within nodes
	Groups   [node.MostGPUGroups]node.GPUGroup
	node.Time
}

// NodeSet is a set of emulated nodes: bit n%64 of number n/64 stands for node n.
type NodeSet [4]uint64

// Nodes are the nodes in the set, in order.
func (s *NodeSet) Nodes() (nodes []int) {
	for n := range 64 * len(s) {
		if s[n/64]>>(n%64)&1 == 1 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// States of a slot. If a slot is on but not locked, its process died. States and slot locks change under the lock
// joining, so that each death is noticed once, and never in a slot that another process uses by then.
const (
	slotFree uint32 = iota
	slotOn
)

// States of a place for a job. They change under the lock joining, so whoever has that
// lock and finds jobMaking knows that the process that was making the job has died.
const (
	jobFree uint32 = iota
	jobMaking
	jobOn
	jobOver
)

// On the kernel datapath the packets of all jobs are counted together, from the start of
// the fabric on. Two snapshots of these counters for each job and hop give the packets of
// the job: one from before its first rank joined, one from after its last rank left.
const (
	startSnapshot = iota
	endSnapshot
	snapshotsPerJob
)

// Which snapshots of a job there are.
const (
	noSnapshot uint32 = iota
	startTaken
	bothTaken
)
