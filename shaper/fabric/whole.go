// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// WholePath is a path as if it were one link: its least rate, the sum of its latencies, and whether it is up.
func (f *Fabric) WholePath(path []link.PathHop) configs.Link {
	total := configs.Link{Up: true}
	for _, step := range path {
		l := LinkOf(f.Hops[step.Hop].Spec)
		total.Latency += l.Latency
		if total.Bandwidth == units.Unlimited || l.Bandwidth != units.Unlimited && l.Bandwidth < total.Bandwidth {
			total.Bandwidth = l.Bandwidth
		}
		total.Up = total.Up && l.Up
	}
	return total
}

// WorstPath is the least rate and the largest latency of the paths between two NICs, of which each flow may have its
// own, and whether all of them are up.
func (f *Fabric) WorstPath(src, dst int) configs.Link {
	paths := f.Paths(src, dst)
	worst := f.WholePath(slices.Concat(paths...)) // a rate and a state are those of the worst hop, of whichever path
	worst.Latency = 0
	for _, path := range paths {
		worst.Latency = max(worst.Latency, f.WholePath(path).Latency)
	}
	return worst
}
