// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// parts are what a node does, for people.
var parts = [state.NodeParts]string{state.Launches: "launches of kernels", state.Actions: "actions of kernels",
	state.NodeMessages: "messages from GPUs of its node"}

// nodes judges what the nodes did on a real clock, for each GPU. The GPU of a rank follows from its number.
func (j *judge) nodes() {
	all := j.in.Job.NodeStats
	perNode := max(len(all)/state.NodeParts/max(j.in.Nodes, 1), 1)
	for i := range all {
		gpu := i / state.NodeParts
		place := fmt.Sprintf("node%d/gpu%d", gpu/perNode, gpu%perNode)
		w := subject{place: place, name: fmt.Sprintf("rank %d (%s)", gpu, place), kind: parts[i%state.NodeParts],
			ofNode: true}
		for k := range all[i].Size {
			if all[i].Size[k].Messages == 0 {
				continue
			}
			c := j.class(k, &all[i].Size[k])
			if w.class = c.Name; i%state.NodeParts == state.Launches {
				w.class = ""
			}
			j.judgeLateness(w, &c)
		}
	}
}
