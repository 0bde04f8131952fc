// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"math"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// waterFill is the max-min fair rate of each flow in bytes of payload per s: all rates rise equally; when a hop is
// full, the rates of its flows stay (Bertsekas and Gallager, Data Networks, 6.5.2).
func waterFill(t *testing.T, f *fabric.Fabric, demands []demand) []float64 {
	t.Helper()
	residual, users := map[int]float64{}, map[int]int{}
	rates, fixed := make([]float64, len(demands)), make([]bool, len(demands))
	for _, d := range demands {
		for _, s := range f.Path(d.src, d.dst) {
			spec := f.Hops[s.Hop].Spec
			p, err := link.NewParams(spec, 1)
			if err != nil {
				t.Fatal(err)
			}
			residual[s.Hop] = float64(spec.Bandwidth) / 8 * float64(p.Payload) / float64(p.Payload+p.PerPacket)
			users[s.Hop]++
		}
	}
	for {
		full, grow := -1, math.Inf(1)
		for h, n := range users {
			if n > 0 && residual[h]/float64(n) < grow {
				full, grow = h, residual[h]/float64(n)
			}
		}
		if full < 0 {
			return rates
		}
		for h, n := range users {
			residual[h] -= grow * float64(n)
		}
		for i := range demands {
			if !fixed[i] {
				rates[i] += grow
			}
		}
		for i, d := range demands {
			path, crosses := f.Path(d.src, d.dst), false
			for _, s := range path {
				crosses = crosses || s.Hop == full
			}
			if fixed[i] || !crosses {
				continue
			}
			fixed[i] = true
			for _, s := range path {
				users[s.Hop]--
			}
		}
	}
}

// With fair queues, flows get max-min fair rates, whatever inputs they use and whichever other flows wait because of
// back-pressure.
func TestFairIsMaxMin(t *testing.T) {
	for _, c := range traffic() {
		for _, queue := range []string{"fair:256K", "fair:1M"} {
			t.Run(c.name+", "+queue, func(t *testing.T) {
				f := net(t, c.nodes, queue, c.top)
				// First the queues must fill, several of them on a flow's path.
				const from, to = 40e6, 60e6
				got, want := model(t, f, c.demands, from, to), waterFill(t, f, c.demands)
				for i, d := range c.demands {
					if w := want[i] * (to - from) / 1e9; math.Abs(got[i]/w-1) > tolerance {
						t.Errorf("%s to %s: %.0f Mb/s, max-min fair is %.0f: %.1f %% off", f.NICName(d.src),
							f.NICName(d.dst), mbps(got[i]), mbps(w), 100*(got[i]/w-1))
					}
				}
			})
		}
	}
}
