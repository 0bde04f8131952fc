// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// The header of a job on the kernel datapath that has no NCCL says nothing of NCCL's decisions and of GPUs.
func TestHeaderOfTraffic(t *testing.T) {
	c := configs.Default()
	for name, tc := range map[string]struct {
		allBytes bool
		want     string
	}{
		"ranks": {false, "fabric: eth1 with loss 10 %\ndecisions: fabric view, as for A100, net ib\n" +
			"GPU time: none (add --gpu KIND --set node_time=on)\n"},
		"traffic": {true, "fabric: eth1 with loss 10 %\ntraffic: all packets on the fabric: no rank loaded the plugin\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := runOptions{Soft: true, inForce: configs.InForce{Text: "eth1 with loss 10 %",
				GPUTime: "none (add --gpu KIND --set node_time=on)"}}
			o.printHeader(&cli.Global{Stderr: &out}, &c, configs.FabricView, configs.ClockSettings{}, tc.allBytes)
			if out.String() != tc.want {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}

// Several GPUs and NICs of a node without NVLinks are noted, also if the job's ranks will say how many GPUs there are.
func TestNoNVLinkIsNoted(t *testing.T) {
	const note = "nvlinks_per_gpu is 0: where nodes have NVLink, NCCL may use more of their 2 NICs at once"
	for _, tc := range []struct {
		name                string
		nics, gpus, nvlinks int
		file                string
		want                bool
	}{
		{"GPUs not given", 2, 0, 0, "", true},
		{"several GPUs", 2, 4, 0, "", true},
		{"one GPU", 2, 1, 0, "", false},
		{"one NIC", 1, 4, 0, "", false},
		{"NVLinks", 2, 4, 12, "", false},
		{"the user's topology", 2, 4, 0, "topo.xml", false},
	} {
		c := configs.Default()
		c.NICsPerNode, c.GPUsPerNode, c.NVLinksPerGPU = tc.nics, tc.gpus, tc.nvlinks
		o := runOptions{Soft: true, topology: cli.UsersTopology{File: tc.file}}
		if got := o.noNVLink(&c, configs.FabricView); len(got) > 1 || slices.Contains(got, note) != tc.want {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}

// A command that fails is not VALID, also if no counter says that a rank died.
func TestJudgeStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		exits  []int
		valid  bool
	}{{0, nil, true}, {1, nil, false}, {143, nil, false}, {1, []int{0}, true}} {
		v := verdict.New(nil)
		if judgeStatus(&v, c.status, c.exits); v.Valid != c.valid || !c.valid && v.Cause != verdict.CauseJob {
			t.Errorf("status %d, expected exits %v: %+v", c.status, c.exits, v)
		}
	}
}

func TestDeviceCount(t *testing.T) {
	torchrun := []string{"torchrun", "--nproc-per-node", "2", "train.py"}
	for _, tc := range []struct {
		name      string
		cuda      bool
		gpus      int // of a node of the fabric
		args      []string
		set, want string
	}{
		{"not for CUDA", false, 4, torchrun, "", ""},
		{"the fabric's", true, 4, torchrun, "", "DDLEMU_SOFT_GPUS=4"},
		{"torchrun's", true, 0, torchrun, "", "DDLEMU_SOFT_GPUS=2"},
		{"the user's", true, 4, torchrun, "8", ""},
		{"not known", true, 0, []string{"python3", "train.py"}, "", ""},
	} {
		o := runOptions{CUDA: tc.cuda}
		getenv := func(name string) string { return map[string]string{softGPUsEnv: tc.set}[name] }
		got := strings.Join(o.deviceCount(&configs.Fabric{GPUsPerNode: tc.gpus}, tc.args, getenv), " ")
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
