// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

const (
	// leastTables is how many tables a class must have for an interval of its own: with fewer, a wider class stands
	// for it.
	leastTables = 3
	// leastOff is the narrowest interval, as a fraction, and leastAlone the narrowest of a single size. By less, some
	// healthy table is slower than the interval that the other tables make: all_gather on 2 L40S (1.42 times the
	// model), alltoall on 8 A100 (1.41 times), one size of all_gather on 8 B200 (1.82 times).
	leastOff   = 0.45
	leastAlone = 1.0
	// othersOff is the narrowest interval of collectives between nodes of which too few tables are known: tables of
	// all_gather, reduce_scatter and alltoall on 2 nodes of B200 take up to 2.2 times as long as the model.
	othersOff = 1.3
	// stepOff is the fraction by which a range of a healthy table exceeds the sizes before and after it at most.
	// pluginStep is the same on a net of a plugin: there a tuner chooses NCCL's algorithms, which the model does not have.
	stepOff    = 0.5
	pluginStep = 0.9
	// worstOff is by which fraction a further table may exceed the worst one. Without this bound, the standard deviation
	// of a few tables gives intervals that are wider than any table needs.
	worstOff = 0.25
	// certainty is the quantile of the normal distribution for one side of the interval.
	certainty = 1.96
)

// Intervals are how far a table that the model does not know may be from it, by the errors of tables: for each size
// class by the kind of GPU and the net, then by the net, then of all tables of several nodes. The rows of a table are
// not independent, so only the extremes of a table count: the extremes of two sizes side by side, and of one size. The
// extremes of a further table are within the interval, with 97.5 % on each side.
//
// Of the tables that are set apart, only tables on nets of plugins count: they are apart because the model does not
// have such nets. From 32 KiB to 1 MiB NCCL changes its algorithm and protocol between nodes, which moves the times by
// more than a net does: tables of all nets make one class there.
func Intervals(b *Board) (all []intervals.Interval) {
	tables := slices.Clone(b.Tables)
	for _, t := range b.Apart {
		if t.Class.Net == intervals.PluginNet {
			tables = append(tables, t.Table)
		}
	}
	anyGPU := func(c intervals.Class) intervals.Class { c.GPU = ""; return c }
	anyNet := func(intervals.Class) intervals.Class { return intervals.Class{Net: intervals.AnyNet} }
	for _, widen := range []func(intervals.Class) intervals.Class{nil, anyGPU} {
		for _, g := range groupTables(tables, widen) {
			all = append(all, g.intervals(leastOff)...)
		}
	}
	between := slices.DeleteFunc(tables, func(t Table) bool { return t.Class.Net == intervals.NoNet })
	for _, g := range groupTables(between, anyNet) {
		all = append(all, g.intervals(leastOff)...)
		g.class.Others = true
		all = append(all, g.intervals(othersOff)...)
	}
	return all
}

// tableGroup are the tables of one class.
type tableGroup struct {
	class  intervals.Class
	tables []*Table
}

// groupTables are the tables by their classes, which widen makes wider unless it is nil.
func groupTables(tables []Table, widen func(intervals.Class) intervals.Class) (groups []*tableGroup) {
	for i := range tables {
		class := tables[i].Class
		if widen != nil {
			class = widen(class)
		}
		at := slices.IndexFunc(groups, func(g *tableGroup) bool { return g.class == class })
		if at < 0 {
			at, groups = len(groups), append(groups, &tableGroup{class: class})
		}
		groups[at].tables = append(groups[at].tables, &tables[i])
	}
	return groups
}

// intervals are the intervals of each size class that has enough tables, and off as a fraction at least.
func (g *tableGroup) intervals(off float64) (all []intervals.Interval) {
	above := int64(0)
	for _, upTo := range limits {
		i := intervals.Interval{Class: g.class, Above: above, UpTo: upTo, Step: 1 + stepOff}
		if g.class.Net == intervals.PluginNet {
			i.Step = 1 + pluginStep
		}
		oneNet := g.class.Net == intervals.OwnNet || g.class.Net == intervals.PluginNet
		if !(oneNet && above == Small) && measure(&i, g.tables, off) {
			all = append(all, i)
		}
		above = upTo
	}
	return all
}

// measure sets the figures of an interval. It returns false if too few tables have rows of its sizes.
func measure(i *intervals.Interval, tables []*Table, off float64) bool {
	var low, high, alone []float64
	for _, t := range tables {
		rows := between(t.Lines, i.Above, i.UpTo)
		if len(rows) < 2 {
			continue
		}
		l, h, a := extremes(rows)
		low, high, alone = append(low, -l), append(high, h), append(alone, a)
		i.Rows += len(rows)
	}
	if i.Tables = len(high); i.Tables < leastTables {
		return false
	}
	least := math.Log1p(off)
	further := func(of []float64) float64 { return min(next(of), slices.Max(of)+math.Log1p(worstOff)) }
	i.Low = rounded(math.Exp(-max(further(low), least)))
	i.High = rounded(math.Exp(max(further(high), least)))
	i.Alone = rounded(math.Exp(max(further(alone), further(high), least, math.Log1p(leastAlone))))
	return true
}

// extremes are the logarithms of measured over calculated times: the lowest and the highest that two sizes side by side
// exceed, and the highest of one size.
func extremes(rows []validate.Line) (low, high, alone float64) {
	low, high, alone = math.Inf(1), math.Inf(-1), math.Inf(-1)
	before := math.NaN()
	for _, r := range rows {
		off := -math.Log1p(r.Error / 100)
		alone = max(alone, off)
		if !math.IsNaN(before) {
			low, high = min(low, max(off, before)), max(high, min(off, before))
		}
		before = off
	}
	return low, high, alone
}

// next is the value that a further one exceeds with 2.5 %, if the values are of a normal distribution: their mean, and
// their deviation times the quantile of Student's t (by Cornish and Fisher's expansion) for a further value.
func next(of []float64) float64 {
	n := float64(len(of))
	mean, squares := 0.0, 0.0
	for _, v := range of {
		mean += v / n
	}
	for _, v := range of {
		squares += (v - mean) * (v - mean)
	}
	const z = certainty
	d := n - 1
	t := z + (z*z*z+z)/(4*d) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*d*d)
	return mean + t*math.Sqrt(squares/d*(1+1/n))
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }
