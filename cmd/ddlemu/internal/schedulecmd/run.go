// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/nccl-plugin/drive"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/perform"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// The values of --via.
const (
	viaNet = "net"
	viaP2P = "p2p"
)

type scheduleRunOptions struct {
	scheduleMakeOptions
	scheduleFabric
	sizeOptions
	plotOption
	Iters int
	Model bool
	// RunBad runs a schedule that check finds wrong.
	RunBad bool
	Via    string
	NCCL   string
}

func (o *scheduleRunOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.scheduleMakeOptions.AddFlags(fs)
	o.scheduleFabric.AddFlags(fs)
	o.sizeOptions.AddFlags(fs, 1<<10, 1<<20)
	o.plotOption.AddFlags(fs, "the bus bandwidth over the sizes")
	fs.IntVarP(&o.Iters, "iters", "n", 3, "timed calls of a row")
	fs.BoolVar(&o.Model, "model", false, "only calculate expected times: no byte is sent, and nothing is checked")
	fs.BoolVar(&o.RunBad, "run-bad", false, "run a schedule that is not good")
	fs.StringVar(&o.Via, "via", viaNet,
		"what moves the bytes: net (the plugin's connections) or p2p (ncclSend and ncclRecv)")
	fs.StringVar(&o.NCCL, "nccl", "",
		"with --via p2p: `version` (2.22 or 2.29) for the software CUDA, or path of libnccl.so.2")
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
}

func newScheduleRunCommand(g *cli.Global) *cobra.Command {
	o := &scheduleRunOptions{}
	cmd := &cobra.Command{
		Use:   "run FILE.xml",
		Short: "Run a schedule with real bytes on an emulated fabric",
		Long: `Execute a schedule with real bytes over the emulated links, as MSCCL's kernel (or MSCCL++'s
executor) does. Elements are int32, added up; every element of the first call of a row is checked.
With --via p2p real NCCL moves whole chunks in groups of ncclSend and ncclRecv.
Instead of a file give ring, allpairs, tree, chain or double-binary, with --coll, --k, --grain
and --gpus. bound is a lower bound for any schedule. A size too large to run is only calculated.

Exit status: 0, also if INVALID; 1 on failure or a wrong element; 2 for bad input, such as a wrong
schedule; 130 if interrupted (the output has the rows so far).
Page: docs/schedules.md`,
		Example: `  ddlemu schedule run algo.xml --profile ndr400 -b 1K -e 1M -f 4
  ddlemu schedule run algo.xml --profile ndr400 -b 1M -e 1M --via p2p --nccl 2.29
  ddlemu schedule run allpairs --k 4 --grain 1M --gpus 8 --profile dgx-a100-nvlink -b 1G -e 1G --model`,
		Args: oneSource,
		RunE: func(cmd *cobra.Command, args []string) error { return runSchedule(cmd.Context(), g, o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd,
		cli.Least("iters", 1),
		cli.Least("stepfactor", 2),
		cli.Among("via", viaNet, viaP2P),
		cli.Needs("model", "via="+viaNet, "with --via p2p NCCL plays the schedule"),
		cli.Needs("nccl", "via="+viaP2P, "with --via net no NCCL is used"),
		cli.NewFiles("plot"))
}

func runSchedule(ctx context.Context, g *cli.Global, o *scheduleRunOptions, arg string) error {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	s, err := o.readOne(g, arg)
	if err != nil {
		return err
	}
	root, err := o.checkBefore(g, arg, s)
	if err != nil {
		return err
	}
	place, err := o.place(g, len(s.GPUs))
	if err != nil {
		return err
	}
	show, stop := g.ShowProgress("schedule")
	defer stop()
	r := &scheduleRun{g: g, o: o, s: s, place: place, show: show}
	player, end, err := r.player(ctx, root)
	if err != nil {
		return err
	}
	defer end()
	report, failed := perform.Run(ctx, arg, s, place, sizes, player)
	if report == nil {
		return failed
	}
	report.Via, report.InForce = o.Via, o.inForce
	if p2p, ok := player.(*perform.P2P); ok {
		report.NCCL = p2p.NCCL
	}
	if failed == nil {
		if err := o.plotOption.write(runChart(s, report)); err != nil {
			return err
		}
	}
	return errors.Join(failed, r.print(report))
}

// checkBefore refuses a schedule that is not good, unless --run-bad is given, and returns the root of a rooted
// collective.
func (o *scheduleRunOptions) checkBefore(g *cli.Global, arg string, s *schedule.Schedule) (root int, err error) {
	switch {
	case s.CheckOnly != "":
		return 0, cli.BadInput("%s: %s", arg, s.CheckOnly)
	case s.Whole && o.Via == viaP2P:
		return 0, cli.BadInput(
			"--via p2p: %s: NCCL has no stores into and loads from the memory of another GPU: leave out --via", arg)
	}
	r, err := check.Check(s)
	if err != nil {
		return 0, &cli.InputError{Err: fmt.Errorf("%s: %w", arg, err)}
	}
	for _, text := range r.Warnings {
		g.Warn("%s: %s", arg, text)
	}
	if r.Good() {
		return max(r.Root, 0), nil
	}
	f := r.Findings[0]
	text := fmt.Sprintf("%s: %s: %s", arg, f.Kind, f.Text)
	switch {
	case len(s.Mistakes) > 0:
		return 0, cli.BadInput("%s: it cannot be run: see all with `ddlemu schedule check`", text)
	case !o.RunBad:
		return 0, cli.BadInput("%s: see all with `ddlemu schedule check`, or run it with --run-bad", text)
	case f.Kind != check.WrongResult && f.Kind != check.Unordered && f.Kind != check.Deadlock:
		return 0, cli.BadInput("--run-bad: %s: it cannot be run", text)
	}
	g.Warn("%s", text)
	return max(r.Root, 0), nil
}

// scheduleRun is a run of a schedule.
type scheduleRun struct {
	g     *cli.Global
	o     *scheduleRunOptions
	s     *schedule.Schedule
	place *model.Place
	show  *progress.Display
}

// player is what moves the bytes: what --via names, or only the model. end ends it.
func (r *scheduleRun) player(ctx context.Context, root int) (p perform.Player, end func(), err error) {
	if r.o.Via == viaP2P {
		on := func() (emulate.Options, error) {
			e, err := onPlace(r.g, r.place, r.o.scheduleFabric.Flags, r.o.NCCL, bench.Config{Stderr: r.g.Stderr})
			e.Progress = r.show.Set
			return e, err
		}
		return &perform.P2P{On: on, Root: root, Calls: r.o.Iters}, func() {}, nil
	}
	on, err := r.place.Expect()
	if err != nil {
		return nil, nil, err
	}
	m := perform.Model{On: on, Calls: r.o.Iters}
	if r.o.Model {
		return &m, func() {}, nil
	}
	if _, err := r.g.SettleScale(ctx, r.o.scheduleFabric.Flags, r.place.Fabric); err != nil {
		return nil, nil, err
	}
	if err := r.g.WarnTooMuch(ctx, r.place.Fabric); err != nil {
		return nil, nil, err
	}
	dir, err := r.g.OpenDir(true)
	if err != nil {
		return nil, nil, err
	}
	d, err := drive.NewPlayer(ctx, dir, r.place, m, root, func(part float64) { r.show.Part("calls are made", part) })
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return d, func() { d.Close(); dir.Close() }, nil
}

// print prints a report, and fails if an element is wrong.
func (r *scheduleRun) print(report *perform.Report) error {
	if err := r.g.Print(report, func(w io.Writer) { r.printText(w, report) }); err != nil {
		return err
	}
	if wrong := report.Wrong(); wrong > 0 {
		return errors.New(units.Count(int(wrong), "element") + " of the results wrong: see #wrong")
	}
	return nil
}

func (r *scheduleRun) printText(w io.Writer, report *perform.Report) {
	r.printTable(w, report)
	if n := len(report.Rows); n > 0 {
		r.printLoads(w, &report.Rows[n-1])
	}
	lines.Print(w, "note: %s\n", report.Notes)
	if v := report.Judged; v != nil {
		lines.Print(w, "ddlemu: %s\n", v.Lines(""))
		fmt.Fprintf(w, "verdict: %s\n", v.Word)
	}
}

func (r *scheduleRun) printTable(w io.Writer, report *perform.Report) {
	c := &r.place.Fabric.Config
	fmt.Fprintf(w, "# ddlemu schedule run %s: %s\n", report.Schedule, describeSchedule(r.s))
	what := "datapath shm  clock " + c.ClockName()
	switch {
	case r.o.Model:
		what = "calculated by the link model alone"
	case r.o.Via == viaP2P:
		what += "  via p2p (coarser: groups of ncclSend and ncclRecv, whole chunks)  NCCL " + report.NCCL
	}
	fmt.Fprintf(w, "# fabric %s  nodes %d  %s  calls %d\n", c.Name, c.Nodes, what, r.o.Iters)
	printInForce(w, &report.InForce)
	t := cli.NewTable(w, "size(B) ", "count ", "type ", "redop ", "place", "avg_time(us) ", "min_time(us) ",
		"avg_algbw(GiB/s) ", "max_algbw(GiB/s) ", "avg_algbw(GB/s) ", "max_algbw(GB/s) ", "busbw(GB/s) ", "#wrong ",
		"expected(us) ", "diff(%) ", "bound(us) ")
	redop := "none"
	if r.s.Coll.Reduces() {
		redop = "sum"
	}
	for _, row := range report.Rows {
		const gib = 1 << 30
		avg, most := row.Algbw(row.Avg), row.Algbw(row.Min)
		t.AppendRow(table.Row{
			row.Size, row.Count, "int32", redop, row.Place, twoDigits(row.Avg), twoDigits(row.Min),
			twoDigits(avg / gib), twoDigits(most / gib), twoDigits(avg / 1e9), twoDigits(most / 1e9),
			twoDigits(row.Busbw),
			wrongText(row.Wrong), twoDigits(row.Expected), diffText(row.Diff), cli.Us(row.Bound),
		})
	}
	t.Render()
}

func twoDigits(x float64) string { return fmt.Sprintf("%.2f", x) }

func wrongText(n *uint64) string {
	if n == nil {
		return "N/A"
	}
	return fmt.Sprint(*n)
}

func diffText(d *float64) string {
	if d == nil {
		return "-"
	}
	return twoDigits(*d)
}

// shownLoads is the number of hops that are shown.
const shownLoads = 3

// printLoads prints the busiest hops of a row.
func (r *scheduleRun) printLoads(w io.Writer, row *perform.Row) {
	for i, l := range row.Loads {
		if i == shownLoads || l.BusyNs == 0 {
			break
		}
		fmt.Fprintf(w, "# %s carries %s, busy for %.2f of %.2f us\n", r.place.Fabric.HopName(l.Hop),
			units.Volume(l.Bytes), l.BusyNs/1e3, row.Expected)
	}
}
