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
	"github.com/ddlemu/ddlemu/shaper/report/score"
)

// Marks of a table: it was measured with something else than the run that is compared with it, or figures were fitted
// to it.
const (
	otherNCCL     = "*"
	directConnect = "+"
	allFitted     = "f"
	someFitted    = "(f)"
	predicted     = "p"
)

// printBoard prints the score of many tables as text.
func printBoard(w io.Writer, b *score.Board) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s compared, %d left out; errors are percent of the published time\n\n",
		units.Count(len(b.Tables)+len(b.Apart), "table"), len(b.LeftOut))
	if len(b.Tables) > 0 {
		printScores(&out, b)
	}
	if len(b.Apart) > 0 {
		printApart(&out, b)
	}
	if len(b.Tables)+len(b.Apart) > 0 {
		fmt.Fprintf(&out, "# %s another version of NCCL than the one here, or unknown; %s several ranks in a process, which "+
			"NCCL connects directly;\n# %s figures were fitted to the table, %s to some of its rows; %s predicted by figures "+
			"that were fitted to other tables\n", otherNCCL, directConnect, allFitted, someFitted, predicted)
	}
	for i := range b.Tables {
		printRemarks(&out, &b.Tables[i])
	}
	for i := range b.Apart {
		printRemarks(&out, &b.Apart[i].Table)
	}
	for _, l := range b.LeftOut {
		fmt.Fprintf(&out, "# left out: %s: %s\n", l.Name, l.Reason)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printRemarks prints which rows of a table are left out, and its verdict.
func printRemarks(w io.Writer, t *score.Table) {
	var rows strings.Builder
	printLeftOut(&rows, t.LeftOut)
	for line := range strings.Lines(rows.String()) {
		fmt.Fprintf(w, "# %s: %s", t.Name, strings.TrimPrefix(line, "# "))
	}
	if t.Verdict != "" && t.Verdict != "VALID" {
		fmt.Fprintf(w, "# %s: %s: %s\n", t.Name, t.Verdict, t.Summary)
	}
}

// boardTable is a table of scores with this first column.
func boardTable(w io.Writer, first string, classes []score.Class) table.Writer {
	header := []string{first, "GPU", "", "rows ", "median ", "p90 ", "largest ", "at bytes "}
	for _, c := range classes {
		header = append(header, "bias "+className(c)+" ")
	}
	return cli.NewTable(w, header...)
}

func printScores(w io.Writer, b *score.Board) {
	t := boardTable(w, "table", b.All.Classes)
	for i := range b.Tables {
		s := &b.Tables[i]
		t.AppendRow(scoreRow(s.Name, cmp.Or(s.GPU, "-"), marks(s), s.Score, s.Classes))
	}
	groups := []struct {
		name string
		*score.Group
	}{{"all rows", &b.All}, {"rows that figures were fitted to", &b.Fitted}, {"rows not fitted to", &b.NotFitted}}
	if b.Fitted.All.Rows == 0 || b.NotFitted.All.Rows == 0 { // then one of them is all rows
		groups = groups[:1]
	}
	for _, g := range groups {
		t.AppendRow(scoreRow(g.name, "", "", g.All, g.Classes))
		t.AppendRow(scoreRow("  up to "+units.Size(score.Small).String(), "", "", g.Small, nil))
		t.AppendRow(scoreRow("  above", "", "", g.Large, nil))
	}
	t.Render()
	fmt.Fprintln(w)
	for _, g := range groups {
		fmt.Fprintf(w, "# %s: bias below %.0f %% in %d of %d size classes of the tables\n", g.name, score.BiasLimit, g.Met,
			g.Of)
	}
}

// printApart prints the tables that are seen apart, with the reasons.
func printApart(w io.Writer, b *score.Board) {
	fmt.Fprintln(w)
	t := boardTable(w, "apart", b.All.Classes)
	for i := range b.Apart {
		s := &b.Apart[i].Table
		t.AppendRow(scoreRow(s.Name, cmp.Or(s.GPU, "-"), marks(s), s.Score, s.Classes))
	}
	t.Render()
	fmt.Fprintln(w)
	for _, a := range b.Apart {
		fmt.Fprintf(w, "# apart: %s: %s\n", a.Name, a.Reason)
	}
}

func marks(t *score.Table) (text string) {
	if t.OtherNCCL != "" {
		text += otherNCCL
	}
	if t.RanksPerProcess > 1 {
		text += directConnect
	}
	if t.Predicted {
		text += predicted
	}
	fitted := 0
	for _, l := range t.Lines {
		if l.Fitted {
			fitted++
		}
	}
	switch fitted {
	case 0:
		return text
	case len(t.Lines):
		return text + allFitted
	}
	return text + someFitted
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
