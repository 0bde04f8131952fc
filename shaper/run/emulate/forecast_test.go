// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// A forecast that is interrupted has the calls that are done, in their order, and the error.
func TestForecastsAreInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o, f := onEth1(t)
	o.Progress = func(string, time.Duration) { cancel() }
	asked := bench.Config{Collective: nccl.AllReduce, Ranks: 2, Iters: 1, Ops: []nccl.RedOp{nccl.Sum}}
	for size := int64(8); size < 8<<40; size *= 2 {
		asked.Sizes = append(asked.Sizes, size)
	}
	decided := asked.Cases()
	rows, err := o.forecasts(ctx, f, decided)
	if !errors.Is(err, context.Canceled) || len(rows) == 0 || len(rows) == len(decided) {
		t.Fatalf("%d of %d rows, %v", len(rows), len(decided), err)
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].Case.Size <= rows[i-1].Case.Size {
			t.Errorf("row %d has size %d after %d", i, rows[i].Case.Size, rows[i-1].Case.Size)
		}
	}
}

// onEth1 are 20 iterations on the profile eth1, with its fabric.
func onEth1(t *testing.T) (Options, *fabric.Fabric) {
	t.Helper()
	o := Options{Config: *profile(t, "eth1"), Bench: bench.Config{Iters: 20}}
	f, err := fabric.New(&o.Config)
	if err != nil {
		t.Fatal(err)
	}
	return o, f
}

func profile(t *testing.T, name string) *configs.Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: name, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every call keeps its decision. The model plays as many iterations as are asked for.
func TestForecastsHaveTheirDecisions(t *testing.T) {
	o, f := onEth1(t)
	asked := bench.Config{Collective: nccl.AllReduce, Ranks: 2, Iters: 1, Sizes: []int64{8, 1 << 20},
		Ops: []nccl.RedOp{nccl.Sum, nccl.Max}}
	var decided []bench.Case
	for i, c := range asked.Cases() {
		c.NCCL, c.Decision = "2.22.3", &nccllog.Decision{Algo: fmt.Sprint(i)}
		decided = append(decided, c)
	}
	rows, err := o.forecasts(context.Background(), f, decided)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, r := range rows {
		want := decided[i]
		want.Iters = 20
		if d := cmp.Diff(want, r.Case); d != "" {
			t.Errorf("call %d: %s", i, d)
		}
	}
}

// bringUp brings up the fabric "lab".
func bringUp(t *testing.T, c *configs.Fabric) (*state.Dir, *state.File) {
	t.Helper()
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := fabricfile.Describe(f, "lab")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := state.OpenDir(filepath.Join(t.TempDir(), "fabrics"), os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	up, err := dir.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { up.Close() })
	return dir, up
}

// shaped brings up two leaves whose nodes and trunks add time to a message, and changes their parameters.
func shaped(t *testing.T) (*state.Dir, *state.File) {
	t.Helper()
	c, err := configs.Load(configs.Source{File: "../../../configs/examples/leaf-spine.yaml",
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.TimeScale, c.Endpoint = 4, configs.Endpoint{Overhead: 3 * time.Millisecond, Gap: time.Millisecond}
	c.Host.PerMessage = time.Millisecond
	dir, up := bringUp(t, c)
	slow, far, down := 100*units.Mbps, 5*time.Millisecond, false
	for pattern, p := range map[string]configs.LinkPatch{
		"*": {Bandwidth: &slow}, "node0:*": {Latency: &far}, "leaf0:spine0": {Up: &down},
		"leaf1:spine1": {Loss: &configs.Loss{P: 0.01}},
	} {
		if _, err := fabricfile.Shape(up, pattern, p); err != nil {
			t.Fatal(err)
		}
	}
	return dir, up
}

// NCCL reads the present parameters of a fabric that is up. The messages for its decisions take no time. The fabric is
// not changed.
func TestPrivateFabricIsUnlimited(t *testing.T) {
	dir, up := shaped(t)
	o := Options{Dir: dir, Shared: "lab", Bench: bench.Config{Ranks: 8}}
	asked, err := o.askedFabric()
	if err != nil {
		t.Fatal(err)
	}
	j, err := job.StartFree(t.Context(), dir, o.privateCopy(asked), "bench")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	own, err := dir.Open(j.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	seen, err := fabricfile.Read(own) // what a rank reads
	if err != nil {
		t.Fatal(err)
	}
	shown := func(f *fabric.Fabric, n int) fabric.NICProps { // with the latency of the links
		g := *f
		g.Config.NCCL.Latency.OfLink = true
		return g.Props(n)
	}
	for n := range seen.NICs() {
		if d := cmp.Diff(shown(asked, n), shown(seen, n)); d != "" {
			t.Errorf("NIC %d: %s", n, d)
		}
	}
	if p := shown(seen, 0); p.SpeedMbps != 100 || p.LatencyUs < 11000 {
		t.Errorf("node0 with 100 Mb/s, 5 ms and twice 3 ms: %+v", p)
	}
	if d := cmp.Diff(asked.Hops, seen.Hops); d != "" {
		t.Error(d)
	}
	if err := j.RemoveLimits(); err != nil {
		t.Fatal(err)
	}
	for _, h := range own.Hops() {
		s := h.Spec
		if s.Bandwidth != uint64(units.Unlimited) || s.Latency != 0 || s.Jitter != (link.Jitter{}) ||
			s.Loss != (link.Loss{}) || s.Down {
			t.Errorf("%s: %+v", seen.HopName(h.Index), s)
		}
	}
	fixed := own.Fixed()
	if tr := fixed.Transport; fixed.TimeScale != 1 || tr.Overhead != 0 || tr.Gap != 0 || tr.Host.Any() {
		t.Errorf("time scale %d, %+v", fixed.TimeScale, tr)
	}
	if now, err := fabricfile.Read(up); err != nil || cmp.Diff(asked, now) != "" {
		t.Errorf("the fabric itself was changed: %v %s", err, cmp.Diff(asked, now))
	}
}

// Whether nodes cost time is for the command, whatever the file of a fabric that is up says.
func TestNodeTimeOfSharedFabric(t *testing.T) {
	dir, _ := bringUp(t, profile(t, "hgx-h100-ndr400"))
	for _, want := range []bool{false, true} {
		o := Options{Dir: dir, Shared: "lab", Config: configs.Fabric{NodeTime: want}}
		asked, err := o.askedFabric()
		if err != nil {
			t.Fatal(err)
		}
		j, err := o.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := j.Fabric.Config; got.NodeTime != want || asked.Config.NodeTime != want || got.GPUName() != "h100-sxm" {
			t.Errorf("want %v: started %v, asked %v, GPU %s", want, got.NodeTime, asked.Config.NodeTime, got.GPUName())
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}
