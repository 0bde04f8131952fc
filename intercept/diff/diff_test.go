// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// run is a run at a time scale, without a call.
func run(scale int64) *Run {
	return &Run{Trace: &messages.Trace{Ranks: []ledger.Info{{TimeScale: scale}}}, Report: &why.Report{}}
}

// call adds a call with one message on a channel.
func (r *Run) call(name, algo string, start int64, channel int, parts ...why.Part) {
	t := r.Trace
	t.Messages = append(t.Messages, messages.Message{Channel: channel})
	t.Tasks = append(t.Tasks, messages.Task{Algo: algo, Proto: "Simple"})
	c := &messages.Call{Name: name, Tasks: []int{len(t.Tasks) - 1}, Messages: []int{len(t.Messages) - 1}, Bytes: 100}
	r.Report.Calls = append(r.Report.Calls, why.Explained{Call: c, Start: start, End: start + why.Sum(parts),
		Path: parts})
}

func serializing(ns int64) why.Part { return why.Part{Cause: why.Serialize, Link: "node0 tx", Ns: ns} }
func propagation(ns int64) why.Part { return why.Part{Cause: why.Propagation, Ns: ns} }

// Runs at two time scales: times are those of the emulated network. A call more in one run is left out.
func TestOf(t *testing.T) {
	a, b := run(1), run(4)
	a.call("AllReduce", "Ring", 0, 0, serializing(1000), propagation(200))
	a.call("AllReduce", "Ring", 2000, 1, serializing(1000), propagation(200))
	a.call("Broadcast", "Ring", 4000, 0, propagation(50))
	b.call("AllReduce", "Tree", 0, 0, serializing(4000), propagation(8000))
	b.call("Broadcast", "Ring", 20000, 0, propagation(200))
	b.call("AllGather", "Ring", 30000, 0, propagation(200))
	want := &Result{
		All:       Times{1250, 3050},
		Functions: []Function{{"AllReduce", 1, Times{1200, 3000}}, {"Broadcast", 1, Times{50, 50}}},
		Causes:    []Cause{{"propagation", Times{250, 2050}}, {"serializing on node0 tx", Times{1000, 1000}}},
		Choices: []Choice{{"AllReduce", "Ring Simple channels: 1; 1 message, 100 bytes",
			"Tree Simple channels: 1; 1 message, 100 bytes"}},
		Sent: []Choice{},
		Only: [2][]Unmatched{{{"AllReduce", 1}}, {{"AllGather", 1}}},
	}
	if d := cmp.Diff(want, Of(a, b)); d != "" {
		t.Error(d)
	}
}

// Calls of another size are no other choice of NCCL.
func TestOtherSizes(t *testing.T) {
	a, b := run(1), run(1)
	a.call("AllReduce", "Ring", 0, 0, propagation(200))
	b.call("AllReduce", "Ring", 0, 0, propagation(200))
	b.Report.Calls[0].Bytes = 400
	r := Of(a, b)
	want := []Choice{{"AllReduce", "1 message, 100 bytes", "1 message, 400 bytes"}}
	if d := cmp.Diff(want, r.Sent); d != "" || len(r.Choices) != 0 {
		t.Error(d, r.Choices)
	}
}

// The differences of the causes sum to that of the whole, and those of the functions do.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *Run {
			r := run(1)
			for i := range rapid.IntRange(0, 8).Draw(t, name) {
				function := rapid.SampledFrom([]string{"AllReduce", "AllGather"}).Draw(t, "function")
				ns := rapid.Int64Range(0, 1e9)
				r.call(function, "Ring", int64(i), 0, serializing(ns.Draw(t, "serializing")),
					propagation(ns.Draw(t, "propagation")), serializing(ns.Draw(t, "again")))
			}
			return r
		}
		r := Of(draw("A"), draw("B"))
		var causes, functions Times
		for _, c := range r.Causes {
			causes.A, causes.B = causes.A+c.A, causes.B+c.B
		}
		for _, f := range r.Functions {
			functions.A, functions.B = functions.A+f.A, functions.B+f.B
		}
		if causes != r.All || functions != r.All {
			t.Fatalf("all %v, causes %v, functions %v", r.All, causes, functions)
		}
	})
}

func TestSettings(t *testing.T) {
	got, err := Settings([]byte("nodes: 2\nlink: {latency: 1us, mtu: 4096}\nlinks: [{match: a}]"),
		[]byte("nodes: 2\nlink: {latency: 5us}\nlinks: [{match: a}, {match: b}]"))
	want := []Setting{{"link.latency", "1us", "5us"}, {"link.mtu", "4096", ""}, {"links[1].match", "", "b"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if got, err := Settings([]byte("gpus_per_node: 1"), []byte("nodes: 2")); len(got) != 1 || got[0].Name != "nodes" ||
		err != nil {
		t.Errorf("a fabric that does not say how many GPUs a node has: %v, %v", got, err)
	}
	if _, err := Settings([]byte("nodes: 2"), []byte("nodes: [")); err == nil {
		t.Error("a damaged fabric file was read")
	}
}

// Where the figures of fabrics are from is no difference between them.
func TestSourcesAreNoSettings(t *testing.T) {
	got, err := Settings([]byte("nodes: 2\nsources: [a long title]\nfitted_to: [x]"), []byte("nodes: 2\nsources: [b]"))
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
