// SPDX-License-Identifier: Apache-2.0

package play

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Inside counts the calls with data that does not leave a node: nothing emulates what joins the GPUs there.
type Inside struct {
	Calls  int   // whose ranks are all on one node
	Bytes  int64 // of them, each call's as in [Calls]
	Partly int   // of several nodes, with several ranks on one of them
}

// insideOf counts in all calls. A call of one rank, or of no elements, is left out: it is no communication.
func (f *Facts) insideOf(all []*instance) (in Inside) {
	for _, one := range all {
		ranks := f.Workload.Comms[one.what.Comm].Ranks
		if one.what.Kind != workload.Coll {
			ranks = workload.Ranks{ranks[one.what.From], ranks[one.what.To]}
			if ranks[0] == ranks[1] {
				continue
			}
		}
		nodes := map[int]bool{}
		for _, rank := range ranks {
			nodes[f.Node(rank)] = true
		}
		switch {
		case len(ranks) == 1 || one.what.Count == 0:
		case len(nodes) == 1:
			in.Calls++
			in.Bytes += one.kind.size
		case len(nodes) < len(ranks):
			in.Partly++
		}
	}
	return in
}

// insideNote says what was not emulated of the calls, "" if all data crosses nodes, if GPUs carried it, or if nodes cost
// time.
func (r *Result) insideNote() string {
	in, took := r.Inside, "takes no time here"
	if !r.Forecast && !r.Facts.Fabric.Config.IsVirtual() {
		took = "takes the time of this host's memory"
	}
	switch {
	case r.Facts.CUDA != "soft" || r.Facts.Fabric.Config.NodeTime || in.Calls == 0 && in.Partly == 0:
		return ""
	case in.Calls == 0:
		return fmt.Sprintf(
			"within nodes: the part of %s between ranks of one node %s: NVLink and PCIe are not emulated",
			units.Count(in.Partly, "call"), took)
	}
	text := fmt.Sprintf("within nodes: %s of %s in all stay on one node", units.Count(in.Calls, "call"),
		units.Volume(uint64(in.Bytes)))
	if in.Calls == 1 {
		text = fmt.Sprintf("within nodes: 1 call of %s stays on one node", units.Volume(uint64(in.Bytes)))
	}
	if in.Partly > 0 {
		text += fmt.Sprintf(", and a part of %s", units.Count(in.Partly, "other call"))
	}
	return text + fmt.Sprintf(": this %s, because NVLink and PCIe are not emulated", took)
}
