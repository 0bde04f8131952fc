// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"
)

func TestNearestNCCL(t *testing.T) {
	for text, want := range map[string]string{
		"2.12.7": "2.22", "2.22.3": "2.22", "2.23.4": "2.29", "v2.27.3": "2.29", "2.30": "2.29", "2.29.7+cuda12.9": "2.29",
		"unknown": "2.29", "": "2.29", "unknown (2026-05)": "2.29", "unknown (2024-11)": "2.22", "unknown (old)": "2.22",
	} {
		if got := (&Cluster{NCCL: text}).NearestNCCL(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
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
		fabric string
		nodes  int
		want   string // or a part of the error
	}{
		{"ndr400", 2, "ndr400"},
		{"ndr400 (8 x ConnectX-7)", 2, "ndr400"},
		{"", 1, "loopback"},
		{"ndr400", 1, "ndr400"},
		{"", 2, ""},
		{"ndr40 of somebody", 2, "for which there is no profile: give --profile with one such as ndr400"},
		{"two ropes", 2, "such as dgx-a100-nvlink, efa-p4d"},
	} {
		got, err := (&Cluster{Fabric: tc.fabric}).Profile(tc.nodes)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want && (err == nil || !strings.Contains(got, tc.want)) {
			t.Errorf("%q on %d nodes: %s, want %s", tc.fabric, tc.nodes, got, tc.want)
		}
	}
}

func TestRemarks(t *testing.T) {
	table := Table{Cluster: Cluster{NCCL: "2.27.3", Launch: Threads, RanksPerProcess: 8}, Unused: []string{"UCX_X=1"}}
	got := strings.Join(table.Remarks("2.29.7"), "; ")
	for _, want := range []string{"NCCL 2.29.7 stands for 2.27.3", "8 ranks in a process (threads)", "not set", "UCX_X=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: no %q", got, want)
		}
	}
	table = Table{Cluster: Cluster{NCCL: "2.29.7", Launch: Processes, RanksPerProcess: 1}}
	if got := table.Remarks("2.29.7"); got != nil {
		t.Errorf("the same as measured: %q", got)
	}
}
