// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// twoNodes has a link of 100 Gb/s and 1 us.
func twoNodes(t *testing.T) *Fabric {
	t.Helper()
	c, err := configs.Decode("test", []byte("base: loopback\nnodes: 2\nlink:\n  bandwidth: 100Gbps\n  latency: 1us\n"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &Fabric{Fabric: f, TimeScale: 1}
}

func message(number uint64, posted, received int64) messages.Message {
	return messages.Message{Flow: 5, Number: number, Sender: 0, Receiver: 1, Src: 0, Dst: 1, Size: 125_000,
		HasSend: true, Posted: posted, HasReceive: true, ReceivePosted: received}
}

func traceOf(all ...messages.Message) *messages.Trace {
	return &messages.Trace{Messages: all,
		Connections: []messages.Connection{{Flow: 5, Sender: 0, Receiver: 1, Src: 0, Dst: 1}}}
}

// A message takes 10 us and three latencies of 0.5 us or 1 us; a second one waits for it.
func TestAsPosted(t *testing.T) {
	f := twoNodes(t)
	latency := int64(f.Latency(0, 1))
	tr := traceOf(message(7, 1000, 0), message(8, 2000, 0))
	r, err := AsPosted(f, tr, Prepare(tr))
	if err != nil {
		t.Fatal(err)
	}
	serialization := int64(10_000)
	if due := r.Times[0].Due - 1000 - latency; due < serialization || due > serialization*11/10 {
		t.Errorf("the first one took %d ns and the latency of %d", due, latency)
	}
	if after := r.Times[1].Due - r.Times[0].Due; after < serialization || after > serialization*11/10 {
		t.Errorf("the second one was %d ns behind the first one", after)
	}
	bytes := uint32(0)
	for _, p := range r.HopRecords {
		if p.Hop == 0 {
			bytes += p.Bytes
		}
		if p.Start < p.Ready || p.Next < p.Start || p.Finish < p.Next {
			t.Errorf("%+v", p)
		}
	}
	if bytes != 250_000 {
		t.Errorf("the segments have %d bytes", bytes)
	}
}

// The part that is done is told, and an error of the watch ends the play.
func TestWatch(t *testing.T) {
	var all []messages.Message
	for i := range int64(20_000) {
		all = append(all, message(uint64(i), 20_000*i, 20_000*i))
	}
	f, tr := twoNodes(t), traceOf(all...)
	var parts []float64
	f.Watch = func(part float64) error {
		parts = append(parts, part)
		return nil
	}
	if _, err := AsPosted(f, tr, Prepare(tr)); err != nil {
		t.Fatal(err)
	}
	if n := len(parts); n < 5 || parts[0] != 0 || !slices.IsSorted(parts) || parts[n-1] < 0.8 || parts[n-1] > 1 {
		t.Errorf("it told %v", parts)
	}
	stop := errors.New("stop")
	f.Watch = func(part float64) error {
		if part > 0.5 {
			return stop
		}
		return nil
	}
	if _, err := AsPosted(f, tr, Prepare(tr)); !errors.Is(err, stop) {
		t.Errorf("stopped by the watch: %v", err)
	}
}

// A message whose predecessor is missing is not played, nor are those behind it.
func TestMissingMessages(t *testing.T) {
	last := message(5, 3000, 0)
	last.HasSend = false
	for name, tc := range map[string]struct {
		trace   *messages.Trace
		skipped int
	}{
		"whole":          {traceOf(message(3, 0, 0), message(4, 0, 0)), 0},
		"gap":            {traceOf(message(3, 0, 0), message(5, 0, 0), message(6, 0, 0)), 2},
		"post not known": {traceOf(message(4, 0, 0), last), 1},
		"first not known": {traceOf(func() messages.Message { m := message(4, 0, 0); m.HasSend = false; return m }(),
			message(5, 0, 0)), 2},
	} {
		r := Prepare(tc.trace)
		if r.Skipped != tc.skipped {
			t.Errorf("%s: %d skipped, want %d", name, r.Skipped, tc.skipped)
		}
		result, err := AsPosted(twoNodes(t), tc.trace, r)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range result.Times {
			if played := r.FlowOf[i] >= 0; (x.Due != link.Never) != played {
				t.Errorf("%s: message %d: %+v", name, i, x)
			}
		}
	}
}

// A message that waits for its receive, or for a link that stays down, has no times.
func TestWhatNeverHappens(t *testing.T) {
	f := twoNodes(t)
	m := message(0, 0, 0)
	m.HasReceive = false
	tr := traceOf(m)
	r, err := AsPosted(f, tr, Prepare(tr))
	if err != nil || r.Times[0].Due != link.Never {
		t.Errorf("%+v, %v", r.Times, err)
	}
	down := f.Hops[f.Link(0, 1)].Spec
	down.Down = true
	f.Changes = []ledger.Change{{Hop: f.Link(0, 1), Spec: down}}
	tr = traceOf(message(0, 0, 0))
	if r, err = AsPosted(f, tr, Prepare(tr)); err != nil || r.Times[0].Due != link.Never {
		t.Errorf("%+v, %v", r.Times, err)
	}
}

// What lies beside ledgers may be damaged.
func TestDamagedInput(t *testing.T) {
	tr := traceOf(message(0, 0, 0))
	tr.Connections[0].Dst = 9
	if _, err := AsPosted(twoNodes(t), tr, Prepare(tr)); err == nil || !strings.Contains(err.Error(), "no path") {
		t.Errorf("a NIC that does not exist: %v", err)
	}
	f := twoNodes(t)
	for want, c := range map[string]ledger.Change{
		"the fabric has":        {Hop: 99},
		"a change of hop 0: ":   {Spec: link.Spec{Bandwidth: 1}},
		"a change of hop 1: la": {Hop: 1, Spec: link.Spec{MTU: 1500, Latency: -1}},
	} {
		f.Changes = []ledger.Change{c}
		tr := traceOf(message(0, 0, 0))
		if _, err := AsPosted(f, tr, Prepare(tr)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dir := t.TempDir()
	if _, err := LoadFabric(dir, 1); err == nil || !strings.Contains(err.Error(), "there is no ") {
		t.Errorf("no fabric: %v", err)
	}
	if err := ledger.WriteFabric(dir, []byte("nodes: many\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFabric(dir, 1); err == nil || !strings.Contains(err.Error(), "fabric.yaml") {
		t.Errorf("a damaged fabric: %v", err)
	}
}

// A link at half of its rate from 3 ms on: 6 MB at 1 MB/ms take 9 ms, as they were posted and as calls do.
func TestPlannedChange(t *testing.T) {
	f := twoNodes(t)
	for i := range f.Hops {
		f.Hops[i].Spec.Bandwidth = 8e9
		half := f.Hops[i].Spec
		half.Bandwidth /= 2
		f.Changes = append(f.Changes, ledger.Change{Time: 3e6, Hop: i, Spec: half})
	}
	m := message(7, 0, 0)
	m.Size = 6e6
	tr := traceOf(m)
	r, err := AsPosted(f, tr, Prepare(tr))
	if err != nil {
		t.Fatal(err)
	}
	if due := float64(r.Times[0].Due) / 1e6; due < 8.8 || due > 9.3 {
		t.Errorf("it is due at %.3f ms, want 9", due)
	}
}
