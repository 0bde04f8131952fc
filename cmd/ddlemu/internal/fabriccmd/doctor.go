// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// doctorRanks are the numbers of ranks that doctor predicts for.
var doctorRanks = []int{2, 4, 8}

// NewDoctorCommand is `ddlemu doctor`.
func NewDoctorCommand(g *cli.Global) *cobra.Command {
	var measure time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this host can do",
		Long: cli.Long("docs/limits.md", `
Check everything that a run may need, and print what each result means and how to get what is
missing. Then measure this host with the busy threads of 2, 4 and 8 ranks, and predict the largest
rate per rank that would be VALID in real time. Run nothing else during the measurement.`),
		Example: `  ddlemu doctor
  ddlemu doctor --json | jq '.checks[] | select(.status != "ok")'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), g, measure) },
	}
	cmd.Flags().DurationVar(&measure, "measure", host.MeasureTime,
		"`time` to measure this host for each number of ranks, 0 to skip")
	g.AddJSONFlag(cmd.Flags())
	return cli.Ruled(cmd, cli.Least("measure", 0))
}

// doctorReport is what doctor --json prints.
type doctorReport struct {
	Checks  []host.Check    `json:"checks"`
	Carries []host.Capacity `json:"carries"`
}

// runDoctor prints the checks and, unless measure is 0, the prediction.
func runDoctor(ctx context.Context, g *cli.Global, measure time.Duration) error {
	m := host.Machine{Getenv: g.Getenv}
	if layout, err := locate.Find(); err == nil {
		m.Plugin, m.SoftCUDA = layout.Plugin, layout.SoftCUDA
	}
	report := doctorReport{Checks: append(m.Checks(), m.WireCheck(ctx)), Carries: []host.Capacity{}}
	if !g.JSON {
		printChecks(g.Stdout, report.Checks)
	}
	if measure > 0 {
		show, stop := g.ShowProgress("doctor")
		defer stop()
		for i, ranks := range doctorRanks {
			show.Part("this host is measured", float64(i)/float64(len(doctorRanks)))
			c, err := host.MeasureCapacity(ctx, ranks, measure)
			if err != nil {
				return err
			}
			report.Carries = append(report.Carries, c)
		}
	}
	if g.JSON {
		return g.PrintJSON(report)
	}
	if len(report.Carries) > 0 {
		printCarries(g.Stdout, report.Carries)
	}
	printNext(g.Stdout, report.Checks)
	return nil
}

// printChecks prints each check with what it means, and how to get an absent part.
func printChecks(w io.Writer, checks []host.Check) {
	for _, c := range checks {
		fmt.Fprintf(w, "%-10s  %s: %s\n%12s%s\n", c.Grade, c.Name, c.Found, "", c.Means)
		if c.Next != "" {
			fmt.Fprintf(w, "%12sto get it: %s\n", "", c.Next)
		}
	}
}

// printNext says what to do next: on a machine without a GPU and without the software CUDA, something that needs
// neither.
func printNext(w io.Writer, checks []host.Check) {
	var names []string
	runsNCCL := false
	for _, c := range checks {
		if c.Grade != host.OK {
			names = append(names, c.Name)
		}
		runsNCCL = runsNCCL || c.Grade == host.OK && (c.Name == host.GPUs || c.Name == host.SoftCUDA)
	}
	text := "all checks are ok"
	if len(names) > 0 {
		text = "not ok: " + strings.Join(names, ", ") + "; above is what each limits, and how to get it"
	}
	start := "To start: ddlemu bench all_reduce --profile eth10 --ranks 2 -b 1M -e 16M -f 4"
	if !runsNCCL {
		start = "No NCCL runs here, so there is no bench; to see a fabric: ddlemu up --profile eth10 --nodes 2 " +
			"--clock virtual, then ddlemu verify"
	}
	fmt.Fprintf(w, "\n%s. %s\n", text, start)
}

func printCarries(w io.Writer, all []host.Capacity) {
	fmt.Fprintf(w,
		"\nlargest rate per rank that would be VALID here at time scale 1 (a prediction; the verdict decides)\n\n")
	t := cli.NewTable(w, "ranks ", "busy threads ", "messages of 1 us ", "messages of 10 ms ", "poll delay p50 ",
		"p99 ", "longest ", "1 us needs time scale ")
	for _, c := range all {
		k := fmt.Sprint(c.ShortScale)
		if c.ShortScale == 0 {
			k = "too slow"
		}
		t.AppendRow(table.Row{
			c.Ranks, c.Threads, bothRates(c.Short), bothRates(c.Long),
			micros(c.PollDelayP50Ns), micros(c.PollDelayP99Ns), micros(c.LongestPollNs), k,
		})
	}
	t.Render()
}

// bothRates formats GB/s in bytes and in bits.
func bothRates(gbs float64) string {
	if gbs == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g GB/s (%.3g Gb/s)", gbs, 8*gbs)
}

// micros formats ns as us with one decimal.
func micros(ns int64) string { return fmt.Sprintf("%.1f us", float64(ns)/1e3) }
