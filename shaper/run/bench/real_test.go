// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// softCUDA returns the folder of the software CUDA and its NCCL. It fails if they are missing, because a skipped test
// proves nothing.
func softCUDA(t *testing.T) string {
	t.Helper()
	lib, err := filepath.Abs("../../../build/softcuda/lib")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(lib, "libcudart.so.12")); err != nil {
		t.Fatalf("%v; make it with `go run ./cuda/soft/setup --build build`", err)
	}
	return lib
}

// realConfig is a run of real NCCL with one rank per node, over NCCL's socket transport on the loopback interface.
func realConfig(t *testing.T, version string, ranks int, env ...string) Config {
	t.Helper()
	lib := softCUDA(t)
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Collective: nccl.AllReduce, Sizes: []int64{1 << 20}, Warmup: 1, Iters: 2, Check: true, Ranks: ranks,
		RankBinary: b.rank, NCCLLibs: []string{filepath.Join(lib, "nccl-"+version, "libnccl.so.2")},
		CudartLibs: []string{filepath.Join(lib, "libcudart.so.12")},
		Env: func(rank int) []string {
			return append([]string{
				"LD_LIBRARY_PATH=" + lib, "NCCL_SOCKET_IFNAME=lo", "NCCL_NET_PLUGIN=none", "NCCL_NET=Socket",
				fmt.Sprintf("NCCL_HOSTID=bench-test-%d", rank),
			}, env...)
		},
	}
}

var versions = []struct{ short, full string }{{"2.22", "2.22.3"}, {"2.29", "2.29.7"}}

// Real NCCL from end to end: correct values, the forced decision, and a log that is understood.
func TestRealNCCL(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.full, func(t *testing.T) {
			cfg := realConfig(t, v.short, 2, "NCCL_ALGO=Ring", "NCCL_PROTO=Simple")
			cfg.LogDir = os.Getenv("BENCH_TEST_LOGS")
			result, err := Run(testContext(t), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range result.Rows[0].Measurements() {
				if m.Wrong != 0 || m.Time <= 0 {
					t.Errorf("%d wrong (%s), time %v", m.Wrong, m.Mismatch, m.Time)
				}
				if m.Decision == nil || m.Decision.Algo != nccllog.AlgoRing ||
					m.Decision.Proto != nccllog.ProtoSimple ||
					m.Decision.Bytes != 1<<20 || m.Decision.Count != cfg.Iters {
					t.Errorf("decision %+v", m.Decision)
				}
				t.Logf("wall %v device %v", m.Wall, m.Device)
			}
			topology := result.Info.Topology
			if topology == nil {
				t.Fatal(result.Info.LogProblem)
			}
			if result.Info.NCCL != v.full || topology.Nodes != 2 || topology.Ranks != 2 ||
				topology.Network != "Socket" ||
				topology.CollChannels < 1 || len(topology.Rings) != topology.CollChannels ||
				len(topology.Trees) != topology.CollChannels {
				t.Errorf("NCCL %s, topology %+v", result.Info.NCCL, topology)
			}
			if len(result.Transports) != 1 || result.Transports["NET/Socket"] == 0 {
				t.Errorf("transports %v", result.Transports)
			}
		})
	}
}

// Every collective on one communicator, with NCCL's default decisions.
func TestRealCollectives(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.full, func(t *testing.T) {
			ctx := testContext(t)
			ranks, err := StartRanks(ctx, realConfig(t, v.short, 2))
			if err != nil {
				t.Fatal(err)
			}
			if err := ranks.Init(ctx); err != nil {
				t.Fatal(err)
			}
			seed := int64(0)
			for c := nccl.AllReduce; c.Known(); c++ {
				cfg := Config{
					Collective: c, Types: []nccl.DataType{nccl.Int8, nccl.BFloat16, nccl.Float},
					Ops: []nccl.RedOp{nccl.Sum, nccl.Max, nccl.Avg}, Sizes: []int64{1000, 300000},
					Root: 1, Ranks: 2, Iters: 2,
				}
				for _, one := range cfg.Cases() {
					row, err := ranks.row(ctx, one, seed)
					if err != nil {
						t.Fatalf("%v: %v", c, err)
					}
					seed++
					for _, m := range row.Measurements() {
						if m.Wrong != 0 {
							t.Errorf("%v %v %v %d bytes in place %v: %d wrong: %s", c, one.Type, one.Op, one.Size,
								m.InPlace, m.Wrong, m.Mismatch)
						}
						if sends := c.IsP2P(); sends != (m.Decision == nil) {
							t.Errorf("%v: decision %+v", c, m.Decision)
						}
					}
				}
			}
			if err := ranks.Destroy(ctx); err != nil {
				t.Error(err)
			}
			if err := ranks.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a rank is killed during a run, NCCL tells the other rank, which reports it in time.
func TestRealRankKilled(t *testing.T) {
	for _, v := range versions {
		t.Run(v.full, func(t *testing.T) {
			cfg := realConfig(t, v.short, 2)
			cfg.Iters = 1 << 20 // longer than the test
			killed := make(chan time.Time, 1)
			cfg.OnStart = func(i Info) {
				time.AfterFunc(time.Second, func() {
					killed <- time.Now()
					_ = syscall.Kill(i.PIDs[1], syscall.SIGKILL)
				})
			}
			_, err := Run(testContext(t), cfg, nil)
			took := time.Since(<-killed)
			var failed *RanksError
			if !errors.As(err, &failed) || len(failed.Failures) != 2 || failed.Failures[0].Rank != 1 {
				t.Fatalf("the error is %v", err)
			}
			if other := failed.Failures[1]; other.Name != "ncclRemoteError" && other.Name != "ncclSystemError" {
				t.Errorf("the other rank says %s: %s", other.Name, other.Message)
			}
			t.Logf("%v after the kill: %v", took, err)
		})
	}
}

// Several communicators in the same processes, one after another.
func TestRealInitAgain(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.full, func(t *testing.T) {
			ctx := testContext(t)
			cfg := realConfig(t, v.short, 2)
			ranks, err := StartRanks(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := ranks.Init(ctx); err != nil {
					t.Fatal(err)
				}
				m, err := ranks.Measure(ctx, cfg.Cases()[0], int64(2*i))
				if err != nil || m.Wrong != 0 || m.Decision == nil {
					t.Fatalf("%+v, %v", m, err)
				}
				if info := ranks.Info(); info.Topology == nil || len(ranks.logs[0].Log().Comms) != i+1 {
					t.Errorf("communicator %d: %s", i, info.LogProblem)
				}
				if err := ranks.Destroy(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if err := ranks.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two nodes of two ranks: NCCL uses the network between nodes only.
func TestRealTwoByTwo(t *testing.T) {
	t.Parallel()
	cfg := realConfig(t, "2.29", 4)
	env := cfg.Env
	// By default, NCCL uses P2P between GPUs of one host bridge with some processors and not with others.
	cfg.Env = func(rank int) []string {
		return append(env(rank), fmt.Sprintf("NCCL_HOSTID=bench-test-%d", rank/2), "NCCL_P2P_LEVEL=SYS")
	}
	result, err := Run(testContext(t), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if topology := result.Info.Topology; topology == nil || topology.Nodes != 2 || topology.Ranks != 4 {
		t.Errorf("topology %+v", topology)
	}
	if n := result.Transports; n["NET/Socket"] == 0 || n["P2P/IPC"] == 0 || len(n) != 2 {
		t.Errorf("transports %v", n)
	}
	header, summary := NewHeader(cfg, result.Info), NewSummary(result, verdict.New(nil), "")
	if header.Nodes != 2 || header.NCCL != "2.29.7" || header.TimeScale != 1 || summary.Wrong != 0 ||
		summary.AvgBusBW <= 0 {
		t.Errorf("header %+v, summary %+v", header, summary)
	}
}
