// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ddlemu/ddlemu/configs/units"
)

// newTable returns a table without borders that is rendered to w. Columns whose names end in a space are aligned right.
func newTable(w io.Writer, header ...string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	row := table.Row{}
	var columns []table.ColumnConfig
	for i, name := range header {
		right := strings.HasSuffix(name, " ")
		row = append(row, strings.TrimSpace(name))
		if right {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(columns)
	return t
}

// rate formats bytes per second in the usual way for networks: "118.7 MB/s".
func rate(bytesPerSecond float64) string {
	if bytesPerSecond == 0 {
		return units.Unlimited.String()
	}
	return units.SI(bytesPerSecond) + "B/s"
}

// volume formats bytes with SI prefixes, as rates have them.
func volume(bytes uint64) string { return units.Volume(bytes) }

// ago formats a duration with few digits.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
