// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"strings"
	"testing"
	"time"
)

// at is a time after the start.
func at(start time.Time, s float64) time.Time {
	return start.Add(time.Duration(s * float64(time.Second)))
}

// Where there is no terminal, a line comes every 30 s, and none before.
func TestLines(t *testing.T) {
	var out strings.Builder
	start := time.Unix(1000, 0)
	d := newDisplay(Options{Name: "bench", To: &out}, start)
	for s := 0.0; s < 95; s += 0.2 {
		switch {
		case s < 20:
		case s < 40:
			d.set("row 2 of 9: 64K", 100*time.Second, at(start, 20))
		default:
			d.set("row 8 of 9: 1M", 30*time.Second, at(start, 40))
		}
		d.update(at(start, s))
	}
	const want = "ddlemu: bench: row 2 of 9: 64K; 30s so far, about 1m30s left\n" +
		"ddlemu: bench: row 8 of 9: 1M; 1m0s so far, about 10s left\n" +
		"ddlemu: bench: row 8 of 9: 1M; 1m30s so far, longer than predicted\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
}

// On a terminal nothing is shown for 3 s. What is written over the bar comes after it was removed, and the bar is drawn
// again.
func TestBar(t *testing.T) {
	var out strings.Builder
	start := time.Unix(1000, 0)
	d := newDisplay(Options{Name: "bench", To: &out, Terminal: true, Width: func() int { return 100 }}, start)
	d.update(at(start, 2.9))
	if out.String() != "" {
		t.Fatalf("after 2.9 s there is %q", out.String())
	}
	d.set("row 3 of 9: 64K", 9*time.Second, at(start, 3))
	d.update(at(start, 3))
	if got := out.String(); !strings.Contains(got, "bench: row 3 of 9: 64K; 3s so far, about 9s left  25% |██   ") {
		t.Errorf("after 3 s of 12 there is %q", got)
	}
	out.Reset()
	if _, err := d.Over(&out).Write([]byte("a row\n")); err != nil || out.String() != "\x1b[2K\ra row\n" {
		t.Errorf("over the bar: %q, %v", out.String(), err)
	}
	out.Reset()
	d.update(at(start, 6))
	if got := out.String(); !strings.Contains(got, "6s so far, about 6s left  50% |") {
		t.Errorf("after the row there is %q", got)
	}
	out.Reset()
	d.Stop()
	d.Stop()
	if out.String() != "\x1b[2K\r" {
		t.Errorf("at the end %q", out.String())
	}
}

// The bar's line fits the terminal, because a line that is continued on the next one cannot be removed. The times are
// cut last.
func TestBarFits(t *testing.T) {
	for _, width := range []int{40, 60, 80, 200} {
		var out strings.Builder
		start := time.Unix(1000, 0)
		d := newDisplay(Options{Name: "bench", To: &out, Terminal: true, Width: func() int { return width }}, start)
		d.set("row 3 of 9: "+strings.Repeat("long ", 50), time.Minute, start)
		d.update(at(start, 5))
		lines := strings.Split(strings.ReplaceAll(out.String(), "\x1b[0K", ""), "\r")
		for _, line := range lines {
			if n := len([]rune(line)); n > width {
				t.Errorf("%d columns on a terminal of %d: %q", n, width, line)
			}
		}
		if last := lines[len(lines)-1]; width >= 60 && !strings.Contains(last, "…; 5s so far, about 55s left") {
			t.Errorf("on a terminal of %d columns %q", width, last)
		}
	}
}

func TestQuiet(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out strings.Builder
		start := time.Unix(1000, 0)
		d := newDisplay(Options{Name: "bench", To: &out, Terminal: terminal, Quiet: true}, start)
		d.update(at(start, 40))
		d.Stop()
		if out.String() != "" {
			t.Errorf("quiet, but %q", out.String())
		}
	}
}

// The time left is that of the present work, which began later than the command.
func TestParts(t *testing.T) {
	start := time.Unix(1000, 0)
	d := newDisplay(Options{Name: "trace"}, start)
	d.part("messages are played again", 0.1, at(start, 5))
	if d.meter.left != Unknown {
		t.Errorf("at the begin %v left", d.meter.left)
	}
	for part, want := range map[float64]time.Duration{0: Unknown, 0.25: 30 * time.Second, 1: 0, 2: Unknown} {
		d.part("messages are played again", part, at(start, 15))
		if d.meter.left != want {
			t.Errorf("after 10 s, %g is done: %v left, want %v", part, d.meter.left, want)
		}
	}
}
