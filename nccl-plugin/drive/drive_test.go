// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// newWorld joins a fabric of three nodes, with parameters that change has set.
func newWorld(t *testing.T, change func(*configs.Fabric)) *World {
	t.Helper()
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = 3
	change(c)
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Join(statetest.New(t, fab, "drive"), fab)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// jittery makes messages take 5 to 35 ms, which is much compared with what a busy host adds.
func jittery(seed uint64) func(*configs.Fabric) {
	return func(c *configs.Fabric) {
		c.Seed = seed
		c.Link.Latency, c.Link.Jitter = 20*time.Millisecond, configs.Jitter{Kind: configs.UniformJitter,
			Value: 15 * time.Millisecond}
	}
}

// times is how long the messages of a flow took, in ms, and the uncertainty of that.
type times struct{ took, uncertainty []float64 }

// single sends single messages from NIC 0 to 1, to 2, and on a second flow to 1.
func single(t *testing.T, w *World) (all []times) {
	t.Helper()
	const n = 40
	f := verify.Flow{Src: 0, Dst: 1, Size: 8, Depth: 32, Messages: n, Spacing: 40 * time.Millisecond,
		Apart: 4 * time.Millisecond}
	g := f
	g.Dst = 2
	traces, err := w.Run(t.Context(), []verify.Flow{f, g, f}, 20*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range traces {
		if len(tr.Visible) != n {
			t.Fatalf("%d of %d messages arrived", len(tr.Visible), n)
		}
		var one times
		for i := range n {
			one.took = append(one.took, float64(tr.Visible[i]-tr.Posted[i])/1e6)
			one.uncertainty = append(one.uncertainty,
				float64(tr.Visible[i]-tr.Missing[i]+tr.Returned[i]-tr.Posted[i])/1e6)
		}
		all = append(all, one)
	}
	return all
}

// same counts the messages whose times are known in a and b, and those that took the same time in both.
func same(a, b times) (same, known int) {
	for i := range a.took {
		if a.uncertainty[i] < 2 && b.uncertainty[i] < 2 {
			known++
			if math.Abs(a.took[i]-b.took[i]) < 3 {
				same++
			}
		}
	}
	return same, known
}

// With the same seed the draws of each link and flow are the same, with another seed they differ.
func TestSeed(t *testing.T) {
	first, second, other := single(t, newWorld(t, jittery(1))), single(t, newWorld(t, jittery(1))),
		single(t, newWorld(t, jittery(2)))
	for i := range first {
		if got, known := same(first[i], second[i]); known < 5 || got < known {
			t.Errorf("flow %d, same seed: %d of %d messages took the same time", i, got, known)
		}
		if got, known := same(first[i], other[i]); known < 5 || got > known*2/3 {
			t.Errorf("flow %d, another seed: %d of %d messages took the same time", i, got, known)
		}
		if got, known := same(first[0], first[i]); i > 0 && got > known*2/3 {
			t.Errorf("flow %d draws as the first: %d of %d messages took the same time", i, got, known)
		}
	}
}

// Nothing is posted before all senders can know of the receives.
func TestReady(t *testing.T) {
	w := newWorld(t, func(*configs.Fabric) {})
	f := verify.Flow{Src: 0, Dst: 1, Size: 8, Depth: 1, Messages: 4}
	delayed := f
	delayed.Dst, delayed.Ready = 2, 50*time.Millisecond
	before := state.Now()
	traces, err := w.Run(t.Context(), []verify.Flow{f, delayed}, 20*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i, tr := range traces {
		if len(tr.Visible) != 4 || tr.Posted[0]-before < int64(delayed.Ready) {
			t.Errorf("flow %d: %d of 4 messages arrived, the first was posted after %v", i, len(tr.Visible),
				time.Duration(tr.Posted[0]-before))
		}
	}
}

// All messages of a stream arrive in order, on several connections at once.
func TestStreams(t *testing.T) {
	w := newWorld(t, func(*configs.Fabric) {})
	f := verify.Flow{Src: 0, Dst: 1, Size: 64 << 10, Depth: 8, Messages: 40}
	g := f
	g.Src, g.Dst, g.Apart = 2, 0, time.Millisecond // a flow for which the loop sleeps
	traces, err := w.Run(t.Context(), []verify.Flow{f, g}, 20*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i, tr := range traces {
		if len(tr.Posted) != 40 || len(tr.Visible) != 40 {
			t.Fatalf("flow %d: %d of %d messages", i, len(tr.Visible), len(tr.Posted))
		}
		for n := range tr.Visible {
			if tr.Visible[n] <= tr.Posted[n] || tr.Missing[n] > tr.Visible[n] || tr.Returned[n] < tr.Posted[n] ||
				n > 0 && tr.Visible[n] < tr.Visible[n-1] {
				t.Errorf("flow %d, message %d: posted %d, returned %d, missing %d, visible %d", i, n, tr.Posted[n],
					tr.Returned[n], tr.Missing[n], tr.Visible[n])
			}
		}
	}
	if len(w.Findings()) > 0 || w.Others() != 0 {
		t.Errorf("%v, %d others", w.Findings(), w.Others())
	}
	for _, m := range w.nics {
		if n := m.end.Open(); n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	}
}

// A run ends soon when it is cancelled, and when the fabric is taken down.
func TestEnds(t *testing.T) {
	endless := verify.Flow{Src: 0, Dst: 1, Size: 64 << 10, Depth: 8, Messages: 1 << 20}
	w := newWorld(t, func(*configs.Fabric) {})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := w.Run(ctx, []verify.Flow{endless}, time.Hour, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, w.file.TakeDown)
	if _, err := w.Run(t.Context(), []verify.Flow{endless}, time.Hour, 0); err == nil ||
		!strings.Contains(err.Error(), "the fabric was taken down") {
		t.Errorf("taken down: %v", err)
	}
}
