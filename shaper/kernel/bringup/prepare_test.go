// SPDX-License-Identifier: Apache-2.0

package bringup

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Switches are refused before anything else is looked at, with root or without.
func TestPrepareRefusesSwitches(t *testing.T) {
	c, err := configs.Load(configs.Source{File: "../../../configs/examples/leaf-spine.yaml", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.Datapath = configs.Kernel
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := Prepare(fab); !configs.IsUserError(err) || !strings.HasPrefix(err.Error(), "topology: leaf-spine: the kernel datapath has the topology star only") {
		t.Errorf("got %v", err)
	}
}
