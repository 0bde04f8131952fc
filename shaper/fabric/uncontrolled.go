// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Uncontrolled is a line that names what would slow down flows over the given hops if the transport had congestion
// control; "" if it has, or if there is nothing. incast says that flows from several
// nodes enter one port, as in an all-to-all.
func (f *Fabric) Uncontrolled(hops []int, incast bool) string {
	t := &f.Config.Transport
	if f.Config.OnKernel() || t.SlowsDown() {
		return ""
	}
	var lossy, drops, marks, shared bool
	for _, hop := range hops {
		h := &f.Hops[hop]
		lossy = lossy || h.Spec.Loss != link.Loss{}
		drops = drops || h.Spec.QueuePolicy == link.TailDrop && h.Spec.QueueBytes > 0
		marks = marks || h.Spec.ECN > 0
		shared = shared || h.Kind == link.Trunk
	}
	var reasons []string
	for _, r := range []struct {
		is   bool
		text string
	}{
		{lossy, "lost packets"}, {drops, "packets that full queues drop"}, {marks, "ECN marks"},
		{shared, "shared links between switches"}, {incast, "shared ports"},
	} {
		if r.is {
			reasons = append(reasons, r.text)
		}
	}
	if reasons == nil {
		return ""
	}
	what := strings.Join(reasons, ", ")
	if t.Kind == configs.TCP {
		return fmt.Sprintf("tcp has no congestion control here: %s do not slow flows down; --set transport.congestion=%s adds it",
			what, configs.Cubic)
	}
	return fmt.Sprintf("%s has no congestion control in the model: %s do not slow flows down (docs/model.md)", t.Kind,
		what)
}
