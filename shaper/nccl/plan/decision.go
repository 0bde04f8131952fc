// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Algorithm is an algorithm of NCCL. The values are as older logs print them.
type Algorithm int

// Algorithms.
const (
	Tree Algorithm = iota
	Ring
	CollNetDirect
	CollNetChain
	NVLS
	NVLSTree
	PAT
)

var algorithmNames = []string{"tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"}

func (a Algorithm) String() string { return name(algorithmNames, int(a)) }

// ParseAlgorithm reads NCCL's name in upper or lower case.
func ParseAlgorithm(s string) (Algorithm, error) {
	i, err := parse("algorithm", algorithmNames, strings.ReplaceAll(s, "_", ""))
	return Algorithm(i), err
}

// Protocol is a protocol of NCCL. The values are as older logs print them.
type Protocol int

// Protocols.
const (
	LL Protocol = iota
	LL128
	Simple
)

var protocolNames = []string{"ll", "ll128", "simple"}

func (p Protocol) String() string { return name(protocolNames, int(p)) }

// ParseProtocol reads NCCL's name in upper or lower case.
func ParseProtocol(s string) (Protocol, error) {
	i, err := parse("protocol", protocolNames, s)
	return Protocol(i), err
}

func name(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprint(i)
	}
	return names[i]
}

func parse(what string, names []string, s string) (int, error) {
	for i, n := range names {
		if strings.EqualFold(s, n) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s %q: must be one of %s", what, s, strings.Join(names, ", "))
}

// Links are the neighbours of one rank in the tree of one channel.
type Links struct {
	Up   int   // -1 at the root
	Down []int // at most 3; -1 for none
}

// Decision is NCCL's decision for one call, from its log. Where noted, 0 means NCCL's default.
type Decision struct {
	Version int // as in ncclGetVersion: 22203 is 2.22.3
	Coll    nccl.Collective
	Algo    Algorithm // not used by collectives that are made of sends and receives
	Proto   Protocol  // the same
	Ranks   int
	// Count is the count argument of NCCL's call: for AllGather and HyperCube sent per rank, for ReduceScatter
	// received per rank, for SendRecv, AllToAll, Gather and Scatter per peer.
	Count    uint64
	ElemSize uint64 // bytes: 1, 2, 4 or 8
	Root     int    // only Broadcast, Reduce, Gather and Scatter
	InPlace  bool   // only Gather and Scatter: then the root sends nothing to itself

	Channels     int // of the communicator ("N coll channels" in the log)
	NVLSChannels int // the same by NVLS and NVLSTree ("N nvls channels")
	// NVLSHeads are the ranks that reduce and broadcast each part of the data by NVLS, one of each node ("NVLS Head N" in
	// the log). On one node they may be left out: NCCL does not print them, and all ranks up to 32 are heads.
	NVLSHeads [][]int
	Rings     [][]int   // per channel: the ranks in ring order
	Trees     [][]Links // per channel and rank

	UsedChannels    int // of channel{Lo..Hi} in the log of 2.23 and later; 0: unknown
	FirstChannel    int // Lo there
	MaxChannels     int // limit of a tuner for this call; 0: by ThreadThreshold
	MaxThreads      int // "Max NThreads" of this algorithm and protocol; 0: default
	ThreadThreshold int // "threadThresholds" of this algorithm and protocol; 0: default

	BuffSize      int // NCCL_BUFFSIZE; 0: default
	LLBuffSize    int // NCCL_LL_BUFFSIZE; 0: default
	LL128BuffSize int // NCCL_LL128_BUFFSIZE; 0: default

	NVLSChunkSize     int // NCCL_NVLS_CHUNKSIZE; 0: default
	NVLSTreeChunkSize int // NCCL_NVLSTREE_MAX_CHUNKSIZE; 0: as NCCL selects it

	P2PChannels        int // "N p2p channels"
	P2PChannelsPerPeer int // "N p2p channels per peer"
	P2PChunkSize       int // "P2P Chunksize set to N"; 0: default

	ChunkSize      int  // NCCL_CHUNK_SIZE, of sends and receives; 0: as NCCL selects it
	P2PLL          bool // NCCL_ALLOC_P2P_NET_LL_BUFFERS: sends and receives between nodes may use LL
	P2PLLThreshold int  // NCCL_P2P_LL_THRESHOLD: the most bytes per channel for LL; 0: default, below 0: none
	P2PGroup       int  // NCCL_P2P_SCHEDULE_GROUP_SIZE of 2.28.9 and later; 0: default

	// LocalTime says that messages within a node take time. Then it matters in which messages and by which protocol
	// sends and receives there move.
	LocalTime bool

	Iterations int // timed calls, back to back; 0: as many as needed for a steady state
}

// Name is the collective with the algorithm and protocol, if it has any.
func (d *Decision) Name() string {
	if d.Coll.IsP2P() {
		return fmt.Sprint(d.Coll)
	}
	return fmt.Sprintf("%v by %v/%v", d.Coll, d.Algo, d.Proto)
}

// Validate checks the fields that do not depend on the algorithm, then the others.
func (d *Decision) Validate() error {
	r, err := rulesOf(d.Version)
	if err != nil {
		return err
	}
	if !d.Coll.Known() {
		return fmt.Errorf("%v: unknown", d.Coll)
	}
	if d.Ranks < 1 {
		return fmt.Errorf("ranks %d: must be at least 1", d.Ranks)
	}
	if err := d.Coll.CheckRanks(d.Ranks); err != nil {
		return err
	}
	switch d.ElemSize {
	case 1, 2, 4, 8:
	default:
		return fmt.Errorf("element size %d: must be 1, 2, 4 or 8 bytes", d.ElemSize)
	}
	if d.Root < 0 || d.Root >= d.Ranks {
		return fmt.Errorf("root %d: must be 0 to %d", d.Root, d.Ranks-1)
	}
	if d.Iterations < 0 {
		return fmt.Errorf("iterations %d: must not be negative", d.Iterations)
	}
	for _, n := range []int{d.BuffSize, d.LLBuffSize, d.LL128BuffSize, d.P2PChunkSize, d.MaxThreads, d.ThreadThreshold,
		d.MaxChannels, d.UsedChannels, d.ChunkSize, d.P2PGroup, d.NVLSChunkSize, d.NVLSTreeChunkSize} {
		if n < 0 {
			return fmt.Errorf("size, thread or channel count %d: must not be negative", n)
		}
	}
	if d.Coll.IsP2P() {
		return d.validateP2P(r)
	}
	return d.validateColl(r)
}

func (d *Decision) validateColl(r rules) error {
	if d.Proto < LL || d.Proto > Simple {
		return fmt.Errorf("protocol %d: unknown", d.Proto)
	}
	if d.Channels < 1 || d.Channels > MaxChannels {
		return fmt.Errorf("channels %d: must be 1 to %d", d.Channels, MaxChannels)
	}
	switch {
	case d.Algo == Ring:
		return d.validateRings()
	case d.Algo == Tree && d.Coll == nccl.AllReduce:
		return d.validateTrees()
	case d.Algo == NVLS || d.Algo == NVLSTree:
		return d.validateNVLS()
	case d.Algo == PAT && d.Proto == Simple && r.pat && (d.Coll == nccl.AllGather || d.Coll == nccl.ReduceScatter):
		return nil
	}
	return fmt.Errorf("%v by %v/%v on NCCL %s: the model does not know this schedule", d.Coll, d.Algo, d.Proto,
		nccl.VersionText(d.Version))
}

func (d *Decision) validateRings() error {
	if len(d.Rings) < d.Channels {
		return fmt.Errorf("%d rings for %d channels: one per channel is needed", len(d.Rings), d.Channels)
	}
	for c, ring := range d.Rings[:d.Channels] {
		seen := make([]bool, d.Ranks)
		for _, r := range ring {
			if r < 0 || r >= d.Ranks || seen[r] {
				return fmt.Errorf("ring of channel %d %v: must hold each of %d ranks once", c, ring, d.Ranks)
			}
			seen[r] = true
		}
		if len(ring) != d.Ranks {
			return fmt.Errorf("ring of channel %d %v: must hold each of %d ranks once", c, ring, d.Ranks)
		}
	}
	return nil
}

func (d *Decision) validateTrees() error {
	if len(d.Trees) < d.Channels {
		return fmt.Errorf("%d trees for %d channels: one per channel is needed", len(d.Trees), d.Channels)
	}
	for c, tree := range d.Trees[:d.Channels] {
		if len(tree) != d.Ranks {
			return fmt.Errorf("tree of channel %d: %d ranks, want %d", c, len(tree), d.Ranks)
		}
		if err := checkTree(tree); err != nil {
			return fmt.Errorf("tree of channel %d: %w", c, err)
		}
	}
	return nil
}

// checkTree checks that there is one root, that every rank is reached from it once, and that both ends agree on each
// link.
func checkTree(tree []Links) error {
	reached := 0
	var walk func(r, up int) error
	walk = func(r, up int) error {
		if r < 0 || r >= len(tree) || tree[r].Up != up || reached == len(tree) {
			return fmt.Errorf("rank %d: the two ends of its links disagree", r)
		}
		reached++
		for _, c := range tree[r].Down {
			if c == -1 {
				continue
			}
			if err := walk(c, r); err != nil {
				return err
			}
		}
		return nil
	}
	root := -1
	for r := range tree {
		if tree[r].Up == -1 {
			if root >= 0 {
				return fmt.Errorf("ranks %d and %d: two roots", root, r)
			}
			root = r
		}
	}
	if root < 0 {
		return fmt.Errorf("no root")
	}
	if err := walk(root, -1); err != nil {
		return err
	}
	if reached != len(tree) {
		return fmt.Errorf("%d of %d ranks are connected to the root", reached, len(tree))
	}
	return nil
}
