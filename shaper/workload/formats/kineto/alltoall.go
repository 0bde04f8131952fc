// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// completeParts completes the parts of all-to-alls.
func (j *job) completeParts() {
	for _, w := range j.rows {
		for i := range w.all {
			w.all[i].cutParts = w.comm[i] != "" && w.all[i].call.CompleteParts(w.size[i])
		}
	}
	if len(j.rows) > 1 {
		j.meanAllToAlls()
	}
}

// meanAllToAlls gives the calls of all ranks of an all-to-all the mean of their sizes, if the parts of one are not
// known: the ranks of an all-to-all of equal parts give the same.
func (j *job) meanAllToAlls() {
	type member struct {
		comm string
		rank int
	}
	of := map[member]*workload.Comm{}
	for i := range j.comms.Comms {
		for _, r := range j.comms.Comms[i].Ranks {
			of[member{j.comms.Comms[i].Name, r}] = &j.comms.Comms[i]
		}
	}
	type place struct {
		comm *workload.Comm
		k    int // the k-th call on the communicator
	}
	calls := map[place][]*pytorch.Call{}
	for _, w := range j.rows {
		for name, sequence := range w.sequence() {
			for k, at := range sequence {
				p := place{of[member{name, w.number}], k}
				calls[p] = append(calls[p], &w.all[at].call)
			}
		}
	}
	for p, all := range calls {
		if n := len(p.comm.Ranks); len(all) == n && needMean(all, n) {
			takeMean(all, n)
		}
	}
}

// needMean tells whether the calls are an all-to-all, and the parts of one of them differ and are not known.
func needMean(all []*pytorch.Call, n int) bool {
	need := false
	for _, c := range all {
		if !c.IsAllToAll() || c.DType != all[0].DType {
			return false
		}
		op, unequal, err := c.Op(n)
		need = need || err == nil && unequal && c.Exchange(op) == nil
	}
	return need
}

// takeMean gives each call the mean of all parts. What goes in on all ranks is what comes out; more than that is not
// counted.
func takeMean(all []*pytorch.Call, n int) {
	in, out := int64(0), int64(0)
	for _, c := range all {
		in, out = in+c.In, out+c.Out
	}
	parts := int64(n) * int64(n)
	part := (max(in, out) + parts - 1) / parts
	for _, c := range all {
		c.In, c.Out, c.PartsUnknown = part*int64(n), part*int64(n), true
		c.InSplit, c.OutSplit = nil, nil
	}
}
