// SPDX-License-Identifier: Apache-2.0

package fabricfile_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// testFabric is the fabric of a profile or file, of statetest.FabricText for "".
func testFabric(t testing.TB, profile string) *fabric.Fabric {
	t.Helper()
	c, err := configs.Decode("test.yaml", []byte(statetest.FabricText))
	if profile != "" {
		c, err = configs.Load(configs.Source{Profile: profile, Getenv: func(string) string { return "" }})
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A fabric that is up reads back as it was made, and again from a file opened anew.
func TestFabricReadsBack(t *testing.T) {
	for _, profile := range []string{"", "eth1", "ndr400", "wan-region", "loopback", "efa-p5",
		"../../../configs/examples/leaf-spine.yaml", "../../../configs/examples/custom.yaml"} {
		t.Run(profile, func(t *testing.T) {
			fab := testFabric(t, profile)
			made := statetest.New(t, fab, "t")
			dir, err := state.OpenDir(made.Dir(), os.Getuid(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			opened, err := dir.Open("t")
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			for _, f := range []*state.File{made, opened} {
				got, err := fabricfile.Read(f)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(fab, got); diff != "" {
					t.Errorf("read back: %s", diff)
				}
				if f.Profile() != fab.Config.Name {
					t.Errorf("profile %q", f.Profile())
				}
			}
		})
	}
}

// A description that does not match the file's hops is refused as a whole.
func TestFabricRefusesAnotherDescription(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *state.Spec)
		want   string
	}{
		"no text": {func(s *state.Spec) { s.Config = []byte("{") }, "read back fabric t: fabric t:"},
		"other nodes": {func(s *state.Spec) {
			s.Config = []byte(strings.Replace(statetest.FabricText, "nodes: 3", "nodes: 4", 1))
		}, "read back fabric t: not usable: it has 36 hops, its description 64"},
		"other hops": {func(s *state.Spec) { s.Hops[0].Kind = link.RxPort },
			"read back fabric t: not usable: hop 0 is not the one of its description"},
		"other ends": {func(s *state.Spec) { s.Hops[20].Dst = 1 },
			"read back fabric t: not usable: hop 20 is not the one of its description"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := fabricfile.Describe(testFabric(t, ""), "t")
			if err != nil {
				t.Fatal(err)
			}
			tc.change(&s)
			f := statetest.Of(t, s)
			_, readErr := fabricfile.Read(f)
			_, shapeErr := fabricfile.Shape(f, "*", configs.LinkPatch{})
			for _, err := range []error{readErr, shapeErr} {
				if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one line that begins with %q", err, tc.want)
				}
			}
		})
	}
}

func TestShape(t *testing.T) {
	f := statetest.New(t, testFabric(t, ""), "t")
	rate, latency := units.Bandwidth(3e9), 7*time.Millisecond
	changed, err := fabricfile.Shape(f, "node0:node1", configs.LinkPatch{Bandwidth: &rate})
	if err != nil || len(changed) != 8 {
		t.Fatalf("changed %v, %v, want the 8 links between 2 NICs each", changed, err)
	}
	if again, err := fabricfile.Shape(f, "node0:node1", configs.LinkPatch{Bandwidth: &rate}); err != nil ||
		len(again) != 0 {
		t.Errorf("the same again changed %v, %v", again, err)
	}
	if _, err := fabricfile.Shape(f, "node0>node1", configs.LinkPatch{Latency: &latency}); err != nil {
		t.Fatal(err)
	}
	fab, err := fabricfile.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range changed {
		h := fab.Hops[i]
		want := time.Millisecond
		if fab.NodeOfNIC(h.Src) == 0 {
			want = latency
		}
		if h.Spec.Bandwidth != uint64(rate) || h.Spec.Latency != want {
			t.Errorf("%s is %+v", fab.HopName(i), h.Spec)
		}
	}
}

// A change that is refused leaves every hop as it was.
func TestShapeRefuses(t *testing.T) {
	f := statetest.New(t, testFabric(t, ""), "t")
	rate, tooFast, no := units.Bandwidth(3e9), units.Bandwidth(1e15), errors.New("no")
	before := f.Hops()
	for _, pattern := range []string{"node9", "nonsense", "node0:node0"} {
		if _, err := fabricfile.Shape(f, pattern, configs.LinkPatch{Bandwidth: &rate}); !configs.IsUserError(err) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if _, err := fabricfile.Shape(f, "*", configs.LinkPatch{Bandwidth: &tooFast}); !configs.IsUserError(err) {
		t.Error(err)
	}
	if _, err := fabricfile.ShapeIf(f, "*", configs.LinkPatch{Bandwidth: &rate},
		func(link.Spec) error { return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	for i, h := range f.Hops() {
		if h != before[i] {
			t.Errorf("hop %d was changed by a refused shape", i)
		}
	}
}

// Shapes at the same time, of different parameters, all last.
func TestShapesAtOnce(t *testing.T) {
	f := statetest.New(t, testFabric(t, ""), "t")
	for i := range 20 {
		rate, latency, mtu := units.Bandwidth(i+1)*1e9, time.Duration(i)*time.Millisecond, 1500+i
		var wg sync.WaitGroup
		for _, p := range []configs.LinkPatch{{Bandwidth: &rate}, {Latency: &latency}, {MTU: &mtu}} {
			wg.Go(func() {
				if _, err := fabricfile.Shape(f, "node0.nic0>node1.nic0", p); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		fab, err := fabricfile.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := fab.Hops[fab.Link(0, 2)].Spec; got.Bandwidth != uint64(rate) || got.Latency != latency ||
			got.MTU != uint32(mtu) {
			t.Fatalf("round %d: the link is %+v", i, got)
		}
	}
}

// The time of a fabric begins with it, whatever its clock shows, and is that of the emulated network.
func TestTime(t *testing.T) {
	fab := testFabric(t, "eth1")
	fab.Config.Clock = configs.VirtualClock
	virtual := statetest.New(t, fab, "virtual")
	if got := fabricfile.Time(virtual); got != 0 {
		t.Errorf("a virtual clock that has not run shows %v", got)
	}
	slow := testFabric(t, "") // at time scale 4
	real := statetest.New(t, slow, "real")
	time.Sleep(8 * time.Millisecond)
	got := fabricfile.Time(real)
	if up := time.Duration(state.Now() - real.Fixed().Created); got < 2*time.Millisecond || got > up/4 {
		t.Errorf("after %v: %v", up, got)
	}
}
