// SPDX-License-Identifier: Apache-2.0

package score

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

func rows(errors ...float64) (all []validate.Line) {
	for i, e := range errors {
		all = append(all, validate.Line{Size: int64(i + 1), Error: e})
	}
	return all
}

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		errors []float64
		want   Errors
	}{
		{nil, Errors{}},
		{[]float64{-7}, Errors{1, 7, 7, -7, 1, -7}},
		{[]float64{0}, Errors{1, 0, 0, 0, 1, 0}},
		{[]float64{100, -50}, Errors{2, 75, 100, 100, 1, 0}}, // twice and half the time
		{[]float64{3, -1, 2}, Errors{3, 2, 3, 3, 1, 1.3190}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, -10}, Errors{10, 5.5, 9, -10, 10, 3.3657}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Errors{11, 6, 10, 11, 11, 5.9528}},
		{[]float64{5, -100}, Errors{2, 52.5, 100, -100, 2, -100}}, // no time at all
	} {
		if d := cmp.Diff(tc.want, Of(rows(tc.errors...)), cmpopts.EquateApprox(0, 1e-4)); d != "" {
			t.Errorf("%v (-want +got):\n%s", tc.errors, d)
		}
	}
}

func TestNew(t *testing.T) {
	line := func(size int64, percent float64) validate.Line { return validate.Line{Size: size, Error: percent} }
	one := &validate.Report{Name: "one", Lines: []validate.Line{line(8, -50), line(32<<10, -40), line(32<<10+1, 10),
		line(1<<20, 4)}}
	two := &validate.Report{Name: "two", Lines: []validate.Line{line(1<<20+1, 1), line(64<<20, 2), line(64<<20+1, -15.5)}}
	odd := &validate.Report{Name: "odd", Lines: []validate.Line{line(8, 900)}}
	two.MarkFitted(64 << 20)
	b := New([]*validate.Report{one, odd, two}, map[string]string{"odd": "another net", "none": "x"},
		[]LeftOut{{"three", "why"}})
	for _, g := range []struct {
		name          string
		got           Group
		rows, met, of int
	}{{"all", b.All, 7, 2, 4}, {"fitted", b.Fitted, 2, 1, 1}, {"not fitted", b.NotFitted, 5, 1, 3}} {
		if g.got.All.Rows != g.rows || g.got.Met != g.met || g.got.Of != g.of {
			t.Errorf("%s: %d rows, %d of %d classes, want %d, %d of %d", g.name, g.got.All.Rows, g.got.Met, g.got.Of, g.rows,
				g.met, g.of)
		}
	}
	if len(b.Apart) != 1 || b.Apart[0].Name != "odd" || b.Apart[0].Reason != "another net" || b.Apart[0].Score.Median != 900 {
		t.Errorf("apart: %+v", b.Apart)
	}
	var got []int
	for _, c := range append(b.Tables[0].Classes, append(b.Tables[1].Classes, b.All.Classes...)...) {
		got = append(got, c.Rows)
	}
	if d := cmp.Diff([]int{2, 2, 0, 0, 0, 0, 2, 1, 2, 2, 2, 1}, got); d != "" {
		t.Errorf("rows of the classes (-want +got):\n%s", d)
	}
	a := b.All
	if a.All.Rows != 7 || a.Small.Rows != 2 || a.Small.Median != 45 || a.Large.Rows != 5 || a.Large.Largest != -15.5 {
		t.Errorf("%+v", a)
	}
	if a.All.Largest != -50 || a.All.LargestSize != 8 || a.All.Median != 10 {
		t.Errorf("%+v", a.All)
	}
	if _, err := json.Marshal(New(nil, nil, nil)); err != nil {
		t.Error(err)
	}
}

// The order of the rows says nothing; no figure lies outside the errors; JSON can have them.
func TestOfProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		errors := rapid.SliceOfN(rapid.Float64Range(-100, 1e6), 1, 50).Draw(t, "errors")
		all := rows(errors...)
		e := Of(all)
		low, high := math.Inf(1), 0.0
		least, most := math.Inf(1), math.Inf(-1)
		for _, x := range errors {
			low, high = min(low, math.Abs(x)), max(high, math.Abs(x))
			least, most = min(least, x), max(most, x)
		}
		const tiny = 1e-6
		if e.Median < low || e.Median > e.P90+tiny || e.P90 > high || math.Abs(e.Largest) != high ||
			e.Bias < least-tiny || e.Bias > most+tiny*(1+math.Abs(most)) {
			t.Fatalf("%+v of %v", e, errors)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		mixed := rapid.Permutation(all).Draw(t, "mixed")
		o := Of(mixed)
		if o.Median != e.Median || o.P90 != e.P90 || math.Abs(o.Bias-e.Bias) > tiny*math.Max(1, math.Abs(e.Bias)) {
			t.Fatalf("%+v, in another order %+v", e, o)
		}
	})
}
