// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// openVirtual makes a fabric with a virtual clock from a profile.
func openVirtual(t *testing.T, profile string, nodes int, change func(*configs.Fabric)) *state.File {
	t.Helper()
	c, err := configs.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Clock = nodes, configs.VirtualClock
	if change != nil {
		change(c)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return statetest.New(t, fab, "virtual")
}

// measure measures a fabric as `ddlemu verify` does. meanwhile, if it is not nil, is called after
// the model was made.
func measure(t *testing.T, file *state.File, meanwhile func()) *verify.Report {
	t.Helper()
	model, err := verify.NewModel(file)
	if err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		meanwhile()
	}
	fab, err := fabric.New(decoded(t, file))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Join(file, fab)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := verify.Measure(t.Context(), model, w, verify.Options{Time: verify.VirtualTime})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decoded(t *testing.T, file *state.File) *configs.Fabric {
	t.Helper()
	c, err := configs.Decode("test", file.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// On a virtual clock every message of a measurement is visible at the model's time: whatever the
// links draw, and however flows share them.
func TestEveryMessageIsAtTheModelsTime(t *testing.T) {
	queue := func(policy string) func(*configs.Fabric) {
		return func(c *configs.Fabric) {
			c.Link.Queue = configs.Queue{Policy: policy, Bytes: 256 * units.KiB}
			late := time.Microsecond
			c.Topology = configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Oversubscription: 2}
			c.Topology.Trunk.Latency = &late
		}
	}
	for _, tc := range []struct {
		name, profile string
		nodes         int
		change        func(*configs.Fabric)
	}{
		{"jitter", "ndr400", 4, nil},
		{"hosts", "t4-efa", 3, nil},
		{"tcp", "eth25-tcp", 3, nil},
		{"loss", "wan-metro", 3, nil},
		{"bursts", "roce100", 2, func(c *configs.Fabric) {
			c.Link.Loss = configs.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}
			c.Transport.RTO = time.Millisecond
		}},
		{"reorder", "roce100", 2,
			func(c *configs.Fabric) { c.Link.Reorder = configs.Reorder{Share: 0.01, Early: 5 * time.Microsecond} }},
		{"leaf-spine", "eth10", 4, queue(configs.Lossless)},
		{"fair", "eth10", 4, queue(configs.Fair)},
		{"tail drop", "eth25-tcp", 4, queue(configs.TailDrop)},
		{"two NICs", "efa-p5", 2, func(c *configs.Fabric) { c.NICsPerNode = 2 }},
		{"no limits", "loopback", 2, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := measure(t, openVirtual(t, tc.profile, tc.nodes, tc.change), nil)
			if r.Verdict != "VALID" || r.Clock != configs.VirtualClock {
				t.Errorf("%s on the %s clock: %q", r.Verdict, r.Clock, r.Reasons)
			}
			if e := r.Exact; e.Off != 0 || e.Messages < 1000 {
				t.Errorf("%d of %d messages at another time, by up to %v us", e.Off, e.Messages, e.Worst)
			}
		})
	}
}

// A fabric that is not the one asked for is INVALID.
func TestAnotherFabricThanAskedFor(t *testing.T) {
	file := openVirtual(t, "eth10", 2, nil)
	r := measure(t, file, func() {
		spec := file.Hops()[0].Spec
		spec.Latency++
		if err := file.Change(map[int]link.Spec{0: spec}); err != nil {
			t.Fatal(err)
		}
	})
	if r.Verdict != "INVALID" || r.Exact.Off == 0 ||
		!strings.Contains(strings.Join(r.Reasons, "\n"), "not visible at the model's time") {
		t.Errorf("%s, %+v, %q", r.Verdict, r.Exact, r.Reasons)
	}
}
