// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
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
	require(fs, "baseline", b.tolerance.parse,
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

// check refuses a baseline of other settings, before anything is run. s are those that e does not have.
func (b *baselineFile) check(e *emulate.Options, s baseline.Settings) error {
	if b.before == nil {
		return nil
	}
	s.Fabric, s.Changes, s.Seed = e.Header.Fabric, e.Header.Fabric.Changes(), &e.Config.Seed
	s.Ranks, s.Nodes = e.Bench.Ranks, e.Nodes(&e.Config)
	return b.refused(b.before.Check(s.List()))
}

// checkBench is check for a collective that is run.
func (b *baselineFile) checkBench(e *emulate.Options) error {
	s := runSettings(e)
	s.Collective, s.Iters, s.Warmup = e.Bench.Collective.String(), e.Bench.Iters, &e.Bench.Warmup
	return b.check(e, s)
}

// checkExpect is check for a collective that is calculated.
func (b *baselineFile) checkExpect(e *emulate.Options) error {
	return b.check(e, baseline.Settings{Collective: e.Bench.Collective.String(), Iters: e.Bench.Iters,
		Root: &e.Bench.Root})
}

// checkWorkload is check for a workload.
func (b *baselineFile) checkWorkload(e *emulate.Options, ix *workload.Index) error {
	s := runSettings(e)
	s.Workload = ix.Workload.Head.Name
	return b.check(e, s)
}

// runSettings are the settings of calls that are run, and of workloads.
func runSettings(e *emulate.Options) baseline.Settings {
	e.ChooseClock()
	return baseline.Settings{Datapath: e.Config.DatapathName(), Clock: e.Config.ClockName(), CUDA: e.Libraries.CUDA}
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
