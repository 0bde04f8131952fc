// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Memo has the results of long simulations: long calls of different sizes are continued from the same shorter ones. All
// its calls must be on the same fabric: of the same hops, transport, seed and times of nodes. It is safe for concurrent
// use.
type Memo struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*known
}

// NewMemo returns an empty Memo.
func NewMemo() *Memo { return &Memo{known: map[[sha256.Size]byte]*known{}} }

// Simulate is the function of that name, with the results that m has. Nil: it has none, and keeps none.
func (m *Memo) Simulate(ctx context.Context, d plan.Decision, f *Fabric) (*Estimate, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("expected time: %w", err)
	}
	e, err := estimate(ctx, &d, f, choose(), m)
	if err != nil {
		return nil, fmt.Errorf("expected time of %s: %w", d.Name(), err)
	}
	return e, nil
}

// known is a result that one of its users finds out. The others wait for it.
type known struct {
	once   sync.Once
	played playedCalls
	err    error
}

// playedCalls is what was found out by playing calls.
type playedCalls struct {
	timing
	calls  int    // that were simulated
	steps  uint64 // of the simulation
	random bool   // jitter or loss is random
}

// get returns the result with a key, from find if it is not known yet.
func (m *Memo) get(key [sha256.Size]byte, find func() (playedCalls, error)) (playedCalls, error) {
	m.mu.Lock()
	k := m.known[key]
	if k == nil {
		k = &known{}
		m.known[key] = k
	}
	m.mu.Unlock()
	k.once.Do(func() { k.played, k.err = find() })
	if k.err != nil {
		m.mu.Lock()
		if m.known[key] == k { // else another call has begun anew
			delete(m.known, key)
		}
		m.mu.Unlock()
	}
	return k.played, k.err
}

// playOnce is simulate, unless the Memo knows the result. A short simulation takes less time than its key.
func (c *simulated) playOnce(ctx context.Context, p *plan.Plan, f *Fabric, calls int, long bool) (playedCalls, error) {
	find := func() (playedCalls, error) { return c.simulate(ctx, p, f, calls) }
	if c.memo == nil || !long {
		return find()
	}
	key, err := c.key(p, f, calls)
	if err != nil {
		return playedCalls{}, err
	}
	return c.memo.get(key, find)
}

// key is a hash of all that determines the result on this fabric.
func (c *simulated) key(p *plan.Plan, f *Fabric, calls int) (out [sha256.Size]byte, err error) {
	h := sha256.New()
	fmt.Fprintf(h, "%T\n", c.player)
	fmt.Fprintln(h, c.Ranks, c.Iterations, calls, c.order, f.InOrder, p.Proto, p.Blocks, p.Conns)
	for _, spec := range p.Conns {
		if !f.IsBetween(spec.Src, spec.Dst) {
			continue
		}
		of := Conn{Src: spec.Src, Dst: spec.Dst, Channel: spec.Channel, P2P: spec.P2P}
		through, place := spec.Src, 0
		if f.Made != nil {
			through, place = f.Made(of)
		}
		var there []link.PathHop
		var back []int
		if there, back, err = f.Path(of); err != nil {
			return out, err
		}
		fmt.Fprintln(h, through, place, there, back)
	}
	h.Sum(out[:0])
	return out, nil
}
