// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// loggedTime is one time of the log while it is judged.
type loggedTime struct {
	line     int
	call     loggedCall
	inPlace  bool
	half     *testslog.Half
	forecast *emulate.Forecast // nil if there is none for the call
	found    testslog.Finding
}

// modelled says whether the time can be compared with the model.
func (t *loggedTime) modelled() bool {
	return t.forecast != nil && t.forecast.Known && t.found.Word == testslog.AsExpected
}

// samplesOf are times that have a forecast, with what it expects.
func samplesOf(times []loggedTime, indices []int) (all []testslog.Sample) {
	for _, k := range indices {
		t := &times[k]
		f, i := t.forecast, intervalOf(t.forecast)
		all = append(all, testslog.Sample{Size: t.call.size, Time: t.half.Time, Network: f.Time, Spread: f.Spread,
			Model: expectedTime(f), Low: i.Low, High: i.High, Alone: i.Alone, Step: i.Step})
	}
	return all
}

// judgeLog judges each time of the log: first alone, then with the fixed cost of all, then against its neighbours.
func (r *Report) judgeLog(log *tables.Table, rows []emulate.Forecast, byCall map[loggedCall]*emulate.Forecast) {
	times := loggedTimes(log, byCall)
	var modelled []int
	for i := range times {
		if times[i].check(r.Ranks); times[i].modelled() {
			modelled = append(modelled, i)
		}
	}
	fixed, steps := r.fixedCost(samplesOf(times, modelled)), time.Duration(0)
	if r.NodeTime == "" {
		steps = stepCost(rows)
	}
	if r.NodeTime != "" {
		r.judgeByIntervals(times)
	} else {
		comparisons := compareNeighbours(times, fixed.Cost)
		for i := range times {
			t := &times[i]
			if t.modelled() {
				t.found = testslog.Judge(t.half.Time, givenOf(t.forecast, fixed.Cost, steps)).Against(comparisons[i])
			}
		}
		nameStalls(times)
		r.explain(times, fixed.Cost)
	}
	r.findSlow(times)
	for i := range times {
		r.Log = append(r.Log, times[i].judged(fixed.Cost))
	}
}

// fixedCost is what each call costs beyond the network. With the time of nodes the model has it: then only the share of
// it that the small calls take is noted.
func (r *Report) fixedCost(samples []testslog.Sample) (fixed testslog.Fixed) {
	if r.NodeTime != "" {
		r.small = testslog.SmallCalls(samples)
		return fixed
	}
	if fixed = testslog.FixedCost(samples); fixed.Times > 0 {
		r.Fixed = &FixedCost{units.Microseconds(fixed.Cost), fixed.Times, fixed.UpTo}
	}
	return fixed
}

// explain finds the slower times that a larger fixed cost than the known one explains.
func (r *Report) explain(times []loggedTime, fixed time.Duration) {
	excess := make([]testslog.Excess, len(times))
	for i := range times {
		t := &times[i]
		if t.forecast != nil && t.forecast.Known {
			excess[i] = testslog.Excess{Size: t.call.size, Time: t.half.Time,
				Beyond: t.half.Time - t.forecast.Time - fixed, Word: t.found.Word}
		}
	}
	for i, same := range testslog.SameExcess(excess) {
		if same {
			times[i].found = testslog.ByFixedCost(fixed + excess[i].Beyond)
			r.explained++
		}
	}
}

// loggedTimes lists the times of a log in its order.
func loggedTimes(log *tables.Table, byCall map[loggedCall]*emulate.Forecast) []loggedTime {
	var times []loggedTime
	for _, row := range log.Rows {
		op, err := row.RedOp()
		call := loggedCall{row.Size, op}
		t := loggedTime{line: row.Line, call: call, half: &row.OutOfPlace}
		if err == nil { // tables.Table.Configure refuses other operators
			t.forecast = forecastOf(call, byCall)
		}
		times = append(times, t)
		if row.InPlace != nil {
			t.half, t.inPlace = row.InPlace, true
			times = append(times, t)
		}
	}
	return times
}

// nccl-tests before 2.13.12 did not make the shares of the ranks multiples of 16 bytes, as the shares of a forecast
// are. trimmed is by how much, as a fraction, the size of a row may therefore exceed the size of its forecast. Rows
// with smaller shares take as long as the smallest forecast, if latency is nearly all of it: bytes are at most
// latencyOnly.
const (
	trimmed     = 0.01
	leastShare  = 16
	latencyOnly = 0.1
)

// forecastOf is the forecast of a call, nil if there is none: the forecast of its size, else of the size that today's
// nccl-tests makes of it.
func forecastOf(call loggedCall, byCall map[loggedCall]*emulate.Forecast) *emulate.Forecast {
	if f := byCall[call]; f != nil {
		return f
	}
	var least *emulate.Forecast
	for other, f := range byCall { // all have one collective, type and number of ranks
		if other.op == call.op && f.Known && other.size > 0 && (least == nil || f.Case.Size < least.Case.Size) {
			least = f
		}
	}
	if least == nil || call.size < 1 {
		return nil
	}
	c := &least.Case
	size := c.Collective.Counts(call.size, c.Type, c.Ranks).Bytes(c.Type)
	switch {
	case float64(call.size-size) <= trimmed*float64(call.size):
		return byCall[loggedCall{size, call.op}]
	case call.size < leastShare*int64(c.Ranks) && float64(least.BusiestHop) <= latencyOnly*float64(least.Time):
		return least
	}
	return nil
}

// check finds mistakes of a time that do not depend on the model.
func (t *loggedTime) check(ranks int) {
	switch f := t.forecast; {
	case f == nil:
		t.found = testslog.Finding{Word: testslog.NotJudged,
			Cause: fmt.Sprintf("no call of %d ranks has this size", ranks)}
	case !f.Known:
		t.found = testslog.Finding{Word: testslog.NotJudged, Cause: f.Problem}
	default:
		half := *t.half
		if t.inPlace && !f.Case.Collective.HasInPlace() {
			half.Wrong = -1 // 2.13.0 printed how many elements the calls had overwritten
		}
		alg := f.Case.Collective.AlgFactor(f.Case.Ranks)
		t.found = half.Check(int64(float64(t.call.size)*alg), f.Case.Collective.BusFactor(f.Case.Ranks))
		if alone := testslog.Judge(t.half.Time, givenOf(f, 0, 0)); alone.Word == testslog.Impossible &&
			t.found.Word == testslog.AsExpected {
			t.found = alone
		}
	}
}

// bySeries are the indices of times that differ in size alone, in the order of size: the times of each operator, in
// place and out of place separately.
func bySeries(times []loggedTime, belongs func(*loggedTime) bool) [][]int {
	type series struct {
		op      nccl.RedOp
		inPlace bool
	}
	members := map[series][]int{}
	for i := range times {
		if t := &times[i]; belongs(t) {
			s := series{t.call.op, t.inPlace}
			members[s] = append(members[s], i)
		}
	}
	all := slices.Collect(maps.Values(members))
	for _, indices := range all {
		slices.SortStableFunc(indices, func(a, b int) int { return cmp.Compare(times[a].call.size, times[b].call.size) })
	}
	return all
}

// compareNeighbours compares the times of each series.
func compareNeighbours(times []loggedTime, fixed time.Duration) []testslog.Comparison {
	all := make([]testslog.Comparison, len(times))
	for _, indices := range bySeries(times, (*loggedTime).modelled) {
		for k, c := range testslog.Neighbours(samplesOf(times, indices), fixed) {
			all[indices[k]] = c
		}
	}
	return all
}

// stepCost is by how much calls may exceed the fixed cost, which the smallest ones show: by how much longer NCCL
// reckons a call to take, without its bytes, with the costliest algorithm and protocol of the rows than with the ones
// for the smallest row. Most of that are steps within nodes, of which a ring has two per rank. They take time on real
// GPUs and none in the model. NCCL counts the network's latency twice for Simple, so one call's latency is taken off. 0
// if the log of NCCL does not have its latencies.
func stepCost(rows []emulate.Forecast) time.Duration {
	var smallest *emulate.Forecast
	most := 0.0
	for i := range rows {
		f := &rows[i]
		if latency := latencyUS(f); latency > 0 && f.Known {
			most = max(most, latency)
			if smallest == nil || f.Case.Size < smallest.Case.Size {
				smallest = f
			}
		}
	}
	if smallest == nil {
		return 0
	}
	network := smallest.Time - smallest.BusiestHop
	return max(time.Duration((most-latencyUS(smallest))*float64(time.Microsecond))-network, 0)
}

// latencyUS is NCCL's own latency of the row's algorithm and protocol; 0 if not known.
func latencyUS(f *emulate.Forecast) float64 {
	if f.Case.Decision == nil || f.Case.Topology == nil {
		return 0
	}
	return f.Case.Topology.LatencyUS[f.Case.Collective][nccllog.Kernel{Algo: f.Case.Decision.Algo,
		Proto: f.Case.Decision.Proto}]
}

func givenOf(f *emulate.Forecast, fixed, steps time.Duration) testslog.Given {
	return testslog.Given{
		Expected: f.Time, LastRank: f.LastRank, Spread: f.Spread, BusiestHop: f.BusiestHop, Bound: f.Bound,
		Least: f.Least(),
		Fixed: fixed, Steps: steps, Limit: limitText(f),
		Ring: ringSendsMore(f),
	}
}

// ringSendsMore says whether the model plays an AllReduce by rings that a tree or NVLS would send fewer bytes for: if
// the bytes determine its time, and a node has several ranks, each of whose shares a ring sends from node to node.
func ringSendsMore(f *emulate.Forecast) bool {
	c := &f.Case
	return c.Collective == nccl.AllReduce && c.Decision != nil && c.Decision.Algo == nccllog.AlgoRing &&
		c.Ranks > 2 && c.Ranks > f.Nodes && 2*max(f.BusiestHop, f.Bound) >= f.LastRank
}

// limitText names what limits the call, if the model has the time of nodes.
func limitText(f *emulate.Forecast) string {
	if f.NodeTime == "" {
		return ""
	}
	return f.Limit.String()
}

func (t *loggedTime) judged(fixed time.Duration) JudgedTime {
	j := JudgedTime{
		Line: t.line, Size: t.call.size, InPlace: t.inPlace, TimeUS: units.Microseconds(t.half.Time),
		BusBW: t.half.BusBW,
		Word:  t.found.Word, Cause: t.found.Cause,
	}
	if t.forecast == nil {
		return j
	}
	row := rowOf(t.forecast)
	j.Algo, j.Proto, j.Channels, j.BoundUS, j.Limit = row.Algo, row.Proto, row.Channels, row.BoundUS, row.Limit
	if t.forecast.Known {
		j.ExpectedUS, j.LastUS = *row.ExpectedUS, *row.LastUS
		if i := intervalOf(t.forecast); t.forecast.NodeTime != "" {
			j.LowUS, j.HighUS = i.Low*j.ExpectedUS, i.High*j.ExpectedUS
		}
		j.WithFixed = units.Microseconds(t.forecast.Time + fixed)
	}
	return j
}
