// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Check finds what is likely a mistake in a fabric that is otherwise good, a line each:
// links that no way leads over, ways over links that are down, rates that ports do not
// let through, jitter that the latency has no room for, switches that can send nothing on.
func Check(f *fabric.Fabric) []string {
	used := make([]int, len(f.Hops)) // ways over each hop
	var found []string
	for src := range f.NICs() {
		for dst := range f.NICs() {
			if f.NodeOfNIC(src) == f.NodeOfNIC(dst) {
				continue
			}
			for _, s := range f.Path(src, dst) {
				used[s.Hop]++
			}
		}
	}
	alive := map[int]bool{} // switches with a link that is up
	for i, h := range f.Hops {
		switch {
		case h.Kind == fabric.Trunk && used[i] == 0:
			found = append(found, fmt.Sprintf("link %s is used by nobody: no way between NICs leads over it", f.HopName(i)))
		case h.Kind == fabric.Trunk && h.Spec.Down:
			found = append(found, fmt.Sprintf("link %s is down, and %d ways lead over it: routes do not go around", f.HopName(i), used[i]))
		case h.Kind == fabric.Link && h.Spec.Down:
			found = append(found, fmt.Sprintf("link %s is down: its NICs do not reach each other", f.HopName(i)))
		}
		if h.Kind == fabric.Trunk && !h.Spec.Down {
			alive[h.Src] = true
		}
	}
	for _, line := range []string{f.FasterThanPorts(), f.Clipped(f.All())} {
		if line != "" {
			found = append(found, line)
		}
	}
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
