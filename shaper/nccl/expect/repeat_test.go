// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
	"github.com/ddlemu/ddlemu/shaper/nccl/player/events"
)

// repeating is a fabric in the order of a virtual clock: a star, or two of them with a trunk in each direction.
type repeating struct {
	star
	policy link.Policy
	queue  uint64 // bytes
	trunk  uint64 // bit/s, 0: one star
}

func (r repeating) build(t interface{ Fatal(...any) }) *Fabric {
	f := r.star.build()
	f.InOrder = true
	spec := link.Spec{Bandwidth: r.bandwidth, MTU: 1500, Header: 40, Framing: 38, QueuePolicy: r.policy,
		QueueBytes: r.queue}
	port, err := link.NewParams(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * starNodes {
		f.Params[i] = port
	}
	if r.trunk == 0 {
		return f
	}
	spec.Bandwidth, spec.Latency = r.trunk, time.Microsecond
	trunk, err := link.NewParams(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	first := len(f.Params)
	f.Params = append(f.Params, trunk, trunk)
	star := f.Path
	f.Path = func(c Conn) ([]link.PathHop, []int, error) {
		path, back, err := star(c)
		if from, to := f.Node(c.Src)%2, f.Node(c.Dst)%2; err == nil && from != to {
			path = slices.Insert(path, 2, link.PathHop{Hop: first + from})
			back = append(back, first+to)
		}
		return path, back, err
	}
	return f
}

func drawRepeating(t *rapid.T) repeating {
	r := repeating{star: drawStar(t)}
	r.policy = rapid.SampledFrom([]link.Policy{link.Lossless, link.Fair, link.TailDrop}).Draw(t, "policy")
	r.queue = rapid.SampledFrom([]uint64{0, 64 << 10, 1 << 20}).Draw(t, "queue")
	r.trunk = rapid.SampledFrom([]uint64{0, 0, 1e9, 40e9}).Draw(t, "trunk")
	return r
}

// played are calls of which all are played, or those that do not repeat.
func (r repeating) played(t interface{ Fatal(...any) }, d plan.Decision, order uint64, all bool) *player.Played {
	f := r.build(t)
	_, p, err := newSimulated(&d, f, events.Player{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := events.Player{}.Calls(context.Background(), &player.Calls{Plan: p, Ranks: d.Ranks, Fabric: f,
		Order: order, Launched: d.Iterations, Most: d.Iterations, Explained: all})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever is called, on whatever fabric: what is not played because calls repeat ends at the same ns as if it were
// played. On a virtual clock the order of the channels makes no difference to that.
func TestPropertySkippedCallsEndAsPlayed(t *testing.T) {
	var skipped, drawn float64 // calls; each of one kind takes about as many steps
	rapid.Check(t, func(t *rapid.T) {
		d, r := drawDecision(t, 512<<10), drawRepeating(t)
		d.Iterations = rapid.IntRange(1, 40).Draw(t, "calls")
		want := r.played(t, d, 0, true)
		got := r.played(t, d, rapid.Uint64().Draw(t, "order"), false)
		drawn += float64(d.Iterations)
		skipped += float64(d.Iterations) * (1 - float64(got.Steps)/float64(max(want.Steps, 1)))
		for rank := range want.Ends {
			if !slices.Equal(got.Ends[rank], want.Ends[rank]) {
				t.Fatalf("rank %d, %d of %d steps made: ends %v, want %v", rank, got.Steps, want.Steps, got.Ends[rank],
					want.Ends[rank])
			}
		}
	})
	t.Logf("%.0f of %.0f calls were skipped", skipped, drawn)
	if skipped < drawn/4 {
		t.Errorf("%.0f of %.0f calls were skipped", skipped, drawn)
	}
}
