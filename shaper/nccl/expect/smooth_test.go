// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// large is a star of so many nodes with the links of the profile ndr400, without jitter. A segment has 64 KiB at most.
// All links that leave a node are one hop, which occupies nothing, so that there are not n*n.
func large(n int, tr link.Transport) *Fabric {
	port := link.Spec{Bandwidth: 400e9, MTU: 4096, Framing: 261}
	out := port
	out.Latency = 1200 * time.Nanosecond
	f := &Fabric{Transport: &tr, Seed: 7, InOrder: true, Node: func(r int) int { return r }}
	for i := range 3 * n {
		spec := port
		if i >= 2*n {
			spec = out
		}
		p, err := link.NewParams(spec, 1)
		if err != nil {
			panic(err)
		}
		f.Params = append(f.Params, p)
	}
	f.Path = func(c Conn) ([]link.PathHop, []int, error) {
		return []link.PathHop{{Hop: 2 * c.Src}, {Hop: 2*n + c.Src, Private: true}, {Hop: 2*c.Dst + 1}},
			[]int{2*n + c.Dst}, nil
	}
	return f
}

// smoothWithin is how far the time may grow otherwise than the time of the busiest hop, between neighbours.
const smoothWithin = 0.03

// point is a call whose time is compared with that of the next one.
type point struct {
	name string
	d    plan.Decision
}

// checkSmooth compares each point's time with that of the one before.
func checkSmooth(t *testing.T, points []point) {
	t.Helper()
	var before *Estimate
	for i, p := range points {
		p.d.Iterations = 1
		e, err := Simulate(t.Context(), p.d, large(p.d.Ranks, rdma()))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			grows, should := e.Time/before.Time, e.Bound/before.Bound
			t.Logf("%s: %.2f us, busiest hop %.2f: time grows by %+.2f %%, busiest hop by %+.2f %%", p.name, e.Time/1e3,
				e.Bound/1e3, 100*(grows-1), 100*(should-1))
			if math.Abs(grows/should-1) > smoothWithin {
				t.Errorf("from %s to %s the time grows by %+.2f %%, that of the busiest hop by %+.2f %%",
					points[i-1].name, p.name, 100*(grows-1), 100*(should-1))
			}
		}
		before = e
	}
}

// Between neighbouring numbers of ranks the time grows as that of the busiest hop: where a message crosses a boundary
// of segments, as between 65 and 69 ranks, and elsewhere.
func TestTimeIsSmoothInRanks(t *testing.T) {
	if underRace {
		t.Skip("takes minutes under the race detector")
	}
	for _, ranks := range [][]int{{21, 22, 23}, {33, 34, 35}, {64, 65, 66, 67, 68, 69}, {127, 128}} {
		var points []point
		for _, n := range ranks {
			points = append(points,
				point{fmt.Sprintf("%d ranks", n), decide(nccl.AllReduce, plan.Ring, plan.LL128, n, 4, 16<<20)})
		}
		checkSmooth(t, points)
	}
}

// Between neighbouring sizes too. The messages cross each boundary up to 256 KiB.
func TestTimeIsSmoothInSizes(t *testing.T) {
	const step = 3 << 10
	around := func(boundary uint64) []uint64 { return []uint64{boundary - step, boundary, boundary + step} }
	for k := uint64(1); k <= 4; k++ {
		for _, n := range []int{2, 3, 8} {
			var ring, all []point
			for _, message := range around(k << 16) {
				name := func(what string) string {
					return fmt.Sprintf("%s, %d ranks, messages of %d bytes", what, n,
						message)
				}
				// A step is two messages: its slices.
				ring = append(ring,
					point{name("ring"), decide(nccl.AllReduce, plan.Ring, plan.Simple, n, 4, message*2*4*uint64(n))})
				d := decide(nccl.AllToAll, plan.Ring, plan.Simple, n, 1, message)
				d.P2PChannels, d.P2PChannelsPerPeer = 4, 2
				all = append(all, point{name("all to all"), d})
			}
			checkSmooth(t, ring)
			checkSmooth(t, all)
		}
	}
}
