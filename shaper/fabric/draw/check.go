// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Check returns likely mistakes in a valid fabric, one line for each: links that no path
// uses, paths over links that are down, links faster than their ports, jitter that is
// too large for the latency, switches that cannot send.
func Check(f *fabric.Fabric) []string {
	paths := make([]int, len(f.Hops)) // over each hop
	var found []string
	for src := range f.NICs() {
		for dst := range f.NICs() {
			if f.NodeOfNIC(src) == f.NodeOfNIC(dst) {
				continue
			}
			for _, path := range f.Paths(src, dst) {
				for _, s := range path {
					paths[s.Hop]++
				}
			}
		}
	}
	alive := map[int]bool{} // switches with a link that is up
	for i, h := range f.Hops {
		switch {
		case h.Kind == link.Trunk && paths[i] == 0:
			found = append(found, fmt.Sprintf("link %s is unused: no path between NICs leads over it", f.HopName(i)))
		case h.Kind == link.Trunk && h.Spec.Down:
			found = append(found, fmt.Sprintf("link %s is down, and %d paths lead over it: routes do not avoid it",
				f.HopName(i), paths[i]))
		case h.Kind == link.Link && h.Spec.Down:
			found = append(found, fmt.Sprintf("link %s is down: its NICs do not reach each other", f.HopName(i)))
		}
		if h.Kind == link.Trunk && !h.Spec.Down {
			alive[h.Src] = true
		}
	}
	if line := f.FasterThanPorts(); line != "" {
		found = append(found, line)
	}
	found = append(found, f.Clipped(f.All())...)
	if f.Net == nil {
		return found
	}
	for i, name := range f.Net.Switches {
		if !alive[i] && len(f.Net.Switches) > 1 {
			found = append(found, fmt.Sprintf("switch %s has no capacity: no link that is up leads from it", name))
		}
	}
	return found
}
