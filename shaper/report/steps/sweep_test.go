// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
	"github.com/ddlemu/ddlemu/shaper/run/play"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// workloadOf is a workload of so many ranks that do nothing.
func workloadOf(t *testing.T, ranks int) *workload.Index {
	t.Helper()
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: ranks}}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// swept is a sweep whose steps take these times in ms, of which 100 are computation.
func swept(t *testing.T, text string, steps ...int) *Sweep {
	t.Helper()
	values, err := sweep.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var results []*Result
	c := configs.Default()
	f, err := fabric.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	for _, ms := range steps {
		took := time.Duration(ms) * time.Millisecond
		results = append(results, &Result{Result: &play.Result{
			Scale: 1, Verdict: verdict.New(nil), Facts: play.Facts{Workload: workloadOf(t, 2), Fabric: f,
				Node: func(r int) int { return r }},
			Steps: []play.Step{{Time: took, Compute: 100 * time.Millisecond, Exposed: took - 100*time.Millisecond}},
		}})
	}
	return NewSweep(values, results)
}

// conclusion is the conclusion of a sweep in JSON.
func conclusion(s *Sweep) string { return *s.Report().Conclusion }

func TestEnough(t *testing.T) {
	for _, tc := range []struct {
		sweep string
		steps []int
		want  string
	}{
		{"bw=1G,10G,100G,400G", []int{900, 120, 104, 100}, "100Gbps"},
		{"bw=400G,100G,10G,1G", []int{100, 104, 120, 900}, "100Gbps"},
		{"bw=1G,10G,100G,400G", []int{104, 120, 104, 100}, "100Gbps"}, // a slower one is fast by chance
		{"bw=1G,10G,100G,400G", []int{900, 800, 700, 600}, "400Gbps"},
		{"bw=1G,10G", []int{100, 100}, "1Gbps"},
		{"lat=1us,10us,100us,1ms", []int{100, 101, 104, 400}, "100us"},
		{"lat=1us,10us", []int{100, 110}, "1us"},
	} {
		s := swept(t, tc.sweep, tc.steps...)
		if got := *s.Report().Enough; got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.sweep, tc.steps, got, tc.want)
		}
	}
}

func TestSweepOutput(t *testing.T) {
	s := swept(t, "bw=1G,10G,100G", 200, 104, 100)
	s.Results[0].InForce.GPUTime = "none (add --gpu KIND --set node_time=on)"
	var text, svg strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n# GPU time: none (add --gpu KIND --set node_time=on)\n",
		"       1Gbps     200.000     100.000     100.000       0.000        50.0      1.00  VALID\n",
		"      10Gbps     104.000     100.000       4.000       0.000         3.8      1.92  VALID\n",
		"# the network stops mattering at bw 10Gbps: faster ones make a step at most 5 % shorter; there 3.8 % of it is exposed\n", "verdict: VALID\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if err := s.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "10Gbps", "computation", "</svg>"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the plot has no %s", want)
		}
	}
	s.Results[1].Verdict.Add(verdict.Finding{Text: "late"})
	s = NewSweep(s.Values, s.Results)
	if s.Word() != "INVALID" || *s.Report().Verdict != "INVALID" {
		t.Errorf("%s, %s", s.Word(), *s.Report().Verdict)
	}
	// The slowest value may not be the slowest that is enough.
	for text, steps := range map[string][]int{"bw=100G,400G": {104, 100}, "lat=10us,1us": {104, 100}} {
		got, slowest := conclusion(swept(t, text, steps...)),
			map[bool]string{true: "bw 100Gbps", false: "lat 10us"}[text[0] == 'b']
		if want := "the network does not matter at any of these: at " + slowest +
			", the slowest, a step is at most 5 % longer than on the fastest, and 3.8 % of it is exposed. " +
			"It stops mattering there or on a slower one"; got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	cut := swept(t, "bw=1G,10G", 300)
	if cut.Word() != verdict.Incomplete {
		t.Error(cut.Word())
	}
	if got := conclusion(cut); !strings.HasPrefix(got, "one value was played") {
		t.Error(got)
	}
	if got := conclusion(swept(t, "bw=1G,10G", 300, 200)); got != "the network matters up to bw 10Gbps, the fastest of this sweep, where 50.0 % of a step is exposed" {
		t.Error(got)
	}
	other := swept(t, "queue=fair,lossless,taildrop:1M", 300, 200, 400)
	if got := conclusion(other); got != "a step is shortest at queue lossless, 200.000 ms, and longest at taildrop:1M, 400.000 ms" || *other.Report().Enough != "" {
		t.Error(got)
	}
}

// The plot of a composition has a bar for each part.
func TestCompositionPlot(t *testing.T) {
	r := swept(t, "bw=1G,10G", 200, 150).Results[0]
	r.Time = 200 * time.Millisecond
	r.Composition = []play.Share{
		{What: play.Computation, Time: 150 * time.Millisecond}, {What: "AllReduce", Time: 49 * time.Millisecond,
			Waiting: 9 * time.Millisecond}, {What: play.Idle, Time: time.Millisecond},
	}
	var svg strings.Builder
	if err := r.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">computation<", ">75.0 %<", ">AllReduce<", ">20.0 %<", ">AllReduce, waiting<",
		">4.5 %<", ">0.5 %<", "% of 200ms", `class="mark c0"`, `class="mark c1"`} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the plot has no %s", want)
		}
	}
	r.Composition = nil
	if err := r.WriteSVG(&svg); err == nil {
		t.Error("drew nothing")
	}
}

func TestComparison(t *testing.T) {
	s := swept(t, "bw=1G,10G", 200, 150)
	a, b := s.Results[0], s.Results[1]
	a.Calls = []play.Calls{{Func: "AllReduce", Comm: "a", Ranks: 2, Size: 16, Count: 2, Mean: 100, Algo: "Ring",
		Proto: "LL"}}
	b.Calls = []play.Calls{{Func: "Gather", Comm: "a", Ranks: 2, Size: 16},
		{Func: "AllReduce", Comm: "a", Ranks: 2, Size: 16, Count: 2, Mean: 150, Algo: "Tree", Proto: "LL"}}
	a.Time, b.Time = a.Steps[0].Time, b.Steps[0].Time
	r := (&Comparison{a, b}).Report()
	if len(r.Calls) != 1 || *r.Calls[0].Percent != 50 || r.Calls[0].Original != .1 || *r.Whole.Percent != -25 ||
		*r.Steps[0].Percent != -25 {
		t.Errorf("%+v", r)
	}
	var text strings.Builder
	if err := (&Comparison{a, b}).WriteText(&text, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.10          0.15     +50.00  Ring LL, Tree LL\n",
		"   whole       200.000       150.000     -25.00       100.000        50.000\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// A sweep says where NCCL's choice changes, for which the network is not all of the difference.
func TestSweepNamesChangesOfChoice(t *testing.T) {
	s := swept(t, "bw=25G,50G,100G", 200, 150, 180)
	call := func(algo, proto string, mean time.Duration) []play.Calls {
		return []play.Calls{{Func: "AllReduce", Comm: "a", Ranks: 2, Size: 1 << 20, Count: 2, Mean: mean, Algo: algo,
			Proto: proto}, {Func: "SendRecv", Comm: "a", Ranks: 2, Size: 16}}
	}
	for i, calls := range [][]play.Calls{call("Ring", "Simple", 400*time.Microsecond),
		call("Ring", "Simple", 200*time.Microsecond), call("Ring", "LL", 500*time.Microsecond)} {
		s.Results[i].Calls = calls
	}
	s = NewSweep(s.Values, s.Results)
	want := "AllReduce of 1048576 bytes: Ring Simple at bw 50Gbps, Ring LL at 100Gbps (200.00 us, 500.00 us): the faster network takes longer"
	if got := s.Report().Changes; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil ||
		!strings.Contains(text.String(), "# NCCL's choice changes: "+want+"\n") {
		t.Errorf("%v:\n%s", err, text.String())
	}
	s.Results[2].Calls = call("Ring", "Simple", 100)
	if got := NewSweep(s.Values, s.Results).Changes(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
