// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// grace is how long a retired block is left alone: far longer than any reader
// holds a pointer to it without being stopped.
const grace = 100 * time.Millisecond

// HopStatus is what is in force on one hop and what it has carried.
type HopStatus struct {
	Index    int
	Kind     uint32
	Src, Dst int // NIC numbers
	Spec     link.Spec
	Counters link.Counters
	Changed  bool // since the fabric was made
}

// Hops returns every hop: ports first, then links.
func (f *File) Hops() []HopStatus {
	out := make([]HopStatus, len(f.hops()))
	for i := range out {
		h := &f.hops()[i]
		out[i] = HopStatus{
			Index: i, Kind: h.Kind, Src: int(h.Src), Dst: int(h.Dst), Spec: f.params(h).spec(), Changed: atomic.LoadUint32(&h.Changes) != 0,
			Counters: link.Counters{
				Bytes: atomic.LoadUint64(&h.Bytes), Wire: atomic.LoadUint64(&h.Wire), Segments: atomic.LoadUint64(&h.Segments),
				Drops: atomic.LoadUint64(&h.Drops), BusyNs: atomic.LoadInt64(&h.BusyNs),
			},
		}
	}
	return out
}

func (f *File) params(h *Hop) *Block {
	i := atomic.LoadUint32(&h.Params)
	return &f.blocks()[min(i, f.head().Blocks-1)]
}

// Change puts new parameters in force on the given hops. All are checked before
// the first is changed; each hop changes at once, within a segment time. It waits
// for other changes, and for blocks that were retired just now.
func (f *File) Change(specs map[int]link.Spec) error {
	for i, s := range specs {
		if i < 0 || i >= len(f.hops()) {
			return fmt.Errorf("change hop %d: there are %d", i, len(f.hops()))
		}
		if _, err := link.NewParams(s, int(f.head().TimeScale)); err != nil {
			return fmt.Errorf("change hop %d: %w", i, err)
		}
	}
	if err := unix.Flock(f.fd, unix.LOCK_EX); err != nil {
		return fmt.Errorf("wait for other changes: %w", err)
	}
	defer unix.Flock(f.fd, unix.LOCK_UN)
	next := uint32(0)
	for i, s := range specs {
		p, err := link.NewParams(s, int(f.head().TimeScale))
		if err != nil {
			return fmt.Errorf("change hop %d: %w", i, err)
		}
		b, err := f.freeBlock(&next)
		if err != nil {
			return err
		}
		f.blocks()[b] = block(s, p)
		h := &f.hops()[i]
		old := f.params(h)
		if old.Down != 0 && !s.Down {
			hold(&h.NextFree, Now())
		}
		atomic.AddUint32(&h.Changes, 1)
		atomic.StoreUint32(&h.Params, b)
		old.Retired = Now()
	}
	return nil
}

// freeBlock finds a block that no hop uses and that has been out of use for the
// grace period, from *next on.
func (f *File) freeBlock(next *uint32) (uint32, error) {
	used := make([]bool, len(f.blocks()))
	for i := range f.hops() {
		used[min(atomic.LoadUint32(&f.hops()[i].Params), f.head().Blocks-1)] = true
	}
	for range 2 {
		for ; *next < f.head().Blocks; *next++ {
			if b := &f.blocks()[*next]; !used[*next] && (b.Retired == 0 || Now()-b.Retired > int64(grace)) {
				*next++
				return *next - 1, nil
			}
		}
		time.Sleep(grace)
		*next = 0
	}
	return 0, fmt.Errorf("change links: no free block of parameters among %d", len(used))
}

// hold raises *p to at least t.
func hold(p *int64, t int64) {
	for {
		v := atomic.LoadInt64(p)
		if v >= t || atomic.CompareAndSwapInt64(p, v, t) {
			return
		}
	}
}

func block(s link.Spec, p link.Params) Block {
	b := Block{
		NsNum: p.NsNum, NsDen: p.NsDen, Latency: p.Latency, JitterKind: uint32(p.Jitter.Kind), Policy: uint32(p.Policy),
		Jitter: p.Jitter.Value, LossP: p.Loss.P, LossBadP: p.Loss.BadP, GoodToBad: p.Loss.GoodToBad, BadToGood: p.Loss.BadToGood,
		QueueNs: p.QueueNs, Payload: p.Payload, PerPacket: p.PerPacket, Segment: p.Segment,
		StatedBandwidth: s.Bandwidth, StatedLatency: int64(s.Latency), StatedJitter: int64(s.Jitter.Value),
		StatedLossP: s.Loss.P, StatedBadP: s.Loss.BadP, StatedGoodToBad: s.Loss.GoodToBad, StatedBadToGood: s.Loss.BadToGood,
		StatedQueue: s.QueueBytes, StatedMTU: s.MTU, StatedHeader: s.Header, StatedFraming: s.Framing,
	}
	if s.Down {
		b.Down = 1
	}
	return b
}

// spec is the inverse of block.
func (b *Block) spec() link.Spec {
	return link.Spec{
		Bandwidth: b.StatedBandwidth, Latency: time.Duration(b.StatedLatency),
		Jitter:     link.Jitter{Kind: link.JitterKind(b.JitterKind), Value: time.Duration(b.StatedJitter)},
		Loss:       link.Loss{P: b.StatedLossP, BadP: b.StatedBadP, GoodToBad: b.StatedGoodToBad, BadToGood: b.StatedBadToGood},
		QueueBytes: b.StatedQueue, QueuePolicy: link.Policy(b.Policy),
		MTU: b.StatedMTU, Header: b.StatedHeader, Framing: b.StatedFraming, Down: b.Down != 0,
	}
}
