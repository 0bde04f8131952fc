// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// Every collective, type and operator. The ranks' check is tested against independent arithmetic. With three ranks
// 1/ranks is inexact, and the sizes are odd.
func TestRunEverything(t *testing.T) {
	types, _ := nccl.ParseDataTypes("all")
	ops, _ := nccl.ParseRedOps("all")
	for c := nccl.AllReduce; c.Known(); c++ {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ranks := 3
			if c == nccl.HyperCube {
				ranks = 4
			}
			cfg := fakeConfig(t, ranks)
			cfg.Collective, cfg.Types, cfg.Ops, cfg.Sizes, cfg.Root = c, types, ops, []int64{7000}, 1
			result, err := Run(testContext(t), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := len(types)
			if c.Reduces() {
				want *= len(ops)
			}
			if len(result.Rows) != want {
				t.Errorf("%d rows, want %d", len(result.Rows), want)
			}
			for _, row := range result.Rows {
				if (row.InPlace != nil) != c.HasInPlace() {
					t.Errorf("in place: %v", row.InPlace)
				}
				for _, m := range row.Measurements() {
					if m.Wrong != 0 || !m.Checked {
						t.Errorf("%v %s in place %v: %d wrong: %s", row.Type, row.Op, m.InPlace, m.Wrong, m.Mismatch)
					}
					if m.Time <= 0 || m.TimeMin > m.Time || m.TimeMax < m.Time {
						t.Errorf("time %v, from %v to %v", m.Time, m.TimeMin, m.TimeMax)
					}
				}
			}
		})
	}
}

// Sizes from nothing to more than the staging buffer of 1 MiB.
func TestRunSizes(t *testing.T) {
	for _, c := range []nccl.Collective{nccl.AllReduce, nccl.AllGather, nccl.ReduceScatter, nccl.AllToAll, nccl.Gather,
		nccl.Scatter, nccl.HyperCube} {
		cfg := fakeConfig(t, 2)
		cfg.Collective, cfg.Sizes, cfg.Types = c, []int64{0, 8, 1000, 3 << 20}, []nccl.DataType{nccl.Float, nccl.Int8}
		result, err := Run(testContext(t), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := result.Wrong(); wrong != 0 {
			t.Errorf("%v: %d wrong", c, wrong)
		}
	}
}

// One flipped bit on one rank is one wrong element. With one warm-up and two timed iterations, a repeatable collective
// runs operations 0, 1 and 2, and the last one is checked. For an in-place reduction the first one is checked.
func TestRunFindsCorruption(t *testing.T) {
	for c := nccl.AllReduce; c.Known(); c++ {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, 2, "FAKENCCL_FAULT=corrupt:2:1")
			cfg.Collective, cfg.Root = c, 1
			result, err := Run(testContext(t), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := result.Rows[0].OutOfPlace
			if m.Wrong != 1 || m.Mismatch == "" {
				t.Errorf("out of place: %d wrong (%s), want 1", m.Wrong, m.Mismatch)
			}
			if !c.HasInPlace() {
				return
			}
			if wrong := result.Rows[0].InPlace.Wrong; wrong != 0 {
				t.Errorf("in place: %d wrong, want 0", wrong)
			}
			at := 5 // three iterations out of place, then three in place
			if c.Reduces() {
				at = 3
			}
			env := append(cfg.Env(0), fmt.Sprintf("FAKENCCL_FAULT=corrupt:%d:1", at))
			cfg.Env = func(int) []string { return env }
			if result, err = Run(testContext(t), cfg, nil); err != nil {
				t.Fatal(err)
			}
			if m := result.Rows[0].InPlace; m.Wrong != 1 {
				t.Errorf("in place: %d wrong (%s), want 1", m.Wrong, m.Mismatch)
			}
		})
	}
}

// An output that no iteration wrote fails the check, whatever it contained before.
func TestRunWithoutCheck(t *testing.T) {
	cfg := fakeConfig(t, 2, "FAKENCCL_FAULT=corrupt:2:1")
	cfg.Check = false
	result, err := Run(testContext(t), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := result.Rows[0].OutOfPlace; m.Checked || m.Wrong != 0 {
		t.Errorf("checked %v, wrong %d, though no check was asked for", m.Checked, m.Wrong)
	}
}

// Times by both clocks, divided by the time scale, and compared with the expected time.
func TestRunTimes(t *testing.T) {
	const op = 20 * time.Millisecond
	for _, clock := range []Clock{WallClock, DeviceClock} {
		cfg := fakeConfig(t, 2, fmt.Sprintf("FAKENCCL_OP_US=%d", op.Microseconds()))
		cfg.Clock, cfg.TimeScale, cfg.Check = clock, 4, false
		var cases []Case
		cfg.Expected = func(c Case) (Expectation, bool) {
			cases = append(cases, c)
			return Expectation{Time: op / 8}, !c.InPlace
		}
		result, err := Run(testContext(t), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		row := result.Rows[0]
		m := row.OutOfPlace
		if m.Time < op/4 {
			t.Errorf("an iteration took %v, less than the %v of its operation by a scale of 4", m.Time, op/4)
		}
		if m.Time != map[Clock]time.Duration{WallClock: m.Wall, DeviceClock: m.Device}[clock] {
			t.Errorf("time %v is neither %v nor %v", m.Time, m.Wall, m.Device)
		}
		if !m.Known || m.Expected != op/8 || m.Diff < 100 || !m.Off || row.InPlace.Known {
			t.Errorf("expected %v known %v diff %.1f %% off %v; in place known %v", m.Expected, m.Known, m.Diff, m.Off,
				row.InPlace.Known)
		}
		if len(cases) != 2 || cases[0].Launches != max(cfg.Warmup, 1)+cfg.Iters || cases[0].Decision == nil ||
			cases[0].Decision.Algo != nccllog.AlgoRing || cases[0].Topology == nil {
			t.Fatalf("the expectation was asked for %+v", cases)
		}
		// With one size, the timed iterations have all the decisions since the last call.
		if got := cases[0].Decision.Count; got != cfg.Iters {
			t.Errorf("the decision was made %d times, want %d", got, cfg.Iters)
		}
	}
}

func TestRunInfo(t *testing.T) {
	cfg := fakeConfig(t, 3)
	cfg.LogDir = t.TempDir()
	var started Info
	cfg.OnStart = func(i Info) { started = i }
	result, err := Run(testContext(t), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if started.NCCL != "2.22.3" || started.Devices != 2 || len(started.PIDs) != 3 ||
		started.NCCLLib != cfg.NCCLLibs[0] {
		t.Errorf("info %+v", started)
	}
	if got := fmt.Sprint(started.DeviceOf); got != "[0 1 0]" {
		t.Errorf("devices %s", got)
	}
	if topology := result.Info.Topology; topology == nil || topology.Nodes != 3 ||
		fmt.Sprint(topology.Rings) != "[[0 1 2]]" {
		t.Errorf("topology %+v, problem %q", topology, result.Info.LogProblem)
	}
	if _, err := os.Stat(cfg.LogDir + "/rank0.log"); err != nil {
		t.Errorf("the log was to stay: %v", err)
	}
}

// The user's NCCL_DEBUG is kept, and NCCL's lines on standard output are not taken for answers.
func TestRunUsersDebug(t *testing.T) {
	cfg := fakeConfig(t, 2, "NCCL_DEBUG=INFO")
	var stderr lockedBuffer
	cfg.Stderr = &stderr
	result, err := Run(testContext(t), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Rows[0].OutOfPlace.Decision != nil || result.Info.LogProblem == "" {
		t.Errorf("decision %+v, problem %q", result.Rows[0].OutOfPlace.Decision, result.Info.LogProblem)
	}
	if got := stderr.String(); got == "" {
		t.Error("what NCCL wrote to standard output is not among the ranks' messages")
	}
}

// Ranks can make a new communicator after the first one.
func TestRanksInitAgain(t *testing.T) {
	ctx := testContext(t)
	cfg := fakeConfig(t, 2)
	ranks, err := StartRanks(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.Cases()[0]
	for range 2 {
		if err := ranks.Init(ctx); err != nil {
			t.Fatal(err)
		}
		m, err := ranks.Measure(ctx, c, 7)
		if err != nil || m.Wrong != 0 {
			t.Fatalf("%+v, %v", m, err)
		}
		if err := ranks.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := ranks.Close(); err != nil {
		t.Error(err)
	}
	if err := ranks.Init(ctx); err == nil {
		t.Error("a closed run could be used")
	}
}
