// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// gone reports whether a process no longer runs.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// A rank whose plugin does not start fails with the plugin's reason: NCCL says only that it has no network.
func TestRankWithoutNetwork(t *testing.T) {
	_, err := Run(testContext(t), fakeConfig(t, 3, "FAKENCCL_FAULT=nonet:0"), nil)
	if want := "init: ranks 0 to 2: plugin: the reason"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestRankFailures(t *testing.T) {
	type want struct {
		step  string
		names map[int]string // by rank
	}
	cases := map[string]struct {
		fault string
		want  want
	}{
		"an error of the network": {"async:1", want{"run", map[int]string{0: "ncclRemoteError", 1: "ncclRemoteError"}}},
		"one rank's error": {"async:1:0",
			want{"run", map[int]string{0: "ncclRemoteError", 1: "ncclRemoteError"}}},
		"a rank that is killed": {"die:1:1", want{"run", map[int]string{0: "ncclRemoteError", 1: "exit"}}},
		"init fails": {"initfail:0",
			want{"init", map[int]string{0: "ncclInternalError", 1: "ncclInternalError"}}},
		"init fails on one rank": {"initfail:0:1", want{"init", map[int]string{0: "silent", 1: "ncclInternalError"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, 2, "FAKENCCL_FAULT="+c.fault)
			var pids []int
			cfg.OnStart = func(i Info) { pids = i.PIDs }
			begin := time.Now()
			_, err := Run(testContext(t), cfg, nil)
			var failed *RanksError
			if !errors.As(err, &failed) {
				t.Fatalf("the error is %v", err)
			}
			names := map[int]string{}
			for _, f := range failed.Failures {
				names[f.Rank] = f.Name
				if f.PID == 0 || f.Message == "" {
					t.Errorf("failure %+v", f)
				}
			}
			if failed.Step != c.want.step || len(names) != 2 || names[0] != c.want.names[0] ||
				names[1] != c.want.names[1] {
				t.Errorf("step %s, %v; want %+v", failed.Step, names, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %q", err)
			}
			// The grace for reports, then the grace for closing.
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			for _, pid := range pids {
				if !gone(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
		})
	}
}

func TestRankFailureOrder(t *testing.T) {
	_, err := Run(testContext(t), fakeConfig(t, 3, "FAKENCCL_FAULT=die:1:2"), nil)
	var failed *RanksError
	if !errors.As(err, &failed) || len(failed.Failures) != 3 {
		t.Fatalf("the error is %v", err)
	}
	if first := failed.Failures[0]; first.Rank != 2 || first.Name != "exit" ||
		!strings.Contains(first.Message, "killed") {
		t.Errorf("the first failure is %+v, want the one that was killed", first)
	}
}

func TestStepTimeout(t *testing.T) {
	cfg := fakeConfig(t, 2, "FAKENCCL_FAULT=hang:1")
	cfg.StepTimeout = 500 * time.Millisecond
	_, err := Run(testContext(t), cfg, nil)
	var failed *RanksError
	if !errors.As(err, &failed) || failed.Failures[0].Name != "silent" {
		t.Fatalf("the error is %v", err)
	}
}

func TestCancel(t *testing.T) {
	cfg := fakeConfig(t, 2, "FAKENCCL_FAULT=hang:1")
	ctx, cancel := context.WithCancelCause(testContext(t))
	why := errors.New("interrupted")
	var pids []int
	cfg.OnStart = func(i Info) {
		pids = i.PIDs
		time.AfterFunc(300*time.Millisecond, func() { cancel(why) })
	}
	if _, err := Run(ctx, cfg, nil); !errors.Is(err, why) {
		t.Errorf("the error is %v", err)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func TestRanksThatDoNotStart(t *testing.T) {
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	good := fakeConfig(t, 2)
	play := func(part string) Config {
		cfg := good
		cfg.RankBinary = os.Args[0]
		cfg.Env = func(int) []string { return []string{"BENCH_TEST_PART=" + part} }
		return cfg
	}
	cases := map[string]struct {
		cfg  Config
		want string
	}{
		"no rank binary": {func() Config { c := good; c.RankBinary = "/nonexistent/rank"; return c }(), "start rank 0"},
		"no NCCL": {func() Config { c := good; c.NCCLLibs = []string{"libnosuch.so.9"}; return c }(),
			"load NCCL: libnosuch.so.9"},
		"no CUDA": {func() Config { c := good; c.CudartLibs = []string{"libnosuch.so.9"}; return c }(),
			"load the CUDA runtime: libnosuch.so.9"},
		"another library": {func() Config { c := good; c.NCCLLibs = []string{"libm.so.6"}; return c }(),
			"libm.so.6 has no ncclGetVersion"},
		"a device that is not there": {
			func() Config { c := good; c.Device = func(int, int) int { return 5 }; return c }(),
			"invalid device ordinal"},
		"another protocol":       {play("other protocol"), "speaks protocol"},
		"no device":              {play("no devices"), "no CUDA device"},
		"a line that has no end": {play("endless line"), "too long"},
		"garbage":                {play("garbage"), "Segmentation fault"},
	}
	_ = b
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Run(testContext(t), c.cfg, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// The second library is used if the first does not exist.
func TestLibraryFallback(t *testing.T) {
	cfg := fakeConfig(t, 1)
	cfg.NCCLLibs = append([]string{"libnosuch.so.9"}, cfg.NCCLLibs...)
	result, err := Run(testContext(t), cfg, nil)
	if err != nil || result.Info.NCCLLib != cfg.NCCLLibs[1] {
		t.Errorf("%q, %v", result.Info.NCCLLib, err)
	}
}

// Ranks end when the process that started them is killed.
func TestRanksDieWithTheirParent(t *testing.T) {
	cfg := fakeConfig(t, 2)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), append(cfg.Env(0), "BENCH_TEST_PART=parent", "BENCH_TEST_RANK="+cfg.RankBinary,
		"BENCH_TEST_LIB="+cfg.NCCLLibs[0], "TMPDIR="+t.TempDir())...)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	fields := strings.Fields(strings.Trim(line, "[]\n"))
	if len(fields) != 2 {
		t.Fatalf("the parent said %q", line)
	}
	for _, field := range fields {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(5 * time.Second)
		for !gone(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("rank with pid %d outlived its parent", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
