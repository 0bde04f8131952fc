// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/lines"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
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
	o.sizeOptions.AddFlags(fs, "1K", "1G")
	o.plotOption.AddFlags(fs, "the times over the sizes")
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
}

func newScheduleCompareCommand(g *cli.Global) *cobra.Command {
	o := &scheduleCompareOptions{}
	cmd := &cobra.Command{
		Use:   "compare SCHEDULE SCHEDULE...",
		Short: "Compare schedules of one collective on a fabric, over sizes",
		Long: `Calculate with the link model how long schedules of one collective take on a fabric, for
sizes from 1K to 1G. A table has the times, the fastest schedule of each size and the lower
bound for any schedule; a second one has what the busiest link of each schedule carries at
the largest size. A schedule is a file of MSCCL XML or one that is made: ring, or
ring:k=8,grain=256K. With nccl among them, real NCCL on the software CUDA or a GPU decides what
it would do at each size, and the model says how long that takes.

` + cli.ExitHelp,
		Example: `  ddlemu schedule compare ring:k=4 allpairs tree --coll all_reduce --gpus 8 --profile ndr400
  ddlemu schedule compare ring allpairs nccl --coll all_reduce --gpus 4 --profile ndr400 -e 16M
  ddlemu schedule compare a.xml b.xml --profile dgx-a100-nvlink -b 1M -e 1G -f 4 --plot compared.svg`,
		Args: cli.AtLeast(2, "compare takes two schedules or more: files, or kinds such as ring:k=4"),
		RunE: func(cmd *cobra.Command, args []string) error { return runScheduleCompare(cmd.Context(), g, o, args) },
	}
	o.AddFlags(g, cmd.Flags())
	return cmd
}

// comparison is the result, for --json.
type comparison struct {
	Coll      string          `json:"collective"`
	Fabric    string          `json:"fabric"`
	Schedules []string        `json:"schedules"`
	Rows      []comparisonRow `json:"rows"`
	Loads     []busiestLink   `json:"busiest_links"`
	Notes     []string        `json:"notes,omitempty"`
	Verdict   string          `json:"verdict,omitempty"` // incomplete if the calculation was interrupted
}

type comparisonRow struct {
	Size  int64      `json:"size"`
	Times []*float64 `json:"times_us"` // of each schedule; null: the size is too small for its chunks
	Best  *int       `json:"best"`     // number of the fastest schedule; null: none has a time
	Bound float64    `json:"bound_us"`
}

// busiestLink is the busiest hop of a schedule at the largest size.
type busiestLink struct {
	Schedule string  `json:"schedule"`
	Link     string  `json:"link"`
	Bytes    uint64  `json:"bytes"`
	Busy     float64 `json:"busy_us"`
	Time     float64 `json:"time_us"`
	Total    uint64  `json:"bytes_between_nodes"`
	Messages uint64  `json:"messages"`
}

func runScheduleCompare(ctx context.Context, g *cli.Global, o *scheduleCompareOptions, args []string) error {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	if err := o.plotOption.check(); err != nil {
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
	c := &comparison{Rows: []comparisonRow{}, Loads: []busiestLink{}, Coll: string(all[0].Coll),
		Fabric: place.Fabric.Config.Name}
	for _, arg := range args {
		c.Schedules = append(c.Schedules, nameOf(arg))
	}
	failed := c.fill(ctx, place, all, sizes, show)
	if failed == nil && withNCCL {
		show.Set("NCCL decides", progress.Unknown)
		failed = c.addNCCL(ctx, g, o, place, all[0])
	}
	if failed == nil {
		failed = o.plotOption.write(c.chart())
	}
	if failed != nil {
		if ctx.Err() == nil {
			return failed
		}
		c.Verdict = verdict.Incomplete
	}
	if g.JSON {
		return errors.Join(failed, g.PrintJSON(c))
	}
	c.print(g.Stdout)
	return failed
}

// fill calculates the times of all sizes.
func (c *comparison) fill(ctx context.Context, place *model.Place, all []*schedule.Schedule, sizes []int64,
	show *progress.Display) error {
	for i, size := range sizes {
		if err := c.add(ctx, place, all, size); err != nil {
			return err
		}
		show.Part("times are calculated", float64(i+1)/float64(len(sizes)))
	}
	return nil
}

// readAll reads schedules, which must be good, of one collective and for as many GPUs.
func (o *scheduleCompareOptions) readAll(g *cli.Global, args []string) (all []*schedule.Schedule, err error) {
	for _, arg := range args {
		s, err := o.read(g, arg)
		if err != nil {
			return nil, err
		}
		if s.CheckOnly != "" {
			return nil, cli.BadInput("%s: %s", arg, s.CheckOnly)
		}
		r, err := check.Check(s)
		if err != nil {
			return nil, &cli.InputError{Err: fmt.Errorf("%s: %w", arg, err)}
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

// add calculates the times of one size. A later, larger size replaces the loads.
func (c *comparison) add(ctx context.Context, place *model.Place, all []*schedule.Schedule, size int64) error {
	row := comparisonRow{Size: size}
	var loads []busiestLink
	f, err := place.Expect()
	if err != nil {
		return err
	}
	for i, s := range all {
		s, err := s.For(uint64(size))
		if err != nil {
			row.addTime(i, nil)
			continue
		}
		cut, err := s.Cut(uint64(size), 4)
		if err != nil {
			row.addTime(i, nil)
			continue
		}
		calls := 1
		if s.Whole {
			calls = 2 // in the first one senders wait for receives, which stores do not need
		}
		r, err := model.Play(ctx, s, &cut, f, calls)
		if err != nil {
			return fmt.Errorf("%s, %d bytes: %w", c.Schedules[i], size, err)
		}
		// A size that is not a multiple of the chunks is rounded down: take the time per byte.
		t := units.Microseconds(time.Duration(r.Times[calls-1])) * float64(size) / float64(cut.Bytes)
		row.addTime(i, &t)
		row.Bound = max(row.Bound, units.Microseconds(place.Bound(s, &cut)))
		b := busiestLink{Schedule: c.Schedules[i], Time: t, Total: r.Bytes, Messages: r.Messages}
		if len(r.Loads) > 0 {
			l := r.Loads[0]
			b.Link, b.Bytes, b.Busy = place.Fabric.HopName(l.Hop), l.Bytes, l.BusyNs/1e3
		}
		loads = append(loads, b)
	}
	c.Rows = append(c.Rows, row)
	c.Loads = loads
	return nil
}

func (c *comparison) print(w io.Writer) {
	fmt.Fprintf(w, "# ddlemu schedule compare: %s on fabric %s, expected times in us\n", c.Coll, c.Fabric)
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
			if second := row.second(); second > 0 {
				ahead = twoDigits(100 * (second/(*row.Times[*row.Best]) - 1))
			}
		}
		t.AppendRow(append(cells, cli.Us(row.Bound), best, ahead))
	}
	t.Render()
	if len(c.Rows) > 0 {
		c.printBusiest(w)
	}
	lines.Print(w, "note: %s\n", c.Notes)
	if c.Verdict != "" {
		fmt.Fprintf(w, "verdict: %s: it was interrupted, and has what was calculated so far\n", c.Verdict)
	}
}

// printBusiest prints the busiest link of each schedule at the largest size.
func (c *comparison) printBusiest(w io.Writer) {
	fmt.Fprintf(w, "\n# the busiest link of each at %d bytes\n", c.Rows[len(c.Rows)-1].Size)
	t := cli.NewTable(w, "schedule", "link", "carries ", "busy(us) ", "of(us) ", "between nodes ", "messages ")
	for _, l := range c.Loads {
		t.AppendRow(table.Row{l.Schedule, l.Link, units.Volume(l.Bytes), twoDigits(l.Busy), twoDigits(l.Time),
			units.Volume(l.Total), l.Messages})
	}
	t.Render()
}

// addTime adds the time of the schedule with the next number; nil if it is not known.
func (r *comparisonRow) addTime(number int, t *float64) {
	r.Times = append(r.Times, t)
	if t != nil && (r.Best == nil || *t < *r.Times[*r.Best]) {
		r.Best = &number
	}
}

// second is the time of the second fastest, 0 if there is none.
func (r *comparisonRow) second() float64 {
	second := math.Inf(1)
	for i, x := range r.Times {
		if x != nil && (r.Best == nil || i != *r.Best) {
			second = min(second, *x)
		}
	}
	if math.IsInf(second, 1) {
		return 0
	}
	return second
}
