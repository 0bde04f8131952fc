// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// The header of a fabric that is up says what up and shape have changed of the profile.
func TestInForceOfShared(t *testing.T) {
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = 3
	check := func(fab *fabric.Fabric, want string) {
		t.Helper()
		if got, err := InForceOfShared(fab); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	check(fab, "")
	loss := configs.Loss{P: 0.1}
	if _, err := fab.Shape("node0>node1", configs.LinkPatch{Loss: &loss}); err != nil {
		t.Fatal(err)
	}
	check(fab, "1 link changed by ddlemu shape (see `ddlemu status`)")
	c.Link.Loss = loss
	if fab, err = fabric.New(c); err != nil {
		t.Fatal(err)
	}
	check(fab, "ndr400 with loss 10% (none)")
}
