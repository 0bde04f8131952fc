// SPDX-License-Identifier: Apache-2.0

package play

import "github.com/ddlemu/ddlemu/shaper/workload"

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
