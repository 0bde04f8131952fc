// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
)

// The header of a job on the kernel datapath that has no NCCL says nothing of NCCL's decisions and of GPUs.
func TestHeaderOfTraffic(t *testing.T) {
	c := configs.Default()
	for name, tc := range map[string]struct {
		allBytes bool
		want     string
	}{
		"ranks": {false, "fabric: eth1 with loss 10 %\ndecisions: fabric view, as for A100, net ib\n" +
			"GPU time: none (add --gpu)\n"},
		"traffic": {true, "fabric: eth1 with loss 10 %\ntraffic: all packets on the fabric: no rank loaded the plugin\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := runOptions{Soft: true, inForce: configs.InForce{Text: "eth1 with loss 10 %",
				GPUTime: "none (add --gpu)"}}
			o.printHeader(&cli.Global{Stderr: &out}, &c, configs.FabricView, configs.ClockSettings{}, tc.allBytes)
			if out.String() != tc.want {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}
