// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// maxColumns is how many streams of different ranks are drawn beside each other.
const maxColumns = 8

// column is a stream of a program, or its host thread (-1).
type column struct {
	program int
	stream  int32
}

// DrawTogether draws the first step of all programs of a workload in one picture, of each the first rank: calls that
// meet are in one row. Levels are from shaper/workload/check. It returns nil if the picture would be too wide.
func DrawTogether(ix *workload.Index, levels [][]int32, rows int) *Picture {
	columns := columnsOf(ix)
	if len(columns) > maxColumns {
		return nil
	}
	picture := &Picture{}
	for _, c := range columns {
		p := &ix.Programs[c.program]
		name := "host"
		if c.stream >= 0 {
			name = p.Streams[c.stream]
		}
		picture.Ranks = append(picture.Ranks, p.Ranks[0])
		picture.Columns = append(picture.Columns, p.Ranks.Text()+", "+name)
	}
	picture.Ranks = slices.Compact(picture.Ranks)
	byLevel := map[int32]*Row{}
	for program := range ix.Programs {
		drawLevels(ix, program, levels[ix.Programs[program].Ranks[0]], columns, byLevel)
	}
	used := slices.Sorted(maps.Keys(byLevel))
	for _, level := range used[:min(rows, len(used))] {
		picture.Rows = append(picture.Rows, *byLevel[level])
	}
	picture.More = max(0, len(used)-rows)
	return picture
}

// columnsOf are the columns of all programs.
func columnsOf(ix *workload.Index) (columns []column) {
	for program := range ix.Programs {
		p := &ix.Programs[program]
		waits := slices.ContainsFunc(p.Calls,
			func(c workload.ProgramCall) bool { return ix.Workload.Ops[c.Op].Kind == workload.Wait })
		if waits {
			columns = append(columns, column{program, -1})
		}
		for s := range p.Streams {
			columns = append(columns, column{program, int32(s)})
		}
	}
	return columns
}

// drawLevels puts the first step of a program into the rows of its levels.
func drawLevels(ix *workload.Index, program int, levels []int32, columns []column, rows map[int32]*Row) {
	p := &ix.Programs[program]
	d := &drawer{ix: ix, p: p}
	for i := range p.Calls {
		c := &p.Calls[i]
		o := &ix.Workload.Ops[c.Op]
		if o.Kind == workload.Step {
			return
		}
		row := rows[levels[i]]
		if row == nil {
			row = &Row{Cells: make([]string, len(columns))}
			rows[levels[i]] = row
		}
		text := d.text(c)
		if o.Kind == workload.Wait {
			text = fmt.Sprintf("%d wait for %s", workload.Line(int(c.Op)), d.lines(c, "all"))
		}
		row.Cells[slices.Index(columns, column{program, c.Stream})] = text
	}
}
