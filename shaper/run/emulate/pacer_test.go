// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/plan"
)

// played plays ranks whose calls take a known time, by a clock of its own.
type played struct {
	now     time.Time
	call    func(size int64) time.Duration
	connect time.Duration // in the first call of all
	said    []string
	lefts   []time.Duration
	beyond  time.Duration // by how much a time left exceeded that of the budget
	moved   uint64        // bytes that the calls have moved
	stuck   bool          // nobody sees the bytes
	toldAt  time.Time     // the latest progress
	updated func(left time.Duration)
}

// timed plays the timed calls of half a row, during which the pacer is updated every second.
func (h *played) timed(p *pacer, c bench.Case) {
	c.Launches = c.Warmup + c.Iters
	p.Timed(c)
	all, from := time.Duration(c.Iters)*h.call(c.Size), h.moved
	for passed := time.Duration(0); passed < all; {
		step := min(time.Second, all-passed)
		h.pass(step)
		passed += step
		h.moved = from + uint64(float64(c.Size)*float64(c.Iters)*float64(passed)/float64(all))
		p.Update()
		if h.updated != nil {
			h.updated(all - passed)
		}
	}
}

func (h *played) pass(d time.Duration) { h.now = h.now.Add(d) }

// play runs the rows as bench.Run does, until the budget is spent.
func (h *played) play(p *pacer, b *bench.Config) (measured []plan.Got) {
	cases := b.Cases()
	for i := range cases {
		c, ok := p.Next(cases[i:])
		if !ok {
			continue
		}
		for _, inPlace := range []bool{false, true} {
			c.InPlace = inPlace
			begin := h.now
			done := 0
			for c.Try && !inPlace {
				start := h.now
				h.pass(h.call(c.Size) + h.connect)
				h.connect = 0
				done++
				c = p.Tried(c, done, h.now.Sub(start))
			}
			h.pass(time.Duration(max(c.Warmup-done, 0)) * h.call(c.Size))
			h.moved += uint64(max(done, c.Warmup)) * uint64(c.Size)
			untimed := h.now.Sub(begin)
			h.timed(p, c)
			if p.budget.Total > 0 && h.now.After(p.budget.End) {
				return p.dropped()
			}
			p.Measured(c, bench.Pace{Half: h.now.Sub(begin), Untimed: untimed, Timed: h.now.Sub(begin) - untimed})
		}
	}
	return p.dropped()
}

func (h *played) pacer(b bench.Config, total time.Duration) *pacer {
	o := Options{Bench: b, Budget: Budget{Total: total, End: h.now.Add(total)}}
	o.Progress = func(what string, left time.Duration) {
		h.said, h.lefts, h.toldAt = append(h.said, what), append(h.lefts, left), h.now
		h.beyond = max(h.beyond, left-o.Budget.End.Sub(h.now))
	}
	p := o.newPacer(0, func() uint64 {
		if h.stuck {
			return 0
		}
		return h.moved
	})
	p.now, p.began = func() time.Time { return h.now }, h.now
	h.pass(4 * time.Second) // until the ranks have started
	return p
}

func affineHost(connect time.Duration) *played {
	return &played{now: time.Unix(1000, 0), connect: connect, call: func(size int64) time.Duration {
		return time.Millisecond + time.Duration(10*size) // 10 ns per byte
	}}
}

var fiveSizes = bench.Config{
	Collective: nccl.AllReduce, Ranks: 2, Warmup: 5, Iters: 20, Sizes: []int64{8, 1 << 20, 16 << 20, 64 << 20,
		256 << 20},
}

// The plan keeps to the budget, whatever the first call tells, and the text says what was dropped.
func TestBudgetIsKept(t *testing.T) {
	for _, tc := range []struct {
		total, connect time.Duration
		want           string
	}{
		{time.Hour, 0, ""},
		{time.Hour, 10 * time.Second, ""},
		{2 * time.Minute, time.Second, "budget 2m: 11 of 20 iterations for the row of 256M"},
		{30 * time.Second, time.Second, "budget 30s: 1 to 17 of 20 iterations for rows above 1M"},
		{8 * time.Second, time.Second,
			"budget 8s: 1 to 2 of 20 iterations for rows of 8 bytes, 16M; rows above 16M dropped"},
	} {
		h := affineHost(tc.connect)
		p := h.pacer(fiveSizes, tc.total)
		got := h.play(p, &fiveSizes)
		if text := plan.Tell(tc.total, 0, got); text != tc.want {
			t.Errorf("%v: %q, want %q", tc.total, text, tc.want)
		}
		if h.now.After(p.budget.End) {
			t.Errorf("%v: it took %v more", tc.total, h.now.Sub(p.budget.End))
		}
		if h.beyond > 0 {
			t.Errorf("%v: the time left that was told exceeds it by %v", tc.total, h.beyond)
		}
	}
}

// Nothing is known of the only row: its first calls tell how many there is time for. One that takes longer than all
// that is left is named.
func TestOnlyRow(t *testing.T) {
	for _, tc := range []struct {
		call time.Duration
		want string
	}{
		{time.Millisecond, ""},
		{time.Second, "budget 30s: 9 of 20 iterations for the row of 8 bytes"},
		{5 * time.Second, "budget 30s: 1 of 20 iterations for the row of 8 bytes"},
		{time.Minute, "budget 30s: row of 8 bytes stopped because it ran over"},
	} {
		b := fiveSizes
		b.Sizes = []int64{8}
		h := affineHost(2 * time.Second)
		h.call = func(int64) time.Duration { return tc.call }
		if text := plan.Tell(30*time.Second, 0, h.play(h.pacer(b, 30*time.Second), &b)); text != tc.want {
			t.Errorf("%v: %q, want %q", tc.call, text, tc.want)
		}
	}
}

// Rows that a run has not begun when it ends are dropped.
func TestRowsThatWereNotBegun(t *testing.T) {
	h := affineHost(0)
	p := h.pacer(fiveSizes, time.Minute)
	cases := fiveSizes.Cases()
	p.Next(cases)
	p.Measured(bench.Case{Size: 8, Iters: 20, InPlace: true}, bench.Pace{})
	p.Next(cases[1:])
	want := []plan.Got{
		{Size: 8, Asked: 20, Iters: 20}, {Size: 1 << 20, Asked: 20, Over: true},
		{Size: 16 << 20, Asked: 20, Dropped: true}, {Size: 64 << 20, Asked: 20, Dropped: true},
		{Size: 256 << 20, Asked: 20, Dropped: true},
	}
	if diff := gocmp.Diff(want, p.dropped()); diff != "" {
		t.Errorf("in the second row (-want +got):\n%s", diff)
	}
}

// Without a budget all is measured, and the time left is told when a call was measured.
func TestProgressOfRows(t *testing.T) {
	h := affineHost(0)
	h.stuck = true
	p := h.pacer(fiveSizes, 0)
	p.Step("2 ranks connect")
	h.play(p, &fiveSizes)
	want := []string{"2 ranks connect", "row 1 of 5: 8 bytes", "row 3 of 5: 16M", "row 3 of 5: 16M in place",
		"row 4 of 5: 64M", "row 4 of 5: 64M in place", "row 5 of 5: 256M", "row 5 of 5: 256M in place"}
	if diff := gocmp.Diff(want, h.said); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if h.lefts[0] >= 0 || h.lefts[1] >= 0 {
		t.Errorf("before a call was measured: %v left", h.lefts[:2])
	}
	last := len(h.lefts) - 1
	if got, want := h.lefts[last-1], 2*25*h.call(256<<20); got < want*99/100 || got > want*101/100 {
		t.Errorf("before the last row: %v left, want %v", got, want)
	}
	if got, want := h.lefts[last], 25*h.call(256<<20); got < want*99/100 || got > want*101/100 {
		t.Errorf("before its second half: %v left, want %v", got, want)
	}
}

// While a long row runs, its progress and the time left follow from the bytes that its calls have moved; if nobody sees
// them, from the untimed calls.
func TestProgressWithinARow(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		h := affineHost(0)
		h.stuck = stuck
		h.call = func(size int64) time.Duration { return 700 * time.Millisecond }
		b := fiveSizes
		b.Sizes, b.Iters = b.Sizes[4:], 100
		p := h.pacer(b, 0)
		half, halves := 105*h.call(0), 0
		h.updated = func(left time.Duration) {
			want := left
			if halves == 0 {
				want += half // the one in place
			}
			said, got := h.said[len(h.said)-1], h.lefts[len(h.lefts)-1]
			got -= h.now.Sub(h.toldAt) // the display counts it down
			if off := (got - want).Abs(); off > want/50+time.Second {
				t.Errorf("stuck %v: %q: %v left, want %v", stuck, said, got, want)
			}
			done := 100 - int(left/h.call(0))
			if text := fmt.Sprintf("row 1 of 1: 256M%s, iteration %d of 100", []string{"", " in place"}[halves],
				done); !stuck && said != text && left > 0 && left%h.call(0) != 0 {
				t.Errorf("said %q, want %q", said, text)
			}
			if left == 0 {
				halves++
			}
		}
		h.play(p, &b)
		if halves != 2 {
			t.Errorf("updated in %d halves", halves)
		}
	}
}

// A run on the real clock whose smallest row takes longer than the budget is refused before the start, with the figure.
func TestBudgetRefusesBeforeTheStart(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	c.TimeScale = 64
	o := Options{Config: *c, Bench: fiveSizes}
	o.Bench.Sizes = []int64{1 << 30, 64 << 20} // a call of 64 MiB takes 0.57 s, of which there are four
	for total, want := range map[time.Duration]string{
		time.Minute:     "budget 1m: no row was measured: at time scale 64 the row of 64M alone takes 2m25s with one iteration: give a larger budget, or ask for smaller sizes",
		3 * time.Minute: "",
	} {
		o.Budget = Budget{Total: total, End: time.Now().Add(total)}
		err := o.refuse()
		if text := fmt.Sprint(err); text != cmp.Or(want, "<nil>") {
			t.Errorf("%v: %v, want %q", total, err, want)
		}
		var refused *BudgetError
		if err != nil && (!errors.As(err, &refused) || !configs.IsUserError(err)) {
			t.Errorf("%T is no error of the user", err)
		}
	}
	o.Config.TimeScale, o.Config.Clock = 64, configs.VirtualClock // the time scale means nothing there
	o.Budget = Budget{Total: time.Second, End: time.Now().Add(time.Second)}
	if err := o.refuse(); err != nil {
		t.Errorf("on a virtual clock: %v", err)
	}
}
