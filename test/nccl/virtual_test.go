// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// The clock of the bench on the software CUDA is virtual: the times of real NCCL are the same to
// the last digit each time, also while other programs use both cores, and VALID without a time
// scale.
func TestVirtualTimeIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{
		{"allreduce", "--ranks", "2", "--nccl", "2.22", "-e", "4M"},
		{"allreduce", "--ranks", "2", "--nccl", "2.29", "-e", "4M"},
		{"allreduce", "--ranks", "4", "--nodes", "2", "--nccl", "2.29", "-e", "1M"},
		{"alltoall", "--ranks", "4", "--nccl", "2.22", "-e", "1M"},
	} {
		t.Run(strings.Join(tc, " "), func(t *testing.T) {
			dir := folder(t)
			args := append(tc, "--profile", "ndr400", "-b", "8", "-f", "16", "-n", "5", "-w", "1")
			first := bench(t, dir, nil, args...)
			if first.Verdict != "VALID" || first.Header.Clock != "virtual" || first.Header.TimeScale != 1 {
				t.Errorf("verdict %s %q, clock %s, time scale %v", first.Verdict, first.Reasons, first.Header.Clock,
					first.Header.TimeScale)
			}
			occupy(t)
			if second := bench(t, dir, nil, args...); !reflect.DeepEqual(first.Rows, second.Rows) {
				t.Errorf("with two busy loops beside it:\n%+v\nwithout:\n%+v", second.Rows, first.Rows)
			}
		})
	}
}

// In virtual time real NCCL takes the time that the model computes from its decisions, whatever
// it decides: algorithms, protocols, several GPUs per node, TCP, and hosts that cost time. Random
// draws are left out, because the model's are others.
func TestVirtualTimeIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		collective, algo, proto, version string
		args                             []string
	}{
		{"allreduce", "Ring", "Simple", "2.22", nil},
		{"allreduce", "Ring", "LL128", "2.29", nil},
		{"allreduce", "Tree", "LL", "2.29", nil},
		{"allreduce", "Tree", "Simple", "2.22", []string{"--nodes", "2"}},
		{"allreduce", "Ring", "Simple", "2.22", []string{"--profile", "t4-efa"}},
		{"allgather", "PAT", "Simple", "2.29", nil},
		{"reducescatter", "PAT", "Simple", "2.29", nil},
		{"reducescatter", "Ring", "LL", "2.22", []string{"--profile", "eth10"}},
		{"broadcast", "Ring", "Simple", "2.29", []string{"--profile", "eth10"}},
		{"reduce", "Ring", "LL128", "2.22", nil},
		// The root's sends are complete when they are posted, so it runs ahead, until the send buffer is full.
		{"broadcast", "Ring", "LL", "2.22", []string{"--profile", "eth10", "-n", "4"}},
		{"reduce", "Ring", "LL128", "2.29", []string{"--profile", "eth10", "-b", "1M", "-n", "20"}},
		{"alltoall", "", "", "2.29", []string{"--nodes", "2"}},
		{"sendrecv", "", "", "2.22", []string{"--profile", "eth10"}},
		{"gather", "", "", "2.22", []string{"--profile", "eth10", "--nodes", "2", "-r", "3"}},
		{"gather", "", "", "2.29", []string{"-r", "2"}},
		{"scatter", "", "", "2.22", []string{"-r", "1"}},
		{"scatter", "", "", "2.29", []string{"--profile", "eth10", "--nodes", "2"}},
		{"hypercube", "", "", "2.22", []string{"--profile", "eth10"}},
		{"hypercube", "", "", "2.29", []string{"--nodes", "2"}},
		// The receives of all exchanges are posted before the first one has ended.
		{"hypercube", "", "", "2.29", []string{"--ranks", "16", "-b", "1M", "-e", "1M"}},
	} {
		t.Run(fmt.Sprint(tc.collective, tc.algo, tc.proto, tc.version, tc.args), func(t *testing.T) {
			var env []string
			if tc.algo != "" {
				env = []string{"NCCL_ALGO=" + tc.algo, "NCCL_PROTO=" + tc.proto}
			}
			args := append([]string{tc.collective, "--set", "link.jitter=none", "--nccl", tc.version, "-f", "16", "-w", "1"},
				tc.args...)
			for _, flag := range [][]string{{"--profile", "ndr400"}, {"--ranks", "4"}, {"-b", "64"}, {"-e", "1M"},
				{"-n", "3"}} {
				if !slices.Contains(tc.args, flag[0]) {
					args = append(args, flag...)
				}
			}
			exact(t, bench(t, folder(t), env, args...))
		})
	}
}

// occupy keeps two cores busy until the test ends.
func occupy(t *testing.T) {
	t.Helper()
	for range 2 {
		loop := exec.Command("sh", "-c", "while :; do :; done")
		loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = loop.Process.Kill()
			_ = loop.Wait()
		})
	}
}

// Programs that know nothing of the virtual clock run on it, whatever they do with their
// threads, and their times are the same each time.
func TestVirtualTimeOfAnyProgram(t *testing.T) {
	t.Parallel()
	bin := compile(t, "threads")
	for _, version := range []string{"2.22", "2.29"} {
		for _, name := range []string{"destroy", "group", "nonblocking", "query", "handover", "look", "virtual",
			"repeat", "connect", "storm", "full"} {
			t.Run(version+" "+name, func(t *testing.T) {
				first := runVirtual(t, nil, version, bin, name)
				if len(times(first)) != 2 || !strings.Contains(first, "verdict: VALID") {
					t.Fatalf("output:\n%s", first)
				}
				occupy(t)
				if second := runVirtual(t, nil, version, bin, name); !slices.Equal(times(first), times(second)) {
					t.Errorf("with two busy loops beside it:\n%s\nwithout:\n%s", second, first)
				}
			})
		}
		t.Run(version+" abort", func(t *testing.T) {
			if out := runVirtual(t, nil, version, bin, "abort"); strings.Count(out, ": aborted") != 2 {
				t.Errorf("output:\n%s", out)
			}
		})
	}
}

// A thread that was woken and has got no core since works: time stands still until it has.
func TestVirtualTimeWaitsForAThreadWithoutACore(t *testing.T) {
	t.Parallel()
	needs.Root(t, "a program that takes a whole core")
	for _, version := range []string{"2.22", "2.29"} {
		out := runVirtual(t, nil, version, compile(t, "threads"), "starved")
		if !strings.Contains(out, "rank 1: 0 ns late") || !strings.Contains(out, "verdict: VALID") {
			t.Errorf("NCCL %s:\n%s", version, out)
		}
	}
}

// So does one that a function of cudaLaunchHostFunc has woken, or the end of another thread.
func TestVirtualTimeWaitsForAThreadThatWasWoken(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"callback", "ended"} {
		out := runVirtual(t, nil, "2.29", compile(t, "threads"), name)
		if !strings.Contains(out, "rank 0: 0 ns late") || !strings.Contains(out, "rank 1: 0 ns late") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// And for a rank that waits in NCCL for the others of its node, after one of them has released it by a store in memory.
// NCCL 2.29 waits so only with registered buffers, and would keep the clock from moving: it is spared that.
func TestVirtualTimeWaitsForARankThatWasReleased(t *testing.T) {
	t.Parallel()
	for version, register := range map[string]string{"2.22": "REGISTER=0", "2.29": "REGISTER=1"} {
		env := []string{"NCCL_ALGO=NVLS", "DDLEMU_GPUS_PER_NODE=3", "DDLEMU_GPU=h100-sxm", register}
		out := runVirtualOn(t, 1, env, version, compile(t, "threads"), "gather")
		if strings.Count(out, ": 0 ns late") != 3 {
			t.Errorf("NCCL %s: 3 ranks are to be 0 ns late:\n%s", version, out)
		}
	}
}

// A launch waits while a stream's queue is full, as on a GPU. So the memory of the ranks does not grow with the number
// of iterations, of which each took 10 KB.
func TestMemoryDoesNotGrowWithIterations(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.22", "2.29"} {
		t.Run(version, func(t *testing.T) {
			cmd := ddlemu(t.Context(), t, folder(t), nil, "bench", "allreduce", "--profile", "ndr400", "--nccl",
				version, "--ranks", "2",
				"-b", "8", "-e", "8", "-w", "1", "-n", "20000")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended, err := make(chan struct{}), error(nil)
			go func() {
				err = cmd.Wait()
				close(ended)
			}()
			largest := peakOfRanks(t, cmd.Process.Pid, ended)
			if err != nil || !strings.Contains(out.String(), "verdict: VALID") {
				t.Fatalf("%v:\n%s", err, &out)
			}
			const limit = 100 << 10 // KB; 220 << 10 without the limit of the queue
			if largest == 0 || largest > limit {
				t.Errorf("the largest rank took %d KB, want 1 to %d", largest, limit)
			}
		})
	}
}

// peakOfRanks returns the largest memory in KB that a rank of a process has had, until ended is closed. The maximum
// that wait4 tells of a child is no less than the memory of this process was.
func peakOfRanks(t *testing.T, pid int, ended <-chan struct{}) (largest int) {
	for {
		for _, rank := range ranksOf(t, pid) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", rank))
			kb := 0
			if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
				fmt.Sscan(after, &kb)
			}
			largest = max(largest, kb)
		}
		select {
		case <-ended:
			return largest
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Several communicators, one after another: a rank that makes the next one waits for others, by
// sockets, which still need time to end the one before.
func TestVirtualTimeOfSeveralCommunicators(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, version := range []string{"2.22", "2.29"} {
		out := runVirtual(t, []string{"WORLD_SIZE=4", "ROUNDS=3"}, version, bin)
		for _, want := range []string{"all right", "verdict: VALID"} {
			if !strings.Contains(out, want) {
				t.Errorf("NCCL %s: no %q in\n%s", version, want, out)
			}
		}
	}
}

// The threads of communicators that have nothing to do sleep. Those of NCCL 2.29 woke each other thousands of times a
// second, and so kept the clock from going on.
func TestVirtualTimeOfCommunicatorsAtRest(t *testing.T) {
	t.Parallel()
	bin := compile(t, "threads")
	for _, version := range []string{"2.22", "2.29"} {
		out := runVirtual(t, nil, version, bin, "rest")
		lines := regexp.MustCompile(`(?m)^rank \d: (\d+) wakeups$`).FindAllStringSubmatch(out, -1)
		if len(lines) != 2 || !strings.Contains(out, "verdict: VALID") {
			t.Errorf("NCCL %s:\n%s", version, out)
		}
		for _, line := range lines {
			if n, err := strconv.Atoi(line[1]); err != nil || n > 100 {
				t.Errorf("NCCL %s: %s in half a second, want a few: a sleep lasts at most 100 ms", version, line[0])
			}
		}
	}
}

// Ranks that destroy their communicators and exit at once leave others whose sends, in virtual time,
// are not complete yet.
func TestVirtualTimeOfRanksThatLeave(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, version := range []string{"2.22", "2.29"} {
		out := runVirtualOn(t, 16, []string{"WORLD_SIZE=16", "COUNT=64"}, version, bin)
		for _, want := range []string{"all right", "verdict: VALID"} {
			if !strings.Contains(out, want) {
				t.Errorf("NCCL %s: no %q in\n%s", version, want, out)
			}
		}
	}
}

// A rank that waits for one that computes takes no time of a core, and the computation takes
// no virtual time.
func TestVirtualTimeStandsStillWhileARankComputes(t *testing.T) {
	bin := compile(t, "threads")
	out := runVirtual(t, nil, "2.22", bin, "compute")
	if share := regexp.MustCompile(`rank 0: (\d+) % of a core`).FindStringSubmatch(out); share == nil ||
		len(share[1]) > 1 {
		t.Errorf("rank 0 is to take less than 10 %% of a core:\n%s", out)
	}
	for _, line := range times(out) {
		if !regexp.MustCompile(`: \d{5} ns`).MatchString(line) {
			t.Errorf("%s, want tens of microseconds", line)
		}
	}
}

// All threads that take part in the clock are delayed at random, where their order matters. The
// times stay the same.
func TestVirtualTimeDoesNotDependOnDelays(t *testing.T) {
	t.Parallel()
	delayed := []string{"DDLEMU_PLUGIN_DIR=" + built.Path(t, "faults"), "DDLEMU_FAULT=clock 300 20"}
	for _, collective := range []string{"allreduce", "alltoall"} {
		rows := func(env []string) string {
			out, err := ddlemu(t.Context(), t, folder(t), env, "bench", collective, "--profile", "ndr400", "--ranks",
				"4", "-b", "64", "-e", "64K", "-f", "32", "-n", "4", "--csv").Output()
			if err != nil || !strings.Contains(string(out), "VALID") || strings.Contains(string(out), "INVALID") {
				t.Errorf("%s with %q: %v\n%s", collective, env, err, out)
			}
			return regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(out), "")
		}
		if want, got := rows(nil), rows(delayed); got != want {
			t.Errorf("%s:\n%s\nand with delays:\n%s", collective, want, got)
		}
	}
	bin := compile(t, "threads")
	for _, program := range []string{"repeat", "handover", "group"} {
		want, got := times(runVirtual(t, nil, "2.29", bin, program)),
			times(runVirtual(t, delayed, "2.29", bin, program))
		if len(got) == 0 || !slices.Equal(want, got) {
			t.Errorf("%s: %q, and with delays %q", program, want, got)
		}
	}
}

// CPU time takes virtual time if that is asked for. Rank 1 computes for a second: three of virtual
// time, or less if the host gives it less than a core. Rank 0 waits meanwhile, which is no computation.
func TestVirtualTimeOfCPUTime(t *testing.T) {
	out := runVirtual(t, []string{"DDLEMU_COMPUTE=cpu:3"}, "2.29", compile(t, "threads"), "compute")
	all := regexp.MustCompile(`rank \d: (\d+) ns`).FindAllStringSubmatch(out, -1)
	for _, m := range all {
		if ns, err := strconv.Atoi(m[1]); err != nil || ns < 1e9 || ns > 3.2e9 {
			t.Errorf("%s, want up to 3 s", m[0])
		}
	}
	computed := map[string]int{}
	for _, m := range regexp.MustCompile(`rank (\d): computed for (\d+) ns`).FindAllStringSubmatch(out, -1) {
		computed[m[1]], _ = strconv.Atoi(m[2])
	}
	if computed["0"] > 1e8 || computed["1"] < 1e9 || computed["1"] > 3.2e9 {
		t.Errorf("the ranks computed for %v ns, want nearly nothing and up to 3 s", computed)
	}
	if len(all) != 2 || !strings.Contains(out, "CPU time times 3 is added: not repeatable") ||
		!strings.Contains(out, "verdict: VALID") {
		t.Errorf("output:\n%s", out)
	}
}

// The ranks of an MPI program wait for each other in MPI, which polls.
func TestVirtualTimeOfAnMPIProgram(t *testing.T) {
	t.Parallel()
	var flags []string
	for _, what := range []string{"compile", "link"} {
		out, err := exec.Command(needs.Program(t, "mpicc.openmpi"), "--showme:"+what).Output()
		if err != nil {
			t.Fatalf("find Open MPI: %v", err)
		}
		flags = append(flags, strings.Fields(string(out))...)
	}
	bin := compile(t, "mpi", append(flags, "-DOMPI_SKIP_MPICXX")...)
	var first []string
	for _, version := range []string{"2.22", "2.22", "2.29"} {
		out := runVirtual(t, nil, version, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2", bin)
		got := times(out)
		if len(got) != 2 || !strings.Contains(out, "verdict: VALID") {
			t.Errorf("NCCL %s:\n%s", version, out)
		}
		if first == nil {
			first = got
		} else if version == "2.22" && !slices.Equal(first, got) {
			t.Errorf("NCCL %s: %q, then %q", version, first, got)
		}
	}
}

// The clock does not wait for a thread for ever. If it goes on without one, the job is INVALID.
func TestVirtualTimeGoesOnWithoutAThread(t *testing.T) {
	t.Parallel()
	bin := compile(t, "threads")
	for _, program := range []string{"compute", "lost"} {
		out := runVirtual(t, []string{"DDLEMU_COMPUTE_HOLD=300ms"}, "2.22", bin, program)
		for _, want := range []string{"rank 0: ", "the virtual clock goes on without it", "verdict: INVALID",
			"give --compute-hold 1m"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", program, want, out)
			}
		}
	}
}

// A program whose ranks wait for each other fails soon, and is told who waits for whom.
func TestVirtualTimeTellsADeadlock(t *testing.T) {
	t.Parallel()
	bin := compile(t, "threads")
	for _, tc := range [][2]string{{"2.22", "crossed"}, {"2.29", "crossed"}, {"2.22", "silent"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		out, err := ddlemu(ctx, t, folder(t), nil, "run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda",
			"--nccl", tc[0], "--", bin, tc[1]).CombinedOutput()
		if err == nil || time.Since(begin) > 10*time.Second {
			t.Errorf("NCCL %s: %v after %v", tc, err, time.Since(begin))
		}
		for _, want := range []string{"ddlemu: deadlock: every rank waits", "rank 0 waits for a message from rank 1",
			"rank 1 waits for a message from rank 0",
			"the ranks waited for each other", "verdict: INVALID"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("NCCL %s: no %q in\n%s", tc, want, out)
			}
		}
	}
}

// times are the lines of a program's output that tell its times.
func times(out string) []string {
	lines := regexp.MustCompile(`rank \d: \d+ ns`).FindAllString(out, -1)
	slices.Sort(lines)
	return lines
}

// runVirtual runs a program on a fabric of two nodes with a virtual clock and returns its output.
func runVirtual(t *testing.T, env []string, version string, command ...string) string {
	t.Helper()
	return runVirtualOn(t, 2, env, version, command...)
}

func runVirtualOn(t *testing.T, nodes int, env []string, version string, command ...string) string {
	t.Helper()
	if !strings.Contains(command[0], "/") {
		needs.Program(t, command[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{"run", "--profile", "ndr400", "--nodes", strconv.Itoa(nodes), "--clock", "virtual", "--soft-cuda",
		"--nccl", version, "--"}
	out, err := ddlemu(ctx, t, folder(t), env, append(args, command...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return string(out)
}

// A setting with which NCCL does what nobody can see is refused.
func TestVirtualTimeRefusesWhatItCannotSee(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"NCCL_SHM_USE_CUDA_MEMCPY=1", "NCCL_LAUNCH_MODE=group"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := ddlemu(ctx, t, folder(t), []string{setting}, "run", "--profile", "ndr400", "--clock", "virtual",
			"--soft-cuda", "--", program(t))
		name, _, _ := strings.Cut(setting, "=")
		if out, err := cmd.CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "cannot tell what NCCL does with "+name+": unset it") {
			t.Errorf("%s: %v:\n%s", setting, err, out)
		}
	}
}
