// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"

	"github.com/ddlemu/ddlemu/shaper/schedule"
)

// races are the accesses that nothing orders. A read of a chunk that another block writes gives one of several values.
// If no output depends on any of these values, as in files that add up scratch which nobody uses, no result is wrong.
type races struct {
	reads    map[access]bool
	ofWrites bool // two writes are unordered: then the chunk itself has one of two values

	uncertain map[access]bool // reads of which the value is unknown
	unknown   value
}

// access is what a step does with a chunk at a place of its GPU's memory.
type access struct {
	by    event
	place int
}

func newRaces() races { return races{reads: map[access]bool{}} }

// settle turns unordered accesses into a warning if no output depends on their order.
func (m *machine) settle(r *Report, sh schedule.Shape, inPlace bool, root int) error {
	if r.Good() || m.data.races.ofWrites {
		return nil
	}
	for _, f := range r.Findings {
		if f.Kind != Unordered {
			return nil
		}
	}
	again := &Report{}
	o, err := newMachine(m.graph, again, sh, inPlace, root)
	if err != nil {
		return err
	}
	d := o.data
	if d.races.unknown, err = d.sets.of(unknown); err != nil {
		return err
	}
	d.sets.unknown = d.races.unknown
	d.races.uncertain = m.data.races.reads
	if err := o.run(math.MaxInt); err != nil {
		return err
	}
	for gpu := range m.s.GPUs {
		for c := range sh.Out {
			if d.mem[gpu][d.layouts[gpu].Base[schedule.Output]+c].value == d.races.unknown {
				return nil
			}
		}
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf("unordered accesses on which no output depends (%d), such as: %s", len(r.Findings)+r.More, r.Findings[0].Text))
	r.Findings, r.More = nil, 0
	return nil
}
