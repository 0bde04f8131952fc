// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// ranksOf returns the rank processes that process pid has started.
func ranksOf(t *testing.T, pid int) []int {
	t.Helper()
	var ranks []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for _, text := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); strings.TrimSpace(
				string(name)) == "ddlemu-rank" {
				ranks = append(ranks, child)
			}
		}
	}
	return ranks
}

// waitForTraffic waits until the job of the only fabric in dir has carried bytes.
func waitForTraffic(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, l := range links(t, dir) {
			// On the kernel datapath, the first packets of a connection are counted too.
			if l.Bytes > 64<<10 {
				return
			}
		}
	}
	t.Fatal("no bytes crossed a link in 30 s")
}

type linkStatus struct {
	From         string  `json:"from"`
	To           string  `json:"to"`
	BandwidthBPS float64 `json:"bandwidth_bps"`
	LatencyNS    int64   `json:"latency_ns"`
	Bytes        uint64  `json:"bytes"`
}

// links returns the links in the status of the only fabric in dir; none if there is no fabric.
func links(t *testing.T, dir string) []linkStatus {
	t.Helper()
	out, err := ddlemu(t.Context(), t, dir, nil, "status", "--json").Output()
	if err != nil {
		return nil
	}
	var s struct {
		Links []linkStatus `json:"links"`
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return nil
	}
	return s.Links
}

func TestKilledRankIsAnErrorForTheOthers(t *testing.T) {
	for _, tc := range [][2]string{{"2.22", "shm"}, {"2.29", "shm"}, {"2.29", "kernel"}} {
		version, datapath := tc[0], tc[1]
		t.Run(version+" "+datapath, func(t *testing.T) {
			if datapath == "kernel" {
				needs.Root(t, "the kernel datapath")
			}
			dir := folder(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := ddlemu(ctx, t, dir, nil, "bench", "allreduce", "--profile", "eth1", "--set", "datapath="+datapath,
				"--ranks", "2", "-b", "16M", "-e", "16M", "-n", "100", "--set", "time_scale=1", "--nccl", version)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitForTraffic(t, dir)
			ranks := ranksOf(t, cmd.Process.Pid)
			if len(ranks) != 2 {
				t.Fatalf("%d ranks", len(ranks))
			}
			// The rank is a child of the command that this test started.
			if err := syscall.Kill(ranks[1], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			for time.Since(killed) < 10*time.Second && len(ranksOf(t, cmd.Process.Pid)) > 0 {
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(killed)
			err := cmd.Wait()
			if took > 2*time.Second {
				t.Errorf("the other rank took %v to end, want 2 s at most", took)
			}
			if err == nil || !strings.Contains(stderr.String(), "rank 1 of the job died") {
				t.Errorf("bench ended with %v and said:\n%s", err, stderr.String())
			}
		})
	}
}

func TestTwoJobsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	var group sync.WaitGroup
	results, profiles := make([]result, 2), []string{"eth1", "eth10"}
	for i := range profiles {
		group.Go(func() {
			results[i] = bench(t, dir, nil, "allreduce", "--profile", profiles[i], "--ranks", "2", "-b", "1M", "-e",
				"4M", "-f", "4", "-n", "20", "-w", "1")
		})
	}
	group.Wait()
	for i, r := range results {
		if r.Header.Profile != profiles[i] {
			t.Fatalf("job %d ran on %s", i, r.Header.Profile)
		}
		exact(t, r)
	}
}

// The pipe of the bench is small: it is full before the last row is measured, and the bench waits until this test has
// changed the links and reads on. The fabric is the bench's own, so the change must name it, and the bench is INVALID.
func TestShapeWhileRunning(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, dir, nil, "bench", "allreduce", "--profile", "eth1", "--ranks", "2", "-b", "1M", "-e", "1M",
		"-n", "2", "-w", "1", "-N", "60", "--csv")
	stdout, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	const page = 4096 // the smallest pipe
	if size, err := unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, page); err != nil || size != page {
		t.Fatalf("a pipe of %d bytes: %v", size, err)
	}
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var out strings.Builder
	lines := bufio.NewScanner(stdout)
	for rows := 0; rows < 4 && lines.Scan(); fmt.Fprintln(&out, lines.Text()) {
		if strings.HasPrefix(lines.Text(), "1048576,") {
			rows++
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+state.Suffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("fabrics %v: %v", files, err)
	}
	name := strings.TrimSuffix(filepath.Base(files[0]), state.Suffix)
	shape := ddlemu(ctx, t, dir, nil, "shape", "--fabric", name, "--bw", "500Mbps")
	if text, err := shape.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if all := links(t, dir); len(all) != 2 || all[0].BandwidthBPS != 500e6 || all[1].BandwidthBPS != 500e6 {
		t.Fatalf("status after shape: %+v", all)
	}
	for lines.Scan() {
		fmt.Fprintln(&out, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"links were changed while the job ran (shape * bw=500Mbps)", "verdict: INVALID"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	times := csvTimes(t, out.String())
	// The latencies do not double.
	if ratio := times[len(times)-1] / times[0]; ratio < 1.98 || ratio > 2 {
		t.Errorf("half of the bandwidth: iterations take %.3f times as long (%v)", ratio, times)
	}
}

// csvTimes returns the measured times of a CSV output, in row order.
func csvTimes(t *testing.T, text string) []float64 {
	t.Helper()
	var times []float64
	column := -1
	for _, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, ",")
		if column < 0 {
			for i, f := range fields {
				if f == "time_us" {
					column = i
				}
			}
			if column < 0 {
				t.Fatalf("no column time_us in %q", line)
			}
			continue
		}
		v, err := strconv.ParseFloat(fields[column], 64)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		times = append(times, v)
	}
	if len(times) < 4 {
		t.Fatalf("%d rows:\n%s", len(times), text)
	}
	return times
}

// program builds testdata/allreduce.cc as a user would.
func program(t *testing.T) string {
	t.Helper()
	return compile(t, "allreduce")
}

// compile compiles a program of testdata against the software CUDA, with further arguments of the compiler. Tests that
// ask for the same program share it.
func compile(t *testing.T, name string, more ...string) string {
	t.Helper()
	args := append([]string{"testdata/" + name + ".cc", "-I" + built.Path(t, "softcuda", "include"),
		"-L" + built.Path(t, "softcuda", "lib"), "-lnccl", "-lcudart"}, more...)
	once, _ := compiled.LoadOrStore(fmt.Sprint(args), sync.OnceValues(func() (string, error) {
		folder, err := os.MkdirTemp(scratch, "")
		if err == nil {
			err = os.Chmod(folder, 0o755) // TestRunOnKernelForAUser
		}
		if err != nil {
			return "", err
		}
		bin := filepath.Join(folder, name)
		if out, err := exec.Command("g++", append(args, "-o", bin)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w:\n%s", err, out)
		}
		return bin, nil
	}))
	bin, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestAnyProgramRunsOnTheSoftwareCUDA(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, version := range []string{"2.22", "2.29"} {
		dir := folder(t)
		out, err := ddlemu(t.Context(), t, dir, nil, "run", "--profile", "eth10", "--soft-cuda", "--nccl", version,
			"--", bin).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		for _, want := range []string{"rank 0 of 2: NCCL " + version, "rank 1 of 2: NCCL " + version, "all right",
			"verdict: "} {
			if !strings.Contains(string(out), want) {
				t.Errorf("NCCL %s: no %q in\n%s", version, want, out)
			}
		}
	}
}

// Without ddlemu around it, a job makes a fabric for itself, says so once, and removes it.
func TestBareProgram(t *testing.T) {
	t.Parallel()
	bin, dir := program(t), folder(t)
	lib := built.Path(t, "softcuda", "lib") + ":" + built.Path(t, "lib")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("base: eth10\nlink: {latency: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		env  []string
		says []string
	}{
		{name: "nothing set", says: []string{"loopback", "nothing is shaped", "verdict on fabric adhoc-"}},
		{name: "a profile", env: []string{"DDLEMU_PROFILE=eth10"}, says: []string{"eth10", "nodes 2"}},
		{name: "a fabric that is not up", env: []string{"DDLEMU_FABRIC=nope"},
			says: []string{"will NOT be emulated", "nope"}},
		{name: "a rank beyond the fabric", env: []string{"DDLEMU_NODE=7"},
			says: []string{"will NOT be emulated", "DDLEMU_NODE"}},
		{name: "no such profile", env: []string{"DDLEMU_PROFILE=eth100"},
			says: []string{"will NOT be emulated", "eth10"}},
		{name: "a kind of GPU that CUDA has not shown", env: []string{"DDLEMU_PROFILE=eth10", "DDLEMU_GPU=h100-sxm"},
			says: []string{"will NOT be emulated", `shows GPUs of kind "" and the fabric has "h100-sxm"`}},
		{name: "a bad variable", env: []string{"DDLEMU_BW=100"},
			says: []string{"will NOT be emulated", `DDLEMU_BW: "100" has no unit`}},
		{name: "a bad file", env: []string{"DDLEMU_FILE=" + bad},
			says: []string{"will NOT be emulated", bad + `:2: link.latency: "5" is not a duration`}},
	} {
		for _, name := range []string{"libgoemu.so", "goemu"} {
			cmd := exec.CommandContext(t.Context(), bin)
			cmd.Env = append(built.Environ(), "DDLEMU_DIR="+dir, "LD_LIBRARY_PATH="+lib, "NCCL_NET_PLUGIN="+name,
				"NCCL_SOCKET_IFNAME=lo")
			cmd.Env = append(cmd.Env, tc.env...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v:\n%s", tc.name, err, out)
			}
			for _, want := range tc.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s, NCCL_NET_PLUGIN=%s: no %q in\n%s", tc.name, name, want, out)
				}
			}
			if n := strings.Count(string(out), "nodes, "); n > 1 {
				t.Errorf("%s: said %d times\n%s", tc.name, n, out)
			}
		}
	}
}

// waitForPID waits for a process to write its number into a file, and returns it.
func waitForPID(t *testing.T, path string) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		return pid
	}
	t.Fatalf("no %s after 20 s", path)
	return 0
}

// If the launcher is killed, its programs end, also those that are no ranks yet.
func TestKilledLauncherEndsItsPrograms(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"the launcher":                `sleep 300 & echo $! >%[1]s; kill -9 $$`,
		"one that a shell waited for": `sh -c 'sleep 300 & echo $! >%[1]s; kill -9 $$'; exit $?`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			cmd := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "eth10", "--nodes", "2", "--clock",
				"virtual", "--", "bash", "-c", fmt.Sprintf(script, file))
			cmd.WaitDelay = 5 * time.Second // a program that still runs has the pipe
			out, _ := cmd.CombinedOutput()  // its status is checked below
			if got := cmd.ProcessState.ExitCode(); got != 128+9 {
				t.Errorf("status %d: %s", got, out)
			}
			pid := waitForPID(t, file)
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Errorf("its program still runs: %v", err)
			}
		})
	}
}

// gc removes what a killed command leaves behind, but nothing of a running command.
func TestKilledCommandIsCleanedUp(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	// Its ranks have joined and left: only the command keeps the fabric.
	cmd := ddlemu(t.Context(), t, dir, nil, "run", "--profile", "eth10", "--soft-cuda", "--", "sh", "-c",
		`"$0" >&2; echo $$; exec sleep 60`, program(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	gc := func() string {
		t.Helper()
		text, err := ddlemu(t.Context(), t, dir, nil, "gc").Output() // stderr may say that NCCL has left files
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return string(text)
	}
	if text := gc(); text != "nothing to remove\n" {
		t.Errorf("gc beside a running command: %s", text)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if text := gc(); !strings.Contains(text, "the command that made it is gone") {
		t.Errorf("gc after the command was killed: %s", text)
	}
}
