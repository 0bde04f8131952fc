// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/nccl-plugin/drive"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/bench/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
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

// check refuses flags that do not go together.
func (o *scheduleRunOptions) check() error {
	switch {
	case o.Iters < 1:
		return cli.BadInput("-n %d: must be at least 1", o.Iters)
	case o.Via != viaNet && o.Via != viaP2P:
		return cli.BadInput("--via %s: must be net or p2p", o.Via)
	case o.Via == viaP2P && o.Model:
		return cli.BadInput("--model is for --via net: with --via p2p NCCL plays the schedule")
	case o.Via == viaNet && o.NCCL != "":
		return cli.BadInput("--nccl is for --via p2p: with --via net no NCCL is used")
	}
	return o.plotOption.check()
}

func newScheduleRunCommand(g *cli.Global) *cobra.Command {
	o := &scheduleRunOptions{}
	cmd := &cobra.Command{
		Use:   "run FILE.xml",
		Short: "Run a schedule with real bytes on an emulated fabric",
		Long: `Execute a schedule with real bytes over the emulated links, as MSCCL's kernel does:
each block runs its steps on one piece of a chunk after another, waits for flags of other
blocks, and moves messages through the step buffers of its connections. Connections are
those of the plugin, one for each source, destination and channel. Elements are int32, the
operation is sum. Every element of the first call of a row is checked. A plan of MSCCL++ runs
as its executor does: thread blocks store into and load from the memory of other GPUs.

With --via p2p real NCCL moves the bytes instead, in groups of ncclSend and ncclRecv: all
that a GPU can send at once is one group, whole chunks, one message to each peer. That is
coarser: a GPU passes a chunk on only when it has all of it. Copies and sums between the
groups are done by the ranks.

expected is the time of the link model for the same messages. Copies and sums take no time
on a virtual clock, which is the default. avg_time and min_time are of -n calls, each of
which starts when all GPUs have ended the one before; algbw is size / time, in GiB/s (which
tools of pipelined schedules print as GB/s) and in GB/s, busbw as in nccl-tests. bound is a lower bound for any
schedule of the collective on this fabric.

Instead of a file give ring, allpairs, tree, chain or double-binary to make one, with --coll,
--k, --grain and --gpus. On a profile each GPU is a node of its own, unless --nodes
is given. A size is rounded down so that all chunks are equal. A size whose buffers do not
fit into half of this host's free memory is only calculated: #wrong is then N/A.

EXIT STATUS
===========

0 on success, also if the verdict is INVALID; 1 on failure or if an element is wrong, 2 for
bad input, such as a schedule that is not good (see ` + "`ddlemu schedule check`" + `), 130 if
interrupted: then the output has the rows so far, and the verdict is incomplete.
`,
		Example: `  ddlemu schedule run algo.xml --profile ndr400 -b 1K -e 1M -f 4
  ddlemu schedule run algo.xml --profile ndr400 -b 1M -e 1M --via p2p --nccl 2.29
  ddlemu schedule run allpairs --k 4 --grain 1M --gpus 8 --profile dgx-a100-nvlink -b 1G -e 1G --model`,
		Args: oneSource,
		RunE: func(cmd *cobra.Command, args []string) error { return runSchedule(cmd.Context(), g, o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cmd
}

// scheduleRow is one row of the table.
type scheduleRow struct {
	Size     uint64   `json:"size"`
	Count    uint64   `json:"count"`
	Place    string   `json:"place"`
	Avg      float64  `json:"avg_us"`
	Min      float64  `json:"min_us"`
	Expected float64  `json:"expected_us"`
	Diff     *float64 `json:"diff_percent"` // nil: only calculated
	Bound    float64  `json:"bound_us,omitempty"`
	Wrong    *uint64  `json:"wrong"` // nil: not checked
	Busbw    float64  `json:"busbw_gbs"`
	loads    []expect.Load
}

// algbw is bytes per second at a time in us.
func (r *scheduleRow) algbw(us float64) float64 { return float64(r.Size) / us * 1e6 }

func runSchedule(ctx context.Context, g *cli.Global, o *scheduleRunOptions, arg string) error {
	if err := o.check(); err != nil {
		return err
	}
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
	r := &scheduleRun{g: g, o: o, s: s, root: root, place: place}
	if r.expect, err = place.Expect(); err != nil {
		return err
	}
	show, stop := g.ShowProgress("schedule")
	defer stop()
	r.progress, r.say = func(part float64) { show.Part("calls are made", part) }, show.Set
	defer r.close()
	if err := r.start(ctx); err != nil {
		return err
	}
	rows, notes, err := r.rows(ctx, sizes)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if err == nil {
		if err := o.plotOption.write(r.chart(arg, rows)); err != nil {
			return err
		}
	}
	return errors.Join(err, r.print(arg, rows, notes, err != nil))
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
	g        *cli.Global
	o        *scheduleRunOptions
	s        *schedule.Schedule
	root     int
	place    *model.Place
	expect   *expect.Fabric
	progress func(part float64)
	say      emulate.Progress
	// verdicts are those of the rows with --via p2p.
	verdicts []verdict.Verdict
	nccl     string // its version there
	measured bool   // a row with real bytes

	job  *job.Job // nil with --model and --via p2p
	dir  *state.Dir
	file *state.File
}

// start brings up the fabric for real bytes.
func (r *scheduleRun) start(ctx context.Context) (err error) {
	if r.o.Model || r.o.Via == viaP2P {
		return nil
	}
	if _, err := r.g.SettleScale(ctx, r.o.scheduleFabric.Flags, r.place.Fabric); err != nil {
		return err
	}
	if err := r.g.WarnTooMuch(ctx, r.place.Fabric); err != nil {
		return err
	}
	if r.dir, err = r.g.OpenDir(true); err != nil {
		return err
	}
	if r.job, err = job.Start(ctx, r.dir, r.place.Fabric, "schedule"); err != nil {
		return err
	}
	r.file, err = r.dir.Open(r.job.Name())
	return err
}

func (r *scheduleRun) close() {
	// The fabric is removed; errors of closing what was only read have no consequence.
	if r.file != nil {
		_ = r.file.Close()
	}
	if r.job != nil {
		_ = r.job.Close()
	}
	if r.dir != nil {
		_ = r.dir.Close()
	}
}

// rows measures all sizes, and notes what could not be. With an error it returns the rows so far.
func (r *scheduleRun) rows(ctx context.Context, sizes []int64) (rows []scheduleRow, notes []string, err error) {
	var done []uint64
	var outside []string // sizes for which the schedule is not made
	for _, size := range sizes {
		s, err := r.s.For(uint64(size))
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		cut, err := s.Cut(uint64(size), 4)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		if slices.Contains(done, cut.Bytes) {
			continue
		}
		done = append(done, cut.Bytes)
		if r.s.MinBytes > int64(cut.Bytes) || r.s.MaxBytes > 0 && r.s.MaxBytes < int64(cut.Bytes) {
			outside = append(outside, fmt.Sprint(cut.Bytes))
		}
		for _, inPlace := range r.s.Variants() {
			row, note, err := r.row(ctx, s, &cut, inPlace)
			if err != nil {
				return rows, notes, fmt.Errorf("%d bytes %s: %w", cut.Bytes, bench.Place(inPlace), err)
			}
			if note != "" {
				notes = append(notes, note)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, nil, &cli.InputError{Err: errors.New(notes[0])}
	}
	if len(outside) > 0 {
		notes = append(notes, fmt.Sprintf("%s would not use the schedule for %s bytes: it is for %d to %d",
			executorOf(r.s), strings.Join(outside, ", "), r.s.MinBytes, r.s.MaxBytes))
	}
	return rows, notes, nil
}

// row measures one size. s is the schedule for it.
func (r *scheduleRun) row(ctx context.Context, s *schedule.Schedule, cut *schedule.Cut, inPlace bool) (row scheduleRow,
	note string, err error) {
	if r.o.Via == viaP2P {
		return r.rowP2P(ctx, cut, inPlace)
	}
	expected, err := model.Play(ctx, s, cut, r.expect, r.o.Iters+1)
	if err != nil {
		return row, "", err
	}
	row = r.newRow(cut, inPlace)
	row.loads = expected.Loads
	// The calls behind the first one, as they are timed.
	var times []time.Duration
	for _, t := range expected.Times[1:] {
		times = append(times, time.Duration(t))
	}
	row.Avg, row.Min = meanAndLeast(times)
	row.Expected = row.Avg
	if r.job != nil {
		note, err = r.measure(ctx, s, cut, inPlace, &row)
	}
	row.Busbw = row.algbw(row.Avg) * busFactor(r.s) / 1e9
	return row, note, err
}

// executorOf names what executes schedules of this kind on GPUs.
func executorOf(s *schedule.Schedule) string {
	if s.Whole {
		return "MSCCL++"
	}
	return "MSCCL"
}

// newRow is a row without times.
func (r *scheduleRun) newRow(cut *schedule.Cut, inPlace bool) scheduleRow {
	row := scheduleRow{Size: cut.Bytes, Count: cut.Bytes / 4, Place: bench.Place(inPlace),
		Bound: units.Microseconds(r.place.Bound(r.s, cut))}
	if r.s.Coll.PerRank() {
		row.Count /= uint64(len(r.s.GPUs))
	}
	return row
}

// measure fills in what only real bytes tell.
func (r *scheduleRun) measure(ctx context.Context, s *schedule.Schedule, cut *schedule.Cut, inPlace bool,
	row *scheduleRow) (note string, err error) {
	need := drive.Memory(s, cut, inPlace, r.root)
	if free := (host.Machine{Getenv: r.g.Getenv}).AvailableMemory(); free > 0 && need > free/2 {
		return fmt.Sprintf("%d bytes are only calculated: they need %s, and half of the free memory is %s", cut.Bytes,
			units.Volume(need), units.Volume(free/2)), nil
	}
	w, err := drive.JoinToPerform(r.file, r.place.Fabric, r.job.Key())
	if err != nil {
		return "", err
	}
	defer w.Close()
	out, err := w.Perform(ctx, drive.Performance{Schedule: s, Cut: *cut, Place: r.place, InPlace: inPlace, Root: r.root,
		Calls: r.o.Iters, Progress: r.progress})
	if err != nil {
		return "", err
	}
	scale := float64(r.place.Fabric.TimeScale())
	row.Avg, row.Min = meanAndLeast(out.Times)
	row.Avg, row.Min = row.Avg/scale, row.Min/scale
	row.Diff, r.measured = new(100*(row.Avg/row.Expected-1)), true
	if r.s.Coll.HasResult() {
		row.Wrong = &out.Wrong
	}
	return "", nil
}

// verdict is the verdict on what the links carried; nil if no byte was to be sent. It is incomplete if the run was
// interrupted.
func (r *scheduleRun) verdict(interrupted bool) *verdict.Verdict {
	v, known := r.verdictOfLinks()
	if interrupted {
		v.Stop("interrupted: the output has the rows so far")
	} else if !known {
		return nil
	}
	return &v
}

// verdictOfLinks is false if no byte was sent. With --via p2p it is that of the first row that is not VALID.
func (r *scheduleRun) verdictOfLinks() (verdict.Verdict, bool) {
	for i, v := range r.verdicts {
		if !v.Valid || i == len(r.verdicts)-1 {
			return v, true
		}
	}
	if r.job == nil || !r.measured {
		return verdict.New(nil), false
	}
	return r.job.Verdict(), true
}

func meanAndLeast(times []time.Duration) (mean, least float64) {
	for _, t := range times {
		mean += units.Microseconds(t) / float64(len(times))
	}
	return mean, units.Microseconds(slices.Min(times))
}

// busFactor is nccl-tests' factor from algbw to busbw; 1 for what nccl-tests does not have.
func busFactor(s *schedule.Schedule) float64 {
	if coll, ok := s.Coll.NCCL(); ok {
		return coll.BusFactor(len(s.GPUs))
	}
	return 1
}
