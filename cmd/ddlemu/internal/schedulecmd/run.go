// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
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
	o.sizeOptions.AddFlags(fs, "1K", "1M")
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
