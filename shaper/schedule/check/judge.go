// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/ddlemu/ddlemu/shaper/schedule"
)

// judge compares the outputs with what the collective must give.
func (m *machine) judge(r *Report, root int) {
	s, d := m.s, m.data
	if !s.Coll.HasResult() {
		return
	}
	for gpu := range s.GPUs {
		if (s.Coll == schedule.Reduce || s.Coll == schedule.Gather) && gpu != root {
			continue
		}
		base := d.layouts[gpu].Base[schedule.Output]
		for c := range d.sh.Out {
			parts := wanted(s, d.sh, gpu, c, root)
			want, err := d.sets.of(parts...)
			if err != nil {
				r.add(WrongResult, 0, "%v", err)
				return
			}
			if got := d.mem[gpu][base+c].value; got != want {
				r.add(WrongResult, 0, "output chunk %d of GPU %d has %s, must have %s", c, gpu, d.sets.text(got), d.sets.text(want))
			}
		}
	}
}

// wanted are the parts that output chunk c of a GPU must have.
func wanted(s *schedule.Schedule, sh schedule.Shape, gpu, c, root int) []part {
	n := len(s.GPUs)
	of := func(chunk int) []part {
		parts := make([]part, n)
		for r := range n {
			parts[r] = partOf(r, chunk)
		}
		return parts
	}
	switch s.Coll {
	case schedule.AllReduce, schedule.Reduce:
		return of(c)
	case schedule.ReduceScatter:
		return of(gpu*sh.Share + c)
	case schedule.AllGather, schedule.Gather:
		return []part{partOf(c/sh.Share, c%sh.Share)}
	case schedule.AllToAll:
		return []part{partOf(c/sh.Share, gpu*sh.Share+c%sh.Share)}
	case schedule.Scatter:
		return []part{partOf(root, gpu*sh.Share+c)}
	}
	return []part{partOf(root, c)} // broadcast
}
