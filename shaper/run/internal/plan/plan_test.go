// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
)

// affine is a host on which a call takes fixed + perByte * size.
func affine(fixed time.Duration, perByte float64, sizes ...int64) *Costs {
	c := &Costs{}
	for _, s := range sizes {
		c.Call(s, fixed+time.Duration(perByte*float64(s)))
	}
	return c
}

func rowsOf(sizes ...int64) (rows []Row) {
	for _, s := range sizes {
		rows = append(rows, Row{Size: s, Halves: 2, Warmup: 5, Iters: 20})
	}
	return rows
}

// Above the largest call that was measured, a call costs what the last two tell of each byte.
func TestCostsOfLargerCalls(t *testing.T) {
	c := affine(time.Millisecond, 1, 8, 64*kib, mib) // 1 ns per byte
	for size, want := range map[int64]time.Duration{
		8: time.Millisecond + 8, 512 * kib: time.Millisecond + time.Duration(512*kib), 64 * mib: time.Millisecond +
			time.Duration(64*mib),
	} {
		if got := c.OfCall(Row{Size: size}); got < want-time.Microsecond || got > want+time.Microsecond {
			t.Errorf("%d bytes: %v, want %v", size, got, want)
		}
	}
	if got := c.OfCall(Row{Size: 8, Least: time.Second}); got != time.Second {
		t.Errorf("the model's second is the least: %v", got)
	}
	// Between two small sizes the difference is noise.
	c = &Costs{PerByte: 2}
	c.Call(8, time.Millisecond)
	c.Call(64, 3*time.Millisecond)
	if got, want := c.OfCall(Row{Size: mib}), 3*time.Millisecond+time.Duration(2*(mib-64)); got != want {
		t.Errorf("1 MiB after 64 bytes: %v, want %v", got, want)
	}
	// A call of twice the size takes at most twice as long.
	c = &Costs{}
	c.Call(64*kib, time.Microsecond)
	c.Call(mib, time.Second)
	if got := c.OfCall(Row{Size: 2 * mib}); got > 2*time.Second {
		t.Errorf("2 MiB after a second for 1 MiB: %v", got)
	}
	if got := (&Costs{PerByte: 3}).OfCall(Row{Size: 1000}); got != 3000 {
		t.Errorf("without a measurement: %v, want 3 us", got)
	}
}

// Rows with short calls keep their iterations, those with long calls lose some, and what does not fit is left out.
func TestFit(t *testing.T) {
	c := affine(time.Millisecond, 10, 8, mib, 256*mib)
	rows := rowsOf(8, mib, 16*mib, 64*mib, 256*mib) // calls of 1 ms, 11 ms, 169 ms, 672 ms, 2.7 s
	for _, tc := range []struct {
		time time.Duration
		want []Iterations
	}{
		{10 * time.Minute, []Iterations{{5, 20}, {5, 20}, {5, 20}, {5, 20}, {5, 20}}},
		{time.Minute, []Iterations{{5, 20}, {5, 20}, {5, 20}, {1, 18}, {1, 3}}},
		{20 * time.Second, []Iterations{{5, 20}, {5, 20}, {1, 12}, {1, 2}, {1, 1}}},
		{6 * time.Second, []Iterations{{5, 20}, {5, 20}, {1, 6}, {1, 1}, {}}},
		{2 * time.Second, []Iterations{{5, 20}, {5, 20}, {1, 3}, {}, {}}},
		{30 * time.Millisecond, []Iterations{{1, 13}, {}, {}, {}, {}}},
		{time.Millisecond, make([]Iterations, 5)},
	} {
		got := Fit(rows, c, tc.time)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.time, diff)
		}
		total := time.Duration(0)
		for i, r := range rows {
			total += c.Of(r, got[i])
		}
		if total > tc.time {
			t.Errorf("%v: the plan takes %v", tc.time, total)
		}
	}
}

// A row that takes almost everything is left out rather than that it takes the iterations of the others.
func TestFitDoesNotStarveShortRows(t *testing.T) {
	c := affine(time.Millisecond, 10, 8, mib, 256*mib)
	if got := Fit(rowsOf(8, 256*mib), c, 10770*time.Millisecond); got[0] != (Iterations{5, 20}) ||
		got[1] != (Iterations{}) {
		t.Errorf("50 ms and 10.74 s at least in 10.77 s: %v", got)
	}
}

// What does not depend on the iterations counts, too.
func TestFitCountsDataAndModel(t *testing.T) {
	c := affine(time.Millisecond, 0, 8)
	c.Rest(8, time.Second)
	c.Expect(8, 2*time.Second)
	rows := rowsOf(8)
	if got := Fit(rows, c, 3900*time.Millisecond); got[0].Iters != 0 {
		t.Errorf("4 s of data and model in 3.9 s: %v", got)
	}
	if got := Fit(rows, c, 4010*time.Millisecond); got[0] != (Iterations{1, 4}) {
		t.Errorf("in 4.01 s: %v", got)
	}
}

func TestTell(t *testing.T) {
	got := func(size int64, iters int) Got { return Got{Size: size, Asked: 20, Iters: iters} }
	dropped := func(size int64) Got { return Got{Size: size, Asked: 20, Dropped: true} }
	for _, tc := range []struct {
		rows []Got
		want string
	}{
		{[]Got{got(8, 20), got(64, 20)}, ""},
		{[]Got{got(mib, 20), got(64*mib, 20), got(128*mib, 3), got(256*mib, 3), dropped(512 * mib),
			dropped(1024 * mib)},
			"budget 2m: 3 of 20 iterations for rows above 64M; rows above 256M dropped"},
		{[]Got{got(mib, 20), got(64*mib, 7), got(128*mib, 3)}, "budget 2m: 3 to 7 of 20 iterations for rows above 1M"},
		{[]Got{got(8, 3)}, "budget 2m: 3 of 20 iterations for the row of 8 bytes"},
		{[]Got{got(8, 3), got(16, 3), dropped(32)},
			"budget 2m: 3 of 20 iterations for the other rows; the row of 32 bytes dropped"},
		{[]Got{got(8, 3), got(64, 3), got(mib, 20)}, "budget 2m: 3 of 20 iterations for rows of 8 bytes, 64 bytes"},
		{[]Got{got(8, 3), got(16, 3)}, "budget 2m: 3 of 20 iterations for all rows"},
		{[]Got{got(8, 20), {Size: mib, Asked: 20, Over: true}, dropped(2 * mib)},
			"budget 2m: row of 1M stopped because it ran over; the row of 2M dropped"},
		{[]Got{got(8, 1), got(16, 20), got(8, 20), dropped(32)},
			"budget 2m: 1 of 20 iterations for some rows of 8 bytes; the row of 32 bytes dropped"},
	} {
		if text, want := Tell(2*time.Minute, 64, tc.rows),
			strings.Replace(tc.want, "budget 2m:", "budget 2m at time scale 64:", 1); text != want {
			t.Errorf("%+v: %q, want %q", tc.rows, text, want)
		}
		if text := Tell(2*time.Minute, 0, tc.rows); text != tc.want {
			t.Errorf("%+v:\n%s\nwant\n%s", tc.rows, text, tc.want)
		}
	}
	sizes := Dropped([]Got{got(8, 20), dropped(64), {Size: 32, Over: true}, dropped(64)})
	if diff := cmp.Diff([]int64{32, 64}, sizes); diff != "" {
		t.Errorf("dropped sizes (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	for size, want := range map[int64]string{8: "8 bytes", 1536: "1536 bytes", 64 * kib: "64K", mib: "1M",
		1 << 30: "1G"} {
		if got := Size(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		2 * time.Minute: "2m", 90 * time.Second: "1m30s", time.Hour: "1h", 10 * time.Second: "10s", time.Hour +
			time.Second: "1h0m1s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
