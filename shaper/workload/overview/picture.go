// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Picture shows which call waits for which in a program, or in several: streams are columns, and what may execute at
// the same time is in one row.
type Picture struct {
	// Ranks are the ranks of the program; of several ones, the first rank of each.
	Ranks   workload.Ranks `json:"ranks"`
	Columns []string       `json:"columns"`
	Rows    []Row          `json:"rows"`
	// More is how many rows were left out at the end.
	More int `json:"more_rows"`
}

// Row is operations that come after the operations of the rows above. If it is a mark, Mark is its text: the end of a
// step, or the host thread's wait.
type Row struct {
	Cells []string `json:"cells,omitempty"`
	Mark  string   `json:"mark,omitempty"`
}

// Draw draws a program of a workload, at most so many rows of it, and if toStep of its first step only.
func Draw(ix *workload.Index, p *workload.Program, rows int, toStep bool) *Picture {
	d := &drawer{ix: ix, p: p, picture: &Picture{Ranks: p.Ranks}, level: make([]int, len(p.Calls))}
	for _, name := range p.Streams {
		d.picture.Columns = append(d.picture.Columns, p.Ranks.Text()+", "+name)
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		if o := &ix.Workload.Ops[c.Op]; c.Stream < 0 {
			d.mark(c, o)
			if o.Kind == workload.Step && toStep {
				break
			}
			continue
		}
		d.call(i, c)
	}
	if n := len(d.picture.Rows); n > rows {
		d.picture.Rows, d.picture.More = d.picture.Rows[:rows], n-rows
	}
	return d.picture
}

// drawer places the operations of a program.
type drawer struct {
	ix      *workload.Index
	p       *workload.Program
	picture *Picture
	level   []int // by call: its row
	// first is the row in which the next operation may be: below the last wait.
	first int
}

// call puts an operation into the first row below all that it waits for.
func (d *drawer) call(i int, c *workload.ProgramCall) {
	row := d.first
	if c.At > 0 {
		row = max(row, d.level[d.p.ByStream[c.Stream][c.At-1]]+1)
	}
	for _, after := range d.p.After(c) {
		row = max(row, d.level[d.p.ByStream[after.Stream][after.Count-1]]+1)
	}
	// A row of a mark has no operations.
	for row < len(d.picture.Rows) && d.picture.Rows[row].Mark != "" {
		row++
	}
	d.level[i] = row
	for len(d.picture.Rows) <= row {
		d.picture.Rows = append(d.picture.Rows, Row{Cells: make([]string, len(d.p.Streams))})
	}
	d.picture.Rows[row].Cells[c.Stream] = d.text(c)
}

// mark adds a row for a wait, behind which the next operations come, or for the end of a step, behind which they are
// drawn though they need not wait.
func (d *drawer) mark(c *workload.ProgramCall, o *workload.Op) {
	text := fmt.Sprintf("%d end of step", workload.Line(int(c.Op)))
	if o.Kind == workload.Wait {
		text = fmt.Sprintf("%d host waits for %s", workload.Line(int(c.Op)), d.lines(c, "all"))
	}
	if o.Name != "" {
		text += ", " + o.Name
	}
	d.picture.Rows = append(d.picture.Rows, Row{Mark: text})
	d.first = len(d.picture.Rows)
}

// lines are the lines after which an operation comes.
func (d *drawer) lines(c *workload.ProgramCall, none string) string {
	var lines []string
	for _, after := range d.p.After(c) {
		line := fmt.Sprint(workload.Line(int(d.p.Calls[d.p.ByStream[after.Stream][after.Count-1]].Op)))
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return none
	}
	const most = 4
	if len(lines) > most {
		lines = append(lines[:most-1], "...", lines[len(lines)-1])
	}
	return strings.Join(lines, ",")
}

// text is an operation in a cell: its line, what it does, and the lines of other streams that it waits for.
func (d *drawer) text(c *workload.ProgramCall) string {
	o := &d.ix.Workload.Ops[c.Op]
	text := fmt.Sprintf("%d %s", workload.Line(int(c.Op)), Describe(d.ix, d.p.Ranks, o))
	if after := d.lines(c, ""); after != "" {
		text += " <- " + after
	}
	return text
}

// Describe is an operation in a few words, as one rank of a program calls it. Peers are ranks of the workload if it is
// the only one.
func Describe(ix *workload.Index, ranks workload.Ranks, o *workload.Op) string {
	switch o.Kind {
	case workload.Calc:
		text := cmp.Or(o.Name, "calc") + " " + duration(o.Nanos)
		if o.MaxNanos > o.Nanos {
			text += " to " + duration(o.MaxNanos)
		}
		return text
	case workload.Group:
		var parts []string
		for i := range o.Ops {
			if i == 3 && len(o.Ops) > 4 {
				parts = append(parts, fmt.Sprintf("%d more", len(o.Ops)-i))
				break
			}
			parts = append(parts, Describe(ix, ranks, &o.Ops[i]))
		}
		return strings.Join(parts, " + ")
	case workload.Coll, workload.Send, workload.Recv:
		return describeCall(ix, ranks, o)
	}
	return string(o.Kind)
}

func describeCall(ix *workload.Index, ranks workload.Ranks, o *workload.Op) string {
	place, _ := ix.Place(o.Comm, ranks[0])
	comm := &ix.Comms[place.Comm]
	size := units.Volume(uint64(o.Bytes(len(comm.Ranks))))
	if o.Kind == workload.Coll {
		return fmt.Sprintf("%s %s %s", o.Func, size, comm.Name)
	}
	way := "to"
	if o.Kind == workload.Recv {
		way = "from"
	}
	if len(ranks) == 1 {
		peer := o.PeerOf(int(place.At), len(comm.Ranks))
		return fmt.Sprintf("%s %s %s rank %d", o.Kind, size, way, comm.Ranks[peer])
	}
	if o.Relative {
		return fmt.Sprintf("%s %s %s %+d of %s", o.Kind, size, way, o.Peer, comm.Name)
	}
	return fmt.Sprintf("%s %s %s %d of %s", o.Kind, size, way, o.Peer, comm.Name)
}

// duration is a time with few digits.
func duration(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d >= 100*time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	}
	return d.String()
}
