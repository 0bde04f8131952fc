// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/overview"
)

type workloadShowOptions struct {
	Ops  bool
	Rank int // -1 for none
	Rows int
}

func (o *workloadShowOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Ops, "ops", false, "list the operations, a line each")
	fs.IntVar(&o.Rank, "rank", -1, "draw, or list, all steps of this `rank`")
	fs.IntVar(&o.Rows, "rows", 40, "draw at most so many `rows` of a picture")
}

// fewPrograms is how many pictures are drawn if no rank is named.
const fewPrograms = 4

func newWorkloadShowCommand(g *cli.Global) *cobra.Command {
	o := &workloadShowOptions{}
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print what a workload does, as a table and as a picture",
		Long: cli.Long("docs/workloads.md", `
Print where a workload is from and what its source did not say, then for each step how long the
ranks compute and what they call. Steps that do the same are one row.

The picture has a column for each stream, and in each row what may execute at the same time. An
operation comes after those above it, and after the lines behind "<-". Without --rank it shows
the first step, of at most 4 different ranks.`),
		Example: `  ddlemu workload show job.jsonl
  ddlemu workload show job.jsonl --rank 3
  ddlemu workload show job.jsonl --ops`,
		Args: oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error { return runWorkloadShow(cmd.Context(), g, o, args[0]) },
	}
	o.AddFlags(cmd.Flags())
	g.AddJSONFlag(cmd.Flags())
	return cli.Ruled(cmd, cli.Least("rows", 1), cli.Excludes("ops", "json", "the file itself is JSON lines"))
}

func runWorkloadShow(ctx context.Context, g *cli.Global, o *workloadShowOptions, path string) error {
	ix, err := ReadWorkload(g, path)
	if err != nil {
		return err
	}
	if n := ix.Workload.Head.Ranks; o.Rank < -1 || o.Rank >= n {
		return cli.BadInput("--rank %d: the workload has ranks 0 to %d", o.Rank, n-1)
	}
	if o.Ops {
		listOps(g.Stdout, ix, o.Rank)
		return nil
	}
	pictures, more, err := o.draw(ctx, ix)
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	s := overview.Of(ix)
	if g.JSON {
		return g.PrintJSON(struct {
			File string        `json:"file"`
			Head workload.Head `json:"head"`
			*overview.Summary
			Pictures []*overview.Picture `json:"pictures"`
		}{path, ix.Workload.Head, s, pictures})
	}
	printHead(g.Stdout, path, &ix.Workload.Head, s)
	printSteps(g.Stdout, s.Steps)
	for _, p := range pictures {
		printPicture(g.Stdout, p)
	}
	if more > 0 {
		fmt.Fprintf(g.Stdout, "\n%s of other ranks: --rank draws one\n", units.Count(more, "picture"))
	}
	return nil
}

// draw draws the programs that are asked for, and says how many are left out.
func (o *workloadShowOptions) draw(ctx context.Context, ix *workload.Index) (pictures []*overview.Picture, more int,
	err error) {
	if o.Rank >= 0 {
		p := *ix.Program(o.Rank)
		p.Ranks = workload.Ranks{o.Rank}
		return []*overview.Picture{overview.Draw(ix, &p, o.Rows, false)}, 0, nil
	}
	if n := len(ix.Programs); n > 1 && n <= fewPrograms {
		levels, err := check.Levels(ctx, ix)
		if err != nil {
			return nil, 0, err
		}
		if levels != nil {
			if p := overview.DrawTogether(ix, levels, o.Rows); p != nil {
				return []*overview.Picture{p}, 0, nil
			}
		}
	}
	few := min(len(ix.Programs), fewPrograms)
	for i := range ix.Programs[:few] {
		pictures = append(pictures, overview.Draw(ix, &ix.Programs[i], o.Rows, true))
	}
	return pictures, len(ix.Programs) - few, nil
}

// printHead prints what the head says.
func printHead(w io.Writer, path string, h *workload.Head, s *overview.Summary) {
	name := path
	if h.Name != "" {
		name = fmt.Sprintf("%s: %s", path, h.Name)
	}
	fmt.Fprintln(w, name)
	fmt.Fprintf(w, "%s, %s, %s of ranks that do the same\n", units.Count(s.Ranks, "rank"),
		units.Count(s.Operations, "operation"), units.Count(s.Programs, "group"))
	for _, c := range s.Comms {
		size := units.Count(c.Most, "rank")
		if c.Least != c.Most {
			size = fmt.Sprintf("%d to %s", c.Least, size)
		}
		fmt.Fprintf(w, "%s, of %s\n", strings.TrimSpace(units.Count(c.Count, "communicator")+" "+c.Name), size)
	}
	for _, line := range []struct{ what, text string }{
		{"source", strings.TrimSpace(h.Source.Kind + " " + h.Source.File)}, {"recorded on", h.Source.Hardware},
		{"NCCL's variables", strings.Join(h.NCCLEnv(), " ")},
	} {
		if line.text != "" {
			fmt.Fprintf(w, "%s: %s\n", line.what, line.text)
		}
	}
	lines.Print(w, "note: %s\n", h.Source.Notes)
	lines.Print(w, "not said by the source: %s\n", h.Source.Missing)
}

// printSteps prints a table of what the steps do.
func printSteps(w io.Writer, steps []overview.Steps) {
	if len(steps) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w, "step", "what", "communicator", "ranks ", "time ", "calls ", "bytes ", "size of a call ")
	for _, s := range steps {
		name := fmt.Sprintf("%d-%d", s.First, s.Last)
		switch {
		case s.First == 0:
			name = "no step"
		case s.First == s.Last:
			name = fmt.Sprint(s.First)
		}
		t.AppendRow(table.Row{name, "calc", "", "", rangeOf(overview.Range{Least: s.Calc.Least, Most: s.MaxCalc.Most},
			milliseconds), "", "", ""})
		for _, c := range s.Calls {
			t.AppendRow(table.Row{"", c.Func, cmp.Or(c.Comm, "all"), c.Ranks, "", rangeOf(c.Calls, whole),
				rangeOf(c.Bytes, bytesText), rangeOf(c.Size, bytesText)})
		}
	}
	t.Render()
}

func milliseconds(ns int64) string {
	return fmt.Sprintf("%.3f ms", float64(ns)/float64(time.Millisecond))
}
func whole(n int64) string     { return fmt.Sprint(n) }
func bytesText(n int64) string { return units.Volume(uint64(n)) }

// rangeOf is the least and the most of a range.
func rangeOf(r overview.Range, text func(int64) string) string {
	if r.Least == r.Most {
		return text(r.Most)
	}
	return text(r.Least) + " to " + text(r.Most)
}

// printPicture prints a picture. A row that ends a step or waits goes through all columns.
func printPicture(w io.Writer, p *overview.Picture) {
	width := make([]int, len(p.Columns))
	for s, name := range p.Columns {
		width[s] = len([]rune(name))
		for _, row := range p.Rows {
			if row.Mark == "" {
				width[s] = max(width[s], len([]rune(row.Cells[s])))
			}
		}
	}
	print := func(cells []string) {
		var b strings.Builder
		for s, cell := range cells {
			fmt.Fprintf(&b, "  %-*s", width[s], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	fmt.Fprintln(w)
	print(p.Columns)
	for _, row := range p.Rows {
		if row.Mark != "" {
			fmt.Fprintf(w, "  -- %s\n", row.Mark)
			continue
		}
		print(row.Cells)
	}
	if p.More > 0 {
		fmt.Fprintf(w, "  ... %s: --rows draws more, --ops lists all operations\n", units.Count(p.More, "more row"))
	}
}

// listOps prints the operations of a rank, or all.
func listOps(w io.Writer, ix *workload.Index, rank int) {
	fmt.Fprintf(w, "%-7s %-14s %-10s %s\n", "line", "ranks", "stream", "operation")
	list := func(i int, o *workload.Op) {
		ranks, stream := ix.RanksOf(o), ""
		if rank >= 0 {
			ranks = workload.Ranks{rank}
		}
		if o.Kind.HasStream() {
			stream = o.StreamName()
		}
		text := overview.Describe(ix, ranks, o)
		if o.ID != 0 {
			text += fmt.Sprintf(", id %d", o.ID)
		}
		if len(o.After) > 0 {
			text += ", after " + strings.Trim(fmt.Sprint(o.After), "[]")
		}
		fmt.Fprintf(w, "%-7d %-14s %-10s %s\n", workload.Line(i), ranks, stream, text)
	}
	if rank >= 0 {
		for i, o := range ix.OfRank(rank) {
			list(i, o)
		}
		return
	}
	for i := range ix.Workload.Ops {
		list(i, &ix.Workload.Ops[i])
	}
}
