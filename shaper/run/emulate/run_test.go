// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

func TestPredict(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	c.TimeScale = 4
	o := Options{Config: *c, Bench: bench.Config{Collective: nccl.AllReduce, Sizes: []int64{100 << 20}, Warmup: 1,
		Iters: 9, Ranks: 2}}
	// 100 MiB at 118.7 MB/s, 10 times in place and 10 times out of place, 4 times slower.
	want := 100 * float64(1<<20) / 118.66e6 * 20 * 4
	if got := o.predict(&o.Config).Seconds(); got < want*0.99 || got > want*1.01 {
		t.Errorf("predicted %.1f s, want %.1f", got, want)
	}
}

func TestTooLongIsRefused(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Config: *c, Bench: bench.Config{Collective: nccl.AllReduce, Sizes: []int64{1 << 30}, Iters: 20, Ranks: 2},
		Scale: func(context.Context) (host.Selection, error) { return host.Selection{Scale: 64}, nil },
	}
	var tooLong *TooLongError
	if _, err := Run(t.Context(), o); !errors.As(err, &tooLong) || tooLong.Scale != 64 || tooLong.Time < time.Hour {
		t.Errorf("20 GiB over 1 Gb/s at scale 64: %v", err)
	}
}

// Runs that are INVALID because of the host are repeated, also at the largest time scale, and the header says so.
func TestAttempts(t *testing.T) {
	invalid := func(host bool) verdict.Verdict {
		v := verdict.New(nil)
		v.Add(verdict.Finding{Cause: verdict.CauseHost, Text: "8 bytes were late", Slow: host})
		return v
	}
	valid := verdict.New(nil)
	const (
		head  = "# collective= nccl= cuda= profile= datapath= clock= time_scale=0 ranks=0 nodes=0 warmup=0 iters=0\n"
		names = "size,count,type,redop,root,inplace,time_us,algbw_gbs,busbw_gbs,wrong,expected_us,diff_percent,time_min_us,time_max_us,algo,proto,channels\n"
	)
	table := func(word string) string { return head + names + "# verdict: " + word + "\n" }
	for _, tc := range []struct {
		name     string
		lastOnly bool
		fixed    bool // the time scale is given
		verdicts []verdict.Verdict
		printed  string
	}{
		{"VALID", true, false, []verdict.Verdict{valid}, table("VALID")},
		{"all", false, false, []verdict.Verdict{invalid(true), valid}, table("INVALID") + table("VALID")},
		{"the last only", true, false, []verdict.Verdict{invalid(true), valid}, table("VALID")},
		{"three at most", true, false, []verdict.Verdict{invalid(true), invalid(true), invalid(true)},
			table("INVALID")},
		{"not the host's", true, false, []verdict.Verdict{invalid(false)}, table("INVALID")},
		{"a time scale that was given", true, true, []verdict.Verdict{invalid(true)}, table("INVALID")},
	} {
		var out, log strings.Builder
		o := Options{Config: configs.Fabric{TimeScale: link.MaxTimeScale / 2}, Log: &log,
			Header: Header{Decisions: "fabric view", Fabric: configs.InForce{GPUTime: "none"}}}
		o.Output = Output{LastOnly: tc.lastOnly, Printer: func() bench.Printer { return printer.NewCSV(&out) }}
		if !tc.fixed {
			o.Scale = func(context.Context) (host.Selection, error) { return host.Selection{}, nil }
		}
		var notes []string
		made := 0
		got, err := o.attempts(t.Context(), "chosen for this host",
			func(_ context.Context, n []string, p bench.Printer) (Outcome, error) {
				v := tc.verdicts[made]
				notes, made = append(notes, strings.Join(n, "; ")), made+1
				return Outcome{Verdict: v, Scale: o.Config.TimeScale},
					errors.Join(p.Begin(bench.Header{}), p.End(bench.Summary{Verdict: v}))
			})
		if err != nil || made != len(tc.verdicts) || got.Verdict.Word != tc.verdicts[made-1].Word ||
			out.String() != tc.printed {
			t.Errorf("%s: %d attempts, %+v, %v: %s", tc.name, made, got, err, out.String())
		}
		for i, want := range []string{
			"time scale 512 chosen for this host; decisions: fabric view; GPU time: none",
			"time scale 1024 chosen for this host, because 512 was too small; attempt 2 of 3 at most: attempt 1, at time scale 512, was INVALID: host: 8 bytes were late; decisions: fabric view; GPU time: none",
			"time scale 1024 chosen for this host, because 512 was too small; attempt 3 of 3 at most: attempt 2, at time scale 1024, was INVALID: host: 8 bytes were late; decisions: fabric view; GPU time: none",
		}[:made] {
			if notes[i] != want {
				t.Errorf("%s: attempt %d says %q, want %q", tc.name, i+1, notes[i], want)
			}
		}
	}
}

// The nodes of a job are those that its ranks use.
func TestNodesOfTheJob(t *testing.T) {
	for _, tc := range []struct{ ranks, nodes, gpus, want int }{
		{2, 2, 0, 2}, {8, 4, 2, 4}, {4, 4, 2, 2}, {3, 4, 2, 2}, {8, 4, 0, 4},
	} {
		c := &configs.Fabric{Nodes: tc.nodes, GPUsPerNode: tc.gpus}
		o := Options{Bench: bench.Config{Ranks: tc.ranks}}
		if got := o.Nodes(c); got != tc.want {
			t.Errorf("%+v: on %d nodes", tc, got)
		}
	}
}

// The missing NVLink is noted if it matters: with several GPUs and NICs per node.
func TestCaveats(t *testing.T) {
	for _, tc := range []struct {
		cuda               string
		ranks, nodes, nics int
		nvlinks            int
		view               string
		want               string
	}{
		{locate.Soft, 16, 2, 4, 0, configs.FabricView,
			"nvlinks_per_gpu is 0: where nodes have NVLink, NCCL may use more of their 4 NICs at once"},
		{locate.Soft, 16, 2, 4, 12, configs.FabricView, ""},
		{locate.Soft, 16, 2, 4, 12, configs.HostView, "the host's view has no NVLink"},
		{locate.Soft, 16, 2, 4, 0, "", ""}, // with the user's topology file
		{locate.Soft, 8, 2, 4, 0, configs.FabricView, "nvlinks_per_gpu is 0"},
		{locate.Soft, 16, 2, 1, 0, configs.FabricView, ""},
		{"gpu", 16, 2, 4, 0, configs.FabricView, ""},
	} {
		for _, p2p := range []nccl.Collective{nccl.AllToAll, nccl.SendRecv} {
			o := Options{Libraries: locate.Libraries{CUDA: tc.cuda}, Header: Header{View: tc.view}}
			o.Bench.Collective, o.Bench.Ranks, o.Config.Nodes, o.Config.NICsPerNode = p2p, tc.ranks, tc.nodes, tc.nics
			o.Config.Node.GPUs = 8
			if got := o.Caveats(); got != nil {
				t.Errorf("%v %+v: %q", p2p, tc, got)
			}
		}
		o := Options{Libraries: locate.Libraries{CUDA: tc.cuda}}
		o.Bench.Ranks, o.Config.Nodes, o.Config.NICsPerNode = tc.ranks, tc.nodes, tc.nics
		o.Config.NVLinksPerGPU, o.Header.View, o.Config.Node.GPUs = tc.nvlinks, tc.view, 8
		if got := strings.Join(o.Caveats(), "; "); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// A tuner of the real cluster is named where it would choose, and a fabric of NVLinks is not taken for a network.
func TestCaveatsOfTheNet(t *testing.T) {
	tuner := &configs.Tuner{Name: "a tuner", Nodes: 3, Collectives: []string{"all_reduce"}}
	for _, tc := range []struct {
		shown configs.NCCL
		coll  nccl.Collective
		nodes int
		want  string
	}{
		{configs.NCCL{Tuner: tuner}, nccl.AllReduce, 3, "on the real cluster a tuner chooses for all_reduce"},
		{configs.NCCL{Tuner: tuner}, nccl.AllReduce, 2, ""},
		{configs.NCCL{Tuner: tuner}, nccl.AllToAll, 4, ""},
		{configs.NCCL{Net: configs.NoNet}, nccl.AllReduce, 2, "stand for NVLink"},
		{configs.NCCL{}, nccl.AllReduce, 4, ""},
	} {
		o := Options{Libraries: locate.Libraries{CUDA: locate.Soft},
			Header: Header{View: configs.FabricView}}
		o.Bench.Collective, o.Bench.Ranks, o.Config.Nodes, o.Config.NICsPerNode, o.Config.NCCL = tc.coll, tc.nodes,
			tc.nodes, 1, tc.shown
		if got := strings.Join(o.Caveats(), "; "); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

func TestJudgeRows(t *testing.T) {
	row := func(m bench.Measurement) bench.Result {
		return bench.Result{Rows: []bench.Row{{Size: 8, OutOfPlace: m}}}
	}
	for _, tc := range []struct {
		name   string
		result bench.Result
		circumstances
		reason string
		host   bool
		note   string
	}{
		{name: "as expected", result: row(bench.Measurement{Known: true, Diff: 4.9, Checked: true})},
		{name: "slow", result: row(bench.Measurement{Known: true, Diff: 5.1, Off: true}),
			reason: "limited by this host", host: true},
		{name: "slow in virtual time", result: virtual(row(bench.Measurement{Known: true, Diff: 5.1, Off: true})),
			reason: "plays another schedule than NCCL"},
		{name: "slow beside another", result: row(bench.Measurement{Known: true, Diff: 97.3, Off: true}),
			circumstances: circumstances{beside: 1},
			note:          "up to 97.3 % more than expected: the expected time is for this job alone, and 1 other job"},
		{name: "fast", result: row(bench.Measurement{Known: true, Diff: -5.1, Off: true}),
			reason: "around the emulated links"},
		{name: "fast beside another", result: row(bench.Measurement{Known: true, Diff: -5.1, Off: true}),
			circumstances: circumstances{beside: 1}, reason: "around the emulated links"},
		{name: "wrong", result: row(bench.Measurement{Checked: true, Wrong: 3}), reason: "3 wrong elements"},
		{name: "not known", result: row(bench.Measurement{Diff: 50})},
		{name: "slow after a change", result: row(bench.Measurement{Known: true, Diff: 50, Off: true}),
			circumstances: circumstances{changed: true}},
		{name: "as expected after a change", result: row(bench.Measurement{Known: true, Diff: 1}),
			circumstances: circumstances{changed: true}},
		{name: "wrong after a change", result: row(bench.Measurement{Checked: true, Wrong: 3}),
			circumstances: circumstances{changed: true}, reason: "3 wrong elements"},
	} {
		v := verdict.New(nil)
		judgeRows(&v, tc.result, tc.circumstances)
		got, notes := strings.Join(v.Reasons, ";"), strings.Join(v.Notes, ";")
		if v.Valid != (tc.reason == "") || !strings.Contains(got, tc.reason) || v.SlowHost != tc.host ||
			!strings.Contains(notes, tc.note) || (tc.note == "") != (notes == "") {
			t.Errorf("%s: %+v", tc.name, v)
		}
	}
}

// A row that is off has a cause, its place, and the ratio to the limit of 5 % and the spread.
func TestRowFindings(t *testing.T) {
	for _, tc := range []struct {
		diff    float64
		virtual bool
		cause   verdict.Cause
		figure  string
	}{
		{60, false, verdict.CauseHost, "8 bytes in place took 60.0 % more time than expected, wanted at most 6 %"},
		{60, true, verdict.CauseModel, "8 bytes in place took 60.0 % more time than expected, wanted at most 6 %"},
		{-60, false, verdict.CauseModel, "8 bytes in place took 60.0 % less time than expected, wanted at most 6 %"},
	} {
		m := bench.Measurement{InPlace: true, Known: true, Diff: tc.diff, Spread: 1, Off: true}
		f := offFinding(rowOf(bench.Row{Size: 8}, m), m, tc.virtual)
		if f.Cause != tc.cause || f.Slow != (tc.cause == verdict.CauseHost) || f.Row != "8 bytes in place" ||
			f.Over != 10 || f.Figure != tc.figure {
			t.Errorf("%+v: %+v", tc, f)
		}
	}
	v := verdict.New(nil)
	if bypass(&v, "%d connections", 3); v.Cause != verdict.CauseBypass || v.Reasons[0] != "3 connections" {
		t.Errorf("%+v", v)
	}
	for _, strict := range []bool{false, true} {
		v := verdict.New(nil)
		if (&Options{Strict: strict}).Unchecked(&v, verdict.CauseFabric,
			"changed"); (v.Cause == verdict.CauseFabric) != strict {
			t.Errorf("strict %v: %+v", strict, v)
		}
	}
}

func TestJudgeConnections(t *testing.T) {
	for _, tc := range []struct {
		result bench.Result
		valid  bool
	}{
		{bench.Result{Info: bench.Info{Topology: &nccllog.Topology{Nodes: 2}},
			Transports: map[string]int{"NET/goemu": 4, "P2P/IPC": 2}}, true},
		{bench.Result{Info: bench.Info{Topology: &nccllog.Topology{Nodes: 1}}}, false},
		{bench.Result{Transports: map[string]int{"NET/Socket": 1}}, false},
	} {
		v := verdict.New(nil)
		JudgeConnections(&v, tc.result.Info.Topology, tc.result.Transports, 2)
		if v.Valid != tc.valid {
			t.Errorf("%+v: %+v", tc.result, v)
		}
	}
}

// What could not be checked is a note, or with Strict a reason.
func TestUnchecked(t *testing.T) {
	known := bench.Measurement{Known: true}
	rows := []bench.Row{{Size: 0}, {Size: 8, OutOfPlace: known, InPlace: &known},
		{Size: 16, OutOfPlace: known, InPlace: &bench.Measurement{}}}
	for _, tc := range []struct {
		what, want string
	}{
		{withoutExpected(bench.Result{Rows: rows[:2]}, nil), ""},
		{withoutExpected(bench.Result{Rows: rows}, []string{"no rings", "no trees"}),
			"1 of 5 times have no expected time and are judged by their messages alone: no rings; no trees"},
		{withoutLog(bench.Info{Topology: &nccllog.Topology{}}), ""},
		{withoutLog(bench.Info{}),
			"the nodes that NCCL counted and its connections are not checked: NCCL's log does not tell: unset NCCL_DEBUG"},
		{withoutLog(bench.Info{LogProblem: "no ranks"}),
			"the nodes that NCCL counted and its connections are not checked: no ranks"},
	} {
		if tc.what != tc.want {
			t.Errorf("%q, want %q", tc.what, tc.want)
		}
		for _, strict := range []bool{false, true} {
			v := verdict.New(nil)
			o := Options{Strict: strict}
			o.Unchecked(&v, verdict.CauseModel, tc.what)
			said, other := v.Notes, v.Reasons
			if strict {
				said, other = other, said
			}
			if v.Valid != (tc.want == "" || !strict) || v.SlowHost || len(other) != 0 ||
				strings.Join(said, "") != tc.want {
				t.Errorf("strict %v, %q: %+v", strict, tc.what, v)
			}
		}
	}
}

func TestJudgeTraffic(t *testing.T) {
	least := map[int]job.Traffic{0: {Out: 100, In: 50}, 1: {Out: 50, In: 100}}
	for _, tc := range []struct {
		got   []job.Traffic
		valid bool
	}{
		{[]job.Traffic{{Out: 100, In: 50}, {Out: 50, In: 100}}, true},
		// LL adds flags; the last node has no ranks
		{[]job.Traffic{{Out: 200, In: 100}, {Out: 100, In: 200}, {}}, true},
		{[]job.Traffic{{Out: 99, In: 50}, {Out: 50, In: 100}}, false},
		{[]job.Traffic{{Out: 100, In: 50}, {Out: 50, In: 99}}, false},
	} {
		v := verdict.New(nil)
		JudgeTraffic(&v, least, tc.got)
		if v.Valid != tc.valid {
			t.Errorf("%+v: %+v", tc.got, v)
		}
	}
}

func TestNeededScale(t *testing.T) {
	known := func(diff float64) *bench.Measurement { return &bench.Measurement{Known: true, Diff: diff} }
	for _, tc := range []struct {
		out, in float64
		want    int
	}{
		{2, 1, 8}, {80, 90, 512}, {80, 2, 16}, {5000, 5000, 1024}, {-3, -2, 1},
	} {
		row := bench.Row{OutOfPlace: *known(tc.out), InPlace: known(tc.in)}
		if got := needed(Outcome{Scale: 16, Result: bench.Result{Rows: []bench.Row{row}}}); got != tc.want {
			t.Errorf("%.0f and %.0f %% off at 16: need %d, want %d", tc.out, tc.in, got, tc.want)
		}
	}
}

func TestRecordingPrintsInOrder(t *testing.T) {
	var now, later strings.Builder
	d := &bench.Recording{To: printer.NewCSV(&later)}
	for _, p := range []bench.Printer{printer.NewCSV(&now), d} {
		if err := errors.Join(p.Begin(bench.Header{Ranks: 2}), p.Row(bench.Row{Size: 8}),
			p.End(bench.Summary{Verdict: verdict.New(nil)})); err != nil {
			t.Fatal(err)
		}
	}
	if later.Len() != 0 {
		t.Errorf("printed before play: %q", later.String())
	}
	if err := d.Play(); err != nil || later.String() != now.String() || now.Len() == 0 {
		t.Errorf("%v: %q, want %q", err, later.String(), now.String())
	}
	if err := (*bench.Recording)(nil).Play(); err != nil {
		t.Error(err)
	}
}

// virtual is r on a virtual clock.
func virtual(r bench.Result) bench.Result {
	r.Virtual = true
	return r
}

// A job on fewer GPUs than its nodes have NICs is told how many GPUs the nodes are taken to have.
func TestCaveatsOfAJobOnSomeGPUs(t *testing.T) {
	o := Options{Libraries: locate.Libraries{CUDA: locate.Soft},
		Header: Header{View: configs.FabricView}}
	o.Bench.Ranks, o.Config.Nodes, o.Config.NICsPerNode = 2, 2, 4
	if got := strings.Join(o.Caveats(), "; "); !strings.Contains(got,
		"1 GPU of a node with 4 NICs: the node is taken to have 4 GPUs") {
		t.Errorf("%q", got)
	}
	for _, gpus := range []int{1, 8} {
		if o.Config.Node.GPUs = gpus; o.Caveats() != nil {
			t.Errorf("node.gpus %d: %q", gpus, o.Caveats())
		}
	}
}

// NCCL 2.22 avoids trees by Simple over NVLink, and 2.29 does not: a fabric whose net allows Simple alone says so.
func TestCaveatsOfSimpleAlone(t *testing.T) {
	gpu, err := configs.BuiltInGPU("h100-sxm")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		version, proto string
		want           bool
	}{{"2.22", "Simple", true}, {"2.29", "Simple", false}, {"2.22", "", false}} {
		o := Options{Libraries: locate.Libraries{CUDA: locate.Soft, Version: tc.version},
			Header: Header{View: configs.FabricView}}
		o.Bench.Ranks, o.Config.Nodes, o.Config.GPUsPerNode, o.Config.NICsPerNode = 16, 2, 8, 8
		o.Config.GPU, o.Config.NCCL.Variables = gpu, map[string]string{"NCCL_PROTO": tc.proto}
		if got := strings.Join(o.Caveats(), "; "); strings.Contains(got, "step of a tree by Simple") != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// The notes name what NCCL would use on the real GPUs of a kind.
func TestCaveatsOfAKind(t *testing.T) {
	const old, domain = "NCCL 2.22 does not know compute capability 10", "each NVLink domain has 2 nodes"
	for _, tc := range []struct {
		gpu, nccl  string
		coll       nccl.Collective
		ranks, gpn int
		nvlink     string
		want       []string
	}{
		{"h100-sxm", "2.29", nccl.AllReduce, 16, 8, "", nil},
		{"gh200", "2.29", nccl.AllReduce, 8, 4, "", nil},
		{"a100-sxm", "2.29", nccl.AllReduce, 16, 8, "", nil},
		{"b200", "2.22", nccl.AllToAll, 16, 8, "", []string{old}},
		{"gb200", "2.29", nccl.SendRecv, 8, 4, "", []string{domain}},
		{"gb200", "2.29", nccl.AllReduce, 8, 4, "", []string{domain}},
		{"gb300", "2.22", nccl.AllReduce, 4, 4, "", []string{old}},
		{"gb200", "2.29", nccl.AllReduce, 8, 4, configs.NoNVLink, nil},
		{"rtx-pro-6000", "2.29", nccl.AllReduce, 8, 8, "", nil},
	} {
		o := Options{Libraries: locate.Libraries{CUDA: locate.Soft, Version: tc.nccl},
			Header: Header{View: configs.FabricView}}
		o.Bench.Ranks, o.Bench.Collective = tc.ranks, tc.coll
		c, err := configs.Profile("ndr400")
		if err != nil {
			t.Fatal(err)
		}
		if c.GPU, err = configs.BuiltInGPU(tc.gpu); err != nil {
			t.Fatal(err)
		}
		c.GPUsPerNode, c.NVLink = tc.gpn, tc.nvlink
		o.Config = *c
		got := o.Caveats()
		for i, want := range tc.want {
			if len(got) != len(tc.want) || !strings.Contains(got[i], want) {
				t.Errorf("%+v: %q", tc, got)
				break
			}
		}
		if o.Libraries.CUDA = "gpu"; len(got) != len(tc.want) || o.Caveats() != nil {
			t.Errorf("%+v: %q, on GPUs %q", tc, got, o.Caveats())
		}
	}
}
