// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// A variable that changes what the model does not know is an error, and has no effect on other calls.
func TestRefuseVariables(t *testing.T) {
	for _, tc := range []struct {
		variable string
		d        plan.Decision
		refused  bool
	}{
		{"NCCL_NVLS_CHUNKSIZE", plan.Decision{Coll: nccl.AllReduce, Algo: plan.NVLS}, true},
		{"NCCL_NVLSTREE_MAX_CHUNKSIZE", plan.Decision{Coll: nccl.AllReduce, Algo: plan.NVLSTree}, true},
		{"NCCL_NVLS_CHUNKSIZE", plan.Decision{Coll: nccl.AllReduce, Algo: plan.Ring}, false},
		{"NCCL_P2P_NVL_CHUNKSIZE", plan.Decision{Coll: nccl.AllToAll, LocalTime: true}, true},
		{"NCCL_P2P_PCI_CHUNKSIZE", plan.Decision{Coll: nccl.SendRecv, LocalTime: true}, true},
		{"NCCL_P2P_NVL_CHUNKSIZE", plan.Decision{Coll: nccl.AllToAll}, false},
	} {
		err := refuseVariables(&tc.d, func(name string) string { return map[string]string{tc.variable: "65536"}[name] })
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), tc.variable+"=65536") {
			t.Errorf("%s for %s: %v", tc.variable, tc.d.Name(), err)
		}
	}
}

// What a kind of GPU lacks is an error, never a cost of nothing.
func TestNodesRefuse(t *testing.T) {
	for want, change := range map[string]func(c *configs.Fabric){
		"":                       func(*configs.Fabric) {},
		"it has no section time": func(c *configs.Fabric) { c.GPU.Time = nil },
		"time.net is missing":    func(c *configs.Fabric) { c.GPU.Time.Net = configs.NetTime{} },
		"time.nvls_copy and time.nvls_head are missing": func(c *configs.Fabric) {
			c.GPU.NVLink.Connection, c.NVLink = configs.MeshNVLink, configs.SwitchedNVLink
			c.GPU.Time.NVLSCopy.Rate = 0
		},
	} {
		c, err := configs.Profile("ndr400")
		if err != nil {
			t.Fatal(err)
		}
		if c.GPU, err = configs.BuiltInGPU("h100-sxm"); err != nil {
			t.Fatal(err)
		}
		c.NodeTime, c.GPUsPerNode = true, 2
		change(c)
		f, err := fabric.New(c)
		if err != nil {
			t.Fatal(err)
		}
		params, err := f.Params(1)
		if err != nil {
			t.Fatal(err)
		}
		tr := f.Transport()
		_, _, err = nodes(f, params, &tr)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}
