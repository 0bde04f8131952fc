// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	const d = 160 * time.Millisecond
	h, err := Measure(context.Background(), 3, d)
	if err != nil {
		t.Fatal(err)
	}
	if h.Threads != 3 || h.CPUs <= 0 || h.Rate <= 0 {
		t.Errorf("got %d threads on %g cores at %g B/s", h.Threads, h.CPUs, h.Rate)
	}
	// No thread polls for longer than it runs, and it ends at most one gap late.
	round := 4 * phaseOf(3, h.CPUs)
	polled := time.Duration(h.quiet.sum() + h.busy.sum())
	if most := 3 * (max(d.Round(round), round) + h.Longest()); polled == 0 || polled > most {
		t.Errorf("polls make up %v of %v at most", polled, most)
	}
	if h.quiet.sum() == 0 || h.busy.sum() == 0 {
		t.Errorf("polls make up %v ns without copies, %v ns beside them", h.quiet.sum(), h.busy.sum())
	}
	if p50, p99 := h.Delay(0.5, 0), h.Delay(0.99, 0); p50 > p99 || p99 > h.Longest() {
		t.Errorf("p50 %v, p99 %v, longest %v", p50, p99, h.Longest())
	}
	checkBuckets(t, &h.quiet)
	checkBuckets(t, &h.busy)
}

// checkBuckets compares the buckets of poll.c with the definition in poll.h.
func checkBuckets(t *testing.T, g *gaps) {
	t.Helper()
	for b := range buckets - 1 {
		if g.count[b] == 0 {
			continue
		}
		mean := g.total[b] / g.count[b]
		if mean < bucketFloor(b) || mean >= bucketFloor(b+1) {
			t.Errorf("bucket %d holds gaps of %g ns, want %g to %g", b, mean, bucketFloor(b), bucketFloor(b+1))
		}
	}
}

// bucketFloor is the shortest gap of a bucket, in ns.
func bucketFloor(b int) float64 {
	if b < 8 {
		return float64(b)
	}
	return float64(4+b%4) * float64(int64(1)<<(b/4-1))
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := Measure(ctx, 2, time.Hour)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still measuring")
	}
}
