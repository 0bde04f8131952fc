// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// baselineFile is the file of --baseline, with which the times of this run are compared. The zero value compares
// nothing.
type baselineFile struct {
	path      string
	tolerance percent
	before    *baseline.Run
	result    *baseline.Comparison // nil until the run has ended, and if its times say nothing
}

// addFlags adds the flags to fs.
func (b *baselineFile) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&b.path, "baseline", "",
		"`file` with the --json output of an earlier run: exit with status 4 if this one is slower")
	require(fs, "baseline", &b.tolerance,
		"baseline=1% over --baseline (real clock: 5%)")
}

// load reads the file, before the work is done. It must be the output of command.
func (b *baselineFile) load(command string) error {
	if b.path == "" {
		if b.tolerance.set {
			return cli.BadInput("--require baseline=%v: is for --baseline", &b.tolerance)
		}
		return nil
	}
	document, err := bounds.ReadFile(b.path)
	if err != nil {
		return cli.BadInput("--baseline: %w", err)
	}
	if b.before, err = baseline.Read(document); err == nil {
		err = b.before.Usable(command)
	}
	return b.refused(err)
}

// refused is an error of the file as bad input, nil for nil.
func (b *baselineFile) refused(err error) error {
	if err == nil {
		return nil
	}
	return cli.BadInput("--baseline %s: %w", b.path, err)
}

// check refuses a baseline of other settings, before anything is run. more are those that e does not have.
func (b *baselineFile) check(e *emulate.Options, more ...baseline.Setting) error {
	if b.before == nil {
		return nil
	}
	settings := append(baseline.FabricSettings(e.Header.Fabric.Changes(), &e.Header.Fabric), []baseline.Setting{
		{Name: baseline.Ranks, Value: strconv.Itoa(e.Bench.Ranks)},
		{Name: baseline.Nodes, Value: strconv.Itoa(e.Nodes(&e.Config))},
		{Name: baseline.Seed, Value: strconv.FormatUint(e.Config.Seed, 10)},
	}...)
	return b.refused(b.before.Check(append(settings, more...)))
}

// callSettings are the settings of a collective.
func callSettings(b *bench.Config) []baseline.Setting {
	return []baseline.Setting{{Name: baseline.Collective, Value: b.Collective.String()},
		{Name: baseline.Iters, Value: strconv.Itoa(b.Iters)}}
}

// runSettings are the settings of calls that are run, and of workloads.
func runSettings(e *emulate.Options) []baseline.Setting {
	e.ChooseClock()
	return []baseline.Setting{{Name: baseline.Datapath, Value: e.Config.DatapathName()},
		{Name: baseline.Clock, Value: e.Config.ClockName()}, {Name: baseline.CUDA, Value: e.Libraries.CUDA}}
}

// checkBench is check for a collective that is run.
func (b *baselineFile) checkBench(e *emulate.Options) error {
	more := append(callSettings(&e.Bench), runSettings(e)...)
	return b.check(e, append(more, baseline.Setting{Name: baseline.Warmup, Value: strconv.Itoa(e.Bench.Warmup)})...)
}

// checkExpect is check for a collective that is calculated.
func (b *baselineFile) checkExpect(e *emulate.Options) error {
	root := baseline.Setting{Name: baseline.Root, Value: strconv.Itoa(e.Bench.Root)}
	return b.check(e, append(callSettings(&e.Bench), root)...)
}

// checkWorkload is check for a workload.
func (b *baselineFile) checkWorkload(e *emulate.Options, ix *workload.Index) error {
	return b.check(e, append(runSettings(e), baseline.Setting{Name: baseline.Workload, Value: ix.Workload.Head.Name})...)
}

// compare compares the output of this run, as a JSON document.
func (b *baselineFile) compare(document []byte) (*baseline.Comparison, error) {
	now, err := baseline.Read(document)
	if err != nil {
		return nil, fmt.Errorf("compare with --baseline: %w", err)
	}
	tolerance := baseline.DefaultTolerance(now.Settings)
	if b.tolerance.set {
		tolerance = b.tolerance.value
	}
	b.result, err = baseline.Compare(b.path, b.before, now, tolerance)
	return b.result, b.refused(err)
}

// compareReport is compare for a report that is printed as JSON. It returns nil without --baseline.
func (b *baselineFile) compareReport(report any) (*baseline.Comparison, error) {
	if b.before == nil {
		return nil, nil
	}
	document, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	return b.compare(document)
}

// judge is the error of a run that is slower: exit status 4.
func (b *baselineFile) judge() error {
	if b.result == nil || len(b.result.Slower) == 0 {
		return nil
	}
	slower := b.result.Slower
	text := fmt.Sprintf("%d of %s slower than in --baseline %s by more than %v%%: %s", len(slower),
		units.Count(b.result.Compared, "time"), b.path, b.result.Tolerance, slower[0].String())
	if more := len(slower) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return &cli.SlowerError{Text: text}
}

// printer returns a printer that compares all rows at the end, and then ends to with the comparison.
func (b *baselineFile) printer(to bench.Printer) bench.Printer {
	if b.before == nil {
		return to
	}
	p := &comparing{Printer: to, baseline: b}
	p.json = printer.NewJSON(&p.document)
	return p
}

// comparing is a printer that compares a run with its baseline.
type comparing struct {
	bench.Printer
	baseline *baselineFile
	json     bench.Printer
	document bytes.Buffer
}

// Begin begins the output and the document that is compared.
func (c *comparing) Begin(h bench.Header) error { return cmp.Or(c.json.Begin(h), c.Printer.Begin(h)) }

// Row adds a row to both.
func (c *comparing) Row(r bench.Row) error { return cmp.Or(c.json.Row(r), c.Printer.Row(r)) }

// End ends the output with the comparison. Times that say nothing are not compared, and what cannot be compared does
// not keep the output from its end.
func (c *comparing) End(s bench.Summary) error {
	c.baseline.result = nil
	if !s.Verdict.Valid {
		return c.Printer.End(s)
	}
	err := c.json.End(s)
	if err == nil {
		var result *baseline.Comparison
		if result, err = c.baseline.compare(c.document.Bytes()); result != nil {
			s.Baseline = result
		}
	}
	return cmp.Or(c.Printer.End(s), err)
}
