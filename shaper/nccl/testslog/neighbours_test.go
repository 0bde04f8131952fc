// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"strings"
	"testing"
	"time"
)

// series has one time in microseconds for each size, which grows by the factor, and what the model expects of it.
func series(size, factor int64, times, network []float64) []Sample {
	var samples []Sample
	for i, us := range times {
		samples = append(samples,
			Sample{Size: size, Time: time.Duration(us * 1e3), Network: time.Duration(network[i] * 1e3)})
		size *= factor
	}
	return samples
}

func TestNeighbours(t *testing.T) {
	for _, tc := range []struct {
		name           string
		size, factor   int64
		times, network []float64
		fixed          time.Duration
		want           map[int]Comparison // rounded to 10 %
	}{
		{"between two rows", 1 << 20, 2, []float64{100, 200, 570, 800, 1600}, []float64{90, 180, 360, 720, 1440}, 0,
			map[int]Comparison{2: {DipTo: 0.7}}},
		{"nothing", 1 << 20, 2, []float64{100, 200, 400, 800, 1600}, []float64{90, 180, 360, 720, 1440}, 0, nil},
		// A longer schedule begins at 512 KiB, as in a table of two nodes with four GH200 each.
		{"another schedule than the model's", 64 << 10, 2, []float64{61, 81.4, 127, 170.3, 164.3, 182.1, 292.7},
			[]float64{6, 8, 10, 18, 35, 68, 136}, 30 * time.Microsecond, nil},
		// The model's schedule becomes shorter at the third size, the cluster's does not.
		{"a schedule of the model alone", 1 << 20, 2, []float64{100, 200, 400, 800}, []float64{90, 180, 180, 720}, 0,
			nil},
		{"a step", 1 << 20, 2, []float64{100, 200, 400, 400, 800}, []float64{50, 100, 200, 400, 800}, 0, nil},
		{"beside a fast row", 1 << 20, 2, []float64{100, 200, 200, 800, 1600}, []float64{90, 180, 360, 720, 1440}, 0,
			nil},
		{"at the begin", 8, 2, []float64{44, 30, 31, 30}, []float64{2, 2, 2, 2}, 28 * time.Microsecond,
			map[int]Comparison{0: {DipTo: 0.7, End: true}}},
		{"at the end", 1 << 20, 2, []float64{100, 200, 400, 1140}, []float64{90, 180, 360, 720}, 0,
			map[int]Comparison{3: {DipTo: 0.7, End: true}}},
		{"at the end of small calls", 8, 2, []float64{30, 31, 30, 43}, []float64{2, 2, 2, 2}, 28 * time.Microsecond,
			map[int]Comparison{3: {DipTo: 0.7, End: true}}},
		// Real calls of 1 MiB take far longer than the network, those of 64 MiB do not.
		{"a begin that the network does not explain", 1 << 20, 8, []float64{85, 134, 393}, []float64{12, 49, 363}, 0,
			nil},
		{"two rows", 1 << 20, 2, []float64{100, 400}, []float64{90, 180}, 0, nil},
		{"no time", 1 << 20, 2, []float64{100, 0, 400, 800}, []float64{90, 180, 360, 720}, 0, nil},
		{"no size", 0, 2, []float64{100, 200, 400, 800}, []float64{90, 180, 360, 720}, 0, nil},
	} {
		for i, got := range Neighbours(series(tc.size, tc.factor, tc.times, tc.network), tc.fixed) {
			got.DipTo = float64(int(got.DipTo*10+0.5)) / 10
			if got != tc.want[i] {
				t.Errorf("%s: row %d: %+v, want %+v", tc.name, i, got, tc.want[i])
			}
		}
	}
}

// A size with several times has their median as a neighbour. Random links may deviate more.
func TestNeighboursOfSeveralTimes(t *testing.T) {
	once := series(1<<20, 2, []float64{100, 200, 400}, []float64{90, 180, 360})
	samples := append(append(append([]Sample{}, once...), once...), once...)
	samples[4].Time *= 2
	for i, c := range Neighbours(samples, 0) {
		if (c.DipTo > 0) != (i == 4) {
			t.Errorf("time %d: %+v", i, c)
		}
	}
	samples[4].Spread = 1
	if c := Neighbours(samples, 0)[4]; c.DipTo > 0 {
		t.Errorf("%+v", c)
	}
}

func TestAgainst(t *testing.T) {
	inside, end := Comparison{DipTo: 0.7}, Comparison{DipTo: 0.7, End: true}
	for _, tc := range []struct {
		word Word
		c    Comparison
		want Word
	}{
		{AsExpected, Comparison{}, AsExpected}, {AsExpected, inside, Dip}, {AsExpected, end, Dip},
		{Slower, inside, Dip}, {Slower, end, Slower}, {FasterTree, inside, Dip},
	} {
		if got := (Finding{Word: tc.word}).Against(tc.c); got.Word != tc.want ||
			(got.Cause == "") == (got.Word == Dip) {
			t.Errorf("%s against %+v: %+v, want %s", tc.word, tc.c, got, tc.want)
		}
	}
}

func TestFixedCost(t *testing.T) {
	us := time.Microsecond
	for _, tc := range []struct {
		name    string
		samples []Sample
		want    Fixed
	}{
		{"flat, then in proportion", series(1024, 2, []float64{32, 33, 32, 34, 40, 64, 128, 256},
			[]float64{2, 2, 2, 3, 9, 32, 96, 224}), Fixed{31 * us, 5, 16 << 10}},
		{"one of the smallest is far off",
			series(1024, 2, []float64{320, 33, 32, 34, 40, 64, 128}, []float64{2, 2, 2, 3, 9, 32, 96}),
			Fixed{31 * us, 4, 16 << 10}},
		{"in proportion", series(1<<20, 2, []float64{100, 200, 400, 800}, []float64{50, 100, 200, 400}), Fixed{}},
		{"in proportion, with many sizes", series(1<<20, 1, []float64{100, 100, 100, 100}, []float64{50, 50, 50, 50}),
			Fixed{}},
		{"faster than the model", series(8, 4, []float64{30, 30, 30}, []float64{40, 40, 40}), Fixed{0, 3, 128}},
		{"no times", nil, Fixed{}},
	} {
		if got := FixedCost(tc.samples); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestSmallCalls(t *testing.T) {
	us := time.Microsecond
	flat := series(1024, 2, []float64{32, 33, 32, 34, 40, 64, 128}, []float64{16, 33, 16, 68, 20, 1, 1})
	if got, want := SmallCalls(flat), (Small{33 * us, 2, 5, 16 << 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := SmallCalls(series(1<<20, 2, []float64{100, 200, 400, 800}, []float64{50, 100, 200, 400})); got != (Small{}) {
		t.Errorf("in proportion: %+v", got)
	}
}

func TestByFixedCost(t *testing.T) {
	for cost, want := range map[time.Duration]string{42440: "42 us", 4244: "4.2 us",
		1520 * time.Microsecond: "1520 us"} {
		if f := ByFixedCost(cost); f.Word != Slower ||
			!strings.HasPrefix(f.Cause, "a fixed cost of about "+want+" would") {
			t.Errorf("%+v, want %s", f, want)
		}
	}
}
