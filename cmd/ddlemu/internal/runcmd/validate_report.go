// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// printValidation prints r as text. more is the option that shows all reasons for INVALID.
func printValidation(w io.Writer, r *validate.Report, more string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", strings.TrimSuffix(r.Name+": "+r.System, ": "))
	if r.Source != "" {
		fmt.Fprintf(&b, "# source: %s\n", r.Source)
	}
	fmt.Fprintf(&b, "# profile %s  NCCL %s  CUDA %s\n", r.Profile, r.NCCL, r.CUDA)
	if r.Fabric.Text != "" {
		fmt.Fprintf(&b, "# fabric: %s\n", r.Fabric.Text)
	}
	lines.Print(&b, "# %s\n", r.Notes)
	b.WriteString("\n")
	t := cli.NewTable(&b, "size ", "published us ", "expected us ", "emulated us ", "error % ", "limit % ", "")
	for _, l := range r.Lines {
		mark := ""
		if !l.Within {
			mark = "!"
		}
		t.AppendRow(table.Row{l.Size, cli.Us(l.Published), cli.Us(l.Expected), cli.Us(l.Emulated),
			fmt.Sprintf("%+.1f", l.Error), l.Limit, mark})
	}
	t.Render()
	b.WriteString("\n")
	printLeftOut(&b, r.LeftOut)
	fmt.Fprintf(&b, "# %d of %d rows are within their limits\n", len(r.Lines)-len(r.Outside()), len(r.Lines))
	if r.Verdict != "" {
		lines.Print(&b, "# %s\n", r.Conclusion.Lines(more))
		fmt.Fprintf(&b, "verdict: %s\n", r.Verdict)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printLeftOut prints one line for consecutive rows that are left out for the same reason.
func printLeftOut(w io.Writer, rows []tables.LeftOut) {
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1].Reason == rows[i].Reason {
			j++
		}
		which := fmt.Sprint(rows[i].Size)
		if j > i {
			which = fmt.Sprintf("%s to %d", which, rows[j].Size)
		}
		fmt.Fprintf(w, "# %s bytes left out: %s\n", which, rows[i].Reason)
		i = j + 1
	}
}
