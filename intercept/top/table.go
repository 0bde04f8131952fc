// SPDX-License-Identifier: Apache-2.0

package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddlemu/ddlemu/intercept/watch"
)

// column is a column of a table of T.
type column[T any] struct {
	head  string
	text  func(*T) string
	by    watch.Order // by which the table is sorted, where it can be
	right bool        // aligned
	least int         // width, so that the columns stay in place while figures change
	rank  int         // the column with the highest rank is left out first if there is no space; one of rank 0 never
}

const gap = "  "

// table is a table with heads that is at most width wide, if the columns of rank 0 are. Rows that alarm are in red.
func table[T any](columns []column[T], rows []T, width int, alarm func(*T) bool) []string {
	cells := make([][]string, len(columns))
	widths := make([]int, len(columns))
	for c := range columns {
		cells[c] = []string{columns[c].head}
		for r := range rows {
			cells[c] = append(cells[c], columns[c].text(&rows[r]))
		}
		widths[c] = columns[c].least
		for _, text := range cells[c] {
			widths[c] = max(widths[c], ansi.StringWidth(text))
		}
	}
	shown := fitting(columns, widths, width)
	lines := make([]string, len(rows)+1)
	for r := range lines {
		var parts []string
		for _, c := range shown {
			parts = append(parts, align(cells[c][r], widths[c], columns[c].right))
		}
		line := ansi.Truncate(strings.Join(parts, gap), width, "")
		switch {
		case r == 0:
			line = heads.Render(align(line, width, false))
		case alarm(&rows[r-1]):
			line = bad.Render(line)
		}
		lines[r] = line
	}
	return lines
}

// fitting are the columns that fit into width, in order. The last one may be cut down to its least width.
func fitting[T any](columns []column[T], widths []int, width int) (shown []int) {
	for c := range columns {
		shown = append(shown, c)
	}
	for {
		sum, worst := 0, 0
		for i, c := range shown {
			w := widths[c]
			if c == len(columns)-1 {
				w = columns[c].least
			}
			sum += w + len(gap)
			if columns[c].rank > columns[shown[worst]].rank {
				worst = i
			}
		}
		if sum-len(gap) <= width || columns[shown[worst]].rank == 0 {
			return shown
		}
		shown = slices.Delete(shown, worst, worst+1)
	}
}

// align fills a text up to a width.
func align(text string, width int, right bool) string {
	fill := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return fill + text
	}
	return text + fill
}
