// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSystem(t *testing.T) {
	const (
		head  = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n# Using devices\n"
		ranks = "#  Rank  0 Group  0 Pid  9 on   n0 device  0 [0x1b] NVIDIA H100 80GB HBM3\n" +
			"#  Rank  1 Group  0 Pid  9 on   n1 device  1 [0000:2b:00] NVIDIA H100 80GB HBM3\n"
		h100    = "NVIDIA H100 80GB HBM3"
		version = "# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library="
		bench   = "# ddlemu bench all_reduce: NCCL 2.22.3 (x/libnccl.so.2), CUDA soft\n" +
			"# profile a  datapath shm  ranks 2  nodes 2\n"
	)
	for name, tc := range map[string]struct {
		text string
		want System
	}{
		"a GPU per process":   {head + ranks, System{GPU: h100, Threads: 1, GPUsPerThread: 1, NCCL: ""}},
		"a thread for 8 GPUs": {strings.Replace(head, "nGpus 1", "nGpus 8", 1) + ranks, System{GPU: h100, Threads: 1, GPUsPerThread: 8, NCCL: ""}},
		"8 threads":           {strings.Replace(head, "nThread 1", "nThread 8", 1) + ranks, System{GPU: h100, Threads: 8, GPUsPerThread: 1, NCCL: ""}},
		"two products": {head + strings.Replace(ranks, "H100 80GB HBM3", "H200", 1),
			System{GPU: h100 + ", NVIDIA H200", Threads: 1, GPUsPerThread: 1, NCCL: ""}},
		"a rank without":      {head + strings.Replace(ranks, " NVIDIA H100 80GB HBM3", "", 1), System{GPU: "", Threads: 1, GPUsPerThread: 1, NCCL: ""}},
		"a rank is missing":   {head + ranks[strings.Index(ranks, "\n")+1:], System{GPU: "", Threads: 1, GPUsPerThread: 1, NCCL: ""}},
		"no brackets":         {head + strings.ReplaceAll(ranks, "[", "("), System{GPU: "", Threads: 1, GPUsPerThread: 1, NCCL: ""}},
		"version in the head": {version + "22907\n" + head + ranks, System{GPU: h100, Threads: 1, GPUsPerThread: 1, NCCL: "2.29.7"}},
		"no version":          {version + "2\n" + head + ranks, System{GPU: h100, Threads: 1, GPUsPerThread: 1, NCCL: ""}},
		"version of NCCL":     {head + ranks + "NCCL version 2.18.3+cuda12.2\n", System{GPU: h100, Threads: 1, GPUsPerThread: 1, NCCL: "2.18.3"}},
		"version in a message": {head + ranks + "n0:9:9 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n",
			System{GPU: h100, Threads: 1, GPUsPerThread: 1, NCCL: "2.27.3"}},
		"ddlemu bench": {bench, System{NCCL: "2.22.3"}},
	} {
		got, err := Read(strings.NewReader(tc.text + wholeRow))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(tc.want, got.Tests[0].System); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Tables of one program have one system.
func TestSystemOfLaterTables(t *testing.T) {
	text := strings.Replace(ncclTests, "# Avg", "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"+
		wholeRow+"# Avg", 1)
	got, err := Read(strings.NewReader(text))
	if err != nil || len(got.Tests) != 2 || !cmp.Equal(got.Tests[1].System, got.Tests[0].System) || got.Tests[1].System.GPU == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A program has the variables of its messages, and of other lines before its table; messages win. A line that gives a
// variable or a version is understood.
func TestSettings(t *testing.T) {
	const messages = "n0:9:9 [0] NCCL INFO NCCL_ALGO set by environment to Ring.\nn0:9:9 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n"
	head := "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"
	got, err := Read(strings.NewReader("export NCCL_PROTO=Simple\nmpirun -x NCCL_ALGO=Tree -x 'NCCL_NTHREADS=256' all_reduce_perf\n" +
		"NCCL version 2.27.3+cuda12.4\n" + head + messages + wholeRow + head + wholeRow))
	if err != nil || len(got.Tests) != 2 || got.Foreign != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	for i, want := range [][]string{
		{"NCCL_PROTO=Simple", "NCCL_ALGO=Ring", "NCCL_NTHREADS=256", "NCCL_IB_HCA=mlx5_0"},
		{"NCCL_PROTO=Simple", "NCCL_ALGO=Tree", "NCCL_NTHREADS=256"},
	} {
		if d := cmp.Diff(want, got.Tests[i].System.Settings); d != "" {
			t.Errorf("table %d: %s", i, d)
		}
	}
}
