// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"os"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

const head = "# collective: all_reduce\n# ranks: 4\n"

func TestRead(t *testing.T) {
	got, err := read("# source: a: b\n# system: two boxes\n" + head +
		"# nodes: 2\n# env: NCCL_PROTO=Simple NCCL_ALGO=Ring\ntime_us,algbw,bytes\r\n65.7, 0.1, 4\n\n1e3,0,1048576\n")
	if err != nil {
		t.Fatal(err)
	}
	describes(t, got, Table{
		Source: "a: b", System: "two boxes", Collective: nccl.AllReduce, Type: nccl.Float, Ranks: 4, Nodes: 2,
		Cluster: Cluster{GPUsPerNode: 2, Launch: Processes, RanksPerProcess: 1},
		Env:     []string{"NCCL_PROTO=Simple", "NCCL_ALGO=Ring"},
	}, "8 4 65.7µs", "10 1048576 1ms")
}

// Excel's "CSV UTF-8" begins with a byte order mark.
func TestReadByteOrderMark(t *testing.T) {
	got, err := read("\ufeff" + head + "bytes,time_us\r\n4,65.7\r\n")
	if err != nil || got.Collective != nccl.AllReduce || len(got.Rows) != 1 || got.Rows[0].Line != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "the log has no whole row of nccl-tests' table"},
		{"# source: a\n", `the table does not say "# collective: NAME": add that line before it`},
		{"# collective: all_reduce\nbytes,time_us\n4,1\n",
			`the table does not say "# ranks: N": add that line before it`},
		{"# collective: sum\n", "line 1: collective: "},
		{"# ranks: 1\n", `line 1: ranks: "1" is not a number from 2 to`},
		{head + "# nodes: 3\nbytes,time_us\n4,1\n", "4 ranks do not divide among 3 nodes"},
		{"# source: a\n# system: b\n# collective: hypercube\n# ranks: 6\nbytes,time_us\n4,1\n",
			"hypercube among 6 ranks: their number must be a power of two"},
		{head + "# a remark\n", `line 3: "# a remark" is not "# key: value"`},
		{head + "# size: 4\n", `line 3: "size" is not a key of a table: there are source, system, collective`},
		{head + "# gpus_per_nodes: 4\n", `line 3: "gpus_per_nodes" is not a key of a table: did you mean gpus_per_node`},
		{head + "# nodes: 0\n", `line 3: nodes: "0" is not a number from 1 to`},
		{head + "# gpu: h100-sx\n", `line 3: gpu: "h100-sx" is not a kind of GPU: did you mean h100-sxm`},
		{head + "# nvlink: ring\n", `line 3: nvlink: "ring" is not one of switch, mesh, none`},
		{head + "# nvlink_domain: 1\n", `line 3: nvlink_domain: "1" is not a number from 2 to 576`},
		{head + "# launch: thread\n", `line 3: launch: "thread" is not a launch: did you mean threads`},
		{head + "# cpu: host\n", `line 3: cpu: "host" is not a vendor of CPUs: `},
		{head + "# type: all\n", "line 3: type: all: give the type of the rows"},
		{head + "# type: fp8\n", `line 3: type: there is no data type "fp8"`},
		{head + "# nodes: 2\n# gpus_per_node: 4\nbytes,time_us\n4,1\n",
			"4 ranks on 2 nodes are 2 per node, gpus_per_node is 4"},
		{head + "# nodes: 2\n# ranks_per_process: 4\nbytes,time_us\n4,1\n", "ranks_per_process: 4: the 2 ranks"},
		{head + "# env: NCCL_DEBUG_FILE=x\n", `line 3: env: "NCCL_DEBUG_FILE=x" is not one of NCCL_ALGO`},
		{head + "# env: LD_PRELOAD=x.so\n", `line 3: env: "LD_PRELOAD=x.so" is not one of NCCL_ALGO`},
		{head + "# env: NCCL_PROTO\n", `line 3: env: "NCCL_PROTO" is not one of`},
		{head, "line 3: no column names"},
		{head + "size,time\n", "line 3: columns \"size,time\": bytes and time_us are needed"},
		{"collective,size_bytes\nall_gather,4\n",
			"line 1: columns \"collective,size_bytes\": bytes and time_us are needed: it is no table of nccl-tests"},
		{head + "bytes,time_us\n", "line 4: the table has no rows that can be compared"},
		{head + "# type: double\nbytes,time_us\n4,1\n", "line 5: 4 bytes: all_reduce of double among 4 ranks moves 0"},
		{head + "bytes,time_us,algbw_GBps\n8000,1,8.00\n16000,0.002,8.00\n",
			"line 5: algbw_GBps 8.00: the bandwidth is 8e+03 of 16000 bytes in 0.002 us: units are mixed"},
		{head + "bytes,time_us,algbw_GBps\n8000,1,?\n", `line 4: algbw_GBps "?": not a number`},
		{head + "bytes,time_us,busbw_GBps\n8000,1,8.00\n", "line 4: busbw_GBps 8.00: the bandwidth is 12 of 8000 bytes"},
		{head + "bytes,time_us\n4\n", "line 4: wrong number of fields"},
		{head + "bytes,time_us\n4,1\n\"\n", "line 5: "},
		{head + "bytes,time_us\n4K,1\n", `line 4: bytes "4K": not a whole number`},
		{head + "bytes,time_us\n0,1\n", `line 4: bytes "0": not a whole number`},
		{head + "bytes,time_us\n4,0\n", `line 4: time_us "0": not a number above 0`},
		{head + "bytes,time_us\n4,NaN\n", `line 4: time_us "NaN": not a number`},
		{head + "bytes,time_us\n6,1\n", "line 4: 6 bytes: all_reduce of float among 4 ranks moves 4"},
		{head + "bytes,time_us\n8,1\n# 4,1\n4,1\n", `line 5: bytes "# 4": not a whole number`},
		{head + "bytes,time_us\n8,1\n8,1\n", "line 5: 8 bytes after 8: sizes must rise"},
		{head + strings.Repeat("#", maxCSV), "the table has more than"},
	} {
		_, err := read(tc.text)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestBetween(t *testing.T) {
	table := Table{Rows: []testslog.Row{{Size: 4}, {Size: 8}, {Size: 16}}}
	if err := table.Between(5, 16); err != nil || len(table.Rows) != 2 || table.Rows[0].Size != 8 {
		t.Errorf("%v, %v", table.Rows, err)
	}
	if err := table.Between(9, 15); err == nil || len(table.Rows) != 2 {
		t.Errorf("%v, %v", table.Rows, err)
	}
}

// The head alone describes what was measured.
func TestReadCluster(t *testing.T) {
	got, err := read(`# collective: all_gather
# ranks: 16
# gpu: h100-sxm
# nvlink: mesh
# nvlink_domain: 72
# gpus_per_node: 8
# nics_per_node: 4
# fabric: ndr400
# nccl: 2.27.3
# env: NCCL_NVLS_ENABLE=0 NCCL_IB_HCA=mlx5
# type: half
# launch: threads
# cpu: intel
# net: ib
bytes,time_us,algbw_GBps,busbw_GBps
512,8.98,0.057,0.05
8388608,166.6,50.352,47.20
`)
	if err != nil {
		t.Fatal(err)
	}
	describes(t, got, Table{
		Collective: nccl.AllGather, Type: nccl.Half, Ranks: 16, Nodes: 2,
		Cluster: Cluster{GPU: "h100-sxm", NVLink: "mesh", NVLinkDomain: 72, GPUsPerNode: 8, NICsPerNode: 4,
			Fabric: "ndr400", NCCL: "2.27.3", CPU: "intel", Net: "ib", Launch: Threads, RanksPerProcess: 8},
		Env: []string{"NCCL_NVLS_ENABLE=0"}, Unused: []string{"NCCL_IB_HCA=mlx5"},
	}, "16 512 8.98µs", "17 8388608 166.6µs")
}

// CSV can be judged as a log can: as its collective, with the bandwidths that its times say.
func TestJudgedCSV(t *testing.T) {
	f, err := Read(strings.NewReader(head + "# env: NCCL_ALGO=Ring\nbytes,time_us\n8000,1\n16000,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Choose(nccl.AllGather); err == nil ||
		err.Error() != "line 1: the table is of all_reduce, not of all_gather: give the log's collective" {
		t.Error(err)
	}
	all, err := f.Each()
	if err != nil || len(all) != 1 || all[0].Collective != nccl.AllReduce || all[0].Notes() != nil {
		t.Fatalf("%+v, %v", all, err)
	}
	if got, want := configured(f, nccl.AllReduce), "4 0 [float] [sum] [8000 16000] 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, r := range all[0].Rows {
		if found := r.OutOfPlace.Check(r.Size, nccl.AllReduce.BusFactor(4)); found.Word != testslog.AsExpected {
			t.Errorf("%d bytes: %+v", r.Size, found)
		}
	}
}

// Old versions of nccl-tests divided 32 bytes among 8 ranks; here a share has 16 bytes or more.
func TestReadSmallShares(t *testing.T) {
	got, err := read("# collective: alltoall\n# ranks: 8\nbytes,time_us\n32,86\n64,87\n128,88\n")
	if err != nil || len(got.Rows) != 1 || got.Rows[0].Size != 128 || len(got.LeftOut) != 2 || got.LeftOut[1].Size != 64 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := read("# collective: alltoall\n# ranks: 8\nbytes,time_us\n33,86\n"); err == nil ||
		!strings.HasPrefix(err.Error(), "line 4: 33 bytes: alltoall of float among 8 ranks moves 0") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every table that Read accepts can be run.
func FuzzRead(f *testing.F) {
	t4, err := os.ReadFile("../../../configs/tables/t4_1gpu_2node_efa.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(t4)
	f.Add([]byte(head + "bytes,time_us\n4,1\n8,2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := read(string(text))
		if err != nil {
			return
		}
		if len(table.Rows) == 0 || table.Ranks < 2 || table.Ranks%table.Nodes != 0 {
			t.Fatalf("%+v", table)
		}
		last := int64(0)
		for _, r := range table.Rows {
			if r.Size <= last || r.OutOfPlace.Time < 0 || r.Line < 1 {
				t.Fatalf("%+v", table.Rows)
			}
			last = r.Size
		}
	})
}
