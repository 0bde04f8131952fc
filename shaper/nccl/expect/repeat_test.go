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

// ends are the times at which each rank ends each call: of all calls played, or as Simulate plays them. skipped is the
// number of calls that were not played.
func (r repeating) ends(t interface{ Fatal(...any) }, d plan.Decision, tieSeed uint64, all bool) (ends [][]int64,
	skipped int) {
	f := r.build(t)
	c, p, err := newSimulated(&d, f)
	if err != nil {
		t.Fatal(err)
	}
	c.tieSeed = tieSeed
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed)
	defer net.Close()
	s, err := c.newSimulation(p, f, net, d.Iterations)
	if err != nil {
		t.Fatal(err)
	}
	var again *repeats
	if !all {
		again = newRepeats(f, s.conns, net)
	}
	if _, err := s.playCalls(context.Background(), again, d.Iterations, func(int) bool { return false }); err != nil {
		t.Fatal(err)
	}
	for i := range s.ranks {
		var of []int64
		for _, span := range s.ranks[i].spans {
			of = append(of, span.End)
		}
		ends = append(ends, of)
	}
	return ends, again.skipped()
}

// Whatever is called, on whatever fabric: what is not played because calls repeat ends at the same ns as if it were
// played. On a virtual clock the order of the channels makes no difference to that.
func TestPropertySkippedCallsEndAsPlayed(t *testing.T) {
	var skipped, drawn int
	rapid.Check(t, func(t *rapid.T) {
		d, r := drawDecision(t, 512<<10), drawRepeating(t)
		d.Iterations = rapid.IntRange(1, 40).Draw(t, "calls")
		want, _ := r.ends(t, d, 0, true)
		got, n := r.ends(t, d, rapid.Uint64().Draw(t, "tie seed"), false)
		drawn += d.Iterations
		skipped += n
		for rank := range want {
			if !slices.Equal(got[rank], want[rank]) {
				t.Fatalf("rank %d, %d calls skipped: ends %v, want %v", rank, n, got[rank], want[rank])
			}
		}
	})
	t.Logf("%d of %d calls were skipped", skipped, drawn)
	if skipped < drawn/4 {
		t.Errorf("%d of %d calls were skipped", skipped, drawn)
	}
}
