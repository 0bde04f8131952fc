// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"testing"
	"time"
)

func TestRunnable(t *testing.T) {
	for text, want := range map[string]int{"0.20 0.18 0.12 3/512 11206\n": 3, "0.20 0.18 0.12 28/9 1": 28, "": -1,
		"1 2 3": -1, "1 2 3 x/7 1": -1} {
		if n, ok := runnable(text); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
}

// The load is the mean of the looks without the thread that looks; what cannot be read is left out.
func TestWatchLoad(t *testing.T) {
	tick, stopped := make(chan time.Time), 0
	texts := []string{"0 0 0 5/9 1", "", "0 0 0 1/9 1", "?", "0 0 0 9/9 1"}
	w := watchLoad(tick, func() { stopped++ }, func() (string, error) {
		text := texts[0]
		if texts = texts[1:]; text == "" {
			return "", errors.New("no /proc")
		}
		return text, nil
	})
	if w.Load() != nil {
		t.Error("a load before the first look")
	}
	for range len(texts) {
		tick <- time.Time{}
	}
	w.Stop()
	w.Stop()
	if l := w.Load(); l == nil || l.Runnable != 4 || l.Cores != CPUs().Usable || stopped != 1 {
		t.Errorf("%+v, stopped %d times", l, stopped)
	}
	var none *LoadWatch
	if none.Stop(); none.Load() != nil {
		t.Error("a load of none")
	}
}

// On Linux the number of runnable threads can be read.
func TestWatchLoadReads(t *testing.T) {
	w := WatchLoad()
	defer w.Stop()
	for start := time.Now(); w.Load() == nil; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("no look in 10 s")
		}
	}
}
