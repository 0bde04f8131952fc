// SPDX-License-Identifier: Apache-2.0

package score

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// tableOf is a table of a class whose times are so many times those of the model, from 1 KiB on.
func tableOf(class intervals.Class, over ...float64) Table {
	r := &validate.Report{Class: class}
	for i, o := range over {
		r.Lines = append(r.Lines, validate.Line{Size: 1024 << i, Error: 100 * (1/o - 1)})
	}
	return Table{Report: r}
}

// Of three tables that are alike, an interval is the narrowest one; two are too few, and those of all nets stand for
// them. Apart tables count on nets of plugins alone.
func TestIntervals(t *testing.T) {
	one, own := intervals.Class{GPU: "x", Net: intervals.NoNet}, intervals.Class{GPU: "x", Net: intervals.OwnNet}
	plugin := intervals.Class{GPU: "y", Net: intervals.PluginNet}
	b := &Board{}
	for range leastTables {
		b.Tables = append(b.Tables, tableOf(one, 1, 1.1, 1))
		b.Apart = append(b.Apart, Apart{Table: tableOf(own, 9, 9, 9)})
	}
	for range leastTables - 1 {
		b.Tables = append(b.Tables, tableOf(own, 1, 1, 1))
	}
	b.Apart = append(b.Apart, Apart{Table: tableOf(plugin, 3, 3, 3)})
	var got []string
	for _, i := range Intervals(b) {
		got = append(got, fmt.Sprintf("%s %s %v %d tables %d rows", i.GPU, i.Net, i.Others, i.Tables, i.Rows))
		wide := i.Net == intervals.AnyNet
		if (i.High > 1+leastOff) != wide || i.Alone < 1+leastAlone || i.Step != 1+stepOff || i.UpTo != Small {
			t.Errorf("%+v", i)
		}
	}
	want := []string{"x none false 3 tables 9 rows", " none false 3 tables 9 rows", " any false 3 tables 9 rows",
		" any true 3 tables 9 rows"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Two sizes side by side count for an interval, one size alone for the other.
func TestExtremes(t *testing.T) {
	low, high, alone := extremes(tableOf(intervals.Class{}, 1, 1.2, 1.5, 0.5, 0.8).Lines)
	for i, v := range []float64{low, high, alone} {
		if want := math.Log([]float64{0.8, 1.2, 1.5}[i]); math.Abs(v-want) > 1e-9 {
			t.Errorf("%d: %v, want %v", i, v, want)
		}
	}
}

// The quantile is that of Student's t: 3.182 for three degrees of freedom, 2.262 for nine, as in tables of it.
func TestNext(t *testing.T) {
	for n, want := range map[int]float64{4: 3.182, 10: 2.262} {
		of := []float64{}
		for i := range n {
			of = append(of, float64(1-2*(i%2)))
		}
		deviation := math.Sqrt(float64(n) / float64(n-1) * (1 + 1/float64(n)))
		if got := next(of) / deviation; math.Abs(got-want) > 0.12*want {
			t.Errorf("%d values: %.3f, want %.3f", n, got, want)
		}
	}
}

// The narrowest interval of a class is found, then those of its net and of any net.
func TestFind(t *testing.T) {
	of := func(tables int, gpu, net string, others bool, upTo int64) intervals.Interval {
		return intervals.Interval{Class: intervals.Class{GPU: gpu, Net: net, Others: others}, UpTo: upTo, Tables: tables}
	}
	all := []intervals.Interval{of(1, "x", intervals.OwnNet, false, Small), of(2, "", intervals.OwnNet, false, 0),
		of(3, "", intervals.AnyNet, false, 0), of(4, "", intervals.AnyNet, true, 0)}
	for _, tc := range []struct {
		class intervals.Class
		size  int64
		want  int
	}{
		{intervals.Class{GPU: "x", Net: intervals.OwnNet}, Small, 1},
		{intervals.Class{GPU: "x", Net: intervals.OwnNet}, Small + 1, 2},
		{intervals.Class{GPU: "y", Net: intervals.OwnNet}, 8, 2},
		{intervals.Class{GPU: "x", Net: intervals.PluginNet}, 8, 3},
		{intervals.Class{GPU: "x", Net: intervals.OwnNet, Others: true}, 8, 4},
		{intervals.Class{GPU: "x", Net: intervals.NoNet}, 8, 0},
	} {
		if got := intervals.Find(all, tc.class, tc.size); got.Tables != tc.want || got.Known() != (tc.want > 0) {
			t.Errorf("%+v, %d bytes: %+v, want the interval of %d tables", tc.class, tc.size, got, tc.want)
		}
	}
}

// The shipped intervals have one for each class and size.
func TestShippedIntervals(t *testing.T) {
	all, err := intervals.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, net := range []string{intervals.NoNet, intervals.OwnNet, intervals.PluginNet} {
		for _, others := range []bool{false, net != intervals.NoNet} {
			for _, size := range []int64{8, 1 << 20, 1 << 24, 1 << 33} {
				i := intervals.Find(all, intervals.Class{GPU: "none of these", Net: net, Others: others}, size)
				if !i.Known() || !(i.Low < 1 && 1+leastOff <= i.High && i.High <= i.Alone && i.Step > 1) {
					t.Errorf("%s, %v, %d bytes: %+v", net, others, size, i)
				}
			}
		}
	}
	if d := cmp.Diff(all[0], intervals.Find(all, all[0].Class, all[0].Above+1), cmpopts.EquateApprox(0, 0)); d != "" {
		t.Error(d)
	}
}
