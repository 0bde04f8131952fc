// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// timedTrace is a trace of one rank of two, whose other rank does the same.
func timedTrace(kernels []messages.Kernel) *messages.Trace {
	tr := &messages.Trace{Jobs: []string{"job"}, Ranks: []ledger.Info{{Rank: 0, World: 2}, {Rank: 1, World: 2}}}
	for rank := range 2 {
		for _, k := range kernels {
			if k.Owner = rank; !k.IsComputation() {
				k.Tasks = []int{len(tr.Tasks)}
				tr.Tasks = append(tr.Tasks, task(rank, "AllReduce", 8, k.Launched, 0))
			}
			tr.Kernels = append(tr.Kernels, k)
		}
	}
	return tr
}

// kernel is a call, computation a host function that took time.
func kernel(stream int, launched, begun, ended int64) messages.Kernel {
	return messages.Kernel{Stream: stream, Launched: launched, Begun: begun, Ended: ended}
}

func computation(stream int, begun, ended int64) messages.Kernel {
	return messages.Kernel{Stream: stream, Begun: begun, Ended: ended}
}

// What held a call up is found by when it was launched, began and ended.
func TestTimed(t *testing.T) {
	const reduce = `,"comm":"c0","func":"AllReduce","count":8,"type":"float32"}`
	call := func(head string) string { return `{"rank":"0-1",` + head + reduce }
	for name, tc := range map[string]struct {
		kernels []messages.Kernel
		o       Options
		want    []string
		head    string
	}{
		"one after the other, launched ahead": {
			kernels: []messages.Kernel{kernel(5, 1000, 1000, 1500), kernel(5, 1000, 1500, 1700)},
			want:    []string{call(`"id":1,"op":"coll","stream":"s0"`), call(`"id":2,"op":"coll","stream":"s0"`)},
		},
		"the host's thread takes time for each launch": {
			kernels: []messages.Kernel{kernel(5, 1000, 1000, 1500), kernel(5, 1100, 1500, 1700), kernel(5, 1800, 1800, 1900),
				kernel(5, 2100, 2100, 2200)},
			o: Options{HostCall: 100},
			want: []string{
				call(`"id":1,"op":"coll","stream":"s0"`), call(`"id":2,"op":"coll","stream":"s0"`),
				`{"rank":"0-1","op":"wait","after":[1,2]}`, call(`"id":4,"op":"coll","stream":"s0"`),
				`{"rank":"0-1","op":"wait","after":[4]}`,
				`{"rank":"0-1","id":6,"op":"calc","stream":"host","ns":100,"max_ns":200}`,
				`{"rank":"0-1","op":"wait","after":[6]}`, call(`"id":8,"op":"coll","stream":"s0"`),
			}, head: "whether 2 of 2 computations",
		},
		"the host waits, and computes": {
			kernels: []messages.Kernel{kernel(5, 1000, 1000, 1500), kernel(5, 1900, 1900, 2000)},
			want: []string{
				call(`"id":1,"op":"coll","stream":"s0"`),
				`{"rank":"0-1","op":"wait","after":[1]}`,
				`{"rank":"0-1","id":3,"op":"calc","stream":"host","ns":400,"max_ns":900}`,
				`{"rank":"0-1","op":"wait","after":[3]}`,
				call(`"id":5,"op":"coll","stream":"s0"`),
			}, head: "whether 2 of 2 computations",
		},
		"the host only computes": {
			kernels: []messages.Kernel{kernel(5, 1000, 1000, 1500), kernel(5, 1900, 1900, 2000)},
			o:       Options{NoWaits: true},
			want: []string{
				call(`"id":1,"op":"coll","stream":"s0"`),
				`{"rank":"0-1","id":2,"op":"calc","stream":"host","ns":900}`,
				`{"rank":"0-1","op":"wait","after":[2]}`,
				call(`"id":4,"op":"coll","stream":"s0"`),
			}, head: "whether 2 of 2 computations",
		},
		"a stream computes": {
			kernels: []messages.Kernel{computation(1, 1000, 1300), kernel(5, 1000, 1300, 1500),
				computation(1, 1300, 1900), kernel(5, 1000, 1900, 2000)},
			want: []string{
				`{"rank":"0-1","id":1,"op":"calc","stream":"s0","ns":300}`,
				call(`"id":2,"op":"coll","stream":"s1","after":[1]`),
				`{"rank":"0-1","id":3,"op":"calc","stream":"s0","ns":600}`,
				call(`"id":4,"op":"coll","stream":"s1","after":[3]`),
			},
		},
		"the host begins a computation": {
			kernels: []messages.Kernel{kernel(5, 1000, 1000, 1500), computation(1, 1200, 1300),
				kernel(5, 1200, 1500, 1600)},
			want: []string{
				call(`"id":1,"op":"coll","stream":"s0"`),
				`{"rank":"0-1","id":2,"op":"calc","stream":"host","ns":200}`,
				`{"rank":"0-1","op":"wait","after":[2]}`,
				`{"rank":"0-1","id":4,"op":"calc","stream":"s1","ns":100}`,
				call(`"id":5,"op":"coll","stream":"s0"`),
			},
		},
		"a computation after a call that was launched later": {
			kernels: []messages.Kernel{computation(1, 1000, 2000), kernel(7, 1000, 2000, 2100),
				kernel(5, 1000, 1000, 1300), computation(5, 1300, 1500)},
			want: []string{
				`{"rank":"0-1","id":1,"op":"calc","stream":"s0","ns":1000}`,
				call(`"id":2,"op":"coll","stream":"s1","after":[1]`),
				call(`"id":3,"op":"coll","stream":"s2"`),
				`{"rank":"0-1","id":4,"op":"calc","stream":"s2","ns":200}`,
			},
		},
		"a call waits for something unknown": {
			kernels: []messages.Kernel{kernel(5, 1000, 1250, 1500)},
			want: []string{
				`{"rank":"0-1","id":1,"op":"calc","stream":"s0","ns":250}`,
				call(`"id":2,"op":"coll","stream":"s0"`),
			}, head: "what 2 operations waited for on their streams",
		},
	} {
		got := lines(t, timedTrace(tc.kernels), tc.o)
		if strings.Join(got[1:], "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got[1:], "\n"), strings.Join(tc.want, "\n"))
		}
		if !strings.Contains(got[0], tc.head) {
			t.Errorf("%s: the head is %s, want %q", name, got[0], tc.head)
		}
	}
}

// The times of kernels are used only if they are known of all calls.
func TestTimedNeedsAll(t *testing.T) {
	tr := timedTrace([]messages.Kernel{kernel(5, 1000, 1000, 1500), kernel(5, 1000, 1500, 0)})
	tr.Calls = []messages.Call{{Ended: 2000}}
	if got := lines(t, tr, Options{}); !strings.Contains(got[1], `"stream":"c0"`) {
		t.Errorf("%s", got[1])
	}
}

// Ranks whose first launches were apart begin as far apart, also if a launch takes time of the host's thread.
func TestFirstLaunchesApart(t *testing.T) {
	tr := timedTrace([]messages.Kernel{kernel(5, 1000, 1500, 2000)})
	tr.Kernels[1].Launched += 100
	w, err := Workload(tr, Options{HostCall: 100})
	if err != nil {
		t.Fatal(err)
	}
	if o := w.Ops[1]; o.Kind != workload.Calc || o.Nanos != 100 || len(o.Ranks) != 1 || o.Ranks[0] != 1 {
		t.Errorf("%+v", w.Ops)
	}
}
