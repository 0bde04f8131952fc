// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/runcmd"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/compare"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

type scheduleCompareOptions struct {
	scheduleMakeOptions
	scheduleFabric
	sizeOptions
	plotOption
}

func (o *scheduleCompareOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.scheduleMakeOptions.AddFlags(fs)
	o.scheduleFabric.AddFlags(fs)
	o.sizeOptions.AddFlags(fs, 1<<10, 1<<30)
	o.plotOption.AddFlags(fs, "the times over the sizes")
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
}

func newScheduleCompareCommand(g *cli.Global) *cobra.Command {
	o := &scheduleCompareOptions{}
	cmd := &cobra.Command{
		Use:   "compare SCHEDULE SCHEDULE...",
		Short: "Compare schedules of one collective on a fabric, over sizes",
		Long: cli.Long("docs/schedules.md", `
Calculate with the link model how long schedules of one collective take on a fabric, for sizes
from 1K to 1G: their times, the fastest one, the lower bound for any schedule, and what the
busiest link carries. A schedule is a file of MSCCL XML or one that is made, as ring or
ring:k=8,grain=256K. With nccl among them, real NCCL decides what it would do at each size.`),
		Example: `  ddlemu schedule compare ring:k=4 allpairs tree --coll all_reduce --gpus 8 --profile ndr400
  ddlemu schedule compare ring allpairs nccl --coll all_reduce --gpus 4 --profile ndr400 -e 16M
  ddlemu schedule compare a.xml b.xml --profile dgx-a100-nvlink -b 1M -e 1G -f 4 --plot compared.svg`,
		Args: cli.AtLeast(2, "compare takes two schedules or more: files, or kinds such as ring:k=4"),
		RunE: func(cmd *cobra.Command, args []string) error { return runScheduleCompare(cmd.Context(), g, o, args) },
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd, cli.Least("stepfactor", 2), cli.NewFiles("plot"))
}

func runScheduleCompare(ctx context.Context, g *cli.Global, o *scheduleCompareOptions, args []string) error {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	withNCCL := slices.Contains(args, ncclColumn)
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == ncclColumn })
	if len(args) == 0 {
		return cli.BadInput("compare takes at least one schedule beside nccl")
	}
	all, err := o.readAll(g, args)
	if err != nil {
		return err
	}
	place, err := o.place(g, len(all[0].GPUs))
	if err != nil {
		return err
	}
	show, stop := g.ShowProgress("schedule compare")
	defer stop()
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = nameOf(arg)
	}
	t := compare.New(place, names, all)
	t.InForce = o.inForce
	failed := fillTable(ctx, t, sizes, show)
	if failed == nil && withNCCL {
		show.Set("NCCL decides", progress.Unknown)
		failed = addNCCL(ctx, g, o, t, place)
	}
	if failed == nil {
		failed = o.plotOption.write(tableChart(t))
	}
	if failed != nil {
		if ctx.Err() == nil {
			return failed
		}
		t.Verdict = verdict.Incomplete
	}
	return errors.Join(failed, g.Print(t, func(w io.Writer) { printComparison(w, t) }))
}

// fillTable adds the rows of all sizes.
func fillTable(ctx context.Context, t *compare.Table, sizes []int64, show *progress.Display) error {
	for i, size := range sizes {
		if err := t.Add(ctx, size); err != nil {
			return err
		}
		show.Part("times are calculated", float64(i+1)/float64(len(sizes)))
	}
	return nil
}

// readAll reads schedules, which must be good, of one collective and for as many GPUs.
func (o *scheduleCompareOptions) readAll(g *cli.Global, args []string) (all []*schedule.Schedule, err error) {
	for _, arg := range args {
		s, r, err := o.scheduleMakeOptions.check(g, arg)
		if err != nil {
			return nil, err
		}
		if s.CheckOnly != "" {
			return nil, cli.BadInput("%s: %s", arg, s.CheckOnly)
		}
		if !r.Good() {
			return nil, cli.BadInput("%s: %s: %s: see all with `ddlemu schedule check`", arg, r.Findings[0].Kind,
				r.Findings[0].Text)
		}
		all = append(all, s)
		if first := all[0]; s.Coll != first.Coll || len(s.GPUs) != len(first.GPUs) {
			return nil, cli.BadInput(
				"%s is %s on %d GPUs, %s is %s on %d: compare schedules of one collective and as many GPUs",
				args[0], first.Coll, len(first.GPUs), arg, s.Coll, len(s.GPUs))
		}
	}
	return all, nil
}

func printComparison(w io.Writer, c *compare.Table) {
	fmt.Fprintf(w, "# ddlemu schedule compare: %s on fabric %s, expected times in us\n", c.Coll, c.Fabric)
	printInForce(w, &c.InForce)
	header := []string{"size(B) "}
	for _, name := range c.Schedules {
		header = append(header, name+" ")
	}
	t := cli.NewTable(w, append(header, "bound ", "fastest", "ahead(%) ")...)
	for _, row := range c.Rows {
		cells := table.Row{row.Size}
		for _, x := range row.Times {
			if x == nil {
				cells = append(cells, "-")
			} else {
				cells = append(cells, twoDigits(*x))
			}
		}
		best, ahead := "-", "-"
		if row.Best != nil {
			best = c.Schedules[*row.Best]
			if percent, ok := row.Ahead(); ok {
				ahead = twoDigits(percent)
			}
		}
		t.AppendRow(append(cells, cli.Us(row.Bound), best, ahead))
	}
	t.Render()
	if len(c.Rows) > 0 {
		printBusiest(w, c)
	}
	lines.Print(w, "note: %s\n", c.Notes)
	if c.Verdict != "" {
		fmt.Fprintf(w, "verdict: %s: it was interrupted, and has what was calculated so far\n", c.Verdict)
	}
}

// printBusiest prints the busiest link of each schedule at the largest size.
func printBusiest(w io.Writer, c *compare.Table) {
	fmt.Fprintf(w, "\n# the busiest link of each at %d bytes\n", c.Rows[len(c.Rows)-1].Size)
	t := cli.NewTable(w, "schedule", "link", "carries ", "busy(us) ", "of(us) ", "between nodes ", "messages ")
	for _, l := range c.Loads {
		t.AppendRow(table.Row{l.Schedule, l.Link, units.Volume(l.Bytes), twoDigits(l.Busy), twoDigits(l.Time),
			units.Volume(l.Total), l.Messages})
	}
	t.Render()
}

// ncclColumn is the argument of compare that stands for NCCL's own algorithms.
const ncclColumn = "nccl"

// addNCCL adds a column of what real NCCL would choose for each size, and how long that takes in the model until the
// last rank is done: "last rank" of `ddlemu expect`.
func addNCCL(ctx context.Context, g *cli.Global, o *scheduleCompareOptions, t *compare.Table,
	place *model.Place) error {
	bo := runcmd.BenchOptions{
		Begin: o.Begin, End: o.End, Step: 1 << 20, Factor: o.Factor, Iters: 20, Warmup: 1, Cycles: 1, Type: "int32",
		Op: "sum", SourceOptions: o.scheduleFabric.SourceOptions,
	}
	b, err := bo.Bench(g, t.Coll)
	if err != nil {
		return cli.BadInput("nccl: %w", err)
	}
	e, err := onPlace(g, place, o.scheduleFabric.Flags, "", b)
	if err != nil {
		return fmt.Errorf("nccl: %w", err)
	}
	defer e.Dir.Close()
	rows, info, err := emulate.Expect(ctx, e)
	if err != nil {
		return fmt.Errorf("nccl: %w", err)
	}
	t.AddColumn(ncclColumn, func(size int64) *float64 { return forecastOf(rows, size) })
	t.Notes = append(t.Notes,
		fmt.Sprintf("nccl is NCCL %s with its own decisions, 20 calls back to back; the others are single calls",
			info.NCCL))
	return nil
}

// onPlace is NCCL on the fabric of a schedule, with a rank for each GPU. version is the value of --nccl. The caller
// closes the folder.
func onPlace(g *cli.Global, place *model.Place, fs *pflag.FlagSet, version string, b bench.Config) (e emulate.Options,
	err error) {
	b.Ranks = place.GPUs
	cfg := place.Fabric.Config
	cfg.GPUsPerNode, cfg.NodeTime = place.PerNode, false // steps of a schedule cost the links alone
	e, err = g.RanksOn(&cfg, b, fs, version, false, false)
	g.Tell(e.Header.Unused)
	return e, err
}

// forecastOf is the expected time in us of the row nearest to a size, nil if it is not known.
func forecastOf(rows []emulate.Forecast, size int64) *float64 {
	var best *emulate.Forecast
	for i := range rows {
		r := &rows[i]
		if best == nil || math.Abs(float64(r.Case.Size-size)) < math.Abs(float64(best.Case.Size-size)) {
			best = r
		}
	}
	if best == nil || !best.Known {
		return nil
	}
	return new(float64(best.LastRank) / 1e3)
}
