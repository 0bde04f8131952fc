// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// judge compares the outputs with what the collective must give.
func (d *data) judge(r *Report, root int) {
	for gpu := range d.s.GPUs {
		base := d.layouts[gpu].Base[schedule.Output]
		for _, x := range d.s.Result(gpu, root, d.sh) {
			for c := range x.Chunks {
				want, err := d.sets.of(d.parts(&x, c)...)
				if err != nil {
					r.add(WrongResult, 0, "%v", err)
					return
				}
				if got := d.mem[gpu][base+x.At+c].value; got != want {
					r.add(WrongResult, 0, "output chunk %d of GPU %d has %s, must have %s", x.At+c, gpu,
						d.sets.text(got), d.sets.text(want))
				}
			}
		}
	}
}

// parts are the parts that chunk c of a region must have.
func (d *data) parts(x *schedule.Region, c int) []part {
	if !x.Sum {
		return []part{partOf(x.Source, x.First+c)}
	}
	parts := make([]part, len(d.s.GPUs))
	for rank := range parts {
		parts[rank] = partOf(rank, x.First+c)
	}
	return parts
}
