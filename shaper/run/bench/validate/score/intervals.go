// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"

	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/shaper/run/bench/validate"
)

const (
	// leastTables is how many tables a class must have for an interval of its own: with fewer, a wider class stands
	// for it.
	leastTables = 5
	// leastOff is the narrowest interval, as a fraction: with 0.10 the table of 2 x 8 H100 (Nebius), which is healthy, is
	// slower than the interval that the other tables make.
	leastOff = 0.20
	// certainty is the quantile of the normal distribution for one side of the interval.
	certainty = 1.96
)

// Intervals are how far a table that the model does not know may be from it, by the errors of tables: for each size
// class by the kind of GPU and the nodes, then by the nodes, then of all. The rows of a table are not independent, so
// what counts of a table are its extremes: those of two sizes side by side, and of one size. An interval is that in
// which those of a further table are, with 97.5 % on each side.
func Intervals(tables []Table) (all []intervals.Interval) {
	for _, widen := range []func(*Table) (gpu, nodes string){
		func(t *Table) (string, string) { return t.GPU, intervals.NodesOf(t.Nodes) },
		func(t *Table) (string, string) { return "", intervals.NodesOf(t.Nodes) },
		func(*Table) (string, string) { return "", "" },
	} {
		above := int64(0)
		for _, upTo := range limits {
			for _, group := range groupTables(tables, widen) {
				i := intervals.Interval{GPU: group.gpu, Nodes: group.nodes, Above: above, UpTo: upTo}
				if measure(&i, group.tables, above, upTo) {
					all = append(all, i)
				}
			}
			above = upTo
		}
	}
	return all
}

// tableGroup are the tables of one class.
type tableGroup struct {
	gpu, nodes string
	tables     []*Table
}

func groupTables(tables []Table, class func(*Table) (gpu, nodes string)) (groups []*tableGroup) {
	at := map[[2]string]*tableGroup{}
	for i := range tables {
		gpu, nodes := class(&tables[i])
		key := [2]string{gpu, nodes}
		if at[key] == nil {
			at[key] = &tableGroup{gpu: gpu, nodes: nodes}
			groups = append(groups, at[key])
		}
		at[key].tables = append(at[key].tables, &tables[i])
	}
	return groups
}

// measure sets the figures of an interval. It returns false if too few tables have rows of its sizes.
func measure(i *intervals.Interval, tables []*Table, above, upTo int64) bool {
	var low, high, alone []float64
	for _, t := range tables {
		rows := between(t.Lines, above, upTo)
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
	least := math.Log1p(leastOff)
	i.Low = rounded(math.Exp(-max(next(low), least)))
	i.High = rounded(math.Exp(max(next(high), least)))
	i.Alone = rounded(math.Exp(max(next(alone), next(high), least)))
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

// next is what a further value exceeds with 2.5 %, if the values are of a normal distribution: their mean, and their
// deviation times the quantile of Student's t (by Cornish and Fisher's expansion) for that of a further one.
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
