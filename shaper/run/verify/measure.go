// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Options say how to measure.
type Options struct {
	// Time is about how long the measurement takes, by the fabric's clock; slow links may need more.
	Time     time.Duration
	Progress func(part float64) // called with the completed fraction, 0 to 1; may be nil
	// Slow is called before anything is sent if the slowest link makes the measurement take much more real time than
	// Time: with the minimum. It may be nil.
	Slow func(least time.Duration)
	// Load returns how busy this host has been while it was measured. It may be nil.
	Load func() *verdict.Load
}

// Fractions of the time, and limits of the measurements.
const (
	ratePart, latencyPart, togetherPart, incastPart = 0.4, 0.25, 0.2, 0.1

	maxStream = time.Second
	maxProbes = 1000
	minProbes = 100 // for a p99
	maxFlows  = 256 // at once

	// maxTries is how often a measurement outside its limits is made on a real clock. Other work on the host only makes
	// results worse. On a virtual clock the next one would have the same results.
	maxTries = 3
)

// VirtualTime is a Time for a virtual clock, on which it is virtual. A message costs this host as much as on a real
// clock, but nothing disturbs it, so few of them are enough.
const VirtualTime = 20 * time.Millisecond

// measurement is the state of one run of verify.
type measurement struct {
	*Model
	Options
	run   Watch
	how   traffic
	start time.Time

	least        time.Duration // minimum of a stream
	parallelRate float64       // maximum sum of the rates of paths that are measured at once, bytes per ns
	tries        int           // how often a measurement outside its limits is made

	paths     []pathSpec
	links     []Link
	findings  []finder // of each link
	report    Report
	shared    finder
	whole     []bool // of each path: its rate and its latency were measured
	belowRate int    // measurements in which the model's rate is below 99 % of the link's
}

// traffic is a way to load the fabric: messages or packets.
type traffic interface {
	// rateOf and latencyOf measure paths that share no hop, for about d each.
	rateOf(ctx context.Context, paths []pathSpec, d time.Duration) error
	latencyOf(ctx context.Context, paths []pathSpec, d time.Duration) error
	// rateTime is the minimum time of rateOf.
	rateTime(paths []pathSpec) time.Duration
	// prepare completes flows that share hops and returns how long to send: d, or longer until the slowest flow has
	// sent few messages.
	prepare(flows []Flow, few int, d time.Duration) time.Duration
	sharedOnce(ctx context.Context, flows []Flow, d time.Duration) (*Shared, error)
	// promised returns whether the model determines the share of each flow, and the largest deviation of all flows
	// together, as a fraction.
	promised(flows []Flow) (each bool, most float64)
}

// messages is the traffic of a Runner.
type messages struct {
	*measurement
	sender Runner
}

// Of messages: the minimum time of a stream, and the maximum sum of the rates of paths that are measured at once, in
// bytes per ns. It is small for any host, so only slow paths are measured at once.
const (
	minStream = 80 * time.Millisecond
	groupRate = 0.2

	minVirtualStream = time.Millisecond // on a virtual clock
)

// Measure measures the fabric that m describes. run sends the messages. If ctx is cancelled, it returns, beside the
// error, a report of what was measured until then, with the verdict incomplete.
func Measure(ctx context.Context, m *Model, run Runner, o Options) (*Report, error) {
	x := &measurement{Model: m, Options: o, run: run, least: minStream, parallelRate: groupRate, tries: maxTries}
	if m.fab.Config.IsVirtual() {
		x.least, x.parallelRate, x.tries = minVirtualStream, math.Inf(1), 1
		x.report.Exact = &Exact{}
	}
	x.how = &messages{x, run}
	return x.measure(ctx)
}

// measure makes all measurements and the verdict.
func (x *measurement) measure(ctx context.Context) (*Report, error) {
	x.start = time.Now()
	r := &x.report
	r.Profile, r.Clock, r.TimeScale, r.Seed = x.fab.Config.Name, x.fab.Config.ClockName(), x.scale, x.seed
	r.Notes = []string{}
	before := x.run.Hops()
	if err := x.measureAll(ctx); err != nil {
		if ctx.Err() == nil {
			return nil, err
		}
		x.interrupted()
		return r, err
	}
	x.conclude(before)
	return &x.report, nil
}

// interrupted reports the links that were measured, without a judgement of the whole.
func (x *measurement) interrupted() {
	r := &x.report
	r.Links = []Link{}
	for i, l := range x.links {
		if x.whole[i] {
			l.Tries, l.Problems = max(l.Tries, 1), x.findings[i].words()
			r.Links = append(r.Links, l)
		}
	}
	v := verdict.New(nil)
	v.Stop(fmt.Sprintf("interrupted: %d of %s measured", len(r.Links), units.Count(len(x.paths), "link")))
	r.finish(v, time.Since(x.start))
}

func (x *measurement) progress(part float64) {
	if x.Progress != nil {
		x.Progress(min(part, 1))
	}
}

func (x *measurement) note(format string, args ...any) {
	x.report.Notes = append(x.report.Notes, fmt.Sprintf(format, args...))
}

// measureAll makes each measurement once, and repeats those outside their limits.
func (x *measurement) measureAll(ctx context.Context) error {
	x.selectPaths()
	if len(x.paths) == 0 {
		return errors.New("no link of the fabric is up: there is nothing to measure")
	}
	x.warn()
	x.links, x.findings, x.whole = make([]Link, len(x.paths)), make([]finder, len(x.paths)), make([]bool, len(x.paths))
	if err := x.rates(ctx); err != nil {
		return err
	}
	if err := x.latencies(ctx); err != nil {
		return err
	}
	flows, all := x.allToAll(maxFlows)
	if !all {
		x.note("all together: from each NIC to %d others, not to all", len(flows)/x.fab.NICs())
	}
	for _, part := range []struct {
		what  string
		flows []Flow
		time  float64
		few   int
		to    **Shared
	}{{"all to all", flows, togetherPart, fewShares, &x.report.Together},
		{"incast", x.incast(), incastPart, manyShares, &x.report.Incast}} {
		s, err := x.together(ctx, part.what, part.flows, part.few, time.Duration(part.time*float64(x.Time)))
		if err != nil {
			return err
		}
		*part.to = s
	}
	if x.report.Together != nil {
		x.report.Together.All = all
	}
	return x.remeasure(ctx)
}

// selectPaths selects the paths to measure within the time.
func (x *measurement) selectPaths() {
	up, down := x.Model.paths()
	switch len(down) {
	case 0:
	case 1:
		x.note("%s is down: not measured", down[0])
	default:
		x.note("%s and %s are down: not measured", down[0], units.Count(len(down)-1, "other link"))
	}
	most := max(time.Duration(ratePart*float64(x.Time)), x.least)
	n := len(up)
	x.paths = up
	for n > 1 && x.ratesTime() > most {
		n = n * 7 / 8
		fewer := x.sample(up, n)
		if len(fewer) > n { // all of them are needed to cover every hop
			x.paths = fewer
			break
		}
		x.paths = fewer
	}
	if len(x.paths) < len(up) {
		x.note(
			"%d of %d links measured, so that each port, each link between switches and each kind of link is among "+
				"them; a longer --time measures more", len(x.paths), len(up))
	}
}

// ratesTime is the minimum time to measure the rates of all paths.
func (x *measurement) ratesTime() time.Duration {
	d := time.Duration(0)
	for _, g := range groups(x.paths, x.parallelRate) {
		d += x.how.rateTime(g.paths)
	}
	return d
}

func (x *measurement) latenciesTime() time.Duration {
	d := time.Duration(0)
	for _, g := range groups(x.paths, math.Inf(1)) {
		d += x.latencyTime(g.paths)
	}
	return d
}

// warn calls Slow if the measurement takes much longer than Time.
func (x *measurement) warn() {
	// All to all and incast take as long as one stream each.
	least := x.ratesTime() + x.latenciesTime() + 2*x.how.rateTime(x.paths)
	if x.Slow != nil && least > 2*x.Time && !x.fab.Config.IsVirtual() {
		x.Slow(least)
	}
}

// index is the position of path in x.paths.
func (x *measurement) index(path *pathSpec) int {
	return slices.IndexFunc(x.paths, func(o pathSpec) bool { return o.src == path.src && o.dst == path.dst })
}

// outOfTime says whether there is no time for another try.
func (x *measurement) outOfTime() bool { return time.Since(x.start) > 2*x.Time }

// remeasure measures each link that is outside its limits again, alone.
func (x *measurement) remeasure(ctx context.Context) error {
	for i := range x.paths {
		x.links[i].Tries = 1
		for len(x.findings[i].found) > 0 && !x.findings[i].hopeless() && x.links[i].Tries < x.tries && !x.outOfTime() {
			x.progress(1 - 1/float64(2+i))
			path := x.paths[i : i+1]
			before, tries := x.findings[i], x.links[i].Tries
			old := x.links[i]
			x.findings[i] = finder{}
			err := x.how.rateOf(ctx, path, x.least<<tries)
			if err == nil {
				err = x.how.latencyOf(ctx, path, 0)
			}
			if err != nil {
				x.links[i], x.findings[i] = old, before // they are whole
				return err
			}
			if worse(&x.findings[i], &before) {
				x.links[i], x.findings[i] = old, before
			}
			x.links[i].Tries = tries + 1
		}
	}
	return nil
}

// worse says whether a has more or larger problems than b.
func worse(a, b *finder) bool {
	if len(a.found) != len(b.found) {
		return len(a.found) > len(b.found)
	}
	sum := func(f *finder) (s float64) {
		for _, x := range f.found {
			s += x.slowdown
		}
		return s
	}
	return sum(a) > sum(b)
}

// noteDescheduled adds a note if messages were in time but this process saw them late. Then a job's ranks will poll
// late too, whatever the fabric does.
func (x *measurement) noteDescheduled() {
	n, worst := 0, &x.links[0]
	for i := range x.links {
		l := &x.links[i]
		if late := l.Latency.SeenP99; late > limit(l.Latency.Asked, state.P99FloorNs, state.P99Part) &&
			l.Latency.LateP99 < late/2 {
			n++
			if late > worst.Latency.SeenP99 {
				worst = l
			}
		}
	}
	if n > 0 {
		x.note(
			"this process did not always get a processor: it saw messages late on %s, on %s by %.3g us (p99); a job's "+
				"ranks would too", units.Count(n, "link"), worst.Name, worst.Latency.SeenP99)
	}
}

// conclude makes the verdict.
func (x *measurement) conclude(before []state.HopStatus) {
	r := &x.report
	var found []finding
	for i := range x.links {
		x.links[i].Problems = x.findings[i].words()
		for _, f := range x.findings[i].found {
			f.Link = x.links[i].Name
			found = append(found, f)
		}
	}
	found = append(found, x.shared.found...)
	x.noteDescheduled()
	if x.belowRate > 0 {
		x.note(
			"on some links the transport, the hosts or losses allow less than the link's rate: see asked_bps and " +
				"model_bps of --json")
	}
	var rest finder
	rest.exact(r.Exact)
	found = append(found, rest.found...)
	v := x.verdict()
	for _, f := range found {
		v.Add(f.Finding)
	}
	for _, f := range x.circumstances(before) {
		v.Add(f)
	}
	r.Links = x.links
	r.finish(v, time.Since(x.start))
	if !v.Valid {
		r.Needed = needed(x.scale, found)
	}
	x.progress(1)
}

// verdict is one without findings.
func (x *measurement) verdict() verdict.Verdict {
	if x.Load == nil {
		return verdict.New(nil)
	}
	return verdict.New(x.Load())
}

// circumstances are findings that are not about a figure.
func (x *measurement) circumstances(before []state.HopStatus) []verdict.Finding {
	found := x.run.Findings()
	if n := x.run.Others(); n > 0 {
		found = append(found,
			verdict.Finding{Cause: verdict.CauseFabric, Text: units.Count(n, "rank") +
				" of another job on the fabric: it was not measured alone"})
	}
	for i, h := range x.run.Hops() {
		if h.Spec != before[i].Spec {
			return append(found,
				verdict.Finding{Cause: verdict.CauseFabric,
					Text: x.fab.HopName(i) + " was changed while it was measured"})
		}
	}
	return found
}
