// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/bench"
	"github.com/ddlemu/ddlemu/cuda/bench/nccllog"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

func TestPredict(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	c.TimeScale = 4
	o := Options{Config: *c, Bench: bench.Config{Collective: bench.AllReduce, Sizes: []int64{100 << 20}, Warmup: 1, Iters: 9, Ranks: 2}}
	// 100 MiB at 118.7 MB/s, 10 times in place and 10 times out of place, 4 times slower.
	want := 100 * float64(1<<20) / 118.66e6 * 20 * 4
	if got := o.predict().Seconds(); got < want*0.99 || got > want*1.01 {
		t.Errorf("predicted %.1f s, want %.1f", got, want)
	}
}

func TestTooLongIsRefused(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Config: *c, Bench: bench.Config{Collective: bench.AllReduce, Sizes: []int64{1 << 30}, Iters: 20, Ranks: 2},
		Scale: func(context.Context) (int, string, error) { return 64, "", nil },
	}
	var tooLong *TooLongError
	if _, err := Run(t.Context(), o); !errors.As(err, &tooLong) || tooLong.Scale != 64 || tooLong.Time < time.Hour {
		t.Errorf("20 GiB over 1 Gb/s at scale 64: %v", err)
	}
}

func TestJudgeRows(t *testing.T) {
	row := func(m bench.Measurement) bench.Result {
		return bench.Result{Rows: []bench.Row{{Size: 8, OutOfPlace: m}}}
	}
	for _, tc := range []struct {
		name   string
		result bench.Result
		reason string
		host   bool
	}{
		{"as expected", row(bench.Measurement{Known: true, Diff: 4.9, Checked: true}), "", false},
		{"slow", row(bench.Measurement{Known: true, Diff: 5.1, Off: true}), "bound by this host", true},
		{"fast", row(bench.Measurement{Known: true, Diff: -5.1, Off: true}), "around the emulated links", false},
		{"wrong", row(bench.Measurement{Checked: true, Wrong: 3}), "3 wrong elements", false},
		{"not known", row(bench.Measurement{Diff: 50}), "", false},
	} {
		v := verdict.Verdict{Valid: true, Word: "VALID"}
		judgeRows(&v, tc.result)
		got := strings.Join(v.Reasons, ";")
		if v.Valid != (tc.reason == "") || !strings.Contains(got, tc.reason) || v.Host != tc.host {
			t.Errorf("%s: %+v", tc.name, v)
		}
	}
}

func TestJudgeWay(t *testing.T) {
	for _, tc := range []struct {
		result bench.Result
		valid  bool
	}{
		{bench.Result{Info: bench.Info{Topology: &nccllog.Topology{Nodes: 2}}, Transports: map[string]int{"NET/goemu": 4, "P2P/IPC": 2}}, true},
		{bench.Result{Info: bench.Info{Topology: &nccllog.Topology{Nodes: 1}}}, false},
		{bench.Result{Transports: map[string]int{"NET/Socket": 1}}, false},
	} {
		v := verdict.Verdict{Valid: true}
		judgeWay(&v, tc.result, 2)
		if v.Valid != tc.valid {
			t.Errorf("%+v: %+v", tc.result, v)
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
		{[]job.Traffic{{Out: 200, In: 100}, {Out: 100, In: 200}, {}}, true}, // LL's flags; a node without ranks
		{[]job.Traffic{{Out: 99, In: 50}, {Out: 50, In: 100}}, false},
		{[]job.Traffic{{Out: 100, In: 50}, {Out: 50, In: 99}}, false},
	} {
		v := verdict.Verdict{Valid: true}
		judgeTraffic(&v, least, tc.got)
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

func TestDeferredPrintsInOrder(t *testing.T) {
	var now, later strings.Builder
	d := &deferred{to: bench.NewCSV(&later)}
	for _, p := range []bench.Printer{bench.NewCSV(&now), d} {
		if err := errors.Join(p.Begin(bench.Header{Ranks: 2}), p.Row(bench.Row{Size: 8}), p.End(bench.Summary{Verdict: "VALID"})); err != nil {
			t.Fatal(err)
		}
	}
	if later.Len() != 0 {
		t.Errorf("printed before play: %q", later.String())
	}
	if err := d.play(); err != nil || later.String() != now.String() || now.Len() == 0 {
		t.Errorf("%v: %q, want %q", err, later.String(), now.String())
	}
	if err := (*deferred)(nil).play(); err != nil {
		t.Error(err)
	}
}
