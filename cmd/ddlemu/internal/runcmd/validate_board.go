// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/bench/validate/score"
)

// Marks of a table that was measured with something else than what is compared with it.
const (
	otherNCCL     = "*"
	directConnect = "+"
)

// printBoard prints the score of many tables as text.
func printBoard(w io.Writer, b *score.Board) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s compared, %d left out; errors are percent of the published time\n\n",
		units.Count(len(b.Tables), "table"), len(b.LeftOut))
	if len(b.Tables) > 0 {
		printScores(&out, b)
	}
	for _, t := range b.Tables {
		var rows strings.Builder
		printLeftOut(&rows, t.LeftOut)
		for line := range strings.Lines(rows.String()) {
			fmt.Fprintf(&out, "# %s: %s", t.Name, strings.TrimPrefix(line, "# "))
		}
		if t.Verdict != "" && t.Verdict != "VALID" {
			fmt.Fprintf(&out, "# %s: %s: %s\n", t.Name, t.Verdict, t.Summary)
		}
	}
	for _, l := range b.LeftOut {
		fmt.Fprintf(&out, "# left out: %s: %s\n", l.Name, l.Reason)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func printScores(w io.Writer, b *score.Board) {
	header := []string{"table", "GPU", "", "rows ", "median ", "p90 ", "largest ", "at bytes "}
	for _, c := range b.Classes {
		header = append(header, "bias "+className(c)+" ")
	}
	t := cli.NewTable(w, header...)
	for i := range b.Tables {
		s := &b.Tables[i]
		t.AppendRow(scoreRow(s.Name, cmp.Or(s.GPU, "-"), marks(s), s.Score, s.Classes))
	}
	t.AppendRow(scoreRow("all rows", "", "", b.All, b.Classes))
	t.AppendRow(scoreRow("rows up to "+units.Size(score.Small).String(), "", "", b.Small, nil))
	t.AppendRow(scoreRow("rows above", "", "", b.Large, nil))
	t.Render()
	fmt.Fprintf(w, "\n# bias below %.0f %%: %d of %d size classes of the tables\n", score.BiasLimit, b.Met, b.Of)
	fmt.Fprintf(w, "# %s another version of NCCL than the one here, or unknown; %s several ranks in a process, which "+
		"NCCL connects directly\n", otherNCCL, directConnect)
}

func marks(t *score.Table) (text string) {
	if t.OtherNCCL != "" {
		text += otherNCCL
	}
	if t.RanksPerProcess > 1 {
		text += directConnect
	}
	return text
}

func scoreRow(name, gpu, marks string, e score.Errors, classes []score.Class) table.Row {
	row := table.Row{name, gpu, marks, e.Rows}
	if e.Rows == 0 {
		return row
	}
	row = append(row, fmt.Sprintf("%.1f", e.Median), fmt.Sprintf("%.1f", e.P90), fmt.Sprintf("%+.1f", e.Largest),
		e.LargestSize)
	for _, c := range classes {
		text := "-"
		if c.Rows > 0 {
			text = fmt.Sprintf("%+.1f", c.Bias)
		}
		row = append(row, text)
	}
	return row
}

// className names the sizes of a class, such as "to 1M".
func className(c score.Class) string {
	if c.UpTo == 0 {
		return "above"
	}
	return "to " + units.Size(c.UpTo).String()
}
