// SPDX-License-Identifier: Apache-2.0

package bringup

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// What the kernel datapath has not is refused before anything else is looked at, with
// root or without.
func TestPrepareRefuses(t *testing.T) {
	c, err := configs.Load(configs.Source{File: "../../../configs/examples/leaf-spine.yaml", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.Datapath = configs.Kernel
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	const says = "topology: leaf-spine: the kernel datapath has the topology star only"
	if err := Prepare(fab); !configs.IsUserError(err) || !strings.HasPrefix(err.Error(), says) {
		t.Errorf("got %v, want %s", err, says)
	}
}
