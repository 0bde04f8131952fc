// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ddlemu/ddlemu/configs/units"
)

// NewTable returns a table without borders that is rendered to w. Columns whose names end in a space are aligned right.
func NewTable(w io.Writer, header ...string) table.Writer {
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
			columns = append(columns,
				table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(columns)
	return t
}

// Rate formats bytes per second in the usual way for networks: "118.7 MB/s".
func Rate(bytesPerSecond float64) string {
	if bytesPerSecond == 0 {
		return units.Unlimited.String()
	}
	return units.SI(bytesPerSecond) + "B/s"
}

// Ago formats a duration with few digits.
func Ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Us formats microseconds with two decimals, "-" for 0.
func Us(t float64) string {
	if t == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", t)
}
