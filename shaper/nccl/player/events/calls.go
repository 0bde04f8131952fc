// SPDX-License-Identifier: Apache-2.0

// Package events is a player that simulates every event of NCCL's plans (shaper/nccl/plan): every rank's kernel and
// proxy, with link.Flow, the model that also paces the real bytes:
//
//   - a kernel is a list of actions per channel: wait for the slices to receive and for a free slot in each buffer to
//     send from, then do everything in no time;
//   - a proxy posts an irecv for every free slot and an isend for every full one, and runs the operations of a
//     connection one after another: the first message of the next collective waits until the last send of the
//     previous one is complete, or its last receive is consumed;
//   - a rank's next kernel starts when all channels of the previous one have ended, and connections within a node
//     move data in no time.
//
// With [player.Fabric.Nodes], nodes take time too: a kernel needs some to begin, each action takes its step and the
// time of its bytes (shaper/engine/node), and connections within a node are flows over the links between its GPUs.
//
// If calls are explained, each thing that happens keeps the moment of the one that it waited for last, with the time of
// each part until then.
package events

import (
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// Player simulates. If a path holds more segments than the link model keeps, that is an
// error.
type Player struct{}

// Calls plays calls. Of calls that are known to repeat, only the first and the last ones are played, with the same
// result, unless they are explained.
func (Player) Calls(ctx context.Context, c *player.Calls) (*player.Played, error) {
	f := c.Fabric
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed+c.Order)
	defer net.Close()
	if c.Explained {
		net.KeepHopRecords()
	}
	s, err := newCalls(c, net)
	if err != nil {
		return nil, err
	}
	var again *repeats
	if c.Explained {
		s.explain(f)
	} else {
		again = newRepeats(f, s.conns, net)
	}
	out := &player.Played{Ends: make([][]int64, c.Ranks), Random: s.draws()}
	if err := s.playCalls(ctx, c, again, out); err != nil {
		return nil, err
	}
	if c.Explained {
		out.Spent = s.causes.spent()
	}
	return out, s.checkStalls()
}

// newCalls simulates calls back to back.
func newCalls(c *player.Calls, net *link.Network) (*simulation, error) {
	table := newConnTable(c.Fabric, net)
	conns, err := table.bind(c.Plan, 0, func(r int) int { return r })
	if err != nil {
		return nil, err
	}
	ranks := make([]rankRun, c.Ranks)
	var items []*item // of a call
	for number := range c.Plan.Kernels() {
		kernels := c.Plan.KernelsOf(number, conns, c.Ranks)
		it := &item{call: sameKernels(kernels)}
		items = append(items, it)
		for r, k := range kernels {
			if k != nil {
				ranks[r] = rankRun{count: c.Launched * c.Plan.Kernels(),
					item: func(i int) *item { return items[i%len(items)] }}
			}
		}
	}
	s := newSimulation(table.conns, ranks, c.Fabric, c.Order, net)
	s.perCall = len(items)
	return s, nil
}

// sameKernels are the kernels of a call that is repeated, by rank.
type sameKernels []*plan.Kernel

func (k sameKernels) take(rank int) *plan.Kernel { return k[rank] }
func (k sameKernels) drop(int)                   {}

// playCalls plays calls until they are enough, and notes when they end. Those that again knows to repeat are not
// played. It may be nil.
func (s *simulation) playCalls(ctx context.Context, c *player.Calls, again *repeats, out *player.Played) error {
	for n := 1; ; n++ {
		if err := s.play(ctx, func() bool { return s.haveEnded(n - again.skipped()) }); err != nil {
			return err
		}
		n += again.look(s, n, c.Most-n)
		switch {
		case n == c.Most:
			again.fill(s)
			s.note(n, out)
			return nil
		case again.skipped() > 0:
			continue
		}
		if s.note(n, out); c.Enough != nil && c.Enough(out) {
			return nil
		}
	}
}

// haveEnded says whether every rank with work has ended the given number of calls.
func (s *simulation) haveEnded(calls int) bool {
	for r := range s.ranks {
		if s.ranks[r].count > 0 && s.ranks[r].ended < calls*s.perCall {
			return false
		}
	}
	return true
}

// note notes when the first n calls have ended, as far as that is not noted.
func (s *simulation) note(n int, out *player.Played) {
	out.Calls, out.Steps = n, s.loop.Steps()
	for r := range s.ranks {
		if s.ranks[r].count == 0 {
			continue
		}
		for k := len(out.Ends[r]); k < n; k++ {
			out.Ends[r] = append(out.Ends[r], s.ranks[r].spans[(k+1)*s.perCall-1].End)
		}
	}
}

// checkStalls says if a flow had too many segments in flight to send another one: the model's times are then too long.
func (s *simulation) checkStalls() error {
	var n uint64
	for i := range s.conns {
		if c := &s.conns[i]; c.Flow != nil {
			n += c.Flow.Stalls()
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf(
		"a path holds more segments than the link model keeps (%d stalls): use a larger mtu or a shorter path", n)
}
