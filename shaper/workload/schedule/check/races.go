// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// races are the accesses that nothing orders. A read of a chunk that another block writes gives one of several values,
// and a cell that two blocks write has one of several. If no output depends on any of these values, as in files that
// add up scratch which nobody uses, no result is wrong.
type races struct {
	reads map[access]bool
	cells map[cellAt]bool

	uncertain *races // those of an execution before: what they read is unknown
	unknown   value
}

// cellAt is a place of a GPU's memory.
type cellAt struct{ gpu, place int }

// access is what a step does with a chunk at a place of its GPU's memory.
type access struct {
	by    event
	place int
}

func newRaces() races { return races{reads: map[access]bool{}, cells: map[cellAt]bool{}} }

// isUncertain says whether a read gives an unknown value. Of a cell of which two writes are unordered, every read may:
// the accesses before the two are not kept.
func (r *races) isUncertain(a access, at cellAt) bool {
	return r.uncertain != nil && (r.uncertain.reads[a] || r.uncertain.cells[at])
}

// addsTo says whether there are races that others do not have.
func (r *races) addsTo(others *races) bool {
	for a := range r.reads {
		if !others.reads[a] {
			return true
		}
	}
	for c := range r.cells {
		if !others.cells[c] {
			return true
		}
	}
	return false
}

// settle turns unordered accesses into a warning if no output depends on their order.
func (d *data) settle(root int) error {
	r := d.r
	if r.Good() {
		return nil
	}
	for _, f := range r.Findings {
		if f.Kind != Unordered {
			return nil
		}
	}
	again := &Report{}
	o, err := newData(d.graph, again, d.sh, d.inPlace, root)
	if err != nil {
		return err
	}
	if o.races.unknown, err = o.sets.of(unknown); err != nil {
		return err
	}
	o.sets.unknown = o.races.unknown
	o.races.uncertain = &d.races
	if err := o.run(); err != nil {
		return err
	}
	// With unknown values, writes of equal values may have become writes of different ones.
	if o.races.addsTo(&d.races) {
		return nil
	}
	for gpu := range d.s.GPUs {
		for c := range d.sh.Out {
			at := cellAt{gpu, o.layouts[gpu].Base[schedule.Output] + c}
			if o.mem[gpu][at.place].value == o.races.unknown || d.races.cells[at] {
				return nil
			}
		}
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf("unordered accesses on which no output depends (%d), such as: %s",
		len(r.Findings)+r.More, r.Findings[0].Text))
	r.Findings, r.More = nil, 0
	return nil
}
