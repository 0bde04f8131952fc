// SPDX-License-Identifier: Apache-2.0

package link

import "sync/atomic"

// MaxHops is the largest number of hops of a path.
const MaxHops = 8

// FlowClasses is the number of classes by which the kernel datapath counts payload.
const FlowClasses = 3

// Hop is one resource that segments occupy: a NIC's port, a link or a trunk. Any number of
// flows may share it. It is struct ddlemu_hop of link.h: other threads and processes change
// it by atomic operations.
type Hop struct {
	ID         uint32
	Kind       HopKind
	Src, Dst   uint32
	Block      uint32 // number of the parameters in force
	Changes    uint32 // times that Block was changed
	_          [10]uint32
	NextFree   int64 // ns; when the hop is free again
	HostFree   int64 // ns; when the host worker at this port is free again
	BufferFree int64 // ns; when the buffer behind this hop is free again, see queue.c
	_          [5]uint64
	Counters   Counters
	Classes    [FlowClasses]uint64 // payload by flow class; kernel datapath
	_          [5]uint64
}

// Block is an immutable block of parameters: struct ddlemu_block of link.h.
type Block struct {
	Params  Params
	Stated  Spec
	Retired int64 // ns; when the block was last in use, 0 = never
	Since   int64 // ns of the fabric's clock; when the block was put in force, 0 = when the fabric was made
	// DownSince is the Since of the first of the blocks in a row that have the hop down; 0 if the hop is up.
	DownSince int64
}

// MaxPlannedChanges is the most planned changes that a fabric may have.
const MaxPlannedChanges = 1 << 16

// PlannedChange is struct ddlemu_planned_change of link.h.
type PlannedChange struct {
	Time       int64 // ns of the fabric's clock
	Hop, Block uint32
}

// PutInForce puts block n, which no hop uses, in force on h at time now, by the fabric's clock. retired is
// CLOCK_MONOTONIC. A hop that comes up was not free before, and one that stays down is down since it went down. It is
// put_in_force of parameters.h in Go, so that the race detector sees its order.
func PutInForce(h *Hop, blocks []Block, n uint32, now, retired int64) {
	old, next := &blocks[min(int(atomic.LoadUint32(&h.Block)), len(blocks)-1)], &blocks[n]
	next.Since, next.DownSince = now, 0
	if next.Params.Down {
		next.DownSince = now
		if old.Params.Down {
			next.DownSince = old.DownSince
		}
	}
	if old.Params.Down && !next.Params.Down {
		raise(&h.NextFree, now)
	}
	// Set before and after: if this process dies in between, the block must not look like one that was never used.
	old.Retired = retired
	atomic.AddUint32(&h.Changes, 1)
	atomic.StoreUint32(&h.Block, n)
	old.Retired = retired
}

// raise sets *p to t if it is lower.
func raise(p *int64, t int64) {
	for {
		v := atomic.LoadInt64(p)
		if v >= t || atomic.CompareAndSwapInt64(p, v, t) {
			return
		}
	}
}

// NewBlock prepares s as NewParams does.
func NewBlock(s Spec, timeScale int) (Block, error) {
	p, err := NewParams(s, timeScale)
	return Block{Params: p, Stated: s}, err
}
