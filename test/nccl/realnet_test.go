// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/nccl-plugin/view"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// What the real net of each profile tells NCCL, written down here a second time: latency in us, speed in Mb/s, port,
// regIsGlobal, maxRecvs. NET/IB: src/transport/net_ib.cc, NET/Socket: src/transport/net_socket.cc of NCCL 2.22.3;
// aws-ofi-nccl: src/platform-aws.cpp, src/nccl_ofi_net.cpp and src/nccl_ofi_sendrecv.cpp.
var realNets = map[string]string{
	"dgx-a100-nvlink": "0,1879200,1,1,8",
	"efa-p4d":         "75,100000,1,1,1",
	"efa-p5":          "75,400000,1,1,8",
	"efa-p6":          "35,400000,1,1,8",
	"eth1":            "0,1000,0,0,1",
	"eth10":           "0,10000,0,0,1",
	"eth25-tcp":       "0,25000,0,0,1",
	"hdr200":          "0,200000,1,1,8",
	"loopback":        "0,400000,1,1,8",
	"ndr400":          "0,400000,1,1,8",
	"roce100":         "0,100000,1,1,8",
	"roce400":         "0,400000,1,1,8",
	"ss11-200":        "0,200000,1,1,8",
	"t4-efa":          "75,25000,1,1,1",
	"tcpxo":           "0,200000,1,1,8", // of FasTrak nothing is published: that of NET/IB
	"wan-continent":   "0,10000,0,0,1",
	"wan-metro":       "0,10000,0,0,1",
	"wan-region":      "0,10000,0,0,1",
	"xdr800":          "0,800000,1,1,8",
}

// A row of the tables that NCCL writes to its log when it starts, with its latency and bandwidth of each algorithm and
// protocol. NCCL's choice for each size follows from them.
var tuningRow = regexp.MustCompile(
	`NCCL INFO +((?:Broadcast|Reduce|AllGather|ReduceScatter|AllReduce|Algorithm|Protocol|Max NThreads) +\|.*)`)

// NCCL with the plugin's topology file chooses what it chooses with the same topology, if the NICs tell it what the
// real net would.
func TestNCCLChoosesAsWithTheRealNet(t *testing.T) {
	t.Parallel()
	preload := "LD_PRELOAD=" + library(t, "librealnet.so", "testdata/realnet.c")
	for _, profile := range configs.ProfileNames() {
		if profile == "ndv4" {
			continue // its two NICs have unlike speeds, and no net of NCCL shows it
		}
		values, known := realNets[profile]
		if !known {
			t.Errorf("%s: write down what its real net tells NCCL", profile)
			continue
		}
		topology := "NCCL_TOPO_FILE=" + withoutNet(t, profile)
		for _, version := range []string{"2.22", "2.29"} {
			got := tuning(t, nil, profile, version)
			want := tuning(t, []string{preload, topology, "REALNET=" + values}, profile, version)
			if d := cmp.Diff(want, got); d != "" || len(got) == 0 {
				t.Errorf("%s, NCCL %s, %d lines (-real net +plugin):\n%s", profile, version, len(got), d)
			}
		}
	}
	// A net that knows its line of 500 us gives other tables: those that --set nccl.latency=link gives.
	const profile, version = "wan-metro", "2.22"
	knows := tuning(t, []string{preload, "NCCL_TOPO_FILE=" + withoutNet(t, profile), "REALNET=500,10000,0,0,1"},
		profile, version)
	if d := cmp.Diff(knows, tuning(t, nil, profile, version, "--set", "nccl.latency=link")); d != "" {
		t.Errorf("the links' latency (-net +plugin):\n%s", d)
	}
	if cmp.Equal(knows, tuning(t, nil, profile, version)) {
		t.Error("NCCL's tables are the same with a latency of 500 us as without one")
	}
}

// tuning is what NCCL expects of each algorithm and protocol.
func tuning(t *testing.T, env []string, profile, version string, args ...string) (rows []string) {
	t.Helper()
	logs := t.TempDir()
	bench(t, folder(t), env, append([]string{
		"allreduce", "--profile", profile, "--nodes", "2", "--ranks", "2", "--nccl", version, "-b", "8", "-e", "8",
		"-n", "1", "-w", "0", "--log-dir", logs,
	}, args...)...)
	text, err := os.ReadFile(filepath.Join(logs, "rank0.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tuningRow.FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[1])
	}
	return rows
}

var (
	netAttributes = regexp.MustCompile(` (speed|latency|port|guid|gdr)="[^"]*"`)
	firstGPU      = regexp.MustCompile(`(?s)<pci busid="0000:10:00.0".*?</pci>`)
)

// withoutNet is the file of the topology that the plugin describes to NCCL, with the GPUs of both ranks, which are on
// the same place of their nodes, and without what the plugin says of the NICs: then NCCL asks the net.
func withoutNet(t *testing.T, profile string) string {
	t.Helper()
	c, err := configs.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.GPUsPerNode = 2, 1
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	node := view.Of(f, view.ReadHost(os.DirFS("/")), view.Shape{GPUs: 1}, "0000:10:00.0", c.HasGPUDirect())
	xml, err := node.XML()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(xml), "\n") {
		if strings.Contains(line, "<net ") {
			line = netAttributes.ReplaceAllString(line, "")
		}
		lines = append(lines, line)
	}
	text := firstGPU.ReplaceAllStringFunc(strings.Join(lines, "\n"), func(gpu string) string {
		return gpu + strings.Replace(gpu, "0000:10:00.0", "0000:11:00.0", 1)
	})
	file := filepath.Join(t.TempDir(), "topology.xml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(fmt.Errorf("write the topology: %w", err))
	}
	return file
}
