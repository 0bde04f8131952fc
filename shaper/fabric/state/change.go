// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// grace is how long a retired block stays unchanged: far longer than a reader that is not stopped uses a pointer to it.
const grace = 100 * time.Millisecond

// HopStatus is the parameters in force on one hop, and its counters.
type HopStatus struct {
	Index    int
	Kind     link.HopKind
	Src, Dst int // numbers of NICs, of switches for a Trunk
	Spec     link.Spec
	Counters link.Counters
	Changed  bool // since the fabric was made
	Classes  [FlowClasses]uint64
}

// Hops returns every hop: ports first, then links, then trunks.
func (f *File) Hops() []HopStatus {
	out := make([]HopStatus, len(f.hops()))
	for i := range out {
		h := &f.hops()[i]
		b, changes, _ := f.inForce(h)
		out[i] = HopStatus{
			Index: i, Kind: h.Kind, Src: int(h.Src), Dst: int(h.Dst), Spec: b.Stated, Changed: changes != 0,
			Counters: h.Counters.Load(),
		}
		for c := range out[i].Classes {
			out[i].Classes[c] = atomic.LoadUint64(&h.Classes[c])
		}
	}
	return out
}

// HopCount is the number of hops.
func (f *File) HopCount() int { return len(f.hops()) }

// EndsOf is the kind of a hop and its ends, as in [HopStatus].
func (f *File) EndsOf(hop int) (kind link.HopKind, src, dst int) {
	h := &f.hops()[hop]
	return h.Kind, int(h.Src), int(h.Dst)
}

// SpecOf is the parameters in force on a hop, and since when, in ns of the fabric's clock; 0: since the
// fabric was made. Changes counts the changes of the hop so far.
func (f *File) SpecOf(hop int) (spec link.Spec, since int64, changes uint32) {
	b, changes, _ := f.inForce(&f.hops()[hop])
	return b.Stated, b.Since, changes
}

// inForce is a copy of the parameters of a hop, without the time of retirement, which may be
// written at any time, and how often they have changed. ok is false if the hop's block number is out of range.
func (f *File) inForce(h *link.Hop) (b link.Block, changes uint32, ok bool) {
	for {
		changes = atomic.LoadUint32(&h.Changes)
		n := atomic.LoadUint32(&h.Block)
		if n >= f.head().Blocks {
			return link.Block{}, changes, false
		}
		// Read, then check: a block that was retired meanwhile may have been written again, and be in force again.
		from := &f.blocks()[n]
		b.Params, b.Stated, b.Since, b.DownSince = from.Params, from.Stated, from.Since, from.DownSince
		if atomic.LoadUint32(&h.Block) == n && atomic.LoadUint32(&h.Changes) == changes {
			return b, changes, true
		}
	}
}

// Change puts new parameters in force on the given hops: on all or, with an error,
// on none. A change takes effect within a segment time. Change waits for changes by
// others, and for the grace period of retired blocks if too few are free.
func (f *File) Change(specs map[int]link.Spec) error {
	return f.Update(func() (map[int]link.Spec, error) { return specs, nil })
}

// Update is Change with the parameters that compute returns. Nobody else changes
// parameters from the call of compute on.
func (f *File) Update(compute func() (map[int]link.Spec, error)) error {
	unlock, err := f.lock(changing, lockTimeout)
	if err != nil {
		return fmt.Errorf("change links: %w", err)
	}
	defer unlock()
	specs, err := compute()
	if err != nil {
		return err
	}
	return f.change(specs)
}

// change is Change under the lock.
func (f *File) change(specs map[int]link.Spec) error {
	hops := slices.Sorted(maps.Keys(specs))
	blocks := make([]link.Block, len(hops))
	for i, hop := range hops {
		if hop < 0 || hop >= len(f.hops()) {
			return fmt.Errorf("change hop %d: there are %d", hop, len(f.hops()))
		}
		var err error
		if blocks[i], err = link.NewBlock(specs[hop], int(f.head().TimeScale)); err != nil {
			return fmt.Errorf("change hop %d: %w", hop, err)
		}
	}
	free, err := f.freeBlocks(len(hops))
	if err != nil {
		return err
	}
	for i, hop := range hops {
		f.blocks()[free[i]] = blocks[i]
		link.PutInForce(&f.hops()[hop], f.blocks(), free[i], f.Now(), Now())
	}
	return nil
}

// freeBlocks returns n blocks that no hop uses and whose grace period is over, the one
// that was retired first before the others. It keeps the lock while it waits: otherwise
// other changes could use each block as soon as it becomes free.
func (f *File) freeBlocks(n int) ([]uint32, error) {
	free := f.unusedBlocks()
	slices.SortStableFunc(free,
		func(a, b uint32) int { return cmp.Compare(f.blocks()[a].Retired, f.blocks()[b].Retired) })
	for i, b := range free[:n] {
		r := f.blocks()[b].Retired
		if r == 0 {
			continue
		}
		if r > Now() {
			return nil, fmt.Errorf(
				"change links: too few blocks of parameters are free: %d of the %d needed, the next was retired "+
					"in the future", i, n)
		}
		for r+int64(grace) >= Now() {
			time.Sleep(time.Duration(r + int64(grace) + 1 - Now()))
		}
	}
	return free[:n], nil
}

// unusedBlocks are the blocks that no hop uses, without the blocks of planned changes.
func (f *File) unusedBlocks() []uint32 {
	used := make([]bool, f.head().Blocks-f.head().Planned)
	for i := range f.hops() {
		if n := atomic.LoadUint32(&f.hops()[i].Block); int(n) < len(used) {
			used[n] = true
		}
	}
	var out []uint32
	for i := range used {
		if !used[i] {
			out = append(out, uint32(i))
		}
	}
	return out
}

// Changes counts the changes of all hops.
func (f *File) Changes() uint64 {
	n := uint64(0)
	for i := range f.hops() {
		n += uint64(atomic.LoadUint32(&f.hops()[i].Changes))
	}
	return n
}

// Planned returns the planned changes that have been made, in the order of their times.
func (f *File) Planned() []PlannedChange {
	if !f.Virtual() {
		return nil
	}
	made := f.planned()[:min(clock.PlannedMade(f.Clock()), len(f.planned()))]
	out := make([]PlannedChange, len(made))
	for i, c := range made {
		out[i] = PlannedChange{Time: c.Time, Hop: int(c.Hop), Spec: f.blocks()[c.Block].Stated}
	}
	return out
}

// PlannedChange is new parameters of a hop from a time on.
type PlannedChange struct {
	Time int64 // ns of the fabric's clock, which starts at [clock.Start]
	Hop  int
	Spec link.Spec
}
