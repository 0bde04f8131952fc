// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// The header of a fabric that is up says what up and shape have changed of the profile.
func TestInForce(t *testing.T) {
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = 3
	check := func(fab *Fabric, want string) {
		t.Helper()
		if in, err := fab.InForce(); err != nil || in.Changes() != want {
			t.Errorf("%q, %v, want %q", in.Changes(), err, want)
		}
	}
	fab, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	check(fab, "")
	loss, rate := configs.Loss{P: 0.1}, configs.LinkPatch{}
	for _, m := range configs.LinkParams() {
		if m.Flag == "bw" {
			if err := m.Set(&rate, "1G"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := fab.Shape("node0>node1", configs.LinkPatch{Loss: &loss}); err != nil {
		t.Fatal(err)
	}
	check(fab, "1 link changed by ddlemu shape")
	if _, err := fab.Shape("*", configs.LinkPatch{Loss: &loss}); err != nil { // all links alike: that is in force
		t.Fatal(err)
	}
	check(fab, "ndr400 with loss 10% (none)")
	if _, err := fab.Shape("node0>node1", rate); err != nil {
		t.Fatal(err)
	}
	check(fab, "6 links changed by ddlemu shape")
	c.Link.Loss = loss
	if fab, err = New(c); err != nil {
		t.Fatal(err)
	}
	check(fab, "ndr400 with loss 10% (none)")
	c.Name = "mine" // no profile: its own values are the ones it is compared with
	if fab, err = New(c); err != nil {
		t.Fatal(err)
	}
	check(fab, "")
	if in, _ := fab.InForce(); !strings.HasPrefix(in.Text, "mine: bandwidth 400Gbps, ") {
		t.Errorf("%q", in.Text)
	}
}

// Links between switches that ddlemu shape has changed are counted beside the links that are alike.
func TestInForceOfTrunks(t *testing.T) {
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Topology = 4, configs.Topology{Kind: "leaf-spine", Leaves: 2, Spines: 2,
		Trunk: configs.LinkPatch{Latency: &c.Link.Latency}}
	c.Links = []configs.LinkOverride{{Match: "leaf1:spine0", LinkPatch: configs.LinkPatch{Latency: new(time.Millisecond)}},
		{Match: "*", LinkPatch: configs.LinkPatch{Loss: &configs.Loss{P: 0.1}}}}
	fab, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fab.Shape("leaf0:spine1", configs.LinkPatch{Up: new(bool)}); err != nil {
		t.Fatal(err)
	}
	in, err := fab.InForce()
	want := "ndr400 with loss 10% (none), topology leaf-spine (star); 2 links changed by ddlemu shape"
	if text := "trunks 400Gbps 1.2µs to 1ms, 1:1"; !strings.Contains(in.Text, text) {
		t.Errorf("%q lacks %q", in.Text, text)
	}
	if in.Listed != 1 {
		t.Errorf("%d overrides are listed, want that of the links between switches", in.Listed)
	}
	if err != nil || in.Changes() != want {
		t.Errorf("%q, %v, want %q", in.Changes(), err, want)
	}
}

// The header has the trunks that are in force, which `ddlemu shape` of the links between NICs does not change.
func TestInForceOfShapedTrunks(t *testing.T) {
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	latency, slow, slower := 600*time.Nanosecond, 100*units.Gbps, 10*units.Gbps
	c.Nodes, c.Topology = 4, configs.Topology{Kind: "leaf-spine", Leaves: 2, Spines: 2, Oversubscription: 4,
		Trunk: configs.LinkPatch{Latency: &latency}}
	fab, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		match     string
		bandwidth *units.Bandwidth
		want      string
	}{
		{"", nil, "trunks 100Gbps 600ns, 4:1"},
		{"*", &slow, "trunks 100Gbps 600ns, 1:1"}, // that of NICs at 100 Gb/s
		{"leaf0>spine1", &slower, "trunks 10Gbps to 100Gbps 600ns"},
	} {
		if tc.match != "" {
			if _, err := fab.Shape(tc.match, configs.LinkPatch{Bandwidth: tc.bandwidth}); err != nil {
				t.Fatal(err)
			}
		}
		in, err := fab.InForce()
		if err != nil || in.Trunks == nil || in.Trunks.Text() != strings.TrimPrefix(tc.want, "trunks ") ||
			!strings.Contains(in.Text, tc.want) || in.Trunks.Links != 8 {
			t.Errorf("%s: %q with %+v, %v, want %q", tc.match, in.Text, in.Trunks, err, tc.want)
		}
	}
}
