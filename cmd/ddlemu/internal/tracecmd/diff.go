// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/diff"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// NewDiffCommand is `ddlemu diff`.
func NewDiffCommand(g *cli.Global) *cobra.Command {
	most := 10
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say why one traced job took longer than another",
		Long: cli.Long("docs/diff.md", `
Compare two jobs that were recorded with --trace: the fabrics, the version of NCCL and its
choices, the time of each function, and the causes of the difference, largest first, as "ddlemu
why" knows them. The first call of a function is compared with the first one, and so on.`),
		Example: `  ddlemu bench allreduce --profile ndr400 --ranks 4 -b 1M -e 1M --trace before
  ddlemu bench allreduce --profile ndr400 --ranks 4 -b 1M -e 1M --lat 5us --trace after
  ddlemu diff before after`,
		Args: cli.Exactly(2, "diff takes two folders of --trace"),
		RunE: func(cmd *cobra.Command, args []string) error { return runDiff(cmd.Context(), g, args, most) },
	}
	g.AddJSONFlag(cmd.Flags())
	g.AddQuietFlag(cmd.Flags())
	cmd.Flags().IntVar(&most, "causes", most, "print so many `causes`")
	return cli.Ruled(cmd, cli.Least("causes", 0))
}

func runDiff(ctx context.Context, g *cli.Global, dirs []string, most int) error {
	show, stop := g.ShowReplay(ctx, "diff")
	defer stop()
	var runs [2]*diff.Run
	var fabrics [2][]byte
	notes := []string{}
	for i, dir := range dirs {
		t, fab, err := show.Load([]string{dir})
		if err != nil {
			return err
		}
		played, r, err := cli.Explain(fab, t)
		if err != nil {
			return err
		}
		if fabrics[i], _, err = ledger.ReadFabric(dir); err != nil {
			return cli.BadInput("%w", err)
		}
		runs[i] = &diff.Run{Trace: t, Report: r}
		for _, note := range slices.Concat(cli.ChangeNotes(played, r), cli.WhyNotes(t, r), cli.WarmupNotes(t)) {
			notes = append(notes, dir+": "+note)
		}
	}
	settings, err := diff.Settings(fabrics[0], fabrics[1])
	if err != nil {
		return cli.BadInput("%w", err)
	}
	r := diff.Of(runs[0], runs[1])
	for side, all := range r.Only {
		for _, u := range all {
			notes = append(notes, fmt.Sprintf("%s of %s only in %s: left out", units.Count(u.Calls, "call"), u.Function,
				dirs[side]))
		}
	}
	if len(r.Functions) == 0 {
		return cli.BadInput("%s and %s have no function in common", dirs[0], dirs[1])
	}
	if cli.ClockName(runs[0].Trace) != cli.ClockName(runs[1].Trace) {
		notes = append(notes,
			"one run was on the real clock, the other one on the virtual clock: what this host cost is a part of the "+
				"difference")
	}
	if g.JSON {
		return g.PrintJSON(diffJSON(runs, r, settings, notes))
	}
	printDiff(g.Stdout, dirs, r, settings, most)
	for i, dir := range dirs {
		t := runs[i].Trace
		fmt.Fprintf(g.Stdout, "%s: NCCL %s; clock: %s, time scale %d\n", dir, cli.NcclName(t), cli.ClockName(t),
			t.Ranks[0].TimeScale)
	}
	lines.Print(g.Stdout, "note: %s\n", notes)
	return nil
}

func printDiff(w io.Writer, dirs []string, r *diff.Result, settings []diff.Setting, most int) {
	if len(settings) > 0 {
		tb := cli.NewTable(w, "fabric", dirs[0], dirs[1])
		for _, s := range settings {
			tb.AppendRow(table.Row{s.Name, cmp.Or(s.A, "-"), cmp.Or(s.B, "-")})
		}
		tb.Render()
		fmt.Fprintln(w)
	}
	for _, c := range r.Choices {
		fmt.Fprintf(w, "NCCL's choices for %s differ:\n  %s: %s\n  %s: %s\n\n", c.Function, dirs[0], c.A, dirs[1], c.B)
	}
	for _, c := range r.Sent {
		fmt.Fprintf(w, "NCCL's choices for %s are the same, what was sent differs:\n  %s: %s\n  %s: %s\n\n", c.Function,
			dirs[0], c.A, dirs[1], c.B)
	}
	us := func(ns int64) string { return fmt.Sprintf("%.3f", float64(ns)/1000) }
	row := func(name any, calls any, t diff.Times) table.Row {
		return table.Row{name, calls, us(t.A), us(t.B), fmt.Sprintf("%+.3f", float64(t.Delta())/1000),
			share(t.Delta(), t.A)}
	}
	calls := 0
	tb := cli.NewTable(w, "calls of", "calls ", dirs[0]+" us ", dirs[1]+" us ", "difference us ", "% ")
	for _, f := range r.Functions {
		tb.AppendRow(row(f.Name, f.Calls, f.Times))
		calls += f.Calls
	}
	if len(r.Functions) > 1 {
		tb.AppendRow(row("all", calls, r.All))
	}
	tb.Render()
	differ := slices.DeleteFunc(slices.Clone(r.Causes), func(c diff.Cause) bool { return c.Delta() == 0 })
	if most == 0 || len(differ) == 0 {
		return
	}
	fmt.Fprintln(w)
	tb = cli.NewTable(w, "cause", dirs[0]+" us ", dirs[1]+" us ", "difference us ", "% of all ")
	cause := func(name string, t diff.Times) {
		tb.AppendRow(table.Row{name, us(t.A), us(t.B), fmt.Sprintf("%+.3f", float64(t.Delta())/1000),
			share(t.Delta(), r.All.A)})
	}
	for _, c := range differ[:min(most, len(differ))] {
		cause(c.Text, c.Times)
	}
	if rest := differ[min(most, len(differ)):]; len(rest) > 0 {
		var sum diff.Times
		for _, c := range rest {
			sum.A, sum.B = sum.A+c.A, sum.B+c.B
		}
		cause(units.Count(len(rest), "other cause"), sum)
	}
	tb.Render()
}

// share is a part of a whole in percent.
func share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f", 100*float64(part)/float64(whole))
}

func diffJSON(runs [2]*diff.Run, r *diff.Result, settings []diff.Setting, notes []string) any {
	type side struct {
		NCCL      string `json:"nccl"`
		Clock     string `json:"clock"`
		TimeScale int64  `json:"time_scale"`
	}
	sideOf := func(run *diff.Run) side {
		return side{cli.NcclName(run.Trace), cli.ClockName(run.Trace), run.Trace.Ranks[0].TimeScale}
	}
	return struct {
		A         side            `json:"a"`
		B         side            `json:"b"`
		All       diff.Times      `json:"all"`
		Settings  []diff.Setting  `json:"fabric"`
		Choices   []diff.Choice   `json:"choices"`
		Sent      []diff.Choice   `json:"sent"`
		Functions []diff.Function `json:"functions"`
		Causes    []diff.Cause    `json:"causes"`
		Notes     []string        `json:"notes"`
	}{sideOf(runs[0]), sideOf(runs[1]), r.All, settings, r.Choices, r.Sent, r.Functions, r.Causes, notes}
}
