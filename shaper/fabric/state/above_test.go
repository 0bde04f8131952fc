// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

func init() {
	state.ThreeNodes = func(t testing.TB) state.Spec {
		c, err := configs.Decode("test.yaml", []byte(statetest.FabricText))
		if err != nil {
			t.Fatal(err)
		}
		return spec(t, c)
	}
	state.UseAbove = func(f *state.File) {
		fab, err := fabricfile.Read(f)
		if err != nil {
			return
		}
		for i := range fab.Hops {
			fab.HopName(i)
		}
		latency := time.Millisecond
		_, _ = fab.Shape("*", configs.LinkPatch{Latency: &latency})
	}
}

func spec(t testing.TB, c *configs.Fabric) state.Spec {
	t.Helper()
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fabricfile.Describe(fab, "t")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A file says what the profile has that it was made from.
func TestProfileFiles(t *testing.T) {
	check := func(s state.Spec) { state.CheckFile(t, statetest.Of(t, s), s) }
	check(state.ThreeNodes(t))
	for _, profile := range []string{"eth1", "ndr400", "wan-region", "loopback", "efa-p5",
		"../../../configs/examples/leaf-spine.yaml", "../../../configs/examples/custom.yaml"} {
		c, err := configs.Load(configs.Source{Profile: profile, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		check(spec(t, c))
	}
}
