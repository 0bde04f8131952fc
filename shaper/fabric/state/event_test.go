// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEvents(t *testing.T) {
	f := newFile(t)
	if e := f.Events(); e != nil {
		t.Errorf("%v", e)
	}
	for _, text := range []string{"up", "", strings.Repeat("long ", 30), "with\x00nul", "größer"} {
		f.Event(text)
	}
	want := []string{"up", "", strings.Repeat("long ", 30)[:103], "with", "größer"}
	got := f.Events()
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, e := range got {
		if e.Text != want[i] || e.Time < 0 || e.Time > time.Minute || i > 0 && e.Time < got[i-1].Time {
			t.Errorf("event %d: %v, want %q", i, e, want[i])
		}
	}
}

func TestEventsWrapAround(t *testing.T) {
	f := newFile(t)
	for n := range 3*maxEvents + 7 {
		f.Event(fmt.Sprint(n))
		e := f.Events()
		if len(e) != min(n+1, maxEvents) || e[len(e)-1].Text != fmt.Sprint(n) ||
			e[0].Text != fmt.Sprint(max(0, n+1-maxEvents)) {
			t.Fatalf("after event %d: %d events, from %v to %v", n, len(e), e[0], e[len(e)-1])
		}
	}
}

// A writer that was killed in the middle of a line costs that line.
func TestEventHalfWritten(t *testing.T) {
	f := newFile(t)
	for _, text := range []string{"a", "b", "c", "d"} {
		f.Event(text)
	}
	f.events()[1].Sequence = 0
	f.events()[2].Text[0] = 'x'
	if e := f.Events(); len(e) != 2 || e[0].Text != "a" || e[1].Text != "d" {
		t.Errorf("%v", e)
	}
}

// eventText is a line that follows from any section of it.
func eventText(writer, n int) string {
	return strings.Repeat(fmt.Sprintf("%d:%d ", writer, n), 8)
}

func checkEvent(text string) error {
	word, _, _ := strings.Cut(text, " ")
	w, n, ok := strings.Cut(word, ":")
	writer, err := strconv.Atoi(w)
	number, err2 := strconv.Atoi(n)
	if want := eventText(writer, number); !ok || err != nil || err2 != nil || text != want[:min(len(want), maxEvent)] {
		return fmt.Errorf("a mixture: %q", text)
	}
	return nil
}

// Many goroutines and processes write at once: a reader gets only complete lines.
func TestEventsAtOnce(t *testing.T) {
	f := newFile(t)
	other := start(t, "event", f.Dir(), "t")
	if got := other.line(); got != "ready" {
		t.Fatal(got)
	}
	span := 500 * time.Millisecond
	if testing.Short() {
		span = 100 * time.Millisecond
	}
	end := time.Now().Add(span)
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				f.Event(eventText(w, n))
			}
		})
	}
	read := 0
	for time.Now().Before(end) {
		for _, e := range f.Events() {
			if err := checkEvent(e.Text); err != nil {
				t.Fatal(err)
			}
			read++
		}
	}
	wg.Wait()
	if n := number(t, other.ask("stop")); n == 0 {
		t.Error("the other process wrote nothing")
	}
	if read == 0 {
		t.Error("nothing was read")
	}
	// When no process writes, only lines whose entries were reused are missing.
	if e := f.Events(); len(e) < maxEvents/2 {
		t.Errorf("%d of %d events are left", len(e), maxEvents)
	}
}

func eventChild(args []string) error {
	return whileOpen(args, func(f *File, n int) error { f.Event(eventText(9, n)); return nil })
}
