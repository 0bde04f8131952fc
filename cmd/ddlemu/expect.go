// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cuda/bench"
	"github.com/ddlemu/ddlemu/cuda/bench/emulate"
	"github.com/ddlemu/ddlemu/cuda/bench/testslog"
)

// expectOptions are the flags of expect.
type expectOptions struct {
	benchOptions
	Log        string
	DecideUpTo string
}

// AddFlags adds the flags.
func (o *expectOptions) AddFlags(g *global, fs *pflag.FlagSet) {
	o.addFabricFlags(g, fs)
	o.addRowFlags(fs)
	fs.StringVar(&o.Log, "log", "", "`file` with a table of nccl-tests or ddlemu bench to judge; - for standard input")
	fs.StringVar(&o.DecideUpTo, "decide-up-to", "64M", "largest `size` that NCCL runs for its decision; larger ones are taken to be decided alike")
	g.addJSONFlag(fs)
}

func newExpectCommand(g *global) *cobra.Command {
	var o expectOptions
	cmd := &cobra.Command{
		Use:   "expect COLLECTIVE",
		Short: "Say what a fabric should give, and judge a table of nccl-tests by it",
		Long: `Asks real NCCL what it decides on the fabric for each size (algorithm, protocol,
channels), and the link model what that takes. NCCL runs each size once, up to
--decide-up-to, over links that nothing shapes, so this takes seconds whatever the
fabric.

bound is what the bytes alone take that must cross between a node and the others: no
schedule is faster.

With --log it reads a table that nccl-tests or ddlemu bench printed elsewhere, and
says for each time whether it is as expected (within 10 %), slower, faster, or
impossible on this fabric, and the likely cause.

` + exitHelp,
		Example: `  ddlemu expect allreduce --profile ndr400 --ranks 2 -b 8 -e 1G -f 8
  ddlemu expect allreduce --profile eth10 --ranks 4 --nodes 2 --log nccl-tests.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInput("expect takes one collective (%s): see `ddlemu expect --help`", strings.Join(bench.Collectives(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runExpect(cmd.Context(), g, &o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cmd
}

func runExpect(ctx context.Context, g *global, o *expectOptions, collective string) error {
	b, err := o.bench(g, collective)
	if err != nil {
		return &inputError{err}
	}
	var log []testslog.Row
	if o.Log != "" {
		if log, err = o.readLog(g, &b); err != nil {
			return &inputError{err}
		}
	}
	most, err := bench.ParseSize(o.DecideUpTo)
	if err != nil || most < 1 {
		return badInput("--decide-up-to %s: must be a size of at least 1 byte", o.DecideUpTo)
	}
	e, err := o.setup(g, b)
	if err != nil {
		return err
	}
	defer e.Dir.Close()
	e.Config.TimeScale, e.DecideUpTo = 1, most
	rows, info, err := emulate.Expect(ctx, e)
	if err != nil {
		return err
	}
	report := newExpectReport(info.NCCL, e.Config.Name, e.Bench.Ranks, rows, log)
	if g.JSON {
		return g.printJSON(report)
	}
	report.print(g.Stdout)
	return nil
}

// readLog reads the table and makes b's rows those of the table.
func (o *expectOptions) readLog(g *global, b *bench.Config) ([]testslog.Row, error) {
	for _, flag := range []string{"minbytes", "maxbytes", "stepbytes", "stepfactor"} {
		if o.flags.Changed(flag) {
			return nil, fmt.Errorf("--%s and --log: the log has the sizes; leave out --%s", flag, flag)
		}
	}
	in := g.Stdin
	if o.Log != "-" {
		f, err := os.Open(o.Log)
		if err != nil {
			return nil, fmt.Errorf("--log: %w", err)
		}
		defer f.Close()
		in = f
	}
	log, err := testslog.Read(in)
	if err != nil {
		return nil, fmt.Errorf("--log %s: %w", o.Log, err)
	}
	rows := log.Rows
	if err := o.agree(log, b.Collective); err != nil {
		return nil, fmt.Errorf("--log %s: %w", o.Log, err)
	}
	if b.Types, err = bench.ParseDataTypes(rows[0].Type); err != nil {
		return nil, fmt.Errorf("--log %s: line %d: %w", o.Log, rows[0].Line, err)
	}
	b.Sizes = nil
	for _, r := range rows {
		if r.Type != rows[0].Type {
			return nil, fmt.Errorf("--log %s: line %d: type %s after %s: give a log with one type", o.Log, r.Line, r.Type, rows[0].Type)
		}
		b.Sizes = append(b.Sizes, r.Size)
	}
	slices.Sort(b.Sizes)
	b.Sizes = slices.Compact(b.Sizes)
	return rows, nil
}

// agree checks that the log can be of this collective and takes from it the number
// of ranks, if no flag gives that.
func (o *expectOptions) agree(log testslog.Log, c bench.Collective) error {
	for _, r := range log.Rows {
		// nccl-tests writes none where nothing is reduced.
		if (r.Op != "none") != c.Reduces() {
			return fmt.Errorf("line %d: redop %s is not of %v: give the log's collective", r.Line, r.Op, c)
		}
	}
	if log.Ranks == 0 {
		return nil
	}
	if o.flags.Changed("ranks") && o.Ranks != log.Ranks {
		return fmt.Errorf("it is of %d ranks: give --ranks %d", log.Ranks, log.Ranks)
	}
	o.Ranks = log.Ranks
	return nil
}
