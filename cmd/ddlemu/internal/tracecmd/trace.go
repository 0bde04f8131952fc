// SPDX-License-Identifier: Apache-2.0

// Package tracecmd has the commands for what crossed the links: messages, why, diff, whatif, pending, trace, capture
// and report.
package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/timeline"
	"github.com/ddlemu/ddlemu/intercept/timeline/archive"
	"github.com/ddlemu/ddlemu/intercept/timeline/perfetto"
	"github.com/ddlemu/ddlemu/intercept/why"
)

// traceOptions are the flags of trace.
type traceOptions struct {
	Output string
	Force  bool
	With   []string
	Window time.Duration
}

// NewTraceCommand is `ddlemu trace`.
func NewTraceCommand(g *cli.Global) *cobra.Command {
	o := &traceOptions{}
	cmd := &cobra.Command{
		Use:   "trace FOLDER... -o FILE",
		Short: "Draw what a traced job has sent as a timeline for Perfetto",
		Long: cli.Long("docs/trace.md", `
Write a timeline of a job that was recorded with --trace, for https://ui.perfetto.dev: where the
time of each call went, each message at its sender, its receiver and each link, the rate and the
queue of each link, and phases that the program marks by NVTX.

With --with, PyTorch's own traces are beside it on one time axis. That needs the real clock.`),
		Example: `  ddlemu trace t -o t.pftrace
  ddlemu trace t --with rank0.json --with rank1.json.gz -o t.zip`,
		Args: cli.TraceFolders,
		RunE: func(cmd *cobra.Command, args []string) error { return runTrace(cmd.Context(), g, o, args) },
	}
	fs := cmd.Flags()
	g.AddQuietFlag(fs)
	fs.StringVarP(&o.Output, "output", "o", "", "write this `file`")
	fs.BoolVar(&o.Force, "force", false, "replace the file if it exists")
	fs.StringArrayVar(&o.With, "with", nil,
		"put this trace of PyTorch's profiler beside it; the output is a ZIP archive (`file`; may be repeated)")
	fs.DurationVar(&o.Window, "window", 0, "average counters over this `time` (default: about 1/2000 of the whole)")
	return cli.Ruled(cmd,
		cli.Least("window", 0),
		cli.Required("output", "the timeline needs a file"),
		cli.NewFiles("output"))
}

func runTrace(ctx context.Context, g *cli.Global, o *traceOptions, dirs []string) error {
	show, stop := g.ShowReplay(ctx, "trace")
	defer stop()
	t, fab, err := show.Load(dirs)
	if err != nil {
		return err
	}
	clock := timeline.Clock{Scale: t.Ranks[0].TimeScale}
	var with []*archive.Trace
	if len(o.With) > 0 {
		if clock, err = realtime(t); err != nil {
			return err
		}
	}
	for _, path := range o.With {
		x, err := archive.Read(path)
		if err != nil {
			return cli.BadInput("--with: %w", err)
		}
		with = append(with, x)
	}
	played, err := replay.Play(fab, t)
	if err != nil {
		return err
	}
	line := timeline.New(played, clock, o.window(t, clock))
	var report *why.Report
	err = cli.WriteFile("-o", o.Output, o.Force, 0o600, func(w io.Writer) error {
		w = show.Writer(w, o.Output)
		if len(with) == 0 {
			report, err = writePerfetto(w, perfetto.Boottime, t, line)
			return err
		}
		return archive.Write(w, with, func(w io.Writer) error {
			report, err = writePerfetto(w, perfetto.Realtime, t, line)
			return err
		})
	})
	if err != nil {
		return err
	}
	printTraced(g.Stdout, o, t, report, with, clock)
	return nil
}

// writePerfetto draws hops while it draws the rest.
func writePerfetto(w io.Writer, clock int, t *messages.Trace, line *timeline.Timeline) (*why.Report, error) {
	p := perfetto.NewWriter(w, clock, 1)
	if clock == perfetto.Realtime {
		at := t.Ranks[0].BegunRealtime
		p.Begun(map[int]int64{perfetto.Realtime: at, perfetto.Boottime: at})
	}
	line.Groups(p)
	var later chunks // an arrow leads from a rank to a hop, so hops come behind ranks in the file
	hops := perfetto.NewWriter(&later, clock, 2)
	var other sync.WaitGroup
	other.Go(func() { line.Hops(hops) })
	line.Ranks(p)
	report, err := why.Of(line.Replayed)
	if err == nil {
		line.CriticalPaths(p, report)
	}
	other.Wait()
	if err := errors.Join(err, hops.Close(), p.Close()); err != nil {
		return nil, err
	}
	for _, chunk := range later {
		if _, err := w.Write(chunk); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// chunks keeps the bytes that are written.
type chunks [][]byte

func (c *chunks) Write(b []byte) (int, error) {
	*c = append(*c, slices.Clone(b))
	return len(b), nil
}

// realtime is a clock whose times are from CLOCK_REALTIME, which PyTorch's profiler has too.
func realtime(t *messages.Trace) (timeline.Clock, error) {
	r := &t.Ranks[0]
	switch {
	case r.Virtual:
		return timeline.Clock{}, cli.BadInput(
			"--with: the job ran in virtual time, PyTorch's profiler in real time: they have no common time axis; " +
				"run the job with --clock real")
	case r.BegunRealtime == 0:
		return timeline.Clock{}, cli.BadInput(
			"--with: the ledger does not say when it was begun: record the job again with this version")
	}
	return timeline.Clock{Scale: 1, Offset: r.BegunRealtime - r.Begun}, nil
}

// window is the time over which counters are averaged, in ns: 1, 2 or 5 times a power of ten.
func (o *traceOptions) window(t *messages.Trace, clock timeline.Clock) int64 {
	if o.Window > 0 {
		return o.Window.Nanoseconds()
	}
	first, last := t.Span()
	window := int64(100)
	for k := 0; window < (last-first)/clock.Scale/2000; k++ {
		window = window * []int64{2, 5, 2}[k%3] / []int64{1, 2, 1}[k%3]
	}
	return window
}

func printTraced(w io.Writer, o *traceOptions, t *messages.Trace, r *why.Report, with []*archive.Trace,
	clock timeline.Clock) {
	fmt.Fprintf(w, "%s: %s, %s, averages over %s; open it at https://ui.perfetto.dev\n",
		o.Output, counted(t), units.Count(len(t.Messages), "message"), time.Duration(o.window(t, clock)))
	notes := append(cli.WhyNotes(t, r), rangeNotes(t)...)
	if scale := t.Ranks[0].TimeScale; len(with) > 0 && scale > 1 {
		notes = append(notes,
			fmt.Sprintf("times are real ones, as PyTorch's are: times of the emulated network are %d times shorter",
				scale))
	}
	first, last := t.Span()
	for _, x := range with {
		if x.Last < first+clock.Offset || x.First > last+clock.Offset {
			notes = append(notes, fmt.Sprintf("%s was recorded at another time than the job", x.Path))
		}
	}
	cli.PrintBasis(w, t, "", notes)
}

// counted is how many calls and ranges there are.
func counted(t *messages.Trace) string {
	calls := units.Count(len(t.Calls), "call")
	if len(t.Ranges) == 0 {
		return calls
	}
	return calls + ", " + units.Count(len(t.Ranges), "range")
}

// rangeNotes say what the programs' ranges lack.
func rangeNotes(t *messages.Trace) (notes []string) {
	open := 0
	for i := range t.Ranges {
		if t.Ranges[i].Ended == 0 {
			open++
		}
	}
	if open > 0 {
		notes = append(notes, fmt.Sprintf("%s had not ended: drawn to the end of the trace, with a mark \"not ended\"",
			units.Count(open, "range")))
	}
	if n := t.LostRanges; n > 0 {
		notes = append(notes, fmt.Sprintf("%s lost, or their names: a rank had no place for more",
			units.Count(int(n), "range")))
	}
	return notes
}
