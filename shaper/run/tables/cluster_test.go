// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"strings"
	"testing"
)

func TestNearestNCCL(t *testing.T) {
	for text, want := range map[string]string{
		"2.12.7": "2.22", "2.22.3": "2.22", "2.23.4": "2.29", "v2.27.3": "2.29", "2.30": "2.29", "2.29.7+cuda12.9": "2.29",
		"unknown": "2.22", "": "2.22", "unknown (2026-05)": "2.29", "unknown (2024-11)": "2.22", "unknown (old)": "2.22",
	} {
		if got := (&Cluster{NCCL: text}).NearestNCCL(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Without a version and a year, the kind of GPU decides.
func TestNearestNCCLOfKind(t *testing.T) {
	for _, tc := range []struct{ gpu, nccl, want string }{
		{"h100-sxm", "unknown", "2.22"}, {"gh200", "", "2.29"}, {"gh200", "2.22.3", "2.22"}, {"b200", "unknown", "2.29"}, {"rtx-6000d", "", "2.29"},
		{"h100-sxm", "unknown (2026-05)", "2.29"}, {"b200", "2.22.3", "2.22"}, {"b200", "unknown (old)", "2.22"},
	} {
		if got := (&Cluster{GPU: tc.gpu, NCCL: tc.nccl}).NearestNCCL(); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// Between the two versions, NCCL did not use LL128 between a GPU with NVLink-C2C and its NIC.
func TestStandIn(t *testing.T) {
	for _, tc := range []struct {
		gpu, nccl string
		want      bool
	}{
		{"gh200", "2.22.3", false}, {"gh200", "2.23.4", true}, {"gh200", "2.26.2", true}, {"gh200", "2.27.3", false},
		{"gh200", "unknown", true}, {"gh200", "unknown (old)", false}, {"gh200", "unknown (2026)", false},
		{"gb200", "2.25.1", true}, {"gb200", "unknown", false}, {"h100-sxm", "2.24.3", false}, {"", "2.24.3", false},
	} {
		if got := (&Cluster{GPU: tc.gpu, NCCL: tc.nccl}).StandIn(); len(got) > 0 != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestOtherNCCL(t *testing.T) {
	for _, tc := range []struct{ table, here, want string }{
		{"2.22.3", "2.22.3", ""},
		{"2.29.7+cuda12.9", "2.29.7", ""},
		{"", "2.29.7", ""},
		{"2.29.2", "", ""},
		{"2.29.2", "2.29.7", "NCCL 2.29.7 stands for 2.29.2"},
		{"2.12.7", "2.22.3", "NCCL 2.22.3 stands for 2.12.7"},
		{"unknown (old)", "2.22.3", "NCCL 2.22.3 stands for one of unknown version"},
	} {
		if got := (&Cluster{NCCL: tc.table}).OtherNCCL(tc.here); got != tc.want {
			t.Errorf("%q here %q: %q, want %q", tc.table, tc.here, got, tc.want)
		}
	}
}

func TestProfile(t *testing.T) {
	for _, tc := range []struct {
		fabric, gpu, nvlink string
		nodes               int
		nodeTime            bool
		want                string // or a part of the error
	}{
		{fabric: "ndr400", nodes: 2, want: "ndr400"},
		{fabric: "ndr400 (8 x ConnectX-7)", nodes: 2, want: "ndr400"},
		{fabric: "tcpxo (8 x 200 Gb/s)", gpu: "h100-sxm", nodes: 2, want: "tcpxo"},
		{fabric: "tcpxo (8 x 200 Gb/s)", gpu: "h100-sxm", nodes: 2, nodeTime: true, want: "a3-mega"},
		{fabric: "roce400: 8 x ConnectX-7", gpu: "h100-sxm", nodes: 2, nodeTime: true, want: "roce400"},
		{fabric: "efa-p6, EFA version 4", gpu: "b200", nodes: 2, nodeTime: true, want: "efa-p6"},
		{fabric: "ndr400", gpu: "h100-sxm", nodes: 2, nodeTime: true, want: "hgx-h100-ndr400"},
		{fabric: "ndr400", gpu: "l40s", nodes: 2, nodeTime: true, want: "ndr400"},
		{fabric: "ndr400", nodes: 2, nodeTime: true, want: "ndr400"},
		{fabric: "ss11-200", gpu: "a100-sxm", nvlink: "mesh", nodes: 2, nodeTime: true, want: "a100x4-ss11"},
		{fabric: "ss11-200", gpu: "a100-sxm", nodes: 2, nodeTime: true, want: "ss11-200"},
		{fabric: "hgx-h100-ndr400", nodes: 2, want: "hgx-h100-ndr400"},
		{fabric: "hgx-h100-ndr400 of a cloud", gpu: "h100-sxm", nodes: 2, want: "hgx-h100-ndr400"},
		{fabric: "p4d", gpu: "h100-sxm", nodes: 2, want: "is the system p4d, which has a100-sxm, and its gpu is h100-sxm"},
		{nodes: 1, want: "loopback"},
		{fabric: "ndr400", nodes: 1, want: "ndr400"},
		{nodes: 2},
		{fabric: "ndr40 of somebody", nodes: 2, want: "for which there is no profile: give --profile with one such as ndr400"},
		{fabric: "hgx-h100-ndr40", nodes: 2, want: "give --profile with one such as hgx-h100-ndr400"},
		{fabric: "two ropes", nodes: 2, want: "such as dgx-a100-nvlink, efa-p4d"},
	} {
		got, err := (&Cluster{Fabric: tc.fabric, GPU: tc.gpu, NVLink: tc.nvlink}).Profile(tc.nodes, tc.nodeTime)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want && (err == nil || !strings.Contains(got, tc.want)) {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func TestRemarks(t *testing.T) {
	table := Table{Cluster: Cluster{NCCL: "2.27.3", Launch: Threads, RanksPerProcess: 8}, Unused: []string{"UCX_X=1"}}
	got := strings.Join(append(table.NCCLRemark("2.29.7"), table.LaunchRemarks()...), "; ")
	for _, want := range []string{"NCCL 2.29.7 stands for 2.27.3", "8 ranks in a process (threads)", "not set", "UCX_X=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: no %q", got, want)
		}
	}
	table = Table{Cluster: Cluster{NCCL: "2.29.7", Launch: Processes, RanksPerProcess: 1}}
	if got := append(table.NCCLRemark("2.29.7"), table.LaunchRemarks()...); got != nil {
		t.Errorf("the same as measured: %q", got)
	}
}
