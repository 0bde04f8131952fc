// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// A note says that what stays within a node costs nothing.
func TestInside(t *testing.T) {
	f := play.Facts{Workload: workloadOf(t, 4), CUDA: "soft", Fabric: &fabric.Fabric{Config: configs.Default()}}
	r := &Result{Result: &play.Result{Forecast: true, Facts: f, Inside: play.Inside{Calls: 3, Bytes: 8500, Partly: 1}}}
	const want = "within nodes: 3 calls of 8.5 kB in all stay on one node, and a part of 1 other call: this takes no time here, because NVLink and PCIe are not emulated"
	if note := r.insideNote(); note != want {
		t.Errorf("%q", note)
	}
	one := &text{Result: r}
	if one.sourceNotes(); !strings.Contains(one.b.String(), want) {
		t.Errorf("%q", one.b.String())
	}
	for _, in := range []play.Inside{{}, {Partly: 2}, {Calls: 1, Bytes: 10}} {
		r.Inside = in
		t.Log(r.insideNote())
		if (r.insideNote() == "") != (in == play.Inside{}) {
			t.Errorf("%+v: %q", in, r.insideNote())
		}
	}
	if r.Facts.Fabric.Config.NodeTime = true; r.insideNote() != "" {
		t.Error("the model has the time of nodes")
	}
	r.Facts.Fabric.Config.NodeTime = false
	if r.Facts.CUDA = "gpu"; r.insideNote() != "" {
		t.Error("real GPUs carry what stays within a node")
	}
}

func TestUsualNote(t *testing.T) {
	steps := []play.Step{{Time: 900}, {Time: 100}, {Time: 200}, {Time: 30}}
	for _, tc := range []struct {
		usual play.Usual
		n     int
		mean  time.Duration
		note  string
	}{
		{play.Usual{}, 4, 307, ""},
		{play.Usual{From: 0, To: 4}, 4, 307, ""},
		{play.Usual{From: 1, To: 4}, 4, 110,
			"step 1 at the beginning (a warm-up): other calls than most steps, so the mean is of steps 2 to 4"},
		{play.Usual{From: 2, To: 3}, 4, 200,
			"steps 1 to 2 at the beginning (a warm-up) and step 4 at the end: other calls than most steps, so the mean is of step 3"},
		{play.Usual{From: 1, To: 4}, 2, 100, // interrupted
			"step 1 at the beginning (a warm-up): other calls than most steps, so the mean is of step 2"},
		{play.Usual{From: 1, To: 4}, 1, 900, ""},
	} {
		r := &Result{Result: &play.Result{Steps: steps[:tc.n], Usual: tc.usual}}
		if got := r.usualNote(); got != tc.note || r.Mean().Time != tc.mean {
			t.Errorf("%+v of %d: %q, %d, want %q, %d", tc.usual, tc.n, got, r.Mean().Time, tc.note, tc.mean)
		}
	}
}
