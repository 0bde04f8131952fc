// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/nccllog"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/state"
)

func profile(t *testing.T, name string) *configs.Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: name, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A row gets the decision for its type, operator and size. If NCCL did not run its size, it gets that for the largest
// size of its type and operator.
func TestForecastsHaveTheirDecisions(t *testing.T) {
	o := Options{Config: *profile(t, "eth1"), DecideUpTo: 1000, Bench: bench.Config{
		Collective: nccl.AllReduce, Ranks: 2, Iters: 20, Sizes: []int64{8, 512, 1002, 1 << 20},
		Types: []nccl.DataType{nccl.Half, nccl.Double}, Ops: []nccl.RedOp{nccl.Sum, nccl.Max},
	}}
	f, err := fabric.New(&o.Config)
	if err != nil {
		t.Fatal(err)
	}
	name := func(c bench.Case) string { return fmt.Sprintf("%v %v %d", c.Type, c.Op, c.Size) }
	ran := o.Bench
	ran.Sizes, ran.Iters = []int64{8, 512, 1000}, 1
	var decided []bench.Case
	for _, c := range ran.Cases() {
		c.NCCL, c.Decision = "2.22.3", &nccllog.Decision{Algo: name(c)}
		decided = append(decided, c)
	}
	rows, err := o.forecasts(context.Background(), f, decided)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s: %s", name(r.Case), r.Case.Decision.Algo))
		if r.Case.Iters != 20 || r.Case.NCCL == "" {
			t.Errorf("%+v", r.Case)
		}
	}
	var want []string
	for _, typ := range []string{"half", "double"} {
		largest := map[string]int64{"half": 1002, "double": 1000}[typ]
		for _, op := range []string{"sum", "max"} {
			for _, s := range [][2]int64{{8, 8}, {512, 512}, {largest, 1000}, {1 << 20, 1000}} {
				want = append(want, fmt.Sprintf("%s %s %d: %s %s %d", typ, op, s[0], typ, op, s[1]))
			}
		}
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	for i, c := range decided {
		others := append(append([]bench.Case{}, decided[:i]...), decided[i+1:]...)
		if _, err := o.forecasts(context.Background(), f, others); err == nil || !strings.Contains(err.Error(), "NCCL decided nothing for all_reduce of ") {
			t.Errorf("without %s: %v", name(c), err)
		}
	}
}

// shaped brings up two leaves whose nodes and trunks add time to a message, and changes their parameters.
func shaped(t *testing.T) (*state.Dir, *state.File) {
	t.Helper()
	c, err := configs.Load(configs.Source{File: "../../../configs/examples/leaf-spine.yaml", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.TimeScale, c.Endpoint = 4, configs.Endpoint{Overhead: 3 * time.Millisecond, Gap: time.Millisecond}
	c.Host.PerMessage = time.Millisecond
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := live.Spec(f, "lab")
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
	slow, far, down := 100*units.Mbps, 5*time.Millisecond, false
	for pattern, p := range map[string]configs.LinkPatch{
		"*": {Bandwidth: &slow}, "node0:*": {Latency: &far}, "leaf0:spine0": {Up: &down}, "leaf1:spine1": {Loss: &configs.Loss{P: 0.01}},
	} {
		if _, err := live.Shape(up, pattern, p); err != nil {
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
	seen, err := live.Fabric(own) // what a rank reads
	if err != nil {
		t.Fatal(err)
	}
	for n := range seen.NICs() {
		if d := cmp.Diff(asked.Props(n), seen.Props(n)); d != "" {
			t.Errorf("NIC %d: %s", n, d)
		}
	}
	if p := seen.Props(0); p.SpeedMbps != 100 || p.LatencyUs < 11000 {
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
		if s.Bandwidth != uint64(units.Unlimited) || s.Latency != 0 || s.Jitter != (link.Jitter{}) || s.Loss != (link.Loss{}) || s.Down {
			t.Errorf("%s: %+v", seen.HopName(h.Index), s)
		}
	}
	fixed := own.Fixed()
	if tr := fixed.Transport; fixed.TimeScale != 1 || tr.Overhead != 0 || tr.Gap != 0 || tr.Host.Any() {
		t.Errorf("time scale %d, %+v", fixed.TimeScale, tr)
	}
	if now, err := live.Fabric(up); err != nil || cmp.Diff(asked, now) != "" {
		t.Errorf("the fabric itself was changed: %v %s", err, cmp.Diff(asked, now))
	}
}
