// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/host"
	"github.com/ddlemu/ddlemu/shaper/kernel/bringup"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
)

// doctorRanks are the numbers of ranks that doctor measures this host for.
var doctorRanks = []int{2, 4, 8}

type doctorOptions struct {
	Time time.Duration // to measure for each number of ranks; 0 not to
}

func (o *doctorOptions) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Time, "measure", measureTime, "`time` to measure this host for each number of ranks, 0 not to")
}

func newDoctorCommand(g *global) *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do",
		Long: `Look for what a run may need, say what follows from it and how to get what is
lacking. Then measure, with as many busy threads as 2, 4 and 8 ranks have, the
largest rate per rank that would be VALID here in real time (time scale 1), for
messages of an instant (a fabric of 1 us) and of a long way (10 ms). It is a
prediction: the verdict of a run decides.

Let nothing else run meanwhile.

` + exitHelp,
		Example: `  ddlemu doctor
  ddlemu doctor --json | jq '.checks[] | select(.status != "ok")'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	g.addJSONFlag(cmd.Flags())
	return cmd
}

// doctorReport is what doctor --json prints.
type doctorReport struct {
	Checks  []host.Check  `json:"checks"`
	Carries []carriesJSON `json:"carries"`
}

// carriesJSON is what this host carries with a number of ranks, by prediction.
type carriesJSON struct {
	Ranks          int     `json:"ranks"`
	Threads        int     `json:"busy_threads"`
	CopyRate       float64 `json:"copy_gbs"`      // GB/s, each rank
	Near           float64 `json:"valid_gbs"`     // GB/s per rank that would be VALID at time scale 1, messages of 1 us; 0 = none
	Far            float64 `json:"valid_far_gbs"` // the same, messages of 10 ms
	NearScale      int     `json:"time_scale"`    // from which on small rates would be VALID, messages of 1 us; 0 = none
	PollDelayP50Ns int64   `json:"poll_delay_p50_ns"`
	PollDelayP99Ns int64   `json:"poll_delay_p99_ns"`
	LongestPollNs  int64   `json:"poll_gap_max_ns"`
}

// How long the messages take that doctor measures for.
const (
	nearMessage = time.Microsecond
	farMessage  = 10 * time.Millisecond
)

// runDoctor looks, measures and prints.
func runDoctor(ctx context.Context, g *global, o *doctorOptions) error {
	if o.Time < 0 {
		return badInput("--measure: %v is less than no time: give 0 or more", o.Time)
	}
	m := host.Machine{Getenv: g.Getenv}
	if layout, err := locate.Find(); err == nil {
		m.Plugin, m.SoftCUDA = layout.Plugin, layout.SoftCUDA
	}
	report := doctorReport{Checks: append(m.Checks(), wireCheck(ctx)), Carries: []carriesJSON{}}
	if !g.JSON {
		printChecks(g.Stdout, report.Checks)
	}
	if o.Time > 0 {
		for _, ranks := range doctorRanks {
			h, err := host.Measure(ctx, busyThreads(ranks), o.Time)
			if err != nil {
				return err
			}
			report.Carries = append(report.Carries, carries(h, ranks))
		}
	}
	if g.JSON {
		return g.printJSON(report)
	}
	if len(report.Carries) > 0 {
		printCarries(g.Stdout, report.Carries)
	}
	return nil
}

// wireCheck measures what the shaper wire adds to every packet.
func wireCheck(ctx context.Context) host.Check {
	k := host.Check{
		Name: "wire", Grade: host.OK,
		Means: "a latency of less than that cannot be had from the kernel datapath's shaper wire: it would be INVALID; the shm datapath has no such floor",
	}
	if err := bringup.CheckPrivileges(); err != nil {
		k.Grade, k.Found, k.Next = host.NotTested, "needs root", "sudo ddlemu doctor"
		return k
	}
	f, err := wire.MeasureFloor(ctx)
	if err != nil {
		k.Grade, k.Found, k.Next = host.NotTested, err.Error(), "run ddlemu doctor again, when nothing else runs"
		return k
	}
	k.Found = fmt.Sprintf("a packet that is asked to take no time takes %v, 1 in 100 more than %v", f.P50.Round(100*time.Nanosecond), f.P99.Round(100*time.Nanosecond))
	return k
}

func carries(h host.Host, ranks int) carriesJSON {
	limits := host.VerdictLimits()
	c := carriesJSON{
		Ranks: ranks, Threads: h.Threads, CopyRate: h.Rate / 1e9,
		Near: host.LargestRate(h, nearMessage, limits) / 1e9, Far: host.LargestRate(h, farMessage, limits) / 1e9,
		PollDelayP50Ns: int64(h.Delay(0.5, 0)), PollDelayP99Ns: int64(h.Delay(0.99, 0)), LongestPollNs: int64(h.Longest()),
	}
	if k, _, err := host.Scale(h, host.Demand{Rate: 1, T: nearMessage}, limits); err == nil {
		c.NearScale = k
	}
	return c
}

// printChecks prints each check with what it means, and how to get what is lacking.
func printChecks(w io.Writer, checks []host.Check) {
	for _, c := range checks {
		fmt.Fprintf(w, "%-10s  %s: %s\n%12s%s\n", c.Grade, c.Name, c.Found, "", c.Means)
		if c.Next != "" {
			fmt.Fprintf(w, "%12sto get it: %s\n", "", c.Next)
		}
	}
}

func printCarries(w io.Writer, all []carriesJSON) {
	fmt.Fprintf(w, "\nlargest rate per rank that would be VALID here at time scale 1 (a prediction; the verdict decides)\n\n")
	t := newTable(w, "ranks ", "busy threads ", "messages of 1 us ", "messages of 10 ms ", "poll delay p50 ", "p99 ", "longest ", "1 us needs time scale ")
	for _, c := range all {
		k := fmt.Sprint(c.NearScale)
		if c.NearScale == 0 {
			k = "too slow"
		}
		t.AppendRow(table.Row{
			c.Ranks, c.Threads, bothRates(c.Near), bothRates(c.Far),
			micros(c.PollDelayP50Ns), micros(c.PollDelayP99Ns), micros(c.LongestPollNs), k,
		})
	}
	t.Render()
}

// bothRates prints GB/s in bytes and in bits.
func bothRates(gbs float64) string {
	if gbs == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g GB/s (%.3g Gb/s)", gbs, 8*gbs)
}

// micros prints ns as us with one digit behind the point.
func micros(ns int64) string { return fmt.Sprintf("%.1f us", float64(ns)/1e3) }
