// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/shaper/report/forecast"
)

// PrintParts prints where the time of calls goes, a row for each. A row begins with what head names, and has the parts
// that any call has: us of a call, and percent of its time.
func PrintParts(w io.Writer, head []string, begin []table.Row, of []*forecast.Parts) {
	names := forecast.PartNames(of)
	head = append(head, "us ")
	for _, name := range names {
		head = append(head, strings.Replace(name, " ", "\n", 1)+" ")
	}
	t := NewTable(w, head...)
	for i, p := range of {
		row := append(table.Row{}, begin[i]...)
		row = append(row, Us(p.US()))
		for _, name := range names {
			cell := "-"
			if part := p.Of(name); part.NS > 0 {
				cell = fmt.Sprintf("%s %2.0f%%", Us(part.US), part.Percent)
			}
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	t.Render()
}
