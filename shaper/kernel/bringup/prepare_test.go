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
	for _, tc := range []struct {
		file   string
		change func(*configs.Fabric)
		says   string
	}{
		{"../../../configs/examples/leaf-spine.yaml", func(*configs.Fabric) {}, "topology: leaf-spine: the kernel datapath has the topology star only"},
		{"../../../configs/examples/two-nodes.yaml", func(c *configs.Fabric) { c.Link.Queue.Policy = configs.Fair }, "queue: node0 rx has the policy fair: the kernel datapath has lossless and taildrop"},
	} {
		c, err := configs.Load(configs.Source{File: tc.file, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		c.Datapath = configs.Kernel
		tc.change(c)
		fab, err := fabric.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := Prepare(fab); !configs.IsUserError(err) || !strings.HasPrefix(err.Error(), tc.says) {
			t.Errorf("got %v, want %s", err, tc.says)
		}
	}
}
